"""Paths: what explore lists, against pencil and paper and against the function itself run on real numbers."""

from __future__ import annotations

import math
import operator
import random
import sys
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest

import veridp
from veridp.errors import BadInput, MechanismFailed, Nondeterministic, NotAffine, TooManyPaths
from veridp.kernel.explore import explore
from veridp.kernel.expressions import Affine, Condition, Select, unknown, unknowns
from veridp.kernel.noise import Binomial, Exponential, Geometric, Laplace, Normal, Poisson, Uniform
from veridp.kernel.output import Raised
from veridp.kernel.path import Fork, leaves
from veridp.kernel.symbols import Noise, Relation, Unknown


def svt(rng, queries, *, epsilon=0.1, threshold=0.5, cutoff=1):
    noisy_threshold = threshold + rng.laplace(scale=2 / epsilon)
    answers, found = [], 0
    for query in queries:
        if query + rng.laplace(scale=4 * cutoff / epsilon) >= noisy_threshold:
            answers.append(True)
            found += 1
            if found == cutoff:
                break
        else:
            answers.append(False)
    return answers


class Recorded:
    """A generator that hands out given draws, in order: the real function on the noise of a path."""

    def __init__(self, draws):
        self.draws = iter(draws)

    def laplace(self, loc=0.0, scale=1.0, size=None):
        if size is None:
            return loc + next(self.draws)
        return loc + np.array([next(self.draws) for _ in range(size)])

    def exponential(self, scale=1.0, size=None):
        return self.laplace(size=size)

    def normal(self, loc=0.0, scale=1.0, size=None):
        return self.laplace(loc=loc, size=size)

    def random(self, size=None):
        return self.laplace(size=size)

    def geometric(self, p, size=None):
        return int(next(self.draws))


def values_of(path, draws):
    return {noise: draws[noise.index] for noise in path.noises}


def agree_with_real_runs(mechanism, data, *, runs=300, seed=0, **arguments):
    """Each real run follows exactly one path, and returns what that path says."""
    rng = np.random.default_rng(seed)
    paths = explore(mechanism, data, **arguments)
    longest = max(paths, key=lambda path: len(path.noises))
    seen = set()
    for _ in range(runs):
        draws = [noise.distribution.draw(rng, 1)[0] for noise in longest.noises]
        (index,) = (i for i, path in enumerate(paths) if path.holds(values_of(path, draws)).all())
        seen.add(index)
        values = values_of(paths[index], draws)
        expected = [leaf.evaluate(values) if isinstance(leaf, Affine) else leaf for leaf in leaves(paths[index].output)]
        actual = leaves(mechanism(Recorded(draws), data, **arguments))
        assert actual == pytest.approx(expected, abs=1e-9)
    return paths, seen


# ------------------------------------------------------------------------------------------ against pencil and paper


def test_sparse_vector_has_the_paths_one_writes_by_hand():
    paths = explore(svt, [1, 2], threshold=0.5)
    assert [path.output for path in paths] == [[True], [False, True], [False, False]]
    assert [str(path) for path in paths] == [
        "[True] where n1 + 0.5 >= n0",
        "[False, True] where n0 > n1 + 0.5 and n2 + 1.5 >= n0",
        "[False, False] where n0 > n1 + 0.5 and n0 > n2 + 1.5",
    ]
    assert [noise.distribution for noise in paths[1].noises] == [Laplace(20), Laplace(40), Laplace(40)]


def test_a_condition_stays_strict_or_weak_as_the_program_has_it():
    def weak(rng, data):
        return rng.laplace() >= data[0]

    def strict(rng, data):
        return rng.laplace() > data[0]

    assert [path.conditions[0].relation for path in explore(weak, [1.0])] == [Relation.AT_LEAST, Relation.ABOVE]
    assert [path.conditions[0].relation for path in explore(strict, [1.0])] == [Relation.ABOVE, Relation.AT_LEAST]


def test_numbers_are_exact():
    (path,) = explore(lambda rng, data: data[0] / 3 + rng.laplace(scale=Fraction(4, 3)) * 0.1, [Fraction(1)])
    assert path.noises[0].distribution == Laplace(Fraction(4, 3))
    assert path.output.constant == Fraction(1 / 3)  # a Fraction that meets a float becomes one
    assert path.output.terms[path.noises[0]] == Fraction(0.1)


