# ruff: noqa: NPY002
"""Mechanisms as dashboards, surveys and research code have them: one-liners of NumPy, moments, samplers, reports."""

import json
import math
import random
import secrets
from typing import NamedTuple

import numpy as np

from .entry import world

UNIT = (0.0, 1.0)


# records


@world(claim=1.0, adjacency="replace", domain=UNIT, size=4)
def variance_of_scores(rng, scores):
    """Releases np.var of four numbers of [0, 1] with noise for its sensitivity.

    One of n moves the variance by at most (n - 1)/n² = 3/16, from four equal ends: truth 1 at scale 3/16.
    """
    return np.var(np.clip(scores, 0, 1)) + rng.laplace(scale=3 / 16)


@world(claim=1.0, truth=4 / 3, adjacency="replace", domain=UNIT, size=4, phrasing_of="variance_of_scores")
def variance_with_ddof(rng, scores):
    """Releases the sample variance, which is larger by n/(n - 1), with the same noise: truth (1/4) / (3/16)."""
    x = [min(max(s, 0.0), 1.0) for s in scores]
    mean = sum(x) / len(x)
    return sum((v - mean) ** 2 for v in x) / (len(x) - 1) + rng.laplace(scale=3 / 16)


@world(claim=1.0, truth=math.sqrt(3) / 2, adjacency="replace", domain=UNIT, size=4)
def deviation_of_scores(rng, scores):
    """Releases np.std with noise of scale 1/2.

    The square root moves most next to 0: from four equal ends to one changed, by sqrt(3)/4: truth sqrt(3)/2.
    """
    return np.std(scores) + rng.laplace(0, 0.5)


@world(claim=1.0, adjacency="replace", domain=(1.0, 100.0), size=3)
def typical_income(rng, incomes):
    """Releases the geometric mean of three numbers of [1, 100], by a noisy mean of logarithms.

    One of three moves the mean of logarithms by at most ln(100)/3, which is the scale: truth 1.
    """
    logs = np.log(np.clip(incomes, 1, 100))
    return float(np.exp(logs.mean() + rng.laplace(scale=math.log(100) / 3)))


@world(claim=1.0, truth=2.0, adjacency="replace", domain=(1.0, 100.0), size=3, phrasing_of="typical_income")
def typical_income_of_known_count(rng, incomes):
    """Releases the sum of logarithms and the exact size, with half of the noise that is needed: truth 2."""
    total = 0.0
    for income in incomes:
        total += math.log(min(max(income, 1.0), 100.0))
    return total + rng.laplace(scale=math.log(100) / 2), len(incomes)


@world(claim=1.0, adjacency="replace", domain=(0.0, 10.0), size=4)
def range_of_values(rng, values):
    """Releases max - min of numbers of [0, 10] with noise for 10: truth 1."""
    return max(values) - min(values) + rng.laplace(scale=10.0)


@world(claim=1.0, adjacency="replace", domain=(0.0, 8.0), size=3)
def median_in_four_steps(rng, values):
    """Finds a median by four bisections with noisy counts, a quarter of the budget each.

    A record changes each count of the values below a middle by at most 1, at scale 4: truth 4/4 = 1 where the record
    is below the middle in all four steps, or above in all.
    """
    low, high = 0.0, 8.0
    for _ in range(4):
        middle = (low + high) / 2
        below = sum(1 for v in values if v <= middle) + rng.laplace(scale=4.0)
        if below < len(values) / 2:
            low = middle
        else:
            high = middle
    return (low + high) / 2


@world(claim=1.0, adjacency="replace", domain=(-3.0, 3.0), size=3)
def mean_square(rng, x):
    """Releases the mean of squares of three numbers of [-3, 3], which one moves by at most 9/3: truth 1."""
    x = np.asarray(x, dtype=float)
    return float((x @ x) / len(x)) + rng.laplace(scale=3.0)


