"""Mechanisms with finitely many outcomes, few or a great many: local reports, subsets, shuffles, tables."""

import bisect
import hashlib
import itertools
import math
import random

import numpy as np

from .entry import world

PRIME = 2**31 - 1


@world(claim=1.0, adjacency="any", domain=[0, 1, 2, 3, 4])
def local_hashing(rng, value):
    """Reports a random hash function and the noisy hash of the value (optimal local hashing, 4 buckets).

    The seed does not depend on the value. Given it, the hash is reported with probability e / (e + 3), any other
    bucket with 1 / (e + 3); some seed gives two values different hashes: truth 1.
    """
    epsilon, buckets = 1.0, 4
    seed = int(rng.integers(2**31))
    digest = hashlib.sha256(f"{seed}|{value}".encode()).digest()
    bucket = digest[0] % buckets
    p = math.exp(epsilon) / (math.exp(epsilon) + buckets - 1)
    if rng.random() >= p:
        shift = int(rng.integers(1, buckets))
        bucket = (bucket + shift) % buckets
    return seed, bucket


@world(claim=1.0, adjacency="any", domain=[0, 1, 2, 3, 4], phrasing_of="local_hashing")
def local_hashing_universal(value):
    """Reports the same, with a universal hash a x + b modulo a prime.

    Given the hash function, e / (e + 3) against 1 / (e + 3), and most functions separate any two values: truth 1.
    """
    a, b = random.randrange(1, PRIME), random.randrange(PRIME)
    hashed = ((a * value + b) % PRIME) % 4
    weights = [math.e if j == hashed else 1.0 for j in range(4)]
    (report,) = random.choices(range(4), weights)
    return {"a": a, "b": b, "bucket": report}


@world(claim=2 * math.log(3), adjacency="any", domain=["ios", "android", "windows", "linux", "other"])
def rappor(rng, platform):
    """Reports one noisy bit per platform (permanent response of RAPPOR with f = 1/2).

    A bit tells the truth with probability 3/4, and two platforms differ in two bits: truth 2 log 3.
    """
    f = 0.5
    bits = []
    for name in ["ios", "android", "windows", "linux", "other"]:
        u = rng.random()
        if u < f / 2:
            bits.append(1)
        elif u < f:
            bits.append(0)
        else:
            bits.append(1 if name == platform else 0)
    return bits


@world(
    claim=2 * math.log(3),
    adjacency="any",
    domain=["ios", "android", "windows", "linux", "other"],
    phrasing_of="rappor",
)
def rappor_array(rng, platform):
    """Reports the same bits, with arrays.

    3/4 against 1/4 in two bits: truth 2 log 3.
    """
    names = np.array(["ios", "android", "windows", "linux", "other"])
    true_bits = (names == platform).astype(int)
    random_bits = rng.integers(0, 2, size=names.size)
    return np.where(rng.random(names.size) < 0.5, random_bits, true_bits)


@world(claim=1.0, truth=2.0, adjacency="any", domain=[0, 1, 2, 3, 4, 5, 6, 7])
def unary_full_budget(rng, value):
    """Reports eight noisy bits, each flipped as if it were the only one that depends on the value.

    A bit is kept with odds e; two values differ in two bits: truth 2.
    """
    keep = math.exp(1.0) / (1 + math.exp(1.0))
    one_hot = np.eye(8, dtype=bool)[value]
    return [bool(bit) if rng.random() < keep else not bit for bit in one_hot]


@world(claim=1.0, adjacency="replace", domain=["a", "b", "c", "d"], size=3)
def grr_everyone(rng, data):
    """Releases everyone's letter after generalised randomised response.

    One letter changes; it is kept with probability e / (e + 3), and becomes any other with 1 / (e + 3): truth 1.
    """
    alphabet = ["a", "b", "c", "d"]
    p = math.exp(1.0) / (math.exp(1.0) + len(alphabet) - 1)
    released = []
    for letter in data:
        if rng.random() < p:
            released.append(letter)
        else:
            others = [x for x in alphabet if x != letter]
            released.append(others[rng.integers(len(others))])
    return released


@world(
    claim=1.0,
    truth=math.log(1 + 4 * math.e / 3),
    adjacency="replace",
    domain=["a", "b", "c", "d"],
    size=3,
)
def grr_everyone_any_letter(rng, data):
    """Releases everyone's letter; a letter that is not kept becomes any letter, its own included.

    With p = e / (e + 3), p + (1 - p) / 4 against (1 - p) / 4 is a factor of 1 + 4 p / (1 - p) = 1 + 4 e / 3, more
    than e.
    """
    alphabet = np.array(["a", "b", "c", "d"])
    p = np.exp(1.0) / (np.exp(1.0) + alphabet.size - 1)
    keep = rng.random(len(data)) < p
    return [str(x) for x in np.where(keep, np.asarray(data), rng.choice(alphabet, size=len(data)))]


@world(claim=math.log(2), adjacency="any", domain=list(range(6)))
def subset_selection(value):
    """Reports two of six values, which include the true one with odds e^ε · 2 : 4 for e^ε = 2.

    With probability 1/2, the true value and one of 5 others (1/10 per set); else two of the 5 others (1/20 per set):
    the factor is 2, truth log 2.
    """
    k, d, odds = 6, 2, 2
    others = [v for v in range(k) if v != value]
    if random.random() < d * odds / (d * odds + k - d):
        return frozenset([value, *random.sample(others, d - 1)])
    return frozenset(random.sample(others, d))


