"""`veridp account`: what a release costs. `veridp budget init|spend|show`: a budget that is kept in a file, safe for
many processes at once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veridp.budget import Deadline
from veridp.claim import Claim
from veridp.cli.options import (
    Arg,
    AsJson,
    Confidence,
    NotionOptions,
    Relation,
    Seed,
    Size,
    Time,
    chosen_mechanism,
    claiming,
)
from veridp.cli.output import FAILS, HOLDS, complain, print_json, progress_bar, show, show_json, user_code
from veridp.errors import BadInput, BudgetSpent
from veridp.target import load

if TYPE_CHECKING:
    from rich.table import Table

    from veridp.accounting import Account
    from veridp.accounting.composition import ComposedBounds
    from veridp.accounting.ledger import Cost, Statement
    from veridp.accounting.release import ReleaseFile
    from veridp.budget import Progress
    from veridp.engines.sniper.result import AttackResult
    from veridp.mechanism import Mechanism


# ------------------------------------------------------------------------------------------------------------- account
# `veridp account`: what a release costs, from its tree in a file or from a function that calls mechanisms.


FILES = (".yaml", ".yml", ".json")

Source = Annotated[
    str | None,
    typer.Argument(help="release.yaml or release.json; or file.py:function, a function that calls mechanisms"),
]


@claiming
def show_account(
    notion: NotionOptions,
    source: Source = None,
    epsilon: Annotated[
        float | None, typer.Option(min=0.0, help="without a target: account for a claim of this ε at δ = 0")
    ] = None,
    times: Annotated[int, typer.Option(min=1, help="without a target: how often the claim is made")] = 1,
    delta: Annotated[float | None, typer.Option(help="the δ to account at; the file's, or 1e-5")] = None,
    budget: Annotated[float | None, typer.Option(min=0.0, help="the ε that it must keep to, at that δ")] = None,
    step: Annotated[float | None, typer.Option(help="the lattice on which losses are convolved")] = None,
    second_opinion: Annotated[
        bool, typer.Option("--second-opinion", help="of a release file: ask the library dp-accounting too")
    ] = False,
    size: Size = None,
    arg: Arg = None,
    relation: Relation = None,
    time: Time = 60.0,
    confidence: Confidence = 0.95,
    seed: Seed = 0,
    samples: Annotated[
        int | None, typer.Option(min=1, help="runs that the attack is confirmed on, on either side")
    ] = None,
    attack: Annotated[bool, typer.Option("--attack/--no-attack", help="of a function: attack it too")] = True,
    schema: Annotated[bool, typer.Option("--schema", help="print the JSON schema of release files")] = False,
    as_json: AsJson = False,
) -> int:
    """Print what a release or a claim costs by every method, or a function's ledger, exact ε and attack; exit 1 if
    above."""
    from veridp.accounting.release import read_release
    from veridp.accounting.release import schema as release_schema

    if schema:
        print_json(release_schema())
        return 0
    claimed = notion.stated if epsilon is None else {"epsilon": epsilon, **notion.stated}
    if (source is None) != bool(claimed):
        raise BadInput(
            "account takes a target or a claim: give release.yaml or file.py:function (--schema prints the format), or "
            "one of --epsilon, --rho, --mu, --rdp and --tradeoff"
        )
    if source is None or source.endswith(FILES):
        with user_code():
            given = _claimed(claimed, times) if source is None else read_release(Path(source), load)
        name = source or ", ".join(leaf.name for leaf in given.release.leaves())
        return _show_release(name, given, delta, budget, step, second_opinion, as_json)
    with user_code():
        deadline = Deadline(time)
        mechanism = chosen_mechanism(source, None, arg, None, relation, deadline=deadline)
        share = deadline.left / (3 if attack else 2)
        search = _Attack(share, confidence, seed, samples) if attack else None
        found = _line(mechanism, size, delta, share, search)
    allowed = math.inf if budget is None else budget
    above = found.exceeded or found.ledger.epsilon > allowed
    if as_json:
        show_json("account", {"target": source, **_line_document(found, budget)})
    else:
        show(str(found) if budget is None else f"{found}; budget {budget:g}: {'exceeded' if above else 'kept'}")
    return FAILS if above else HOLDS


@dataclass(frozen=True)
class _Attack:
    """How a function is attacked."""

    seconds: float
    confidence: float
    seed: int
    samples: int | None

    def search(self, mechanism: Mechanism, size: int, delta: float, progress: Progress) -> AttackResult:
        from veridp.engines.sniper import search

        return search(
            mechanism,
            size,
            samples=self.samples,
            final_samples=self.samples,
            seconds=self.seconds,
            confidence=self.confidence,
            delta=delta,
            seed=self.seed,
            progress=progress,
        )


def _line(
    mechanism: Mechanism, size: int | None, delta: float | None, seconds: float, attack: _Attack | None
) -> ComposedBounds:
    from veridp.accounting.composition import line

    if attack is None:
        return line(mechanism, size, delta=delta, seconds=seconds)
    with progress_bar(mechanism.name) as progress:
        attacking = partial(attack.search, progress=progress)
        return line(mechanism, size, delta=delta, seconds=seconds, attack=attacking)


def _line_document(found: ComposedBounds, budget: float | None) -> dict[str, object]:
    return {
        "function": found.name,
        "ledger": {"epsilon": found.ledger.epsilon, "delta": found.ledger.delta, "method": found.ledger.method},
        "every_path_seen": found.every,
        "exact_epsilon": found.exact,
        "attack": None if found.attack is None else {"lower": found.attack, "confidence": found.confidence},
        "exceeded": found.exceeded,
        "budget": budget,
    }


def _claimed(stated: dict[str, Any], times: int) -> ReleaseFile:
    """The release that makes one claim so many times."""
    from veridp.accounting.release import ReleaseFile
    from veridp.accounting.tree import Leaf, Repeated

    leaf = Leaf.stated(Claim.stated(**stated))
    return ReleaseFile(leaf if times == 1 else Repeated(times, leaf))


def _show_release(
    target: str,
    given: ReleaseFile,
    delta: float | None,
    budget: float | None,
    step: float | None,
    second_opinion: bool,
    as_json: bool,
) -> int:
    from veridp.accounting import account
    from veridp.accounting.account import DELTA

    wanted = delta if delta is not None else given.delta
    if wanted is None:
        wanted = given.budget.delta if given.budget is not None else DELTA
    allowed = given.budget if budget is None else Claim(budget, wanted)
    found = account(given.release, wanted, step=step, second_opinion=second_opinion)
    if as_json:
        show_json("account", {"target": target, **_document(found, allowed)})
    else:
        show(_table(found))
        show("\n".join([found.standing, *found.assumptions]))
        if allowed is not None:
            show(f"budget {allowed}: {'kept' if found.within(allowed) else 'exceeded'}")
    return FAILS if allowed is not None and not found.within(allowed) else HOLDS


def _document(found: Account, budget: Claim | None) -> dict[str, object]:
    return {
        **found.to_dict(),
        "budget": None if budget is None else {"epsilon": budget.epsilon, "delta": budget.delta},
        "within_budget": None if budget is None else found.within(budget),
    }


def _table(found: Account) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in ("method", "ε", "δ", ""):
        table.add_column(name)
    for bound in found.bounds:
        epsilon = f"{bound.epsilon:.6g}" if math.isfinite(bound.epsilon) else "none"
        tightest = ["tightest"] if bound is found.tightest else []
        table.add_row(bound.method, epsilon, f"{bound.delta:g}", ", ".join([*tightest, *filter(None, [bound.note])]))
    return table


# -------------------------------------------------------------------------------------------------------------- budget
# `veridp budget init|spend|show`: a budget that is kept in a file, safe for many processes at once.


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
@claiming
def spend(
    notion: NotionOptions,
    file: File,
    epsilon: Annotated[float | None, typer.Option(min=0.0, help="the ε of what is to be asked")] = None,
    delta: Annotated[float, typer.Option(min=0.0, max=1.0, help="its δ")] = 0.0,
    at_delta: Annotated[
        float | None, typer.Option(min=0.0, max=1.0, help="basic ledgers: the δ at which other notions become an ε")
    ] = None,
    release: Annotated[Path | None, typer.Option(help="a release file, in place of ε and δ")] = None,
    what: Annotated[str, typer.Option(help="a note for the ledger")] = "",
    as_json: AsJson = False,
) -> int:
    """Enter a cost before its noise is drawn; exit 1, and enter nothing, if not enough is left."""
    from veridp.accounting.ledger import Ledger
    from veridp.accounting.release import read_release

    claimed = epsilon is not None or bool(notion.stated)
    if claimed == (release is not None):
        raise BadInput("no cost; give --epsilon (and --delta), --rho, --mu, --rdp, --tradeoff, or --release")
    with user_code():
        cost = Claim.stated(epsilon, delta or None, **notion.stated) if claimed else None
        node = None if release is None else read_release(release, load).release
    ledger = Ledger(file)
    try:
        entry = ledger.spend(cost if cost is not None else node, what, at_delta)  # type: ignore[arg-type]
    except BudgetSpent as error:
        complain(str(error))
        return FAILS
    statement = ledger.statement()
    if as_json:
        show_json("budget spend", {"target": str(file), **_budget_document(statement)})
    else:
        paid, left = (_cost_text(each, statement.method) for each in (entry.cost, statement.left))
        show(f"{entry.number}. {entry.what}: {paid}; left: {left}")
    return 0


@app.command("show")
def show_ledger(file: File, as_json: AsJson = False) -> int:
    """Print what was spent, on what, by whom, and what is left."""
    from veridp.accounting.ledger import Ledger

    statement = Ledger(file).statement()
    if as_json:
        show_json("budget show", {"target": str(file), **_budget_document(statement)})
        return 0
    for entry in statement.entries:
        show(f"{entry.number}. {entry.at}  {entry.who}  {entry.what}: {_cost_text(entry.cost, statement.method)}")
    at = f" at δ = {statement.budget.delta:g}" if statement.method == "zcdp" else ""
    show(
        f"budget {statement.budget} by {statement.method}: spent {_cost_text(statement.spent, statement.method)} "
        f"(ε = {statement.epsilon_spent:.6g}{at}), left {_cost_text(statement.left, statement.method)}"
    )
    return 0


def _cost_text(cost: Cost, method: str) -> str:
    if method == "zcdp":
        return f"ρ = {float(cost.rho):.6g}"
    return f"ε = {float(cost.epsilon):.6g}, δ = {float(cost.delta):.6g}"


def _budget_document(statement: Statement) -> dict[str, object]:
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
