"""From accepted reports to an estimate, with what sampling and aborts may have done to it; and what a protocol
guarantees."""

from __future__ import annotations

import itertools
import math
import operator
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache

from veridp.collect.harmless import Counts, Harmless, InvitationDraw, Layout, Outputs, ScaledMean
from veridp.collect.messages import SESSION_BYTES, Reason, Refused
from veridp.collect.task import Task
from veridp.confidence import clopper_pearson_lower, clopper_pearson_upper, hoeffding_radius
from veridp.errors import BadInput

# ----------------------------------------------------------------------------------------------------------- guarantee
# What a protocol guarantees against poisoning, computed: how far one accepted client can push an estimate.
#
# The score of a report is what it adds to the estimate that the attacker wants to raise: the sum of the estimated
# frequencies of its targets, or the estimated mean. All numbers are exact expectations for one malicious client.


SOME_SESSION = bytes(SESSION_BYTES)

Weights = list[list[Fraction]]  # of each block, the score of each value


class PoisoningStanding(StrEnum):
    """How a protocol stands against output poisoning."""

    ROBUST = "robust"
    SEMI_ROBUST = "semi-robust"
    NOT_ROBUST = "not robust"


@dataclass(frozen=True)
class Robustness:
    """The scores of the best honest-but-chosen input, of the best accepted behaviour, and of an unchecked report.

    All are means over what the server draws. The input is chosen before the session; the accepted behaviour may depend
    on all that the session shows, and a session that is left counts as if it had been completed. Robust: what is
    accepted is no better than an honest input. Semi-robust: it is better, but block by block and for each invitation
    it is not, so only relations among the parts of a report, or of the input to the invitation, are forged. Not
    robust: a part alone has a distribution that no input gives it.
    """

    best_input: Fraction
    best_accepted: Fraction
    unprotected: Fraction
    standing: PoisoningStanding

    def __str__(self) -> str:
        scores = f"{float(self.best_input):.6g} <= {float(self.best_accepted):.6g} <= {float(self.unprotected):.6g}"
        return f"{self.standing}: S_in <= S_max <= S_out is {scores}"


def robustness(protocol: Harmless, targets: Sequence[int] | None = None, *, down: bool = False) -> Robustness:
    """How far one client can raise the estimates of the target columns (for a mean: the mean, or lower it if `down`).

    Without targets these are the first three items: it takes two to tell whether a client can pose as several, and
    three to tell whether it gains by choosing its item when it knows the hash.

    The best accepted vector maximises a linear score over all counts that keep the floors, so it is a corner: all
    entries that stay closed hold the value of highest score. Closed entries that cannot be opened at all lose the
    report when selected, which never raises the score of the reports that are left. Over whole sessions (leave at any
    step, return with another token) this is the most, if every session counts that was left knowing something that
    bears on the score; `strategies` has what departures that do not count would give.
    """
    draws, worth = list(session_draws(protocol, targets, down=down)), session_worth(protocol, targets, down=down)
    layout = protocol.layout
    best_input = max(
        sum((draw.probability * _dots(draw.honest(chosen), draw) for draw in draws), Fraction(0))
        for chosen in range(draws[0].inputs)
    )
    best_accepted = sum((draw.probability * sum(most_by_block(layout, draw)) for draw in draws), Fraction(0))
    if best_accepted == best_input:
        standing = PoisoningStanding.ROBUST
    elif all(_honest_by_block(layout, draw) for draw in draws):
        standing = PoisoningStanding.SEMI_ROBUST
    else:
        standing = PoisoningStanding.NOT_ROBUST
    unprotected = max(sum(map(max, draw.supports)) for draw in draws)
    length = layout.length
    return Robustness(worth(best_input / length), worth(best_accepted / length), worth(Fraction(unprotected)), standing)


def session_draws(protocol: Harmless, targets: Sequence[int] | None, *, down: bool = False) -> Iterator[InvitationDraw]:
    """What the invitation may show, with the supports of the targets; negative where `down` is wanted."""
    for draw in protocol.draws(_checked_targets(protocol, targets, down=down)):
        yield replace(draw, supports=tuple(tuple(-raw for raw in row) for row in draw.supports)) if down else draw


def most_by_block(layout: Layout, draw: InvitationDraw) -> list[int]:
    """In each block, the largest sum of supports over the entries of a vector that is accepted."""
    return [_dot(layout.floors, row) + layout.free * max(row) for row in draw.supports]


def _honest_by_block(layout: Layout, draw: InvitationDraw) -> bool:
    """Whether in each block an honest input reaches the most that is accepted."""
    return all(
        most <= max(_dot(draw.honest(chosen)[block], draw.supports[block]) for chosen in range(draw.inputs))
        for block, most in enumerate(most_by_block(layout, draw))
    )


