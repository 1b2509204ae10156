"""Defences: what they find, what they leave, and how often they cry wolf."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from veridp.errors import BadInput
from veridp.local import GRR, OLH, OUE, SUE, Estimate, SubsetSelection
from veridp.local.defences import defended, detect, recover, screen, thinned, weigh, without
from veridp.local.poisoning import MGA, RIA, RPA, AdaptiveMGA

SIZE, HONEST, FAKE = 60, 30_000, 1_500
TARGETS = (3, 17, 28, 41, 55)


def collected(oracle: Any, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    values = rng.zipf(1.5, size=HONEST) % SIZE
    return oracle.frequencies(values), oracle.perturb(values, rng)


@pytest.mark.parametrize("kind", [OUE, SUE, OLH])
def test_targets_of_mga_are_found_and_taken_out(kind: Any) -> None:
    oracle = kind(SIZE, 1.0)
    truth, honest = collected(oracle)
    attack = MGA(FAKE / (HONEST + FAKE), oracle, TARGETS)
    reports = np.concatenate((honest, attack.reports(FAKE, np.random.default_rng(1))))
    suspicion = detect(oracle, reports)
    assert suspicion.targets == TARGETS
    assert suspicion.share == pytest.approx(FAKE / (HONEST + FAKE), abs=0.005)
    assert suspicion.suspects[HONEST:].all()
    chosen = list(TARGETS)
    poisoned = oracle.estimate(oracle.aggregate(reports)).values[chosen].sum() - truth[chosen].sum()
    cleaned = without(oracle, reports, suspicion)
    # 5 standard errors (6e-7), and a little, since owners of targets are made up for as others are
    error = 5 * np.sqrt((cleaned.standard_errors[chosen] ** 2).sum()) + 0.01
    assert abs(cleaned.values[chosen].sum() - truth[chosen].sum()) < error
    assert poisoned > 4 * error


@pytest.mark.parametrize("kind", [OUE, SUE, OLH])
def test_honest_reports_raise_no_alarm(kind: Any) -> None:
    """Ten collections: any pair is suspected with probability 0.001 each at most, 0.01 in all; χ² fails in 0.001."""
    oracle = kind(SIZE, 1.0)
    for seed in range(10):
        _, honest = collected(oracle, seed)
        assert not detect(oracle, honest[:10_000]).found
        assert weigh(oracle, honest[:10_000]).p_value > 1e-4


def test_what_leaves_no_trace_is_not_found() -> None:
    """RIA and an attack on one target support nothing together; the adaptive attack has honest weights, yet its targets
    show. As above, these fail by chance in 0.001 each."""
    oracle, rng = OUE(SIZE, 1.0), np.random.default_rng(2)
    _, honest = collected(oracle)
    for attack in (RIA(0.05, oracle, TARGETS), MGA(0.05, oracle, (3,))):
        assert not detect(oracle, np.concatenate((honest, attack.reports(FAKE, rng)))).found
    adaptive = np.concatenate((honest, AdaptiveMGA(0.05, oracle, TARGETS, boldness=1.0).reports(FAKE, rng)))
    assert detect(oracle, adaptive).targets == TARGETS
    assert weigh(oracle, adaptive).p_value > 1e-4
    with pytest.raises(BadInput, match="SUE, OUE or OLH"):
        detect(GRR(SIZE, 1.0), GRR(SIZE, 1.0).perturb([1, 2], rng))
    with pytest.raises(BadInput, match="alpha"):
        detect(oracle, honest, alpha=0.0)


def test_weights_tell_reports_of_one_weight_and_random_ones() -> None:
    oracle, rng = OUE(SIZE, 1.0), np.random.default_rng(3)
    _, honest = collected(oracle)
    for kind in (MGA, RPA):
        reports = np.concatenate((honest, kind(0.05, oracle, TARGETS).reports(FAKE, rng)))
        weighing = weigh(oracle, reports)
        assert weighing.p_value < 1e-12
        assert weighing.excess == pytest.approx(FAKE / (HONEST + FAKE), abs=0.015)
        assert weighing.observed.sum() == len(reports)
        assert weighing.expected.sum() == pytest.approx(len(reports))
    with pytest.raises(BadInput, match="have the same weight"):
        weigh(SubsetSelection(SIZE, 1.0), SubsetSelection(SIZE, 1.0).perturb([1, 2], rng))


def test_thinning_takes_out_random_reports() -> None:
    """Random reports are so heavy that few are kept: the frequencies that they all raise come back."""
    oracle, rng = OUE(SIZE, 1.0), np.random.default_rng(4)
    _, honest = collected(oracle)
    reports = np.concatenate((honest, RPA(0.05, oracle, TARGETS).reports(FAKE, rng)))
    kept = thinned(oracle, reports, rng)
    assert kept[:HONEST].mean() > 0.75
    assert kept[HONEST:].mean() < 0.25
    raised = oracle.estimate(oracle.aggregate(reports)).values.sum() - 1
    rest = oracle.estimate(oracle.aggregate(reports[kept])).values.sum() - 1
    assert raised > 1.0
    assert abs(rest) < 0.35 * raised


def test_recovery_undoes_a_known_mixture_exactly() -> None:
    """Where the attack is as assumed and there is no noise, nothing is left of it."""
    oracle, truth, eta = GRR(SIZE, 1.0), np.full(SIZE, 1 / SIZE), 0.1
    fake = np.where(np.isin(np.arange(SIZE), TARGETS), 1 / len(TARGETS), 0.0)
    fake = (fake - oracle.q) / (oracle.p - oracle.q)
    mixed = Estimate((truth + eta * fake) / (1 + eta), np.zeros(SIZE), 1000, tuple(range(SIZE)))
    found = recover(oracle, mixed, eta=eta, targets=TARGETS, supported=1.0)
    np.testing.assert_allclose(found.values, truth, atol=1e-12)
    assert found.steps == ("recover", "norm-sub")
    with pytest.raises(BadInput, match="eta"):
        recover(oracle, mixed, eta=1.0)


@pytest.mark.parametrize("kind", [GRR, OUE, OLH])
def test_recovery_reduces_the_error_of_poisoned_frequencies(kind: Any) -> None:
    oracle = kind(SIZE, 1.0)
    truth, honest = collected(oracle)
    attack = MGA(FAKE / (HONEST + FAKE), oracle, TARGETS)
    reports = np.concatenate((honest, attack.reports(FAKE, np.random.default_rng(5))))
    poisoned = oracle.estimate(oracle.aggregate(reports))
    eta = FAKE / HONEST

    def error(estimate: Estimate) -> float:
        return float(np.square(estimate.values - truth).mean())

    blind, informed = recover(oracle, poisoned, eta=eta), recover(oracle, poisoned, eta=eta, targets=TARGETS)
    assert error(informed) < 0.25 * error(poisoned)
    assert error(blind) < error(poisoned)
    assert informed.values.sum() == pytest.approx(1)


def test_nothing_to_look_at_and_targets_that_are_none_are_refused() -> None:
    oracle, rng = OUE(10, 1.0), np.random.default_rng(0)
    nobody = oracle.perturb([], rng)
    with pytest.raises(BadInput, match="no reports to test"):
        detect(oracle, nobody)
    with pytest.raises(BadInput, match="no reports to weigh"):
        weigh(oracle, nobody)
    estimate = oracle.estimate(oracle.collect(rng.integers(10, size=100), rng))
    for targets in ([], [10], [-1]):
        with pytest.raises(BadInput, match="are not values from 0 to 9"):
            recover(oracle, estimate, targets=targets)


# ---------------------------------------------------------------------------------------------------------- screening


@pytest.mark.parametrize("oracle", [OUE(4, 1.0), SUE(4, 0.5)], ids=str)
def test_the_variance_of_honest_reports_is_bounded(oracle: Any) -> None:
    """By enumeration: the matrix off the diagonal has mean 0 for every value, and its square is within the bound."""
    p, q, size = oracle.p, oracle.q, oracle.size
    bound = (size - 1) * q * (1 - q) * max(q * (1 - q), p * (1 - p) + (p - q) ** 2)
    for value in range(size):
        mean, square = np.zeros((size, size)), np.zeros((size, size))
        for bits in itertools.product((0, 1), repeat=size):
            rates = [p if place == value else q for place in range(size)]
            mass = math.prod(rate if bit else 1 - rate for rate, bit in zip(rates, bits, strict=True))
            centred = np.array(bits) - q
            matrix = np.outer(centred, centred)
            np.fill_diagonal(matrix, 0.0)
            assert np.linalg.norm(matrix, 2) <= size * max(q, 1 - q) ** 2
            mean, square = mean + mass * matrix, square + mass * matrix @ matrix
        assert np.abs(mean).max() < 1e-12
        assert np.linalg.norm(square, 2) <= bound * (1 + 1e-12)


def test_attacks_are_found_and_undone_without_knowing_them() -> None:
    """Few and many targets, adaptive and random, on 20,000 users; honest users alone are left as they are."""
    oracle, rng = OUE(40, 1.0), np.random.default_rng(11)
    values = rng.zipf(1.6, size=20_000) % 40
    honest = oracle.perturb(values, rng)
    many = tuple(range(20, 36))
    alone = screen(oracle, honest, rng)
    assert not alone.found
    assert not alone.suspects.any()
    plain = oracle.estimate(oracle.aggregate(honest))
    assert defended(oracle, honest, rng).values == pytest.approx(plain.values)
    for attack, targets, most in (
        (MGA(0.05, oracle, (20, 21, 22)), (20, 21, 22), 0.15),
        (MGA(0.05, oracle, many), many, 0.15),
        (AdaptiveMGA(0.05, oracle, many), many, 0.4),
        (RPA(0.05, oracle, many), many, 0.4),
    ):
        fake = attack.reports(1053, rng)
        reports = np.concatenate((honest, fake))
        chosen = list(targets)
        before = oracle.estimate(oracle.aggregate(reports)).values[chosen].sum() - plain.values[chosen].sum()
        after = defended(oracle, reports, rng).values[chosen].sum() - plain.values[chosen].sum()
        assert before > 0.3
        assert abs(after) < most * before
        if attack.name == "mga" and targets is many:
            found, share = screen(oracle, reports, rng), 1053 / len(reports)
            sent = np.where(np.isin(np.arange(40), many), 1 - oracle.q, -oracle.q)  # 16 targets are more than are due
            matrix = share * np.outer(sent, sent)
            np.fill_diagonal(matrix, 0.0)
            assert found.strength == pytest.approx(np.linalg.eigvalsh(matrix)[-1], rel=0.05)
            assert found.suspects[-1053:].mean() > 0.99
            assert found.suspects[:-1053].mean() < 0.02
    with pytest.raises(BadInput, match="do not support values independently"):
        screen(GRR(4, 1.0), np.zeros(5, dtype=np.int32), rng)
