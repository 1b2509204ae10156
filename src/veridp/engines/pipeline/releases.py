"""What each release of two aligned runs costs: noise by its shift, choices by their weights, libraries by their map."""

from __future__ import annotations

import itertools
import math
import operator
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from veridp.accounting.pairs import Finite
from veridp.accounting.tree import DominatingPairs
from veridp.engines.pipeline.alignment import NAMES, Aligner, Matching, RunAlignment, is_number
from veridp.engines.pipeline.mixtures import Chance, Mixtures
from veridp.engines.pipeline.prices import FREE, OutputPrices, pair_of_shift
from veridp.engines.pipeline.primitives import Primitive
from veridp.engines.pipeline.recording import Choice, Coin, Program, ProgramRun, Script, TrackedDraw, UnknownDraw
from veridp.engines.pipeline.result import PipelineRelease, norms
from veridp.engines.pipeline.tails import UniformTails, unbounded
from veridp.kernel.distributions import Distribution
from veridp.kernel.noise import Uniform
from veridp.kernel.site import Site

OBSERVED_RUNS = 5  # in which the loss of a value made of uniform draws is looked at
MAX_TAILS = 3  # lines whose uniform draws are moved into their tails
REDRAWN_RUNS = 6  # with other values of noise that nothing follows, to see whether it matters
FAR_AWAY = (1e1, 1e2, 1e4, 1e8)  # widths by which such noise is also moved: what is rounded changes late
SLIVER = 2.0**-49  # probability of a cell that only rounding opens, of sixteen floats: the end of a sum at 1 - 1e-16
SLOPE_ERROR = 1e-4  # relative, of slopes by small moves
STRAIGHT = (-3.0, -0.5, 0.5, 3.0)  # widths by which noise is moved to see whether it comes out multiplied, and no more
NO_MOVE = 1e-12  # by which rounding moves what does not follow noise that is moved by 1
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
    _middles: dict[int, list[float]] = field(default_factory=dict, init=False)  # losses between the tails

    def _shared(self, kind: type[Any]) -> Iterator[tuple[Any, Any]]:
        return self.alignment.matching.shared(kind)

    @cached_property
    def releases(self) -> list[PipelineRelease]:
        """All that was released in both runs, line by line, with its cost."""
        return self._releases(None)

    @cached_property
    def told(self) -> list[PipelineRelease]:
        """The same, but of what the output shows, only those parts whose way it tells."""
        rows = (row.name for row in self.alignment.matching.rows if row.site is None)
        names = [name for name, slopes in zip(rows, self._output.slopes, strict=False) if np.any(slopes)]
        draws = range(len(self.left.draws))
        tossed = set(self.left.tossed)
        deciding = tuple(place for place in draws if place not in tossed and not self._output.follow(place))

        def run(script: Script) -> ProgramRun:
            self.runs += 1
            return self.program.run(self.left_data, script, marks=self.marks)

        return self._releases(Mixtures(run, self.left, deciding, frozenset(names)))

    def _releases(self, mixtures: Mixtures | None) -> list[PipelineRelease]:
        unknown = (
            _release(f"{one.method} noise", one.site, 1, [], None, [None]) for one, _ in self._shared(UnknownDraw)
        )
        noise, chance = self._noise_releases(mixtures), self._chance_releases(mixtures)
        return [*noise, *chance, *self._library_releases(), *unknown]

    def _noise_releases(self, mixtures: Mixtures | None) -> Iterator[PipelineRelease]:
        groups: dict[tuple[Site, str], list[tuple[int, TrackedDraw, TrackedDraw]]] = {}
        for place, (mine, theirs) in enumerate(self._shared(TrackedDraw)):
            if place in self._tosses:
                continue
            groups.setdefault((mine.site, str(mine.distribution)), []).append((place, mine, theirs))
        for (site, noise), draws in groups.items():
            moves = [self._distance(place, mine) for place, mine, _ in draws]
            parts = [self._cost(place, mine, theirs) for place, mine, theirs in draws]
            output = [
                self._output.part(place, part) if mixtures is None or not self._names(place) & mixtures.mixed else FREE
                for (place, _, _), part in zip(draws, parts, strict=True)
            ]
            reaches = not any(moves) or any(self._output.follow(place) for place, _, _ in draws)
            scale = getattr(draws[0][1].distribution, "scale", None)
            scale = None if scale is None else float(scale)
            yield _release(noise, site, len(draws), moves, scale, parts, output, reaches)

    def _names(self, place: int) -> set[str]:
        """The numbers of the output that follow a draw."""
        names = (row.name for row in self.alignment.matching.rows if row.site is None)
        return {name for name, slope in zip(names, self._output.slopes, strict=False) if slope[place]}

    @cached_property
    def _unfollowed(self) -> set[int]:
        """Draws that decide something, though no value that is kept the same depends on them: their cost is not known.

        Compiled code may have read the bare number, or a value could not be kept and the output was the same by chance.
        """
        matching, shifts = self.alignment.matching, self.alignment.shifts
        slopes = self.alignment.slopes
        if len(slopes) != len(matching.rows):
            aligner = Aligner(self.program, self.left, self.right_data, self.marks)
            slopes = aligner.slopes(matching, shifts)
            self.runs += aligner.runs
        kept = [place for place, row in enumerate(matching.rows) if row.same]
        hidden = np.flatnonzero(~np.any(slopes[kept], axis=0)[: matching.draws])
        if not len(hidden):
            return set()
        rng = np.random.default_rng(self.left.script.seed)
        widths = np.array([draw.distribution.width for draw in self.left.draws])
        for far in [0.0] * REDRAWN_RUNS + [*FAR_AWAY] * 2:
            moves = np.zeros(len(shifts))
            for place in hidden:
                draw = self.left.draws[place]
                moves[place] = draw.distribution.draw(rng, 1)[0].item() - draw.value
            moves[hidden] += far * widths[hidden] * rng.choice((-1.0, 1.0), len(hidden))
            run = self.program.run(self.left_data, Script.repeating(self.left, moves), marks=self.marks)
            self.runs += 1
            if not run.like(self.left):
                return set(hidden.tolist())
        return set()

    @cached_property
    def _sides(self) -> tuple[tuple[Any, Matching, Any], tuple[Any, Matching, Any]]:
        """The data of either side, its run held against the left one, and how far its noise is moved."""
        matching = self.alignment.matching
        left = Matching(self.left, self.left, matching.passing)
        return (self.left_data, left, 0 * self.alignment.shifts), (self.right_data, matching, self.alignment.shifts)

    @cached_property
    def _side_slopes(self) -> tuple[Any, Any]:
        """The slopes of the values that are to be the same, on either side; 0 of what only the right one has."""
        slopes, places = [], list[dict[Any, int]]()
        for data, matching, shifts in self._sides:
            aligner = Aligner(self.program, self.left, data, self.marks)
            slopes.append(aligner.slopes(matching, shifts))
            self.runs += aligner.runs
            count = Counter[Any]()
            places.append({})
            for place, row in enumerate(matching.rows):
                count[row.name, row.site] += 1
                places[-1][row.name, row.site, count[row.name, row.site]] = place
        left = np.zeros_like(slopes[1])
        for key, place in places[1].items():
            if key in places[0]:
                left[place] = slopes[0][places[0][key]]
        return left, slopes[1]

    @cached_property
    def _stretched(self) -> set[int]:
        """Draws that the first value which is kept of them follows by more on one side: their cost is not known.

        The data multiply such noise, so its shift differs from run to run, and is no shift that has a price.
        """
        seen = np.zeros(len(self.alignment.shifts), dtype=bool)
        stretched = seen.copy()
        for row, left, right in zip(self.alignment.matching.rows, *self._side_slopes, strict=True):
            followed = ((left != 0) | (right != 0)) & ~seen
            if row.same:
                stretched |= followed & ~np.isclose(left, right, rtol=SLOPE_ERROR, atol=0.0)
                seen |= followed
        return set(np.flatnonzero(stretched).tolist())

    @cached_property
    def multiplied(self) -> Mapping[Site, tuple[float, float]]:
        """Lines whose noise comes out multiplied by one number on the left, and by another on the right.

        Only where a number of the output is this noise times a factor, plus what the data add, whatever the noise is.
        """
        found: dict[Site, tuple[float, float]] = {}
        if not np.any(self.alignment.shifts):
            return found
        for row, left, right in zip(self.alignment.matching.rows, *self._side_slopes, strict=True):
            draws = np.flatnonzero((left != 0) | (right != 0)).tolist()
            if row.site is not None or len(draws) != 1 or draws[0] not in self._stretched:
                continue
            factors, site = (float(left[draws[0]]), float(right[draws[0]])), self.left.draws[draws[0]].site
            apart = not math.isclose(*map(abs, factors), rel_tol=SLOPE_ERROR)
            if site not in found and apart and self._is_straight(row.name, draws[0], factors):
                found[site] = factors
        return found

    def _is_straight(self, name: str, draw: int, factors: Sequence[float]) -> bool:
        """Whether a number of the output follows a draw by its factor however far the draw is moved, on either side."""
        noise = self.left.draws[draw].distribution
        for (data, matching, shifts), factor in zip(self._sides, factors, strict=True):
            before = matching.right.leaves[name]
            for widths in STRAIGHT:
                moves, step = shifts.copy(), math.copysign(1, widths) if noise.integer else widths * noise.width
                moves[draw] += step
                self.runs += 1
                run = self.program.run(data, Script.repeating(self.left, moves), marks=self.marks)
                after = run.leaves.get(name)
                if not (is_number(before) and is_number(after)):
                    return False
                gone = float(after) - float(before)  # type: ignore[arg-type]
                if not math.isclose(gone, factor * step, rel_tol=SLOPE_ERROR, abs_tol=NO_MOVE * abs(step)):
                    return False
        return True

    @cached_property
    def _tosses(self) -> dict[int, list[MetThreshold]]:
        """Of each draw that thresholds decide about, and nothing else follows: its comparisons.

        Where they are the same on both sides, and a value follows the draw as well, it is noise like any other.
        """
        rows, slopes = self.alignment.matching.rows, self.alignment.slopes
        values = [place for place, row in enumerate(rows) if row.name != NAMES[Coin]]
        followed = np.any(slopes[values], axis=0) if len(slopes) == len(rows) else np.zeros(len(self.left.draws))
        places = {self.left.draws[place].value: place for place in self.left.tossed}
        tosses: dict[int, list[MetThreshold]] = {}
        for mine, theirs in self._shared(Coin):
            for value, *sides in zip(
                *map(np.ndarray.tolist, (mine.drawn, mine.thresholds, theirs.thresholds)), strict=True
            ):
                tosses.setdefault(places[value], []).append(MetThreshold(mine.site, *sides))
        return {
            place: met
            for place, met in tosses.items()
            if not followed[place] or any(toss.left != toss.right for toss in met)
        }

    @cached_property
    def _torn(self) -> set[int]:
        """Draws that a value follows which is kept, so that they do not stay where they lay among the thresholds.

        The choice between these is then not all that such a draw tells.
        """
        rows, slopes = self.alignment.matching.rows, self.alignment.slopes
        if len(slopes) != len(rows):
            slopes = self._side_slopes[1]
        tossed = np.array([row.name == NAMES[Coin] for row in rows], dtype=bool)
        moved = tossed & np.array([not row.same for row in rows], dtype=bool)
        return set(np.flatnonzero(np.any(slopes[moved], axis=0) & np.any(slopes[~tossed], axis=0)).tolist())

    @cached_property
    def tails(self) -> dict[int, list[list[float]]]:
        """Of the first uniform draw of each line, moved into its tails: the losses seen there."""
        first: dict[Site, int] = {}
        for place, (mine, _) in enumerate(self._shared(TrackedDraw)):
            if isinstance(mine.distribution, Uniform) and place not in self._tosses:
                first.setdefault(mine.site, place)
        sides = self.left_data, self.right_data
        tails = UniformTails(self.program, self.left, *sides, self.alignment, self.marks)
        found = {place: tails.losses(place) for place in list(first.values())[:MAX_TAILS]}
        self._middles = {place: tails.middle(place, seen) for place, seen in found.items()}
        self.runs += tails.runs
        return found

    @property
    def uneven(self) -> Iterator[Site]:
        """Lines whose uniform draws are made into noise of another scale on the right."""
        return (self.left.draws[place].site for place, tails in self.tails.items() if any(map(unbounded, tails)))

    @cached_property
    def _output(self) -> OutputPrices:
        """What the numbers of the output tell, which follow a draw by little, or where they are rounded, in proportion
        by much."""
        matching, shifts, claim = self.alignment.matching, self.alignment.shifts, self.program.mechanism.claim
        outputs = [place for place, row in enumerate(matching.rows) if row.site is None]
        slopes = np.zeros((0, len(shifts)))
        if outputs and len(self.alignment.slopes) == len(matching.rows):
            slopes = self.alignment.slopes[outputs]
        if len(slopes) and np.any(shifts[~np.any(slopes, axis=0)]):
            aligner = Aligner(self.program, self.left, self.right_data, self.marks)
            near, far = (aligner.slopes(matching, shifts, widths)[outputs] for widths in FAR)
            self.runs += aligner.runs
            followed = (slopes == 0) & (near != 0) & np.isclose(near, far, rtol=0.2, atol=0.0)
            slopes = np.where(followed, near, slopes)
        return OutputPrices(self.left.draws, slopes, shifts, 0.0 if claim is None else claim.delta)

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
        if not alike(mine.distribution, theirs.distribution) or place in self._unfollowed:
            return None
        shift = self._distance(place, mine)
        if not shift:
            return FREE
        if isinstance(mine.distribution, Uniform):
            loss = self._observed_loss(place)
            return None if loss is None else DominatingPairs.both(Finite.claimed(loss))
        if place in self._stretched:
            return None
        pair = pair_of_shift(mine.distribution, shift)
        return None if pair is None else DominatingPairs.both(pair)

    def _observed_loss(self, place: int) -> float | None:
        """The largest loss seen, over runs with other noise, of a value that is made of one uniform draw.

        The density of such a value is the inverse of its slope. None where it is made of several draws.
        """
        if self.left.draws[place].site in set(self.uneven):
            return None
        losses = [self._loss_of(self.left, self.alignment, place)]
        for left in self.others[:OBSERVED_RUNS]:
            if len(left.draws) == len(self.left.draws):
                aligner = Aligner(self.program, left, self.right_data, self.marks)
                losses.append(self._loss_of(left, aligner.align(), place))
                self.runs += aligner.runs
        known = [loss for loss in losses if loss is not None]
        tails = [abs(loss) for part in (*self.tails.get(place, []), self._middles.get(place, [])) for loss in part]
        return max([*known, *tails]) if known and all(map(math.isfinite, tails)) else None

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

    def _chance_releases(self, mixtures: Mixtures | None) -> Iterator[PipelineRelease]:
        groups: dict[tuple[Site, str], list[tuple[Chance, DominatingPairs | None]]] = {}
        for place, (mine, theirs) in enumerate(self._shared(Choice)):
            key = mine.site, f"a choice of {len(mine.weights)}"
            groups.setdefault(key, []).append((("choice", place), _chance(mine.weights, theirs.weights)))
        for place, tosses in self._tosses.items():
            sides = [cells([side(toss) for toss in tosses]) for side in (LEFT_SIDE, RIGHT_SIDE)]
            found = dict.fromkeys([*sides[0], *sides[1]])
            wide = [answers for answers in found if max(side.get(answers, 0.0) for side in sides) > SLIVER]
            shares = [[side.get(answers, 0.0) for answers in wide] for side in sides]
            known = place not in self._unfollowed and place not in self._torn
            costs = groups.setdefault((tosses[0].site, f"a choice of {len(sides[0])}"), [])
            costs.append((("toss", place), _chance(*shares) if known else None))
        for (site, noise), both in groups.items():
            parts = [part for _, part in both]
            output = [part if mixtures is None or mixtures.tells(chance) else FREE for chance, part in both]
            yield _release(noise, site, len(parts), [], None, parts, output)

    def _library_releases(self) -> Iterator[PipelineRelease]:
        for mine, theirs in self._shared(Primitive):
            distance = mine.distance(theirs)
            same = mine.settings == theirs.settings
            pair = mine.cost(distance) if same else None
            part = None if pair is None else DominatingPairs.both(pair)
            scale = mine.declared if math.isfinite(mine.declared) else None
            yield _release(mine.name, mine.site, 1, [distance], scale, [part])


