"""What others reported, as data: every number with its unit, label and source.

    from trex.published import load
    load("kernel_speedups")["rmsnorm_forward"]["speedup"].value  # 11.9

One YAML file per table in this folder; `names()` lists them. Derived numbers are formulas over published ones,
evaluated on load.
"""

from trex.published.tables import Number, PublishedError, Row, Table, load, names

__all__ = ["Number", "PublishedError", "Row", "Table", "load", "names"]
