"""Proofs by randomness alignment: the smallest ε for which a shift of the noise keeps every event."""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from veridp.adjacency import Box, Corner, Hull, Polytope
from veridp.adjacency.base import numbers_of
from veridp.budget import check
from veridp.claim import Claim, Interval
from veridp.engines.prove.alignment.shifts import (
    MAX_CORNER_ENTRIES,
    NO_SHIFT,
    Rule,
    Shift,
    ShiftProblem,
    cheapest_rules,
    cheapest_shifts,
    dearest,
    failing_corner,
    requirements_of,
)
from veridp.engines.prove.alignment.weight_slope import DataWeight
from veridp.engines.prove.cases import interval_of, interval_text
from veridp.engines.prove.events import NoiseEvent, events_of
from veridp.engines.prove.explanation import Blame, alignment_text, blame_of, return_site
from veridp.kernel.path import Path
from veridp.kernel.replay.agreement import Replayed
from veridp.kernel.symbols import Noise, count_text
from veridp.mechanism import Mechanism
from veridp.notions import ApproximateBound
from veridp.presentation import Presentable
from veridp.tradeoff import TradeoffCurve, tradeoff_of
from veridp_check.records import Seen

# ---------------------------------------------------------------------------------------------------- alignment search
# How every event is carried over to all neighbours, as cheaply as can be.
#
# A box of differences has 2^size corners. But an entry whose rise helps (or harms) every condition is worst at one
# end,
# whatever the others do: it is fixed there. The entries left, which are *mixed*, are few in most events: their corners
# are gone through. Where they are many, one rule for all differences is tried first.


MAX_MIXED_ENTRIES = 2  # mixed entries: their corners are gone through at once
PRICED_DELTA = 1e-3  # for which shifts are looked for, where a pure ε is known
MANY_WHOLE = 5  # mixed entries that may move by -1, 0 or 1: past this their whole differences are not gone through


@dataclass(frozen=True)
class CornerShifts:
    """A shift for each corner of the differences of the entries listed, whatever the other entries do.

    Where `whole`, for each difference of these entries in whole numbers instead.
    """

    entries: tuple[int, ...]
    shifts: tuple[Shift, ...]
    whole: bool = False


@dataclass(frozen=True)
class Alignment:
    """How an event is carried over all differences of a polytope.

    `worst` is a corner that costs most, or has no shift, and `shift` the shift there. `cost` is what all differences
    cost at most; inf where no shift was found.
    """

    form: CornerShifts | Rule
    worst: Corner
    shift: Shift
    cost: Fraction | float


def cheapest_alignments(
    events: Sequence[NoiseEvent], polytopes: Sequence[Polytope], *, with_delta: bool = False
) -> list[list[Alignment]]:
    """For each event, for each polytope: how it is carried over, as cheaply as `cheapest` says."""
    tasks = [
        ShiftProblem(event.noises, requirements_of(event), polytope, with_delta=with_delta)
        for event in events
        for polytope in polytopes
    ]
    found = cheapest(tasks)
    return [found[k : k + len(polytopes)] for k in range(0, len(found), len(polytopes))]


def cheapest(tasks: Sequence[ShiftProblem]) -> list[Alignment]:
    """How each task is done.

    Each cost is the least possible, but where more than MAX_CORNER_ENTRIES entries are mixed: then it may be above.
    """
    wanted = [_Wanted(task) for task in tasks]
    open_yet = [each for each in wanted if not each.is_hopeless()]
    _go_through_corners([each for each in open_yet if not each.by_rule])
    _find_rules([each for each in open_yet if each.by_rule])
    return [each.alignment for each in wanted]


class _Wanted:
    """A task, and the alignment found for it so far: none at first."""

    def __init__(self, task: ShiftProblem) -> None:
        self.task = task
        box = task.polytope
        # Between the ends of a two-sided interval lies 0, and a mean of whole steps need not be whole.
        linked = task.entries_of_whole_noise if task.whole else ()
        self.whole = isinstance(box, Box) and any(box.low[i] < 0 < box.high[i] for i in task.mixed if i in linked)
        self.by_corners = not isinstance(box, Box) or len(task.mixed) <= (
            MANY_WHOLE if self.whole else MAX_CORNER_ENTRIES
        )
        self.by_rule = (
            isinstance(box, Box) and len(task.mixed) > MAX_MIXED_ENTRIES and not (self.whole and self.by_corners)
        )
        self.alignment = Alignment(CornerShifts((), (NO_SHIFT,)), task.base, NO_SHIFT, NO_SHIFT.cost)

    def is_hopeless(self) -> bool:
        """Whether some requirement has no noise to meet it by; then the corner where it fails is kept."""
        for each in self.task.requirements:
            if not each.noise and (corner := failing_corner(each, self.task.polytope)) is not None:
                self.alignment = Alignment(CornerShifts((), (NO_SHIFT,)), corner, NO_SHIFT, NO_SHIFT.cost)
                return True
        return False


