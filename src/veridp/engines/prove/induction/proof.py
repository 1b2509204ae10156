"""Proofs for every size: an alignment that is the same for every step of a loop, and its certificate."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Protocol

from veridp.adjacency import Adjacency, Phases
from veridp.budget import Deadline
from veridp.budget.child_process import contained
from veridp.claim import Claim
from veridp.engines.prove.aggregates.proof import AggregateProof, prove_aggregates
from veridp.engines.prove.alignment.proof import ProofForEverySize
from veridp.engines.prove.alignment.shifts import cost_of
from veridp.engines.prove.cases import certified_word
from veridp.engines.prove.certificate import Json, header, noise_document
from veridp.engines.prove.events import rational_arguments
from veridp.engines.prove.induction.system import QUERY, SYMBOL, LoopStep, LoopSystem, State, system_of
from veridp.engines.prove.replay import spot_check
from veridp.errors import EnginesDisagree, ExplorationDisagrees, NotInductive, NotSolved, VeridpError
from veridp.kernel.distributions import Number
from veridp.kernel.expressions import Affine
from veridp.kernel.symbols import Noise, Relation, Unknown
from veridp.mechanism import Function, Mechanism, as_mechanism
from veridp.numerics.linear import Infeasible, LinearProgram, solve
from veridp.numerics.simplex import Vertex
from veridp_check.checker import check
from veridp_check.document import LISTED

# ----------------------------------------------------------------------------------------------------------- induction
# Proofs for every size: an alignment that is the same for every step of a loop.
#
# For each state of the loop: by how much its numbers differ between the two runs, and for each step and each way the
# query may move: the shift of the step's noise that keeps its conditions, what it releases, and the differences that
# the
# next state asks for. All this is linear, so one linear program finds the cheapest; the cost of the worst run is added
# up
# along the states.


PLAIN_RUNS = 48  # of the function, on inputs of sizes up to some hundreds


def phases_of(adjacency: Adjacency, period: int) -> list[Phases]:
    """How queries may move, step by step; for neighbours that come in several polytopes, one for each.

    Between these corners the rest follows: shifts for corners, mixed, are shifts for what lies between them, at no more
    than the mixed cost. The checker has its own phases, by the name of the relation.
    """
    phases = None if certified_word(adjacency) == LISTED else adjacency.phases(period)
    if phases is None:
        raise NotInductive(f"induction does not support neighbours under {adjacency.name}")
    return phases


Place = tuple[State, str]


@dataclass(frozen=True, eq=False)
class Induction(ProofForEverySize):
    """ε for inputs of every size: proved step by step."""

    mechanism: Mechanism
    epsilon: float
    exact_epsilon: Fraction
    system: LoopSystem
    loops: tuple[AlignedLoop, ...]  # one for each polytope of differences

    @property
    def states(self) -> int:
        return len(self.system.steps)

    @property
    def certificate(self) -> dict[str, Any]:
        """The proof as a document that `veridp check` verifies without the search."""

        return induction_certificate_of(self, None)

    restriction = ""  # it holds for all numbers

    @property
    def privacy(self) -> str:
        """What is proved, in words."""
        return f"{self.epsilon:.6g}-DP"

    def keeps(self, claim: Claim) -> bool:
        """Whether the claim covers what is proved."""
        return claim.covers(self.epsilon)

    def __str__(self) -> str:
        return f"{self.mechanism} under {self.mechanism.adjacency}: {self.privacy} is proved for every size"


def prove_for_every_size(
    mechanism: Mechanism | Function, *, seconds: float = math.inf, **arguments: Any
) -> Induction | AggregateProof:
    """The smallest ε that an alignment alike for all steps, or for sums over all records, proves for every size.

    Raises NotInductive, with the reason, where the mechanism is no loop of like steps and sees more of its records than
    sums, or has no such alignment, and CutShort where the `seconds` are not enough.
    """
    bound = as_mechanism(mechanism, **arguments)
    search = prove_aggregates if bound.adjacency.on_records else _induction
    return contained(lambda _: search(bound), Deadline(seconds), known=(bound,))


def _induction(mechanism: Mechanism) -> Induction:
    system = system_in_rationals(mechanism)
    loops = [StepAlignment(system, phases).solved() for phases in phases_of(mechanism.adjacency, system.period)]
    cost = max(loop.cost for loop in loops)
    return _confirmed(Induction(mechanism, float(cost), cost, system, tuple(loops)))


def _confirmed(induction: Induction) -> Induction:
    """The proof, once the checker accepts its certificate and plain runs, also long ones, agree with it."""
    checked = check(induction.certificate)
    if checked.rejection is None:
        checked = spot_check(checked, induction.mechanism.bound(), PLAIN_RUNS, seed=0)
        if checked.rejection is not None:
            raise ExplorationDisagrees(f"{induction}, but at {checked.rejection.place}: {checked.rejection.reason}")
    if checked.rejection is not None:
        raise EnginesDisagree(
            f"{induction}, but the checker rejects the certificate at {checked.rejection.place}: "
            f"{checked.rejection.reason}; this is a fault in veridp, please report it"
        )
    return induction


def system_in_rationals(mechanism: Mechanism) -> LoopSystem:
    """Its steps, with decimal arguments for the rationals that they write down, where its code takes these."""
    try:
        return system_of(rational_arguments(mechanism))
    except NotInductive:
        raise
    except VeridpError:  # code that takes floats only: their binary values are used instead
        return system_of(mechanism)


@dataclass(frozen=True, eq=False)
class StepShift:
    """A step taken in a phase while the query moves by so much: from a place to the next (None: the end)."""

    source: Place | None
    step: LoopStep
    by: int
    target: Place | None


@dataclass(frozen=True, eq=False)
class AlignedMove:
    """A move with the shift of each noise that it draws, and what these cost."""

    move: StepShift
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
class StepAlignment:
    """The search for an alignment of all steps, where queries move as the phases say."""

    system: LoopSystem
    phases: Phases
    counted: bool = False  # whether phases count the queries, and end with them
    program: LinearProgram = field(default_factory=LinearProgram)
    columns: dict[object, int] = field(default_factory=dict)

    def moves(self) -> Iterator[StepShift]:
        """The moves that runs can come to, from the entries on."""
        first = next(iter(self.phases))
        pending: list[Place] = []
        for entry in self.system.entries.values():
            target = None if entry.target is None else (entry.target, first)
            pending += [] if target is None else [target]
            yield StepShift(None, entry, 0, target)
        seen: set[Place] = set()
        while pending:
            place = pending.pop()
            if place in seen:
                continue
            seen.add(place)
            for move in self._moves_from(place):
                pending += [] if move.target is None else [move.target]
                yield move

    def _moves_from(self, place: Place) -> Iterator[StepShift]:
        state, phase = place
        for step in self.system.steps[state].values():
            for by, following in self.phases[phase]:
                yield StepShift(place, step, by, None if step.target is None else (step.target, following))
        for step in self.system.exits[state].values() if self.may_end(phase) else ():
            yield StepShift(place, step, 0, None)

    def may_end(self, phase: str) -> bool:
        """Whether the queries may end in this phase: in any, unless phases count them."""
        return not self.counted or not self.phases[phase]

    # --------------------------------------------------------------------------------------- the linear program

    def _column(self, key: object) -> int:
        """The variable of a key: ε is what is to be least, and a difference may be negative."""
        if key not in self.columns:
            is_difference = isinstance(key, tuple) and len(key) == 2 and key[0] != "left"
            self.columns[key] = self.program.variable(Fraction(key == "epsilon"), free=is_difference)
        return self.columns[key]

    def _shift(self, move: StepShift, noise: Noise) -> dict[int, int]:
        """The variables of a shift, with their signs. Integer noise stays: between corners no shift of it is whole."""
        allowed = noise.distribution.price
        ways = () if noise.distribution.integer else (("up", allowed.up, 1), ("down", allowed.down, -1))
        return {self._column((move, noise.index, way)): sign for way, unit, sign in ways if unit is not None}

    def _change(self, move: StepShift, expression: Affine | Number) -> tuple[dict[int, Fraction], Fraction]:
        """By how much an expression differs between the two runs: coefficients of the variables, and a constant."""
        row: dict[int, Fraction] = {}
        constant = Fraction(0)
        for symbol, coefficient in expression.terms.items() if isinstance(expression, Affine) else ():
            if symbol == QUERY:
                constant += Fraction(coefficient) * move.by
            elif isinstance(symbol, Noise):
                row |= {column: sign * Fraction(coefficient) for column, sign in self._shift(move, symbol).items()}
            elif isinstance(symbol, Unknown):
                row[self._column((move.source, symbol.name))] = Fraction(coefficient)
        return row, constant

    def _add(self, move: StepShift) -> None:
        program = self.program
        for condition in move.step.conditions:
            add = program.zero if condition.relation is Relation.EQUAL else program.at_least_zero
            add(*self._change(move, condition.slack))
        for number in move.step.released:
            program.zero(*self._change(move, number))
        for name, value in move.step.updates.items():
            row, constant = self._change(move, value)
            place = self._column((move.target, name))
            row[place] = row.get(place, Fraction(0)) - 1
            program.zero(row, constant)
        costs = {self._column(("left", move.source) if move.source else "epsilon"): Fraction(1)}
        if move.target is not None:
            left = self._column(("left", move.target))
            costs[left] = costs.get(left, Fraction(0)) - 1
        for noise in move.step.noises:
            for column, sign in self._shift(move, noise).items():
                costs[column] = -noise.distribution.price.of(Fraction(sign))
        program.at_least_zero(costs)

    def solved(self) -> AlignedLoop:
        """The alignment whose worst run is the cheapest; of these, that whose shifts cost least altogether."""
        moves = list(self.moves())
        for move in moves:
            self._add(move)
        cheapest = _solution(self.program)
        few = self.program.with_rows(self.program.rows)
        few.zero({self._column("epsilon"): 1}, -cheapest.cost)
        few.costs = [Fraction(0)] * len(few.costs)
        for move in moves:
            for noise in move.step.noises:
                for column, sign in self._shift(move, noise).items():
                    few.costs[column] = noise.distribution.price.of(Fraction(sign))
        answer = _solution(few)
        found = {key: answer.values[column] for key, column in self.columns.items()}
        return _aligned([self._aligned_move(move, found) for move in moves], found)

    def _aligned_move(self, move: StepShift, found: Mapping[object, Fraction]) -> AlignedMove:
        shifts = tuple(
            found.get((move, noise.index, "up"), Fraction(0)) - found.get((move, noise.index, "down"), Fraction(0))
            for noise in move.step.noises
        )
        return AlignedMove(move, shifts, cost_of([noise.distribution.price for noise in move.step.noises], shifts))


def _solution(program: LinearProgram) -> Vertex:
    try:
        (answer,) = solve([program])
    except NotSolved as error:
        raise NotInductive(str(error)) from error
    if isinstance(answer, Infeasible):
        raise NotInductive("no alignment is the same for every step: the cost may grow with the size")
    return answer


def _aligned(moves: Sequence[AlignedMove], found: Mapping[object, Fraction]) -> AlignedLoop:
    left = _left(moves)
    cost = max(m.cost + (left[m.move.target] if m.move.target else 0) for m in moves if m.move.source is None)
    differences = {
        place: {name: found[(place, name)] for name, value in place[0] if value is SYMBOL and (place, name) in found}
        for place in left
    }
    return AlignedLoop(tuple(moves), differences, left, cost)


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


# ----------------------------------------------------------------------------------------------- induction certificate
# A proof for every size written down: the loop as a finite system, and how each of its steps is carried over.
#
# docs/certificates.md tells the format field by field.


class ProofBySteps(Protocol):
    """What such a certificate is written from."""

    @property
    def mechanism(self) -> Mechanism: ...

    @property
    def exact_epsilon(self) -> Fraction | None: ...

    @property
    def system(self) -> LoopSystem: ...

    @property
    def loops(self) -> tuple[AlignedLoop, ...]: ...


def induction_certificate_of(proof: ProofBySteps, size: int | None) -> dict[str, Json]:
    """The certificate of the proof. Nothing is checked here: `veridp_check.checker` believes nothing of it."""
    return _Writer(proof, size).document()


@dataclass
class _Writer:
    proof: ProofBySteps
    size: int | None
    states: dict[State, int] = field(default_factory=dict)
    steps: dict[LoopStep, int] = field(default_factory=dict)
    rows: dict[tuple[int, object], int] = field(default_factory=dict)
    noises: list[Json] = field(default_factory=list)

    def document(self) -> dict[str, Json]:
        proof, system = self.proof, self.proof.system
        self.states = {state: number for number, state in enumerate(system.steps)}
        steps = [
            *self._steps("start", None, system.entries.values()),
            *(s for state in self.states for s in self._steps("step", state, system.steps[state].values())),
            *(s for state in self.states for s in self._steps("end", state, system.exits[state].values())),
        ]
        return {
            **header("induction", proof.mechanism, self.size, None, proof.exact_epsilon or Fraction(0)),
            "period": system.period,
            "noises": self.noises,
            "states": [_state(state) for state in self.states],
            "steps": steps,
            "alignments": [self._alignment(loop) for loop in proof.loops],
        }

    def _steps(self, when: str, state: State | None, steps: Iterable[LoopStep]) -> Iterable[Json]:
        for step in steps:
            self.steps[step] = len(self.steps)
            draws = [self._row(noise) for noise in step.noises]
            yield {
                "when": when,
                "from": None if state is None else self.states[state],
                "to": None if step.target is None else self.states[step.target],
                "draws": draws,
                "conditions": [
                    {**self._linear(c.slack, step.noises, draws), "relation": c.relation.value} for c in step.conditions
                ],
                "output": list(step.output),
                "numbers": [self._linear(number, step.noises, draws) for number in step.released],
                "updates": {n: self._linear(value, step.noises, draws) for n, value in step.updates.items()},
            }

    def _row(self, noise: Noise) -> int:
        """The row of the noise: draws of one place and distribution share one, whatever step they are of."""
        key = (noise.index, noise.distribution)
        if key not in self.rows:
            self.rows[key] = len(self.noises)
            self.noises.append(noise_document(noise))
        return self.rows[key]

    def _linear(self, expression: Affine | Number, noises: Sequence[Noise], draws: Sequence[int]) -> dict[str, Json]:
        row = {noise: str(number) for noise, number in zip(noises, draws, strict=True)}
        noise: dict[str, Json] = {}
        state: dict[str, Json] = {}
        query = "0"
        for symbol, coefficient in expression.terms.items() if isinstance(expression, Affine) else ():
            if isinstance(symbol, Noise):
                noise[row[symbol]] = str(coefficient)
            elif symbol == QUERY:
                query = str(coefficient)
            else:
                state[symbol.name] = str(coefficient)
        constant = expression.constant if isinstance(expression, Affine) else expression
        return {"noise": noise, "query": query, "state": state, "constant": str(constant)}

    def _alignment(self, loop: AlignedLoop) -> Json:
        places: list[Json] = [
            {
                "state": self.states[state],
                "phase": phase,
                "differences": {name: str(value) for name, value in loop.differences[state, phase].items()},
                "left": str(left),
            }
            for (state, phase), left in loop.left.items()
        ]
        moves: list[Json] = [
            {
                "step": self.steps[each.move.step],
                "phase": None if each.move.source is None else each.move.source[1],
                "query": str(each.move.by),
                "moves": [str(shift) for shift in each.shifts],
                "cost": str(each.cost),
            }
            for each in loop.moves
        ]
        return {"places": places, "moves": moves}


def _state(state: State) -> Json:
    return {
        "constants": {name: value for name, value in state if isinstance(value, str)},
        "symbols": [name for name, value in state if value is SYMBOL],
    }
