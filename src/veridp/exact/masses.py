"""The probabilities of many classes of outputs at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from veridp.exact.curve import Density, slacks
from veridp.exact.noise import Noise, numeric
from veridp.exact.pieces import Piece
from veridp.exact.quadrature import log_sum
from veridp.exact.star import Middle, Ray, log_measures
from veridp.program.affine import Affine, Condition
from veridp.program.affine import Noise as Symbol

_Form = tuple[tuple[tuple[int, float], ...], float]  # (variable, coefficient) pairs and a constant: form >= 0


def log_masses(classes: Sequence[Sequence[Piece]]) -> list[float]:
    """ln of the probability of each class, its pieces' numeric entries left out of account."""
    table = _StarTable()
    handles = [[table.add(piece) for piece in pieces] for pieces in classes]
    table.evaluate()
    return [
        _total(pieces, [table.value(handle) for handle in row]) for pieces, row in zip(classes, handles, strict=True)
    ]


def _total(pieces: Sequence[Piece], values: Sequence[float | None]) -> float:
    logs = [
        Density([Piece(piece.weight, piece.conditions, ())]).mass if value is None else value
        for piece, value in zip(pieces, values, strict=True)
    ]
    return float(log_sum(np.array([logs]))[0]) if logs else -math.inf


@dataclass
class _Handle:
    """A piece that is a product of stars: the logarithm of what is constant, and its stars by their number."""

    constant: float
    stars: list[tuple[Middle, int]]


@dataclass
class _Around:
    """The rays and stars around one middle."""

    rays: dict[Ray, int] = field(default_factory=dict)
    stars: dict[tuple[int, ...], int] = field(default_factory=dict)
    values: np.ndarray | None = None


class _StarTable:
    """Takes pieces apart into stars, each kept once."""

    def __init__(self) -> None:
        self.noise: dict[int, Noise] = {}
        self.forms: dict[int, list[_Form]] = {}
        self.around: dict[Middle, _Around] = {}

    def add(self, piece: Piece) -> _Handle | None:
        """The piece as stars; None where it is none of these."""
        self.noise = {}
        forms = [form for condition in piece.conditions for form in self._parsed(condition)]
        for condition in piece.conditions:
            for symbol in condition.slack.terms:
                if not isinstance(symbol, Symbol):
                    return None
                self.noise[symbol.index] = numeric(symbol.distribution)
        handle = _Handle(math.log(piece.weight) if piece.weight else -math.inf, [])
        for variables, part in _connected(forms):
            if not variables:
                handle.constant += 0.0 if part[0][1] >= 0 else -math.inf
            elif not self._add_part(handle, variables, part):
                return None
        return handle

    def _parsed(self, condition: Condition) -> list[_Form]:
        known = self.forms.get(id(condition))
        if known is None:
            known = [
                (
                    tuple((s.index, float(c)) for s, c in slack.terms.items() if isinstance(s, Symbol) and c),
                    float(slack.constant),
                )
                for slack in slacks(condition)
            ]
            self.forms[id(condition)] = known
        return known

    def _add_part(self, handle: _Handle, variables: set[int], forms: list[_Form]) -> bool:
        if any(len(terms) > 2 for terms, _ in forms):
            return False
        bounds = {variable: self.noise[variable].support for variable in variables}
        links: list[_Form] = []
        for terms, constant in forms:
            if len(terms) == 2:
                links.append((terms, constant))
                continue
            ((variable, coefficient),) = terms
            low, high = bounds[variable]
            at = -constant / coefficient
            bounds[variable] = (max(low, at), high) if coefficient > 0 else (low, min(high, at))
        if not links:
            (variable,) = variables
            low, high = bounds[variable]
            handle.constant += float(self.noise[variable].log_between(np.array(low), np.array(high)))
            return True
        shared = set.intersection(*({v for v, _ in terms} for terms, _ in links))
        candidates = [variable for variable in shared if not self.noise[variable].integer]
        if not candidates or any(self.noise[variable].integer for variable in variables):
            return False
        self._add_star(handle, candidates[0], bounds, links)
        return True

    def _add_star(self, handle: _Handle, root: int, bounds: dict[int, tuple[float, float]], links: list[_Form]) -> None:
        by_ray: dict[int, list[tuple[float, float, float]]] = {}
        for terms, constant in links:
            coefficients = dict(terms)
            (ray,) = coefficients.keys() - {root}
            by_ray.setdefault(ray, []).append((coefficients[ray], coefficients[root], constant))
        middle = Middle(self.noise[root], *bounds[root])
        around = self.around.setdefault(middle, _Around())
        places = []
        for variable, its_links in by_ray.items():
            its = Ray(self.noise[variable], *bounds[variable], tuple(its_links))
            places.append(around.rays.setdefault(its, len(around.rays)))
        star = tuple(sorted(places))
        handle.stars.append((middle, around.stars.setdefault(star, len(around.stars))))

    def evaluate(self) -> None:
        for middle, around in self.around.items():
            around.values = log_measures(middle, list(around.rays), list(around.stars))

    def value(self, handle: _Handle | None) -> float | None:
        if handle is None:
            return None
        values = [self.around[middle].values for middle, _ in handle.stars]
        return handle.constant + sum(
            float(found[place]) for found, (_, place) in zip(values, handle.stars, strict=True) if found is not None
        )


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
