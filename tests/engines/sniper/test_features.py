"""Outputs of every form become columns, whatever their kinds and lengths."""

from __future__ import annotations

import pickle

import numpy as np

from veridp.engines.sniper.attack import exponents, lowest_bits, reachable
from veridp.engines.sniper.features import COMPARED_ROWS, columns_for
from veridp.sampling.encode import encode


def as_dict(values: list[object], **options: bool) -> dict[str, list[float]]:
    outputs = encode(values)
    columns = columns_for(outputs, **options)  # type: ignore[arg-type]
    return dict(zip(columns.names, columns.matrix(outputs).T.tolist(), strict=True))


def test_a_number_is_one_column() -> None:
    assert as_dict([1.5, -2.0, 3.0]) == {"output": [1.5, -2.0, 3.0]}


def test_columns_that_do_not_vary_are_left_out() -> None:
    assert as_dict([[1.0, 7.0], [2.0, 7.0]], composed=False) == {"output[0]": [1.0, 2.0]}


def test_flags_lengths_and_numbers_are_told_apart() -> None:
    found = as_dict([[None, 2.0], [None, None, 5.0], [7.0]], composed=False)
    assert np.array_equal(found["output[0]"], [np.nan, np.nan, 7.0], equal_nan=True) if "output[0]" in found else True
    assert found["length of output"] == [2.0, 3.0, 1.0]
    names = " ".join(found)
    assert "output[1] is None" in names or "output[1] is a number" in names


def test_a_leaf_is_known_by_its_path_and_not_by_its_place_in_a_row() -> None:
    found = as_dict([[[1.0], [True]], [[1.0, 2.0], [False]], [[3.0], [False]]], composed=False)
    assert found["output[1][0]"] == [1.0, 0.0, 0.0]
    assert found["output[0][0]"] == [1.0, 1.0, 3.0]


def test_texts_have_a_column_each() -> None:
    found = as_dict(["yes", "no", "maybe", "no"])
    assert found["[output is 'no']"] == [0.0, 1.0, 0.0, 1.0]
    assert len(found) == 3


def test_differences_and_summaries_are_added() -> None:
    found = as_dict([[1.0, 4.0, 9.0], [2.0, 0.0, 8.5], [0.0, 0.5, 2.0]])
    assert found["(output[1] - output[0])"] == [3.0, -2.0, 0.5]
    assert found["least of output"] == [1.0, 0.0, 0.0]
    assert found["sum of output"] == [14.0, 10.5, 2.5]


def test_columns_that_tell_the_same_are_kept_once() -> None:
    found = as_dict([[1.0, 2.0], [3.0, 6.0], [2.0, 4.0]])
    assert list(found) == ["output[0]"]


def test_large_numbers_have_a_column_each() -> None:
    found = as_dict([[1e200, 2e200], [3e200, -6e200], [2e200, 5e200]], composed=False)
    assert list(found) == ["output[0]", "output[1]"]


def test_unseen_forms_are_read_as_far_as_they_are_known() -> None:
    columns = columns_for(encode([[1.0, 2.0], [3.0, 5.0], [4.0, 1.0]]), composed=False)
    later = columns.matrix(encode([[8.0], ["text", 2.0], [1.0, 2.0, 3.0], None]))
    assert np.array_equal(later[:, 0], [8.0, np.nan, 1.0, np.nan], equal_nan=True)
    assert np.array_equal(later[:, 1], [np.nan, 2.0, 2.0, np.nan], equal_nan=True)


def test_columns_travel() -> None:
    outputs = encode([[1.0, None], [2.0, 3.0], [0.5, 4.0]])
    columns = columns_for(outputs)
    again = pickle.loads(pickle.dumps(columns))  # noqa: S301
    assert np.array_equal(again.matrix(outputs), columns.matrix(outputs), equal_nan=True)


def test_bits_of_floats_agree_with_their_hexadecimal_form() -> None:
    rng = np.random.default_rng(0)
    numbers = np.concatenate([rng.normal(size=50), [0.5, 3.0, 1e-300, 2.0**-60, -6.0]])
    for number, lowest, exponent in zip(numbers, lowest_bits(numbers), exponents(numbers), strict=True):
        numerator, denominator = float(number).as_integer_ratio()  # an odd numerator, or a denominator of 1
        trailing = (numerator & -numerator).bit_length() - 1
        assert lowest == trailing - (denominator.bit_length() - 1)
        assert 2.0**exponent <= abs(number) < 2.0 ** (exponent + 1)


def test_what_adding_a_double_can_reach() -> None:
    rng = np.random.default_rng(1)
    noise = rng.laplace(scale=10, size=2000)
    assert reachable(3.7 + noise, 3.7).all()
    assert reachable(noise, 0.0).all()
    small = rng.uniform(-0.25, 0.25, size=2000)
    assert reachable(small, 1.0).mean() < 0.5  # near 0 doubles are denser than 1 + any double can be


def test_numbers_have_sides_or_their_steps_have() -> None:
    """Independent numbers are told by their own sides, sums that run on by the sides of what is added."""
    rng = np.random.default_rng(0)
    noise = rng.laplace(size=(2000, 3))
    for numbers, told in ((noise, "[output[2] > "), (np.cumsum(noise, axis=1), "[(output[2] - output[1]) > ")):
        outputs = encode(numbers.tolist())
        columns = columns_for(outputs)
        place = next(place for place, name in enumerate(columns.names) if name.startswith(told))
        added = numbers[:, 2] - numbers[:, 1] if "-" in told else numbers[:, 2]
        assert (columns.matrix(outputs)[:, place] == np.where(added > np.median(added), 1.0, -1.0)).all()
        assert sum(" > " in name for name in columns.names) == 3


def test_columns_that_are_alike_in_the_first_rows_alone_are_kept() -> None:
    rare: list[object] = [[0.5 * row, row % 7 == 0, row % 7 == 0] for row in range(COMPARED_ROWS)]
    rare.append([0.25, True, False])
    found = as_dict(rare, composed=False)
    assert list(found) == ["output[0]", "output[1]", "output[2]"]
    assert list(as_dict(rare[:-1], composed=False)) == ["output[0]", "output[1]"]


def test_equal_outputs_are_read_once_for_their_columns() -> None:
    different = [[True, None, 3], [False, 2.5, 3], [False, None, 4], [True, 1.5, 5]]
    often = [different[place % 4] for place in range(40)]
    assert columns_for(encode(often)).names == columns_for(encode(different)).names
