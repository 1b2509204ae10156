"""Composed functions: what they call, and the ledger's bound, the exact ε and the attack on one line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import veridp
from veridp.accounting import Parallel, Sequential, line, mechanisms, part, recording, releases_of
from veridp.accounting.simple import basic_charge
from veridp.adjacency import adjacency
from veridp.claim import Standing
from veridp.errors import BadInput, Nondeterministic
from veridp.mechanism import Mechanism, mechanism


@dataclass(frozen=True)
class Attack:
    """An attack that found this much."""

    epsilon_lower: float
    confidence: float = 0.95


@mechanism(adjacency="l1", size=2)
def two_counts(rng: Any, answers: Any) -> list[Any]:
    """The first answer twice, the second once if the first seems large."""
    first = mechanisms.laplace(rng, answers[0], epsilon=0.1)
    second = mechanisms.laplace(rng, answers[0], epsilon=0.2)
    return [first, second, mechanisms.laplace(rng, answers[1], epsilon=0.4) if first > 0 else 0.0]


def test_every_path_is_a_release() -> None:
    found = releases_of(two_counts, [1.0, 1.0])
    assert found.every
    charges = {float(charge.epsilon) for charge in map(basic_charge, found.releases) if charge is not None}
    assert charges == {0.3, 0.7}
    assert {len(release.parts) for release in found.releases} == {2, 3}


def test_the_line_of_a_sound_composition() -> None:
    found = line(two_counts, attack=lambda target, size, delta: Attack(0.27 + delta))
    assert found.ledger.epsilon == pytest.approx(0.7)
    assert found.exact == pytest.approx(0.4)  # one answer moves: 0.1 + 0.2, or 0.4
    assert not found.exceeded
    assert str(found) == "two_counts: ledger 0.7 (basic), exact 0.4, attack >= 0.27 (95% confidence)"


def test_a_wrong_declared_sensitivity_shows_on_the_line_and_is_refuted_by_audit() -> None:
    """The sum of values up to 5 moves by 5, but noise is drawn for 1."""

    def hasty(rng: Any, data: list[Any]) -> Any:
        return mechanisms.laplace(rng, sum(data), epsilon=0.2, sensitivity=1.0)

    declared = Mechanism(hasty, epsilon=0.2, adjacency=adjacency("add-remove"), domain=(0, 5), size=2)
    found = line(declared)
    assert (found.ledger.epsilon, found.exact) == (pytest.approx(0.2), pytest.approx(1.0))
    assert found.exceeded
    assert "the ledger is wrong" in str(found)
    verdict = veridp.audit(declared, size=2, seconds=20.0)
    assert verdict.standing is Standing.REFUTED


def test_parts_are_recorded_as_parallel() -> None:
    def by_region(rng: Any, data: dict[str, list[Any]]) -> list[Any]:
        counts = [mechanisms.laplace(rng, float(sum(map(len, data.values()))), epsilon=0.1)]
        for name, rows in data.items():
            with part(name):
                counts.append(mechanisms.laplace(rng, float(len(rows)), epsilon=0.3))
                counts.append(mechanisms.geometric(rng, len(rows), epsilon=0.2))
        return counts

    (release,) = releases_of(by_region, {"north": [1], "south": [1, 2]}).releases
    charge = basic_charge(release)
    assert charge is not None
    assert float(charge.epsilon) == 0.6  # 0.1 for all, 0.3 + 0.2 for a part
    _, parts = release.parts
    assert isinstance(parts, Parallel)
    assert list(parts.parts) == ["north", "south"]


def test_parts_that_overlap_are_found_out() -> None:
    @mechanism(adjacency="add-remove", domain=(0.0, 1.0), size=2)
    def overlapping(rng: Any, data: list[Any]) -> list[Any]:
        answers = []
        for name, low, high in (("low", 0.0, 0.7), ("high", 0.0, 1.0)):
            with part(name):
                count = len([value for value in data if low <= value <= high])
                answers.append(mechanisms.laplace(rng, float(count), epsilon=0.3))
        return answers

    found = line(overlapping)
    assert found.ledger.epsilon == pytest.approx(0.3)
    assert found.exact == pytest.approx(0.6)
    assert found.exceeded


def test_normal_noise_is_accounted_at_a_delta() -> None:
    @mechanism(adjacency="l1", size=1)
    def thrice(rng: Any, answers: Any) -> list[Any]:
        return [mechanisms.gaussian(rng, answers, epsilon=0.5, delta=1e-6)[0] for _ in range(3)]

    told: list[float] = []

    def attack(target: Mechanism, size: int, delta: float) -> Attack:
        told.append(delta)
        return Attack(0.0)

    found = line(thrice, delta=1e-5, seconds=20.0, attack=attack)
    assert found.ledger.delta == 1e-5
    assert told == [1e-5]  # an attack at δ = 0 may rightly find more
    assert found.exact is not None
    assert found.exact == pytest.approx(found.ledger.epsilon, rel=2e-2)
    assert found.exact <= found.ledger.epsilon * (1 + 1e-12)
    assert not found.exceeded


def test_what_cannot_be_explored_is_run_and_says_so() -> None:
    @mechanism(adjacency="l1", size=1)
    def squared(rng: Any, answers: Any) -> float:
        return float(mechanisms.laplace(rng, answers[0], epsilon=0.3) ** 2)

    found = line(squared)
    assert not found.every
    assert found.exact is None
    assert "on the runs seen), exact not known, attack not tried" in str(found)


def test_inner_calls_of_a_claimed_mechanism_are_its_own_affair() -> None:
    @mechanism(epsilon=0.25)
    def inner(rng: Any, data: Any) -> Any:
        return mechanisms.laplace(rng, data, epsilon=0.25)

    @mechanism()
    def outer(rng: Any, data: Any) -> Any:
        return inner(rng, data), mechanisms.laplace(rng, data, epsilon=0.5)

    with recording() as recorder:
        outer(np.random.default_rng(0), 1.0)
    assert isinstance(recorder.release, Sequential)
    names = [leaf.name for leaf in recorder.release.leaves()]
    assert names[0] == "inner"
    assert len(names) == 2


def test_an_input_is_needed() -> None:
    with pytest.raises(BadInput, match="at least one"):
        releases_of(two_counts)


def test_state_of_the_function_itself_is_still_seen() -> None:
    runs: list[int] = []

    def remembers(rng: Any, data: Any) -> Any:
        runs.append(1)
        return mechanisms.laplace(rng, data[0], epsilon=0.3) if len(runs) < 3 else data[0]

    with pytest.raises(Nondeterministic, match="keeps state between runs: the variable runs"):
        releases_of(remembers, [0.0])
