"""The worst pair of inputs that a search finds, by the exact loss between them."""

from __future__ import annotations

import itertools
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from veridp.adjacency import Domain, Pair, is_interval
from veridp.budget import Deadline, out_of_time
from veridp.budget.child_process import Reporter, contained
from veridp.budget.notebook_progress import shows_progress
from veridp.claim import Claim, Interval, Witness
from veridp.engines.exact.candidates import corner_pairs, moves_from, pairs_beside_zeros, pairs_that_move
from veridp.engines.exact.compare import Comparison
from veridp.engines.exact.distribution import OpenDistribution, paths_of, replayed_paths, within_floats
from veridp.engines.exact.functions import FunctionReader
from veridp.engines.exact.space import loss_between
from veridp.errors import BadInput, CutShort, NotExact, NotExplorable, RoundingDecides, VeridpError
from veridp.kernel.distributions import exact
from veridp.kernel.explore import explore
from veridp.kernel.expressions import Affine, Condition, Select, unknowns
from veridp.kernel.path import Path, leaves
from veridp.kernel.replay.agreement import Listing
from veridp.kernel.state.memory import from_first_run
from veridp.kernel.symbols import Symbol, Unknown, count_text
from veridp.mechanism import Function, Mechanism, as_mechanism
from veridp.presentation import Presentable

SECONDS = 60.0
OPEN_LAW_PAYS = 5_000  # paths of one input up to which the data are left open
REPORTING_SHARE = 0.1  # of the time spent so far
MOST_KEPT = 256  # inputs whose paths are kept
MAX_INCOMPARABLE_KEPT = 4  # pairs of a stage without a computable loss that are kept, for engines that sample
MAX_OPEN_PATHS = 500  # with the data open, in search of levels that data are compared with
MAX_LISTED_DATA = 100  # data sets of a finite domain up to which all are tried
MIXED_PAIRS = 12  # of records at the ends of their interval or in its middle
DRAWN_PAIRS = 300  # of records drawn from a finite domain that has more data sets than can be tried
STEPS_TRIED = (0, 1, 2)  # levels of a step function of the data around which pairs are tried
NAMED_NOTIONS = ("epsilon", "rho", "mu")
Progress = Callable[[str, int, float], None]  # what is being tried, how many pairs so far, the best cost so far


@dataclass(frozen=True, eq=False)
class Worst(Presentable):
    """The worst comparison found: its ε is a lower bound on that of the mechanism, for inputs of this size."""

    comparison: Comparison
    tried: int
    searched: tuple[str, ...]
    finished: bool  # whether the search ended by itself, and was not cut short
    at: float = 0.0  # the δ at which pairs were compared
    notion: str | float = "epsilon"  # by which pairs were compared
    seconds: float = 0.0
    incomparable: int = 0  # of the pairs tried, those whose loss cannot be computed: they may be worse
    incomparable_pairs: tuple[Pair, ...] = ()  # the first of these in each stage

    @property
    def claim(self) -> Claim | None:
        return self.comparison.claim

    @property
    def bounds(self) -> Interval:
        return self.comparison.bounds

    @property
    def epsilon(self) -> float:
        """The least ε that holds between the two inputs, at the δ at which pairs were compared."""
        return self.comparison.epsilon_at(self.at)

    @property
    def cost(self) -> float:
        """What the two inputs cost in the notion by which pairs were compared."""
        return _cost(self.comparison, self.notion, self.at)

    @property
    def witness(self) -> Witness:
        """The event that shows the ε: at a δ, the one that attains it, if its probability can be computed."""
        shown = self.comparison.witness_above(self.epsilon) if self.at and math.isfinite(self.epsilon) else None
        return shown or self.comparison.witness

    def delta(self, epsilon: float) -> float:
        """δ(ε) between the two inputs found."""
        return self.comparison.delta(epsilon)

    @property
    def refuted(self) -> bool:
        """Whether the mechanism's own claim is refuted."""
        return self.comparison.refuted

    def to_dict(self) -> dict[str, Any]:
        """The comparison as plain data, and how it was found."""
        search = {"tried": self.tried, "stages": list(self.searched), "finished": self.finished}
        left_out = {"incomparable": self.incomparable} if self.incomparable else {}
        return {**self.comparison.to_dict(), "search": search | left_out}

    def __str__(self) -> str:
        searched = ", ".join(self.searched)
        ended = f"; {self.incomparable} could not be compared" * bool(self.incomparable)
        ended += "" if self.finished else "; cut short"
        return f"{self.comparison} (the worst of {count_text(self.tried, 'pair')}: {searched}{ended})"


