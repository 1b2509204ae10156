"""Proofs of (ε, δ): shifts of the noise that keep every event, priced by how their privacy loss is distributed.

An alignment is post-processing of shifted noise: the output on D is the same function of the shifted noise as the
output on D' is of the noise itself. So every divergence between the two outputs is at most that between the noise and
the shifted noise. Where all events have one shift, that is the loss of one shift of independent noise. Where they have
several, the largest of their losses counts. `veridp_check.alignment.divergence` has the argument in full.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from flint import arb, ctx

from veridp.adjacency import Polytope
from veridp.engines.prove.alignment.common_shifts import common_alignments, moves_freely, shared_alignments
from veridp.engines.prove.alignment.corner_losses import (
    Column,
    bound_over,
    columns_of,
    farthest,
    prices_of,
    squares_of,
    worst_of,
)
from veridp.engines.prove.alignment.proof import (
    Alignment,
    AlignmentProof,
    cheapest_alignments,
    weight_cost,
    whole_between_corners,
)
from veridp.engines.prove.alignment.shifts import (
    Rule,
)
from veridp.engines.prove.events import NoiseEvent, events_of
from veridp.engines.prove.explanation import Blame, moved_text
from veridp.kernel.distributions import LossBound
from veridp.kernel.noise import DiscreteGaussian, Laplace, Normal
from veridp.kernel.path import Path
from veridp.kernel.symbols import Noise, number_text
from veridp.mechanism import Mechanism
from veridp.numerics.balls import ball, rounded_down
from veridp.numerics.privacy_loss_distribution import LossLattice, LossSum
from veridp_check.alignment.divergence import largest_loss
from veridp_check.alignment.reader import read_divergence
from veridp_check.enclosures import MAX_EXPONENT
from veridp_check.losses.distribution import gaussian_reach, grid_of
from veridp_check.losses.largest import LargestLoss, NoiseLoss
from veridp_check.records import Seen

PRECISION = 256  # bits: as many as δ needs that is the difference of two probabilities
MAX_SEGMENTS = 500  # of the differences, for each event: past this, shifts are searched for all differences together
LARGEST_EPSILON = 700.0  # an ε above this is none
SUM_ROUNDING = 1 + 1e-8  # far more than that of a sum of losses in floats
GAUSSIAN_ROUNDING = 1 + 1e-10  # the same of losses that are on a lattice by themselves
DIVERGENCE_ROUNDING = 1e-12  # far more than that of a Rényi divergence in floats
NO_BETTER = 1 - 1e-6  # relative, of a δ
SLACK = (1e-13, 1e-11, 1e-9, 1e-7)  # by how much an ε found in floats is raised, until its δ is certain


@dataclass(frozen=True)
class GroupLoss:
    """A bound on the loss of a shift that several events have, over all differences of a polytope."""

    bound: LossBound
    moving: tuple[Noise, ...]
    weighted: bool = False  # whether the weights of the events depend on the data
    prices: tuple[tuple[Fraction, int], ...] = ()  # of Laplace noise, and how much moves at each, beside normal noise
    whole: tuple[tuple[DiscreteGaussian, int], ...] = ()  # noise that moves, and how far, where it is all such noise
    squares: Fraction | None = None  # Σ p² of Laplace and normal noise that moves by p scales, where it is all such

    @cached_property
    def _sum(self) -> LossSum | None:
        """The losses of several Laplace numbers together, on a grid that does not make them less."""
        prices = dict(self.prices)
        if sum(prices.values()) < 2 or self.weighted:
            return None
        step = grid_of(prices)
        return LossSum([_lattice(price, step, count) for price, count in self.prices])

    @cached_property
    def _whole_sum(self) -> LossSum | None:
        """The losses of discrete Gaussian noise of one variance: at a number k, (2kΔ + Δ²)/2v."""
        if self.weighted or len({noise for noise, _ in self.whole}) != 1:
            return None
        far = gaussian_reach(Fraction(self.whole[0][0].variance))
        return LossSum([_gaussian_lattice(*each, far, count) for each, count in Counter(self.whole).items()])

    @cached_property
    def _mixed(self) -> LargestLoss | None:
        """The losses of Laplace and of normal numbers together."""
        if self.weighted or not self.prices or not self.bound.squared:
            return None
        return LargestLoss(NoiseLoss(squared=self.bound.squared, prices=self.prices))

    @property
    def is_two_sided(self) -> bool:
        """Whether its loss is bounded on either side, but for what is normal."""
        known = not self.bound.lost or bool(self.whole)
        return not self.weighted and known and all(map(moves_freely, self.moving))

    @property
    def rho(self) -> Fraction:
        """The zCDP of a loss that is bounded on both sides: Σ p²/2 of Laplace and normal noise, else of all together.

        That of discrete Gaussian noise is Δ²/2v (Canonne, Kamath and Steinke 2020, Proposition 5).
        """
        if self.whole:
            return sum((move**2 / (2 * Fraction(noise.variance)) for noise, move in self.whole), start=Fraction(0))
        return (self.bound.pure**2 + self.bound.squared if self.squares is None else self.squares) / 2

    @property
    def is_known(self) -> bool:
        """Whether all that moves is Laplace or normal noise."""
        return not self.weighted and all(isinstance(noise.distribution, Laplace | Normal) for noise in self.moving)

    def divergence(self, alpha: float) -> float:
        """The Rényi divergence of such noise, just above it; `veridp_check.alignment.divergence` has the formula."""
        found = alpha * float(self.bound.squared) / 2
        for price, count in self.prices:
            p = float(price)
            if (alpha - 1) * price > MAX_EXPONENT:
                found += count * p
                continue
            moment = np.logaddexp((alpha - 1) * p + math.log(alpha), math.log(alpha - 1) - alpha * p)
            found += count * min(p, float(moment - math.log(2 * alpha - 1)) / (alpha - 1))
        return found * (1 + DIVERGENCE_ROUNDING) + DIVERGENCE_ROUNDING

    def delta(self, epsilon: arb) -> arb:
        """E[(1 - e^(ε - L))₊], or a bound above it."""
        found = self.delta_in_closed_form(epsilon)
        if self._mixed is None or not found > 0:
            return found
        return found.min(ball(self._mixed.delta_above(Fraction(rounded_down(epsilon)))))

    def delta_alone(self, epsilon: arb) -> arb | None:
        """The same where it is exact, as for normal noise or one Laplace number; None elsewhere."""
        kinds = {type(noise.distribution) for noise in self.moving}
        exact = kinds == {Normal} or (kinds == {Laplace} and len(self.moving) == 1)
        return self.delta_in_closed_form(epsilon) if exact and not self.weighted else None

    def delta_in_closed_form(self, epsilon: arb) -> arb:
        """The same, by the largest loss of what is not normal."""
        pure, squared, lost = (ball(part) for part in (self.bound.pure, self.bound.squared, self.bound.lost))
        left = epsilon - pure
        if self._whole_sum is not None:
            return arb(self._whole_sum.delta(float(epsilon)) * GAUSSIAN_ROUNDING)
        if len(self.moving) == 1 and not self.weighted:
            alone: arb | None = self.moving[0].distribution.delta_alone(pure, epsilon)
            if alone is not None:
                return alone
        if not self.bound.squared:
            found = lost if left >= 0 else lost + 1 - left.exp()
            if left >= 0 or self._sum is None:
                return found
            return found.min(arb(self._sum.delta(float(epsilon)) * SUM_ROUNDING))
        mu = squared.sqrt()
        return lost + normal_below(mu / 2 - left / mu) - left.exp() * normal_below(-mu / 2 - left / mu)


def _largest_divergence(loss: LargestLoss, alpha: float) -> float:
    found = loss.divergence_above(Fraction(alpha))
    return math.inf if found is None else float(found) * (1 + DIVERGENCE_ROUNDING)


def _lattice(price: Fraction, step: Fraction, count: int) -> LossLattice:
    """Losses on a grid, of a δ that is that of Laplace noise at its points and linear in e^ε between them;
    `veridp_check.losses.distribution` has the argument."""
    half = math.ceil(price / step)
    h, p = float(step), float(price)
    at = np.arange(-half - 1, half + 2) * h
    delta = np.where(at >= p, 0.0, -np.expm1(np.where(at <= -p, at, (at - p) / 2)))
    masses = np.diff(np.diff(delta) * np.exp(-at[:-1])) * np.exp(at[1:-1]) / math.expm1(h)
    inside = np.abs(np.arange(-half, half + 1)) <= half - 2
    even = np.exp((at[1:-1] - p) / 2) * math.tanh(h / 4)
    return LossLattice(0.0, -half, np.where(inside, even, np.maximum(masses, 0.0)), h, count, 0.0)


def _gaussian_lattice(noise: DiscreteGaussian, move: int, far: int, count: int) -> LossLattice:
    """The losses of discrete Gaussian noise that is shifted by so much; what lies beyond `far` counts as lost."""
    step = 1 / float(noise.variance)
    masses = np.zeros(2 * far * move + 1)
    masses[::move] = noise.masses(far)
    lost = 2 * math.exp(float(noise.log_above(np.array([far + 1.0]))[0]))
    return LossLattice(move**2 * step / 2, -far * move, masses, step, count, lost)


def normal_below(x: arb) -> arb:
    return (-x / arb(2).sqrt()).erfc() / 2


@dataclass(frozen=True, eq=False)
class DivergenceProof(AlignmentProof):
    """For all neighbours of this size: the least ε at a δ, and how every event is carried over."""

    losses: tuple[tuple[GroupLoss, ...], ...] = field(default=(), kw_only=True)  # for each polytope
    largest: tuple[LargestLoss | None, ...] = field(default=(), kw_only=True)  # of all groups, where that is less

    def delta(self, epsilon: float) -> float:
        with ctx.workprec(PRECISION):
            return min(float(_delta(self.losses, self.largest, arb(epsilon)).upper()), 1.0)

    @cached_property
    def exact_notions(self) -> dict[str, Fraction | None]:
        """ρ of zCDP and μ of Gaussian DP as rationals, rounded up; None where none follows.

        Pure ε is ε²/2-zCDP, normal noise μ²/2-zCDP (Bun and Steinke 2016, Propositions 3.3 and 1.6), and they add up.
        Gaussian DP follows where all noise that moves is normal; neither where events have different shifts, or a loss
        is bounded on one side alone.
        """
        common = self._common_loss
        if common is None:
            return {"rho": None, "mu": None}
        mu = None if common.pure or common.lost else root_above(common.squared)
        return {"rho": max(group.rho for groups in self.losses for group in groups), "mu": mu}

    @property
    def is_known(self) -> bool:
        """Whether Laplace and normal noise alone move: then Rényi divergences are known, of the largest loss too."""
        known = all(group.is_known for groups in self.losses for group in groups)
        pairs = zip(self.losses, self.largest, strict=True)
        return known and all(len(groups) == 1 or largest is not None for groups, largest in pairs)

    def divergence(self, alpha: float) -> float:
        """The Rényi divergence of this order, where it is known: those of independent noise add up."""
        pairs = zip(self.losses, self.largest, strict=True)
        return max(
            groups[0].divergence(alpha) if largest is None else _largest_divergence(largest, alpha)
            for groups, largest in pairs
        )

    def rdp(self, alpha: float) -> float:
        return min(super().rdp(alpha), self.divergence(alpha)) if self.is_known else super().rdp(alpha)

    @property
    def _common_loss(self) -> LossBound | None:
        """What bounds the loss on both sides, where there is one shift for all events over each polytope."""
        if any(len(groups) > 1 or not groups[0].is_two_sided for groups in self.losses):
            return None
        return worst_of([group.bound for groups in self.losses for group in groups])

    @property
    def certificate(self) -> dict[str, Any]:
        from veridp.engines.prove.certificate import divergence_certificate

        return divergence_certificate(self)

    @cached_property
    def blame(self) -> Blame | None:
        """The noise whose shift loses most, where it is drawn."""
        if math.isinf(self.epsilon):
            return super().blame
        event, corner, shift = self.worst
        moves = [(noise, move) for noise, move in zip(event.noises, shift.moves or (), strict=True) if move]
        if not moves or not self.epsilon:
            return None
        noise, move = max(moves, key=lambda each: sum(vars(each[0].distribution.shift_loss(each[1])).values()))
        moved = ", ".join(f"{value:+g}" for value in corner)
        own = GroupLoss(noise.distribution.shift_loss(move), (noise,), whole=whole_moves({noise: abs(move)}))
        sentence = f"{moved_text(noise, move)} when the data move by ({moved}): {_loss_text(own)}"
        return Blame("output", sentence, noise.site.file, noise.site.line, self.epsilon)

    @property
    def explained(self) -> str:
        event, corner, shift = self.worst
        moved = ", ".join(f"{value:+g}" for value in corner)
        where = f"the same output {event.output} when the data move by ({moved})"
        if math.isinf(self.epsilon):
            return f"no shift of the noise was found that gives {where} at a finite ε"
        moves = zip(event.noises, shift.moves or (), strict=True)
        steps = " and ".join(moved_text(noise, move) for noise, move in moves if move)
        groups = max(self.losses, key=len)
        return (
            f"to give {where}, {steps or 'no noise needs to shift'}; {' and '.join(map(_loss_text, groups))}: "
            f"(ε, δ) = ({self.epsilon:.6g}, {self.at_delta:.6g})"
        )


def root_above(square: Fraction) -> Fraction:
    """The root where it is rational, else a decimal just above it."""
    whole = Fraction(math.isqrt(square.numerator), math.isqrt(square.denominator))
    if whole * whole == square:
        return whole
    root = Fraction(f"{math.sqrt(square) * (1 + 1e-13):.15g}")
    return root if root * root >= square else Fraction(math.nextafter(float(root), math.inf))


def _loss_text(group: GroupLoss) -> str:
    """What bounds the loss of a shift, in words."""
    bound = group.bound
    if group.whole:
        return f"discrete Gaussian noise shifted by {math.sqrt(2 * group.rho):.6g} standard deviations"
    parts = [f"a pure loss of at most {number_text(bound.pure)}"] * bool(bound.pure)
    parts += [f"normal noise shifted by {math.sqrt(bound.squared):.6g} standard deviations"] * bool(bound.squared)
    parts += [f"a probability of {float(bound.lost):.6g} to leave the support"] * bool(bound.lost)
    return ", ".join(parts) or "no loss"


def prove_by_divergence(
    mechanism: Mechanism,
    size: int,
    paths: Sequence[Path],
    polytopes: tuple[Polytope, ...],
    delta: float,
    records: tuple[Seen, ...] = (),
    weighted: Sequence[NoiseEvent] | None = None,
    segments: tuple[Polytope, ...] = (),
) -> DivergenceProof:
    """The smallest ε at this δ for which shifts carry the events of the paths over all differences of the polytopes.

    Three ways are tried: one shift for all events, the one with the least variance of its loss; the cheapest shift of
    each event by itself, unless all are of numbers alone, which any shift has to keep; and one shift for all events
    with an extra shift for each, as cheap together as can be. `preference` says which of them is taken. `segments` are
    polytopes that together are as much as the others, and tell more of which noise moves: they are taken unless they
    are too many.
    """
    events = tuple(events_of(paths) if weighted is None else weighted)
    if segments and weighted is None and len(segments) * len(events) <= MAX_SEGMENTS:
        polytopes = segments
    common = common_alignments(events, polytopes)
    tried = [] if common is None else [common]
    if common is None or any(event.conditions for event in events):
        tried.append(cheapest_alignments(events, polytopes, with_delta=True))
        shared = shared_alignments(events, polytopes)
        tried += [] if shared is None else [shared]
    best: DivergenceProof | None = None
    for alignments in tried:
        found = _priced(mechanism, size, events, polytopes, alignments, delta, records, best)
        best = found if best is None or preference(found) < preference(best) else best
    if best is None:
        raise AssertionError("there is always an alignment to try")
    return best


def preference(proof: AlignmentProof) -> tuple[bool, float]:
    """What is least of the proof to choose: one that covers the claim, if that is in another notion than (ε, δ), comes
    first; then the least ε."""
    claim = proof.claim
    if claim is None or claim.notion is None:
        return False, proof.epsilon
    return math.isinf(proof.epsilon) or not claim.covers_proof(proof), proof.epsilon


def _priced(
    mechanism: Mechanism,
    size: int,
    events: tuple[NoiseEvent, ...],
    polytopes: tuple[Polytope, ...],
    alignments: Sequence[Sequence[Alignment]],
    delta: float,
    records: tuple[Seen, ...],
    best: DivergenceProof | None,
) -> DivergenceProof:
    rows = tuple(tuple(row) for row in alignments)
    proof = DivergenceProof(mechanism, size, math.inf, None, events, polytopes, rows, records=records, at_delta=delta)
    if any(math.isinf(alignment.cost) for row in rows for alignment in row) or whole_between_corners(proof):
        return proof
    losses = tuple(_losses(events, [row[p] for row in rows], p, polytope) for p, polytope in enumerate(polytopes))
    proof = replace(proof, losses=losses, largest=(None,) * len(losses))
    if best is not None and math.isfinite(best.epsilon):
        alone = [group.delta_alone(arb(best.epsilon)) for groups in losses for group in groups]
        if any(found is not None and found > arb(delta * NO_BETTER) for found in alone):
            return proof  # the largest loss would have no less
    proof = replace(proof, largest=_largest_losses(proof))
    epsilon = least_epsilon(lambda at: _delta(losses, proof.largest, at), delta)
    return proof if epsilon is None else replace(proof, epsilon=float(epsilon), exact_epsilon=epsilon)


def _largest_losses(proof: DivergenceProof) -> tuple[LargestLoss | None, ...]:
    """What bounds the largest loss over each polytope by the checker's own rule; None where there is one shift."""
    if all(len(groups) == 1 for groups in proof.losses):
        return (None,) * len(proof.losses)
    certificate = read_divergence(replace(proof, exact_epsilon=Fraction(0)).certificate)
    return tuple(largest_loss(certificate, p) if len(groups) > 1 else None for p, groups in enumerate(proof.losses))


