"""The author that asks a language model: a new representation, its problem, its program and a second one, step by step.

A reply is read, checked and, where it cannot be used, asked for again with the reason; then the attempt is refused.
Nothing that a model writes is run here: what it is worth is for the gates to find.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from trex.data.audit.rows import Row
from trex.data.endpoint import AskError
from trex.data.flywheel import prompts
from trex.data.flywheel.asking import Asking
from trex.data.flywheel.bucket import CODE, EXPLAINED, REPAIR
from trex.data.flywheel.dialogue import Dialogue, Message
from trex.data.flywheel.embedded import Attempt
from trex.data.flywheel.replies import (
    first_program,
    mistaken,
    outside_thought,
    represented,
    second_program,
    synthetic,
    told,
)
from trex.data.flywheel.representation import Representation
from trex.data.flywheel.writing import ANSWER, SYSTEM, model_text, question, reply
from trex.data.problem import DataError, nice
from trex.data.rendering import DATA_FILE, literal

REPAIRS = 2  # requests again, for each step
MOST_REPAIRS = 20
LONGEST = 400_000  # characters of a reply that is read
SEEDS = 2**31  # endpoints take these

T = TypeVar("T")


@dataclass(frozen=True)
class Refusal:
    """Why an attempt came to nothing: the step, the reason, and every reply that there was."""

    stage: str
    reason: str
    replies: tuple[str, ...] = ()


class Refused(Exception):
    """Ends an attempt; holds its refusal."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(f"{refusal.stage}: {refusal.reason}")
        self.refusal = refusal


class Talk:
    """The requests of one attempt: who answered them, and all that was said."""

    def __init__(self, asking: Asking, seed: int, number: int, repairs: int = REPAIRS) -> None:
        if isinstance(repairs, bool) or not isinstance(repairs, int) or not 0 <= repairs <= MOST_REPAIRS:
            raise DataError(f"repairs {repairs!r:.40}; accepted: whole numbers from 0 to {MOST_REPAIRS}")
        self.asking, self.chosen, self.number, self.repairs = asking, seed % SEEDS, number, repairs
        self.replies: list[str] = []
        self.models: list[str] = []
        self.wrote: set[str] = set()  # endpoints whose replies were used, those asked as others left out

    async def step(self, stage: str, chat: prompts.Chat, read: Callable[[str], T], other: int = 0) -> T:
        """What `read` makes of a reply; it raises DataError for one that cannot be used.

        other: how many endpoints further on to ask. Raises Refused where no reply could be used, and what ends a run:
        no budget, no endpoint.
        """
        asked, reason = chat, ""
        for turn in range(1 + self.repairs):
            try:
                answer = await self.asking.ask(asked, seed=(self.chosen + turn) % SEEDS, preferred=self.number + other)
            except AskError as error:
                raise Refused(Refusal(stage, f"no answer: {error}", tuple(self.replies))) from None
            text = answer.text.encode(errors="replace").decode()
            self.replies.append(text)
            if answer.model not in self.models:
                self.models.append(answer.model)
            try:
                if answer.finish == "length":
                    raise DataError("the reply was cut off at its longest length")
                if len(text) > LONGEST:
                    raise DataError(f"a reply of {len(text):,} characters; accepted: up to {LONGEST:,}")
                used = read(text)
                self.wrote |= {answer.endpoint} if other == 0 else set()
                return used
            except DataError as error:
                reason = str(error)
            except Exception as error:  # whatever a text from outside makes of the libraries that parse it
                reason = f"it cannot be read: {type(error).__name__}"
            asked = prompts.again(chat, outside_thought(text), reason)
        raise Refused(Refusal(stage, f"{reason} ({1 + self.repairs} replies)", tuple(self.replies)))


