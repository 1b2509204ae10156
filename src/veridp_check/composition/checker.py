"""Whether a certificate of noisy steps, one after the other, proves (ε, δ). Part of the checker.

The mechanism that it describes releases numbers y_1, y_2, …, y_T, and its output is a function of them alone. Each is

    y_t = c_t + Σ over the records that take part of v_t(record) + noise,

where c_t and the function v_t may depend on y_1, …, y_{t-1}, and v_t has values between `low` and `high`. All records
take part; or there is *sampling*: before anything is released, it is drawn at random which do.

Without sampling. Given y_1, …, y_{t-1}, neighbours have the same c_t and v_t, and sums that differ by what one record
adds: by d = max(|low|, |high|) at most where it is added or removed, by d = high - low where it is replaced. So y_t on
one of them is what it is on the other with the noise shifted by at most d, whatever was released before. The
loss of such a shift grows with it, and losses of steps compose adaptively as if they were independent (Zhu, Dong and
Wang 2022, Theorem 10): they are bounded by those of T independent shifts by d.

Several numbers may be released together as a vector y_t, with a vector v_t(record) whose Euclidean norm is at most C,
and independent normal noise of one σ on each: then neighbours have sums that differ by a vector of a norm of at most
d = C, or 2C where a record is replaced. Normal noise is the same in all directions: in coordinates whose first axis has
the direction of that vector, this is one number, shifted by no more than d, and others that are not shifted at all.

With sampling. Let a record that two neighbours differ in take part with probability q. Given all else that is drawn,
the outputs of both are mixtures (1 - q) A + q B and (1 - q) A + q B', where A is what comes out where the record does
not take part. Each two of A, B and B' differ by shifts as above, by no more than d: the larger of max(|low|, |high|)
and, where records are replaced, high - low. (Where a sample of fixed size is drawn without the record, another one is
in its place: then A, B and B' differ in the value of one record, and d is high - low.) With α = e^ε' and
1 + q (α - 1) = e^ε, advanced joint convexity (Balle, Barthe and Gaboardi 2018, Theorem 2) bounds the hockey-stick
divergence of the mixtures at e^ε by q times the largest one at α of B from A and from B'. So δ(ε) <= q δ'(ε'), where δ'
is that of the steps without sampling, for every ε >= 0.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction

from veridp_check.alignment.divergence import delta_above
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
from veridp_check.enclosures import exp_between, log_above
from veridp_check.noise import NoiseDraw, ShiftLoss
from veridp_check.shifts import count

KINDS_OF_NOISE = ("laplace", "normal")  # symmetric, with a loss that grows with the shift
SAMPLINGS = ("each", "fixed")  # each record by itself with a probability, or so many of them
ZERO = Fraction(0)
BELOW = Fraction(1, 1 << 120)  # far more than the error of an upper bound of a logarithm


@dataclass(frozen=True)
class NoisyStep:
    """`count` numbers, one after the other: noise, and between which numbers lies what a record adds.

    Or as many vectors of numbers that are released together: then `squared_norm` is that of the largest vector that a
    record adds.
    """

    noise: NoiseDraw
    low: Fraction
    high: Fraction
    count: int
    squared_norm: Fraction | None = None
    numbers: int = 1


@dataclass(frozen=True)
class Sampling:
    """With which probability a record takes part; `fixed` where so many records do, no matter which."""

    rate: Fraction
    fixed: bool


@dataclass(frozen=True)
class CompositionCertificate(Stated):
    """A certificate of noisy steps."""

    noises: tuple[NoiseDraw, ...]
    steps: tuple[NoisyStep, ...]
    sampling: Sampling | None


def read_composition(document: object) -> CompositionCertificate:
    """The certificate in the document; raises CertificateFlaw where it is not made as one."""
    field = DocumentNode(document).fields(*HEADER, "delta", "rho", "mu", "noises", "sampling", "steps")
    stated, size = stated_in(field), size_in(field)
    noises = tuple(noise_in(node) for node in field["noises"].entries())
    steps = tuple(step_in(node, noises) for node in field["steps"].entries())
    return CompositionCertificate(
        **vars(stated), noises=noises, steps=steps, sampling=sampling_in(field["sampling"], size)
    )


def step_in(node: DocumentNode, noises: tuple[NoiseDraw, ...]) -> NoisyStep:
    is_vector = isinstance(node.value, dict) and "squared_norm" in node.value
    field = node.fields("noise", *(("squared_norm", "numbers") if is_vector else ("low", "high")), "count")
    row = field["noise"].whole()
    if row >= len(noises):
        raise field["noise"].flaw(f"there is no noise {row}")
    if is_vector:
        squared, numbers = field["squared_norm"].rational(), field["numbers"].whole(least=1)
        if squared < 0:
            raise field["squared_norm"].flaw("a square is not negative")
        if noises[row].kind != "normal":
            raise field["noise"].flaw(f"normal noise is needed for a vector, not {noises[row].kind}")
        return NoisyStep(noises[row], ZERO, ZERO, field["count"].whole(least=1), squared, numbers)
    low, high = field["low"].rational(), field["high"].rational()
    if low > high:
        raise field["high"].flaw(f"{text_of(high)} is below {text_of(low)}")
    return NoisyStep(noises[row], low, high, field["count"].whole(least=1))


def sampling_in(node: DocumentNode, size: int) -> Sampling | None:
    if node.value is None:
        return None
    found = node.fields("of", "rate")
    rate = found["rate"].rational()
    fixed = found["of"].one_of(SAMPLINGS) == "fixed"
    if not 0 < rate <= 1:
        raise found["rate"].flaw(f"a probability above 0 is needed, not {text_of(rate)}")
    if fixed and (rate * size).denominator > 1:
        raise found["rate"].flaw(f"{text_of(rate * size)} of {size} records is not a number of records")
    return Sampling(rate, fixed)


def check_neighbours(certificate: CompositionCertificate) -> str:
    """Neighbours differ in one record, and the sampling is one that the argument covers."""
    if certificate.adjacency not in RECORDS:
        raise CertificateFlaw("/adjacency", f"records are needed, so one of {', '.join(RECORDS)}")
    sampling = certificate.sampling
    if sampling is None:
        return "they differ in one record, and all records take part"
    if sampling.fixed and not _is_replaced(certificate):
        raise CertificateFlaw("/sampling/of", "a sample of fixed size is for records that are replaced")
    how = "which is in a sample of fixed size" if sampling.fixed else "which takes part"
    return f"they differ in one record, {how} with probability {text_of(sampling.rate)}"


def _is_replaced(certificate: CompositionCertificate) -> bool:
    return certificate.adjacency.startswith("replace")


def check_steps(certificate: CompositionCertificate) -> str:
    """The noise of every step is of a kind whose loss grows with the shift."""
    for k, step in enumerate(certificate.steps):
        if step.noise.kind not in KINDS_OF_NOISE:
            raise CertificateFlaw(
                f"/steps/{k}/noise", f"the loss of {step.noise.kind} noise need not grow with a shift"
            )
    total = sum(step.count * step.numbers for step in certificate.steps)
    return f"{count(total, 'number')} released, one after the other"


def shift_of(step: NoisyStep, is_replaced: bool, sampling: Sampling | None) -> Fraction:
    """By how much the sum of a step differs at most."""
    added, replaced = max(abs(step.low), abs(step.high)), step.high - step.low
    if not is_replaced:
        return added
    return replaced if sampling is None or sampling.fixed else max(added, replaced)


def loss_of(step: NoisyStep, is_replaced: bool, sampling: Sampling | None) -> ShiftLoss | None:
    """The loss of one of its numbers, or of one of its vectors; None where the noise must not be moved."""
    if step.squared_norm is None:
        return step.noise.loss(shift_of(step, is_replaced, sampling))
    unit = step.noise.loss(Fraction(1))
    return unit and ShiftLoss(squared=unit.squared * step.squared_norm * (4 if is_replaced else 1))


def _loss(certificate: CompositionCertificate, step: NoisyStep) -> ShiftLoss | None:
    return loss_of(step, _is_replaced(certificate), certificate.sampling)


@dataclass(frozen=True)
class _Losses:
    """A bound on the loss of all steps where all records take part, the noise that moves, and Laplace prices."""

    bound: ShiftLoss
    moving: list[NoiseDraw]
    prices: Counter[Fraction]

    @classmethod
    def of(cls, certificate: CompositionCertificate) -> _Losses:
        total, moving, prices = ShiftLoss(), list[NoiseDraw](), Counter[Fraction]()
        for k, step in enumerate(certificate.steps):
            loss = _loss(certificate, step)
            if loss is None:
                raise CertificateFlaw(f"/steps/{k}/noise", f"{step.noise.kind} noise must not be moved")
            total += ShiftLoss(loss.pure * step.count, loss.squared * step.count)
            moving += [step.noise] * step.count if loss.pure or loss.squared else []
            if loss.pure:
                prices[loss.pure] += step.count
        return cls(total, moving, prices)

    def delta_above(self, epsilon: Fraction) -> Fraction:
        return delta_above(epsilon, self.bound, self.moving, self.prices)


def check_delta(certificate: CompositionCertificate) -> str:
    """The losses of the steps have a δ at ε that is no more than what is stated."""
    losses, sampling = _Losses.of(certificate), certificate.sampling
    if sampling is None:
        found = losses.delta_above(certificate.epsilon)
    else:
        inner = _inner(certificate.epsilon, sampling.rate, losses.bound)
        found = sampling.rate * losses.delta_above(inner)
    if found > certificate.delta:
        raise CertificateFlaw("/delta", f"δ is {decimal_of(found)} at this ε, not {decimal_of(certificate.delta)}")
    return f"their losses have δ <= {decimal_of(found, 6)} at the ε that is stated"


def _inner(epsilon: Fraction, rate: Fraction, loss: ShiftLoss) -> Fraction:
    """A rational that is no larger than ε' = ln(1 + (e^ε - 1)/rate); the pure loss where that is no larger."""
    level = 1 + (exp_between(epsilon)[0] - 1) / rate
    if level >= exp_between(loss.pure)[1] and not loss.squared:
        return loss.pure
    found = max(log_above(level) - BELOW, ZERO) if level > 1 else ZERO
    if exp_between(found)[1] > max(level, Fraction(1)):
        raise CertificateFlaw("/epsilon", "its logarithm cannot be bounded")
    return found


