"""Outputs of a mechanism, at speed; or counts of them, in memory that does not grow with their number."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from veridp.errors import INTERRUPTING, BadInput, MechanismFailed
from veridp.kernel.output import failed, raised
from veridp.mechanism import Mechanism, as_mechanism
from veridp.sampling.blocks import PILOT, generator, reported
from veridp.sampling.outputs import OutputCounts, Outputs, concatenate
from veridp.sampling.plan import Order, Progress, SharedTrials, carry_out, checked_order, reading_named

# --------------------------------------------------------------------------------------------------------------- tally
# Counts of a mechanism's outputs, or of events, in memory that does not grow with the number of outputs.


MANY_OUTPUTS = 100_000
Event = Callable[[Outputs], Any]


@dataclass(frozen=True)
class Tally:
    """How often each output, or each event, occurred in `total` independent runs.

    Outputs are counted by their identity: True and 1 are two outputs, [1, 2] and (1.0, 2.0) are one.
    """

    counts: Mapping[Any, int]
    total: int
    reading: str
    notes: tuple[str, ...] = ()

    def __getitem__(self, key: Hashable) -> int:
        """The count of an output (0 if it did not occur) or of an event."""
        return self.counts.get(key, 0)

    def frequency(self, key: Hashable) -> float:
        """The share of an output or event among all runs."""
        return self[key] / self.total


def tally(
    mechanism: Mechanism | Callable[..., Any],
    data: object,
    count: int,
    seed: int = 0,
    *,
    events: Mapping[Any, Event] | Sequence[Event] | None = None,
    reading: str | None = None,
    executor: Executor | None = None,
    workers: int | None = None,
    time_limit: float | None = 60.0,
    progress: Progress | None = None,
    expected: int = 0,
    trials: SharedTrials | None = None,
    **arguments: Any,
) -> Tally:
    """How often each output occurs in `count` runs; with `events`, how often each event does.

    An event is a function from Outputs to an array with a truth value for each; events are named by the keys of a
    mapping, or by their places in a sequence. The runs are those of `sample` with the same options, but are counted
    block by block and not kept. Without events, a mechanism with more than 100 000 different outputs is an error.

    >>> def coin(rng, data): return bool(rng.random() < 0.5)
    >>> tally(coin, None, 1000, seed=1).counts
    {False: 512, True: 488}
    """
    measure = _Distinct() if events is None else _Events(_named(events))
    bound = as_mechanism(mechanism, **arguments)
    chosen = reading_named(reading)
    order = Order(bound, data, count, seed, chosen, executor, workers, time_limit, progress, measure, expected, trials)
    counts, used, notes = carry_out(checked_order(order), measure.total)
    return Tally(counts, int(count), str(used), notes)


def _named(events: Mapping[Any, Event] | Sequence[Event]) -> dict[Any, Event]:
    if not isinstance(events, Mapping | Sequence) or isinstance(events, str):
        raise BadInput(f"events must be a list or a dict of functions of Outputs, got {events!r}")
    named = dict(events) if isinstance(events, Mapping) else dict(enumerate(events))
    for name, event in named.items():
        if not callable(event):
            raise BadInput(f"event {name!r} is {event!r}; give a function from Outputs to an array of truth values")
    return named


@dataclass(frozen=True)
class _Distinct:
    """Counts the distinct outputs of a block."""

    def __call__(self, outputs: Outputs) -> OutputCounts:
        return _few(outputs.distinct())

    def total(self, blocks: Iterator[OutputCounts]) -> OutputCounts:
        counts = OutputCounts()
        for block in blocks:
            for output, times in block.items():
                counts.add(output, times)
            _few(counts)
        return counts


def _few(counts: OutputCounts) -> OutputCounts:
    if len(counts) > MANY_OUTPUTS:
        raise BadInput(
            f"more than {MANY_OUTPUTS} different outputs, such as {next(iter(counts))!r}; count events instead: "
            f"events={{'positive': lambda outputs: outputs.matrix()[:, 0] > 0}}"
        )
    return counts


@dataclass(frozen=True)
class _Events:
    """Counts the events of a block."""

    events: Mapping[Any, Event]

    def __call__(self, outputs: Outputs) -> dict[Any, int]:
        return {name: self._count(name, event, outputs) for name, event in self.events.items()}

    def _count(self, name: Any, event: Event, outputs: Outputs) -> int:
        try:
            happened = np.asarray(event(outputs))
        except Exception as error:
            raise BadInput(f"event {name!r} raised {type(error).__name__}: {error}") from error
        if happened.dtype != np.bool_ or happened.shape != (len(outputs),):
            raise BadInput(
                f"event {name!r} gave {happened.dtype} of shape {happened.shape} for {len(outputs)} outputs; "
                f"give a truth value for each"
            )
        return int(np.count_nonzero(happened))

    def total(self, blocks: Iterator[dict[Any, int]]) -> dict[Any, int]:
        counts = dict.fromkeys(self.events, 0)
        for block in blocks:
            for name, times in block.items():
                counts[name] += times
        return counts


# -------------------------------------------------------------------------------------------------------------- sample
# Outputs of a mechanism, at speed.


TRIES = 16  # runs on an input, all of which must raise before it is said that the mechanism only raises


def sample(
    mechanism: Mechanism | Callable[..., Any],
    data: object,
    count: int,
    seed: int = 0,
    *,
    reading: str | None = None,
    executor: Executor | None = None,
    workers: int | None = None,
    time_limit: float | None = 60.0,
    progress: Progress | None = None,
    expected: int = 0,
    trials: SharedTrials | None = None,
    **arguments: Any,
) -> Outputs:
    """`count` independent outputs of the mechanism on the data.

    They depend on the mechanism, its arguments, the data, the count, the seed and the reading alone, not on who draws
    them: this process, `workers` processes, or any `concurrent.futures.Executor`. (A mechanism that takes randomness
    from elsewhere than `rng` can be read one by one only, and then depends on that too.) The reading is chosen by a
    fixed rule, or requested: "vectorised", "compiled", "batch" or "one-by-one". All have the same distribution, but
    not the same samples from one seed. `outputs.reading` tells which was used, `outputs.notes` why no
    other; one that was requested and cannot serve is an error.

    A run that raises has a `Raised` for its output: the type of the exception and its message.

    `time_limit` is for one block of the work, a few thousand outputs; `progress(done, total)` is called now and then.
    Where this is one part of many, `expected` tells of how many outputs in all, since compiling may pay for these, and
    `trials`, the same object for all parts, lets each reading be tried once for an input.

    >>> def coin(rng, data, *, p=0.5): return bool(rng.random() < p)
    >>> sample(coin, None, 1000, seed=1, p=0.25).distinct()[True]
    260
    """
    bound = as_mechanism(mechanism, **arguments)
    chosen = reading_named(reading)
    order = Order(bound, data, count, seed, chosen, executor, workers, time_limit, progress, None, expected, trials)
    parts, used, notes = carry_out(checked_order(order), list)
    return replace(concatenate(parts), reading=str(used), notes=notes)


def check_returns(mechanism: Mechanism, inputs: Iterable[object], time_limit: float | None = 60.0) -> None:
    """Raise MechanismFailed if the mechanism raises in every one of a few runs on each of these inputs.

    That an exception is all it releases is private, but nearly always a mistake in the code or in the inputs.
    """
    function, rng = mechanism.bound(), generator(0, PILOT)
    last: tuple[object, MechanismFailed] | None = None
    for data in inputs:
        with reported(mechanism.name, data, time_limit):
            for _ in range(TRIES):
                try:
                    function(rng, copy.deepcopy(data))
                except INTERRUPTING:
                    raise
                except BaseException as error:
                    raised(error)
                    last = data, failed(error)
                else:
                    return
    if last is not None:
        data, failure = last
        with reported(mechanism.name, data, None):
            raise MechanismFailed(f"{failure}; fix the function, or give it other data or arguments") from None
