"""The probabilities of many classes of outputs at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from veridp.engines.exact.curve import Density, moderate, slacks
from veridp.engines.exact.elimination import Middle, Ray, log_measures
from veridp.engines.exact.measure import Component, Splitter
from veridp.engines.exact.noise import as_float, numeric
from veridp.engines.exact.pieces import DistributionPiece, collapsed
from veridp.kernel.distributions import Distribution, Number
from veridp.kernel.expressions import Affine, Condition
from veridp.kernel.symbols import Noise as Symbol
from veridp.numerics.quadrature import log_sum

_Form = tuple[tuple[tuple[int, float], ...], float]  # (variable, coefficient) pairs and a constant: form >= 0


def log_masses(classes: Sequence[Sequence[DistributionPiece]]) -> list[float]:
    """ln of the probability of each class, its pieces' numeric entries left out of account."""
    splitter, masses = Splitter({}), Masses()
    shares = [[masses.share(piece.weight, splitter.split(piece.conditions)) for piece in pieces] for pieces in classes]
    return masses.logs(shares)


@dataclass(frozen=True, eq=False)
class ClassShare:
    """A part of a class: the probability that components of these kinds are met, times its weight."""

    weight: Number
    kinds: tuple[int, ...]


@dataclass(eq=False)
class _Around:
    """The rays and stars around one middle."""

    rays: dict[Ray, int] = field(default_factory=dict)
    stars: dict[tuple[int, ...], int] = field(default_factory=dict)
    values: np.ndarray | None = None


@dataclass
class _Star:
    """One of the stars around a middle."""

    around: _Around
    place: int

    @property
    def log_measure(self) -> float:
        return -math.inf if self.around.values is None else float(self.around.values[self.place])


class Masses:
    """The probabilities of many lists of components: each kind is kept once, and all are measured together."""

    def __init__(self) -> None:
        self.noise: dict[int, Distribution] = {}
        self.around: dict[Middle, _Around] = {}
        self.forms: dict[int, tuple[Condition, list[_Form]]] = {}  # by the identity of the condition, which is kept
        self.places: dict[tuple[_Around, int, _Form], int] = {}  # of rays with one link and no bounds of their own
        self.factors: dict[int, list[float | _Star]] = {}  # by the kind of a component

    def share(self, weight: Number, components: Sequence[Component]) -> ClassShare:
        """The components, by their kinds, to be measured with all others."""
        for component in components:
            if component.kind not in self.factors:
                self.factors[component.kind] = self._added(component)
        return ClassShare(weight, tuple([component.kind for component in components]))

    def logs(self, classes: Sequence[Sequence[ClassShare]]) -> list[float]:
        """ln of the probability of each class, the sum over its shares."""
        for middle, around in self.around.items():
            around.values = log_measures(middle, list(around.rays), list(around.stars))
        values = {kind: sum(map(_log, factors)) for kind, factors in self.factors.items()}
        return [
            _total([_log_weight(share) + sum([values[kind] for kind in share.kinds]) for share in shares])
            for shares in classes
        ]

    def _added(self, component: Component) -> list[float | _Star]:
        """What the measure of the component is the product of: logarithms, and stars yet to be measured."""
        if all(isinstance(symbol, Symbol) for symbol in component.ranks):
            forms = [form for condition in component.conditions for form in self._parsed(condition)]
            self.noise = {symbol.index: numeric(symbol.distribution) for symbol in component.ranks}  # type: ignore[union-attr]
            parts = [self._part(part) for part in _connected(forms)]
            if None not in parts:
                return parts  # type: ignore[return-value]
        return [Density([collapsed(DistributionPiece(1, component.conditions, ()))]).mass]

    def _parsed(self, condition: Condition) -> list[_Form]:
        known = self.forms.get(id(condition))
        if known is None:
            found = [(_terms(slack), as_float(slack.constant)) for slack in map(moderate, slacks(condition))]
            known = self.forms[id(condition)] = (condition, found)
        return known[1]

    def _part(self, forms: list[_Form]) -> float | _Star | None:
        """The measure of connected forms; None where they are no star."""
        if not forms[0][0]:
            return 0.0 if forms[0][1] >= 0 else -math.inf
        variables = {variable for terms, _ in forms for variable, _ in terms}
        bounds = {variable: self.noise[variable].support for variable in variables}
        links: list[_Form] = []
        for form in forms:
            terms, constant = form
            if len(terms) > 2:
                return None
            if len(terms) == 2:
                links.append(form)
                continue
            ((variable, coefficient),) = terms
            low, high = bounds[variable]
            at = -constant / coefficient
            bounds[variable] = (max(low, at), high) if coefficient > 0 else (low, min(high, at))
        if not links:
            (variable,) = variables
            low, high = bounds[variable]
            return float(self.noise[variable].log_between(np.array(low), np.array(high)))
        shared = {variable for variable, _ in links[0][0]}
        for ((first, _), (second, _)), _ in links:
            shared &= {first, second}
        candidates = [variable for variable in shared if not self.noise[variable].integer]
        if not candidates or any(self.noise[variable].integer for variable in variables):
            return None
        return self._star(candidates[0], bounds, links)

    def _star(self, root: int, bounds: dict[int, tuple[float, float]], links: list[_Form]) -> _Star:
        by_ray: dict[int, list[_Form]] = {}
        for form in links:
            (a, _), (b, _) = form[0]
            by_ray.setdefault(b if a == root else a, []).append(form)
        around = self.around.setdefault(Middle(self.noise[root], *bounds[root]), _Around())
        places = [self._place(around, root, variable, bounds[variable], its) for variable, its in by_ray.items()]
        return _Star(around, around.stars.setdefault(tuple(sorted(places)), len(around.stars)))

    def _place(self, around: _Around, root: int, variable: int, bounds: tuple[float, float], forms: list[_Form]) -> int:
        """The number of the ray among those around the middle."""
        noise = self.noise[variable]
        plain = len(forms) == 1 and bounds == noise.support
        key = (around, variable, forms[0])
        if plain and key in self.places:
            return self.places[key]
        links = tuple((dict(terms)[variable], dict(terms)[root], constant) for terms, constant in forms)
        place = around.rays.setdefault(Ray(noise, *bounds, links), len(around.rays))
        if plain:
            self.places[key] = place
        return place


def _log(factor: float | _Star) -> float:
    return factor.log_measure if isinstance(factor, _Star) else factor


def _log_weight(share: ClassShare) -> float:
    if share.weight == 1:
        return 0.0
    return math.log(share.weight) if share.weight else -math.inf


def _total(logs: Sequence[float]) -> float:
    if len(logs) < 2:
        return logs[0] if logs else -math.inf
    return float(log_sum(np.array([logs]))[0])


def _terms(slack: Affine) -> tuple[tuple[int, float], ...]:
    return tuple((symbol.index, as_float(c)) for symbol, c in slack.terms.items() if isinstance(symbol, Symbol) and c)


def _connected(forms: Sequence[_Form]) -> list[list[_Form]]:
    """The forms of a component, which hang together; those without variables stand apart."""
    bare = [[form] for form in forms if not form[0]]
    rest = [form for form in forms if form[0]]
    return [*bare, rest] if rest else bare
