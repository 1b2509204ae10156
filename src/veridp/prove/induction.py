"""Proofs for every size: an alignment that is the same for every step of a loop.

For each state of the loop: by how much its numbers differ between the two runs, and for each step and each way the
query may move: the shift of the step's noise that keeps its conditions, what it releases, and the differences that the
next state asks for. All this is linear, so one linear program finds the cheapest; what it finds is rounded to
rationals, checked exactly, and the cost of the worst run is added up along the states.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import coo_array

from veridp.budget import Deadline
from veridp.errors import NotInductive, VeridpError
from veridp.mechanism import Function, Mechanism, as_mechanism
from veridp.program.affine import Affine
from veridp.program.contained import contained
from veridp.program.distribution import Number
from veridp.program.symbols import Noise, Relation, Unknown
from veridp.prove.exploring import rational_arguments
from veridp.prove.prices import price_of
from veridp.prove.shifts import DENOMINATORS
from veridp.prove.system import QUERY, SYMBOL, State, Step, System, system_of

Phases = Mapping[str, Sequence[tuple[int, str]]]  # from a phase: by how much the query may move, and to which phase


def phases_of(adjacency: str, period: int) -> list[Phases]:
    """How queries may move, step by step; for neighbours that come in several polytopes, one for each.

    Between these corners the rest follows: shifts for corners, mixed, are shifts for what lies between them, at no more
    than the mixed cost. Where one query moves, the phase remembers for two periods how long ago that was.
    """
    if adjacency == "linf":
        return [{"any": [(1, "any"), (-1, "any")]}]
    if adjacency == "monotone":
        return [{"up": [(0, "up"), (1, "up")]}, {"down": [(0, "down"), (-1, "down")]}]
    if adjacency == "l1":
        last = 2 * period
        phases: dict[str, list[tuple[int, str]]] = {"before": [(0, "before"), (1, "up 1"), (-1, "down 1")]}
        for way in ("up", "down"):
            for age in range(1, last + 1):
                phases[f"{way} {age}"] = [(0, f"{way} {min(age + 1, last)}")]
        return [phases]
    raise NotInductive(f"there is no induction for neighbours under {adjacency}")


Place = tuple[State, str]


@dataclass(frozen=True, eq=False)
class Induction:
    """ε for inputs of every size: proved step by step."""

    mechanism: Mechanism
    epsilon: float
    exact_epsilon: Fraction
    system: System
    loops: tuple[AlignedLoop, ...]  # one for each polytope of differences

    @property
    def states(self) -> int:
        return len(self.system.steps)

    @property
    def certificate(self) -> dict[str, Any]:
        """The proof as a document that `veridp check` verifies without the search."""
        from veridp.prove.induction_certificate import induction_certificate_of

        return induction_certificate_of(self)

    def __str__(self) -> str:
        who = f"{self.mechanism} under {self.mechanism.adjacency}"
        return f"{who}: {self.epsilon:.6g}-DP is proved for every size"


def prove_for_every_size(mechanism: Mechanism | Function, *, seconds: float = math.inf, **arguments: Any) -> Induction:
    """The smallest ε that an alignment alike for all steps can prove, for inputs of every size.

    Raises NotInductive, with the reason, where the mechanism is no loop of like steps or has no such alignment, and
    CutShort where the `seconds` are not enough.
    """
    bound = as_mechanism(mechanism, **arguments)
    return contained(lambda _: _induction(bound), Deadline(seconds), known=(bound,))


def _induction(mechanism: Mechanism) -> Induction:
    system = _system(mechanism)
    loops = [_Alignment(system, phases).solved() for phases in phases_of(mechanism.adjacency.name, system.period)]
    cost = max(loop.cost for loop in loops)
    return Induction(mechanism, float(cost), cost, system, tuple(loops))


def _system(mechanism: Mechanism) -> System:
    try:
        return system_of(rational_arguments(mechanism))
    except NotInductive:
        raise
    except VeridpError:  # code that takes floats only: their binary values are used instead
        return system_of(mechanism)


@dataclass(frozen=True, eq=False)
class Move:
    """A step taken in a phase while the query moves by so much: from a place to the next (None: the end)."""

    source: Place | None
    step: Step
    by: int
    target: Place | None


@dataclass(frozen=True, eq=False)
class AlignedMove:
    """A move with the shift of each noise that it draws, and what these cost."""

    move: Move
    shifts: tuple[Fraction, ...]
    cost: Fraction


@dataclass(frozen=True, eq=False)
class AlignedLoop:
    """An alignment of all moves: how the numbers of each place differ, and what a run may cost from there on."""

    moves: tuple[AlignedMove, ...]
    differences: Mapping[Place, Mapping[str, Fraction]]
    left: Mapping[Place, Fraction]
    cost: Fraction


@dataclass(eq=False)
class _Alignment:
    system: System
    phases: Phases
    columns: dict[object, int] = field(default_factory=dict)
    rows: list[tuple[dict[int, float], float, bool]] = field(default_factory=list)  # Σ + constant >= 0, or = 0

    def moves(self) -> Iterator[Move]:
        """The moves that runs can come to, from the entries on."""
        first = next(iter(self.phases))
        pending: list[Place] = []
        for entry in self.system.entries.values():
            target = None if entry.target is None else (entry.target, first)
            pending += [] if target is None else [target]
            yield Move(None, entry, 0, target)
        seen: set[Place] = set()
        while pending:
            place = pending.pop()
            if place in seen:
                continue
            seen.add(place)
            for move in self._moves_from(place):
                pending += [] if move.target is None else [move.target]
                yield move

    def _moves_from(self, place: Place) -> Iterator[Move]:
        state, phase = place
        for step in self.system.steps[state].values():
            for by, following in self.phases[phase]:
                yield Move(place, step, by, None if step.target is None else (step.target, following))
        for step in self.system.exits[state].values():
            yield Move(place, step, 0, None)

    # --------------------------------------------------------------------------------------- the linear program

    def _column(self, key: object) -> int:
        return self.columns.setdefault(key, len(self.columns))

    def _change(self, move: Move, expression: Affine | Number) -> tuple[dict[int, float], float]:
        """By how much an expression differs between the two runs: coefficients of the unknowns, and a constant."""
        row: dict[int, float] = {}
        constant = 0.0
        for symbol, coefficient in expression.terms.items() if isinstance(expression, Affine) else ():
            if symbol == QUERY:
                constant += float(coefficient) * move.by
            elif isinstance(symbol, Noise):
                row[self._column((move, symbol.index, "up"))] = float(coefficient)
                row[self._column((move, symbol.index, "down"))] = -float(coefficient)
            elif isinstance(symbol, Unknown):
                row[self._column((move.source, symbol.name))] = float(coefficient)
        return row, constant

    def _add(self, move: Move) -> None:
        for condition in move.step.conditions:
            self.rows.append((*self._change(move, condition.slack), condition.relation is Relation.EQUAL))
        for number in move.step.released:
            self.rows.append((*self._change(move, number), True))
        for name, value in move.step.updates.items():
            row, constant = self._change(move, value)
            place = self._column((move.target, name))
            row[place] = row.get(place, 0.0) - 1.0
            self.rows.append((row, constant, True))
        costs = {self._column(("left", move.source)): 1.0} if move.source else {self._column("epsilon"): 1.0}
        if move.target is not None:
            left = self._column(("left", move.target))
            costs[left] = costs.get(left, 0.0) - 1.0
        for noise in move.step.noises:
            allowed = price_of(noise.distribution)
            for way, unit in (("up", allowed.up), ("down", allowed.down)):
                costs[self._column((move, noise.index, way))] = -float(unit or 0)
        self.rows.append((costs, 0.0, False))

    def solved(self) -> AlignedLoop:
        """The alignment whose worst run is the cheapest."""
        moves = list(self.moves())
        for move in moves:
            self._add(move)
        solution = self._solve(moves)
        for denominator in DENOMINATORS:
            rounded = {
                key: Fraction(float(solution[c])).limit_denominator(denominator) for key, c in self.columns.items()
            }
            checked = [_Checked(move, rounded) for move in moves]
            if all(each.keeps for each in checked):
                return _aligned(checked, rounded)
        raise NotInductive("the alignment found is not exact")

    def _solve(self, moves: Sequence[Move]) -> NDArray[np.float64]:
        column = self._column("epsilon")
        objective = np.zeros(len(self.columns))
        objective[column] = 1.0
        forbidden = {
            (move, noise.index, way)
            for move in moves
            for noise in move.step.noises
            for way, unit in (("up", price_of(noise.distribution).up), ("down", price_of(noise.distribution).down))
            if unit is None
        }
        bounds = [_limits(key, key in forbidden) for key in self.columns]
        equal, above = [r for r in self.rows if r[2]], [r for r in self.rows if not r[2]]
        answer = linprog(
            objective,
            A_ub=-_matrix(above, len(objective)),
            b_ub=[constant for _, constant, _ in above],
            A_eq=_matrix(equal, len(objective)) if equal else None,
            b_eq=[-constant for _, constant, _ in equal] if equal else None,
            bounds=bounds,
            method="highs",
        )
        if not answer.success:
            raise NotInductive("no alignment is the same for every step: the cost may grow with the size")
        return np.asarray(answer.x)


def _limits(key: object, forbidden: bool) -> tuple[float | None, float | None]:
    if forbidden:
        return 0.0, 0.0
    is_difference = isinstance(key, tuple) and len(key) == 2 and key[0] != "left"
    return (None, None) if is_difference else (0.0, None)


def _matrix(rows: Sequence[tuple[dict[int, float], float, bool]], width: int) -> Any:
    places = [(r, c, value) for r, (row, _, _) in enumerate(rows) for c, value in row.items()]
    values, r, c = [p[2] for p in places], [p[0] for p in places], [p[1] for p in places]
    return coo_array((values, (r, c)), shape=(len(rows), width)).tocsr()


# ------------------------------------------------------------------------------------------------ the exact check


@dataclass(frozen=True, eq=False)
class _Checked:
    """A move with rational shifts and differences."""

    move: Move
    found: Mapping[object, Fraction]

    def _shift(self, index: int) -> Fraction:
        return self.found[(self.move, index, "up")] - self.found[(self.move, index, "down")]

    def change(self, expression: Affine | Number) -> Fraction:
        total = Fraction(0)
        for symbol, coefficient in expression.terms.items() if isinstance(expression, Affine) else ():
            if symbol == QUERY:
                total += coefficient * self.move.by
            elif isinstance(symbol, Noise):
                total += coefficient * self._shift(symbol.index)
            else:
                total += coefficient * self.found[(self.move.source, symbol.name)]
        return total

    @property
    def shifts(self) -> tuple[Fraction, ...]:
        return tuple(self._shift(noise.index) for noise in self.move.step.noises)

    @property
    def keeps(self) -> bool:
        """Whether conditions, releases and the next state's differences are kept, by shifts that are allowed."""
        step = self.move.step
        for noise in step.noises:
            shift, allowed = self._shift(noise.index), price_of(noise.distribution)
            if (shift > 0 and allowed.up is None) or (shift < 0 and allowed.down is None):
                return False
            if noise.distribution.integer and shift:  # between corners such a shift would not be whole
                return False
        for condition in step.conditions:
            gain = self.change(condition.slack)
            if gain < 0 or (condition.relation is Relation.EQUAL and gain != 0):
                return False
        if any(self.change(number) != 0 for number in step.released):
            return False
        asked = [(value, self.found[(self.move.target, name)]) for name, value in step.updates.items()]
        return all(self.change(value) == difference for value, difference in asked)

    @property
    def cost(self) -> Fraction:
        total = Fraction(0)
        for noise in self.move.step.noises:
            shift, allowed = self._shift(noise.index), price_of(noise.distribution)
            total += abs(shift) * ((allowed.up if shift > 0 else allowed.down) or 0)
        return total


def _aligned(checked: Sequence[_Checked], found: Mapping[object, Fraction]) -> AlignedLoop:
    moves = tuple(AlignedMove(each.move, each.shifts, each.cost) for each in checked)
    left = _left(moves)
    cost = max(m.cost + (left[m.move.target] if m.move.target else 0) for m in moves if m.move.source is None)
    differences = {
        place: {name: found[(place, name)] for name, value in place[0] if value is SYMBOL and (place, name) in found}
        for place in left
    }
    return AlignedLoop(moves, differences, left, cost)


def _left(moves: Sequence[AlignedMove]) -> dict[Place, Fraction]:
    """What a run may cost from each place on: longest ways to the end, which no circle of steps may lengthen."""
    ends = [place for each in moves for place in (each.move.source, each.move.target)]
    left: dict[Place, Fraction] = {place: Fraction(0) for place in ends if place is not None}
    for _ in range(len(left) + 1):
        better = dict(left)
        for each in moves:
            source, target = each.move.source, each.move.target
            if source is not None:
                better[source] = max(better[source], each.cost + (left[target] if target is not None else 0))
        if better == left:
            return left
        left = better
    raise NotInductive("the cost grows with the number of steps")
