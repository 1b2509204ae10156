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
from veridp.kernel.decimals import Written
from veridp.kernel.distributions import Number, exact
from veridp.kernel.site import here
from veridp.kernel.stand_ins import Symbolic, first_symbolic, noting_errors, objects
from veridp.kernel.symbols import Noise, Relation, Symbol, Unknown, sum_text

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
        raise NotAffine(f"{here()}: a symbol has no value; it can only be decided inside explore()")
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
        elif kind is float or kind is int or kind is np.float64 or other is None:
            key = (operation, id(self), kind, other)
        else:
            return operation(self, other)
        known = run.results.get(key)
        if known is None:
            known = run.results[key] = (operation(self, other), self, other)
        return known[0]

    return applied


# NumPy asks any object for these; a float has none of them.
ASKED_BY_NUMPY = frozenset(
    {"dtype", "shape", "ndim", "size", "itemsize", *(n for n in dir(np.float64) if "__arr" in n)}
)


class Deferring(Symbolic):
    """What Affine, Condition and Select share: NumPy's hooks, and refusals."""

    __slots__ = ()

    def refuse(self, what: str) -> NoReturn:
        _refuse(what)

    @property
    def numpy(self) -> bool:
        """Whether the plain function would hold a NumPy scalar here, not a Python number."""
        raise NotImplementedError

    @classmethod
    def extreme_index(cls, values: Sequence[Any], largest: bool) -> Any:
        return np.int64(_run().first_extreme([_settled_number(value) for value in values], largest))

    @classmethod
    def extreme(cls, values: Sequence[Any], largest: bool) -> Any:
        settled = [settle(value) for value in values]
        return settled[_run().first_extreme([_settled_number(value) for value in settled], largest)]

    @classmethod
    def apply(cls, ufunc: np.ufunc, values: Sequence[Any]) -> Any:
        held = [_held(value, numpy=True) for value in values]
        kinds = {_kind(value) for value in held}
        if ufunc in (np.isfinite, np.isnan, np.isinf):
            return np.bool_(ufunc is np.isfinite)
        if None in kinds:
            others = {str(np.asarray(value).dtype) for value in held if _kind(value) is None}
            _refuse(
                f"np.{ufunc.__name__} of noise and {', '.join(sorted(others))} is not modelled; use bool, int or float"
            )
        if ufunc in _LOGICAL:
            return _LOGICAL[ufunc](*(_truth(value) for value in held))
        if kinds == {"b"}:
            return _on_truth_values(ufunc, held)
        if ufunc in (np.maximum, np.minimum, np.fmax, np.fmin):
            return _larger(held, ufunc in (np.maximum, np.fmax))
        if ufunc in (np.floor, np.ceil, np.rint, np.trunc) and is_integer(settled := settle(held[0])):
            return settled.cast(np.dtype(np.float64)) if ufunc is np.rint else settled
        if ufunc in (np.absolute, np.fabs):
            return abs(held[0]) if ufunc is np.absolute else abs(held[0]).cast(np.dtype(np.float64))
        if ufunc in _UNARY:
            return _UNARY[ufunc](held[0])
        if ufunc not in _BINARY:
            _refuse(f"np.{ufunc.__name__} of {_brief(first_symbolic(held))} is not affine")
        return _operated(_BINARY[ufunc], *held)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        """What NumPy makes of it as the entry of an array: a NumPy scalar, decided unless it is an expression."""
        value = settle(self)
        if dtype is not None and np.dtype(dtype) != object:
            value = value.cast(np.dtype(dtype)) if isinstance(value, Symbolic) else value
        if not isinstance(value, Symbolic):
            return np.asarray(value, dtype)
        if dtype is not None and np.dtype(dtype) != object:
            _refuse(f"{_brief(self)} has no plain value, as an array of {np.dtype(dtype)} wants one")
        return objects([value.as_numpy()]).reshape(())

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
        if name == "item" and self.numpy:
            return self.as_python
        if name == "astype" and self.numpy:
            return lambda dtype: self.cast(np.dtype(dtype))
        if RUN.get() is None or name in ASKED_BY_NUMPY or not hasattr(np.float64, name):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        _refuse(f"{_brief(self)} has no {name!r}")

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: object) -> Any:
        return self


