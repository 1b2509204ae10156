"""`veridp budget init|spend|show`: a budget that is kept in a file, safe for many processes at once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from veridp.claim import Claim
from veridp.cli.options import AsJson
from veridp.cli.output import FAILS, complain, show, show_json, user_code
from veridp.errors import BadInput, BudgetSpent
from veridp.target import load

if TYPE_CHECKING:
    from veridp.accounting.ledger import Cost, Statement


app = typer.Typer(help="Keep a privacy budget in a file.", rich_markup_mode=None)
File = Annotated[Path, typer.Argument(help="the ledger, an SQLite file")]


@app.command("init")
def make_ledger(
    file: File,
    epsilon: Annotated[float, typer.Option(min=0.0, help="the ε of the budget")],
    delta: Annotated[float, typer.Option(min=0.0, max=1.0, help="the δ of the budget")] = 0.0,
    method: Annotated[str, typer.Option(help="basic adds up ε and δ, zcdp adds up ρ")] = "basic",
) -> int:
    """Make a ledger with a budget."""
    from veridp.accounting.ledger import Ledger

    statement = Ledger.create(file, Claim(epsilon, delta), method).statement()
    show(f"{file}: a budget of {statement.budget}, kept by {method}")
    return 0


@app.command("spend")
def spend(
    file: File,
    epsilon: Annotated[float | None, typer.Option(min=0.0, help="the ε of what is to be asked")] = None,
    delta: Annotated[float, typer.Option(min=0.0, max=1.0, help="its δ")] = 0.0,
    release: Annotated[Path | None, typer.Option(help="a release file, in place of ε and δ")] = None,
    what: Annotated[str, typer.Option(help="a note for the ledger")] = "",
    as_json: AsJson = False,
) -> int:
    """Enter a cost before its noise is drawn; exit 1, and enter nothing, if not enough is left."""
    from veridp.accounting.ledger import Ledger
    from veridp.accounting.release import read_release

    if (epsilon is None) == (release is None):
        raise BadInput("no cost; give --epsilon (and --delta), or --release")
    with user_code():
        cost = Claim(epsilon, delta) if epsilon is not None else None
        node = None if release is None else read_release(release, load).release
    ledger = Ledger(file)
    try:
        entry = ledger.spend(cost if cost is not None else node, what)  # type: ignore[arg-type]
    except BudgetSpent as error:
        complain(str(error))
        return FAILS
    statement = ledger.statement()
    if as_json:
        show_json("budget spend", {"target": str(file), **_document(statement)})
    else:
        paid, left = (_told(each, statement.method) for each in (entry.cost, statement.left))
        show(f"{entry.number}. {entry.what}: {paid}; left: {left}")
    return 0


@app.command("show")
def show_ledger(file: File, as_json: AsJson = False) -> int:
    """Print what was spent, on what, by whom, and what is left."""
    from veridp.accounting.ledger import Ledger

    statement = Ledger(file).statement()
    if as_json:
        show_json("budget show", {"target": str(file), **_document(statement)})
        return 0
    for entry in statement.entries:
        show(f"{entry.number}. {entry.at}  {entry.who}  {entry.what}: {_told(entry.cost, statement.method)}")
    at = f" at δ = {statement.budget.delta:g}" if statement.method == "zcdp" else ""
    show(
        f"budget {statement.budget} by {statement.method}: spent {_told(statement.spent, statement.method)} "
        f"(ε = {statement.epsilon_spent:.6g}{at}), left {_told(statement.left, statement.method)}"
    )
    return 0


def _told(cost: Cost, method: str) -> str:
    if method == "zcdp":
        return f"ρ = {float(cost.rho):.6g}"
    return f"ε = {float(cost.epsilon):.6g}, δ = {float(cost.delta):.6g}"


def _document(statement: Statement) -> dict[str, object]:
    return {
        "budget": {"epsilon": statement.budget.epsilon, "delta": statement.budget.delta},
        "method": statement.method,
        "spent": _numbers(statement.spent),
        "left": _numbers(statement.left),
        "epsilon_spent": statement.epsilon_spent,
        "entries": [
            {"number": e.number, "at": e.at, "who": e.who, "what": e.what, **_numbers(e.cost)}
            for e in statement.entries
        ],
    }


def _numbers(cost: Cost) -> dict[str, float]:
    return {"epsilon": float(cost.epsilon), "delta": float(cost.delta), "rho": float(cost.rho)}
