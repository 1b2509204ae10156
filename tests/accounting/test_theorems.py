"""The theorems of the basics, tested by the exact engine on random mechanisms, finite and with Laplace noise."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import veridp
from veridp.accounting import (
    Composition,
    Indistinguishability,
    Leaf,
    Part,
    Partition,
    calibrated,
    flaw,
    mechanisms,
    parallel,
    post_processed,
    sequential,
)
from veridp.accounting.account import concentrated
from veridp.accounting.domination import Domination
from veridp.accounting.pairs import Envelope, Finite, LaplacePair, gaussian_scale
from veridp.adjacency import OwnAdjacency, Scaled, adjacency
from veridp.conversions import gaussian_delta
from veridp.engines.exact import compare
from veridp.errors import BadInput
from veridp.mechanism import Mechanism

QUICK = settings(max_examples=15, deadline=None)
Table = list[list[float]]  # a row of probabilities of outputs for each input


@st.composite
def tables(draw: st.DrawFn, inputs: int = 2, outputs: int = 3, least: int = 1) -> Table:
    entry = st.integers(least, 9)
    rows = [draw(st.lists(entry, min_size=outputs, max_size=outputs).filter(any)) for _ in range(inputs)]
    return [[weight / sum(row) for weight in row] for row in rows]


def finite(table: Table) -> Mechanism:
    """The mechanism on 0, 1, … whose outputs have these probabilities; it claims what it costs."""

    def answer(rng: Any, data: int) -> int:
        return int(rng.choice(len(table[data]), p=table[data]))

    pairs = [Indistinguishability(dict(enumerate(p)), dict(enumerate(q))) for p in table for q in table]
    return Mechanism(
        answer,
        epsilon=max(pair.epsilon for pair in pairs),
        adjacency=adjacency("any"),
        domain=tuple(range(len(table))),
        size=1,
    )


def counted(table: Table) -> Mechanism:
    """The same on data sets, of which it looks at whether there is a record."""
    inner = finite(table)

    def answer(rng: Any, data: list[Any]) -> int:
        return int(inner.function(rng, min(len(data), 1)))

    return Mechanism(answer, epsilon=inner.epsilon, adjacency=adjacency("add-remove"), size=1)


# ------------------------------------------------------------------------------------------- indistinguishability


@QUICK
@given(tables(least=0), st.floats(0.0, 2.0))
def test_indistinguishability_is_what_the_exact_engine_finds(table: Table, epsilon: float) -> None:
    pair = Indistinguishability(dict(enumerate(table[0])), dict(enumerate(table[1])))
    comparison = compare(finite(table), 0, 1)
    assert comparison.epsilon == pytest.approx(pair.epsilon, abs=1e-9)
    assert comparison.delta(epsilon) == pytest.approx(pair.delta(epsilon), abs=1e-12)


@QUICK
@given(tables(), st.floats(0.0, 2.0))
def test_the_best_event_attains_delta_and_no_other_does_better(table: Table, epsilon: float) -> None:
    pair = Indistinguishability(dict(enumerate(table[0])), dict(enumerate(table[1])))
    turned = Indistinguishability(pair.right, pair.left)

    def gain(which: Indistinguishability, event: list[Any]) -> float:
        return sum(which.left[o] for o in event) - math.exp(epsilon) * sum(which.right[o] for o in event)

    best = max(gain(pair, pair.event(epsilon)), gain(turned, turned.event(epsilon)))
    assert best == pytest.approx(pair.delta(epsilon), abs=1e-12)
    for members in range(1 << len(table[0])):
        event = [outcome for outcome in range(len(table[0])) if members >> outcome & 1]
        assert gain(pair, event) <= best + 1e-12


@QUICK
@given(tables(inputs=3))
def test_losses_obey_the_triangle_inequality(table: Table) -> None:
    """Group privacy: two steps away costs at most the sum of the steps."""
    mechanism = finite(table)
    first, second, whole = (compare(mechanism, a, b).epsilon for a, b in ((0, 1), (1, 2), (0, 2)))
    assert whole <= first + second + 1e-9


# ------------------------------------------------------------------------------------------------ post-processing


@QUICK
@given(tables(outputs=4), st.lists(st.integers(0, 2), min_size=4, max_size=4), st.floats(0.0, 1.0))
def test_post_processing_never_costs_more(table: Table, to: list[int], epsilon: float) -> None:
    before, after = finite(table), post_processed(finite(table), lambda output: to[output])
    mine, theirs = compare(after, 0, 1), compare(before, 0, 1)
    assert mine.epsilon <= theirs.epsilon + 1e-9
    assert mine.delta(epsilon) <= theirs.delta(epsilon) + 1e-12


@settings(max_examples=5, deadline=None)
@given(st.floats(0.2, 2.0), st.floats(-3.0, 3.0))
def test_post_processing_of_laplace_noise(epsilon: float, level: float) -> None:
    noisy = mechanisms.laplace.bind(epsilon=epsilon)
    clipped = post_processed(noisy, lambda output: [min(max(value, 0.0), 1.0) for value in output])
    above = post_processed(noisy, lambda output: output[0] >= level)
    for processed in (clipped, above):
        assert compare(processed, [0.0], [1.0]).epsilon <= epsilon + 1e-9


# ------------------------------------------------------------------------------------------ sequential composition


@QUICK
@given(tables(), tables(), st.floats(0.0, 1.0))
def test_sequential_composition_of_finite_mechanisms(one: Table, other: Table, epsilon: float) -> None:
    first, second = finite(one), finite(other)
    both = sequential(first, second)
    found = compare(both, 0, 1)
    assert both.claim is not None
    assert found.epsilon <= both.claim.epsilon + 1e-9
    mine, theirs = compare(first, 0, 1), compare(second, 0, 1)
    # (ε₁ + ε₂, δ₁ + δ₂), at any split of ε
    assert found.delta(epsilon) <= mine.delta(epsilon / 2) + theirs.delta(epsilon / 2) + 1e-12


@settings(max_examples=5, deadline=None)
@given(st.floats(0.1, 1.0), st.floats(0.1, 1.0))
def test_sequential_composition_of_laplace_noise_is_attained(first: float, second: float) -> None:
    both = sequential(mechanisms.laplace.bind(epsilon=first), mechanisms.laplace.bind(epsilon=second))
    assert compare(both, [0.0], [1.0]).epsilon == pytest.approx(first + second, abs=1e-9)


@QUICK
@given(tables(), tables(inputs=6))
def test_adaptive_composition(one: Table, other: Table) -> None:
    """The second mechanism is chosen by the first's answer: rows 2i and 2i + 1 are what it does after answer i."""
    first = finite(one)
    after = [finite(other[2 * i : 2 * i + 2]) for i in range(3)]

    def adaptive(rng: Any, data: int) -> list[int]:
        answer = first.function(rng, data)
        return [answer, after[answer].function(rng, data)]

    worst = max(compare(mechanism, 0, 1).epsilon for mechanism in after)
    assert compare(adaptive, 0, 1).epsilon <= compare(first, 0, 1).epsilon + worst + 1e-9


