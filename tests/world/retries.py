"""Mechanisms that draw again until they like what they got."""

import math
import random
from fractions import Fraction

import numpy as np

from .entry import world


@world(claim=1.0, adjacency="any", domain=(0.0, 1.0))
def bounded_report(rng, value):
    """Reports a value of [0, 1] with Laplace noise that is redrawn until the report is in [0, 1].

    The density is exp(-|y - x|) / C(x) with C(x) = 2 - exp(-x) - exp(-(1 - x)). |x - x'| + log C(x') - log C(x) grows
    in x' and falls in x for x < x', so the worst pair is 0 and 1, where C is equal: truth 1.
    """
    while True:
        report = value + rng.laplace(scale=1.0)
        if 0.0 <= report <= 1.0:
            return report


@world(claim=1.0, adjacency="any", domain=(0.0, 1.0), phrasing_of="bounded_report")
def bounded_proposal(rng, value):
    """Reports a value of [0, 1] by proposing uniform reports, each accepted with probability exp(-distance).

    The accepted report has the density exp(-|y - x|) / C(x) on [0, 1]. The worst pair is 0 and 1, where the
    normalisers are equal: truth 1.
    """
    report, accepted = 0.0, False
    while not accepted:
        report = rng.uniform(0, 1)
        accepted = rng.uniform() < math.exp(-abs(report - value))
    return report


@world(
    claim=1.0,
    truth=1 + math.log((2 - math.exp(-1) - math.exp(-3)) / (1 - math.exp(-4))),
    adjacency="replace",
    domain=(0.0, 1.0),
    size=4,
)
def bounded_mean(rng, data):
    """Releases a mean within [0, 1], with Laplace noise for its sensitivity 1/4, redrawn until the result fits.

    With b = 1/4, C(x) = 2 - exp(-4x) - exp(-4(1 - x)) is log-concave and least at the ends. The worst pair has the
    means 0 and 1/4 and an output at 0: truth 1 + log(C(1/4) / C(0)), as redrawing costs more at the ends.
    """
    mean = float(np.mean(data))
    scale = (1 / len(data)) / 1.0
    noisy = mean + rng.laplace(0, scale)
    while noisy < 0 or noisy > 1:
        noisy = mean + rng.laplace(0, scale)
    return noisy


@world(claim=1.0, truth=math.inf, adjacency="replace", domain=(0.0, 1.0), size=3)
def trimmed_noise(rng, data):
    """Releases a sum with Laplace noise, redrawn while it is larger than five scales ("no outliers").

    Outputs lie within 5 of the true sum, an interval that moves with it: no ε holds.
    """
    scale = 1.0
    noise = rng.laplace(scale=scale)
    while abs(noise) > 5 * scale:
        noise = rng.laplace(scale=scale)
    return sum(data) + noise


@world(claim=1.0, truth=math.inf, adjacency="replace", domain=(0.0, 1.0), size=3, phrasing_of="trimmed_noise")
def trimmed_noise_inverse(rng, data):
    """Releases the same sum, with the truncated noise by inversion.

    A sign and a truncated exponential below 5: the support moves with the sum, no ε holds.
    """
    u = rng.random() * (1 - math.exp(-5))
    magnitude = -math.log1p(-u)
    return float(np.sum(data)) + (magnitude if rng.integers(2) else -magnitude)


@world(claim=1.0, truth=math.inf, adjacency="replace", domain=(0.0, 1.0), size=3)
def plausible_mean(rng, data):
    """Releases a noisy mean that is redrawn until it lies between the smallest and the largest record.

    An output above the largest record is impossible, and possible where that record is larger: no ε holds.
    """
    low, high = min(data), max(data)
    mean = sum(data) / len(data)
    for _ in range(50):
        candidate = mean + rng.laplace(scale=1 / len(data))
        if low <= candidate <= high:
            return candidate
    return mean


def bernoulli_exp(rng, numerator, denominator):
    """True with probability exp(-numerator / denominator) for a fraction of at most 1."""
    k = 1
    while rng.integers(denominator * k) < numerator:
        k += 1
    return k % 2 == 1


@world(claim=1.0, adjacency="replace", domain=[0, 1, 2], size=3)
def discrete_laplace(rng, data):
    """Releases an integer sum with discrete Laplace noise of scale 2 (Canonne, Kamath and Steinke).

    The noise has probabilities proportional to exp(-|k| / 2) and the sum changes by at most 2: truth 1.
    """
    t = 2
    while True:
        u = int(rng.integers(t))
        if not bernoulli_exp(rng, u, t):
            continue
        v = 0
        while bernoulli_exp(rng, 1, 1):
            v += 1
        magnitude = u + t * v
        negative = rng.integers(2) == 1
        if negative and magnitude == 0:
            continue
        return sum(data) + (-magnitude if negative else magnitude)


