"""Noise made by hand: what it is recognised as, that its distribution is the one that code draws, and what is not."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import veridp
from veridp.kernel.distributions import Distribution
from veridp.kernel.explore import explore
from veridp.kernel.expressions import Affine, unknowns
from veridp.kernel.handmade.transforms import recognised
from veridp.kernel.noise import Cauchy, Exponential, Gamma, Gumbel, Laplace, Logistic, Normal, StudentT, Uniform
from veridp.kernel.path import Path
from veridp.kernel.replay.agreement import Listing

Maker = Callable[[np.random.Generator], Any]


def inverse_laplace(rng):
    u = rng.random() - 0.5
    return -2 * np.sign(u) * np.log(1 - 2 * np.abs(u))


def piecewise_laplace(rng):
    u = rng.uniform()
    return 2 * math.log(2 * u) if u < 0.5 else -2 * math.log(2 * (1 - u))


def log_odds(rng):
    u = rng.random()
    return 2 * math.log(u / (1 - u))


def difference_of_logs(rng):
    u = rng.random()
    return 2 * (math.log1p(-u) - math.log(u))


def student(rng):
    return rng.normal() / math.sqrt(sum(rng.normal() ** 2 for _ in range(4)) / 4)


MADE: list[tuple[str, Maker, Distribution]] = [
    ("inverse", inverse_laplace, Laplace(2)),
    ("piecewise", piecewise_laplace, Laplace(2)),
    ("ratio", lambda rng: 2 * math.log(rng.random() / rng.random()), Laplace(2)),
    ("ratio in a range", lambda rng: 2 * math.log(rng.uniform(0, 4) / rng.uniform(0, 4)), Laplace(2)),
    ("scaled logs", lambda rng: 2 * math.log(3 * rng.random()) - 2 * math.log(3 * rng.random()), Laplace(2)),
    ("sign by a uniform", lambda rng: rng.exponential(2.0) * (1 if rng.random() < 0.5 else -1), Laplace(2)),
    ("sign by a choice", lambda rng: 2 * rng.choice([-1, 1]) * rng.exponential(), Laplace(2)),
    ("sign of a log", lambda rng: 2 * math.log(rng.random()) * (2 * rng.integers(2) - 1), Laplace(2)),
    ("difference", lambda rng: rng.exponential(2.0) - 2 * rng.standard_exponential(), Laplace(2)),
    ("shares", lambda rng: sum(rng.gamma(0.25, 2.0) - rng.gamma(0.25, 2.0) for _ in range(4)), Laplace(2)),
    ("mixture", lambda rng: math.sqrt(8 * rng.exponential()) * rng.normal(), Laplace(2)),
    ("exponential", lambda rng: -2 * np.log(1 - rng.random()), Exponential(2)),
    ("logistic", log_odds, Logistic(2)),
    ("logistic in parts", difference_of_logs, Logistic(2)),
    ("gumbel", lambda rng: -2 * math.log(-math.log(rng.random())), Gumbel(2)),
    ("log of an exponential", lambda rng: -2 * math.log(0.5 * rng.exponential(2.0)), Gumbel(2)),
    ("cauchy", lambda rng: 2 * math.tan(math.pi * (rng.random() - 0.5)), Cauchy(2)),
    ("cauchy from 0", lambda rng: 2 * math.tan(rng.uniform(0, 2 * math.pi)), Cauchy(2)),
    ("student", lambda rng: 2 * student(rng), StudentT(2, 4)),
    ("student by a gamma", lambda rng: 2 * rng.normal() / math.sqrt(rng.chisquare(3) / 3), StudentT(2, 3)),
    ("polar", lambda rng: math.sqrt(-8 * math.log(rng.random())) * math.cos(2 * np.pi * rng.random()), Normal(2)),
]
made = pytest.mark.parametrize(("maker", "distribution"), [m[1:] for m in MADE], ids=[m[0] for m in MADE])


def paths_of(maker: Maker, size: int = 1) -> list[Path]:
    return list(recognised(explore(lambda rng, data: [x + maker(rng) for x in data], unknowns("data", size))))


@made
def test_noise_is_what_it_is_recognised_as(maker: Maker, distribution: Distribution) -> None:
    (path,) = paths_of(maker)
    (noise,) = path.noises
    drawn: Any = noise.distribution
    assert replace(drawn, scale=drawn.scale * abs(path.output[0].terms[noise])) == distribution
    assert noise.formula
    assert not path.conditions
    assert path.weight == 1


@made
def test_draws_of_the_code_have_the_distribution_that_was_recognised(maker: Maker, distribution: Distribution) -> None:
    """No more than 4/√n from the distribution function: by the DKW inequality, 2e^-32 of all seeds would fail."""
    (path,) = paths_of(maker)
    (noise,) = path.noises
    factor = float(path.output[0].terms[noise])
    rng = np.random.default_rng(8)
    seen = np.sort([float(maker(rng)) for _ in range(2_000)])
    points = np.linspace(-12, 12, 49) + 0.01
    law = noise.distribution
    expected = np.exp(law.log_below(points / factor) if factor > 0 else law.log_above(points / factor))
    assert np.abs(np.searchsorted(seen, points, side="right") / len(seen) - expected).max() < 4 / math.sqrt(len(seen))


@made
def test_plain_runs_agree_with_the_paths_that_it_was_read_from(maker: Maker, distribution: Distribution) -> None:
    proof = veridp.prove(lambda rng, data: data[0] + maker(rng), 1, adjacency="l1")
    price = distribution.price
    if price.up is None or price.down is None:
        assert proof.epsilon == math.inf
        return
    bent = distribution.price_up_to(Fraction(1))
    assert proof.epsilon == pytest.approx(float(price.up) if bent is None else bent, rel=1e-12)
    assert proof.recognised
    assert proof.recognised[0] in proof.confirmed
    assert all(noise["made"] for noise in proof.certificate["noises"])


def test_every_entry_of_an_output_has_its_own() -> None:
    (path,) = paths_of(inverse_laplace, 3)
    assert [noise.distribution for noise in path.noises] == [Laplace(1)] * 3
    assert [len(entry.terms) for entry in path.output] == [2] * 3


def test_conditions_on_it_are_kept() -> None:
    def above(rng, data):
        return bool(data[0] + inverse_laplace(rng) > 1)

    paths = recognised(explore(above, unknowns("data", 1)))
    assert [str(path) for path in paths] == ["True where data[0] + 2·n0 > 1", "False where 1 >= data[0] + 2·n0"]
    assert veridp.exact.compare(above, [0.0], [1.0]).epsilon == pytest.approx(0.5, rel=1e-9)


def test_an_undecided_sign_is_recognised_where_it_stands() -> None:
    def signed(rng, data):
        return [x + np.where(rng.random() < 0.5, 1, -1) * rng.exponential(2.0) for x in data]

    (path,) = recognised(explore(signed, [0.0, 1.0], defer=True))
    assert [noise.distribution for noise in path.noises] == [Laplace(2)] * 2


# ---------------------------------------------------------------------------------------------- what is not recognised


def released_too(rng, data):
    u = rng.random()
    return data[0] + math.log(u), u


def compared_too(rng, data):
    u = rng.random()
    return data[0] - math.log(u), bool(u > data[0])


def truncated(rng, data):
    return data[0] - math.log(rng.uniform(0.1, 1))


def scaled(rng, data):
    return data[0] - math.log(3 * rng.random())


def below_a_third(rng, data):
    u = rng.random()
    return data[0] + (math.log(u) if u < 1 / 3 else -math.log(1 - u))


def unfair(rng, data):
    return data[0] + rng.exponential() * (1 if rng.random() < 0.4 else -1)


def sign_released(rng, data):
    sign = rng.choice([-1, 1])
    return data[0] + sign * rng.exponential(), int(sign)


def size_released(rng, data):
    size = rng.exponential()
    return data[0] + rng.choice([-1, 1]) * size, size


def two_scales(rng, data):
    return data[0] + rng.exponential(1.0) - rng.exponential(2.0)


def one_alone(rng, data):
    first = rng.exponential()
    return data[0] + first - rng.exponential(), first


def shared_sign(rng, data):
    sign = rng.choice([-1, 1])
    return data[0] + sign * rng.exponential(), sign * rng.exponential()


def two_factors(rng, data):
    return data[0] + math.log(3 * rng.random()) - math.log(2 * rng.random())


def sum_of_logs_too(rng, data):
    first, second = math.log(3 * rng.random()), math.log(3 * rng.random())
    return data[0] + first - second, first + second


def half_a_period(rng, data):
    return data[0] + math.tan(math.pi * rng.random() / 4)


def same_normal(rng, data):
    x = rng.normal()
    return data[0] + x / math.sqrt(x**2 + rng.normal() ** 2)


@pytest.mark.parametrize(
    "mechanism",
    [
        released_too, compared_too, truncated, scaled, below_a_third, unfair, sign_released, size_released, two_scales,
        one_alone, shared_sign, half_a_period, same_normal, two_factors, sum_of_logs_too,
    ],
)  # fmt: skip
def test_what_has_another_distribution_is_left_as_it_is(mechanism: Any) -> None:
    paths = explore(mechanism, unknowns("data", 1))
    assert recognised(paths) is paths


def test_a_draw_that_becomes_two_things_on_two_paths_is_left_as_it_is() -> None:
    """Else the conditions of the paths would no longer part the noise."""

    def mechanism(rng, data):
        u = rng.random()
        return -math.log(2 * u) + data[0] if u < 0.5 else (u if u > data[0] else 0.0)

    paths = explore(mechanism, unknowns("data", 1))
    assert recognised(paths) is paths


def test_an_undecided_equality_is_no_coin() -> None:
    def mechanism(rng, data):
        return np.where(rng.random() == 0.5, 1, -1) * rng.exponential()

    paths = explore(mechanism, [0.0], defer=True)
    assert recognised(paths) is paths


def test_a_mixture_with_other_outputs_keeps_its_weights() -> None:
    def mechanism(rng, data):
        return data[0] + rng.choice([-1, 0, 1]) * rng.exponential()

    still, moved = sorted(recognised(explore(mechanism, unknowns("data", 1))), key=lambda path: path.weight)
    assert (still.weight, moved.weight) == (Fraction(1, 3), Fraction(2, 3))
    assert moved.noises[0].distribution == Laplace(1)


def test_shares_of_a_third_sum_to_one() -> None:
    (path,) = paths_of(lambda rng: sum(rng.gamma(1 / 3) - rng.gamma(1 / 3) for _ in range(3)))
    assert [noise.distribution for noise in path.noises] == [Laplace(1)]


def test_gamma_draws_of_one_scale_add_up() -> None:
    (path,) = paths_of(lambda rng: rng.gamma(1.5, 2.0) + 2 * rng.standard_gamma(0.25))
    assert [noise.distribution for noise in path.noises] == [Gamma(2, Fraction(7, 4))]
    assert isinstance(path.output[0], Affine)


def test_uniform_draws_that_decide_are_kept_where_nothing_is_recognised() -> None:
    paths = explore(lambda rng, data: rng.random() < 0.5, [0])
    assert recognised(paths) is paths
    assert all(noise.distribution == Uniform() for path in paths for noise in path.noises)


# ------------------------------------------------------------------------------------------- beside other features


def test_a_draw_that_a_text_shows_is_not_recognised() -> None:
    def shown(rng, data):
        u = rng.random()
        return data[0] - math.log(u) + math.log(rng.random()), f"{u}"

    (path,) = recognised(explore(shown, unknowns("data", 1)))
    assert [noise.distribution for noise in path.noises] == [Uniform(), Exponential(1)]
    assert veridp.prove(shown, 1, adjacency="l1").epsilon == math.inf


def test_noise_in_a_text_is_recognised() -> None:
    def written(rng, data):
        return f"{data[0] + inverse_laplace(rng):.3f}"

    proof = veridp.prove(written, 1, adjacency="l1")
    assert proof.epsilon == 0.5
    assert proof.recognised


def test_texts_of_other_numbers_have_no_sign_in_common() -> None:
    """Two texts that read alike for people, of numbers that differ by a millionth of a millionth."""

    def near(rng, data):
        noise = rng.exponential()
        return f"{data[0] + noise}" if rng.random() < 0.5 else f"{data[0] + 1e-13 - noise}"

    assert len(recognised(explore(near, unknowns("data", 1)))) == 2


def retrying(rng):
    while rng.random() < 0.25:
        pass


def test_noise_is_recognised_beside_a_loop_that_retries() -> None:
    def beside(rng, data):
        retrying(rng)
        while (v := rng.random()) < 0.2:
            pass
        return data[0] + inverse_laplace(rng), v > 0.6

    proof = veridp.prove(beside, 1, adjacency="l1")
    assert proof.epsilon == 0.5
    assert proof.recognised
    assert veridp.exact.compare(beside, [0.0], [1.0]).epsilon == pytest.approx(0.5, rel=1e-9)


def test_noise_is_recognised_beside_a_count_of_rounds() -> None:
    def counting(rng, data):
        count = 0
        while rng.random() < 0.5:
            count += 1
        return data[0] + inverse_laplace(rng), count

    assert veridp.prove(counting, 1, adjacency="l1").epsilon == 0.5


def test_a_draw_that_a_loop_accepts_is_another() -> None:
    """-log(u), of u above 0.2, ends at log 5: a shift leaves its support."""

    def accepted(rng, data):
        while (u := rng.random()) < 0.2:
            pass
        return data[0] - math.log(u)

    with pytest.raises(veridp.errors.NotExplorable, match="until it likes it"):
        veridp.prove(accepted, 1, adjacency="l1")


def test_rounded_weights_stay_rounded() -> None:
    """How often the loop goes round is no rational number, so nothing about what follows is certified."""

    def loop(rng, data):
        while rng.laplace() + rng.laplace() > 1:
            pass
        return data[0] + rng.exponential() * rng.choice([-1, 1])

    assert veridp.exact.compare(loop, [0.0], [1.0]).epsilon == pytest.approx(1, rel=1e-6)
    with pytest.raises(veridp.errors.NotExact, match="rounded"):
        veridp.exact.compare(loop, [0.0], [1.0], certified=True)


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_records_of_an_interval_have_it_too(adjacency: str) -> None:
    @veridp.mechanism(adjacency=adjacency, domain=(-5, 15), size=2)
    def clamped(rng, data):
        return sum(min(max(x, 0.0), 10.0) for x in data) + 5 * inverse_laplace(rng)

    @veridp.mechanism(adjacency=adjacency, domain=(-5, 15), size=2)
    def leaking(rng, data):
        u = rng.random()
        return sum(data) + 20 * (math.log(u) - math.log(rng.random())), u

    proof = veridp.prove(clamped)
    assert proof.epsilon == 1
    assert proof.recognised
    assert veridp.prove(leaking).epsilon == math.inf


def test_the_sign_of_a_quotient_by_what_may_be_0() -> None:
    """NumPy has inf > 0 and not nan > 0; the runs that are held against the paths see that."""

    def over(rng, data):
        with np.errstate(all="ignore"):
            return bool((data[0] + rng.laplace()) / np.float64(rng.geometric(0.5) - 2) > 0)

    paths = explore(over, [1.0])
    Listing.of(veridp.mechanism(adjacency="l1", size=1)(over), [1.0], paths).replay()
    assert all(condition.slack.functions for path in paths for condition in path.conditions)


def test_the_sign_of_noise_within_functions() -> None:
    @veridp.mechanism(adjacency="l1", size=1)
    def logarithm(rng, data):
        u = rng.random() - 0.5
        noisy = data[0] - 2 * math.copysign(1.0, u) * math.log(1 - 2 * abs(u))
        return math.log(noisy) if noisy > 1 else 0.0

    @veridp.mechanism(adjacency="l1", size=1)
    def one_sided(rng, data):
        e = rng.exponential()
        return math.exp(data[0] + e) if rng.random() < 0.5 else math.exp(data[0] + 2 * e)

    assert veridp.prove(logarithm).epsilon == 0.5
    assert veridp.prove(one_sided).epsilon == math.inf


FLOORS: list[Maker] = [
    lambda rng: math.floor(rng.exponential(2.0)),
    lambda rng: int(-2 * math.log(1 - rng.random())),
    lambda rng: -math.floor(-rng.exponential(2.0)),
    lambda rng: np.ceil(2 * rng.standard_exponential()),
    lambda rng: (3 + rng.exponential(2.0)) // 1,
    lambda rng: -int(-rng.exponential(2.0)),
]


@pytest.mark.parametrize("maker", FLOORS)
def test_the_whole_part_of_an_exponential_draw_is_geometric(maker: Maker) -> None:
    """P[⌊X⌋ >= k] = e^(-k/2). The difference of two costs 1/2 for a count that moves by 1."""
    counted = veridp.mechanism(adjacency="replace", domain=[0, 1], size=1)(
        lambda rng, x: x[0] + maker(rng) - maker(rng)
    )
    proof = veridp.prove(counted)
    assert proof.epsilon == pytest.approx(0.5, abs=1e-9)
    assert all("geometric noise" in said for said in proof.recognised)
    assert veridp.exact.compare(counted, [0], [1]).epsilon == pytest.approx(0.5, abs=1e-9)
    (path,) = paths_of(maker)
    (noise,) = path.noises
    assert float(noise.distribution.p) == pytest.approx(1 - math.exp(-0.5), rel=1e-15)  # type: ignore[attr-defined]
    offset, factor = float(path.output[0].constant), float(path.output[0].terms[noise])
    rng = np.random.default_rng(9)
    seen = np.array([float(maker(rng)) for _ in range(2_000)])
    for level in range(-3, 12):
        share = np.exp(noise.distribution.log_above(np.array((level - offset) / factor)))
        assert np.mean(seen >= level) == pytest.approx(float(share), abs=4 / math.sqrt(len(seen)))


def test_other_whole_parts_are_left_as_they_are() -> None:
    """Rounded to the nearest, 0 has less probability; 2 - X is rounded up below 0, and down above."""

    def rest_released(rng: Any, data: Any) -> Any:
        noise = rng.exponential(2.0)
        return data[0] + math.floor(noise), noise - math.floor(noise)

    for mechanism in (
        lambda rng, data: data[0] + round(rng.exponential(2.0)),
        lambda rng, data: data[0] + int(2 - rng.exponential(2.0)),
        lambda rng, data: data[0] + math.floor(0.5 + rng.exponential(2.0)),
        rest_released,
    ):
        paths = explore(mechanism, unknowns("data", 1))
        assert recognised(paths) is paths
