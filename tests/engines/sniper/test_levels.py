"""Which models a search goes on to try, given how they did so far."""

from __future__ import annotations

import math
from typing import Any, cast

from veridp.adjacency import Pair
from veridp.budget import Deadline, Level
from veridp.engines.sniper.attack import Scorer, ThresholdAttack
from veridp.engines.sniper.classifier import ALL, ModelFamily
from veridp.engines.sniper.confirm import Spending
from veridp.engines.sniper.levels import SLOW, LevelPlan, LevelSearch
from veridp.engines.sniper.pair_attack import AttackCandidate

LINEAR, BOOSTED, NETWORK = ModelFamily.LINEAR, ModelFamily.BOOSTED, ModelFamily.NETWORK


def running() -> LevelSearch:
    plan = LevelPlan(Level(0, 1.0), 1000, 10_000, ALL, Spending(), 0.05)
    return LevelSearch([plan], cast("Any", None), cast("Any", None), Deadline(math.inf), None)


def candidate(best: ModelFamily, *others: ModelFamily, promise: float = 1.0) -> AttackCandidate:
    model = type("Model", (), {"family": best})()
    attack = ThresholdAttack(Scorer(cast("Any", None), cast("Any", model)), 0.0)
    return AttackCandidate(Pair([0], [1], "given"), attack, promise, 0.5, 0.2, (best, *others), (), 3, 0)


def test_a_slow_family_that_was_the_best_for_no_pair_is_given_up() -> None:
    run = running()
    assert run.slow == SLOW
    run.learn_from([candidate(LINEAR)])  # none of them was tried
    assert run.slow == SLOW
    run.learn_from([candidate(LINEAR, BOOSTED), candidate(BOOSTED, NETWORK), candidate(LINEAR)])
    assert run.slow == (BOOSTED,)
    assert run.useful((NETWORK, LINEAR, BOOSTED)) == (LINEAR, BOOSTED)


def test_nothing_is_given_up_where_nothing_was_found() -> None:
    run = running()
    run.learn_from([candidate(LINEAR, BOOSTED, NETWORK, promise=-0.1)])
    assert run.slow == SLOW


def test_a_family_that_alone_was_asked_for_stays() -> None:
    run = running()
    run.learn_from([candidate(BOOSTED, NETWORK)])
    assert run.useful((NETWORK,)) == (NETWORK,)
