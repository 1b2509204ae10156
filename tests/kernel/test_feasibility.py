"""Points inside a path lead a plain run down it; paths without room have none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from veridp.kernel.explore import explore
from veridp.kernel.expressions import unknowns
from veridp.kernel.feasibility import Inside


def narrow(rng: Any, data: Any) -> Any:
    first, second = rng.laplace(), rng.laplace(scale=3)
    if first + second > 20 and first < second - 15:
        return "far"
    return "near" if abs(first - second) < 1e-3 else "elsewhere"


def whole(rng: Any, data: Any) -> Any:
    drawn = rng.geometric(0.25)
    return 2 * drawn > 9 and 3 * drawn < 19


def of_function(rng: Any, data: Any) -> Any:
    return np.exp(rng.normal()) + rng.uniform() > 2.5


@pytest.mark.parametrize("mechanism", [narrow, whole, of_function])
def test_points_satisfy_the_conditions_of_their_path(mechanism: Any) -> None:
    paths = explore(mechanism, None)
    assert len(paths) > 1
    for path in paths:
        point = Inside(path, {}, np.random.default_rng(3)).point()
        assert point is not None, str(path)
        assert all(condition.holds(point) for condition in path.conditions)


def test_open_data_get_values_too() -> None:
    def above(rng: Any, data: Any) -> Any:
        return data[0] + rng.laplace() > data[1] + 50

    for path in explore(above, unknowns("q", 2)):
        place = {symbol: 0.0 for each in unknowns("q", 2) for symbol in each.terms}
        point = Inside(path, place, np.random.default_rng(3)).point()
        assert point is not None
        assert all(condition.holds(point) for condition in path.conditions)


def test_points_beside_a_boundary() -> None:
    path = next(path for path in explore(narrow, None) if path.output == "far")
    for condition in path.conditions:
        point = Inside(path, {}, np.random.default_rng(3)).edge(condition)
        assert point is not None
        assert 0 < condition.slack.evaluate(point) < 1e-2


@pytest.mark.parametrize(
    "contradiction",
    [
        lambda x, y: x > 1 and x + y < 0 and y > -1,
        lambda x, y: x > y and y > x + 1,
        lambda x, y: x >= 3 and 2 * x == 5,
    ],
)
def test_what_cannot_be_is_no_path(contradiction: Any) -> None:
    outputs = {
        path.output for path in explore(lambda rng, data: bool(contradiction(rng.laplace(), rng.laplace())), None)
    }
    assert outputs == {False}
