# ruff: noqa: NPY002
"""Mechanisms with noise of many makes: selection, samplers, seeds, local reports and what is computed from them."""

import heapq
import math
import os
import random
import secrets
from fractions import Fraction

import numpy as np

from .entry import world

UNIT = (0.0, 1.0)


@world(claim=1.0, adjacency="linf", size=3)
def softmax_by_search(scores):
    """Releases an option by the exponential mechanism: a uniform number in the cumulated weights exp(score / 2).

    If one option is unlikely, its score rises by 1 and all others fall by 1, its probability grows by the factor e:
    truth 1.
    """
    w = np.exp(np.asarray(scores) / 2.0)
    cdf = np.cumsum(w) / np.sum(w)
    return int(np.searchsorted(cdf, np.random.random()))


@world(claim=1.0, adjacency="linf", size=3)
def cheapest_option(rng, costs):
    """Releases the option with the smallest noisy cost, by heapq.

    For two options far apart, the loser's probability falls like exp(-gap / 2), and the gap grows by 2: truth 1.
    """
    noisy = [(c + rng.laplace(scale=2.0), i) for i, c in enumerate(costs)]
    return heapq.nsmallest(1, noisy)[0][1]


@world(claim=1.0, truth=0.9688730204381859, adjacency="replace", domain=["red", "green", "blue"], size=4)
def most_popular(rng, votes):
    """Releases the most popular colour by counts with exponential noise, as permute-and-flip does (Ding et al., 2021).

    Of four votes over three colours all pairs of neighbours can be listed: the worst is 0.96887.
    """
    noisy = {c: votes.count(c) + rng.exponential(2.0) for c in ("red", "green", "blue")}
    return max(noisy, key=noisy.get)


class Gate:
    """Above threshold."""

    def __init__(self, threshold, epsilon, rng=None):
        self.rng = rng or np.random.default_rng()
        self.epsilon = epsilon
        self.threshold = threshold + self.rng.laplace(scale=2 / epsilon)
        self.open = True

    def ask(self, answer):
        if not self.open:
            return None
        if answer + self.rng.laplace(scale=4 / self.epsilon) >= self.threshold:
            self.open = False
            return True
        return False


@world(claim=1.0, truth=0.75, adjacency="linf", size=3)
def gate(answers):
    """Releases for each answer whether it is above a noisy threshold, until one is: a class for AboveThreshold.

    Two answers below and one above cost min over t of |t|/2 + |1 - t|/4 + 2|1 + t|/4, which is 3/4 at t = 0: truth
    0.75.
    """
    g = Gate(threshold=5.0, epsilon=1.0)
    return [g.ask(a) for a in answers]


@world(claim=1.0, truth=1.25, adjacency="linf", size=5)
def gate_that_never_closes(answers):
    """Releases for each of five answers whether it is above the threshold, and goes on after the first that is.

    Three above and two below cost min over t of |t|/2 + 3|1 - t|/4 + 2|1 + t|/4 = 5/4, the most of all outputs:
    truth 1.25.
    """
    g = Gate(threshold=5.0, epsilon=1.0)
    out = []
    for a in answers:
        g.open = True
        out.append(g.ask(a))
    return out


def bernoulli_exp_frac(gamma):
    k = 1
    while secrets.randbelow((gamma / k).denominator) < (gamma / k).numerator:
        k += 1
    return k % 2 == 1


def bernoulli_exp(gamma):
    while gamma > 1:
        if not bernoulli_exp_frac(Fraction(1)):
            return False
        gamma -= 1
    return bernoulli_exp_frac(gamma)


def cks_laplace(t):
    """Discrete Laplace of scale t."""
    while True:
        u = secrets.randbelow(t)
        if not bernoulli_exp(Fraction(u, t)):
            continue
        v = 0
        while bernoulli_exp(Fraction(1)):
            v += 1
        x = u + t * v
        negative = secrets.randbelow(2) == 1
        if negative and x == 0:
            continue
        return -x if negative else x


@world(claim=0.5, adjacency="add-remove", domain=[0, 1], size=2)
def secure_count(data):
    """Releases a count with discrete Laplace noise of scale 2 from secrets and fractions (Canonne, Kamath, Steinke).

    Probabilities are proportional to exp(-|k| / 2), and the count moves by 1: truth 1/2.
    """
    return sum(data) + cks_laplace(2)


