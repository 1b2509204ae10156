"""The threshold attack, how much a threshold can certify, and what the bits of a floating-point output tell."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridp.claim import Claim
from veridp.confidence import approximate_lower, approximate_upper, expected_linear_lower, log_ratio_lower
from veridp.conversions import Event
from veridp.engines.sniper.classifier import Model, ModelFamily
from veridp.engines.sniper.features import Column, Columns, FeatureLayout, Leaves
from veridp.errors import BadInput
from veridp.kernel.output import Kind
from veridp.notions import Notion
from veridp.sampling.encode import OutputEvent, encode
from veridp.sampling.outputs import Outputs

# ---------------------------------------------------------------------------------------------------------------- bits
# What the bits of a floating-point output tell: which inputs it can come from at all.
#
# The doubles around a number are spaced by its size, so that fl(a + noise) has other low bits than fl(b + noise): near
# 0, an output of input 1 is a whole multiple of 2^-53, one of input 0 need not be (Mironov, "On Significance of the
# Least Significant Bits for Differential Privacy", CCS 2012). The columns here are the exponent, the place of the
# lowest bit that is set, the last bits of the mantissa, and for every number of the two inputs whether the output can
# be reached from it by adding some double. Rounding to a grid coarser than these effects makes all of them the same on
# either input.


Floats = NDArray[np.float64]
LAST_BITS = 4
MOST_CENTRES = 8  # numbers of the inputs from which reachability is tested
MANTISSA = 52


@dataclass(frozen=True)
class Exponent:
    """The power of two just below the number's size; NaN for 0 and for what is no number."""

    place: int
    name: str

    def of(self, leaves: Leaves) -> Floats:
        numbers = leaves.values[:, self.place]
        return np.where(numbers == 0, np.nan, exponents(numbers))


@dataclass(frozen=True)
class LowestBit:
    """The power of two of the lowest bit that is set: the coarsest grid that the number lies on."""

    place: int
    name: str

    def of(self, leaves: Leaves) -> Floats:
        return lowest_bits(leaves.values[:, self.place])


@dataclass(frozen=True)
class MantissaBit:
    """One of the last bits of the mantissa."""

    place: int
    bit: int
    name: str

    def of(self, leaves: Leaves) -> Floats:
        numbers = np.ascontiguousarray(leaves.values[:, self.place])
        bits = (numbers.view(np.uint64) >> np.uint64(self.bit)) & np.uint64(1)
        return np.where(np.isnan(numbers), np.nan, bits.astype(np.float64))


@dataclass(frozen=True)
class Reachable:
    """Whether some double, added to this number of an input, gives the output."""

    place: int
    centre: float
    name: str

    def of(self, leaves: Leaves) -> Floats:
        numbers = leaves.values[:, self.place]
        return np.where(np.isnan(numbers), np.nan, reachable(numbers, self.centre).astype(np.float64))


def exponents(numbers: Floats) -> Floats:
    """⌊log2 |number|⌋, exactly."""
    return np.frexp(numbers)[1].astype(np.float64) - 1.0


BIT_COLUMNS = (LowestBit, Exponent, Reachable, MantissaBit)


def lowest_bits(numbers: Floats) -> Floats:
    """The exponent of the lowest set bit of each number; NaN for 0 and NaN.

    >>> lowest_bits(np.array([1.0, 0.75, 6.0])).tolist()
    [0.0, -2.0, 1.0]
    """
    mantissas, powers = np.frexp(numbers)
    known = np.isfinite(mantissas) & (mantissas != 0)
    whole = np.where(known, np.abs(mantissas) * 2.0 ** (MANTISSA + 1), 1.0).astype(np.int64)
    trailing = np.log2((whole & -whole).astype(np.float64))
    return np.where(known, trailing + powers - (MANTISSA + 1), np.nan)


def reachable(numbers: Floats, centre: float) -> NDArray[np.bool_]:
    """Whether fl(centre + x) is the number for some double x.

    >>> reachable(np.array([0.1, 2.0**-60, 2.0**-53]), 1.0).tolist()
    [False, False, True]
    """
    step = numbers - centre
    found = centre + step == numbers
    for neighbour in (np.nextafter(step, -np.inf), np.nextafter(step, np.inf)):
        found |= centre + neighbour == numbers
    return np.asarray(found)


