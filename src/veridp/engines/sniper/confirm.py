"""Confirmation: which attacks to confirm, and what one certifies on fresh samples."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from veridp.claim import Claim, Interval, Witness
from veridp.confidence import (
    BinomialMartingale,
    RatioMartingale,
    clopper_pearson_lower,
    clopper_pearson_upper,
    growth,
    linear_epsilon_lower,
)
from veridp.conversions import Event
from veridp.engines.sniper.attack import BIT_COLUMNS, BOUND_SHARE, Goal, ThresholdAttack
from veridp.engines.sniper.pair_attack import AttackCandidate, Setting, TaskPool, seed_for
from veridp.sampling.sample import tally

# ------------------------------------------------------------------------------------------------------------- confirm
# Confirmation: what an attack certifies on fresh samples, valid at every look, with one alpha for all that is said.
#
# The search draws samples of its own, so an attack is fixed before its confirmation draws the first one, and nothing
# has to be paid for the pairs, models, directions and thresholds that were tried. A look counts how often the attack
# takes an output of either side and bounds both probabilities by Clopper and Pearson at half the look's alpha each
# (paper, Theorem 1); for a frequent event, one test of P[left] - e^ε P[right] shows more. Each look counts some more
# thresholds of the same scores: they cost no samples, tell the privacy profile, and one of them may turn out better
# than the threshold that held-out samples, by their luck, had for the best. The alphas of all looks and thresholds of
# all levels add up to the alpha of the search: so all bounds hold together with probability 1 - alpha, and the best of
# them may be reported, whenever one stops.


Counts = NDArray[np.int64]
PART = 2**20  # samples that one task counts
LOOKS = 4  # of a confirmation, each of four times as many samples as the one before
GROWTH = 4


@dataclass(frozen=True)
class Spending:
    """How the alpha of a level is divided: the shares of the last look, of the looks before it, of early bounds during
    the search and of the other thresholds of all looks. They add up to at most 1."""

    last: float = 0.775
    earlier: float = 0.03
    early_bounds: float = 0.02
    others: float = 0.175

    def early_bound(self, number: int) -> float:
        """The share of the n-th early bound, from 1 on: together they spend `early_bounds` (Σ 1/n² = π²/6)."""
        return self.early_bounds * 6 / (math.pi * number) ** 2


ALL_AT_ONCE = Spending(1.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class CountedBounds:
    """An event counted on either side: its probability is >= `lower` on the left, <= `upper` on the right."""

    left: int
    right: int
    samples: int
    alpha: float

    @property
    def exceeds(self) -> Claim | None:
        """An (ε, δ) that a test of the inequality itself has rejected."""
        return None

    @cached_property
    def lower(self) -> float:
        return float(clopper_pearson_lower(self.left, self.samples, self.alpha / 2))

    @cached_property
    def upper(self) -> float:
        return float(clopper_pearson_upper(self.right, self.samples, self.alpha / 2))

    def epsilon(self, delta: float = 0.0) -> float:
        """A lower bound on ε at this δ."""
        above = math.log((self.lower - delta) / self.upper) if self.lower > delta else -math.inf
        point = self.exceeds
        return above if point is None or delta > point.delta else max(above, point.epsilon)

    def delta(self, epsilon: float) -> float:
        """A lower bound on δ at this ε: P[left] - e^ε P[right] is at least so much."""
        above, point = self.lower - math.exp(min(epsilon, 700.0)) * self.upper, self.exceeds
        return above if point is None or epsilon > point.epsilon else max(above, point.delta)

    def estimate(self, delta: float = 0.0) -> float:
        """The same from the frequencies themselves: no bound."""
        above = self.left / self.samples - delta
        if above <= 0:
            return -math.inf
        return math.log(above * self.samples / self.right) if self.right else math.inf


@dataclass(frozen=True)
class LinearBounds(CountedBounds):
    """The same, with most of alpha for one test of P[left] - e^ε P[right], at a δ that was fixed before."""

    at_delta: float

    @cached_property
    def exceeds(self) -> Claim | None:
        alpha = (1 - BOUND_SHARE) * self.alpha
        epsilon = linear_epsilon_lower(self.left, self.right, self.samples, alpha, self.at_delta)
        return Claim(epsilon, self.at_delta) if epsilon > 0 else None

    @cached_property
    def lower(self) -> float:
        return float(clopper_pearson_lower(self.left, self.samples, BOUND_SHARE * self.alpha / 2))

    @cached_property
    def upper(self) -> float:
        return float(clopper_pearson_upper(self.right, self.samples, BOUND_SHARE * self.alpha / 2))


@dataclass(frozen=True)
class SequentialBounds(CountedBounds):
    """The same from a test that holds at every look: bounds on both probabilities, and an (ε, δ) that they exceed."""

    at_least: float
    at_most: float
    exceeded: Claim | None

    @property
    def exceeds(self) -> Claim | None:
        return self.exceeded

    @property
    def lower(self) -> float:
        return self.at_least

    @property
    def upper(self) -> float:
        return self.at_most


@dataclass(frozen=True, eq=False)
class Look:
    """What a look at an attack on a pair certifies."""

    candidate: AttackCandidate
    attack: ThresholdAttack
    bounds: CountedBounds
    delta: float

    @cached_property
    def epsilon(self) -> float:
        return self.bounds.epsilon(self.delta)

    @property
    def event(self) -> Event:
        """What is certified of the event: P[left] at least, P[right] at most."""
        return self.bounds.lower, self.bounds.upper


@dataclass(frozen=True, eq=False)
class CandidateLooks:
    """All looks at a candidate: together, they bound the trade-off curve of its pair from above."""

    looks: tuple[Look, ...]

    @property
    def events(self) -> tuple[Event, ...]:
        """What is certified of all its events that tell the inputs apart."""
        return tuple(look.event for look in self.looks if look.event[1] < look.event[0])

    def best(self, claim: Claim | None) -> Look:
        """The look that shows most in the notion of the claim, or the largest ε at the δ of the search."""
        notion = None if claim is None else claim.notion
        if claim is None or notion is None:
            return max(self.looks, key=lambda look: look.epsilon)
        for look in self.looks:
            if look.bounds.exceeds is not None and claim.exceeded_by(look.bounds.exceeds):
                return look
        if not self.events:
            return max(self.looks, key=lambda look: look.epsilon)
        return max(self.looks, key=lambda look: notion.power(look.event) if look.event in self.events else 0.0)

    def witness(self, claim: Claim | None, confidence: float) -> Witness:
        """The pair and its best event; its intervals are one-sided, since no more is needed.

        For a claim in another notion the bounds for the other events come with it.
        """
        best = self.best(claim)
        pair, has_notion = best.candidate.pair, claim is not None and claim.notion is not None
        return Witness(
            pair.left,
            pair.right,
            best.attack,
            Interval(best.bounds.lower, 1.0),
            Interval(0.0, best.bounds.upper),
            confidence,
            as_floats=any(isinstance(column, BIT_COLUMNS) for column in best.attack.scorer.columns.columns),
            others=tuple(event for event in self.events if event != best.event) if has_notion else (),
            exceeds=best.bounds.exceeds,
        )

    def refutes(self, claim: Claim) -> bool:
        """Whether the looks exclude the claim: one of them a point that it implies, or all together its notion."""
        by_point = any(claim.refuted_by(look.bounds.epsilon) for look in self.looks)
        return by_point or (claim.notion is not None and self.witness(claim, 1.0).refutes(claim))


def by_candidate(looks: Iterable[Look]) -> list[CandidateLooks]:
    """The looks, candidate by candidate."""
    grouped: dict[int, list[Look]] = {}
    for look in looks:
        grouped.setdefault(id(look.candidate), []).append(look)
    return [CandidateLooks(tuple(group)) for group in grouped.values()]


# --------------------------------------------------------------------------------------------------------- counting


@dataclass(frozen=True)
class CountTask:
    """Events to be counted among fresh outputs of one input."""

    data: object
    attack: ThresholdAttack
    levels: tuple[float, ...]
    samples: int
    key: tuple[int, ...]


def count(setting: Setting, task: CountTask) -> Counts:
    """How many outputs the attack takes, then how many have a score of at least each level."""
    attack = task.attack
    events = [attack.above, attack.reached, *(ThresholdAttack(attack.scorer, level).reached for level in task.levels)]
    counted = tally(
        setting.mechanism,
        task.data,
        task.samples,
        seed_for(setting.seed, *task.key),
        events=events,
        reading=setting.reading,
        workers=1,
        time_limit=setting.time_limit,
        expected=setting.expected,
        trials=setting.trials,
    )
    above, reached, *rest = (counted[place] for place in range(len(events)))
    # Which of the ties are taken is a coin for each; only how many were matters here.
    coins = np.random.default_rng(seed_for(setting.seed, *task.key, 0))
    taken = above + int(coins.binomial(reached - above, attack.tie))
    return np.array([taken, *rest], dtype=np.int64)


def counted(
    pool: TaskPool, candidate: AttackCandidate, levels: Sequence[float], samples: int, key: tuple[int, ...]
) -> Iterator[tuple[int, int, Counts]]:
    """For both inputs, part by part: the side (0 is left), how many samples the part has, and its counts."""
    sizes = [min(PART, samples - start) for start in range(0, samples, PART)]
    parts = [(side, size, number) for number, size in enumerate(sizes) for side in (0, 1)]
    inputs = (candidate.pair.left, candidate.pair.right)
    tasks = [
        CountTask(inputs[side], candidate.attack, tuple(levels), size, (*key, side, number))
        for side, size, number in parts
    ]
    for (side, size, _), counts in zip(parts, pool.run(count, tasks), strict=True):
        yield side, size, counts


def look_sizes(final: int) -> list[int]:
    """How many samples each look has seen, the last one all of them."""
    sizes = {final // GROWTH**back for back in range(LOOKS)}
    return sorted(size for size in sizes if size >= min(final, 1000))


def confirm(
    pool: TaskPool,
    candidate: AttackCandidate,
    samples: int,
    alpha: float,
    key: tuple[int, ...],
    goal: Goal,
    spending: Spending = Spending(),
) -> Iterator[list[Look] | float]:
    """Looks at more and more fresh samples; between them, the share of the samples that are counted so far.

    Several looks at once are at the same samples, the one at the candidate's own threshold first. Held-out samples
    alone decide by which test that is judged.
    """
    sizes = look_sizes(samples) if spending.earlier else [samples]
    levels = candidate.levels if spending.others else ()
    attacks = [candidate.attack, *(replace(candidate.attack, level=level, tie=1.0) for level in levels)]
    totals: Counts = np.zeros((2, 1 + len(levels)), dtype=np.int64)
    done = 0
    for number, size in enumerate(sizes):
        for side, part, counts in counted(pool, candidate, levels, size - done, (*key, number)):
            totals[side] += counts
            yield (done + part / 2) / samples
        done = size
        last = number == len(sizes) - 1
        main = alpha * (spending.last if last else spending.earlier / max(1, len(sizes) - 1))
        rest = alpha * spending.others * _share(number, len(sizes)) / max(1, len(levels))
        (left, right), *further = totals.T.tolist()
        linear = spending is not ALL_AT_ONCE and goal.favours_one_test(candidate.left, candidate.right, size, main)
        at_delta = Claim(0.0, goal.delta).tolerated.delta  # what a refutation has to exceed
        one = LinearBounds(left, right, size, main, at_delta) if linear else CountedBounds(left, right, size, main)
        bounds = (one, *(CountedBounds(mine, theirs, size, rest) for mine, theirs in further))
        looked = zip(attacks, bounds, strict=True)
        yield [Look(candidate, attack, bound, goal.delta) for attack, bound in looked]


def _share(number: int, of: int) -> float:
    """The part of the other thresholds' share that this look spends: the last spends most of it."""
    return 1.0 if of == 1 else 0.8 if number == of - 1 else 0.2 / (of - 1)


