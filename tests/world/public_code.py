# ruff: noqa: NPY002
"""Mechanisms that do what public code bases do, each with a few lines that make it a function of data."""

import itertools
import math
import random
from collections import Counter

import numpy as np

from .entry import world

ROWS = [("young", "rent"), ("young", "own"), ("old", "rent"), ("old", "own")]


# PrivBayes as in synthcity: noise on the counts of a group-by, negative counts set to zero.
def laplace_parameter(n_attributes, n_parents, epsilon):
    return 2 * (n_attributes - n_parents) / epsilon


@world(claim=1.0, truth=math.inf, adjacency="replace", domain=ROWS, size=4)
def privbayes_group_by(data):
    """Releases the noisy counts of the combinations of attributes that occur in the table.

    A combination with one row is no longer listed when this row is replaced: no ε holds.
    """
    stats = Counter(data)
    keys = sorted(stats)
    noises = np.random.laplace(0, laplace_parameter(2, 1, 1.0), size=len(keys))
    return [(key, max(stats[key] + noise, 0.0)) for key, noise in zip(keys, noises, strict=True)]


@world(claim=1.0, adjacency="replace", domain=ROWS, size=4)
def privbayes_contingency(data):
    """Releases the noisy counts of all combinations of attributes.

    Replacing a row changes two counts by 1, at scale 2. A count that grows keeps a factor of exp(1/2) for large
    outputs, one that falls, from 1 or more, for the output 0 of all negative ones: truth 1.
    """
    stats = Counter(data)
    counts = np.array([stats[key] for key in itertools.product(["young", "old"], ["rent", "own"])], dtype=float)
    counts += np.random.laplace(0, laplace_parameter(2, 1, 1.0), size=counts.size)
    counts[counts < 0] = 0
    return counts


# Selection as in private-pgm.
def permute_and_flip(qualities, epsilon, sensitivity=1.0, prng=np.random):
    p = np.exp(0.5 * epsilon / sensitivity * (qualities - np.max(qualities)))
    for i in prng.permutation(len(p)):
        if prng.rand() <= p[i]:
            return int(i)
    raise AssertionError("the best candidate is always accepted")


@world(claim=1.0, adjacency="linf", size=3)
def flip_candidates(data):
    """Releases the index of a good candidate: in random order, one is taken with probability exp((q - max) / 2).

    With two candidates in reach, the second has the probability exp(-gap / 2) / 2, and the gap grows by 2 if the best
    rises and the second falls: truth 1, the bound of McKenna and Sheldon.
    """
    return permute_and_flip(np.asarray(data, dtype=float), epsilon=1.0)


def exponential_choice(qualities, epsilon, prng=np.random):
    scores = 0.5 * epsilon * np.asarray(qualities)
    p = np.exp(scores - scores.max())
    return prng.choice(len(p), p=p / p.sum())


class Forest:
    """Which attributes are connected already."""

    def __init__(self, nodes):
        self.parent = {node: node for node in nodes}

    def root(self, node):
        while self.parent[node] != node:
            node = self.parent[node]
        return node

    def join(self, a, b):
        self.parent[self.root(a)] = self.root(b)


def spanning_tree(attributes, weights, epsilon_per_edge):
    forest, edges = Forest(attributes), []
    while len(edges) < len(attributes) - 1:
        open_pairs = [pair for pair in weights if forest.root(pair[0]) != forest.root(pair[1])]
        pair = open_pairs[exponential_choice([weights[p] for p in open_pairs], epsilon_per_edge)]
        forest.join(*pair)
        edges.append(pair)
    return sorted(edges)


@world(claim=1.0, adjacency="linf", size=3)
def mst_edges(data):
    """Releases a heavy spanning tree of three attributes, edge by edge, from the weights of the three pairs.

    Two rounds of the exponential mechanism at 1/2 each. If the two chosen weights rise by 1 and the third, which has
    nearly all the weight in both rounds, falls by 1, both factors tend to exp(1/2): truth 1.
    """
    attributes = ("age", "sex", "job")
    weights = dict(zip(itertools.combinations(attributes, 2), data, strict=True))
    return spanning_tree(attributes, weights, epsilon_per_edge=1.0 / (len(attributes) - 1))


@world(claim=1.0, truth=2.0, adjacency="linf", size=3)
def mst_edges_full_budget(data):
    """Releases the same tree with the whole budget for each of the two edges.

    Both rounds cost 1 at worst, in the same pair of inputs: truth 2.
    """
    attributes = ("age", "sex", "job")
    weights = dict(zip(itertools.combinations(attributes, 2), data, strict=True))
    return spanning_tree(attributes, weights, epsilon_per_edge=1.0)


