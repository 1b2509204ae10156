"""Rational numbers just above or below roots, logarithms, exponentials and normal probabilities.

Part of the checker: all is done in fixed point with integers, and every rounding goes the way that is stated.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache

BITS = 160  # of the fixed-point number that bounds a logarithm
ONE = 1 << (2 * BITS)  # 1 in the fixed point of exponentials and normal probabilities
MAX_EXPONENT = 10_000  # e to more than this has too many digits to compute with
FAR = 20  # normal noise passes so many standard deviations with a probability below 2^-290


def root_below(x: Fraction) -> Fraction:
    """A rational just below √x, or equal to it, for x > 0."""
    bits = BITS + x.denominator.bit_length()
    return Fraction(math.isqrt((x.numerator << 2 * bits) // x.denominator), 1 << bits)


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
    """A rational just above e^x; 1 at 0."""
    return exp_between(x)[1]


def exp_below(x: Fraction) -> Fraction:
    """A rational just below e^x; far below it past e^MAX_EXPONENT; 1 at 0."""
    return exp_between(min(x, Fraction(MAX_EXPONENT)))[0]


def exp_between(x: Fraction) -> tuple[Fraction, Fraction]:
    """Rationals just below and just above e^x, for x <= MAX_EXPONENT; 0 and e^-MAX_EXPONENT for what is less; 1 at 0.

    |x| is halved until it is at most 1/2, where the first terms of the series bound e^|x| from below, and those with
    twice the next term from above; the result is squared as often. For x < 0 they are 1 over these bounds.
    """
    if not x:
        return Fraction(1), Fraction(1)
    if abs(x) > MAX_EXPONENT:
        if x > 0:
            raise OverflowError(f"e^{float(x):g} has too many digits to compute with")
        return Fraction(0), exp_between(Fraction(-MAX_EXPONENT))[1]
    size, halvings = abs(x), 0
    while size > Fraction(1, 2):
        size, halvings = size / 2, halvings + 1
    y_down = (size.numerator << (2 * BITS)) // size.denominator
    y_up = y_down + 1
    low, high, term_down, term_up, n = ONE, ONE, ONE, ONE, 0
    while term_up > 1:
        n += 1
        term_down = term_down * y_down // (ONE * n)
        term_up = _divided_up(term_up * y_up, ONE * n)
        low, high = low + term_down, high + term_up
    high += 2 * term_up
    for _ in range(halvings):
        low, high = low * low // ONE, _divided_up(high * high, ONE)
    return (Fraction(low, ONE), Fraction(high, ONE)) if x > 0 else (Fraction(ONE, high), Fraction(ONE, low))


# ------------------------------------------------------------------------------------------------ normal probabilities


def normal_between(x: Fraction) -> tuple[Fraction, Fraction]:
    """Rationals just below and just above P[X <= x], for X normal with mean 0 and variance 1.

    For a >= 0 it is 1/2 + φ(a) · (a + a³/3 + a⁵/(3·5) + …), where φ(a) = e^(-a²/2)/√(2π): each term is the one before
    times a²/(2k + 1), so past the first term with 2k + 1 >= 2a² the rest is less than a geometric series of ratio 1/2.
    """
    a = abs(x)
    if a > FAR:
        low, high = 1 - Fraction(1, 1 << 290), Fraction(1)
    else:
        sums = _odd_series(a)
        density = exp_between(-a * a / 2)
        roots = root_of_two_pi()
        low = Fraction(1, 2) + density[0] * sums[0] / roots[1]
        high = min(Fraction(1, 2) + density[1] * sums[1] / roots[0], Fraction(1))
    return (low, high) if x >= 0 else (1 - high, 1 - low)


def _odd_series(a: Fraction) -> tuple[Fraction, Fraction]:
    """Just below and just above a + a³/3 + a⁵/(3·5) + …"""
    term_down = (a.numerator << (2 * BITS)) // a.denominator
    term_up = term_down + 1
    square_down = (a.numerator**2 << (2 * BITS)) // a.denominator**2
    square_up = square_down + 1
    low, high, odd = term_down, term_up, 1
    while term_up > 1 or odd * ONE < 2 * square_up:
        odd += 2
        term_down = term_down * square_down // (ONE * odd)
        term_up = _divided_up(term_up * square_up, ONE * odd)
        low, high = low + term_down, high + term_up
    return Fraction(low, ONE), Fraction(high + 2 * term_up, ONE)


@cache
def root_of_two_pi() -> tuple[Fraction, Fraction]:
    """Just below and just above √(2π), with π = 16 arctan 1/5 - 4 arctan 1/239 (Machin)."""
    fifth, small = _arctan_of_inverse(5), _arctan_of_inverse(239)
    low, high = 16 * fifth[0] - 4 * small[1], 16 * fifth[1] - 4 * small[0]
    return root_below(2 * low), root_below(2 * high) + Fraction(1, 1 << BITS)


def _arctan_of_inverse(n: int) -> tuple[Fraction, Fraction]:
    """Just below and just above arctan 1/n: an alternating series lies between any two sums in a row."""
    total, k, before = Fraction(0), 0, Fraction(0)
    while True:
        term = Fraction((-1) ** k, (2 * k + 1) * n ** (2 * k + 1))
        before, total, k = total, total + term, k + 1
        if abs(term) < Fraction(1, ONE):
            return min(before, total), max(before, total)


def gaussian_delta_above(epsilon: Fraction, squared: Fraction) -> Fraction:
    """Just above δ(ε) of normal noise of variance 1 that is shifted by μ, `squared` being μ².

    δ(ε) = Φ(μ/2 - ε/μ) - e^ε Φ(-μ/2 - ε/μ) for every real ε (Balle and Wang 2018, Theorem 8): it is E[(1 - e^(ε - L))₊]
    of the loss L, which is normal with mean μ²/2 and variance μ². Its derivative in μ is the density at μ/2 - ε/μ, so
    it is no less at a rational just above μ.
    """
    if not squared:
        return max(1 - exp_below(epsilon), Fraction(0))
    mu = root_below(squared) + Fraction(1, 1 << BITS)
    gained = normal_between(mu / 2 - epsilon / mu)[1]
    return max(gained - exp_below(epsilon) * normal_between(-mu / 2 - epsilon / mu)[0], Fraction(0))
