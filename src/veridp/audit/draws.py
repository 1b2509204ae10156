"""Which functions of a file or a package draw noise, directly or through others: by reading its text, running nothing.

A call draws noise if it is a method of a generator (`rng.laplace`, `np.random.normal`, `self._rng.random`,
`secrets.randbelow`, a name imported from such a module), or `randomise` of a mechanism object. A function draws it
indirectly if it calls one of the scanned functions that does, also as a method of an object that is made of a scanned
class. Names are resolved as they are written: a function that is passed around, looked up by a string or reached by
inheritance is not followed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from veridp.errors import BadInput
from veridp.mechanism.declared import GENERATOR_NAMES

SKIPPED_FOLDERS = frozenset(("site-packages", "node_modules", "__pycache__", "build", "dist", "venv"))
RANDOM_MODULES = frozenset(("random", "numpy.random", "secrets"))
OF_GENERATORS = frozenset(name for name in dir(np.random.Generator) if not name.startswith("_"))
OF_OTHERS = frozenset(
    (
        "randint", "rand", "randn", "random_sample", "sample", "randrange", "gauss", "normalvariate", "expovariate",
        "betavariate", "lognormvariate", "choices", "randbelow", "getrandbits", "token_bytes", "randbits", "random",
    )
)  # fmt: skip
DRAWING_METHODS = (OF_GENERATORS | OF_OTHERS) - {"bit_generator", "spawn"}
MAKERS = frozenset(("default_rng", "RandomState", "Random", "SystemRandom", "Generator"))
RANDOMISES = "randomise"  # of the mechanism objects of diffprivlib


@dataclass(frozen=True)
class Draw:
    """A call that draws noise: its line, and the call as it is written."""

    line: int
    call: str


@dataclass(frozen=True)
class NoisyFunction:
    """A function, or a method as `Class.method`, that draws noise: by its own calls, or `via` another function."""

    file: Path
    name: str
    line: int
    draws: tuple[Draw, ...]
    via: str = ""
    has_claim: bool = False  # whether it states one itself: a decorator, a mark, or an argument epsilon with a default
    public: bool = True

    @property
    def target(self) -> str:
        return f"{self.file}:{self.name}"


def python_files(path: Path) -> list[Path]:
    """The Python files at the path: itself, or those below it, without hidden folders and installed packages."""
    if path.is_file() and path.suffix == ".py":
        return [path]
    if not path.is_dir():
        raise BadInput(f"{path} is neither a Python file nor a folder; give one that exists")
    found = []
    for file in sorted(path.rglob("*.py")):
        folders = file.relative_to(path).parts[:-1]
        if not any(folder.startswith(".") or folder in SKIPPED_FOLDERS for folder in folders):
            found.append(file)
    return found


def noisy_functions(path: Path) -> tuple[list[NoisyFunction], list[str]]:
    """The functions at the path that draw noise, in the order of files and lines; and why a file could not be read."""
    bodies: list[_Body] = []
    problems = []
    for file in python_files(path):
        try:
            tree = ast.parse(file.read_text(encoding="utf-8"), filename=str(file))
        except (SyntaxError, UnicodeDecodeError, ValueError) as error:
            problems.append(f"{file}: cannot be read as Python: {error}")
            continue
        bodies += _bodies(file, tree)
    found = {body.key: body.function for body in bodies if body.function.draws}
    reached = True
    while reached:
        reached = False
        for body in bodies:
            helper = next((key for key in body.calls(bodies) if key in found and key != body.key), None)
            if body.key not in found and helper is not None:
                found[body.key] = replace(body.function, via=helper[1])
                reached = True
    return [found[body.key] for body in bodies if body.key in found], problems


# ---------------------------------------------------------------------------------------------- one file, one function


@dataclass(frozen=True, eq=False)
class _Body:
    """A function with what it calls, as written: dotted names, of which `self` stands for its class."""

    function: NoisyFunction
    owner: str  # its class; nothing for a function
    called: tuple[str, ...]
    imported: dict[str, str]  # names of the file that stand for those of other modules

    @property
    def key(self) -> tuple[Path, str]:
        return self.function.file, self.function.name

    def calls(self, bodies: Sequence[_Body]) -> Iterator[tuple[Path, str]]:
        """The scanned functions that it calls, as far as names tell."""
        for dotted in self.called:
            root, _, rest = dotted.partition(".")
            if root in ("self", "cls") and rest:
                yield (self.function.file, f"{self.owner}.{rest}")
                continue
            yield (self.function.file, dotted)
            full = f"{self.imported.get(root, root)}.{rest}".rstrip(".")
            module, _, name = full.rpartition(".")
            for other in bodies:
                where = other.function.file
                stem = where.parent.name if where.name == "__init__.py" else where.stem
                if other.function.name == name and module.rpartition(".")[2] == stem:
                    yield other.key
            yield from (other.key for other in bodies if other.owner and dotted.endswith(f".{other.function.name}"))
            yield from self._methods_of_made_objects(dotted, bodies)

    def _methods_of_made_objects(self, dotted: str, bodies: Sequence[_Body]) -> Iterator[tuple[Path, str]]:
        """`Class(…).method`, which is written here as `Class().method`."""
        kind, called, method = dotted.rpartition("().")
        if called:
            name = f"{self.imported.get(kind, kind).rpartition('.')[2]}.{method}"
            yield from (other.key for other in bodies if other.function.name == name)


def _bodies(file: Path, tree: ast.Module) -> Iterator[_Body]:
    imported = _imported(tree)
    everywhere = _made_objects(tree.body)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield _body(file, node, "", imported, everywhere)
        elif isinstance(node, ast.ClassDef):
            kept = {name: kind for name, kind in _made_objects(ast.walk(node)).items() if name.startswith("self.")}
            for member in node.body:
                if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield _body(file, member, node.name, imported, everywhere | kept)


def _made_objects(nodes: Iterable[ast.AST]) -> dict[str, str]:
    """What is assigned the result of a call, or stated to be of a class, each as `Class()`."""
    found: dict[str, str] = {}
    for node in nodes:
        match node:
            case ast.Assign(targets=targets, value=ast.Call(func=made)):
                found |= {_dotted(target): f"{_dotted(made)}()" for target in targets}
            case ast.AnnAssign(target=target, value=ast.Call(func=made)):
                found[_dotted(target)] = f"{_dotted(made)}()"
            case ast.arg(arg=name, annotation=ast.Name() | ast.Attribute() as kind):
                found[name] = f"{_dotted(kind)}()"
    return found


def _with_classes(dotted: str, made: Mapping[str, str]) -> str:
    """The called name with the object, of which it is a method, as the call that makes it."""
    owner, _, method = dotted.rpartition(".")
    return f"{made[owner]}.{method}" if owner in made else dotted


def _imported(tree: ast.Module) -> dict[str, str]:
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.asname or alias.name.partition(".")[0]: alias.name for alias in node.names if alias.asname}
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name: f"{node.module or ''}.{alias.name}" for alias in node.names}
    return names


def _body(
    file: Path,
    node: ast.FunctionDef | ast.AsyncFunctionDef,
    owner: str,
    imported: dict[str, str],
    objects: Mapping[str, str],
) -> _Body:
    calls = [(call.lineno, _dotted(call.func)) for call in ast.walk(node) if isinstance(call, ast.Call)]
    made = {
        target.id
        for assigned in ast.walk(node)
        if isinstance(assigned, ast.Assign) and _makes_generator(assigned.value)
        for target in assigned.targets
        if isinstance(target, ast.Name)
    }
    draws = tuple(Draw(line, dotted) for line, dotted in calls if _draws(dotted, imported, made))
    name = f"{owner}.{node.name}" if owner else node.name
    public = not any(part.startswith("_") for part in name.split("."))
    function = NoisyFunction(file, name, node.lineno, draws, "", _states_claim(node), public)
    objects = {**objects, **_made_objects(ast.walk(node))}
    called = dict.fromkeys(name for _, dotted in calls for name in (dotted, _with_classes(dotted, objects)))
    return _Body(function, owner, tuple(called), imported)


def _dotted(node: ast.expr) -> str:
    """The called name as written; a call within it is written with empty parentheses, and anything else as `?`."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=name):
            return f"{_dotted(value)}.{name}"
        case ast.Call(func=function):
            return f"{_dotted(function)}()"
    return "?"


