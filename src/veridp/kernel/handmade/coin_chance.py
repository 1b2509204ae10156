"""Whether the text of a call says that it returns True with probability e^-γ, for every γ >= 0 that it is given.

The text is followed with γ left open, on one range of γ at a time. A draw that is compared goes both ways, so that each
way has a polynomial in γ for its probability. Two things make up a proof:

- On a bounded range, the ways that return True add up to the series of e^-γ, term by term, but for terms and ways so
  unlikely that they make a difference of less than 2^-140.
- On the range without an end, a call either returns False or comes back, with probability e^-d, to the state that it
  began in, but for γ - d in place of γ: at the head of a loop, or by calling itself. By induction, that leads to a
  bounded range.

Whatever is not understood is refused. That the call does nothing else is for `only_tosses` to say.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from veridp.errors import NotExplorable
from veridp.kernel.handmade.coin_text import CoinText, is_secret

TERMS = 60  # of the series of e^-γ
LEAST_BOUND = Fraction(1, 2**170)  # ways that are less likely, whatever γ is, are not followed
TOLERANCE = Fraction(1, 2**140)
MAX_RANGES = 4
MAX_WAYS = 2_000
MAX_STATEMENTS = 20_000  # on one way

ARITHMETIC: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Mod: operator.mod,
}  # fmt: skip
SWAPPED: dict[type, type] = {ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE, ast.Eq: ast.Eq}
TRUTHS: dict[type, Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt, ast.Gt: operator.gt, ast.LtE: operator.le, ast.GtE: operator.ge, ast.Eq: operator.eq,
}  # fmt: skip
WHOLE_DRAWS = frozenset({"randbelow", "randrange", "integers"})
Polynomial = list[Fraction]


class GammaRange(NamedTuple):
    """From where to where γ goes, and whether the ends are left out."""

    low: Fraction
    high: Fraction | None
    above: bool = False
    below: bool = False

    def split(self, at: Fraction, upper_has_it: bool) -> tuple[GammaRange, GammaRange]:
        return self._replace(high=at, below=upper_has_it), self._replace(low=at, above=not upper_has_it)


@dataclass(frozen=True)
class OfGamma:
    """constant + slope · γ."""

    constant: Fraction
    slope: Fraction


@dataclass
class UnitDraw:
    """A uniform number, or a whole number below another; it may be compared once."""

    count: Any = None  # None for a number from 0 to 1
    used: bool = False


@dataclass(frozen=True)
class RatioPart:
    """The numerator or the denominator of a number that depends on γ."""

    of: OfGamma
    upper: bool


@dataclass(frozen=True)
class Later:
    """What the call returns for γ - shift."""

    shift: Fraction


class _Split(Exception):
    def __init__(self, at: Fraction, upper_has_it: bool) -> None:
        self.at, self.upper_has_it = at, upper_has_it


class _Return(Exception):
    def __init__(self, value: Any) -> None:
        self.value = value


class _Unlikely(Exception):
    pass


class _Break(Exception):
    pass


class _Continue(Exception):
    pass


def tosses_exponentially(text: CoinText, names: dict[str, Any], gamma: str) -> bool:
    """Whether the call returns True with probability e^-γ for all γ >= 0, γ being the parameter of this name."""
    pending, bounded = [GammaRange(Fraction(0), None)], 0
    try:
        while pending:
            within = pending.pop()
            try:
                ends = _ends_of(text, names, gamma, within)
            except _Split as split:
                pending += within.split(split.at, split.upper_has_it)
                if len(pending) + bounded > MAX_RANGES:
                    return False
                continue
            if not (_is_induction(ends, within) if within.high is None else _is_series(ends, within.high)):
                return False
            bounded += 1
    except (NotExplorable, ArithmeticError, TypeError, ValueError, RecursionError):
        return False
    return bounded > 1


def _ends_of(text: CoinText, names: dict[str, Any], gamma: str, within: GammaRange) -> dict[Any, Polynomial]:
    """How likely each value is that the call may return; what is left out adds up to no more than the tolerance."""
    found: dict[Any, Polynomial] = {}
    pending: list[tuple[bool, ...]] = [()]
    ways, unseen = 0, Fraction(0)
    while pending:
        way = _Way(within, pending.pop())
        ways += 1
        if ways > MAX_WAYS:
            raise NotExplorable("a call has too many ways")
        try:
            value = way.call(text, {**names, gamma: OfGamma(Fraction(0), Fraction(1))}, gamma)
            key = value if isinstance(value, Later) else bool(value)
            if not isinstance(value, Later) and (type(value) not in (bool, Fraction) or value not in (0, 1)):
                raise NotExplorable("a call returns something else than a truth value")
            found[key] = _sum(found.get(key, []), way.chance)
        except _Unlikely:
            unseen += way.bound
        pending += way.others
    if unseen > TOLERANCE:
        raise NotExplorable("too much of what a call does is not seen")
    return found


def _is_series(ends: dict[Any, Polynomial], high: Fraction) -> bool:
    """Whether True is as likely as e^-γ says, up to this γ."""
    if not 0 <= high <= 1 or any(isinstance(end, Later) for end in ends):
        return False
    chance = ends.get(True, [])
    terms = max(TERMS, len(chance))
    series = _exponential_terms(terms)
    gaps = (abs((chance[k] if k < len(chance) else 0) - series[k]) for k in range(terms))
    return sum(gaps, start=abs(series[-1])) <= TOLERANCE


def _is_induction(ends: dict[Any, Polynomial], within: GammaRange) -> bool:
    """Whether the call returns False, or comes back for γ - d, the latter with probability e^-d."""
    later = [end for end in ends if isinstance(end, Later)]
    if True in ends or len(later) != 1 or any(len(chance) > 1 for chance in ends.values()):
        return False
    (end,) = later
    if not 0 < end.shift <= min(within.low, Fraction(1)):
        return False
    decay = sum((term * end.shift**k for k, term in enumerate(_exponential_terms(TERMS))), start=Fraction(0))
    return abs(ends[end][0] - decay) <= TOLERANCE


def _exponential_terms(count: int) -> Polynomial:
    terms = [Fraction(1)]
    for k in range(1, count):
        terms.append(-terms[-1] / k)
    return terms


def _sum(first: Polynomial, second: Polynomial) -> Polynomial:
    longer, shorter = (first, second) if len(first) >= len(second) else (second, first)
    return [x + (shorter[k] if k < len(shorter) else 0) for k, x in enumerate(longer)]


def _product(first: Polynomial, second: Polynomial) -> Polynomial:
    found = [Fraction(0)] * (len(first) + len(second) - 1)
    for j, x in enumerate(first):
        for k, y in enumerate(second):
            found[j + k] += x * y
    return found


@dataclass
class _Way:
    """One way through a call: how its draws are answered, how likely that is, and the ways that part from it."""

    within: GammaRange
    script: tuple[bool, ...]
    chance: Polynomial = field(default_factory=lambda: [Fraction(1)])
    bound: Fraction = Fraction(1)  # on the chance, whatever γ is
    answers: list[bool] = field(default_factory=list)
    others: list[tuple[bool, ...]] = field(default_factory=list)
    decided: int = 0  # how many comparisons, of draws or of γ
    statements: int = 0
    first: tuple[CoinText, dict[str, Any], str] | None = None  # the call, what it was given, and the name of γ

    def call(self, text: CoinText, given: dict[str, Any], gamma: str = "") -> Any:
        """What a call of the function returns."""
        outer = self.first is None
        if self.first is None:
            self.first = text, dict(given), gamma
        elif (later := self._again(text, given)) is not None:
            return later
        try:
            _Call(self, text, {name: _plain(value) for name, value in given.items()}, outer).run(text.definition.body)
        except _Return as end:
            return end.value
        raise NotExplorable("a call ends without return")

    def _again(self, text: CoinText, given: dict[str, Any]) -> Later | None:
        """What a call of itself returns, where all but γ is as it was."""
        first, before, gamma = self.first  # type: ignore[misc]
        shifted = given.get(gamma)
        same = text.code is first.code and given.keys() == before.keys()
        if not same or not isinstance(shifted, OfGamma) or shifted.slope != 1 or self.within.high is not None:
            return None
        pairs = [(_plain(given[name]), _plain(before[name])) for name in before if name != gamma]
        alike = all(one is other or (type(one) in (bool, Fraction) and one == other) for one, other in pairs)
        return Later(-shifted.constant) if alike else None

    def toss(self, chance: Any) -> bool:
        """Go on as the script says, or as if this came true; its opposite is another way."""
        self.decided += 1
        p = _polynomial(chance)
        if len(p) > 1 and self.within.high is None:
            raise NotExplorable("the probability of a draw is not understood")
        ends = [_at(p, end) for end in (self.within.low, self.within.high or self.within.low)]
        if min(ends) < 0 or max(ends) > 1:
            raise NotExplorable("a probability is not between 0 and 1")
        if len(p) == 1 and p[0] in (0, 1):
            return p[0] == 1
        place = len(self.answers)
        answer = self.script[place] if place < len(self.script) else True
        if place >= len(self.script):
            self.others.append((*self.answers, False))
        self.answers.append(answer)
        taken = p if answer else [1 - p[0], *(-x for x in p[1:])]
        self.chance = _product(self.chance, taken)
        self.bound *= max(ends) if answer else 1 - min(ends)
        if self.bound < LEAST_BOUND:
            raise _Unlikely
        return answer


@dataclass
class _Call:
    """A call of a function on the way: its local variables, and what they were at heads of loops."""

    way: _Way
    text: CoinText
    known: dict[str, Any]
    outer: bool  # whether it is the call that is asked about
    heads: dict[ast.While, dict[str, Any]] = field(default_factory=dict)

    # ---------------------------------------------------------------------------------------------- statements

    def run(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            self.way.statements += 1
            if self.way.statements > MAX_STATEMENTS:
                raise NotExplorable("a call goes on for too long")
            if isinstance(statement, ast.Return):
                raise _Return(self._value(statement.value))  # type: ignore[arg-type]
            if isinstance(statement, ast.If):
                self.run(statement.body if self._holds(statement.test) else statement.orelse)
            elif isinstance(statement, ast.While):
                self._loop(statement)
            elif isinstance(statement, ast.Assert):
                if not self._is_of_type(statement.test) and not self._holds(statement.test):
                    raise NotExplorable("an assertion fails")
            elif isinstance(statement, ast.Break):
                raise _Break
            elif isinstance(statement, ast.Continue):
                raise _Continue
            elif isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                if len(statement.targets) > 1:
                    raise NotExplorable("an assignment to several names is not understood")
                self.known[statement.targets[0].id] = self._value(statement.value)
            elif isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
                added = ast.BinOp(ast.Name(statement.target.id, ast.Load()), statement.op, statement.value)
                self.known[statement.target.id] = self._value(added)
            elif not _does_nothing(statement):
                raise NotExplorable(f"{ast.unparse(statement)} is not understood")

    def _is_of_type(self, test: ast.expr) -> bool:
        """Whether it asks for the type of a number: that is the same for every γ, and runs have come past it."""
        return isinstance(test, ast.Call) and self.text.value_of(test.func) is isinstance

    def _loop(self, loop: ast.While) -> None:
        while True:
            if self.outer and self.way.within.high is None:
                if loop not in self.heads and not self.way.decided:
                    self.heads[loop] = dict(self.known)
                elif loop in self.heads and (shift := _shift(self.heads[loop], self.known)):
                    raise _Return(Later(shift))
            if not self._holds(loop.test):
                break
            try:
                self.run(loop.body)
            except _Break:
                return
            except _Continue:
                continue
        self.run(loop.orelse)

    # --------------------------------------------------------------------------------------------- expressions

    def _value(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
            return _plain(node.value)
        if isinstance(node, ast.Name):
            if node.id in self.known:
                return self.known[node.id]
            value = None if node.id in self.text.assigned else self.text.value_of(node)
            if value is None:
                raise NotExplorable(f"{node.id} is not known")
            return _plain(value)
        if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
            return _computed(type(node.op), self._value(node.left), self._value(node.right))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return _computed(ast.Sub, Fraction(0), self._value(node.operand))
        if (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)) or isinstance(node, ast.Compare):
            return self._holds(node)
        if isinstance(node, ast.BoolOp):
            for part in node.values[:-1]:
                value = self._value(part)
                if _truth(value) is isinstance(node.op, ast.Or):
                    return value
            return self._value(node.values[-1])
        if isinstance(node, ast.IfExp):
            return self._value(node.body if self._holds(node.test) else node.orelse)
        if isinstance(node, ast.Attribute):
            return self._attribute(node)
        if isinstance(node, ast.Call):
            return self._called(node)
        raise NotExplorable(f"{ast.unparse(node)} is not understood")

    def _attribute(self, node: ast.Attribute) -> Any:
        if node.attr in ("numerator", "denominator"):
            number = self._value(node.value)
            if isinstance(number, OfGamma):
                return RatioPart(number, node.attr == "numerator")
            if type(number) is Fraction:
                return Fraction(getattr(number, node.attr))
        value = self.text.value_of(node)
        if value is None:
            raise NotExplorable(f"{ast.unparse(node)} is not known")
        return _plain(value)

    def _called(self, node: ast.Call) -> Any:
        called = node.func
        owner = self._owner(called.value) if isinstance(called, ast.Attribute) else None
        function = self.text.value_of(called)
        draws = is_secret(function) or any(map(self.text.draws, (owner, getattr(function, "__self__", None))))
        if not draws and type(function) is FunctionType and not node.keywords:
            given = [self._value(argument) for argument in node.args]
            return self._of_user(called, function, owner, given)
        given = [self._value(argument) for argument in node.args]
        if node.keywords:
            raise NotExplorable("arguments by name are not understood")
        name = getattr(function, "__name__", "")
        if isinstance(called, ast.Attribute) and not is_secret(function):  # which may be an attribute of any name
            name = called.attr
        if draws and name == "random" and not given:
            return UnitDraw()
        if draws and name in WHOLE_DRAWS and len(given) == 1:
            return UnitDraw(given[0])
        if function is Fraction and 1 <= len(given) <= 2:
            return _computed(ast.Div, given[0], given[1] if len(given) > 1 else Fraction(1))
        if function in (int, bool) and len(given) == 1 and type(given[0]) is bool:
            return given[0]
        if function is float and len(given) == 1 and type(given[0]) in (Fraction, OfGamma):
            return given[0]
        raise NotExplorable(f"{ast.unparse(node)} is not understood")

    def _owner(self, node: ast.expr) -> Any:
        return self.known[node.id] if isinstance(node, ast.Name) and node.id in self.known else self.text.value_of(node)

    def _of_user(self, called: ast.expr, function: FunctionType, owner: Any, given: list[Any]) -> Any:
        code = function.__code__
        inner = self.text.text_of(function, called)
        if inner.code is not code:
            raise NotExplorable("functions that call each other are not understood")
        if isinstance(called, ast.Attribute) and not isinstance(owner, ModuleType):
            given = [owner, *given]
        parameters = code.co_varnames[: code.co_argcount]
        if len(given) != len(parameters) or code.co_kwonlyargcount:
            raise NotExplorable("defaults are not understood")
        return self.way.call(inner, dict(zip(parameters, given, strict=True)))

    # --------------------------------------------------------------------------------------------- comparisons

    def _holds(self, node: ast.expr) -> bool:
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return not self._holds(node.operand)
        if isinstance(node, ast.Compare):
            values = [self._value(each) for each in (node.left, *node.comparators)]
            return all(self._compared(type(kind), *pair) for kind, pair in zip(node.ops, pairwise(values), strict=True))
        return _truth(self._value(node))

    def _compared(self, kind: type, first: Any, second: Any) -> bool:
        if kind is ast.NotEq:
            return not self._compared(ast.Eq, first, second)
        if kind not in SWAPPED:
            raise NotExplorable("a comparison is not understood")
        if isinstance(second, UnitDraw):
            first, second, kind = second, first, SWAPPED[kind]
        if isinstance(first, UnitDraw):
            return self._drawn(kind, first, second)
        if isinstance(first, RatioPart) and not first.upper and (kind, second) == (ast.Gt, 0):
            return True  # a denominator is positive
        difference = _computed(ast.Sub, first, second)
        if isinstance(difference, OfGamma):
            if kind is ast.Eq:
                raise NotExplorable("γ is compared for equality")
            self.way.decided += 1
            if kind in (ast.Lt, ast.LtE):
                return not self._is_positive(difference, strict=kind is ast.LtE)
            return self._is_positive(difference, strict=kind is ast.Gt)
        return bool(TRUTHS[kind](difference, 0))

    def _is_positive(self, number: OfGamma, strict: bool) -> bool:
        """Whether it is above 0, or at least 0, all over the range; _Split where that depends on γ."""
        at = -number.constant / number.slope
        if number.slope < 0:
            return not self._is_beyond(at, strict=not strict)
        return self._is_beyond(at, strict)

    def _is_beyond(self, at: Fraction, strict: bool) -> bool:
        """Whether γ > at, or γ >= at."""
        low, high, above, below = self.way.within
        if low > at or (low == at and (above or not strict)):
            return True
        if high is not None and (high < at or (high == at and (strict or below))):
            return False
        raise _Split(at, upper_has_it=not strict)

    def _drawn(self, kind: type, draw: UnitDraw, other: Any) -> bool:
        """Whether a draw is below the other number, which goes both ways."""
        if draw.used or isinstance(other, UnitDraw):
            raise NotExplorable("a draw is compared twice")
        draw.used = True
        if kind in (ast.Gt, ast.GtE):
            return not self._below(draw, other, strict=kind is ast.GtE)
        if kind is ast.Eq:
            raise NotExplorable("a draw is compared for equality")
        return self._below(draw, other, strict=kind is ast.Lt)

    def _below(self, draw: UnitDraw, other: Any, strict: bool) -> bool:
        if draw.count is None:
            return self.way.toss(other)
        if isinstance(draw.count, RatioPart):
            if not strict or other != RatioPart(draw.count.of, True) or draw.count.upper:
                raise NotExplorable("a whole number is not compared with the numerator of its ratio")
            return self.way.toss(draw.count.of)
        if any(type(each) is not Fraction or each.denominator != 1 for each in (draw.count, other)) or draw.count < 1:
            raise NotExplorable("a whole number is compared with something else")
        below = other if strict else other + 1
        return self.way.toss(min(max(below, Fraction(0)), draw.count) / draw.count)


def _at(polynomial: Polynomial, x: Fraction) -> Fraction:
    return sum((c * x**k for k, c in enumerate(polynomial)), start=Fraction(0))


def _truth(value: Any) -> bool:
    if type(value) not in (bool, Fraction):
        raise NotExplorable("the truth of a value is not understood")
    return bool(value)


def _polynomial(number: Any) -> Polynomial:
    if type(number) is OfGamma:
        return [number.constant, number.slope]
    if type(number) is Fraction:
        return [number]
    raise NotExplorable("the probability of a draw is not understood")


def _plain(value: Any) -> Any:
    """Numbers as fractions; all else as it is."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    return Fraction(value) if isinstance(value, int | float | Fraction) else value


