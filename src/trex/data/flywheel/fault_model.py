"""Faults in what a program models: direction, constraints, domains, signs, index sets and ratios."""

import ast
import random
from collections.abc import Iterator
from functools import partial
from typing import Any, TypeGuard

from trex.data.flywheel.dialogue import Dialogue
from trex.data.flywheel.fault_proof import Edit, Proof
from trex.data.flywheel.fault_source import Component, Source, called, domains, shows_program, with_program

OTHER = {"minimize": "maximize", "maximize": "minimize"}
TURNED = {"<=": ">=", ">=": "<="}
DOMAINS = {  # domain -> what it is mistaken for
    "Binary": ("NonNegativeReals", "NonNegativeIntegers", "UnitInterval"),
    "Boolean": ("NonNegativeReals", "UnitInterval"),
    "NonNegativeIntegers": ("NonNegativeReals", "Integers"),
    "Integers": ("Reals",),
    "NonNegativeReals": ("Reals", "NonNegativeIntegers"),
    "Reals": ("NonNegativeReals",),
}


def flipped_objective(row: Dialogue, rng: random.Random) -> Iterator[Edit]:
    """Minimize and maximize exchanged, a direction that is not the default left out, or the objective negated."""
    for source, part in _components(row, rng, "Objective"):
        sense, expression = part.keyword("sense"), part.keyword("expr")
        options = []
        if sense is None:
            options.append((_at_end(source, part.call, "sense=pyo.maximize"), "maximizes instead of minimizing"))
        elif (now := getattr(sense.value, "attr", "")) in OTHER:
            turned = source.put((sense.value, source.cut(sense.value).replace(now, OTHER[now])))
            options.append((turned, f"{OTHER[now]}s instead of to {now}"))
            if now == "maximize":
                options.append((_without(source, part.call, sense), "has no direction, so that it minimizes"))
        if expression is not None:
            negated = source.put((expression.value, f"-({source.cut(expression.value)})"))
            options.append((negated, "is negated, its direction is not"))
        rng.shuffle(options)
        yield from (_edit(row, text, f"the objective `{part.name}` {what}") for text, what in options)


def dropped_constraints(row: Dialogue, rng: random.Random) -> Iterator[Edit]:
    """One family of constraints left out of the program, or left in as a comment."""
    for source, part in _components(row, rng, "Constraint"):
        start, end = source.lines(part.statement)
        lines = source.text[start:end].splitlines(keepends=True)
        indent = lines[0][: len(lines[0]) - len(lines[0].lstrip())]
        commented = "".join(f"{indent}# {line.removeprefix(indent)}" for line in lines)
        new, what = rng.choice((("", "left out"), ("", "left out"), (commented, "commented out")))
        yield _edit(row, source.put(((start, end), new)), f"the constraint `{part.name}` is {what}")


def wrong_domain(row: Dialogue, rng: random.Random) -> Iterator[Edit]:
    """Yes-or-no or whole numbers as continuous, continuous as whole, not negative as free, and the like."""
    for source, part in _components(row, rng, "Var"):
        given = part.keyword("domain", "within")
        now = getattr(given.value, "attr", "") if given is not None else ""
        if given is None or now not in DOMAINS:
            continue
        options = [(source.put((given.value, f"pyo.{other}")), other) for other in DOMAINS[now]]
        if now == "Binary":
            options.append((source.put((given, "bounds=(0, 1)")), "bounds 0 and 1 alone"))
        elif now != "Reals":
            options.append((_without(source, part.call, given), "no domain"))
        rng.shuffle(options)
        for text, other in options[:2]:
            yield _edit(row, text, f"the variables `{part.name}` have {other} instead of {now}")


