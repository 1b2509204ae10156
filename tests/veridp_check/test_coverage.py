"""Whether events are one mechanism: decision trees are seen without a solver, and faults in them are found."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from veridp_check import coverage
from veridp_check.coverage import check_runs
from veridp_check.document import CertificateFlaw, LinearCondition, LinearForm
from veridp_check.noise import NoiseDraw

NOISES = [NoiseDraw(0, "laplace", (Fraction(1),)), NoiseDraw(1, "geometric", (Fraction(1, 2),))]


@dataclass(frozen=True)
class Leaf:
    conditions: tuple[LinearCondition, ...]
    weight: Fraction = Fraction(1)


def random_tree(rng: np.random.Generator, depth: int, path: tuple[LinearCondition, ...] = ()) -> list[Leaf]:
    """The leaves of a random decision tree over two noises and a datum; some questions are asked with a factor."""
    if depth == 0 or (path and rng.random() < 0.2):
        return [Leaf(path)]
    row = int(rng.integers(3))
    noise = {row: Fraction(1)} if row < 2 else {}
    slack = LinearForm(noise, {0: Fraction(int(rng.integers(1, 4)))}, Fraction(len(path), 3) + int(rng.integers(2)))
    factor = Fraction(int(rng.integers(1, 4)))
    back = LinearForm(
        {r: -c * factor for r, c in slack.noise.items()},
        {e: -c * factor for e, c in slack.data.items()},
        -slack.constant * factor,
    )
    yes, no = (LinearCondition(slack, ">="), LinearCondition(back, ">"))
    return random_tree(rng, depth - 1, (*path, yes)) + random_tree(rng, depth - 1, (*path, no))


@pytest.mark.parametrize("seed", range(20))
def test_a_decision_tree_is_seen_without_a_solver_and_its_faults_are_found(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    leaves = random_tree(rng, 4)
    asked = []
    solve = coverage.counterexample
    monkeypatch.setattr(coverage, "counterexample", lambda *a, **k: asked.append(a) or solve(*a, **k))
    order = rng.permutation(len(leaves))
    assert check_runs([leaves[k] for k in order], NOISES, 1) == len(leaves) * (len(leaves) - 1) // 2
    repeated = any(len({c.slack.constant for c in leaf.conditions}) < len(leaf.conditions) for leaf in leaves)
    assert not asked or repeated  # a question asked twice on a path is no tree of hyperplanes
    possible = [leaf for leaf in leaves if not repeated]
    for leaf in possible:
        if _reached(leaf, rng):
            with pytest.raises(CertificateFlaw, match="no event covers"):
                check_runs([other for other in leaves if other is not leaf], NOISES, 1)
            with pytest.raises(CertificateFlaw, match="overlaps"):
                check_runs([*leaves, leaf], NOISES, 1)


def _reached(leaf: Leaf, rng: np.random.Generator) -> bool:
    """Whether random runs come to the leaf, by plain arithmetic."""
    for _ in range(400):
        noise = [Fraction(float(rng.normal(scale=4))), Fraction(int(rng.geometric(0.3)))]
        datum = Fraction(float(rng.normal(scale=3)))
        values = [
            c.slack.constant
            + sum((x * noise[r] for r, x in c.slack.noise.items()), start=Fraction(0))
            + c.slack.data[0] * datum
            for c in leaf.conditions
        ]
        if all(v > 0 if c.relation == ">" else v >= 0 for v, c in zip(values, leaf.conditions, strict=True)):
            return True
    return False


def test_a_boundary_of_whole_noise_must_be_of_one_side():
    slack, back = LinearForm({1: Fraction(1)}, {}, Fraction(-3)), LinearForm({1: Fraction(-1)}, {}, Fraction(3))
    for relations, fault in (((">=", ">="), "overlaps"), ((">", ">"), "no event covers")):
        events = [
            Leaf((LinearCondition(each, relation),)) for each, relation in zip((slack, back), relations, strict=True)
        ]
        with pytest.raises(CertificateFlaw, match=fault):
            check_runs(events, NOISES, 1)
    check_runs([Leaf((LinearCondition(slack, ">="),)), Leaf((LinearCondition(back, ">"),))], NOISES, 1)
