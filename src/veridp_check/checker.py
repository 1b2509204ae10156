"""The verdict on a certificate: the steps that verify its kind, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from veridp_check.alignment.checker import ALIGNMENT_STEPS
from veridp_check.alignment.divergence import DIVERGENCE_STEPS
from veridp_check.alignment.reader import read_alignment, read_divergence
from veridp_check.bounds.checker import BOUNDS_STEPS
from veridp_check.bounds.reader import read_bounds
from veridp_check.bounds.redrawn import REDRAWN_STEPS, read_redrawn
from veridp_check.composition.checker import COMPOSITION_STEPS, read_composition
from veridp_check.composition.rounds import ROUNDS_STEPS, read_rounds
from veridp_check.coupling.approximate import APPROXIMATE_STEPS
from veridp_check.coupling.checker import COUPLING_STEPS
from veridp_check.coupling.reader import read_approximate, read_couplings
from veridp_check.document import CertificateFlaw, Stated, kind_of, load_document
from veridp_check.induction.checker import INDUCTION_STEPS
from veridp_check.induction.reader import read_induction


@dataclass(frozen=True)
class CheckStep:
    """One kind of check, and what it found."""

    name: str
    finding: str


@dataclass(frozen=True)
class Rejection:
    """Where a certificate fails (a JSON pointer), and why."""

    place: str
    reason: str


@dataclass(frozen=True)
class CheckResult:
    """What was verified, in order; and where that ended, if the certificate is rejected."""

    certificate: Stated | None
    steps: tuple[CheckStep, ...]
    rejection: Rejection | None

    @property
    def verified(self) -> bool:
        return self.rejection is None


@dataclass(frozen=True)
class _Kind:
    """How certificates of one kind are read, and the steps that verify them, each of which tells what it found."""

    read: Callable[[object], Stated]
    steps: tuple[tuple[str, Callable[[Any], str]], ...]


KINDS = {
    "alignment": _Kind(read_alignment, ALIGNMENT_STEPS),
    "approximate": _Kind(read_approximate, APPROXIMATE_STEPS),
    "bounds": _Kind(read_bounds, BOUNDS_STEPS),
    "composition": _Kind(read_composition, COMPOSITION_STEPS),
    "coupling": _Kind(read_couplings, COUPLING_STEPS),
    "divergence": _Kind(read_divergence, DIVERGENCE_STEPS),
    "induction": _Kind(read_induction, INDUCTION_STEPS),
    "redrawn": _Kind(read_redrawn, REDRAWN_STEPS),
    "rounds": _Kind(read_rounds, ROUNDS_STEPS),
}


def check_file(file: str | Path) -> CheckResult:
    """The verdict on a file; raises NotACertificate where it is not a certificate at all."""
    return check(load_document(file))


def check(document: object) -> CheckResult:
    """The verdict on a document, as `json.loads` returns it; raises NotACertificate where it is not one at all.

    If it is verified, then the mechanism that the certificate describes is ε-differentially private, or (ε, δ) where
    it states a δ, for all neighbours that it speaks of. That this is the mechanism which the certificate names is not
    established here.
    """
    certificate: Stated | None = None
    steps: list[CheckStep] = []
    try:
        kind = kind_of(document)
        if kind not in KINDS:
            raise CertificateFlaw("/kind", f"one of {', '.join(KINDS)} is needed, not {kind!r}")
        certificate = KINDS[kind].read(document)
        for name, step in KINDS[kind].steps:
            steps.append(CheckStep(name, step(certificate)))
    except CertificateFlaw as flaw:
        return CheckResult(certificate, tuple(steps), Rejection(flaw.place, flaw.reason))
    return CheckResult(certificate, tuple(steps), None)
