"""Where a function finds randomness besides `rng`: in the modules that its code names, and in what it can reach."""

from __future__ import annotations

import dis
import functools
import itertools
import os
import random
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from veridp.mechanism.randomness import MODULES, NUMPY, SOURCES, Slot, Sources, get, is_source

MAX_OBJECTS = 20_000  # that are searched for generators
MAX_ENTRIES = 1_000  # of one container that are looked at
LIBRARIES = (sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), os.path.dirname(os.path.dirname(__file__)))
_PLAIN = (int, float, str, bytes, bool, complex, type(None), np.ndarray, np.generic, CodeType)


def is_drawn_from(function: Any, parameter: str) -> bool:
    """Whether the code of the function calls a method of NumPy's generators on this parameter."""
    function = function.func if isinstance(function, functools.partial) else function
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    chains = [chain for chain in _chains(code) if chain.root == parameter and chain.attributes] if code else []
    return any(hasattr(np.random.Generator, chain.attributes[0]) for chain in chains)


@contextmanager
def undisturbed(sources: Sources) -> Iterator[list[Any]]:
    """The genuine generators of a function, and the global ones: what the body draws from them is undone at its end."""
    kept = [NUMPY, random._inst, *sources.others, *(owner for slot in sources.slots for owner in _owners(get(*slot)))]
    undo = [_undoing(owner) for owner in kept if not isinstance(owner, random.SystemRandom)]
    try:
        yield kept
    finally:
        for each in undo:
            each()


def _undoing(generator: Any) -> Callable[[], None]:
    """What sets the generator back to its present state, with the numbers that it has drawn ahead."""
    if isinstance(generator, random.Random):
        return functools.partial(generator.setstate, generator.getstate())
    if isinstance(generator, np.random.RandomState):
        return functools.partial(generator.set_state, generator.get_state(legacy=False))
    return functools.partial(setattr, generator.bit_generator, "state", generator.bit_generator.state)


def sources_of(function: Any) -> Sources | None:
    """The sources that the function has besides `rng`; None where it has none, or is an adapter of veridp's own.

    Generators in the same state draw the same numbers, not independent ones: they are not adopted.
    """
    if type(function).__module__.startswith("veridp.mechanism.adapters."):
        return None
    search = _Search(function)
    slots = search.slots()
    if not (slots or search.others or search.uses_global_sources):
        return None
    return Sources(tuple(slots), search.classes, frozenset(search.names), search.sees_types, tuple(search.others))


