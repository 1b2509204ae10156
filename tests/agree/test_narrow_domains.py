"""Every engine keeps to the stated domain, also where it is narrower than neighbours may move."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import veridp
from veridp.claim import Claim
from veridp.engines.sniper.pairs import PairStream
from veridp.verdict import Standing

WIDTH, SCALE = 0.7, 0.5


@veridp.mechanism(epsilon=1.5, adjacency="linf", domain=(0, WIDTH), size=2)
def noisy(rng: Any, data: Any) -> Any:
    return data[0] + rng.laplace(scale=SCALE)


def test_no_witness_leaves_the_domain() -> None:
    """By hand: the first value moves by 0.7 at most, and the noise has scale 0.5, so ε = 1.4."""
    worst = veridp.exact.worst(noisy)
    assert worst.epsilon == pytest.approx(WIDTH / SCALE)
    inputs = np.array([worst.comparison.left, worst.comparison.right])
    assert ((inputs >= 0) & (inputs <= WIDTH)).all()
    assert not worst.comparison.refutes(Claim(1.5))
    verdict = veridp.audit(noisy, seconds=100)
    assert verdict.epsilon.lower == pytest.approx(WIDTH / SCALE)
    assert verdict.standing is not Standing.REFUTED


@pytest.mark.parametrize("adjacency", ["l1", "linf", "monotone"])
@pytest.mark.parametrize("domain", [(0, WIDTH), (0.1, 0.3), (-1e-10, 1e-10), (5, 6), (0, 100)])
def test_the_sniper_tries_no_pair_outside(adjacency: str, domain: tuple[float, float]) -> None:
    pairs = PairStream(noisy.stating(adjacency=adjacency, domain=domain), 3)
    first = next(pairs.patterns())
    made = [first, *pairs.corners(), *[pair for pair, _ in zip(pairs.random(0), range(20), strict=False)]]
    made += list(pairs.moves(first, 0))
    inputs = np.array([[pair.left, pair.right] for pair in made])
    assert ((inputs >= domain[0]) & (inputs <= domain[1])).all()
    assert np.abs(inputs[:, 0] - inputs[:, 1]).max() == pytest.approx(min(1.0, domain[1] - domain[0]))