@world(claim=0.5, adjacency="replace", domain=UNIT, size=5)
def share_above(rng, x):
    """Releases the share above a half, by a mask: moves by 1/5, at scale 0.4: truth 1/2."""
    return (np.array(x) > 0.5).mean() + rng.laplace(scale=0.4)


# post-processing


@world(claim=1.0, adjacency="linf", domain=(-5.0, 5.0), size=1)
def rounded_then_geometric(rng, data):
    """Adds two-sided geometric noise to a rounded number.

    Neighbours that are 1 apart round to whole numbers 1 apart; 0.5 rounds to 0 and 1.5 to 2 (half to even), which are
    2 apart: at exp(-1/2) for each, truth 1.
    """
    p = 1 - math.exp(-0.5)
    return round(data[0]) + int(rng.geometric(p)) - int(rng.geometric(p))


@world(claim=1.0, adjacency="linf", domain=(0.0, 100.0), size=1)
def about_so_many(rng, data):
    """Writes a noisy number with three digits: a rising function up to rounding, truth 1."""
    return f"about {data[0] + rng.laplace():.3g}"


@world(claim=1.0, adjacency="linf", domain=(0.0, 100.0), size=1)
def log_of_positive(rng, data):
    """Releases log(1 + max(noisy, 0)): rising where the noisy number is positive, truth 1."""
    return np.log1p(max(data[0] + rng.laplace(), 0))


@world(claim=1.0, adjacency="l1", domain=(0.0, 50.0), size=2)
def change_in_percent(rng, data):
    """Releases the growth between two noisy numbers and the first of them: both can be had back, truth 1."""
    before, after = (x + rng.laplace() for x in data)
    return before, 100 * (after / before - 1)


@world(claim=2.0, truth=2.0, adjacency="linf", domain=(0.0, 50.0), size=2)
def dashboard_json(rng, data):
    """Writes two noisy numbers, rounded to a decimal, as JSON: truth 2."""
    return json.dumps({"visits": round(data[0] + rng.laplace(), 1), "orders": round(data[1] + rng.laplace(), 1)})


@world(claim=1.0, adjacency="linf", domain=(0.0, 1000.0), size=1)
def hours_and_minutes(rng, data):
    """Splits a noisy number of minutes into hours and minutes: nothing is lost, truth 1."""
    noisy = data[0] + rng.laplace()
    hours, minutes = divmod(noisy, 60)
    return int(hours), minutes


@world(claim=1.0, adjacency="linf", domain=(-5.0, 5.0), size=1)
def squashed(rng, data):
    """Releases the logistic function of a noisy number: rising, truth 1."""
    return 1 / (1 + np.exp(-(data[0] + rng.laplace())))


@world(claim=1.0, truth=2.0, adjacency="l1", domain=(-4.0, 4.0), size=1)
def square_of_input(rng, data):
    """Squares a number of [-4, 4] and adds noise of scale 3.5: (4² - 3²)/3.5 = 2."""
    return data[0] ** 2 + rng.laplace(scale=3.5)


@world(claim=1.0, truth=1.0, adjacency="linf", domain=(0.0, 4.0), size=1)
def root_of_input(rng, data):
    """Takes the square root of a number of [0, 4], which a step of 1 moves most at 0: by 1, truth 1."""
    return math.sqrt(data[0]) + rng.laplace()


# casts and arrays


@world(claim=1.0, adjacency="add-remove", domain=UNIT, size=4)
def ten_bins(rng, x):
    """Releases np.histogram of records with noise for one count: truth 1."""
    counts, _ = np.histogram(x, bins=4, range=(0, 1))
    return counts + rng.laplace(size=len(counts))


@world(claim=1.0, truth=2.0, adjacency="replace", domain=[0, 1, 2, 3], size=4)
def votes_by_bincount(rng, votes):
    """Releases np.bincount of votes, of which one replaced changes two: truth 2."""
    return np.bincount(votes, minlength=4) + rng.laplace(scale=1.0, size=4)