@world(claim=1.0, truth=math.inf, adjacency="add-remove", domain=[0, 1], size=2)
def secure_gaussian_count(data):
    """Releases a count with discrete Gaussian noise of variance 1 by the sampler of the same authors.

    Ratios of exp(-k² / 2) grow without bound: no ε holds.
    """
    while True:
        y = cks_laplace(2)
        gamma = Fraction((2 * abs(y) - 1) ** 2, 8)
        if bernoulli_exp(gamma):
            return sum(data) + y


@world(claim=1.0, truth=math.inf, adjacency="replace", domain=UNIT, size=3)
def bounded_noise(rng, data):
    """Releases a sum with noise that is redrawn until it is at most 4.

    The sum moves by 1, and so do the ends of what can come out: no ε holds.
    """
    noise = rng.laplace(scale=1.0)
    while abs(noise) > 4:
        noise = rng.laplace(scale=1.0)
    return sum(data) + noise


@world(claim=1.0, adjacency="add-remove", domain=[0, 1], size=3)
def clamped_geometric(rng, data):
    """Releases a count with two-sided geometric noise of ratio exp(-1), clamped to what it may be.

    The output 0 collects a tail, which keeps the ratio e: truth 1.
    """
    p = 1 - math.exp(-1.0)
    noise = rng.geometric(p) - rng.geometric(p)
    return int(np.clip(sum(data) + noise, 0, 3))


@world(claim=1.0, adjacency="add-remove", domain=[0, 1], size=3)
def floored_exponentials(rng, data):
    """Releases a count with the difference of two exponential numbers rounded down.

    They are geometric with ratio exp(-1): truth 1.
    """
    noise = math.floor(rng.exponential(1.0)) - math.floor(rng.exponential(1.0))
    return sum(data) + noise


def draw_laplace(scale):
    u = random.random() - 0.5
    return -scale * math.copysign(math.log(1 - 2 * abs(u)), u)


@world(claim=0.5, truth=2.0, adjacency="add-remove", domain=[0, 1], size=3)
def inverted_scale(data):
    """Releases a count with Laplace noise whose scale is ε in place of 1/ε, by inversion.

    It moves by 1, at scale 1/2: truth 2.
    """
    epsilon = 0.5
    return sum(data) + draw_laplace(epsilon)


@world(claim=1.0, adjacency="replace", domain=UNIT, size=2)
def logistic_noise(rng, data):
    """Releases a sum with logistic noise of scale 1.

    Its density falls like exp(-|x|) in the tails, and nowhere faster; the sum moves by 1: truth 1.
    """
    return sum(data) + rng.logistic(scale=1.0)


@world(claim=1.0, truth=math.inf, adjacency="replace", domain=UNIT, size=2)
def one_sided_noise(data):
    """Releases a sum with exponential noise by inversion.

    Nothing below the sum can come out: no ε holds.
    """
    return sum(data) - math.log(1 - random.random())


@world(claim=1.0, truth=math.inf, adjacency="add-remove", domain=["a", "b"], size=2)
def same_noise_for_all(rng, data):
    """Releases two counts with one draw of noise.

    Their difference is exact: no ε holds.
    """
    noise = rng.laplace(scale=1.0)
    return {key: data.count(key) + noise for key in ("a", "b")}


@world(claim=1.0, adjacency="replace", domain=UNIT, size=2)
def securely_seeded(data):
    """Releases a sum with noise of a generator that is seeded from the operating system.

    Its numbers cannot be guessed, so the noise is Laplace of scale 1: truth 1.
    """
    rng = np.random.default_rng(secrets.randbits(128))
    return sum(data) + rng.laplace(scale=1.0)


@world(claim=1.0, adjacency="replace", domain=[0, 1], size=3)
def urandom_seeded(data):
    """Releases a count with noise of an older generator whose seed is made of random bytes.

    Laplace noise of scale 1, where the seed is a secret: truth 1.
    """
    rs = np.random.RandomState(int.from_bytes(os.urandom(4), "big"))
    return sum(data) + rs.laplace(0.0, 1.0)