# --------------------------------------------------------------------------------------------------------------- prices


def _losses(
    events: Sequence[NoiseEvent], alignments: Sequence[Alignment], p: int, polytope: Polytope
) -> tuple[GroupLoss, ...]:
    """Bounds on the losses of the different shifts of the events, over one polytope.

    Events are in one group where their shifts agree on the noise that they share.
    """
    groups: list[tuple[object, dict[Noise, Column], list[Fraction]]] = []
    for event, alignment in zip(events, alignments, strict=True):
        form = alignment.form
        shape = "rule" if isinstance(form, Rule) else (form.entries, form.whole)
        columns = dict(zip(event.noises, columns_of(form, len(event.noises)), strict=True))
        group = next(
            (g for g in groups if g[0] == shape and all(g[1].get(n, c) == c for n, c in columns.items())), None
        )
        if group is None:
            group = shape, {}, []
            groups.append(group)
        group[1].update(columns)
        group[2].append(Fraction(weight_cost(event, p)))
    found = []
    for _, columns, weights in groups:
        moving = tuple(noise for noise, column in columns.items() if farthest(column, polytope))
        bound = bound_over(columns, polytope) + LossBound(pure=max(weights))
        whole = whole_moves({noise: farthest(columns[noise], polytope) for noise in moving})
        convex = all(isinstance(noise.distribution, Laplace | Normal) for noise in moving)
        squares = bound_over(columns, polytope, squares_of).squared if convex else None
        found.append(GroupLoss(bound, moving, max(weights) > 0, prices_of(columns, polytope), whole, squares))
    return tuple(found)


