"""Runs work where it can be stopped: in a child process with a deadline and a memory limit."""

from __future__ import annotations

import ctypes
import gc
import importlib
import io
import math
import os
import pickle
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from types import FrameType
from typing import Any, Generic, NoReturn, TypeVar

import cloudpickle

from veridp.budget import (
    LOOK_AT_MEMORY,
    Deadline,
    OutOfTime,
    Progress,
    at_most,
    memory_limit,
    memory_used,
    out_of_memory,
    out_of_time,
    shielded,
    within,
)
from veridp.budget.worker import show_warnings_once, without_parents_threads
from veridp.errors import CutShort, WorkerLost

# Runs work where it can be stopped: in a child process with a deadline and a limit on its memory.
#
# A finite budget has to hold whatever the code does: a compiled call that does not return, a loop that catches every
# exception, a list of 2^31 entries. No signal stops these, so the work runs in a forked child that is ended from
# outside. Until then the child reports the best that it has, and that is what remains if it is ended.
#
# The child starts with a copy of everything, so nothing has to be sent to it. What comes back is pickled, except for
# objects that both processes know. Changes that the work makes to other objects stay in the child.
#
# Only Linux forks safely enough, as long as no library with threads of its own is loaded. Elsewhere work runs in this
# process under `at_most`, which stops Python code unless it catches BaseException, and does not stop a compiled call;
# `check` alone watches the memory there.


T = TypeVar("T")
GRACE = 0.8  # seconds past its deadline after which the child is ended
STEP_GRACE = 0.4  # the same for a step of the work
INTERRUPT_GRACE = 1.5  # seconds that the child has to answer an interrupt
PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)
THREADED = ("polars", "ray", "distributed", "jaxlib")  # whose threads hold locks that a forked process waits for
HEAVY = ("veridp.", "numba", "flint", "sklearn", "scipy")  # what takes long to load
NOTHING: Any = object()

_LISTENER: ContextVar[Callable[[Any], None] | None] = ContextVar("listener", default=None)
_inside = False  # whether this process is such a child
_loaded_in_children: list[str] = []
watched: list[int] = []  # the children that are at work, by their process ids, which name their process groups too


def inside() -> bool:
    """Whether this process is a child that its parent ends at the deadline."""
    return _inside


def forks() -> bool:
    """Whether work with a finite deadline gets a child of its own: on Linux, unless this process is one already.

    A child may wait for ever for a thread that such a library, once loaded, has in its parent.
    """
    return sys.platform == "linux" and not _inside and not threaded()


def threaded() -> str:
    """The name of a loaded library whose threads a fork does not survive; empty where there is none."""
    return next((name for name in THREADED if name in sys.modules), "")


class Reporter:
    """How work reports its progress. This one, for work in the same process, keeps what is reported."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._listener = _LISTENER.get()  # of this work: within it, others listen to work of their own
        self.kept: Any = NOTHING

    def best(self, value: Any) -> None:
        """Make this the result, should the work be cut short from now on."""
        self.kept = value
        if self._listener is not None:
            self._listener(value)

    def until(self, deadline: Deadline) -> None:
        """From now on until the next call of this, the work must end by the deadline, and a short grace."""

    def progress(self, stage: str, share: float, best: float) -> None:
        """Call the progress function; an interrupt that it raises is raised here."""
        if self._progress is not None:
            self._progress(stage, share, best)


@dataclass(frozen=True)
class Ended(Generic[T]):
    """How work ended: with its result and no reason; or, for a reason, with the best until then, or NOTHING."""

    value: T
    reason: BaseException | None = None


@contextmanager
def listening(listener: Callable[[Any], None]) -> Iterator[None]:
    """Hand to the listener the best of each engine that the body calls, as it is reported, within this process."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