@world(claim=1.0, adjacency="l1", size=2)
def spawned_streams(data, rng):
    """Releases each number with noise from a child of the generator.

    Children are independent; one number moves by 1, at scale 1: truth 1.
    """
    children = rng.spawn(len(data))
    return [x + child.laplace(scale=1.0) for x, child in zip(data, children, strict=True)]


@world(claim=math.log(6), adjacency="any", domain=["A", "B", "C", "D", "E"])
def half_truth(value):
    """Releases the answer or, by a coin of secrets, one of five at random.

    (1/2 + 1/10) / (1/10) = 6: truth log 6.
    """
    if secrets.choice([True, False]):
        return value
    return secrets.choice(["A", "B", "C", "D", "E"])


@world(claim=math.log(5), truth=math.log(6), adjacency="any", domain=["A", "B", "C", "D", "E"])
def half_truth_off_by_one(value):
    """Releases the same by SystemRandom, and claims log 5.

    The true answer comes up in the random one too: truth log 6.
    """
    sysrand = secrets.SystemRandom()
    return value if sysrand.random() < 0.5 else sysrand.choice("ABCDE")


BLOOM = {"chrome": (0, 3), "firefox": (1, 3), "safari": (2, 5)}


@world(claim=4 * math.log(3), adjacency="any", domain=sorted(BLOOM))
def bloom_report(rng, browser):
    """Releases the bits of a Bloom filter with two hash functions, each flipped with probability 1/4.

    Two browsers may differ in four bits, and each costs log 3: truth 4 log 3.
    """
    bits = np.zeros(6, dtype=int)
    bits[list(BLOOM[browser])] = 1
    flips = rng.random(6) < 0.25
    return np.where(flips, 1 - bits, bits).tolist()


@world(claim=2 * math.log(3), truth=4 * math.log(3), adjacency="any", domain=sorted(BLOOM))
def bloom_report_one_hash(rng, browser):
    """Releases the same bits as a text, with the claim for a single hash function.

    Four bits differ: truth 4 log 3.
    """
    bits = [int(i in BLOOM[browser]) for i in range(6)]
    return "".join(str(b ^ int(rng.random() < 0.25)) for b in bits)


@world(claim=1.0, adjacency="any", domain=(-1.0, 1.0))
def duchi_bit(rng, x):
    """Releases one of two numbers whose mean is a number of [-1, 1] (Duchi, Jordan and Wainwright).

    At the ends the probabilities are e / (e + 1) and 1 / (e + 1): truth 1.
    """
    e = math.exp(1.0)
    c = (e + 1) / (e - 1)
    p = 0.5 + x / (2 * c)
    return c if rng.random() < p else -c


@world(claim=math.log(3), adjacency="any", domain=UNIT)
def rounded_then_flipped(rng, x):
    """Releases a number of [0, 1], rounded at random to a bit that is replaced by a coin half of the time.

    At the ends 3/4 against 1/4: truth log 3.
    """
    bit = 1 if rng.random() < x else 0
    if rng.random() < 0.5:
        return bit
    return int(rng.integers(0, 2))


@world(claim=1.0, adjacency="any", domain=(-1.0, 1.0))
def piecewise(rng, x):
    """Releases a number by the piecewise mechanism (Wang et al., 2019).

    The density is c in a window that moves with the number, and c / e elsewhere: truth 1.
    """
    s = math.exp(0.5)
    c = (s + 1) / (s - 1)
    left = (c + 1) / 2 * x - (c - 1) / 2
    right = left + c - 1
    if rng.random() < s / (s + 1):
        return rng.uniform(left, right)
    y = rng.uniform(-c, -c + (c + 1))
    return y if y < left else y + (right - left)


@world(claim=1.0, adjacency="any", domain=(-1.0, 1.0))
def local_laplace(x):
    """Releases a number of [-1, 1] with noise around it.

    It moves by 2, at scale 2: truth 1.
    """
    return np.random.RandomState().laplace(x, 2.0)


@world(claim=1.0, adjacency="add-remove", domain=["yes", "no"], size=2)
def normalised_histogram(rng, data):
    """Releases two noisy counts, set to 0 where negative, as shares.

    (1, 0) comes out where the second is not positive, which has the ratio e between counts of 0 and 1: truth 1.
    """
    noisy = np.array([data.count("yes"), data.count("no")]) + rng.laplace(scale=1.0, size=2)
    noisy = np.maximum(noisy, 0)
    total = noisy.sum()
    return noisy / total if total > 0 else np.full(2, 0.5)


