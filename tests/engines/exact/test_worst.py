"""The search for the worst pair: what it must find within ±10, what it says it searched, and no overshooting."""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import sys
import threading
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import veridp
from veridp.adjacency import ReplaceRecord
from veridp.engines.exact import compare, worst
from veridp.engines.exact.candidates import pairs_beside_zeros
from veridp.engines.exact.worst import _Comparer
from veridp.errors import BadInput, CutShort, NotExact

ROUNDING = 1e-9
PLENTY = 600.0  # seconds: the number of pairs bounds what is done
contained_here = pytest.mark.skipif(sys.platform != "linux", reason="work is contained where there is a safe fork")


class Enough(Exception):
    """Ends a search that has found what it had to."""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "least"), [("svt1", 0.0995), ("svt4", 0.1749), ("svt6", 0.46)])
def test_sparse_vectors_within_ten(name: str, least: float) -> None:
    """The likeliest corners come first, so that the search has it after a few pairs, however slow the machine."""
    mechanism = veridp.catalogue[name]
    truth = mechanism.true_epsilon(10)
    assert truth is not None

    def stop(stage: str, tried: int, best: float) -> None:
        assert best <= truth + ROUNDING
        assert tried <= 40
        if best >= least:
            raise Enough(stage)

    with pytest.raises(Enough, match="corners"):
        worst(mechanism, size=10, domain=(-10, 10), seconds=PLENTY, progress=stop)


def test_the_search_stays_within_its_domain() -> None:
    found = worst(veridp.catalogue["svt1"], size=10, domain=(-10, 10), seconds=PLENTY, max_pairs=40)
    assert found.epsilon >= 0.0995
    assert max(map(abs, [*found.comparison.left, *found.comparison.right])) <= 10
    assert found.searched[:3] == ("patterns", "thresholds", "corners")


@pytest.mark.parametrize(
    ("name", "size", "epsilon"),
    [
        ("laplace", None, 0.1),
        ("noisy_hist2", None, 10.0),
        ("noisy_max2", 3, 0.1),
        ("noisy_max3", 3, 0.15),
        ("prefix_sum", 4, 0.4),
        ("smart_sum", 3, 0.2),
        ("bad_gap_svt", 5, 0.125),
        ("at3", None, 0.2),
        ("truncated_geometric", None, math.log(1 + 2**-3)),
        ("randomized_response", None, 0.1),
        ("finder_sum", None, 0.1),
        ("svt5", 4, math.inf),
        ("noisy_max4", 3, math.inf),
        ("bad_smart_sum", 3, math.inf),
    ],
)
def test_attained_costs_are_found(name: str, size: int | None, epsilon: float) -> None:
    enough = epsilon * (1 - 1e-10)
    found = worst(veridp.catalogue[name], size, seconds=PLENTY, max_pairs=150, enough=enough)
    assert found.epsilon == pytest.approx(epsilon, rel=1e-9)
    assert found.witness.left_probability.lower > 0
    assert found.delta(0.0) > 0


@pytest.mark.parametrize("name", ["noisy_max1", "svt2", "at", "at1", "at4", "monotone_svt", "exponential_mechanism"])
def test_never_above_the_true_cost(name: str) -> None:
    mechanism = veridp.catalogue[name]
    size = min(mechanism.size, 4)
    found = worst(mechanism, size, seconds=PLENTY, max_pairs=150)
    truth = mechanism.true_epsilon(size)
    assert truth is not None
    assert 0.5 * truth <= found.epsilon <= truth + ROUNDING


@pytest.mark.parametrize(("name", "epsilon"), [("one_time_rappor", 0.800668), ("rappor", 0.400083)])
def test_all_pairs_of_few_integers(name: str, epsilon: float) -> None:
    """Seven of the integers, among them the pair whose eight bits all differ: 7·6/2 pairs, each once."""
    found = worst(veridp.catalogue[name], domain=range(-10, -3), seconds=PLENTY)
    assert found.epsilon == pytest.approx(epsilon, abs=1e-6)
    assert found.finished
    assert found.tried == 21
    assert found.searched == ("patterns",)


