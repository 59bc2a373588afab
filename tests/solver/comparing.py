"""Models compared part by part, drawn at random, and read by HiGHS and Gurobi: shared by the tests of the formats."""

import math
import re
import tempfile
from dataclasses import fields
from pathlib import Path

import highspy
import numpy as np
from hypothesis import strategies as st

from trex.solver import highs
from trex.solver.gurobi_model import from_gurobi
from trex.solver.model import SOS, Function, Indicator, Model, ModelError

INF = math.inf
# Names with one or more brackets, which HiGHS refuses: replaced before it reads, put back after it.
BRACKETED = re.compile(
    r"\\.*|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
    r"|(?P<name>(?:[^\s\\\[\]+\-*^<>=:\d.]|\.(?!\d))[^\s\\\[\]+\-*^<>=:]*"
    r"(?:\[(?:[^\s\[\]]|\[[^\s\[\]]*\])*\][^\s\\\[\]+\-*^<>=:]*)+)"
)


def difference(a: Model, b: Model, skip: tuple[str, ...] = ()) -> str | None:
    """What differs between two models, exactly, entries in order; None where nothing does."""
    for part in fields(Model):
        one, other = getattr(a, part.name), getattr(b, part.name)
        same = np.array_equal(one, other) if isinstance(one, np.ndarray) else one == other
        if part.name not in skip and not same:
            return f"{part.name}: {one} is not {other}"
    return None


def meaning(model: Model) -> dict:
    """The parts by name, without entries of 0 and without their order within a row."""
    names = model.variables
    square = {row: terms for row, terms in model.quadratic_rows.items() if any(terms.values())}
    return {
        "sense": model.sense,
        "offset": model.offset,
        "variables": {
            name: (model.kinds[j], model.cost[j], model.lower[j], model.upper[j]) for j, name in enumerate(names)
        },
        "rows": [
            (
                {names[j]: c for j, c in sorted(model.row(row)) if c},
                {pair(names, *key): c for key, c in square.get(row, {}).items() if c},
                model.row_lower[row],
                model.row_upper[row],
            )
            for row in range(len(model.rows))
        ],
        "quadratic": {pair(names, *key): c for key, c in model.quadratic.items() if c},
        "sos": [(s.type, sorted(zip(s.weights, (names[j] for j in s.members), strict=True))) for s in model.sos],
        "indicators": [
            (names[i.binary], i.active, {names[j]: c for j, c in i.terms if c}, i.lower, i.upper)
            for i in model.indicators
        ],
        "functions": [
            (f.kind, names[f.result], sorted(names[j] for j in f.arguments), f.constant) for f in model.functions
        ],
    }


def pair(names: tuple[str, ...], i: int, j: int) -> tuple[str, ...]:
    return tuple(sorted((names[i], names[j])))


def highs_reads(text: str, suffix: str = ".lp") -> Model | None:
    """What HiGHS reads, bracketed names met; None where it fails or warns, unless that duplicate terms are summed."""
    aliases: dict[str, str] = {}

    def alias(found: re.Match) -> str:
        return aliases.setdefault(found["name"], f"v__{len(aliases)}") if found["name"] else found[0]

    if suffix == ".lp":
        text = BRACKETED.sub(alias, text)
    with tempfile.TemporaryDirectory() as folder:
        path, log = Path(folder, f"model{suffix}"), Path(folder, "log")
        path.write_text(text + "\n")
        solver = highs.quiet()
        for option, value in (("log_to_console", False), ("log_file", str(log)), ("output_flag", True)):
            solver.setOptionValue(option, value)
        status = solver.readModel(str(path))
        said = [line for line in log.read_text(errors="replace").splitlines() if re.match("WARNING|ERROR", line)]
        # Of its warnings one loses nothing: duplicate terms are added up.
        if status == highspy.HighsStatus.kError or not all("appears more than once" in line for line in said):
            return None
    try:
        model = highs.unload(solver)
    except ModelError:
        return None  # infinite costs
    names = {short: name for name, short in aliases.items()}
    parts = {part.name: getattr(model, part.name) for part in fields(Model)}
    for part in ("variables", "rows"):
        parts[part] = tuple(names.get(name, name) for name in parts[part])
    return Model(**parts)


def gurobi_reads(env: object, text: str, suffix: str = ".lp") -> Model:
    """What Gurobi reads in a quiet environment; its errors pass through."""
    import gurobipy

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"model{suffix}")
        path.write_text(text)
        with gurobipy.read(str(path), env) as model:
            return from_gurobi(model)


NUMBERS = st.one_of(
    st.integers(-9, 9).map(float),
    st.floats(-1e19, 1e19, allow_nan=False).filter(lambda c: c == 0 or abs(c) > 1e-300),
    st.sampled_from([0.1, 1e-13, 1e-300, 1 / 3, 2.0**60, 123456789.125, -0.75]),
)
SIMPLE = st.integers(-40, 40).map(lambda quarters: quarters / 4)  # which no reader leaves out
LETTERS = "".join(map(chr, range(33, 127))) + "éßλ"


