"""The shift of the noise that makes the right run release what the left one did, found by running the program again.

The program on scripted noise is a function of its noise. Where its output, or a difference that decides, is another on
the right, the noise is moved: by how much follows from slopes, which runs with one draw moved by a little give, and of
all shifts that restore every value the cheapest is taken, a linear program. Repeated until all values agree, this is
Newton's method. What no noise can restore remains as a residual.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridp.engines.pipeline.recording import (
    Coin,
    Decision,
    NoisyDecision,
    NoisyValue,
    Program,
    ProgramRun,
    RunEvent,
    Script,
    TrackedDraw,
)
from veridp.kernel.noise import Normal, Uniform
from veridp.kernel.site import Site

Array = NDArray[np.float64]
MAX_STEPS = 10  # of Newton's method
MAX_MOVED_ALONE = 48  # draws that are moved one by one; of more, each value may depend on one draw
SMALL_STEP, TINY_STEP = 1e-4, 1e-6  # of the width of the noise, by which a draw is moved
TO_END = 0.75  # of the way to the end of the support, that a step takes a uniform draw at most
VALUE_TOLERANCE = 1e-9  # values that differ by less, relatively, are the same: shifting noise rounds
NO_SLOPE = 1e-12  # relative to the largest
SLOPE_RANK = 1e-6  # relative: rows that measured slopes do not tell apart
NOISY_VALUE, NOISY_DECISION, HARD = 1e3, 1e4, 1e6  # what it costs to leave a row different, in prices of noise
NAMES: Mapping[type[Decision], str] = {
    Decision: "a decision",
    NoisyDecision: "a decision",
    NoisyValue: "a noisy value",
    Coin: "a toss",
}
PRICES: Mapping[type[Decision], float] = {NoisyValue: NOISY_VALUE, NoisyDecision: NOISY_DECISION, Coin: NOISY_VALUE}


@dataclass(frozen=True)
class Row:
    """A number that is to be the same in both runs."""

    name: str
    site: Site | None  # of the decision; None for a part of the output
    left: float
    right: float
    price: float = HARD  # less for noisy values on their way: kept where they can be, the output may not depend on them

    @property
    def soft(self) -> bool:
        return self.price < HARD

    def weight(self, way_first: bool) -> float:
        """What it costs to leave it different, where the output is to be restored, or the way to it, first."""
        return NOISY_VALUE if way_first and not self.soft else HARD if way_first else self.price

    @property
    def gap(self) -> float:
        return self.right - self.left

    @property
    def same(self) -> bool:
        return abs(self.gap) <= VALUE_TOLERANCE * (1 + max(abs(self.left), abs(self.right)))


@dataclass(frozen=True)
class EventPair:
    """An event of the left run and the one of the right run that it is compared with, by their places."""

    left: int
    right: int
    firm: bool = True  # whether there are as many of the kind on both sides before the next draw


def paired_events(left: Sequence[RunEvent], right: Sequence[RunEvent]) -> tuple[list[EventPair], tuple[int, int]]:
    """The pairs of events up to the first draw, choice or call that only one run has, and where it stands.

    Decisions between two draws are paired by their lines: code that compares each record with noise decides more often
    where there are more records, which in itself releases nothing.
    """
    pairs: list[EventPair] = []
    starts = (0, 0)
    while True:
        ends = _next_draw(left, starts[0]), _next_draw(right, starts[1])
        mine, theirs = (
            _by_signature(events, range(start, end))
            for events, start, end in zip((left, right), starts, ends, strict=True)
        )
        decided = [
            EventPair(*places, len(mine[key]) == len(theirs[key]))
            for key in mine.keys() & theirs.keys()
            for places in zip(mine[key], theirs[key], strict=False)
        ]
        pairs += sorted(decided, key=lambda pair: pair.left)
        here, there = ends
        if here == len(left) or there == len(right) or left[here].signature != right[there].signature:
            return pairs, ends
        pairs.append(EventPair(*ends))
        starts = here + 1, there + 1


def _next_draw(events: Sequence[RunEvent], start: int) -> int:
    places = range(start, len(events))
    return next((place for place in places if not isinstance(events[place], Decision)), len(events))


def _by_signature(events: Sequence[RunEvent], places: Iterable[int]) -> dict[tuple[object, ...], list[int]]:
    found: dict[tuple[object, ...], list[int]] = {}
    for place in places:
        found.setdefault(events[place].signature, []).append(place)
    return found


@dataclass(frozen=True, eq=False)
class Matching:
    """Two runs side by side, up to the first draw that only one of them has."""

    left: ProgramRun
    right: ProgramRun
    passing: frozenset[int] = frozenset()  # events that need not be kept: noisy values on the way to others

    @cached_property
    def _paired(self) -> tuple[list[EventPair], tuple[int, int]]:
        return paired_events(self.left.events, self.right.events)

    @property
    def pairs(self) -> list[EventPair]:
        """The events that they share."""
        return self._paired[0]

    @property
    def ends(self) -> tuple[int, int]:
        """Where, in either run, the first draw stands that they do not share."""
        return self._paired[1]

    @property
    def whole(self) -> bool:
        """Whether all draws are shared."""
        return self.ends == (len(self.left.events), len(self.right.events))

    @cached_property
    def rows(self) -> list[Row]:
        """The numbers that are to agree: those that decide, and where all draws are shared, those of the output."""
        rows = []
        for pair in self.pairs:
            mine, theirs = self.left.events[pair.left], self.right.events[pair.right]
            if isinstance(mine, Decision) and isinstance(theirs, Decision) and pair.left not in self.passing:
                price = PRICES.get(type(mine), HARD) if pair.firm else NOISY_VALUE
                numbers: Iterable[tuple[float, float]] = zip(
                    mine.differences.tolist(), theirs.differences.tolist(), strict=True
                )
                if isinstance(mine, Coin):  # a draw is kept in the cell in which its last comparison puts it
                    drawn = enumerate(mine.drawn.tolist())
                    last = (self._last_tosses[value] == (pair.left, entry) for entry, value in drawn)
                    numbers = itertools.compress(numbers, last)
                rows += [
                    Row(NAMES[type(mine)], mine.site, *both, price) for both in numbers if all(map(math.isfinite, both))
                ]
        if self.whole:
            leaves = self.right.leaves
            names = [
                name for name, value in self.left.leaves.items() if is_number(value) and is_number(leaves.get(name))
            ]
            rows += [Row(name, None, float(self.left.leaves[name]), float(leaves[name])) for name in names]  # type: ignore[arg-type]
        return rows

    @cached_property
    def _last_tosses(self) -> dict[float, tuple[int, int]]:
        """Of each draw that is compared with thresholds, the last event that does so, and the entry there."""
        events = ((pair.left, self.left.events[pair.left]) for pair in self.pairs)
        tosses = ((place, event) for place, event in events if isinstance(event, Coin))
        return {value: (place, entry) for place, toss in tosses for entry, value in enumerate(toss.drawn.tolist())}

    def shared(self, kind: type[Any]) -> Iterator[tuple[Any, Any]]:
        """The shared events of this kind, on the left and on the right."""
        both = ((self.left.events[pair.left], self.right.events[pair.right]) for pair in self.pairs)
        return ((mine, theirs) for mine, theirs in both if isinstance(mine, kind))

    @property
    def draws(self) -> int:
        """How many draws of noise they share."""
        return sum(isinstance(self.left.events[pair.left], TrackedDraw) for pair in self.pairs)

    @property
    def settled(self) -> bool:
        return all(row.same for row in self.rows)


def is_number(value: object) -> bool:
    """Whether a part of an output is a finite number, which noise may move."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def kind_of(value: object) -> object:
    """A part of an output as far as noise cannot change it: any finite number is one kind."""
    return "a number" if is_number(value) else value


