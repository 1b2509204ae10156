"""Calls that toss a coin: without a bound on their rounds, but their draws decide only which of two values they return.

`k = 1; while rng.random() < gamma / k: k += 1; return k % 2 == 1` never comes back to a state that it was in, so it has
infinitely many paths. But what it drew is forgotten when it returns: all that is left is True or False, with one
probability each, whenever it is called with the same arguments. So its ways are followed as long as they are likelier
than 2^-170; what they return is one fork, and one of the ways to each value stands for all.

What the rest does is not seen. It changes a probability by no more than 2^-150, if what the call returns is always a
truth value and it leaves nothing behind: `only_tosses` reads that from its text.
"""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from hashlib import sha256
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from veridp.errors import NotExplorable
from veridp.kernel.decimals import Written
from veridp.kernel.distributions import Number, exact
from veridp.kernel.expressions import Affine, Condition
from veridp.kernel.flow.retries import ends_of, rational
from veridp.kernel.generator import StandInGenerator
from veridp.kernel.handmade.coin_chance import tosses_exponentially
from veridp.kernel.handmade.coin_text import CoinText, is_source, may_catch
from veridp.kernel.handmade.quadratic import quadratic
from veridp.kernel.noise import Geometric
from veridp.kernel.output import leaf_key
from veridp.kernel.path import Fork, Option, Path, Step
from veridp.kernel.site import is_users_code
from veridp.kernel.state.fingerprint import Fingerprint
from veridp.kernel.symbols import Noise, drawn_in
from veridp.kernel.weights import Weight
from veridp.mechanism.randomness import adopted_sources

MAX_WAYS = 1_000  # through one call
LEAST_LOG_CHANCE = -170.0  # to the base 2: ways that are less likely are not followed to their end
LEAST_CHANCE = Fraction(1, 2**40)  # of a value: against it, what is not followed must be nothing
CHANCE_ROUNDING = 1e-12  # relative
MAX_SAMPLES = 100  # whole numbers of which one is to be looked at
MAX_SAMPLE = 20  # e^-20 is likely enough for a coin
MAX_DEPTH = 4  # of objects within objects that a call is given

CoinKey = tuple[object, ...]  # tells a call and what it is given from others
PLAIN = (bool, int, float, str, bytes, type(None), Fraction, Written)
MODULES = (math, np)  # whose functions are what they are, besides sources of randomness
HEAP_TYPE = 1 << 9  # the flag of a class that is written in Python, or made like one


class _Bare:
    """A class whose objects hold their attributes and nothing else, for its size."""


@dataclass(frozen=True, eq=False)
class LoopCoin:
    """What a call may return, how likely, and one way through it to each of these values."""

    key: CoinKey
    values: tuple[object, ...]  # as leaf_key has them; True first, where it is given an open number
    options: tuple[Option, ...]
    scripts: tuple[tuple[Step, ...], ...]
    open_key: CoinKey = ()  # for whatever number it is given in place of an open one


@dataclass(frozen=True, eq=False, kw_only=True)
class Toss(Fork):
    """A fork at which a call returned one value of several."""

    coin: LoopCoin


@dataclass(frozen=True)
class LateFailure:
    """A toss of a path, by its place among the steps, that raises instead."""

    place: int
    error: type[Exception]


@dataclass(frozen=True)
class OpenNumber:
    """A parameter of a call that depends on whole noise, and what it is where this noise is `at`."""

    name: str
    value: Affine
    noise: Noise
    at: int

    @property
    def sample(self) -> Fraction:
        return quadratic(self.value, self.noise).at(self.at)  # type: ignore[union-attr]

    @classmethod
    def of(cls, frame: FrameType, conditions: Sequence[Condition]) -> OpenNumber | None:
        """The only parameter of the call that depends on noise, at a whole number that the conditions allow."""
        code, known = frame.f_code, frame.f_locals
        given = [name for name in code.co_varnames[: code.co_argcount] if type(known.get(name)) is Affine]
        if len(given) != 1:
            return None
        value = known[given[0]]
        noise, *others = set(drawn_in(value.terms))
        if others or not isinstance(noise, Noise) or not isinstance(noise.distribution, Geometric):
            return None
        polynomial = quadratic(value, noise)
        asked = [c for c in conditions if set(c.slack.terms) == {noise}]
        low, high = ends_of(noise, asked)
        first = max(1, math.ceil(low or 1))
        last = first + MAX_SAMPLES if high is None else math.floor(high)
        if polynomial is None:
            return None
        fits = (n for n in range(first, min(last, first + MAX_SAMPLES) + 1) if 0 < polynomial.at(n) <= MAX_SAMPLE)
        at = next(fits, None)
        return None if at is None else cls(given[0], value, noise, at)


