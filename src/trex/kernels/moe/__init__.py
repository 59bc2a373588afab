"""Mixture of experts: routing, bringing tokens to their experts and back, matrix products per expert."""
