"""The paths that the exact engine works on, each list held against plain runs before anything rests on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from veridp.engines.exact.pieces import Factor, factors
from veridp.errors import MechanismFailed, NotAffine, NotExact
from veridp.kernel.explore import walk
from veridp.kernel.path import Path
from veridp.kernel.replay import Listing
from veridp.mechanism import Mechanism

Read = TypeVar("Read")


@contextmanager
def within_floats() -> Iterator[None]:
    """Turns a number that floats cannot hold into NotExact."""
    try:
        yield
    except OverflowError:
        raise NotExact("a number of the mechanism or its data is beyond what floats hold; rescale the data") from None


def paths_of(mechanism: Mechanism, data: Any) -> Sequence[Path]:
    """All paths on this data, as few as can be: what only decides the output stays undecided there.

    They are not replayed: call `replay` on the data of a pair that something is concluded from.
    """
    return _listed(mechanism, data, tuple)[0]


def replayed_paths(mechanism: Mechanism, data: Any) -> Sequence[Path]:
    """All paths on this data, after plain runs agreed with them; ExplorationDisagrees where one does not."""
    paths, listing = _listed(mechanism, data, tuple)
    listing.replay()
    return paths


def factors_of(mechanism: Mechanism, data: Any, split: bool = True) -> tuple[list[Factor], Listing]:
    """The factors of all paths on this data, which need never be kept all at once, and what to replay of them."""
    return _listed(mechanism, data, lambda paths: factors(paths, split))


def _listed(mechanism: Mechanism, data: Any, read: Callable[[Iterator[Path]], Read]) -> tuple[Read, Listing]:
    """What is read from the paths; code that does more with an undecided value than to release it is explored fully."""
    listing = Listing(mechanism, data, defer=True)
    try:
        return read(listing.watch(walk(mechanism, data, defer=True))), listing
    except (MechanismFailed, NotAffine):
        listing = Listing(mechanism, data, defer=False)
        return read(listing.watch(walk(mechanism, data))), listing