class _Search:
    """Goes through what a function can reach by the names in its code and that of its helpers."""

    def __init__(self, function: Any) -> None:
        self.todo = [function]
        while isinstance(function, functools.partial | MethodType):
            function = function.func if isinstance(function, functools.partial) else function.__func__
        self.home = (getattr(function, "__module__", None) or "").partition(".")[0]
        self.uses_global_sources = self.sees_types = False
        self.found: list[Slot] = []
        self.names: set[str] = set()
        self.modules: dict[int, ModuleType] = {}
        self.seen: dict[int, Any] = {}
        self.looked_up: set[tuple[int, str]] = set()
        self.others: list[Any] = []
        self.called: set[int] = set()  # classes, by identity
        self.kept: set[int] = set()

    def slots(self) -> list[Slot]:
        """The slots that hold a generator, or a method or class of generators."""
        while (self.todo or self._named()) and len(self.seen) < MAX_OBJECTS:
            value = self.todo.pop()
            if not isinstance(value, _PLAIN) and id(value) not in self.seen:
                self.seen[id(value)] = value
                self._visit(value)
        return self._independent()

    @property
    def classes(self) -> frozenset[int]:
        """The classes that the code calls and does nothing else with: others may be compared by identity."""
        return frozenset(self.called - self.kept)

    def _look(self, holder: Any, key: Any) -> None:
        value = get(holder, key)
        if is_source(value):
            self.found.append((holder, key))
        else:
            self.todo.append(value)

    def _look_up(self, variables: dict[str, Any], name: str) -> None:
        """Look at what the code may mean by a name; chains tell whether it means a module of randomness."""
        if not any(variables[name] is module for module in MODULES):
            self._look(variables, name)

    def _named(self) -> bool:
        """Whether the code names something, in the modules that were met, that was not looked at yet."""
        for module in list(self.modules.values()):
            for name in self.names & vars(module).keys():
                if (id(module), name) not in self.looked_up:
                    self.looked_up.add((id(module), name))
                    self._look_up(vars(module), name)
        return bool(self.todo)

    def _visit(self, value: Any) -> None:
        if isinstance(value, SOURCES):
            self.others.append(value)
        if isinstance(value, FunctionType):
            self._function(value)
        elif isinstance(value, ModuleType):
            if value in MODULES:  # as an argument or attribute, say
                self.uses_global_sources = True
            else:
                self.modules[id(value)] = value
        elif isinstance(value, type):
            if self._is_followed(value):
                for name in list(vars(value)):
                    self._look(value, name)
                self.todo += value.__bases__
        elif isinstance(value, dict):
            for key in list(itertools.islice(value, MAX_ENTRIES)):
                self._look(value, key)
        elif isinstance(value, list):
            for index in range(min(len(value), MAX_ENTRIES)):
                self._look(value, index)
        elif isinstance(value, tuple | set | frozenset):
            self.todo += itertools.islice(value, MAX_ENTRIES)
        elif isinstance(value, CellType):
            self._look(value, "cell_contents")
        else:
            parts = ("__wrapped__", "__func__", "__self__", "func", "args", "keywords", "fget", "__dict__")
            self.todo += [getattr(value, part, None) for part in parts if _has(value, part)]
            for name in [name for base in type(value).__mro__ for name in getattr(base, "__slots__", ())]:
                if isinstance(name, str) and _has(value, name):
                    self._look(value, name)
            self.todo.append(type(value))

    def _is_followed(self, defined: Any) -> bool:
        """Whether a function or class is the user's, or of the library that the mechanism itself is from."""
        module = getattr(defined, "__module__", None) or ""
        if isinstance(defined, FunctionType):
            file = defined.__code__.co_filename
        else:
            file = getattr(sys.modules.get(module), "__file__", None) or "<built-in>"
        at_home = module.partition(".")[0] == self.home != "veridp"
        return at_home or not file.startswith((*LIBRARIES, "<built-in>", "<frozen"))

    def _function(self, function: FunctionType) -> None:
        self.todo += [vars(function), function.__kwdefaults__]
        if not self._is_followed(function):
            return
        code, variables = function.__code__, function.__globals__
        if any(map(is_source, function.__defaults__ or ())):
            self.found.append((function, "__defaults__"))
        self.todo += [*(function.__closure__ or ()), *(function.__defaults__ or ())]
        self.names |= _names(code)
        for name in _names(code) & variables.keys():
            self._look_up(variables, name)
        cells = zip(code.co_freevars, function.__closure__ or (), strict=False)
        scope = {**variables, **{name: get(cell, "cell_contents") for name, cell in cells}}
        self.sees_types |= "type" in _names(code) and scope.get("type", type) is type
        for chain in _chains(code):
            values = chain.resolved(scope)
            self.uses_global_sources |= any(value is part for value in values for part in (*MODULES, os.urandom))
            if isinstance(values[-1], type):
                (self.called if chain.called else self.kept).add(id(values[-1]))

    def _independent(self) -> list[Slot]:
        """The slots found, without generators that are in the same state as others, and the methods of these."""
        owners = {id(owner): owner for slot in self.found for owner in _owners(get(*slot))}
        streams = {id(_bits(owner)): _bits(owner) for owner in [*owners.values(), NUMPY, random._inst]}
        if len(streams) <= 2:
            return self.found
        states = {key: _state(bits) for key, bits in streams.items()}
        twins = {key for key, state in states.items() if sum(state == other for other in states.values()) > 1}
        self.others += [owner for owner in owners.values() if id(_bits(owner)) in twins]
        return [slot for slot in self.found if all(id(_bits(owner)) not in twins for owner in _owners(get(*slot)))]


