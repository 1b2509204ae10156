"""Branches that only rounding opens: a uniform draw above 0.9999999999999999, the sum of probabilities that sum to 1.

Code that adds up probabilities in floats, and goes through them until it finds the part that a uniform draw lies in,
has a branch at its end that the numbers it stands for do not have: nothing is left there. As floats it has a
probability of some 1e-16, which is less than what rounding makes of all the others. Where such branches are left out,
the draws that would take them go the other way, and what was left out is told. Nothing is left out of code with loops
that may retry: what one round hardly ever does, all rounds together may do almost always.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from fractions import Fraction

from veridp.kernel.expressions import Condition
from veridp.kernel.feasibility import ranges_of_draws
from veridp.kernel.noise import Uniform
from veridp.kernel.site import Site

WIDEST = Fraction(1, 2**49)  # relative to the ends of the interval: sixteen floats next to each other
LIKELIEST = Fraction(1, 2**46)  # of a range far from 0, sixteen floats may be all that there are
LEFT_OUT: ContextVar[list[Sliver] | None] = ContextVar("slivers that are left out", default=None)


@dataclass(frozen=True)
class Sliver:
    """A branch that was left out: where it is, and its probability."""

    site: Site
    chance: Fraction


@contextmanager
def leaving_out_slivers() -> Iterator[list[Sliver]]:
    """In which explorations leave out such branches, and put into the list what they left out, as often as they did."""
    found: list[Sliver] = []
    token = LEFT_OUT.set(found)
    try:
        yield found
    finally:
        LEFT_OUT.reset(token)


def sliver_chance(given: Sequence[Condition], more: Sequence[Condition]) -> Fraction | None:
    """The probability that is left for a uniform draw, where that is no more than rounding makes of it; else None."""
    for noise, low, high in ranges_of_draws(given, more):
        if isinstance(noise.distribution, Uniform) and high - low <= WIDEST * max(abs(low), abs(high)):
            chance = noise.distribution.probability_between(low, high)
            return None if chance is None or chance > LIKELIEST else Fraction(chance)
    return None


def slivers_text(slivers: Iterable[Sliver]) -> str:
    """What was left out, in words; nothing where nothing was."""
    found = list(slivers)
    if not found:
        return ""
    lines = ", ".join(sorted({str(each.site) for each in found}))
    total = float(sum(each.chance for each in found))  # no run can go more ways than all of them
    return f"branches as rare as rounding errors ({lines}), of probability {total:.2g} at most"
