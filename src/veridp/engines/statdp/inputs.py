"""Pairs of inputs with arguments to go with them: the input generator (Algorithm 4), and the seeds of each part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from veridp.adjacency import Pair
from veridp.engines.statdp.arguments import search_arguments
from veridp.engines.statdp.candidates import NoiseFreeOutput
from veridp.engines.statdp.noiseless import noise_free
from veridp.errors import BadInput, MechanismFailed, NotExplorable
from veridp.mechanism import Mechanism
from veridp.tidy import tidied

# --------------------------------------------------------------------------------------------------------------- seeds
# Seeds for the parts of a detection: each its own, all from one.


@dataclass(frozen=True)
class Seeds:
    """A family of independent seeds.

    >>> Seeds(0).of(1) != Seeds(0).of(2)
    True
    """

    seed: int
    path: tuple[int, ...] = ()

    def under(self, *path: int) -> Seeds:
        """The family of seeds at this place within the family."""
        return Seeds(self.seed, (*self.path, *path))

    def of(self, *path: int) -> int:
        """The seed at this place within the family."""
        sequence = np.random.SeedSequence(self.seed, spawn_key=(*self.path, *path))
        return int(sequence.generate_state(1, np.uint64)[0])


# -------------------------------------------------------------------------------------------------------------- inputs
# Pairs of inputs with arguments to go with them: the input generator (Algorithm 4).


SIZES = (5, 10)  # the lengths of the paper's patterns


@dataclass(frozen=True, eq=False)
class InputTrial:
    """Two neighbours to run a mechanism on, the mechanism with its arguments, and its outputs without noise."""

    mechanism: Mechanism
    left: Any
    right: Any
    pattern: str
    arguments: Mapping[str, Any] = field(default_factory=dict)  # those that a search found
    notes: tuple[str, ...] = ()
    references: tuple[NoiseFreeOutput, ...] = ()

    @property
    def size(self) -> int:
        """The length of the inputs; 1 where they have none."""
        return max(_length(self.left), _length(self.right))


def _length(data: Any) -> int:
    try:
        return len(data)
    except TypeError:
        return 1


def given_pairs(mechanism: Mechanism, pairs: Sequence[Any]) -> list[Pair]:
    """The pairs that the caller gave; BadInput where two are no neighbours."""
    found = []
    for number, pair in enumerate(pairs, start=1):
        if not isinstance(pair, Pair):
            try:
                left, right = pair
            except (TypeError, ValueError):
                raise BadInput(f"pairs: {pair!r} is not a pair; give (left, right)") from None
            pair = Pair(left, right, f"pair {number}")
        if not mechanism.adjacency.adjacent(pair.left, pair.right):
            raise BadInput(
                f"pairs: {pair.left!r} and {pair.right!r} are not neighbours under {mechanism.adjacency}; "
                f"give two that are, or the mechanism another adjacency"
            )
        found.append(pair)
    if not found:
        raise BadInput("pairs is empty; give at least one, or leave it out")
    return found


def usual_pairs(mechanism: Mechanism, size: int | None) -> list[Pair]:
    """The patterns that the mechanism's adjacency allows, each in one direction, since a test looks in both.

    Of the size given; else at lengths 5 and 10, unless the mechanism says that its usual length is another.
    """
    sizes = (size,) if size is not None else SIZES if mechanism.size in SIZES else (mechanism.size,)
    found: dict[frozenset[str], Pair] = {}
    for length in sizes:
        for made in mechanism.adjacency.pairs(length, mechanism.domain):
            pair = tidied(made, mechanism.adjacency, mechanism.domain)
            found.setdefault(frozenset((repr(pair.left), repr(pair.right))), pair)
    if not found:
        raise BadInput(f"{mechanism.name}: no neighbours of size {sizes[0]} to try; give pairs=[(left, right), …]")
    return list(found.values())


class Trials:
    """The trials of pairs, each with the arguments that a search finds for it once it is asked for."""

    def __init__(self, mechanism: Mechanism, pairs: Sequence[Pair]) -> None:
        self.mechanism, self.pairs = mechanism, pairs
        self._known: dict[int, InputTrial] = {}

    def some(self, count: int) -> Iterator[InputTrial]:
        """So many of them, evenly spread."""
        count = min(count, len(self.pairs))
        for number in range(count):
            yield self._trial(number * len(self.pairs) // count)

    def _trial(self, place: int) -> InputTrial:
        if place not in self._known:
            pair = self.pairs[place]
            found = search_arguments(self.mechanism, pair.left, pair.right)
            references, lost = _references(found.mechanism, pair)
            self._known[place] = InputTrial(
                found.mechanism, pair.left, pair.right, pair.pattern, found.arguments, found.notes + lost, references
            )
        return self._known[place]


def _references(mechanism: Mechanism, pair: Pair) -> tuple[tuple[NoiseFreeOutput, ...], tuple[str, ...]]:
    """The noise-free outputs on either side, and a note where there are none."""
    try:
        outputs = [(noise_free(mechanism, data), str(data)) for data in (pair.left, pair.right)]
        return tuple(NoiseFreeOutput(output, data) for output, data in outputs), ()
    except (NotExplorable, MechanismFailed) as error:
        return (), (f"no distance from a noise-free output: {error}",)