@world(claim=1.0, adjacency="l1", domain=(0.0, 10.0), size=3)
def cumulative(rng, data):
    """Releases running totals of a noisy array: post-processing, truth 1."""
    noisy = np.empty(len(data))
    for i, x in enumerate(data):
        noisy[i] = x + rng.laplace()
    return np.cumsum(noisy).tolist()


@world(claim=1.0, adjacency="l1", domain=(0.0, 10.0), size=3)
def small_values_hidden(rng, data):
    """Sets noisy values below 2 to 0 by a mask: post-processing, truth 1 (where the value is kept)."""
    noisy = np.asarray(data, dtype=float) + rng.laplace(0, 1, 3)
    noisy[noisy < 2] = 0
    return noisy


# weights from scores


@world(
    claim=1.0,
    truth=math.log((1 + 2 * math.exp(5)) / (1 + 2 * math.exp(4))),
    adjacency="linf",
    domain=(-5.0, 5.0),
    size=3,
)
def stable_softmax(rng, utilities):
    """Chooses by softmax of half of the utilities, with the maximum taken off first.

    1 in the limit of far scores; here the worst is one score at -5, which rises by 1 while two at 5 fall by 1.
    """
    u = 0.5 * np.array(utilities)
    w = np.exp(u - np.max(u))
    return int(rng.choice(len(w), p=w / w.sum()))


@world(
    claim=1.0,
    truth=math.log((1 + 2 * math.exp(10)) / (1 + 2 * math.exp(8))),
    adjacency="linf",
    domain=(-5.0, 5.0),
    size=3,
    phrasing_of="stable_softmax",
)
def softmax_without_half(rng, utilities):
    """Chooses by softmax of the whole utilities: as above with doubled exponents."""
    weights = [math.exp(u) for u in utilities]
    pick, total = rng.random() * sum(weights), 0.0
    for i, w in enumerate(weights[:-1]):
        total += w
        if pick < total:
            return i
    return len(weights) - 1


@world(claim=math.log(2), truth=math.log(9 / 5), adjacency="linf", domain=(0.0, 6.0), size=2)
def powers_of_two(scores):
    """Chooses one of two with weights 2^(score/2), by random.choices.

    The odds change by a factor of 2 at most: ln 2 in the limit of far scores; at most (1 + 2^3)/(1 + 2^2) here.
    """
    return random.choices(["a", "b"], weights=[2 ** (s / 2) for s in scores])[0]


@world(
    claim=2.0,
    truth=1 + math.log((2 + math.exp(3)) / (1 + math.e + math.exp(2))),
    adjacency="replace",
    domain=["x", "y", "z"],
    size=3,
)
def most_common_by_exponential(rng, items):
    """Chooses an item with the odds of exp of its count.

    A replaced item moves two counts: 2 for many records; of three, counts (3, 0, 0) that become (2, 1, 0) cost most.
    """
    options = ["x", "y", "z"]
    scores = np.array([items.count(o) for o in options], dtype=float)
    probs = np.exp(scores) / np.exp(scores).sum()
    return rng.choice(options, p=probs)


@world(claim=1.0, adjacency="linf", domain=(0.0, 5.0), size=3)
def permute_and_flip_by_shuffle(rng, scores):
    """Looks at options in random order and accepts one with chance exp((q - max)/2): at most 1."""
    best = max(scores)
    while True:
        for i in rng.permutation(len(scores)):
            if rng.random() < math.exp((scores[i] - best) / 2):
                return int(i)


# retries


@world(claim=1.0, truth=math.inf, adjacency="linf", domain=(0.0, 1.0), size=1)
def noise_within_limits(rng, data):
    """Draws noise again until it is within 3, then adds it: the support moves with the data, truth infinite."""
    while abs(noise := rng.laplace()) > 3:
        pass
    return data[0] + noise


