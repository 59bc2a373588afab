"""Cross-entropy of a linear head, in pieces of the tokens."""