# -------------------------------------------------------------------------------------------- parallel composition

HALVES = Partition(("low", "high"), lambda record: "low" if record < 0.5 else "high")


@QUICK
@given(tables(), tables())
def test_parallel_composition_over_disjoint_parts(one: Table, other: Table) -> None:
    both = parallel(HALVES, {"low": counted(one), "high": counted(other)})
    for added in (0.2, 0.8):
        assert both.claim is not None
        assert compare(both, [], [added]).epsilon <= both.claim.epsilon + 1e-9
    found = max(compare(both, [], [added]).epsilon for added in (0.2, 0.8))
    assert found == pytest.approx(both.claim.epsilon, abs=1e-9)


@QUICK
@given(tables(), tables())
def test_parallel_composition_fails_where_parts_overlap(one: Table, other: Table) -> None:
    """Both look at the whole data: the largest of the two costs is no bound, unless one of them is free."""
    first, second = counted(one), counted(other)
    costs = [compare(mechanism, [], [0.2]).epsilon for mechanism in (first, second)]
    assume(min(costs) > 0.05)

    def overlapping(rng: Any, data: list[Any]) -> list[int]:
        return [first.function(rng, data), second.function(rng, data)]

    found = compare(overlapping, [], [0.2])
    # the worst outputs of both may point either way; the larger of the two directions adds up
    gain = max(
        sum(max(math.log(p / q) for p, q in zip(*rows, strict=True)) for rows in (one, other)),
        sum(max(math.log(q / p) for p, q in zip(*rows, strict=True)) for rows in (one, other)),
    )
    assert found.epsilon == pytest.approx(gain, abs=1e-9)
    assert found.epsilon > max(costs) + 1e-6