def whole_moves(moves: Mapping[Noise, Fraction]) -> tuple[tuple[DiscreteGaussian, int], ...]:
    """How far discrete Gaussian noise moves; nothing where other noise moves too."""
    found = [(noise.distribution, int(move)) for noise, move in moves.items()]
    every = all(isinstance(law, DiscreteGaussian) for law, _ in found)
    return tuple(found) if every else ()  # type: ignore[arg-type]


def _delta(losses: Sequence[Sequence[GroupLoss]], largest: Sequence[LargestLoss | None], epsilon: arb) -> arb:
    """The δ at this ε: over each polytope the sum of the groups', or that of their largest loss; the most of these."""
    worst = arb(0)
    for groups, loss in zip(losses, largest, strict=True):
        if loss is None:
            total = sum((group.delta(epsilon) for group in groups), start=arb(0))
        else:
            total = sum((group.delta_in_closed_form(epsilon) for group in groups), start=arb(0))
            total = total.min(ball(loss.delta_above(Fraction(rounded_down(epsilon)))))
        worst = worst.max(total)
    return worst


def least_epsilon(delta_at: Callable[[arb], arb], delta: float, pure: Fraction | None = None) -> Fraction | None:
    """The least ε at which δ is no more than this, up to rounding upwards; None where there is none.

    It is no more than `pure`, an ε at which δ is 0, where there is one.
    """
    with ctx.workprec(PRECISION):

        def holds(epsilon: Fraction) -> bool:
            return bool(delta_at(ball(epsilon)) <= arb(delta))

        if holds(Fraction(0)):
            return Fraction(0)
        if not delta:
            return pure if pure is not None and holds(pure) else None
        high = 1.0
        while not holds(Fraction(high)):
            high *= 2
            if high > LARGEST_EPSILON:
                return None
        found = least_where(lambda epsilon: holds(Fraction(epsilon)), 0.0, high)
        stated = (Fraction(f"{found * (1 + slack):.14g}") for slack in SLACK)
        return next((epsilon for epsilon in stated if holds(epsilon)), Fraction(high))


def least_where(holds: Callable[[float], bool], low: float, high: float) -> float:
    """The least number at which it holds, as far as floats tell; it holds at `high` and not at `low`."""
    while low < (middle := (low + high) / 2) < high:
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
