"""Discrete Gaussian noise that a loop makes: it samples a whole number, and tosses a coin of probability e^-γ for it.

Let each path that ends release one number c + s·n, n being geometric, and let it have tossed a coin of probability
e^-γ(n), γ being quadratic in n. The logarithm of how likely a number x is on a path is then a polynomial of degree 2 in
x. Where these polynomials have the same -1/2v for x², and the same mode m, the law of x is proportional to

    e^(-(x - m)²/2v) · (the sum of e^constant over the paths that release x).

That sum repeats itself past the last number at which a path begins: if it is the same for all numbers up to there,
it is for all. Rounds that are rejected are forgotten, so it need not be known how likely they are. (Canonne, Kamath and
Steinke 2020, Algorithm 3; here whatever samples such numbers will do.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from veridp.errors import NotExplorable
from veridp.kernel import functions as f
from veridp.kernel.distributions import exact
from veridp.kernel.expressions import Affine, affine
from veridp.kernel.flow.retries import HERE, Retries, RetryHead, rational
from veridp.kernel.handmade.coins import Toss
from veridp.kernel.handmade.discrete_laplace import MAX_WINDOW, NotSampled, Strand, is_sampled
from veridp.kernel.handmade.quadratic import quadratic
from veridp.kernel.handmade.rejection import MAX_VARIANCE
from veridp.kernel.noise import DiscreteGaussian
from veridp.kernel.path import Again, Fork, Option, Path, Step, map_leaves
from veridp.kernel.symbols import CoinDraw, Derived, Noise, drawn_in

LOG_ROUNDING = 1e-11  # how far logarithms of equal probabilities may be apart; code computes gamma / k in floats
FORMULA = "discrete Gaussian noise that a loop samples"


def with_coin_gaussian(paths: Sequence[Path]) -> list[Path] | None:
    """One path that releases a number with discrete Gaussian noise, in place of those of a loop that samples it.

    None where the paths do something else. What they ask must not depend on open values.
    """
    if not any(isinstance(noise, CoinDraw) for path in paths for noise in path.noises):
        return None
    try:
        retries = Retries(paths, rational)
        head = min(retries.back, default=None)
        ending = [path for path in paths if not isinstance(path.output, Again)]
        if head is None or not ending or not all(map(head.leads_to, ending)):
            return None
        outer = [other for other in retries.back if (other.place, other.taken) == (head.place, head.taken)]
        _check_tosses(paths, retries, outer)
        strands = [_AcceptedStrand.of(path, retries.factor(path, within=max(outer))) for path in ending]
        first = strands[0].strand
        if any(each.strand.frame != first.frame or each.strand.open != first.open for each in strands):
            return None
        mode, variance = _law(strands)
    except (NotExplorable, NotSampled):
        return None
    noise = Noise(0, DiscreteGaussian(exact(variance)), first.noise.site, formula=FORMULA)
    number = affine(mode, {**first.open, noise: 1})
    return [Path((noise,), map_leaves(lambda leaf: number if is_sampled(leaf) else leaf, ending[0].output))]


def _check_tosses(paths: Sequence[Path], retries: Retries, outer: Sequence[RetryHead]) -> None:
    """NotSampled where a path that tosses such a coin comes back to another place than the one that all go through.

    All that end go through there, so they are equally much likelier for what comes back.
    """
    inner = [path for head, back in retries.back.items() if head not in outer for path in back]
    before = [Path(path.steps[: outer[0].place], None) for path in paths]
    if any(isinstance(noise, CoinDraw) for path in (*inner, *before) for noise in path.noises):
        raise NotSampled


@dataclass(frozen=True)
class _AcceptedStrand:
    """What a path releases before it tosses the coin, and the logarithm of its probability after that:
    constant + linear · x - x²/2v."""

    strand: Strand
    constant: float
    linear: float
    square: Fraction

    @classmethod
    def of(cls, path: Path, factor: Fraction) -> _AcceptedStrand:
        exponent, rest = _accepted(path)
        strand = Strand.of(Path((*rest, Fork((Option((), exact(factor)),), 0, HERE)), path.output))
        gamma = quadratic(-exponent, strand.noise)
        if gamma is None or strand.chance <= 0:
            raise NotSampled
        last = None if strand.count is None else strand.first + strand.count - 1
        top = math.floor(-gamma.linear / (2 * gamma.square)) if gamma.square > 0 else strand.first
        lowest = [n for n in (top, top + 1, strand.first) if n >= strand.first and (last is None or n <= last)]
        if gamma.square <= 0 or any(gamma.at(n) < 0 for n in lowest):
            raise NotSampled
        # n = first + (x - start)/step: put that into ln(chance · factor^(n - first)) - gamma(n)
        a, b = strand.first - Fraction(strand.start, strand.step), Fraction(1, strand.step)
        square = -gamma.square * b * b
        slope = math.log(strand.factor)
        linear = float(-gamma.linear * b - 2 * gamma.square * a * b) + slope * float(b)
        constant = float(-gamma.at(a)) + _log(strand.chance) + slope * float(a - strand.first)
        return cls(strand, constant, linear, square)


def _accepted(path: Path) -> tuple[Affine, list[Step]]:
    """The exponent -γ of the only such coin of the path, which came up heads, and the other steps."""
    draws = [noise for noise in path.noises if isinstance(noise, CoinDraw)]
    if len(draws) != 1:
        raise NotSampled
    (draw,) = draws
    asked = [fork for fork in path.forks if any(draw in drawn_in(c.slack.terms) for c in fork.option.conditions)]
    if len(asked) != 1 or not isinstance(asked[0], Toss) or len(asked[0].option.conditions) != 1:
        raise NotSampled
    (toss,) = asked
    slack = toss.option.conditions[0].slack
    (power, *rest) = [symbol for symbol in slack.terms if symbol is not draw and symbol != draw]
    if rest or not isinstance(power, Derived) or power.function is not f.EXP or slack.constant:
        raise NotSampled
    if slack.terms[power] != 1 or slack.terms[draw] != -1 or toss.option.weight != 1:
        raise NotSampled
    exponent = power.arguments[0]
    if not isinstance(exponent, Affine):
        raise NotSampled
    return exponent, [step for step in path.steps if step is not draw and step is not toss]


def _law(strands: Sequence[_AcceptedStrand]) -> tuple[int, Fraction]:
    """The mode and the variance of the law that strands make up; NotSampled where it is not discrete Gaussian."""
    squares = {each.square for each in strands}
    steps = {abs(each.strand.step) for each in strands if each.strand.count is None}
    if len(squares) != 1 or len(steps) != 1:
        raise NotSampled
    (square,), (step,) = squares, steps
    modes = [-each.linear / (2 * float(square)) for each in strands]
    mode = round(modes[0])
    variance = -1 / (2 * square)
    if variance > MAX_VARIANCE or any(abs(each - mode) * -2 * float(square) > LOG_ROUNDING for each in modes):
        raise NotSampled
    ends = [end for each in strands for end in each.strand.ends]
    low, high = min(ends) - step - 1, max(ends) + step + 1
    if high - low > MAX_WINDOW:
        raise NotSampled
    top = max(each.constant for each in strands)
    sums = [
        math.fsum(math.exp(each.constant - top) for each in strands if each.strand.at(x)) for x in range(low, high + 1)
    ]
    if min(sums) <= 0 or math.log(max(sums) / min(sums)) > LOG_ROUNDING:
        raise NotSampled
    return mode, variance


def _log(chance: Fraction) -> float:
    return math.log(chance.numerator) - math.log(chance.denominator)
