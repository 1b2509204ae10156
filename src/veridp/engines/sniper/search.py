"""DD-Search: the strongest certified attack on a mechanism that can only be run.

Algorithm 2 of the paper, made stronger: pairs compete by successive halving, the best lead to more pairs near them,
these are trained with all samples, a playoff on many more settles which of them wins, and what the winner certifies is
counted on fresh ones. All of this is done first with few samples, then with more, up to as many as were asked for; the
best bound of all these levels counts. `paper=True` runs the algorithm as published, at one level.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from concurrent.futures import Executor
from typing import Any

from veridp.adjacency import Pair
from veridp.budget import Deadline, Level, Progress, levels, share, whole
from veridp.budget.child_process import Reporter, contained
from veridp.claim import Claim
from veridp.engines.sniper.attack import Goal, sample_size
from veridp.engines.sniper.classifier import ALL, ModelFamily
from veridp.engines.sniper.confirm import ALL_AT_ONCE, Look, Spending
from veridp.engines.sniper.levels import ABOUT_IN_ALL, LevelPlan, LevelSearch
from veridp.engines.sniper.pair_attack import Setting
from veridp.engines.sniper.pairs import PairStream, Source, given_pairs, sources_named
from veridp.engines.sniper.paper import FINAL_SAMPLES, PaperSearch
from veridp.engines.sniper.result import DESCRIBED, AttackResult, finding_of
from veridp.engines.sniper.tasks import TaskPool, load_classifiers
from veridp.errors import BadInput, CutShort
from veridp.mechanism import Function, Mechanism, as_mechanism

SAMPLES, FINAL = 1_000_000, 10_000_000
SECONDS = 120.0
LEAST_SAMPLES = 30  # of the first level, for training
FEW_SAMPLES = 50_000  # with fewer in all, starting workers takes longer than the search


def search(
    mechanism: Mechanism | Function,
    size: int | None = None,
    *,
    pairs: str | Iterable[Any] | None = None,
    samples: int | None = None,
    final_samples: int | None = None,
    seconds: float | None = None,
    confidence: float = 0.95,
    claim: Claim | float | None = None,
    delta: float | None = None,
    width: float | None = None,
    models: Iterable[str] | None = None,
    bits: bool = False,
    paper: bool = False,
    reading: str | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    executor: Executor | None = None,
    workers: int | None = None,
    time_limit: float | None = 60.0,
    **arguments: Any,
) -> AttackResult:
    """The strongest certified attack found: a lower bound on ε that is too high with probability 1 - confidence.

    `pairs` are sources of inputs to try ("patterns", "corners", "random", "moves"; all, if not given), or pairs
    (left, right) themselves. The winner is trained on `samples` outputs of either input and confirmed on
    `final_samples` fresh ones, after searches with a quarter of the samples and pairs, a 16th and so on: the best bound
    of all these levels counts. With a `claim`, no level follows one that refutes it and has at least a quarter of the
    samples. The confirmation of the top level ends as soon as the claim is refuted; with a `width`, as soon as the
    bound is that close to its estimate. The bound is for
    δ = `delta` (that of the claim, or of the mechanism's claim, if not given). `models` restricts the families of
    classifiers. `bits` adds what the bits of floating-point outputs tell, and draws them by the author's own arithmetic
    (one by one, or vectorised). `paper` runs the published configuration: patterns and reversals, one classifier with a
    fixed c = 0.01, one look at the end.

    What is found depends on the seed and these options alone, and not on executor, workers or the speed of the machine,
    unless it is cut short by `seconds`, by the limit on memory or by Ctrl-C. Then it is the best bound until then, and
    `finished` is False; more seconds never give a smaller bound. CutShort is raised where there is no bound yet.
    Nothing is guaranteed about inputs that were not tried; the bound holds whatever was tried. With an `executor` the
    `seconds` are kept between tasks only.
    """
    declared = isinstance(mechanism, Mechanism)
    mechanism = as_mechanism(mechanism, **arguments).stating(size=size)
    confidence, seed = share("confidence", confidence), whole("seed", seed, 0)
    claim, goal_delta = _claims(mechanism, claim, delta)
    spending = ALL_AT_ONCE if paper else Spending()
    families = _families(models, paper)
    load_classifiers()
    deadline = Deadline((math.inf if paper else SECONDS) if seconds is None else seconds)
    most = whole("samples", (sample_size() if paper else SAMPLES) if samples is None else samples)
    final = whole("final_samples", (FINAL_SAMPLES if paper else FINAL) if final_samples is None else final_samples)
    plans = [
        LevelPlan(
            level=level,
            samples=level.of(most),
            final=level.of(final),
            families=families,
            spending=spending,
            alpha=(1 - confidence) * level.alpha_share,
            stop_at=claim,
            width=width,
        )
        for level in ([Level(0, 1.0)] if paper else levels(most, LEAST_SAMPLES))
    ]
    setting = Setting(
        mechanism,
        seed,
        Goal(final, plans[-1].alpha * spending.last, goal_delta),
        bits,
        reading if reading is not None or not bits else ("vectorised" if mechanism.vectorised else "one-by-one"),
        time_limit,
    )
    if workers is None and executor is None and ABOUT_IN_ALL * most < FEW_SAMPLES:
        workers = 1
    chosen = _chosen_pairs(pairs, mechanism, paper, declared or "adjacency" not in mechanism.assumed)
    kind, pairs_of_size = PaperSearch if paper else LevelSearch, PairStream(mechanism, mechanism.size)

    def work(reporter: Reporter) -> AttackResult:
        pool, texts = TaskPool(setting, executor, workers), dict[Look, str]()
        search_run = kind(plans, pool, pairs_of_size, deadline, reporter.progress)

        def finding(in_words: bool) -> AttackResult:
            return finding_of(
                search_run.setting,
                search_run.looks,
                texts,
                size=pairs_of_size.size,
                claim=claim if claim is not None else mechanism.claim,
                confidence=confidence,
                outputs=min(DESCRIBED, search_run.plan.samples) if in_words else 0,
                drawn=search_run.drawn,
                tried=len(search_run.tried),
                searched=tuple(search_run.told()),
                finished=search_run.finished,
                seconds=deadline.spent,
            )

        search_run.certified = lambda: reporter.best(finding(in_words=False))
        search_run.completed = lambda: reporter.best(finding(in_words=True))
        try:
            with pool:
                search_run.run(*chosen)
        except (CutShort, KeyboardInterrupt):
            if not search_run.looks:
                raise
        return finding(in_words=True)

    if executor is not None:  # its threads and connections are this process's
        return work(Reporter(progress))
    return contained(work, deadline, known=(mechanism,), progress=progress)


def _claims(mechanism: Mechanism, claim: Claim | float | None, delta: float | None) -> tuple[Claim | None, float]:
    """The claim to refute, and the δ at which ε is bounded."""
    if claim is not None and not isinstance(claim, Claim):
        claim = Claim(claim, delta or 0.0)
    if delta is not None:
        return claim, Claim(0.0, delta).delta
    known = claim or mechanism.claim
    return claim, known.delta if known is not None else 0.0


def _families(models: Iterable[str] | None, paper: bool) -> tuple[ModelFamily, ...]:
    if models is None:
        return (ModelFamily.LINEAR,) if paper else ALL
    wanted = [models] if isinstance(models, str) else list(models)
    for name in wanted:
        if name not in ALL:
            raise BadInput(f"models = {name!r} is unknown; use some of {', '.join(repr(str(f)) for f in ALL)}")
    return tuple(family for family in ALL if family in wanted)


def _chosen_pairs(
    pairs: str | Iterable[Any] | None, mechanism: Mechanism, paper: bool, declared: bool
) -> tuple[tuple[Source, ...], list[Pair]]:
    """The sources to draw pairs from, and the pairs that were given."""
    if pairs is None:
        return ((Source.PATTERNS,) if paper else tuple(Source)), []
    if isinstance(pairs, str):
        pairs = [pairs]
    given = list(pairs)
    if given and all(isinstance(name, str) for name in given):
        return sources_named(given), []
    return (), given_pairs(given, mechanism.adjacency if declared else None)