def _dots(counts: Sequence[Counts], draw: InvitationDraw) -> int:
    return sum(map(_dot, counts, draw.supports))


def scores(protocol: Harmless, targets: Sequence[int] | None, session: bytes, *, down: bool = False) -> Weights:
    """What each output of each block adds to the estimates of the targets.

    The constant of a report is spread evenly over its blocks.
    """
    rows, worth = _supports(protocol, targets, session, down=down), session_worth(protocol, targets, down=down)
    share = worth.shift / protocol.layout.blocks
    return [[share + worth.scale * raw for raw in row] for row in rows]


def _supports(protocol: Harmless, targets: Sequence[int] | None, session: bytes, *, down: bool) -> list[list[int]]:
    """By how much each output of each block supports the targets together; negative where `down` is wanted."""
    sign, targets = -1 if down else 1, _checked_targets(protocol, targets, down=down)
    return [
        [
            sign * sum(protocol.raw(block, value, target, session) for target in targets)
            for value in range(protocol.layout.values)
        ]
        for block in range(protocol.layout.blocks)
    ]


def _checked_targets(protocol: Harmless, targets: Sequence[int] | None, *, down: bool) -> Sequence[int]:
    columns = len(protocol.columns)
    targets = range(min(3, columns)) if targets is None else targets
    if not targets or not all(0 <= target < columns for target in targets) or len(set(targets)) < len(targets):
        raise BadInput(f"targets {list(targets)!r} are not different columns of {protocol.name}: 0 to {columns - 1}")
    if down and not protocol.numeric:
        raise BadInput("down is for means; for frequencies, name other targets")
    return targets


def session_worth(protocol: Harmless, targets: Sequence[int] | None, *, down: bool = False) -> ScaledMean:
    """What turns the support of the targets into the score."""
    number = len(_checked_targets(protocol, targets, down=down))
    return ScaledMean(protocol.scaled.shift * number * (-1 if down else 1), protocol.scaled.scale)


def _dot(counts: Counts, row: Sequence[int]) -> int:
    return sum(map(operator.mul, counts, row))


def corners(layout: Layout) -> list[Counts]:
    """The corners of the set of accepted counts of a block: the floors, and all that is free on one value."""
    return [
        tuple(floor + (layout.free if value == chosen else 0) for value, floor in enumerate(layout.floors))
        for chosen in range(layout.values)
    ]


def expected(counts: Counts, weights: Sequence[Fraction], layout: Layout) -> Fraction:
    """The mean score of a block with these counts."""
    return sum((count * weight for count, weight in zip(counts, weights, strict=True)), Fraction(0)) / layout.length


def sum_over_blocks(counts: Sequence[Counts], weights: Weights, layout: Layout) -> Fraction:
    """The mean score of a vector with these counts in its blocks."""
    return sum((expected(block, row, layout) for block, row in zip(counts, weights, strict=True)), Fraction(0))


def variance(protocol: Harmless, chosen: int, column: int = 0, session: bytes = SOME_SESSION) -> Fraction:
    """The variance that one honest report with this input adds to the estimate of a column."""
    layout, total = protocol.layout, Fraction(0)
    for block, counts in enumerate(protocol.counts(chosen, session)):
        raws = [protocol.raw(block, value, column, session) for value in range(layout.values)]
        mean = Fraction(sum(raw * count for raw, count in zip(raws, counts, strict=True)), layout.length)
        square = Fraction(sum(raw * raw * count for raw, count in zip(raws, counts, strict=True)), layout.length)
        total += square - mean * mean
    return total * protocol.scaled.scale**2


# --------------------------------------------------------------------------------------------------------------- views
# What a verifier learns beyond the report, by exact enumeration: nothing, if the opening is harmless.


Rule = Callable[[Sequence[int], int], Iterable[tuple[int, ...]]]  # the sets that may be opened, all equally likely
View = tuple[int, tuple[int, ...], tuple[int, ...]]  # what was selected, the indices opened, their values
LARGEST = 200_000


@dataclass(frozen=True)
class Leak:
    """How much more than the report the verifier's view tells: the largest distance between two distributions of it.

    0 means that given the report, the view has the same distribution for every input: it can be simulated from it.
    """

    distance: Fraction
    output: int | None = None
    left: Counts | None = None
    right: Counts | None = None

    @property
    def none(self) -> bool:
        return self.distance == 0


