"""Verdicts on the gallery: real mistakes of public software, each beside its repair, by the default call alone.

Every mechanism of `examples/gallery/` states its claim, its neighbours and the values that data take, and nothing else:
no pair, no size, no setting of an engine. Prints a line for each, and with `--write` the page `docs/gallery.md`. A
mistake that is not refuted, and a repair that is, are marked with "!!" and counted.

    python benchmarks/gallery.py [--time 60] [--only NAME ...] [--processes 2]
        [--write docs/gallery.md [--note TEXT]]
"""

from __future__ import annotations

import argparse
import ast
import itertools
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import veridp
from veridp.claim import Witness
from veridp.target import load
from veridp.verdict import Standing, Verdict

GALLERY = Path(__file__).parents[1] / "examples" / "gallery"
REPAIRED = "_fixed"
SOURCE = "Source: "
AS_FLOATS = "yes, as floats"
LONGEST_TEXT = 300  # characters of a witness that the page repeats


@dataclass(frozen=True)
class Exhibit:
    """A mistake of the gallery: where it stands, what its docstring says of it, and where it was reported."""

    file: Path
    name: str
    mistake: str
    source: str

    @property
    def report(self) -> str:
        """The repository and the number of the report, as in `opendp/opendp#480`."""
        owner, repository, _, number = self.source.removeprefix("https://github.com/").split("/")
        return f"{owner}/{repository}#{number}"

    def audited(self, suffix: str, seconds: float) -> Verdict:
        return veridp.audit(load(f"{self.file}:{self.name}{suffix}"), seconds=seconds)


def exhibits() -> list[Exhibit]:
    """All mistakes of the gallery, in the order of its files; nothing is imported for this."""
    found = []
    for file in sorted(GALLERY.glob("*.py")):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            text = ast.get_docstring(node) if isinstance(node, ast.FunctionDef) else None
            if isinstance(node, ast.FunctionDef) and text is not None and SOURCE in text:
                words, source = text.rsplit(SOURCE, 1)
                found.append(Exhibit(file, node.name, words.split("\n\n")[0].strip(), source.strip()))
    return found


def found(broken: Verdict, fixed: Verdict) -> str:
    """How the default call finds the mistake: the claim is refuted, or it is as floats and its repair is not."""
    if broken.standing is Standing.REFUTED:
        return "yes"
    as_floats = [one.as_floats is not None and one.as_floats.refutes(one.claim) for one in (broken, fixed)]
    return AS_FLOATS if as_floats == [True, False] else "no"


def shown(witness: Witness | None) -> str:
    """The witness in words; nothing where there is none."""
    if witness is None:
        return ""
    sides = witness.left_probability, witness.right_probability
    first, second = (f"{side.lower:.3g}" for side in sides)
    how = "exactly" if witness.confidence == 1 else f"at confidence {witness.confidence:.6g}"
    text = f"{witness.left!r} and {witness.right!r}: {witness.event}"
    text = text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"
    return f"`{text}`, {first} against {second} {how}"


def line(name: str, verdict: Verdict, right: bool) -> str:
    interval = f"[{verdict.epsilon.lower:.6g}, {verdict.epsilon.upper:.6g}]"
    return f"{'  ' if right else '!!'} {name:36s}{verdict.standing.name:14s}{interval:24s}{verdict.seconds:6.1f} s"


PAGE = """# The gallery

{count} real mistakes of public software for differential privacy, each as a small port in our own words beside its
repair. A port states what its library claims, which inputs are neighbours and which values data take; `veridp.audit` is
then called without any other setting. {found} of the {count} mistakes are found by this first, default call, and
{alarms} of the repairs is refuted. "As floats": the claim holds for real numbers, and the look at low bits that is part
of the audit refutes it for the doubles that are released, but not for those of the repair. The files are in
`examples/gallery/`; `python benchmarks/gallery.py --write docs/gallery.md` writes this page anew. Seconds depend on the
machine{note}.

| reported in | mistake | found by default | ε of the mistake | seconds | its repair |
|---|---|---|---|---|---|
{rows}

## The witnesses

Two neighbouring inputs, an event, and its probability on either. The event of ε = ∞ is impossible on one of them.

{witnesses}
"""


@dataclass(frozen=True)
class Outcome:
    """Both audits of a mistake, as text: verdicts hold functions of the gallery's files, and stay in their process."""

    how: str
    refutes_repair: bool
    lines: tuple[str, str]
    row: str
    witness: str

    @classmethod
    def of(cls, exhibit: Exhibit, seconds: float) -> Outcome:
        broken, fixed = (exhibit.audited(suffix, seconds) for suffix in ("", REPAIRED))
        how, refutes_repair = found(broken, fixed), fixed.standing is Standing.REFUTED
        lower, witness = broken.epsilon.lower, broken.witness
        if how == AS_FLOATS and broken.as_floats is not None:
            lower, witness = broken.as_floats.epsilon(broken.claim.delta), broken.as_floats.witness
        epsilon = "–" if how == "no" else "∞" if lower == float("inf") else f">= {lower:.4g}"
        return cls(
            how,
            refutes_repair,
            (
                line(exhibit.name, broken, how != "no"),
                line(exhibit.name + REPAIRED, fixed, not refutes_repair),
            ),
            f"| [{exhibit.report}]({exhibit.source}) | {exhibit.mistake} | {how} | {epsilon} | {broken.seconds:.0f} | "
            f"{fixed.standing.value} |".replace("\n", " "),
            f"- `{exhibit.file.name}:{exhibit.name}` claims {broken.claim}. {shown(witness)}",
        )


def page(outcomes: Sequence[Outcome], note: str = "") -> str:
    return PAGE.format(
        count=len(outcomes),
        found=sum(outcome.how != "no" for outcome in outcomes),
        alarms=sum(outcome.refutes_repair for outcome in outcomes) or "none",
        note=f"; {note}" if note else "",
        rows="\n".join(outcome.row for outcome in outcomes),
        witnesses="\n".join(outcome.witness for outcome in outcomes if outcome.how != "no"),
    )


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--time", type=float, default=60.0, help="seconds for each audit, the default of the audit")
    parser.add_argument("--only", action="append", help="this mistake (may be given several times)")
    parser.add_argument("--write", type=Path, help="also write the page to this file")
    parser.add_argument("--note", default="", help="what the page says of the machine")
    parser.add_argument("--processes", type=int, default=1, help="audits at a time")
    options = parser.parse_args(arguments)
    chosen = [exhibit for exhibit in exhibits() if not options.only or exhibit.name in options.only]
    outcomes = []
    with ProcessPoolExecutor(options.processes) as pool:
        for outcome in pool.map(Outcome.of, chosen, itertools.repeat(options.time)):
            print(*outcome.lines, sep="\n", flush=True)
            outcomes.append(outcome)
    count = sum(outcome.how != "no" for outcome in outcomes)
    alarms = sum(outcome.refutes_repair for outcome in outcomes)
    print(f"{count} of {len(outcomes)} mistakes are found by the default call; {alarms} repairs are refuted")
    if options.write is not None:
        options.write.write_text(page(outcomes, options.note), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
