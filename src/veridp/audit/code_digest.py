"""A digest of what decides how a mechanism behaves: its code, its helpers, what they read, and the libraries below.

It reads what the kernel's fingerprint reads, by content instead of identity, so that two processes agree on it. A
digest that overlooks something would let a stale verdict pass for a fresh one. So there is an allow-list: code of
libraries that are not known to compute from their arguments alone (files, clocks, other programs) has no digest, and
neither has code that looks things up by names it computes.
"""

from __future__ import annotations

import decimal
import dis
import functools
import hashlib
import marshal
import os
import platform
import re
import sys
import sysconfig
import types
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, NoReturn

import numpy as np

from veridp.errors import NotExplorable
from veridp.kernel.generator import StandInGenerator
from veridp.kernel.stand_ins import Symbolic
from veridp.kernel.state.contents import names_in
from veridp.kernel.state.fingerprint import Reader

# Libraries whose functions compute from their arguments, randomness apart; but for those that UNSTEADY matches.
KNOWN = frozenset(
    (
        "builtins", "math", "cmath", "numbers", "fractions", "decimal", "_decimal", "statistics", "itertools",
        "functools", "_functools", "operator", "_operator", "collections", "_collections", "abc", "_abc",
        "_collections_abc", "weakref", "_weakrefset", "typing", "typing_extensions", "types", "dataclasses", "enum",
        "copy", "copyreg", "heapq", "_heapq", "bisect", "_bisect", "string", "re", "_sre", "random", "_random",
        "secrets", "hashlib", "_hashlib", "_blake2", "array", "struct", "_struct", "contextlib", "warnings",
        "_warnings", "json", "textwrap", "numpy", "scipy", "pandas", "sklearn", "diffprivlib", "mmh3", "veridp",
        "veridp_check", "pytest", "_pytest",
    )
)  # fmt: skip
UNSTEADY = re.compile(
    r"^(load|read|open|fetch|now|today)|[Ff]ile|Store|^(genfromtxt|memmap|DataSource|Command|_Unseeded)$"
)
UNSTEADY_MODULES = ("scipy.io", "scipy.datasets", "sklearn.datasets", "pandas.io")
UNSTEADY_BUILTINS = frozenset(
    ("open", "input", "exec", "eval", "compile", "__import__", "globals", "vars", "breakpoint", "id", "hash")
)
COMPUTED_ATTRIBUTES = frozenset(
    ("getattr", "setattr", "delattr", "attrgetter", "methodcaller", "format", "format_map", "vformat")
)
INTERNALS = frozenset(
    ("__dict__", "__globals__", "__builtins__", "f_globals", "__code__", "__subclasses__", "import_module", "_getframe")
)
LOOKED_UP = frozenset(("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"))  # among globals, then builtins
SOURCE = (".py", ".pyc")
HEAP_TYPE = 1 << 9  # the flag of a class that was made at run time


class NoDigest(Exception):
    """Why there is no digest."""


def mechanism_digest(function: Callable[..., Any], settings: Mapping[str, object]) -> str:
    """A digest of the function and of settings that may hold functions too; NoDigest where it could miss a change.

    Not seen: files of installed libraries that were edited and kept their size, and environment variables or files that
    libraries or veridp read by themselves. The state of generators counts only where code keeps one of its own.
    """
    reader = _ContentReader(function)
    for name, value in settings.items():
        reader.read(f"the setting {name}", value)
    try:
        reader.run()
        reader.check_names()
        parts = sorted((place, _encoded(states)) for place, states in reader.found.held.items())
    except NotExplorable as error:
        raise NoDigest(str(error).partition(", so it could keep")[0]) from None
    parts.append(("the interpreter", _encoded(_interpreter())))
    parts += [(f"the files of {name}", _listing(name).encode()) for name in sorted(reader.libraries)]
    digest = hashlib.sha256(_source_of_veridp())
    for place, content in parts:
        digest.update(f"{place}\0{len(content)}\0".encode("utf-8", "surrogatepass") + content)
    return digest.hexdigest()


