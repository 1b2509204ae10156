"""`veridp local …`: perturb, aggregate, estimate, attack and evaluate, a module for each but for what they share."""

from __future__ import annotations

import typer

from veridp.cli.local.attack import show_attack
from veridp.cli.local.collect import aggregate_reports, perturb_values, show_estimate
from veridp.cli.local.evaluate import show_study

app = typer.Typer(
    help="Collect under local privacy: perturb, aggregate, estimate; attack and evaluate.", no_args_is_help=True
)
app.command("perturb")(perturb_values)
app.command("aggregate")(aggregate_reports)
app.command("estimate")(show_estimate)
app.command("attack")(show_attack)
app.command("evaluate")(show_study)
