"""LP text as a `Model`: the dialect of CPLEX, Gurobi, HiGHS, SCIP, Pyomo and PuLP; what a Model lacks is refused.

A number before a name is its coefficient without a blank too (`2x`), and `-` splits names, as in CPLEX and HiGHS.
"""

from dataclasses import dataclass, field

from trex.solver.builder import Builder, Row
from trex.solver.formats import lp_sections
from trex.solver.formats.binaries import make_binary
from trex.solver.formats.lp_rows import read_comparison, read_sum
from trex.solver.formats.tokens import LPError, Tokens
from trex.solver.model import Indicator, Model, ModelError

REFUSED = {
    "several": "several objectives",
    "objective": "a second objective",
    "cuts": "user cuts",
    "piecewise": "a piecewise-linear objective",
    "scenario": "scenarios",
}
SETS = {"sos": None, "sos1": 1, "sos2": 2}


@dataclass
class Kinds:
    """Variables listed as integer, binary or semi-continuous."""

    whole: set[str] = field(default_factory=set)
    binary: set[str] = field(default_factory=set)
    semi: set[str] = field(default_factory=set)


def read_lp(text: str, where: str) -> Model:
    """The model that LP text describes. Raises LPError with line and column."""
    tokens = Tokens(text, where)
    builder, kinds = Builder(), Kinds()
    _objective(tokens, builder)
    unnamed: list[int] = []
    seen: set[str] = set()
    while True:
        at = tokens.peek()
        section = tokens.take("section", "a section or End").text
        if section in REFUSED:
            tokens.error(f"{REFUSED[section]}: not represented", at)
        if section in seen and section in ("rows", "lazy"):
            tokens.error("this section is there twice", at)
        seen.add(section)
        if section == "end":
            break
        if section in ("rows", "lazy"):
            # A lazy constraint is a row that the solver need not look at early.
            _rows(tokens, builder, unnamed)
        elif section == "bounds":
            lp_sections.read_bounds(tokens, builder)
        elif section in SETS:
            lp_sections.read_sets(tokens, builder, SETS[section])
        elif section == "functions":
            lp_sections.read_functions(tokens, builder)
        else:
            names = lp_sections.read_names(tokens, builder)
            for word, listed in (("whole", kinds.whole), ("binary", kinds.binary), ("semi", kinds.semi)):
                if word in section:
                    listed |= names
    if tokens.peek().kind != "end of text":
        tokens.expected("nothing after End")
    _apply(kinds, builder)
    _name(builder, unnamed)
    try:
        make_binary(builder)
        return builder.model()
    except ModelError as error:
        raise LPError(where, str(error)) from None


def _objective(tokens: Tokens, builder: Builder) -> None:
    at = tokens.peek()
    if at.kind != "section":
        tokens.expected("the section Minimize or Maximize")
    if tokens.next().text == "several":
        tokens.error(f"{REFUSED['several']}: not represented", at)
    builder.sense = "max" if at.text == "maximum" else "min"
    tokens.label()
    total = read_sum(tokens, builder, "objective")
    if tokens.peek().kind not in ("section", "end of text"):
        tokens.expected("+, - or a section")
    after_number = tokens.tokens[tokens.place - 1].kind == "number" and not tokens.new_line()
    if after_number and tokens.peek().text not in ("rows", "end"):
        tokens.error("a section's word after a number: it is not clear whether it is a variable; begin a new line")
    columns = list(builder.columns.values())
    for j, cost in total.linear.items():
        columns[j].cost = cost
    builder.offset = total.constant
    builder.quadratic = total.quadratic


def _rows(tokens: Tokens, builder: Builder, unnamed: list[int]) -> None:
    while tokens.peek().kind not in ("section", "end of text"):
        name = tokens.label()
        ahead = [tokens.peek(k).kind for k in range(4)]
        if ahead == ["name", "compare", "number", "arrow"]:
            _indicator(tokens, builder, name)
            continue
        found = read_comparison(tokens, builder)
        if name is None:
            unnamed.append(len(builder.rows))
        builder.rows.append(Row(name or "", found.linear, found.lower, found.upper, found.quadratic))


def _indicator(tokens: Tokens, builder: Builder, name: str | None) -> None:
    """`b = 1 -> x + y <= 3`."""
    binary = builder.variable(tokens.variable())
    if tokens.next().text not in ("=", "=="):
        tokens.error("an indicator is compared by =", tokens.tokens[tokens.place - 1])
    at = tokens.peek()
    active = tokens.number()
    if active not in (0, 1):
        tokens.error(f"an indicator at {at.text}; accepted: 0, 1", at)
    arrow = tokens.next()
    if arrow.text != "->":
        tokens.error("an equivalence `<->`: not represented", arrow)
    found = read_comparison(tokens, builder)
    if found.quadratic:
        tokens.error("quadratic terms under an indicator: not represented", arrow)
    name = name or f"GC{len(builder.indicators)}"
    terms = tuple(found.linear.items())
    builder.indicators.append(Indicator(name, binary, int(active), terms, found.lower, found.upper))


def _apply(kinds: Kinds, builder: Builder) -> None:
    """A binary variable keeps what its bounds leave of [0, 1], wherever they stand. (HiGHS keeps bounds beyond it.)"""
    for name in kinds.whole | kinds.binary | kinds.semi:
        whole = name in kinds.whole or name in kinds.binary
        column = builder.column(name)
        column.kind = ("semi-" if name in kinds.semi else "") + ("integer" if whole else "continuous")
        if name in kinds.binary:
            column.lower, column.upper = max(column.lower, 0.0), min(column.upper, 1.0)


def _name(builder: Builder, unnamed: list[int]) -> None:
    """Rows without a name get R and their number from 0, as Gurobi names them, unless that is taken."""
    taken = {row.name for row in builder.rows}
    for number in unnamed:
        name = f"R{number}"
        while name in taken:
            name += "_"
        builder.rows[number].name = name
