"""What the paths of a mechanism say: a proof from above, exact witnesses from below."""

from __future__ import annotations

import math

from veridp.audit.exactly import certified_witness, class_witnesses, exact_witness
from veridp.audit.findings import Findings
from veridp.claim import Remark
from veridp.errors import BadInput, MechanismError, NotExact, NotExplorable
from veridp.program.limit import OutOfTime, at_most

# A mechanism that has run well on real noise and fails on symbols is one that symbols cannot stand in for.
NO_PATHS = (NotExplorable, MechanismError)
CLOSE_ENOUGH = 1e-3  # a witness that is so close to the proof, relatively, ends the search for a better one
SHARE = 0.5  # of the time that is left, for each of proof and exact search
SHORTEST = 1.0  # seconds without which a climb is not begun


def try_to_prove(findings: Findings) -> None:
    """Look for an alignment; if it proves the claim, for one of every size too."""
    from veridp.prove import prove

    case = findings.case
    findings.tell("proving")
    with findings.timed("prove") as found:
        try:
            with at_most(findings.deadline.left * SHARE):
                proof = prove(case.mechanism, case.size)
        except (*NO_PATHS, NotExact, BadInput) as reason:
            found.append(f"no proof: {reason}")
            return
        except OutOfTime:
            found.append("no proof within its share of the time")
            return
        if math.isfinite(proof.epsilon):
            findings.prove(proof.epsilon, proof.explained, ", ".join(filter(None, (case.scope, proof.restriction))))
            found.append(f"{proof.epsilon:.6g}-DP is proved {findings.scope}")
        else:
            found.append(f"no alignment found: {proof.explained}")
        findings.moves = proof.moves
        if not findings.proved:
            blame = proof.blame
            findings.remarks += [] if blame is None else [Remark(blame.sentence, blame.file, blame.line)]


def prove_every_size(findings: Findings) -> None:
    """Where the claim is proved at this size, try to prove it at every other."""
    from veridp.prove import prove_for_every_size

    case = findings.case
    findings.tell("proving for every size")
    with findings.timed("prove") as found:
        try:
            with at_most(findings.deadline.left * SHARE):
                induction = prove_for_every_size(case.mechanism)
        except (*NO_PATHS, BadInput) as reason:
            found.append(f"not proved for every size: {reason}")
            return
        except OutOfTime:
            found.append("not proved for every size within its share of the time")
            return
        if case.claim.covers(induction.epsilon):
            findings.scope = f"for all neighbours under {case.mechanism.adjacency}, of every size"
            found.append(f"{induction.epsilon:.6g}-DP is proved for every size")
        else:
            found.append(f"for every size only {induction.epsilon:.6g}-DP is proved")


def compare_exactly(findings: Findings) -> bool:
    """Search the worst pair by its exact loss; whether that settles what the exact engine can say of this mechanism.

    It does not where the loss is above the claim but no event shows it: then samples may.
    """
    from veridp.exact import worst

    case = findings.case
    findings.tell("comparing exactly")
    with findings.timed("exact") as found:
        try:
            search = worst(
                case.mechanism,
                case.size,
                seconds=max(findings.deadline.left * SHARE, 1e-3),
                moves=findings.moves,
                at=case.claim.tolerated.delta,
                enough=findings.upper * (1 - CLOSE_ENOUGH),
                progress=lambda stage, tried, best: findings.tell(f"comparing exactly: {stage}, {tried} pairs", best),
            )
        except (*NO_PATHS, NotExact, BadInput) as reason:
            found.append(f"not exact: {reason}")
            return False
        findings.searched.append(f"{search.tried} pairs by their exact loss ({', '.join(search.searched)})")
        comparison, epsilon = search.comparison, search.epsilon
        witness = exact_witness(comparison, case.claim)
        found.append(f"ε = {epsilon:.6g} at the worst of {search.tried} pairs")
        unshown = comparison.refutes(case.claim) and not witness.refutes(case.claim)
        findings.witness_found(epsilon, witness)
        if case.mechanism.probability_error:
            for other in class_witnesses(case, comparison, findings.deadline):
                findings.witness_found(epsilon, other)
            found += _as_floats(findings, epsilon)
        elif unshown:
            found.append(f"of {epsilon:.12g}, events with a computable probability show only {findings.lower:.12g}")
        findings.smallest_mass = 0.0
        if findings.refuted and not case.mechanism.probability_error:
            certain = certified_witness(comparison, case.claim, findings.deadline)
            if certain is not None:
                findings.witness = certain
                found.append("certified by interval arithmetic")
    return not unshown or bool(case.mechanism.probability_error)


def ascend(findings: Findings) -> None:
    """Where proof and witness do not meet: climb from the worst pair known."""
    from veridp.finder import search

    case = findings.case
    if findings.deadline.left < SHORTEST:
        findings.finished = False
        findings.note("finder", "not begun: too little time is left", 0.0)
        return
    findings.tell("climbing from the worst pair")
    with findings.timed("finder") as found:
        start = [] if findings.witness is None else [(findings.witness.left, findings.witness.right)]
        try:
            with at_most(findings.deadline.left):  # one step of a search may take longer than it all
                result = search(
                    case.mechanism,
                    case.size,
                    seconds=max(findings.deadline.left * SHARE, 1e-3),
                    seed=case.seed_of(1),
                    start=start,
                    progress=lambda stage, share, best: findings.tell(f"climbing: {stage}", best),
                )
        except (*NO_PATHS, NotExact, BadInput) as reason:
            found.append(f"no search: {reason}")
            return
        except OutOfTime:
            found.append("nothing found within its share of the time")
            return
        findings.searched.append("; ".join(result.searched))
        if result.witness is None:
            found.append("nothing found")
            return
        findings.witness_found(result.epsilon, result.witness)
        found += [f"ε = {result.epsilon:.6g}", *_as_floats(findings, result.epsilon)]


def _as_floats(findings: Findings, epsilon: float) -> list[str]:
    """A sentence, where a computed ε rests on what a library rounds off."""
    if not findings.case.mechanism.probability_error or findings.lower >= epsilon * (1 - CLOSE_ENOUGH):
        return []
    return [f"that is as floats: beyond what the library rounds off, events show only {findings.lower:.6g}"]
