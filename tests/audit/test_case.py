"""The first runs of a mechanism. A slow machine is simulated: runs move a clock of the test's own, or never end."""

from __future__ import annotations

import math
import os
import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest

import veridp
from veridp import budget
from veridp.audit import case as pilot
from veridp.audit.case import AuditCase
from veridp.budget import Deadline, within
from veridp.errors import BadOutput, CutShort, MechanismFailed, Nondeterministic
from veridp.mechanism import as_mechanism
from veridp.verdict import Standing


class Clock:
    """A clock that only runs of a mechanism move."""

    now = 0.0
    runs = 0

    def slow(self, seconds: float, output: object = 1.0) -> Any:
        def run(rng: Any, data: Any) -> object:
            self.now += seconds
            self.runs += 1
            return output

        return run


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(budget, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def case_of(function: Any) -> AuditCase:
    return AuditCase.of(as_mechanism(function).claiming(1.0, None), 1, 0.05, 0)


def test_the_first_run_is_one_run(clock: Clock) -> None:
    with within(Deadline(1.0, 0.0)):
        pilot.run_once(case_of(clock.slow(0.3)))
    assert clock.runs == 1


def test_fewer_runs_where_one_takes_long(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("veridp.sampling.plan.PILOT_RUNS", 1)
    with within(Deadline(1.0, 0.0)), pytest.raises(CutShort):
        pilot.run_again(case_of(clock.slow(0.3)))
    assert clock.runs == 4  # after which 1.2 s of 1 s are spent


def test_all_runs_where_they_are_fast(clock: Clock) -> None:
    with within(Deadline(1.0, 0.0)):
        pilot.run_again(case_of(clock.slow(0.001)))
    assert clock.runs >= pilot.RUNS


def test_few_runs_do_not_show_that_it_only_returns_none(clock: Clock) -> None:
    mechanism = clock.slow(0.3, None)
    with within(Deadline(1.0, 0.0)), pytest.raises(CutShort):
        pilot.run_again(case_of(mechanism))
    clock.now = 0.0
    with within(Deadline(100.0, 0.0)), pytest.raises(BadOutput, match="returns None"):
        pilot.run_again(case_of(mechanism))


def test_none_that_is_written_beside_a_value_is_an_output() -> None:
    def rarely(rng: Any, data: Any) -> float | None:
        noisy = data[0] + rng.laplace()
        return noisy if noisy > 1000 else None

    pilot.run_again(case_of(rarely))


def test_one_run_shows_a_print() -> None:
    def prints(rng: Any, data: Any) -> float:
        print("secret")  # noqa: T201
        return 1.0

    with pytest.raises(MechanismFailed, match="prints 'secret'"):
        pilot.run_once(case_of(prints))


@pytest.mark.skipif(sys.platform != "linux", reason="work is contained where there is a safe fork")
def test_a_mechanism_too_slow_to_judge_gets_a_weak_verdict_and_no_error() -> None:
    """Its first run in a process returns; the others never do."""
    runs: list[int] = []

    def slow(rng: Any, data: Any) -> float:
        runs.append(1)
        if len(runs) > 1:
            threading.Event().wait()
        return float(data[0] + rng.laplace())

    verdict = veridp.audit(slow, epsilon=1.0, size=1, seconds=3.0, black_box=True)
    assert (verdict.standing, verdict.finished) == (Standing.NOT_REFUTED, False)
    assert (verdict.epsilon.lower, verdict.epsilon.upper) == (0.0, float("inf"))
    assert verdict.evidence[0].engine == "more runs"
    assert "cut short" in verdict.evidence[0].finding


def test_noise_that_is_kept_for_later_runs_is_named_as_such() -> None:
    """Runs that follow each other repeat their noise; runs that start afresh do not."""
    kept: dict[float, float] = {}

    def memo(rng, data):
        key = round(data[0], 3)
        if key not in kept:
            kept[key] = rng.laplace()
        return data[0] + kept[key]

    with pytest.raises(Nondeterministic, match=r"kept around memo changed.* 0 of 100 outputs are in it if each"):
        veridp.audit(memo, 1.0, seconds=600, adjacency="l1", size=2, domain=(0, 1))


class _Kept:
    """State that the first run of a process sets, and no other changes; and a count of runs."""

    first: Any = None
    runs = 0


def _truthful(rng: Any, data: Any, probability: float) -> bool:
    return bool((rng.random() < probability) == (data[0] > 0))


def _remembers(rng: Any, data: Any) -> bool:
    if _Kept.first is None:
        _Kept.first = data[0]
    return _truthful(rng, data, 0.6 if _Kept.first > 0 else 0.99)


def _counts(rng: Any, data: Any) -> bool:
    _Kept.runs += 1
    return _truthful(rng, data, 0.99)


def test_state_that_the_first_run_sets_is_not_taken_for_the_mechanism() -> None:
    """A first run costs ln 66 here; the runs that follow the audit's first, on data[0] = 1, cost ln 1.5."""
    verdict = veridp.audit(_remembers, 1.0, size=1, seconds=600, domain=[0, 1])
    assert (verdict.standing, verdict.epsilon.upper) == (Standing.NOT_REFUTED, math.inf)
    assert "it keeps state between runs: samples show what it does after its first runs" in verdict.caveats
    assert "_Kept.first changed" in verdict.evidence[0].finding


def _leaks_at_first(rng: Any, data: Any) -> Any:
    """The first run of a process releases the data. Only the operating system knows which one it is."""
    first = os.umask(0o022) != 0o027
    os.umask(0o027)
    return data[0] if first else data[0] + rng.laplace()


def test_a_first_run_that_returned_something_else_is_noticed_where_no_state_can_be_read() -> None:
    before = os.umask(0o022)
    try:
        verdict = veridp.audit(_leaks_at_first, 10.0, size=1, seconds=600, domain=(0, 10), adjacency="replace")
    finally:
        os.umask(before)
    assert verdict.epsilon.upper == math.inf  # 10-DP is proved of all runs but the first
    assert any("its first run returned something else" in each.finding for each in verdict.evidence)


def test_a_count_of_runs_does_not_hide_a_violation() -> None:
    verdict = veridp.audit(_counts, 1.0, size=1, seconds=600, domain=[0, 1])
    assert verdict.standing is Standing.REFUTED
    assert verdict.epsilon.lower == pytest.approx(math.log(99), rel=0.1)
    assert verdict.epsilon.upper == math.inf
