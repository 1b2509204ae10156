"""Weights of events that depend on the data: read, shown to be probabilities, and bounded between neighbours.

Part of the checker. A weight is given region by region as N/D: sums of factor · e^(linear form of the data), of which
D is written as a product of sums with positive factors. The argument:

1. The regions of a weight make up all data, so it has one value W(x) for all data x.
2. W is above 0, and W is the same from either side where two regions meet. So on the straight way from data x to
   x + δ, which crosses finitely many regions, ln W is continuous and piecewise smooth, and

       ln W(x) - ln W(x + δ) = -∫ ∇ln W(x + sδ)·δ ds, for s from 0 to 1.

3. If cost·W + ∇W·δ >= 0 in every region, that is at most the cost. As W = N/D, this is 1/D² times

       S = Σ c d (cost + (l - k)·δ) e^((l + k)·x), over the terms c e^(l·x) of N and d e^(k·x) of D,

   whose coefficients are linear in δ: it suffices to look at the corners of the differences.
4. That S >= 0 (and likewise N·D > 0) is seen from its coefficients where none is negative. In a region where
   h_r(x) >= 0, S falls into sums e^(rest·x) · p(t) with a polynomial p in t_r = e^(-h_r(x)/unit), which lie in (0, 1].
   There p is a mean of its Bernstein coefficients: p >= 0 if none is negative, and p > 0 if besides the last one, whose
   share Π t_r^degree is above 0, is positive. Without conditions, every p is a single coefficient.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from operator import add, mul

from veridp_check.document import (
    CertificateFlaw,
    DocumentNode,
    LinearCondition,
    LinearForm,
    coefficients_in,
    condition_in,
    text_of,
)
from veridp_check.linear import LinearExpression, LinearRelation, LinearSystem

MAX_TERMS = 100_000  # of a product of sums of exponentials
MAX_COEFFICIENTS = 100_000  # of a polynomial

Form = tuple[Fraction, ...]  # an exponent: its coefficient for each entry of the data, then its constant
Exponentials = Mapping[Form, Fraction]  # the factor of each exponent


@dataclass(frozen=True)
class ExponentialRatio:
    """A sum of exponentials by a product of others."""

    numerator: Exponentials
    divisors: tuple[Exponentials, ...]

    def at(self, data: Sequence[Fraction]) -> float:
        """Its value on these data, in floats; no check rests on it."""
        total, size = _value(self.numerator, data)
        for divisor in self.divisors:
            part, more = _value(divisor, data)
            total, size = total / part, size - more
        return total * math.exp(size)


@dataclass(frozen=True)
class RegionWeight:
    """A weight on the data that satisfy the conditions; `by` are those that its slope is bounded by."""

    conditions: tuple[LinearCondition, ...]
    weight: ExponentialRatio
    by: tuple[int, ...]


@dataclass(frozen=True)
class PiecewiseWeight:
    """A weight on all data, and what it is said to cost over each polytope."""

    pieces: tuple[RegionWeight, ...]
    costs: tuple[Fraction, ...]


def _value(total: Exponentials, data: Sequence[Fraction]) -> tuple[float, float]:
    """m and s where the sum is m·e^s."""
    exponents = {form: float(sum(map(mul, form, (*data, Fraction(1))))) for form in total}
    most = max(exponents.values(), default=0.0)
    return math.fsum(float(c) * math.exp(exponents[form] - most) for form, c in total.items()), most


# -------------------------------------------------------------------------------------------------------------- reading


def weight_in(node: DocumentNode, size: int) -> Fraction | PiecewiseWeight:
    """A probability, or one that depends on the data."""
    if isinstance(node.value, str):
        return node.rational()
    field = node.fields("pieces", "costs")
    pieces = tuple(_piece(entry, size) for entry in field["pieces"].entries())
    if not pieces:
        raise field["pieces"].flaw("there is no piece")
    return PiecewiseWeight(pieces, tuple(entry.rational() for entry in field["costs"].entries()))


def _piece(node: DocumentNode, size: int) -> RegionWeight:
    field = node.fields("conditions", "numerator", "divisors", "by")
    conditions = tuple(condition_in(entry, (), size) for entry in field["conditions"].entries())
    divisors = tuple(_exponential_sum(entry, size) for entry in field["divisors"].entries())
    for entry, divisor in zip(field["divisors"].entries(), divisors, strict=True):
        if not divisor or any(factor <= 0 for factor in divisor.values()):
            raise entry.flaw("a divisor needs factors above 0")
    by = tuple(entry.whole(most=len(conditions) - 1) for entry in field["by"].entries())
    if any(conditions[k].relation == "==" for k in by):
        raise field["by"].flaw("inequalities are needed")
    return RegionWeight(conditions, ExponentialRatio(_exponential_sum(field["numerator"], size), divisors), by)


def _exponential_sum(node: DocumentNode, size: int) -> Exponentials:
    found: dict[Form, Fraction] = {}
    for entry in node.entries():
        field = entry.fields("factor", "data", "constant")
        data = coefficients_in(field["data"], range(size), "entry of the data")
        form = (*(data.get(i, Fraction(0)) for i in range(size)), field["constant"].rational())
        found[form] = found.get(form, Fraction(0)) + field["factor"].rational()
    return {form: factor for form, factor in found.items() if factor}


# ----------------------------------------------------------------------------------------------------------- identities


def _times(first: Exponentials, second: Exponentials) -> Exponentials:
    if len(first) * len(second) > MAX_TERMS:
        raise CertificateFlaw("/events", f"a product of weights has more than {MAX_TERMS} terms")
    found: dict[Form, Fraction] = {}
    for mine, c in first.items():
        for theirs, d in second.items():
            form = tuple(map(add, mine, theirs))
            found[form] = found.get(form, Fraction(0)) + c * d
    return {form: factor for form, factor in found.items() if factor}


def _product(sums: Sequence[Exponentials], size: int) -> Exponentials:
    total: Exponentials = {(Fraction(0),) * (size + 1): Fraction(1)}
    for each in sums:
        total = _times(total, each)
    return total


def sum_to_one(weights: Sequence[Fraction | ExponentialRatio], size: int) -> bool:
    """Whether the weights sum to 1 for all data: their numerators, brought to one divisor, are that divisor."""
    numbers = [weight for weight in weights if isinstance(weight, Fraction)]
    if len(numbers) == len(weights):
        return sum(numbers) == 1
    zero = (Fraction(0),) * (size + 1)
    ratios = [w if isinstance(w, ExponentialRatio) else ExponentialRatio({zero: w}, ()) for w in weights]
    common: list[Exponentials] = []
    for ratio in ratios:
        common += _left(ratio.divisors, common)
    total: dict[Form, Fraction] = {}
    for ratio in ratios:
        raised = _times(ratio.numerator, _product(_left(common, ratio.divisors), size))
        for form, factor in raised.items():
            total[form] = total.get(form, Fraction(0)) + factor
    return {form: factor for form, factor in total.items() if factor} == _product(common, size)


def _left(sums: Sequence[Exponentials], taken: Sequence[Exponentials]) -> list[Exponentials]:
    """The sums without those taken, each as often as it is there."""
    rest, out = list(sums), list(taken)
    for each in sums:
        if each in out:
            out.remove(each)
            rest.remove(each)
    return rest


# ---------------------------------------------------------------------------------------------------------- elimination


class _Basis:
    """Independent forms, and how others are made of them."""

    def __init__(self, forms: Sequence[Form]) -> None:
        self.count = len(forms)
        self.rows: list[tuple[int, Form, list[Fraction]]] = []  # a pivot, a form, and what it is made of
        self.independent = True
        for place, form in enumerate(forms):
            rest, made = self.split(form)
            pivot = next((i for i, c in enumerate(rest) if c), None)
            if pivot is None:
                self.independent = False
            else:
                self.rows.append((pivot, rest, [Fraction(k == place) - made[k] for k in range(self.count)]))

    def split(self, form: Form) -> tuple[Form, list[Fraction]]:
        """What is left of a form, and how often each of the basis was taken from it."""
        rest, made = form, [Fraction(0)] * self.count
        for pivot, row, own in self.rows:
            if times := rest[pivot] / row[pivot]:
                rest = tuple(c - times * d for c, d in zip(rest, row, strict=True))
                made = [total + times * each for total, each in zip(made, own, strict=True)]
        return rest, made


def _form_of(slack: LinearForm, size: int) -> Form:
    return (*(slack.data.get(i, Fraction(0)) for i in range(size)), slack.constant)


# ----------------------------------------------------------------------------------------------------------- continuity


def agree_where_they_meet(first: RegionWeight, second: RegionWeight, size: int) -> bool:
    """Whether two weights are the same wherever the closures of their regions meet.

    A form that is at least 0 in the closures, and cannot be above 0 where they meet, is 0 there: so multiples of it can
    be taken out of every exponent. If equal sums are left, the weights agree.
    """
    if first.weight == second.weight:
        return True
    conditions = (*first.conditions, *second.conditions)
    forms = [_form_of(condition.slack, size) for condition in conditions]
    slacks = [LinearExpression({f"entry {i}": c for i, c in enumerate(f[:-1]) if c}, f[-1]) for f in forms]
    meet = LinearSystem()
    for slack, condition in zip(slacks, conditions, strict=True):
        if not meet.assume(LinearRelation(slack, "==" if condition.relation == "==" else ">=")):
            return True
    planes = [f for f, slack in zip(forms, slacks, strict=True) if not meet.copy().assume(LinearRelation(slack, ">"))]
    basis = _Basis(planes)
    left, right = (_reduced(piece.weight, basis) for piece in (first, second))
    crossed = _times(left.numerator, _product(right.divisors, size))
    return crossed == _times(right.numerator, _product(left.divisors, size))


def _reduced(ratio: ExponentialRatio, basis: _Basis) -> ExponentialRatio:
    def reduced(total: Exponentials) -> Exponentials:
        found: dict[Form, Fraction] = {}
        for form, factor in total.items():
            rest, _ = basis.split(form)
            found[rest] = found.get(rest, Fraction(0)) + factor
        return {form: factor for form, factor in found.items() if factor}

    return ExponentialRatio(reduced(ratio.numerator), tuple(map(reduced, ratio.divisors)))


# ---------------------------------------------------------------------------------------------------------------- slope


@dataclass(frozen=True)
class Coefficient:
    """Of N·D, and of the slope N'D - ND' for each entry of the data; whether it is the last one of its polynomial."""

    value: Fraction
    slope: Form
    last: bool


def coefficients(piece: RegionWeight, size: int, place: str) -> Iterator[Coefficient]:
    """The Bernstein coefficients of step 4, all of them."""
    basis = _Basis([_form_of(piece.conditions[k].slack, size) for k in piece.by])
    if not basis.independent:
        raise CertificateFlaw(f"{place}/by", "conditions are needed of which none follows from the others")
    polynomials: dict[Form, dict[tuple[Fraction, ...], list[Fraction]]] = {}
    divisor = _product(piece.weight.divisors, size)
    for mine, c in piece.weight.numerator.items():
        for theirs, d in divisor.items():
            rest, made = basis.split(tuple(map(add, mine, theirs)))
            powers = tuple(-each for each in made)  # e^(times · h) is t^-times
            total = polynomials.setdefault(rest, {}).setdefault(powers, [Fraction(0)] * (size + 1))
            total[0] += c * d
            for i in range(size):
                total[i + 1] += c * d * (mine[i] - theirs[i])
    for polynomial in polynomials.values():
        yield from _bernstein(polynomial, place)


def _bernstein(polynomial: Mapping[tuple[Fraction, ...], list[Fraction]], place: str) -> Iterator[Coefficient]:
    """With degree d, the coefficient at b is Σ_a C(b, a)/C(d, a) times that of t^a, for each variable."""
    columns = list(zip(*polynomial, strict=True))
    least = [min(column) for column in columns]
    units = []
    for column, low in zip(columns, least, strict=True):
        denominator = math.lcm(*((power - low).denominator for power in column))
        steps = math.gcd(*(int((power - low) * denominator) for power in column)) or 1
        units.append(Fraction(steps, denominator))
    whole = {
        tuple(int((p - low) / unit) for p, low, unit in zip(powers, least, units, strict=True)): parts
        for powers, parts in polynomial.items()
    }
    degrees = tuple(max(powers[r] for powers in whole) for r in range(len(columns)))
    if math.prod(d + 1 for d in degrees) > MAX_COEFFICIENTS:
        raise CertificateFlaw(place, f"a polynomial has more than {MAX_COEFFICIENTS} coefficients")
    for at in itertools.product(*(range(d + 1) for d in degrees)):
        total = [Fraction(0)] * len(next(iter(whole.values())))
        for powers, parts in whole.items():
            share = math.prod(
                (Fraction(math.comb(b, a), math.comb(d, a)) for b, a, d in zip(at, powers, degrees, strict=True)),
                start=Fraction(1),
            )
            total = [sum_ + share * part for sum_, part in zip(total, parts, strict=True)]
        yield Coefficient(total[0], tuple(total[1:]), at == degrees)


def check_weight(weight: PiecewiseWeight, least: Sequence[Callable[[Form], Fraction]], size: int, place: str) -> None:
    """Raise Flaw where the weight may not be above 0 and continuous, or may change by more than a stated cost.

    That its regions make up all data is left to the caller. For each polytope, `least` gives the least value of a
    slope times a difference.
    """
    for k, piece in enumerate(weight.pieces):
        found = list(coefficients(piece, size, f"{place}/pieces/{k}"))
        if any(each.value < 0 for each in found) or not any(each.last and each.value > 0 for each in found):
            raise CertificateFlaw(f"{place}/pieces/{k}", "its coefficients do not show that the weight is above 0")
        for p, (cost, least_of) in enumerate(zip(weight.costs, least, strict=True)):
            if any(cost * each.value + least_of(each.slope) < 0 for each in found):
                reason = f"piece {k} does not show that the weight changes by at most e^{text_of(cost)}"
                raise CertificateFlaw(f"{place}/costs/{p}", reason)
    for (j, one), (k, other) in itertools.combinations(enumerate(weight.pieces), 2):
        if not agree_where_they_meet(one, other, size):
            raise CertificateFlaw(f"{place}/pieces/{k}", f"it may differ from piece {j} where their regions meet")
