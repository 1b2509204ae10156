"""Classifiers: training sets of outputs, and how likely an output comes from the left input."""

from __future__ import annotations

import enum
import importlib.util
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridp.budget.worker import one_thread
from veridp.engines.sniper.features import Columns
from veridp.errors import extra
from veridp.sampling.outputs import Outputs

# ------------------------------------------------------------------------------------------------------------ training
# Training sets: outputs of either input as rows of numbers, or, where few differ, as counts of each.


Floats = NDArray[np.float64]
MOST_OUTPUTS = 2**14  # with more different outputs, none is counted by itself


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """Rows of numbers, with 1 for outputs of the left input and 0 for those of the right, and how often each occurs."""

    matrix: Floats
    labels: NDArray[np.int8]
    weights: Floats

    @classmethod
    def of(cls, left: Floats, right: Floats) -> TrainingRows:
        """Rows that occur once each."""
        labels = np.repeat(np.array([1, 0], dtype=np.int8), [len(left), len(right)])
        return cls(np.concatenate([left, right]), labels, np.ones(len(labels)))


@dataclass(frozen=True, eq=False)
class Tallied:
    """Different outputs, sorted by their keys, and how often each occurs on either side."""

    keys: NDArray[np.uint64]
    matrix: Floats
    left: Floats
    right: Floats

    def labelled(self) -> TrainingRows:
        both = TrainingRows.of(self.matrix, self.matrix)
        weights = np.concatenate([self.left, self.right])
        return TrainingRows(both.matrix[weights > 0], both.labels[weights > 0], weights[weights > 0])


@dataclass(frozen=True, eq=False)
class Training:
    """Outputs of either side to learn from, and the columns that they are seen by."""

    columns: Columns
    left: Sequence[Outputs]
    right: Sequence[Outputs]

    def __len__(self) -> int:
        return sum(map(len, (*self.left, *self.right)))

    def some(self, rows: int) -> TrainingRows:
        """The first rows of either side (as good as any, since outputs are independent); all, where few differ."""
        if self.tallied is not None:
            return self.tallied.labelled()
        left, right = self._matrices
        return TrainingRows.of(left[:rows], right[:rows])

    @cached_property
    def _matrices(self) -> tuple[Floats, Floats]:
        left, right = (
            np.concatenate([self.columns.matrix(part) for part in parts]) for parts in (self.left, self.right)
        )
        return left, right

    @cached_property
    def tallied(self) -> Tallied | None:
        """How often each output occurs on either side; None where too many differ."""
        counted = list(self._counted())
        if not all(len(matrix) for matrix, _ in counted):
            return None
        matrix = np.concatenate([matrix for matrix, _ in counted])
        keys, first, places = np.unique(row_keys(matrix), return_index=True, return_inverse=True)
        if len(keys) > MOST_OUTPUTS:
            return None
        totals = np.zeros((len(keys), 2))
        np.add.at(totals, places, np.concatenate([counts for _, counts in counted]))
        return Tallied(keys, matrix[first], totals[:, 0], totals[:, 1])

    def _counted(self) -> Iterator[tuple[Floats, Floats]]:
        """The different rows of each part, and how often each occurs on either side; none where too many differ."""
        for side, parts in enumerate((self.left, self.right)):
            for part in parts:
                groups = part.grouped(MOST_OUTPUTS)
                if groups is None:
                    yield np.empty((0, 0)), np.empty((0, 2))
                    return
                few, places = groups
                counts = np.zeros((len(few), 2))
                counts[:, side] = np.bincount(places, minlength=len(few))
                yield self.columns.matrix(few), counts


def row_keys(matrix: Floats) -> NDArray[np.uint64]:
    """A number for each row: the same for equal rows, and (but once in 2^64) for no others."""
    bits = np.where(np.isnan(matrix), np.nan, matrix + 0.0).view(np.uint64)  # one NaN, one zero
    keys = np.zeros(len(matrix), dtype=np.uint64)
    for column in bits.T:  # splitmix64, chained
        keys = (keys ^ column) + np.uint64(0x9E3779B97F4A7C15)
        keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        keys = keys ^ (keys >> np.uint64(31))
    return keys


# ---------------------------------------------------------------------------------------------------------- classifier
# Classifiers: how likely an output comes from the left input, as a score of which the order alone matters.
#
# Every model gives log-odds (or something in the same order), not probabilities: those would run into 1.0 and tie where
# the most telling outputs are. A model learns from a matrix of `Columns` and keeps nothing of the training samples.


