"""Other tools on the same questions: what they answer, and what veridp answers, with the seconds of both.

Run `python benchmarks/compare.py`; `--write docs/comparison-table.md` writes the page. Peers that can be installed from
the registry are run: OpenDP and dp-accounting. Of the others, `--registry` asks pip whether there is a distribution
now; what they published is quoted from `reproduction/`, which names the source of every figure. Seconds depend on the
machine; compare them within a row.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import veridp
from veridp.accounting import Leaf, Repeated, account

sys.path.insert(0, str(Path(__file__).parents[1]))  # `reproduction` is not installed

from reproduction.dpest import REPORTS
from reproduction.sniper import PUBLISHED

SIGMA = 3.7306316348  # the least standard deviation for (1, 1e-5), sensitivity 1
DELTA = 1e-5
NAMES = ("statdp", "dpsniper", "dp-sniper", "dp-finder", "dpest", "checkdp", "dp-auditorium", "dp-recorder", "sampcert")


@dataclass(frozen=True)
class Question:
    """One question that a peer and veridp both answer, with the true answer where a closed form is known."""

    text: str
    truth: float
    peer: str
    theirs: Callable[[], float]
    ours: Callable[[], float]


def noisy_sum(rng: Any, data: Sequence[float]) -> Any:
    return sum(min(max(value, 0), 120) for value in data) + rng.laplace(scale=120)


def gaussian(rng: Any, data: Sequence[float]) -> Any:
    return data[0] + rng.normal(scale=SIGMA)


def laplace(rng: Any, data: Sequence[float]) -> Any:
    return data[0] + rng.laplace()


def opendp_sum() -> float:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    records = dp.vector_domain(dp.atom_domain(bounds=(0.0, 120.0), nan=False), size=5)
    release: Any = dp.t.make_sum(records, dp.symmetric_distance()) >> dp.m.then_laplace(120.0)
    return float(release.map(2))  # one record replaced: one removed, one added


def opendp_gaussian() -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    return dp.m.make_gaussian(dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float), SIGMA)


def opendp_approximate() -> float:
    import opendp.prelude as dp

    release: Any = dp.c.make_zCDP_to_approxDP(opendp_gaussian())
    return float(release.map(1.0).epsilon(DELTA))


def accountant(scale: float, times: int = 1) -> float:
    from dp_accounting.pld import privacy_loss_distribution as pld

    return float(pld.from_gaussian_mechanism(scale).self_compose(times).get_epsilon_for_delta(DELTA))


def accountant_laplace() -> float:
    from dp_accounting.pld import privacy_loss_distribution as pld

    return float(pld.from_laplace_mechanism(1.0).get_delta_for_epsilon(0.5))


def proved_gaussian() -> float:
    return veridp.prove(gaussian, 1, delta=DELTA, adjacency="l1").epsilon


def composed() -> float:
    return account(Repeated(30, Leaf.gaussian(scale=math.sqrt(30) * SIGMA)), delta=DELTA).epsilon


QUESTIONS = (
    Question(
        "ε of a clamped sum of 5 records of [0, 120], Laplace(120), one record replaced",
        1.0,
        "opendp",
        opendp_sum,
        lambda: veridp.prove(noisy_sum, 5, adjacency="replace", domain=(-50, 200)).epsilon,
    ),
    Question(
        f"ρ of normal noise, σ = {SIGMA}",
        1 / (2 * SIGMA**2),
        "opendp",
        lambda: float(opendp_gaussian().map(1.0)),
        lambda: veridp.exact.compare(gaussian, [0], [1]).rho,
    ),
    Question("ε of the same at δ = 1e-5", 1.0, "opendp", opendp_approximate, proved_gaussian),
    Question("ε of the same at δ = 1e-5", 1.0, "dp-accounting", lambda: accountant(SIGMA), proved_gaussian),
    Question(
        "ε of 30 of them at δ = 1e-5, σ times √30",
        1.0,
        "dp-accounting",
        lambda: accountant(SIGMA * math.sqrt(30), 30),
        composed,
    ),
    Question(
        "δ of Laplace(1) at ε = 0.5",
        1 - math.exp(-0.25),
        "dp-accounting",
        accountant_laplace,
        lambda: veridp.exact.compare(laplace, [0], [1]).delta(0.5),
    ),
)


def timed(answer: Callable[[], float]) -> tuple[float, float]:
    """The answer, and the seconds of a second run: the first one loads libraries."""
    answer()
    started = time.perf_counter()
    return answer(), time.perf_counter() - started


def question_rows() -> Iterator[str]:
    for question in QUESTIONS:
        try:
            found, seconds = timed(question.theirs)
            theirs = f"{found:.10g} | {seconds:.3f}"
        except ImportError as error:
            theirs = f"not installed: {error.name} | "
        found, seconds = timed(question.ours)
        peer = question.peer if "not installed" in theirs else f"{question.peer} {version(question.peer)}"
        yield f"| {question.text} | {question.truth:.10g} | {peer} | {theirs} | {found:.10g} | {seconds:.3f} |"


def mechanism_rows(seconds: float) -> Iterator[str]:
    """The twenty mechanisms of DP-Sniper's evaluation: published lower bounds and estimates, and our interval."""
    reports = {report.name: report for report in REPORTS.values()}
    for name, bounds in PUBLISHED.items():
        mechanism, report = veridp.catalogue[name], reports[name]
        verdict = veridp.audit(mechanism, seconds=seconds)
        truth = mechanism.true_epsilon(mechanism.size)
        cells = (
            f"`{name}`",
            "" if truth is None else shown(truth),
            f"{max(bounds):.4g}",
            shown(report.estimate),
            f"{report.seconds:g}",
            f"[{shown(verdict.epsilon.lower)}, {shown(verdict.epsilon.upper)}]",
            verdict.standing.value + ("" if verdict.finished else ", cut short"),
            f"{verdict.seconds:.1f}",
        )
        yield f"| {' | '.join(cells)} |"