def near(mine: object, theirs: object) -> bool:
    """Whether two parts of an output are the same, but for how floats are rounded."""
    if is_number(mine) and is_number(theirs):
        return Row("", None, float(mine), float(theirs)).same  # type: ignore[arg-type]
    return repr(mine) == repr(theirs)


@dataclass(frozen=True, eq=False)
class RunAlignment:
    """The right run with its noise shifted, and how its values, at the end, depend on the noise."""

    first: Matching  # before any shift
    matching: Matching
    shifts: Array
    slopes: Array  # of each row of the matching by each draw; empty where no row ever differed
    runs: int = 0
    unseparated: bool = False  # whether a value depends on more noise than could be told apart

    @property
    def residual(self) -> list[tuple[Row, Array]]:
        """The values of the output, and those that decide, that still differ, with their slopes."""
        rows = self.matching.rows
        slopes = self.slopes if len(self.slopes) == len(rows) else np.zeros((len(rows), len(self.shifts)))
        return [(row, slope) for row, slope in zip(rows, slopes, strict=True) if not row.same and not row.soft]


@dataclass
class Aligner:
    """Finds the shift for the left run on other data."""

    program: Program
    left: ProgramRun
    data: Any
    marks: bool = True
    runs: int = field(default=0, init=False)
    unseparated: bool = field(default=False, init=False)
    _released: dict[int, bool] = field(default_factory=dict, init=False)  # noisy values: whether data came into them
    _passing: set[int] = field(default_factory=set, init=False)

    def align(self) -> RunAlignment:
        """The best alignment found; its residual is empty where all shared values agree.

        Where a noisy value is cut off, as in `max(noisy, 0)`, a shift may restore the output though values on the way
        still differ. The shift that keeps these first is then the better one, if it restores everything.
        """
        found = self._descend()
        if not found.matching.settled and any(row.soft and not row.same for row in found.matching.rows):
            other = self._descend(way_first=True)
            if other.matching.settled and len(other.matching.pairs) >= len(found.matching.pairs):
                found = other
        return replace(self._shortest(found), runs=self.runs)

    def _descend(self, *, way_first: bool = False) -> RunAlignment:
        """Newton's method; with `way_first` it restores noisy values and decisions before the output."""
        shifts = np.zeros(len(self.left.draws))
        first = best = current = self._matching(shifts)
        best_shifts, slopes, stuck = shifts, np.zeros((0, len(shifts))), 0
        for step in range(MAX_STEPS):
            if current.settled:
                break
            coarse = float(stuck > 0)  # an output that is rounded does not move by a little
            found = self.slopes(current, shifts, coarse)
            before, shifts = shifts, self._within_support(shifts, shifts + self._cheapest(current, found, way_first))
            if step and np.allclose(before, shifts, rtol=VALUE_TOLERANCE, atol=0.0):
                break
            trial = self._matching(shifts)
            if _worth(trial) <= _worth(best) and step:
                stuck += 1
            if _worth(trial) > _worth(best) or step == 0:
                best, best_shifts, slopes = trial, shifts, found
            current = trial
            if stuck > 2 or not _movable(trial, found):
                break
        if best.settled and len(slopes) == len(best.rows):  # slopes are rounded: once more, to the last digits
            polished = self._within_support(best_shifts, best_shifts + self._cheapest(best, slopes, way_first))
            trial = self._matching(polished)
            if trial.settled and _off(trial) <= _off(best):
                best, best_shifts = trial, polished
        elif len(slopes) != len(best.rows) and (not best.settled or np.any(best_shifts)):
            slopes = self.slopes(best, best_shifts, float(stuck > 0))
        return RunAlignment(first, best, best_shifts, slopes, self.runs, self.unseparated)

    def _matching(self, shifts: Array) -> Matching:
        right = self.run(shifts)
        self._see(Matching(self.left, right))
        return Matching(self.left, right, frozenset(self._passing))

    def run(self, shifts: Array) -> ProgramRun:
        """The run on the other data with the noise of the left one, moved."""
        self.runs += 1
        return self.program.run(self.data, Script.repeating(self.left, shifts), marks=self.marks)

    def _see(self, matching: Matching) -> None:
        """Decide of new noisy values which are kept the same.

        Where something is added to a value that is the same on both sides, 0 or a constant say, the sum counts, and not
        the value. Where data had come into it, it is released, and what is added later is not hidden by its noise.
        """
        for pair in matching.pairs:
            place, mine, theirs = pair.left, matching.left.events[pair.left], matching.right.events[pair.right]
            if place in self._released or not (isinstance(mine, NoisyValue) and isinstance(theirs, NoisyValue)):
                continue
            if any(self._released.get(part) for part in mine.parts):
                self._passing.add(place)
                self._released[place] = True
            else:
                self._passing |= mine.parts
                self._released[place] = not np.allclose(
                    mine.differences, theirs.differences, rtol=VALUE_TOLERANCE, atol=VALUE_TOLERANCE
                )

    def _within_support(self, before: Array, shifts: Array) -> Array:
        """The shifts, cut where noise would leave its support. A uniform draw also stays off the ends, where what is
        made of it is often infinite."""
        moved = []
        for draw, old, new in zip(self.left.draws, before, shifts, strict=True):
            low, high = draw.distribution.support
            if isinstance(draw.distribution, Uniform):
                here = draw.value + old
                low, high = here + TO_END * (low - here), here + TO_END * (high - here)
            moved.append(min(max(draw.value + new, low), high) - draw.value)
        return np.array(moved)

    # --------------------------------------------------------------------------------------------------------- slopes

    def _steps(self, count: int, shifts: Array, coarse: float, backwards: bool) -> Array:
        """By how much each draw is moved, within its support."""
        steps = []
        for draw, shift in zip(self.left.draws[:count], shifts, strict=False):
            kind = draw.distribution
            small = TINY_STEP if isinstance(kind, Uniform) else SMALL_STEP  # what is made of one need not be linear
            step = 1.0 if kind.integer else coarse * max(1.0, kind.width) if coarse else small * kind.width
            outside = draw.value + shift + step > kind.support[1]
            steps.append(-step if outside or backwards else step)
        return np.array(steps)

    def slopes(self, matching: Matching, shifts: Array, coarse: float = 0.0, *, backwards: bool = False) -> Array:
        """How the rows depend on the draws that both runs have: by small moves, or by so many widths of the noise."""
        count, rows = matching.draws, matching.rows
        steps = self._steps(count, shifts, coarse, backwards)
        slopes = np.zeros((len(rows), len(shifts)))
        if count <= MAX_MOVED_ALONE:
            for draw in range(count):
                for step in (steps[draw], -steps[draw]):
                    moved = self._moved(matching, shifts, {draw: step})
                    if moved is not None:
                        slopes[:, draw] = moved / step
                        break
        else:
            self._separate(matching, shifts, steps, slopes)
        return np.where(np.abs(slopes) <= NO_SLOPE * np.abs(slopes).max(initial=0.0), 0.0, slopes)

    def _separate(self, matching: Matching, shifts: Array, steps: Array, slopes: Array) -> None:
        """Slopes of values that depend on one draw each: all draws are moved at once, twice, each by a step of its own.

        The ratio of the two changes of a value tells the draw, for no two draws have the same ratio of steps.
        """
        rng = np.random.default_rng(len(steps))
        first, second = (steps * rng.uniform(1.0, 2.0, len(steps)) for _ in range(2))
        changes = [self._moved(matching, shifts, dict(enumerate(moves))) for moves in (first, second)]
        if changes[0] is None or changes[1] is None:
            self.unseparated = True
            return
        ratios = second / first
        order = np.argsort(ratios)
        for place, (one, other) in enumerate(zip(*changes, strict=True)):
            if not one and not other:
                continue
            near = np.searchsorted(ratios[order], other / one) if one else 0
            options = order[max(near - 1, 0) : near + 1]
            draw = options[np.argmin(np.abs(ratios[options] - other / one))] if one and len(options) else None
            if draw is None or abs(ratios[draw] - other / one) > 1e-6 * ratios[draw]:
                self.unseparated = True
            else:
                slopes[place, draw] = one / first[draw]

    def _moved(self, matching: Matching, shifts: Array, moves: Mapping[int, float]) -> Array | None:
        """How the rows change where draws are moved; None where the program then goes another way."""
        trial = shifts.copy()
        for draw, move in moves.items():
            trial[draw] += move
        rows = Matching(self.left, self.run(trial), matching.passing).rows
        names = [(row.name, row.site) for row in matching.rows]
        if [(row.name, row.site) for row in rows] != names:
            return None
        return np.array([new.right - old.right for new, old in zip(rows, matching.rows, strict=True)])

    # --------------------------------------------------------------------------------------------------------- shifts

    def _cheapest(self, matching: Matching, slopes: Array, way_first: bool) -> Array:
        """The cheapest shift that removes the gaps, as far as noise can."""
        gaps, weights = ([value(row) for row in matching.rows] for value in (_gap, lambda row: row.weight(way_first)))
        return cheapest_shift(self.left.draws, slopes, np.array(gaps), np.array(weights))

    def _shortest(self, found: RunAlignment) -> RunAlignment:
        """The same with normal noise shifted by the least Euclidean length, where that restores as much."""
        rows, slopes = found.matching.rows, found.slopes
        if len(slopes) != len(rows) or not found.matching.settled:
            return found
        shifts = shortest_shift(self.left.draws, slopes, found.shifts)
        if np.allclose(shifts, found.shifts, rtol=VALUE_TOLERANCE, atol=0.0):
            return found
        trial = self._matching(shifts)
        if len(trial.rows) == len(slopes) and not trial.settled:  # slopes are rounded
            shifts = shifts + self._cheapest(trial, slopes, way_first=False)
            trial = self._matching(shifts)
        return (
            replace(found, matching=trial, shifts=shifts) if _worth(trial)[:2] >= _worth(found.matching)[:2] else found
        )