def _has(value: Any, name: str) -> bool:
    """Whether it has this attribute, without calling code of its class."""
    if name == "__dict__":
        return isinstance(getattr(type(value), "__dict__", None), Mapping) and hasattr(value, "__dict__")
    try:
        object.__getattribute__(value, name)
    except Exception:
        return False
    return True


def _owners(value: Any) -> list[Any]:
    """The generators that a slot holds, itself or by a method."""
    if type(value) is tuple:
        return [owner for entry in value if is_source(entry) for owner in _owners(entry)]
    return [owner for owner in (value, getattr(value, "__self__", None)) if type(owner) in SOURCES]


def _bits(generator: Any) -> Any:
    """What holds the state of a generator."""
    if isinstance(generator, random.Random):
        return generator
    return generator.bit_generator if isinstance(generator, np.random.Generator) else generator._bit_generator


def _state(bits: Any) -> object:
    if isinstance(bits, random.SystemRandom):
        return id(bits)
    return bits.getstate() if isinstance(bits, random.Random) else repr(bits.state)


@dataclass(frozen=True)
class _Chain:
    """A name and attributes in code, `np.random.laplace`: the name of a variable, or of an imported module."""

    root: str
    attributes: tuple[str, ...]
    imported: bool
    called: bool  # at once, and not kept or compared

    def resolved(self, variables: Mapping[str, Any]) -> list[Any]:
        """The values of its parts, as far as they are modules or attributes of modules."""
        values = [sys.modules.get(self.root) if self.imported else variables.get(self.root)]
        for attribute in self.attributes:
            if not isinstance(values[-1], ModuleType):
                return values
            values.append(vars(values[-1]).get(attribute))
        return values


@functools.lru_cache(maxsize=4096)
def _chains(code: CodeType) -> tuple[_Chain, ...]:
    """What the code, and code within it, refers to."""
    found: list[_Chain] = []
    imports: dict[str, _Chain] = {}  # by the local name
    chain: _Chain | None = None
    module = _Chain("", (), True, False)
    instructions = list(dis.get_instructions(code))
    for before, instruction in zip([None, *instructions], instructions, strict=False):
        name, operation = instruction.argval, instruction.opname
        called = before is not None and before.opname == "PUSH_NULL"
        if operation in ("LOAD_ATTR", "LOAD_METHOD") and chain is not None:
            called = chain.called or operation == "LOAD_METHOD" or (METHOD_FLAG and bool((instruction.arg or 0) & 1))
            chain = replace(chain, attributes=(*chain.attributes, name), called=called)
            continue
        found += [chain] if chain is not None else []
        chain = None
        if operation in _LOADS:
            called = called or (operation == "LOAD_GLOBAL" and bool((instruction.arg or 0) & 1))
            chain = replace(imports.get(name, _Chain(name, (), False, False)), called=called)
        elif operation == "IMPORT_NAME":
            whole = before is not None and before.argval  # from a.b import …, else import a.b, which gives a
            module = imported = _Chain(name if whole else name.partition(".")[0], (), True, False)
        elif operation == "IMPORT_FROM":
            imported = replace(module, attributes=(name,))
        elif operation.startswith("STORE_") and before is not None and before.opname in ("IMPORT_NAME", "IMPORT_FROM"):
            imports[name] = imported
    inner = [_chains(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    return tuple({chain: None for part in (found, *inner) for chain in part})


_LOADS = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FAST"})
METHOD_FLAG = sys.version_info >= (3, 12)  # on LOAD_ATTR, in place of LOAD_METHOD


@functools.lru_cache(maxsize=4096)
def _names(code: CodeType) -> frozenset[str]:
    """The names of globals and attributes in the code and in code within it."""
    inner = [_names(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    return frozenset(code.co_names).union(*inner)
