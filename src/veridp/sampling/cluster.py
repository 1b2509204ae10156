"""Executors by name: this machine's processes, a Ray cluster, a Dask cluster."""

from __future__ import annotations

import logging
import os
import pickle
import queue
import subprocess
import sys
import threading
import types
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import contextmanager, suppress
from importlib.metadata import version
from typing import IO, Any

import cloudpickle

from veridp.errors import BadInput, WorkerLost, extra
from veridp.sampling.worker_processes import TaskResults

NAMES = "processes, ray, ray://host:port, dask://host:port"
SENT_ONCE = 10_000  # bytes: a longer argument is put where all workers fetch it, and not sent with each task
KEPT = 2  # such arguments that are kept there
ATTEMPTS = 3  # how often a task may end the process that a worker runs it in


@contextmanager
def executor(name: str) -> Iterator[Executor | None]:
    """The executor of this name, for `executor=` of engines; what was started or connected for it is ended afterwards.

    "processes" is None, the default of engines: processes of this machine. "ray" is the Ray cluster that this process
    is connected to or that RAY_ADDRESS names, else one that is started on this machine; "ray://host:port" is one that
    runs elsewhere, "dask://host:port" the cluster of a Dask scheduler. Results do not depend on it. BadInput where
    there is no such cluster.
    """
    if name == "processes":
        yield None
    elif name == "ray" or name.startswith("ray://"):
        with _ray(name) as cluster:
            yield cluster
    elif name.startswith("dask://"):
        with _dask(name) as cluster:
            yield cluster
    else:
        raise BadInput(f"executor = {name!r} is unknown; use one of {NAMES}")


# -------------------------------------------------------------------------------------------------------------- workers
# What is sent to a worker may not need veridp to be unpickled: a worker that lacks it, or has another version, has to
# be able to say so. So the first function that runs there is sent by value, and imports for itself.


def _on_worker(needed: str, function: bytes, *arguments: Any) -> tuple[bool, Any]:
    """On a worker: whether it has this version of veridp, and the pickled result, or what it has in its place."""
    import platform
    from importlib.metadata import PackageNotFoundError, version

    try:
        found = f"veridp {version('veridp')}"
    except PackageNotFoundError:
        found = "no veridp"
    if found != f"veridp {needed}":
        return False, f"{platform.node()} has {found}"
    from veridp.sampling.cluster import run_apart

    return True, run_apart(function, arguments)


ON_WORKER = types.FunctionType(_on_worker.__code__, {"__builtins__": __builtins__}, "_on_worker")
ON_WORKER.__module__ = "__main__"  # where it is not found: cloudpickle, whosever copy of it, then pickles it by value


# A worker of Ray or Dask has threads, which draw from global randomness and hold locks: there, code that is watched for
# such draws cannot be, and work that may have to be stopped cannot be forked. So tasks run beside it, in a process that
# has nothing else to do. It ends with its worker.


class _TaskProcess:
    """A process that runs one task at a time for this one."""

    def __init__(self) -> None:
        code = f"import sys; sys.path[:] = {sys.path!r}; from veridp.sampling.cluster import serve_tasks; serve_tasks()"
        words = [sys.executable, "-c", code]
        self.process: Any = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603

    def result(self, content: bytes) -> bytes:
        """The pickled result of a pickled function and its arguments; EOFError where the process ends over it."""
        try:
            _send(self.process.stdin, content)
            return _received(self.process.stdout)
        except (OSError, EOFError):
            self.process.kill()
            self.process.wait()
            raise EOFError from None


_idle: list[_TaskProcess] = []


def run_apart(function: bytes, arguments: Sequence[Any]) -> bytes:
    """On a worker: the pickled result of the pickled function, called in a process beside this one.

    One that ends, as code can make it do, is replaced; WorkerLost where that happens over and over.
    """
    content = cloudpickle.dumps((function, tuple(arguments)))
    for _ in range(ATTEMPTS):
        process = _idle.pop() if _idle else _TaskProcess()  # threads of a worker have one each
        with suppress(EOFError):
            result = process.result(content)
            _idle.append(process)
            return result
    raise WorkerLost(f"a task ended its process {ATTEMPTS} times")