class Affine(Deferring):
    """constant + Σ coefficient · symbol, with at least one symbol; of the kind of an integer ("i") or a float ("f")."""

    __slots__ = ("constant", "held", "kind", "terms")

    def __init__(self, constant: Number, terms: Mapping[Symbol, Number], kind: str = "f", numpy: bool = False) -> None:
        self.constant = constant
        self.terms = terms
        self.kind = kind  # type: ignore[misc]
        self.held = numpy

    @property
    def numpy(self) -> bool:
        return self.held

    def as_numpy(self) -> Affine:
        return self if self.held else _numpy_twin(self, None)

    def as_python(self) -> Affine:
        return Affine(self.constant, self.terms, self.kind) if self.held else self

    # ---------------------------------------------------------------------------------------- arithmetic

    __add__ = __radd__ = _remembered(lambda self, other: _plus(self, other))
    __sub__ = _remembered(lambda self, other: _minus(self, other))
    __rsub__ = _remembered(lambda self, other: _plus(-self, other))
    __mul__ = __rmul__ = _remembered(lambda self, other: _times(self, other))
    __truediv__ = _remembered(lambda self, other: _over(self, other))

    def __rtruediv__(self, other: Any) -> Any:
        _refuse(f"dividing by {_brief(self)} is not affine")

    def __neg__(self) -> Any:
        return _checked(Affine(-self.constant, {s: -c for s, c in self.terms.items()}, self.kind, self.held))

    def __pos__(self) -> Affine:
        return self

    def __invert__(self) -> Any:
        _refuse(f"the bits of {_brief(self)} are not affine")

    def __and__(self, other: Any) -> Any:
        _refuse(f"the bits of {_brief(self)} are not affine")

    __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __and__
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = __matmul__ = __rmatmul__ = __and__

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    def __pow__(self, exponent: Any) -> Any:
        if type(exponent) is int and exponent == 1:
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
        if is_integer(self) and digits is None:
            return Affine(self.constant, self.terms, "i")
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
        if dtype == np.float64 or (dtype == np.int64 and is_integer(self)):
            return _checked(Affine(self.constant, self.terms, dtype.kind, numpy=True))
        if dtype.kind == "b":
            return self.as_numpy() != 0
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
        if self.held:
            return np.int64 if self.kind == "i" else np.float64
        return int if self.kind == "i" else float

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

    kind = "b"

    @property
    def numpy(self) -> bool:
        return self.slack.held

    def as_numpy(self) -> Condition:
        return self if self.slack.held else Condition(self.slack.as_numpy(), self.relation)

    def as_python(self) -> Condition:
        return Condition(self.slack.as_python(), self.relation) if self.slack.held else self

    def __bool__(self) -> bool:
        return _run().decide(self)

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
        return Select.of(self, _cast_number(1, dtype), _cast_number(0, dtype))

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
        numpy = _is_numpy(then) or _is_numpy(other)
        then, other = _plain(then), _plain(other)
        if (
            not (isinstance(then, Symbolic) or isinstance(other, Symbolic))
            and type(then) is type(other)
            and then == other
        ):
            return _held(then, numpy)
        return cls(condition, then, other, numpy)

    @property
    def numpy(self) -> bool:
        return self.held

    @property
    def kind(self) -> str:
        kinds = {_kind(self.then), _kind(self.other)}
        if None in kinds:
            _refuse(f"{_brief(self)} is no number")
        return max(kinds, key="bif".index)  # type: ignore[arg-type, return-value]

    @property
    def sides(self) -> tuple[Any, Any]:
        """Its two values, held as it is."""
        return _held(self.then, self.held), _held(self.other, self.held)

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
        """Its value, once the run has decided on it."""
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
        return Select.of(self.condition, *(_not(side) for side in self.sides))

    def select(self, then: Any, other: Any) -> Any:
        return Select.of(self, then, other)

    def cast(self, dtype: np.dtype[Any]) -> Any:
        cast = [v.cast(dtype) if isinstance(v, Symbolic) else _cast_number(v, dtype) for v in self.sides]
        return Select.of(self.condition, *cast)

    def text(self) -> str:
        then, other = (
            value.text() if isinstance(value, Deferring) else str(value) for value in (self.then, self.other)
        )
        return f"({then} if {self.condition.text()} else {other})"


# --------------------------------------------------------------------------------------- truth values as numbers


