"""The recipe "Add an adjacency" of CONTRIBUTING.md: one class, and engines answer or say what they lack."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import veridp
from veridp.accounting import sensitivity
from veridp.adjacency import BY_NAME, Adjacency, Domain, Pair, Patch, adjacency, moving, register
from veridp.engines.prove.induction.proof import prove_for_every_size
from veridp.errors import BadInput, NotExact, NotInductive
from veridp.verdict import Standing
from veridp_check.checker import check

NAME = "last-moves"


class LastMoves(Adjacency):
    """The last query moves, by at most 1: the three methods that every relation needs."""

    name = NAME

    def adjacent(self, left: Any, right: Any) -> bool:
        return len(left) == len(right) and left[:-1] == right[:-1] and abs(left[-1] - right[-1]) <= 1

    def example(self, size: int, domain: Domain) -> list[float]:
        return [0.0] * size

    def pairs(self, size: int, domain: Domain) -> Iterator[Pair]:
        pair = Pair([0.0] * size, [0.0] * (size - 1) + [1.0], "the last query above")
        yield pair
        yield pair.reversed()


class LastMovesInPolytope(LastMoves):
    """The same with what proofs, the finder and sensitivities ask."""

    def vertices(self, size: int) -> np.ndarray[Any, np.dtype[np.float64]]:
        return np.array([-1.0, 1.0])[:, None] * np.eye(size)[-1]

    def patches(self, size: int, domain: tuple[float, float]) -> list[Patch]:
        return [moving("the last query moves", np.eye(size)[:, [-1]], -1.0, 1.0, domain)]


@pytest.fixture(params=[LastMoves, LastMovesInPolytope])
def relation(request: pytest.FixtureRequest) -> Iterator[Adjacency]:
    register(request.param)
    yield BY_NAME[NAME]
    del BY_NAME[NAME]


def first_exactly(rng: Any, data: Any, *, epsilon: float = 1.0) -> list[Any]:
    """Private under the new relation alone: only the last entry has noise."""
    return [data[0], data[-1] + rng.laplace(scale=1 / epsilon)]


def too_little_noise(rng: Any, data: Any, *, epsilon: float = 1.0) -> list[Any]:
    return [data[0], data[-1] + rng.laplace(scale=0.5 / epsilon)]


def noisy(rng: Any, data: Any) -> list[Any]:
    answers = []
    for value in data:
        answers.append(value + rng.laplace())
    return answers


def weighted(data: list[float]) -> float:
    return sum((place + 1) * value for place, value in enumerate(data))


def test_a_new_relation_is_known_by_its_name(relation: Adjacency) -> None:
    assert adjacency(NAME) is relation
    assert veridp.mechanism(adjacency=NAME)(first_exactly).adjacency is relation
    with pytest.raises(BadInput, match=r"adjacency 'last-moves' is known already; give LastMoves another name"):
        register(LastMoves)


def test_the_exact_engine_answers_under_a_new_relation(relation: Adjacency) -> None:
    assert veridp.exact.compare(first_exactly, [0.0, 0.0], [0.0, 1.0], adjacency=NAME).epsilon == pytest.approx(1.0)
    with pytest.raises(BadInput, match="are not neighbours under last-moves"):
        veridp.exact.compare(first_exactly, [0.0, 0.0], [1.0, 0.0], adjacency=NAME)
    assert veridp.exact.worst(first_exactly, 2, adjacency=NAME, max_pairs=4).epsilon == pytest.approx(1.0)


@pytest.mark.parametrize("relation", [LastMovesInPolytope], indirect=True)
def test_audits_judge_under_a_new_relation(relation: Adjacency) -> None:
    assert veridp.audit(first_exactly, adjacency=NAME, size=2).standing is Standing.PROVED
    verdict = veridp.audit(too_little_noise, adjacency=NAME, size=2)
    assert verdict.standing is Standing.REFUTED
    assert verdict.witness is not None
    assert relation.adjacent(verdict.witness.left, verdict.witness.right)


def test_proofs_rest_on_the_polytopes_of_a_new_relation(relation: Adjacency) -> None:
    if type(relation) is LastMoves:
        with pytest.raises(BadInput, match=r"no proof method for 'last-moves' .* or an adjacency with vertices"):
            veridp.prove(first_exactly, 2, adjacency=NAME)
        return
    proof = veridp.prove(first_exactly, 2, adjacency=NAME)
    assert proof.epsilon == 1.0
    assert proof.certificate["adjacency"] == "listed"  # the checker keeps its own table of names
    assert check(proof.certificate).rejection is None
    with pytest.raises(NotInductive, match="induction does not support neighbours under last-moves"):
        prove_for_every_size(noisy, adjacency=NAME)


def test_a_finite_domain_needs_the_checker_too(relation: Adjacency) -> None:
    """What the checker does not know by name is proved with open data, or not at all: never a fault of its own."""
    if type(relation) is LastMoves:
        with pytest.raises(BadInput, match="no proof method for 'last-moves' over a range yet"):
            veridp.prove(first_exactly, 2, adjacency=NAME, domain=[0, 1])
    else:
        assert veridp.prove(first_exactly, 2, adjacency=NAME, domain=[0, 1]).epsilon == 1.0


def test_the_finder_searches_a_new_relation(relation: Adjacency) -> None:
    result = veridp.finder.search(first_exactly, 2, adjacency=NAME, restarts=1, samples=2_000, workers=1)
    assert relation.adjacent(result.witness.left, result.witness.right)
    assert result.epsilon == pytest.approx(1.0)


def test_sensitivities_are_exact_where_the_relation_has_patches(relation: Adjacency) -> None:
    if type(relation) is LastMoves:
        with pytest.raises(NotExact, match="neighbours under last-moves are not described by linear conditions"):
            sensitivity(weighted, 3, relation=NAME)
    else:
        assert sensitivity(weighted, 3, relation=NAME).value == 3.0
