"""More reports than fit in memory, and more than one worker. `python benchmarks/scale.py [--reports 1e8]`

Two tables. The first: reports of OUE and OLH over a hundred values, in Parquet files, aggregated by `count_parquet` and
by a plain NumPy pass over the same files in the same process (read by pyarrow, `unpackbits` and the hash as array
arithmetic), with the ratio of their rates on one thread, the rate on two, and the most memory that was
held. The second: one sampling job on 1 and 2 workers of a local Ray and a local Dask cluster, against the same job in
this process. Efficiency is the time here, divided by workers times the time there: on a machine that others use too it
says how many cores were free. Overhead is what the cluster adds to the processor seconds of the job: those of this
process and of all that it started, servers included, against those of the job here. Clusters that are not installed
are left out. Starting a cluster, compiling and writing the files are not counted.

Rates vary with the machine, and what else it does; ratios are of one run and hardly do.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import psutil
import pyarrow
from numpy.typing import NDArray
from pyarrow import parquet

from veridp import tally
from veridp.local import OLH, OUE, Combiner, count_parquet
from veridp.local.oracle import CHUNK, Oracle
from veridp.local.plan import to_columns
from veridp.sampling.cluster import DaskExecutor, RayExecutor

SIZE = 100
ORACLES: dict[str, Oracle] = {"OUE": OUE(SIZE, 1.0), "OLH": OLH(SIZE, 2.0)}
FILES = 8
REPEATS = 2  # of which the best counts; both sides take turns
LEAST_RATE = 0.7  # of the plain pass


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


# ------------------------------------------------------------------------------------------------------ the data lake


def write_reports(oracle: Oracle, count: int, folder: Path) -> None:
    """So many reports, in a few files; memory holds a chunk of them."""
    rng = np.random.default_rng(1)
    for number in range(FILES):
        left, writer = count // FILES, None
        while left:
            columns = to_columns(oracle.perturb(rng.integers(SIZE, size=min(left, CHUNK)), rng))
            kinds = {name: pyarrow.binary() if isinstance(column, list) else None for name, column in columns.items()}
            table = pyarrow.table({name: pyarrow.array(column, kinds[name]) for name, column in columns.items()})
            writer = writer or parquet.ParquetWriter(folder / f"{number}.parquet", table.schema, compression="none")
            writer.write_table(table)
            left -= table.num_rows
        if writer is not None:
            writer.close()


def plain_pass(name: str, folder: Path) -> NDArray[np.int64]:
    """The same counts by NumPy alone."""
    total = np.zeros(SIZE, dtype=np.int64)
    for file in sorted(folder.glob("*.parquet")):
        for batch in parquet.ParquetFile(file).iter_batches(CHUNK // 8 if name == "OLH" else CHUNK):
            total += _bits(batch) if name == "OUE" else _support(batch)
    return total


def _bits(batch: Any) -> NDArray[np.int64]:
    column = batch.column("bits")
    content = np.frombuffer(column.buffers()[2], dtype=np.uint8)[: 16 * len(column)].reshape(len(column), 16)
    return np.asarray(np.unpackbits(content, axis=1, bitorder="little", count=SIZE).sum(axis=0, dtype=np.int64))


def _support(batch: Any) -> NDArray[np.int64]:
    oracle = ORACLES["OLH"]
    assert isinstance(oracle, OLH)
    reports = np.empty(len(batch), dtype=[("seed", np.uint64), ("bucket", np.uint16)])
    reports["seed"], reports["bucket"] = (batch.column(name).to_numpy() for name in ("seed", "bucket"))
    return np.array([_supported(reports, value, oracle.buckets) for value in range(SIZE)])


def _supported(reports: Any, value: int, buckets: int) -> int:
    """How many reports support a value: the hash of `veridp.local`, as array arithmetic."""
    mixed = reports["seed"] + np.uint64((value + 1) * GOLDEN % 2**64)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(MIX_1)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(MIX_2)
    mixed ^= mixed >> np.uint64(31)
    return int(np.count_nonzero(((mixed >> np.uint64(16)) * np.uint64(buckets)) >> np.uint64(48) == reports["bucket"]))


GOLDEN, MIX_1, MIX_2 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def show_lake(count: int, folder: Path) -> None:
    print(f"{count:.3g} reports in {FILES} files\n")
    print("| oracle | NumPy, 10^6/s | veridp, 10^6/s | ratio | two threads, 10^6/s | most memory, MB |")
    print("|---|---|---|---|---|---|")
    for name, oracle in ORACLES.items():
        own = folder / name
        own.mkdir(parents=True, exist_ok=True)
        if not any(own.iterdir()):
            write_reports(oracle, count, own)
        sample = oracle.perturb(np.zeros(10, dtype=np.int64), np.random.default_rng(1))
        Combiner(oracle).count(sample)  # compiles
        found: dict[str, Any] = {}
        ours = seconds(lambda: found.update(ours=count_parquet(oracle, own, workers=1)))  # noqa: B023 - called at once
        plain = seconds(lambda: found.update(plain=plain_pass(name, own)))  # noqa: B023 - called at once
        both = seconds(lambda: found.update(both=count_parquet(oracle, own, workers=2)))  # noqa: B023 - called at once
        assert np.array_equal(found["ours"].counts.sums, found["plain"])
        assert found["ours"] == found["both"]
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        rates = [found["ours"].counts.users / one / 1e6 for one in (plain, ours, both)]
        note = "" if rates[1] >= LEAST_RATE * rates[0] else f" (below {LEAST_RATE:.0%})"
        ratio = f"{rates[1] / rates[0]:.3g}{note}"
        print(f"| {name} | {rates[0]:.3g} | {rates[1]:.3g} | {ratio} | {rates[2]:.3g} | {used:.0f} |")


# ---------------------------------------------------------------------------------------------------------- clusters


def noisy_sum(rng: Any, data: Any) -> bool:
    total = sum(data)
    for _ in range(20):
        total += rng.laplace(scale=0.3)
    return bool(total > 2)


@contextmanager
def ray(workers: int) -> Iterator[Executor]:
    import ray

    os.environ.setdefault("RAY_worker_niceness", "0")  # else they give way to all others
    ray.init("local", num_cpus=workers, include_dashboard=False, log_to_driver=False)
    try:
        yield RayExecutor(ray)
    finally:
        ray.shutdown()


@contextmanager
def dask(workers: int) -> Iterator[Executor]:
    import distributed

    options = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None, "host": "127.0.0.1"}
    local: Any = distributed.LocalCluster
    with local(**options) as cluster, cluster.get_client() as client:
        yield DaskExecutor(client)


def processor_seconds() -> float:
    """Of this process and of all that it started and that are still there."""
    total = 0.0
    for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
        with suppress(psutil.Error):  # it may have ended
            times = process.cpu_times()
            total += times.user + times.system
    return total


def measured(job: Callable[[], object]) -> tuple[float, float]:
    """The seconds, and the processor seconds, that a job takes."""
    start = processor_seconds()
    elapsed = seconds(job)
    return elapsed, processor_seconds() - start


def show_clusters(runs: int) -> None:
    print(f"\n{runs:.3g} runs, one by one\n")
    print("| cluster | workers | tasks | seconds | here | efficiency | processor seconds | here | overhead |")
    print("|---|---|---|---|---|---|---|---|---|")

    def job(executor: Executor | None, count: int = runs) -> Any:
        workers = 1 if executor is None else None
        return tally(noisy_sum, [0, 1], count, 1, reading="one-by-one", executor=executor, workers=workers).counts

    for name, started in (("Ray", ray), ("Dask", dask)):
        for workers in (1, 2):
            try:
                with started(workers) as executor:
                    job(executor, 100_000)  # loads veridp there
                    assert job(executor, 100_000) == job(None, 100_000)
                    with counted_tasks(executor) as tasks:
                        turns = [(measured(lambda: job(executor)), measured(lambda: job(None))) for _ in range(REPEATS)]
            except ImportError as missing:
                print(f"| {name} | {workers} | | | | | | | {missing} |")
                continue
            (there, here), (used, needed) = (
                [min(turn[side][which] for turn in turns) for side in (0, 1)] for which in (0, 1)
            )
            cells = (f"{there:.1f}", f"{here:.1f}", f"{here / there / workers:.0%}", f"{used:.1f}", f"{needed:.1f}")
            print(f"| {name} | {workers} | {tasks[0] // REPEATS} | {' | '.join(cells)} | {used / needed - 1:.1%} |")


@contextmanager
def counted_tasks(executor: Executor) -> Iterator[list[int]]:
    """How many tasks the executor is given."""
    count, submit = [0], executor.submit

    def counting(*arguments: Any) -> Any:
        count[0] += 1
        return submit(*arguments)

    with patch.object(executor, "submit", counting):
        yield count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--reports", type=float, default=1e7, help="of each oracle")
    parser.add_argument("--runs", type=float, default=1e6, help="of the mechanism that clusters sample")
    parser.add_argument("--folder", type=Path, help="where to keep the files; a temporary folder if not given")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        show_lake(int(given.reports), given.folder or Path(temporary))
    show_clusters(int(given.runs))


if __name__ == "__main__":
    main()
