"""Effort decides what the sampling engines try, and the clock only where they are cut. All time here is simulated."""

from __future__ import annotations

import importlib
import itertools
import math
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import numpy as np
import pytest

from veridp import catalogue
from veridp.budget import Deadline, levels
from veridp.budget.child_process import Reporter
from veridp.engines.sniper import AttackResult, search
from veridp.engines.statdp import Detection, detect
from veridp.errors import CutShort
from veridp.mechanism import mechanism

# Modules by their names: their packages have functions of the same names.
sniper, statdp = (importlib.import_module(f"veridp.engines.{name}") for name in ("sniper.search", "statdp.detect"))
OPTIONS: dict[str, Any] = {
    "samples": 1000,
    "final_samples": 4000,
    "pairs": ["patterns", "moves"],
    "models": ["one entry"],
    "workers": 1,
    "seed": 4,
}
RUNS: dict[str, Any] = {"selection_samples": 4000, "samples": 8000, "test_epsilons": [0.5, 1.0, 1.5], "seed": 4}


@dataclass(frozen=True)
class AfterChecks(Deadline):
    """Has passed once it was asked so often. To plan by the time that is left is an error."""

    seconds: float = math.inf
    checks: float = math.inf
    _asked: Iterator[int] = field(default_factory=itertools.count)

    @property
    def passed(self) -> bool:
        return next(self._asked) >= self.checks

    @property
    def left(self) -> NoReturn:
        raise AssertionError("an engine plans by the time that is left")

    def part(self, share: float) -> NoReturn:
        raise AssertionError("an engine plans by a share of the time that is left")


@mechanism(
    epsilon=0.5,
    adjacency="l1",
    size=2,
    vectorised=lambda rng, data, count: np.asarray(data) + rng.laplace(scale=[0.5, 1.0], size=(count, 2)),
)
def lopsided(rng: Any, data: Any) -> Any:
    """The first entry costs 2, the second 1: which pair is chosen matters."""
    return np.asarray(data) + rng.laplace(scale=[0.5, 1.0], size=2)


def cut_after(deadline: AfterChecks, monkeypatch: pytest.MonkeyPatch, **options: Any) -> AttackResult:
    """What a search gives with this deadline."""
    with monkeypatch.context() as patch:
        patch.setattr(sniper, "Deadline", lambda seconds: deadline)
        return search(lopsided, **{**OPTIONS, **options})


@pytest.fixture(scope="module")
def whole() -> AttackResult:
    return search(lopsided, seconds=math.inf, **OPTIONS)


