"""What defences against poisoning leave of each attack. `python benchmarks/defences.py [--quick] [--page FILE]`

Each attack is played on the same honest users with each oracle, and each defence estimates from the reports. The tables
have what is left of the gain of the targets, and the root mean square error over all values; the last row has what a
defence costs where nobody attacks. All are means over repetitions with fixed seeds.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from veridp.local import OLH, OUE, Estimate, PureOracle
from veridp.local.defences import defended, detect, recover, screened, thinned, without
from veridp.local.oracle import Floats, Reports
from veridp.local.poisoning import MGA, RIA, RPA, AdaptiveMGA, FrequencyAttack
from veridp.local.postprocess import norm_sub

SIZE, EPSILON, BETA, USERS = 64, 1.0, 0.05, 40_000
FEW, MANY = (41, 47, 53), tuple(range(40, 60))
Defence = Callable[[PureOracle, Reports, np.random.Generator], Estimate]


def plain(oracle: PureOracle, reports: Reports, rng: np.random.Generator) -> Estimate:
    return oracle.estimate(oracle.aggregate(reports))


DEFENCES: dict[str, Defence] = {
    "none": plain,
    "norm-sub": lambda oracle, reports, rng: norm_sub(plain(oracle, reports, rng)),
    "recover, η = 0.2": lambda oracle, reports, rng: recover(oracle, plain(oracle, reports, rng)),
    "thinned": lambda oracle, reports, rng: plain(oracle, reports[thinned(oracle, reports, rng)], rng),
    "detect": lambda oracle, reports, rng: without(oracle, reports, detect(oracle, reports)),
    "screened": screened,
    "defended": defended,
}


def attacks(oracle: PureOracle) -> Iterator[tuple[str, FrequencyAttack, tuple[int, ...]]]:
    """Every attack on three targets and, where that differs, on twenty."""
    for kind in (RPA, RIA, MGA, AdaptiveMGA):
        yield f"{kind.__name__}, 3 targets", kind(BETA, oracle, FEW), FEW
    if isinstance(oracle, OUE):  # no hash function sends twenty targets to one bucket
        for kind in (MGA, AdaptiveMGA):
            yield f"{kind.__name__}, 20 targets", kind(BETA, oracle, MANY), MANY


def measured(oracle: PureOracle, attack: FrequencyAttack | None, targets: tuple[int, ...], repeats: int) -> Floats:
    """For each defence, what is left of the gain, and the error."""
    found = np.zeros((len(DEFENCES), 2))
    for repetition in range(repeats):
        rng = np.random.default_rng(repetition)
        shares = 1 / np.arange(1.0, SIZE + 1)
        values = rng.choice(SIZE, size=USERS, p=shares / shares.sum())
        truth = np.bincount(values, minlength=SIZE) / USERS
        reports = oracle.perturb(values, rng)
        if attack is not None:
            fake = attack.reports(round(USERS * BETA / (1 - BETA)), rng)
            reports = np.concatenate((reports, fake))
        for place, defend in enumerate(DEFENCES.values()):
            off = defend(oracle, reports, rng).values - truth
            found[place] += off[list(targets)].sum(), np.sqrt(np.square(off).mean())
    return found / repeats


def page(repeats: int) -> str:
    """Both tables of each oracle, as Markdown."""
    lines = [
        "# Defences compared",
        "",
        "Written by `python benchmarks/defences.py --page docs/defences-table.md`:",
        f"{USERS:,} honest users, {SIZE} values, ε = {EPSILON:g}, β = {BETA:g}, means of {repeats} repetitions.",
        "[poisoning.md](poisoning.md) explains attacks and defences. Only *recover* assumes anything of the attack:",
        "its η is 0.2, where the truth is 0.053. *thinned* follows the weights of DiffStats (Li et al. 2025),",
        "*screened* the low rank of PEEL (Shuai et al. 2025); *detect* is ours, and *defended* combines the two.",
    ]
    head = ["attack", *DEFENCES]
    for oracle in (OUE(SIZE, EPSILON), OLH(SIZE, EPSILON)):
        rows = {name: measured(oracle, attack, targets, repeats) for name, attack, targets in attacks(oracle)}
        rows["nobody"] = measured(oracle, None, FEW, repeats)
        for column, what in enumerate(
            ("what is left of the gain of the targets", "root mean square error of a frequency")
        ):
            lines += [
                "",
                f"{oracle.name.upper()}: {what}.",
                "",
                "| " + " | ".join(head) + " |",
                "|" + "---|" * len(head),
            ]
            for name, found in rows.items():
                lines.append("| " + " | ".join([name, *(f"{value:.3f}" for value in found[:, column] + 0.0)]) + " |")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--page", type=Path, help="write the tables to this file")
    given = parser.parse_args()
    text = page(2 if given.quick else 8)
    if given.page is not None:
        given.page.write_text(text, encoding="utf-8")
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
