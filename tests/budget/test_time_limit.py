"""The time limit: it ends what takes too long, and leaves other alarms alone."""

from __future__ import annotations

import contextlib
import gc
import signal
import threading
import time
from typing import Any

import pytest

from veridp import budget as limit
from veridp.budget import OutOfTime, at_most


def test_what_is_in_time_is_left_alone() -> None:
    with at_most(10.0):
        value = 1 + 1
    with at_most(None):
        value += 1
    assert value == 3


def test_a_sleep_is_interrupted_in_the_main_thread() -> None:
    with pytest.raises(OutOfTime), at_most(0.1):
        time.sleep(60)


def test_a_loop_is_interrupted_in_another_thread() -> None:
    ended: list[type[BaseException]] = []

    def work() -> None:
        try:
            with at_most(0.1):
                while True:
                    pass
        except OutOfTime:
            ended.append(OutOfTime)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(60)
    assert ended == [OutOfTime]


def test_code_that_catches_everything_is_still_out_of_time() -> None:
    with pytest.raises(OutOfTime), at_most(0.1), contextlib.suppress(BaseException):
        time.sleep(60)


def test_what_foreign_code_makes_of_the_interruption_is_still_out_of_time() -> None:
    def convert() -> None:
        try:
            time.sleep(60)
        except BaseException as error:  # as ctypes does where it converts arguments
            raise TypeError("argument 2: OutOfTime") from error

    with pytest.raises(OutOfTime) as ended, at_most(0.1):
        convert()
    assert isinstance(ended.value.__cause__, TypeError)
    with pytest.raises(TypeError, match="in time"), at_most(60.0):
        raise TypeError("in time")


def test_an_alarm_that_was_set_before_rings_at_its_time() -> None:
    rung: list[float] = []
    start = time.monotonic()
    outer = signal.signal(signal.SIGALRM, lambda number, frame: rung.append(time.monotonic() - start))
    timer = signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with at_most(5.0):
            while time.monotonic() - start < 0.6:  # it rings within the limit
                time.sleep(0.01)
        assert len(rung) == 1
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with at_most(0.05), contextlib.suppress(OutOfTime):
            pass
        while len(rung) < 2 and time.monotonic() - start < 30:  # and after it
            time.sleep(0.01)
        assert len(rung) == 2
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, outer)
    assert 0.25 < rung[0] < 5


def test_no_interruption_is_lost_in_a_finaliser(capfd: pytest.CaptureFixture[str]) -> None:
    class Slow:
        def __del__(self) -> None:
            busy = time.monotonic() + 0.02
            while time.monotonic() < busy:
                pass

    def run() -> None:
        while True:
            Slow()
            time.sleep(0.05)

    with pytest.raises(OutOfTime), at_most(0.02):
        run()
    assert "Exception ignored" not in capfd.readouterr().err


def test_no_interruption_is_lost_in_a_callback_of_the_collector(capfd: pytest.CaptureFixture[str]) -> None:
    def callback(phase: str, info: object) -> None:
        busy = time.monotonic() + 0.02
        while time.monotonic() < busy:
            pass

    def run() -> None:
        while True:
            gc.collect()
            time.sleep(0.05)

    gc.callbacks.append(callback)
    try:
        with pytest.raises(OutOfTime), at_most(0.02):
            run()
    finally:
        gc.callbacks.remove(callback)
    assert "Exception ignored" not in capfd.readouterr().err


def test_an_alarm_that_was_set_before_may_ring_while_another_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    install = signal.signal

    def ringing(number: int, handler: Any) -> Any:
        before = install(number, handler)
        monkeypatch.setattr(signal, "signal", install)
        signal.raise_signal(number)
        return before

    theirs = lambda *_: None  # noqa: E731
    before = install(signal.SIGALRM, theirs)
    monkeypatch.setattr(signal, "signal", ringing)
    try:
        with limit.at_most(30.0):
            inside = True
        assert inside
        assert signal.getsignal(signal.SIGALRM) is theirs
    finally:
        install(signal.SIGALRM, before)


def test_an_alarm_that_rings_while_it_is_stopped_does_not_ring_again(monkeypatch: pytest.MonkeyPatch) -> None:
    stop = limit._Signal.stop

    def late(alarm: limit._Signal) -> None:
        if not alarm.rung:
            time.sleep(0.2)
        stop(alarm)

    monkeypatch.setattr(limit._Signal, "stop", late)
    with pytest.raises(OutOfTime), at_most(0.05):
        pass
    assert signal.getitimer(signal.ITIMER_REAL)[1] == 0.0  # the alarm of a test runner, if any, rings once
