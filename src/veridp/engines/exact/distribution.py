"""The distribution of a mechanism's output: on one input, or with the data left open."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from veridp.engines.exact.curve import Density
from veridp.engines.exact.event import ExactEvent
from veridp.engines.exact.functions import FunctionReader, has_functions
from veridp.engines.exact.loss import PrivacyLoss
from veridp.engines.exact.masses import log_masses
from veridp.engines.exact.overlap import without_overlap
from veridp.engines.exact.pieces import ClassKey, DistributionPiece, Factor, factors
from veridp.engines.exact.space import loss_between, loss_of_factors
from veridp.errors import MechanismFailed, NotAffine, NotExact, VeridpError
from veridp.kernel.distributions import Number, exact
from veridp.kernel.explore import explore, walk
from veridp.kernel.expressions import Condition, unknowns
from veridp.kernel.flow.loops import Loops
from veridp.kernel.flow.retries import Retries, rational_mass
from veridp.kernel.handmade.coin_gaussian import with_coin_gaussian
from veridp.kernel.handmade.rejection import with_discrete_gaussians
from veridp.kernel.handmade.transforms import recognised, recognised_one_by_one
from veridp.kernel.output import Raised, Slot, Template
from veridp.kernel.path import Again, Path, condition_with_values, leaves, outline_of, with_values
from veridp.kernel.replay.agreement import Listing
from veridp.kernel.returned import identity
from veridp.kernel.slivers import leaving_out_slivers
from veridp.kernel.stand_ins import Symbolic
from veridp.kernel.symbols import Unknown
from veridp.kernel.weights import Weight
from veridp.mechanism import Function, Mechanism, as_mechanism

# --------------------------------------------------------------------------------------------------------------- paths
# The paths that the exact engine works on, each list held against plain runs before anything rests on it.


Read = TypeVar("Read")


@contextmanager
def within_floats() -> Iterator[None]:
    """Turns a number that floats cannot hold into NotExact."""
    try:
        yield
    except OverflowError:
        raise NotExact("a number of the mechanism or its data is beyond what floats hold; rescale the data") from None


def paths_of(mechanism: Mechanism, data: Any, reader: FunctionReader) -> Sequence[Path]:
    """All paths on this data, as few as can be: what only decides the output stays undecided there.

    They are not replayed: call `replay` on the data of a pair that something is concluded from.
    """
    return _listed(mechanism, data, tuple, reader)[0]


def replayed_paths(mechanism: Mechanism, data: Any, reader: FunctionReader | None = None) -> Sequence[Path]:
    """All paths on this data, after plain runs agreed with them; ExplorationDisagrees where one does not.

    Functions of noise are read as the reader does, and refused where there is none.
    """
    paths, listing = _listed(mechanism, data, tuple, reader)
    listing.replay()
    return paths


def factors_of(
    mechanism: Mechanism, data: Any, reader: FunctionReader, split: bool = True
) -> tuple[list[Factor], Listing]:
    """The factors of all paths on this data, which need never be kept all at once, and what to replay of them."""
    return _listed(mechanism, data, lambda paths: factors(paths, split), reader)


def only_path_of(mechanism: Mechanism, data: Any) -> tuple[Path | None, Listing]:
    """The only path on this data, where branches that choose entries of its output leave these undecided.

    None where there are several, or where it has functions of noise, which a reader would have to remember.
    """

    def only(paths: Iterator[Path]) -> Path | None:
        first = list(itertools.islice(paths, 2))
        return first[0] if len(first) == 1 else None

    path, listing = _listed(mechanism, data, only, FunctionReader(), choosing=True)
    return None if any(map(has_functions, listing.sample)) else path, listing


def _listed(
    mechanism: Mechanism,
    data: Any,
    read: Callable[[Iterator[Path]], Read],
    reader: FunctionReader | None = None,
    choosing: bool = False,
) -> tuple[Read, Listing]:
    """What is read from the paths; code that does more with an undecided value than to release it is explored fully."""

    def explored(listing: Listing) -> tuple[Read, Listing]:
        functions, chooses = reader is not None, listing.choosing
        paths = walk(mechanism, data, defer=listing.defer, functions=functions, retries=True, choosing=chooses)
        watched = listing.watch(paths)
        if Loops.of(mechanism.bound()) is not None:
            kept = list(watched)
            gaussian = with_coin_gaussian(kept) or with_discrete_gaussians(kept)
            watched = Retries(kept, _mass).accepted() if gaussian is None else iter(gaussian)
        known = recognised_one_by_one(watched)
        return read(known if reader is None else reader.read(known)), listing

    with leaving_out_slivers() as left_out:
        try:
            found = explored(Listing(mechanism, data, defer=True, choosing=choosing))
        except (MechanismFailed, NotAffine):
            left_out.clear()
            found = explored(Listing(mechanism, data, defer=False))
    if reader is not None:
        reader.slivers += left_out
    return found


def _mass(conditions: Sequence[Condition]) -> Fraction | float:
    """The probability that noise satisfies the conditions."""
    if (rational := rational_mass(conditions)) is not None:
        return rational
    if any(condition.slack.functions for condition in conditions):
        raise NotExact("the probability that a function of noise makes a loop retry is not computed exactly")
    (log,) = log_masses([[DistributionPiece(1, tuple(conditions), ())]])
    return math.exp(log)


# -------------------------------------------------------------------------------------------------------- distribution
# The law of a mechanism's output on one input: probabilities of discrete outputs, densities of numeric ones.


RELATION = 1e-9  # how far, relatively, numbers of an output may be off a relation that they must keep


@dataclass(frozen=True, eq=False)
class OutputDistribution:
    """The law of the output: independent factors, each a list of disjoint classes."""

    factors: Sequence[Factor]

    @cached_property
    def _masses(self) -> list[dict[ClassKey, float]]:
        """The probability of every class of every factor."""
        found = []
        for factor in self.factors:
            logs = log_masses(list(factor.classes.values()))
            found.append({key: math.exp(log) for key, log in zip(factor.classes, logs, strict=True)})
        return found

    @property
    def total(self) -> float:
        """The sum of all probabilities: 1, up to rounding."""
        return math.prod(math.fsum(masses.values()) for masses in self._masses)

    def classes(self) -> list[tuple[ExactEvent, float]]:
        """The classes of the output with their probabilities, likeliest first; of a single factor only."""
        if len(self.factors) > 1:
            raise ValueError(f"the output falls into {len(self.factors)} independent parts; ask for single outputs")
        rows = [(ExactEvent(template=key.template), mass) for key, mass in self._masses[0].items()]
        return sorted(rows, key=lambda row: -row[1])

    def probability(self, output: Any) -> float:
        """The probability of exactly this output; 0 where it has only a density."""
        return math.prod(self._at(output, place, atoms=True) for place in range(len(self.factors)))

    def density(self, output: Any) -> float:
        """The density at this output: over its numeric entries, times the probability of the others.

        Where the output is an atom as well (the end of a clipped range), the atom is left out of account.
        """
        return math.prod(self._at(output, place, atoms=False) for place in range(len(self.factors)))

    def _at(self, output: Any, place: int, atoms: bool) -> float:
        factor = self.factors[place]
        tree = identity(output).tree
        if factor.positions is not None:
            if factor.outline is None or outline_of(output) != factor.outline:
                return 0.0
            leaves = Template(tree).leaves
            tree = tuple(leaves[position] for position in factor.positions)
        fitting = [key for key in factor.classes if ExactEvent(template=key.template).holds(tree)]
        numeric = [key for key in fitting if any(key.lattices[index] is None for index in key.free)]
        chosen = [key for key in fitting if key not in numeric] if atoms or not numeric else numeric
        return math.fsum(self._mass(place, key, Template(tree).leaves) for key in chosen)

    def _mass(self, place: int, key: ClassKey, leaves: Sequence[Any]) -> float:
        """The probability, or the density, that an output of this class has these leaves."""
        if not key.free:
            return self._masses[place][key]
        numbers = _numbers(key, leaves)
        if numbers is None:
            return 0.0
        point = np.array([[numbers[index] for index in key.free]])
        return math.exp(float(Density(self.factors[place].classes[key])(point)[0]))


def _numbers(key: ClassKey, leaves: Sequence[Any]) -> list[float] | None:
    """The numeric entries of an output; None where they break a relation of the class."""
    slots = [place for place, leaf in enumerate(key.template.leaves) if isinstance(leaf, Slot)]
    numbers = [float(leaves[place]) for place in slots]
    for factors_, value in key.relations:
        total = sum(float(factor) * number for factor, number in zip(factors_, numbers, strict=True))
        if not math.isclose(total, float(value), rel_tol=RELATION, abs_tol=RELATION):
            return None
    return numbers


def law(mechanism: Mechanism | Function, data: Any, **arguments: Any) -> OutputDistribution:
    """The exact law of the mechanism's output on this input."""
    parts = factors(replayed_paths(as_mechanism(mechanism, **arguments), data))
    return OutputDistribution([replace(part, classes=without_overlap(part.classes, ())) for part in parts])