def leak(protocol: Harmless, rule: Rule | None = None, session: bytes = SOME_SESSION) -> Leak:
    """The leak of a block of the protocol, where clients open by the rule (its own, if none is given).

    Blocks are drawn and opened independently, so the worst block is that of the whole report, for each other one
    has the same distribution. Closed commitments are taken to hide; the enumeration is over all vectors, selections and
    openings, so it is for small protocols.
    """
    compositions = sorted({counts for chosen in range(protocol.inputs) for counts in protocol.counts(chosen, session)})
    rule = protocol.layout.openings if rule is None else rule
    distributions = {counts: _distributions(counts, rule) for counts in compositions}
    worst = Leak(Fraction(0))
    for left, right in itertools.combinations(compositions, 2):
        for output in set(distributions[left]) & set(distributions[right]):
            distance = _distance(distributions[left][output], distributions[right][output])
            if distance > worst.distance:
                worst = Leak(distance, output, left, right)
    return worst


def arrangements(counts: Counts) -> Iterator[tuple[int, ...]]:
    """Every order of entries with these counts."""
    if not any(counts):
        yield ()
    for value, count in enumerate(counts):
        if count:
            rest = (*counts[:value], count - 1, *counts[value + 1 :])
            for tail in arrangements(rest):
                yield (value, *tail)


