"""A mechanism's paths for proofs, with its decimal arguments taken for the rationals that they write down."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from veridp.errors import MechanismFailed, NotExplorable
from veridp.kernel.decimals import Written
from veridp.kernel.explore import explore
from veridp.kernel.identity import Raised
from veridp.kernel.path import Path
from veridp.kernel.replay import RUNS, Listing, Replayed
from veridp.mechanism import Mechanism
from veridp_check.noise import parameters_of

MOST_SHOWN = 3  # exceptions that a message names


def explored(mechanism: Mechanism, data: Any, *, defer: bool = False) -> Sequence[Path]:
    """Its paths on the data, which may be open. Nothing may rest on them before they are replayed."""
    return explore(rational_arguments(mechanism), data, defer=defer)


def check_noise(paths: Sequence[Path]) -> None:
    """Raises NotExplorable where the paths draw noise that the certificate checker does not know."""
    drawn = (noise for path in paths for noise in path.noises)
    unknown = next((noise for noise in drawn if parameters_of(noise.distribution.kind) is None), None)
    if unknown is not None:
        raise NotExplorable(
            f"{unknown.site.prefix}the certificate checker does not know {unknown.distribution.kind} noise, so nothing "
            f"can be proved of what draws it; use another engine"
        )


def explored_values(mechanism: Mechanism, values: Sequence[Any], *, defer: bool = False) -> list[Sequence[Path]]:
    """Its paths on each of the values, after plain runs agreed with them; the more values, the fewer runs on each."""
    found = []
    for value in values:
        paths = explored(mechanism, value, defer=defer)
        check_noise(paths)
        replayed(mechanism, value, paths, defer=defer, runs=max(RUNS // len(values), 1))
        found.append(paths)
    if all(isinstance(path.output, Raised) for paths in found for path in paths):
        raised = " or ".join(sorted({str(path.output) for paths in found for path in paths})[:MOST_SHOWN])
        raise MechanismFailed(f"{mechanism.name} {raised} on every input of its domain; return an output")
    return found


def replayed(
    mechanism: Mechanism,
    data: Any,
    paths: Sequence[Path],
    at: Sequence[Any] = (),
    *,
    defer: bool = False,
    runs: int = RUNS,
) -> Replayed:
    """What plain runs, also at these data, say of the paths; ExplorationDisagrees where one contradicts them."""
    return Listing.of(rational_arguments(mechanism), data, paths, defer).replay(at, runs)


def rational_arguments(mechanism: Mechanism) -> Mechanism:
    """The mechanism with decimal arguments that remember the rationals they write down: 0.1 is also 1/10.

    The code sees the floats themselves: `epsilon < 0.1` is False for 0.1, as in a plain run.
    """
    floats = {name: v for name, v in mechanism.values.items() if isinstance(v, float) and math.isfinite(v)}
    return mechanism.bind(**{name: Written.of(value) for name, value in floats.items()})
