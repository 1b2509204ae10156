# ruff: noqa: NPY002, RUF046
"""Mechanisms of product, health and census teams: frames, classes with generators of their own, dataclasses, coins."""

import json
import math
import random
from collections import Counter
from dataclasses import asdict, dataclass, field

import numpy as np
import pandas as pd

from .entry import world

UNIT = (0.0, 1.0)
TICKETS = pd.DataFrame({"team": ["ios", "web", "web"], "hours": [8.0, 8.0, 3.0]})


@world(claim=1.0, adjacency="replace", domain=TICKETS, size=3)
def open_tickets_by_team(df, rng):
    """Releases the noisy number of tickets of each of two teams, as a frame.

    A ticket may move from one team to the other: two counts change by 1, at scale 2: truth 1.
    """
    counts = df.groupby("team").size().reindex(["ios", "web"], fill_value=0)
    noisy = counts + rng.laplace(0, 2.0, size=len(counts))
    return noisy.round(1).to_frame("tickets")


@world(claim=1.0, truth=2.0, adjacency="replace", domain=TICKETS, size=3)
def hours_by_team(df, rng):
    """Releases the noisy hours of each of two teams, clipped to 8 a ticket, with noise for one changed sum.

    A ticket of 8 hours that moves to the other team changes two sums by 8, at scale 8: truth 2.
    """
    totals = {team: float(df.loc[df["team"] == team, "hours"].clip(0, 8).sum()) for team in ("ios", "web")}
    return {team: total + rng.laplace(scale=8.0) for team, total in totals.items()}


@dataclass
class DoseReport:
    """What a clinic publishes of a trial."""

    patients: int
    mean_dose: float | None
    notes: list[str] = field(default_factory=list)


class Clinic:
    """A clinic with a budget and a generator of its own."""

    def __init__(self, epsilon, seed=None):
        self.epsilon = epsilon
        self.rng = np.random.RandomState(seed)

    def publish(self, doses):
        """Releases the noisy number of doses and their mean, from a noisy sum; no mean of fewer than one patient.

        A dose in [0, 1] that comes or goes moves the number by 1 and the sum by at most 1, each at scale 2: truth 1.
        """
        half = self.epsilon / 2
        n = len(doses) + self.rng.laplace(0, 1 / half)
        s = sum(min(max(d, 0.0), 1.0) for d in doses) + self.rng.laplace(0, 1 / half)
        if n < 1:
            return DoseReport(0, None, ["too few patients"])
        return DoseReport(int(round(n)), min(max(s / n, 0.0), 1.0))


@world(claim=1.0, adjacency="add-remove", domain=UNIT, size=3, target=Clinic(1.0).publish)
def publish():
    """The method above, of an object."""


class BitReporter:
    """Symmetric unary encoding."""

    def __init__(self, domain_size, epsilon):
        self.k = domain_size
        self.keep = math.exp(epsilon / 2) / (1 + math.exp(epsilon / 2))

    def __call__(self, value, rng):
        """Reports bits by a comprehension, each kept with odds exp(1/2) at ε = 1.

        Two values differ in two bits, 1/2 each: truth 1.
        """
        onehot = [1 if i == value else 0 for i in range(self.k)]
        return [bit if rng.random() < self.keep else 1 - bit for bit in onehot]


@world(claim=1.0, adjacency="any", domain=list(range(16)), target=BitReporter(16, 1.0).__call__)
def sixteen_reported_bits():
    """The object above, for sixteen values."""


@world(claim=1.0, truth=2.0, adjacency="any", domain=list(range(16)), phrasing_of="sixteen_reported_bits")
def sixteen_reported_bits_by_mask(rng, value):
    """Reports sixteen bits by a mask of coins, each with the odds e of the whole budget.

    Two bits differ, 1 each: truth 2.
    """
    bits = np.zeros(16, dtype=int)
    bits[value] = 1
    flip = rng.random(16) > math.e / (1 + math.e)
    bits[flip] = 1 - bits[flip]
    return bits


@world(claim=1.0, truth=2.0, adjacency="any", domain=list(range(16)), phrasing_of="sixteen_reported_bits")
def sixteen_reported_bits_by_comparison(rng, value):
    """Reports for each of sixteen bits whether it equals a coin that is True with odds e.

    A bit is reported as it is where the coin is True: each has the odds e of the whole budget, and two differ. Truth 2.
    """
    return (np.arange(16) == value) == (rng.random(16) < math.e / (1 + math.e))


