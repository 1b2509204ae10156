"""Noise that code makes by hand, recognised as what it is: the logarithm of a uniform draw is an exponential one.

Each rule takes a set of draws that a path names in one way only, and puts one draw in their place that has the same
distribution as what they make, given what the path asks of them. So the output and the conditions of every path keep
their joint distribution exactly, and with it every probability that follows from them. The draws that are gone must
occur nowhere else on the path: this is what `Draft.only_in` and `Draft.in_proportion` see to.

Numbers are taken for the rationals that they are, with some exceptions: floats next to multiples of π stand for these,
shapes of gamma draws that sum to a number next to 1 are shares of 1, the upper end of a uniform draw that is next to 1
is 1, and the p of geometric noise that is made of exponential noise is the next float, as in `rng.geometric(1 -
np.exp(-1 / b))`; so is 1 + a where a logarithm is rounded to two-sided geometric noise. Where Laplace noise made by
inversion is cut off, at logarithms, the ends are rationals just within them. A rule that would need an irrational scale
or offset does not apply.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

from veridp.kernel import functions as f
from veridp.kernel.distributions import Distribution, Number, exact
from veridp.kernel.expressions import Affine, Condition, Select, affine
from veridp.kernel.handmade.signs import ROUNDING, CutOff, asked_of, signed_text, with_signs, with_two_sided_geometrics
from veridp.kernel.noise import (
    Cauchy,
    Exponential,
    Gamma,
    Geometric,
    Gumbel,
    Laplace,
    Logistic,
    Normal,
    StudentT,
    Uniform,
)
from veridp.kernel.path import Fork, Option, Path, Step, leaves, map_leaves
from veridp.kernel.substitution import expressions_in, formula_of, functions_in, substituted, within
from veridp.kernel.symbols import Derived, Noise, PureFunction, Relation, Symbol, drawn_in, is_constant


def may_recognise(path: Path) -> bool:
    """Whether a rule could apply to the path; most paths have nothing that one begins with."""
    if any(isinstance(noise.distribution, Exponential | Gamma) for noise in path.noises):
        return True
    return any(True for expression in expressions_in(path.output, path.conditions) for _ in functions_in(expression))


def recognised(paths: Sequence[Path]) -> Sequence[Path]:
    """The paths of a mechanism with noise made by hand as the noise that it is; the same paths where there is none.

    Only the paths that it is given are what the code does: these are to be replayed.
    """
    if not any(map(may_recognise, paths)):
        return paths
    drafts = [Draft(path) for path in paths]
    for draft in drafts:
        draft.recognise()
    found = [draft.path() for draft in drafts]
    merged = with_two_sided_geometrics(with_signs(found))
    if any(isinstance(noise.distribution, CutOff) for path in merged for noise in path.noises):
        return paths  # on one side alone: no such noise is known
    changed = len(merged) < len(found) or any(draft.changed for draft in drafts)
    return merged if changed and _alike(drafts) else paths


def chances_told(paths: Sequence[Path]) -> Sequence[Path]:
    """The paths, where uniform draws that are only compared with constants are the chances that these have."""
    drafts = [Draft(path) for path in paths]
    for draft in drafts:
        draft.restrict()
    return [draft.path() for draft in drafts] if _alike(drafts) else paths


def recognised_one_by_one(paths: Iterator[Path]) -> Iterator[Path]:
    """The same, path by path, where nothing hints at such noise: then the paths need never be kept all at once."""
    first = next(paths, None)
    if first is None:
        return iter(())
    every = itertools.chain([first], paths)
    return iter(recognised(list(every))) if may_recognise(first) else every


def _alike(drafts: Sequence[Draft]) -> bool:
    """Whether a draw became the same on all paths that ask something of it.

    Else each path would have its probability still, but the conditions of all would no longer part the noise.
    """
    fates: dict[Noise, set[object]] = {}
    asked: set[Noise] = set()
    for draft in drafts:
        asked |= asked_of(draft.original)
        for noise in draft.original.noises:
            if draft.mentioned[noise]:
                fates.setdefault(noise, set()).add(draft.fate(noise))
    return all(len(fates.get(noise, ())) <= 1 for noise in asked)


# --------------------------------------------------------------------------------------------------- one path


class Made(NamedTuple):
    """offset + factor · a draw from the distribution: what a function, or a sum, of draws amounts to."""

    distribution: Distribution
    factor: Number = 1
    offset: Number = 0


class Draft:
    """A path while rules are applied to it."""

    def __init__(self, path: Path) -> None:
        self.original = path
        self.output = path.output
        self.forks = [step for step in path.steps if isinstance(step, Fork) and not step.implied]
        self.conditions = [list(fork.option.conditions) for fork in self.forks]
        self.noises = {noise.index: noise for noise in path.noises}  # by the place in which each was drawn
        self.chances: dict[int, Fraction] = {}  # of conditions on a draw alone that were taken away
        self.changed = False
        self.mentioned = Counter(s for e in self.expressions() for s in drawn_in(e.terms))

    def expressions(self) -> list[Affine]:
        return expressions_in(self.output, [c for conditions in self.conditions for c in conditions])

    def fate(self, noise: Noise) -> object:
        """What became of a draw: equal where the same did."""
        left = self.noises.get(noise.index)
        if left is not None and isinstance(left.distribution, CutOff):
            return CutOff  # at whatever end: what both sides become is looked at when they are joined
        return None if left is None else (left.distribution, noise.index in self.chances)

    def recognise(self) -> None:
        for rule in (self._choices_of_sign, self.restrict, self._functions, self._sums):
            rule()

    # ---------------------------------------------------------------------------------------------- occurrences

    def only_in(self, symbols: Sequence[Derived]) -> bool:
        """Whether the draws in these functions occur nowhere but in them."""
        draws = set(drawn_in(symbols))
        return all(isinstance(draw, Noise) for draw in draws) and all(
            draws.isdisjoint(expression.terms) for top in self.expressions() for expression in within(top, symbols)
        )

    def in_proportion(self, first: Symbol, second: Symbol) -> Fraction | None:
        """The factor of the second by that of the first, where both occur in one proportion and in sums alone."""
        ratios = set()
        for top in self.expressions():
            for expression in within(top):
                one, other = expression.terms.get(first, 0), expression.terms.get(second, 0)
                if one or other:
                    ratios.add(Fraction(other) / Fraction(one) if one else None)
        return ratios.pop() if len(ratios) == 1 else None

    # --------------------------------------------------------------------------------------------- substitution

    def put(self, made: Mapping[Symbol, Affine | Number]) -> None:
        """Put expressions in place of symbols, wherever they occur."""
        self.output = map_leaves(lambda leaf: substituted(leaf, made), self.output)
        self.conditions = [[substituted(c, made) for c in conditions] for conditions in self.conditions]

    def draw(self, gone: Iterable[Noise], distribution: Distribution, formula: str) -> Noise:
        """A draw in place of those that are gone."""
        places = sorted(noise.index for noise in gone)
        site = self.noises[places[0]].site
        for place in places:
            del self.noises[place]
        noise = self.noises[places[0]] = Noise(places[0], distribution, site, formula=formula)
        self.changed = True
        return noise

    def path(self) -> Path:
        """The path as it is now, its draws counted anew."""
        if not self.changed and not self.chances:
            return self.original
        kept = [self.noises[index] for index in sorted(self.noises)]
        self.put({n: Affine(0, {replace(n, index=k): 1}) for k, n in enumerate(kept) if n.index != k})
        steps: list[Step] = [replace(noise, index=k) for k, noise in enumerate(kept)]
        for place, chance in self.chances.items():
            site = self.original.noises[place].site
            steps.append(Fork((Option((), exact(chance), "a uniform draw is in its range"),), 0, site))
        for fork, conditions in zip(self.forks, self.conditions, strict=True):
            option = replace(fork.option, conditions=tuple(conditions))
            steps.append(Fork((option,), 0, fork.site))
        return Path(tuple(steps), self.output)

    # ---------------------------------------------------------------------------------------------------- rules

    def restrict(self) -> None:
        """A uniform draw that is only compared with constants, but for functions of it.

        Given that it is between l and h, it is l + (h - l) U, U being uniform again; and that has the probability
        h - l. A draw that occurs nowhere else is gone: what is left of it is this probability.
        """
        for noise in list(self.noises.values()):
            if noise.distribution != Uniform():
                continue
            asked = [c for conditions in self.conditions for c in conditions if noise in c.slack.terms]
            if not asked or any(len(c.slack.terms) > 1 for c in asked):
                continue
            low, high = Fraction(0), Fraction(1)
            for condition in asked:
                bound = -Fraction(condition.slack.constant) / condition.slack.terms[noise]
                low, high = (max(low, bound), high) if condition.slack.terms[noise] > 0 else (low, min(high, bound))
            if not low < high or any(c.relation not in (Relation.AT_LEAST, Relation.ABOVE) for c in asked):
                continue
            gone = set(map(id, asked))
            self.conditions = [[c for c in conditions if id(c) not in gone] for conditions in self.conditions]
            self.chances[noise.index] = high - low
            if any(noise in drawn_in(e.terms) for e in self.expressions()):
                self.put({noise: Affine(exact(low), {noise: exact(high - low)})})
            else:
                del self.noises[noise.index]

    def _functions(self) -> None:
        """A function of draws whose distribution is known, those within others first."""
        again = True
        while again:
            again = False
            self._cancel_factors()
            for symbol in dict.fromkeys(s for e in self.expressions() for s in functions_in(e)):
                parts = _log_of_factors(symbol)
                if parts is not None:
                    self.put({symbol: parts})
                    again = True
                    break
                made = next((made for rule in RULES if (made := rule(symbol)) is not None), None)
                if made is not None and self.only_in([symbol]):
                    gone = {s for s in drawn_in([symbol]) if isinstance(s, Noise)}
                    noise = self.draw(gone, made.distribution, f"{'-' * (made.factor < 0)}{formula_of(symbol)}")
                    self.put({symbol: Affine(made.offset, {noise: made.factor})})
                    again = True
                    break
        self._logistic()

    def _cancel_factors(self) -> None:
        """log(cu) - log(cv) is log(u) - log(v), of uniform u and v: an irrational log(c) is gone."""
        logs = dict.fromkeys(s for e in self.expressions() for s in functions_in(e) if s.function is f.LOG)
        scaled = {s: drawn for s in logs if (drawn := _unit(s.arguments[0], Uniform)) and not s.arguments[0].constant}
        for first, second in itertools.combinations(scaled, 2):
            factor = scaled[first][1]
            if factor == scaled[second][1] not in (0, 1) and factor > 0 and self.in_proportion(first, second) == -1:
                units = {s: Derived(f.LOG, (Affine(0, {scaled[s][0]: 1}),)) for s in (first, second)}
                self.put({s: Affine(0, {unit: 1}) for s, unit in units.items()})

    def _logistic(self) -> None:
        """log(u) - log(1 - u), of a uniform u, is logistic: P[log(u/(1 - u)) <= x] = P[u <= 1/(1 + e^-x)]."""
        logs = {s for e in self.expressions() for s in functions_in(e) if s.function in (f.LOG, f.LOG1P)}
        for first in logs:
            for second in logs:
                one, other = _argument_of_log(first), _argument_of_log(second)
                uniform = _unit(one, Uniform) or _unit(other, Uniform)
                if one is None or other is None or uniform is None or not _sums_to_one(one, other):
                    continue
                if _is_unit(one) and self.in_proportion(first, second) == -1 and self.only_in([first, second]):
                    noise = self.draw([uniform[0]], Logistic(1), f"{formula_of(first)} - {formula_of(second)}")
                    self.put({first: Affine(0, {noise: 1}), second: 0})
                    return self._logistic()
        return None

    def _sums(self) -> None:
        """Draws of one scale, in sums alone: gamma draws add their shapes, and exponential ones differ by a Laplace.

        The transform of a gamma draw is (1 - θt)^-k, and that of a difference of exponentials (1 - θt)^-1 (1 + θt)^-1,
        which is 1/(1 - θ²t²), that of Laplace noise. A difference that only decides is left as the code has it.
        """
        again = True
        while again:
            again = False
            drawn = [n for n in self.noises.values() if isinstance(n.distribution, Exponential | Gamma)]
            for place, first in enumerate(drawn):
                for second in drawn[place + 1 :]:
                    if self._add(first, second):
                        again = True
                        break
                if again:
                    break
                if isinstance(first.distribution, Gamma) and math.isclose(
                    first.distribution.shape, 1, rel_tol=ROUNDING
                ):
                    noise = self.draw([first], Exponential(first.distribution.scale), first.formula)
                    self.put({first: Affine(0, {noise: 1})})
                    again = True
                    break

    def _add(self, first: Noise, second: Noise) -> bool:
        """Whether the second was taken together with the first."""
        one, other = first.distribution, second.distribution
        ratio = self.in_proportion(first, second)
        if ratio is None or abs(ratio) * Fraction(other.scale) != one.scale:  # type: ignore[attr-defined]
            return False
        shapes = [d.shape if isinstance(d, Gamma) else 1 for d in (one, other)]
        if ratio > 0 and shapes != [1, 1]:
            together: Distribution = Gamma(one.scale, exact(sum(map(Fraction, shapes))))  # type: ignore[attr-defined]
            formula = f"({formula_of(first)} + {formula_of(second)})"
        elif ratio < 0 and shapes == [1, 1] and any(first in e.terms for e in expressions_in(self.output, ())):
            together, formula = Laplace(one.scale), f"{formula_of(first)} - {formula_of(second)}"  # type: ignore[attr-defined]
        else:
            return False
        noise = self.draw([first, second], together, formula)
        self.put({first: Affine(0, {noise: 1}), second: 0})
        return True

    def _choices_of_sign(self) -> None:
        """An entry that is still undecided between two that differ in the sign of an exponential draw, by a fair coin.

        Half of an exponential density on either side of 0 is that of Laplace noise.
        """
        for leaf in leaves(self.output):
            if not isinstance(leaf, Select) or not isinstance(leaf.condition, Condition):
                continue
            terms, then, other = leaf.condition.slack.terms, leaf.then, leaf.other
            if len(terms) > 1 or not isinstance(then, Affine) or not isinstance(other, Affine):
                continue
            (coin,) = terms
            if not isinstance(coin, Noise) or coin.distribution != Uniform() or self._uses(coin) != 1:
                continue
            fair = Fraction(leaf.condition.slack.constant) / terms[coin] == Fraction(-1, 2)
            fair = fair and leaf.condition.relation in (Relation.AT_LEAST, Relation.ABOVE)
            flipped = [n for n in _exponential(then) if self._uses(n) == 2 and other.same(_flipped(then, n))]
            if fair and flipped:
                del self.noises[coin.index]
                noise = self.draw([flipped[0]], Laplace(flipped[0].distribution.scale), signed_text(flipped[0]))  # type: ignore[attr-defined]
                entry = substituted(then, {flipped[0]: Affine(0, {noise: 1})})
                self.output = map_leaves(lambda each: entry if each is leaf else each, self.output)  # noqa: B023

    def _uses(self, noise: Noise) -> int:
        return sum(noise == s for e in self.expressions() for s in drawn_in(e.terms))


# ------------------------------------------------------------------------------------------------ functions of draws


def _log_of_factors(symbol: Derived) -> Affine | None:
    """log(a / b) and log(a · b), of numbers above 0, as a difference and a sum of logarithms."""
    argument = _argument_of_log(symbol)
    if argument is None or argument.constant or list(argument.terms.values()) != [1]:
        return None
    (inner,) = argument.terms
    if not isinstance(inner, Derived) or inner.function not in (f.QUOTIENT, f.PRODUCT):
        return None
    if any(is_constant(part) or (low := _ends(part)[0]) is None or low < 0 for part in inner.arguments):
        return None
    first, second = (Derived(f.LOG, (part,)) for part in inner.arguments)
    return affine(0, {first: 1, second: -1 if inner.function is f.QUOTIENT else 1}) if first != second else None  # type: ignore[return-value]


def _log_of_uniform(symbol: Derived) -> Made | None:
    """-log(U) is exponential: P[-log(U) >= x] = P[U <= e^-x] = e^-x; and 1 - U is uniform as U is."""
    argument = _argument_of_log(symbol)
    drawn = _unit(argument, Uniform)
    if argument is None or drawn is None or not _is_unit(argument):
        return None
    return Made(Exponential(1), -1)


def _log_of_cut_uniform(symbol: Derived) -> Made | None:
    """-log(U) is exponential up to -log(c), of U uniform from c > 0 to 1: P[-log(U) >= x] = (e^-x - c)/(1 - c)."""
    argument = _argument_of_log(symbol)
    if argument is None or _unit(argument, Uniform) is None:
        return None
    low, high = _ends(argument)
    if low is None or high is None or not 0 < low < 1 or not math.isclose(high, 1, rel_tol=ROUNDING):
        return None
    return Made(CutOff.at(low / high), -1)


def _log_of_exponential(symbol: Derived) -> Made | None:
    """-log(E) is Gumbel noise: P[-log(E) <= x] = P[E >= e^-x] = exp(-e^-x), of an exponential E of scale 1."""
    argument = _argument_of_log(symbol)
    drawn = _unit(argument, Exponential)
    if argument is None or drawn is None or argument.constant or drawn[1] * Fraction(drawn[0].distribution.scale) != 1:
        return None
    return Made(Gumbel(1), -1)


def _floor_of_exponential(symbol: Derived) -> Made | None:
    """The whole part of an exponential draw of scale b is geometric noise less 1: P[⌊X⌋ >= k] = e^(-k/b).

    Rounded down with a minus, it is minus the geometric noise, as it is no integer.
    """
    drawn = _unit(symbol.arguments[0], Exponential) if symbol.function in (f.FLOOR, f.TRUNC) else None
    if drawn is None or Fraction(offset := symbol.arguments[0].constant).denominator != 1:
        return None
    noise, factor = drawn
    if symbol.function is f.TRUNC and (offset * factor < 0 or (offset and factor < 0)):
        return None  # it is rounded up on one side of 0, and down on the other
    p = -math.expm1(-1 / float(abs(factor) * Fraction(noise.distribution.scale)))
    towards_zero = factor > 0 or symbol.function is f.TRUNC
    sign = 1 if factor > 0 else -1
    return Made(Geometric(exact(p)), sign, offset - sign if towards_zero else offset)


def _tangent(symbol: Derived) -> Made | None:
    """The tangent of a uniform angle is Cauchy noise, if the angles make up whole periods, wherever these begin.

    On a period, P[tan <= x] = (atan(x) + π/2)/π.
    """
    drawn = _unit(symbol.arguments[0], Uniform) if symbol.function is f.TAN else None
    return None if drawn is None or not _periods(drawn[1], math.pi) else Made(Cauchy(1))


def _mixture(symbol: Derived) -> Made | None:
    """√(2E) N is Laplace noise of scale 1: E[exp(itN√(2E))] = E[exp(-t²E)] = 1/(1 + t²). E has scale 1, N is standard.

    √(2E) cos(2πU) is standard normal: the polar coordinates of two normal draws.
    """
    if symbol.function is not f.PRODUCT:
        return None
    for one, other in (symbol.arguments, symbol.arguments[::-1]):
        root, normal, angle = _root(one), _unit(other, Normal), _function_of_unit(other, (f.SIN, f.COS))
        drawn = None if root is None else _unit(root[0], Exponential)
        if root is None or drawn is None or root[0].constant:
            continue
        spread = _square_root(drawn[1] * Fraction(drawn[0].distribution.scale) / 2)
        if spread is None:
            continue
        if normal is not None and not other.constant and normal[0] != drawn[0]:
            scale = abs(root[1] * normal[1]) * spread * Fraction(normal[0].distribution.scale)
            return Made(Laplace(exact(scale)))
        if angle is not None and _periods(angle[1], 2 * math.pi):
            return Made(Normal(exact(abs(root[1] * angle[0]) * spread)))
    return None


def _student(symbol: Derived) -> Made | None:
    """A standard normal draw by √(χ²/k), χ² of k degrees of freedom and independent of it, is Student's t."""
    if symbol.function is not f.QUOTIENT:
        return None
    numerator, root = _unit(symbol.arguments[0], Normal), _root(symbol.arguments[1])
    if numerator is None or symbol.arguments[0].constant or root is None:
        return None
    squares = _chi_squared(root[0])
    if squares is None or numerator[0] in drawn_in(root[0].terms):
        return None
    degrees, spread = squares
    size = _square_root(spread * degrees)
    if size is None:
        return None
    scale = abs(numerator[1] / root[1]) * Fraction(numerator[0].distribution.scale) / size
    return Made(StudentT(exact(scale), exact(degrees)))