def _go_through_corners(wanted: Sequence[_Wanted]) -> None:
    corners = [each.task.corners(each.whole) for each in wanted]
    asked = [(each.task, corner) for each, listed in zip(wanted, corners, strict=True) for corner in listed]
    check()
    found = iter(cheapest_shifts(asked))
    for each, listed in zip(wanted, corners, strict=True):
        shifts = _at_one_price(each.task, tuple(itertools.islice(found, len(listed))))
        worst = max(range(len(listed)), key=lambda k: shifts[k].cost)
        form = CornerShifts(each.task.mixed, shifts, each.whole)
        each.alignment = Alignment(form, listed[worst], shifts[worst], shifts[worst].cost)


def _at_one_price(task: ShiftProblem, shifts: tuple[Shift, ...]) -> tuple[Shift, ...]:
    """The shifts, each at what all of them and their means cost at most, where that is less than the dearest costs, or
    means may cost more."""
    moves = [shift.moves for shift in shifts if shift.moves is not None]
    if len(moves) < len(shifts):
        return shifts
    flat = task.cost_up_to(list(zip(*moves, strict=True)))
    at_once = not task.convex or flat < max(s.cost for s in shifts)
    return tuple(replace(s, cost=flat) for s in shifts) if at_once else shifts


def _find_rules(wanted: Sequence[_Wanted]) -> None:
    """Rules where they cost no more than the corners do, or where these are too many."""
    for each, rule in zip(wanted, cheapest_rules([each.task for each in wanted]), strict=True):
        if rule is not None:
            most = dearest(each.task, rule)
            each.alignment = Alignment(rule, most.corner, each.task.shift(rule.at(most.corner)), most.cost)
    _go_through_corners([each for each in _not_shown_cheapest(wanted) if each.by_corners])


def _not_shown_cheapest(wanted: Sequence[_Wanted]) -> list[_Wanted]:
    """Those whose worst corner can be had for less than the rule costs: another alignment may be cheaper."""
    least = cheapest_shifts([(each.task, each.alignment.worst) for each in wanted])
    return [
        each
        for each, shift in zip(wanted, least, strict=True)
        if shift.cost < each.alignment.cost or each.alignment.shift.moves is None
    ]


def depends_on_whole(noises: Sequence[Noise], alignment: Alignment) -> bool:
    """Whether integer noise is moved by what depends on the difference: then data must be whole numbers."""
    form = alignment.form
    if isinstance(form, CornerShifts) and form.whole:
        return True
    for place, noise in enumerate(noises):
        if noise.distribution.integer:
            if isinstance(form, Rule):
                if form.slopes[place]:
                    return True
            elif len({shift.moves[place] for shift in form.shifts if shift.moves}) > 1:
                return True
    return False


# ----------------------------------------------------------------------------------------------------------- alignment
# Proofs by randomness alignment: the smallest ε for which a shift of the noise carries every event to neighbours.


