"""The compiled reading: which functions it takes, and that it is used only where it does what Python does."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import pytest

from veridp.errors import BadInput
from veridp.mechanism import Mechanism
from veridp.program import compiled as module
from veridp.program.compiled import compiled_outputs
from veridp.program.sample import sample
from veridp.program.scalar import scalar_outputs
from veridp.program.tape import Unfit


def same(function: Any, data: Any, count: int = 400) -> Any:
    """The compiled outputs, after comparing them with those of the plain function on the same generator."""
    compiled = compiled_outputs(function, data, np.random.default_rng(1), count)
    plain = scalar_outputs(function, data, np.random.default_rng(1), count)
    assert compiled.first_difference(plain, 1e-12) is None
    assert len(compiled) == count
    return compiled


def helper(rng, value, *, scale=2.0):
    return value + rng.laplace(scale=scale)


decorated = Mechanism(helper, epsilon=1.0)
OFFSET = 7


def with_helpers(rng, data, *, scale=3.0, shift=0.0):
    noisy = [helper(rng, value, scale=scale) + shift for value in data]
    return noisy, len(noisy), decorated(rng, 1.0), math.exp(noisy[0] / 100), OFFSET


def pairs(rng, data):
    found = [(0.0, True)]
    for value in data:
        if rng.random() < 0.5:
            found.append((value + rng.normal(), value > 1))
    return found[1:], rng.geometric(0.3), [rng.standard_normal()]


def array(rng, data):
    return data + rng.laplace(0.0, 1.0, size=len(data))


def test_helpers_keyword_only_parameters_and_captured_values() -> None:
    same(with_helpers, [1.0, 2.0, 3.0])
    same(functools.partial(with_helpers, scale=0.5, shift=10.0), [1.0, 2.0, 3.0])
    same(Mechanism(with_helpers).bind(scale=0.25), (1.0, 2.0))


def test_lists_of_pairs_beside_other_lists_and_numbers() -> None:
    outputs = same(pairs, [0.5, 1.5, 2.5])
    assert set(outputs.lengths()) == {2, 4, 6, 8}


def perhaps(rng, data):
    answers = []
    for value in data:
        noisy = value + rng.laplace()
        if noisy > 1:
            answers.append(noisy)
            if noisy > 3:
                break
        else:
            answers.append(None)
    return answers, [value > 0 for value in data], None if rng.random() < 0.5 else 7


def test_numbers_that_may_be_none_in_lists_and_alone() -> None:
    outputs = same(perhaps, [0.5, 1.5, 2.5])
    assert {output[2] for output in outputs} == {None, 7}
    assert {len(output[0]) for output in outputs} == {1, 2, 3}
    assert same(lambda rng, data: None if rng.random() < 0.5 else 1.0, None, 2).codes.dtype == np.uint8
    many = same(perhaps, [0.0] * 70, 3000)  # more flags than a number has bits
    assert len(many.templates) > 1000


def test_data_of_many_kinds() -> None:
    same(array, np.array([1.0, 2.0]))
    same(array, [1, 2, 3])
    same(lambda rng, data: data + rng.random(), 2)
    same(lambda rng, data: rng.random() < 0.5, None)
    same(lambda rng, data: data[0][1] + rng.random(), [[1.0, 2.0], [3.0, 4.0]])
    same(lambda rng, data: len(data) + rng.random(), range(4))
    same(lambda rng, data: [value for value in data if rng.random() < 0.5], [True, False, True])


def test_a_changed_closure_is_compiled_anew() -> None:
    def shifted(by):
        return lambda rng, data: by + rng.random()

    for by in (1.0, 100.0):
        assert int(same(shifted(by), None)[0]) == by


def test_a_kernel_is_compiled_once() -> None:
    before = len(module._kernels)
    for _ in range(3):
        same(array, [5.0, 6.0, 7.0])
        same(array, [8.0, 9.0])
    assert len(module._kernels) <= before + 1


@pytest.mark.parametrize(
    ("function", "data", "message"),
    [
        (lambda rng, data: "yes" if rng.random() < 0.5 else "no", None, "no columns"),
        (lambda rng, data: rng.choice([1, 2]), None, "does not compile"),
        (lambda rng, data: [[rng.random()]], None, "no columns"),
        (lambda rng, data: rng.random(), {"a": 1}, "numba takes no dict"),
        (lambda rng, data: rng.random(), [True, 2], "no array of numbers"),
        (lambda rng, data, *rest: rng.random(), 1, "takes [*]args"),
        (np.random.Generator.laplace, 1, "is not a plain function"),
    ],
)
def test_what_does_not_compile_is_refused_with_a_reason(function: Any, data: Any, message: str) -> None:
    with pytest.raises(Unfit, match=message):
        compiled_outputs(function, data, np.random.default_rng(0), 10)


def test_compiled_code_that_means_something_else_is_not_used() -> None:
    def wraps(rng, data):
        return (int(rng.integers(1, 5)) * 2**40 * 2**40) % 1000003  # 64 bits are not enough

    def joins(rng, data):
        return len(data + data) + rng.random()  # of lists, a longer one; of arrays, a sum

    for function in (wraps, joins):
        with pytest.raises(BadInput, match=r"gives .* where the plain function gives|does not compile"):
            sample(function, [1.0, 2.0], 1000, reading="compiled")
        assert sample(function, [1.0, 2.0], 2**20, workers=1).reading != "compiled"


def test_an_index_past_the_end_is_an_error_as_in_python() -> None:
    def beyond(rng, data):
        return data[int(rng.random() * 2.002)]

    with pytest.raises(Exception, match=r"IndexError|index is out of bounds"):
        compiled_outputs(beyond, [1.0, 2.0], np.random.default_rng(0), 100_000)