class _ContentReader(Reader):
    """Reads what a function can reach, and refuses what could change unseen."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self.libraries: set[str] = set()
        self.ours: set[int] = set()  # objects of veridp's classes, whose cached properties follow from the rest

    def read(self, place: str, value: Any) -> None:
        # A file may be loaded under several names: code knows its file.
        super().read(place, value[:3] if place.startswith("the name of ") else value)

    def read_entry(self, key: object, place: str, value: Any) -> None:
        """Read a cached property as an attribute; what other caches hold follows from the rest."""
        if isinstance(key, tuple) and isinstance(key[1], str) and isinstance(key[0], int) and key[0] not in self.ours:
            self.read(place, value)

    def _attributes(self, place: str, kind: type, value: Any) -> None:
        if kind.__module__.startswith("veridp."):
            self.ours.add(id(value))
        super()._attributes(place, kind, value)

    def _contents(self, place: str, kind: type, value: Any) -> None:
        if issubclass(kind, Symbolic | StandInGenerator):
            raise NoDigest(f"{place} is a stand-in of veridp")
        if issubclass(kind, FunctionType):
            if self.is_library(value.__code__.co_filename):
                self._check_library(place, _package_of(value.__code__.co_filename), value.__name__)
        elif issubclass(kind, ModuleType):
            self._check_module(place, value)
        elif issubclass(kind, type):
            self._check_class(place, value)
        elif issubclass(kind, types.BuiltinFunctionType):
            self._check_builtin(place, value)
        else:
            self._check_class(place, kind)
            if isinstance(name := getattr(value, "__name__", None), str) and self.is_library_class(kind):
                self._check_library(place, kind.__module__.partition(".")[0], name)
        if (name := getattr(value, "__name__", kind.__name__)) in COMPUTED_ATTRIBUTES:
            self.names.add(name)
        if kind is re.Pattern:
            self.note(place, (value.pattern, value.flags))
        elif kind is np.ufunc:
            self._check_ufunc(place, value)
        elif kind is object:
            self.note(place, "an object")
        else:
            super()._contents(place, kind, value)

    def _globals(self, code: CodeType, variables: dict[str, Any]) -> None:
        for each in _codes(code):
            for instruction in dis.get_instructions(each):
                name = instruction.argval
                if instruction.opname in LOOKED_UP and name in UNSTEADY_BUILTINS and name not in variables:
                    raise NoDigest(f"{code.co_name} uses {name}()")
                if instruction.opname == "IMPORT_NAME":
                    self._check_import(each, name)
        for name in INTERNALS & names_in(code):
            raise NoDigest(f"{code.co_name} uses {name}")
        super()._globals(code, variables)

    def _check_import(self, code: CodeType, name: str) -> None:
        """An import at run time is fine where it is one of a known library that is loaded."""
        module = sys.modules.get(name)
        if module is None or not self.is_library_module(module):
            raise NoDigest(
                f"{code.co_name} imports {name or 'a module'} when it runs; import it at the top of the file"
            )
        self.read(f"the module {name}", module)

    def check_names(self) -> None:
        """Refuse what is looked up by names that only a run knows: attributes of modules, variables in texts."""
        if "pandas" in self.libraries and not {"query", "eval"}.isdisjoint(self.names):
            raise NoDigest("query and eval of pandas look up variables by names in a text")
        for space in self.spaces:
            if not space.library and "__getattr__" in space.variables:
                raise NoDigest(f"the module {space.name} has a __getattr__")
            if not space.library and (computed := COMPUTED_ATTRIBUTES & self.names):
                raise NoDigest(f"{min(computed)} may look into the module {space.name}")

    # ---------------------------------------------------------------------------------------------- what is allowed

    def _check_library(self, place: str, package: str, name: str = "") -> None:
        if package not in KNOWN:
            raise NoDigest(f"{place} is {_article(name)}of {package}, which may depend on more than its arguments")
        if UNSTEADY.search(name):
            raise NoDigest(f"{place} is {_article(name)}of {package}, which may depend on files or the clock")
        self.libraries.add(package)

    def _check_module(self, place: str, module: ModuleType) -> None:
        if self.is_library_module(module):
            self._check_library(place, module.__name__.partition(".")[0])
            if module.__name__.startswith(UNSTEADY_MODULES):
                raise NoDigest(f"{place} is {module.__name__}, which reads files")
        else:
            self._check_source(place, module)

    def _check_class(self, place: str, kind: type) -> None:
        module = sys.modules.get(kind.__module__)
        if module is not None and self.is_library_module(module):
            self._check_library(place or kind.__qualname__, kind.__module__.partition(".")[0], kind.__name__)
            return
        if not kind.__flags__ & HEAP_TYPE:
            self._refuse_compiled(place or kind.__qualname__)
        if module is not None:
            self._check_source(place or kind.__qualname__, module)

    def _check_builtin(self, place: str, value: Any) -> None:
        if value.__name__ in UNSTEADY_BUILTINS:
            raise NoDigest(f"{place} is {value.__name__}()")
        if value.__module__ is None:  # a method, whose object is read
            return
        module = sys.modules.get(value.__module__)
        if module is None or not self.is_library_module(module):
            self._refuse_compiled(place)
        self._check_library(place, value.__module__.partition(".")[0], value.__name__)

    def _check_ufunc(self, place: str, value: Any) -> None:
        """A ufunc of NumPy or SciPy; one made of a Python function does not tell of which."""
        special = sys.modules.get("scipy.special")
        if value not in (getattr(np, value.__name__, None), getattr(special, value.__name__, None)):
            self._refuse_compiled(place)
        self.note(place, value.__name__)

    def _check_source(self, place: str, module: ModuleType) -> None:
        file = getattr(module, "__file__", None)
        if not (module.__name__ == "__main__" or (file and file.endswith(SOURCE))):
            self._refuse_compiled(place)

    def _refuse_compiled(self, place: str) -> NoReturn:
        raise NoDigest(f"{place} is compiled code outside the known libraries")


def _article(name: str) -> str:
    return f"{name}, " if name else ""


def _codes(code: CodeType) -> Iterator[CodeType]:
    """The code and what it defines."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _package_of(file: str) -> str:
    """The top-level package of a file of a library."""
    inside = file.partition(os.sep + "site-packages" + os.sep)[2]
    if file.startswith(os.path.dirname(os.path.dirname(__file__)) + os.sep):
        return "veridp"
    if not inside and file.startswith("<frozen "):
        return file.removeprefix("<frozen ").rstrip(">").partition(".")[0]
    if not inside:
        inside = os.path.relpath(file, os.path.dirname(os.__file__))
    return inside.partition(os.sep)[0].removesuffix(".py")


