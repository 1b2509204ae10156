"""What a certificate says that differs from what its target says of itself: arguments, neighbours, data and claim."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from veridp.adjacency import BY_NAME
from veridp.engines.prove.cases import certified_word, has_finite_domain, interval_of, values_of
from veridp.engines.prove.certificate import argument_text
from veridp.mechanism import Mechanism
from veridp_check.alignment_reader import Certificate, DifferenceBox
from veridp_check.bounds_reader import Enclosed
from veridp_check.coupling_reader import Cases
from veridp_check.document import LISTED, Stated


@dataclass(frozen=True)
class Difference:
    """A field in which a certificate and its target differ, with what either says."""

    field: str
    certificate: str
    target: str

    def __str__(self) -> str:
        return f"{self.field} ({self.certificate} in the certificate, {self.target} in the target)"


def target_differences(certificate: Stated, target: Mechanism) -> list[Difference]:
    """Where the certificate does not say what the target does; for a target with its own arguments.

    An ε below the claim, and a proof for every size or for all numbers, cover what the target says and are no
    differences.
    """
    found = [
        Difference("mechanism", certificate.mechanism, target.name),
        *_arguments(certificate, target),
        Difference("adjacency", certificate.adjacency, _adjacency(certificate, target)),
        *_data(certificate, target),
        *_claim(certificate, target),
    ]
    return [each for each in found if each.certificate != each.target]


def _arguments(certificate: Stated, target: Mechanism) -> Iterator[Difference]:
    known = {name: argument_text(value) for name, value in target.values.items()}
    for name in {**certificate.arguments, **known}:
        yield Difference(f"argument {name}", certificate.arguments.get(name, "none"), known.get(name, "none"))


def _adjacency(certificate: Stated, target: Mechanism) -> str:
    """The target's relation in the certificate's words: `listed` where it has just the differences listed."""
    relation = target.adjacency
    if certificate.adjacency != LISTED or certified_word(relation) != LISTED:
        return relation.name
    polytopes = certificate.polytopes if isinstance(certificate, Certificate | Cases) else ()
    corners = {c for p in polytopes for c in (_corners(p) if isinstance(p, DifferenceBox) else p.corners)}
    own = relation.vertices(certificate.size or 1)
    same = own is not None and corners == {tuple(map(Fraction, corner)) for corner in own.tolist()}
    return LISTED if same else f"{relation.name}, with other differences"


def _corners(box: DifferenceBox) -> Iterator[tuple[Fraction, ...]]:
    for corner in box.corners(range(len(box.low))):
        yield tuple(corner.values())


def _single(certificate: Stated) -> bool:
    """Whether the data of the certificate are one value, which has no size."""
    return certificate.adjacency in BY_NAME and BY_NAME[certificate.adjacency].single


def _data(certificate: Stated, target: Mechanism) -> Iterator[Difference]:
    if certificate.size is not None and not _single(certificate):
        yield Difference("size", str(certificate.size), str(target.size))
    if isinstance(certificate, Certificate) and certificate.data == "whole":
        yield Difference("data", "whole numbers", "numbers")
    by_value = isinstance(certificate, Enclosed | Cases) and certificate.cases[0].value is not None
    if by_value and isinstance(certificate, Enclosed | Cases):
        mine = sorted(str(case.value) for case in certificate.cases)
        theirs = sorted(map(repr, values_of(target, certificate.size or 1))) if has_finite_domain(target) else None
        others = "an interval" if theirs is None else "the same" if theirs == mine else f"{len(theirs)} others"
        yield Difference("domain", "the same" if theirs == mine else f"{len(mine)} values", others)
    elif certificate.domain is not None:
        yield Difference("domain", _interval(certificate.domain), _interval(interval_of(target)))


def _interval(ends: tuple[Fraction, Fraction] | None) -> str:
    return "no interval" if ends is None else f"[{float(ends[0]):g}, {float(ends[1]):g}]"


def _claim(certificate: Stated, target: Mechanism) -> Iterator[Difference]:
    claim = target.claim
    if claim is None:
        yield Difference("ε", f"{float(certificate.epsilon):.10g}", "no claim")
    elif not claim.covers(float(certificate.epsilon)):
        yield Difference("ε", f"{float(certificate.epsilon):.10g}", f"a claim of {claim.epsilon:.10g}")
