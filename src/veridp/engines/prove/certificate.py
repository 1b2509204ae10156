"""A proof written down: the JSON document that `veridp check` verifies without the search that found it.

docs/certificates.md tells the format field by field.
"""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from veridp.adjacency import Box, Polytope
from veridp.claim import CLAIM_TOLERANCE
from veridp.engines.prove.alignment.proof import Alignment, CornerShifts, weight_cost
from veridp.engines.prove.alignment.shifts import Rule, Shift, cost_of
from veridp.engines.prove.alignment.weight_slope import DataWeight
from veridp.engines.prove.cases import certified_word, interval_of
from veridp.engines.prove.events import NoiseEvent, entry_of, name_of
from veridp.engines.prove.formulas import formulas_document
from veridp.engines.prove.opaque import Opaque
from veridp.engines.prove.records import records_document
from veridp.errors import BadInput
from veridp.kernel.expressions import Affine, Condition
from veridp.kernel.output import DictItems, Raised, is_finite_number, leaf_key, leaf_text
from veridp.kernel.returned import identity
from veridp.kernel.symbols import Derived, Noise
from veridp.kernel.weights import ExponentialSum
from veridp.mechanism import Mechanism
from veridp.notions import RenyiDP
from veridp.tradeoff import TradeoffCurve
from veridp_check.alignment.checker import loss_range
from veridp_check.alignment.reader import read_alignment
from veridp_check.document import NUMERIC
from veridp_check.formulas import FormulaMap
from veridp_check.records import Seen

if TYPE_CHECKING:
    from veridp.engines.prove.alignment.divergence import DivergenceProof
    from veridp.engines.prove.alignment.proof import AlignmentProof

FORMAT = "veridp-certificate"
VERSION = 3
WIDTH = 110  # of a line of the file, where the value can be split
LEAST_DELTA = 1e-18  # far more than the absolute rounding of a δ, far less than that of a trade-off curve
UPWARDS = 1 + 1e-12  # far more than the rounding of a logarithm, far less than anybody minds

Json = str | int | None | Sequence["Json"] | Mapping[str, "Json"]


def certificate_of(proof: AlignmentProof) -> dict[str, Json]:
    """The certificate of the proof; raises BadInput where it proves nothing, or what it proves cannot be written down.

    Its ε is that of the proof, rounded up where that is irrational. Nothing is checked here: this is left to
    `veridp_check.checker`, which believes nothing of what is written.
    """
    epsilon = (
        max(
            stated_cost(event.noises, each) + Fraction(weight_cost(event, polytope))
            for event, row in zip(proof.events, proof.alignments, strict=True)
            for polytope, each in enumerate(row)
        )
        if proof.exact_epsilon is not None
        else None
    )
    document = _document(proof, "alignment", epsilon)
    if not any(isinstance(event.weight, DataWeight) for event in proof.events):
        return document
    spread = loss_range(read_alignment(document))  # by the checker's own rule, which is then applied to what is stated
    return document if spread is None else {**document, "rho": str(spread**2 / 8)}


def divergence_certificate(proof: DivergenceProof) -> dict[str, Json]:
    """The same for a proof of (ε, δ): its shifts have no costs of their own."""
    notions = {name: None if value is None else str(value) for name, value in proof.exact_notions.items()}
    stated: dict[str, Json] = {"delta": str(Fraction(proof.at_delta)), **notions}
    point = proof.epsilon, proof.at_delta
    if proof.claim is not None and isinstance(proof.claim.notion, RenyiDP) and proof.is_known:
        stated["rdp"] = [
            [str(Fraction(order)), str(Fraction(proof.divergence(order)))] for order in proof.claim.notion.orders
        ]
    lines = None
    if proof.claim is not None and isinstance(proof.claim.notion, TradeoffCurve) and not proof.claim.covers(*point):
        lines = proof.claim.notion.raised(CLAIM_TOLERANCE).lines_from([point], proof.delta)
    if lines:
        stated["profile"] = [[str(Fraction(e)), str(Fraction(d * UPWARDS + LEAST_DELTA))] for e, d in lines]
    return {**_document(proof, "divergence", proof.exact_epsilon), **stated}


def certificate_text(document: Json) -> str:
    """The text of a certificate's file: JSON, with what belongs together on one line."""
    return _laid_out(document) + "\n"


class Certified(Protocol):
    """A proof that can be written down."""

    @property
    def certificate(self) -> dict[str, Json]: ...


def save_certificate(proof: Certified, file: str | Path) -> None:
    """Write the proof to a file; raises BadInput where it has no certificate, or the file cannot be written."""
    text = certificate_text(proof.certificate)
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{file}: {error.strerror}; give a file that can be written") from None


