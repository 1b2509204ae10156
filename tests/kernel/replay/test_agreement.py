"""Plain runs against explored paths: code that tells stand-ins from numbers is found out, ordinary code passes."""

from __future__ import annotations

import copy
import math
import random
import sys
import time
import uuid
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import veridp
from veridp.errors import ExplorationDisagrees, Nondeterministic, NotExplorable
from veridp.kernel.explore import explore
from veridp.kernel.expressions import unknowns
from veridp.kernel.feasibility import Inside
from veridp.kernel.noise import Laplace
from veridp.kernel.replay.agreement import Listing, Replayed
from veridp.kernel.replay.scripted import ScriptedGenerator
from veridp.mechanism import as_mechanism


def replay(function: Callable[..., Any], data: Any, defer: bool = False) -> Replayed:
    mechanism = as_mechanism(function)
    return Listing.of(mechanism, data, explore(mechanism, data, defer=defer), defer).replay()


# ------------------------------------------------------------------------------------------------ code that notices


def identity_of_a_comparison(rng, data):
    if (data[0] + rng.laplace() > 0) is True:
        return data[0]
    return 0


def type_of_a_number(rng, data):
    return data[0] if type(data[0] + rng.laplace()) is float else 0


def identity_in_the_tail(rng, data):
    noisy = data[0] + rng.laplace()
    if (noisy > 1e6) is True:
        return data[0]
    return noisy


def match_statement(rng, data):
    match data[0] + rng.laplace() > 0:
        case True:
            return data[0]
        case _:
            return 0


def swallowed_indexing(rng, data):
    noisy = np.array(data) + rng.laplace(size=len(data))
    try:
        positive = noisy[noisy > 0]
        return float(sum(data)) if len(positive) else 0.0
    except Exception:
        return noisy[0]


def swallowed_unique(rng, data):
    noisy = np.array(data) + rng.laplace(size=len(data))
    try:
        return [float(np.unique(noisy)[0]), data[0]]
    except Exception:
        return [0.0, 0.0]


def swallowed_infinity(rng, data):
    try:
        return [data[0] + rng.laplace() + math.inf, data[0]]
    except Exception:
        return [0.0, 0.0]


def swallowed_stop(rng, data):
    noisy = data[0] + rng.laplace()
    try:
        return noisy.hex()
    except BaseException:
        return 0


def exact_type(rng, data):
    noisy = data[0] + rng.laplace()
    if type(noisy) is float and noisy > 1e9:
        return data[0]
    return noisy


def exact_generator(rng, data):
    if type(rng) is np.random.Generator:
        return data[0]
    return data[0] + rng.laplace()


def tracer(rng, data):
    if sys.gettrace() is None:
        return data[0] + rng.laplace()
    return data[0]


def scale_by_type(rng, data):
    noisy = data[0] + rng.laplace()
    return noisy, data[0] + rng.laplace(scale=[10.0, 1.0][type(noisy) is float])


def distribution_by_type(rng, data):
    return data[0] + [rng.laplace, rng.normal][type(rng.laplace()) is float]()


def threshold_by_type(rng, data):
    noisy = data[0] + rng.laplace()
    return "high" if noisy > [3.0, 3.01][type(noisy) is float] else "low"


def returned_threshold_by_type(rng, data):
    noisy = data[0] + rng.laplace()
    return noisy > [30.0, 30.01][type(noisy) is float]


def coin_by_type(rng, data):
    coin = rng.random()
    return (coin < [0.51, 0.52][type(coin) is float]) == (data[0] > 0)


def choice_by_type(rng, data):
    chance = [0.5, 0.9][type(rng.laplace()) is float]
    return (int(rng.choice(2, p=[chance, 1 - chance])) + int(data[0] > 1)) % 2


def count_by_type(rng, data):
    return bool(rng.integers([2, 3][type(rng.laplace()) is float]) == 0) == (data[0] > 1)