def test_open_data_and_arguments():
    paths = explore(svt, unknowns("q", 2), threshold=unknown("T"))
    assert str(paths[1]) == "[False, True] where T + n0 > q[0] + n1 and q[1] + n2 >= T + n0"
    assert paths[1].unknowns == (Unknown("T"), Unknown("q[0]"), Unknown("q[1]"))


def test_conditions_on_open_data_alone_fork_three_ways_at_equality():
    def mechanism(rng, data):
        return "same" if data[0] == data[1] else "different"

    paths = explore(mechanism, unknowns("x", 2))
    assert [(path.output, str(path.conditions[0])) for path in paths] == [
        ("same", "x[0] == x[1]"),
        ("different", "x[0] > x[1]"),
        ("different", "x[1] > x[0]"),
    ]


def test_equality_of_continuous_noise_never_holds():
    (path,) = explore(lambda rng, data: rng.laplace() == 0, [])
    assert path.output is False


def test_infeasible_paths_are_pruned():
    def mechanism(rng, data):
        x = rng.laplace()
        if x > 1:
            return "high" if x > 0 else "impossible"
        return "low" if x <= 1 else "impossible"

    assert [path.output for path in explore(mechanism, [])] == ["high", "low"]


def test_what_is_known_already_adds_no_condition():
    def mechanism(rng, data):
        x = rng.laplace()
        above = x > 1
        return "high" if above and x > 0 and x > 1 else "low" if not above else "impossible"

    assert [str(path) for path in explore(mechanism, [])] == ["'high' where n0 > 1", "'low' where 1 >= n0"]


def test_pruning_knows_the_support_and_integers():
    def bounded(rng, data):
        u = rng.random()
        return (u >= 0, u < 1, u + rng.exponential() > -1)

    assert [path.output for path in explore(bounded, [])] == [(True, True, True)]

    def integer(rng, data):
        k = rng.geometric(0.5)
        return "between" if 1 < 2 * k < 2.5 and 2 * k != 2 else "else"

    assert {path.output for path in explore(integer, [])} == {"else"}


def test_a_sliver_of_probability_is_not_pruned():
    def mechanism(rng, data):
        x = rng.laplace()
        return "sliver" if 0 < x < 1e-15 else "rest"

    assert "sliver" in {path.output for path in explore(mechanism, [])}


@pytest.mark.parametrize(
    ("draw", "distribution"),
    [
        (lambda rng: rng.laplace(1, 2), Laplace(2)),
        (lambda rng: rng.normal(scale=0.5), Normal(Fraction(1, 2))),
        (lambda rng: rng.standard_normal(), Normal(1)),
        (lambda rng: rng.exponential(3), Exponential(3)),
        (lambda rng: rng.uniform(-1, 1), Uniform()),
        (lambda rng: rng.random(), Uniform()),
        (lambda rng: rng.geometric(0.25), Geometric(Fraction(1, 4))),
        (lambda rng: rng.poisson(2), Poisson(2)),
        (lambda rng: rng.binomial(1000, 0.5), Binomial(1000, Fraction(1, 2))),
    ],
)
def test_noise(draw, distribution):
    (path,) = explore(lambda rng, data: draw(rng), [])
    assert path.noises[0].distribution == distribution


def test_location_and_interval_go_into_the_expression():
    (path,) = explore(lambda rng, data: (rng.laplace(5, 2), rng.uniform(-1, 3), rng.laplace(data, 1)), 7)
    assert str(path.output) == "(n0 + 5, 4·n1 - 1, n2 + 7)"


def test_scale_zero_is_no_noise_and_a_negative_scale_fails_as_in_numpy():
    (path,) = explore(lambda rng, data: rng.laplace(data, 0), 7)
    assert path.output == 7
    assert not path.noises
    (path,) = explore(lambda rng, data: rng.laplace(0, -1), 7)
    assert path.output == Raised("ValueError", "scale < 0")


# ---------------------------------------------------------------------------------------------- finite choices


def total_weights(paths):
    table = {}
    for path in paths:
        table[path.output] = table.get(path.output, 0) + path.weight
    return table


