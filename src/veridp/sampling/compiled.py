"""The compiled reading: the mechanism's own function, compiled by numba, in a loop that writes columns."""

from __future__ import annotations

import functools
import threading
import types
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numba as _numba
import numpy as np
from numba.core import types as _types
from numpy.typing import NDArray

from veridp.kernel.output import DTYPES, Kind, Slot, Template, Tree
from veridp.mechanism import Mechanism
from veridp.sampling.checked import CheckedCompiler, check_types, hashable, refuse_handlers
from veridp.sampling.checked_arithmetic import REFUSED
from veridp.sampling.outputs import Outputs, code_type
from veridp.sampling.tape import Unfit

# ------------------------------------------------------------------------------------------------------- compiled loop
# The loop around a compiled mechanism: from the type of its output to columns, and from these to Outputs.
#
# A scalar of the output is written into a column; one that may be None has a column of flags beside it. A list is
# written behind those of the rows before it, into a buffer that grows, and its length into a column; in the end the
# buffer is turned into a column for each place of the list.


numba: Any = _numba  # their types are not complete
numba_types: Any = _types


@dataclass(frozen=True)
class ScalarLeaf:
    """A scalar: its kind, the number of its column, and of the column that tells whether it is there and not None."""

    kind: Kind
    column: int
    flags: int | None = None


@dataclass(frozen=True)
class Repeat:
    """A list: the number of the column of its lengths, and the form of each of its entries."""

    lengths: int
    entry: Form


Form = ScalarLeaf | Repeat | tuple["Form", ...]


@dataclass(frozen=True)
class ColumnLayout:
    """The form of an output, the columns it needs, and the statements that write one output into them."""

    form: Form
    setup: tuple[str, ...]
    writes: tuple[str, ...]
    finish: tuple[str, ...]
    columns: tuple[str, ...]

    def loop(
        self, compiled: Any, parameters: int, options: Mapping[str, Any]
    ) -> Callable[..., tuple[NDArray[Any], ...]]:
        """A compiled function of (rng, data, …, count) that gives the columns of `count` outputs."""
        names = ", ".join(f"a{index}" for index in range(parameters))
        lines = [f"def loop(rng, {names}, count):"]
        lines += [f"    {line}" for line in self.setup]
        lines += ["    for row in range(count):", f"        value = mechanism(rng, {names})"]
        lines += [f"        {line}" for line in self.writes]
        lines += [f"    {line}" for line in self.finish]
        lines += [f"    return ({', '.join(self.columns)},)"]
        scope: dict[str, Any] = {"mechanism": compiled, "np": np}
        exec("\n".join(lines), scope)  # noqa: S102 - made of the fixed phrases of this module alone
        compiled_loop: Callable[..., tuple[NDArray[Any], ...]] = numba.njit(**options)(scope["loop"])
        return compiled_loop


