"""What an engine may spend: time, memory and effort; how it reports its progress; and a limit on the time of a piece
of user code."""

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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from numbers import Integral, Real
from types import FrameType
from typing import Any

from veridp.errors import BadInput, CutShort, Interruption

# -------------------------------------------------------------------------------------------------------------- budget
# What an engine may spend: time, memory and effort; and how it tells how far it is.


Progress = Callable[[str, float, float], object]  # what is being done, the share done (0 to 1), the best ε so far

MEMORY_SHARE = 0.5  # of the machine's memory, for one call of an engine with all its processes
MEMORY_VARIABLE = "VERIDP_MEMORY_SHARE"  # the environment variable that sets another share
LOOK_AT_MEMORY = 0.1  # seconds between two looks at how much memory is in use
GROWTH = 4  # each level of effort has so many times the samples, and pairs, of the one before
TOP_SHARE = 0.9  # of alpha, for the top level; the level below has half of the rest, and so on
CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


@dataclass(frozen=True)
class Deadline:
    """A moment before which a search has to end; it counts from when it is made.

    >>> Deadline(60.0).passed
    False
    """

    seconds: float = math.inf
    started: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        if not isinstance(self.seconds, int | float) or not self.seconds > 0:
            raise BadInput(f"seconds must be a number > 0, got {self.seconds!r}")

    @property
    def spent(self) -> float:
        """The seconds since the start."""
        return time.monotonic() - self.started

    @property
    def left(self) -> float:
        """The seconds that are left; never negative."""
        return max(0.0, self.seconds - self.spent)

    @property
    def passed(self) -> bool:
        return self.left == 0.0

    def part(self, share: float) -> Deadline:
        """A deadline from now on that leaves all but this share of the time that is left."""
        return Deadline(max(self.left * share, 1e-9))


# --------------------------------------------------------------------------------------------------- effort


def whole(name: str, value: object, least: int = 1) -> int:
    """The value as an int; BadInput where it is not an integer of at least so much.

    >>> whole("size", 3)
    3
    """
    known = float(value) if isinstance(value, Integral | float) and not isinstance(value, bool) else math.nan
    if not known.is_integer() or known < least:
        raise BadInput(f"{name} must be an integer >= {least}, got {value!r}")
    return int(value)  # type: ignore[call-overload, no-any-return]


def share(name: str, value: object) -> float:
    """The value as a float; BadInput where it is not a number between 0 and 1, both excluded."""
    if not isinstance(value, Real) or not 0 < float(value) < 1:
        raise BadInput(f"{name} must be in (0, 1), got {value!r}")
    return float(value)


@dataclass(frozen=True)
class Level:
    """One level of effort of a search by samples.

    Such a search runs level after level, each on fresh samples and each to its end. What a level does, and which share
    of alpha it spends, follows from the effort that was asked for and never from the clock: time can only cut the last
    levels off. So a longer run repeats the shorter one and adds to it.
    """

    below: int  # how many levels it is below the top
    alpha_share: float  # the probability that its bounds fail, as a share of the alpha of all levels

    def of(self, most: int) -> int:
        """Its part of a number of samples, or of pairs, that the top level has in full; at least 1."""
        shrunk: int = most // GROWTH**self.below
        return max(1, shrunk)


def levels(samples: int, least: int) -> list[Level]:
    """The levels of a search, ascending: the top one with all samples, others with at least `least` of them.

    Their shares of alpha add up to 1 at most, and nearly all is the top level's.

    >>> [(level.of(1000), round(level.alpha_share, 6)) for level in levels(1000, 50)]
    [(62, 0.025), (250, 0.05), (1000, 0.9)]
    """
    below = 0
    while samples // GROWTH ** (below + 1) >= least:
        below += 1
    earlier = [Level(step, (1 - TOP_SHARE) / 2**step) for step in range(below, 0, -1)]
    return [*earlier, Level(0, TOP_SHARE if earlier else 1.0)]


# ------------------------------------------------------------------------------------------- limits in force


