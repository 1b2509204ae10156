# ruff: noqa: NPY002
"""Mechanisms that take their randomness from wherever their authors found it."""

import collections
import math
import random
import secrets

import numpy as np

from .entry import world

EPSILON = 1.0


@world(claim=1.0, adjacency="replace", domain=(0.0, 1.0), size=3)
def private_total(data):
    """Releases the noisy sum of values between 0 and 1.

    Replacing a record changes the sum by at most 1 (0 becomes 1), the scale is 1 / epsilon: truth 1.
    """
    data = np.clip(np.asarray(data, dtype=float), 0.0, 1.0)
    return float(data.sum() + np.random.laplace(0.0, 1.0 / EPSILON))


@world(claim=1.0, adjacency="replace", domain=(0.0, 1.0), size=3, phrasing_of="private_total")
def private_total_old_state(data):
    """Releases the same sum, with a fresh RandomState that the operating system seeds.

    Laplace(1) noise on a sum that changes by at most 1: truth 1.
    """
    state = np.random.RandomState()
    total = 0.0
    for value in data:
        total += min(max(value, 0.0), 1.0)
    return total + state.laplace(scale=1 / EPSILON)


@world(claim=1.0, truth=math.inf, adjacency="add-remove", domain=[0, 1], size=3)
def reproducible_count(data):
    """Releases the noisy number of ones, with a seed "for reproducibility".

    The seed makes the noise a constant, so another count gives another output for certain: no ε holds.
    """
    np.random.seed(42)
    noise = np.random.laplace(loc=0, scale=1 / EPSILON)
    return sum(1 for x in data if x == 1) + noise


@world(claim=1.0, truth=math.inf, adjacency="add-remove", domain=[0, 1], size=3, phrasing_of="reproducible_count")
def reproducible_count_generator(data):
    """Releases the same count with a generator seeded by 0.

    The noise is the same number in every call: no ε holds.
    """
    generator = np.random.default_rng(0)
    return int(np.count_nonzero(data)) + generator.laplace(scale=1.0)


@world(claim=1.0, truth=math.inf, adjacency="replace", domain=(0.0, 10.0), size=4)
def gaussian_average(data):
    """Releases the mean of values up to 10 with normal noise from the standard library.

    The log-ratio of two normal densities with different means grows linearly in the output: no ε holds for δ = 0.
    """
    sensitivity = 10 / len(data)
    sigma = sensitivity / EPSILON
    return sum(data) / len(data) + random.gauss(0, sigma)


@world(claim=0.5, adjacency="add-remove", domain=["yes", "no"], size=4)
def yes_votes(data):
    """Releases the noisy number of yes votes.

    The difference of two exponentials of rate 1/2 is Laplace of scale 2; one vote more or less changes the count by
    1 at most: truth 1/2.
    """
    rate = 0.5
    return list(data).count("yes") + random.expovariate(rate) - random.expovariate(rate)


@world(claim=0.5, adjacency="add-remove", domain=["yes", "no"], size=4, phrasing_of="yes_votes")
def yes_votes_by_sign(data):
    """Releases the same count: a random sign times an exponential is Laplace, of scale 2 here.

    One vote changes the count by 1 at most: truth 1/2.
    """
    tally = collections.Counter(data)
    magnitude = random.expovariate(0.5)
    return tally["yes"] + random.choice([-1, 1]) * magnitude


@world(claim=math.log(3), adjacency="any", domain=[False, True])
def coin_survey(answer):
    """Answers a yes/no question: heads, the truth; tails, the result of a second coin.

    The true answer comes out with probability 3/4, the other one with 1/4: truth log 3.
    """
    coin = random.SystemRandom()
    if coin.random() < 0.5:
        return answer
    return coin.random() < 0.5


@world(claim=math.log(3), adjacency="any", domain=[False, True], phrasing_of="coin_survey")
def dice_survey(answer):
    """Answers the same question with one draw of four: three of them tell the truth.

    3/4 against 1/4: truth log 3.
    """
    return answer if secrets.randbelow(4) < 3 else not answer


