"""Sampling and counting: the seed alone decides, wherever the work is done; what is wrong with a mechanism is said."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from veridp.errors import BadInput, BadOutput, MechanismFailed, MechanismHung, Nondeterministic, WorkerLost
from veridp.kernel.output import Raised
from veridp.mechanism import Mechanism, mechanism
from veridp.sampling import blocks, worker_processes
from veridp.sampling.blocks import LARGE_BLOCK
from veridp.sampling.sample import check_returns, sample, tally
from veridp.sampling.worker_pool import first_done

READINGS = ["batch", "compiled", "one-by-one", "vectorised"]


@mechanism(vectorised=lambda rng, data, count, *, scale=1.0: data + rng.laplace(scale=scale, size=count))
def noisy(rng, data, *, scale=1.0):
    return data + rng.laplace(scale=scale)


def count_for(reading: str) -> int:
    return 10_000 if reading == "one-by-one" else 2 * LARGE_BLOCK + 17


# -------------------------------------------------------------------------------------------------------- the seed


@pytest.mark.parametrize("reading", READINGS)
def test_the_result_depends_on_the_seed_alone(reading: str) -> None:
    count = count_for(reading)
    alone = sample(noisy, 1.0, count, seed=3, reading=reading, workers=1)
    assert len(alone) == count
    assert sample(noisy, 1.0, count, seed=3, reading=reading, workers=2) == alone
    with ThreadPoolExecutor(2) as threads:
        assert sample(noisy, 1.0, count, seed=3, reading=reading, executor=threads) == alone
    assert sample(noisy, 1.0, count, seed=4, reading=reading, workers=1) != alone
    assert len(np.unique(alone.matrix())) == count  # no block repeats the draws of another


def test_readings_differ_from_one_another_and_arguments_count() -> None:
    assert sample(noisy, 1.0, 100, reading="batch") != sample(noisy, 1.0, 100, reading="one-by-one")
    np.testing.assert_allclose(
        sample(noisy, 0.0, 100, scale=2.0, reading="batch").matrix(),
        2 * sample(noisy.bind(scale=1.0), 0.0, 100, reading="batch").matrix(),
    )


def test_small_blocks_are_measured_together_with_the_same_result() -> None:
    """What 64 blocks of ten outputs give is put together first, but for code that takes half a second for a block."""
    sizes: list[int] = []

    def positive(outputs):
        sizes.append(len(outputs))
        return outputs.matrix()[:, 0] > 0

    seen: list[tuple[int, int]] = []
    progress = lambda done, total: seen.append((done, total))  # noqa: E731
    together = tally(noisy, 0.0, 640, reading="one-by-one", workers=1, events=[positive], progress=progress)
    assert sum(sizes) == 640
    assert len(sizes) < blocks.PARTS
    assert seen[-1] == (640, 640)
    alone = sample(noisy, 0.0, 640, reading="one-by-one", workers=2)
    assert together[0] == np.count_nonzero(alone.matrix() > 0)


def test_a_process_pool_of_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    with ProcessPoolExecutor(2, worker_processes.start_context()) as processes:
        outputs = sample(noisy, 1.0, 9000, seed=3, reading="one-by-one", executor=processes)
        assert processes.submit(os.getpid).result() > 0  # it is left as it was
    assert outputs == sample(noisy, 1.0, 9000, seed=3, reading="one-by-one", workers=1)


class Backwards(Executor):
    """Runs what it is given in the opposite order."""

    def __init__(self) -> None:
        self.kept: list[tuple[Future[Any], Any]] = []

    def submit(self, function: Any, /, *args: Any, **options: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.kept.append((future, lambda: function(*args, **options)))
        if len(self.kept) == 2:
            for each, call in self.kept[::-1]:
                each.set_result(call())
            self.kept = []
        return future


def test_the_order_of_the_blocks_does_not_matter() -> None:
    alone = sample(noisy, 1.0, 8192, seed=3, reading="one-by-one", workers=1)
    assert sample(noisy, 1.0, 8192, seed=3, reading="one-by-one", executor=Backwards()) == alone


def test_lambdas_and_closures_go_to_workers() -> None:
    shift = 5
    outputs = sample(lambda rng, data: shift + data + rng.integers(2), 1, 9000, reading="one-by-one", workers=2)
    assert set(outputs.distinct()) == {6, 7}


def test_what_cannot_be_pickled_is_run_here() -> None:
    lock = threading.Lock()

    def locked(rng, data):
        with lock:
            return rng.random() < 0.5

    assert len(sample(locked, None, 500, reading="one-by-one", workers=2)) == 500


def test_progress_is_told_to_the_end() -> None:
    told: list[tuple[int, int]] = []
    sample(noisy, 1.0, 1000, reading="one-by-one", progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (1000, 1000)
    assert [done for done, _ in told] == sorted({done for done, _ in told})


def test_no_outputs_are_no_outputs() -> None:
    for reading in READINGS:
        assert len(sample(noisy, 1.0, 0, reading=reading)) == 0


def test_long_vectors_are_drawn_in_parts() -> None:
    outputs = sample(lambda rng, data: rng.laplace(size=200), None, 200_000, reading="batch")
    assert outputs.width == 200
    assert abs(outputs.matrix().mean()) < 5 * np.sqrt(2 / 200 / 200_000)  # false alarm: below 1e-6


# ------------------------------------------------------------------------------------------------- bad mechanisms


def raises(rng, data):
    if rng.random() < data:
        raise ValueError("out of luck")
    return True


UNLUCKY = Raised("ValueError", "out of luck")


@pytest.mark.parametrize("reading", [None, "batch", "one-by-one"])
def test_an_exception_is_an_output(reading: str | None) -> None:
    counts = sample(raises, 0.5, 1000, reading=reading).distinct()
    assert set(counts) == {True, UNLUCKY}
    assert abs(counts[UNLUCKY] - 500) < 5 * np.sqrt(250)  # false alarm: below 1e-6


def test_an_exception_is_an_output_in_workers_too() -> None:
    there = sample(raises, 3e-3, 40_000, seed=1, reading="one-by-one", workers=2)
    here = sample(raises, 3e-3, 40_000, seed=1, reading="one-by-one", workers=1)
    assert there == here
    assert 60 < there.distinct()[UNLUCKY] < 180


def test_compiled_code_leaves_exceptions_and_nan_to_plain_runs() -> None:
    def sometimes_nan(rng, data):
        return float("nan") if rng.random() < 0.01 else 1.0

    for function, data in ((raises, 0.1), (sometimes_nan, None)):
        with pytest.raises(BadInput, match="cannot be sampled with reading='compiled'"):
            sample(function, data, 2000, reading="compiled")
    for reading in ("batch", "one-by-one"):
        counts = sample(sometimes_nan, None, 20_000, reading=reading).distinct()
        assert len(counts) == 2
        assert abs(counts[float("nan")] - 200) < 5 * np.sqrt(200)  # false alarm: below 1e-5


def test_code_that_looks_at_the_generator_is_read_one_by_one() -> None:
    def exact_class(rng, data):
        return rng.laplace() if type(rng) is np.random.Generator else 0.0

    def name_of_the_class(rng, data):
        return rng.laplace() if type(rng).__name__ == "Generator" else 0.0

    def text(rng, data):
        return rng.laplace() if str(rng).startswith("Generator(") and "batch" not in repr(rng) else 0.0

    def state(rng, data):
        try:
            return rng.laplace() + 0 * len(rng.bit_generator.state)
        except AttributeError:
            return 0.0

    def another_generator(rng, data):
        return np.random.Generator(rng.bit_generator).laplace()

    def memory_of_an_array(rng, data):
        noise = rng.laplace(size=2)
        return noise[0] if noise.flags.owndata and noise.dtype == float else 0.0

    for function in (exact_class, name_of_the_class, text, state, memory_of_an_array):
        outputs = sample(function, [0.0], 1000, seed=1)
        assert outputs.reading == "one-by-one"
        assert len(outputs.distinct()) == 1000
    assert sample(another_generator, [0.0], 1000, seed=1) == sample(
        lambda rng, data: rng.laplace(), [0.0], 1000, seed=1
    )


def test_outputs_without_columns_are_reported() -> None:
    with pytest.raises(BadOutput, match="of type object; return numbers"):
        sample(lambda rng, data: object(), None, 10)


def test_a_mechanism_that_only_raises_has_failed() -> None:
    check_returns(Mechanism(raises), [1.0, 0.5])  # on the second it may return
    with pytest.raises(MechanismFailed, match=r"raises on 1.0: test_sample.py:\d+: it raised ValueError: out of luck"):
        check_returns(Mechanism(raises), [2.0, 1.0])


def test_a_vectorised_function_of_the_wrong_length_is_reported() -> None:
    wrong = Mechanism(raises, vectorised=lambda rng, data, count: np.zeros(count + 1))
    with pytest.raises(BadOutput, match="returned 11 outputs where 10 were asked for"):
        sample(wrong, 0.0, 10)
    with pytest.raises(BadOutput, match="returned float; return an array"):
        sample(Mechanism(raises, vectorised=lambda rng, data, count: 1.0), 0.0, 10)


def test_data_that_the_mechanism_changes_are_reported() -> None:
    with pytest.raises(Nondeterministic, match="it changes its data"):
        sample(lambda rng, data: data.append(1) or len(data), [1], 100)


def test_hidden_randomness_is_reported_and_can_be_read_one_by_one() -> None:
    own = (np.random.default_rng(0),)  # in a tuple it is not adopted
    with pytest.raises(Nondeterministic, match=r"adapters\.unseeded"):
        sample(lambda rng, data: own[0].random() < 0.5, None, 100)
    outputs = sample(lambda rng, data: own[0].random() < 0.5, None, 1000, reading="one-by-one")
    assert 400 < outputs.distinct()[True] < 600  # false alarm: 1e-10


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"count": -1}, "count must be an integer >= 0, got -1"),
        ({"count": 1.5}, "count must be an integer >= 0, got 1.5"),
        ({"count": 1, "seed": -3}, "seed must be an integer >= 0, got -3"),
        ({"count": 1, "workers": 0}, "workers must be >= 1, got 0"),
        ({"count": 1, "time_limit": 0}, "time_limit must be > 0 seconds"),
        ({"count": 1, "reading": "fast"}, "reading = 'fast'"),
        ({"count": 1, "length": 3}, "takes no argument 'length'"),
    ],
)
def test_wrong_orders_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        sample(noisy, 1.0, **options)


# --------------------------------------------------------------------------------------- hanging and dying mechanisms


def hangs(rng, data):
    while True:
        with contextlib.suppress(Exception):
            time.sleep(10)


def hangs_rarely(rng, data):
    while rng.random() < data:
        time.sleep(3600)
    return 1


def test_a_mechanism_that_hangs_is_interrupted() -> None:
    started = time.monotonic()
    with pytest.raises(MechanismHung, match=r"test_sample.py:\d+: hangs did not return within 0.2 s on \[1\]"):
        sample(hangs, [1], 10, time_limit=0.2)
    assert time.monotonic() - started < 30


def test_the_line_where_a_mechanism_hangs_is_one_of_its_own() -> None:
    def waits(rng: Any, data: Any) -> Any:
        return threading.Event().wait(3600)  # it is in threading.py that this hangs

    with pytest.raises(MechanismHung, match=r"^test_sample.py:\d+: .*waits did not return within 0.2 s on \[1\]"):
        sample(waits, [1], 10, time_limit=0.2)


def test_a_mechanism_that_hangs_in_a_worker_is_interrupted() -> None:
    with pytest.raises(MechanismHung, match="hangs_rarely did not return within 1 s"):
        sample(hangs_rarely, 1e-3, 20_000, reading="one-by-one", workers=2, time_limit=1.0)
    with ThreadPoolExecutor(2) as threads, pytest.raises(MechanismHung):
        sample(spins_rarely, 1e-3, 20_000, reading="one-by-one", executor=threads, time_limit=1.0)


def spins_rarely(rng, data):
    while rng.random() < data:
        while True:
            pass
    return 1


def deaf(rng, data):
    while rng.random() < data:
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        time.sleep(3600)
    return 1


def test_a_worker_that_hears_no_alarm_is_ended_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "GRACE", 2.0)
    with pytest.raises(MechanismHung, match="could not be interrupted; its worker was ended"):
        sample(deaf, 1e-3, 20_000, reading="one-by-one", workers=2, time_limit=1.0)
    assert own_workers() == []


def dies_once(rng, data):
    """Ends its process the first time that it draws the fatal number, as an overfull memory would."""
    if rng.random() < 1e-3 and not Path(data).exists():
        Path(data).touch()
        os._exit(1)
    return 1


def dies_always(rng, data):
    if rng.random() < 3e-4 and os.getpid() != data:
        os.kill(os.getpid(), signal.SIGKILL)
    return 1


def own_workers() -> list[psutil.Process]:
    """The worker processes that are left; the server that starts them stays until this process ends."""
    servers = psutil.Process().children()
    return [worker for server in servers if "forkserver" in " ".join(server.cmdline()) for worker in server.children()]


def test_a_worker_that_dies_does_not_lose_the_run(tmp_path: Path) -> None:
    outputs = sample(dies_once, str(tmp_path / "died"), 20_000, seed=2, reading="one-by-one", workers=2)
    assert (tmp_path / "died").exists()
    assert outputs.distinct() == {1: 20_000}
    assert own_workers() == []


def test_a_block_that_kills_every_worker_is_named() -> None:
    with pytest.raises(WorkerLost, match=r"ended its worker 3 times in block \d+, whose stream is SeedSequence\(5, "):
        sample(dies_always, os.getpid(), 20_000, seed=5, reading="one-by-one", workers=2)
    assert own_workers() == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_pool_that_loses_a_worker_beside_a_cancelled_task_is_not_waited_for() -> None:
    executor: Any = ProcessPoolExecutor(1, worker_processes.start_context())
    with worker_processes.hidden_main():
        futures = [executor.submit(time.sleep, 600) for _ in range(5)]
    assert futures[3].cancel()  # the first two or three are with the worker
    (worker,) = executor._processes.values()
    worker.kill()
    with pytest.raises(BrokenExecutor):
        [future.result() for future in first_done(futures[4:], executor)]
    executor.shutdown()


def test_a_broken_executor_of_the_caller_is_replaced(tmp_path: Path) -> None:
    alone = sample(noisy, 1.0, 9000, seed=3, reading="one-by-one", workers=1)
    with ThreadPoolExecutor(1) as threads:
        pass
    assert sample(noisy, 1.0, 9000, seed=3, reading="one-by-one", executor=threads) == alone  # it has been shut down
    with ProcessPoolExecutor(2, worker_processes.start_context()) as processes:
        outputs = sample(dies_once, str(tmp_path / "died"), 20_000, seed=2, reading="one-by-one", executor=processes)
    assert (tmp_path / "died").exists()
    assert outputs.distinct() == {1: 20_000}


class BreaksBeforeItStarts(ProcessPoolExecutor):
    """As on a busy machine: a worker dies before the pool has started the second one."""

    def _spawn_process(self) -> None:
        if self._processes:
            self.breaks()
        super()._spawn_process()  # type: ignore[misc]

    def breaks(self) -> None:
        """End the workers in the pool's list, and wait until it has noticed."""
        for process in list(self._processes.values()):
            process.kill()
        while not self._broken:  # type: ignore[attr-defined]
            time.sleep(0.01)
        time.sleep(0.2)  # meanwhile it ends those in its list


