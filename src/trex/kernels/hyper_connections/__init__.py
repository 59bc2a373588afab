"""Manifold-constrained hyper-connections (mHC): read from, mix and write to the parallel residual streams."""
