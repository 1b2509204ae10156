"""What has been found so far: engines add to it, and at any moment it gives a verdict."""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from veridp.adjacency import Pair
from veridp.audit.case import AuditCase, run_once
from veridp.audit.snippet import snippet
from veridp.budget import Deadline, OutOfTime, Progress, at_most, within
from veridp.budget.child_process import Reporter, inside, reason_of
from veridp.claim import LOSS_ERROR, Claim, Interval, Witness, number
from veridp.errors import CutShort, EnginesDisagree, Nondeterministic, NotExact, NotExplorable
from veridp.kernel.state.memory import Watch
from veridp.notions import Notion, PrivacyBounds
from veridp.sampling.outputs import OutputCounts
from veridp.verdict import Detectable, Evidence, FloatCost, Remark, Standing, Verdict

OWN = ("case", "deadline", "listener", "watch", "_reporter")  # what a process does not tell its parent
MEETING_TOLERANCE = 0.01  # a proof and a witness meet if they are this close, relatively
LIBRARIES = ("veridp", "numpy", "scipy", "scikit-learn", "opendp", "diffprivlib")


class Findings:
    """The interval for ε as it closes, the best witness, and who found what."""

    def __init__(self, case: AuditCase, deadline: Deadline, progress: Progress | None) -> None:
        self.case, self.deadline, self.listener = case, deadline, progress
        self.size = case.size  # of the inputs that the verdict speaks of
        self.lower, self.upper = 0.0, math.inf
        self.bound: Notion | None = None  # the upper bound in the notion of the claim
        self.witness: Witness | None = None
        self.evidence: list[Evidence] = []
        self.searched: list[str] = []
        self.remarks: list[Remark] = []
        self.caveats: list[str] = []
        self.moves: list[list[float]] = []  # differences of inputs that are worth a look
        self.first_pairs: tuple[Pair, ...] = ()  # for engines that sample: the exact one could not compare them
        self.candidates: list[Pair] = []  # on which runs showed a fault, or cost most
        self.first_run: OutputCounts | None = None  # what it returned
        self.state_kept = ""  # what a run left behind for the next, in words
        self.left_out = ""  # branches as rare as rounding errors that were left out, in words
        self.rounding = 0.0  # by how much it may change a probability, relatively, as a proof says
        self.alignment = self.scope = ""
        self.of_every_size = False  # whether what is proved is proved of every size
        self.alpha = 0.0
        self.smallest_mass: float | None = None
        self.results: dict[str, object] = {}  # what engines that sampled returned, by their names
        self.detectable: Detectable | None = None
        self.outputs_per_second: float | None = None  # of one process
        self.as_floats: FloatCost | None = None
        self.finished = True
        self.exact = False  # whether the exact engine can speak of this mechanism
        self.running = ""  # the step under way
        self.so_far = ""  # what it has found
        self.began = 0.0  # when it began, by the clock that all processes share
        self.closed: set[str] = set()  # the steps that ended, or were cut short
        self.watch: Watch | None = None  # of the state that the mechanism had before its first run in this process
        self._reporter = Reporter(progress)

    # -------------------------------------------------------------------------------------------- step by step

    def step(self, name: str, work: Callable[[Findings], object], share: float = 1.0) -> None:
        """Do the work with a share of the time that is left, unless that was tried before.

        A step whose time or memory is used up adds what it had, and the next one has its turn.
        """
        if name in self.closed or self.deadline.passed:
            self.finished = self.finished and name in self.closed
            return
        deadline = self.deadline.part(share)
        self.running, self.began, self.so_far = name, deadline.started, ""
        self.report()
        self._reporter.until(deadline)
        limit = None if inside() or math.isinf(deadline.seconds) else deadline.seconds
        try:
            with within(deadline), at_most(limit):
                work(self)
        except (CutShort, OutOfTime, MemoryError) as error:
            self.cut(reason_of(error, deadline))
        self.closed.add(name)
        self.running = ""

    def cut(self, reason: BaseException) -> None:
        """Note what the step under way had found when it was cut short."""
        self.finished = False
        seconds = time.monotonic() - self.began if self.running else 0.0
        sentences = (self.so_far, str(reason) or "cut short: interrupted")
        self.note(self.running or "audit", "; ".join(filter(None, sentences)), seconds)
        self.closed.add(self.running)

    def told_to(self, reporter: Reporter) -> Findings:
        """These findings, reported to a parent process from now on."""
        self._reporter = reporter
        return self

    def report(self) -> None:
        """Make what is known now what remains if this process is ended."""
        self._reporter.best(self.state())

    def state(self) -> dict[str, Any]:
        """All that was found."""
        return {name: value for name, value in vars(self).items() if name not in OWN}

    # ------------------------------------------------------------------------------------------- how it stands

    @property
    def keeps_state(self) -> bool:
        """Whether a run so far has left state behind: what paths tell from then on is not what a first run does."""
        if self.watch is not None and not self.state_kept:
            try:
                self.watch.look_back()
            except (Nondeterministic, NotExplorable) as reason:
                self._keeps(str(reason))
        return bool(self.state_kept)

    def returns_as_at_first(self) -> bool:
        """Whether a run on the noise of the very first returns the same; to be asked where all noise is adopted.

        State that cannot be read, such as that of the operating system, shows by this alone: later runs are all alike.
        """
        if self.first_run is not None and repr(run_once(self.case).distinct()) != repr(self.first_run):
            self._keeps("its first run returned something else on the same noise than a later one")
        return not self.state_kept

    def _keeps(self, state: str) -> None:
        self.state_kept = state
        self.caveats.append("it keeps state between runs: samples show what it does after its first runs")
        self.note("explore", f"nothing is concluded from paths: {state}", 0.0)

    @property
    def refuted(self) -> bool:
        return self.witness is not None and self.witness.refutes(self.case.claim)

    @property
    def proved(self) -> bool:
        claim = self.case.claim
        return claim.covers(self.upper) if claim.notion is None else claim.covers_bound(self.bound)

    @property
    def met(self) -> bool:
        """Whether witness and proof meet: nothing more is to be known."""
        return self.lower >= self.upper * (1 - MEETING_TOLERANCE)

    # ------------------------------------------------------------------------------------------- what is found

    def prove(self, epsilon: float, alignment: str, scope: str, proof: PrivacyBounds | None = None) -> None:
        """A proof that ε holds within the scope, at the claimed δ.

        A claim in another notion needs the `proof` itself, for what it says in that notion.
        """
        if proof is not None:
            self.bound = self.case.claim.bound_of(proof)
        if epsilon < self.upper:
            self.upper, self.alignment, self.scope = epsilon, alignment, scope
            self._agree()
        elif self.proved and not self.scope:
            self.alignment, self.scope = alignment, scope

    def witness_found(self, epsilon: float, witness: Witness) -> bool:
        """A witness for this ε (at the claimed δ); whether it is better than what was known."""
        claim = self.case.claim
        error = max(self.case.mechanism.probability_error, self.rounding)
        if error and witness.confidence == 1:
            witness = witness.with_error(error)
            epsilon = min(epsilon, self.shown_by(witness))
        refutes = witness.refutes(claim)
        if refutes:
            epsilon = max(epsilon, self.shown_by(witness))
        elif claim.excludes(epsilon):
            # What no event shows refutes nothing: the bound is the event's, or the claim if rounding alone exceeds it.
            rounded = not claim.excludes(epsilon - LOSS_ERROR)
            epsilon = claim.tolerated.epsilon if rounded else self.shown_by(witness)
        better = epsilon > self.lower
        told_again = self.witness is not None and self.witness.events == witness.events  # and now perhaps in words
        if better or told_again or (refutes and not self.refuted):
            self.lower, self.witness = max(epsilon, self.lower), witness
            self._agree()
        return better

    def turn_to(self, size: int) -> None:
        """Speak of inputs of another size from now on: bounds and witnesses of this one say nothing about them."""
        self.case, self.size = self.case.of_size(size), size
        self.lower, self.upper, self.bound, self.witness = 0.0, math.inf, None, None
        self.alignment = self.scope = ""
        self.smallest_mass, self.exact = None, False

    def shown_by(self, witness: Witness) -> float:
        """The ε at the claimed δ that the witness shows."""
        return max(witness.epsilon(self.case.claim.tolerated.delta).lower, 0.0)

    def _agree(self) -> None:
        """Witness and proof check each other: a computed witness above a proof is a fault in veridp itself, a sampled
        one is the false alarm that its confidence allows, and gives way."""
        if self.lower <= self.upper:
            return
        if self.witness is not None and self.witness.confidence < 1:
            self.lower, self.witness = 0.0, None
            self.note("audit", "a sampled witness above the proof was a false alarm and is dropped", 0.0)
        elif not (self.refuted and self.proved) and not Claim(self.upper).excludes(self.lower - LOSS_ERROR):
            self.lower = self.upper
        else:
            raise EnginesDisagree(
                f"{self.case.mechanism.name}: ε = {self.lower:.9g} between two inputs, but {self.upper:.9g} is proved "
                f"{self.scope}; one of the engines is wrong. Please report it with the mechanism's code"
            )

    def note(self, engine: str, finding: str, seconds: float) -> None:
        self.evidence.append(Evidence(engine, finding, seconds))

    @contextmanager
    def timed(self, engine: str) -> Iterator[list[str]]:
        """Notes what the body puts into the list, as what this engine found, with the seconds that it took."""
        started = time.monotonic()
        sentences: list[str] = []
        try:
            yield sentences
        except CutShort as cut:
            self.finished = False
            sentences.append(str(cut))
        except NotExact as reason:  # of a known loss that no event with a computable probability shows
            sentences.append(f"not exact: {reason}")
        finally:
            self.note(engine, "; ".join(sentences) or "cut short", time.monotonic() - started)

    def tell(self, stage: str, lower: float = 0.0) -> None:
        """Shows what is being tried, and the interval."""
        if self.listener is not None:
            known = Interval(min(max(self.lower, lower), self.upper), self.upper)
            share = min(self.deadline.spent / self.deadline.seconds, 1.0)
            self._reporter.progress(f"{stage}, ε in [{number(known.lower)}, {number(known.upper)}]", share, 0.0)

    # -------------------------------------------------------------------------------------------- the verdict

    def verdict(self) -> Verdict:
        """What can be said now."""
        case = self.case.of_size(self.size)
        proved, refuted = self.proved, self.refuted
        return Verdict(
            standing=Standing.REFUTED if refuted else Standing.PROVED if proved else Standing.NOT_REFUTED,
            claim=case.claim,
            epsilon=Interval(self.lower, self.upper),
            witness=self.witness,
            evidence=tuple(self.evidence),
            mechanism=str(case.mechanism),
            scope=self.scope,
            alignment=self.alignment,
            searched=tuple(self.searched),
            smallest_mass=self.smallest_mass,
            detectable=None if proved or refuted else self.detectable,
            alpha=self.alpha,
            look_at=() if proved else self._look_at(),
            snippet="" if self.witness is None else snippet(case, self.witness),
            seed=case.seed,
            versions=_versions(),
            finished=self.finished,
            assumed={**case.mechanism.assumptions, **({"left out": self.left_out} if self.left_out else {})},
            caveats=tuple(self.caveats),
            proved=self.bound,
            subject=case.mechanism,
            results=dict(self.results),
            as_floats=self.as_floats,
            outputs_per_second=self.outputs_per_second,
        )

    def _look_at(self) -> tuple[Remark, ...]:
        if self.remarks or not self.refuted or self.witness is None:
            return tuple(self.remarks)
        return (Remark(f"the output tells the two inputs apart where {self.witness.event}", *self.case.defined_at()),)


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for library in LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            continue
    return found
