"""The search over data: faults without a given pair, each on a small one; and releases of libraries as they are."""
# ruff: noqa: NPY002 - programs as they are written

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import veridp
from veridp import pipeline
from veridp.engines.pipeline import Fault, PipelineSearch
from veridp.engines.pipeline.data import simpler
from veridp.errors import BadInput

SECONDS = 600.0
PEOPLE = pd.DataFrame({"city": ["ams", "ber", "ams", "ber"], "age": [31.0, 45.0, 62.0, 18.0]})


def searched(program: Callable[..., Any], example: Any = None, **options: Any) -> PipelineSearch:
    return pipeline.search(program, example, seconds=SECONDS, **options)


def found(result: PipelineSearch) -> set[str]:
    return {candidate.fault.value for candidate in result.candidates}


def mean_age(frame):
    ages = frame["age"].fillna(50).clip(0, 100)
    total = ages.sum() + np.random.laplace(0, 100.0)
    count = len(ages) + np.random.laplace(0, 1.0)
    return float(total / max(count, 1))


def mean_age_of_nan(frame):
    ages = frame["age"].to_numpy(dtype=float)
    ages = np.where(ages > 100, 100, np.where(ages < 0, 0, ages))
    return float(ages.sum() + np.random.laplace(0, 100.0))


def by_city(frame):
    counts = frame.groupby("city").size()
    return (counts + np.random.laplace(0, 1.0, size=len(counts))).to_dict()


def by_known_city(frame):
    counts = frame.groupby("city").size().reindex(["ams", "ber"], fill_value=0)
    return (counts + np.random.laplace(0, 1.0, size=2)).to_dict()


def test_faults_are_found_without_a_pair_and_right_programs_have_none() -> None:
    assert found(searched(mean_age, PEOPLE, max_pairs=24)) == set()
    assert found(searched(by_known_city, PEOPLE, max_pairs=24)) == set()
    assert found(searched(mean_age_of_nan, PEOPLE, max_pairs=10)) == {"unnoised"}
    assert "draws" in found(searched(by_city, PEOPLE, max_pairs=6))


def test_a_pair_is_shrunk_to_the_record_that_matters() -> None:
    result = searched(mean_age_of_nan, PEOPLE, max_pairs=10)
    (pair,) = result.found
    assert sorted([len(pair.left), len(pair.right)]) == [0, 1]  # type: ignore[arg-type]
    only = max((pair.left, pair.right), key=len)  # type: ignore[arg-type, call-overload]
    assert math.isnan(only["age"].iloc[0])


def test_the_costliest_pair_reaches_the_known_cost() -> None:
    result = searched(mean_age, PEOPLE, max_pairs=10)
    assert result.costliest is not None
    assert result.costliest.epsilon == pytest.approx(2.0, rel=1e-6)  # 100/100 for the sum and 1 for the count


def test_lists_arrays_and_overflow() -> None:
    def in_32_bits(data):
        return int(np.asarray(data).astype(np.int32).sum()) % 1000 + np.random.laplace(0, 2000.0)

    def clipped(data):
        return float(np.clip(np.asarray(data, dtype=float).reshape(-1, 2), 0, 1).sum()) + np.random.laplace(0, 2.0)

    assert found(searched(clipped, np.array([[0.5, 0.2], [0.1, 0.9]]), adjacency="replace", max_pairs=12)) <= {
        "unnoised"  # NaN is not clipped
    }
    declared = veridp.mechanism(epsilon=1.0, adjacency="replace", domain=(0, 10), size=2)(
        lambda rng, data: sum(data) + rng.laplace(scale=1.0)
    )
    result = searched(declared, max_pairs=24)
    inside = [one for one in result.found if "outside" not in one.pattern]
    assert {candidate.fault for one in inside for candidate in one.candidates} == {Fault.COST}
    assert result.costliest is not None
    assert result.costliest.epsilon == pytest.approx(10.0, rel=1e-6)
    assert result.to_dict()["pairs"] == result.pairs
    assert searched(in_32_bits, [1, 2, 3], max_pairs=5).pairs == 5


def test_records_are_removed_from_both_sides_alike() -> None:
    made = [(left, right) for left, right in simpler([1, 2, 3], [1, 2, 3, 9]) if len(left) < 3]
    assert ([3], [3, 9]) in made or ([2, 3], [2, 3, 9]) in made
    assert all(len(right) == len(left) + 1 for left, right in made)


def test_what_is_no_data_set_is_refused() -> None:
    with pytest.raises(BadInput, match="not a data set"):
        searched(mean_age, 3)


# ---------------------------------------------------------------------------------------------------------- libraries


def test_mechanisms_of_diffprivlib_are_one_release_with_their_own_map() -> None:
    pytest.importorskip("diffprivlib")
    from diffprivlib import tools
    from diffprivlib.mechanisms import Exponential, Gaussian, Laplace

    def total(data):
        return Laplace(epsilon=0.5, sensitivity=2.0).randomise(sum(data)) * 2

    result = pipeline.compare(total, [1, 2], [1, 2, 1], seconds=SECONDS)
    assert result.aligned
    assert result.epsilon == pytest.approx(1 / (2 / 0.5))  # distance over scale
    (wrong,) = pipeline.compare(total, [1, 2], [1, 2, 5], seconds=SECONDS).candidates
    assert wrong.fault is Fault.SENSITIVITY

    def normal(data):
        return Gaussian(epsilon=0.5, delta=1e-5, sensitivity=1.0).randomise(float(sum(data)))

    sigma = math.sqrt(2 * math.log(1.25 / 1e-5)) / 0.5
    assert pipeline.compare(normal, [1], [2], seconds=SECONDS).rho == pytest.approx(1 / (2 * sigma**2))

    def best(data):
        return Exponential(epsilon=1.0, sensitivity=1.0, utility=[float(x) for x in data]).randomise()

    assert pipeline.compare(best, [1, 2], [2, 1], seconds=SECONDS).epsilon == pytest.approx(1.0)

    def unbounded(data):  # the bounds come from the data, as the library warns
        return tools.mean(np.array(data), epsilon=1.0)

    faults = {one.fault for one in pipeline.compare(unbounded, [1, 2, 3], [1, 2, 5], seconds=SECONDS).candidates}
    assert Fault.PARAMETERS in faults


def test_measurements_of_opendp_are_one_release_with_their_own_map() -> None:
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(bounds=(0.0, 5.0))), dp.symmetric_distance()
    measurement = space >> dp.t.then_sum() >> dp.m.then_laplace(scale=10.0)

    def twice(data):
        return measurement([float(x) for x in data]) + measurement([float(x) for x in data])

    result = pipeline.compare(twice, [1, 2], [1, 2, 5], seconds=SECONDS)
    assert result.aligned
    assert [release.distance for release in result.releases] == [1.0, 1.0]
    assert result.epsilon == pytest.approx(2 * 0.5, rel=1e-6)
    with pytest.raises(BadInput, match="out of sight"):
        pipeline.compare(veridp.adapters.batched(lambda data, n: [data] * n), [1], [2])
    adapted = veridp.adapters.opendp(measurement)
    alone = pipeline.compare(adapted, [1.0], [1.0, 5.0], seconds=SECONDS)
    assert alone.epsilon == pytest.approx(0.5, rel=1e-6)
    assert [release.file for release in result.releases] == [__file__] * 2
    assert [release.file for release in alone.releases] == [""]  # whoever asks for a run is not where the noise is
