"""NumPy's functions that move the entries of arrays, whatever these are, and those that are made of others here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from veridp.kernel.stand_ins.arrays import (
    DTYPES,
    FUNCTIONS,
    Vector,
    boxed_array,
    cast,
    decided_entries,
    kind_of,
    kind_of_all,
    refuse,
)


def _by_numpy(function: Any) -> Callable[..., Any]:
    """The function as NumPy does it where nobody objects."""

    def call(*args: Any, **kwargs: Any) -> Any:
        answer = function._implementation(*args, **kwargs)
        return [_joined(part) for part in answer] if isinstance(answer, list) else _joined(answer)

    return call


def _joined(answer: Any) -> Any:
    """What NumPy made of several arrays, with entries of one kind."""
    if not isinstance(answer, np.ndarray) or answer.dtype != object:
        return answer
    one_kind = len({kind_of(entry) for entry in answer.flat}) <= 1
    return answer if one_kind and isinstance(answer, Vector) else Vector.of(list(answer.flat), answer.shape)


_ALLOWED = (
        np.sum, np.any, np.all, np.diff, np.argsort, np.outer, np.trapezoid,
        np.concatenate, np.stack, np.hstack, np.vstack, np.dstack, np.column_stack, np.block, np.append,
        np.split, np.array_split, np.hsplit, np.vsplit, np.atleast_1d, np.atleast_2d, np.atleast_3d,
        np.reshape, np.ravel, np.transpose, np.squeeze, np.expand_dims, np.moveaxis, np.swapaxes, np.flip,
        np.flipud, np.fliplr, np.rot90, np.roll, np.repeat, np.tile, np.take, np.delete, np.meshgrid,
        np.broadcast_to, np.broadcast_arrays, np.copy, np.shape, np.ndim, np.size, np.result_type,
)  # fmt: skip
FUNCTIONS |= {function: _by_numpy(function) for function in _ALLOWED}


def _sorted(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    """The entries along the last axis in order; equal ones are the same in any order."""
    boxed = boxed_array(a).ravel() if axis is None else boxed_array(a)
    if axis not in (None, -1, boxed.ndim - 1) or order is not None:
        refuse(a, "np.sort is modelled along the last axis")
    lines = [sorted(line) for line in boxed.reshape(-1, boxed.shape[-1])]
    return Vector.of([entry for line in lines for entry in line], boxed.shape)


def _taken(entries: Any, places: Any) -> Any:
    """The entries at these places."""
    return Vector.of([entries[place] for place in places.flat], places.shape)


def _padded(array: Any, pad_width: Any, mode: str = "constant", **options: Any) -> Any:
    boxed = boxed_array(array)
    if mode not in ("constant", "edge", "reflect", "symmetric", "wrap") or np.ndim(options.get("constant_values", 0)):
        refuse(array, "np.pad with these options is not modelled")
    places = np.arange(boxed.size).reshape(boxed.shape)
    if mode != "constant":
        return _taken(boxed.ravel(), np.pad(places, pad_width, mode, **options))  # type: ignore[call-overload]
    filling = cast(options.pop("constant_values", 0), DTYPES[kind_of_all(boxed.flat)])
    return _taken([*boxed.flat, filling], np.pad(places, pad_width, constant_values=boxed.size, **options))


def _inserted(arr: Any, obj: Any, values: Any, axis: Any = None) -> Any:
    old, new = boxed_array(arr), boxed_array(values).ravel()
    if old.ndim != 1 or axis not in (None, 0):
        refuse([arr, values], "np.insert is modelled for arrays of one dimension")
    target = DTYPES[kind_of_all(old)]
    entries = [*old, *(cast(value, target) for value in new)]
    return _taken(entries, np.insert(np.arange(old.size), obj, old.size + np.arange(new.size)))


def _extracted(condition: Any, arr: Any) -> Any:
    boxed = boxed_array(arr).ravel()
    return _taken(boxed, np.extract(decided_entries(condition), np.arange(boxed.size)))


def _places(a: Any) -> Any:
    if not np.ndim(a):
        refuse(a, "np.argwhere of a single number is not modelled")
    return np.argwhere(decided_entries(a))


def _compressed(condition: Any, a: Any, axis: Any = None) -> Any:
    boxed = boxed_array(a)
    places = np.arange(boxed.size).reshape(boxed.shape)
    return _taken(boxed.ravel(), np.compress(decided_entries(condition), places, axis))


def _copied(dst: Any, src: Any, **options: Any) -> None:
    """np.copyto, into an array of the same kind."""
    where = options.pop("where", True)
    kinds = [kind_of_all(boxed_array(value).flat) for value in (dst, src)]
    if options or not isinstance(dst, Vector) or kinds[0] != kinds[1]:
        refuse([src, dst, where], "np.copyto with these arguments is not modelled")
    dst[...] = np.where(where, src, dst)


def _masked_in(a: Any, mask: Any, values: Any) -> None:
    """np.putmask of one value."""
    if not isinstance(a, Vector) or np.ndim(values) or np.shape(mask) != a.shape:
        refuse([values, a, mask], "np.putmask with these arguments is not modelled")
    a[...] = np.where(mask, cast(values, DTYPES[kind_of_all(a.flat)]), a)


FUNCTIONS |= {np.pad: _padded, np.insert: _inserted, np.extract: _extracted, np.copyto: _copied, np.putmask: _masked_in}
FUNCTIONS |= {np.sort: _sorted, np.compress: _compressed, np.argwhere: _places}
FUNCTIONS[np.resize] = lambda a, new_shape: _taken(boxed_array(a).ravel(), np.resize(np.arange(np.size(a)), new_shape))