def staircase_sample(rng, epsilon, sensitivity, gamma):
    """Geng and Viswanath's noise: a sign, a geometric step, a side of the step, and a uniform part."""
    b = math.exp(-epsilon)
    sign = -1 if rng.random() < 0.5 else 1
    geometric = rng.geometric(1 - b) - 1
    unif = rng.random()
    binary = 0 if rng.random() < gamma / (gamma + (1 - gamma) * b) else 1
    return sign * (
        (1 - binary) * ((geometric + gamma * unif) * sensitivity)
        + binary * ((geometric + gamma + (1 - gamma) * unif) * sensitivity)
    )


@world(claim=1.0, adjacency="add-remove", domain=UNIT, size=3)
def staircase_total(rng, amounts):
    """Releases a sum of numbers of [0, 1] with staircase noise for sensitivity 1.

    A shift by up to 1 crosses at most one step of exp(-1) at any point, and crosses one somewhere: truth 1.
    """
    gamma = 1 / (1 + math.exp(0.5))
    return sum(min(max(a, 0.0), 1.0) for a in amounts) + staircase_sample(rng, 1.0, 1.0, gamma)


@world(claim=1.0, truth=2.0, adjacency="replace", domain=(0.0, 2.0), size=2, phrasing_of="staircase_total")
def staircase_total_wide(rng, amounts):
    """Releases a sum of numbers of [0, 2] with the same noise.

    A shift by 2 crosses two steps everywhere but around the centre, where it may be none: truth 2.
    """
    return float(np.sum(amounts)) + staircase_sample(rng, 1.0, 1.0, 0.5)


def bernoulli_exp(gamma, rng):
    """Returns 1 with probability exp(-gamma), as libraries do it: whole steps first."""
    if gamma > 1:
        for _ in range(math.floor(gamma)):
            if not bernoulli_exp(1, rng):
                return 0
        return bernoulli_exp(gamma - math.floor(gamma), rng)
    counter = 1
    while rng.random() < gamma / counter:
        counter += 1
    return counter % 2


def dlaplace(scale, rng):
    """Discrete Laplace noise of a whole scale."""
    while True:
        u = rng.randrange(scale)
        if not bernoulli_exp(u / scale, rng):
            continue
        v = 0
        while bernoulli_exp(1, rng):
            v += 1
        value = u + scale * v
        sign = rng.randrange(2)
        if sign and value == 0:
            continue
        return value * (1 - 2 * sign)


@world(claim=1 / 3, adjacency="add-remove", domain=[0, 1], size=2)
def library_count(data):
    """Releases a count with discrete Laplace noise of scale 3, made of coins that take whole steps first.

    Probabilities are proportional to exp(-|k| / 3), and the count moves by 1: truth 1/3.
    """
    return sum(data) + dlaplace(3, random.SystemRandom())


@world(claim=1.0, truth=math.inf, adjacency="add-remove", domain=[0, 1], size=2)
def library_gaussian_count(data):
    """Releases a count with discrete Gaussian noise of variance 2 by the same coins.

    Ratios of exp(-k² / 4) grow without bound: no ε holds.
    """
    rng = random.SystemRandom()
    sigma2 = 2.0
    t = math.floor(math.sqrt(sigma2)) + 1
    while True:
        y = dlaplace(t, rng)
        if bernoulli_exp((abs(y) - sigma2 / t) ** 2 / (2 * sigma2), rng):
            return sum(data) + y


@world(claim=1.0, adjacency="add-remove", domain=(0.0, 16.0), size=3)
def typical_wait(data):
    """Releases a median of waiting times by four comparisons with noisy counts, at scale 4 each.

    A time that comes or goes moves (number below) - n / 2 by 1/2, four times at scale 2: truth 1.
    """
    low, high = 0.0, 16.0
    for _ in range(4):
        mid = (low + high) / 2
        below = sum(x < mid for x in data) - len(data) / 2
        if below + np.random.laplace(0, 2.0) > 0:
            high = mid
        else:
            low = mid
    return (low + high) / 2


