"""The tree that conditions make of noise, in exact rationals: who is bounded by whom, and by what."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from veridp.engines.exact.curve import slacks
from veridp.engines.exact.noise import End
from veridp.errors import NotExact
from veridp.kernel.distributions import Distribution, ExponentialNoise
from veridp.kernel.expressions import Condition
from veridp.kernel.symbols import Noise, Relation, Symbol
from veridp.numerics.components import components

Form = tuple[dict[Noise, Fraction], Fraction]  # coefficients and a constant: the form is to be >= 0


@dataclass(frozen=True)
class AffineLine:
    """The affine function t ↦ slope · t + shift."""

    slope: Fraction
    shift: Fraction

    def at(self, point: Fraction) -> Fraction:
        return self.slope * point + self.shift

    def meets(self, other: AffineLine) -> Fraction | None:
        """Where the two meet; None where they are parallel."""
        apart = self.slope - other.slope
        return (other.shift - self.shift) / apart if apart else None


@dataclass(frozen=True)
class NoiseNode:
    """Noise between bounds: its own, and lines in the value of its parent; with what hangs below it."""

    noise: Distribution
    low: End
    high: End
    at_least: tuple[AffineLine, ...] = ()
    at_most: tuple[AffineLine, ...] = ()
    children: tuple[NoiseNode, ...] = ()

    @property
    def below(self) -> Iterator[NoiseNode]:
        """Itself and all below it."""
        yield self
        for child in self.children:
            yield from child.below

    @property
    def closed(self) -> bool:
        """Whether it and all below it have piecewise exponential polynomials as densities."""
        return all(isinstance(node.noise, ExponentialNoise) for node in self.below)


@dataclass(frozen=True)
class BoundStretch:
    """The largest lower bound and the smallest upper bound in force on an interval of the parent's values."""

    at_least: AffineLine | None
    at_most: AffineLine | None


def stretches(
    at_least: Sequence[AffineLine], at_most: Sequence[AffineLine]
) -> tuple[list[Fraction], list[BoundStretch | None]]:
    """Edges, and between them the bounds in force; None where these leave nothing."""
    crossings = (a.meets(b) for a, b in itertools.combinations([*at_least, *at_most], 2))
    edges = sorted({point for point in crossings if point is not None})
    return edges, [_in_force(at_least, at_most, point) for point in between(edges)]


def between(edges: Sequence[Fraction]) -> list[Fraction]:
    """A point inside each of the intervals that the edges make of the line."""
    if not edges:
        return [Fraction(0)]
    return [edges[0] - 1, *((a + b) / 2 for a, b in itertools.pairwise(edges)), edges[-1] + 1]


def _in_force(at_least: Sequence[AffineLine], at_most: Sequence[AffineLine], point: Fraction) -> BoundStretch | None:
    low = max(at_least, key=lambda line: line.at(point), default=None)
    high = min(at_most, key=lambda line: line.at(point), default=None)
    empty = low is not None and high is not None and low.at(point) >= high.at(point)
    return None if empty else BoundStretch(low, high)


# ------------------------------------------------------------------------------------------- from conditions


def ways(conditions: Sequence[Condition]) -> Iterator[list[Form]]:
    """The conditions as inequalities; several disjoint lists where integers are asked to be unequal.

    What has probability 0 (equality of continuous noise) makes no list, what has probability 1 no inequality.
    """
    options: list[list[list[Form]]] = []
    for condition in conditions:
        slack, relation = condition.slack, condition.relation
        if relation is Relation.UNEQUAL and not slack.continuous:
            sides = (Condition(slack, Relation.ABOVE), Condition(-slack, Relation.ABOVE))
            options.append([_forms(side) for side in sides])
        elif relation is Relation.EQUAL and slack.continuous:
            return
        elif relation is not Relation.UNEQUAL:
            options.append([_forms(condition)])
    for chosen in itertools.product(*options):
        yield [form for forms in chosen for form in forms]


def _forms(condition: Condition) -> list[Form]:
    return [
        ({_noise(symbol): Fraction(c) for symbol, c in slack.terms.items() if c}, Fraction(slack.constant))
        for slack in slacks(condition)
    ]


def _noise(symbol: Symbol) -> Noise:
    if not isinstance(symbol, Noise):
        raise NotExact(f"{symbol.name} is left open; the exact engine needs concrete data and arguments")
    return symbol


def connected(forms: Sequence[Form]) -> list[list[Form]]:
    """The forms in groups that share no noise; those without noise are left out."""
    noisy = [form for form in forms if form[0]]
    return [[noisy[k] for k in group] for group in components(coefficients for coefficients, _ in noisy)]


def rooted(forms: Sequence[Form]) -> NoiseNode:
    """The tree of connected forms, its root chosen so that its measure can be enclosed."""
    noises = sorted({noise for coefficients, _ in forms for noise in coefficients})
    names = ", ".join(noise.name for noise in noises)
    near: dict[Noise, set[Noise]] = {noise: set() for noise in noises}
    for coefficients, _ in forms:
        for noise in coefficients:
            near[noise].update(other for other in coefficients if other != noise)
    if any(len(coefficients) > 2 for coefficients, _ in forms) or sum(map(len, near.values())) != 2 * len(noises) - 2:
        raise NotExact(
            f"the conditions on {names} link more than two at a time or form cycles, and only "
            f"trees are enclosed; compare without certified=True"
        )
    for root in sorted(noises, key=lambda noise: (not noise.distribution.integer, -len(near[noise]))):
        node = _hung(root, None, forms, near)
        if enclosable(node):
            return node
    raise NotExact(
        f"{names} mix noise without closed-form integrals in more than one layer of conditions; "
        f"only one layer around a single noise is enclosed; compare without certified=True"
    )


def enclosable(root: NoiseNode) -> bool:
    """Whether each branch of the root is closed-form, or a single leaf (of integers only around integers)."""
    return root.closed or all(
        child.closed or (not child.children and (root.noise.integer or not child.noise.integer))
        for child in root.children
    )


def _hung(noise: Noise, parent: Noise | None, forms: Sequence[Form], near: dict[Noise, set[Noise]]) -> NoiseNode:
    own = [form for form in forms if noise in form[0]]
    bounds = [form for form in own if len(form[0]) == 1]
    links = [form for form in own if parent is not None and parent in form[0]]

    def lines(sign: int) -> tuple[AffineLine, ...]:
        """-(parent's coefficient · parent + constant) / own coefficient, where that bounds from below (or above)."""
        found = [(c[noise], c[parent], constant) for c, constant in links if parent is not None and c[noise] * sign > 0]
        return tuple(AffineLine(-theirs / mine, -constant / mine) for mine, theirs, constant in found)

    def end(sign: int, tightest: Callable[..., Fraction]) -> End:
        ends = [-constant / c[noise] for c, constant in bounds if c[noise] * sign > 0]
        return tightest(ends) if ends else None

    children = tuple(_hung(other, noise, forms, near) for other in sorted(near[noise]) if other != parent)
    return NoiseNode(noise.distribution, end(1, max), end(-1, min), lines(1), lines(-1), children)
