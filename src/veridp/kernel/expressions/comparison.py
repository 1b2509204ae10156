"""What comparisons of expressions make: conditions, in the simplest form that is exactly the same.

Strict and weak inequalities stay apart. A comparison of a function that nowhere falls is one of its argument; the sign
of a product is that of its factors; and positive functions of open values are compared by their logarithms.
"""

from __future__ import annotations

import math
import operator
from fractions import Fraction
from typing import Any

import numpy as np

from veridp.kernel import functions
from veridp.kernel.distributions import Number, exact
from veridp.kernel.expressions.affine import OPERATIONS, Affine, affine, brief, held_as
from veridp.kernel.expressions.arithmetic import is_positive, parts_of, terms_sum
from veridp.kernel.expressions.decider import RUN, refuse
from veridp.kernel.expressions.records import is_sure
from veridp.kernel.expressions.undecided import Condition
from veridp.kernel.stand_ins import Symbolic
from veridp.kernel.symbols import Derived, Noise, Relation, Symbol, drawn_in, has_no_atoms
from veridp.kernel.weights import Weight, weight_of


def _compare(first: Affine, second: Any, relation: Relation, turned: bool = False) -> Any:
    if not isinstance(second, Symbolic) and isinstance(second, float) and not np.isfinite(second):
        return _against_infinity(first, second, relation, turned)
    if second is None or isinstance(second, str):
        return NotImplemented if relation in (Relation.AT_LEAST, Relation.ABOVE) else relation is Relation.UNEQUAL
    if isinstance(second, complex):  # which would be asked next, and know nothing of stand-ins
        refuse(f"{brief(first)} is compared with a complex number")
    parts = parts_of(second)
    if parts is None:
        return NotImplemented
    constant, terms, _, numpy = parts
    sign = -1 if turned else 1
    slack = sign * (first.constant - constant)
    total = terms_sum(first.terms, {s: -c for s, c in terms.items()})
    numpy = numpy or first.held
    if not total:
        return held_as(bool(relation.holds(slack)), numpy)
    # a comparison does not wrap around, so its difference is no integer of NumPy's
    difference = Affine(slack, {s: -c for s, c in total.items()} if turned else total, "f", numpy)
    condition = Condition(difference, relation)
    for asked, answer in ((condition, True), (condition.negated(), False)):
        if is_sure(asked):
            return held_as(answer, numpy)
    if difference.functions:
        weighed = _weighed(condition)
        if weighed is True or weighed is False:  # a condition passes for a truth value
            return held_as(weighed, numpy)
        if weighed is condition:
            by_factors = _by_factors(condition)
            if by_factors is not condition:
                return held_as(by_factors, numpy)
        condition = Condition(Affine(weighed.slack.constant, weighed.slack.terms, "f", numpy), weighed.relation)
    if relation in (Relation.AT_LEAST, Relation.ABOVE):
        rewritten = in_arguments(_without_sign(condition))
        if isinstance(rewritten, bool):
            return held_as(rewritten, numpy)
        if rewritten is not None and len(rewritten) == 1:
            inner = rewritten[0].slack
            condition = Condition(Affine(inner.constant, inner.terms, "f", numpy), rewritten[0].relation)
    run = RUN.get()
    if run is not None:
        run.compared(condition)
        if run.settles:
            return condition.settled()
    return condition


def _against_infinity(first: Affine, bound: float, relation: Relation, turned: bool) -> Any:
    """Noise is finite: how it compares with ±inf (or NaN) is known."""
    holds = bool(relation.holds(bound if turned else -bound))
    return held_as(holds, first.held or isinstance(bound, np.generic))


def in_arguments(condition: Condition) -> list[Condition] | bool | None:
    """The same condition on the argument of a function that nowhere falls; None where it is not on one such alone.

    Its truth where that is known. What always holds of several conditions is left out.
    """
    slack = condition.slack
    if len(slack.terms) != 1:
        return None
    ((symbol, coefficient),) = slack.terms.items()
    if not isinstance(symbol, Derived) or symbol.function.at_least is None or len(symbol.arguments) != 1:
        return None
    if condition.relation is Relation.UNEQUAL:
        return None
    level, argument = -Fraction(slack.constant) / coefficient, symbol.expressions[0]
    above, below = coefficient > 0, coefficient < 0
    if condition.relation is Relation.EQUAL:
        above = below = True
    strict = condition.relation is Relation.ABOVE
    found = []
    if above:
        found.append((symbol.function.at_least(level, strict), False))
    if below:  # u <= level is not u > level, and u < level is not u >= level
        found.append((symbol.function.at_least(level, not strict), True))
    conditions: list[Condition] = []
    for (bound, excluded), negated in found:
        if bound in (np.inf, -np.inf):
            if (bound < 0) is negated:
                return False
            continue
        reached = argument - exact(Fraction(bound))
        each = Condition(
            Affine(reached.constant, reached.terms, "f", reached.held),
            Relation.ABOVE if excluded else Relation.AT_LEAST,
        )
        inner = each.negated() if negated else each
        further = in_arguments(inner)
        if further is False:
            return False
        conditions += [inner] if further is None else [] if further is True else further
    return conditions or True


