"""A spot check of a certificate against the program that it names: real runs, each told by the event that it is in.

It reads outputs by the rule of all engines, so it is not part of the checker. Agreement is evidence that the
certificate describes the program, not a proof of it.
"""

from __future__ import annotations

import ast
import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from veridp.engines.prove.cases import value_text
from veridp.engines.prove.certificate import _close, output_matches
from veridp.engines.prove.target import RecordedDraw, RecordingGenerator, is_single
from veridp.errors import INTERRUPTING, BadInput, MechanismFailed
from veridp.kernel.output import raised
from veridp.kernel.path import entries_of, outline_of
from veridp_check.alignment.checker import MEANS
from veridp_check.alignment.reader import Certificate
from veridp_check.bounds.reader import Enclosed
from veridp_check.bounds.redrawn import RedrawnCertificate
from veridp_check.checker import CheckResult, CheckStep, Rejection
from veridp_check.composition.checker import CompositionCertificate
from veridp_check.coupling.reader import Cases, CouplingCase, CouplingPart
from veridp_check.document import NUMERIC, RATIONAL, CertificateFlaw, LinearCondition, LinearForm, Stated
from veridp_check.induction.reader import InductionCertificate
from veridp_check.induction.reader import InductionStep as LoopStep
from veridp_check.noise import NoiseDraw
from veridp_check.records import Seen
from veridp_check.weights import PiecewiseWeight

SIZES = (0, 1, 2, 3, 8, 30, 100, 257)  # of runs that are compared with a certificate for every size, in turn
REACHES = (1.0, 10.0, 10.0, 1000.0)  # data are drawn from [-reach, reach], every other time in whole numbers
FALSE_ALARM = 1e-9  # the probability that weights which are right are said to be wrong
PARAMETER_TOLERANCE = (
    1e-9  # relative: parameters that differ by less are the same, and a run so close to a boundary is left out
)


@dataclass(frozen=True)
class Replay:
    """How many runs were told right, and how many lay too close to a boundary for rounding to be told from a fault."""

    told: int
    undecided: int


def spot_check(
    checked: CheckResult, function: Callable[[Any, Any], Any], runs: int, seed: int, values: Sequence[Any] = ()
) -> CheckResult:
    """The verdict with that of a replay added to it; for a certificate that is verified.

    `values` are those of the data that a certificate may list by their texts.
    """
    if checked.certificate is None or not checked.verified:
        raise BadInput("only a certificate that is verified can be compared with a program; check it first")
    try:
        found = replay(checked.certificate, function, runs, seed, values)
    except CertificateFlaw as flaw:
        return replace(checked, rejection=Rejection(flaw.place, flaw.reason))
    close = f", {found.undecided} more were too close to a boundary to tell" if found.undecided else ""
    finding = f"{found.told} random runs of the program agree{close}; this is evidence, not a proof"
    return replace(checked, steps=(*checked.steps, CheckStep("program", finding)))


def replay(
    certificate: Stated, function: Callable[[Any, Any], Any], runs: int, seed: int, values: Sequence[Any] = ()
) -> Replay:
    """What came of running the program on random data and noise; raises Flaw where a run is not told by it."""
    known = {value_text(value): value for value in values}
    made = next((noise for noise in getattr(certificate, "noises", ()) if noise.made), None)
    if made is not None:
        raise BadInput(
            f"the program computes {made.made}, which the certificate takes for {made.kind} noise, so that its "
            f"draws are not those of the certificate and cannot be compared; prove it again, which replays its paths"
        )
    if isinstance(certificate, CompositionCertificate):
        raise BadInput(
            "a certificate of noisy steps says between which numbers lies what a record adds, and no more, so random "
            "runs cannot be compared with it; prove the program again, which replays its paths"
        )
    if isinstance(certificate, RedrawnCertificate):
        raise BadInput(
            "a certificate of a number that is drawn again says where it ends up, and not how, so random runs "
            "cannot be compared with it; prove the program again, which replays its paths"
        )
    rng = np.random.default_rng(seed)
    weights = _Frequencies()
    undecided = 0
    for number in range(runs):
        data = _random_data(certificate, rng, SIZES[number % len(SIZES)], known)
        recorder = RecordingGenerator(rng)
        try:
            output = function(recorder, copy.deepcopy(data))
        except INTERRUPTING:
            raise
        except BaseException as error:
            if isinstance(error, AttributeError) and error.obj is recorder:  # a draw that no certificate knows
                raise MechanismFailed(f"run {number}, on {data}: it raised AttributeError: {error}") from error
            output = raised(error)
        run = f"run {number}, on {_brief(data)}"
        if isinstance(certificate, InductionCertificate):
            undecided += not _stepped(certificate, data, recorder.draws, output, run)
        elif isinstance(certificate, Cases):
            undecided += not _told_by_case(certificate, data, recorder.draws, output, run, weights)
        elif isinstance(certificate, Enclosed):
            undecided += not _told_between_bounds(certificate, data, recorder.draws, output, run, weights)
        elif isinstance(certificate, Certificate):
            undecided += not _told(certificate, data, recorder.draws, output, run, weights)
    weights.check(runs)
    return Replay(runs - undecided, undecided)


