"""Branches that only choose an entry of the output: one path, where nothing can tell them apart before the end."""

from __future__ import annotations

from typing import Any

import pytest

from veridp.kernel.explore import walk
from veridp.kernel.expressions import Condition, Select
from veridp.kernel.path import Path, leaves
from veridp.kernel.replay import Listing
from veridp.mechanism import as_mechanism

DATA = [0.0, 1.0, 2.0]


def chosen(rng, data):
    out: list[Any] = []
    for value in data:
        if value + rng.laplace() >= 1:
            out.append("yes")
        else:
            out.append("no")
    return out


def reversed_truth(rng, data):
    out = []
    for value in data:
        if value + rng.laplace() < 1:
            out.append(False)
        else:
            out.append(True)
    return out


def listed(function: Any) -> list[Path]:
    """Its paths, after plain runs on either side of what they leave open."""
    listing = Listing(as_mechanism(function), DATA, defer=True, choosing=True)
    paths = list(listing.watch(walk(as_mechanism(function), DATA, defer=True, choosing=True)))
    assert listing.replay().runs > len(DATA)
    return paths


@pytest.mark.parametrize(("function", "values"), [(chosen, ("yes", "no")), (reversed_truth, (False, True))])
def test_one_path_holds_all_choices(function: Any, values: tuple[Any, Any]) -> None:
    (path,) = listed(function)
    assert [(leaf.then, leaf.other) for leaf in path.output] == [values] * 3
    assert all(isinstance(leaf, Select) and isinstance(leaf.condition, Condition) for leaf in path.output)


def counted(rng, data):
    """The list is read."""
    out = []
    for value in data:
        if value + rng.laplace() >= 1:
            out.append(True)
        else:
            out.append(False)
        if len(out) == 2 and out[0]:
            return out
    return out


def two_lists(rng, data):
    out, other = [], []
    for value in data:
        if value + rng.laplace() >= 1:
            out.append(1)
        else:
            other.append(1)
    return out


def aliased(rng, data):
    out = []
    same = out
    for value in data:
        if value + rng.laplace() >= 1:
            out.append(1)
        else:
            out.append(0)
    return sum(same)


def also_counts(rng, data):
    out, hits = [], 0
    for value in data:
        if value + rng.laplace() >= 1:
            out.append(1)
            hits += 1
        else:
            out.append(0)
        if hits == 2:
            break
    return out


def answers_of(rng, data):
    out = []
    for value in data:
        if value + rng.laplace() >= 1:
            out.append(1)
        else:
            out.append(0)
    return out


def looked_at(rng, data):
    """What a helper returns is looked at."""
    return sum(answers_of(rng, data))


def both_asked(rng, data):
    out = []
    for value in data:
        noisy = value + rng.laplace()
        if noisy >= 1 and noisy <= 2:
            out.append(1)
        else:
            out.append(0)
    return out


@pytest.mark.parametrize("function", [counted, two_lists, aliased, also_counts, looked_at, both_asked])
def test_what_could_tell_them_apart_is_forked(function: Any) -> None:
    paths = listed(function)
    assert len(paths) > 4
    assert not any(isinstance(leaf, Condition | Select) for path in paths for leaf in leaves(path.output))
