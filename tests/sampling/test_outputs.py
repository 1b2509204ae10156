"""Outputs by columns: what goes in comes out, and is counted, compared and laid out as matrices."""

from __future__ import annotations

import math
from collections import namedtuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veridp.errors import BadOutput
from veridp.kernel.output import DictItems, Kind, Raised
from veridp.kernel.returned import identity
from veridp.sampling import encode as encoding
from veridp.sampling.encode import encode, encode_array
from veridp.sampling.outputs import Outputs, concatenate

scalars = (
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=3)
    | st.none()
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner, max_size=3)
)


def frozen(value: object) -> object:
    """The value as Outputs give it back."""
    if isinstance(value, list | tuple):
        return tuple(frozen(entry) for entry in value)
    if isinstance(value, dict):
        return DictItems((key, frozen(value[key])) for key in sorted(value))
    return value


def typed(value: object) -> object:
    """The value with the types of its scalars: True, 1 and 1.0 differ."""
    return type(value)(map(typed, value)) if isinstance(value, tuple) else (type(value), value)


@given(st.lists(values, max_size=30))
@settings(max_examples=200, deadline=None)
def test_rows_come_back_as_they_went_in(rows: list[object]) -> None:
    outputs = encode(rows)
    expected = [frozen(row) for row in rows]
    assert [typed(row) for row in outputs] == [typed(row) for row in expected]
    assert [typed(outputs[index]) for index in range(len(rows))] == [typed(row) for row in expected]


numbers = st.sampled_from([0, 2, True, 1.5, -0.0, math.nan, None, np.float64(2.5), np.int64(3), np.bool_(False)])
nested_numbers = st.recursive(numbers, lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner))


@given(st.lists(nested_numbers | values | st.just([None, 1.0] * 40), max_size=8))
@settings(max_examples=200, deadline=None)
def test_every_row_is_the_output_that_was_returned(rows: list[object]) -> None:
    outputs = encode([*rows, *rows])
    for row, output in zip([*rows, *rows], outputs, strict=True):
        assert identity(output) == identity(row)