def cheapest_shift(draws: Sequence[TrackedDraw], slopes: Array, gaps: Array, weights: Array) -> Array:
    """The cheapest shift of the draws that closes the gaps, as far as noise can; an open one costs its weight."""
    from scipy.optimize import linprog
    from scipy.sparse import csr_matrix, hstack, identity

    shifts = np.zeros(slopes.shape[1])
    rows = np.flatnonzero(np.any(slopes, axis=1))
    if not np.any(gaps[rows]):
        return shifts
    used = np.flatnonzero(np.any(slopes[rows], axis=0))
    size = np.abs(slopes[rows]).max(axis=1)
    matrix, gaps = slopes[np.ix_(rows, used)] / size[:, None], gaps[rows] / size
    far = np.abs(gaps).max()
    prices = np.array([_prices(draws[place]) for place in used.tolist()])
    unit = prices[np.isfinite(prices)].max(initial=1.0)
    bounds = [(0, None if math.isfinite(price) else 0) for price in prices.T.ravel()]
    slack = identity(len(gaps))
    sparse = csr_matrix(matrix)
    found = linprog(
        np.concatenate([np.nan_to_num(prices.T.ravel(), posinf=0.0), np.tile(unit * weights[rows], 2)]),
        A_eq=hstack([sparse, -sparse, slack, -slack]),
        b_eq=-gaps / far,
        bounds=[*bounds, *[(0, None)] * (2 * len(gaps))],
        method="highs",
    )
    if found.x is not None:
        shifts[used] = (found.x[: len(used)] - found.x[len(used) : 2 * len(used)]) * far
    return shifts


