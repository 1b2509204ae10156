"""Outputs of a mechanism, at speed."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any

from veridp.errors import MechanismFailed
from veridp.kernel.identity import failed, raised
from veridp.mechanism import Mechanism, as_mechanism
from veridp.sampling.blocks import PILOT, generator, reported
from veridp.sampling.outputs import Outputs, concatenate
from veridp.sampling.plan import Order, Progress, carry_out, checked_order, reading_named

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
    Where this is one part of many, `expected` tells of how many outputs in all, since compiling may pay for these.

    >>> def coin(rng, data, *, p=0.5): return bool(rng.random() < p)
    >>> sample(coin, None, 1000, seed=1, p=0.25).distinct()[True]
    260
    """
    bound = as_mechanism(mechanism, **arguments)
    order = Order(
        bound, data, count, seed, reading_named(reading), executor, workers, time_limit, progress, None, expected
    )
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
                except (Exception, SystemExit) as error:
                    raised(error)
                    last = data, failed(error)
                else:
                    return
    if last is not None:
        data, failure = last
        with reported(mechanism.name, data, None):
            raise MechanismFailed(f"{failure}; fix the function, or give it other data or arguments") from None
