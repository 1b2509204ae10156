"""Round numbers for people to read: 0 in place of 7.99e-12, 0.3 in place of 0.30000000000000004."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from veridp.adjacency import Adjacency, Domain, Pair

DECIMALS, DIGITS = 9, 10
MOVED = 1e-6  # by how much rounding may change the difference of two entries, relative to that difference


def tidied(pair: Pair, adjacency: Adjacency, domain: Domain) -> Pair:
    """The pair with rounded numbers; unchanged where rounded ones would not be neighbours, or leave the domain.

    What was computed or counted for a pair does not hold for the tidied one: tidy first.
    """
    found = Pair(_rounded(pair.left), _rounded(pair.right), pair.pattern)
    keep = (
        all(_within(domain, side) for side in (found.left, found.right))
        and adjacency.adjacent(found.left, found.right)
        and _moves_alike(found, pair)
    )
    return found if keep else pair


def tidied_number(value: float) -> float:
    """The number with ten digits, none of them past the ninth decimal; unchanged where that is another number.

    >>> tidied_number(7.99e-12), tidied_number(0.30000000000000004), tidied_number(1 / 3)
    (0.0, 0.3, 0.3333333333333333)
    """
    if not math.isfinite(value):
        return value
    found = float(f"{round(value, DECIMALS):.{DIGITS}g}") + 0.0  # no -0.0
    short = len(f"{found:.{DIGITS}g}".lstrip("-0.").replace(".", "")) < DIGITS - 2
    return found if short and abs(found - value) <= 10.0**-DECIMALS * max(1.0, abs(value)) else value


def _rounded(data: Any) -> Any:
    if isinstance(data, list):
        return [_rounded(entry) for entry in data]
    return tidied_number(data) if isinstance(data, float) else data


def _numbers(data: Any) -> Iterator[float]:
    for entry in data if isinstance(data, list) else [data]:
        if isinstance(entry, float):
            yield entry


def _within(domain: Domain, data: Any) -> bool:
    """Whether all numbers of the data are in the domain."""
    if isinstance(domain, tuple) and len(domain) == 2:
        low, high = domain
        return all(low <= value <= high for value in _numbers(data))
    return all(value in domain for value in _numbers(data))


def _moves_alike(found: Pair, pair: Pair) -> bool:
    """Whether entries differ between the two inputs as before: where noise is tiny, no difference is mere rounding."""
    before, after = (list(zip(_numbers(each.left), _numbers(each.right), strict=False)) for each in (pair, found))
    return all(
        abs((right - left) - (old_right - old_left)) <= MOVED * abs(old_right - old_left)
        for (left, right), (old_left, old_right) in zip(after, before, strict=True)
    )
