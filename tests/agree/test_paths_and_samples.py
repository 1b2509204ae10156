"""The paths of a mechanism and its samples tell the same story.

The probability of each form of output (the output with its numbers left out), estimated path by path, is compared with
the share of outputs of this form when the function itself is run; and the numbers of each form, evaluated on the
paths, with those that it returned.

Everything is seeded. Each comparison raises a false alarm with probability at most 1e-7, and there are fewer than
1000 of them: below 1e-4 in all, were the seeds drawn anew.
"""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import veridp
from veridp.errors import TooManyPaths
from veridp.kernel.expressions import Affine, Condition, Select, is_integer
from veridp.kernel.path import Path, leaves, map_leaves
from veridp.mechanism import Mechanism

FALSE_ALARM = 1e-7
FEW = 20  # cells that expect fewer outputs are counted together
ON_PATHS, RUN, SAMPLED = 100_000, 4_000, 20_000  # draws for each path, plain runs, outputs of `sample`
NUMBER = "number"
DEFERRED = ("one_time_rappor", "rappor")
EXPLORED = [name for name in veridp.catalogue if name not in DEFERRED]
COMPILED = ("svt1", "laplace", "noisy_max2", "bad_smart_sum", "randomized_response", "truncated_geometric")


def small(name: str) -> Mechanism:
    """The mechanism with ε = 1, so that what its data are makes itself felt."""
    mechanism = veridp.catalogue[name]
    return mechanism.bind(epsilon=1.0) if "epsilon" in mechanism.values else mechanism


def inputs(mechanism: Mechanism) -> list[Any]:
    """Two inputs of at most three entries: sides of pairs worth trying."""
    pairs = list(mechanism.adjacency.pairs(min(mechanism.size, 3), mechanism.domain))
    return [pairs[0].right, pairs[-1].left]


# ------------------------------------------------------------------------------------------- forms of outputs


@dataclass(frozen=True)
class Story:
    """How likely each form of output is, and the numbers that come with it: a row for each output of the form."""

    shares: dict[Any, float]
    numbers: dict[Any, NDArray[np.float64]]
    total: int


def form(output: Any, integers: bool) -> Any:
    """The output with its numbers left out; integers are numbers only where paths have integer noise in them."""

    def outline(leaf: Any) -> Any:
        if isinstance(leaf, bool) or leaf is None or isinstance(leaf, str):
            return leaf
        return NUMBER if integers or not isinstance(leaf, int) else leaf

    return _frozen(map_leaves(outline, output))


def _frozen(output: Any) -> Any:
    return tuple(_frozen(entry) for entry in output) if isinstance(output, list | tuple) else output


def has_integer_noise(paths: Iterable[Path]) -> bool:
    return any(isinstance(leaf, Affine) and is_integer(leaf) for path in paths for leaf in leaves(path.output))


def told_by_paths(paths: tuple[Path, ...], seed: int) -> Story:
    """Path by path, `Path.frequency`; the numbers from draws that lead down the path."""
    rng, integers = np.random.default_rng(seed), has_integer_noise(paths)
    shares: Counter[Any] = Counter()
    rows: dict[Any, list[NDArray[np.float64]]] = defaultdict(list)
    for path in paths:
        shape = form(path.output, integers)
        shares[shape] += path.frequency(rng, ON_PATHS)  # type: ignore[assignment]
        values: dict[Any, Any] = {noise: noise.distribution.draw(rng, ON_PATHS) for noise in path.noises}
        held = path.holds(values) if values else np.ones(ON_PATHS, dtype=bool)
        columns = [_column(leaf, values) for leaf in leaves(path.output) if form(leaf, integers) == NUMBER]
        if columns:
            rows[shape].append(np.column_stack([column[held] for column in columns]))
    return Story(dict(shares), {shape: np.concatenate(parts) for shape, parts in rows.items()}, ON_PATHS)


def _column(leaf: Any, values: dict[Any, Any]) -> NDArray[np.float64]:
    value = leaf.evaluate(values) if isinstance(leaf, Affine) else float(leaf)
    return np.broadcast_to(value, (ON_PATHS,))