def test_finite_choices_fork_with_their_weight():
    assert total_weights(explore(lambda rng, data: rng.choice(["a", "b"], p=[0.25, 0.75]), [])) == {
        "a": Fraction(1, 4),
        "b": Fraction(3, 4),
    }
    assert total_weights(explore(lambda rng, data: rng.integers(3), [])) == dict.fromkeys(range(3), Fraction(1, 3))
    assert total_weights(explore(lambda rng, data: rng.integers(1, 2, endpoint=True), [])) == {1: 0.5, 2: 0.5}
    assert total_weights(explore(lambda rng, data: rng.binomial(2, 0.5), [])) == {0: 0.25, 1: 0.5, 2: 0.25}


def test_permutations_of_short_lists():
    paths = explore(lambda rng, data: tuple(rng.permutation(data)), [1, 2, 3])
    assert total_weights(paths) == dict.fromkeys(
        [(1, 2, 3), (1, 3, 2), (2, 1, 3), (2, 3, 1), (3, 1, 2), (3, 2, 1)], Fraction(1, 6)
    )

    def shuffled(rng, data):
        rng.shuffle(data)
        return tuple(data)

    assert total_weights(explore(shuffled, [1, 2, 3])) == total_weights(paths)


def test_choice_without_replacement_has_the_weights_of_successive_draws():
    paths = explore(lambda rng, data: tuple(rng.choice(3, size=2, replace=False, p=[0.5, 0.25, 0.25])), [])
    assert total_weights(paths)[(0, 1)] == Fraction(1, 4)
    assert total_weights(paths)[(1, 0)] == Fraction(1, 6)
    assert sum(path.weight for path in paths) == 1


def test_an_option_of_weight_zero_is_never_taken():
    assert total_weights(explore(lambda rng, data: rng.choice(2, p=[0, 1]), [])) == {1: 1}


# ------------------------------------------------------------------------------------------- ordinary Python and NumPy


def loop_argmax(rng, queries):
    best, index = None, 0
    for i, query in enumerate(queries):
        noisy = query + rng.laplace(scale=2)
        if best is None or noisy > best:
            best, index = noisy, i
    return index


def halves(rng, queries):
    noisy = np.asarray(queries) + rng.laplace(scale=2, size=len(queries))
    return np.max(noisy[:2]) + max(noisy[2:])


def clipped(rng, queries):
    return np.clip(np.array(queries) + rng.laplace(size=len(queries)), 0, 1)


def running(rng, queries):
    noisy = np.cumsum(np.asarray(queries) + rng.laplace(size=len(queries)))
    return {"sums": noisy, "total": np.sum(noisy), "mean": noisy.mean()}


def selecting(rng, queries):
    noisy = np.asarray(queries) + rng.laplace(size=len(queries))
    return np.where(noisy > 0.5, noisy, -1.0)


def counting(rng, queries):
    above = (np.asarray(queries) + rng.laplace(size=len(queries))) > 0.5
    return int(np.sum(above)), above.astype(int)


def folding(rng, queries):
    x = abs(queries[0] + rng.laplace())
    return min(x, 2), sorted([x, queries[1] + rng.exponential(), 1.0])


def in_place(rng, queries):
    noisy = rng.laplace(size=len(queries))
    noisy += np.asarray(queries)
    noisy *= 2
    return -noisy[::-1] / 4, np.minimum(noisy[0], 3), np.median(noisy)


def early(rng, queries):
    x = rng.normal(scale=2)
    while -5 < x < 3:
        x += queries[0] + 1
        if x > 2:
            return x
    return None


def logic(rng, queries):
    noisy = np.asarray(queries) + rng.laplace(size=len(queries))
    return (noisy > 0) & (noisy < 1), (noisy < 0) | (noisy > 1), ~(noisy > 0.5), bool(np.any(noisy > 1))


@pytest.mark.parametrize(
    ("mechanism", "count"),
    [
        (svt, 4),
        (loop_argmax, 4),
        (halves, 2),
        (clipped, 27),
        (running, 1),
        (selecting, 8),
        (counting, 8),
        (folding, None),
        (in_place, None),
        (early, None),
        (logic, None),
        (lambda rng, q: np.argmax(np.asarray(q) + rng.laplace(size=3)), 3),
        (lambda rng, q: np.argmin(q + rng.laplace(size=3)), 3),
        (lambda rng, q: (np.asarray(q) + rng.laplace(size=3)).max() >= 1, None),
        (lambda rng, q: rng.geometric(0.5) - rng.geometric(0.5) >= q[0], 2),
        (lambda rng, q: (lambda u: "low" if u < 0.3 else "mid" if u < 0.6 else "high")(rng.random()), 3),
    ],
)
def test_paths_are_what_real_runs_do(mechanism, count):
    paths, seen = agree_with_real_runs(mechanism, [1.0, 0.5, 0.25])
    assert count is None or len(paths) == count
    assert len(seen) > 1 or len(paths) == 1


