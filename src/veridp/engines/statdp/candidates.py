"""What detection chooses from: events on outputs (features and where to cut them), and pairs of inputs with their
arguments (Algorithm 4)."""

from __future__ import annotations

import itertools
import math
import pickle
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridp.adjacency import Pair
from veridp.engines.statdp.arguments import noise_free, search_arguments
from veridp.engines.statdp.features import (
    AVERAGE,
    NUMBERS,
    SUMMARIES,
    Array,
    Distance,
    EntryFeature,
    Feature,
    FeatureTable,
    HasValue,
    LengthFeature,
    Nesting,
    Occurrences,
    SummaryFeature,
)
from veridp.errors import BadInput, MechanismFailed, NotExplorable
from veridp.kernel.output import Kind, Scalar, Slot, Template, leaf_key, leaf_kind, leaf_names
from veridp.mechanism import Mechanism
from veridp.sampling.encode import OutputEvent, encode
from veridp.sampling.outputs import Outputs
from veridp.tidy import tidied

# -------------------------------------------------------------------------------------------------------------- events
# Events: conditions on features of an output. They print as a sentence and can be evaluated on any output.


@dataclass(frozen=True)
class FeatureCondition:
    """A feature lies above `low` and is at most `high`."""

    feature: Feature
    low: float
    high: float

    @cached_property
    def name(self) -> str:
        """What it is known by: conditions on 0, on 0.0 and on False are equal in Python, and different."""
        return repr(self)

    def where(self, table: FeatureTable) -> NDArray[np.bool_]:
        """Which outputs satisfy it; those without the feature do not."""
        column = self.feature.column(table)
        return np.asarray((column > self.low) & (column <= self.high))

    def __str__(self) -> str:
        return self.feature.sentence(self.low, self.high)


@dataclass(frozen=True)
class FeatureEvent(OutputEvent):
    """All of its conditions hold."""

    conditions: tuple[FeatureCondition, ...]

    def __call__(self, outputs: Outputs) -> NDArray[np.bool_]:
        """Which of the outputs belong to it."""
        table = FeatureTable(outputs)
        happened = np.ones(len(outputs), dtype=np.bool_)
        for condition in self.conditions:
            happened &= condition.where(table)
        return happened

    def __str__(self) -> str:
        return " and ".join(map(str, self.conditions))


# ---------------------------------------------------------------------------------------------------------- candidates
# Which features to use, and where to cut them: the candidates of the event selector (Algorithm 3).


FEW_VALUES = 16  # up to so many different whole numbers are values, each with an event of its own
MOST_STEPS = 64  # so many different whole numbers are all cuts
MOST_OUTLINES = 16  # ways of nesting to distinguish
MOST_PLACES = 32  # places of an output with features of their own
OUTPUTS_FOR_CUTS = 4096  # outputs from which features and cuts are chosen
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
    tables = [FeatureTable(outputs) for outputs in samples]
    seen: set[bytes] = set()

    def kept(features: Iterator[Feature]) -> list[tuple[Feature, Array]]:
        found = []
        for feature in features:
            column = np.concatenate([feature.column(table) for table in tables])
            known = column[~np.isnan(column)]
            trivial = not known.size or (known.size == column.size and known.min() == known.max())
            key = np.where(np.isnan(column), np.nan, column + 0.0).tobytes()  # one NaN, one zero
            if not trivial and key not in seen:
                seen.add(key)
                found.append((feature, known))
        return found

    discrete = kept(_of_values(forms, values, references))
    numeric = kept(_of_numbers(forms))
    free = _columns_at(references, [feature for feature, _ in numeric])
    axes = tuple(_axis(feature, known, np.zeros(0)) for feature, known in discrete)
    return Axes(
        axes,
        tuple(_axis(feature, known, free[place]) for place, (feature, known) in enumerate(numeric)),
        tuple(_partners(axes, tables)) if _is_mixed(forms, values) else (),
    )


def _is_mixed(forms: Sequence[Template], values: _Values) -> bool:
    """Whether numbers come with values, or in outputs of several lengths."""
    number = {leaf_kind(leaf) in values.numbers for form in forms for leaf in form.leaves}
    return number == {True, False} or (number == {True} and len({len(form.leaves) for form in forms}) > 1)


def _partners(axes: Sequence[Axis], tables: Sequence[FeatureTable]) -> Iterator[FeatureCondition]:
    """That a discrete feature has one of its values, while these are few; of equal conditions the first."""
    seen: set[bytes] = set()
    for axis in axes:
        if len(axis.values) > MOST_VALUES or isinstance(axis.feature, HasValue):
            continue
        for value in axis.values:
            condition = FeatureCondition(axis.feature, float(value) - 1, float(value))
            mask = np.packbits(np.concatenate([condition.where(table) for table in tables])).tobytes()
            if mask not in seen:
                seen.add(mask)
                yield condition


def _first_rows(outputs: Outputs) -> Outputs:
    """The first outputs, with the forms that occur among them alone."""
    few = outputs[:OUTPUTS_FOR_CUTS]
    occurring, codes = np.unique(few.codes, return_inverse=True)
    return Outputs(codes.astype(np.uint32), tuple(few.templates[code] for code in occurring), few.columns)


@dataclass(frozen=True)
class _Values:
    """The values with an event each, and the kinds that count as numbers."""

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
                yield HasValue(place, value, _place_name(forms, place))


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
    table = FeatureTable(encode([reference.output for reference in references]))
    return [feature.column(table) for feature in features]


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


