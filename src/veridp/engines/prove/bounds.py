"""Proofs by bounds: between what the density of every output is at least and at most, over all data.

Where any two data are neighbours, an output is at most e^ε times as likely on one as on another if and only if the
largest density it has on any data is at most e^ε times the least. So no pair has to be looked at: bounds are enough.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from veridp.engines.prove.alignment import Proof
from veridp.engines.prove.blame import Blame, return_site
from veridp.engines.prove.cases import DataCase, OutputPart, values_of
from veridp.engines.prove.coupling_search import NO_LOSS, CouplingLoss
from veridp.engines.prove.densities import DensitySlab, layer_of, slabs_of
from veridp.engines.prove.events import events_of
from veridp.engines.prove.neighbours import interval_of, interval_text
from veridp.engines.prove.paths import explored_values
from veridp.kernel.path import Path
from veridp.kernel.template import Template
from veridp.kernel.wording import number_text
from veridp.mechanism import Mechanism

ZERO = Fraction(0)


@dataclass(frozen=True)
class DensityBounds:
    """The density of one output over all data, by slabs of the number that it releases."""

    output: Template
    slabs: tuple[DensitySlab, ...]

    @property
    def ratio(self) -> Fraction | None:
        """How much likelier the output is on some data than on others; None where it is impossible on some."""
        possible = [slab for slab in self.slabs if slab.most]
        if not all(slab.least for slab in possible):
            return None
        return max((slab.most / slab.least for slab in possible), default=Fraction(1))


@dataclass(frozen=True, eq=False)
class BoundedProof(Proof):
    """For any two data of the domain, an interval or the values of the cases: the ε that bounds prove."""

    ends: tuple[Fraction, Fraction] | None
    cases: tuple[DataCase, ...]
    densities: tuple[DensityBounds, ...]

    @cached_property
    def worst(self) -> DensityBounds:
        """The output that tells most."""
        return max(self.densities, key=lambda each: math.inf if each.ratio is None else each.ratio)

    @property
    def certificate(self) -> dict[str, Any]:
        from veridp.engines.prove.bounds_certificate import bounds_certificate_of  # written from the proof, not for it

        return bounds_certificate_of(self)

    @property
    def restriction(self) -> str:
        return interval_text(self.mechanism) or f"for the {len(self.cases)} data of its domain"

    @property
    def extent(self) -> str:
        data = f"{len(self.cases)} data" if self.ends is None else "one open number"
        slabs = sum(len(each.slabs) for each in self.densities)
        return f"{data}, {len(self.densities)} outputs, densities bounded on {slabs} ranges of what is released"

    @property
    def explained(self) -> str:
        ratio = self.worst.ratio
        if ratio is None:
            return f"the output {self.worst.output} is possible on some data and impossible on others"
        text = number_text(ratio) if ratio.denominator < 10**6 else f"{float(ratio):.12g}"
        return f"the output {self.worst.output} is at most {text} times as likely on one as on another: cost ln {text}"

    @property
    def moves(self) -> list[list[float]]:
        return []

    @property
    def blame(self) -> Blame | None:
        if self.epsilon == 0:
            return None
        site = return_site(self.mechanism)
        return Blame("output", self.explained, site.file, site.line, self.epsilon)


def prove_by_bounds(mechanism: Mechanism, size: int, paths: Sequence[Path]) -> BoundedProof | None:
    """The smallest ε for any two numbers of the mechanism's interval, from its paths on an open one; None where it has
    noise whose densities are not bounded here."""
    ends = interval_of(mechanism)
    if ends is None:
        return None
    return _bounded(mechanism, size, ends, (DataCase(None, (), (OutputPart(None, tuple(events_of(paths))),)),))


def prove_values_by_bounds(mechanism: Mechanism, size: int) -> BoundedProof | None:
    """The same for any two values of a finite domain."""
    if not mechanism.adjacency.single:
        return None
    values = values_of(mechanism, size)
    explored = zip(values, explored_values(mechanism, values), strict=True)
    events = [(value, tuple(events_of(paths))) for value, paths in explored]
    return _bounded(
        mechanism, size, None, tuple(DataCase(value, (), (OutputPart(None, mine),)) for value, mine in events)
    )


def _bounded(
    mechanism: Mechanism, size: int, ends: tuple[Fraction, Fraction] | None, cases: tuple[DataCase, ...]
) -> BoundedProof | None:
    layers = [[(event.output, layer_of(event)) for part in case.parts for event in part.events] for case in cases]
    bounds = []
    for output in dict.fromkeys(name for mine in layers for name, _ in mine):
        here = [[layer for name, layer in mine if name == output] for mine in layers]
        known = [[layer for layer in mine if layer is not None] for mine in here]
        slabs = slabs_of(known, ends or (ZERO, ZERO)) if here == known else None
        if slabs is None:
            return None
        bounds.append(DensityBounds(output, tuple(slabs)))
    ratios = [each.ratio for each in bounds]
    finite = [ratio for ratio in ratios if ratio is not None]
    epsilon = CouplingLoss(ZERO, max(finite, default=Fraction(1))).epsilon if len(finite) == len(ratios) else math.inf
    exact = ZERO if NO_LOSS.epsilon == epsilon else None
    return BoundedProof(mechanism, size, epsilon, exact, ends, cases, tuple(bounds))
