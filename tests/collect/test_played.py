"""Poisoning against the real verifier: which attacks it leaves room for."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from veridp.collect import SCHEMES, Task
from veridp.collect.attacks import VerifiedCollection, forged, play_honest, play_vector
from veridp.local import GRR, SR
from veridp.local.poisoning.attack import CheckedProtocol, Freedom, Unchecked
from veridp.local.poisoning.frequency import MGA, RIA
from veridp.local.poisoning.numeric import IPA, OPA, LargestInput


@pytest.mark.parametrize("kind", SCHEMES)
def test_output_poisoning_is_rejected_and_input_poisoning_passes(kind: str, small_task: Callable[..., Task]) -> None:
    checked = VerifiedCollection(small_task("sr-ho", scheme=kind))
    oracle = SR(0.0, 4.0, math.log(2))
    assert isinstance(checked, CheckedProtocol)
    assert not OPA(0.05, oracle).allowed_by(checked)
    assert IPA(0.05, oracle, 3.0).allowed_by(checked)
    assert LargestInput(0.05, oracle).allowed_by(checked)
    assert OPA(0.05, oracle).allowed_by(Unchecked())


def test_what_each_protocol_permits(task: Task) -> None:
    checked = VerifiedCollection(task)
    permitted = {freedom for freedom in Freedom if checked.permits(freedom)}
    always = {Freedom.INPUT, Freedom.ABSENCE, Freedom.WITHDRAWAL}
    assert permitted == always | ({Freedom.SEVERAL_INPUTS} if task.mechanism == "voue" else set())
    assert task.mechanism in checked.name


def test_maximal_gain_attacks_are_rejected(small_task: Callable[..., Task]) -> None:
    """MGA sends crafted reports; of the protocols none lets a client choose its report."""
    oracle = GRR(5, math.log(2))
    assert not MGA(0.05, oracle, (0, 1)).allowed_by(VerifiedCollection(small_task("vgrr")))
    assert RIA(0.05, oracle, (0, 1)).allowed_by(VerifiedCollection(small_task("vgrr")))


def test_a_poisoned_collection_is_as_good_as_one_without(small_task: Callable[..., Task]) -> None:
    """Clients that forge their output are all rejected, whatever was selected; honest ones are all accepted."""
    task, rng = small_task("vgrr"), random.Random(3)
    layout = task.protocol.layout
    only = [tuple(layout.length if value == 2 else 0 for value in range(layout.values))]
    for _ in range(100):
        honest = play_honest(task, "cat", rng).verdict
        assert honest is not None
        assert honest.accepted
        for counts, lie in [(only, None), (only, forged(2))]:
            verdict = play_vector(task, counts, rng, lie).verdict
            assert verdict is not None
            assert not verdict.accepted


def test_a_forged_selection_passes_only_where_it_is_the_truth(small_task: Callable[..., Task]) -> None:
    """An honest vector, and the lie that value 0 was selected: true in a third of the cases for a holder of 0.

    Its other entries are named in one order, so even then they are rarely right.
    """
    task, rng = small_task("vgrr"), random.Random(3)
    passed = 0
    for _ in range(200):
        verdict = play_vector(task, task.protocol.counts(0, b""), rng, forged(0)).verdict
        assert verdict is not None
        passed += verdict.accepted
        if verdict.accepted:
            assert verdict.outputs == (0,)
    assert passed < 20