class BreaksWhileItStarts(BreaksBeforeItStarts):
    """A worker dies before the pool has the second one, which has been started, in its list."""

    def _spawn_process(self) -> None:
        listed = dict(self._processes)
        super(BreaksBeforeItStarts, self)._spawn_process()  # type: ignore[misc]
        if listed:
            ((number, process),) = self._processes.items() - listed.items()
            del self._processes[number]
            self.breaks()
            self._processes[number] = process  # type: ignore[index]


@pytest.mark.parametrize("kind", [BreaksBeforeItStarts, BreaksWhileItStarts])
def test_a_callers_pool_that_breaks_as_a_worker_starts_is_replaced(kind: type[ProcessPoolExecutor]) -> None:
    alone = sample(noisy, 1.0, 9000, seed=3, reading="one-by-one", workers=1)
    with kind(2, worker_processes.start_context()) as processes:
        assert sample(noisy, 1.0, 9000, seed=3, reading="one-by-one", executor=processes) == alone


SCRIPT = """
import time
from veridp.sampling.sample import sample

def slow(rng, data):
    time.sleep(0.01)
    return rng.random() < 0.5

print("started", flush=True)
sample(slow, None, 20_000, reading="one-by-one", workers=2, progress=lambda done, total: print(done, flush=True))
"""


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_ending_leaves_a_process_behind(tmp_path: Path, ending: signal.Signals) -> None:
    """The script has no __name__ guard: workers must not import it."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    process = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # noqa: S603
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(2)]
    family = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(ending)
    _, errors = process.communicate(timeout=300)
    assert lines[0] == "started\n"
    assert int(lines[1]) > 0
    assert ("KeyboardInterrupt" in errors) == (ending is signal.SIGINT)
    assert len(family) >= 3  # the server, and two workers
    _, alive = psutil.wait_procs(family, timeout=300)
    assert alive == []


# --------------------------------------------------------------------------------------------------------------- tally
# Counting: the same runs as sampling, not kept.


def svt(rng, queries):
    threshold = rng.laplace(scale=2.0)
    answers = []
    for query in queries:
        answers.append(query + rng.laplace(scale=4.0) >= threshold)
        if answers[-1]:
            break
    return answers


@pytest.mark.parametrize("reading", ["batch", "compiled", "one-by-one"])
def test_counts_are_those_of_the_sample(reading: str) -> None:
    count = 5000 if reading == "one-by-one" else LARGE_BLOCK + 1000
    counted = tally(svt, [0.0, 1.0, 2.0], count, seed=9, reading=reading)
    assert counted.counts == sample(svt, [0.0, 1.0, 2.0], count, seed=9, reading=reading).distinct()
    assert counted.total == count
    assert counted.reading == reading
    assert counted[(True,)] == counted.counts[(True,)]
    assert counted[("never",)] == 0
    assert counted.frequency((True,)) == counted[(True,)] / count


def test_events_are_counted_by_name_or_by_place() -> None:
    events = {"positive": lambda outputs: outputs.matrix()[:, 0] > 0, "large": lambda o: o.matrix()[:, 0] > 5}
    values = sample(noisy, 1.0, 2 * LARGE_BLOCK, seed=2).matrix()[:, 0]
    expected = [int(np.count_nonzero(values > 0)), int(np.count_nonzero(values > 5))]
    counted = tally(noisy, 1.0, 2 * LARGE_BLOCK, seed=2, events=events)
    assert counted.counts == dict(zip(events, expected, strict=True))
    assert tally(noisy, 1.0, 2 * LARGE_BLOCK, seed=2, events=list(events.values()), workers=2).counts == {
        0: expected[0],
        1: expected[1],
    }


def test_outputs_that_other_processes_counted_are_the_same_outputs() -> None:
    """A text has another hash in each process."""
    alone, shared = (tally(svt, [0.0, 1.0], 2 * LARGE_BLOCK + 1, seed=3, workers=workers).counts for workers in (1, 2))
    assert alone == shared
    assert sum(shared.values()) == 2 * LARGE_BLOCK + 1


def test_counting_needs_discrete_outputs_or_events() -> None:
    with pytest.raises(BadInput, match=r"more than 100000 different outputs.*count events instead"):
        tally(noisy, 1.0, 300_000)
    assert len(tally(noisy, 1.0, 1000).counts) == 1000


def test_bad_events_are_reported() -> None:
    with pytest.raises(BadInput, match="event 'odd' is 3"):
        tally(noisy, 1.0, 10, events={"odd": 3})  # type: ignore[dict-item]
    with pytest.raises(BadInput, match=r"event 0 gave float64 of shape \(10,\) for 10 outputs"):
        tally(noisy, 1.0, 10, events=[lambda outputs: outputs.matrix()[:, 0]])
    with pytest.raises(BadInput, match=r"event 'one' gave bool of shape \(\)"):
        tally(noisy, 1.0, 10, events={"one": lambda outputs: True})
    with pytest.raises(BadInput, match="event 0 raised IndexError"):
        tally(noisy, 1.0, 10, events=[lambda outputs: outputs.matrix()[:, 7] > 0])


MEMORY = """
from veridp.sampling.sample import tally

def peak():  # getrusage would tell of the process that started this one
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024

def noisy(rng, data):
    return data + rng.laplace()

def count(number):
    tally(noisy, 1.0, number, events=[lambda outputs: outputs.matrix()[:, 0] > 0], workers=1)
    return peak()

print(count(2 * 10**6), count(2 * 10**7))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak memory from Linux")
def test_memory_does_not_grow_with_the_count() -> None:
    """Kept, the 2e7 numbers would take 160 MB."""
    answer = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True)  # noqa: S603
    before, after = map(float, answer.stdout.split())
    assert after < 1024
    assert after - before < 30
