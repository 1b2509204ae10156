"""Affine expressions in noise, open values and functions of these; and what all expressions share.

What operators do with them is in the other modules of this package, which import this one and fill its table.
"""

from __future__ import annotations

import operator
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np

from veridp.kernel import functions
from veridp.kernel.decimals import Written
from veridp.kernel.distributions import Number, exact
from veridp.kernel.expressions.decider import RUN, Decider, Key, current_run, refuse
from veridp.kernel.stand_ins import Symbolic, noting_errors, objects
from veridp.kernel.symbols import Derived, Noise, PureFunction, Symbol, Unknown, drawn_in, sum_text, value_of

# What operators and NumPy's functions do with expressions, by name: each module of this package adds its own.
OPERATIONS: dict[str, Callable[..., Any]] = {}


def operation(name: str) -> Callable[..., Any]:
    """The operator of an expression that another module of this package defines under this name."""

    def applied(self: Affine, *others: Any) -> Any:
        return OPERATIONS[name](self, *others)

    return applied


def remembered(name: str) -> Callable[[Affine, Any], Any]:
    """The operator, which gives the same object again where a run takes a way that an earlier one took.

    Runs share long ways: there the arithmetic is spared, and what follows can tell expressions by their identity.
    """

    @noting_errors
    def applied(self: Affine, other: Any) -> Any:
        run = RUN.get()
        if run is None:
            return OPERATIONS[name](self, other)
        kind = type(other)
        if kind is Affine:
            key: Key = (name, id(self), id(other))
        elif kind is float or kind is int or kind is np.float64 or other is None:
            key = (name, id(self), kind, other)
        else:
            return OPERATIONS[name](self, other)
        known = run.results.get(key)
        if known is None:
            known = run.results[key] = (OPERATIONS[name](self, other), self, other)
        return known[0]

    return applied


def _written_out(run: Decider, value: Deferring, form: str) -> str:
    settled = settle(value)
    return run.write(settled, form) if isinstance(settled, Affine) else format(settled, form)


# NumPy asks any object for these; a float has none of them.
ASKED_BY_NUMPY = frozenset(
    {"dtype", "shape", "ndim", "size", "itemsize", *(n for n in dir(np.float64) if "__arr" in n)}
)