# --------------------------------------------------------------------------------------------------------------- seeds
# Seeds for the parts of a detection: each its own, all from one.


@dataclass(frozen=True)
class Seeds:
    """A family of independent seeds.

    >>> Seeds(0).of(1) != Seeds(0).of(2)
    True
    """

    seed: int
    path: tuple[int, ...] = ()

    def under(self, *path: int) -> Seeds:
        """The family of seeds at this place within the family."""
        return Seeds(self.seed, (*self.path, *path))

    def of(self, *path: int) -> int:
        """The seed at this place within the family."""
        sequence = np.random.SeedSequence(self.seed, spawn_key=(*self.path, *path))
        return int(sequence.generate_state(1, np.uint64)[0])


# -------------------------------------------------------------------------------------------------------------- inputs
# Pairs of inputs with arguments to go with them: the input generator (Algorithm 4).


SIZES = (5, 10)  # the lengths of the paper's patterns


@dataclass(frozen=True, eq=False)
class InputTrial:
    """Two neighbours to run a mechanism on, the mechanism with its arguments, and its outputs without noise."""

    mechanism: Mechanism
    left: Any
    right: Any
    pattern: str
    arguments: Mapping[str, Any] = field(default_factory=dict)  # those that a search found
    notes: tuple[str, ...] = ()
    references: tuple[NoiseFreeOutput, ...] = ()

    @property
    def size(self) -> int:
        """The length of the inputs; 1 where they have none."""
        return max(_length(self.left), _length(self.right))


def _length(data: Any) -> int:
    try:
        return len(data)
    except TypeError:
        return 1


def given_pairs(mechanism: Mechanism, pairs: Sequence[Any]) -> list[Pair]:
    """The pairs that the caller gave; raises BadInput where two are not neighbours under the adjacency stated."""
    found = []
    for number, pair in enumerate(pairs, start=1):
        if not isinstance(pair, Pair):
            try:
                left, right = pair
            except (TypeError, ValueError):
                raise BadInput(f"pairs: {pair!r} is not a pair; give (left, right)") from None
            pair = Pair(left, right, f"pair {number}")
        if "adjacency" not in mechanism.assumed and not mechanism.adjacency.adjacent(pair.left, pair.right):
            raise BadInput(
                f"pairs: {pair.left!r} and {pair.right!r} are not neighbours under {mechanism.adjacency}; "
                f"give two that are, or the mechanism another adjacency"
            )
        found.append(pair)
    if not found:
        raise BadInput("pairs is empty; give at least one, or leave it out")
    return found


def usual_pairs(mechanism: Mechanism, size: int | None) -> list[Pair]:
    """The pairs that the mechanism lists, each in one direction, since a test looks in both.

    Of the size given; else at lengths 5 and 10, unless the mechanism says that its usual length is another.
    """
    sizes = (size,) if size is not None else SIZES if mechanism.size in SIZES else (mechanism.size,)
    found: dict[frozenset[str], Pair] = {}
    for length in sizes:
        for made in mechanism.pairs(length, mechanism.domain):
            pair = tidied(made, mechanism.adjacency, mechanism.domain)
            found.setdefault(frozenset((repr(pair.left), repr(pair.right))), pair)
    if not found:
        raise BadInput(f"{mechanism.name}: no neighbours of size {sizes[0]} to try; give pairs=[(left, right), …]")
    return list(found.values())


class Trials:
    """The trials of pairs, each with the arguments that a search finds for it once it is asked for."""

    def __init__(self, mechanism: Mechanism, pairs: Sequence[Pair]) -> None:
        self.mechanism, self.pairs = mechanism, pairs
        self._known: dict[int, InputTrial] = {}

    def some(self, count: int) -> Iterator[InputTrial]:
        """So many of them, evenly spread."""
        count = min(count, len(self.pairs))
        for number in range(count):
            yield self._trial(number * len(self.pairs) // count)

    def _trial(self, place: int) -> InputTrial:
        if place not in self._known:
            pair = self.pairs[place]
            found = search_arguments(self.mechanism, pair.left, pair.right)
            references, lost = _references(found.mechanism, pair)
            self._known[place] = InputTrial(
                found.mechanism, pair.left, pair.right, pair.pattern, found.arguments, found.notes + lost, references
            )
        return self._known[place]


def first_alike(trials: Sequence[InputTrial]) -> Iterator[int]:
    """For each trial the place of the first one with the same left input and arguments, with which it shares runs."""
    known: dict[object, int] = {}
    for place, trial in enumerate(trials):
        key: object = place
        with suppress(Exception):  # whatever a class of one's own raises; data that cannot be pickled share nothing
            key = pickle.dumps((trial.left, dict(trial.mechanism.arguments)))
        yield known.setdefault(key, place)


def _references(mechanism: Mechanism, pair: Pair) -> tuple[tuple[NoiseFreeOutput, ...], tuple[str, ...]]:
    """The noise-free outputs on either side, and a note where there are none."""
    try:
        outputs = [(noise_free(mechanism, data), str(data)) for data in (pair.left, pair.right)]
        return tuple(NoiseFreeOutput(output, data) for output, data in outputs), ()
    except (NotExplorable, MechanismFailed) as error:
        return (), (f"no distance from a noise-free output: {error}",)
