"""Statistics of records: clamped sums, means, counts, histograms, moments, medians and quantiles."""

import math
from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np

from .entry import world


@world(claim=1.0, adjacency="replace", domain=(0.0, 10.0), size=4)
def clamped_sum(rng, data):
    """Releases the sum of the records, each clamped to [0, 5].

    One record changes the clamped sum by at most 5 (from 0 to 5 or more), and Laplace noise of scale 5 turns a shift
    of 5 into a density ratio of e^(5/5) at every point beyond both sums. Truth: 1.
    """
    total = 0.0
    for x in data:
        total += min(max(x, 0.0), 5.0)
    return total + rng.laplace(0.0, 5.0 / 1.0)


@world(claim=1.0, adjacency="replace", domain=(0.0, 10.0), size=4, phrasing_of="clamped_sum")
def clamped_sum_vectorised(rng, data):
    """Releases the sum of the records clipped to [0, 5].

    Same sensitivity (5) and same noise (scale 5) as the loop: a shift of 5 costs exactly 1.
    """
    lower, upper, epsilon = 0.0, 5.0, 1.0
    x = np.clip(np.asarray(data, dtype=float), lower, upper)
    return x.sum() + rng.laplace(scale=(upper - lower) / epsilon)


@world(claim=0.5, truth=1.0, adjacency="replace", domain=(-5.0, 5.0), size=3)
def balance_of_accounts(rng, data):
    """Releases the sum of balances clamped to [-2, 2], with noise for a sensitivity of 2.

    A record can go from -2 to 2, so the sum moves by 4; noise of scale 2 / 0.5 = 4 makes that cost 4 / 4 = 1, twice the
    claim (2 is the sensitivity of adding or removing a record).
    """
    bound = 2
    clamped = [max(-bound, min(bound, balance)) for balance in data]
    return sum(clamped) + rng.laplace(loc=0, scale=bound / 0.5)


@world(claim=0.4, adjacency="replace", domain=(0.0, 1.0), size=5)
def mean_of_known_size(rng, data):
    """Releases the mean of the records; their number is public.

    The mean moves by at most 1/5 and the noise has scale 1 / (5 * 0.4): cost 0.4, attained beyond both means.
    """
    n = len(data)
    return np.mean(np.clip(data, 0, 1)) + rng.laplace(0, 1 / (n * 0.4))


@world(claim=0.4, adjacency="replace", domain=(0.0, 1.0), size=5, phrasing_of="mean_of_known_size")
def mean_of_known_size_by_exponentials(rng, data):
    """Releases the mean of the records, with noise on the sum before it is divided.

    The sum moves by at most 1. A difference of two exponentials of scale 1/0.4 is a Laplace variable of that scale, and
    dividing by the public 5 is one to one: cost 0.4.
    """
    scale = 1 / 0.4
    total = math.fsum(min(1.0, max(0.0, x)) for x in data)
    noise = rng.exponential(scale) - rng.exponential(scale)
    return (total + noise) / len(data)


@world(claim=1.0, truth=math.inf, adjacency="add-remove", domain=(0.0, 1.0), size=4)
def mean_of_private_size(rng, data):
    """Releases the mean with noise of scale 1/(n ε), although n is private.

    With 4 records the noise has scale 1/4, with 5 it has scale 1/5. The ratio of the two densities at y grows like
    e^(|y| (5 - 4)) without bound, so no ε holds.
    """
    n = len(data)
    mean = sum(data) / n
    sensitivity = 1.0 / n
    return mean + rng.laplace(0.0, sensitivity / 1.0)


@dataclass
class MeanEstimate:
    """A mean and the count it is based on."""

    count: float
    total: float

    @property
    def mean(self):
        """The quotient, kept away from a division by zero."""
        return self.total / max(self.count, 1.0)


