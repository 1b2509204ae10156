"""What a function could remember from one run to the next, and whether it did.

A path tells what a function does on its noise and data. A function that keeps state between runs (a mutable default,
a global, an attribute, an iterator, a cache), or that draws entropy of its own, does something else each time, and no
path can tell it. So its fingerprints before and after must agree.

Caches are meant to fill: `functools.cache`, cached properties, and modules that are imported on the way. A new entry is
no change if it is immutable; if it is not, the run is repeated, and must leave everything as it found it.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from veridp.budget.child_process import THREADED
from veridp.errors import Nondeterministic, NotExplorable
from veridp.kernel.site import Site, here
from veridp.kernel.source import ASKS_IDENTITY, asks_identity, asks_which_number
from veridp.kernel.state.fingerprint import RANDOMNESS, Fingerprint, fingerprint

REPETITIONS = 10  # of a run, one of which no other thread draws in


def changed(before: Fingerprint, after: Fingerprint) -> str | None:
    """Where the two differ, in words; None where they agree. Caches may have lost or gained entries."""
    places = [place for place in {**before.held, **after.held} if before.held.get(place) != after.held.get(place)]
    for key, entry in after.entries.items():
        known = before.entries.get(key)
        if entry.notes != known.notes if known else entry.noisy:
            places.append(entry.place)
    if RANDOMNESS in places:
        return RANDOMNESS
    return min(places, key=lambda place: (place not in before.held, len(place))) if places else None


def gained(before: Fingerprint, after: Fingerprint) -> str | None:
    """Where a cache gained an entry that can change; None where it did not."""
    places = [entry.place for key, entry in after.entries.items() if entry.mutable and key not in before.entries]
    return min(places, key=len) if places else None


def _with_randomness_of(other: Fingerprint, before: Fingerprint) -> Fingerprint:
    return replace(before, held={**before.held, RANDOMNESS: other.held[RANDOMNESS]})


class Watch:
    """Sees to it that the runs of a function leave no state behind: Nondeterministic where they do.

    That holds from its first run on: also for runs between the beginning of the work and that of this watch.
    """

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        first = _FIRST.get()
        if first is not None:
            first.look_back()
        self.name, self.function, self.process = name, function, os.getpid()
        self.known = fingerprint(function)
        self.growth = (-1, -1, -1)

    def deciding(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function; where its code asks which object something is, comparisons in its runs have truth values.

        A stand-in for a truth value is neither True nor False, and does not notice that it is asked. Nor does one for
        an integer, which small integers are: where the code may ask that, there are none.
        """
        called = any(value is each for value in self.known.alive for each in ASKS_IDENTITY)
        asked = [each for each in self.known.functions if asks_identity(each.__code__)]
        if not called and not asked:
            return function
        whole = not called and not any(map(asks_which_number, asked))

        def run(rng: Any, *arguments: Any, **named: Any) -> Any:
            rng.settles, rng.whole = True, whole
            return function(rng, *arguments, **named)

        return run

    def look_back(self) -> None:
        """Nondeterministic where runs have changed what was read first; caches may have filled."""
        now = fingerprint(self.function)
        forked = os.getpid() != self.process  # where Python seeds its global generator anew
        self._check(self._changed(_with_randomness_of(now, self.known) if forked else self.known, now, None))

    def after_run(self, repeat: Callable[[], object]) -> None:
        """To be called after each run, with what runs the function once more in the same way.

        All is read after the first run, and where a cache has grown. What is new there must stand a repetition.
        """
        if self.growth != self.known.growth():
            self.settle(repeat)
            self.growth = self.known.growth()

    def settle(self, repeat: Callable[[], object] | None = None) -> None:
        """Compare what is now with what was; Nondeterministic where a run changed it."""
        now = fingerprint(self.function)
        self._check(self._changed(self.known, now, repeat))
        new = gained(self.known, now)
        if new is not None and repeat is not None:
            repeat()
            again = fingerprint(self.function)
            self._check(self._changed(now, again, repeat) or gained(now, again))
            now = again
        elif new is not None:
            self._check(new)
        self.known = now

    def _changed(self, before: Fingerprint, after: Fingerprint, repeat: Callable[[], object] | None) -> str | None:
        """What the runs changed. Threads of some libraries draw from global randomness, too.

        Where one is loaded, a run that draws from it does so in each of a few repetitions. Runs that cannot be repeated
        are not judged by it: before anything is concluded from them they are replayed, which can.
        """
        place = changed(before, after)
        if place != RANDOMNESS or sys.modules.keys().isdisjoint(THREADED):
            return place
        if repeat is not None and all(self._draws(repeat) for _ in range(REPETITIONS)):
            return RANDOMNESS
        return changed(_with_randomness_of(after, before), after)

    def _draws(self, repeat: Callable[[], object]) -> bool:
        before = fingerprint(self.function)
        repeat()
        return changed(before, fingerprint(self.function)) == RANDOMNESS

    def _check(self, place: str | None) -> None:
        if place == RANDOMNESS:
            raise Nondeterministic(
                f"{self.name} draws from global randomness (random or numpy.random) where it cannot be adopted: in a "
                f"library, a tuple or another thread; draw from rng instead, or sample it, wrapped with "
                f"veridp.adapters.unseeded(function)"
            )
        if place is not None:
            raise Nondeterministic(
                f"{self.name} keeps state between runs: {place} changed; make each run start afresh, and move what is "
                f"computed once into a function with @functools.cache"
            )


_FIRST: ContextVar[Watch | None] = ContextVar("first", default=None)


@contextmanager
def from_first_run(name: str, function: Callable[..., Any]) -> Iterator[Watch | None]:
    """Lets every watch in the body look back to the state that the function has now, before any run of it.

    The watch of that state, or None where it cannot be read. An outer one, of the first run of all, stays in force.
    """
    try:
        first = _FIRST.get() or Watch(name, function)
    except NotExplorable:  # which exploring it says, too
        first = None
    token = _FIRST.set(first)
    try:
        yield first
    finally:
        _FIRST.reset(token)


@contextmanager
def watched_entropy(used: list[Site]) -> Iterator[None]:
    """Notes in `used` where the body asks the operating system for entropy, as secrets and unseeded generators do."""
    original, library = os.urandom, random._urandom  # type: ignore[attr-defined]
    seed = random.Random.seed

    def urandom(count: int) -> bytes:
        used.append(here())
        return original(count)

    def seeding(self: random.Random, a: Any = None, *rest: Any, **options: Any) -> None:
        if a is None:
            used.append(here())
        seed(self, a, *rest, **options)

    os.urandom = random._urandom = urandom  # type: ignore[attr-defined]
    random.Random.seed = seeding  # type: ignore[method-assign]
    try:
        yield
    finally:
        os.urandom, random._urandom = original, library  # type: ignore[attr-defined]
        random.Random.seed = seed  # type: ignore[method-assign]
