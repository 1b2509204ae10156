"""Whether a certificate of rounds of noisy steps, each on a fresh sample of the records, proves (ε, δ).

Part of the checker. In a round, it is drawn at random which records take part, independently of all that was drawn
before; then numbers are released, each of which is

    c + Σ over the records that take part of v(record) + normal noise,

where c and the function v may depend on the numbers that earlier rounds released, and v has values between `low` and
`high`. The output is a function of the released numbers alone. Given the earlier rounds, a round of neighbours is
that of `composition_checker`: the outputs of both are mixtures of shifted normal noise, and the squares of the shifts
of its numbers, each over its variance, add up to μ² at most. `sampled_losses` has what follows for all rounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from veridp_check.composition.checker import NoisyStep, Sampling, loss_of, sampling_in, step_in
from veridp_check.document import (
    HEADER,
    RECORDS,
    CertificateFlaw,
    DocumentNode,
    Stated,
    decimal_of,
    noise_in,
    size_in,
    stated_in,
    text_of,
)
from veridp_check.losses.sampled import Lattice, NormalRounds, rounds_delta_above
from veridp_check.shifts import count

MAX_POINTS = 100_000  # of a lattice: more would take too long


@dataclass(frozen=True)
class SampledRound:
    """`count` rounds that are alike; and from which to which step of the lattice the loss of one is looked at."""

    sampling: Sampling | None
    steps: tuple[NoisyStep, ...]
    count: int
    first: int
    last: int


@dataclass(frozen=True)
class RoundsCertificate(Stated):
    """A certificate of rounds."""

    rounds: tuple[SampledRound, ...]
    lattice: Lattice

    @property
    def is_replaced(self) -> bool:
        return self.adjacency.startswith("replace")


def read_rounds(document: object) -> RoundsCertificate:
    """The certificate in the document; raises CertificateFlaw where it is not made as one."""
    field = DocumentNode(document).fields(*HEADER, "delta", "rho", "mu", "noises", "lattice", "rounds")
    stated, size = stated_in(field), size_in(field)
    noises = tuple(noise_in(node) for node in field["noises"].entries())
    found = []
    for node in field["rounds"].entries():
        own = node.fields("sampling", "steps", "count", "first", "last")
        steps = tuple(step_in(each, noises) for each in own["steps"].entries())
        first, last = _ends(own)
        found.append(SampledRound(sampling_in(own["sampling"], size), steps, own["count"].whole(least=1), first, last))
    lattice = field["lattice"].fields("step", "first", "last")
    step = lattice["step"].rational()
    if step <= 0:
        raise lattice["step"].flaw("a step above 0 is needed")
    return RoundsCertificate(**vars(stated), rounds=tuple(found), lattice=Lattice(step, *_ends(lattice)))


def _ends(field: dict[str, DocumentNode]) -> tuple[int, int]:
    first, last = field["first"].rational(), field["last"].rational()
    if first.denominator > 1 or last.denominator > 1 or not first < 0 < last or last - first > MAX_POINTS:
        raise field["last"].flaw(f"whole numbers around 0 are needed, at most {MAX_POINTS} apart")
    return int(first), int(last)


def check_neighbours(certificate: RoundsCertificate) -> str:
    """Neighbours differ in one record, and the samples are such that the argument covers."""
    if certificate.adjacency not in RECORDS:
        raise CertificateFlaw("/adjacency", f"records are needed, so one of {', '.join(RECORDS)}")
    for k, each in enumerate(certificate.rounds):
        if each.sampling is not None and each.sampling.fixed and not certificate.is_replaced:
            raise CertificateFlaw(f"/rounds/{k}/sampling/of", "a sample of fixed size is for records that are replaced")
    return "they differ in one record, of which every round has its own sample"


def check_steps(certificate: RoundsCertificate) -> str:
    """All noise is normal."""
    for k, each in enumerate(certificate.rounds):
        for j, step in enumerate(each.steps):
            if step.noise.kind != "normal":
                raise CertificateFlaw(f"/rounds/{k}/steps/{j}/noise", f"normal noise is needed, not {step.noise.kind}")
    return f"{count(sum(each.count for each in certificate.rounds), 'round')} of normal noise"


def check_delta(certificate: RoundsCertificate) -> str:
    """The losses of the rounds have a δ at ε that is no more than what is stated."""
    rounds = tuple(
        NormalRounds(_squared(certificate, k, each), _rate(each), each.count, each.first, each.last)
        for k, each in enumerate(certificate.rounds)
    )
    moving = tuple(each for each in rounds if each.squared)
    found = rounds_delta_above(certificate.epsilon, moving, certificate.lattice, certificate.is_replaced)
    if found > certificate.delta:
        raise CertificateFlaw("/delta", f"δ is {decimal_of(found)} at this ε, not {decimal_of(certificate.delta)}")
    return f"their losses have δ <= {decimal_of(found, 6)} at the ε that is stated"


def _rate(each: SampledRound) -> Fraction:
    return Fraction(1) if each.sampling is None else each.sampling.rate


def _squared(certificate: RoundsCertificate, k: int, each: SampledRound) -> Fraction:
    total = Fraction(0)
    for j, step in enumerate(each.steps):
        loss = loss_of(step, certificate.is_replaced, each.sampling)
        if loss is None or loss.pure or loss.lost:
            raise CertificateFlaw(f"/rounds/{k}/steps/{j}/noise", "it must not be moved")
        total += loss.squared * step.count
    return total


def check_notions(certificate: RoundsCertificate) -> str:
    """Nothing but (ε, δ) is stated."""
    for name in ("rho", "mu"):
        if getattr(certificate, name) is not None:
            raise CertificateFlaw(f"/{name}", "nothing is said of this notion with samples of the records")
    return f"none is stated, but for ε = {text_of(certificate.epsilon)} at δ"


ROUNDS_STEPS = (
    ("neighbours", check_neighbours),
    ("steps", check_steps),
    ("delta", check_delta),
    ("notions", check_notions),
)
