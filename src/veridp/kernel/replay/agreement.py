"""Replay: plain runs of a mechanism, held against the paths that were explored.

A stand-in is not a number, and code can notice. So the function is run as users run it, on plain floats, drawing from
a genuine `numpy.random.Generator`, and must do what the paths say:

- at an interior point of every path (of a stated sample where there are very many),
- on either side of what the paths compare, so close to it that another threshold would show,
- on random draws, ordinary ones and ones from far out in the tails.

A path that ends where a loop has come back goes on like another that was listed: what the rounds in between did is
left out of the run that is looked for among the paths.

At each point the function runs twice: plainly, and with stand-ins that know their values there. Both runs must go
through the same instructions of the user's code, draw from the same distributions, choose by the same probabilities
and end with the same output, and the path must be one that was listed.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from types import CodeType
from typing import Any, NoReturn

import numpy as np

from veridp.errors import INTERRUPTING, CutShort, ExplorationDisagrees, MechanismFailed, RoundingDecides, VeridpError
from veridp.kernel.decimals import Written
from veridp.kernel.distributions import Distribution
from veridp.kernel.explore import follow
from veridp.kernel.expressions import Affine, Condition
from veridp.kernel.feasibility import Inside
from veridp.kernel.flow.loops import Loops
from veridp.kernel.handmade.coins import CoinBook, CoinKey, Toss
from veridp.kernel.output import Raised, without_warnings
from veridp.kernel.path import Again, Path, leaves, map_leaves, output_text, symbols_of
from veridp.kernel.replay.scripted import Draw, Pick, ScriptedGenerator, TooManyDraws
from veridp.kernel.replay.valued_run import (
    CLEAR_SLACK,
    LEAST_CLEAR_SLACK,
    Place,
    ReplayPoint,
    ValuedRun,
    is_chosen,
    is_listed,
    other_draw,
    output_difference,
)
from veridp.kernel.run import loop_place
from veridp.kernel.site import Trace, site_of, traced
from veridp.kernel.stand_ins.modules import seeing_stand_ins
from veridp.kernel.state.memory import Watch
from veridp.kernel.symbols import CoinDraw, Noise, Relation, Rounds, Symbol, Unknown, drawn_in
from veridp.mechanism import Mechanism
from veridp.mechanism.declared import Adopting
from veridp.mechanism.randomness import Sources

MAX_PATHS = 1_000  # replayed one by one; of more, every second, fourth, … is
MAX_SIGNATURES = 200_000  # ways through a mechanism that are kept, to see that random runs take one of them
MAX_DRAWS = 2_000  # of a random run in a mechanism whose loops retry
MAX_ROUNDS = 100  # of a loop that counts, in a plain run that is scripted
MAX_SIDES = 2  # for each random run: comparisons of one path that are replayed on either side
MAX_EDGES = 500  # boundaries of paths that are replayed from either side
MAX_UNCLEAR = 16  # points of a path at which rounding decides: past this it cannot be held against plain runs
MAX_TRIES = 2  # paths on which a point beside the same boundary is looked for
RUNS = 8  # random runs at each place, and as many with draws from far out
UNADOPTED_RUNS = 16  # without adopted randomness, for each random run
UNADOPTED_GAP = 5.1  # of two samples, times the root of their size: larger by chance less than once in 10^11 times


@dataclass(frozen=True)
class Replayed:
    """What was compared: how many of the paths, by how many plain runs."""

    paths: int
    reached: int
    runs: int

    def __str__(self) -> str:
        reached = f"all {self.paths}" if self.reached == self.paths > 1 else f"{self.reached} of {self.paths}"
        return f"{reached} path{'s' * (self.paths != 1)} replayed by {self.runs} plain run{'s' * (self.runs != 1)}"

    def __add__(self, other: Replayed) -> Replayed:
        return Replayed(self.paths + other.paths, self.reached + other.reached, self.runs + other.runs)


class Listing:
    """The paths of a mechanism on one input, as they are listed: enough of them is kept to replay them."""

    def __init__(self, mechanism: Mechanism, data: Any, defer: bool, choosing: bool = False) -> None:
        self.mechanism, self.data, self.defer, self.choosing = mechanism, data, defer, choosing
        self.count = 0
        self.sample: list[Path] = []  # every `stride`-th path
        self.signatures: set[tuple[int, ...]] | None = set()  # None once there are too many
        self.retries = False  # whether one of them ends where a loop has come back, or tosses a coin
        self._stride = 1

    def watch(self, paths: Iterable[Path]) -> Iterator[Path]:
        """The same paths, looked at as they pass."""
        for path in paths:
            if self.count % self._stride == 0:
                self.sample.append(path)
                if len(self.sample) > 2 * MAX_PATHS:
                    self.sample, self._stride = self.sample[::2], 2 * self._stride
            if self.signatures is not None:
                self.signatures.add(_signature(path))
                if len(self.signatures) > MAX_SIGNATURES:
                    self.signatures = None
            self.count += 1
            self.retries |= isinstance(path.output, Again) or any(isinstance(fork, Toss) for fork in path.forks)
            yield path

    @classmethod
    def of(
        cls, mechanism: Mechanism, data: Any, paths: Sequence[Path], defer: bool = False, choosing: bool = False
    ) -> Listing:
        listing = cls(mechanism, data, defer, choosing)
        for _ in listing.watch(paths):
            pass
        return listing

    def replay(self, at: Sequence[Any] = (), runs: int = RUNS, seed: int = 0) -> Replayed:
        """Compare plain runs with the paths; ExplorationDisagrees where one contradicts them.

        Where entries of the data are open, plain values for them are chosen inside each path, and `at` names data at
        which random draws are compared too. Without `runs`, only a point inside one of the paths is compared, which one
        the seed tells. Agreement is evidence, not proof, that the paths are the function's own: code that looks for
        veridp itself can still hide from it.
        """

        def compared() -> Replayed:
            replayer = _Replayer(self, np.random.default_rng(seed), watch)
            reached = sum([replayer.path(path, MAX_SIDES * runs) for path in chosen])
            if not runs:
                return Replayed(self.count, reached, replayer.runs)
            places = [replayer.place_of(each) for each in at] or [replayer.ordinary_place()]
            for place in places:
                replayer.random(place, runs)
            replayer.without_adoption(places[0], UNADOPTED_RUNS * runs)
            return Replayed(self.count, reached, replayer.runs)

        chosen = self.sample if len(self.sample) <= MAX_PATHS else self.sample[::2]
        chosen = chosen if runs else chosen[seed % len(chosen) :][:1]
        watch = Watch(self.mechanism.name, self.mechanism.bound())
        found = compared()
        watch.settle(compared)
        return found


class _Replayer:
    def __init__(self, listing: Listing, rng: np.random.Generator, watch: Watch) -> None:
        self.mechanism, self.data, self.defer = listing.mechanism, listing.data, listing.defer
        self.choosing = listing.choosing
        floats = {name: float(value) for name, value in self.mechanism.arguments.items() if type(value) is Written}
        self.plain = self.mechanism.bind(**floats).bound()
        self.explored = watch.deciding(seeing_stand_ins(self.mechanism.bound()))
        self.loops = loops = Loops.of(self.mechanism.bound()) if listing.retries else None
        if loops is not None:
            ends = [path.output for path in listing.sample]
            loops.replayed = frozenset(end.head for end in ends if isinstance(end, Again))
            loops.coins = CoinBook.of(s.coin for p in listing.sample for s in p.forks if isinstance(s, Toss))
            counted = [(path, place, s) for path in listing.sample for place, s in enumerate(path.steps)]
            for path, place, step in counted:
                if isinstance(step, Rounds):
                    loops.counting[step.head] = step.added
                    loops.chances[loop_place(step.head, path.steps[:place])] = step.distribution.parameters["p"]
        self.listed = listing.signatures
        self.paths = {_signature(path): path for path in listing.sample}
        self.unknowns = _unknowns_in(self.data)
        self.tries: dict[object, int] = {}  # of a point beside a boundary; as many as there may be once one was found
        self.points: dict[Path, dict[Symbol, float] | None] = {}  # inside paths that others go on as
        self.scripts: dict[tuple[CoinKey, int], Path] = {}  # of calls that toss coins, to each of their values
        self.rng, self.runs = rng, 0
        self.branched = False  # whether generators that it makes draw from the one that it is given
        self.met: set[tuple[int, ...]] = set()  # ways through it that were compared
        self.entered: set[tuple[CodeType, int]] = set()  # blocks of user code, by plain runs
        self.complete = len(listing.sample) == listing.count <= MAX_PATHS  # whether all paths are replayed

    # ------------------------------------------------------------------------------------------------ places

    def ordinary_place(self) -> Place:
        """Values for what is open, within the domain where that is an interval."""
        low, high = self._ends
        return {unknown: float(np.round(self.rng.uniform(low, high), 3)) for unknown in self.unknowns}

    def opposite(self, place: Place) -> Place:
        """Values a little on the other side of the middle: floats have signs that paths do not, as of a 0."""
        middle = sum(self._ends) / 2
        steps = {symbol: min(max(value - middle, -1.0), 1.0) for symbol, value in place.items()}
        return {symbol: float(np.round(middle - step, 3)) for symbol, step in steps.items()}

    @property
    def _ends(self) -> tuple[float, float]:
        domain = self.mechanism.domain
        if not isinstance(domain, tuple) or len(domain) != 2:
            return -1.0, 1.0
        low, high = map(float, domain)
        return low, high

    def place_of(self, data: Any) -> Place:
        """The values of what is open at these data."""
        numbers = data if isinstance(data, list | tuple) else [data]
        return dict(zip(self.unknowns, map(float, numbers), strict=True)) if self.unknowns else {}

    # ------------------------------------------------------------------------------------------------ points

    def path(self, path: Path, sides: int) -> bool:
        """Compare plain runs inside the path, on either side of what it compared; whether it has an inside."""
        place = self.ordinary_place()
        inside = Inside(path, place, self.rng)
        undecided = None
        for _ in range(MAX_UNCLEAR):  # where a path asks for a function of the draws, they may be those of another
            values = inside.point()
            if values is None:
                return False
            found = self._meet(path, values)
            undecided = undecided if found is None else found
            if found is not None and (isinstance(path.output, Again) or _signature(path) in self.met):
                break
        else:
            self.complete = False
            if values is not None:  # a path so narrow that all of it is close to its boundaries
                self._meet(path, values, LEAST_CLEAR_SLACK)
        if undecided is None:
            self._unclear()
        if not sides:
            return True
        here = [c for c in undecided if not _noise_in(c).difference(path.noises)]  # a loop that came back goes on
        for condition in here[:sides]:
            for side in (condition, condition.negated()):
                before, values, edge = self.runs, inside.point(side), inside.edge(side)
                if values is not None and not self._meet(path, values) and self.runs == before:
                    self._meet(path, values, LEAST_CLEAR_SLACK)
                if edge is not None:
                    self._meet(path, edge)
        for condition in filter(self._is_new, path.conditions):
            values = inside.edge(condition)
            if values is not None:
                self._meet(path, values)
                self.tries[_boundary(condition)] = MAX_TRIES
        across = Inside(path, self.opposite(place), self.rng).point() if place else None
        if across is not None:
            self._meet(path, across)
        return True

    def _meet(self, path: Path, values: Mapping[Symbol, float], clear: float = CLEAR_SLACK) -> list[Condition] | None:
        """Compare a plain run down this path; where it comes back, one that does so twice and ends as another does."""
        point = ReplayPoint([], [], {symbol: value for symbol, value in values.items() if isinstance(symbol, Unknown)})
        known = self._draw_along(path, values, 0, point)
        if known and isinstance(path.output, Again):
            place = path.output.place
            known = self._draw_along(path, values, place, point) and self._go_on(path, place, "", point)
        return self._compare(point, clear=clear) if known else []

    def _draw_along(self, path: Path, values: Mapping[Symbol, float], start: int, point: ReplayPoint) -> bool:
        """Add what a run draws and chooses on the path from a step on; whether that is known."""
        tossed = [step for step in path.noises if isinstance(step, CoinDraw)]
        values = {**values, **{step.number: step.at for step in tossed if step.number is not None}}
        for place, step in enumerate(path.steps[start:], start):
            if isinstance(step, Rounds):
                rounds = int(values[step]) - 1
                if rounds > MAX_ROUNDS or not all(
                    self._go_on(path, place + 1, step.head, point) for _ in range(rounds)
                ):
                    return False
            elif isinstance(step, CoinDraw):
                continue  # the toss that follows has what the call draws
            elif isinstance(step, Noise):
                if is_listed(step.distribution):
                    point.picks.append(int(values[step]))
                else:
                    point.draws.append(values[step])
            elif isinstance(step, Toss):
                script = self.scripts.setdefault((step.coin.key, step.taken), Path(step.coin.scripts[step.taken], None))
                if script not in self.points:
                    self.points[script] = Inside(script, {}, self.rng).point()
                inside = self.points[script]
                if inside is None or not self._draw_along(script, inside, 0, point):
                    return False
            elif is_chosen(step.options):
                point.picks.append(step.taken)
        return True

    def _go_on(self, path: Path, place: int, head: str, point: ReplayPoint) -> bool:
        """Add what a run draws that goes on as one that was listed, and comes back to this head there, or ends."""
        begun = _signature(Path(path.steps[:place], None))
        for other in self.paths.values():
            end = other.output
            back = isinstance(end, Again)
            wanted = (back and (end.place, end.head) == (place, head)) if head else not back
            if wanted and _signature(Path(other.steps[:place], None)) == begun:
                if other not in self.points:
                    self.points[other] = Inside(other, point.place, self.rng).point()
                values = self.points[other]
                if values is not None:
                    return self._draw_along(other, values, place, point)
        return False

    def _is_new(self, condition: Condition) -> bool:
        """Whether to look for a point beside this boundary, once more."""
        key = _boundary(condition)
        tries = self.tries.get(key, 0)
        if tries >= MAX_TRIES or (not tries and len(self.tries) >= MAX_EDGES):
            return False
        self.tries[key] = tries + 1
        return condition.relation in (Relation.AT_LEAST, Relation.ABOVE)

    def random(self, place: Place, runs: int) -> None:
        """Compare random runs at this place: genuine draws first, then draws from far out.

        A run that hardly ends, because it retries what is hardly ever accepted, is left out.
        """
        most = math.inf if self.loops is None else MAX_DRAWS
        clear = 0
        for seed in self.rng.integers(2**63, size=runs).tolist():
            recorded = ScriptedGenerator(np.random.PCG64(seed), most=most)
            try:
                again = self._run_plainly(recorded, place)
            except TooManyDraws:
                clear += 1
                continue
            point = ReplayPoint(recorded.draws, recorded.picks, place)
            if recorded.branched:  # NumPy's own generators draw other numbers then: they are compared as samples
                self.branched = True
                clear += self._compare(point, ordinary=True) is not None
                continue
            genuine = self._run_plainly(np.random.Generator(np.random.PCG64(seed)), place)
            if output_difference(genuine, again) is not None:
                self._disagree("a subclass of Generator is treated differently", again, genuine, point)
            clear += self._compare(point, ordinary=True) is not None
            seen, taken, _ = self._seen(point)
            if output_difference(genuine, seen) is not None:
                self._disagree("it notices that it is traced", seen, genuine, point)
            with traced() as trace:
                self._run_plainly(np.random.Generator(np.random.PCG64(seed)), place)
            if not trace.same(taken):
                self._disagree(f"{trace.parting(taken)}: it treats NumPy's generator differently", seen, genuine, point)
        if runs and not clear:
            self._unclear()
        for _ in range(runs):
            wild = ScriptedGenerator(np.random.PCG64(0), _far_draws(self.rng), _any_pick(self.rng), most)
            with suppress(TooManyDraws):
                self._run_plainly(wild, place)
                self._compare(ReplayPoint(wild.draws, wild.picks, place), ordinary=True)

    def without_adoption(self, place: Place, runs: int) -> None:
        """Compare runs in which the function's own sources of randomness are not adopted: code may notice that.

        They draw other numbers, so their outputs are compared as samples, and the instructions as a whole.
        """
        genuinely: AbstractContextManager[Callable[..., Any]] = nullcontext(self._genuinely)
        if isinstance(self.plain, Adopting) and self.plain.sources != Sources():
            genuinely = self.plain.unadopted()
        elif not self.branched:
            return
        point = ReplayPoint([], [], place)
        seeds = self.rng.integers(2**32, size=runs).tolist()
        kind = ScriptedGenerator if self.branched else np.random.Generator
        usual = [self._run_plainly(kind(np.random.PCG64(seed)), place) for seed in seeds]
        genuine: list[Any] = []
        with genuinely as unadopted:
            for seed, output in zip(seeds, usual, strict=True):
                with traced() as trace:
                    genuine.append(self._outcome(unadopted, seed, place))
                new = next((block for block in trace.blocks if block not in self.entered), None)
                if new is not None and self.complete:
                    self._disagree(f"{site_of(*new)}: reached without adopted randomness", output, genuine[-1], point)
        if _largest_gap(usual, genuine) * math.sqrt(runs) > UNADOPTED_GAP:
            self._disagree("its outputs differ without adopted randomness", usual[-1], genuine[-1], point)

    # ----------------------------------------------------------------------------------------------- one run

    def _compare(
        self, point: ReplayPoint, ordinary: bool = False, clear: float = CLEAR_SLACK
    ) -> list[Condition] | None:
        """Compare the plain run with that of the stand-ins at this point; returns what the latter left undecided.

        None where a function of the noise is so steep that rounding may decide it, so that the two cannot be compared.
        Points on ordinary data must not be beyond floats; others are left out then. Where slacks are `clear` that are
        not so otherwise, a difference may come from rounding or from stand-ins: then nothing is concluded either.
        """
        run, told, expected = self._told(point, clear)
        if run.overflows and ordinary:
            self._disagree("numbers are too large for floats", told, self._seen(point)[0], point)
        if run.unclear:
            return None if run.hidden else []
        seen, taken, asked = self._seen(point)
        self.runs += 1
        self.met.add(run.signature)
        what, listed = output_difference(told, seen), self.paths.get(run.signature)
        if listed is not None:  # what verdicts rest on, and not only this run again
            if not all(noise in run.values for noise in listed.noises):
                self._disagree("it draws other noise than when it was explored", listed.output, seen, point)
            told = map_leaves(run.value, listed.output)
            what = output_difference(told, seen)
        what = what or other_draw(run, asked)
        if what is None and self.listed is not None and run.signature not in self.listed:
            what = "this way through it was not explored"
        if what is None and not expected.same(taken):  # once more, with caches of the user's warm on both sides
            expected, taken = self._told(point, clear)[2], self._seen(point)[1]
            what = None if expected.same(taken) else f"{expected.parting(taken)}: the plain run goes another way"
        if what is not None and clear < CLEAR_SLACK:
            self._unclear()
        if what is not None:
            self._disagree(what, told, seen, point)
        return run.undecided

    def _told(self, point: ReplayPoint, clear: float) -> tuple[ValuedRun, Any, Trace]:
        """The run of stand-ins that know their values: its output there, and its instructions."""
        run = ValuedRun(point, self.mechanism.name, self.loops, self.choosing, clear)
        with traced() as trace:
            try:
                path = follow(run, self.mechanism.name, self.explored, self.data, self.defer)
            except MechanismFailed as error:
                return run, Raised.by(error.__cause__ or error), trace
            except CutShort:
                raise
            except VeridpError as error:
                if run.unclear:
                    return run, None, trace
                raise ExplorationDisagrees(f"{error} (met on replay, not when it was explored)") from error
        return run, map_leaves(run.value, path.output), trace

    def _seen(self, point: ReplayPoint) -> tuple[Any, Trace, Sequence[Any]]:
        """The plain run: its output, its instructions, and what its draws were to come from."""
        rng = ScriptedGenerator(np.random.PCG64(0), _in_turn(point.draws), _in_turn(point.picks))
        with traced() as trace:
            output = self._run_plainly(rng, point.place)
        self.entered.update(trace.blocks)
        return output, trace, rng.asked

    def _genuinely(self, seed: int, data: Any) -> Any:
        return self.plain(np.random.default_rng(seed), data)

    def _run_plainly(self, rng: np.random.Generator, place: Place) -> Any:
        return self._outcome(self.plain, rng, place)

    def _outcome(self, function: Callable[..., Any], rng: Any, place: Place) -> Any:
        try:
            with without_warnings():
                return map_leaves(lambda leaf: leaf, function(rng, _filled(self.data, place)))
        except INTERRUPTING:
            raise
        except BaseException as error:
            return Raised.by(error)

    def _unclear(self) -> NoReturn:
        raise RoundingDecides(
            f"rounding decides what {self.mechanism.name} does, so that its paths cannot be held against plain runs; "
            f"keep numbers that are compared or rounded in proportion to their noise, or use an engine that samples"
        )

    def _disagree(self, what: str, told: Any, seen: Any, point: ReplayPoint) -> NoReturn:
        draws = ", ".join(f"{value:.6g}" for value in point.draws[:8]) + (", …" if len(point.draws) > 8 else "")
        raise ExplorationDisagrees(
            f"{self.mechanism.name} on {output_text(_filled(self.data, point.place))}, drawing [{draws}], returns "
            f"{output_text(seen)} in a plain run and {output_text(told)} as explored ({what}); its code can tell a "
            f"stand-in from a number, so nothing is concluded from its paths; use an engine that samples"
        )


def _largest_gap(first: Sequence[Any], second: Sequence[Any]) -> float:
    """Between the distribution functions of two samples of outputs: of their first leaves, their second, …"""
    samples = [list(map(leaves, first)), list(map(leaves, second))]
    gap = 0.0
    for place in range(max(len(entries) for sample in samples for entries in sample)):
        keys = [[_rank_key(entries, place) for entries in sample] for sample in samples]
        rank = {key: k for k, key in enumerate(sorted(set(keys[0] + keys[1])))}
        counts = [np.bincount([rank[key] for key in each], minlength=len(rank)) / len(each) for each in keys]
        gap = max(gap, float(np.abs(np.cumsum(counts[0] - counts[1])).max()))
    return gap


def _rank_key(entries: Sequence[Any], place: int) -> tuple[int, float, str]:
    """By what the leaf at this place is sorted: a number by itself, all else by its text."""
    leaf = entries[place] if place < len(entries) else None
    return (0, float(leaf), "") if isinstance(leaf, int | float) and leaf == leaf else (1, 0.0, repr(leaf))


def _noise_in(condition: Condition) -> set[Noise]:
    return {symbol for symbol in drawn_in(condition.slack.terms) if isinstance(symbol, Noise)}


def _boundary(condition: Condition) -> object:
    return condition.relation, condition.slack.constant, frozenset(condition.slack.terms.items())


def _signature(path: Path) -> tuple[int, ...]:
    return tuple(fork.taken for fork in path.forks)


def _unknowns_in(data: Any) -> list[Unknown]:
    """The open values among the data, in the order of the entries."""
    return [symbol for leaf in leaves(data) for symbol in symbols_of(leaf) if isinstance(symbol, Unknown)]


def _filled(data: Any, place: Place) -> Any:
    """The data with plain floats where they were open."""
    if isinstance(data, Affine):
        return float(data.evaluate(place))
    return [_filled(entry, place) for entry in data] if place and isinstance(data, list) else copy.deepcopy(data)


def _in_turn(values: Sequence[Any]) -> Callable[[Any], Any]:
    """The values one after the other, and 0 past their end."""
    left = iter(values)
    return lambda _: next(left, 0)


def _any_pick(rng: np.random.Generator) -> Pick:
    return lambda weights: int(rng.choice([index for index, weight in enumerate(weights) if weight > 0]))


def _far_draws(rng: np.random.Generator) -> Draw:
    """Draws that are stretched or shrunk by up to nine orders of magnitude, within the support."""

    def draw(distribution: Distribution) -> float:
        value = distribution.draw(rng, 1)[0].item()
        low, high = distribution.support
        if distribution.integer:
            return int(min(low + (value - low) * rng.integers(1, 1000), high))
        stretched = value * 10.0 ** rng.uniform(-3, 6) if np.isinf(high) else value ** rng.integers(1, 9)
        return float(min(max(stretched, low), high))

    return draw
