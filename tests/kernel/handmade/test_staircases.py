"""Staircase noise: recognised where code makes it, priced in whole steps, proved; and what only looks like it."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import veridp
from veridp.kernel.noise import Staircase
from veridp_check.checker import check
from veridp_check.noise import NoiseDraw

B = math.exp(-1.0)


def by_branch(rng: Any, gamma: float = 0.3, chance: float | None = None, fair: float = 0.5, top: float = 1.0) -> Any:
    """A sample for ε = 1 and sensitivity 1; the other arguments make it a wrong one."""
    sign = 1 if rng.random() < fair else -1
    step, within = rng.geometric(1 - B) - 1, rng.random()
    lower = rng.random() < (gamma / (gamma + (1 - gamma) * B) if chance is None else chance)
    return sign * (step + gamma * within if lower else step + gamma + (top - gamma) * within)


def by_product(rng: Any, scale: float = 2.5, gamma: float = 1 / (1 + math.exp(0.5))) -> Any:
    """As the paper has it, for ε = 1 and another sensitivity."""
    sign, step, within = rng.choice([-1, 1]), rng.geometric(1 - B) - 1, rng.random()
    coin = rng.binomial(1, (1 - gamma) * B / (gamma + (1 - gamma) * B))
    return sign * (
        (1 - coin) * ((step + gamma * within) * scale) + coin * ((step + gamma + (1 - gamma) * within) * scale)
    )


def by_where(rng: Any, gamma: float = 0.5) -> Any:
    sign = np.where(rng.random() < 0.5, 1, -1)
    step, within = rng.geometric(1 - B) - 1, rng.random()
    first = rng.random() < gamma / (gamma + (1 - gamma) * B)
    return sign * np.where(first, step + gamma * within, step + gamma + (1 - gamma) * within)


def proved(mechanism: Callable[..., Any], size: int = 1, **arguments: Any) -> float:
    return veridp.prove(mechanism, size, **{"adjacency": "l1", **arguments}).epsilon


@pytest.mark.parametrize(
    ("sample", "scale", "factor"),
    [(by_branch, 1.0, 0.5), (by_where, 1.0, 1), (by_product, 2.5, 1), (by_product, 2.5, 2)],
)
def test_a_staircase_costs_its_epsilon_for_each_step_that_is_begun(sample: Any, scale: float, factor: float) -> None:
    proof = veridp.prove(lambda rng, data: data[0] * factor * scale + sample(rng), 1, adjacency="l1")
    assert proof.epsilon == pytest.approx(math.ceil(factor))
    assert proof.recognised == ("a staircase of geometric and uniform as staircase noise",)
    assert check(proof.certificate).rejection is None


def test_decisions_and_several_staircases_are_proved() -> None:
    assert proved(lambda rng, data: data[0] + by_branch(rng, 0.5) > 3) == pytest.approx(1)
    assert proved(lambda rng, data: [x + by_branch(rng) for x in data], 2) == pytest.approx(2)
    mixed = proved(lambda rng, data: (data[0] + data[1] + by_where(rng), data[0] + rng.laplace()), 2, adjacency="linf")
    assert mixed == pytest.approx(3)  # two steps, and a shift by 1
    assert proved(lambda rng, data: sum(data) + by_branch(rng), 20, adjacency="linf") == pytest.approx(20)  # by a rule
    assert proved(lambda rng, data: data[0] + by_branch(rng), delta=1e-5) == pytest.approx(1)


def test_a_wrong_coin_is_paid_for() -> None:
    """The density falls by another factor from part to part, and the loss of a shift is the larger one."""
    gamma, chance = 0.3, 0.9
    down = math.log(chance / gamma / ((1 - chance) / (1 - gamma)))

    def wrong(rng: Any, data: Any) -> Any:
        return data[0] + by_branch(rng, gamma, chance)

    assert proved(wrong) == pytest.approx(down)
    assert veridp.exact.compare(wrong, [0], [1]).epsilon == pytest.approx(down)


@pytest.mark.parametrize(
    "release",
    [
        lambda rng, data: data[0] + by_branch(rng, fair=0.6),
        lambda rng, data: data[0] + by_branch(rng, top=0.99),
        lambda rng, data: data[0] + abs(by_branch(rng)),
        lambda rng, data: (data[0] + (noise := by_branch(rng)), noise > 0),
    ],
    ids=["unfair", "gaps", "one-sided", "sign-shown"],
)
def test_what_only_looks_like_it_is_not_proved(release: Any) -> None:
    assert proved(release) == math.inf


LAWS = [
    Staircase(1, Fraction(3, 5), Fraction(3, 10), Fraction(1, 2)),
    Staircase(2, Fraction(1, 5), Fraction(7, 10), Fraction(9, 10)),
]


@pytest.mark.parametrize("law", LAWS)
def test_its_density_probabilities_and_draws_agree(law: Staircase) -> None:
    x = np.array([-3.31, -0.41, 0.01, 0.21, 0.81, 1.91, 4.41])
    draws = law.draw(np.random.default_rng(1), 100_000)
    above, step = np.exp(law.log_above(x)), 1e-6
    assert np.mean(draws > x[:, None], axis=1) == pytest.approx(above, abs=0.01)
    assert above + np.exp(law.log_below(x)) == pytest.approx(1)
    assert (above - np.exp(law.log_above(x + step))) / step == pytest.approx(np.exp(law.log_density(x)), rel=1e-6)
    assert set(np.array([0.0, 0.3, 1.0]) * 1.0 if law is LAWS[0] else [0.0, 1.4, 2.0]) <= set(law.kinks)


@pytest.mark.parametrize("law", LAWS)
def test_its_price_is_the_largest_loss_of_all_shifts(law: Staircase) -> None:
    """On a grid away from the ends of parts; for shifts just short of whole steps it is all that is lost."""
    x = np.arange(-8, 8, 0.0101) + math.pi / 1e4
    checkers = NoiseDraw(0, law.kind, tuple(map(Fraction, law.parameters.values())))
    for size in (0.4, 0.9999, 1.9999, 2.3, 2.9999):
        shifts = np.linspace(-size, size, 401) * float(law.scale)
        most = np.max(law.log_density(x) - law.log_density(x + shifts[:, None]))
        move = Fraction(size) * Fraction(law.scale)
        price = checkers.price_up_to(move)
        assert price is not None
        assert float(price.amount) == pytest.approx(most) if size % 1 > 0.9 else price.amount > most - 1e-12
        assert law.price_up_to(move) == pytest.approx(float(price.amount), rel=1e-12)


def test_no_shift_is_accepted_for_less_than_a_step() -> None:
    """Half a step costs as much as a whole one: no certificate may have it for half, nor at its own price."""
    certificate = veridp.prove(lambda rng, data: data[0] / 2 + by_branch(rng), 1, adjacency="l1").certificate
    for cost in ("1/2", "0", "999999/1000000"):
        forged = copy.deepcopy(certificate)
        for event in forged["events"]:
            for form in event["shifts"]:
                form.update({"cost": cost} if "rule" in form else {})
                for shift in form.get("table", ()):
                    shift["cost"] = cost
        assert check({**forged, "epsilon": cost}).rejection is not None
    for kind, parameters in (("p", "1"), ("lower", "0"), ("lower", "1"), ("chance", "1")):
        forged = copy.deepcopy(certificate)
        forged["noises"][0][kind] = parameters
        assert check(forged).rejection is not None
