"""From the name of a target to its mechanism: `file.py:function`, `package.module:function`, a catalogue
name, or `command:` and a command line. A `pytest.mark.dp` on the function states settings, as its decorator does."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import math
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from veridp.budget import Deadline, OutOfTime, at_most
from veridp.catalogue import catalogue
from veridp.claim import MAKERS
from veridp.errors import INTERRUPTING, BadInput, BadTarget
from veridp.mechanism import Mechanism, adapters, as_mechanism

Loaded = TypeVar("Loaded")
COMMAND = "command:"
LOADING = 60.0  # seconds that the top level of a file or a module may take
MARK = "dp"
CLAIM, SETTINGS = ("epsilon", "delta"), ("adjacency", "domain", "size")
RUN_OPTIONS = ("proved", "seconds", "alpha", "seed", "black_box", "progress")  # of a test run, not of the mechanism


def load(target: str, deadline: Deadline | None = None) -> Mechanism:
    """The mechanism that the target names; loading a file or a module runs its top level, within the deadline or a
    minute, whichever is less."""
    seconds = min(LOADING, math.inf if deadline is None else deadline.left)
    if target.startswith(COMMAND):
        return replace(adapters.command(target.removeprefix(COMMAND)), origin=target)
    place, colon, name = target.rpartition(":")
    if not colon:
        if target.endswith(".py"):
            names = _functions(from_file(Path(target), seconds))
            example = f"{', '.join(names)}; give for instance {target}:{names[0]}" if names else "none; write one"
            raise BadTarget(f"{target}: which function? it has {example}")
        return catalogue[target]
    if not name or not (place.endswith(".py") or all(part.isidentifier() for part in place.split("."))):
        raise BadTarget(
            f"{target!r} is not a target; give file.py:function, package.module:function or a catalogue name"
        )
    if place.endswith(".py"):
        module, origin = from_file(Path(place), seconds), f"{Path(place).resolve()}:{name}"
    else:
        module, origin = from_package(place, seconds), target
    return replace(_mechanism(_member(module, name, target), target), origin=origin)


def _member(module: ModuleType, name: str, target: str) -> Any:
    found: Any = module
    try:
        for part in name.split("."):  # a method is that of a new instance of its class
            bare = isinstance(inspect.getattr_static(found, part, None), staticmethod | classmethod)
            new = isinstance(found, type) and not bare
            found = getattr(_instance(found, part, target) if new else found, part)
    except AttributeError:
        functions = _functions(module)
        offer = f"it has {', '.join(functions)}" if functions else "it has no functions"
        raise BadTarget(f"{target}: there is no {name!r} there; {offer}") from None
    return found


def _instance(kind: type, method: str, target: str) -> Any:
    """A new instance of the class, to call the method on."""
    try:
        return kind()
    except Exception as error:
        raise BadTarget(
            f"{target}: {kind.__name__}() raised {_named(error)}; make the object in the file, as in "
            f"mechanism = {kind.__name__}(…).{method}, and give that name"
        ) from error


def _functions(module: ModuleType) -> list[str]:
    """The public names of the functions and mechanisms that the module itself defines."""
    return [name for name, _ in own_functions(module) if not name.startswith("_")]


def own_functions(module: ModuleType) -> list[tuple[str, Any]]:
    """The functions and mechanisms that the module itself defines, with their names there."""
    return [(name, value) for name, value in vars(module).items() if _is_own(value, module)]


def _is_own(value: Any, module: ModuleType) -> bool:
    """Whether this is a function or a mechanism, marked or not, that the module itself defines."""
    if type(value).__name__ == "MarkDecorator":  # a mark above @mechanism
        value, _ = with_mark(value)
    function = value.function if isinstance(value, Mechanism) else value
    return callable(function) and getattr(function, "__module__", None) == module.__name__


def _mechanism(found: Any, target: str) -> Mechanism:
    if isinstance(found, type):
        raise BadTarget(f"{target}: {found.__name__} is a class; give one of its methods, as in {target}.method")
    found, stated = with_mark(found)
    known = (*CLAIM, *MAKERS, *SETTINGS, *RUN_OPTIONS)
    arguments = {name: value for name, value in stated.items() if name not in known}
    try:
        claimed = {name: stated[name] for name in (*CLAIM, *MAKERS) if name in stated}
        mechanism = as_mechanism(found, **arguments).claiming(**claimed)
        return mechanism.stating(**{name: stated[name] for name in SETTINGS if name in stated})
    except BadInput as error:
        raise BadTarget(f"{target}: {error}") from None


def with_mark(found: Any) -> tuple[Any, Mapping[str, Any]]:
    """The function or mechanism itself, and what a `pytest.mark.dp` on it states; pytest is not needed for this."""
    mark: Any = getattr(found, "mark", None)
    marks = [*getattr(found, "pytestmark", ())]
    if getattr(mark, "name", None) == MARK and mark.args:  # a mark above @mechanism holds it as its last argument
        *positional, found = mark.args
        return found, dict(zip(CLAIM, positional, strict=False)) | mark.kwargs
    marks += getattr(getattr(found, "function", None), "pytestmark", ())
    stated: dict[str, Any] = {}
    for mark in reversed([mark for mark in marks if mark.name == MARK]):  # the mark nearest to the function wins
        stated |= dict(zip(CLAIM, mark.args, strict=False)) | mark.kwargs
    return found, stated


# ---------------------------------------------------------------------------------------------------- loading


def from_file(path: Path, seconds: float) -> ModuleType:
    """The module that the file is, loaded under a name of its own."""
    if not path.is_file():
        raise BadTarget(f"{path}: no such file; give one that exists, or a catalogue name")
    specification = importlib.util.spec_from_file_location(_free_name(path.stem), path)
    if specification is None or specification.loader is None:
        raise BadTarget(f"{path}: cannot be loaded as Python; give a Python file")
    module = importlib.util.module_from_spec(specification)
    loader = specification.loader
    sys.modules[module.__name__] = module
    look_in(str(path.parent.resolve()))  # as `python file.py` would: its neighbours can be imported
    try:
        _run(str(path), lambda: loader.exec_module(module), seconds)
    except BadTarget:
        del sys.modules[module.__name__]
        raise
    return module


def _free_name(name: str) -> str:
    """The name, or one like it that no loaded module has: a user's `random.py` must not pass for Python's."""
    while name in sys.modules:
        name += "_"
    return name


def from_package(name: str, seconds: float) -> ModuleType:
    """The module of this dotted name."""
    look_in("")
    try:
        return _run(name, lambda: importlib.import_module(name), seconds)
    except BadTarget as error:
        missing = error.__cause__
        if isinstance(missing, ModuleNotFoundError) and f"{name}.".startswith(f"{missing.name}."):
            raise BadTarget(f"{name}: there is no module {missing.name!r}; give file.py:function for a file") from None
        raise


def look_in(folder: str) -> None:
    """Let modules be imported from the folder."""
    if folder not in sys.path:
        sys.path.insert(0, folder)


def _run(name: str, action: Callable[[], Loaded], seconds: float) -> Loaded:
    """The action's result; whatever the loaded code raises becomes a BadTarget with the line that it came from."""
    try:
        with at_most(seconds):
            return action()
    except OutOfTime as error:
        more = ", or give it more --time" if seconds < LOADING else ""
        raise BadTarget(
            f"{_line_of(error, name)}: loading {name} did not end within {seconds:.3g} s; "
            f"put what it runs as a program under `if __name__ == '__main__':`{more}"
        ) from None
    except SyntaxError as error:
        where = f"{error.filename or name}:{error.lineno}"
        raise BadTarget(f"{where}: syntax error: {error.msg}; {name} has to be Python") from error
    except INTERRUPTING:
        raise
    except BaseException as error:
        remedy = f"; install {error.name}" if isinstance(error, ModuleNotFoundError) and error.name else ""
        raise BadTarget(f"{_line_of(error, name)}: loading {name} raised {_named(error)}{remedy}") from error


def _named(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _line_of(error: BaseException, name: str) -> str:
    """The innermost line of the loaded file or package itself, where the traceback has one."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [f"{frame.filename}:{frame.lineno}" for frame in frames if _belongs(Path(frame.filename), name)]
    return lines[-1] if lines else name


def _belongs(file: Path, name: str) -> bool:
    """Whether the file is the one of this path, or one of the package of this name."""
    if name.endswith(".py"):
        return file.resolve() == Path(name).resolve()
    return name.partition(".")[0] in (file.stem, *file.parent.parts)