@world(claim=1.0, adjacency="add-remove", domain=(0.0, 1.0), size=3)
def noisy_sum_and_count(rng, data):
    """Releases a noisy count and the mean computed from a noisy sum and that count; half of the budget goes to each.

    A further record of value 1 moves both the count and the sum by 1; each has noise of scale 2, so each costs 1/2.
    Count and mean determine the noisy sum (the divisor is positive), so nothing is lost: where both exceed their
    locations the ratio is e^(1/2 + 1/2).
    """
    epsilon = 1.0
    count = len(data) + rng.laplace(0, 1 / (epsilon / 2))
    total = sum(data) + rng.laplace(0, 1 / (epsilon / 2))
    estimate = MeanEstimate(count, total)
    return estimate.count, estimate.mean


@world(claim=1.0, truth=2.0, adjacency="add-remove", domain=(0.0, 1.0), size=3)
def noisy_sum_and_count_full_budget(rng, data):
    """Releases a noisy sum and a noisy count, each with the whole budget.

    A further record of value 1 moves sum and count by 1, each against noise of scale 1: cost 1 + 1 = 2.
    """
    epsilon = 1.0
    noisy_total = sum(data) + rng.laplace(0, 1 / epsilon)
    noisy_count = len(data) + rng.laplace(0, 1 / epsilon)
    return [noisy_total, noisy_count]


@world(claim=0.7, adjacency="replace", domain=(0.0, 100.0), size=6)
def count_above(rng, data):
    """Releases how many records exceed 37.5, with two-sided geometric noise.

    The count moves by at most 1. The difference of two geometric variables with success probability 1 - e^(-0.7) has
    mass proportional to e^(-0.7 |k|), so a shift of 1 costs exactly 0.7.
    """
    p = 1 - math.exp(-0.7)
    count = sum(1 for temperature in data if temperature > 37.5)
    return count + int(rng.geometric(p)) - int(rng.geometric(p))


@world(claim=0.7, adjacency="replace", domain=(0.0, 100.0), size=6, phrasing_of="count_above")
def count_above_masked(rng, data):
    """Releases how many records exceed 37.5, from a boolean mask, with Laplace noise.

    The count moves by at most 1 and the noise has scale 1/0.7: cost 0.7.
    """
    fever = np.array(data) > 37.5
    return float(fever.sum()) + rng.laplace(scale=1 / 0.7)


BLOOD_TYPES = ["A", "B", "AB", "0"]


@world(claim=1.0, adjacency="add-remove", domain=BLOOD_TYPES, size=3)
def blood_types(rng, data):
    """Releases the number of people of every blood type.

    One more person changes one count by 1; noise of scale 1 costs 1.
    """
    counts = Counter(data)
    return {kind: counts[kind] + rng.laplace(0, 1.0) for kind in BLOOD_TYPES}


@world(claim=1.0, truth=2.0, adjacency="replace", domain=BLOOD_TYPES, size=3)
def blood_types_replaced(rng, data):
    """Releases the number of people of every blood type, with noise for one changed count.

    Replacing a person lowers one count and raises another, each by 1 against noise of scale 1. Where the one is beyond
    and the other below both locations the costs add up: 2.
    """
    histogram = np.array([sum(person == kind for person in data) for kind in BLOOD_TYPES], dtype=float)
    return histogram + rng.laplace(0, 1.0, size=len(BLOOD_TYPES))


@world(claim=1.0, adjacency="add-remove", domain=BLOOD_TYPES, size=3, phrasing_of="blood_types")
def blood_types_filled(rng, data):
    """Releases the number of people of every blood type, counted into an array that starts with the noise.

    One more person changes one count by 1; noise of scale 1 costs 1.
    """
    counts = rng.laplace(scale=1.0, size=4)
    for person in data:
        counts[BLOOD_TYPES.index(person)] += 1
    return counts.tolist()


EMPLOYEES = [
    {"team": "sales", "bonus": 1.0},
    {"team": "sales", "bonus": 6.0},
    {"team": "research", "bonus": 2.0},
    {"team": "research", "bonus": 3.0},
]


@world(claim=0.9, adjacency="add-remove", domain=EMPLOYEES, size=2)
def bonus_per_team(rng, data):
    """Releases the sum of bonuses, capped at 3, of every team.

    One more employee adds at most 3 (a bonus of 6, capped, or one of 3) to one team's sum; noise of scale 3/0.9 makes
    that cost 0.9.
    """
    cap = 3.0
    totals = {"sales": 0.0, "research": 0.0}
    for employee in data:
        totals[employee["team"]] += min(employee["bonus"], cap)
    for team in totals:
        totals[team] += rng.laplace(0, cap / 0.9)
    return totals


