"""Which reading serves a mechanism, by trials on ordinary and rare draws."""

from __future__ import annotations

import copy
import ctypes
import functools
import pickle
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from veridp.errors import BadInput, MechanismError, MissingExtra, Nondeterministic, extra
from veridp.mechanism import Mechanism
from veridp.sampling.batch import EVERY_RUN, FEW_ROWS, AnyGenerator, BatchTrial, batch_trial
from veridp.sampling.blocks import LARGE_BLOCK, PILOT, PROBE, Job, Reading, generator, reported, results, stays_here
from veridp.sampling.encode import scalar_outputs
from veridp.sampling.merged_branches import merged_function
from veridp.sampling.outputs import Outputs
from veridp.sampling.tape import Unfit

# ---------------------------------------------------------------------------------------------------------- rare draws
# A generator of rare draws, to compare two readings of a function where typical draws do not lead.
#
# It is a genuine `numpy.random.Generator` whose random bits are not uniform. Many of its words begin with zeros or ones
# only: uniform draws are then near 0 or 1 at all magnitudes, and noise comes from its tails. Some words repeat the one
# before: draws are then tied. Nothing can be estimated from it.


WORD = 2**64 - 1
AT_ONCE = 64  # words made at a time
_uint64 = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p)
_uint32 = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_void_p)
_double = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_void_p)
_new_capsule: Callable[..., Any] = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
)(("PyCapsule_New", ctypes.pythonapi))
_NAME = b"BitGenerator"


# NumPy adds up geometric probabilities, of p from 1/3 on, until they exceed a number: less than 100 of them count, each
# with a rounding error of at most 2^-54, so the sum gets past this number. It may never get past the largest below 1.
LARGEST_DOUBLE = 1 - 2.0**-45


class _Functions(ctypes.Structure):
    """NumPy's bitgen_t."""

    _fields_ = [
        ("state", ctypes.c_void_p),
        ("next_uint64", _uint64),
        ("next_uint32", _uint32),
        ("next_double", _double),
        ("next_raw", _uint64),
    ]


class _Interface(NamedTuple):
    """The functions as numba finds them."""

    state_address: int
    state: ctypes.c_void_p
    next_uint64: Any
    next_uint32: Any
    next_double: Any
    bit_generator: ctypes.c_void_p


class RareBits:
    """A bit generator in NumPy's sense."""

    def __init__(self, seed: int) -> None:
        self.lock = threading.RLock()
        self._rng = np.random.Generator(np.random.SFC64(seed))
        self._word = word = self._words().__next__
        words, halves = _uint64(lambda _: word()), _uint32(lambda _: word() >> 32)
        doubles = _double(lambda _: min((word() >> 11) * 2.0**-53, LARGEST_DOUBLE))
        self._functions = _Functions(None, words, halves, doubles, words)
        address = ctypes.addressof(self._functions)
        self.capsule = _new_capsule(address, _NAME, None)
        place = ctypes.c_void_p(address)  # numba asks for the address of a state, which the functions do not use
        self.ctypes = _Interface(address, place, words, halves, doubles, place)

    def _words(self) -> Iterator[int]:
        last = 0
        while True:
            for word, chance in self._rng.integers(WORD, size=(AT_ONCE, 2), dtype=np.uint64).tolist():
                kind, bits = chance % 8, 1 + chance // 8 % 60
                if kind == 0:
                    last = word >> bits
                elif kind == 1:
                    last = word | (WORD ^ (WORD >> bits))
                elif kind == 2:
                    # Its last bits lead NumPy's normal and exponential draws to their tails.
                    last = WORD ^ (WORD >> bits)
                elif kind != 3:
                    last = word
                yield last

    def random_raw(self, size: int) -> list[int]:
        return [self._word() for _ in range(size)]


class RareGenerator(np.random.Generator):
    """A generator of rare draws: the same ones from the same seed."""

    def __init__(self, seed: int) -> None:
        super().__init__(RareBits(seed))  # type: ignore[arg-type]
        self._seed = seed

    def __deepcopy__(self, memo: object) -> RareGenerator:
        """A generator that starts anew, since it is copied before its first draw."""
        return RareGenerator(self._seed)


# ---------------------------------------------------------------------------------------------------------------- plan
# Which reading serves a mechanism: by a rule that depends on the mechanism, its data, the count and the seed alone.
#
# 1. The author's own vectorised function, if there is one.
# 2. The batch reading, where a short trial of it splits into few runs, or does so once short branches are merged.
# 3. The compiled reading, if the count (of all parts, where this is one of several) pays for compiling and the
# function
#    compiles.
# 4. The batch reading, where it works at all, if the count pays for its many runs.
# 5. One by one.
# A reading that turns out unfit in the middle of a job gives way to the next, from the start.


