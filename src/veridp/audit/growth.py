"""What a verdict depends on beside the mechanism: bounds of the data, and an adjacency that nobody stated."""

from __future__ import annotations

import math
import time
from numbers import Real

from veridp.adjacency import Adjacency, Domain, Pair, adjacency
from veridp.audit.case import AuditCase
from veridp.audit.findings import Findings
from veridp.budget.alarm import OutOfTime, at_most
from veridp.claim import setting_text
from veridp.engines.exact import compare
from veridp.errors import CutShort, VeridpError

GROWTH_TIME_SHARE = 0.25  # of the time that is left
MOST_PAIRS = 16  # compared on either domain
ABOVE = 1e-6  # by how much, relatively, a cost must exceed another to be called larger


def look_for_caveats(findings: Findings) -> None:
    """Add a sentence where the exact cost grows with the domain, or under `replace` where the adjacency is assumed.

    It compares the relation's own pairs alone, so its silence promises nothing. Where it had something to compare
    and could not, the evidence says so.
    """
    started = time.monotonic()
    try:
        with at_most(max(findings.deadline.left * GROWTH_TIME_SHARE, 1e-3)):
            findings.caveats += filter(None, (_grows(findings.case), _replaced(findings.case)))
    except (VeridpError, OutOfTime) as reason:
        why = "out of time" if isinstance(reason, CutShort | OutOfTime) else str(reason)
        findings.note("domain", f"whether the cost grows with it was not checked: {why}", time.monotonic() - started)


def _grows(case: AuditCase) -> str:
    """A sentence where the cost on a domain of twice the width exceeds the cost on the domain."""
    relation, domain = case.mechanism.adjacency, case.mechanism.domain
    wide = _doubled(domain)
    if wide is None:
        return ""
    if relation.vertices(1) is not None:  # query answers, whose moves have a bound of their own
        return ""
    near, far = _pairs(case, relation, domain), _pairs(case, relation, wide)
    before, after = _cost(case, relation, near), _cost(case, relation, far)
    if not after > before * (1 + ABOVE):
        return ""
    return (
        f"the cost grows with the domain: ε = {_number(before)} on {setting_text(domain)}, but {_number(after)} on "
        f"{setting_text(wide)}; clip the data in the mechanism"
    )


def _replaced(case: AuditCase) -> str:
    """A sentence where the adjacency is assumed, and replacing one value costs more than the claim."""
    mechanism = case.mechanism
    if "adjacency" not in mechanism.assumed or _doubled(mechanism.domain) is None:
        return ""
    relation = adjacency("replace")
    cost = _cost(case, relation, _pairs(case, relation, mechanism.domain))
    if case.claim.covers(cost):
        return ""
    return (
        f"adjacency {mechanism.adjacency} is assumed: a value moves by at most 1; where one value is replaced by any "
        f"other of {setting_text(mechanism.domain)}, ε = {_number(cost)}"
    )


def _doubled(domain: Domain) -> tuple[float, float] | None:
    """The interval of twice the width around the same centre; None where the domain is a list of values."""
    if not isinstance(domain, tuple) or len(domain) != 2 or not all(isinstance(end, Real) for end in domain):
        return None
    low, high = domain
    half = (high - low) / 2
    return low - half, high + half


def _pairs(case: AuditCase, relation: Adjacency, domain: Domain) -> list[Pair]:
    return [pair for _, pair in zip(range(MOST_PAIRS), relation.pairs(case.size, domain), strict=False)]


def _cost(case: AuditCase, relation: Adjacency, pairs: list[Pair]) -> float:
    """The largest exact ε among the pairs, at the claimed δ."""
    mechanism = case.mechanism.stating(adjacency=relation)
    comparisons = (compare(mechanism, pair.left, pair.right) for pair in pairs)
    return max((comparison.epsilon_at(case.claim.delta) for comparison in comparisons), default=0.0)


def _number(value: float) -> str:
    return "∞" if math.isinf(value) else f"{value:.6g}"
