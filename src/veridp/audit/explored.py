"""What the paths of a mechanism say: a proof from above, exact witnesses from below, and the ledger of its parts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from veridp.audit.case import AuditCase
from veridp.audit.findings import Findings
from veridp.audit.witness import certified_witness, class_witnesses, exact_witness
from veridp.budget import Deadline, OutOfTime, time_left, within
from veridp.budget.child_process import listening
from veridp.claim import Witness, as_floats_note
from veridp.confidence import log_ratio_lower
from veridp.errors import BadInput, CutShort, MechanismError, NotExact, NotExplorable, VeridpError
from veridp.kernel.output import Raised, output_of
from veridp.kernel.symbols import count_text
from veridp.notions import GaussianDP, ZeroConcentrated
from veridp.sampling.sample import tally
from veridp.verdict import Remark

if TYPE_CHECKING:
    from veridp.engines.exact import Worst
    from veridp.engines.prove import Proof


# ------------------------------------------------------------------------------------------------------------ composed
# A function that calls several mechanisms, on one line: the ledger's bound, the exact ε, the attack's.


RUNS = 50_000  # on either side, that an exact witness is attacked with


def compare_with_ledger(findings: Findings) -> None:
    """Note what the mechanisms that it calls cost together, beside what was found; nothing where it calls none."""
    from veridp.accounting.composition import ComposedBounds, ledger_of
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


# ------------------------------------------------------------------------------------------------------------ explored
# What the paths of a mechanism say: a proof from above, exact witnesses from below.


# A mechanism that has run well on real noise and fails on symbols is one that symbols cannot stand in for.
NO_PATHS = (NotExplorable, MechanismError)
# What is tried is bounded by these, and by time only where that is short.
MAX_PAIRS = 2_000  # compared exactly
LEAST_PAIRS = 16  # compared exactly, also where the first attains what is proved: the proof is checked by all of them
LEAST_PAIRS_OF_NO_COST = 64  # where the proof says that the output does not depend on the data at all
RESTARTS = 50  # of the climb
RESTARTS_BESIDE_EXACT = 25  # where all pairs that were tried have an exact loss, and the best was moved from already
OTHER_SIZES = (2, 1, 3, 8)  # that are tried where the size is assumed
PAIRS_BY_NOTION = 200  # compared exactly by the notion of the claim
PAIRS_OF_OTHER_SIZES = 200  # compared exactly at each
SIZE_TIME_SHARE = 0.5  # of the time that is left for all of them, for the next
CLOSE_ENOUGH = 1e-3  # a witness that is so close to the proof, relatively, ends the search for a better one


def try_to_prove(findings: Findings) -> None:
    """Look for an alignment; if it proves the claim, for one of every size too."""
    from veridp.engines.prove import prove

    case = findings.case
    findings.tell("proving")
    with findings.timed("prove") as found:
        try:
            proof = prove(case.mechanism, case.size)
            if _is_short_of_notion(case, proof):
                pure = prove(case.mechanism, case.size, delta=0.0)
                proof = pure if case.claim.covers_proof(pure) else proof
        except (*NO_PATHS, NotExact, BadInput) as reason:
            found.append(f"no proof: {reason}")
            return
        if math.isfinite(proof.epsilon) and not findings.returns_as_at_first():
            found.append("no proof: it keeps state between runs")
            return
        if math.isfinite(proof.epsilon):
            scope = ", ".join(filter(None, (case.scope, proof.limits)))
            findings.prove(proof.epsilon, proof.explained, scope, proof)
            found.append(f"{proof.privacy} is proved {findings.scope}; {proof.confirmed}")
        else:
            found.append(f"no alignment found: {proof.explained}")
        findings.moves, findings.rounding, findings.left_out = proof.moves, proof.rounding, proof.left_out
        if not findings.proved:
            blame = proof.blame
            findings.remarks += [] if blame is None else [Remark(blame.sentence, blame.file, blame.line)]


def _is_short_of_notion(case: AuditCase, proof: Proof) -> bool:
    """Whether a proof at a δ leaves open a claim in another notion, which a pure ε may imply."""
    asked = case.claim.notion is not None and proof.at_delta and not case.mechanism.takes("delta")
    return bool(asked) and not case.claim.covers_proof(proof)


def prove_every_size(findings: Findings) -> None:
    """Where the claim is proved at this size, try to prove it at every other."""
    from veridp.engines.prove import prove_for_every_size

    case = findings.case
    findings.tell("proving for every size")
    with findings.timed("prove") as found:
        try:
            induction = prove_for_every_size(case.mechanism)
        except (*NO_PATHS, BadInput) as reason:
            found.append(f"not proved for every size: {reason}")
            return
        if induction.keeps(case.claim):
            findings.of_every_size = True
            every = f"for all neighbours under {case.mechanism.adjacency}, of every size"
            findings.scope = ", ".join(filter(None, (every, induction.restriction)))
            found.append(f"{induction.privacy} is proved for every size")
        else:
            found.append(f"for every size only {induction.privacy} is proved")


def compare_exactly(findings: Findings) -> None:
    """Search the worst pair by its exact loss, where the exact engine can speak of this mechanism."""
    from veridp.engines.exact import worst

    case = findings.case
    findings.tell("comparing exactly")
    with findings.timed("exact") as found:
        try:
            with listening(lambda search: _take_worst(findings, search, [])):
                search = worst(
                    case.mechanism,
                    case.size,
                    seconds=max(time_left(), 1e-3),
                    max_pairs=MAX_PAIRS,
                    least_pairs=LEAST_PAIRS if findings.upper else LEAST_PAIRS_OF_NO_COST,
                    moves=findings.moves,
                    at=case.claim.tolerated.delta,
                    enough=findings.upper * (1 - CLOSE_ENOUGH),
                    progress=lambda stage, tried, best: findings.tell(
                        f"comparing exactly: {stage}, {count_text(tried, 'pair')}", best
                    ),
                )
        except (*NO_PATHS, NotExact, BadInput) as reason:
            found.append(f"not exact: {reason}")
            return
        pairs = count_text(search.tried, "pair")
        findings.searched.append(f"{pairs} by exact loss ({', '.join(search.searched)})")
        findings.finished = findings.finished and search.finished
        _take_worst(findings, search, found)
        found += [] if search.finished else ["cut short"]
        search = _by_notion(findings, found) or search
        if case.mechanism.probability_error:
            for other in class_witnesses(case, search.comparison, findings.deadline):
                findings.witness_found(search.epsilon, other)
            found += _as_floats(findings, search.epsilon)
        elif findings.refuted:
            certain = certified_witness(search.comparison, case.claim, findings.deadline)
            if certain is not None:
                findings.witness = certain
                found.append("certified by interval arithmetic")


def _by_notion(findings: Findings, found: list[str]) -> Worst | None:
    """The search by the notion of the claim, where that refutes it: the largest ε need not be of the largest ρ."""
    from veridp.engines.exact import worst

    case, notion = findings.case, findings.case.claim.notion
    name = "rho" if isinstance(notion, ZeroConcentrated) else "mu" if isinstance(notion, GaussianDP) else None
    if name is None or findings.refuted or findings.proved:
        return None
    seconds = max(time_left(), 1e-3)
    try:
        search = worst(case.mechanism, case.size, notion=name, seconds=seconds, max_pairs=PAIRS_BY_NOTION)
    except (*NO_PATHS, NotExact, BadInput) as reason:
        found.append(f"not exact in {name}: {reason}")
        return None
    findings.finished = findings.finished and search.finished
    findings.searched.append(f"{count_text(search.tried, 'pair')} by {name}")
    if not exact_witness(search.comparison, case.claim).refutes(case.claim):
        return None
    _take_worst(findings, search, found)
    return search


def try_other_sizes(findings: Findings) -> None:
    """Where nobody said how large data are: compare exactly at other sizes too, and turn to one that is refuted.

    A size on which the mechanism raises is left out: it may not be made for so few data.
    """
    from veridp.engines.exact import worst

    case = findings.case
    tried = []
    with findings.timed("exact") as found:
        for size in [size for size in OTHER_SIZES if size != case.size]:
            other = case.of_size(size)
            findings.tell(f"comparing exactly at size {size}")
            deadline = Deadline(max(time_left(), 1e-3)).part(SIZE_TIME_SHARE)
            try:
                with within(deadline):
                    if not _runs(other):
                        continue
                    search = worst(
                        other.mechanism,
                        size,
                        seconds=deadline.seconds,
                        max_pairs=PAIRS_OF_OTHER_SIZES,
                        at=case.claim.tolerated.delta,
                    )
            except (*NO_PATHS, NotExact, BadInput):
                continue
            except (CutShort, OutOfTime):
                findings.finished = False
                continue
            findings.finished = findings.finished and search.finished
            tried.append(size)
            if exact_witness(search.comparison, case.claim).refutes(case.claim):
                findings.turn_to(size)
                found.append(f"at size {size}")
                _take_worst(findings, search, found)
                return
        if tried:
            found.append(f"not refuted at size {', '.join(map(str, tried))} either")
            findings.searched.append(f"sizes {', '.join(map(str, tried))} by exact loss")
        else:
            found.append("no other size could be compared exactly")


def _runs(case: AuditCase) -> bool:
    """Whether it returns something on data of this size, and on those with a record more if that is a neighbour."""
    function, rng = case.mechanism.bound(), np.random.default_rng(case.seed_of(9))
    sizes = range(case.size, case.size + case.mechanism.adjacency.extra + 1)
    examples = (case.mechanism.adjacency.example(size, case.mechanism.domain) for size in sizes)
    return not any(isinstance(output_of(function, rng, data), Raised) for data in examples)


def _take_worst(findings: Findings, search: Worst, found: list[str]) -> None:
    """The worst pair so far as evidence, which remains if the search is cut short after it.

    A loss above the claim that no event shows does not settle anything, and neither does a search that could not
    compare all pairs, or did not tell all outputs apart: then samples may.
    """
    case, comparison, epsilon = findings.case, search.comparison, search.epsilon
    witness = exact_witness(comparison, case.claim)
    found.append(f"ε = {epsilon:.6g} at the worst of {count_text(search.tried, 'pair')}")
    findings.witness_found(epsilon, witness)
    shown = case.mechanism.probability_error or witness.refutes(case.claim) or not comparison.refutes(case.claim)
    if not shown:
        found.append(f"of {epsilon:.12g}, events with a computable probability show only {findings.lower:.12g}")
    if comparison.left_out:
        findings.left_out = comparison.left_out
        found.append(f"but for {comparison.left_out}")
    if search.incomparable:
        found.append(f"{count_text(search.incomparable, 'pair')} could not be compared exactly")
    findings.first_pairs = search.incomparable_pairs
    in_full = not comparison.is_lower_bound or (findings.lower > 0 and findings.met)
    settled = bool(shown) and ((in_full and not search.incomparable) or witness.refutes(case.claim))
    findings.smallest_mass, findings.exact = 0.0, settled
    findings.report()


def ascend(findings: Findings) -> None:
    """Where proof and witness do not meet: climb from the worst pair known."""
    from veridp.engines.finder import search

    case = findings.case
    findings.tell("climbing from the worst pair")
    with findings.timed("finder") as found:
        start = [] if findings.witness is None else [(findings.witness.left, findings.witness.right)]
        try:
            result = search(
                case.mechanism,
                case.size,
                restarts=min(RESTARTS, RESTARTS_BESIDE_EXACT) if findings.exact else RESTARTS,
                seconds=max(time_left(), 1e-3),
                seed=case.seed_of(1),
                start=start,
                progress=lambda stage, share, best: findings.tell(f"climbing: {stage}", best),
            )
        except (*NO_PATHS, NotExact, BadInput) as reason:
            found.append(f"no search: {reason}")
            return
        findings.finished = findings.finished and result.finished
        findings.searched.append("; ".join(result.searched))
        if result.witness is None:
            found.append("nothing found")
            return
        findings.witness_found(result.epsilon, result.witness)
        found += [f"ε = {result.epsilon:.6g}", *_as_floats(findings, result.epsilon)]


def _as_floats(findings: Findings, epsilon: float) -> list[str]:
    """A sentence, where a computed ε rests on what a library rounds off."""
    note = as_floats_note(epsilon, findings.lower) if findings.case.mechanism.probability_error else ""
    return [note] if note else []
