"""Audits that are cut short: by time, by memory, by Ctrl-C, or as a step ends its process. The rest goes on.

What has to be ended would run for ever, and what has to end has ample time: no test depends on how busy the machine is.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import os
import re
import sys
import threading
from typing import Any

import pytest

import veridp
from veridp.audit import explored, sampled
from veridp.audit.case import AuditCase
from veridp.audit.findings import Findings
from veridp.budget import Deadline
from veridp.budget.child_process import NOTHING, Ended
from veridp.errors import CutShort, MechanismHung, WorkerLost
from veridp.verdict import Standing, Verdict

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="work is contained where there is a safe fork")
AMPLE = 600.0
# Modules by their names: their packages have functions of the same names.
module = importlib.import_module("veridp.audit.audit")
sniper = importlib.import_module("veridp.engines.sniper.search")


def for_ever(*_: object) -> None:
    while True:
        with contextlib.suppress(BaseException):
            threading.Event().wait()


def said(verdict: Verdict, engine: str) -> list[str]:
    return [piece.finding for piece in verdict.evidence if piece.engine == engine]


@pytest.fixture(autouse=True)
def little_effort(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explored, "MAX_PAIRS", 20)
    monkeypatch.setattr(explored, "RESTARTS", 1)


@pytest.fixture
def laplace() -> veridp.Mechanism:
    return veridp.catalogue["laplace"]


def test_a_step_that_does_not_end_leaves_the_others_their_turn(
    laplace: veridp.Mechanism, monkeypatch: pytest.MonkeyPatch
) -> None:
    def finds_and_goes_on(findings: Findings) -> None:
        findings.so_far = "p = 0.3"
        findings.report()
        for_ever()

    monkeypatch.setattr(sampled, "look_quickly", finds_and_goes_on)
    monkeypatch.setattr(sampled, "QUICK_SHARE", 0.01)
    monkeypatch.setattr(sniper, "SAMPLES", 8_000)
    monkeypatch.setattr(sniper, "FINAL", 80_000)
    verdict = veridp.audit(laplace, seconds=AMPLE, black_box=True)
    assert not verdict.finished
    [cut] = said(verdict, "statdp")
    assert re.fullmatch(r"p = 0\.3; cut short: [\d.]+ s were not enough; give it more time, or a smaller input", cut)
    assert said(verdict, "sniper")[0].startswith("ε >= ")
    assert verdict.alpha == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("end", "told"),
    [
        (lambda _: os._exit(5), "its process ended with status 5"),
        (lambda _: [1.0] * 2**62, "of memory"),
    ],
)
def test_a_step_that_ends_its_process_or_its_memory_leaves_the_others_their_turn(
    end: Any, told: str, laplace: veridp.Mechanism, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explored, "try_to_prove", end)
    verdict = veridp.audit(laplace, seconds=AMPLE)
    assert not verdict.finished
    assert told in said(verdict, "prove")[0]
    assert verdict.standing is Standing.NOT_REFUTED
    assert verdict.epsilon.lower == pytest.approx(0.1)


def test_the_best_pair_remains_where_the_search_for_a_worse_one_does_not_end(
    laplace: veridp.Mechanism, monkeypatch: pytest.MonkeyPatch
) -> None:
    from veridp.engines.exact.worst import _Comparer

    compared, pairs = _Comparer.__call__, 0

    def second_never_ends(comparer: _Comparer, left: Any, right: Any) -> Any:
        nonlocal pairs
        pairs += 1
        return compared(comparer, left, right) if pairs == 1 else for_ever()

    monkeypatch.setattr(explored, "try_to_prove", lambda findings: findings.note("prove", "not asked", 0.0))
    monkeypatch.setattr(_Comparer, "__call__", second_never_ends)
    monkeypatch.setattr(module, "ENGINE_TIME_SHARE", 0.01)
    verdict = veridp.audit(laplace, epsilon=0.05, size=1, seconds=AMPLE, delta=0.0)
    assert verdict.epsilon.lower == pytest.approx(0.05)
    assert not verdict.finished
    assert any("cut short" in finding for finding in said(verdict, "exact"))


@pytest.mark.parametrize("stage", ["proving", "comparing exactly"])
def test_an_interrupt_gives_the_verdict_so_far(stage: str, laplace: veridp.Mechanism) -> None:
    def interrupt(told: str, share: float, best: float) -> None:
        if told.startswith(stage):
            raise KeyboardInterrupt

    verdict = veridp.audit(laplace, seconds=AMPLE, progress=interrupt)
    assert not verdict.finished
    assert verdict.standing is (Standing.PROVED if stage == "comparing exactly" else Standing.NOT_REFUTED)
    assert any("cut short" in piece.finding for piece in verdict.evidence)
    assert verdict.to_dict()["finished"] is False


def test_an_interrupt_before_anything_is_known_is_raised(laplace: veridp.Mechanism) -> None:
    def interrupt(told: str, share: float, best: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        veridp.audit(laplace, seconds=AMPLE, progress=interrupt)


def test_a_mechanism_that_never_ends_is_told_as_such() -> None:
    with pytest.raises(MechanismHung, match=r"for_ever: its first run, on \[1\.0\], was cut short"):
        veridp.audit(for_ever, epsilon=1.0, size=1, seconds=0.5)


@pytest.mark.parametrize("reading", ["batch", "one-by-one"])
def test_a_mechanism_that_needs_too_much_memory_is_told_as_such(reading: str) -> None:
    """In every engine; and by the audit, which has no verdict on what cannot be run once."""

    def hog(rng: Any, data: Any) -> float:
        return float(len([data[0] + rng.laplace()] * 2**62))

    with pytest.raises(CutShort, match=r"needs more than .* of memory"):
        veridp.sample(hog, [1.0], 10, seed=0, reading=reading)
    with pytest.raises(CutShort, match=r"needs more than .* of memory"):
        veridp.explore(hog, [1.0])
    with pytest.raises(MechanismHung, match=r"its first run, on .*, was cut short: it needs more than .* of memory"):
        veridp.audit(hog, epsilon=1.0, size=1, seconds=AMPLE, black_box=reading == "batch")


def test_a_mechanism_that_ends_its_process_is_told_as_such() -> None:
    def leaves(rng: Any, data: Any) -> None:
        os._exit(3)

    with pytest.raises(WorkerLost, match="status 3"):
        veridp.audit(leaves, epsilon=1.0, size=1, seconds=AMPLE)


def test_a_mechanism_that_never_ends_on_symbols_is_cut_short() -> None:
    """Plain runs end. All that is said rests on nothing, and says so."""

    def notices(rng: Any, data: Any) -> float:
        noisy = data[0] + rng.laplace()
        return noisy if type(noisy) is float else for_ever()  # type: ignore[func-returns-value]

    verdict = veridp.audit(notices, epsilon=1.0, size=1, seconds=2.0)
    assert verdict.standing is Standing.NOT_REFUTED
    assert not verdict.finished
    assert all("cut short" in finding for finding in said(verdict, "prove"))
    assert all(piece.seconds > 0 for piece in verdict.evidence)
    for engine in (veridp.prove, veridp.exact.worst):
        with pytest.raises(CutShort, match="cut short"):
            engine(notices, 1, seconds=0.3)  # type: ignore[operator]
    with pytest.raises(CutShort, match="cut short"):
        veridp.exact.compare(notices, [0.0], [1.0], seconds=0.3)
    with pytest.raises(CutShort, match="cut short"):
        veridp.explore(notices, [0.0], seconds=0.3)


def test_a_draw_from_very_many_values_is_noise_and_no_list() -> None:
    def many(rng: Any, data: Any) -> int:
        return int(data[0] > 0) + rng.integers(2**31)

    assert math.isinf(veridp.prove(many, 1).epsilon)


def test_time_that_is_up_leaves_steps_undone(laplace: veridp.Mechanism, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock is at the end of the time once the first step has ended."""

    def spend_it_all(findings: Findings) -> None:
        vars(findings)["deadline"] = Deadline(1.0, started=-1e9)

    monkeypatch.setattr(module, "_look_at_randomness", spend_it_all)
    verdict = veridp.audit(laplace, seconds=AMPLE)
    assert (verdict.finished, verdict.standing) == (False, Standing.NOT_REFUTED)
    assert verdict.evidence == ()


def test_no_step_is_begun_after_the_deadline(laplace: veridp.Mechanism, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child that begins so late can be ended before it says anything: asking again would go on for ever."""
    attempts = []

    def ended_at_once(work: Any, deadline: Deadline, **_: Any) -> Any:
        attempts.append(deadline)
        return Ended(NOTHING, CutShort("cut short"))

    case = AuditCase.of(laplace, None, 0.05, 0)
    findings = Findings(case, Deadline(1.0, started=-10.0), None)
    findings.running, findings.closed = "sniper", {"pilot"}
    monkeypatch.setattr(module, "attempt", ended_at_once)
    module._carry_out(findings, lambda _: None)
    assert len(attempts) == 1
    assert not findings.finished


def test_without_a_limit_of_time_all_stays_in_this_process(
    laplace: veridp.Mechanism, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a debugger needs it; the verdict is that of an unhurried audit in child processes."""
    timed = veridp.audit(laplace, seconds=AMPLE)
    monkeypatch.setattr(os, "fork", lambda: pytest.fail("a child process"))
    endless = veridp.audit(laplace, seconds=math.inf)
    assert (endless.standing, endless.epsilon, endless.finished) == (timed.standing, timed.epsilon, timed.finished)