@dataclass(frozen=True, eq=False)
class Proof(Presentable, ABC):
    """For all neighbours of this size: the ε that is proved; inf where none is, which is no refutation.

    `exact_epsilon` is the same as a rational; None where it is none, or nothing is proved.
    """

    mechanism: Mechanism
    size: int
    epsilon: float
    exact_epsilon: Fraction | None
    replayed: Replayed | None = field(default=None, kw_only=True)  # what plain runs confirmed of its paths
    recognised: tuple[str, ...] = field(default=(), kw_only=True)  # noise that its code makes by hand, in words
    seconds: float = field(default=0.0, kw_only=True)
    rounding: float = field(default=0.0, kw_only=True)  # by how much it may change a probability, relatively
    at_delta: float = field(default=0.0, kw_only=True)  # the δ at which its ε holds
    left_out: str = field(default="", kw_only=True)  # branches as rare as rounding errors, in words

    @property
    @abstractmethod
    def certificate(self) -> dict[str, Any]:
        """The proof as a document that `veridp check` verifies without the search; BadInput where nothing is proved."""

    @property
    @abstractmethod
    def blame(self) -> Blame | None:
        """What costs most, or why there is no proof, with its line in the code; None where nothing costs anything."""

    @property
    @abstractmethod
    def restriction(self) -> str:
        """For which data alone it holds, in words; nothing where it holds for all."""

    @property
    @abstractmethod
    def extent(self) -> str:
        """How much there was to prove, in words."""

    @property
    @abstractmethod
    def explained(self) -> str:
        """How runs are carried over where that costs most, in words."""

    @property
    @abstractmethod
    def moves(self) -> list[list[float]]:
        """Differences between neighbours at which to look for a witness."""

    @property
    def limits(self) -> str:
        """For which data it holds, and but for what, in words; nothing where it holds always."""
        return ", ".join(filter(None, (self.restriction, self.left_out and f"but for {self.left_out}")))

    @property
    def confirmed(self) -> str:
        """What stands behind it, in words."""
        paths = "the paths of all its data replayed by plain runs" if self.replayed is None else str(self.replayed)
        made = "".join(f"; recognised {words}" for words in self.recognised)
        return f"{paths}, certificate accepted{made}"

    @property
    def privacy(self) -> str:
        """What is proved, in words."""
        return f"({self.epsilon:.6g}, {self.at_delta:.6g})-DP" if self.at_delta else f"{self.epsilon:.6g}-DP"

    def delta(self, epsilon: float) -> float:
        """The δ that is proved at an ε: that of randomised response, and of a leak (Kairouz, Oh, Viswanath 2015)."""
        return 1.0 if math.isinf(self.epsilon) else ApproximateBound(self.epsilon, self.at_delta).delta(epsilon)

    @property
    def exact_notions(self) -> Mapping[str, Fraction | float | None]:
        """ρ of zCDP and μ of Gaussian DP that follow, rationals rounded up where a certificate states them; None where
        none does. Pure ε is ε²/2-zCDP (Bun and Steinke 2016, Proposition 3.3)."""
        return {"rho": None if self.at_delta else self.epsilon**2 / 2, "mu": None}

    @property
    def rho(self) -> float:
        """The zCDP that follows; inf where none does."""
        rho = self.exact_notions["rho"]
        return math.inf if rho is None else float(rho)

    @property
    def mu(self) -> float:
        """The Gaussian DP that follows; inf where none is known to."""
        mu = self.exact_notions["mu"]
        return math.inf if mu is None else float(mu)

    def rdp(self, alpha: float) -> float:
        """The Rényi divergence of this order that follows: no more than zCDP says, nor than pure ε."""
        return min(self.rho * alpha, math.inf if self.at_delta else self.epsilon)

    @property
    def profile(self) -> tuple[tuple[float, float], ...]:
        """Points (ε, δ) that it states beside the first: a proof gives them where it is asked for δ."""
        return ()

    def tradeoff(self) -> TradeoffCurve:
        """The trade-off curve that follows: no test between neighbours has errors below it."""
        return tradeoff_of(self)

    @property
    def claim(self) -> Claim | None:
        return self.mechanism.claim

    @property
    def bounds(self) -> Interval:
        """A proof bounds ε from above."""
        return Interval(0.0, self.epsilon)

    @property
    def witness(self) -> None:
        """A proof has none, and neither has the lack of one."""
        return None

    @property
    def searched(self) -> tuple[str, ...]:
        return (self.extent,)

    @property
    def finished(self) -> bool:
        """True: half a proof proves nothing, and is not returned."""
        return True

    @property
    def keeps_claim(self) -> bool | None:
        """Whether the mechanism's claim covers the proved ε; None where it claims nothing."""
        return None if self.claim is None else self.claim.covers_proof(self)

    def to_dict(self) -> dict[str, Any]:
        """The proof as plain data, in the words of `veridp schema`."""
        return {
            "mechanism": str(self.mechanism),
            "adjacency": self.mechanism.adjacency.name,
            "size": self.size,
            "epsilon": self.epsilon,
            "delta": self.at_delta,
            "exact_epsilon": None if self.exact_epsilon is None else str(self.exact_epsilon),
            "claim": self.claim and self.claim.to_dict(),
            "assumed": self.mechanism.assumptions,
            "proved": bool(self.keeps_claim),
            "restriction": self.limits,
            "refuted": False,
            "sizes": None,
            "extent": self.extent,
            "explained": self.explained,
            "blame": None if self.blame is None else asdict(self.blame),
            "witness": None,
            "finished": self.finished,
        }

    def __str__(self) -> str:
        who = f"{self.mechanism} under {self.mechanism.adjacency}, size {self.size}"
        if math.isinf(self.epsilon):
            return f"{who}: no alignment found"
        return f"{who}: {self.privacy} is proved {self.limits}".rstrip()


