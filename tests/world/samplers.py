"""Mechanisms whose authors sample their noise by hand."""

import math
import random

import numpy as np

from .entry import world

EPS = 1.0


def laplace_from_uniform(rng, b):
    """Inverse of the distribution function of Laplace(b)."""
    u = rng.random() - 0.5
    return -b * np.sign(u) * np.log(1 - 2 * np.abs(u))


@world(claim=1.0, adjacency="l1", size=2)
def inverse_laplace(rng, data):
    """Releases two query answers, each with Laplace noise by inversion.

    One answer changes by at most 1, at scale 1: truth 1.
    """
    return [x + laplace_from_uniform(rng, 1 / EPS) for x in data]


@world(claim=1.0, adjacency="l1", size=2, phrasing_of="inverse_laplace")
def log_ratio_laplace(rng, data):
    """Releases the same answers; minus the log of a uniform is exponential, so a log-ratio of two is Laplace.

    Scale 1, one answer changes by 1: truth 1.
    """
    u, v = rng.uniform(size=(2, len(data)))
    return np.asarray(data) + np.log(u / v) / EPS


@world(claim=1.0, adjacency="l1", size=2, phrasing_of="inverse_laplace")
def mixture_laplace(rng, data):
    """Releases the same answers with normal noise of random variance.

    If E is exponential with mean 1, sqrt(2 E) N has the characteristic function E[exp(-t² E)] = 1 / (1 + t²), that of
    Laplace(1): truth 1.
    """
    noisy = []
    for x in data:
        variance = 2 * rng.exponential()
        noisy.append(x + math.sqrt(variance) * rng.normal() / EPS)
    return noisy


@world(claim=1.0, adjacency="add-remove", domain=[0, 1], size=3)
def geometric_count(rng, data):
    """Releases the number of ones with two-sided geometric noise.

    The difference of two geometrics with failure probability a = exp(-1) has probabilities proportional to a^|k|; one
    record changes the count by 1: truth 1.
    """
    p = 1 - np.exp(-EPS)
    return int(np.sum(data)) + int(rng.geometric(p)) - int(rng.geometric(p))


@world(claim=1.0, adjacency="add-remove", domain=[0, 1], size=3, phrasing_of="geometric_count")
def counted_failures(data):
    """Releases the same count; each geometric is a number of failures before a success.

    Two-sided geometric noise with ratio exp(-1): truth 1.
    """

    def failures():
        k = 0
        while random.random() < math.exp(-EPS):
            k += 1
        return k

    return sum(data) + failures() - failures()


@world(claim=0.5, truth=-math.log(1 - math.exp(-0.5)), adjacency="add-remove", domain=[0, 1], size=3)
def geometric_count_inverted(rng, data):
    """Releases the number of ones with geometric noise whose p is exp(-ε) in place of 1 - exp(-ε).

    The failure probability is 1 - exp(-1/2), so neighbouring counts differ by the factor 1 / (1 - exp(-1/2)), about
    exp(0.93): truth -log(1 - exp(-1/2)).
    """
    p = math.exp(-0.5)
    noise = rng.geometric(p) - rng.geometric(p)
    return sum(data) + noise


@world(claim=2.0, adjacency="l1", size=1)
def staircase(rng, data):
    """Releases one query answer with staircase noise (Geng and Viswanath) for sensitivity 1.

    The density is constant on [k, k + γ) and [k + γ, k + 1), and falls by exp(-2) over every distance of 1, and by no
    more over any distance below 1: truth 2.
    """
    eps = 2.0
    gamma = 1 / (1 + math.exp(eps / 2))
    b = math.exp(-eps)
    sign = 1 if rng.random() < 0.5 else -1
    stair = rng.geometric(1 - b) - 1
    u = rng.random()
    lower = rng.random() < gamma / (gamma + (1 - gamma) * b)
    magnitude = stair + gamma * u if lower else stair + gamma + (1 - gamma) * u
    return data[0] + sign * magnitude


@world(claim=1.0, adjacency="replace", domain=(0.0, 1.0), size=3)
def cauchy_sum(rng, data):
    """Releases a sum with Cauchy noise.

    For scale s and shift d, (s² + (x + d)²) / (s² + x²) is at most exp(2 asinh(d / 2s)), attained at a finite x. The
    sum moves by at most 1, and s = 1 / (2 sinh(1/2)): truth 1.
    """
    scale = 1 / (2 * math.sinh(EPS / 2))
    return np.sum(data) + scale * rng.standard_cauchy()


