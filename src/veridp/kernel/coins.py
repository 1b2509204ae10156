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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from hashlib import sha256
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from veridp.errors import NotExplorable
from veridp.kernel.coin_text import is_source, may_catch, only_tosses
from veridp.kernel.decimals import Written
from veridp.kernel.distributions import Number, exact
from veridp.kernel.fingerprint import Fingerprint
from veridp.kernel.generator import StandInGenerator
from veridp.kernel.output import leaf_key
from veridp.kernel.path import Fork, Option, Path, Step
from veridp.kernel.retries import rational
from veridp.kernel.site import is_users_code
from veridp.kernel.symbols import Noise, drawn_in
from veridp.kernel.weights import Weight

MAX_WAYS = 1_000  # through one call
LEAST_LOG_CHANCE = -170.0  # to the base 2: ways that are less likely are not followed to their end
LEAST_CHANCE = Fraction(1, 2**40)  # of a value: against it, what is not followed must be nothing
MAX_DEPTH = 4  # of objects within objects that a call is given

CoinKey = tuple[object, ...]  # tells a call and what it is given from others
PLAIN = (bool, int, float, str, bytes, type(None), Fraction, Written)
HEAP_TYPE = 1 << 9  # the flag of a class that is written in Python, or made like one


@dataclass(frozen=True, eq=False)
class LoopCoin:
    """What a call may return, how likely, and one way through it to each of these values."""

    key: CoinKey
    values: tuple[object, ...]  # as leaf_key has them
    options: tuple[Option, ...]
    scripts: tuple[tuple[Step, ...], ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class Toss(Fork):
    """A fork at which a call returned one value of several."""

    coin: LoopCoin


@dataclass(frozen=True)
class LateFailure:
    """A toss of a path, by its place among the steps, that raises instead."""

    place: int
    error: type[Exception]


@dataclass(frozen=True, eq=False)
class CoinCall:
    """A call that may be a coin: what it is given, and the function with what it can name."""

    key: CoinKey
    code: CodeType
    names: dict[str, Any]  # its parameters, and variables of functions around it
    globals: dict[str, Any]

    @classmethod
    def of(cls, frame: FrameType) -> CoinCall | None:
        """The call that begins here; None where it is given more than plain values and sources of randomness."""
        code = frame.f_code
        number = code.co_argcount + code.co_kwonlyargcount
        stars = code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
        if stars or frame.f_back is None or not is_users_code(frame.f_back.f_code.co_filename):
            return None  # the mechanism itself has its paths
        known = frame.f_locals
        names = {name: known[name] for name in (*code.co_varnames[:number], *code.co_freevars) if name in known}
        try:
            key = (_name(code), *((name, _told(value)) for name, value in names.items()))
        except NotExplorable:
            return None
        return cls(key, code, names, frame.f_globals)

    def changed(self) -> bool:
        """Whether what it is given is no longer what it was."""
        try:
            return self.key != (_name(self.code), *((name, _told(value)) for name, value in self.names.items()))
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
    if kind in PLAIN or issubclass(kind, np.number | np.bool_):
        return kind.__name__, repr(value)
    if depth < MAX_DEPTH:
        deeper = depth + 1
        if kind is tuple:
            return tuple(_told(entry, deeper) for entry in value)
        if kind is FunctionType:
            cells = [cell.cell_contents for cell in value.__closure__ or ()]
            given = (*cells, *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values())
            return _name(value.__code__), *(_told(each, deeper) for each in given)
        if kind is MethodType:
            return _told(value.__func__, deeper), _told(value.__self__, deeper)
        if kind in (BuiltinFunctionType, ModuleType, type):
            return kind.__name__, getattr(value, "__module__", ""), value.__name__
        bases = kind.__mro__[:-1]
        if bases and all(b.__flags__ & HEAP_TYPE and "__slots__" not in vars(b) for b in bases):
            return kind.__qualname__, *((name, _told(part, deeper)) for name, part in sorted(vars(value).items()))
    raise NotExplorable(f"a {kind.__name__} may change")


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
        self.best: dict[object, tuple[Fraction, Sequence[Step]]] = {}
        self.ways = 0

    def add(self, value: object, steps: Sequence[Step], drawn: int) -> None:
        """Add a way that returned; NotExplorable where the call is no coin."""
        key = leaf_key(value)
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
        if unseen and (not only_tosses(call.code, call.names, call.globals) or may_catch(self.callers)):
            raise NotExplorable("a call may do something else in very rare cases than to toss a coin")
        options = tuple(Option((), exact(chance / total), rounded=unseen > 0) for chance in self.chances.values())
        scripts = tuple(tuple(self.best[key][1]) for key in self.chances)
        return LoopCoin(self.call.key, tuple(self.chances), options, scripts)


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
        book.known = {coin.key: (coin, Fingerprint()) for coin in coins}
        book.replayed = True
        return book

    def is_tried(self, key: CoinKey) -> bool:
        return any(trial.call.key == key for trial in self.trials)