def early_bound(
    pool: TaskPool, candidate: AttackCandidate, samples: int, alpha: float, key: tuple[int, ...], delta: float = 0.0
) -> Look:
    """A bound for the candidate from fresh samples, during the search."""
    totals = [0, 0]
    for side, _, counts in counted(pool, candidate, (), samples, key):
        totals[side] += int(counts[0])
    return Look(candidate, candidate.attack, CountedBounds(totals[0], totals[1], samples, alpha), delta)


# ---------------------------------------------------------------------------------------------------------- challenge
# The challenge: a claim tested against one attack, block by block, until it is refuted or the samples are used up.


FIRST_BLOCK = 32  # samples of either side
BLOCK_GROWTH = 1.25  # samples after each look, as a multiple of those before it
TESTED_EPSILONS = 64


def implied_point(claim: Claim, left: float, right: float) -> Claim:
    """The (ε, δ) that the tolerated claim implies and that two probabilities such as these refute soonest."""
    points = claim.tolerated.implied
    if claim.tolerated.notion is not None:  # more of its points, near the slope that the two suggest
        most = max(math.log(max(left, 1e-12) / max(right, 1e-12)), 0.1)
        epsilons = (most * share for share in np.linspace(0.0, 1.0, 9).tolist())
        points = (*points, *(Claim(epsilon, claim.tolerated.notion.delta(epsilon)) for epsilon in epsilons))
    return max(points, key=lambda point: float(growth(left, right, point.epsilon, point.delta)))


