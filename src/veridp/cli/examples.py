"""An example for every command, which its --help shows last."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

EXAMPLES = {
    "audit": "veridp audit mech.py:mean_age --adjacency replace --domain '(0, 120)' --size 5 --html report.html",
    "verify": "veridp verify evidence.zip --code",
    "cache": "veridp cache --clear",
    "scan": "veridp scan src/ --list",
    "new": "veridp new mech.py",
    "catalogue": "veridp catalogue --report catalogue.md",
    "explore": "veridp explore svt1 --data '[0, 1]'",
    "exact": "veridp exact laplace --left '[0]' --right '[1]' --plot laplace.svg",
    "check": "veridp check proof.json --target svt1",
    "prove": "veridp prove svt1 --size 3 --certificate proof.json",
    "statdp": "veridp statdp svt4 --epsilon 0.5 --samples 100000 --plot p.svg",
    "sniper": "veridp sniper svt4 --size 5 --time 2m --confidence 0.99",
    "finder": "veridp finder svt4 --size 5 --restarts 20",
    "pipeline": "veridp pipeline release.py:publish --data '[3, 1, 4]' --epsilon 1",
    "account": "veridp account release.yaml --budget 1",
    "schema": "veridp schema > output.schema.json",
    "local perturb": "veridp local perturb people.csv --column pet --oracle grr --values a,b --epsilon 1 -o out.csv",
    "local aggregate": "veridp local aggregate reports.csv --oracle grr --values cat,dog --epsilon 1 -o counts.json",
    "local estimate": "veridp local estimate counts.json --confidence 0.95",
    "local attack": "veridp local attack people.csv --column age --range 0,100 --oracle sr --epsilon 1 --attack opa",
    "local evaluate": "veridp local evaluate --data people.csv --column age --quick",
    "budget init": "veridp budget init ledger.db --epsilon 3 --delta 1e-6",
    "budget spend": "veridp budget spend ledger.db --epsilon 0.5 --what 'mean age'",
    "budget show": "veridp budget show ledger.db",
    "collect serve": "veridp collect serve --database sqlite:///collect.db --port 8000",
    "collect task": "veridp collect task pets --server https://example.org --mechanism vgrr --epsilon 1 --items a,b",
    "collect join": "veridp collect join pets cat --server https://example.org --state state",
    "collect estimate": "veridp collect estimate pets --database sqlite:///collect.db",
    "collect tasks": "veridp collect tasks --server https://example.org",
    "collect close": "veridp collect close pets --server https://example.org",
    "collect extend": "veridp collect extend pets --server https://example.org --until 1798761600",
    "collect delete": "veridp collect delete pets --server https://example.org --yes",
    "collect head": "veridp collect head pets --server https://example.org",
    "collect export": "veridp collect export pets log --database sqlite:///collect.db",
    "collect tokens-root": "veridp collect tokens-root tokens.txt",
    "collect verify-log": "veridp collect verify-log log --state state",
}  # fmt: skip


def add_examples(app: typer.Typer) -> None:
    """Let the help of every command end with its example."""
    for name, command in _commands(app, ()):
        if name in EXAMPLES:
            command.epilog = f"Example: {EXAMPLES[name]}"


def _commands(app: typer.Typer, above: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    for command in app.registered_commands:
        yield " ".join((*above, str(command.name))), command
    for group in app.registered_groups:
        if group.typer_instance is not None:
            yield from _commands(group.typer_instance, (*above, str(group.name)))
