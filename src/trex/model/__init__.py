"""DeepSeek-V4 for training: configuration, weights and their counts, layout over devices, the model itself."""
