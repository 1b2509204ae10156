"""Affine expressions in noise and open values, the conditions they make, and undecided choices.

All three are plain values. Nothing is decided until a condition is asked for its truth; then the run under way says
which way to go. Nothing is rounded: coefficients are exact rationals, and strict and weak inequalities stay apart.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from veridp.errors import NotAffine
from veridp.program.distribution import Number, exact
from veridp.program.site import here
from veridp.program.symbolic import Symbolic, noting_errors
from veridp.program.symbols import Noise, Relation, Symbol, Unknown
from veridp.program.wording import sum_text

Key = tuple[object, ...]  # an operation, and its operands: expressions by identity, numbers by value


class Decider(ABC):
    """What a run offers to the symbols that live in it."""

    results: dict[Key, tuple[Any, ...]]  # what operations gave here in earlier runs; the operands, kept alive, follow

    @abstractmethod
    def decide(self, condition: Condition) -> bool:
        """Which way to go at a branch."""

    def compared(self, condition: Condition) -> None:  # noqa: B027
        """A comparison was made; whether its truth is ever asked for is another matter."""

    @abstractmethod
    def first_extreme(self, values: Sequence[Affine | Number], largest: bool) -> int:
        """Which of the values is to be the first largest (or smallest)."""

    @abstractmethod
    def refuse(self, what: str) -> NoReturn:
        """Stop: the mechanism did what symbols cannot express."""


RUN: ContextVar[Decider | None] = ContextVar("RUN", default=None)


def _run() -> Decider:
    run = RUN.get()
    if run is None:
        raise NotAffine(f"{here()}: a symbol has no value of its own; it can only be decided on inside explore()")
    return run


def _refuse(what: str) -> NoReturn:
    _run().refuse(what)


def _remembered(operation: Callable[[Affine, Any], Any]) -> Callable[[Affine, Any], Any]:
    """The operation, which gives the same object again where a run takes a way that an earlier one took.

    Runs share long ways: there the arithmetic is spared, and what follows can tell expressions by their identity.
    """

    @noting_errors
    def applied(self: Affine, other: Any) -> Any:
        run = RUN.get()
        if run is None:
            return operation(self, other)
        kind = type(other)
        if kind is Affine:
            key: Key = (operation, id(self), id(other))
        elif kind is float or kind is int:
            key = (operation, id(self), None, other)
        else:
            return operation(self, other)
        known = run.results.get(key)
        if known is None:
            known = run.results[key] = (operation(self, other), self, other)
        return known[0]

    return applied


def _flipped(operation: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda a, b: operation(b, a)


# NumPy asks any object for these; a float has none of them.
ASKED_BY_NUMPY = frozenset(
    {"dtype", "shape", "ndim", "size", "itemsize", *(n for n in dir(np.float64) if "__arr" in n)}
)


class Deferring(Symbolic):
    """What Affine, Condition and Select share: NumPy's hooks, and refusals."""

    __slots__ = ()

    @classmethod
    def extreme_index(cls, values: Sequence[Any], largest: bool) -> int:
        return _run().first_extreme([_settled_number(value) for value in values], largest)

    @classmethod
    def extreme(cls, values: Sequence[Any], largest: bool) -> Any:
        settled = [_settled_number(value) for value in values]
        return settled[_run().first_extreme(settled, largest)]

    @classmethod
    def apply(cls, ufunc: np.ufunc, values: Sequence[Any]) -> Any:
        settled = [settle(value) for value in values]
        if not any(isinstance(value, Symbolic) for value in settled):
            return ufunc(*settled)
        if ufunc in (np.floor, np.ceil, np.rint, np.trunc) and is_integer(settled[0]):
            return settled[0]
        if ufunc in (np.isfinite, np.isnan, np.isinf):
            return ufunc is np.isfinite
        _refuse(f"np.{ufunc.__name__} of {_brief(next(v for v in settled if isinstance(v, Symbolic)))} is not affine")

    def __float__(self) -> float:
        _refuse(f"{_brief(self)} has no plain value, as float(), math functions and dtype=float want one")

    def __int__(self) -> int:
        _refuse(f"{_brief(self)} has no plain value, as int() wants one")

    def __index__(self) -> int:
        _refuse(f"{_brief(self)} has no plain value, as an index or a range wants one")

    def __hash__(self) -> int:
        _refuse(f"{_brief(self)} has no plain value, as a set or a dictionary key wants one")

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """What the code under way takes it for, by isinstance: the type of the number that it stands for."""
        return type(self) if RUN.get() is None else self.stands_for

    @property
    @abstractmethod
    def stands_for(self) -> type:
        """The type of the plain value in its place."""

    @abstractmethod
    def text(self) -> str:
        """How it is written for people."""

    def __str__(self) -> str:
        if RUN.get() is not None:  # a mechanism that releases text would release the symbol's name
            _refuse("noise turned into text is not affine")
        return self.text()

    __repr__ = __str__

    def __format__(self, form: str) -> str:
        return str(self)

    def __getattr__(self, name: str) -> Any:
        if RUN.get() is None or name in ASKED_BY_NUMPY or not hasattr(np.float64, name):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        _refuse(f"{_brief(self)} has no {name!r}")

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: object) -> Any:
        return self


