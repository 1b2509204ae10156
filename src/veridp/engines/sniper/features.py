"""Outputs as columns of numbers for a classifier, whatever their form: nobody has to name flags, lengths or kinds.

A leaf of an output is known by its path in the nesting, so that `[[1, 2], [True]]` and `[[1], [True]]` agree on where
the truth value is. Numbers are finite: NaN, the infinities and what a run raises are flags. From training outputs it is
learnt which columns vary; the others are left out.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridp.kernel.output import DictItems, Kind, Raised, Slot, Template, leaf_kind, mark_not_finite, parts
from veridp.sampling.outputs import Outputs

Floats = NDArray[np.float64]
Path = tuple[int, ...]
MOST_LEAVES = 256  # leaves past these have no columns of their own
COMPARED_ROWS = 500  # in which columns that tell different things mostly differ already
MOST_TEXTS = 32  # texts of one leaf that have a column each
NUMBERS = (Kind.BOOL, Kind.FLOAT)
DICT = -1  # at the end of a path: stands for a list of one entry where there is a dict, and of none elsewhere


# ------------------------------------------------------------------------------------------ the leaves of outputs


@dataclass(frozen=True)
class Leaves:
    """The leaves of some outputs: a row for each output, a column for each path."""

    values: Floats  # NaN for what is no finite number
    kinds: NDArray[np.uint8]
    texts: NDArray[np.int32]  # the place in the layout's texts, -1 for what is neither text nor raised
    lengths: NDArray[np.int32]  # a column for each list: how many entries it has, 0 where it is absent


@dataclass(frozen=True)
class _Form:
    """What a template says about its rows."""

    constants: Floats
    slots: tuple[tuple[int, Slot], ...]  # places of paths, and where their numbers are kept
    kinds: NDArray[np.uint8]
    texts: NDArray[np.int32]
    lengths: NDArray[np.int32]


@dataclass(frozen=True)
class FeatureLayout:
    """The paths of leaves, the lists and the texts that training outputs have; others are not seen."""

    paths: tuple[Path, ...]
    lists: tuple[Path, ...]
    texts: tuple[str | Raised, ...]
    names: Mapping[Path, str] = field(hash=False)  # of leaves and lists, as sentences call them
    _forms: dict[Template, _Form] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, outputs: Outputs) -> FeatureLayout:
        paths: dict[Path, None] = {}
        lists: dict[Path, None] = {}
        texts: Counter[str | Raised] = Counter()
        for template in outputs.templates:
            for path, leaf in _walk(template.tree):
                if isinstance(leaf, _List):
                    lists.setdefault(path)
                else:
                    paths.setdefault(path)
                    if isinstance(leaf, str | Raised):
                        texts[leaf] += 1
        return cls(
            tuple(sorted(paths)[:MOST_LEAVES]),
            tuple(sorted(lists)[:MOST_LEAVES]),
            tuple(text for text, _ in texts.most_common(MOST_TEXTS)),
            _names(outputs.templates),
        )

    def __getstate__(self) -> dict[str, Any]:
        return {"paths": self.paths, "lists": self.lists, "texts": self.texts, "names": self.names, "_forms": {}}

    def leaves(self, outputs: Outputs) -> Leaves:
        forms = [self._form(template) for template in outputs.templates]
        codes = outputs.codes
        values = _taken([form.constants for form in forms], codes, len(self.paths), np.float64, np.nan)
        for (place, slot), holders in self._slots(forms).items():
            column = outputs.columns[slot]
            if len(holders) == len(forms):
                values[:, place] = column
            else:
                rows = np.flatnonzero(np.isin(codes, holders))
                values[rows, place] = column[rows]
        kinds = _taken([form.kinds for form in forms], codes, len(self.paths), np.uint8, Kind.ABSENT.value)
        marked = mark_not_finite(values, kinds)
        if marked is not None:
            values[marked] = np.nan
        return Leaves(
            values,
            kinds,
            _taken([form.texts for form in forms], codes, len(self.paths), np.int32, -1),
            _taken([form.lengths for form in forms], codes, len(self.lists), np.int32, 0),
        )

    def _slots(self, forms: Sequence[_Form]) -> dict[tuple[int, Slot], list[int]]:
        """Which templates keep the numbers of a path in which column."""
        found: dict[tuple[int, Slot], list[int]] = {}
        for code, form in enumerate(forms):
            for key in form.slots:
                found.setdefault(key, []).append(code)
        return found

    def _form(self, template: Template) -> _Form:
        if template not in self._forms:
            if len(self._forms) > 100_000:
                self._forms.clear()
            self._forms[template] = self._read(template)
        return self._forms[template]

    def _read(self, template: Template) -> _Form:
        form = _Form(
            np.full(len(self.paths), np.nan),
            (),
            np.full(len(self.paths), Kind.ABSENT.value, dtype=np.uint8),
            np.full(len(self.paths), -1, dtype=np.int32),
            np.zeros(len(self.lists), dtype=np.int32),
        )
        slots: list[tuple[int, Slot]] = []
        for path, leaf in _walk(template.tree):
            if isinstance(leaf, _List):
                if path in self._place_of_list:
                    form.lengths[self._place_of_list[path]] = leaf.length
                continue
            place = self._place.get(path)
            if place is None:
                continue
            kind = leaf_kind(leaf)
            form.kinds[place] = Kind.FLOAT if kind is Kind.INT else kind  # numbers compare across their types
            if isinstance(leaf, Slot):
                slots.append((place, leaf))
            elif isinstance(leaf, str | Raised):
                form.texts[place] = self._place_of_text.get(leaf, -1)
            elif leaf is not None:
                form.constants[place] = float(leaf)
        return _Form(form.constants, tuple(slots), form.kinds, form.texts, form.lengths)

    @cached_property
    def _place(self) -> dict[Path, int]:
        return {path: place for place, path in enumerate(self.paths)}

    @cached_property
    def _place_of_list(self) -> dict[Path, int]:
        return {path: place for place, path in enumerate(self.lists)}

    @cached_property
    def _place_of_text(self) -> dict[str | Raised, int]:
        return {text: place for place, text in enumerate(self.texts)}


@dataclass(frozen=True)
class _List:
    length: int


def _walk(tree: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """The lists and leaves of a tree, with their paths."""
    if isinstance(tree, tuple):
        yield path, _List(len(tree))
        if isinstance(tree, DictItems):
            yield (*path, DICT), _List(1)
        for place, branch in enumerate(tree):
            yield from _walk(branch, (*path, place))
    else:
        yield path, tree


def _taken(rows: list[NDArray[Any]], codes: NDArray[Any], width: int, dtype: Any, missing: Any) -> NDArray[Any]:
    """The row of each output's template; stored by columns, as they are read."""
    table = np.array(rows, dtype=dtype).reshape(len(rows), width) if rows else np.full((1, width), missing, dtype)
    taken: NDArray[Any] = np.empty((len(codes), width), dtype=dtype, order="F")
    same = (table == table[0]).all(axis=0) | (table != table).all(axis=0)  # or NaN in every row
    for place in range(width):
        taken[:, place] = table[0, place] if same[place] else table[codes, place]
    return taken