def wrong_sign(row: Dialogue, rng: random.Random) -> Iterator[Edit]:
    """One comparison turned round, or one sign changed, in a constraint or in the objective."""
    if not shows_program(row):
        return
    source = Source(row.program)
    options: list[tuple[Any, str, str]] = []
    for part in source.of("Constraint", "Objective", "Expression"):
        for node in ast.walk(part.call):
            if source.is_index(node):
                continue
            if isinstance(node, ast.Compare) and len(node.ops) == 1:
                place = source.operator(node.left, node.comparators[0], ("<=", ">="))
                if place is not None:
                    old = source.text[slice(*place)]
                    options.append((place, TURNED[old], f"`{old}` is `{TURNED[old]}` in `{part.name}`"))
            elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
                old, new = ("+", "-") if isinstance(node.op, ast.Add) else ("-", "+")
                place = source.operator(node.left, node.right, (old,))
                if place is not None:
                    what = f"`{old}` is `{new}` before `{_short(source.cut(node.right))}` in `{part.name}`"
                    options.append((place, new, what))
            elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
                shown = source.cut(node.operand)
                options.append((node, shown, f"the minus before `{_short(shown)}` is missing in `{part.name}`"))
    rng.shuffle(options)
    for place, new, what in options:
        yield _edit(row, source.put((place, new)), what)


def off_by_one(row: Dialogue, rng: random.Random) -> Iterator[Edit]:
    """A rule or sum without the first or last member, a loop that counts from another number, a neighbour missed."""
    if not shows_program(row):
        return
    source = Source(row.program)
    options: list[tuple[Any, str, str]] = []
    for part in source.of("Constraint"):
        for argument in part.call.args:
            if isinstance(argument, ast.Name | ast.Subscript):
                text = source.cut(argument)
                for cut, missed in (("[1:]", "first"), ("[:-1]", "last")):
                    options.append((argument, text + cut, f"`{part.name}` leaves out the {missed} of `{text}`"))
    for node in ast.walk(source.tree):
        if isinstance(node, ast.comprehension) and isinstance(node.iter, ast.Name | ast.Subscript):
            text = source.cut(node.iter)
            if len(list(source.above(node))) > 3 and isinstance(node.target, ast.Name):
                for cut, missed in (("[1:]", "first"), ("[:-1]", "last")):
                    what = f"a sum over `{text}` in line {node.iter.lineno} leaves out the {missed}"
                    options.append((node.iter, text + cut, what))
        elif isinstance(node, ast.Call) and called(node) == "enumerate" and len(node.args) == 1:
            text = source.cut(node.args[0])
            what = f"`enumerate({text})` in line {node.lineno} begins at 1"
            options += [(node.args[0], f"{text}, start=1", what)] * 2
        elif _is_neighbour(node):
            what = f"`{source.cut(node)}` in line {node.lineno} is `{source.cut(node.left)}`"
            options += [(node, source.cut(node.left), what)] * 2
    rng.shuffle(options)
    for place, new, what in options:
        yield _edit(row, source.put((place, new)), what)


def wrong_ratio(row: Dialogue, rng: random.Random) -> Iterator[Edit]:
    """A limit on an average or a share of a total that is no longer one: a sum or a factor lost, or sums exchanged."""
    if not shows_program(row):
        return
    source = Source(row.program)
    options: list[tuple[str, str]] = []
    for part in source.of("Constraint", "Expression"):
        for node in ast.walk(part.call):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and not source.is_index(node):
                options += _ratios(row, source, part, node)
    rng.shuffle(options)
    yield from (_edit(row, text, what) for text, what in options)


