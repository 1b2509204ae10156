"""Randomness that a mechanism takes from elsewhere than `rng`: NumPy's and Python's global generators, `secrets`, and
generators that it keeps or makes. While it runs, they are adopted: they draw from `rng`, whatever reads that.

A generator that the function makes from a seed of its own stays genuine: its numbers are the same in every run, which
is no noise at all. What cannot be adopted (an object of a subclass, one in a tuple or inside a library) is left alone,
and found out by those who compare the state of generators before and after runs.
"""

from __future__ import annotations

import copy
import os
import random
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from random import Random, SystemRandom
from types import MethodType
from typing import Any

import numpy as np
from numpy.random import MT19937, BitGenerator, Generator, RandomState

from veridp.budget import shielded
from veridp.mechanism.older_interfaces import LEGACY, PYTHON

# The classes above are the genuine ones also while their modules hold stand-ins for them.
Slot = tuple[Any, Any]  # an object and the key, or the name of the attribute, under which it holds a source
# Where set, it is called with every seed that the running function gives to a generator.
ON_SEED: ContextVar[Callable[[object], None] | None] = ContextVar("ON_SEED", default=None)


class Bits:
    """The bit generator of a stand-in: other generators may be made of it, and then draw from the same stand-in."""

    generator: Any

    def __init__(self, generator: Any) -> None:
        object.__setattr__(self, "generator", generator)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.generator.refuse(f"rng.bit_generator.{name} is not supported")

    def __setattr__(self, name: str, value: object) -> None:
        self.generator.refuse(f"setting rng.bit_generator.{name} is not supported")


class _Adopted:
    """A generator of another interface that draws from `rng`, until it is given a seed."""

    genuine: type  # whose interface it has
    rng: Any
    fixed: Any = None  # the genuine generator, once it has a seed

    def seed(self, a: Any = None, version: int = 2) -> None:
        self.fixed = None if a is None or was_drawn(self.rng, a) else seeded(self.genuine, a)

    def get_state(self) -> Any:
        return getattr(self._on_its_own(), self._state("get"))()

    def set_state(self, state: Any) -> None:
        self.fixed = _genuine(self.genuine, 0)
        getattr(self.fixed, self._state("set"))(state)

    def _state(self, verb: str) -> str:
        return f"{verb}_state" if hasattr(self.genuine, "get_state") else f"{verb}state"

    getstate, setstate = get_state, set_state

    def _on_its_own(self) -> Any:
        """The genuine generator that it is from now on, at random: for what a stream shared with others cannot do."""
        if self.fixed is None and hasattr(self.rng, "refuse"):
            self.rng.refuse("the state of a generator is read or copied: it draws the same numbers again")
        if self.fixed is None:
            self.fixed = _genuine(self.genuine, int(self.rng.integers(2**32)))
        return self.fixed

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        twin = type(self)(self.rng)  # type: ignore[call-arg]
        twin.fixed = copy.deepcopy(self._on_its_own(), memo)
        return twin

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self._on_its_own().__reduce_ex__(protocol)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return self.genuine


def _method(name: str, translated: Callable[..., Any] | None) -> Callable[..., Any]:
    def draw(self: _Adopted, *arguments: Any, **named: Any) -> Any:
        if self.fixed is not None:
            return getattr(self.fixed, name)(*arguments, **named)
        if translated is not None:
            return translated(self.rng, *arguments, **named)
        return getattr(self.rng, name)(*arguments, **named)

    draw.__name__ = name
    return draw


_NO_BITS = MT19937(0)


class AdoptedState(_Adopted, RandomState):  # type: ignore[misc]
    """A RandomState that draws from a Generator."""

    genuine = RandomState

    def __init__(self, rng: Any) -> None:
        RandomState.__init__(self, _NO_BITS)
        self.rng = rng

    @property
    def _bit_generator(self) -> Any:  # type: ignore[override]
        return self.rng.bit_generator if self.fixed is None else self.fixed._bit_generator


class AdoptedRandom(_Adopted, Random):
    """A random.Random that draws from a Generator; one of the operating system's takes no seed."""

    genuine = Random

    def __new__(cls, rng: Any, system: bool = False) -> AdoptedRandom:
        return Random.__new__(cls, 0)  # type: ignore[call-arg]

    def __init__(self, rng: Any, system: bool = False) -> None:
        self.rng, self.system = rng, system

    def seed(self, a: Any = None, version: int = 2) -> None:
        if not self.system:
            super().seed(a, version)


