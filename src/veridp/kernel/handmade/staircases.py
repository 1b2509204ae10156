"""Staircase noise that code makes by hand: four paths, for two signs and two parts of a step, as one that draws it.

Let G be geometric, G - 1 being k with probability p(1 - p)^k, U uniform on [0, 1], and 0 < γ < 1. With probability c/2
for either sign a path says something of ±(G - 1 + γU), and with (1 - c)/2 the same of ±(G - 1 + γ + (1 - γ)U). These
are the parts of the noise X that a `Staircase` draws: so one path that says it of X, with the weight of the four, has
the joint distribution of all that they say. G and U must occur in these sums alone.

The numbers are the rationals that the floats are, but for the upper part, which ends where the next step begins if its
end is next to that.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

from veridp.kernel.distributions import Number, exact
from veridp.kernel.expressions import Affine
from veridp.kernel.handmade.signs import ROUNDING, replaced, said_by
from veridp.kernel.handmade.transforms import Draft, chances_told
from veridp.kernel.noise import Geometric, Staircase, Uniform
from veridp.kernel.path import Path
from veridp.kernel.substitution import formula_of, within
from veridp.kernel.symbols import Noise, Symbol
from veridp.kernel.weights import Weight

PARTS = frozenset(itertools.product((-1, 1), (False, True)))  # a sign, and whether it is the upper part


class _Sum(NamedTuple):
    """sign · scale · (geometric + width · uniform): what a path has, up to a constant."""

    geometric: Noise
    uniform: Noise
    sign: int
    scale: Fraction
    width: Fraction


def with_staircases(paths: Sequence[Path]) -> Sequence[Path]:
    """The paths, with those that make staircase noise together as one that draws it."""
    if any(isinstance(path.weight, Weight) for path in paths):
        return paths
    if not any(isinstance(n.distribution, Geometric) for path in paths for n in path.noises):
        return paths
    found = chances_told(paths)
    for place in sorted({n.index for path in found for n in path.noises if isinstance(n.distribution, Geometric)}):
        joined = _with_staircase(found, place)
        if joined is not None:
            return with_staircases(joined)
    return paths


def _with_staircase(paths: Sequence[Path], place: int) -> list[Path] | None:
    """The paths with staircase noise in place of this draw, on all that name it; None where that is not what it is."""
    sums = {number: made for number, path in enumerate(paths) if (made := _sum(path, place)) is not None}
    widths = sorted({made.width for made in sums.values()})
    if not widths or len(widths) > 2 or abs(widths[0] + widths[-1] - 1) > ROUNDING:
        return None
    for lower in widths:
        groups: dict[object, dict[tuple[int, bool], tuple[int, Path, Noise]]] = {}
        for number, made in sums.items():
            for upper in (False, True):
                if len(widths) == 1 or upper == (made.width != lower):
                    path, noise = _part(paths[number], made, lower, upper)
                    groups.setdefault((said_by(path), path.noises), {})[made.sign, upper] = number, path, noise
        whole = [group for group in groups.values() if group.keys() == PARTS]
        members = [number for group in whole for number, _, _ in group.values()]
        named = {number for number, path in enumerate(paths) if any(n.index == place for n in path.noises)}
        if len(members) == len(set(members)) and set(members) == named:
            return _joined(paths, whole, set(members))
    return None


def _sum(path: Path, place: int) -> _Sum | None:
    """The sum of a geometric and a uniform draw that a path has, these being in it alone."""
    draft = Draft(path)
    geometric = draft.noises.get(place)
    if geometric is None or not isinstance(geometric.distribution, Geometric) or geometric.distribution.p == 1:
        return None
    for uniform in draft.noises.values():
        if not isinstance(uniform.distribution, Uniform) or not draft.mentioned[uniform]:
            continue
        ratio = draft.in_proportion(geometric, uniform)
        width = None if ratio is None else ratio * Fraction(uniform.distribution.scale)
        if width is not None and 0 < width < 1:
            factor = next(
                e.terms[geometric] for top in draft.expressions() for e in within(top) if geometric in e.terms
            )
            return _Sum(geometric, uniform, 1 if factor > 0 else -1, abs(Fraction(factor)), width)
    return None


def _part(path: Path, made: _Sum, lower: Fraction, upper: bool) -> tuple[Path, Noise]:
    """The path as one that says of staircase noise what it says of the sum, if that is this part of it."""
    draft = Draft(path)
    draws = (made.geometric, made.uniform)
    p = made.geometric.distribution.p  # type: ignore[attr-defined]
    law = Staircase(exact(made.scale), p, exact(lower), Fraction(1, 2))  # its chance is not known yet
    noise = draft.draw(draws, law, f"a staircase of {formula_of(draws[0])} and {formula_of(draws[1])}")
    slope = made.width / Fraction(made.uniform.distribution.scale)  # type: ignore[attr-defined]
    of_noise: dict[Symbol, Number] = {noise: exact(made.sign / made.scale), made.uniform: exact(-slope)}
    draft.put({made.geometric: Affine(exact(1 - lower * upper), of_noise)})
    done = draft.path()
    return done, next(each for each in done.noises if each.distribution == law)


def _joined(
    paths: Sequence[Path], groups: Sequence[dict[tuple[int, bool], tuple[int, Path, Noise]]], gone: set[int]
) -> list[Path] | None:
    """The paths with one in place of each group; None where the weights are not those of one distribution.

    The noise has the sign that it has on the first path of a group: so what is asked of it parts it, as it does there.
    """
    joined: dict[int, Path] = {}
    laws = set()
    for group in groups:
        weights = {part: Fraction(path.weight) for part, (_, path, _) in group.items()}
        if any(weights[1, upper] != weights[-1, upper] for upper in (False, True)):
            return None
        chance = weights[1, False] / (weights[1, False] + weights[1, True])
        (sign, _), (number, path, noise) = min(group.items(), key=lambda item: item[1][0])
        law = replace(noise.distribution, chance=exact(chance))  # type: ignore[type-var]
        laws.add(law)
        drawn = replace(noise, distribution=law)
        noises = [drawn if each == noise else each for each in path.noises]
        whole = sum(weights.values()) / Fraction(path.weight)
        joined[number] = replaced(path, {noise: Affine(0, {drawn: sign})}, noises, whole)
    if len(laws) > 1:
        return None
    return [joined.get(number, path) for number, path in enumerate(paths) if number in joined or number not in gone]
