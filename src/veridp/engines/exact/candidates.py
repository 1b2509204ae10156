"""Pairs of neighbours that are worth trying, from the neighbour relation and the domain alone."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from veridp.adjacency import Adjacency, Pair, moved_within


def pairs_beside_zeros(adjacency: Adjacency, size: int, domain: tuple[float, float]) -> Iterator[Pair]:
    """Records that differ, at the ends of an interval around 0, where all others are 0.

    In a sum over a random sample, the others then hide nothing. With an end at 0, patterns have these pairs.
    """
    low, high = domain
    patches = adjacency.patches(size, domain) if low < 0 < high else None
    if not patches:
        return
    patch = patches[-1]
    differing = np.flatnonzero(patch.to_left.any(axis=0) != patch.to_right.any(axis=0))
    for ends in itertools.product((high, low), repeat=len(differing)):
        point = np.zeros(len(patch.low))
        point[differing] = ends
        pair = Pair(*patch.pair(point), "others at zero")
        if pair.left != pair.right:
            yield pair
            yield pair.reversed()


def corner_pairs(size: int, domain: Any) -> Iterator[Pair]:
    """Entries at the ends of the domain, in two runs, that move inwards or along in two runs, or one at a time."""
    low, high = map(float, domain)
    runs = [[True] * k + [False] * (size - k) for k in range(size + 1)]
    levels = list(dict.fromkeys(map(tuple, [*runs, *([not x for x in run] for run in runs)])))
    steps = [[1.0 if x else -1.0 for x in run] for run in levels]
    steps += [[float(place == k) for place in range(size)] for k in range(size)]
    inwards = [(at_top, [sign if top else -sign for top in at_top]) for at_top in levels for sign in (-1.0, 1.0)]
    for at_top, moves in itertools.chain(inwards, itertools.product(levels, steps)):  # the likeliest first
        yield moved_within(low, high, [high if top else low for top in at_top], moves, "corner")


def pairs_that_move(moves: Sequence[Sequence[float]], size: int, domain: Any) -> Iterator[Pair]:
    """Pairs that move so, from either end of the domain inwards, outwards to it, and from runs of both ends."""
    low, high = map(float, domain)
    for move in moves:
        rising = [step > 0 for step in move]
        levels = [[not up for up in rising], rising, [True] * size, [False] * size]
        levels += [[True] * k + [False] * (size - k) for k in range(1, size)]
        for at_top in levels:
            yield moved_within(low, high, [high if top else low for top in at_top], move, "given move")


def moves_from(left: Sequence[float], right: Sequence[float], domain: Any) -> Iterator[Pair]:
    """The pair with one entry put elsewhere, or moved otherwise."""
    low, high = map(float, domain)
    for place, (a, b) in enumerate(zip(left, right, strict=True)):
        for level in dict.fromkeys((a, low, high, 0.0, (a + low) / 2, (a + high) / 2, a - 1, a + 1)):
            for move in dict.fromkeys((b - a, 1.0, -1.0, 0.0)):
                one: Any = moved_within(low, high, [level], [move], "move")
                yield Pair(
                    [*left[:place], *one.left, *left[place + 1 :]],
                    [*right[:place], *one.right, *right[place + 1 :]],
                    "move",
                )
