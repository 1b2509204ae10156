"""What illustrates a result: the outputs on two inputs with the event that tells them apart, the privacy profile, the
trade-off curve, p-values, the paths and the code.

Everything is read from a result, or computed by the engine that found it, between the same two inputs. Where a verdict
rests on samples, outputs are counted in samples of their own, which the chart says: no verdict rests on these.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from rich.tree import Tree

from veridp.budget import Deadline
from veridp.budget.child_process import contained
from veridp.claim import Claim, Witness, number
from veridp.engines.exact import Comparison, compare
from veridp.engines.exact.compare import ComparisonRow
from veridp.engines.exact.entry_loss import EntryLoss
from veridp.engines.exact.event import ExactEvent
from veridp.engines.exact.loss import Mixture, PrivacyLoss, Product
from veridp.engines.sniper import AttackResult
from veridp.engines.statdp import Detection, p_values
from veridp.errors import VeridpError
from veridp.kernel.explore import explore
from veridp.kernel.symbols import count_text
from veridp.mechanism import Mechanism
from veridp.report.charts import BARS, CLAIM, DASHED, LEFT, LINE, PLAIN, POINTS, RIGHT, STEPS, Chart, Series
from veridp.report.exact import densities, visible_places
from veridp.report.listing import path_tree
from veridp.sampling.outputs import Outputs
from veridp.sampling.sample import sample
from veridp.verdict import Verdict

Array = NDArray[np.float64]
SECONDS = 30.0  # for all that is computed for a page, at most; the rest is left out, and that is said
SHARE = 0.5  # of the time that is left, for each chart
MAX_PATHS_SHOWN = 60
MAX_PATHS = 20_000
MAX_BARS = 24
RUNS = 20_000  # on either side, where outputs are counted
BINS = 60
POINTS_PER_CURVE = 81
LARGEST_DRAWN_EPSILON = 12.0
LEAST_DRAWN_DELTA = 1e-4  # curves of a larger ε end where less is left


@dataclass(frozen=True)
class SourceCode:
    """The author's function: its lines, the number of the first, and those that the result speaks of."""

    file: str
    first: int
    lines: tuple[str, ...]
    marked: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Exhibits:
    """Charts, paths and code that go with a result; `missing` says what could not be had, and why."""

    charts: tuple[Chart, ...] = ()
    paths: Tree | None = None
    path_count: int = 0
    source: SourceCode | None = None
    missing: tuple[str, ...] = ()

    def chart(self, name: str) -> Chart | None:
        """The chart of this name, if there is one."""
        return next((chart for chart in self.charts if chart.name == name), None)


@dataclass
class _Collection:
    """Charts as they are made; what fails is noted in place of its chart."""

    deadline: Deadline
    charts: list[Chart] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    def add(self, what: str, make: Callable[[], Chart | None]) -> None:
        try:
            chart = contained(lambda _: make(), self.deadline.part(SHARE))
        except VeridpError as reason:
            self.missing.append(f"{what}: {reason}")
            return
        if chart is not None:
            self.charts.append(chart)


def verdict_exhibits(verdict: Verdict, seconds: float = SECONDS) -> Exhibits:
    """All that illustrates the verdict, computed within so many seconds; nothing where its mechanism is not known.

    A verdict that was unpickled, or made by hand, does not know its mechanism.
    """
    mechanism, witness = verdict.subject, verdict.witness
    if not isinstance(mechanism, Mechanism):
        return Exhibits(missing=("the mechanism is not at hand: nothing can be drawn",))
    found = _Collection(Deadline(seconds))
    exactly = witness is not None and (witness.confidence == 1 or not verdict.results)
    comparison = _compared(mechanism, witness, found) if witness is not None and exactly else None
    if witness is not None and comparison is not None:
        _add_exact(found, comparison, witness, verdict.claim)
    elif witness is not None:
        _add_sampled(found, mechanism, witness, verdict)
    else:
        found.missing.append("outputs, profile, trade-off: there is no pair of inputs to draw them for")
    for result in verdict.results.values():
        if isinstance(result, Detection):
            found.add("p-values", lambda result=result: p_value_chart(result))  # type: ignore[misc]
        elif isinstance(result, AttackResult) and comparison is None:
            found.charts += attack_charts(result)
    text = " ".join([verdict.alignment, *(f"{remark.file}:{remark.line}" for remark in verdict.look_at)])
    data = mechanism.adjacency.example(mechanism.size, mechanism.domain) if witness is None else witness.left
    tree, count = _paths(mechanism, data, found)
    return Exhibits(tuple(found.charts), tree, count, source_of(mechanism, text), tuple(found.missing))