class ExactSampler:
    """Discrete Laplace noise from fair integers only, after Canonne, Kamath and Steinke."""

    def __init__(self, scale):
        self.scale = Fraction(scale)

    def bernoulli(self, p):
        return random.randrange(p.denominator) < p.numerator

    def bernoulli_exp(self, gamma):
        k = 1
        while self.bernoulli(gamma / k):
            k += 1
        return k % 2 == 1

    def laplace(self):
        s, t = self.scale.denominator, self.scale.numerator
        while True:
            u = random.randrange(t)
            if self.bernoulli_exp(Fraction(u, t)):
                v = 0
                while self.bernoulli_exp(Fraction(1)):
                    v += 1
                y = (u + t * v) // s
                sign = random.choice((-1, 1))
                if sign == 1 or y != 0:
                    return sign * y


@world(claim=1.0, adjacency="replace", domain=[0, 1, 2], size=3, phrasing_of="discrete_laplace")
def exact_discrete_laplace(data):
    """Releases the same sum with fractions and the standard library.

    Probabilities proportional to exp(-|k| / 2), a change of at most 2: truth 1.
    """
    return sum(data) + ExactSampler(Fraction(2, 1)).laplace()


@world(claim=1.0, truth=math.inf, adjacency="replace", domain=[0, 1], size=3)
def discrete_gaussian(rng, data):
    """Releases a count with discrete Gaussian noise of variance 1, by rejection from discrete Laplace noise.

    Probabilities are proportional to exp(-k² / 2), whose ratios grow without bound in the tails: no ε for δ = 0.
    """
    sigma2 = 1.0
    t = 2
    p = 1 - math.exp(-1 / t)
    while True:
        y = int(rng.geometric(p) - rng.geometric(p))
        if rng.random() < math.exp(-((abs(y) - sigma2 / t) ** 2) / (2 * sigma2)):
            return sum(data) + y


def until_heads(flip):
    """The number of tails before the first heads."""
    tails = 0
    while flip() == 0:
        tails += 1
    return tails


@world(claim=math.log(2), adjacency="add-remove", domain=["spam", "ham"], size=3)
def coin_counter(rng, data):
    """Releases the number of spam mails plus tails until heads, minus tails until heads.

    The noise has probabilities 2^-|k| / 3 and the count changes by at most 1: truth log 2.
    """

    def flip():
        return rng.integers(0, 2)

    spam = sum(label == "spam" for label in data)
    return spam + until_heads(flip) - until_heads(flip)


@world(claim=math.log(2), truth=math.inf, adjacency="add-remove", domain=["spam", "ham"], size=3)
def coin_counter_upwards(rng, data):
    """Releases the number of spam mails plus tails until heads.

    The output is never below the count, so the lower of two counts has an output that the higher has not: no ε.
    """
    spam = len([label for label in data if label == "spam"])
    return spam + until_heads(lambda: int(rng.random() < 0.5))


@world(claim=1.0, truth=math.log(2 * math.e - 1), adjacency="replace", domain=[0, 1], size=3)
def positive_count(rng, data):
    """Releases a noisy count, redrawn until it is positive.

    A count x is kept with probability 1 - exp(-x) / 2. For the counts 0 and 1 and outputs near 0, the ratio is
    e (1 - exp(-1) / 2) / (1/2) = 2e - 1; larger counts have a smaller one: truth log(2e - 1).
    """
    true_count = sum(data)
    noisy = -1.0
    while noisy <= 0:
        noisy = true_count + rng.laplace(0, 1.0)
    return noisy


H = 0.5


@world(
    claim=1.0,
    truth=math.log(math.exp(H) * (math.exp(3 * H) + 2) / (math.exp(2 * H) + math.exp(H) + 1)),
    adjacency="replace",
    domain=["tea", "coffee", "water"],
    size=3,
)
def popular_drink(rng, data):
    """Releases a popular drink: a random one is served with probability exp(-(n - votes) / 2), else another try.

    This is the exponential mechanism with weights exp(votes / 2). Moving a vote to a drink without votes from one
    with all three is the worst: the new drink's probability rises from 1 / (exp(3/2) + 2) to exp(1/2) / (e + exp(1/2)
    + 1), less than a factor of e.
    """
    menu = ("tea", "coffee", "water")
    n = len(data)
    while True:
        drink = menu[rng.integers(len(menu))]
        votes = sum(choice == drink for choice in data)
        if rng.random() < math.exp(-H * (n - votes)):
            return drink


@world(
    claim=1.0,
    truth=math.log(math.exp(H) * (math.exp(3 * H) + 2) / (math.exp(2 * H) + math.exp(H) + 1)),
    adjacency="replace",
    domain=["tea", "coffee", "water"],
    size=3,
    phrasing_of="popular_drink",
)
def popular_drink_bulk(rng, data):
    """Releases the same drink: tries come in bulk, and the first one that is accepted counts.

    Weights exp(votes / 2); the worst vote moves from a drink with all three to one with none, as above.
    """
    menu = np.array(["tea", "coffee", "water"])
    votes = (menu[:, None] == np.asarray(data)[None, :]).sum(axis=1)
    accept = np.exp(-H * (len(data) - votes))
    while True:
        tries = rng.integers(0, 3, size=8)
        hits = np.flatnonzero(rng.random(8) < accept[tries])
        if hits.size:
            return str(menu[tries[hits[0]]])