@dataclass(frozen=True, eq=False)
class CoinCall:
    """A call that may be a coin: what it is given, and the function with what it can name."""

    key: CoinKey
    code: CodeType
    names: dict[str, Any]  # its parameters, and variables of functions around it
    globals: dict[str, Any]
    adopted: tuple[Any, ...] = ()  # generators that the function keeps, which draw from the stand-in while it runs
    open: OpenNumber | None = None  # where it is given one: the sample is among the names

    @property
    def open_key(self) -> CoinKey:
        """What tells the call from others, whatever the open number is."""
        return () if self.open is None else self._key(self.code, {**self.names, self.open.name: None}, self.open)

    @classmethod
    def of(cls, frame: FrameType, number: OpenNumber | None = None) -> CoinCall | None:
        """The call that begins here; None where it is given more than plain values and sources of randomness."""
        code = frame.f_code
        count = code.co_argcount + code.co_kwonlyargcount
        stars = code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
        if stars or frame.f_back is None or not is_users_code(frame.f_back.f_code.co_filename):
            return None  # the mechanism itself has its paths
        if frame.f_globals is not frame.f_back.f_globals and not _is_of_module(frame.f_globals):
            return None  # names that were made in a run
        known = frame.f_locals
        names = {name: known[name] for name in (*code.co_varnames[:count], *code.co_freevars) if name in known}
        if number is not None:
            names[number.name] = number.sample
        try:
            key = cls._key(code, names, number)
        except NotExplorable:
            return None
        return cls(key, code, names, frame.f_globals, adopted_sources(), number)

    @staticmethod
    def _key(code: CodeType, names: dict[str, Any], number: OpenNumber | None) -> CoinKey:
        opened = () if number is None else (("open", number.name),)
        return (_name(code), *((name, _told(value)) for name, value in names.items()), *opened)

    @property
    def text(self) -> CoinText:
        return CoinText(self.code, self.names, self.globals, self.adopted)

    def only_tosses(self) -> bool:
        """Whether its text is understood."""
        try:
            return self.text.returns_truth()
        except NotExplorable:
            return False

    def changed(self) -> bool:
        """Whether what it is given is no longer what it was."""
        try:
            return self.key != self._key(self.code, self.names, self.open)
        except NotExplorable:
            return True


@lru_cache(maxsize=4096)
def _name(code: CodeType) -> str:
    """What tells code from other code, also of the same line."""
    constants = [_name(part) if isinstance(part, CodeType) else repr(part) for part in code.co_consts]
    text = repr((code.co_code, code.co_names, code.co_varnames, code.co_freevars, constants))
    return f"{code.co_filename}:{code.co_firstlineno}:{code.co_qualname}:{sha256(text.encode()).hexdigest()}"


def _told(value: Any, depth: int = 0) -> object:
    """What tells the value from others; NotExplorable where it could hold data, noise or anything that changes."""
    kind = type(value)
    if is_source(value) and kind is not ModuleType and getattr(value, "fixed", None) is None:
        return "rng" if issubclass(kind, StandInGenerator) else kind.__name__
    if kind in PLAIN or (issubclass(kind, np.number | np.bool_) and kind.__module__ == "numpy"):
        return kind.__name__, repr(value)
    if depth < MAX_DEPTH:
        deeper = depth + 1
        if kind is tuple:
            return tuple(_told(entry, deeper) for entry in value)
        if kind is FunctionType and _is_of_module(value.__globals__) and not vars(value):
            cells = [cell.cell_contents for cell in value.__closure__ or ()]
            given = (*cells, *(value.__defaults__ or ()), *sorted((value.__kwdefaults__ or {}).items()))
            return _name(value.__code__), *(_told(each, deeper) for each in given)
        if kind is MethodType:
            return _told(value.__func__, deeper), _told(value.__self__, deeper)
        if kind is BuiltinFunctionType and (value.__self__ is None or type(value.__self__) is ModuleType):
            return kind.__name__, value.__module__, value.__name__
        if kind is ModuleType and (is_source(value) or any(value is each for each in MODULES)):
            return kind.__name__, value.__name__
        if kind is type and _is_of_its_module(value):
            return kind.__name__, value.__module__, value.__qualname__
        if _holds_attributes_alone(kind) and _is_of_its_module(kind):
            attributes = sorted(object.__getattribute__(value, "__dict__").items())
            return kind.__module__, kind.__qualname__, *((name, _told(part, deeper)) for name, part in attributes)
    raise NotExplorable(f"a {kind.__name__} may change")


def _is_of_module(space: dict[str, Any]) -> bool:
    """Whether these globals are those of a module, of which the state of a mechanism tells."""
    return vars(sys.modules.get(space.get("__name__", ""), ModuleType(""))) is space


def _is_of_its_module(kind: type) -> bool:
    """Whether the class is found by its name, and so was not made in a run with values of that run."""
    return getattr(sys.modules.get(kind.__module__), kind.__qualname__, None) is kind


def _holds_attributes_alone(kind: type) -> bool:
    """Whether an object of the class is told by its attributes: it is written in Python, and has no slots."""
    bases = kind.__mro__[:-1]
    plain = kind.__basicsize__ == _Bare.__basicsize__ and not kind.__itemsize__
    return bool(bases) and plain and all(b.__flags__ & HEAP_TYPE and "__slots__" not in vars(b) for b in bases)