def witness_exhibits(
    mechanism: Mechanism, witness: Witness | None, claim: Claim | None, seconds: float = SECONDS
) -> Exhibits:
    """What the exact engine draws of the inputs of a witness."""
    found = _Collection(Deadline(seconds))
    comparison = None if witness is None else _compared(mechanism, witness, found)
    if witness is not None and comparison is not None:
        _add_exact(found, comparison, witness, claim)
    return Exhibits(tuple(found.charts), source=source_of(mechanism, ""), missing=tuple(found.missing))


def comparison_exhibits(comparison: Comparison, seconds: float = SECONDS) -> Exhibits:
    """All that illustrates an exact comparison."""
    found, mechanism = _Collection(Deadline(seconds)), comparison.mechanism
    _add_exact(found, comparison, comparison.witness, comparison.claim)
    tree, count = _paths(mechanism, comparison.left, found)
    return Exhibits(tuple(found.charts), tree, count, source_of(mechanism, ""), tuple(found.missing))


def _compared(mechanism: Mechanism, witness: Witness, found: _Collection) -> Comparison | None:
    """The exact comparison of the witness's inputs, where there is one."""
    try:
        return compare(mechanism, witness.left, witness.right, seconds=max(found.deadline.left, 1e-3))
    except VeridpError as reason:
        found.missing.append(f"exact distributions: {reason}")
        return None


def _add_exact(found: _Collection, comparison: Comparison, witness: Witness, claim: Claim | None) -> None:
    found.add("classes of outputs", lambda: _bars(comparison, witness))
    found.add("densities", lambda: _density_chart(comparison, witness))
    found.add("privacy profile", lambda: profile_chart(comparison, claim))
    found.add("trade-off curve", lambda: tradeoff_chart(comparison, claim))


# ------------------------------------------------------------------------------------------------- exact distributions


def _bars(comparison: Comparison, witness: Witness) -> Chart | None:
    """The probabilities of the classes of outputs; nothing where there is one class only."""
    table = comparison.table
    if len(table) < 2:
        return None
    rows = table[:MAX_BARS]
    places = tuple(float(place) for place in range(len(rows)))
    of_event = [place for place, row in enumerate(rows) if _in_event(row, witness.event)]
    note = "Probabilities computed from the paths, without sampling."
    if len(table) > MAX_BARS:
        note += f" The {MAX_BARS} outputs with the largest loss, of {len(table)}."
    names = [str(row.event) for row in rows]
    return Chart(
        "outputs",
        "The outputs on either input",
        "output",
        "probability",
        (
            Series("left", places, tuple(row.left for row in rows), LEFT, BARS),
            Series("right", places, tuple(row.right for row in rows), RIGHT, BARS),
        ),
        note,
        tuple(names),
        tuple((place - 0.5, place + 0.5) for place in of_event),
    )


def _in_event(row: ComparisonRow, event: object) -> bool:
    """Whether the class has outputs that belong to the event, as far as its form tells."""
    if not isinstance(event, ExactEvent):
        return False
    if event.either:
        return any(_in_event(row, one) for one in event.either)
    if event.template is None or row.event.template is None:
        return (event.equal, event.template) == (row.event.equal, row.event.template)
    return event.template.outline == row.event.template.outline and str(event.template) == str(row.event.template)


