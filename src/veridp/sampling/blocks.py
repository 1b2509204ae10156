"""A sampling job, cut into blocks that can be run anywhere and in any order.

Block b draws from its own stream, child b of the seed. How many rows a block has follows from the count and the
reading alone, so the result does not depend on who runs the blocks.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from veridp.budget import Deadline, OutOfTime, at_most
from veridp.errors import MechanismError, MechanismHung
from veridp.kernel.output import shown
from veridp.kernel.site import raised_at
from veridp.sampling.batch import EVERY_RUN, RowsCompared, batch_outputs
from veridp.sampling.encode import encode, scalar_outputs, scalar_values, vectorised_outputs
from veridp.sampling.merged_branches import merged_function
from veridp.sampling.outputs import Outputs, concatenate
from veridp.sampling.worker_pool import ATTEMPTS, WorkerPool, cores, width


class Reading(enum.StrEnum):
    """How outputs are drawn. All readings have the same distribution, but may give different samples from one seed."""

    VECTORISED = "vectorised"
    COMPILED = "compiled"
    BATCH = "batch"
    ONE_BY_ONE = "one-by-one"


LARGE_BLOCK = 2**19  # rows for which one run of Python code is little beside its arrays
SMALL_BLOCK = 2**12  # rows that a function of a few microseconds does in a few hundredths of a second
TOGETHER_SECONDS = 0.1  # of blocks that are measured together: slow ones are counted, and may be cut short, one by one
PARTS = 64  # a short job of slow calls is cut into so many blocks
GRACE = 30.0  # seconds past the time limit after which a worker that did not notice it is ended from outside
AT_HOME = {Reading.ONE_BY_ONE: 2**13, Reading.VECTORISED: 2**22, Reading.BATCH: 2**22, Reading.COMPILED: 2**20}
PILOT, PROBE, BLOCKS = 0, 1, 2  # the streams of a seed


def generator(seed: int, *key: int) -> np.random.Generator:
    """The generator of one of the seed's streams."""
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=key)))