def _operated(name: str, first: Any, second: Any) -> Any:
    """The operator of this name on two scalars, of which the first has it, or the second its reflection."""
    if isinstance(first, Symbolic):
        answer = getattr(first, f"__{name}__")(second)
        if answer is not NotImplemented:
            return answer
    if isinstance(second, Symbolic):
        return getattr(second, f"__{_REFLECTED.get(name, 'r' + name)}__")(first)
    return getattr(operator, name if name not in ("and", "or") else f"{name}_")(first, second)


_REFLECTED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}
_BITS = frozenset(["and", "or", "xor"])


def _on_undecided(name: str, reflected: bool) -> Callable[[Any, Any], Any]:
    """The operator on a truth value or a choice.

    A choice is kept open where both of its values can be operated on; two choices at once are not multiplied out.
    """

    @noting_errors
    def applied(self: Condition | Select, other: Any) -> Any:
        if isinstance(other, np.ndarray | list | tuple):
            return NotImplemented
        if isinstance(other, Affine | Condition | Select | bool | int | float | Fraction | np.generic):
            order = (lambda value: (other, value)) if reflected else (lambda value: (value, other))
            if name in _BITS and self.kind == "b" and _kind(other) == "b":
                return _joined(name, *(_held(value, self.numpy or _is_numpy(other)) for value in order(self)))
            if name in _ARITHMETIC and self.kind == "b" and _kind(other) == "b" and (self.numpy or _is_numpy(other)):
                _refuse(
                    f"{name} of two truth values of NumPy is one thing alone, another in an array; use & or |, or int()"
                )
            if isinstance(self, Select) and not isinstance(other, Select) and name in _TOTAL:
                return Select.of(self.condition, *(_operated(name, *order(side)) for side in self.sides))
            return _operated(name, *order(settle(self)))
        return NotImplemented

    return applied


_ARITHMETIC = frozenset(["add", "sub", "mul"])
_TOTAL = frozenset(["add", "sub", "mul", "lt", "le", "gt", "ge", "eq", "ne"])  # defined for all numbers
for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor"):
    for _class in (Condition, Select):
        setattr(_class, f"__{_name}__", _on_undecided(_name, reflected=False))
        setattr(_class, f"__r{_name}__", _on_undecided(_name, reflected=True))
for _name in _REFLECTED:
    for _class in (Condition, Select):
        setattr(_class, f"__{_name}__", _on_undecided(_name, reflected=False))


def _truth(value: Any) -> Any:
    """Whether a number is not zero, as NumPy's truth value."""
    return value if _kind(value) == "b" else _held(value != 0, numpy=True)


def _not(value: Any) -> Any:
    return ~_held(value, numpy=True)


def _joined(name: str, first: Any, second: Any) -> Any:
    """ "and", "or" or "xor" of two truth values, undecided if they are."""
    if not isinstance(first, Symbolic):
        first, second = second, first
    if not isinstance(first, Symbolic):
        return _operated(name, first, second)
    if name == "xor":
        return settle(first) ^ settle(second)
    false, true = (_held(value, _is_numpy(first)) for value in (False, True))
    return first.select(second, false) if name == "and" else first.select(true, second)


_LOGICAL: dict[np.ufunc, Callable[..., Any]] = {
    np.logical_and: lambda a, b: _joined("and", a, b),
    np.logical_or: lambda a, b: _joined("or", a, b),
    np.logical_xor: lambda a, b: _joined("xor", a, b),
    np.logical_not: _not,
}
_BINARY = {
    np.add: "add",
    np.subtract: "sub",
    np.multiply: "mul",
    np.divide: "truediv",
    np.floor_divide: "floordiv",
    np.remainder: "mod",
    np.power: "pow",
    np.less: "lt",
    np.less_equal: "le",
    np.greater: "gt",
    np.greater_equal: "ge",
    np.equal: "eq",
    np.not_equal: "ne",
    np.bitwise_and: "and",
    np.bitwise_or: "or",
    np.bitwise_xor: "xor",
}
_UNARY: dict[np.ufunc, Callable[[Any], Any]] = {
    np.negative: operator.neg,
    np.positive: operator.pos,
    np.invert: operator.invert,
}


