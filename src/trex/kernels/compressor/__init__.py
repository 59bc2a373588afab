"""The compressor of CSA and HCA: one entry per block of tokens."""