def _names(templates: Iterable[Template]) -> dict[Path, str]:
    """What each path is called; by its bare numbers where forms disagree."""
    names: dict[Path, str] = {}
    for template in templates:
        for path, name, _ in parts(template.tree):
            if names.setdefault(path, name) != name:
                names[path] = "output" + "".join(f"[{place}]" for place in path)
    return names


# ------------------------------------------------------------------------------------------------------- columns


@dataclass(frozen=True)
class Value:
    """The number at a leaf; NaN where there is none."""

    place: int
    name: str

    def of(self, leaves: Leaves) -> Floats:
        return leaves.values[:, self.place]


@dataclass(frozen=True)
class IsKind:
    """Whether the leaf is of a kind: a flag such as None, or absent."""

    place: int
    kind: Kind
    name: str

    def of(self, leaves: Leaves) -> Floats:
        return np.asarray(leaves.kinds[:, self.place] == self.kind.value, dtype=np.float64)


@dataclass(frozen=True)
class IsText:
    """Whether the leaf is this text, or this is what the run raised."""

    place: int
    text: int
    name: str

    def of(self, leaves: Leaves) -> Floats:
        return np.asarray(leaves.texts[:, self.place] == self.text, dtype=np.float64)


@dataclass(frozen=True)
class ListLength:
    """How many entries a list has."""

    place: int
    name: str

    def of(self, leaves: Leaves) -> Floats:
        return leaves.lengths[:, self.place].astype(np.float64)