# --------------------------------------------------------------------------------------------------- open distribution
# The law of a mechanism's output with the data left open: explored once, used for many inputs.


MAX_PATH_RATIO = 4  # leaving the data open may find at most so many times the paths of one input: else it does not pay


@dataclass(frozen=True, eq=False)
class OpenDistribution:
    """Paths whose conditions name the entries of the data; and their classes, where the outputs do not.

    `listed` are the paths of the code itself, to be replayed: those that the others were read from.
    """

    listed: Sequence[Path]
    paths: Sequence[Path]
    classes: dict[ClassKey, list[DistributionPiece]] | None

    @classmethod
    def of(cls, mechanism: Mechanism, size: int, count: int) -> OpenDistribution | None:
        """The law for data of this size, of which one input had `count` paths.

        None where the mechanism does to data what symbols cannot express, or where that takes far more paths.
        """
        try:
            most = MAX_PATH_RATIO * count
            data = unknowns("data", size)
            with leaving_out_slivers() as left_out:
                listed = explore(mechanism, data, defer=True, max_paths=most, retries=True)
        except VeridpError:
            return None
        if left_out or any(isinstance(path.output, Raised | Again) for path in listed):
            # Code that fails on symbols need not fail on numbers; how often it retries may depend on data; and what was
            # left out is told of single inputs.
            return None
        paths = recognised(listed)
        if any(map(has_functions, paths)):
            return None
        fixed = not any(isinstance(path.weight, Weight) for path in paths)
        discrete = fixed and not any(isinstance(leaf, Symbolic) for path in paths for leaf in leaves(path.output))
        return cls(listed, paths, _interned(factors(paths, split=False)[0].classes) if discrete else None)

    def loss(self, left: Sequence[float], right: Sequence[float]) -> PrivacyLoss:
        """The loss between two inputs."""
        if self.classes is None:
            return loss_between(*(with_values(self.paths, _values(data)) for data in (left, right)))
        return loss_of_factors(*([Factor(None, self._at(_values(data)))] for data in (left, right)))

    def _at(self, values: Mapping[Unknown, Number]) -> dict[ClassKey, list[DistributionPiece]]:
        known: dict[int, Condition | bool] = {}
        found: dict[ClassKey, list[DistributionPiece]] = {}
        for key, pieces in (self.classes or {}).items():
            for piece in pieces:
                decided = [condition_with_values(condition, values, known) for condition in piece.conditions]
                if not any(condition is False for condition in decided):
                    kept = tuple(condition for condition in decided if condition is not True)
                    found.setdefault(key, []).append(DistributionPiece(piece.weight, kept, ()))  # type: ignore[arg-type]
        return found


def _values(data: Sequence[Any]) -> dict[Unknown, Number]:
    return {Unknown(f"data[{index}]"): exact(value) for index, value in enumerate(data)}


def _interned(classes: dict[ClassKey, list[DistributionPiece]]) -> dict[ClassKey, list[DistributionPiece]]:
    """The classes with equal conditions made one object, so that each is worked out once."""
    known: dict[object, Condition] = {}

    def one(piece: DistributionPiece) -> DistributionPiece:
        single = [known.setdefault(key, c) for key, c in zip(piece.key[1], piece.conditions, strict=True)]
        return DistributionPiece(piece.weight, tuple(single), piece.numbers)

    return {key: [one(piece) for piece in pieces] for key, pieces in classes.items()}
