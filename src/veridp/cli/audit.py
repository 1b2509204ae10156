"""`veridp audit TARGET…`: one question, one verdict."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veridp.cli.given import Arg, AsJson, Delta, Epsilon, Relation, Seed, Size, Time, chosen_mechanism, literal
from veridp.cli.shown import progress_bar, show, show_json, user_code, write_report
from veridp.errors import BadInput, VeridpError

if TYPE_CHECKING:
    from veridp.mechanism import Mechanism
    from veridp.report.audit import Audited

REFUTED, NOT_JUDGED = 1, 2


def show_audit(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="TARGET...", help="file.py:function, package.module:function, a catalogue name, or command:…"
        ),
    ],
    size: Size = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    relation: Relation = None,
    domain: Annotated[str | None, typer.Option(help="the values of data: '(low, high)', or a list of them")] = None,
    arg: Arg = None,
    time: Time = 60.0,
    alpha: Annotated[float, typer.Option(help="the probability of a false alarm, in all and for each target")] = 0.05,
    seed: Seed = 0,
    black_box: Annotated[bool, typer.Option("--black-box", help="sample only, whatever the code would tell")] = False,
    report: Annotated[Path | None, typer.Option(help="also write a page to this file")] = None,
    junit: Annotated[Path | None, typer.Option(help="also write JUnit XML to this file")] = None,
    sarif: Annotated[Path | None, typer.Option(help="also write a SARIF log to this file")] = None,
    as_json: AsJson = False,
) -> int:
    """Judge what a mechanism claims: proved, refuted with a witness, or not refuted; exit 1 if one is refuted."""
    options: dict[str, Any] = {"size": size, "seconds": time, "alpha": alpha, "seed": seed, "black_box": black_box}
    if domain is not None:
        options["domain"] = literal("--domain", domain)
    chosen = partial(chosen_mechanism, epsilon=epsilon, arg=arg, delta=delta, relation=relation)
    results = []
    for target in targets:
        try:
            results.append(_audited(target, chosen, options))
        except VeridpError as error:
            if len(targets) == 1:
                raise
            results.append(_unjudged(target, error))
    _write(results, report, junit, sarif)
    _show(results, as_json)
    return _status(results)


def _audited(target: str, chosen: Callable[[str], Mechanism], options: dict[str, Any]) -> Audited:
    from veridp.audit import audit
    from veridp.audit.case import Case
    from veridp.report.audit import Audited

    with user_code():
        mechanism = chosen(target)
        with progress_bar(target) as progress:
            verdict = audit(mechanism, progress=progress, **options)
        file, line = Case.of(mechanism, options["size"], options["alpha"], options["seed"]).defined_at()
    return Audited(target, verdict, file=file, line=line)


def _unjudged(target: str, error: VeridpError) -> Audited:
    from veridp.report.audit import Audited

    return Audited(target, None, reason=str(error))


def _write(results: list[Audited], report: Path | None, junit: Path | None, sarif: Path | None) -> None:
    import json
    from importlib.metadata import version

    from veridp.report.audit import audited_markdown
    from veridp.report.ci import junit as junit_text
    from veridp.report.ci import sarif as sarif_log

    if report is not None:
        write_report(report, audited_markdown(results))
    if junit is not None:
        write_report(junit, junit_text(results))
    if sarif is not None:
        write_report(sarif, json.dumps(sarif_log(results, version("veridp")), indent=2, ensure_ascii=False) + "\n")


def _show(results: list[Audited], as_json: bool) -> None:
    from veridp.report.audit import audited_table, verdict_document, verdict_page

    if as_json:
        documents = [
            {"target": one.target, "reason": one.reason} if one.verdict is None else verdict_document(one.verdict)
            for one in results
        ]
        show_json(documents[0] if len(documents) == 1 else documents)
    elif len(results) == 1 and results[0].verdict is not None:
        show(verdict_page(results[0].verdict))
    else:
        show(audited_table(results))


def _status(results: list[Audited]) -> int:
    """The worst of all: not judged, refuted, or neither."""
    from veridp.claim import Standing

    if any(one.verdict is None for one in results):
        return NOT_JUDGED
    return REFUTED if any(one.verdict and one.verdict.standing is Standing.REFUTED for one in results) else 0


STARTER = '''"""A mechanism and its test.

Audit it with `veridp audit {name}:noisy_counts --adjacency l1`, or test it with `pytest {name}`.
"""

import pytest


@pytest.mark.dp(epsilon=1.0, adjacency="l1", size=3)
def noisy_counts(rng, counts, *, epsilon=1.0):
    """Counts of which one person changes one by 1, each with Laplace noise."""
    return [count + rng.laplace(scale=1 / epsilon) for count in counts]
'''


def write_starter(
    file: Annotated[Path, typer.Argument(help="the Python file to write")],
) -> int:
    """Write a starter: a mechanism with its claim, ready for `veridp audit` and for pytest."""
    if file.suffix != ".py":
        raise BadInput(f"{file} is no Python file; give for instance mech.py")
    if file.exists():
        raise BadInput(f"{file} exists already; give the name of a new file")
    write_report(file, STARTER.format(name=file.name))
    show(f"wrote {file}; now run: veridp audit {file}:noisy_counts --adjacency l1")
    return 0
