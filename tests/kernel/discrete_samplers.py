"""Samplers of discrete noise as people write them after Canonne, Kamath and Steinke, and some that leak.

They are no part of a test file: pytest rewrites the assertions there, and what runs would not be their text.
"""

import random
from fractions import Fraction

import numpy as np


def uniform(m, source):
    assert isinstance(m, int)
    assert m > 0
    return source.randrange(m)


def bernoulli(p, source):
    assert 0 <= p <= 1
    return 1 if uniform(p.denominator, source) < p.numerator else 0


def bernoulli_exp_of_fraction(x, source):
    k = 1
    while True:
        if bernoulli(x / k, source) == 1:
            k = k + 1
        else:
            break
    if k % 2 == 1:
        return 1
    return 0


def bernoulli_exp(x, source):
    while x > 1:
        if bernoulli_exp_of_fraction(Fraction(1, 1), source) == 1:
            x = x - 1
        else:
            return 0
    return bernoulli_exp_of_fraction(x, source)


def geometric(t, source):
    """Of failures before a success, each with probability exp(-1 / t)."""
    while True:
        u = uniform(t, source)
        if bernoulli_exp(Fraction(u, t), source):
            break
    v = 0
    while bernoulli_exp(Fraction(1, 1), source):
        v = v + 1
    return u + t * v


def discrete_laplace(t, source):
    while True:
        negative = bernoulli(Fraction(1, 2), source)
        magnitude = geometric(t, source)
        if negative and magnitude == 0:
            continue
        return -magnitude if negative else magnitude


def noisy_count(data):
    return sum(data) + discrete_laplace(2, random.SystemRandom())


def survives(rng, gamma):
    """True with probability exp(-gamma), gamma <= 1."""
    k = 1
    while rng.random() < gamma / k:
        k += 1
    return k % 2 == 1


def floats(rng, data, *, scale=2, zero=True, sides=2):
    """The same law from uniform floats; and what a typo makes of it."""
    while True:
        u = rng.integers(scale)
        if not survives(rng, u / scale):
            continue
        v = 0
        while survives(rng, 1.0):
            v += 1
        magnitude = int(u) + scale * v
        negative = rng.integers(sides) == 0
        if zero and negative and magnitude == 0:
            continue
        return data[0] + (-magnitude if negative else magnitude)


def multiples_of_three(rng, data):
    while True:
        v = 0
        while survives(rng, 1.0):
            v += 1
        negative = rng.random() < 0.5
        if negative and v == 0:
            continue
        return data[0] - 3 * v if negative else data[0] + 3 * v


def of_a_scale_from_data(rng, data):
    return floats(rng, data, scale=2 + data[0])


def decides_by_a_last_digit(rng, data):
    """A draw that is compared with numbers whose texts are equal, and that fixes which coins are tossed."""
    first = "low" if rng.random() < 0.5 + 1e-14 * data[0] else "high"
    heads = 0
    while survives(rng, 1.0):
        heads += 1
    return first, heads


def leaks_when_it_is_late(rng, data):
    """A coin that tells of the data, once in 10^400 runs."""

    def toss():
        k = 0
        while rng.random() < 1 / (k + 1):
            k += 1
            if k > 200:
                return 2
        return k % 2

    tossed = toss()
    return data[0] if tossed == 2 else tossed


def catches_what_is_late(rng, data):
    """The same by an exception."""

    def toss():
        k = 0
        while rng.random() < 1 / (k + 1):
            k += 1
            assert k < 200
        return k % 2 == 1

    try:
        return int(toss())
    except AssertionError:
        return data[0]


class Remembering:
    """The same by what it remembers."""

    def __init__(self, rng):
        self.rng, self.late = rng, False

    def toss(self):
        k = 0
        while self.rng.random() < 1 / (k + 1):
            k += 1
            if k > 200:
                self.late = True
        return k % 2 == 1


def remembers_what_is_late(rng, data):
    source = Remembering(rng)
    tossed = source.toss()
    return data[0] if source.late else int(tossed)


LOG: list[object] = []


class Noting(type):
    def __instancecheck__(cls, value):
        LOG.append(value)
        return False


class Checked(metaclass=Noting):
    pass


class Late(Exception):
    def __init__(self):
        LOG.append(1)


class Source:
    @staticmethod
    def random():
        LOG.append(1)
        return 0.5


def drawn(source):
    return source.random()


def array(rng):
    k = 0
    while rng.random() < 1 / (k + 1):
        k += 1
    if k > 200:
        return rng.uniform((0.0, 0.0), (1.0, 1.0)) < 0.5
    return k % 2 == 1


def check(rng):
    k = 0
    while rng.random() < 1 / (k + 1):
        k += 1
    if k > 200:
        isinstance(k, Checked)
    return k % 2 == 1


def error(rng):
    k = 0
    while rng.random() < 1 / (k + 1):
        k += 1
    if k > 200:
        Late()
    return k % 2 == 1


def source(rng):
    k = 0
    while rng.random() < 1 / (k + 1):
        k += 1
    if k > 200:
        drawn(Source)
    return k % 2 == 1


def trips(rng):
    """It raises AttributeError once in 10^400 runs."""
    k = 0
    while rng.random() < 1 / (k + 1):
        k += 1
    late = k if k < 200 else 0.5
    return late.denominator == 1 and k % 2 == 1