for _kind, _translated in ((AdoptedState, LEGACY), (AdoptedRandom, PYTHON)):
    for _name in dir(_kind.genuine):
        if not _name.startswith("_") and callable(getattr(_kind.genuine, _name)) and not hasattr(_Adopted, _name):
            setattr(_kind, _name, _method(_name, _translated.get(_name)))
    _kind.__name__, _kind.__qualname__ = _kind.genuine.__name__, _kind.genuine.__qualname__
    _kind.__module__ = _kind.genuine.__module__


# ------------------------------------------------------------------------------------------------------------ adoption

SOURCES = (Generator, RandomState, Random, SystemRandom)
_ADOPTED = (*SOURCES, AdoptedState, AdoptedRandom)  # of exactly these types: a subclass may have methods of its own


def is_source(value: Any) -> bool:
    """Whether this is a generator, a method of one, or makes generators."""
    return type(value) in _ADOPTED or type(getattr(value, "__self__", None)) in _ADOPTED or id(value) in _STAND_INS


def _interface(kind: type, rng: Any) -> Any:
    """A new generator of this kind that draws from `rng`."""
    if issubclass(kind, RandomState):
        return AdoptedState(rng)
    if issubclass(kind, Random):
        return AdoptedRandom(rng, issubclass(kind, SystemRandom))
    return sharing(rng)


def sharing(rng: Any) -> Any:
    """Another generator, which shares the stream and all that `rng` remembers."""
    own: Any = type(rng)
    twin = own.__new__(own)
    if issubclass(own, Generator):
        Generator.__init__(twin, Generator.bit_generator.__get__(rng))
    if hasattr(rng, "__dict__"):
        twin.__dict__ = rng.__dict__
    return twin


class Adoption:
    """The stand-ins of one run: for each source, one that draws from `rng`."""

    def __init__(self, rng: Any, sources: Sources) -> None:
        self.rng, self.sources = rng, sources
        self.made: dict[int, tuple[Any, Any]] = {}

    def of(self, source: Any) -> Any:
        """The stand-in for a generator: for each another object."""
        if id(source) not in self.made:
            self.made[id(source)] = source, self.drawing(type(source))
        return self.made[id(source)][1]

    def method(self, owner: Any, name: str) -> Any:
        """The method of the stand-in for a generator, which itself stays hidden where its type must not be seen."""
        if not self.sources.sees_types or isinstance(owner, Generator):
            return getattr(self.of(owner), name)
        if -id(owner) not in self.made:
            self.made[-id(owner)] = owner, _interface(type(owner), self.rng)
        return getattr(self.made[-id(owner)][1], name)

    @property
    def stand_ins(self) -> list[Any]:
        """All that draw from `rng`, and it itself."""
        return [self.rng, *(stand_in for _, stand_in in self.made.values())]

    def drawing(self, kind: type, rng: Any = None) -> Any:
        """A new generator of this kind that draws from `rng`."""
        rng = self.rng if rng is None else rng
        if not self.sources.sees_types or issubclass(kind, Generator):
            return _interface(kind, rng)
        if hasattr(rng, "refuse"):
            rng.refuse(f"the code asks for types, and a {kind.__name__} that draws from rng is of another type")
        return _genuine(kind, rng.bit_generator if issubclass(kind, RandomState) else int(rng.integers(2**63)))

    def in_place_of(self, value: Any) -> Any:
        """What stands in for a generator, a method of one, or what makes generators; else the value itself."""
        if type(value) is tuple:
            return tuple(map(self.in_place_of, value))
        if id(value) in _STAND_INS:
            called = not isinstance(value, type) or id(value) in self.sources.classes
            return _STAND_INS[id(value)][1] if called else value
        if type(value) in _ADOPTED:
            return self.of(value)
        if id(value) in _PUT:  # by a run around this one
            return value
        owner = getattr(value, "__self__", None)
        return self.method(owner, value.__name__) if type(owner) in _ADOPTED else value

    def make(self, kind: Any, *arguments: Any, **named: Any) -> Any:
        """What `kind(seed)` makes: a genuine generator, or without a seed one that draws from `rng`."""
        seed = next(iter([*arguments, *named.values()]), None)
        if seed is None or kind is SystemRandom:
            return self.rng.bit_generator if issubclass(kind, BitGenerator) else self.drawing(kind)
        if isinstance(seed, Bits) and issubclass(kind, Generator | RandomState):
            return self.drawing(kind, seed.generator)
        if seed is getattr(self.rng, "bit_generator", None):
            return self.drawing(kind)
        if was_drawn(self.rng, seed):
            return self.rng.bit_generator if issubclass(kind, BitGenerator) else self.drawing(kind)
        return seeded(kind, *arguments, **named)

    def default_rng(self, seed: Any = None) -> Any:
        """NumPy's function of the same name."""
        if isinstance(seed, Generator):
            return seed
        if isinstance(seed, RandomState):
            seed = seed._bit_generator
        if isinstance(seed, BitGenerator | Bits | None):
            return self.make(Generator, seed)
        return self.drawing(Generator) if was_drawn(self.rng, seed) else seeded(_DEFAULT_RNG, seed)


