"""Discrete Gaussian noise that a loop makes: it draws a whole number, and accepts it by chance.

Let y be the difference of two geometric draws, with probabilities in proportion to e^(-λ|y|), and let a round accept it
if a uniform draw is below e^q(y), where q(y) = c + λ|y| - y²/2v <= 0. A round accepts y with a probability that is in
proportion to e^(-y²/2v), whatever y is. Rounds that do not accept are forgotten. So what is accepted is discrete
Gaussian (Canonne, Kamath and Steinke 2020, Algorithm 3).

Code has q on the ranges of y that it tells apart, as by abs(y). Each is checked, and that together they are all whole
numbers; the p of the geometric draws may be the float next to 1 - e^-λ.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from veridp.kernel import functions as f
from veridp.kernel.distributions import exact
from veridp.kernel.expressions import Affine
from veridp.kernel.flow.retries import RetryHead, ends_of, returning
from veridp.kernel.handmade.quadratic import Quadratic, quadratic
from veridp.kernel.handmade.signs import ROUNDING
from veridp.kernel.noise import DiscreteGaussian, Geometric, Uniform
from veridp.kernel.path import Again, Fork, Option, Path, Step, map_leaves
from veridp.kernel.substitution import expressions_in, leaf_key, substituted
from veridp.kernel.symbols import Derived, Noise, Relation, drawn_in

MAX_VARIANCE = 10**8  # of noise whose masses are tabulated

Range = tuple[Fraction | None, Fraction | None]  # of whole numbers, ends included
ONLY_ZERO: Range = (Fraction(0), Fraction(0))


@dataclass(frozen=True)
class Acceptance:
    """Where a path accepts a whole number: its draws, at which fork, for which numbers, and ln of its probability."""

    first: Noise  # the number is the first minus the second
    second: Noise
    uniform: Noise
    fork: Fork
    before: tuple[Fork, ...]  # forks that tell ranges of the number apart
    range: Range
    log_chance: Quadratic


def with_discrete_gaussians(paths: Sequence[Path]) -> list[Path] | None:
    """The paths that end, with whole numbers that loops accept by chance as discrete Gaussian draws.

    None where a loop does anything else.
    """
    back = returning(paths)
    if not back or not any(isinstance(n.distribution, Geometric) for path in paths for n in path.noises):
        return None
    found: dict[RetryHead, dict[Range, Acceptance]] = {head: {} for head in back}
    drafts: list[tuple[Path, list[Acceptance]]] = []
    for path in paths:
        accepted: list[Acceptance] = []
        for head in sorted(head for head in back if head.leads_to(path)):
            one = _acceptance(path, head, accepted)
            returns = any(path is other for other in back[head])
            if returns and one is None:
                break
            if returns or one is None or found[head].setdefault(one.range, one).log_chance != one.log_chance:
                return None
            accepted.append(one)
        if not isinstance(path.output, Again):
            drafts.append((path, accepted))
    variances = {head: _variance(list(ranges.values())) for head, ranges in found.items()}
    made = [_made(path, accepted, list(found), variances) for path, accepted in drafts]
    return None if any(each is None for each in made) else _merged([each for each in made if each is not None])


def _acceptance(path: Path, head: RetryHead, earlier: Sequence[Acceptance]) -> Acceptance | None:
    """How the path accepts a number of the loop that begins here; None where that is not how it goes on."""
    drawn: list[Noise] = []
    before: list[Fork] = []
    for step in path.steps[head.place :]:
        if isinstance(step, Noise):
            drawn.append(step)
        elif not step.implied and (log_chance := _log_chance(step.option, drawn)) is not None:
            exponent, uniform = log_chance
            geometric = [noise for noise in drawn if noise is not uniform]
            if len(geometric) != 2 or any(uniform is one.uniform for one in earlier):
                return None
            return _accepted(geometric[0], geometric[1], uniform, step, before, exponent)
        elif not step.implied:
            before.append(step)
    return None


def _log_chance(option: Option, drawn: Sequence[Noise]) -> tuple[Affine, Noise] | None:
    """The exponent and the uniform draw of an option that is taken if the draw is below the exponential."""
    if len(option.conditions) != 1 or option.weight != 1:
        return None
    slack, relation = option.conditions[0].slack, option.conditions[0].relation
    uniform = next((n for n in slack.terms if n in drawn and n.distribution == Uniform()), None)  # type: ignore[union-attr]
    power = next((s for s in slack.terms if isinstance(s, Derived) and s.function is f.EXP), None)
    if uniform is None or power is None or relation not in (Relation.ABOVE, Relation.AT_LEAST) or slack.constant:
        return None
    if len(slack.terms) > 2 or slack.terms[power] != 1 or slack.terms[uniform] != -1:
        return None
    exponent = power.arguments[0]
    return (exponent, uniform) if isinstance(exponent, Affine) and isinstance(uniform, Noise) else None


def _accepted(
    first: Noise, second: Noise, uniform: Noise, fork: Fork, before: Sequence[Fork], exponent: Affine
) -> Acceptance | None:
    law = first.distribution
    if not isinstance(law, Geometric) or second.distribution != law or any(each.option.weight != 1 for each in before):
        return None
    asked = [_of_number(c, first, second) for each in before for c in each.option.conditions]
    log_chance = quadratic(_of_number(exponent, first, second), first)
    if log_chance is None or any(set(c.slack.terms) != {first} for c in asked):
        return None
    ends = ends_of(first, asked) if asked else (None, None)
    low = None if ends[0] is None else Fraction(math.ceil(ends[0]))
    high = None if ends[1] is None else Fraction(math.floor(ends[1]))
    return Acceptance(first, second, uniform, fork, tuple(before), (low, high), log_chance)


def _of_number(value: Any, first: Noise, second: Noise) -> Any:
    """An expression, or a condition, in which the first draw stands for the number, and so the second is gone."""
    return substituted(value, {first: Affine(0, {first: 1, second: 1})})


# ------------------------------------------------------------------------------------------------------------ the law


def _variance(ranges: Sequence[Acceptance]) -> Fraction | None:
    """That of the discrete Gaussian noise which is accepted; None where the noise is another one."""
    if not ranges or not _is_everything([each.range for each in ranges]):
        return None
    squares = {each.log_chance.square for each in ranges if each.range != ONLY_ZERO}
    constants = {each.log_chance.constant for each in ranges}
    if len(squares) != 1 or len(constants) != 1 or not (square := squares.pop()) < 0:
        return None
    slopes = {_slope(each) for each in ranges if each.range != ONLY_ZERO}
    slope = slopes.pop()
    law: Any = ranges[0].first.distribution
    if slopes or slope is None or not 0 < slope < 700 or any(each.first.distribution != law for each in ranges):
        return None
    top = -slope / (2 * square)  # where e^q is largest
    whole = Quadratic(constants.pop(), slope, square)
    likely = max(whole.at(math.floor(top)), whole.at(math.ceil(top)))
    if likely > 0 or not math.isclose(float(law.p), -math.expm1(-float(slope)), rel_tol=ROUNDING):
        return None
    variance = -1 / (2 * square)
    return variance if variance <= MAX_VARIANCE else None


def _slope(accepted: Acceptance) -> Fraction | None:
    """The slope of its logarithm in |y|; None where its numbers have both signs."""
    low, high = accepted.range
    if low is not None and low >= 0:
        return accepted.log_chance.linear
    return -accepted.log_chance.linear if high is not None and high <= 0 else None


def _is_everything(ranges: Sequence[Range]) -> bool:
    """Whether each whole number is in just one of the ranges."""
    ordered = sorted(ranges, key=lambda each: -math.inf if each[0] is None else each[0])
    joined = all(
        one[1] is not None and other[0] is not None and one[1] + 1 == other[0]
        for one, other in itertools.pairwise(ordered)
    )
    return joined and ordered[0][0] is None and ordered[-1][1] is None


# ---------------------------------------------------------------------------------------------------------- the paths


@dataclass(frozen=True)
class _Draft:
    """A path with new draws; the forks that tell ranges of these apart are kept separately."""

    noises: tuple[Noise, ...]
    apart: tuple[Fork, ...]
    forks: tuple[Fork, ...]
    output: Any
    ranges: tuple[Range, ...]

    @property
    def key(self) -> object:
        shown: list[object] = []
        structure = map_leaves(lambda leaf: shown.append(leaf_key(leaf)), self.output)
        asked = [(tuple(map(leaf_key, fork.option.conditions)), fork.option.weight) for fork in self.forks]
        drawn = [noise.distribution for noise in self.noises]
        return tuple(drawn), tuple(asked), repr(structure), tuple(shown)

    def path(self, *, whole: bool) -> Path:
        steps: list[Step] = [*self.noises, *(() if whole else self.apart), *self.forks]
        return Path(tuple(steps), self.output)


def _made(
    path: Path,
    accepted: Sequence[Acceptance],
    heads: Sequence[RetryHead],
    variances: Mapping[RetryHead, Fraction | None],
) -> _Draft | None:
    """The path with a draw in place of each number that it accepts; None where it uses what one is made of."""
    own = [variances[head] for head in sorted(heads) if head.leads_to(path)]
    new: dict[Noise, Noise] = {}
    gone: set[Noise] = set()
    for one, variance in zip(accepted, own, strict=True):
        if variance is None:
            return None
        formula = "a difference of geometric draws that is accepted with the probability exp(-(|y| - a)²/2v)"
        new[one.first] = replace(one.first, distribution=DiscreteGaussian(exact(variance)), formula=formula)
        gone |= {one.second, one.uniform}
    kept = [new.get(noise, noise) for noise in path.noises if noise not in gone]
    counted = {noise: replace(noise, index=k) for k, noise in enumerate(kept)}
    made: dict[Any, Any] = {noise: Affine(0, {counted[noise]: 1}) for noise in kept if noise not in new.values()}
    for one in accepted:
        made[one.first] = Affine(0, {counted[new[one.first]]: 1, one.second: 1})
    before = {id(fork) for one in accepted for fork in one.before}
    decided = {id(one.fork) for one in accepted}
    apart, forks = list[Fork](), list[Fork]()
    for fork in path.forks:
        if id(fork) not in decided and not fork.implied:
            conditions = tuple(substituted(c, made) for c in fork.option.conditions)
            (apart if id(fork) in before else forks).append(
                Fork((replace(fork.option, conditions=conditions),), 0, fork.site)
            )
    output = map_leaves(lambda leaf: substituted(leaf, made), path.output)
    left = expressions_in(output, [c for fork in (*apart, *forks) for c in fork.option.conditions])
    if any(symbol in gone for expression in left for symbol in drawn_in(expression.terms)):
        return None
    ranges = tuple(one.range for one in accepted)
    return _Draft(tuple(counted[noise] for noise in kept), tuple(apart), tuple(forks), output, ranges)


def _merged(drafts: Sequence[_Draft]) -> list[Path]:
    """The paths; those that differ in the ranges of their numbers alone, of which they have all, as one."""
    groups: dict[object, list[_Draft]] = {}
    for draft in drafts:
        groups.setdefault(draft.key, []).append(draft)
    found: list[Path] = []
    for group in groups.values():
        cells = {draft.ranges for draft in group}
        sides = [{ranges[k] for ranges in cells} for k in range(len(group[0].ranges))]
        every = len(group) == len(cells) == math.prod(map(len, sides)) and all(_is_everything(list(s)) for s in sides)
        found += [group[0].path(whole=True)] if every else [draft.path(whole=False) for draft in group]
    return found
