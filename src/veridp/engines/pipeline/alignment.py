"""The shift of the noise that makes the right run release what the left one did, found by running the program again.

The program on scripted noise is a function of its noise. Where its output, or a difference that decides, is another on
the right, the noise is moved: by how much follows from slopes, which runs with one draw moved by a little give, and of
all shifts that restore every value the cheapest is taken, a linear program. Repeated until all values agree, this is
Newton's method. What no noise can restore remains as a residual.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridp.engines.pipeline.recording import Decision, NoisyValue, Program, ProgramRun, Script, TrackedDraw
from veridp.kernel.noise import Uniform
from veridp.kernel.site import Site

Array = NDArray[np.float64]
MAX_STEPS = 10  # of Newton's method
MAX_MOVED_ALONE = 48  # draws that are moved one by one; of more, each value may depend on one draw
SMALL_STEP, TINY_STEP = 1e-4, 1e-6  # of the width of the noise, by which a draw is moved
VALUE_TOLERANCE = 1e-9  # values that differ by less, relatively, are the same: shifting noise rounds
NO_SLOPE = 1e-12  # relative to the largest
FIRM, HEAVY = 1e3, 1e6  # the price of a residual, of a soft row and of another, in units of the price of noise


@dataclass(frozen=True)
class Row:
    """A number that is to be the same in both runs."""

    name: str
    site: Site | None  # of the decision; None for a part of the output
    left: float
    right: float
    soft: bool = False  # a noisy value on its way: kept where it can be, for the output may not depend on it

    @property
    def gap(self) -> float:
        return self.right - self.left

    @property
    def same(self) -> bool:
        return abs(self.gap) <= VALUE_TOLERANCE * (1 + max(abs(self.left), abs(self.right)))


@dataclass(frozen=True, eq=False)
class Matching:
    """Two runs side by side, up to the first event that only one of them has."""

    left: ProgramRun
    right: ProgramRun
    passing: frozenset[int] = frozenset()  # events that need not be kept: noisy values on the way to others

    @cached_property
    def common(self) -> int:
        """How many events they share."""
        pairs = enumerate(zip(self.left.events, self.right.events, strict=False))
        shorter = min(len(self.left.events), len(self.right.events))
        return next((place for place, (one, other) in pairs if one.signature != other.signature), shorter)

    @property
    def whole(self) -> bool:
        """Whether all events are shared."""
        return self.common == len(self.left.events) == len(self.right.events)

    @cached_property
    def rows(self) -> list[Row]:
        """The numbers that are to agree: those that decide, and where all events are shared, those of the output."""
        rows = []
        for place, (mine, theirs) in enumerate(zip(self.left.events[: self.common], self.right.events, strict=False)):
            if isinstance(mine, Decision) and isinstance(theirs, Decision) and place not in self.passing:
                soft = isinstance(mine, NoisyValue)
                name = "a noisy value" if soft else "a decision"
                numbers = zip(mine.differences.tolist(), theirs.differences.tolist(), strict=True)
                rows += [Row(name, mine.site, *pair, soft) for pair in numbers if all(map(math.isfinite, pair))]
        if self.whole:
            leaves = self.right.leaves
            names = [
                name for name, value in self.left.leaves.items() if is_number(value) and is_number(leaves.get(name))
            ]
            rows += [Row(name, None, float(self.left.leaves[name]), float(leaves[name])) for name in names]  # type: ignore[arg-type]
        return rows

    def shared(self, kind: type[Any]) -> Iterator[tuple[Any, Any]]:
        """The shared events of this kind, on the left and on the right."""
        both = zip(self.left.events[: self.common], self.right.events, strict=False)
        return ((mine, theirs) for mine, theirs in both if isinstance(mine, kind))

    @property
    def draws(self) -> int:
        """How many draws of noise they share."""
        return sum(isinstance(event, TrackedDraw) for event in self.left.events[: self.common])

    @property
    def settled(self) -> bool:
        return all(row.same for row in self.rows)


def is_number(value: object) -> bool:
    """Whether a part of an output is a finite number, which noise may move."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


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
        """The best alignment found; its residual is empty where all shared values agree."""
        shifts = np.zeros(len(self.left.draws))
        first = best = current = self._matching(shifts)
        best_shifts, slopes, stuck = shifts, np.zeros((0, len(shifts))), 0
        for step in range(MAX_STEPS):
            if current.settled:
                break
            coarse = float(stuck > 0)  # an output that is rounded does not move by a little
            found = self.slopes(current, shifts, coarse)
            before, shifts = shifts, self._within_support(shifts + self._cheapest(current, found))
            if step and np.allclose(before, shifts, rtol=VALUE_TOLERANCE, atol=0.0):
                break
            trial = self._matching(shifts)
            if _worth(trial) <= _worth(best) and step:
                stuck += 1
            if _worth(trial) > _worth(best) or step == 0:
                best, best_shifts, slopes = trial, shifts, found
            current = trial
            if stuck > 2 or not any(
                np.any(slope) for row, slope in zip(trial.rows, found, strict=False) if not row.same
            ):
                break
        if best.settled and len(slopes) == len(best.rows):  # slopes are rounded: once more, to the last digits
            polished = self._within_support(best_shifts + self._cheapest(best, slopes))
            trial = self._matching(polished)
            if trial.settled and _off(trial) <= _off(best):
                best, best_shifts = trial, polished
        elif not best.settled and len(slopes) != len(best.rows):
            slopes = self.slopes(best, best_shifts, float(stuck > 0))
        return RunAlignment(first, best, best_shifts, slopes, self.runs, self.unseparated)

    def _matching(self, shifts: Array) -> Matching:
        right = self._run(shifts)
        self._see(Matching(self.left, right))
        return Matching(self.left, right, frozenset(self._passing))

    def _run(self, shifts: Array) -> ProgramRun:
        self.runs += 1
        return self.program.run(self.data, Script.repeating(self.left, shifts), marks=self.marks)

    def _see(self, matching: Matching) -> None:
        """Decide of new noisy values which are kept the same.

        Where something is added to a value that is the same on both sides, 0 or a constant say, the sum counts, and not
        the value. Where data had come into it, it is released, and what is added later is not hidden by its noise.
        """
        both = zip(self.left.events[: matching.common], matching.right.events, strict=False)
        for place, (mine, theirs) in enumerate(both):
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

    def _within_support(self, shifts: Array) -> Array:
        moved = [
            min(max(draw.value + shift, draw.distribution.support[0]), draw.distribution.support[1]) - draw.value
            for draw, shift in zip(self.left.draws, shifts, strict=True)
        ]
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
        rows = Matching(self.left, self._run(trial), matching.passing).rows
        names = [(row.name, row.site) for row in matching.rows]
        if [(row.name, row.site) for row in rows] != names:
            return None
        return np.array([new.right - old.right for new, old in zip(rows, matching.rows, strict=True)])

    # --------------------------------------------------------------------------------------------------------- shifts

    def _cheapest(self, matching: Matching, slopes: Array) -> Array:
        """The cheapest shift that removes the gaps, as far as noise can."""
        from scipy.optimize import linprog
        from scipy.sparse import csr_matrix, hstack, identity

        rows = np.flatnonzero(np.any(slopes, axis=1))
        gaps = np.array([matching.rows[place].gap for place in rows])
        if not len(gaps) or not np.any(gaps):
            return np.zeros(slopes.shape[1])
        draws = np.flatnonzero(np.any(slopes[rows], axis=0))
        matrix, size = slopes[np.ix_(rows, draws)], np.abs(slopes[rows]).max(axis=1)
        matrix, gaps = matrix / size[:, None], gaps / size
        far = np.abs(gaps).max()
        prices = np.array([_prices(self.left.draws[draw]) for draw in draws])
        unit = prices[np.isfinite(prices)].max(initial=1.0)
        bounds = [(0, None if math.isfinite(price) else 0) for price in prices.T.ravel()]
        weights = np.array([unit * (FIRM if matching.rows[place].soft else HEAVY) for place in rows])
        slack = identity(len(gaps))
        sparse = csr_matrix(matrix)
        found = linprog(
            np.concatenate([np.nan_to_num(prices.T.ravel(), posinf=0.0), np.tile(weights, 2)]),
            A_eq=hstack([sparse, -sparse, slack, -slack]),
            b_eq=-gaps / far,
            bounds=[*bounds, *[(0, None)] * (2 * len(gaps))],
            method="highs",
        )
        shifts = np.zeros(slopes.shape[1])
        if found.x is not None:
            shifts[draws] = (found.x[: len(draws)] - found.x[len(draws) : 2 * len(draws)]) * far
        return shifts


def _prices(draw: TrackedDraw) -> tuple[float, float]:
    """What a shift up, and down, by one unit costs; inf where it may not be shifted that way."""
    price = draw.distribution.price_with_delta
    return tuple(math.inf if way is None else float(way) for way in (price.up, price.down))  # type: ignore[return-value]


def _off(matching: Matching) -> float:
    return math.fsum(abs(row.gap) for row in matching.rows)


def _worth(matching: Matching) -> tuple[int, int, float, float]:
    """How good an alignment is: events that are shared, then values that agree, then how far the others are apart."""
    hard, soft = (
        [abs(row.gap) for row in matching.rows if not row.same and row.soft is kind] for kind in (False, True)
    )
    return matching.common, -len(hard), -math.fsum(hard), -math.fsum(soft)