def _distributions(counts: Counts, rule: Rule) -> dict[int, dict[View, Fraction]]:
    """For each report, the distribution of the view given it, of a client whose block has these counts."""
    number = math.factorial(sum(counts)) // math.prod(map(math.factorial, counts))
    if number > LARGEST:
        raise BadInput(f"{number} vectors are too many to enumerate; take a protocol with a shorter vector")
    joint: dict[int, dict[View, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
    for vector in arrangements(counts):
        for selected, output in enumerate(vector):
            sets = list(rule(vector, selected))
            for opened in sets:
                view = (selected, opened, tuple(vector[i] for i in opened))
                joint[output][view] += Fraction(1, len(sets))
    return {output: _normalised(distribution) for output, distribution in joint.items()}


def _normalised(distribution: dict[View, Fraction]) -> dict[View, Fraction]:
    total = sum(distribution.values(), Fraction(0))
    return {view: mass / total for view, mass in distribution.items()}


def _distance(left: dict[View, Fraction], right: dict[View, Fraction]) -> Fraction:
    """The total variation distance."""
    views = set(left) | set(right)
    return sum((abs(left.get(v, Fraction(0)) - right.get(v, Fraction(0))) for v in views), Fraction(0)) / 2


# ------------------------------------------------------------------------------------------------------------ estimate
# From accepted reports to an estimate, with what sampling and what aborts may have done to it.


@dataclass(frozen=True)
class Attendance:
    """How many sessions ended how.

    A client that was challenged knows its report, and one that was invited to a hashed protocol knows its hash: if it
    ends there, it may have left because of what it knew, and counts as aborted. Who only asked for a session of another
    protocol knew nothing that bears on its report.
    """

    accepted: int
    rejected: int
    expired_challenged: int
    expired_invited: int
    pending_challenged: int
    pending_invited: int

    def aborted(self, protocol: Harmless) -> int:
        """The clients that knew something of their report and did not get it accepted, and cannot any more."""
        return self.rejected + self.expired_challenged + (self.expired_invited if protocol.hashed else 0)

    def abort_rate(self, protocol: Harmless) -> float:
        aborted = self.aborted(protocol)
        return aborted / (self.accepted + aborted) if aborted else 0.0

    def missing(self, protocol: Harmless) -> int:
        """The clients that know something of their report, which is not in the estimate."""
        return self.aborted(protocol) + self.pending_challenged + (self.pending_invited if protocol.hashed else 0)


@dataclass(frozen=True)
class Column:
    """The estimate of one frequency, or of the mean. If clients are missing, quote the worst bounds first.

    `lower` to `upper` holds what the accepted clients have, for all columns at once, at the stated confidence, if
    no client left because of its report. `worst_lower` to `worst_upper` needs no such assumption: it holds, at the same
    confidence, what all clients have who knew something of their report, whichever of them left.
    """

    name: str
    value: float
    lower: float
    upper: float
    worst_lower: float
    worst_upper: float

    def __str__(self) -> str:
        """The certain bounds first; the estimate alone if both intervals agree because no client is missing."""
        by_chance = f"{self.value:.5g} in [{self.lower:.5g}, {self.upper:.5g}]"
        if (self.lower, self.upper) == (self.worst_lower, self.worst_upper):
            return f"{self.name}: {by_chance}"
        at_worst = f"between {self.worst_lower:.5g} and {self.worst_upper:.5g} whatever missing clients had"
        return f"{self.name}: {at_worst}; {by_chance} if they left by chance"


@dataclass(frozen=True)
class CollectionEstimate:
    """What was collected."""

    columns: tuple[Column, ...]
    attendance: Attendance
    confidence: float
    epsilon: float

    def __str__(self) -> str:
        return "\n".join(map(str, self.columns))

    def __getitem__(self, name: str) -> Column:
        return next(column for column in self.columns if column.name == name)


def check_publishable(task: Task, attendance: Attendance) -> None:
    """Refuse an estimate from too few reports, or from a collection that too many clients left knowing their report."""
    if attendance.accepted < task.minimum_batch:
        raise Refused(
            Reason.TOO_FEW_REPORTS, f"{attendance.accepted} reports; the task needs at least {task.minimum_batch}"
        )
    if (rate := attendance.abort_rate(task.protocol)) > task.maximum_abort_rate:
        raise Refused(
            Reason.TOO_MANY_ABORTS,
            f"{attendance.aborted(task.protocol)} clients aborted after seeing their "
            f"{task.protocol.shown}, {rate:.3g} of all; "
            f"the task publishes only up to {task.maximum_abort_rate:g}",
        )


def estimate(
    task: Task, outputs: Outputs, sessions: Sequence[bytes], attendance: Attendance, confidence: float = 0.95
) -> CollectionEstimate:
    """The unbiased estimate from accepted reports, or `Refused` if the task's rules forbid publishing one."""
    check_publishable(task, attendance)
    return estimate_from(task, task.protocol.support(outputs, sessions), attendance, confidence)


def estimate_from(
    task: Task, support: Sequence[int], attendance: Attendance, confidence: float = 0.95
) -> CollectionEstimate:
    """The same, from the support of each column."""
    if not 0 < confidence < 1:
        raise BadInput(f"confidence must be in (0, 1), got {confidence!r}")
    check_publishable(task, attendance)
    protocol = task.protocol
    alpha = (1 - confidence) / len(support)
    columns = [_column(protocol, place, supported, attendance, alpha) for place, supported in enumerate(support)]
    return CollectionEstimate(tuple(columns), attendance, confidence, protocol.epsilon)


def _column(protocol: Harmless, place: int, supported: int, attendance: Attendance, alpha: float) -> Column:
    """The missing reports support the column by nothing at all, or by as much as a report can.

    A client may leave because of its report, so those that stay are not a sample; but the reports of all who knew
    something of theirs are, and their support is between these two. That gives the worst bounds.
    """
    accepted, missing = attendance.accepted, attendance.missing(protocol)
    low, high = _mean_support(protocol, supported, accepted, alpha)
    least, _ = _mean_support(protocol, supported, accepted + missing, alpha)
    _, most = _mean_support(protocol, supported + missing * protocol.highest, accepted + missing, alpha)
    found = (Fraction(supported, accepted), low, high, least, most)
    return Column(protocol.columns[place], *(float(protocol.scaled_column(place)(bound)) for bound in found))


def _mean_support(protocol: Harmless, supported: int, total: int, alpha: float) -> tuple[Fraction, Fraction]:
    """Bounds on the expected mean support that fail with probability alpha, both together.

    The reports are independent and not alike. Where a report supports by 0 or 1, the number of successes is spread
    no wider than a binomial one of the same mean (Hoeffding 1956), so the bounds of Clopper and Pearson hold. Elsewhere
    the better of Hoeffding's and Bernstein's inequality, by numbers that are known in advance.
    """
    if protocol.highest == 1:
        low = clopper_pearson_lower(supported, total, alpha / 2)
        high = clopper_pearson_upper(supported, total, alpha / 2)
        return Fraction(float(low)), Fraction(float(high))
    mean = Fraction(supported, total)
    radius = Fraction(min(_hoeffding(protocol, total, alpha), _bernstein(protocol, total, alpha)))
    return max(mean - radius, Fraction(0)), min(mean + radius, Fraction(protocol.highest))


def _hoeffding(protocol: Harmless, total: int, alpha: float) -> float:
    return protocol.highest * float(hoeffding_radius(total, alpha / 2))


def _bernstein(protocol: Harmless, total: int, alpha: float) -> float:
    """√(2 v L / n) + 2 b L / (3 n), with v the largest variance of a report, b its range and L = ln(2/α)."""
    log = math.log(2 / alpha)
    return math.sqrt(2 * _largest_variance(protocol) * log / total) + 2 * protocol.highest * log / (3 * total)


@lru_cache(maxsize=256)
def _largest_variance(protocol: Harmless) -> float:
    """The largest variance of the support by an honest report of one column; slow for many inputs."""
    if protocol.largest_variance is not None:
        return float(protocol.largest_variance)
    spread = max(variance(protocol, chosen, 0, SOME_SESSION) for chosen in range(protocol.inputs))
    return float(spread / protocol.scaled.scale**2)