def bit_columns(inputs: Sequence[Any]) -> Callable[[FeatureLayout, Leaves], Iterator[Column]]:
    """What makes the bit-level columns of floating-point leaves, for outputs of these inputs."""
    centres = _centres(inputs)

    def make(layout: FeatureLayout, leaves: Leaves) -> Iterator[Column]:
        for place, path in enumerate(layout.paths):
            if not (leaves.kinds[:, place] == Kind.FLOAT.value).any():
                continue
            name = layout.names[path]
            yield LowestBit(place, f"lowest set bit of {name}")
            yield Exponent(place, f"exponent of {name}")
            for centre in centres:
                yield Reachable(place, centre, f"[{name} can be reached from {centre:g}]")
            for bit in range(LAST_BITS):
                yield MantissaBit(place, bit, f"mantissa bit {bit} of {name}")

    return make


def _centres(inputs: Sequence[Any]) -> list[float]:
    """The different numbers within the inputs, and their sums, as far as they are numbers."""
    found: dict[float, None] = {}
    for data in inputs:
        try:
            numbers = np.asarray(data, dtype=np.float64).ravel()
        except (TypeError, ValueError):
            continue
        for number in (*numbers.tolist(), float(numbers.sum())):
            found.setdefault(number + 0.0)
    return list(found)[:MOST_CENTRES]


# -------------------------------------------------------------------------------------------------------------- attack
# The threshold attack: a set of outputs, those whose score is above a level, that tells two inputs apart.


Truths = NDArray[np.bool_]
ROWS = 2**16  # scored at once