@shows_progress
def worst(
    mechanism: Mechanism | Function,
    size: int | None = None,
    domain: Domain | None = None,
    *,
    seconds: float = SECONDS,
    max_pairs: int | None = None,
    least_pairs: int = 0,
    progress: Progress | None = None,
    moves: Sequence[Sequence[float]] = (),
    at: float = 0.0,
    notion: str | float = "epsilon",
    enough: float = math.inf,
    **arguments: Any,
) -> Worst:
    """The worst pair of neighbours found within the domain: patterns first, then corners, then moves from the best.

    `moves` are differences between neighbours to begin with, tried from the ends of the domain. Pairs are compared by
    the ε that holds between them at the δ given by `at`, or by another `notion`: "rho" (zCDP), "mu" (GDP), or an order
    of Rényi divergence; the search ends where one has `enough` and `least_pairs` were tried, or after `max_pairs`.
    What is found is a lower bound; nothing is claimed about pairs that were not tried.

    Cut short by `seconds`, by the limit on memory or by Ctrl-C, it returns the worst pair until then, and raises
    CutShort if there is none. What is tried depends on the clock in no other way.
    """
    mechanism = as_mechanism(mechanism, **arguments).stating(size=size, domain=domain)
    if notion not in NAMED_NOTIONS and not (isinstance(notion, int | float) and notion >= 1):
        raise BadInput(f"notion must be one of {', '.join(NAMED_NOTIONS)}, or a Rényi order >= 1, got {notion!r}")
    search = _Search(mechanism, _Aim(Deadline(seconds), at, notion, enough, max_pairs or sys.maxsize, least_pairs))

    def run(reporter: Reporter) -> Worst:
        with from_first_run(mechanism.name, mechanism.bound()):
            return search.run(moves, reporter)

    return contained(
        run,
        search.aim.deadline,
        known=(mechanism,),
        progress=progress,  # type: ignore[arg-type]  # its second number counts pairs
    )


@dataclass(frozen=True)
class _Aim:
    """What is looked for, and until when."""

    deadline: Deadline
    delta: float
    notion: str | float
    enough: float
    pairs: int
    least: int


def _cost(comparison: Comparison, notion: str | float, delta: float) -> float:
    if notion == "rho":
        return comparison.rho
    if notion == "mu":
        return comparison.mu
    return comparison.epsilon_at(delta) if isinstance(notion, str) else comparison.renyi(notion)


