"""What the local commands are given: the plan of a collection, by a file or by options; and columns of CSV, Parquet
and Arrow, read and written a batch at a time."""

from __future__ import annotations

import contextlib
import csv
import io
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console

from veridp.cli.options import literal, taking
from veridp.errors import BadInput, extra

if TYPE_CHECKING:
    from veridp.local.plan import Parsed, Plan


# ------------------------------------------------------------------------------------------------------------- options
# What the local commands are given: the plan of a collection, by a file or by options.


class OnError(StrEnum):
    """What to do about a row that cannot be used."""

    fail = "fail"
    skip = "skip"


class Format(StrEnum):
    """How a file is written."""

    csv = "csv"
    parquet = "parquet"
    arrow = "arrow"


Files = Annotated[
    list[Path] | None, typer.Argument(help="CSV, Parquet or Arrow files; - or nothing for standard input")
]
Column = Annotated[str | None, typer.Option(help="the column to read; may be left out where there is but one")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="the file to write; standard output if not given")]
FileFormat = Annotated[Format | None, typer.Option("--format", help="of the input; by its ending, else CSV")]
Errors = Annotated[
    OnError, typer.Option("--on-error", help="fail at the first bad row, or skip bad rows and count them")
]
Range = Annotated[str | None, typer.Option("--range", help="the ends between which numbers lie: low,high")]


def chosen_plan(
    plan: Annotated[
        Path | None, typer.Option("--plan", help="the plan of the collection, as --save-plan wrote it")
    ] = None,
    oracle: Annotated[
        str | None, typer.Option("--oracle", help="grr, oue, pm, …; the one of least variance if not given")
    ] = None,
    epsilon: Annotated[float | None, typer.Option("--epsilon", help="what a report may cost its user")] = None,
    labels: Annotated[
        str | None, typer.Option("--values", help="the labels: a,b,c or 0..99 or @file with one per line")
    ] = None,
    ends: Range = None,
    settings: Annotated[list[str] | None, typer.Option("--set", help="a setting of the oracle, as name=value")] = None,
) -> Plan:
    """The plan that the file holds, or the one that the options write out."""
    from veridp.local.plan import Plan

    if plan is not None:
        if any(option is not None for option in (oracle, epsilon, labels, ends, settings)):
            raise BadInput("--plan defines everything; leave out --oracle, --epsilon, --values, --range and --set")
        return Plan.from_text(text_of(plan))
    if epsilon is None:
        raise BadInput("no privacy budget; give --epsilon or --plan")
    domain = None if labels is None else chosen_labels(labels)
    pair = None if ends is None else chosen_ends(ends)
    options = _chosen_settings(settings)
    if oracle is None:
        if options:
            raise BadInput("--set is for an oracle; name it with --oracle")
        return Plan.best(epsilon, domain, pair)
    low, high = pair or (None, None)
    return Plan(oracle, epsilon, domain, low, high, options)


planned = taking(chosen_plan, "chosen")


def chosen_labels(text: str) -> tuple[str, ...]:
    """The labels that a text such as a,b,c or 0..99 or @file stands for."""
    if text.startswith("@"):
        return tuple(line for line in text_of(Path(text[1:])).splitlines() if line)
    if span := re.fullmatch(r"(-?\d+)\.\.(-?\d+)", text):
        return tuple(str(number) for number in range(int(span[1]), int(span[2]) + 1))
    return tuple(label.strip() for label in text.split(","))


def chosen_ends(text: str) -> tuple[float, float]:
    """The two numbers of a range."""
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        raise BadInput(f"--range {text!r} is not low,high; write for instance --range 17,90") from None
    return low, high


def _chosen_settings(settings: list[str] | None) -> dict[str, object]:
    chosen: dict[str, object] = {}
    for text in settings or []:
        name, equals, value = text.partition("=")
        if not equals:
            raise BadInput(f"--set {text!r} is not name=value; write for instance --set bits=128")
        chosen[name] = value if value.isalpha() else literal("--set", value)
    return chosen


