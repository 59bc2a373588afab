"""QSopt_ex, an exact simplex method, by its program `esolver` where that is installed."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trex.solver.exact import Program

PROGRAM = "esolver"
VALUE = re.compile(r"^\s*Value = (?P<value>-?\d+(?:/\d+)?)\s*$", re.MULTILINE)


def value(program: Program, seconds: float) -> tuple[Fraction | None, str]:
    """The rational optimum of a linear program, or None and why there is none."""
    found = shutil.which(PROGRAM)
    if found is None:
        return None, "QSopt_ex is not installed"
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "model.lp").write_text(lp_text(program))
        command = [found, "-L", "-O", "answer.sol", "model.lp"]
        try:
            subprocess.run(command, cwd=folder, capture_output=True, timeout=max(seconds, 0.1), check=False)
            answer = Path(folder, "answer.sol").read_text(errors="replace")
        except subprocess.TimeoutExpired:
            return None, f"QSopt_ex stopped after {seconds:.0f} s"
        except OSError as error:
            return None, f"QSopt_ex has no answer ({error.strerror})"
    match = VALUE.search(answer)
    if match is None or "status OPTIMAL" not in answer:
        status = re.search(r"status\s*=?\s*(\w+)", answer)
        return None, f"QSopt_ex says {status[1] if status else 'nothing'}"
    return program.offset + Fraction(match["value"]), ""


def lp_text(program: Program) -> str:
    """The program in QSopt_ex's LP format, numbers as fractions, without the offset; v0, v1, … and r0, r1, …"""
    lines = ["Minimize" if program.sense == "min" else "Maximize"]
    lines += _terms(" obj:", enumerate(program.cost), force=bool(program.cost))
    lines.append("Subject To")
    for i, (row, (low, high)) in enumerate(zip(program.rows, program.sides, strict=True)):
        relations = [("=", low)] if low is not None and low == high else [(">=", low), ("<=", high)]
        for k, (relation, side) in enumerate(relations):
            if side is not None:
                lines += [*_terms(f" r{i}_{k}:", row.items(), force=True), f"  {relation} {side}"]
    lines.append("Bounds")
    for j, (low, high) in enumerate(program.columns):
        if low is None and high is None:
            lines.append(f" v{j} free")
        elif low is not None and low == high:
            lines.append(f" v{j} = {low}")
        else:
            lines.append(f" {'-inf' if low is None else low} <= v{j}" + ("" if high is None else f" <= {high}"))
    return "\n".join([*lines, "End", ""])


def _terms(head: str, terms: Iterable[tuple[int, Fraction]], force: bool) -> list[str]:
    """One term a line, as the format limits the length of lines; `force` writes a term of 0 where there is none."""
    kept = [(j, c) for j, c in terms if c]
    lines = [f"  {'-' if c < 0 else '+'} {abs(c)} v{j}" for j, c in kept]
    return [head, *(lines or (["  0 v0"] if force else []))]
