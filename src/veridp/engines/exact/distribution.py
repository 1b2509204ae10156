"""The law of a mechanism's output on one input: probabilities of discrete outputs, densities of numeric ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from veridp.engines.exact.curve import Density
from veridp.engines.exact.event import ExactEvent
from veridp.engines.exact.lattice import without_overlap
from veridp.engines.exact.masses import log_masses
from veridp.engines.exact.paths import replayed_paths
from veridp.engines.exact.pieces import ClassKey, Factor, factors
from veridp.kernel.path import outline_of
from veridp.kernel.template import Slot, Template, identity
from veridp.mechanism import Function, Mechanism, as_mechanism

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
