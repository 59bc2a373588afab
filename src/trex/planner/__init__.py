"""Predict a training step: pipeline schedules, their simulation and closed forms, traces."""
