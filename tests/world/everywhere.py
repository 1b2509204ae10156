# ruff: noqa: RUF046
"""Mechanisms that use one construct each of what people know of Python and NumPy, as it came to mind."""

import hashlib
import json
import math
import os
import random
import statistics
from collections import Counter

import numpy as np

from .entry import world

UNIT = (0.0, 1.0)


@world(claim=1.0, adjacency="replace", domain=(0.0, 10.0), size=4)
def largest_by_percentile(rng, x):
    """Releases the largest of four numbers of [0, 10] as a percentile: it moves by 10, at scale 10: truth 1."""
    return np.percentile(x, 100) + rng.laplace(scale=10.0)


@world(claim=1.0, adjacency="linf", domain=(0.0, 10.0), size=4)
def upper_quartile(rng, x):
    """Releases a quartile of numbers that all move by up to 1, and it with them: truth 1."""
    return np.quantile(np.asarray(x), 0.75) + rng.laplace(scale=1.0)


@world(claim=1.0, adjacency="replace", domain=(-1.0, 1.0), size=4)
def trimmed_mean(rng, x):
    """Releases the mean of the inner two of four numbers of [-1, 1].

    From (-1, -1, 1, 1) to (-1, 1, 1, 1) it moves by 1, and never by more: truth 1.
    """
    inner = sorted(x)[1:-1]
    return sum(inner) / len(inner) + rng.laplace(scale=1.0)


@world(claim=1.0, truth=2.0, adjacency="linf", domain=UNIT, size=3)
def spread_of_scores(rng, x):
    """Releases np.ptp of three numbers with noise for 1/2.

    Its ends move apart by up to 1 in all, from equal numbers to 0 and 1: truth 2 at scale 1/2.
    """
    return np.ptp(x) + rng.laplace(scale=0.5)


@world(claim=1.0, truth=math.sqrt(3) / 3, adjacency="replace", domain=UNIT, size=3)
def deviation_by_statistics(rng, x):
    """Releases statistics.stdev of three numbers of [0, 1], at scale 1.

    From three equal ends to one at the other end it rises to sqrt(2/3 / 2) = sqrt(3)/3, the most it can be.
    """
    return statistics.stdev(x) + rng.laplace()


@world(claim=1.0, adjacency="l1", domain=(0.0, 10.0), size=3)
def filled_by_iteration(rng, x):
    """Fills an array by an iterator of noisy entries: truth 1."""
    return np.fromiter((v + rng.laplace() for v in x), dtype=float)


@world(claim=1.0, adjacency="l1", domain=(0.0, 10.0), size=4)
def products_by_einsum(rng, x):
    """Multiplies noisy numbers by an orthogonal matrix: truth 1."""
    turn = np.array([[1.0, 1.0], [1.0, -1.0]]) / math.sqrt(2)
    noisy = np.reshape(x, (2, 2)) + rng.laplace(size=(2, 2))
    return np.einsum("ij,jk->ik", noisy, turn)


@world(claim=1.0, adjacency="l1", domain=(0.0, 10.0), size=3)
def report_line_by_line(rng, x):
    """Writes three noisy counts, small ones as "<5", line by line: each is a function of one of them, truth 1."""
    lines = []
    for name, value in zip("abc", x, strict=True):
        noisy = value + rng.laplace()
        lines.append(f"{name}: {'<5' if noisy < 5 else int(round(noisy))}")
    return "\n".join(lines)


@world(claim=1.0, adjacency="add-remove", domain=["ok", "failed"], size=3)
def jobs_as_json(rng, jobs):
    """Writes two noisy counts as JSON, of which a job moves one: truth 1."""
    counts = Counter(jobs)
    noisy = {state: round(counts[state] + rng.laplace(), 2) for state in ("ok", "failed")}
    return json.dumps({"jobs": noisy, "unit": "count"})


@world(claim=1.0, adjacency="linf", domain=(0.0, 10.0), size=1)
def percent_text(rng, x):
    """Writes a noisy number by the % operator: truth 1."""
    return "%.1f%%" % (x[0] + rng.laplace())


@world(claim=math.log(2), adjacency="linf", size=3)
def doubling_weights(rng, scores):
    """Chooses with weights 2^(score/2), which the exponential mechanism has with ε = ln 2 for sensitivity 1."""
    weights = 2.0 ** (np.array(scores) / 2)
    return int(rng.choice(3, p=weights / weights.sum()))


