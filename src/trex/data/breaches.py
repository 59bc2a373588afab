"""Breaches of a contract, made on purpose: each clause of it broken in the code of the family's model.

Used to measure whether the gates notice (a gate that lets a breach through is the defect) and whether a clause
matters: one that changes no optimum of any instance does not belong into the contract. Changed sources run in the
sandbox only.
"""

import ast
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from trex.data.contract import BINARY, CONTINUOUS, INTEGER
from trex.data.family import Family
from trex.data.problem import DataError

TURNED = {ast.LtE: ast.GtE, ast.GtE: ast.LtE, ast.Eq: ast.LtE}


@dataclass(frozen=True)
class Breach:
    """One clause broken: the part of the contract, what was done to it, and the source of the model that has it."""

    clause: str
    what: str  # dropped | turned | domain | sense | term dropped | mistake
    source: str


def source(family: Family) -> str:
    """The source of the family's model as it is printed in documents."""
    return inspect.getsource(family.model)


def breaches(family: Family) -> Iterator[Breach]:
    """Every clause broken: constraints dropped and turned, domains changed, the sense, terms, and typical mistakes.

    Raises DataError for a typical mistake whose old code is not once in the source.
    """
    code, contract = source(family), family.contract
    for clause in contract.constraints:
        yield Breach(clause.name, "dropped", _changed(code, clause.name, _drop))
        yield Breach(clause.name, "turned", _changed(code, clause.name, _turn))
    for variables in contract.variables:
        other = {BINARY: "NonNegativeReals", INTEGER: "NonNegativeReals", CONTINUOUS: "NonNegativeIntegers"}
        domain = other.get(variables.domain, "NonNegativeReals")
        yield Breach(variables.name, "domain", _changed(code, variables.name, _with_domain(domain)))
    for term in contract.objective:
        yield Breach(term.name, "term dropped", _changed(code, term.name, _zero))
    yield Breach("objective", "sense", _changed(code, "objective", _other_sense))
    for mistake in contract.mistakes:
        if code.count(mistake.old) != 1:
            times = code.count(mistake.old)
            raise DataError(f"{family.name}: {mistake.old!r} is {times} times in its model; once is accepted")
        yield Breach(mistake.what, "mistake", code.replace(mistake.old, mistake.new))


def _changed(code: str, name: str, change: Callable[[ast.Call], ast.stmt | None]) -> str:
    """The source with the statement `m.<name> = …` changed. Raises DataError where there is not exactly one."""
    tree = ast.parse(code)
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    places = [number for number, node in enumerate(function.body) if _assigned(node) == name]
    if len(places) != 1:
        raise DataError(f"{function.name} assigns m.{name} {len(places)} times at its top level; once is accepted")
    statement = function.body[places[0]]
    assert isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call)
    replacement = change(statement.value)
    function.body[places[0] : places[0] + 1] = [statement] if replacement is None else [replacement]
    return ast.unparse(ast.fix_missing_locations(tree))


def _assigned(node: ast.stmt) -> str | None:
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
        return node.targets[0].attr
    return None


def _drop(call: ast.Call) -> ast.stmt | None:
    return ast.Pass()


def _turn(call: ast.Call) -> ast.stmt | None:
    """The comparison of the rule the other way round: the last in its text, which is the row itself."""
    found = [node for node in ast.walk(call) if isinstance(node, ast.Compare) and type(node.ops[0]) in TURNED]
    rule = next((k.value for k in call.keywords if k.arg in ("rule", "expr")), None)
    body = rule.body if isinstance(rule, ast.Lambda) else rule
    while isinstance(body, ast.IfExp):  # Constraint.Skip for some members
        body = body.body if isinstance(body.body, ast.Compare) else body.orelse
    row = body if isinstance(body, ast.Compare) else found[-1] if found else None
    if row is None:
        raise DataError(f"{ast.unparse(call)[:80]!r} holds no comparison that could be turned")
    row.ops[0] = TURNED[type(row.ops[0])]()
    return None


def _with_domain(domain: str) -> Callable[[ast.Call], ast.stmt | None]:
    def change(call: ast.Call) -> ast.stmt | None:
        call.keywords = [k for k in call.keywords if k.arg not in ("domain", "within")]
        call.keywords.append(ast.keyword("domain", ast.Attribute(ast.Name("pyo", ast.Load()), domain, ast.Load())))
        return None

    return change


def _zero(call: ast.Call) -> ast.stmt | None:
    for keyword in call.keywords:
        if keyword.arg == "expr":
            keyword.value = ast.Constant(0.0)
    return None


def _other_sense(call: ast.Call) -> ast.stmt | None:
    for keyword in call.keywords:
        if keyword.arg == "sense":
            assert isinstance(keyword.value, ast.Attribute)
            keyword.value.attr = "minimize" if keyword.value.attr == "maximize" else "maximize"
    return None
