"""A running search, level after level: contests between pairs, more pairs near the best, training, a playoff, and
confirmation of the winner.

The plan alone determines what a level does. The clock decides only where a search is cut short.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from veridp.adjacency import Pair
from veridp.budget import Deadline, Level, Progress, out_of_time
from veridp.claim import Claim
from veridp.engines.sniper.attack import Goal, Scorer
from veridp.engines.sniper.classifier import QUICK, ModelFamily
from veridp.engines.sniper.confirm import Look, Spending, by_candidate, confirm, early_bound, playoff
from veridp.engines.sniper.pair_attack import (
    AttackCandidate,
    PairTask,
    Setting,
    TaskPool,
    best_attack,
    few_outputs,
    seed_for,
)
from veridp.engines.sniper.pairs import PairStream, Source
from veridp.errors import BadInput, MechanismError
from veridp.kernel.symbols import count_text
from veridp.sampling.sample import check_returns

STAGES = 2  # contests ahead of the last training, at least
SHRINK = 4  # each contest has so many times the samples of the one before, for one in so many of its pairs
FINALISTS, FINALISTS_BY_TABLES = 4, 8  # pairs that go on in any case: more where trying one costs little
GENEROUS = 4  # where different outputs are so few that they are counted, contests have so many times the samples
THOROUGH = 2  # pairs on which models that take long are tried
SMALLEST = 1000  # samples below which a contest says nothing
MOST_CORNERS, MOST_RANDOM, MOST_MOVES = 24, 8, 24
MOST_ROUNDS = 3  # of moves
ABOUT_IN_ALL = 20  # times as many samples are drawn as train the winner
EARLY = 2  # levels so far below the top only secure a bound soon: they settle nothing, and try no slow models
SLOW = (ModelFamily.BOOSTED, ModelFamily.NETWORK)
SEARCHING, EARLY_BOUNDS, CONFIRMING, MAKING_PAIRS, PILOTING, PLAYING_OFF, LEVELS = range(7)  # the streams of the seed


@dataclass(frozen=True)
class LevelPlan:
    """What a level of a search is to do."""

    level: Level
    samples: int
    final: int
    families: tuple[ModelFamily, ...]
    spending: Spending
    alpha: float  # of this level
    stop_at: Claim | None = None
    width: float | None = None
    generosity: int = 1

    def at(self, level: Level) -> LevelPlan:
        """The plan of a level, where this one is that of the top."""
        samples, final = level.of(self.samples), level.of(self.final)
        return replace(self, level=level, samples=samples, final=final, alpha=self.alpha * level.alpha_share)

    @property
    def early(self) -> bool:
        """Whether the level only secures a bound soon."""
        return self.level.below >= EARLY

    def efforts(self, entrants: int = 0) -> list[int]:
        """The samples of each contest between so many pairs, ascending: they end with as few as are finalists."""
        stages = STAGES
        while entrants > FINALISTS * SHRINK**stages:
            stages += 1
        sizes = [self.generosity * self.samples // SHRINK**back for back in range(stages, 0, -1)]
        return [size for size in sizes if size >= SMALLEST] or [self.samples]

    @property
    def playoff(self) -> int:
        """The samples of the playoff's last round."""
        return self.final if self.generosity > 1 else self.final // 2

    def among(self, families: Sequence[ModelFamily]) -> tuple[ModelFamily, ...]:
        """Those of the families that may be used; all that may, if none of these may."""
        return tuple(family for family in families if family in self.families) or self.families

    def changes(self, search: Setting) -> dict[str, object]:
        """How the setting of this level differs from that of the whole search: above all, its samples are its own."""
        below = self.level.below
        return {
            "seed": seed_for(search.seed, LEVELS, below) if below else search.seed,
            "goal": replace(search.goal, final=self.final, alpha=self.alpha * self.spending.last),
            "expected": ABOUT_IN_ALL * self.samples,
        }