HIDDEN = (10, 5)  # the paper's network
ENTRY_ROWS = 20_000  # of either side, from which the likely columns are found; ten times as many choose among these
INDEPENDENCE_ROWS = 4000
SCALE_ROWS = 50_000
LINEAR_ROWS = 2**19  # of either side
NEWTON_STEPS, NEWTON_TOLERANCE = 20, 1e-5  # relative to the weight of all rows
BOOSTED_ROWS = 2**17
NETWORK_ROWS = 2**16  # ten epochs of more would take longer than all the rest


class ModelFamily(enum.StrEnum):
    """The families of models, the simplest first."""

    NONE = "no model"
    ENTRY = "one entry"
    TABLE = "table of counts"
    LINEAR = "logistic regression"
    BOOSTED = "boosted trees"
    NETWORK = "neural network"


QUICK = (ModelFamily.TABLE, ModelFamily.ENTRY, ModelFamily.LINEAR)
DEFAULT = (*QUICK, ModelFamily.BOOSTED)
ALL = (*DEFAULT, ModelFamily.NETWORK)


class Model:
    """A score for each row of a matrix: the higher, the likelier the left input."""

    family: ModelFamily

    def scores(self, matrix: Floats) -> Floats:
        raise NotImplementedError


@dataclass(frozen=True)
class ConstantModel(Model):
    """The same score for all: for outputs that never vary."""

    family = ModelFamily.NONE

    def scores(self, matrix: Floats) -> Floats:
        return np.zeros(len(matrix))


@dataclass(frozen=True, eq=False)
class Fit:
    """A model, and the columns that it wants, in their order."""

    model: Model
    places: tuple[int, ...]


def installed() -> AbstractContextManager[None]:
    """Where scikit-learn is imported: it takes longer to load than all of veridp, so only once it is needed."""
    return extra("attack", "attacks by classifiers need")


def check_installed(families: Iterable[ModelFamily]) -> None:
    """Raise MissingExtra if one of the families needs scikit-learn, and it is not installed."""
    with installed():
        if not set(families) <= set(QUICK) and importlib.util.find_spec("sklearn") is None:
            raise ModuleNotFoundError(name="sklearn")


def fitted(family: ModelFamily, training: Training, seed: int) -> Fit | None:
    """The model of this family; None where it does not serve: a table for too many different outputs."""
    with _quietly():
        return _FITS[family](training, seed)


