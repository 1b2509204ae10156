"""What is committed to: blocks of small numbers, of which a fixed count of each is opened.

Every protocol of harmless opening has this one form. A client commits to `blocks` vectors of `length` entries, each
a number below `values`. In each block one entry is selected; the client opens `floors[v]` entries of every value v, the
selected one among them, and the verifier accepts exactly that. What stays closed is free: an accepted vector is any
that has at least `floors[v]` entries of each value.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from veridp.errors import BadInput

LARGEST = 1 << 20  # entries of a vector
MOST_VALUES = 1 << 16

Counts = tuple[int, ...]  # of each value, how many entries


@dataclass(frozen=True)
class Layout:
    """The form of a vector: how many blocks, how long each, and how many entries of each value are opened."""

    blocks: int
    length: int
    floors: Counts

    def __post_init__(self) -> None:
        if self.blocks < 1 or len(self.floors) < 2 or min(self.floors) < 1 or sum(self.floors) > self.length:
            raise BadInput(f"{self} cannot be opened harmlessly; every value needs a copy that can be opened")
        if self.size > LARGEST or self.values > MOST_VALUES:
            raise BadInput(
                f"{self.size} entries of {self.values} values are more than a client can commit to; "
                "use a coarser domain, a smaller epsilon, or the mechanism volh"
            )

    @property
    def values(self) -> int:
        return len(self.floors)

    @property
    def size(self) -> int:
        return self.blocks * self.length

    @cached_property
    def free(self) -> int:
        """The entries of a block that stay closed."""
        return self.length - sum(self.floors)

    @property
    def closed(self) -> int:
        """The entries of the vector that stay closed."""
        return self.blocks * self.free

    @property
    def width(self) -> int:
        """The bytes of a value in a message."""
        return 1 if self.values <= 256 else 2

    def opened(self, closed: Sequence[int]) -> list[int]:
        """The entries of the vector that are not among the closed ones, in order."""
        kept = set(closed)
        return [i for i in range(self.size) if i not in kept]

    def draw_vector(self, counts: Sequence[Counts], rng: random.Random) -> list[int]:
        """A vector with these counts in its blocks, each block in an order that is uniform if rng is."""
        vector: list[int] = []
        for block in counts:
            entries = [value for value, count in enumerate(block) for _ in range(count)]
            rng.shuffle(entries)
            vector += entries
        return vector

    def draw_closed(self, vector: Sequence[int], selected: Sequence[int], rng: random.Random) -> list[int]:
        """The entries to keep closed, in order: a uniform choice among those that leave the floors open.

        `selected` has an index within each block.
        """
        closed: list[int] = []
        for block, chosen in enumerate(selected):
            start = block * self.length
            places: list[list[int]] = [[] for _ in self.floors]
            for i in range(start, start + self.length):
                if i != start + chosen:
                    places[vector[i]].append(i)
            for value, floor in enumerate(self.floors):
                spare = len(places[value]) - floor + (vector[start + chosen] == value)
                if spare:
                    closed += rng.sample(places[value], spare)
        return sorted(closed)

    def openings(self, block: Sequence[int], selected: int) -> Iterator[tuple[int, ...]]:
        """Every set of indices of one block that an honest client may open; it picks each with the same probability."""
        choices = []
        for value, floor in enumerate(self.floors):
            places = [i for i, entry in enumerate(block) if entry == value and i != selected]
            choices.append(itertools.combinations(places, floor - (block[selected] == value)))
        for parts in itertools.product(*choices):
            yield tuple(sorted((selected, *itertools.chain(*parts))))
