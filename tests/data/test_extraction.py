"""Programs in answers: wrappings, several blocks, reasoning, and texts that are meant to break a reader."""

import ast
import json
import random
import re
from pathlib import Path

import pytest

import trex.paths
from trex.data.extraction import LARGEST, program

SHARED = Path(trex.paths.CHECKOUT).parent / "shared"
CASES = SHARED / "cases" / "or" / "solver_evaluator.json"
SEEDS = SHARED / "benchmarks" / "public_seeds.jsonl"


def written(n: int = 4, name: str = "model") -> str:
    """A complete program, told apart by n."""
    return f"import gurobipy as gp\n{name} = gp.Model()\nx = {name}.addVar(ub={n})\n{name}.optimize()\n"


CODE = written()
DRAFT = written(1)
PYOMO = "import pyomo.environ as pyo\nm = pyo.ConcreteModel()\nm.x = pyo.Var()\npyo.SolverFactory('highs').solve(m)\n"
HIGHSPY = "import highspy\nh = highspy.Highs()\nx = h.addVariable(ub=4)\nh.maximize(3 * x)\n"
FUNCTION = "import gurobipy as gp\ndef plan(d):\n    m = gp.Model()\n    m.optimize()\n    return m\n"


def fence(code, tag="python", marks="```", close=True):
    return f"{marks}{tag}\n{code}" + (f"{marks}\n" if close else "")


@pytest.mark.skipif(not CASES.is_file(), reason="the cases are not here")
def test_every_recorded_completion_gives_its_program():
    for case in json.loads(CASES.read_text())["cases"]:
        found = program(case["completion"])
        compile(found.code, case["id"], "exec")
        inner = case["completion"].split("<python>")[-1].split("```")
        kept = max((part.split("</python>")[0] for part in inner), key=lambda part: ("import" in part, len(part)))
        assert found.code.strip() in kept and "Python" not in found.code.split("\n")[0], case["id"]
        assert len(found.code.split("\n")) >= len(kept.strip().split("\n")) - 1, case["id"]


TAGS = ("python", "Python", "PYTHON", "py", "Py", "python3", " python", "{.python}", "{python}", "", 'python title="a"',
        "gurobipy", "plaintext")  # fmt: skip


@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize("marks", ["```", "~~~", "````"])
@pytest.mark.parametrize("close", [True, False])
@pytest.mark.parametrize("code", [CODE, PYOMO, HIGHSPY])
def test_fences(tag, marks, close, code):
    text = f"Here it is:\n{fence(code, tag, marks, close)}"
    for variant in (text, text.replace("\n", "\r\n"), "\ufeff" + text):
        assert program(variant).code == code


WRAPPED = {
    "indented fence": "1. The program:\n" + "".join(f"   {line}\n" for line in fence(CODE).splitlines()),
    "fence behind text": "The program: ```python\n" + CODE + "```\nDone.",
    "fence behind the last line": "```python\n" + CODE.rstrip() + "```",
    "quoted": "".join(f"> {line}\n" for line in fence(CODE).splitlines()),
    "tag": f"<python>\n{CODE}</python>",
    "upper tag": f"<PYTHON>{CODE}</Python>",
    "unclosed tag": f"So:\n<python>\n{CODE}",
    "fence in a tag": f"<python>\n{fence(CODE)}</python>",
    "tag in a fence": fence(f"<python>\n{CODE}</python>\n", "xml"),
    "fence in a longer fence": fence(fence(CODE), "markdown", "````"),
    "tag beats a later formula": f"<python>\n{CODE}</python>\n```\nmax 3x, x <= 4, for every day of the week\n```",
    "tag beats an earlier formula": f"```latex\n\\max 3x\n```\n<python>\n{CODE}</python>",
    "tag beats a fence": f"<python>\n{CODE}</python>\n" + fence(DRAFT),
    "tag only mentioned": "I put it in <python> tags.\n" + fence(CODE),
    "tag with a word": "<python>code</python> as asked:\n" + fence(CODE),
    "unclosed, then prose": fence(CODE, close=False) + "\nThis program finds the optimum, 12.\n\nIt isn't hard.",
    "unclosed, then another": fence(DRAFT, close=False) + "Better:\n" + fence(CODE),
    "bare": f"The model is simple.\n\n{CODE}",
    "bare, then prose": f"From the text we get:\n\n{CODE}\nThis gives the optimum.",
    "backticks in prose": "Programs stand between ``` marks.\n" + fence(CODE),
    "inline marks": "Use ```x``` for x.\n" + fence(CODE),
    "last of two": fence(DRAFT) + "Corrected:\n" + fence(CODE),
    "then pip": fence(CODE) + fence("pip install gurobipy\n", "bash") + fence("!pip install gurobipy\n"),
    "then JSON": fence(CODE) + fence('{"status": 2, "optimal_value": 42.0}\n', "json"),
    "then untagged JSON": fence(CODE) + fence('{"status": 2, "optimal_value": 42.0}\n', ""),
    "then output": fence(CODE) + fence("Optimal solution found\nobjective: 12\n", ""),
    "then a use": fence(CODE) + "To see more:\n" + fence("model.optimize()\nprint(model.ObjVal)\n"),
    "then a use with import": fence(CODE) + fence("import gurobipy as gp\ns = gp.Env()\nprob.optimize(s)\n"),
    "then a longer remark": fence(CODE) + fence("for v in model.getVars():\n    print(v.VarName, v.X)\n" * 9),
    "then LP": fence(CODE) + fence("Maximize\n 3 x\nSubject To\n x <= 4\nEnd\n", "lp"),
    "then a broken one": fence(CODE) + fence("import gurobipy as gp\nm = gp.Model(\n"),
    "thought, then said": f"<think>\n{fence(DRAFT)}</think>\n{fence(CODE)}",
    "said, then thought": f"{fence(CODE)}<THINK>or {fence(DRAFT)}</THINK>",
    "thought without opening": f"first {fence(DRAFT)}</think>\n{fence(CODE)}",
    "thought only": f"<think>{fence(CODE)}</think>\nThe optimum is 12.",
    "thought without end": f"<think>so {fence(CODE)}",
    "thought, then output": f"<think>{fence(CODE)}</think>\n" + fence('{"value": 12}\n', "json"),
}  # fmt: skip