def test_nested_numbers_are_told_by_their_types_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening each of them entry by entry took longer than drawing them."""
    rows = [([0.5, None, 2.0], [True, False]), ([None, None, 1.5], [False]), ([4.5, None, 8.0], [True, True])]
    monkeypatch.setattr(encoding, "tree_of", None)
    assert list(encode(rows)) == [frozen(row) for row in rows]
    with pytest.raises(TypeError):
        encode([*rows, ([0.5, "text"], [True])])


@given(st.lists(values, max_size=12), st.lists(values, max_size=12))
@settings(max_examples=100, deadline=None)
def test_concatenating_slicing_and_counting_are_those_of_lists(left: list[object], right: list[object]) -> None:
    one, two, both = encode(left), encode(right), encode(left + right)
    joined = concatenate([one, two])
    assert joined == both
    assert joined[len(left) :] == two
    assert joined[np.arange(len(left))] == one
    assert (one == two) == ([identity(row) for row in left] == [identity(row) for row in right])
    counts = both.distinct()
    assert sum(counts.values()) == len(left + right)
    for row in left + right:
        assert counts[row] == sum(identity(row) == identity(other) for other in left + right)


def test_the_first_difference_is_found_by_identity() -> None:
    outputs = encode([1, 2, [True], 0.5])
    assert outputs.first_difference(encode([1, 2, [True], 0.5])) is None
    assert outputs.first_difference(encode([1, 2, [1], 0.5])) == 2
    assert outputs.first_difference(encode([1, 2.0, [True], 0.5])) is None
    assert outputs.first_difference(encode([1, "2", [True], 0.5])) == 1
    assert encode([2**53 + 1]).first_difference(encode([2.0**53])) == 0
    assert encode([float("nan"), float("inf")]).first_difference(encode([float("nan"), -float("inf")])) == 1
    assert outputs.first_difference(encode([1, 2, [True], 0.5 + 1e-12])) == 3
    assert outputs.agrees(encode([1, 2, [True], 0.5 + 1e-12]), tolerance=1e-9)
    assert not outputs.agrees(encode([1, 2, [True]]))


def test_numpy_values_are_those_of_python() -> None:
    rows = [np.float64(0.5), np.int8(3), np.True_, np.str_("a"), np.array([1, 2]), np.array(2.5), [np.float32(0.25)]]
    assert [typed(row) for row in encode(rows)] == [typed(row) for row in (0.5, 3, True, "a", (1, 2), 2.5, (0.25,))]
    assert list(encode([np.array([[1.0, 2.0], [3.0, 4.0]])])) == [((1.0, 2.0), (3.0, 4.0))]


def test_arrays_whose_first_axis_counts_outputs() -> None:
    matrix = np.arange(6.0).reshape(3, 2)
    assert encode_array(matrix) == encode([list(row) for row in matrix])
    assert encode_array(np.array([True, False])) == encode([True, False])
    assert encode_array(np.arange(8).reshape(2, 2, 2)) == encode([[[0, 1], [2, 3]], [[4, 5], [6, 7]]])
    assert encode_array(np.array(["a", None], dtype=object)) == encode(["a", None])


def test_matrix_kinds_lengths_and_outlines() -> None:
    outputs = encode([[False, 1.5], ["b"], None, [], 7, ["a", (True, -2)]])
    np.testing.assert_array_equal(
        outputs.matrix(missing=-9),
        [[0, 1.5, -9], [1, -9, -9], [-9, -9, -9], [-9, -9, -9], [7, -9, -9], [0, 1, -2]],
    )
    assert outputs.vocabulary == ("a", "b")
    absent, none, true, integer, number, text, *_ = (kind.value for kind in Kind)
    assert outputs.kinds().tolist() == [
        [true, number, absent],
        [text, absent, absent],
        [none, absent, absent],
        [absent, absent, absent],
        [integer, absent, absent],
        [text, true, integer],
    ]
    assert outputs.lengths().tolist() == [2, 1, 1, 0, 1, 3]
    codes, outlines = outputs.outlines()
    assert [outlines[code] for code in codes] == [(None, None), (None,), None, (), None, (None, (None, None))]


def test_matrix_and_kinds_of_what_is_no_finite_number() -> None:
    outputs = encode([0.5, math.nan, math.inf, -math.inf, Raised("ValueError"), None])
    np.testing.assert_array_equal(outputs.matrix()[:, 0], [0.5, math.nan, math.inf, -math.inf, math.nan, math.nan])
    names = [Kind(kind).name for kind in outputs.kinds()[:, 0]]
    assert names == ["FLOAT", "NAN", "INFINITY", "MINUS_INFINITY", "RAISED", "NONE"]
    assert outputs.distinct() == dict.fromkeys([0.5, math.nan, math.inf, -math.inf, Raised("ValueError"), None], 1)


def test_named_tuples_are_tuples() -> None:
    point = namedtuple("point", "x y")
    assert encode([point(1, 2), point(3, 4)]) == encode([(1, 2), (3, 4)])


def test_many_forms_need_wider_codes() -> None:
    rows = [f"word {index}" for index in range(70_000)]
    outputs = encode(rows)
    assert outputs.codes.dtype == np.uint32
    assert outputs[69_999] == "word 69999"
    assert encode(rows[:300]).codes.dtype == np.uint16


def test_counting_wide_rows_of_integers_does_not_overflow() -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(-(2**62), 2**62, size=(50, 6))
    outputs = encode_array(np.concatenate([rows, rows[:10]]))
    assert sorted(outputs.distinct().values()) == [1] * 40 + [2] * 10


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (object(), r"of type object; return numbers"),
        ({object()}, "of type object"),
        ([object()], "of type object"),
        (2**63, "9223372036854775808, beyond 64-bit integers"),
        ({object(): 3}, "of type object"),
    ],
)
def test_what_has_no_columns_is_reported(bad: object, message: str) -> None:
    with pytest.raises(BadOutput, match=message):
        encode([0.5, bad, bad])


def test_no_outputs_at_all() -> None:
    empty = encode([])
    assert len(empty) == 0
    assert list(empty) == []
    assert empty.distinct() == {}
    assert empty.matrix().shape == (0, 0)
    assert concatenate([]) == empty
    assert repr(Outputs(np.zeros(0, dtype=np.uint8), ())) == "<0 outputs: >"


def test_equal_rows_are_grouped() -> None:
    values = [[True, 3], None, [True, 4], "a", [True, 3], 2.5, None, 2.5, [1, 3]]
    outputs = encode(values)
    groups = outputs.grouped(10)
    assert groups is not None
    few, places = groups
    assert few[places] == outputs
    assert len(few) == 6
    assert outputs.grouped(5) is None
    nothing = outputs[:0].grouped(5)
    assert nothing is not None
    assert len(nothing[0]) == len(nothing[1]) == 0


def test_rows_of_numbers_that_never_repeat_are_not_grouped() -> None:
    numbers = np.random.default_rng(0).normal(size=2000)
    assert encode(numbers.tolist()).grouped(1999) is None
    few = encode(np.round(numbers).tolist()).grouped(1000)
    assert few is not None
    assert sorted(few[0]) == sorted(set(np.round(numbers).tolist()))
