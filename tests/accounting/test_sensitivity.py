"""Sensitivities: of queries whose value is known, in every norm and relation, exactly or labelled as a lower bound."""

from __future__ import annotations

import math
import statistics
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veridp.accounting import mechanisms, private, sensitivity
from veridp.accounting.sensitivity import Two
from veridp.adjacency import Scaled, adjacency
from veridp.engines.exact import worst
from veridp.errors import BadInput, MechanismFailed

Query = Any


def clamped_sum(data: list[Any]) -> Any:
    return sum(min(max(value, 0), 2) for value in data)


def mean(data: list[Any]) -> Any:
    return sum(data) / len(data) if data else 0


def histogram(data: list[Any]) -> list[int]:
    counts = [0, 0, 0]
    for value in data:
        counts[0 if value < 0.3 else 1 if value < 0.6 else 2] += 1
    return counts


def largest(data: list[Any]) -> Any:
    return max(data, default=0)


def median(data: list[Any]) -> Any:
    return statistics.median(data) if data else 0


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize(
    ("query", "domain", "added", "replaced"),
    [
        (clamped_sum, (-5, 5), lambda n: 2, lambda n: 2),
        (mean, (0, 1), lambda n: 1, lambda n: 1 / n),  # the empty data set has mean 0, and one record may be 1
        (largest, (0, 1), lambda n: 1, lambda n: 1),
        (median, (0, 1), lambda n: 1, lambda n: 1 if n != 2 else 0.5),
        (histogram, (0, 1), lambda n: 1, lambda n: 2),
    ],
)
def test_textbook_queries(query: Query, domain: Any, added: Any, replaced: Any, size: int) -> None:
    for relation, expected in (("add-remove", added(size)), ("replace", replaced(size))):
        found = sensitivity(query, size, domain=domain, relation=relation)
        assert found.exact
        assert found.value == pytest.approx(expected, abs=1e-9)


def test_the_mean_without_the_empty_data_set() -> None:
    """Given 1/2 for no data, adding a record to one moves the mean by at most 1/2, and so on down."""

    def centred(data: list[Any]) -> Any:
        return sum(data) / len(data) if data else 0.5

    found = sensitivity(centred, 4)
    assert found.exact
    assert found.value == pytest.approx(0.5)


@pytest.mark.parametrize(("norm", "expected"), [(1, 2.0), (2, math.sqrt(2)), (math.inf, 1.0)])
def test_a_histogram_in_every_norm_under_replace(norm: float, expected: float) -> None:
    assert sensitivity(histogram, 2, relation="replace", norm=norm).value == pytest.approx(expected)


def brute(matrix: np.ndarray, moves: list[np.ndarray], norm: float) -> float:
    return max(float(np.linalg.norm(matrix @ move, ord=norm)) for move in moves)


@settings(max_examples=12, deadline=None)
@given(
    st.lists(st.lists(st.integers(-3, 3), min_size=2, max_size=2), min_size=1, max_size=3),
    st.sampled_from([1, 2, math.inf]),
    st.sampled_from(["linf", "l1", "monotone"]),
)
def test_linear_queries_against_the_corners_of_the_relation(rows: list[list[int]], norm: float, name: str) -> None:
    """A norm of a linear map is largest at a corner of the moves that the relation allows."""
    matrix = np.array(rows, dtype=float)
    vertices = adjacency(name).vertices(2)
    assert vertices is not None
    found = sensitivity(lambda q: [sum(c * x for c, x in zip(row, q, strict=True)) for row in rows], 2,
                        domain=(-5, 5), relation=name, norm=norm)  # fmt: skip
    assert found.exact
    assert found.value == pytest.approx(brute(matrix, list(vertices), norm), abs=1e-9)


def test_a_piecewise_query_on_answers_against_a_grid() -> None:
    def query(q: list[Any]) -> list[Any]:
        return [max(q[0], q[1]), abs(q[0] - q[1])]

    grid = np.linspace(-2, 2, 9)
    expected = 0.0
    for a in grid:
        for b in grid:
            for c in grid[np.abs(grid - a) <= 1]:
                for d in grid[np.abs(grid - b) <= 1]:
                    difference = np.array(query([a, b])) - np.array(query([c, d]))
                    expected = max(expected, float(np.linalg.norm(difference)))
    found = sensitivity(query, 2, domain=(-2, 2), relation="linf", norm=2)
    assert found.value == pytest.approx(expected)  # the corners lie on the grid


def test_a_scaled_relation_scales_it() -> None:
    relation = Scaled(adjacency("l1"), 3.0)
    assert sensitivity(sum, 2, domain=(0, 10), relation=relation).value == pytest.approx(3.0)


def test_the_order_of_records_counts_where_the_query_heeds_it() -> None:
    """Data sets have no order: the first record may be any of them, so its move is the width of the domain."""
    found = sensitivity(lambda data: data[0] / 2, 2, domain=(0, 8), relation="replace")
    assert found.exact
    assert found.value == pytest.approx(4.0)
    enumerated = sensitivity(lambda data: data[0] / 2, 2, domain=[0, 4, 8], relation="replace")
    assert enumerated.exact
    assert enumerated.value == 4.0


def test_finite_domains_are_enumerated() -> None:
    found = sensitivity(lambda data: [data.count(value) for value in "abc"], 3, domain="abc", norm=1)
    assert (found.value, found.exact) == (1.0, True)
    replaced = sensitivity(lambda data: [data.count(v) for v in "abc"], 2, domain="abc", relation="replace", norm=2)
    assert replaced.value == pytest.approx(math.sqrt(2))
    distinct = sensitivity(lambda data: len(set(data)), 3, domain=range(4))
    assert distinct.value == 1.0
    square = sensitivity(lambda data: data[0] ** 2, 1, domain=range(4), relation="any")
    assert square.value == 9.0