def test_a_longer_search_repeats_the_shorter_one_and_adds_to_it(
    whole: AttackResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    unhurried = AfterChecks()
    found = [cut_after(unhurried, monkeypatch)]
    in_all = next(unhurried._asked)
    found = [cut_after(AfterChecks(checks=in_all * part // 8), monkeypatch) for part in (0, 1, 3, 5, 7)] + found
    for one in found:
        assert one.events == whole.events[: len(one.events)]
        assert one.finished == (len(one.events) == len(whole.events))
        assert ("cut short" in str(one)) == (not one.finished)
        assert any("cut short at level" in line for line in one.searched) == (not one.finished)
    bounds = [one.epsilon_lower for one in found]
    assert bounds == sorted(bounds)
    assert len(set(bounds)) > 3  # a test in which nothing grows would show nothing
    assert [one.finished for one in found] == [False] * 5 + [True]
    assert 1.5 < whole.epsilon_lower <= 2.0


def test_what_is_found_does_not_depend_on_how_fast_time_passes(
    whole: AttackResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The executor keeps the work in this process, where the deadline that is simulated is the only one."""
    for seconds in (1e-3, 1e9):
        monkeypatch.setattr(sniper, "Deadline", lambda _, seconds=seconds: AfterChecks(seconds))
        with ThreadPoolExecutor(1) as threads:
            found = search(lopsided, executor=threads, **OPTIONS)
        assert found.events == whole.events
        assert (found.counts, found.drawn, found.tried) == (whole.counts, whole.drawn, whole.tried)
        assert str(found.witness) == str(whole.witness)
        assert found.finished


def test_levels_use_different_samples(whole: AttackResult) -> None:
    """Two levels at the same seeds would see the same frequencies in their first glance."""
    first = {(bounds.samples, bounds.left, bounds.right) for bounds in whole.events}
    assert len(first) == len(whole.events)


def test_levels_and_looks_spend_no_more_alpha_than_there_is(whole: AttackResult) -> None:
    assert 0.9 * 0.05 < sum(bounds.alpha for bounds in whole.events) <= 0.05
    for samples in (1, 100, 10**4, 10**6, 10**9):
        shares = [level.alpha_share for level in levels(samples, 30)]
        assert sum(shares) <= 1
        assert shares[-1] >= 0.9
        assert [level.of(samples) for level in levels(samples, 30)][-1] == samples


def test_a_level_below_the_top_has_a_quarter_of_the_samples_and_pairs_of_the_next() -> None:
    found = levels(10**6, 30)
    assert [level.of(10**6) for level in found] == [61, 244, 976, 3906, 15_625, 62_500, 250_000, 10**6]
    assert [level.of(60) for level in found] == [1, 1, 1, 1, 1, 3, 15, 60]


def test_a_claim_that_a_level_refutes_needs_no_further_level() -> None:
    refuted = search(lopsided, claim=0.2, seconds=math.inf, **OPTIONS)
    kept = search(lopsided, claim=2.0, seconds=math.inf, **OPTIONS)
    assert (refuted.refuted, refuted.finished, refuted.samples) == (True, True, 1000)
    assert (kept.refuted, kept.finished, kept.samples) == (False, True, 4000)


def test_the_published_configuration_has_nothing_to_report_before_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CutShort, match="cut short"):
        cut_after(AfterChecks(checks=3), monkeypatch, models=None, paper=True)


def test_where_there_are_few_outputs_the_effort_does_not_depend_on_time_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options: dict[str, Any] = {**OPTIONS, "pairs": ["patterns"]}
    whole = search(catalogue["truncated_geometric"], seconds=math.inf, **options)
    monkeypatch.setattr(sniper, "Deadline", lambda _: AfterChecks(1e-3))
    with ThreadPoolExecutor(1) as threads:
        found = search(catalogue["truncated_geometric"], executor=threads, **options)
    assert found.events == whole.events


# ------------------------------------------------------------------------------------------------------------ StatDP


def detected(deadline: AfterChecks, monkeypatch: pytest.MonkeyPatch) -> Detection:
    with monkeypatch.context() as patch:
        patch.setattr(statdp, "Deadline", lambda seconds: deadline)
        return detect(lopsided, **RUNS)


def test_a_longer_detection_repeats_the_shorter_one_and_adds_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    unhurried = AfterChecks()
    whole = detected(unhurried, monkeypatch)
    in_all = next(unhurried._asked)
    found = [*(detected(AfterChecks(checks=checks), monkeypatch) for checks in (0, 1, in_all - 1)), whole]
    assert [one.claimed.runs for one in found] == [125, 125, 2000, 8000]
    assert [one.finished for one in found] == [False, False, False, True]
    for one in found:
        assert any("cut short at level" in line for line in one.searched) == (not one.finished)
        assert ("cut short" in str(one)) == (not one.finished)
    assert repr(found[0].curve) == repr(found[1].curve)
    bounds = [one.epsilon_lower for one in found]
    assert bounds == sorted(bounds)
    assert len(set(bounds)) == 3
    refuted = [one.refuted for one in found]
    assert refuted == sorted(refuted)
    assert 1.7 < bounds[-1] <= 2.0


def test_what_is_detected_does_not_depend_on_how_fast_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = detect(lopsided, **RUNS)
    monkeypatch.setattr(statdp, "contained", lambda work, *_, **__: work(Reporter(None)))
    for seconds in (1e-3, 1e9):
        monkeypatch.setattr(statdp, "Deadline", lambda _, seconds=seconds: AfterChecks(seconds))
        found = detect(lopsided, **RUNS)
        assert (repr(found.curve), found.searched, found.finished) == (repr(whole.curve), whole.searched, True)
        assert found.epsilon_lower == whole.epsilon_lower


def test_a_claim_that_a_level_refutes_stays_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The top level is made to see nothing: its runs are of a mechanism that tells nothing."""
    whole = detect(lopsided, **RUNS)
    assert whole.refuted
    ordinary = statdp.FreshCounts.tested

    def tested(counts: Any) -> Any:
        found = ordinary(counts)
        return [replace(one, left=100, right=100) for one in found] if counts.runs == 8000 else found

    monkeypatch.setattr(statdp.FreshCounts, "tested", tested)
    found = detect(lopsided, **RUNS)
    assert found.refuted
    assert found.finished
    assert found.claimed.runs == 2000
    assert 0.5 < found.epsilon_lower < whole.epsilon_lower


@pytest.mark.skipif(sys.platform != "linux", reason="work is contained where there is a safe fork")
def test_a_detection_whose_process_ends_returns_the_levels_that_were_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    ordinary = statdp.FreshCounts.run

    def run(counts: Any, *arguments: Any) -> None:
        if counts.runs == 8000:
            os._exit(5)
        ordinary(counts, *arguments)

    monkeypatch.setattr(statdp.FreshCounts, "run", run)
    found = detect(lopsided, seconds=600.0, **RUNS)
    assert (found.finished, found.claimed.runs, found.refuted) == (False, 2000, True)
    assert "cut short" in str(found)
