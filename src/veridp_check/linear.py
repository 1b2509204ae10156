"""Linear conditions over rational and whole variables: whether they can hold together, exactly.

A `LinearSystem` decides by the simplex method for bounds (Dutertre and de Moura, A fast linear-arithmetic solver for
DPLL(T), CAV 2006) in rationals. It says that conditions exclude each other only after verifying, on the conditions
themselves, the combination of bounds that shows it. `cells` answers questions that depend on the signs of many
expressions: it splits space along them, and evaluates the question once in each cell.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Generic, TypeVar

Answer = TypeVar("Answer")
Point = dict[str, Fraction]
Plane = tuple[tuple[tuple[str, Fraction], ...], Fraction]  # where an expression is 0
Value = tuple[
    Fraction, Fraction | int
]  # a + b·δ for a positive δ as small as needed; also a bound, which b makes strict
ZERO = Fraction(0)
MAX_CELLS = 100_000  # of one question
MAX_BRANCHES = 5_000  # in search of whole numbers


class Undecided(Exception):
    """A question that takes more than the stated number of steps."""


@dataclass(frozen=True)
class LinearExpression:
    """constant + Σ coefficient · variable, with no coefficient of 0."""

    terms: Mapping[str, Fraction]
    constant: Fraction = ZERO

    def __add__(self, other: LinearExpression) -> LinearExpression:
        terms = dict(self.terms)
        for name, coefficient in other.terms.items():
            terms[name] = terms.get(name, ZERO) + coefficient
        return LinearExpression({name: c for name, c in terms.items() if c}, self.constant + other.constant)

    def __mul__(self, factor: Fraction) -> LinearExpression:
        return LinearExpression({name: c * factor for name, c in self.terms.items() if factor}, self.constant * factor)

    def __sub__(self, other: LinearExpression) -> LinearExpression:
        return self + other * Fraction(-1)

    def at(self, point: Point) -> Fraction:
        return self.constant + sum((c * point[name] for name, c in self.terms.items()), start=ZERO)


def variable(name: str) -> LinearExpression:
    return LinearExpression({name: Fraction(1)})


def number(value: Fraction | int) -> LinearExpression:
    return LinearExpression({}, Fraction(value))


@dataclass(frozen=True)
class LinearRelation:
    """An expression that is `>=`, `>` or `==` 0."""

    value: LinearExpression
    sign: str

    def holds(self, point: Point) -> bool:
        value = self.value.at(point)
        return value > 0 or (value == 0 and self.sign != ">") if self.sign != "==" else value == 0


class LinearSystem:
    """Relations that hold together, as far as is known; whole variables count as rational until a point is asked for.

    Each expression is a variable of its own with bounds. `rows` expresses some of the variables by the others, whose
    values keep their bounds; `assume` changes values until those of all variables do.
    """

    def __init__(self, whole: frozenset[str] = frozenset()) -> None:
        self.whole = whole
        self.places: dict[tuple[tuple[str, Fraction], ...], int] = {}
        self.forms: list[tuple[tuple[str, Fraction], ...]] = []
        self.lower: dict[int, Value] = {}
        self.upper: dict[int, Value] = {}
        self.values: list[Value] = []
        self.rows: dict[int, dict[int, Fraction]] = {}

    def copy(self) -> LinearSystem:
        other = LinearSystem.__new__(LinearSystem)
        other.whole = self.whole
        other.places, other.forms = dict(self.places), list(self.forms)
        other.lower, other.upper, other.values = dict(self.lower), dict(self.upper), list(self.values)
        other.rows = {basic: dict(row) for basic, row in self.rows.items()}
        return other

    # ------------------------------------------------------------------------------------------------ assuming

    def assume(self, relation: LinearRelation) -> bool:
        """Whether the relation can hold too. Where it cannot, the system is of no more use."""
        terms, constant = relation.value.terms, relation.value.constant
        if not terms:
            return relation.holds({})
        form, lead = _normal(terms)
        place, bound, strict = self._place(form), -constant / lead, int(relation.sign == ">")
        step = self._step(form)
        if lead > 0 or relation.sign == "==":
            least = (bound, strict) if step is None else (step * _whole_from((bound, strict), step), 0)
            if not self._bound(place, least, self.lower, self.upper, 1):
                return False
        if lead < 0 or relation.sign == "==":
            most = (bound, -strict) if step is None else (-step * _whole_from((-bound, strict), step), 0)
            if not self._bound(place, most, self.upper, self.lower, -1):
                return False
        return self._repair()

    def decided(self, value: LinearExpression) -> tuple[bool, bool, bool]:
        """Whether the value can be below, at and above 0, by the bounds of this very expression alone."""
        if not value.terms:
            return value.constant < 0, value.constant == 0, value.constant > 0
        form, lead = _normal(value.terms)
        place = self.places.get(form)
        if place is None:
            return True, True, True
        at = (-value.constant / lead, 0)
        low, high = self.lower.get(place), self.upper.get(place)
        can_be = (
            low is None or low < at,
            (low is None or low <= at) and (high is None or high >= at),
            high is None or high > at,
        )
        return can_be if lead > 0 else (can_be[2], can_be[1], can_be[0])

    def _step(self, form: tuple[tuple[str, Fraction], ...]) -> Fraction | None:
        """The form takes multiples of this number, where all its variables are whole."""
        if any(name not in self.whole for name, _ in form):
            return None
        denominator = math.lcm(*(c.denominator for _, c in form))
        return Fraction(math.gcd(*(int(c * denominator) for _, c in form)), denominator)

    def _place(self, form: tuple[tuple[str, Fraction], ...]) -> int:
        if form in self.places:
            return self.places[form]
        row: dict[int, Fraction] = {}
        if len(form) > 1:
            for name, coefficient in form:
                part = self._place(((name, Fraction(1)),))
                for other, c in self.rows.get(part, {part: Fraction(1)}).items():
                    row[other] = row.get(other, ZERO) + coefficient * c
        place = self.places[form] = len(self.forms)
        self.forms.append(form)
        self.values.append((ZERO, ZERO))
        if len(form) > 1:
            self.rows[place] = {other: c for other, c in row.items() if c}
            self.values[place] = self._sum(self.rows[place])
        return place

    def _sum(self, row: Mapping[int, Fraction]) -> Value:
        values = [(c * self.values[place][0], c * self.values[place][1]) for place, c in row.items()]
        return sum((a for a, _ in values), start=ZERO), sum((b for _, b in values), start=ZERO)

    def _bound(
        self, place: int, bound: Value, mine: dict[int, Value], opposite: dict[int, Value], direction: int
    ) -> bool:
        """Tighten a bound; False where the opposite one excludes it."""
        other, known = opposite.get(place), mine.get(place)
        if other is not None and (other < bound if direction > 0 else other > bound):
            return False
        if known is not None and (known >= bound if direction > 0 else known <= bound):
            return True
        mine[place] = bound
        value = self.values[place]
        if place not in self.rows and (value < bound if direction > 0 else value > bound):
            self._move(place, bound)
        return True

    def _move(self, place: int, value: Value) -> None:
        """Give a variable that no row expresses another value, and so those that are expressed by it."""
        a, b = value[0] - self.values[place][0], value[1] - self.values[place][1]
        self.values[place] = value
        for basic, row in self.rows.items():
            if c := row.get(place):
                old = self.values[basic]
                self.values[basic] = old[0] + c * a, old[1] + c * b

    # ------------------------------------------------------------------------------------------------- simplex

    def _repair(self) -> bool:
        """Find values within all bounds; False where there are none. Bland's rule makes it end."""
        while True:
            for basic in sorted(self.rows):
                value, low, high = self.values[basic], self.lower.get(basic), self.upper.get(basic)
                if low is not None and value < low:
                    wanted, direction = low, 1
                elif high is not None and value > high:
                    wanted, direction = high, -1
                else:
                    continue
                entering = self._entering(basic, direction)
                if entering is None:
                    self._verify_conflict(basic, direction)
                    return False
                self._pivot(basic, entering)
                self._move(basic, wanted)
                break
            else:
                return True

    def _entering(self, basic: int, direction: int) -> int | None:
        """The first variable of the row that has room to move the basic one in this direction."""
        for place, c in sorted(self.rows[basic].items()):
            limit = self.upper.get(place) if (c > 0) == (direction > 0) else self.lower.get(place)
            if limit is None or self.values[place] != limit:
                return place
        return None

    def _pivot(self, basic: int, entering: int) -> None:
        row = self.rows.pop(basic)
        c = row.pop(entering)
        solved = {place: -other / c for place, other in row.items()}
        solved[basic] = 1 / c
        for target in self.rows.values():
            if factor := target.pop(entering, None):
                for place, other in solved.items():
                    total = target.get(place, ZERO) + factor * other
                    if total:
                        target[place] = total
                    else:
                        target.pop(place, None)
        self.rows[entering] = solved

    def _verify_conflict(self, basic: int, direction: int) -> None:
        """The bounds of the row's variables keep the basic one from its own bound, and the row is an identity."""
        wanted = self.lower[basic] if direction > 0 else self.upper[basic]
        total: dict[str, Fraction] = dict(self.forms[basic])
        reached = [ZERO, ZERO]
        for place, c in self.rows[basic].items():
            limit = self.upper[place] if (c > 0) == (direction > 0) else self.lower[place]
            reached[0] += c * limit[0]
            reached[1] += c * limit[1]
            for name, coefficient in self.forms[place]:
                total[name] = total.get(name, ZERO) - c * coefficient
        short = (reached[0], reached[1]) < wanted if direction > 0 else (reached[0], reached[1]) > wanted
        if any(total.values()) or not short:
            raise ArithmeticError("a conflict of bounds could not be verified")

    # -------------------------------------------------------------------------------------------------- points

    def point(self, *more: LinearRelation) -> Point | None:
        """A point where all relations hold, these too, whole variables being whole; None where there is none.

        Raises Undecided where that takes too many steps.
        """
        pending: list[tuple[LinearSystem, LinearRelation | None]] = [(self.copy(), None)]
        if not all(pending[0][0].assume(relation) for relation in more):
            return None
        for _ in range(MAX_BRANCHES):
            if not pending:
                return None
            system, relation = pending.pop()
            if relation is not None and not system.assume(relation):
                continue
            found = system._fractional()
            if found is None:
                return system._values()
            name, below = found
            pending.append((system.copy(), LinearRelation(variable(name) - number(below + 1), ">=")))
            pending.append((system, LinearRelation(number(below) - variable(name), ">=")))
        raise Undecided(f"more than {MAX_BRANCHES} branches")

    def _fractional(self) -> tuple[str, int] | None:
        """A whole variable whose value is none, and the whole number below that."""
        for name in sorted(self.whole):
            place = self.places.get(((name, Fraction(1)),))
            if place is not None:
                a, b = self.values[place]
                if b or a.denominator != 1:
                    return name, math.floor(a) - int(b < 0 and a.denominator == 1)
        return None

    def _values(self) -> Point:
        delta = Fraction(1)
        for place, (a, b) in enumerate(self.values):
            for bound, sign in ((self.lower.get(place), 1), (self.upper.get(place), -1)):
                if bound is not None and (slope := sign * (bound[1] - b)) > 0:
                    delta = min(delta, sign * (a - bound[0]) / slope)
        return {
            form[0][0]: self.values[place][0] + delta * self.values[place][1]
            for place, form in enumerate(self.forms)
            if len(form) == 1
        }


