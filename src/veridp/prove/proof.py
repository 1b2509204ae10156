"""Proofs by randomness alignment: the smallest ε for which a shift of the noise carries every event to neighbours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridp.errors import BadInput, VeridpError
from veridp.mechanism import Function, Mechanism, as_mechanism
from veridp.program.affine import unknowns
from veridp.program.explore import explore
from veridp.prove.events import Event, events_of
from veridp.prove.shifts import Shift, cheapest_shifts

WHOLE_CORNERS = ("l1", "monotone")  # neighbours whose whole differences are all corners, but for none at all


@dataclass(frozen=True, eq=False)
class Proof:
    """For all neighbours of this size: ε, and the shift of every event at every corner.

    ε is inf where no shift of constant size can carry some event over: that is no refutation. Where integer noise is
    shifted (`whole`), it holds for data in whole numbers only, and up to the rounding of the price, a logarithm.
    """

    mechanism: Mechanism
    size: int
    epsilon: float
    exact_epsilon: Fraction | None
    events: tuple[Event, ...]
    corners: NDArray[np.float64]
    shifts: tuple[tuple[Shift, ...], ...]  # for each event, for each corner

    @property
    def whole(self) -> bool:
        """Whether integer noise is shifted: shifts between those of the corners are then no shifts, so nothing follows
        for differences between the corners."""
        return moves_whole_noise(self.events, self.shifts)

    @property
    def certificate(self) -> dict[str, Any]:
        """The proof as a document that `veridp check` verifies without the search; BadInput where nothing is proved."""
        from veridp.prove.certificate import certificate_of  # the certificate is written from the proof, not for it

        return certificate_of(self)

    @property
    def worst(self) -> tuple[Event, NDArray[np.float64], Shift]:
        """The event and corner that cost most (or cannot be paid)."""
        costs = [[float(shift.cost) for shift in row] for row in self.shifts]
        event, corner = np.unravel_index(int(np.argmax(costs)), (len(costs), len(self.corners)))
        return self.events[event], self.corners[corner], self.shifts[event][corner]

    def __str__(self) -> str:
        who = f"{self.mechanism} under {self.mechanism.adjacency}, size {self.size}"
        if math.isinf(self.epsilon):
            return f"{who}: no alignment found"
        return f"{who}: {self.epsilon:.6g}-DP is proved{' for data in whole numbers' if self.whole else ''}"


def prove(mechanism: Mechanism | Function, size: int | None = None, **arguments: Any) -> Proof:
    """The smallest ε that an alignment can prove for all neighbours of this size; inf if none can."""
    mechanism = as_mechanism(mechanism, **arguments)
    size = mechanism.size if size is None else size
    corners = mechanism.adjacency.vertices(size)
    if corners is None:
        raise BadInput(
            f"{mechanism.name}: neighbours under {mechanism.adjacency} have no polytope of differences to prove over; "
            f"use linf, l1 or monotone, or an adjacency with vertices"
        )
    paths = _explored(mechanism, size)
    events = tuple(events_of(paths))
    shifts = tuple(tuple(row) for row in cheapest_shifts(events, corners))
    if moves_whole_noise(events, shifts) and mechanism.adjacency.name not in WHOLE_CORNERS:
        return Proof(mechanism, size, math.inf, None, events, corners, shifts)
    return Proof(mechanism, size, *_total(shifts), events, corners, shifts)


def moves_whole_noise(events: Sequence[Event], shifts: Sequence[Sequence[Shift]]) -> bool:
    """Whether a shift moves integer noise."""
    return any(
        noise.distribution.integer and move
        for event, row in zip(events, shifts, strict=True)
        for shift in row
        for noise, move in zip(event.noises, shift.moves or (), strict=False)
    )


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


def _total(shifts: Sequence[Sequence[Shift]]) -> tuple[float, Fraction | None]:
    costs = [shift.cost for row in shifts for shift in row]
    if any(shift.moves is None for row in shifts for shift in row):
        return math.inf, None
    most = max(costs, default=Fraction(0))
    return float(most), Fraction(most)
