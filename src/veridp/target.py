"""From the name of a target to its mechanism: `file.py:function`, `package.module:function`, or a catalogue name."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from veridp.catalogue import catalogue
from veridp.errors import BadInput, BadTarget
from veridp.mechanism import Mechanism, as_mechanism
from veridp.program.site import raised_at


def load(target: str) -> Mechanism:
    """The mechanism that the target names; loading a file or a module runs its top level."""
    place, colon, name = target.rpartition(":")
    if not colon:
        if target.endswith(".py"):
            raise BadTarget(f"{target}: which function? give {target}:NAME")
        return catalogue[target]
    if not place or not name:
        raise BadTarget(f"{target!r} is not a target; give file.py:function, package.module:function or a catalogue name")
    module = _from_file(Path(place)) if place.endswith(".py") else _from_package(place)
    found = _member(module, name, target)
    try:
        return as_mechanism(found)
    except BadInput as error:
        raise BadTarget(f"{target}: {error}") from None


def _member(module: ModuleType, name: str, target: str) -> Any:
    try:
        return getattr(module, name)
    except AttributeError:
        functions = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        offer = f"it has {', '.join(functions)}" if functions else "it has no functions"
        raise BadTarget(f"{target}: there is no {name!r} there; {offer}") from None


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise BadTarget(f"{path}: no such file")
    specification = importlib.util.spec_from_file_location(path.stem, path)
    if specification is None or specification.loader is None:
        raise BadTarget(f"{path}: cannot be loaded as Python")
    module = importlib.util.module_from_spec(specification)
    sys.modules.setdefault(path.stem, module)
    sys.path.insert(0, str(path.parent.resolve()))  # as `python file.py` would: its neighbours can be imported
    _run(str(path), lambda: specification.loader.exec_module(module))  # type: ignore[union-attr]
    return module


def _from_package(name: str) -> ModuleType:
    sys.path.insert(0, "")
    return _run(name, lambda: importlib.import_module(name))  # type: ignore[no-any-return]


def _run(name: str, action: Any) -> Any:
    """The action's result; whatever the loaded code raises becomes one line."""
    try:
        return action()
    except SyntaxError as error:
        raise BadTarget(f"{error.filename or name}:{error.lineno}: syntax error: {error.msg}") from error
    except (Exception, SystemExit) as error:
        raise BadTarget(f"{raised_at(error.__traceback__)}: loading {name} raised {type(error).__name__}: {error}") from error
