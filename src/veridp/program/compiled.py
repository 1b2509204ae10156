"""The compiled reading: the mechanism's own function, compiled by numba, in a loop that writes columns."""

from __future__ import annotations

import functools
import threading
import types
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numba as _numba
import numpy as np

from veridp.mechanism import Mechanism
from veridp.program.kernel import Layout, layout_of, outputs_of
from veridp.program.outputs import Outputs
from veridp.program.tape import Unfit

numba: Any = _numba  # its types are not complete
OPTIONS = {"nogil": True, "boundscheck": True}  # without the check an index past the end would read anything
Function = Callable[..., Any]


@dataclass(frozen=True)
class Kernel:
    """A compiled loop over the mechanism, and how its outputs are laid out."""

    loop: Function
    layout: Layout
    kept: tuple[object, ...]  # what the cache knows by identity must not be freed


_kernels: dict[Any, Kernel | Unfit] = {}
_lock = threading.Lock()


def compiled_outputs(function: Function, data: object, rng: np.random.Generator, count: int) -> Outputs:
    """`count` outputs of the function: the same that the plain function gives with the same generator, provided that
    numba gives its code the meaning that Python does (integers wrap at 64 bits, for one). Raises Unfit where it does
    not compile, raises, or returns NaN or an infinity: numba raises less often than Python does.
    """
    target, arguments = _call(function)
    values = [_native(value) for value in (data, *arguments)]
    kernel = _kernel(target, rng, values)
    try:
        columns = kernel.loop(rng, *values, count)
    except Exception as error:
        raise Unfit(f"it raises {type(error).__name__}, which ends a compiled loop") from error
    if any(column.dtype.kind == "f" and not np.isfinite(column).all() for column in columns):
        raise Unfit("it returns NaN or an infinity, where plain Python may raise")
    return outputs_of(kernel.layout, columns, count)


def _kernel(target: types.FunctionType, rng: np.random.Generator, values: Sequence[Any]) -> Kernel:
    """The kernel for a function and the types of its arguments, compiled once in a process."""
    captured: list[object] = []
    key = (_fingerprint(target, captured, set()), *(numba.typeof(value) for value in values))
    with _lock:
        if key not in _kernels:
            try:
                _kernels[key] = _compile(target, rng, values, tuple(captured))
            except Unfit as unfit:
                _kernels[key] = unfit
        known = _kernels[key]
    if isinstance(known, Unfit):
        raise Unfit(*known.args)
    return known


def _compile(target: types.FunctionType, rng: np.random.Generator, values: Sequence[Any], kept: Any) -> Kernel:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numba's remarks on what it finds slow
            compiled = _jitted(target, {})
            signature = tuple(numba.typeof(value) for value in (rng, *values))
            compiled.compile(signature)
            layout = layout_of(compiled.overloads[signature].signature.return_type)
            loop = layout.loop(compiled, len(values), OPTIONS)
            loop(rng, *values, 0)
    except Unfit:
        raise
    except Exception as error:  # numba raises many kinds, not only its own
        reason = " ".join(str(error).split()) or type(error).__name__
        raise Unfit(f"numba does not compile it: {reason[:300]}") from error
    return Kernel(loop, layout, kept)


# ------------------------------------------------------------------------------------------------ the function


def _call(function: Any) -> tuple[types.FunctionType, list[Any]]:
    """The plain function under partials and mechanisms, and the values of its parameters after rng and data."""
    bound: dict[str, Any] = {}
    while not isinstance(function, types.FunctionType):
        if isinstance(function, functools.partial) and not function.args:
            bound = {**function.keywords, **bound}
            function = function.func
        elif isinstance(function, Mechanism):
            bound = {**function.arguments, **bound}
            function = function.function
        else:
            raise Unfit(f"a {type(function).__name__} is not a plain function, which is what numba compiles")
    values = _defaults(function) | bound
    names = _parameters(function)[2:]
    missing = [name for name in names if name not in values]
    if missing or set(bound) - set(names):
        raise Unfit(f"its parameters {', '.join(missing or set(bound) - set(names))} cannot be passed by position")
    return function, [values[name] for name in names]


