"""LP and MPS files and text: read as a `Model`, and written."""

import gzip
import os
import re
import zlib
from pathlib import Path
from typing import Any

from trex.files import write_atomic
from trex.solver.formats.constant import fold_constant
from trex.solver.formats.lp_reader import read_lp
from trex.solver.formats.lp_writer import write_lp
from trex.solver.formats.mps_reader import read_mps
from trex.solver.formats.mps_writer import write_mps
from trex.solver.formats.tokens import FIRST, LPError
from trex.solver.model import Model, ModelError

__all__ = ["LPError", "from_gurobi", "from_highs", "from_pyomo", "read", "write"]

LARGEST = 2**26  # bytes of text
FORMATS = ("lp", "mps")
# the first line that is neither blank nor a comment of the MPS format
MPS = re.compile(r"(?:[ \t]*\r?\n|\*[^\n]*\n)*(?:NAME|ROWS|OBJSENSE|OBJSENSEMAX|OBJNAME)(?=\s|$)", re.IGNORECASE)


def read(source: str | Path) -> Model:
    """Read LP or MPS format from a path, or from text: a string of several lines, or one that begins as LP text does.

    A file's format is that of its name (.lp, .mps, with or without .gz), any other one's that of its content.
    Kept: names, the objective's constant as `offset`, quadratic objectives and rows, special ordered sets, indicators,
    semi-continuous variables, minima, maxima, absolute values, conjunctions and disjunctions. Duplicate terms are
    summed and constants moved to the right. Raises LPError, with the place, for all else; nothing is left out.
    """
    text = content(source)
    given = _is_text(source)
    where, name = ("LP text", "") if given else (str(source), Path(source).name.lower().removesuffix(".gz"))
    if not text.strip():
        raise LPError(where, "it is empty")
    if name.endswith(".mps") or (not name.endswith(".lp") and MPS.match(text)):
        return fold_constant(read_mps(text, "MPS text" if not name else where))
    return fold_constant(read_lp(text, where))


def content(source: str | Path) -> str:
    """The text of a path, unpacked, or the text itself. Raises LPError where a path cannot be read."""
    if not isinstance(source, str | os.PathLike):
        raise LPError(f"a {type(source).__name__}", "it is not accepted; accepted: a path, or LP or MPS text as str")
    return (str(source) if _is_text(source) else _file(Path(source))).removeprefix("\ufeff")


def write(model: Model, path: str | Path | None = None, format: str = "lp") -> str:
    """The model as text, which `read` reads back as the same model; in MPS format each row's entries by variable.

    path: also write it there, in the format of the name (.lp, .mps, with or without .gz). Raises ModelError for a
    model that the format does not hold, and for a path that cannot be written.
    """
    if not isinstance(model, Model):
        raise ModelError(f"a {type(model).__name__} is not accepted; accepted: a Model")
    if path is not None and not isinstance(path, str | os.PathLike):
        raise ModelError(f"a {type(path).__name__} is not accepted as path; accepted: str, Path")
    suffixes = Path(path).suffixes if path is not None else []
    if path is not None:
        packed = suffixes[-1:] == [".gz"]
        format = "".join(suffixes[-2:-1] if packed else suffixes[-1:]).lower().removeprefix(".")
    if format not in FORMATS:
        raise ModelError(f"format {format!r}; accepted: {', '.join(FORMATS)}")
    text = write_lp(model) if format == "lp" else write_mps(model)
    if path is not None:
        try:
            data = text.encode()
            write_atomic(Path(path), gzip.compress(data, mtime=0) if packed else data)
        except (OSError, UnicodeError) as error:
            raise ModelError(f"{path} cannot be written ({error})") from None
    return text


def from_pyomo(model: Any) -> Model:
    """Read a pyomo ConcreteModel. See `trex.solver.pyomo_model`."""
    from trex.solver.pyomo_model import from_pyomo as convert

    return convert(model)


def from_gurobi(model: Any) -> Model:
    """Read a gurobipy Model. See `trex.solver.gurobi_model`."""
    from trex.solver.gurobi_model import from_gurobi as convert

    return convert(model)


def from_highs(model: Any) -> Model:
    """Read a highspy.Highs. See `trex.solver.highs`."""
    import highspy

    from trex.solver.highs import unload

    if not isinstance(model, highspy.Highs):
        raise ModelError(f"a {type(model).__name__} is not accepted; accepted: a highspy.Highs")
    return unload(model)


def _is_text(source: object) -> bool:
    """Whether it is a string of several lines, or one of several words that an objective begins and no file has."""
    if not isinstance(source, str) or "\n" in source or "\r" in source:
        return isinstance(source, str)
    begun = FIRST.match(source)
    if not begun or not source[begun.end() :].strip():
        return False
    try:
        return not Path(source).is_file()
    except (OSError, ValueError):  # too long for a path, or with characters that none has
        return True


def _file(path: Path) -> str:
    try:
        with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as stream:
            data = stream.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise LPError(str(path), f"it has more than {LARGEST} bytes")
        return data.decode()
    except (OSError, ValueError, EOFError, zlib.error) as error:
        if isinstance(error, LPError):
            raise
        reason = f"neither LP text, which has several lines, nor a file that can be read ({error})"
        raise LPError(repr(str(path)[:200]), reason) from None