def told_by_outputs(outputs: Iterable[Any], integers: bool) -> Story:
    counts: Counter[Any] = Counter()
    rows: dict[Any, list[list[float]]] = defaultdict(list)
    for output in outputs:
        shape = form(output, integers)
        counts[shape] += 1
        numbers = [float(leaf) for leaf in leaves(output) if form(leaf, integers) == NUMBER]
        if numbers:
            rows[shape].append(numbers)
    total = counts.total()
    shares = {shape: count / total for shape, count in counts.items()}
    return Story(shares, {shape: np.array(found) for shape, found in rows.items()}, total)


# ------------------------------------------------------------------------------------------------- comparisons


def assert_same_story(paths: Story, outputs: Story) -> None:
    assert set(outputs.shares) <= set(paths.shares)
    assert_complete(paths)
    assert forms_p_value(paths, outputs) > FALSE_ALARM
    for shape, numbers in outputs.numbers.items():
        if len(numbers) >= FEW:
            for ours, theirs in zip(paths.numbers[shape].T, numbers.T, strict=True):
                assert same_distribution(ours, theirs)


def assert_complete(paths: Story) -> None:
    """The paths' probabilities sum to 1; a sum of independent estimates has a deviation of at most 1/√draws."""
    assert abs(sum(paths.shares.values()) - 1) <= stats.norm.isf(FALSE_ALARM / 2) / np.sqrt(paths.total)


def forms_p_value(paths: Story, outputs: Story) -> float:
    """Chi-square test of the outputs' forms against the paths' shares.

    The shares are estimates themselves. Each adds at most share/draws to the variance of its cell, where the outputs
    have share/outputs: the statistic is at most (1 + outputs/draws) times a chi-square one.
    """
    total = sum(paths.shares.values())
    cells = [(outputs.shares.get(shape, 0.0), share / total) for shape, share in paths.shares.items()]
    large = [cell for cell in cells if cell[1] * outputs.total >= FEW]
    rest = [cell for cell in cells if cell[1] * outputs.total < FEW]
    if sum(share for _, share in rest) * outputs.total >= FEW:
        large.append((sum(seen for seen, _ in rest), sum(share for _, share in rest)))
    if len(large) < 2:
        return 1.0
    seen, expected = np.array(large).T
    statistic = outputs.total * np.sum((seen - expected) ** 2 / expected) / (1 + outputs.total / paths.total)
    return float(stats.chi2.sf(statistic, len(large) - 1))


