"""Counts of reports made in parts: by files, by other engines, in streams; always those of all reports at once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veridp
from veridp.errors import BadInput
from veridp.local import GRR, HM, OLH, OUE, RAPPOR, Combiner, CountedReports, Oracle, count_parquet
from veridp.local.plan import to_columns

pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed; pip install 'veridp[tables]'")
from pyarrow import parquet  # noqa: E402 - once it is known to be there

USERS = 3000
ORACLES: dict[str, Oracle] = {
    "grr": GRR(5, 1.0),
    "oue": OUE(100, 1.0),
    "olh": OLH(100, 2.0),
    "rappor": RAPPOR(("a", "b", "c"), 2.0, bits=64),
    "hm": HM(-1.0, 1.0, 1.0),
}


def reported(oracle: Oracle) -> Any:
    rng = np.random.default_rng(1)
    values = rng.uniform(-1, 1, USERS) if isinstance(oracle, HM) else rng.integers(3, size=USERS)
    return oracle.perturb(values, rng)


def table(reports: Any) -> Any:
    columns = {
        name: pyarrow.array(column, pyarrow.binary()) if isinstance(column, list) else pyarrow.array(column)
        for name, column in to_columns(reports).items()
    }
    return pyarrow.table(columns)


@pytest.fixture(params=ORACLES)
def oracle(request: pytest.FixtureRequest) -> Oracle:
    return ORACLES[request.param]


@pytest.fixture
def lake(oracle: Oracle, tmp_path: Path) -> Path:
    return written(oracle, tmp_path)


def written(oracle: Oracle, folder: Path) -> Path:
    """Three files in two folders, one of them with two row groups."""
    rows = table(reported(oracle))
    (folder / "day=2").mkdir(parents=True)
    parquet.write_table(rows.slice(0, 1000), folder / "a.parquet", row_group_size=700)
    parquet.write_table(rows.slice(1000, 1), folder / "b.parquet")
    parquet.write_table(rows.slice(1001), folder / "day=2" / "c.parquet")
    return folder


def same(counted: CountedReports, oracle: Oracle, refused: int = 0) -> None:
    """The counts are those of all reports at once: exactly, or to rounding where they are sums of floats."""
    expected = oracle.aggregate(reported(oracle))
    assert (counted.counts.of, counted.counts.users, counted.refused) == (expected.of, expected.users, refused)
    if expected.sums.dtype.kind in "iu":
        assert np.array_equal(counted.counts.sums, expected.sums)
        assert counted.counts.sums.dtype == expected.sums.dtype
    else:
        assert counted.counts.sums == pytest.approx(expected.sums, rel=1e-12)
    assert Combiner(oracle).estimate(counted).values == pytest.approx(oracle.estimate(expected).values, rel=1e-9)


def test_batches_of_any_kind_add_up(oracle: Oracle) -> None:
    reports, combiner = reported(oracle), Combiner(oracle)
    rows = table(reports)
    parts = [reports[:700], to_columns(reports[700:701]), rows.slice(701, 999), *rows.slice(1700).to_batches(400)]
    counted = [combiner.count(part) for part in parts]
    same(sum(counted[::-1], combiner.zero), oracle)  # in any order
    same(combiner.total(iter(parts)), oracle)
    assert combiner.count(rows.slice(0, 0)) == combiner.zero


def read(engine: str, lake: Path, oracle: Oracle) -> None:
    same(count_parquet(oracle, lake, engine=engine, rows=300, workers=1), oracle)


def test_a_folder_of_parquet_is_counted_here_and_by_workers(lake: Path, oracle: Oracle) -> None:
    read("pyarrow", lake, oracle)
    if oracle.name == "grr":
        same(count_parquet(oracle, lake, rows=300, workers=2), oracle)


def test_the_same_by_duckdb(lake: Path, oracle: Oracle) -> None:
    pytest.importorskip("duckdb", reason="duckdb is not installed; pip install 'veridp[lake]'")
    read("duckdb", lake, oracle)


BY_POLARS = """
import runpy, sys
from pathlib import Path

these = runpy.run_path(sys.argv[1])
for name, oracle in these["ORACLES"].items():
    these["read"]("polars", these["written"](oracle, Path(sys.argv[2]) / name), oracle)
