"""What the bits of a floating-point output tell: which inputs it can come from at all.

The doubles around a number are spaced by its size, so that fl(a + noise) has other low bits than fl(b + noise): near
0, an output of input 1 is a whole multiple of 2^-53, one of input 0 need not be (Mironov, "On Significance of the Least
Significant Bits for Differential Privacy", CCS 2012). The columns here are the exponent, the place of the lowest bit
that is set, the last bits of the mantissa, and for every number of the two inputs whether the output can be reached
from it by adding some double. Rounding to a grid coarser than these effects makes all of them the same on either input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridp.engines.sniper.features import Column, FeatureLayout, Leaves
from veridp.kernel.output import Kind

Floats = NDArray[np.float64]
LAST_BITS = 4
MOST_CENTRES = 8  # numbers of the inputs from which reachability is tested
MANTISSA = 52


@dataclass(frozen=True)
class Exponent:
    """The power of two just below the number's size; NaN for 0 and for what is no number."""

    place: int
    name: str

    def of(self, leaves: Leaves) -> Floats:
        numbers = leaves.values[:, self.place]
        return np.where(numbers == 0, np.nan, exponents(numbers))


@dataclass(frozen=True)
class LowestBit:
    """The power of two of the lowest bit that is set: the coarsest grid that the number lies on."""

    place: int
    name: str

    def of(self, leaves: Leaves) -> Floats:
        return lowest_bits(leaves.values[:, self.place])


@dataclass(frozen=True)
class MantissaBit:
    """One of the last bits of the mantissa."""

    place: int
    bit: int
    name: str

    def of(self, leaves: Leaves) -> Floats:
        numbers = np.ascontiguousarray(leaves.values[:, self.place])
        bits = (numbers.view(np.uint64) >> np.uint64(self.bit)) & np.uint64(1)
        return np.where(np.isnan(numbers), np.nan, bits.astype(np.float64))


@dataclass(frozen=True)
class Reachable:
    """Whether some double, added to this number of an input, gives the output."""

    place: int
    centre: float
    name: str

    def of(self, leaves: Leaves) -> Floats:
        numbers = leaves.values[:, self.place]
        return np.where(np.isnan(numbers), np.nan, reachable(numbers, self.centre).astype(np.float64))


def exponents(numbers: Floats) -> Floats:
    """⌊log2 |number|⌋, exactly."""
    return np.frexp(numbers)[1].astype(np.float64) - 1.0


BIT_COLUMNS = (LowestBit, Exponent, Reachable, MantissaBit)


def lowest_bits(numbers: Floats) -> Floats:
    """The exponent of the lowest set bit of each number; NaN for 0 and NaN.

    >>> lowest_bits(np.array([1.0, 0.75, 6.0])).tolist()
    [0.0, -2.0, 1.0]
    """
    mantissas, powers = np.frexp(numbers)
    known = np.isfinite(mantissas) & (mantissas != 0)
    whole = np.where(known, np.abs(mantissas) * 2.0 ** (MANTISSA + 1), 1.0).astype(np.int64)
    trailing = np.log2((whole & -whole).astype(np.float64))
    return np.where(known, trailing + powers - (MANTISSA + 1), np.nan)


def reachable(numbers: Floats, centre: float) -> NDArray[np.bool_]:
    """Whether fl(centre + x) is the number for some double x.

    >>> reachable(np.array([0.1, 2.0**-60, 2.0**-53]), 1.0).tolist()
    [False, False, True]
    """
    step = numbers - centre
    found = centre + step == numbers
    for neighbour in (np.nextafter(step, -np.inf), np.nextafter(step, np.inf)):
        found |= centre + neighbour == numbers
    return np.asarray(found)


def bit_columns(inputs: Sequence[Any]) -> Callable[[FeatureLayout, Leaves], Iterator[Column]]:
    """What makes the bit-level columns of floating-point leaves, for outputs of these inputs."""
    centres = _centres(inputs)

    def make(layout: FeatureLayout, leaves: Leaves) -> Iterator[Column]:
        for place, path in enumerate(layout.paths):
            if not (leaves.kinds[:, place] == Kind.FLOAT.value).any():
                continue
            name = layout.names[path]
            yield LowestBit(place, f"lowest set bit of {name}")
            yield Exponent(place, f"exponent of {name}")
            for centre in centres:
                yield Reachable(place, centre, f"[{name} can be reached from {centre:g}]")
            for bit in range(LAST_BITS):
                yield MantissaBit(place, bit, f"mantissa bit {bit} of {name}")

    return make


def _centres(inputs: Sequence[Any]) -> list[float]:
    """The different numbers within the inputs, and their sums, as far as they are numbers."""
    found: dict[float, None] = {}
    for data in inputs:
        try:
            numbers = np.asarray(data, dtype=np.float64).ravel()
        except (TypeError, ValueError):
            continue
        for number in (*numbers.tolist(), float(numbers.sum())):
            found.setdefault(number + 0.0)
    return list(found)[:MOST_CENTRES]
