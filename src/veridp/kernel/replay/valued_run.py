"""Runs of stand-ins that know their values: what is to be seen at a point, to compare with a plain run there."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from types import FrameType
from typing import Any

from veridp.errors import ExplorationDisagrees, Nondeterministic
from veridp.kernel.distributions import Distribution, Number
from veridp.kernel.expressions import Affine, Condition, Select, is_whole, settle
from veridp.kernel.flow.branches import ChosenEntry
from veridp.kernel.flow.loops import Added, Leave, LoopHead, Loops, Visit
from veridp.kernel.generator import MAX_LISTED
from veridp.kernel.handmade.coins import LoopCoin, OpenNumber, Toss
from veridp.kernel.handmade.quadratic import quadratic
from veridp.kernel.noise import Integers, Uniform
from veridp.kernel.output import leaf_key
from veridp.kernel.path import Fork, Option, Step
from veridp.kernel.run import Run, Stage, Way, being_first_extreme
from veridp.kernel.site import here
from veridp.kernel.stand_ins.text import NoisyText, WrittenNumber
from veridp.kernel.symbols import CoinDraw, Derived, Noise, Symbol, Unknown, drawn_in, is_constant, value_of
from veridp.kernel.weights import Weight

OUTPUT_TOLERANCE = 1e-7  # relative to the terms of a number: what rounding in the user's code may change
UNIT_ROUNDOFF = 2.0**-53  # relative to a number: how far it is from the nearest float, at most
DROWNED = 0.5  # in units of the noise: rounding that is as large changes what the noise hides
EXACT_INTEGERS = 2.0**53  # below it, floats hold all integers
CLEAR_SLACK = 1e-6  # relative to the terms of a slack: nearer to 0 than this, rounding may decide
LEAST_CLEAR_SLACK = 1e-15  # nearer to 0 than this, it may even where no terms cancelled on the way
# Of a draw, in its units: code may add to it what cancels in the paths.
LEAST_MAGNITUDE = 4 * UNIT_ROUNDOFF / CLEAR_SLACK
NOT_TAKEN = Option((), weight=0)  # a way whose conditions do not hold here, whatever they are
Place = Mapping[Symbol, float]


@dataclass
class ReplayPoint:
    """What a run meets: the values of its draws and finite choices, in order, and of what is open."""

    draws: list[float]
    picks: list[int]
    place: Place = field(default_factory=dict)


class ValuedRun(Run):
    """A run of the stand-ins that know their values: every question is answered by these."""

    def __init__(
        self, point: ReplayPoint, name: str, loops: Loops | None, choosing: bool = False, clear: float = CLEAR_SLACK
    ) -> None:
        super().__init__(Way(), {}, loops=loops, choosing=choosing)
        self.name, self.clear = name, clear
        self.done: list[Step] = []  # what it did, also in rounds of a loop that came back
        self.draws, self.left = point.draws, list(reversed(point.picks))
        self.used = 0  # of the draws
        self.values: dict[Symbol, float] = dict(point.place)
        self.unclear = False
        self.hidden = False  # whether that is because a function makes too much of the noise
        self.overflows = False  # whether a function of the data is beyond what floats can hold
        self._compared: list[Condition] = []
        self._asked: set[int] = set()

    def draw(self, distribution: Distribution) -> Affine:
        answer = super().draw(distribution)
        (noise,) = answer.terms
        if is_listed(distribution) and self.left:
            self.values[noise] = self.left.pop()
        elif self.used < len(self.draws) and not is_listed(distribution):
            self.values[noise] = self.draws[self.used]
            self.used += 1
        else:
            self.unclear = True
            self._stop(ExplorationDisagrees("it draws more than a plain run does"))
        return answer

    def _chance(self, p: Any) -> Any:
        if isinstance(value := settle(p), Affine):
            self._evaluated(value)
        return super()._chance(p)

    def _answer(self) -> Any:
        self.done.append(self.next.step)  # type: ignore[union-attr]
        return super()._answer()

    def count(self, distribution: Distribution, head: str, added: Added) -> Affine:
        number = super().count(distribution, head, added)
        self.done.pop()  # no draw
        self.values |= dict.fromkeys(number.terms, 1)
        return number

    def learn(self, loops: Loops, head: LoopHead, added: Added) -> None:
        """Nothing: what the paths rest on is known."""

    def come_back(self, before: Visit, variables: dict[str, Any]) -> None:
        """Forget the rounds since: what follows is compared with the path that was listed from there on."""
        variables |= before.counted
        if before.rounds is not None:
            self.values[before.rounds] += 1
        self._forget_since(before.place)

    def toss_at(self, coin: LoopCoin, number: OpenNumber, frame: FrameType) -> Leave:
        """Let the call do what it does for the number that it is given here."""
        uniform = CoinDraw(self.drawn, Uniform(), here(), number.noise, number.at)
        value = quadratic(number.value, number.noise)
        frame.f_locals[number.name] = value.at(round(self.values[number.noise]))  # type: ignore[union-attr]
        return self._let_go(coin, (uniform,))

    def toss(self, coin: LoopCoin) -> Leave:
        return self._let_go(coin, ())

    def _let_go(self, coin: LoopCoin, drawn: tuple[CoinDraw, ...]) -> Leave:
        """Let the call do what it does; when it ends, its steps are one fork, as they were listed."""
        place = self.place
        self._forget(+1)

        def leave(returns: bool, value: Any) -> None:
            self._forget(-1)
            if not returns or leaf_key(value) not in coin.values:
                self._stop(ExplorationDisagrees(f"{here()}: a call returns a value that was not listed"))
            taken = coin.values.index(leaf_key(value))
            self._forget_since(place)
            self.values |= dict.fromkeys(drawn, float(taken))
            self.stages += [*map(Stage.of, drawn), Stage(Toss(coin.options, taken, here(), coin=coin), coin, taken)]
            self.place += len(drawn) + 1
            self.drawn += len(drawn)

        return leave

    def _forget_since(self, place: int) -> None:
        del self.stages[place:]
        self.place, self.next = place, None
        self.drawn = sum(isinstance(step, Noise) for step in self.steps)
        self.results = {}

    def compared(self, condition: Condition) -> None:
        self._compared.append(condition)

    def decide(self, condition: Condition) -> bool:
        self._asked.add(id(condition))
        return super().decide(condition)

    def leave_undecided(self, condition: Condition, entries: list[Any] | None, entry: ChosenEntry) -> bool:
        """Go as the plain run does, with no fork; both ways are to be compared."""
        self._asked.discard(id(condition))
        return self._holds(condition)

    def store_undecided(self, condition: Condition, store: Callable[[], None]) -> bool:
        """The same: the plain run writes one value or the other."""
        self._asked.discard(id(condition))
        return self._holds(condition)

    @property
    def undecided(self) -> list[Condition]:
        """The comparisons whose truth was never asked for."""
        return [condition for condition in self._compared if id(condition) not in self._asked]

    @property
    def signature(self) -> tuple[int, ...]:
        return tuple(step.taken for step in self.steps if isinstance(step, Fork))

    def choose_way(self, options: Sequence[Option]) -> Sequence[int]:
        if is_chosen(options):
            return [self.left.pop() if self.left else 0]
        for index, option in enumerate(options):
            if option.weight and all(map(self._holds, option.conditions)):
                return [index]
            if len(options) == 2 and len(option.conditions) == 1:  # a question: the other answer is its negation
                return [1]
        self.unclear = True
        return [0]

    def first_extreme(self, values: Sequence[Affine | Number], largest: bool) -> int:
        """As of any run; but where all options would be n² differences, only that of the extreme here is made."""
        sign = 1 if largest else -1
        first: dict[object, tuple[Number, int]] = {}  # of values whose differences are constants, one can be the first
        for index, value in enumerate(values):
            terms, constant = (value.terms, value.constant) if isinstance(value, Affine) else ({}, value)
            key = frozenset(terms.items())
            if key not in first or sign * constant > sign * first[key][0]:
                first[key] = constant, index
        possible = sorted(index for _, index in first.values())
        if len(possible) == 1:
            return possible[0]
        known = {i: self._evaluated(v)[0] if isinstance(v, Affine) else float(v) for i, v in enumerate(values)}
        here = max(possible, key=lambda index: sign * known[index])
        taken = being_first_extreme(values, here, largest)
        return possible[self._take(tuple(taken if index == here and taken else NOT_TAKEN for index in possible))]

    def _holds(self, condition: Condition) -> bool:
        slack, magnitude = self._evaluated(condition.slack)
        numbers = [condition.slack.constant, *condition.slack.terms.values()]
        counted = all(map(is_whole, condition.slack.terms)) and all(Fraction(n).denominator == 1 for n in numbers)
        whole = condition.slack.stands_for is int or (counted and magnitude < EXACT_INTEGERS)
        if not whole and abs(slack) <= self.clear * magnitude:
            self.unclear = True
        return bool(condition.relation.holds(slack))

    def _evaluated(self, expression: Affine) -> tuple[float, float]:
        """Its value here, and the size of its terms, to which rounding is relative; whole numbers are not rounded."""
        size, whole = 0.0, all(map(is_whole, expression.terms))
        try:
            terms: list[Any] = [expression.constant if whole else float(expression.constant)]
            for symbol, coefficient in expression.terms.items():
                if isinstance(symbol, Derived):
                    value, magnitude = self._function(symbol)
                else:
                    value = magnitude = value_of(symbol, self.values)
                    if isinstance(symbol, Noise) and not symbol.distribution.integer:
                        magnitude = max(abs(value), LEAST_MAGNITUDE * symbol.distribution.unit)
                terms.append(Fraction(coefficient) * round(value) if whole else float(coefficient) * value)
                size += abs(float(coefficient) * magnitude)
            total = float(sum(terms)) if whole else math.fsum(terms)
        except (OverflowError, ValueError):  # beyond floats: a plain run cannot be compared
            self.unclear = True
            return 0.0, math.inf
        except KeyError:
            raise Nondeterministic(
                f"{self.name} keeps noise of one run and uses it in another; keep nothing between runs"
            ) from None
        return total, size + abs(float(terms[0]))

    def _function(self, symbol: Derived) -> tuple[float, float]:
        """Its value here, and a magnitude to which rounding is relative: what rounding its arguments makes of it."""
        pairs = [(float(a), 0.0) if is_constant(a) else self._evaluated(a) for a in symbol.arguments]
        whole = [is_constant(a) or all(map(is_whole, a.terms)) for a in symbol.arguments]
        pairs = [
            (x, 0.0 if exact and size < EXACT_INTEGERS else size) for (x, size), exact in zip(pairs, whole, strict=True)
        ]
        values = [value for value, _ in pairs]
        value = float(symbol.function.compute(*values))
        noisy = any(isinstance(drawn, Noise) for drawn in drawn_in([symbol]))
        if not math.isfinite(value) and not noisy:
            self.unclear = self.overflows = True
        moved = 0.0
        for place, (argument, magnitude) in enumerate(pairs):
            for step in (CLEAR_SLACK * magnitude, -CLEAR_SLACK * magnitude):
                other = float(symbol.function.compute(*values[:place], argument + step, *values[place + 1 :]))
                moved = max(moved, abs(other - value))
        if noisy and (not math.isfinite(moved) or (symbol.function.whole and moved)):
            self.unclear = self.hidden = self.unclear or math.isfinite(value)
        if not math.isfinite(moved) or symbol.function.whole:
            moved = 0.0
        return value, max(abs(value), moved / CLEAR_SLACK)

    def value(self, leaf: Any) -> Any:
        """The leaf of an output here: a number with its tolerance, a truth value, or what it is."""
        if isinstance(leaf, Affine):
            value, magnitude = self._evaluated(leaf)
            if math.isfinite(magnitude):
                self._check_rounding(leaf)
            return NearNumber(value, OUTPUT_TOLERANCE * magnitude)
        if isinstance(leaf, NoisyText):
            return NearText([part if isinstance(part, str) else self._written(part) for part in leaf.parts])
        if isinstance(leaf, Condition):
            return self._holds(leaf)
        if isinstance(leaf, Select):
            return self.value(leaf.then if self.value(leaf.condition) else leaf.other)
        return leaf

    def _written(self, part: WrittenNumber) -> WrittenNear:
        value, magnitude = self._evaluated(part.number)
        if part.number.stands_for is int:
            return WrittenNear(round(value), 0.0, part.form)
        return WrittenNear(value, OUTPUT_TOLERANCE * magnitude, part.form)

    def _check_rounding(self, released: Affine) -> None:
        """ExplorationDisagrees where floats near the number are so far apart that its noise makes no difference."""
        scales = [abs(float(c)) * s.distribution.unit for s, c in released.terms.items() if isinstance(s, Noise)]
        if not scales or released.stands_for is int:
            return
        data = [float(c) * value_of(s, self.values) for s, c in released.terms.items() if isinstance(s, Unknown)]
        size = abs(math.fsum([float(released.constant), *data]))
        if UNIT_ROUNDOFF * size >= DROWNED * max(scales):
            raise ExplorationDisagrees(
                f"the noise of {self.name} is lost to rounding: floats near {size:.3g} are {math.ulp(size):.2g} apart, "
                f"and it has a scale of {max(scales):.3g}; subtract a constant from the data, or "
                f"use an engine that samples"
            )


@dataclass(frozen=True)
class NearNumber:
    """A number that rounding may have moved by so much."""

    value: float
    tolerance: float

    def __repr__(self) -> str:
        return f"{self.value:.12g}"


@dataclass(frozen=True)
class WrittenNear:
    """A number in a text, which rounding may have moved by so much before it was written."""

    value: float
    tolerance: float
    form: str

    @property
    def pattern(self) -> str:
        """What it may be as text: itself first, so that two numbers in a row are told apart."""
        return f"({re.escape(format(self.value, self.form))}|.+?)"

    def is_written(self, text: str) -> bool:
        moved = (self.value + step for step in (-self.tolerance, self.tolerance)) if self.tolerance else ()
        if text in {format(value, self.form) for value in (self.value, *moved)}:
            return True
        try:
            return not self.form and abs(float(text) - self.value) <= self.tolerance
        except ValueError:
            return False


@dataclass(frozen=True)
class NearText:
    """A text with numbers in it."""

    parts: Sequence[str | WrittenNear]

    def is_written(self, text: object) -> bool:
        pattern = "".join(re.escape(part) if isinstance(part, str) else part.pattern for part in self.parts)
        found = re.fullmatch(pattern, text, re.DOTALL) if isinstance(text, str) else None
        numbers = [part for part in self.parts if isinstance(part, WrittenNear)]
        return found is not None and all(map(WrittenNear.is_written, numbers, found.groups()))

    def __repr__(self) -> str:
        return repr("".join(part if isinstance(part, str) else format(part.value, part.form) for part in self.parts))


def output_difference(told: Any, seen: Any) -> str | None:
    """How the output of a plain run differs from what was told; None where it is the same."""
    if isinstance(told, list | tuple) or isinstance(seen, list | tuple):
        if type(told) is not type(seen) or len(told) != len(seen):
            return "another structure"
        return next((found for pair in zip(told, seen, strict=True) if (found := output_difference(*pair))), None)
    if isinstance(told, dict) or isinstance(seen, dict):
        if type(told) is not type(seen) or set(map(leaf_key, told)) != set(map(leaf_key, seen)):
            return "other keys"
        return next((found for key in told if (found := output_difference(told[key], seen[key]))), None)
    return None if _same_leaf(told, seen) else "another value"


def _same_leaf(told: Any, seen: Any) -> bool:
    if isinstance(told, bool) or isinstance(seen, bool):
        return told is seen
    if isinstance(told, NearText):
        return told.is_written(seen)
    if isinstance(told, NearNumber):
        if not isinstance(seen, int | float):
            return False
        same = seen == told.value or (seen != seen and told.value != told.value)
        return same or abs(seen - told.value) <= told.tolerance + 1e-300
    if isinstance(told, int | float | Number) and isinstance(seen, int | float):
        close = math.isfinite(seen) and abs(float(told) - seen) <= OUTPUT_TOLERANCE * abs(seen)
        return close or (told != told and seen != seen) or told == seen
    return type(told) is type(seen) and bool(told == seen)


def other_draw(told: ValuedRun, asked: Sequence[Distribution | Sequence[float]]) -> str | None:
    """Where a plain run asked for other noise, up to rounding, or for other choices than this run did."""
    drawn = [step for step in told.done if isinstance(step, Noise) or is_chosen(step.options)]
    for step, law in zip(drawn, asked, strict=False):
        if not _same_law(step, law, told.values):
            ours = step.distribution if isinstance(step, Noise) else f"one of {len(step.options)} values"
            theirs = law if isinstance(law, Distribution) else f"one of {len(law)} values"
            other = "chooses with other probabilities" if ours == theirs else f"draws {theirs}, not {ours}"
            return f"the plain run {other}"
    number = f"{len(asked)} draw{'s' * (len(asked) != 1)}"
    return None if len(drawn) == len(asked) else f"the plain run makes {number}, not {len(drawn)}"


def _same_law(told: Step, asked: Distribution | Sequence[float], values: Mapping[Symbol, float]) -> bool:
    if isinstance(told, Noise):
        if is_listed(told.distribution) and not isinstance(asked, Distribution):
            return len(asked) == told.distribution.parameters["count"] and len(set(asked)) == 1
        if told.distribution == asked:
            return True
        if not isinstance(asked, Distribution) or asked.kind != told.distribution.kind:
            return False
        return all(map(_same_chance, told.distribution.parameters.values(), asked.parameters.values()))
    if isinstance(asked, Distribution) or len(asked) != len(told.options):
        return False
    total = math.fsum(asked)
    for option, chance in zip(told.options, asked, strict=True):
        if isinstance(option.weight, Weight):  # however small: it is compared with that of other data
            same = math.isclose(option.weight.evaluate(values), chance / total, rel_tol=OUTPUT_TOLERANCE)
        else:
            same = _same_chance(option.weight, chance / total)
        if not same:
            return False
    return True


def _same_chance(told: Number, asked: Number | float) -> bool:
    return math.isclose(told, asked, rel_tol=OUTPUT_TOLERANCE, abs_tol=1e-15)


def is_listed(distribution: Distribution) -> bool:
    """Whether plain runs choose such a number among few, which is noise where only what it decides is kept."""
    return isinstance(distribution, Integers) and distribution.count <= MAX_LISTED


def is_chosen(options: Sequence[Option]) -> bool:
    """Whether chance decides at this fork, and not a condition."""
    return not any(option.conditions for option in options)