def same_distribution(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> bool:
    """Kolmogorov-Smirnov test of two samples (conservative where values repeat); constants must be equal."""
    if np.ptp(ours) == 0:
        return bool(np.all(theirs == ours[0]))
    return bool(stats.ks_2samp(ours, theirs, method="asymp").pvalue > FALSE_ALARM)


@functools.cache
def explored(name: str, which: int) -> tuple[bool, Story]:
    """Whether the mechanism's integers are numbers, and what its paths tell."""
    mechanism = small(name)
    paths = veridp.explore(mechanism, inputs(mechanism)[which])
    return has_integer_noise(paths), told_by_paths(paths, seed=101 + which)


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("name", EXPLORED)
def test_paths_agree_with_the_function_itself(name: str, which: int) -> None:
    mechanism, rng = small(name), np.random.default_rng(7 + which)
    data = inputs(mechanism)[which]
    integers, paths = explored(name, which)
    assert_same_story(paths, told_by_outputs((mechanism(rng, data) for _ in range(RUN)), integers))


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("name", EXPLORED)
def test_paths_agree_with_batches(name: str, which: int) -> None:
    mechanism = small(name)
    integers, paths = explored(name, which)
    outputs = veridp.sample(mechanism, inputs(mechanism)[which], SAMPLED, seed=11 + which, reading="batch")
    assert_same_story(paths, told_by_outputs(outputs, integers))


@pytest.mark.slow
@pytest.mark.parametrize("name", COMPILED)
def test_paths_agree_with_compiled_runs(name: str) -> None:
    mechanism = small(name)
    integers, paths = explored(name, 0)
    outputs = veridp.sample(mechanism, inputs(mechanism)[0], SAMPLED, seed=13, reading="compiled")
    assert outputs.reading == "compiled"
    assert_same_story(paths, told_by_outputs(outputs, integers))


def test_a_different_mechanism_is_told_apart() -> None:
    """The comparison has teeth: another threshold, a moved query, and a noisier number are all noticed."""
    integers, paths = explored("svt1", 0)
    svt1 = small("svt1")
    data = inputs(svt1)[0]
    other = told_by_outputs(veridp.sample(svt1, data, SAMPLED, seed=5, threshold=0.7), integers)
    assert forms_p_value(paths, other) < FALSE_ALARM
    moved = told_by_outputs(veridp.sample(svt1, [data[0] + 0.5, *data[1:]], SAMPLED, seed=5), integers)
    assert forms_p_value(paths, moved) < FALSE_ALARM
    integers, paths = explored("laplace", 0)
    noisier = told_by_outputs(veridp.sample(small("laplace"), [2.0], SAMPLED, seed=5, epsilon=0.9), integers)
    assert not same_distribution(paths.numbers[(NUMBER,)][:, 0], noisier.numbers[(NUMBER,)][:, 0])


# -------------------------------------------------------------------------------- all of the catalogue explores


# How many ways there are through some of them, counted by hand: n queries pass or not (svt6), or not after the first
# that does (svt1) or the second (each half of svt34_parallel); one of n is the largest (noisy_max1).
WAYS = {
    "laplace": 1,
    "noisy_max1": 5,
    "noisy_max_sum": 4,
    "randomized_response": 2,
    "truncated_geometric": 6,
    "svt1": 11,
    "svt6": 2**10,
    "svt34_parallel": (1 + 10 + 45) ** 2,
    "numerical_svt": 1 + 10 + 45,
}


@pytest.mark.parametrize("name", EXPLORED)
def test_each_explores_at_its_usual_size(name: str) -> None:
    mechanism = veridp.catalogue[name]
    paths = veridp.explore(mechanism, mechanism.adjacency.example(mechanism.size, mechanism.domain))
    assert len(paths) == WAYS.get(name, len(paths))
    assert all(path.weight > 0 for path in paths)


@pytest.mark.parametrize("name", DEFERRED)
def test_the_others_say_that_their_paths_are_too_many(name: str) -> None:
    expected = rf"^{name} has more than 100 paths \(100 were listed\); use a smaller input, raise max_paths, defer=True"
    with pytest.raises(TooManyPaths, match=expected):
        veridp.explore(veridp.catalogue[name], 0, max_paths=100)


@pytest.mark.parametrize("name", DEFERRED)
def test_deferred_their_one_path_agrees_with_the_function_itself(name: str) -> None:
    """The first six of the twenty bits, whose 64 patterns are counted."""
    mechanism, rng = veridp.catalogue[name], np.random.default_rng(17)
    (path,) = veridp.explore(mechanism, 3, defer=True)
    assert path.conditions == ()
    assert len(path.output) == 20
    values = {noise: noise.distribution.draw(rng, ON_PATHS) for noise in path.noises}
    bits = np.column_stack([_truth(leaf, values) for leaf in path.output[:6]])
    patterns, counts = np.unique(bits, axis=0, return_counts=True)
    shares = {tuple(map(bool, pattern)): count / ON_PATHS for pattern, count in zip(patterns, counts, strict=True)}
    runs = [tuple(map(bool, mechanism(rng, 3)[:6])) for _ in range(RUN)]
    assert_same_story(Story(shares, {}, ON_PATHS), told_by_outputs(runs, integers=False))


def _truth(leaf: Any, values: dict[Any, Any]) -> Any:
    if isinstance(leaf, Condition):
        return leaf.holds(values)
    if isinstance(leaf, Select):
        return np.where(_truth(leaf.condition, values), _truth(leaf.then, values), _truth(leaf.other, values))
    return np.full(ON_PATHS, leaf)
