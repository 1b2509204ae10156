"""A search under way: contests between pairs, more pairs near the best, training, a playoff, confirming the winner."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from veridp.adjacency import Pair
from veridp.budget import Deadline, Progress
from veridp.claim import Claim
from veridp.errors import BadInput, MechanismError
from veridp.program.sample import check_returns
from veridp.sniper.classifier import QUICK, Family
from veridp.sniper.confirm import Look, Spending, confirm, glance
from veridp.sniper.crew import Crew
from veridp.sniper.pairs import Pairs, Source
from veridp.sniper.pilot import pilot
from veridp.sniper.playoff import outputs_for, playoff
from veridp.sniper.scout import Candidate, Setting, Task, scout, seed_for

STAGES = 2  # contests ahead of the last training, each with more samples than the one before
CROWD = 64  # with more pairs, one more contest, of fewer samples, comes first
SHRINK = 4  # each contest has so many times the samples of the one before
KEPT, KEPT_BY_TABLES = 6, 16  # pairs that go on to the next contest: more where trying one costs little
SHARE_KEPT = 6  # or one in so many, if these are more
CHALLENGERS, CHALLENGERS_BY_TABLES = 2, 6  # of the best, found by moving away from it
FINALISTS, FINALISTS_BY_TABLES = 2, 8
CONTENDERS, CONTENDERS_BY_TABLES = 4, 8  # of the playoff
GENEROUS = 4  # where different outputs are so few that they are counted, contests have so many times the samples
THOROUGH = 2  # pairs on which models that take long are tried
HURRY = 40.0  # with fewer seconds, they are tried on none
SMALLEST = 1000  # samples below which a contest says nothing
MOST_CORNERS, MOST_RANDOM, MOST_MOVES = 24, 8, 24
MOST_ROUNDS = 3
CLOSE = 0.3  # others than the best are trained too if they promise at most so much less, relatively
WORTH = 0.03  # moves go on while they make the promise so much larger, relatively
SCOUTING_SHARE, MOVING_SHARE, TRAINING_SHARE, PLAYING_SHARE = 0.5, 0.35, 0.4, 0.3  # of the time left as each begins
DRAWING_SHARE = 0.1  # of all the time, for the samples of the last training
PILOTING_SHARE = 0.02  # of all the time: a pilot that takes longer is the last
SCOUTING, GLANCING, CONFIRMING, MAKING_PAIRS, PILOTING, PLAYING_OFF = range(6)  # the streams of the seed


@dataclass(frozen=True)
class Plan:
    """What a search is to do."""

    samples: int
    final: int
    families: tuple[Family, ...]
    spending: Spending
    alpha: float
    stop_at: Claim | None
    width: float | None
    generosity: int = 1

    @property
    def efforts(self) -> list[int]:
        """The samples of each contest, ascending."""
        sizes = [self.generosity * self.samples // SHRINK**back for back in range(STAGES, 0, -1)]
        return [size for size in sizes if size >= SMALLEST] or [self.samples]

    @property
    def playoff(self) -> int:
        """The samples of the playoff's last round."""
        return self.final if self.generosity > 1 else self.final // 2

    def among(self, families: Sequence[Family]) -> tuple[Family, ...]:
        """Those of the families that may be used; all that may, if none of these may."""
        return tuple(family for family in families if family in self.families) or self.families


@dataclass(frozen=True)
class Failed:
    """A pair on which the mechanism failed."""

    pair: Pair
    error: MechanismError


def attempt(setting: Setting, task: Task) -> Candidate | Failed:
    """What scouting the pair finds, or how the mechanism failed on it."""
    try:
        return scout(setting, task)
    except MechanismError as error:
        return Failed(task.pair, type(error)(*error.args))


@dataclass(frozen=True)
class Entrant:
    """A pair in a contest, and the families of models that are tried on it."""

    pair: Pair
    families: tuple[Family, ...]


def worth_more(candidate: Candidate, thorough: bool) -> tuple[Family, ...]:
    """The families worth trying with more samples: the two best; if `thorough`, also those that take longer.

    Where a table of all outputs is best, nothing else can be better; with one column, a network has nothing to add.
    """
    best = candidate.ranking[:2]
    if best[:1] == (Family.TABLE,):
        return best[:1]
    if not thorough:
        return best
    network = () if candidate.columns == 1 else (Family.NETWORK,)
    return tuple(dict.fromkeys((*best, Family.BOOSTED, *network)))