def _on_truth_values(ufunc: np.ufunc, values: Sequence[Any]) -> Any:
    """The ufunc on NumPy's truth values: a sum is "or", a product "and", and a difference an error."""
    if ufunc in (np.add, np.maximum, np.fmax, np.bitwise_or):
        return _joined("or", *values)
    if ufunc in (np.multiply, np.minimum, np.fmin, np.bitwise_and):
        return _joined("and", *values)
    if ufunc is np.invert:
        return _not(values[0])
    return ufunc(*(settle(value) for value in values))


def _larger(values: Sequence[Any], largest: bool) -> Any:
    """The larger (or smaller) of numbers, as a number of the kind that both have in an array."""
    kind = max((_kind(value) for value in values), key="bif".index)  # type: ignore[arg-type]
    dtype = np.dtype(np.int64 if kind == "i" else np.float64)
    cast = [
        settle(v).cast(dtype) if isinstance(settle(v), Symbolic) else _cast_number(settle(v), dtype) for v in values
    ]
    symbol = first_symbolic(cast)
    return (max if largest else min)(cast) if symbol is None else symbol.extreme(cast, largest)


# ------------------------------------------------------------------------------------------------- construction


def affine(constant: Number, terms: Mapping[Symbol, Number]) -> Affine | Number:
    """The expression; a plain number where no symbol is left."""
    return Affine(constant, terms) if terms else exact(constant)


def _affine(constant: Number, terms: Mapping[Symbol, Number], kind: str, numpy: bool) -> Any:
    """The expression as the plain function would hold it; a plain number where no symbol is left."""
    return _checked(Affine(constant, terms, kind, numpy)) if terms else _held(_as_kind(constant, kind), numpy)


def _as_kind(number: Number, kind: str) -> Any:
    """The number as a float, if it is to be one and is one without rounding."""
    if kind == "i":
        return number
    try:
        return float(number) if float(number) == number else number
    except OverflowError:
        return number


def _checked(value: Affine) -> Affine:
    """The expression; refused where it is an integer of NumPy's that may leave 64 bits."""
    if value.held and value.kind == "i":
        low = high = value.constant
        for symbol, coefficient in value.terms.items():
            ends = [coefficient * end for end in symbol.distribution.reach] if isinstance(symbol, Noise) else [0]
            low, high = low + min(ends), high + max(ends)
        if low < -(2**63) or high >= 2**63:
            _refuse(f"{_brief(value)} can leave the 64 bits of NumPy's integers")
    return value


_numpy_twin = _remembered(lambda self, _: _checked(Affine(self.constant, self.terms, self.kind, numpy=True)))


def _held(value: Any, numpy: bool) -> Any:
    """The value, as a NumPy scalar if it is to be one."""
    if isinstance(value, Deferring):
        return value.as_numpy() if numpy else value
    if not numpy or isinstance(value, np.generic | Written):
        return value
    kind = _kind(value)
    try:
        return value if kind is None else {"b": np.bool_, "i": np.int64, "f": np.float64}[kind](value)
    except OverflowError:
        _refuse(f"{value} does not fit the 64 bits of NumPy's integers")


def _kind(value: Any) -> str | None:
    """Whether a scalar is a truth value, an integer or a float; None for what is none of 64 bits."""
    if isinstance(value, Deferring):
        return value.kind
    if isinstance(value, bool | np.bool_):
        return "b"
    if isinstance(value, int | np.int64):
        return "i"
    return "f" if isinstance(value, float | Fraction) else None


def _is_numpy(value: Any) -> bool:
    return value.numpy if isinstance(value, Deferring) else isinstance(value, np.generic)


def _cast_number(value: Any, dtype: np.dtype[Any]) -> Any:
    """The number as NumPy casts it; refused where its new type is not one of the three that are modelled."""
    if dtype not in (np.bool_, np.int64, np.float64):
        _refuse(f"numbers as {dtype} are not modelled beside noise; use bool, int or float")
    if isinstance(value, Fraction):
        _refuse(f"the number {value} as {dtype} is rounded")
    return np.asarray(value).astype(dtype)[()]


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
    return _held(bool(value), value.numpy) if isinstance(value, Condition) else value


def decided(value: Any) -> Any:
    """The value decided, as a plain number: what ends up in an output."""
    return _plain(settle(value))


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
    return value.item() if not isinstance(value, Symbolic) and isinstance(value, np.generic) else value