def _random_data(certificate: Stated, rng: np.random.Generator, size: int, known: Mapping[str, Any]) -> Any:
    """Random data of the certificate's size, or of this one where it has none; or one of the values that it lists.

    Data are mostly spread about 0. Every third time they lie far below it or above: loops that end at a hit run long.
    """
    records = certificate.records if isinstance(certificate, Certificate | Cases) else ()
    if certificate.domain is not None:
        low, high = map(float, certificate.domain)
        if not records or is_single(certificate):
            return float(rng.uniform(low, high))
        several = records[rng.integers(len(records))].size
        if certificate.size is None:
            several = size if certificate.adjacency.startswith("add-remove") else max(size, 1)
        return rng.uniform(low, high, several).tolist()
    if isinstance(certificate, Enclosed) or (isinstance(certificate, Cases) and certificate.by_value):
        text = certificate.cases[int(rng.integers(len(certificate.cases)))].value or ""
        return known[text] if text in known else ast.literal_eval(text)
    reach = REACHES[int(rng.integers(len(REACHES)))]
    centre = 4 * reach * float(rng.integers(-1, 2)) if certificate.size is None else 0.0
    data = centre + rng.uniform(-reach, reach, size if certificate.size is None else certificate.size)
    whole = (isinstance(certificate, Certificate) and certificate.data == "whole") or rng.random() < 0.5
    return [float(x) for x in (np.rint(data) if whole else data)]


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
                f"the argument {name} = {text} of the certificate is not a literal; bind it in a function"
            ) from None
    return found


# ------------------------------------------------------------------------------------------------- what a run is told


def _told(
    certificate: Certificate,
    data: Sequence[float],
    draws: Sequence[RecordedDraw],
    output: Any,
    run: str,
    weights: _Frequencies,
) -> bool:
    """Whether the events tell the run; False where it is too close to a boundary."""
    if any(isinstance(event.weight, PiecewiseWeight) for event in certificate.events):
        known = {noise.kind for noise in certificate.noises}  # uniform noise may have become a weight
        draws = [draw for draw in draws if draw.kind != "uniform" or "uniform" in known]
    entries, rescaled = _numbers(data, certificate.records), draws
    if certificate.size is None:
        entries = certificate.records[-1].of_any([Fraction(x) for x in data])
    if certificate.data == MEANS:
        entries = [entry / len(data) for entry in entries]
        rescaled = [replace(draw, parameters=tuple(p * len(data) for p in draw.parameters)) for draw in draws]
    drew = [e for e, event in enumerate(certificate.events) if _same_draws(certificate.noises, event.draws, rescaled)]
    if not drew:
        raise CertificateFlaw("/noises", f"{run}: the program drew {_drawn(draws)}, which no event does")
    holding = []
    for e in drew:
        event = certificate.events[e]
        at = _at(event.draws, draws, entries)
        holds = _hold(event.conditions, at)
        if holds is None:
            return False
        if holds:
            holding.append((e, [float(at(number).value) for number in event.numbers]))
    if not holding:
        raise CertificateFlaw("/events", f"{run}: the program returned {_brief(output)}, and no event holds")
    matching = [e for e, n in holding if output_matches(certificate.outputs[certificate.events[e].output], n, output)]
    if matching:
        chances = {e: _chance(certificate.events[e].weight, entries) for e, _ in holding}
        weights.count([(f"/events/{e}", chances[e], e in matching) for e, _ in holding])
    else:
        e, numbers = holding[0]
        text = certificate.outputs[certificate.events[e].output]
        values = f" with {_brief(numbers)}" if numbers else ""
        raise CertificateFlaw(
            f"/events/{e}", f"{run}: the program returned {_brief(output)}, but this event holds: {text}{values}"
        )
    return True


