"""The protocols of harmless opening: privacy, unbiasedness and lengths, all exact."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from veridp.collect import GRRHO, PMHO, SRHO, VGRR, VOLH, VOUE, Rates, Task, rates
from veridp.collect.estimate import variance
from veridp.collect.harmless import Harmless
from veridp.collect.protocols import OfNumbers
from veridp.errors import BadInput

SESSION = bytes(range(16))
ITEMS = tuple(f"item{i}" for i in range(6))
PROTOCOLS: list[Harmless] = [
    *(kind(copies, ITEMS) for kind in (VGRR, VOUE, VOLH) for copies in (Rates(2, 1), Rates(3, 2), Rates(7, 2))),
    *(GRRHO(copies, -1.0, 3.0, points) for copies in (Rates(2, 1), Rates(5, 2)) for points in (2, 6)),
    *(SRHO(copies, -1.0, 3.0, times) for copies in (Rates(2, 1), Rates(5, 2)) for times in (1, 4)),
    *(PMHO(copies, -1.0, 3.0, bins) for copies in (Rates(2, 1), Rates(5, 2)) for bins in (3, 9)),
]


def name(protocol: Harmless) -> str:
    return f"{protocol.name}-{protocol.rates.held}:{protocol.rates.other}-{protocol.layout.values}"


def mean_estimate(protocol: Harmless, chosen: int, column: int) -> Fraction:
    """The exact expectation of the estimate from one honest report."""
    law = protocol.law(chosen, SESSION)
    mean = sum(
        share * protocol.raw(block, value, column, SESSION)
        for block, shares in enumerate(law)
        for value, share in enumerate(shares)
    )
    return protocol.scaled(Fraction(mean))


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=name)
def test_the_loss_is_exactly_the_ratio_of_copies(protocol: Harmless) -> None:
    """max over outputs and pairs of inputs of P[y | x] / P[y | x'], block by block where these are independent."""
    worst = Fraction(1)
    for left, right in itertools.permutations(range(protocol.inputs), 2):
        loss = Fraction(1)
        for one, other in zip(protocol.law(left, SESSION), protocol.law(right, SESSION), strict=True):
            loss *= max(a / b for a, b in zip(one, other, strict=True))
        worst = max(worst, loss)
    assert worst == protocol.rates.ratio


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=name)
def test_honest_vectors_keep_the_floors_and_the_length(protocol: Harmless) -> None:
    for chosen in range(protocol.inputs):
        for counts in protocol.counts(chosen, SESSION):
            assert sum(counts) == protocol.layout.length
            assert all(count >= floor for count, floor in zip(counts, protocol.layout.floors, strict=True))


@pytest.mark.parametrize("protocol", [p for p in PROTOCOLS if isinstance(p, OfNumbers)], ids=name)
def test_means_are_exactly_unbiased(protocol: OfNumbers) -> None:
    for chosen in range(protocol.inputs):
        assert mean_estimate(protocol, chosen, 0) == protocol.number(chosen)
    assert protocol.number(0) == -1
    assert protocol.number(protocol.inputs - 1) == 3


@pytest.mark.parametrize("protocol", [p for p in PROTOCOLS if p.name in ("vgrr", "voue")], ids=name)
def test_frequencies_are_exactly_unbiased(protocol: Harmless) -> None:
    for chosen in range(protocol.inputs):
        assert [mean_estimate(protocol, chosen, column) for column in range(6)] == [int(i == chosen) for i in range(6)]


def test_hashed_frequencies_are_unbiased_over_sessions() -> None:
    """P[h(u) = h(v)] = 1/g over sessions; the bound of five standard errors fails once in 1.7 million seeds."""
    protocol = VOLH(Rates(3, 1), ITEMS)
    rng = random.Random(3)
    sessions = [rng.randbytes(16) for _ in range(4000)]
    g = protocol.buckets
    for left, right in [(0, 1), (2, 5), (3, 4)]:
        together = sum(protocol.bucket(left, s) == protocol.bucket(right, s) for s in sessions)
        assert abs(together / 4000 - 1 / g) < 5 * math.sqrt((g - 1) / g**2 / 4000)


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=name)
def test_support_in_bulk_is_the_sum_of_that_of_each_report(protocol: Harmless) -> None:
    rng = random.Random(5)
    sessions = [rng.randbytes(16) for _ in range(30)]
    layout = protocol.layout
    outputs = np.array([[rng.randrange(layout.values) for _ in range(layout.blocks)] for _ in sessions])
    expected = [
        sum(
            protocol.raw(block, int(row[block]), column, session)
            for row, session in zip(outputs, sessions, strict=True)
            for block in range(layout.blocks)
        )
        for column in range(len(protocol.columns))
    ]
    assert protocol.support(outputs, sessions) == expected
    assert all(0 <= total <= 30 * protocol.highest for total in expected)


