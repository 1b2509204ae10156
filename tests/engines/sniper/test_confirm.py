"""The playoff among attacks that held-out samples cannot tell apart."""

from __future__ import annotations

import importlib
import math
from dataclasses import replace
from typing import Any

import pytest

from veridp import catalogue
from veridp.adjacency import Pair
from veridp.budget import Level
from veridp.claim import Claim
from veridp.confidence import log_ratio_lower
from veridp.engines.sniper import search
from veridp.engines.sniper.attack import Goal
from veridp.engines.sniper.classifier import ModelFamily
from veridp.engines.sniper.confirm import CountedBounds, LinearBounds, PlayoffState, playoff
from veridp.engines.sniper.pair_attack import AttackCandidate, PairTask, Setting, TaskPool, best_attack
from veridp.mechanism import as_mechanism

GOAL = Goal(10**6, 0.05)
SETTING = Setting(as_mechanism(catalogue["laplace"], epsilon=0.5), 0, GOAL)


def candidate(right: float) -> AttackCandidate:
    """An attack on 0 and this number, which Laplace noise of scale 2 tells apart by half as much at most."""
    return best_attack(SETTING, PairTask(Pair([0.0], [right], "test"), 5000, 5000, (ModelFamily.ENTRY,), (9,)))


def played(candidates: list[AttackCandidate], samples: int = 200_000) -> list[PlayoffState]:
    with TaskPool(SETTING, workers=1) as pool:
        return list(playoff(pool, candidates, samples, (8,), GOAL))


def test_luck_on_held_out_samples_is_seen_through() -> None:
    strong = replace(candidate(1.0), promise=0.1)
    lucky = [replace(candidate(0.1 * number), promise=9.0) for number in range(1, 8)]
    last = played([*lucky, strong])[-1]
    assert last.best.pair == strong.pair
    # The first round's 50,000 samples may settle it: one standard error of their log-ratio is 0.008.
    ideal = float(log_ratio_lower(0.5 * 10**6, 10**6, 0.5 * math.exp(-0.5) * 10**6, 10**6, 0.05))
    assert last.best.promise == pytest.approx(ideal, abs=0.04)
    assert last.best.estimate == pytest.approx(0.5, abs=0.04)


def test_the_threshold_is_chosen_anew() -> None:
    found = candidate(1.0)
    good = found.attack.level
    off = replace(found, attack=replace(found.attack, level=good + 10.0), near=(good,), levels=(good, good + 5.0))
    best = played([off, candidate(0.1)])[-1].best
    assert best.attack.level == good
    assert best.levels == (good + 5.0,)
    assert best.left == pytest.approx(found.left, abs=0.03)
    assert best.held_out > off.held_out


@pytest.mark.parametrize("contenders", range(2, 10))
def test_it_draws_no_more_than_it_says(contenders: int) -> None:
    alike = [candidate(1.0)] * contenders
    standings = played(alike, 1000)
    assert 2 * 1000 <= standings[-1].drawn <= 2 * ((contenders - 1).bit_length() + 1) * 1000
    assert [one.drawn for one in standings] == sorted(one.drawn for one in standings)
    assert [one.share for one in standings] == sorted(one.share for one in standings)


def test_those_without_hope_are_out_before_the_last_round() -> None:
    clear = played([candidate(1.0), *[candidate(0.1)] * 7], 100_000)[-1].drawn
    close = played([candidate(1.0)] * 8, 100_000)[-1].drawn
    assert clear < 0.6 * close


def stages(**options: Any) -> set[str]:
    """What the top level does."""
    told: set[str] = set()
    search(
        catalogue["svt6"],
        3,
        samples=2000,
        final_samples=20_000,
        workers=1,
        progress=lambda stage, share, best: told.add(stage.split(" of ")[0]),
        **options,
    )
    return told


def test_there_is_one_unless_the_claim_is_as_good_as_refuted_or_the_samples_are_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(importlib.import_module("veridp.engines.sniper.search"), "levels", lambda *_: [Level(0, 1.0)])
    assert "playoff" in stages()
    assert "playoff" not in stages(claim=0.001)
    assert "playoff" in stages(claim=5.0)
    assert "playoff" not in stages(pairs=[([0.0, 0.0, 0.0], [1.0, 1.0, 1.0])])


@pytest.mark.parametrize("delta", [0.0, 0.05])
def test_one_test_refutes_what_two_intervals_leave_open(delta: float) -> None:
    """At the δ of the claim and its tolerance; both share one alpha with the bounds on the probabilities."""
    claim, samples = Claim(0.5, delta), 100_000
    left, right = 50_000 + round(delta * samples), round(50_000 / math.exp(0.512))
    one = LinearBounds(left, right, samples, 0.05, claim.tolerated.delta)
    two = CountedBounds(left, right, samples, 0.05)
    assert claim.refuted_by(one.epsilon)
    assert not claim.refuted_by(two.epsilon)
    assert one.exceeds is not None
    assert claim.exceeded_by(one.exceeds)
    assert one.lower < two.lower  # the test has most of alpha
    assert one.delta(0.5) >= delta
    assert one.epsilon(delta + 0.01) < 0.5  # the test says nothing of a larger δ