@st.composite
def names(draw: st.DrawFn, count: int, plain: bool = False) -> tuple[str, ...]:
    """Different names that the LP format has; `plain`: that Gurobi has too."""
    tail = st.text(LETTERS.translate(str.maketrans("", "", "\\[]+-*^<>=:")), max_size=4)
    inner = st.lists(st.text("abz019,.:_-+", max_size=3), max_size=2).map(
        lambda parts: "".join(f"[{p}]" for p in parts)
    )
    found = [f"{'xyzuvw'[draw(st.integers(0, 5))]}{j}" for j in range(count)]
    return tuple(name + ("" if plain else draw(inner) + draw(tail)) for name in found)


@st.composite
def models(draw: st.DrawFn, beyond: bool = True, ranged: bool = True, simple: bool = False) -> Model:
    """A Model with every part.

    `beyond`: parts other than linear rows and a quadratic objective. `ranged`: rows with two sides or none.
    `simple`: numbers and names that every reader takes.
    """
    numbers = SIMPLE if simple else NUMBERS
    count = draw(st.integers(1, 5))
    kinds, lower, upper = [], [], []
    for _ in range(count):
        kind = draw(st.sampled_from(("continuous", "integer", "binary", "semi-continuous", "semi-integer")))
        low, high = draw(numbers), draw(numbers)
        low, high = min(low, high), max(low, high)
        low, high = draw(st.sampled_from([(0.0, INF), (-INF, INF), (low, high), (low, INF), (-INF, high), (low, low)]))
        if kind.startswith("semi"):
            low, high = (abs(low) if math.isfinite(low) else 0.0), abs(high)
        if simple and "integer" in kind:  # Gurobi rounds such bounds
            low, high = (math.floor(side) if math.isfinite(side) else side for side in (low, high))
        if kind == "binary":
            kind, low, high = "integer", 0.0, 1.0
        kinds.append(kind), lower.append(low), upper.append(high)
    variable = st.integers(0, count - 1)
    sparse = st.dictionaries(variable, numbers, max_size=count)
    square = st.dictionaries(
        st.tuples(variable, variable).map(lambda pair: (min(pair), max(pair))), numbers.filter(bool), max_size=3
    )

    def sides() -> tuple[float, float]:
        low, high = sorted((draw(numbers), draw(numbers)))
        choices = [(low, INF), (-INF, high), (low, low)]
        return draw(st.sampled_from(choices + ([(low, high), (-INF, INF)] if ranged else [])))

    rows = [(draw(sparse), sides(), draw(square) if beyond else {}) for _ in range(draw(st.integers(0, 4)))]
    binaries = [j for j in range(count) if kinds[j] == "integer" and (lower[j], upper[j]) == (0, 1)]
    sos, indicators, functions = [], [], []
    if beyond:
        for number in range(draw(st.integers(0, 2))):
            members = draw(st.lists(variable, min_size=1, max_size=count, unique=True))
            weights = draw(st.lists(numbers, min_size=len(members), max_size=len(members), unique=True))
            sos.append(SOS(f"s{number}", draw(st.sampled_from((1, 2))), tuple(members), tuple(weights)))
        for number in range(draw(st.integers(0, 2)) if binaries else 0):
            terms, bounds = tuple(draw(sparse).items()), sides()
            indicators.append(
                Indicator(f"i{number}", draw(st.sampled_from(binaries)), draw(st.integers(0, 1)), terms, *bounds)
            )
        for number in range(draw(st.integers(0, 3))):
            kind = draw(st.sampled_from(("min", "max", "abs") + (("and", "or") if binaries else ())))
            pool = st.sampled_from(binaries) if kind in ("and", "or") else variable
            arguments = tuple(draw(st.lists(pool, min_size=1, max_size=1 if kind == "abs" else 3)))
            constant = draw(st.none() | numbers) if kind in ("min", "max") else None
            functions.append(Function(f"f{number}", kind, draw(pool), arguments, constant))
    entries = [list(terms.items()) for terms, _, _ in rows]
    return Model(
        sense=draw(st.sampled_from(("min", "max"))),
        offset=draw(numbers),
        variables=draw(names(count, simple)),
        kinds=tuple(kinds),
        cost=np.array([draw(numbers) for _ in range(count)]),
        lower=np.array(lower, dtype=float),
        upper=np.array(upper, dtype=float),
        rows=draw(names(len(rows), simple)),
        row_lower=np.array([low for _, (low, _), _ in rows], dtype=float),
        row_upper=np.array([high for _, (_, high), _ in rows], dtype=float),
        start=np.cumsum([0, *map(len, entries)]),
        index=np.array([j for row in entries for j, _ in row], dtype=np.int64),
        value=np.array([c for row in entries for _, c in row], dtype=float),
        quadratic=draw(square),
        quadratic_rows={number: terms for number, (_, _, terms) in enumerate(rows) if terms},
        sos=tuple(sos),
        indicators=tuple(indicators),
        functions=tuple(functions),
    )