def challenge(
    pool: TaskPool,
    candidate: AttackCandidate,
    point: Claim,
    samples: int,
    alpha: float,
    key: tuple[int, ...],
    delta: float = 0.0,
) -> Iterator[Look]:
    """Looks at more and more fresh samples, the last one where P[left] > e^ε P[right] + δ is shown for the point.

    All looks together are wrong with probability alpha at most. The point must not depend on these samples. `delta` is
    that at which looks are compared with others.
    """
    held_out = candidate.held_out
    seen = candidate.left * held_out, candidate.right * held_out, held_out
    lowest = point.epsilon * (1 + 1e-9) + 1e-12  # what is shown is then above the point, beyond rounding
    reach = min(max(candidate.estimate, lowest) + 1.0, lowest + 20.0)
    test = RatioMartingale(np.linspace(lowest, reach, TESTED_EPSILONS), point.delta, seen)
    sides = BinomialMartingale((seen[0], held_out)), BinomialMartingale((seen[1], held_out))
    done, shown = 0, -math.inf
    while done < samples and shown < lowest:
        size = min(max(FIRST_BLOCK, int((BLOCK_GROWTH - 1) * done)), samples - done)
        totals = [0, 0]
        for side, part, counts in counted(pool, candidate, (), size, (*key, done)):
            totals[side] += int(counts[0])
            sides[side].add(int(counts[0]), part)
        test.bet(totals[0], totals[1], size)
        done += size
        shown = test.epsilon_lower((1 - BOUND_SHARE) * alpha)
        bounds = SequentialBounds(
            sides[0].count,
            sides[1].count,
            done,
            alpha,
            sides[0].lower(BOUND_SHARE * alpha / 2),
            sides[1].upper(BOUND_SHARE * alpha / 2),
            Claim(shown, point.delta) if shown >= lowest else None,
        )
        yield Look(candidate, candidate.attack, bounds, delta)


