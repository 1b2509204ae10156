"""The worker pool: results in order whoever runs the tasks, errors as they are, and workers that die."""

from __future__ import annotations

import operator
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path

import pytest

from veridp.errors import BadInput, BadOutput, WorkerLost
from veridp.sampling import worker_processes
from veridp.sampling.worker_pool import WorkerPool

TASKS = 9


class Unsendable:
    """Cannot be pickled."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


class Unreadable:
    """Can be pickled, but only the process that did so can read it."""

    def __init__(self, home: int) -> None:
        if os.getpid() != home:
            raise ValueError("not here")
        self.home = home

    def __reduce__(self) -> tuple[type[Unreadable], tuple[int]]:
        return Unreadable, (self.home,)


@pytest.fixture(params=["here", "processes", "threads", "executor"])
def pool(request: pytest.FixtureRequest) -> Iterator[WorkerPool[int]]:
    executor: Executor | None = ThreadPoolExecutor(2) if request.param == "executor" else None
    workers = 1 if request.param == "here" else 2
    with WorkerPool(100, executor, workers, threads=request.param == "threads") as pool:
        yield pool
    if executor is not None:
        executor.shutdown()


def test_results_come_in_the_order_of_the_arguments(pool: WorkerPool[int]) -> None:
    assert list(pool.results(operator.add, range(TASKS))) == [100 + number for number in range(TASKS)]
    assert list(pool.results(operator.add, [])) == []


def test_an_error_of_a_task_is_raised_at_its_turn(pool: WorkerPool[int]) -> None:
    def fails(shared: int, number: int) -> int:
        if number == 2:
            raise BadOutput("two") from KeyError("why")
        return number

    results = pool.results(fails, range(TASKS))
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(BadOutput, match="two") as caught:
        next(results)
    assert isinstance(caught.value.__cause__, KeyError)


def test_an_error_whose_class_cannot_travel_is_told_by_its_text() -> None:
    def fails(shared: int, number: int) -> int:
        class Local(Exception):
            def __init__(self, one: int, two: int) -> None:
                super().__init__(f"{one} and {two}")

        raise Local(1, 2)

    with (
        WorkerPool(0, workers=2) as pool,
        pytest.raises(RuntimeError, match="Local: 1 and 2"),
    ):
        list(pool.results(fails, range(2)))


def test_arguments_are_taken_as_they_are_needed() -> None:
    taken: list[int] = []

    def arguments() -> Iterator[int]:
        for number in range(1000):
            taken.append(number)
            yield number

    with WorkerPool(0, workers=2) as pool:
        results = pool.results(operator.add, arguments())
        assert next(results) == 0
        assert len(taken) <= 8  # twice what is under way at most
        results.close()


def test_what_cannot_be_sent_away_is_run_here() -> None:
    with WorkerPool(Unsendable(), workers=2) as pool:
        assert set(pool.results(lambda shared, number: os.getpid(), range(3))) == {os.getpid()}


def test_what_a_worker_cannot_read_is_an_error() -> None:
    with WorkerPool(Unreadable(os.getpid()), workers=2) as pool, pytest.raises(BadInput, match="ValueError: not here"):
        list(pool.results(lambda shared, number: number, range(3)))


def test_a_task_that_ends_its_worker_once_is_run_again(tmp_path: Path) -> None:
    def dies_once(folder: Path, number: int) -> int:
        if number == 3 and not (folder / "died").exists():
            (folder / "died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return number

    with WorkerPool(tmp_path, workers=2) as pool:
        assert list(pool.results(dies_once, range(TASKS))) == list(range(TASKS))
    assert (tmp_path / "died").exists()


def test_a_task_that_always_ends_its_worker_is_named() -> None:
    def dies(shared: int, number: int) -> int:
        if number == 3:
            os._exit(1)
        return number

    with WorkerPool(0, workers=2) as pool:
        results = pool.results(dies, range(TASKS), lost=lambda number: f"number {number} is to blame")
        assert [next(results) for _ in range(3)] == [0, 1, 2]
        with pytest.raises(WorkerLost, match="number 3 is to blame; look for os"):
            next(results)


def test_no_patience_is_left_for_a_worker_that_does_not_answer() -> None:
    with pytest.raises(TimeoutError), WorkerPool(0, workers=2) as pool:
        list(pool.results(lambda shared, number: signal.pause(), range(2), patience=0.2))
    assert pool.own is None


def test_workers_that_are_ended_while_they_write_are_not_waited_for() -> None:
    """A result larger than a pipe holds: its worker writes until somebody reads."""
    with WorkerPool(0, workers=2) as pool:
        results = pool.results(lambda shared, number: bytes(10**7), range(TASKS))
        assert len(next(results)) == 10**7
        results.close()
    assert pool.own is None


def test_a_worker_that_dies_takes_no_other_task_with_it(tmp_path: Path) -> None:
    def runs(folder: Path, number: int) -> int:
        with (folder / str(number)).open("a") as file:
            file.write(".")
        if number == 0 and len((folder / "0").read_text()) < 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return number

    with WorkerPool(tmp_path, workers=2) as pool:
        assert list(pool.results(runs, range(TASKS))) == list(range(TASKS))
    assert [len((tmp_path / str(number)).read_text()) for number in range(TASKS)] == [3] + [1] * (TASKS - 1)


def test_an_idle_worker_that_is_ended_from_outside_is_replaced() -> None:
    with WorkerPool(0, workers=2) as pool:
        assert list(pool.results(operator.add, range(TASKS))) == list(range(TASKS))
        assert isinstance(pool.own, worker_processes.WorkerProcesses)
        for worker in pool.own.workers:
            worker.process.kill()
            worker.process.join()
        assert list(pool.results(operator.add, range(TASKS))) == list(range(TASKS))


def test_a_result_that_cannot_travel_is_an_error() -> None:
    with WorkerPool(0, workers=2) as pool, pytest.raises(BadInput, match="a result cannot be sent back: TypeError"):
        list(pool.results(lambda shared, number: threading.Lock(), range(2)))


def test_a_message_that_was_interrupted_is_not_taken_for_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted: list[bytes] = []
    with WorkerPool(0, workers=2) as pool:
        results = pool.results(lambda shared, number: number, range(TASKS))
        assert next(results) == 0
        read = worker_processes._read

        def interrupt(content: bytes) -> object:
            interrupted.append(content)
            raise KeyboardInterrupt

        monkeypatch.setattr(worker_processes, "_read", interrupt)
        with pytest.raises(KeyboardInterrupt):
            list(results)
        monkeypatch.setattr(worker_processes, "_read", read)
        assert len(interrupted) == 1
        assert list(pool.results(lambda shared, number: 10 + number, range(TASKS))) == list(range(10, 10 + TASKS))
