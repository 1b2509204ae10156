"""The paths of a mechanism that retries, without its retries.

Let a path come back, after some steps, to the state that it was in after the first p of them, with probability r given
these. What the mechanism does from there on is what it did before, independently of what it drew since. So it comes
back k times with probability r^k, and each way that leaves the loop is 1 + r + r² + … = 1/(1 - r) times as likely as
its first round makes it. This holds for a loop within another, too, if the inner one is summed first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

from veridp.errors import NotExplorable
from veridp.kernel.distributions import exact
from veridp.kernel.expressions import Condition
from veridp.kernel.path import Again, Fork, Option, Path, Step, leaves, symbols_of
from veridp.kernel.site import Site
from veridp.kernel.symbols import Noise, Relation, drawn_in
from veridp.kernel.weights import Weight

Mass = Callable[[Sequence[Condition]], Fraction | float]  # the probability that noise satisfies the conditions
HERE = Site("<retry>", 0)  # of a fork that is not in the code
LEAST_DIFFERENCE = 0.5  # of 1 and a rounded probability: below, digits are lost


class RetryHead(NamedTuple):
    """A state that is come back to: how many steps lead to it, how many heads before it, and the ways that were taken.

    Where loops begin with no step in between, the inner one has the same steps and the larger order.
    """

    place: int
    order: int
    taken: tuple[int, ...]
    name: str

    def leads_to(self, path: Path) -> bool:
        """Whether the path goes through it."""
        return self.place <= len(path.steps) and _taken(path.steps, self.place) == self.taken


def returning(paths: Sequence[Path]) -> dict[RetryHead, list[Path]]:
    """The paths that come back, by where they come back to."""
    back: dict[RetryHead, list[Path]] = {}
    for path in paths:
        if isinstance(end := path.output, Again):
            head = RetryHead(end.place, end.order, _taken(path.steps, end.place), end.head)
            back.setdefault(head, []).append(path)
    return back


def probability(noise: Noise, conditions: Sequence[Condition]) -> Fraction | None:
    """The probability that noise satisfies conditions on it alone; None where it is not rational."""
    return noise.distribution.probability_between(*ends_of(noise, conditions)) if conditions else Fraction(1)


def ends_of(noise: Noise, conditions: Sequence[Condition]) -> tuple[Fraction | None, Fraction | None]:
    """Between which numbers conditions on it alone leave the noise; None where there is no end."""
    low, high = None, None
    for condition in conditions:
        slope = Fraction(condition.slack.terms[noise])
        bound = -Fraction(condition.slack.constant) / slope
        strict = condition.relation is Relation.ABOVE
        equal = condition.relation is Relation.EQUAL
        if slope > 0 or equal:
            least = math.floor(bound) + 1 if noise.distribution.integer and strict else bound
            low = Fraction(least) if low is None else max(low, Fraction(least))
        if slope < 0 or equal:
            most = math.ceil(bound) - 1 if noise.distribution.integer and strict else bound
            high = Fraction(most) if high is None else min(high, Fraction(most))
    return low, high


def rational_mass(conditions: Sequence[Condition]) -> Fraction | None:
    """The probability of conditions on single draws, where it is rational; else None."""
    asked: dict[Noise, list[Condition]] = {}
    for condition in conditions:
        noise, *others = condition.slack.terms
        if others or not isinstance(noise, Noise):
            return None
        asked.setdefault(noise, []).append(condition)
    total = Fraction(1)
    for noise, its in asked.items():
        chance = probability(noise, its)
        if chance is None:
            return None
        total *= chance
    return total


class Retries:
    """The paths of a mechanism, and how much likelier its retries make those that end.

    `rounded` says whether these factors are; then each is right to as many digits as `mass` is.
    """

    def __init__(self, paths: Sequence[Path], mass: Mass) -> None:
        self.paths, self.mass = paths, mass
        self.rounded = False
        self.back = returning(paths)
        self._factors: dict[RetryHead, Fraction] = {}

    def factor_of(self, head: RetryHead) -> Fraction:
        """How much likelier coming back there makes what follows."""
        if head not in self._factors:
            leaves = 1 - sum(self._chance(path, head) for path in self.back[head])
            if self.rounded and leaves < LEAST_DIFFERENCE:
                ending = [path for path in self.paths if not isinstance(path.output, Again) and head.leads_to(path)]
                leaves = sum(self._chance(path, head) for path in ending)
            if leaves <= 0:
                raise NotExplorable("a loop that retries does not end")
            self._factors[head] = 1 / Fraction(leaves)
        return self._factors[head]

    def _chance(self, path: Path, head: RetryHead) -> Fraction:
        """The probability of going this way from the head on."""
        since = Path(path.steps[head.place :], None)
        drawn = {symbol for condition in since.conditions for symbol in drawn_in(condition.slack.terms)}
        if isinstance(since.weight, Weight) or not drawn.issubset(since.noises):
            raise NotExplorable("how often a loop retries depends on data, or on what was drawn before it")
        chance = self.mass(since.conditions)
        self.rounded |= isinstance(chance, float)
        return self.factor(path, head) * Fraction(since.weight) * Fraction(chance)

    def factor(self, path: Path, within: RetryHead | None = None) -> Fraction:
        """How much likelier the loops on its way make it; those within another alone, where one is given."""
        inner = [head for head in self.back if within is None or head > within]
        return Fraction(math.prod(self.factor_of(head) for head in inner if head.leads_to(path)))

    def accepted(self) -> Iterator[Path]:
        """The paths that end, each with the weight that it has if the mechanism retries until one does."""
        for path in self.paths:
            factor = self.factor(path)
            fork = Fork((Option((), exact(factor), rounded=self.rounded),), 0, HERE)
            if not isinstance(path.output, Again):
                yield path if factor == 1 else Path((*path.steps, fork), path.output)


def without_retries(paths: Sequence[Path]) -> list[Path]:
    """The paths that end, with the draws that decide whether to retry made finite choices.

    NotExplorable where these have no rational probabilities, or are used for something else: then what is accepted has
    another distribution than what was drawn.
    """
    retries = Retries(paths, rational)
    if not retries.back:
        return list(paths)
    return [_chosen(path, retries) for path in retries.accepted()]


def rational(conditions: Sequence[Condition]) -> Fraction:
    """The probability of conditions on single draws; NotExplorable where it is not rational."""
    chance = rational_mass(conditions)
    if chance is None:
        raise NotExplorable("how often a loop retries is not a rational number; compare inputs exactly")
    return chance


def _chosen(path: Path, retries: Retries) -> Path:
    """The path with nothing asked of draws that decide whether to retry."""
    gone = {symbol for condition in _deciding(path, retries) for symbol in condition.slack.terms}
    if not gone:
        return path
    about = {id(c): c for c in path.conditions if not gone.isdisjoint(drawn_in(c.slack.terms))}
    if not gone.isdisjoint(symbol for leaf in leaves(path.output) for symbol in symbols_of(leaf)):
        raise NotExplorable("what a loop draws until it likes it is released, so that it has another distribution")
    steps: list[Step] = [Fork((Option((), rational(list(about.values()))),), 0, HERE)]
    for step in path.steps:
        if isinstance(step, Fork):
            kept = tuple(c for c in step.option.conditions if id(c) not in about)
            step = Fork((Option(kept, step.option.weight, step.option.label),), 0, step.site, step.implied)
        steps.append(step)
    return Path(tuple(steps), path.output)


def _deciding(path: Path, retries: Retries) -> Iterator[Condition]:
    """The conditions that decided not to retry: at forks from which other paths came back."""
    for head, back in retries.back.items():
        if head.leads_to(path):
            last = max(_parting(path.steps, other.steps) for other in back)
            for step in path.steps[head.place : last + 1]:
                if isinstance(step, Fork) and not step.implied:
                    yield from step.option.conditions


def _parting(steps: Sequence[Step], others: Sequence[Step]) -> int:
    """The place of the fork at which they go different ways."""
    pairs = enumerate(zip(steps, others, strict=False))
    return next(k for k, (a, b) in pairs if isinstance(a, Fork) and isinstance(b, Fork) and a.taken != b.taken)


def _taken(steps: Sequence[Step], place: int) -> tuple[int, ...]:
    return tuple(step.taken for step in steps[:place] if isinstance(step, Fork))
