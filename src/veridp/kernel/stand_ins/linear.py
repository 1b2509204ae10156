"""NumPy's functions that are affine in the array that holds stand-ins, such as linear algebra with plain matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from veridp.kernel.stand_ins.arrays import (
    DTYPES,
    FUNCTIONS,
    any_symbolic,
    boxed_array,
    kind_of_all,
    ordinary,
    refuse,
)


def _least_squares(a: Any, b: Any, rcond: Any = None) -> Any:
    """The solution, which is linear in b; its residuals, the rank and the singular values."""
    if any_symbolic([a]):
        refuse([a, b], "least squares with noise in the matrix are not modelled")
    matrix = np.asarray(ordinary(a))
    _, _, rank, singular = np.linalg.lstsq(matrix, np.zeros(len(matrix)), rcond=rcond)
    solution = np.matmul(np.linalg.pinv(matrix), b)
    rest = np.subtract(b, np.matmul(matrix, solution))
    full = rank == matrix.shape[1] < len(matrix)
    return solution, np.sum(rest * rest, axis=0, keepdims=True) if full else np.empty(0), rank, singular


def _solved(a: Any, b: Any) -> Any:
    if any_symbolic([a]):
        refuse([a, b], "linear equations with noise in the matrix are not modelled")
    return np.matmul(np.linalg.inv(np.asarray(ordinary(a))), b)


def _average(a: Any, axis: Any = None, weights: Any = None, **options: Any) -> Any:
    if options or (weights is not None and axis is not None):
        refuse([a, weights], "np.average with these options is not modelled")
    return np.mean(a, axis=axis) if weights is None else np.divide(np.sum(np.multiply(a, weights)), np.sum(weights))


def _linear(function: Callable[..., Any], *places: int) -> Callable[..., Any]:
    """The function of NumPy, where one of these arguments alone holds stand-ins; it is affine in each of them.

    So its values at 0 and at the unit vectors are all there is to know of it.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        held = [place for place, value in enumerate(args) if any_symbolic([value])]
        boxed = boxed_array(args[held[0]]) if held else np.empty(0)
        kind = kind_of_all(boxed.flat) if boxed.size else "b"
        if len(held) != 1 or held[0] not in places or any_symbolic(kwargs.values()) or kind == "b":
            refuse([*args, *kwargs.values()], f"np.{function.__name__} of noise in these arguments is not modelled")
        plain = {name: ordinary(value) for name, value in kwargs.items()}

        def at(numbers: Any) -> Any:
            answer = function(*(numbers if k in held else ordinary(arg) for k, arg in enumerate(args)), **plain)
            if not isinstance(answer, np.ndarray | np.number):
                refuse(args, f"np.{function.__name__} with these options is not modelled")
            return answer

        origin = answer = at(np.zeros(boxed.shape, DTYPES[kind]))
        for place in np.ndindex(boxed.shape):
            unit = np.zeros(boxed.shape, DTYPES[kind])
            unit[place] = 1
            answer = np.add(answer, np.multiply(np.subtract(at(unit), origin), boxed[place]))
        return answer

    return call


_BILINEAR = (np.convolve, np.correlate, np.cross, np.tensordot, np.kron)
FUNCTIONS |= {function: _linear(function, 0, 1) for function in _BILINEAR}
FUNCTIONS |= {function: _linear(function, 0) for function in (np.trace, np.gradient, np.diag, np.triu, np.tril)}
FUNCTIONS[np.polyfit] = _linear(np.polyfit, 1)
FUNCTIONS |= {np.linalg.lstsq: _least_squares, np.linalg.solve: _solved, np.average: _average}


def _counted(x: Any, weights: Any = None, minlength: int = 0) -> Any:
    """np.bincount with weights that hold stand-ins."""
    return _linear(np.bincount, 1)(x, weights, minlength)


def _polynomial(p: Any, x: Any) -> Any:
    """np.polyval, which goes through the coefficients as this does."""
    if np.ndim(p) != 1:
        refuse([p, x], "np.polyval is modelled for one polynomial")
    answer = np.zeros_like(x)
    for coefficient in boxed_array(p).flat:
        answer = answer * x + coefficient
    return answer


def _inner(function: Callable[..., Any]) -> Callable[..., Any]:
    """The sum of the products of the entries of two vectors, or what is affine in one argument."""

    def call(a: Any, b: Any) -> Any:
        if np.ndim(a) == np.ndim(b) == 1 and any_symbolic([a]) and any_symbolic([b]):
            return np.dot(a, b)
        return _linear(function, 0, 1)(a, b)

    return call


FUNCTIONS |= {function: _inner(function) for function in (np.inner, np.vdot)}
FUNCTIONS |= {np.einsum: _linear(np.einsum, 1, 2, 3), np.bincount: _counted, np.polyval: _polynomial}
