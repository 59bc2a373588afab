"""What a model is asked: one item per question, whatever set it comes from."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

WORD = re.compile(r"[^\W_]+(?:[.,]\d+)*")  # numbers keep their decimal points
SETS = ("nl4opt", "optibench", "b4o_feasible", "b4o_orgeval", "families")


@dataclass(frozen=True)
class Item:
    """A question, what its program may read, and what is known of the answer.

    `answer` is the number that the set records, None where it records none; `reference` is a model in LP format, ""
    where the set has none. `cluster` names the related problems that count as one when errors are estimated.
    """

    id: str  # "set/row", unique across sets
    set: str  # one of SETS
    question: str
    answer: float | None
    files: Mapping[str, str] = field(default_factory=dict)  # name -> content, as "data.json"
    reference: str = ""
    reference_code: str = ""  # gurobipy
    cluster: str = ""
    family: str = ""  # of trex.data.families, for items of the set "families"

    def content(self) -> dict[str, Any]:
        """All fields, as JSON can hold them."""
        return {**{each.name: getattr(self, each.name) for each in fields(self)}, "files": dict(self.files)}

    @cached_property
    def keys(self) -> frozenset[str]:
        """What every copy of this problem shares one of: hashes of text, files, reference program and model."""
        found = {_key("text", plain(self.question))}
        if self.files:
            found.add(_key("files", *(part for name in sorted(self.files) for part in (name, self.files[name]))))
        if self.reference_code.strip():
            found.add(_key("program", self.reference_code.strip()))
        if self.reference.strip():
            found.add(_key("model", self.reference.strip()))
        return frozenset(found)


def plain(text: str) -> str:
    """The words and numbers of a text in lower case, with single spaces: equal for copies of one text."""
    return " ".join(WORD.findall(text.casefold()))


def _key(kind: str, *parts: str) -> str:
    return f"{kind} {hashlib.sha256(chr(0).join(parts).encode(errors='surrogatepass')).hexdigest()[:20]}"