@world(claim=1.0, truth=math.inf, adjacency="linf", domain=(0.0, 1.0), size=1)
def polar_gaussian(rng, data):
    """Marsaglia's normal numbers: no pure ε."""
    while True:
        u, v = rng.uniform(-1, 1), rng.uniform(-1, 1)
        s = u * u + v * v
        if 0 < s < 1:
            return data[0] + u * math.sqrt(-2 * math.log(s) / s)


@world(claim=1.0, adjacency="l1", domain=[0, 1, 2], size=1)
def geometric_by_coins(rng, data):
    """Adds a two-sided geometric number, counted with coins of chance 1/e by two loops: truth 1."""
    up = down = 0
    while rng.random() < math.exp(-1):
        up += 1
    while rng.random() < math.exp(-1):
        down += 1
    return data[0] + up - down


@world(claim=1.0, truth=1.0, adjacency="replace", domain=UNIT, size=3)
def three_attempts(rng, x):
    """Tries up to three times for a positive mean, else gives 0; each attempt is at 1/3 of the budget.

    The chance to fail costs up to 1/3 per failed attempt, and the released number 1/3: truth 1 in the limit of far
    means; on [0, 1] it is what the last number costs after two failures that each cost the full 1/3: truth 1 where
    the means 0 and 1/3 both fail with numbers below 0: ln of the ratio of P[noise < -m] is exactly m/scale = 1/3.
    """
    for _ in range(3):
        noisy = float(np.mean(x)) + rng.laplace(scale=1.0)
        if noisy > 0:
            return noisy
    return 0.0


# home-made noise


@world(claim=1.0, adjacency="linf", domain=(0.0, 5.0), size=1)
def laplace_by_cases(rng, data):
    """Laplace noise by the two branches of its inverse distribution function: truth 1."""
    u = rng.random()
    noise = math.log(2 * u) if u < 0.5 else -math.log(2 * (1 - u))
    return data[0] + noise


@world(claim=1.0, truth=math.inf, adjacency="linf", domain=(0.0, 5.0), size=1)
def box_muller(rng, data):
    """Normal noise by Box and Muller: no pure ε."""
    u, v = rng.random(), rng.random()
    return data[0] + math.sqrt(-2 * math.log(u)) * math.cos(2 * math.pi * v)


@world(claim=1.0, adjacency="linf", domain=(0.0, 5.0), size=1)
def ratio_of_uniforms(rng, data):
    """The logarithm of the ratio of two uniform numbers is Laplace noise: truth 1."""
    return data[0] + np.log(rng.uniform() / rng.uniform())


@world(claim=1.0, adjacency="linf", domain=(0.0, 5.0), size=1)
def sign_times_exponential(data):
    """An exponential number with a random sign, of the standard library: truth 1."""
    return data[0] + random.choice([-1, 1]) * random.expovariate(1.0)


@world(claim=1.0, adjacency="linf", domain=(0.0, 5.0), size=1)
def laplace_as_normal_mixture(rng, data):
    """A normal number times the root of twice an exponential one is Laplace noise: truth 1."""
    return data[0] + rng.normal() * math.sqrt(2 * rng.exponential())


# large choices


@world(claim=1.0, adjacency="any", domain=list(range(12)))
def unary_by_comprehension(rng, value):
    """Optimal unary encoding: a 1 is kept with 1/2, a 0 turned with 1/(e + 1): truth 1."""
    q = 1 / (math.e + 1)
    return [int(rng.random() < (0.5 if i == value else q)) for i in range(12)]


@world(claim=2 * math.log(3), adjacency="any", domain=list(range(10)))
def flipped_by_where(rng, value):
    """Bits by np.where, each kept with 3/4: two bits differ, truth 2 ln 3."""
    bits = (np.arange(10) == value).astype(int)
    return np.where(rng.random(10) < 0.75, bits, 1 - bits)