@pytest.mark.skipif(not SEEDS.is_file(), reason="the benchmark folder is not here")
def test_every_public_seed_gives_its_program():
    for line in SEEDS.read_text().splitlines():
        seed = json.loads(line)
        found = program(seed["answer"])
        compile(found.code, seed["id"], "exec")
        assert "gurobipy" in found.code and found.how in ("tag", "plain text"), seed["id"]
        assert found.code.strip() in seed["answer"] and "</python>" not in found.code
        if "<python>" not in seed["answer"]:
            assert found.code.strip() == seed["answer"].strip()


@pytest.mark.parametrize("name", WRAPPED)
def test_the_program_is_found(name):
    found = program(WRAPPED[name])
    assert found.code == CODE, found


JOINED = {
    "imports and data first": (["import gurobipy as gp\nd = {'u': 4}\n",
                                "m = gp.Model()\nm.addVar(ub=d['u'])\nm.optimize()\n"], [0, 1]),
    "data before the imports": (["d = {'u': 4}\n", "import gurobipy as gp\nm = gp.Model()\nm.addVar(ub=d['u'])\n"
                                 "m.optimize()\n"], [0, 1]),
    "four parts": (["import pyomo.environ as pyo\n", "m = pyo.ConcreteModel()\n", "m.x = pyo.Var()\n",
                    "pyo.SolverFactory('highs').solve(m)\n", "print(m.x.value)\n"], [0, 1, 2, 3]),
    "after a draft": ([DRAFT, "import highspy\n", "h = highspy.Highs()\nh.run()\n"], [1, 2]),
    "a function and its call": ([FUNCTION, "d = {'u': 4}\nplan(d)\n"], [0, 1]),
    "a function that is called": ([FUNCTION + "plan({})\n", "plan({'u': 5})\n"], [0]),
    "a function that solves by name": ([FUNCTION.replace("plan", "solve"), "solve({})\n"], [0, 1]),
    "an error in the last": ([CODE.replace("ub=4", "ub=limit")], [0]),
    "an error in the last, after a draft": ([DRAFT, CODE.replace("ub=4", "ub=limit")], [1]),
    "output between": (["import gurobipy as gp\n", "Set parameter Username", "m = gp.Model()\nm.optimize()\n"], [0, 2]),
    "writes its model by a path": (["import gurobipy as gp\np = 'out/model.lp'\nm = gp.Model()\nm.write(p)\n",
                                    "x = 1\n"], [0]),
    "writes its model": (["import gurobipy as gp\nm = gp.Model()\nm.write('model.lp')\n", "print('done')\n"], [0]),
}  # fmt: skip


@pytest.mark.parametrize("name", JOINED)
def test_programs_in_several_blocks(name):
    blocks, expected = JOINED[name]
    found = program("\nthen\n".join(map(fence, blocks)))
    assert found.code == "\n".join(blocks[k] for k in expected), found
    assert ("joined" in found.how) == (len(expected) > 1)


