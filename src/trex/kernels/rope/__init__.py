"""Partial rotary position embedding: interleaved pairs in the trailing channels, and its inverse."""