# -------------------------------------------------------------------------------------------------------------- pieces


@dataclass(frozen=True)
class MetThreshold:
    """A uniform draw compared with a threshold: on either side."""

    site: Site
    left: float
    right: float


LEFT_SIDE, RIGHT_SIDE = operator.attrgetter("left"), operator.attrgetter("right")


def cells(thresholds: Sequence[float]) -> dict[tuple[bool, ...], float]:
    """The probability of each row of answers to "is the draw below the threshold?".

    >>> cells([0.5, 0.75])
    {(True, True): 0.5, (False, True): 0.25, (False, False): 0.25}
    """
    ends = [0.0, *sorted({threshold for threshold in thresholds if 0 < threshold < 1}), 1.0]
    middles = ((low + high) / 2 for low, high in itertools.pairwise(ends))
    answers = [tuple(middle < threshold for threshold in thresholds) for middle in middles]
    return dict(zip(answers, (high - low for low, high in itertools.pairwise(ends)), strict=True))


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
    output: Sequence[DominatingPairs | None] | None = None,
    reaches: bool = True,
) -> PipelineRelease:
    """All draws of a line; `output` holds what the output shows of their costs, by default all."""
    epsilon = math.fsum(math.inf if part is None else part.supremum for part in parts)
    costly, of_output = (
        tuple(part for part in some if part is not FREE) for some in (parts, parts if output is None else output)
    )
    shown = noise, site.file, site.line, draws, *norms(moves), scale, epsilon, reaches
    return PipelineRelease(*shown, parts=costly, output_parts=of_output)


def alike(mine: Distribution, theirs: Distribution) -> bool:
    if type(mine) is not type(theirs):
        return False
    one, other = mine.parameters, theirs.parameters
    return all(math.isclose(float(one[name]), float(other[name]), rel_tol=1e-9) for name in one)
