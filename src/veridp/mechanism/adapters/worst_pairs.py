"""The neighbours that a library's own privacy map calls worst, which every engine tries first."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from veridp.adjacency import Domain, Pair, is_interval
from veridp.mechanism.declared import Mechanism

MAX_PRICED = 64  # pairs of the adjacency that the map is asked about
MAX_WORST = 8
PRICE_ROUNDING = 1e-9  # relative, by which a price that was computed in floats may fall short of the largest
Loss = Callable[[Any, Any], float]


def worst_pairs(mechanism: Mechanism, loss: Loss) -> list[Pair]:
    """The neighbours for which the map states the largest loss, those that differ most first.

    Candidates are the pairs of the adjacency, and the same moves at the ends of the domain. A map is an upper bound,
    so nothing is claimed of these pairs, except that the library expects none to be worse.
    """
    relation, size, domain = mechanism.adjacency, mechanism.size, mechanism.domain
    listed = list(itertools.islice(relation.pairs(size, domain), MAX_PRICED))
    moved = [pair for one in listed for pair in _at_ends(one, domain)] if relation.vertices(1) is not None else []
    priced: dict[frozenset[str], tuple[float, Pair]] = {}
    for pair in (*listed, *moved):
        if relation.adjacent(pair.left, pair.right):
            sides = frozenset((repr(pair.left), repr(pair.right)))
            priced.setdefault(sides, (_price(loss, pair), pair))
    most = max((price for price, _ in priced.values()), default=0.0)
    found = [pair for price, pair in priced.values() if 0 < most * (1 - PRICE_ROUNDING) <= price]
    spread = _difference_of_sums if relation.on_records else _spread_of_moves
    return sorted(found, key=spread, reverse=True)[:MAX_WORST]


def extreme_pairs(mechanism: Mechanism) -> list[Pair]:
    """The same for a library that is made for these neighbours and has no map of distances: all cost the claim."""
    return worst_pairs(mechanism, lambda left, right: 1.0)


def farthest_pairs(mechanism: Mechanism) -> list[Pair]:
    """The same for a library whose noise is made for a sensitivity: its loss grows with the largest difference."""
    return worst_pairs(mechanism, largest_difference)


def _price(loss: Loss, pair: Pair) -> float:
    try:
        return float(loss(pair.left, pair.right))
    except Exception:  # of the library's own, or BadInput: the map says nothing of these two
        return 0.0


def _at_ends(pair: Pair, domain: Domain) -> Iterator[Pair]:
    """The pair moved to the lower, and to the upper end of the domain, where that leaves both inputs inside."""
    numbers: list[Any] = list(domain)
    low, high, moves = min(numbers), max(numbers), _moves(pair)
    if not moves:
        return
    for end, left in (
        ("lower", [low - min(move, 0) for move in moves]),
        ("upper", [high - max(move, 0) for move in moves]),
    ):
        right = [value + move for value, move in zip(left, moves, strict=True)]
        if all(low <= value <= high if is_interval(domain) else value in domain for value in (*left, *right)):
            yield Pair(left, right, f"{pair.pattern}, at the {end} end")


def _moves(pair: Pair) -> list[Any]:
    """By how much each entry moves; none where the inputs are not lists of numbers."""
    try:
        return [theirs - mine for mine, theirs in zip(pair.left, pair.right, strict=True)]  # type: ignore[call-overload]
    except (TypeError, ValueError):
        return []


def _spread_of_moves(pair: Pair) -> float:
    """How differently the entries of a vector move; 0 where they are no numbers."""
    moves = _moves(pair)
    return float(max(moves) - min(moves)) if moves else 0.0


def _difference_of_sums(pair: Pair) -> float:
    """How far the sums of all numbers in the two data sets are apart; 0 where one is not finite."""
    sums = [math.fsum(_numbers_in(side)) for side in (pair.left, pair.right)]
    return abs(sums[0] - sums[1]) if all(map(math.isfinite, sums)) else 0.0


def _numbers_in(records: Any) -> Iterator[float]:
    for record in records:
        for entry in record if isinstance(record, list | tuple | np.ndarray) else (record,):
            if isinstance(entry, int | float | np.number):
                yield float(entry)


# ------------------------------------------------------------------------------------------------- distances of inputs


def largest_difference(mine: Any, theirs: Any) -> float:
    """The largest difference of two numbers or lists of numbers; 1 or 0 for other values."""
    try:
        left, right = np.asarray(mine, dtype=float), np.asarray(theirs, dtype=float)
    except (TypeError, ValueError):
        return float(repr(mine) != repr(theirs))
    if left.shape != right.shape:
        return math.inf
    with np.errstate(invalid="ignore"):
        gaps = np.where((left == right) | (np.isnan(left) & np.isnan(right)), 0.0, np.abs(left - right))
    return math.inf if np.isnan(gaps).any() else float(gaps.max(initial=0.0))


def opendp_distance(metric: str, mine: Any, theirs: Any) -> float:
    """The distance of two arguments of a measurement in its input metric; inf where that is not known."""
    name = metric.partition(",")[0]
    if name == "DiscreteDistance":
        return float(repr(mine) != repr(theirs))
    if name in ("AbsoluteDistance", "LInfDistance"):
        return largest_difference(mine, theirs)
    if name in ("SymmetricDistance", "InsertDeleteDistance"):
        before, after = Counter(map(repr, mine)), Counter(map(repr, theirs))
        return float(((before - after) + (after - before)).total())
    if len(np.atleast_1d(mine)) != len(np.atleast_1d(theirs)):
        return math.inf
    if name in ("L1Distance", "L2Distance"):
        order = 1 if name == "L1Distance" else 2
        return float(np.linalg.norm(np.subtract(mine, theirs).astype(float).ravel(), order))
    if name in ("ChangeOneDistance", "HammingDistance"):
        return float(sum(repr(one) != repr(other) for one, other in zip(mine, theirs, strict=True)))
    return math.inf
