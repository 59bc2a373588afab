"""Operators of DeepSeek-V4: call them through `trex.kernels.ops`.

Each operator has a folder. `reference.py` is the definition, plain PyTorch that computes in at least float32; beside
it lies one file per fast backend (`cpu.py`: formulas compiled by torch.compile). `ops` picks one by device, dtype
and size. `cases` and `accuracy` compare a backend with float64, `timing` measures it.
"""
