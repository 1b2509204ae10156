"""Events: what they say, which outputs they hold for, and that samples fall in them as often as stated.

Each comparison of a frequency with a stated probability raises a false alarm with probability at most 1e-6, were its
seed drawn anew; there are fewer than 100 of them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import veridp
from veridp.engines.exact import compare
from veridp.engines.exact.event import ExactEvent, LinearEntry, NumberSpan
from veridp.kernel.output import Kind, Slot, Template
from veridp.sampling.encode import encode

FALSE_ALARM = 1e-6
NUMBER = Slot(Kind.FLOAT, 0)
SECOND, ANY = LinearEntry(((1, 1.0),), ("output[1]",)), NumberSpan(-math.inf, math.inf)


def bind(name: str, epsilon: float = 1.0) -> veridp.Mechanism:
    return veridp.catalogue[name].bind(epsilon=epsilon)


# ------------------------------------------------------------------------------------------------------ what they say


@pytest.mark.parametrize(
    ("name", "left", "right", "said"),
    [
        ("laplace", [1.0], [2.0], "output[0] <= 1"),
        ("laplace", [0.0], [-1.0], "output[0] >= 0"),
        ("partial_sum", [1.0, 2.0], [1.0, 3.0], "output <= 3"),
        ("geometric", [1], [2], "output[0] <= 1"),
        ("truncated_geometric", [1], [2], "output is 0"),
        ("noisy_max2", [1.0, 1.0], [0.0, 2.0], "output is 0"),
        ("noisy_max4", [1.0, 1.0], [2.0, 2.0], "output in [1, 2]"),
        ("svt1", [1.0] * 3, [2.0] * 3, "output is [False, False, False]"),
        ("svt3", [1.0] * 3, [2.0] * 3, "output is [None, None, #] and output[2] <= 1"),
        ("smart_sum", [1.0] * 3, [2.0, 1.0, 1.0], "output[0] <= 1 and output[1] <= 2"),
        ("bad_smart_sum", [1.0] * 3, [2.0, 1.0, 1.0], "output[1] is 2 and output[0] <= 1 and output[2] <= 3"),
        ("laplace_parallel", [1.0], [2.0], "each of output[0], output[1], …, output[19] <= 1"),
        (
            "prefix_sum",
            [1.0] * 3,
            [2.0] * 3,
            "output is [#, #, #] and each of output[0], -output[0] + output[1], -output[1] + output[2] <= 1",
        ),
    ],
)
def test_witnesses_in_words(name: str, left: Any, right: Any, said: str) -> None:
    assert str(compare(veridp.catalogue[name], left, right).witness.event) == said


def test_rappor_names_the_bits_that_tell() -> None:
    event = compare(veridp.catalogue["one_time_rappor"].bind(bits=6, hashes=2), 0, 1).witness.event
    assert str(event) == "output[0] is False and output[3] is True"


def test_spans_entries_and_events_in_words() -> None:
    entry = LinearEntry(((0, 1.0), (2, -0.5)), ("output[0]", "output[2]"))
    assert str(entry) == "output[0] - 0.5·output[2]"
    spans = [
        NumberSpan(-math.inf, 3.0),
        NumberSpan(0.5, math.inf),
        NumberSpan(1, 2),
        NumberSpan(4, 4),
        NumberSpan(-math.inf, math.inf),
    ]
    assert [span.text("x") for span in spans] == ["x <= 3", "x >= 0.5", "x in [1, 2]", "x = 4", "x is any number"]
    two = ExactEvent(within=((entry, (NumberSpan(-math.inf, 0.0), NumberSpan(5, 6))),))
    assert str(two) == "output[0] - 0.5·output[2] <= 0 or output[0] - 0.5·output[2] in [5, 6]"
    assert str(ExactEvent()) == "any output"
    assert str(ExactEvent(either=(ExactEvent(template=Template(True)), two))) == f"(output is True) or ({two})"
    many = ExactEvent(either=tuple(ExactEvent(template=Template(k)) for k in range(6)))
    assert str(many).endswith("(output is 3) or 2 more cases")


# ---------------------------------------------------------------------------------- which outputs they hold for


def test_forms_and_constants() -> None:
    event = ExactEvent(template=Template((None, NUMBER, True)))
    assert event.holds([None, 3.5, True])
    assert event.holds((None, 2, np.bool_(True)))
    assert not event.holds([None, 3.5, 1])
    assert not event.holds([None, True, True])
    assert not event.holds([None, 3.5])
    assert not event.holds([0, 3.5, True])
    assert ExactEvent(template=Template("low")).holds("low")
    assert ExactEvent(template=Template(2)).holds(2.0 + 1e-15)
    assert not ExactEvent(template=Template(2)).holds("2")


def test_spans_and_combinations() -> None:
    difference = LinearEntry(((0, -1.0), (1, 1.0)), ("output[0]", "output[1]"))
    event = ExactEvent(within=((difference, (NumberSpan(0.0, 1.0), NumberSpan(3.0, math.inf))),))
    held = [event.holds([1.0, z]) for z in (0.5, 1.0, 2.0, 2.5, 4.0, 9.0)]
    assert held == [False, True, True, False, True, True]
    both = event & ExactEvent(equal=(("output[0]", 0, 1.0),))
    assert both.holds([1.0, 2.0])
    assert not both.holds([2.0, 3.0])
    assert ExactEvent(either=(ExactEvent(template=Template(1)), event)).holds(1)


@pytest.mark.parametrize(
    ("event", "held"),
    [
        (ExactEvent(), [True] * 9),
        (ExactEvent(template=Template(NUMBER)), [False] * 3 + [True, True, False, False, False, False]),
        (ExactEvent(template=Template(2.5)), [False] * 3 + [True] + [False] * 5),
        (ExactEvent(equal=(("output[1]", 1, True),)), [True] + [False] * 8),
        (
            ExactEvent(within=((SECOND, (NumberSpan(1.0, 2.0), NumberSpan(9.0, math.inf))),)),
            [False, True] + [False] * 7,
        ),
        (
            ExactEvent(either=(ExactEvent(template=Template("low")), ExactEvent(within=((SECOND, (ANY,)),)))),
            [False, True, True, False, False, False, True, False, False],
        ),
    ],
)
def test_many_outputs_belong_to_it_as_each_of_them_does(event: ExactEvent, held: list[bool]) -> None:
    values = [[1.0, True], [1.0, 1.5], [1, 7], 2.5, 3, True, "low", math.nan, [1.0, math.inf]]
    assert [event.holds(value) for value in values] == held
    assert event(encode(values)).tolist() == held


def test_leaves_of_dicts_are_found_beside_their_keys() -> None:
    def answers(rng: Any, x: float) -> Any:
        return {"b": "text", "a": x + rng.laplace(), "c": rng.laplace() > 0}

    event: Any = compare(answers, 0.0, 1.0).witness.event
    assert event.holds({"a": -1.0, "b": "text", "c": True})
    assert not event.holds({"a": 1.0, "b": "text", "c": True})


def test_counting_outputs_and_telling_which() -> None:
    mechanism = bind("laplace")
    event: Any = compare(mechanism, [1.0], [2.0]).witness.event
    outputs = veridp.sample(mechanism, [1.0], 1000, seed=4)
    below = outputs.matrix()[:, 0] <= 1
    assert event(outputs).tolist() == below.tolist()
    assert event.count(outputs) == np.count_nonzero(below)


# ------------------------------------------------------------------------------------------------ as often as stated

WITNESSED = [
    ("laplace", [1.0], [2.0]),
    ("noisy_max1", [1.0, 2.0, 0.0], [0.0, 3.0, 0.0]),
    ("noisy_max3", [1.0, 2.0, 1.5], [2.0, 2.5, 2.0]),
    ("noisy_max4", [1.0, 2.0], [2.0, 3.0]),
    ("svt1", [1.0, 0.0, 2.0], [2.0, 1.0, 1.0]),
    ("svt2", [1.0, 0.0, 2.0], [2.0, 1.0, 1.0]),
    ("svt3", [1.0, 0.0], [2.0, 1.0]),
    ("svt6", [1.0, 0.0, 2.0], [2.0, 1.0, 1.0]),
    ("gap_svt", [1.0, 0.0], [2.0, -1.0]),
    ("numerical_svt", [1.0, 0.0, 2.0], [2.0, 1.0, 1.0]),
    ("adaptive_svt", [1.0, 0.0], [2.0, -1.0]),
    ("smart_sum", [1.0, 0.0, 2.0], [1.0, 1.0, 2.0]),
    ("prefix_sum", [1.0, 0.0, 2.0], [2.0, 1.0, 1.0]),
    ("geometric", [3], [2]),
    ("randomized_response", True, False),
    ("exponential_mechanism", [1.0, 0.0, 2.0], [2.0, 1.0, 1.0]),
]


@pytest.mark.parametrize(("name", "left", "right"), WITNESSED)
def test_samples_fall_in_the_witnessed_event_as_often_as_stated(name: str, left: Any, right: Any) -> None:
    mechanism, count = bind(name), 20_000
    witness = compare(mechanism, left, right).witness
    for data, probability in ((witness.left, witness.left_probability), (witness.right, witness.right_probability)):
        seen = witness.event.count(veridp.sample(mechanism, data, count, seed=8))  # type: ignore[attr-defined]
        assert stats.binomtest(seen, count, probability.lower).pvalue > FALSE_ALARM


@pytest.mark.parametrize(
    ("name", "left", "right"),
    [case for case in WITNESSED if case[0] not in ("smart_sum", "prefix_sum", "numerical_svt")],
)
def test_samples_fall_above_a_level_as_often_as_stated(name: str, left: Any, right: Any) -> None:
    """The disjoint parts of the event that attains δ(ε), counted; P - e^ε Q is δ."""
    mechanism, count = bind(name), 10_000
    comparison = compare(mechanism, left, right)
    epsilon = 0.4 * min(comparison.loss.supremum, 2.0)
    parts = comparison.event_above(epsilon)
    stated = comparison.loss.above(epsilon)
    assert stated[0] - math.exp(epsilon) * stated[1] == pytest.approx(comparison.loss.delta(epsilon).upper, abs=1e-12)
    for data, probability in zip((left, right), stated, strict=True):
        outputs = veridp.sample(mechanism, data, count, seed=9)
        held = np.sum([part(outputs) for part in parts], axis=0)
        assert held.max() <= 1
        assert stats.binomtest(int(held.sum()), count, min(probability, 1.0)).pvalue > FALSE_ALARM
