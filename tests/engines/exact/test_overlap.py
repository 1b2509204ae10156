"""Outputs with integers: on lattices of any step, in classes that overlap or alternate, against enumeration."""

from __future__ import annotations

import itertools
import math
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import veridp
from veridp.engines.exact import compare
from veridp.engines.exact import law as exact_law
from veridp.engines.exact.event import ExactEvent
from veridp.errors import NotExact

Law = dict[Any, float]
SPREAD = {k: (1 / 3) * 0.5 ** abs(k) for k in range(-70, 71)}  # geometric(0.5) - geometric(0.5)
WAIT = {k: 0.5**k for k in range(1, 75)}


def spread(rng: Any) -> Any:
    return rng.geometric(0.5) - rng.geometric(0.5)


def wait(rng: Any) -> Any:
    return rng.geometric(0.5)


def law(function: Callable[..., Any], *draws: dict[int, float]) -> Law:
    """The probabilities of the outputs, by enumeration."""
    found: Law = defaultdict(float)
    for values in itertools.product(*(draw.items() for draw in draws)):
        found[function(*(value for value, _ in values))] += math.prod(p for _, p in values)
    return found


def delta(laws: Sequence[Law], epsilon: float) -> float:
    left, right = laws
    forward, backward = (
        math.fsum(max(0.0, p - math.exp(epsilon) * other.get(output, 0.0)) for output, p in one.items())
        for one, other in ((left, right), (right, left))
    )
    return max(forward, backward)


@pytest.mark.parametrize(
    ("mechanism", "function", "draws", "right"),
    [
        (lambda rng, data: data + 2 * wait(rng), lambda data, a: data + 2 * a, [WAIT], 1),
        (lambda rng, data: data + 2 * spread(rng), lambda data, a: data + 2 * a, [SPREAD], 1),
        (lambda rng, data: data + 2 * spread(rng), lambda data, a: data + 2 * a, [SPREAD], 2),
        (lambda rng, data: data + 2 * wait(rng) + wait(rng), lambda data, a, b: data + 2 * a + b, [WAIT, WAIT], 1),
        (lambda rng, d: d + 3 * wait(rng) - 2 * wait(rng), lambda d, a, b: d + 3 * a - 2 * b, [WAIT, WAIT], 1),
        (lambda rng, data: max(3, data + 2 * wait(rng)), lambda data, a: max(3, data + 2 * a), [WAIT], 1),
        (lambda rng, data: np.maximum(0, data + spread(rng)), lambda data, a: max(0, data + a), [SPREAD], 1),
    ],
)  # fmt: skip
def test_delta_of_integers_of_any_step(
    mechanism: Callable[..., Any], function: Callable[..., Any], draws: Sequence[dict[int, float]], right: int
) -> None:
    laws = [law(lambda *values, at=at: function(at, *values), *draws) for at in (0, right)]
    found = compare(mechanism, 0, right)
    for epsilon in (0.0, 0.3, 1.0):
        assert found.delta(epsilon) == pytest.approx(delta(laws, epsilon), abs=1e-12)


def test_the_loss_is_looked_at_on_all_integers() -> None:
    """With b in steps of 1 beside a in steps of 2, the least output of 0 is one that 1 cannot give."""
    found = compare(lambda rng, data: data + 2 * wait(rng) + rng.geometric(0.9), 0, 1)
    assert math.isinf(found.epsilon)
    event = found.witness.event
    assert isinstance(event, ExactEvent)
    assert event.holds(3)
    assert not event.holds(4)


def sharing_noise(rng: Any, data: Any) -> Any:
    shared = rng.laplace()
    return data + shared + 2 * spread(rng), shared


ONE_STEP = delta([law(int, SPREAD), law(lambda a: a + 1, SPREAD)], 0.3)


@pytest.mark.parametrize(("right", "truth"), [(1, 1.0), (0.5, 1.0), (2, ONE_STEP)])
def test_noise_that_cancels_leaves_integers(right: float, truth: float) -> None:
    """The difference of the entries tells the data, up to integers: it is on a grid, though either entry is not."""
    assert compare(sharing_noise, 0, right).delta(0.3) == pytest.approx(truth, abs=1e-12)


def one_or_two(rng: Any, data: Any) -> Any:
    first, second = wait(rng), wait(rng)
    return (first, first) if rng.random() < (0.9 if data else 0.1) else (first, second)


def test_classes_that_overlap_are_not_told_apart() -> None:
    """Equal integers may be two that happen to be equal: δ(0.3) is 0.51, not the 0.765 of classes told apart."""
    with pytest.raises(NotExact, match="relation"):
        compare(one_or_two, 0, 1).delta(0.3)


def clamped_twice(rng: Any, data: Any) -> Any:
    count = np.maximum(0, data + spread(rng))
    return count, count