def was_drawn(rng: Any, seed: Any) -> bool:
    """Whether the running function drew this seed, and `rng` takes the numbers of its generator for new draws.

    Where they are explored or replayed, they do: the seed of a good generator tells nothing about its numbers, as long
    as it is used for nothing else.
    """
    return hasattr(rng, "takes_as_seed") and rng.takes_as_seed(seed)


def seeded(kind: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """The genuine generator with this seed, which is the same in every run unless it was drawn."""
    seed = next(iter([*arguments, *named.values()]))
    for part in seed if isinstance(seed, list | tuple) else [seed]:
        if hasattr(type(part), "as_python"):
            part.refuse("a generator is seeded with a random number, on which its own depend in no simple way")
    if (listener := ON_SEED.get()) is not None:
        listener(seed)
    return _genuine(kind, seed, *arguments[1:])


def _genuine(kind: Callable[..., Any], seed: Any, *others: Any) -> Any:
    if kind is RandomState and not isinstance(seed, BitGenerator):
        state = RandomState(MT19937(0))  # RandomState(seed) asks for entropy before it is seeded
        state.seed(seed)
        return state
    return kind(seed, *others)


@dataclass(frozen=True)
class Sources:
    """Where a function finds randomness of its own: slots, and those classes of generators that it only calls."""

    slots: tuple[Slot, ...] = ()
    classes: frozenset[int] = frozenset()  # by identity
    names: frozenset[str] = frozenset()  # that the code mentions
    sees_types: bool = False  # whether the code calls `type`
    others: tuple[Any, ...] = ()  # generators that cannot be adopted

    @cached_property
    def swaps(self) -> list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]:
        """For each module of randomness: its variables, the stand-ins for them, and what these stand for.

        What somebody else has replaced there stays.
        """
        found = []
        for space in map(vars, MODULES):
            named = space.keys() if not COMPUTED.isdisjoint(self.names) else (self.names | HELPERS) & space.keys()
            known = [(name, space[name]) for name in named if name[0] != "_" and id(space[name]) in _STAND_INS]
            old = {name: value for name, value in known if not isinstance(value, type) or id(value) in self.classes}
            found.append((space, {name: _STAND_INS[id(value)][1] for name, value in old.items()}, old))
        return found


COMPUTED = frozenset({"getattr", "vars", "__dict__", "eval", "exec", "attrgetter", "methodcaller"})  # reach any name
HELPERS = frozenset({"token_bytes"})  # of functions in the same module
CURRENT: ContextVar[Adoption | None] = ContextVar("CURRENT", default=None)
_ONE_AT_A_TIME = threading.RLock()  # sources are shared by all threads
os.register_at_fork(after_in_child=_ONE_AT_A_TIME._at_fork_reinit)  # type: ignore[attr-defined]


def adopted_sources() -> tuple[Any, ...]:
    """The sources in whose place something draws from the `rng` of the run that is going on."""
    adoption = CURRENT.get()
    made = () if adoption is None else adoption.made.values()
    return tuple(source for source, instead in made if getattr(instead, "fixed", None) is None)


def replaced_by(stand_in: Any) -> int | None:
    """The source, by its id, that this stands in for in the run that is going on; None for what the function made."""
    adoption = CURRENT.get()
    made = () if adoption is None else adoption.made.values()
    return next((id(source) for source, instead in made if instead is stand_in), None)