@dataclass
class EventWriter:
    """Writes events down, and gathers the noise that they have in common while it does so."""

    rows: dict[Noise, int] = field(default_factory=dict)

    def event(self, event: NoiseEvent) -> dict[str, Json]:
        """What runs of the event draw, satisfy and release."""
        functions: list[Json] = [
            {"name": name_of(function), "of": list(event.arguments_of(place))}
            for place, function in enumerate(event.functions)
        ]
        return {
            "weight": self.weight(event.weight) if isinstance(event.weight, DataWeight) else str(event.weight),
            "draws": [self.rows.setdefault(noise, len(self.rows)) for noise in event.noises],
            "conditions": [self.condition(condition, event.functions) for condition in event.conditions],
            "numbers": [self.linear(number, event.functions) for number in event.numbers],
            **({"functions": functions} if functions else {}),
        }

    def weight(self, weight: DataWeight) -> dict[str, Json]:
        """The weight of an event in each region of the data, and what it costs over each polytope."""
        pieces: list[Json] = [
            {
                "conditions": [self.condition(condition) for condition in piece.conditions],
                "numerator": exponential_document(piece.weight.numerator),
                "divisors": [exponential_document(divisor) for divisor in piece.weight.divisors],
                "by": list(piece.by),
            }
            for piece in weight.pieces
        ]
        return {"pieces": pieces, "costs": [str(cost) for cost in weight.costs]}

    def condition(self, condition: Condition, functions: Sequence[Derived] = ()) -> dict[str, Json]:
        return {**self.linear(condition.slack, functions), "relation": condition.relation.value}

    def linear(self, expression: Affine, functions: Sequence[Derived] = ()) -> dict[str, Json]:
        noise: dict[str, Json] = {}
        data: dict[str, Json] = {}
        computed: dict[str, Json] = {}
        for symbol, coefficient in expression.terms.items():
            if isinstance(symbol, Noise):
                noise[str(self.rows[symbol])] = str(coefficient)
            elif isinstance(symbol, Derived):
                computed[str(functions.index(symbol))] = str(coefficient)
            else:
                data[str(entry_of(symbol))] = str(coefficient)
        linear: dict[str, Json] = {"noise": noise, "data": data, "constant": str(expression.constant)}
        return {**linear, "functions": computed} if computed else linear

    def noises(self) -> list[Json]:
        return [noise_document(noise) for noise in self.rows]


def exponential_document(total: ExponentialSum) -> list[Json]:
    """A sum of exponentials, term by term."""
    return [
        {
            "factor": str(factor),
            "data": {str(entry_of(symbol)): str(c) for symbol, c in exponent if symbol is not None},
            "constant": str(sum((c for symbol, c in exponent if symbol is None), start=Fraction(0))),
        }
        for exponent, factor in total.terms.items()
    ]


def header(
    kind: str,
    mechanism: Mechanism,
    size: int | None,
    domain: tuple[Fraction, Fraction] | None,
    epsilon: Fraction,
    records: Sequence[Seen] = (),
) -> dict[str, Json]:
    """What certificates of all kinds begin with: what is proved, of which mechanism and for which data."""
    relation = mechanism.adjacency
    return {
        "format": FORMAT,
        "version": VERSION,
        "kind": kind,
        "mechanism": mechanism.name,
        "arguments": {name: argument_text(value) for name, value in mechanism.values.items()},
        "adjacency": certified_word(relation),
        "size": 1 if relation.single else size,  # one person's value
        "domain": None if domain is None else [str(end) for end in domain],
        "epsilon": str(epsilon),
        **({"records": [_seen(each) for each in records]} if records else {}),
    }


def _seen(records: Seen) -> Json:
    return formulas_document(records) if isinstance(records, FormulaMap) else records_document(records)


def _document(proof: AlignmentProof, kind: str, epsilon: Fraction | None) -> dict[str, Json]:
    if epsilon is None:
        raise BadInput(f"{proof}: there is nothing to certify; prove another size, adjacency or mechanism")
    writer = EventWriter()
    outputs: dict[str, int] = {}
    events: list[Json] = []
    for event, row in zip(proof.events, proof.alignments, strict=True):
        number = outputs.setdefault(str(event.output), len(outputs))
        carried = [carried_document(event.noises, alignment, priced=not proof.at_delta) for alignment in row]
        events.append({"output": number, "paths": event.paths, **writer.event(event), "shifts": carried})
    return {
        **header(
            kind,
            proof.mechanism,
            proof.size,
            interval_of(proof.mechanism, proof.records),
            epsilon,
            proof.records,
        ),
        "data": "whole" if proof.whole else "real",
        "polytopes": [polytope_document(polytope) for polytope in proof.polytopes],
        "outputs": list(outputs),
        "noises": writer.noises(),
        "events": events,
    }


def polytope_document(polytope: Polytope) -> Json:
    """A box by its ends, or a hull by its corners."""
    if isinstance(polytope, Box):
        return {"low": [str(x) for x in polytope.low], "high": [str(x) for x in polytope.high]}
    return {"corners": [[str(x) for x in corner] for corner in polytope.corners()]}


