"""Whether a union of polyhedra is convex, and its inequalities if so; decided exactly."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from veridp.kernel.distributions import exact
from veridp.kernel.expressions import Affine, Condition
from veridp.kernel.symbols import Noise, Relation
from veridp.numerics.inequalities import LinearInequality, are_possible, cover


def union_if_convex(parts: Sequence[Sequence[Condition]]) -> tuple[Condition, ...] | None:
    """The inequalities of the union, up to its boundary; None where it is not convex (or this is not found out).

    The union is convex just if it is all of its envelope: the inequalities of any part that hold on every part
    (Bemporad, Fukuda, Torrisi 2001, "Convexity recognition of the union of polyhedra"). Boundaries are left out of
    account, so this is for conditions on continuous noise alone.
    """
    if not all(condition.slack.continuous for part in parts for condition in part):
        return None
    pool: dict[object, Condition] = {}
    for part in parts:
        for condition in part:
            pool.setdefault(_direction(condition.slack), condition)
    solver = _Solver(parts)
    envelope = [c for c in pool.values() if all(solver.holds_on(index, c) for index in range(len(parts)))]
    return tuple(envelope) if solver.covers(envelope) else None


def cover_everything(parts: Sequence[Sequence[Condition]]) -> bool:
    """Whether the closures of the parts cover all values of their symbols, as far as these are possible.

    Boundaries are left out of account; where they may matter (equalities, integer noise) the answer is no.
    """
    if any(not part for part in parts):
        return True
    if any(_has_weighty_boundary(condition) for part in parts for condition in part):
        return False
    return _Solver(parts).covers([])


def _has_weighty_boundary(condition: Condition) -> bool:
    noisy = any(isinstance(symbol, Noise) for symbol in condition.slack.terms)
    return condition.relation is Relation.EQUAL or (noisy and not condition.slack.continuous)


def are_disjoint(parts: Sequence[Sequence[Condition]]) -> bool:
    """Whether no two of the parts have more than a boundary in common."""
    solver = _Solver(parts)
    return all(solver.are_apart(a, b) for a, b in itertools.combinations(range(len(parts)), 2))


def _direction(slack: Affine) -> object:
    """The inequality but for scale and strictness."""
    size = max(abs(Fraction(c)) for c in slack.terms.values())
    return slack.constant / size, frozenset((symbol, c / size) for symbol, c in slack.terms.items())


class _Solver:
    def __init__(self, parts: Sequence[Sequence[Condition]]) -> None:
        self.parts = [[_inside(condition) for condition in part] for part in parts]

    def holds_on(self, index: int, condition: Condition) -> bool:
        return not are_possible([*self.parts[index], _closed(_inside(condition)).negated()])

    def are_apart(self, first: int, second: int) -> bool:
        return not are_possible([*self.parts[first], *self.parts[second]])

    def covers(self, envelope: Sequence[Condition]) -> bool:
        """Whether nothing of the envelope's inside is outside of the closure of every part."""
        closures = [[_closed(claim) for claim in part] for part in self.parts]
        return cover(closures, [*map(_inside, envelope), *self._supports()])

    def _supports(self) -> list[LinearInequality]:
        """What the noise can be at all."""
        found = []
        for symbol in dict.fromkeys(symbol for part in self.parts for claim in part for symbol in claim.terms):
            if isinstance(symbol, Noise):
                low, high = symbol.distribution.support
                found += [LinearInequality({symbol: 1}, -exact(low), ">")] if math.isfinite(low) else []
                found += [LinearInequality({symbol: -1}, exact(high), ">")] if math.isfinite(high) else []
        return found


def _inside(condition: Condition) -> LinearInequality:
    """The open half-space: boundaries have no probability where noise decides."""
    strict = condition.slack.continuous or condition.relation is Relation.ABOVE
    return LinearInequality(condition.slack.terms, condition.slack.constant, ">" if strict else ">=")


def _closed(claim: LinearInequality) -> LinearInequality:
    return replace(claim, sign=">=")
