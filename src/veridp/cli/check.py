"""`veridp check CERTIFICATE`: whether a certificate proves what it says."""

from __future__ import annotations

from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from veridp.budget import Deadline
from veridp.cli.given import AsJson, Time
from veridp.cli.shown import show, show_json, user_code
from veridp.program.contained import Reporter, contained
from veridp.target import load

if TYPE_CHECKING:
    from veridp.prove.check import Checked

REJECTED = 1


def show_check(
    certificate: Annotated[Path, typer.Argument(help="the file that `veridp prove --certificate` wrote")],
    target: Annotated[
        str | None, typer.Option(help="also run this mechanism, and see that the certificate tells what it does")
    ] = None,
    runs: Annotated[int, typer.Option(min=1, help="with --target: how many runs")] = 300,
    seed: Annotated[int, typer.Option(min=0, help="with --target: of its random data and noise")] = 0,
    time: Time = 600.0,
    as_json: AsJson = False,
) -> int:
    """Verify a certificate in exact arithmetic, without the search that wrote it; exit 1 if it is rejected."""
    from veridp.prove.check import check_file  # loads z3: only where needed

    def work(_: Reporter) -> Checked:
        checked = check_file(certificate)
        return _with_spot_check(checked, target, runs, seed) if target is not None and checked.verified else checked

    checked = contained(work, Deadline(time))
    if as_json:
        show_json(_document(checked))
    else:
        show(_page(certificate, checked))
    return 0 if checked.verified else REJECTED


def _with_spot_check(checked: Checked, target: str, runs: int, seed: int) -> Checked:
    from veridp.prove.replay import arguments_of, spot_check

    if checked.certificate is None:
        return checked
    with user_code():
        mechanism = load(target)
        bound = mechanism.bind(**arguments_of(checked.certificate, mechanism.values)).bound()
        return spot_check(checked, bound, runs, seed)


def _document(checked: Checked) -> dict[str, object]:
    stated = checked.certificate
    return {
        "verified": checked.verified,
        "mechanism": stated and stated.mechanism,
        "adjacency": stated and stated.adjacency,
        "size": stated and stated.size,
        "epsilon": stated and str(stated.epsilon),
        "steps": [asdict(step) for step in checked.steps],
        "rejection": checked.rejection and asdict(checked.rejection),
    }


def _page(file: Path, checked: Checked) -> Text:
    lines = [f"{step.name + ':':<12}{step.finding}" for step in checked.steps]
    stated, rejection = checked.certificate, checked.rejection
    if rejection is not None:
        lines.append(f"{file} is rejected at {rejection.place}: {rejection.reason}")
    elif stated is not None:
        arguments = ", ".join(f"{name}={value}" for name, value in stated.arguments.items())
        who = f"{stated.mechanism}({arguments}) under {stated.adjacency}, {stated.scope}"
        lines.append(f"verified: {who}, as described, is ε-differentially private with ε = {_number(stated.epsilon)}")
    return Text("\n".join(lines))


def _number(value: Fraction) -> str:
    for digits in (12, 15):
        decimal = f"{float(value):.{digits}g}"
        if Fraction(decimal) == value:
            return decimal
    return str(value) if value.denominator < 10_000 else f"{value} (about {decimal})"