# ------------------------------------------------------------------------------------------------------------- playoff
# The playoff: attacks that held-out samples cannot separate are counted on many more, and the best one is confirmed.
#
# There are far fewer held-out samples than samples of the confirmation, and the best of many attacks on them is partly
# the luckiest. The playoff counts a few attacks, fixed in advance, in rounds: half of them advance to twice as many
# samples. It stores only the counts. The confirmation draws fresh samples, so the selection costs no α.


Floats = NDArray[np.float64]
DOUBT = 1.0  # standard errors by which rates are taken pessimistically: few attacks leave less to luck than many


@dataclass
class Contender:
    """A candidate, and how often outputs reached its thresholds so far: its own first, then others."""

    candidate: AttackCandidate
    levels: tuple[float, ...]
    key: tuple[int, ...]
    totals: Counts
    samples: int = 0

    @classmethod
    def of(cls, candidate: AttackCandidate, key: tuple[int, ...]) -> Contender:
        levels = tuple(dict.fromkeys((*candidate.levels, *candidate.near)))
        return cls(candidate, levels, key, np.zeros((2, 1 + len(levels)), dtype=np.int64))

    def count(self, pool: TaskPool, samples: int) -> Iterator[int]:
        """Count until `samples` of either side are seen; yield the size of each part."""
        key = (*self.key, self.samples)
        for side, part, counts in counted(pool, self.candidate, self.levels, samples - self.samples, key):
            self.totals[side] += counts
            yield part
        self.samples = samples

    @property
    def seen(self) -> tuple[Floats, int, Floats, int]:
        """How often outputs of either side reached each threshold, of how many."""
        left, right = self.totals.astype(np.float64)
        return left, self.samples, right, self.samples

    def optimistic_bound(self, goal: Goal) -> float:
        """The bound that the confirmation may reach if the candidate was unlucky here."""
        return float(goal.optimistic_bound(*self.seen).max())

    def settled(self, goal: Goal) -> AttackCandidate:
        """The candidate with its best threshold so far, and the bound that it promises now."""
        bounds = goal.expected(*self.seen, DOUBT)
        best = int(np.argmax(bounds))
        left, right = (self.totals[:, best] / self.samples).tolist()
        chosen = replace(self.candidate, promise=float(bounds[best]), left=left, right=right, held_out=self.samples)
        if best == 0:
            return chosen
        level = self.levels[best - 1]
        others = tuple(other for other in chosen.levels if other != level)
        return replace(chosen, attack=replace(chosen.attack, level=level, tie=1.0), levels=others)


