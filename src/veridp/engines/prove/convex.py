"""Whether a union of polyhedra is convex, and its inequalities if so; decided exactly."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import Any

from veridp.kernel.expressions import Affine, Condition
from veridp.kernel.symbols import Noise, Relation, Symbol

SECONDS = 20


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
        self.z3 = _z3()
        self.variables: dict[Symbol, Any] = {}
        self.parts = [[self._inside(condition) for condition in part] for part in parts]

    def _inside(self, condition: Condition) -> Any:
        """The open half-space: boundaries have no probability where noise decides."""
        slack = self._expression(condition.slack)
        strict = condition.slack.continuous or condition.relation is Relation.ABOVE
        return slack > 0 if strict else slack >= 0

    def _expression(self, slack: Affine) -> Any:
        total = self._rational(slack.constant)
        for symbol, coefficient in slack.terms.items():
            total = total + self._rational(coefficient) * self._variable(symbol)
        return total

    def _variable(self, symbol: Symbol) -> Any:
        """A variable of its own for each symbol: noise and an open value may have the same name."""
        if symbol not in self.variables:
            self.variables[symbol] = self.z3.Real(f"{symbol.name} {len(self.variables)}")
        return self.variables[symbol]

    def _rational(self, number: Any) -> Any:
        return self.z3.Q(number.numerator, number.denominator)

    def _impossible(self, *claims: Any) -> bool:
        solver = self.z3.Solver()
        solver.set("timeout", SECONDS * 1000)
        solver.add(*claims)
        return bool(solver.check() == self.z3.unsat)

    def holds_on(self, index: int, condition: Condition) -> bool:
        return self._impossible(*self.parts[index], self._expression(condition.slack) < 0)

    def are_apart(self, first: int, second: int) -> bool:
        return self._impossible(*self.parts[first], *self.parts[second])

    def covers(self, envelope: Sequence[Condition]) -> bool:
        """Whether nothing of the envelope's inside is outside of the closure of every part."""
        outside = [self.z3.Or([self._outside(claim) for claim in part]) for part in self.parts]
        return self._impossible(*(self._inside(condition) for condition in envelope), *outside, *self._supports())

    def _supports(self) -> list[Any]:
        """What the noise can be at all."""
        found = []
        for symbol, variable in self.variables.items():
            if isinstance(symbol, Noise):
                low, high = symbol.distribution.support
                found += [variable > low] if math.isfinite(low) else []
                found += [variable < high] if math.isfinite(high) else []
        return found

    def _outside(self, claim: Any) -> Any:
        """Strictly outside of a half-space."""
        return claim.arg(0) < claim.arg(1)


@cache
def _z3() -> Any:
    import z3  # loaded only where paths are to be merged

    return z3
