"""Recombination: a family's model with clauses left out, clauses added or a term of the objective weighted.

Every change is made twice: in the text of the model's source, which a dialogue's program shows, and in the Pyomo model
itself, which that program's is compared with.
"""

import ast
import inspect
import itertools
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pyomo.environ as pyo

from trex.data import families, gates
from trex.data.contract import BINARY, Clause, Contract, Variables
from trex.data.family import Family
from trex.data.flywheel.representation import Change, Decision, Members, Origin, Parameter, Representation, Rule
from trex.data.problem import DataError, Field, Instance, Problem
from trex.data.wording import filled

# clauses that a problem makes sense without, and that no other sentence takes for granted
DROPPABLE: Mapping[str, tuple[str, ...]] = {
    "blending": ("market", "order"),
    "capacity_planning": ("budget", "room"),
    "cash_flow_matching": ("available",),
    "contract_allocation": ("winners",),
    "cropping": ("market",),
    "cutting_stock": ("available",),
    "diet": ("most",),
    "product_mix": ("least", "market"),
    "production_planning": ("storage",),
    "revenue_management": ("promised", "spare"),
    "set_partitioning": ("crews",),
    "shortest_path": ("budget",),
    "staff_scheduling": ("core", "agency_limit"),
    "storage_dispatch": ("final",),
    "transportation": ("route",),
    "transshipment": ("capacity",),
    "unit_commitment": ("reserve",),
    "workforce_planning": ("hire_limit", "places"),
}
ADDED = ("require", "forbid", "exclude", "imply", "cap")
LETTER = re.compile(r"\$([a-z])\$")


@dataclass(frozen=True)
class Recombined:
    """A family with changes, and one of its instances.

    family: contract and fields as changed; its `model` is the unchanged one. problem: with the data that the changed
    model needs. source: of the changed model. whole: the data that the unchanged model needs.
    """

    family: Family
    problem: Problem
    source: str
    whole: Instance
    origin: Origin

    @property
    def is_changed(self) -> bool:
        """Whether the model is not the family's own."""
        return bool(self.origin.changes)

    def model(self) -> Any:
        """The Pyomo model: the family's own, changed component by component."""
        built = self.family.model(self.whole)
        for change in self.origin.changes:
            _change_model(built, change)
        return built


def recombine(origin: Origin) -> Recombined:
    """The family, instance and changes of an origin. Raises DataError for a change that cannot be made."""
    family = families.get(origin.family)
    problem = family.problem(origin.seed, origin.difficulty, origin.domain)
    source = inspect.getsource(family.model)
    contract, fields, data = family.contract, list(family.fields), dict(problem.data)
    for change in origin.changes:
        if change.kind == "drop":
            contract = _without(family, contract, change)
            source = _cut(source, change.target)
        elif change.kind == "weigh":
            contract, field, source = _weighed(contract, change, source)
            fields.append(field)
            data[field.key] = change.value
        else:
            clause, field_of_cap = _added(family, contract, change, problem.words)
            contract = replace(contract, constraints=(*contract.constraints, clause))
            if field_of_cap is not None:
                fields.append(field_of_cap)
                data[field_of_cap.key] = change.value
            source = _insert(source, f"    m.{clause.name} = pyo.Constraint(expr={_row(change, 'data')})\n")
    if any(change.kind == "drop" for change in origin.changes):
        read = gates.reads(compiled(source), data)
        unread = [field for field in fields if not _is_read(field, read)]
        fields = [field for field in fields if field not in unread]
        data = {key: value for key, value in data.items() if key not in {field.key for field in unread}}
    changed = replace(family, contract=contract, fields=tuple(fields))
    return Recombined(changed, replace(problem, data=data), source, problem.data, origin)


def representation(found: Recombined, asides: tuple[str, ...] = ()) -> Representation:
    """The intermediate representation of a recombined problem; asides: sentences of its text that do not matter."""
    family, problem, words = found.family, found.problem, found.problem.words
    contract = family.contract

    def said(clause: Any) -> str:
        return filled(clause.says[0], words) if clause.says else ""

    caps = {f.key: f"Keep to the {filled(f.title, words)}." for f in family.fields if not f.index}
    return Representation(
        title=family.title,
        structure=family.name,
        domain=problem.domain,
        sets=tuple(Members(s.key, filled(s.plural, words), s.symbol, s.letter) for s in family.sets),
        parameters=tuple(
            Parameter(f.key, f.index, filled(f.title, words), filled(f.unit, words), f.symbol) for f in family.fields
        ),
        decisions=tuple(
            Decision(v.name, v.domain, filled(v.meaning, words), v.symbol)  # type: ignore[arg-type]
            for v in contract.variables
        ),
        sense=contract.sense,  # type: ignore[arg-type]
        objective=tuple(Rule(t.name, t.formula, "", said(t)) for t in contract.objective),
        constraints=tuple(
            Rule(c.name, c.formula, c.over, said(c) or caps.get(c.name, "")) for c in contract.constraints
        ),
        data=problem.data,
        unit=filled(contract.goal[1], words),
        asides=asides,
        origin=found.origin,
    )


