"""`veridp prove TARGET`: the smallest ε that an alignment of the noise can prove."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veridp.budget import Deadline
from veridp.claim import with_assumptions
from veridp.cli.options import Arg, AsJson, Delta, Epsilon, Relation, Size, Target, Time, Values, chosen_mechanism
from veridp.cli.output import FAILS, HOLDS, show, show_json, status_line, user_code, write_report
from veridp.errors import CutShort, NotExact, NotExplorable

if TYPE_CHECKING:
    from veridp.engines.exact import Worst
    from veridp.engines.prove import Proof, ProofForSizes

MEET = 0.01  # a proof and a witness meet if they are this close, relatively
MET = 1 - 1e-9  # the share of the proved ε at which a witness cannot become worse


def show_proof(
    target: Target,
    size: Size = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    relation: Relation = None,
    domain: Values = None,
    arg: Arg = None,
    certificate: Annotated[Path | None, typer.Option(help="write the certificate to this file")] = None,
    every: Annotated[
        bool, typer.Option("--sizes", help="prove for all sizes from 1 on, and for every size if possible")
    ] = False,
    time: Time = 60.0,
    as_json: AsJson = False,
) -> int:
    """Print the smallest ε that is proved for all neighbours of a size, and how; exit 1 if the claim is refuted."""
    from veridp.engines.prove import prove, prove_sizes

    with user_code():
        deadline = Deadline(time)
        mechanism = chosen_mechanism(target, epsilon, arg, delta, relation, domain=domain, size=size, deadline=deadline)
        with status_line(f"{mechanism.name}: proving"):
            sizes = prove_sizes(mechanism, size, seconds=deadline.left) if every else None
            proof = prove(mechanism, size, seconds=deadline.left) if sizes is None else sizes.proofs[-1]
            found = _witness(proof, deadline)
    if certificate is not None and math.isfinite(proof.epsilon):
        from veridp.engines.prove.certificate import certificate_text

        written = proof.certificate if sizes is None or sizes.induction is None else sizes.certificate
        write_report(certificate, certificate_text(written))
    if as_json:
        show_json("prove", {"target": target, **_document(sizes or proof, found)})
    else:
        show("\n".join(_lines(proof, sizes, found, certificate)))
    return FAILS if found is not None and found.refuted else HOLDS


def _witness(proof: Proof, deadline: Deadline) -> Worst | None:
    """Where the claim is not proved: the worst pair that the exact engine finds in the time that is left, from the
    corner that cost most on."""
    if proof.keeps_claim or deadline.passed:
        return None
    from veridp.engines.exact import worst

    try:
        return worst(proof.mechanism, proof.size, seconds=deadline.left, moves=proof.moves, enough=proof.epsilon * MET)
    except (CutShort, NotExact, NotExplorable):
        return None


def _lines(proof: Proof, sizes: ProofForSizes | None, found: Worst | None, certificate: Path | None) -> list[str]:
    lines = [str(proof)]
    if sizes is not None:
        lines.append(str(sizes) + (f" (no induction: {sizes.why_not})" if sizes.why_not else ""))
    lines.append(proof.extent)
    lines.append(f"what costs most: {proof.explained}")
    if found is not None:
        cut = "" if found.finished else " (the search was cut short)"
        lines.append(f"a witness: {found.comparison}, where {found.witness.event}{cut}")
        lines += [found.comparison.as_floats] if found.comparison.as_floats else []
        lower = found.comparison.shown_epsilon
        end = "they meet" if lower >= proof.epsilon * (1 - MEET) else "a gap is left"
        lines.append(f"the true ε is between {lower:.6g} and {proof.epsilon:.6g}: {end}")
    if proof.blame is not None and not proof.keeps_claim:
        lines.append(f"to blame: {proof.blame}")
    claim = proof.claim
    if claim is not None:
        proved = proof.keeps_claim
        judged = (
            f"proved {proof.restriction}".strip()
            if proved
            else "refuted"
            if found is not None and found.refuted
            else "neither proved nor refuted"
        )
        lines.append(with_assumptions(f"claimed {claim}: {judged}", proof.mechanism.assumptions))
    if certificate is not None:
        scope = "for every size" if sizes is not None and sizes.induction is not None else f"for size {proof.size}"
        written = math.isfinite(proof.epsilon)
        lines.append(f"certificate: {certificate}, {scope}" if written else "no certificate: nothing is proved")
    return lines


def _document(result: Proof | ProofForSizes, found: Worst | None) -> dict[str, Any]:
    """The proof as plain data, and the witness that the exact engine found."""
    if found is None:
        return result.to_dict()
    return {
        **result.to_dict(),
        "refuted": found.refuted,
        "witness": {
            "epsilon": found.epsilon,
            "left": found.witness.left,
            "right": found.witness.right,
            "event": str(found.witness.event),
            "as_floats": bool(found.comparison.as_floats),
        },
        "finished": result.finished and found.finished,
    }