INCOMPLETE = {
    "forged": "import sys\nprint('{\"status\": 2}')\nsys.exit(0)\n",
    "loop": "while True: pass\n",
    "syntax error": "import gurobipy as gp\nm = gp.Model(\nm.optimize()\n",
    "not solved": "import gurobipy as gp\nm = gp.Model()\nm.addVar()\n",
    "cut off": CODE + "for v in model.getVars(:\n    print(v.X",
    "null": "import gurobipy as gp\nx = '\0'\n",
    "surrogate": "import gurobipy as gp\nx = '\ud800'\n",
}


@pytest.mark.parametrize("name", INCOMPLETE)
def test_what_is_not_complete_is_still_the_program(name):
    code = INCOMPLETE[name]
    assert program(f"Well:\n{fence(code)}").code.strip() == code.strip()
    assert program(fence("{'a': 1}\n", "json") + fence(code) + fence("12\n", "text")).code.strip() == code.strip()


def test_an_answer_that_was_cut_is_not_made_whole_by_leaving_out_its_end():
    code = "import gurobipy as gp\nm = gp.Model()\nm.addVar()\nm.addConstr("
    assert program(fence(code, close=False)).code.strip() == code


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        (" \n\r\n", "empty"),
        ("The optimum is 12.", "no Python program"),
        ("From this, import 3 buses.\nfrom A to B\nimport tax of 3", "no Python program"),
        ("```json\n{\"a\": 1}\n```", "no Python program"),
        ("```\nmax 3x\n```", "no Python program"),
        ("<think>12</think>", "reasoning only"),
        ("```python\n```", "no Python program"),
        ("<python></python>", "no Python program"),
        ("x" * (LARGEST + 1), "characters; accepted: up to"),
        ("import a b\n" * 90_000, "of the first"),
    ],
)  # fmt: skip
def test_without_a_program_the_reason_is_told(text, reason):
    found = program(text)
    assert found.code == "" and reason in found.how


HOSTILE = {
    "deep parentheses": "(" * 10**6, "deep minus": "-" * 10**6 + "1", "long attributes": "a" + ".b" * 50_000,
    "long sum": "1+" * 50_000 + "1", "deep lambda": "lambda x:" * 10_000 + "1", "deep not": "not " * 25_000 + "1",
    "deep else": "1 if x else " * 8_000 + "1", "deep f-string": 'f"{' * 90, "deep braces": "{" * 95 + "}" * 95,
    "deep blocks": "".join(" " * k + "if x:\n" for k in range(99)) + " " * 99 + "pass", "nested calls": "f(a=" * 150,
    "many statements": "a=1;" * 250_000, "long line": "x" * 10**6, "nulls": "\0" * 10**6, "line breaks": "\n" * 10**6,
    "huge power": "import gurobipy\nx = 9**9**9**9\nx.optimize()", "escapes": "'\\d'\n" * 10_000,
}  # fmt: skip


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_code_is_read_in_bounded_time(name):
    code = HOSTILE[name]
    assert isinstance(program(fence(code + "\n")).code, str)
    assert program(fence(code + "\n") + fence(CODE)).code == CODE
    assert isinstance(program(f"<python>{code}").code, str) and isinstance(program(code).code, str)


PIECES = ("<python>x", "<python>", "</python>", "<think>", "</think>", "```", "~~~\n", "`\n", "```python\n",
          "```\nimport a\n```\n", "<python", "> ", "import x y\n", "\r", "\t", "```python\nm.solve(x)\n```\n",
          "```python\nimport pulp\nx.solve(y)\n```\n")  # fmt: skip


@pytest.mark.parametrize("piece", PIECES)
def test_a_million_characters_of_marks_end(piece):
    found = program(piece * (10**6 // len(piece)))
    assert len(found.code) <= 10**6 and found.how


def test_any_text_gives_a_program_or_a_reason():
    rng = random.Random(4)
    pieces = [
        CODE,
        "```",
        "```python\n",
        "\n",
        "<python>",
        "</python>",
        "<think>",
        "</think>",
        "~~~",
        " ",
        "x = 1\n",
        "(",
    ]
    for _ in range(400):
        text = "".join(rng.choices(pieces, k=rng.randrange(12)))
        found = program(text)
        marks = re.compile(r"\s|</?\w+>|`{3}|~{3}")
        assert found.how and set(marks.split(found.code)) <= {"", *marks.split(text)}
        if found.how in ("fence", "tag"):
            ast.parse(found.code)