# Medians and partitions as in dpsynth.
def median_cell(rng, counts, epsilon):
    target = counts.sum() / 2
    right = np.cumsum(counts)
    left = right - counts
    scores = -np.maximum(0, np.maximum(left - target, target - right))
    p = np.exp(epsilon * (scores - scores.max()))
    return int(rng.choice(len(counts), p=p / p.sum()))


@world(
    claim=1.0,
    truth=0.5 + math.log((2 + math.exp(-2)) / (1 + math.exp(-0.5) + math.exp(-1.5))),
    adjacency="add-remove",
    domain=[0, 1, 2],
    size=3,
)
def histogram_median(rng, data):
    """Releases a cell of a histogram that is close to the median.

    Weights are exp(-distance of the target n / 2 from the ranks of the cell). A record moves every distance by at
    most 1/2. Of all histograms with 3 and 4 records, (0, 1, 2) and (0, 2, 2) are the worst, for the first cell: the
    distances are (3/2, 1/2, 0) and (2, 0, 0): truth 1/2 + log((2 + exp(-2)) / (1 + exp(-1/2) + exp(-3/2))), about
    0.65.
    """
    return median_cell(rng, np.bincount(np.asarray(data, dtype=int), minlength=3), epsilon=1.0)


@world(claim=1.0, adjacency="add-remove", domain=["de", "fr", "it"], size=4)
def public_partitions(rng, data):
    """Releases the partitions of a public list whose noisy counts reach 2, with these counts.

    A record belongs to one partition. Large noisy counts are released, and differ by a factor of e: truth 1.
    """
    public = np.array(["de", "fr", "it"])
    counts = np.array([np.sum(np.asarray(data) == partition) for partition in public])
    noisy = counts + rng.laplace(scale=1.0, size=counts.size)
    passed = noisy >= 2.0
    return public[passed].tolist(), noisy[passed].tolist()


# Mechanisms as in IBM's diffprivlib.
class Geometric:
    """Two-sided geometric noise by inversion, from one uniform number."""

    def __init__(self, epsilon, sensitivity):
        self.slope = -epsilon / sensitivity
        self._rng = random.SystemRandom()

    def randomise(self, value):
        u = (self._rng.random() - 0.5) * (1 + math.exp(self.slope))
        sign = -1 if u < 0 else 1
        return value + sign * math.floor(math.log(sign * u) / self.slope)


@world(claim=1.0, adjacency="replace", domain=[0, 1, 2], size=3)
def geometric_sum(data):
    """Releases an integer sum with geometric noise for sensitivity 2.

    For k > 0, the noise is k with the probability of u between a^(k + 1) and a^k, proportional to a^k for a =
    exp(-1/2), and 0 with (1 - a) / (1 + a) from both signs. The sum changes by at most 2: truth 1.
    """
    return Geometric(epsilon=1.0, sensitivity=2).randomise(sum(data))


class BoundedLaplace:
    """Laplace noise conditioned on an output within bounds, with the scale that this needs."""

    def __init__(self, epsilon, sensitivity, lower, upper):
        self.lower, self.upper = lower, upper
        self.scale = self._find_scale(epsilon, sensitivity, upper - lower)

    def _find_scale(self, epsilon, sensitivity, width):
        def cost(b):
            inside = 2 - math.exp(-sensitivity / b) - math.exp(-(width - sensitivity) / b)
            return sensitivity / b + math.log(inside / (1 - math.exp(-width / b)))

        left, right = sensitivity / epsilon, 2 * sensitivity / epsilon
        for _ in range(60):
            middle = (left + right) / 2
            if cost(middle) > epsilon:
                left = middle
            else:
                right = middle
        return right

    def _cdf(self, x):
        return 0.5 * math.exp(x / self.scale) if x < 0 else 1 - 0.5 * math.exp(-x / self.scale)

    def randomise(self, value):
        low, high = self._cdf(self.lower - value), self._cdf(self.upper - value)
        u = low + np.random.random() * (high - low) - 0.5
        return value - self.scale * np.sign(u) * np.log(1 - 2 * abs(u))


MEAN_OF_FOUR = BoundedLaplace(epsilon=1.0, sensitivity=0.25, lower=0.0, upper=1.0)


@world(claim=1.0, adjacency="replace", domain=(0.0, 1.0), size=4)
def bounded_laplace_mean(data):
    """Releases a mean within [0, 1] with bounded Laplace noise.

    The means 0 and 1/4 and the output 0 are the worst: 1/(4b) + log(C(1/4) / C(0)), where C(x) is the mass of [0, 1].
    The scale b solves for 1, up to rounding: truth 1 (Holohan et al.).
    """
    return MEAN_OF_FOUR.randomise(sum(data) / len(data))


