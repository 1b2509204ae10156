"""The view of a verifier, given the report, does not depend on the input: exactly, and not so for leaky openings."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

import pytest

from veridp.collect import GRRHO, PMHO, SRHO, VGRR, VOLH, VOUE, Rates, Task
from veridp.collect.estimate import arrangements, leak
from veridp.collect.harmless import Harmless, Layout
from veridp.errors import BadInput

HARMLESS: list[Harmless] = [
    VGRR(Rates(2, 1), ("a", "b")),
    VGRR(Rates(2, 1), ("a", "b", "c")),
    VGRR(Rates(3, 1), ("a", "b", "c")),
    VGRR(Rates(4, 2), ("a", "b")),
    VOUE(Rates(2, 1), ("a", "b", "c")),
    VOUE(Rates(3, 1), ("a", "b")),
    VOLH(Rates(2, 1), tuple("abcdefgh")),
    GRRHO(Rates(2, 1), 0.0, 1.0, 4),
    SRHO(Rates(2, 1), 0.0, 1.0, 1),
    SRHO(Rates(2, 1), 0.0, 1.0, 2),
    SRHO(Rates(3, 1), 0.0, 1.0, 2),
    PMHO(Rates(2, 1), 0.0, 1.0, 4),
]


@pytest.mark.parametrize("protocol", HARMLESS, ids=lambda p: f"{p.name}-{p.layout.length}")
def test_nothing_leaks(protocol: Harmless) -> None:
    assert leak(protocol).distance == 0
    assert leak(protocol).none


def open_as_many_of_each(block: Sequence[int], selected: int) -> Iterator[tuple[int, ...]]:
    """Stochastic rounding that opens as many of both signs as the rarer one has: tells how far from 0 the input is."""
    each = min(block.count(0), block.count(1))
    places = [[i for i, v in enumerate(block) if v == value and i != selected] for value in (0, 1)]
    picks = [itertools.combinations(places[v], each - (block[selected] == v)) for v in (0, 1)]
    for left, right in itertools.product(*picks):
        yield tuple(sorted((selected, *left, *right)))


def test_a_number_of_openings_that_depends_on_the_input_leaks() -> None:
    found = leak(SRHO(Rates(2, 1), 0.0, 1.0, 2), open_as_many_of_each)
    assert found.distance == 1  # the number of openings is 2 or 3, by the input


def open_in_addition(block: Sequence[int], selected: int) -> Iterator[tuple[int, ...]]:
    """One of each value, and the selected entry besides where the client has more of its value."""
    layout = Layout(1, 4, (1, 1, 1))
    others = [[i for i, v in enumerate(block) if v == value and i != selected] for value in range(3)]
    if not others[block[selected]]:
        yield from layout.openings(block, selected)
        return
    for places in itertools.product(*others):
        yield tuple(sorted((selected, *places)))


def test_opening_the_selected_entry_in_addition_leaks() -> None:
    found = leak(VGRR(Rates(2, 1), ("a", "b", "c")), open_in_addition)
    assert found.distance == 1  # four entries are opened if and only if the report is the value held
    assert not found.none
    assert found.left != found.right


def test_an_opening_that_is_not_uniform_leaks() -> None:
    """A client that always opens the first copies tells which were left: those of its value."""

    def first_copies(block: Sequence[int], selected: int) -> Iterator[tuple[int, ...]]:
        opened = [selected]
        for value, floor in enumerate((1, 1, 1)):
            places = [i for i, v in enumerate(block) if v == value and i != selected]
            opened += places[: floor - (block[selected] == value)]
        yield tuple(sorted(opened))

    assert leak(VGRR(Rates(2, 1), ("a", "b", "c")), first_copies).distance > Fraction(1, 10)


def test_clients_draw_each_opening_with_the_same_probability() -> None:
    """χ² over all openings of a block, 12000 draws; fails by chance once in 10^6 seeds."""
    layout = Layout(1, 9, (2, 1, 2))
    block = [0, 0, 0, 0, 1, 2, 2, 1, 2]
    rng = random.Random(11)
    possible = list(layout.openings(block, 3))
    drawn: Counter[tuple[int, ...]] = Counter()
    for _ in range(12_000):
        closed = layout.draw_closed(block, (3,), rng)
        drawn[tuple(i for i in range(9) if i not in closed)] += 1
    assert set(drawn) == set(possible)
    expected = 12_000 / len(possible)
    statistic = sum((drawn[opened] - expected) ** 2 / expected for opened in possible)
    assert len(possible) == 18
    assert statistic < 63  # χ²(17), once in 10^6


def test_all_arrangements_are_enumerated() -> None:
    found = list(arrangements((2, 1, 2)))
    assert len(found) == len(set(found)) == math.factorial(5) // 4


def test_what_is_too_large_is_said(small_task: Callable[..., Task]) -> None:
    with pytest.raises(BadInput, match="too many"):
        leak(small_task("vgrr", items=tuple(map(str, range(20)))).protocol)