COMPILE_FROM = 2**20  # outputs that take about as long as compiling
FEW_RUNS = 64  # of a trial batch: up to so many, a batch is faster than compiled code
BATCH_FROM = 2**14  # rows from which on a batch of more runs is faster than one by one
TRIAL = 1024  # rows of the trial batch
COMPARED = 300  # outputs in which compiled and plain code must agree
CLASSES_COMPARED = 8  # outputs from NumPy's generator and from one of another class, which must be the same
RARE = 100  # outputs on rare draws in which they must agree too
TOLERANCE = 1e-9
PILOT_RUNS, PILOT_SECONDS = 64, 0.5
ROOM = 2**27  # bytes that one batch may keep
SHARED_TRIAL_SEED = 0
FEWER_THAN_A_TRIAL = 256  # outputs of a part that are drawn one by one in less time than trials of other readings take
Progress = Callable[[int, int], object]
Result = TypeVar("Result")


class SharedTrials:
    """What the pilot runs and the batch trials of one mechanism have shown, for orders that are parts of one task.

    A search orders outputs of the same few inputs again and again, and trials cost as much as thousands of outputs.
    Each is made once for an input, with a fixed seed, so that the reading depends on mechanism, input and count alone.

    Inputs of the form of one of the `examples` are tried on that alone: its reading is used for them untried, and few
    rows of their batches are compared with the plain function. That is for outputs from which something is learnt that
    other outputs then confirm; what is certified must not rest on them.
    """

    def __init__(self, examples: Sequence[object] = ()) -> None:
        self.examples = {_form(example): example for example in reversed(examples)}
        self._known: dict[Any, Any] = {}

    def tried(self, order: Order) -> Order:
        """The order for whose input the trials are made."""
        return replace(order, data=self.examples.get(_form(order.data), order.data))

    def once(self, order: Order, what: object, made: Callable[[], Result]) -> Result:
        """What was made before for this input, or is made now; made anew each time for data that cannot be pickled."""
        try:
            key = what, order.reading, pickle.dumps((order.data, dict(order.mechanism.arguments)))
        except Exception:  # whatever a class of one's own raises
            return made()
        if key not in self._known:
            self._known[key] = made()
        known: Result = self._known[key]
        return known

    def __reduce__(self) -> Any:
        """Another process makes trials of its own."""
        return SharedTrials, (tuple(self.examples.values()),)


def _form(data: object) -> Any:
    """The types and the nesting of an input, but not its values."""
    if isinstance(data, np.ndarray):
        return data.dtype.str, data.shape
    return (type(data), *map(_form, data)) if isinstance(data, list | tuple) else type(data)


@dataclass(frozen=True)
class Order:
    """What is to be sampled, and with what means."""

    mechanism: Mechanism
    data: Any
    count: int
    seed: int
    reading: Reading | None
    executor: Executor | None
    workers: int | None
    time_limit: float | None
    progress: Progress | None
    measure: Callable[[Outputs], Any] | None = None
    expected: int = 0  # of all parts together, where this is one of several
    trials: SharedTrials | None = None  # those of other parts, where this is one of several

    @property
    def trial_rows(self) -> int:
        """Rows of the trial batch."""
        return min(TRIAL, max(self.count, self.expected, 1))

    @property
    def trial_seed(self) -> int:
        """What the draws of a trial come from: not from the order's own seed where its result is kept for others."""
        return self.seed if self.trials is None else SHARED_TRIAL_SEED

    def job(self, reading: Reading) -> Job:
        if reading is Reading.VECTORISED:
            function: Any = functools.partial(self.mechanism.vectorised or _absent, **self.mechanism.arguments)
        else:
            function = self.mechanism.bound()
        return Job(
            function,
            self.mechanism.name,
            self.data,
            self.count,
            self.seed,
            reading,
            self.time_limit,
            self.measure,
            compared=FEW_ROWS if self.trials is not None and self.trials.examples else EVERY_RUN,
        )


def _absent(rng: object, data: object, count: int) -> None:
    raise BadInput("there is no vectorised function")


def checked_order(order: Order) -> Order:
    """The order, checked; raises BadInput where it cannot be carried out."""
    if isinstance(order.count, bool) or not isinstance(order.count, int | np.integer) or order.count < 0:
        raise BadInput(f"count must be an integer >= 0, got {order.count!r}")
    if isinstance(order.seed, bool) or not isinstance(order.seed, int | np.integer) or order.seed < 0:
        raise BadInput(f"seed must be an integer >= 0, got {order.seed!r}")
    if order.workers is not None and order.workers < 1:
        raise BadInput(f"workers must be >= 1, got {order.workers!r}")
    if order.time_limit is not None and not order.time_limit > 0:
        raise BadInput(f"time_limit must be > 0 seconds, or None for no limit, got {order.time_limit!r}")
    return replace(order, count=int(order.count), seed=int(order.seed))