def test_what_is_not_affine_gets_a_lower_bound_that_says_so() -> None:
    """The sum of squares over [-1, 2] moves by at most 4, found at an end of the domain."""
    found = sensitivity(lambda data: sum(value * value for value in data), 2, domain=(-1, 2))
    assert not found.exact
    assert found.value == pytest.approx(4.0)
    assert "lower bound" in str(found)
    assert "not affine" in found.reason


def test_the_witness_attains_the_value() -> None:
    found = sensitivity(clamped_sum, 3, domain=(-5, 5))
    two = Two(list(found.left), list(found.right))  # type: ignore[call-overload]
    assert abs(clamped_sum(two.left) - clamped_sum(two.right)) == pytest.approx(found.value)
    assert adjacency("add-remove").adjacent(two.left, two.right)


def test_noise_from_a_measured_sensitivity_keeps_its_claim() -> None:
    measured = sensitivity(clamped_sum, 2, domain=(-5, 5))
    mechanism = private(clamped_sum, mechanisms.laplace, sensitivity=measured, epsilon=0.4)
    found = worst(mechanism, 2, seconds=600.0)
    assert found.epsilon == pytest.approx(0.4)


def test_sensitivities_that_do_not_fit_are_refused() -> None:
    lower = sensitivity(lambda data: sum(v * v for v in data), 2)
    with pytest.raises(BadInput, match="only a lower bound"):
        private(sum, mechanisms.laplace, sensitivity=lower, epsilon=1.0)
    euclidean = sensitivity(sum, 2, norm=2)
    with pytest.raises(BadInput, match="L1-sensitivity under add-remove"):
        private(sum, mechanisms.laplace, sensitivity=euclidean, epsilon=1.0)


@pytest.mark.parametrize(
    ("given_", "complaint"),
    [
        ({"norm": 3}, "norm must be 1, 2 or inf"),
        ({"size": 0}, "size must be an integer >= 1"),
        ({"domain": (1.0, 1.0)}, "not a bounded interval"),
        ({"domain": range(100), "size": 4}, "smaller size"),
    ],
)
def test_bad_input_is_named(given_: dict[str, Any], complaint: str) -> None:
    with pytest.raises(BadInput, match=complaint):
        sensitivity(sum, **given_)


def test_answers_of_different_length_have_no_distance() -> None:
    with pytest.raises(BadInput, match="as many on both"):
        sensitivity(list, 2)


@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1.0, 1e6, 1e12])
def test_sensitivities_scale_with_the_domain(scale: float) -> None:
    """However small or large values are: a clamped sum, a threshold inside it, and an L2 norm of two answers."""

    def clamped(data: list[Any]) -> Any:
        return sum(min(value, 0.3 * scale) for value in data)

    def count(data: list[Any]) -> Any:
        return sum(value > 0.5 * scale for value in data)

    domain = (0.0, scale)
    assert sensitivity(clamped, 2, domain=domain).value == pytest.approx(0.3 * scale)
    assert sensitivity(count, 2, domain=domain).value == 1.0
    both = sensitivity(lambda data: [clamped(data), sum(data)], 2, domain=domain, norm=2)
    assert both.exact
    assert both.value == pytest.approx(math.hypot(0.3, 1.0) * scale)


def test_a_query_that_open_values_break_is_searched() -> None:
    """NumPy's variance and quantile want plain numbers: Var of {0, 1} is 1/4, a median moves by the whole range."""
    variance = sensitivity(lambda data: np.var(data) if data else 0.0, 2)
    assert not variance.exact
    assert variance.value == pytest.approx(0.25, abs=1e-6)
    assert "open value" in variance.reason
    median = sensitivity(lambda data: np.quantile(data, 0.5), 3, relation="replace")
    assert (median.exact, median.value) == (False, 1.0)


@pytest.mark.parametrize("answer", [math.nan, math.inf, "text", None])
def test_answers_that_are_no_finite_numbers_are_refused(answer: Any) -> None:
    for domain in ((0.0, 1.0), [0, 1]):
        with pytest.raises(BadInput, match="the query returns"):
            sensitivity(lambda data: data[0] if data else answer, 2, domain=domain)
        with pytest.raises(BadInput, match="the query returns"):  # where it can only be searched
            sensitivity(lambda data: data[0] ** 2 if data else answer, 2, domain=domain)


def test_a_query_that_fails_on_its_own_says_where() -> None:
    with pytest.raises(MechanismFailed, match="ZeroDivisionError"):
        sensitivity(lambda data: 1 / len(data), 2)
    with pytest.raises(BadInput, match="must not be empty"):
        sensitivity(sum, 2, domain=[])


def test_time_that_does_not_do_leaves_a_lower_bound() -> None:
    def middle(data: list[Any]) -> Any:
        return sorted(data)[3]

    found = sensitivity(middle, 7, relation="replace", seconds=0.2)
    assert (found.exact, found.value) == (False, 1.0)
    assert "0.2 seconds" in found.reason


@pytest.mark.parametrize("domain", [(0.0, 1.0), [0.0, 1.0]], ids=["interval", "values"])
def test_the_order_of_a_dict_is_no_part_of_an_answer(domain):
    def ordered_by_data(data):
        total = sum(data)
        return {"a": total, "b": total + 10} if total > 1 else {"b": total + 10, "a": total}

    def keyed_by_data(data):
        return {"a": sum(data)} if sum(data) > 1 else {"b": sum(data)}

    found = sensitivity(ordered_by_data, 2, domain=domain)
    assert found.exact
    assert found.value == 2
    with pytest.raises(BadInput, match="under the same keys"):
        sensitivity(keyed_by_data, 2, domain=domain)
