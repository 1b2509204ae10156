"""zCDP of a release: ρ adds up, and what leaks altogether is paid from δ.

Bun and Steinke, "Concentrated Differential Privacy" (TCC 2016): ε-DP is ε²/2-zCDP (Proposition 3.3), normal noise is
ratio²/2-zCDP. With probability `leak` nothing is promised (their δ-approximate zCDP, Definition 8.1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from veridp.accounting.domination import Domination
from veridp.accounting.pairs import DominatingPair, Finite, GaussianPair
from veridp.accounting.tree import Leaf, Parallel, ReleaseNode, Repeated, Subsampled
from veridp.numerics.privacy_loss_distribution import together


@dataclass(frozen=True)
class Concentrated:
    """ρ-zCDP, but for events of probability `leak`."""

    rho: float
    leak: float


def concentrated(node: ReleaseNode, domination: Domination) -> Concentrated:
    """The ρ and the leak of a node of the release whose pairs are given."""
    if isinstance(node, Leaf):
        leak = max(pair.infinite for pair in node.pairs.directions)
        return Concentrated(max(_rho(pair) for pair in node.pairs.directions), leak)
    inner = [concentrated(child, domination) for child in node.children]
    if isinstance(node, Parallel):
        return Concentrated(max((c.rho for c in inner), default=0.0), max((c.leak for c in inner), default=0.0))
    if isinstance(node, Subsampled):
        # a mixture is no worse than its parts (divergences are jointly quasi-convex); a finite ε may say more
        largest = domination.of(node).supremum
        return Concentrated(min(inner[0].rho, largest**2 / 2), inner[0].leak)
    times = node.times if isinstance(node, Repeated) else 1
    return Concentrated(times * math.fsum(c.rho for c in inner), together((c.leak, times) for c in inner))


def spared(delta: float, leak: float) -> float:
    """What is left of δ once the leaks are paid; 0 where nothing is."""
    return (delta - leak) / (1 - leak) if leak < delta else 0.0


def _rho(pair: DominatingPair) -> float:
    if isinstance(pair, GaussianPair):
        return pair.ratio**2 / 2
    return _largest(pair.atoms) ** 2 / 2 if pair.atoms is not None else pair.supremum**2 / 2


def _largest(pair: Finite) -> float:
    """The largest loss in absolute value, given that what can happen on one side alone does not happen."""
    left, right = float(pair.masses.sum()), float((pair.masses * np.exp(-pair.losses)).sum())
    if not left or not right:
        return 0.0
    shift = math.log(right / left) if pair.infinite or not math.isclose(right, 1.0, rel_tol=1e-9) else 0.0
    return max(abs(pair.span.low + shift), abs(pair.span.high + shift))
