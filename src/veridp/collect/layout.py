"""What is committed to, what every hash is bound to, and which entries a challenge selects."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b

from veridp.collect.reasons import Reason, Refused
from veridp.errors import BadInput

# ------------------------------------------------------------------------------------------------------------- context
# What every hash is bound to: what it is for, the task and the session.


TASK_BYTES = 32
SESSION_BYTES = 16
NONCE_BYTES = 32
DIGEST_BYTES = 32


@dataclass(frozen=True)
class Context:
    """A session of a task: the digest of the task's definition, and the number that the server gave the session."""

    task: bytes
    session: bytes

    def digest(self, purpose: bytes, *parts: bytes) -> bytes:
        """The BLAKE2b digest of the parts for this purpose, task and session; no two lists of parts give one input."""
        return digest(purpose, self.task, self.session, *parts)


def digest(purpose: bytes, *parts: bytes) -> bytes:
    """The BLAKE2b digest of the parts, each with its length before it, for a purpose of at most 16 bytes."""
    state = blake2b(digest_size=DIGEST_BYTES, person=purpose)
    for part in parts:
        state.update(len(part).to_bytes(8, "big"))
        state.update(part)
    return state.digest()


# -------------------------------------------------------------------------------------------------------------- layout
# What is committed to: blocks of small numbers, of which a fixed count of each is opened.
#
# Every protocol of harmless opening has this one form. A client commits to `blocks` vectors of `length` entries, each
# a number below `values`. In each block one entry is selected; the client opens `floors[v]` entries of every value v,
# the
# selected one among them, and the verifier accepts exactly that. What stays closed is free: an accepted vector is any
# that has at least `floors[v]` entries of each value.


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


# ----------------------------------------------------------------------------------------------------------- challenge
# Which entries are selected: by a nonce that the server fixed before it saw the commitments.


WORD = 1 << 64


def promise(context: Context, nonce: bytes) -> bytes:
    """The digest that the server sends before the commitments; it binds the server to the nonce."""
    return context.digest(b"veridp promise", nonce)


def check_promise(context: Context, nonce: bytes, promised: bytes) -> None:
    """Refuse a nonce other than the promised one."""
    if promise(context, nonce) != promised:
        raise Refused(Reason.BROKEN_PROMISE, "the nonce is not the one that the server promised; do not open")


def selected(context: Context, nonce: bytes, commitment: bytes, layout: Layout) -> tuple[int, ...]:
    """The index selected in each block: uniform and out of the reach of either side.

    The server is bound to the nonce when it sees the commitment, and the client to the commitment when it sees the
    nonce. Anybody who has both can compute it again.
    """
    seed = digest(b"veridp select", context.task, context.session, nonce, commitment)
    limit = WORD - WORD % layout.length  # words from here on would favour low indices
    chosen: list[int] = []
    counter = 0
    while len(chosen) < layout.blocks:
        words = blake2b(seed + counter.to_bytes(8, "big"), digest_size=64).digest()
        for start in range(0, 64, 8):
            word = int.from_bytes(words[start : start + 8], "big")
            if word < limit:
                chosen.append(word % layout.length)
        counter += 1
    return tuple(chosen[: layout.blocks])