Parts = tuple[Number, Mapping[Symbol, Number], str, bool]


def _parts(value: Any) -> Parts | None:
    """Constant, terms, kind and holding of an operand; None where the operand has to do the operation itself."""
    if isinstance(value, Affine):
        return value.constant, value.terms, value.kind, value.held
    if isinstance(value, Condition):
        value = settle(value)
    kind = None if isinstance(value, Select) else _kind(value)
    if kind is None:
        if not isinstance(value, Symbolic) and isinstance(value, np.generic):
            _refuse(f"numbers of type {value.dtype} are not modelled beside noise; use bool, int or float")
        return None
    if kind == "f" and not np.isfinite(float(value)):
        _refuse(f"{value} with noise is not a finite number")
    return exact(value), {}, kind, isinstance(value, np.generic)


def _joint(first: Affine, kind: str, numpy: bool) -> tuple[str, bool]:
    """The kind of a sum or product, and whether it is a NumPy scalar."""
    return "i" if first.kind == "i" and kind != "f" else "f", first.held or numpy


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
    constant, terms, kind, numpy = parts
    return _affine(first.constant + constant, _sum(first.terms, terms), *_joint(first, kind, numpy))


def _minus(first: Affine, second: Any) -> Any:
    parts = _parts(second)
    if parts is None:
        return NotImplemented
    constant, terms, kind, numpy = parts
    total = _sum(first.terms, {s: -c for s, c in terms.items()})
    return _affine(first.constant - constant, total, *_joint(first, kind, numpy))


def _times(first: Affine, second: Any) -> Any:
    parts = _parts(second)
    if parts is None:
        return NotImplemented
    factor, terms, kind, numpy = parts
    if terms:
        _refuse(f"the product of {_brief(first)} and {_brief(second)} is not affine")
    return _scaled(first, factor, *_joint(first, kind, numpy))


def _scaled(first: Affine, factor: Number, kind: str, numpy: bool) -> Any:
    return _affine(
        first.constant * factor, {s: c * factor for s, c in first.terms.items()} if factor else {}, kind, numpy
    )


def _over(first: Affine, second: Any) -> Any:
    parts = _parts(second)
    if parts is None:
        return NotImplemented
    divisor, terms, _, numpy = parts
    if terms:
        _refuse(f"dividing by {_brief(second)} is not affine")
    if not divisor:
        if first.held or numpy:
            _refuse(f"dividing {_brief(first)} by zero gives an infinity in NumPy")
        raise ZeroDivisionError("division by zero")
    return _scaled(first, Fraction(1) / divisor, "f", first.held or numpy)


def _compare(first: Affine, second: Any, relation: Relation, turned: bool = False) -> Any:
    if not isinstance(second, Symbolic) and isinstance(second, float) and not np.isfinite(second):
        return _against_infinity(first, second, relation, turned)
    if second is None or isinstance(second, str):
        return NotImplemented if relation in (Relation.AT_LEAST, Relation.ABOVE) else relation is Relation.UNEQUAL
    parts = _parts(second)
    if parts is None:
        return NotImplemented
    constant, terms, _, numpy = parts
    sign = -1 if turned else 1
    slack = sign * (first.constant - constant)
    total = _sum(first.terms, {s: -c for s, c in terms.items()})
    numpy = numpy or first.held
    if not total:
        return _held(bool(relation.holds(slack)), numpy)
    # a comparison does not wrap around, so its difference is no integer of NumPy's
    difference = Affine(slack, {s: -c for s, c in total.items()} if turned else total, "f", numpy)
    condition = Condition(difference, relation)
    run = RUN.get()
    if run is not None:
        run.compared(condition)
    return condition


def _against_infinity(first: Affine, bound: float, relation: Relation, turned: bool) -> Any:
    """Noise is finite: how it compares with ±inf (or NaN) is known."""
    holds = bool(relation.holds(bound if turned else -bound))
    return _held(holds, first.held or isinstance(bound, np.generic))


def _brief(value: Any) -> str:
    """The value, named in an error."""
    if isinstance(value, Affine):
        noisy = any(isinstance(symbol, Noise) for symbol in value.terms)
        text = value.text()
        return f"{'noise' if noisy else 'the open value'} ({text if len(text) <= 60 else text[:57] + '…'})"
    return value.text() if isinstance(value, Deferring) else str(value)
