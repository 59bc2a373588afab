"""Shared-KV attention over a window, compressed entries and a sink, in one softmax."""
