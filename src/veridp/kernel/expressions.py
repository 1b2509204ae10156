"""Affine expressions in noise, open values and functions of these, the conditions they make, and undecided choices.

All three are plain values. Nothing is decided until a condition is asked for its truth; then the run under way says
which way to go. Nothing is rounded: coefficients are exact rationals, and strict and weak inequalities stay apart.
"""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from fractions import Fraction
from functools import lru_cache
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from veridp.errors import NotAffine
from veridp.kernel import functions
from veridp.kernel.decimals import Written
from veridp.kernel.distributions import Number, exact
from veridp.kernel.piecewise import MAX_PIECES, MAX_POWER, Piece, Pieces, chosen, joined, plus, times
from veridp.kernel.site import here
from veridp.kernel.stand_ins import Symbolic, Vector, first_symbolic, noting_errors, objects
from veridp.kernel.symbols import (
    Derived,
    Noise,
    PureFunction,
    Relation,
    Symbol,
    Unknown,
    drawn_in,
    has_no_atoms,
    sum_text,
    value_of,
)
from veridp.kernel.weights import Weight, weight_of

Key = tuple[object, ...]  # an operation, and its operands: expressions by identity, numbers by value


class Decider(ABC):
    """What a run offers to the symbols that live in it."""

    results: dict[Key, tuple[Any, ...]]  # what operations gave here in earlier runs; the operands, kept alive, follow
    functions: bool  # whether expressions may hold functions that are not affine
    adaptive = False  # whether data with noise are taken for released numbers, see `veridp.kernel.releases`

    def summed(self, total: Affine) -> Affine:
        """What an adaptive run makes of a sum."""
        return total

    @abstractmethod
    def decide(self, condition: Condition) -> bool:
        """Which way to go at a branch."""

    def compared(self, condition: Condition) -> None:  # noqa: B027
        """A comparison was made; whether its truth is ever asked for is another matter."""

    @abstractmethod
    def first_extreme(self, values: Sequence[Affine | Number], largest: bool) -> int:
        """Which of the values is to be the first largest (or smallest)."""

    def write(self, number: Affine, form: str) -> str:
        """What is written into a text for the number, in this format."""
        self.refuse("noise turned into text is not affine")

    @abstractmethod
    def refuse(self, what: str) -> NoReturn:
        """Stop: the mechanism did what symbols cannot express."""


RUN: ContextVar[Decider | None] = ContextVar("RUN", default=None)