@pytest.mark.slow
def test_all_pairs_of_rappors_integers() -> None:
    """All 210 pairs of -10..10: the worst have eight bits between them."""
    found = worst(veridp.catalogue["one_time_rappor"], seconds=PLENTY)
    assert (found.tried, found.finished) == (210, True)
    assert found.epsilon == pytest.approx(8 * math.log(0.525 / 0.475), rel=1e-12)


def test_it_says_what_was_searched() -> None:
    mechanism = veridp.catalogue["noisy_max1"]
    found = worst(mechanism, size=2, seconds=PLENTY)
    assert found.finished
    assert found.searched == ("patterns", "thresholds", "corners", "moves from the best")
    expected = f"noisy_max1: ε = {found.epsilon:.6g} between {found.comparison.left} and {found.comparison.right}"
    stages = "patterns, thresholds, corners, moves from the best"
    assert str(found) == f"{expected} (the worst of {found.tried} pairs: {stages})"
    few = worst(mechanism, size=2, seconds=PLENTY, max_pairs=1)
    assert (few.tried, few.finished) == (1, True)
    assert str(few).endswith("(the worst of 1 pair: patterns)")
    assert str(replace(few, finished=False)).endswith("(the worst of 1 pair: patterns; cut short)")


def test_what_is_found_is_what_comparing_gives() -> None:
    """The paths with the data left open lead to the same loss as those of the two inputs."""
    for name, size in (("svt1", 4), ("noisy_max3", 3), ("at3", 3), ("monotone_svt", 3)):
        found = worst(veridp.catalogue[name], size, seconds=PLENTY, max_pairs=20)
        again = compare(veridp.catalogue[name], found.comparison.left, found.comparison.right)
        assert found.epsilon == pytest.approx(again.epsilon, rel=1e-10)
        assert found.delta(0.01) == pytest.approx(again.delta(0.01), abs=1e-12)


def test_pairs_across_thresholds_reach_what_patterns_miss() -> None:
    """The output depends on the second entry where the first is near 3: a place that no pattern has."""

    def picky(rng: Any, data: Any) -> Any:
        return (data[0] > 2 and data[0] < 8) and data[1] + rng.laplace(scale=1.0) > 0

    found = worst(veridp.Mechanism(picky), size=2, seconds=PLENTY)
    assert found.searched[-1] == "thresholds"
    assert found.epsilon == math.inf


def test_sums_over_samples_are_worst_beside_zeros() -> None:
    """Of a normal sum over a random sample of records around 0, the others are 0 in the worst pair: there the loss is
    what the proof says; beside records at the ends, they hide some of it."""

    def sampled(rng: Any, data: Any) -> Any:
        return sum(x for x in data if rng.random() < 0.1) + rng.normal(scale=2.0)

    around_zero = veridp.mechanism(epsilon=1.0, delta=1e-5, adjacency="add-remove", domain=(-1.0, 1.0), size=2)(sampled)
    proved = veridp.prove(around_zero).epsilon
    found = worst(around_zero, seconds=PLENTY, at=1e-5, enough=proved * (1 - 1e-6))
    assert found.searched == ("others at zero",)
    assert found.epsilon == pytest.approx(proved, rel=1e-6)


def test_replaced_records_are_at_both_ends_beside_zeros() -> None:
    pairs = list(pairs_beside_zeros(ReplaceRecord(), 3, (-1.0, 2.0)))
    sides = [(pair.left, pair.right) for pair in pairs]
    assert ([0.0, 0.0, -1.0], [0.0, 0.0, 2.0]) in sides
    assert ([0.0, 0.0, 2.0], [0.0, 0.0, -1.0]) in sides
    assert not list(pairs_beside_zeros(ReplaceRecord(), 3, (0.0, 2.0)))


