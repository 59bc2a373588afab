"""HiGHS, quiet and repeatable, and the way between its arrays and ours."""

import math
import time
from importlib import metadata

import highspy
import numpy as np
from highspy import HighsModelStatus

from trex.solver.model import SEMI, Model, ModelError
from trex.solver.outcome import Outcome

NAME = f"HiGHS {metadata.version('highspy')}"
# A mixed-integer search stops at a relative gap of 1e-4 by default: too wide for optima compared at 1e-6.
GAP = 1e-9
DUAL = 1e-10  # HiGHS' least tolerance of reduced costs; at its default of 1e-7 costs below that count as none
SMALLEST = 1e-12  # HiGHS leaves out smaller coefficients of rows; by default it already does so below 1e-9
# entries of a model below which there is no feasibility jump: a quarter of the time of the families' models
FEW = 20_000
LARGEST_SCALE = 100  # exponent of 2 by which costs are scaled
SEMI_UPPER = 1e4  # HiGHS turns a semi-continuous variable into rows with its upper bound as coefficient
STATUS = {
    HighsModelStatus.kOptimal: "optimal",
    HighsModelStatus.kInfeasible: "infeasible",
    HighsModelStatus.kUnbounded: "unbounded",
    HighsModelStatus.kUnboundedOrInfeasible: "infeasible_or_unbounded",
    HighsModelStatus.kTimeLimit: "time_limit",
    HighsModelStatus.kMemoryLimit: "memory_limit",
}
KIND = {
    highspy.HighsVarType.kContinuous: "continuous",
    highspy.HighsVarType.kInteger: "integer",
    highspy.HighsVarType.kSemiContinuous: "semi-continuous",
    highspy.HighsVarType.kSemiInteger: "semi-integer",
}


class Highs(highspy.Highs):
    """HiGHS that prints nothing: it is silenced before the first call that would print its banner."""

    def enableCallbacks(self) -> None:
        """Called by the constructor, before any option can be set from outside."""
        self.silent()
        super().enableCallbacks()


def quiet(time_s: float | None = None) -> Highs:
    """A HiGHS on one thread with a fixed seed, narrow gaps, and a limit in seconds (none by default)."""
    highs = Highs()
    options = {
        "threads": 1,
        "random_seed": 0,
        "mip_rel_gap": GAP,
        "mip_abs_gap": GAP,
        "small_matrix_value": SMALLEST,
        "dual_feasibility_tolerance": DUAL,
    }
    if time_s is not None:
        options["time_limit"] = float(time_s)
    for option, value in options.items():
        if highs.setOptionValue(option, value) != highspy.HighsStatus.kOk:
            raise ModelError(f"HiGHS does not accept {option} = {value!r}")
    return highs


def refuses(model: Model) -> str | None:
    """What of a model HiGHS cannot take, as a sentence; None where it takes all. Convexity is not looked at."""
    foreign = [
        part for part in model.beyond_linear if part not in ("a quadratic objective", "semi-continuous variables")
    ]
    if foreign:
        return f"HiGHS does not take {' or '.join(foreign)}"
    for j, kind in enumerate(model.kinds):
        if kind in SEMI and not model.lower[j] <= model.upper[j] <= SEMI_UPPER:
            return f"HiGHS does not take semi-continuous variables without an upper bound of at most {SEMI_UPPER:g}"
    return None


def solve(model: Model, seconds: float) -> Outcome:
    """HiGHS on a model that it does not refuse, within so many seconds. Raises ModelError where it refuses the data."""
    solver = run(model, seconds)
    status = solver.getModelStatus()
    known = STATUS.get(status, "error")
    message = f"HiGHS ended with {solver.modelStatusToString(status)!r}" if known == "error" else ""
    info = solver.getInfo()
    discrete = len(model.integers) or set(model.kinds) & set(SEMI)
    bound = info.mip_dual_bound if discrete and math.isfinite(info.mip_dual_bound) else None
    feasible = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    if known != "optimal" and not (known.endswith("_limit") and feasible):
        return Outcome(NAME, known, bound=bound if known.endswith("_limit") else None, message=message)
    point = np.array(solver.getSolution().col_value, dtype=float)
    return Outcome(NAME, known, point, info.objective_function_value, bound, message)


def run(model: Model, seconds: float) -> Highs:
    """One run of HiGHS within so many seconds. Raises ModelError where HiGHS refuses the model."""
    begin = time.perf_counter()
    for attempt in range(2):
        solver = quiet(max(seconds - (time.perf_counter() - begin), 1e-3))
        load(solver, model)
        if solver.run() != highspy.HighsStatus.kError or attempt:
            break
        # HiGHS refuses threads=1 where someone else in this process started its scheduler with more
        highspy.Highs.resetGlobalScheduler(True)
    return solver


