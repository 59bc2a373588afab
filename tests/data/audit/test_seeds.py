"""The public seeds: the audit names the same rows as an independent run of each program.

That run shares only the sandbox with the audit: it cuts program and files out of the row by itself, and asks gurobipy,
where it is installed, of what the program built; otherwise the recorder stands in for it.
"""

import json
import math
from importlib.util import find_spec
from pathlib import Path

import pytest

import trex.paths
from trex.data.audit.run import VERDICTS, audit
from trex.solver.sandbox import Limits, Sandbox

SEEDS = Path(trex.paths.CHECKOUT).parent / "shared" / "benchmarks" / "public_seeds.jsonl"
REAL = find_spec("gurobipy") is not None
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
    "status": model.Status, "beyond": beyond, "value": model.ObjVal if optimal else None,
    "away": sum(abs(v.X) >= 1e-6 for v in model.getVars()) if optimal else None,
}))
"""


def parts(row: dict) -> tuple[str, dict[str, str]]:
    """Program and files of a seed, line by line."""
    answer = row["answer"]
    code = answer.split("<python>")[1].split("</python>")[0] if "<python>" in answer else answer
    lines = [line for line in code.splitlines() if not line.startswith("```")]
    files: dict[str, str] = {}
    name, kept = "", None
    for line in row["problem"].splitlines():
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


def run(row: dict, sandbox: Sandbox) -> dict:
    """What another solver finds of one seed."""
    code, files = parts(row)
    done = sandbox.run(DRIVER, {**files, "seed.py": code}, Limits(seconds=120.0))
    found = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    return json.loads(found[-1][6:]) if done.status == "ok" and found else {"failed": done.message}


@pytest.mark.slow
@pytest.mark.skipif(not SEEDS.is_file(), reason="the public seeds are not here")
def test_the_audit_names_the_rows_that_an_independent_run_names(tmp_path: Path):
    rows = [json.loads(line) for line in SEEDS.read_text().splitlines()]
    with Sandbox(gurobi="gurobi" if REAL else "recorder") as sandbox:
        found = {row["id"]: run(row, sandbox) for row in rows}
    audit(SEEDS, tmp_path / "out", processes=2, seconds=60.0)
    verdicts = {v["id"]: v for v in map(json.loads, (tmp_path / "out" / VERDICTS).read_text().splitlines())}
    assert list(verdicts) == list(found)

    def named(gate: str, *kinds: str) -> set[str]:
        return {
            name
            for name, v in verdicts.items()
            if any(f["gate"] == gate and (not kinds or f["kind"] in kinds) for f in v["findings"])
        }

    # what is not represented here is no failure of the program: gurobipy takes it, the recorder does not
    lost = named("model", "not representable")
    failed = {name for name, one in found.items() if "failed" in one}
    assert named("execution") | named("code") | named("model", "none") | (set() if REAL else lost) == failed
    if REAL:
        assert named("nonlinear") == {name for name, one in found.items() if one.get("beyond")}
    assert named("optimum", "infeasible") == {name for name, one in found.items() if one.get("status") == 3}
    assert named("optimum", "unbounded") == {name for name, one in found.items() if one.get("status") == 5}
    zero = {name for name, one in found.items() if one.get("value") is not None and abs(one["value"]) < 1e-6}
    empty = {name for name, one in found.items() if one.get("away") == 0}
    assert named("trivial") == zero | empty and named("trivial", "zero point") == empty
    for name, one in found.items():
        if one.get("value") is not None and name not in lost:
            # a mixed-integer optimum of gurobipy is within its default gap
            assert math.isclose(verdicts[name]["objective"], one["value"], rel_tol=1.1e-4, abs_tol=1e-6), name
    assert len(found) == 100 and len(named("optimum", "infeasible")) > 0 and len(empty) > 0
