"""How likely paths are whose mechanism retries until one of them ends."""

import math
from fractions import Fraction

import pytest

from veridp import exact
from veridp.errors import NotExplorable
from veridp.kernel.explore import explore
from veridp.kernel.flow.retries import Retries, rational_mass, without_retries


def weights(mechanism, data=None):
    found = {}
    for path in without_retries(explore(mechanism, data, retries=True)):
        assert not path.conditions
        found[path.output] = found.get(path.output, 0) + path.weight
    return found


def test_a_choice_is_made_again_until_it_is_accepted():
    def die(rng, data):
        while True:
            face = rng.integers(8)
            if face < 6:
                return int(face)

    assert weights(die) == dict.fromkeys(range(6), Fraction(1, 6))


def test_a_uniform_draw_that_only_accepts_is_a_choice():
    def weighted(rng, data):
        while True:
            index = rng.integers(2)
            if rng.random() < (0.25, 0.75)[index]:
                return "ab"[index]

    assert weights(weighted) == {"a": Fraction(1, 4), "b": Fraction(3, 4)}


def test_loops_within_loops():
    def nested(rng, data):
        while True:
            while True:
                inner = rng.integers(4)
                if inner:
                    break
            if inner > 1 or rng.integers(2):
                return int(inner)

    assert weights(nested) == {1: Fraction(1, 5), 2: Fraction(2, 5), 3: Fraction(2, 5)}


def test_an_inner_loop_may_leave_both():
    def both(rng, data):
        while True:
            while True:
                face = rng.integers(5)
                if face == 0:
                    return "zero"
                if face > 1:
                    break
            if face > 2:
                return "large"

    assert weights(both) == {"zero": Fraction(1, 3), "large": Fraction(2, 3)}


def test_what_is_kept_of_an_accepted_draw_has_no_finite_choice():
    def truncated(rng, data):
        while True:
            u = rng.random()
            if u < 0.5:
                return u

    with pytest.raises(NotExplorable, match="released"):
        without_retries(explore(truncated, None, retries=True))


def test_a_loop_that_cannot_end_has_no_paths():
    def endless(rng, data):
        while True:
            if rng.integers(2) > 1:
                return 0

    with pytest.raises(NotExplorable, match="does not end"):
        without_retries(explore(endless, None, retries=True))


def test_rounded_factors_say_so():
    def positive(rng, data):
        while True:
            x = rng.laplace()
            if x > 0:
                return x

    paths = explore(positive, None, retries=True)
    (path,) = Retries(paths, lambda conditions: 0.5).accepted()
    assert path.weight == 2
    assert path.forks[-1].option.rounded
    assert rational_mass(paths[0].conditions) is None


def flips_until_it_ends(rng, data):
    out = [0, 0]
    while True:
        if rng.random() < 0.3:
            out[0] = 1 - out[0]
        if rng.random() < 0.2 + 0.4 * data[0]:
            return out


def test_rounds_that_write_into_a_list_are_told_apart() -> None:
    flipped = [(1 - 0.4 * end / (1 - 0.4 * (1 - end))) / 2 for end in (0.2, 0.6)]  # an odd number of times
    epsilon = exact.compare(flips_until_it_ends, [0], [1]).epsilon
    assert epsilon == pytest.approx(math.log(flipped[0] / flipped[1]), rel=1e-12)
