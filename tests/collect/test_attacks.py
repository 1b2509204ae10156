"""Poisoning against the real verifier, and the comparison of the protocols."""

from __future__ import annotations

import math
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from veridp.collect import SCHEMES, Task
from veridp.collect.attacks import (
    VerifiedCollection,
    compared_frequencies,
    compared_means,
    forged,
    play_honest,
    play_vector,
)
from veridp.local import GRR, PM, SR
from veridp.local.poisoning.attack import MGA, RIA, CheckedProtocol, Freedom, Unchecked
from veridp.local.poisoning.numeric import IPA, OPA, LargestInput
from veridp.local.study import adult_ages


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


# ---------------------------------------------------------------------------------------------------------- comparison
# The comparison of the protocols: its page is what the code computes, and its numbers are those of other sources.


ROOT = Path(__file__).parents[2]


def test_the_page_is_what_the_benchmark_writes(tmp_path: Path) -> None:
    written = tmp_path / "table.md"
    command = [sys.executable, str(ROOT / "benchmarks" / "verifiable.py"), "--page", str(written)]
    subprocess.run(command, check=True)  # noqa: S603
    assert (ROOT / "docs" / "verifiable-table.md").read_text(encoding="utf-8") == written.read_text(encoding="utf-8")


def test_errors_of_means_are_those_of_the_oracles() -> None:
    """Stochastic rounding is the oracle SR exactly; the piecewise mechanism on many bins tends to the oracle PM."""
    people, epsilon = adult_ages(), math.log(2)
    shape = {"low": people.low, "high": people.high}
    sr = compared_means(Task("sr", "sr-ho", epsilon, **shape, resolution=1), people, 0.05, ["blake2b"])  # type: ignore[arg-type]
    half = (people.high - people.low) / 2
    unit = (people.values - people.low) / half - 1
    exact = math.sqrt(float((9 - unit**2).sum())) * half / len(unit)  # reports of ±1/(p-q) = ±3, mean x
    assert sr.error == pytest.approx(exact, rel=1e-9)
    fine = Task("pm", "pm-ho", epsilon, **shape, resolution=240)  # type: ignore[arg-type]
    pm = compared_means(fine, people, 0.05, ["blake2b"])
    e = math.exp(epsilon / 2)
    variances = unit**2 / (e - 1) + (e + 3) / (3 * (e - 1) ** 2)  # Wang et al. 2019
    assert pm.error == pytest.approx(math.sqrt(float(variances.sum())) * half / len(unit), rel=0.01)
    assert (SR.name, PM.name) == ("sr", "pm")


def test_gains_are_those_of_the_literature() -> None:
    """At β = 5 %: an honest input of 90 moves 38.58 to 41.15, nothing checked to 44.8; PM up to 1 + e^(-ε/2)."""
    people = adult_ages()
    shape = {"low": people.low, "high": people.high}
    sr = compared_means(Task("sr", "sr-ho", math.log(2), **shape), people, 0.05, ["blake2b"])  # type: ignore[arg-type]
    assert people.mean + sr.accepted_gain == pytest.approx(41.15, abs=0.005)
    assert people.mean + sr.unprotected_gain == pytest.approx(44.8, abs=0.01)
    assert sr.sent["blake2b"] < 300
    hashed = Task("volh", "volh", math.log(2), items=tuple(map(str, range(40))))
    found = compared_frequencies(hashed, 1000, (0, 1, 2), 0.1, 0.05, ["blake2b"])
    assert found.error == pytest.approx(math.sqrt(8 / 1000))  # 4e^ε/(e^ε-1)² per user
    assert found.input_gain == pytest.approx(0.05 * (1 - 0.1))
    assert found.accepted_gain == pytest.approx(0.05 * (4 / 3 - 0.1))  # the item is chosen when the hash is known
    assert found.unprotected_gain == pytest.approx(0.05 * (12 - 0.1))  # 2r + 2r/(e^ε - 1)
    assert found.length == 4