# ---------------------------------------------------------------------------------------------------- by content


def _encoded(value: Any) -> bytes:
    """The state as bytes, the same in every process; NoDigest for what has no contents of its own."""
    if isinstance(value, CodeType):
        content = marshal.dumps(value, 2)  # the last version that tells contents alone
    elif isinstance(value, type):
        content = f"{value.__module__.rstrip('_')}.{value.__qualname__}".encode()
    elif isinstance(value, list | tuple):
        content = b"".join(map(_encoded, value))
    elif isinstance(value, set | frozenset):
        content = b"".join(sorted(map(_encoded, value)))
    elif isinstance(value, dict):
        content = b"".join(sorted(_encoded(list(item)) for item in value.items()))
    elif isinstance(value, bytes):
        content = value
    elif value is None or isinstance(value, bool | int | float | complex | str | range | Fraction | type(...)):
        content = repr(value).encode("utf-8", "surrogatepass")
    elif value is NotImplemented:
        content = b""
    else:
        raise NoDigest(f"a {type(value).__qualname__} tells nothing of its contents")
    return f"{type(value).__name__}:{len(content)}:".encode() + content


def _interpreter() -> tuple[object, ...]:
    """Versions of everything that is installed, and the settings of arithmetic."""
    context = decimal.getcontext()
    arithmetic = (context.prec, context.rounding, context.Emin, context.Emax, context.clamp)
    flags = (sys.flags.optimize, sys.implementation.cache_tag, sys.getrecursionlimit())
    return sys.version, platform.machine(), sys.platform, flags, arithmetic, sorted(np.geterr().items()), _installed()


@functools.cache
def _installed() -> tuple[str, ...]:
    """Name and version of every distribution that can be imported."""
    found: set[str] = set()
    for folder in sys.path:
        if os.path.isdir(folder):
            found |= {name for name in os.listdir(folder) if name.endswith((".dist-info", ".egg-info"))}
    return tuple(sorted(found))


@functools.cache
def _listing(package: str) -> str:
    """The files of an installed package with their sizes: an edited one has another, most of the time."""
    sizes = []
    for place, folders, names in os.walk(os.path.join(sysconfig.get_path("purelib"), package)):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        sizes += [(os.path.join(place, name), os.path.getsize(os.path.join(place, name))) for name in sorted(names)]
    return repr(sizes)


@functools.cache
def _source_of_veridp() -> bytes:
    """A digest of veridp's own code, whatever its version says."""
    digest = hashlib.sha256()
    package = Path(__file__).parents[1]
    for folder in (package, package.parent / "veridp_check"):
        for file in sorted(folder.rglob("*.py")):
            digest.update(file.read_bytes())
    return digest.digest()
