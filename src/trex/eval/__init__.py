"""Benchmarks and the judging of answers."""