@dataclass(frozen=True)
class Job:
    """`count` outputs of `function(rng, data)`, read in one way; each block is reduced by `measure`."""

    function: Callable[..., Any]
    name: str
    data: Any
    count: int
    seed: int
    reading: Reading
    time_limit: float | None
    measure: Callable[[Outputs], Any] | None = None
    rows_at_once: int = LARGE_BLOCK  # of a batch: fewer where a run keeps much for each row
    compared: RowsCompared = EVERY_RUN  # rows of a batch with the plain function
    merged: bool = False  # whether a batch runs with merged branches

    @property
    def rows_per_block(self) -> int:
        if self.reading is Reading.ONE_BY_ONE:
            return min(SMALL_BLOCK, max(1, self.count // PARTS))
        return LARGE_BLOCK

    @property
    def blocks(self) -> int:
        return -(-self.count // self.rows_per_block)

    def rows(self, block: int) -> int:
        return min(self.rows_per_block, self.count - block * self.rows_per_block)

    def run(self, block: int) -> Any:
        """What `measure` makes of the block's outputs, or the outputs themselves.

        Raises MechanismHung past the time limit (a compiled function is not interrupted), and other MechanismErrors
        with the name and data of the mechanism; Unfit where this reading does not serve.
        """
        with reported(self.name, self.data, self.time_limit):
            outputs = self._outputs(generator(self.seed, BLOCKS, block), self.rows(block))
        return self._measured(outputs)

    def run_all(self) -> Iterator[tuple[int, Any]]:
        """The same for all blocks, one after the other, with how many rows each has.

        Blocks of outputs that are drawn one by one are small, so that workers can share them: they are put together
        here before they are measured, which gives the same in the end.
        """
        if self.reading is not Reading.ONE_BY_ONE:
            yield from ((self.rows(block), self.run(block)) for block in range(self.blocks))
            return
        values: list[object] = []
        clock = Deadline()
        since = clock.spent
        for block in range(self.blocks):
            with reported(self.name, self.data, self.time_limit):
                values += scalar_values(self.function, self.data, generator(self.seed, BLOCKS, block), self.rows(block))
            last = block == self.blocks - 1
            if last or len(values) >= SMALL_BLOCK or clock.spent - since > TOGETHER_SECONDS:
                with reported(self.name, self.data, self.time_limit):
                    outputs = encode(values)
                yield len(values), self._measured(outputs)
                values, since = [], clock.spent

    def _measured(self, outputs: Outputs) -> Any:
        outputs = replace(outputs, reading=str(self.reading))
        return outputs if self.measure is None else self.measure(outputs)

    def _outputs(self, rng: np.random.Generator, rows: int) -> Outputs:
        if self.reading is Reading.BATCH:
            sizes = [min(self.rows_at_once, rows - done) for done in range(0, rows, self.rows_at_once)]
            merged = merged_function(self.function) if self.merged else None
            parts = [batch_outputs(self.function, self.data, rng, size, self.compared, merged) for size in sizes]
            return concatenate(parts)
        if self.reading is Reading.COMPILED:
            from veridp.sampling.compiled import compiled_outputs

            return compiled_outputs(self.function, self.data, rng, rows)
        if self.reading is Reading.VECTORISED:
            return vectorised_outputs(self.function, self.data, rng, rows)
        return scalar_outputs(self.function, self.data, rng, rows)

    def told_lost(self, block: int) -> str:
        """That the block ends whatever process runs it, in words."""
        return (
            f"{self.name} on {shown(self.data)} ended its worker {ATTEMPTS} times in block {block}, whose "
            f"stream is SeedSequence({self.seed}, spawn_key=({BLOCKS}, {block}))"
        )


@contextmanager
def reported(name: str, data: object, time_limit: float | None) -> Iterator[None]:
    """A context with a time limit, in which errors of the mechanism name it and its data."""
    try:
        with at_most(time_limit):
            yield
    except OutOfTime as stopped:
        if time_limit is None:  # the limit of a context around this one
            raise
        raise MechanismHung(
            f"{raised_at(stopped.__traceback__).prefix}{name} did not return within {time_limit:.3g} s "
            f"on {shown(data)}; give it more time, or look for a loop that does not end"
        ) from None
    except MechanismError as error:
        raise type(error)(f"{name} on {shown(data)}: {error}") from error.__cause__


# ------------------------------------------------------------------------------------------------------- all blocks


def results(
    job: Job, executor: Executor | None = None, workers: int | None = None
) -> Generator[tuple[int, Any], None, None]:
    """What the blocks of the job give, in their order, and of how many rows each result is.

    With neither executor nor workers, small jobs run in this process, larger ones on as many workers as there are
    cores; the results are the same.
    """
    if stays_here(job, executor, workers):
        yield from job.run_all()
        return
    limit, threads = job.time_limit, job.reading is Reading.COMPILED
    with WorkerPool(job, executor, min(workers or width(executor), job.blocks), threads=threads) as pool:
        try:
            # Every worker's own clock ends a block at the limit; only what ignores it uses up the patience.
            patience = None if limit is None else limit + GRACE
            found = pool.results(Job.run, range(job.blocks), patience=patience, lost=job.told_lost)
            yield from ((job.rows(block), result) for block, result in enumerate(found))
        except TimeoutError:
            raise MechanismHung(
                f"{job.name} did not return within {limit:.3g} s on {shown(job.data)} and could not be "
                f"interrupted; its worker was ended. Give it more time, or look for a loop that does not end"
            ) from None


def stays_here(job: Job, executor: Executor | None, workers: int | None) -> bool:
    """Whether the job is run in this process."""
    wanted = workers if workers is not None else (1 if job.count <= AT_HOME[job.reading] else cores())
    return executor is None and (wanted <= 1 or job.blocks <= 1)
