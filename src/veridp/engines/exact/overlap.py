"""Classes of outputs are made disjoint: what integer noise gives may be a constant on other paths, or keep a relation.

`max(0, count + noise)` gives 0 as a constant where it clamps, and may give 0 where it does not. Such a value is taken
out of the class of the numbers and put to the class of the constant.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from veridp.engines.exact.pieces import ClassKey, DistributionPiece, combined, expression_key, numbers_of
from veridp.errors import NotExact
from veridp.kernel.distributions import Number, exact
from veridp.kernel.expressions import Affine, Condition
from veridp.kernel.feasibility import has_room
from veridp.kernel.flow.retries import ends_of
from veridp.kernel.output import Slot, is_finite_number, leaf_key
from veridp.kernel.symbols import Noise, Relation

Classes = dict[ClassKey, list[DistributionPiece]]


def without_overlap(classes: Mapping[ClassKey, list[DistributionPiece]], known: Iterable[ClassKey]) -> Classes:
    """The classes, with values of integer noise that are constants in one of the known classes put there."""
    found: Classes = {key: list(pieces) for key, pieces in classes.items()}
    candidates = list(dict.fromkeys([*classes, *known]))
    for key in list(found):
        if all(lattice is None for lattice in key.lattices):
            continue
        for other in candidates:
            fixed = _fixed(key, other)
            if fixed:
                _move(found, key, other, fixed)
    return {key: _adjoined(pieces) if key.free else pieces for key, pieces in found.items() if pieces}


def _adjoined(pieces: Sequence[DistributionPiece]) -> list[DistributionPiece]:
    """The pieces, of which some are made one where they differ in the interval that one noise lies in alone."""
    found = list(pieces)
    for noise in dict.fromkeys(noise for piece in pieces for noise in piece.noises) if len(pieces) > 1 else ():
        if noise.distribution.integer:
            continue
        alike: dict[object, list[DistributionPiece]] = {}
        for piece in found:
            rest = frozenset((c.relation, expression_key(c.slack)) for c in piece.conditions if not _is_on(c, noise))
            alike.setdefault((piece.weight, rest, tuple(map(expression_key, piece.numbers))), []).append(piece)
        found = [each for group in alike.values() for each in _intervals_joined(group, noise)]
    return found


def _intervals_joined(pieces: Sequence[DistributionPiece], noise: Noise) -> list[DistributionPiece]:
    """Pieces that are the same but for the interval of this noise: those whose intervals adjoin as one."""
    if len(pieces) == 1:
        return [*pieces]
    ends = [ends_of(noise, [c for c in piece.conditions if _is_on(c, noise)]) for piece in pieces]
    rest = tuple(c for c in pieces[0].conditions if not _is_on(c, noise))
    intervals: list[tuple[Fraction | None, Fraction | None]] = []
    for low, high in sorted(ends, key=lambda each: (each[0] is not None, each[0] or 0)):
        if intervals and low is not None and intervals[-1][1] == low:
            intervals[-1] = intervals[-1][0], high
        else:
            intervals.append((low, high))
    if len(intervals) == len(pieces):
        return [*pieces]
    found = []
    for interval in intervals:
        sided = ((end, sign) for end, sign in zip(interval, (1, -1), strict=True) if end is not None)
        own = [Condition(Affine(exact(-sign * end), {noise: sign}), Relation.AT_LEAST) for end, sign in sided]
        found.append(DistributionPiece(pieces[0].weight, (*rest, *own), pieces[0].numbers))
    return found


def _is_on(condition: Condition, noise: Noise) -> bool:
    """Whether it leaves the noise, alone, on one side of a number."""
    slack, sided = condition.slack, condition.relation in (Relation.AT_LEAST, Relation.ABOVE)
    return sided and not slack.functions and slack.terms.keys() == {noise}


def check_disjoint(left: Classes, right: Classes) -> None:
    """Raises NotExact where an output may belong to several classes with positive probability."""
    pieces = {key: [*left.get(key, ()), *right.get(key, ())] for key in dict.fromkeys([*left, *right])}
    alike: dict[object, list[ClassKey]] = {}
    for key in pieces:
        alike.setdefault(key.template, []).append(key)
    for keys in alike.values():
        for one, other in itertools.combinations(keys, 2):
            if _may_keep(one, other, pieces[other]) and _may_keep(other, one, pieces[one]):
                raise NotExact("integers in an output keep a relation on some paths and may keep it on others, too")
    found = fitting(pieces)
    for key, others in found.items():
        for other, fixed in others.items():
            back = found.get(other, {}).get(key, {})
            if _may_take(key, fixed, pieces[key]) and _may_take(other, back, pieces[other]):
                raise NotExact("integers in an output may be constants of other outputs, whose integers may be its own")


def fitting(keys: Iterable[ClassKey]) -> dict[ClassKey, dict[ClassKey, dict[int, Number]]]:
    """For each class the others that have constants in place of some of its numbers, and fit it otherwise."""
    numeric: dict[object, list[ClassKey]] = {}  # by what they have a plain number in
    listed = list(keys)
    for key in listed:
        for place, leaf in enumerate(key.template.leaves):
            if is_finite_number(leaf):
                numeric.setdefault((key.template.outline, place), []).append(key)
    found = {}
    for key in listed if numeric else ():
        outline, leaves = key.template.outline, key.template.leaves
        slots = [(outline, place) for place, leaf in enumerate(leaves) if isinstance(leaf, Slot)]
        near = dict.fromkeys(other for slot in slots for other in numeric.get(slot, ()))
        found[key] = {other: fixed for other in near if (fixed := _constants(key, other, crossing=True))}
    return found


def _may_take(key: ClassKey, fixed: Mapping[int, Number], pieces: Sequence[DistributionPiece]) -> bool:
    """Whether numbers of the class may have these values with positive probability."""
    if not fixed or not _on_lattice(key, fixed):
        return False
    return any(
        has_room(piece.conditions, [Condition(numbers_of(key, piece)[k] - v, Relation.EQUAL) for k, v in fixed.items()])
        for piece in pieces
    )


def _may_keep(key: ClassKey, other: ClassKey, pieces: Sequence[DistributionPiece]) -> bool:
    """Whether outputs of the other class may have what those of the first have in common."""
    if key.lattices != other.lattices:
        return False
    return any(all(_may_be(number, value) for number, value in _related(key, other, piece)) for piece in pieces)


def _related(key: ClassKey, other: ClassKey, piece: DistributionPiece) -> Iterator[tuple[Affine, Number]]:
    """The combinations that are related in the first class, as the piece of the other has them, with their values."""
    numbers = numbers_of(other, piece)
    yield from ((combined(numbers, made), value) for made, value in key.relations)
    theirs = {made: (step, rest) for made, step, rest in other.grids}
    for made, step, rest in key.grids:
        number = combined(numbers, made)
        same = theirs.get(made, (step, rest))
        yield (Affine(0, {}), int(same[0] == step and same[1] != rest)) if not number.continuous else (number, 0)


def _may_be(number: Affine, value: Number) -> bool:
    return not number.continuous if number.terms else number.constant == value


def _fixed(key: ClassKey, other: ClassKey) -> dict[int, Number]:
    """The entries that move in whole steps in the one class and are constants, on the same lattice, in the other."""
    fixed = _constants(key, other, crossing=False)
    return fixed if _on_lattice(key, fixed) else {}


def _on_lattice(key: ClassKey, fixed: Mapping[int, Number]) -> bool:
    lattices = [(value, key.lattices[index]) for index, value in fixed.items()]
    return all(lattice is not None and Fraction(value - lattice).denominator == 1 for value, lattice in lattices)


def _constants(key: ClassKey, other: ClassKey, crossing: bool) -> dict[int, Number]:
    """The numeric entries of a class that are constants in the other; none where the two are told apart otherwise.

    With `crossing`, the other may have numbers in place of constants of the class.
    """
    fixed: dict[int, Number] = {}
    for mine, theirs in _pairs(key.template.tree, other.template.tree):
        if isinstance(mine, Slot):
            if is_finite_number(theirs):
                fixed[mine.index] = exact(theirs)
            elif not isinstance(theirs, Slot):
                return {}
        elif isinstance(theirs, Slot):
            if not (crossing and is_finite_number(mine)):
                return {}
        elif leaf_key(mine) != leaf_key(theirs):
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
    """Put the outputs of a class that have the constants of the other one there."""
    stay: list[DistributionPiece] = []
    moved: list[DistributionPiece] = []
    for piece in classes[key]:
        numbers = dict(enumerate(numbers_of(key, piece)))
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
            moved.append(DistributionPiece(piece.weight, here, rest))
    if moved and (key.relations or other.relations) and len(fixed) < len(key.lattices):
        raise NotExact("integers in an output that keep a relation may be constants on other paths")
    if moved:
        classes.setdefault(other, []).extend(moved)
    classes[key] = stay


def _piece(
    piece: DistributionPiece, given: tuple[Condition, ...], more: Condition, numbers: tuple[Affine, ...]
) -> list[DistributionPiece]:
    return [DistributionPiece(piece.weight, (*given, more), numbers)] if has_room(given, [more]) else []