@dataclass(frozen=True, eq=False)
class Scorer:
    """How much an output speaks for the left input, by a classifier; with sign -1, for the right one."""

    columns: Columns
    model: Model
    sign: int = 1
    _last: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def family(self) -> ModelFamily:
        return self.model.family

    def turned(self) -> Scorer:
        """The same classifier, asked for the other side."""
        return replace(self, sign=-self.sign, _last={})

    def __call__(self, outputs: Outputs) -> Floats:
        """The scores, a slice at a time: memory is needed for one slice's columns alone.

        Those of the last outputs are kept, since several events may ask for the same.
        """
        known = self._last.get("outputs")
        if known is not None and known() is outputs:
            return np.asarray(self._last["scores"])
        scores = np.empty(len(outputs))
        for start in range(0, len(outputs), ROWS):
            scores[start : start + ROWS] = self._scores(outputs[start : start + ROWS])
        self._last.update(outputs=weakref.ref(outputs), scores=scores)
        return scores

    def _scores(self, outputs: Outputs) -> Floats:
        """The scores; equal outputs are scored once."""
        few, places = outputs.grouped(len(outputs) // 4) or (outputs, slice(None))
        return np.asarray(self.sign * self.model.scores(self.columns.matrix(few)))[places]

    def __getstate__(self) -> dict[str, Any]:
        return {"columns": self.columns, "model": self.model, "sign": self.sign, "_last": {}}


@dataclass(frozen=True, eq=False)
class ThresholdAttack(OutputEvent):
    """S(t, q): the outputs whose score is above `level`, and those at it with probability `tie` (paper, equation 9).

    Called on Outputs, it tells which belong to it; `holds` tells the same of one output. With `tie` strictly between 0
    and 1 membership needs coins: give a generator.
    """

    scorer: Scorer
    level: float
    tie: float = 1.0
    text: str = ""  # the set as a sentence

    @property
    def above(self) -> _Above:
        return _Above(self.scorer, self.level, False)

    @property
    def reached(self) -> _Above:
        """The scores above the level and at it."""
        return _Above(self.scorer, self.level, True)

    def __call__(self, outputs: Outputs, rng: np.random.Generator | None = None) -> Truths:
        if self.tie in (0.0, 1.0):
            return (self.reached if self.tie else self.above)(outputs)
        if rng is None:
            raise BadInput(f"ties belong to this event with probability {self.tie:.6g}; give a generator to break them")
        scores = self.scorer(outputs)
        tied = (scores == self.level) & (rng.random(len(scores)) < self.tie)
        return np.asarray((scores > self.level) | tied)

    def holds(self, output: Any, rng: np.random.Generator | None = None) -> bool:
        """Whether an output, as the mechanism returns it, belongs to the event."""
        return bool(self(encode([output]), rng)[0])

    def __str__(self) -> str:
        return self.text or f"the score by {self.scorer.family} is at least {self.level:.6g}"


@dataclass(frozen=True, eq=False)
class _Above:
    """The outputs whose score is above a level, or at it too."""

    scorer: Scorer
    level: float
    inclusive: bool

    def __call__(self, outputs: Outputs) -> Truths:
        scores = self.scorer(outputs)
        return scores >= self.level if self.inclusive else scores > self.level


# --------------------------------------------------------------------------------------------------------------- power
# How much a threshold can certify: the paper's c-power and sample size, and the bound that is aimed at instead.
#
# Bichsel, Steffen, Bogunovic, Vechev, "DP-Sniper: Black-Box Discovery of Differential Privacy Violations using
# Classifiers" (S&P 2021). Its Algorithm 1 takes the outputs of the highest scores, so many that their probability on
# the right is c; that is `paper_threshold`. No fixed c suits all: c = 0.01 hides strong events that are rarer, and for
# weak frequent ones it wastes samples. `best_thresholds` looks for those that promise the largest *certified* bound
# once the confirmation has drawn all its samples.


MOST_THRESHOLDS = 128  # from the scores of either side
FREQUENCIES = 2  # to distinguish between one and its double
DOUBT, DOUBT_PER_DECADE = 0.3, 0.5  # standard errors by which a held-out rate is read pessimistically
HOPE = 1.5  # and by which it is taken optimistically
BOUND_SHARE = 0.1  # of the alpha of a test of the inequality itself, for the bounds on the two probabilities


def sample_size(omega: float = 0.005, alpha: float = 0.05, c: float = 0.01) -> int:
    """How many samples Algorithm 1 needs to come within omega of the best c-power, with probability 1 - alpha.

    Guideline 1: N = max{1/ω², 4} · 2(1-c)/c · (erf⁻¹(1-2α))².

    >>> f"{sample_size():.3g}"
    '1.07e+07'
    """
    from scipy.special import erfinv

    for name, value in (("omega", omega), ("alpha", alpha), ("c", c)):
        if not 0 < value < 1:
            raise BadInput(f"{name} must be in (0, 1), got {value!r}")
    return math.ceil(max(1 / omega**2, 4.0) * 2 * (1 - c) / c * float(erfinv(1 - 2 * alpha)) ** 2)


@dataclass(frozen=True)
class Goal:
    """What the confirmation will do: so many samples of either side, at this alpha, for a claim with this delta.

    Bounds are lower bounds on ε at this δ; for a claim in another notion, on the multiple of the claim that is shown.
    """

    final: int
    alpha: float
    delta: float = 0.0
    notion: Notion | None = None

    def refutes(self, promise: float, claim: Claim) -> bool:
        """Whether this bound would refute the claim, whose notion is the goal's."""
        return claim.excludes(promise) if self.notion is None else promise > 1

    def promised(self, left: Floats, left_total: int, right: Floats, right_total: int) -> Floats:
        """The bounds to expect from events that were seen so often on held-out samples.

        The best of many events is in part the luckiest, and the rarer events are, the more of them there are and the
        more luck can do: so the rates of rare ones are read with more doubt.
        """
        doubt = DOUBT + DOUBT_PER_DECADE * np.log10((right_total + 1) / (np.asarray(right) + 1))
        return self.expected(left, left_total, right, right_total, doubt)

    def optimistic_bound(self, left: Floats, left_total: int, right: Floats, right_total: int) -> Floats:
        """The bounds that events seen so often may come to if luck was against them."""
        return self.expected(left, left_total, right, right_total, -HOPE)

    def expected(self, left: Floats, left_total: int, right: Floats, right_total: int, doubt: Floats | float) -> Floats:
        """The bounds to expect if rates are by so many standard errors worse than they were seen to be."""
        above = np.atleast_1d(approximate_lower(left, left_total, doubt))
        below = np.atleast_1d(approximate_upper(right, right_total, doubt))
        lower = approximate_lower(above * self.final, self.final, self._deviations)
        upper = approximate_upper(below * self.final, self.final, self._deviations)
        if self.notion is not None:
            return np.array([self._shown(event) for event in zip(lower.tolist(), upper.tolist(), strict=True)])
        with np.errstate(divide="ignore", invalid="ignore"):
            by_two = np.where(lower > self.delta, np.log(lower - self.delta) - np.log(upper), -np.inf)
        by_one = expected_linear_lower(above, below, self.final, (1 - BOUND_SHARE) * self.alpha, self.delta)
        return np.maximum(by_two, by_one)

    @cached_property
    def _deviations(self) -> float:
        """Of a normal variable, which it exceeds with probability alpha / 2."""
        return NormalDist().inv_cdf(1 - self.alpha / 2)

    def favours_one_test(self, left: float, right: float, samples: int, alpha: float) -> bool:
        """Whether one test of the inequality can be expected to show more than two intervals, at these rates."""
        if self.notion is not None:
            return False
        by_two = log_ratio_lower(left * samples, samples, right * samples, samples, alpha, self.delta)
        return bool(expected_linear_lower(left, right, samples, (1 - BOUND_SHARE) * alpha, self.delta) > by_two)

    def _shown(self, event: Event) -> float:
        """The multiple of the claim that the event shows; below 0 where it is not known to be more probable on the
        left."""
        left, right = event
        return left - right if left <= right or self.notion is None else self.notion.power(event)


@dataclass(frozen=True)
class Threshold:
    """Take the outputs whose score is above `level`, and those at it with probability `tie`.

    `promise` is the bound to expect, `left` and `right` the shares of held-out outputs that are taken.
    """

    level: float
    tie: float
    promise: float
    left: float
    right: float


def best_thresholds(left: Floats, right: Floats, goal: Goal, most: int = 1) -> list[Threshold]:
    """The thresholds whose certified bounds promise to be the largest, from the sorted scores of held-out outputs.

    Of those whose events are about equally frequent, the best one alone. Ties are taken whole: with the counts that
    belong to it, a bound is never best between tie = 0 and tie = 1 but for the width of the intervals, and an event
    without a coin can be checked by anybody.
    """
    levels = candidate_levels(left, right)
    hits, misses = _at_least(left, levels), _at_least(right, levels)
    promises = goal.promised(hits, len(left), misses, len(right))
    frequencies = np.floor(FREQUENCIES * np.log2(hits + misses))
    order = np.argsort(-promises, kind="stable")
    _, first = np.unique(frequencies[order], return_index=True)
    shares = hits / len(left), misses / len(right)
    return [
        Threshold(float(levels[place]), 1.0, float(promises[place]), *(float(share[place]) for share in shares))
        for place in order[np.sort(first)[:most]]
    ]


def profile_levels(left: Floats, right: Floats, epsilons: Floats) -> Floats:
    """For each ε the level at which P[left] - e^ε P[right] is largest on these sorted scores."""
    levels = candidate_levels(left, right)
    gains = _at_least(left, levels) / len(left) - np.exp(epsilons)[:, None] * _at_least(right, levels) / len(right)
    return np.asarray(levels[np.argmax(gains, axis=1)])


def candidate_levels(left: Floats, right: Floats) -> Floats:
    """Sorted scores worth a threshold: all if they are few, else some at every order of magnitude of probability."""
    return np.unique(np.concatenate([_ranked(left), _ranked(right)]))


def _ranked(scores: Floats) -> Floats:
    steps = np.flatnonzero(np.diff(scores))
    if len(steps) < MOST_THRESHOLDS:
        return np.asarray(scores[np.concatenate([[0], steps + 1])])
    ranks = np.unique(np.geomspace(1, len(scores), MOST_THRESHOLDS).astype(np.intp))
    return scores[len(scores) - ranks]


def _at_least(scores: Floats, levels: Floats) -> Floats:
    """How many of the sorted scores are at least the level."""
    return (len(scores) - np.searchsorted(scores, levels, side="left")).astype(np.float64)


# ------------------------------------------------------------------------------------------ Algorithm 1 of the paper


class HighestScores:
    """The highest of many scores, as values and how often each occurs: memory for the highest ones alone."""

    def __init__(self, keep: int) -> None:
        self.keep = keep
        self.total = 0
        self.values: Floats = np.zeros(0)
        self.counts: NDArray[np.int64] = np.zeros(0, dtype=np.int64)

    def add(self, scores: Floats) -> None:
        self.total += len(scores)
        values, counts = np.unique(scores, return_counts=True)
        merged, places = np.unique(np.concatenate([self.values, values]), return_inverse=True)
        totals = np.bincount(places, weights=np.concatenate([self.counts, counts])).astype(np.int64)
        above = np.cumsum(totals[::-1])[::-1] - totals  # how many scores exceed each value
        needed = above < self.keep
        self.values, self.counts = merged[needed], totals[needed]


def paper_threshold(highest: HighestScores, c: float) -> tuple[float, float]:
    """t and q of the threshold attack whose mass on the right samples is c, ties included (Algorithm 1, lines 5-7).

    With N scores, t is the ⌈cN⌉-th highest, and q makes up what the scores above t leave of cN.
    """
    wanted = c * highest.total
    above = np.cumsum(highest.counts[::-1])[::-1] - highest.counts
    place = int(np.flatnonzero(above < max(wanted, 1e-12))[0])  # values ascend: the lowest that is still needed
    return float(highest.values[place]), float(min(1.0, (wanted - above[place]) / highest.counts[place]))
