"""Mechanisms with the mistakes that people make, and their right twins; each is audited as a user's own file."""

from __future__ import annotations

import os
import random
import time
from typing import Any

import numpy as np

rng_of_the_module = np.random.default_rng(0)


def right(rng: Any, data: Any, *, epsilon: float = 1.0) -> Any:
    return data[0] + rng.laplace(scale=1 / epsilon)


def wrong_scale(rng: Any, data: Any, *, epsilon: float = 1.0) -> Any:
    return data[0] + rng.laplace(scale=epsilon / 2)


def budget_twice(rng: Any, data: Any, *, epsilon: float = 1.0) -> Any:
    first = data[0] + rng.laplace(scale=1 / epsilon)
    second = data[0] + rng.laplace(scale=1 / epsilon)
    return [first, second]


def sensitivity_off(rng: Any, data: Any, *, epsilon: float = 1.0) -> Any:
    return sum(3 * value for value in data) + rng.laplace(scale=1 / epsilon)


def clipped_before_summing(rng: Any, data: Any, *, epsilon: float = 1.0) -> Any:
    return sum(min(max(value, 0), 1) for value in data) + rng.laplace(scale=1 / epsilon)


def clipped_after_summing(rng: Any, data: Any, *, epsilon: float = 1.0) -> Any:
    return min(max(sum(data), 0), len(data)) + rng.laplace(scale=1 / epsilon)


def leaked_value(rng: Any, data: Any, *, epsilon: float = 1.0) -> Any:
    noisy = [value + rng.laplace(scale=1 / epsilon) for value in data]
    return [*noisy, max(data)]


def reused_seed(rng: Any, data: Any, *, epsilon: float = 1.0) -> Any:
    return data[0] + np.random.default_rng(42).laplace(scale=1 / epsilon)


def reused_global_seed(rng: Any, data: Any, *, epsilon: float = 1.0) -> Any:
    np.random.seed(7)  # noqa: NPY002
    return data[0] + np.random.laplace(scale=1 / epsilon)  # noqa: NPY002


def reused_standard_seed(rng: Any, data: Any, *, epsilon: float = 1.0) -> Any:
    source = random.Random("noise")
    return data[0] + source.expovariate(epsilon) - source.expovariate(epsilon)


def seeded_from_rng(rng: Any, data: Any, *, epsilon: float = 1.0) -> Any:
    return data[0] + np.random.default_rng(int(rng.integers(2**31))).laplace(scale=1 / epsilon)


def shared_noise(rng: Any, data: Any, *, epsilon: float = 1.0) -> Any:
    noise = rng.laplace(scale=1 / epsilon)
    return [value + noise for value in data]


def by_inversion(rng: Any, data: Any, *, epsilon: float = 1.0, scale: float = 1.0) -> Any:
    """Laplace noise as textbooks draw it, which symbols cannot follow."""
    uniform = rng.random() - 0.5
    return data[0] - scale / epsilon * np.sign(uniform) * np.log(1 - 2 * abs(uniform))


# ------------------------------------------------------------------------------------------- what is no mechanism


def prints(rng: Any, data: Any, *, epsilon: float = 1.0) -> Any:
    print("value", data[0])  # noqa: T201
    return data[0] + rng.laplace(scale=1 / epsilon)


def forks(rng: Any, data: Any, *, epsilon: float = 1.0) -> Any:
    if os.fork() == 0:
        os._exit(0)
    os.wait()
    return data[0] + rng.laplace(scale=1 / epsilon)


def hangs(rng: Any, data: Any, *, epsilon: float = 1.0) -> Any:
    time.sleep(3600)


def returns_none(rng: Any, data: Any, *, epsilon: float = 1.0) -> None:
    rng.laplace(scale=1 / epsilon)


def needs_more(rng: Any, data: Any, bound: float, *, epsilon: float = 1.0) -> Any:
    return min(data[0], bound) + rng.laplace(scale=1 / epsilon)


def claims_nothing(rng: Any, data: Any) -> Any:
    return data[0] + rng.laplace()


def wrong_signature(rng: Any) -> Any:
    return rng.laplace()


not_a_function = 3


async def asynchronous(rng, data, *, epsilon=1.0):
    return data[0] + rng.laplace(scale=1 / epsilon)