class Asked:
    """The author. repairs: requests again for each step where a reply cannot be used. Raises DataError for others.

    wrote: the endpoints that the last dialogue is of, that of its second program left out.
    """

    def __init__(self, asking: Asking, repairs: int = REPAIRS) -> None:
        self.asking, self.repairs = asking, repairs
        self.wrote: frozenset[str] = frozenset()
        self._talk(0, 0)  # checks the repairs

    def most_requests(self, task: str) -> int:
        """How many answers one dialogue of a task asks for at most."""
        return (4 + (task == REPAIR)) * (1 + self.repairs)

    async def seed(self, row: Row, number: int) -> Representation | Refusal:
        """The representation of a foreign problem with its program. Raises what ends a run, as `write` does."""
        if row.fault:
            return Refusal("seed", row.fault)
        talk = self._talk(number, number)
        try:
            return await talk.step(
                "seed", prompts.seed(row.problem, row.answer or row.label or "", row.files), represented
            )
        except Refused as error:
            return error.refusal

    async def write(
        self, attempt: Attempt, parent: Representation, parent_problem: str, number: int
    ) -> Dialogue | Refusal:
        """A dialogue of the attempt's bucket, new from its parent; its optimum is 0 until `with_optimum`.

        number: decides which endpoint is asked first; the second program is asked of the next one. Raises BudgetSpent
        and EndpointError, which end a run; a model's replies never raise.
        """
        talk = self._talk(attempt.seed, number)
        try:
            return await _write(talk, attempt, parent, parent_problem)
        except Refused as error:
            return error.refusal
        finally:
            self.wrote = frozenset(talk.wrote)

    def _talk(self, seed: int, number: int) -> Talk:
        return Talk(self.asking, seed, number, self.repairs)


async def _write(talk: Talk, attempt: Attempt, parent: Representation, parent_problem: str) -> Dialogue:
    bucket = attempt.bucket
    found = await talk.step(
        "representation",
        prompts.synthesis(parent, parent_problem, bucket),
        lambda text: synthetic(text, parent, bucket),
    )
    problem = await talk.step(
        "problem", prompts.problem(found, bucket.mode), lambda text: told(text, found, bucket.mode)
    )  # fmt: skip
    code = await talk.step(
        "program", prompts.program(found, problem, bucket.mode), lambda text: first_program(text, found, bucket.mode)
    )
    second = await talk.step(
        "second program", prompts.second(problem), lambda text: second_program(text, code), other=1
    )
    wrong, fault = "", ""
    if bucket.task == REPAIR:
        wrong, fault = await talk.step("mistake", prompts.mistake(problem, code), lambda text: mistaken(text, code))
    model = model_text(found)
    # Clean-CoT is what the cleaner makes of an explained answer
    style = CODE if bucket.style == CODE else EXPLAINED
    result = "" if bucket.mode == "DPS" else result_text(found, 0.0)  # nobody who answers has seen the data file
    return Dialogue(
        id=attempt.id,
        bucket=bucket,
        representation=found,
        problem=problem,
        messages=(
            Message("system", SYSTEM),
            Message("user", question(bucket.task, attempt.seed, problem, model, wrong)),
            Message("assistant", reply(bucket.task, style, model, code, result, (), fault)),
        ),
        files={DATA_FILE: literal(found.data)} if bucket.mode == "DPS" else {},
        program=code,
        optimum=0.0,
        lineage=attempt.parent.lineage,
        parent=attempt.parent.id,
        author=", ".join(talk.models),
        second=second,
        wrong=wrong,
        generation=attempt.parent.generation + 1,
    )


def result_text(found: Representation, optimum: float) -> str:
    """The result of an explained answer in words."""
    return f"The optimum is {nice(optimum)}{' ' + found.unit if found.unit else ''}."


def with_optimum(row: Dialogue, optimum: float) -> Dialogue:
    """A dialogue of this author with the optimum that its program was seen to have, also in the answer's words."""
    old, new = (f"{ANSWER}\n\n{result_text(row.representation, value)}" for value in (row.optimum, optimum))
    last = row.messages[-1]
    if last.content.endswith(old):
        last = replace(last, content=last.content.removesuffix(old) + new)
    return replace(row, messages=(*row.messages[:-1], last), optimum=optimum)
