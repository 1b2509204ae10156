"""Outputs from the Python values, or the array, that a mechanism returned; the one-by-one reading; and events, which
are sets of outputs."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridp.errors import INTERRUPTING, BadOutput, VeridpError
from veridp.kernel.output import DTYPES, KINDS, Kind, Slot, Template, Tree, failed, kind_of, kind_of_dtype, output_of
from veridp.kernel.returned import constant, tree_of
from veridp.sampling.outputs import OutputRows, Outputs, assemble

# -------------------------------------------------------------------------------------------------------------- encode
# Outputs from the Python values, or from the array, that a mechanism returned.


class _Group:
    """Rows of one form."""

    def __init__(self, template: Template) -> None:
        self.template = template
        self.rows: list[int] = []
        self.numbers: list[Sequence[Any]] = []  # for each row the values of its slots, from left to right


def encode(values: Sequence[object]) -> Outputs:
    """The values as Outputs; BadOutput where one of them has no columns."""
    groups: dict[Any, _Group] = {}
    for row, value in enumerate(values):
        # A flat list of numbers, the usual output, is recognised by its types alone.
        flat = type(value) is list or type(value) is tuple
        key: Any = tuple(map(type, value)) if flat else type(value)  # type: ignore[call-overload]
        group = groups.get(key)
        if group is None or isinstance(group, _Mixed):
            key, numbers = _signature(value, key, groups)
            group = groups[key]
        else:
            numbers = value if flat else (value,)  # type: ignore[assignment]
        group.rows.append(row)
        group.numbers.append(numbers)
    parts = [_part(group, len(values)) for group in groups.values() if not isinstance(group, _Mixed)]
    return assemble(parts, len(values))


class _Mixed(_Group):
    """Marks types of entries that do not tell the form by themselves: strings or None among them, or nesting."""


def _signature(value: object, types: Any, groups: dict[Any, _Group]) -> tuple[Any, Sequence[Any]]:
    """The key of the value's group, made where there is none yet, and the numbers of the value."""
    leaves: list[Any] = []
    nested = _types(value, leaves)
    template = _template_of(nested) if len(leaves) <= MANY_LEAVES else None
    numbers = [leaf for leaf in leaves if leaf is not None]
    if template is None:
        template, numbers = _opened(value)
    entries = value if type(value) is list or type(value) is tuple else (value,)
    told_by_types = len(entries) == len(template.slots) and all(kind_of(entry) in DTYPES for entry in entries)
    key = types if told_by_types else template
    if not told_by_types and types not in groups:
        groups[types] = _Mixed(template)
    if key not in groups:
        groups[key] = _Group(template)
    return key, numbers


def _opened(value: object) -> tuple[Template, list[Any]]:
    """The template and the numbers of any output."""
    numbers: list[Any] = []
    counts: dict[Kind, int] = {}

    def leaf(scalar: Any, kind: Kind) -> Tree:
        if kind not in DTYPES:
            return constant(scalar)
        numbers.append(scalar)
        return _slot(kind, counts)

    return Template(tree_of(value, leaf, lambda _: None)), numbers


def _slot(kind: Kind, counts: dict[Kind, int]) -> Slot:
    """The next slot of this kind."""
    counts[kind] = counts.get(kind, -1) + 1
    return Slot(kind, counts[kind])


def _types(value: object, leaves: list[Any]) -> Any:
    """The types of what the value's lists and tuples hold, nested as these are; adds what they hold to the leaves."""
    if type(value) is not list and type(value) is not tuple:
        leaves.append(value)
        return type(value)
    types = tuple(map(type, value))
    if list in types or tuple in types:
        return tuple([_types(entry, leaves) for entry in value])
    leaves += value or (None,)  # so that the leaves are as many as the lists, at least
    return types


@functools.lru_cache(maxsize=4096)
def _template_of(types: Any) -> Template | None:
    """The template of values of these types; None where they do not tell it: a text, say, is a part of it."""
    counts: dict[Kind, int] = {}

    def tree(part: Any) -> Tree:
        if isinstance(part, tuple):
            return tuple(map(tree, part))
        kind = KINDS.get(part)
        if kind is Kind.NONE:
            return None
        if kind is None or kind not in DTYPES:
            raise LookupError
        return _slot(kind, counts)

    try:
        return Template(tree(types))
    except LookupError:
        return None


MANY_LEAVES = 64  # templates of longer outputs are not kept


