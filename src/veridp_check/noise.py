"""What the checker knows of noise: its parameters, where it lives, how it may be shifted, and what that costs.

Part of the checker: the formulas are its own. In all of them f is the density (or probability) of the noise, and the
price of a move Δ is the supremum of ln f(x)/f(x + Δ) over the support, or a bound above it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from veridp_check.enclosures import MAX_EXPONENT, exp_between, log_above, normal_between, root_below

PARAMETERS: dict[str, tuple[str, ...]] = {
    "laplace": ("scale",),
    "exponential": ("scale",),
    "normal": ("scale",),
    "uniform": ("scale",),
    "truncatedlaplace": ("scale", "low", "high"),
    "gumbel": ("scale",),
    "logistic": ("scale",),
    "cauchy": ("scale",),
    "studentt": ("scale", "degrees"),
    "gamma": ("scale", "shape"),
    "beta": ("scale", "a", "b"),
    "triangular": ("scale", "mode"),
    "integers": ("count",),
    "geometric": ("p",),
    "poisson": ("rate",),
    "binomial": ("trials", "p"),
    "discretegaussian": ("variance",),
    "staircase": ("scale", "p", "lower", "chance"),
}
# The value of a function that is not known, of the other noise: any whole number. Couplings may have it.
OPAQUE = "opaque"
# The probability of k is in proportion to e^(-k²/2·variance).
DISCRETE_GAUSSIAN = "discretegaussian"
WHOLE = ("geometric", "poisson", "binomial", "integers", DISCRETE_GAUSSIAN, OPAQUE)
# ln f has a slope of at most 1/scale: a move of either sign costs |Δ|/scale.
STEEPNESS_BOUNDED = ("laplace", "logistic")
# ln f(x)/f(x + Δ) <= Δ/scale upwards: equal for exponential noise; Δ/scale - e^(-x/scale)(1 - e^(-Δ/scale)) for
# Gumbel noise. Downwards it leaves the support, or grows without bound.
UPWARDS = ("exponential", "gumbel")
# f is a power of 1 + x²/a²; see `NoiseDraw.price_up_to`.
POWER_TAILED = ("cauchy", "studentt")
# A random sign times k + V, for scale 1: k has the probability p(1 - p)^k, and V is uniform on [0, lower] with
# probability `chance`, else on [lower, 1]. Its price is not convex in Δ: only `NoiseDraw.price_up_to` knows it.
STAIRCASE = "staircase"
# Laplace noise given that it lies between `low` and `high`.
TRUNCATED = "truncatedlaplace"
MAX_BITS = 5_000_000  # of a probability that is computed as a power
LEAST_OF_GUMBEL = Fraction(-5)  # in scales; Gumbel noise is below with a probability of 10^-64
MAX_TRIALS = 2000  # of binomial noise whose probabilities are summed


def parameters_of(kind: str) -> tuple[str, ...] | None:
    """The names of the parameters of this kind of noise; None where it is not known."""
    return PARAMETERS.get(kind)


@dataclass(frozen=True)
class NoiseDraw:
    """The noise of one draw: the place of the draw in a run, the kind, its parameters in the order of PARAMETERS.

    `made` says how the program makes it of other draws, by hand. That this has the distribution of its kind was said by
    the search, and is not checked here: what is proved is proved of a program that draws such noise. `of` are the draws
    that an opaque number is a function of.
    """

    draw: int
    kind: str
    parameters: tuple[Fraction, ...]
    made: str = ""
    of: tuple[int, ...] = ()

    def wrong(self, name: str, value: Fraction) -> str | None:
        """What is wrong with the value of a parameter, if anything."""
        if name == "p":
            return None if 0 < value <= 1 else f"a probability above 0 and up to 1 is needed, not {value}"
        if name in ("trials", "count"):
            return None if value >= 1 and value.denominator == 1 else f"a whole number above 0 is needed, not {value}"
        if name == "mode":
            return None if 0 <= value <= 1 else f"a number from 0 to 1 is needed, not {value}"
        if name in ("lower", "chance"):
            return None if 0 < value < 1 else f"a number between 0 and 1 is needed, not {value}"
        if name == "low":
            return None if value < 0 else f"a number below 0 is needed, not {value}"
        return None if value > 0 else f"a number above 0 is needed, not {value}"

    @property
    def whole(self) -> bool:
        """Whether it takes whole numbers only."""
        return self.kind in WHOLE

    @property
    def support(self) -> tuple[Fraction | None, Fraction | None]:
        """The least and the largest value that it takes; None where there is none."""
        if self.kind in ("exponential", "poisson", "gamma"):
            return Fraction(0), None
        if self.kind == "geometric":
            return Fraction(1), None
        if self.kind in ("uniform", "binomial", "beta", "triangular"):
            return Fraction(0), self.parameters[0]
        if self.kind == "integers":
            return Fraction(0), self.parameters[0] - 1
        if self.kind == TRUNCATED:
            return self.parameters[1], self.parameters[2]
        return None, None

    def price(self, move: Fraction) -> ShiftPrice | None:
        """What the move costs; None where noise of this kind must not be moved so."""
        if not move:
            return ShiftPrice(Fraction(0))
        if self.kind in STEEPNESS_BOUNDED or (self.kind in UPWARDS and move > 0):
            return ShiftPrice(abs(move) / self.parameters[0])
        if self.kind == "gamma" and move > 0 and self.parameters[1] >= 1:
            # ln f(x)/f(x + Δ) = Δ/scale - (shape - 1) ln(1 + Δ/x), and ln(1 + Δ/x) > 0
            return ShiftPrice(move / self.parameters[0])
        if self.kind in POWER_TAILED:
            # the slope of ln f is -(degrees + 1) x/(a² + x²), and |x|/(a² + x²) <= 1/2a
            degrees, width = self._power_tail()
            return ShiftPrice((degrees + 1) / 2 * abs(move) / width, rounded=True)
        if self.kind == "geometric" and move > 0 and move.denominator == 1 and self.parameters[0] < 1:
            # f(k) = (1 - p)^(k - 1) p, so f(k)/f(k + Δ) = (1 - p)^(-Δ)
            return ShiftPrice(move * log_above(1 / (1 - self.parameters[0])), rounded=True)
        return None

    def loss(self, move: Fraction) -> ShiftLoss | None:
        """What bounds the privacy loss of the move; None where noise of this kind must not be moved so.

        Normal noise: ln f(η)/f(η + Δ) = (Δη + Δ²/2)/σ², which is normal with mean μ²/2 and variance μ² for μ = Δ/σ.
        Uniform noise: 0 where η + Δ is in the support, and the rest has probability |Δ|/scale.
        Truncated Laplace noise: at most |Δ|/scale where η + Δ is in the support. The rest lies within |Δ| of an end. In
        scales, let the nearer end be at a distance a from 0, and p = |Δ|/scale: e^(p - a)/2 - e^-a/2 is what Laplace
        noise has there, if p <= a, and more than that else. It is convex in Δ, and is divided by the probability that
        Laplace noise lies in the interval.
        Discrete Gaussian noise: all may be lost, unless it is known that no other noise moves.
        """
        if self.kind == DISCRETE_GAUSSIAN and move.denominator == 1:
            return ShiftLoss(lost=Fraction(1))
        if self.kind == "normal":
            return ShiftLoss(squared=(move / self.parameters[0]) ** 2)
        if self.kind == "uniform":
            return ShiftLoss(lost=min(abs(move) / self.parameters[0], Fraction(1)))
        if self.kind == TRUNCATED:
            pure = abs(move) / self.parameters[0]
            near, kept = self._truncation()
            if pure > min(near + 1, Fraction(MAX_EXPONENT)):  # above 1, or too large to compute with
                return ShiftLoss(pure=pure, lost=Fraction(1))
            left = (exp_between(pure)[1] - 1) * exp_between(-near)[1] / 2 / kept
            return ShiftLoss(pure=pure, lost=min(left, Fraction(1)))
        price = self.price(move)
        return None if price is None else ShiftLoss(pure=price.amount)

    def _truncation(self) -> tuple[Fraction, Fraction]:
        """How many scales the nearer end is from 0; and just below the probability that Laplace noise is between."""
        low, high = (end / self.parameters[0] for end in self.parameters[1:])
        return min(-low, high), 1 - (exp_between(low)[1] + exp_between(-high)[1]) / 2

    def delta_alone(self, pure: Fraction, epsilon: Fraction) -> Fraction | None:
        """Just above E[(1 - e^(ε - L))₊] for moves of this noise alone, of up to `pure` scales; None where not known.

        In scales, a move by p = `pure` has the loss L(η) = |η + p| - |η|, which grows with η: it exceeds ε, with
        |ε| < p, where η > t = (ε - p)/2. So the expectation is P[η > t] - e^ε P[η > t + p], which grows with p; for
        Laplace noise it is 1 - e^((ε - p)/2). Of truncated noise this is within the support if (|ε| + p)/2 is no more
        than the distance a of the nearer end from 0. Up to the farther end both probabilities have e^-a/2 less at
        most: for ε >= 0 that makes it (1 - e^((ε - p)/2) + (e^ε - 1) e^-a/2)/kept at most.
        """
        if self.kind not in ("laplace", TRUNCATED) or abs(epsilon) > pure:
            return None
        whole = 1 - exp_between((epsilon - pure) / 2)[0]
        if self.kind == "laplace":
            return whole
        near, kept = self._truncation()
        if not 0 <= epsilon <= MAX_EXPONENT or (epsilon + pure) / 2 > near:
            return None
        return (whole + (exp_between(epsilon)[1] - 1) * exp_between(-near)[1] / 2) / kept

    def _power_tail(self) -> tuple[Fraction, Fraction]:
        """The degrees of freedom, 1 of Cauchy noise; and a rational just below a = scale · √degrees."""
        degrees = self.parameters[1] if self.kind == "studentt" else Fraction(1)
        return degrees, self.parameters[0] * root_below(degrees)

    def price_up_to(self, move: Fraction) -> ShiftPrice | None:
        """What moves cost at most that are no larger than this, either way; None where nothing more is known of it.

        Let f be (1 + x²/a²)^-(degrees + 1)/2 but for a constant. The largest (a² + (x + Δ)²)/(a² + x²) over x is where
        its derivative is 0, at x² + Δx = a²; there it is 1 + Δ(Δ + 2x)/(a² + x²) = e^(2 asinh(Δ/2a)). So the price is
        (degrees + 1) asinh(Δ/2a), which grows with |Δ|. asinh y = ln(y + √(1 + y²)).
        """
        if self.kind == STAIRCASE and self.parameters[1] < 1:
            return self._price_in_steps(math.ceil(abs(move) / self.parameters[0]))
        if self.kind not in POWER_TAILED:
            return None
        degrees, width = self._power_tail()
        y = abs(move) / (2 * width)
        reach = y + (1 + y * y) / root_below(1 + y * y)
        return ShiftPrice((degrees + 1) * log_above(reach) if move else Fraction(0), rounded=True)

    def _price_in_steps(self, steps: int) -> ShiftPrice:
        """What moves of staircase noise by up to so many scales cost at most.

        In scales, the density at ±t has the height (1 - p)^k chance/lower where t is in [k, k + lower), but for a
        constant, and (1 - p)^k (1 - chance)/(1 - lower) in [k + lower, k + 1). A move changes t by |Δ| at most. Where
        it changes by 1, the height changes by the factor 1 - p; and where by less, it is that of the same part, of the
        next one, or of the one after that, which is the same part of the next step: a farther one is more than 1 away.
        """
        _, p, lower, chance = self.parameters
        down = chance / lower / ((1 - chance) / (1 - lower))
        after = 1 / (down * (1 - p))
        first = log_above(max(1 / (1 - p), down, 1 / down, after, 1 / after))
        return ShiftPrice((steps - 1) * log_above(1 / (1 - p)) + first if steps else Fraction(0), rounded=True)


@dataclass(frozen=True)
class ShiftLoss:
    """A bound on the privacy loss of a shift: but for events of probability `lost` it is at most `pure`, plus a number
    that is normal with mean μ²/2 and variance μ², where `squared` is μ².

    Losses of independent noise add up, and so do the first two: the sum of normal numbers is such a number again. The
    events are independent as well, so that none happens with the product of the probabilities that each does not.
    """

    pure: Fraction = Fraction(0)
    squared: Fraction = Fraction(0)
    lost: Fraction = Fraction(0)

    def __add__(self, other: ShiftLoss) -> ShiftLoss:
        lost = self.lost + other.lost - self.lost * other.lost
        return ShiftLoss(self.pure + other.pure, self.squared + other.squared, lost)

    def or_more(self, other: ShiftLoss) -> ShiftLoss:
        """A bound on both."""
        return ShiftLoss(*map(max, (self.pure, self.squared, self.lost), (other.pure, other.squared, other.lost)))


@dataclass(frozen=True)
class ShiftPrice:
    """A rational that is the cost or, where rounded, a trifle above it."""

    amount: Fraction
    rounded: bool = False

    @classmethod
    def total(cls, prices: Sequence[ShiftPrice]) -> ShiftPrice:
        return cls(sum((p.amount for p in prices), start=Fraction(0)), any(p.rounded for p in prices))


def probability_between(noise: NoiseDraw, low: Fraction | None, high: Fraction | None) -> Fraction | None:
    """The probability that the noise is at least `low` and at most `high`.

    None where it is not rational, or is a rational of too many digits to compute with.
    """
    if noise.kind == "uniform":
        (scale,) = noise.parameters
        return (
            max(min(high if high is not None else scale, scale) - max(low or Fraction(0), Fraction(0)), Fraction(0))
            / scale
        )
    if noise.kind == OPAQUE:
        return None
    if noise.kind == "integers":
        number = int(noise.parameters[0])
        least = 0 if low is None else max(math.ceil(low), 0)
        most = number - 1 if high is None else min(math.floor(high), number - 1)
        return Fraction(max(most - least + 1, 0), number)
    bits = noise.parameters[-1].denominator.bit_length()
    if noise.kind == "geometric":
        fail = 1 - noise.parameters[0]
        first = 1 if low is None else max(math.ceil(low), 1)
        last = None if high is None else max(math.floor(high), 0)
        if max(first, last or 0) * bits > MAX_BITS:
            return None
        return max(fail ** (first - 1) - (0 if last is None else fail**last), Fraction(0))
    if noise.kind == "binomial":
        trials, p = int(noise.parameters[0]), noise.parameters[1]
        if trials > MAX_TRIALS or trials * bits > MAX_BITS:
            return None
        first = 0 if low is None else max(math.ceil(low), 0)
        last = trials if high is None else min(math.floor(high), trials)
        chances = (math.comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(first, last + 1))
        return sum(chances, start=Fraction(0))
    return None


def probability_bounds(noise: NoiseDraw, low: Fraction | None, high: Fraction | None) -> tuple[Fraction, Fraction]:
    """Rationals just below and just above the probability that the noise lies between `low` and `high`.

    0 and 1 where nothing is known of it.
    """
    if low is not None and high is not None and low > high:
        return Fraction(0), Fraction(0)
    rational = probability_between(noise, low, high)
    if rational is not None:
        return rational, rational
    below = (Fraction(0), Fraction(0)) if low is None else _below(noise, low)
    up_to = (Fraction(1), Fraction(1)) if high is None else _below(noise, high)
    if below is None or up_to is None:
        return Fraction(0), Fraction(1)
    return max(up_to[0] - below[1], Fraction(0)), min(up_to[1] - below[0], Fraction(1))


def _below(noise: NoiseDraw, x: Fraction) -> tuple[Fraction, Fraction] | None:
    """Rationals just below and just above the probability that continuous noise is below x; None where not known."""
    z = x / noise.parameters[0]
    if noise.kind == "normal":
        return normal_between(z)
    if noise.kind == "exponential" and z <= 0:
        return Fraction(0), Fraction(0)
    if noise.kind == "gumbel":  # e^-e^-z
        least, most = exp_between(-max(z, LEAST_OF_GUMBEL))
        return exp_between(-most)[0] if z >= LEAST_OF_GUMBEL else Fraction(0), exp_between(-least)[1]
    if noise.kind not in ("laplace", "exponential", "logistic"):
        return None
    least, most = exp_between(-abs(z))
    if noise.kind == "exponential":
        return 1 - most, 1 - least
    tail = (least / 2, most / 2) if noise.kind == "laplace" else (least / (1 + least), most / (1 + most))
    return tail if z < 0 else (1 - tail[1], 1 - tail[0])
