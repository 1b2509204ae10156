"""What released doubles tell besides the real numbers that they stand for, beside the cost as meant."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from diffprivlib import mechanisms as ibm

import veridp
from veridp.audit.case import AuditCase
from veridp.audit.floats import ALPHA, RUNS, _cost
from veridp.claim import Claim
from veridp.engines.sniper.attack import lowest_bits, reachable
from veridp.errors import CutShort
from veridp.report.audit import _lines
from veridp.verdict import FloatCost, Standing

ONE: dict[str, Any] = {"adjacency": "l1", "domain": (-10, 10), "size": 1, "epsilon": 1.0}


def textbook(rng: Any, data: Any) -> Any:
    return data[0] + rng.laplace(scale=1.0)


def rounded(rng: Any, data: Any) -> Any:
    return round((data[0] + rng.laplace(scale=1.0 + 2.0**-9)) * 1024) / 1024


def cost_of(function: Any, **settings: Any) -> FloatCost | None:
    return _cost(AuditCase.of(veridp.mechanism(**(ONE | settings))(function), None, 0.05, 0))


def share_of_fine_outputs() -> float:
    """P[a bit of 2^-54 or below] of Laplace noise of scale 1: a double in [2^-(j+1), 2^-j) has j such bits."""
    return math.fsum((math.exp(-(2.0 ** -(j + 1))) - math.exp(-(2.0**-j))) * (1 - 2.0**-j) for j in range(1, 60))


def test_the_low_bits_of_textbook_laplace_noise_tell_zero_from_one() -> None:
    verdict = veridp.audit(textbook, seconds=120.0, **ONE)
    assert verdict.standing is Standing.PROVED  # as meant
    cost = verdict.as_floats
    assert cost is not None
    assert cost.witness is not None
    assert cost.refutes(verdict.claim)
    assert (cost.witness.left, cost.witness.right) == ([0.0], [1.0])
    assert str(cost.witness.event) == "output has a bit set of value 2^-54 or below"
    expected, error = share_of_fine_outputs(), math.sqrt(0.25 / RUNS)
    assert expected - 11 * error < cost.witness.left_probability.lower < expected
    assert cost.witness.right_probability.upper == pytest.approx(1 - (ALPHA / 2) ** (1 / RUNS))  # it never occurred
    outputs = veridp.sample(textbook, [0.0], 2000, seed=3, reading="one-by-one").matrix()[:, 0]
    assert not reachable(outputs[lowest_bits(outputs) <= -54], 1.0).any()  # by another argument: it never can
    assert any("grid" in line for line in _lines(verdict))
    assert verdict.to_dict()["as_floats"]["refuted"] is True


def test_snapping_rounding_and_whole_numbers_pass() -> None:
    found = cost_of(rounded)
    assert found is not None
    assert found.witness is None
    for machine in (
        ibm.Snapping(epsilon=1, sensitivity=1, lower=-5.3, upper=5.3),
        ibm.Geometric(epsilon=1, sensitivity=1),
    ):
        snapped = _cost(AuditCase.of(veridp.adapters.diffprivlib(machine), None, 0.05, 0))
        assert snapped is None or not snapped.refutes(Claim(1.0))
    leaking = _cost(AuditCase.of(veridp.adapters.diffprivlib(ibm.Laplace(epsilon=1, sensitivity=1)), None, 0.05, 0))
    assert leaking is not None
    assert leaking.refutes(Claim(1.0))  # github.com/IBM/differential-privacy-library/issues/94


def test_decimals_of_several_numbers_are_no_leak_and_several_doubles_are() -> None:
    several = {"size": 3}
    decimals = cost_of(lambda rng, data: [round(value + rng.laplace(), 2) for value in data], **several)
    assert decimals is not None
    assert decimals.witness is None
    doubles = cost_of(lambda rng, data: {"sums": [value + rng.laplace() for value in data]}, **several)
    assert doubles is not None
    assert doubles.refutes(Claim(1.0))


def test_nan_that_a_clamp_lets_through_is_said() -> None:
    def clamped(rng: Any, data: Any) -> Any:
        return sum(0.0 if value < 0 else 1.0 if value > 1 else value for value in data) + rng.laplace()

    def checked(rng: Any, data: Any) -> Any:
        return sum(value for value in np.nan_to_num(data).clip(0, 1)) + rng.laplace()

    assert cost_of(clamped).faults == (  # type: ignore[union-attr]
        "a record that is nan shows in the output whatever the noise: reject or replace it first",
    )
    assert cost_of(checked).faults == ()  # type: ignore[union-attr]
    entries = cost_of(lambda rng, data: [data[0] + rng.laplace(), rng.laplace()])
    assert [fault.split()[4] for fault in entries.faults] == ["nan", "inf"]  # type: ignore[union-attr]


def test_integers_that_overflow_are_judged_as_they_run() -> None:
    def wrapped(rng: Any, data: Any) -> Any:
        return int(np.sum(np.array(data, dtype=np.int8), dtype=np.int8)) + rng.laplace(scale=100.0)

    verdict = veridp.audit(wrapped, epsilon=1.0, pairs=[([100, 27], [100, 28])], seconds=120.0)
    assert verdict.standing is Standing.REFUTED
    assert verdict.epsilon.lower == pytest.approx(2.55)  # 127 and -128, where 127 and 128 are meant


def test_a_look_that_is_cut_short_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def cut(case: object) -> None:
        raise CutShort("no time is left")

    monkeypatch.setattr("veridp.audit.floats._cost", cut)
    verdict = veridp.audit(veridp.catalogue["laplace"], size=1, seconds=600.0)
    assert verdict.standing is Standing.PROVED
    assert not verdict.finished
    assert "low bits were not examined: cut short" in [piece.finding for piece in verdict.evidence]