class Deferring(Symbolic):
    """What Affine, Condition and Select share: NumPy's hooks, and refusals."""

    __slots__ = ()

    def refuse(self, what: str) -> NoReturn:
        refuse(what)

    @property
    def numpy(self) -> bool:
        """Whether the plain function would hold a NumPy scalar here, not a Python number."""
        raise NotImplementedError

    @classmethod
    def extreme_index(cls, values: Sequence[Any], largest: bool) -> Any:
        return np.int64(current_run().first_extreme([settled_number(value) for value in values], largest))

    @classmethod
    def extreme(cls, values: Sequence[Any], largest: bool) -> Any:
        return OPERATIONS["extreme"](values, largest)

    @classmethod
    def apply(cls, ufunc: np.ufunc, values: Sequence[Any]) -> Any:
        return OPERATIONS["ufunc"](ufunc, values)

    @classmethod
    def called(cls, function: Any, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        return OPERATIONS["called"](function, arguments, named)

    def settled(self) -> Any:
        """Its value, once the run has decided on it where that is open."""
        return self

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        """What NumPy makes of it as the entry of an array: a NumPy scalar, decided unless it is an expression."""
        value = settle(self)
        if dtype is not None and np.dtype(dtype) != object:
            value = value.cast(np.dtype(dtype)) if isinstance(value, Symbolic) else value
        if not isinstance(value, Symbolic):
            return np.asarray(value, dtype)
        if dtype is not None and np.dtype(dtype) != object:
            refuse(f"{brief(self)} has no plain value, as an array of {np.dtype(dtype)} wants one")
        return objects([value.as_numpy()]).reshape(())

    def __float__(self) -> float:
        refuse(f"{brief(self)} has no plain value, as float(), math functions and dtype=float want one")

    def __int__(self) -> int:
        refuse(f"{brief(self)} has no plain value, as int() wants one")

    def __index__(self) -> int:
        refuse(f"{brief(self)} has no plain value, as an index or a range wants one")

    def __hash__(self) -> int:
        refuse(f"{brief(self)} has no plain value, as a set or a dictionary key wants one")

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
            return value.bit_count if known else lambda: derived(functions.BIT_COUNT, (value,), "i", value.held)
        if name == "item" and self.numpy:
            return self.as_python
        if name == "astype" and self.numpy:
            return lambda dtype: self.cast(np.dtype(dtype))
        if RUN.get() is None or name in ASKED_BY_NUMPY or not hasattr(self.stands_for, name):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        value = settle(self)
        return getattr(value, name) if value is not self else refuse(f"{brief(self)} has no {name!r}")

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

    # ------------------------------------------------------- operators, defined in `arithmetic` and `comparison`

    __add__ = __radd__ = remembered("add")
    __sub__ = remembered("sub")
    __rsub__ = remembered("rsub")
    __mul__ = __rmul__ = remembered("mul")
    __truediv__ = remembered("truediv")
    __rtruediv__ = operation("rtruediv")
    __floordiv__ = operation("floordiv")
    __rfloordiv__ = operation("rfloordiv")
    __mod__ = operation("mod")
    __rmod__ = operation("rmod")
    __pow__ = operation("pow")
    __rpow__ = operation("rpow")
    __abs__ = operation("abs")
    __round__ = operation("round")
    __and__ = __rand__ = operation("and")
    __or__ = __ror__ = operation("or")
    __xor__ = __rxor__ = operation("xor")
    __lshift__ = operation("lshift")
    __rshift__ = operation("rshift")
    __matmul__ = __rlshift__ = __rrshift__ = __rmatmul__ = operation("matmul")

    __ge__ = remembered("ge")
    __gt__ = remembered("gt")
    __le__ = remembered("le")
    __lt__ = remembered("lt")
    __eq__ = remembered("eq")
    __ne__ = remembered("ne")

    __hash__ = Deferring.__hash__

    def __neg__(self) -> Any:
        return checked(Affine(-self.constant, {s: -c for s, c in self.terms.items()}, self.kind, self.held))

    def __pos__(self) -> Affine:
        return self

    def __invert__(self) -> Any:
        return -self - 1 if self.kind == "i" else refuse(f"the bits of {brief(self)} are not affine")

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __floor__(self) -> Any:
        return OPERATIONS["step"](functions.FLOOR, self, "i", False)

    def __ceil__(self) -> Any:
        return -OPERATIONS["step"](functions.FLOOR, -self, "i", False)

    def __trunc__(self) -> Any:
        return OPERATIONS["step"](functions.TRUNC, self, "i", False)

    def __int__(self) -> int:
        whole = OPERATIONS["plain step"](functions.TRUNC, self)
        return super().__int__() if whole is None else int(whole)

    def __bool__(self) -> bool:
        return bool(self != 0)

    def cast(self, dtype: np.dtype[Any]) -> Any:
        if dtype == np.float64 or (dtype == np.int64 and is_integer(self)):
            return checked(Affine(self.constant, self.terms, dtype.kind, numpy=True))
        if dtype == np.int64:
            return OPERATIONS["step"](functions.TRUNC, self, "i", True)
        if dtype.kind == "b":
            return self.as_numpy() != 0
        return refuse(f"{brief(self)} as {dtype} is not affine")

    # ------------------------------------------------------------------------------------------- reading

    def same(self, other: object) -> bool:
        """Whether the other is the same expression (== asks a question of the run)."""
        return isinstance(other, Affine) and self.constant == other.constant and self.terms == other.terms

    @property
    def key(self) -> object:
        """Equal for expressions that are the same."""
        return self.constant, frozenset(self.terms.items())

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


def affine(constant: Number, terms: Mapping[Symbol, Number]) -> Affine | Number:
    """The expression; a plain number where no symbol is left."""
    return Affine(constant, terms) if terms else exact(constant)


def expression(constant: Number, terms: Mapping[Symbol, Number], kind: str, numpy: bool) -> Any:
    """The expression as the plain function would hold it; a plain number where no symbol is left."""
    return checked(Affine(constant, terms, kind, numpy)) if terms else held_as(as_kind(constant, kind), numpy)


def as_kind(number: Number, kind: str) -> Any:
    """The number as a float, if it is to be one and is one without rounding."""
    if kind == "i":
        return number
    try:
        return float(number) if float(number) == number else number
    except OverflowError:
        return number


def checked(value: Affine) -> Affine:
    """The expression; refused where it is an integer of NumPy's that may leave 64 bits."""
    if value.held and value.kind == "i":
        low = high = value.constant
        for symbol, coefficient in value.terms.items():
            ends = [coefficient * end for end in symbol.distribution.reach] if isinstance(symbol, Noise) else [0]
            low, high = low + min(ends), high + max(ends)
        if low < -(2**63) or high >= 2**63:
            refuse(f"{brief(value)} can leave the 64 bits of NumPy's integers")
    return value


OPERATIONS["twin"] = lambda value, _: checked(Affine(value.constant, value.terms, value.kind, numpy=True))
_numpy_twin = remembered("twin")


def held_as(value: Any, numpy: bool) -> Any:
    """The value, as a NumPy scalar if it is to be one."""
    if isinstance(value, Deferring):
        return value.as_numpy() if numpy else value
    if not numpy or isinstance(value, np.generic | Written):
        return value
    kind = kind_of(value)
    try:
        return value if kind is None else {"b": np.bool_, "i": np.int64, "f": np.float64}[kind](value)
    except OverflowError:
        refuse(f"{value} does not fit the 64 bits of NumPy's integers")


def kind_of(value: Any) -> str | None:
    """Whether a scalar is a truth value, an integer or a float; None for what is none of 64 bits."""
    if isinstance(value, Deferring):
        return value.kind
    if isinstance(value, bool | np.bool_):
        return "b"
    if isinstance(value, int | np.int64):
        return "i"
    return "f" if isinstance(value, float | Fraction) else None


def is_numpy(value: Any) -> bool:
    return value.numpy if isinstance(value, Deferring) else isinstance(value, np.generic)


def cast_number(value: Any, dtype: np.dtype[Any]) -> Any:
    """The number as NumPy casts it; refused where its new type is not one of the three that are modelled."""
    if dtype not in (np.bool_, np.int64, np.float64):
        refuse(f"numbers as {dtype} are not modelled beside noise; use bool, int or float")
    if isinstance(value, Fraction):
        refuse(f"the number {value} as {dtype} is rounded")
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
    return value.settled() if isinstance(value, Deferring) else value


def decided(value: Any) -> Any:
    """The value decided, as a plain number: what ends up in an output."""
    return plain(settle(value))


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


def settled_number(value: Any) -> Affine | Number:
    value = settle(value)
    return value if isinstance(value, Affine) else exact(value)


def plain(value: Any) -> Any:
    return value.item() if not isinstance(value, Symbolic) and isinstance(value, np.generic) else value


def derived(function: PureFunction, arguments: Sequence[Any], kind: str, numpy: bool) -> Affine:
    """The function of the arguments, at least one of which is an expression."""
    if not current_run().functions:
        texts = [brief(argument) if isinstance(argument, Affine) else str(argument) for argument in arguments]
        refuse(f"{function.text(texts)} is not affine")
    if kind == "i":
        current_run().made_integer()
    drawn = list(drawn_in(s for argument in arguments if isinstance(argument, Affine) for s in argument.terms))
    if not current_run().adaptive and all(isinstance(symbol, Unknown) and symbol.record.folds for symbol in drawn):
        refuse(f"{function.name} of the data alone is not affine")  # path by path, it may be a plain number
    plain = tuple(argument if isinstance(argument, Affine) else exact(argument) for argument in arguments)
    return Affine(0, {Derived(function, plain): 1}, kind, numpy)


def operated(name: str, first: Any, second: Any) -> Any:
    """The operator of this name on two scalars, of which the first has it, or the second its reflection."""
    if isinstance(first, Symbolic):
        answer = getattr(first, f"__{name}__")(second)
        if answer is not NotImplemented:
            return answer
    if isinstance(second, Symbolic):
        return getattr(second, f"__{REFLECTED.get(name, 'r' + name)}__")(first)
    return getattr(operator, name if name not in ("and", "or") else f"{name}_")(first, second)


REFLECTED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}


def brief(value: Any) -> str:
    """The value, named in an error."""
    if isinstance(value, Affine):
        noisy = any(isinstance(symbol, Noise) for symbol in value.terms)
        text = value.text()
        return f"{'noise' if noisy else 'the open value'} ({text if len(text) <= 60 else text[:57] + '…'})"
    return value.text() if isinstance(value, Deferring) else str(value)