def _chance(weight: Fraction | PiecewiseWeight, data: Sequence[Fraction]) -> Fraction:
    """The weight on these data, up to rounding where it depends on them."""
    if isinstance(weight, Fraction):
        return weight
    for piece in weight.pieces:
        if all(_stands(_evaluated(c.slack, {}, data).value, c.relation) for c in piece.conditions):
            return Fraction(piece.weight.at(data))
    return Fraction(0)


def _numbers(data: Any, records: Sequence[Seen] = ()) -> list[Fraction]:
    """Open data: a list of numbers, or one; or the sums over these records."""
    numbers = [Fraction(x) for x in (data if isinstance(data, list) else [data])]
    return next((sums.of(numbers) for sums in records if sums.size == len(numbers)), numbers)


class _Frequencies:
    """How often the events of finite choices came about, beside how often their weights say that they do.

    Where several events hold, one of them comes about, each with its weight. So the sum over runs of what was seen less
    the weight is a martingale, whose steps are within an interval of length 1: by Azuma and Hoeffding it is beyond
    √(n ln(2/α)/2) after n steps with probability α at most.
    """

    def __init__(self) -> None:
        self.runs: dict[str, int] = {}
        self.excess: dict[str, float] = {}

    def count(self, holding: Sequence[tuple[str, Fraction, bool]]) -> None:
        """Add a run: the events that hold, by place and weight, each with whether the output is the one it gives.

        Where the output may be of several events, each gets a share of it by its weight. A run whose choices decide
        which noise is drawn is left out: what it would have drawn otherwise is not known.
        """
        if abs(sum((weight for _, weight, _ in holding), start=Fraction(0)) - 1) > PARAMETER_TOLERANCE:
            return
        seen = sum((weight for _, weight, matches in holding if matches), start=Fraction(0))
        for place, weight, matches in holding:
            if weight != 1:
                self.runs[place] = self.runs.get(place, 0) + 1
                share = (weight / seen if seen else 1) if matches else 0  # what is next to impossible came about
                self.excess[place] = self.excess.get(place, 0.0) + float(share - weight)

    def check(self, runs: int) -> None:
        """Raise Flaw where an event came about more or less often than chance explains."""
        for place, number in self.runs.items():
            odds = 2 * len(self.runs) * runs / FALSE_ALARM
            if abs(self.excess[place]) > math.sqrt(number * math.log(odds) / 2):
                by = self.excess[place] / number
                reason = (
                    f"in {number} runs it came about {abs(by):.2f} {'more' if by > 0 else 'less'} often than stated"
                )
                raise CertificateFlaw(f"{place}/weight", reason)


# -------------------------------------------------------------------------------------------------- case by case


def _told_by_case(
    certificate: Cases, data: Any, draws: Sequence[RecordedDraw], output: Any, run: str, weights: _Frequencies
) -> bool:
    """Whether the parts of the case tell the run; False where it is too close to a boundary."""
    numbers = [] if certificate.by_value else _numbers(data, certificate.records)
    cases = [case for case in certificate.cases if _is_case(case, data, numbers)]
    if not cases:
        raise CertificateFlaw("/cases", f"{run}: no case has these data")
    if certificate.shape is not None and str(outline_of(output)) != certificate.shape:
        raise CertificateFlaw("/shape", f"{run}: the program returned {_brief(output)}, which is of another shape")
    for number in cases[0].parts:
        part = certificate.parts[number]
        leaves = output if part.entries is None else [entries_of(output)[entry] for entry in part.entries]
        told = _Told(certificate.noises, part, f"/parts/{number}/events", run, weights)
        if not told.by_events(numbers, draws, leaves):
            return False
    return True