@world(claim=2.0, adjacency="replace", domain=(0, 31), size=3)
def typical_age_group(rng, ages):
    """Releases a median of whole numbers below 32 by five bisections with noise for their number.

    Replacing a number moves each of five counts by 1, at scale 5/2: truth 2.
    """
    lo, hi = 0, 31
    rounds = 5
    while lo < hi:
        mid = (lo + hi) // 2
        rank = len([a for a in ages if a <= mid]) + rng.laplace(scale=rounds / 2.0)
        if rank >= len(ages) / 2:
            hi = mid
        else:
            lo = mid + 1
    return lo


@world(claim=1.0, adjacency="linf", size=3)
def flipped_winner(rng, scores):
    """Releases an option by permute-and-flip, in arrays.

    By McKenna and Sheldon with ε = 1 and sensitivity 1: truth 1.
    """
    s = np.array(scores, dtype=float)
    accept = np.exp(0.5 * (s - s.max()))
    for i in rng.permutation(len(s)):
        if rng.uniform() <= accept[i]:
            return int(i)
    return None


@world(claim=1.0, adjacency="linf", size=4)
def weighted_lottery(scores):
    """Releases an option drawn with weights exp(score / 2) by random.choices, after the best score is subtracted.

    The exponential mechanism for sensitivity 1: truth 1.
    """
    best = max(scores)
    return random.choices(range(len(scores)), weights=[math.exp((s - best) / 2) for s in scores])[0]


@world(claim=1.0, adjacency="add-remove", domain=["ok", "slow", "down"], size=3)
def status_page(data):
    """Releases noisy counts of three states as a JSON text, none of them negative.

    A report that comes or goes moves one count by 1, at scale 1: truth 1.
    """
    counts = Counter(data)
    noisy = {
        s: max(0, round(counts[s] + random.expovariate(1.0) - random.expovariate(1.0))) for s in ("ok", "slow", "down")
    }
    return json.dumps(noisy, sort_keys=True)


@world(claim=1.0, truth=math.inf, adjacency="add-remove", domain=["ok", "slow", "down"], size=3)
def status_page_of_seen(data):
    """Releases the same for the states that occur.

    A state that only one report has appears with it: no ε holds.
    """
    counts = Counter(data)
    return json.dumps({s: c + random.expovariate(1.0) - random.expovariate(1.0) for s, c in sorted(counts.items())})


@world(claim=1.0, adjacency="replace", domain=UNIT, size=4)
def never_negative(rng, data):
    """Releases a mean of four numbers, with noise that is drawn once, and put on the edge where it leaves [0, 1].

    The mean moves by 1/4, at scale 1/4: truth 1.
    """

    @dataclass
    class Answer:
        value: float
        clipped: bool

    noisy = np.mean(np.clip(data, 0, 1)) + rng.laplace(scale=0.25)
    value = float(np.clip(noisy, 0, 1))
    return asdict(Answer(value, bool(value != noisy)))


@world(claim=1.0, truth=1.5, adjacency="replace", domain=UNIT, size=3)
def gradient_step(rng, rows):
    """Releases the weights of three steps of gradient descent with clipped gradients, with noise for two of them.

    A gradient w - x, clipped to [-1/2, 1/2], moves the sum by at most 1, three times at scale 2. It moves by 1 where
    w = 1/2 and x changes from 0 to 1, and a noisy weight can be 1/2 twice: truth 3/2.
    """
    w, history = 0.5, []
    for _ in range(3):
        g = sum(min(max(w - x, -0.5), 0.5) for x in rows)
        w -= 0.1 * (g + rng.laplace(scale=2.0))
        history.append(w)
    return history


@world(claim=1.0, adjacency="any", domain=[0, 1, 2, 3, 4, 5])
def vote_by_dice(value):
    """Reports one of six values: the true one with odds e : 5, else one of the five others.

    e / (e + 5) against 1 / (e + 5): truth 1.
    """
    p = math.e / (math.e + 5)
    if random.random() < p:
        return value
    other = random.randrange(5)
    return other if other < value else other + 1


@world(claim=1.0, adjacency="linf", size=4)
def first_alarm(rng, readings):
    """Releases the first reading that is above a noisy threshold.

    Three below and one above cost t/2 + 3 (1 - t)/4 + (1 + t)/4 = 1 for every shift t of the threshold from 0 to 1.
    With three readings far above and the last far below, the threshold lies anywhere between: truth 1.
    """
    threshold = 3.0 + rng.laplace(scale=2.0)
    for k, reading in enumerate(readings):
        if reading + rng.laplace(scale=4.0) > threshold:
            return f"alarm at {k}"
    return "quiet"