@settings(max_examples=5, deadline=None)
@given(st.floats(0.1, 1.0), st.floats(0.1, 1.0))
def test_parallel_laplace_counts_and_overlapping_ones(first: float, second: float) -> None:
    def counting(epsilon: float) -> Mechanism:
        def count(rng: Any, data: list[Any]) -> float:
            return len(data) + rng.laplace(scale=1 / epsilon)

        return Mechanism(count, epsilon=epsilon, adjacency=adjacency("add-remove"), domain=(0.0, 1.0), size=2)

    low, high = counting(first), counting(second)
    both = parallel(HALVES, {"low": low, "high": high})
    assert both.claim is not None
    assert both.claim.epsilon == max(first, second)
    assert veridp.exact.worst(both, 2).epsilon == pytest.approx(max(first, second))

    def overlapping(rng: Any, data: list[Any]) -> list[float]:
        return [low(rng, [r for r in data if r < 0.6]), high(rng, [r for r in data if r >= 0.4])]

    assert compare(overlapping, [0.1], [0.1, 0.5]).epsilon == pytest.approx(first + second)
    assert compare(overlapping, [0.1], [0.1, 0.9]).epsilon == pytest.approx(second)


def test_a_replaced_record_may_leave_its_part() -> None:
    inputs = [[0.1, 0.2], [0.1, 0.9], [0.1], [0.9], []]
    found = flaw(adjacency("replace"), inputs, HALVES)
    assert found is not None
    assert found.lacks == "local"
    assert flaw(adjacency("add-remove"), inputs, HALVES) is None

    def counts(rng: Any, data: list[Any]) -> list[float]:
        return [len(part) + rng.laplace(scale=2.0) for part in HALVES.split(data).values()]

    assert compare(counts, [0.1, 0.2], [0.1, 0.9]).epsilon == pytest.approx(1.0)
    replacing = Mechanism(counts, epsilon=0.5, adjacency=adjacency("replace"))
    with pytest.raises(BadInput, match="add-remove"):
        parallel(HALVES, {"low": replacing, "high": replacing})


# ---------------------------------------------------------------------------------- composition at its tightest


@settings(max_examples=5, deadline=None)
@given(st.floats(0.2, 1.5), st.floats(0.2, 1.5), st.floats(0.0, 1.0))
def test_losses_of_laplace_noise_add_up(first: float, second: float, share: float) -> None:
    """The convolution of two losses lies within the exact engine's bounds for the two mechanisms run together."""
    epsilon = share * (first + second)
    both = sequential(mechanisms.laplace.bind(epsilon=first), mechanisms.laplace.bind(epsilon=second))
    composed = Composition([Part(LaplacePair(first)), Part(LaplacePair(second))])
    bounds = compare(both, [0.0], [1.0]).delta_bounds(epsilon)
    assert bounds.lower - 1e-12 <= composed.delta(epsilon) <= bounds.upper + 1e-12


@QUICK
@given(tables(), tables(inputs=6), st.floats(0.0, 1.0))
def test_an_adaptive_choice_is_told_apart_no_better_than_the_dominating_pairs(
    one: Table, other: Table, epsilon: float
) -> None:
    """What may follow the first answer is dominated by the envelope of all that may, and the whole by the product."""
    first, after = finite(one), [other[2 * i : 2 * i + 2] for i in range(3)]

    def adaptive(rng: Any, data: int) -> list[int]:
        answer = first.function(rng, data)
        return [answer, finite(after[answer]).function(rng, data)]

    def dominating(turn: int) -> float:
        worst = Envelope(tuple(Finite.of(*rows[::turn]) for rows in after))
        return Composition([Part(Finite.of(*one[::turn])), Part(worst)]).delta(epsilon)

    assert compare(adaptive, 0, 1).delta(epsilon) <= max(dominating(1), dominating(-1)) + 1e-9


