"""What a release costs: ε by every method that applies, each by its name, the tightest marked."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from veridp.accounting.composition import Composition
from veridp.accounting.lattice import Part
from veridp.accounting.pairs import AddedToSample, Envelope, Finite, Pair, RemovedFromSample, SampledWithoutReplacement
from veridp.accounting.renyi import ORDERS, divergences, epsilon_of_rdp, epsilon_of_zcdp
from veridp.accounting.simple import ROUNDING, Bound, advanced, basic
from veridp.accounting.tree import (
    Basis,
    Leaf,
    Node,
    Pairs,
    Parallel,
    PostProcessed,
    Repeated,
    Subsampled,
    flattened,
    relation_of,
)
from veridp.claim import Claim
from veridp.errors import BadInput, BudgetSpent

Array = NDArray[np.float64]
DELTA = 1e-5


@dataclass(frozen=True, eq=False)
class Account:
    """What a release costs by each method, and what all of it rests on.

    Every bound holds if the guarantees of the leaves do: `basis` is the weakest of what these rest on, and
    `not_refuted` names the leaves that no more is known of than that nothing was found against them.
    """

    release: Node
    delta: float
    bounds: tuple[Bound, ...]
    basis: Basis
    not_refuted: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()

    @property
    def tightest(self) -> Bound:
        """The bound with the least ε; of equal ones, that with the least δ."""
        return min(self.bounds, key=lambda bound: (bound.epsilon, bound.delta))

    @property
    def epsilon(self) -> float:
        return self.tightest.epsilon

    def __getitem__(self, method: str) -> Bound:
        for bound in self.bounds:
            if bound.method == method:
                return bound
        raise BadInput(f"no method {method!r}; there are {', '.join(bound.method for bound in self.bounds)}")

    def within(self, budget: Claim) -> bool:
        """Whether a bound keeps to the budget."""
        return any(
            bound.epsilon <= budget.epsilon * (1 + ROUNDING) and bound.delta <= budget.delta * (1 + ROUNDING)
            for bound in self.bounds
        )

    def check(self, budget: Claim) -> None:
        """BudgetSpent where no bound keeps to the budget."""
        if not self.within(budget):
            raise BudgetSpent(
                f"the release costs ε = {self.epsilon:.6g} at δ = {self.tightest.delta:g} ({self.tightest.method}), "
                f"above the budget of {budget}; ask less, add noise, or raise the budget"
            )

    @property
    def standing(self) -> str:
        """A sentence about what the bounds rest on."""
        if self.not_refuted:
            names = ", ".join(self.not_refuted)
            return f"not refuted: no more is known of {names}, so no more is known of the whole"
        return {
            Basis.PROVED: "every leaf is proved",
            Basis.EXACT: "exact between the inputs compared; for other neighbours only if these are the worst",
            Basis.CLAIMED: "as good as the claims of its leaves",
        }[self.basis]

    def __str__(self) -> str:
        lines = []
        for bound in self.bounds:
            mark = "  <- tightest" if bound is self.tightest else ""
            told = f"ε = {bound.epsilon:.6g} at δ = {bound.delta:g}" if math.isfinite(bound.epsilon) else "no bound"
            lines.append(f"{bound.method}: {told}{f' ({bound.note})' if bound.note else ''}{mark}")
        return "\n".join([*lines, self.standing, *self.assumptions])


def account(release: Node, delta: float = DELTA, *, step: float | None = None, second_opinion: bool = True) -> Account:
    """What the release costs at this δ, by basic and advanced composition, zCDP, RDP and privacy loss distributions.

    All but the lines of dp-accounting are computed here, from closed forms and exact losses; `step` is the distance of
    the lattice on which losses are convolved, chosen to fit where it is not given; without a
    `second_opinion`, dp-accounting is not asked. Bounds are upper bounds. They hold
    for mechanisms chosen one after another, each in the light of the answers before, as long as the tree was fixed
    ahead.
    """
    if not 0 <= delta < 1:
        raise BadInput(f"delta = {delta!r} is not the probability of a failure; give one from 0 to below 1")
    _check(release)
    from veridp.accounting.by_dp_accounting import dp_accounting_bounds

    bounds = [
        basic(release, delta),
        advanced(release, delta),
        _zcdp(release, delta),
        _rdp(release, delta),
        _losses(release, delta, step),
        *(dp_accounting_bounds(release, delta, step) if second_opinion else ()),
    ]
    leaves = list(release.leaves())
    basis = Basis.PROVED
    for leaf in leaves:
        basis = basis.weaker(leaf.basis)
    named = dict.fromkeys(leaf.name for leaf in leaves if leaf.basis is Basis.NOT_REFUTED)
    return Account(release, delta, tuple(bounds), basis, tuple(named), tuple(_assumptions(release)))


def _nodes(node: Node) -> Iterable[Node]:
    yield node
    for child in node.children:
        yield from _nodes(child)


def _check(release: Node) -> None:
    relation = relation_of(release)
    for node in _nodes(release):
        if isinstance(node, Parallel) and relation == "replace" and not node.fixed:
            raise BadInput(
                f"parallel parts {', '.join(node.parts)}: a record that is replaced may leave one part for another, "
                f"and both change; state the leaves under add-remove, or say that the parts are fixed"
            )


def _assumptions(release: Node) -> Iterable[str]:
    kinds = {type(node) for node in _nodes(release)}
    relation = relation_of(release)
    if Parallel in kinds and relation is None:
        yield "parallel parts: neighbours are taken to differ within one of them (as under add-remove)"
    if Subsampled in kinds:
        how = "without replacement, a fixed share" if relation == "replace" else "each record independently (Poisson)"
        yield f"samples: secret, {how}"


# ------------------------------------------------------------------------------------------------- flattening


def pairs_of_node(node: Node) -> Pairs:
    """What dominates a node as a whole."""
    if isinstance(node, Leaf):
        return node.pairs
    if isinstance(node, PostProcessed):
        return pairs_of_node(node.of)
    if isinstance(node, Parallel):
        return _on_both([pairs_of_node(part) for part in node.children], _envelope)
    if isinstance(node, Subsampled):
        inner = pairs_of_node(node.of)
        if relation_of(node) == "replace":
            return _on_both([inner], lambda pairs: SampledWithoutReplacement(pairs[0], node.rate))
        return Pairs(RemovedFromSample(inner.removed, node.rate), AddedToSample(inner.added, node.rate))
    parts = parts_of(node)
    removed = Composition(Part(pairs.removed, count) for pairs, count in parts.items()).pair()
    if all(pairs.removed is pairs.added for pairs in parts):
        return Pairs.both(removed)
    return Pairs(removed, Composition(Part(pairs.added, count) for pairs, count in parts.items()).pair())


def _on_both(inner: list[Pairs], combine: Callable[[list[Pair]], Pair]) -> Pairs:
    removed = combine([pairs.removed for pairs in inner])
    if all(pairs.removed is pairs.added for pairs in inner):
        return Pairs.both(removed)
    return Pairs(removed, combine([pairs.added for pairs in inner]))


def _envelope(pairs: list[Pair]) -> Pair:
    different = list(dict.fromkeys(pairs))
    if not different:
        return Finite(np.zeros(1), np.ones(1))
    return different[0] if len(different) == 1 else Envelope(tuple(different))


def parts_of(node: Node) -> dict[Pairs, int]:
    """The independent parts of a node, and how many times each takes part."""
    found: dict[Pairs, int] = {}
    for atom, count in flattened(node):
        pairs = pairs_of_node(atom)
        found[pairs] = found.get(pairs, 0) + count
    return found


# --------------------------------------------------------------------------------------------------- methods


def _spared(parts: dict[Pairs, int], delta: float) -> float:
    """What is left of δ once infinite losses are paid."""
    lost = 0.0
    for pairs, count in parts.items():
        infinite = max(pair.infinite for pair in pairs.directions)
        lost = 1.0 if infinite >= 1 else -math.expm1(math.log1p(-lost) + count * math.log1p(-infinite))
    return 1 - (1 - delta) / (1 - lost) if lost < delta else 0.0


def _zcdp(release: Node, delta: float) -> Bound:
    """ρ adds up (Bun and Steinke, TCC 2016); ε-DP is ε²/2-zCDP, normal noise ratio²/2-zCDP."""
    spare = _spared(parts_of(release), delta)
    rho = rho_of(release)
    epsilon = epsilon_of_zcdp(rho, spare) if math.isfinite(rho) else math.inf
    note = f"ρ = {rho:.6g}" if math.isfinite(epsilon) else "no δ is left over for it; give a larger delta"
    return Bound("zCDP", epsilon, delta, note)


def rho_of(node: Node) -> float:
    """The ρ of zCDP, infinite losses left out: these are paid from δ."""
    if isinstance(node, Leaf):
        return max(_rho(pair) for pair in node.pairs.directions)
    inner = [rho_of(child) for child in node.children]
    if isinstance(node, Parallel):
        return max(inner, default=0.0)
    if isinstance(node, Subsampled):  # a mixture is no worse than its parts; more is known where ε is finite
        return min(inner[0], _rho_of_loss(pairs_of_node(node).supremum))
    return (node.times if isinstance(node, Repeated) else 1) * math.fsum(inner)


def _rho(pair: Pair) -> float:
    from veridp.accounting.pairs import GaussianPair

    if isinstance(pair, GaussianPair):
        return pair.ratio**2 / 2
    if pair.atoms is not None:
        return _rho_of_loss(max(abs(pair.span.low), abs(pair.span.high)))
    return _rho_of_loss(pair.supremum)


def _rho_of_loss(epsilon: float) -> float:
    return epsilon**2 / 2


def _rdp(release: Node, delta: float) -> Bound:
    """Rényi divergences add up at every order."""
    parts = parts_of(release)
    spare = _spared(parts, delta)
    if spare <= 0:
        return Bound("RDP", math.inf, delta, "no δ is left over for it; give a larger delta")
    total = np.zeros(len(ORDERS))
    for pairs, count in parts.items():
        total += count * np.max([divergences(pair, ORDERS) for pair in pairs.directions], axis=0)
    return Bound("RDP", epsilon_of_rdp(total, ORDERS, spare), delta)


def _losses(release: Node, delta: float, step: float | None) -> Bound:
    """The distribution of the privacy loss, convolved."""
    parts = parts_of(release)
    directions = {
        tuple((getattr(pairs, side), count) for pairs, count in parts.items()) for side in ("removed", "added")
    }
    composed = [Composition((Part(pair, count) for pair, count in direction), step) for direction in directions]
    epsilon = max((composition.epsilon(delta) for composition in composed), default=0.0)
    exact = all(composition.exact for composition in composed)
    note = "exact up to rounding" if exact else "rounded up on a lattice"
    if not math.isfinite(epsilon):
        note = "infinite losses weigh more than δ"
    return Bound("privacy loss distribution", epsilon, delta, note)