class _Search:
    def __init__(self, mechanism: Mechanism, aim: _Aim) -> None:
        self.mechanism, self.size, self.domain, self.aim = mechanism, mechanism.size, mechanism.domain, aim
        self.reporter = Reporter(None)
        self.compare = _Comparer(mechanism, mechanism.size)
        self.best: Comparison | None = None
        self.replayed: Comparison | None = None  # the last best with whose paths plain runs agreed
        self.cost = -math.inf  # of the best
        self.failure: VeridpError | None = None
        self.incomparable: dict[str, list[Pair]] = {}  # by stage
        self.seen: set[frozenset[str]] = set()
        self.searched: list[str] = []
        self.tried = 0
        self.in_time = True
        self.replaying = 0.0  # seconds spent on reports

    def run(self, moves: Sequence[Sequence[float]], reporter: Reporter) -> Worst:
        self.reporter = reporter
        self._run(moves)
        if self.best is None:
            nothing = f"{self.mechanism.name}: no pair of neighbours of size {self.size} to try in {self.domain}"
            raise self.failure or (BadInput(nothing) if self.in_time else out_of_time(self.aim.deadline.seconds))
        try:
            self._replay(self.best)
        except RoundingDecides:
            if self.replayed is None:
                raise
        return self._worst(self.replayed, self.in_time)  # type: ignore[arg-type]

    @property
    def met(self) -> bool:
        """Whether a pair has enough, and no fewer pairs were tried than should be."""
        return self.cost >= self.aim.enough and self.tried >= self.aim.least

    def _worst(self, best: Comparison, finished: bool) -> Worst:
        aim = self.aim
        searched, spent = tuple(self.searched), aim.deadline.spent
        return Worst(
            best,
            self.tried,
            searched,
            finished,
            aim.delta,
            aim.notion,
            spent,
            incomparable=sum(map(len, self.incomparable.values())),
            incomparable_pairs=tuple(x for pairs in self.incomparable.values() for x in pairs[:MAX_INCOMPARABLE_KEPT]),
        )

    def _run(self, moves: Sequence[Sequence[float]]) -> None:
        worst = self.mechanism.worst_pairs(self.size, self.domain)
        patterns = sorted(self.mechanism.adjacency.pairs(self.size, self.domain), key=_moved, reverse=True)
        stages: list[tuple[str, Iterator[Pair]]] = [("patterns", iter((*worst, *patterns)))]
        if len(moves) and is_interval(self.domain):
            stages.insert(0, ("given moves", pairs_that_move(moves, self.size, self.domain)))
        if self.mechanism.adjacency.vertices(1) is not None and is_interval(self.domain):
            stages.append(("thresholds", self._across_thresholds()))
            stages.append(("corners", corner_pairs(self.size, self.domain)))
        elif is_interval(self.domain):
            low, high = map(float, self.domain)  # type: ignore[arg-type]
            beside = list(pairs_beside_zeros(self.mechanism.adjacency, self.size, (low, high)))
            stages[:0] = [("others at zero", iter(beside))] * bool(beside)
            stages.append(("mixed records", self._mixed_records()))
        elif self.mechanism.adjacency.on_records:
            few = len(self.domain) ** self.size <= MAX_LISTED_DATA
            stages.append(("all records", self._listed_records()) if few else ("drawn records", self._drawn_records()))
        for name, pairs in stages:
            self.searched.append(name)
            if not self._try_all(name, pairs) or self.met:
                return
        if stages[-1][0] == "corners" and self.best is not None:
            self.searched.append("moves from the best")
            self._climb()

    def _across_thresholds(self) -> Iterator[Pair]:
        """Pairs on either side of a level that the mechanism compares an entry of the data with, or rounds it at."""
        low, high = map(float, self.domain)  # type: ignore[arg-type]
        example: Any = self.mechanism.adjacency.example(self.size, self.domain)
        others: dict[Symbol, float] = {Unknown(f"data[{k}]"): x for k, x in enumerate(example)}
        for slack, offsets in self._compared_with_data():
            for place, coefficient in _entries(slack):
                at_zero = {**others, Unknown(f"data[{place}]"): 0.0}
                level = -float(slack.evaluate(at_zero)) / coefficient
                for offset in offsets:
                    left, right = level - offset, level - offset + 1.0
                    if low <= left and right <= high:
                        yield Pair(_with(example, place, left), _with(example, place, right), "threshold")

    def _listed_records(self) -> Iterator[Pair]:
        """Every data set of listed values, with each record replaced and with one more at either end."""
        values, example = list(self.domain), self.mechanism.adjacency.example(self.size, self.domain)
        if not isinstance(example, list):
            return
        for records in itertools.product(values, repeat=self.size):
            left = list(records)
            for value in values:
                yield Pair(left, [*left, value], "all records")
                yield Pair(left, [value, *left], "all records")
                others = (place for place in range(self.size) if left[place] != value)
                yield from (Pair(left, _with(left, place, value), "all records") for place in others)

    def _drawn_records(self) -> Iterator[Pair]:
        """Neighbours of records that are drawn from the listed values, every other time from two of them alone."""
        values, example = list(self.domain), self.mechanism.adjacency.example(self.size, self.domain)
        if not isinstance(example, list):
            return
        rng = np.random.default_rng(0)
        for number in range(DRAWN_PAIRS):
            among = values if number % 2 else [values[k] for k in rng.choice(len(values), size=2, replace=False)]
            left = [among[int(k)] for k in rng.integers(len(among), size=self.size)]
            yield Pair(left, self.mechanism.adjacency.random_neighbour(left, values, rng), "drawn records")

    def _mixed_records(self) -> Iterator[Pair]:
        """Neighbours whose records lie at either end of the domain or in the middle, each by chance."""
        low, high = map(float, self.domain)  # type: ignore[arg-type]
        patches = self.mechanism.adjacency.patches(self.size, (low, high)) or []
        rng = np.random.default_rng(0)
        for number in range(MIXED_PAIRS if patches else 0):
            patch = patches[number % len(patches)]
            values = rng.choice([low, (low + high) / 2, high], size=len(patch.low))
            left, right = patch.pair(values)
            yield Pair(left, right, "mixed records")
            yield Pair(right, left, "mixed records")

    def _compared_with_data(self) -> Iterator[tuple[Affine, Sequence[float]]]:
        """Expressions at whose zeros the mechanism may change its behaviour, and how far below a pair may begin."""
        for path in self._open_paths() if self.compare.law is None else self.compare.law.paths:
            asked = [condition.slack for condition in path.conditions]
            asked += [slack for leaf in leaves(path.output) for slack in _asked_in(leaf)]
            yield from ((slack, (0.5,)) for slack in asked)
            for number in (*asked, *(leaf for leaf in leaves(path.output) if isinstance(leaf, Affine))):
                for function in number.functions:
                    if function.function.whole and function.function.at_least is not None:
                        edges = (function.function.at_least(Fraction(step), False).bound for step in STEPS_TRIED)
                        yield from ((function.expressions[0] - exact(edge), (0.5, 0.0, 1.0)) for edge in edges)

    def _open_paths(self) -> Sequence[Path]:
        try:
            return explore(self.mechanism, unknowns("data", self.size), max_paths=MAX_OPEN_PATHS)
        except VeridpError:
            return ()

    def _try_all(self, stage: str, pairs: Iterator[Pair]) -> bool:
        """Whether the stage came to its end."""
        for pair in pairs:
            if self._ended():
                return False
            self._try(stage, pair.left, pair.right)
            if self.met:
                return True
        return True

    def _ended(self) -> bool:
        """Whether the time is up, or as many pairs were tried as were asked for."""
        if self.aim.deadline.passed:
            self.in_time = False
        return self.aim.deadline.passed or self.tried >= self.aim.pairs

    def _try(self, stage: str, left: Any, right: Any) -> bool:
        """Whether the pair is worse than all before."""
        sides = frozenset((repr(left), repr(right)))
        if sides in self.seen or not self.mechanism.adjacency.adjacent(left, right):
            return False
        self.seen.add(sides)
        self.tried += 1
        try:
            with within_floats():
                comparison = self.compare(left, right)
                cost = _cost(comparison, self.aim.notion, self.aim.delta)
            better = self.best is None or cost > self.cost + 1e-12
        except (NotExact, NotExplorable) as error:
            self.failure = self.failure or error
            self.incomparable.setdefault(stage, []).append(Pair(left, right, stage))
            return False
        except CutShort as cut:
            self.in_time, self.failure = False, self.failure or cut
            return False
        if better:
            before = self.best, self.cost
            self.best, self.cost = comparison, cost
            try:
                self._report(comparison)
            except RoundingDecides as error:  # of these data alone: with others, the paths may hold
                (self.best, self.cost), self.failure = before, self.failure or error
                self.incomparable.setdefault(stage, []).append(Pair(left, right, stage))
                return False
        self.reporter.progress(stage, self.tried, self.cost)
        return better

    def _report(self, best: Comparison) -> None:
        """Report the best, after plain runs agreed with its paths; some are left out, so as not to spend long on it."""
        started = time.monotonic()
        if self.replaying > REPORTING_SHARE * self.aim.deadline.spent:
            return
        self._replay(best)
        self.replaying += time.monotonic() - started
        self.reporter.best(self._worst(best, finished=False))

    def _replay(self, best: Comparison) -> None:
        """Hold plain runs against the paths of the best; RoundingDecides where its data are too large for that."""
        self.compare.replay(best)
        self.replayed = best

    def _climb(self) -> None:
        """Move one entry at a time of the best pair, as long as that makes it worse."""
        improved = True
        while improved and self.best is not None and not self.met:
            improved = False
            for pair in moves_from(self.best.left, self.best.right, self.domain):
                if self._ended():
                    return
                if self.met:
                    return
                improved = self._try("moves from the best", pair.left, pair.right) or improved