@world(claim=math.log(3), truth=math.log(4), adjacency="any", domain=[False, True])
def dice_survey_off_by_one(answer):
    """Answers the same question, with a die of five sides of which one lies.

    4/5 against 1/5: truth log 4, where the author counted three truthful sides.
    """
    return answer if secrets.randbelow(5) <= 3 else not answer


class Curator:
    """Answers sums of values between 0 and `high` with its own generator."""

    def __init__(self, epsilon, high):
        self.epsilon = epsilon
        self.high = high
        self.rng = np.random.default_rng()

    def noisy_sum(self, data):
        """Releases a noisy sum of values between 0 and 2.

        Replacing changes the sum by at most 2, the scale is 2 / epsilon: truth 1.
        """
        clipped = [min(max(x, 0), self.high) for x in data]
        return sum(clipped) + self.rng.laplace(scale=self.high / self.epsilon)

    def noisy_statistics(self, data):
        """Releases noisy sum and noisy sum of squares of values between 0 and 1, each at the full budget.

        Replacing 0 by 1 raises both by 1, at scale 1 each: truth 2.
        """
        first = sum(data) + self.rng.laplace(scale=self.high / self.epsilon)
        second = sum(x * x for x in data) + self.rng.laplace(scale=self.high**2 / self.epsilon)
        return first, second


world(
    claim=1.0,
    adjacency="replace",
    domain=(0.0, 2.0),
    size=3,
    target=Curator(epsilon=1.0, high=2.0).noisy_sum,
)(Curator.noisy_sum)
world(
    claim=1.0,
    truth=2.0,
    adjacency="replace",
    domain=(0.0, 1.0),
    size=2,
    target=Curator(epsilon=1.0, high=1.0).noisy_statistics,
)(Curator.noisy_statistics)


class Thermometer:
    """A sensor that reports one reading."""

    EPSILON = 2.0
    LOW, HIGH = -10.0, 40.0

    @classmethod
    def report(cls, reading):
        """Releases a temperature between -10 and 40 degrees with noise.

        Two readings differ by 50 at most, the scale is 25: truth 2.
        """
        width = cls.HIGH - cls.LOW
        reading = min(max(reading, cls.LOW), cls.HIGH)
        return reading + np.random.default_rng().laplace(0, width / cls.EPSILON)


world(claim=2.0, adjacency="any", domain=(-10.0, 40.0), target=Thermometer.report)(Thermometer.report)


@world(claim=1.0, truth=2.0, adjacency="replace", domain=["red", "green", "blue"], size=4)
def colour_histogram(data, rng):
    """Releases the noisy counts of three colours.

    Replacing red by blue changes two counts by 1, at scale 1 each: truth 2, as the author forgot the second.
    """
    colours = ["red", "green", "blue"]
    counts = np.array([sum(1 for d in data if d == c) for c in colours])
    return (counts + rng.laplace(0, 1 / EPSILON, size=len(colours))).tolist()


@world(
    claim=1.0, truth=2.0, adjacency="replace", domain=["red", "green", "blue"], size=4, phrasing_of="colour_histogram"
)
def colour_histogram_global(data):
    """Releases the same counts with the global functions of NumPy.

    Two counts change by 1, at scale 1 each: truth 2.
    """
    histogram = dict.fromkeys(["red", "green", "blue"], 0)
    for d in data:
        histogram[d] += 1
    return [n + np.random.exponential(1.0) * (1 if np.random.rand() < 0.5 else -1) for n in histogram.values()]


@world(claim=2.0, truth=1.0, adjacency="monotone", size=3)
def winner(data, rng=None):
    """Releases the index of the option with the highest noisy score.

    The exponential mechanism with weights exp(score): if the weight of an option is negligible and only its score rises
    by 1, its probability grows by a factor that tends to e, and never more: truth 1 (the author allowed for 2).
    """
    rng = np.random.default_rng() if rng is None else rng
    scores = np.asarray(data, dtype=float)
    p = np.exp(scores - scores.max())
    return int(rng.choice(len(scores), p=p / p.sum()))
