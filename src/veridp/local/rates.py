"""Probabilities that a computer can keep: multiples of 2^-53, rounded towards privacy.

NumPy's `random()` is one of 2^53 equally likely numbers, so an event `random() < rate` has exactly the probability
`rate` where that is a multiple of 2^-53, and only there. All rates of the oracles are such multiples, and each is
rounded to the side on which the loss is smaller: what runs is ε-LDP, not only what was meant.
"""

from __future__ import annotations

import math
from fractions import Fraction
from numbers import Real

from veridp.errors import BadInput

GRAIN = 2**53
# Losses are kept this much below ε (relative to e^ε): more than an engine that computes with floats can be off by.
MARGIN = Fraction(1, 2**36)
MAX_EPSILON = 500.0


def checked_epsilon(epsilon: float) -> float:
    """The budget itself, if it is one that an oracle can keep."""
    if not isinstance(epsilon, Real) or not 0 < epsilon <= MAX_EPSILON:
        raise BadInput(f"epsilon must be in (0, {MAX_EPSILON:g}], got {epsilon!r}")
    return float(epsilon)


def exp_below(epsilon: float) -> Fraction:
    """A rational number just below e^ε: by one part in 2^36, which covers the rounding of `math.exp`.

    >>> float(exp_below(1.0)) < math.e
    True
    """
    return Fraction(math.exp(checked_epsilon(epsilon))) * (1 - MARGIN)


def lying_rate(epsilon: float, favoured: Fraction | int, others: Fraction | int) -> float:
    """How often to report something uniform among `others` rather than uniform among `favoured`; a multiple of 2^-53.

    It is the smallest such rate for which ((1 - rate)/favoured) / (rate/others) <= e^ε: others/(others + e^ε favoured),
    rounded up. `favoured` and `others` count outputs, or measure where outputs are continuous.

    >>> lying_rate(math.log(3), 1, 1)
    0.250000000002...
    """
    exact = Fraction(others) / (others + exp_below(epsilon) * favoured)
    return math.ceil(exact * GRAIN) / GRAIN


def rounded_rate(rate: float) -> float:
    """The multiple of 2^-53 nearest to the rate, for rates that users choose themselves."""
    if not 0 <= rate <= 1:
        raise BadInput(f"a probability must be in [0, 1], got {rate!r}")
    return round(Fraction(rate) * GRAIN) / GRAIN


def log_above(ratio: Fraction) -> float:
    """A number just above ln(ratio), by a part in 2^36 at least: a claim that rounding does not exceed."""
    return math.log(ratio.numerator) - math.log(ratio.denominator) + float(MARGIN)
