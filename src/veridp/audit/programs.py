"""What two aligned runs of a program say: what to look at, which pairs to attack, and what its releases cost."""

from __future__ import annotations

from veridp.audit.findings import Findings
from veridp.audit.witness import exact_witness
from veridp.budget import time_left
from veridp.claim import data_text, number
from veridp.engines.exact import compare
from veridp.errors import CutShort, Nondeterministic, VeridpError
from veridp.kernel.symbols import count_text

COMPARED_PAIRS = 32
PIPELINE_TIME_SHARE = 0.2  # of the time that is left


def compare_runs(findings: Findings) -> None:
    """Compare runs on pairs of neighbours. Its candidates are remarks, and their pairs are attacked first.

    It refutes nothing: what it finds counts when exact losses or fresh samples confirm it.
    """
    from veridp.engines.pipeline import in_domain, search

    case = findings.case
    findings.tell("comparing aligned runs")
    with findings.timed("pipeline") as found:
        try:
            result = search(
                case.mechanism,
                seed=case.seed_of(9),
                max_pairs=COMPARED_PAIRS,
                seconds=max(time_left(), 1e-3),
                progress=lambda stage, share, best: findings.tell(f"aligned runs: {stage}"),
            )
        except CutShort:
            raise
        except VeridpError as reason:
            found.append(f"runs are not compared: {reason}")
            return
        findings.finished = findings.finished and result.finished
        findings.searched += result.searched
        inside = [one for one in result.found if in_domain(case.mechanism, one.pair)]
        findings.candidates = [one.pair for one in inside]
        findings.remarks += [
            candidate.remark
            for one in inside
            for candidate in one.candidates
            if candidate.remark not in findings.remarks
        ]
        candidates = dict.fromkeys(str(candidate) for one in inside for candidate in one.candidates)
        found.append(f"{count_text(len(candidates), 'candidate')} on {count_text(result.pairs, 'pair')}")
        found.extend(f"candidate: {candidate}" for candidate in candidates)
        costliest = result.costliest
        if costliest is not None and in_domain(case.mechanism, costliest.pair):
            sides = f"{data_text(costliest.left)} against {data_text(costliest.right)}"
            found.append(f"{costliest.cost_text} between {sides}, where {case.claim} is claimed")
            if costliest.epsilon > 0:
                findings.candidates.append(costliest.pair)
        found.extend(str(remark) for remark in result.lost)


def confirm_candidates(findings: Findings) -> None:
    """Ask for the exact loss between the inputs of each candidate, where that can be had."""
    case = findings.case
    with findings.timed("exact") as found:
        for pair in findings.candidates:
            try:
                comparison = compare(case.mechanism, pair.left, pair.right)
                epsilon = comparison.epsilon_at(case.claim.tolerated.delta)
            except (CutShort, Nondeterministic):  # samples of what keeps noise say nothing either
                raise
            except VeridpError as reason:
                found.append(f"candidates are not confirmed exactly: {reason}")
                return
            found.append(f"ε = {number(epsilon)} between the inputs of a candidate")
            findings.witness_found(epsilon, exact_witness(comparison, case.claim))
            if findings.refuted:
                found.append("which confirms it")
                return


def confirmed_by_samples(findings: Findings) -> str:
    """A sentence where the witness is one between the inputs of a candidate."""
    witness = findings.witness
    if witness is None or not findings.refuted:
        return ""
    sides = {repr(witness.left), repr(witness.right)}
    return "fresh samples confirm a candidate" * any(
        {repr(pair.left), repr(pair.right)} == sides for pair in findings.candidates
    )
