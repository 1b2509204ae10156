"""A number that stands for many: one value per row of a batch, with the arithmetic that each row would have alone."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from veridp.kernel.stand_ins import Symbolic
from veridp.sampling.tape import Tape, TapeEvent, Values

PLAIN = (bool, int, float)
NUMBERS = (bool, int, float, np.number, np.bool_)
FLOATS = np.dtype(np.float64)
WIDE = frozenset(map(np.dtype, (np.bool_, np.int64, np.float64)))
EXACT = 2**53  # integers up to this are floats without rounding
MAX_SAFE_INTEGER = 2.0**62  # integers past this may not fit 64 bits; Python's would go on


def _operators(ufunc: np.ufunc) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
    """An operator and its reflection."""
    return (lambda self, other: _operate(ufunc, (self, other))), (lambda self, other: _operate(ufunc, (other, self)))


def _comparison(ufunc: np.ufunc) -> Callable[[Any, Any], Any]:
    return lambda self, other: _compare(ufunc, (self, other))


def _unary(ufunc: np.ufunc) -> Callable[[Any], Any]:
    return lambda self: _operate(ufunc, (self,))


class Batch(Symbolic):
    """One number or truth value per row.

    `plain` tells whether the mechanism, run alone, would hold a Python number here rather than a NumPy scalar: the two
    differ in sums of truth values, in `~`, in division by zero, and in the size of integers.
    """

    __slots__ = ("_values", "_version", "place", "plain", "tape")

    def __init__(self, tape: Tape, place: int, values: Values, version: int, plain: bool) -> None:
        self.tape = tape
        self.place = place
        self.plain = plain
        self._values = values
        self._version = version

    @classmethod
    def computed(cls, tape: Tape, key: Any, make: Callable[[], Values], plain: bool) -> Batch:
        """The batch of the next event of the tape."""
        place, event = tape.compute(key, make)
        return cls(tape, place, event.outcome, event.version, plain)

    @property
    def values(self) -> Values:
        """The values of the present rows."""
        if self._version != self.tape.version:
            self._values = self.tape.restrict(self.place, self._values, self._version)
            self._version = self.tape.version
        return self._values

    def at(self, places: Sequence[int]) -> Any:
        """The value of one row, given its place after each number of splits, as the mechanism alone would hold it."""
        value = self._values[places[self._version]]
        return value.item() if self.plain else value

    @property
    def kind(self) -> str:
        kind = self._values.dtype.kind
        return "i" if kind == "u" else kind

    def as_numpy(self) -> Batch:
        """The same values, held as NumPy scalars."""
        return Batch(self.tape, self.place, self._values, self._version, plain=False)

    # ------------------------------------------------------------------------------------------ decisions

    def __bool__(self) -> bool:
        return self.tape.truth(self.place, lambda: self.values.astype(np.bool_, copy=False))

    def settled(self, purpose: str) -> Any:
        """One plain number: the rows are split by their value."""
        return self.tape.settle(self.place, lambda: self.values, purpose)

    def __index__(self) -> int:
        if self.kind == "f":
            raise TypeError("'float' object cannot be interpreted as an integer")
        return int(self.settled("an index"))

    def __int__(self) -> int:
        return int((self.__trunc__() if self.kind == "f" else self).settled("an int"))

    def __float__(self) -> float:
        return float(self.settled("a float, as math.exp, float() and arrays of floats need (np.exp does not)"))

    def __hash__(self) -> int:
        return hash(self.settled("a key of a dict or a set"))

    def __str__(self) -> str:
        return str(self.settled("a string"))

    def __format__(self, form: str) -> str:
        return format(self.settled("a string"), form)

    def __repr__(self) -> str:
        return f"<{self.tape.size} rows of a batch>" if self.tape.halted else repr(self.settled("a string"))

    # --------------------------------------------------------------------------------------- arithmetic

    __add__, __radd__ = _operators(np.add)
    __sub__, __rsub__ = _operators(np.subtract)
    __mul__, __rmul__ = _operators(np.multiply)
    __truediv__, __rtruediv__ = _operators(np.divide)
    __floordiv__, __rfloordiv__ = _operators(np.floor_divide)
    __mod__, __rmod__ = _operators(np.remainder)
    __pow__, __rpow__ = _operators(np.power)
    __and__, __rand__ = _operators(np.bitwise_and)
    __or__, __ror__ = _operators(np.bitwise_or)
    __xor__, __rxor__ = _operators(np.bitwise_xor)
    __lshift__, __rlshift__ = _operators(np.left_shift)
    __rshift__, __rrshift__ = _operators(np.right_shift)
    __lt__, __le__ = _comparison(np.less), _comparison(np.less_equal)
    __gt__, __ge__ = _comparison(np.greater), _comparison(np.greater_equal)
    __eq__, __ne__ = _comparison(np.equal), _comparison(np.not_equal)
    __neg__, __pos__ = _unary(np.negative), _unary(np.positive)
    __abs__, __invert__ = _unary(np.absolute), _unary(np.invert)

    def __round__(self, digits: int | None = None) -> Batch:
        if digits is None:
            return self._integer(np.rint)
        if self.plain:  # Python rounds the decimal digits, NumPy a product
            return self._mapped(("round", (self.place,), digits), lambda value: round(value, digits))
        return self._of(("round", (self.place,), digits), lambda: np.round(self.values, digits), plain=False)

    def __floor__(self) -> Batch:
        return self._integer(np.floor)

    def __ceil__(self) -> Batch:
        return self._integer(np.ceil)

    def __trunc__(self) -> Batch:
        return self._integer(np.trunc)

    def _integer(self, rounding: np.ufunc) -> Batch:
        def rounded() -> Values:
            values = rounding(self.values.astype(np.float64)) if self.kind == "f" else self.values
            if self.kind == "f" and not (np.abs(values) < MAX_SAFE_INTEGER).all():
                self.tape.refuse("a number too large for 64 bits is rounded to an integer")
            if self.kind == "f":
                self.tape.note_boundary(*((self.values, values + offset) for offset in (-1.0, -0.5, 0.0, 0.5, 1.0)))
            return values.astype(np.int64)

        return self._of((rounding, (self.place,), "integer"), rounded, plain=True)

    def _of(self, key: Any, make: Callable[[], Values], plain: bool) -> Batch:
        return Batch.computed(self.tape, key, make, plain)

    def _mapped(self, key: Any, function: Callable[[Any], Any]) -> Batch:
        def make() -> Values:
            values = self.values
            return np.fromiter(map(function, values.tolist()), dtype=values.dtype, count=len(values))

        return self._of(key, make, self.plain)

    def __divmod__(self, other: Any) -> tuple[Any, Any]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Any, Any]:
        return other // self, other % self

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> Any:
        raise TypeError("a batch lives only while its mechanism runs; it cannot be pickled")

    # --------------------------------------------------------------------------------- NumPy's functions

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if method == "__call__" and not options and all(isinstance(value, ACCEPTED) for value in inputs):
            return self.apply(ufunc, inputs)
        return super().__array_ufunc__(ufunc, method, *inputs, **options)

    def __getattr__(self, name: str) -> Any:
        """NumPy calls `value.exp()` for `np.exp` of an object array."""
        ufunc = None if name.startswith("_") else getattr(np, name, None)
        if isinstance(ufunc, np.ufunc) and ufunc.nin == 1:
            return lambda: self.apply(ufunc, [self])
        raise AttributeError(f"a number drawn from a Generator has no {name!r} here")

    def as_python(self) -> Batch:
        return Batch(self.tape, self.place, self._values, self._version, plain=True)

    def item(self) -> Batch:
        self._check_method("item")
        return self.as_python()

    def astype(self, dtype: Any) -> Any:
        self._check_method("astype")
        return self.cast(np.dtype(dtype))

    def _check_method(self, name: str) -> None:
        if self.plain:
            raise AttributeError(f"{type(self._values[:1].tolist()[0]).__name__!r} object has no attribute {name!r}")

    def clip(self, a_min: Any = None, a_max: Any = None, **options: Any) -> Any:
        self._check_method("clip")
        low, high = options.pop("min", a_min), options.pop("max", a_max)
        if options.pop("out", None) is not None or options:
            self.tape.refuse("np.clip is used with options that a batch does not know")
        raised = self if low is None else np.maximum(self, low)
        return raised if high is None else np.minimum(raised, high)

    @classmethod
    def apply(cls, ufunc: np.ufunc, values: Sequence[Any]) -> Any:
        if ufunc.nout != 1:
            _first(values).tape.refuse(f"np.{ufunc.__name__} gives more than one result")
        return combined(ufunc, values, plain=False)

    @classmethod
    def extreme(cls, values: Sequence[Any], largest: bool) -> Batch:
        extreme = np.maximum if largest else np.minimum
        tape = _first(values).tape

        def make() -> Values:
            best, *others = _arrays(values)
            for array in others:
                tape.note_boundary((best, array))
                best = extreme(best, array)
            return np.broadcast_to(best, tape.size)

        key = (extreme, *_keys(tape, values))
        return cls.computed(tape, key, make, plain=False)

    @classmethod
    def extreme_index(cls, values: Sequence[Any], largest: bool) -> Batch:
        tape = _first(values).tape
        key = ("index", largest, *_keys(tape, values))

        def make() -> Values:
            arrays = _arrays(values)
            tape.note_boundary(*itertools.combinations(arrays, 2))
            return _extreme_index(arrays, largest, tape.size)

        return cls.computed(tape, key, make, plain=False)

    def refuse(self, what: str) -> NoReturn:
        self.tape.refuse(what)

    def select(self, then: Any, other: Any) -> Any:
        if not isinstance(then, ACCEPTED) or not isinstance(other, ACCEPTED):
            return then if self else other
        key = ("where", *_keys(self.tape, (self, then, other)))

        def make() -> Values:
            return np.asarray(np.where(self.values.astype(np.bool_, copy=False), *_arrays((then, other))))

        return self._of(key, make, plain=False)

    def either(self, then: Any, other: Any) -> Any:
        """`then` on the rows where this holds, `other` elsewhere; None where a row alone would tell which it has."""
        if then is other and isinstance(then, ACCEPTED):
            return then
        kinds = {_number_type(then), _number_type(other)}
        if len(kinds) > 1 or None in kinds:
            return None
        key = ("either", *_keys(self.tape, (self, then, other)))
        return self._of(key, lambda: np.where(self.values, *_arrays((then, other))), _is_plain(then))

    def cast(self, dtype: np.dtype[Any]) -> Batch:
        if dtype.kind not in "biuf":
            self.tape.refuse(f"noise is cast to {dtype}")
        return self._of(("cast", (self.place,), dtype.str), lambda: self.values.astype(dtype), plain=False)


def _first(values: Sequence[Any]) -> Batch:
    for value in values:
        if type(value) is Batch:
            return value
    raise TypeError("none of the values is a batch")


def _keys(tape: Tape, values: Sequence[Any]) -> list[Any]:
    """What identifies the operands: the place of a batch on the tape, boxed, or the constant."""
    keys: list[Any] = []
    narrow = plain = False
    for value in values:
        kind = type(value)
        if kind is Batch:
            if value.tape is not tape:
                tape.diverge("it keeps noise of one run and uses it in another")
            narrow |= value._values.dtype not in WIDE
            plain |= value.plain
            keys.append((value.place,))
        else:
            if kind not in PLAIN:
                narrow |= getattr(value, "dtype", FLOATS) not in WIDE
            keys.append(value)
    if narrow and plain:
        tape.refuse("a Python number, which takes the type of a NumPy scalar of fewer bits, meets one")
    return keys


def _arrays(values: Sequence[Any]) -> list[Any]:
    return [value.values if isinstance(value, Batch) else value for value in values]


def _extreme_index(arrays: list[Any], largest: bool, size: int) -> NDArray[np.int64]:
    """For each row the index of the first largest (or smallest) entry; the first NaN, if there is one, as in NumPy."""
    best = np.array(np.broadcast_to(arrays[0], size), dtype=np.result_type(*arrays))
    if best.dtype.kind == "f" and any(np.isnan(array).any() for array in arrays):
        stacked = np.stack([np.broadcast_to(entry, size) for entry in arrays])
        return np.asarray((stacked.argmax if largest else stacked.argmin)(axis=0))
    places = np.min_scalar_type(len(arrays))
    index = np.zeros(size, dtype=places)
    beats, extreme = (np.greater, np.maximum) if largest else (np.less, np.minimum)
    for position, array in enumerate(arrays[1:], start=1):
        better = np.asarray(beats(array, best))
        np.maximum(index, better * places.type(position), out=index)  # positions grow; a masked copy takes far longer
        extreme(best, array, out=best)
    return index.astype(np.int64)


def combined(ufunc: np.ufunc, values: Sequence[Any], plain: bool) -> Batch:
    """The ufunc on scalars of which at least one is a batch."""
    tape = _first(values).tape
    key = (ufunc, *_keys(tape, values))
    event = tape.recall(key)
    if event is None:
        event = tape.record(TapeEvent(key, tape.made(lambda: _evaluated(ufunc, values, tape)), tape.version))
    return Batch(tape, tape.position - 1, event.outcome, event.version, plain)


def _evaluated(ufunc: np.ufunc, values: Sequence[Any], tape: Tape) -> Values:
    arrays = _arrays(values)
    if ufunc in _BOUNDED:
        tape.note_boundary((arrays[0], arrays[1]))
    dtype = np.bool_ if ufunc in _COMPARISONS else np.float64 if _floating(ufunc, arrays) else None
    return np.asarray(ufunc(*arrays) if dtype is None else ufunc(*arrays, out=tape.arena.empty(tape.size, dtype)))


def _floating(ufunc: np.ufunc, arrays: Sequence[Any]) -> bool:
    """Whether the result is known to be an array of float64."""
    return ufunc in _SAME_ON_FLOATS and all(
        array.dtype == np.float64 if isinstance(array, np.ndarray) else type(array) in PLAIN for array in arrays
    )


# ------------------------------------------------------------------------------------------ Python's operators


def _as_integers(value: Any) -> Any:
    """Python counts with truth values; NumPy does logic with them."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, Batch) and value.kind == "b":
        return Batch.computed(value.tape, ("int", (value.place,)), lambda: value.values.astype(np.int64), plain=True)
    return value


