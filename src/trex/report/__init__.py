"""Figures and tables, from records and published numbers."""