def going_on(candidates: Sequence[Candidate], usual: int, by_tables: int) -> int:
    """How many of the candidates go on: more where tables of counts, which cost little, do best."""
    return by_tables if candidates[0].ranking[:1] == (Family.TABLE,) else usual


@dataclass
class Hunt:
    """A search under way: what it has drawn, tried and certified so far."""

    setting: Setting
    plan: Plan
    crew: Crew
    pairs: Pairs
    deadline: Deadline
    progress: Progress | None
    looks: list[Look] = field(default_factory=list)
    searched: list[str] = field(default_factory=list)
    failures: list[Failed] = field(default_factory=list)
    drawn: int = 0
    tried: int = 0
    tasks: int = 0
    glances: int = 0
    pace: float = 0.0  # seconds for each training sample of the last contest
    finished: bool = True
    certified: Callable[[], None] = lambda: None  # called after each look

    @property
    def best(self) -> float:
        """The best bound that is certified so far."""
        return max((look.epsilon for look in self.looks), default=0.0)

    def tell(self, stage: str, share: float) -> None:
        if self.progress is not None:
            self.progress(stage, min(max(share, 0.0), 1.0), max(0.0, self.best))

    def failed(self) -> list[str]:
        """A sentence about the pairs on which the mechanism failed, if there are any."""
        if not self.failures:
            return []
        first = self.failures[0]
        return [f"but {len(self.failures)} on which it failed, such as {first.pair.left} and {first.pair.right}"]

    # --------------------------------------------------------------------------------------------------------- the way

    def run(self, sources: Sequence[Source], given: Sequence[Pair]) -> None:
        """Find the most promising attack and confirm it."""
        starting = list(given) if given else self.starting_pairs(sources)
        if not starting:
            raise BadInput(
                f"{self.setting.mechanism.name}: no pair of neighbours of size {self.pairs.size} to try in "
                f"{self.pairs.domain}; give pairs=[(left, right)], or another domain"
            )
        check_returns(self.setting.mechanism, (side for pair in starting for side in (pair.left, pair.right)))
        self.prepare(starting[0])
        self.tried = len(starting)
        entrants = [Entrant(pair, self.plan.among(QUICK)) for pair in starting]
        efforts = self.plan.efforts
        if len(entrants) > CROWD and efforts[0] >= SHRINK * SMALLEST:
            efforts.insert(0, efforts[0] // SHRINK)
        best = self.contest("contest", entrants, efforts, self.deadline.part(SCOUTING_SHARE))
        if Source.MOVES in sources:
            best = self.moved(best)
        self.confirmed(self.winner(self.trained(best)))

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
        """Plan by what a few samples tell: more where they are cheap to learn from, fewer where they take long."""
        found = pilot(self.crew, pair.left, PILOTING_SHARE * self.deadline.seconds, (PILOTING,))
        self.drawn += found.drawn
        affordable = DRAWING_SHARE * self.deadline.seconds / (5 * found.cost)
        if affordable < self.plan.samples:
            self.plan = replace(self.plan, samples=max(min(SMALLEST, self.plan.samples), int(affordable)))
            self.searched.append(f"with {self.plan.samples} training samples, for want of time")
            self.finished = False
        elif found.few and affordable > GENEROUS * self.plan.samples:
            self.plan = replace(self.plan, generosity=GENEROUS)
        elif found.few:
            self.finished = False  # with more time, or on a faster machine, contests would have more samples

    # -------------------------------------------------------------------------------------------------------- contests

    def contest(
        self, name: str, entrants: Sequence[Entrant], efforts: Sequence[int], deadline: Deadline
    ) -> list[Candidate]:
        """The candidates that are left after successive halving, the most promising first."""
        left = list(entrants)
        candidates: list[Candidate] = []
        for contests_left, effort in zip(reversed(range(len(efforts))), efforts, strict=True):
            results = self.scouted(f"{name} of {len(left)} pairs", left, effort, deadline)
            if results:
                candidates = sorted(results, key=lambda candidate: -candidate.promise)
                self.glanced(candidates[0], effort)
            if len(results) < len(left) or deadline.passed:
                self.finished = False
            if deadline.passed or not results:
                break
            left = self.heirs(candidates, len(left), last=contests_left == 1)
        return candidates

    def heirs(self, candidates: Sequence[Candidate], entered: int, last: bool) -> list[Entrant]:
        """Those of the sorted candidates that go on, with the families that are worth more samples.

        Models that take long are tried in the last contest, on the best, and on all where the quick ones see nothing.
        """
        kept = max(entered // SHARE_KEPT, going_on(candidates, KEPT, KEPT_BY_TABLES))
        thorough = THOROUGH if self.deadline.seconds >= HURRY else 0
        return [
            Entrant(one.pair, self.plan.among(worth_more(one, last and (place < thorough or one.promise <= 0))))
            for place, one in enumerate(candidates[:kept])
        ]

    def scouted(self, stage: str, entrants: Sequence[Entrant], effort: int, deadline: Deadline) -> list[Candidate]:
        """A candidate for each entrant, or for as many as there is time for; one at least."""
        tasks = self.tasks_for(entrants, effort, effort)
        start = time.monotonic()

        def timely() -> Iterator[Task]:
            for number, task in enumerate(tasks):
                if number and deadline.passed:
                    return
                yield task

        results = self.found(stage, timely(), len(tasks))
        if not results and self.failures and not self.looks:
            raise self.failures[0].error
        self.pace = (time.monotonic() - start) / max(1, len(results) * effort)
        return results

    def found(self, stage: str, tasks: Iterable[Task], count: int) -> list[Candidate]:
        """What the tasks find, of which there are so many; pairs on which the mechanism fails are noted."""
        results: list[Candidate] = []
        self.tell(stage, 0.0)
        for number, result in enumerate(self.crew.run(attempt, tasks), start=1):
            if isinstance(result, Failed):
                self.failures.append(result)
            else:
                results.append(result)
                self.drawn += result.drawn
            self.tell(stage, number / count)
        return results

    def affordable(self, wanted: int, effort: int, deadline: Deadline) -> int:
        """For how many of the wanted pairs there is time, at the pace of the last contest."""
        most = math.floor(min(deadline.left / (self.pace * effort), wanted))
        if most < wanted:
            self.finished = False
        return most

    def tasks_for(self, entrants: Sequence[Entrant], samples: int, held_out: int) -> list[Task]:
        """A task for each entrant, with samples of its own."""
        first = self.tasks
        self.tasks += len(entrants)
        return [
            Task(entrant.pair, samples, held_out, entrant.families, (SCOUTING, first + number))
            for number, entrant in enumerate(entrants)
        ]

    def moved(self, best: list[Candidate]) -> list[Candidate]:
        """The candidates after moving away from the best one, as long as that helps and there is time."""
        deadline = self.deadline.part(MOVING_SHARE)
        rounds = 0
        while rounds < MOST_ROUNDS and not deadline.passed:
            key = (MAKING_PAIRS, 1 + rounds)
            most = self.affordable(MOST_MOVES, self.plan.efforts[0], deadline)
            near = self.pairs.moves(best[0].pair, seed_for(self.setting.seed, *key))
            pairs = list(itertools.islice(near, most))
            if not pairs:
                break
            rounds += 1
            self.tried += len(pairs)
            self.searched.append(f"{len(pairs)} moves from the best")
            families = best[0].ranking[:1]
            entrants = [Entrant(pair, families) for pair in pairs]
            found = self.contest("moves", entrants, self.plan.efforts[:1], deadline)
            champion = best[0]
            best = self.settled(best, found[: going_on(best, CHALLENGERS, CHALLENGERS_BY_TABLES)], deadline)
            if not best[0].promise > champion.promise + WORTH * abs(champion.promise):
                break
        return best

    def settled(self, best: list[Candidate], challengers: list[Candidate], deadline: Deadline) -> list[Candidate]:
        """All of them in order, the challengers after a contest at the effort that the best have passed."""
        enough = best[0].promise - CLOSE * abs(best[0].promise)
        most = self.affordable(len(challengers), self.plan.efforts[-1], deadline)
        hopeful = [Entrant(one.pair, best[0].ranking[:2]) for one in challengers[:most] if one.promise >= enough]
        found = self.contest("challenge", hopeful, self.plan.efforts[-1:], deadline) if hopeful else []
        return sorted([*best, *found], key=lambda candidate: -candidate.promise)

    # ---------------------------------------------------------------------------------------- training and confirming

    def trained(self, best: Sequence[Candidate]) -> list[Candidate]:
        """The best candidates trained with all samples, and others as they are, the most promising first."""
        enough = best[0].promise - CLOSE * abs(best[0].promise)
        others = best[1 : going_on(best, FINALISTS, FINALISTS_BY_TABLES)]
        finalists = [best[0], *(candidate for candidate in others if candidate.promise >= enough)]
        entrants = [Entrant(one.pair, self.plan.among(one.ranking[:2])) for one in finalists]
        samples, held_out = self.plan.samples, 2 * max(self.plan.samples, self.plan.efforts[-1])
        affordable = TRAINING_SHARE * self.deadline.left / (self.pace * len(entrants) * (samples + held_out) / 2)
        if affordable < 1:
            samples, held_out = (max(SMALLEST, int(affordable * count)) for count in (samples, held_out))
            self.searched.append(f"the best with {samples} training samples, for want of time")
            self.finished = False
        tasks = self.tasks_for(entrants, samples, held_out)
        results = self.found("training the best", tasks, len(tasks))
        others = [one for one in best if one not in finalists] if results else finalists
        return sorted([*results, *others], key=lambda candidate: -candidate.promise)

    def winner(self, best: Sequence[Candidate]) -> Candidate:
        """The best after a playoff, where there is time for one and more to learn than what refutes the claim."""
        hopeful = [one for one in best if one.hoped(self.setting.goal) >= best[0].promise]
        contenders = hopeful[: going_on(best, CONTENDERS, CONTENDERS_BY_TABLES)]
        claim, samples = self.plan.stop_at, self.plan.playoff
        refuting = claim is not None and claim.refuted_by(lambda _: best[0].promise)
        if len(contenders) < 2 or refuting or samples < self.plan.samples:
            return best[0]
        deadline = self.deadline.part(PLAYING_SHARE)
        affordable = deadline.left / (self.pace / 2 * outputs_for(len(contenders)))
        if affordable < samples:
            self.finished = False
            if affordable < self.plan.samples:
                return best[0]
        winner, before = best[0], self.drawn
        samples = int(min(samples, affordable))
        for standing in playoff(self.crew, contenders, samples, (PLAYING_OFF,), self.setting.goal):
            winner, self.drawn = standing.best, before + standing.drawn
            self.tell(f"playoff of {len(contenders)} attacks", standing.share)
            if deadline.passed:
                self.finished = False
                break
        return winner

    def glanced(self, candidate: Candidate, samples: int) -> float:
        """Certify the candidate on a few fresh samples, and tell how long a sample took."""
        self.glances += 1
        alpha = self.plan.alpha * self.plan.spending.glance(self.glances)
        start = time.monotonic()
        key = (GLANCING, self.glances)
        self.looks.append(glance(self.crew, candidate, samples, alpha, key, self.setting.goal.delta))
        self.drawn += 2 * samples
        self.certified()
        return (time.monotonic() - start) / samples

    def confirmed(self, winner: Candidate) -> None:
        """Look at the winner until all samples are drawn, the claim is refuted, or the bound is as tight as asked."""
        final = self.plan.final
        if math.isfinite(self.deadline.seconds):
            # How many samples there will be is settled before the first is drawn: so no look depends on another.
            cost = self.glanced(winner, min(self.plan.samples, max(1, final // 10)))
            affordable = int(0.9 * self.deadline.left / cost)
            if affordable < final:
                final = max(1, min(SMALLEST, final), affordable)
                self.searched.append(f"with {final} final samples, for want of time")
                self.finished = False
        spending, alpha, delta = self.plan.spending, self.plan.alpha, self.setting.goal.delta
        before = self.drawn
        for event in confirm(self.crew, winner, final, alpha, (CONFIRMING,), delta, spending):
            if isinstance(event, float):
                self.tell("confirming", event)
            else:
                self.looks += event
                self.drawn = before + 2 * event[0].bounds.samples
                self.certified()
                if any(map(self._enough, event)):
                    return
            if self.deadline.passed and self.looks:
                self.finished = False
                return

    def _enough(self, look: Look) -> bool:
        plan = self.plan
        if plan.stop_at is not None and look.refutes(plan.stop_at):
            return True
        return plan.width is not None and look.bounds.estimate(look.delta) - look.epsilon <= plan.width