def _parameters(function: types.FunctionType) -> tuple[str, ...]:
    code = function.__code__
    if code.co_flags & 0x0C:
        raise Unfit(f"{function.__name__} takes *args or **kwargs")
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _defaults(function: types.FunctionType) -> dict[str, Any]:
    positional = function.__code__.co_varnames[: function.__code__.co_argcount]
    given = function.__defaults__ or ()
    return dict(zip(positional[len(positional) - len(given) :], given, strict=True)) | (function.__kwdefaults__ or {})


def _references(function: types.FunctionType) -> tuple[dict[str, Any], dict[str, Any]]:
    """The globals and the closure values that the function's code names."""
    names: set[str] = set()
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        names.update(code.co_names)
        codes += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return (
        {name: function.__globals__[name] for name in names if name in function.__globals__},
        {name: cell.cell_contents for name, cell in cells},
    )


def _fingerprint(function: types.FunctionType, kept: list[object], seen: set[types.FunctionType]) -> Any:
    """What the compiled code depends on: the code, and what it captures (numba freezes that)."""
    if function in seen:
        return function.__name__
    seen.add(function)

    def captured(value: Any) -> Any:
        helper = _helper(value)
        if helper is not None:
            return _fingerprint(helper, kept, seen)
        if isinstance(value, bool | int | float | str | tuple | None) and _hashable(value):
            return type(value).__name__, value
        kept.append(value)
        return id(value)

    named, closed = _references(function)
    both = sorted([*named.items(), *closed.items()], key=lambda item: item[0])
    defaults = tuple(captured(value) for value in _defaults(function).values())
    return function.__code__, defaults, tuple((name, captured(value)) for name, value in both)


def _hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _helper(value: object) -> types.FunctionType | None:
    """The plain Python function behind a value that the code calls, if numba does not know it already."""
    if isinstance(value, Mechanism) and not value.arguments:
        value = value.function
    return value if isinstance(value, types.FunctionType) and not value.__module__.startswith("numpy") else None


def _jitted(function: types.FunctionType, done: dict[types.FunctionType, Any]) -> Any:
    """The function compiled lazily, and with it the helper functions that it reaches by name.

    Keyword-only parameters, which numba does not know, become ordinary ones.
    """
    parameters, defaults = _parameters(function), _defaults(function)
    code = function.__code__.replace(co_argcount=len(parameters), co_kwonlyargcount=0)
    scope = dict(function.__globals__)
    cells = tuple(types.CellType() for _ in code.co_freevars)
    rebuilt = types.FunctionType(code, scope, function.__name__, None, cells)
    with_default = [name for name in parameters if name in defaults]
    if with_default and tuple(with_default) == parameters[-len(with_default) :]:
        rebuilt.__defaults__ = tuple(defaults[name] for name in with_default)
    done[function] = compiled = numba.njit(**OPTIONS)(rebuilt)

    def replaced(value: object) -> object:
        helper = _helper(value)
        if helper is None:
            return value
        return done[helper] if helper in done else _jitted(helper, done)

    named, closed = _references(function)
    scope.update({name: replaced(value) for name, value in named.items()})
    for name, cell in zip(code.co_freevars, cells, strict=True):
        cell.cell_contents = replaced(closed[name])
    return compiled


def _native(value: Any) -> Any:
    """The value as numba takes it: sequences of numbers as arrays."""
    helper = _helper(value)
    if helper is not None:
        return _jitted(helper, {})
    if isinstance(value, range):
        return np.arange(value.start, value.stop, value.step)
    if isinstance(value, list | tuple):
        try:
            array = np.array(value)
        except (ValueError, OverflowError):
            raise Unfit("its data are a list that is no array of numbers") from None
        if array.dtype.kind not in "bif" or (array.dtype.kind != "b" and _holds_truth(value)):
            raise Unfit("its data are a list that is no array of numbers")
        return array
    if value is None or isinstance(value, bool | int | float | str | np.ndarray | np.number | np.bool_):
        return value
    raise Unfit(f"numba takes no {type(value).__name__}")


def _holds_truth(value: object) -> bool:
    return any(map(_holds_truth, value)) if isinstance(value, list | tuple) else isinstance(value, bool | np.bool_)
