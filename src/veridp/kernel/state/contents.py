"""What one object holds, whatever its class makes of it: plain values, tables, entries, attributes, caches, names."""

from __future__ import annotations

import _abc  # type: ignore[import-not-found]
import ctypes
import decimal
import functools
import gc
import hashlib
import locale
import marshal
import os
import random
import sys
import threading
import types
from collections import OrderedDict, deque
from collections.abc import Callable
from fractions import Fraction
from types import CodeType
from typing import Any, NoReturn

import numpy as np

C_DATA: type = ctypes.c_int.__mro__[2]
C_FUNCTION: type = ctypes._CFuncPtr  # type: ignore[attr-defined]
PLAIN = frozenset({int, str, bytes, bool, type(None), complex, type(Ellipsis), type(NotImplemented), range, CodeType})
IMMUTABLE_TYPE = 1 << 8  # the flag of a type of C code, whose attributes cannot be set
PANDAS_ATTRIBUTES = frozenset({"_mgr", "_item_cache", "_attrs", "_flags", "_name"})  # of frames and series


def plain_state(kind: type, value: Any) -> object:
    """What tells an immutable value of a plain type from others; None for what is no such value."""
    if kind is float:
        return value.hex()
    if kind in PLAIN:
        return kind, value if kind is not complex else repr(value)
    if issubclass(kind, np.generic) and kind is not np.void and kind.__module__ == "numpy":
        return kind, value.tobytes()
    return (kind, value) if kind is Fraction else None


def bit_state(state: Any) -> object:
    """The state of a bit generator, with its arrays as bytes."""
    if isinstance(state, dict):
        return {name: bit_state(part) for name, part in state.items()}
    return state.tobytes() if isinstance(state, np.ndarray) else repr(state)


def marshalled(value: Any) -> bytes | None:
    """A table of plain values and containers of them, at the speed of C; None for what holds others."""
    try:
        return digest(marshal.dumps(value, 2))  # the last version that tells contents alone
    except ValueError:
        return None


def table_state(kind: type, value: Any) -> object:
    """What a frame or series of pandas, or a frame of polars, holds; None for all else, and where it holds objects.

    What they keep besides counts who else refers to them, which is no state that code sees.
    """
    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
    if pandas is not None and kind in (pandas.DataFrame, pandas.Series):
        if value.attrs or not vars(value).keys() <= PANDAS_ATTRIBUTES:
            return None
        frame = value.to_frame() if kind is pandas.Series else value
        columns = (frame.iloc[:, k] for k in range(frame.shape[1]))
        parts = [part.to_numpy() for part in (frame.columns, frame.index, *columns)]
    elif polars is not None and kind is polars.DataFrame:
        parts = [list(value.columns), *(value.to_series(k).to_numpy() for k in range(value.width))]
    else:
        return None
    found: list[object] = [kind]
    for part in parts:
        if isinstance(part, np.ndarray) and not part.dtype.hasobject:
            found.append((part.dtype.str, digest(np.ascontiguousarray(part).view(np.uint8))))
            continue
        states = [plain_state(type(entry), entry) for entry in part]
        if None in states:
            return None
        found.append(tuple(states))
    return tuple(found)


def digest(contents: Any) -> bytes:
    return hashlib.blake2b(contents).digest()


CONTAINERS: tuple[Any, ...] = (list, tuple, deque, set, frozenset, OrderedDict, dict, types.MappingProxyType)


def entries_of(container: Any) -> list[Any]:
    """What a container holds, whatever its class makes of iteration; of a mapping, the items."""
    base = next(base for base in CONTAINERS if issubclass(type(container), base))
    return list(base.items(container) if hasattr(base, "items") else base.__iter__(container))


def dict_of(value: Any) -> dict[str, Any]:
    shown = next((vars(base)["__dict__"] for base in type(value).__mro__ if "__dict__" in vars(base)), None)
    if not isinstance(shown, types.GetSetDescriptorType | None):  # its class hides the attributes
        return {str(number): part for number, part in enumerate(gc.get_referents(value))}
    try:
        return dict(object.__getattribute__(value, "__dict__"))
    except AttributeError:
        return {}