def _told_between_bounds(
    certificate: Enclosed, data: Any, draws: Sequence[RecordedDraw], output: Any, run: str, weights: _Frequencies
) -> bool:
    """The same for a certificate of bounds, whose cases are of one part each."""
    for c, case in enumerate(certificate.cases):
        if case.value is None or _is_value(case.value, data):
            told = _Told(certificate.noises, CouplingPart(None, case.events), f"/cases/{c}/events", run, weights)
            return told.by_events(_numbers(data) if case.value is None else [], draws, output)
    raise CertificateFlaw("/cases", f"{run}: no case has these data")


def _is_value(text: str, data: Any) -> bool:
    return value_text(data) == text or bool(ast.literal_eval(text) == data)


def _is_case(case: CouplingCase, data: Any, numbers: Sequence[Fraction]) -> bool:
    if case.value is not None:
        return _is_value(case.value, data)
    return all(_stands(_evaluated(c.slack, {}, numbers).value, c.relation) for c in case.conditions)


@dataclass(frozen=True)
class _Told:
    """A run, and a part whose events should tell it."""

    noises: Sequence[NoiseDraw]
    part: CouplingPart
    place: str
    run: str
    weights: _Frequencies

    def by_events(self, data: Sequence[Fraction], draws: Sequence[RecordedDraw], output: Any) -> bool:
        """Whether an event tells the run; False where it is too close to a boundary."""
        holding = []
        for e, event in enumerate(self.part.events):
            places = [self.noises[row].draw for row in event.draws]
            drawn = [draws[k] for k in places if k < len(draws)] if self.part.entries is not None else list(draws)
            if not _same_draws(self.noises, event.draws, drawn):
                continue
            at = _at(event.draws, drawn, data)
            holds = _hold(event.conditions, at)
            if holds is None:
                return False
            if holds:
                numbers = [float(at(number).value) for number in event.numbers]
                holding.append((e, event, output_matches(event.output, numbers, output)))
        returned = f"the program returned {_brief(output)}"
        if not holding:
            raise CertificateFlaw(
                self.place, f"{self.run}: no event holds where it drew {_drawn(draws)}, and {returned}"
            )
        if not any(matches for _, _, matches in holding):
            raise CertificateFlaw(self.place, f"{self.run}: {returned}, but the events give {holding[0][1].output}")
        self.weights.count([(f"{self.place}/{e}", event.weight, matches) for e, event, matches in holding])
        return True


# ------------------------------------------------------------------------------------------------- step after step


def _stepped(
    certificate: InductionCertificate, data: Sequence[float], draws: Sequence[RecordedDraw], output: Any, run: str
) -> bool:
    """Whether the steps tell the run; False where it is too close to a boundary."""
    walk = _Walk(certificate, list(draws), run)
    queries = [Fraction(x) for x in data]
    for when, query in (("start", Fraction(0)), *(("step", query) for query in queries), ("end", Fraction(0))):
        if not walk.take(when, query):
            return False
        if walk.ended:
            break
    if walk.draws:
        raise CertificateFlaw(
            "/steps", f"{run}: the program went on to draw {_drawn(walk.draws)}, where the last step has ended"
        )
    leaves = _flat(output)
    if len(leaves) != len(walk.output) or not all(map(_same_entry, walk.output, leaves)):
        told = ", ".join(f"{e:.6g}" if isinstance(e, float) else e for e in walk.output)
        raise CertificateFlaw("/steps", f"{run}: the program returned {_brief(output)}, but the steps give [{told}]")
    return True


@dataclass
class _Walk:
    """A run, step by step: the state it is in, the values of its symbols, the draws to come, and the output so far."""

    certificate: InductionCertificate
    draws: list[RecordedDraw]
    run: str
    state: int | None = None
    ended: bool = False
    symbols: tuple[Fraction, ...] = ()
    output: list[str | float] = field(default_factory=list)

    def take(self, when: str, query: Fraction) -> bool:
        """Take the one step that holds; False where that is too close to tell."""
        known = self.certificate.noises
        steps = [step for step in self.certificate.steps if (step.when, step.source) == (when, self.state)]
        drew = [step for step in steps if _same_draws(known, step.draws, self.draws[: len(step.draws)])]
        holding = []
        for step in drew:
            values = _Values(step, self.draws, [query, *self.symbols])
            holds = _hold(step.conditions, values.of)
            if holds is None:
                return False
            if holds:
                holding.append(values)
        if not holding:
            raise CertificateFlaw(
                "/steps", f"{self.run}: at the {when}, no step holds where the program drew {_drawn(self.draws)}"
            )
        self._go(holding[0])
        return True

    def _go(self, values: _Values) -> None:
        step = values.step
        numbers = iter([float(values.of(number).value) for number in step.numbers])
        self.output += [next(numbers) if entry == NUMERIC else entry for entry in step.output]
        self.draws = self.draws[len(step.draws) :]
        self.ended, self.state = step.target is None, step.target
        if step.target is not None:
            names = self.certificate.states[step.target].symbols
            self.symbols = tuple(values.of(step.updates[name]).value for name in names)


