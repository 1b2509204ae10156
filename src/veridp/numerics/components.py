"""Connected components: sets in groups that share no element."""

from __future__ import annotations

from collections.abc import Hashable, Iterable


def components(sets: Iterable[Iterable[Hashable]]) -> list[list[int]]:
    """The places of the sets in groups: two are in one just if a chain of sets links them, each meeting the next.

    Groups are in the order of their first sets, as are the sets in each; an empty set is a group of its own.

    >>> components([{1, 2}, {3}, {4, 2}, {}])
    [[0, 2], [1], [3]]
    """
    parent: list[int] = []  # of a set: one before it in its group, or itself

    def root(place: int) -> int:
        while parent[place] != place:
            parent[place] = place = parent[parent[place]]
        return place

    first: dict[Hashable, int] = {}  # the first set that has the element
    for place, elements in enumerate(sets):
        parent.append(place)
        for element in elements:
            if (before := first.setdefault(element, place)) != place:
                here, there = root(place), root(before)
                parent[max(here, there)] = min(here, there)
    groups: dict[int, list[int]] = {}
    for place in range(len(parent)):
        groups.setdefault(root(place), []).append(place)
    return list(groups.values())
