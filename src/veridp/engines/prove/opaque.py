"""Whole numbers computed from public randomness in a way that nothing is known of: hashes, parities, remainders.

A draw that has no price, such as the seed of a hash function, is not shifted: both neighbours have the same one. Then a
function of it has one value on either side, and need not be understood. Let the left give an output with weight L where
all noise and all values of functions are so and so, and the right with weight R, and let both release the same numbers
of the noise. If L <= c R everywhere, also for values that the functions never take, then the output is at most c times
as likely on the left. Draws that a function is of stay among the noise, as they decide about its value too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from veridp.engines.prove.events import NoiseEvent, WeightedEvent, functions_in, name_of, sites_of
from veridp.kernel.distributions import Array, Distribution, Number, Price
from veridp.kernel.expressions import Affine, Condition
from veridp.kernel.feasibility import has_room
from veridp.kernel.path import OutputForm, Path
from veridp.kernel.substitution import substituted
from veridp.kernel.symbols import Derived, Noise, Symbol, drawn_in


@dataclass(frozen=True)
class Opaque(Distribution):
    """The value of a function: any whole number, for all that a proof knows."""

    function: Derived
    integer = True

    @property
    def parameters(self) -> dict[str, Any]:
        return {}

    @property
    def sources(self) -> list[Noise]:
        """The draws that the function is of."""
        return sorted({symbol for symbol in drawn_in([self.function]) if isinstance(symbol, Noise)})

    @property
    def unit(self) -> float:
        return 1.0

    width = unit

    @property
    def price(self) -> Price:
        return Price(None, None, "the value of a function is not shifted")

    def log_density(self, x: Array) -> Array:
        raise TypeError("the value of a function has no distribution of its own")

    log_below = log_above = log_density

    def draw(self, rng: np.random.Generator, count: int) -> Array:
        raise TypeError("the value of a function is not drawn")


@dataclass
class OpaqueFunctions:
    """Functions of noise, each as a variable of its own, the same in all cases of a mechanism."""

    first: int  # the places of draws end before it
    known: dict[Derived, Noise] = field(default_factory=dict)

    @classmethod
    def among(cls, cases: Sequence[Sequence[Path]]) -> OpaqueFunctions | None:
        """None where there are none, or where not all of them are whole numbers made of noise without a price."""
        found = [function for paths in cases for path in paths for function in _functions(path)]
        draws = set(drawn_in(found))
        fixed = all(isinstance(draw, Noise) and _is_fixed(draw.distribution.price) for draw in draws)
        if not found or not fixed or not all(function.function.whole for function in found):
            return None
        return cls(max(len(path.noises) for paths in cases for path in paths))

    def event(self, path: Path) -> NoiseEvent:
        """The event of a path, its functions being variables."""
        functions = _functions(path)
        made: dict[Symbol, Affine | Number] = {
            function: Affine(0, {self._variable(function): 1}) for function in reversed(functions)
        }
        form = OutputForm.of(path.output)
        conditions = tuple(substituted(condition, made) for condition in path.conditions)
        numbers = tuple(substituted(number, made) for number in form.numbers)
        noises = (*path.noises, *sorted(self.known[function] for function in functions))
        asked = [*numbers, *(condition.slack for condition in conditions)]
        named = {s for e in asked for s in e.terms if isinstance(s, Noise) and isinstance(s.distribution, Opaque)}
        sources = frozenset(draw for s in named for draw in s.distribution.sources)  # type: ignore[attr-defined]
        sites = sites_of(path)
        return NoiseEvent(form.template, noises, conditions, numbers, path.weight, 1, sites, sources=sources)

    def _variable(self, function: Derived) -> Noise:
        place = self.first + len(self.known)
        opaque = Opaque(function)
        noise = Noise(place, opaque, opaque.sources[0].site, formula=name_of(function))
        return self.known.setdefault(function, noise)


def _is_fixed(price: Price) -> bool:
    """Whether noise of this price cannot be shifted."""
    return price.up is None and price.down is None


def _functions(path: Path) -> tuple[Derived, ...]:
    form = OutputForm.of(path.output)
    return functions_in([*form.numbers, *(condition.slack for condition in path.conditions)])


def has_opaque(pieces: Sequence[WeightedEvent]) -> bool:
    return any(isinstance(noise.distribution, Opaque) for piece in pieces for noise in piece.noises)


def pointwise_ratio(
    sources: Sequence[WeightedEvent], targets: Sequence[WeightedEvent], right: Sequence[WeightedEvent]
) -> Fraction | None:
    """The most that sources weigh anywhere by the least that targets, of all events of the right, weigh anywhere.

    None where that has no bound, where they release different numbers or draw different noise, or where it is not seen
    at once which of their conditions exclude each other.
    """
    first = sources[0].numbers
    for piece in (*sources, *targets):
        if len(piece.numbers) != len(first) or not all(a.same(b) for a, b in zip(piece.numbers, first, strict=True)):
            return None
    drawn = {noise.index: noise for piece in (*sources, *targets) for noise in piece.noises}
    if any(noise != drawn[noise.index] for piece in (*sources, *targets) for noise in piece.noises):
        return None
    mine, theirs = _by_cell(sources), _by_cell(right, targets)
    if mine is None or theirs is None or not min(theirs.values()):
        return None
    return max(mine.values()) / min(theirs.values())


def _by_cell(
    pieces: Sequence[WeightedEvent], counted: Sequence[WeightedEvent] | None = None
) -> Mapping[object, Fraction] | None:
    """What those that count weigh where the conditions of the pieces hold; None where these are not disjoint."""
    cells: dict[object, tuple[Condition, ...]] = {}
    weights: dict[object, Fraction] = {}
    for piece in pieces:
        key = frozenset((c.relation, c.slack.constant, frozenset(c.slack.terms.items())) for c in piece.conditions)
        cells[key] = piece.conditions
        counts = counted is None or any(piece is each for each in counted)
        weights[key] = weights.get(key, Fraction(0)) + (piece.weight if counts else 0)
    listed = list(cells.values())
    disjoint = not any(has_room(one, other) for k, one in enumerate(listed) for other in listed[k + 1 :])
    return weights if disjoint else None
