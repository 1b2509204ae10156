"""Reports at the size of a data lake: counts of parts, made anywhere and merged; of Parquet files, in Beam and Spark.

Counts add up exactly where they are integers, so it does not matter who counted which reports, nor in which order.
Reports are in the columns that `veridp local perturb` writes. Memory is bounded by a batch of reports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from veridp.errors import BadInput, extra
from veridp.local.oracle import CHUNK, Counts, Estimate, Oracle, Reports
from veridp.local.plan import aggregated, column_names, from_columns, template
from veridp.sampling.worker_pool import WorkerPool

PLACE, SUM = "place", "sum"  # the columns of counts in a table
USERS, REFUSED = -1, -2  # the places of these two in it


@dataclass(frozen=True, eq=True)
class CountedReports:
    """The counts of the reports that the oracle accepts, and how many others there were: malformed, or not its own."""

    counts: Counts
    refused: int = 0

    def __add__(self, other: CountedReports) -> CountedReports:
        return CountedReports(self.counts + other.counts, self.refused + other.refused)


@dataclass(frozen=True)
class Combiner:
    """Counts reports of an oracle batch by batch, and merges the counts of batches.

    A batch is an array of reports, a mapping of columns, or a table that speaks Arrow: of pyarrow, Polars, DuckDB, ….

    >>> import numpy as np
    >>> from veridp.local import GRR
    >>> grr, rng = GRR(3, 2.0), np.random.default_rng(1)
    >>> combiner = Combiner(grr)
    >>> monday, tuesday = (combiner.count(grr.perturb([0, 0, 1], rng)) for _ in range(2))
    >>> (monday + tuesday).counts.users
    6
    """

    oracle: Oracle

    @cached_property
    def _like(self) -> Reports:
        return template(self.oracle)

    @property
    def columns(self) -> list[str]:
        """The columns that reports of this oracle have in tables."""
        return column_names(self._like)

    @property
    def zero(self) -> CountedReports:
        return CountedReports(self.oracle.aggregate(self._like))

    def count(self, batch: Any) -> CountedReports:
        """The counts of a batch; reports that the oracle does not accept are counted as refused."""
        reports, bad = (batch, 0) if isinstance(batch, np.ndarray) else self._reports(batch)
        counts, faults = aggregated(self.oracle, reports)
        return CountedReports(counts, bad + len(faults))

    def total(self, batches: Iterable[Any]) -> CountedReports:
        """The counts of all batches, of which one is held at a time."""
        return sum(map(self.count, batches), self.zero)

    def estimate(self, counted: CountedReports) -> Estimate:
        return self.oracle.estimate(counted.counts)

    def _reports(self, batch: Any) -> tuple[Reports, int]:
        """The reports in the columns of a batch, and how many rows hold none."""
        columns = dict(batch) if isinstance(batch, Mapping) else _arrow_columns(batch, self.columns)
        if missing := [name for name in self.columns if name not in columns]:
            raise BadInput(f"{self.oracle}: reports have columns {self.columns}, but {missing} are not there")
        if not len(columns[self.columns[0]]):
            return self._like, 0
        reports, faults = from_columns(self._like, columns)
        return (np.delete(reports, list(faults), axis=0) if faults else reports), len(faults)


def _arrow_columns(batch: Any, names: Sequence[str]) -> dict[str, Any]:
    """The columns of a table that speaks Arrow, without a Python object for each entry where nothing is missing."""
    with extra("tables", "tables of reports need"):
        import pyarrow
    table = batch if isinstance(batch, pyarrow.Table) else pyarrow.table(batch)
    return {name: _entries(table.column(name).combine_chunks()) for name in names if name in table.column_names}


def _entries(column: Any) -> Any:
    import pyarrow

    if pyarrow.types.is_decimal(column.type) and column.type.scale == 0:  # Spark has unsigned integers of 64 bits so
        try:
            column = column.cast(pyarrow.uint64())
        except pyarrow.ArrowInvalid:  # some are none
            return [None if entry is None else int(entry) for entry in column.to_pylist()]
    kind = column.type
    if column.null_count or len(column) == 0:
        return column.to_pylist()
    if pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind):
        return column.to_numpy(zero_copy_only=False)
    if pyarrow.types.is_large_binary(kind) or pyarrow.types.is_binary(kind):
        ends = np.frombuffer(column.buffers()[1], dtype=np.int64 if pyarrow.types.is_large_binary(kind) else np.int32)
        ends = ends[column.offset : column.offset + len(column) + 1]
        width = int(ends[1] - ends[0])
        if width and width % 8 == 0 and bool((np.diff(ends) == width).all()):
            content = np.frombuffer(column.buffers()[2], dtype=np.uint8)[ends[0] : ends[-1]]
            return content.reshape(len(column), width)
    return column.to_pylist()


# -------------------------------------------------------------------------------------------------------------- Parquet


def count_parquet(
    oracle: Oracle,
    source: str | Path,
    *,
    engine: str = "pyarrow",
    rows: int = CHUNK,
    executor: Executor | None = None,
    workers: int | None = None,
) -> CountedReports:
    """The counts of the reports in a Parquet file, or in all such files of a folder and its subfolders.

    Each file is a task, for a thread on each core (or so many `workers`), or for an `executor` whose workers see the
    same files; each holds `rows` at a time. They are read by `engine`: "pyarrow", "duckdb" or "polars".
    """
    if engine not in READERS:
        raise BadInput(f"engine = {engine!r} is unknown; use one of {', '.join(READERS)}")
    place = Path(source)
    files = sorted(place.rglob("*.parquet")) if place.is_dir() else [place]
    if not files or not all(file.is_file() for file in files):
        raise BadInput(f"{source}: no Parquet file there; give a file, or a folder with files that end in .parquet")
    task = ParquetTask(Combiner(oracle), engine, rows)
    size = workers if workers is not None or executor is not None or len(files) > 1 else 1
    with WorkerPool(task, executor, size, threads=True) as pool:  # what counts lets go of the interpreter
        return sum(pool.results(ParquetTask.count, map(str, files)), task.combiner.zero)


@dataclass(frozen=True)
class ParquetTask:
    """Counts the reports of one file."""

    combiner: Combiner
    engine: str
    rows: int

    def count(self, file: str) -> CountedReports:
        try:
            batches = READERS[self.engine](file, self.combiner.columns, self.rows)
            return self.combiner.total(batches)
        except (OSError, ValueError, KeyError) as error:
            if isinstance(error, BadInput):
                raise
            raise BadInput(f"{file}: cannot be read as reports of {self.combiner.oracle}: {error}") from None


def _by_pyarrow(file: str, names: Sequence[str], rows: int) -> Iterator[Any]:
    with extra("tables", "Parquet needs"):
        from pyarrow import parquet
    with closing(parquet.ParquetFile(file)) as opened:
        yield from opened.iter_batches(rows, columns=list(names))


def _by_duckdb(file: str, names: Sequence[str], rows: int) -> Iterator[Any]:
    with extra("lake", "engine = 'duckdb' needs"):
        import duckdb
    columns = ", ".join(f'"{name}"' for name in names)
    with closing(duckdb.connect(config={"threads": 1})) as session:
        query = f"SELECT {columns} FROM read_parquet(?)"  # noqa: S608 - names of an oracle's columns
        yield from session.sql(query, params=[file]).to_arrow_reader(rows)


def _by_polars(file: str, names: Sequence[str], rows: int) -> Iterator[Any]:
    with extra("lake", "engine = 'polars' needs"):
        import polars
    yield from polars.scan_parquet(file).select(names).collect_batches(chunk_size=rows)


READERS: dict[str, Callable[[str, Sequence[str], int], Iterator[Any]]] = {
    "pyarrow": _by_pyarrow,
    "duckdb": _by_duckdb,
    "polars": _by_polars,
}


# ----------------------------------------------------------------------------------------------------------------- Beam


def beam_combiner(oracle: Oracle) -> Any:
    """A Beam `CombineFn` from batches of reports to CountedReports: `batches | beam.CombineGlobally(…)`.

    Its elements are batches as `Combiner.count` takes them, such as the tables of `ReadFromParquetBatched`.
    """
    with extra("beam", "a Beam CombineFn needs"):
        import apache_beam
    combiner = Combiner(oracle)

    class CombineReports(apache_beam.CombineFn):  # type: ignore[misc]
        def create_accumulator(self) -> CountedReports:
            return combiner.zero

        def add_input(self, counted: CountedReports, batch: Any) -> CountedReports:
            return counted + combiner.count(batch)

        def merge_accumulators(self, parts: Iterable[CountedReports]) -> CountedReports:
            return sum(parts, combiner.zero)

        def extract_output(self, counted: CountedReports) -> CountedReports:
            return counted

    return CombineReports()


# ---------------------------------------------------------------------------------------------------------------- Spark


def spark_counts(oracle: Oracle, reports: Any) -> Any:
    """A Spark DataFrame of counts, a row for each place, of a DataFrame of reports, which may be a stream.

    `from_rows` makes CountedReports of its rows. Of a stream, write it with `outputMode("complete")`.
    """
    combiner = Combiner(oracle)
    kind = "long" if combiner.zero.counts.sums.dtype.kind in "iu" else "double"

    def partial(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow

        counted = combiner.total(batches)
        sums = counted.counts.sums.ravel()
        places = np.concatenate([[USERS, REFUSED], np.arange(len(sums))])
        numbers = np.concatenate([np.array([counted.counts.users, counted.refused], dtype=sums.dtype), sums])
        yield pyarrow.RecordBatch.from_arrays([pyarrow.array(places), pyarrow.array(numbers)], names=[PLACE, SUM])

    columns = reports.select(*combiner.columns)
    parts = columns.mapInArrow(partial, f"{PLACE} long, {SUM} {kind}")
    return parts.groupBy(PLACE).sum(SUM).withColumnRenamed(f"sum({SUM})", SUM)


def from_rows(oracle: Oracle, rows: Iterable[Any]) -> CountedReports:
    """The counts in rows of place and sum, as `spark_counts` has them once they are collected."""
    found = {int(row[PLACE]): row[SUM] for row in rows}
    zero = Combiner(oracle).zero.counts
    sums = np.zeros(zero.sums.size, dtype=zero.sums.dtype)
    for place in range(len(sums)):
        sums[place] = found.get(place, 0)
    counts = Counts(zero.of, int(found.get(USERS, 0)), sums.reshape(zero.sums.shape))
    return CountedReports(counts, int(found.get(REFUSED, 0)))
