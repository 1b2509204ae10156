"""Samplers of discrete noise as people write them after Canonne, Kamath and Steinke, and some that leak.

They are no part of a test file: pytest rewrites the assertions there, and what runs would not be their text.
"""

import random
from fractions import Fraction


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


def of_a_scale_from_data(rng, data):
    return floats(rng, data, scale=2 + data[0])


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


LOG = []


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
