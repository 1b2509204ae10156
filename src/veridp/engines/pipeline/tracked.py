"""Noise that remembers what it is: genuine floats and arrays that pass the mark on, and tell where code decides by
them.

A mark is lost where compiled code reads the bare number. Nothing rests on marks but which decisions are seen: values of
the output are followed by running the program again.
"""
# mypy: disable-error-code="override"

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Observer(Protocol):
    """What is told of decisions while a program runs."""

    def decided(self, differences: Array, *, hiding: bool = False) -> None:
        """The program compared noise, or with `hiding` noisy values: by how much they differ from the other side."""

    def chance(self, thresholds: Array, drawn: Array) -> None:
        """The program compared uniform draws with these thresholds."""

    def hidden(self, values: Array, before: Hiding) -> Hiding:
        """The program added noise to something else; `before` names the sums that the noise was a part of."""


Hiding = frozenset[int]  # the sums, by the numbers that their observer gave them, that a noisy value is made of
NOTHING_HIDDEN: Hiding = frozenset()
OBSERVER: ContextVar[Observer | None] = ContextVar("OBSERVER", default=None)


def unmarked(value: Any) -> Any:
    """The plain number or array."""
    if isinstance(value, NoisyFloat):
        return float(np.float64.__float__(value))
    return value.view(np.ndarray) if isinstance(value, NoisyArray) else value


def marked(value: Any, hiding: Hiding = NOTHING_HIDDEN, *, derived: bool = False, uniform: bool = False) -> Any:
    """The float, or array of floats, as noise; anything else as it is. `uniform`: drawn evenly from [0, 1]."""
    if isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.ndim:
        noisy: Any = value.view(NoisyArray)
    elif isinstance(value, float):
        noisy = NoisyFloat(value)
    else:
        return value
    noisy.uniform, noisy.hiding, noisy.derived = uniform, hiding, derived
    return noisy


def combined(result: Any, operation: Any, operands: Sequence[Any]) -> Any:
    """What an operation made of noise, as noise. Where it added noise to something else, the observer is told.

    Noise stays noise whatever becomes of it. What was made of a noisy value, but by adding and scaling, is derived: to
    add plain data to it hides nothing, and to add new noise to it hides it anew.
    """
    noisy = [operand for operand in operands if isinstance(operand, NoisyFloat | NoisyArray)]
    hiding = NOTHING_HIDDEN.union(*(operand.hiding for operand in noisy))
    derived = any(operand.derived for operand in noisy)
    if operation in SUMS and len(operands) == 2:
        noises = [operand for operand in noisy if not operand.derived]
        observer = OBSERVER.get()
        if len(noises) == 1 and not (derived and hiding) and observer is not None:
            return marked(result, observer.hidden(np.asarray(result, dtype=float), hiding))
        derived = derived and (bool(hiding) or not noises)
    elif operation not in SCALINGS or len(noisy) > 1:
        derived = derived or bool(hiding)
    return marked(result, NOTHING_HIDDEN if derived else hiding, derived=derived)


def _seen(left: Any, right: Any) -> None:
    """Tell the observer that noise, or a value made of it, was compared with something."""
    observer = OBSERVER.get()
    if observer is None:
        return
    with np.errstate(all="ignore"):
        differences = np.subtract(_numbers(left), _numbers(right))
    if any(getattr(side, "hiding", NOTHING_HIDDEN) or getattr(side, "derived", False) for side in (left, right)):
        observer.decided(differences, hiding=True)
        return
    for draws, thresholds in ((left, right), (right, left)):
        if getattr(draws, "uniform", False) and not isinstance(thresholds, NoisyFloat | NoisyArray):
            observer.chance(*np.broadcast_arrays(_numbers(thresholds), _numbers(draws)))
            return
    observer.decided(differences)


def _numbers(value: Any) -> Array:
    return np.asarray(unmarked(value), dtype=float)


def _binary(name: str) -> Callable[[Any, Any], Any]:
    reflected = name.startswith("__r") and name not in ("__rshift__", "__round__")
    function = getattr(operator, "__" + name[3:] if reflected else name)

    def method(self: NoisyFloat, other: Any) -> Any:
        if not isinstance(other, float | int | np.number | np.ndarray):
            return NotImplemented
        mine, theirs = unmarked(self), unmarked(other)
        result = function(theirs, mine) if reflected else function(mine, theirs)
        return combined(result, function, (self, other))

    return method


def _comparison(name: str) -> Callable[[Any, Any], Any]:
    function = getattr(operator, name)

    def method(self: NoisyFloat, other: Any) -> Any:
        if not isinstance(other, float | int | np.number | np.ndarray):
            return NotImplemented
        _seen(self, other)
        return function(unmarked(self), unmarked(other))

    return method