def test_progress_is_told() -> None:
    told: list[tuple[str, int, float]] = []
    found = worst(veridp.catalogue["laplace"], seconds=PLENTY, progress=lambda *step: told.append(step))
    assert [step[1] for step in told] == list(range(1, found.tried + 1))
    assert told[0][0] == "patterns"
    assert told[-1][2] == found.epsilon
    assert np.all(np.diff([step[2] for step in told]) >= 0)


def test_domains_and_sizes_are_kept() -> None:
    found = worst(veridp.catalogue["noisy_max1"], size=3, domain=(0, 2), seconds=PLENTY, max_pairs=150)
    values = [*found.comparison.left, *found.comparison.right]
    assert len(values) == 6
    assert (min(values), max(values)) == (0.0, 2.0)


def test_time_that_is_up_before_the_first_pair_is_not_a_lack_of_pairs() -> None:
    with pytest.raises(CutShort, match="cut short"):
        worst(veridp.catalogue["svt1"], seconds=1e-9)


def test_bad_input() -> None:
    with pytest.raises(BadInput, match="size must be an integer >= 1, got 0"):
        worst(veridp.catalogue["svt1"], size=0)
    with pytest.raises(BadInput, match=r"domain = \(5, 5\) is empty"):
        worst(veridp.catalogue["svt1"], domain=(5, 5))
    with pytest.raises(BadInput, match="'svt1' is not a mechanism"):
        worst("svt1")  # type: ignore[arg-type]
    with pytest.raises(NotExact, match="a function of several numbers"):
        worst(lambda rng, data: rng.laplace() * rng.laplace(), size=1)


@contained_here
@pytest.mark.parametrize("first", [1, 2])
def test_a_pair_that_never_ends_is_cut_short(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The best pair before it remains; where there is none, it is an error that says why."""
    compared, pairs = _Comparer.__call__, 0
    leap = multiprocessing.RawValue("d")  # seconds by which the clock of all processes leaps once a pair does not end

    def endless(comparer: _Comparer, left: Any, right: Any) -> Any:
        nonlocal pairs
        pairs += 1
        leap.value = 1e4 if pairs >= first else 0.0
        while pairs >= first:
            with contextlib.suppress(BaseException):
                threading.Event().wait()
        return compared(comparer, left, right)

    monkeypatch.setattr(_Comparer, "__call__", endless)
    if first == 1:
        with pytest.raises(CutShort, match="cut short"):
            worst(veridp.catalogue["laplace"], seconds=0.3)
        return
    real = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: real() + leap.value)
    found = worst(veridp.catalogue["laplace"], seconds=600.0)
    assert found.epsilon == pytest.approx(0.1)
    assert (found.tried, found.finished) == (1, False)


def test_more_pairs_are_never_worse() -> None:
    """What a longer search has tried begins with what a shorter one has."""
    found = [worst(veridp.catalogue["svt1"], 3, seconds=PLENTY, max_pairs=count).epsilon for count in (1, 5, 20, 60)]
    assert found == sorted(found)


@contained_here
def test_the_clock_has_no_say_in_an_unhurried_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that runs a hundred times as fast, as on a machine that is a hundred times slower."""
    unhurried = worst(veridp.catalogue["noisy_max3"], 3, seconds=1e6, max_pairs=40)
    real, began = time.monotonic, time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: began + 100 * (real() - began))
    slow = worst(veridp.catalogue["noisy_max3"], 3, seconds=1e6, max_pairs=40)
    assert (slow.tried, slow.epsilon, slow.searched) == (unhurried.tried, unhurried.epsilon, unhurried.searched)
    assert (slow.comparison.left, slow.comparison.right) == (unhurried.comparison.left, unhurried.comparison.right)


def test_choices_whose_weights_depend_on_the_data() -> None:
    """The weaker of two is chosen with 1/(1 + exp(gap / 2)): gaps of 6 and 4 are the largest that are neighbours."""

    def choice(rng, data):
        weights = [np.exp(x / 2) for x in data]
        return int(rng.choice(2, p=[weight / sum(weights) for weight in weights]))

    found = worst(choice, size=2, adjacency="linf", domain=(-3, 3))
    assert found.epsilon == pytest.approx(math.log((1 + math.exp(3)) / (1 + math.exp(2))), rel=1e-12)


