"""What is known of a row after its program ran once and its model was solved by two solvers."""

import ast
import re
import warnings
from dataclasses import dataclass
from functools import lru_cache

from trex.data.audit import attached
from trex.data.audit.quantities import Quantity, digits
from trex.data.audit.rows import Row
from trex.data.extraction import Program, program
from trex.data.proving import sandbox
from trex.solver.model import Model
from trex.solver.sandbox.execution import Execution, Limits, SandboxError
from trex.solver.solution import Solution
from trex.solver.solve import solve

LONGEST = 100_000  # characters behind a program that are looked through
REASONING = re.compile(r"<(think|thinking|reasoning|model)>.*?(?:</\1>|\Z)", re.IGNORECASE | re.DOTALL)
CODE = re.compile(
    r"<(python3?|py)>.*?(?:</\1>|\Z)|^[ \t]*(`{3,}|~{3,})[^\n]*\n.*?(?:^[ \t]*\2[ \t]*$|\Z)",
    re.IGNORECASE | re.DOTALL | re.MULTILINE,
)
GOAL = (
    r"(?:objective(?: function)?(?: value)?|value|profit|costs?|revenue|income|benefit|return|yield|output|production|"
    r"distance|time|makespan|weight|demand|coverage|reach|savings|loss|waste|expense|spend(?:ing)?|utility|score|points)"
)
BEST = (
    r"(?:optimal|optimum|best|maximum|maximal|maximi[sz]ed|minimum|minimal|minimi[sz]ed|largest|least|highest|lowest)"
)
SAYS = (
    r"[\s*_:`]*(?:\([^)\n]{0,40}\)[\s*_:`]*)?(?:is|=|:|≈|of|equals|equal to|comes to|was|are)"
    r"[\s*_:`]*(?:approximately|about)?"
)
NUMBER = r"(?P<number>[-−]?[\s\\$€£]{0,3}[-−]?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?(?:\s(?:thousand|million|billion)\b)?)"
CLAIM = re.compile(
    rf"\b(?:{BEST}\s+(?:[\w'-]+\s+){{0,5}}?{GOAL}(?:\s+value)?|objective(?: function)?(?: value)?|"
    rf"{BEST}\s+(?:total|overall)(?:\s+[\w'-]+){{1,4}}){SAYS}\s*{NUMBER}(?!\s*(?:per\b|/|%))(?![\w.]*\d)",
    re.IGNORECASE,
)
# a sentence behind the program; less sure: it may tell of a part
RESULT = re.compile(
    rf"^[-*# \t]*The (?:largest|least|highest|lowest|smallest|greatest) [^.\n]{{1,120}}? is {NUMBER}(?![\w.]*\d)",
    re.IGNORECASE | re.MULTILINE,
)
BOXED = re.compile(rf"\\boxed\{{\s*{NUMBER}\s*\}}")


@dataclass(frozen=True)
class Facts:
    """Of one row. Nothing that varies between runs on one machine enters a gate's evidence."""

    program: Program
    tree: ast.Module | None  # of the program
    syntax: str  # why it has none
    execution: Execution | None  # None where nothing could be run
    solution: Solution | None  # None where there is no model
    told: str  # the problem's text without its files
    stated: tuple[Quantity, ...]  # optima that the answer's text names
    results: tuple[Quantity, ...]  # what a sentence behind the program calls the largest or the least
    printed: tuple[Quantity, ...]  # optima that the program prints

    @property
    def model(self) -> Model | None:
        """The last model that the program solved."""
        return self.execution.model if self.execution else None

    @property
    def optimum(self) -> float | None:
        """The optimum of that model, where it was found."""
        return self.solution.objective if self.solution and self.solution.status == "optimal" else None


def look(row: Row, seconds: float) -> Facts:
    """Run a row's program, confined, and solve its model: `seconds` each for the program and for each solver."""
    found = program(row.answer)
    tree, syntax = parse(found.code) if found.code else (None, "")
    execution = solution = None
    if found.code and not syntax:
        try:
            execution = sandbox().run(found.code, row.files, Limits(seconds=seconds))
        except SandboxError as error:  # a file's name, say
            execution = Execution("refused", None, None, "", 0.0, sandbox().level, message=str(error))
        if execution.status == "ok" and execution.model is not None:
            solution = solve(execution.model, seconds, check="second")
    told, _ = attached.split(row.problem)
    printed = tuple(claims(execution.stdout)) if execution else ()
    text = spoken(row.answer, found.code)
    stated, results = tuple(claims(text)), tuple(claims(behind(text)[:LONGEST], (RESULT,)))
    return Facts(found, tree, syntax, execution, solution, told, stated, results, printed)


@lru_cache(maxsize=8)  # several gates ask for that of one program; nobody changes a tree
def parse(code: str) -> tuple[ast.Module | None, str]:
    """The tree of a program, or why it has none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(code), ""
    except SyntaxError as error:
        return None, f"line {error.lineno}: {error.msg}"
    except (ValueError, RecursionError, MemoryError) as error:
        return None, f"{type(error).__name__}: {error}"


def spoken(answer: str, code: str) -> str:
    """An answer's text outside of its reasoning, its model and its code, in whose place stands a form feed."""
    text = answer.replace("\r\n", "\n").replace("\f", " ")
    text = text.replace(code, "\f\n") if code else text
    return CODE.sub("\f\n", REASONING.sub("\n", text))


def behind(text: str) -> str:
    """What follows the last code of a spoken text, "" where there is none."""
    _, mark, after = text.rpartition("\f")
    return after if mark else ""


def claims(text: str, patterns: tuple[re.Pattern[str], ...] = (CLAIM, BOXED)) -> list[Quantity]:
    """The numbers that a text calls an optimum, in order."""
    found = sorted((m for pattern in patterns for m in pattern.finditer(text)), key=lambda match: match.start())
    numbers: list[Quantity] = []
    for match in found:
        number = re.sub(r"[\s\\$€£]+(?=[\d−-])", "", match["number"]).replace("−", "-")
        for quantity in digits(number.lstrip("-")):
            sign = -1.0 if number.startswith("-") else 1.0
            numbers.append(Quantity(" ".join(match[0].split()), sign * quantity.value, quantity.half))
    return numbers
