"""Counting: the same runs as sampling, not kept."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from veridp.errors import BadInput
from veridp.sampling.blocks import LARGE_BLOCK
from veridp.sampling.sample import sample, tally


def svt(rng, queries):
    threshold = rng.laplace(scale=2.0)
    answers = []
    for query in queries:
        answers.append(query + rng.laplace(scale=4.0) >= threshold)
        if answers[-1]:
            break
    return answers


def noisy(rng, data):
    return data + rng.laplace()


@pytest.mark.parametrize("reading", ["batch", "compiled", "one-by-one"])
def test_counts_are_those_of_the_sample(reading: str) -> None:
    count = 5000 if reading == "one-by-one" else LARGE_BLOCK + 1000
    counted = tally(svt, [0.0, 1.0, 2.0], count, seed=9, reading=reading)
    assert counted.counts == sample(svt, [0.0, 1.0, 2.0], count, seed=9, reading=reading).distinct()
    assert counted.total == count
    assert counted.reading == reading
    assert counted[(True,)] == counted.counts[(True,)]
    assert counted[("never",)] == 0
    assert counted.frequency((True,)) == counted[(True,)] / count


def test_events_are_counted_by_name_or_by_place() -> None:
    events = {"positive": lambda outputs: outputs.matrix()[:, 0] > 0, "large": lambda o: o.matrix()[:, 0] > 5}
    values = sample(noisy, 1.0, 2 * LARGE_BLOCK, seed=2).matrix()[:, 0]
    expected = [int(np.count_nonzero(values > 0)), int(np.count_nonzero(values > 5))]
    counted = tally(noisy, 1.0, 2 * LARGE_BLOCK, seed=2, events=events)
    assert counted.counts == dict(zip(events, expected, strict=True))
    assert tally(noisy, 1.0, 2 * LARGE_BLOCK, seed=2, events=list(events.values()), workers=2).counts == {
        0: expected[0],
        1: expected[1],
    }


def test_outputs_that_other_processes_counted_are_the_same_outputs() -> None:
    """A text has another hash in each process."""
    alone, shared = (tally(svt, [0.0, 1.0], 2 * LARGE_BLOCK + 1, seed=3, workers=workers).counts for workers in (1, 2))
    assert alone == shared
    assert sum(shared.values()) == 2 * LARGE_BLOCK + 1


def test_counting_needs_discrete_outputs_or_events() -> None:
    with pytest.raises(BadInput, match=r"more than 100000 different outputs.*count events instead"):
        tally(noisy, 1.0, 300_000)
    assert len(tally(noisy, 1.0, 1000).counts) == 1000


def test_bad_events_are_reported() -> None:
    with pytest.raises(BadInput, match="event 'odd' is 3"):
        tally(noisy, 1.0, 10, events={"odd": 3})  # type: ignore[dict-item]
    with pytest.raises(BadInput, match=r"event 0 gave float64 of shape \(10,\) for 10 outputs"):
        tally(noisy, 1.0, 10, events=[lambda outputs: outputs.matrix()[:, 0]])
    with pytest.raises(BadInput, match=r"event 'one' gave bool of shape \(\)"):
        tally(noisy, 1.0, 10, events={"one": lambda outputs: True})
    with pytest.raises(BadInput, match="event 0 raised IndexError"):
        tally(noisy, 1.0, 10, events=[lambda outputs: outputs.matrix()[:, 7] > 0])


MEMORY = """
from veridp.sampling.sample import tally

def peak():  # getrusage would tell of the process that started this one
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024

def noisy(rng, data):
    return data + rng.laplace()

def count(number):
    tally(noisy, 1.0, number, events=[lambda outputs: outputs.matrix()[:, 0] > 0], workers=1)
    return peak()

print(count(2 * 10**6), count(2 * 10**7))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak memory from Linux")
def test_memory_does_not_grow_with_the_count() -> None:
    """Kept, the 2e7 numbers would take 160 MB."""
    answer = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True)  # noqa: S603
    before, after = map(float, answer.stdout.split())
    assert after < 1024
    assert after - before < 30
