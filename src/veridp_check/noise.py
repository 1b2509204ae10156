"""What the checker knows of noise: its parameters, where it lives, how it may be shifted, and what that costs.

Part of the checker: the formulas are its own. In all of them f is the density (or probability) of the noise, and the
price of a move Δ is the supremum of ln f(x)/f(x + Δ) over the support, or a bound above it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

PARAMETERS: dict[str, tuple[str, ...]] = {
    "laplace": ("scale",),
    "exponential": ("scale",),
    "normal": ("scale",),
    "uniform": ("scale",),
    "gumbel": ("scale",),
    "logistic": ("scale",),
    "geometric": ("p",),
    "poisson": ("rate",),
    "binomial": ("trials", "p"),
}
WHOLE = ("geometric", "poisson", "binomial")
# ln f has a slope of at most 1/scale: a move of either sign costs |Δ|/scale.
STEEPNESS_BOUNDED = ("laplace", "logistic")
# ln f(x)/f(x + Δ) <= Δ/scale upwards: equal for exponential noise; Δ/scale - e^(-x/scale)(1 - e^(-Δ/scale)) for
# Gumbel noise. Downwards it leaves the support, or grows without bound.
UPWARDS = ("exponential", "gumbel")
MAX_BITS = 5_000_000  # of a probability that is computed as a power
MAX_TRIALS = 2000  # of binomial noise whose probabilities are summed
BITS = 160  # of the fixed-point number that bounds a logarithm


def parameters_of(kind: str) -> tuple[str, ...] | None:
    """The names of the parameters of this kind of noise; None where it is not known."""
    return PARAMETERS.get(kind)


@dataclass(frozen=True)
class NoiseDraw:
    """The noise of one draw: the place of the draw in a run, the kind, its parameters in the order of PARAMETERS."""

    draw: int
    kind: str
    parameters: tuple[Fraction, ...]

    def wrong(self, name: str, value: Fraction) -> str | None:
        """What is wrong with the value of a parameter, if anything."""
        if name == "p":
            return None if 0 < value <= 1 else f"a probability above 0 and up to 1 is needed, not {value}"
        if name == "trials":
            return None if value >= 1 and value.denominator == 1 else f"a whole number above 0 is needed, not {value}"
        return None if value > 0 else f"a number above 0 is needed, not {value}"

    @property
    def whole(self) -> bool:
        """Whether it takes whole numbers only."""
        return self.kind in WHOLE

    @property
    def support(self) -> tuple[Fraction | None, Fraction | None]:
        """The least and the largest value that it takes; None where there is none."""
        if self.kind in ("exponential", "poisson"):
            return Fraction(0), None
        if self.kind == "geometric":
            return Fraction(1), None
        if self.kind in ("uniform", "binomial"):
            return Fraction(0), self.parameters[0]
        return None, None

    def price(self, move: Fraction) -> ShiftPrice | None:
        """What the move costs; None where noise of this kind must not be moved so."""
        if not move:
            return ShiftPrice(Fraction(0))
        if self.kind in STEEPNESS_BOUNDED or (self.kind in UPWARDS and move > 0):
            return ShiftPrice(abs(move) / self.parameters[0])
        if self.kind == "geometric" and move > 0 and move.denominator == 1 and self.parameters[0] < 1:
            # f(k) = (1 - p)^(k - 1) p, so f(k)/f(k + Δ) = (1 - p)^(-Δ)
            return ShiftPrice(move * log_above(1 / (1 - self.parameters[0])), rounded=True)
        return None


@dataclass(frozen=True)
class ShiftPrice:
    """A rational that is the cost or, where rounded, a trifle above it."""

    amount: Fraction
    rounded: bool = False

    @classmethod
    def total(cls, prices: Sequence[ShiftPrice]) -> ShiftPrice:
        return cls(sum((p.amount for p in prices), start=Fraction(0)), any(p.rounded for p in prices))


def log_above(x: Fraction) -> Fraction:
    """A rational just above ln x, for x > 1.

    ln x = 2 artanh z with z = (x - 1)/(x + 1), that is 2 Σ z^(2k+1)/(2k+1); the terms after the last one summed are
    less than a geometric series. All is done in fixed point, rounded up. x is halved first until it is at most 2.
    """
    halvings = 0
    while x > 2:
        x, halvings = x / 2, halvings + 1
    small = _artanh_above((x - 1) / (x + 1))
    return 2 * (small + halvings * _artanh_above(Fraction(1, 3)))  # ln 2 = 2 artanh 1/3


def _artanh_above(z: Fraction) -> Fraction:
    """Just above artanh z, for 0 <= z <= 1/3."""
    one = 1 << BITS
    power = _divided_up(z.numerator << BITS, z.denominator)  # z^(2k+1), rounded up
    square = _divided_up(z.numerator**2 << BITS, z.denominator**2)
    total, odd = 0, 1
    while power > 1:
        total += _divided_up(power, odd)
        power = _divided_up(power * square, one)
        odd += 2
    # what is left out is at most power · (1 + z² + z⁴ + …), and 1/(1 - z²) < 2
    return Fraction(total + 2 * power, one)


def _divided_up(numerator: int, denominator: int) -> int:
    return -(-numerator // denominator)


def exp_above(x: Fraction) -> Fraction:
    """A rational just above e^x; 1 at 0.

    |x| is halved until it is at most 1/2, where the first terms of the series bound e^|x| from below, and those with
    twice the next term from above; the result is squared as often. For x < 0 it is 1 over the bound from below.
    """
    if not x:
        return Fraction(1)
    size, halvings = abs(x), 0
    while size > Fraction(1, 2):
        size, halvings = size / 2, halvings + 1
    one = 1 << (2 * BITS)
    y_down = (size.numerator << (2 * BITS)) // size.denominator
    y_up = y_down + 1
    low, high, term_down, term_up, n = one, one, one, one, 0
    while term_up > 1:
        n += 1
        term_down = term_down * y_down // (one * n)
        term_up = _divided_up(term_up * y_up, one * n)
        low, high = low + term_down, high + term_up
    high += 2 * term_up
    for _ in range(halvings):
        low, high = low * low // one, _divided_up(high * high, one)
    return Fraction(high, one) if x > 0 else Fraction(one, low)


def probability_between(noise: NoiseDraw, low: Fraction | None, high: Fraction | None) -> Fraction | None:
    """The probability that the noise is at least `low` and at most `high`.

    None where it is not rational, or is a rational of too many digits to compute with.
    """
    if noise.kind == "uniform":
        (scale,) = noise.parameters
        return (
            max(min(high if high is not None else scale, scale) - max(low or Fraction(0), Fraction(0)), Fraction(0))
            / scale
        )
    bits = noise.parameters[-1].denominator.bit_length()
    if noise.kind == "geometric":
        fail = 1 - noise.parameters[0]
        first = 1 if low is None else max(math.ceil(low), 1)
        last = None if high is None else max(math.floor(high), 0)
        if max(first, last or 0) * bits > MAX_BITS:
            return None
        return max(fail ** (first - 1) - (0 if last is None else fail**last), Fraction(0))
    if noise.kind == "binomial":
        trials, p = int(noise.parameters[0]), noise.parameters[1]
        if trials > MAX_TRIALS or trials * bits > MAX_BITS:
            return None
        first = 0 if low is None else max(math.ceil(low), 0)
        last = trials if high is None else min(math.floor(high), trials)
        chances = (math.comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(first, last + 1))
        return sum(chances, start=Fraction(0))
    return None