def test_argmax_of_an_array_without_noise_is_the_plain_one():
    (path,) = explore(lambda rng, data: np.argmax(np.asarray(data) + rng.laplace(scale=0.0, size=3)), [1, 3, 2])
    assert path.output == 1
    (path,) = explore(lambda rng, data: np.argmin(rng.laplace([[1.0, 0.0]], 0.0), axis=1), [])
    assert path.output == [1]


def test_argmax_has_a_path_for_each_index_and_ties_go_to_the_first():
    paths = explore(lambda rng, data: np.argmax(rng.laplace(size=3)), [])
    assert [path.output for path in paths] == [0, 1, 2]
    assert [str(condition) for condition in paths[1].conditions] == ["n1 > n0", "n1 >= n2"]


def test_paths_share_what_they_have_in_common():
    """The paths of a ten-query SVT run through 1023 forks: as many conditions to go the one way, and the other."""
    paths = explore(svt, [0.0] * 10, cutoff=11)
    conditions = {id(condition): condition for path in paths for condition in path.conditions}
    assert len(paths) == 1024
    assert len(conditions) == 2 * 1023


def test_equal_numbers_of_any_type_make_the_same_expression():
    def shifted(rng, data):
        noise = rng.laplace()
        return [noise + 1, noise + 1.0, noise + True, noise + np.float64(1), noise * 2 - noise - -1]

    (path,) = explore(shifted, [])
    assert [(leaf.constant, list(leaf.terms.values())) for leaf in path.output] == [(1, [1])] * 5


def test_operands_are_told_apart_by_what_they_are_not_by_where_they_are_kept():
    """Expressions that are made anew in every run, and dropped at once, never pass for one another."""

    def summed(rng, data):
        total = rng.laplace()
        for query in data:
            total = total + (rng.laplace(scale=2) * query - total * query)
            if total > query:
                total = total - query
        return total

    agree_with_real_runs(summed, [0.25, 0.5, -0.25])


def test_sparse_vector_without_cut_off_at_ten_queries():
    def unlimited(rng, queries):
        bar = rng.laplace(scale=20)
        return [query + rng.laplace(scale=20) >= bar for query in queries]

    paths = explore(unlimited, [1.0] * 10)
    assert len({tuple(path.output) for path in paths}) == len(paths) == 1024


def test_path_frequencies_sum_to_one():
    # Each of 4 estimates from 40,000 draws has a standard error below 0.0025; 6 sigma of their sum is 0.03.
    rng = np.random.default_rng(1)
    assert sum(path.frequency(rng, 40_000) for path in explore(svt, [1.0, 2.0, 0.0])) == pytest.approx(1, abs=0.03)


def test_a_mechanism_that_changes_its_data_meets_it_unchanged():
    def greedy(rng, data):
        data.append(1)
        return len(data) if rng.laplace() > 0 else -len(data)

    data = [0]
    assert {path.output for path in explore(greedy, data)} == {2, -2}
    assert data == [0]


# ------------------------------------------------------------------------------------------------------ deferring


def bits(rng, truth):
    permanent = rng.random(3) < np.where(truth, 0.75, 0.25)
    return rng.random(3) < np.where(permanent, 0.6, 0.4)


def test_deferred_comparisons_stay_in_the_output():
    (path,) = explore(bits, [True, False, True], defer=True)
    assert not path.forks
    assert all(isinstance(leaf, Select) and isinstance(leaf.condition, Condition) for leaf in path.output)
    assert str(path.output[1]) == "(0.6 > n4 if 0.25 > n1 else 0.4 > n4)"


def test_without_deferring_every_bit_is_decided():
    paths = explore(bits, [True, False, True])
    assert len(paths) == 4**3
    assert {type(bit) for path in paths for bit in path.output} == {bool}


def test_choices_that_make_no_difference_do_not_fork():
    paths = explore(lambda rng, data: np.where(rng.laplace(size=2) > 0, 1, 1), [])
    assert [path.output for path in paths] == [[1, 1]]


