"""What each release of two aligned runs costs: noise by its shift, choices by their weights, libraries by their map."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from veridp.accounting.pairs import DominatingPair, Finite, GaussianPair, LaplacePair
from veridp.accounting.tree import DominatingPairs
from veridp.engines.pipeline.alignment import Aligner, Matching, RunAlignment
from veridp.engines.pipeline.primitives import Primitive
from veridp.engines.pipeline.recording import Choice, Coin, Program, ProgramRun, TrackedDraw
from veridp.engines.pipeline.result import PipelineRelease, norms
from veridp.kernel.distributions import Distribution
from veridp.kernel.noise import Laplace, Normal, Uniform
from veridp.kernel.site import Site

OBSERVED_RUNS = 5  # in which the loss of a value made of uniform draws is looked at
FAR = (8.0, 24.0)  # widths by which noise is moved to see whether a rounded output follows


@dataclass(eq=False)
class ReleaseCosts:
    """All that two aligned runs released, and its cost."""

    program: Program
    left_data: Any
    right_data: Any
    left: ProgramRun
    others: Sequence[ProgramRun]  # on the left, with other noise
    alignment: RunAlignment
    marks: bool
    runs: int = field(default=0, init=False)

    def _shared(self, kind: type[Any]) -> Iterator[tuple[Any, Any]]:
        return self.alignment.matching.shared(kind)

    @cached_property
    def releases(self) -> list[PipelineRelease]:
        """All that was released in both runs, line by line, with its cost."""
        return [*self._noise_releases(), *self._chance_releases(), *self._library_releases()]

    def _noise_releases(self) -> Iterator[PipelineRelease]:
        groups: dict[tuple[Site, str], list[tuple[int, TrackedDraw, TrackedDraw]]] = {}
        coins = {mine.site for mine, _ in self._shared(Coin)}
        for place, (mine, theirs) in enumerate(self._shared(TrackedDraw)):
            if isinstance(mine.distribution, Uniform) and mine.site in coins:
                continue
            groups.setdefault((mine.site, str(mine.distribution)), []).append((place, mine, theirs))
        for (site, noise), draws in groups.items():
            moves = [self._distance(place, mine) for place, mine, _ in draws]
            parts = [self._cost(place, mine, theirs) for place, mine, theirs in draws]
            reaches = any(place in self._reaching for place, _, _ in draws) or not any(moves)
            scale = getattr(draws[0][1].distribution, "scale", None)
            yield _release(noise, site, len(draws), moves, None if scale is None else float(scale), parts, reaches)

    @cached_property
    def _reaching(self) -> set[int]:
        """The draws that a number of the output follows: by little, or where it is rounded, in proportion by much."""
        matching, shifts = self.alignment.matching, self.alignment.shifts
        outputs = [place for place, row in enumerate(matching.rows) if row.site is None]
        if not outputs or len(self.alignment.slopes) != len(matching.rows):
            return set()
        fine = set(np.flatnonzero(np.any(self.alignment.slopes[outputs], axis=0)).tolist())
        if fine >= set(np.flatnonzero(shifts).tolist()):
            return fine
        aligner = Aligner(self.program, self.left, self.right_data, self.marks)
        near, far = (aligner.slopes(matching, shifts, widths)[outputs] for widths in FAR)
        self.runs += aligner.runs
        followed = (near != 0) & np.isclose(near, far, rtol=0.2, atol=0.0)
        return fine | set(np.flatnonzero(np.any(followed, axis=0)).tolist())

    def _distance(self, place: int, draw: TrackedDraw) -> float:
        """By how much the noise is shifted; for a uniform draw, how far the value apart is that is made of it."""
        shift = float(self.alignment.shifts[place])
        if not isinstance(draw.distribution, Uniform) or not shift:
            return 0.0 if abs(shift) <= 1e-9 * draw.distribution.width else shift
        moved = np.flatnonzero(self.alignment.slopes[:, place]) if len(self.alignment.slopes) else ()
        first = self.alignment.first.rows
        return max((first[row].gap for row in moved if row < len(first)), key=abs, default=shift)

    def _cost(self, place: int, mine: TrackedDraw, theirs: TrackedDraw) -> DominatingPairs | None:
        """What the shift of a draw costs; None where that is not known."""
        if not alike(mine.distribution, theirs.distribution):
            return None
        shift = self._distance(place, mine)
        if not shift:
            return FREE
        if isinstance(mine.distribution, Uniform):
            loss = self._observed_loss(place)
            return None if loss is None else DominatingPairs.both(Finite.claimed(loss))
        pair = pair_of_shift(mine.distribution, shift)
        return None if pair is None else DominatingPairs.both(pair)

    def _observed_loss(self, place: int) -> float | None:
        """The largest loss seen, over runs with other noise, of a value that is made of one uniform draw.

        The density of such a value is the inverse of its slope. None where it is made of several draws.
        """
        losses = [self._loss_of(self.left, self.alignment, place)]
        for left in self.others[:OBSERVED_RUNS]:
            if len(left.draws) == len(self.left.draws):
                aligner = Aligner(self.program, left, self.right_data, self.marks)
                losses.append(self._loss_of(left, aligner.align(), place))
                self.runs += aligner.runs
        known = [loss for loss in losses if loss is not None]
        return max(known, default=None)

    def _loss_of(self, left: ProgramRun, alignment: RunAlignment, place: int) -> float | None:
        matching = alignment.matching
        if not matching.whole or alignment.residual:
            return None
        sides = (
            (self.left_data, Matching(left, left, matching.passing), 0 * alignment.shifts),
            (self.right_data, matching, alignment.shifts),
        )
        slopes = []
        for data, rows, shifts in sides:
            aligner = Aligner(self.program, left, data, self.marks)
            both_ways = [aligner.slopes(rows, shifts, backwards=backwards)[:, place] for backwards in (False, True)]
            slopes.append((both_ways[0] + both_ways[1]) / 2)
            self.runs += aligner.runs
        if len(slopes[0]) != len(slopes[1]):
            return None
        mixed = np.count_nonzero(alignment.slopes, axis=1) > 1 if len(alignment.slopes) == len(matching.rows) else True
        firm = np.array([not row.soft for row in matching.rows]) & ~np.asarray(mixed)
        both = (slopes[0] != 0) & (slopes[1] != 0) & firm
        return float(np.abs(np.log(np.abs(slopes[1][both] / slopes[0][both]))).max()) if both.any() else None

    def _chance_releases(self) -> Iterator[PipelineRelease]:
        groups: dict[tuple[Site, str], list[DominatingPairs | None]] = {}
        for mine, theirs in self._shared(Choice):
            key = mine.site, f"a choice of {len(mine.weights)}"
            groups.setdefault(key, []).append(_chance(mine.weights, theirs.weights))
        for mine, theirs in self._shared(Coin):
            for one, other in zip(mine.thresholds, theirs.thresholds, strict=True):
                costs = groups.setdefault((mine.site, "a choice of 2"), [])
                costs.append(_chance((one, 1 - one), (other, 1 - other)))
        for (site, noise), parts in groups.items():
            yield _release(noise, site, len(parts), [], None, parts, True)

    def _library_releases(self) -> Iterator[PipelineRelease]:
        for mine, theirs in self._shared(Primitive):
            distance = mine.distance(theirs)
            same = mine.settings == theirs.settings
            pair = mine.cost(distance) if same else None
            part = None if pair is None else DominatingPairs.both(pair)
            scale = mine.declared if math.isfinite(mine.declared) else None
            yield _release(mine.name, mine.site, 1, [distance], scale, [part], True)


# -------------------------------------------------------------------------------------------------------------- pieces

FREE = DominatingPairs.both(Finite.claimed(0.0))


def pair_of_shift(distribution: Distribution, shift: float) -> DominatingPair | None:
    """Two distributions that are as far apart as noise and the same noise shifted; None where no ε bounds it."""
    if isinstance(distribution, Laplace):
        return LaplacePair(abs(shift) / distribution.width)
    if isinstance(distribution, Normal):
        return GaussianPair(abs(shift) / distribution.width)
    up, down = ways(distribution)
    price = up if shift > 0 else down
    return None if price is None else Finite.claimed(abs(shift) * float(price))


def ways(distribution: Distribution) -> tuple[Any, Any]:
    """The prices of a shift up, and down, without δ, or with one where there is none without."""
    price = distribution.price
    if price.up is None and price.down is None:
        price = distribution.price_with_delta
    return price.up, price.down


def _chance(mine: Sequence[float], theirs: Sequence[float]) -> DominatingPairs:
    left, right = ([weight / math.fsum(side) for weight in side] for side in (mine, theirs))
    if np.allclose(left, right, rtol=1e-12, atol=0):
        return FREE
    return DominatingPairs(Finite.of(left, right), Finite.of(right, left))


def _release(
    noise: str,
    site: Site,
    draws: int,
    moves: Sequence[float],
    scale: float | None,
    parts: Sequence[DominatingPairs | None],
    reaches_output: bool,
) -> PipelineRelease:
    epsilon = math.fsum(math.inf if part is None else part.supremum for part in parts)
    costly = tuple(part for part in parts if part is not FREE)
    return PipelineRelease(noise, site.file, site.line, draws, *norms(moves), scale, epsilon, reaches_output, costly)


def alike(mine: Distribution, theirs: Distribution) -> bool:
    if type(mine) is not type(theirs):
        return False
    one, other = mine.parameters, theirs.parameters
    return all(math.isclose(float(one[name]), float(other[name]), rel_tol=1e-9) for name in one)