class WorstPlace(NamedTuple):
    """The event and difference that cost most, and the shift there."""

    event: NoiseEvent
    corner: NDArray[np.float64]
    shift: Shift


def weight_cost(event: NoiseEvent, polytope: int) -> Fraction | float:
    """What keeping the finite choices of an event costs, over the polytope of this number."""
    return event.weight.costs[polytope] if isinstance(event.weight, DataWeight) else Fraction(0)


class ProofForEverySize(Presentable, ABC):
    """What proofs that hold for data of every size share."""

    mechanism: Mechanism
    witness = None  # proofs have none

    @property
    @abstractmethod
    def privacy(self) -> str:
        """What is proved, in words."""

    @property
    @abstractmethod
    def certificate(self) -> dict[str, Any]:
        """The proof as a document that `veridp check` verifies without the search."""

    @property
    def claim(self) -> Claim | None:
        """What the mechanism claims; None where it claims nothing."""
        return self.mechanism.claim

    @property
    def searched(self) -> tuple[str, ...]:
        """What was tried, in words."""
        return ("one alignment for data of every size",)

    def to_dict(self) -> dict[str, Any]:
        """The proof as plain data."""
        claim = self.claim
        return {
            "mechanism": str(self.mechanism),
            "claim": claim and claim.to_dict(),
            "adjacency": str(self.mechanism.adjacency),
            "privacy": self.privacy,
            "certificate": self.certificate,
        }


@dataclass(frozen=True, eq=False)
class AlignmentProof(Proof):
    """For all neighbours of this size: ε, and how every event is carried over.

    ε is inf where no shift of constant size can carry some event over: that is no refutation. Where integer noise is
    shifted by what depends on the data (`whole`), it holds for data in whole numbers only; and up to the rounding of
    the price, a logarithm.
    """

    events: tuple[NoiseEvent, ...]
    polytopes: tuple[Polytope, ...]
    alignments: tuple[tuple[Alignment, ...], ...]  # for each event, for each polytope
    records: tuple[Seen, ...] = field(default=(), kw_only=True)  # whose sums the data of the events are

    @property
    def whole(self) -> bool:
        """Whether integer noise is shifted by different amounts for different data: then these must be whole, since
        what is between whole shifts is none."""
        return any(
            depends_on_whole(event.noises, alignment)
            for event, row in zip(self.events, self.alignments, strict=True)
            for alignment in row
        )

    @cached_property
    def exact_notions(self) -> Mapping[str, Fraction | float | None]:
        """The same; the ρ of losses in a short range, which a certificate states, is less than ε²/2."""
        found = super().exact_notions
        if math.isinf(self.epsilon) or not any(isinstance(event.weight, DataWeight) for event in self.events):
            return found
        stated = self.certificate.get("rho")
        return found if stated is None else {**found, "rho": Fraction(stated)}

    @property
    def certificate(self) -> dict[str, Any]:
        from veridp.engines.prove.certificate import (
            certificate_of,  # the certificate is written from the proof, not for it
        )

        return certificate_of(self)

    def tradeoff(self) -> TradeoffCurve:
        """The same; of a pure ε, where the losses of the noise are priced by how they are distributed."""
        if math.isinf(self.epsilon) or self.at_delta:
            return super().tradeoff()
        from veridp.engines.prove.alignment.divergence import prove_by_divergence

        found = prove_by_divergence(
            self.mechanism, self.size, (), self.polytopes, PRICED_DELTA, self.records, self.events
        )
        return tradeoff_of(replace(found, epsilon=self.epsilon, exact_epsilon=self.exact_epsilon, at_delta=0.0))

    @property
    def corners(self) -> int:
        """How many corners the differences between neighbours have."""
        return sum(polytope.count for polytope in self.polytopes)

    @property
    def worst(self) -> WorstPlace:
        """The event and corner that cost most (or cannot be paid)."""
        place, polytope = self._dearest
        event, alignment = self.events[place], self.alignments[place][polytope]
        corner = event.weight.corners[polytope] if self._paid else alignment.worst
        return WorstPlace(event, np.array([float(x) for x in corner]), alignment.shift)

    @cached_property
    def _dearest(self) -> tuple[int, int]:
        """The places of the event and the polytope that cost most."""
        costs = [[float(cost) for cost in row] for row in _costs(self.events, self.alignments)]
        place, polytope = np.unravel_index(int(np.argmax(costs)), (len(costs), len(self.polytopes)))
        return int(place), int(polytope)

    @property
    def _paid(self) -> Fraction | float:
        """What the finite choices cost there."""
        place, polytope = self._dearest
        return weight_cost(self.events[place], polytope)

    @cached_property
    def blame(self) -> Blame | None:
        """What costs most, or why there is no proof, with its line in the code; None where nothing costs anything."""
        (event, corner, shift), paid = self.worst, self._paid
        if paid > shift.cost:
            site = return_site(self.mechanism)
            sentence = f"the probability of the output {event.output} depends on the data; {_paid_text(paid)}"
            return Blame("output", sentence, site.file, site.line, float(paid))
        return blame_of(self.mechanism, event, tuple(Fraction(x) for x in corner.tolist()), shift)

    @property
    def restriction(self) -> str:
        numbers = interval_text(self.mechanism, self.records)
        if not numbers and any(isinstance(event.weight, DataWeight) for event in self.events):
            ends = numbers_of(self.mechanism.domain)  # past them, an exponential may be too large for floats
            numbers = f"for data in [{min(ends):g}, {max(ends):g}]"
        return f"{numbers or 'for data'} in whole numbers" if self.whole else numbers

    @property
    def extent(self) -> str:
        paths = sum(event.paths for event in self.events)
        events = count_text(len(self.events), "event")
        of_paths = count_text(paths, "path")
        corners = count_text(self.corners, "corner")
        return f"{events} (of {of_paths}), {corners} of the neighbourhood"

    @property
    def explained(self) -> str:
        (event, corner, shift), paid = self.worst, self._paid
        moved = ", ".join(f"{value:+g}" for value in corner)
        chance = f"the probability of the output {event.output} when the data move by ({moved}): {_paid_text(paid)}"
        if paid and shift.cost == 0:
            return chance
        return alignment_text(event, corner.tolist(), shift) + (f"; {chance}" if paid else "")

    @property
    def moves(self) -> list[list[float]]:
        return [self.worst.corner.tolist()] if not self.records and interval_of(self.mechanism) is None else []


