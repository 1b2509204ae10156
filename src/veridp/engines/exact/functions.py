"""Outputs that are functions of noise, read as the numbers they are computed from.

A function that rises everywhere renames the outputs: the distribution of exp(x) is that of x. So the loss is computed
for x, and events are told in terms of exp(x). A step function of one draw makes integer noise of it, and so does a text
in which the draw is written to some decimals. A product or quotient of two numbers, one of which is released as well,
tells the other. Other functions have no exact loss here.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from veridp.engines.exact.event import ExactEvent, LinearEntry
from veridp.engines.exact.released_draws import Released, given_released
from veridp.engines.exact.renaming import (
    ANYTHING,
    IDENTITY,
    UNREAD,
    FollowingRenaming,
    Readings,
    Renaming,
    RisingRenaming,
    following,
    guards_of,
    has_no_value,
    written_form,
)
from veridp.errors import NotAffine, NotExact
from veridp.kernel.distributions import Array, Distribution, IntegerNoise, Number, Price, exact
from veridp.kernel.expressions import Affine, Condition, Select
from veridp.kernel.flow.retries import ends_of
from veridp.kernel.functions import RECIPROCAL, WRITTEN
from veridp.kernel.output import leaf_key, leaf_names
from veridp.kernel.path import Fork, Option, Path, entries_of, map_leaves, outline_of, symbols_of
from veridp.kernel.site import Site
from veridp.kernel.slivers import Sliver
from veridp.kernel.stand_ins.text import NoisyText
from veridp.kernel.symbols import Derived, Noise, PureFunction, Relation, Symbol

HERE = Site("<exact>", 0)  # of a fork that is not in the code
MAX_KEPT_PATHS = 10_000  # without functions, before one with some
SYMBOLIC = Affine | Condition | Select | NoisyText  # leaves that are no constants


@dataclass
class FunctionReader:
    """Reads paths, and keeps by which function each entry of the output is renamed."""

    readings: Readings = field(default_factory=Readings)
    plain: list[Path] | None = field(default_factory=list)  # paths without functions, until there is one with some
    unread: NotExact | None = None  # why outputs are taken for one, where some are
    read_any: bool = False
    many: bool = False  # whether there were too many of them to keep
    given: Released = ()  # the released draws of which only some values are tried
    slivers: list[Sliver] = field(default_factory=list)  # branches that were left out, as rare as rounding errors

    @property
    def renames(self) -> bool:
        """Whether some entry of the output is read as another number."""
        return bool(self.readings.renamings) or self.takes_together

    @property
    def takes_together(self) -> bool:
        """Whether outputs are taken for one, so that the loss is a lower bound."""
        return self.readings.leaves_unread or bool(self.given)

    def joined(self, other: FunctionReader) -> FunctionReader:
        """What the readers of two inputs know together, without paths.

        NotExact where the two read the same outputs in different ways, or all outputs were taken for one.
        """
        slivers = self.slivers + other.slivers
        found = FunctionReader(given=self.given, read_any=self.read_any or other.read_any, slivers=slivers)
        if self.given != other.given:
            raise NotExact("draws of a large range are released in another way, or not at all, on one of the inputs")
        if self.plain is not None and other.plain is not None:
            return found
        for each in (self, other):
            each._check_kept()
            found.unread, found.plain = found.unread or each.unread, None
            for path in each.plain or ():
                found._note(path)
            found.readings.take(each.readings)
        if found.unread is not None and not found.read_any:
            raise found.unread
        return found

    def read(self, paths: Iterable[Path]) -> Iterator[Path]:
        """The paths without functions; NotExact, or NotAffine where it is still undecided, where there is no way."""
        known, self.given = given_released(iter(paths))
        for path in known:
            if has_functions(path):
                yield from map(self._read, _by_signs(path))
                continue
            self.read_any = True
            if self.plain is None:
                self._note(path)
            elif len(self.plain) < MAX_KEPT_PATHS:
                self.plain.append(path)
            else:
                self.many = True
            yield path

    def _read(self, path: Path) -> Path:
        if any(condition.slack.functions for condition in path.conditions):
            raise NotExact("the probability that a function of several noisy numbers decides is not computed exactly")
        places = outline_of(path.output).places
        entries = dict(zip(places, entries_of(path.output), strict=True))
        names = leaf_names(outline_of(path.output).tree)
        released = _released(entries)
        read: dict[int, Affine] = {}
        renamed: dict[int, Renaming] = {}
        steps: dict[Symbol, Noise] = {}
        for place, leaf in entries.items():
            if isinstance(leaf, Condition | Select):
                if _functions_within(leaf):
                    raise NotAffine("a function of noise is still undecided in the output")
            elif isinstance(leaf, NoisyText):
                read[id(leaf)], renamed[place] = _text(leaf, path, steps)
            elif isinstance(leaf, Affine) and leaf.functions:
                try:
                    read[id(leaf)], renaming = _entry(leaf, path, steps, released, names)
                except NotExact as reason:
                    return self._together(path, reason)
                if renaming is not None:
                    renamed[place] = renaming
        self.read_any = True
        self._note(path, renamed=renamed, read=read)
        asked = [_on_steps(condition, steps) for condition in path.conditions]
        kept = math.fsum(noise.distribution.log_kept for noise in steps.values())  # type: ignore[attr-defined]
        weight = path.weight if kept == 0 else exact(Fraction(path.weight) * Fraction(math.exp(kept)))
        option = Option(tuple(condition for condition in asked if condition is not None), weight, rounded=kept != 0)
        output = map_leaves(lambda leaf: read.get(id(leaf), leaf), path.output)
        return Path((Fork((option,), 0, HERE),), output)

    def _together(self, path: Path, reason: NotExact) -> Path:
        """The path with all its outputs taken for one; NotExact where another path may give one of them.

        Its first entry that is no constant takes no value with positive probability. So no path gives these outputs
        that has a constant there. To take outputs for one is a function of them, which costs no more than they do.
        """
        entries = entries_of(path.output)
        first = next(k for k, leaf in enumerate(entries) if isinstance(leaf, SYMBOLIC))
        if not isinstance(leaf := entries[first], Affine) or not has_no_value(leaf):
            raise reason
        self.unread = self.unread or reason
        self._note(path, first)
        told = [*entries[:first], UNREAD, *itertools.repeat(ANYTHING, len(entries) - first - 1)]
        numbers, again = itertools.count(), itertools.count()
        order = entries_of(map_leaves(lambda _: next(numbers), path.output))  # entries of a dict are sorted
        places = dict(zip(order, told, strict=True))
        output = map_leaves(lambda _: places[next(again)], path.output)
        return Path((Fork((Option(path.conditions, path.weight),), 0, HERE),), output)

    def _note(
        self,
        path: Path,
        unread: int | None = None,
        renamed: Mapping[int, Renaming] | None = None,
        read: Mapping[int, Affine] | None = None,
    ) -> None:
        """Keep how the entries of the path are read, up to one that is not; and those of earlier paths first."""
        earlier, self.plain = self.plain, None
        self._check_kept()
        for other in earlier or ():
            self._note(other)
        outline = outline_of(path.output)
        entries = dict(zip(outline.places, entries_of(path.output), strict=True))
        released = {p: entry for p, entry in _released(entries).items() if p not in (renamed or {})}
        guards = guards_of(path.conditions, released)
        for number, (place, leaf) in enumerate(entries.items()):
            if number == unread:
                self.readings.note(outline, place, UNREAD, True, guards)
                return
            symbol = (read or {}).get(id(leaf), leaf)
            if not isinstance(symbol, Condition | Select):
                symbolic = isinstance(symbol, Affine)
                how = (renamed or {}).get(place) if symbolic else leaf_key(leaf)
                self.readings.note(outline, place, how, symbolic and symbol.continuous, guards)

    def _check_kept(self) -> None:
        if self.many:
            raise NotExact(
                f"a function is released beside {MAX_KEPT_PATHS} paths without one, too many to compare with"
            )

    def shown(self, event: ExactEvent) -> ExactEvent:
        """The event in terms of the outputs themselves."""
        return self.readings.shown(event)


def _released(entries: Mapping[int, Any]) -> dict[int, Affine]:
    """The entries that are released as they are."""
    return {place: leaf for place, leaf in entries.items() if isinstance(leaf, Affine) and not leaf.functions}


def _entry(
    leaf: Affine, path: Path, steps: dict[Symbol, Noise], released: Mapping[int, Affine], names: Sequence[str]
) -> tuple[Affine, Renaming | None]:
    """What is read in place of an entry, and by which function it was computed from that: None for itself."""
    if len(leaf.terms) > 1 or len(leaf.functions[0].arguments) > 1:
        for argument, told in following(leaf, released, names) if len(leaf.terms) == 1 else ():
            return argument, told
        raise NotExact(f"the released {leaf.text()} is a function of several numbers, which has no exact loss here")
    (function,), (factor,) = leaf.functions, leaf.terms.values()
    argument = function.expressions[0]
    if function.function.whole:
        return _in_whole_steps(_quantised(function.function, argument, leaf, path, steps), factor, leaf.constant)
    if function.function is RECIPROCAL and not argument.functions:
        return argument, FollowingRenaming("k / x", factor, leaf.constant, LinearEntry((), ()), 1)
    if not function.function.injective or function.function.at_least is None:
        raise NotExact(f"{leaf.text()} is not a rising function of a noisy number and has no exact loss here")
    if argument.functions:
        raise NotExact(f"{leaf.text()} is a function of a function, which has no exact loss here")
    return argument, RisingRenaming(function.function, factor, leaf.constant)


def _in_whole_steps(level: Affine, step: Number, constant: Number) -> tuple[Affine, Renaming | None]:
    if Fraction(step).denominator == 1:
        return level * step + constant, None
    return level, RisingRenaming(IDENTITY, step, constant)


def _text(leaf: NoisyText, path: Path, steps: dict[Symbol, Noise]) -> tuple[Affine, Renaming]:
    """The number that is written in a text; of several, the first."""
    written, renaming, decimals = written_form(leaf.parts)
    number = written.number
    if number.functions:
        raise NotExact(f"the text {leaf.text()} has a function of noise in it, and no exact loss here")
    if decimals is None:
        return number, renaming
    return _quantised(WRITTEN, number * 10**decimals, leaf, path, steps), renaming


def _by_signs(path: Path) -> Iterator[Path]:
    """The path, taken apart where it releases a function that does not see the sign of its argument."""
    for leaf in entries_of(path.output):
        if not isinstance(leaf, Affine) or not len(leaf.terms) == len(leaf.functions) == 1:
            continue
        function = leaf.functions[0]
        if function.function.from_zero is None:
            continue
        (argument,), (factor,) = function.expressions, leaf.terms.values()
        for size, relation in ((argument, Relation.AT_LEAST), (-argument, Relation.ABOVE)):
            part = Derived(function.function.from_zero, (size,))
            entry = Affine(leaf.constant, {part: factor}, leaf.kind)
            fork = Fork((Option((Condition(size, relation),)),), 0, HERE)
            yield from _by_signs(Path((*path.steps, fork), _with_leaf(path.output, leaf, entry)))
        return
    yield path


def _with_leaf(output: Any, leaf: Affine, other: Affine) -> Any:
    return map_leaves(lambda each: other if each is leaf else each, output)


def has_functions(path: Path) -> bool:
    """Whether it decides or releases anything by a function that is not affine."""
    return any(condition.slack.functions for condition in path.conditions) or any(
        _functions_within(leaf) for leaf in entries_of(path.output)
    )


def _functions_within(leaf: Any) -> bool:
    if isinstance(leaf, NoisyText):
        return True
    if isinstance(leaf, Affine):
        return bool(leaf.functions)
    if isinstance(leaf, Condition):
        return bool(leaf.slack.functions)
    return isinstance(leaf, Select) and any(map(_functions_within, (leaf.condition, leaf.then, leaf.other)))


# -------------------------------------------------------------------------------------------------- step functions


def _quantised(
    function: PureFunction, argument: Affine, leaf: Affine | NoisyText, path: Path, steps: dict[Symbol, Noise]
) -> Affine:
    """The step function as integer noise, where its argument is one draw that no other entry than this depends on."""
    if argument.functions or len(argument.terms) != 1 or function.at_least is None:
        raise NotExact(f"{leaf.text()} is a step function of more than one draw, and has no exact loss here")
    ((noise, factor),) = argument.terms.items()
    others = [entry for entry in entries_of(path.output) if entry is not leaf]
    shared = any(noise == symbol for entry in others for symbol in symbols_of(entry))
    if not isinstance(noise, Noise) or noise.distribution.integer or shared:
        raise NotExact(f"the noise of {leaf.text()} is released elsewhere too, so that it has no exact loss here")
    law = Quantised(noise.distribution, factor, argument.constant, function)
    asked = [condition for condition in path.conditions if list(condition.slack.terms) == [noise]]
    if any(_on_edge(law, condition) is None for condition in asked):
        law = replace(law, ends=ends_of(noise, asked))
    steps[noise] = Noise(noise.index, law, noise.site)
    return Affine(0, {steps[noise]: 1}, "i")


def _on_steps(condition: Condition, steps: Mapping[Symbol, Noise]) -> Condition | None:
    """The condition, in terms of the integers that a step function made of its draw; None where these fulfil it."""
    slack = condition.slack
    touched = [symbol for symbol in slack.terms if symbol in steps]
    if not touched:
        return condition
    if len(slack.terms) == 1:
        ((noise, slope),) = slack.terms.items()
        law: Any = steps[noise].distribution
        if law.ends != (None, None):
            return None
        first = _on_edge(law, condition)
        reached = Affine(-first, {steps[noise]: 1}, "i")  # type: ignore[operator]
        return Condition(reached if slope * law.factor > 0 else -reached - 1, Relation.AT_LEAST)
    raise NotExact("the noise of a rounded output decides between outputs in a way that its rounding does not show")


def _on_edge(law: Quantised, condition: Condition) -> int | None:
    """The level that the step function reaches where the condition on its noise begins to hold, or ends to."""
    (slope,) = condition.slack.terms.values()
    return law.level_from(law.offset - Fraction(condition.slack.constant) / slope * law.factor)


@dataclass(frozen=True)
class Quantised(IntegerNoise):
    """A step function of offset + factor · noise: its probabilities are those of the noise between two edges.

    Where there are `ends`, given that the noise lies between them.
    """

    base: Distribution
    factor: Number
    offset: Number
    function: PureFunction
    ends: tuple[Fraction | None, Fraction | None] = (None, None)

    @classmethod
    def of(cls, rng: Any, *parameters: Any) -> Distribution:
        raise TypeError("no generator draws it")

    @property
    def parameters(self) -> Mapping[str, Any]:  # type: ignore[override]
        return {"factor": self.factor, "offset": self.offset, **self.base.parameters}

    @property
    def unit(self) -> float:
        return abs(float(self.factor)) * self.base.unit + 1.0

    @property
    def width(self) -> float:
        return abs(float(self.factor)) * self.base.width + 1.0

    @property
    def middle(self) -> float:  # type: ignore[override]
        return float(self.function.compute(float(self.offset) + float(self.factor) * self.base.middle))

    @property
    def support(self) -> tuple[float, float]:
        ends = sorted(float(self.offset) + float(self.factor) * end for end in self.base.support)
        return tuple(float(self.function.compute(end)) if math.isfinite(end) else end for end in ends)  # type: ignore[return-value]

    @property
    def price(self) -> Price:
        return Price(None, None, "a step function of noise is not shifted")

    def _edges(self, levels: Array) -> Array:
        """Where the noise begins to bring the function to these levels, or ends to.

        How far the edge of a step is from its level depends on the sign of the level alone.
        """
        shifts = [float(self._edge(level) - level) for level in (-1, 0, 1)]
        shift = np.select([np.asarray(levels) < 0, np.asarray(levels) == 0], shifts[:2], shifts[2])
        return np.asarray((levels + shift - float(self.offset)) / float(self.factor))

    def level_from(self, bound: Fraction) -> int | None:
        """The level that the function reaches at this bound; None where it is on no edge."""
        near = round(float(self.function.compute(float(bound))))
        levels = (level for level in (near - 1, near, near + 1) if self._edge(level) == bound)
        return next(levels, None)

    def _edge(self, level: int) -> Fraction | float:
        """Where the function reaches this level."""
        if self.function.at_least is None:
            raise TypeError(f"{self.function.name} is not a step function")
        return self.function.at_least(Fraction(level), False).bound

    def log_above(self, x: Array) -> Array:
        edges = self._edges(np.ceil(np.asarray(x) - 1e-9))
        return self._log_between(edges, math.inf) if self.factor > 0 else self._log_between(-math.inf, edges)

    def log_below(self, x: Array) -> Array:
        edges = self._edges(np.floor(np.asarray(x) + 1e-9) + 1)
        return self._log_between(-math.inf, edges) if self.factor > 0 else self._log_between(edges, math.inf)

    @cached_property
    def log_kept(self) -> float:
        """ln of the probability that the noise lies between its ends."""
        if self.ends == (None, None):
            return 0.0
        return float(self.base.log_between(*(np.array([end]) for end in self._range))[0])

    @property
    def _range(self) -> tuple[float, float]:
        low, high = self.ends
        return -math.inf if low is None else float(low), math.inf if high is None else float(high)

    def _log_between(self, low: Array | float, high: Array | float) -> Array:
        """ln of the probability that the noise lies there, given that it lies between its ends."""
        least, most = self._range
        first, last = np.broadcast_arrays(np.clip(low, least, most), np.clip(high, least, most))
        return self.base.log_between(first, last) - self.log_kept

    def log_density(self, x: Array) -> Array:
        whole = np.rint(x)
        return np.where(np.abs(x - whole) < 1e-9, self.log_between(whole, whole), -np.inf)

    def log_between(self, low: Array, high: Array) -> Array:
        first, last = np.ceil(np.asarray(low) - 1e-9), np.floor(np.asarray(high) + 1e-9)
        ends = self._edges(first), self._edges(last + 1)
        between = self._log_between(*(ends if self.factor > 0 else ends[::-1]))
        return np.where(first <= last, between, -np.inf)

    def mass_in_balls(self, k: int, *parameters: Any) -> Any:
        raise NotExact("a step function of noise is not enclosed in balls; compare without certified=True")

    def above_in_balls(self, k: int, *parameters: Any) -> Any:
        return self.mass_in_balls(k)

    def cut(self, bits: int) -> int:
        return int(self.mass_in_balls(bits))

    def log_transform_below(self, t: float) -> float:
        return math.inf

    def draw(self, rng: np.random.Generator, count: int) -> Any:
        noise = float(self.offset) + float(self.factor) * self.base.draw(rng, count)
        return np.asarray(self.function.compute(noise)).astype(np.int64)
