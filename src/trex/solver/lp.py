"""Read LP files with their names kept. HiGHS parses; what it cannot name or would leave out with a warning is met here.

HiGHS refuses names such as `x[0]`, which most modelling tools write. A name that holds brackets (no blank before `[`,
so that it cannot be the bracket of a quadratic term) is replaced by an alias before the parse and put back after it.
"""

import re
import tempfile
from dataclasses import replace
from pathlib import Path

import highspy
import numpy as np

from trex.solver import highs
from trex.solver.model import Model, ModelError

# A comment, a number, or a name with one or more bracketed parts, at most one level of brackets within them.
TOKEN = re.compile(
    r"""(?P<comment>\\.*)
      | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
      | (?P<name>(?:[^\s\\\[\]+\-*^<>=:\d.]|\.(?!\d))[^\s\\\[\]+\-*^<>=:]*
          (?P<brackets>\[(?:[^\s\[\]]|\[[^\s\[\]]*\])*\][^\s\\\[\]+\-*^<>=:]*)*)""",
    re.VERBOSE,
)
PLACED = re.compile(r"(?:ERROR|WARNING): +(?P<reason>[^\n]*)\n *--> [^\n]*:(?P<line>\d+):(?P<column>\d+)\n")
PLAIN = re.compile(r"(?:ERROR|WARNING): +(?P<reason>[^\n]*)")
SUMMED = "appears more than once"  # the one warning that loses nothing: duplicate terms are added up
CONSTANTS = ("Constant", "ONE_VAR_CONSTANT")  # how Gurobi and Pyomo write the objective's constant: a column fixed at 1


class LPError(ModelError):
    """LP text that is malformed or says what a Model cannot hold. `reason` is the message without its place."""

    def __init__(self, where: str, reason: str, line: int | None = None, column: int | None = None) -> None:
        place = f", line {line}, column {column}" if line is not None else ""
        super().__init__(f"{where}{place}: {reason}")
        self.reason, self.line, self.column = reason, line, column


def read(source: str | Path) -> Model:
    """Read LP format from a path, or from text (any string of more than one line).

    Kept: names, duplicate terms (summed), the objective's constant as `offset`, a quadratic objective. Raises LPError
    for anything malformed and for what is not represented: quadratic rows, SOS, indicator, semi-continuous and general
    constraints, several objectives, a constant on the left of a row.
    """
    text, where = _text(source)
    if not text.strip():
        raise LPError(where, "it is empty")
    renamed, aliases, shifts = _rename(text)
    with tempfile.TemporaryDirectory() as folder:
        path, log = Path(folder, "model.lp"), Path(folder, "log")
        path.write_text(renamed, encoding="utf-8")
        solver = highs.quiet()
        for option, value in (("log_to_console", False), ("log_file", str(log)), ("output_flag", True)):
            solver.setOptionValue(option, value)
        failed = solver.readModel(str(path)) == highspy.HighsStatus.kError
        _refuse(log.read_text(encoding="utf-8", errors="replace"), failed, where, aliases, shifts)
    try:
        model = highs.unload(solver)
    except ModelError as error:
        raise LPError(where, _restore(str(error), aliases)) from None
    names = {alias: name for name, alias in aliases.items()}
    return _fold_constant(
        replace(
            model,
            variables=tuple(names.get(name, name) for name in model.variables),
            rows=tuple(names.get(name, name) for name in model.rows),
        )
    )


def _text(source: str | Path) -> tuple[str, str]:
    if isinstance(source, str) and "\n" in source:
        return source, "LP text"
    try:
        return Path(source).read_text(encoding="utf-8"), str(source)
    except (OSError, UnicodeDecodeError) as error:
        reason = f"neither LP text, which has several lines, nor a file that can be read ({error})"
        raise LPError(repr(str(source)[:200]), reason) from None


def _rename(text: str) -> tuple[str, dict[str, str], dict[int, list[tuple[int, int]]]]:
    """Text without bracketed names, name -> alias, and per line (column in the new text, shift) after each alias."""
    stem = "v_"
    while stem in text:
        stem += "_"
    aliases: dict[str, str] = {}
    shifts: dict[int, list[tuple[int, int]]] = {}
    lines = []
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), start=1):
        parts, copied, length = [], 0, 0
        for token in TOKEN.finditer(line):
            if not token["brackets"]:
                continue
            alias = aliases.setdefault(token["name"], f"{stem}{len(aliases)}")
            parts += [line[copied : token.start()], alias]
            length += token.start() - copied + len(alias)
            copied = token.end()
            shifts.setdefault(number, []).append((length, copied - length))
        lines.append("".join([*parts, line[copied:]]))
    return "\n".join(lines) + "\n", aliases, shifts


def _refuse(
    log: str, failed: bool, where: str, aliases: dict[str, str], shifts: dict[int, list[tuple[int, int]]]
) -> None:
    """Raise LPError for an error of HiGHS, and for every warning after which the model would not be the one written."""
    for found in PLACED.finditer(log):
        if SUMMED in found["reason"]:
            continue
        line, column = int(found["line"]), int(found["column"])
        column += max((shift for shift in shifts.get(line, ()) if shift[0] < column), default=(0, 0))[1]
        raise LPError(where, _restore(found["reason"], aliases), line, column)
    reasons = [found["reason"] for found in PLAIN.finditer(log) if SUMMED not in found["reason"]]
    reasons = [reason for reason in reasons if failed or "ignored" in reason]
    if failed or reasons:
        raise LPError(where, _restore(reasons[0] if reasons else "HiGHS cannot read it", aliases))


def _restore(message: str, aliases: dict[str, str]) -> str:
    """A message about aliases as one about the names they stand for."""
    for name, alias in aliases.items():
        message = re.sub(rf"\b{alias}\b", lambda _, name=name: name, message)  # type: ignore[misc]
    return message


def _fold_constant(model: Model) -> Model:
    """Move a column fixed at 1 that carries the objective's constant into the offset."""
    for name in CONSTANTS:
        if name not in model.variables:
            continue
        j = model.variables.index(name)
        in_rows = (model.index == j).any() or any(j in pair for pair in model.quadratic)
        if in_rows or model.kinds[j] != "continuous" or model.lower[j] != 1 or model.upper[j] != 1:
            continue
        keep = np.delete(np.arange(len(model.variables)), j)
        model = replace(
            model,
            offset=model.offset + float(model.cost[j]),
            variables=tuple(model.variables[k] for k in keep),
            kinds=tuple(model.kinds[k] for k in keep),
            cost=model.cost[keep],
            lower=model.lower[keep],
            upper=model.upper[keep],
            index=model.index - (model.index > j),
            quadratic={(i - (i > j), k - (k > j)): c for (i, k), c in model.quadratic.items()},
        )
    return model
