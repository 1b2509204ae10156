"""Proofs of loops with too many paths to list them, held against proofs by listing, where that can be done."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

import veridp
from veridp.engines.prove.induction import stepwise
from veridp_check.checker import check


def verdicts(rng, counts, *, epsilon=1.0):
    """Every count against one noisy bar; the true cost is nε/2."""
    bar = 5 + rng.laplace(scale=2 / epsilon)
    said = []
    for count in counts:
        if count + rng.laplace(scale=2 / epsilon) >= bar:
            said.append("high")
        else:
            said.append("low")
    return said


def every_second(rng, counts):
    """Steps that differ by their number, and one that asks three ways."""
    out = []
    for number, count in enumerate(counts):
        noisy = count + rng.laplace(scale=4)
        if number % 2 == 0:
            out.append(1 if noisy > 0 else 0)
        elif noisy < -1:
            out.append(-1)
        elif noisy > 1:
            out.append(1)
        else:
            out.append(0)
    return out


def rising(rng, counts):
    """A bar that moves with what it sees: its difference depends on how many queries were asked."""
    total = rng.laplace(scale=8)
    out = []
    for count in counts:
        total = total + count
        out.append(total + rng.laplace(scale=4) > 0)
    return out


@pytest.mark.parametrize(
    ("function", "adjacency", "size", "times"),
    [
        (verdicts, "linf", 3, 1),
        (verdicts, "l1", 2, 1),
        (every_second, "linf", 3, 1),
        (verdicts, "monotone", 2, 1.5),  # by listing, the bar moves or not by what the rest of the output will be
        (rising, "l1", 2, 2),
    ],
)
def test_no_less_is_proved_than_by_listing(
    function: Callable[..., Any], adjacency: str, size: int, times: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    mechanism = veridp.mechanism(adjacency=adjacency)(function)
    listed = veridp.prove(mechanism, size=size)
    monkeypatch.setattr(stepwise, "FEW_QUERIES", 0)
    monkeypatch.setattr(stepwise, "MAX_LISTED_PATHS", 0)
    proof = veridp.prove(mechanism, size=size)
    assert isinstance(proof, stepwise.StepwiseProof)
    assert proof.epsilon == times * listed.epsilon


def test_two_to_the_forty_outputs_are_not_listed() -> None:
    proof = veridp.prove(verdicts, adjacency="linf", size=40, seconds=300)
    assert proof.epsilon == 20.0  # nε/2
    assert proof.to_dict()["extent"] == "40 steps, one after the other"
    assert "its noise shifts by 1 in 40 steps" in str(proof.blame)
    assert check(proof.certificate).verified
    (move,) = proof.moves
    assert len(move) == 40


def test_what_ends_early_and_what_has_few_paths_is_listed() -> None:
    assert stepwise.prove_by_steps(veridp.catalogue["svt1"], 40) is None


def test_a_certificate_that_was_changed_is_rejected() -> None:
    written = veridp.prove(verdicts, adjacency="linf", size=13, seconds=300).certificate
    changes: dict[tuple[Any, ...], tuple[Any, str]] = {
        ("size",): (14, "is missing"),
        ("epsilon",): ("5", "above ε"),
        ("alignments", 0, "places", 3, "left"): ("0", "is left, but it takes"),
        ("alignments", 0, "moves", 7, "moves", 0): ("1/2", "it changes condition"),
    }
    for place, (value, reason) in changes.items():
        node = document = copy.deepcopy(written)
        for key in place[:-1]:
            node = node[key]
        node[place[-1]] = value
        rejection = check(document).rejection
        assert rejection is not None
        assert reason in rejection.reason