# ------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("mechanism", "what"),
    [
        (lambda rng, data: range(rng.geometric(0.5)), "a range wants one"),
        (lambda rng, data: np.asarray(rng.laplace(size=2), dtype=np.float32), "float32"),
        (lambda rng, data: [1, 2, 3][rng.geometric(0.5)], "index"),
        (lambda rng, data: {rng.laplace()}, "set"),
        (lambda rng, data: rng.laplace(scale=rng.exponential()), "scale of noise depends on noise"),
        (lambda rng, data: rng.pareto(2), "rng.pareto"),
        (lambda rng, data: len(f"{rng.laplace():.2f}"), "text"),
        (lambda rng, data: str([rng.laplace()]), "text"),
    ],
)
def test_what_is_not_affine_is_named_with_its_line_and_a_remedy(mechanism, what):
    line = mechanism.__code__.co_firstlineno
    with pytest.raises(NotAffine, match=rf"test_explore\.py:{line}: .*{what}.*engine that samples"):
        explore(mechanism, [1.0])


def test_user_code_that_swallows_exceptions_cannot_hide_a_refusal():
    def swallowing(rng, data):
        try:
            return range(rng.geometric(0.5))
        except Exception:
            return 0

    def swallowing_all(rng, data):
        try:
            return range(rng.geometric(0.5))
        except BaseException:
            return 0

    for mechanism in (swallowing, swallowing_all):
        with pytest.raises(NotAffine):
            explore(mechanism, [])


def test_user_code_that_catches_exceptions_is_explored_all_the_same():
    def careful(rng, data):
        try:
            if rng.laplace() > 0:
                raise ValueError("too high")
        except Exception:
            return "caught"
        return "fine"

    assert [path.output for path in explore(careful, [])] == ["caught", "fine"]


def test_an_exception_is_the_output_of_its_path():
    def failing(rng, data):
        return 1 if rng.laplace() > 0 else data["missing"]

    def strict(rng, data):
        x = rng.laplace()
        if x <= 0:
            raise AssertionError("no luck")
        if data[0] > 5:
            raise ValueError("too large")
        return x

    assert [str(path) for path in explore(failing, {})] == [
        "1 where n0 > 0",
        "raises KeyError(\"'missing'\") where 0 >= n0",
    ]
    found = {path.output for path in explore(strict, [unknown("a")]) if isinstance(path.output, Raised)}
    assert found == {Raised("AssertionError", "no luck"), Raised("ValueError", "too large")}


@pytest.mark.parametrize("swallow", [False, True])
def test_an_exception_that_a_stand_in_may_have_caused_is_no_output(swallow):
    def foreign(rng, data):
        try:
            return rng.laplace().hex()
        except AttributeError:
            if swallow:
                raise ValueError("no hex") from None
            raise

    with pytest.raises((MechanismFailed, NotAffine)):
        explore(foreign, [])


def test_a_message_with_noise_in_it_ends_exploration():
    def talkative(rng, data):
        raise ValueError("drew", rng.laplace())

    with pytest.raises(NotAffine, match="turned into text"):
        explore(talkative, [])


def test_a_mechanism_that_exits_is_reported():
    with pytest.raises(MechanismFailed, match="raised SystemExit"):
        explore(lambda rng, data: sys.exit(3), [])


def test_too_many_paths_says_how_many_were_found():
    with pytest.raises(TooManyPaths, match="more than 50 paths"):
        explore(lambda rng, data: [rng.laplace() > 0 for _ in range(20)], [], max_paths=50)


def test_an_endless_loop_over_noise_is_stopped():
    def endless(rng, data):
        tries = 0
        while rng.random() < 0.5:
            tries += 1
        return tries

    with pytest.raises(TooManyPaths, match="without an end"):
        explore(endless, [])


def test_hidden_state_is_detected():
    calls = []

    def stateful(rng, data):
        calls.append(1)
        return rng.laplace() > 0 if len(calls) % 2 else rng.laplace(scale=2) > 0

    with pytest.raises(Nondeterministic, match="run again on the same noise"):
        explore(stateful, [])


def test_hidden_state_in_a_number_is_detected():
    calls = []

    def drifting(rng, data):
        calls.append(1)
        noise = rng.laplace()
        return noise + 1 > 0, noise + len(calls) > 1

    with pytest.raises(Nondeterministic, match="run again on the same noise"):
        explore(drifting, [])


