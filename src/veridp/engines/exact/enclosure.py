"""The probability of a piece as a ball: the integral of its noise over its conditions, enclosed.

Noise is eliminated along the tree of conditions. Laplace, exponential and uniform noise at any depth: in closed form.
Other noise in a single layer around a shared variable: by rigorous integration between breakpoints, or by summation
around an integer; what lies beyond the ends is bounded by the mass of the shared variable there. Everything else
raises NotExact.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from flint import acb, arb

from veridp.engines.exact.ball_noise import BallNoise, Closed, Continuous, Integer, Smooth, law
from veridp.engines.exact.exponential import ZERO, Piecewise, pasted, value
from veridp.engines.exact.pieces import DistributionPiece
from veridp.engines.exact.tree import AffineLine, BoundStretch, NoiseNode, connected, rooted, stretches, ways
from veridp.errors import NotExact
from veridp.kernel.distributions import Distribution
from veridp.numerics.balls import ball, up_to

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
        first, last = noise.range(root.low, root.high)
        stop = noise.cut() if last is None else min(last, noise.cut())
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
        return total if stop == last else total + up_to(noise.between(Fraction(max(first, stop + 1)), root.high))

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
