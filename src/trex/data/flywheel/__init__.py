"""The flywheel of training dialogues: seeds, intermediate representations, authors, gates, rounds and export."""
