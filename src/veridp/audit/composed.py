"""A function that calls several mechanisms, on one line: the ledger's bound, the exact ε, the attack's."""

from __future__ import annotations

from typing import Any

import numpy as np

from veridp.audit.findings import Findings
from veridp.claim import Witness
from veridp.confidence import log_ratio_lower
from veridp.errors import VeridpError
from veridp.kernel.output import output_of
from veridp.sampling.sample import tally

RUNS = 50_000  # on either side, that an exact witness is attacked with


def compare_with_ledger(findings: Findings) -> None:
    """Note what the mechanisms that it calls cost together, beside what was found; nothing where it calls none."""
    from veridp.accounting.composing import ComposedBounds, ledger_of
    from veridp.accounting.release import recording

    case, witness = findings.case, findings.witness
    with recording() as recorder:
        output_of(case.mechanism.bound(), np.random.default_rng(case.seed_of(5)), case.example)
    if not recorder.signature:
        return
    with findings.timed("ledger") as found:
        try:
            ledger = ledger_of(case.mechanism, case.size, case.claim.delta or None)
        except VeridpError as reason:
            found.append(f"no bound: {reason}")
            return
        computed = witness is not None and witness.confidence == 1
        attack = findings.lower if witness is not None else None
        if witness is not None and computed:
            attack = _attacked(findings, witness)
        found.append(
            str(
                ComposedBounds(
                    case.mechanism.name,
                    ledger.bound,
                    ledger.every,
                    findings.lower if computed else None,
                    attack,
                    1 - case.alpha if computed or witness is None else witness.confidence,
                )
            )
        )


def _attacked(findings: Findings, witness: Witness) -> float | None:
    """What samples of the two inputs show of a witness that was computed, at the audit's α; None where they cannot.

    No other statement of the audit spends α then, for none rests on samples.
    """
    case = findings.case
    event: Any = witness.event  # of whatever kind, it can be counted
    try:
        hits = [
            tally(case.mechanism, side, RUNS, case.seed_of(stage), events=[event], workers=1).counts[0]
            for stage, side in enumerate((witness.left, witness.right), start=6)
        ]
    except VeridpError:
        return None
    findings.alpha = case.alpha
    return float(log_ratio_lower(hits[0], RUNS, hits[1], RUNS, case.alpha, case.claim.delta))
