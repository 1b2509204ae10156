"""Certified answers: probabilities and ε as intervals that hold the true value whatever the rounding."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache

from flint import acb, arb, ctx

from veridp.claim import Interval
from veridp.engines.exact.event import ExactEvent, pieces_within
from veridp.engines.exact.exponential import ZERO, Piecewise, pasted, value
from veridp.engines.exact.measure import Component, Splitter
from veridp.engines.exact.noise import BallNoise, Closed, Continuous, Integer, Smooth, law
from veridp.engines.exact.pieces import DistributionPiece, Factor, factors
from veridp.engines.exact.space import Concerned, Group, shared_factors, taken_apart
from veridp.engines.exact.tree import AffineLine, BoundStretch, NoiseNode, connected, rooted, stretches, ways
from veridp.errors import NotExact
from veridp.kernel.distributions import Distribution, Number, exact
from veridp.kernel.expressions import Condition
from veridp.kernel.noise import Geometric, Laplace
from veridp.kernel.path import Path
from veridp.kernel.symbols import Noise, Symbol
from veridp.numerics.balls import Refined, added, ball, interval, log_ratio, probability_interval, refined, up_to

# ----------------------------------------------------------------------------------------------------------- enclosure
# The probability of a piece as a ball: the integral of its noise over its conditions, enclosed.
#
# Noise is eliminated along the tree of conditions. Laplace, exponential and uniform noise at any depth: in closed
# form.
# Other noise in a single layer around a shared variable: by rigorous integration between breakpoints, or by summation
# around an integer; what lies beyond the ends is bounded by the mass of the shared variable there. Everything else
# raises NotExact.


MOST_SUMMANDS = 1_000_000
Curve = Callable[[acb], acb]


class Measures:
    """Encloses probabilities at the working precision it was made at; what pieces share is worked out once."""

    def __init__(self) -> None:
        self.laws: dict[Distribution, BallNoise] = {}
        self.numbers: dict[NoiseNode, int] = {}
        self.messages: dict[int, Piecewise] = {}
        self.products: dict[tuple[int, ...], Piecewise] = {}
        self.totals: dict[NoiseNode, arb] = {}

    def probability(self, pieces: Sequence[DistributionPiece]) -> arb:
        """The probability of disjoint pieces, their numeric entries left out of account."""
        return sum((self._piece(piece) for piece in pieces), start=arb(0))

    def _piece(self, piece: DistributionPiece) -> arb:
        total = arb(0)
        for forms in ways(piece.conditions):
            if any(not coefficients and constant < 0 for coefficients, constant in forms):
                continue
            product = ball(piece.weight)
            for part in connected(forms):
                product *= self._total(rooted(part))
            total += product
        return total

    def law(self, noise: Distribution) -> BallNoise:
        if noise not in self.laws:
            self.laws[noise] = law(noise)
        return self.laws[noise]

    def _total(self, root: NoiseNode) -> arb:
        if root not in self.totals:
            self.totals[root] = self._measure(root)
        return self.totals[root]

    def _measure(self, root: NoiseNode) -> arb:
        if root.closed:
            return self._density(root).integral()
        noise = self.law(root.noise)
        if not root.children:
            return noise.between(root.low, root.high)
        if isinstance(noise, Continuous):
            return self._integrated(root, noise)
        if isinstance(noise, Integer):
            return self._summed(root, noise)
        raise TypeError(f"the distribution of {root.noise} is neither continuous nor on the integers")

    # ------------------------------------------------------------------------------------------ closed forms

    def _density(self, node: NoiseNode) -> Piecewise:
        """The density of a closed-form node, times what hangs below it, between its bounds.

        Products are kept by their factors: the paths of a sparse vector share all but the last few.
        """
        noise = self.law(node.noise)
        if not isinstance(noise, Closed):
            raise TypeError(f"{node.noise} has no closed form")
        key: tuple[int, ...] = (self._number(NoiseNode(node.noise, node.low, node.high)),)
        if key not in self.products:
            self.products[key] = noise.density.within(node.low, node.high)
        product = self.products[key]
        for child in node.children:
            key = (*key, self._number(child))
            if key not in self.products:
                self.products[key] = product * self._message(child)
            product = self.products[key]
        return product

    def _number(self, node: NoiseNode) -> int:
        return self.numbers.setdefault(node, len(self.numbers))

    def _message(self, child: NoiseNode) -> Piecewise:
        """The measure of a closed-form node and all below it, as a function of its parent."""
        number = self._number(child)
        if number not in self.messages:
            self.messages[number] = _bounded(self._density(child), child)
        return self.messages[number]

    # ---------------------------------------------------------------------------------- integrals and sums

    def _integrated(self, root: NoiseNode, noise: Continuous) -> arb:
        """The integral over a continuous root, cut off where little of its mass is left."""
        parts = [_curves(noise), *(self._curves(child) for child in root.children)]
        low, high = (
            _tighter(own, far, pick)
            for own, far, pick in zip((root.low, root.high), noise.reach(), (max, min), strict=True)
        )
        if low >= high:
            return up_to(noise.between(root.low, root.high))
        inner = sorted({point for part in parts for point in part.breaks if low < point < high})
        ends = [low, *inner, high]
        total = arb(0)
        for start, stop in itertools.pairwise(ends):
            total += _panel([part.over((start + stop) / 2) for part in parts], start, stop)
        beyond = [(root.low, low), (high, root.high)]
        outside = sum((noise.between(*ends) for ends in beyond if ends[0] != ends[1]), start=arb(0))
        return total + up_to(outside)

    def _curves(self, child: NoiseNode) -> Curves:
        """The measure of a branch as a function of the root."""
        if child.closed:
            return _exponential_curves(self._message(child))
        noise = self.law(child.noise)
        if not isinstance(noise, Smooth):
            raise NotExact(f"{child.noise} around continuous noise is not enclosed; compare without certified=True")
        edges, found = stretches(*_all_lines(child))
        return Curves(tuple(edges), tuple(None if s is None else _inside(noise, s) for s in found))

    def _summed(self, root: NoiseNode, noise: Integer) -> arb:
        """The sum over an integer root, cut off where little of its mass is left."""
        branches = [self._branch(child) for child in root.children]
        ends = noise.range(root.low, root.high)
        first = -noise.cut() if ends[0] is None else ends[0]
        stop = noise.cut() if ends[1] is None else min(ends[1], noise.cut())
        if stop - first > MOST_SUMMANDS:
            raise NotExact(
                f"{root.noise} spreads over more than {MOST_SUMMANDS} integers; compare without certified=True"
            )
        total = arb(0)
        for k in range(first, stop + 1):
            term = noise.mass(k)
            for branch in branches:
                term *= branch(k)
            total += term
        if ends[0] is None:
            total += up_to(noise.between(None, Fraction(first - 1)))
        return total if stop == ends[1] else total + up_to(noise.between(Fraction(max(first, stop + 1)), root.high))

    def _branch(self, child: NoiseNode) -> Callable[[int], arb]:
        """The measure of a branch at an integer value of the root."""
        if child.closed:
            return self._message(child).at
        noise = self.law(child.noise)
        at_least, at_most = _all_lines(child)

        def measured(k: int) -> arb:
            at = Fraction(k)
            low = max((line.at(at) for line in at_least), default=None)
            high = min((line.at(at) for line in at_most), default=None)
            return noise.between(low, high)

        return measured


def _bounded(density: Piecewise, node: NoiseNode) -> Piecewise:
    """The integral of a density between the lines that bound the node, as a function of the parent."""
    below, above = cache(density.below), cache(density.above)
    upto = cache(lambda line: below().composed(line.slope, line.shift))
    beyond = cache(lambda line: above().composed(line.slope, line.shift))

    def measured(stretch: BoundStretch | None) -> Piecewise:
        if stretch is None:
            return ZERO
        if stretch.at_least is None:
            return upto(stretch.at_most)
        return beyond(stretch.at_least) if stretch.at_most is None else upto(stretch.at_most) - upto(stretch.at_least)

    edges, found = stretches(node.at_least, node.at_most)
    return pasted(edges, [measured(stretch) for stretch in found])


# ------------------------------------------------------------------------------------------------ analytic curves


@dataclass(frozen=True, eq=False)
class Curves:
    """A function that is analytic between breakpoints; None is 0."""

    breaks: tuple[Fraction, ...]
    functions: tuple[Curve | None, ...]

    def over(self, point: Fraction) -> Curve | None:
        """The function around a point that is no breakpoint."""
        return self.functions[bisect_right(self.breaks, point)]


def _curves(noise: Continuous) -> Curves:
    if isinstance(noise, Smooth):
        breaks = noise.breaks()
        return Curves(breaks, (noise.density,) * (len(breaks) + 1))
    if isinstance(noise, Closed):
        return _exponential_curves(noise.density)
    raise TypeError(f"{type(noise).__name__} has no analytic density")


def _exponential_curves(function: Piecewise) -> Curves:
    parts = [(lambda z, terms=terms: value(terms, z)) if terms else None for terms in function.parts]
    return Curves(function.breaks, tuple(parts))


def _inside(noise: Smooth, stretch: BoundStretch) -> Curve:
    def measured(z: acb) -> acb:
        low, high = (
            None if line is None else z * ball(line.slope) + ball(line.shift)
            for line in (stretch.at_least, stretch.at_most)
        )
        return noise.inside(low, high)

    return measured


def _all_lines(node: NoiseNode) -> tuple[list[AffineLine], list[AffineLine]]:
    """The lines that bound a leaf, its own bounds as level lines among them."""
    level = [[] if end is None else [AffineLine(Fraction(0), end)] for end in (node.low, node.high)]
    return [*node.at_least, *level[0]], [*node.at_most, *level[1]]


def _tighter(own: Fraction | None, far: Fraction | None, pick: Callable[..., Fraction]) -> Fraction:
    return pick(end for end in (own, far) if end is not None)


def _panel(factors: Sequence[Curve | None], start: Fraction, stop: Fraction) -> arb:
    """The integral of a product of analytic functions."""
    if any(factor is None for factor in factors):
        return arb(0)
    present = [factor for factor in factors if factor is not None]

    def integrand(z: acb, analytic: bool) -> acb:
        """Meromorphic, so that where it is not analytic it is not finite either."""
        product = acb(1)
        for factor in present:
            product *= factor(z)
        return product

    return acb.integral(integrand, acb(ball(start)), acb(ball(stop))).real


# ----------------------------------------------------------------------------------------------------------- certified


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
    _check_weights(paths)
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
    _check_weights(paths)
    jobs = _Jobs()
    places = [jobs.add(pieces) for pieces in pieces_within(paths, event)]
    return probability_interval(jobs.done().product(places))


def certify(left: Sequence[Path], right: Sequence[Path], event: ExactEvent) -> Enclosure:
    """What is certain about the loss between two inputs, and about the probabilities of an event on them.

    Raises NotExact where conditions on noise are of a kind that is not enclosed.
    """
    _check_weights([*left, *right])
    jobs = _Jobs()
    parts = [_plans(jobs, mine, theirs) for mine, theirs in zip(*shared_factors(left, right), strict=True)]
    events = [[jobs.add(pieces) for pieces in pieces_within(paths, event)] for paths in (left, right)]
    done = jobs.done()
    with ctx.workprec(done.bits):
        masses = [done.product(places) for places in events]
        single_events = [log_ratio(*masses).lower, log_ratio(*masses[::-1]).lower]
        ways = [_supremum(done, parts, turned) for turned in (False, True)]
        lower = max(0.0, *single_events, *(way.lower for way in ways))
        upper = max(0.0, *(way.upper for way in ways))
        mine, theirs = (probability_interval(mass) for mass in masses)
    return Enclosure(Interval(lower, upper), mine, theirs, done.bits)


# -------------------------------------------------------------------------------------------------- probabilities


def _check_weights(paths: Sequence[Path]) -> None:
    if any(fork.option.rounded for path in paths for fork in path.forks):
        raise NotExact("how often a loop retries is no rational number, and rounded; compare without certified=True")


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
    apart = abs(Fraction(mine.constant) - theirs.constant)
    if noise is None or noise != _two_sided(theirs.terms) or (isinstance(noise, Geometric) and apart.denominator > 1):
        return Interval(0.0, math.inf)
    rate = ball(1 / Fraction(noise.scale)) if isinstance(noise, Laplace) else -ball(1 - noise.p).log()
    return interval(rate * ball(apart))


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