@world(claim=math.log(2), adjacency="any", domain=list(range(6)), phrasing_of="subset_selection")
def subset_selection_choice(rng, value):
    """Reports the same sets as sorted tuples, with one draw among all 15 sets.

    Weight 2 for the 5 sets with the true value, 1 for the other 10: a factor of 2, truth log 2.
    """
    sets = list(itertools.combinations(range(6), 2))
    weights = np.array([2.0 if value in s else 1.0 for s in sets])
    return sets[rng.choice(len(sets), p=weights / weights.sum())]


@world(claim=1.0, truth=2.0, adjacency="replace", domain=[0, 1], size=4)
def shuffled_reports(rng, data):
    """Releases everyone's randomised response of ε = 2 in random order, with the budget halved for the shuffling.

    If all others have 0, the probability of four zeros differs by the factor of one report, e²: a shuffle saves
    nothing at δ = 0, truth 2.
    """
    flip = 1 / (1 + math.exp(2.0))
    reports = [1 - x if rng.random() < flip else x for x in data]
    rng.shuffle(reports)
    return reports


@world(claim=1.0, truth=2.0, adjacency="replace", domain=[0, 1], size=4, phrasing_of="shuffled_reports")
def shuffled_reports_permutation(rng, data):
    """Releases the same reports in the order of a permutation.

    Four zeros are e² times more likely if the fourth is a zero: truth 2.
    """
    truthful = rng.random(len(data)) < 1 / (1 + np.exp(-2.0))
    reports = np.where(truthful, data, 1 - np.asarray(data))
    return reports[rng.permutation(len(data))]


@world(claim=1.0, adjacency="any", domain=[1, 2, 3, 500, 40_000])
def hadamard_bit(rng, value):
    """Reports a random row of a Hadamard matrix of size 65536 and the noisy entry for the value.

    The row is independent of the value; the entry is flipped with odds 1 : e, and some row separates any two values:
    truth 1.
    """
    row = int(rng.integers(2**16))
    sign = -1 if (row & value).bit_count() % 2 else 1
    if rng.random() < 1 / (1 + math.e):
        sign = -sign
    return row, sign


@world(claim=1.0, adjacency="any", domain=[1, 2, 3, 500, 40_000], phrasing_of="hadamard_bit")
def hadamard_bit_stdlib(value):
    """Reports the same row and entry as a string.

    A random mask and the parity of the masked value, kept with odds e : 1: truth 1.
    """
    mask = random.getrandbits(16)
    parity = bin(mask & value).count("1") & 1
    parity ^= random.uniform(0, 1 + math.e) < 1
    return f"{mask:016b}:{parity}"


@world(claim=1.0, adjacency="linf", size=4)
def table_choice(rng, data):
    """Releases an index with probability proportional to exp(score / 2), by inverting a cumulative table.

    One score up by 1 and all others, which have nearly all weight, down by 1: the factor tends to e: truth 1.
    """
    scores = np.asarray(data, dtype=float)
    weights = np.exp(0.5 * (scores - np.max(scores)))
    cumulative = np.cumsum(weights)
    return int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"))


@world(claim=1.0, adjacency="linf", size=4, phrasing_of="table_choice")
def table_choice_bisect(data):
    """Releases the same index with the standard library.

    Weights exp(score / 2): truth 1.
    """
    top = max(data)
    table = list(itertools.accumulate(math.exp((s - top) / 2) for s in data))
    return bisect.bisect_right(table, random.random() * table[-1])


@world(claim=2.0, truth=1.5, adjacency="any", domain=[0, 1, 2, 3])
def rating_report(rng, value):
    """Reports a rating of 0 to 3 by a table of probabilities that fall with the distance.

    Row x is proportional to exp(-|y - x| / 2). The rows of 0 and 3 have equal sums and differ by exp(3/2) at both
    ends; no other pair differs by more: truth 3/2.
    """
    table = [[math.exp(-abs(y - x) / 2) for y in range(4)] for x in range(4)]
    row = table[value]
    u = rng.random() * sum(row)
    for y, weight in enumerate(row):
        u -= weight
        if u < 0:
            return y
    return 3


VOTE_COST = math.log(math.exp(0.5) * (math.exp(1.5) + 2) / (math.e + math.exp(0.5) + 1))


@world(claim=1.0, truth=VOTE_COST, adjacency="replace", domain=["tea", "mate", "water"], size=3)
def wheel_of_votes(rng, data):
    """Releases a drink by a wheel of fortune whose parts are proportional to exp(votes / 2).

    Moving a vote to a drink without votes from one with all three is the worst, from 1 / (exp(3/2) + 2) to exp(1/2) /
    (e + exp(1/2) + 1). The wheel has a gap of 1e-16 where the sum of its parts is rounded down.
    """
    drinks = ["tea", "mate", "water"]
    weights = [math.exp(0.5 * data.count(drink)) for drink in drinks]
    total = sum(weights)
    u, edge = rng.random(), 0.0
    for drink, weight in zip(drinks, weights, strict=True):
        edge += weight / total
        if u < edge:
            return drink
    return None


@world(
    claim=1.0,
    truth=VOTE_COST,
    adjacency="replace",
    domain=["tea", "mate", "water"],
    size=3,
    phrasing_of="wheel_of_votes",
)
def wheel_of_votes_array(rng, data):
    """Releases the same drink with arrays: its index is out of range where the sum is rounded down.

    Weights exp(votes / 2), and the worst vote as above.
    """
    drinks = ["tea", "mate", "water"]
    weights = np.exp(0.5 * np.array([data.count(drink) for drink in drinks]))
    edges = np.cumsum(weights / weights.sum())
    return drinks[int(np.searchsorted(edges, rng.random()))]