def unused_draw_by_type(rng, data):
    noise = rng.laplace(size=[1, 2][type(rng.laplace()) is float])
    return data[0] + noise[0]


def neither_true_nor_false(rng, data):
    positive = data[0] + rng.laplace() > 0
    return data[0] if positive is not True and positive is not False else 1


def method_of_floats(rng, data):
    return float.__gt__(data[0] + rng.laplace(), 0.0)


def bits_of_a_rare_count(rng, data):
    return data[0] if getattr(rng.poisson(5), "bit_length", lambda: 0)() > 6 else 9


def count_as_a_complex_number(rng, data):
    return data[0] if rng.poisson(5) == 60 + 0j else 9


def type_below_a_billionth(rng, data):
    return data[0] if type(0.5 if rng.random() < 1e-9 else 0) is float else 9


def type_close_to_one(rng, data):
    return data[0] if type(0.5 if rng.random() > 1 - 1e-14 else 0) is float else 9


def type_between_neighbours(rng, data):
    return data[0] if type(0.5 if 3 < data[0] + rng.laplace() < 3 + 1e-9 else 0) is float else 9


def type_beside_another_draw(rng, data):
    return data[0] if type(0.5 if 0 < rng.laplace() - rng.laplace() < 1e-9 else 0) is float else 9


def counting_default(rng, data, seen=[]):  # noqa: B006
    noisy = data[0] + rng.laplace()
    if noisy > 3:
        seen.append(1)
    return data[0] if len(seen) > 1000 else noisy


def entropy_on_a_late_path(rng, data):
    noisy = data[0] + rng.laplace()
    if noisy > 0:
        return noisy
    return data[0] if uuid.uuid4().int % 1000 == 0 else noisy


def warnings_as_errors(rng, data):
    noisy = data[0] + rng.laplace()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            np.log(noisy)
        except RuntimeWarning:  # of numbers below 0, which have none
            return data[0]
    return noisy


def errors_of_numpy(rng, data):
    noisy = data[0] + rng.laplace()
    with np.errstate(invalid="raise"):
        try:
            np.sqrt(noisy)
        except FloatingPointError:
            return data[0]
    return noisy


COUNTER = {"runs": 0}


def counting_global(rng, data):
    COUNTER["runs"] += 1
    return data[0] if COUNTER["runs"] > 10**6 else data[0] + rng.laplace()


@pytest.mark.parametrize(
    "function",
    [
        type_of_a_number,
        swallowed_unique,
        swallowed_infinity,
        swallowed_stop,
        exact_type,
        exact_generator,
        tracer,
        scale_by_type,
        distribution_by_type,
        threshold_by_type,
        returned_threshold_by_type,
        coin_by_type,
        choice_by_type,
        count_by_type,
        unused_draw_by_type,
        method_of_floats,
        bits_of_a_rare_count,
        count_as_a_complex_number,
        type_below_a_billionth,
        type_close_to_one,
        type_between_neighbours,
        type_beside_another_draw,
        counting_default,
        entropy_on_a_late_path,
        warnings_as_errors,
        errors_of_numpy,
        counting_global,
    ],
)
def test_code_that_notices_stand_ins_gets_no_verdict_from_paths(function):
    with pytest.raises((NotExplorable, Nondeterministic)):
        veridp.prove(function, 2)
    with pytest.raises((NotExplorable, Nondeterministic)):
        veridp.exact.compare(function, [1.0, 2.0], [2.0, 3.0])


def sign_of_a_zero(rng, data):
    return math.copysign(1.0, data[0] * 0.0)


def text_of_a_zero(rng, data):
    return str(data[0] * 0.0)


def angle_of_a_zero(rng, data):
    return math.atan2(data[0] * 0.0, -1.0)


def bit_of_a_zero(rng, data):
    return bool(np.signbit(data[0] * 0.0))


