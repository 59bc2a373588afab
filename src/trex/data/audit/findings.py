"""What a gate says of a row."""

from dataclasses import dataclass

REFUSE, NOTE = "refuse", "note"
SEVERITIES = (REFUSE, NOTE)
GATES = (
    "schema", "code", "execution", "model", "optimum", "trivial", "nonlinear", "claim", "tables", "numbers",
    "direction", "integrality",
)  # fmt: skip  # in the order in which they are asked
LONGEST = 300  # characters of evidence


@dataclass(frozen=True)
class Finding:
    """One thing that a gate found, with evidence in one line that a person can check."""

    gate: str  # one of GATES
    kind: str
    evidence: str
    severity: str = NOTE  # one of SEVERITIES; one REFUSE refuses the row


def line(text: str) -> str:
    """A text on one line, of LONGEST characters at most, that any encoding takes."""
    words = " ".join(text.split()).encode(errors="replace").decode()
    return words if len(words) <= LONGEST else words[: LONGEST - 1] + "…"
