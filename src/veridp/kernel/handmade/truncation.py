"""Noise that a loop draws again until it lies in an interval, as one draw of truncated noise.

Let the paths that end be written without the draws that they only reject, and let the draws that are left be x_1, …,
x_k. A path with W · Π f_i(x_i) for the density of its draws, on a product of intervals, has a factor W that does not
depend on them: how likely its rejected draws are, and how much likelier its loops make it. If the products of all paths
that do the same with their draws make up a box, and W is the same on all of it, then the draws have the density Π f_i
on the box but for a constant, which is 1 by the probability of the box: each is independent, and truncated.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from flint import arb, ctx

from veridp.errors import NotExplorable
from veridp.kernel.distributions import Distribution, exact
from veridp.kernel.expressions import Affine, Condition
from veridp.kernel.flow.retries import Retries, ends_of, probability
from veridp.kernel.noise import Laplace, TruncatedLaplace
from veridp.kernel.path import Again, Fork, Path, Step, leaves, map_leaves, symbols_of
from veridp.kernel.substitution import leaf_key, substituted
from veridp.kernel.symbols import Noise, Symbol, drawn_in, number_text
from veridp.numerics.balls import ball

BITS = 512  # of the probabilities that are compared
EQUAL = Fraction(1, 1 << 300)  # relative: numbers that differ by less are equal
Ends = tuple[Fraction | None, Fraction | None]
Intervals = tuple[Ends | None, ...]  # of the draws that are left, where something is asked of one alone


def with_truncated_noise(paths: Sequence[Path]) -> list[Path] | None:
    """The paths that end, with Laplace draws that are repeated until they are accepted as truncated ones.

    None where no loop repeats such draws, or what it accepts is more than an interval around 0.
    """
    if not any(isinstance(path.output, Again) for path in paths):
        return None
    if not any(isinstance(noise.distribution, Laplace) for path in paths for noise in path.noises):
        return None
    try:
        with ctx.workprec(BITS):
            retries = Retries(paths, _mass)
            drafts = [_Draft(path, retries.factor(path)) for path in paths if not isinstance(path.output, Again)]
            groups: dict[object, list[_Draft]] = {}
            for draft in drafts:
                groups.setdefault(draft.key, []).append(draft)
            return [_merged(group) for group in groups.values()]
    except (NotExplorable, _NotTruncated):
        return None


class _NotTruncated(Exception):
    """Raised where draws are not truncated ones."""


class _Draft:
    """A path that ends, without its rejected draws and without what is asked of single Laplace draws."""

    def __init__(self, path: Path, factor: Fraction) -> None:
        released = {symbol for leaf in leaves(path.output) for symbol in symbols_of(leaf)}
        released |= {s for c in path.conditions if len(c.slack.terms) > 1 for s in drawn_in(c.slack.terms)}
        alone: dict[Noise, list[Condition]] = {}
        for condition in path.conditions:
            (symbol, *others) = condition.slack.terms
            if not others and isinstance(symbol, Noise) and isinstance(symbol.distribution, Laplace):
                alone.setdefault(symbol, []).append(condition)
        rejected = {noise for noise in alone if noise not in released}
        self.factor = factor * math.prod((_mass(alone[noise]) for noise in rejected), start=Fraction(1))
        self.noises = [noise for noise in path.noises if noise not in rejected]
        self.ends: Intervals = tuple(ends_of(n, alone[n]) if n in alone else None for n in self.noises)
        gone = {id(c) for conditions in alone.values() for c in conditions}
        self.forks = [
            replace(fork.option, conditions=tuple(c for c in fork.option.conditions if id(c) not in gone))
            for fork in path.forks
            if not fork.implied
        ]
        self.sites = [fork.site for fork in path.forks if not fork.implied]
        self.output = path.output
        self._put([replace(noise, index=k) for k, noise in enumerate(self.noises)])

    def _put(self, new: Sequence[Noise]) -> None:
        """Put these draws in place of those that are left."""
        made: dict[Symbol, Any] = {
            old: Affine(0, {each: 1}) for old, each in zip(self.noises, new, strict=True) if old != each
        }
        self.output = map_leaves(lambda leaf: substituted(leaf, made), self.output)
        self.forks = [
            replace(option, conditions=tuple(substituted(c, made) for c in option.conditions)) for option in self.forks
        ]
        self.noises = list(new)

    @property
    def key(self) -> object:
        """What the path does with the draws that are left: equal for paths that do the same."""
        asked = [(leaf_key(c), option.weight) for option in self.forks for c in option.conditions]
        weights = [option.weight for option in self.forks if not option.conditions and option.weight != 1]
        shown: list[object] = []
        structure = map_leaves(lambda leaf: shown.append(leaf_key(leaf)), self.output)
        drawn = [(noise.distribution, end is None) for noise, end in zip(self.noises, self.ends, strict=True)]
        return tuple(drawn), tuple(asked), tuple(weights), repr(structure), tuple(shown)

    def path(self, distributions: Sequence[Distribution]) -> Path:
        """The path, with draws of these distributions."""
        new = [
            noise if d == noise.distribution else replace(noise, distribution=d, formula=_formula(noise, d))
            for noise, d in zip(self.noises, distributions, strict=True)
        ]
        self._put(new)
        forks = zip(self.forks, self.sites, strict=True)
        kept = [Fork((o,), 0, site) for o, site in forks if o.conditions or o.weight != 1]
        steps: list[Step] = [*new, *kept]
        return Path(tuple(steps), self.output)


def _formula(noise: Noise, distribution: Any) -> str:
    ends = f"{number_text(distribution.low)} and {number_text(distribution.high)}"
    return f"{noise.formula or noise.distribution.kind} noise that is drawn again until it is between {ends}"


def _merged(group: Sequence[_Draft]) -> Path:
    """Paths that do the same with their draws, as one."""
    factors: dict[Intervals, Fraction] = {}
    for draft in group:
        factors[draft.ends] = factors.get(draft.ends, Fraction(0)) + draft.factor
    box = [_hull({ends[k] for ends in factors}) for k in range(len(group[0].noises))]
    if len(factors) != math.prod(len({ends[k] for ends in factors}) for k in range(len(box))):
        raise _NotTruncated
    first = group[0]
    distributions, whole = [], Fraction(1)
    for noise, ends in zip(first.noises, box, strict=True):
        distribution = noise.distribution
        if ends is not None:
            low, high = ends
            if low is None or high is None or not low < 0 < high:
                raise _NotTruncated
            distribution = TruncatedLaplace(distribution.scale, exact(low), exact(high))  # type: ignore[attr-defined]
            whole *= _between(noise, ends)
        distributions.append(distribution)
    if any(abs(factor * whole - 1) > EQUAL for factor in factors.values()):
        raise _NotTruncated
    return first.path(distributions)


def _hull(cells: set[Ends | None]) -> Ends | None:
    """The interval that cells make up, each of which begins where another ends."""
    if cells == {None}:
        return None
    ordered = sorted((c for c in cells if c is not None), key=lambda c: -math.inf if c[0] is None else c[0])
    if None in cells or any(left[1] is None or left[1] != right[0] for left, right in itertools.pairwise(ordered)):
        raise _NotTruncated
    return ordered[0][0], ordered[-1][1]


def _mass(conditions: Sequence[Condition]) -> Fraction:
    """The probability of conditions on single draws, to BITS bits."""
    asked: dict[Noise, list[Condition]] = {}
    for condition in conditions:
        noise, *others = condition.slack.terms
        if others or not isinstance(noise, Noise):
            raise _NotTruncated
        asked.setdefault(noise, []).append(condition)
    return math.prod((_chance(noise, its) for noise, its in asked.items()), start=Fraction(1))


def _chance(noise: Noise, conditions: Sequence[Condition]) -> Fraction:
    if isinstance(noise.distribution, Laplace):
        return _between(noise, ends_of(noise, conditions))
    chance = probability(noise, conditions)
    if chance is None:
        raise _NotTruncated
    return chance


def _between(noise: Noise, ends: Ends) -> Fraction:
    """The probability that Laplace noise lies between the ends."""
    low, high = (None if end is None else ball(end / noise.distribution.scale) for end in ends)  # type: ignore[attr-defined]
    below = arb(0) if low is None else _below(low)
    up_to = arb(1) if high is None else _below(high)
    mantissa, exponent = (up_to - below).mid().man_exp()
    return max(Fraction(int(mantissa)) * Fraction(2) ** int(exponent), Fraction(0))


def _below(z: arb) -> arb:
    return z.exp() / 2 if z < 0 else 1 - (-z).exp() / 2
