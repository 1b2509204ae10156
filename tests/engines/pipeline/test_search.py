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
from veridp.engines.pipeline.data import Table, simpler
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
    assert math.isnan(only["age"].iloc[0])  # type: ignore[index]


# ------------------------------------------------------------------------------- one mistake for each kind of input


def clipped(data):
    return [min(max(float(value), 0.0), 1.0) if value == value else 0.0 for value in data]


def when_removed(rng, data):
    """The first record has too little noise."""
    return sum(clipped(data[:1])) + rng.laplace(scale=0.1)


def when_added(rng, data):
    return len(data) > 3, len(data) + rng.laplace()


def at_extremes(rng, data):
    return sum(data) + rng.laplace(scale=5.0)


def with_duplicates(rng, data):
    return len(set(data)) == len(data), len(data) + rng.laplace()


def when_empty(rng, data):
    return sum(clipped(data)) + rng.laplace() if data else None


def of_one_row(rng, data):
    return 0.0 if len(data) == 1 else len(data) + rng.laplace()


def clamped_by_comparisons(rng, data):
    return sum(1.0 if value > 1 else 0.0 if value < 0 else value for value in data) + rng.laplace()


def counted_by_category(rng, data):
    counts = {"a": 0, "b": 0}
    for value in data:
        counts[value] += 1
    return [count + rng.laplace() for count in counts.values()]


def in_order(rng, data):
    return sum(place * value for place, value in enumerate(data)) + rng.laplace(scale=2.0)


def on_ties(rng, data):
    if len(data) > 2 and 2 * data.count("a") == len(data):
        return "tie"
    return data.count("a") + rng.laplace()


def in_32_bits(rng, data):
    whole = np.clip(np.array(data, dtype=float), 0, 2**31 - 1).astype(np.int32)
    return float(whole.sum(dtype=np.int32)) + rng.laplace(scale=2**31)


@pytest.mark.parametrize(
    ("program", "options", "fault", "expected"),
    [
        (when_removed, {"example": [1.0, 0.0, 0.0]}, Fault.COST, "removed"),
        (when_added, {"example": [1.0, 0.0, 0.0]}, Fault.UNNOISED, "added"),
        (at_extremes, {"adjacency": "replace", "domain": (0, 10), "size": 2}, Fault.COST, "lowest, first record"),
        (with_duplicates, {"example": [1.0, 2.0, 3.0]}, Fault.UNNOISED, "a duplicate"),
        (when_empty, {"example": [1.0, 2.0]}, Fault.CONTROL, "no records"),
        (of_one_row, {"example": [1.0, 2.0, 3.0, 4.0]}, Fault.DRAWS, "no records, the greatest value added"),
        (clamped_by_comparisons, {"example": [0.1, 0.2]}, Fault.UNNOISED, "NaN"),
        (counted_by_category, {"example": ["a", "b"]}, Fault.CONTROL, "unseen category"),
        (at_extremes, {"example": [0.5], "adjacency": "replace", "domain": (0, 5)}, Fault.COST, "outside the stated"),
        (
            in_order,
            {"example": [1, 2, 3], "adjacency": "replace-unordered", "domain": (0, 1)},
            Fault.COST,
            "in reverse order",
        ),
        (on_ties, {"example": ["a", "a", "a", "a", "b"]}, Fault.CONTROL, "ties"),
        (in_32_bits, {"example": [1, 2, 3]}, Fault.COST, "one record"),
    ],
)
def test_a_mistake_on_each_kind_of_input_is_found(program, options, fault, expected) -> None:
    result = searched(program, epsilon=1.0, max_pairs=70, **options)
    first = result.found[0]
    assert fault in {candidate.fault for candidate in first.candidates}
    assert expected in first.pattern
    assert max(len(first.left), len(first.right)) <= 4  # type: ignore[arg-type]
    assert len({(repr(one.left), repr(one.right)) for one in result.found}) == len(result.found)


def test_the_least_pair_is_kept_that_shows_an_overflow() -> None:
    (pair,) = searched(in_32_bits, [1, 2, 3], epsilon=1.0).found
    assert pair.epsilon == pytest.approx((2**32 - 1) / 2**31, rel=1e-6)
    assert sorted([len(pair.left), len(pair.right)]) == [1, 2]  # type: ignore[arg-type]


def test_pairs_have_noise_of_their_own_and_those_of_unknown_cost_are_counted() -> None:
    def lost(rng, data):
        return int(np.searchsorted([len(data) / 10], float(rng.random())))

    result = searched(lost, [1.0, 2.0], epsilon=1.0, max_pairs=4)
    assert result.costliest is None
    assert result.unpriced == 4
    assert "the cost is not known on 4 of them" in str(result)
    assert result.unknown is not None
    assert result.shown is result.unknown
    assert result.lost == result.unknown.lost
    assert str(result).endswith(f"a pair whose cost is not known: {result.unknown}")
    again = searched(at_extremes, [1.0, 2.0], epsilon=0.1, max_pairs=4)
    seeds = [one.seed for one in again.found]
    assert seeds
    assert again.seed not in seeds


def test_the_costliest_pair_reaches_the_known_cost() -> None:
    result = searched(mean_age, PEOPLE, max_pairs=10)
    assert result.costliest is not None
    assert result.costliest.epsilon == pytest.approx(2.0, rel=1e-6)  # 100/100 for the sum and 1 for the count


def test_lists_arrays_and_overflow() -> None:
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


def test_arrays_of_integers_and_of_words_stay_what_they_are() -> None:
    def counted(rng, data):
        return np.bincount(data, minlength=4)[:4] + rng.laplace(size=4)

    def words(rng, data):
        assert data.dtype.kind == "U", data
        return {word: (data == word).sum() + rng.laplace() for word in ("a", "b")}

    domain = [0, 1, 2, 3]
    result = searched(counted, np.array([0, 1, 1]), adjacency="add-remove", domain=domain, max_pairs=12)
    assert (found(result), result.unpriced) == (set(), 0)
    assert result.costliest is not None
    assert result.costliest.epsilon == pytest.approx(1.0)
    result = searched(words, np.array(["a", "b", "a"]), adjacency="add-remove", max_pairs=12)
    assert (found(result), result.unpriced) == (set(), 0)
    build = Table.of(np.array([1, 2]), [0, 5], True, 2).build
    assert [build(rows).dtype.kind for rows in ([], [3], [2**31], [1, 2.5], [1, math.nan])] == list("iiiff")


def test_data_whose_records_are_all_different_are_tried() -> None:
    def owners(rng, data):
        last = {word: user for user, words in enumerate(data) for word in words}
        return len(set(last.values())) + rng.laplace()

    domain = [("a",), ("b",), ("c",), ("a", "b", "c")]  # whoever has all words takes them from three others
    declared = veridp.mechanism(epsilon=1.0, adjacency="add-remove", domain=domain)(owners)
    result = searched(declared, max_pairs=24)
    assert found(result) == {"cost"}
    assert max(one.epsilon for one in result.found) == pytest.approx(2.0)


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


def test_pairs_shrink_within_a_domain_that_is_stated() -> None:
    def total(rng, data):
        return sum(second for _, second in data) + rng.laplace(scale=1.0)

    listed = [("a", 3.0), ("b", 7.0)]
    found = pipeline.search(total, epsilon=1.0, domain=listed, adjacency="replace", size=2, seconds=SECONDS)
    assert {one.fault for one in found.candidates} == {Fault.COST}
    assert all(record in listed for result in found.found for record in [*result.left, *result.right])  # type: ignore[misc]
