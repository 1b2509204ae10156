"""A proof written down: the JSON document that `veridp check` verifies without the search that found it.

docs/certificates.md tells the format field by field.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from veridp.errors import BadInput
from veridp.program.affine import Affine, Noise, Symbol
from veridp.program.distribution import Distribution, Geometric
from veridp.prove.events import NUMERIC, Event

if TYPE_CHECKING:
    from veridp.prove.proof import Proof
    from veridp.prove.shifts import Shift

FORMAT = "veridp-certificate"
VERSION = 1
WIDTH = 110  # of a line of the file, where the value can be split
ENTRY = re.compile(r"data\[(\d+)\]")
UPWARDS = 1 + 1e-12  # far more than the rounding of a logarithm, far less than anybody minds

Json = str | int | Sequence["Json"] | Mapping[str, "Json"]


def certificate_of(proof: Proof) -> dict[str, Json]:
    """The certificate of the proof; raises BadInput where it proves nothing, or what it proves cannot be written down.

    Its ε is that of the proof, rounded up where that is irrational. Nothing is checked here: this is left to
    `veridp.prove.check`, which believes nothing of what is written.
    """
    if proof.exact_epsilon is None:
        raise BadInput(f"{proof}: there is nothing to certify; prove another size, adjacency or mechanism")
    return _Writer(proof).document()


def certificate_text(document: Json) -> str:
    """The text of a certificate's file: JSON, with what belongs together on one line."""
    return _laid_out(document) + "\n"


def save_certificate(proof: Proof, file: str | Path) -> None:
    """Write the proof to a file; raises BadInput where it has no certificate, or the file cannot be written."""
    text = certificate_text(certificate_of(proof))
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{file}: {error.strerror}; give a file that can be written") from None


@dataclass
class _Writer:
    """Gathers the outputs and the noise that the events have in common while it writes them."""

    proof: Proof
    outputs: dict[str, int] = field(default_factory=dict)
    rows: dict[Noise, int] = field(default_factory=dict)

    def document(self) -> dict[str, Json]:
        proof, mechanism = self.proof, self.proof.mechanism
        events = [self._event(event, shifts) for event, shifts in zip(proof.events, proof.shifts, strict=True)]
        epsilon = max(_cost(e, shift) for e, row in zip(proof.events, proof.shifts, strict=True) for shift in row)
        return {
            "format": FORMAT,
            "version": VERSION,
            "mechanism": mechanism.name,
            "arguments": {name: _argument(value) for name, value in mechanism.values.items()},
            "adjacency": mechanism.adjacency.name,
            "size": proof.size,
            "data": "whole" if self.proof.whole else "real",
            "epsilon": str(epsilon),
            "polytopes": self._by_polytope([[str(Fraction(x)) for x in corner] for corner in proof.corners.tolist()]),
            "outputs": list(self.outputs),
            "noises": [{"draw": noise.index, **_distribution(noise.distribution)} for noise in self.rows],
            "events": events,
        }

    def _event(self, event: Event, shifts: Sequence[Shift]) -> Json:
        if event.output.count(NUMERIC) != len(event.numbers):
            raise BadInput(
                f"{self.proof.mechanism.name}: its output {event.output} has a {NUMERIC} of its own, which marks the "
                f"numeric entries in a certificate; let it return another character"
            )
        draws = [self.rows.setdefault(noise, len(self.rows)) for noise in event.noises]
        return {
            "output": self.outputs.setdefault(event.output, len(self.outputs)),
            "weight": str(event.weight),
            "paths": event.paths,
            "draws": draws,
            "conditions": [{**self._linear(c.slack), "relation": c.relation.value} for c in event.conditions],
            "numbers": [self._linear(number) for number in event.numbers],
            "shifts": self._by_polytope(
                [
                    {"moves": [str(move) for move in shift.moves or ()], "cost": str(_cost(event, shift))}
                    for shift in shifts
                ]
            ),
        }

    def _linear(self, expression: Affine) -> dict[str, Json]:
        noise: dict[str, Json] = {}
        data: dict[str, Json] = {}
        for symbol, coefficient in expression.terms.items():
            if isinstance(symbol, Noise):
                noise[str(self.rows[symbol])] = str(coefficient)
            else:
                data[_entry(symbol)] = str(coefficient)
        return {"noise": noise, "data": data, "constant": str(expression.constant)}

    def _by_polytope(self, values: Sequence[Json]) -> list[Json]:
        """The values of all corners, those of each polytope apart: monotone neighbours make two, others one."""
        if self.proof.mechanism.adjacency.name != "monotone":
            return [list(values)]
        half = len(values) // 2
        return [list(values[:half]), list(values[half:])]


def _cost(event: Event, shift: Shift) -> Fraction:
    """The cost as a rational that is not below the true one: the price of geometric noise is a logarithm."""
    logarithm = any(
        move and isinstance(noise.distribution, Geometric)
        for noise, move in zip(event.noises, shift.moves or (), strict=True)
    )
    return Fraction(f"{float(shift.cost) * UPWARDS:.14g}") if logarithm else Fraction(shift.cost)


def _argument(value: object) -> str:
    return str(value) if isinstance(value, Fraction) else repr(value)


def _entry(symbol: Symbol) -> str:
    found = ENTRY.fullmatch(symbol.name)
    if found is None:
        raise BadInput(f"{symbol.name} is left open, but is no entry of the data; give it a value")
    return found[1]


def _distribution(distribution: Distribution) -> dict[str, Json]:
    parameters = {name: str(value) for name, value in vars(distribution).items()}
    return {"kind": type(distribution).__name__.lower(), **parameters}


def _laid_out(value: Json, indent: str = "") -> str:
    """The value as JSON, on one line where it fits."""
    line = json.dumps(value, ensure_ascii=False)
    if len(indent) + len(line) <= WIDTH or not isinstance(value, list | dict) or not value:
        return line
    deeper = indent + "  "
    if isinstance(value, dict):
        parts = [f"{json.dumps(k, ensure_ascii=False)}: {_laid_out(v, deeper)}" for k, v in value.items()]
        opening, closing = "{", "}"
    else:
        parts = [_laid_out(entry, deeper) for entry in value]
        opening, closing = "[", "]"
    return f"{opening}\n{deeper}" + f",\n{deeper}".join(parts) + f"\n{indent}{closing}"
