"""Replay: plain runs of a mechanism, held against the paths that were explored.

A stand-in is not a number, and code can notice. So the function is run as users run it, on plain floats, drawing from
a genuine `numpy.random.Generator`, and must do what the paths say:

- at an interior point of every path (of a stated sample where there are very many),
- on either side of what the paths compare, so close to it that another threshold would show,
- on random draws, ordinary ones and ones from far out in the tails.

At each point the function runs twice: plainly, and with stand-ins that know their values there. Both runs must go
through the same instructions of the user's code, draw from the same distributions, choose by the same probabilities
and end with the same output, and the path must be one that was listed.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from veridp.errors import CutShort, ExplorationDisagrees, MechanismFailed, VeridpError
from veridp.kernel.decimals import Written
from veridp.kernel.distributions import Distribution, Number
from veridp.kernel.explore import Run, Way, follow
from veridp.kernel.expressions import Affine, Condition, Select
from veridp.kernel.feasibility import Inside
from veridp.kernel.output import Raised, leaf_key
from veridp.kernel.path import Fork, Option, Path, Step, leaves, map_leaves, output_text, symbols_of
from veridp.kernel.scripted import Draw, Pick, ScriptedGenerator
from veridp.kernel.site import Trace, traced
from veridp.kernel.state import Watch
from veridp.kernel.symbols import Noise, Relation, Symbol, Unknown
from veridp.mechanism import Mechanism

MAX_PATHS = 1_000  # replayed one by one; of more, every second, fourth, … is
MAX_SIGNATURES = 200_000  # ways through a mechanism that are kept, to see that random runs take one of them
MAX_SIDES = 2  # for each random run: comparisons of one path that are replayed on either side
MAX_EDGES = 500  # boundaries of paths that are replayed from either side
MAX_TRIES = 2  # paths on which a point beside the same boundary is looked for
RUNS = 8  # random runs at each place, and as many with draws from far out
OUTPUT_TOLERANCE = 1e-7  # relative to the terms of a number: what rounding in the user's code may change
UNIT_ROUNDOFF = 2.0**-53  # relative to a number: how far it is from the nearest float, at most
DROWNED = 0.5  # in units of the noise: rounding that is as large changes what the noise hides
CLEAR = 1e-6  # relative to the terms of a slack: nearer to 0 than this, rounding may decide


@dataclass(frozen=True)
class Replayed:
    """What was compared: how many of the paths, by how many plain runs."""

    paths: int
    reached: int
    runs: int

    def __str__(self) -> str:
        reached = f"all {self.paths}" if self.reached == self.paths > 1 else f"{self.reached} of {self.paths}"
        return f"{reached} path{'s' * (self.paths != 1)} replayed by {self.runs} plain run{'s' * (self.runs != 1)}"

    def __add__(self, other: Replayed) -> Replayed:
        return Replayed(self.paths + other.paths, self.reached + other.reached, self.runs + other.runs)


class Listing:
    """The paths of a mechanism on one input, as they are listed: enough of them is kept to replay them."""

    def __init__(self, mechanism: Mechanism, data: Any, defer: bool) -> None:
        self.mechanism, self.data, self.defer = mechanism, data, defer
        self.count = 0
        self.sample: list[Path] = []  # every `stride`-th path
        self.signatures: set[tuple[int, ...]] | None = set()  # None once there are too many
        self._stride = 1

    def watch(self, paths: Iterable[Path]) -> Iterator[Path]:
        """The same paths, looked at as they pass."""
        for path in paths:
            if self.count % self._stride == 0:
                self.sample.append(path)
                if len(self.sample) > 2 * MAX_PATHS:
                    self.sample, self._stride = self.sample[::2], 2 * self._stride
            if self.signatures is not None:
                self.signatures.add(_signature(path))
                if len(self.signatures) > MAX_SIGNATURES:
                    self.signatures = None
            self.count += 1
            yield path

    @classmethod
    def of(cls, mechanism: Mechanism, data: Any, paths: Sequence[Path], defer: bool = False) -> Listing:
        listing = cls(mechanism, data, defer)
        for _ in listing.watch(paths):
            pass
        return listing

    def replay(self, at: Sequence[Any] = (), runs: int = RUNS, seed: int = 0) -> Replayed:
        """Compare plain runs with the paths; ExplorationDisagrees where one contradicts them.

        Where entries of the data are open, plain values for them are chosen inside each path, and `at` names data at
        which random draws are compared too. Agreement is evidence, not proof, that the paths are the function's own:
        code that looks for veridp itself can still hide from it.
        """

        def compared() -> Replayed:
            replayer = _Replayer(self, np.random.default_rng(seed))
            reached = sum([replayer.path(path, MAX_SIDES * runs) for path in chosen])
            for place in [replayer.place_of(each) for each in at] or [replayer.ordinary_place()]:
                replayer.random(place, runs)
            return Replayed(self.count, reached, replayer.runs)

        chosen = self.sample if len(self.sample) <= MAX_PATHS else self.sample[::2]
        watch = Watch(self.mechanism.name, self.mechanism.bound())
        found = compared()
        watch.settle(compared)
        return found


Place = Mapping[Symbol, float]


@dataclass
class _Point:
    """What a run meets: the values of its draws and finite choices, in order, and of what is open."""

    draws: list[float]
    picks: list[int]
    place: Place = field(default_factory=dict)


class _Replayer:
    def __init__(self, listing: Listing, rng: np.random.Generator) -> None:
        self.mechanism, self.data, self.defer = listing.mechanism, listing.data, listing.defer
        floats = {name: float(value) for name, value in self.mechanism.arguments.items() if type(value) is Written}
        self.plain, self.explored = self.mechanism.bind(**floats).bound(), self.mechanism.bound()
        self.listed = listing.signatures
        self.paths = {_signature(path): path for path in listing.sample}
        self.unknowns = _unknowns_in(self.data)
        self.tries: dict[object, int] = {}  # of a point beside a boundary; as many as there may be once one was found
        self.rng, self.runs = rng, 0

    # ------------------------------------------------------------------------------------------------ places

    def ordinary_place(self) -> Place:
        """Values for what is open, within the domain where that is an interval."""
        domain = self.mechanism.domain
        interval = isinstance(domain, tuple) and len(domain) == 2
        low, high = map(float, domain) if interval else (-1.0, 1.0)  # type: ignore[arg-type]
        return {unknown: float(np.round(self.rng.uniform(low, high), 3)) for unknown in self.unknowns}

    def place_of(self, data: Any) -> Place:
        """The values of what is open at these data."""
        numbers = data if isinstance(data, list | tuple) else [data]
        return dict(zip(self.unknowns, map(float, numbers), strict=True)) if self.unknowns else {}

    # ------------------------------------------------------------------------------------------------ points

    def path(self, path: Path, sides: int) -> bool:
        """Compare plain runs inside the path, on either side of what it compared; whether it has an inside."""
        inside = Inside(path, self.ordinary_place(), self.rng)
        picks = [step.taken for step in path.forks if _is_chosen(step.options)]
        values = inside.point()
        if values is None:
            return False
        undecided = self._compare(_point(values, path, picks))
        for condition in undecided[:sides]:
            for side in (condition, condition.negated()):
                for values in (inside.point(side), inside.edge(side)):
                    if values is not None:
                        self._compare(_point(values, path, picks))
        for condition in filter(self._is_new, path.conditions):
            values = inside.edge(condition)
            if values is not None:
                self._compare(_point(values, path, picks))
                self.tries[_boundary(condition)] = MAX_TRIES
        return True

    def _is_new(self, condition: Condition) -> bool:
        """Whether to look for a point beside this boundary, once more."""
        key = _boundary(condition)
        tries = self.tries.get(key, 0)
        if tries >= MAX_TRIES or (not tries and len(self.tries) >= MAX_EDGES):
            return False
        self.tries[key] = tries + 1
        return condition.relation in (Relation.AT_LEAST, Relation.ABOVE)

    def random(self, place: Place, runs: int) -> None:
        """Compare random runs at this place: genuine draws first, then draws from far out."""
        for seed in self.rng.integers(2**63, size=runs).tolist():
            recorded = ScriptedGenerator(np.random.PCG64(seed))
            genuine = self._run_plainly(np.random.Generator(np.random.PCG64(seed)), place)
            again = self._run_plainly(recorded, place)
            point = _Point(recorded.draws, recorded.picks, place)
            if _difference(genuine, again) is not None:
                self._disagree("a subclass of Generator is treated differently", again, genuine, point)
            self._compare(point)
            seen, taken, _ = self._seen(point)
            if _difference(genuine, seen) is not None:
                self._disagree("it notices that it is traced", seen, genuine, point)
            with traced() as trace:
                self._run_plainly(np.random.Generator(np.random.PCG64(seed)), place)
            if not trace.same(taken):
                self._disagree(f"{trace.parting(taken)}: it treats NumPy's generator differently", seen, genuine, point)
        for _ in range(runs):
            wild = ScriptedGenerator(np.random.PCG64(0), _far_draws(self.rng), _any_pick(self.rng))
            self._run_plainly(wild, place)
            self._compare(_Point(wild.draws, wild.picks, place))

    # ----------------------------------------------------------------------------------------------- one run

    def _compare(self, point: _Point) -> list[Condition]:
        """Compare the plain run with that of the stand-ins at this point; returns what the latter left undecided."""
        run, told, expected = self._told(point)
        if run.unclear:
            return []
        seen, taken, asked = self._seen(point)
        self.runs += 1
        what, listed = _difference(told, seen), self.paths.get(run.signature)
        if listed is not None:  # what verdicts rest on, and not only this run again
            if not all(noise in run.values for noise in listed.noises):
                self._disagree("it draws other noise than when it was explored", listed.output, seen, point)
            told = map_leaves(run.value, listed.output)
            what = _difference(told, seen)
        what = what or _other_draw(run.steps, asked)
        if what is None and self.listed is not None and run.signature not in self.listed:
            what = "this way through it was not explored"
        if what is None and not expected.same(taken):  # once more, with caches of the user's warm on both sides
            expected, taken = self._told(point)[2], self._seen(point)[1]
            what = None if expected.same(taken) else f"{expected.parting(taken)}: the plain run goes another way"
        if what is not None:
            self._disagree(what, told, seen, point)
        return run.undecided

    def _told(self, point: _Point) -> tuple[_Told, Any, Trace]:
        """The run of stand-ins that know their values: its output there, and its instructions."""
        run = _Told(point, self.mechanism.name)
        with traced() as trace:
            try:
                path = follow(run, self.mechanism.name, self.explored, self.data, self.defer)
            except MechanismFailed as error:
                return run, Raised.by(error.__cause__ or error), trace
            except CutShort:
                raise
            except VeridpError as error:
                if run.unclear:
                    return run, None, trace
                raise ExplorationDisagrees(f"{error} (met on replay, not when it was explored)") from error
        return run, map_leaves(run.value, path.output), trace

    def _seen(self, point: _Point) -> tuple[Any, Trace, Sequence[Any]]:
        """The plain run: its output, its instructions, and what its draws were to come from."""
        rng = ScriptedGenerator(np.random.PCG64(0), _in_turn(point.draws), _in_turn(point.picks))
        with traced() as trace:
            return self._run_plainly(rng, point.place), trace, rng.asked

    def _run_plainly(self, rng: np.random.Generator, place: Place) -> Any:
        try:
            return map_leaves(lambda leaf: leaf, self.plain(rng, _filled(self.data, place)))
        except (Exception, SystemExit) as error:
            return Raised.by(error)

    def _disagree(self, what: str, told: Any, seen: Any, point: _Point) -> NoReturn:
        draws = ", ".join(f"{value:.6g}" for value in point.draws[:8]) + (", …" if len(point.draws) > 8 else "")
        raise ExplorationDisagrees(
            f"{self.mechanism.name} on {output_text(_filled(self.data, point.place))}, drawing [{draws}], returns "
            f"{output_text(seen)} in a plain run and {output_text(told)} as explored ({what}); its code can tell a "
            f"stand-in from a number, so nothing is concluded from its paths; use an engine that samples"
        )


class _Told(Run):
    """A run of the stand-ins that know their values: every question is answered by these."""

    def __init__(self, point: _Point, name: str) -> None:
        super().__init__(Way(), {})
        self.name = name
        self.draws, self.left = point.draws, list(reversed(point.picks))
        self.values: dict[Symbol, float] = dict(point.place)
        self.unclear = False
        self._compared: list[Condition] = []
        self._asked: set[int] = set()

    def draw(self, distribution: Distribution) -> Affine:
        answer = super().draw(distribution)
        (noise,) = answer.terms
        if isinstance(noise, Noise) and noise.index < len(self.draws):
            self.values[noise] = self.draws[noise.index]
        else:
            self.values[noise] = 0
            self.unclear = True
        return answer

    def compared(self, condition: Condition) -> None:
        self._compared.append(condition)

    def decide(self, condition: Condition) -> bool:
        self._asked.add(id(condition))
        return super().decide(condition)

    @property
    def undecided(self) -> list[Condition]:
        """The comparisons whose truth was never asked for."""
        return [condition for condition in self._compared if id(condition) not in self._asked]

    @property
    def signature(self) -> tuple[int, ...]:
        return tuple(step.taken for step in self.steps if isinstance(step, Fork))

    def choose_way(self, options: Sequence[Option]) -> Sequence[int]:
        if _is_chosen(options):
            return [self.left.pop() if self.left else 0]
        for index, option in enumerate(options):
            if all(map(self._holds, option.conditions)):
                return [index]
            if len(options) == 2 and len(option.conditions) == 1:  # a question: the other answer is its negation
                return [1]
        self.unclear = True
        return [0]

    def _holds(self, condition: Condition) -> bool:
        slack, magnitude = self._evaluated(condition.slack)
        whole = condition.slack.stands_for is int
        if not whole and abs(slack) <= CLEAR * magnitude:
            self.unclear = True
        return bool(condition.relation.holds(slack))

    def _evaluated(self, expression: Affine) -> tuple[float, float]:
        """Its value here, and the size of its terms, to which rounding is relative."""
        try:
            terms = [float(coefficient) * self.values[symbol] for symbol, coefficient in expression.terms.items()]
            terms.append(float(expression.constant))
        except OverflowError:  # beyond floats: a plain run cannot be compared
            self.unclear = True
            return 0.0, math.inf
        return math.fsum(terms), math.fsum(map(abs, terms))

    def value(self, leaf: Any) -> Any:
        """The leaf of an output here: a number with its tolerance, a truth value, or what it is."""
        if isinstance(leaf, Affine):
            value, magnitude = self._evaluated(leaf)
            if math.isfinite(magnitude):
                self._check_rounding(leaf)
            return _Near(value, OUTPUT_TOLERANCE * magnitude)
        if isinstance(leaf, Condition):
            return self._holds(leaf)
        if isinstance(leaf, Select):
            return self.value(leaf.then if self.value(leaf.condition) else leaf.other)
        return leaf

    def _check_rounding(self, released: Affine) -> None:
        """ExplorationDisagrees where floats near the number are so far apart that its noise makes no difference."""
        scales = [abs(float(c)) * s.distribution.unit for s, c in released.terms.items() if isinstance(s, Noise)]
        if not scales or released.stands_for is int:
            return
        data = [float(c) * self.values[s] for s, c in released.terms.items() if not isinstance(s, Noise)]
        size = abs(math.fsum([float(released.constant), *data]))
        if UNIT_ROUNDOFF * size >= DROWNED * max(scales):
            raise ExplorationDisagrees(
                f"the noise of {self.name} is lost to rounding: floats near {size:.3g} are {math.ulp(size):.2g} apart, "
                f"and it has a scale of {max(scales):.3g}; subtract a constant from the data, or "
                f"use an engine that samples"
            )


@dataclass(frozen=True)
class _Near:
    """A number that rounding may have moved by so much."""

    value: float
    tolerance: float

    def __repr__(self) -> str:
        return f"{self.value:.12g}"


def _difference(told: Any, seen: Any) -> str | None:
    """How the output of a plain run differs from what was told; None where it is the same."""
    if isinstance(told, list | tuple) or isinstance(seen, list | tuple):
        if type(told) is not type(seen) or len(told) != len(seen):
            return "another structure"
        return next((found for pair in zip(told, seen, strict=True) if (found := _difference(*pair))), None)
    if isinstance(told, dict) or isinstance(seen, dict):
        if type(told) is not type(seen) or set(map(leaf_key, told)) != set(map(leaf_key, seen)):
            return "other keys"
        return next((found for key in told if (found := _difference(told[key], seen[key]))), None)
    return None if _same_leaf(told, seen) else "another value"


def _same_leaf(told: Any, seen: Any) -> bool:
    if isinstance(told, bool) or isinstance(seen, bool):
        return told is seen
    if isinstance(told, _Near):
        return isinstance(seen, int | float) and abs(seen - told.value) <= told.tolerance + 1e-300
    if isinstance(told, int | float | Number) and isinstance(seen, int | float):
        close = math.isfinite(seen) and abs(float(told) - seen) <= OUTPUT_TOLERANCE * abs(seen)
        return close or (told != told and seen != seen) or told == seen
    return type(told) is type(seen) and bool(told == seen)


def _other_draw(told: Sequence[Step], asked: Sequence[Distribution | Sequence[float]]) -> str | None:
    """Where a plain run asked for other noise, up to rounding, or for other choices than this run did."""
    drawn = [step for step in told if isinstance(step, Noise) or _is_chosen(step.options)]
    for step, law in zip(drawn, asked, strict=False):
        if not _same_law(step, law):
            ours = step.distribution if isinstance(step, Noise) else f"one of {len(step.options)} values"
            theirs = law if isinstance(law, Distribution) else f"one of {len(law)} values"
            other = "chooses with other probabilities" if ours == theirs else f"draws {theirs}, not {ours}"
            return f"the plain run {other}"
    number = f"{len(asked)} draw{'s' * (len(asked) != 1)}"
    return None if len(drawn) == len(asked) else f"the plain run makes {number}, not {len(drawn)}"


def _same_law(told: Step, asked: Distribution | Sequence[float]) -> bool:
    if isinstance(told, Noise):
        if told.distribution == asked:
            return True
        if not isinstance(asked, Distribution) or asked.kind != told.distribution.kind:
            return False
        return all(map(_same_chance, told.distribution.parameters.values(), asked.parameters.values()))
    if isinstance(asked, Distribution) or len(asked) != len(told.options):
        return False
    total = math.fsum(asked)
    return all(_same_chance(option.weight, chance / total) for option, chance in zip(told.options, asked, strict=True))


def _same_chance(told: Number, asked: Number | float) -> bool:
    return math.isclose(told, asked, rel_tol=OUTPUT_TOLERANCE, abs_tol=1e-15)


def _boundary(condition: Condition) -> object:
    return condition.relation, condition.slack.constant, frozenset(condition.slack.terms.items())


def _signature(path: Path) -> tuple[int, ...]:
    return tuple(fork.taken for fork in path.forks)


def _is_chosen(options: Sequence[Option]) -> bool:
    """Whether chance decides at this fork, and not a condition."""
    return not any(option.conditions for option in options)


def _point(values: Mapping[Symbol, float], path: Path, picks: list[int]) -> _Point:
    place: Place = {symbol: value for symbol, value in values.items() if isinstance(symbol, Unknown)}
    return _Point([values[noise] for noise in path.noises], picks, place)


def _unknowns_in(data: Any) -> list[Unknown]:
    """The open values among the data, in the order of the entries."""
    return [symbol for leaf in leaves(data) for symbol in symbols_of(leaf) if isinstance(symbol, Unknown)]


def _filled(data: Any, place: Place) -> Any:
    """The data with plain floats where they were open."""
    if isinstance(data, Affine):
        return float(data.evaluate(place))
    return [_filled(entry, place) for entry in data] if place and isinstance(data, list) else copy.deepcopy(data)


def _in_turn(values: Sequence[Any]) -> Callable[[Any], Any]:
    """The values one after the other, and 0 past their end."""
    left = iter(values)
    return lambda _: next(left, 0)


def _any_pick(rng: np.random.Generator) -> Pick:
    return lambda weights: int(rng.choice([index for index, weight in enumerate(weights) if weight > 0]))


def _far_draws(rng: np.random.Generator) -> Draw:
    """Draws that are stretched or shrunk by up to nine orders of magnitude, within the support."""

    def draw(distribution: Distribution) -> float:
        value = distribution.draw(rng, 1)[0].item()
        low, high = distribution.support
        if distribution.integer:
            return int(min(low + (value - low) * rng.integers(1, 1000), high))
        stretched = value * 10.0 ** rng.uniform(-3, 6) if np.isinf(high) else value ** rng.integers(1, 9)
        return float(min(max(stretched, low), high))

    return draw
