"""Loops without a bound that toss coins: their probabilities, and what is proved of noise that is made of them."""

import math
import sys
from functools import partial
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import pytest
from tests.kernel import discrete_samplers as samplers
from tests.kernel.discrete_samplers import floats, noisy_count

import veridp
from veridp.errors import VeridpError
from veridp.kernel.handmade.coins import CoinCall, Toss


def proved(function, **typo):
    """The ε that is proved for whole numbers that change by 1, inf where none is."""
    claimed = veridp.mechanism(epsilon=0.5, adjacency="linf", domain=[0, 1], size=1)(function)
    try:
        return veridp.prove(claimed, **typo).epsilon
    except VeridpError:
        return math.inf


def test_a_coin_has_the_probability_that_its_series_says() -> None:
    paths = veridp.explore(floats, [0], retries=True)
    tossed = [fork for path in paths for fork in path.forks if isinstance(fork, Toss)]
    taken: list[Any] = [(fork.coin.key, fork.option.weight, fork.coin.values[fork.taken]) for fork in tossed]
    chances = {key: float(weight) for key, weight, values in taken if values[-1]}
    assert sorted(chances.values()) == pytest.approx([math.exp(-1), math.exp(-0.5), 1], rel=1e-15)


def test_noise_by_the_text_of_the_paper_is_proved() -> None:
    assert proved(noisy_count) == pytest.approx(0.5, rel=1e-12)


def test_floats_cost_what_they_should_and_a_typo_costs_more() -> None:
    assert proved(floats) == pytest.approx(0.5, rel=1e-12)
    # 0 is drawn with either sign: it is twice as likely as it should be
    assert veridp.exact.compare(floats, [0], [1], zero=False).epsilon == pytest.approx(0.5 + math.log(2), rel=1e-9)
    # a sign that is negative in a third of the cases: 0 weighs 2/3, -1 weighs e^-1/2 / 3
    assert veridp.exact.compare(floats, [0], [1], sides=3).epsilon == pytest.approx(0.5 + math.log(2), rel=1e-9)
    assert proved(floats, zero=False) == math.inf


def test_noise_that_leaves_numbers_out_costs_what_it_should() -> None:
    assert veridp.exact.compare(samplers.multiples_of_three, [0], [3]).epsilon == pytest.approx(1.0, rel=1e-9)
    assert veridp.exact.compare(samplers.multiples_of_three, [0], [1]).epsilon == math.inf
    assert proved(samplers.multiples_of_three) == math.inf


LEAKING = [
    samplers.of_a_scale_from_data,
    samplers.decides_by_a_last_digit,
    samplers.leaks_when_it_is_late,
    samplers.catches_what_is_late,
    samplers.remembers_what_is_late,
    samplers.returns_an_array_when_it_is_late,
    samplers.notes_a_check_when_it_is_late,
    samplers.notes_an_error_when_it_is_late,
    samplers.notes_a_draw_when_it_is_late,
    samplers.has_a_default_when_it_is_late,
]


@pytest.mark.parametrize("leaking", LEAKING)
def test_nothing_is_proved_of_coins_that_could_tell_of_the_data(leaking) -> None:
    assert proved(leaking) == math.inf


def test_a_coin_whose_error_ends_the_run_is_proved() -> None:
    assert proved(samplers.has_no_default) == 0


@pytest.mark.parametrize(
    "toss",
    [
        samplers.of_a_global_generator, samplers.of_a_method_that_is_kept, samplers.of_a_generator_that_is_passed_on,
        samplers.Tosser().toss,
    ],
)  # fmt: skip
def test_coins_of_generators_that_a_function_keeps_are_coins(toss) -> None:
    assert proved(samplers.count_of(toss)) == pytest.approx(1, rel=1e-12)


class Scaled:
    def __init__(self, p):
        self.p = p


class Noted(np.float64):
    pass


def by_a_local_class(p):
    class Local:
        def is_heads(self, rng):
            return rng.random() < p

    return Local().is_heads


def by_an_attribute(p):
    def is_heads(rng):
        return rng.random() < p

    is_heads.p = p
    return is_heads


def by_a_partial(p):
    return partial(samplers.survives, gamma=p)


def by_a_method_of_a_list(p):
    return [p].append


def by_a_module(p):
    made = ModuleType("math")
    made.p = p
    return made


def by_a_subclass_of_floats(p):
    made = Noted(1)
    made.p = p
    return made


def by_names_of_a_run(p):
    return FunctionType(samplers.survives.__code__, {"p": p})


def key_of(given):
    """What tells a call with this argument from others; None where it cannot be a coin."""
    found = CoinCall.of(sys._getframe())
    return None if found is None else found.key


def test_coins_are_told_apart_by_what_they_are_given() -> None:
    keys = [key_of(given) for given in (1, 1.0, Scaled(1), Scaled(2), (1, 2), samplers.survives, math)]
    assert None not in keys
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(
    "made",
    [
        by_a_local_class, by_an_attribute, by_a_partial, by_a_method_of_a_list, by_a_module, by_a_subclass_of_floats,
        by_names_of_a_run,
    ],
)  # fmt: skip
def test_what_does_not_tell_all_that_it_holds_makes_no_coin(made) -> None:
    assert key_of(made(0.1)) is None
