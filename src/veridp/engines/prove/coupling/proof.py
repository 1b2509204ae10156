"""Proofs by couplings: the cases of a mechanism, which of them are neighbours, and the certificate."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache, partial
from typing import Any

from veridp.adjacency import Polytope
from veridp.engines.prove.alignment.proof import Proof, depends_on_whole
from veridp.engines.prove.cases import (
    DataCase,
    OutputPart,
    interval_of,
    interval_text,
    neighbouring,
    value_cases,
    values_of,
)
from veridp.engines.prove.certificate import (
    EventWriter,
    Json,
    carried_document,
    decimal_above,
    header,
    polytope_document,
    stated_cost,
)
from veridp.engines.prove.coupling.approximate import couple_with_delta
from veridp.engines.prove.coupling.search import (
    NO_DIFFERENCE,
    NO_LOSS,
    Coupling,
    CouplingLoss,
    Transport,
    couple,
    exponential_above,
)
from veridp.engines.prove.explanation import Blame, return_site
from veridp.engines.prove.opaque import has_opaque, pointwise_ratio
from veridp.engines.prove.records import bounds_on
from veridp.engines.prove.regions import are_neighbours, region_cases
from veridp.errors import BadInput, NotExplorable
from veridp.kernel.flow.loops import Loops
from veridp.kernel.path import Path
from veridp.kernel.symbols import number_text
from veridp.mechanism import Mechanism
from veridp_check.records import Seen

FEW_VALUES = 4  # all of which are looked at at once

# ------------------------------------------------------------------------------------------------------------ coupling
# Proofs by couplings: the cases of a mechanism, which of them are neighbours, and what each pair loses.


@dataclass(frozen=True, eq=False)
class CasePair:
    """Two neighbouring cases, and a coupling for each of their parts; `polytope` is a place in the proof's list."""

    left: int
    right: int
    polytope: int
    couplings: tuple[Coupling, ...]

    @property
    def loss(self) -> CouplingLoss | None:
        """What the parts lose together; None where one cannot be carried over."""
        total = NO_LOSS
        for coupling in self.couplings:
            if coupling.loss is None:
                return None
            total = total + coupling.loss
        return total

    @property
    def epsilon(self) -> float:
        return math.inf if (loss := self.loss) is None else loss.epsilon

    @property
    def order(self) -> tuple[float, bool, Fraction]:
        """What pairs are sorted by: as their losses are, and those that cannot be carried over last."""
        return (math.inf, True, Fraction(0)) if (loss := self.loss) is None else loss.order


@dataclass(frozen=True, eq=False)
class CouplingProof(Proof):
    """For all neighbours among the cases: the ε that couplings prove.

    Cases are values of the data, and then the proof is for these alone; or regions that make up all data.
    """

    cases: tuple[DataCase, ...]
    polytopes: tuple[Polytope, ...]
    pairs: tuple[CasePair, ...]
    records: tuple[Seen, ...] = field(default=(), kw_only=True)  # whose sums the data of the cases are

    @property
    def loss(self) -> CouplingLoss | None:
        """ε exactly, as a cost and the logarithm of a ratio; None where nothing is proved."""
        return self.worst.loss

    @property
    def worst(self) -> CasePair:
        """The pair of cases that loses most, or has no coupling."""
        return max(self.pairs, key=lambda pair: pair.order)

    @property
    def by_value(self) -> bool:
        return any(case.value is not None for case in self.cases) or self.polytopes == (NO_DIFFERENCE,)

    @property
    def certificate(self) -> dict[str, Any]:
        return coupling_certificate_of(self)

    @property
    def restriction(self) -> str:
        return (
            f"for the {len(self.cases)} data of its domain"
            if self.by_value
            else interval_text(self.mechanism, self.records)
        )

    @property
    def extent(self) -> str:
        what = "data" if self.by_value else "regions of data"
        parts = max(len(case.parts) for case in self.cases)
        independent = f", {parts} independent parts" if parts > 1 else ""
        return f"{len(self.cases)} {what}, {len(self.pairs)} ordered pairs of neighbours{independent}"

    @property
    def moves(self) -> list[list[float]]:
        return []

    def case_text(self, number: int) -> str:
        case = self.cases[number]
        if self.by_value:
            return case.text
        return " and ".join(condition.text() for condition in case.conditions) or "all data"

    @property
    def explained(self) -> str:
        worst = self.worst
        left, right = self.case_text(worst.left), self.case_text(worst.right)
        between = f"between {left} and {right}"
        missing = [coupling for coupling in worst.couplings if coupling.loss is None]
        if missing:
            return f"{between}, the output {missing[0].output} cannot be carried over"
        loss = worst.loss or NO_LOSS
        ratio = number_text(loss.ratio) if loss.ratio.denominator < 10**6 else f"{float(loss.ratio):.12g}"
        terms = [f"ln {ratio}"] * (loss.ratio != 1) + [number_text(loss.cost)] * (loss.cost != 0)
        outputs = [coupling.output for coupling in worst.couplings if coupling.epsilon > 0]
        which = (
            f"the output {outputs[0]}"
            if len(worst.couplings) == 1 and outputs
            else f"{len(outputs)} parts of the output"
        )
        return f"{between}, {which}: cost {' + '.join(terms) or '0'} = {worst.epsilon:.6g}"

    @property
    def blame(self) -> Blame | None:
        """The output that loses most, at the line where it was decided, or is returned."""
        if self.epsilon == 0:
            return None
        worst = self.worst
        part, coupling = max(enumerate(worst.couplings), key=lambda each: each[1].epsilon)
        left, right = self.case_text(worst.left), self.case_text(worst.right)
        events = [e for e in self.cases[worst.left].parts[part].events if e.output == coupling.output]
        sites = [site for event in events for site in event.sites]
        site = sites[-1] if sites else return_site(self.mechanism)
        if coupling.loss is None:
            sentence = f"the output {coupling.output} of {left} cannot be carried over to {right}"
        else:
            times = math.exp(coupling.epsilon)
            sentence = f"the output {coupling.output} is up to {times:.6g} times as likely on {left} as on {right}"
        return Blame("output", sentence, site.file, site.line, coupling.epsilon)


