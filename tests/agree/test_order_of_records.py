"""Mechanisms that depend on the order of records: the ordered and the unordered relations give them another cost.

Prover, checker, exact engine, DP-Finder, audit and sensitivities must all agree with a plain enumeration.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

import veridp
from veridp.accounting import Leaf, Parallel, Partition, Subsampled, account, flaw, parallel, sensitivity
from veridp.adjacency import adjacency
from veridp.engines.prove import prove
from veridp.errors import BadInput
from veridp.verdict import Standing
from veridp_check.checker import check

BITS = [0, 1]


def changes(data: Any) -> float:
    """How often a record differs from the one before it."""
    return sum(1 for mine, theirs in itertools.pairwise(data) if mine != theirs)


@veridp.mechanism(epsilon=1.0, adjacency="replace", domain=BITS, size=3)
def each_record(rng: Any, data: Any) -> Any:
    return [record + rng.laplace(scale=1.0) for record in data]


@veridp.mechanism(epsilon=2.0, adjacency="add-remove", domain=BITS, size=4)
def noisy_changes(rng: Any, data: Any) -> Any:
    return changes(data) + rng.laplace(scale=1.0)


def enumerated(relation: str, size: int, distance: Any) -> float:
    """The largest distance between neighbours, by edits at one position and all permutations."""
    edits: list[tuple[list[int], list[int]]] = []
    for data in map(list, itertools.product(BITS, repeat=size)):
        if relation.startswith("replace"):
            edits += [(data, data[:k] + [v] + data[k + 1 :]) for k in range(size) for v in BITS]  # noqa: RUF005
        else:
            edits += [(data, data[:k] + [v] + data[k:]) for k in range(size + 1) for v in BITS]  # noqa: RUF005
            edits += [(data, data)]
    if relation.endswith("-unordered"):
        edits = [(left, list(right)) for left, other in edits for right in itertools.permutations(other)]
    return max(distance(left, right) for left, right in edits)


def moved(left: list[int], right: list[int]) -> float:
    return sum(mine != theirs for mine, theirs in zip(left, right, strict=True))


CASES = [
    (each_record, "replace", 1.0, moved),
    (each_record, "replace-unordered", 3.0, moved),
    (noisy_changes, "add-remove", 2.0, lambda left, right: abs(changes(left) - changes(right))),
    (noisy_changes, "add-remove-unordered", 3.0, lambda left, right: abs(changes(left) - changes(right))),
]


@pytest.mark.parametrize(("mechanism", "relation", "cost", "distance"), CASES)
def test_every_engine_knows_the_order(mechanism: Any, relation: str, cost: float, distance: Any) -> None:
    assert enumerated(relation, mechanism.size, distance) == cost
    stated = replace(mechanism, adjacency=adjacency(relation))
    proof = prove(stated, stated.size)
    assert proof.epsilon == cost
    assert f"under {relation} (" in str(proof)
    assert check(proof.certificate).rejection is None
    verdict = veridp.audit(stated, seconds=600.0)
    kept = cost <= mechanism.claim.epsilon
    assert verdict.standing is (Standing.PROVED if kept else Standing.REFUTED)
    assert verdict.epsilon.upper == cost
    assert str(adjacency(relation)) in verdict.scope


@pytest.mark.parametrize(("ordered", "mechanism"), [("replace", each_record), ("add-remove", noisy_changes)])
def test_the_checker_refuses_a_proof_that_is_passed_off_as_one_for_any_order(ordered: str, mechanism: Any) -> None:
    certificate = prove(replace(mechanism, adjacency=adjacency(ordered)), mechanism.size).certificate
    assert check(certificate).rejection is None
    forged = check({**certificate, "adjacency": f"{ordered}-unordered"})
    assert forged.rejection is not None
    assert "not listed" in str(forged.rejection)


@pytest.mark.parametrize(("relation", "cost"), [("replace", 1.0), ("replace-unordered", 3.0)])
def test_the_finder_knows_the_order(relation: str, cost: float) -> None:
    for domain in (BITS, (0, 1)):
        stated = replace(each_record, adjacency=adjacency(relation), domain=domain)
        assert veridp.finder.search(stated, restarts=6, seconds=60.0).epsilon == pytest.approx(cost, abs=1e-6)


@pytest.mark.parametrize(
    ("relation", "expected"),
    [("replace", 2.0), ("replace-unordered", 3.0), ("add-remove", 2.0), ("add-remove-unordered", 3.0)],
)
def test_sensitivities_know_the_order(relation: str, expected: float) -> None:
    """Of a sum that weighs records by their positions: affine, so that it is largest at the ends of the interval."""
    size = 3
    weighed = lambda data: sum(place * record for place, record in enumerate(data))  # noqa: E731
    sizes = range(size) if relation.startswith("add-remove") else [size]  # of the shorter of two data sets
    distance = lambda left, right: abs(weighed(left) - weighed(right))  # noqa: E731
    assert max(enumerated(relation, each, distance) for each in sizes) == expected
    for domain in (BITS, (0.0, 1.0)):
        found = sensitivity(weighed, size, domain=domain, relation=relation)
        assert found.exact
        assert found.value == pytest.approx(expected)
        assert adjacency(relation).adjacent(found.left, found.right)


def test_parallel_composition_and_samples_need_the_order_to_be_kept() -> None:
    """Reordered data may show in all parts at once: two noisy first records cost twice as much as one."""

    def first(rng: Any, data: Any) -> Any:
        return (data[0] if len(data) else 0) + rng.laplace(scale=1.0)

    halves = Partition(("low", "high"), lambda record: "low" if record < 2 else "high")
    inputs = [[0, 1, 2, 3], [1, 0, 3, 2]]
    assert flaw(adjacency("add-remove"), inputs, halves) is None
    assert str(flaw(adjacency("add-remove-unordered"), inputs, halves)).startswith("not local")
    split = lambda rng, data: [first(rng, part) for part in halves.split(data).values()]  # noqa: E731
    assert veridp.exact.compare(split, *inputs).epsilon == pytest.approx(2.0)
    unordered = veridp.mechanism(epsilon=1.0, adjacency="add-remove-unordered")(first)
    with pytest.raises(BadInput, match="state all under add-remove"):
        parallel(halves, {"low": unordered, "high": unordered})
    leaf = Leaf.laplace(1.0, relation="add-remove-unordered")
    assert account(leaf, delta=0.0).epsilon == pytest.approx(1.0)
    for release in (Parallel({"low": leaf, "high": leaf}), Subsampled(0.1, leaf)):
        with pytest.raises(BadInput, match=r"may change their order.* state the leaves under add-remove$"):
            account(release)