@dataclass(frozen=True)
class Failed:
    """A pair on which the mechanism failed."""

    pair: Pair
    error: MechanismError


def attempt(setting: Setting, task: PairTask) -> AttackCandidate | Failed:
    """The best attack on the pair, or how the mechanism failed on it."""
    try:
        return best_attack(setting, task)
    except MechanismError as error:
        return Failed(task.pair, type(error)(*error.args))


@dataclass(frozen=True)
class Entrant:
    """A pair in a contest, and what is tried on it: families of models, or what was learnt on another pair."""

    pair: Pair
    families: tuple[ModelFamily, ...]
    learnt: Scorer | None = None


def worth_more(candidate: AttackCandidate, slow: Sequence[ModelFamily]) -> tuple[ModelFamily, ...]:
    """The families worth trying with more samples: the two best, and those of the slow ones that may add something.

    Where a table of all outputs is best, nothing else can be better; with one column, a network has nothing to add.
    """
    best = candidate.ranking[:2]
    if best[:1] == (ModelFamily.TABLE,):
        return best[:1]
    more = (family for family in slow if family is not ModelFamily.NETWORK or candidate.columns > 1)
    return tuple(dict.fromkeys((*best, *more)))


def finalists(candidates: Sequence[AttackCandidate], goal: Goal, entered: int = 0) -> list[AttackCandidate]:
    """Those of the sorted candidates that may turn out best: their optimistic bounds reach what the first promises.

    Of many pairs one in SHRINK at most; more finalists where tables of counts, which cost little, do best.
    """
    by_tables = candidates[0].ranking[:1] == (ModelFamily.TABLE,)
    most = max(entered // SHRINK, FINALISTS_BY_TABLES if by_tables else FINALISTS)
    first, *others = candidates[:most]
    return [first, *(one for one in others if one.optimistic_bound(goal) >= first.promise)]


def _key(pair: Pair) -> frozenset[str]:
    """The same for a pair and its reversal."""
    return frozenset((repr(pair.left), repr(pair.right)))


@dataclass
class LevelSearch:
    """A running search: what it has drawn, tried and certified so far."""

    plans: Sequence[LevelPlan]  # of the levels, ascending
    pool: TaskPool
    pairs: PairStream
    deadline: Deadline
    progress: Progress | None
    first: Sequence[Pair] = ()  # tried in every level
    looks: list[Look] = field(default_factory=list)
    searched: list[str] = field(default_factory=list)  # where the pairs came from
    moves: int = 0  # from the best, in the last level
    tried: set[object] = field(default_factory=set)  # the pairs
    failures: dict[frozenset[str], Failed] = field(default_factory=dict)
    drawn: int = 0
    tasks: int = 0  # of this level
    early_bounds: int = 0  # of this level
    champion: Pair | None = None  # of the level before
    slow: tuple[ModelFamily, ...] = SLOW  # those not given up: they may add something
    finished: bool = False
    certified: Callable[[], object] = lambda: None  # called after each look
    completed: Callable[[], object] = lambda: None  # called after each level
    refuted: bool = False  # whether to stop, since the claim is refuted
    least_pairs: int = 1  # of a level

    def __post_init__(self) -> None:
        self.plan = self.plans[-1]

    @property
    def setting(self) -> Setting:
        setting: Setting = self.pool.setting
        return setting

    @property
    def best(self) -> float:
        """The best certified bound so far."""
        return max((look.epsilon for look in self.looks), default=0.0)

    def tell(self, stage: str, share: float) -> None:
        if self.progress is not None:
            self.progress(stage, min(max(share, 0.0), 1.0), max(0.0, self.best))

    def keep_time(self) -> None:
        """Raise CutShort when the time is over; called between any two tasks.

        The first level continues to its first bound: this takes a few hundred outputs, and gives a result to report.
        """
        if self.deadline.passed and (self.looks or not self.plan.level.below):
            raise out_of_time(self.deadline.seconds)

    def summary(self) -> list[str]:
        """What was searched, in words."""
        moved = f"{count_text(self.moves, 'move')} from the best"
        lines = [*self.searched, *([moved] if self.moves else [])]
        if not self.finished:
            place = len(self.plans) - self.plan.level.below
            lines.append(f"cut short at level {place} of {len(self.plans)}, of {self.plan.samples} training samples")
        if self.failures:
            first = next(iter(self.failures.values())).pair
            lines.append(f"but {len(self.failures)} on which it failed, such as {first.left} and {first.right}")
        return lines

    # --------------------------------------------------------------------------------------------------------- the way

    def run(self, sources: Sequence[Source], given: Sequence[Pair]) -> None:
        """Run all levels, or as many as it takes to refute the claim."""
        starting = list(given) if given else self.starting_pairs(sources)
        starting = [pair for pair in starting if _key(pair) not in map(_key, self.first)]
        if not starting and not self.first:
            raise BadInput(
                f"{self.setting.mechanism.name}: no pair of neighbours of size {self.pairs.size} to try in "
                f"{self.pairs.domain}; give pairs=[(left, right)], or another domain"
            )
        tried = (*self.first, *starting)
        check_returns(self.setting.mechanism, (side for pair in tried for side in (pair.left, pair.right)))
        for plan in self.plans:
            self.begin(plan)
            self.climb(starting, moving=Source.MOVES in sources)
            if self.refuted or (not plan.early and self._refuted_by(self.looks)):
                break
            if plan is not self.plans[-1]:
                self.completed()
                self.keep_time()
        if not self.looks and self.failures:
            raise next(iter(self.failures.values())).error
        self.finished = True

    def begin(self, plan: LevelPlan) -> None:
        """Start the next level, with its own samples and keys."""
        self.plan = plan
        self.pool.changes = plan.changes(self.pool.shared)
        self.tasks = self.early_bounds = self.moves = 0
        self.failures = {}

    def climb(self, starting: Sequence[Pair], moving: bool) -> None:
        """Find the most promising attack of this level and confirm it."""
        self.prepare((*self.first, *starting)[0])
        many = min(max(self.plan.level.of(len(starting)), self.least_pairs), len(starting))
        pairs = [*self.first, *(starting[place * len(starting) // many] for place in range(many))]
        if self.plan.level.below and self.champion is not None and _key(self.champion) not in map(_key, pairs):
            pairs.append(self.champion)  # the top level tries all pairs, and moves of its own
        entrants = self.entrants(pairs)
        best = self.contest("contest", entrants, self.plan.efforts(len(entrants)))
        if best and moving and not self.refuted:
            best = self.moved(best)
        if best and not self.refuted:
            winner = self.winner(self.trained(best))
            self.champion = winner.pair
            self.confirmed(winner)

    def entrants(self, pairs: Sequence[Pair]) -> list[Entrant]:
        """The pairs, with what is tried on them first."""
        return [Entrant(pair, self.plan.among(QUICK)) for pair in pairs]

    def starting_pairs(self, sources: Sequence[Source]) -> list[Pair]:
        random = self.pairs.random(seed_for(self.setting.seed, MAKING_PAIRS))
        listed: dict[Source, Iterable[Pair]] = {
            Source.PATTERNS: self.pairs.patterns(),
            Source.CORNERS: itertools.islice(self.pairs.corners(), MOST_CORNERS),
            Source.RANDOM: itertools.islice(random, MOST_RANDOM),
        }
        starting: list[Pair] = []
        for source, pairs in listed.items():
            if source in sources:
                more = list(pairs)
                starting += more
                self.searched += [f"{len(more)} {source}"] if more else []
        return starting

    def prepare(self, pair: Pair) -> None:
        """Adapt the plan to a few samples: draw more where they are cheap to learn from."""
        few, drawn = few_outputs(self.pool, pair.left, self.plan.samples, (PILOTING,))
        self.drawn += drawn
        self.keep_time()
        if few:
            self.plan = replace(self.plan, generosity=GENEROUS)

    # -------------------------------------------------------------------------------------------------------- contests

    def contest(self, name: str, entrants: Sequence[Entrant], efforts: Sequence[int]) -> list[AttackCandidate]:
        """The candidates that are left after successive halving, the most promising first."""
        left = list(entrants)
        candidates: list[AttackCandidate] = []
        for contests_left, effort in zip(reversed(range(len(efforts))), efforts, strict=True):
            results = self.found(f"{name} of {count_text(len(left), 'pair')}", self.tasks_for(left, effort, effort))
            if not results:
                break
            candidates = sorted(results, key=lambda candidate: -candidate.promise)
            self.learn_from(candidates)
            self.bound_early(candidates[0], effort)
            if self.refuted:
                break
            left = self.advancing(candidates, len(left), last=contests_left == 1)
        return candidates

    def advancing(self, candidates: Sequence[AttackCandidate], entered: int, last: bool) -> list[Entrant]:
        """The best of the sorted candidates, with the families that are worth more samples.

        Slow models are tried in the last contest, on the best pairs, and on all where quick ones find nothing.
        """
        slow = self.slow if last and not self.plan.early else ()
        return [
            Entrant(one.pair, self.plan.among(worth_more(one, slow if place < THOROUGH or one.promise <= 0 else ())))
            for place, one in enumerate(finalists(candidates, self.setting.goal, entered))
        ]

    def learn_from(self, candidates: Sequence[AttackCandidate]) -> None:
        """Give up slow families that are the best for no pair, unless nothing at all was found."""
        if candidates[0].promise > 0:
            tried = {family for one in candidates for family in one.ranking}
            best = {one.attack.scorer.family for one in candidates}
            self.slow = tuple(family for family in self.slow if family in best or family not in tried)

    def useful(self, families: Sequence[ModelFamily]) -> tuple[ModelFamily, ...]:
        """Those of the families that were not given up, if there are any."""
        return tuple(family for family in families if family in self.slow or family not in SLOW) or tuple(families)

    def found(self, stage: str, tasks: Sequence[PairTask]) -> list[AttackCandidate]:
        """The candidates of the tasks; pairs on which the mechanism fails are recorded."""
        results: list[AttackCandidate] = []
        self.tell(stage, 0.0)
        for number, (task, result) in enumerate(zip(tasks, self.pool.run(attempt, tasks), strict=True), start=1):
            if isinstance(result, Failed):
                self.failures[_key(task.pair)] = result
            else:
                results.append(result)
                self.drawn += result.drawn
                self.tried.add(_key(task.pair))
            self.tell(stage, number / len(tasks))
            self.keep_time()
        return results

    def tasks_for(self, entrants: Sequence[Entrant], samples: int, held_out: int) -> list[PairTask]:
        """A task for each entrant, with samples of its own."""
        first = self.tasks
        self.tasks += len(entrants)
        return [
            PairTask(entrant.pair, samples, held_out, entrant.families, (SEARCHING, first + number), entrant.learnt)
            for number, entrant in enumerate(entrants)
        ]

    def moved(self, best: list[AttackCandidate]) -> list[AttackCandidate]:
        """The candidates after moving away from the best one, as long as that helps.

        Moves are judged by what was learnt on the best pair, and learnt from themselves where that may be better.
        Counts are learnt anew at once: that costs little, and they say nothing of another pair.
        """
        near = replace(self.pairs, seen=set(self.pairs.seen))  # each level gives out its moves anew
        for turn in range(MOST_ROUNDS):
            moves = near.moves(best[0].pair, seed_for(self.setting.seed, MAKING_PAIRS, 1 + turn))
            pairs = list(itertools.islice(moves, self.plan.level.of(MOST_MOVES)))
            if not pairs:
                break
            self.moves += len(pairs)
            champion, families = best[0], self.useful(best[0].ranking)[:1]
            learnt = None if families == (ModelFamily.TABLE,) else champion.attack.scorer
            entrants = [Entrant(pair, () if learnt else families, learnt) for pair in pairs]
            found = self.contest("moves", entrants, self.plan.efforts()[:1])
            if self.refuted:
                break
            best = self.settled(best, found)
            if self.refuted or best[0] is champion:
                break
        return best

    def settled(self, best: list[AttackCandidate], challengers: list[AttackCandidate]) -> list[AttackCandidate]:
        """All of them in order, the challengers after a contest at the effort that the best have passed."""
        champion, families = best[0], self.useful(best[0].ranking)[:2]
        others = finalists([champion, *challengers], self.setting.goal)[1:]
        admitted = [Entrant(one.pair, families) for one in others]
        found = self.contest("challenge", admitted, self.plan.efforts()[-1:]) if admitted else []
        return sorted([*best, *found], key=lambda candidate: -candidate.promise)

    # ---------------------------------------------------------------------------------------- training and confirming

    def trained(self, best: Sequence[AttackCandidate]) -> list[AttackCandidate]:
        """The best candidates trained with all samples, and others as they are, the most promising first."""
        chosen = finalists(best, self.setting.goal)
        entrants = [Entrant(one.pair, self.plan.among(self.useful(one.ranking)[:2])) for one in chosen]
        held_out = 2 * max(self.plan.samples, self.plan.efforts()[-1])
        results = self.found("training the best", self.tasks_for(entrants, self.plan.samples, held_out))
        others = [one for one in best if one not in chosen] if results else chosen
        return sorted([*results, *others], key=lambda candidate: -candidate.promise)

    def winner(self, best: Sequence[AttackCandidate]) -> AttackCandidate:
        """The winner of a playoff, unless the best candidate is expected to refute the claim anyway."""
        contenders = finalists(best, self.setting.goal)
        claim, samples = self.plan.stop_at, self.plan.playoff
        refuting = claim is not None and self.setting.goal.refutes(best[0].promise, claim)
        if len(contenders) < 2 or refuting or samples < self.plan.samples:
            return best[0]
        winner, before = best[0], self.drawn
        for standing in playoff(self.pool, contenders, samples, (PLAYING_OFF,), self.setting.goal):
            winner, self.drawn = standing.best, before + standing.drawn
            self.tell(f"playoff of {len(contenders)} attacks", standing.share)
            self.keep_time()
        return winner

    def bound_early(self, candidate: AttackCandidate, samples: int) -> None:
        """Certify the candidate on a few fresh samples."""
        self.early_bounds += 1
        alpha = self.plan.alpha * self.plan.spending.early_bound(self.early_bounds)
        key = (EARLY_BOUNDS, self.early_bounds)
        self.looks.append(early_bound(self.pool, candidate, samples, alpha, key, self.setting.goal.delta))
        self.drawn += 2 * samples
        self.certified()

    def confirmed(self, winner: AttackCandidate) -> None:
        """Confirm the winner until all samples are drawn.

        The top level ends as soon as the claim is refuted, or the bound is as tight as asked.
        """
        plan, before = self.plan, self.drawn
        looks = confirm(self.pool, winner, plan.final, plan.alpha, (CONFIRMING,), self.setting.goal, plan.spending)
        for event in looks:
            if isinstance(event, float):
                self.tell("confirming", event)
                self.keep_time()
                continue
            self.looks += event
            self.drawn = before + 2 * event[0].bounds.samples
            self.certified()
            if not plan.level.below and (self._refuted_by(event) or any(map(self._is_tight, event))):
                return

    def _refuted_by(self, looks: Sequence[Look]) -> bool:
        claim = self.plan.stop_at
        return claim is not None and any(one.refutes(claim) for one in by_candidate(looks))

    def _is_tight(self, look: Look) -> bool:
        width = self.plan.width
        return width is not None and look.bounds.estimate(look.delta) - look.epsilon <= width
