"""The neighbours that a proof speaks of: their interval, and the word by which a certificate calls their relation."""

from __future__ import annotations

from fractions import Fraction

from veridp.adjacency import Adjacency, is_interval, is_registered
from veridp.mechanism import Mechanism
from veridp_check.document import ADJACENCIES, LISTED


def interval_of(mechanism: Mechanism) -> tuple[Fraction, Fraction] | None:
    """The ends between which the data are one number, where any two of these are neighbours; else None."""
    match mechanism.domain:
        case (int() | float() as low, int() | float() as high) if (
            mechanism.adjacency.single and is_interval(mechanism.domain) and low < high
        ):
            return Fraction(low), Fraction(high)
    return None


def interval_text(mechanism: Mechanism) -> str:
    """For which numbers alone a proof holds, where these are of an interval; nothing where they are not."""
    ends = interval_of(mechanism)
    return "" if ends is None else f"for numbers from {float(ends[0]):g} to {float(ends[1]):g}"


def certified_word(relation: Adjacency) -> str:
    """The relation in the words of certificates: its name where the checker knows it, else `listed`.

    What is proved of a listed relation rests on its polytopes alone: the checker has no other way to know it.
    """
    return relation.name if is_registered(relation) and relation.name in ADJACENCIES else LISTED
