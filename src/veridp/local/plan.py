"""What is collected, and how: the oracle, its ε and its domain, as one document for users and servers; and reports
as columns of files."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridp.errors import BadInput
from veridp.local.frequency import GRR, OUE, SUE, Hadamard, SubsetSelection
from veridp.local.hashing import OLH, RAPPOR
from veridp.local.means import SR, BinnedGRR, LaplaceMean
from veridp.local.oracle import Counts, FrequencyOracle, Labelled, Oracle, Reports
from veridp.local.piecewise import HM, PM

# -------------------------------------------------------------------------------------------------------------- choice
# Which oracle to use for d values at ε: the one of least variance.


CANDIDATES: tuple[type[FrequencyOracle], ...] = (GRR, Hadamard, OLH, OUE, SubsetSelection, SUE)
VARIANCE_TOLERANCE = 1e-6  # relative: variances closer than this are equal


def choose(d: int, epsilon: float, *, report_bits: float = math.inf) -> FrequencyOracle:
    """The frequency oracle of least variance for d values, among those whose reports have at most so many bits.

    The variance is that of the estimate of a rare value; where it is the same, the smaller report decides.

    >>> choose(4, 1.0).name, choose(1000, 1.0, report_bits=70).name
    ('grr', 'olh')
    """
    fitting = [oracle for kind in CANDIDATES if (oracle := kind(d, epsilon)).report_bits <= report_bits]  # type: ignore[call-arg]
    if not fitting:
        raise BadInput(
            f"no oracle for {d} values has reports of {report_bits:g} bits; GRR needs {GRR(d, epsilon).report_bits}"
        )
    least = min(float(oracle.variance(1)) for oracle in fitting)
    best = [oracle for oracle in fitting if float(oracle.variance(1)) <= least * (1 + VARIANCE_TOLERANCE)]
    return min(best, key=lambda oracle: oracle.report_bits)


# ---------------------------------------------------------------------------------------------------------------- plan
# What is collected, and how: the oracle, its ε and its domain, as one document that users and servers share.


OF_LABELS: dict[str, type[FrequencyOracle]] = {
    kind.name: kind for kind in (GRR, SUE, OUE, OLH, Hadamard, SubsetSelection)
}
OF_NUMBERS: dict[str, type[SR] | type[PM] | type[HM] | type[LaplaceMean]] = {
    kind.name: kind for kind in (SR, PM, HM, LaplaceMean)
}
NAMES = (*OF_LABELS, RAPPOR.name, *OF_NUMBERS, BinnedGRR.name)


@dataclass(frozen=True, eq=False)
class Parsed:
    """The values of rows that could be used, which rows these are, and why the others could not."""

    values: NDArray[Any]
    rows: NDArray[np.int64]
    faults: dict[int, str]


@dataclass(frozen=True)
class Plan:
    """A named oracle with its ε, over `labels` or the numbers from `low` to `high`; `options` are its own settings."""

    oracle_name: str
    epsilon: float
    labels: tuple[str, ...] | None = None
    low: float | None = None
    high: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if self.oracle_name not in NAMES:
            raise BadInput(f"oracle {self.oracle_name!r} is unknown; use one of {', '.join(NAMES)}")
        if self.numeric and (self.low is None or self.high is None):
            raise BadInput(f"{self.oracle_name} collects numbers; give their range, e.g. --range 17,90")
        if not self.numeric and self.labels is None:
            raise BadInput(
                f"{self.oracle_name} collects labels; give them, e.g. --values red,green,blue or --values 0..99"
            )
        self.oracle  # noqa: B018  complains about what does not fit

    @classmethod
    def best(cls, epsilon: float, labels: Sequence[str] | None = None, ends: tuple[float, float] | None = None) -> Plan:
        """The plan of least variance for this domain."""
        if ends is not None:
            return cls(HM.name, epsilon, low=ends[0], high=ends[1])
        if labels is None:
            raise BadInput(
                "no domain; give labels, e.g. --values red,green,blue, or a range of numbers, e.g. --range 17,90"
            )
        return cls(choose(len(labels), epsilon).name, epsilon, tuple(labels))

    @property
    def numeric(self) -> bool:
        """Whether numbers are collected, not labels."""
        return self.oracle_name in OF_NUMBERS or self.oracle_name == BinnedGRR.name

    @cached_property
    def oracle(self) -> Oracle:
        """The oracle itself."""
        try:
            return self._made()
        except TypeError as error:
            raise BadInput(f"{self.oracle_name}: these settings do not fit: {dict(self.options)!r} ({error})") from None

    def _made(self) -> Oracle:
        if self.oracle_name in OF_NUMBERS:
            return OF_NUMBERS[self.oracle_name](self.low, self.high, self.epsilon, **self.options)  # type: ignore[arg-type]
        if self.oracle_name == BinnedGRR.name:
            given = {"size": 20, **self.options}
            return BinnedGRR(self.low, self.high, epsilon=self.epsilon, **given)  # type: ignore[arg-type]
        labels = self.labels or ()
        if self.oracle_name == RAPPOR.name:
            return RAPPOR(labels, self.epsilon, **self.options)
        return OF_LABELS[self.oracle_name](len(labels), self.epsilon, **self.options)  # type: ignore[call-arg]

    @cached_property
    def _labelled(self) -> Labelled:
        return Labelled(self.labels or ())

    def code(self, label: str) -> int:
        """The number of a label of the domain."""
        found = self._labelled.code(label)
        if found is None:
            raise BadInput(f"{label!r} is not in the domain; its labels begin {', '.join((self.labels or ())[:4])}")
        return found

    def parsed(self, texts: Sequence[Any]) -> Parsed:
        """The values of a column of texts or numbers, with what is wrong with the rows that have none."""
        if self.low is not None and self.high is not None:
            return parsed_numbers(texts, self.low, self.high)
        return self._codes(texts)

    def _codes(self, texts: Sequence[Any]) -> Parsed:
        code = self._labelled.code
        found = np.array([-1 if (c := code(str(text).strip())) is None else c for text in texts], dtype=np.int64)
        faults = {row: f"{str(texts[row])!r} is not in the domain" for row in np.flatnonzero(found < 0).tolist()}
        rows = np.flatnonzero(found >= 0)
        return Parsed(found[rows], rows, faults)

    # ---------------------------------------------------------------------------------------------- as a document

    def as_json(self) -> dict[str, object]:
        """The plan in the words of JSON."""
        document: dict[str, object] = {"oracle": self.oracle_name, "epsilon": self.epsilon}
        if self.labels is not None:
            document["values"] = list(self.labels)
        if self.numeric:
            document["range"] = [self.low, self.high]
        return document | ({"options": dict(self.options)} if self.options else {})

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Plan:
        """The plan that `as_json` wrote."""
        try:
            labels = document.get("values")
            low, high = document.get("range", (None, None))
            return cls(
                str(document["oracle"]),
                float(document["epsilon"]),
                None if labels is None else tuple(str(label) for label in labels),
                low,
                high,
                dict(document.get("options", {})),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            if isinstance(error, BadInput):
                raise
            raise BadInput(f"not a plan ({error!r}); make one with: veridp local perturb --save-plan") from None

    @classmethod
    def from_text(cls, text: str) -> Plan:
        """The plan that a JSON text holds."""
        try:
            return cls.from_json(json.loads(text))
        except json.JSONDecodeError as error:
            raise BadInput(f"not a plan: not JSON at line {error.lineno}; make one with --save-plan") from None


def parsed_numbers(texts: Sequence[Any], low: float = -math.inf, high: float = math.inf) -> Parsed:
    """The finite numbers between two ends that a column of texts or numbers holds."""
    numbers = np.array([_number(text) for text in texts], dtype=float)
    inside = np.isfinite(numbers) & (numbers >= low) & (numbers <= high)
    faults = {
        row: f"{str(texts[row])!r} is "
        + (f"not in [{low:g}, {high:g}]" if math.isfinite(numbers[row]) else "not a number")
        for row in np.flatnonzero(~inside).tolist()
    }
    rows = np.flatnonzero(inside)
    return Parsed(numbers[rows], rows, faults)


def _number(text: Any) -> float:
    try:
        return float(text)
    except (TypeError, ValueError):
        return math.nan


# ------------------------------------------------------------------------------------------------------------- columns
# Reports as named columns of numbers and bytes, and back: what files hold.


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
    if isinstance(entries, np.ndarray) and entries.dtype == np.uint8 and entries.shape[1:] == (width,):
        return np.ascontiguousarray(entries).view("<u8")
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
