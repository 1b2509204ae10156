"""The paths that the exact engine works on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from veridp.errors import MechanismFailed, NotAffine
from veridp.exact.pieces import Factor, factors
from veridp.mechanism import Mechanism
from veridp.program.explore import explore, walk
from veridp.program.path import Path


def paths_of(mechanism: Mechanism, data: Any) -> Sequence[Path]:
    """All paths on this data, as few as can be: what only decides the output stays undecided there.

    Code that does more with an undecided value than to release it is explored path by path.
    """
    try:
        return explore(mechanism, data, defer=True)
    except (MechanismFailed, NotAffine):
        return explore(mechanism, data)


def factors_of(mechanism: Mechanism, data: Any, split: bool = True) -> list[Factor]:
    """The factors of all paths on this data, which are read as they are found: many of them need never be kept."""
    try:
        return factors(walk(mechanism, data, defer=True), split)
    except (MechanismFailed, NotAffine):
        return factors(walk(mechanism, data), split)