def carried_document(noises: Sequence[Noise], alignment: Alignment, *, priced: bool = True) -> dict[str, Json]:
    """The shifts of an alignment: a rule, or a table; with what they cost where they are priced."""
    form = alignment.form
    if isinstance(form, Rule):
        moves: list[Json] = [
            {"constant": str(constant), "data": {str(i): str(slope) for i, slope in slopes.items()}}
            for constant, slopes in zip(form.constants, form.slopes, strict=True)
        ]
        return {"rule": moves, **({"cost": str(stated_cost(noises, alignment))} if priced else {})}
    table: list[Json] = [
        {
            "moves": [str(move) for move in shift.moves or ()],
            **({"cost": str(_shift_cost(noises, shift, form.shifts))} if priced else {}),
        }
        for shift in form.shifts
    ]
    return {"entries": list(form.entries), "at": "whole" if form.whole else "corners", "table": table}


def stated_cost(noises: Sequence[Noise], alignment: Alignment) -> Fraction:
    """What the alignment costs at most, as it is written down."""
    form = alignment.form
    if isinstance(form, CornerShifts):
        return max(_shift_cost(noises, shift, form.shifts) for shift in form.shifts)
    moved = [bool(c or slopes) for c, slopes in zip(form.constants, form.slopes, strict=True)]
    return _rounded_up(noises, moved, alignment.cost)


def _shift_cost(noises: Sequence[Noise], shift: Shift, table: Sequence[Shift]) -> Fraction:
    """What a shift is said to cost: its own cost, or what all of the table cost at once."""
    own = cost_of([noise.distribution.price for noise in noises], shift.moves or (Fraction(0),) * len(noises))
    stated = [shift] if shift.cost == own else table
    moved = [any(moves) for moves in zip(*(each.moves or () for each in stated), strict=True)]
    return _rounded_up(noises, moved, shift.cost)


def _rounded_up(noises: Sequence[Noise], moved: Sequence[bool], cost: Fraction | float) -> Fraction:
    """The cost as a rational that is not below the true one: the price of geometric noise is a logarithm."""
    logarithm = any(m and n.distribution.price.rounded for n, m in zip(noises, moved, strict=True))
    return decimal_above(float(cost)) if logarithm else Fraction(cost)


def decimal_above(x: float) -> Fraction:
    """A decimal just above a positive number that is known up to rounding."""
    return Fraction(f"{x * UPWARDS:.14g}")


def argument_text(value: object) -> str:
    """An argument as Python writes it, a fraction as p/q."""
    return str(value) if isinstance(value, Fraction) else repr(value)


def noise_document(noise: Noise) -> dict[str, Json]:
    """A draw: its place among the draws of a run, its kind and its parameters; and how code makes it of others."""
    parameters = {name: str(value) for name, value in noise.distribution.parameters.items()}
    made: dict[str, Json] = {"made": noise.formula} if noise.formula else {}
    if isinstance(noise.distribution, Opaque):
        made["of"] = [source.index for source in noise.distribution.sources]
    return {"draw": noise.index, "kind": noise.distribution.kind, **parameters, **made}


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


# -------------------------------------------------------------------------------------------------- outputs, read again


def output_matches(text: str, numbers: Sequence[float], output: Any) -> bool:
    """Whether the output is the one that is written in the text, with these numbers in place of its marks."""
    if isinstance(output, Raised) or text.startswith("raises "):
        return text == leaf_text(output) if isinstance(output, Raised) else False
    try:
        pattern = _pattern(ast.parse(text.replace(NUMERIC, "..."), mode="eval").body)
    except (ValueError, SyntaxError):
        raise BadInput(f"the output {text} is not a Python literal, which a spot check needs") from None
    left = list(numbers)
    return _alike(pattern, identity(output).tree, left) and not left


def _pattern(node: ast.expr) -> Any:
    """The tree of an output that is written as text; an Ellipsis stands for any number."""
    match node:
        case ast.List(elts=entries) | ast.Tuple(elts=entries):
            return tuple(map(_pattern, entries))
        case ast.Dict(keys=keys, values=values):
            return DictItems((_pattern(key), _pattern(value)) for key, value in zip(keys, values, strict=True) if key)
        case ast.Name(id="nan" | "inf" as name):
            return float(name)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Name(id="inf")):
            return -math.inf
    return ast.literal_eval(node)


def _alike(pattern: Any, tree: Any, numbers: list[float]) -> bool:
    if pattern is ...:
        return bool(numbers) and is_finite_number(tree) and _close(numbers.pop(0), tree)
    if isinstance(pattern, tuple):
        same = type(pattern) is type(tree) and len(pattern) == len(tree)
        return same and all(_alike(a, b, numbers) for a, b in zip(pattern, tree, strict=True))
    if is_finite_number(pattern) and is_finite_number(tree):
        return _close(pattern, tree)
    return leaf_key(pattern) == leaf_key(tree)


def _close(first: float, second: float) -> bool:
    return math.isclose(first, second, rel_tol=1e-6, abs_tol=1e-6)