@world(claim=2 * math.log(3), adjacency="any", domain=list(range(12)), phrasing_of="flipped_by_where")
def flipped_in_place(rng, value):
    """Bits of an array that are flipped in a loop by an `if`."""
    bits = np.zeros(12, dtype=int)
    bits[value] = 1
    for i in range(12):
        if rng.random() < 0.25:
            bits[i] = 1 - bits[i]
    return bits.tolist()


@world(claim=2 * math.log(3), adjacency="any", domain=list(range(12)), phrasing_of="flipped_by_where")
def flipped_by_xor(rng, value):
    """Bits that are flipped by exclusive or with coins."""
    return [(i == value) ^ (rng.random() < 0.25) for i in range(12)]


@world(claim=1.0, adjacency="any", domain=list(range(20)))
def hashed_to_a_bucket(value):
    """Local hashing to four buckets by a salted hash, then randomised response with odds e: truth 1."""
    salt = random.getrandbits(32)
    bucket = ((value * 2654435761 + salt) % 4294967296) % 4
    if random.random() < math.e / (math.e + 3):
        return salt, bucket
    return salt, random.choice([b for b in range(4) if b != bucket])


# randomness


class Publisher:
    """Publishes with a generator that it was given a seed for."""

    scale = 2.0

    def __init__(self):
        self._rng = np.random.default_rng(2024)

    def total(self, values):
        """Releases a noisy sum of [0, 1] at scale 2: truth 1/2."""
        return sum(values) + self._rng.laplace(0, self.scale)

    @staticmethod
    def count(values):
        """Counts with secrets: half of the time 1 too many; no privacy, truth infinite."""
        return len(values) + secrets.randbelow(2)


@world(claim=0.5, adjacency="add-remove", domain=UNIT, size=3, target=Publisher().total)
def publisher_total():
    """The method above."""


@world(claim=0.5, truth=math.inf, adjacency="add-remove", domain=UNIT, size=3, target=Publisher.count)
def publisher_count():
    """The static method above."""


@world(claim=1.0, truth=math.inf, adjacency="replace", domain=UNIT, size=3)
def seeded_for_reproducibility(values):
    """Seeds NumPy before it draws: the noise is always the same, truth infinite."""
    np.random.seed(42)
    return np.mean(values) + np.random.laplace(0, 1 / 3)


@world(claim=1.0, adjacency="replace", domain=UNIT, size=3)
def gauss_free(data, rng):
    """Takes the data first, and the generator second: mean of three at scale 1/3, truth 1."""
    return np.mean(data) + rng.laplace(0, 1 / 3)


# data and outputs


class Sale(NamedTuple):
    """A sale of a shop."""

    product: str
    price: float


SALES = [Sale("tea", 3.0), Sale("tea", 5.0), Sale("cup", 8.0)]


@world(claim=1.0, adjacency="add-remove", domain=SALES, size=3)
def revenue_by_product(rng, sales):
    """Releases revenue per product, clipped to 8 a sale, and None for products of a negative noisy revenue: truth 1."""
    totals = {"tea": 0.0, "cup": 0.0}
    for sale in sales:
        totals[sale.product] += min(sale.price, 8.0)
    noisy = {name: total + rng.laplace(scale=8.0) for name, total in totals.items()}
    return {name: value if value >= 0 else None for name, value in noisy.items()}


@world(claim=1.0, truth=math.inf, adjacency="add-remove", domain=SALES, size=3)
def products_sold(rng, sales):
    """Releases noisy counts of the products that occur: whether one occurs is not noisy, truth infinite."""
    return {p: sum(s.product == p for s in sales) + rng.laplace() for p in {s.product for s in sales}}


@world(claim=0.5, adjacency="replace", domain=[{"age": 20, "ill": False}, {"age": 70, "ill": True}], size=3)
def ill_people(rng, people):
    """Releases the noisy number of people who are ill, of dicts, at scale 2: truth 1/2."""
    return round(sum(person["ill"] for person in people) + rng.laplace(scale=2.0))
