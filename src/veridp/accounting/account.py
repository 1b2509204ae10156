"""What a release costs: ε by every method that applies, Rényi divergences and zCDP among them, the tightest marked,
with the library dp-accounting as an independent opinion on request."""

from __future__ import annotations

import importlib.util
import logging
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridp.accounting.domination import AddedToSample, Domination, RemovedFromSample, SampledWithoutReplacement
from veridp.accounting.lattice import Composition, Part, log_moments
from veridp.accounting.pairs import DominatingPair, Envelope, Finite, GaussianPair, ImpliedPair, LaplacePair, tails_on
from veridp.accounting.tree import (
    Bound,
    DominatingPairs,
    GuaranteeBasis,
    Leaf,
    Parallel,
    ReleaseNode,
    Repeated,
    Subsampled,
    advanced,
    basic,
    on_records,
    places,
    relation_of,
)
from veridp.claim import Claim
from veridp.conversions import epsilon_of_rdp, epsilon_of_zcdp
from veridp.errors import BadInput, BudgetSpent
from veridp.notions import GaussianDP, ZeroConcentrated
from veridp.numerics.privacy_loss_distribution import together
from veridp.presentation import Presentable

# --------------------------------------------------------------------------------------------------------------- renyi
# Rényi divergences of pairs.


Array = NDArray[np.float64]
NORMAL_REACH, NORMAL_STEP = 13.0, 0.1  # of the rule that integrates normal densities, in standard deviations
ORDERS = 1 + np.concatenate([np.geomspace(0.01, 100, 400), np.geomspace(105, 2048, 60)])


def divergences(pair: DominatingPair, orders: Array) -> Array:
    """The Rényi divergence of P from Q at each order above 1, given that the loss is not infinite.

    In closed form for Gaussian and Laplace noise (Mironov, "Rényi Differential Privacy", CSF 2017, Table II), as a sum
    over finite losses, by quadrature for normal noise on a sample; else from the losses on a lattice, which can only
    add, and inf at orders to which losses out of sight may contribute.
    """
    if isinstance(pair, GaussianPair):
        return np.asarray(orders * pair.ratio**2 / 2)
    if isinstance(pair, LaplacePair):
        return _laplace(pair.ratio, orders)
    if isinstance(pair, ImpliedPair):
        return pair.notion.divergences(orders)
    if isinstance(pair, Envelope):
        return np.asarray(np.max([divergences(inner, orders) for inner in pair.pairs], axis=0))
    if isinstance(pair, RemovedFromSample | AddedToSample) and isinstance(pair.pair, GaussianPair) and pair.rate < 1:
        return _sampled_normal(pair, pair.pair.ratio, orders)
    # given that the loss is finite, P is 1 / (1 - infinite) times what it was, and the loss that much larger
    more = -math.log1p(-pair.infinite) if pair.infinite < 1 else math.inf
    return np.asarray((log_moments(pair, orders - 1) + orders * more) / (orders - 1))


def _sampled_normal(pair: RemovedFromSample | AddedToSample, ratio: float, orders: Array) -> Array:
    """ln ∫ φ(x) r(x)^α dx / (α - 1) with r = (1-γ) + γ e^(ratio · x - ratio²/2), and 1 - α for α where one is added.

    The integrand is the sum of two that fall like a normal density, around 0 and around α · ratio. The trapezoidal rule
    converges exponentially fast on it (Trefethen and Weideman, SIAM Review 2014): what it leaves out is below rounding.
    """
    powers = orders if isinstance(pair, RemovedFromSample) else 1 - orders
    step = min(NORMAL_STEP, NORMAL_STEP * 4 / ratio)
    around = np.arange(-NORMAL_REACH, NORMAL_REACH, step)
    found = np.empty(len(orders))
    for place, power in enumerate(powers.tolist()):
        far = power * ratio if power > 0 else 0.0
        if far > 2 * NORMAL_REACH:
            x = np.concatenate([around, far + around])
        else:
            x = np.arange(-NORMAL_REACH, far + NORMAL_REACH, step)
        ratios = np.logaddexp(math.log1p(-pair.rate), math.log(pair.rate) + ratio * (x - ratio / 2))
        exponents = power * ratios - x * x / 2
        top = float(exponents.max())
        found[place] = math.log(float(np.exp(exponents - top).sum()) * step / math.sqrt(2 * math.pi)) + top
    return np.asarray(np.maximum(found, 0.0) / (orders - 1))