class _Writer:
    """Collects the statements of a layout."""

    def __init__(self) -> None:
        self.setup: list[str] = []
        self.finish: list[str] = []
        self.columns: list[str] = []

    def form(self, kind: Any, value: str, writes: list[str]) -> Form:
        """The form of an output of this numba type; adds to `writes` what stores the `value`."""
        if isinstance(kind, numba_types.BaseTuple):
            return tuple(self.form(part, f"{value}[{index}]", writes) for index, part in enumerate(kind.types))
        if isinstance(kind, numba_types.List | numba_types.ListType) or (
            isinstance(kind, numba_types.Array) and kind.ndim == 1
        ):
            return self._list(kind.dtype, value, writes)
        return self._leaf(kind, value, "count", "row", writes)

    def _leaf(self, kind: Any, value: str, size: str, place: str, writes: list[str]) -> ScalarLeaf:
        """A scalar that is stored at this place of a column of this size."""
        optional = isinstance(kind, numba_types.Optional)
        scalar = _scalar(kind.type if optional else kind)
        column = self._column(f"np.empty({size}, np.{DTYPES[scalar]})")
        if not optional:
            writes.append(f"c{column}[{place}] = {value}")
            return ScalarLeaf(scalar, column)
        flags = self._column(f"np.empty({size}, np.bool_)")
        writes += [
            f"item = {value}",
            "if item is None:",
            f"    c{flags}[{place}] = False",
            f"    c{column}[{place}] = 0",
            "else:",
            f"    c{flags}[{place}] = True",
            f"    c{column}[{place}] = item",
        ]
        return ScalarLeaf(scalar, column, flags)

    def _column(self, made: str) -> int:
        self.setup.append(f"c{len(self.columns)} = {made}")
        self.columns.append(f"c{len(self.columns)}")
        return len(self.columns) - 1

    def _list(self, kind: Any, value: str, writes: list[str]) -> Form:
        lengths = self._column("np.empty(count, np.int32)")
        end = f"end{lengths}"
        first = len(self.columns)
        stores: list[str] = []
        entry = self._entry(kind, f"{value}[place]", end, stores)
        buffers = range(first, len(self.columns))
        self.setup.append(f"{end} = 0")
        writes += [f"size = len({value})", f"c{lengths}[row] = size"]
        for buffer in buffers:
            writes += [
                f"if {end} + size > len(c{buffer}):",
                f"    larger = np.empty(2 * ({end} + size), c{buffer}.dtype)",
                f"    larger[:{end}] = c{buffer}[:{end}]",
                f"    c{buffer} = larger",
            ]
        writes += ["for place in range(size):", *(f"    {store}" for store in stores), f"    {end} += 1"]
        self.finish.append(f"width = c{lengths}.max() if count else 0")
        for buffer in buffers:
            self.finish += [
                f"d{buffer} = np.zeros((width, count), c{buffer}.dtype)",
                "start = 0",
                "for row in range(count):",
                f"    for place in range(c{lengths}[row]):",
                f"        d{buffer}[place, row] = c{buffer}[start + place]",
                f"    start += c{lengths}[row]",
            ]
            self.columns[buffer] = f"d{buffer}"
        return Repeat(lengths, entry)

    def _entry(self, kind: Any, value: str, end: str, stores: list[str]) -> Form:
        if isinstance(kind, numba_types.BaseTuple):
            return tuple(self._entry(part, f"{value}[{i}]", end, stores) for i, part in enumerate(kind.types))
        return self._leaf(kind, value, "2 * count", end, stores)


def _scalar(kind: Any) -> Kind:
    plain = numba_types.unliteral(kind)
    if isinstance(plain, numba_types.Boolean):
        return Kind.BOOL
    if isinstance(plain, numba_types.Integer):
        return Kind.INT
    if isinstance(plain, numba_types.Float):
        return Kind.FLOAT
    raise Unfit(f"its compiled form returns {kind}, which has no columns there")


def layout_of(kind: Any) -> ColumnLayout:
    """The layout for outputs of a numba type; Unfit where they have none."""
    writer, writes = _Writer(), list[str]()
    form = writer.form(kind, "value", writes)
    return ColumnLayout(form, tuple(writer.setup), tuple(writes), tuple(writer.finish), tuple(writer.columns))


# ------------------------------------------------------------------------------------------ from columns to Outputs


def outputs_of(layout: ColumnLayout, columns: Sequence[NDArray[Any]], count: int) -> Outputs:
    """The outputs that the loop wrote."""
    numbers: dict[Slot, NDArray[Any]] = {}
    for leaf, repeated in _leaves(layout.form):
        places = columns[leaf.column] if repeated else [columns[leaf.column]]
        numbers |= {_slot(leaf, place, len(columns)): column for place, column in enumerate(places)}
    shapes = {(lengths, 0): columns[lengths] for lengths in _repeats(layout.form)}
    for leaf, repeated in _leaves(layout.form):
        if leaf.flags is not None:
            places = columns[leaf.flags] if repeated else [columns[leaf.flags]]
            shapes |= {(leaf.flags, place): column for place, column in enumerate(places)}
    codes, occurring = _numbered(list(shapes.values()), count)
    names = tuple(shapes)
    templates = tuple(
        _template(layout, names, tuple(int(column[row]) for column in shapes.values())) for row in occurring
    )
    return Outputs(codes, templates, numbers)


