"""Certified answers: probabilities and ε as intervals that hold the true value whatever the rounding."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from flint import arb, ctx

from veridp.claim import Interval
from veridp.engines.exact.components import Component, Splitter
from veridp.engines.exact.enclosure import Measures
from veridp.engines.exact.event import ExactEvent
from veridp.engines.exact.event_part import pieces_within
from veridp.engines.exact.pieces import DistributionPiece, Factor, factors
from veridp.engines.exact.space import Concerned, Group, shared_factors, taken_apart
from veridp.errors import NotExact
from veridp.kernel.distributions import Number, exact
from veridp.kernel.expressions import Condition
from veridp.kernel.noise import Geometric, Laplace
from veridp.kernel.path import Path
from veridp.kernel.symbols import Noise, Symbol
from veridp.numerics.balls import Refined, added, ball, interval, log_ratio, probability_interval, refined


@dataclass(frozen=True)
class Enclosure:
    """What is certain about two inputs: every interval holds its true value, whatever was rounded.

    `epsilon` holds the supremum of |ln p/q| over all outputs. Over discrete outputs it is sharp. Where outputs have
    numeric entries, its lower end is what the witness's event (or a class of outputs as a whole) certifies, and its
    upper end is finite only if, for every class, each numeric entry (after a change of coordinates that both sides
    share) is one Laplace noise (or a difference of two like geometric ones) plus a constant that no condition looks at,
    or is the same on both sides: the loss of such an entry is the distance of the constants over the scale.

    `left_probability` and `right_probability` are those of the witness's event on the left and on the right input. An
    interval is wider than about 1e-15 of its value only where `bits`, the working precision used, has come to its
    limit of 4096.
    """

    epsilon: Interval
    left_probability: Interval
    right_probability: Interval
    bits: int


@dataclass(frozen=True)
class Output:
    """A class of outputs, as an event, and an interval that holds its probability."""

    event: ExactEvent
    probability: Interval


def outputs(paths: Sequence[Path]) -> list[Output]:
    """The classes of outputs of a mechanism's paths, each with its probability enclosed; likeliest first.

    Raises NotExact where conditions on noise are of a kind that is not enclosed.
    """
    (whole,) = factors(paths, split=False)
    found = _probabilities(list(whole.classes.values()))
    rows = [
        Output(ExactEvent(template=key.template), probability_interval(value))
        for key, value in zip(whole.classes, found.values, strict=True)
    ]
    return sorted(rows, key=lambda row: -row.probability.lower)


def enclose(paths: Sequence[Path], event: ExactEvent) -> Interval:
    """An interval that holds the probability of the event.

    Raises NotExact where conditions on noise are of a kind that is not enclosed.
    """
    jobs = _Jobs()
    places = [jobs.add(pieces) for pieces in pieces_within(paths, event)]
    return probability_interval(jobs.done().product(places))


def certify(left: Sequence[Path], right: Sequence[Path], event: ExactEvent) -> Enclosure:
    """What is certain about the loss between two inputs, and about the probabilities of an event on them.

    Raises NotExact where conditions on noise are of a kind that is not enclosed.
    """
    jobs = _Jobs()
    parts = [_plans(jobs, mine, theirs) for mine, theirs in zip(*shared_factors(left, right), strict=True)]
    events = [[jobs.add(pieces) for pieces in pieces_within(paths, event)] for paths in (left, right)]
    done = jobs.done()
    with ctx.workprec(done.bits):
        masses = [done.product(places) for places in events]
        told = [log_ratio(*masses).lower, log_ratio(*masses[::-1]).lower]
        ways = [_supremum(done, parts, turned) for turned in (False, True)]
        lower = max(0.0, *told, *(way.lower for way in ways))
        upper = max(0.0, *(way.upper for way in ways))
        mine, theirs = (probability_interval(mass) for mass in masses)
    return Enclosure(Interval(lower, upper), mine, theirs, done.bits)


# -------------------------------------------------------------------------------------------------- probabilities


def _probabilities(classes: Sequence[Sequence[DistributionPiece]]) -> Refined:
    """The probability of each list of disjoint pieces, sharp where MOST_BITS allow."""

    def computed(places: Sequence[int]) -> Iterator[arb]:
        measures = Measures()
        return (measures.probability(classes[place]) for place in places)

    return refined(len(classes), computed)


@dataclass
class _Jobs:
    """Probabilities to be enclosed all at once, so that what they share is worked out once."""

    classes: list[Sequence[DistributionPiece]] = field(default_factory=list)

    def add(self, pieces: Sequence[DistributionPiece]) -> int:
        self.classes.append(pieces)
        return len(self.classes) - 1

    def done(self) -> Refined:
        return _probabilities(self.classes)


def _ratio(done: Refined, sides: tuple[int, int], turned: bool) -> Interval:
    left, right = (done.values[side] for side in sides)
    return log_ratio(right, left) if turned else log_ratio(left, right)


# --------------------------------------------------------------------------------------------------------- the loss


@dataclass(frozen=True)
class _Plan:
    """The loss of a class: its lower end follows from the masses of the class, its upper end from those of what no
    numeric entry concerns, and a bound on the loss of the entries."""

    masses: tuple[int, int]
    rest: tuple[int, int]
    entries: float = 0.0
    told_apart: bool = (
        True  # whether an output tells that it is of this class: only then has the class a loss of its own
    )

    def loss(self, done: Refined, turned: bool) -> Interval:
        lower = _ratio(done, self.masses, turned).lower if self.told_apart else -math.inf
        upper = _ratio(done, self.rest, turned).upper
        return Interval(lower, added([Interval.exactly(upper), Interval.exactly(self.entries)]).upper)


def _plans(jobs: _Jobs, left: Factor, right: Factor) -> list[_Plan]:
    """The losses of the classes. Integers in an output may show what are constants in outputs of another class."""
    keys = dict.fromkeys([*left.classes, *right.classes])
    told_apart = len(keys) == 1 or not any(lattice is not None for key in keys for lattice in key.lattices)
    plans = [_plan(jobs, bool(key.free), left.classes.get(key, []), right.classes.get(key, [])) for key in keys]
    return [replace(plan, told_apart=told_apart) for plan in plans]


def _plan(jobs: _Jobs, numeric: bool, left: Sequence[DistributionPiece], right: Sequence[DistributionPiece]) -> _Plan:
    masses = jobs.add(left), jobs.add(right)
    if not numeric or not left or not right:
        return _Plan(masses, masses)
    if [piece.key for piece in left] == [piece.key for piece in right]:
        return _Plan(masses, masses)
    if len(left) > 1 or len(right) > 1:
        return _Plan(masses, masses, math.inf)
    try:
        sides = [Concerned.of(piece, Splitter({}).split(piece.conditions)) for piece in (left[0], right[0])]
        apart = taken_apart(*sides)
    except NotExact:  # the entries are made of other noise on the other side: nothing bounds their loss
        return _Plan(masses, masses, math.inf)
    entries = added([_entry_bound(group) for group in apart.groups]).upper
    rest = [
        [DistributionPiece(piece.weight, _conditions(side.rest), ())]
        for piece, side in zip((*left, *right), sides, strict=True)
    ]
    return _Plan(masses, (jobs.add(rest[0]), jobs.add(rest[1])), entries)


def _conditions(components: Sequence[Component]) -> tuple[Condition, ...]:
    return tuple(condition for component in components for condition in component.conditions)


def _entry_bound(group: Group) -> Interval:
    """The largest loss of a group of entries: |Δ| · rate for two-sided noise plus a constant, else no upper end."""
    left, right = group.left, group.right
    if left.key == right.key:
        return Interval.exactly(0.0)
    if left.conditions or right.conditions or len(group.entries) > 1:
        return Interval(0.0, math.inf)
    (mine,), (theirs,) = left.numbers, right.numbers
    noise = _two_sided(mine.terms)
    if noise is None or noise != _two_sided(theirs.terms):
        return Interval(0.0, math.inf)
    rate = ball(1 / Fraction(noise.scale)) if isinstance(noise, Laplace) else -ball(1 - noise.p).log()
    return interval(rate * ball(abs(Fraction(mine.constant) - theirs.constant)))


def _two_sided(terms: Mapping[Symbol, Number]) -> Laplace | Geometric | None:
    """The noise, if its density falls off alike on both sides: Laplace, or a difference of geometric noise."""
    factors_ = list(terms.values())
    kinds = {symbol.distribution for symbol in terms if isinstance(symbol, Noise)}
    noise = kinds.pop() if len(kinds) == 1 else None
    if isinstance(noise, Laplace) and len(terms) == 1:
        return Laplace(exact(abs(Fraction(factors_[0])) * noise.scale))
    if isinstance(noise, Geometric) and sorted(factors_) == [-1, 1] and noise.p < 1:
        return noise
    return None


def _supremum(done: Refined, parts: Sequence[Sequence[_Plan]], turned: bool) -> Interval:
    """The supremum of the loss in one direction: losses of independent factors add, and none is below 0 throughout."""
    losses = [[plan.loss(done, turned) for plan in plans] for plans in parts]
    return added([Interval(*(max(0.0, *ends) for ends in zip(*map(_ends, row), strict=True))) for row in losses])


def _ends(loss: Interval) -> tuple[float, float]:
    return loss.lower, loss.upper