def shortest_shift(draws: Sequence[TrackedDraw], slopes: Array, shifts: Array) -> Array:
    """A shift that moves every row as this one does, in which normal noise goes the least way, in Euclidean widths.

    What normal noise costs follows from that length alone: two draws that are added up share what hides their sum.
    """
    normal = np.array([isinstance(draw.distribution, Normal) for draw in draws], dtype=bool)
    mixed = np.count_nonzero(slopes[:, normal], axis=1) > 1
    used = np.flatnonzero(normal & np.any(slopes[mixed], axis=0))
    if not len(used):
        return shifts
    widths = np.array([draws[place].distribution.width for place in used.tolist()])
    matrix = slopes[:, used] * widths
    shortest, *_ = np.linalg.lstsq(matrix, matrix @ (shifts[used] / widths), rcond=SLOPE_RANK)
    moved = shifts.copy()
    moved[used] = shortest * widths
    return moved


def _gap(row: Row) -> float:
    return row.gap


def _prices(draw: TrackedDraw) -> tuple[float, float]:
    """What a shift up, and down, by one unit costs; inf where it may not be shifted that way."""
    price = draw.distribution.price_with_delta
    return tuple(math.inf if way is None else float(way) for way in (price.up, price.down))  # type: ignore[return-value]


def _movable(matching: Matching, slopes: Array) -> bool:
    """Whether noise moves a value that still differs; of more values than before, that is not known yet."""
    rows = matching.rows
    return len(rows) > len(slopes) or any(
        np.any(slope) for row, slope in zip(rows, slopes, strict=False) if not row.same
    )


def _off(matching: Matching) -> float:
    return math.fsum(abs(row.gap) for row in matching.rows)


def _worth(matching: Matching) -> tuple[int, int, float, float]:
    """How good an alignment is: events that are shared, then values that agree, then how far the others are apart."""
    hard, soft = (
        [row.price * abs(row.gap) for row in matching.rows if not row.same and row.soft is kind]
        for kind in (False, True)
    )
    return len(matching.pairs), -len(hard), -math.fsum(hard), -math.fsum(soft)
