"""A sampling job, cut into blocks that can be run anywhere and in any order.

Block b draws from its own stream, child b of the seed. How many rows a block has follows from the count and the
reading alone, so the result does not depend on who runs the blocks.
"""

from __future__ import annotations

import enum
import functools
import pickle
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import cloudpickle
import numpy as np

from veridp.budget.alarm import OutOfTime, at_most
from veridp.errors import BadInput, MechanismError, MechanismHung, VeridpError
from veridp.kernel.site import raised_at
from veridp.kernel.template import shown
from veridp.sampling.batch import batch_outputs
from veridp.sampling.one_by_one import scalar_outputs, vectorised_outputs
from veridp.sampling.outputs import Outputs, concatenate
from veridp.sampling.tape import Unfit


class Reading(enum.StrEnum):
    """How outputs are drawn. All readings have the same distribution, but may give different samples from one seed."""

    VECTORISED = "vectorised"
    COMPILED = "compiled"
    BATCH = "batch"
    ONE_BY_ONE = "one-by-one"


LARGE_BLOCK = 2**19  # rows for which one run of Python code is little beside its arrays
SMALL_BLOCK = 2**12  # rows that a function of a few microseconds does in a few hundredths of a second
PARTS = 64  # a short job of slow calls is cut into so many blocks
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
        outputs = replace(outputs, reading=str(self.reading))
        return outputs if self.measure is None else self.measure(outputs)

    def _outputs(self, rng: np.random.Generator, rows: int) -> Outputs:
        if self.reading is Reading.BATCH:
            sizes = [min(self.rows_at_once, rows - done) for done in range(0, rows, self.rows_at_once)]
            return concatenate([batch_outputs(self.function, self.data, rng, size) for size in sizes])
        if self.reading is Reading.COMPILED:
            from veridp.sampling.compiled import compiled_outputs

            return compiled_outputs(self.function, self.data, rng, rows)
        if self.reading is Reading.VECTORISED:
            return vectorised_outputs(self.function, self.data, rng, rows)
        return scalar_outputs(self.function, self.data, rng, rows)


@contextmanager
def reported(name: str, data: object, time_limit: float | None) -> Iterator[None]:
    """A context with a time limit, in which errors of the mechanism are told with its name and data."""
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


# ----------------------------------------------------------------------------------------------- in another process


@dataclass(frozen=True)
class Failure:
    """An error on its way back from a worker, where its own class may not be able to travel."""

    error: VeridpError | Unfit
    cause: bytes | None
    trace: str

    def reraise(self) -> NoReturn:
        cause: BaseException | None = None
        if self.cause is not None:
            with suppress(Exception):  # an exception whose class does not unpickle; its text is in the trace
                cause = pickle.loads(self.cause)  # noqa: S301 - it comes from our own worker
        self.error.add_note(self.trace)
        raise self.error from cause


def run_remotely(payload: bytes, block: int) -> Any:
    """The result of a block of the pickled job, or a Failure. Raises nothing on purpose."""
    try:
        return _job(payload).run(block)
    except (VeridpError, Unfit) as error:
        return _failure(error)
    except Exception as error:
        return _failure(BadInput(f"a worker cannot run the job: {type(error).__name__}: {error}"), error)


@functools.lru_cache(maxsize=2)
def _job(payload: bytes) -> Job:
    job: Job = pickle.loads(payload)  # noqa: S301 - it comes from the process that started this one
    return job


def _failure(error: VeridpError | Unfit, cause: BaseException | None = None) -> Failure:
    cause = cause or error.__cause__
    pickled: bytes | None = None
    if cause is not None:
        with suppress(Exception):  # some exceptions cannot be pickled; the trace remains
            pickled = cloudpickle.dumps(cause)
    trace = "".join(traceback.format_exception(cause or error))
    return Failure(type(error)(*error.args), pickled, f"in a worker:\n{trace}")