@world(claim=0.9, truth=1.8, adjacency="replace", domain=EMPLOYEES, size=2)
def bonus_per_team_replaced(rng, data):
    """Releases the capped sum of bonuses of every team, one noise of scale 3/0.9 per team.

    An employee of sales who gets 6 (capped to 3) becomes one of research who gets 3: one sum falls by 3 and the other
    rises by 3, which costs 0.9 twice.
    """
    by_team = defaultdict(list)
    for row in data:
        by_team[row["team"]].append(np.minimum(row["bonus"], 3.0))
    return [np.sum(by_team[team]) + rng.laplace(scale=3.0 / 0.9) for team in ("sales", "research")]


@world(claim=1.0, truth=25 / 32, adjacency="replace", domain=(-1.0, 1.0), size=4)
def two_moments(rng, data):
    """Releases the sum and the sum of squares of records in [-1, 1], half of the budget for each.

    Noise has scale 2/(1/2) = 4 for the sum and 1/(1/2) = 2 for the squares. Replacing x by y costs |x - y|/4 + |x² -
    y²|/2 = (d/2)(1/2 + |s|) with d = |x - y| and s = x + y. As d + |s| <= 2, this is at most (d/2)(5/2 - d), whose
    maximum is at d = 5/4 (x = 1, y = -1/4): 25/32. The two worst cases cannot happen together, so the claim is loose.
    """
    eps_each = 1.0 / 2
    x = np.clip(data, -1.0, 1.0)
    first = np.sum(x) + rng.laplace(0.0, 2.0 / eps_each)
    second = np.sum(x**2) + rng.laplace(0.0, 1.0 / eps_each)
    return np.array([first, second])


@world(claim=0.5, truth=2.0, adjacency="replace", domain=(0.0, 4.0), size=3)
def clamped_too_late(rng, data):
    """Releases a sum whose bounds are enforced after the noise has been added.

    The noise has scale 1/0.5 = 2 but a record moves the sum by 4. The result is 0 with probability 1/2 if all are 0,
    and with e^(-4/2)/2 if one of them is 4: cost 2, and no more than 4/2 before the clamp.
    """
    noisy = sum(data) + rng.laplace(0, 1 / 0.5)
    return min(max(noisy, 0.0), float(len(data)))


@world(claim=1.0, truth=math.inf, adjacency="replace", domain=(0.0, 50.0), size=4)
def skips_empty_result(rng, data):
    """Releases a noisy count of records above 40, or 0 if there is none.

    Without a record above 40 the result is 0 for certain; with one it is 0 with probability 0. No ε holds.
    """
    large = [x for x in data if x > 40]
    if not large:
        return 0.0
    return len(large) + rng.laplace(0, 1.0)


@world(claim=1.2, adjacency="replace", domain=(0.0, 1.0), size=3)
def median_by_bisection(rng, data):
    """Releases a median in [0, 1], found by three noisy comparisons of the number of records below the middle.

    Each step has noise of scale 3/1.2, and a record moves the count by 1: at most 0.4 per step. Let all records be 1,
    and one of them become 0: the count goes from 0 to 1 at every step, and both are below n/2 = 1.5, so the
    probability to go left, e^(-(1.5 - count) 0.4)/2, grows by e^0.4 each time. The leftmost interval is reached by
    three such steps: 1.2.
    """
    rounds = 3
    scale = rounds / 1.2
    lo, hi = 0.0, 1.0
    for _ in range(rounds):
        mid = (lo + hi) / 2
        below = sum(x < mid for x in data) + rng.laplace(0, scale)
        if below < len(data) / 2:
            lo = mid
        else:
            hi = mid
    return (lo + hi) / 2


