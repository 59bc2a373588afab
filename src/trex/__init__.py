"""A reproduction of SLAI T-Rex (arXiv 2607.20145): post-training DeepSeek-V4, from layout to evaluation."""
