"""Training: recipes, learning-rate schedule, trainer, metrics."""
