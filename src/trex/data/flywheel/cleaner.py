"""The rule-based cleaner: it turns an explained answer into Clean-CoT and repairs what the contract decides.

Clean-CoT (the T-Rex report) is a short modelling checklist and the program. Only the text is changed; nothing runs.
"""

import re
from collections.abc import Iterator
from dataclasses import replace

from trex.data.flywheel.bucket import FORMULATE
from trex.data.flywheel.dialogue import Cleaning, Dialogue, Message
from trex.data.flywheel.writing import CHECKLIST, FAULT, checklist, model_text, reply
from trex.data.flywheel.wrong import DOMAINS
from trex.data.gates import Refused
from trex.data.rendering import DATA_FILE

NAME = "rule-based cleaner"
SENSE = re.compile(r"\bpyo\.(minimize|maximize)\b")
DECLARED = re.compile(r"^    m\.(\w+) = pyo\.Var\(", re.MULTILINE)
DOMAIN = re.compile(r"\b(?:domain|within)=pyo\.\w+")
OPENED = re.compile(r"""open\(\s*(["'])(?P<path>[^"'\n]*[/\\])?data\.json\1""")
STEPS = re.compile(r"^(?:Sure|Certainly|Of course|Let me|Here is|Let's|Okay)\b[^\n]*\n+", re.MULTILINE | re.IGNORECASE)


def clean(row: Dialogue) -> Dialogue:
    """The dialogue with a Clean-CoT answer, its program repaired. Raises Refused where there is nothing to clean."""
    if not row.program.strip():
        raise Refused("cleaner", "there is no program to keep")
    changes, code = [], row.program
    for repaired, change in repairs(row):
        if change:
            changes.append(change)
            code = repaired
    fault = row.answer.partition(FAULT)[2].split("\n", 1)[0].strip() if FAULT in row.answer else ""
    optimum = None if row.bucket.task == FORMULATE else row.optimum
    lines = checklist(row.representation, row.bucket.mode, optimum)
    answer = reply(row.bucket.task, row.bucket.style, model_text(row.representation), code, "", lines, fault)
    changes.append(f"explanation replaced by a checklist of {len(lines)} lines")
    messages = (*row.messages[:-1], Message("assistant", answer))
    return replace(row, program=code, messages=messages, cleaning=Cleaning(NAME, row.answer, tuple(changes)))


def repairs(row: Dialogue) -> Iterator[tuple[str, str]]:
    """The program after each repair, with what was done; "" where nothing was to be done."""
    code, found = row.program, row.representation
    if row.bucket.task == FORMULATE:  # its program is a proof, which nobody is shown
        return
    senses = SENSE.findall(code)
    if len(senses) == 1 and senses[0] != found.sense:
        code = SENSE.sub(f"pyo.{found.sense}", code)
        yield code, f"objective: {senses[0]} -> {found.sense}"
    for decision in found.decisions:
        place = next((match for match in DECLARED.finditer(code) if match[1] == decision.name), None)
        end = code.find("\n", place.end()) if place else -1
        declared = DOMAIN.search(code, place.end(), end) if place else None
        right = f"domain={DOMAINS[decision.domain]}"
        if declared and declared[0].replace("within=", "domain=") != right:
            code = code[: declared.start()] + right + code[declared.end() :]
            yield code, f"variables {decision.name}: {declared[0]} -> {right}"
    if (opened := OPENED.search(code)) and opened["path"]:
        code = OPENED.sub(f'open("{DATA_FILE}"', code)
        yield code, f"data file: {opened['path']}{DATA_FILE} -> {DATA_FILE}"


def is_clean(answer: str) -> bool:
    """Whether an answer has a checklist already."""
    return answer.count(CHECKLIST) == 1 and not STEPS.search(answer)
