"""Which features to look at, where to cut them, and the events that this makes: the candidates of the event
selector."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridp.engines.statdp.features import (
    AVERAGE,
    NUMBERS,
    SUMMARIES,
    Array,
    Distance,
    EntryFeature,
    Feature,
    LengthFeature,
    Nesting,
    Occurrences,
    Sheet,
    Shown,
    SummaryFeature,
)
from veridp.kernel.output import Kind, Scalar, Slot, Template, leaf_key, leaf_kind, leaf_names
from veridp.sampling.encode import encode
from veridp.sampling.events import OutputEvent
from veridp.sampling.outputs import Outputs

# -------------------------------------------------------------------------------------------------------------- events
# Events: conditions on features of an output. They print as a sentence and can be evaluated on any output.


@dataclass(frozen=True)
class FeatureCondition:
    """A feature lies above `low` and is at most `high`."""

    feature: Feature
    low: float
    high: float

    def where(self, sheet: Sheet) -> NDArray[np.bool_]:
        """Which outputs satisfy it; those without the feature do not."""
        column = self.feature.column(sheet)
        return np.asarray((column > self.low) & (column <= self.high))

    def __str__(self) -> str:
        return self.feature.sentence(self.low, self.high)


@dataclass(frozen=True)
class FeatureEvent(OutputEvent):
    """All of its conditions hold."""

    conditions: tuple[FeatureCondition, ...]

    def __call__(self, outputs: Outputs) -> NDArray[np.bool_]:
        """Which of the outputs belong to it."""
        sheet = Sheet(outputs)
        happened = np.ones(len(outputs), dtype=np.bool_)
        for condition in self.conditions:
            happened &= condition.where(sheet)
        return happened

    def __str__(self) -> str:
        return " and ".join(map(str, self.conditions))


# ---------------------------------------------------------------------------------------------------------- candidates
# Which features to look at, and where to cut them: the candidates of the event selector (Algorithm 3).


FEW_VALUES = 16  # so many different whole numbers are values to be told apart
MOST_STEPS = 64  # so many different whole numbers are all cuts
MOST_OUTLINES = 16  # ways of nesting that are told apart
MOST_PLACES = 32  # places of an output that are looked at one by one
LOOKED_AT = 4096  # outputs from which features are told apart and cuts are taken
LEVELS = np.array(
    [0.002, 0.005, 0.01, 0.02, 0.035, *np.arange(0.05, 0.96, 0.05), 0.965, 0.98, 0.99, 0.995, 0.998]
)  # of the pooled sample: between these quantiles lie the candidate intervals
ATOM = 0.002  # a number that so many outputs share is an atom
MOST_ATOMS = 8
LEAST_SPREAD = 1e-300  # of numbers that are rounded: less has no float beside it that is smaller by far
MOST_VALUES = 16  # of a discrete feature that are combined with numbers


@dataclass(frozen=True)
class NoiseFreeOutput:
    """What a mechanism returns without noise on an input, which is named as the text says."""

    output: Any
    input: str


@dataclass(frozen=True, eq=False)
class Axis:
    """A feature and the ends that intervals of it may have."""

    feature: Feature
    cuts: Array
    values: Array  # all values, where these are few whole numbers


@dataclass(frozen=True)
class Axes:
    """What events are made of: conditions on values and lengths, conditions on numbers."""

    discrete: tuple[Axis, ...]
    numeric: tuple[Axis, ...]
    partners: tuple[
        FeatureCondition, ...
    ] = ()  # conditions on values to combine with those on numbers, in mixed outputs


def propose_axes(left: Outputs, right: Outputs, references: Sequence[NoiseFreeOutput]) -> Axes:
    """The features that tell outputs apart, each with cuts from both samples together."""
    samples = [_first_rows(outputs) for outputs in (left, right)]
    forms = list(dict.fromkeys(form for outputs in samples for form in outputs.templates))
    values = _Values.among(samples, forms)
    sheets = [Sheet(outputs) for outputs in samples]
    seen: list[Array] = []

    def kept(features: Iterator[Feature]) -> list[tuple[Feature, Array]]:
        found = []
        for feature in features:
            column = np.concatenate([feature.column(sheet) for sheet in sheets])
            known = column[~np.isnan(column)]
            trivial = not known.size or (known.size == column.size and known.min() == known.max())
            if not trivial and not any(np.array_equal(column, other, equal_nan=True) for other in seen):
                seen.append(column)
                found.append((feature, known))
        return found

    discrete = kept(_of_values(forms, values, references))
    numeric = kept(_of_numbers(forms))
    free = _columns_at(references, [feature for feature, _ in numeric])
    axes = tuple(_axis(feature, known, np.zeros(0)) for feature, known in discrete)
    return Axes(
        axes,
        tuple(_axis(feature, known, free[place]) for place, (feature, known) in enumerate(numeric)),
        tuple(_partners(axes, sheets)) if _is_mixed(forms, values) else (),
    )


def _is_mixed(forms: Sequence[Template], values: _Values) -> bool:
    """Whether numbers come with values, or in outputs of several lengths."""
    number = {leaf_kind(leaf) in values.numbers for form in forms for leaf in form.leaves}
    return number == {True, False} or (number == {True} and len({len(form.leaves) for form in forms}) > 1)


def _partners(axes: Sequence[Axis], sheets: Sequence[Sheet]) -> Iterator[FeatureCondition]:
    """That a discrete feature has one of its values, while these are few; of equal conditions the first."""
    seen: set[bytes] = set()
    for axis in axes:
        if len(axis.values) > MOST_VALUES or isinstance(axis.feature, Shown):
            continue
        for value in axis.values:
            condition = FeatureCondition(axis.feature, float(value) - 1, float(value))
            mask = np.packbits(np.concatenate([condition.where(sheet) for sheet in sheets])).tobytes()
            if mask not in seen:
                seen.add(mask)
                yield condition


def _first_rows(outputs: Outputs) -> Outputs:
    """The first outputs, with the forms that occur among them alone."""
    few = outputs[:LOOKED_AT]
    occurring, codes = np.unique(few.codes, return_inverse=True)
    return Outputs(codes.astype(np.uint32), tuple(few.templates[code] for code in occurring), few.columns)


@dataclass(frozen=True)
class _Values:
    """The values that are told apart one by one, and the kinds that count as numbers."""

    values: tuple[Scalar, ...]
    numbers: tuple[Kind, ...]

    @classmethod
    def among(cls, samples: Sequence[Outputs], forms: Sequence[Template]) -> _Values:
        kinds = {leaf_kind(leaf) for form in forms for leaf in form.leaves}
        constants = {leaf_key(leaf): leaf for form in forms for leaf in form.leaves if not isinstance(leaf, Slot)}
        plain = [leaf for leaf in constants.values() if leaf_kind(leaf) in (Kind.NONE, Kind.TEXT, Kind.RAISED)]
        values: list[Scalar] = [*sorted(plain, key=str), *_not_finite(samples)]
        if Kind.BOOL in kinds:
            values += [False, True]
        whole: set[int] = {leaf for leaf in constants.values() if leaf_kind(leaf) is Kind.INT}  # type: ignore[misc]
        for outputs in samples:
            for slot, column in outputs.columns.items():
                if slot.kind is Kind.INT:
                    whole.update(np.unique(column).tolist())
        few = len(whole) <= FEW_VALUES
        values += sorted(whole if few else ())
        drawn = (form for outputs in samples for form in outputs.templates)
        at_a_place = itertools.zip_longest(*([leaf_kind(leaf) for leaf in form.leaves] for form in drawn))
        mixed = any(set(NUMBERS) <= set(kinds) for kinds in at_a_place)  # 1 and 1.0 are one value
        return cls(tuple(values), (Kind.FLOAT,) if few and not mixed else NUMBERS)


def _not_finite(samples: Sequence[Outputs]) -> list[float]:
    """Those of NaN and the infinities that occur."""
    seen = {kind for outputs in samples for kind in np.unique(outputs.kinds()).tolist()}
    named = {Kind.NAN: math.nan, Kind.INFINITY: math.inf, Kind.MINUS_INFINITY: -math.inf}
    return [value for kind, value in named.items() if kind in seen]


def _is_scalar(forms: Sequence[Template]) -> bool:
    return all(not isinstance(form.tree, tuple) for form in forms)


def _of_values(forms: Sequence[Template], values: _Values, references: Sequence[NoiseFreeOutput]) -> Iterator[Feature]:
    scalar, width = _is_scalar(forms), max(len(form.leaves) for form in forms)
    for value in values.values:
        yield Occurrences(value, scalar)
    yield LengthFeature()
    outlines = dict.fromkeys(form.outline for form in forms)
    for outline in itertools.islice(outlines, MOST_OUTLINES if len(outlines) > 1 else 0):
        yield Nesting(outline)
    for reference in references:
        leaves = Template(encode([reference.output])[0]).leaves
        loose = tuple(leaf_kind(leaf) in values.numbers for leaf in leaves)
        yield Distance(leaves, reference.input, loose, values.numbers)  # type: ignore[arg-type]
    if not scalar and width * len(values.values) <= 2 * MOST_PLACES:
        for place in range(width):
            for value in values.values:
                yield Shown(place, value, _place_name(forms, place))


def _of_numbers(forms: Sequence[Template]) -> Iterator[Feature]:
    leaves = [form.leaves for form in forms]
    whole = not any(leaf_kind(leaf) is Kind.FLOAT for row in leaves for leaf in row)
    summaries = [] if _is_scalar(forms) else [SummaryFeature(name, whole and name != AVERAGE) for name in SUMMARIES]
    entries = []
    for place in range(min(max(map(len, leaves)), MOST_PLACES)):
        kinds = {leaf_kind(row[place]) for row in leaves if place < len(row)}
        if kinds.intersection(NUMBERS):
            entries.append(EntryFeature(place, _place_name(forms, place), Kind.FLOAT not in kinds))
    if len(set(map(len, leaves))) > 1:  # then "the last number" says more than that it is, say, the third
        yield from summaries
        yield from entries
    else:
        yield from entries
        yield from summaries


def _place_name(forms: Sequence[Template], place: int) -> str:
    """What the leaf is called; its number where it stands elsewhere in other forms."""
    names = {leaf_names(form.tree)[place] for form in forms if place < len(form.leaves)}
    return names.pop() if len(names) == 1 else f"value {place + 1} of the flattened output"


def _columns_at(references: Sequence[NoiseFreeOutput], features: Sequence[Feature]) -> list[Array]:
    """The features of the noise-free outputs: numbers around which the noise lies."""
    if not references:
        return [np.zeros(0)] * len(features)
    sheet = Sheet(encode([reference.output for reference in references]))
    return [feature.column(sheet) for feature in features]


# ------------------------------------------------------------------------------------------------------------- cuts


def _axis(feature: Feature, known: Array, free: Array) -> Axis:
    if feature.whole and len(values := np.unique(known)) <= MOST_STEPS:
        return Axis(feature, np.unique(np.concatenate([values[:-1], values[1:] - 1])), values)
    cuts = np.quantile(known, LEVELS)
    cuts = np.floor(cuts) if feature.whole else _rounded(cuts)
    if not feature.whole:
        values, counts = np.unique(known, return_counts=True)
        shared = values[counts >= max(3, ATOM * len(known))]
        atoms = np.array([value for value in shared if float(f"{value:.12g}") == value][:MOST_ATOMS])
        cuts = np.concatenate([cuts, free[~np.isnan(free)], atoms, np.nextafter(atoms, -np.inf)])
    return Axis(feature, np.unique(cuts), np.zeros(0))


def _rounded(cuts: Array) -> Array:
    """The cuts with as few digits as keep them apart where outputs are dense."""
    spread = float(np.quantile(cuts, 0.75) - np.quantile(cuts, 0.25))
    if spread < LEAST_SPREAD:
        return cuts
    unit = 10.0 ** math.floor(math.log10(spread / 20))
    return np.array([float(f"{cut:.12g}") + 0.0 for cut in np.round(cuts / unit) * unit])