@dataclass(frozen=True)
class DifferenceFeature:
    """The difference of two neighbouring leaves; NaN where one is no number."""

    place: int
    after: int
    name: str

    def of(self, leaves: Leaves) -> Floats:
        return leaves.values[:, self.after] - leaves.values[:, self.place]


@dataclass(frozen=True)
class Side:
    """On which side of a level the numbers of another column are: 1, -1, or NaN where there is none.

    With noise of heavy tails, the far ends of a number say no more than its side does, and would drown it in a sum.
    """

    column: Value | DifferenceFeature
    level: float
    name: str

    def of(self, leaves: Leaves) -> Floats:
        numbers = self.column.of(leaves)
        return np.where(np.isnan(numbers), np.nan, np.where(numbers > self.level, 1.0, -1.0))


@dataclass(frozen=True)
class ListSummary:
    """The number of numbers in a list, or their sum, least or largest; NaN where there are none."""

    which: str
    places: tuple[int, ...]
    name: str

    def of(self, leaves: Leaves) -> Floats:
        numbers = [leaves.values[:, place] for place in self.places]
        if self.which == "least":
            return np.asarray(functools.reduce(np.fmin, numbers))
        if self.which == "largest":
            return np.asarray(functools.reduce(np.fmax, numbers))
        count, total = np.zeros(len(leaves.values)), np.zeros(len(leaves.values))
        for column in numbers:
            known = ~np.isnan(column)
            count += known
            total += np.where(known, column, 0.0)
        return count if self.which == "count" else np.where(count > 0, total, np.nan)


Column = Any  # has `name` and `of(leaves)`