def _laplace(epsilon: float, orders: Array) -> Array:
    up = np.log(orders) - np.log(2 * orders - 1) + (orders - 1) * epsilon
    down = np.log(orders - 1) - np.log(2 * orders - 1) - orders * epsilon
    return np.asarray(np.logaddexp(up, down) / (orders - 1))


# -------------------------------------------------------------------------------------------------------- concentrated
# zCDP of a release: ρ adds up, and what leaks altogether is paid from δ.
#
# Bun and Steinke, "Concentrated Differential Privacy" (TCC 2016): ε-DP is ε²/2-zCDP (Proposition 3.3), normal noise is
# ratio²/2-zCDP. With probability `leak` nothing is promised (their δ-approximate zCDP, Definition 8.1).


@dataclass(frozen=True)
class Concentrated:
    """ρ-zCDP, but for events of probability `leak`."""

    rho: float
    leak: float


def concentrated(node: ReleaseNode, domination: Domination) -> Concentrated:
    """The ρ and the leak of a node of the release whose pairs are given."""
    if isinstance(node, Leaf) and isinstance(node.notion, ZeroConcentrated):
        return Concentrated(node.notion.rho, 0.0)
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


# ---------------------------------------------------------------------------------------------------- by dp accounting
# The same release by the library dp-accounting: an independent opinion.


STEP = 1e-4  # its own default for the distance of the lattice
FINEST = 2_000_000  # points that a single distribution may take on its lattice
INSTALL = "dp-accounting is not installed; pip install 'veridp[accounting]'"


def dp_accounting_bounds(parts: Mapping[DominatingPairs, int], delta: float, step: float | None) -> Iterator[Bound]:
    """Its RDP and its privacy loss distributions; a line that says why, where it has no answer."""
    names = "RDP (dp-accounting)", "privacy loss distribution (dp-accounting)"
    if importlib.util.find_spec("dp_accounting") is None:
        yield from (Bound(name, math.inf, delta, INSTALL) for name in names)
        return
    for name, method in zip(names, (_their_rdp, _their_distribution), strict=True):
        try:
            with _quietly():
                found = Bound(name, method(parts, delta, STEP if step is None else step), delta)
            yield found
        except _NotThere as error:
            yield Bound(name, math.inf, delta, str(error))
        except MemoryError:
            yield Bound(name, math.inf, delta, "its losses are more than fit into memory; give a larger step")


class _NotThere(Exception):
    """dp-accounting has nothing for a part."""


def _their_rdp(parts: Mapping[DominatingPairs, int], delta: float, step: float) -> float:
    import dp_accounting

    accountant = dp_accounting.rdp.RdpAccountant()
    for pairs, count in parts.items():
        event = dp_accounting.SelfComposedDpEvent(_event(pairs), count)
        if not accountant.supports(event):
            raise _NotThere("it has no RDP for some part")
        accountant.compose(event)
    return float(accountant.get_epsilon(delta)) if delta else math.inf


@contextmanager
def _quietly() -> Iterator[None]:
    """Without what it logs about orders that it leaves out: leaving some out is sound."""
    logger = logging.getLogger("absl")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _event(pairs: DominatingPairs) -> Any:
    import dp_accounting

    pair = pairs.removed
    if isinstance(pair, RemovedFromSample) and isinstance(pairs.added, AddedToSample):
        return dp_accounting.PoissonSampledDpEvent(pair.rate, _single_event(pair.pair))
    return _single_event(pair)