print("polars" in sys.modules)
"""


def test_the_same_by_polars(tmp_path: Path) -> None:
    """In a process of its own, for polars has threads."""
    if find_spec("polars") is None:
        pytest.skip("polars is not installed; pip install 'veridp[lake]'")
    words = [sys.executable, "-c", BY_POLARS, __file__, str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_reports_that_are_none_are_refused_and_counted() -> None:
    oracle = OUE(100, 1.0)
    good = to_columns(reported(oracle))["bits"]
    beyond = (np.uint64(1) << np.uint64(63)).tobytes()  # a bit past the 100 values, in the second word
    column = [b"short", *good, bytes(8) + beyond, None, bytes(24)]
    for batch in ({"bits": column}, pyarrow.table({"bits": pyarrow.array(column, pyarrow.binary())})):
        same(Combiner(oracle).count(batch), oracle, refused=4)
    with pytest.raises(BadInput, match=r"reports have columns \['bits'\], but \['bits'\] are not there"):
        Combiner(oracle).count({"seed": [1]})
    with pytest.raises(BadInput, match="cannot be added"):
        _ = Combiner(oracle).zero + Combiner(OUE(100, 2.0)).zero


def test_whole_decimals_are_integers() -> None:
    """As Spark reads unsigned integers of 64 bits; a negative one is refused by itself."""
    oracle = ORACLES["olh"]
    columns = to_columns(reported(oracle))
    seeds = [Decimal(int(seed)) for seed in columns["seed"]]
    kind = pyarrow.decimal128(20, 0)
    whole = pyarrow.table({**columns, "seed": pyarrow.array(seeds, kind)})
    same(Combiner(oracle).count(whole), oracle)
    more = {
        **{name: [*column, column[0]] for name, column in columns.items()},
        "seed": pyarrow.array([*seeds, Decimal(-1)], kind),
    }
    same(Combiner(oracle).count(pyarrow.table(more)), oracle, refused=1)


def test_what_is_not_there_or_not_parquet_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no Parquet file there"):
        count_parquet(GRR(3, 1.0), tmp_path)
    (tmp_path / "x.parquet").write_bytes(b"no")
    with pytest.raises(BadInput, match=r"x\.parquet: cannot be read as reports of GRR"):
        count_parquet(GRR(3, 1.0), tmp_path)
    with pytest.raises(BadInput, match="engine = 'pandas' is unknown; use one of pyarrow, duckdb, polars"):
        count_parquet(GRR(3, 1.0), tmp_path, engine="pandas")


def test_beam_combines_on_its_direct_runner(oracle: Oracle) -> None:
    beam = pytest.importorskip("apache_beam", reason="Beam is not installed; pip install 'veridp[beam]'")
    from apache_beam.testing.util import assert_that

    def check(found: list[CountedReports]) -> None:
        (counted,) = found
        same(counted, oracle)

    batches = table(reported(oracle)).to_batches(500)
    with beam.Pipeline("DirectRunner") as pipeline:
        counted = pipeline | beam.Create(batches) | beam.CombineGlobally(veridp.local.beam_combiner(oracle))
        assert_that(counted, check)


@pytest.fixture(scope="module")
def spark() -> Any:
    sql = pytest.importorskip("pyspark.sql", reason="pyspark is not installed; pip install pyspark")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java, which is not installed")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    yield session
    session.stop()


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of Spark, about pandas
def test_spark_counts_a_frame_and_a_stream(lake: Path, oracle: Oracle, spark: Any, tmp_path: Path) -> None:
    frame = spark.read.option("recursiveFileLookup", "true").parquet(str(lake))
    same(veridp.local.from_rows(oracle, veridp.local.spark_counts(oracle, frame).collect()), oracle)
    if oracle.name != "oue":
        return
    stream = spark.readStream.schema(frame.schema).option("recursiveFileLookup", "true")
    counts = veridp.local.spark_counts(oracle, stream.option("maxFilesPerTrigger", "1").parquet(str(lake)))
    query = counts.writeStream.outputMode("complete").format("memory").queryName("counts")
    query.trigger(availableNow=True).start().awaitTermination()
    same(veridp.local.from_rows(oracle, spark.table("counts").collect()), oracle)
