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
from veridp.budget.child_process import Reporter, contained
from veridp.cli.options import Arg, AsJson, Epsilon, Relation, Size, Time, Values, chosen_mechanism
from veridp.cli.output import FAILS, HOLDS, show, show_json, user_code
from veridp.errors import BadInput
from veridp_check import CheckResult, NotACertificate, Stated, check_file
from veridp_check.__main__ import printable

if TYPE_CHECKING:
    from veridp.engines.prove.target import Difference
    from veridp.mechanism import Mechanism

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
        show_json("check", {"target": str(certificate), **_document(checked, differences)})
    else:
        show(_page(certificate, checked, differences))
    return HOLDS if checked.verified and not differences else FAILS


def _with_target(
    checked: CheckResult, certificate: Stated, mechanism: Mechanism, runs: int, seed: int
) -> tuple[CheckResult, list[Difference]]:
    """The verdict with that of runs of the mechanism, and where the certificate does not say what it says of itself."""
    from veridp.engines.prove.replay import arguments_of, spot_check
    from veridp.engines.prove.target import target_differences

    bound = mechanism.bind(**arguments_of(certificate, mechanism.values)).bound()
    return spot_check(checked, bound, runs, seed), target_differences(certificate, mechanism)


def _document(checked: CheckResult, differences: Sequence[Difference]) -> dict[str, object]:
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


def _page(file: Path, checked: CheckResult, differences: Sequence[Difference]) -> Text:
    lines = [f"{step.name + ':':<12}{step.finding}" for step in checked.steps]
    stated, rejection = checked.certificate, checked.rejection
    if rejection is not None:
        lines.append(f"{file} is rejected at {rejection.place}: {rejection.reason}")
    elif stated is not None:
        arguments = ", ".join(f"{name}={value}" for name, value in stated.arguments.items())
        who = f"{stated.mechanism}({arguments}) under {stated.adjacency}, {stated.scope}"
        lines.append(f"verified: {who}, as described, is ε-differentially private with ε = {_number(stated.epsilon)}")
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