def text_of(path: Path) -> str:
    """What a file holds, as text."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not text"
        raise BadInput(f"{path}: {reason}; give a file that can be read") from None


# -------------------------------------------------------------------------------------------------------------- tables
# Columns of CSV, Parquet and Arrow, read and written a batch at a time; every row knows its line.


BATCH = 1 << 16  # rows that are in memory at a time
STDIN = Path("-")
MAX_LISTED_FAULTS = 10


@dataclass(frozen=True)
class TableBatch:
    """Some rows: their lines (rows, counted from 1, in Parquet and Arrow), their columns, and faults by line."""

    source: str
    lines: Sequence[int]
    columns: Mapping[str, Sequence[Any]]
    faults: Mapping[int, str]
    share: float  # of the input that is behind it; 0 where its length is not known


@dataclass
class RowTally:
    """How many rows were read and how many of them could not be used; the first faults in full."""

    on_error: OnError
    read: int = 0
    skipped: int = 0
    listed: list[str] = field(default_factory=list)

    def fault(self, source: str, line: int, reason: str) -> None:
        """Note a bad row, or stop at it."""
        message = f"{source}:{line}: {reason}"
        if self.on_error is OnError.fail:
            raise BadInput(f"{message}; correct it, or skip such rows with --on-error skip")
        self.skipped += 1
        if len(self.listed) < MAX_LISTED_FAULTS:
            self.listed.append(message)

    def summary(self) -> str:
        """What was read, in a sentence or more."""
        lines = [f"{self.read:,} rows read, {self.skipped:,} skipped"]
        lines += [f"  {message}" for message in self.listed]
        if self.skipped > len(self.listed):
            lines.append(f"  … and {self.skipped - len(self.listed):,} more")
        return "\n".join(lines)


def tell(tally: RowTally) -> None:
    """Say on stderr how many rows were read and skipped."""
    Console(stderr=True, emoji=False).print(tally.summary(), markup=False, highlight=False, soft_wrap=True)


def usable(parse: Callable[[Sequence[Any]], Parsed], batch: TableBatch, tally: RowTally) -> NDArray[Any]:
    """The values of the batch's only column, as far as it can be parsed; its bad rows are noted."""
    (texts,) = batch.columns.values()
    parsed = parse(texts)
    faults = dict(batch.faults) | {batch.lines[row]: reason for row, reason in parsed.faults.items()}
    tally.read += len(batch.lines) + len(batch.faults)
    for line, reason in sorted(faults.items()):
        tally.fault(batch.source, line, reason)
    return parsed.values


def batches(
    paths: Sequence[Path] | None, names: Sequence[str] | None, form: Format | None, size: int = BATCH
) -> Iterator[TableBatch]:
    """The rows of all files in order, in batches; `names` are the columns wanted, None for the only one."""
    for path in paths or [STDIN]:
        kind = form or _by_ending(path)
        reader = _csv_batches if kind is Format.csv else _arrow_batches
        yield from reader(path, names, kind, size)


def _by_ending(path: Path) -> Format:
    ending = path.suffix.lower().removeprefix(".")
    return Format(ending) if ending in list(Format) else Format.csv


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    if path == STDIN:
        yield sys.stdin.buffer
        return
    try:
        file = path.open("rb")
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}; give a file that can be read") from None
    with file:
        yield file


@contextlib.contextmanager
def _opened_text(path: Path) -> Iterator[IO[str]]:
    """The text of a file. Spreadsheets put a mark before UTF-8; bytes that are none spoil their row alone."""
    with _opened(path) as file:
        text = io.TextIOWrapper(file, newline="", encoding="utf-8-sig", errors="replace")
        try:
            yield text
        finally:
            text.detach()  # standard input stays open


def named(paths: Sequence[Path] | None) -> str:
    """What the files are called together."""
    return ", ".join(map(_named, paths or [STDIN]))


def _named(path: Path) -> str:
    return "stdin" if path == STDIN else str(path)


# ------------------------------------------------------------------------------------------------------------ CSV


def _csv_batches(path: Path, names: Sequence[str] | None, kind: Format, size: int) -> Iterator[TableBatch]:
    source = _named(path)
    with _opened_text(path) as file:
        total = path.stat().st_size if path != STDIN and path.is_file() else 0
        behind = _Behind(file)
        reader = csv.reader(behind)
        header = next(reader, None)
        if header is None:
            raise BadInput(f"{source}: is empty; give a file with a header and a row for each user")
        chosen = _places(source, [name.strip() for name in header], names)
        rows: list[list[str]] = []
        lines: list[int] = []
        faults: dict[int, str] = {}
        last = max(chosen.values())
        while True:
            line = reader.line_num + 1
            try:
                row = next(reader)
            except StopIteration:
                break
            except csv.Error as error:
                faults[line] = f"{error}"
                continue
            if not row:
                continue
            if len(row) != len(header):
                faults[line] = f"has {len(row)} fields, the header has {len(header)}"
            if len(row) > last and line not in faults:
                rows.append(row)
                lines.append(line)
            if len(rows) + len(faults) >= size:
                yield _csv_batch(source, lines, rows, chosen, faults, behind.characters / total if total else 0.0)
                rows, lines, faults = [], [], {}
        yield _csv_batch(source, lines, rows, chosen, faults, 1.0)


class _Behind:
    """The lines of a file, counting the characters that went by."""

    def __init__(self, file: IO[str]) -> None:
        self._file, self.characters = file, 0

    def __iter__(self) -> Iterator[str]:
        for line in self._file:
            self.characters += len(line)
            yield line.replace("\0", "\N{REPLACEMENT CHARACTER}")  # the csv module stops at these


def _csv_batch(
    source: str, lines: list[int], rows: list[list[str]], chosen: dict[str, int], faults: dict[int, str], share: float
) -> TableBatch:
    columns = {name: [row[place] for row in rows] for name, place in chosen.items()}
    return TableBatch(source, lines, columns, faults, share)


