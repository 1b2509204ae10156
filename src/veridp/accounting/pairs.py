"""Dominating pairs: two distributions at least as easy to distinguish as any two neighbours' outputs; and how much
normal noise (ε, δ) takes."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from veridp.claim import Claim
from veridp.conversions import gaussian_delta
from veridp.errors import BadInput
from veridp.notions import GaussianDP, Notion
from veridp.numerics.privacy_loss_distribution import LossSpan, Tails, together
from veridp.tradeoff import TradeoffCurve

# --------------------------------------------------------------------------------------------------------- calibration
# How much normal noise (ε, δ) takes: the analytic calibration.


def gaussian_scale(epsilon: float, delta: float, sensitivity: float = 1.0) -> float:
    """The least standard deviation of normal noise that is (ε, δ)-private for answers of this L2-sensitivity.

    >>> gaussian_delta(1.0, 1 / gaussian_scale(1.0, 1e-5)) <= 1e-5
    True
    """
    if not epsilon >= 0 or not 0 < delta < 1:
        raise BadInput(f"normal noise is never ({epsilon:g}, {delta:g})-private; give epsilon >= 0 and delta in (0, 1)")
    low, high = 0.0, 1.0
    while gaussian_delta(epsilon, high) <= delta:
        low, high = high, 2 * high
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if gaussian_delta(epsilon, middle) <= delta else (low, middle)
    return sensitivity / low


# --------------------------------------------------------------------------------------------------------------- pairs
# Dominating pairs: two distributions at least as easy to distinguish as any two neighbours' outputs.
#
# A pair (P, Q) dominates a mechanism if no event tells two neighbours apart better than some event tells P from Q: then
# it may stand for the mechanism wherever it is composed, sampled or run on a part of the data (Zhu, Dong and Wang,
# "Optimal Accounting of Differential Privacy via Characteristic Function", AISTATS 2022). All that matters of a pair is
# the distribution of its privacy loss ln P/Q, which `above` gives.


Array = NDArray[np.float64]
TAIL = 25.0  # standard deviations: normal tails beyond weigh less than 1e-137
LOSS_TOLERANCE = 1e-12  # losses this close, relative to 1 and to themselves, are one
HUGE = 700.0  # e to more than this is out of reach of floats
LEAK_ROUNDING = 1e-14  # relative error of the mass of infinite losses
MOST_ATOMS = 1_000_000  # past this, losses are not multiplied out


class DominatingPair(ABC):
    """Two distributions P and Q, known by their privacy loss."""

    @abstractmethod
    def above(self, levels: Array) -> Tails:
        """The probabilities of a loss strictly above the levels."""

    @property
    @abstractmethod
    def span(self) -> LossSpan:
        """Where its finite losses lie."""

    @property
    def infinite(self) -> float:
        """The probability under P of what cannot happen under Q."""
        return 0.0

    @property
    @abstractmethod
    def largest_finite(self) -> float:
        """The largest finite loss; inf where there is no largest."""

    @property
    def supremum(self) -> float:
        """The largest loss; inf where there is no largest."""
        return math.inf if self.infinite else self.largest_finite

    @property
    def atoms(self) -> Finite | None:
        """Itself where its losses are finitely many."""
        return None

    @abstractmethod
    def delta_above(self, epsilon: float) -> float:
        """The least δ at one ε, right in all its digits however small it is."""

    def epsilon(self, delta: float) -> float:
        """The least ε >= 0 at which δ is no more than this, up to rounding; inf where there is none."""
        decided = epsilon_of_leak(delta, self.infinite, self.largest_finite)
        if decided is not None:
            return decided
        if self.delta_above(0.0) <= delta:
            return 0.0
        low, high = 0.0, max(0.0, self.span.high)
        while low < (middle := (low + high) / 2) < high:
            low, high = (low, middle) if self.delta_above(middle) <= delta else (middle, high)
        return high

    def delta(self, epsilons: Array) -> Array:
        """The hockey-stick divergence sup P(S) - e^ε Q(S) at each ε, negative ones too; a tiny one is rounded."""
        tails = self.above(epsilons)
        return np.clip(tails.left - np.exp(np.minimum(epsilons, HUGE)) * tails.right, 0.0, 1.0)


def tails_on(pair: DominatingPair, levels: Array) -> Tails:
    """The tails above the levels, the last of which is at least the largest finite loss.

    Rounding may find a largest loss, which often has a mass of its own, above itself: so the last level is raised by a
    little, and what lies in between belongs to it.
    """
    raised = levels.copy()
    raised[-1] += LOSS_TOLERANCE * (1 + abs(raised[-1]))
    return pair.above(raised)


def epsilon_of_leak(delta: float, infinite: float, largest_finite: float) -> float | None:
    """The least ε >= 0 where δ is at most the mass of infinite losses; None where δ is more.

    At less there is no ε. If they are equal, up to rounding, every finite loss has to be within ε.
    """
    if math.isclose(delta, infinite, rel_tol=LEAK_ROUNDING):
        return max(0.0, largest_finite)
    return math.inf if delta < infinite else None


def check_epsilon(epsilon: float) -> None:
    if not 0 <= epsilon < math.inf:
        raise BadInput(f"epsilon must be finite and >= 0, got {epsilon!r}")


@dataclass(frozen=True)
class LaplacePair(DominatingPair):
    """Laplace noise on one number that moves by its sensitivity: `ratio` = sensitivity / scale, which is its ε."""

    ratio: float

    def __post_init__(self) -> None:
        check_epsilon(self.ratio)

    def above(self, levels: Array) -> Tails:
        # with noise of scale 1 around 0 and around ε, the loss at x is |x - ε| - |x|: ε up to 0, then ε - 2x, then -ε
        reach = np.clip((self.ratio - levels) / 2, 0.0, self.ratio)
        left, right = 1 - np.exp(-reach) / 2, np.exp(reach - self.ratio) / 2
        everything, nothing = levels < -self.ratio, levels >= self.ratio
        return Tails(
            np.where(everything, 1.0, np.where(nothing, 0.0, left)),
            np.where(everything, 1.0, np.where(nothing, 0.0, right)),
        )

    def delta_above(self, epsilon: float) -> float:
        return -math.expm1(epsilon) if epsilon < -self.ratio else -math.expm1(min(0.0, (epsilon - self.ratio) / 2))

    @property
    def span(self) -> LossSpan:
        return LossSpan(-self.ratio, self.ratio)

    @property
    def largest_finite(self) -> float:
        return self.ratio


@dataclass(frozen=True)
class GaussianPair(DominatingPair):
    """Normal noise on answers that move by their L2-sensitivity: `ratio` = sensitivity / standard deviation.

    The loss is normal with mean ratio²/2 under P, -ratio²/2 under Q, and standard deviation `ratio`.
    """

    ratio: float

    def __post_init__(self) -> None:
        if not 0 <= self.ratio < math.inf:
            raise BadInput(f"the sensitivity in standard deviations must be finite and >= 0, got {self.ratio!r}")

    def above(self, levels: Array) -> Tails:
        from scipy.special import ndtr

        if not self.ratio:
            return Tails(*(np.where(levels < 0, 1.0, 0.0),) * 2)
        return Tails(ndtr(self.ratio / 2 - levels / self.ratio), ndtr(-self.ratio / 2 - levels / self.ratio))

    def delta_above(self, epsilon: float) -> float:
        return gaussian_delta(epsilon, self.ratio)

    @property
    def span(self) -> LossSpan:
        middle = self.ratio**2 / 2
        return LossSpan(middle - TAIL * self.ratio, middle + TAIL * self.ratio)

    @property
    def largest_finite(self) -> float:
        return math.inf if self.ratio else 0.0


@dataclass(frozen=True, eq=False)
class Finite(DominatingPair):
    """Finitely many losses, in ascending order, with their probabilities under P; and that of an infinite loss."""

    losses: Array
    masses: Array
    unbounded: float = 0.0

    @classmethod
    def of(cls, left: Iterable[float], right: Iterable[float]) -> Finite:
        """The pair of two distributions, given by the probabilities of the same outputs in the same order.

        >>> Finite.of([0.75, 0.25], [0.25, 0.75]).delta(np.array([0.0])).item()
        0.5
        """
        p, q = np.fromiter(left, dtype=float), np.fromiter(right, dtype=float)
        for name, side in (("left", p), ("right", q)):
            if side.shape != p.shape or np.any(side < 0) or not math.isclose(side.sum(), 1.0, abs_tol=1e-9):
                raise BadInput(
                    f"{name} = {side} is not a distribution; give probabilities >= 0 that sum to 1, as many as on the "
                    f"other side"
                )
        both = (p > 0) & (q > 0)
        return cls._grouped(np.log(p[both]) - np.log(q[both]), p[both], float(p[(p > 0) & (q == 0)].sum()))

    @classmethod
    def claimed(cls, epsilon: float, delta: float = 0.0) -> Finite:
        """The pair that dominates every (ε, δ)-private mechanism.

        With probability δ it tells everything, else it is randomised response (Kairouz, Oh and Viswanath, "The
        Composition Theorem for Differential Privacy", ICML 2015).
        """
        check_epsilon(epsilon)
        high = 1 / (1 + math.exp(-epsilon))
        masses = (1 - delta) * np.array([1 - high, high])
        return cls._grouped(np.array([-epsilon, epsilon]), masses, delta)

    @classmethod
    def _grouped(cls, losses: Array, masses: Array, unbounded: float) -> Finite:
        """Equal losses taken together, at the largest of them."""
        order = np.argsort(losses)
        losses, masses = losses[order], masses[order]
        new = np.concatenate([[True], np.diff(losses) > LOSS_TOLERANCE * (1 + np.abs(losses[1:]))])
        starts = np.flatnonzero(new)
        if not len(losses):
            return cls(losses, masses, unbounded)
        lasts = np.append(starts[1:], len(losses)) - 1
        return cls(losses[lasts], np.add.reduceat(masses, starts), unbounded)

    @property
    def infinite(self) -> float:
        return self.unbounded

    @cached_property
    def _from(self) -> Tails:
        """The probabilities of a loss from the k-th upwards."""
        left, right = self.masses, self.masses * np.exp(-self.losses)
        return Tails(*(np.append(np.cumsum(side[::-1])[::-1], 0.0) for side in (left, right)))

    def above(self, levels: Array) -> Tails:
        first = np.searchsorted(self.losses, levels, side="right")
        return Tails(self._from.left[first] + self.unbounded, self._from.right[first])

    @property
    def span(self) -> LossSpan:
        return LossSpan(float(self.losses[0]), float(self.losses[-1])) if len(self.losses) else LossSpan(0.0, 0.0)

    @property
    def largest_finite(self) -> float:
        return self.span.high

    @property
    def atoms(self) -> Finite:
        return self

    def delta_above(self, epsilon: float) -> float:
        above = self.losses > epsilon
        return float(self.masses[above] @ -np.expm1(epsilon - self.losses[above])) + self.unbounded

    def times(self, other: Finite) -> Finite | None:
        """Both at once, independently: losses add. None where there are too many to multiply out."""
        if len(self.losses) * len(other.losses) > MOST_ATOMS:
            return None
        return self._grouped(
            np.add.outer(self.losses, other.losses).ravel(),
            np.multiply.outer(self.masses, other.masses).ravel(),
            together([(self.unbounded, 1), (other.unbounded, 1)]),
        )

    def power(self, count: int) -> Finite | None:
        """Itself `count` times over, by repeated squaring; None where there are too many losses to multiply out."""
        result: Finite | None = ALIKE
        square: Finite | None = self
        while count and result is not None:
            if count % 2:
                result = None if square is None else result.times(square)
            count //= 2
            square = square.times(square) if count and square is not None else square
        return result


ALIKE = Finite(np.zeros(1), np.ones(1))  # two distributions that are the same


@dataclass(frozen=True, eq=False)
class ImpliedPair(DominatingPair):
    """What dominates a mechanism that is known by another notion: the pair of the (ε, δ) of least δ that it implies.

    Where it stands alone, and for its Rényi divergences, the notion itself is asked.
    """

    notion: Notion

    @cached_property
    def atoms(self) -> Finite:
        return Finite.claimed(*min(self.notion.implied, key=lambda point: point[1]))

    def above(self, levels: Array) -> Tails:
        return self.atoms.above(levels)

    def delta_above(self, epsilon: float) -> float:
        least = self.atoms.delta_above(epsilon)
        return least if epsilon < 0 else min(least, self.notion.delta(epsilon))

    def epsilon(self, delta: float) -> float:
        return self.notion.epsilon(delta)

    @property
    def span(self) -> LossSpan:
        return self.atoms.span

    @property
    def infinite(self) -> float:
        return self.atoms.infinite

    @property
    def largest_finite(self) -> float:
        return self.atoms.largest_finite


def pair_of_claim(claim: Claim) -> DominatingPair:
    """What dominates every mechanism that keeps the claim.

    It is exact for (ε, δ), Gaussian DP, and a trade-off curve: for each side of that polygon the pair has an
    output that is as likely under P as the side falls, and under Q as it is wide.
    """
    notion = claim.notion
    if notion is None:
        return Finite.claimed(claim.epsilon, claim.delta)
    if isinstance(notion, GaussianDP):
        return GaussianPair(notion.mu)
    if isinstance(notion, TradeoffCurve):
        alphas, betas = np.array(notion.points).T
        return Finite.of([1 - betas[0], *-np.diff(betas), 0.0], [0.0, *np.diff(alphas), 1 - alphas[-1]])
    return ImpliedPair(notion)


@dataclass(frozen=True, eq=False)
class Envelope(DominatingPair):
    """The smallest pair that dominates all of some: its δ is the largest of theirs at every ε.

    The largest of convex curves is convex, so there is such a pair; above a level, it has the masses of the curve that
    is largest there.
    """

    pairs: tuple[DominatingPair, ...]

    def above(self, levels: Array) -> Tails:
        tails = [pair.above(levels) for pair in self.pairs]
        deltas = np.array([tail.left - np.exp(levels) * tail.right for tail in tails])
        best = np.argmax(deltas, axis=0)[None, :]
        left, right = (
            np.take_along_axis(np.array([getattr(tail, side) for tail in tails]), best, axis=0)[0]
            for side in ("left", "right")
        )
        return Tails(left, right)

    def delta_above(self, epsilon: float) -> float:
        return max(pair.delta_above(epsilon) for pair in self.pairs)

    @property
    def span(self) -> LossSpan:
        spans = [pair.span for pair in self.pairs]
        return LossSpan(min(span.low for span in spans), max(span.high for span in spans))

    @property
    def infinite(self) -> float:
        return max(pair.infinite for pair in self.pairs)

    @property
    def largest_finite(self) -> float:
        return max(pair.epsilon(self.infinite) for pair in self.pairs)