class Affine(Deferring):
    """constant + Σ coefficient · symbol, with at least one symbol."""

    __slots__ = ("constant", "terms")

    def __init__(self, constant: Number, terms: Mapping[Symbol, Number]) -> None:
        self.constant = constant
        self.terms = terms

    # ---------------------------------------------------------------------------------------- arithmetic

    __add__ = __radd__ = _remembered(lambda self, other: _plus(self, other))
    __sub__ = _remembered(lambda self, other: _minus(self, other))
    __rsub__ = _remembered(lambda self, other: _plus(-self, other))
    __mul__ = __rmul__ = _remembered(lambda self, other: _times(self, other))
    __truediv__ = _remembered(lambda self, other: _over(self, other))

    def __rtruediv__(self, other: Any) -> Any:
        _refuse(f"dividing by {_brief(self)} is not affine")

    def __neg__(self) -> Any:
        return Affine(-self.constant, {symbol: -c for symbol, c in self.terms.items()})

    def __pos__(self) -> Affine:
        return self

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    def __pow__(self, exponent: Any) -> Any:
        if not isinstance(exponent, Symbolic) and isinstance(exponent, int | float | np.generic) and exponent == 1:
            return self
        _refuse(f"a power of {_brief(self)} is not affine")

    def __rpow__(self, base: Any) -> Any:
        _refuse(f"a power with exponent {_brief(self)} is not affine")

    def __floordiv__(self, other: Any) -> Any:
        _refuse(f"rounding {_brief(self)} down is not affine")

    def __mod__(self, other: Any) -> Any:
        _refuse(f"the remainder of {_brief(self)} is not affine")

    __rfloordiv__, __rmod__, __divmod__ = __floordiv__, __mod__, __mod__

    def __round__(self, digits: int | None = None) -> Affine:
        if is_integer(self):
            return self
        _refuse(f"rounding {_brief(self)} is not affine")

    def __floor__(self) -> Affine:
        return self.__round__()

    __ceil__ = __trunc__ = __floor__

    # ---------------------------------------------------------------------------------------- comparison

    __ge__ = _remembered(lambda self, other: _compare(self, other, Relation.AT_LEAST))
    __gt__ = _remembered(lambda self, other: _compare(self, other, Relation.ABOVE))
    __le__ = _remembered(lambda self, other: _compare(self, other, Relation.AT_LEAST, turned=True))
    __lt__ = _remembered(lambda self, other: _compare(self, other, Relation.ABOVE, turned=True))
    __eq__ = _remembered(lambda self, other: _compare(self, other, Relation.EQUAL))
    __ne__ = _remembered(lambda self, other: _compare(self, other, Relation.UNEQUAL))

    __hash__ = Deferring.__hash__

    def __bool__(self) -> bool:
        return bool(self != 0)

    def cast(self, dtype: np.dtype[Any]) -> Any:
        if dtype.kind == "f" or (dtype.kind in "iu" and is_integer(self)):
            return self
        if dtype.kind == "b":
            return self != 0
        _refuse(f"{_brief(self)} as {dtype} is not affine")

    # ------------------------------------------------------------------------------------------- reading

    def same(self, other: object) -> bool:
        """Whether the other is the same expression (== asks a question of the run)."""
        return isinstance(other, Affine) and self.constant == other.constant and self.terms == other.terms

    @property
    def continuous(self) -> bool:
        """Whether it takes no value with positive probability, whatever the open values are."""
        return any(isinstance(symbol, Noise) and not symbol.distribution.integer for symbol in self.terms)

    @property
    def stands_for(self) -> type:
        return int if is_integer(self) else float

    def evaluate(self, values: Mapping[Symbol, Any]) -> Any:
        """Its value where the symbols have these values (numbers or arrays)."""
        return float(self.constant) + sum(float(c) * values[symbol] for symbol, c in self.terms.items())

    def text(self) -> str:
        return sum_text(sorted(self.terms.items(), key=operator.itemgetter(0)), self.constant)


