"""How often each of many events happened, without evaluating them one by one.

A column of numbers is sorted once; then the count of every interval between cuts is a difference of two places in it.
A product of a discrete and a numeric condition is the same among the outputs that satisfy the discrete one. What
does not depend on floats is worked out once for each form of output, not for each output.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from veridp.engines.statdp.candidates import Axes, Axis, FeatureCondition, FeatureEvent
from veridp.engines.statdp.features import Array, Discrete, Number, Sheet, SummaryFeature
from veridp.sampling.outputs import Outputs

Counts = NDArray[np.int64]
EVERY = 2  # of the cuts of a number is used in products


@dataclass(frozen=True, eq=False)
class IntervalFamily:
    """All intervals between the cuts of an axis, perhaps together with a condition on another feature."""

    axis: Axis
    cuts: Array
    also: FeatureCondition | None = None

    def __len__(self) -> int:
        return len(self._pairs[0])

    @cached_property
    def _places(self) -> Array:
        return np.concatenate([[-np.inf], self.cuts, [np.inf]])

    @cached_property
    def _pairs(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The ends of each interval as places among -∞, the cuts, +∞; not both infinite."""
        first, second = np.triu_indices(len(self.cuts) + 2, k=1)
        keep = (first > 0) | (second <= len(self.cuts))
        return first[keep], second[keep]

    def counts(self, below: Counts) -> Counts:
        """How often each of its events happened, from how often the feature was at most each cut, and was there."""
        first, second = self._pairs
        table = np.concatenate([[0], below])
        return np.asarray(table[second] - table[first], dtype=np.int64)

    def complexity(self) -> NDArray[np.int64]:
        """How much there is to say about each of its events."""
        first, second = self._pairs
        ends = (first > 0).astype(np.int64) + (second <= len(self.cuts))
        if self.axis.feature.whole:
            ends[(ends == 2) & (self._places[second] == self._places[first] + 1)] = 1  # a single value
        own = self.axis.feature.complexity
        other = 0 if self.also is None else 3 + self.also.feature.complexity
        return np.asarray(ends + own + other, dtype=np.int64)

    def event(self, index: int) -> FeatureEvent:
        first, second = (self._places[ends[index]] for ends in self._pairs)
        own = FeatureCondition(self.axis.feature, float(first), float(second))
        return FeatureEvent((own,) if self.also is None else (self.also, own))


@dataclass(frozen=True, eq=False)
class Families:
    """All candidate events of a pair of inputs."""

    families: tuple[IntervalFamily, ...]

    @classmethod
    def of(cls, axes: Axes) -> Families:
        found = [IntervalFamily(axis, axis.cuts) for axis in (*axes.discrete, *axes.numeric)]
        for axis in axes.numeric:
            if isinstance(axis.feature, SummaryFeature) or len(axes.numeric) == 1:
                found += [IntervalFamily(axis, axis.cuts[::EVERY], condition) for condition in axes.partners]
        return cls(tuple(found))

    def counts(self, outputs: Outputs) -> Counts:
        """How often each event happened, family by family."""
        columns = _Columns(Sheet(outputs))
        return np.concatenate([family.counts(columns.below(family)) for family in self.families])

    def complexity(self) -> NDArray[np.int64]:
        return np.concatenate([family.complexity() for family in self.families])

    def event(self, index: int) -> FeatureEvent:
        for family in self.families:
            if index < len(family):
                return family.event(index)
            index -= len(family)
        raise IndexError(index)


class _Columns:
    """The features of a sample; what products share is worked out once."""

    def __init__(self, sheet: Sheet) -> None:
        self.sheet = sheet
        self.parts: dict[Number, list[Array | None]] = {}

    def below(self, family: IntervalFamily) -> Counts:
        """How many of the outputs that the family is about have the feature at most at each cut, and at all."""
        if isinstance(family.axis.feature, Discrete):
            column, times = self.sheet.weighted(family.axis.feature)
            counts = np.bincount(column.astype(np.int64), weights=times)
            total = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
            places = np.clip(np.floor(family.cuts) + 1, 0, len(counts)).astype(np.int64)
            return np.append(total[places], total[-1])
        ordered = np.sort(self._known(family))
        return np.append(np.searchsorted(ordered, family.cuts, side="right"), len(ordered)).astype(np.int64)

    def _known(self, family: IntervalFamily) -> Array:
        """The feature of the outputs that the family is about, where they have it, in any order."""
        feature = family.axis.feature
        if family.also is None:
            return feature.known(self.sheet)
        forms = self.sheet.forms_where(family.also.where)
        if forms is None or not isinstance(feature, Number):
            column = feature.column(self.sheet)[family.also.where(self.sheet)]
            return column[~np.isnan(column)]
        if feature not in self.parts:
            self.parts[feature] = feature.parts(self.sheet)
        found = [part for part, chosen in zip(self.parts[feature], forms, strict=True) if chosen and part is not None]
        column = np.concatenate(found) if found else np.zeros(0)
        return column[~np.isnan(column)]
