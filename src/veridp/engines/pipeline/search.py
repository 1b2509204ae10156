"""The search over data: pairs of neighbours on which two runs of a program show a fault, each as small as can be."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from veridp.adjacency import Adjacency, Domain, Pair, Rows
from veridp.adjacency.base import is_interval
from veridp.adjacency.records import is_frame, rows_of
from veridp.budget import Deadline, Progress, check, whole
from veridp.budget.child_process import Reporter, contained
from veridp.budget.notebook_progress import shows_progress
from veridp.claim import Claim, number
from veridp.engines.pipeline.compare import SECONDS, VARIED_COST, claiming, compared
from veridp.engines.pipeline.data import Table, neighbours, simpler
from veridp.engines.pipeline.result import Candidate, Fault, PipelineResult
from veridp.errors import BadInput, MechanismFailed
from veridp.kernel.symbols import count_text
from veridp.mechanism import Function, Mechanism
from veridp.presentation import Presentable
from veridp.verdict import Remark, assumed_text

MAX_PAIRS = 96  # that are compared
MAX_SHRINKS = 60  # comparisons to make one pair smaller
SAME_COST = 1e-6  # relatively
MORE_NOISE = 4  # further comparisons of the costliest pair
FaultKey = tuple[Fault, str, int]


@dataclass(frozen=True)
class PipelineSearch(Presentable):
    """The smallest pair found for each fault and line, and the pair whose releases cost most."""

    mechanism: Mechanism
    found: tuple[PipelineResult, ...]
    costliest: PipelineResult | None
    pairs: int  # that were compared
    runs: int  # of the program
    seconds: float
    seed: int = 0
    finished: bool = True
    stated: str = ""  # the adjacency, and the domain where there is no example
    unpriced: int = 0  # pairs that show no fault, though what their releases cost is not known
    unknown: PipelineResult | None = None  # the first of these

    @classmethod
    def of(cls, result: PipelineResult) -> PipelineSearch:
        """The comparison of one pair as a search that tried no other."""
        return cls(
            result.mechanism, (result,), None, 1, result.runs, result.seconds, result.seed, result.finished, "given"
        )

    @property
    def claim(self) -> Claim | None:
        """What the program claims."""
        return self.mechanism.claim

    @property
    def shown(self) -> PipelineResult | None:
        """The pair to look at first: one that shows a fault, or else the costliest."""
        return self.found[0] if self.found else self.costliest or self.unknown

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """All that the pairs show, each fault of a line once."""
        return tuple({_key(one): one for result in self.found for one in result.candidates}.values())

    @property
    def lost(self) -> tuple[Any, ...]:
        """Where noise went out of sight, in the pairs that are kept."""
        kept = [*self.found, *(one for one in (self.costliest, self.unknown) if one is not None)]
        return tuple(dict.fromkeys(remark for result in kept for remark in result.lost))

    @property
    def searched(self) -> tuple[str, ...]:
        """What was tried, in words."""
        unknown = f"; the cost is not known on {self.unpriced} of them" if self.unpriced else ""
        return (f"two aligned runs on {count_text(self.pairs, 'pair')} of neighbours, {self.stated}{unknown}",)

    def to_dict(self) -> dict[str, Any]:
        """The result as plain data, in the words of `veridp schema`."""
        return {
            "mechanism": str(self.mechanism),
            "claim": self.claim and self.claim.to_dict(),
            "found": [result.to_dict() for result in self.found],
            "costliest": self.costliest and self.costliest.to_dict(),
            "unknown": self.unknown and self.unknown.to_dict(),
            "pairs": self.pairs,
            "runs": self.runs,
            "searched": list(self.searched),
            "seed": self.seed,
            "seconds": self.seconds,
            "finished": self.finished,
        }

    def __str__(self) -> str:
        count = len(self.candidates)
        head = f"{self.mechanism}: {count_text(count, 'candidate') if count else 'no candidate'}; {self.searched[0]}"
        parts = [str(result) for result in self.found]
        if self.costliest is not None and not any(result is self.costliest for result in self.found):
            parts.append(f"the pair that costs most: {self.costliest}")
        if self.unknown is not None and not self.found:
            parts.append(f"a pair whose cost is not known: {self.unknown}")
        return "\n".join([head, *parts])


@shows_progress
def search(
    program: Mechanism | Function,
    example: Any = None,
    *,
    adjacency: str | Adjacency | None = None,
    domain: Domain | None = None,
    size: int | None = None,
    seed: int = 0,
    max_pairs: int = MAX_PAIRS,
    seconds: float = SECONDS,
    progress: Progress | None = None,
    **arguments: Any,
) -> PipelineSearch:
    """The faults that pairs of neighbours show, and on how small a pair each does.

    Pairs come from the adjacency and the `example`, an ordinary input: a data frame, an array or a list of records.
    Records are added, removed and replaced: by extremes, duplicates, NaN, unseen categories, values outside the bounds,
    large integers; also from no data, one record, and records that are all the same. Without an adjacency, one record
    more or less is assumed where there is an example; where there is none, and a size is stated, no others are tried.
    Nothing is proved where nothing is found.
    """
    mechanism = claiming(program, arguments).stating(adjacency=adjacency, domain=domain, size=size)
    if example is not None and "adjacency" in mechanism.assumed:
        mechanism = replace(mechanism.stating(adjacency="add-remove"), assumed=mechanism.assumed)
    whole("max_pairs", max_pairs)
    task = _Search(mechanism, example, seed, max_pairs)
    return contained(task.run, Deadline(seconds), known=(mechanism,), progress=progress)


class _Search:
    """Compares pair after pair."""

    def __init__(self, mechanism: Mechanism, example: Any, seed: int, max_pairs: int) -> None:
        self.mechanism, self.example, self.seed, self.max_pairs = mechanism, example, seed, max_pairs
        self.started = time.monotonic()
        self.relation = mechanism.adjacency
        if example is not None and not (hasattr(example, "__len__") or is_frame(example)):
            raise BadInput(f"example = {example!r} is not a data set; give a data frame, an array or a list of records")
        self.table = Table.of(example, mechanism.domain, "domain" in mechanism.assumed, mechanism.size)
        stated = f"adjacency {self.relation}"
        self.stated = (
            stated
            if example is not None or isinstance(mechanism.domain, Rows)
            else f"{stated}, domain {mechanism.domain}"
        )
        if mechanism.assumed & {"adjacency"}:
            self.stated = assumed_text({"adjacency": str(self.relation)})
        self.any_size = example is not None or "size" in mechanism.assumed or not self.relation.on_records
        self.pairs = self.runs = self.unpriced = 0
        self.found: dict[FaultKey, PipelineResult] = {}
        self.costliest: PipelineResult | None = None
        self.unknown: PipelineResult | None = None
        self.failure: MechanismFailed | None = None

    def run(self, reporter: Reporter) -> PipelineSearch:
        for pair in itertools.islice(self._pairs(), self.max_pairs):
            check()
            self.pairs += 1
            try:
                result = self._compare(pair, self._seed_of(self.pairs))
            except MechanismFailed as error:  # on both sides alike; not on other pairs, perhaps
                self.failure = error
                continue
            self._take_cost(result)
            if not result.candidates and not result.priced:
                self.unpriced += 1
                self.unknown = self.unknown or result
            for candidate in result.candidates:
                if _key(candidate) not in self.found:
                    self.found[_key(candidate)] = result
                    reporter.best(self._so_far(finished=False))
                    smallest = self._shrunk(result, _key(candidate))
                    self.found[_key(candidate)] = smallest
                    for other in smallest.candidates:
                        self.found.setdefault(_key(other), smallest)
            reporter.best(self._so_far(finished=False))
            reporter.progress("comparing runs", self.pairs / self.max_pairs, 0.0)
        if self.costliest is None and not self.found and self.failure is not None:
            raise self.failure
        if self.costliest is not None:
            self.costliest = self._with_other_noise(self.costliest)
        return self._so_far(finished=True)

    def _pairs(self) -> Iterator[Pair]:
        made = neighbours(self.table, self.mechanism)
        return filter(self._has_size, made)

    def _has_size(self, pair: Pair) -> bool:
        """Whether the inputs have the stated size, one of them perhaps a record more; no other refute a claim."""
        sizes = () if self.any_size else (len(_records(pair.left)), len(_records(pair.right)))
        return not sizes or (min(sizes) == self.mechanism.size and max(sizes) <= min(sizes) + self.relation.extra)

    def _inside(self, pair: Pair) -> bool:
        """Whether the inputs hold values of the stated domain alone; an example of the data states none."""
        return self.example is None and in_domain(self.mechanism, pair)

    def _seed_of(self, place: int) -> int:
        """Other noise for every pair: a way that the program takes rarely is then met on some of them."""
        return int(np.random.SeedSequence([self.seed, place]).generate_state(1)[0])

    def _compare(self, pair: Pair, seed: int) -> PipelineResult:
        result = compared(self.mechanism, pair.left, pair.right, seed, pair.pattern)
        self.runs += result.runs
        return result

    def _take_cost(self, result: PipelineResult) -> None:
        """Keep the pair whose known cost is largest, of those that the stated domain holds."""
        if not math.isfinite(result.epsilon) or "outside" in result.pattern:
            return
        best = -1.0 if self.costliest is None else self.costliest.epsilon
        tighter = self.costliest is not None and result.tight > self.costliest.tight
        if result.epsilon > best * (1 + SAME_COST) or (tighter and result.epsilon >= best * (1 - SAME_COST)):
            self.costliest = result

    def _with_other_noise(self, result: PipelineResult) -> PipelineResult:
        """The costliest of several comparisons of this pair: one whose cost is not known, if there is one; it says so
        where the costs differ."""
        results = [result]
        for k in range(MORE_NOISE):
            check()
            try:
                results.append(self._compare(result.pair, self._seed_of(self.max_pairs + 1 + k)))
            except MechanismFailed:
                continue
        known = [one for one in results if one.priced]
        shown = max(results, key=lambda one: (not one.priced, one.epsilon))
        low, high = min(one.epsilon for one in known), max(one.epsilon for one in known)
        sentence = ""
        if len(known) < len(results):
            unknown = f"{len(results) - len(known)} of {len(results)} runs"
            sentence = f"with other noise, what the releases of this pair cost is not known in {unknown}"
        elif high > low * (1 + VARIED_COST):
            seen = f"ε from {number(low)} to {number(high)} in {len(results)} runs"
            sentence = f"what the releases of this pair cost depends on the noise: {seen}"
        return replace(shown, pattern=result.pattern, lost=(*shown.lost, *([Remark(sentence)] if sentence else [])))

    def _so_far(self, finished: bool) -> PipelineSearch:
        smallest = tuple({id(result): result for result in self.found.values()}.values())
        seconds = time.monotonic() - self.started
        return PipelineSearch(
            self.mechanism,
            smallest,
            self.costliest,
            self.pairs,
            self.runs,
            seconds,
            self.seed,
            finished,
            self.stated,
            self.unpriced,
            self.unknown,
        )

    def _shrunk(self, result: PipelineResult, key: FaultKey) -> PipelineResult:
        """The smallest pair found by removing and simplifying records that still shows the fault on this line."""
        if not self.relation.on_records:
            return result
        left, right = (_records(side) for side in (result.left, result.right))
        left_over, inside = MAX_SHRINKS, self._inside(result.pair)
        again = True
        while again and left_over:
            again = False
            for mine, theirs in simpler(left, right):
                if not left_over:
                    break
                try:
                    pair = Pair(self.table.build(mine), self.table.build(theirs), result.pattern)
                    adjacent = self.relation.adjacent(pair.left, pair.right)
                except (TypeError, ValueError, OverflowError, BadInput):
                    continue
                if (
                    not adjacent
                    or repr(mine) == repr(theirs)
                    or not self._has_size(pair)
                    or (inside and not self._inside(pair))
                ):
                    continue
                left_over -= 1
                try:
                    trial = self._compare(pair, result.seed)
                except MechanismFailed:
                    continue
                if any(_key(candidate) == key for candidate in trial.candidates):
                    result, left, right, again = trial, mine, theirs, True
                    break
        return result


def in_domain(mechanism: Mechanism, pair: Pair) -> bool:
    """Whether both inputs hold values of the domain alone: no other refute a claim.

    Of a list, these are its values themselves: 1.0 is not the 1 that it has, and code may well tell them apart.
    """
    domain: Any = mechanism.domain
    relation = mechanism.adjacency
    if relation.lists_inputs:
        return True

    def inside(value: Any) -> bool:
        if is_interval(domain):
            return isinstance(value, int | float) and bool(domain[0] <= value <= domain[1])
        return any(type(value) is type(each) and value == each for each in domain)

    sides = ([pair.left], [pair.right]) if relation.single else (_records(pair.left), _records(pair.right))
    return all(inside(value) for side in sides for value in side)


def _records(data: Any) -> list[Any]:
    if is_frame(data):
        return [tuple(row) for row in rows_of(data)]
    if hasattr(data, "tolist"):
        return [tuple(row) if isinstance(row, list) else row for row in data.tolist()]
    return list(data)


def _key(candidate: Candidate) -> FaultKey:
    return candidate.fault, candidate.file, candidate.line