@dataclass(frozen=True)
class PlayoffState:
    """How a playoff stands: the best after the last round, how many outputs were drawn, and the share that is done."""

    best: AttackCandidate
    drawn: int
    share: float


def _rounds(contenders: int) -> int:
    return (contenders - 1).bit_length()


def playoff(
    pool: TaskPool, candidates: Sequence[AttackCandidate], samples: int, key: tuple[int, ...], goal: Goal
) -> Iterator[PlayoffState]:
    """The state after each counted part; at most two candidates are counted on `samples` of either input.

    Each earlier round counts twice as many candidates on half as many samples. Candidates advance only if their
    optimistic bound reaches the leader's.
    """
    left = [Contender.of(candidate, (*key, number)) for number, candidate in enumerate(candidates)]
    rounds = _rounds(len(left))
    best, drawn = candidates[0], 0
    for number in range(rounds):
        for place, contender in enumerate(left):
            for part in contender.count(pool, max(1, samples >> (rounds - 1 - number))):
                drawn += part
                yield PlayoffState(best, drawn, (number + place / len(left)) / rounds)
        standing = sorted(((one.settled(goal), one) for one in left), key=lambda pair: -pair[0].promise)
        best = standing[0][0]
        yield PlayoffState(best, drawn, (number + 1) / rounds)
        going_on = [one for _, one in standing[: (len(left) + 1) // 2]]
        left = [one for one in going_on if one.optimistic_bound(goal) >= best.promise]
        if len(left) < 2:
            return
