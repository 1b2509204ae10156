"""The contents of everything that a function can reach, to be compared before and after its runs.

Read are its defaults, closure and attributes, and the globals and attributes of modules that its code and that of its
helpers name. The code of libraries is not followed, their objects are read. An object whose state cannot be read is an
error, not a gap.
"""

from __future__ import annotations

import array
import contextvars
import datetime
import decimal
import functools
import io
import logging
import mmap
import os
import pathlib
import random
import re
import struct
import sys
import threading
import traceback
import types
import weakref
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NoReturn

import numpy as np

from veridp.errors import NotExplorable
from veridp.kernel.generator import StandInGenerator
from veridp.kernel.site import LIBRARIES, VERIDP
from veridp.kernel.stand_ins import Symbolic
from veridp.kernel.state.contents import (
    IMMUTABLE_TYPE,
    bit_state,
    cached_entries,
    dict_of,
    digest,
    entries_of,
    global_randomness,
    marshalled,
    names_in,
    pickled,
    plain_state,
    registered_with,
    settings,
    slots_of,
    table_state,
    thread_state,
)
from veridp.mechanism.declared import Adopting
from veridp.mechanism.randomness import AdoptedRandom, AdoptedState, replaced_by

MAX_OBJECTS = 200_000  # that one function can reach
MANY_PLAIN_ENTRIES = 1_000  # entries of a table of plain values that is read at once
RANDOMNESS = "global randomness"
CATALOGUE = os.path.join(VERIDP, "catalogue") + os.sep  # mechanisms like a user's

NUMBERS = frozenset({int, float, str, bytes, bool, type(None)})  # of which those in a library are all compared
IMMUTABLE = (
    re.Pattern, re.Match, struct.Struct, np.ufunc, np.dtype, decimal.Decimal, datetime.date, datetime.time,
    datetime.timedelta, datetime.tzinfo, pathlib.PurePath, types.GetSetDescriptorType, types.MemberDescriptorType,
    types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType, types.GenericAlias,
    types.UnionType,
)  # fmt: skip
WRAPPERS: dict[type, tuple[str, ...]] = {  # types that hold functions, and where
    functools.partial: ("func", "args", "keywords"),
    Adopting: ("function",),
    MethodType: ("__self__", "__func__"),
    property: ("fget", "fset", "fdel"),
    classmethod: ("__func__",),
    staticmethod: ("__func__",),
    np.vectorize: ("pyfunc", "otypes", "signature", "excluded"),  # and a cache of ufuncs
    logging.Logger: ("level", "disabled", "propagate", "filters", "handlers", "parent"),  # and a cache of levels
}
LOCKS = (type(threading.Lock()), type(threading.RLock()))
LRU_CACHE: type = type(functools.lru_cache(lambda: None))
CACHED_PROPERTIES = (functools.cached_property,)
CACHE_ATTRIBUTES = frozenset({"cache_parameters", "__wrapped__"})  # of a cache: veridp reads these by themselves
DISPATCH = frozenset({"dispatch_cache", "_clear_cache", "cache_token"})  # what functools.singledispatch remembers
CLASS_CACHES = frozenset({"_abc_impl", "__slotnames__"})  # what isinstance and copy remember
POINTER = 8  # bytes
# Names by which code reaches globals and attributes whose names it computes.
COMPUTED_NAMES = frozenset({"globals", "vars", "__dict__", "__globals__", "f_globals", "setattr", "exec", "eval"})
COMPUTED_MODULES = frozenset({"import_module", "__import__"})


@dataclass
class _Entry:
    """An entry of a cache: where it is, what it holds, and whether that can change."""

    place: str
    notes: list[tuple[str, object]] = field(default_factory=list)
    mutable: bool = False
    noisy: bool = False  # whether it holds a stand-in, which belongs to one run


@dataclass
class Fingerprint:
    """For each place that can hold state, what it holds; entries of caches apart."""

    held: dict[str, list[object]] = field(default_factory=dict)
    entries: dict[object, _Entry] = field(default_factory=dict)
    caches: list[Any] = field(default_factory=list)
    lazy: list[tuple[Any, set[str]]] = field(default_factory=list)  # objects, and their cached properties
    alive: list[object] = field(default_factory=list)  # so that no id is used twice
    functions: list[FunctionType] = field(default_factory=list)  # of the user

    def growth(self) -> tuple[int, int, int]:
        """Numbers that grow when a cache gains an entry, a property is first read, or a module is imported."""
        misses = sum(cache.cache_info().misses for cache in self.caches)
        return misses, sum(len(names & dict_of(value).keys()) for value, names in self.lazy), len(sys.modules)