@world(claim=1.0, adjacency="linf", size=3)
def exponential_race(rng, scores):
    """Chooses the first of three exponential clocks with rates exp(score/2): the exponential mechanism, truth 1."""
    rates = np.exp(np.array(scores) / 2)
    return int(np.argmin(rng.exponential(size=3) / rates))


@world(claim=1.0, adjacency="linf", size=3)
def choice_by_searchsorted(rng, scores):
    """Chooses by inversion of the cumulative weights exp(score/2): truth 1."""
    weights = np.exp(0.5 * (np.asarray(scores) - max(scores)))
    return int(np.searchsorted(np.cumsum(weights / weights.sum()), rng.random()))


@world(claim=1.0, adjacency="any", domain=list(range(8)))
def local_hash(rng, value):
    """Hashes a value to four buckets by a salt of 31 bits and tells the bucket with odds e : 3.

    The salt is public and any salt is as likely: truth 1, where two values have other buckets.
    """
    salt = int(rng.integers(2**31))
    bucket = (salt * 31 + value * 7919) % 4
    if rng.random() < math.e / (math.e + 3):
        return salt, bucket
    return salt, (bucket + int(rng.integers(1, 4))) % 4


@world(claim=1.0, truth=math.inf, adjacency="any", domain=list(range(8)), phrasing_of="local_hash")
def local_hash_without_noise(rng, value):
    """Releases the salt and the bucket themselves: no ε holds."""
    salt = int(rng.integers(2**31))
    return salt, (salt * 31 + value * 7919) % 4


@world(claim=1.0, adjacency="any", domain=list(range(6)))
def local_hash_by_digest(value):
    """Hashes by a digest of salt and value to two buckets, and tells the bucket with odds e : 1: truth 1."""
    salt = random.randrange(16)
    bucket = hashlib.sha256(f"{salt}:{value}".encode()).digest()[0] % 2
    return salt, bucket if random.random() < math.e / (math.e + 1) else 1 - bucket


@world(claim=2 * math.log(3), adjacency="any", domain=list(range(16)))
def bits_as_text(rng, value):
    """Writes sixteen bits, each kept with 3/4, as a text: two bits differ, truth 2 ln 3."""
    return "".join(str(int((rng.random() < 0.25) != (i == value))) for i in range(16))


@world(claim=2 * math.log(3), adjacency="any", domain=list(range(16)), phrasing_of="bits_as_text")
def places_of_bits(rng, value):
    """Releases the set of places where such bits are 1: truth 2 ln 3."""
    return {i for i in range(16) if (rng.random() < 0.25) != (i == value)}


@world(claim=1.0, adjacency="add-remove", domain=["a", "b", "c"], size=3)
def frequent_letters(rng, letters):
    """Releases the set of letters whose noisy counts exceed 1.

    A letter that comes moves one count by 1 at scale 1; below the threshold the chance to pass rises by e: truth 1.
    """
    return {letter for letter in "abc" if letters.count(letter) + rng.laplace() > 1}


@world(claim=1.0, adjacency="add-remove", domain=UNIT, size=3)
def tagged_total(rng, x):
    """Releases a random tag of 63 bits and a noisy sum: truth 1."""
    return int(rng.integers(2**63)), sum(x) + rng.laplace()


@world(claim=1.0, adjacency="add-remove", domain=UNIT, size=3)
def total_by_system_bytes(x):
    """Releases a sum with Laplace noise by inversion, from eight bytes of the operating system: truth 1."""
    u = (int.from_bytes(os.urandom(8), "big") + 0.5) / 2**64 - 0.5
    return sum(x) - math.copysign(1.0, u) * math.log(1 - 2 * abs(u))


@world(claim=1.0, adjacency="linf", domain=(0.0, 5.0), size=1)
def laplace_of_four_normals(rng, x):
    """Adds the determinant of four normal numbers, which is Laplace noise: truth 1."""
    a, b, c, d = rng.standard_normal(4)
    return x[0] + a * d - b * c


@world(claim=1.0, adjacency="linf", domain=(0.0, 10.0), size=1)
def nan_below_zero(rng, x):
    """Releases a noisy number, and NaN for a negative one: truth 1."""
    noisy = np.array([x[0] + rng.laplace()])
    noisy[noisy < 0] = np.nan
    return noisy


@world(claim=1.0, adjacency="replace", domain=[{"sex": "f", "age": 1.0}, {"sex": "m", "age": 3.0}], size=3)
def mean_age_of_dicts(rng, rows):
    """Releases the mean of ages 1 and 3 of three people: it moves by 2/3, which is the scale: truth 1."""
    return np.mean([row["age"] for row in rows]) + rng.laplace(scale=2 / 3)
