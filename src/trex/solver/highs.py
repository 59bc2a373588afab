"""HiGHS, quiet and repeatable, and the way between its arrays and ours."""

from importlib import metadata

import highspy
import numpy as np

from trex.solver.model import Model, ModelError

NAME = f"HiGHS {metadata.version('highspy')}"
# A mixed-integer search stops at a relative gap of 1e-4 by default: too wide for optima compared at 1e-6.
GAP = 1e-9
SMALLEST = 1e-12  # HiGHS leaves out smaller coefficients of rows; by default it already does so below 1e-9
KIND = {highspy.HighsVarType.kContinuous: "continuous", highspy.HighsVarType.kInteger: "integer"}


class Highs(highspy.Highs):
    """HiGHS that prints nothing: it is silenced before the first call that would print its banner."""

    def enableCallbacks(self) -> None:
        """Called by the constructor, before any option can be set from outside."""
        self.silent()
        super().enableCallbacks()


def quiet(time_s: float | None = None) -> Highs:
    """A HiGHS on one thread with a fixed seed, narrow gaps, and a limit in seconds (none by default)."""
    highs = Highs()
    options = {"threads": 1, "random_seed": 0, "mip_rel_gap": GAP, "mip_abs_gap": GAP, "small_matrix_value": SMALLEST}
    if time_s is not None:
        options["time_limit"] = float(time_s)
    for option, value in options.items():
        if highs.setOptionValue(option, value) != highspy.HighsStatus.kOk:
            raise ModelError(f"HiGHS does not accept {option} = {value!r}")
    return highs


def load(highs: Highs, model: Model) -> None:
    """Give `model` to HiGHS. Raises ModelError where HiGHS refuses the data."""
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(model.variables), len(model.rows)
    lp.sense_ = highspy.ObjSense.kMinimize if model.sense == "min" else highspy.ObjSense.kMaximize
    lp.offset_ = model.offset
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = model.cost, model.lower, model.upper
    lp.row_lower_, lp.row_upper_ = model.row_lower, model.row_upper
    kinds = {ours: theirs for theirs, ours in KIND.items()}
    if len(model.integers):
        lp.integrality_ = [kinds[kind] for kind in model.kinds]
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
    integrality = list(lp.integrality_) or [highspy.HighsVarType.kContinuous] * lp.num_col_
    for name, kind in zip(lp.col_names_, integrality, strict=True):
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
        variables=tuple(lp.col_names_),
        kinds=tuple(KIND[kind] for kind in integrality),
        cost=np.array(lp.col_cost_, dtype=float),
        lower=np.array(lp.col_lower_, dtype=float),
        upper=np.array(lp.col_upper_, dtype=float),
        rows=tuple(lp.row_names_),
        row_lower=np.array(lp.row_lower_, dtype=float),
        row_upper=np.array(lp.row_upper_, dtype=float),
        start=np.array(matrix.start_, dtype=np.int64),
        index=np.array(matrix.index_, dtype=np.int64),
        value=np.array(matrix.value_, dtype=float),
        quadratic=quadratic,
    )


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
