"""Draws of a large range that are released: the loss given some of their values bounds the loss."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from veridp.engines.exact import compare
from veridp.errors import NotExact

PRIME = 2**31 - 1


def parity(rng: Any, value: int) -> Any:
    row = int(rng.integers(2**20))
    bit = (row & value).bit_count() % 2
    return 7 * row + 1, bit if rng.random() < 0.75 else 1 - bit


def parity_text(value: int) -> str:
    mask = random.getrandbits(16)
    bit = bin(mask & value).count("1") & 1
    bit ^= random.random() < 0.25
    return f"{mask:016b}:{bit}"


def hashed(value: int) -> Any:
    a, b = random.randrange(1, PRIME), random.randrange(PRIME)
    bucket = ((a * value + b) % PRIME) % 4
    (report,) = random.choices(range(4), [3.0 if j == bucket else 1.0 for j in range(4)])
    return {"a": a, "b": b, "bucket": report}


@pytest.mark.parametrize("mechanism", [parity, parity_text, hashed])
def test_the_loss_given_a_released_draw(mechanism: Any) -> None:
    """A bit, or a bucket, is kept with odds 3 : 1, and most rows and hash functions tell two values apart."""
    comparison = compare(mechanism, 1, 2)
    assert comparison.is_lower_bound
    assert comparison.epsilon == pytest.approx(math.log(3), abs=1e-9)
    witness = comparison.witness
    assert witness.left_probability.upper / witness.right_probability.lower == pytest.approx(3, abs=1e-6)
    assert compare(mechanism, 5, 5).epsilon == 0.0


def range_of_the_data(rng: Any, value: int) -> Any:
    row = int(rng.integers(2**20 + value))
    return row, (row & 3).bit_count() % 2


def released_otherwise(rng: Any, value: int) -> Any:
    row = int(rng.integers(2**20))
    return row + value, (row & 3).bit_count() % 2


def kept_secret(rng: Any, value: int) -> int:
    return (int(rng.integers(2**20)) & value).bit_count() % 2


def released_in_part(rng: Any, value: int) -> Any:
    row = int(rng.integers(2**20))
    return row // 2, (row & value).bit_count() % 2


@pytest.mark.parametrize("mechanism", [range_of_the_data, released_otherwise, kept_secret, released_in_part])
def test_draws_that_the_output_does_not_tell_alike_on_both_inputs(mechanism: Any) -> None:
    with pytest.raises(NotExact):
        compare(mechanism, 1, 2)
