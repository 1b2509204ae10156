# ruff: noqa: NPY002
"""Mechanisms that release sums, counts, quantiles and trees over records, lists, classes and data frames."""

import itertools
import math
import random
import statistics
from collections import Counter, defaultdict, deque
from dataclasses import dataclass

import numpy as np
import pandas as pd

from .entry import world

UNIT = (0.0, 1.0)


@world(claim=1.0, adjacency="replace", domain=(0.0, 120.0), size=4)
def average_age(ages, rng):
    """Releases a noisy mean age of a known number of people, ages clipped to 0 to 100.

    One person moves the mean of four by 100 / 4 = 25, the scale of the noise: truth 1.
    """
    ages = np.clip(np.asarray(ages, dtype=float), 0, 100)
    sensitivity = 100 / len(ages)
    return ages.mean() + rng.laplace(0, sensitivity / 1.0)


@world(claim=1.0, truth=2.0, adjacency="replace", domain=(0.0, 100.0), size=4)
def average_without_clipping(ages, rng):
    """Releases a mean with noise for values of up to 50, which are not clipped.

    Values reach 100 and move the mean of four by 25, at scale 50 / 4: truth 2.
    """
    upper = 50.0
    scale = upper / (len(ages) * 1.0)
    return np.mean(ages) + rng.laplace(scale=scale)


@world(claim=1.0, truth=math.inf, adjacency="add-remove", domain=UNIT, size=3)
def mean_with_private_size(data):
    """Releases a clipped mean with noise for its own number of records.

    With one record more the scale falls from 1/3 to 1/4, so the ratio of the densities grows without bound: no ε holds.
    """
    arr = np.clip(data, 0.0, 1.0)
    n = len(arr)
    return float(np.mean(arr) + np.random.laplace(0.0, 1.0 / (n * 1.0)))


@world(claim=1.0, adjacency="add-remove", domain=UNIT, size=3)
def mean_by_two_queries(data, epsilon=1.0):
    """Releases a noisy count and the quotient of a noisy sum and that count, each at half the budget.

    A record adds 1 to both, at scale 2 each. Count and quotient give the sum back where the count is above 1: truth 1.
    """
    total = sum(max(0.0, min(1.0, x)) for x in data) + np.random.laplace(scale=2 / epsilon)
    count = len(data) + np.random.laplace(scale=2 / epsilon)
    try:
        mean = total / max(count, 1.0)
    except ZeroDivisionError:
        mean = 0.0
    return {"count": count, "mean": mean}


@world(claim=1.0, adjacency="replace", domain=UNIT, size=3)
def spread(rng, data):
    """Releases the noisy variance of three numbers of [0, 1].

    Replacing one of n numbers moves the variance by at most (n - 1) / n² = 2/9, as from (0, 0, 0) to (0, 0, 1):
    truth 1.
    """
    n = len(data)
    return np.var(data) + rng.laplace(scale=(n - 1) / n**2)


@world(claim=1.0, truth=2.0, adjacency="replace", domain=UNIT, size=4)
def trimmed_mean(rng, data):
    """Releases the mean of the middle two of four numbers, with the noise of a mean of all.

    From (0, 0, 0, 1) to (0, 0, 1, 1) it moves by 1/2, at scale 1/4: truth 2.
    """
    middle = sorted(data)[1:-1]
    return statistics.fmean(middle) + rng.laplace(scale=1 / len(data))


@world(claim=1.0, truth=3.0, adjacency="replace", domain=UNIT, size=3)
def noisy_median(rng, data):
    """Releases a median with the noise of a mean.

    The median of three moves from 0 to 1 with one of them, at scale 1/3: truth 3.
    """
    return np.median(data) + rng.laplace(scale=1.0 / len(data))


@world(claim=1.0, adjacency="replace", domain=UNIT, size=3)
def highest_value(data):
    """Releases the largest number of [0, 1] with the difference of two exponentials, which is Laplace noise.

    It moves by at most 1, at scale 1: truth 1.
    """
    return max(min(x, 1.0) for x in data) + random.expovariate(1.0) - random.expovariate(1.0)