def _python_arithmetic(ufunc: np.ufunc, values: Sequence[Any]) -> Batch:
    """As Python computes it: integers do not wrap around, and powers that are not real are not NaN."""
    operands = [_as_integers(value) for value in values]
    tape = _first(operands).tape

    def make() -> Values:
        arrays = _arrays(operands)
        try:
            result: Values = ufunc(*arrays)
        except (OverflowError, ValueError):
            tape.refuse("integers leave 64 bits")
        if result.dtype.kind == "i" and ufunc in _GROWING:
            estimate = _GROWING[ufunc](*(np.asarray(array, dtype=np.float64) for array in arrays))
            if not (np.abs(estimate) < MAX_SAFE_INTEGER).all():
                tape.refuse("integers leave 64 bits")
        if ufunc is np.power and result.dtype.kind == "f" and not np.isfinite(result).all():
            tape.refuse("a power is not a finite real number on some rows")
        return result

    return Batch.computed(tape, (ufunc, "python", *_keys(tape, operands)), make, plain=True)


_GROWING: dict[np.ufunc, Callable[..., Any]] = {
    np.add: np.add,
    np.subtract: np.subtract,
    np.multiply: np.multiply,
    np.power: np.power,
    np.left_shift: lambda value, shift: value * 2.0**shift,
}


