"""The same release by the library dp-accounting: an independent opinion."""

from __future__ import annotations

import importlib.util
import logging
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from veridp.accounting.pairs import DominatingPair, Envelope, Finite, GaussianPair, LaplacePair, tails_on
from veridp.accounting.sampling import AddedToSample, RemovedFromSample, SampledWithoutReplacement

if TYPE_CHECKING:
    from veridp.accounting.simple import Bound
    from veridp.accounting.tree import DominatingPairs

STEP = 1e-4  # its own default for the distance of the lattice
FINEST = 2_000_000  # points that a single distribution may take on its lattice
INSTALL = "dp-accounting is not installed; pip install 'veridp[accounting]'"


def dp_accounting_bounds(parts: Mapping[DominatingPairs, int], delta: float, step: float | None) -> Iterator[Bound]:
    """Its RDP and its privacy loss distributions; a line that says why, where it has no answer."""
    from veridp.accounting.simple import Bound

    names = "RDP (dp-accounting)", "privacy loss distribution (dp-accounting)"
    if importlib.util.find_spec("dp_accounting") is None:
        yield from (Bound(name, math.inf, delta, INSTALL) for name in names)
        return
    for name, method in zip(names, (_rdp, _distribution), strict=True):
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


def _rdp(parts: Mapping[DominatingPairs, int], delta: float, step: float) -> float:
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


def _distribution(parts: Mapping[DominatingPairs, int], delta: float, step: float) -> float:
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