def test_lengths_of_the_literature() -> None:
    two = rates(math.log(2))
    assert VGRR(Rates(6, 2), ("0", "1", "2")).layout.length == 10
    assert VGRR(two, tuple(map(str, range(73)))).layout.length == 74
    assert SRHO(two, 0.0, 4.0, 4).layout.length == 12
    assert SRHO(two, 0.0, 4.0, 1).layout.length == 3
    assert {VOLH(two, tuple(map(str, range(d)))).layout.length for d in (2, 73, 5000)} == {4}


def test_the_published_table_of_stochastic_rounding() -> None:
    """ε = ln 2, x = 0…4: the numbers of +1 and -1 among 12."""
    protocol = SRHO(rates(math.log(2)), 0.0, 4.0, 4)
    assert [protocol.counts(x, SESSION)[0][::-1] for x in range(5)] == [(4, 8), (5, 7), (6, 6), (7, 5), (8, 4)]


def test_the_piecewise_mechanism_is_the_limit_of_many_bins() -> None:
    """The ends of the reports tend to ±(E+1)/(E-1), and the variance at 0 to that of PM, E = e^(ε/2)."""
    protocol = PMHO(rates(math.log(4)), -1.0, 1.0, 600)
    half = math.exp(math.log(4) / 2)
    end = float(protocol.scaled(Fraction(protocol.highest)))
    assert end == pytest.approx((half + 1) / (half - 1), rel=5e-3)
    exact = (half + 3) / (3 * (half - 1) ** 2)  # Wang et al. 2019, lemma 1, at 0
    assert float(variance(protocol, (protocol.inputs - 1) // 2)) == pytest.approx(exact, rel=2e-2)
    assert protocol.spacing == protocol.scaled.scale


@pytest.mark.parametrize("kind", ["vgrr", "voue"])
def test_variances_are_those_of_the_literature(kind: str) -> None:
    """Per user, of an item that one does not hold: (d-2+e^ε)/(e^ε-1)² and 4e^ε/(e^ε-1)²."""
    items = tuple(map(str, range(9)))
    protocol = (VGRR if kind == "vgrr" else VOUE)(Rates(3, 1), items)
    expected = {"vgrr": (9 - 2 + 3) / 4, "voue": 4 * 3 / 4}[kind]
    assert float(variance(protocol, 1, 0)) == pytest.approx(expected)


def test_numbers_are_rounded_so_that_they_are_right_on_average() -> None:
    """4000 draws of a coin of 1/4: five standard errors, which fail once in 1.7 million seeds."""
    protocol = GRRHO(Rates(2, 1), 0.0, 4.0, 5)
    rng = random.Random(8)
    drawn = Counter(protocol.choose(2.25, rng) for _ in range(4000))
    assert set(drawn) == {2, 3}
    assert abs(drawn[3] / 4000 - 0.25) < 5 * math.sqrt(0.25 * 0.75 / 4000)
    assert [protocol.choose(x, rng) for x in (0, 1.0, "4")] == [0, 1, 4]


@pytest.mark.parametrize("value", [-0.1, 4.5, math.nan, "four", None])
def test_numbers_out_of_the_range_are_refused(value: object) -> None:
    with pytest.raises(BadInput, match="from 0 to 4"):
        GRRHO(Rates(2, 1), 0.0, 4.0, 5).choose(value, random.Random(0))


def test_unknown_items_are_refused(small_task: Callable[..., Task]) -> None:
    with pytest.raises(BadInput, match="'fox' is not an item"):
        small_task("vgrr").protocol.choose("fox", random.Random(0))


@pytest.mark.parametrize(
    "change",
    [
        {"items": "ant"},
        {"items": ("ant", 7)},
        {"epsilon": "1"},
        {"epsilon": math.nan},
        {"minimum_batch": 2.5},
        {"minimum_batch": True},
        {"name": 5},
        {"session_seconds": "600"},
        {"scheme": None},
    ],
)
def test_tasks_of_wrong_types_are_refused(change: dict[str, Any], small_task: Callable[..., Task]) -> None:
    with pytest.raises(BadInput, match=next(iter(change))):
        small_task("vgrr", **change)