def contained(
    work: Callable[[Reporter], T],
    deadline: Deadline,
    *,
    known: Sequence[object] = (),
    progress: Progress | None = None,
    here: bool = False,
) -> T:
    """What the work returns, or the best that it reported where it is cut short or interrupted.

    Work that needs threads or connections of this process runs `here`, without a limit: it keeps the deadline itself.

    Raises what the work raises; and where it reported nothing, CutShort once its time or memory is used up,
    KeyboardInterrupt, and WorkerLost where it ended its process.
    """
    if here:
        return work(Reporter(progress))
    ended = attempt(work, deadline, known=known, progress=progress)
    if ended.reason is not None and ended.value is NOTHING:
        raise ended.reason
    return ended.value


def attempt(
    work: Callable[[Reporter], T],
    deadline: Deadline,
    *,
    known: Sequence[object] = (),
    progress: Progress | None = None,
) -> Ended[T]:
    """How the work ends: in a child by the deadline, or in this process where that is infinite.

    The objects of `known`, and their attributes, are the same in the result as here. Raises what the work raises.
    """
    if forks() and math.isfinite(deadline.seconds):
        return _Watch(work, deadline, _references(known), progress).ended()
    reporter = Reporter(progress)
    limit = None if _inside or math.isinf(deadline.seconds) else max(deadline.left, 1e-3)
    try:
        with within(deadline), at_most(limit):
            return Ended(work(reporter))
    except (CutShort, OutOfTime, MemoryError, KeyboardInterrupt) as error:
        return Ended(reporter.kept, reason_of(error, deadline))


def reason_of(error: BaseException, deadline: Deadline) -> BaseException:
    """Why work was cut short, as an error that says so."""
    if isinstance(error, OutOfTime):
        return out_of_time(deadline.seconds)
    return out_of_memory() if isinstance(error, MemoryError) else error


def _references(known: Sequence[object]) -> dict[int, object]:
    """The objects and their attributes by identity, without plain values."""
    found: dict[int, object] = {}
    for thing in known:
        for part in (thing, *getattr(thing, "__dict__", {}).values()):
            if not isinstance(part, int | float | str | bytes | tuple | None):
                found[id(part)] = part
    return found


# ------------------------------------------------------------------------------------------------- Ctrl-C


class _Interrupts:
    """Ctrl-C, which is held back except where it may be raised.

    Raised between the parts of a message, or between reading one and acting on it, it would lose the message.
    """

    def __init__(self) -> None:
        self.waiting = self.raised = False
        self.handler: Any = None

    def take(self, handler: Any) -> None:
        """From now on, hold back what this handler of SIGINT raises; leave alone what is no Python function."""
        if callable(handler) and threading.current_thread() is threading.main_thread():
            self.handler = handler
            signal.signal(signal.SIGINT, self._arrive)

    def give_back(self) -> None:
        if self.handler is not None:
            signal.signal(signal.SIGINT, self.handler)

    def _arrive(self, number: int, frame: FrameType | None) -> None:
        try:
            self.handler(number, frame)
        except KeyboardInterrupt:
            if self.raised:
                raise
            self.waiting = True

    @contextmanager
    def may_be_raised(self, allowed: bool = True) -> Iterator[None]:
        """Raise those that arrive in the body, or hold them back: then they are raised as soon as they may be."""
        before = self.raised
        try:
            self._set(allowed)
            yield
        except BaseException:
            self.raised = before
            raise
        self._set(before)

    def _set(self, raised: bool) -> None:
        self.raised = raised
        if raised and self.waiting:
            self.waiting = False
            raise KeyboardInterrupt


# ----------------------------------------------------------------------------------------------- the parent


