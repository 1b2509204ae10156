"""What an adjacency is: the questions that engines ask of it, the registry of names, and relations of one's own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from veridp.adjacency.polytope import Hull, Patch, Polytope
from veridp.errors import BadInput

Domain = tuple[float, float] | Collection[object]
Phases = Mapping[str, Sequence[tuple[int, str]]]  # from a phase: by how much the query may move, and to which phase
TOLERANCE = 1e-9  # how far rounding may carry a difference past 1


@dataclass(frozen=True)
class Pair:
    """Two neighbouring inputs, and the name of the pattern that made them."""

    left: object
    right: object
    pattern: str

    def reversed(self) -> Pair:
        return Pair(self.right, self.left, f"{self.pattern}, reversed")


class Adjacency(ABC):
    """A symmetric relation on inputs, and all that engines ask of it. Subclass it for a relation of your own.

    The first three methods are needed by every engine. Each of the others has a default that says "not known": the
    engine that asks then does without, or says what it lacks.
    """

    name: str
    aliases: tuple[str, ...] = ()  # other names for the same relation
    single = False  # whether an input is one value of the domain, and not a list of values
    listable = False  # whether inputs are all lists of a size (or all single values) over a finite domain
    on_records = False  # whether an input is a data set, a collection of records
    extra = 0  # how many records more one of two neighbours may have
    any_order = False  # whether the records that neighbours share may stand in another order
    within_one_part = False  # whether neighbours differ in one part alone of any partition of the records
    lists_inputs = False  # whether it names all inputs itself, whatever the size and the domain

    @property
    def ordered_name(self) -> str:
        """The name of the relation in which shared records keep their order."""
        return self.name

    @abstractmethod
    def adjacent(self, left: object, right: object) -> bool:
        """Whether the two inputs are neighbours: the same for either order, and true of an input and itself."""

    @abstractmethod
    def example(self, size: int, domain: Domain) -> object:
        """An ordinary input of this size."""

    @abstractmethod
    def pairs(self, size: int, domain: Domain) -> Iterator[Pair]:
        """Neighbouring pairs worth trying, in both directions, all within the domain."""

    def vertices(self, size: int) -> NDArray[np.float64] | None:
        """The corners of the polytope(s) of right - left, a row each; None where the relation has no polytope."""
        return None

    def polytopes(self, size: int, domain: Domain) -> tuple[Polytope, ...] | None:
        """The polytopes of right - left in exact numbers: proofs leave the data open over them. None where none."""
        corners = self.vertices(size)
        return None if corners is None else (Hull.of(corners),)

    def segments(self, size: int, domain: Domain) -> tuple[Polytope, ...]:
        """The polytopes split further, where regions of the data can tell which part a difference is in."""
        return self.polytopes(size, domain) or ()

    def patches(self, size: int, domain: tuple[float, float]) -> list[Patch] | None:
        """Every way to be neighbours within the interval, with left and right affine in the same variables.

        One direction is enough where they differ in length, and the order that is kept where others are allowed.
        None where the relation has no such description.
        """
        return None

    def phases(self, period: int) -> list[Phases] | None:
        """How queries may move one after the other, for a loop of this period; one for each polytope.

        None where there is no induction over the queries.
        """
        return None

    def random_neighbour(self, data: Any, values: Sequence[Any], rng: np.random.Generator) -> Any:
        """An input drawn from these values that is likely to be a neighbour of this one."""
        return self._with_moves(data, values, range(len(data)), rng)

    def _with_moves(
        self, data: Any, values: Sequence[Any], places: Iterable[int], rng: np.random.Generator
    ) -> list[Any]:
        """The list with other values at these places, each a neighbour's if it is the only one that moves."""
        moved = list(data)
        for place in places:
            fits = [v for v in values if self.adjacent(data, [*data[:place], v, *data[place + 1 :]])]
            choices = fits or [data[place]]
            moved[place] = choices[int(rng.integers(len(choices)))]
        return moved

    def __str__(self) -> str:
        return self.name


# --------------------------------------------------------------------------------------------------------- the names

BY_NAME: dict[str, Adjacency] = {}
Kind = TypeVar("Kind", bound=type[Adjacency])


def register(kind: Kind) -> Kind:
    """Class decorator: the relation is known by its name to `adjacency=` and `--adjacency`."""
    if kind.name in BY_NAME:
        raise BadInput(f"adjacency {kind.name!r} is known already; give {kind.__name__} another name")
    BY_NAME[kind.name] = kind()
    return kind


def adjacency(relation: str | Adjacency) -> Adjacency:
    """The relation of this name, or the relation itself."""
    if isinstance(relation, Adjacency):
        return relation
    for known in BY_NAME.values():
        if relation == known.name or relation in known.aliases:
            return known
    raise BadInput(f"adjacency = {relation!r} is unknown; use one of {', '.join(BY_NAME)}, or an Adjacency object")


def is_registered(relation: Adjacency) -> bool:
    """Whether its name stands for this very relation, and not for another one of that name."""
    known = BY_NAME.get(relation.name)
    return known is relation or (type(known) is type(relation) and vars(known) == vars(relation))