def prove_on_values(mechanism: Mechanism, size: int, delta: float = 0.0) -> CouplingProof:
    """The smallest ε at this δ that couplings prove for all neighbours over the finite domain.

    Of a mechanism that retries, which takes long to explore, two neighbours are looked at first: if there is no proof
    for these, there is none for all.
    """
    values = values_of(mechanism, size)
    neighbours = neighbouring(mechanism.adjacency, values)
    if not neighbours:
        raise NotExplorable(f"{mechanism.name}: no neighbours in its domain under {mechanism.adjacency}")
    if not delta and len(values) > FEW_VALUES and Loops.of(mechanism.bound()) is not None:
        first = _proof_of(mechanism, size, delta, [values[k] for k in neighbours[-1]], [(0, 1), (1, 0)])
        if first.epsilon == math.inf:
            return first
    return _proof_of(mechanism, size, delta, values, neighbours)


def _proof_of(
    mechanism: Mechanism, size: int, delta: float, values: Sequence[Any], neighbours: Sequence[tuple[int, int]]
) -> CouplingProof:
    cases = _shared(value_cases(mechanism, values, joined=bool(delta)))
    parts = {(a, b): list(zip(cases[a].parts, cases[b].parts, strict=True)) for a, b in neighbours}
    pure = cache(partial(couple, polytope=NO_DIFFERENCE))  # records in another order have the same parts

    def proof(coupled: Callable[[PairedParts], Sequence[Coupling]]) -> CouplingProof:
        pairs = [CasePair(a, b, 0, tuple(coupled(parts[a, b]))) for a, b in neighbours]
        return CouplingProof(mechanism, size, *_total(pairs), tuple(cases), (NO_DIFFERENCE,), tuple(pairs))

    def purely(paired: PairedParts) -> list[Coupling]:
        return [pure(*each) for each in paired]

    if not delta:
        return proof(purely)
    paid = cache(couple_with_delta)
    paying = replace(proof(lambda paired: _coupled_with_delta(paired, delta, paid)), at_delta=delta)
    hopeless = any(coupling.loss is None for each in parts.values() for coupling in purely(each))
    if hopeless and math.isfinite(paying.epsilon):
        return paying
    found = proof(purely)
    return paying if paying.epsilon < found.epsilon else found


PairedParts = Sequence[tuple[OutputPart, OutputPart]]


def _coupled_with_delta(
    parts: PairedParts, delta: float, paid: Callable[[OutputPart, OutputPart, float], Coupling]
) -> list[Coupling]:
    """Couplings that pay: of a pair of cases, the parts that differ share δ."""
    differing = sum(left is not right for left, right in parts)
    return [paid(left, right, 0.0 if left is right else delta / differing) for left, right in parts]