def test_hidden_state_in_the_output_alone_is_detected():
    calls = []

    def counting_calls(rng, data):
        calls.append(1)
        return len(calls)

    with pytest.raises(Nondeterministic, match="returned 1 and then 2"):
        explore(counting_calls, [])


@pytest.mark.parametrize("draw", [random.random, np.random.random])
def test_global_randomness_that_is_not_adopted_is_detected_wherever_it_is_used(draw):
    out_of_reach = (draw,)

    def sly(rng, data):
        return 0 if rng.laplace() > 0 else out_of_reach[0]()  # only the second path draws

    with pytest.raises(Nondeterministic, match="global randomness"):
        explore(sly, [])


def test_bad_input():
    with pytest.raises(BadInput, match="takes no argument 'cutof'; its arguments are: epsilon, threshold, cutoff"):
        explore(svt, [1.0], cutof=2)
    with pytest.raises(BadInput, match="needs a value for scale"):
        explore(lambda rng, data, *, scale: data, 1)
    with pytest.raises(BadInput, match="not a mechanism"):
        explore(3, [1.0])
    with pytest.raises(BadInput, match=r"give a function of \(rng, data\), \(data, rng\) or \(data\)"):
        explore(lambda rng: 0, [1.0])


def test_a_symbol_outside_of_a_run_says_so():
    with pytest.raises(NotAffine, match="inside explore"):
        bool(unknown("x") > 0)


def test_sites_are_lines_of_the_mechanism():
    paths = explore(svt, [1.0])
    first = svt.__code__.co_firstlineno
    assert [noise.site.line - first for noise in paths[0].noises] == [1, 4]
    (fork,) = (step for step in paths[0].steps if isinstance(step, Fork))
    assert fork.site.line - first == 4
    assert isinstance(paths[0].steps[0], Noise)


def test_isclose_is_a_comparison() -> None:
    def near(rng, data):  # type: ignore[no-untyped-def]
        return bool(np.isclose(data[0] + rng.uniform(), 1.0, rtol=0.0, atol=0.25))

    closes = [path for path in explore(near, [0.5]) if path.output]
    assert sorted(str(path) for path in closes) == [
        "True where 0.5 > n0 and n0 >= 0.25",
        "True where n0 >= 0.5 and 0.75 >= n0",
    ]


def test_an_open_value_may_be_called_like_a_noise() -> None:
    def between(rng, data):  # type: ignore[no-untyped-def]
        count = rng.geometric(0.5)
        return bool(count - data[0] > 0) and bool(count - data[0] < 0.5)

    same_name, other_name = (len(explore(between, [unknown(name)])) for name in ("n0", "x"))
    assert same_name == other_name == 3


@pytest.mark.parametrize("width", [np.float32, np.float16])
def test_narrow_floats_beside_noise_are_refused_by_name(width):
    with pytest.raises(NotAffine, match=f"noise and {np.dtype(width)} is not modelled; use bool, int or float"):
        explore(lambda rng, data: width(data[0]) + rng.laplace(), [0.5])


PATTERN = (True, False, True, False)


def _matches_by_identity(rng: Any, data: list[int]) -> list[bool]:
    bits = [rng.random() < 0.5 for _ in PATTERN]
    matched = sum((bit is True) is wanted for bit, wanted in zip(bits, PATTERN, strict=True))
    return [bool(data[0])] * 4 if matched == 4 else bits


def _matches_by_id(rng: Any, data: list[int]) -> list[bool]:
    bits = [rng.random() < 0.5 for _ in PATTERN]
    matched = sum(id(bit) == id(wanted) for bit, wanted in zip(bits, PATTERN, strict=True))
    return [bool(data[0])] * 4 if matched == 4 else bits


def _never_matches(rng: Any, data: list[int]) -> list[Any]:
    bits = list(rng.random(4) < 0.5)  # of NumPy's type, whose True is another object
    matched = sum((bit is True) is wanted for bit, wanted in zip(bits, (True, True, True, True), strict=True))
    return [bool(data[0])] * 4 if matched == 4 else bits


_known_as, _same_as_true, _compared = id, partial(operator.is_, True), object.__eq__


