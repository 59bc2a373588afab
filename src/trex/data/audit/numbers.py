"""Gate on numbers: those of the text that the program does not use, and those of the program that the text has not.

Notes only: a text may tell what does not matter, and a program may compute what the text says in words.
"""

from collections.abc import Iterable, Iterator
from itertools import islice

from trex.data.audit.facts import Facts
from trex.data.audit.findings import Finding, line
from trex.data.audit.quantities import CodeNumbers, Quantity, digits, of_code, power_of_ten, prose, words
from trex.data.audit.rows import Row

CONVERSIONS = frozenset({0, 1, 2, -1, 0.5, 0.01, 7, 12, 24, 30, 52, 60, 100, 365, 1000, 1440, 3600})
UNITS = (1.0, 1e3, 1e-3)  # a program may count in thousands
SHOWN = 10  # numbers of a finding's evidence
MOST = 400  # different numbers of a text that are combined with each other
NEAR = 1e-9  # relative


def numbers(row: Row, facts: Facts) -> Iterator[Finding]:
    """Notes on numbers that stand only in the text, or only in the program."""
    if facts.tree is None:
        return
    code = of_code(facts.tree)
    told = list(digits(prose(facts.told)))
    given = {q.value for content in row.files.values() for q in digits(_spaced(content))}
    stated = {value for q in told for value in _readings(q)} | words(facts.told)
    explained = _Values(stated | given | CONVERSIONS)
    sums = _Sums(sorted({value for q in told for value in _readings(q)})[:MOST])
    strange, parts = [], set[float]()
    for value in sorted(code.used):
        if any(abs(value) * unit in explained for unit in UNITS) or power_of_ten(value):
            continue
        pair = sums.find(abs(value))
        if pair:
            parts.update(pair)
        else:
            strange.append(value)
    if strange:
        evidence = f"{_shown(strange)} of the program not in the text, nor one sum, product or quotient of its numbers"
        yield Finding("numbers", "only in the program", line(evidence))
    unused = list(_unused(told, code, _Values(parts), _Values(given)))
    if unused:
        yield Finding("numbers", "only in the text", line(f"{_shown(unused)} of the text not in the program"))


class _Values:
    """Numbers that are looked up up to rounding."""

    def __init__(self, values: Iterable[float]) -> None:
        self._keys = {f"{abs(value):.9g}" for value in values}

    def __contains__(self, value: float) -> bool:
        return f"{abs(value):.9g}" in self._keys


class _Sums:
    """Numbers that are one sum, difference, product or quotient of two others."""

    def __init__(self, values: list[float]) -> None:
        self._found: dict[str, tuple[float, float]] = {}
        ordered = sorted(values)
        for k, a in enumerate(ordered):
            for b in ordered[k:]:
                for value in (a + b, b - a, a * b, *((a / b,) if b else ()), *((b / a,) if a else ())):
                    self._found.setdefault(f"{abs(value):.9g}", (a, b))

    def find(self, value: float) -> tuple[float, float] | None:
        """The two numbers that make a value, None where no two do."""
        return self._found.get(f"{value:.9g}")


def _readings(quantity: Quantity) -> Iterator[float]:
    """What a program may write for a number: a percentage as a share, a rise by it, what is left of it."""
    yield quantity.value
    if quantity.percent:
        share = quantity.value / 100
        yield from (share, 1 - share, 1 + share, 100 - quantity.value)
    if "/" in quantity.written:
        above, _, below = quantity.written.partition("/")
        yield from (float(above.replace(",", "")), float(below))


def _unused(told: list[Quantity], code: CodeNumbers, parts: _Values, given: _Values) -> Iterator[float]:
    known = _Values(code.used | code.anywhere)
    for quantity in dict.fromkeys(told):
        value = quantity.value
        near = (value + 1, value - 1) if value.is_integer() and value < 100 else ()  # range(1, 7) for 1 to 6
        if (
            value in (0, 1)
            or any(v * u in known or v in parts for u in UNITS for v in (*_readings(quantity), *near))
            or value in given
        ):
            continue
        yield value


def _spaced(content: str) -> str:
    """A data file with blanks where separators would join numbers, as in 1,200."""
    return content.replace(",", " , ")


def _shown(values: Iterable[float]) -> str:
    every = sorted(set(values))
    more = f" and {len(every) - SHOWN} more" if len(every) > SHOWN else ""
    return ", ".join(f"{value:.10g}" for value in islice(every, SHOWN)) + more
