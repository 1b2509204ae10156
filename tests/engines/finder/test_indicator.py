"""Indicators along paths: unrelaxed they count what exact computes, relaxed their gradients are right."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import veridp
from veridp.adjacency import Patch
from veridp.engines.exact.distribution import law
from veridp.engines.finder.candidates import End, EventForm, Forms, patches
from veridp.engines.finder.indicator import (
    And,
    AtLeast,
    Blend,
    ConstantTruth,
    Draws,
    Equal,
    Hard,
    Indicator,
    Not,
    Or,
    Soft,
    SoftSum,
    SoftTruth,
    conjunction,
    values_of_numbers,
)
from veridp.engines.finder.problem import ClosedData, OpenData, Problem, Spot, data_unknowns, log_probability
from veridp.mechanism import as_mechanism

COUNT = 20_000
DATA = np.array([1.0, -0.5, 2.0])


def deferred(rng: Any, data: Any) -> Any:
    """Truth values and choices that only end up in the output."""
    noise = rng.laplace(scale=1.0, size=3)
    high, low = data[0] + noise[0] > 1, data[1] + noise[1] > 0
    return [high & low, high | low, ~high, np.where(low, 1, np.where(high, 2, 3))]


def stepped(rng: Any, data: Any) -> Any:
    """Integer noise, equality and a finite choice."""
    count = rng.geometric(0.4) - rng.geometric(0.4)
    if rng.choice(2, p=[0.25, 0.75]):
        return "low" if count == 0 else count
    return data[0] + rng.normal(scale=2.0) >= data[1]


def mechanism_named(name: str) -> Any:
    return {"deferred": deferred, "stepped": stepped}.get(name) or veridp.catalogue[name]


def explored(name: str) -> tuple[OpenData, Forms]:
    data = OpenData.of(as_mechanism(mechanism_named(name)), [3], scalar=False)
    assert data is not None
    return data, Forms(data.open[3])


def indicator(data: OpenData, form: EventForm) -> Indicator:
    return Indicator.of(data.open[3], form, data_unknowns(3))


DISCRETE = ["at", "at1", "at4", "at5", "noisy_max1", "deferred"]


@pytest.mark.parametrize("name", [*DISCRETE, "at3", "stepped"])
def test_every_draw_meets_exactly_one_form(name: str) -> None:
    data, forms = explored(name)
    assert forms.listed is not None
    whole = {form.template: form for form in forms.listed}.values()
    if name == "stepped":  # a number may be any: the form "a number" holds the count, `low` the rest
        assert len(forms.listed) == 4
    draws = Draws(1, 0, 1000)
    total = sum(indicator(data, form).at(draws).hits(DATA, np.zeros(0)) for form in whole)
    assert total == pytest.approx(np.ones(1000))


@pytest.mark.parametrize("name", DISCRETE)
def test_forms_happen_as_often_as_exact_says(name: str) -> None:
    data, forms = explored(name)
    draws = Draws(2, 0, COUNT)
    for form in forms.listed or ():
        expected = math.exp(log_probability(data.paths(DATA.tolist()), form.event([])))
        found = indicator(data, form).at(draws).hits(DATA, np.zeros(0)).mean()
        # five standard errors; at most 16 comparisons each, so that one in 100 000 runs fails
        assert found == pytest.approx(expected, abs=5 * math.sqrt(max(expected, 1e-4) / COUNT))


@pytest.mark.parametrize("name", DISCRETE)
def test_exact_probabilities_of_forms_are_those_of_the_law(name: str) -> None:
    data, forms = explored(name)
    table = dict(law(mechanism_named(name), DATA.tolist()).classes()) if name != "deferred" else None
    total = 0.0
    for form in forms.listed or ():
        event = form.event([])
        one = math.exp(log_probability(data.paths(DATA.tolist()), event))
        assert one == pytest.approx(math.exp(log_probability(data.paths(DATA.tolist(), form), event)), abs=1e-12)
        total += one
        if table is not None and one:
            assert one == pytest.approx(next(mass for known, mass in table.items() if known.template == event.template))
    assert total == pytest.approx(1.0)


def test_intervals_of_numbers_are_counted_as_exact_says() -> None:
    data, forms = explored("at3")
    form = next(form for form in forms.listed or () if len(form.numbers) == 1 and len(form.template.leaves) == 2)
    form = form.with_ends([End(1, True), End(1, False)])
    ends = np.array([-5.0, 30.0])
    expected = math.exp(log_probability(data.paths(DATA.tolist(), form), form.event(ends.tolist())))
    found = indicator(data, form).at(Draws(3, 0, COUNT)).hits(DATA, ends).mean()
    assert found == pytest.approx(expected, abs=5 * math.sqrt(expected / COUNT))  # fails once in 10^6 runs


@pytest.mark.parametrize("name", [*DISCRETE, "at3", "stepped"])
def test_gradients_are_those_of_finite_differences(name: str) -> None:
    data, forms = explored(name)
    draws, step = Draws(4, 0, 500), 1e-6
    for form in forms.listed or ():
        places = form.numbers
        form = form.with_ends([End(place, lower) for place in places for lower in (True, False)])
        ends = np.array([x for _ in places for x in (-3.0, 4.0)])
        at = indicator(data, form).at(draws)
        point = at.soft(DATA, ends, 2.0)
        for place in range(3):
            move = step * np.eye(3)[place]
            slope = (at.soft(DATA + move, ends, 2.0).value - at.soft(DATA - move, ends, 2.0).value) / (2 * step)
            assert point.by_data[place] == pytest.approx(slope, rel=1e-5, abs=1e-9)
        for place in range(len(ends)):
            move = step * np.eye(len(ends))[place]
            slope = (at.soft(DATA, ends + move, 2.0).value - at.soft(DATA, ends - move, 2.0).value) / (2 * step)
            assert point.by_ends[place] == pytest.approx(slope, rel=1e-5, abs=1e-9)


def test_the_objectives_gradient_is_that_of_finite_differences() -> None:
    at3 = veridp.catalogue["at3"]
    for mechanism in (at3, veridp.catalogue["finder_sum"]):
        (patch, *_) = patches(mechanism, 3, mechanism.domain) or []
        data = OpenData.of(mechanism, sorted(set(patch.sizes)), scalar=False)
        assert data is not None
        form = next(form for form in Forms(data.open[3]).listed or () if form.numbers)
        form = form.with_ends([End(form.numbers[0], False)])
        problem = Problem(data, patch, form, np.array([-90.0]), np.array([90.0]))
        rng, step = np.random.default_rng(5), 1e-6
        z = np.concatenate([patch.draw(rng), [3.0]])
        drawn = problem.drawn(Draws(5, 0, 2000))
        found = drawn.soft(z, 1.0)
        assert found.gradient is not None
        for place in range(len(z)):
            move = step * np.eye(len(z))[place]
            slope = (drawn.soft(z + move, 1.0).value - drawn.soft(z - move, 1.0).value) / (2 * step)
            assert found.gradient[place] == pytest.approx(slope, rel=1e-4, abs=1e-8)


def test_relaxed_values_tend_to_the_unrelaxed() -> None:
    data, forms = explored("at")
    at = indicator(data, (forms.listed or ())[3]).at(Draws(6, 0, 5000))
    hits = at.hits(DATA, np.zeros(0)).mean()
    gaps = [abs(at.soft(DATA, np.zeros(0), c).value - hits) for c in (0.1, 1.0, 50.0)]
    assert gaps[2] < gaps[1] < gaps[0]
    assert gaps[2] < 1e-3


def test_both_sides_share_their_noise() -> None:
    draws = Draws(7, 0, 100)
    at, scaled = veridp.catalogue["at"], veridp.catalogue["at1"]
    first, second = (veridp.explore(mechanism, [0.0, 0.0])[0].noises for mechanism in (at, scaled))
    assert draws[first[0]] is draws[first[0]]
    assert draws[second[1]] == pytest.approx(2 * draws[first[1]])  # Lap(40) and Lap(20), of one stream
    assert not np.allclose(Draws(7, 1, 100)[first[0]], draws[first[0]])


def test_samples_of_neighbours_correlate() -> None:
    """At distance 1, and noise of scale 20 and 40, the two sides of a likely event agree but for a few draws."""
    mechanism = veridp.catalogue["at1"]
    data = OpenData.of(mechanism, [4], scalar=False)
    (patch,) = patches(mechanism, 4, (-10, 10)) or []
    assert data is not None
    form = next(form for form in Forms(data.open[4]).listed or () if form.template.leaves == (True,))
    problem = Problem(data, patch, form, np.zeros(0), np.zeros(0))
    moments = problem.drawn(Draws(8, 0, COUNT)).moments(np.array([0, 0, 0, 0, 1.0, 1, 1, 1]))
    assert 0.97 <= moments.correlation <= 0.999


def test_numbers_that_occur() -> None:
    data, forms = explored("at3")
    form = next(form for form in forms.listed or () if len(form.template.leaves) == 1)
    values = values_of_numbers(data.paths(DATA.tolist(), form), form, Draws(9, 0, COUNT), {})[0]
    expected = math.exp(log_probability(data.paths(DATA.tolist(), form), form.event([])))
    assert len(values) / COUNT == pytest.approx(expected, abs=0.02)
    half = form.with_ends([End(0, False)])
    middle = float(np.median(values))
    share = math.exp(log_probability(data.paths(DATA.tolist(), form), half.event([middle]))) / expected
    assert share == pytest.approx(0.5, abs=0.03)


def test_data_that_cannot_be_left_open_is_explored_anew() -> None:
    mechanism = veridp.catalogue["exponential_mechanism"]
    assert OpenData.of(mechanism, [3], scalar=False) is None
    data = ClosedData(mechanism)
    left, right = [1.0, 0.0, 0.0], [0.0, 1.0, 1.0]
    form = EventForm(0)
    problem = Problem(data, Spot(left, right), form, np.zeros(0), np.zeros(0))
    weights = [[math.exp(0.05 * score) for score in side] for side in (left, right)]
    expected = math.log(weights[0][0] / sum(weights[0])) - math.log(weights[1][0] / sum(weights[1]))
    assert problem.exact(np.zeros(0)) == pytest.approx(expected)
    moments = problem.drawn(Draws(10, 0, 100)).moments(np.zeros(0))
    assert moments.epsilon == pytest.approx(expected)  # finite choices are summed out: nothing is left to chance


def test_a_patch_of_lists_of_two_lengths_is_a_problem_too() -> None:
    mechanism = veridp.catalogue["finder_sum"]
    patch = (patches(mechanism, 2, (-1, 1)) or [])[0]
    assert isinstance(patch, Patch)
    data = OpenData.of(mechanism, sorted(set(patch.sizes)), scalar=False)
    assert data is not None
    form = (Forms(data.open[2]).listed or ())[0].with_ends([End(0, True)])
    problem = Problem(data, patch, form, np.array([-50.0]), np.array([50.0]))
    z = np.array([0.5, 0.5, 1.0, 30.0])
    assert problem.exact(z) == pytest.approx(-0.1)  # the tail of Lap(10), moved by 1


# --------------------------------------------------------------------------------------------------------------- relax
# Relaxed truth values: the rules of the paper one by one, and their gradients against finite differences.


C = 50.0
A, B, D = AtLeast(0), AtLeast(1), AtLeast(2)


def sigmoid(slack: float, sharpness: float = C) -> float:
    return 1 / (1 + math.exp(-sharpness * slack))


def soft(node: SoftTruth, *slacks: float, sharpness: float = C) -> float:
    return float(Soft(np.array(slacks)[:, None], sharpness).of(node)[0])


def hard(node: SoftTruth, *slacks: float) -> float:
    return float(Hard(np.array(slacks)[:, None]).of(node)[0])


def test_the_rules_of_the_paper() -> None:
    x, y, z = 0.01, -0.03, 0.02
    a, b, d = sigmoid(x), sigmoid(y), sigmoid(z)
    assert soft(A, x) == pytest.approx(a)
    assert soft(Not(A), x) == pytest.approx(1 - a)
    assert soft(And((A, B)), x, y) == pytest.approx(a * b)
    assert soft(Or(A, B), x, y) == pytest.approx(a + b - a * b)
    assert soft(Equal(0), 0.1) == pytest.approx(math.exp(-C * 0.1**2))
    assert soft(Blend(A, B, D), x, y, z) == pytest.approx(a * b + (1 - a) * d)
    assert soft(SoftSum((0.25, 0.5), (A, B)), x, y) == pytest.approx(0.25 * a + 0.5 * b)


def test_read_hard_they_are_logic() -> None:
    for a, b, d in itertools.product((True, False), repeat=3):
        slacks = [1.0 if truth else -1.0 for truth in (a, b, d)]
        assert hard(Not(A), *slacks) == (not a)
        assert hard(And((A, B, D)), *slacks) == (a and b and d)
        assert hard(Or(A, B), *slacks) == (a or b)
        assert hard(Blend(A, B, D), *slacks) == (b if a else d)
    assert hard(A, 0.0) == 1
    assert hard(Not(AtLeast(0)), 0.0) == 0  # strictly below
    assert (hard(Equal(0), 0.0), hard(Equal(0), 1.0)) == (1, 0)


def test_sharper_is_closer_to_hard() -> None:
    node = Blend(Or(A, Not(B)), And((B, D)), Not(D))
    slacks = (0.3, -0.2, 0.4)
    gaps = [abs(soft(node, *slacks, sharpness=c) - hard(node, *slacks)) for c in (1, 10, 50, 500)]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[-1] < 1e-9


@pytest.mark.parametrize(
    "node",
    [
        A,
        Equal(0),
        Not(A),
        And((A, B, D)),
        And((A, And((B, Not(A))))),  # an atom twice
        Or(A, Not(B)),
        Blend(A, B, Or(B, D)),
        SoftSum((0.3, 0.7), (And((A, Equal(1))), Not(D))),
        ConstantTruth(0.5),
        And((ConstantTruth(0.5), A)),
    ],
    ids=lambda node: type(node).__name__,
)
def test_gradients_of_relaxed_values_are_those_of_finite_differences(node: SoftTruth) -> None:
    slacks = np.random.default_rng(1).normal(scale=0.05, size=(3, 200))
    at = Soft(slacks, C)
    at.of(node)
    node.spread(at, np.ones(200))
    step = 1e-6
    for atom in range(3):
        up, down = slacks.copy(), slacks.copy()
        up[atom] += step
        down[atom] -= step
        difference = (Soft(up, C).of(node).mean() - Soft(down, C).of(node).mean()) / (2 * step)
        assert at.gradient[atom] == pytest.approx(difference, rel=1e-5, abs=1e-7)


def test_conjunctions_leave_out_what_is_certain() -> None:
    assert conjunction([ConstantTruth(1.0), A]) is A
    assert soft(conjunction([]), 0.3) == 1.0
    assert soft(conjunction([A, ConstantTruth(0.0)]), 0.3) == 0.0
