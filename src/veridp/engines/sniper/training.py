"""Training sets: outputs of either input as rows of numbers, or, where few differ, as counts of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from veridp.engines.sniper.features import Columns
from veridp.sampling.outputs import Outputs

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