def text_of_a_zero_in_the_tail(rng, data):
    noisy = data[0] + rng.laplace()
    return f"{data[0] * 0.0}" if noisy > 30 else "none"


@pytest.mark.parametrize(
    "function", [sign_of_a_zero, text_of_a_zero, angle_of_a_zero, bit_of_a_zero, text_of_a_zero_in_the_tail]
)
def test_the_sign_of_a_zero_tells_of_the_data(function):
    """Floats have -0.0, which paths do not: each path is replayed on data on either side of the middle."""
    with pytest.raises(NotExplorable):
        veridp.prove(function, 1)


@pytest.mark.parametrize(
    ("function", "epsilon"),
    [
        (identity_of_a_comparison, math.inf),
        (identity_in_the_tail, math.inf),
        (match_statement, math.inf),
        (neither_true_nor_false, 0.0),
    ],
)
def test_the_identity_of_a_comparison_is_explored_as_python_has_it(function, epsilon):
    assert veridp.exact.compare(function, [1.0], [2.0]).epsilon == pytest.approx(epsilon, abs=1e-15)
    assert veridp.prove(function, 1).epsilon == epsilon


def test_indexing_by_noisy_truth_values_is_explored_as_numpy_does_it():
    assert {path.output for path in explore(swallowed_indexing, [1.0, 2.0])} == {3.0, 0.0}
    assert veridp.exact.compare(swallowed_indexing, [1.0, 2.0], [2.0, 3.0]).epsilon == math.inf
    assert math.isinf(veridp.prove(swallowed_indexing, 2).epsilon)


def test_the_error_says_where_what_was_drawn_and_both_outputs():
    with pytest.raises(ExplorationDisagrees, match=r"type_of_a_number on \[1\.0\], drawing \[.*\], returns 1\.0"):
        replay(type_of_a_number, [1.0])
    with pytest.raises(ExplorationDisagrees, match=r"test_agreement\.py:\d+: the plain run goes another way"):
        replay(exact_type, [1.0])


# ------------------------------------------------------------------------------------------------ code that does not


def asks_for_types(rng, data):
    assert isinstance(rng, np.random.Generator)
    noisy = data[0] + rng.laplace()
    whole = rng.geometric(0.5)
    assert isinstance(noisy, float)
    assert not isinstance(noisy, int)
    assert isinstance(whole, int)
    assert isinstance(noisy > 0, bool)
    return [noisy, whole, noisy > 0]


def cached(rng, data, memo={}):  # noqa: B006
    return data[0] + rng.laplace(scale=memo.get("scale", 1.0))


def sorts(rng, data):
    noisy = sorted([value + rng.laplace() for value in data], key=lambda value: -value)
    return [noisy[0], max(noisy) - min(noisy)]


def chooses(rng, data):
    which = rng.choice(["a", "b", "c"], p=[0.5, 0.25, 0.25])
    order = rng.permutation(3)
    return [str(which), int(order[0]), rng.integers(2, 5), bool(rng.random() < 0.25)]


def adds_comparisons_of_an_integer(rng, data):
    drawn = 1 + rng.integers(3)
    return [(drawn > 1.5) + (drawn > 0.5), data[0] + rng.laplace()]  # NumPy's truth values, whose sum is one


def decided_by_constants(rng, data):
    noisy = data[0] + rng.laplace()
    return [int(np.argmax([noisy])), int(np.argmin([noisy, noisy + 1])), int(rng.integers(3)), noisy]


def rarely(rng, data):
    """Paths without a margin are met, too."""
    found = 0 if rng.random() < 1 - 1e-9 else 1
    found += 2 * (3 < data[0] + rng.laplace() < 3 + 1e-9) + 4 * (rng.random() < 1e-12)
    return found if rng.random() > 1e-15 else -found


def test_narrow_paths_are_met() -> None:
    replayed = replay(rarely, [0.0])
    assert replayed.reached == replayed.paths > 8


