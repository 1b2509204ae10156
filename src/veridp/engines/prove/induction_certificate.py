"""A proof for every size written down: the loop as a finite system, and how each of its steps is carried over.

docs/certificates.md tells the format field by field.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from veridp.engines.prove.certificate import Json, header, noise_document
from veridp.engines.prove.system import QUERY, SYMBOL, LoopStep, State
from veridp.kernel.distributions import Number
from veridp.kernel.expressions import Affine
from veridp.kernel.symbols import Noise

if TYPE_CHECKING:
    from veridp.engines.prove.induction import AlignedLoop, Induction


def induction_certificate_of(proof: Induction) -> dict[str, Json]:
    """The certificate of the proof. Nothing is checked here: `veridp_check.checker` believes nothing of it."""
    return _Writer(proof).document()


@dataclass
class _Writer:
    proof: Induction
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
            **header("induction", proof.mechanism, None, None, proof.exact_epsilon),
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