# ------------------------------------------------------------------------------------------------ sizes and domains


def check_size(size: int) -> None:
    """BadInput where this is not the size of an input."""
    if not isinstance(size, int | np.integer) or size < 1:
        raise BadInput(f"size must be an integer >= 1, got {size!r}")


def is_interval(domain: Domain) -> bool:
    """Whether the domain is an interval, and not a list of values."""
    return isinstance(domain, tuple) and len(domain) == 2


def numbers_of(domain: Domain) -> list[float]:
    """The values of the domain, or its ends where it is an interval, all numbers."""
    if not len(domain) or not all(isinstance(value, int | float | np.number) for value in domain):
        raise BadInput(f"domain must be a pair of numbers such as (-10, 10), or a list of numbers, got {domain!r}")
    return list(domain)  # type: ignore[arg-type]


def interval_ends(domain: Domain) -> tuple[float, float]:
    """The ends of an interval, the lower one first."""
    low, high = numbers_of(domain)
    if not low < high:
        raise BadInput(f"domain = {domain!r} is empty; give a pair (low, high) with low < high")
    return float(low), float(high)


def extremes(domain: Domain) -> tuple[object, object]:
    """Two values of the domain as far apart as it has them."""
    if is_interval(domain):
        return interval_ends(domain)
    values = list(domain)
    if len(values) < 2:
        raise BadInput(f"domain must have at least two values, got {domain!r}")
    return values[0], values[-1]


# ----------------------------------------------------------------------------------------------------- one's own


@dataclass(frozen=True)
class OwnAdjacency(Adjacency):
    """A relation given by plain functions: `test(left, right)`, and `candidates(size)` that lists pairs.

    The relation is reflexive and symmetric whatever the test says: every input is its own neighbour, a test that holds
    in one direction counts for both, and each candidate (left, right) is tried in both. The domain is the candidates'
    own concern.
    """

    name: str
    test: Callable[[Any, Any], bool]
    candidates: Callable[[int], Collection[tuple[object, object]]]
    corners: Callable[[int], NDArray[np.float64]] | None = None

    def adjacent(self, left: object, right: object) -> bool:
        return _same(left, right) or bool(self.test(left, right) or self.test(right, left))

    def example(self, size: int, domain: Domain) -> object:
        for left, _ in self.candidates(size):
            return left
        raise BadInput(
            f"adjacency {self.name!r}: no candidates of size {size}; let its candidates list at least one pair"
        )

    def pairs(self, size: int, domain: Domain) -> Iterator[Pair]:
        for number, (left, right) in enumerate(self.candidates(size), start=1):
            if not self.adjacent(left, right):
                raise BadInput(
                    f"adjacency {self.name!r}: its candidate {number}, {left!r} and {right!r}, is not adjacent"
                )
            pair = Pair(left, right, f"{self.name} {number}")
            yield pair
            yield pair.reversed()

    def vertices(self, size: int) -> NDArray[np.float64] | None:
        return None if self.corners is None else self.corners(size)


class GivenPairs(Adjacency):
    """These pairs of inputs, in both directions: nobody else is a neighbour of anybody.

    Inputs may be objects of any type that a mechanism takes, such as data frames.

    >>> GivenPairs([("a", "b")]).adjacent("b", "a")
    True
    """

    name = "pairs"
    lists_inputs = True

    def __init__(self, pairs: Iterable[tuple[object, object]]) -> None:
        given = [pairs] if isinstance(pairs, str | bytes | Mapping) else list(pairs)
        for pair in given:
            if not isinstance(pair, tuple | list) or len(pair) != 2:
                raise BadInput(f"pairs: {pair!r} is not a pair; give a list of (left, right)")
        if not given:
            raise BadInput("pairs is empty; give at least one (left, right)")
        self.listed = tuple((left, right) for left, right in given)

    @cached_property
    def inputs(self) -> list[object]:
        """All inputs, each once."""
        found: list[object] = []
        for side in (side for pair in self.listed for side in pair):
            if not any(_same(side, other) for other in found):
                found.append(side)
        return found

    def adjacent(self, left: object, right: object) -> bool:
        ways = [pair for mine, theirs in self.listed for pair in ((mine, theirs), (theirs, mine))]
        return _same(left, right) or any(_same(left, mine) and _same(right, theirs) for mine, theirs in ways)

    def example(self, size: int, domain: Domain) -> object:
        return self.listed[0][0]

    def pairs(self, size: int, domain: Domain) -> Iterator[Pair]:
        for number, (left, right) in enumerate(self.listed, start=1):
            pair = Pair(left, right, f"pair {number}")
            yield pair
            yield pair.reversed()

    def __str__(self) -> str:
        return f"{len(self.listed)} given pair{'s' * (len(self.listed) != 1)}"


def _same(left: object, right: object) -> bool:
    """Whether two inputs are equal, entry by entry."""
    if hasattr(left, "equals"):  # a data frame
        return type(left) is type(right) and bool(left.equals(right))
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple | np.ndarray) and isinstance(right, list | tuple | np.ndarray):
        return len(left) == len(right) and all(_same(mine, theirs) for mine, theirs in zip(left, right, strict=True))
    return bool(left == right)
