"""The privacy loss ln p/q over a space of outputs: its supremum, and the masses of where it exceeds a level.

A space is put together of atoms and lines: a mixture of disjoint parts, a product of independent ones.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
from numpy.typing import NDArray

from veridp.claim import Interval
from veridp.engines.exact.divergence import Divergence, mixture_divergence, product_divergence
from veridp.engines.exact.event import ExactEvent
from veridp.errors import NotExact
from veridp.numerics.privacy_loss_distribution import CellProduct, Cells

Array = NDArray[np.float64]
MOST_TOLD = 16  # of parts that tie for the supremum, how many are looked at for the likeliest event
ZERO = 1e-13  # a loss below this everywhere is none: rounding


@dataclass(frozen=True)
class Peak:
    """The supremum of the loss, and an event that comes close to it, with ln of its probability on either side."""

    loss: float
    event: ExactEvent
    log_left: float
    log_right: float


@dataclass(frozen=True)
class EventMass:
    """An event, with its probability on either side."""

    event: ExactEvent
    left: float
    right: float


class PrivacyLoss(ABC):
    """The loss of left against right, over a space of outputs."""

    @cached_property
    def supremum(self) -> float:
        """The largest loss."""
        return self._supremum()

    @property
    def backward(self) -> float:
        """The largest loss of right against left."""
        return self.reversed.supremum

    @cached_property
    def peak(self) -> Peak:
        """The largest loss, with an event that comes close to it."""
        return self._peak()

    @cached_property
    def reversed(self) -> PrivacyLoss:
        """The loss of right against left."""
        return self._reversed()

    @abstractmethod
    def _supremum(self) -> float: ...

    @abstractmethod
    def _peak(self) -> Peak: ...

    @abstractmethod
    def _reversed(self) -> PrivacyLoss: ...

    @abstractmethod
    def above(self, level: float) -> tuple[float, float]:
        """The probabilities, left and right, of the outputs whose loss is above the level."""

    @abstractmethod
    def parts_above(self, level: float) -> list[EventMass]:
        """The outputs whose loss is above the level, as disjoint events.

        Their ends are floats, so that the probabilities differ from those of `above` where floats are coarse.
        """

    @abstractmethod
    def masses(self) -> tuple[float, float]:
        """The total probabilities, left and right."""

    def delta(self, epsilon: float) -> Interval:
        """∫ max(0, p - e^ε q): exactly, up to rounding, or between bounds where it takes a convolution."""
        left, right = self.above(epsilon)
        return Interval.exactly(max(0.0, left - math.exp(min(epsilon + math.log(right), 1.0))) if right else left)

    def cells(self) -> Cells:
        """The outputs in small sets, on each of which the loss varies little."""
        raise NotExact("the outputs of entangled numeric entries cannot be put into cells; use an engine that samples")

    def divergence(self, order: float) -> Divergence:
        """The Rényi divergence of a finite order from left to right, once either side is divided by its mass."""
        raise NotExact(
            "Rényi divergences over entangled numeric entries cannot be computed; use an engine that samples"
        )

    @property
    def trivial(self) -> bool:
        """Whether left and right are the same."""
        return abs(self.supremum) < ZERO and abs(self.backward) < ZERO


def log_ratio(left: Array, right: Array) -> Array:
    """left - right, of logarithms: nothing on the left is -inf, nothing on the right alone is +inf."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isneginf(left), -np.inf, np.where(np.isneginf(right), np.inf, left - right))


def _ratio(left: float, right: float) -> float:
    """The same, of single numbers."""
    if left == -math.inf:
        return -math.inf
    return math.inf if right == -math.inf else left - right


@dataclass(frozen=True, eq=False)
class Atom(PrivacyLoss):
    """A single output (or a class of outputs that are not told apart)."""

    event: ExactEvent
    log_left: float
    log_right: float

    def _supremum(self) -> float:
        return _ratio(self.log_left, self.log_right)

    @property
    def backward(self) -> float:
        return _ratio(self.log_right, self.log_left)

    def _peak(self) -> Peak:
        return Peak(self.supremum, self.event, self.log_left, self.log_right)

    def above(self, level: float) -> tuple[float, float]:
        return self.masses() if self.supremum > level else (0.0, 0.0)

    def _reversed(self) -> Atom:
        return Atom(self.event, self.log_right, self.log_left)

    def parts_above(self, level: float) -> list[EventMass]:
        return [EventMass(self.event, *self.masses())] if self.supremum > level else []

    def cells(self) -> Cells:
        left, right = self.masses()
        return Cells(np.array([left]), np.array([right]), np.array([self.supremum]))

    def divergence(self, order: float) -> Divergence:
        return Divergence(self.log_left, self.log_right, 0.0)

    def masses(self) -> tuple[float, float]:
        return math.exp(self.log_left), math.exp(self.log_right)


