"""A user's own documents made ready for training: read, cleaned, filtered, de-duplicated, kept out of benchmarks."""
