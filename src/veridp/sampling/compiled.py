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
from veridp.sampling.checked import REFUSED, CheckedCompiler, check_types, refuse_handlers
from veridp.sampling.compiled_loop import ColumnLayout, layout_of, outputs_of
from veridp.sampling.outputs import Outputs
from veridp.sampling.tape import Unfit

numba: Any = _numba  # its types are not complete
OPTIONS = {"nogil": True, "boundscheck": True}  # without the check an index past the end would read anything
Function = Callable[..., Any]


@dataclass(frozen=True)
class Kernel:
    """A compiled loop over the mechanism, and how its outputs are laid out."""

    loop: Function
    layout: ColumnLayout
    kept: tuple[object, ...]  # what the cache knows by identity must not be freed


_kernels: dict[Any, Kernel | Unfit] = {}
_lock = threading.Lock()


def compiled_outputs(function: Function, data: object, rng: np.random.Generator, count: int) -> Outputs:
    """`count` outputs of the function: the same that the plain function gives with the same generator.

    Raises Unfit where it does not compile, may mean something else than in Python (see `checked`), raises, or returns
    NaN or an infinity: numba raises less often than Python does.
    """
    target, arguments = _call(function)
    values = [_native(value) for value in (data, *arguments)]
    kernel = _kernel(target, rng, values)
    try:
        columns = kernel.loop(rng, *values, count)
    except Unfit:
        raise
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
            functions: dict[types.FunctionType, Any] = {}
            compiled = _jitted(target, functions)
            signature = tuple(numba.typeof(value) for value in (rng, *values))
            compiled.compile(signature)
            for dispatcher in functions.values():
                for overload in dispatcher.overloads.values():
                    check_types(overload.type_annotation)
            layout = layout_of(compiled.overloads[signature].signature.return_type)
            loop = layout.loop(compiled, len(values), OPTIONS)
            loop(rng, *values, 0)
    except Unfit:
        raise
    except Exception as error:  # numba raises many kinds, not only its own
        reason = " ".join(str(error).split()) or type(error).__name__
        _, refused, why = reason.rpartition(REFUSED)
        if refused:
            raise Unfit(why.partition(" raised from")[0]) from error
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
    refuse_handlers(function.__code__)
    code = function.__code__.replace(co_argcount=len(parameters), co_kwonlyargcount=0)
    scope = dict(function.__globals__)
    cells = tuple(types.CellType() for _ in code.co_freevars)
    rebuilt = types.FunctionType(code, scope, function.__name__, None, cells)
    with_default = [name for name in parameters if name in defaults]
    if with_default and tuple(with_default) == parameters[-len(with_default) :]:
        rebuilt.__defaults__ = tuple(defaults[name] for name in with_default)
    done[function] = compiled = numba.njit(pipeline_class=CheckedCompiler, **OPTIONS)(rebuilt)

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
    """The value as numba takes it, of a type that has the operators of its own: a list stays a list."""
    helper = _helper(value)
    if helper is not None:
        return _jitted(helper, {})
    if isinstance(value, list | tuple):
        return _sequence(value)
    if isinstance(value, np.ndarray):
        if value.dtype not in (np.bool_, np.int64, np.float64):
            raise Unfit(f"its data are an array of {value.dtype}, which numba and NumPy widen in different ways")
        return value
    if value is None or type(value) in (bool, int, float, str, np.bool_, np.int64, np.float64):
        return value
    raise Unfit(f"numba takes no {type(value).__name__}")


def _sequence(value: list[Any] | tuple[Any, ...]) -> Any:
    """The list or tuple, whose entries numba holds in one type; a list of lists as a tuple of them."""
    kinds = set(map(type, value))
    if kinds and kinds <= _NUMBERS:
        truths = kinds <= {bool, np.bool_}
        if not truths and kinds & {bool, np.bool_}:
            raise Unfit("its data mix truth values and numbers")
        plain = np.array(value)
        if plain.dtype == np.float64 and any(abs(entry) > 2**53 for entry in value if type(entry) is int):
            raise Unfit("its data hold an integer too large for a float among floats")
        if plain.dtype in (np.bool_, np.int64, np.float64):
            return plain.tolist() if isinstance(value, list) else tuple(plain.tolist())
    elif kinds and kinds <= {list, tuple} and len(value) <= LONGEST_TUPLE:
        return tuple(map(_sequence, value))
    raise Unfit("its data are a list that numba cannot hold: numbers of one kind, or short lists of these, it can")


_NUMBERS = frozenset({bool, int, float, np.bool_, np.int64, np.float64})
LONGEST_TUPLE = 64  # numba compiles the code anew for each length