RULES: tuple[Callable[[Derived], Made | None], ...] = (
    _log_of_uniform,
    _log_of_cut_uniform,
    _log_of_exponential,
    _floor_of_exponential,
    _tangent,
    _mixture,
    _student,
)


def _chi_squared(expression: Affine) -> tuple[Fraction, Fraction] | None:
    """Degrees of freedom and factor, of a sum of squares of like normal draws, or of a gamma draw."""
    gamma = _unit(expression, Gamma)
    if expression.constant:
        return None
    if gamma is not None:
        drawn: Any = gamma[0].distribution
        return 2 * Fraction(drawn.shape), gamma[1] * Fraction(drawn.scale) / 2
    spreads, draws = set(), []
    for symbol, coefficient in expression.terms.items():
        if not isinstance(symbol, Derived) or symbol.function != f.even_power(2):
            return None
        normal = _unit(symbol.arguments[0], Normal)
        if normal is None or symbol.arguments[0].constant:
            return None
        draws.append(normal[0])
        spreads.add(coefficient * (normal[1] * Fraction(normal[0].distribution.scale)) ** 2)
    alike = len(spreads) == 1 and len(set(draws)) == len(draws)
    return (Fraction(len(draws)), spreads.pop()) if alike else None


# -------------------------------------------------------------------------------------------------------- reading