def _computed(kind: type, first: Any, second: Any) -> Any:
    """A sum, difference, product or quotient that is linear in γ; NotExplorable where it is not."""
    first, second = (Fraction(x) if type(x) is bool else x for x in (first, second))
    if type(first) is Fraction and type(second) is Fraction:
        return ARITHMETIC[kind](first, second)
    if any(type(each) not in (Fraction, OfGamma) for each in (first, second)) or kind is ast.Mod:
        raise NotExplorable("what is computed of γ is not understood")
    (a, b), (c, d) = ((x.constant, x.slope) if type(x) is OfGamma else (x, Fraction(0)) for x in (first, second))
    if kind is ast.Add or kind is ast.Sub:
        sign = 1 if kind is ast.Add else -1
        constant, slope = a + sign * c, b + sign * d
    elif kind is ast.Mult and not (b and d):
        constant, slope = a * c, a * d + b * c
    elif kind is ast.Div and not d:
        constant, slope = a / c, b / c
    else:
        raise NotExplorable("what is computed of γ is not linear in it")
    return OfGamma(constant, slope) if slope else constant


def _shift(before: dict[str, Any], now: dict[str, Any]) -> Fraction | None:
    """By how much γ is smaller now, with all else as it was; None where it was not."""
    shifts: set[Fraction] = set()
    for name, value in before.items():
        other = now.get(name)
        if isinstance(value, OfGamma) and isinstance(other, OfGamma) and value.slope == other.slope:
            shifts.add((value.constant - other.constant) / value.slope)
        elif isinstance(value, UnitDraw | RatioPart):
            return None  # it may be used by now, or belong to a larger γ
        elif value is not other and (type(value) not in (Fraction, bool) or value != other):
            return None
    return shifts.pop() if len(shifts) == 1 and min(shifts) > 0 else None


def _does_nothing(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Pass) or (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    )
