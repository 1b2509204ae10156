"""What the tests of verifiable collection share: one small task for each mechanism."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from veridp.collect import Task

ITEMS = ("ant", "bee", "cat", "dog", "elk")
DOMAINS: dict[str, dict[str, Any]] = {
    "vgrr": {"items": ITEMS},
    "voue": {"items": ITEMS[:3]},
    "volh": {"items": ITEMS},
    "grr-ho": {"low": 0.0, "high": 4.0, "resolution": 5},
    "sr-ho": {"low": 0.0, "high": 4.0, "resolution": 4},
    "pm-ho": {"low": 0.0, "high": 4.0, "resolution": 5},
}


def made(mechanism: str, **changes: Any) -> Task:
    fields = {"name": "small", "mechanism": mechanism, "epsilon": math.log(2), **DOMAINS.get(mechanism, {})}
    return Task(**{**fields, **changes})


@pytest.fixture
def small_task() -> Callable[..., Task]:
    """A function that makes a task of a mechanism at ε = ln 2, on a small domain."""
    return made


@pytest.fixture(params=sorted(DOMAINS))
def task(request: pytest.FixtureRequest) -> Task:
    """A small task of each mechanism."""
    return made(request.param)


@pytest.fixture
def example() -> Callable[[Task], object]:
    """A function that gives a value of a task's domain."""
    return lambda task: task.items[1] if task.items else 1.5