def fingerprint(function: Callable[..., Any]) -> Fingerprint:
    """The contents of whatever mutable objects the function can reach; NotExplorable where one cannot be read.

    Files, the clock, and what code computes from the interpreter's own state (as by `gc`) are not looked into.
    """
    reader = Reader(function)
    reader.found.held |= {
        "os.environ": [tuple(os.environ.items())],
        RANDOMNESS: [global_randomness()],
        "the settings of the interpreter": [settings()],
    }
    reader.read("the current thread", thread_state())
    reader.run()
    return reader.found


# ---------------------------------------------------------------------------------------------------- reading


class Reader:
    """Reads what a function can reach, breadth first; what caches hold comes last."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.found = Fingerprint()
        self.seen: dict[int, tuple[str, int]] = {}  # where each object was met first, and how many others before it
        self.met: defaultdict[str, int] = defaultdict(int)
        self.todo: deque[tuple[str, Any, _Entry | None]] = deque([("", function, None)])
        self.later: deque[tuple[str, Any, _Entry | None]] = deque()
        self.names: set[str] = set()  # that the code of the user mentions
        self.spaces: list[_Space] = []  # modules and classes, of which only what code names is read
        self.classes: list[type] = []  # of the user
        self.settled = 0, 0  # how many names and spaces there were when all that is named was read
        self.home = _home(function)
        self.entry: _Entry | None = None  # whose contents are being read

    def run(self) -> None:
        while self.todo or self._named() or self.later:
            place, value, self.entry = self.todo.popleft() if self.todo else self.later.popleft()
            self._read(place, value)
        self.entry = None
        for cache in self.found.caches if "cache_info" in self.names else ():
            self.note(f"the counts of {getattr(cache, '__name__', 'a cache')}", tuple(cache.cache_info()))
        for kind in self.classes if "__subclasses__" in self.names else ():
            self.note(f"the subclasses of {kind.__qualname__}", len(type.__subclasses__(kind)))

    def read(self, place: str, value: Any) -> None:
        self.todo.append((place, value, self.entry))

    def read_entry(self, key: object, place: str, value: Any) -> None:
        """Read what a cache holds under this key, after all else."""
        entry = self.found.entries.setdefault(key, _Entry(place))
        self.later.append((place, value, entry))

    def note(self, place: str, state: object, mutable: bool = True) -> None:
        if self.entry is None:
            self.found.held.setdefault(place, []).append(state)
        else:
            self.entry.notes.append((place, state))
            self.entry.mutable |= mutable

    def _named(self) -> bool:
        """Whether the code names something, in what was met, that is not read yet; it is read next."""
        if self.settled == (len(self.names), len(self.spaces)):
            return False
        self.settled = len(self.names), len(self.spaces)
        every = not COMPUTED_NAMES.isdisjoint(self.names)
        for space in self.spaces:
            space.read(self, every)
        for name, logger in logging.root.manager.loggerDict.items() if "getLogger" in self.names else ():
            if isinstance(logger, logging.Logger) and id(logger) not in self.seen:
                self.read_entry(("logger", name), f"the logger {name}", logger)
        if not COMPUTED_MODULES.isdisjoint(self.names):
            self.entry = None
            self.read("sys.modules", sys.modules)
        return bool(self.todo)

    def _read(self, place: str, value: Any) -> None:
        kind = type(value)
        if (state := plain_state(kind, value)) is not None:
            self.note(place, state, mutable=False)
            return
        if id(value) in self.seen:
            if place:  # else it is the class of something
                self.note(place, ("the object of", self.seen[id(value)]), mutable=False)
            return
        self.seen[id(value)] = place, self.met[place]
        self.met[place] += 1
        self.found.alive.append(value)
        if len(self.seen) > MAX_OBJECTS:
            raise NotExplorable(
                f"it can reach more than {MAX_OBJECTS} objects, too many to check for state; "
                f"reach fewer, or use an engine that samples"
            )
        try:
            self._contents(place, kind, value)
        except (ArithmeticError, AttributeError, LookupError, OSError, RuntimeError, TypeError, ValueError):
            self._refuse(place, kind)  # a released buffer, a class whose own methods fail, …

    # ------------------------------------------------------------------------------------------------ by type

    def _contents(self, place: str, kind: type, value: Any) -> None:
        def of(*kinds: type) -> bool:
            return issubclass(kind, kinds)  # the class of a stand-in is not the one it shows

        if of(Symbolic, StandInGenerator):
            source = replaced_by(value)  # of which there is one for all runs
            self.note(place, id(value) if source is None else ("in place of", source))
            if self.entry is not None:
                self.entry.noisy = True
        elif of(FunctionType):
            self._function(place, value)
        elif of(type):
            self._class(value)
        elif of(ModuleType):
            self._module(value)
        elif of(*LOCKS):
            self.note(place, repr(value))
        elif of(*IMMUTABLE):
            self.note(place, (kind, repr(value)), mutable=False)
            if not self.is_library_class(kind):
                self._attributes(place, kind, value)
        elif wrapper := next((known for known in kind.__mro__ if known in WRAPPERS), None):
            self.note(place, kind)
            for name in WRAPPERS[wrapper]:
                part: Any = getattr(value, name, None)
                if wrapper is logging.Logger and name == "handlers":
                    part = [each for each in part if self._is_ours(type(each))]
                self.read(f"{place}.{name}".lstrip("."), part)
            if wrapper is functools.partial or not self.is_library_class(kind):
                self._attributes(place, kind, value)
        elif of(LRU_CACHE):
            self._cache(place, value)
        elif not any(value is stream for stream in (sys.stdin, sys.stdout, sys.stderr)):
            self._object(place, kind, value, of)

    def _object(self, place: str, kind: type, value: Any, of: Callable[..., bool]) -> None:
        """An object that holds others: its contents by its type, then its attributes."""
        if (table := table_state(kind, value)) is not None:
            self.note(place, table)
            return
        known = True
        if (
            kind in (list, tuple, dict)
            and len(value) >= MANY_PLAIN_ENTRIES
            and (table := marshalled(value)) is not None
        ):
            self.note(place, table)
        elif of(dict, types.MappingProxyType):
            self._mapping(place, kind, value)
        elif of(list, tuple, deque):
            self.note(place, (kind, value.maxlen if of(deque) else None), mutable=not of(tuple))
            self._sequence(place, entries_of(value))
        elif of(set, frozenset):
            entries = [(plain_state(type(entry), entry), entry) for entry in entries_of(value)]
            plain = frozenset(state for state, _ in entries if state is not None)
            self.note(place, (kind, plain), mutable=of(set))
            self._sequence(place, [entry for state, entry in entries if state is None])
        elif of(np.ndarray):
            held = b"" if value.dtype.hasobject else digest(np.ascontiguousarray(value).view(np.uint8))
            self.note(place, (value.shape, value.dtype.str, held))
            self._sequence(place, value.ravel().tolist() if value.dtype.hasobject else [])
        elif of(bytearray, array.array, memoryview, mmap.mmap):
            self.note(place, digest(value.tobytes() if of(memoryview) else value))
        elif of(AdoptedRandom, AdoptedState) and value.fixed is None:  # all its numbers come from the run's generator
            self.note(place, (kind, replaced_by(value)))
        elif of(np.random.Generator, np.random.RandomState):
            bits = value.bit_generator if of(np.random.Generator) else value._bit_generator
            children = getattr(bits.seed_seq, "n_children_spawned", None) if of(np.random.Generator) else None
            self.note(place, (bit_state(bits.state), children))
        elif of(random.Random):
            self.note(place, None if of(random.SystemRandom) else value.getstate())
        elif of(types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType):
            self._suspended(place, value)
        elif of(io.IOBase):
            self._file(place, value)
        elif of(threading.local):
            self.read(place, dict(value.__dict__))
        elif of(weakref.ref):
            self.read(f"{place}()", value())
        elif of(contextvars.ContextVar):
            self.read(place, value.get(None))
        elif of(types.CellType):
            with suppress(ValueError):  # not assigned yet
                self.read(place, value.cell_contents)
        elif of(types.BuiltinMethodType, types.MethodWrapperType):
            owner = value.__self__
            self.note(place, value.__name__, mutable=False)
            if not isinstance(owner, type | ModuleType | None) and type(owner).__name__ != "PyCapsule":
                self.read(f"{place}.__self__", owner)
        elif of(BaseException):
            self.note(place, len(list(traceback.walk_tb(value.__traceback__))))
            self.read(f"{place}.args", [value.args, value.__cause__, value.__context__])
        else:
            known = False
        self._attributes(place, kind, value)
        if not known:
            self._hidden(place, kind, value)

    def _sequence(self, place: str, entries: list[Any]) -> None:
        states = [plain_state(type(entry), entry) for entry in entries]
        if None not in states:  # most lists: noted at once
            self.note(place, states, mutable=False)
            return
        for index, entry in enumerate(entries):
            self.read(f"{place}[{index}]", entry)

    def _mapping(self, place: str, kind: type, value: Any) -> None:
        if value is sys.modules:
            for name, module in list(value.items()):
                if isinstance(module, ModuleType) and not self.is_library_module(module):
                    self.read(f"sys.modules[{name!r}]", vars(module) if module.__spec__ is None else module)
            return
        items = entries_of(value)
        keys = [plain_state(type(key), key) for key, _ in items]
        self.note(place, (kind, keys))
        for state, (key, part) in zip(keys, items, strict=True):
            if state is None:
                self.read(f"a key of {place}", key)
            self.read(f"{place}[{key!r:.40}]" if type(key) is str else f"{place}[…]", part)
        if issubclass(kind, defaultdict):
            self.read(f"{place}.default_factory", value.default_factory)

    def _suspended(self, place: str, value: Any) -> None:
        """A generator or a coroutine: where it stands, and its variables."""
        frame = next(getattr(value, name) for name in ("gi_frame", "cr_frame", "ag_frame") if hasattr(value, name))
        self.note(place, None if frame is None else (frame.f_code, frame.f_lasti))
        if frame is not None:
            self.read(f"the variables of {place}", dict(frame.f_locals))
            self._globals(frame.f_code, frame.f_globals)

    def _file(self, place: str, value: Any) -> None:
        if value.closed:
            self.note(place, "closed")
        elif isinstance(value, io.StringIO | io.BytesIO):
            self.note(place, (value.getvalue(), value.tell()))
        else:
            with suppress(OSError, io.UnsupportedOperation):
                self.note(place, value.tell())

    def _attributes(self, place: str, kind: type, value: Any) -> None:
        """The attributes of an object, in its dict and its slots, and its class."""
        kept = {name for base in kind.__mro__ for name, part in vars(base).items() if type(part) in CACHED_PROPERTIES}
        if kept:
            self.found.lazy.append((value, kept))
        silent: tuple[str, ...] = ("stream", "lock") if issubclass(kind, logging.Handler) else ()
        if issubclass(kind, AdoptedRandom | AdoptedState) and replaced_by(value) is not None:
            silent = ("rng",)  # the generator of the run, whichever run it is
        for name, part in dict_of(value).items():
            if name in kept:
                self.read_entry((id(value), name), f"{place}.{name}", part)
            elif name not in silent:
                self.read(f"{place}.{name}".lstrip("."), part)
        for name, slot in slots_of(kind):
            with suppress(AttributeError):  # not assigned yet
                self.read(f"{place}.{name}".lstrip("."), slot.__get__(value, kind))
        if id(kind) not in self.seen:
            self.read("", kind)

    def _hidden(self, place: str, kind: type, value: Any) -> None:
        """The state of an object that C code holds, by what would be pickled of it."""
        offsets = (kind.__dictoffset__, kind.__weakrefoffset__)
        visible = object.__basicsize__ + POINTER * (sum(offset > 0 for offset in offsets) + len(slots_of(kind)))
        self.note(place, (kind, id(value) if kind is object else None))
        if kind.__basicsize__ > visible or kind.__itemsize__:
            try:
                parts = pickled(kind, value)
            except Exception:  # whatever it is: the object does not tell its state
                self._refuse(place, kind)
            for part in parts:
                self.read(place, part)

    def _refuse(self, place: str, kind: type) -> NoReturn:
        raise NotExplorable(
            f"{place} is a {kind.__module__}.{kind.__qualname__} whose state cannot be read, so it could keep "
            f"state between runs; create it inside the function, or use an engine that samples"
        )

    # ------------------------------------------------------------------------------------------------ caches

    def _cache(self, place: str, cache: Any) -> None:
        name = getattr(cache, "__name__", place)
        self.found.caches.append(cache)
        self.read(place, cache.__wrapped__)
        self.read(f"the attributes of {name}", {k: v for k, v in vars(cache).items() if k not in CACHE_ATTRIBUTES})
        for key, result in cached_entries(cache, lambda: self._refuse(place, type(cache))):
            self.read_entry((id(cache), key), f"the cache of {name}", result)
            if isinstance(key, tuple):
                self.read_entry((id(cache), key), f"a key in the cache of {name}", key)

    # ------------------------------------------------------------------------------------------------ code

    def _function(self, place: str, function: FunctionType) -> None:
        name = function.__name__
        self.note(f"the code of {name}", function.__code__, mutable=False)
        library = self.is_library(function.__code__.co_filename)
        silent = DISPATCH if library else frozenset()
        self.read(f"the attributes of {name}", {k: v for k, v in function.__dict__.items() if k not in silent})
        for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
            if variable not in silent:
                self.read(f"the variable {variable} around {name}", cell)
        if not library:
            self.found.functions.append(function)
            self.read(f"the defaults of {name}", function.__defaults__)
            self.read(f"the defaults of {name}", function.__kwdefaults__)
            self.read(f"the name of {name}", (function.__doc__, name, function.__qualname__, function.__module__))
            self.read(f"the annotations of {name}", function.__annotations__)
            self._globals(function.__code__, function.__globals__)

    def _globals(self, code: CodeType, variables: dict[str, Any]) -> None:
        mentioned = names_in(code)
        self.names |= mentioned
        built_in = vars(sys.modules["builtins"])
        for name in sorted(mentioned):
            if name in variables:
                self.read(f"the global {name}", variables[name])
            elif name in built_in and not isinstance(built_in[name], types.BuiltinFunctionType | type):
                self.read(f"the builtin {name}", built_in[name])
            if name in sys.modules and sys.modules[name] is not variables.get(name):  # perhaps imported by the code
                self.read_entry(("module", name), f"the module {name}", sys.modules[name])
        if not COMPUTED_NAMES.isdisjoint(mentioned):
            for name in sorted(variables.keys() - mentioned):
                if not (name.startswith("__") and name.endswith("__")):
                    self.read(f"the global {name}", variables[name])

    def _module(self, module: ModuleType) -> None:
        self.spaces.append(_Space(module.__name__, vars(module), self.is_library_module(module), self.entry))

    def _class(self, kind: type) -> None:
        """The attributes of a class, its bases and its metaclass."""
        if kind.__flags__ & IMMUTABLE_TYPE:
            return
        if self.is_library_class(kind):
            self.spaces.append(_Space(kind.__qualname__, vars(kind), True, self.entry))
            return
        self.classes.append(kind)
        for name, part in list(vars(kind).items()):
            if name not in CLASS_CACHES:
                self.read(f"{kind.__qualname__}.{name}", part)
        if "_abc_impl" in vars(kind):
            self.note(f"the classes registered with {kind.__qualname__}", registered_with(kind))
        for base in (*kind.__bases__, type(kind)):
            self.read("", base)

    def _is_ours(self, handler: type) -> bool:
        """Whether a handler of logs is to be read: those of test runners and other libraries keep what they like."""
        return handler.__module__.startswith("logging") or not self.is_library_class(handler)

    def is_library_class(self, kind: type) -> bool:
        return self.is_library_module(sys.modules.get(kind.__module__))

    def is_library(self, file: str) -> bool:
        return not (self.home and file.startswith(self.home)) and _is_library(file)

    def is_library_module(self, module: ModuleType | None) -> bool:
        """Whether it belongs to the standard library, another package, or veridp itself."""
        if module is None:
            return False
        file, (parent, _, inner) = getattr(module, "__file__", None), module.__name__.partition(".")
        if file is None and inner:  # a part of a package that its C code made
            return self.is_library_module(sys.modules.get(parent))
        origin = getattr(getattr(module, "__spec__", None), "origin", None)
        return self.is_library(file) if file else origin in ("built-in", "frozen")


@dataclass
class _Space:
    """A module or a class of a library: what it holds under names that the code mentions, and its plain values."""

    name: str
    variables: Mapping[str, Any]
    library: bool
    entry: _Entry | None
    done: set[str] = field(default_factory=set)

    def read(self, reader: Reader, every: bool) -> None:
        """Read what is not read yet."""
        wanted = self.variables.keys() & reader.names
        if every and not self.library:
            wanted = {name for name in self.variables if not name.startswith("__")}
        reader.entry = self.entry
        if not self.done and self.library:
            self.done.add("")
            reader.note(self.name, [pair for pair in list(self.variables.items()) if type(pair[1]) in NUMBERS])
        for name in sorted(wanted - self.done):
            self.done.add(name)
            reader.read(f"{self.name}.{name}", self.variables[name])


@functools.lru_cache(maxsize=4096)
def _is_library(file: str) -> bool:
    if file.startswith(CATALOGUE):
        return False
    return file.startswith((VERIDP, "<frozen")) or any(library in file for library in LIBRARIES)


def _home(function: Any) -> str:
    """Where the package of the function lies, if it is installed as a library; its code is followed all the same."""
    while isinstance(function, functools.partial | MethodType | LRU_CACHE | Adopting):
        names = ("func", "__wrapped__", "__func__", "function")
        function = next(getattr(function, name) for name in names if hasattr(function, name))
    code = getattr(function if isinstance(function, FunctionType) else type(function).__call__, "__code__", None)
    before, installed, inside = (code.co_filename if code else "").partition(os.sep + "site-packages" + os.sep)
    inside = inside.partition(os.sep)[0]
    return "" if inside in ("", "veridp") else before + installed + inside
