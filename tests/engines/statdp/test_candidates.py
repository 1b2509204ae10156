"""Events: their sentences, their truth, and that counting them together gives what counting them one by one does."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

import veridp
from veridp.engines.statdp.candidates import (
    FeatureCondition,
    FeatureEvent,
    InputTrial,
    NoiseFreeOutput,
    first_alike,
    propose_axes,
)
from veridp.engines.statdp.features import (
    Distance,
    EntryFeature,
    HasValue,
    LengthFeature,
    Nesting,
    Occurrences,
    SummaryFeature,
)
from veridp.engines.statdp.select import Families, LastOutputs
from veridp.kernel.output import Kind, Raised
from veridp.sampling.encode import encode

INF = math.inf
MIXED = Distance((None, None, 3.5), "[0, 0, 4]", (False, False, True))


@pytest.mark.parametrize(
    ("conditions", "sentence", "members", "others"),
    [
        (
            [(Occurrences(False, False), 8, 9), (SummaryFeature("the last number"), -2.4, 2.4)],
            "`False` occurs 9 times and the last number is in (-2.4, 2.4]",
            [[False] * 9 + [2.4], [1.0] + [False] * 9],
            [[False] * 9 + [-2.4], [False] * 8 + [0.0], [False] * 9],
        ),
        ([(Occurrences(True, False), -INF, 0)], "`True` never occurs", [[False], []], [[False, True]]),
        ([(Occurrences(1, False), -INF, 0)], "`1` never occurs", [[True, 1.5], ["1"]], [[1], [1.0]]),
        ([(Occurrences("b", False), 0, INF)], "`'b'` occurs at least 1 time", [["a", "b"]], [["a"], ["c", None]]),
        ([(Occurrences(2, True), 0, INF)], "output is 2", [2, 2.0], [1, "2", True]),
        ([(Occurrences(INF, True), 0, INF)], "output is inf", [INF], [-INF, float("nan"), 1e308, None]),
        ([(Occurrences(Raised("E", "a"), True), 0, INF)], "raises E('a')", [Raised("E", "a")], [Raised("E"), "E"]),
        ([(Nesting((None, (None,))), 0, INF)], "output is of the form [_, [_]]", [[1, [2]]], [[1, 2], 1, {1: [2]}]),
        ([(EntryFeature(0, "output"), 0, INF)], "output > 0", [1.0], [INF, float("nan"), Raised("E")]),
        ([(Occurrences(2, True), -INF, 0)], "output is not 2", [0], [2]),
        ([(HasValue(1, None, "output[1]"), 0, INF)], "output[1] is None", [[1, None]], [[None], [None, 1]]),
        ([(LengthFeature(), 2, 3)], "output has 3 entries", [[1, 2, 3]], [[1, 2]]),
        ([(LengthFeature(), -INF, 1)], "output has at most 1 entry", [[1], []], [[1, 2]]),
        ([(LengthFeature(), 1, 3)], "output has 2 to 3 entries", [[1, 2]], [[1]]),
        (
            [(MIXED, -INF, 0)],
            "output is [None, None, #], the noise-free output on [0, 0, 4]",
            [[None, None, -7.0]],
            [[None, None, None], [None, None, 1.0, None], [None, 1.0], [None, None, True]],
        ),
        (
            [(MIXED, 1, 2)],
            "output differs in 2 places from [None, None, #], the noise-free output on [0, 0, 4]",
            [[None, 1.0]],
            [[None, None], [1.0]],
        ),
        ([(EntryFeature(0, "output"), -INF, 0)], "output <= 0", [0.0, -3.0], [0.1]),
        ([(EntryFeature(0, "output"), 1.5, INF)], "output > 1.5", [2, 1.6], [1.5]),
        (
            [(EntryFeature(1, "output[1]"), np.nextafter(2, -INF), 2)],
            "output[1] is 2",
            [[0.0, 2.0]],
            [[2.0, 1.9], [2.0]],
        ),
        ([(EntryFeature(0, "output"), np.nextafter(0, -INF), 2)], "output is in [0, 2]", [0.0, 2.0], [-0.1, 2.1]),
        ([(EntryFeature(0, "output"), -INF, np.nextafter(1, -INF))], "output < 1", [0.9], [1.0]),
        ([(EntryFeature(0, "output"), np.nextafter(1.5, -INF), INF)], "output >= 1.5", [1.5], [1.4]),
        ([(EntryFeature(0, "output", True), 2, 3)], "output is 3", [3], [2, 4]),
        ([(EntryFeature(0, "output", True), 2, INF)], "output >= 3", [3], [2]),
        (
            [(SummaryFeature("the average of the numbers"), -INF, 2)],
            "the average of the numbers <= 2",
            [[1, 3]],
            [[2, 3]],
        ),
        (
            [(SummaryFeature("the smallest number"), 0, 1)],
            "the smallest number is in (0, 1]",
            [[5.0, 1.0]],
            [[0.0], []],
        ),
        (
            [(SummaryFeature("the largest number"), 0, 1)],
            "the largest number is in (0, 1]",
            [[-5.0, 1.0]],
            [[2.0, 1.0]],
        ),
    ],
)
def test_sentence_and_members(conditions, sentence, members, others):
    event = FeatureEvent(tuple(FeatureCondition(*condition) for condition in conditions))
    assert str(event) == sentence
    assert [event.holds(output) for output in members] == [True] * len(members)
    assert [event.holds(output) for output in others] == [False] * len(others)
    assert event(encode([*members, *others])).tolist() == [True] * len(members) + [False] * len(others)
    assert pickle.loads(pickle.dumps(event)) == event  # noqa: S301 - just pickled


def values_only(rng, data):  # (1) of a fixed length
    return [bool(rng.random() < p) for p in data]


def values_of_some_length(rng, data):  # (2)
    found = []
    for p in data:
        found.append("yes" if rng.random() < p else "no")
        if rng.random() < 0.3:
            break
    return found


def numbers_only(rng, data):  # (3)
    return [x + rng.laplace() for x in data]


def numbers_of_some_length(rng, data):  # (4)
    return [x + rng.laplace() for x in data if rng.random() < 0.7]


def values_and_numbers(rng, data):  # (5)
    return [x + rng.laplace() if rng.random() < 0.4 else None for x in data]


def clipped(rng, data):
    return float(np.clip(data[0] + rng.laplace(), 0, 1))


def whole_numbers(rng, data):
    return [int(x) + int(rng.geometric(0.2)) for x in data]


def nested(rng, data):
    return {"flag": bool(rng.random() < 0.5), "noisy": (data[0] + rng.normal(), int(rng.integers(3)))}


KINDS = [
    values_only,
    values_of_some_length,
    numbers_only,
    numbers_of_some_length,
    values_and_numbers,
    clipped,
    whole_numbers,
    nested,
]


@pytest.mark.parametrize("reading", [None, "one-by-one"])
@pytest.mark.parametrize("mechanism", KINDS)
def test_counted_together_or_one_by_one(mechanism, reading):
    left = veridp.sample(mechanism, [0.2, 0.9, 0.5], 1500, seed=1, reading=reading)
    right = veridp.sample(mechanism, [0.7, 0.1, 0.5], 1500, seed=2, reading=reading)
    references = [NoiseFreeOutput(left[0], "left"), NoiseFreeOutput(right[0], "right")]
    families = Families.of(propose_axes(left, right, references))
    counts, complexity = families.counts(left), families.complexity()
    assert len(counts) == len(complexity) > 5
    rng = np.random.default_rng(3)
    for index in rng.choice(len(counts), size=min(60, len(counts)), replace=False).tolist():
        event = families.event(index)
        assert np.count_nonzero(event(left)) == counts[index], str(event)
        assert sum(event.holds(output) for output in list(left)[:40]) == np.count_nonzero(event(left[:40])), str(event)


def sentences(mechanism) -> list[str]:
    left = veridp.sample(mechanism, [0.2, 0.9, 0.5], 1500, seed=1)
    right = veridp.sample(mechanism, [0.7, 0.1, 0.5], 1500, seed=2)
    families = Families.of(propose_axes(left, right, [NoiseFreeOutput(left[0], "left")]))
    return [str(families.event(index)) for index in range(len(families.counts(left)))]


@pytest.mark.parametrize(
    ("mechanism", "begins"),
    [
        (values_only, ["`True` occurs 2 times", "output differs in 1 place from", "output[0] is True"]),
        (values_of_some_length, ["`'no'` occurs 1 time", "output has 2 entries", "output differs in 1 place from"]),
        (
            numbers_only,
            ["output[2] <= ", "the average of the numbers > ", "the smallest number is in (", "the largest number"],
        ),
        (numbers_of_some_length, ["output has 2 entries", "the last number is in (", "the average of the numbers <="]),
        (values_and_numbers, ["`None` occurs 2 times and the last number is in (", "`None` occurs 3 times"]),
        (clipped, ["output is 0", "output is 1", "output is in ("]),
        (whole_numbers, ["output[0] >= ", "output[1] is 3 to 6"]),
        (nested, ["`False` occurs 1 time and the smallest number is in (", "output['noisy'][0] > "]),
    ],
)
def test_the_events_of_each_kind_of_output(mechanism, begins):
    found = sentences(mechanism)
    assert [begin for begin in begins if not any(sentence.startswith(begin) for sentence in found)] == []
    assert len(set(found)) == len(found)


def test_the_ends_of_intervals_are_quantiles_of_both_samples_with_few_digits():
    left, right = (veridp.sample(numbers_only, [level], 4000, seed=level) for level in (0, 5))
    (axis,) = propose_axes(left, right, [NoiseFreeOutput([0.0], "left"), NoiseFreeOutput([5.0], "right")]).numeric
    pooled = np.concatenate([outputs.matrix()[:, 0] for outputs in (left, right)])
    shares = np.mean(pooled[:, None] <= axis.cuts, axis=0)
    assert {0.0, 5.0} <= set(axis.cuts)  # where the noise lies around
    assert shares[0] < 0.01
    assert shares[-1] > 0.99
    assert np.max(np.diff(shares)) < 0.08
    assert all(len(f"{abs(cut):.12g}") <= 5 for cut in axis.cuts)


def test_numbers_and_truth_values_are_told_apart():
    outputs = encode([[True, 1], [1, True], [1, 1]])
    assert Distance((True, 1), "x", (False, False), (Kind.FLOAT,)).column(_sheet(outputs)).tolist() == [0, 2, 1]


def _sheet(outputs):
    from veridp.engines.statdp.features import FeatureTable

    return FeatureTable(outputs)


def test_pairs_with_the_same_left_input_and_arguments_share_its_runs() -> None:
    @veridp.mechanism(adjacency="linf")
    def noisy(rng, data, *, scale=1.0):  # type: ignore[no-untyped-def]
        return data[0] + rng.laplace(scale=scale)

    def trials(*lefts: object, scale: float = 1.0) -> list[InputTrial]:
        return [InputTrial(noisy.bind(scale=scale), left, [2.0], "") for left in lefts]

    assert list(first_alike(trials([0.0], [1.0], [0.0], [1.0], (0.0,)))) == [0, 1, 0, 1, 4]
    assert list(first_alike([*trials([0.0]), *trials([0.0], scale=2.0), *trials([0.0])])) == [0, 1, 0]
    hidden = [lambda: None]  # cannot be pickled
    assert list(first_alike(trials(hidden, hidden))) == [0, 1]


def test_outputs_are_drawn_again_only_where_others_came_between() -> None:
    last, drawn = LastOutputs(), list[int]()

    def draw(key: int) -> object:
        return last.drawn(key, lambda: drawn.append(key) or encode([float(key)]))  # type: ignore[func-returns-value]

    assert [draw(1) is draw(1), draw(2) is draw(2)] == [True, True]
    assert draw(1) is not None
    assert drawn == [1, 2, 1]
