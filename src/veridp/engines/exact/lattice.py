"""Outputs that are both: a constant on some paths, and a value that integer noise takes on others.

`max(0, count + noise)` gives 0 as a constant where it clamps, and may give 0 where it does not. Classes of outputs must
not overlap, so such a value is taken out of the class of the numbers and put to the class of the constant.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any

from veridp.engines.exact.pieces import ClassKey, DistributionPiece
from veridp.kernel.distributions import Number, exact
from veridp.kernel.expressions import Affine, Condition
from veridp.kernel.feasibility import has_room
from veridp.kernel.output import Slot, is_finite_number, leaf_key
from veridp.kernel.symbols import Relation

Classes = dict[ClassKey, list[DistributionPiece]]


def without_overlap(classes: Mapping[ClassKey, list[DistributionPiece]], known: Iterable[ClassKey]) -> Classes:
    """The classes, with values of integer noise that are constants in one of the known classes put there."""
    found: Classes = {key: list(pieces) for key, pieces in classes.items()}
    candidates = [key for key in dict.fromkeys([*classes, *known]) if not key.relations]
    for key in list(found):
        if key.relations or all(lattice is None for lattice in key.lattices):
            continue
        for other in candidates:
            fixed = _fixed(key, other)
            if fixed:
                _move(found, key, other, fixed)
    return {key: pieces for key, pieces in found.items() if pieces}


def _fixed(key: ClassKey, other: ClassKey) -> dict[int, Number]:
    """The entries that move in whole steps in the one class and are constants, on the same lattice, in the other."""
    fixed: dict[int, Number] = {}
    for mine, theirs in _pairs(key.template.tree, other.template.tree):
        if isinstance(mine, Slot) and is_finite_number(theirs):
            lattice = key.lattices[mine.index]
            value = exact(theirs)
            if lattice is None or Fraction(value - lattice).denominator != 1:
                return {}
            fixed[mine.index] = value
        elif isinstance(mine, Slot) != isinstance(theirs, Slot) or (
            not isinstance(mine, Slot) and leaf_key(mine) != leaf_key(theirs)
        ):
            return {}
    return fixed


def _pairs(first: Any, second: Any) -> Iterator[tuple[Any, Any]]:
    """The leaves of two trees, side by side; a pair that cannot match where the trees differ in form."""
    if isinstance(first, tuple) and type(first) is type(second) and len(first) == len(second):
        for mine, theirs in zip(first, second, strict=True):
            yield from _pairs(mine, theirs)
    elif isinstance(first, tuple) or isinstance(second, tuple):
        yield "a list", None
    else:
        yield first, second


def _move(classes: Classes, key: ClassKey, other: ClassKey, fixed: Mapping[int, Number]) -> None:
    stay: list[DistributionPiece] = []
    for piece in classes[key]:
        numbers = dict(zip(key.free, piece.numbers, strict=True))
        here = piece.conditions
        possible = True
        for index, value in fixed.items():
            above, below = numbers[index] - value, value - numbers[index]
            for slack in (above, below):
                stay += _piece(piece, here, Condition(slack, Relation.ABOVE), piece.numbers)
            equal = Condition(above, Relation.EQUAL)
            possible = possible and has_room(here, [equal])
            here = (*here, equal)
        if possible:
            rest = tuple(number for index, number in numbers.items() if index not in fixed)
            classes.setdefault(other, []).append(DistributionPiece(piece.weight, here, rest))
    classes[key] = stay


def _piece(
    piece: DistributionPiece, given: tuple[Condition, ...], more: Condition, numbers: tuple[Affine, ...]
) -> list[DistributionPiece]:
    return [DistributionPiece(piece.weight, (*given, more), numbers)] if has_room(given, [more]) else []
