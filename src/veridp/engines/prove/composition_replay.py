"""Paths of adaptive runs beside plain ones: the function on plain numbers, with scripted draws, gives what they say."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from veridp.budget import check
from veridp.engines.prove.cases import interval_of
from veridp.engines.prove.events import entry_of
from veridp.errors import INTERRUPTING, ExplorationDisagrees
from veridp.kernel.distributions import Distribution
from veridp.kernel.expressions import Affine, Condition
from veridp.kernel.output import Raised
from veridp.kernel.path import Path, entries_of, leaves, map_leaves, outline_of
from veridp.kernel.releases import Released, in_order
from veridp.kernel.replay import Replayed
from veridp.kernel.retries import ends_of
from veridp.kernel.scripted import ScriptedGenerator
from veridp.kernel.symbols import Derived, Noise, Symbol, Unknown
from veridp.kernel.valued_run import OUTPUT_TOLERANCE
from veridp.mechanism import Mechanism

RUNS = 24  # of the first path; each other path is run once
LONG = 8_000  # steps in all of these runs, where they are many
AT_ENDS = 4  # of these runs, that have records at the ends of their interval
PARAMETER_TOLERANCE = 1e-12  # relative, of a parameter of noise


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
