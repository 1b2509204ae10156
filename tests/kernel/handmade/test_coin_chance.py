"""What the text of a coin says of its probability, against what the coin does."""

import math
import random
import secrets
from fractions import Fraction

import pytest

from veridp.errors import NotExplorable
from veridp.kernel.handmade.coin_chance import tosses_exponentially
from veridp.kernel.handmade.coin_text import CoinText
from veridp.kernel.run import Run, Way

TWO = 2
ONE_OVER_E = Fraction(round(sum(Fraction((-1) ** k, math.factorial(k)) for k in range(80)) * 2**200), 2**200)


def small(rng, gamma):
    k = 1
    while rng.random() < gamma / k:
        k += 1
    return k % 2 == 1


def right(rng, gamma):
    while gamma > 1:
        if not small(rng, 1):
            return False
        gamma -= 1
    return small(rng, gamma)


def draws_once(rng, gamma):
    """All its rounds compare the same draw: True with probability e^-(γ - n + 1), n >= 1 being its whole part."""
    u = rng.random()
    while gamma > 1:
        if u > ONE_OVER_E:
            return False
        gamma -= 1
    return small(rng, gamma)


def takes_two_for_true(rng, gamma):
    """`TWO or 1` is 2: each 1 that is subtracted costs a coin of another γ."""
    while gamma > 1:
        if not small(rng, TWO or 1):
            return False
        gamma -= 1
    return small(rng, gamma)


def keeps_the_first_ratio(rng, gamma):
    """n/d is what γ was before 1 was subtracted."""
    k = 1
    n = gamma.numerator
    d = gamma.denominator
    while gamma > 1:
        if not small(rng, 1):
            return False
        gamma -= 1
    while True:
        if not rng.integers(d) < n:
            break
        if not rng.integers(k) < 1:
            break
        k += 1
    return k % 2 == 1


def draws_below_a_half(rng, gamma):
    """`rng.integers(k + 0.5)` draws below k."""
    while gamma > 1:
        k = 1
        while rng.integers(k + 0.5) < 1:
            k += 1
        if k % 2 == 0:
            return False
        gamma -= 1
    return small(rng, gamma)


class Bits:
    randbelow = secrets.randbits


def draws_bits(rng, gamma):
    """Each 1 that is subtracted costs `randbits(k) < 1`, which has probability 2^-k, not 1/k."""
    while gamma > 1:
        k = 1
        while Bits.randbelow(k) < 1:
            k += 1
        if k % 2 == 0:
            return False
        gamma -= 1
    return small(rng, gamma)


def smaller(unused, gamma=3):
    k = 1
    while random.random() < gamma / k:
        k += 1
    return k % 2 == 1


class Unbound:
    smaller = smaller


def calls_without_self(rng, gamma):
    """`Unbound.smaller(1)` leaves γ at its default."""
    while gamma > 1:
        if not Unbound.smaller(1):
            return False
        gamma -= 1
    return small(rng, gamma)


def is_exponential(coin) -> bool:
    names = {"rng": Run(Way(), {}), "gamma": Fraction(1, 2)}
    try:
        text = CoinText(coin.__code__, names, coin.__globals__)
    except NotExplorable:  # it is not understood at all
        return False
    return tosses_exponentially(text, names, "gamma")


def test_the_text_of_a_right_coin_shows_its_probability() -> None:
    assert is_exponential(right)


WRONG = [draws_once, takes_two_for_true, keeps_the_first_ratio, draws_below_a_half, draws_bits, calls_without_self]


@pytest.mark.parametrize("coin", WRONG)
def test_a_coin_of_another_probability_is_not_taken_for_one(coin) -> None:
    assert not is_exponential(coin)