def shown(number: float) -> str:
    return "∞" if number == math.inf else f"{number:.6g}"


def registry_rows() -> Iterator[str]:
    """Whether pip finds a distribution of each name, and what it says of itself."""
    for name in NAMES:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, name]
            done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
            files = sorted(file.name for file in Path(folder).iterdir())
        yield f"| `{name}` | {files[0] if done.returncode == 0 and files else 'none'} |"


PAGE = """# Measured beside other tools

Written by `python benchmarks/compare.py --time {time:g} --write docs/comparison-table.md`, veridp {version}.
[The comparison](comparison.md) says what the tools are.

## The same question to libraries that install

Both answers and their seconds come from this run, on one machine.

| question | true | asked | its answer | s | veridp | s |
|---|---|---|---|---|---|---|
{questions}

## Twenty mechanisms

The numbers of others are quoted: DP-Sniper's lower bound at 90 % confidence, the better of its two classifiers, from
2·10⁸ final samples; DPEST's estimate with 10⁶ samples, and its seconds on its own machine. veridp's interval and
seconds are of this run, by the audit with at most {time:g} seconds for each (its default is 60). Its upper end is
proved; its lower end is exact, or holds at 95 % where samples were needed.

| mechanism | true ε | DP-Sniper | DPEST | s | veridp | verdict | s |
|---|---|---|---|---|---|---|---|
{mechanisms}
"""


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--registry", action="store_true", help="ask pip for the other tools, and end")
    parser.add_argument("--time", type=float, default=60.0, metavar="SECONDS", help="for each audit")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="also write the page to this file")
    options = parser.parse_args(arguments)

    def collected(rows: Iterator[str]) -> str:
        found = []
        for row in rows:
            print(row, flush=True)
            found.append(row)
        return "\n".join(found)

    if options.registry:
        collected(registry_rows())
        return
    page = PAGE.format(
        version=version("veridp"),
        time=options.time,
        questions=collected(question_rows()),
        mechanisms=collected(mechanism_rows(options.time)),
    )
    if options.write is not None:
        options.write.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