@world(claim=1.0, adjacency="replace", domain=(0.0, 1.0), size=3, phrasing_of="cauchy_sum")
def tangent_sum(rng, data):
    """Releases the same sum; the tangent of a uniform angle is Cauchy.

    2 asinh(1 / 2s) with s = 1 / (2 sinh(1/2)): truth 1.
    """
    angle = rng.uniform(-math.pi / 2, math.pi / 2)
    total = 0.0
    for x in data:
        total += x
    return total + math.tan(angle) * 0.5 / math.sinh(0.5)


@world(claim=1.0, truth=4 * math.asinh(1 / (4 * math.sqrt(3))), adjacency="replace", domain=(0.0, 1.0), size=3)
def student_sum(rng, data):
    """Releases a sum with heavy-tailed noise: Student's t with 3 degrees of freedom, of scale 2.

    The density is proportional to (1 + y² / 3)^-2 for y = x / 2. A shift by d = 1/2 in y changes 1 + y² / 3 by the
    factor exp(2 asinh(d / (2 sqrt 3))) at most, attained; the exponent 2 doubles it: truth 4 asinh(1 / (4 sqrt 3)),
    about 0.58.
    """
    z = rng.normal()
    chi_squared = sum(rng.normal() ** 2 for _ in range(3))
    t = z / math.sqrt(chi_squared / 3)
    return sum(data) + 2.0 / EPS * t


@world(claim=1.0, adjacency="replace", domain=(0.0, 1.0), size=4)
def noise_shares(rng, data):
    """Releases the sum of the messages of n clients, each of which adds its share of the noise.

    The sum of n variables Gamma(1/n) is exponential, so the shares add up to Laplace(1); the sum of values changes by
    at most 1: truth 1.
    """
    n = len(data)
    messages = [x + rng.gamma(1 / n, 1 / EPS) - rng.gamma(1 / n, 1 / EPS) for x in data]
    return sum(messages)


@world(claim=1.0, truth=math.inf, adjacency="replace", domain=(0.0, 1.0), size=4)
def positive_noise(rng, data):
    """Releases a sum with gamma noise, which is never negative.

    The output exceeds the true sum for certain, so that outputs between the two sums are impossible for one: no ε.
    """
    return float(np.sum(data) + rng.gamma(shape=2.0, scale=1 / EPS))


@world(claim=1.0, adjacency="l1", size=2)
def planar_laplace(rng, data):
    """Releases a location with planar Laplace noise (geo-indistinguishability).

    A uniform angle and a radius Gamma(2, 1) give the density exp(-|z|) / 2π. A coordinate moves by at most 1, and so
    does the distance to any output: truth 1.
    """
    x, y = data
    theta = rng.uniform(0, 2 * math.pi)
    r = rng.gamma(2, 1 / EPS)
    return x + r * math.cos(theta), y + r * math.sin(theta)


@world(claim=1.0, truth=math.inf, adjacency="l1", size=2)
def planar_exponential(rng, data):
    """Releases a location with noise of a uniform direction and an exponential length.

    In the plane, the density is exp(-|z|) / (2π |z|), which is unbounded at the true location: no ε holds.
    """
    theta = rng.uniform(0, 2 * np.pi)
    r = rng.exponential(1 / EPS)
    return np.asarray(data) + r * np.array([np.cos(theta), np.sin(theta)])


def gumbel(rng):
    """Standard Gumbel noise."""
    return -math.log(-math.log(rng.random()))


@world(claim=1.0, adjacency="linf", size=3)
def gumbel_argmax(rng, data):
    """Releases the index of the largest score after Gumbel noise of scale 2.

    This is the exponential mechanism with weights exp(score / 2). If one score rises by 1 and the others, which have
    all the weight, fall by 1, its probability grows by a factor that tends to e, the supremum: truth 1.
    """
    noisy = [score + 2 / EPS * gumbel(rng) for score in data]
    return max(range(len(noisy)), key=noisy.__getitem__)


@world(claim=1.0, adjacency="linf", size=3, phrasing_of="gumbel_argmax")
def gumbel_argmax_array(rng, data):
    """Releases the same index, with arrays.

    Scores are multiplied by 1/2 and standard Gumbel noise is added: the same choice, truth 1.
    """
    u = rng.random(len(data))
    return int(np.argmax(EPS * np.array(data) / 2 - np.log(-np.log(u))))


@world(claim=1.0, truth=2.0, adjacency="linf", size=3)
def gumbel_argmax_unhalved(rng, data):
    """Releases the index of the largest score after Gumbel noise of scale 1, as if only one score could change.

    Weights exp(score): one score up and the others down give a factor that tends to e²: truth 2.
    """
    return int(np.argmax(np.asarray(data) + rng.gumbel(scale=1 / EPS, size=len(data))))
