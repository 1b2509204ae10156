"""Couplings that may pay: what cannot be carried over to a neighbour is given up, and its probability is paid as δ.

For every output of a part there are several ways, each with what it pays at a given ε. The shares of a pure coupling
pay nothing once ε is what they cost. Shifts of noise pay by how their loss is distributed. An output without numbers
pays by how much more likely it is than e^ε times what it is on the other side. Any output can be given up, for its
probability. `veridp_check.coupling.approximate` has the argument.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from flint import arb, ctx

from veridp.engines.prove.alignment.corner_losses import loss_of
from veridp.engines.prove.alignment.divergence import (
    LARGEST_EPSILON,
    PRECISION,
    GroupLoss,
    least_where,
    normal_below,
    whole_moves,
)
from veridp.engines.prove.alignment.proof import CornerShifts, cheapest
from veridp.engines.prove.cases import OutputPart
from veridp.engines.prove.certificate import decimal_above
from veridp.engines.prove.coupling.search import (
    NO_DIFFERENCE,
    NO_LOSS,
    Coupling,
    CouplingLoss,
    Transport,
    couple_output,
    shift_problem,
)
from veridp.engines.prove.events import WeightedEvent
from veridp.engines.prove.opaque import has_opaque
from veridp.kernel.expressions import Condition
from veridp.kernel.flow.retries import ends_of
from veridp.kernel.noise import (
    Binomial,
    Exponential,
    Geometric,
    Gumbel,
    Integers,
    Laplace,
    Logistic,
    Normal,
    Uniform,
)
from veridp.kernel.output import Template
from veridp.kernel.symbols import Noise
from veridp.numerics.balls import ball

CHANCE_ROUNDING = 1e-11  # relative, of a probability that was computed in floats
WEIGHT_EXCESS = 1e-9  # relative, that may be paid: more than what such rounding makes of two weights that are the same
# Noise of which the checker knows how likely it is to lie between two numbers.
CHECKED = (Laplace, Normal, Exponential, Gumbel, Logistic, Uniform, Integers, Geometric, Binomial)


@dataclass(frozen=True)
class _Way:
    """What may happen to an output: shares that are carried over, or none; and what is paid at an ε."""

    paid: Callable[[float], float]
    transports: tuple[Transport, ...] = ()
    least: CouplingLoss | None = None  # the cost of a pure coupling, below which this is no way


def couple_with_delta(left: OutputPart, right: OutputPart, delta: float) -> Coupling:
    """The coupling of the smallest ε that pays at most δ; that of two values of the data."""
    if left is right:
        return Coupling(NO_LOSS, None, ())
    ways = {output: list(_ways(output, left, right)) for output in left.by_output}
    allowed = delta * (1 - CHANCE_ROUNDING)

    def total(epsilon: float) -> float:
        return sum(min(way.paid(epsilon) for way in found) for found in ways.values())

    steps = sorted({loss.epsilon: loss for found in ways.values() for way in found if (loss := way.least)}.items())
    epsilon = _least(total, allowed, steps)
    if epsilon is None:
        return Coupling(None, max(ways, key=lambda output: min(way.paid(math.inf) for way in ways[output])), ())
    at = float(epsilon)
    chosen = {output: min(found, key=lambda way: way.paid(at)) for output, found in ways.items()}
    transports = tuple(transport for way in chosen.values() for transport in way.transports)
    worst = max(chosen, key=lambda output: chosen[output].paid(0.0), default=None)
    return Coupling(CouplingLoss(epsilon, Fraction(1)), worst, transports, Fraction(delta))


def _least(
    total: Callable[[float], float], delta: float, steps: Sequence[tuple[float, CouplingLoss]]
) -> Fraction | None:
    """The smallest ε at which no more than δ is paid. What is paid falls with ε, and jumps at the steps."""
    low = 0.0
    if total(low) <= delta:
        return Fraction(0)
    for at, loss in steps:
        stated = loss.cost if loss.ratio == 1 else decimal_above(at)
        if total(float(stated)) <= delta:
            before = math.nextafter(at, 0.0)
            if before <= low or total(before) > delta:
                return stated
            return _raised(least_where(lambda epsilon: total(epsilon) <= delta, low, before))
        low = max(low, at)
    high = max(2 * low, 1.0)
    while total(high) > delta:
        high *= 2
        if high > LARGEST_EPSILON:
            return None
    return _raised(least_where(lambda epsilon: total(epsilon) <= delta, low, high))


def _raised(epsilon: float) -> Fraction:
    return Fraction(f"{epsilon * (1 + CHANCE_ROUNDING):.14g}")


def _ways(output: Template, left: OutputPart, right: OutputPart) -> list[_Way]:
    sources = {i: _integrated(piece, 1) for i, piece in left.by_output[output].items()}
    least = {j: _integrated(piece, -1) for j, piece in right.by_output.get(output, {}).items()}
    targets = {j: piece for j, piece in least.items() if piece.weight}
    pieces = [*sources.values(), *targets.values()]
    likely = sum(_bounds(piece)[1] for piece in sources.values())
    found = [_Way(lambda _: likely)]
    if not any(piece.numbers for piece in pieces):
        other = sum(_bounds(piece)[0] for piece in targets.values())
        found.append(_Way(lambda epsilon: max(likely - math.exp(min(epsilon, LARGEST_EPSILON)) * other, 0.0)))
    if not targets or has_opaque(pieces):
        return found
    pure = couple_output(output, sources, targets, NO_DIFFERENCE, (), same=False, right=right.pieces)
    if pure.loss is not None and pure.transports:
        enough = pure.loss.epsilon
        found.append(_Way(lambda epsilon: 0.0 if epsilon >= enough else math.inf, pure.transports, pure.loss))
    shifted = _shifted(sources, targets)
    return found if shifted is None else [*found, shifted]


def _shifted(sources: Mapping[int, WeightedEvent], targets: Mapping[int, WeightedEvent]) -> _Way | None:
    """Each event shifted into one of its own, as likely as itself where there is one; None where that cannot be."""
    transports: list[Transport] = []
    losses: list[_ShiftedEvent] = []
    free = dict(targets)
    for i, source in sources.items():
        tasks = {j: shift_problem(source, target, NO_DIFFERENCE, (), with_delta=True) for j, target in free.items()}
        known = {j: task for j, task in tasks.items() if task is not None}
        enough = source.weight * (1 - Fraction(WEIGHT_EXCESS))
        best = min(
            zip(known, cheapest(list(known.values())), strict=True),
            key=lambda each: (math.isinf(each[1].cost), enough > free[each[0]].weight, each[1].cost),
            default=None,
        )
        if best is None or math.isinf(best[1].cost) or not isinstance(best[1].form, CornerShifts):
            return None
        target = free.pop(best[0])
        gained = CouplingLoss(Fraction(0), source.weight / target.weight).epsilon if target.weight else math.inf
        transports.append(Transport(i, best[0], Fraction(1), best[1]))
        losses.append(_ShiftedEvent(source, tuple(best[1].shift.moves or ()), -gained))
    return _Way(lambda epsilon: sum(each.paid(epsilon) for each in losses), tuple(transports))


@dataclass(frozen=True)
class _ShiftedEvent:
    """An event whose noise is moved; and by how much its loss is less, since it becomes one with another weight."""

    source: WeightedEvent
    moves: tuple[Fraction, ...]
    room: float

    @cached_property
    def loss(self) -> GroupLoss:
        moved = {noise: abs(move) for noise, move in zip(self.source.noises, self.moves, strict=True) if move}
        return GroupLoss(loss_of(self.source.noises, self.moves), tuple(moved), whole=whole_moves(moved))

    def paid(self, epsilon: float) -> float:
        if math.isinf(self.room):
            return float(self.source.weight)
        at = min(epsilon, LARGEST_EPSILON) + self.room
        whole = max(float(self.loss.delta(arb(at))), 0.0)
        return float(self.source.weight) * min(whole, self._within(Fraction(at)))

    def _within(self, epsilon: Fraction) -> float:
        """What is paid within the conditions on each noise alone, where one of them moves; else 1."""
        found = self._still
        for noise, move in zip(self.source.noises, self.moves, strict=True):
            law = noise.distribution
            if not move:
                continue
            if len(self.loss.moving) > 1 or not isinstance(law, Laplace | Normal):
                return 1.0
            found *= _delta_within(law, move, ends_of(noise, self._own(noise)), epsilon) * (1 + CHANCE_ROUNDING)
        return found if any(self.moves) else found * max(-math.expm1(min(float(epsilon), 1.0)), 0.0)

    @cached_property
    def _still(self) -> float:
        """The probability of the conditions on noise that does not move, on each alone."""
        still = [noise for noise, move in zip(self.source.noises, self.moves, strict=True) if not move]
        return math.prod(_chance(n, own)[1] for n in still if (own := self._own(n)))

    def _own(self, noise: Noise) -> list[Condition]:
        return [c for c in self.source.conditions if set(c.slack.terms) == {noise}]


def _delta_within(
    noise: Laplace | Normal, move: Fraction, ends: tuple[Fraction | None, Fraction | None], epsilon: Fraction
) -> float:
    """E[(1 - e^(ε - L))₊] where the noise lies between the ends. Its loss exceeds ε on one side of a point.

    Of normal noise the loss is ε at εσ²/Δ - Δ/2, and of Laplace noise at (εb - |Δ|)/2 in the direction of Δ. That of
    Laplace noise is never below -|Δ|/b.
    """
    scale, (low, high) = Fraction(noise.scale), ends
    if isinstance(noise, Laplace) and epsilon >= abs(move) / scale:
        return 0.0
    turn = epsilon * scale**2 / move - move / 2
    if isinstance(noise, Laplace):
        turn = (epsilon * scale - abs(move)) / 2 * (1 if move > 0 else -1)
    if isinstance(noise, Laplace) and epsilon <= -abs(move) / scale:
        pass
    elif move > 0:
        low = turn if low is None else max(low, turn)
    else:
        high = turn if high is None else min(high, turn)
    with ctx.workprec(PRECISION):
        likely = _mass_between(noise, low, high)
        moved = _mass_between(noise, *(None if end is None else end + move for end in (low, high)))
        return max(float((likely - ball(epsilon).exp() * moved).upper()), 0.0)


def _mass_between(noise: Laplace | Normal, low: Fraction | None, high: Fraction | None) -> arb:
    if low is not None and high is not None and low >= high:
        return arb(0)
    below, up_to = (
        None if end is None else _mass_below(noise, ball(end / Fraction(noise.scale))) for end in (low, high)
    )
    return (arb(1) if up_to is None else up_to) - (arb(0) if below is None else below)


def _mass_below(noise: Laplace | Normal, z: arb) -> arb:
    if isinstance(noise, Normal):
        return normal_below(z)
    return z.exp() / 2 if z < 0 else 1 - (-z).exp() / 2


def _integrated(piece: WeightedEvent, way: int) -> WeightedEvent:
    """The event without the noise that it only compares with constants, at a weight that is rounded up, or down."""
    if has_opaque([piece]):
        return piece
    weight, kept = piece.weight, []
    for noise in piece.noises:
        asked = [condition for condition in piece.conditions if noise in condition.slack.terms]
        released = noise in piece.event.sources or any(noise in number.terms for number in piece.numbers)
        if released or not all(map(_is_alone, asked)):
            kept.append(noise)
        elif asked:
            weight *= Fraction(_chance(noise, asked)[way > 0])
    conditions = [c for c in piece.conditions if not _is_alone(c) or set(c.slack.terms) <= set(kept)]
    return WeightedEvent(piece.event, weight, tuple(kept), tuple(conditions))


def _is_alone(condition: Condition) -> bool:
    """Whether it is a condition on one noise alone."""
    return len(condition.slack.terms) == 1


def _bounds(piece: WeightedEvent) -> tuple[float, float]:
    """Numbers that the probability of the event lies between."""
    low = high = float(piece.weight)
    for noise in piece.noises:
        own = [condition for condition in piece.conditions if set(condition.slack.terms) == {noise}]
        if own:
            least, most = _chance(noise, own)
            low, high = low * least, high * most
    known = all(map(_is_alone, piece.conditions))
    return (low * (1 - CHANCE_ROUNDING) if known else 0.0), min(high * (1 + CHANCE_ROUNDING), 1.0)


def _chance(noise: Noise, conditions: Sequence[Condition]) -> tuple[float, float]:
    """Numbers that the probability of these conditions lies between; 0 and 1 where the checker knows no better."""
    if not isinstance(noise.distribution, CHECKED):
        return 0.0, 1.0
    low, high = ends_of(noise, conditions)
    ends = (-math.inf if low is None else float(low)), (math.inf if high is None else float(high))
    chance = float(np.exp(noise.distribution.log_between(np.array([ends[0]]), np.array([ends[1]]))[0]))
    return chance * (1 - CHANCE_ROUNDING), chance * (1 + CHANCE_ROUNDING)