class _Watch(Generic[T]):
    """A child at work, and its parent, which waits."""

    def __init__(
        self,
        work: Callable[[Reporter], T],
        deadline: Deadline,
        references: dict[int, object],
        progress: Progress | None,
    ) -> None:
        self.work, self.deadline, self.references, self.progress = work, deadline, references, progress
        self.ends = self.step_ends = deadline.started + deadline.seconds + GRACE
        self.step_seconds = deadline.seconds
        self.memory, self.next_look = memory_used(), 0.0
        self.kept: bytes | None = None
        self.interrupts = _Interrupts()
        self.interrupted = False

    def ended(self) -> Ended[T]:
        _load_as_children_did()
        _flush()
        self.interrupts.take(signal.getsignal(signal.SIGINT))
        try:
            self._start()
            try:
                while (ended := self._wait()) is None:
                    if self.interrupts.waiting:
                        self.interrupts.waiting = False
                        if self.interrupted:
                            return self._cut(KeyboardInterrupt())
                        self._interrupt()
                        os.kill(self.pid, signal.SIGINT)
                return ended
            finally:
                self._end()
        finally:
            self.interrupts.give_back()

    def _start(self) -> None:
        self.line, theirs = Pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12, where other threads run
            self.pid = os.fork()
        if self.pid == 0:
            self.line.close()
            listening = self.progress is not None
            _live(self.work, self.deadline, _Remote(theirs, self.references, listening, self.interrupts))
        watched.append(self.pid)
        theirs.close()
        with suppress(OSError):  # the child does the same, in either order
            os.setpgid(self.pid, self.pid)

    def _end(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self.line.close()
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        watched.remove(self.pid)

    def _wait(self) -> Ended[T] | None:
        """Wait for a message, but not for long; how the work ended, if it did."""
        now = time.monotonic()
        if self.line.poll(max(0.0, min(LOOK_AT_MEMORY, min(self.ends, self.step_ends) - now))):
            try:
                return self._read(*pickle.loads(self.line.recv_bytes()))  # noqa: S301 - from our own child
            except (EOFError, ConnectionResetError):
                return self._cut(self._lost())
        now = time.monotonic()
        if now >= min(self.ends, self.step_ends):
            seconds = self.step_seconds if self.step_ends < self.ends else self.deadline.seconds
            return self._cut(KeyboardInterrupt() if self.interrupted else out_of_time(seconds))
        if now >= self.next_look:
            self.next_look = now + LOOK_AT_MEMORY
            if sum(max(0.0, memory_used(pid) - self.memory) for pid in family(self.pid)) > memory_limit():
                return self._cut(out_of_memory())
        return None

    def _read(self, kind: str, content: Any) -> Ended[T] | None:
        if kind == "best":
            self.kept = content
        elif kind == "until":
            self.step_ends, self.step_seconds = content
        elif kind == "loaded":
            _loaded_in_children.extend(content)
        elif kind == "progress":
            self._tell(*content)
        elif kind == "done":
            return Ended(self._unpickled(content))
        else:
            error, cause, trace = self._unpickled(content)
            if isinstance(error, CutShort | OutOfTime | MemoryError | KeyboardInterrupt):
                return self._cut(reason_of(error, self.deadline))
            error.add_note(f"in a child process:\n{trace}")
            raise error from cause
        return None

    def _tell(self, number: int, arguments: tuple[str, float, float]) -> None:
        go_on = True
        try:
            if self.progress is not None and not self.interrupted:
                with self.interrupts.may_be_raised():
                    self.progress(*arguments)
        except KeyboardInterrupt:
            self._interrupt()
            go_on = False
        self.line.send((number, go_on))

    def _interrupt(self) -> None:
        self.interrupted = True
        self.ends = min(self.ends, time.monotonic() + INTERRUPT_GRACE)

    def _cut(self, reason: BaseException) -> Ended[T]:
        return Ended(NOTHING if self.kept is None else self._unpickled(self.kept), reason)

    def _lost(self) -> WorkerLost:
        _, status = os.waitpid(self.pid, 0)
        how = f"by signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"with status {os.WEXITSTATUS(status)}"
        return WorkerLost(f"its process ended {how}; look for os._exit, a crash in compiled code, or too little memory")

    def _unpickled(self, content: bytes) -> Any:
        unpickler = pickle.Unpickler(io.BytesIO(content))  # noqa: S301 - from our own child
        unpickler.persistent_load = self.references.__getitem__  # type: ignore[method-assign]
        return unpickler.load()


def _load_as_children_did() -> None:
    """Load the libraries that children had to load, once for all children to come."""
    while _loaded_in_children:
        with suppress(Exception):
            importlib.import_module(_loaded_in_children.pop())


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # it may be closed
            stream.flush()


def family(pid: int) -> Iterator[int]:
    """The process and those that it has started, which are of its process group."""
    for name in os.listdir("/proc"):
        with suppress(ValueError, ProcessLookupError):  # no process, or one that has ended
            if os.getpgid(int(name)) == pid:
                yield int(name)


# ------------------------------------------------------------------------------------------------ the child


class _Remote(Reporter):
    """A child's line to its parent. No alarm and no interrupt may come between the parts of a message."""

    def __init__(
        self, line: Connection, references: dict[int, object], listening: bool, interrupts: _Interrupts
    ) -> None:
        super().__init__(None)
        self.line, self.references, self.listening = line, references, listening
        self.interrupts = interrupts
        self.reported = 0
        self.loaded = set(sys.modules)

    def best(self, value: Any) -> None:
        self.tell_loaded()
        self.send("best", self.pickled(value))

    def until(self, deadline: Deadline) -> None:
        self.send("until", (deadline.started + deadline.seconds + STEP_GRACE, deadline.seconds))

    def progress(self, stage: str, share: float, best: float) -> None:
        if not self.listening:
            return
        self.reported += 1
        with self._whole():
            self.send("progress", (self.reported, (stage, share, best)))
            _, go_on = self.line.recv()
        if not go_on:
            raise KeyboardInterrupt

    def tell_loaded(self) -> None:
        """Tell which libraries were loaded since the last time."""
        names = [name for name in list(sys.modules) if name.startswith(HEAVY) and name not in self.loaded]
        if names:
            self.loaded.update(names)
            self.send("loaded", names)

    def send(self, kind: str, content: Any) -> None:
        with self._whole():
            self.line.send_bytes(pickle.dumps((kind, content)))

    def pickled(self, value: Any) -> bytes:
        buffer = io.BytesIO()
        pickler = cloudpickle.CloudPickler(buffer)
        pickler.persistent_id = lambda thing: id(thing) if id(thing) in self.references else None
        pickler.dump(value)
        return buffer.getvalue()

    @contextmanager
    def _whole(self) -> Iterator[None]:
        with shielded(), self.interrupts.may_be_raised(False):
            yield


def _live(work: Callable[[Reporter], Any], deadline: Deadline, reporter: _Remote) -> NoReturn:
    """All that the child does."""
    global _inside
    _inside = True
    try:
        reporter.interrupts.take(signal.default_int_handler)  # what arrived since the fork is raised in the work
        with suppress(OSError):
            os.setpgid(0, 0)  # so that it can be ended together with all processes that it starts
        ctypes.CDLL(None).prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL)
        _limit_memory()
        without_parents_threads()
        show_warnings_once()
        gc.freeze()  # the collector would copy the parent's objects by looking at them
        try:
            with within(deadline), reporter.interrupts.may_be_raised():
                kind, content = "done", reporter.pickled(work(reporter))
        except BaseException as error:
            kind, content = "failed", _failure(error, reporter)
        reporter.tell_loaded()
        reporter.send(kind, content)
    finally:
        _flush()
        os._exit(0)


def _limit_memory() -> None:
    """Let allocations past the limit raise MemoryError. It bounds each process; the parent watches their sum."""
    import resource  # only where there is fork

    limit = memory_limit()
    if math.isfinite(limit):
        with open("/proc/self/statm", encoding="ascii") as file:
            in_use = int(file.read().split()[5]) * os.sysconf("SC_PAGE_SIZE")
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        wanted = in_use + int(limit)
        resource.setrlimit(resource.RLIMIT_DATA, (wanted if hard < 0 else min(wanted, hard), hard))


def _failure(error: BaseException, reporter: _Remote) -> bytes:
    """The error, its cause and its traceback as text."""
    trace = "".join(traceback.format_exception(error))
    for cause in (error.__cause__, None):
        with suppress(Exception):  # some exceptions cannot be pickled; the text remains
            content = reporter.pickled((error, cause, trace))
            pickle.loads(pickle.dumps(error))  # noqa: S301 - and some cannot be unpickled
            return content
    return reporter.pickled((RuntimeError(f"{type(error).__name__}: {error}"), None, trace))
