"""What a function could remember from one run to the next, and whether it did.

A path tells what a function does on its noise and data. A function that keeps state between runs (a mutable default,
a global, an attribute), or that draws entropy of its own, does something else each time, and no path can tell it.
"""

from __future__ import annotations

import functools
import os
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from veridp.program.site import Site, here

MAX_OBJECTS = 5_000  # that one function can reach; what lies beyond is not compared
PLAIN_VALUES = (int, float, complex, str, bytes, bool, type(None), np.generic)

Fingerprint = dict[str, object]  # for each place that can hold state, what it holds


def fingerprint(function: Callable[..., Any]) -> Fingerprint:
    """The contents of whatever mutable objects the function can reach: defaults, closures, globals, attributes.

    Modules outside the user's code, files, and objects implemented in C are not looked into.
    """
    found: Fingerprint = {"os.environ": tuple(os.environ.items()), "global randomness": _global_randomness()}
    _Reader(found).read("", function)
    return found


def changed(before: Fingerprint, after: Fingerprint) -> str | None:
    """Where the two differ, in words; None where they agree."""
    places = [place for place in {**before, **after} if before.get(place) != after.get(place)]
    return min(places, key=len) if places else None


def _global_randomness() -> tuple[Any, ...]:
    kind, keys, *rest = np.random.get_state(legacy=True)  # noqa: NPY002
    return random.getstate(), kind, np.asarray(keys).tobytes(), *rest


class _Reader:
    def __init__(self, found: Fingerprint) -> None:
        self.found = found
        self.seen: dict[int, object] = {}  # the objects are kept alive, so that no id is used twice

    def read(self, place: str, value: Any) -> None:
        if isinstance(value, PLAIN_VALUES):
            self.found[place] = (type(value).__name__, repr(value))
            return
        if id(value) in self.seen or len(self.seen) >= MAX_OBJECTS:
            return
        self.seen[id(value)] = value
        if isinstance(value, functools.partial):
            for name, part in {"function": value.func, "args": value.args, "keywords": value.keywords}.items():
                self.read(f"{place}.{name}" if place else name, part)
        elif isinstance(value, MethodType):
            self.read(f"{place}.self", value.__self__)
            self.read(place, value.__func__)
        elif isinstance(value, FunctionType):
            self._function(place, value)
        elif isinstance(value, np.ndarray):
            self.found[place] = (
                value.shape,
                value.dtype.str,
                value.tobytes() if value.dtype != object else repr(value),
            )
        elif isinstance(value, dict):
            self.found[place] = len(value)
            for key, part in list(value.items()):
                self.read(f"{place}[{key!r}]" if isinstance(key, PLAIN_VALUES) else f"{place}[…]", part)
        elif isinstance(value, list | tuple):
            self.found[place] = len(value)
            for index, part in enumerate(value):
                self.read(f"{place}[{index}]", part)
        elif isinstance(value, set | frozenset | bytearray):
            self.found[place] = repr(sorted(map(repr, value)))
        elif isinstance(value, np.random.Generator):
            self.found[place] = repr(value.bit_generator.state)
        elif not isinstance(value, ModuleType) and not _is_foreign(value):
            self._object(place, value)

    def _function(self, place: str, function: FunctionType) -> None:
        if _is_foreign(function):
            return
        name = function.__name__
        self.read(f"the defaults of {name}", function.__defaults__)
        self.read(f"the defaults of {name}", function.__kwdefaults__)
        self.read(f"the attributes of {name}", function.__dict__)
        for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
            try:
                self.read(f"the variable {variable} around {name}", cell.cell_contents)
            except ValueError:  # not assigned yet
                continue
        for variable in sorted(_names(function.__code__)):
            if variable in function.__globals__:
                self.read(f"the global {variable}", function.__globals__[variable])

    def _object(self, place: str, value: Any) -> None:
        """The attributes of an object or class of the user's."""
        attributes = vars(value) if hasattr(value, "__dict__") else {}
        for name, part in list(attributes.items()):
            if not (name.startswith("__") and name.endswith("__")) or isinstance(part, FunctionType):
                self.read(f"{place}.{name}", part)
        if not isinstance(value, type):
            self.read(f"{place}.__class__", type(value))


def _names(code: CodeType) -> set[str]:
    """The global names and attributes that the code and what it defines mention."""
    nested = [part for part in code.co_consts if isinstance(part, CodeType)]
    return set(code.co_names).union(*map(_names, nested))


def _is_foreign(value: Any) -> bool:
    """Whether it belongs to the standard library, to NumPy or another package, or to veridp itself."""
    module = getattr(value, "__module__", None) or getattr(type(value), "__module__", None) or ""
    root = module.partition(".")[0]
    if root in sys.stdlib_module_names and root != "__main__":
        return True
    if root in ("veridp", "numpy", "scipy"):
        return not module.startswith("veridp.catalogue")
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    return "site-packages" in file


@contextmanager
def watched_entropy(used: list[Site]) -> Iterator[None]:
    """Notes in `used` where the body asks the operating system for entropy, as secrets and unseeded generators do."""
    original, library = os.urandom, random._urandom  # type: ignore[attr-defined]

    def urandom(count: int) -> bytes:
        used.append(here())
        return original(count)

    os.urandom = random._urandom = urandom  # type: ignore[attr-defined]
    try:
        yield
    finally:
        os.urandom, random._urandom = original, library  # type: ignore[attr-defined]