class GaussianDiscrete:
    """Discrete Gaussian noise by rejection from discrete Laplace noise, both from coins of probability exp(-γ)."""

    def __init__(self, scale):
        self.scale = scale
        self._rng = random.SystemRandom()

    def _falls(self, gamma):
        """1 with probability exp(-gamma)."""
        while gamma > 1:
            gamma -= 1
            if not self._falls(1):
                return 0
        count = 1
        while self._rng.random() <= gamma / count:
            count += 1
        return count % 2

    def randomise(self, value):
        tau, sigma2 = 1 / (1 + math.floor(self.scale)), self.scale**2
        while True:
            size = 0
            while self._falls(tau):
                size += 1
            negative = self._rng.randrange(2)
            if negative and not size:
                continue
            if self._falls((size - tau * sigma2) ** 2 / (2 * sigma2)):
                return value - size if negative else value + size


@world(claim=1.0, truth=math.inf, adjacency="add-remove", domain=[0, 1], size=3)
def discrete_gaussian_count(data):
    """Releases a count with discrete Gaussian noise of scale 1, claimed at δ = 0.

    Its probabilities are proportional to exp(-k² / 2), so those of k for counts of 0 and 1 have the ratio
    exp(k - 1/2), which has no bound: no ε holds, though (ε, δ) does for every ε.
    """
    return GaussianDiscrete(scale=1.0).randomise(sum(data))


# The privacy filter of NVFlare.
@world(claim=3.0, truth=math.inf, adjacency="l1", domain=(-1.0, 1.0), size=3)
def sparse_vector_filter(data):
    """Releases the update of a model: a third of the weights, those above a noisy threshold, with noise; 0 for others.

    More weights than wanted may pass the threshold. Those that pass but are not drawn keep their exact values, with a
    probability above 0: no ε holds.
    """
    clip, eps = 1.0, 1.0
    delta = np.array(data, dtype=float)
    wanted = math.ceil(delta.size / 3)
    threshold = 0.5 + np.random.laplace(scale=2 * clip / eps)
    accepted, candidates = [], np.arange(delta.size)
    magnitude = np.abs(np.clip(delta, -clip, clip))
    while len(accepted) < wanted:
        above = (
            magnitude[candidates] + np.random.laplace(scale=4 * clip * wanted / eps, size=candidates.size) >= threshold
        )
        accepted += candidates[above].tolist()
        candidates = candidates[~above]
    chosen = np.random.choice(accepted, size=wanted)
    delta[chosen] = np.clip(delta[chosen] + np.random.laplace(scale=2 * clip / eps, size=wanted), -clip, clip)
    delta[candidates] = 0.0
    return delta


# Clients as in multi-freq-ldpy.
def grr_client(value, k, epsilon):
    p = np.exp(epsilon) / (np.exp(epsilon) + k - 1)
    if np.random.random() <= p:
        return value
    values = np.arange(k)
    return int(np.random.choice(values[values != value]))


@world(claim=1.0, adjacency="any", domain=[0, 1, 2, 3, 4])
def grr_report(value):
    """Reports one of five values by generalised randomised response.

    The true value with probability e / (e + 4), any other with 1 / (e + 4): truth 1.
    """
    return grr_client(value, k=5, epsilon=1.0)


def ue_client(value, k, epsilon, optimal=True):
    p = np.exp(epsilon / 2) / (np.exp(epsilon / 2) + 1)
    q = 1 - p
    if optimal:
        p, q = 1 / 2, 1 / (np.exp(epsilon) + 1)
    bits = np.zeros(k)
    bits[value] = 1
    noisy = np.zeros(k)
    for i in range(k):
        if np.random.random() <= (p if bits[i] == 1 else q):
            noisy[i] = 1
    return noisy


@world(claim=1.0, adjacency="any", domain=[0, 1, 2, 3])
def optimal_unary_report(value):
    """Reports four bits by optimised unary encoding.

    Two bits differ. The true one says nothing more than a coin; the factor is (1 - q) / q = e for the two: truth 1.
    """
    return ue_client(value, k=4, epsilon=1.0)


@world(claim=1.0, adjacency="any", domain=[0, 1, 2, 3])
def symmetric_unary_report(value):
    """Reports four bits by symmetric unary encoding.

    Two bits differ, each kept with odds exp(1/2): truth 1.
    """
    return ue_client(value, k=4, epsilon=1.0, optimal=False)
