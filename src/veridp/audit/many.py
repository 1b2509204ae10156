"""Audits of many mechanisms: one after the other here, or side by side on an executor; with a checkpoint to resume."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import Any

from veridp.audit.audit import ALPHA, audit
from veridp.audit.case import AuditCase
from veridp.audit.snippet import snippet
from veridp.errors import VeridpError
from veridp.mechanism import Mechanism, as_mechanism
from veridp.sampling.checkpoint import Journal
from veridp.sampling.worker_pool import WorkerPool
from veridp.verdict import Verdict

CLAIMED = ("epsilon", "delta", "rho", "mu", "rdp", "tradeoff")
STATED = ("adjacency", "domain")
RUN = ("size", "seconds", "alpha", "seed", "black_box")  # options of an audit that say nothing of the mechanism
Audit = Verdict | VeridpError


def audit_all(
    mechanisms: Iterable[Mechanism | Callable[..., Any]],
    *,
    executor: Executor | None = None,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    **options: Any,
) -> Generator[Audit, None, None]:
    """The verdict on each mechanism, in their order, as `audit` gives it with these options; the error where it raises.

    With an `executor` each audit is a task of its own; the verdicts are the same. Finished ones are kept in the file
    `checkpoint`; with `resume`, they are taken from there, and only the others are audited.
    """
    parts = [{name: options.pop(name) for name in names if name in options} for names in (CLAIMED, STATED, RUN)]
    claimed, stated, run = parts
    audited = [as_mechanism(one, **options).claiming(**claimed).stating(**stated) for one in mechanisms]
    unhurried = {name: value for name, value in run.items() if name != "seconds"}
    journal = Journal.at(checkpoint, resume, "audit", audited, unhurried)
    with WorkerPool(run, executor, 1 if executor is None else None, journal=journal) as pool:
        verdicts = pool.remembered(_audited, audited, keep=_is_final, per_worker=1)
        for mechanism, verdict in zip(audited, verdicts, strict=True):
            yield _at_home(mechanism, run, verdict) if isinstance(verdict, Verdict) else verdict


def _audited(run: Mapping[str, Any], mechanism: Mechanism) -> Audit:
    try:
        return audit(mechanism, **run)
    except VeridpError as error:
        return error


def _is_final(result: Audit) -> bool:
    """Whether another run would come to the same: not where the time, or the machine, had a say."""
    return isinstance(result, Verdict) and result.finished


def _at_home(mechanism: Mechanism, run: Mapping[str, Any], verdict: Verdict) -> Verdict:
    """The verdict with what could not travel: the mechanism itself, and how this process names it."""
    case = AuditCase.of(mechanism, run.get("size"), run.get("alpha", ALPHA), run.get("seed", 0))
    again = "" if verdict.witness is None else snippet(case, verdict.witness)
    return replace(verdict, subject=case.mechanism, snippet=again)
