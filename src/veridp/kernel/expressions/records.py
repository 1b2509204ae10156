"""Functions of one record of an interval: products, choices, steps and extremes of them are such functions again."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any

from veridp.kernel import functions
from veridp.kernel.distributions import Number, exact
from veridp.kernel.expressions.affine import (
    OPERATIONS,
    Affine,
    derived,
    expression,
    kind_of,
    operated,
    settle,
    settled_number,
)
from veridp.kernel.expressions.decider import RUN, current_run
from veridp.kernel.expressions.undecided import Condition, Select
from veridp.kernel.piecewise import (
    MAX_PIECES,
    MAX_POWER,
    Piece,
    Pieces,
    chosen,
    is_never_negative,
    joined,
    plus,
    times,
)
from veridp.kernel.stand_ins import Symbolic
from veridp.kernel.symbols import Derived, PureFunction, Relation, Symbol, Unknown, drawn_in


def is_of_record(value: Affine) -> bool:
    """Whether it is a function of one record of an interval, and of nothing else."""
    return record_of(value) is not None


def record_of(*values: Any) -> Unknown | None:
    """The record of an interval that all of these are functions of, and none is a function of anything else."""
    found: set[Unknown] = set()
    for value in values:
        if isinstance(value, Condition):
            value = value.slack
        if not isinstance(value, Affine):
            if isinstance(value, Symbolic) or kind_of(value) is None:
                return None
            continue
        for symbol in value.terms:
            if not isinstance(symbol, Unknown) or symbol.ends is None:
                return None
            found.add(symbol.record)
    return found.pop() if len(found) == 1 else None


Linear = tuple[Number, tuple[tuple[Symbol, Number], ...]]  # a constant, and terms


def linear(value: Any) -> Linear:
    """The value as a constant and terms, which can be a key."""
    return (value.constant, tuple(value.terms.items())) if isinstance(value, Affine) else (exact(value), ())


def function_of(value: Affine) -> Pieces:
    """The expression as a function of the one record that it has."""
    record = record_of(value)
    if record is None:
        raise TypeError(f"{value.text()} is not a function of one record of an interval")
    return _function(linear(value), record)


def _function(value: Linear, record: Unknown) -> Pieces:
    """The value as a function of the record."""
    constant, terms = value
    total: Pieces = tuple(Piece(*piece.bounds, {0: constant} if constant else {}) for piece in record.function)
    for symbol, c in terms:
        if isinstance(symbol, Unknown):
            scaled = [Piece(*p.bounds, {power: a * c for power, a in p.terms.items()}) for p in symbol.function]
            total = joined(total, scaled, plus)
    return total


def is_sure(condition: Condition) -> bool:
    """Whether it asks that a function of one record, of a power above 1, is at least 0, which it always is."""
    record = record_of(condition) if condition.relation is Relation.AT_LEAST else None
    return record is not None and _never_negative(record, record.ends, linear(condition.slack))


@lru_cache(maxsize=4096)
def _never_negative(record: Unknown, ends: object, value: Linear) -> bool:
    pieces = _function(value, record)
    return any(max(piece.terms, default=0) > 1 for piece in pieces) and is_never_negative(pieces)


@lru_cache(maxsize=4096)
def product_of_record(record: Unknown, ends: object, first: Linear, second: Linear) -> Linear | None:
    """The product of two functions of a record with these ends."""
    return _as_linear(record, joined(_function(first, record), _function(second, record), times))


@lru_cache(maxsize=4096)
def _choice(
    record: Unknown, ends: object, relation: Relation, slack: Linear, then: Linear, other: Linear
) -> Linear | None:
    """`then` where the slack stands so to 0, else the other: functions of a record with these ends."""
    sides = _function(then, record), _function(other, record)
    return _as_linear(record, chosen(_function(slack, record), relation.holds, *sides))


def _as_linear(record: Unknown, pieces: Pieces | None) -> Linear | None:
    """The function of the record; None where it has too many pieces, or too high a power."""
    if pieces is None or len(pieces) > MAX_PIECES or max(max(p.terms, default=0) for p in pieces) > MAX_POWER:
        return None
    terms = record.derived(pieces)
    constant = terms.pop(None, 0)
    return constant, tuple((symbol, c) for symbol, c in terms.items() if symbol is not None)


def step_of_record(function: PureFunction, value: Affine, plain: bool = False) -> Any:
    """A step function of a function of a record; None for other values.

    It is a function of the record again, or where that is not to be, or it has to be plain, a number that the run
    decides.
    """
    record = record_of(value)
    if record is None or function.at_least is None:
        return None
    low = high = value.constant
    for symbol, c in value.terms.items():
        ends = [c * end for end in symbol.ends or (0, 0)] if isinstance(symbol, Unknown) else [0]
        low, high = low + min(ends), high + max(ends)
    if high - low > MAX_PIECES:
        return None
    least, most = (int(function.compute(float(end))) for end in (low, high))

    def reaches(level: int) -> Any:
        threshold = function.at_least(Fraction(level), False)  # type: ignore[misc]
        return value > exact(threshold.bound) if threshold.strict else value >= exact(threshold.bound)

    levels = range(least + 1, most + 1)
    if record.folds and not plain:
        return sum(map(reaches, levels), start=least)
    return next((level - 1 for level in levels if not reaches(level)), most)


def folded(value: Any) -> Any:
    """A truth value or a choice that one record decides as a function of it; None where it is none, or not to be."""
    if type(value) is Condition:
        return _folded_choice(value, 1, 0, "i", value.numpy)
    if type(value) is not Select:  # isinstance would decide on one of an integer and a float
        return value
    condition, sides = value.condition, [folded(side) for side in (value.then, value.other)]
    if not isinstance(condition, Condition) or any(side is None or kind_of(side) is None for side in sides):
        return None
    return _folded_choice(condition, sides[0], sides[1], value.kind.replace("b", "i"), value.numpy)


def _folded_choice(condition: Condition, then: Any, other: Any, kind: str, numpy: bool) -> Any:
    record = record_of(condition, then, other)
    if record is None or not record.folds:
        return None
    found = _choice(record, record.ends, condition.relation, *map(linear, (condition.slack, then, other)))
    return None if found is None else expression(found[0], dict(found[1]), kind, numpy)


def folded_extreme(values: Sequence[Any], largest: bool) -> Any:
    """The larger (or smaller) of functions of one record as another; None where they are not such."""
    known = [folded(value) for value in values]
    if any(value is None for value in known) or record_of(*known) is None:
        return None
    found = known[0]
    for value in known[1:]:
        first = operated("ge" if largest else "le", found, value)
        either = Select.of(first, found, value) if isinstance(first, Condition) else found if first else value
        found = folded(either)
        if found is None:
            return None
    return found


def bounded_extreme(values: Sequence[Any], largest: bool) -> Any:
    """The larger (or smaller) of constants and of a number that data are in, as a function whose range is known.

    None where they are not such, or the run is not an adaptive one: then it is decided which of them it is.
    """
    run = RUN.get()
    if run is None or not run.adaptive:
        return None
    if (found := folded_extreme(values, largest)) is not None:
        return found
    open_yet = [value for value in values if isinstance(value, Affine)]
    constants = [value for value in values if not isinstance(value, Symbolic)]
    if len(open_yet) != 1 or len(constants) != len(values) - 1 or any(kind_of(c) not in ("i", "f") for c in constants):
        return None
    (value,) = open_yet
    if not any(isinstance(s, Unknown) for s in drawn_in(value.terms)):
        return None
    level = exact((max if largest else min)(constants))
    low, high = range_of(value)
    made = functions.at_least(level, high) if largest else functions.at_most(level, low)
    return derived(made, (value,), value.kind, value.held)


def range_of(value: Affine) -> tuple[Number | None, Number | None]:
    """Numbers that its values lie between, as far as the ranges of open values and functions tell; else None."""
    low: Number | None = value.constant
    high: Number | None = value.constant
    for symbol, c in value.terms.items():
        ends: tuple[Number | None, Number | None] = (None, None)
        if isinstance(symbol, Unknown) and symbol.ends is not None:
            ends = symbol.ends
        elif isinstance(symbol, Derived):
            ends = symbol.function.least, symbol.function.largest
        first, last = ends if c > 0 else ends[::-1]
        low = None if low is None or first is None else low + c * first
        high = None if high is None or last is None else high + c * last
    return low, high


def _extreme(values: Sequence[Any], largest: bool) -> Any:
    """The largest (or smallest) of the values: as a function, where they are of one record; else the run decides."""
    found = bounded_extreme(values, largest) if current_run().adaptive else folded_extreme(values, largest)
    if found is not None:
        return found
    settled = [settle(value) for value in values]
    return settled[current_run().first_extreme([settled_number(value) for value in settled], largest)]


OPERATIONS.update({"folded": folded, "plain step": partial(step_of_record, plain=True), "extreme": _extreme})
