"""The catalogue as a list, and the paths of a mechanism as a tree: for a terminal, for a Markdown page, as plain
data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from rich.markup import escape
from rich.text import Text
from rich.tree import Tree

from veridp.kernel.path import Fork, Path, Step, output_text, weight_text
from veridp.kernel.symbols import Noise
from veridp.mechanism import Mechanism

# ----------------------------------------------------------------------------------------------------------- catalogue
# The catalogue as a list: for a terminal, for a Markdown page, as plain data.


HEADINGS = (" ", "name", "neighbours", "n", "claims", "true ε", "what it does")
NUMBERS = ("n", "claims", "true ε")
SHORTEST_SUMMARY = 12  # in a narrower terminal lines are folded rather than summaries cut any further
MARKS = {True: "✓", False: "✗", None: "?"}
STYLES = {True: "green", False: "red", None: "dim"}


@dataclass(frozen=True)
class CatalogueEntry:
    """One mechanism with its usual arguments, on inputs of its usual size."""

    name: str
    adjacency: str
    size: int
    epsilon: float | None  # what it claims
    delta: float | None
    true_epsilon: float | None
    keeps_claim: bool | None
    summary: str

    @property
    def claim(self) -> str:
        if self.epsilon is None:
            return "nothing"
        return f"{self.epsilon:.4g}" + (f", {self.delta:.0e}" if self.delta else "")

    @property
    def cost(self) -> str:
        if self.true_epsilon is None:
            return "unknown"
        return "∞" if self.true_epsilon == math.inf else f"{self.true_epsilon:.4g}"

    def as_dict(self) -> dict[str, object]:
        """The entry as plain data, for JSON."""
        claim = None if self.epsilon is None else {"epsilon": self.epsilon, "delta": self.delta}
        return {
            "name": self.name,
            "adjacency": self.adjacency,
            "size": self.size,
            "claim": claim,
            "true_epsilon": self.true_epsilon,
            "keeps_claim": self.keeps_claim,
            "summary": self.summary,
        }


def entries(mechanisms: Mapping[str, Mechanism]) -> list[CatalogueEntry]:
    """An entry for each mechanism, in their order."""
    return [_entry(name, mechanism) for name, mechanism in mechanisms.items()]


def _entry(name: str, mechanism: Mechanism) -> CatalogueEntry:
    claim = mechanism.claim
    return CatalogueEntry(
        name,
        mechanism.adjacency.name,
        mechanism.size,
        None if claim is None else claim.epsilon,
        None if claim is None else claim.delta,
        mechanism.true_epsilon(mechanism.size),
        mechanism.keeps_claim(mechanism.size),
        mechanism.summary,
    )


def listing(listed: Sequence[CatalogueEntry], width: int) -> Text:
    """A line for each entry, under headings; only summaries are cut to fit the width."""
    rows = [_cells(entry) for entry in listed]
    widths = [max(len(row[column]) for row in [HEADINGS, *rows]) for column in range(len(HEADINGS))]
    lines = [_line(HEADINGS, widths, width)]
    lines[0].stylize("bold")
    for entry, row in zip(listed, rows, strict=True):
        line = _line(row, widths, width)
        line.stylize(STYLES[entry.keeps_claim], 0, 1)
        lines.append(line)
    return Text("\n").join([*lines, Text(_totals(listed), "italic")])


def _cells(entry: CatalogueEntry) -> tuple[str, ...]:
    mark = MARKS[entry.keeps_claim]
    return mark, entry.name, entry.adjacency, str(entry.size), entry.claim, entry.cost, entry.summary


def _line(cells: Sequence[str], widths: Sequence[int], width: int) -> Text:
    """The cells side by side, numbers to the right; the last one has what room is left."""
    *fixed, summary = cells
    places = zip(fixed, widths, HEADINGS, strict=False)
    start = " ".join(cell.rjust(room) if title in NUMBERS else cell.ljust(room) for cell, room, title in places)
    room = max(width - len(start) - 1, SHORTEST_SUMMARY)
    return Text(f"{start} {summary if len(summary) <= room else summary[: room - 1].rstrip() + '…'}")


def _totals(listed: Iterable[CatalogueEntry]) -> str:
    kept = [entry.keeps_claim for entry in listed]
    text = f"{len(kept)} mechanisms: ✓ {kept.count(True)} keep their claim, ✗ {kept.count(False)} do not"
    return text + (f", ? {kept.count(None)} unknown" if None in kept else "")


def markdown(listed: Sequence[CatalogueEntry]) -> str:
    """A page with a row for each entry."""
    lines = [
        "# The catalogue",
        "",
        f"{_totals(listed)}. Each is taken with its usual arguments, on inputs of its usual size n.",
        "",
        _row(HEADINGS),
        _row(["---:" if title in NUMBERS else "---" for title in HEADINGS]),
        *(_row(_cells(entry)) for entry in listed),
    ]
    return "\n".join(lines) + "\n"


def _row(cells: Iterable[str]) -> str:
    escaped = [cell.replace("|", r"\|") for cell in cells]
    return f"| {' | '.join(escaped)} |"


# ---------------------------------------------------------------------------------------------------------------- tree
# The paths of a mechanism as a tree that a person can follow.


def path_tree(title: str, paths: Sequence[Path], show: int) -> Tree:
    """The first `show` paths, forks as branches, draws where they happen, outputs at the ends."""
    tree = Tree(Text(title, "bold"))
    _grow(tree, [(path, 0) for path in paths[:show]])
    if len(paths) > show:
        tree.add(f"[dim]… and {len(paths) - show} more paths[/]")
    return tree


def _grow(tree: Tree, paths: list[tuple[Path, int]]) -> None:
    """Add what the paths do from their given step on; up to there they are the same."""
    path, step = paths[0]
    while step < len(path.steps) and not _parts(path.steps[step]):
        if isinstance(noise := path.steps[step], Noise):
            tree.add(f"[cyan]{noise.name}[/] ~ {noise.distribution}  [dim]{escape(str(noise.site))}[/]")
        step += 1
    if step == len(path.steps):
        tree.add(f"[bold green]→ {escape(output_text(path.output))}[/]")
        return
    for _, group in groupby(((path, step) for path, _ in paths), key=lambda each: _fork(each).taken):
        members = list(group)
        branch = tree.add(_label(_fork(members[0])))
        _grow(branch, [(path, step + 1) for path, step in members])


def _parts(step: Step) -> bool:
    """Whether paths may part here."""
    return isinstance(step, Fork) and not step.implied


def _fork(each: tuple[Path, int]) -> Fork:
    path, step = each
    fork = path.steps[step]
    if not isinstance(fork, Fork):
        raise TypeError(f"paths part at step {step}, where there is no fork")
    return fork


def _label(fork: Fork) -> str:
    option = fork.option
    text = " and ".join(map(str, option.conditions)) or option.label
    name = f"{option.label}: " if option.label and option.conditions else ""
    chance = f", probability {weight_text(option.weight)}" if option.weight != 1 else ""
    return f"[yellow]{escape(name + text + chance)}[/]  [dim]{escape(str(fork.site))}[/]"


def path_lines(paths: Iterable[Path]) -> list[dict[str, object]]:
    """The paths as plain data, for JSON."""
    return [
        {
            "output": output_text(path.output),
            "conditions": [str(condition) for condition in path.conditions],
            "weight": float(path.weight),
            "noise": [
                {"name": noise.name, "distribution": str(noise.distribution), "line": str(noise.site)}
                for noise in path.noises
            ],
        }
        for path in paths
    ]