@world(claim=1.0, adjacency="replace", domain=(0.0, 10.0), size=3)
def histogram_of_amounts(rng, data):
    """Releases NumPy's histogram of amounts with noise.

    A replaced amount leaves a bin and enters another, at scale 2: truth 1.
    """
    counts, _ = np.histogram(data, bins=[0, 2, 5, 10])
    return counts + rng.laplace(scale=2.0, size=len(counts))


@world(claim=1.0, truth=2.0, adjacency="replace", domain=(0.0, 10.0), size=3)
def histogram_forgot_replace(rng, data):
    """Releases counts of bins, made with np.add.at, with the noise that suffices where an amount is added.

    A replaced one changes two counts by 1, at scale 1: truth 2.
    """
    edges = np.array([0.0, 2.0, 5.0])
    idx = np.digitize(data, edges) - 1
    counts = np.zeros(3)
    np.add.at(counts, idx, 1)
    return list(counts + rng.laplace(0, 1 / 1.0, 3))


@world(claim=1.0, adjacency="add-remove", domain=[0, 1, 2, 3], size=3)
def grades(data):
    """Releases the counts of four grades with two-sided geometric noise of ratio exp(-1).

    One count changes by 1: truth 1.
    """
    p = 1 - math.exp(-1.0)
    counts = np.bincount(data, minlength=4)
    noise = np.random.geometric(p, size=4) - np.random.geometric(p, size=4)
    return (counts + noise).tolist()


@world(claim=1.0, adjacency="replace", domain=[0, 1, 2], size=3)
def one_hot_counts(rng, data):
    """Releases the noisy sum of one-hot vectors.

    A replaced one moves two entries by 1, at scale 2: truth 1.
    """
    return np.eye(3)[data].sum(axis=0) + rng.laplace(scale=2.0, size=3)


@world(claim=1.0, adjacency="add-remove", domain=(-1.0, 1.0), size=3)
def positive_part(rng, data):
    """Releases the noisy sum of the positive numbers among those of [-1, 1].

    One of them adds at most 1, at scale 1: truth 1.
    """
    x = np.asarray(data)
    return x[x > 0].sum() + rng.laplace(scale=1.0)


@world(claim=1.0, adjacency="replace", domain=(0.0, 8.0), size=3)
def capped_total(rng, data):
    """Releases a noisy sum of numbers that np.where caps at 5.

    One of them moves it by at most 5, at scale 5: truth 1.
    """
    x = np.array(data)
    capped = np.where(x > 5, 5, x)
    return np.sum(capped) + rng.laplace(scale=5.0)


@world(claim=1.0, truth=1.6, adjacency="replace", domain=(0.0, 8.0), size=3)
def capped_after_the_sum(rng, data):
    """Releases a sum that is capped as a whole, with noise for a cap on each number.

    A number moves the sum from 12 to the cap of 20, by 8 at scale 5: truth 1.6.
    """
    total = min(sum(data), 5 * len(data) + 5)
    return total + rng.laplace(scale=5.0)


@world(claim=1.0, truth=0.875, adjacency="replace", domain=UNIT, size=2)
def kmeans_step(rng, data):
    """Releases the noisy sums and counts of the points next to two public centres.

    A point that changes sides takes up to 1/2 from one sum, adds up to 1 to the other, and moves two counts by 1: 3.5
    at scale 4, truth 0.875.
    """
    centres = np.array([0.25, 0.75])
    points = np.asarray(data, dtype=float)
    nearest = np.argmin(np.abs(points[:, None] - centres[None, :]), axis=1)
    out = []
    for k in range(2):
        members = points[nearest == k]
        out.append((members.sum() + rng.laplace(scale=4.0), len(members) + rng.laplace(scale=4.0)))
    return out


@dataclass
class Employee:
    """dept and salary in thousands."""

    dept: str
    salary: float


STAFF = [Employee("it", 80.0), Employee("hr", 55.0), Employee("it", 140.0), Employee("ops", 30.0)]