@dataclass(frozen=True, eq=False)
class Mixture(PrivacyLoss):
    """Disjoint parts."""

    parts: tuple[PrivacyLoss, ...]

    def _supremum(self) -> float:
        return max([part.supremum for part in self.parts])

    @cached_property
    def backward(self) -> float:
        return max([part.backward for part in self.parts])

    def _peak(self) -> Peak:
        best = [part for part in self.parts if part.supremum >= self.supremum - ZERO]
        return max((part.peak for part in best[:MOST_TOLD]), key=lambda peak: peak.log_left)

    def above(self, level: float) -> tuple[float, float]:
        pairs = [part.above(level) for part in self.parts]
        return math.fsum(left for left, _ in pairs), math.fsum(right for _, right in pairs)

    def _reversed(self) -> Mixture:
        return Mixture(tuple(part.reversed for part in self.parts))

    def parts_above(self, level: float) -> list[EventMass]:
        return [found for part in self.parts for found in part.parts_above(level)]

    def delta(self, epsilon: float) -> Interval:
        deltas = [part.delta(epsilon) for part in self.parts]
        return Interval(math.fsum(d.lower for d in deltas), math.fsum(d.upper for d in deltas))

    def cells(self) -> Cells:
        parts = [part.cells() for part in self.parts]
        return Cells(
            *(np.concatenate([getattr(part, name) for part in parts]) for name in ("left", "right", "largest"))
        )

    def divergence(self, order: float) -> Divergence:
        return mixture_divergence([part.divergence(order) for part in self.parts], order)

    def masses(self) -> tuple[float, float]:
        pairs = [part.masses() for part in self.parts]
        return math.fsum(left for left, _ in pairs), math.fsum(right for _, right in pairs)