def reading_named(name: str | None) -> Reading | None:
    try:
        return None if name is None else Reading(name)
    except ValueError:
        known = ", ".join(repr(str(reading)) for reading in Reading)
        raise BadInput(f"reading = {name!r} is unknown; use one of {known}, or None to select one") from None


def carry_out(order: Order, consume: Callable[[Iterator[Any]], Result]) -> tuple[Result, Reading, tuple[str, ...]]:
    """What `consume` makes of the blocks' results, in the order of the blocks; the reading used, and why no other."""
    notes: list[str] = []
    if order.trials is None:
        _pilot(order)
    else:
        tried = order.trials.tried(order)
        order.trials.once(tried, min(PILOT_RUNS, order.count), lambda: _pilot(tried))
    for job in _jobs(order, notes):
        try:
            with closing(_counted(job, order)) as blocks:
                return consume(blocks), job.reading, tuple(notes)
        except Unfit as unfit:
            notes.append(f"{job.reading}: {unfit}")
    reason = notes[-1].removeprefix(f"{order.reading}: ")
    raise BadInput(
        f"{order.mechanism.name} cannot be sampled with reading={str(order.reading)!r}: {reason}; "
        f"omit reading to select a suitable one"
    )


def _counted(job: Job, order: Order) -> Generator[Any, None, None]:
    """The results of the job's blocks; tells progress as they come."""
    done = 0
    with closing(results(job, order.executor, order.workers)) as blocks:
        for rows, result in blocks:
            done += rows
            yield result
            if order.progress is not None:
                order.progress(done, job.count)


def _pilot(order: Order) -> None:
    """Run the plain function a few times, so that an error in it is reported early.

    Not where it is to be run one by one in workers: there it may end its process, which here it must not.
    """
    if order.reading is Reading.VECTORISED or (order.reading is None and order.mechanism.vectorised is not None):
        return
    one_by_one = order.job(Reading.ONE_BY_ONE)
    if order.reading is Reading.ONE_BY_ONE and not stays_here(one_by_one, order.executor, order.workers):
        return
    rng, function = generator(order.trial_seed, PILOT), order.mechanism.bound()
    before = copy.deepcopy(order.data) if isinstance(order.data, list | dict | np.ndarray) else None
    started, name = time.monotonic(), order.mechanism.name
    with reported(name, order.data, order.time_limit):
        for _ in range(min(PILOT_RUNS, order.count)):
            scalar_outputs(function, order.data, rng, 1)
            if time.monotonic() - started > PILOT_SECONDS:
                break
        if before is not None and not _unchanged(before, order.data):
            raise Nondeterministic("it changes its data, so runs differ; change a copy instead")


def _unchanged(before: Any, after: Any) -> bool:
    if isinstance(before, np.ndarray):
        return np.array_equal(before, after, equal_nan=before.dtype.kind == "f")
    try:
        return bool(before == after)
    except Exception:  # entries that do not compare, such as arrays within lists
        return True


# --------------------------------------------------------------------------------------------- the order of readings


def _jobs(order: Order, notes: list[str]) -> Iterator[Job]:
    """The jobs to try, best first; adds to the notes why a reading is passed over."""
    if order.reading is not None:
        yield from _requested(order, order.reading, notes)
        return
    if order.mechanism.vectorised is not None:
        yield order.job(Reading.VECTORISED)
        return
    if order.trials is not None and order.count <= FEWER_THAN_A_TRIAL:
        yield order.job(Reading.ONE_BY_ONE)
        return
    batch, runs = _tried_batch(order, notes)
    if batch is not None and runs <= FEW_RUNS:
        yield batch
    if max(order.count, order.expected) >= COMPILE_FROM and (compiled := _compiled_job(order, notes)) is not None:
        yield compiled
    if batch is not None and runs > FEW_RUNS and order.count >= BATCH_FROM:
        yield batch
    yield order.job(Reading.ONE_BY_ONE)


def _requested(order: Order, reading: Reading, notes: list[str]) -> Iterator[Job]:
    job: Job | None = None
    if reading is Reading.BATCH:
        job, _ = _tried_batch(order, notes)
    elif reading is Reading.COMPILED:
        job = _compiled_job(order, notes)
    elif reading is Reading.VECTORISED and order.mechanism.vectorised is None:
        notes.append("it was given no vectorised function; give one by @mechanism(vectorised=…)")
    else:
        job = order.job(reading)
    if job is not None:
        yield job


