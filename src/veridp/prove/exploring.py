"""A mechanism's paths for proofs, with its decimal arguments taken for the rationals that they write down."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from veridp.errors import VeridpError
from veridp.mechanism import Mechanism
from veridp.program.explore import explore
from veridp.program.path import Path


def explored(mechanism: Mechanism, data: Any, *, defer: bool = False) -> Sequence[Path]:
    """Its paths on the data, which may be open."""
    try:
        return explore(rational_arguments(mechanism), data, defer=defer)
    except VeridpError:  # code that takes floats only: their binary values are used instead
        return explore(mechanism, data, defer=defer)


def rational_arguments(mechanism: Mechanism) -> Mechanism:
    """The mechanism with decimal arguments taken as the rationals that they write down: 0.1 as 1/10."""
    floats = {name: v for name, v in mechanism.values.items() if isinstance(v, float) and math.isfinite(v)}
    return mechanism.bind(**{name: Fraction(repr(value)) for name, value in floats.items()})
