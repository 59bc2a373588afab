"""The gates of the flywheel, in order, each with evidence: what a dialogue must pass before it is let into the pool."""

from dataclasses import replace

from trex.data.flywheel import gates_on_form as form
from trex.data.flywheel import gates_on_model as on_model
from trex.data.flywheel import gates_on_text as text
from trex.data.flywheel.dialogue import Dialogue
from trex.data.flywheel.gates_on_reasoning import reasoning
from trex.data.flywheel.looking import Facts, look
from trex.data.flywheel.reviewer import cleaning
from trex.data.flywheel.safety import safety
from trex.data.gates import OF_COLLECTION

OF_ROW = (
    "schema", "safety", "code", "execution", "model", "optimum", "trivial", "independent", "data", "tables", "numbers",
    "units", "direction", "integrality", "contract", "claim", "repair", "reasoning", "cleaner", "reviewer", "export",
)  # fmt: skip
GATES = ("author", *OF_ROW, *OF_COLLECTION)


def judge(row: Dialogue) -> tuple[Dialogue, Facts]:
    """The dialogue with the evidence of all gates that it passed, and what is known of it then.

    Raises Refused at the first gate that it does not pass. Nothing runs before its safety was looked at.
    """
    evidence = {"schema": form.schema(row), "safety": safety(row), "code": form.code(row)}
    facts = look(row)
    evidence |= on_model.audit(row, facts)
    evidence["contract"] = on_model.contract(row, facts)
    evidence["data"] = text.data(row, facts)
    evidence["numbers"] = text.numbers(row, facts)
    evidence["units"] = text.units(row, facts)
    evidence["independent"] = on_model.independent(row, facts)
    evidence["claim"] = on_model.claim(row, facts)
    evidence["repair"] = on_model.repair(row, facts)
    evidence["reasoning"] = reasoning(row, facts.optimum)
    evidence |= cleaning(row)
    evidence["export"] = form.export(row)
    return replace(row, evidence={gate: evidence[gate] for gate in OF_ROW if evidence.get(gate)}), facts
