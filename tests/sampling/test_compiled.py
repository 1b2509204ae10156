"""The compiled reading: which functions it takes, and that it is used only where it does what Python does."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import pytest

from veridp.errors import BadInput
from veridp.mechanism import Mechanism
from veridp.sampling import compiled as module
from veridp.sampling.compiled import compiled_outputs
from veridp.sampling.encode import scalar_outputs
from veridp.sampling.sample import sample
from veridp.sampling.tape import Unfit


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
    same(array, np.array([1, 2, 3]))
    same(lambda rng, data: data + rng.random(), 2)
    same(lambda rng, data: rng.random() < 0.5, None)
    same(lambda rng, data: data[0][1] + rng.random(), [[1.0, 2.0], [3.0, 4.0]])
    same(lambda rng, data: [value for value in data if rng.random() < 0.5], [True, False, True])


def test_a_changed_closure_is_compiled_anew() -> None:
    def shifted(by):
        return lambda rng, data: by + rng.random()

    for by in (1.0, 100.0):
        assert int(same(shifted(by), None)[0]) == by


def test_a_kernel_is_compiled_once() -> None:
    before = len(module._kernels)
    for _ in range(3):
        same(array, np.array([5.0, 6.0, 7.0]))
        same(array, np.array([8.0, 9.0]))
    assert len(module._kernels) <= before + 1


@pytest.mark.parametrize(
    ("function", "data", "message"),
    [
        (lambda rng, data: "yes" if rng.random() < 0.5 else "no", None, "no columns"),
        (lambda rng, data: rng.choice([1, 2]), None, "method choice is not known"),
        (lambda rng, data: [[rng.random()]], None, "no columns"),
        (lambda rng, data: rng.random(), {"a": 1}, "numba does not accept a dict"),
        (lambda rng, data: rng.random(), [True, 2], "mix truth values and numbers"),
        (lambda rng, data: rng.random(), [1.5, 2**53 + 1], "too large for a float"),
        (lambda rng, data: rng.random(), [[1], "a"], "numba cannot hold"),
        (lambda rng, data: rng.random(), range(3), "numba does not accept a range"),
        (lambda rng, data: data[0] + rng.random(), np.array([1], np.int8), "an array of int8"),
        (lambda rng, data, *rest: rng.random(), 1, "takes [*]args"),
        (np.random.Generator.laplace, 1, "is not a plain function"),
    ],
)
def test_what_does_not_compile_is_refused_with_a_reason(function: Any, data: Any, message: str) -> None:
    with pytest.raises(Unfit, match=message):
        compiled_outputs(function, data, np.random.default_rng(0), 10)


def always_true(rng, data):
    return (rng.geometric(0.07) + 20 * data[0]) ** 9 >= 0


def test_an_integer_that_leaves_64_bits_gives_way_to_a_slower_reading() -> None:
    with pytest.raises(BadInput, match="an integer leaves 64 bits"):
        sample(always_true, [1], 100_000, reading="compiled")
    outputs = sample(always_true, [1], 20_000, expected=2**20, workers=1)
    assert outputs.reading == "one-by-one"
    assert outputs.distinct() == {True: 20_000}


def test_lists_keep_the_operators_of_lists() -> None:
    assert same(lambda rng, data: data * 2 if rng.random() < 0.1 else data, [1.0, 2.0]).lengths().max() == 4
    same(lambda rng, data: (data + data, data[0] > rng.random()), [1, 2])


REFUSED = {
    "catches exceptions": lambda rng, data: caught(rng),
    "two truth values": lambda rng, data: (rng.random() > 0.5) + (rng.random() > 0.5),
    "of a truth value": lambda rng, data: -(rng.random() > 0.5),
    "truth values and numbers in one variable": lambda rng, data: True if rng.random() > 0.999 else 0.5,
    "it computes with int8": lambda rng, data: rng.integers(0, 100, dtype=np.int8),
    "the function sort is not known": lambda rng, data: np.sort(rng.random(3))[0],
    "max of truth values": lambda rng, data: max(rng.random() > 0.5, 0),
}


def caught(rng):
    try:
        return 1.0 / rng.poisson(1.0)
    except Exception:
        return 0.0


@pytest.mark.parametrize("message", REFUSED)
def test_what_numba_and_python_do_in_different_ways_is_refused(message: str) -> None:
    with pytest.raises(Unfit, match=message):
        compiled_outputs(REFUSED[message], None, np.random.default_rng(0), 10)


def test_an_index_past_the_end_is_an_error_as_in_python() -> None:
    def beyond(rng, data):
        return data[int(rng.random() * 2.002)]

    for data in ([1.0, 2.0], np.array([1.0, 2.0])):
        with pytest.raises(Unfit, match="IndexError"):
            compiled_outputs(beyond, data, np.random.default_rng(0), 20_000)


def test_an_error_is_left_to_the_plain_function() -> None:
    def divides(rng, data):
        return min(data[0] / rng.poisson(3.0), 9.0)  # infinite where the entry of an array is divided by zero

    for data in ([1.0], np.array([1.0])):
        with pytest.raises(Unfit, match="ZeroDivisionError"):
            compiled_outputs(divides, data, np.random.default_rng(0), 1000)


def test_readings_are_compared_on_rare_draws_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def one(rng, data):
        return 1.0 + 0.0 * rng.laplace()

    def another_in_the_tail(rng, data):
        return 1.0 if rng.laplace() < 30 else 2.0  # once in 2e13 draws

    monkeypatch.setattr(module, "compiled_outputs", lambda _, *rest: compiled_outputs(another_in_the_tail, *rest))
    with pytest.raises(BadInput, match="on rare draws it gives"):
        sample(one, None, 1000, reading="compiled")

    def tells_them_apart(rng, data):
        x = rng.laplace()
        return isinstance(x, float) if x > 12 else True  # once in 3e5 draws

    with pytest.raises(BadInput, match="on draws for which that of a batch is"):
        sample(tells_them_apart, None, 1000, reading="batch")