@contextmanager
def _quietly() -> Iterator[None]:
    """Models that did not converge, or that overflow on separable data, are worse models and nothing else."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


# ---------------------------------------------------------------------------------------------------- one entry


@dataclass(frozen=True)
class SingleFeature(Model):
    """One column, or its negative."""

    sign: float
    absent: float  # the score where there is no number
    family = ModelFamily.ENTRY

    def scores(self, matrix: Floats) -> Floats:
        column = self.sign * matrix[:, 0]
        return np.where(np.isnan(column), self.absent, column)


def _entry(training: Training, seed: int) -> Fit | None:
    """The column whose order alone tells the sides apart best, by how far their distributions are apart."""
    few, many = training.some(ENTRY_ROWS), training.some(10 * ENTRY_ROWS)
    gaps = np.array([_gap(few, place) for place in range(few.matrix.shape[1])])
    shifts = _shifts(many)
    likely = {*np.argsort(-np.abs(gaps))[:3].tolist(), *np.argsort(-np.abs(shifts))[:3].tolist()}
    gap, place = max(((_gap(many, place), place) for place in sorted(likely)), key=lambda found: abs(found[0]))
    if gap == 0:
        return None
    sign = float(np.copysign(1.0, gap))
    return Fit(SingleFeature(sign, float(np.nanmin(sign * many.matrix[:, place])) - 1.0), (place,))


def _shifts(rows: TrainingRows) -> Floats:
    """By how much the means of either side differ in each column, in deviations of the column."""
    known = ~np.isnan(rows.matrix)
    numbers = np.where(known, rows.matrix, 0.0)
    weights = [rows.weights * (rows.labels == label) for label in (1, 0)]
    left, right = ((weight @ numbers) / (weight @ known) for weight in weights)
    return np.asarray(np.nan_to_num((left - right) / np.nanstd(rows.matrix, axis=0)))


def _gap(rows: TrainingRows, place: int) -> float:
    """The largest difference, with its sign, between the shares of either side above, or below, a level."""
    column = rows.matrix[:, place]
    known = np.flatnonzero(~np.isnan(column))
    order = known[np.argsort(column[known])]
    if not len(order):
        return 0.0
    ends = np.append(np.flatnonzero(np.diff(column[order])), len(order) - 1)  # the last row of each level
    below = [
        np.cumsum(weights[order])[ends] / weights.sum()
        for weights in (rows.weights * (rows.labels == label) for label in (1, 0))
    ]
    down = below[0] - below[1]
    up = down[-1] - np.append(0.0, down[:-1])
    return float(up.max() if up.max() >= down.max() else -down.max())


# ------------------------------------------------------------------------------------------------ table of counts


@dataclass(frozen=True, eq=False)
class OutputTable(Model):
    """The log-ratio of how often each output was seen on either side: for few different outputs, the best there is."""

    keys: NDArray[np.uint64]  # sorted
    log_ratios: Floats
    family = ModelFamily.TABLE

    def scores(self, matrix: Floats) -> Floats:
        keys = row_keys(matrix)
        places = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[places] == keys, self.log_ratios[places], 0.0)


def _table(training: Training, seed: int) -> Fit | None:
    known = training.tallied
    if known is None:
        return None
    # A half for each side (Jeffreys), so that what was seen once is no proof; rarer outputs are pulled to 0.
    return Fit(OutputTable(known.keys, np.log((known.left + 0.5) / (known.right + 0.5))), _all(known.matrix))


def _all(matrix: Floats) -> tuple[int, ...]:
    return tuple(range(matrix.shape[1]))


# ----------------------------------------------------------------------------------------- models of many columns


def independent(matrix: Floats) -> tuple[int, ...]:
    """The columns that are no weighted sum of columns before them, as far as some of the rows tell.

    A weighted sum has no use for the others, and solvers take long over them.
    """
    rows = matrix[:: max(1, len(matrix) // INDEPENDENCE_ROWS)]
    scaled = Scale.of(rows)(rows)
    scaled -= scaled.mean(axis=0)
    remainders = np.abs(np.diag(np.linalg.qr(scaled, mode="r")))
    places = np.flatnonzero(remainders > 1e-6 * np.sqrt(len(rows)))
    return tuple(places.tolist())


@dataclass(frozen=True, eq=False)
class Scale:
    """Columns shifted and scaled to about mean 0 and deviation 1, with 0 where there is no number."""

    means: Floats
    deviations: Floats

    @classmethod
    def of(cls, matrix: Floats) -> Scale:
        rows = matrix[:: max(1, len(matrix) // SCALE_ROWS)]
        means, deviations = np.nanmean(rows, axis=0), np.nanstd(rows, axis=0)
        return cls(means, np.where(deviations > 0, deviations, 1.0))

    def __call__(self, matrix: Floats) -> Floats:
        scaled = (matrix - self.means) / self.deviations
        return np.nan_to_num(scaled, copy=False, nan=0.0)


def _weighted(matrix: Floats, weights: NDArray[Any]) -> Floats:
    """The weighted sum of each row, to the last bit the same whatever other rows there are.

    A product of matrices is not: it adds up in an order that depends on their shape, and where a score is the level of
    an attack, the last bit decides. Equal outputs would belong to an event in one block and not in another.
    """
    total = np.zeros(len(matrix))
    for column, weight in zip(matrix.T, weights.tolist(), strict=True):
        total += column * weight
    return total


def _layer(signal: Floats, weights: NDArray[Any], bias: NDArray[Any]) -> Floats:
    units = [_weighted(signal, unit) + constant for unit, constant in zip(weights.T, bias.tolist(), strict=True)]
    return np.stack(units, axis=1)


@dataclass(frozen=True, eq=False)
class LinearModel(Model):
    """A weighted sum of the columns: the log-odds of a logistic regression."""

    scale: Scale
    weights: Floats
    family = ModelFamily.LINEAR

    def scores(self, matrix: Floats) -> Floats:
        return _weighted(self.scale(matrix), self.weights)


def _linear(training: Training, seed: int) -> Fit | None:
    rows = training.some(LINEAR_ROWS)
    places = independent(rows.matrix)
    matrix = rows.matrix[:, places]
    scale = Scale.of(matrix)
    return Fit(LinearModel(scale, logistic_weights(scale(matrix), rows.labels, rows.weights)), places)


def logistic_weights(matrix: Floats, labels: NDArray[Any], weights: Floats) -> Floats:
    """The weights of a logistic regression with half their squares as penalty, by Newton's method.

    The constant is not penalised, and not returned: a score is used for its order.
    """
    design = np.column_stack([matrix, np.ones(len(matrix))])
    penalty = np.append(np.ones(matrix.shape[1]), 0.0)
    signs = np.where(labels > 0, 1.0, -1.0)

    def loss(found: Floats) -> float:
        return float(weights @ np.logaddexp(0.0, -signs * (design @ found)) + penalty @ found**2 / 2)

    found = np.zeros(design.shape[1])
    lowest = loss(found)
    for _ in range(NEWTON_STEPS):
        chances = 0.5 * (1 + np.tanh(design @ found / 2))
        slope = design.T @ (weights * (chances - (signs > 0))) + penalty * found
        if np.abs(slope).max() <= NEWTON_TOLERANCE * weights.sum():
            break
        bends = design.T @ (design * (weights * chances * (1 - chances))[:, None])
        step = np.linalg.lstsq(bends + np.diag(penalty), slope, rcond=None)[0]
        while (reached := loss(found - step)) > lowest and np.abs(step).max() > NEWTON_TOLERANCE:
            step /= 2  # too far: where the two sides are all but separate
        found, lowest = found - step, reached
    return found[:-1]


@dataclass(frozen=True, eq=False)
class Network(Model):
    """A small network with rectified units; its last layer before the sigmoid is the score."""

    scale: Scale
    layers: tuple[tuple[NDArray[np.float32], NDArray[np.float32]], ...]

    @property
    def family(self) -> ModelFamily:  # type: ignore[override]
        return ModelFamily.NETWORK if len(self.layers) > 1 else ModelFamily.LINEAR

    def scores(self, matrix: Floats) -> Floats:
        signal = self.scale(matrix)
        for weights, bias in self.layers[:-1]:
            signal = np.maximum(_layer(signal, weights, bias), 0.0)
        return _layer(signal, *self.layers[-1])[:, 0]


def network_of(scale: Scale, learner: Any) -> Network:
    """The network that scikit-learn's learner has come to."""
    layers = zip(learner.coefs_, learner.intercepts_, strict=True)
    return Network(scale, tuple((w.astype(np.float32), b.astype(np.float32)) for w, b in layers))


