"""What an audit is held against: another run of each program, another way from a Pyomo model to its optimum, and the
verdicts on the public seeds as they were measured.

Program and files are cut out of a row here once more, and gurobipy, where it is installed, is asked of what the program
built: then only the sandbox is shared with the audit. Elsewhere the recorder stands in for it, and is shared too.
"""

import json
import math
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from trex.data.audit.readings import readings
from trex.data.audit.verdicts import ACCEPTED, REFUSED
from trex.data.problem import DataError
from trex.solver.sandbox import Limits, Sandbox


def _is_installed() -> bool:
    return find_spec("gurobipy") is not None


REAL = _is_installed()
ZERO = 1e-6
GAP = 1.1e-4  # relative; a mixed-integer optimum of gurobipy is within its default gap of 1e-4
DRIVER = """
import json
import gurobipy as gp
built = []
first = gp.Model.__init__
def kept(self, *arguments, **named):
    first(self, *arguments, **named)
    built.append(self)
gp.Model.__init__ = kept
exec(compile(open("seed.py").read(), "seed.py", "exec"), {"__name__": "__main__"})
model = built[-1]
model.Params.OutputFlag = 0
model.update()
beyond = bool(model.IsQP or model.IsQCP or model.NumGenConstrs or model.NumSOS)
model.optimize()
if model.Status == 4:
    model.Params.DualReductions = 0
    model.optimize()
optimal = model.Status == 2
print("FOUND " + json.dumps({
    "failed": "", "status": model.Status, "beyond": beyond, "value": model.ObjVal if optimal else None,
    "away": sum(abs(v.X) >= 1e-6 for v in model.getVars()) if optimal else None,
}))
"""
INFEASIBLE, UNBOUNDED = 3, 5  # gurobipy's numbers
# gate -> ids of those of the 100 public seeds that it refused, with the defaults; readings.yaml names the file
SEEDS_REFUSED: Mapping[str, tuple[str, ...]] = {
    "model": ("public_seed_0d0f563312364b82",),
    "optimum": (
        "public_seed_169b059418025f8b", "public_seed_68fe99ac8e7dbaca", "public_seed_6aec5be4212d40c9",
        "public_seed_9c2d4245fd43925b", "public_seed_a8929c6571c3a89d", "public_seed_ba0975ce761dba20",
    ),
    "trivial": (
        "public_seed_278009304fdde0a5", "public_seed_8963f0d327ed174d", "public_seed_f0dbfc163a5183b9",
        "public_seed_f88b96638a18e693",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Found:
    """What a program's own run says: why it failed ("" where it did not), and of the last model that it built.

    status: gurobipy's number. beyond: whether it is no mixed-integer linear program. value: its optimum. away: how many
    variables are not zero there.
    """

    failed: str
    status: int | None = None
    beyond: bool = False
    value: float | None = None
    away: int | None = None


def parts(row: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    """Program and files of a row as the public seeds are written. Raises DataError for a row without those texts."""
    texts = [row.get(key) for key in ("problem", "answer")]
    if not all(isinstance(text, str) for text in texts):
        raise DataError(f"row {row.get('id')!r:.80}: its keys are {', '.join(row)}; accepted: texts problem, answer")
    problem, answer = map(str, texts)
    code = answer.split("<python>")[1].split("</python>")[0] if "<python>" in answer else answer
    lines = [line for line in code.splitlines() if not line.startswith("```")]
    files: dict[str, str] = {}
    name = ""
    kept: list[str] | None = None
    for line in problem.splitlines():
        if kept is not None and line.strip() == "```":
            files[name] = "\n".join(kept) + "\n"
            name, kept = "", None
        elif kept is not None:
            kept.append(line)
        elif line.startswith("### ") and "." in line:
            name = line[4:].strip(" `")
        elif line.startswith("```") and name:
            kept = []
    return "\n".join(lines), files


def run(row: Mapping[str, Any], sandbox: Sandbox, seconds: float = 120.0) -> Found:
    """What gurobipy, or the recorder, finds of one row's program, run confined. Raises DataError for another shape."""
    code, files = parts(row)
    done = sandbox.run(DRIVER, {**files, "seed.py": code}, Limits(seconds=seconds))
    found = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    if done.status != "ok" or not found:
        return Found(failed=done.message or done.status)
    return Found(**json.loads(found[-1][6:]))


def run_all(file: Path, seconds: float = 120.0) -> dict[str, Found]:
    """Row's id -> what is found, for a file in the shape of the seeds. Raises DataError, with the line, for another."""
    rows: dict[str, dict[str, Any]] = {}
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        if line.strip():
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                row = None
            if not isinstance(row, dict) or not isinstance(row.get("id"), str) or row["id"] in rows:
                raise DataError(f"{file}, line {number}: {line[:60]!r}; accepted: an object with a text id of its own")
            rows[row["id"]] = row
    with Sandbox(gurobi="gurobi" if REAL else "recorder") as sandbox:
        return {name: run(row, sandbox, seconds) for name, row in rows.items()}


def differences(verdicts: Iterable[Mapping[str, Any]], found: Mapping[str, Found], real: bool = REAL) -> list[str]:
    """Where an audit's verdicts name other rows than the programs' own runs, one sentence each; none where they agree.

    real: whether those were runs of gurobipy, which takes what is not represented here; the recorder does not.
    """
    by_id = {verdict["id"]: verdict for verdict in verdicts}
    lost = _named(by_id, "model", "not representable")
    ran = {name: one for name, one in found.items() if not one.failed}
    zero = {name for name, one in ran.items() if one.value is not None and abs(one.value) < ZERO}
    empty = {name for name, one in ran.items() if one.away == 0}
    failed = _named(by_id, "execution") | _named(by_id, "code") | _named(by_id, "model", "none")
    beyond = _named(by_id, "nonlinear")
    pairs = {
        "rows": (set(by_id), set(found)),
        "programs that fail": (failed | (set() if real else lost), set(found) - set(ran)),
        "models that are not linear": (
            beyond if real else beyond - lost, {name for name, one in ran.items() if one.beyond},
        ),
        "infeasible models": (
            _named(by_id, "optimum", "infeasible"), {name for name, one in ran.items() if one.status == INFEASIBLE},
        ),
        "unbounded models": (
            _named(by_id, "optimum", "unbounded"), {name for name, one in ran.items() if one.status == UNBOUNDED},
        ),
        "models whose optimum or point is zero": (_named(by_id, "trivial"), zero | empty),
        "models whose point is zero": (_named(by_id, "trivial", "zero point"), empty),
    }  # fmt: skip
    said = [
        f"{what}: the audit alone names {sorted(ours - theirs)}, the runs alone {sorted(theirs - ours)}"
        for what, (ours, theirs) in pairs.items()
        if ours != theirs
    ]
    for name, one in ran.items():
        if one.value is not None and name in by_id and name not in lost:
            value = by_id[name]["objective"]
            if value is None or not math.isclose(value, one.value, rel_tol=GAP, abs_tol=ZERO):
                said.append(f"optimum of {name}: {value!r} in the audit, {one.value!r} in the run")
    return said


def seeds_verdicts() -> list[dict[str, str]]:
    """Id and verdict of each public seed, as measured, in the order of the file: what `readings.against` takes."""
    refused = {name for names in SEEDS_REFUSED.values() for name in names}
    return [{"id": one.id, "verdict": REFUSED if one.id in refused else ACCEPTED} for one in readings()]


def optimum(model: Any, seconds: float = 60.0) -> tuple[str, float | None]:
    """SCIP's status of a Pyomo model and its optimum, None where there is none, through the MPS file that Pyomo writes.

    The reader is SCIP's; nothing of our own models is used.
    """
    import pyscipopt

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.mps")
        model.write(str(path))
        solver = pyscipopt.Model()
        solver.hideOutput()
        solver.setParam("limits/time", seconds)
        solver.readProblem(str(path))
        solver.optimize()
        status = solver.getStatus()
        return status, solver.getObjVal() if status == "optimal" else None


def _named(verdicts: Mapping[str, Mapping[str, Any]], gate: str, *kinds: str) -> set[str]:
    """Ids of rows at which a gate found something, of one of the kinds where some are named."""
    return {
        name
        for name, verdict in verdicts.items()
        if any(f["gate"] == gate and (not kinds or f["kind"] in kinds) for f in verdict["findings"])
    }