def serve_tasks() -> None:
    """All that such a process does: one task after the other, until its worker ends."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what code prints is no answer
    tasks: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def receive() -> None:
        with suppress(EOFError):
            while True:
                tasks.put(_received(sys.stdin.buffer))
        os._exit(1)

    threading.Thread(target=receive, daemon=True).start()
    while True:
        function, arguments = pickle.loads(tasks.get())  # noqa: S301 - from our own parent
        _send(answers, cloudpickle.dumps(cloudpickle.loads(function)(*arguments)))


def _send(stream: IO[bytes], content: bytes) -> None:
    stream.write(len(content).to_bytes(8, "big") + content)
    stream.flush()


def _received(stream: IO[bytes]) -> bytes:
    """The next message; EOFError where none comes any more."""
    length = stream.read(8)
    content = stream.read(int.from_bytes(length, "big"))
    if len(length) < 8 or len(content) < int.from_bytes(length, "big"):
        raise EOFError
    return content


def needed_version() -> str:
    """The version of veridp that workers need: this one."""
    return version("veridp")


class ClusterExecutor(Executor, ABC):
    """Runs functions on workers that may be on other machines.

    They need the same version of veridp, and the installed packages that the caller's code uses; that code itself is
    sent to them. A worker that dies costs the time of its task, which is run again elsewhere.
    """

    def __init__(self, width: int) -> None:
        self.width = max(1, width)  # how many tasks run at a time
        self._placed: OrderedDict[bytes, Any] = OrderedDict()

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        if named:
            raise TypeError("a function for a cluster takes arguments by position only")
        content = cloudpickle.dumps(function)
        try:
            placed = [self._once(one) if isinstance(one, bytes) and len(one) > SENT_ONCE else one for one in arguments]
            return ClusterFuture(*self.launch(needed_version(), content, *placed))
        except Exception as error:  # of whatever class its library has for a connection that is lost
            raise BrokenExecutor(f"the cluster is gone: {_first_line(error)}") from error

    def _once(self, content: bytes) -> Any:
        if content not in self._placed:
            self._placed[content] = self.place(content)
            while len(self._placed) > KEPT:
                self._placed.popitem(last=False)
        return self._placed[content]

    @abstractmethod
    def place(self, content: bytes) -> Any:
        """What a task takes as argument in place of these bytes, once they are in the cluster."""

    @abstractmethod
    def launch(self, *arguments: Any) -> tuple[Future[Any], Callable[[], object]]:
        """ON_WORKER of these arguments, under way; and what ends it."""


def _unable(why: str) -> TaskResults:
    needed = needed_version()
    return TaskResults.failed(
        f"a worker cannot run the job: {why}, but veridp {needed} is needed, as here; "
        f"install it there: pip install veridp=={needed}"
    )


class ClusterFuture(Future[Any]):
    """What a worker will have answered; where it cannot run the task, TaskResults that say why."""

    def __init__(self, answer: Future[Any], stop: Callable[[], object]) -> None:
        super().__init__()
        self._stop = stop
        answer.add_done_callback(self._take)

    def _take(self, answer: Future[Any]) -> None:
        if not self.set_running_or_notify_cancel():
            return
        try:
            able, content = answer.result()
            result = pickle.loads(content) if able else _unable(content)  # noqa: S301 - from our own worker
        except BaseException as error:
            self.set_exception(error)
        else:
            self.set_result(result)

    def cancel(self) -> bool:
        if not self.done():
            self._stop()
        return super().cancel()


# ------------------------------------------------------------------------------------------------------------------ Ray


class RayExecutor(ClusterExecutor):
    """The Ray cluster that this process is connected to."""

    def __init__(self, ray: Any) -> None:
        super().__init__(int(ray.cluster_resources().get("CPU", 1)))
        self.ray, self.remote = ray, ray.remote(max_retries=3)(ON_WORKER)

    def place(self, content: bytes) -> Any:
        return self.ray.put(content)

    def launch(self, *arguments: Any) -> tuple[Future[Any], Callable[[], object]]:
        task = self.remote.remote(*arguments)
        return task.future(), lambda: self.ray.cancel(task, force=True)


@contextmanager
def _ray(name: str) -> Iterator[RayExecutor]:
    with extra("ray", f"--executor {name} needs"):
        import ray
    connected = ray.is_initialized()
    if not connected:
        address = name if "://" in name else os.environ.get("RAY_ADDRESS")
        try:
            ray.init(address or "local", log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
            raise BadInput(f"executor = {name!r}: no Ray cluster there: {_first_line(error)}") from None
    try:
        yield RayExecutor(ray)
    finally:
        if not connected:
            ray.shutdown()


# ----------------------------------------------------------------------------------------------------------------- Dask


class DaskExecutor(ClusterExecutor):
    """The cluster of a `distributed.Client`."""

    def __init__(self, client: Any) -> None:
        super().__init__(sum(client.nthreads().values()))
        self.client, self.inner = client, client.get_executor(pure=False)

    def place(self, content: bytes) -> Any:
        """A task that gives the content: unlike scattered data, it is run again where its worker died."""
        return self.client.submit(bytes, content, pure=False)

    def launch(self, *arguments: Any) -> tuple[Future[Any], Callable[[], object]]:
        task: Future[Any] = self.inner.submit(ON_WORKER, *arguments)
        return task, task.cancel


@contextmanager
def _dask(name: str) -> Iterator[DaskExecutor]:
    with extra("dask", f"--executor {name} needs"):
        import distributed
    connect: Any = distributed.Client
    try:
        client = connect(f"tcp://{name.removeprefix('dask://')}", timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise BadInput(f"executor = {name!r}: no Dask scheduler there: {_first_line(error)}") from None
    with client:
        yield DaskExecutor(client)


CONNECT_SECONDS = 30.0


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
