"""Where a part of an output stands in it, as Python would reach it: `output['n'][2]`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from veridp.kernel.identity import DictItems

Place = tuple[int, ...]  # the branch to take at each level of a tree


def leaf_names(tree: Any) -> tuple[str, ...]:
    """The names of the leaves of a tree, from left to right.

    >>> leaf_names(DictItems((("m", (1, 2.0)), ("n", 3.0))))[1:]
    ("output['m'][0]", "output['m'][1]", "key 'n'", "output['n']")
    """
    return tuple(name for _, name, branch in parts(tree) if not isinstance(branch, tuple))


def parts(tree: Any, place: Place = (), name: str = "output") -> Iterator[tuple[Place, str, Any]]:
    """Every part of a tree from left to right, itself first: its place, its name, and the part."""
    yield place, name, tree
    if not isinstance(tree, tuple):
        return
    for number, branch in enumerate(tree):
        here = (*place, number)
        if isinstance(tree, DictItems):
            key, value = branch
            yield here, name, branch
            yield (*here, 0), f"key {key!r}", key
            yield from parts(value, (*here, 1), f"{name}[{key!r}]")
        else:
            yield from parts(branch, here, f"{name}[{number}]")
