"""Whether a certificate of couplings proves (ε, δ). Part of the checker.

Cases are values of the data, and parts, events and shifts are those of couplings; what differs is what is paid. Let the
left part give an output o by its events i, and the right part by its events j. Three things may happen to o:

- Every event of it is carried into events of the right with the same output, as couplings do. With shares λ of an event
  of weight w, and a shift of loss L, the share has a probability of at most e^cost times that of the noise that it
  becomes, plus λ w E[(1 - e^(cost - L))₊; the event], which is paid. Where L is at most `pure` <= cost, nothing is
  paid, and e^cost may be taken down to e^pure. This holds with any real number c for the cost: where one event alone
  comes into an event of the right, of weight v, c is cost - ln(λ w/v), so that no more comes in than e^cost v. Where
  several come in, and more than its weight, shares of the excess are given up: their probability is paid.
- It has no numbers: then P_left[o] - e^cost P_right[o] is paid, where it is above 0.
- It is given up: P_left[o] is paid.

So for every set S of outputs of the part, P_left[S] <= e^cost P_right[S] + what is paid. Independent parts add up their
costs and what they pay (basic composition). A part that is the same on both sides costs and pays nothing.

Noise that an event only compares with constants is integrated out first, as finite choices are: the weight of the event
is multiplied by its probability, or by rationals just above it on the left, and just below it on the right. So an event
may be carried into one that draws less noise, or more.

Where one noise moves, by Δ, conditions on it alone leave it between two numbers. Let f be its density. Of normal and of
Laplace noise, L = ln f(η)/f(η + Δ) nowhere falls as η moves in the direction of Δ, and exceeds the cost just beyond a
number t: cost·σ²/Δ - Δ/2 of normal noise; of Laplace noise of scale b, for |cost| < |Δ|/b, (cost·b - Δ)/2 for Δ > 0 and
-(cost·b + Δ)/2 for Δ < 0; it does so nowhere for a larger cost, and everywhere for one below -|Δ|/b. So what is paid is
P[η in I] - e^cost P[η in I + Δ], where I is what lies beyond t of that interval; times the probability of the
conditions on other noise alone. Conditions on several draws only make it less.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from veridp_check.alignment.divergence import delta_above, discrete_delta_above, total_loss
from veridp_check.alignment.reader import ShiftTable
from veridp_check.coupling.cases import check_cases, check_neighbours
from veridp_check.coupling.checker import (
    CouplingUse,
    EventPiece,
    by_output,
    carried_by,
    check_parts,
    ends_of,
    piece_of,
    uses,
)
from veridp_check.coupling.reader import Cases, EventTransport
from veridp_check.document import CertificateFlaw, LinearCondition, decimal_of, text_of
from veridp_check.enclosures import exp_above, exp_below, log_above
from veridp_check.noise import OPAQUE, NoiseDraw, probability_bounds
from veridp_check.shifts import check_kept, count

SYMMETRIC = ("normal", "laplace")
LOG_ROOM = Fraction(1, 1 << 100)  # more than what a logarithm is rounded up by
MOST_ROOM = Fraction(100)


def check_couplings(certificate: Cases) -> str:
    """Every coupling pays no more than it says."""

    @cache
    def pieces(part: int) -> list[IntegratedPiece]:
        events, noises = certificate.parts[part].events, certificate.noises
        return [IntegratedPiece.of(piece_of(event, noises), noises) for event in events]

    for use in uses(certificate):
        coupling = use.coupling
        if coupling.cost < 0 or coupling.delta < 0:
            raise CertificateFlaw(use.place, "a cost and a δ of at least 0 are needed")
        if coupling.left == coupling.right:
            continue
        paid = _paid(use, pieces(coupling.left), pieces(coupling.right))
        if paid > coupling.delta:
            raise CertificateFlaw(f"{use.place}/delta", f"it pays {decimal_of(paid)}, not {decimal_of(coupling.delta)}")
    return f"{count(len(certificate.couplings), 'coupling')}, each of which pays no more than its δ"


@dataclass(frozen=True)
class IntegratedPiece:
    """An event without the noise that it only compares with constants, and bounds of its weight then."""

    piece: EventPiece
    low: Fraction
    high: Fraction

    @classmethod
    def of(cls, piece: EventPiece, noises: Sequence[NoiseDraw]) -> IntegratedPiece:
        if any(noises[row].kind == OPAQUE for row in piece.rows):
            return cls(piece, piece.weight, piece.weight)
        released = {row for number in piece.event.numbers for row in number.noise}
        low = high = piece.weight
        kept = []
        for row in piece.rows:
            asked = [c for _, c in piece.conditions if c.slack.noise.get(row)]
            if row in released or not all(_is_alone(c) for c in asked):
                kept.append(row)
                continue
            least, most = probability_bounds(noises[row], *ends_of(noises[row], row, asked))
            low, high = low * least, high * most
        left = [(k, c) for k, c in piece.conditions if not _is_alone(c) or set(c.slack.noise) <= set(kept)]
        return cls(EventPiece(piece.event, piece.weight, tuple(kept), tuple(left)), low, high)

    def bounds(self, noises: Sequence[NoiseDraw]) -> tuple[Fraction, Fraction]:
        """Rationals that the probability of the event lies between.

        Conditions on one noise alone have a known probability, and are independent; others can only make it smaller.
        """
        low, high = self.low, self.high
        for row in self.piece.rows:
            own = [c for _, c in self.piece.conditions if _is_alone(c) and set(c.slack.noise) == {row}]
            if noises[row].kind != OPAQUE and own:
                least, most = probability_bounds(noises[row], *ends_of(noises[row], row, own))
                low, high = low * least, high * most
        known = all(_is_alone(c) for _, c in self.piece.conditions)
        opaque = any(noises[row].kind == OPAQUE for row in self.piece.rows)
        return (low if known and not opaque else Fraction(0)), high


def _is_alone(condition: LinearCondition) -> bool:
    """Whether it is a condition on one noise alone."""
    return len(condition.slack.noise) == 1 and not condition.slack.functions and not condition.slack.data


def _paid(use: CouplingUse, lefts: Sequence[IntegratedPiece], rights: Sequence[IntegratedPiece]) -> Fraction:
    """A rational that is not below what the coupling pays."""
    shared, load = [Fraction(0)] * len(lefts), [Fraction(0)] * len(rights)
    total, least = Fraction(0), [Fraction(1)] * len(rights)  # what a share of probability 1 becomes at least
    comes_in = Counter(transport.target for transport in use.coupling.transports)
    for t, transport in enumerate(use.coupling.transports):
        source, target = lefts[transport.source], rights[transport.target]
        amount = source.high * transport.share
        alone = comes_in[transport.target] == 1 and amount > 0 and target.low > 0
        room = _log_below(target.low / amount) if alone else Fraction(0)
        place = f"{use.place}/transports/{t}"
        factor, paid = _carried(use, source.piece, target.piece, transport, room, place)
        shared[transport.source] += transport.share
        load[transport.target] += amount * factor
        least[transport.target] = min(least[transport.target], factor)
        total += amount * paid
    total += sum(max(amount - rights[j].low, Fraction(0)) / least[j] for j, amount in enumerate(load))
    others = by_output([right.piece for right in rights])
    for output, found in by_output([left.piece for left in lefts]).items():
        mine = [i for i in found if lefts[i].high]
        if not any(shared[i] for i in mine):
            total += _given_up(use, [lefts[i] for i in mine], [rights[j] for j in others.get(output, ())])
            continue
        for i in mine:
            if shared[i] != 1:
                reason = f"the shares of event {i} sum to {text_of(shared[i])}, not 1"
                raise CertificateFlaw(f"{use.place}/transports", reason)
    return total


def _carried(
    use: CouplingUse, left: EventPiece, right: EventPiece, transport: EventTransport, room: Fraction, place: str
) -> tuple[Fraction, Fraction]:
    """What a share of probability 1 becomes, in units of e^cost, if it may cost so much more; and what it pays."""
    carried = carried_by(use, left, right, transport, place)
    check_kept(carried)
    if not isinstance(transport.shifts, ShiftTable):
        raise CertificateFlaw(f"{place}/shifts", "a table is needed between values, not a rule")
    (shift,) = transport.shifts.shifts  # one, as `check_kept` has found: there is one difference
    cost = use.coupling.cost + room
    bound = total_loss(carried.noises, range(len(shift.moves)), shift.moves)
    if not bound.squared and not bound.lost and bound.pure <= cost:
        return exp_above(bound.pure - use.coupling.cost), Fraction(0)
    becomes = exp_above(room)
    moving = [noise for noise, move in zip(carried.noises, shift.moves, strict=True) if move]
    discrete = discrete_delta_above(cost, moving, [move for move in shift.moves if move])
    if discrete is not None:
        return becomes, discrete
    return becomes, min(delta_above(cost, bound, moving), _paid_within(left, carried.noises, shift.moves, cost))


def _log_below(x: Fraction) -> Fraction:
    """A rational just below ln x, for x > 0; far below it for what is very large."""
    if x <= 1:
        return -log_above(1 / x) if x < 1 else Fraction(0)
    found = min(log_above(x) - LOG_ROOM, MOST_ROOM)
    return found if exp_above(found) <= x else Fraction(0)


def _paid_within(left: EventPiece, noises: Sequence[NoiseDraw], moves: Sequence[Fraction], cost: Fraction) -> Fraction:
    """What is paid for a shift of one noise, within the conditions on each noise alone; 1 where that is not known."""
    found = Fraction(1)
    for row, noise, move in zip(left.rows, noises, moves, strict=True):
        own = [c for _, c in left.conditions if _is_alone(c) and set(c.slack.noise) == {row}]
        if move and (noise.kind not in SYMMETRIC or sum(map(bool, moves)) > 1):
            return Fraction(1)
        ends = ends_of(noise, row, own)
        found *= delta_within(noise, move, ends, cost) if move else probability_bounds(noise, *ends)[1]
    return found if any(moves) else found * max(1 - exp_below(cost), Fraction(0))


def delta_within(
    noise: NoiseDraw, move: Fraction, ends: tuple[Fraction | None, Fraction | None], cost: Fraction
) -> Fraction:
    """A rational just above E[(1 - e^(cost - L))₊], where it lies between the ends, of normal or Laplace noise."""
    scale, (low, high) = noise.parameters[0], ends
    if noise.kind == "laplace" and cost >= abs(move) / scale:
        return Fraction(0)
    if noise.kind == "normal":
        turn = cost * scale**2 / move - move / 2
    else:
        turn = (cost * scale - move) / 2 if move > 0 else -(cost * scale + move) / 2
    if noise.kind == "laplace" and cost <= -abs(move) / scale:
        pass  # its loss is nowhere below the cost
    elif move > 0:
        low = turn if low is None else max(low, turn)
    else:
        high = turn if high is None else min(high, turn)
    most = probability_bounds(noise, low, high)[1]
    moved = (None if end is None else end + move for end in (low, high))
    return max(most - exp_below(cost) * probability_bounds(noise, *moved)[0], Fraction(0))


def _given_up(use: CouplingUse, mine: Sequence[IntegratedPiece], theirs: Sequence[IntegratedPiece]) -> Fraction:
    """What is paid for an output that is not carried over."""
    noises = use.certificate.noises
    likely = sum((each.bounds(noises)[1] for each in mine), start=Fraction(0))
    if any(each.piece.event.numbers for each in (*mine, *theirs)):
        return likely
    other = sum((each.bounds(noises)[0] for each in theirs), start=Fraction(0))
    return max(likely - exp_below(use.coupling.cost) * other, Fraction(0))


def check_totals(certificate: Cases) -> str:
    """No pair of cases loses more than ε, or pays more than δ."""
    worst = Fraction(0), Fraction(0)
    for k, pair in enumerate(certificate.pairs):
        couplings = [certificate.couplings[number] for number in pair.couplings]
        cost = sum((coupling.cost for coupling in couplings), start=Fraction(0))
        delta = sum((coupling.delta for coupling in couplings), start=Fraction(0))
        worst = max(worst[0], cost), max(worst[1], delta)
        if cost > certificate.epsilon or delta > certificate.delta:
            raise CertificateFlaw(f"/pairs/{k}", f"it costs {decimal_of(cost)} and pays {decimal_of(delta)}")
    return f"pairs cost at most {decimal_of(worst[0], 12)}, and pay at most {decimal_of(worst[1], 12)}"


APPROXIMATE_STEPS = (
    ("cases", check_cases),
    ("neighbours", check_neighbours),
    ("parts", check_parts),
    ("couplings", check_couplings),
    ("totals", check_totals),
)
