"""What a model is asked: one item per question, whatever set it comes from."""

from collections.abc import Mapping
from dataclasses import dataclass, field

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
