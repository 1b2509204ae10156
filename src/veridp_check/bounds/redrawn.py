"""Whether a certificate of a number that is drawn again until it lies in an interval proves ε. Part of the checker.

With x an affine function of the data, Laplace noise Z of scale b is drawn again until x + Z lies in the interval, and
x + Z is released. Let f be the density of Z, and C(x) the probability that x + Z lies there. A number y of the interval
is released with density f(y - x)/C(x), so on neighbours its logarithm differs by at most

    g(x, x') = |x - x'|/b + ln C(x') - ln C(x).

An x below the interval gives the density that its lower end does, for Laplace noise has no memory, and an x above it
that of the upper end: x may be taken for the number of the interval next to it, which brings no two of them further
apart. For every y, e^(x/b) f(y - x) does not fall as x rises, and so neither does e^(x/b) C(x): where x' is above x, g
does not fall as x' rises. And C is log-concave, for f and the interval are (Prékopa 1973): for a fixed distance d,
ln C(x + d) - ln C(x) does not rise with x. So if x lies between `least` and `most`, and moves by at most d, no g is
above those of (least, least + d) and, by symmetry, (most, most - d). An interval without an upper end accepts more the
larger x is: then g is at most d/b where x falls, as it does far out where x has no upper end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from veridp_check.document import (
    HEADER,
    CertificateFlaw,
    DocumentNode,
    Stated,
    coefficients_in,
    decimal_of,
    noise_in,
    size_in,
    stated_in,
    text_of,
)
from veridp_check.enclosures import log_above
from veridp_check.noise import NoiseDraw, probability_bounds


@dataclass(frozen=True)
class RedrawnCertificate(Stated):
    """The noise; what it is added to, by the entries of the data; and where the sum has to lie (None: no end)."""

    size: int
    noises: tuple[NoiseDraw, ...]
    data: Mapping[int, Fraction]
    constant: Fraction
    low: Fraction | None
    high: Fraction | None

    @property
    def span(self) -> tuple[Fraction | None, Fraction | None]:
        """Between what the number lies before its noise, taken for the next one of the interval; None: no end."""
        if self.domain is None:
            return self.low, self.high
        ends = [sorted((c * self.domain[0], c * self.domain[1])) for c in self.data.values()]
        least, most = (self._next(sum((each[k] for each in ends), start=self.constant)) for k in (0, 1))
        return least, most

    def _next(self, x: Fraction) -> Fraction:
        """The number of the interval that is next to x."""
        x = x if self.low is None else max(x, self.low)
        return x if self.high is None else min(x, self.high)

    @property
    def move(self) -> Fraction | None:
        """By how much neighbours may move the number; None where the argument does not speak of such neighbours."""
        factors = [self.data.get(entry, Fraction(0)) for entry in range(self.size)]
        sizes = [abs(c) for c in factors]
        match self.adjacency:
            case "l1":
                move = max(sizes)
            case "linf":
                move = sum(sizes, start=Fraction(0))
            case "monotone":
                rises = sum((c for c in factors if c > 0), start=Fraction(0))
                move = max(rises, sum(sizes, start=-rises))
            case "any" | "replace" | "replace-unordered" if self.domain is not None:
                if (self.adjacency == "any" and self.size > 1) or (
                    self.adjacency == "replace-unordered" and len(set(factors)) > 1
                ):
                    return None
                move = max(sizes) * (self.domain[1] - self.domain[0])
            case _:
                return None
        least, most = self.span
        return move if least is None or most is None else min(move, most - least)


def read_redrawn(document: object) -> RedrawnCertificate:
    """The certificate in the document; raises CertificateFlaw where it is not made as one."""
    field = DocumentNode(document).fields(*HEADER, "noises", "data", "constant", "low", "high")
    low, high = (None if field[end].value is None else field[end].rational() for end in ("low", "high"))
    if low is not None and high is not None and not low < high:
        raise field["high"].flaw("the upper end has to be above the lower one")
    return RedrawnCertificate(
        **{**vars(stated_in(field)), "size": size_in(field)},
        noises=tuple(noise_in(node) for node in field["noises"].entries()),
        data=coefficients_in(field["data"], range(size_in(field)), "entry of the data"),
        constant=field["constant"].rational(),
        low=low,
        high=high,
    )


def check_neighbours(certificate: RedrawnCertificate) -> str:
    """It is known by how much neighbours move the number."""
    if certificate.move is None:
        reason = f"it is not known by how much neighbours under {certificate.adjacency} move this number"
        raise CertificateFlaw("/adjacency", reason)
    return f"they move the number by at most {text_of(certificate.move)}"


def check_noise(certificate: RedrawnCertificate) -> str:
    """There is one noise, which is Laplace."""
    kinds = [noise.kind for noise in certificate.noises]
    if kinds != ["laplace"]:
        raise CertificateFlaw("/noises", f"one Laplace noise is needed, not {', '.join(kinds) or 'none'}")
    return f"Laplace of scale {text_of(certificate.noises[0].parameters[0])}"


def check_epsilon(certificate: RedrawnCertificate) -> str:
    """No two neighbours differ by more than ε."""
    move = certificate.move or Fraction(0)
    pure = move / certificate.noises[0].parameters[0]
    least, most = certificate.span
    rising = Fraction(0) if least is None else _growth(certificate, least, least + move)
    falling = Fraction(0) if most is None else _growth(certificate, most, most - move)
    loss = pure + max(rising, falling)
    if loss > certificate.epsilon:
        stated = text_of(certificate.epsilon)
        raise CertificateFlaw("/epsilon", f"neighbours may lose {decimal_of(loss)}, which is more than {stated}")
    return f"neighbours lose at most {decimal_of(loss, 10)}, and ε is {decimal_of(certificate.epsilon, 10)}"


def _growth(certificate: RedrawnCertificate, start: Fraction, end: Fraction) -> Fraction:
    """A rational just above ln C(end)/C(start), or 0 where that is below 0; its bound where C is too small."""
    if start == end:
        return Fraction(0)
    low, high = certificate.low, certificate.high
    (least, _), (_, most) = (
        probability_bounds(certificate.noises[0], None if low is None else low - x, None if high is None else high - x)
        for x in (start, end)
    )
    if least <= 0:
        return abs(end - start) / certificate.noises[0].parameters[0]
    return log_above(most / least) if most > least else Fraction(0)


REDRAWN_STEPS = (("neighbours", check_neighbours), ("noise", check_noise), ("epsilon", check_epsilon))
