"""A cleaner that is asked for a Clean-CoT answer, and a reviewer, of another endpoint, that is asked to judge it."""

from collections.abc import Collection

from trex.data.endpoint import AskError
from trex.data.flywheel import prompts
from trex.data.flywheel.asked import REPAIRS, Refusal, Refused, Talk
from trex.data.flywheel.asking import Asking, extract_json
from trex.data.flywheel.bucket import CLEAN_COT, FORMULATE, REPAIR
from trex.data.flywheel.dialogue import Dialogue, Review
from trex.data.flywheel.replies import component_names, outside_thought, program_of
from trex.data.flywheel.writing import CHECKLIST, FAULT, MODEL, reply
from trex.data.problem import DataError

LONGEST_REVIEW = 100_000  # characters
MOST_REASONS, LONGEST_REASON = 20, 1000
BULLET, OBJECTIVE, RESULT = "- ", "- Objective:", "- Result:"


async def propose(asking: Asking, row: Dialogue, number: int, repairs: int = REPAIRS) -> str | Refusal:
    """A Clean-CoT answer to a dialogue: checklist and program, or model, repaired where needed.

    number: decides which endpoint is asked first. Raises what ends a run: no budget, no endpoint; DataError for repairs
    that are not accepted.
    """
    found = await proposed(asking, row, number, repairs)
    return found if isinstance(found, Refusal) else found[0]


async def proposed(
    asking: Asking, row: Dialogue, number: int, repairs: int = REPAIRS
) -> tuple[str, frozenset[str]] | Refusal:  # fmt: skip
    """What `propose` returns, and the endpoints that it is of. Raises what `propose` does."""
    talk = Talk(asking, number, number, repairs)
    try:
        text = await talk.step("cleaning", prompts.clean(row), lambda text: cleaned(text, row))
    except Refused as error:
        return error.refusal
    return text, frozenset(talk.wrote)


async def review(
    asking: Asking, row: Dialogue, proposal: str, number: int, writers: Collection[str] = ()
) -> Review:  # fmt: skip
    """What the next endpoint says of a proposed answer; a review that cannot be read is a refusal that says so.

    writers: endpoints whose review is a refusal, since they had a hand in the dialogue. Raises what ends a run: no
    budget, no endpoint.
    """
    try:
        answer = await asking.ask(prompts.review(row, proposal), seed=number % 2**31, preferred=number + 1)
    except AskError as error:
        return Review("", False, (f"no review: {error}",))
    if answer.endpoint in writers:
        return Review(answer.model, False, (f"reviewed by {answer.endpoint}, which had a hand in the dialogue",))
    try:
        if answer.finish == "length":
            raise DataError("it was cut off at its longest length")
        accepted, reasons = judged(answer.text)
    except DataError as error:
        return Review(answer.model, False, (f"unreadable review: {error}",))
    except Exception as error:  # whatever a text from outside makes of the libraries that parse it
        return Review(answer.model, False, (f"unreadable review: {type(error).__name__}",))
    return Review(answer.model, accepted, reasons)


def judged(text: str) -> tuple[bool, tuple[str, ...]]:
    """Whether a reviewer's reply accepts, and its reasons. Raises DataError for a reply that is no review."""
    if len(text) > LONGEST_REVIEW:
        raise DataError(f"{len(text):,} characters; accepted: up to {LONGEST_REVIEW:,}")
    value = extract_json(text, ("accepted", "reasons"))
    accepted, reasons = value["accepted"], value["reasons"]
    if not isinstance(accepted, bool):
        raise DataError(f"accepted is {accepted!r:.60}; accepted: true or false")
    if not isinstance(reasons, list) or not all(isinstance(reason, str) for reason in reasons):
        raise DataError(f"reasons are {reasons!r:.60}; accepted: a list of texts")
    said = [reason.encode(errors="replace").decode()[:LONGEST_REASON].strip() for reason in reasons[:MOST_REASONS]]
    said = [reason for reason in said if reason]
    return accepted, tuple(said) if said or accepted else ("it gives no reason",)


def cleaned(text: str, row: Dialogue) -> str:
    """The Clean-CoT answer of a reply, in the layout of all of them. Raises DataError for what is none."""
    text = outside_thought(text).replace("\r\n", "\n")
    before, mark, rest = text.partition(CHECKLIST)
    if not mark or CHECKLIST in rest:
        raise DataError(f"{text.count(CHECKLIST)} lines {CHECKLIST!r}; accepted: one")
    lines, task, found = _bullets(rest), row.bucket.task, row.representation
    needed = [OBJECTIVE, *([] if task == FORMULATE or row.bucket.mode == "DPS" else [RESULT])]
    if lost := [start for start in needed if sum(line.startswith(start) for line in lines) != 1]:
        raise DataError(f"the checklist has no line, or more than one, {lost[0]!r}")
    names = component_names(found)
    if lost := [name for name in names if not any(f"`{name}`" in line for line in lines)]:
        raise DataError(f"the checklist has no line for `{lost[0]}`")
    fault = ""
    if task == REPAIR:
        told = [line.removeprefix(FAULT).strip() for line in before.splitlines() if line.startswith(FAULT)]
        if len(told) != 1 or not told[0]:
            raise DataError(f"{len(told)} lines {FAULT!r} before the checklist; accepted: one")
        fault = told[0]
    model = code = ""
    if task == FORMULATE:
        model = rest.partition(MODEL)[2].strip()
        if "$" not in model or "```" in model:
            raise DataError(f"no model in LaTeX without a program behind {MODEL!r}")
    else:
        code = program_of(rest, "pyomo")
    return reply(task, CLEAN_COT, model, code, "", lines, fault)


def _bullets(text: str) -> list[str]:
    """The lines of the list that a text begins with."""
    lines = []
    for line in text.strip().splitlines():
        if not line.startswith(BULLET):
            if line.strip():
                break
            continue
        lines.append(line.rstrip())
    return lines
