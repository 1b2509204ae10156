"""Deadlines, and the limits in force."""

from __future__ import annotations

import math
import sys
import time
from pathlib import Path

import pytest

from veridp import budget
from veridp.budget import Deadline, check, memory_limit, memory_share, memory_used, time_left, within
from veridp.errors import BadInput, CutShort


def test_a_deadline_passes() -> None:
    assert Deadline(10.0, started=time.monotonic() - 11).passed
    assert Deadline(10.0, started=time.monotonic() - 11).left == 0
    assert not Deadline(1000.0).passed
    assert not Deadline().passed
    assert Deadline().left == math.inf


def test_a_part_ends_before_the_whole() -> None:
    whole = Deadline(1000.0, started=time.monotonic() - 500)
    assert 200 < whole.part(0.5).left <= 250
    assert Deadline(1.0, started=time.monotonic() - 2).part(0.5).seconds > 0


@pytest.mark.parametrize("seconds", [0, -1, math.nan])
def test_no_time_is_an_error(seconds: float) -> None:
    with pytest.raises(BadInput, match="seconds must be a number > 0"):
        Deadline(seconds)


def long_ago(seconds: float) -> Deadline:
    return Deadline(seconds, started=time.monotonic() - 1000)


def test_a_check_cuts_work_short_once_the_time_is_up() -> None:
    check()  # no limit is in force
    with within(Deadline(1000.0)):
        check()
        assert 0 < time_left() <= 1000
    with within(long_ago(10.0)), pytest.raises(CutShort, match="cut short: 10 s were not enough"):
        check()
    check()
    assert time_left() == math.inf


def test_the_nearer_of_two_limits_is_in_force() -> None:
    with within(long_ago(10.0)), within(Deadline(1000.0)), pytest.raises(CutShort, match="10 s"):
        check()
    with within(Deadline(1000.0)):
        with within(long_ago(10.0)), pytest.raises(CutShort, match="10 s"):
            check()
        check()


def test_a_check_cuts_work_short_past_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    used = 2.0**30
    monkeypatch.setattr(budget, "memory_used", lambda: used)
    monkeypatch.setattr(budget, "_machine_memory", lambda: 2.0**34)
    with within(Deadline()):
        used += 2.0**33 - 1  # the limit is on what is used beyond the start
        check()
    with within(Deadline()):
        used += 2.0**33 + 1
        with pytest.raises(CutShort, match=r"more than 8 GiB of memory, 0\.5 of what the machine has"):
            check()


def test_the_share_of_memory_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "_machine_memory", lambda: 1000.0)
    assert memory_limit() == 500
    monkeypatch.setenv(budget.MEMORY_VARIABLE, "0.25")
    assert (memory_share(), memory_limit()) == (0.25, 250)
    for wrong in ("2", "0", "half", "nan"):
        monkeypatch.setenv(budget.MEMORY_VARIABLE, wrong)
        with pytest.raises(BadInput, match=r"must be a number in \(0, 1\]"):
            memory_share()


def test_a_container_may_have_less_than_the_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(budget, "CGROUP_LIMITS", (str(limit), str(tmp_path / "absent")))
    machine = budget._machine_memory.__wrapped__
    limit.write_text("max\n")
    whole = machine()
    limit.write_text("1048576\n")
    assert machine() == 2**20 < whole


@pytest.mark.skipif(sys.platform != "linux", reason="the system does not tell")
def test_memory_in_use_is_told() -> None:
    before = memory_used()
    kept = bytearray(b"x") * 2**26
    assert memory_used() - before > 0.9 * len(kept)
    assert memory_used(2**22 + 1) == 0  # no such process
