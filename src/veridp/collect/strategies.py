"""What a patient adversary reaches over whole sessions: leave at any step, and return with another token.

A session has two moments at which its client knows something that the server drew: after the invitation, which shows
the hash of a hashed protocol, and after the challenge, which shows the report. Where leaving costs nothing, the client
leaves until it likes what it sees; where a session that is left counts as one that was completed, leaving gains
nothing. `robustness` supposes the second, which is how the service counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from veridp.collect.estimate import PoisoningStanding, most_by_block, robustness, session_draws, session_worth
from veridp.collect.harmless import Harmless, InvitationDraw, Layout


@dataclass(frozen=True)
class SessionStrategies:
    """The best score for each session that counts, over all strategies, by which departures are free.

    `best_input` is that of an honest client with a chosen input. `counted` is what is reached where every departure
    counts that may rest on what the server drew; `free_after_invitation` where those before the commitment do not
    count; `free` where none does. `tokens` is how many a client uses up on average for a report that reaches `free`:
    all but one are left, so the abort rate shows it.
    """

    standing: PoisoningStanding
    best_input: Fraction
    counted: Fraction
    free_after_invitation: Fraction
    free: Fraction
    tokens: Fraction

    @property
    def shopping_gains(self) -> bool:
        """Whether leaving after the invitation would pay if it did not count."""
        return self.free_after_invitation > self.counted


def strategies(protocol: Harmless, targets: Sequence[int] | None = None) -> SessionStrategies:
    """The best strategies of whole sessions, by enumerating what the server may draw.

    A moment at which leaving is free is worth the best of what may be drawn there, for the client returns until that is
    drawn; one at which it counts is worth the mean. Tokens are taken to be as many as the client wants.
    """
    draws, worth, layout = list(session_draws(protocol, targets)), session_worth(protocol, targets), protocol.layout
    found = robustness(protocol, targets)
    shopped = max(Fraction(sum(most_by_block(layout, draw)), layout.length) for draw in draws)
    reached = sum((draw.probability * _reached(layout, draw, draws) for draw in draws), Fraction(0))
    return SessionStrategies(
        found.standing, found.best_input, found.best_accepted, worth(shopped), found.unprotected, 1 / reached
    )


def _reached(layout: Layout, draw: InvitationDraw, draws: Sequence[InvitationDraw]) -> Fraction:
    """The largest probability that a session with this draw reports the largest support that any can."""
    largest = max(sum(map(max, other.supports)) for other in draws)
    if sum(map(max, draw.supports)) < largest:
        return Fraction(0)
    return math.prod((Fraction(_most_entries(layout, row), layout.length) for row in draw.supports), start=Fraction(1))


def _most_entries(layout: Layout, row: Sequence[int]) -> int:
    """How many entries of an accepted block can have the largest support."""
    return layout.free + sum(floor for floor, raw in zip(layout.floors, row, strict=True) if raw == max(row))