def _is_plain(value: Any) -> bool:
    """Whether a scalar operand, alone, is a Python number."""
    return value.plain if type(value) is Batch else type(value) in PLAIN


def _number_type(value: Any) -> tuple[np.dtype[Any], bool] | None:
    """What a row alone would hold: the type of the number, and whether it is Python's; None for what is no number."""
    if not isinstance(value, ACCEPTED):
        return None
    dtype = value._values.dtype if type(value) is Batch else np.asarray(value).dtype
    return (dtype, _is_plain(value)) if dtype in WIDE else None


def _are_floats(values: Sequence[Any]) -> bool:
    """Whether each scalar, alone, is a Python float: of these nothing more has to be asked."""
    for value in values:
        if type(value) is Batch:
            if not value.plain or value._values.dtype is not FLOATS:
                return False
        elif type(value) is not float:
            return False
    return True


def _operate(ufunc: np.ufunc, values: tuple[Any, ...]) -> Any:
    """An arithmetic operator on one or two scalars."""
    if ufunc in _SAME_ON_FLOATS and _are_floats(values):
        return combined(ufunc, values, plain=True)
    plain, floating = True, False
    for value in values:
        kind = type(value)
        if kind is Batch:
            plain &= value.plain
            floating |= value.kind == "f"
        elif kind is float:
            floating = True
        elif kind not in PLAIN:
            if not isinstance(value, ACCEPTED):
                return NotImplemented
            plain = False
    if not plain:
        return combined(ufunc, values, plain=False)
    if ufunc in _LOGIC or (floating and ufunc in _SAME_ON_FLOATS):
        return combined(ufunc, values, plain=True)
    if ufunc is np.divide:
        _check_exact(values)
    if ufunc in _DIVISIONS and values[1] == 0:  # on a batch this splits off the rows that divide by zero
        raise ZeroDivisionError("division by zero")
    return _python_arithmetic(ufunc, values)