@pytest.mark.parametrize(
    "function", [asks_for_types, cached, sorts, chooses, adds_comparisons_of_an_integer, decided_by_constants]
)
def test_ordinary_code_passes(function):
    found = replay(function, [1.0, 2.0])
    assert found.reached == found.paths
    assert found.runs >= found.paths


def test_numbers_that_stand_side_by_side_in_a_text_are_told_apart():
    def side_by_side(rng, data):
        return f"{data[0] + rng.laplace():.0f}{data[0] + rng.laplace():.2f}"

    assert replay(side_by_side, unknowns("data", 1)).reached == 1
    assert replay(side_by_side, [-3.0]).reached == 1


def test_open_data_are_filled_in():
    found = replay(lambda rng, data: data[0] > data[1] + rng.laplace(), unknowns("data", 2))
    assert str(found) == "all 2 paths replayed by 22 plain runs"


@pytest.mark.parametrize("name", sorted(set(veridp.catalogue) - {"svt34_parallel", "svt5", "svt6"}))
def test_the_catalogue_passes(name):
    mechanism = veridp.catalogue[name]
    data = mechanism.adjacency.example(mechanism.size, mechanism.domain)
    found = Listing.of(mechanism, data, explore(mechanism, data, defer=True), True).replay()
    assert found.reached == found.paths


# ------------------------------------------------------------------------------------------------ copies of rng


def difference_of_copies(rng, data):
    twin = copy.deepcopy(rng)
    return data[0] + rng.laplace() - twin.laplace()


def only_the_copy(rng, data):
    return data[0] + copy.deepcopy(rng).laplace()


def test_a_deep_copy_draws_the_same_numbers():
    assert veridp.exact.compare(difference_of_copies, [1.0], [2.0]).epsilon == math.inf
    assert veridp.exact.compare(only_the_copy, [1.0], [2.0]).epsilon == pytest.approx(1.0, abs=1e-12)
    with pytest.raises(NotExplorable, match="another distribution"):
        explore(lambda rng, data: copy.deepcopy(rng).laplace() + rng.normal(), [1.0])


# ------------------------------------------------------------------------------------------------ its parts


def test_a_recording_generator_draws_what_numpy_draws():
    def draws(rng):
        return [
            rng.laplace(1, 2), rng.normal(size=2), rng.gumbel(), rng.logistic(), rng.exponential(3), rng.uniform(2, 5),
            rng.random(), rng.geometric(0.3), rng.poisson(2), rng.binomial(5, 0.5), rng.integers(1, 9, size=3),
            rng.choice(5, size=2, replace=False), rng.choice(["a", "b"]), rng.permutation(4), rng.standard_normal(),
        ]  # fmt: skip

    genuine, recorded = (make(np.random.PCG64(7)) for make in (np.random.Generator, ScriptedGenerator))
    for mine, theirs in zip(draws(genuine), draws(recorded), strict=True):
        assert type(mine) is type(theirs)
        assert np.all(mine == theirs)
    assert len(recorded.draws) == 11
    assert len(recorded.picks) == 1 + 3 + 2 + 1 + 4


@pytest.mark.parametrize(
    "options", [{}, {"dtype": int}, {"dtype": bool}, {"dtype": np.uint8}, {"size": ()}, {"size": 2}]
)
def test_a_scripted_integer_is_of_the_type_that_numpy_gives(options: dict[str, Any]) -> None:
    scripted = ScriptedGenerator(np.random.PCG64(0), lambda _: 1.0, lambda _: 1).integers(0, 2, **options)
    assert type(scripted) is type(np.random.default_rng(0).integers(0, 2, **options))


def test_a_script_is_followed():
    rng = ScriptedGenerator(np.random.PCG64(0), lambda distribution: 2.0, lambda weights: 1)
    assert rng.laplace(loc=1.0, scale=3.0) == 3.0
    assert rng.normal(size=2).tolist() == [2.0, 2.0]
    assert rng.uniform(1, 4) == 7.0
    assert rng.choice(["a", "b"]) == "b"
    assert isinstance(rng, np.random.Generator)


