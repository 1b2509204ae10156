"""A function that calls several mechanisms, on one line: the ledger's bound, the exact ε, the attack's."""

from __future__ import annotations

import numpy as np

from veridp.audit.findings import Findings
from veridp.errors import VeridpError
from veridp.program.limit import OutOfTime, at_most


def compare_with_ledger(findings: Findings) -> None:
    """Note what the mechanisms that it calls cost together, beside what was found; nothing where it calls none."""
    from veridp.accounting.line import Line, ledger_of
    from veridp.accounting.recording import recording

    case, witness = findings.case, findings.witness
    with recording() as recorder:
        case.mechanism.bound()(np.random.default_rng(case.seed_of(5)), case.example)
    if not recorder.signature:
        return
    with findings.timed("ledger") as found:
        try:
            with at_most(max(findings.deadline.left, 1.0)):
                ledger = ledger_of(case.mechanism, case.size, case.claim.delta or None)
        except (VeridpError, OutOfTime) as reason:
            found.append(f"no bound: {reason or 'out of time'}")
            return
        exact = findings.lower if witness is not None and witness.confidence == 1 else None
        sampled = findings.lower if witness is not None and witness.confidence < 1 else None
        confidence = None if witness is None else witness.confidence
        found.append(str(Line(case.mechanism.name, ledger.bound, ledger.every, exact, sampled, confidence)))