@world(claim=1.0, adjacency="add-remove", domain=STAFF, size=2)
def payroll(rng, employees):
    """Releases noisy payrolls by department, salaries capped at 100, rounded to cents.

    An employee adds at most 100, at scale 100; rounding keeps the ratio of the tails: truth 1.
    """
    sums = defaultdict(float)
    for e in employees:
        sums[e.dept] += min(e.salary, 100.0)
    return {d: round(sums[d] + rng.laplace(scale=100.0), 2) for d in ("it", "hr", "ops")}


@world(claim=1.0, truth=1.55, adjacency="replace", domain=STAFF, size=2)
def payroll_replaced(rng, employees):
    """Releases the same sums where an employee is replaced.

    From 100 in one department to 55 in another, 155 at scale 100: truth 1.55.
    """
    sums = defaultdict(float)
    for e in employees:
        sums[e.dept] += min(e.salary, 100.0)
    return {d: sums[d] + rng.laplace(scale=100.0) for d in ("it", "hr", "ops")}


PEOPLE = pd.DataFrame(
    {"dept": ["it", "hr", "it", "ops"], "salary": [80.0, 55.0, 140.0, 30.0], "member": [True, False, True, True]}
)


@world(claim=1.0, adjacency="add-remove", domain=PEOPLE, size=2)
def payroll_frame(rng, df):
    """Releases the payrolls of a data frame by groupby and reindex.

    An employee adds at most 100 to one of them, at scale 100: truth 1.
    """
    sums = df.assign(salary=df["salary"].clip(0, 100)).groupby("dept")["salary"].sum()
    sums = sums.reindex(["it", "hr", "ops"], fill_value=0.0)
    return sums + rng.laplace(scale=100.0, size=len(sums))


@world(claim=1.0, truth=2.0, adjacency="replace", domain=PEOPLE, size=2)
def member_counts_frame(rng, df):
    """Releases value counts of a column with noise for a single count.

    A replaced row may move both by 1, at scale 1: truth 2.
    """
    counts = df["member"].value_counts()
    return {flag: counts.get(flag, 0) + rng.laplace(scale=1.0) for flag in (True, False)}


@world(claim=1.0, adjacency="replace", domain=PEOPLE, size=2)
def income_share_frame(df):
    """Releases the noisy share of high salaries as a text.

    The count moves by 1 at scale 1, and texts of far tails keep the ratio e: truth 1.
    """
    high = (df["salary"] > 50).sum() + np.random.laplace(0, 1)
    return f"{100 * high / len(df):.1f}%"


BASKETS = [("milk",), ("bread", "milk"), ("eggs", "milk", "bread")]


@world(claim=1.0, adjacency="add-remove", domain=BASKETS, size=2)
def basket_items_bounded(rng, baskets):
    """Releases noisy counts of items, of which a basket adds at most two.

    Two counts move by 1, at scale 2: truth 1.
    """
    counts = Counter(item for basket in baskets for item in sorted(basket)[:2])
    return [counts[item] + rng.laplace(scale=2.0) for item in ("bread", "eggs", "milk")]


@world(claim=1.0, truth=1.5, adjacency="add-remove", domain=BASKETS, size=2)
def basket_items_unbounded(rng, baskets):
    """Releases the same counts without a bound on what a basket adds.

    A basket of three moves three counts by 1, at scale 2: truth 1.5.
    """
    counts = Counter(itertools.chain.from_iterable(baskets))
    return [counts[item] + rng.laplace(scale=2.0) for item in ("bread", "eggs", "milk")]


@world(claim=math.log(3), truth=math.log(5 / 3), adjacency="replace", domain=[0, 1], size=3)
def one_random_answer(rng, data):
    """Releases the randomised answer of one person of three, chosen at random.

    P[1] is 1/4 + k/6 for k ones. From k = 0 to 1 it grows by the factor 5/3: truth log(5/3).
    """
    bit = data[rng.integers(len(data))]
    return bit if rng.random() < 0.75 else 1 - bit


@world(claim=1.0, truth=math.log(1 + (math.e - 1) / 2), adjacency="replace", domain=UNIT, size=2)
def sampled_sum(rng, data):
    """Releases the noisy sum of a random half of the records.

    Where a record of 1 replaces one of 0, half of the mass is shifted by 1: far above, the density grows by 1/2 + e/2,
    and no other pair gives more: truth log((1 + e) / 2).
    """
    x = np.asarray(data)
    mask = rng.random(len(x)) < 0.5
    return x[mask].sum() + rng.laplace(scale=1.0)