def check_notions(certificate: CompositionCertificate) -> str:
    """ρ and μ, where they are stated, are no less than those of the steps.

    They add up, also adaptively (Bun and Steinke 2016, Lemma 2.3; Dong, Roth and Su 2022, Corollary 3.3). Nothing is
    said of them with sampling.
    """
    stated = [name for name in ("rho", "mu") if getattr(certificate, name) is not None]
    if not stated:
        return "none is stated"
    if certificate.sampling is not None:
        raise CertificateFlaw(f"/{stated[0]}", "nothing follows for this notion from a sample of the records")
    rho, total = ZERO, _Losses.of(certificate).bound
    for step in certificate.steps:
        loss = _loss(certificate, step) or ShiftLoss()
        rho += step.count * (loss.pure**2 + loss.squared) / 2
    if certificate.rho is not None and certificate.rho < rho:
        raise CertificateFlaw("/rho", f"ρ is {decimal_of(rho)}, not less")
    if certificate.mu is not None and (total.pure or certificate.mu**2 < total.squared):
        reason = "noise that is not normal is moved" if total.pure else "μ² is below that of the steps"
        raise CertificateFlaw("/mu", reason)
    return " and ".join({"rho": "ρ", "mu": "μ"}[name] for name in stated) + " as stated"


COMPOSITION_STEPS = (
    ("neighbours", check_neighbours),
    ("steps", check_steps),
    ("delta", check_delta),
    ("notions", check_notions),
)
