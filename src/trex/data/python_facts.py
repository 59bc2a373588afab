"""What can be said of Python source without running it: does it parse, what it imports, calls and leaves undefined."""

import ast
import builtins
import warnings
from dataclasses import dataclass

LIBRARIES = frozenset(
    {"pyomo", "gurobipy", "highspy", "scipy", "pulp", "ortools", "pyscipopt", "cvxpy", "docplex", "cplex", "coptpy"}
    | {"mip", "linopy", "xpress", "mosek", "gekko", "cvxopt", "casadi", "pyoptinterface"}
)
SOLVES = frozenset(
    {"solve", "Solve", "optimize", "optimise", "run", "minimize", "maximize", "linprog", "milp"}
    | {"linear_sum_assignment"}
)
WRITES = frozenset(
    {"write", "writeModel", "write_lp"}
)  # of a model's file: what some prompts ask for in place of solving
KNOWN = frozenset(dir(builtins)) | {"__name__", "__file__", "__doc__"}


@dataclass(frozen=True)
class Facts:
    """Of one source that parses."""

    library: bool  # imports a modelling library
    solves: bool  # calls something by the name of solving, or writes a model's file
    complete: bool  # both, and what it solves with is defined
    dormant: bool  # all that solves stands in functions that the module never uses
    statements: bool  # an import, definition, loop, assignment or call: more than a value written out
    undefined: frozenset[str]  # names that are read but bound nowhere
    bound: frozenset[str]
    functions: frozenset[str]  # the module's own


class Budget:
    """How many characters of source may still be parsed for one answer; parsing costs far more than reading."""

    limit = 120_000
    per_source = 200  # characters that count for each source, so that many small ones end too

    def __init__(self) -> None:
        self.left = self.limit
        self.spent = False  # whether something was left unparsed

    def parse(self, code: str) -> ast.Module | SyntaxError | None:
        """The tree, the syntax error, or None for what Python's parser gives up on or the budget does not allow."""
        cost = len(code) + self.per_source
        if cost > self.left:
            self.spent = True
            return None
        self.left -= cost
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return ast.parse(code)
        except SyntaxError as error:
            return error
        except (ValueError, RecursionError, MemoryError):
            return None

    def error_line(self, code: str) -> int:
        """The line of the first syntax error, from 1; 0 for none."""
        found = self.parse(code)
        return (found.lineno or 0) if isinstance(found, SyntaxError) else 0


def facts(code: str, budget: Budget) -> Facts | None:
    """What a source says; None where it does not parse."""
    tree = budget.parse(code)
    if not isinstance(tree, ast.Module):
        return None
    try:
        return _facts(tree)
    except RecursionError:
        return None


def _facts(tree: ast.Module) -> Facts:
    loaded: set[str] = set()
    bound: set[str] = set()
    modules: set[str] = set()
    calls: list[ast.Call] = []
    everything = statements = model_file = False
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            (loaded if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, ast.Import):
            modules |= {alias.name.partition(".")[0] for alias in node.names}
            bound |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules.add((node.module or "").partition(".")[0])
            bound |= {alias.asname or alias.name for alias in node.names}
            everything |= any(alias.name == "*" for alias in node.names)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            bound.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            bound.add(node.rest)
        elif isinstance(node, ast.Global | ast.Nonlocal):
            bound |= set(node.names)
        elif isinstance(node, ast.Call):
            calls.append(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            model_file |= node.value.lower().endswith((".lp", ".mps"))
        statements |= isinstance(
            node,
            ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef | ast.For | ast.While | ast.Assign | ast.Call,
        )
    undefined = frozenset() if everything else frozenset(loaded - bound - KNOWN)
    solving = [call for call in calls if _solves(call, model_file)]
    library = bool(modules & LIBRARIES)
    used = {name for call in solving for name in _names(call)}
    functions = frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))
    return Facts(
        library,
        bool(solving),
        library and bool(solving) and not used & undefined,
        bool(solving) and _dormant(tree, functions, model_file),
        statements,
        undefined,
        frozenset(bound),
        functions,
    )


def _name(function: ast.expr) -> str:
    return (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )


def _solves(call: ast.Call, model_file: bool) -> bool:
    """Whether a call solves, by its name, or writes a file where the source names a model's file."""
    name = _name(call.func)
    return name in SOLVES or (model_file and name in WRITES)


def _names(call: ast.Call) -> set[str]:
    """Names that a call reads."""
    return {node.id for node in ast.walk(call) if isinstance(node, ast.Name)}


def _dormant(tree: ast.Module, functions: frozenset[str], model_file: bool) -> bool:
    """Whether the module's own statements neither solve nor name one of its functions."""
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and node.id in functions:
                return False
            if isinstance(node, ast.Call) and _solves(node, model_file):
                return False
    return True