def _shared(cases: Sequence[DataCase]) -> list[DataCase]:
    """The cases, with parts that say the same being the same."""
    parts: dict[object, OutputPart] = {}
    return [replace(case, parts=tuple(parts.setdefault(part.key, part) for part in case.parts)) for case in cases]


def prove_on_regions(
    mechanism: Mechanism,
    size: int,
    paths: Sequence[Path],
    polytopes: tuple[Polytope, ...],
    records: tuple[Seen, ...] = (),
) -> CouplingProof:
    """The smallest ε that couplings prove for all data, region by region."""
    bounds = bounds_on(records)
    cases = region_cases(paths, bounds)
    pairs = []
    for p, polytope in enumerate(polytopes):
        for a, left in enumerate(cases):
            for b, right in enumerate(cases):
                if a != b and not are_neighbours(left, right, polytope, bounds):
                    continue
                (mine,), (theirs,) = left.parts, right.parts
                found = couple(mine, theirs, polytope, left.conditions)
                pairs.append(CasePair(a, b, p, (_for_all_data(found, mine),)))
    return CouplingProof(mechanism, size, *_total(pairs), tuple(cases), polytopes, tuple(pairs), records=records)


def _for_all_data(coupling: Coupling, part: OutputPart) -> Coupling:
    """The coupling, or none where it moves integer noise by what depends on the data: these need not be whole."""
    for each in coupling.transports:
        if depends_on_whole(part.pieces[each.source].noises, each.alignment):
            return Coupling(None, coupling.output, ())
    return coupling


def _total(pairs: Sequence[CasePair]) -> tuple[float, Fraction | None]:
    worst = max(pairs, key=lambda pair: pair.order)
    loss = worst.loss
    return worst.epsilon, loss.cost if loss is not None and loss.ratio == 1 else None


# ------------------------------------------------------------------------------------------------ coupling certificate
# A proof by couplings written down: cases, the parts that they are made of, and how parts are carried over.
#
# docs/certificates.md tells the format field by field.


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
        self.couplings: dict[tuple[int, int, int, Fraction], int] = {}
        self.coupling_documents: list[Json] = []
        self.losses: list[CouplingLoss] = []

    def document(self) -> dict[str, Json]:
        proof = self.proof
        cases: list[Json] = [self._case(case) for case in proof.cases]
        pairs: list[Json] = [self._pair(pair) for pair in proof.pairs]
        epsilon = max((_epsilon(self._losses(pair)) for pair in proof.pairs), default=Fraction(0))
        domain = None if proof.by_value else interval_of(proof.mechanism, proof.records)
        kind, delta = ("approximate", {"delta": str(Fraction(proof.at_delta))}) if proof.at_delta else ("coupling", {})
        return {
            **header(kind, proof.mechanism, proof.size, domain, epsilon, proof.records),
            **delta,
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
        value = case.text if self.proof.by_value else None
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
        key = (self._part(left), self._part(right), polytope, coupling.delta)  # pairs may split δ differently
        if key not in self.couplings:
            self.couplings[key] = len(self.coupling_documents)
            pure = not self.proof.at_delta
            loss = _stated_loss(left, right, coupling) if pure else coupling.loss or NO_LOSS
            self.losses.append(loss)
            self.coupling_documents.append(
                {
                    "left": key[0],
                    "right": key[1],
                    "cost": str(loss.cost),
                    **({"ratio": str(loss.ratio)} if pure else {"delta": str(coupling.delta)}),
                    "transports": [_transport(left, each, priced=pure) for each in coupling.transports],
                }
            )
        return self.couplings[key]


def _transport(left: OutputPart, each: Transport, *, priced: bool) -> Json:
    shifts = carried_document(left.pieces[each.source].noises, each.alignment, priced=priced)
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
    for output in left.by_output.keys() - carried:
        mine, theirs = (list(part.by_output.get(output, {}).values()) for part in (left, right))
        if has_opaque([*mine, *theirs]):
            most = pointwise_ratio(mine, theirs, [piece for piece in right.pieces if piece.weight]) or Fraction(0)
            ratio = max(ratio, most * exponential_above(-cost))
        else:
            weights = (sum((piece.weight for piece in pieces), start=Fraction(0)) for pieces in (mine, theirs))
            ratio = max(ratio, operator.truediv(*weights) * exponential_above(-cost))
    return ratio
