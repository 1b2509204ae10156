"""A composed function on one line: what the ledger says, what is exact, what an attack shows."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from veridp.accounting.account import DELTA, account
from veridp.accounting.recording import releases_of
from veridp.accounting.simple import Bound, basic_charge
from veridp.budget import Deadline
from veridp.budget.child_process import contained
from veridp.claim import LOSS_ERROR, Claim
from veridp.errors import CutShort, NotExact, NotExplorable
from veridp.mechanism import Function, Mechanism, as_mechanism

INPUTS = 8  # on which the function is run to see what it calls


class AttackBound(Protocol):
    """What an attack has to tell: `veridp.sniper.search` returns one."""

    @property
    def epsilon_lower(self) -> float: ...

    @property
    def confidence(self) -> float: ...


@dataclass(frozen=True)
class ComposedBounds:
    """The ledger's bound, the exact ε of the worst pair found, and a lower bound by an attack; None where not known."""

    name: str
    ledger: Bound
    every: bool  # whether all ways through the function were seen
    exact: float | None
    attack: float | None = None
    confidence: float | None = None

    @property
    def exceeded(self) -> bool:
        """Whether what is exact, or what the attack shows, is above what the ledger says."""
        known = max((self.exact or 0.0) - LOSS_ERROR, self.attack or 0.0)
        return Claim(self.ledger.epsilon, self.ledger.delta).refuted_by(lambda _: known)

    def __str__(self) -> str:
        seen = "" if self.every else " on the runs seen"
        exact = "not known" if self.exact is None else f"{self.exact:.6g}"
        attack = "not tried"
        if self.attack is not None and self.confidence is not None:
            attack = f">= {max(self.attack, 0.0):.6g} ({self.confidence:.0%} confidence)"
        at = f" at δ = {self.ledger.delta:g}" if self.ledger.delta else ""
        wrong = "; the ledger is wrong: a part costs more than it claims, or parts overlap" if self.exceeded else ""
        return (
            f"{self.name}: ledger {self.ledger.epsilon:.6g}{at} ({self.ledger.method}{seen}), exact {exact}, "
            f"attack {attack}{wrong}"
        )


@dataclass(frozen=True)
class ComposedCost:
    """What the mechanisms that a function calls cost together; `every` tells whether all ways through it were seen."""

    bound: Bound
    every: bool


def ledger_of(mechanism: Mechanism, size: int, delta: float | None = None) -> ComposedCost:
    """The ledger's bound on a function that calls mechanisms, from what it calls on a few inputs of this size."""
    pairs = mechanism.adjacency.pairs(size, mechanism.domain)
    inputs = [side for pair in itertools.islice(pairs, INPUTS // 2) for side in (pair.left, pair.right)]
    recorded = releases_of(mechanism, *inputs)
    bounds = [_bound(release, delta) for release in recorded.releases]
    return ComposedCost(max(bounds, key=lambda bound: bound.epsilon), recorded.every)


def line(
    mechanism: Mechanism | Function,
    size: int | None = None,
    *,
    delta: float | None = None,
    seconds: float = 60.0,
    attack: Callable[[Mechanism, int, float], AttackBound] | None = None,
    **arguments: Any,
) -> ComposedBounds:
    """The three numbers of a function that calls mechanisms, for inputs of one size, with `seconds` for each of the
    first two.

    The exact ε is that of the worst pair that a search finds, at the δ of the ledger; None where its losses are out of
    reach. The attack is given, so that any engine may make it: it is told the mechanism, the size, and the δ of the
    ledger, at which its bound has to hold.
    """
    mechanism = as_mechanism(mechanism, **arguments)
    size = mechanism.size if size is None else size
    bound, length = mechanism, size
    ledger = contained(lambda _: ledger_of(bound, length, delta), Deadline(seconds), known=(mechanism,))
    attacked = None if attack is None else attack(mechanism, size, ledger.bound.delta)
    return ComposedBounds(
        str(mechanism),
        ledger.bound,
        ledger.every,
        _exact(mechanism, size, ledger.bound.delta, seconds),
        None if attacked is None else attacked.epsilon_lower,
        None if attacked is None else attacked.confidence,
    )


def _bound(release: Any, delta: float | None) -> Bound:
    """Pure ε where the leaves have one and no δ was asked for, else the tightest at a δ."""
    charge = basic_charge(release)
    if delta is None and charge is not None and not charge.delta:
        return Bound("basic", float(charge.epsilon), 0.0)
    return account(release, DELTA if delta is None else delta).tightest


def _exact(mechanism: Mechanism, size: int, delta: float, seconds: float) -> float | None:
    from veridp.engines.exact import worst

    try:
        return worst(mechanism, size, seconds=seconds, at=delta).epsilon
    except (CutShort, NotExact, NotExplorable):
        return None