COMPARISONS = ("__lt__", "__le__", "__gt__", "__ge__")
ARITHMETIC = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")
SUMS = frozenset({operator.add, operator.sub, np.add, np.subtract})
SCALINGS = frozenset({operator.mul, operator.truediv, np.multiply, np.divide, np.negative})
COMPARING_UFUNCS = frozenset({np.less, np.less_equal, np.greater, np.greater_equal})


class NoisyFloat(np.float64):
    """A float that depends on noise."""

    uniform = False
    hiding: Hiding = NOTHING_HIDDEN
    derived = False

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return _applied(ufunc, method, inputs, options)

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
        _seen_among(function, arguments)
        return function._implementation(*arguments, **options)

    def __neg__(self) -> Any:
        return marked(-unmarked(self), self.hiding, derived=self.derived)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return combined(abs(unmarked(self)), abs, (self,))

    def __round__(self, digits: int | None = None) -> Any:
        return combined(round(unmarked(self), digits), round, (self,))

    def __repr__(self) -> str:
        return repr(unmarked(self))

    def __str__(self) -> str:
        return str(unmarked(self))

    def __format__(self, specification: str) -> str:
        return format(unmarked(self), specification)

    def __reduce__(self) -> Any:
        return float, (unmarked(self),)

    def item(self, *_: Any) -> Any:
        return self


for _name in ARITHMETIC:
    setattr(NoisyFloat, f"__{_name}__", _binary(f"__{_name}__"))
    setattr(NoisyFloat, f"__r{_name}__", _binary(f"__r{_name}__"))
for _name in COMPARISONS:
    setattr(NoisyFloat, _name, _comparison(_name))


class NoisyArray(np.ndarray[Any, Any]):
    """An array of floats that depend on noise."""

    uniform = False
    hiding: Hiding = NOTHING_HIDDEN
    derived = False

    def __array_finalize__(self, source: Any) -> None:
        """A view is noise as its source is."""
        if isinstance(source, NoisyArray):
            self.uniform, self.hiding, self.derived = source.uniform, source.hiding, source.derived

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return _applied(ufunc, method, inputs, options)

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
        _seen_among(function, arguments)
        if function in RANKINGS and arguments:
            return getattr(marked(np.asarray(unmarked(arguments[0]))), function.__name__)(*arguments[1:], **options)
        return super().__array_function__(function, types, arguments, options)

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(unmarked(key))
        if isinstance(found, NoisyArray):
            found.uniform, found.hiding, found.derived = self.uniform, self.hiding, self.derived
            return found
        if isinstance(found, float):
            return marked(found, self.hiding, derived=self.derived, uniform=self.uniform)
        return found

    def __iter__(self) -> Iterator[Any]:
        return (self[place] for place in range(len(self)))

    def tolist(self) -> Any:
        return [entry.tolist() if isinstance(entry, NoisyArray) else entry for entry in self]

    def item(self, *places: int) -> Any:
        return marked(super().item(*places), self.hiding, derived=self.derived)

    def argmax(self, *arguments: Any, **options: Any) -> Any:
        return self._ranked("argmax", arguments, options)

    def argmin(self, *arguments: Any, **options: Any) -> Any:
        return self._ranked("argmin", arguments, options)

    def argsort(self, *arguments: Any, **options: Any) -> Any:
        return self._ranked("argsort", arguments, options)

    def _ranked(self, name: str, arguments: Any, options: Any) -> Any:
        """The ranking; what decides it are the differences to the highest."""
        values = unmarked(self)
        observer = OBSERVER.get()
        if observer is not None and values.size and not self.hiding and not self.derived:
            observer.decided(values.ravel() - values.max())
        return getattr(values, name)(*arguments, **options)


RANKINGS = (np.argmax, np.argmin, np.argsort)
PLACINGS = {np.searchsorted: (0, 1), np.digitize: (1, 0)}  # which arguments are the thresholds, and what is compared


def _seen_among(function: Any, arguments: Sequence[Any]) -> None:
    """Tell the observer that uniform draws were placed among thresholds."""
    if function not in PLACINGS or len(arguments) < 2:
        return
    thresholds, draws = (arguments[place] for place in PLACINGS[function])
    observer = OBSERVER.get()
    if (
        observer is not None
        and getattr(draws, "uniform", False)
        and not isinstance(thresholds, NoisyFloat | NoisyArray)
    ):
        observer.chance(*np.broadcast_arrays(_numbers(thresholds).ravel(), _numbers(draws).ravel()[:, None]))


def _applied(ufunc: Any, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """What NumPy computes of the plain numbers, as noise; a comparison is seen, and gives plain truth values."""
    if ufunc in COMPARING_UFUNCS and method == "__call__":
        _seen(*inputs)
    if "out" in options:
        options = {**options, "out": tuple(map(unmarked, options["out"]))}
    result = getattr(ufunc, method)(*map(unmarked, inputs), **options)
    operation = ufunc if method == "__call__" else None
    if isinstance(result, tuple):
        return tuple(combined(part, None, inputs) for part in result)
    return combined(result, operation, inputs)
