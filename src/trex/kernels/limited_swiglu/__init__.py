"""SwiGLU with clamped inputs, optionally times one routing weight per token."""