@cache
def compiled(source: str) -> Callable[[Instance], Any]:
    """The function that a changed source of ours defines. Not for sources that an author or a file brings."""
    names: dict[str, Any] = {"pyo": pyo, "math": math, "itertools": itertools}
    exec(compile(source, "model", "exec"), names)
    return names["model"]


def statement(variables: Variables, members: tuple[str, ...], words: Mapping[str, str]) -> str:
    """What a variable stands for, with members: `worker Anna gets task T03`; "" where the words do not allow it."""
    meaning = filled(variables.meaning, words)
    if variables.domain == BINARY:
        if not meaning.startswith("1 if ") or "0 if" in meaning:
            return ""
        meaning = meaning.removeprefix("1 if ")
    # by letter: the words may name the indices in another order than the symbol does
    indices = re.findall("[a-z]", variables.symbol.partition("_")[2])
    letters = LETTER.findall(meaning)
    if len(indices) != len(members) or sorted(letters) != sorted(indices) or meaning.count("$") != 2 * len(letters):
        return ""
    named = dict(zip(indices, members, strict=True))
    return LETTER.sub(lambda match: named[match[1]], meaning)


def weighable(source: str, contract: Contract) -> list[str]:
    """Terms that can be weighted: of several, and such that only the objective refers to them."""
    names = [term.name for term in contract.objective]
    return [name for name in names if len(names) > 1 and len(re.findall(rf"\bm\.{name}\b", source)) == 2]


def _is_read(field: Field, read: set[tuple[str, ...]]) -> bool:
    return any(path[0] == field.key and len(path) == 1 + len(field.index) for path in read)


def _without(family: Family, contract: Contract, change: Change) -> Contract:
    if change.target not in DROPPABLE.get(family.name, ()):
        accepted = ", ".join(DROPPABLE.get(family.name, ())) or "none"
        raise DataError(f"{family.name} without {change.target!r}; accepted: {accepted}")
    return replace(contract, constraints=tuple(c for c in contract.constraints if c.name != change.target))


def _cut(source: str, name: str) -> str:
    """The source without the statement `m.<name> = …`."""
    node = _statement(source, name)
    lines = source.splitlines(keepends=True)
    return "".join([*lines[: node.lineno - 1], *lines[node.end_lineno :]])


def _statement(source: str, name: str) -> Any:
    function = ast.parse(source).body[0]
    assert isinstance(function, ast.FunctionDef)
    found = [
        node
        for node in function.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute) and node.targets[0].attr == name
    ]
    if len(found) != 1:
        raise DataError(f"the model assigns m.{name} {len(found)} times at its top level; once is accepted")
    return found[0]


def _insert(source: str, line: str) -> str:
    """The source with a line before its last one, which returns the model."""
    head, mark, tail = source.rpartition("    return m")
    return f"{head}{line}{mark}{tail}"


def _weighed(contract: Contract, change: Change, source: str) -> tuple[Contract, Field, str]:
    if change.target not in weighable(source, contract) or change.value is None:
        raise DataError(
            f"term {change.target!r} weighted with {change.value!r}; accepted: a number, for one of several"
        )
    key = f"weight_{change.target}"
    name = change.target.replace("_", " ")
    told = f"In the objective, this part counts with the weight of the {name}."
    alone = (f"In the objective, the {name} counts with its weight.",)
    terms = tuple(
        replace(t, formula=_times(r"\omega", t.formula), says=tuple(f"{say} {told}" for say in t.says) or alone)
        if t.name == change.target
        else t
        for t in contract.objective
    )
    # an answer must not call the weighted sum the total cost
    goal = (contract.goal[0] if "weighted " in contract.goal[0] else f"weighted {contract.goal[0]}", contract.goal[1])
    field = Field(key, (), f"weight of the {name} in the objective", "", r"\omega", (
        f"in the objective the {name} counts {{value}} times",
        f"the {name} enters the objective with a weight of {{value}}",
    ))  # fmt: skip
    node = _statement(source, "objective")
    lines = source.splitlines(keepends=True)
    text = "".join(lines[node.lineno - 1 : node.end_lineno])
    text = re.sub(rf"\bm\.{change.target}\b", f'data["{key}"] * m.{change.target}', text)
    source = "".join([*lines[: node.lineno - 1], text, *lines[node.end_lineno :]])
    return replace(contract, objective=terms, goal=goal), field, source


