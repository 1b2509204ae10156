"""The two composition theorems that need nothing but (ε, δ): basic and advanced."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from veridp.accounting.tree import Leaf, Parallel, ReleaseNode, Repeated, Subsampled, flattened
from veridp.claim import Claim


@dataclass(frozen=True)
class Bound:
    """(ε, δ) by one method; ε is inf where the method says nothing, and then the note says why."""

    method: str
    epsilon: float
    delta: float
    note: str = ""


@dataclass(frozen=True)
class Charge:
    """(ε, δ) in exact decimals."""

    epsilon: Fraction
    delta: Fraction

    @classmethod
    def of(cls, claim: Claim) -> Charge:
        return cls(exactly(claim.epsilon), exactly(claim.delta))


def exactly(number: float) -> Fraction:
    """The decimal that a number is written as: 0.1 is 1/10, so that ten of them are 1."""
    return Fraction(repr(float(number)))


def basic(release: ReleaseNode, delta: float) -> Bound:
    """Sums of ε and of δ; leaves without an (ε, δ) of their own each take an equal share of δ."""
    charge = _summed(release, _share(release, delta))
    if charge is None:
        return Bound("basic", math.inf, delta, "some leaf has no ε at its share of δ; give a larger delta")
    if not Claim(math.inf, delta).covers(0.0, float(charge.delta)):
        return Bound(
            "basic", math.inf, delta, f"the claims add up to δ = {float(charge.delta):g}; give a delta as large"
        )
    return Bound("basic", float(charge.epsilon), float(charge.delta))


def basic_charge(release: ReleaseNode) -> Charge | None:
    """(ε, δ) by basic composition, where every leaf has a claim or a largest loss; None where one has neither."""
    needs = _needs(release)
    return None if needs.shares else _summed(release, 0.0)


@dataclass(frozen=True)
class _Needs:
    """How many shares of δ a node needs, and how much of it claims have taken already."""

    shares: int
    taken: float


def _share(release: ReleaseNode, delta: float) -> float:
    """What each leaf that needs one gets of δ, once the δ of claims is paid."""
    needs = _needs(release)
    return max(0.0, delta - needs.taken) / needs.shares if needs.shares else 0.0


def _needs(node: ReleaseNode) -> _Needs:
    if isinstance(node, Leaf):
        known = _known(node)
        return _Needs(1, 0.0) if known is None else _Needs(0, known.delta)
    needs = [_needs(child) for child in node.children]
    if isinstance(node, Parallel):
        return _Needs(max((n.shares for n in needs), default=0), max((n.taken for n in needs), default=0.0))
    times = node.times if isinstance(node, Repeated) else 1
    return _Needs(times * sum(n.shares for n in needs), times * math.fsum(n.taken for n in needs))


def _known(leaf: Leaf) -> Claim | None:
    """The (ε, δ) of a leaf that has one by itself: its claim, its largest loss, or the largest of finitely many."""
    if leaf.claim is not None:
        return leaf.claim
    if math.isfinite(leaf.pairs.supremum):
        return Claim(leaf.pairs.supremum)
    if all(pair.atoms for pair in leaf.pairs.directions):
        finite = max(0.0, *(pair.span.high for pair in leaf.pairs.directions))
        return Claim(finite, max(pair.infinite for pair in leaf.pairs.directions))
    return None


def _summed(node: ReleaseNode, share: float) -> Charge | None:
    """(ε, δ) by basic composition, each leaf without one of its own at this share of δ; None where one has no ε."""
    if isinstance(node, Leaf):
        known = _known(node) or Claim(node.pairs.epsilon(share), share)
        return Charge.of(known) if math.isfinite(known.epsilon) else None
    within = min(share / node.rate, 0.5) if isinstance(node, Subsampled) else share
    charges = [charge for charge in (_summed(child, within) for child in node.children) if charge is not None]
    if len(charges) < len(node.children):
        return None
    none = Fraction(0)
    if isinstance(node, Parallel):
        return Charge(max((c.epsilon for c in charges), default=none), max((c.delta for c in charges), default=none))
    if isinstance(node, Subsampled):
        return Charge(exactly(amplified(float(charges[0].epsilon), node.rate)), exactly(node.rate) * charges[0].delta)
    times = node.times if isinstance(node, Repeated) else 1
    return Charge(times * sum((c.epsilon for c in charges), none), times * sum((c.delta for c in charges), none))


def amplified(epsilon: float, rate: float) -> float:
    """ln(1 + γ(e^ε - 1)): ε on a secret sample of this rate (Balle, Barthe and Gaboardi, NeurIPS 2018)."""
    return epsilon if rate == 1 else float(np.logaddexp(math.log1p(-rate), math.log(rate) + epsilon))


def advanced(release: ReleaseNode, delta: float) -> Bound:
    """Kairouz, Oh and Viswanath 2015, Theorem 3.5, for parts that differ; half of δ is kept for the theorem."""
    share = _share(release, delta / 2)
    charges = [(_summed(node, share), count) for node, count in flattened(release)]
    costs = [(float(charge.epsilon), float(charge.delta), count) for charge, count in charges if charge is not None]
    if len(costs) < len(charges):
        return Bound("advanced", math.inf, delta, "some leaf has no ε at its share of δ")
    kept = math.prod((1 - each) ** count for _, each, count in costs)
    spare = 1 - (1 - delta) / kept if kept > 0 else 0.0
    if spare <= 0:
        return Bound("advanced", math.inf, delta, "no δ is left over for it; give a larger delta")
    plain = math.fsum(count * epsilon for epsilon, _, count in costs)
    mean = math.fsum(count * epsilon * math.tanh(epsilon / 2) for epsilon, _, count in costs)
    squares = math.fsum(count * epsilon**2 for epsilon, _, count in costs)
    logs = min(math.log(1 / spare), math.log(math.e + math.sqrt(squares) / spare))
    return Bound("advanced", min(plain, mean + math.sqrt(2 * squares * logs)), delta)
