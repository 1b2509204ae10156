"""Checked arithmetic of compiled code: on every operand it gives what Python gives, or gives up."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest

from veridp.sampling.compiled import compiled_outputs
from veridp.sampling.tape import Unfit


def on_integers(rng, data):
    which, a, b = data[0], data[1], data[2]
    if which == 0:
        return a + b
    if which == 1:
        return a - b
    if which == 2:
        return a * b
    if which == 3:
        return a // b
    if which == 4:
        return a % b
    if which == 5:
        return a**b
    if which == 6:
        return a << b
    if which == 7:
        return a >> b
    if which == 8:
        return -a
    if which == 9:
        return abs(a)
    if which == 10:
        return sum([a, b, a])
    if which == 11:
        return max(a, b, 3)
    if which == 12:
        return (a & b) | (a ^ 5)
    return 1 if a < b else 0


def on_floats(rng, data):
    which, a, b = data[0], data[1], data[2]
    if which == 0:
        return a + b
    if which == 1:
        return a * b
    if which == 2:
        return a / b
    if which == 3:
        return a // b
    if which == 4:
        return a % b
    if which == 5:
        return a**b
    if which == 6:
        return math.exp(a)
    if which == 7:
        return math.log(a)
    if which == 8:
        return float(int(a))
    if which == 9:
        return float(round(a))
    if which == 10:
        return float(math.floor(a) - math.ceil(b))
    if which == 11:
        return min(a, b)
    if which == 12:
        return int(a) / int(b)
    return 1.0 if int(a) == b else 0.0


INTEGERS = [0, 1, -1, 2, 3, -3, 7, 62, 63, 64, 10**6, 2**31, -(2**31), 2**32 + 1, 2**53 + 1, 2**62, 2**63 - 1, -(2**63)]
FLOATS = [0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 3.0, 0.1, 1e-300, 800.0, 1e15, 2.0**53, 9007199254740993.0, 2.0**62]
FLOATS += [2.0**63, -(2.0**63), 1e300, -1e300]


def python(function: Any, data: list[Any]) -> Any:
    try:
        value = function(None, data)
    except (ArithmeticError, ValueError, MemoryError):
        return None
    return None if isinstance(value, complex) else value


def compiled(function: Any, data: list[Any]) -> Any:
    try:
        return compiled_outputs(function, data, np.random.default_rng(0), 1)[0]
    except Exception:  # an error or a refusal: the plain function decides then
        return None


@pytest.mark.parametrize(("function", "values"), [(on_integers, INTEGERS), (on_floats, FLOATS)])
def test_compiled_arithmetic_is_python_s_or_gives_up(function: Any, values: list[Any]) -> None:
    choose, kind = random.Random(1), type(values[0])
    given, certain = 0, 0
    for case in range(1400):
        a, b = (choose.choice(values) for _ in range(2))
        if choose.random() < 0.5:
            a, b = kind(a + choose.randrange(-3, 4)), kind(b + choose.randrange(-3, 4))
        data = [kind(case % 14), a, b]
        if kind is int and (max(map(abs, data)) >= 2**63 or (data[0] in (5, 6) and b > 10**4)):
            continue
        told = compiled(function, data)
        if told is not None:
            expected = python(function, data)
            assert expected is not None, data
            assert type(told) is type(expected)
            assert told == expected or math.isclose(told, expected, rel_tol=1e-12), data
            given += 1
        certain += 1
    assert given > certain / 3  # it does not give up where it need not


def test_it_gives_up_where_64_bits_do_not_suffice_and_only_there() -> None:
    for which, a, b in [(0, 2**62, 2**62), (1, -(2**62), 2**62 + 1), (2, 2**32, 2**31), (5, 3, 40), (6, 1, 63)]:
        with pytest.raises(Unfit, match="leaves 64 bits"):
            compiled_outputs(on_integers, [which, a, b], np.random.default_rng(0), 1)
    for which, a, b in [(0, 2**62, 2**62 - 1), (1, -(2**62), 2**62), (2, 2**32, 2**30), (5, 3, 39), (6, 1, 62)]:
        expected = python(on_integers, [which, a, b])
        assert compiled_outputs(on_integers, [which, a, b], np.random.default_rng(0), 1)[0] == expected