def _leaves(form: Form, repeated: bool = False) -> Iterator[tuple[ScalarLeaf, bool]]:
    """The leaves, each with whether it is in a list."""
    if isinstance(form, ScalarLeaf):
        yield form, repeated
    elif isinstance(form, Repeat):
        yield from _leaves(form.entry, repeated=True)
    else:
        for part in form:
            yield from _leaves(part, repeated)


def _repeats(form: Form) -> Iterator[int]:
    """The columns of the lengths of all lists."""
    if isinstance(form, Repeat):
        yield form.lengths
    elif isinstance(form, tuple):
        for part in form:
            yield from _repeats(part)


def _slot(leaf: ScalarLeaf, place: int, columns: int) -> Slot:
    """The slot of a leaf, at a place of a list: the same whatever the lengths of the lists are."""
    return Slot(leaf.kind, place * columns + leaf.column)


def _numbered(shapes: Sequence[NDArray[Any]], count: int) -> tuple[NDArray[np.unsignedinteger[Any]], NDArray[np.intp]]:
    """For each row the number of its combination of lengths and flags, and for each number one of its rows."""
    combined, bound = np.zeros(count, dtype=np.int64), 1
    for column in shapes:
        longest = int(column.max(initial=0)) + 1
        if bound * longest > 2**62:
            _, combined = np.unique(combined, return_inverse=True)
            bound = count
        combined, bound = combined * longest + column, bound * longest
    if bound > MANY_LENGTHS:
        _, first, inverse = np.unique(combined, return_index=True, return_inverse=True)
        return inverse.astype(code_type(len(first))), first
    row_of = np.full(bound, -1, dtype=np.intp)
    row_of[combined] = np.arange(count)
    occurs = row_of >= 0
    number = (np.cumsum(occurs) - 1).astype(code_type(bound))
    return number[combined], row_of[occurs]


MANY_LENGTHS = 2**16


@functools.lru_cache(maxsize=4096)
def _template(layout: ColumnLayout, names: tuple[tuple[int, int], ...], values: tuple[int, ...]) -> Template:
    """The template of outputs with these lengths and flags, each named by its column and its place in a list."""
    shapes = dict(zip(names, values, strict=True))

    def tree(part: Form, place: int) -> Tree:
        if isinstance(part, tuple):
            return tuple(tree(branch, place) for branch in part)
        if isinstance(part, Repeat):
            return tuple(tree(part.entry, position) for position in range(shapes[part.lengths, 0]))
        if part.flags is not None and not shapes[part.flags, place]:
            return None
        return _slot(part, place, len(layout.columns))

    return Template(tree(layout.form, 0))


# ------------------------------------------------------------------------------------------------------------ compiled


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
        if isinstance(value, bool | int | float | str | tuple | None) and hashable(value):
            return type(value).__name__, value
        kept.append(value)
        return id(value)

    named, closed = _references(function)
    both = sorted([*named.items(), *closed.items()], key=lambda item: item[0])
    defaults = tuple(captured(value) for value in _defaults(function).values())
    return function.__code__, defaults, tuple((name, captured(value)) for name, value in both)


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
    raise Unfit(f"numba does not accept a {type(value).__name__}")


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
    raise Unfit("its data are a list that numba cannot hold; give numbers of one kind, or short lists of these")


_NUMBERS = frozenset({bool, int, float, np.bool_, np.int64, np.float64})
LONGEST_TUPLE = 64  # numba compiles the code anew for each length
