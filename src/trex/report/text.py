"""Tables as plain text."""

from collections.abc import Sequence


def align(cells: Sequence[Sequence[str]]) -> str:
    """Rows of equally many texts as aligned lines, the first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])] for row in cells)
    return "\n".join("  ".join(line).rstrip() for line in lines)
