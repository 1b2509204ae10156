"""A spot check of a certificate against the program that it names: real runs, each told by the event that it is in.

Part of the checker. This is evidence that the certificate describes the program, and no proof of it.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from veridp.errors import BadInput, MechanismFailed
from veridp.prove.aligned import Certificate, Event
from veridp.prove.check import Checked, Rejection, Step
from veridp.prove.document import NUMERIC, RATIONAL, Flaw, Linear, Stated

REACH = 10.0  # data are drawn from [-REACH, REACH]
CLOSE = 1e-9  # relative: parameters that differ by less are the same, and a run so close to a boundary is left out
FEW_TRIALS = 32  # a binomial of up to so many trials counts as a finite choice, not as noise


@dataclass(frozen=True)
class Draw:
    """What a program drew: the noise without its location."""

    kind: str
    parameters: tuple[float, ...]
    value: float


@dataclass(frozen=True)
class Replay:
    """How many runs were told right, and how many lay too close to a boundary for rounding to be told from a fault."""

    told: int
    undecided: int


def spot_check(checked: Checked, function: Callable[[Any, Any], Any], runs: int, seed: int) -> Checked:
    """The verdict with that of a replay added to it; for a certificate that is verified."""
    if checked.certificate is None or not checked.verified:
        raise BadInput("only a certificate that is verified can be compared with a program; check it first")
    if not isinstance(checked.certificate, Certificate):
        raise BadInput("only a certificate of an alignment can be compared with a program; leave out the target")
    try:
        found = replay(checked.certificate, function, runs, seed)
    except Flaw as flaw:
        return replace(checked, rejection=Rejection(flaw.place, flaw.reason))
    close = f", {found.undecided} more were too close to a boundary to tell" if found.undecided else ""
    finding = f"{found.told} random runs of the program are told right{close}; this is evidence and no proof"
    return replace(checked, steps=(*checked.steps, Step("program", finding)))


def replay(certificate: Certificate, function: Callable[[Any, Any], Any], runs: int, seed: int) -> Replay:
    """What came of running the program on random data and noise; raises Flaw where a run is not told by the events."""
    rng = np.random.default_rng(seed)
    undecided = 0
    for number in range(runs):
        data = rng.uniform(-REACH, REACH, certificate.size)
        values = [float(x) for x in (np.rint(data) if certificate.data == "whole" else data)]
        recorder = RecordingGenerator(rng)
        try:
            output = function(recorder, list(values))
        except Exception as error:
            raise MechanismFailed(f"run {number}, on {values}: it raised {type(error).__name__}: {error}") from error
        undecided += not _told(certificate, values, recorder.draws, output, f"run {number}, on {_brief(values)}")
    return Replay(runs - undecided, undecided)


def arguments_of(certificate: Stated, present: Mapping[str, object]) -> dict[str, object]:
    """The arguments of the certificate that the program does not have anyway."""
    found: dict[str, object] = {}
    for name, text in certificate.arguments.items():
        if name in present and repr(present[name]) == text:
            continue
        try:
            found[name] = Fraction(text) if RATIONAL.fullmatch(text) and "/" in text else ast.literal_eval(text)
        except (ValueError, SyntaxError, ZeroDivisionError):
            raise BadInput(
                f"the argument {name} = {text} of the certificate is no literal; bind it in a function"
            ) from None
    return found


# ------------------------------------------------------------------------------------------------- what a run is told


def _told(certificate: Certificate, data: Sequence[float], draws: Sequence[Draw], output: Any, run: str) -> bool:
    """Whether the events tell the run; False where it is too close to a boundary."""
    drew = [e for e, event in enumerate(certificate.events) if _same_draws(certificate, event, draws)]
    if not drew:
        raise Flaw("/noises", f"{run}: the program drew {_drawn(draws)}, which no event does")
    entries = [Fraction(x) for x in data]
    holding = []
    for e in drew:
        event = certificate.events[e]
        noise = {row: Fraction(draw.value) for row, draw in zip(event.draws, draws, strict=True)}
        slacks = [_evaluated(condition.slack, noise, entries) for condition in event.conditions]
        if any(slack.unclear for slack in slacks):
            return False
        if all(_stands(slack.value, c.relation) for slack, c in zip(slacks, event.conditions, strict=True)):
            numbers = [float(_evaluated(number, noise, entries).value) for number in event.numbers]
            holding.append((e, numbers))
    if not holding:
        raise Flaw("/events", f"{run}: the program returned {_brief(output)}, and no event holds")
    if not any(_matches(certificate.outputs[certificate.events[e].output], n, output) for e, n in holding):
        e, numbers = holding[0]
        text = certificate.outputs[certificate.events[e].output]
        values = f" with {_brief(numbers)}" if numbers else ""
        raise Flaw(
            f"/events/{e}", f"{run}: the program returned {_brief(output)}, but this event holds: {text}{values}"
        )
    return True


def _same_draws(certificate: Certificate, event: Event, draws: Sequence[Draw]) -> bool:
    noises = [certificate.noises[row] for row in event.draws]
    return len(noises) == len(draws) and all(
        noise.kind == draw.kind
        and all(math.isclose(a, b, rel_tol=CLOSE) for a, b in zip(noise.parameters, draw.parameters, strict=True))
        for noise, draw in zip(noises, draws, strict=True)
    )


@dataclass(frozen=True)
class _Evaluated:
    value: Fraction
    unclear: bool  # so close to 0 that the program, which rounds, may see it on the other side


def _evaluated(expression: Linear, noise: Mapping[int, Fraction], data: Sequence[Fraction]) -> _Evaluated:
    terms = [c * noise[row] for row, c in expression.noise.items()]
    terms += [c * data[entry] for entry, c in expression.data.items()]
    value = sum(terms, start=expression.constant)
    reach = sum((abs(term) for term in terms), start=abs(expression.constant))
    whole = all(term.denominator == 1 for term in terms)
    return _Evaluated(value, abs(value) <= Fraction(CLOSE) * reach and not (whole and value == 0))


def _stands(value: Fraction, relation: str) -> bool:
    return value >= 0 if relation == ">=" else value > 0 if relation == ">" else value == 0


def _matches(text: str, numbers: Sequence[float], output: Any) -> bool:
    """Whether the output is the one that is written in the text, with these numbers in place of its marks."""
    if text == NUMERIC:
        template: Any = NUMERIC
    else:
        try:
            template = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            raise BadInput(f"the output {text} is no Python literal; a spot check needs outputs that are") from None
    left = list(numbers)
    return _alike(template, output, left) and not left


def _alike(template: Any, output: Any, numbers: list[float]) -> bool:
    if isinstance(output, np.ndarray | np.generic):
        output = output.tolist()
    if isinstance(template, str) and template == NUMERIC:
        return bool(numbers) and isinstance(output, int | float) and _close(numbers.pop(0), output)
    if isinstance(template, list | tuple):
        same = isinstance(output, list | tuple) and len(template) == len(output)
        return same and all(_alike(a, b, numbers) for a, b in zip(template, output, strict=True))
    if isinstance(template, dict):
        same = isinstance(output, dict) and list(template) == list(output)
        return same and all(_alike(template[key], output[key], numbers) for key in template)
    if isinstance(template, bool) or isinstance(output, bool) or not isinstance(template, int | float):
        return type(template) is type(output) and bool(template == output)
    return isinstance(output, int | float) and _close(template, output)


def _close(first: float, second: float) -> bool:
    return math.isclose(first, second, rel_tol=1e-6, abs_tol=1e-6)


def _drawn(draws: Sequence[Draw]) -> str:
    return ", ".join(f"{d.kind}({', '.join(f'{p:.6g}' for p in d.parameters)})" for d in draws) or "nothing"


def _brief(value: Any) -> str:
    text = str(value.tolist() if isinstance(value, np.ndarray | np.generic) else value)
    return text if len(text) <= 120 else f"{text[:117]}…"


# ------------------------------------------------------------------------------------------------------- generator


class RecordingGenerator:
    """Draws as a NumPy generator does, and writes down the noise in the order in which it is drawn.

    Finite choices are made, and not written down. What a certificate has no word for is refused.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self.draws: list[Draw] = []
        self._rng = rng
        self.integers, self.choice = rng.integers, rng.choice
        self.permutation, self.shuffle = rng.permutation, rng.shuffle

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

    def standard_normal(self, size: Any = None) -> Any:
        return self.normal(size=size)

    def standard_exponential(self, size: Any = None) -> Any:
        return self.exponential(size=size)

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        low, high = np.asarray(low, dtype=float), np.asarray(high, dtype=float)
        unit = self._scaled(
            "uniform", self._rng.uniform, 0.0, np.ones(np.broadcast_shapes(low.shape, high.shape)), size
        )
        return _plain(low + (high - low) * unit)

    def random(self, size: Any = None) -> Any:
        return self.uniform(size=size)

    def geometric(self, p: Any, size: Any = None) -> Any:
        return self._whole("geometric", self._rng.geometric, size, p)

    def poisson(self, lam: Any = 1.0, size: Any = None) -> Any:
        return self._whole("poisson", self._rng.poisson, size, lam)

    def binomial(self, n: Any, p: Any, size: Any = None) -> Any:
        return self._whole("binomial", self._rng.binomial, size, n, p)

    def _scaled(self, kind: str, standard: Callable[..., Any], loc: Any, scale: Any, size: Any) -> Any:
        """Noise at loc; a scale of 0 is no noise."""
        loc, scale = np.asarray(loc, dtype=float), np.asarray(scale, dtype=float)
        scales = np.broadcast_to(scale, _shape(size, loc, scale))
        values = scales * standard(size=scales.shape)
        for width, value in zip(scales.flat, values.flat, strict=True):
            if width:
                self.draws.append(Draw(kind, (float(width),), float(value)))
        return _plain(loc + values)

    def _whole(self, kind: str, draw: Callable[..., Any], size: Any, *parameters: Any) -> Any:
        given = [np.asarray(parameter, dtype=float) for parameter in parameters]
        shape = _shape(size, *given)
        columns = [np.broadcast_to(parameter, shape) for parameter in given]
        values = np.asarray(draw(*(c.astype(int) if k < len(columns) - 1 else c for k, c in enumerate(columns))))
        for *at, value in zip(*(column.flat for column in columns), values.flat, strict=True):
            if kind != "binomial" or at[0] > FEW_TRIALS:
                self.draws.append(Draw(kind, tuple(float(x) for x in at), float(value)))
        return _plain(values)


def _shape(size: Any, *parameters: Any) -> tuple[int, ...]:
    if size is None:
        return np.broadcast_shapes(*(parameter.shape for parameter in parameters))
    return tuple(size) if isinstance(size, tuple | list) else (int(size),)


def _plain(values: Any) -> Any:
    return values.item() if np.ndim(values) == 0 else values