def test_all_data_sets_of_few_values_are_tried() -> None:
    """Only one multiset of records has little noise, and no pattern has it."""

    @veridp.mechanism(adjacency="replace", domain=["a", "b", "c"], size=3)
    def careless(rng: Any, data: Any) -> Any:
        return data.count("c") + rng.laplace(scale=0.25 if sorted(data) == ["a", "b", "c"] else 0.5)

    found = worst(careless, seconds=PLENTY)
    assert found.epsilon == math.inf  # the tails of the two scales
    assert sorted(["a", "b", "c"]) in (sorted(found.comparison.left), sorted(found.comparison.right))
    assert found.searched == ("patterns", "all records")


def test_pairs_that_cannot_be_compared_are_counted() -> None:
    """A noisy number that is written to three digits has no exact loss; of counts below 2 there is none."""

    @veridp.mechanism(adjacency="add-remove", domain=[0, 1], size=2)
    def told(rng: Any, data: Any) -> Any:
        return "few" if sum(data) < 2 else f"{sum(data) + rng.laplace():.3g}"

    found = worst(told, seconds=PLENTY)
    assert found.epsilon == 0
    assert found.incomparable > 0
    assert f"; {found.incomparable} could not be compared)" in str(found)
    assert found.to_dict()["search"]["incomparable"] == found.incomparable
    first: Any = found.incomparable_pairs  # some tell "few" from a number, which the attack shows with few samples
    assert any((sum(pair.left) < 2) != (sum(pair.right) < 2) for pair in first)
    effort: Any = {"samples": 500, "final_samples": 2000, "seconds": math.inf}
    result = veridp.sniper.search(told, pairs=[([0, 0], [0, 0, 0])], first_pairs=first, **effort)
    assert result.epsilon_lower > 1
    witness: Any = result.witness
    assert any(sum(side) < 2 for side in (witness.left, witness.right))


def test_pairs_that_cannot_be_compared_are_attacked_first(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []

    def nothing(*_: Any, first_pairs: Any, **__: Any) -> Any:
        given.append(first_pairs)
        raise BadInput("not searched")

    @veridp.mechanism(adjacency="add-remove", domain=[0, 1], size=2, epsilon=1.0)
    def told(rng: Any, data: Any) -> Any:
        return "few" if sum(data) < 2 else f"{sum(data) + rng.laplace():.3g}"

    monkeypatch.setattr("veridp.engines.statdp.detect", nothing)
    monkeypatch.setattr("veridp.engines.sniper.search", nothing)
    with pytest.raises(BadInput, match="not searched"):
        veridp.audit(told, seconds=math.inf)
    incomparable = worst(told, seconds=math.inf).incomparable_pairs
    assert incomparable
    assert [pairs[: len(incomparable)] for pairs in given] == [incomparable] * 3  # plain events, StatDP, DP-Sniper


def test_pairs_that_rounding_hides_from_plain_runs_do_not_end_the_search() -> None:
    """Cents of 20000 are beyond what replay can tell from rounding, those of 1 are not; a difference of 1 costs 1/5."""

    def to_cents(rng: np.random.Generator, data: list[float]) -> float:
        return round(data[0] + rng.laplace(0, 5.0), 2)

    mechanism = veridp.mechanism(adjacency="l1", size=1, domain=(0.0, 20_000.0))(to_cents)
    found = veridp.exact.worst(mechanism, moves=[[-1.0]], max_pairs=8, seconds=300)
    assert found.epsilon == pytest.approx(0.2, rel=1e-6)
    assert found.incomparable > 0
    assert max(found.comparison.left + found.comparison.right) < 100
    with pytest.raises(veridp.errors.RoundingDecides, match="rounding decides"):
        veridp.exact.compare(to_cents, [20_000.0], [19_999.0])
