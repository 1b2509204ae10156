"""One question, one verdict: how private is this, really?"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from veridp.adjacency import Adjacency, Domain
from veridp.audit import explored, programs, sampled
from veridp.audit.case import AuditCase, run_again, run_once
from veridp.audit.caveats import check_forks, look_for_caveats, reused_noise
from veridp.audit.explored import compare_with_ledger
from veridp.audit.findings import Findings
from veridp.audit.floats import look_at_floats
from veridp.audit.witness import check_on_first_runs, check_on_samples, rounded_witness
from veridp.budget import Deadline, Progress
from veridp.budget.child_process import NOTHING, attempt, contained, forks, threaded
from veridp.budget.notebook_progress import shows_progress
from veridp.errors import CutShort, MechanismHung
from veridp.kernel.state.memory import from_first_run
from veridp.mechanism import Mechanism, as_mechanism
from veridp.verdict import Verdict

SECONDS = 60.0
ALPHA = 0.05
ENGINE_TIME_SHARE = 0.5  # of the time that is left, for each of proof, exact search and climb
LIBRARY_TIME_SHARE = 0.2  # the same for objects of libraries, which often reject draws and so have to be sampled
OTHER_SIZES_TIME_SHARE = 0.3
PILOT_TIME_SHARE = 0.1  # of the time that is left, for each look at a few runs before that
FIRST_RUNS_SECONDS = 2.0  # at least, for runs that start afresh
PILOT = ("first run", "more runs")  # the steps in which a process that ends is the mechanism's own fault


@shows_progress
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
    rho: float | None = None,
    mu: float | None = None,
    rdp: Any = None,
    tradeoff: Any = None,
    **arguments: Any,
) -> Verdict:
    """The verdict on what the mechanism claims, for inputs of this size, within these seconds.

    `epsilon` and `delta` are set as its arguments of these names, or as its claim where it has none. One of `rho`
    (zCDP), `mu` (Gaussian DP), `rdp` and `tradeoff` in their place is a claim in that notion. Mechanisms whose
    paths can be listed are proved and compared exactly; others, and all with `black_box`, are sampled. A statistical
    refutation is wrong with probability at most `alpha`, whatever was searched. `pairs=[(left, right), …]` in place of
    size, adjacency and domain asks about these neighbours alone.

    The `seconds` and the limit on memory hold whatever the mechanism does: on Linux it runs in a child process, which
    is ended if it does not end by itself. The time to load libraries, once in a process, is not counted. An audit that
    is cut short, by either limit or by Ctrl-C, gives the verdict so far, and `finished` is False. A finished verdict
    depends on the seed, and not on how fast the machine is.

    >>> def halved(rng, data, *, epsilon=0.1): return data[0] + rng.laplace(scale=0.5 / epsilon)
    >>> print(audit(halved, size=1))
    halved: 0.1-DP is REFUTED, ε = 0.2; assumed: adjacency linf, domain [-10, 10]
    """
    notion = {"rho": rho, "mu": mu, "rdp": rdp, "tradeoff": tradeoff}
    bound = as_stated(mechanism, epsilon, delta, adjacency=adjacency, domain=domain, **notion, **arguments)
    case = AuditCase.of(bound, size, alpha, seed)
    _load(black_box)
    findings = Findings(case, Deadline(seconds), progress)
    if library := threaded():
        findings.caveats.append(
            f"{library} is loaded, whose threads a fork does not survive: the audit ran in this process alone, where "
            f"a compiled call that does not return is not stopped at the deadline"
        )
    _carry_out(findings, _sample_only if black_box else _explore_first)
    witness, state = findings.witness, findings.state_kept
    if witness is not None and findings.refuted and state and forks():
        limit = Deadline(max(findings.deadline.left, FIRST_RUNS_SECONDS))
        contained(lambda _: check_on_first_runs(case, witness, state), limit, known=(case, bound))
    return findings.verdict()


def as_stated(
    mechanism: Mechanism | Callable[..., Any] | object,
    epsilon: float | None = None,
    delta: float | None = None,
    *,
    size: int | None = None,
    adjacency: str | Adjacency | None = None,
    domain: Domain | None = None,
    rho: float | None = None,
    mu: float | None = None,
    rdp: Any = None,
    tradeoff: Any = None,
    **arguments: Any,
) -> Mechanism:
    """The mechanism with the claim, the settings and the arguments that an audit is given."""
    bound = as_mechanism(mechanism, **arguments).claiming(epsilon, delta, rho=rho, mu=mu, rdp=rdp, tradeoff=tradeoff)
    return bound.stating(adjacency=adjacency, domain=domain, size=size)


def _load(black_box: bool) -> None:
    """Load the engines that come first: they stay loaded for the next audit, and no deadline counts it."""
    for engine in ("statdp", "sniper") if black_box else ("prove", "exact"):
        importlib.import_module(f"veridp.engines.{engine}")


def _carry_out(findings: Findings, engines: Callable[[Findings], None]) -> None:
    """Run all steps in one child process; if that has to be ended within one, another goes on with the next."""
    while True:
        ended = attempt(
            lambda reporter: _steps(findings.told_to(reporter), engines),
            findings.deadline,
            known=(findings.case, findings.case.mechanism),
            progress=findings.listener,
        )
        if ended.value is not NOTHING:
            vars(findings).update(ended.value)
        if ended.reason is None:
            return
        if not findings.closed or (findings.running in PILOT and not isinstance(ended.reason, CutShort)):
            raise _hung(findings, ended.reason)
        findings.cut(ended.reason)
        if isinstance(ended.reason, KeyboardInterrupt) or findings.deadline.passed:
            return


def _hung(findings: Findings, reason: BaseException) -> BaseException:
    """Why the mechanism did not get through its first run."""
    if not isinstance(reason, CutShort):
        return reason
    return MechanismHung(f"{findings.case.mechanism.name}: its first run, on {findings.case.example!r}, was {reason}")


def _steps(findings: Findings, engines: Callable[[Findings], None]) -> dict[str, Any]:
    """All that was found after all steps that were not tried before."""
    mechanism = findings.case.mechanism
    with from_first_run(mechanism.name, mechanism.bound()) as findings.watch:
        _all_steps(findings, engines)
    return findings.state()


def _all_steps(findings: Findings, engines: Callable[[Findings], None]) -> None:
    try:
        findings.step(PILOT[0], _run_once)
        findings.step(PILOT[1], lambda findings: run_again(findings.case), PILOT_TIME_SHARE)
        findings.step("randomness", _look_at_randomness, PILOT_TIME_SHARE)
        engines(findings)
        findings.step("ledger", compare_with_ledger)
        findings.step("rounding", _round_witness)
        findings.step("witness", _check_witness)
    except KeyboardInterrupt:
        if not findings.closed:
            raise
        findings.cut(KeyboardInterrupt())


def _run_once(findings: Findings) -> None:
    findings.tell("running it once")
    try:
        findings.first_run = run_once(findings.case).distinct()
    except CutShort as reason:  # of memory: a run that does not end is found from outside
        raise _hung(findings, reason) from None


def _round_witness(findings: Findings) -> None:
    if findings.witness is not None:
        findings.witness = rounded_witness(findings.case, findings.witness)


def _check_witness(findings: Findings) -> None:
    if findings.witness is not None:
        check_on_samples(findings.case, findings.witness)


def _look_at_randomness(findings: Findings) -> None:
    findings.remarks += reused_noise(findings.case)
    check_forks(findings.case)


def _explore_first(findings: Findings) -> None:
    """Proof and exact witness, each checking the other; what neither can say is looked for in runs, and sampled."""
    of_library = hasattr(findings.case.mechanism.function, "library")
    share = LIBRARY_TIME_SHARE if of_library else ENGINE_TIME_SHARE
    _step_on_paths(findings, "prove", explored.try_to_prove, share)
    _step_on_paths(findings, "exact", explored.compare_exactly, share)
    if not (findings.proved or findings.refuted or (findings.exact and findings.finished)):
        findings.step("pipeline", programs.compare_runs, programs.PIPELINE_TIME_SHARE)
        if findings.candidates:
            _step_on_paths(findings, "candidates", programs.confirm_candidates, share)
    if not findings.proved:
        _try_other_sizes(findings)
    searchable = not findings.case.claim.delta  # DP-Finder climbs on ε alone
    if findings.exact and searchable and not findings.met:
        _step_on_paths(findings, "finder", explored.ascend, ENGINE_TIME_SHARE)
    if findings.proved and not findings.exact:
        findings.step("cross-check", sampled.cross_check, ENGINE_TIME_SHARE)
    if findings.proved and not findings.refuted:
        _step_on_paths(findings, "every size", explored.prove_every_size, ENGINE_TIME_SHARE)
        if not findings.of_every_size:
            _try_other_sizes(findings)
    if not findings.exact and not findings.proved:
        _sample_only(findings)
        _step_on_paths(findings, "confirm", sampled.confirm_exactly)
    _look_at_floats(findings)
    findings.step("caveats", look_for_caveats)


def _step_on_paths(findings: Findings, name: str, work: Callable[[Findings], None], share: float = 1.0) -> None:
    """Take a step that rests on explored paths, unless a run before it left state behind.

    Such runs, the pilot's among them, may have made the mechanism another one than what is to be judged.
    """

    def work_from_first_state(findings: Findings) -> None:
        if not findings.keeps_state:
            work(findings)

    findings.step(name, work_from_first_state, share)


def _try_other_sizes(findings: Findings) -> None:
    if findings.case.leaves_size_open and not findings.refuted:
        _step_on_paths(findings, "other sizes", explored.try_other_sizes, OTHER_SIZES_TIME_SHARE)


def _look_at_floats(findings: Findings) -> None:
    if not findings.refuted and "floats" not in findings.closed:
        findings.step("floats", look_at_floats)


def _sample_only(findings: Findings) -> None:
    """Plain events, then StatDP where they refute nothing, then DP-Sniper, also where the claim is refuted by then.

    Otherwise more seconds, in which it is refuted, could cost the better bound of an attack.
    """
    findings.step("rate", sampled.measure_rate, PILOT_TIME_SHARE)
    findings.step("events", sampled.try_events, sampled.QUICK_SHARE)
    if not findings.refuted:
        findings.step("statdp", sampled.look_quickly, sampled.QUICK_SHARE)
    _look_at_floats(findings)
    findings.step("sniper", sampled.attack)