def _paid_text(cost: Fraction | float) -> str:
    if math.isinf(cost):
        return "no bound on its change was found"
    return f"it changes by a factor of at most e^{float(cost):.6g}"


def prove_by_alignment(
    mechanism: Mechanism,
    size: int,
    paths: Sequence[Path],
    polytopes: tuple[Polytope, ...],
    records: tuple[Seen, ...] = (),
    weighted: Sequence[NoiseEvent] | None = None,
) -> AlignmentProof:
    """The smallest ε for which shifts carry the events of the paths over all differences of the polytopes.

    The events are `weighted` where the weights of finite choices depend on the data.
    """
    events = tuple(events_of(paths) if weighted is None else weighted)
    alignments = tuple(tuple(row) for row in cheapest_alignments(events, polytopes))
    costs = _total(_costs(events, alignments))
    proof = AlignmentProof(mechanism, size, *costs, events, polytopes, alignments, records=records)
    return replace(proof, epsilon=math.inf, exact_epsilon=None) if whole_between_corners(proof) else proof


def whole_between_corners(proof: AlignmentProof) -> bool:
    """Whether integer noise has to follow differences in whole numbers that need not be corners, and have no shift."""
    first = proof.polytopes[0]
    return proof.whole and (bool(proof.records) or (isinstance(first, Hull) and not first.whole_at_corners))


def _costs(events: Sequence[NoiseEvent], alignments: Sequence[Sequence[Alignment]]) -> list[list[Fraction | float]]:
    """What each event costs over each polytope: its shifts, and its choices."""
    return [
        [alignment.cost + weight_cost(event, polytope) for polytope, alignment in enumerate(row)]
        for event, row in zip(events, alignments, strict=True)
    ]


def _total(costs: Sequence[Sequence[Fraction | float]]) -> tuple[float, Fraction | None]:
    most = max((cost for row in costs for cost in row), default=Fraction(0))
    return (math.inf, None) if math.isinf(most) else (float(most), Fraction(most))