def _unit(expression: Any, kind: type[Distribution]) -> tuple[Any, Fraction] | None:
    """The one draw of this kind that an expression is made of, a constant aside, and its factor."""
    if not isinstance(expression, Affine) or len(expression.terms) != 1:
        return None
    ((symbol, factor),) = expression.terms.items()
    if not isinstance(symbol, Noise) or not isinstance(symbol.distribution, kind):
        return None
    return symbol, Fraction(factor)


def _argument_of_log(symbol: Derived) -> Affine | None:
    """What the logarithm is taken of, if the function is one."""
    (argument, *_) = symbol.arguments
    if symbol.function is f.LOG1P:
        return Affine(argument.constant + 1, argument.terms)
    return argument if symbol.function is f.LOG else None


def _root(expression: Any) -> tuple[Affine, Fraction] | None:
    """What the square root is taken of, and its factor, if the expression is a multiple of one."""
    found = _function_in(expression, (f.SQRT, f.power_of_positive(0.5)))
    return None if found is None else (found[0].arguments[0], found[1])


def _function_of_unit(expression: Any, kinds: Sequence[PureFunction]) -> tuple[Fraction, Fraction] | None:
    """The factor of a function of a uniform draw, and that of the draw."""
    found = _function_in(expression, kinds)
    drawn = None if found is None else _unit(found[0].arguments[0], Uniform)
    return None if found is None or drawn is None else (found[1], drawn[1])


