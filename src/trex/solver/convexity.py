"""Is a quadratic objective convex? Tested before a solver's optimum of it is believed."""

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from trex.solver.model import Model

CURVATURE = 1e-10  # eigenvalue of the wrong sign, relative to the largest, that is taken for rounding
LARGEST = 1e100  # of an entry of the scaled quadratic matrix
LARGEST_GROUP = 2000  # variables: a second or two


def curvature(model: Model) -> float:
    """Smallest eigenvalue over largest (in size) of the objective's matrix, scaled to a unit diagonal: >= 0 is convex.

    Signs are turned for a maximum. Scaling, x[i] -> x[i] / sqrt(d[i]), keeps the signs of the eigenvalues (Sylvester)
    and makes them comparable: in the matrix as it stands one large square hides any curvature elsewhere. -1 where the
    diagonal alone decides: a negative entry, or a zero beside another entry that is not; and where more than
    LARGEST_GROUP variables hang together, whose eigenvalues would take too long: a solver for any objective is asked.
    """
    terms = {pair: c if model.sense == "min" else -c for pair, c in model.quadratic.items() if c}
    diagonal = {i: c for (i, j), c in terms.items() if i == j}
    if any(diagonal.get(position, 0.0) <= 0 for pair in terms for position in pair):
        return -1.0
    if not terms:
        return 0.0
    smallest, largest = 1.0, 1.0  # of variables that stand alone
    for products in _connected(terms):
        place: dict[int, int] = {}
        for position in (position for pair in products for position in pair):
            place.setdefault(position, len(place))
        if len(place) > LARGEST_GROUP:
            return -1.0
        matrix = np.eye(len(place))
        for i, j in products:
            entry = terms[i, j] / 2 / math.sqrt(diagonal[i]) / math.sqrt(diagonal[j])
            # above 1 it is negative curvature already: the limit only keeps the arithmetic finite
            matrix[place[i], place[j]] = matrix[place[j], place[i]] = max(-LARGEST, min(entry, LARGEST))
        eigenvalues = np.linalg.eigvalsh(matrix)
        smallest, largest = min(smallest, eigenvalues[0]), max(largest, np.abs(eigenvalues).max())
    return float(smallest / largest)


def _connected(terms: Mapping[tuple[int, int], float]) -> list[list[tuple[int, int]]]:
    """Products of different variables, in groups that share no variable."""
    group: dict[int, list[int]] = {}
    products = [pair for pair in terms if pair[0] != pair[1]]
    for i, j in products:
        first, second = group.setdefault(i, [i]), group.setdefault(j, [j])
        if first is not second:
            small, large = sorted((first, second), key=len)
            large += small
            for position in small:
                group[position] = large
    found: dict[int, list[tuple[int, int]]] = {}
    for pair in products:
        found.setdefault(id(group[pair[0]]), []).append(pair)
    return list(found.values())


def recession(model: Model) -> Model | None:
    """The quadratic part alone over the directions, of size up to 1, in which one can go for ever.

    None where there is no quadratic part, where every variable in it is bounded, and for what is not polyhedral. With
    a better value than 0 the model is unbounded, if it has a point at all; its integers do not matter, as directions
    of a rational cone are limits of rational ones.
    """
    used = {j for pair, c in model.quadratic.items() if c for j in pair}
    free = np.isinf(model.lower) | np.isinf(model.upper)
    if not any(free[j] for j in used) or set(model.beyond_linear) != {"a quadratic objective"}:
        return None
    return replace(
        model,
        offset=0.0,
        kinds=("continuous",) * len(model.kinds),
        cost=np.zeros_like(model.cost),
        lower=np.where(np.isfinite(model.lower), 0.0, -1.0),
        upper=np.where(np.isfinite(model.upper), 0.0, 1.0),
        row_lower=np.where(np.isfinite(model.row_lower), 0.0, -np.inf),
        row_upper=np.where(np.isfinite(model.row_upper), 0.0, np.inf),
    )
