"""`veridp check CERTIFICATE`: whether a certificate proves what it says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from veridp.budget import Deadline
from veridp.cli.given import AsJson, Time
from veridp.cli.shown import show, show_json, user_code
from veridp.errors import BadInput
from veridp.program.contained import Reporter, contained
from veridp.target import load
from veridp_check import Checked, NotACertificate, check_file
from veridp_check.__main__ import printable

if TYPE_CHECKING:
    from veridp.prove.target_claim import Difference

REJECTED = 1


def show_check(
    certificate: Annotated[Path, typer.Argument(help="the file that `veridp prove --certificate` wrote")],
    target: Annotated[
        str | None, typer.Option(help="also run this mechanism, and compare it with what the certificate says")
    ] = None,
    runs: Annotated[int, typer.Option(min=1, help="with --target: how many runs")] = 300,
    seed: Annotated[int, typer.Option(min=0, help="with --target: of its random data and noise")] = 0,
    time: Time = 600.0,
    as_json: AsJson = False,
) -> int:
    """Verify a certificate in exact arithmetic, without the search that wrote it; exit 1 if it is rejected."""

    def work(_: Reporter) -> tuple[Checked, list[Difference]]:
        try:
            checked = check_file(certificate)
        except NotACertificate as error:
            raise BadInput(str(error)) from None
        return _with_target(checked, target, runs, seed) if target is not None and checked.verified else (checked, [])

    checked, differences = contained(work, Deadline(time))
    if as_json:
        show_json("check", {"target": str(certificate), **_document(checked, differences)})
    else:
        show(_page(certificate, checked, differences))
    return 0 if checked.verified else REJECTED


def _with_target(checked: Checked, target: str, runs: int, seed: int) -> tuple[Checked, list[Difference]]:
    """The verdict with that of runs of the target, and where the certificate does not say what the target does."""
    from veridp.prove.replay import arguments_of, spot_check
    from veridp.prove.target_claim import target_differences

    if checked.certificate is None:
        return checked, []
    with user_code():
        mechanism = load(target)
        bound = mechanism.bind(**arguments_of(checked.certificate, mechanism.values)).bound()
        return spot_check(checked, bound, runs, seed), target_differences(checked.certificate, mechanism)


def _document(checked: Checked, differences: Sequence[Difference]) -> dict[str, object]:
    stated = checked.certificate
    return {
        "verified": checked.verified,
        "mechanism": stated and stated.mechanism,
        "adjacency": stated and stated.adjacency,
        "size": stated and stated.size,
        "domain": stated and stated.domain and [str(end) for end in stated.domain],
        "epsilon": stated and str(stated.epsilon),
        "steps": [asdict(step) for step in checked.steps],
        "rejection": checked.rejection and asdict(checked.rejection),
        "differences": [asdict(difference) for difference in differences],
    }


def _page(file: Path, checked: Checked, differences: Sequence[Difference]) -> Text:
    lines = [f"{step.name + ':':<12}{step.finding}" for step in checked.steps]
    stated, rejection = checked.certificate, checked.rejection
    if rejection is not None:
        lines.append(f"{file} is rejected at {rejection.place}: {rejection.reason}")
    elif stated is not None:
        arguments = ", ".join(f"{name}={value}" for name, value in stated.arguments.items())
        who = f"{stated.mechanism}({arguments}) under {stated.adjacency}, {stated.scope}"
        lines.append(f"verified: {who}, as described, is ε-differentially private with ε = {_number(stated.epsilon)}")
        if differences:
            lines.append(f"the target differs in {'; '.join(map(str, differences))}")
    return Text("\n".join(map(printable, lines)))


def _number(value: Fraction) -> str:
    for digits in (12, 15):
        decimal = f"{float(value):.{digits}g}"
        if Fraction(decimal) == value:
            return decimal
    return str(value) if value.denominator < 10_000 else f"{value} (about {decimal})"
