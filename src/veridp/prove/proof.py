"""Proofs by randomness alignment: the smallest ε for which a shift of the noise carries every event to neighbours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from veridp.adjacency import OneQueryMoves
from veridp.errors import BadInput, VeridpError
from veridp.mechanism import Function, Mechanism, as_mechanism
from veridp.program.affine import unknowns
from veridp.program.explore import explore
from veridp.prove.alignments import Alignment, Table, cheapest_alignments
from veridp.prove.blame import Blame, blame_of
from veridp.prove.events import Event, events_of
from veridp.prove.neighbours import Hull, Polytope, polytopes_of
from veridp.prove.shifts import Shift


class WorstPlace(NamedTuple):
    """The event and difference that cost most, and the shift there."""

    event: Event
    corner: NDArray[np.float64]
    shift: Shift


@dataclass(frozen=True, eq=False)
class Proof:
    """For all neighbours of this size: ε, and how every event is carried over.

    ε is inf where no shift of constant size can carry some event over: that is no refutation. Where integer noise is
    shifted by what depends on the data (`whole`), it holds for data in whole numbers only; and up to the rounding of
    the price, a logarithm.
    """

    mechanism: Mechanism
    size: int
    epsilon: float
    exact_epsilon: Fraction | None
    events: tuple[Event, ...]
    polytopes: tuple[Polytope, ...]
    alignments: tuple[tuple[Alignment, ...], ...]  # for each event, for each polytope

    @property
    def whole(self) -> bool:
        """Whether integer noise is shifted by different amounts for different data: then these must be whole, since
        what is between whole shifts is none."""
        return any(
            _moves_whole_noise(event, alignment)
            for event, row in zip(self.events, self.alignments, strict=True)
            for alignment in row
        )

    @property
    def certificate(self) -> dict[str, Any]:
        """The proof as a document that `veridp check` verifies without the search; BadInput where nothing is proved."""
        from veridp.prove.certificate import certificate_of  # the certificate is written from the proof, not for it

        return certificate_of(self)

    @property
    def corners(self) -> int:
        """How many corners the differences between neighbours have."""
        return sum(polytope.count for polytope in self.polytopes)

    @property
    def worst(self) -> WorstPlace:
        """The event and corner that cost most (or cannot be paid)."""
        costs = [[float(alignment.cost) for alignment in row] for row in self.alignments]
        event, polytope = np.unravel_index(int(np.argmax(costs)), (len(costs), len(self.polytopes)))
        alignment = self.alignments[event][polytope]
        return WorstPlace(self.events[event], np.array([float(x) for x in alignment.worst]), alignment.shift)

    @cached_property
    def blame(self) -> Blame | None:
        """What costs most, or why there is no proof, with its line in the code; None where nothing costs anything."""
        event, corner, shift = self.worst
        return blame_of(self.mechanism, event, tuple(Fraction(x) for x in corner.tolist()), shift)

    def __str__(self) -> str:
        who = f"{self.mechanism} under {self.mechanism.adjacency}, size {self.size}"
        if math.isinf(self.epsilon):
            return f"{who}: no alignment found"
        return f"{who}: {self.epsilon:.6g}-DP is proved{' for data in whole numbers' if self.whole else ''}"


def prove(mechanism: Mechanism | Function, size: int | None = None, **arguments: Any) -> Proof:
    """The smallest ε that an alignment can prove for all neighbours of this size; inf if none can."""
    mechanism = as_mechanism(mechanism, **arguments)
    size = mechanism.size if size is None else size
    polytopes = polytopes_of(mechanism.adjacency, size)
    if polytopes is None:
        raise BadInput(
            f"{mechanism.name}: neighbours under {mechanism.adjacency} have no polytope of differences to prove over; "
            f"use linf, l1 or monotone, or an adjacency with vertices"
        )
    events = tuple(events_of(_explored(mechanism, size)))
    alignments = tuple(tuple(row) for row in cheapest_alignments(events, polytopes))
    proof = Proof(mechanism, size, *_total(alignments), events, polytopes, alignments)
    if proof.whole and isinstance(polytopes[0], Hull) and not isinstance(mechanism.adjacency, OneQueryMoves):
        return Proof(mechanism, size, math.inf, None, events, polytopes, alignments)  # whole differences: no corners
    return proof


def _moves_whole_noise(event: Event, alignment: Alignment) -> bool:
    """Whether integer noise is moved by what depends on the difference."""
    form = alignment.form
    if isinstance(form, Table) and form.whole:
        return True
    for place, noise in enumerate(event.noises):
        if noise.distribution.integer:
            if isinstance(form, Table):
                if form.entries and any(shift.moves and shift.moves[place] for shift in form.shifts):
                    return True
            elif form.slopes[place]:
                return True
    return False


def _explored(mechanism: Mechanism, size: int) -> Sequence[Any]:
    """Its paths with the data left open."""
    try:
        return explore(rational_arguments(mechanism), unknowns("data", size))
    except VeridpError:  # code that takes floats only: their binary values are used instead
        return explore(mechanism, unknowns("data", size))


def rational_arguments(mechanism: Mechanism) -> Mechanism:
    """The mechanism with decimal arguments taken as the rationals that they write down: 0.1 as 1/10."""
    floats = {name: v for name, v in mechanism.values.items() if isinstance(v, float) and math.isfinite(v)}
    return mechanism.bind(**{name: Fraction(repr(value)) for name, value in floats.items()})


def _total(alignments: Sequence[Sequence[Alignment]]) -> tuple[float, Fraction | None]:
    costs = [alignment.cost for row in alignments for alignment in row]
    most = max(costs, default=Fraction(0))
    return (math.inf, None) if math.isinf(most) else (float(most), Fraction(most))