@dataclass
class _Limits:
    """When the code that runs now has to end, and how much memory this process may have."""

    deadline: Deadline
    ends: float  # the same moment, on the clock
    memory: float
    next_look: float = 0.0


_LIMITS: ContextVar[_Limits | None] = ContextVar("limits", default=None)


@contextmanager
def within(deadline: Deadline) -> Iterator[None]:
    """Let `check` in the body raise CutShort once the deadline, or that of a context around it, has passed."""
    outer = _LIMITS.get()
    ends = deadline.started + deadline.seconds
    if outer is not None and outer.ends <= ends:
        yield
        return
    memory = memory_used() + memory_limit() if outer is None else outer.memory
    token = _LIMITS.set(_Limits(deadline, ends, memory))
    try:
        yield
    finally:
        _LIMITS.reset(token)


def check() -> None:
    """Raise CutShort where the limits in force are exceeded; to be called in every loop that may run for long."""
    limits = _LIMITS.get()
    if limits is None:
        return
    now = time.monotonic()
    if now > limits.ends:
        raise out_of_time(limits.deadline.seconds)
    if now > limits.next_look:
        limits.next_look = now + LOOK_AT_MEMORY
        if memory_used() > limits.memory:
            raise out_of_memory()


def time_left() -> float:
    """The seconds until the limit in force; inf where there is none."""
    limits = _LIMITS.get()
    return math.inf if limits is None else max(0.0, limits.ends - time.monotonic())


def out_of_time(seconds: float) -> CutShort:
    return CutShort(f"cut short: {seconds:.3g} s were not enough; give it more time, or a smaller input")


def out_of_memory() -> CutShort:
    return CutShort(
        f"cut short: it needs more than {memory_limit() / 2**30:.3g} GiB of memory, {memory_share():.3g} of what the "
        f"machine has; give it a smaller input, or set {MEMORY_VARIABLE} to a larger share"
    )


# --------------------------------------------------------------------------------------------------- memory


def memory_share() -> float:
    """The share of the machine's memory that one call of an engine may use, with all its processes."""
    text = os.environ.get(MEMORY_VARIABLE, "")
    try:
        share = float(text or MEMORY_SHARE)
    except ValueError:
        share = math.nan
    if not 0 < share <= 1:
        raise BadInput(f"{MEMORY_VARIABLE} must be a number in (0, 1], such as 0.5, got {text!r}")
    return share


def memory_limit() -> float:
    """That share in bytes; inf where the machine does not tell how much it has."""
    return memory_share() * _machine_memory()


@cache
def _machine_memory() -> float:
    """The bytes of memory that this machine, or the container that this process runs in, has."""
    known = math.inf
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        known = float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for path in CGROUP_LIMITS:
        try:
            with open(path, encoding="ascii") as file:
                known = min(known, float(file.read()))  # "max" where there is no limit
        except (OSError, ValueError):
            continue
    return known


def memory_used(process: int | str = "self") -> float:
    """The bytes of memory that are a process's own; 0 where the system does not tell, or the process has ended."""
    try:
        with open(f"/proc/{process}/statm", encoding="ascii") as file:
            _, resident, shared, *_ = map(int, file.read().split())
    except (OSError, ValueError):
        return 0.0
    return float((resident - shared) * os.sysconf("SC_PAGE_SIZE"))


# --------------------------------------------------------------------------------------------------------------- alarm
# A limit on the time that a piece of user code may take.


AGAIN = 0.5  # seconds after which code that caught the first interruption is interrupted again


_shields = 0  # how many bodies of `shielded` are running


class OutOfTime(Interruption):
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
    raised: Exception | None = None
    try:
        alarm.start()
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
        self.installed = self.armed = False
        self.rung = False

    def start(self) -> None:
        self.started = time.monotonic()
        self.handler: Any = signal.getsignal(signal.SIGALRM)
        self.delay, self.interval = signal.getitimer(signal.ITIMER_REAL)
        self.installed = True
        signal.signal(signal.SIGALRM, self._ring)  # which may ring right away, where another alarm was set before
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
        if not self.installed:  # the other one ended the start
            return
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
