"""From accepted reports to an estimate, with what sampling and what aborts may have done to it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from veridp.collect.guarantee import SOME_SESSION, variance
from veridp.collect.harmless import Harmless, Outputs
from veridp.collect.reasons import Reason, Refused
from veridp.collect.task import Task
from veridp.confidence import clopper_pearson_lower, clopper_pearson_upper, hoeffding_radius
from veridp.errors import BadInput


@dataclass(frozen=True)
class Attendance:
    """How many sessions ended how. A client that was challenged knows its report; if it ends there it aborted."""

    accepted: int
    rejected: int
    expired_challenged: int
    expired_invited: int
    pending_challenged: int
    pending_invited: int

    @property
    def aborted(self) -> int:
        """The clients that knew their report and did not get it accepted, and cannot any more."""
        return self.rejected + self.expired_challenged

    @property
    def abort_rate(self) -> float:
        decided = self.accepted + self.aborted
        return self.aborted / decided if decided else 0.0

    @property
    def missing(self) -> int:
        """The clients that know their report and whose report is not in the estimate."""
        return self.aborted + self.pending_challenged


@dataclass(frozen=True)
class Column:
    """The estimate of one frequency, or of the mean.

    `lower` to `upper` holds what the accepted clients have, for all columns at once, at the stated confidence, if
    nobody left because of its report. `worst_lower` to `worst_upper` needs no such belief: it holds, at the same
    confidence, what all clients that were challenged have, whoever left and why.
    """

    name: str
    value: float
    lower: float
    upper: float
    worst_lower: float
    worst_upper: float


@dataclass(frozen=True)
class CollectionEstimate:
    """What was collected."""

    columns: tuple[Column, ...]
    attendance: Attendance
    confidence: float
    epsilon: float

    def __getitem__(self, name: str) -> Column:
        return next(column for column in self.columns if column.name == name)


def check_publishable(task: Task, attendance: Attendance) -> None:
    """Refuse an estimate from too few reports, or from a collection that too many clients left knowing their report."""
    if attendance.accepted < task.minimum_batch:
        raise Refused(
            Reason.TOO_FEW_REPORTS, f"{attendance.accepted} reports; the task needs at least {task.minimum_batch}"
        )
    if attendance.abort_rate > task.maximum_abort_rate:
        raise Refused(
            Reason.TOO_MANY_ABORTS,
            f"{attendance.aborted} clients aborted after seeing their report, {attendance.abort_rate:.3g} of all; "
            f"the task publishes only up to {task.maximum_abort_rate:g}",
        )


def estimate(
    task: Task, outputs: Outputs, sessions: Sequence[bytes], attendance: Attendance, confidence: float = 0.95
) -> CollectionEstimate:
    """The unbiased estimate from accepted reports, or `Refused` where the task's rules forbid to publish one."""
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
    columns = [
        _column(protocol, name, supported, attendance, alpha)
        for name, supported in zip(protocol.columns, support, strict=True)
    ]
    return CollectionEstimate(tuple(columns), attendance, confidence, protocol.epsilon)


def _column(protocol: Harmless, name: str, supported: int, attendance: Attendance, alpha: float) -> Column:
    """The missing reports support the column by nothing at all, or by as much as a report can.

    Who leaves may choose to by its report, so those that stay are no sample; but the reports of all who were
    challenged are, and their support is between these two. That gives the worst bounds.
    """
    accepted, missing = attendance.accepted, attendance.missing
    low, high = _mean_support(protocol, supported, accepted, alpha)
    least, _ = _mean_support(protocol, supported, accepted + missing, alpha)
    _, most = _mean_support(protocol, supported + missing * protocol.highest, accepted + missing, alpha)
    found = (Fraction(supported, accepted), low, high, least, most)
    return Column(name, *(float(protocol.scaled(bound)) for bound in found))


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
    spread = max(variance(protocol, chosen, 0, SOME_SESSION) for chosen in range(protocol.inputs))
    largest = float(spread / protocol.scaled.scale**2)
    log = math.log(2 / alpha)
    return math.sqrt(2 * largest * log / total) + 2 * protocol.highest * log / (3 * total)
