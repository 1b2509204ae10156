"""One question, one verdict: how private is this, really?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from veridp.adjacency import Adjacency, Domain
from veridp.audit import explored, sampled
from veridp.audit.case import Case
from veridp.audit.composed import compare_with_ledger
from veridp.audit.findings import Findings
from veridp.audit.growth import look_for_caveats
from veridp.audit.pilot import run_once
from veridp.audit.randomness import reused_noise
from veridp.audit.rounding import rounded_witness
from veridp.budget import Deadline, Progress
from veridp.claim import Verdict
from veridp.mechanism import Mechanism, as_mechanism

SECONDS = 60.0
ALPHA = 0.05


def audit(
    mechanism: Mechanism | Callable[..., Any] | object,
    epsilon: float | None = None,
    delta: float | None = None,
    *,
    size: int | None = None,
    adjacency: str | Adjacency | None = None,
    domain: Domain | None = None,
    seconds: float = SECONDS,
    alpha: float = ALPHA,
    seed: int = 0,
    black_box: bool = False,
    progress: Progress | None = None,
    **arguments: Any,
) -> Verdict:
    """The verdict on what the mechanism claims, for inputs of this size, within these seconds.

    `epsilon` and `delta` are set as its arguments of these names, or as its claim where it has none. Mechanisms whose
    paths can be listed are proved and compared exactly; others, and all with `black_box`, are sampled. A statistical
    refutation is wrong with probability at most `alpha`, whatever was searched. Ctrl-C gives the verdict so far.

    >>> def halved(rng, data, *, epsilon=0.1): return data[0] + rng.laplace(scale=0.5 / epsilon)
    >>> print(audit(halved, size=1))
    halved: 0.1-DP is REFUTED, ε = 0.2; assumed: adjacency linf, domain [-10, 10]
    """
    bound = as_mechanism(mechanism, **arguments).claiming(epsilon, delta)
    bound = bound.stating(adjacency=adjacency, domain=domain)
    findings = Findings(Case.of(bound, size, alpha, seed), Deadline(seconds), progress)
    findings.tell("running it once")
    run_once(findings.case, seconds)
    try:
        findings.remarks += reused_noise(findings.case)
        if not black_box:
            look_for_caveats(findings)
        _sample_only(findings) if black_box else _explore_first(findings)
        compare_with_ledger(findings)
    except KeyboardInterrupt:
        findings.finished = False
        findings.note("audit", "interrupted", 0.0)
    if findings.witness is not None:
        findings.witness = rounded_witness(findings.case, findings.witness)
    return findings.verdict()


def _explore_first(findings: Findings) -> None:
    """Proof and exact witness, each checking the other; what neither can say is searched and sampled."""
    explored.try_to_prove(findings)
    exact = explored.compare_exactly(findings)
    searchable = not findings.case.claim.delta  # DP-Finder climbs on ε alone
    if exact and searchable and not findings.met and not findings.deadline.passed:
        explored.ascend(findings)
    if findings.proved and not findings.refuted:
        explored.prove_every_size(findings)
    if not exact and not findings.proved:
        _sample_only(findings)
        sampled.confirm_exactly(findings)


def _sample_only(findings: Findings) -> None:
    sampled.look_quickly(findings)
    if not findings.refuted:
        sampled.attack(findings)
