"""Attacks by whole sessions: what they reach when played is what the enumeration says, and the service sees it."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import numpy as np
import pytest

from veridp.collect import MECHANISMS, Refused, Task
from veridp.collect.attacks import VerifiedCollection
from veridp.collect.estimate import estimate_from
from veridp.collect.session_attacks import SESSION_ATTACKS, BestVector, ChosenInput, DropOut, SeedShopping
from veridp.errors import BadInput

ATTRIBUTES = ("a=0..1", "b=0..1", "c=0..1")


def of(mechanism: str, small_task: Callable[..., Task]) -> Task:
    if mechanism in ("sr-smp", "sr-spl"):
        return Task("several", mechanism, 1.0, items=ATTRIBUTES)
    return small_task(mechanism)


@pytest.mark.parametrize("name", SESSION_ATTACKS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_what_is_played_is_what_is_enumerated(mechanism: str, name: str, small_task: Callable[..., Task]) -> None:
    """Of 150 accepted sessions: score and tokens within 5 standard errors, for each of 32 pairs, 4e-5 in all."""
    task = of(mechanism, small_task)
    attack = SESSION_ATTACKS[name](task, 0.6, (0,) if task.protocol.numeric else (0, 1))
    played = attack.collect([task.protocol.examples[-1]] * 100, random.Random(f"{mechanism} {name}"))
    assert abs(played.score - attack.expected_score) <= 5 * played.error + 1e-9
    chance = 1 / attack.expected_tokens
    assert abs(played.tokens - 1 / chance) <= 5 * math.sqrt(1 - chance) / chance / math.sqrt(150)
    assert played.attendance.accepted == 250
    assert attack.allowed_by(VerifiedCollection(task))
    known = attack.known
    assert attack.bold_score in (known.best_input, known.counted, known.free_after_invitation, known.free)


def test_departures_are_seen_and_bounded(small_task: Callable[..., Task]) -> None:
    """5 % of malicious clients that drop out move a mean of 38.58 to 44.8 at ε = ln 2, as unchecked ones would.

    Their protocol is robust, so all their sessions, left ones too, are as if they had claimed 90: that mean is outside
    of the interval that trusts who stayed, and within the worst bounds.
    """
    task = Task("ages", "sr-ho", math.log(2), low=17, high=90)
    rng = np.random.default_rng(2)
    ages = rng.triangular(17, 30, 68.74, size=40_000)  # mean 38.58
    attack = DropOut(task, 0.05)
    played = attack.collect(ages.tolist(), random.Random(2))
    assert played.after == pytest.approx(38.58 + 0.05 * (163 - 38.58), abs=2.0)  # four standard errors
    assert attack.expected_gain(38.58) == pytest.approx(6.22, abs=0.01)
    found = estimate_from(task, played.support, played.attendance)["mean"]
    assert found.value == pytest.approx(played.after)
    malicious = played.attendance.accepted - len(ages) + played.attendance.expired_challenged
    claimed = (ages.sum() + 90 * malicious) / (len(ages) + malicious)
    assert found.lower > claimed
    assert found.worst_lower <= claimed <= found.worst_upper
    assert played.attendance.abort_rate(task.protocol) == pytest.approx(attack.expected_abort_rate, abs=0.003)
    hashed = small_task("volh")
    shopping = SeedShopping(hashed, 0.3, (0, 1)).collect(["cat"] * 700, random.Random(3))
    with pytest.raises(Refused, match="after seeing their hash"):
        estimate_from(hashed, shopping.support, shopping.attendance)


def test_an_aim_is_met_on_average(small_task: Callable[..., Task]) -> None:
    """Fine-grained: the boldness with which 30 % of the clients bring a mean from 1 to 1.6; all of it beyond reach."""
    task = small_task("pm-ho")
    attack = BestVector(task, 0.3).aimed(1.0, 1.6)
    assert 0 < attack.boldness < 1
    assert 1 + attack.expected_gain(1.0) == pytest.approx(1.6)
    played = attack.collect([1.0] * 1400, random.Random(4))
    assert abs(played.score - attack.expected_score) <= 5 * played.error
    assert ChosenInput(task, 0.1).aimed(1.0, 3.0).boldness == 1
    assert ChosenInput(task, 0.1).aimed(1.0, -3.0).boldness == 0


def test_mistakes_are_said(small_task: Callable[..., Task]) -> None:
    task = small_task("vgrr")
    with pytest.raises(BadInput, match=r"beta must be in \(0, 1\)"):
        DropOut(task, 1.0)
    with pytest.raises(BadInput, match="no honest clients"):
        DropOut(task, 0.1).collect([], random.Random(0))
    with pytest.raises(BadInput, match="all items are targets"):
        ChosenInput(task, 0.5, tuple(range(5)), 0.0).collect(["ant"], random.Random(0))
