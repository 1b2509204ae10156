"""The probabilities of many classes of outputs at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from veridp.exact.components import Component, Splitter
from veridp.exact.curve import Density, slacks
from veridp.exact.noise import Noise, numeric
from veridp.exact.pieces import Piece
from veridp.exact.quadrature import log_sum
from veridp.exact.star import Middle, Ray, log_measures
from veridp.program.affine import Affine
from veridp.program.affine import Noise as Symbol
from veridp.program.distribution import Number

_Form = tuple[tuple[tuple[int, float], ...], float]  # (variable, coefficient) pairs and a constant: form >= 0


def log_masses(classes: Sequence[Sequence[Piece]]) -> list[float]:
    """ln of the probability of each class, its pieces' numeric entries left out of account."""
    splitter, masses = Splitter(), Masses()
    shares = [[Share(piece.weight, splitter.split(piece.conditions)) for piece in pieces] for pieces in classes]
    return masses.logs(shares)


@dataclass(frozen=True, eq=False)
class Share:
    """A part of a class: the probability that its components are met, times its weight."""

    weight: Number
    components: tuple[Component, ...]

    @property
    def piece(self) -> Piece:
        return Piece(self.weight, tuple(c for component in self.components for c in component.conditions), ())


@dataclass
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
    """The probabilities of many lists of components of one splitter: stars are kept once, all measured together."""

    def __init__(self) -> None:
        self.noise: dict[int, Noise] = {}
        self.around: dict[Middle, _Around] = {}
        self.factors: dict[int, list[float | _Star]] = {}  # by the kind of a component

    def logs(self, classes: Sequence[Sequence[Share]]) -> list[float]:
        """ln of the probability of each class, the sum over its shares."""
        for shares in classes:
            for share in shares:
                for component in share.components:
                    if component.kind not in self.factors:
                        self.factors[component.kind] = self._added(component)
        for middle, around in self.around.items():
            around.values = log_measures(middle, list(around.rays), list(around.stars))
        values = {kind: sum(map(_log, factors)) for kind, factors in self.factors.items()}
        return [
            _total([_log_weight(share) + sum(values[c.kind] for c in share.components) for share in shares])
            for shares in classes
        ]

    def _added(self, component: Component) -> list[float | _Star]:
        """What the measure of the component is the product of: logarithms, and stars yet to be measured."""
        if all(isinstance(symbol, Symbol) for symbol in component.ranks):
            forms = [(_terms(slack), float(slack.constant)) for c in component.conditions for slack in slacks(c)]
            self.noise = {symbol.index: numeric(symbol.distribution) for symbol in component.ranks}  # type: ignore[union-attr]
            parts = [self._part(variables, part) for variables, part in _connected(forms)]
            if None not in parts:
                return parts  # type: ignore[return-value]
        return [Density([Piece(1, component.conditions, ())]).mass]

    def _part(self, variables: set[int], forms: list[_Form]) -> float | _Star | None:
        """The measure of connected forms; None where they are no star."""
        if not variables:
            return 0.0 if forms[0][1] >= 0 else -math.inf
        if any(len(terms) > 2 for terms, _ in forms):
            return None
        bounds = {variable: self.noise[variable].support for variable in variables}
        links: list[_Form] = []
        for form in forms:
            terms, constant = form
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
        shared = set.intersection(*({v for v, _ in terms} for terms, _ in links))
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
        places = []
        for variable, forms in by_ray.items():
            ends = tuple((dict(terms)[variable], dict(terms)[root], constant) for terms, constant in forms)
            ray = Ray(self.noise[variable], *bounds[variable], ends)
            places.append(around.rays.setdefault(ray, len(around.rays)))
        return _Star(around, around.stars.setdefault(tuple(sorted(places)), len(around.stars)))


def _log(factor: float | _Star) -> float:
    return factor.log_measure if isinstance(factor, _Star) else factor


def _log_weight(share: Share) -> float:
    if share.weight == 1:
        return 0.0
    return math.log(share.weight) if share.weight else -math.inf


def _total(logs: Sequence[float]) -> float:
    if len(logs) < 2:
        return logs[0] if logs else -math.inf
    return float(log_sum(np.array([logs]))[0])


def _terms(slack: Affine) -> tuple[tuple[int, float], ...]:
    return tuple((symbol.index, float(c)) for symbol, c in slack.terms.items() if isinstance(symbol, Symbol) and c)


def _connected(forms: Sequence[_Form]) -> list[tuple[set[int], list[_Form]]]:
    """The forms in groups that share variables; each form without variables is a group of its own."""
    groups: list[tuple[set[int], list[_Form]]] = []
    for form in forms:
        variables = {variable for variable, _ in form[0]}
        members = [form]
        apart = []
        for group in groups:
            if variables and not group[0].isdisjoint(variables):
                variables = group[0] | variables
                members = group[1] + members
            else:
                apart.append(group)
        groups = [*apart, (variables, members)]
    return groups
