"""The privacy loss of several kinds of noise together, or the largest of several such losses, from above.

Part of the checker. Where events k have different shifts, L_k being the loss of a shift, all that is known of the loss
is that it is one of them:

    δ(ε) <= E[(1 - e^(ε - max_k L_k))₊].

Noise that all shifts move alike adds the same loss to all of them, which is independent of the rest. What is left of
shifts that move no noise in common is independent too: the largest of it is above l with probability 1 - Π (1 - T_k),
where T_k is the probability that the k-th is; where it is not independent, with no more than Σ T_k.

Let y = e^-L be what one noise adds to one of these shifts, the rest being fixed: (1 - e^ε y)₊ is convex in y and falls,
and so is the largest of several such, and their mean over the rest. For all functions of that kind the mean does not
fall if L is replaced by a loss whose δ is nowhere less: they are mixtures of (1 - xy)₊ over x >= 0, the mean of which
is δ at x. (For losses that are not independent: by Strassen's theorem there is one on the same space, with a mean of
its y given L that is no more than e^-L, so Jensen's inequality gives the same.) So every noise may have the loss on a
lattice that `sampled_losses` and `loss_distribution` put in its place, one after the other.

The Rényi divergence of order α is at most ln E[e^((α - 1) max_k L_k)]/(α - 1), for the same reason that the first bound
holds. y^-(α-1) is convex in y and falls to 0, so it is such a mixture, and stays one where it goes on along a tangent
from a point on: below y = e^-M, where it is then no more than α e^((α-1)M). For losses of at most M nothing changes by
that; for others, what is missing is at most the sum of E[e^((α-1)L_k); L_k > M] over k, of which normal noise has a
closed form. And with no lattice at all, E[e^((α-1) max_k L_k)] is at most the sum of E[e^((α-1)L_k)].
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache

from veridp_check.enclosures import MAX_EXPONENT, exp_above, log_above, root_below
from veridp_check.losses.distribution import ONE, laplace_masses
from veridp_check.losses.sampled import BITS, UNIT, Lattice, LossMasses, NormalRounds, delta_of_masses, round_losses

POINTS = 3_000  # above 0, of the largest loss that is looked at
DEVIATIONS = 10  # of normal noise that are looked at: it is beyond with a probability below 10^-23
CERTAIN = Fraction(1)
LARGEST_GAIN = 100  # (α - 1) M: past this, probabilities on a lattice are too coarse


@dataclass(frozen=True)
class NoiseLoss:
    """The loss of independent noise that is shifted: but for events of probability `lost`, it is at most `pure`, plus
    that of normal noise that is moved by √squared deviations, plus those of Laplace noise, so much of it at each price
    in scales."""

    pure: Fraction = Fraction(0)
    squared: Fraction = Fraction(0)
    prices: tuple[tuple[Fraction, int], ...] = ()
    lost: Fraction = Fraction(0)

    @property
    def largest(self) -> Fraction:
        """A number that the loss hardly exceeds."""
        normal = self.squared / 2 + DEVIATIONS * root_below(self.squared) if self.squared else Fraction(0)
        return self.pure + normal + sum((price * count for price, count in self.prices), start=Fraction(0))

    @property
    def bounded(self) -> Fraction:
        """What its part that is not normal is at most."""
        return self.pure + sum((price * count for price, count in self.prices), start=Fraction(0))

    def plus(self, other: NoiseLoss) -> NoiseLoss:
        prices = Counter(dict(self.prices)) + Counter(dict(other.prices))
        lost = self.lost + other.lost
        return NoiseLoss(self.pure + other.pure, self.squared + other.squared, tuple(sorted(prices.items())), lost)

    def divergence_above(self, order: Fraction) -> Fraction:
        """Just above its Rényi divergence, where nothing is lost; those of independent noise add up."""
        laplace = (_laplace_divergence(order, price) * count for price, count in self.prices)
        return sum(laplace, self.pure + order * self.squared / 2)

    def gain_beyond(self, end: Fraction, order: Fraction) -> Fraction:
        """Just above E[e^((α - 1)L); L > end].

        Of a normal loss N of mean s/2 and variance s it is e^(α(α-1)s/2) times the probability that one of mean
        (α - 1/2)s is beyond the end, by z deviations: that is at most e^(-z²/2)/2.
        """
        if not self.squared:
            return Fraction(0) if self.bounded <= end else exp_above((order - 1) * self.bounded)
        gain = (order - 1) * (self.bounded + order * self.squared / 2)
        beyond = end - self.bounded - (order - Fraction(1, 2)) * self.squared
        return exp_above(gain - beyond**2 / (2 * self.squared)) / 2 if beyond > 0 else exp_above(gain)


def _laplace_divergence(order: Fraction, price: Fraction) -> Fraction:
    """Just above the Rényi divergence of Laplace noise that is moved by so many scales, which grows with these.

    E[e^((α - 1) L)] = (α e^((α - 1)p) + (α - 1) e^(-αp))/(2α - 1) (Mironov 2017, Proposition 6). L is at most p.
    """
    if (order - 1) * price > MAX_EXPONENT:
        return price
    moment = order * exp_above((order - 1) * price) + (order - 1) * exp_above(-order * price)
    return min(log_above(moment / (2 * order - 1)) / (order - 1), price)


@dataclass(frozen=True)
class LargestLoss:
    """The loss of noise that is moved in any case, plus the largest of others, which are `independent` or may not be;
    plus nothing where there is no other."""

    common: NoiseLoss
    others: tuple[LargestLoss, ...] = ()
    independent: bool = True

    @property
    def largest(self) -> Fraction:
        return self.common.largest + max((other.largest for other in self.others), default=Fraction(0))

    @property
    def has_any(self) -> bool:
        return self.common != NoiseLoss() or any(other.has_any for other in self.others)

    def delta_above(self, epsilon: Fraction) -> Fraction:
        """Just above E[(1 - e^(ε - L))₊]."""
        if not self.has_any:
            return max(-epsilon, Fraction(0))  # no less than 1 - e^ε
        lattice = _lattice(self)
        return min(delta_of_masses(epsilon, _masses(self, lattice), lattice.step), CERTAIN)

    @property
    def each(self) -> Counter[NoiseLoss]:
        """The losses of which it is the largest, and how many of each."""
        if not self.others:
            return Counter({self.common: 1})
        found = Counter[NoiseLoss]()
        for other in self.others:
            found.update({self.common.plus(loss): count for loss, count in other.each.items()})
        return found

    def divergence_above(self, order: Fraction) -> Fraction | None:
        """Just above ln E[e^((α - 1)L)]/(α - 1); None where it may be infinite."""
        each = self.each
        if any(loss.lost for loss in each):
            return None
        found: dict[NoiseLoss, Fraction] = {loss: loss.divergence_above(order) for loss in each}
        most = max(found.values())
        if each.total() == 1:
            return most
        gains = {loss: max((order - 1) * (found[loss] - most), Fraction(-MAX_EXPONENT)) for loss in each}
        terms = (count * exp_above(gains[loss]) for loss, count in each.items())
        added_up = most + log_above(sum(terms, start=Fraction(0))) / (order - 1)
        moment = _moment(self, each, order)
        return added_up if moment is None else min(added_up, log_above(moment) / (order - 1))


def _moment(loss: LargestLoss, each: Counter[NoiseLoss], order: Fraction) -> Fraction | None:
    """Just above E[e^((α - 1)L)] by the lattice; None where that is too coarse."""
    lattice = _lattice(loss)
    end = lattice.last * lattice.step
    if not any(one.squared for one in each):
        end = max(one.bounded for one in each)
    if not loss.has_any or (order - 1) * end > LARGEST_GAIN:
        return None
    losses = _masses(loss, lattice)
    most = math.ceil(order * exp_above((order - 1) * end) * (1 << BITS))
    total = losses.infinite * most
    for places, step in ((range(lattice.last + 1), lattice.step), (range(-1, lattice.first - 1, -1), -lattice.step)):
        factor = math.ceil(exp_above((order - 1) * step) * (1 << BITS))
        gain = 1 << BITS if places.step > 0 else factor
        for k in places:
            place = k - losses.first
            total += losses.masses[place] * min(gain, most) if 0 <= place < len(losses.masses) else 0
            gain = -(-gain * factor >> BITS)
    beyond = sum((count * one.gain_beyond(end, order) for one, count in each.items()), start=Fraction(0))
    return max(Fraction(total, UNIT << BITS) + beyond, CERTAIN + Fraction(1, UNIT))


@cache
def _lattice(loss: LargestLoss) -> Lattice:
    """A lattice with an exact end above the largest loss, in few digits."""
    step = Fraction(max(math.ceil(loss.largest * 10**9), 1), POINTS * 10**9)
    return Lattice(step, -POINTS - 1, POINTS + 1)


@lru_cache(maxsize=64)
def _masses(loss: LargestLoss, lattice: Lattice) -> LossMasses:
    total = _noise_masses(loss.common, lattice)
    if not loss.others:
        return total
    numbers = Counter(loss.others)
    tails = [(_tails(_masses(each, lattice), lattice), number) for each, number in numbers.items()]
    join = _either if loss.independent else _added
    found = [join([(tail[k], number) for tail, number in tails]) for k in range(lattice.last - lattice.first + 2)]
    masses = [here - after for here, after in itertools.pairwise(found)]
    masses[0] += UNIT - found[0]  # what is below is taken for the least
    return total.plus(LossMasses(lattice.first, masses, found[-1]), lattice)


def _tails(losses: LossMasses, lattice: Lattice) -> list[int]:
    """The probabilities of a loss of at least each point of the lattice, and of an infinite one."""
    found = [losses.infinite + sum(losses.masses[max(lattice.last + 1 - losses.first, 0) :])]
    for k in range(lattice.last, lattice.first - 1, -1):
        place = k - losses.first
        found.append(found[-1] + (losses.masses[place] if 0 <= place < len(losses.masses) else 0))
    return [min(tail, UNIT) for tail in reversed(found)]


def _either(tails: list[tuple[int, int]]) -> int:
    """The probability that one of independent events happens, of which so many have each of these, rounded up."""
    none = UNIT
    for tail, number in tails:
        for _ in range(number):
            none = none * (UNIT - tail) // UNIT
    return UNIT - none


def _added(tails: list[tuple[int, int]]) -> int:
    return min(sum(tail * number for tail, number in tails), UNIT)


@lru_cache(maxsize=64)
def _noise_masses(loss: NoiseLoss, lattice: Lattice) -> LossMasses:
    """Those of a sum of losses: what is at most `pure` is rounded up to a point of the lattice."""
    step = lattice.step
    total = LossMasses(math.ceil(loss.pure / step), [UNIT], _units(loss.lost)).cut(lattice)
    if loss.squared:
        middle, far = loss.squared / 2, DEVIATIONS * root_below(loss.squared)
        first, last = min(math.floor((middle - far) / step), -1), max(math.ceil((middle + far) / step), 1)
        total = total.plus(round_losses(NormalRounds(loss.squared, CERTAIN, 1, first, last), step, "removed"), lattice)
    for price, number in loss.prices:
        masses = [-(-mass * UNIT // ONE) for mass in laplace_masses(price, step)]
        one = LossMasses(-math.ceil(price / step), masses, 0).cut(lattice)
        for _ in range(number):
            total = total.plus(one, lattice)
    return total


def _units(probability: Fraction) -> int:
    return math.ceil(min(probability, CERTAIN) * UNIT)
