"""A proof by couplings written down: cases, the parts that they are made of, and how parts are carried over.

docs/certificates.md tells the format field by field.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from veridp.engines.prove.cases import DataCase, OutputPart
from veridp.engines.prove.certificate import (
    EventWriter,
    Json,
    carried_document,
    decimal_above,
    header,
    polytope_document,
    stated_cost,
)
from veridp.engines.prove.coupling_search import Coupling, CouplingLoss, Transport, exponential_above
from veridp.engines.prove.neighbours import interval_of
from veridp.engines.prove.pieces import WeightedEvent
from veridp.errors import BadInput
from veridp.kernel.template import Template

if TYPE_CHECKING:
    from veridp.engines.prove.coupling import CasePair, CouplingProof


def coupling_certificate_of(proof: CouplingProof) -> dict[str, Json]:
    """The certificate of the proof; raises BadInput where it proves nothing, or cannot be written down.

    Its ε is that of the proof, rounded up where a logarithm comes in. Nothing is checked here: this is left to
    `veridp_check.checker`, which believes nothing of what is written.
    """
    if math.isinf(proof.epsilon):
        raise BadInput(f"{proof}: there is nothing to certify; prove another size, adjacency or mechanism")
    return _Writer(proof).document()


class _Writer:
    def __init__(self, proof: CouplingProof) -> None:
        self.proof = proof
        self.events = EventWriter()
        self.parts: dict[OutputPart, int] = {}
        self.part_documents: list[Json] = []
        self.couplings: dict[tuple[int, int, int], int] = {}
        self.coupling_documents: list[Json] = []
        self.losses: list[CouplingLoss] = []

    def document(self) -> dict[str, Json]:
        proof = self.proof
        cases: list[Json] = [self._case(case) for case in proof.cases]
        pairs: list[Json] = [self._pair(pair) for pair in proof.pairs]
        epsilon = max((_epsilon(self._losses(pair)) for pair in proof.pairs), default=Fraction(0))
        domain = None if proof.by_value else interval_of(proof.mechanism)
        return {
            **header("coupling", proof.mechanism, proof.size, domain, epsilon),
            "polytopes": [] if proof.by_value else [polytope_document(polytope) for polytope in proof.polytopes],
            "noises": self.events.noises(),
            "shape": proof.cases[0].shape,
            "parts": self.part_documents,
            "cases": cases,
            "couplings": self.coupling_documents,
            "pairs": pairs,
        }

    def _case(self, case: DataCase) -> Json:
        conditions: list[Json] = [self.events.condition(condition) for condition in case.conditions]
        value = repr(case.value) if self.proof.by_value else None
        return {"value": value, "conditions": conditions, "parts": [self._part(part) for part in case.parts]}

    def _part(self, part: OutputPart) -> int:
        if part not in self.parts:
            self.parts[part] = len(self.part_documents)
            events: list[Json] = [{"output": str(event.output), **self.events.event(event)} for event in part.events]
            entries = None if part.entries is None else list(part.entries)
            self.part_documents.append({"entries": entries, "events": events})
        return self.parts[part]

    def _pair(self, pair: CasePair) -> Json:
        return {
            "left": pair.left,
            "right": pair.right,
            "polytope": None if self.proof.by_value else pair.polytope,
            "couplings": self._coupling_numbers(pair),
        }

    def _coupling_numbers(self, pair: CasePair) -> list[int]:
        lefts, rights = self.proof.cases[pair.left].parts, self.proof.cases[pair.right].parts
        return [
            self._coupling(left, right, pair.polytope, coupling)
            for left, right, coupling in zip(lefts, rights, pair.couplings, strict=True)
        ]

    def _losses(self, pair: CasePair) -> list[CouplingLoss]:
        return [self.losses[number] for number in self._coupling_numbers(pair)]

    def _coupling(self, left: OutputPart, right: OutputPart, polytope: int, coupling: Coupling) -> int:
        key = (self._part(left), self._part(right), polytope)
        if key not in self.couplings:
            self.couplings[key] = len(self.coupling_documents)
            loss = _stated_loss(left, right, coupling)
            self.losses.append(loss)
            self.coupling_documents.append(
                {
                    "left": key[0],
                    "right": key[1],
                    "cost": str(loss.cost),
                    "ratio": str(loss.ratio),
                    "transports": [_transport(left, each) for each in coupling.transports],
                }
            )
        return self.couplings[key]


def _transport(left: OutputPart, each: Transport) -> Json:
    shifts = carried_document(left.pieces[each.source].noises, each.alignment)
    return {"from": each.source, "to": each.target, "share": str(each.share), "shifts": shifts}


def _epsilon(losses: Sequence[CouplingLoss]) -> Fraction:
    """A rational that is not below what the parts lose together."""
    cost = sum((loss.cost for loss in losses), start=Fraction(0))
    ratio = math.prod((loss.ratio for loss in losses), start=Fraction(1))
    return cost if ratio == 1 else decimal_above(CouplingLoss(cost, ratio).epsilon)


def _stated_loss(left: OutputPart, right: OutputPart, coupling: Coupling) -> CouplingLoss:
    """A cost and a ratio that no output exceeds, with the costs of shifts as they are written down."""
    worst = coupling.loss or CouplingLoss(Fraction(0), Fraction(1))
    exact = _over(left, right, coupling.transports, worst.cost)
    if exact >= 1:
        return CouplingLoss(worst.cost, exact)
    cost = decimal_above(coupling.epsilon) if coupling.epsilon > 0 else Fraction(0)
    return CouplingLoss(cost, max(_over(left, right, coupling.transports, cost), Fraction(1)))


def _over(left: OutputPart, right: OutputPart, transports: Sequence[Transport], cost: Fraction) -> Fraction:
    """The largest ratio, after so much is paid, of what comes into an event to the probability of that event.

    Outputs without noise to shift are compared as a whole.
    """
    ratio = Fraction(0)
    load: dict[int, Fraction] = {}
    for each in transports:
        source = left.pieces[each.source]
        factor = exponential_above(stated_cost(source.noises, each.alignment) - cost)
        load[each.target] = load.get(each.target, Fraction(0)) + source.weight * each.share * factor
    for target, amount in load.items():
        ratio = max(ratio, amount / right.pieces[target].weight)
    carried = {left.pieces[each.source].event.output for each in transports}
    for output in {piece.event.output for piece in left.pieces} - carried:
        mine, theirs = _weight(left.pieces, output), _weight(right.pieces, output)
        if mine:
            ratio = max(ratio, mine / theirs * exponential_above(-cost))
    return ratio


def _weight(pieces: Sequence[WeightedEvent], output: Template) -> Fraction:
    return sum((piece.weight for piece in pieces if piece.event.output == output), start=Fraction(0))