def _tried_batch(order: Order, notes: list[str]) -> tuple[Job | None, int]:
    """The batch job, if a trial works, and into how many runs the trial splits."""
    if order.trials is None:
        return _batch_job(order, notes)
    tried = order.trials.tried(order)

    def trial() -> tuple[Job | None, int, list[str]]:
        found: list[str] = []
        job, runs = _batch_job(tried, found)
        return job, runs, found

    job, runs, found = order.trials.once(tried, ("batch", order.trial_rows), trial)
    notes += found
    if job is None:
        return None, 0
    return replace(order.job(Reading.BATCH), rows_at_once=job.rows_at_once, merged=job.merged), runs


def _batch_job(order: Order, notes: list[str]) -> tuple[Job | None, int]:
    """The same by a trial that is made now."""
    job = order.job(Reading.BATCH)
    try:
        trial = _trial(order, job)
        with reported(job.name, job.data, job.time_limit):
            _check_classes(job)
    except Unfit as unfit:
        notes.append(f"{Reading.BATCH}: {unfit}")
        return None, 0
    if trial.runs > FEW_RUNS and merged_function(job.function) is not None:
        with suppress(Unfit):
            merged = replace(job, merged=True)
            other = _trial(order, merged)
            if other.runs <= FEW_RUNS:
                job, trial = merged, other
    rows = LARGE_BLOCK
    while rows > TRIAL and rows * trial.bytes_per_row > ROOM:
        rows //= 2
    return replace(job, rows_at_once=rows), trial.runs


def _trial(order: Order, job: Job) -> BatchTrial:
    """What a batch takes on ordinary draws; Unfit where it does not do what the function does, on rare draws either."""
    seed, rows = order.trial_seed, order.trial_rows
    merged = merged_function(job.function) if job.merged else None
    with reported(job.name, job.data, job.time_limit):
        trial = batch_trial(job.function, job.data, generator(seed, PROBE), rows, FEW_RUNS + 1, merged)
        with suppress(MechanismError):  # an error that the function itself raises on rare draws is met when it occurs
            batch_trial(job.function, job.data, RareGenerator(seed), min(rows, 4 * RARE), FEW_RUNS + 1, merged)
    return trial


def _check_classes(job: Job) -> None:
    """Unfit if the function treats a subclass of NumPy's generator, as that of batches is, in another way."""
    genuine = generator(job.seed, PROBE)
    other = AnyGenerator(generator(job.seed, PROBE).bit_generator)
    plain, adopted = (scalar_outputs(job.function, job.data, rng, CLASSES_COMPARED) for rng in (genuine, other))
    if plain.first_difference(adopted, 0) is not None:
        raise Unfit("it does something else with a generator of another class than NumPy's")


def _compiled_job(order: Order, notes: list[str]) -> Job | None:
    """The compiled job, if the function compiles and does what the plain function does with the same generator.

    Both are run on typical draws, and on rare ones: from the tails, at all magnitudes, and tied.
    """
    try:
        with extra("fast", "it needs"):
            from veridp.sampling.compiled import compiled_outputs
    except MissingExtra as missing:
        notes.append(f"{Reading.COMPILED}: {missing}")
        return None

    job = order.job(Reading.COMPILED)
    count = min(COMPARED, max(order.count, 1))
    try:
        with reported(job.name, job.data, None if job.time_limit is None else job.time_limit + 60):
            compiled = compiled_outputs(job.function, job.data, generator(order.seed, PROBE), count)
        with reported(job.name, job.data, job.time_limit):
            plain = scalar_outputs(job.function, job.data, generator(order.seed, PROBE), count)
    except Unfit as unfit:
        notes.append(f"{Reading.COMPILED}: {unfit}")
        return None
    row = plain.first_difference(compiled, TOLERANCE)
    if row is not None:
        notes.append(f"{Reading.COMPILED}: gives {compiled[row]!r} where the plain function gives {plain[row]!r}")
        return None
    for seed in range(min(RARE, count)):
        rare = [_rare_output(outputs, job, seed) for outputs in (compiled_outputs, scalar_outputs)]
        if not _agree(*rare):
            notes.append(
                f"{Reading.COMPILED}: on rare draws it gives {rare[0]} where the plain function gives {rare[1]}"
            )
            return None
    return job


def _rare_output(outputs: Callable[..., Outputs], job: Job, seed: int) -> Outputs | str:
    """One output on rare draws, or what went wrong."""
    try:
        with reported(job.name, job.data, job.time_limit):
            return outputs(job.function, job.data, RareGenerator(seed), 1)
    except MechanismError as error:
        return f"an error ({type(error).__name__})"
    except Unfit as unfit:
        return str(unfit)


def _agree(compiled: Outputs | str, plain: Outputs | str) -> bool:
    """Whether the two are alike; compiled code may give up, as it then does in the job too."""
    if isinstance(compiled, Outputs) and isinstance(plain, Outputs):
        return plain.first_difference(compiled, TOLERANCE) is None
    return isinstance(compiled, str)
