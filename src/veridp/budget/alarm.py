"""A limit on the time that a piece of user code may take."""

from __future__ import annotations

import ctypes
import gc
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

AGAIN = 0.5  # seconds after which code that caught the first interruption is interrupted again


_shields = 0  # how many bodies of `shielded` are running


class OutOfTime(BaseException):
    """Leaves code that takes too long; not an Exception, so that the code does not catch it by mistake."""


@contextmanager
def at_most(seconds: float | None) -> Iterator[None]:
    """Raise OutOfTime in the body once these seconds have passed; never where they are None or infinite.

    Whatever else the body raises after that may follow from the interruption, as where foreign code turned it into an
    exception of its own: it is OutOfTime too.
    In the main thread a signal interrupts anything that comes back to the interpreter now and then, a sleep too; in
    other threads only running Python code can be interrupted, not a call that blocks outside the interpreter.
    """
    if seconds is None or math.isinf(seconds):
        yield
        return
    in_main = threading.current_thread() is threading.main_thread() and hasattr(signal, "setitimer")
    alarm = _Signal(seconds) if in_main else _Timer(seconds)
    alarm.start()
    raised: Exception | None = None
    try:
        yield
    except Exception as error:
        raised = error
    finally:
        _stop(alarm)
    if alarm.rung:
        raise OutOfTime from raised  # the body caught it, or had just ended
    if raised is not None:
        raise raised


WATCHER = """
import os, select, signal, sys
if not select.select([0], [], [], float(sys.argv[1]))[0]:
    os.write(2, sys.argv[3].encode())
    os.kill(int(sys.argv[2]), signal.SIGKILL)
"""


@contextmanager
def killed_after(seconds: float, last_words: str) -> Iterator[None]:
    """End this process if the body is not left within these seconds, whatever it does; its last words go to stderr.

    For a program's main process, around code that must run in it and may be a compiled call, which hears no signal.
    """
    if os.name != "posix" or math.isinf(seconds):
        yield
        return
    command = [sys.executable, "-I", "-S", "-c", WATCHER, str(seconds), str(os.getpid()), f"{last_words}\n"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True):  # noqa: S603 - ends with its stdin
        yield


@contextmanager
def shielded() -> Iterator[None]:
    """Raise no OutOfTime in the body, but soon after it: for calls of foreign code that calls Python back, where an
    exception would be printed and lost, and for what must not be left half done."""
    global _shields
    _shields += 1
    try:
        yield
    finally:
        _shields -= 1


def _stop(alarm: _Signal | _Timer) -> None:
    """Stop the alarm for good, also where it rings while it is being stopped."""
    try:
        alarm.stop()
    except OutOfTime:
        _stop(alarm)


class _Signal:
    """An alarm in the main thread; one that somebody else has set before rings at its time too."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.armed = False
        self.rung = False

    def start(self) -> None:
        self.started = time.monotonic()
        self.handler: Any = signal.signal(signal.SIGALRM, self._ring)
        self.delay, self.interval = signal.getitimer(signal.ITIMER_REAL)
        self.armed = True
        theirs = self.delay or self.seconds
        signal.setitimer(signal.ITIMER_REAL, min(self.seconds, theirs), AGAIN)

    def _ring(self, number: int, frame: FrameType | None) -> None:
        elapsed = time.monotonic() - self.started
        if self.delay and elapsed >= self.delay and callable(self.handler):
            self.delay = self.interval and elapsed + self.interval
            self.handler(number, frame)
        if self.armed and elapsed >= self.seconds * 0.999 and not _shields and not _unraisable(frame):
            self.rung = True
            raise OutOfTime

    def stop(self) -> None:
        self.armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL if self.handler is None else self.handler)
        if self.delay:
            left = self.delay - (time.monotonic() - self.started)
            signal.setitimer(signal.ITIMER_REAL, max(left, 1e-3), self.interval)


def _unraisable(frame: FrameType | None) -> bool:
    """Whether memory is being reclaimed, where an exception would only be printed; the alarm rings again."""
    callbacks = {getattr(callback, "__code__", None) for callback in gc.callbacks}
    while frame is not None:
        if frame.f_code.co_name == "__del__" or frame.f_code in callbacks:
            return True
        frame = frame.f_back
    return False


class _Timer:
    """An alarm for another thread than the main one."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.rung = False
        self.ended = threading.Event()
        self.target = ctypes.c_ulong(threading.get_ident())
        self.watch = threading.Thread(target=self._watch, daemon=True)

    def start(self) -> None:
        self.watch.start()

    def _watch(self) -> None:
        left = self.seconds
        while not self.ended.wait(left):
            left = AGAIN
            if _shields:
                continue
            self.rung = True
            ctypes.pythonapi.PyThreadState_SetAsyncExc(self.target, ctypes.py_object(OutOfTime))

    def stop(self) -> None:
        self.ended.set()
        self.watch.join()
        if not self.rung:
            return
        # An exception that was set may not have been raised yet. Setting None would leave the interpreter looking for
        # it for ever, and a traced function would then never return: so it is set once more, and waited for.
        try:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(self.target, ctypes.py_object(OutOfTime))
            while True:
                time.sleep(0)
        except OutOfTime:
            return
