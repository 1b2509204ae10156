"""Whether more conditions leave room on a path, decided exactly, and points inside it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from veridp.kernel.distributions import Number, exact
from veridp.kernel.expressions import Condition
from veridp.kernel.path import Path, condition_with_values
from veridp.kernel.symbols import Derived, Noise, Relation, Symbol, Unknown, drawn_in, is_atomless, value_of
from veridp.numerics.components import components

if TYPE_CHECKING:  # slow to import
    from veridp.numerics.inequalities import LinearInequality

# ------------------------------------------------------------------------------------------------------------ interior
# Points inside a path: values of its noise, and of what is open, that lead down it with room to spare.


REACHES = (8.0, 1e3, 1e7)  # in units of the noise: how far out a point is looked for
MARGIN = 0.02  # in units of the noise: how far from the boundary a point should be
LEAST_MARGIN = 1e-4  # of that margin, below which a path counts as having no inside
EDGE = 1e-4  # in units of the noise: how far inside a boundary a point beside it is
FUNCTION_TRIES = 64  # points that are tried where conditions are on functions of the noise
LAST_DRAWS = 4  # that are tried one by one where a path leaves no margin
REPAIRS = 4  # rounds in which violated conditions are mended one by one


class Inside:
    """The inside of a path, near these values of what is open."""

    def __init__(self, path: Path, place: Mapping[Symbol, float], rng: np.random.Generator) -> None:
        self.path, self.place, self.rng = path, place, rng
        self.units: dict[Symbol, float] = {noise: noise.distribution.unit for noise in path.noises}
        self.units |= {symbol: _unit(symbol) for symbol in place}

    def point(self, *more: Condition) -> dict[Symbol, float] | None:
        """Values that satisfy the conditions of the path, and these too; None where there are none to be found."""
        conditions = [*self.path.conditions, *more]
        found = self._found(conditions)
        return self._found_between(conditions) if found is None else found

    def edge(self, condition: Condition) -> dict[Symbol, float] | None:
        """Values that satisfy the conditions of the path, and this one by next to nothing."""
        if condition.slack.functions:
            return None
        others = [other for other in self.path.conditions if other is not condition]
        beside = self._margin(condition, EDGE)
        return self._found([Condition(condition.slack - beside, Relation.EQUAL), *others])

    def _found(self, conditions: Sequence[Condition]) -> dict[Symbol, float] | None:
        if not conditions and not self.units:
            return {}
        of_data = [condition for condition in conditions if any(map(_is_open, condition.slack.functions))]
        if of_data:
            return self._found_on_data(conditions, of_data)
        of_functions = [condition for condition in conditions if condition.slack.functions]
        affine = [condition for condition in conditions if not condition.slack.functions]
        middle = float(np.mean(list(self.place.values()))) if self.place else 0.0
        for number in range(FUNCTION_TRIES if of_functions else 1):
            start: dict[Symbol, float] = {n: n.distribution.draw(self.rng, 1)[0].item() for n in self.path.noises}
            closer = 0.1 ** (number % 3)  # open values that lie close together leave more to the noise
            place = {symbol: middle + closer * (value - middle) for symbol, value in self.place.items()}
            repaired = self._repaired({**start, **(place if number else self.place)}, affine)
            found = self._solved(affine) if repaired is None else repaired
            if found is None or all(bool(condition.holds(found)) for condition in of_functions):
                return found
        return None

    def _found_on_data(
        self, conditions: Sequence[Condition], of_data: Sequence[Condition]
    ) -> dict[Symbol, float] | None:
        """Values where some conditions are on functions of what is open: these are given values first."""
        first = self._found([condition for condition in conditions if all(condition is not c for c in of_data)])
        if first is None:
            return None
        place: dict[Symbol, float] = {s: value for s, value in first.items() if isinstance(s, Unknown)}
        asked = {s for c in conditions for s in drawn_in(c.slack.terms) if isinstance(s, Unknown)}
        values: dict[Unknown, Number] = {symbol: exact(value_of(symbol, place)) for symbol in asked}
        told = [condition_with_values(c, values, {}) for c in conditions]
        found = Inside(self.path, {}, self.rng)._found([c for c in told if isinstance(c, Condition)])
        decided_false = any(condition is False for condition in told)
        return None if found is None or decided_false else found | place

    def _found_between(self, conditions: Sequence[Condition]) -> dict[Symbol, float] | None:
        """Values where draws lie between ends that leave no margin: in the middle, by exact ranges; at first with
        nothing else given, then on these data, then one of the last draws after all others."""
        draws: dict[Symbol, float] = {n: n.distribution.draw(self.rng, 1)[0].item() for n in self.path.noises}
        last = [noise for noise in self.path.noises if not noise.distribution.integer][: -LAST_DRAWS - 1 : -1]
        places = [{s: v for s, v in {**self.place, **draws}.items() if s != noise} for noise in last]
        for given in ({}, self.place, *places):
            told = _with_values(conditions, given)
            if told is None:
                continue
            narrow: dict[Symbol, float] = {
                noise: float((low + high) / 2)
                for noise, low, high in ranges_of_draws([], told)
                if noise in self.units and float(high - low) < 2 * MARGIN * self.units[noise]
                if not noise.distribution.integer
            }
            rest = _with_values(told, narrow) if narrow else None
            found = None if rest is None else self._found(rest)
            if found is not None:
                return {**found, **given, **narrow}
        return None

    def _repaired(self, values: dict[Symbol, float], conditions: Sequence[Condition]) -> dict[Symbol, float] | None:
        """Move the latest noise of each violated condition just far enough; it mostly occurs in no earlier one."""
        for _ in range(REPAIRS):
            violated = False
            for condition in conditions:
                lacking = self._lacking(condition, values)
                if lacking:
                    violated = True
                    if not self._mend(condition, values, lacking):
                        return None
            if not violated:
                return values
        return None

    def _lacking(self, condition: Condition, values: Mapping[Symbol, float]) -> float:
        """By how much the slack has to grow (or, for an equality, to change); 0 where it is well satisfied."""
        slack = condition.slack.evaluate(values)
        if condition.relation is Relation.EQUAL:
            return -float(slack)
        if condition.relation is Relation.UNEQUAL:
            return 0.0
        margin = self._margin(condition)
        return float(margin - slack) if slack < margin else 0.0

    def _margin(self, condition: Condition, share: float = MARGIN) -> float:
        """How large a slack should be: a share of the noise in it; integers are apart by themselves."""
        if condition.slack.stands_for is int:
            return 1.0 if condition.relation is Relation.ABOVE else 0.0
        return share * max(abs(float(c)) * self.units.get(s, 1.0) for s, c in condition.slack.terms.items())

    def _mend(self, condition: Condition, values: dict[Symbol, float], lacking: float) -> bool:
        for symbol in sorted(condition.slack.terms, reverse=True):  # the noise drawn last comes first
            if symbol not in values:  # a power of one that is
                continue
            step = lacking / float(condition.slack.terms[symbol])
            low, high = symbol.distribution.support if isinstance(symbol, Noise) else _float_ends(symbol)
            if _is_whole(symbol):
                step = np.sign(step) * np.ceil(abs(step) - 1e-9)
            elif condition.relation is not Relation.EQUAL:
                step *= 1 + self.rng.random()
            if low < values[symbol] + step < high or (_is_whole(symbol) and low <= values[symbol] + step <= high):
                values[symbol] += type(values[symbol])(step)
                return True
        return False

    def _solved(self, conditions: Sequence[Condition]) -> dict[Symbol, float] | None:
        """The point farthest from all boundaries, up to a margin, by an integer program; ever farther out."""
        from scipy.optimize import Bounds, LinearConstraint, milp

        symbols = list(self.units)
        if any(symbol not in self.units for condition in conditions for symbol in condition.slack.terms):
            return None  # a power of a record
        rows = np.array([[float(c.slack.terms.get(s, 0)) for s in symbols] + [-self._margin(c)] for c in conditions])
        needed = np.array([-float(c.slack.constant) for c in conditions])
        equal = np.array([c.relation is Relation.EQUAL for c in conditions])
        kept = np.array([c.relation is not Relation.UNEQUAL for c in conditions])
        rows[equal, -1] = 0.0
        whole = [c.slack.stands_for is int for c in conditions]
        needed[whole] += -rows[whole, -1]  # a whole margin is asked for in full
        rows[whole, -1] = 0.0
        for reach in REACHES:
            low, high = np.array([*(self._ends(symbol, reach) for symbol in symbols), (0.0, 1.0)]).T
            answer = milp(
                np.append(np.zeros(len(symbols)), -1.0),
                constraints=LinearConstraint(rows[kept], needed[kept], np.where(equal, needed, np.inf)[kept]),
                bounds=Bounds(low, high),
                integrality=np.append([int(_is_whole(symbol)) for symbol in symbols], 0),
                options={"time_limit": 5.0},
            )
            if answer.x is not None and answer.x[-1] > LEAST_MARGIN:
                found = zip(symbols, answer.x[:-1].tolist(), strict=True)
                return {s: round(x) if _is_whole(s) else x for s, x in found}
        return None

    def _ends(self, symbol: Symbol, reach: float) -> tuple[float, float]:
        if not isinstance(symbol, Noise):
            low, high = _float_ends(symbol)
            return max(self.place[symbol] - reach, low), min(self.place[symbol] + reach, high)
        low, high = symbol.distribution.support
        room = 0.0 if _is_whole(symbol) else 1e-6 * self.units[symbol]
        return max(low + room, -reach * self.units[symbol]), min(high - room, reach * self.units[symbol])


def _with_values(conditions: Sequence[Condition], values: Mapping[Symbol, float]) -> list[Condition] | None:
    """What is left of the conditions where these have values; None where one of them does not hold then."""
    given: dict[Any, Number] = {symbol: exact(value) for symbol, value in values.items()}
    told = [condition_with_values(condition, given, {}) for condition in conditions]
    return None if any(c is False for c in told) else [c for c in told if isinstance(c, Condition)]


def _is_open(function: Derived) -> bool:
    """Whether it is a function of open values alone."""
    return all(isinstance(symbol, Unknown) for symbol in drawn_in([function]))


def _unit(symbol: Symbol) -> float:
    """The unit of what is open: 1, or less in a narrow range."""
    low, high = _float_ends(symbol) if isinstance(symbol, Unknown) else (-np.inf, np.inf)
    return min(1.0, (high - low) / 8)


def _float_ends(symbol: Unknown | Derived) -> tuple[float, float]:
    ends = symbol.ends if isinstance(symbol, Unknown) else None
    return (-np.inf, np.inf) if ends is None else (float(ends[0]), float(ends[1]))


def _is_whole(symbol: Symbol) -> bool:
    return isinstance(symbol, Noise) and symbol.distribution.integer


# --------------------------------------------------------------------------------------------------------- feasibility
# Whether more conditions leave room on a path, decided exactly.
#
# Room means: some values of the noise, for some open values, satisfy all conditions, and where continuous noise is
# involved they form a set of positive probability. A path without room is never taken. What is not decided in a number
# of steps counts as possible: pruning is only ever done on proof.


def has_room(given: Sequence[Condition], more: Sequence[Condition]) -> bool:
    """Whether the conditions `more` leave room on a path that has room for the conditions `given`."""
    if not more or _can_run_off(given, more):
        return True
    ranges = _ranges([*_connected(given, more), *more])
    if any(span.empty for span in ranges.values()):
        return False
    return all(_possible(group) for group in _apart(ranges))


def ranges_of_draws(
    given: Sequence[Condition], more: Sequence[Condition]
) -> Iterator[tuple[Noise, Fraction, Fraction]]:
    """The intervals that these conditions leave for single draws, of those with two ends that `more` speak of."""
    for form, span in _ranges([*_connected(given, more), *more]).items():
        inner = span.within(*_reach(form))
        (symbol, _), *others = form
        if not others and isinstance(symbol, Noise) and inner.low is not None and inner.high is not None:
            yield symbol, Fraction(inner.low), Fraction(inner.high)


def _possible(ranges: dict[Form, _Range]) -> bool:
    """Whether forms that hang together can be in their ranges all at once."""
    if len(ranges) == 1:
        ((form, span),) = ranges.items()
        if not any(symbol.distribution.integer for symbol, _ in form if isinstance(symbol, Noise)):
            return not span.within(*_reach(form)).empty
        if (step := _step_of(form)) is not None:
            return span.has_multiple_of(step)
    return _satisfiable(ranges)


def _step_of(form: Form) -> Fraction | None:
    """The number whose multiples are just what the form can be, where that is seen at once; None where it is not.

    So it is with a remainder, n - 4 · floor(n/4): the function, which may be any integer here, makes all multiples of
    4, and n fills the gaps between these. Solvers take long for that.
    """
    steps = [abs(Fraction(coefficient)) for _, coefficient in form]
    free = [step for (symbol, _), step in zip(form, steps, strict=True) if _is_free(symbol)]
    step = min(steps)
    if (
        not free
        or not all(_is_whole(s) or _is_free(s) for s, _ in form)
        or any((each / step).denominator > 1 for each in steps)
    ):
        return None
    for (symbol, _), each in zip(form, steps, strict=True):
        low, high = _support(symbol)
        wide = low is None or high is None or (high - low + 1) * step >= min(free)
        if each == step and wide:
            return step
    return None


def _is_free(symbol: Symbol) -> bool:
    return isinstance(symbol, Derived) and symbol.function.whole and _support(symbol) == (None, None)


def _apart(ranges: dict[Form, _Range]) -> list[dict[Form, _Range]]:
    """The forms in groups that have no symbol in common."""
    forms = list(ranges)
    groups = components([symbol for symbol, _ in form] for form in forms)
    return [{forms[k]: ranges[forms[k]] for k in group} for group in groups]


Form = tuple[tuple[Symbol, Number], ...]  # a linear form without constant, its first coefficient 1


@dataclass(frozen=True)
class _Range:
    """An interval of values that a form may take; `None` is no end, and the flags say whether an end is left out."""

    continuous: bool
    low: Number | None = None
    high: Number | None = None
    above: bool = False
    below: bool = False

    def within(self, low: Number | None, above: bool, high: Number | None, below: bool) -> _Range:
        """Its part between these ends."""
        if low is not None and (self.low is None or (low, above) > (self.low, self.above)):
            self = replace(self, low=low, above=above)
        if high is not None and (self.high is None or (-high, below) > (-self.high, self.below)):
            self = replace(self, high=high, below=below)
        return self

    def has_multiple_of(self, step: Fraction) -> bool:
        """Whether a multiple of the step is in it."""
        if self.low is None or self.high is None:
            return True
        first = math.floor(self.low / step) + 1 if self.above else math.ceil(self.low / step)
        last = math.ceil(self.high / step) - 1 if self.below else math.floor(self.high / step)
        return first <= last

    @property
    def empty(self) -> bool:
        """Whether no value is left, or only a single one where such has no probability."""
        if self.low is None or self.high is None or self.low < self.high:
            return False
        return self.low > self.high or self.above or self.below or self.continuous


def _ranges(conditions: Sequence[Condition]) -> dict[Form, _Range]:
    """The conditions, told as one interval for each linear form that they bound."""
    ranges: dict[Form, _Range] = {}
    for condition in conditions:
        terms = sorted(condition.slack.terms.items(), key=itemgetter(0))
        lead = Fraction(terms[0][1])
        form = tuple((symbol, coefficient / lead) for symbol, coefficient in terms)
        bound = -condition.slack.constant / lead
        strict = condition.relation is Relation.ABOVE
        span = ranges.get(form) or _Range(condition.slack.continuous)
        if lead > 0 or condition.relation is Relation.EQUAL:
            span = span.within(bound, strict, None, False)
        if lead < 0 or condition.relation is Relation.EQUAL:
            span = span.within(None, False, bound, strict)
        ranges[form] = span
    return ranges


def _reach(form: Form) -> tuple[Number | None, bool, Number | None, bool]:
    """The least and greatest value of a form; ends are left out where they have no probability."""
    low: Number | None = 0
    high: Number | None = 0
    for symbol, coefficient in form:
        ends = _support(symbol) if coefficient > 0 else _support(symbol)[::-1]
        low = None if low is None or ends[0] is None else low + coefficient * ends[0]
        high = None if high is None or ends[1] is None else high + coefficient * ends[1]
    open_ended = any(is_atomless(symbol) for symbol, _ in form)  # at an end of the sum each term is at its own
    return low, open_ended, high, open_ended


def _support(symbol: Symbol) -> tuple[Number | None, Number | None]:
    if isinstance(symbol, Derived):
        return symbol.function.least, symbol.function.largest
    if isinstance(symbol, Unknown):
        return symbol.ends or (None, None)
    low, high = symbol.distribution.support
    return exact(low) if math.isfinite(low) else None, exact(high) if math.isfinite(high) else None


def _can_run_off(given: Sequence[Condition], more: Sequence[Condition]) -> bool:
    """Whether some noise, sent towards infinity, satisfies `more` and keeps what is given.

    Almost every branch of almost every mechanism compares noise that is fresh, so this settles it.
    """
    for symbol, coefficient in more[0].slack.terms.items():
        if not isinstance(symbol, Noise):
            continue
        direction = _sign(coefficient)
        end = symbol.distribution.support[direction > 0]
        if math.isinf(end) and _pushed(more, symbol, direction, 1) and _pushed(given, symbol, direction, 0):
            return True
    return False


def _pushed(conditions: Iterable[Condition], symbol: Noise, direction: int, least: int) -> bool:
    """Whether moving the symbol in this direction helps each condition (least = 1), or at least harms none (0)."""
    for condition in conditions:
        coefficient = condition.slack.terms.get(symbol, 0)
        if not (least or coefficient):
            continue
        if condition.relation is Relation.EQUAL:
            return False
        if condition.relation is not Relation.UNEQUAL and _sign(coefficient) * direction < least:
            return False
    return True


def _sign(number: Number) -> int:
    return (number > 0) - (number < 0)


def _connected(given: Sequence[Condition], more: Sequence[Condition]) -> list[Condition]:
    """Those of the given conditions that share symbols with `more`, directly or through others."""
    asked = [symbol for condition in more for symbol in condition.slack.terms]
    together, *_ = components([asked, *(condition.slack.terms for condition in given)])
    return [given[k - 1] for k in together[1:]]


def _satisfiable(ranges: dict[Form, _Range]) -> bool:
    from veridp.numerics.inequalities import are_possible  # loaded only for the branches that need it

    symbols = dict.fromkeys(symbol for form in ranges for symbol, _ in form)
    bounds = [_bounds({symbol: 1}, _support_range(symbol)) for symbol in symbols]
    bounds += [_bounds(dict(form), span) for form, span in ranges.items()]
    return are_possible([bound for both in bounds for bound in both], {s for s in symbols if _is_integer(s)})


def _support_range(symbol: Symbol) -> _Range:
    continuous = is_atomless(symbol)
    low, high = _support(symbol)
    return _Range(continuous, low, high, continuous, continuous)


def _bounds(terms: Mapping[Symbol, Number], span: _Range) -> list[LinearInequality]:
    """The boundary has no probability where continuous noise decides, so there every inequality is strict."""
    from veridp.numerics.inequalities import LinearInequality

    found = []
    if span.low is not None:
        found.append(LinearInequality(terms, -span.low, ">" if span.above or span.continuous else ">="))
    if span.high is not None:
        below = {symbol: -coefficient for symbol, coefficient in terms.items()}
        found.append(LinearInequality(below, span.high, ">" if span.below or span.continuous else ">="))
    return found


def _is_integer(symbol: Symbol) -> bool:
    return symbol.function.whole if isinstance(symbol, Derived) else _is_whole(symbol)