def _matches_by_another_name_of_id(rng: Any, data: list[int]) -> list[bool]:
    bits = [rng.random() < 0.5 for _ in PATTERN]
    matched = sum(_known_as(bit) == _known_as(wanted) for bit, wanted in zip(bits, PATTERN, strict=True))
    return [bool(data[0])] * 4 if matched == 4 else bits


def _matches_by_a_partial(rng: Any, data: list[int]) -> list[bool]:
    bits = [rng.random() < 0.5 for _ in PATTERN]
    return [bool(data[0])] * 4 if sum(map(_same_as_true, bits)) == 4 else bits


def _matches_by_a_method(rng: Any, data: list[int]) -> list[bool]:
    bits = [rng.random() < 0.5 for _ in PATTERN]
    return [bool(data[0])] * 4 if sum(_compared(True, bit) == True for bit in bits) == 4 else bits  # noqa: E712


@pytest.mark.parametrize(
    ("function", "epsilon"),
    [
        (_matches_by_identity, math.log(2)),
        (_matches_by_id, math.log(2)),
        (_matches_by_another_name_of_id, math.log(2)),
        (_matches_by_a_partial, math.inf),
        (_matches_by_a_method, math.inf),
        (_never_matches, 0.0),
    ],
)
def test_code_that_asks_which_truth_value_it_has_gets_one(function: Any, epsilon: float) -> None:
    """Four coins that fall as in the pattern, once in 16 times, make an output twice as likely, or impossible."""
    assert len(explore(function, [0], defer=True)) == 16
    assert veridp.exact.compare(function, [0], [1]).epsilon == pytest.approx(epsilon, abs=1e-12)


THREE = 3


def _finds_a_small_integer(rng: Any, data: list[int]) -> int:
    """CPython has one object for each small integer: data[0] is released once in 2^24 runs."""
    return data[0] if sum(int(rng.geometric(0.5)) is THREE for _ in range(8)) == 8 else 5


def _finds_a_rounded_number(rng: Any, data: list[int]) -> int:
    return data[0] if sum(round(rng.laplace()) is THREE for _ in range(8)) == 8 else 5


@pytest.mark.parametrize("function", [_finds_a_small_integer, _finds_a_rounded_number])
def test_integers_with_noise_are_not_told_by_identity(function: Any) -> None:
    with pytest.raises(NotAffine, match="compare numbers by =="):
        veridp.exact.compare(function, [0], [1])


def test_identity_of_what_is_no_number_hides_no_integer() -> None:
    def is_of_its_class(rng: Any, data: list[int]) -> int:
        noise = int(rng.geometric(0.5)) - int(rng.geometric(0.5))
        return data[0] + noise if type(data) is list and data.__class__ is not tuple and (data is True) is False else 0

    assert veridp.exact.compare(is_of_its_class, [0], [1]).epsilon == pytest.approx(math.log(2), rel=1e-12)


@dataclass(frozen=True)
class Scale:
    """Its generated methods ask whether an object `is` of a class, which is a variable around them."""

    p: float

    def noise(self, rng: Any) -> int:
        return int(rng.geometric(self.p)) - int(rng.geometric(self.p))


def test_a_frozen_dataclass_may_make_integers_with_noise() -> None:
    scale = Scale(0.5)
    assert veridp.exact.compare(lambda rng, data: data[0] + scale.noise(rng), [0], [1]).epsilon == pytest.approx(
        math.log(2), rel=1e-12
    )


def test_a_number_around_a_function_tells_integers_by_identity() -> None:
    def finder(wanted: Any) -> Any:
        def finds(rng: Any, data: list[int]) -> int:
            return data[0] if int(rng.geometric(0.5)) is wanted else 5

        return finds

    with pytest.raises(NotAffine, match="compare numbers by =="):
        veridp.exact.compare(finder(3), [0], [1])
    assert veridp.exact.compare(finder(Scale), [0], [1]).epsilon == 0


def test_a_symbol_that_is_kept_after_its_run_names_a_remedy() -> None:
    kept: list[Any] = []

    def keeps(rng: Any, data: list[int]) -> Any:
        kept.append(data[0] + rng.laplace())
        return len({*kept})

    with pytest.raises(NotAffine):
        explore(keeps, [0])
    with pytest.raises(NotAffine, match="black_box=True"):
        keeps(np.random.default_rng(1), [0])
