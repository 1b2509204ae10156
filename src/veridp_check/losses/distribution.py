"""The privacy loss of several Laplace numbers at once, or of discrete Gaussian ones, from above.

Part of the checker: integers in fixed point.

Let Laplace noise be shifted by p scales. δ(ε) of this shift is 1 - x^(1/2) e^(-p/2) for x = e^ε between e^-p and e^p;
1 - x below, 0 above. As a function of x it is convex, so it is no more than its linear interpolation between the points
x_k = e^(kh), k = -K, …, K, where Kh >= p; below these it is 1 - x, and 0 above. The interpolation is the δ of a loss
that has the values kh alone; and where one δ is nowhere less than another, it dominates: what holds of losses of the
interpolations, one after the other, holds of the shifts (Zhu, Dong and Wang 2022, Theorem 10; Doroshenko et al. 2022).
The loss is kh with a probability of x_k times what the slope of the interpolation grows by at x_k. With δ_k = δ(kh) and
R = e^h this is (δ_{k+1} - (1 + R) δ_k + R δ_{k-1})/(R - 1), where δ_{K+1} = 0 and δ_{-K-1} = 1 - e^(-(K+1)h); between
points that are within [-p, p] it is e^((kh - p)/2) (r - 1)/(r + 1), r being e^(h/2).

Let discrete Gaussian noise be shifted by whole numbers Δ_i, all of it with probabilities in proportion to e^(-k²/2v).
At numbers k_i the loss is (2K + Σ Δ_i²)/2v for K = Σ Δ_i k_i, so δ(ε) is the sum over K of its probability times
(1 - e^(ε - loss))₊. It does not shrink if a |Δ_i| grows: of shifted log-concave laws, those that are farther apart are
easier to tell apart, by tests that have a threshold. Beyond n, the noise has no more than 2e^(-n²/2v)/(1 - e^(-n/v)):
there each weight is at most e^(-n/v) of the one before, and all weights sum to more than 1.

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
BITS = 128  # of a probability
ONE = 1 << BITS
GAUSSIAN_REACH = 178  # more than 2 ln 2 · BITS
MOST_GAUSSIAN_POINTS = 200_000  # on either side of 0

Masses = list[int]  # of the losses from the least on, in units of 2^-BITS


def grid_of(prices: Mapping[Fraction, int]) -> Fraction:
    """The step h of the losses, for so many numbers of each price: it divides the largest."""
    return max(prices) / max(POINTS // sum(prices.values()), LEAST_POINTS)


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
        total = _product(total, _power(laplace_masses(price, step), number))
    return total


def laplace_masses(price: Fraction, step: Fraction) -> Masses:
    """The probabilities of the losses of one number, from the least on."""
    half = math.ceil(price / step)
    low, high = exp_between(step / 2)
    inner = (high - 1) / (low + 1)
    decay, power = _ceil(exp_between(-step / 2)[1]), _ceil(exp_between(((half - 2) * step - price) / 2)[1])
    between = []
    for _ in range(half - 2, 1 - half, -1):
        between.append(_ceil(inner * Fraction(power, ONE)))
        power = -(-power * decay >> BITS)
    outer = [_mass(k, half, price, step) for k in range(-half, half + 1) if abs(k) >= half - 1]
    lower = (len(outer) + 1) // 2 if half > 1 else len(outer)
    return [*outer[:lower], *between[::-1], *outer[lower:]]


def _mass(k: int, half: int, price: Fraction, step: Fraction) -> int:
    """The probability of the loss k · step, by the differences of δ."""
    low, high = exp_between(step)
    before, here, after = (_delta(j, half, price, step) for j in (k - 1, k, k + 1))
    return _ceil(max(after[1] - (1 + low) * here[0] + high * before[1], Fraction(0)) / (low - 1))


def _delta(k: int, half: int, price: Fraction, step: Fraction) -> tuple[Fraction, Fraction]:
    """Just below and just above δ(k · step) of one number, for |k| up to half + 1."""
    if k >= half or k * step >= price:
        return Fraction(0), Fraction(0)
    least, most = exp_between(k * step if k * step <= -price else (k * step - price) / 2)
    return 1 - most, 1 - least


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


def gaussian_reach(variance: Fraction) -> int:
    """A number beyond which discrete Gaussian noise has less than about 2^-BITS of its mass."""
    return math.isqrt(math.ceil(GAUSSIAN_REACH * variance)) + 1


def discrete_gaussian_delta_above(epsilon: Fraction, variance: Fraction, moves: Mapping[int, int]) -> Fraction:
    """Just above δ(ε) of discrete Gaussian noise, so many numbers of which are shifted by so much; 1 if too many."""
    far = gaussian_reach(variance)
    reach = sum(far * move * number for move, number in moves.items())
    squares = sum(move**2 * number for move, number in moves.items())
    if reach > MOST_GAUSSIAN_POINTS:
        return Fraction(1)
    step, start = 1 / variance, Fraction(squares) / (2 * variance)  # of the losses, from that of K = 0
    first = max(math.floor((epsilon - start) / step) + 1, -reach)
    beyond = 2 * exp_between(-(Fraction(far + 1) ** 2) / (2 * variance))[1]
    total = Fraction(sum(moves.values())) * beyond / (1 - exp_between(-(far + 1) / variance)[1])
    if first > reach:
        return total
    kept = _floor(exp_between(epsilon - start - first * step)[0])
    factor = _floor(exp_between(-step)[0])
    paid = 0
    for mass in _gaussian_masses(variance, tuple(sorted(moves.items())))[first + reach :]:
        paid += -(-mass * (ONE - kept) >> BITS)
        kept = kept * factor >> BITS
    return total + Fraction(paid, ONE)


@lru_cache(maxsize=8)
def _gaussian_masses(variance: Fraction, moves: tuple[tuple[int, int], ...]) -> Masses:
    """The probabilities of K, from the least within reach on."""
    far = gaussian_reach(variance)
    weights = [exp_between(-Fraction(k * k) / (2 * variance)) for k in range(far + 1)]
    least = 2 * sum(_floor(low) for low, _ in weights) - ONE
    half = [_ceil(high * ONE / least) for _, high in weights]
    total = [ONE]
    for move, number in moves:
        apart = [0] * (2 * far * move + 1)
        apart[::move] = [*half[:0:-1], *half]
        total = _product(total, _power(apart, number))
    return total


def _floor(x: Fraction) -> int:
    return (x.numerator << BITS) // x.denominator


def _ceil(x: Fraction) -> int:
    return -((-x.numerator << BITS) // x.denominator)
