"""The privacy loss of several Laplace numbers at once, from above. Part of the checker: integers in fixed point.

Let Laplace noise be shifted by p scales. δ(ε) of this shift is 1 - x^(1/2) e^(-p/2) for x = e^ε between e^-p and e^p;
1 - x below, 0 above. As a function of x it is convex, so it is no more than its linear interpolation between the points
x = e^(kh), k = -K, …, K, where Kh = p. The interpolation is the δ of a loss that has the values kh alone; and where one
δ is nowhere less than another, it dominates: what holds of losses of the interpolations, one after the other, holds of
the shifts (Zhu, Dong and Wang 2022, Theorem 10; Doroshenko et al. 2022). Its slopes give the probabilities of the loss.
With r = e^(h/2) they are r/(r + 1) of Kh, e^-p r/(r + 1) of -Kh, and e^((k - K)h/2) (r - 1)/(r + 1) of kh in between.
Where p is no multiple of h, the next one is taken: a larger shift has a larger δ.

Each of these, and each sum of products of them, is rounded up; δ grows with every one of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache

from veridp_check.enclosures import exp_between

POINTS = 4000  # above 0, of the losses of all numbers together
LEAST_POINTS = 8  # above 0, of the loss of the number that is shifted most
FINER = 4  # how many times smaller the step may be than it has to
BITS = 128  # of a probability
ONE = 1 << BITS

Masses = list[int]  # of the losses from the least on, in units of 2^-BITS


def grid_of(prices: Mapping[Fraction, int]) -> Fraction:
    """The step h of the losses, for so many numbers of each price; it divides all prices unless that makes it small."""
    wanted = max(prices) / max(POINTS // sum(prices.values()), LEAST_POINTS)
    common = Fraction(0)
    for price in prices:
        parts = price.numerator * common.denominator, common.numerator * price.denominator
        common = Fraction(math.gcd(*parts), price.denominator * common.denominator)
    return common / math.ceil(common / wanted) if common > wanted / FINER else wanted


def laplace_delta_above(epsilon: Fraction, prices: Mapping[Fraction, int]) -> Fraction:
    """Just above δ(ε) of so many Laplace numbers, shifted by no more than their prices in scales."""
    step = grid_of(prices)
    reach = sum(math.ceil(price / step) * number for price, number in prices.items())
    masses = _composed(step, tuple(sorted(prices.items())))
    first = max(math.floor(epsilon / step) + 1, -reach)
    if first > reach:
        return Fraction(0)
    kept = _floor(exp_between(epsilon - first * step)[0])  # e^(ε - loss), rounded down
    factor = _floor(exp_between(-step)[0])
    total = 0
    for mass in masses[first + reach :]:
        total += -(-mass * (ONE - kept) >> BITS)
        kept = kept * factor >> BITS
    return Fraction(total, ONE)


@lru_cache(maxsize=8)
def _composed(step: Fraction, prices: tuple[tuple[Fraction, int], ...]) -> Masses:
    total = [ONE]
    for price, number in prices:
        total = _product(total, _power(_masses(math.ceil(price / step), step), number))
    return total


def _masses(half: int, step: Fraction) -> Masses:
    """The probabilities of the losses -half · step, …, half · step of one number."""
    low, high = exp_between(step / 2)
    outer = high / (high + 1)
    inner = (high - 1) / (low + 1)
    decay = _ceil(exp_between(-step / 2)[1])
    power, found = ONE, [_ceil(outer)]
    for _ in range(2 * half - 1):
        power = -(-power * decay >> BITS)
        found.append(_ceil(inner * Fraction(power, ONE)))
    found.append(_ceil(outer * exp_between(-half * step)[1]))
    return found[::-1]


def _power(masses: Masses, number: int) -> Masses:
    """Those of the sum of so many independent losses."""
    found, squared = [ONE], masses
    while number:
        if number % 2:
            found = _product(found, squared)
        number //= 2
        if number:
            squared = _product(squared, squared)
    return found


def _product(first: Masses, second: Masses) -> Masses:
    """Those of the sum of two losses: the product of two polynomials, as one of two integers whose digits they are."""
    length = len(first) + len(second) - 1
    size = (2 * (BITS + 2) + length.bit_length()) // 8 + 1  # bytes of a digit, which no sum of products can pass
    product = _packed(first, size) * _packed(second, size)
    digits = product.to_bytes(size * length + 1, "little")
    return [-(-int.from_bytes(digits[k * size : (k + 1) * size], "little") >> BITS) for k in range(length)]


def _packed(masses: Masses, size: int) -> int:
    return int.from_bytes(b"".join(mass.to_bytes(size, "little") for mass in masses), "little")


def _floor(x: Fraction) -> int:
    return (x.numerator << BITS) // x.denominator


def _ceil(x: Fraction) -> int:
    return -((-x.numerator << BITS) // x.denominator)
