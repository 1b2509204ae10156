"""`veridp audit TARGET…`: one question, one verdict."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veridp.budget import Deadline, killed_after
from veridp.catalogue import catalogue
from veridp.cli.options import (
    GRACE,
    AsJson,
    HtmlFile,
    MarkdownFile,
    MechanismOptions,
    NoCache,
    RunOptions,
    Seed,
    Time,
    running,
    stating,
)
from veridp.cli.output import (
    FAILS,
    HOLDS,
    NOT_JUDGED,
    complain,
    json_text,
    progress_bar,
    remark,
    show,
    show_json,
    status_line,
    user_code,
    write_report,
)
from veridp.errors import BadInput, MissingExtra, VeridpError
from veridp.mechanism import Mechanism
from veridp.project import ProjectSettings, discover, loaded_sources

if TYPE_CHECKING:
    from veridp.report.audit import Audited
    from veridp.report.baseline import Baseline


@running
@stating
def show_audit(
    context: typer.Context,
    stated: MechanismOptions,
    where: RunOptions,
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TARGET]...",
            help="file.py:function, package.module:function, a catalogue name, or command:…; a file, a folder or a "
            "package stands for all in it that is decorated or marked; [tool.veridp] of pyproject.toml may list them",
        ),
    ] = None,
    time: Time = 60.0,
    alpha: Annotated[float, typer.Option(help="the probability of a false alarm, in all and for each target")] = 0.05,
    seed: Seed = 0,
    black_box: Annotated[bool, typer.Option("--black-box", help="sample only, whatever the code would tell")] = False,
    mutants: Annotated[
        bool, typer.Option("--mutants", help="also audit weakened copies by samples: which mistakes would be caught?")
    ] = False,
    repair: Annotated[
        bool, typer.Option("--repair", help="also look for the least change that makes a refuted claim true")
    ] = False,
    report: MarkdownFile = None,
    junit: Annotated[Path | None, typer.Option(help="also write JUnit XML to this file")] = None,
    sarif: Annotated[Path | None, typer.Option(help="also write a SARIF log to this file")] = None,
    html: HtmlFile = None,
    table: Annotated[
        Path | None, typer.Option(help="also write a table: CSV or LaTeX, by the ending .csv or .tex")
    ] = None,
    bundle: Annotated[
        Path | None, typer.Option(help="also write the evidence to this zip file, which `veridp verify` checks again")
    ] = None,
    baseline: Annotated[
        Path | None, typer.Option(help="known results: only what is worse than in this file decides the exit status")
    ] = None,
    update_baseline: Annotated[
        bool, typer.Option("--update-baseline", help="write the results of this run to the file of --baseline")
    ] = False,
    no_cache: NoCache = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="audit again what changed whenever a file is saved; Ctrl-C ends it")
    ] = False,
    loaded: Annotated[Path | None, typer.Option(hidden=True, help="write the files that were loaded here")] = None,
    as_json: AsJson = False,
) -> int:
    """Judge what a mechanism claims: proved, refuted with a witness, or not refuted.

    Exit status: 1 if a claim is refuted, else 2 if one could not be judged, else 0.
    """
    settings: ProjectSettings = context.obj or ProjectSettings()
    if as_json and (mutants or repair):
        raise BadInput("--mutants and --repair print text; leave out --json")
    if watch:
        from veridp.cli.watch import watch as watch_files

        words = [word for word in sys.argv[1:] if word != "--watch"]
        return watch_files(words, targets or list(settings.targets), settings.file)
    known = _known(baseline, update_baseline)
    options: dict[str, Any] = {"alpha": alpha, "seed": seed, "black_box": black_box}
    results: list[Audited] = []
    single = _discover(targets or list(settings.targets), time, results)
    if where != RunOptions():
        results += audited_together(single, stated, settings, where, {"seconds": time, **options})
        single = []
    for target in single:
        try:
            results.append(audited_target(target, stated, settings, time, options, no_cache))
        except VeridpError as error:
            if len(single) == 1 and not results and not as_json:
                raise
            results.append(_unjudged(target, error))
    if loaded is not None:
        write_report(loaded, "\n".join(map(str, loaded_sources())))
    _write(results, report, junit, sarif, table)
    _write_pages(results, html, bundle)
    _show(results, as_json)
    for one in results:
        if one.verdict is not None and mutants:
            _show_mutants(one.target, stated, time, alpha, seed)
        if one.refuted and repair:
            _show_repair(one.target, stated, time)
    if baseline is not None and update_baseline:
        return _write_baseline(results, baseline)
    return _status(results) if known is None else _status_beyond(known, results)


def _known(file: Path | None, update: bool) -> Baseline | None:
    """What the baseline knows; None where there is none, or it is about to be written."""
    from veridp.report.baseline import read_baseline

    if file is None and update:
        raise BadInput("--update-baseline writes the file of --baseline; give that too")
    return None if file is None or update else read_baseline(file)


def _status_beyond(known: Baseline, results: list[Audited]) -> int:
    """The status of what is not known, which is named on stderr."""
    from veridp.report.baseline import new_failures

    new = new_failures(results, known)
    hidden = sum(one.refuted or one.verdict is None for one in results) - len(new)
    if hidden:
        remark(f"{hidden} known from the baseline")
    for one in new:
        remark(f"new: {one.target} is {'refuted' if one.refuted else 'not judged'}")
    return _status(new)


def _discover(targets: list[str], seconds: float, results: list[Audited]) -> list[str]:
    """The single targets; what was skipped is told, what did not load is a result."""
    if not targets:
        raise BadInput("which target? give file.py:function, a folder, or targets in [tool.veridp] of pyproject.toml")
    single: list[str] = []
    for target in targets:
        if ":" in target or target in catalogue:
            single.append(target)
            continue
        try:
            late = f"{target}: loading its files did not end within {seconds:.3g} s, in a compiled call"
            with user_code(), killed_after(seconds + GRACE, late):
                found = discover(target, Deadline(seconds))
        except VeridpError as error:
            if len(targets) == 1:
                raise
            results.append(_unjudged(target, error))
            continue
        single += found.targets
        results += [_unjudged(file, error) for file, error in found.failed]
        for what in found.skipped:
            remark(f"skipped {what}")
    return list(dict.fromkeys(single))


def audited_target(
    target: str,
    stated: MechanismOptions,
    settings: ProjectSettings,
    seconds: float,
    options: dict[str, Any],
    no_cache: bool,
) -> Audited:
    """The verdict on a target, with the place where its code begins; raises where it cannot be judged."""
    from veridp.audit import audit
    from veridp.audit.cache import cached_audit
    from veridp.audit.case import AuditCase
    from veridp.report.audit import Audited

    deadline = Deadline(seconds)
    notes: list[str] = []
    judge: Any = audit if no_cache else partial(cached_audit, time=seconds, tell=notes.append)
    with user_code():
        mechanism = settings.completed(stated.mechanism(target, deadline))
        with progress_bar(target) as progress:
            verdict = judge(mechanism, seconds=deadline.left, progress=progress, **options)
        file, line = AuditCase.of(mechanism, None, options["alpha"], options["seed"]).defined_at()
    for note in notes:
        remark(note)
    return Audited(target, verdict, file=file, line=line)


def audited_together(
    targets: list[str], stated: MechanismOptions, settings: ProjectSettings, where: RunOptions, options: dict[str, Any]
) -> list[Audited]:
    """The verdicts on all targets, where the options say; a target that does not load is not judged."""
    from veridp.audit.case import AuditCase
    from veridp.audit.many import audit_all
    from veridp.report.audit import Audited

    results: dict[str, Audited] = {}
    loaded: dict[str, Mechanism] = {}
    with user_code():
        for target in targets:
            try:
                loaded[target] = settings.completed(stated.mechanism(target, Deadline(options["seconds"])))
            except VeridpError as error:
                results[target] = _unjudged(target, error)
        with where.started() as run, status_line(f"auditing {len(loaded)} targets"):
            for target, verdict in zip(loaded, audit_all(loaded.values(), **run, **options), strict=True):
                if isinstance(verdict, VeridpError):
                    results[target] = _unjudged(target, verdict)
                    continue
                file, line = AuditCase.of(loaded[target], None, options["alpha"], options["seed"]).defined_at()
                results[target] = Audited(target, verdict, file=file, line=line)
    return [results[target] for target in targets]


def _unjudged(target: str, error: VeridpError) -> Audited:
    from veridp.report.audit import Audited

    return Audited(target, None, reason=str(error))


def _write_baseline(results: list[Audited], file: Path) -> int:
    from veridp.report.baseline import baseline_text

    write_report(file, baseline_text(results))
    return HOLDS


def _write(
    results: list[Audited], report: Path | None, junit: Path | None, sarif: Path | None, table: Path | None
) -> None:
    import json
    from importlib.metadata import version

    from veridp.report.audit import audited_markdown, audited_table
    from veridp.report.audit import junit as junit_text
    from veridp.report.audit import sarif as sarif_log

    if report is not None:
        write_report(report, audited_markdown(results))
    if junit is not None:
        write_report(junit, junit_text(results))
    if sarif is not None:
        write_report(sarif, json.dumps(sarif_log(results, version("veridp")), indent=2, ensure_ascii=False) + "\n")
    if table is not None:
        write_report(table, audited_table(results, table.suffix.lower()))


def _write_pages(results: list[Audited], html: Path | None, bundle: Path | None) -> None:
    if html is not None:
        _write_page(results, html)
    if bundle is not None:
        _write_bundle(results, bundle)


def _write_page(results: list[Audited], file: Path) -> None:
    from veridp.report.page import audited_html

    with user_code(), status_line(f"drawing {file}"):
        text = audited_html(results)
    write_report(file, text)


def _write_bundle(results: list[Audited], file: Path) -> None:
    from veridp.audit.bundle import bundle_of
    from veridp.report.audit import audited_document
    from veridp.report.page import audited_html

    with user_code(), status_line(f"writing {file}"):
        try:
            page = audited_html(results)
        except MissingExtra as missing:
            remark(f"{file} is without the page: {missing}")
            page = None
        data = bundle_of(results, json_text("audit", *map(audited_document, results)), page)
    write_report(file, [data])


def show_verification(
    bundle: Annotated[Path, typer.Argument(help="the file that `veridp audit --bundle` wrote")],
    code: Annotated[
        bool, typer.Option("--code", help="also load the targets, and compare their code with that of the bundle")
    ] = False,
) -> int:
    """Check the evidence of an audit again: files, certificates and witnesses; exit 1 if anything is wrong.

    The check of the bundle alone runs no code of the targets.
    """
    from veridp.audit.bundle import bundled_targets, check_bundle
    from veridp.target import load

    mechanisms = {}
    if code:
        with user_code():
            mechanisms = {target: load(target) for target in bundled_targets(bundle)}
    checks = check_bundle(bundle, mechanisms)
    show("\n".join(map(str, checks)))
    return HOLDS if all(one.holds for one in checks) else FAILS


def _show(results: list[Audited], as_json: bool) -> None:
    from veridp.report.audit import audited_document, audited_page, verdict_page

    if as_json:
        show_json("audit", *map(audited_document, results))
        for one in results:
            if one.verdict is None:
                complain(f"{one.target}: {one.reason}")
    elif len(results) == 1 and results[0].verdict is not None:
        show(verdict_page(results[0].verdict))
    else:
        show(audited_page(results))


def _show_mutants(target: str, stated: MechanismOptions, seconds: float, alpha: float, seed: int) -> None:
    """Which weakened copies of the mechanism an audit by samples catches."""
    from veridp.audit.mutants import audit_mutants

    with user_code():
        found = audit_mutants(stated.mechanism(target, Deadline(seconds)), seconds=seconds, alpha=alpha, seed=seed)
    caught = sum(one.caught for one in found)
    show("\n".join([f"mutants of {target}: {caught} of {len(found)} caught", *(f"    {one}" for one in found)]))


def _show_repair(target: str, stated: MechanismOptions, seconds: float) -> None:
    """The least change with which the claim is proved, as a patch."""
    from veridp.audit.repair import repair

    with user_code():
        found = repair(stated.mechanism(target, Deadline(seconds)), seconds=seconds)
    show(f"repair of {target}: {found or 'no change of noise or of a limit was found with which the claim is proved'}")


def _status(results: list[Audited]) -> int:
    """Refuted, whatever else happened; else not judged; else neither."""
    if any(one.refuted for one in results):
        return FAILS
    return NOT_JUDGED if any(one.verdict is None for one in results) else HOLDS


STARTER = '''"""Two mechanisms with their claims, and a test of them.