class Answers:
    def __init__(self, rng):
        self.rng = rng

    def __getattr__(self, name):
        return trips(self.rng)


def returns_an_array_when_it_is_late(rng, data):
    tossed = array(rng)
    return data[0] if getattr(tossed, "ndim", 0) else int(tossed)


def notes_a_check_when_it_is_late(rng, data):
    tossed = check(rng)
    return data[0] if LOG else int(tossed)


def notes_an_error_when_it_is_late(rng, data):
    tossed = error(rng)
    return data[0] if LOG else int(tossed)


def notes_a_draw_when_it_is_late(rng, data):
    tossed = source(rng)
    return data[0] if LOG else int(tossed)


def has_a_default_when_it_is_late(rng, data):
    tossed = getattr(Answers(rng), "tossed", None)
    return data[0] if tossed is None else int(tossed)


def has_no_default(rng, data):
    return int(Answers(rng).tossed)


# ------------------------------------------------------------------------------------------- discrete Gaussian noise


def discrete_gaussian(variance, source):
    """Algorithm 3 of the paper."""
    t = 1 + int(variance**0.5)
    while True:
        y = discrete_laplace(t, source)
        gamma = (abs(y) - Fraction(variance, t)) ** 2 / Fraction(2 * variance)
        if bernoulli_exp(gamma, source):
            return y


def gaussian_count(data):
    return sum(data) + discrete_gaussian(2, random.SystemRandom())


def falls(rng, gamma):
    """True with probability exp(-gamma)."""
    while gamma > 1:
        if not survives(rng, 1):
            return False
        gamma -= 1
    return survives(rng, gamma)


def falls_again(rng, gamma):
    """The same by calling itself."""
    if gamma > 1:
        return survives(rng, 1) and falls_again(rng, gamma - 1)
    return survives(rng, gamma)


def gaussian_by(toss, offset=2):
    """Of variance 4, from a geometric size with a sign; what another coin or offset makes of it is another noise."""

    def noisy(rng, data):
        while True:
            size = 0
            while survives(rng, 0.5):
                size += 1
            negative = rng.random() < 0.5
            if negative and size == 0:
                continue
            if toss(rng, (size - offset) ** 2 / 8):
                return data[0] - size if negative else data[0] + size

    return noisy


def gaussian_above(rng, data):
    """One side of such noise, without its first number."""
    while True:
        size = 0
        while survives(rng, 0.5):
            size += 1
        if size == 0:
            continue
        if falls(rng, (size - 2) ** 2 / 8):
            return data[0] + size


def stops_falling(rng, gamma):
    """Certain for large numbers, which are hardly ever met."""
    if gamma > 2000:
        return True
    return falls(rng, gamma)


def falls_no_further(rng, gamma):
    """As likely as exp(-30) at least."""
    rounds = 0
    while gamma > 1:
        if rounds < 30 and not survives(rng, 1):
            return False
        rounds += 1
        gamma -= 1
    return survives(rng, gamma)


def falls_in_halves(rng, gamma):
    """It loses 1 for a coin of probability exp(-1/2)."""
    while gamma > 1:
        if not survives(rng, 0.5):
            return False
        gamma -= 1
    return survives(rng, gamma)


def falls_once(rng, gamma):
    """One draw is compared twice."""
    while gamma > 1:
        if not survives(rng, 1):
            return False
        gamma -= 1
    k, u = 1, rng.random()
    while u < gamma / k:
        k += 1
    return k % 2 == 1


def falls_from_two(rng, gamma):
    """Above 1 and up to 2, it is not e^-γ."""
    while gamma > 2:
        if not survives(rng, 1):
            return False
        gamma -= 1
    return survives(rng, gamma / 2)


def falls_below_zero(rng, gamma):
    """It goes past 0."""
    while gamma > 0.25:
        if not survives(rng, 1):
            return False
        gamma -= 1
    return survives(rng, gamma)


def falls_for_a_while(rng, gamma):
    """What it counts decides in the end."""
    rounds = 0
    while gamma > 1:
        if not survives(rng, 1):
            return False
        gamma -= 1
        rounds += 1
    return rounds > 1000 or survives(rng, gamma)


# ------------------------------------------------------------------------------------------- generators that are kept

KEPT, SYSTEM = np.random.default_rng(), random.SystemRandom()
uniform_number = SYSTEM.random


def of_a_global_generator(gamma):
    k = 1
    while KEPT.random() < gamma / k:
        k += 1
    return k % 2 == 1


def of_a_method_that_is_kept(gamma):
    k = 1
    while uniform_number() < gamma / k:
        k += 1
    return k % 2 == 1


def of_a_generator_that_is_passed_on(gamma, source=SYSTEM):
    k = 1
    while source.random() < gamma / k:
        k += 1
    return k % 2 == 1


class Tosser:
    def __init__(self):
        self.source = random.Random()

    def toss(self, gamma):
        k = 1
        while self.source.random() < gamma / k:
            k += 1
        return k % 2 == 1


def count_of(toss):
    """A count with the difference of two geometric numbers, each of which goes on with probability 1/e."""

    def released(data):
        up = down = 0
        while toss(1.0):
            up += 1
        while toss(1.0):
            down += 1
        return data[0] + up - down

    return released
