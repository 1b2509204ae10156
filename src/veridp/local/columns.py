"""Reports as named columns of numbers and bytes, and back: what files hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridp.errors import BadInput
from veridp.local.estimate import Counts
from veridp.local.oracle import Oracle, Reports

Column = NDArray[Any] | list[bytes]
WHOLE = "report"  # the name of the column where a report is one number
BITS = "bits"


def template(oracle: Oracle) -> Reports:
    """A batch of no reports, which shows their type."""
    empty: NDArray[Any] = np.empty(0, dtype=np.int64)
    return oracle.perturb(empty, np.random.default_rng(0))


def to_columns(reports: Reports) -> dict[str, Column]:
    """The reports by column: their fields, or the numbers themselves; bits as bytes."""
    if reports.dtype.names:
        return {name: _column(reports[name]) for name in reports.dtype.names}
    return {BITS if reports.ndim > 1 else WHOLE: _column(reports)}


def _column(part: NDArray[Any]) -> Column:
    if part.ndim == 1:
        return part
    width = part.shape[1] * 8
    data = np.ascontiguousarray(part).astype("<u8", copy=False).tobytes()
    return [data[start : start + width] for start in range(0, len(data), width)]


def column_names(like: Reports) -> list[str]:
    """The columns that reports of this type have."""
    return list(to_columns(like))


def from_columns(like: Reports, columns: Mapping[str, Sequence[Any]]) -> tuple[Reports, dict[int, str]]:
    """The reports that the columns hold, and what is wrong with rows that hold none; these are zero in the reports.

    Entries may be texts (as in CSV: numbers, hexadecimal bytes), numbers or bytes.
    """
    count = len(next(iter(columns.values())))
    reports = np.zeros((count, *like.shape[1:]), dtype=like.dtype)
    faults: dict[int, str] = {}
    for name in column_names(like):
        part = reports[name] if like.dtype.names else reports
        _fill(part, columns[name], name, faults)
    return reports, faults


def _fill(part: NDArray[Any], entries: Sequence[Any], name: str, faults: dict[int, str]) -> None:
    """Set the part to the entries: all at once where all are well-formed, else row by row."""
    convert = _as_words if part.ndim > 1 else _as_numbers
    try:
        part[...] = convert(entries, part)
    except (TypeError, ValueError, OverflowError):
        for row, entry in enumerate(entries):
            try:
                part[row] = convert([entry], part[:1])[0]
            except (TypeError, ValueError, OverflowError):
                faults.setdefault(row, f"{name} = {entry!r} is not one")


def _as_numbers(entries: Sequence[Any], part: NDArray[Any]) -> NDArray[Any]:
    if part.dtype.kind == "b":
        entries = [
            {"True": True, "true": True, "1": True, "False": False, "false": False, "0": False}[str(e)] for e in entries
        ]
    numbers = np.asarray(entries)
    if numbers.dtype.kind in "US":
        wide: Any = np.uint64 if part.dtype.kind == "u" else np.int64 if part.dtype.kind == "i" else np.float64
        numbers = numbers.astype(wide)
    if part.dtype.kind in "iu":
        limits = np.iinfo(part.dtype)
        if numbers.dtype.kind not in "iu" or (
            len(numbers) and not limits.min <= numbers.min() <= numbers.max() <= limits.max
        ):
            raise ValueError("not whole numbers of this size")
    return numbers


def _as_words(entries: Sequence[Any], part: NDArray[Any]) -> NDArray[np.uint64]:
    width = part.shape[1] * 8
    rows = [bytes.fromhex(entry) if isinstance(entry, str) else bytes(entry) for entry in entries]
    if any(len(row) != width for row in rows):
        raise ValueError("not the right number of bytes")
    return np.frombuffer(b"".join(rows), dtype="<u8").reshape(-1, part.shape[1])


def aggregated(oracle: Oracle, reports: Reports) -> tuple[Counts, dict[int, str]]:
    """The counts of all reports that the oracle accepts, and why it does not accept the others."""
    faults: dict[int, str] = {}
    total = oracle.aggregate(reports[:0])
    for part, fault in _accepted(oracle, reports, 0):
        if isinstance(fault, str):
            faults[part] = fault
        else:
            total = total + fault
    return total, faults


def _accepted(oracle: Oracle, reports: Reports, first: int) -> Iterator[tuple[int, Counts | str]]:
    """Counts of parts of the reports, or the fault of a single one: halves, and halves of halves, where one is bad."""
    try:
        yield first, oracle.aggregate(reports)
    except BadInput as error:
        if len(reports) == 1:
            yield first, str(error).removeprefix(f"{oracle}: ")
            return
        middle = len(reports) // 2
        yield from _accepted(oracle, reports[:middle], first)
        yield from _accepted(oracle, reports[middle:], first + middle)
