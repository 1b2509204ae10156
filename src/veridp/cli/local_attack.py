"""`veridp local attack`: what malicious users would do to a collection of these values, measured and in theory."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.table import Table

from veridp.cli.options import AsJson, Seed
from veridp.cli.output import progress_bar, show, show_json
from veridp.cli.tables import (
    STDIN,
    Column,
    Errors,
    FileFormat,
    Files,
    OnError,
    RowTally,
    batches,
    chosen_labels,
    named,
    planned,
    tell,
    usable,
)
from veridp.errors import BadInput, extra

if TYPE_CHECKING:
    from veridp.local.plan import Plan
    from veridp.local.poisoning import Attacked, FrequencyAttack, MeanAttack
    from veridp.local.poisoning.numeric import FineGrained

ON_LABELS = ("rpa", "ria", "mga", "adaptive")
ON_MEANS = ("opa", "ipa", "largest-input")
ON_MOMENTS = ("fine-grained", "fine-grained-input")
ON_SESSIONS = ("chosen-input", "best-vector", "seed-shopping", "drop-out")
ATTACKS = (*ON_LABELS, *ON_MEANS, *ON_MOMENTS, *ON_SESSIONS)
PROTOCOLS = {"grr": "vgrr", "oue": "voue", "olh": "volh", "binned": "grr-ho", "sr": "sr-ho", "pm": "pm-ho"}


@dataclass(frozen=True)
class Outcome:
    """What an attack did to one number: before and after, on average over repetitions, and in theory."""

    what: str
    before: float
    after: float
    error: float  # of the mean change
    expected: float  # change

    @property
    def change(self) -> float:
        return self.after - self.before


@planned
def show_attack(
    chosen: Plan,
    files: Files = None,
    attack: Annotated[
        str,
        typer.Option(
            help=f"on frequencies {', '.join(ON_LABELS)}; on means {', '.join((*ON_MEANS, *ON_MOMENTS))}; "
            f"on the oracle's verifiable protocol {', '.join(ON_SESSIONS)}"
        ),
    ] = "mga",
    beta: Annotated[float, typer.Option(min=0.0, max=0.99, help="the share of malicious users")] = 0.05,
    targets: Annotated[str | None, typer.Option(help="the labels to promote: a,b,c")] = None,
    theta: Annotated[float | None, typer.Option(help="ipa: take part with a value of at least this")] = None,
    target_mean: Annotated[
        float | None, typer.Option(help="fine-grained, and attacks on protocols: where the mean should go")
    ] = None,
    target_variance: Annotated[float | None, typer.Option(help="fine-grained: where the variance should go")] = None,
    column: Column = None,
    form: FileFormat = None,
    on_error: Errors = OnError.fail,
    repetitions: Annotated[int, typer.Option(min=1, help="how often the collection is played")] = 1,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> int:
    """Play an attack on a collection of the values of a column, and print what it gains beside what theory says."""
    stream = _Stream(chosen, files, None if column is None else [column], form, on_error, repetitions, seed)
    if attack in ON_LABELS:
        outcomes = _on_labels(stream, attack, beta, targets)
    elif attack in ON_MEANS:
        outcomes = _on_means(stream, attack, beta, theta)
    elif attack in ON_MOMENTS:
        outcomes = _on_moments(stream, attack, beta, target_mean, target_variance)
    elif attack in ON_SESSIONS:
        outcomes = _on_sessions(stream, attack, beta, targets, target_mean)
    else:
        raise BadInput(f"attack {attack!r} is unknown; use {', '.join(ATTACKS)}")
    if as_json:
        rows = [vars(outcome) | {"change": outcome.change} for outcome in outcomes]
        document = {"plan": chosen.as_json(), "attack": attack, "beta": beta, "users": stream.users, "outcomes": rows}
        show_json("local attack", {"target": named(files), **document})
    else:
        show(_table(outcomes))
    return 0


@dataclass
class _Stream:
    """The values of the input, a batch at a time, and as many generators as there are repetitions."""

    plan: Plan
    files: list[Path] | None
    columns: list[str] | None
    form: Any
    on_error: OnError
    repetitions: int
    seed: int
    users: int = 0

    def play(self, attack: Any, seen: Any = None) -> list[Attacked[Any]]:
        """The attacked counts of each repetition; `seen` is shown every batch of values."""
        rngs = [np.random.default_rng(child) for child in np.random.SeedSequence(self.seed).spawn(self.repetitions)]
        totals: list[Any] = [None] * self.repetitions
        tally = RowTally(self.on_error)
        self.users = 0
        with progress_bar("attacking") as progress:
            for batch in batches(self.files, self.columns, self.form):
                values = usable(self.plan.parsed, batch, tally)
                if not len(values):
                    continue
                self.users += len(values)
                if seen is not None:
                    seen(values)
                for number, rng in enumerate(rngs):
                    part = attack.collect(values, rng)
                    totals[number] = part if totals[number] is None else totals[number] + part
                progress(f"{tally.read:,} rows", batch.share, 0.0)
        tell(tally)
        if not self.users:
            raise BadInput("the input has no rows that can be used")
        return totals

    def look(self, seen: Any) -> None:
        """Read the values alone, to be read again afterwards."""
        if self.files is None or STDIN in self.files:
            raise BadInput(
                "this attack needs all values first and reads its input twice; give a file, not standard input"
            )
        for batch in batches(self.files, self.columns, self.form):
            seen(usable(self.plan.parsed, batch, RowTally(self.on_error)))


class _Histogram:
    """Values by fine bins, one of which begins at θ, each with its mean: enough to know what theory says."""

    def __init__(self, low: float, high: float, theta: float | None) -> None:
        edges = np.linspace(low, high, 1 << 16)
        self._edges = edges if theta is None else np.union1d(edges, [theta])
        self._counts = np.zeros(len(self._edges) + 1)
        self._sums = np.zeros(len(self._edges) + 1)
        self.squares = 0.0

    def __call__(self, values: NDArray[np.float64]) -> None:
        places = self._edges.searchsorted(values, side="right")
        self._counts += np.bincount(places, minlength=len(self._counts))
        self._sums += np.bincount(places, values, minlength=len(self._counts))
        self.squares += float(np.square(values).sum())

    @property
    def weights(self) -> NDArray[np.float64]:
        return self._counts[self._counts > 0]

    @property
    def means(self) -> NDArray[np.float64]:
        """The mean of each bin that is not empty."""
        return np.asarray(self._sums[self._counts > 0] / self.weights)


def _on_labels(stream: _Stream, name: str, beta: float, targets: str | None) -> list[Outcome]:
    from veridp.local.oracle import FrequencyOracle, PureOracle
    from veridp.local.poisoning import MGA, RIA, RPA, AdaptiveMGA

    oracle = stream.plan.oracle
    if targets is None:
        raise BadInput(f"{name} promotes labels; name them with --targets a,b,c")
    if not isinstance(oracle, FrequencyOracle if name == "ria" else PureOracle):
        raise BadInput(f"{name} is not available for {stream.plan.oracle_name}; use grr, sue, oue, olh or subset")
    chosen = tuple(stream.plan.code(label) for label in chosen_labels(targets))
    kinds: dict[str, Callable[..., FrequencyAttack]] = {"rpa": RPA, "ria": RIA, "mga": MGA, "adaptive": AdaptiveMGA}
    attack = kinds[name](beta, oracle, chosen)
    counted = np.zeros(oracle.size)

    def count(values: NDArray[np.int64]) -> None:
        counted[:] += np.bincount(values, minlength=oracle.size)

    runs = stream.play(attack, count)
    expected = attack.expected_gain(counted / counted.sum())
    before, after = (
        [float(oracle.estimate(counts).values[list(chosen)].sum()) for counts in column] for column in _columns(runs)
    )
    return [_outcome("frequency of the targets", before, after, expected)]


def _on_means(stream: _Stream, name: str, beta: float, theta: float | None) -> list[Outcome]:
    from veridp.local.means import BinnedGRR, MeanOracle
    from veridp.local.poisoning import IPA, OPA, LargestInput

    oracle = stream.plan.oracle
    if not isinstance(oracle, MeanOracle | BinnedGRR):
        raise BadInput(f"{name} is an attack on means; {stream.plan.oracle_name} collects labels, use mga")
    if (name == "ipa") != (theta is not None):
        raise BadInput("ipa, and no other attack, needs --theta: the least value with which to take part")
    attack: MeanAttack = (
        IPA(beta, oracle, theta)
        if theta is not None
        else {"opa": OPA, "largest-input": LargestInput}[name](beta, oracle)
    )
    histogram = _Histogram(oracle.low, oracle.high, theta)
    runs = stream.play(attack, histogram)
    expected = attack.expected_gain(histogram.means, histogram.weights)
    before, after = ([oracle.mean(counts).value for counts in column] for column in _columns(runs))
    return [_outcome("mean", before, after, expected)]


def _on_moments(stream: _Stream, name: str, beta: float, mean: float | None, variance: float | None) -> list[Outcome]:
    from veridp.local.means import SR
    from veridp.local.piecewise import PM, Moments
    from veridp.local.poisoning import FineGrained, FineGrainedInput

    if mean is None or variance is None:
        raise BadInput(f"{name} aims at a mean and a variance; give --target-mean and --target-variance")
    kinds: dict[str, type[SR] | type[PM]] = {"sr": SR, "pm": PM}
    plan = stream.plan
    if plan.oracle_name not in kinds or plan.low is None or plan.high is None:
        raise BadInput(f"{name} is available for sr and pm, not for {plan.oracle_name}; choose one with --oracle")
    moments = Moments(kinds[plan.oracle_name], plan.low, plan.high, plan.epsilon)
    histogram = _Histogram(plan.low, plan.high, None)
    stream.look(histogram)
    honest = float(np.average(histogram.means, weights=histogram.weights))
    known = honest, max(0.0, histogram.squares / float(histogram.weights.sum()) - honest**2)
    attack: FineGrained = (FineGrained if name == "fine-grained" else FineGrainedInput)(
        beta, moments, mean, variance, known
    )
    runs = stream.play(attack)
    before, after = ([moments.estimate(counts).values for counts in column] for column in _columns(runs))
    return [
        _outcome(
            what, [row[place] for row in before], [row[place] for row in after], attack.expected[place] - known[place]
        )
        for place, what in enumerate(("mean", "variance"))
    ]


def _on_sessions(
    stream: _Stream, name: str, beta: float, targets: str | None, target_mean: float | None
) -> list[Outcome]:
    """Whole sessions, through the verifier of the protocol that makes the oracle verifiable."""
    import random

    with extra("collect", f"{name} needs"):
        import msgpack
    del msgpack
    from veridp.collect import Task
    from veridp.collect.session_attacks import SESSION_ATTACKS

    plan = stream.plan
    if plan.oracle_name not in PROTOCOLS:
        raise BadInput(f"no verifiable protocol for {plan.oracle_name}; use {', '.join(PROTOCOLS)}")
    if plan.numeric == (targets is not None):
        raise BadInput(f"{name} on {plan.oracle_name}: --targets a,b,c are for labels, and labels need them")
    values: list[Any] = []
    stream.look(lambda batch: values.extend(batch.tolist()))
    stream.users = len(values)
    kind, common = SESSION_ATTACKS[name], ("attacked", PROTOCOLS[plan.oracle_name], plan.epsilon)
    if targets is None:
        levels = len(plan.oracle.levels) if plan.oracle_name == "binned" else 0  # type: ignore[attr-defined]
        attack = kind(Task(*common, low=plan.low or 0.0, high=plan.high or 0.0, resolution=levels), beta)
        honest = float(np.mean(values))
        if target_mean is not None:
            attack = attack.aimed(honest, target_mean)
    else:
        chosen = tuple(plan.code(label) for label in chosen_labels(targets))
        items = tuple(map(str, plan.labels or ()))
        attack = kind(Task(*common, items=items), beta, chosen)
        honest = sum(values.count(target) for target in chosen) / len(values)
        values = [items[value] for value in values]
    runs = [attack.collect(values, random.Random(f"{stream.seed} {n}")) for n in range(stream.repetitions)]  # noqa: S311
    tokens, rate = attack.expected_tokens, attack.expected_abort_rate
    return [
        _outcome(
            "mean" if targets is None else "frequency of the targets",
            [run.before for run in runs],
            [run.after for run in runs],
            attack.expected_gain(honest),
        ),
        _outcome("sessions per malicious report", [1.0] * len(runs), [run.tokens for run in runs], tokens - 1),
        _outcome(
            "abort rate", [0.0] * len(runs), [run.attendance.abort_rate(attack.task.protocol) for run in runs], rate
        ),
    ]


def _columns(runs: list[Attacked[Any]]) -> tuple[list[Any], list[Any]]:
    return [run.before for run in runs], [run.after for run in runs]


def _outcome(what: str, before: list[float], after: list[float], expected: float) -> Outcome:
    changes = np.array(after) - np.array(before)
    error = float(changes.std(ddof=1)) / math.sqrt(len(changes)) if len(changes) > 1 else math.nan
    return Outcome(what, float(np.mean(before)), float(np.mean(after)), error, expected)


def _table(outcomes: list[Outcome]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("", "before", "after", "change", "in theory"):
        table.add_column(name, justify="right" if name else "left")
    for outcome in outcomes:
        error = "" if math.isnan(outcome.error) else f" ± {outcome.error:.2g}"
        table.add_row(
            outcome.what,
            f"{outcome.before:.6g}",
            f"{outcome.after:.6g}",
            f"{outcome.change:+.6g}{error}",
            f"{outcome.expected:+.6g}",
        )
    return table