def _written_out(run: Decider, value: Deferring, form: str) -> str:
    settled = settle(value)
    return run.write(settled, form) if isinstance(settled, Affine) else format(settled, form)


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
        found = bounded_extreme(values, largest) if _run().adaptive else _folded_extreme(values, largest)
        if found is not None:
            return found
        settled = [settle(value) for value in values]
        return settled[_run().first_extreme([_settled_number(value) for value in settled], largest)]

    @classmethod
    def apply(cls, ufunc: np.ufunc, values: Sequence[Any]) -> Any:
        held = [_held(value, numpy=True) for value in values]
        kinds = {_kind(value) for value in held}
        if ufunc in (np.isfinite, np.isnan, np.isinf):
            return _is_finite(held[0], ufunc)
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
        if ufunc in _STEPS:
            settled = settle(held[0])
            if is_integer(settled) and ufunc is not np.rint:
                return settled
            return _STEPS[ufunc](settled).cast(np.dtype(np.float64))
        if ufunc in (np.absolute, np.fabs):
            return abs(held[0]) if ufunc is np.absolute else abs(held[0]).cast(np.dtype(np.float64))
        if ufunc in _UNARY:
            return _UNARY[ufunc](held[0])
        if ufunc in _BINARY:
            return _operated(_BINARY[ufunc], *held)
        return numpy_function(ufunc, [settle(value) for value in held])

    @classmethod
    def called(cls, function: Any, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        holes: list[Affine] = []

        def form(value: Any) -> Any:
            if isinstance(value, Symbolic):
                value = settle(value)
                if isinstance(value, Affine):
                    holes.append(value)
                    return functions.HOLE
            if isinstance(value, np.ndarray):
                value = value.tolist() if value.ndim == 0 else list(value)
            if isinstance(value, list | tuple):
                return [form(entry) for entry in value]
            return value.item() if isinstance(value, np.generic) else value

        forms, names = [form(value) for value in arguments], {name: form(value) for name, value in named.items()}
        probe = functions.entry_of_call(function, forms, names, slice(None)).compute(*range(1, len(holes) + 1))
        shape = np.shape(functions.entry_of_call(function, forms, names, ...).compute(*range(1, len(holes) + 1)))
        entries = [
            _derived(functions.entry_of_call(function, forms, names, place), holes, "f", True)
            for place in range(np.size(probe))
        ]
        return Vector.of(entries, shape) if shape else entries[0]

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
        run = RUN.get()
        return self.text() if run is None else _written_out(run, self, "")

    __repr__ = __str__

    def __format__(self, form: str) -> str:
        run = RUN.get()
        return self.text() if run is None else _written_out(run, self, form)

    def __getattr__(self, name: str) -> Any:
        if name == "bit_count" and self.kind == "i":
            value = settle(self)
            known = not isinstance(value, Affine)
            return value.bit_count if known else lambda: _derived(functions.BIT_COUNT, (value,), "i", value.held)
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
        parts = _parts(other)
        return NotImplemented if parts is None else _quotient(other, self, parts)

    def __neg__(self) -> Any:
        return _checked(Affine(-self.constant, {s: -c for s, c in self.terms.items()}, self.kind, self.held))

    def __pos__(self) -> Affine:
        return self

    def __invert__(self) -> Any:
        return -self - 1 if self.kind == "i" else _refuse(f"the bits of {_brief(self)} are not affine")

    def __and__(self, other: Any) -> Any:
        return _on_bits(functions.BIT_AND, self, other)

    def __or__(self, other: Any) -> Any:
        return _on_bits(functions.BIT_OR, self, other)

    def __xor__(self, other: Any) -> Any:
        return _on_bits(functions.BIT_XOR, self, other)

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __lshift__(self, by: Any) -> Any:
        return self * 2**by if self.kind == "i" and type(by) is int else self.__matmul__(by)

    def __rshift__(self, by: Any) -> Any:
        return self // 2**by if self.kind == "i" and type(by) is int else self.__matmul__(by)

    def __matmul__(self, other: Any) -> Any:
        _refuse(f"the bits of {_brief(self)} are not affine")

    __rlshift__ = __rrshift__ = __rmatmul__ = __matmul__

    def __abs__(self) -> Any:
        size = None if _record_of(self) is None else folded(Select.of(self >= 0, self, -self))
        return (self if self >= 0 else -self) if size is None else size

    def __pow__(self, exponent: Any) -> Any:
        if type(exponent) is int and exponent == 1:
            return self
        plain = type(exponent) in (int, float) or isinstance(exponent, np.number)
        if plain and exponent in range(2, MAX_POWER + 1) and _record_of(self) is not None:
            return self * self ** (int(exponent) - 1)
        return NotImplemented if _parts(exponent) is None else _power(self, settle(exponent))

    def __rpow__(self, base: Any) -> Any:
        return NotImplemented if _parts(base) is None else _power(settle(base), self)

    def __floordiv__(self, other: Any) -> Any:
        parts = _parts(other)
        if parts is None:
            return NotImplemented
        return _floor_of(self / other, *_joint(self, parts[2], parts[3]))

    def __rfloordiv__(self, other: Any) -> Any:
        parts = _parts(other)
        return NotImplemented if parts is None else _floor_of(other / self, *_joint(self, parts[2], parts[3]))

    def __mod__(self, other: Any) -> Any:
        floored = self // other
        return NotImplemented if floored is NotImplemented else self - other * floored

    def __rmod__(self, other: Any) -> Any:
        floored = other // self
        return NotImplemented if floored is NotImplemented else other - floored * self

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __round__(self, digits: int | None = None) -> Any:
        if digits is None or self.kind == "i":
            return _step(functions.ROUND, self, "i" if digits is None else self.kind, self.held and digits is not None)
        if type(digits) is not int:
            _refuse(f"round({_brief(self)}, {digits!r}) is not modelled; give the digits as an integer")
        return _rounded(self, digits)

    def __floor__(self) -> Any:
        return _step(functions.FLOOR, self, "i", False)

    def __ceil__(self) -> Any:
        return -_step(functions.FLOOR, -self, "i", False)

    def __trunc__(self) -> Any:
        return _step(functions.TRUNC, self, "i", False)

    def __int__(self) -> int:
        whole = _step_of_record(functions.TRUNC, self, plain=True)
        return super().__int__() if whole is None else int(whole)

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
        if dtype == np.int64:
            return _step(functions.TRUNC, self, "i", True)
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
        if any(isinstance(symbol, Derived) for symbol in self.terms):
            return False  # a function of noise may be constant, or cancel the noise beside it
        return any(isinstance(symbol, Noise) and not symbol.distribution.integer for symbol in self.terms)

    @property
    def functions(self) -> list[Derived]:
        """The functions among its symbols."""
        return [symbol for symbol in self.terms if isinstance(symbol, Derived)]

    @property
    def stands_for(self) -> type:
        if self.held:
            return np.int64 if self.kind == "i" else np.float64
        return int if self.kind == "i" else float

    def evaluate(self, values: Mapping[Symbol, Any]) -> Any:
        """Its value where the symbols have these values (numbers or arrays)."""
        return float(self.constant) + sum(float(c) * value_of(symbol, values) for symbol, c in self.terms.items())

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
            number = None if name in _BITS else folded(self)
            if number is not None:
                return _operated(name, *order(number))
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
    np.square: lambda value: value * value,
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


def unknowns(name: str, count: int, ends: tuple[Number, Number] | None = None, folds: bool = False) -> list[Affine]:
    """Values left open, for a mechanism's data: name[0], name[1], …; all of them between the ends, if there are any.

    With `folds`, what one of them decides by itself, and is computed with, becomes a function of it.
    """
    return [Affine(0, {Unknown(f"{name}[{index}]", ends, folds): 1}) for index in range(count)]


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
        return all(c.denominator == 1 for c in numbers) and all(map(is_whole, value.terms))
    return isinstance(value, int | np.integer)


def is_whole(symbol: Symbol) -> bool:
    """Whether the symbol can only be an integer."""
    if isinstance(symbol, Derived):
        return symbol.function.whole
    return isinstance(symbol, Noise) and symbol.distribution.integer


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
        number = folded(value)
        if isinstance(number, Affine):
            return _parts(number)
        value = settle(value) if number is None else number
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
    return _summed(_affine(first.constant + constant, _sum(first.terms, terms), *_joint(first, kind, numpy)))


def _minus(first: Affine, second: Any) -> Any:
    parts = _parts(second)
    if parts is None:
        return NotImplemented
    constant, terms, kind, numpy = parts
    total = _sum(first.terms, {s: -c for s, c in terms.items()})
    return _summed(_affine(first.constant - constant, total, *_joint(first, kind, numpy)))


def _summed(total: Any) -> Any:
    run = RUN.get()
    return run.summed(total) if run is not None and run.adaptive and isinstance(total, Affine) else total


def _times(first: Affine, second: Any) -> Any:
    parts = _parts(second)
    if parts is None:
        return NotImplemented
    factor, terms, kind, numpy = parts
    if terms:
        record = _record_of(first, second)
        product = None if record is None else _product(record, record.ends, _linear(first), _linear(second))
        if product is not None:
            return _affine(product[0], dict(product[1]), *_joint(first, kind, numpy))
        return _derived(functions.PRODUCT, (first, second), *_joint(first, kind, numpy))
    return _scaled(first, factor, *_joint(first, kind, numpy))


def is_of_record(value: Affine) -> bool:
    """Whether it is a function of one record of an interval, and of nothing else."""
    return _record_of(value) is not None


def _record_of(*values: Any) -> Unknown | None:
    """The record of an interval that all of these are functions of, and none is a function of anything else."""
    found: set[Unknown] = set()
    for value in values:
        if isinstance(value, Condition):
            value = value.slack
        if not isinstance(value, Affine):
            if isinstance(value, Symbolic) or _kind(value) is None:
                return None
            continue
        for symbol in value.terms:
            if not isinstance(symbol, Unknown) or symbol.ends is None:
                return None
            found.add(symbol.record)
    return found.pop() if len(found) == 1 else None


Linear = tuple[Number, tuple[tuple[Symbol, Number], ...]]  # a constant, and terms


def _linear(value: Any) -> Linear:
    return (value.constant, tuple(value.terms.items())) if isinstance(value, Affine) else (exact(value), ())


def function_of(expression: Affine) -> Pieces:
    """The expression as a function of the one record that it has."""
    record = _record_of(expression)
    if record is None:
        raise TypeError(f"{expression.text()} is not a function of one record of an interval")
    return _function(_linear(expression), record)


def _function(value: Linear, record: Unknown) -> Pieces:
    """The value as a function of the record."""
    constant, terms = value
    total: Pieces = tuple(Piece(*piece.bounds, {0: constant} if constant else {}) for piece in record.function)
    for symbol, c in terms:
        if isinstance(symbol, Unknown):
            scaled = [Piece(*p.bounds, {power: a * c for power, a in p.terms.items()}) for p in symbol.function]
            total = joined(total, scaled, plus)
    return total


@lru_cache(maxsize=4096)
def _product(record: Unknown, ends: object, first: Linear, second: Linear) -> Linear | None:
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


def _step_of_record(function: PureFunction, value: Affine, plain: bool = False) -> Any:
    """A step function of a function of a record; None for other values.

    It is a function of the record again, or where that is not to be, or it has to be plain, a number that the run
    decides.
    """
    record = _record_of(value)
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
    if isinstance(value, Condition):
        return _folded_choice(value, 1, 0, "i", value.numpy)
    if not isinstance(value, Select):
        return value
    condition, sides = value.condition, [folded(side) for side in (value.then, value.other)]
    if not isinstance(condition, Condition) or any(side is None or _kind(side) is None for side in sides):
        return None
    return _folded_choice(condition, sides[0], sides[1], value.kind.replace("b", "i"), value.numpy)


def _folded_extreme(values: Sequence[Any], largest: bool) -> Any:
    """The larger (or smaller) of functions of one record as another; None where they are not such."""
    known = [folded(value) for value in values]
    if any(value is None for value in known) or _record_of(*known) is None:
        return None
    found = known[0]
    for value in known[1:]:
        first = _operated("ge" if largest else "le", found, value)
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
    if (found := _folded_extreme(values, largest)) is not None:
        return found
    open_yet = [value for value in values if isinstance(value, Affine)]
    constants = [value for value in values if not isinstance(value, Symbolic)]
    if len(open_yet) != 1 or len(constants) != len(values) - 1 or any(_kind(c) not in ("i", "f") for c in constants):
        return None
    (value,) = open_yet
    if not any(isinstance(s, Unknown) for s in drawn_in(value.terms)):
        return None
    level = exact((max if largest else min)(constants))
    low, high = range_of(value)
    made = functions.at_least(level, high) if largest else functions.at_most(level, low)
    return _derived(made, (value,), value.kind, value.held)


def range_of(expression: Affine) -> tuple[Number | None, Number | None]:
    """Numbers that its values lie between, as far as the ranges of open values and functions tell; else None."""
    low: Number | None = expression.constant
    high: Number | None = expression.constant
    for symbol, c in expression.terms.items():
        ends: tuple[Number | None, Number | None] = (None, None)
        if isinstance(symbol, Unknown) and symbol.ends is not None:
            ends = symbol.ends
        elif isinstance(symbol, Derived):
            ends = symbol.function.least, symbol.function.largest
        first, last = ends if c > 0 else ends[::-1]
        low = None if low is None or first is None else low + c * first
        high = None if high is None or last is None else high + c * last
    return low, high


def _folded_choice(condition: Condition, then: Any, other: Any, kind: str, numpy: bool) -> Any:
    record = _record_of(condition, then, other)
    if record is None or not record.folds:
        return None
    found = _choice(record, record.ends, condition.relation, *map(_linear, (condition.slack, then, other)))
    return None if found is None else _affine(found[0], dict(found[1]), kind, numpy)


def _scaled(first: Affine, factor: Number, kind: str, numpy: bool) -> Any:
    return _affine(
        first.constant * factor, {s: c * factor for s, c in first.terms.items()} if factor else {}, kind, numpy
    )


def _over(first: Affine, second: Any) -> Any:
    parts = _parts(second)
    if parts is None:
        return NotImplemented
    divisor, terms, kind, numpy = parts
    if terms:
        return _quotient(first, second, (first.constant, first.terms, first.kind, first.held))
    if not divisor:
        if first.held or numpy:
            _refuse(f"dividing {_brief(first)} by zero gives an infinity in NumPy")
        raise ZeroDivisionError("division by zero" if first.kind == kind == "i" else "float division by zero")
    return _scaled(first, Fraction(1) / divisor, "f", first.held or numpy)


# ------------------------------------------------------------------------------------------------------- functions


def _derived(function: PureFunction, arguments: Sequence[Any], kind: str, numpy: bool) -> Affine:
    """The function of the arguments, at least one of which is an expression."""
    if not _run().functions:
        texts = [_brief(argument) if isinstance(argument, Affine) else str(argument) for argument in arguments]
        _refuse(f"{function.text(texts)} is not affine")
    drawn = list(drawn_in(s for argument in arguments if isinstance(argument, Affine) for s in argument.terms))
    if not _run().adaptive and all(isinstance(symbol, Unknown) and symbol.record.folds for symbol in drawn):
        _refuse(f"{function.name} of the data alone is not affine")  # path by path, it may be a plain number
    plain = tuple(argument if isinstance(argument, Affine) else exact(argument) for argument in arguments)
    return Affine(0, {Derived(function, plain): 1}, kind, numpy)


def _step(function: PureFunction, value: Affine, kind: str, numpy: bool) -> Any:
    """A step function, which leaves integers as they are."""
    found = value if is_integer(value) else _step_of_record(function, value)
    if isinstance(found, Affine):
        return Affine(found.constant, found.terms, kind, numpy)
    if found is not None:
        return _held(float(found) if kind == "f" else int(found), numpy)
    return _derived(function, (value,), kind, numpy)


def _on_bits(function: PureFunction, first: Affine, second: Any) -> Any:
    """A function of the bits of two integers."""
    parts = _parts(second)
    if parts is None or first.kind != "i" or parts[2] != "i":
        _refuse(f"the bits of {_brief(first)} are not affine")
    value = _derived(function, (first, second), "i", first.held or parts[3])
    is_bit = function is functions.BIT_AND and not parts[1] and int(parts[0]).bit_count() == 1 and parts[0] > 0
    return Select.of(value > 0, _held(int(parts[0]), value.held), _held(0, value.held)) if is_bit else value


def _rounded(value: Affine, digits: int) -> Any:
    """A float rounded to so many decimals: halves, which have no probability, aside."""
    if is_integer(value) and digits >= 0:
        return value
    scale = Fraction(10) ** digits
    whole = _step(functions.ROUND, _scaled(value, scale, "f", value.held), "f", value.held)
    return _scaled(whole, 1 / scale, "f", value.held)


def _floor_of(value: Any, kind: str, numpy: bool) -> Any:
    if isinstance(value, Affine):
        return _step(functions.FLOOR, value, kind, numpy)
    return _held(_as_kind(int(np.floor(value)), kind), numpy)


_STEPS: dict[np.ufunc, Callable[[Affine], Any]] = {
    np.floor: lambda value: _step(functions.FLOOR, value, "f", True),
    np.ceil: lambda value: -_step(functions.FLOOR, -value, "f", True),
    np.rint: lambda value: _step(functions.ROUND, value, "f", True),
    np.trunc: lambda value: _step(functions.TRUNC, value, "f", True),
}
_FROM_ZERO_ON = (np.log, np.log2, np.log10, np.sqrt)  # from -1 on: log1p
_OF_TWO = {np.arctan2: functions.ARCTAN2, np.hypot: functions.HYPOT}


def numpy_function(ufunc: np.ufunc, values: Sequence[Any]) -> Any:
    """The function of NumPy on scalars that are decided, of which at least one is an expression."""
    if ufunc is np.sign:
        sign = 1 if values[0] > 0 else -1 if values[0] < 0 else 0
        return np.float64(sign) if values[0].kind == "f" else np.int64(sign)
    if ufunc is np.square:
        return _power(values[0], 2)
    if ufunc is np.reciprocal and values[0].kind == "f":
        return 1.0 / values[0]
    if ufunc in _OF_TWO:
        return _derived(_OF_TWO[ufunc], values, "f", True)
    if ufunc not in functions.UNARY:
        _refuse(f"np.{ufunc.__name__} of {_brief(first_symbolic(values))} is not modelled")
    (value,) = values
    if ufunc in _FROM_ZERO_ON or ufunc is np.log1p:
        lowest = -1 if ufunc is np.log1p else 0
        if value < lowest:
            return np.float64(np.nan)
        if ufunc is not np.sqrt and value == lowest:
            return np.float64(-np.inf)
    return _derived(functions.UNARY[ufunc], values, "f", True)


def _is_finite(value: Any, ufunc: np.ufunc) -> Any:
    """Whether it is finite (or infinite, or NaN): noise is, and what was computed from it may not be."""
    value = settle(value)
    if not isinstance(value, Affine):
        return ufunc(value)
    if not value.functions:
        return np.bool_(ufunc is np.isfinite)
    found = PureFunction(f"{ufunc.__name__}(·)", ufunc, whole=True)
    return _held(_derived(found, (value,), "i", False) >= 1, numpy=True)


def _quotient(first: Any, second: Affine, parts: Parts) -> Any:
    """The first by the second, which is no constant; the parts are the first's."""
    constant, terms, kind, numpy = parts
    numpy = numpy or second.held
    if not numpy and not _is_positive(second) and second == 0:  # NumPy's quotient is infinite then
        raise ZeroDivisionError("division by zero" if kind == second.kind == "i" else "float division by zero")
    if terms:
        return _derived(functions.QUOTIENT, (settle(first), second), "f", numpy)
    inverse = _derived(functions.RECIPROCAL, (second,), "f", numpy)
    return _scaled(inverse, constant, "f", numpy)


def _is_positive(value: Affine) -> bool:
    """Whether it is a sum of positive functions, such as exponentials."""
    if value.constant < 0:
        return False
    for symbol, coefficient in value.terms.items():
        rising = symbol.function.at_least if isinstance(symbol, Derived) else None
        if coefficient < 0 or rising is None or rising(Fraction(0), True).bound != -np.inf:
            return False
    return True


def _power(base: Any, exponent: Any) -> Any:
    """base ** exponent, one of which is an expression at least."""
    kinds = {_kind(base), _kind(exponent)}
    numpy = _is_numpy(base) or _is_numpy(exponent)
    if isinstance(base, Affine) and not isinstance(exponent, Affine):
        if exponent in (0, 1):
            kind = "i" if kinds == {"i"} else "f"
            return _affine(base.constant, base.terms, kind, numpy) if exponent else _held(_as_kind(1, kind), numpy)
        if kinds == {"i"} and exponent < 0:
            _refuse(f"a negative power of an integer, {_brief(base)}, is not modelled")
        if int(exponent) == exponent and exponent > 0:
            kind, whole = "i" if kinds == {"i"} else "f", int(exponent)
            if whole % 2:
                return _derived(functions.odd_power(whole), (base,), kind, numpy)
            return _derived(functions.even_power(whole), (base,), kind, numpy)
        if int(exponent) == exponent:
            return 1 / _power(base, -exponent)
        if not base >= 0:
            if numpy:
                return np.float64(np.nan)
            _refuse(f"a fractional power of a negative number, {_brief(base)}, is a complex number")
        if exponent > 0:
            return _derived(functions.power_of_positive(float(exponent)), (base,), "f", numpy)
    if not isinstance(base, Affine) and 0 < base < 1:
        return _power(1 / base, -exponent)
    if not isinstance(base, Affine) and base > 1:
        if not numpy and exponent > functions.LARGEST_EXPONENT / math.log(base):
            raise OverflowError(34, "Numerical result out of range")
        return _derived(functions.exponential(float(base)), (exponent,), "f", numpy)
    if kinds == {"i"} or (not numpy and not base > 0):
        _refuse(f"the power {_brief(base)} ** {_brief(exponent)} is not modelled")
    return _derived(functions.POWER, (base, exponent), "f", numpy)


def in_arguments(condition: Condition) -> list[Condition] | bool | None:
    """The same condition on the argument of a function that nowhere falls; None where it is not on one such alone.

    Its truth where that is known. What always holds of several conditions is left out.
    """
    slack = condition.slack
    if len(slack.terms) != 1:
        return None
    ((symbol, coefficient),) = slack.terms.items()
    if not isinstance(symbol, Derived) or symbol.function.at_least is None or len(symbol.arguments) != 1:
        return None
    if condition.relation is Relation.UNEQUAL:
        return None
    level, argument = -Fraction(slack.constant) / coefficient, symbol.expressions[0]
    above, below = coefficient > 0, coefficient < 0
    if condition.relation is Relation.EQUAL:
        above = below = True
    strict = condition.relation is Relation.ABOVE
    found = []
    if above:
        found.append((symbol.function.at_least(level, strict), False))
    if below:  # u <= level is not u > level, and u < level is not u >= level
        found.append((symbol.function.at_least(level, not strict), True))
    conditions: list[Condition] = []
    for (bound, excluded), negated in found:
        if bound in (np.inf, -np.inf):
            if (bound < 0) is negated:
                return False
            continue
        reached = argument - exact(Fraction(bound))
        each = Condition(
            Affine(reached.constant, reached.terms, "f", reached.held),
            Relation.ABOVE if excluded else Relation.AT_LEAST,
        )
        inner = each.negated() if negated else each
        further = in_arguments(inner)
        if further is False:
            return False
        conditions += [inner] if further is None else [] if further is True else further
    return conditions or True


def _without_sign(condition: Condition) -> Condition:
    """The condition, where it is on a function that does not see signs: on its argument without the sign."""
    if len(condition.slack.terms) != 1:
        return condition
    ((symbol, coefficient),) = condition.slack.terms.items()
    if not isinstance(symbol, Derived) or symbol.function.from_zero is None:
        return condition
    size = Derived(symbol.function.from_zero, (abs(symbol.expressions[0]),))
    return Condition(Affine(condition.slack.constant, {size: coefficient}, "f", condition.numpy), condition.relation)


def _by_factors(condition: Condition) -> Any:
    """The condition, where it asks for the sign of a product or quotient: by the sign of its last factor, decided now.

    A quotient whose divisor may be 0 is left as it is: NumPy's is infinite there, or no number.
    """
    if condition.slack.constant or len(condition.slack.terms) != 1:
        return condition
    ((symbol, coefficient),) = condition.slack.terms.items()
    if not isinstance(symbol, Derived) or symbol.function not in _SIGNED:
        return condition
    *firsts, last = symbol.arguments
    if symbol.function is not functions.PRODUCT and not has_no_atoms(last.terms) and not _is_positive(last):
        return condition
    first: Any = firsts[0] if firsts else 1
    if condition.relation is Relation.EQUAL or condition.relation is Relation.UNEQUAL:
        zero = first == 0 or (symbol.function is functions.PRODUCT and bool(last == 0))
        return zero if condition.relation is Relation.EQUAL else not zero
    sign = 1 if last > 0 else -1 if last < 0 else 0
    value = first * exact(coefficient * sign)
    return value >= 0 if condition.relation is Relation.AT_LEAST else value > 0


_SIGNED = (functions.PRODUCT, functions.QUOTIENT, functions.RECIPROCAL)


def _weighed(condition: Condition) -> Condition | bool:
    """The condition, on positive functions of open values: decided where they have one sign, else affine if it can be.

    Noise that they multiply is compared with their quotient instead; and where they cancel, with a number.
    """
    slack = condition.slack
    noisy = {symbol: c for symbol, c in slack.terms.items() if _is_noisy(symbol)}
    if not noisy:
        weight = weight_of(slack)
        known = None if weight is None else sign_of(Weight.of(weight), condition.relation)
        return condition if known is None else known
    rest = affine(slack.constant, {symbol: c for symbol, c in slack.terms.items() if symbol not in noisy})
    ((symbol, coefficient), *others) = noisy.items()
    if isinstance(symbol, Derived):
        times = symbol.function == functions.PRODUCT
        if others or not (times or symbol.function == functions.QUOTIENT):
            return condition
        arguments: tuple[Any, ...] = symbol.arguments
        noise, factor = arguments if not times or _has_noise(arguments[0]) else arguments[::-1]
        weight = weight_of(factor)
        if not isinstance(noise, Affine) or not isinstance(weight, Weight) or weight.sign != 1:
            return condition
        ratio = (rest / factor if times else rest * factor) if isinstance(rest, Affine) or rest else 0
        moved = Condition(noise * coefficient + ratio, condition.relation)
        return _weighed(moved) if moved.slack.functions else moved
    weight = weight_of(rest)
    if isinstance(rest, Affine) and weight is not None and not isinstance(weight, Weight):
        return Condition(Affine(weight, noisy), condition.relation)
    return condition


def _is_noisy(symbol: Symbol) -> bool:
    return any(isinstance(drawn, Noise) for drawn in drawn_in([symbol]))


def _has_noise(value: Any) -> bool:
    return isinstance(value, Affine) and any(map(_is_noisy, value.terms))


def sign_of(weight: Weight, relation: Relation) -> Condition | bool | None:
    """How the weight stands to 0: for all data, or where a condition holds; None where that is not known."""
    if weight.sign is not None:
        return bool(relation.holds(weight.sign))
    terms = weight.numerator.terms
    if len(terms) != 2:
        return None
    (above, most), (below, least) = sorted(terms.items(), key=operator.itemgetter(1), reverse=True)
    exponent: dict[Any, Number] = dict(above)  # c·e^a - d·e^b is above 0 just where a - b + ln(c/d) is
    for symbol, coefficient in below:
        exponent[symbol] = exponent.get(symbol, 0) - coefficient
    constant = exponent.pop(None, 0)
    if most != -least:
        constant += Fraction(math.log(most)) - Fraction(math.log(-least))
    compared = affine(exact(constant), {symbol: exact(c) for symbol, c in exponent.items() if c})
    return Condition(compared, relation) if isinstance(compared, Affine) else bool(relation.holds(compared))


# ------------------------------------------------------------------------------------------------------ comparisons


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
    if difference.functions:
        weighed = _weighed(condition)
        if weighed is True or weighed is False:  # a condition passes for a truth value
            return _held(weighed, numpy)
        if weighed is condition:
            by_factors = _by_factors(condition)
            if by_factors is not condition:
                return _held(by_factors, numpy)
        condition = Condition(Affine(weighed.slack.constant, weighed.slack.terms, "f", numpy), weighed.relation)
    if relation in (Relation.AT_LEAST, Relation.ABOVE):
        rewritten = in_arguments(_without_sign(condition))
        if isinstance(rewritten, bool):
            return _held(rewritten, numpy)
        if rewritten is not None and len(rewritten) == 1:
            asked = rewritten[0].slack
            condition = Condition(Affine(asked.constant, asked.terms, "f", numpy), rewritten[0].relation)
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