@QUICK
@given(tables(), st.floats(0.0, 1.0), st.floats(0.0, 3.0))
def test_a_claim_is_dominated_by_randomised_response(table: Table, share: float, epsilon: float) -> None:
    """A finite mechanism at an ε of its own, with its δ there, is told apart no better than the pair of that claim."""
    found = compare(finite(table), 0, 1)
    claimed = share * found.epsilon
    assert found.delta(epsilon) <= Finite.claimed(claimed, found.delta(claimed)).delta_above(epsilon) + 1e-12


# -------------------------------------------------------------------------------------------------- neighbours

VECTORS = st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0]), min_size=2, max_size=2)
RECORDS = st.lists(st.sampled_from([0.1, 0.2, 0.8]), max_size=3)


@QUICK
@given(st.lists(VECTORS, min_size=2, max_size=5), st.sampled_from(["linf", "l1", "monotone", "any"]))
def test_relations_on_answers_are_reflexive_and_symmetric(inputs: list[list[float]], name: str) -> None:
    assert flaw(adjacency(name), inputs) is None
    assert flaw(Scaled(adjacency("l1"), 1.5), inputs) is None


@QUICK
@given(st.lists(RECORDS, min_size=2, max_size=5))
def test_relations_on_records_are_reflexive_symmetric_and_one_is_local(inputs: list[list[float]]) -> None:
    """Local means: parts differ in one place at most. Counted here by hand."""
    assert flaw(adjacency("add-remove"), inputs, HALVES) is None
    assert flaw(adjacency("replace"), inputs) is None
    assert flaw(OwnAdjacency("longer", lambda a, b: len(a) < len(b), lambda size: []), inputs) is None  # type: ignore[arg-type]
    low = [sorted(r for r in data if r < 0.5) for data in inputs]
    high = [sorted(r for r in data if r >= 0.5) for data in inputs]
    moved = any(
        adjacency("replace").adjacent(one, two) and low[i] != low[j] and high[i] != high[j]
        for i, one in enumerate(inputs)
        for j, two in enumerate(inputs)
    )
    found = flaw(adjacency("replace"), inputs, HALVES)
    assert (found is not None and found.lacks == "local") == moved


@pytest.mark.parametrize(
    ("adjacent", "lacks"),
    [(lambda a, b: a != b, "reflexive"), (lambda a, b: a <= b, "symmetric"), (lambda a, b: True, "local")],
)
def test_what_a_relation_lacks_is_shown_by_two_inputs(adjacent: Any, lacks: str) -> None:
    class Made(type(adjacency("add-remove"))):  # type: ignore[misc]
        def adjacent(self, left: object, right: object) -> bool:
            return bool(adjacent(left, right))

    found = flaw(Made(), [[0.1], [0.9], [0.1, 0.9]], HALVES)
    assert found is not None
    assert found.lacks == lacks
    assert str(found) == f"not {lacks}: {found.left} and {found.right}"


# ------------------------------------------------------------------------------------------------ building blocks


@settings(max_examples=5, deadline=None)
@given(st.floats(0.05, 2.0), st.floats(0.5, 4.0))
def test_laplace_noise_from_a_sensitivity(epsilon: float, sensitivity: float) -> None:
    block = calibrated(mechanisms.laplace, sensitivity, epsilon=epsilon)
    assert compare(block, [0.0], [sensitivity]).epsilon == pytest.approx(epsilon, rel=1e-9)
    assert compare(block, [0.0], [sensitivity / 2]).epsilon == pytest.approx(epsilon / 2, rel=1e-9)


@pytest.mark.parametrize("sensitivity", [1, 3])
@pytest.mark.parametrize("name", ["laplace", "report_noisy_max", "sparse_vector"])
def test_blocks_are_proved(name: str, sensitivity: int) -> None:
    block = calibrated(mechanisms.BLOCKS[name], sensitivity, epsilon=0.5)
    proof = veridp.prove(block, size=1 if name == "laplace" else 4)
    assert 0 < proof.epsilon <= 0.5 + 1e-12