def way_chance(steps: Sequence[Step], drawn: int) -> Fraction:
    """The probability of these steps; NotExplorable where it depends on more than what they draw themselves.

    `drawn` is how many draws came before.
    """
    way = Path(tuple(steps), None)
    used = [symbol for condition in way.conditions for symbol in drawn_in(condition.slack.terms)]
    if isinstance(way.weight, Weight) or any(not isinstance(s, Noise) or s.index < drawn for s in used):
        raise NotExplorable("how a call ends depends on data, or on what was drawn before it")
    return Fraction(way.weight) * rational(way.conditions)


class Tosses:
    """What the ways through a call returned so far."""

    def __init__(self, call: CoinCall, callers: Iterable[FunctionType]) -> None:
        self.call, self.callers = call, callers
        self.chances: dict[object, Fraction] = {}
        self.truths: dict[object, bool] = {}
        self.best: dict[object, tuple[Fraction, Sequence[Step]]] = {}
        self.ways = 0

    def add(self, value: object, steps: Sequence[Step], drawn: int) -> None:
        """Add a way that returned; NotExplorable where the call is no coin."""
        key = leaf_key(value)
        self.truths[key] = bool(value)
        chance = way_chance(steps, drawn)
        self.chances[key] = self.chances.get(key, Fraction(0)) + chance
        if key not in self.best or chance > self.best[key][0]:
            self.best[key] = chance, steps
        if len(self.chances) > 2 or (not isinstance(value, bool | np.bool_) and value not in (0, 1)):
            raise NotExplorable("a call returns more than one of two values")

    def count(self) -> None:
        self.ways += 1
        if self.ways > MAX_WAYS:
            raise NotExplorable("a call has too many ways")

    def coin(self) -> LoopCoin:
        """The coin; NotExplorable where what was not followed counts."""
        total = sum(self.chances.values(), start=Fraction(0))
        unseen = 1 - total
        if not 0 <= unseen * 2**150 <= 1 or min(self.chances.values(), default=Fraction(0)) < LEAST_CHANCE:
            raise NotExplorable("too much of what a call does is not seen")
        call = self.call
        if unseen and (not call.only_tosses() or may_catch(self.callers)):
            raise NotExplorable("a call may do something else in very rare cases than to toss a coin")
        if call.open is not None and not self._is_exponential(call.open):
            raise NotExplorable("it is not known how likely a call returns True, whatever number it is given")
        keys = list(self.chances) if call.open is None else sorted(self.chances, key=lambda key: not self.truths[key])
        options = tuple(Option((), exact(self.chances[key] / total), rounded=unseen > 0) for key in keys)
        scripts = tuple(tuple(self.best[key][1]) for key in keys)
        return LoopCoin(call.key, tuple(keys), options, scripts, call.open_key)

    def _is_exponential(self, number: OpenNumber) -> bool:
        """Whether True has probability e^-γ: for every γ, as its text says, and for that of the runs."""
        call = self.call
        if sorted(self.truths.values()) != [False, True] or may_catch(self.callers):
            return False
        seen = next(chance for key, chance in self.chances.items() if self.truths[key])
        return (
            math.isclose(float(seen), math.exp(-float(number.sample)), rel_tol=CHANCE_ROUNDING)
            and call.only_tosses()
            and tosses_exponentially(call.text, call.names, number.name)
        )


def is_unlikely(steps: Sequence[Step], drawn: int) -> bool:
    """Whether a way that began with these steps is not worth to be followed."""
    return log2(way_chance(steps, drawn)) < LEAST_LOG_CHANCE


def log2(chance: Number) -> float:
    """The logarithm, also where floats do not hold the number itself."""
    chance = Fraction(chance)
    return math.log2(chance.numerator) - math.log2(chance.denominator) if chance else -math.inf


@dataclass(frozen=True, eq=False)
class CoinTrial:
    """A call that may be a coin, and where a run meets it."""

    call: CoinCall
    steps: tuple[Step, ...]  # what led there
    state: Fingerprint  # what else the mechanism could reach then


class CoinBook:
    """What is known of calls that may be coins, whatever the data are: what they are given tells them apart."""

    def __init__(self, state: Fingerprint) -> None:
        self.state = state  # what the mechanism could reach before it ran
        self.known: dict[CoinKey, tuple[LoopCoin, Fingerprint] | None] = {}  # None for those that are none
        self.trials: list[CoinTrial] = []  # those that are under way, the innermost last
        self.counting: dict[str, Any] = {}  # what an earlier listing learned of loops that count
        self.chances: dict[Any, Number] = {}
        self.replayed = False  # whether paths are replayed: what a run does is compared with them, not its state

    @classmethod
    def of(cls, coins: Iterable[LoopCoin]) -> CoinBook:
        """The book of the coins of paths that are replayed."""
        book = cls(Fingerprint())
        book.known = {key: (coin, Fingerprint()) for coin in coins for key in (coin.key, coin.open_key) if key}
        book.replayed = True
        return book

    def is_tried(self, key: CoinKey) -> bool:
        return any(trial.call.key == key for trial in self.trials)
