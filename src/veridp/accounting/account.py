"""What a release costs: ε by every method that applies, each by its name, the tightest marked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from veridp.accounting.composition import Composition
from veridp.accounting.concentrated import concentrated, spared
from veridp.accounting.domination import Domination
from veridp.accounting.lattice import Part
from veridp.accounting.renyi import ORDERS, divergences, epsilon_of_rdp, epsilon_of_zcdp
from veridp.accounting.simple import Bound, advanced, basic
from veridp.accounting.tree import (
    DominatingPairs,
    GuaranteeBasis,
    Parallel,
    ReleaseNode,
    Subsampled,
    on_records,
    places,
    relation_of,
)
from veridp.claim import Claim
from veridp.errors import BadInput, BudgetSpent
from veridp.numerics.privacy_loss_distribution import together

Array = NDArray[np.float64]
DELTA = 1e-5


@dataclass(frozen=True, eq=False)
class Account:
    """What a release costs by each method, and what all of it rests on.

    Every bound holds if the guarantees of the leaves do: `basis` is the weakest of what these rest on, and
    `not_refuted` names the leaves that no more is known of than that nothing was found against them.
    """

    release: ReleaseNode
    delta: float
    bounds: tuple[Bound, ...]
    basis: GuaranteeBasis
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
        return any(budget.covers(bound.epsilon, bound.delta) for bound in self.bounds)

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
            GuaranteeBasis.PROVED: "every leaf is proved",
            GuaranteeBasis.EXACT: "exact between the inputs compared; for other neighbours only if these are the worst",
            GuaranteeBasis.CLAIMED: "as good as the claims of its leaves",
        }[self.basis]

    def __str__(self) -> str:
        lines = []
        for bound in self.bounds:
            mark = "  <- tightest" if bound is self.tightest else ""
            told = f"ε = {bound.epsilon:.6g} at δ = {bound.delta:g}" if math.isfinite(bound.epsilon) else "no bound"
            lines.append(f"{bound.method}: {told}{f' ({bound.note})' if bound.note else ''}{mark}")
        return "\n".join([*lines, self.standing, *self.assumptions])


def account(
    release: ReleaseNode, delta: float = DELTA, *, step: float | None = None, second_opinion: bool = True
) -> Account:
    """What the release costs at this δ, by basic and advanced composition, zCDP, RDP and privacy loss distributions.

    All but the lines of dp-accounting are computed here, from closed forms and exact losses; `step` is the distance of
    the lattice on which losses are convolved, chosen to fit where it is not given; without a
    `second_opinion`, dp-accounting is not asked. Bounds are upper bounds. They hold
    for mechanisms chosen one after another, each in the light of the answers before, as long as the tree was fixed
    ahead.
    """
    if not 0 <= delta < 1:
        raise BadInput(f"delta must be in [0, 1), got {delta!r}")
    from veridp.accounting.by_dp_accounting import dp_accounting_bounds

    domination = Domination(release)
    parts = domination.parts(release)
    bounds = [
        basic(release, delta),
        advanced(release, delta),
        _zcdp(release, delta, domination),
        _rdp(parts, delta),
        _losses(parts, delta, step),
        *(dp_accounting_bounds(parts, delta, step) if second_opinion else ()),
    ]
    leaves = list(release.leaves())
    basis = GuaranteeBasis.PROVED
    for leaf in leaves:
        basis = basis.weaker(leaf.basis)
    named = dict.fromkeys(leaf.name for leaf in leaves if leaf.basis is GuaranteeBasis.NOT_REFUTED)
    return Account(release, delta, tuple(bounds), basis, tuple(named), tuple(_assumptions(release)))


def _assumptions(release: ReleaseNode) -> Iterable[str]:
    kinds = {type(node) for _, node in places(release)}
    relation = relation_of(release)
    leaves = [leaf for leaf in release.leaves() if leaf.relation is not None and on_records(leaf.relation) is None]
    for leaf in {leaf.name: leaf for leaf in leaves}.values():
        yield f"{leaf.name}: its input moves as {leaf.relation} says wherever a record comes, goes or changes"
    if Parallel in kinds and relation is None:
        yield "parallel parts: neighbours are taken to differ within one of them (as under add-remove)"
    if Subsampled in kinds:
        fixed = relation is not None and not relation.extra
        how = "without replacement, a fixed share" if fixed else "each record independently (Poisson)"
        yield f"samples: secret, {how}"


# --------------------------------------------------------------------------------------------------- methods


def _zcdp(release: ReleaseNode, delta: float, domination: Domination) -> Bound:
    found = concentrated(release, domination)
    paid = found.leak <= delta and math.isfinite(found.rho)
    epsilon = epsilon_of_zcdp(found.rho, spared(delta, found.leak)) if paid else math.inf
    note = f"ρ = {found.rho:.6g}" if math.isfinite(epsilon) else "no δ is left over for it; give a larger delta"
    return Bound("zCDP", epsilon, delta, note)


def _rdp(parts: Mapping[DominatingPairs, int], delta: float) -> Bound:
    """Rényi divergences add up at every order."""
    spare = spared(delta, together((max(p.infinite for p in pairs.directions), k) for pairs, k in parts.items()))
    if spare <= 0:
        return Bound("RDP", math.inf, delta, "no δ is left over for it; give a larger delta")
    total = np.zeros(len(ORDERS))
    for pairs, count in parts.items():
        total += count * np.max([divergences(pair, ORDERS) for pair in pairs.directions], axis=0)
    return Bound("RDP", epsilon_of_rdp(total, ORDERS, spare), delta)


def _losses(parts: Mapping[DominatingPairs, int], delta: float, step: float | None) -> Bound:
    """The distribution of the privacy loss, convolved."""
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
