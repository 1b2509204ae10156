"""Local privacy: one person's value, randomised before it leaves."""

from __future__ import annotations

import math

import mmh3
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from veridp.mechanism import mechanism

INTEGERS = range(-10, 11)  # the values whose owners RAPPOR hides among each other


@mechanism(adjacency="any", cost=lambda epsilon: epsilon, size=1, domain=[False, True])
def randomized_response(rng: Generator, bit: bool, *, epsilon: float = 0.1) -> bool:
    """The bit with probability e^ε/(1 + e^ε), else its opposite.

    Warner, "Randomized Response" (JASA 1965). ε is attained.
    """
    if rng.random() < 1 / (1 + math.exp(-epsilon)):
        return bit
    return not bit


def bloom_filter(value: int, hashes: int, bits: int) -> NDArray[np.bool_]:
    """The Bloom filter of the value's decimal digits: MurmurHash3 with seeds 0, 1, …, modulo the number of bits."""
    filled = np.zeros(bits, dtype=bool)
    for seed in range(hashes):
        filled[mmh3.hash(str(int(value)), seed) % bits] = True
    return filled


def filter_cost(hashes: int, bits: int, set_rate: float, clear_rate: float) -> float:
    """The true ε over the INTEGERS of reporting 1 with one rate for set bits, with the other for clear ones."""
    filters = [bloom_filter(value, hashes, bits) for value in INTEGERS]
    differences = {
        (int(np.sum(left & ~right)), int(np.sum(right & ~left)))
        for left in filters
        for right in filters
        if np.any(left != right)
    }
    return max((_evidence(set_rate, clear_rate, *counts) for counts in differences), default=0.0)


def filter_claim(hashes: int, set_rate: float, clear_rate: float) -> float:
    """What RAPPOR's authors claim: two filters differ in at most `hashes` bits either way."""
    return _evidence(set_rate, clear_rate, hashes, hashes)


def _evidence(set_rate: float, clear_rate: float, left_only: int, right_only: int) -> float:
    """How much the most telling report speaks for the left filter, with so many bits set in it alone, or not in it."""
    rates = ((set_rate, clear_rate, left_only), (clear_rate, set_rate, right_only))
    return sum(
        bits * max(_log_ratio(left, right), _log_ratio(1 - left, 1 - right))
        for left, right, bits in rates
        if bits  # no bits tell nothing, even where one would tell all
    )


def _log_ratio(left: float, right: float) -> float:
    if left <= 0:
        return -math.inf
    return math.log(left / right) if right > 0 else math.inf


@mechanism(
    epsilon=lambda hashes, f: filter_claim(hashes, 1 - f / 2, f / 2),
    adjacency="any",
    cost=lambda hashes, bits, f: filter_cost(hashes, bits, 1 - f / 2, f / 2),
    size=1,
    domain=INTEGERS,
)
def one_time_rappor(
    rng: Generator, value: int, *, hashes: int = 4, bits: int = 20, f: float = 0.95
) -> NDArray[np.bool_]:
    """The Bloom filter of the value, each bit kept with probability 1 - f/2, else turned.

    Erlingsson, Pihur, Korolova, "RAPPOR" (CCS 2014), the permanent randomised response, which claims
    2h ln((1 - f/2)/(f/2)). The true cost is ln((1 - f/2)/(f/2)) for each bit in which two filters differ, attained.
    """
    bloom = bloom_filter(value, hashes, bits)
    return rng.random(bits) < np.where(bloom, 1 - f / 2, f / 2)


def report_rate(f: float, kept: float, other: float) -> float:
    """How often a bit is reported as 1 whose permanent response is right but for f: f/2 (p + q) + (1 - f) kept."""
    return f * (kept + other) / 2 + (1 - f) * kept


@mechanism(
    epsilon=lambda hashes, f, p, q: filter_claim(hashes, report_rate(f, q, p), report_rate(f, p, q)),
    adjacency="any",
    cost=lambda hashes, bits, f, p, q: filter_cost(hashes, bits, report_rate(f, q, p), report_rate(f, p, q)),
    size=1,
    domain=INTEGERS,
)
def rappor(
    rng: Generator,
    value: int,
    *,
    hashes: int = 4,
    bits: int = 20,
    f: float = 0.75,
    p: float = 0.45,
    q: float = 0.55,
) -> NDArray[np.bool_]:
    """One report on the value: its Bloom filter after the permanent and the instantaneous randomised response.

    Erlingsson, Pihur, Korolova, "RAPPOR" (CCS 2014): each bit is kept with probability 1 - f/2, else turned; then a
    set bit is reported as 1 with probability q, a clear one with probability p < q. A bit set by the value is reported
    as 1 with probability q* = f/2 (p + q) + (1 - f) q, another with p* = f/2 (p + q) + (1 - f) p; the claim for one
    report is h ln(q*(1 - p*)/(p*(1 - q*))). The true cost counts the bits in which two filters differ; attained.
    """
    bloom = bloom_filter(value, hashes, bits)
    permanent = rng.random(bits) < np.where(bloom, 1 - f / 2, f / 2)
    return rng.random(bits) < np.where(permanent, q, p)
