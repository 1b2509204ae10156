"""The search: restarts, the best of them refined on the exact loss and confirmed exactly or on fresh samples."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from veridp.adjacency import Domain, Pair
from veridp.budget import Deadline, Progress, share, whole
from veridp.budget.child_process import Reporter, contained
from veridp.budget.notebook_progress import shows_progress
from veridp.claim import LOSS_ERROR
from veridp.engines.finder.estimate import TARGET
from veridp.engines.finder.restart import RestartPool, Searcher
from veridp.engines.finder.result import (
    MOST_SAMPLES,
    FinderResult,
    Restart,
    SearchSettings,
    VerifiedPair,
    judge_by_samples,
    judge_event,
    judge_pair,
)
from veridp.errors import BadInput
from veridp.mechanism import Function, Mechanism, as_mechanism
from veridp.sampling.checkpoint import Journal

SECONDS = 60.0
RESTARTS = 50
SAMPLES = 2**18
CONFIDENCE = 0.99
POLISHED = 6  # restarts that are climbed on exactly
EXPLORE_SHARE = 0.15  # of the time, to list the paths with the data open; past it, they are listed for each input
RESTART_SHARE = 0.6  # of the time, for restarts; the rest is for climbing on and for verifying
POLISH_SHARE = 0.5  # of the time left after that


@shows_progress
def search(
    mechanism: Mechanism | Function,
    size: int | None = None,
    domain: Domain | None = None,
    *,
    restarts: int = RESTARTS,
    seconds: float = SECONDS,
    seed: int = 0,
    progress: Progress | None = None,
    random: bool = False,
    executor: Executor | None = None,
    workers: int | None = None,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    start: Iterable[Pair | tuple[Any, Any]] = (),
    confidence: float = CONFIDENCE,
    samples: int = SAMPLES,
    target: float = TARGET,
    **arguments: Any,
) -> FinderResult:
    """The worst neighbours and event that random restarts, each climbed from, find within the domain.

    A restart draws a pair and an event (those of `start` come first), climbs on the relaxed estimate of ε by SLSQP,
    and estimates ε unrelaxed on fresh noise, from up to `samples` draws or until its interval is narrower than
    `target`. The best are climbed on by the exact ε. What is found is judged by the exact engine, else on up to 10^7
    fresh samples at the `confidence`. `random` is the baseline: random pairs and events, as many as climbs evaluate.

    The result depends on the seed alone, unless the time runs out: not on the number of `workers` (processes), nor on
    the `executor`, with which the `seconds` are kept between tasks only. Restarts are kept in the file `checkpoint`;
    with `resume`, the search goes on from there, with as many `seconds` again.
    Cut short by `seconds`, by the limit on memory or by Ctrl-C, it is the best that is verified until then; CutShort
    where there is nothing. Raises NotExplorable where the mechanism's paths cannot be listed.
    """
    restarts, samples = whole("restarts", restarts), whole("samples", samples)
    workers = None if workers is None else whole("workers", workers)
    mechanism = as_mechanism(mechanism, **arguments).stating(size=size, domain=domain)
    settings = SearchSettings(
        mechanism,
        mechanism.size,
        mechanism.domain,
        whole("seed", seed, 0),
        1 - share("confidence", confidence),
        target,
        samples,
        tuple(_checked(mechanism, pair) for pair in start),
    )
    deadline = Deadline(seconds)
    journal = Journal.at(checkpoint, resume, "finder", mechanism, (settings, restarts, random))

    def work(reporter: Reporter) -> FinderResult:
        searcher = Searcher(settings, deadline.part(EXPLORE_SHARE))
        run = _FinderRun(searcher, restarts, deadline, reporter, executor, workers, journal)
        return run.baseline() if random else run.search()

    return contained(work, deadline, known=(mechanism,), progress=progress, here=executor is not None)


def _checked(mechanism: Mechanism, given: Pair | tuple[Any, Any]) -> Pair:
    pair = given if isinstance(given, Pair) else Pair(*given, "given")
    pair = Pair(_as_list(pair.left), _as_list(pair.right), pair.pattern)
    if not mechanism.adjacency.adjacent(pair.left, pair.right):
        raise BadInput(f"start: {pair.left!r} and {pair.right!r} are not neighbours under {mechanism.adjacency}")
    return pair


def _as_list(data: Any) -> Any:
    """Arrays and tuples as lists of plain numbers: inputs are compared and shown as such."""
    return np.asarray(data).tolist() if isinstance(data, tuple | np.ndarray) else data


class _FinderRun:
    """A search under way."""

    def __init__(
        self,
        searcher: Searcher,
        count: int,
        deadline: Deadline,
        reporter: Reporter,
        executor: Executor | None,
        workers: int | None,
        journal: Journal | None,
    ) -> None:
        self.searcher, self.settings = searcher, searcher.settings
        self.count, self.deadline, self.reporter = count, deadline, reporter
        self.executor, self.workers, self.journal = executor, workers, journal
        self.reported: VerifiedPair | None = None  # the best until now that is known exactly, its paths replayed
        self.restarts: list[Restart] = []
        self.polished: list[Restart] = []
        self.finished = searcher.in_time
        self.searched = list(searcher.searched())

    # -------------------------------------------------------------------------------------------------- stages

    def search(self) -> FinderResult:
        try:
            with RestartPool(self.searcher, self.executor, self.workers, journal=self.journal) as workers:
                self._run(workers, "restart")
                self._polish(workers)
            finding = self._judged()
        except KeyboardInterrupt:
            finding = self._interrupted()
        return self._found(finding)

    def baseline(self) -> FinderResult:
        self.searched[-1] = "random pairs and events, not climbed from"
        try:
            with RestartPool(self.searcher, self.executor, self.workers, journal=self.journal) as workers:
                self._run(workers, "baseline")
            finding = self._of_event(self._ranked()[0]) or self._sampled(self._ranked()[0])
        except KeyboardInterrupt:
            finding = self._interrupted()
        return self._found(finding)

    def _run(self, workers: RestartPool, task: str) -> None:
        deadline = self.deadline.part(RESTART_SHARE)
        for restart in workers.run(task, range(self.count), deadline):
            self.restarts.append(restart)
            self._report()
            self._tell(f"restart {len(self.restarts)} of {self.count}", len(self.restarts) / self.count * RESTART_SHARE)
            if restart.verified == math.inf:
                return
        self.finished = self.finished and len(self.restarts) == self.count

    def _polish(self, workers: RestartPool) -> None:
        """Climb on the exact ε of the best restarts' events."""
        best = _distinct(self._ranked())[:POLISHED]
        if best[0].rank == math.inf:
            return
        self.searched.append("the best climbed on by the exact ε")
        deadline = self.deadline.part(POLISH_SHARE)
        for restart in workers.run("polish", best, deadline):
            self.polished.append(restart)
            self._report()
            self._tell("climbing on exactly", RESTART_SHARE + (1 - RESTART_SHARE) * len(self.polished) / POLISHED / 2)
            if restart.rank == math.inf:
                return
        self.finished = self.finished and len(self.polished) == len(best) and not deadline.passed

    def _judged(self) -> VerifiedPair:
        """The exact ε of the best pair, over all events; else of its event; else what samples say."""
        best = self._ranked()[0]
        if self.deadline.passed and best.pair is None and self.reported is not None:
            return self.reported
        finding = judge_pair(self.settings.mechanism, best.left, best.right, self.deadline.left)
        if finding is None:
            self.finished = self.finished and not self.deadline.passed
            return self._of_event(best) or self._sampled(best)
        if finding.epsilon < math.inf and best.pair is None:
            self._tell("climbing on exactly", 0.9)
            finding = self._climbed(best, finding)
        return self._simplified(finding)

    def _climbed(self, best: Restart, finding: VerifiedPair) -> VerifiedPair:
        """A last climb, by the exact ε of the pair over all events, where it leads further."""
        deadline = self.deadline.part(0.9)
        climbed = self.searcher.polish_pair(best, deadline.left)
        self.finished = self.finished and not deadline.passed
        further = judge_pair(self.settings.mechanism, climbed.left, climbed.right, self.deadline.left)
        return finding if further is None or further.epsilon <= finding.epsilon else further

    def _simplified(self, finding: VerifiedPair) -> VerifiedPair:
        """The same with the entries rounded to as few digits as cost nothing, for people to read."""
        mechanism, witness = self.settings.mechanism, finding.witness
        for digits in range(4):
            left, right = (_rounded(side, digits, self.settings.domain) for side in (witness.left, witness.right))
            if left is None or right is None or not mechanism.adjacency.adjacent(left, right) or self.deadline.passed:
                continue
            simple = judge_pair(mechanism, left, right, self.deadline.left)
            if simple is not None and simple.epsilon >= finding.epsilon - LOSS_ERROR:
                return simple
        return finding

    def _interrupted(self) -> VerifiedPair:
        """What is verified of the best restart so far; the interrupt itself where nothing is."""
        self.finished = False
        if self.reported is None:
            raise KeyboardInterrupt
        return self.reported

    # --------------------------------------------------------------------------------------------------- parts

    def _ranked(self) -> list[Restart]:
        """All that was found, the best first: by what is verified, else by a lower estimate."""
        return sorted([*self.polished, *self.restarts], key=lambda restart: (-restart.rank, restart.number))

    def _of_event(self, restart: Restart) -> VerifiedPair | None:
        return judge_event(self.settings.mechanism, restart.left, restart.right, restart.event)

    def _report(self) -> None:
        """Report the best restart, if its exact ε is known and better than what was reported, after a replay."""
        best = self._ranked()[0]
        known = 0.0 if self.reported is None else self.reported.epsilon
        if best.verified is None or best.verified <= known:
            return
        finding = self._of_event(best)
        if finding is not None and finding.epsilon > known:
            self.reported = finding
            self.reporter.best(replace(self._found(finding), finished=False))

    def _sampled(self, restart: Restart) -> VerifiedPair:
        self._tell("verifying on fresh samples", 0.9)
        seed = int(np.random.SeedSequence(self.settings.seed, spawn_key=(2**31,)).generate_state(1)[0])
        finding = judge_by_samples(
            self.settings.mechanism,
            restart.left,
            restart.right,
            restart.event,
            confidence=1 - self.settings.alpha,
            most=MOST_SAMPLES,
            deadline=self.deadline,
            seed=seed,
            executor=self.executor,
            workers=self.workers,
        )
        self.finished = self.finished and finding.finished
        return finding

    def _tell(self, stage: str, share: float) -> None:
        self.reporter.progress(stage, share, max(0.0, self._ranked()[0].rank))

    def _found(self, finding: VerifiedPair) -> FinderResult:
        return FinderResult(
            self.settings.mechanism,
            self.settings.size,
            finding.epsilon,
            finding.witness,
            finding.how,
            tuple(self.searched),
            self.finished,
            self.deadline.spent,
            tuple(self.restarts),
            finding.hoeffding,
        )


def _rounded(data: Any, digits: int, domain: Domain) -> Any:
    """The input with its numbers rounded; None where it is none of numbers, or rounding leaves the domain."""
    entries = data if isinstance(data, list) else [data]
    if not all(isinstance(entry, float) for entry in entries):
        return None
    rounded = [round(entry, digits) + 0.0 for entry in entries]  # no negative zero
    inside = (
        all(domain[0] <= entry <= domain[1] for entry in rounded)
        if isinstance(domain, tuple) and len(domain) == 2
        else all(entry in domain for entry in rounded)
    )
    if not inside:
        return None
    return rounded if isinstance(data, list) else rounded[0]


def _distinct(restarts: Sequence[Restart]) -> list[Restart]:
    """The restarts, those with a form that has not been met twice before: others climb to the same place."""
    met: dict[Any, int] = {}
    kept = []
    for restart in restarts:
        form = restart.candidate.form
        met[form] = met.get(form, 0) + 1
        if met[form] <= 2:
            kept.append(restart)
    return kept
