"""RMSNorm over the last dimension, with or without a weight."""