def _draws(dotted: str, imported: dict[str, str], made: set[str]) -> bool:
    root, _, rest = dotted.partition(".")
    full = f"{imported.get(root, root)}.{rest}".rstrip(".")
    owner, _, method = full.rpartition(".")
    if method == RANDOMISES and owner:
        return True
    if method not in DRAWING_METHODS or not owner:
        return False
    parts = [part.lstrip("_").removesuffix("()") for part in owner.split(".")]
    held = parts[-1] in GENERATOR_NAMES or parts[-1] in MAKERS or root in made
    return held or owner in RANDOM_MODULES or owner.endswith(".random")


def _makes_generator(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and _dotted(value.func).rpartition(".")[2] in MAKERS


def _states_claim(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    if any(
        _dotted(mark.func if isinstance(mark, ast.Call) else mark).endswith(("mechanism", "mark.dp"))
        for mark in node.decorator_list
    ):
        return True
    given = node.args
    defaults = dict(zip([a.arg for a in (*given.posonlyargs, *given.args)][::-1], given.defaults[::-1], strict=False))
    defaults |= {
        a.arg: value for a, value in zip(given.kwonlyargs, given.kw_defaults, strict=True) if value is not None
    }
    value = defaults.get("epsilon")
    return (
        isinstance(value, ast.Constant) and isinstance(value.value, int | float) and not isinstance(value.value, bool)
    )
