"""A certificate beside the program that it names: recorded runs, and settings that differ."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, NoReturn

import numpy as np

from veridp.adjacency import BY_NAME
from veridp.adjacency.base import numbers_of
from veridp.engines.prove.cases import certified_word, has_finite_domain, interval_of, value_text, values_of
from veridp.engines.prove.certificate import argument_text
from veridp.errors import BadInput
from veridp.mechanism import Mechanism
from veridp.notions import ApproximateBound
from veridp_check.alignment.reader import Certificate, DifferenceBox
from veridp_check.bounds.reader import Enclosed
from veridp_check.coupling.reader import Cases
from veridp_check.document import LISTED, Stated

# ----------------------------------------------------------------------------------------------------------- recording
# A generator that writes down what is drawn from it, so that a certificate can tell the run. Part of the checker.


FINITE = ("choice", "permutation", "permuted", "shuffle")
FEW_INTEGERS = 10_000  # one of a longer range counts as noise
FEW_TRIALS = 32  # a binomial of up to so many trials counts as a finite choice, not as noise


@dataclass(frozen=True)
class RecordedDraw:
    """What a program drew: the noise without its location."""

    kind: str
    parameters: tuple[float, ...]
    value: float


class RecordingGenerator(np.random.Generator):
    """A NumPy generator that writes down the noise in the order in which it is drawn.

    Finite choices are made, and not written down. What a certificate has no word for is written down and refused, so
    that a program which goes on all the same is not taken for one that did not draw it.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__(rng.bit_generator)
        self.draws: list[RecordedDraw] = []
        self._rng = rng
        for name in FINITE:  # NumPy's own would draw from this generator, and be written down
            setattr(self, name, getattr(rng, name))

    def _refuse(self, name: str) -> NoReturn:
        self.draws.append(RecordedDraw(name, (), math.nan))
        raise AttributeError(f"a certificate has no word for rng.{name}; draw noise that it knows", name=name, obj=self)

    def laplace(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        return self._scaled("laplace", self._rng.laplace, loc, scale, size)

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        return self._scaled("normal", self._rng.normal, loc, scale, size)

    def gumbel(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        return self._scaled("gumbel", self._rng.gumbel, loc, scale, size)

    def logistic(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        return self._scaled("logistic", self._rng.logistic, loc, scale, size)

    def exponential(self, scale: Any = 1.0, size: Any = None) -> Any:
        return self._scaled("exponential", self._rng.exponential, 0.0, scale, size)

    def standard_normal(self, size: Any = None) -> Any:  # type: ignore[override]
        return self.normal(size=size)

    def standard_exponential(self, size: Any = None) -> Any:  # type: ignore[override]
        return self.exponential(size=size)

    def standard_cauchy(self, size: Any = None) -> Any:
        return self._scaled("cauchy", self._rng.standard_cauchy, 0.0, 1.0, size)

    def standard_t(self, df: Any, size: Any = None) -> Any:
        return self._scaled("studentt", partial(self._rng.standard_t, df), 0.0, 1.0, size, df)

    def gamma(self, shape: Any, scale: Any = 1.0, size: Any = None) -> Any:
        return self._scaled("gamma", partial(self._rng.standard_gamma, shape), 0.0, scale, size, shape)

    def standard_gamma(self, shape: Any, size: Any = None) -> Any:  # type: ignore[override]
        return self.gamma(shape, 1.0, size)

    def chisquare(self, df: Any, size: Any = None) -> Any:
        return self.gamma(df / 2, 2.0, size)

    def beta(self, a: Any, b: Any, size: Any = None) -> Any:
        return self._scaled("beta", partial(self._rng.beta, a, b), 0.0, 1.0, size, a, b)

    def triangular(self, left: Any, mode: Any, right: Any, size: Any = None) -> Any:
        width, peak = right - left, (mode - left) / (right - left)
        return self._scaled("triangular", partial(self._rng.triangular, 0.0, peak, 1.0), left, width, size, peak)

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        low, high = np.asarray(low, dtype=float), np.asarray(high, dtype=float)
        unit = self._scaled(
            "uniform", self._rng.uniform, 0.0, np.ones(np.broadcast_shapes(low.shape, high.shape)), size
        )
        return _plain(low + (high - low) * unit)

    def random(self, size: Any = None) -> Any:  # type: ignore[override]
        return self.uniform(size=size)

    def integers(
        self, low: Any, high: Any = None, size: Any = None, dtype: Any = np.int64, endpoint: bool = False
    ) -> Any:
        values = self._rng.integers(low, high, size, dtype, endpoint)
        first, last = (0, low) if high is None else (low, high)
        counts = np.broadcast_to(np.asarray(last) + endpoint - np.asarray(first), np.shape(values))
        for value, count in zip(np.ravel(values - np.asarray(first)), np.ravel(counts), strict=True):
            if count > FEW_INTEGERS:
                self.draws.append(RecordedDraw("integers", (float(count),), float(value)))
        return values

    def geometric(self, p: Any, size: Any = None) -> Any:
        return self._whole("geometric", self._rng.geometric, size, p)

    def poisson(self, lam: Any = 1.0, size: Any = None) -> Any:
        return self._whole("poisson", self._rng.poisson, size, lam)

    def binomial(self, n: Any, p: Any, size: Any = None) -> Any:
        return self._whole("binomial", self._rng.binomial, size, n, p)

    def _scaled(self, kind: str, standard: Callable[..., Any], loc: Any, scale: Any, size: Any, *shape: Any) -> Any:
        """Noise at loc; a scale of 0 is no noise."""
        loc, scale = np.asarray(loc, dtype=float), np.asarray(scale, dtype=float)
        scales = np.broadcast_to(scale, _shape(size, loc, scale))
        values = scales * standard(size=scales.shape)
        for width, value in zip(scales.flat, values.flat, strict=True):
            if width:
                self.draws.append(RecordedDraw(kind, (float(width), *map(float, shape)), float(value)))
        return _plain(loc + values)

    def _whole(self, kind: str, draw: Callable[..., Any], size: Any, *parameters: Any) -> Any:
        given = [np.asarray(parameter, dtype=float) for parameter in parameters]
        shape = _shape(size, *given)
        columns = [np.broadcast_to(parameter, shape) for parameter in given]
        values = np.asarray(draw(*(c.astype(int) if k < len(columns) - 1 else c for k, c in enumerate(columns))))
        for *at, value in zip(*(column.flat for column in columns), values.flat, strict=True):
            if kind != "binomial" or at[0] > FEW_TRIALS:
                self.draws.append(RecordedDraw(kind, tuple(float(x) for x in at), float(value)))
        return _plain(values)


def _refusal(name: str) -> Any:
    """What takes the place of something that a certificate has no word for."""
    if not callable(getattr(np.random.Generator, name)):
        return property(lambda self: self._refuse(name))

    def refuse(self: RecordingGenerator, *_: Any, **__: Any) -> NoReturn:
        self._refuse(name)

    return refuse


for _name in dir(np.random.Generator):
    if not _name.startswith("_") and _name not in (*vars(RecordingGenerator), *FINITE):
        setattr(RecordingGenerator, _name, _refusal(_name))


def _shape(size: Any, *parameters: Any) -> tuple[int, ...]:
    if size is None:
        return np.broadcast_shapes(*(parameter.shape for parameter in parameters))
    return tuple(size) if isinstance(size, tuple | list) else (int(size),)


def _plain(values: Any) -> Any:
    return values.item() if np.ndim(values) == 0 else values


# -------------------------------------------------------------------------------------------------------- target claim
# What a certificate says that differs from what its target says of itself: arguments, neighbours, data and claim.


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


def is_single(certificate: Stated) -> bool:
    """Whether the data of the certificate are one value, which has no size."""
    return certificate.adjacency in BY_NAME and BY_NAME[certificate.adjacency].single


def _data(certificate: Stated, target: Mechanism) -> Iterator[Difference]:
    if certificate.size is not None and not is_single(certificate):
        yield Difference("size", str(certificate.size), str(target.size))
    if isinstance(certificate, Certificate) and certificate.data == "whole":
        yield Difference("data", "whole numbers", "numbers")
    by_value = isinstance(certificate, Enclosed | Cases) and certificate.cases[0].value is not None
    if by_value and isinstance(certificate, Enclosed | Cases):
        mine = sorted(str(case.value) for case in certificate.cases)
        theirs = (
            sorted(map(value_text, values_of(target, certificate.size or 1))) if has_finite_domain(target) else None
        )
        others = "an interval" if theirs is None else "the same" if theirs == mine else f"{len(theirs)} others"
        yield Difference("domain", "the same" if theirs == mine else f"{len(mine)} values", others)
    elif certificate.domain is not None:
        summed = isinstance(certificate, Certificate | Cases) and certificate.records
        ends = certificate.domain if _lists_records_of(target, certificate.domain) else interval_of(target, summed)
        yield Difference("domain", _interval(certificate.domain), _interval(ends))


def _lists_records_of(target: Mechanism, ends: tuple[Fraction, Fraction]) -> bool:
    """Whether its records are listed numbers of this interval: what holds of all between them holds of these."""
    if not (target.adjacency.on_records and has_finite_domain(target)):
        return False
    try:
        return all(ends[0] <= number <= ends[1] for number in numbers_of(target.domain))
    except (BadInput, TypeError, ValueError):
        return False


def _interval(ends: tuple[Fraction, Fraction] | None) -> str:
    return "no interval" if ends is None else f"[{float(ends[0]):g}, {float(ends[1]):g}]"


@dataclass(frozen=True)
class _Certified:
    """What a certificate says, as a proof says it."""

    certificate: Stated

    @property
    def epsilon(self) -> float:
        return float(self.certificate.epsilon)

    @property
    def at_delta(self) -> float:
        return float(self.certificate.delta)

    @property
    def rho(self) -> float:
        return math.inf if self.certificate.rho is None else float(self.certificate.rho)

    @property
    def mu(self) -> float:
        return math.inf if self.certificate.mu is None else float(self.certificate.mu)

    @property
    def profile(self) -> tuple[tuple[float, float], ...]:
        return tuple((float(epsilon), float(delta)) for epsilon, delta in self.certificate.profile)

    def delta(self, epsilon: float) -> float:
        points = [ApproximateBound(*point) for point in ((self.epsilon, self.at_delta), *self.profile)]
        return min(point.delta(epsilon) for point in points)

    def rdp(self, alpha: float) -> float:
        """No more than at the orders above it, either."""
        above = [float(bound) for order, bound in self.certificate.rdp if order >= alpha]
        return min([self.rho * alpha, *above])


def _claim(certificate: Stated, target: Mechanism) -> Iterator[Difference]:
    claim, epsilon, delta = target.claim, float(certificate.epsilon), float(certificate.delta)
    if claim is None:
        yield Difference("ε", f"{epsilon:.10g}", "no claim")
    elif not claim.covers_proof(_Certified(certificate)):
        if claim.notion is not None:
            yield Difference("claim", f"ε = {epsilon:.10g} at δ = {delta:.10g}", str(claim))
            return
        said = f"{epsilon:.10g}", f"a claim of {claim.epsilon:.10g}"
        with_delta = f"{said[0]} at δ = {delta:.10g}", f"{said[1]} at δ = {claim.delta:.10g}"
        yield Difference("ε", *(with_delta if delta else said))