@dataclass(frozen=True)
class _Values:
    step: LoopStep
    draws: Sequence[RecordedDraw]
    data: Sequence[Fraction]

    def of(self, expression: LinearForm) -> _Evaluated:
        noise = {row: Fraction(draw.value) for row, draw in zip(self.step.draws, self.draws, strict=False)}
        return _evaluated(expression, noise, self.data)


def _flat(output: Any) -> list[Any]:
    if isinstance(output, np.ndarray | np.generic):
        output = output.tolist()
    if isinstance(output, dict):
        output = list(output.values())
    return [leaf for entry in output for leaf in _flat(entry)] if isinstance(output, list | tuple) else [output]


def _same_entry(told: str | float, leaf: Any) -> bool:
    if isinstance(told, float):
        return isinstance(leaf, int | float) and _close(told, leaf)
    return output_matches(told, (), leaf)


# ------------------------------------------------------------------------------------------------- what is compared


def _same_draws(known: Sequence[NoiseDraw], rows: Sequence[int], draws: Sequence[RecordedDraw]) -> bool:
    noises = [known[row] for row in rows]
    return len(noises) == len(draws) and all(
        noise.kind == draw.kind
        and all(
            math.isclose(a, b, rel_tol=PARAMETER_TOLERANCE)
            for a, b in zip(noise.parameters, draw.parameters, strict=True)
        )
        for noise, draw in zip(noises, draws, strict=True)
    )


@dataclass(frozen=True)
class _Evaluated:
    value: Fraction
    unclear: bool  # so close to 0 that the program, which rounds, may see it on the other side


Evaluate = Callable[[LinearForm], _Evaluated]


def _evaluated(expression: LinearForm, noise: Mapping[int, Fraction], data: Sequence[Fraction]) -> _Evaluated:
    terms = [c * noise[row] for row, c in expression.noise.items()]
    terms += [c * data[entry] for entry, c in expression.data.items()]
    value = sum(terms, start=expression.constant)
    reach = sum((abs(term) for term in terms), start=abs(expression.constant))
    whole = all(term.denominator == 1 for term in terms)
    return _Evaluated(value, abs(value) <= Fraction(PARAMETER_TOLERANCE) * reach and not (whole and value == 0))


def _at(rows: Sequence[int], draws: Sequence[RecordedDraw], data: Sequence[Fraction]) -> Evaluate:
    """Evaluates expressions where the noise of these rows is what was drawn."""
    noise = {row: Fraction(draw.value) for row, draw in zip(rows, draws, strict=True)}
    return lambda expression: _evaluated(expression, noise, data)


def _hold(conditions: Sequence[LinearCondition], evaluate: Evaluate) -> bool | None:
    """Whether all of them hold; None where that is too close to tell."""
    slacks = [evaluate(condition.slack) for condition in conditions]
    if any(slack.unclear for slack in slacks):
        return None
    return all(_stands(slack.value, c.relation) for slack, c in zip(slacks, conditions, strict=True))


def _stands(value: Fraction, relation: str) -> bool:
    return value >= 0 if relation == ">=" else value > 0 if relation == ">" else value == 0


def _drawn(draws: Sequence[RecordedDraw]) -> str:
    return ", ".join(f"{d.kind}({', '.join(f'{p:.6g}' for p in d.parameters)})" for d in draws) or "nothing"


def _brief(value: Any) -> str:
    text = str(value.tolist() if isinstance(value, np.ndarray | np.generic) else value)
    return text if len(text) <= 120 else f"{text[:117]}…"
