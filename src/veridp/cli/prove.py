"""`veridp prove TARGET`: the smallest ε that an alignment of the noise can prove. `veridp check CERTIFICATE`:
whether a certificate proves what it says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from veridp.budget import Deadline
from veridp.budget.child_process import Reporter, contained
from veridp.cli.options import (
    Arg,
    AsJson,
    Epsilon,
    HtmlFile,
    MechanismOptions,
    Relation,
    Size,
    Target,
    Time,
    Values,
    chosen_mechanism,
    stating,
)
from veridp.cli.output import FAILS, HOLDS, show, show_json, status_line, user_code, write_report, write_result_page
from veridp.errors import BadInput, CutShort, NotExact, NotExplorable
from veridp.verdict import with_assumptions
from veridp_check import CheckResult, NotACertificate, Stated, check_file
from veridp_check.__main__ import printable

if TYPE_CHECKING:
    from veridp.engines.exact import Worst
    from veridp.engines.prove import Proof, ProofForSizes
    from veridp.engines.prove.target import Difference
    from veridp.mechanism import Mechanism


# --------------------------------------------------------------------------------------------------------------- prove
# `veridp prove TARGET`: the smallest ε that an alignment of the noise can prove.


MEET = 0.01  # a proof and a witness meet if they are this close, relatively
MET = 1 - 1e-9  # the share of the proved ε at which a witness cannot become worse


@stating
def show_proof(
    target: Target,
    stated: MechanismOptions,
    certificate: Annotated[Path | None, typer.Option(help="write the certificate to this file")] = None,
    every: Annotated[
        bool, typer.Option("--sizes", help="prove for all sizes from 1 on, and for every size if possible")
    ] = False,
    time: Time = 60.0,
    html: HtmlFile = None,
    as_json: AsJson = False,
) -> int:
    """Print the smallest ε that is proved for all neighbours of a size, and how; exit 1 if the claim is refuted."""
    from veridp.engines.prove import prove, prove_sizes

    with user_code():
        deadline = Deadline(time)
        mechanism = stated.mechanism(target, deadline)
        asked = stated.delta if mechanism.claim is None else None  # else it is part of the claim
        with status_line(f"{mechanism.name}: proving"):
            sizes = prove_sizes(mechanism, stated.size, seconds=deadline.left) if every else None
            if sizes is None:
                proof = prove(mechanism, stated.size, delta=asked, seconds=deadline.left)
            else:
                proof = sizes.proofs[-1]
            found = _witness(proof, deadline)
    if certificate is not None and math.isfinite(proof.epsilon):
        from veridp.engines.prove.certificate import certificate_text

        written = proof.certificate if sizes is None or sizes.induction is None else sizes.certificate
        write_report(certificate, certificate_text(written))
    write_result_page(html, target, sizes or proof)
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
        return worst(
            proof.mechanism,
            proof.size,
            seconds=deadline.left,
            moves=proof.moves,
            at=proof.at_delta,
            enough=proof.epsilon * MET,
        )
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
        lower = found.epsilon if proof.at_delta else found.comparison.shown_epsilon
        end = "they meet" if lower >= proof.epsilon * (1 - MEET) else "a gap is left"
        lines.append(f"the true ε is between {lower:.6g} and {proof.epsilon:.6g}: {end}")
    if proof.blame is not None and not proof.keeps_claim:
        lines.append(f"to blame: {proof.blame}")
    claim = proof.claim
    if claim is not None:
        proved = proof.keeps_claim
        judged = (
            f"proved {proof.limits}".strip()
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


# --------------------------------------------------------------------------------------------------------------- check
# `veridp check CERTIFICATE`: whether a certificate proves what it says.


SETTINGS = "--size, --epsilon, --adjacency, --domain and --arg"  # the options that set what a certificate may differ in


def show_check(
    certificate: Annotated[Path, typer.Argument(help="the file that `veridp prove --certificate` wrote")],
    target: Annotated[
        str | None, typer.Option(help="also run this mechanism, and compare it with what the certificate says")
    ] = None,
    size: Size = None,
    epsilon: Epsilon = None,
    relation: Relation = None,
    domain: Values = None,
    arg: Arg = None,
    runs: Annotated[int, typer.Option(min=1, help="with --target: how many runs")] = 300,
    seed: Annotated[int, typer.Option(min=0, help="with --target: of its random data and noise")] = 0,
    time: Time = 600.0,
    as_json: AsJson = False,
) -> int:
    """Verify a certificate in exact arithmetic, without the search that wrote it.

    Exit 1 if it is rejected, or does not speak of the target with its settings, or with those of the options.
    """

    if target is None and any(option is not None for option in (size, epsilon, relation, domain, arg)):
        raise BadInput(f"{SETTINGS} are settings of the target; give --target too")

    def work(_: Reporter) -> tuple[CheckResult, list[Difference]]:
        try:
            checked = check_file(certificate)
        except NotACertificate as error:
            raise BadInput(str(error)) from None
        if target is None or checked.certificate is None or not checked.verified:
            return checked, []
        with user_code():
            mechanism = chosen_mechanism(target, epsilon, arg, None, relation, domain=domain, size=size)
            return _with_target(checked, checked.certificate, mechanism, runs, seed)

    checked, differences = contained(work, Deadline(time))
    if as_json:
        show_json("check", {"target": str(certificate), **_check_document(checked, differences)})
    else:
        show(_page(certificate, checked, differences))
    return HOLDS if checked.verified and not differences else FAILS


def _with_target(
    checked: CheckResult, certificate: Stated, mechanism: Mechanism, runs: int, seed: int
) -> tuple[CheckResult, list[Difference]]:
    """The verdict with that of runs of the mechanism, and where the certificate does not say what it says of itself."""
    from veridp.engines.prove.cases import has_finite_domain, values_of
    from veridp.engines.prove.replay import arguments_of, spot_check
    from veridp.engines.prove.target import target_differences

    bound = mechanism.bind(**arguments_of(certificate, mechanism.values)).bound()
    values = values_of(mechanism, certificate.size or 1) if has_finite_domain(mechanism) else ()
    return spot_check(checked, bound, runs, seed, values), target_differences(certificate, mechanism)


def _check_document(checked: CheckResult, differences: Sequence[Difference]) -> dict[str, object]:
    stated = checked.certificate
    return {
        "verified": checked.verified,
        "mechanism": stated and stated.mechanism,
        "adjacency": stated and stated.adjacency,
        "size": stated and stated.size,
        "domain": stated and stated.domain and [str(end) for end in stated.domain],
        "epsilon": stated and str(stated.epsilon),
        "delta": stated and str(stated.delta),
        "steps": [asdict(step) for step in checked.steps],
        "rejection": checked.rejection and asdict(checked.rejection),
        "differences": [asdict(difference) for difference in differences],
    }


def _page(file: Path, checked: CheckResult, differences: Sequence[Difference]) -> Text:
    lines = [f"{step.name + ':':<12}{step.finding}" for step in checked.steps]
    stated, rejection = checked.certificate, checked.rejection
    if rejection is not None:
        lines.append(f"{file} is rejected at {rejection.place}: {rejection.reason}")
    elif stated is not None:
        arguments = ", ".join(f"{name}={value}" for name, value in stated.arguments.items())
        who = f"{stated.mechanism}({arguments}) under {stated.adjacency}, {stated.scope}"
        notion, delta = ("(ε, δ)", f" and δ = {float(stated.delta):.12g}") if stated.delta else ("ε", "")
        proved = f"{notion}-differentially private with ε = {_number(stated.epsilon)}{delta}"
        notions = {"ρ-zCDP": stated.rho, "μ-GDP": stated.mu}
        others = "".join(f"; {name} with {name[0]} = {float(x):.12g}" for name, x in notions.items() if x is not None)
        lines.append(f"verified: {who}, as described, is {proved}{others}")
        if differences:
            lines.append(
                f"but not of the target: it differs in {'; '.join(map(str, differences))}; "
                f"{SETTINGS} say other settings of the target"
            )
    return Text("\n".join(map(printable, lines)))


def _number(value: Fraction) -> str:
    for digits in (12, 15):
        decimal = f"{float(value):.{digits}g}"
        if Fraction(decimal) == value:
            return decimal
    return str(value) if value.denominator < 10_000 else f"{value} (about {decimal})"