@dataclass(frozen=True, eq=False)
class Product(PrivacyLoss):
    """Independent parts: their losses add."""

    parts: tuple[PrivacyLoss, ...]

    def _supremum(self) -> float:
        return _added([part.supremum for part in self.parts])

    @property
    def backward(self) -> float:
        return _added([part.backward for part in self.parts])

    def _peak(self) -> Peak:
        decisive = [part for part in self.parts if isinstance(part, Atom) or abs(part.supremum) > ZERO]
        masses = [part.masses() for part in self.parts if part not in decisive]
        return Peak(
            self.supremum,
            reduce(ExactEvent.__and__, (part.peak.event for part in decisive), ExactEvent()),
            sum(part.peak.log_left for part in decisive) + sum(log_of(left) for left, _ in masses),
            sum(part.peak.log_right for part in decisive) + sum(log_of(right) for _, right in masses),
        )

    @cached_property
    def _flat(self) -> list[PrivacyLoss]:
        """The parts, those that are products themselves taken apart."""
        found: list[PrivacyLoss] = []
        for part in self.parts:
            found += part._flat if isinstance(part, Product) else [part]
        return found

    @cached_property
    def _moving(self) -> list[PrivacyLoss]:
        return [part for part in self._flat if not part.trivial]

    @cached_property
    def _still_mass(self) -> float:
        return math.prod(part.masses()[0] for part in self._flat if part.trivial)

    @cached_property
    def _lines(self) -> list[PrivacyLoss]:
        """The moving parts that have numbers."""
        return [part for part in self._moving if not has_atoms_only(part)]

    def above(self, level: float) -> tuple[float, float]:
        if not self._lines:
            return self._table.above(level)
        if len(self._lines) > 1:
            raise NotExact(
                "the outputs above a level of loss, over several independent numeric entries that all move, have no "
                "exact probability here; ask for δ, which is enclosed"
            )
        pairs = [(pair, self._lines[0].above(level - loss)) for loss, pair in self._table.rows.items()]
        return math.fsum(p[0] * more[0] for p, more in pairs), math.fsum(p[1] * more[1] for p, more in pairs)

    def delta(self, epsilon: float) -> Interval:
        if len(self._lines) > 1:
            found = self._enclosed.delta(epsilon)
            return Interval(self._still_mass * found.lower, self._still_mass * found.upper)
        return super().delta(epsilon)

    @cached_property
    def _enclosed(self) -> CellProduct:
        return CellProduct(self._cells)

    @cached_property
    def _cells(self) -> list[Cells]:
        return [part.cells() for part in self._moving]

    def cells(self) -> Cells:
        if len(self._moving) != 1:
            return super().cells()
        (cells,) = self._cells
        return Cells(cells.left * self._still_mass, cells.right * self._still_mass, cells.largest)

    def divergence(self, order: float) -> Divergence:
        return product_divergence([part.divergence(order) for part in self.parts])

    @cached_property
    def _table(self) -> _Table:
        """The moving parts without numbers multiplied out, outputs of equal loss taken together."""
        table = _Table({0.0: (self._still_mass, self._still_mass)})
        for part in self._moving:
            if has_atoms_only(part):
                table = table.times(atoms_of(part))
        return table

    def _reversed(self) -> Product:
        return Product(tuple(part.reversed for part in self.parts))

    def parts_above(self, level: float) -> list[EventMass]:
        atoms = [part for part in self._flat if isinstance(part, Atom)]
        others = [part for part in self._moving if not isinstance(part, Atom)]
        if len(others) > 1:
            raise NotExact(
                "the outputs above a level of loss are not a product of intervals; ask for δ, which is enclosed"
            )
        base = reduce(ExactEvent.__and__, (atom.event for atom in atoms), ExactEvent())
        rest = level - sum(atom.supremum for atom in atoms)
        still = [part.masses() for part in self._flat if part not in others]
        left, right = math.prod(mass for mass, _ in still), math.prod(mass for _, mass in still)
        if not others:
            return [EventMass(base, left, right)] if rest < 0 else []
        return [EventMass(base & p.event, left * p.left, right * p.right) for p in others[0].parts_above(rest)]

    def masses(self) -> tuple[float, float]:
        pairs = [part.masses() for part in self.parts]
        return math.prod(left for left, _ in pairs), math.prod(right for _, right in pairs)


def _added(losses: Sequence[float]) -> float:
    """The loss of independent parts; where one of them has nothing on the left, the whole has nothing there."""
    return -math.inf if -math.inf in losses else sum(losses)


def log_of(mass: float) -> float:
    """Its logarithm; -inf where there is no mass."""
    return math.log(mass) if mass > 0 else -math.inf


@dataclass(frozen=True)
class _Table:
    """Probabilities, left and right, by loss."""

    rows: dict[float, tuple[float, float]]

    def times(self, atoms: Sequence[tuple[float, float, float]]) -> _Table:
        rows: dict[float, tuple[float, float]] = {}
        for loss, (left, right) in self.rows.items():
            for more, p, q in atoms:
                total = float(f"{loss + more:.12g}") if math.isfinite(more) else more
                old = rows.get(total, (0.0, 0.0))
                rows[total] = (old[0] + left * p, old[1] + right * q)
        if len(rows) > 100_000:
            raise NotExact("the independent parts of the output have too many different losses to multiply out")
        return _Table(rows)

    def above(self, level: float) -> tuple[float, float]:
        chosen = [pair for loss, pair in self.rows.items() if loss > level]
        return math.fsum(left for left, _ in chosen), math.fsum(right for _, right in chosen)


def has_atoms_only(part: PrivacyLoss) -> bool:
    """Whether no output of the part has numbers."""
    if isinstance(part, Mixture | Product):
        return all(has_atoms_only(inner) for inner in part.parts)
    return isinstance(part, Atom)


def atoms_of(part: PrivacyLoss) -> list[tuple[float, float, float]]:
    """The loss and both probabilities of every output of a part that has only atoms."""
    if isinstance(part, Atom):
        return [(part.supremum, *part.masses())]
    if isinstance(part, Mixture):
        return [atom for inner in part.parts for atom in atoms_of(inner)]
    if isinstance(part, Product):
        return [(loss, *pair) for loss, pair in part._table.rows.items()]
    raise TypeError(f"a {type(part).__name__} has more than atoms")
