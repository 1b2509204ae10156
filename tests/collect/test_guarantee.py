"""Robustness as computed: against brute force through the real verifier, a linear program, and closed forms."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog

from veridp.collect import PMHO, Rates, Task, rates
from veridp.collect.attacks import play_vector
from veridp.collect.guarantee import SOME_SESSION, PoisoningStanding, robustness, scores
from veridp.collect.layout import Counts, Layout
from veridp.errors import BadInput

STANDINGS = {
    "vgrr": PoisoningStanding.ROBUST,
    "voue": PoisoningStanding.SEMI_ROBUST,
    "volh": PoisoningStanding.ROBUST,
    "grr-ho": PoisoningStanding.ROBUST,
    "sr-ho": PoisoningStanding.ROBUST,
    "pm-ho": PoisoningStanding.NOT_ROBUST,
}


def targets_of(task: Task) -> list[int] | None:
    return [0, 2] if task.items else None


@pytest.mark.parametrize("epsilon", [0.3, math.log(2), 1.0, 3.0])
@pytest.mark.parametrize("mechanism", STANDINGS)
def test_how_each_protocol_stands(mechanism: str, epsilon: float, small_task: Callable[..., Task]) -> None:
    task = small_task(mechanism, epsilon=epsilon, **({"resolution": 16} if mechanism == "pm-ho" else {}))
    found = robustness(task.protocol, targets_of(task))
    assert found.standing == STANDINGS[mechanism]
    assert (found.best_accepted == found.best_input) == (found.standing == PoisoningStanding.ROBUST)
    assert found.best_input <= found.best_accepted < found.unprotected
    assert robustness(task.protocol).standing == STANDINGS[mechanism]  # two targets, if none are named


def test_a_window_of_one_bin_is_robust_as_it_is_randomised_response(small_task: Callable[..., Task]) -> None:
    assert robustness(small_task("pm-ho", epsilon=3.0, resolution=5).protocol).standing == PoisoningStanding.ROBUST


def compositions(layout: Layout) -> list[Counts]:
    """All counts of a block."""
    return [
        counts
        for counts in itertools.product(range(layout.length + 1), repeat=layout.values)
        if sum(counts) == layout.length
    ]


@pytest.mark.parametrize("mechanism", ["vgrr", "volh", "grr-ho", "sr-ho", "pm-ho"])
def test_no_vector_that_the_verifier_accepts_does_better(mechanism: str, small_task: Callable[..., Task]) -> None:
    """Every composition of a short vector is played; whatever is accepted in all plays bounds S_max from below.

    A composition below a floor is rejected whatever is selected, so one play decides.
    """
    domain = {"items": ("a", "b", "c")} if mechanism in ("vgrr", "volh") else {}
    resolution = {"grr-ho": 3, "sr-ho": 2, "pm-ho": 4}.get(mechanism, 0)
    task = small_task(mechanism, **domain, resolution=resolution)
    layout, rng = task.protocol.layout, random.Random(2)
    targets = [0] if task.items else None
    (weights,) = scores(task.protocol, targets, SOME_SESSION)
    best = None
    for counts in compositions(layout):
        verdict = play_vector(task, [counts], rng).verdict
        assert verdict is not None
        assert verdict.accepted == all(c >= f for c, f in zip(counts, layout.floors, strict=True)), counts
        if verdict.accepted:
            score = sum((c * w for c, w in zip(counts, weights, strict=True)), Fraction(0)) / layout.length
            best = score if best is None else max(best, score)
    assert best == robustness(task.protocol, targets).best_accepted


def test_bits_of_unary_encoding_are_proved_one_by_one(small_task: Callable[..., Task]) -> None:
    """Every client that sets all bits is accepted: the scores of all targets add up."""
    task = small_task("voue")
    layout = task.protocol.layout
    zeros, _ = layout.floors
    everything = [(zeros, layout.length - zeros)] * layout.blocks
    for seed in range(20):
        verdict = play_vector(task, everything, random.Random(seed)).verdict
        assert verdict is not None
        assert verdict.accepted
    found = robustness(task.protocol, [0, 1, 2])
    assert (found.best_input, found.best_accepted) == (1, 3)
    more = play_vector(task, [(zeros - 1, layout.length - zeros + 1)] * layout.blocks, random.Random(0)).verdict
    assert more is not None
    assert not more.accepted


def maximum_by_linear_program(layout: Layout, weights: Sequence[Fraction]) -> float:
    found = linprog(
        -np.array([float(w) for w in weights]),
        A_eq=np.ones((1, layout.values)),
        b_eq=[layout.length],
        bounds=[(floor, None) for floor in layout.floors],
    )
    return float(-found.fun) / layout.length


def test_corners_are_the_optimum_of_the_linear_program(task: Task) -> None:
    rows = scores(task.protocol, targets_of(task), SOME_SESSION)
    by_program = sum(maximum_by_linear_program(task.protocol.layout, row) for row in rows)
    assert float(robustness(task.protocol, targets_of(task)).best_accepted) == pytest.approx(by_program, abs=1e-9)


@pytest.mark.parametrize("epsilon", [math.log(2), math.log(3), math.log(9)])
def test_the_piecewise_mechanism_lets_means_past_the_range(epsilon: float) -> None:
    """The worst accepted mean tends to 1 + e^(-ε/2), and at any number of bins is (K-1)/(K-w)."""
    limit = 1 + math.exp(-epsilon / 2)
    protocol = PMHO(rates(epsilon), -1.0, 1.0, 1000)
    found = robustness(protocol)
    assert found.best_accepted == Fraction(protocol.bins - 1, protocol.bins - protocol.window)
    assert float(found.best_accepted) == pytest.approx(limit, abs=3e-3)
    assert found.best_input == 1
    half = math.exp(epsilon / 2)
    assert float(found.unprotected) == pytest.approx((half + 1) / (half - 1), rel=2e-3)
    assert robustness(protocol, down=True).best_accepted == found.best_accepted


def test_scores_of_the_literature() -> None:
    """Gains per malicious client: GRR's MGA is 1 + (d-r)/(e^ε-1), OUE's 2r + 2r/(e^ε-1)."""
    for name, expected in [("vgrr", 1 + (6 - 2) / 1), ("voue", 4 + 4 / 1)]:
        task = Task(name="six", mechanism=name, epsilon=math.log(2), items=tuple("abcdef"))
        assert float(robustness(task.protocol, [1, 4]).unprotected) == pytest.approx(expected)


def test_stochastic_rounding_on_ages() -> None:
    """β = 5 % at mean 38.58 of 17…90: honest input of 90 gives 41.15, drop-out 42.8 and no protection 44.8 at ln 2."""
    mean, beta = 38.58165, 0.05
    for epsilon, dropped, unprotected in [(math.log(2), 42.8, 44.8), (0.1, 58.6, 75.9)]:
        task = Task(name="ages", mechanism="sr-ho", epsilon=epsilon, low=17.0, high=90.0, resolution=1, closeness=0.999)
        found = robustness(task.protocol)
        assert (1 - beta) * mean + beta * float(found.best_accepted) == pytest.approx(41.15, abs=0.005)
        assert (1 - beta) * mean + beta * float(found.unprotected) == pytest.approx(unprotected, rel=2e-3)
        stay = float(task.protocol.law(task.protocol.inputs - 1, SOME_SESSION)[0][1])
        with_drop_out = ((1 - beta) * mean + beta * stay * float(found.unprotected)) / (1 - beta + beta * stay)
        assert with_drop_out == pytest.approx(dropped, rel=2e-3)


def test_targets_are_checked(small_task: Callable[..., Task]) -> None:
    with pytest.raises(BadInput, match="0 to 4"):
        robustness(small_task("vgrr").protocol, [5])
    with pytest.raises(BadInput, match="down"):
        robustness(small_task("vgrr").protocol, [1], down=True)
    assert "semi-robust" in str(robustness(small_task("voue").protocol, [0, 1]))
    assert Rates(2, 1).ratio == 2
