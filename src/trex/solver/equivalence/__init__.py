"""Are two models the same? Equal with a mapping as proof, different with a witness, or unknown.

Two models are equal where renaming and reordering variables and rows, scaling rows, turning their signs, turning the
objective's sense and sign together, adding or dropping rows that the others imply, and adding or dropping slacks and
defined variables lead from one to the other.
"""

import time
from collections.abc import Set
from dataclasses import replace
from pathlib import Path

from trex.solver import lp
from trex.solver.equivalence.canonical import canonical
from trex.solver.equivalence.draft import Draft, draft, simplify
from trex.solver.equivalence.graph import graphs, node_names
from trex.solver.equivalence.matched import match
from trex.solver.equivalence.published import declared_binaries, published_verdict
from trex.solver.equivalence.refine import rounds
from trex.solver.equivalence.reformulate import drop_unused, reformulate, unused
from trex.solver.equivalence.semantics import INFEASIBLE, compare_sets
from trex.solver.equivalence.verdict import Evidence, Verdict, Witness
from trex.solver.model import Model, ModelError
from trex.solver.solve import require_positive

MODES = ("full", "isomorphism", "as-published")

__all__ = ["INFEASIBLE", "MODES", "Evidence", "Verdict", "Witness", "colour_rounds", "compare"]


def compare(a: Model | str | Path, b: Model | str | Path, mode: str = "full", time_s: float = 10.0) -> Verdict:
    """Compare two models, each a `Model`, LP or MPS text, or a path, within about `time_s` seconds.

    "isomorphism": canonical forms only, no solver. Equal where they are isomorphic; otherwise different in form, with
    the part that has no twin as witness; that does not yet mean that they describe different problems.
    "full": where forms differ, slacks, defined variables and implied rows are taken out and a solver looks for what
    cannot be: different only where a second solver confirms the witness. Two infeasible models that are not isomorphic
    are unknown: their feasible sets are both empty, whatever the rows say.
    "as-published": the verdict of the paper's checker, with its flaws (`equivalence.published`).

    Numbers are equal within 1e-12, relatively; `Verdict.largest_difference` tells how far matched ones differed.
    Raises LPError for what cannot be read, ModelError for an unknown mode or a `time_s` that is not positive.
    """
    begin = time.perf_counter()
    if mode not in MODES:
        raise ModelError(f"mode {mode!r}; accepted: {', '.join(MODES)}")
    require_positive("time_s", time_s, "seconds")
    first, second = (source if isinstance(source, Model) else lp.read(source) for source in (a, b))
    if mode == "as-published":
        equal, reason = published_verdict(first, second, (_binaries(a), _binaries(b)))
        verdict = Verdict("equal" if equal else "different", reason)
    else:
        verdict = _compare(first, second, mode == "full", begin + time_s)
    return replace(verdict, seconds=time.perf_counter() - begin)


def _compare(a: Model, b: Model, full: bool, deadline: float) -> Verdict:
    first, second = _plain(a), _plain(b)
    verdict = match(canonical(first), canonical(second), deadline)
    if verdict.kind == "equal" or not full:
        return verdict
    reformulate(first, deadline)
    reformulate(second, deadline)
    if len(a.variables) != len(b.variables) and len(unused(first)) != len(unused(second)):
        drop_unused(first)
        drop_unused(second)
    form_a, form_b = canonical(first), canonical(second)
    if form_a.steps or form_b.steps:
        again = match(form_a, form_b, deadline)
        if again.kind == "equal":
            return again
    return compare_sets(a, b, form_a, form_b, verdict, deadline)


def _plain(model: Model) -> Draft:
    work = draft(model)
    simplify(work)
    return work


def _binaries(source: Model | str | Path) -> Set[str] | None:
    """Variables that a text declares as binary, which a `Model` does not tell from integers in [0, 1]."""
    return None if isinstance(source, Model) else declared_binaries(lp.content(source))


def colour_rounds(model: Model) -> tuple[list[list[int]], list[tuple[int, int]], list[str]]:
    """Colour refinement of a model's graph, to look at: classes of its nodes round by round, edges, and nodes' names.

    Columns of the canonical form come first, then half-spaces; classes are numbered in the order of the nodes.
    """
    form = canonical(_plain(model))
    graph, _ = graphs(form, form)
    edges = [(u, v) for u, v in zip(graph.source.tolist(), graph.target.tolist(), strict=True) if u < v]
    return rounds(graph), edges, node_names(graph)