class Condition(Deferring):
    """An affine expression and how it stands to 0."""

    __slots__ = ("relation", "slack")

    def __init__(self, slack: Affine, relation: Relation) -> None:
        self.slack = slack
        self.relation = relation

    def __bool__(self) -> bool:
        return _run().decide(self)

    def __invert__(self) -> Condition:
        match self.relation:
            case Relation.AT_LEAST:
                return Condition(-self.slack, Relation.ABOVE)
            case Relation.ABOVE:
                return Condition(-self.slack, Relation.AT_LEAST)
            case Relation.EQUAL:
                return Condition(self.slack, Relation.UNEQUAL)
            case Relation.UNEQUAL:
                return Condition(self.slack, Relation.EQUAL)

    def __and__(self, other: Any) -> Any:
        return Select.of(self, other, False)

    def __or__(self, other: Any) -> Any:
        return Select.of(self, True, other)

    def __xor__(self, other: Any) -> Any:
        return bool(self) ^ bool(other)

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __int__(self) -> int:
        return int(bool(self))

    __index__ = __int__

    def __float__(self) -> float:
        return float(bool(self))

    def __hash__(self) -> int:
        return hash(bool(self))

    @property
    def stands_for(self) -> type:
        return bool

    def select(self, then: Any, other: Any) -> Any:
        return Select.of(self, then, other)

    def cast(self, dtype: np.dtype[Any]) -> Any:
        return Select.of(self, dtype.type(1).item(), dtype.type(0).item())

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

    __slots__ = ("condition", "other", "then")

    def __init__(self, condition: Condition | Select, then: Any, other: Any) -> None:
        self.condition = condition
        self.then = then
        self.other = other

    @classmethod
    def of(cls, condition: Condition | Select, then: Any, other: Any) -> Any:
        then, other = _plain(then), _plain(other)
        symbolic = isinstance(then, Symbolic) or isinstance(other, Symbolic)
        return then if not symbolic and type(then) is type(other) and then == other else cls(condition, then, other)

    @property
    def stands_for(self) -> type:
        kinds = {part.stands_for if isinstance(part, Deferring) else type(part) for part in (self.then, self.other)}
        return kinds.pop() if len(kinds) == 1 else type(self.settled())

    def settled(self) -> Any:
        """Its value, once the run has decided on it."""
        return settle(self.then if self.condition else self.other)

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
        return Select.of(self.condition, -self.then, -self.other)

    def __invert__(self) -> Any:
        return Select.of(self.condition, _not(self.then), _not(self.other))

    def select(self, then: Any, other: Any) -> Any:
        return Select.of(self, then, other)

    def cast(self, dtype: np.dtype[Any]) -> Any:
        cast = [v.cast(dtype) if isinstance(v, Symbolic) else dtype.type(v).item() for v in (self.then, self.other)]
        return Select.of(self.condition, *cast)

    def text(self) -> str:
        then, other = (
            value.text() if isinstance(value, Deferring) else str(value) for value in (self.then, self.other)
        )
        return f"({then} if {self.condition.text()} else {other})"


def _not(value: Any) -> Any:
    return ~value if isinstance(value, Condition | Select) else not value


def _on_select(operation: Callable[[Any, Any], Any]) -> Callable[[Select, Any], Any]:
    """The operation on either side of a choice. Two choices at once are not multiplied out: the first is decided."""

    def applied(self: Select, other: Any) -> Any:
        if isinstance(other, np.ndarray | list | tuple):
            return NotImplemented
        if isinstance(other, Select):
            return operation(self.settled(), other)
        return Select.of(self.condition, operation(self.then, other), operation(self.other, other))

    return applied


def _on_condition(operation: Callable[[Any, Any], Any]) -> Callable[[Condition, Any], Any]:
    """The operation on a truth value that is used as a number: it is decided."""

    def applied(self: Condition, other: Any) -> Any:
        return NotImplemented if isinstance(other, np.ndarray) else operation(bool(self), other)

    return applied


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    _operation = getattr(operator, _name)
    for _class, _applied in ((Select, _on_select), (Condition, _on_condition)):
        setattr(_class, f"__{_name}__", _applied(_operation))
        setattr(_class, f"__r{_name}__", _applied(_flipped(_operation)))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    _operation = getattr(operator, _name)
    setattr(Select, f"__{_name}__", _on_select(_operation))
    setattr(Condition, f"__{_name}__", _on_condition(_operation))
for _name in ("and_", "or_", "xor"):
    _operation = getattr(operator, _name)
    setattr(Select, f"__{_name.rstrip('_')}__", _on_select(_operation))
    setattr(Select, f"__r{_name.rstrip('_')}__", _on_select(_flipped(_operation)))