def _network(training: Training, seed: int) -> Fit | None:
    with installed():
        from sklearn.neural_network import MLPClassifier

    some = training.some(NETWORK_ROWS)
    places = independent(some.matrix)
    matrix = some.matrix[:, places]
    scale = Scale.of(matrix)
    rows = len(some.labels)
    learner = MLPClassifier(
        HIDDEN,
        solver="adam",
        learning_rate_init=0.005,
        alpha=1e-4,
        batch_size=min(rows, max(256, rows // 500)),
        max_iter=10,
        random_state=seed % 2**32,
    )
    inputs = np.ascontiguousarray(scale(matrix), dtype=np.float32)
    with one_thread():
        learner.fit(inputs, some.labels, some.weights / some.weights.mean())
    return Fit(network_of(scale, learner), places)


@dataclass(frozen=True, eq=False)
class Boosted(Model):
    """Gradient-boosted trees on the columns as they are; what is missing goes its own way at each split."""

    learner: Any
    family = ModelFamily.BOOSTED

    def scores(self, matrix: Floats) -> Floats:
        with one_thread():
            return np.asarray(self.learner.decision_function(matrix), dtype=np.float64)


def _boosted(training: Training, seed: int) -> Fit | None:
    with installed():
        from sklearn.ensemble import HistGradientBoostingClassifier

    some = training.some(BOOSTED_ROWS)
    rows = len(some.labels)
    learner = HistGradientBoostingClassifier(
        learning_rate=0.2,
        max_iter=40,
        max_leaf_nodes=8,
        min_samples_leaf=max(20, rows // 2000),
        early_stopping=False,
        random_state=seed % 2**32,
    )
    with one_thread():
        learner.fit(some.matrix, some.labels, some.weights)
    return Fit(Boosted(learner), _all(some.matrix))


_FITS: dict[ModelFamily, Callable[[Training, int], Fit | None]] = {
    ModelFamily.ENTRY: _entry,
    ModelFamily.TABLE: _table,
    ModelFamily.LINEAR: _linear,
    ModelFamily.NETWORK: _network,
    ModelFamily.BOOSTED: _boosted,
}