def _compare(ufunc: np.ufunc, values: tuple[Any, Any]) -> Any:
    if _are_floats(values):
        return combined(ufunc, values, plain=True)
    if not isinstance(values[1], ACCEPTED):
        return NotImplemented
    plain = _is_plain(values[0]) and _is_plain(values[1])
    if plain and {_kind(values[0]), _kind(values[1])} == {"i", "f"}:
        _check_exact(values)
    return combined(ufunc, values, plain)


def _check_exact(values: Sequence[Any]) -> None:
    """Refuse integers that a float cannot hold: Python compares and divides them exactly, NumPy as floats."""
    tape = _first(values).tape
    if tape.position < tape.recorded:
        return  # asked when the event was recorded, for all rows
    for value, array in zip(values, _arrays(values), strict=True):
        if _kind(value) == "i" and np.any(np.abs(array) > EXACT):
            tape.refuse("an integer too large for a float is compared with one, or divided")


def _kind(value: Any) -> str:
    if type(value) is Batch:
        return value.kind
    return "f" if type(value) is float else np.asarray(value).dtype.kind


ACCEPTED = (Batch, *NUMBERS)
_COMPARISONS = frozenset([np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal])
_BOUNDED = _COMPARISONS | {np.maximum, np.minimum}
_LOGIC = frozenset([np.bitwise_and, np.bitwise_or, np.bitwise_xor])
_SAME_ON_FLOATS = frozenset([np.add, np.subtract, np.multiply, np.negative, np.positive, np.absolute])
_DIVISIONS = frozenset([np.divide, np.floor_divide, np.remainder])
