"""Loops without a bound that toss coins: their probabilities, and what is proved of noise that is made of them."""

import math

import discrete_samplers as samplers
import pytest
from discrete_samplers import floats, noisy_count

import veridp
from veridp.errors import VeridpError
from veridp.kernel.coins import Toss


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
    chances = {fork.coin.key: float(fork.option.weight) for fork in tossed if fork.coin.values[fork.taken][-1]}
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


LEAKING = [
    samplers.of_a_scale_from_data,
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
