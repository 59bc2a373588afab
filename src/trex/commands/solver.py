"""`trex solve` and `trex compare`: optimisation models from LP and MPS files."""

import sys
from json import dumps
from pathlib import Path
from typing import Annotated, Literal

import tyro

File = tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="FILE")]]
ModelA = tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="A")]]
ModelB = tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="B")]]
EXIT = {"equal": 0, "different": 1, "unknown": 3}  # as of diff, which leaves 2 for errors


def solve(
    file: File,
    time_s: float = 60.0,
    memory_mb: float | None = None,
    check: Literal["second", "exact"] | None = None,
    json: bool = False,
) -> int:
    """Solve a model with HiGHS, or SCIP where HiGHS cannot, and recheck the point that comes back.

    Exits 0 where the optimum was found or the model was shown to be infeasible or unbounded, 1 otherwise.

    Args:
        file: LP or MPS, also compressed with gzip.
        time_s: Seconds that the solver may take; as many again for a second one.
        memory_mb: Megabytes that it may take beyond what it starts with; no limit by default.
        check: "second" asks another solver too; "exact" finds the rational value of the optimum.
        json: Print everything as JSON; the text shows the largest values only.
    """
    from trex.solver import lp
    from trex.solver.solution import record, text
    from trex.solver.solve import solve as work

    solution = work(lp.read(file), time_s, memory_mb, check)
    print(dumps(record(solution), indent=1) if json else text(solution))
    return 0 if solution.status in ("optimal", "infeasible", "unbounded") else 1


def compare(
    a: ModelA,
    b: ModelB,
    mode: Literal["full", "isomorphism", "as-published"] = "full",
    time_s: float = 10.0,
    json: bool = False,
) -> int:
    """Are two models the same, up to names, order, scaling, signs, redundant rows and slacks?

    Prints the mapping of variables and rows as proof, or a witness of the difference. Exits 0 where they are equal,
    1 where they are different, 3 where neither was shown.

    Args:
        a: LP or MPS, also compressed with gzip.
        b: The other model.
        mode: "full" asks solvers too; "isomorphism" compares canonical forms; "as-published" is the paper's checker,
            flaws included.
        time_s: Seconds that the comparison may take, about.
        json: Print everything as JSON; the text shows part of the mapping.
    """
    from trex.solver.equivalence import compare as work
    from trex.solver.equivalence.verdict import record, text

    verdict = work(a, b, mode, time_s)
    print(dumps(record(verdict), indent=1) if json else text(verdict))
    if verdict.kind == "equal" and mode == "as-published":
        print("trex: the published checker also calls models equal that are not", file=sys.stderr)
    return EXIT[verdict.kind]
