"""Classifiers against the likelihood ratio that they stand for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from veridp import catalogue, sample
from veridp.engines.sniper.attack import Scorer
from veridp.engines.sniper.classifier import (
    ALL,
    Boosted,
    LinearModel,
    ModelFamily,
    OutputTable,
    Training,
    fitted,
    independent,
    logistic_weights,
    row_keys,
)
from veridp.engines.sniper.features import Columns, FeatureLayout, Value, columns_for
from veridp.engines.sniper.pairs import PairStream
from veridp.sampling.encode import encode
from veridp.sampling.outputs import Outputs, concatenate


def outputs_of(rows: np.ndarray) -> Outputs:
    """Outputs that are lists of these numbers, None in place of NaN."""
    return encode([[None if np.isnan(number) else number for number in row] for row in rows.astype(float).tolist()])


def training_on(left: np.ndarray, right: np.ndarray) -> Training:
    sides = outputs_of(left), outputs_of(right)
    layout = FeatureLayout.of(concatenate(sides))
    columns = Columns(layout, tuple(Value(place, f"number {place}") for place in range(left.shape[1])))
    return Training(columns, *([side[: len(side) // 3], side[len(side) // 3 :]] for side in sides))


def power(family: ModelFamily, training: Training, left: np.ndarray, right: np.ndarray) -> float:
    """The share of pairs (one output of either side) that the scores put in the right order."""
    fit = fitted(family, training, 0)
    assert fit is not None
    assert fit.model.family is family
    scores = [fit.model.scores(side[:, fit.places]) for side in (left, right)]
    return float(np.mean(np.searchsorted(np.sort(scores[1]), scores[0]) / len(right)))


@pytest.mark.parametrize("family", [ModelFamily.ENTRY, ModelFamily.LINEAR, ModelFamily.BOOSTED, ModelFamily.NETWORK])
def test_every_family_finds_a_shift_of_one_column(family: ModelFamily) -> None:
    """Normal columns, one of them shifted by 1: the best order has P = Φ(1/√2) = 0.7602."""
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=(2, 40_000, 3))
    left[:, 1] += 1
    train = training_on(left[:20_000], right[:20_000])
    assert power(family, train, left[20_000:], right[20_000:]) == pytest.approx(0.7602, abs=0.01)


@pytest.mark.parametrize("family", [ModelFamily.BOOSTED, ModelFamily.NETWORK])
def test_trees_and_networks_find_what_no_line_can(family: ModelFamily) -> None:
    """Normal columns of deviation 2 against 1: only the distance from 0 tells."""
    rng = np.random.default_rng(1)
    left, right = 2 * rng.normal(size=(40_000, 1)), rng.normal(size=(40_000, 1))
    train = training_on(left[:20_000], right[:20_000])
    best = np.searchsorted(np.sort(np.abs(right[20_000:, 0])), np.abs(left[20_000:, 0])).mean() / 20_000
    assert power(family, train, left[20_000:], right[20_000:]) > best - 0.02
    assert power(ModelFamily.LINEAR, train, left[20_000:], right[20_000:]) < 0.55


def test_a_table_is_the_log_ratio_of_counts() -> None:
    fit = fitted(ModelFamily.TABLE, training_on(np.array([[1], [1], [1], [2]]), np.array([[1], [2], [2], [3]])), 0)
    assert fit is not None
    assert isinstance(fit.model, OutputTable)
    scores = fit.model.scores(np.array([[1.0], [2.0], [3.0], [9.0]]))
    assert scores == pytest.approx(np.log([3.5 / 1.5, 1.5 / 2.5, 0.5 / 1.5, 1.0]))


def test_a_table_does_not_serve_for_numbers_that_never_repeat() -> None:
    rng = np.random.default_rng(2)
    assert fitted(ModelFamily.TABLE, training_on(rng.normal(size=(5000, 1)), rng.normal(size=(5000, 1))), 0) is None


def test_rows_have_the_same_key_if_and_only_if_they_are_equal() -> None:
    rows = np.array([[0.0, np.nan], [-0.0, np.nan], [np.nan, 0.0], [1.0, 2.0], [2.0, 1.0], [1.0, 2.0]])
    keys = row_keys(rows)
    assert keys[0] == keys[1]
    assert keys[3] == keys[5]
    assert len(set(keys.tolist())) == 4


def test_columns_that_are_sums_of_others_are_left_to_them() -> None:
    rng = np.random.default_rng(3)
    first, second = rng.normal(size=(2, 5000))
    table = np.column_stack([first, 3 * first - 1, second, first + second, first * second])
    assert independent(table) == (0, 2, 4)


def test_logistic_regression_gives_the_log_ratio_of_normals() -> None:
    """Means 0 and (1, -2): the log-ratio is x - 2y - 5/2, up to a constant."""
    rng = np.random.default_rng(4)
    right = rng.normal(size=(200_000, 2))
    fit = fitted(ModelFamily.LINEAR, training_on(right + np.array([1, -2]), right[::-1]), 0)
    assert fit is not None
    assert isinstance(fit.model, LinearModel)
    slope = fit.model.scores(np.array([[1.0, 0.0], [0.0, 1.0]])) - fit.model.scores(np.zeros((1, 2)))
    assert slope == pytest.approx([1, -2], abs=0.03)  # a standard error is below 0.006


def test_scores_of_separable_outputs_do_not_tie() -> None:
    """Where a probability would be 1.0 in doubles, the log-odds still tell 10 from 20."""
    rng = np.random.default_rng(5)
    train = training_on(rng.normal(5, 1, size=(5000, 2)), rng.normal(-5, 1, size=(5000, 2)))
    for family in (ModelFamily.LINEAR, ModelFamily.NETWORK):
        fit = fitted(family, train, 0)
        assert fit is not None
        near, far = fit.model.scores(np.array([[10.0, 10.0], [20.0, 20.0]])[:, fit.places])
        assert far > near


def test_what_is_missing_is_no_obstacle() -> None:
    rng = np.random.default_rng(6)
    left, right = rng.normal(size=(2, 4000, 2))
    left[:2500, 0] = right[:500, 0] = np.nan
    for family in ALL:
        fit = fitted(family, training_on(left, right), 0)
        if fit is not None:
            assert np.isfinite(fit.model.scores(left[:, fit.places])).all()
            if isinstance(fit.model, Boosted):
                scores = fit.model.scores(np.array([[np.nan, 0.0], [0.0, 0.0]]))
                assert scores[0] > scores[1]  # it is missing five times as often on the left


def test_outputs_that_are_few_are_learnt_from_as_counts() -> None:
    """Counts of different rows teach an entry, a line and a table what the rows themselves teach."""
    rng = np.random.default_rng(7)
    left, right = rng.binomial(6, 0.6, size=(20_000, 2)), rng.binomial(6, 0.5, size=(20_000, 2))
    training = training_on(left, right)
    counted = training.some(10)
    assert len(counted.labels) <= 2 * 49
    assert counted.weights[counted.labels == 1].sum() == counted.weights[counted.labels == 0].sum() == 20_000
    for side, label in ((left, 1), (right, 0)):
        mine = counted.labels == label
        assert counted.weights[mine] @ counted.matrix[mine] == pytest.approx(side.sum(axis=0))
    fit = fitted(ModelFamily.LINEAR, training, 0)
    assert fit is not None
    slope = fit.model.scores(np.array([[1.0, 0.0], [0.0, 1.0]])) - fit.model.scores(np.zeros((1, 2)))
    assert slope == pytest.approx([np.log(1.5)] * 2, abs=0.04)  # the log-ratio of binomials; a standard error is 0.009


def test_the_score_of_an_output_does_not_depend_on_its_company() -> None:
    """Not even in its last bit: a level that is a score must part equal outputs nowhere."""
    rng = np.random.default_rng(8)
    left, right = rng.binomial(1, 0.52, size=(3000, 10)), rng.binomial(1, 0.48, size=(3000, 10))
    training = training_on(left, right)
    rows = rng.binomial(1, 0.5, size=(1031, 10)).astype(float)
    for family in ALL:
        fit = fitted(family, training, 0)
        assert fit is not None
        together = fit.model.scores(rows[:, fit.places])
        for start, end in ((0, 1), (5, 8), (100, 117), (0, 1030), (3, 1031)):
            apart = fit.model.scores(np.asfortranarray(rows[start:end][:, fit.places]))
            assert (apart == together[start:end]).all(), family


@pytest.mark.parametrize("name", ["svt3", "rappor", "numerical_svt"])
def test_equal_outputs_have_equal_scores_in_whatever_block_they_are(name: str) -> None:
    """Else the event that is counted on one side is not the one that is counted on the other."""
    mechanism = catalogue[name]
    pair = next(PairStream(mechanism, mechanism.size).patterns())
    left, right = (sample(mechanism, data, 4000, seed) for seed, data in enumerate((pair.left, pair.right)))
    columns = columns_for(concatenate([replace(side, notes=()) for side in (left, right)]))
    training = Training(columns, [left], [right])
    blocks = [(0, 4000), (0, 1), (17, 19), (1000, 1257), (5, 3999), (2048, 4000)]
    for fit in filter(None, (fitted(family, training, 0) for family in ALL)):
        scorer = Scorer(columns.only(fit.places), fit.model)
        whole = scorer(left)
        for start, end in blocks:
            assert (scorer(left[start:end]) == whole[start:end]).all(), fit.model.family
        pieces = np.array([scorer(left[start : start + 1])[0] for start in range(0, 4000, 97)])
        assert (pieces == whole[::97]).all(), fit.model.family


def test_the_regression_is_that_of_scikit_learn() -> None:
    """With weights, with columns that hardly tell, and where a column separates the two sides."""
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    matrix, labels = rng.normal(size=(4_000, 3)), rng.integers(0, 2, 4_000).astype(np.int8)
    matrix[:, 0] += 0.1 * labels
    weights = rng.integers(1, 4, 4_000).astype(float)
    for separating in (0.0, 20.0):
        matrix[:, 2] += separating * labels
        known = LogisticRegression(solver="newton-cholesky", C=1.0, max_iter=100, tol=1e-8).fit(matrix, labels, weights)
        assert logistic_weights(matrix, labels, weights) == pytest.approx(known.coef_[0], rel=2e-3, abs=1e-3)
