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
    if len(logs) < 2:
        return logs[0] if logs else -math.inf
    return float(log_sum(np.array([logs]))[0])


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
        self.forms: dict[int, tuple[Condition, list[_Form]]] = {}
        self.around: dict[Middle, _Around] = {}
        self.places: dict[tuple[int, int, _Form], int] = {}  # of rays with one link and no bounds of their own

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
            found = [(_terms(slack), float(slack.constant)) for slack in slacks(condition)]
            known = self.forms[id(condition)] = (condition, found)  # kept, so that its identity stays its own
        return known[1]

    def _add_part(self, handle: _Handle, variables: set[int], forms: list[_Form]) -> bool:
        if any(len(terms) > 2 for terms, _ in forms):
            return False
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
            handle.constant += float(self.noise[variable].log_between(np.array(low), np.array(high)))
            return True
        shared = set.intersection(*({v for v, _ in terms} for terms, _ in links))
        candidates = [variable for variable in shared if not self.noise[variable].integer]
        if not candidates or any(self.noise[variable].integer for variable in variables):
            return False
        self._add_star(handle, candidates[0], bounds, links)
        return True

    def _add_star(self, handle: _Handle, root: int, bounds: dict[int, tuple[float, float]], links: list[_Form]) -> None:
        by_ray: dict[int, list[_Form]] = {}
        for form in links:
            (a, _), (b, _) = form[0]
            by_ray.setdefault(b if a == root else a, []).append(form)
        middle = Middle(self.noise[root], *bounds[root])
        around = self.around.setdefault(middle, _Around())
        places = [self._place(around, root, variable, bounds[variable], its) for variable, its in by_ray.items()]
        star = tuple(sorted(places))
        handle.stars.append((middle, around.stars.setdefault(star, len(around.stars))))

    def _place(self, around: _Around, root: int, variable: int, bounds: tuple[float, float], forms: list[_Form]) -> int:
        """The number of the ray among those around the middle."""
        noise = self.noise[variable]
        plain = len(forms) == 1 and bounds == noise.support
        key = (id(around), variable, forms[0])  # what is around a middle lives as long as the table
        if plain and key in self.places:
            return self.places[key]
        links = tuple((dict(terms)[variable], dict(terms)[root], constant) for terms, constant in forms)
        place = around.rays.setdefault(Ray(noise, *bounds, links), len(around.rays))
        if plain:
            self.places[key] = place
        return place

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
