"""Which outputs are the same: one rule, for keys and for texts."""

from __future__ import annotations

import collections
import dataclasses
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veridp import prove, sample
from veridp.errors import BadOutput, ExplorationDisagrees
from veridp.kernel.output import Kind, Raised, Slot, Template
from veridp.kernel.path import map_leaves
from veridp.kernel.returned import identity
from veridp.sampling.encode import encode

texts = st.sampled_from(["", "#", "1", "1.0", "True", "None", "nan", "[1, 2]", "'", "\\x23", "raises E", "{'a': 1}"])
numbers = st.sampled_from([0, 1, 2, -1, 0.0, -0.0, 1.0, 0.5, 1e18, 10**18, 2**53 + 1, 2.0**53, math.nan, -math.nan])
numbers |= st.sampled_from([math.inf, -math.inf, np.float64(0.5), np.int64(1), np.float32(2), 1e300])
scalars = st.booleans() | st.none() | texts | numbers
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(
            texts | st.sampled_from([1, 2.5, True, None, (1, "a"), ("a", 1.0), (True, "a")]), inner, max_size=2
        )
    ),
    max_leaves=6,
)
outputs = values | st.builds(Raised, st.sampled_from(["ValueError", "m.E", "a('b')"]), texts)


def same(left: Any, right: Any) -> bool:
    """The rule, written down a second time, from its documentation."""
    left, right = (value.item() if isinstance(value, np.generic) else value for value in (left, right))
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        found = [[other for other in right if same(key, other)] for key in left]
        return len(left) == len(right) and all(
            len(keys) == 1 and same(left[key], right[keys[0]]) for key, keys in zip(left, found, strict=True)
        )
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, int | float) and isinstance(right, int | float):
        return left == right or (left != left and right != right)
    return type(left) is type(right) and left == right


@given(outputs, outputs)
@settings(max_examples=500, deadline=None)
def test_keys_and_texts_are_equal_for_the_same_outputs_and_no_others(left: Any, right: Any) -> None:
    mine, theirs = identity(left), identity(right)
    assert (mine == theirs) is same(left, right)
    assert (str(mine) == str(theirs)) is same(left, right)
    assert (hash(mine) == hash(theirs)) or not same(left, right)
    assert (encode([left]) == encode([right])) is same(left, right)
    assert "#" not in str(mine)
    assert identity(encode([left])[0]) == mine


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, 1.0),
        (np.int8(1), 1.0),
        (0.0, -0.0),
        (math.nan, float("-nan")),
        ([1, 2], (1.0, 2)),
        (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
        (np.array(2.5), 2.5),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (np.str_("a"), "a"),
    ],
)
def test_what_is_the_same(left: Any, right: Any) -> None:
    assert identity(left) == identity(right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, True),
        (1, "1"),
        (True, "True"),
        ([1, 2], "[1, 2]"),
        (None, "None"),
        ({}, []),
        ({"a": 1}, [("a", 1)]),
        ({1: 0}, {True: 0}),
        ([1], 1),
        ([[1], 2], [1, [2]]),
        (math.inf, -math.inf),
        (math.nan, None),
        (2**53 + 1, 2.0**53),
        (Raised("ValueError"), "raises ValueError"),
        (Raised("ValueError", "a"), Raised("ValueError", "b")),
        (Raised("ValueError", "a"), Raised("TypeError", "a")),
    ],
)
def test_what_is_not(left: Any, right: Any) -> None:
    assert identity(left) != identity(right)


class Listed(list):  # type: ignore[type-arg]
    """A list with room for attributes."""


class Slotted(list):  # type: ignore[type-arg]
    __slots__ = ("raw",)


class Measured(float):
    """A number with room for attributes."""


@dataclasses.dataclass
class Count:
    count: int


def carrying(value: Any, raw: float) -> Any:
    value.raw = raw
    return value


@pytest.mark.parametrize(
    "made",
    [
        lambda raw: carrying(Listed([1]), raw),
        lambda raw: carrying(Slotted([1]), raw),
        lambda raw: carrying(Measured(1), raw),
        lambda raw: carrying(Count(1), raw),
        lambda raw: [carrying(Listed(), raw)],
        lambda raw: np.ma.masked_array([raw], mask=[True]),
        lambda raw: np.zeros(1, dtype=[(f"field {raw}", float)]),
        lambda raw: np.zeros(1, dtype=[((str(raw), "field"), float)]),
        lambda raw: np.zeros(1, dtype=np.dtype(float, metadata={"raw": raw})),
        lambda raw: np.zeros(1, dtype=[("field", np.dtype(float, metadata={"raw": raw}))])[0],
        lambda raw: np.zeros((0, int(raw))),
        lambda raw: pd.Series([0], name=str(raw)),
        lambda raw: pd.Series([0], index=pd.Index([0], name=str(raw))),
        lambda raw: pd.Series(pd.Categorical(["a"], categories=["a", str(raw)])),
        lambda raw: pd.DataFrame([[0, 1]], columns=["1", 1] if raw > 1 else [1, "1"]),
        lambda raw: carrying_attributes(pd.DataFrame({"a": [0]}), raw),
    ],
)
def test_what_an_output_carries_besides_its_entries_is_of_it(made: Any) -> None:
    """Attributes, masked numbers, names of fields, shapes of nothing: who gets the output sees them too."""
    assert identity(made(1.0)) == identity(made(1.0))
    assert identity(made(1.0)) != identity(made(2.0))
    assert map_leaves(lambda leaf: leaf, made(1.0)) != map_leaves(lambda leaf: leaf, made(2.0))


def carrying_attributes(frame: Any, raw: float) -> Any:
    frame.attrs["raw"] = raw
    return frame


def test_what_a_dtype_says_of_the_data_is_not_lost() -> None:
    """Stand-ins lose the metadata of a dtype: plain runs contradict their paths, and samples show it."""

    def told(rng: Any, data: Any) -> Any:
        return np.array([rng.laplace()]).astype(np.dtype(float, metadata={"raw": data[0] > 0}))

    with pytest.raises(ExplorationDisagrees):
        prove(told, size=1)
    for value in (-0.5, 0.5):
        outputs = sample(told, [value], 8, seed=0).distinct()
        assert all(f"'raw': {value > 0}" in str(output) for output in outputs)


def test_a_class_that_adds_nothing_is_the_plain_one() -> None:
    assert identity(Listed([1, 2])) == identity([1, 2])
    assert identity(Measured(1.5)) == identity(1.5)
    assert identity(collections.Counter("a")) == identity({"a": 1})
    assert identity(np.zeros((2, 0))) != identity(np.zeros((0, 2)))


def test_a_number_has_another_text_than_a_string_with_its_mark() -> None:
    assert str(Template(Slot(Kind.FLOAT, 0))) == "#"
    assert str(identity("#")) == r"'\x23'"
    assert str(identity({"b": [True, None], "a": 2.0})) == "{'a': 2, 'b': [True, None]}"


def test_what_no_output_may_be() -> None:
    for value in (object(), lambda: 1, 2**63, {object()}):
        with pytest.raises(BadOutput):
            identity(value)
