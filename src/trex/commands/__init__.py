"""The groups of commands of `trex`, one module each."""