@world(claim=1.0, adjacency="l1", size=3)
def monotone_curve(rng, data):
    """Releases noisy numbers made monotone by a running maximum.

    The first one comes out as it is: truth 1.
    """
    return np.maximum.accumulate(np.asarray(data) + rng.laplace(scale=1.0, size=3))


@world(claim=1.0, adjacency="l1", size=3)
def trend_line(rng, data):
    """Releases the line through three noisy numbers.

    Noise along (1, -2, 1) has no effect; modulo that, a unit vector has L1 norm 1, which is the loss far out in its own
    direction: truth 1.
    """
    noisy = np.asarray(data) + rng.laplace(scale=1.0, size=3)
    slope, intercept = np.polyfit([0, 1, 2], noisy, 1)
    return slope, intercept


@world(claim=1.0, adjacency="replace", domain=(0.0, 10.0), size=2)
def rounded_input(rng, data):
    """Releases a noisy sum of numbers that are capped at 5 and rounded.

    One of them moves it by 5, at scale 5: truth 1.
    """
    return sum(round(min(x, 5.0)) for x in data) + rng.laplace(scale=5.0)


@world(claim=1.0, truth=2.0, adjacency="l1", size=1)
def rounded_query(rng, data):
    """Releases a rounded number with noise.

    0.5 is rounded to 0 and 1.5 to 2, at scale 1: truth 2.
    """
    return round(data[0]) + rng.laplace(scale=1.0)


@world(claim=2.0, adjacency="l1", size=1)
def floored_query(rng, data):
    """Releases a number rounded down with noise.

    It moves by 1 if the number does, at scale 1/2: truth 2.
    """
    return math.floor(data[0]) + rng.laplace(scale=0.5)


@world(claim=1.0, truth=math.inf, adjacency="l1", size=1)
def beta_noise(rng, data):
    """Releases a number with beta noise.

    It is bounded, so what can come out moves: no ε holds.
    """
    return data[0] + rng.beta(2.0, 2.0) - 0.5


@world(claim=1.0, truth=math.inf, adjacency="l1", size=1)
def triangular_noise(data):
    """Releases a number with triangular noise.

    It is bounded: no ε holds.
    """
    return data[0] + random.triangular(-3, 3)


@world(claim=1.0, adjacency="replace", domain=UNIT, size=2)
def scaled_exponential(rng, data):
    """Releases a sum with the difference of logarithms of uniform numbers of [0, 3].

    log 3 cancels, which leaves the difference of two exponentials, Laplace noise of scale 1: truth 1.
    """
    return sum(data) - np.log(3 * rng.random()) + np.log(3 * rng.random())


def make_mechanism(sensitivity, epsilon):
    scale = sensitivity / epsilon

    def release(value, generator):
        return value + generator.laplace(0, scale)

    return release


@world(claim=1.0, adjacency="replace", domain=(-50.0, 50.0), size=2)
def by_closure(data, rng=None):
    """Releases a clipped sum by a closure that adds noise.

    Numbers clipped to [0, 10] at scale 10: truth 1.
    """
    rng = np.random.default_rng() if rng is None else rng
    release = make_mechanism(sensitivity=10, epsilon=1.0)
    return release(np.clip(data, 0, 10).sum(), rng)


class NoisyCounter:
    """Counts with a predicate."""

    def __init__(self, predicate, epsilon):
        self.predicate, self.epsilon, self._random = predicate, epsilon, random.Random()

    def __call__(self, records):
        exact = sum(1 for r in records if self.predicate(r))
        return exact + self._random.choice([-1, 1]) * self._random.expovariate(self.epsilon)


@world(claim=1.0, adjacency="add-remove", domain=(0.0, 100.0), size=3, target=NoisyCounter(lambda x: x >= 18, 1.0))
def adults(records):
    """Releases a noisy count of adults by an object that is called.

    A random sign times an exponential number is Laplace noise of scale 1: truth 1.
    """
    return NoisyCounter(lambda x: x >= 18, 1.0)(records)