def test_constants_that_integers_also_take_are_one_output() -> None:
    laws = [law(lambda a, at=at: max(0, at + a), SPREAD) for at in (0, 1)]
    found = compare(clamped_twice, 0, 1)
    assert found.delta(0.2) == pytest.approx(delta(laws, 0.2), abs=1e-12)


def entangled(rng: Any, data: Any) -> Any:
    first, second = wait(rng), wait(rng)
    return (data + first, data + first + second) if rng.random() < 0.5 else (data + first + second, data + 2 * first)


def integers_beside_numbers(rng: Any, data: Any) -> Any:
    noise, count = rng.laplace(), wait(rng)
    return (data + noise, 2 * count) if noise + count > 2 else (data + noise, 3 * count)


@pytest.mark.parametrize("mechanism", [entangled, integers_beside_numbers])
def test_integers_that_depend_on_other_numbers_have_an_epsilon_and_no_delta(mechanism: Callable[..., Any]) -> None:
    """The first has the least output (1, 2) on 0 alone, the second (y, 2) for y between 1 and 2."""
    found = compare(mechanism, 0, 1)
    assert math.isinf(found.epsilon)
    with pytest.raises(NotExact, match="cannot be computed"):
        found.delta(0.3)


def both_clamped(rng: Any, data: Any) -> Any:
    return [max(0, x + spread(rng)) for x in data]


def test_integers_of_several_paths_are_looked_at_where_they_are() -> None:
    assert compare(both_clamped, [1, 2], [2, 3]).epsilon == pytest.approx(2 * math.log(2), rel=1e-12)


def halves(rng: Any, data: Any) -> Any:
    return data + wait(rng)


def difference(rng: Any, data: Any) -> Any:
    noise = rng.laplace()
    return noise + data, noise


def equal_or_not(rng: Any, data: Any) -> Any:
    first, second = rng.laplace(), rng.laplace()
    return (first, first) if data else (first, second)


@pytest.mark.parametrize(
    ("mechanism", "right", "text", "inside", "outside"),
    [
        (halves, 0.5, "output is a whole number", 3, 3.5),
        (difference, 0.5, "-output[0] + output[1] = 0", (1.25, 1.25), (1.75, 1.25)),
        (equal_or_not, 1, "-output[0] + output[1] ≠ 0", (1.25, 2.0), (2.0, 2.0)),
    ],
)
def test_a_witness_says_how_numbers_are_tied(
    mechanism: Callable[..., Any], right: float, text: str, inside: Any, outside: Any
) -> None:
    event = compare(mechanism, 0, right).witness.event
    assert isinstance(event, ExactEvent)
    assert text in str(event)
    assert event.holds(inside)
    assert not event.holds(outside)


def clamped_number(rng: Any, data: Any) -> Any:
    return min(2, data + rng.laplace())


def clamped_beside_another(rng: Any, data: Any) -> Any:
    if rng.normal(scale=2) + data > 0:
        return np.exp(rng.laplace()), min(2, data + rng.uniform(0, 3))
    return "low"


def either_place(rng: Any, data: Any) -> Any:
    return (wait(rng), 0) if rng.random() < (0.7 if data else 0.5) else (0, wait(rng))


def clamped_logarithm(rng: Any, data: Any) -> Any:
    return math.log(max(3 + data + rng.laplace(), 1.0))


@pytest.mark.parametrize(
    "mechanism", [clamped_logarithm, clamped_number, clamped_beside_another, either_place, halves, equal_or_not]
)
def test_samples_have_the_probabilities_of_the_witness(mechanism: Callable[..., Any]) -> None:
    """The event as it is stated, not only as it is meant: constants and ties that tell it from others are in it.

    Of ten frequencies of 20,000 outputs, one is further off than five deviations with probability below 1e-5.
    """
    witness = compare(mechanism, 0, 1 if mechanism is not halves else 0.5).witness
    assert isinstance(witness.event, ExactEvent)
    for side, probability in ((witness.left, witness.left_probability), (witness.right, witness.right_probability)):
        seen = witness.event.count(veridp.sample(mechanism, side, 20_000, seed=1)) / 20_000
        wide = 5 * math.sqrt(max(probability.upper * (1 - probability.upper), 1e-4) / 20_000)
        assert probability.lower - wide <= seen <= probability.upper + wide


def test_what_a_loop_asks_of_other_noise_counts() -> None:
    """The count is geometric noise; the toss that ends the loop is noise of its own, which the event does not name."""

    def tails(rng: Any, data: Any) -> Any:
        count = 0
        while rng.random() < 0.5:
            count += 1
        return data + count

    witness = compare(tails, 0, 1, certified=True).witness
    assert witness.left_probability.lower == pytest.approx(0.5, abs=1e-9)
    assert witness.left_probability.upper == pytest.approx(0.5, abs=1e-9)


