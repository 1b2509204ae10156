"""Integers that a loop samples from coins, whole numbers and signs, as the discrete Laplace noise that they are.

Let the paths that end release one number each, and let it be c + s·n on every path, n being geometric: with probability
W · p (1 - p)^(n - 1), where W is how likely the finite choices of the path and its draws are that it only rejects. So
the law of the number is a sum of geometric series, and repeats itself past the last number at which one begins or ends:
what is t further out is as much less likely everywhere, t being the common step. If the probability falls by the same
factor from every number to the next, on both sides of its mode m, as far as the first such t on either side, then it
does so everywhere. That is the law of m + a difference of two geometric draws of this factor. Up to rounding, that is:
the least factor is taken, so that a shift costs no more than is said.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from veridp.errors import NotExplorable
from veridp.kernel.distributions import exact
from veridp.kernel.expressions import Affine, Condition, affine
from veridp.kernel.flow.retries import Retries, ends_of, rational
from veridp.kernel.noise import Geometric
from veridp.kernel.path import Path, leaves, map_leaves, outline_of
from veridp.kernel.substitution import leaf_key
from veridp.kernel.symbols import Noise, Symbol, Unknown
from veridp.kernel.weights import Weight

FACTOR_ROUNDING = Fraction(1, 1 << 40)  # relative: how far factors may be apart; code computes gamma / k in floats
BITS = 128  # of the factor
MAX_WINDOW = 2_000  # numbers whose probabilities are computed
FORMULA = "discrete Laplace noise that a loop samples"


def with_discrete_laplace(paths: Sequence[Path]) -> list[Path] | None:
    """One path that releases a number with discrete Laplace noise, in place of those of a loop that samples it.

    None where the paths do something else. What they ask must not depend on open values.
    """
    try:
        accepted = list(Retries(paths, rational).accepted())
        drafts = [Strand.of(path) for path in accepted]
        first = drafts[0]
        if any(draft.frame != first.frame or draft.open != first.open for draft in drafts):
            return None
        mode, factor = _law(drafts)
    except (NotExplorable, NotSampled):
        return None
    noises = [Noise(k, Geometric(exact(1 - factor)), first.noise.site, formula=FORMULA) for k in range(2)]
    number = affine(mode, {**first.open, noises[0]: 1, noises[1]: -1})
    output = map_leaves(lambda leaf: number if is_sampled(leaf) else leaf, accepted[0].output)
    return [Path(tuple(noises), output)]


class NotSampled(Exception):
    """Raised where numbers are not sampled so."""


def is_sampled(leaf: Any) -> bool:
    """Whether an entry of an output is a number with noise."""
    return isinstance(leaf, Affine) and any(isinstance(symbol, Noise) for symbol in leaf.terms)


@dataclass(frozen=True)
class Strand:
    """What a path releases: start + step · k with probability chance · factor^k, for the first `count` k = 0, 1, …"""

    start: int
    step: int
    chance: Fraction
    factor: Fraction
    count: int | None
    noise: Noise
    first: int  # the least value of this noise
    open: dict[Symbol, Any]  # what is added of open values
    frame: object  # the output but for the number

    @classmethod
    def of(cls, path: Path) -> Strand:
        number, *others = [leaf for leaf in leaves(path.output) if is_sampled(leaf)] or [None]
        if number is None or others or isinstance(path.weight, Weight):
            raise NotSampled
        (noise, *more) = [symbol for symbol in number.terms if not isinstance(symbol, Unknown)]
        if more or not isinstance(getattr(noise, "distribution", None), Geometric):
            raise NotSampled
        low, high = ends_of(noise, [c for c in path.conditions if _is_on(c, noise)])
        first = 1 if low is None else max(math.ceil(low), 1)
        step, p = Fraction(number.terms[noise]), Fraction(noise.distribution.p)
        start = Fraction(number.constant) + step * first
        if step.denominator != 1 or start.denominator != 1 or p == 1:
            raise NotSampled
        chance = Fraction(path.weight) * rational([c for c in path.conditions if not _is_on(c, noise)])
        count = None if high is None else math.floor(high) - first + 1
        frame = outline_of(path.output), tuple(leaf_key(x) for x in leaves(path.output) if x is not number)
        open_terms = {symbol: factor for symbol, factor in number.terms.items() if symbol is not noise}
        chance *= p * (1 - p) ** (first - 1)
        return cls(int(start), int(step), chance, 1 - p, count, noise, first, open_terms, frame)

    def at(self, x: int) -> Fraction:
        """The probability of x."""
        k, rest = divmod(x - self.start, self.step)
        within = not rest and k >= 0 and (self.count is None or k < self.count)
        return self.chance * self.factor**k if within else Fraction(0)

    @property
    def ends(self) -> tuple[int, ...]:
        """Where it begins, and ends."""
        return (self.start,) if self.count is None else (self.start, self.start + self.step * (self.count - 1))


def _is_on(condition: Condition, noise: Noise) -> bool:
    """Whether the condition is on this noise alone; NotSampled where it is on others, too."""
    if noise in condition.slack.terms and len(condition.slack.terms) > 1:
        raise NotSampled
    return noise in condition.slack.terms


def _law(strands: Sequence[Strand]) -> tuple[int, Fraction]:
    """The mode and the factor of the law that strands make up; NotSampled where it is not discrete Laplace."""
    endless = [strand for strand in strands if strand.count is None]
    steps, factors = {abs(s.step) for s in endless}, {s.factor for s in endless}
    if len(steps) != 1 or len(factors) != 1:
        raise NotSampled
    (step,) = steps
    ends = [end for strand in strands for end in strand.ends]
    low, high = min(ends) - step - 1, max(ends) + step + 1
    if high - low > MAX_WINDOW:
        raise NotSampled
    law = {x: sum((strand.at(x) for strand in strands), start=Fraction(0)) for x in range(low, high + 1)}
    mode = max(law, key=law.__getitem__)
    falls = [
        law[x + 1] / law[x] if x >= mode else law[x] / law[x + 1] for x in range(low, high) if law[x] and law[x + 1]
    ]
    if len(falls) < high - low:  # some numbers are never released
        raise NotSampled
    factor = Fraction(math.floor(min(falls) * 2**BITS), 2**BITS)
    if not 0 < factor < 1 or max(falls) > factor * (1 + FACTOR_ROUNDING):
        raise NotSampled
    return mode, factor