def _single_event(pair: DominatingPair) -> Any:
    import dp_accounting

    if isinstance(pair, GaussianPair) and pair.ratio:
        return dp_accounting.GaussianDpEvent(1 / pair.ratio)
    if isinstance(pair, LaplacePair) and pair.ratio:
        return dp_accounting.LaplaceDpEvent(1 / pair.ratio)
    raise _NotThere("it has no RDP for some part")


def _their_distribution(parts: Mapping[DominatingPairs, int], delta: float, step: float) -> float:
    from dp_accounting.pld import privacy_loss_distribution

    total = privacy_loss_distribution.identity(step)
    for pairs, count in parts.items():
        total = total.compose(_of_pairs(pairs, step).self_compose(count))
    return float(total.get_epsilon_for_delta(delta))


def _of_pairs(pairs: DominatingPairs, step: float) -> Any:
    from dp_accounting.pld import privacy_loss_distribution as pld

    own = _own(pairs.removed, pairs.added, step)
    if own is not None:
        return own
    removed, added = (_mass_function(pair, step) for pair in (pairs.removed, pairs.added))
    return pld.PrivacyLossDistribution(removed, added)


def _own(removed: DominatingPair, added: DominatingPair, step: float) -> Any | None:
    """Its own distribution, where it has one."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    rate, pair = 1.0, removed
    if isinstance(removed, RemovedFromSample) and isinstance(added, AddedToSample) and removed.pair is added.pair:
        rate, pair = removed.rate, removed.pair
    elif removed is not added:
        return None
    given = {"value_discretization_interval": step, "sampling_prob": rate}
    if isinstance(pair, GaussianPair) and pair.ratio:
        return pld.from_gaussian_mechanism(1 / pair.ratio, **given)
    if isinstance(pair, LaplacePair) and pair.ratio:
        return pld.from_laplace_mechanism(1 / pair.ratio, **given)
    return None


def _mass_function(pair: DominatingPair, step: float) -> Any:
    """Its mass function from our δ at the points of its lattice."""
    from dp_accounting.pld import pld_pmf

    if isinstance(pair, Finite | Envelope | RemovedFromSample | AddedToSample | SampledWithoutReplacement):
        first, last = math.floor(pair.span.low / step), math.ceil(pair.span.high / step)
        last += last * step < pair.span.high  # rounding must not put the largest loss past the last point
        if last - first > FINEST:
            raise _NotThere(f"its losses, {step:g} apart, are too many; give a larger step")
        levels = np.arange(first, last + 1, dtype=float) * step
        tails = tails_on(pair, levels)
        deltas = np.minimum.accumulate(np.clip(tails.left - np.exp(levels) * tails.right, 0.0, 1.0))
        return pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(step, first, last, deltas)
    raise _NotThere("it has no distribution for some part")


# ------------------------------------------------------------------------------------------------------------- account
# What a release costs: ε by every method that applies, each by its name, the tightest marked.


DELTA = 1e-5


@dataclass(frozen=True, eq=False)
class Account(Presentable):
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

    def to_dict(self) -> dict[str, Any]:
        """The account as plain data, in the words of `veridp schema`."""
        return {
            "delta": self.delta,
            "bounds": [
                {
                    "method": bound.method,
                    "epsilon": bound.epsilon,
                    "delta": bound.delta,
                    "note": bound.note,
                    "tightest": bound is self.tightest,
                }
                for bound in self.bounds
            ],
            "basis": self.basis.value,
            "standing": self.standing,
            "not_refuted": list(self.not_refuted),
            "assumptions": list(self.assumptions),
        }

    def __repr__(self) -> str:
        bound = self.tightest
        return f"<Account: ε = {bound.epsilon:.6g} at δ = {bound.delta:g} by {bound.method}; {self.standing}>"

    def __str__(self) -> str:
        lines = []
        for bound in self.bounds:
            mark = "  <- tightest" if bound is self.tightest else ""
            text = f"ε = {bound.epsilon:.6g} at δ = {bound.delta:g}" if math.isfinite(bound.epsilon) else "no bound"
            lines.append(f"{bound.method}: {text}{f' ({bound.note})' if bound.note else ''}{mark}")
        return "\n".join([*lines, self.standing, *self.assumptions])


def account(
    release: ReleaseNode, delta: float = DELTA, *, step: float | None = None, second_opinion: bool = False
) -> Account:
    """What the release costs at this δ, by basic and advanced composition, zCDP, RDP and privacy loss distributions.

    They are computed here, from closed forms and exact losses; `step` is the distance of the lattice on which losses
    are convolved, chosen to fit where it is not given. With a `second_opinion`, dp-accounting is asked too, and has
    lines of its own. Bounds are upper bounds. They hold for mechanisms chosen one after another, each in the light of
    the answers before, as long as the tree was fixed ahead.
    """
    if not 0 <= delta < 1:
        raise BadInput(f"delta must be in [0, 1), got {delta!r}")

    domination = Domination(release)
    parts = domination.parts(release)
    bounds = [
        basic(release, delta),
        advanced(release, delta),
        _zcdp(release, delta, domination),
        _renyi_bound(parts, delta),
        _losses(parts, delta, step),
        *(dp_accounting_bounds(parts, delta, step) if second_opinion else ()),
    ]
    leaves = list(release.leaves())
    bounds = [_noted(bound, leaves) for bound in bounds]
    basis = GuaranteeBasis.PROVED
    for leaf in leaves:
        basis = basis.weaker(leaf.basis)
    named = dict.fromkeys(leaf.name for leaf in leaves if leaf.basis is GuaranteeBasis.NOT_REFUTED)
    return Account(release, delta, tuple(bounds), basis, tuple(named), tuple(_assumptions(release)))


def _noted(bound: Bound, leaves: Iterable[Leaf]) -> Bound:
    """The bound with a note on how it converts claims in other notions, where it does."""
    notes = dict.fromkeys(note for leaf in leaves if (note := conversion_note(bound.method, leaf)))
    if not notes or math.isinf(bound.epsilon):
        return bound
    return replace(bound, note="; ".join(filter(None, [bound.note, *notes])))


def conversion_note(method: str, leaf: Leaf) -> str:
    """How the method converts a claim in another notion, by its name; empty where it need not."""
    notion = leaf.notion
    if notion is None:
        return ""
    if method == "zCDP" and isinstance(notion, GaussianDP):
        return f"{notion} is μ²/2-zCDP"
    converted = method in ("basic", "advanced") or (
        isinstance(leaf.pairs.removed, ImpliedPair)
        and (method == "privacy loss distribution" or (method == "zCDP" and not isinstance(notion, ZeroConcentrated)))
    )
    return f"{notion} as (ε, δ) by {notion.conversion}" if converted else ""


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


def _renyi_bound(parts: Mapping[DominatingPairs, int], delta: float) -> Bound:
    """Rényi divergences add up at every order."""
    leaks = ((max(_leak(pair) for pair in pairs.directions), count) for pairs, count in parts.items())
    spare = spared(delta, together(leaks))
    if spare <= 0:
        return Bound("RDP", math.inf, delta, "no δ is left over for it; give a larger delta")
    total = np.zeros(len(ORDERS))
    for pairs, count in parts.items():
        total += count * np.max([divergences(pair, ORDERS) for pair in pairs.directions], axis=0)
    return Bound("RDP", epsilon_of_rdp(total, ORDERS, spare), delta)


def _leak(pair: DominatingPair) -> float:
    """The probability of an infinite loss, which Rényi divergences leave out; those of a notion leave nothing out."""
    return 0.0 if isinstance(pair, ImpliedPair) else pair.infinite


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
