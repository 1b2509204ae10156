"""Data frames of pandas and polars as data and as outputs, with neighbours by row."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
import pytest

import veridp
from veridp.errors import BadInput

CITIES = ["Basel", "Bern"]
COLUMNS: dict[str, list[Any]] = {"age": [20, 35, 64], "city": ["Bern", "Basel", "Basel"]}
PANDAS = pd.DataFrame(COLUMNS)


def total_age(rng, people):
    return people["age"].sum() + rng.laplace(scale=44.0)


def city_counts(rng, people):
    return people["city"].value_counts().reindex(CITIES, fill_value=0) + rng.laplace(scale=2.0, size=2)


def city_counts_by_name(people):
    sizes = people.groupby("city").size()
    return {city: float(sizes.get(city, 0)) + np.random.laplace(scale=2.0) for city in CITIES}  # noqa: NPY002


def cities_seen(rng, people):
    counts = people["city"].value_counts().sort_index()
    return counts + rng.laplace(scale=2.0, size=len(counts))


def ages_by_city(rng, people):
    ages = people.groupby("city")["age"].sum().reindex(CITIES, fill_value=0).reset_index()
    ages["age"] += rng.laplace(scale=64.0, size=2)
    return ages


# By hand: an age moves by up to 44; one person more or less changes one count, another person two; ages of 64 in Basel
# and of 20 in Bern are exchanged for one another.
@pytest.mark.parametrize(
    ("function", "example", "adjacency", "truth"),
    [
        (total_age, PANDAS, "replace", 1.0),
        (total_age, PANDAS, "add-remove", 64 / 44),
        (city_counts, PANDAS, "replace", 1.0),
        (city_counts, PANDAS, "add-remove", 0.5),
        (city_counts_by_name, PANDAS, "replace", 1.0),
        (cities_seen, PANDAS, "replace", np.inf),
        (ages_by_city, PANDAS, "replace", 84 / 64),
    ],
)
def test_costs_of_mechanisms_on_frames(function: Any, example: Any, adjacency: str, truth: float) -> None:
    settings: dict[str, Any] = {"adjacency": adjacency, "size": 2, "domain": example}
    assert veridp.prove(function, **settings).epsilon == pytest.approx(truth)
    assert veridp.exact.worst(function, **settings).epsilon == pytest.approx(truth)


IN_POLARS = """
import polars as pl
import veridp

PEOPLE = pl.DataFrame({"age": [20, 35, 64], "city": ["Bern", "Basel", "Basel"]})

def total_age(rng, people):
    return people["age"].sum() + rng.laplace(scale=44.0)

def city_counts(rng, people):
    counts = dict(people.group_by("city").len().iter_rows())
    return [counts.get(city, 0) + rng.laplace(scale=2.0) for city in ("Basel", "Bern")]

PEOPLE.group_by("city").len()  # polars has threads from here on
rows = veridp.Rows(PEOPLE)
print(rows.frame(list(rows)).equals(PEOPLE), rows.frame([]).schema == PEOPLE.schema)
for function, adjacency in ((total_age, "replace"), (city_counts, "add-remove")):
    print(veridp.audit(function, 1.0, adjacency=adjacency, size=2, domain=PEOPLE))
"""


@pytest.mark.skipif(find_spec("polars") is None, reason="polars is not installed: with it, nothing is forked")
def test_polars_is_audited_in_a_process_in_which_it_has_threads() -> None:
    ran = subprocess.run([sys.executable, "-c", IN_POLARS], capture_output=True, text=True, check=False)  # noqa: S603
    assert (ran.stderr, ran.stdout.splitlines()) == (
        "",
        ["True True", "total_age: 1-DP is PROVED, ε = 1", "city_counts: 1-DP is PROVED, ε = 0.5"],
    )


def test_bounds_of_a_column_are_values_too() -> None:
    rows = veridp.Rows(PANDAS.head(1), age=(0, 100))
    assert list(rows) == [(20, "Bern"), (0.0, "Bern"), (100.0, "Bern")]
    assert veridp.prove(total_age, adjacency="replace", size=1, domain=rows).epsilon == pytest.approx(100 / 44)
    with pytest.raises(BadInput, match=r"no column 'income'; the columns are age, city"):
        veridp.Rows(PANDAS, income=(0, 1))


def test_a_frame_may_be_drawn() -> None:
    def people(rng: np.random.Generator) -> pd.DataFrame:
        return pd.DataFrame({"age": rng.integers(18, 90, 4), "city": rng.choice(CITIES, 4)})

    rows = veridp.Rows(people, seed=3)
    assert list(rows) == list(veridp.Rows(people, seed=3)) != list(veridp.Rows(people, seed=4))
    ages = [age for age, _ in rows]
    proof = veridp.prove(total_age, adjacency="replace", size=1, domain=rows)
    assert proof.epsilon == pytest.approx((max(ages) - min(ages)) / 44)
    with pytest.raises(BadInput, match="list is not a data frame; give one of pandas or polars"):
        veridp.Rows(lambda rng: [1, 2])


def test_frames_keep_their_columns_and_types() -> None:
    rows = veridp.Rows(PANDAS)
    assert rows.frame(list(rows)).equals(PANDAS)
    empty = rows.frame([])
    assert list(empty.columns) == list(PANDAS.columns)
    assert list(empty.dtypes) == list(PANDAS.dtypes)


def test_pairs_of_frames() -> None:
    pairs = [(PANDAS, PANDAS.head(2)), (PANDAS, PANDAS.tail(2))]
    assert veridp.prove(total_age, pairs=pairs).epsilon == pytest.approx(64 / 44)
    assert veridp.audit(total_age, 1.0, pairs=pairs).epsilon.lower == pytest.approx(64 / 44)
