"""Which noise floats can compute with."""

from __future__ import annotations

from functools import cache

from veridp.errors import NotExact
from veridp.kernel.distributions import Distribution, Number

LEAST_SCALE, MOST_SCALE = 1e-100, 1e100  # between these, what is computed from a scale stays a finite float


def as_float(number: Number) -> float:
    """The number as a float; raises NotExact where floats do not reach so far."""
    try:
        return float(number)
    except OverflowError:
        raise NotExact("a number above 1e308 is beyond what floats hold; use smaller data or noise") from None


@cache
def numeric(distribution: Distribution) -> Distribution:
    """The distribution, to be computed with in floats; the same object for the same distribution.

    Raises NotExact where its scale is beyond what floats can compute with.
    """
    for parameter in distribution.parameters.values():
        as_float(parameter)
    check_scale(distribution.width)
    return distribution


def check_scale(scale: float) -> None:
    """Raises NotExact where noise has a scale that floats cannot compute with."""
    if not LEAST_SCALE <= scale <= MOST_SCALE:
        raise NotExact(f"noise of scale {scale:g} is outside of [{LEAST_SCALE:g}, {MOST_SCALE:g}]; rescale the data")