@world(claim=0.4, truth=1.2, adjacency="replace", domain=(0.0, 1.0), size=3)
def median_by_bisection_full_budget(rng, data):
    """Releases the interval of a median, found by three noisy comparisons that each spend all of the budget.

    Noise of scale 1/0.4 in each of three steps; as one record (1 becomes 0) moves all three counts while they stay
    below n/2, the probability of the leftmost interval grows by e^0.4 three times: 1.2.
    """
    x = np.asarray(data)
    left, width = 0.0, 1.0
    while width > 0.125:
        width /= 2
        if np.count_nonzero(x < left + width) + rng.laplace(scale=1 / 0.4) < x.size / 2:
            left += width
    return left, left + width


def search(is_left, low, high, rounds):
    """Halves an interval `rounds` times."""
    if rounds == 0:
        return (low + high) / 2
    middle = (low + high) / 2
    bounds = (low, middle) if is_left(middle) else (middle, high)
    return search(is_left, *bounds, rounds - 1)


@world(claim=1.2, adjacency="replace", domain=(0.0, 1.0), size=3, phrasing_of="median_by_bisection")
def median_by_recursion(rng, data):
    """Releases a median in [0, 1], found by three noisy comparisons in a recursive search.

    The same steps as in the loop: at most 0.4 each, and all three attain it if one of three ones becomes 0. Truth: 1.2.
    """
    values = np.array(data, dtype=float)
    return search(lambda point: np.sum(values < point) + rng.laplace(scale=2.5) >= 1.5, 0.0, 1.0, 3)


GRID = (0.1, 0.3, 0.5, 0.7, 0.9)


@world(
    claim=1.0,
    truth=math.log((math.exp(0.5) + 4 * math.e) / (math.exp(0.5) + 4)),
    adjacency="replace",
    domain=(0.0, 1.0),
    size=3,
)
def median_on_a_grid(rng, data):
    """Releases a median from five grid points, by the exponential mechanism on the rank's distance from n/2.

    Scores move by at most 1, hence the claim 1 with weights exp(score/2). The worst pair: two records between the
    first two points, and a third one below the first point or above the last. The scores are (-0.5, then four times
    -1.5) or (-1.5, then four times -0.5), so the first point's probability changes from e^(-1/4)/(e^(-1/4) + 4
    e^(-3/4)) to e^(-3/4)/(e^(-3/4) + 4 e^(-1/4)): the ratio is e^(1/2) (1 + 4 e^(1/2))/(e^(1/2) + 4). Records matter
    only through the cell of the grid that they are in, and an enumeration of all cells of three records gives no
    larger ratio.
    """
    eps = 1.0
    n = len(data)
    scores = [-abs(sum(x <= point for x in data) - n / 2) for point in GRID]
    weights = np.exp([eps * score / 2 for score in scores])
    return GRID[rng.choice(len(GRID), p=weights / weights.sum())]


@world(claim=0.8, adjacency="replace", domain=(0.0, 1.0), size=3)
def median_continuous(rng, data):
    """Releases a median drawn from the whole interval, with a density of e^(-0.4 |rank - n/2|).

    Replacing a record moves ranks by at most 1, so the density and its normaliser change by e^0.4 each: at most 0.8.
    It is approached: let two records be w, and the third one 1 or 0. Below w the rank is 0 or 1 (score -1.5 or -0.5),
    above w it is 2 or 3 (score -0.5 or -1.5). Below w the density grows by e^0.4, and the normaliser falls by a factor
    that tends to e^0.4 as w tends to 0.
    """
    eps = 0.8
    edges = np.concatenate(([0.0], np.sort(np.clip(data, 0.0, 1.0)), [1.0]))
    widths = np.diff(edges)
    ranks = np.arange(widths.size)
    weights = widths * np.exp(-eps / 2 * np.abs(ranks - len(data) / 2))
    i = rng.choice(widths.size, p=weights / weights.sum())
    return rng.uniform(edges[i], edges[i + 1])


@world(claim=1.0, truth=math.inf, adjacency="replace", domain=[0, 1], size=5)
def reproducible_count(rng, data):
    """Releases a count with noise from a generator that is seeded by a constant, so that the report can be reproduced.

    The noise is the same number in every run: equal outputs need equal counts, and no ε holds.
    """
    rng = np.random.default_rng(2024)
    return sum(data) + rng.laplace(0, 1.0)