def _part(group: _Group, count: int) -> OutputRows:
    columns = zip(*group.numbers, strict=True)
    numbers = [_numbers(values, slot) for slot, values in zip(group.template.slots, columns, strict=True)]
    rows = None if len(group.rows) == count else np.array(group.rows, dtype=np.intp)
    return OutputRows(group.template, rows, dict(zip(group.template.slots, numbers, strict=True)))


def _numbers(values: Sequence[Any], slot: Slot) -> NDArray[Any]:
    try:
        return np.array(values, dtype=DTYPES[slot.kind])
    except OverflowError:
        large = next(value for value in values if not -(2**63) <= value < 2**63)
        raise BadOutput(f"returned {large}, beyond 64-bit integers; return it as a float or as a string") from None


def encode_array(array: NDArray[Any]) -> Outputs:
    """Outputs from an array whose first axis counts them."""
    kind = kind_of_dtype(array.dtype)
    if kind is None or array.ndim == 0:
        return encode(array.tolist())
    flat = array.reshape(len(array), -1)
    slots = [Slot(kind, index) for index in range(flat.shape[1])]
    if array.dtype == np.uint64 and flat.size and flat.max() > np.uint64(2**63 - 1):
        raise BadOutput(f"returned {flat.max()}, beyond 64-bit integers; return it as a float or as a string")
    columns = {slot: np.ascontiguousarray(flat[:, slot.index], dtype=DTYPES[kind]) for slot in slots}
    tree = _shaped(slots, array.shape[1:])
    return Outputs(np.zeros(len(array), dtype=np.uint8), (Template(tree),), columns)


def _shaped(leaves: Sequence[Tree], shape: tuple[int, ...]) -> Tree:
    """The leaves as nested tuples of this shape."""
    if not shape:
        return leaves[0]
    step = len(leaves) // shape[0] if shape[0] else 0
    return tuple(_shaped(leaves[start * step : (start + 1) * step], shape[1:]) for start in range(shape[0]))


# ---------------------------------------------------------------------------------------------------------- one by one
# The one-by-one reading: the plain function, called once for each output.


def scalar_outputs(function: Callable[[Any, Any], Any], data: object, rng: np.random.Generator, count: int) -> Outputs:
    """`count` outputs of the function, one after the other from one generator; a run that raises has an output too."""
    return encode(scalar_values(function, data, rng, count))


def scalar_values(
    function: Callable[[Any, Any], Any], data: object, rng: np.random.Generator, count: int
) -> list[object]:
    """The same as the values that the function returned."""
    return [output_of(function, rng, data) for _ in range(count)]


def vectorised_outputs(
    function: Callable[[Any, Any, int], Any], data: object, rng: np.random.Generator, count: int
) -> Outputs:
    """`count` outputs from the author's own function of `(rng, data, count)`.

    It returns an array whose first axis counts the outputs, or a sequence of outputs, or Outputs.
    """
    try:
        returned = function(rng, data, count)
    except VeridpError:
        raise
    except INTERRUPTING:
        raise
    except BaseException as error:  # it does not say which output
        raise failed(error) from error
    scalar = isinstance(returned, np.ndarray) and returned.ndim == 0
    if scalar or not isinstance(returned, np.ndarray | list | tuple | Outputs):
        raise BadOutput(
            f"its vectorised function returned {type(returned).__name__}; "
            f"return an array whose first axis counts the outputs, or a list of outputs"
        )
    if len(returned) != count:
        raise BadOutput(f"its vectorised function returned {len(returned)} outputs where {count} were asked for")
    if isinstance(returned, Outputs):
        return returned
    return encode_array(returned) if isinstance(returned, np.ndarray) else encode(returned)


# -------------------------------------------------------------------------------------------------------------- events
# Events: sets of outputs. Each engine has its own kind; all print as a sentence and can be evaluated on outputs.


class OutputEvent(ABC):
    """A set of outputs, such as a witness names."""

    @abstractmethod
    def __call__(self, outputs: Outputs) -> NDArray[np.bool_]:
        """Which of the outputs belong to it."""

    @abstractmethod
    def __str__(self) -> str:
        """A sentence about the output, which is true where it belongs to the event."""

    def holds(self, output: Any) -> bool:
        """Whether an output, as a mechanism returns it, belongs to the event."""
        return bool(self(encode([output]))[0])

    def count(self, outputs: Outputs) -> int:
        """How many of the outputs belong to it."""
        return int(np.count_nonzero(self(outputs)))
