"""Two inputs compared: ε, δ, the privacy profile, the trade-off curve, Rényi divergences, ρ, μ, and a witness."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, reduce
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from veridp.budget import Deadline, OutOfTime, at_most
from veridp.budget.child_process import contained
from veridp.claim import LOSS_ERROR, Claim, Interval, Witness, as_floats_note, number
from veridp.engines.exact.distribution import factors_of, only_path_of, replayed_paths, within_floats
from veridp.engines.exact.event import ExactEvent
from veridp.engines.exact.functions import FunctionReader
from veridp.engines.exact.loss import Atom, Mixture, Peak, PrivacyLoss, Product
from veridp.engines.exact.normal_bounds import least_mu, least_rho
from veridp.engines.exact.pieces import Factor, factors, leaves_alike
from veridp.engines.exact.space import in_step, loss_between, loss_of_factors
from veridp.errors import BadInput, MechanismFailed, NotExact
from veridp.kernel.flow.loops import Loops
from veridp.kernel.output import Raised
from veridp.kernel.slivers import slivers_text
from veridp.mechanism import Function, Mechanism, as_mechanism
from veridp.result import LowerBound

if TYPE_CHECKING:
    from veridp.engines.exact.certified import Enclosure

Array = NDArray[np.float64]
EPSILON_STEP = 1e-15  # relative precision of an ε at a δ
SMALLEST_DELTA = 1e-300  # whose logarithm stands for that of 0
LARGEST_EPSILON = 700.0  # past this, e^ε overflows
SHORTEST_LIMIT = 1e-3  # seconds, where the time is over before the work begins
LARGEST_LEVEL = 20.0  # of loss, of a test on a trade-off curve
LOSS_TOLERANCE = 1e-12  # losses this close, relatively, are taken to be equal


@dataclass(frozen=True)
class ComparisonRow:
    """A class of outputs: its probability on either side, and its largest loss in absolute value."""

    event: ExactEvent
    left: float
    right: float
    loss: float


@dataclass(frozen=True)
class EnclosedTest:
    """The outputs whose loss is above a level, with intervals that hold their probability on either side."""

    level: float
    left: Interval
    right: Interval


def _sum(intervals: Sequence[Interval]) -> Interval:
    """The interval of a sum of probabilities, rounded outwards."""
    lower, upper = math.fsum(one.lower for one in intervals), math.fsum(one.upper for one in intervals)
    return Interval(max(0.0, math.nextafter(lower, -math.inf)), min(1.0, math.nextafter(upper, math.inf)))


@dataclass(frozen=True)
class NotionCosts:
    """What two inputs cost in other notions of privacy than ε and δ; None where that cannot be computed.

    Where time ran out, `finished` is False, and what it did not suffice for is None too.
    """

    rho: float | None
    mu: float | None
    renyi: dict[float, float | None]  # by order
    finished: bool = True

    def to_dict(self) -> dict[str, Any]:
        orders = [{"alpha": alpha, "epsilon": epsilon} for alpha, epsilon in self.renyi.items()]
        return {"rho": self.rho, "mu": self.mu, "renyi": orders, "finished": self.finished}

    def __str__(self) -> str:
        orders = [f"D_{alpha:g} = {_known(epsilon)}" for alpha, epsilon in self.renyi.items()]
        end = "" if self.finished else "; cut short"
        return f"zCDP: ρ = {_known(self.rho)}; GDP: μ = {_known(self.mu)}; Rényi: {', '.join(orders)}{end}"


def _known(value: float | None) -> str:
    return "not computed" if value is None else number(value)


@dataclass(frozen=True, eq=False)
class Comparison(LowerBound):
    """The privacy loss of a mechanism between two inputs, computed from its paths, without sampling.

    Probabilities are right up to rounding (relative errors near 1e-13). ε over classes of outputs with several
    numeric entries that share noise is found by a search and may fall short of the true supremum; so may one that is
    only approached far out in a tail, which is reported from a point there. Where the comparison
    was certified, `enclosure` holds for certain, and so does what the witness says.
    """

    mechanism: Mechanism
    left: Any
    right: Any
    loss: PrivacyLoss
    reader: FunctionReader = field(default_factory=FunctionReader)
    enclosure: Enclosure | None = None
    seconds: float = 0.0

    searched: ClassVar[tuple[str, ...]] = ("the two inputs",)
    finished: ClassVar[bool] = True  # half a comparison is not returned

    def _lower(self, delta: float) -> float:
        """What the two inputs show of ε at this δ, beyond what the loss and the mechanism round off."""
        error = self.mechanism.probability_error
        if error:
            return max(witness.with_error(error).epsilon(delta).lower for witness in self.class_witnesses())
        if delta:
            return self.epsilon_at(delta) - LOSS_ERROR
        return self.epsilon - LOSS_ERROR if self.enclosure is None else self.enclosure.epsilon.lower

    @property
    def epsilon(self) -> float:
        """The supremum of |ln p/q| over all outputs; inf where one input can give what the other cannot.

        Where `is_lower_bound`, over the outputs that are told apart.
        """
        return max(0.0, self.loss.supremum, self.loss.backward)

    @property
    def left_out(self) -> str:
        """Branches that were left out, as rare as rounding errors, in words; empty where there are none."""
        return slivers_text(self.reader.slivers)

    @property
    def is_lower_bound(self) -> bool:
        """Whether outputs whose loss is not known were taken for one, or rare branches left out: ε may be larger."""
        return self.reader.takes_together or bool(self.reader.slivers)

    @property
    def _turned(self) -> bool:
        """Whether the loss is larger from right to left, by more than rounding; or shown by one output alone."""
        forward, backward = self.loss.supremum, self.loss.backward
        if forward == backward == math.inf:
            return self.loss.reversed.peak.event.is_one_output and not self.loss.peak.event.is_one_output
        return backward > forward and not math.isclose(
            backward, forward, rel_tol=LOSS_TOLERANCE, abs_tol=LOSS_TOLERANCE
        )

    @property
    def _peak(self) -> Peak:
        return self.loss.reversed.peak if self._turned else self.loss.peak

    @cached_property
    def witness(self) -> Witness:
        """The direction and the event in which the loss comes (close) to its supremum, with both probabilities.

        The intervals leave room for rounding; those of a certified comparison are enclosures.
        """
        turned, peak = self._turned, self._peak
        inputs = (self.right, self.left) if turned else (self.left, self.right)
        above, below = (self._probability(log) for log in (peak.log_left, peak.log_right))
        if self.enclosure is not None:
            sides = self.enclosure.left_probability, self.enclosure.right_probability
            above, below = sides[::-1] if turned else sides
        return Witness(
            *inputs,
            self.reader.shown(peak.event),
            above,
            below,
            arguments=dict(self.mechanism.arguments),
        )

    def _probability(self, log: float) -> Interval:
        """A probability from its computed logarithm: 0 may be one too small for floats, unless ε is infinite."""
        too_small = log == -math.inf and math.isfinite(self.epsilon)
        return Interval.of_log_probability(-sys.float_info.max if too_small else log)

    @cached_property
    def shown_epsilon(self) -> float:
        """The ε that single events show beyond what the mechanism rounds off; all of it for an author's function."""
        return max(0.0, self._lower(0.0)) if self.mechanism.probability_error else self.epsilon

    @property
    def as_floats(self) -> str:
        """A note where the ε rests on what a library rounds off; empty where it does not."""
        return as_floats_note(self.epsilon, self.shown_epsilon)

    def refutes(self, claim: Claim) -> bool:
        """Whether the loss between these two inputs exceeds the claim, after allowing for the rounding of the loss.

        If the mechanism rounds its own probabilities, a single event has to exceed it beyond that rounding too.
        """
        if claim.delta and not self.mechanism.probability_error:
            both = self.loss, self.loss.reversed
            return claim.refuted_by_delta(lambda epsilon: max(_delta_lower(loss, epsilon) for loss in both))
        return super().refutes(claim)

    def class_witnesses(self) -> Iterator[Witness]:
        """The witness, and the classes of outputs as events, in both directions."""
        yield self.witness
        for row in self.table:
            sides = [(self.left, row.left), (self.right, row.right)]
            for (above, more), (below, less) in (sides, sides[::-1]):
                mine, theirs = (Interval.of_probability(min(1.0, mass)) for mass in (more, less))
                yield Witness(above, below, row.event, mine, theirs, arguments=dict(self.mechanism.arguments))

    def delta(self, epsilon: float) -> float:
        """The least δ such that (ε, δ) holds between these two inputs, in both directions.

        Where several independent numeric entries move, it is the upper end of `delta_bounds`.
        """
        return self.delta_bounds(epsilon).upper

    def delta_bounds(self, epsilon: float) -> Interval:
        """An interval that holds δ(ε): a point, up to rounding, unless losses had to be convolved on a lattice."""
        if not epsilon >= 0:
            raise BadInput(f"epsilon must be a number >= 0, got {epsilon!r}")
        forward, backward = self.loss.delta(epsilon), self.loss.reversed.delta(epsilon)
        return Interval(max(forward.lower, backward.lower), max(forward.upper, backward.upper))

    def renyi(self, alpha: float) -> float:
        """The Rényi divergence of order alpha >= 1, the larger of the two directions; 1 is KL, inf is ε.

        It is inf where one input can give what the other cannot, and where the integral diverges. Its relative error is
        near 1e-12, or 1e-15 times alpha where that is more, as far as the loss is known so well. Raises NotExact where
        the integral does not settle, and over several numeric entries that share noise.
        """
        if not alpha >= 1:
            raise BadInput(f"alpha must be a number >= 1, got {alpha!r}")
        if math.isinf(alpha):
            return self.epsilon
        return max(loss.divergence(float(alpha)).value for loss in (self.loss, self.loss.reversed))

    @cached_property
    def rho(self) -> float:
        """The least ρ such that ρ-zCDP holds between these two inputs: the supremum of D_α/α over α > 1.

        Found by a search over finitely many orders, it is a lower bound, in practice equal to the supremum.
        """
        return least_rho(self.loss)

    @cached_property
    def mu(self) -> float:
        """The least μ such that μ-GDP holds between these two inputs: δ(ε) is at most δ_μ(ε) everywhere.

        Found by a search over finitely many tests, it is a lower bound, in practice equal to the supremum.
        """
        return least_mu(self.loss)

    def notions(self, alphas: Sequence[float] = (2, 4, 8, 16, 32), *, seconds: float = math.inf) -> NotionCosts:
        """The least ρ and μ, and Rényi divergences of these orders; as many of them as the seconds suffice for."""
        deadline, late = Deadline(seconds), []

        def known(cost: Callable[[], float]) -> float | None:
            try:
                with at_most(max(deadline.left, SHORTEST_LIMIT)):
                    return cost()
            except NotExact:
                return None
            except OutOfTime:
                late.append(cost)
                return None

        renyi = {float(alpha): known(partial(self.renyi, alpha)) for alpha in alphas}
        rho, mu = known(lambda: self.rho), known(lambda: self.mu)
        return NotionCosts(rho, mu, renyi, not late)

    def epsilon_at(self, delta: float) -> float:
        """The least ε such that (ε, δ) holds between the two inputs; from below where δ is known between bounds."""
        if not delta:
            return self.epsilon
        largest = min(self.epsilon, LARGEST_EPSILON)

        def excess(epsilon: float) -> float:  # nearly a parabola for normal noise, nearly a line for Laplace
            return math.log(max(self.delta_bounds(epsilon).lower, SMALLEST_DELTA) / delta)

        if excess(0.0) <= 0:
            return 0.0
        if excess(largest) > 0:
            return math.inf if math.isinf(self.epsilon) else largest
        high = next(end for power in itertools.count() if excess(end := min(2.0**power, largest)) <= 0)
        low = found = float(brentq(excess, 0.0, high, xtol=EPSILON_STEP, rtol=EPSILON_STEP))
        while low > 0 and excess(low) <= 0:
            low = max(0.0, found - 2 * max(found - low, EPSILON_STEP * found))
        return low

    def witness_above(self, epsilon: float) -> Witness | None:
        """The event that attains δ(ε), with both probabilities; None where there is none, or these are out of reach."""
        forward, backward = self.loss, self.loss.reversed
        turned = backward.delta(epsilon).lower > forward.delta(epsilon).lower
        try:
            parts = (backward if turned else forward).parts_above(epsilon)
            if not parts:
                return None
            event = parts[0].event if len(parts) == 1 else ExactEvent(either=tuple(part.event for part in parts))
            shown = self.reader.shown(event)
        except NotExact:
            return None
        inputs = (self.right, self.left) if turned else (self.left, self.right)
        sides = [part.left for part in parts], [part.right for part in parts]
        above, below = (self._probability(math.log(sum_) if (sum_ := math.fsum(side)) else -math.inf) for side in sides)
        return Witness(*inputs, shown, above, below, arguments=dict(self.mechanism.arguments))

    def event_above(self, epsilon: float) -> list[ExactEvent]:
        """The event that attains δ(ε) from left to right, as disjoint parts."""
        return [self.reader.shown(part.event) for part in self.loss.parts_above(epsilon)]

    def profile(self, epsilons: Sequence[float] | Array | None = None) -> tuple[Array, Array]:
        """The privacy profile: ε values, and δ at each."""
        if epsilons is None:
            top = self.epsilon if math.isfinite(self.epsilon) else 10.0
            epsilons = np.linspace(0.0, max(top, 1e-6), 101)
        return np.asarray(epsilons, dtype=float), np.array([self.delta(epsilon) for epsilon in epsilons])

    def tradeoff(self, count: int = 201, *, largest: float = LARGEST_LEVEL) -> tuple[Array, Array]:
        """The trade-off (ROC) curve of the best tests: probability on the right, and on the left, of their events.

        Each test accepts the outputs whose loss is above a level; levels run from +ε to -ε, and not beyond `largest`.
        Where these have no exact probability, the curve is the upper envelope that the privacy profile allows.
        """
        high, low = min(self.loss.supremum, largest), -min(self.loss.backward, largest)
        levels = np.unique([*np.linspace(high, low, count), *(row.loss for row in self._atoms)])[::-1]
        try:
            tests = [self.loss.above(float(np.nextafter(level, -np.inf))) for level in levels]
        except NotExact:
            return self._envelope(count, largest)
        curve = np.array(sorted({(0.0, 0.0), *((right, left) for left, right in tests), (1.0, 1.0)}))
        return curve[:, 0], curve[:, 1]

    def certified_tradeoff(self, count: int = 21) -> list[EnclosedTest]:
        """Best tests at levels of loss from +ε to -ε, their probabilities enclosed in ball arithmetic.

        Each is a certified point of the trade-off curve between the two inputs, or above it: a type I error of at most
        the upper end on the right, a type II error of at most 1 minus the lower end on the left. Raises NotExact where
        the levels of loss are no events whose probability can be enclosed.
        """
        from veridp.engines.exact.certified import enclose

        mine, theirs = (replayed_paths(self.mechanism, data, FunctionReader()) for data in (self.left, self.right))
        high, low = min(self.loss.supremum, LARGEST_LEVEL), -min(self.loss.backward, LARGEST_LEVEL)
        found = []
        for level in np.linspace(high, low, count + 2)[1:-1].tolist():
            parts = self.loss.parts_above(level)
            left, right = (_sum([enclose(paths, part.event) for part in parts]) for paths in (mine, theirs))
            found.append(EnclosedTest(level, left, right))
        return found

    def _envelope(self, count: int, largest: float) -> tuple[Array, Array]:
        """The largest probability on the left that the profile allows, for each on the right."""
        top = min(max(self.loss.supremum, self.loss.backward), largest)
        right, most = np.linspace(0.0, 1.0, count), np.ones(count)
        for epsilon in np.linspace(0.0, top, count // 2):
            forward, backward = self.loss.delta(epsilon).upper, self.loss.reversed.delta(epsilon).upper
            most = np.minimum(most, forward + math.exp(epsilon) * right)
            most = np.minimum(most, 1 - math.exp(-epsilon) * (1 - right - backward))
        return right, most

    @property
    def _atoms(self) -> list[ComparisonRow]:
        return [row for row in self.table if math.isfinite(row.loss)] if isinstance(self.loss, Mixture) else []

    @cached_property
    def table(self) -> list[ComparisonRow]:
        """The classes of outputs, each with its probabilities and its largest loss; the worst first."""
        parts = self.loss.parts if isinstance(self.loss, Mixture) else (self.loss,)
        rows = []
        for part in parts:
            inner = part.parts if isinstance(part, Product) else (part,)
            event = reduce(ExactEvent.__and__, (atom.event for atom in inner if isinstance(atom, Atom)), ExactEvent())
            rows.append(ComparisonRow(self.reader.shown(event), *part.masses(), max(part.supremum, part.backward)))
        return sorted(rows, key=lambda row: -row.loss)

    def to_dict(self) -> dict[str, Any]:
        """The comparison as plain data, in the words of `veridp schema`."""
        claim = self.claim
        document: dict[str, Any] = {
            "mechanism": str(self.mechanism),
            "left": self.left,
            "right": self.right,
            "epsilon": self.epsilon,
            "claim": claim and claim.to_dict(),
            "assumed": self.mechanism.assumptions,
            "refuted": claim and self.refuted,
            "as_floats": bool(self.as_floats),
            "witness": self.witness.to_dict(),
            "outputs": [
                {"output": str(row.event), "left": row.left, "right": row.right, "loss": row.loss} for row in self.table
            ],
        }
        if claim is not None and claim.delta:
            document["delta"] = self.delta(claim.epsilon)
        return document

    def __str__(self) -> str:
        relation = ">=" if self.is_lower_bound else "="
        between = f"{self.mechanism.name}: ε {relation} {self.epsilon:.6g} between {self.left} and {self.right}"
        return f"{between}, but for {self.left_out}" if self.left_out else between


def compare(
    mechanism: Mechanism | Function,
    left: Any,
    right: Any,
    *,
    certified: bool = False,
    seconds: float = math.inf,
    **arguments: Any,
) -> Comparison:
    """The exact privacy loss between two inputs.

    With `certified`, ε and the probabilities of the witness's event are enclosed by ball arithmetic as well: see
    `Enclosure` for what is then certain.

    Raises BadInput where a mechanism with a declared adjacency does not call them neighbours, NotExplorable where its
    paths cannot be listed or plain runs contradict them, NotExact where their probabilities are out of reach, and
    CutShort after `seconds`.
    """
    declared = isinstance(mechanism, Mechanism)
    mechanism = as_mechanism(mechanism, **arguments)
    if (declared or "adjacency" not in mechanism.assumed) and not mechanism.adjacency.adjacent(left, right):
        raise BadInput(
            f"{left!r} and {right!r} are not neighbours under {mechanism.adjacency}{_sizes(left, right)}; "
            f"compare two that are, or give the mechanism another adjacency"
        )
    deadline, bound = Deadline(seconds), mechanism
    with within_floats():
        return contained(
            lambda _: replace(_compared(bound, left, right, certified), seconds=deadline.spent),
            deadline,
            known=(mechanism, left, right),
        )


def _compared(mechanism: Mechanism, left: Any, right: Any, certified: bool) -> Comparison:
    readers = FunctionReader(), FunctionReader()
    if not certified:
        loss = _loss(mechanism, left, right, readers)
        return Comparison(mechanism, left, right, loss, readers[0].joined(readers[1]))
    from veridp.engines.exact.certified import certify  # balls are loaded only where they are asked for

    sides = zip((left, right), readers, strict=True)
    mine, theirs = (replayed_paths(mechanism, data, reader) for data, reader in sides)
    comparison = Comparison(mechanism, left, right, loss_between(mine, theirs), readers[0].joined(readers[1]))
    return replace(comparison, enclosure=certify(mine, theirs, comparison._peak.event))


def _delta_lower(loss: PrivacyLoss, epsilon: float) -> float:
    """A lower bound on δ(ε) in one direction, whatever the rounding of the probabilities that it is computed from."""
    try:
        mass = loss.above(epsilon)[0]  # e^ε times that on the right is at most as much
    except NotExact:
        mass = 1.0
    return loss.delta(epsilon).lower - LOSS_ERROR * mass


def _loss(mechanism: Mechanism, left: Any, right: Any, readers: Sequence[FunctionReader]) -> PrivacyLoss:
    sides = list(zip((left, right), readers, strict=True))
    alike = _alike_factors(mechanism, left, right)
    if alike is not None:
        return loss_of_factors(*alike)
    (mine, listed), (theirs, listed_there) = (factors_of(mechanism, data, reader) for data, reader in sides)
    for listing in (listed, listed_there):
        listing.replay()
    if not in_step(mine, theirs):
        mine, theirs = (factors_of(mechanism, data, reader, split=False)[0] for data, reader in sides)
    outputs = [key.template.tree for part in (*mine, *theirs) for key in part.classes]
    if all(isinstance(output, Raised) for output in outputs):
        raise MechanismFailed(
            f"{mechanism.name} {outputs[0]} in every run on {left!r} and {right!r}; give other inputs"
        )
    return loss_of_factors(mine, theirs)


def _alike_factors(mechanism: Mechanism, left: Any, right: Any) -> tuple[list[Factor], list[Factor]] | None:
    """The factors where entries of the output can be exchanged, so that few outputs stand for many; else None."""
    if Loops.of(mechanism.bound()) is not None:
        return None  # one that retries has several paths
    (mine, listed), (theirs, listed_there) = (only_path_of(mechanism, data) for data in (left, right))
    if mine is None or theirs is None or not (groups := leaves_alike(mine, theirs)):
        return None
    factors_left, factors_right = factors([mine], alike=groups), factors([theirs], alike=groups)
    if not in_step(factors_left, factors_right):
        factors_left, factors_right = (factors([path], split=False, alike=groups) for path in (mine, theirs))
    for listing in (listed, listed_there):
        listing.replay()
    return factors_left, factors_right


def _sizes(left: Any, right: Any) -> str:
    try:
        return f" (lengths {len(left)} and {len(right)})" if len(left) != len(right) else ""
    except TypeError:
        return ""