def _function_in(expression: Any, kinds: Sequence[PureFunction]) -> tuple[Derived, Fraction] | None:
    if not isinstance(expression, Affine) or expression.constant or len(expression.terms) != 1:
        return None
    ((symbol, factor),) = expression.terms.items()
    return (symbol, Fraction(factor)) if isinstance(symbol, Derived) and symbol.function in kinds else None


def _ends(expression: Affine) -> tuple[Fraction | None, Fraction | None]:
    """The least and the largest value of an expression in draws alone."""
    low: Fraction | None = Fraction(expression.constant)
    high: Fraction | None = low
    for symbol, factor in expression.terms.items():
        if not isinstance(symbol, Noise):
            return None, None
        ends = [Fraction(e) if math.isfinite(e) else None for e in symbol.distribution.support]
        first, last = ends if factor > 0 else ends[::-1]
        low = None if low is None or first is None else low + factor * first
        high = None if high is None or last is None else high + factor * last
    return low, high


def _is_unit(expression: Affine) -> bool:
    """Whether it goes from 0 to 1."""
    return list(_ends(expression)) == [Fraction(0), Fraction(1)]


def _sums_to_one(first: Affine, second: Affine) -> bool:
    total = first + second
    return not isinstance(total, Affine) and total == 1


def _periods(factor: Fraction, period: float) -> bool:
    """Whether a uniform draw by this factor makes up whole periods, the factor standing for a multiple of π."""
    count = round(abs(factor) / Fraction(period))
    return count > 0 and math.isclose(abs(factor), count * period, rel_tol=ROUNDING)


def _square_root(number: Fraction) -> Fraction | None:
    """The square root, where it is rational."""
    if number <= 0:
        return None
    root = Fraction(math.isqrt(number.numerator), math.isqrt(number.denominator))
    return root if root * root == number else None


def _exponential(expression: Affine) -> list[Noise]:
    return [s for s in expression.terms if isinstance(s, Noise) and isinstance(s.distribution, Exponential)]


def _flipped(expression: Affine, noise: Noise) -> Affine:
    return Affine(expression.constant, {s: -c if s == noise else c for s, c in expression.terms.items()})
