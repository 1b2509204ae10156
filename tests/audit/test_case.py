"""The first runs of a mechanism. A slow machine is simulated: runs move a clock of the test's own, or never end."""

from __future__ import annotations

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
    """Its keys are rounded data, which cannot be explored, so it is sampled: with stand-ins of earlier runs."""
    kept: dict[float, float] = {}

    def memo(rng, data):
        key = round(data[0], 3)
        if key not in kept:
            kept[key] = rng.laplace()
        return data[0] + kept[key]

    with pytest.raises(Nondeterministic, match="keeps noise of one run and uses it in another; keep nothing"):
        veridp.audit(memo, 1.0, seconds=600, adjacency="l1", size=2, domain=(0, 1))