def _without_sign(condition: Condition) -> Condition:
    """The condition, where it is on a function that does not see signs: on its argument without the sign."""
    if len(condition.slack.terms) != 1:
        return condition
    ((symbol, coefficient),) = condition.slack.terms.items()
    if not isinstance(symbol, Derived) or symbol.function.from_zero is None:
        return condition
    size = Derived(symbol.function.from_zero, (abs(symbol.expressions[0]),))
    return Condition(Affine(condition.slack.constant, {size: coefficient}, "f", condition.numpy), condition.relation)


def _by_factors(condition: Condition) -> Any:
    """The condition, where it asks for the sign of a product or quotient: by the sign of its last factor, decided now.

    A quotient whose divisor may be 0 is left as it is: NumPy's is infinite there, or no number.
    """
    if condition.slack.constant or len(condition.slack.terms) != 1:
        return condition
    ((symbol, coefficient),) = condition.slack.terms.items()
    if not isinstance(symbol, Derived) or symbol.function not in _SIGNED:
        return condition
    *firsts, last = symbol.arguments
    if symbol.function is not functions.PRODUCT and not has_no_atoms(last.terms) and not is_positive(last):
        return condition
    first: Any = firsts[0] if firsts else 1
    if condition.relation is Relation.EQUAL or condition.relation is Relation.UNEQUAL:
        zero = first == 0 or (symbol.function is functions.PRODUCT and bool(last == 0))
        return zero if condition.relation is Relation.EQUAL else not zero
    sign = 1 if last > 0 else -1 if last < 0 else 0
    value = first * exact(coefficient * sign)
    return value >= 0 if condition.relation is Relation.AT_LEAST else value > 0


_SIGNED = (functions.PRODUCT, functions.QUOTIENT, functions.RECIPROCAL)


def _weighed(condition: Condition) -> Condition | bool:
    """The condition, on positive functions of open values: decided where they have one sign, else affine if it can be.

    Noise that they multiply is compared with their quotient instead; and where they cancel, with a number.
    """
    slack = condition.slack
    noisy = {symbol: c for symbol, c in slack.terms.items() if _is_noisy(symbol)}
    if not noisy:
        weight = weight_of(slack)
        known = None if weight is None else sign_of(Weight.of(weight), condition.relation)
        return condition if known is None else known
    rest = affine(slack.constant, {symbol: c for symbol, c in slack.terms.items() if symbol not in noisy})
    ((symbol, coefficient), *others) = noisy.items()
    if isinstance(symbol, Derived):
        times = symbol.function == functions.PRODUCT
        if others or not (times or symbol.function == functions.QUOTIENT):
            return condition
        arguments: tuple[Any, ...] = symbol.arguments
        noise, factor = arguments if not times or _has_noise(arguments[0]) else arguments[::-1]
        weight = weight_of(factor)
        if not isinstance(noise, Affine) or not isinstance(weight, Weight) or weight.sign != 1:
            return condition
        ratio = (rest / factor if times else rest * factor) if isinstance(rest, Affine) or rest else 0
        moved = Condition(noise * coefficient + ratio, condition.relation)
        return _weighed(moved) if moved.slack.functions else moved
    weight = weight_of(rest)
    if isinstance(rest, Affine) and weight is not None and not isinstance(weight, Weight):
        return Condition(Affine(weight, noisy), condition.relation)
    return condition


def _is_noisy(symbol: Symbol) -> bool:
    return any(isinstance(drawn, Noise) for drawn in drawn_in([symbol]))


def _has_noise(value: Any) -> bool:
    return isinstance(value, Affine) and any(map(_is_noisy, value.terms))


def sign_of(weight: Weight, relation: Relation) -> Condition | bool | None:
    """How the weight stands to 0: for all data, or where a condition holds; None where that is not known."""
    if weight.sign is not None:
        return bool(relation.holds(weight.sign))
    terms = weight.numerator.terms
    if len(terms) != 2:
        return None
    (above, most), (below, least) = sorted(terms.items(), key=operator.itemgetter(1), reverse=True)
    exponent: dict[Any, Number] = dict(above)  # c·e^a - d·e^b is above 0 just where a - b + ln(c/d) is
    for symbol, coefficient in below:
        exponent[symbol] = exponent.get(symbol, 0) - coefficient
    constant = exponent.pop(None, 0)
    if most != -least:
        constant += Fraction(math.log(most)) - Fraction(math.log(-least))
    compared = affine(exact(constant), {symbol: exact(c) for symbol, c in exponent.items() if c})
    return Condition(compared, relation) if isinstance(compared, Affine) else bool(relation.holds(compared))


OPERATIONS.update(
    {
        "ge": lambda first, second: _compare(first, second, Relation.AT_LEAST),
        "gt": lambda first, second: _compare(first, second, Relation.ABOVE),
        "le": lambda first, second: _compare(first, second, Relation.AT_LEAST, turned=True),
        "lt": lambda first, second: _compare(first, second, Relation.ABOVE, turned=True),
        "eq": lambda first, second: _compare(first, second, Relation.EQUAL),
        "ne": lambda first, second: _compare(first, second, Relation.UNEQUAL),
    }
)
