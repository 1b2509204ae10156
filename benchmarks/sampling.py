"""How fast outputs are drawn, as ratios within one run. `python benchmarks/sampling.py [--quick]`

Each speed is the best of several repeats, and the two sides of a ratio take turns, so that both meet the same machine.
All run on one thread, but for the count at the end.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import psutil

from veridp.sampling.sample import sample, tally

QUERIES = [1.0] * 10
SCALE = 10.0


def svt1(rng: Any, queries: Any, *, epsilon: float = 0.1, threshold: float = 0.5, cutoff: int = 1) -> list[bool]:
    noisy_threshold = threshold + rng.laplace(scale=2 / epsilon)
    answers, found = [], 0
    for query in queries:
        if query + rng.laplace(scale=4 * cutoff / epsilon) >= noisy_threshold:
            answers.append(True)
            found += 1
            if found == cutoff:
                break
        else:
            answers.append(False)
    return answers


def laplace(rng: Any, value: float) -> Any:
    return value + rng.laplace(scale=SCALE)


def laplace_vector(rng: Any, values: Any) -> Any:
    return np.asarray(values) + rng.laplace(scale=SCALE, size=len(values))


def _svt1_by_hand(
    rng: Any, queries: Any, epsilon: float, threshold: float, count: int, answers: Any, lengths: Any
) -> None:
    for row in range(count):
        noisy_threshold = threshold + rng.laplace(0.0, 2 / epsilon)
        length = 0
        for query in queries:
            above = query + rng.laplace(0.0, 4 / epsilon) >= noisy_threshold
            answers[row, length] = above
            length += 1
            if above:
                break
        lengths[row] = length


@dataclass(frozen=True)
class Line:
    """One line of the table; the ratio must reach what is required."""

    what: str
    ours: str
    limit: str
    ratio: float
    required: float

    def __str__(self) -> str:
        mark = "ok" if self.ratio >= self.required else "TOO LOW"
        return f"{self.what:<58}{self.ours:>14}{self.limit:>14}{self.ratio:>9.2f}{self.required:>10.2f}  {mark}"


def best(repeats: int, *runs: Callable[[], object]) -> list[float]:
    """The least seconds of each of the runs, which take turns."""
    least = [float("inf")] * len(runs)
    for _ in range(repeats):
        for index, run in enumerate(runs):
            start = time.perf_counter()
            run()
            least[index] = min(least[index], time.perf_counter() - start)
    return least


def compared(what: str, ours: float, theirs: float, required: float) -> Line:
    return Line(what, f"{ours * 1e9:.1f} ns", f"{theirs * 1e9:.1f} ns", theirs / ours, required)


def batch_against_loop(repeats: int, count: int) -> Line:
    rng, calls = np.random.default_rng(0), 20_000

    def loop() -> None:
        for _ in range(calls):
            svt1(rng, QUERIES)

    ours, theirs = best(repeats, lambda: sample(svt1, QUERIES, count, reading="batch", workers=1), loop)
    return compared("SVT1, 10 queries: batch / calling it one by one", ours / count, theirs / calls, 50)


def compiled_against_hand(repeats: int, count: int) -> Line:
    kernel: Any = numba.njit(_svt1_by_hand)
    rng, queries = np.random.default_rng(0), np.array(QUERIES)

    def by_hand() -> None:
        answers, lengths = np.empty((count, 10), dtype=np.bool_), np.empty(count, dtype=np.int64)
        kernel(rng, queries, 0.1, 0.5, count, answers, lengths)

    def compiled() -> None:
        sample(svt1, QUERIES, count, reading="compiled", workers=1)

    by_hand()  # both are compiled once before they are measured
    compiled()
    ours, theirs = best(repeats, compiled, by_hand)
    return compared("SVT1, 10 queries: compiled / numba kernel by hand", ours / count, theirs / count, 1 / 3)


def laplace_against_numpy(repeats: int, count: int) -> Iterator[Line]:
    rng = np.random.default_rng(0)
    ours, theirs = best(
        repeats,
        lambda: sample(laplace, 1.0, count, workers=1),
        lambda: rng.laplace(1.0, SCALE, size=count),
    )
    yield compared("Laplace mechanism, one number / Generator.laplace", ours / count, theirs / count, 0.6)
    rows = count // 5
    ours, theirs = best(
        repeats,
        lambda: sample(laplace_vector, [1.0] * 5, rows, workers=1),
        lambda: rng.laplace([1.0] * 5, SCALE, size=(rows, 5)),
    )
    yield compared("Laplace mechanism, 5 numbers / Generator.laplace", ours / rows, theirs / rows, 0.6)


@contextmanager
def peak_memory(peak: list[int]) -> Iterator[None]:
    """Notes the largest memory of this process and its children together."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.02):
            held = 0
            for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
                try:
                    held += process.memory_info().rss
                except psutil.NoSuchProcess:
                    continue
            peak.append(held)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


def counted(count: int) -> Line:
    held: list[int] = []
    start = time.perf_counter()
    with peak_memory(held):
        counts = tally(svt1, QUERIES, count)
    seconds = time.perf_counter() - start
    assert sum(counts.counts.values()) == count
    peak = max(held) / 2**20
    what = f"SVT1, 10 queries: {count:.0e} counted in {seconds:.1f} s, memory"
    return Line(what, f"{peak:.0f} MiB", "1024 MiB", 1024 / peak, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repeats and a shorter count")
    quick = parser.parse_args().quick
    repeats, count = (5, 2**20) if quick else (15, 2**21)
    print(f"{'what':<58}{'ours':>14}{'limit':>14}{'ratio':>9}{'required':>10}")
    print(batch_against_loop(repeats, count), flush=True)
    print(compiled_against_hand(repeats, count), flush=True)
    for line in laplace_against_numpy(repeats, count):
        print(line, flush=True)
    print(counted(10**7 if quick else 10**8), flush=True)


if __name__ == "__main__":
    main()
