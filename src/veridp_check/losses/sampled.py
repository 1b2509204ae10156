"""The privacy loss of rounds of normal noise, each on a fresh sample of the records, from above. Part of the checker.

Let normal noise of variance 1, shifted by μ with probability q and left where it is else, be told from noise that is
not shifted. Its δ at x = e^ε is, for x > 1 - q,

    δ(x) = q · δ'(1 + (x - 1)/q),    δ'(y) = Φ(μ/2 - ln y/μ) - y Φ(-μ/2 - ln y/μ)    (Balle, Barthe and Gaboardi 2018),

and 1 - x below. The other way round it is 1 - x + x δ(1/x). A record that is added or removed has a loss of one of the
two in each round, and of the same in all rounds. For records that are replaced, δ(x) for x >= 1 bounds either way, and
so 1 - x + x δ(1/x) does for x < 1; as a function of x, that is convex too.

As in `loss_distribution`, δ is convex in x, so it is no more than its linear interpolation between the points x_k =
e^(kh), k = first, …, last, and (0, 1); above the last point it is no more than there. That is the δ of a loss that has
the values kh alone, and infinity with the probability δ_last. With R = e^h, the loss is kh with a probability of
(δ_{k+1} - (1 + R) δ_k + R δ_{k-1})/(R - 1); at the ends with (δ_{k+1} - δ_k)/(R - 1) + 1 - δ_k and
R (δ_{k-1} - δ_k)/(R - 1). Losses of rounds add up, adaptively too (Zhu, Dong and Wang 2022, Theorem 10). Of a sum,
what is above the last point of the lattice counts as infinite, and what is below the first as if it were there: both
can only add to δ, as does rounding every probability up.

Numbers are integers in units of 2^-BITS, in pairs: one just below, one just above.
"""

from __future__ import annotations

import decimal
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache

from veridp_check.enclosures import exp_between, log_above, root_below, root_of_two_pi

BITS = 192
ONE = 1 << BITS
SMALL = 1 << (BITS - 100)  # a y below this is as good as 0
FAR = 23 * ONE // 2  # normal noise passes so many standard deviations with a probability below LEAST
LEAST = 1 << (BITS - 99)
LOG_ERROR = Fraction(1, 1 << 120)  # far more than that of an upper bound of a logarithm
SHORT_SERIES = ONE >> 3  # where the logarithm of a quotient is found by a short series
DIGITS = 30  # of a probability: it is a multiple of 10^-DIGITS
UNIT: int = 10**DIGITS
Bounds = tuple[int, int]


@dataclass(frozen=True)
class Lattice:
    """The losses first · step, …, last · step."""

    step: Fraction
    first: int
    last: int


@dataclass(frozen=True)
class NormalRounds:
    """`count` rounds of normal noise that is shifted by √squared, with probability `rate`.

    The loss of a removed record is looked at from `first` to `last` steps, that of an added one from -last to -first.
    """

    squared: Fraction
    rate: Fraction
    count: int
    first: int
    last: int


# ------------------------------------------------------------------------------------------------------------- sums


@dataclass(frozen=True)
class LossMasses:
    """Probabilities of losses from `first` steps on, in units of 10^-DIGITS, and that of an infinite one."""

    first: int
    masses: list[int]
    infinite: int

    def cut(self, lattice: Lattice) -> LossMasses:
        """The same, no loss of which is off the lattice."""
        below = min(max(lattice.first - self.first, 0), len(self.masses) - 1)
        above = min(max(lattice.last + 1 - self.first, below + 1), len(self.masses))
        kept = self.masses[below:above]
        kept[0] += sum(self.masses[:below])
        return LossMasses(max(self.first, lattice.first), kept, self.infinite + sum(self.masses[above:]))

    def plus(self, other: LossMasses, lattice: Lattice) -> LossMasses:
        """Those of the sum of two losses; it is infinite no oftener than one of them is."""
        infinite = self.infinite + other.infinite
        return LossMasses(self.first + other.first, _product(self.masses, other.masses), infinite).cut(lattice)


def rounds_delta_above(
    epsilon: Fraction, rounds: tuple[NormalRounds, ...], lattice: Lattice, replaced: bool
) -> Fraction:
    """Just above δ(ε) of the rounds one after the other, whichever of two neighbours comes first."""
    ways = ("either",) if replaced else ("removed", "added")
    return max(delta_of_masses(epsilon, _composed(rounds, lattice, way), lattice.step) for way in ways)