def test_integers_and_constants_that_change_places_are_not_told_apart() -> None:
    """(0, 0) is an output of either kind."""

    def crossing(rng: Any, data: Any) -> Any:
        count = wait(rng) - 1
        return (count, 0) if rng.random() < (0.7 if data else 0.5) else (0, count)

    with pytest.raises(NotExact, match="may be its own"):
        compare(crossing, 0, 1)
    assert compare(either_place, 0, 1).epsilon == pytest.approx(math.log(0.5 / 0.3), rel=1e-12)


def test_a_step_function_of_noise_that_is_released_has_no_exact_loss() -> None:
    def twice(rng: Any, data: Any) -> Any:
        count = wait(rng)
        return count + data, np.floor(data - count)

    with pytest.raises(NotExact, match="released elsewhere"):
        compare(twice, 0, 0.5)


def test_random_integers_agree_with_enumeration() -> None:
    """Random mixtures of integer outputs: what is computed is right, and what is not computed is refused."""
    rnd = random.Random(5)
    computed = 0
    for _ in range(25):
        forms = [tuple(rnd.choice([0, 1, 2]) for _ in range(3)) for _ in range(2)]
        chance = rnd.choice([0.0, 0.25, 0.5])

        def value(form: tuple[int, ...], data: Any, a: Any, b: Any) -> Any:
            return form[0] * data + form[1] * a - form[2] * b + data

        def mechanism(rng: Any, data: Any, forms: Any = forms, chance: float = chance) -> Any:
            a, b = wait(rng), wait(rng)
            return value(forms[0] if rng.random() < chance else forms[1], data, a, b)

        coin = {0: 1 - chance, 1: chance}
        laws = [
            law(lambda c, a, b, at=at, forms=forms: value(forms[0 if c else 1], at, a, b), coin, WAIT, WAIT)
            for at in (0, 1)
        ]
        try:
            found = compare(mechanism, 0, 1).delta(0.4)
        except NotExact:
            continue
        computed += 1
        assert found == pytest.approx(delta(laws, 0.4), abs=1e-11), (forms, chance)
    assert computed >= 15


# ------------------------------------------------------------------------------------------- clamped counts


def clamped(rng, count):
    return min(max(count + rng.geometric(0.2) - rng.geometric(0.2), 0), 5)


def two_sided(k, a=0.8):
    return (1 - a) / (1 + a) * a ** abs(k)


def clamped_by_hand(count):
    table = {k: two_sided(k - count) for k in range(1, 5)}
    tail = 0.8 ** np.array([count, 5 - count]) / 1.8
    return {0: tail[0], **table, 5: tail[1]}


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_clamped_count_has_the_probabilities_of_pencil_and_paper(count):
    found = exact_law(clamped, count)
    for value, probability in clamped_by_hand(count).items():
        assert found.probability(value) == pytest.approx(probability, rel=1e-12)
    assert found.total == pytest.approx(1, abs=1e-12)


def test_the_loss_of_a_clamped_count():
    left, right = clamped_by_hand(2), clamped_by_hand(3)
    expected = max(abs(math.log(left[k] / right[k])) for k in left)
    assert compare(clamped, 2, 3).epsilon == pytest.approx(expected, rel=1e-12)
    total_variation = sum(max(0.0, left[k] - right[k]) for k in left)
    assert compare(clamped, 2, 3).delta(0.0) == pytest.approx(total_variation, rel=1e-12)


def test_a_constant_among_the_values_of_noise():
    def sometimes_three(rng, data):
        return 3 if rng.random() < data[0] else rng.geometric(0.5)

    def probability(chance, value):
        return (1 - chance) * 0.5**value + (chance if value == 3 else 0.0)

    expected = max(abs(math.log(probability(0.5, k) / probability(0.25, k))) for k in (1, 3))
    assert compare(sometimes_three, [0.5], [0.25]).epsilon == pytest.approx(expected, rel=1e-12)
    assert exact_law(sometimes_three, [0.5]).probability(3) == pytest.approx(probability(0.5, 3), rel=1e-12)


def test_a_constant_that_only_one_input_can_give_as_a_constant():
    def mechanism(rng, data):
        return 3 if data > 0 and rng.random() < 0.5 else rng.geometric(0.5)

    assert compare(mechanism, 1, 0).epsilon == pytest.approx(math.log((0.5 + 0.0625) / 0.125), rel=1e-12)


def test_pairs_of_which_one_entry_is_clamped():
    def pair(rng, count):
        return [max(count + rng.geometric(0.5), 3), rng.geometric(0.25)]

    found = exact_law(pair, 1)
    assert found.probability([3, 2]) == pytest.approx(0.75 * 0.25 * 0.75, rel=1e-12)
    assert found.probability([4, 1]) == pytest.approx(0.125 * 0.25, rel=1e-12)


def test_constants_off_the_lattice_are_other_outputs():
    def off(rng, data):
        return 2.5 if rng.random() < 0.5 else rng.geometric(0.5)

    found = exact_law(off, 0)
    assert found.probability(2.5) == pytest.approx(0.5)
    assert found.probability(2) == pytest.approx(0.125)
