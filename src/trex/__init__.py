"""T-Rex."""