def test_points_lie_inside_their_paths():
    def narrow(rng, data):
        first, second = rng.laplace(), rng.geometric(0.5)
        return 3 < first < 3.5 and first + second > 100 and second != 98

    for path in explore(narrow, []):
        values = Inside(path, {}, np.random.default_rng(0)).point()
        assert values is not None
        assert path.holds(values)
    assert isinstance(explore(narrow, [])[0].noises[0].distribution, Laplace)


def test_points_beside_a_boundary_lie_inside_their_paths():
    def banded(rng, data):
        first, second = rng.laplace(), rng.geometric(0.5)
        return 3 < first < 3.5 and second + data[0] > 5

    slacks = []
    for path in explore(banded, [1]):
        for condition in path.conditions:
            values = Inside(path, {}, np.random.default_rng(0)).edge(condition)
            if values is not None:
                assert path.holds(values)
                slacks.append(float(condition.slack.evaluate(values)))
    assert len(slacks) == 6  # of x > 3, x < 3.5, their negations, and of second > 4 and second <= 4
    assert all(slack in (0, 1) or slack == pytest.approx(1e-4) for slack in slacks)


# ------------------------------------------------------------------------------------------------ rounding


def shifted(offset: float, scale: float = 1.0) -> Callable[..., Any]:
    return lambda rng, data: data[0] + offset + rng.laplace(scale=scale)


@pytest.mark.parametrize(("offset", "scale"), [(1e16, 1.0), (-1e16, 1.0), (1e20, 100.0), (1.0, 1e-17)])
def test_noise_that_is_lost_to_rounding_gives_no_verdict(offset, scale):
    with pytest.raises(ExplorationDisagrees, match="the noise of <lambda> is lost to rounding"):
        veridp.prove(shifted(offset, scale), 1)
    with pytest.raises(ExplorationDisagrees, match="the noise of <lambda> is lost to rounding"):
        veridp.exact.compare(shifted(0.0, scale), [offset], [offset + math.ulp(offset)])


@pytest.mark.parametrize("offset", [1e14, 1e15])
def test_noise_that_rounding_leaves_is_kept(offset):
    assert veridp.prove(shifted(offset), 1).epsilon == 1
    assert veridp.exact.compare(shifted(offset), [0.0], [1.0]).epsilon == pytest.approx(1, rel=1e-9)


def test_whole_numbers_are_not_rounded():
    def whole(rng, data):
        return int(data[0]) + 10**18 + rng.geometric(0.5)

    assert veridp.exact.compare(whole, [0], [1]).epsilon == math.inf  # the support begins at 1
    assert replay(whole, [0]).reached == 1


# ------------------------------------------------------------------------------------------------ dicts


def ordered_by_the_clock(rng, data):
    noise = {"a": rng.laplace(), "b": rng.laplace()}
    return {key: noise[key] for key in sorted(noise, key=lambda _: time.perf_counter_ns() % 97)}


def test_the_order_of_a_dict_is_no_difference_between_runs():
    for _ in range(10):  # half of the pairs of runs differ in their order
        assert replay(ordered_by_the_clock, [1.0]).reached == 1


def parity_of_a_mask(data):
    mask = random.getrandbits(20)
    return mask, "odd" if (mask & data).bit_count() % 2 else "even"


def test_paths_that_ask_for_parities_are_met():
    """Whole numbers are not rounded: an equality of them is no matter of floats, also by a generator of its own."""
    mechanism = as_mechanism(parity_of_a_mask)
    paths = explore(mechanism, 6)
    replayed = Listing.of(mechanism, 6, paths).replay(runs=1)
    assert {path.output[1] for path in paths} == {"even", "odd"}
    assert replayed.reached == 2
    assert replayed.runs >= 4