def _density_chart(comparison: Comparison, witness: Witness) -> Chart | None:
    """The densities of the number that the event is about; nothing where it is about none, or about several."""
    line, masses = _line_of(comparison, witness.event)
    if line is None:
        return None
    places = visible_places(line)
    if line.lattice is None and len(places) > 3 * POINTS_PER_CURVE:
        places = places[:: len(places) // (3 * POINTS_PER_CURVE)]
    left, right = (curve * mass for curve, mass in zip(densities(line, places), masses, strict=True))
    kind = LINE if line.lattice is None else POINTS
    spans = [span for event in _alternatives(witness.event) for entry, spans in event.within for span in spans]
    return Chart(
        "density",
        f"The distribution of {line.entry}",
        str(line.entry),
        "density" if line.lattice is None else "probability",
        (
            Series("left", tuple(places.tolist()), tuple(left.tolist()), LEFT, kind),
            Series("right", tuple(places.tolist()), tuple(right.tolist()), RIGHT, DASHED if kind == LINE else POINTS),
        ),
        f"Computed from the paths, without sampling. Shaded: {witness.event}.",
        spans=tuple((span.low, span.high) for span in spans),
    )


def _alternatives(event: object) -> Sequence[ExactEvent]:
    return () if not isinstance(event, ExactEvent) else event.either or (event,)


def _line_of(comparison: Comparison, event: object) -> tuple[EntryLoss | None, tuple[float, float]]:
    """The line of the number that the event is about, with the mass of all else in its class on either side."""
    events = _alternatives(event)
    entries = {entry for one in events for entry, _ in one.within}
    templates = {str(one.template) for one in events}
    nothing = None, (1.0, 1.0)
    if len(entries) != 1 or len(templates) != 1 or comparison.reader.renames:
        return nothing
    (entry,) = entries
    for line, others in _lines(comparison.loss, ()):
        atoms = [part.peak.event for part in others if not isinstance(part, EntryLoss)]
        forms = {str(one.template) for one in atoms if one.template is not None}
        if line.entry == entry and (templates == {"None"} or not forms or forms == templates):
            left, right = (math.prod(part.masses()[side] for part in others) for side in (0, 1))
            return line, (left, right)
    return nothing


def _lines(loss: PrivacyLoss, others: tuple[PrivacyLoss, ...]) -> Iterator[tuple[EntryLoss, tuple[PrivacyLoss, ...]]]:
    """Each numeric entry with what is independent of it in the same class of outputs."""
    if isinstance(loss, EntryLoss):
        yield loss, others
    elif isinstance(loss, Product):
        for place, part in enumerate(loss.parts):
            yield from _lines(part, (*others, *loss.parts[:place], *loss.parts[place + 1 :]))
    elif isinstance(loss, Mixture):
        for part in loss.parts:
            yield from _lines(part, others)


# ---------------------------------------------------------------------------------------------------------- the curves


def profile_chart(comparison: Comparison, claim: Claim | None) -> Chart:
    """δ against ε between the two inputs, and what is claimed of it."""
    top = _largest_drawn(comparison)
    if claim is not None:
        top = max(top, min(1.25 * claim.epsilon, LARGEST_DRAWN_EPSILON))
    grid = np.linspace(0.0, max(top, 1e-3), POINTS_PER_CURVE)
    epsilons, deltas = comparison.profile(grid)
    drawn = Series("δ(ε) between the two inputs", tuple(epsilons.tolist()), tuple(deltas.tolist()))
    claimed = [] if claim is None else _claimed_profile(claim, grid)
    return Chart(
        "profile",
        "Privacy profile",
        "ε",
        "δ",
        (drawn, *claimed),
        "The least δ at each ε between these two inputs; other neighbours may need more.",
        marks=() if claim is None or claim.notion is not None else ((claim.epsilon, "claim"),),
    )


def _largest_drawn(comparison: Comparison) -> float:
    """The largest loss, or the ε from which on there is little left to see."""
    if comparison.epsilon <= LARGEST_DRAWN_EPSILON:
        return comparison.epsilon
    return min(max(comparison.epsilon_at(LEAST_DRAWN_DELTA), 1e-3), LARGEST_DRAWN_EPSILON)


def _claimed_profile(claim: Claim, grid: Array) -> list[Series]:
    if claim.notion is None:
        return [Series(f"claimed {claim}", (claim.epsilon,), (claim.delta,), CLAIM, POINTS)]
    deltas = tuple(claim.notion.delta(epsilon) for epsilon in grid.tolist())
    return [Series(f"claimed {claim}", tuple(grid.tolist()), deltas, CLAIM, DASHED)]


def tradeoff_chart(comparison: Comparison, claim: Claim | None) -> Chart:
    """The least type II error at each type I error of a test between the two inputs, and what is claimed of it."""
    alphas, powers = comparison.tradeoff(POINTS_PER_CURVE // 2, largest=_largest_drawn(comparison))
    drawn = Series("best test of the two inputs", tuple(alphas.tolist()), tuple((1 - powers).tolist()))
    claimed = [] if claim is None else [_claimed_tradeoff(claim)]
    return Chart(
        "tradeoff",
        "Trade-off curve",
        "type I error α",
        "type II error β",
        (drawn, *claimed, Series("no information", (0.0, 1.0), (1.0, 0.0), CLAIM, DASHED)),
        "How well one output tells the two inputs apart. Below the claimed curve, the claim is broken.",
        unit_square=True,
    )


def _claimed_tradeoff(claim: Claim) -> Series:
    """The curve that the claim promises: sup over its points (ε, δ) of the two lines that each allows."""
    alphas = np.unique(np.concatenate([np.linspace(0, 1, POINTS_PER_CURVE), np.geomspace(1e-4, 1, POINTS_PER_CURVE)]))
    points = [(claim.epsilon, claim.delta)]
    if claim.notion is not None:
        points = [(e, claim.notion.delta(e)) for e in np.linspace(0, LARGEST_DRAWN_EPSILON, POINTS_PER_CURVE).tolist()]
    least = np.zeros_like(alphas)
    for epsilon, delta in points:
        least = np.maximum(least, 1 - delta - math.exp(epsilon) * alphas)
        least = np.maximum(least, math.exp(-epsilon) * (1 - delta - alphas))
    return Series(f"claimed {claim}", tuple(alphas.tolist()), tuple(least.tolist()), CLAIM)


# ---------------------------------------------------------------------------------------------------------- in samples


def _add_sampled(found: _Collection, mechanism: Mechanism, witness: Witness, verdict: Verdict) -> None:
    found.add("sampled outputs", lambda: _counted(mechanism, witness, verdict.seed))


def _counted(mechanism: Mechanism, witness: Witness, seed: int) -> Chart | None:
    """How often outputs, or bins of their first number that moves, came up on either input."""
    seeds = np.random.SeedSequence(seed, spawn_key=(17,)).generate_state(2).tolist()
    draws = [
        sample(mechanism, data, RUNS, int(own), workers=1)
        for data, own in zip((witness.left, witness.right), seeds, strict=True)
    ]
    note = f"{RUNS:,} runs on either input, drawn for this picture alone; the verdict does not rest on them."
    texts = [_frequencies(outputs) for outputs in draws]
    if all(len(text) <= MAX_BARS for text in texts):
        return _counted_bars(texts, note)
    return _histogram(draws, note, str(witness.event))


def _frequencies(outputs: Outputs) -> Mapping[str, float]:
    """The shares of the outputs, by how they print; of many different ones, as many as tell that there are many."""
    grouped = outputs.grouped(MAX_BARS)
    if grouped is None:
        return {str(place): 0.0 for place in range(MAX_BARS + 1)}
    counts = outputs.distinct()
    return {str(output): counts[output] / len(outputs) for output in counts}


def _counted_bars(texts: Sequence[Mapping[str, float]], note: str) -> Chart:
    left, right = texts
    names = sorted({*left, *right}, key=lambda name: -abs(left.get(name, 0.0) - right.get(name, 0.0)))[:MAX_BARS]
    places = tuple(float(place) for place in range(len(names)))
    series = tuple(
        Series(side, places, tuple(text.get(name, 0.0) for name in names), side, BARS)
        for side, text in ((LEFT, left), (RIGHT, right))
    )
    return Chart("outputs", "The outputs on either input", "output", "share of runs", series, note, tuple(names))


def _histogram(draws: Sequence[Outputs], note: str, event: str) -> Chart | None:
    """The entry of the output whose distribution differs most, in bins."""
    left, right = (outputs.matrix() for outputs in draws)
    best: tuple[float, int, Array, list[Array]] | None = None
    for column in range(min(left.shape[1], right.shape[1])):
        both = [side[:, column][np.isfinite(side[:, column])] for side in (left, right)]
        if min(map(len, both)) < 2:
            continue
        low, high = np.quantile(np.concatenate(both), [0.002, 0.998])
        edges = np.linspace(low, high if high > low else low + 1, BINS + 1)
        shares = [np.histogram(side, edges)[0] / len(outputs) for side, outputs in zip(both, draws, strict=True)]
        distance = float(np.abs(shares[0] - shares[1]).sum())
        if best is None or distance > best[0]:
            best = distance, column, edges, shares
    if best is None:
        return None
    _, column, edges, shares = best
    middles = tuple(((edges[1:] + edges[:-1]) / 2).tolist())
    name = "output" if left.shape[1] == 1 else f"number {column + 1} of the output"
    series = tuple(
        Series(side, middles, tuple(share.tolist()), side, STEPS)
        for side, share in zip((LEFT, RIGHT), shares, strict=True)
    )
    note = f"{note} The event: {event}."
    return Chart("density", f"The distribution of {name}", name, "share of runs", series, note)


def attack_charts(result: AttackResult) -> list[Chart]:
    """The profile and the trade-off curve that an attack certifies."""
    sure = f"at confidence {result.confidence:.4g}"
    charts = []
    claimed = [] if result.claim is None else [result.claim]
    if result.profile:
        epsilons, deltas = zip(*((point.epsilon, point.delta) for point in result.profile), strict=True)
        series = [Series("δ is at least", epsilons, deltas)]
        grid = np.linspace(0.0, max(epsilons), POINTS_PER_CURVE)
        series += [one for claim in claimed for one in _claimed_profile(claim, grid)]
        note = f"A lower bound on δ at each ε, {sure}, from {result.samples:,} runs on either input."
        charts.append(Chart("profile", "Privacy profile", "ε", "δ", tuple(series), note))
    events = [event for events in result.tradeoffs for event in events]
    if events:
        alphas, betas = zip(*((right, 1 - left) for left, right in events), strict=True)
        series = [Series("certified tests", alphas, betas, PLAIN, POINTS)]
        series += [_claimed_tradeoff(claim) for claim in claimed]
        series.append(Series("no information", (0.0, 1.0), (1.0, 0.0), CLAIM, DASHED))
        note = (
            f"Each point is a test with errors of at most these, {sure}. Below the claimed curve, the claim is broken."
        )
        charts.append(
            Chart(
                "tradeoff",
                "Trade-off curve",
                "type I error α",
                "type II error β",
                tuple(series),
                note,
                unit_square=True,
            )
        )
    return charts


def p_value_chart(detection: Detection) -> Chart | None:
    """The p-values of StatDP: those of the detection, and for a single test ε those of its event at others too."""
    points = detection.curve
    claim = detection.claim.epsilon
    series = []
    if len(points) > 1:
        levels = tuple(point.epsilon for point in points)
        series.append(Series("p", levels, tuple(point.p_value for point in points), PLAIN))
        series.append(Series("corrected p", levels, tuple(point.corrected_p_value for point in points), CLAIM, DASHED))
        note = "For each test ε, the event that was chosen on one sample, tested on another."
    elif points and points[0].event is not None:
        point = points[0]
        grid = np.linspace(0.0, max(2 * claim, detection.epsilon_lower * 1.5, 0.1), POINTS_PER_CURVE)
        counts = point.left_count, point.right_count
        both = [p_values(*pair, point.runs, grid) for pair in (counts, counts[::-1])]
        series.append(Series("p of the tested event", tuple(grid.tolist()), tuple(np.minimum(*both).tolist()), PLAIN))
        series.append(Series("corrected p at the claim", (claim,), (point.corrected_p_value,), CLAIM, POINTS))
        note = (
            f"The event that was tested at the claim came up {point.left_count:,} and {point.right_count:,} times in "
            f"{point.runs:,} runs on either input. The curve is its p-value against every other ε, "
            "without correction; only the value at the claim was a test."
        )
    else:
        return None
    level = detection.alpha, f"α = {number(detection.alpha)}"
    return Chart(
        "p-values",
        "StatDP: p against ε",
        "test ε",
        "p-value",
        tuple(series),
        note,
        marks=((claim, "claim"),),
        level=level,
    )


# ------------------------------------------------------------------------------------------------------ paths and code


def _paths(mechanism: Mechanism, data: object, found: _Collection) -> tuple[Tree | None, int]:
    """The paths on this input as a tree, and how many there are."""
    try:
        paths = explore(mechanism, data, max_paths=MAX_PATHS, seconds=max(found.deadline.left, 1e-3))
    except VeridpError as reason:
        found.missing.append(f"paths: {reason}")
        return None, 0
    return path_tree(f"{mechanism.name}: {count_text(len(paths), 'path')}", paths, MAX_PATHS_SHOWN), len(paths)


def source_of(mechanism: Mechanism, text: str) -> SourceCode | None:
    """The author's function, with the lines marked that the text names as `file.py:line`; None without its source."""
    function = inspect.unwrap(mechanism.function)
    try:
        lines, first = inspect.getsourcelines(function)
        file = inspect.getsourcefile(function) or ""
    except (TypeError, OSError, IndexError):
        return None
    name = re.escape(re.split(r"[/\\]", file)[-1])
    marked = frozenset(int(line) for line in re.findall(rf"{name}:(\d+)", text)) if file else frozenset()
    return SourceCode(file, max(first, 1), tuple(line.rstrip("\n") for line in lines), marked)