def _asked_in(leaf: Any) -> Iterator[Affine]:
    """What an undecided leaf of an output asks."""
    if isinstance(leaf, Condition):
        yield leaf.slack
    elif isinstance(leaf, Select):
        for part in (leaf.condition, leaf.then, leaf.other):
            yield from _asked_in(part)


def _moved(pair: Pair) -> int:
    """How many entries differ: pairs that move much are tried first."""
    return _differing(pair.left, pair.right) if _are_alike(pair.left, pair.right) else 0


def _differing(left: Any, right: Any) -> int:
    if _are_alike(left, right):
        return sum(map(_differing, left, right))
    return int(bool(left != right))


def _are_alike(left: Any, right: Any) -> bool:
    """Whether both are lists, or tuples, of one length."""
    kinds = type(left), type(right)
    return kinds in ((list, list), (tuple, tuple)) and len(left) == len(right)


class _Comparer:
    """Compares pairs, and keeps what they share: the paths of an input, or those of all inputs with the data open."""

    def __init__(self, mechanism: Mechanism, size: int) -> None:
        self.mechanism, self.size = mechanism, size
        self.explored: dict[str, tuple[Sequence[Path], FunctionReader]] = {}
        self.law: OpenDistribution | None = None
        self.law_pays: bool | None = None if mechanism.adjacency.vertices(1) is not None else False

    def __call__(self, left: Any, right: Any) -> Comparison:
        if self.law is not None and _is_vector(left, self.size) and _is_vector(right, self.size):
            return Comparison(self.mechanism, left, right, self.law.loss(left, right))
        (mine, reader), (theirs, other) = (self._paths(data) for data in (left, right))
        if self.law_pays is None:  # after the first pair it is known how many paths there are
            self.law_pays = len(mine) <= OPEN_LAW_PAYS
            self.law = OpenDistribution.of(self.mechanism, self.size, len(mine)) if self.law_pays else None
        joined = reader.joined(other)
        return Comparison(self.mechanism, left, right, loss_between(mine, theirs), joined)

    def replay(self, comparison: Comparison) -> None:
        """Hold plain runs against the paths that this comparison rests on."""
        sides = comparison.left, comparison.right
        if self.law is not None and all(_is_vector(data, self.size) for data in sides):
            data = unknowns("data", self.size)
            Listing.of(self.mechanism, data, self.law.listed, defer=True).replay(at=sides)
        for data in sides:
            replayed_paths(self.mechanism, data, FunctionReader())

    def _paths(self, data: Any) -> tuple[Sequence[Path], FunctionReader]:
        text = repr(data)
        if text not in self.explored:
            if len(self.explored) >= MOST_KEPT:
                self.explored.clear()
            reader = FunctionReader()
            self.explored[text] = paths_of(self.mechanism, data, reader), reader
        return self.explored[text]


def _entries(slack: Affine) -> list[tuple[int, float]]:
    """The entries of the data that an expression of data alone depends on, with their coefficients."""
    if not all(isinstance(symbol, Unknown) for symbol in slack.terms):
        return []
    return [(int(symbol.name[5:-1]), float(coefficient)) for symbol, coefficient in slack.terms.items()]


def _with(data: Sequence[Any], place: int, value: Any) -> list[Any]:
    return [*data[:place], value, *data[place + 1 :]]


def _is_vector(data: Any, size: int) -> bool:
    return isinstance(data, list) and len(data) == size and all(isinstance(value, int | float) for value in data)