def _places(source: str, header: list[str], names: Sequence[str] | None) -> dict[str, int]:
    """Where the wanted columns are."""
    if names is None:
        if len(header) != 1:
            raise BadInput(f"{source}: has columns {', '.join(header)}; select one with --column")
        return {header[0]: 0}
    if missing := [name for name in names if name not in header]:
        raise BadInput(f"{source}: has no column {', '.join(missing)}; it has {', '.join(header)}")
    return {name: header.index(name) for name in names}


# ---------------------------------------------------------------------------------------------- Parquet and Arrow


def pyarrow() -> Any:
    """The package that reads and writes Parquet and Arrow."""
    with extra("tables", "Parquet and Arrow need"):
        import pyarrow as package
        import pyarrow.ipc
        import pyarrow.parquet
    return package


def _arrow_batches(path: Path, names: Sequence[str] | None, kind: Format, size: int) -> Iterator[TableBatch]:
    package, source = pyarrow(), _named(path)
    if kind is Format.parquet and path == STDIN:
        raise BadInput("Parquet cannot be read from standard input (its index is at the end); give a file")
    with _opened(path) as file:
        try:
            stream = package.parquet.ParquetFile(file) if kind is Format.parquet else package.ipc.open_stream(file)
        except package.ArrowInvalid as error:
            raise BadInput(f"{source}: not a {kind} file ({str(error).splitlines()[0]})") from None
        schema = stream.schema_arrow if kind is Format.parquet else stream.schema
        chosen = list(_places(source, list(schema.names), names))
        total = stream.metadata.num_rows if kind is Format.parquet else 0
        parts = stream.iter_batches(size, columns=chosen) if kind is Format.parquet else iter(stream)
        done = 0
        for part in parts:
            for start in range(0, part.num_rows, size):
                rows = part.slice(start, size)
                columns = {name: _entries(rows.column(name)) for name in chosen}
                lines = range(done + 1, done + rows.num_rows + 1)
                done += rows.num_rows
                yield TableBatch(source, lines, columns, {}, done / total if total else 0.0)


def _entries(column: Any) -> Sequence[Any]:
    """The entries of an Arrow column: an array of numbers where nothing is missing, else Python's own."""
    if column.null_count == 0 and str(column.type) in _NUMBERS:
        found: Sequence[Any] = column.to_numpy(zero_copy_only=False)
        return found
    entries: list[Any] = column.to_pylist()
    return entries


_NUMBERS = {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)} | {"float", "double"}


# -------------------------------------------------------------------------------------------------------- writing


class Writer:
    """Writes batches of columns to a file, or to standard output, in the form that its ending says.

    The file is there once all is written: what ends early leaves none, and an older one as it was.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._kind = Format.csv if path is None else _by_ending(path)
        self._arrow: Any = None
        self._file: IO[Any] = sys.stdout
        self._begun = False

    @property
    def _unfinished(self) -> Path | None:
        """The file to write to until all is written; a pipe or device is written to at once."""
        if self._path is None or (self._path.exists() and not self._path.is_file()):
            return self._path
        return self._path.with_name(f"{self._path.name}.part")

    def __enter__(self) -> Writer:
        if self._path is not None and (path := self._unfinished) is not None:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                text = self._kind is Format.csv
                self._file = path.open("w", newline="", encoding="utf-8") if text else path.open("wb")
            except OSError as error:
                raise BadInput(f"--output {self._path}: {error.strerror}; give a file that can be written") from None
        return self

    def __exit__(self, kind: object, *rest: object) -> None:
        unfinished = self._unfinished
        if self._arrow is not None:
            self._arrow.close()
        if self._path is None or unfinished is None:
            return
        self._file.close()
        if unfinished != self._path:
            if kind is None:
                os.replace(unfinished, self._path)
            else:
                unfinished.unlink()

    def write(self, columns: Mapping[str, Any]) -> None:
        """Write the rows of these columns."""
        if self._kind is Format.csv:
            self._write_csv(columns)
        else:
            self._write_arrow(columns)

    def _write_csv(self, columns: Mapping[str, Any]) -> None:
        if not self._begun:
            self._file.write(",".join(columns) + "\n")
            self._begun = True
        texts = [_texts(column) for column in columns.values()]
        rows = texts[0] if len(texts) == 1 else map(",".join, zip(*texts, strict=True))
        if text := "\n".join(rows):
            self._file.write(text + "\n")

    def _write_arrow(self, columns: Mapping[str, Any]) -> None:
        package = pyarrow()
        arrays = {name: package.array(column, type=_arrow_type(package, column)) for name, column in columns.items()}
        batch = package.RecordBatch.from_pydict(arrays)
        if self._arrow is None:
            maker = package.parquet.ParquetWriter if self._kind is Format.parquet else package.ipc.new_stream
            self._arrow = maker(self._file, batch.schema)
        self._arrow.write_batch(batch)


def _texts(column: Any) -> list[str]:
    if isinstance(column, np.ndarray):
        return list(map(str, column.tolist()))
    return [entry.hex() if isinstance(entry, bytes) else str(entry) for entry in column]


def _arrow_type(package: Any, column: Any) -> Any:
    return package.binary() if isinstance(column, list) and (not column or isinstance(column[0], bytes)) else None