def delta_of_masses(epsilon: Fraction, losses: LossMasses, step: Fraction) -> Fraction:
    """Just above E[(1 - e^(ε - L))₊]."""
    place = max(int(epsilon / step // 1) + 1, losses.first)
    kept = _below(min(exp_between(epsilon - place * step)[0], Fraction(1)))  # e^(ε - loss)
    factor = _below(exp_between(-step)[0])
    total = 0
    for mass in losses.masses[place - losses.first :]:
        total += -(-mass * (ONE - kept) >> BITS)
        kept = kept * factor >> BITS
    return Fraction(total + losses.infinite, UNIT)


@lru_cache(maxsize=8)
def _composed(rounds: tuple[NormalRounds, ...], lattice: Lattice, way: str) -> LossMasses:
    total = LossMasses(0, [UNIT], 0)
    for each in rounds:
        squared, number = round_losses(each, lattice.step, way).cut(lattice), each.count
        while number:
            if number % 2:
                total = total.plus(squared, lattice)
            number //= 2
            if number:
                squared = squared.plus(squared, lattice)
    return total


def _product(first: list[int], second: list[int]) -> list[int]:
    """The product of two polynomials, rounded up, as one of two numbers whose digits they are.

    Decimal numbers of millions of digits multiply much faster than integers do.
    """
    length = len(first) + len(second) - 1
    size = 2 * (DIGITS + 3) + len(str(length))  # which no sum of products can pass
    context = decimal.Context(
        prec=size * (length + 1), Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN, traps=[decimal.Inexact]
    )
    numbers = [
        context.create_decimal("".join(f"{mass:0{size}d}" for mass in reversed(masses))) for masses in (first, second)
    ]
    digits = format(context.multiply(*numbers), "f").rjust(size * length, "0")
    ends = range(len(digits), len(digits) - size * length, -size)
    return [-(-int(digits[end - size : end]) // UNIT) for end in ends]


# ------------------------------------------------------------------------------------------------------- one round


@lru_cache(maxsize=32)
def round_losses(rounds: NormalRounds, step: Fraction, way: str) -> LossMasses:
    """The probabilities of the losses of one round."""
    removed = dict(zip(range(rounds.first, rounds.last + 1), _removed(rounds, step), strict=True))
    places = list(removed)
    if way == "added":
        places = [-k for k in reversed(places)]
    elif way == "either":
        places = list(range(-rounds.last, rounds.last + 1))
    deltas = [
        _turned(removed[-k], k * step) if way == "added" or (way == "either" and k < 0) else removed[k] for k in places
    ]
    ratio = _between(*exp_between(step))
    least = ratio[0] - ONE
    found = [((deltas[1][1] - deltas[0][0] << BITS) // least) + ONE - deltas[0][0] + 1]
    for before, here, after in zip(deltas, deltas[1:], deltas[2:], strict=False):
        grown = (after[1] - here[0] << BITS) - ratio[0] * here[0] + ratio[1] * before[1]
        found.append(grown // least + 1)
    found.append(ratio[1] * (deltas[-2][1] - deltas[-1][0]) // least + 1)
    return LossMasses(places[0], [_units(mass) for mass in found], _units(deltas[-1][1]))


def _units(mass: int) -> int:
    return -(-max(mass, 0) * UNIT >> BITS)


def _turned(delta: Bounds, epsilon: Fraction) -> Bounds:
    """1 - x + x δ(1/x), for δ at 1/x; δ is no more than 1."""
    low, high = _between(*exp_between(epsilon))
    return ONE - (high * (ONE - delta[0]) >> BITS) - 1, ONE - (low * (ONE - min(delta[1], ONE)) >> BITS)


@lru_cache(maxsize=32)
def _removed(rounds: NormalRounds, step: Fraction) -> list[Bounds]:
    """δ at first · step, …, last · step, where the shifted noise is on the left."""
    mu = _below(root_below(rounds.squared)) + 2  # δ grows with it
    x = _between(*exp_between(rounds.first * step))
    ratio = _between(*exp_between(step))
    found, before, log = [], None, None
    for _ in range(rounds.first, rounds.last + 1):
        y = _over_rate(x[0], rounds.rate), _over_rate(x[1], rounds.rate) + 1
        if y[0] <= SMALL:  # δ is 1 - x up to y = 0, and no less past it; there it is at most q = 1 - x + qy
            found.append((ONE - x[1], ONE - x[0] + SMALL))
        else:
            log = _next_log(before, log, y)
            before = y
            found.append(_sampled(mu, rounds.rate, x, y, log))
        x = x[0] * ratio[0] >> BITS, (x[1] * ratio[1] >> BITS) + 1
    return found


def _over_rate(x: int, rate: Fraction) -> int:
    return ONE + (x - ONE) * rate.denominator // rate.numerator


def _sampled(mu: int, rate: Fraction, x: Bounds, y: Bounds, log: Bounds) -> Bounds:
    """q (Φ(μ/2 - ln y/μ) - y Φ(-μ/2 - ln y/μ))."""
    ends = mu // 2 - (log[1] << BITS) // mu - 2, mu // 2 - (log[0] << BITS) // mu + 2
    width = ends[1] - ends[0] + 4  # Φ grows by less than half of what its argument does
    gained, kept = _normal(ends[0]), _normal(ends[0] - mu - 2)
    gained, kept = (gained[0], gained[1] + width), (kept[0], kept[1] + width)
    low, high = gained[0] - (y[1] * kept[1] >> BITS) - 1, gained[1] - (y[0] * kept[0] >> BITS)
    least = max(low * rate.numerator // rate.denominator, ONE - x[1], 0)
    return least, max(high * rate.numerator // rate.denominator + 1, 0)


def _next_log(before: Bounds | None, log: Bounds | None, y: Bounds) -> Bounds:
    """ln y: that of the number before and of the quotient, 2 artanh z = 2 (z + z³/3 + …) with z = (y' - y)/(y' + y)."""
    if before is None or log is None or y[0] - before[1] > SHORT_SERIES * before[0] >> BITS or y[0] <= before[1]:
        return _log(Fraction(y[0], ONE))[0], _log(Fraction(y[1], ONE))[1]
    low = (y[0] - before[1] << BITS) // (y[0] + before[1])  # z grows with y', and falls with y
    high = (y[1] - before[0] << BITS) // (y[1] + before[0]) + 1
    return log[0] + 2 * _artanh(low)[0], log[1] + 2 * _artanh(high)[1]


def _artanh(z: int) -> Bounds:
    """For 0 <= z <= 1/8: what is left out is less than twice the first term that is, rounded up."""
    low, high, odd = 0, 0, 1
    down = up = z
    square = z * z >> BITS
    while up > 1:
        low, high = low + down // odd, high + up // odd + 1
        down, up, odd = down * square >> BITS, (up * (square + 1) >> BITS) + 1, odd + 2
    return low, high + 2


def _log(x: Fraction) -> Bounds:
    if x == 1:
        return 0, 0
    if x < 1:
        low, high = _log(1 / x)
        return -high, -low
    above = log_above(x)
    return _below(above - LOG_ERROR), _below(above) + 1


def _normal(a: int) -> Bounds:
    """Φ(a): as `enclosures.normal_between`, in fewer bits."""
    if a < 0:
        low, high = _normal(-a)
        return ONE - high, ONE - low
    if a > FAR:
        return ONE - LEAST, ONE
    square = a * a >> BITS
    low, high, down, up, odd = a, a, a, a, 1
    while up > 1 or odd << BITS < 2 * square + 2:
        odd += 2
        down, up = (down * square >> BITS) // odd, (up * (square + 1) >> BITS) // odd + 1
        low, high = low + down, high + up
    high += 2 * up
    density = _density(square)
    return ONE // 2 + (low * density[0] >> BITS), min(ONE // 2 + (high * density[1] >> BITS) + 1, ONE)


def _density(square: int) -> Bounds:
    """e^(-a²/2)/√(2π), for a² between this and one unit more."""
    ends = []
    for exponent, up in ((square // 2 + 1, True), (square // 2, False)):  # e^(a²/2), rounded this way
        halvings = max(exponent.bit_length() - BITS + 1, 0)
        y = (exponent >> halvings) + up
        total, term, n = ONE, ONE, 0
        while term > 1:
            n += 1
            term = (term * y >> BITS) // n + up
            total += term
        total += 2 * term * up
        for _ in range(halvings):
            total = (total * total >> BITS) + up
        ends.append(total)
    root = _root()
    return (ONE << 2 * BITS) // (ends[0] * root[1]), (ONE << 2 * BITS) // (ends[1] * root[0]) + 1


@cache
def _root() -> Bounds:
    """√(2π)."""
    return _between(*root_of_two_pi())


def _below(x: Fraction) -> int:
    return (x.numerator << BITS) // x.denominator


def _between(low: Fraction, high: Fraction) -> Bounds:
    return _below(low), _below(high) + 1
