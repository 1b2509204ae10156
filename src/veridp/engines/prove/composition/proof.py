"""Proofs of noisy steps, one after the other, and of what they do with a random sample of the records.

In an adaptive reading of the code, data with noise on them are released numbers, of which later steps may make use. So
a path is a list of steps: each adds up what a function of a record and of earlier numbers gives, and adds noise. Where
paths differ in nothing but the records that take part, and in their probabilities, these are a sample.
`veridp_check.composition.checker` has the argument for what follows from that. Paths are replayed before anything is
concluded from them: the function on plain numbers, with scripted draws, has to give what they say.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from flint import arb, ctx

from veridp.budget import check
from veridp.engines.prove.alignment.divergence import PRECISION, GroupLoss, least_epsilon, root_above
from veridp.engines.prove.alignment.proof import Proof
from veridp.engines.prove.cases import interval_of, interval_text
from veridp.engines.prove.certificate import header, noise_document
from veridp.engines.prove.composition.noisy_steps import (
    NoisySteps,
    RecordSample,
    ReleaseStep,
    noisy_steps_of,
    shift_text,
    step_documents,
    step_loss,
)
from veridp.engines.prove.events import entry_of
from veridp.engines.prove.explanation import Blame
from veridp.errors import INTERRUPTING, BadInput, ExplorationDisagrees
from veridp.kernel.distributions import Distribution, LossBound
from veridp.kernel.expressions import Affine, Condition
from veridp.kernel.flow.releases import Released, in_order
from veridp.kernel.flow.retries import ends_of
from veridp.kernel.output import Raised
from veridp.kernel.path import Path, entries_of, leaves, map_leaves, outline_of
from veridp.kernel.replay.agreement import Replayed
from veridp.kernel.replay.scripted import ScriptedGenerator
from veridp.kernel.replay.valued_run import OUTPUT_TOLERANCE
from veridp.kernel.symbols import Derived, Noise, Symbol, Unknown, count_text, number_text
from veridp.mechanism import Mechanism
from veridp.numerics.balls import ball

RUNS = 24  # of the first path; each other path is run once
LONG = 8_000  # steps in all of these runs, where they are many
AT_ENDS = 4  # of these runs, that have records at the ends of their interval
PARAMETER_TOLERANCE = 1e-12  # relative, of a parameter of noise

# --------------------------------------------------------------------------------------------------------- the proof


@dataclass(frozen=True, eq=False)
class CompositionProof(Proof):
    """For all neighbours of this size: the least ε at a δ that follows from noisy steps one after the other."""

    noisy: NoisySteps

    @cached_property
    def loss(self) -> GroupLoss:
        """A bound on the loss of all steps, where all records take part."""
        return _loss(self.mechanism, self.noisy)

    def delta(self, epsilon: float) -> float:
        with ctx.workprec(PRECISION):
            return min(float(_delta(self.loss, self.noisy.sample, arb(epsilon)).upper()), 1.0)

    @cached_property
    def exact_notions(self) -> dict[str, Fraction | None]:
        """ρ of zCDP and μ of Gaussian DP as rationals, rounded up; None where there is a sample, or none follows."""
        if self.noisy.sample is not None:
            return {"rho": None, "mu": None}
        bounds = [step_loss(self.mechanism, step, None) for step in self.noisy.steps]
        squares = sum((bound.pure**2 + bound.squared for bound in bounds), start=Fraction(0))
        mu = None if self.loss.bound.pure else root_above(self.loss.bound.squared)
        return {"rho": squares / 2, "mu": mu}

    @property
    def certificate(self) -> dict[str, Any]:
        if self.exact_epsilon is None:
            raise BadInput(f"{self}: there is nothing to certify; prove another size, adjacency or mechanism")
        rows: dict[Distribution, int] = {}
        steps: list[Any] = []
        for told in step_documents(self.noisy.steps, rows):
            if steps and {**steps[-1], "count": 1} == told:
                steps[-1]["count"] += 1
            else:
                steps.append(told)
        sample = self.noisy.sample
        notions = {name: None if value is None else str(value) for name, value in self.exact_notions.items()}
        site = self.noisy.steps[0].site
        return {
            **header("composition", self.mechanism, self.size, interval_of(self.mechanism), self.exact_epsilon),
            "delta": str(Fraction(self.at_delta)),
            **notions,
            "noises": [noise_document(Noise(row, distribution, site)) for distribution, row in rows.items()],
            "sampling": sample and {"of": "fixed" if sample.fixed else "each", "rate": str(sample.rate)},
            "steps": steps,
        }

    @property
    def restriction(self) -> str:
        return interval_text(self.mechanism)

    @property
    def extent(self) -> str:
        return f"{count_text(len(self.noisy.steps), 'noisy step')}{self._sampled}"

    @property
    def _sampled(self) -> str:
        sample = self.noisy.sample
        return (
            "" if sample is None else f" on a sample, which a record is in with probability {number_text(sample.rate)}"
        )

    @property
    def moves(self) -> list[list[float]]:
        return []

    @property
    def blame(self) -> Blame | None:
        """The step that loses most."""
        if not self.epsilon:
            return None
        if math.isinf(self.epsilon):
            step = next(each for each in self.noisy.steps if self._lost(each).squared)
            why_not = step.distribution.price.why_not
            return Blame("output", why_not, step.site.file, step.site.line, self.epsilon)
        step = max(self.noisy.steps, key=lambda each: sum(vars(self._lost(each)).values()))
        sentence = f"{shift_text(self.mechanism, step, self.noisy.sample)}, under {step.distribution} noise"
        return Blame("output", sentence, step.site.file, step.site.line, self.epsilon)

    def _lost(self, step: ReleaseStep) -> LossBound:
        return step_loss(self.mechanism, step, self.noisy.sample)

    @property
    def explained(self) -> str:
        bound = self.loss.bound
        parts = [f"a pure loss of at most {number_text(bound.pure)}"] * bool(bound.pure)
        parts += [f"normal noise shifted by {math.sqrt(bound.squared):.6g} standard deviations"] * bool(bound.squared)
        return f"{self.extent}: {' and '.join(parts) or 'no loss'}"


def _loss(mechanism: Mechanism, noisy: NoisySteps) -> GroupLoss:
    total, moving, prices = LossBound(), list[Noise](), Counter[Fraction]()
    for rank, step in enumerate(noisy.steps):
        if (loss := step_loss(mechanism, step, noisy.sample)) != LossBound():
            total += loss
            moving.append(Noise(rank, step.distribution, step.site))
            if loss.pure:
                prices[loss.pure] += 1
    return GroupLoss(total, tuple(moving), prices=tuple(sorted(prices.items())))


def _delta(loss: GroupLoss, sample: RecordSample | None, epsilon: arb) -> arb:
    if sample is None:
        return loss.delta(epsilon)
    rate, pure = ball(sample.rate), ball(loss.bound.pure)
    level = 1 + (epsilon.exp() - 1) / rate
    inner = pure if not loss.bound.squared and level >= pure.exp() else level.log()
    return rate * loss.delta(inner)


def prove_by_composition(mechanism: Mechanism, size: int, delta: float) -> CompositionProof | None:
    """The proof of a mechanism that samples its records, or whose steps use the numbers that earlier ones released.

    None where it is no such mechanism. Plain runs agreed with its paths, else ExplorationDisagrees is raised.
    """
    read = noisy_steps_of(mechanism, size)
    if read is None:
        return None
    noisy, paths = read
    loss = _loss(mechanism, noisy)
    epsilon = least_epsilon(lambda at: _delta(loss, noisy.sample, at), delta, _pure_epsilon(loss, noisy.sample))
    at = math.inf if epsilon is None else float(epsilon)
    return CompositionProof(
        mechanism, size, at, epsilon, noisy, at_delta=delta, replayed=replayed_steps(mechanism, paths)
    )


def _pure_epsilon(loss: GroupLoss, sample: RecordSample | None) -> Fraction | None:
    """The least ε at which δ is 0, rounded up where it is a logarithm; None where there is none."""
    if loss.bound.squared:
        return None
    if sample is None:
        return loss.bound.pure
    with ctx.workprec(PRECISION):
        found = (1 + ball(sample.rate) * (ball(loss.bound.pure).exp() - 1)).log()
        return Fraction(f"{float(found) * (1 + 1e-13):.15g}")


# ------------------------------------------------------------------------------------------------------------ replay


def replayed_steps(mechanism: Mechanism, paths: Mapping[int, Sequence[Path]]) -> Replayed:
    """What plain runs say of the paths, by size; ExplorationDisagrees where one contradicts them."""
    rng = np.random.default_rng(0)
    low, high = (float(end) for end in interval_of(mechanism) or (Fraction(0), Fraction(0)))
    plain, runs = mechanism.bound(), 0
    for size, own in paths.items():
        for number, path in enumerate(own):
            often = max(min(RUNS, LONG // max(len(path.steps), 1)), 2 * AT_ENDS)
            for turn in range(often if number == 0 else 1):
                check()
                data = rng.uniform(low, high, size).tolist()
                if turn < AT_ENDS:
                    data = rng.choice([low, high], size).tolist()
                _compare(mechanism.name, plain, path, data, rng)
                runs += 1
    total = sum(map(len, paths.values()))
    return Replayed(total, total, runs)


def _compare(name: str, plain: Callable[..., Any], path: Path, data: list[float], rng: np.random.Generator) -> None:
    asked: dict[Symbol, list[Condition]] = {}
    for condition in path.conditions:
        for symbol in condition.slack.terms:
            asked.setdefault(symbol, []).append(condition)
    draws = {noise: _draw(noise, asked.get(noise, ()), rng) for noise in path.noises}
    picks = [fork.taken for fork in path.forks if not fork.option.conditions]
    scripted = ScriptedGenerator(np.random.PCG64(0), _in_turn(list(draws.values())), _in_turn(picks))
    try:
        with np.errstate(all="ignore"):
            seen = map_leaves(lambda leaf: leaf, plain(scripted, list(data)))
    except INTERRUPTING:
        raise
    except BaseException as error:
        seen = Raised.by(error)
    told = _Values(draws, data)
    for symbol in in_order(leaf for leaf in leaves(path.output) if isinstance(leaf, Affine)):
        told.symbol(symbol)
    drawn = [each for each in scripted.asked if isinstance(each, Distribution)]
    if not _same_draws(drawn, path.noises) or not _same_output(told, path.output, seen):
        said = map_leaves(told.leaf, path.output)
        raise ExplorationDisagrees(
            f"{name} on {data}: a plain run gave {seen!r}, where its steps say {said!r}; "
            f"code that tells stand-ins from numbers cannot be proved, use an engine that samples"
        )


def _draw(noise: Noise, asked: Sequence[Condition], rng: np.random.Generator) -> float:
    """A draw that satisfies what the path asks of it alone."""
    if not asked:
        return float(noise.distribution.draw(rng, 1)[0])
    ends, support = ends_of(noise, asked), noise.distribution.support
    low = max(support[0], -math.inf if ends[0] is None else float(ends[0]))
    high = min(support[1], math.inf if ends[1] is None else float(ends[1]))
    return float(low + (high - low) * rng.uniform(0.01, 0.99))


def _in_turn(values: Sequence[Any]) -> Callable[[Any], Any]:
    given = iter(values)
    return lambda _: next(given)


class _Values:
    """What the steps of a path say, for these draws and data."""

    def __init__(self, draws: Mapping[Noise, float], data: Sequence[float]) -> None:
        self.draws, self.data = draws, data
        self.known: dict[int, tuple[float, Symbol]] = {}

    def leaf(self, leaf: Any) -> Any:
        return self.of(leaf) if isinstance(leaf, Affine) else leaf

    def of(self, expression: Any) -> float:
        if not isinstance(expression, Affine):
            return float(expression)
        terms = [float(c) * self.symbol(symbol) for symbol, c in expression.terms.items()]
        return math.fsum([float(expression.constant), *terms])

    def symbol(self, symbol: Symbol) -> float:
        known = self.known.get(id(symbol))
        if known is None:
            known = self.known[id(symbol)] = (self._value(symbol), symbol)
        return known[0]

    def _value(self, symbol: Symbol) -> float:
        if isinstance(symbol, Released):
            return self.of(symbol.total)
        if isinstance(symbol, Derived):
            return float(symbol.function.compute(*map(self.of, symbol.arguments)))
        if isinstance(symbol, Unknown):
            record = Fraction(self.data[entry_of(symbol.record)])
            piece = next((p for p in symbol.function if p.has(record)), symbol.function[-1])
            return float(piece.at(record))
        return self.draws[symbol]


def _same_draws(asked: Sequence[Distribution], noises: Sequence[Noise]) -> bool:
    return len(asked) == len(noises) and all(
        one.kind == other.distribution.kind
        and all(
            math.isclose(a, b, rel_tol=PARAMETER_TOLERANCE)
            for a, b in zip(one.parameters.values(), other.distribution.parameters.values(), strict=True)
        )
        for one, other in zip(asked, noises, strict=True)
    )


def _same_output(told: _Values, output: Any, seen: Any) -> bool:
    if isinstance(seen, Raised) or outline_of(seen) != outline_of(map_leaves(told.leaf, output)):
        return False
    pairs = zip(entries_of(output), entries_of(seen), strict=True)
    return all(
        math.isclose(told.of(one), other, rel_tol=OUTPUT_TOLERANCE, abs_tol=OUTPUT_TOLERANCE)
        if isinstance(one, Affine)
        else bool(one == other)
        for one, other in pairs
    ) and len(leaves(output)) == len(leaves(seen))
