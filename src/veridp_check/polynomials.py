"""Polynomials of data that lie in a domain: between what numbers they lie, and by how much they change.

Part of the checker. A polynomial on the unit cube is at most its constant plus its positive coefficients, as every
monomial is between 0 and 1. It is at most this, on a cube that is halved again and again, where one of these is used
first: a variable in which the derivative has one sign is at an end of its interval; one in which the second derivative
is nowhere negative is at one end or the other, as there the polynomial is convex. So what is found is never too small.

Change between neighbours is a polynomial too. Where a record is replaced, of both its values. Where numbers of a domain
of width w move up by up to m, both stay in it: x = low + (w - u)t and x' = x + u for t from 0 to 1 and u from 0 to m.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

Monomial = tuple[tuple[int, int], ...]  # variables with their powers, in order
Polynomial = Mapping[Monomial, Fraction]
Bounds = tuple[Fraction, Fraction]
MAX_MOVING = 5  # numbers that move at once, each up or down, where that is gone through
MAX_CUBES = 400  # that are looked at for one bound on a change
FEW_CUBES = 40  # for one on a value
CLOSE = Fraction(1, 10**10)  # relative: how close a bound has to be to a value
ZERO, ONE = Fraction(0), Fraction(1)


def plus(one: Polynomial, other: Polynomial, factor: Fraction = ONE) -> Polynomial:
    found = dict(one)
    for monomial, c in other.items():
        found[monomial] = found.get(monomial, ZERO) + factor * c
    return {monomial: c for monomial, c in found.items() if c}


def times(one: Polynomial, other: Polynomial) -> Polynomial:
    found: dict[Monomial, Fraction] = {}
    for (left, a), (right, b) in itertools.product(one.items(), other.items()):
        powers = dict(left)
        for variable, power in right:
            powers[variable] = powers.get(variable, 0) + power
        monomial = tuple(sorted(powers.items()))
        found[monomial] = found.get(monomial, ZERO) + a * b
    return {monomial: c for monomial, c in found.items() if c}


def _negative(polynomial: Polynomial) -> Polynomial:
    return {monomial: -c for monomial, c in polynomial.items()}


def degree(polynomial: Polynomial) -> int:
    return max((sum(power for _, power in monomial) for monomial in polynomial), default=0)


def range_of(polynomial: Polynomial, domain: Bounds) -> Bounds:
    """An interval in which it lies, for data of the domain; it may be wider than it has to be."""
    entries = {variable for monomial in polynomial for variable, _ in monomial}
    low, width = domain[0], domain[1] - domain[0]
    on_cube = _composed(polynomial, {v: {(): low, ((v, 1),): width} for v in entries})
    return -_largest(_negative(on_cube), FEW_CUBES), _largest(on_cube, FEW_CUBES)


def changes(
    polynomial: Polynomial, size: int, domain: Bounds, place: int | None, moves: tuple[int, int] | None
) -> Bounds:
    """By how much it changes where the number at the place does, or all do: up to so much, or where it is replaced to
    any number of the domain."""
    entries = sorted({variable for monomial in polynomial for variable, _ in monomial})
    moving = entries if place is None else [place] if place in entries else []
    if not moving:
        return ZERO, ZERO
    if degree(polynomial) <= 1:
        return _of_affine(polynomial, moving, domain, moves)
    if moves is None:
        most = _largest(_changed(polynomial, domain, dict.fromkeys(moving, 0), None, size), MAX_CUBES)
        return -most, most  # either value may be the first
    upwards = moves[0] == 0
    signs = [dict.fromkeys(moving, 0)]
    if len(moving) <= MAX_MOVING:
        signs = [
            dict(zip(moving, chosen, strict=True))
            for chosen in itertools.product((1,) if upwards else (1, -1), repeat=len(moving))
        ]
    found = [_changed(polynomial, domain, each, moves, size) for each in signs]
    budget = MAX_CUBES // len(found)
    high = max(_largest(each, budget) for each in found)
    low = -max(_largest(_negative(each), budget) for each in found) if upwards else -high  # either may be the first
    return min(low, ZERO), max(high, ZERO)


def _of_affine(polynomial: Polynomial, moving: Sequence[int], domain: Bounds, moves: tuple[int, int] | None) -> Bounds:
    width = domain[1] - domain[0]
    least, most = (
        (-width, width) if moves is None else (max(Fraction(moves[0]), -width), min(Fraction(moves[1]), width))
    )
    steps = [sorted((polynomial.get(((v, 1),), ZERO) * end) for end in (least, most)) for v in moving]
    return sum((low for low, _ in steps), start=ZERO), sum((high for _, high in steps), start=ZERO)


def _changed(
    polynomial: Polynomial, domain: Bounds, signs: Mapping[int, int], moves: tuple[int, int] | None, size: int
) -> Polynomial:
    """What it changes by, of variables from 0 to 1: of each number, and as many more for those that move."""
    low, width = domain[0], domain[1] - domain[0]
    first: dict[int, Polynomial] = {}
    for variable in {v for monomial in polynomial for v, _ in monomial}:
        first[variable] = {(): low, ((variable, 1),): width}
    second = dict(first)
    for variable, sign in signs.items():
        t, u = variable, size + variable
        if moves is None:
            second[variable] = {(): low, ((u, 1),): width}
            continue
        step = min(Fraction(moves[1]), width)
        if sign:
            lower: Polynomial = {(): low, ((t, 1),): width, ((t, 1), (u, 1)): -step}
            upper = plus(lower, {((u, 1),): step})
            first[variable], second[variable] = (lower, upper) if sign > 0 else (upper, lower)
        else:  # whether up or down, and whether it stays in the domain, is not asked
            second[variable] = plus(first[variable], {(): Fraction(moves[0]), ((u, 1),): Fraction(moves[1] - moves[0])})
    return plus(_composed(polynomial, second), _composed(polynomial, first), -ONE)


def _composed(polynomial: Polynomial, values: Mapping[int, Polynomial]) -> Polynomial:
    """The polynomial of polynomials."""
    found: Polynomial = {}
    for monomial, c in polynomial.items():
        product: Polynomial = {(): c}
        for variable, power in monomial:
            for _ in range(power):
                product = times(product, values[variable])
        found = plus(found, product)
    return found


# ---------------------------------------------------------------------------------------------------- on the unit cube


def _crude(polynomial: Polynomial) -> Bounds:
    """An interval in which it lies on the unit cube."""
    constant = polynomial.get((), ZERO)
    rest = [c for monomial, c in polynomial.items() if monomial]
    return constant + sum((c for c in rest if c < 0), start=ZERO), constant + sum(
        (c for c in rest if c > 0), start=ZERO
    )


def _largest(polynomial: Polynomial, most_cubes: int) -> Fraction:
    """A number that it nowhere exceeds on the unit cube, and mostly comes close to."""
    counter = itertools.count()
    waiting = [(-_crude(polynomial)[1], next(counter), polynomial)]
    best = polynomial.get((), ZERO)  # its value where all variables are 0
    for _ in range(most_cubes):
        most, _, cube = waiting[0]
        if -most <= best + CLOSE * abs(best):
            break
        heapq.heappop(waiting)
        for part in _parts(cube):
            best = max(best, part.get((), ZERO), sum(part.values(), start=ZERO))
            heapq.heappush(waiting, (-_crude(part)[1], next(counter), part))
    return max(-waiting[0][0], best)


def _parts(cube: Polynomial) -> Iterator[Polynomial]:
    """Polynomials on unit cubes, the largest of which has the largest value that this one has."""
    variables = sorted({variable for monomial in cube for variable, _ in monomial})
    convex = None
    for variable in variables:
        slope = _derivative(cube, variable)
        low, high = _crude(slope)
        if low >= 0 or high <= 0:
            yield _at(cube, variable, 1 if low >= 0 else 0)
            return
        if convex is None and _crude(_derivative(slope, variable))[0] >= 0:
            convex = variable
    if convex is not None:
        yield from (_at(cube, convex, end) for end in (0, 1))
    elif variables:
        widest = max(variables, key=lambda v: sum(abs(c) for m, c in cube.items() if v in dict(m)))
        yield from (_half(cube, widest, start) for start in (ZERO, Fraction(1, 2)))
    else:
        yield cube


def _derivative(polynomial: Polynomial, variable: int) -> Polynomial:
    found: dict[Monomial, Fraction] = {}
    for monomial, c in polynomial.items():
        powers = dict(monomial)
        if power := powers.get(variable, 0):
            powers[variable] -= 1
            found[tuple((v, p) for v, p in sorted(powers.items()) if p)] = c * power
    return found


def _at(polynomial: Polynomial, variable: int, end: int) -> Polynomial:
    found: dict[Monomial, Fraction] = {}
    for monomial, c in polynomial.items():
        if end or all(v != variable for v, _ in monomial):
            rest = tuple((v, p) for v, p in monomial if v != variable)
            found[rest] = found.get(rest, ZERO) + c
    return {monomial: c for monomial, c in found.items() if c}


def _half(polynomial: Polynomial, variable: int, start: Fraction) -> Polynomial:
    """On the half of the cube where the variable is between the start and 1/2 more."""
    found: dict[Monomial, Fraction] = {}
    for monomial, c in polynomial.items():
        powers = dict(monomial)
        power = powers.pop(variable, 0)
        for k in range(power + 1):
            part = c * math.comb(power, k) * Fraction(1, 2) ** k * start ** (power - k)
            if part:
                own = tuple(sorted({**powers, variable: k}.items())) if k else tuple(sorted(powers.items()))
                found[own] = found.get(own, ZERO) + part
    return {monomial: c for monomial, c in found.items() if c}