def load(highs: Highs, model: Model) -> None:
    """Give `model` to HiGHS. Raises ModelError for a part that HiGHS cannot take and where it refuses the data."""
    refused = refuses(model)
    if refused is not None:
        raise ModelError(refused)
    largest = np.abs(model.cost).max(initial=0.0)
    if 0 < largest < 1 and not model.quadratic:  # tolerances of HiGHS are absolute: the largest cost is brought near 1
        highs.setOptionValue("user_objective_scale", min(-math.floor(math.log2(largest)), LARGEST_SCALE))
    if len(model.value) < FEW:
        highs.setOptionValue("mip_heuristic_run_feasibility_jump", False)
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(model.variables), len(model.rows)
    lp.sense_ = highspy.ObjSense.kMinimize if model.sense == "min" else highspy.ObjSense.kMaximize
    lp.offset_ = model.offset
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = model.cost, model.lower, model.upper
    lp.row_lower_, lp.row_upper_ = model.row_lower, model.row_upper
    kinds = {ours: theirs for theirs, ours in KIND.items()}
    if set(model.kinds) - {"continuous"}:
        # from 0 up, semi-continuous says nothing more than the bounds do
        plain = {"semi-continuous": "continuous", "semi-integer": "integer"}
        lp.integrality_ = [
            kinds[kind if low else plain.get(kind, kind)]
            for kind, low in zip(model.kinds, model.lower.tolist(), strict=True)
        ]
    matrix = lp.a_matrix_
    matrix.format_ = highspy.MatrixFormat.kRowwise
    matrix.num_col_, matrix.num_row_ = lp.num_col_, lp.num_row_
    matrix.start_, matrix.index_, matrix.value_ = (
        model.start.astype(np.int32),
        model.index.astype(np.int32),
        model.value,
    )
    whole = highspy.HighsModel()
    whole.lp_ = lp
    if model.quadratic:
        whole.hessian_ = _hessian(model)
    if highs.passModel(whole) == highspy.HighsStatus.kError:
        raise ModelError("HiGHS refuses the model's data")


def unload(highs: highspy.Highs) -> Model:
    """The model that HiGHS holds, with its names. Raises ModelError for what a Model cannot represent."""
    highs.ensureRowwise()  # type: ignore[attr-defined]  # HiGHS' own type hints leave it out
    whole = highs.getModel()
    lp, hessian = whole.lp_, whole.hessian_
    matrix = lp.a_matrix_
    names = _names("c", lp.num_col_, list(lp.col_names_))
    integrality = list(lp.integrality_) or [highspy.HighsVarType.kContinuous] * lp.num_col_
    for name, kind in zip(names, integrality, strict=True):
        if kind not in KIND:
            raise ModelError(f"variable {name!r} is {kind.name[1:]}; accepted: {', '.join(KIND.values())}")
    counts = np.diff(np.array(hessian.start_)) if hessian.dim_ else ()
    columns = [column for column, count in enumerate(counts) for _ in range(count)]
    quadratic: dict[tuple[int, int], float] = {}
    for column, row, value in zip(columns, map(int, hessian.index_), map(float, hessian.value_), strict=True):
        if value:  # HiGHS stores the whole diagonal
            quadratic[min(row, column), max(row, column)] = value / 2 if row == column else value
    return Model(
        sense="min" if lp.sense_ == highspy.ObjSense.kMinimize else "max",
        offset=lp.offset_,
        variables=names,
        kinds=tuple(KIND[kind] for kind in integrality),
        cost=np.array(lp.col_cost_, dtype=float),
        lower=np.array(lp.col_lower_, dtype=float),
        upper=np.array(lp.col_upper_, dtype=float),
        rows=_names("r", lp.num_row_, list(lp.row_names_)),
        row_lower=np.array(lp.row_lower_, dtype=float),
        row_upper=np.array(lp.row_upper_, dtype=float),
        start=np.array(matrix.start_, dtype=np.int64),
        index=np.array(matrix.index_, dtype=np.int64),
        value=np.array(matrix.value_, dtype=float),
        quadratic=quadratic,
    )


def _names(letter: str, count: int, given: list[str]) -> tuple[str, ...]:
    """The given names; the letter and the number where there is none."""
    taken, names = set(given), []
    for number, name in enumerate(given or [""] * count):
        new = name or f"{letter}{number}"
        while not name and new in taken:
            new += "_"
        names.append(new)
    return tuple(names)


def _hessian(model: Model) -> highspy.HighsHessian:
    """HiGHS minimises x'Qx / 2: lower triangle of Q, column by column, so a square term counts twice."""
    hessian = highspy.HighsHessian()
    hessian.dim_ = len(model.variables)
    hessian.format_ = highspy.HessianFormat.kTriangular
    terms = sorted(model.quadratic.items())
    counts = np.bincount([i for (i, _), _ in terms], minlength=hessian.dim_)
    hessian.start_ = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    hessian.index_ = np.array([j for (_, j), _ in terms], dtype=np.int32)
    hessian.value_ = np.array([2 * c if i == j else c for (i, j), c in terms])
    return hessian