def _ratios(row: Dialogue, source: Source, part: Component, node: ast.BinOp) -> Iterator[tuple[str, str]]:
    """Ways to get one product wrong that stands for an average, a share of a total, or a rate of a total."""
    where = f"in `{part.name}`"
    left, right = node.left, node.right
    if isinstance(left, ast.BinOp) and isinstance(left.op, ast.Sub) and not _variables(left) and _is_amount(row, right):
        value, limit, amount = (source.cut(item) for item in (left.left, left.right, right))
        yield source.put((node, f"{value} * {amount} - {limit}")), f"`{limit}` is not times the amount {where}"
        side = next((up for _, up in source.above(node) if isinstance(up, ast.Compare)), None)
        zero = side.comparators[0] if side is not None else None
        if isinstance(zero, ast.Constant) and zero.value == 0:
            what = f"the total amount is left out beside `{limit}` {where}"
            yield source.put((node, f"{value} * {amount}"), (zero, limit)), what
    above = source.parents[node]
    if isinstance(above, ast.BinOp) and isinstance(above.op, ast.Mult):
        return  # a part of a longer product
    factors = _factors(node)
    known = [factor for factor in factors if not _variables(factor)]
    unknown = [factor for factor in factors if _variables(factor)]
    if len(known) >= 2 and len(unknown) == 1 and all(isinstance(factor, ast.Subscript) for factor in known):
        for lost in known:
            kept = " * ".join(source.cut(factor) for factor in factors if factor is not lost)
            yield source.put((node, kept)), f"the factor `{source.cut(lost)}` is left out {where}"
    inner = any(isinstance(up, ast.GeneratorExp | ast.ListComp) for _, up in source.above(node))
    if part.kind == "Constraint" and len(known) == len(unknown) == 1 and not inner and _is_amount(row, unknown[0]):
        rate, amount = source.cut(known[0]), source.cut(unknown[0])
        yield source.put((node, f"{amount} / {rate}")), f"`{amount}` is divided by its rate `{rate}` {where}"
    sides = isinstance(above, ast.Compare) or isinstance(unknown[0] if unknown else None, ast.Call)
    if part.kind == "Constraint" and len(known) == len(unknown) == 1 and sides and _is_amount(row, unknown[0]):
        share, total = source.cut(known[0]), source.cut(unknown[0])
        yield source.put((node, share)), f"`{share}` stands without its total {where}"
        if isinstance(above, ast.Compare):
            other = above.left if above.comparators[0] is node else above.comparators[0]
            swapped = source.put((other, f"{share} * ({source.cut(other)})"), (node, total))
            yield swapped, f"`{share}` is a factor of the other side {where}"


def _is_neighbour(node: ast.AST) -> TypeGuard[ast.BinOp]:
    """Whether a node is `k + 1` or `k - 1`."""
    return (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Add | ast.Sub)
        and isinstance(node.left, ast.Name)
        and isinstance(node.right, ast.Constant)
        and node.right.value == 1
    )


def _factors(node: ast.AST) -> list[ast.AST]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return _factors(node.left) + _factors(node.right)
    return [node]


def _variables(node: ast.AST) -> list[str]:
    """Names of the model's components in an expression."""
    parts = [part for part in ast.walk(node) if isinstance(part, ast.Attribute)]
    return [part.attr for part in parts if isinstance(part.value, ast.Name) and part.value.id == "m"]


def _is_amount(row: Dialogue, node: ast.AST) -> bool:
    """Whether a factor is a quantity or a sum of such, and no yes-or-no decision."""
    names = _variables(node)
    return bool(names) and all(domains(row).get(name, "binary") != "binary" for name in names)


def _components(row: Dialogue, rng: random.Random, *kinds: str) -> Iterator[tuple[Source, Component]]:
    """Components in random order, none where the answer does not hold the program."""
    if shows_program(row):
        source = Source(row.program)
        parts = source.of(*kinds)
        for part in rng.sample(parts, len(parts)):
            yield source, part


def _at_end(source: Source, call: ast.Call, argument: str) -> str:
    """The text with one more argument of a call."""
    last = [*call.args, *call.keywords][-1]
    end = source.span(last)[1]
    return source.put(((end, end), f", {argument}"))


def _without(source: Source, call: ast.Call, gone: ast.keyword) -> str:
    """The text without one argument of a call, and the comma before or behind it."""
    arguments = [*call.args, *call.keywords]
    place = next(k for k, argument in enumerate(arguments) if argument is gone)
    start, end = source.span(gone)
    if place:
        start = source.span(arguments[place - 1])[1]
    elif len(arguments) > 1:
        end = source.span(arguments[1])[0]
    return source.put(((start, end), ""))


def _edit(row: Dialogue, program: str, what: str) -> Edit:
    def proves(proof: Proof, program: str) -> bool:
        return proof.builds_other(program, row.files)

    return Edit(what, with_program(row, program), partial(proves, program=program))


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 60 else f"{text[:57]}..."
