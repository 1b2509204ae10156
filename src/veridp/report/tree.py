"""The paths of a mechanism as a tree that a person can follow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from rich.markup import escape
from rich.text import Text
from rich.tree import Tree

from veridp.kernel.path import Fork, Path, Step, output_text
from veridp.kernel.symbols import Noise, number_text


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
    chance = f", probability {number_text(option.weight)}" if option.weight != 1 else ""
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