def _added(family: Family, contract: Contract, change: Change, words: Mapping[str, str]) -> tuple[Clause, Field | None]:
    """The clause that a change adds, and the field that holds its number."""
    variables = next((v for v in contract.variables if v.name == change.target), None)
    needed = {"exclude": 2, "imply": 2}.get(change.kind, 1)
    named = [statement(variables, members, words) for members in change.members] if variables is not None else []
    if (
        variables is None
        or len(named) != needed
        or not all(named)
        or (variables.domain == BINARY) == (change.kind == "cap")
    ):
        raise DataError(f"{family.name}: {change.kind} of {change.target!r} for {list(change.members)} cannot be said")
    name = f"{change.kind}_{change.target}"
    if name in {clause.name for clause in contract.constraints}:
        raise DataError(f"{family.name}: {change.kind} of {change.target!r} is there already")
    terms = [_symbol(variables, members) for members in change.members]
    first, last = named[0], named[-1]
    if change.kind == "cap":
        if change.value is None:
            raise DataError(f"{family.name}: a cap of {change.target!r} without a value")
        what = first if first.startswith("how ") else f"the {first}"
        field = Field(name, (), f"upper limit on {what}", "", r"\bar{u}", (
            f"an upper limit of {{value}} holds for {what}",
            f"it has been agreed that at most {{value}} is allowed for {what}",
            f"no more than {{value}} is allowed for {what}",
        ))  # fmt: skip
        return Clause(name, rf"{terms[0]} \le \bar{{u}}", "", ()), field
    formula, says = {
        "require": (f"{terms[0]} = 1", (f"It is settled that {first}.", f"It is required that {first}.")),
        "forbid": (f"{terms[0]} = 0", (f"It is ruled out that {first}.", f"It is not allowed that {first}.")),
        "exclude": (f"{' + '.join(terms)} \\le 1", (
            f"It is not allowed that {first} and also that {last}.", f"If {first}, it is ruled out that {last}.",
        )),
        "imply": (f"{terms[0]} \\le {terms[-1]}", (
            f"If {first}, then also {last}.", f"If {first}, it is required that {last}.",
        )),
    }[change.kind]  # fmt: skip
    return Clause(name, formula, "", says), None


def _times(factor: str, formula: str) -> str:
    """A formula with a factor before it, behind its sign."""
    sign = "-" if formula.startswith("-") else ""
    return rf"{sign}{factor}\, {formula.removeprefix('-').lstrip()}"


def _symbol(variables: Variables, members: tuple[str, ...]) -> str:
    named = ",".join(rf"\text{{{member}}}" for member in members)
    return f"{variables.symbol.partition('_')[0]}_{{{named}}}"


def _row(change: Change, data: str) -> str:
    """The condition of an added clause as source."""
    terms = [f"m.{change.target}[{', '.join(map(_quoted, members))}]" for members in change.members]
    return {
        "require": f"{terms[0]} == 1",
        "forbid": f"{terms[0]} == 0",
        "exclude": f"{' + '.join(terms)} <= 1",
        "imply": f"{terms[0]} <= {terms[-1]}",
        "cap": f'{terms[0]} <= {data}["{change.kind}_{change.target}"]',
    }[change.kind]


def _quoted(member: str) -> str:
    return '"' + member.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _change_model(built: Any, change: Change) -> None:
    """One change, made in the components of a Pyomo model."""
    target = built.component(change.target)
    if change.kind == "drop":
        built.del_component(target)
        return
    if change.kind == "weigh":
        target.set_value(change.value * target.expr)
        return
    first, last = (
        target[members if len(members) > 1 else members[0]] for members in (change.members[0], change.members[-1])
    )
    conditions = {
        "require": lambda: first == 1,
        "forbid": lambda: first == 0,
        "exclude": lambda: first + last <= 1,
        "imply": lambda: first - last <= 0,
        "cap": lambda: first <= change.value,
    }
    built.add_component(f"{change.kind}_{change.target}", pyo.Constraint(expr=conditions[change.kind]()))