@dataclass(frozen=True)
class Columns:
    """The columns that vary among training outputs, in the order simple to composed."""

    layout: FeatureLayout
    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def matrix(self, outputs: Outputs) -> Floats:
        """A row for each output, a column for each feature; NaN where there is no number."""
        groups = outputs.grouped(len(outputs) // 4)
        if groups is not None:
            few, places = groups
            return np.asarray(self._matrix(few)[places])
        return self._matrix(outputs)

    def _matrix(self, outputs: Outputs) -> Floats:
        leaves = self.layout.leaves(outputs)
        table = np.empty((len(outputs), len(self.columns)), order="F")
        for place, column in enumerate(self.columns):
            table[:, place] = column.of(leaves)
        return table

    def only(self, places: Sequence[int]) -> Columns:
        return Columns(self.layout, tuple(self.columns[place] for place in places))


def columns_for(outputs: Outputs, *, composed: bool = True, extra: Sequence[Any] = ()) -> Columns:
    """The columns that vary among these outputs.

    `composed` adds differences of neighbouring numbers and summaries of lists; each of `extra` is called with the
    layout and the leaves and gives more columns.
    """
    layout = FeatureLayout.of(outputs)
    few, _ = outputs.grouped(len(outputs) // 4) or (outputs, None)  # a column varies if it does among different outputs
    leaves = layout.leaves(few)
    plain = [*_plain(layout, leaves)]
    more = [*_composed(layout, leaves)] if composed else []
    more += [*_sides((*plain, *more), leaves)] if composed else []
    for maker in extra:
        more.extend(maker(layout, leaves))
    return Columns(layout, tuple(_different((*plain, *more), leaves)))


def _different(columns: Iterable[Column], leaves: Leaves) -> Iterator[Column]:
    """Those of the columns that vary, without those that tell the same as one before.

    Most differ among a few rows already, so all rows are only compared where these are alike.
    """
    kept: dict[bytes, list[Floats]] = {}
    for column in columns:
        numbers = column.of(leaves)
        if _varies(numbers):
            alike = kept.setdefault(_shape(numbers[:COMPARED_ROWS]), [])
            shape = _shape(numbers) if alike else None
            if all(_shape(other) != shape for other in alike):
                alike.append(numbers)
                yield column


def _varies(column: Floats) -> bool:
    known = column[~np.isnan(column)]
    return len(known) > 0 and bool(known.min() < known.max())


def _shape(column: Floats) -> bytes:
    """The same for columns that tell the same: those that are equal up to scale, sign and an added constant."""
    known = ~np.isnan(column)
    if not known.any():
        return known.tobytes()
    column = column / float(np.abs(column[known]).max() or 1.0)  # the square of a large number has no float
    middle, spread = column[known].mean(), column[known].std()
    scaled = np.where(known, np.round((column - middle) / (spread or 1.0), 6) + 0.0, 1e9)
    first = scaled[np.flatnonzero(scaled)[0]] if scaled.any() else 1.0
    return np.where(known, scaled * np.sign(first) + 0.0, 1e9).tobytes()


def _plain(layout: FeatureLayout, leaves: Leaves) -> Iterator[Column]:
    for place, path in enumerate(layout.paths):
        yield Value(place, layout.names[path])
    for place, path in enumerate(layout.paths):
        kinds = np.unique(leaves.kinds[:, place])
        for kind in map(Kind, kinds[1:] if len(kinds) == 2 else kinds):  # of two kinds, one flag tells both
            yield IsKind(place, kind, f"[{layout.names[path]} is {_WORDS[kind]}]")
        if Kind.TEXT in kinds or Kind.RAISED in kinds:
            for text in np.unique(leaves.texts[:, place][leaves.texts[:, place] >= 0]).tolist():
                shown = layout.texts[text]
                raises = isinstance(shown, Raised)
                yield IsText(place, text, f"[{shown}]" if raises else f"[{layout.names[path]} is {shown!r}]")
    for place, path in enumerate(layout.lists):
        is_dict = path[-1:] == (DICT,)
        name = layout.names[path[:-1] if is_dict else path]
        yield ListLength(place, f"[{name} is a dict]" if is_dict else f"length of {name}")


_WORDS = {
    Kind.ABSENT: "absent",
    Kind.NONE: "None",
    Kind.BOOL: "a truth value",
    Kind.FLOAT: "a number",
    Kind.TEXT: "a text",
    Kind.RAISED: "an exception",
    Kind.NAN: "NaN",
    Kind.INFINITY: "inf",
    Kind.MINUS_INFINITY: "-inf",
}


def _sides(columns: Sequence[Column], leaves: Leaves) -> Iterator[Column]:
    """Sides of numbers, or of their steps where those spread less: there the numbers run on from one another."""
    values = {column.place: column for column in columns if isinstance(column, Value)}
    steps = {column.after: column for column in columns if isinstance(column, DifferenceFeature)}
    for place, value in values.items():
        step = steps.get(place)
        numbers = [_known(column, leaves) for column in (value, step) if column is not None]
        narrow = min(numbers, key=_spread)
        if len(np.unique(narrow[:512])) > 64:
            column = step if step is not None and narrow is numbers[-1] else value
            middle = float(np.median(narrow))
            yield Side(column, middle, f"[{column.name} > {middle:.6g}]")


def _known(column: Column, leaves: Leaves) -> Floats:
    numbers = column.of(leaves)
    return np.asarray(numbers[~np.isnan(numbers)])


def _spread(numbers: Floats) -> float:
    """How far the middle half reaches: heavy tails do not matter to it."""
    low, high = np.quantile(numbers, (0.25, 0.75)) if len(numbers) else (0.0, 0.0)
    return float(high - low)


def _composed(layout: FeatureLayout, leaves: Leaves) -> Iterator[Column]:
    for path in layout.lists:
        places = [place for place, leaf in enumerate(layout.paths) if leaf[:-1] == path and leaf != path]
        numeric = [place for place in places if np.isin(leaves.kinds[:, place], NUMBERS).any()]
        if len(numeric) < 2:
            continue
        name = layout.names[path]
        for which, words in (("count", "numbers in"), ("sum", "sum of")):
            yield ListSummary(which, tuple(numeric), f"{words} {name}")
        if np.isin(leaves.kinds[:, numeric], Kind.FLOAT).any():
            for which in ("least", "largest"):
                yield ListSummary(which, tuple(numeric), f"{which} of {name}")
            for before, after in itertools.pairwise(numeric):
                first, second = layout.names[layout.paths[before]], layout.names[layout.paths[after]]
                yield DifferenceFeature(before, after, f"({second} - {first})")