Audit them with `veridp audit {name}:mean_age {name}:noisy_counts`, or test them with `pytest {name}`.
"""

import veridp


@veridp.mechanism(epsilon=1.0, adjacency="replace", domain=(0, 120), size=5)
def mean_age(rng, ages):
    """The mean of ages, of which one person's may be replaced by any other from 0 to 120."""
    clipped = [min(max(age, 0), 120) for age in ages]
    return sum(clipped) / len(ages) + rng.laplace(scale=120 / len(ages))


@veridp.mechanism(epsilon=1.0, adjacency="l1", domain=(0, 100), size=3)
def noisy_counts(rng, counts):
    """Counts of which one person changes one by 1, each with Laplace noise."""
    return [count + rng.laplace(scale=1) for count in counts]


def test_privacy():
    for mechanism in (mean_age, noisy_counts):
        veridp.check(mechanism)
'''


def write_starter(
    file: Annotated[Path, typer.Argument(help="the Python file to write")],
) -> int:
    """Write a starter: two mechanisms with their claims, ready for `veridp audit` and for pytest."""
    if file.suffix != ".py":
        raise BadInput(f"{file} is not a Python file; give for instance mech.py")
    if file.exists():
        raise BadInput(f"{file} exists already; give the name of a new file")
    write_report(file, STARTER.format(name=file.name))
    show(f"wrote {file}; now run: veridp audit {file}:mean_age {file}:noisy_counts")
    return 0
