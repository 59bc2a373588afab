"""Changes of a Pyomo model that make it a wrong one. Their source is printed in answers: they use `pyo` alone."""

from typing import Any

import pyomo.environ as pyo


def turn_objective(model: Any) -> None:
    """The best becomes the worst."""
    model.objective.sense = pyo.minimize if model.objective.sense == pyo.maximize else pyo.maximize


def relax(model: Any) -> None:
    """Whole and yes-or-no variables as fractions."""
    pyo.TransformationFactory("core.relax_integer_vars").apply_to(model)


def make_whole(model: Any, name: str) -> None:
    """Quantities in whole units."""
    for variable in model.component(name).values():
        variable.domain = pyo.NonNegativeIntegers


def forget(model: Any, name: str) -> None:
    """A constraint left out."""
    model.component(name).deactivate()


def forget_one(model: Any, name: str, number: int) -> None:
    """One row of a constraint left out."""
    list(model.component(name).values())[number].deactivate()


def at_most(model: Any, name: str, most: float) -> None:
    """A limit on the sum of variables that no one asked for."""
    model.extra_total = pyo.Constraint(expr=sum(model.component(name).values()) <= most)


def at_least(model: Any, name: str, number: int, least: float) -> None:
    """A least quantity that no one asked for."""
    model.extra_least = pyo.Constraint(expr=list(model.component(name).values())[number] >= least)


def other_side(model: Any, name: str, number: int, more: float) -> None:
    """One row's right side changed."""
    row = list(model.component(name).values())[number]
    lower, body, upper = row.to_bounded_expression(evaluate_bounds=True)
    row.set_value((None if lower is None else lower + more, body, None if upper is None else upper + more))


def other_way(model: Any, name: str) -> None:
    """A constraint's <= as >=, or the other way round."""
    for row in model.component(name).values():
        lower, body, upper = row.to_bounded_expression(evaluate_bounds=True)
        row.set_value((upper, body, lower))


def scale_objective(model: Any, factor: float) -> None:
    """The objective in other units."""
    model.objective.expr = factor * model.objective.expr


def scale_sides(model: Any, name: str, factor: float) -> None:
    """A constraint's right sides in other units."""
    for row in model.component(name).values():
        lower, body, upper = row.to_bounded_expression(evaluate_bounds=True)
        row.set_value((None if lower is None else factor * lower, body, None if upper is None else factor * upper))


def contradict(model: Any, name: str) -> None:
    """Bounds that no point satisfies."""
    first = next(iter(model.component(name).values()))
    model.extra_lower = pyo.Constraint(expr=first >= 2)
    model.extra_upper = pyo.Constraint(expr=first <= 1)


def without_end(model: Any) -> None:
    """A variable that improves the objective for ever."""
    model.extra_gain = pyo.Var(domain=pyo.NonNegativeReals)
    sign = 1 if model.objective.sense == pyo.maximize else -1
    model.objective.expr = model.objective.expr + sign * model.extra_gain


def constant(model: Any, value: float) -> None:
    """All variables gone, and a number for the objective."""
    for part in list(model.component_objects((pyo.Constraint, pyo.Var, pyo.Objective))):
        model.del_component(part)
    model.answer = pyo.Var(bounds=(value, value))
    model.objective = pyo.Objective(expr=model.answer)


def another_problem(model: Any, size: int) -> None:
    """Some quantities that cover something at the least cost: nothing that was asked."""
    for part in list(model.component_objects((pyo.Constraint, pyo.Var, pyo.Objective))):
        model.del_component(part)
    model.amount = pyo.Var(range(size), domain=pyo.NonNegativeReals)
    model.cover = pyo.Constraint(expr=sum((k + 1) * model.amount[k] for k in range(size)) >= 7)
    model.spread = pyo.Constraint(expr=2 * model.amount[0] <= model.amount[1] + 1)
    model.objective = pyo.Objective(expr=sum((k + 2) ** 2 * model.amount[k] for k in range(size)) + 3)