# ------------------------------------------------------------------------------------------------- construction


def affine(constant: Number, terms: Mapping[Symbol, Number]) -> Affine | Number:
    """The expression; a plain number where no symbol is left."""
    return Affine(constant, terms) if terms else exact(constant)


def unknown(name: str) -> Affine:
    """A value left open, for a mechanism's argument."""
    return Affine(0, {Unknown(name): 1})


def unknowns(name: str, count: int) -> list[Affine]:
    """Values left open, for a mechanism's data: name[0], name[1], …"""
    return [unknown(f"{name}[{index}]") for index in range(count)]


def settle(value: Any) -> Any:
    """The value with its undecided choice, if it is one, decided."""
    if isinstance(value, Select):
        return value.settled()
    return bool(value) if isinstance(value, Condition) else value


def is_integer(value: Any) -> bool:
    """Whether the value can only be an integer."""
    if isinstance(value, Affine):
        numbers = [value.constant, *value.terms.values()]
        return all(c.denominator == 1 for c in numbers) and all(
            isinstance(symbol, Noise) and symbol.distribution.integer for symbol in value.terms
        )
    return isinstance(value, int | np.integer)


def _settled_number(value: Any) -> Affine | Number:
    value = settle(value)
    return value if isinstance(value, Affine) else exact(value)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _parts(value: Any) -> tuple[Number, Mapping[Symbol, Number]] | None:
    """Constant and terms of an operand; None where the operand has to do the operation itself."""
    if isinstance(value, Affine):
        return value.constant, value.terms
    if isinstance(value, Condition):
        return int(bool(value)), {}
    try:
        return exact(value), {}
    except TypeError:
        return None


def _sum(first: Mapping[Symbol, Number], second: Mapping[Symbol, Number]) -> Mapping[Symbol, Number]:
    if not second:
        return first
    total = dict(first)
    for symbol, coefficient in second.items():
        total[symbol] = total.get(symbol, 0) + coefficient
    return {symbol: coefficient for symbol, coefficient in total.items() if coefficient}


def _plus(first: Affine, second: Any) -> Any:
    parts = _parts(second)
    if parts is None:
        return NotImplemented
    constant, terms = parts
    return affine(first.constant + constant, _sum(first.terms, terms))


def _minus(first: Affine, second: Any) -> Any:
    parts = _parts(second)
    if parts is None:
        return NotImplemented
    constant, terms = parts
    return affine(first.constant - constant, _sum(first.terms, {s: -c for s, c in terms.items()}))


def _times(first: Affine, second: Any) -> Any:
    parts = _parts(second)
    if parts is None:
        return NotImplemented
    factor, terms = parts
    if terms:
        _refuse(f"the product of {_brief(first)} and {_brief(second)} is not affine")
    return affine(first.constant * factor, {s: c * factor for s, c in first.terms.items()} if factor else {})


def _over(first: Affine, second: Any) -> Any:
    parts = _parts(second)
    if parts is None:
        return NotImplemented
    divisor, terms = parts
    if terms:
        _refuse(f"dividing by {_brief(second)} is not affine")
    if not divisor:
        raise ZeroDivisionError("division by zero")
    return _times(first, Fraction(1) / divisor)


def _compare(first: Affine, second: Any, relation: Relation, turned: bool = False) -> Any:
    if not isinstance(second, Symbolic) and isinstance(second, float) and not np.isfinite(second):
        return _against_infinity(second, relation, turned)
    if second is None or isinstance(second, str):
        return NotImplemented if relation in (Relation.AT_LEAST, Relation.ABOVE) else relation is Relation.UNEQUAL
    slack = _minus(first, second)
    if slack is NotImplemented:
        return NotImplemented
    if not isinstance(slack, Affine):
        return relation.holds(-slack if turned else slack)
    condition = Condition(-slack if turned else slack, relation)
    run = RUN.get()
    if run is not None:
        run.compared(condition)
    return condition


def _against_infinity(bound: float, relation: Relation, turned: bool) -> bool:
    """Noise is finite: how it compares with ±inf (or NaN) is known."""
    return bool(relation.holds(bound if turned else -bound))


def _brief(value: Any) -> str:
    """The value, named in an error."""
    if isinstance(value, Affine):
        noisy = any(isinstance(symbol, Noise) for symbol in value.terms)
        text = value.text()
        return f"{'noise' if noisy else 'the open value'} ({text if len(text) <= 60 else text[:57] + '…'})"
    return value.text() if isinstance(value, Deferring) else str(value)