@world(claim=1.0, truth=2.0, adjacency="replace", domain=(-1.0, 1.0), size=3)
def signed_sum(rng, data):
    """Releases a sum of numbers clipped to [-1, 1] with noise for numbers of [0, 1].

    It moves by 2, at scale 1: truth 2.
    """
    return np.clip(data, -1, 1).sum() + rng.laplace(scale=1.0)


@world(claim=1.0, truth=3.0, adjacency="l1", size=3)
def running_total(data):
    """Releases noisy running totals, each with the noise for one of them.

    The first number moves all three by 1, at scale 1: truth 3.
    """
    return [total + random.expovariate(1) - random.expovariate(1) for total in itertools.accumulate(data)]


@world(claim=1.0, truth=1.0, adjacency="l1", size=4)
def sliding_window(rng, data):
    """Releases noisy sums of a window of two.

    A number is in two windows, at scale 2: truth 1.
    """
    window, sums = deque(maxlen=2), []
    for x in data:
        window.append(x)
        sums.append(sum(window) + rng.laplace(scale=2.0))
    return sums


@world(claim=1.0, adjacency="l1", size=2)
def linear_queries(rng, data):
    """Releases a noisy product of a public matrix and the data.

    The first number moves the answers by the L1 norm of its column, 3, at scale 3: truth 1.
    """
    w = np.array([[1.0, 1.0], [1.0, 0.0], [1.0, -1.0]])
    sensitivity = np.abs(w).sum(axis=0).max()
    return w @ np.asarray(data) + rng.laplace(scale=sensitivity, size=3)


@world(claim=1.0, truth=3 / 2, adjacency="l1", size=2)
def linear_queries_row_norm(rng, data):
    """Releases the same product with the norm of a row for that of a column.

    The rows have a norm of at most 2, the first column one of 3: truth 1.5.
    """
    w = np.array([[1.0, 1.0], [1.0, 0.0], [1.0, -1.0]])
    sensitivity = np.linalg.norm(w, ord=np.inf)
    return w.dot(data) + rng.laplace(scale=sensitivity, size=3)


class TreeCounter:
    """Binary mechanism."""

    def __init__(self, horizon=4, epsilon=1.0, seed=None):
        self.rng = np.random.default_rng(seed)
        self.levels = int(math.log2(horizon)) + 1
        self.scale = self.levels / epsilon
        self.exact = [0.0] * self.levels
        self.noisy = [0.0] * self.levels

    def step(self, t, x):
        level = (t & -t).bit_length() - 1
        self.exact[level] = sum(self.exact[:level]) + x
        for j in range(level):
            self.exact[j] = self.noisy[j] = 0.0
        self.noisy[level] = self.exact[level] + self.rng.laplace(scale=self.scale)
        return sum(self.noisy[j] for j in range(self.levels) if t >> j & 1)


@world(claim=1.0, adjacency="l1", size=4)
def stream_counter(data):
    """Releases the running totals of the binary mechanism (Chan, Shi and Song).

    A number is in at most three of the nodes [1], [1, 2], [3] and [1, …, 4], which the totals determine, at
    scale 3: truth 1.
    """
    counter = TreeCounter(horizon=len(data))
    return [counter.step(t, x) for t, x in enumerate(data, start=1)]


def noisy_nodes(values, scale, rng):
    node = sum(values) + rng.laplace(scale=scale)
    if len(values) == 1:
        return [node]
    half = len(values) // 2
    return [node, *noisy_nodes(values[:half], scale, rng), *noisy_nodes(values[half:], scale, rng)]


@world(claim=1.0, truth=1.5, adjacency="l1", size=4)
def tree_by_recursion(data, rng):
    """Releases the noisy sums of all nodes of a binary tree, with noise for a depth of log2(4) = 2.

    A number is in three nodes, at scale 2: truth 1.5.
    """
    return noisy_nodes(list(data), math.log2(len(data)) / 1.0, rng)
