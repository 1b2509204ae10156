"""A search that ends as soon as the claim is refuted: events that look bad are tested at once, block by block."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from veridp.adjacency import Pair
from veridp.claim import Claim
from veridp.confidence import clopper_pearson_lower, clopper_pearson_upper, growth
from veridp.engines.sniper.classifier import ModelFamily
from veridp.engines.sniper.confirm import challenge, implied_point
from veridp.engines.sniper.levels import Entrant, LevelSearch
from veridp.engines.sniper.pair_attack import AttackCandidate
from veridp.engines.sniper.pairs import Source

CHALLENGING = 7  # the stream of the seed, after those of a search by levels
CHALLENGE_ALPHA = 0.5  # the share of alpha for challenges; confirmations have the rest
SAMPLES_PER_HELD_OUT = 16  # of a challenge, at most, for each held-out sample that suggested it
DOUBTED = 0.3  # the probability with which either held-out frequency is taken to flatter the event
LEAST_PAIRS = 4  # of a level: a few samples of each show a gross mistake that only some pairs have
PLAIN_EVENTS = (ModelFamily.ENTRY, ModelFamily.TABLE)  # half-lines of one number of the output, and atoms


class RefutationSearch(LevelSearch):
    """The levels of a search, each of which tests its best event against the claim before it looks for better ones.

    Early levels try plain events alone. The n-th challenge spends 6/(π n)² of the share of alpha that is set aside for
    challenges, and its test holds at every look, so all of them together spend no more than that share.
    """

    challenges = 0
    challenge_alpha = 0.0

    def run(self, sources: Sequence[Source], given: Sequence[Pair]) -> None:
        top = self.plans[-1]
        self.challenge_alpha = CHALLENGE_ALPHA * top.alpha / top.level.alpha_share
        self.least_pairs = LEAST_PAIRS
        self.plans = [replace(plan, alpha=(1 - CHALLENGE_ALPHA) * plan.alpha) for plan in self.plans]
        super().run(sources, given)

    def entrants(self, pairs: Sequence[Pair]) -> list[Entrant]:
        if not self.plan.early:
            return super().entrants(pairs)
        return [Entrant(pair, self.plan.among(PLAIN_EVENTS)) for pair in pairs]

    def bound_early(self, candidate: AttackCandidate, samples: int) -> None:
        """Test the claim on the candidate, if that can be expected to refute it; some bound is given in any case."""
        self.challenged(candidate, SAMPLES_PER_HELD_OUT * samples)
        if not self.looks:
            super().bound_early(candidate, samples)

    def confirmed(self, winner: AttackCandidate) -> None:
        """Test the claim on the winner; late levels also confirm it by a test of fixed size, which has more power."""
        self.challenged(winner, self.plan.final)
        if not self.refuted and not (self.plan.early and self.looks):
            super().confirmed(winner)

    def challenged(self, candidate: AttackCandidate, samples: int) -> None:
        claim = self.plan.stop_at
        if claim is None or self.refuted:
            return
        alpha = self.challenge_alpha * 6 / (math.pi * (self.challenges + 1)) ** 2
        point = worthwhile(candidate, claim, samples, alpha)
        if point is None:
            return
        self.challenges += 1
        key, before = (CHALLENGING, self.challenges), self.drawn
        last = None
        for last in challenge(self.pool, candidate, point, samples, alpha, key, self.setting.goal.delta):
            self.drawn = before + 2 * last.bounds.samples
            self.tell("testing the claim", last.bounds.samples / samples)
            if self.deadline.passed:
                break
        if last is not None:
            self.looks.append(last)
            self.refuted = last.bounds.exceeds is not None
            self.certified()
        self.keep_time()


def worthwhile(candidate: AttackCandidate, claim: Claim, samples: int, alpha: float) -> Claim | None:
    """The point of the claim that the candidate can be expected to refute within so many samples; None if none."""
    total = candidate.held_out
    left = float(clopper_pearson_lower(round(candidate.left * total), total, DOUBTED))
    right = float(clopper_pearson_upper(round(candidate.right * total), total, DOUBTED))
    point = implied_point(claim, left, right)
    promising = samples * float(growth(left, right, point.epsilon, point.delta)) > -math.log(alpha)
    return point if promising and math.isfinite(point.epsilon) else None