@functools.lru_cache(maxsize=4096)
def slots_of(kind: type) -> list[tuple[str, Any]]:
    """The slots that Python classes among its bases declare."""
    bases = [base for base in kind.__mro__ if not base.__flags__ & IMMUTABLE_TYPE]
    members = [pair for base in bases for pair in vars(base).items()]
    return [(name, slot) for name, slot in members if isinstance(slot, types.MemberDescriptorType)]


def cached_entries(cache: Any, refuse: Callable[[], NoReturn]) -> list[tuple[Any, Any]]:
    """The keys and results in an lru_cache, as its garbage collection visits them."""
    count, limit = cache.cache_info().currsize, cache.cache_parameters()["maxsize"]
    _, *parts = gc.get_referents(cache)
    if limit is None and isinstance(parts[0], dict) and len(parts[0]) == count:
        return list(parts[0].items())
    keys, results, table = parts[: 3 * count : 3], parts[1 : 3 * count : 3], parts[3 * count]
    if not isinstance(table, dict) or len(table) != count or any(key not in table for key in keys):
        refuse()
    return list(zip(keys, results, strict=True))


def registered_with(kind: type) -> list[str]:
    """The names of the classes that an abstract class was told to be its own."""
    registry, *_ = _abc._get_dump(kind)
    return sorted(each.__qualname__ for reference in registry if (each := reference()) is not None)


def thread_state() -> dict[str, Any]:
    """The attributes of the thread that runs, but for those by which it is run."""
    return {name: part for name, part in vars(threading.current_thread()).items() if name[:1] != "_" or name == "_name"}


READS_FRAMES = frozenset({"locals", "vars", "dir", "eval", "exec", "_getframe", "currentframe", "inspect", "f_locals"})


@functools.lru_cache(maxsize=4096)
def reads_frames(code: CodeType) -> bool:
    """Whether the code may read local variables, its own or those of its callers, without naming them."""
    return not READS_FRAMES.isdisjoint(names_in(code))


@functools.lru_cache(maxsize=4096)
def names_in(code: CodeType) -> frozenset[str]:
    """The names that the code and what it defines mention, also in strings: globals, attributes, modules."""
    found = set(code.co_names)
    constants: list[Any] = list(code.co_consts)
    while constants:
        constant = constants.pop()
        if isinstance(constant, CodeType):
            found |= names_in(constant)
        elif isinstance(constant, tuple | frozenset):
            constants += constant
        elif isinstance(constant, str) and constant.isidentifier():
            found.add(constant)
    return frozenset(found)


def pickled(kind: type, value: Any) -> list[Any]:
    """What pickle would keep of an object; any error where the object does not tell its state."""
    if issubclass(kind, C_FUNCTION):
        raise TypeError
    if issubclass(kind, C_DATA):
        pointer = hasattr(value, "contents")
        return [bytes(value), value._objects, *([value.contents] if pointer and value else [])]
    if hasattr(value, "__func__"):
        return [value.__func__]
    if kind.__module__ == "_queue":
        return [part for part in gc.get_referents(value) if isinstance(part, list)]
    parts = value.__reduce_ex__(4)
    if isinstance(parts, str):  # a global that pickle finds by its name
        return [parts]
    _, arguments, *states = parts
    return [arguments, *(list(s) if hasattr(s, "__next__") else s for s in states)]


def global_randomness() -> tuple[Any, ...]:
    """The states of the generators that modules of Python and NumPy share."""
    kind, keys, *rest = np.random.get_state(legacy=True)  # noqa: NPY002
    return random.getstate(), kind, np.asarray(keys).tobytes(), *rest


def settings() -> tuple[Any, ...]:
    """What of the interpreter code can set for all that runs later."""
    context = decimal.getcontext()
    arithmetic = (context.prec, context.rounding, context.Emin, context.Emax, context.capitals, context.clamp)
    interpreter = (sys.getrecursionlimit(), sys.getswitchinterval(), sys.get_int_max_str_digits(), gc.get_threshold())
    traps = tuple(name for name, is_set in context.traps.items() if is_set)
    arrays = (np.geterr(), np.geterrcall(), np.getbufsize(), np.get_printoptions())
    return *interpreter, os.getcwd(), locale.setlocale(locale.LC_ALL), arithmetic, traps, *arrays
