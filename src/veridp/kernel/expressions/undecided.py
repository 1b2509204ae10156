"""What is undecided: conditions on expressions, and choices between two values.

Nothing is decided until a condition is asked for its truth; then the run under way says which way to go.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridp.kernel.expressions.affine import (
    OPERATIONS,
    REFLECTED,
    Affine,
    Deferring,
    brief,
    cast_number,
    held_as,
    is_numpy,
    kind_of,
    operated,
    plain,
    settle,
)
from veridp.kernel.expressions.decider import RUN, current_run, refuse
from veridp.kernel.stand_ins import Symbolic, noting_errors
from veridp.kernel.symbols import Relation, Symbol, sum_text


class Condition(Deferring):
    """An affine expression and how it stands to 0."""

    __slots__ = ("relation", "slack")

    def __init__(self, slack: Affine, relation: Relation) -> None:
        self.slack = slack
        self.relation = relation

    kind = "b"

    @property
    def numpy(self) -> bool:
        return self.slack.held

    def as_numpy(self) -> Condition:
        return self if self.slack.held else Condition(self.slack.as_numpy(), self.relation)

    def as_python(self) -> Condition:
        return Condition(self.slack.as_python(), self.relation) if self.slack.held else self

    def __bool__(self) -> bool:
        return current_run().decide(self)

    def settled(self) -> Any:
        return held_as(bool(self), self.numpy)

    def negated(self) -> Condition:
        """The condition that holds where this one does not."""
        match self.relation:
            case Relation.AT_LEAST:
                return Condition(-self.slack, Relation.ABOVE)
            case Relation.ABOVE:
                return Condition(-self.slack, Relation.AT_LEAST)
            case Relation.EQUAL:
                return Condition(self.slack, Relation.UNEQUAL)
            case Relation.UNEQUAL:
                return Condition(self.slack, Relation.EQUAL)

    def __invert__(self) -> Any:
        return self.negated() if self.numpy or RUN.get() is None else ~bool(self)

    def __abs__(self) -> Any:
        return abs(settle(self))

    def __neg__(self) -> Any:
        return -settle(self)

    def __pos__(self) -> Any:
        return +settle(self)

    def __round__(self, digits: int | None = None) -> Any:
        return round(settle(self), digits)

    def __int__(self) -> int:
        return int(bool(self))

    __index__ = __int__

    def __float__(self) -> float:
        return float(bool(self))

    def __hash__(self) -> int:
        return hash(bool(self))

    @property
    def stands_for(self) -> type:
        return np.bool_ if self.numpy else bool

    def select(self, then: Any, other: Any) -> Any:
        return Select.of(self, then, other)

    def cast(self, dtype: np.dtype[Any]) -> Any:
        if dtype.kind == "b":
            return self.as_numpy()
        return Select.of(self, cast_number(1, dtype), cast_number(0, dtype))

    def same(self, other: object) -> bool:
        """Whether the other is the same condition."""
        return isinstance(other, Condition) and self.relation is other.relation and self.slack.same(other.slack)

    def holds(self, values: Mapping[Symbol, Any]) -> NDArray[np.bool_]:
        """Where it holds, for these values of the symbols (numbers or arrays)."""
        slack = self.slack.evaluate(values)
        return np.asarray(self.relation.holds(slack))

    def text(self) -> str:
        terms = sorted(self.slack.terms.items(), key=operator.itemgetter(0))
        constant = self.slack.constant
        above = sum_text([(s, c) for s, c in terms if c > 0], max(constant, 0))
        below = sum_text([(s, -c) for s, c in terms if c < 0], max(-constant, 0))
        return f"{above} {self.relation.value} {below}"


class Select(Deferring):
    """`then` where the condition holds, else `other`; undecided until its value matters."""

    __slots__ = ("condition", "held", "other", "then")

    def __init__(self, condition: Condition | Select, then: Any, other: Any, numpy: bool = False) -> None:
        self.condition = condition
        self.then = then
        self.other = other
        self.held = numpy

    @classmethod
    def of(cls, condition: Condition | Select, then: Any, other: Any) -> Any:
        """One of the two values, each held as it is: as a NumPy scalar if either is one."""
        numpy = is_numpy(then) or is_numpy(other)
        then, other = plain(then), plain(other)
        if (
            not (isinstance(then, Symbolic) or isinstance(other, Symbolic))
            and type(then) is type(other)
            and then == other
        ):
            return held_as(then, numpy)
        return cls(condition, then, other, numpy)

    @property
    def numpy(self) -> bool:
        return self.held

    @property
    def kind(self) -> str:
        kinds = {kind_of(self.then), kind_of(self.other)}
        if None in kinds:
            refuse(f"{brief(self)} is no number")
        return max(kinds, key="bif".index)  # type: ignore[arg-type, return-value]

    @property
    def sides(self) -> tuple[Any, Any]:
        """Its two values, held as it is."""
        return held_as(self.then, self.held), held_as(self.other, self.held)

    def as_numpy(self) -> Select:
        return self if self.held else Select(self.condition, self.then, self.other, numpy=True)

    def as_python(self) -> Select:
        then, other = (
            value.as_python() if isinstance(value, Deferring) else value for value in (self.then, self.other)
        )
        return Select(self.condition, then, other)

    @property
    def stands_for(self) -> type:
        kinds = {part.stands_for if isinstance(part, Deferring) else type(part) for part in self.sides}
        return kinds.pop() if len(kinds) == 1 else type(self.settled())

    def settled(self) -> Any:
        return settle(self.sides[0 if self.condition else 1])

    def __bool__(self) -> bool:
        return bool(self.settled())

    def __int__(self) -> int:
        return int(self.settled())

    def __float__(self) -> float:
        return float(self.settled())

    def __index__(self) -> int:
        return operator.index(self.settled())

    def __hash__(self) -> int:
        return hash(self.settled())

    def __abs__(self) -> Any:
        return abs(self.settled())

    def __neg__(self) -> Any:
        return -self.settled()

    def __pos__(self) -> Any:
        return +self.settled()

    def __round__(self, digits: int | None = None) -> Any:
        return round(self.settled(), digits)

    def __invert__(self) -> Any:
        if not self.held or self.kind != "b":
            return ~self.settled()
        return Select.of(self.condition, *(not_(side) for side in self.sides))

    def select(self, then: Any, other: Any) -> Any:
        return Select.of(self, then, other)

    def cast(self, dtype: np.dtype[Any]) -> Any:
        cast = [v.cast(dtype) if isinstance(v, Symbolic) else cast_number(v, dtype) for v in self.sides]
        return Select.of(self.condition, *cast)

    def text(self) -> str:
        then, other = (
            value.text() if isinstance(value, Deferring) else str(value) for value in (self.then, self.other)
        )
        return f"({then} if {self.condition.text()} else {other})"


_BITS = frozenset(["and", "or", "xor"])


def _on_undecided(name: str, reflected: bool) -> Callable[[Any, Any], Any]:
    """The operator on a truth value or a choice.

    A choice is kept open where both of its values can be operated on; two choices at once are not multiplied out.
    """

    @noting_errors
    def applied(self: Condition | Select, other: Any) -> Any:
        def order(value: Any) -> tuple[Any, Any]:
            return (other, value) if reflected else (value, other)

        if isinstance(other, np.ndarray | list | tuple):
            return NotImplemented
        if isinstance(other, complex) or (isinstance(other, str) and isinstance(self, Select)):
            return operated(name, *order(settle(self)))  # they would be asked next, and know nothing of stand-ins
        if isinstance(other, Affine | Condition | Select | bool | int | float | Fraction | np.generic):
            if name in _BITS and self.kind == "b" and kind_of(other) == "b":
                return joined_truth(name, *(held_as(value, self.numpy or is_numpy(other)) for value in order(self)))
            if name in _ARITHMETIC and self.kind == "b" and kind_of(other) == "b" and (self.numpy or is_numpy(other)):
                refuse(
                    f"{name} of two truth values of NumPy is one thing alone, another in an array; use & or |, or int()"
                )
            number = None if name in _BITS else OPERATIONS["folded"](self)
            if number is not None:
                return operated(name, *order(number))
            if isinstance(self, Condition) and not isinstance(other, Symbolic) and name in _TOTAL and _is_choosing():
                return Select.of(self, *(operated(name, *order(held_as(side, self.numpy))) for side in (True, False)))
            divides = name in ("floordiv", "mod") and not reflected and kind_of(other) in ("i", "f")
            total = name in _TOTAL or (divides and not isinstance(other, Symbolic) and bool(other) and _is_choosing())
            if isinstance(self, Select) and not isinstance(other, Select) and total:
                return Select.of(self.condition, *(operated(name, *order(side)) for side in self.sides))
            return operated(name, *order(settle(self)))
        return NotImplemented

    return applied


def _is_choosing() -> bool:
    run = RUN.get()
    return run is not None and run.choosing


_ARITHMETIC = frozenset(["add", "sub", "mul"])


_TOTAL = frozenset(["add", "sub", "mul", "lt", "le", "gt", "ge", "eq", "ne"])  # defined for all numbers


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor"):
    for _class in (Condition, Select):
        setattr(_class, f"__{_name}__", _on_undecided(_name, reflected=False))
        setattr(_class, f"__r{_name}__", _on_undecided(_name, reflected=True))


for _name in REFLECTED:
    for _class in (Condition, Select):
        setattr(_class, f"__{_name}__", _on_undecided(_name, reflected=False))


def whole_of(value: Any) -> Any:
    """What int() makes of a truth value or a choice of plain numbers, undecided; None where that is not to be."""
    if not _is_choosing() or not isinstance(value, Condition | Select):
        return None
    if isinstance(value, Condition):
        return Select(value, 1, 0)
    if any(isinstance(side, Symbolic) for side in (value.then, value.other)):
        return None
    return Select.of(value.condition, int(value.then), int(value.other))


def truth_of(value: Any) -> Any:
    """Whether a number is not zero, as NumPy's truth value."""
    return value if kind_of(value) == "b" else held_as(value != 0, numpy=True)


def not_(value: Any) -> Any:
    """The opposite of a truth value, as NumPy's."""
    return ~held_as(value, numpy=True)


def joined_truth(name: str, first: Any, second: Any) -> Any:
    """ "and", "or" or "xor" of two truth values, undecided if they are."""
    if not isinstance(first, Symbolic):
        first, second = second, first
    if not isinstance(first, Symbolic):
        return operated(name, first, second)
    if name == "xor":
        if isinstance(first, Condition) and not isinstance(second, Symbolic) and _is_choosing():
            return Select.of(first, *(held_as(side, is_numpy(first)) ^ second for side in (True, False)))
        return settle(first) ^ settle(second)
    false, true = (held_as(value, is_numpy(first)) for value in (False, True))
    return first.select(second, false) if name == "and" else first.select(true, second)