def _normal(terms: Mapping[str, Fraction]) -> tuple[tuple[tuple[str, Fraction], ...], Fraction]:
    """The terms in order and divided by the first coefficient, and that."""
    names = sorted(terms)
    lead = terms[names[0]]
    return tuple((name, terms[name] / lead) for name in names), lead


def plane_of(value: LinearExpression) -> Plane:
    """The same for all expressions, and for these alone, that are 0 where this one is."""
    form, lead = _normal(value.terms)
    return form, value.constant / lead


def _whole_from(bound: Value, step: Fraction) -> int:
    """The least k such that k·step keeps this lower bound."""
    value = bound[0] / step
    return math.floor(value) + 1 if bound[1] else math.ceil(value)


# ---------------------------------------------------------------------------------------------------------- cells


class _Empty(Exception):
    """The cell has no point."""


@dataclass(frozen=True)
class Cell(Generic[Answer]):
    """A part of space in which the question has one answer; it may have no point where variables are whole."""

    system: LinearSystem
    answer: Answer


class Ask:
    """Tells a question how an expression stands to 0 in the cell at hand."""

    def __init__(
        self, system: LinearSystem, answers: list[bool], pending: list[tuple[LinearSystem, list[bool]]]
    ) -> None:
        self.system, self.answers, self.pending = system, answers, pending
        self.asked = 0

    def __call__(self, relation: LinearRelation, boundary: bool = True) -> bool:
        """Whether the relation holds. Without its boundary, where the expression is 0 is left out of the cells."""
        if self.asked == len(self.answers):
            self.answers.append(self._split(relation, boundary))
        self.asked += 1
        return self.answers[self.asked - 1]

    def _split(self, relation: LinearRelation, boundary: bool) -> bool:
        below, at, above = self.system.decided(relation.value)
        less, more = LinearRelation(relation.value * Fraction(-1), ">"), LinearRelation(relation.value, ">")
        sides: list[tuple[bool, LinearRelation]] = []
        if not boundary:
            sides += [(relation.sign != "==", more)] if above else []
            sides += [(False, less)] if below else []
        elif relation.sign == "==":
            sides += [(True, relation)] if at else []
            sides += [(False, more)] if above else []
            sides += [(False, less)] if below else []
        else:
            with_it = relation.sign == ">="
            sides += [(True, relation)] if above or (at and with_it) else []
            sides += (
                [(False, less if with_it else LinearRelation(less.value, ">="))]
                if below or (at and not with_it)
                else []
            )
        found = []
        for number_, (answer, side) in enumerate(sides):
            system = self.system if number_ == len(sides) - 1 else self.system.copy()
            if system.assume(side):
                found.append((answer, system))
        if not found:
            raise _Empty
        self.pending += [(system, [*self.answers, answer]) for answer, system in found[1:]]
        self.system = found[0][1]
        return found[0][0]


def cells(
    question: Callable[[Ask], Answer], given: Sequence[LinearRelation] = (), whole: frozenset[str] = frozenset()
) -> Iterator[Cell[Answer]]:
    """The answers to the question in cells that cover all points where the given relations hold.

    The question is a function of nothing but what it asks. Raises Undecided where there are too many cells.
    """
    start = LinearSystem(whole)
    if not all(start.assume(relation) for relation in given):
        return
    pending: list[tuple[LinearSystem, list[bool]]] = [(start, [])]
    for _ in range(MAX_CELLS):
        if not pending:
            return
        ask = Ask(*pending.pop(), pending)
        try:
            answer = question(ask)
        except _Empty:
            continue
        yield Cell(ask.system, answer)
    raise Undecided(f"more than {MAX_CELLS} cells")
