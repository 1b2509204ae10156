"""Whole numbers of copies whose ratio is the privacy that was asked for, never less private."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction

from veridp.errors import BadInput

MOST_COPIES = 10_000
CLOSENESS = 0.95


@dataclass(frozen=True)
class Rates:
    """A value that is held has `held` copies where every other has `other`: ε = ln(held / other).

    >>> Rates(2, 1).epsilon == math.log(2)
    True
    """

    held: int
    other: int

    def __post_init__(self) -> None:
        if not 0 < self.other < self.held:
            raise BadInput(f"{self.held} copies of the value held and {self.other} of others; need 0 < other < held")

    @property
    def ratio(self) -> Fraction:
        """e^ε, exactly."""
        return Fraction(self.held, self.other)

    @property
    def epsilon(self) -> float:
        """ln(held / other), correctly rounded."""
        return log_ratio(self.held, self.other)


def rates(epsilon: float, closeness: float = CLOSENESS) -> Rates:
    """The fewest copies with closeness · ε <= ln(held / other) <= ε.

    The second inequality is between the correctly rounded logarithm and the double given, so that `math.log(2)` is
    served by two copies to one: what is given never stands for less than the real number it was rounded from.

    >>> rates(math.log(3)), rates(1.0), rates(0.1)
    (Rates(held=3, other=1), Rates(held=8, other=3), Rates(held=11, other=10))
    """
    if not 0 < epsilon < 20:
        raise BadInput(f"epsilon must be in (0, 20), got {epsilon!r}")
    if not 0 < closeness < 1:
        raise BadInput(f"closeness must be in (0, 1), got {closeness!r}")
    fewest = math.floor(min(1 / math.expm1(epsilon), MOST_COPIES))  # with fewer, one copy more is too many
    for other in range(max(fewest, 1), MOST_COPIES):
        held = math.floor(other * math.exp(epsilon)) + 1
        if math.log(held / other) < closeness * epsilon - 1e-9:  # far off; no need of many digits
            continue
        while log_ratio(held, other) > epsilon:
            held -= 1
        if held > other and log_ratio(held, other) >= closeness * epsilon:
            return Rates(held, other)
    raise BadInput(
        f"epsilon = {epsilon!r} needs more than {MOST_COPIES} copies of a value at closeness {closeness}; "
        "ask for a larger epsilon or a lower closeness"
    )


def log_ratio(numerator: int, denominator: int) -> float:
    """ln(numerator / denominator), correctly rounded to a double."""
    with localcontext() as context:
        context.prec = 50
        return float(Decimal(numerator).ln() - Decimal(denominator).ln())