@pytest.mark.parametrize("cutoff", [1, 2])
def test_the_sparse_vector_is_proved_for_every_size(cutoff: int) -> None:
    block = mechanisms.sparse_vector.bind(epsilon=0.5, cutoff=cutoff, threshold=1.0)
    proof = veridp.prove.prove_sizes(block, 3)  # type: ignore[attr-defined]
    assert str(proof).endswith("0.5-DP is proved for every size")
    assert veridp.exact.worst(block, 4, seconds=600.0).epsilon <= 0.5 + 1e-9


def test_geometric_noise_is_proved_and_attained() -> None:
    block = mechanisms.geometric.bind(epsilon=0.5)
    assert veridp.prove(block, size=2).epsilon == pytest.approx(0.5)
    assert compare(mechanisms.geometric.bind(epsilon=0.6, sensitivity=3), [0], [1]).epsilon == pytest.approx(0.2)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-8])
def test_normal_noise_is_calibrated_to_the_last_digit(epsilon: float, delta: float) -> None:
    block = calibrated(mechanisms.gaussian, 2.0, epsilon=epsilon, delta=delta)
    assert compare(block, [0.0], [2.0]).delta(epsilon) == pytest.approx(delta, rel=1e-6)
    scale = gaussian_scale(epsilon, delta)
    assert gaussian_delta(epsilon, 1 / scale) <= delta < gaussian_delta(epsilon, 1.0001 / scale)
    if epsilon < 1:  # the classical calibration needs more
        assert scale < math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def test_the_least_normal_noise_for_1_and_1e_5() -> None:
    scale = gaussian_scale(1.0, 1e-5)
    assert scale == pytest.approx(3.7306316348, abs=1e-10)
    leaf = Leaf.gaussian(scale=scale)
    assert concentrated(leaf, Domination(leaf)).rho == pytest.approx(0.0359257023, abs=1e-10)


@settings(max_examples=5, deadline=None)
@given(st.lists(st.floats(-5, 5), min_size=3, max_size=3), st.floats(0.1, 1.0))
def test_the_exponential_mechanism_has_its_closed_form(scores: list[float], epsilon: float) -> None:
    block = mechanisms.exponential.bind(epsilon=epsilon)
    moved = [scores[0] + 1, scores[1] - 1, scores[2]]
    laws = [np.exp(np.array(side) * epsilon / 2) for side in (scores, moved)]
    p, q = (law / law.sum() for law in laws)
    found = compare(block, scores, moved).epsilon
    assert found == pytest.approx(float(np.max(np.abs(np.log(p / q)))), abs=1e-9)
    assert found <= epsilon + 1e-9


@pytest.mark.parametrize("size", [2, 3])
def test_the_exponential_mechanism_is_proved_over_scores_from_a_list(size: int) -> None:
    """The worst of all neighbours, computed here one by one, and below ε."""
    block = replace(mechanisms.exponential.bind(epsilon=0.5), domain=range(-1, 2))
    scores = [np.array(one) for one in itertools.product(range(-1, 2), repeat=size)]

    def law(side: np.ndarray) -> np.ndarray:
        return np.exp(side * 0.25) / np.exp(side * 0.25).sum()

    near = [(a, b) for a in scores for b in scores if np.abs(a - b).max() <= 1]
    worst = max(float(np.max(np.abs(np.log(law(a) / law(b))))) for a, b in near)
    assert veridp.prove(block, size=size).epsilon == pytest.approx(worst, rel=1e-9)
    assert worst < 0.5


def test_a_claim_is_needed_to_compose() -> None:
    with pytest.raises(BadInput, match="has no claim"):
        sequential(lambda rng, data: data)


def test_mechanisms_under_different_relations_do_not_compose() -> None:
    with pytest.raises(BadInput, match="laplace is stated under l1, report_noisy_max under linf"):
        sequential(mechanisms.laplace, mechanisms.report_noisy_max)
    with pytest.raises(BadInput, match="nothing to compose"):
        sequential()
    with pytest.raises(BadInput, match="'middle' is not a part"):
        parallel(HALVES, dict.fromkeys(("low", "high", "middle"), counted([[0.5, 0.5], [0.4, 0.6]])))