@contextmanager
def adopted(rng: Any, sources: Sources) -> Iterator[Adoption]:
    """While the body runs, the global sources and those of a function draw from `rng`; then all is as it was.

    Other threads draw from the global sources as ever, but meet the stand-ins of generators that they share.
    """
    adoption, done = Adoption(rng, sources), list[tuple[Any, Any, Any, Any]]()
    with _ONE_AT_A_TIME:
        token = CURRENT.set(adoption)
        try:
            with shielded():
                for space, new, _ in sources.swaps:
                    space.update(new)
                for holder, key in (*_SINGLETONS[sources.sees_types :], *sources.slots):
                    found = get(holder, key)
                    done.append((holder, key, found, adoption.in_place_of(found)))
                    put(holder, key, done[-1][-1])
            yield adoption
        finally:
            with shielded():
                CURRENT.reset(token)
                for holder, key, old, new in reversed(done):
                    if get(holder, key) is new:  # else the function has put something there itself: let it be seen
                        put(holder, key, old)
                for space, new, old in sources.swaps:
                    kept = new.items() <= space.items()
                    space.update(old if kept else {name: old[name] for name in old if space.get(name) is new[name]})


def get(holder: Any, key: Any) -> Any:
    if isinstance(holder, dict):
        return holder.get(key)
    if isinstance(holder, list):
        return holder[key] if key < len(holder) else None
    try:
        return vars(holder).get(key) if isinstance(holder, type) else getattr(holder, key, None)
    except ValueError:  # an empty cell
        return None


def put(holder: Any, key: Any, value: Any) -> None:
    if isinstance(holder, dict | list):
        holder[key] = value
    else:
        setattr(holder, key, value)


# ------------------------------------------------------------------------------------------------------ global sources


def _dispatching(owner: Any, method: str, original: Any) -> Any:
    """The function of a module that calls a method of its generator, in a run that of the stand-in."""

    def call(_: object, *arguments: Any, **named: Any) -> Any:
        adoption = CURRENT.get()
        if adoption is None:
            return original(*arguments, **named)
        return adoption.method(owner, method)(*arguments, **named)

    call.__name__, call.__qualname__ = original.__name__, original.__qualname__
    return MethodType(call, owner)


class _Constructor(type):
    """The type of what stands in for a class of generators; for isinstance it is that class."""

    genuine: Any

    def __call__(cls, *arguments: Any, **named: Any) -> Any:
        adoption = CURRENT.get()
        if "genuine" not in vars(cls) or adoption is None:
            return cls.genuine(*arguments, **named) if "genuine" in vars(cls) else super().__call__(*arguments, **named)
        return adoption.make(cls.genuine, *arguments, **named)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.genuine) if "genuine" in vars(cls) else super().__instancecheck__(instance)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls.genuine) if "genuine" in vars(cls) else super().__subclasscheck__(subclass)


def _default_rng(seed: Any = None) -> Any:
    adoption = CURRENT.get()
    return _DEFAULT_RNG(seed) if adoption is None else adoption.default_rng(seed)


def _stand_in(value: Any) -> Any:
    """What stands in for a part of the modules of randomness; None for what is no source."""
    if value is _DEFAULT_RNG:
        return _default_rng
    if id(value) in _FUNCTIONS:
        return _dispatching(*_FUNCTIONS[id(value)], value)
    if isinstance(value, type):
        if value in SOURCES or (issubclass(value, BitGenerator) and value is not BitGenerator):
            return _Constructor(value.__name__, (value,), {"genuine": value, "__module__": value.__module__})
        return None
    if isinstance(getattr(value, "__self__", None), RandomState | Random):
        return _dispatching(value.__self__, value.__name__, value)
    return None


NUMPY, _SYSTEM = np.random.mtrand._rand, secrets._sysrand  # type: ignore[attr-defined]
_DEFAULT_RNG = np.random.default_rng
# What libraries take for NumPy's global generator, and the operating system's entropy.
_SINGLETONS: tuple[Slot, ...] = ((vars(np.random.mtrand), "_rand"), (vars(os), "urandom"))
_FUNCTIONS: dict[int, tuple[Any, str]] = {
    id(np.random.seed): (NUMPY, "seed"),
    id(np.random.ranf): (NUMPY, "random_sample"),
    id(np.random.sample): (NUMPY, "random_sample"),
    id(secrets.randbelow): (_SYSTEM, "randrange"),
    id(secrets.token_bytes): (_SYSTEM, "randbytes"),
    id(os.urandom): (_SYSTEM, "randbytes"),
}
MODULES = (np.random, np.random.mtrand, random, secrets)
_PARTS = [os.urandom, *(value for module in MODULES for name, value in vars(module).items() if name[0] != "_")]
_STAND_INS = {id(value): (value, stand_in) for value in _PARTS if (stand_in := _stand_in(value)) is not None}
_PUT = frozenset(id(stand_in) for _, stand_in in _STAND_INS.values())
