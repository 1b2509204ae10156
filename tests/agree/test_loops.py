"""Mechanisms with loops of many kinds: the exact law against plain runs, since replay does not see probabilities."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest

from veridp import exact
from veridp.errors import TooManyPaths
from veridp.kernel import run

RUNS = 4_000
MOST_ERRORS = 6.0  # standard errors: a right law fails with a probability below 1e-7 in all


def switches(rng, data):
    even = True
    while rng.random() < 0.6:
        even = not even
    return "even" if even else "odd"


def counts_and_compares(rng, data):
    count = 0
    while True:
        if rng.random() < 0.5:
            return "many" if count > 2 else "few"
        count += 1


def asks_an_iterator(rng, data):
    numbers = itertools.count()
    while True:
        if next(numbers) > 2:
            return "late"
        if rng.random() < 0.3:
            return "early"


def breaks_or_returns(rng, data):
    while True:
        x = rng.random()
        if x < 0.3:
            return "a"
        if x < 0.5:
            break
    while rng.random() < 0.2:
        pass
    return "b"


def loops_for_each(rng, data):
    found = ""
    for i in range(3):
        while True:
            face = rng.integers(4)
            if face != i:
                break
        found += str(face)
    return found


def counts_down(rng, data):
    left = 5
    while left > 0:
        if rng.random() < 0.5:
            left -= 1
        else:
            return left
    return "none"


def walks_between_states(rng, data):
    state = "s"
    while True:
        face = rng.integers(3)
        if state == "s" and face == 0:
            state = "t"
        elif state == "t" and face == 0:
            return "tt"
        elif face == 1:
            state = "s"
        else:
            return state


def retries_within_a_count(rng, data):
    """Both loops begin with no draw in between; the inner one does not count."""
    count = 0
    while True:
        count += 1
        while True:
            face = rng.integers(4)
            if face < 3:
                break
        if face == 0:
            return count


def counts_within_a_retry(rng, data):
    while True:
        count = 0
        while rng.random() < 0.5:
            count += 1
        if count != 1:
            return count


def fails_within_a_loop(rng, data):
    try:
        while True:
            face = rng.integers(4)
            if face == 0:
                raise ValueError
            if face == 1:
                return "one"
    except BaseException:
        return "zero"


def fills_an_array(rng, data):
    seen = np.zeros(2)
    while True:
        seen[rng.integers(2)] += 1
        if seen[0] > 2:
            return "zeros"
        if seen[1] > 1:
            return "ones"


def counts_up_to_two(rng, data):
    box = {"n": 0}
    while True:
        box = {"n": box["n"] + 1} if box["n"] < 2 else box
        if rng.random() < 0.2:
            return str(box["n"])


def rejects_by_a_walk(rng, data):
    """Comes back to an outer loop from an inner one, and to the inner one."""
    while True:
        while True:
            face = rng.integers(6)
            if face == 0:
                break
            if face < 3:
                return f"inner {face}"
        if rng.random() < 0.5:
            return "outer"


@pytest.mark.parametrize(
    "mechanism",
    [
        switches,
        counts_and_compares,
        asks_an_iterator,
        breaks_or_returns,
        loops_for_each,
        counts_down,
        walks_between_states,
        retries_within_a_count,
        counts_within_a_retry,
        fails_within_a_loop,
        fills_an_array,
        counts_up_to_two,
        rejects_by_a_walk,
    ],
)
def test_the_law_is_that_of_plain_runs(mechanism):
    rng = np.random.default_rng(11)
    counted = Counter(mechanism(rng, [0]) for _ in range(RUNS))
    law = exact.law(mechanism, [0])
    assert law.total == pytest.approx(1, abs=1e-12)
    for output, count in counted.items():
        p = law.probability(output) or law.density(output)
        assert abs(count / RUNS - p) < MOST_ERRORS * math.sqrt(p * (1 - p) / RUNS)


def counts_two_things(rng, data):
    up = down = 0
    while True:
        face = rng.integers(3)
        if face == 2:
            return up - down
        up, down = (up + 1, down) if face else (up, down + 1)


def counts_unevenly(rng, data):
    count = 0
    while rng.random() < 0.5:
        count += 2 if rng.random() < 0.1 else 1
    return count


def counts_anew(rng, data):
    count = 0
    while True:
        face = rng.integers(3)
        if face == 2:
            return count
        count = count + 1 if face else 0


@pytest.mark.parametrize("mechanism", [counts_two_things, counts_unevenly, counts_anew])
def test_counters_of_another_kind_are_refused(mechanism, monkeypatch):
    monkeypatch.setattr(run, "MAX_FORKS", 30)
    with pytest.raises(TooManyPaths):
        exact.law(mechanism, [0])
