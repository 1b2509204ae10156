"""The evaluation: estimates and gains on real values, repeated and beside what theory says."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.random import Generator, SeedSequence
from numpy.typing import ArrayLike

from veridp.budget import Progress
from veridp.errors import BadInput
from veridp.local import postprocess
from veridp.local.means import SR, BinnedGRR, MeanOracle, mean_of
from veridp.local.oracle import Counts, Floats
from veridp.local.piecewise import PM
from veridp.local.poisoning.numeric import IPA, OPA, MeanAttack

# -------------------------------------------------------------------------------------------------------------- people
# Whose values are collected in a study: the ages of the Adult data set, or a column of the user's own.


ADULT_THETAS = (40.0, 50.0, 60.0, 70.0, 80.0)
CITATION = (
    "Becker, B. and Kohavi, R. (1996). Adult. UCI Machine Learning Repository. "
    "https://doi.org/10.24432/C5XW20. CC BY 4.0"
)


@dataclass(frozen=True, eq=False)
class People:
    """Values between two ends, and the thresholds θ that attacks on them use."""

    name: str
    values: Floats
    low: float
    high: float
    thetas: tuple[float, ...]
    source: str = ""

    @cached_property
    def mean(self) -> float:
        return float(self.values.mean())

    @classmethod
    def own(cls, name: str, values: ArrayLike, low: float | None = None, high: float | None = None) -> People:
        """People from a column of numbers; θ are its 50th to 90th percentiles."""
        column = np.asarray(values, dtype=float)
        if len(column) < 2 or column.min() == column.max():
            raise BadInput(f"{name}: a study needs two values or more that differ")
        ends = float(column.min()) if low is None else low, float(column.max()) if high is None else high
        if not (ends[0] <= column.min() and column.max() <= ends[1]):
            raise BadInput(f"{name}: values go from {column.min():g} to {column.max():g}, beyond the range {ends}")
        thetas = tuple(sorted({float(theta) for theta in np.quantile(column, (0.5, 0.6, 0.7, 0.8, 0.9))}))
        return cls(name, column, *ends, thetas)


def adult_ages() -> People:
    """The 32,561 ages of the Adult data set's training part, from 17 to 90."""
    text = (files("veridp.local") / "data" / "adult_age_counts.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines()))
    ages = np.repeat([float(row["age"]) for row in rows], [int(row["count"]) for row in rows])
    return People("Adult ages", ages, 17.0, 90.0, ADULT_THETAS, CITATION)


# ----------------------------------------------------------------------------------------------------------------- run
# The experiments: what is varied, what is repeated, and the analytic value beside each measured one.


Collector = MeanOracle | BinnedGRR
CONFIDENCE = 0.95
KINDS = ("GRR", "SR", "PM")
CLIPPED = "GRR, clipped and normalised"
LIKELY = "GRR, most likely (IBU)"
ATTACKED_BETA = 0.2  # where estimates under attack are shown, as in the source study


@dataclass(frozen=True)
class StudySettings:
    """What is varied in a study; the defaults are those of the source study."""

    epsilons: tuple[float, ...] = (0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
    levels: tuple[int, ...] = (20, 50, 80)
    sizes: tuple[int, ...] = (10, 20, 30, 40, 50, 60, 70, 80, 90)
    few_epsilons: tuple[float, ...] = (0.1, 0.5, 1.0)
    betas: tuple[float, ...] = (0.1, 0.2, 0.3, 0.4, 0.5)
    beta: float = 0.1
    attack_epsilon: float = 1.0
    finest: int = 74
    repetitions: int = 20
    seed: int = 0

    def __post_init__(self) -> None:
        if self.repetitions < 2:
            raise BadInput(f"repetitions = {self.repetitions} give no interval; repeat at least twice")


@dataclass(frozen=True)
class StudyPoint:
    """One place of a curve: the mean of all repetitions, the 95 % interval for it, and what theory says."""

    series: str
    panel: str
    x: float
    mean: float
    lower: float
    upper: float
    deviation: float  # of single repetitions
    analytic: float  # NaN where nothing is known
    analytic_deviation: float = math.nan

    @property
    def agrees(self) -> bool | None:
        """Whether the analytic value is within twice the interval; None where there is none."""
        if math.isnan(self.analytic):
            return None
        error = (self.upper - self.lower) / 2
        return abs(self.mean - self.analytic) <= 2 * error + 1e-9


@dataclass(frozen=True)
class Figure:
    """Curves over one variable, in panels; its number is that of the source study."""

    number: int
    name: str
    title: str
    x: str
    y: str
    points: tuple[StudyPoint, ...] = ()
    log_x: bool = False
    level: float | None = None  # drawn across, such as the true mean


@dataclass(frozen=True, eq=False)
class Study:
    """All figures of an evaluation."""

    people: People
    settings: StudySettings
    figures: tuple[Figure, ...]
    finished: bool = True  # False: stopped before the last figure


@dataclass(frozen=True)
class _Case:
    """What is repeated for one point: a number per repetition, and what theory says of it."""

    series: str
    panel: str
    x: float
    measure: Callable[[Generator], float]
    analytic: float = math.nan
    analytic_deviation: float = math.nan


def evaluate(people: People, settings: StudySettings | None = None, progress: Progress | None = None) -> Study:
    """The study on these people. Every number depends on the seed alone.

    Ctrl-C ends it early, with the figures that were finished.
    """
    settings = StudySettings() if settings is None else settings
    plans = _plans(people, settings)
    total = sum(len(plan.cases) for plan in plans)
    figures: list[Figure] = []
    done = 0
    try:
        for number, plan in enumerate(plans):
            points = []
            for place, case in enumerate(plan.cases):
                points.append(_measured(case, settings, (number, place)))
                done += 1
                if progress is not None:
                    progress(plan.figure.title, done / total, 0.0)
            figures.append(replace(plan.figure, points=tuple(points)))
    except KeyboardInterrupt:
        if not figures:
            raise
        return Study(people, settings, _numbered(figures), finished=False)
    return Study(people, settings, _numbered(figures))


def _numbered(figures: Sequence[Figure]) -> tuple[Figure, ...]:
    """The figures by their numbers; figure 2 is a part of figure 5."""
    part = (
        replace(figure, number=2, name="estimates-by-d-at-least-epsilon", title=title, points=points)
        for figure in figures
        if figure.number == 5
        for points in [tuple(point for point in figure.points if point.panel == figure.points[0].panel)]
        for title in [f"Estimates over d, {points[0].panel}"]
    )
    return tuple(sorted((*figures, *part), key=lambda figure: figure.number))


def _measured(case: _Case, settings: StudySettings, place: tuple[int, int]) -> StudyPoint:
    """The point of a case: its measure repeated, each repetition with a seed of its own."""
    from scipy.stats import t

    numbers = np.array(
        [
            case.measure(np.random.default_rng(SeedSequence(settings.seed, spawn_key=(*place, repetition))))
            for repetition in range(settings.repetitions)
        ]
    )
    deviation = float(numbers.std(ddof=1))
    reach = float(t.ppf((1 + CONFIDENCE) / 2, len(numbers) - 1)) * deviation / math.sqrt(len(numbers))
    mean = float(numbers.mean())
    return StudyPoint(
        case.series,
        case.panel,
        case.x,
        mean,
        mean - reach,
        mean + reach,
        deviation,
        case.analytic,
        case.analytic_deviation,
    )


# ------------------------------------------------------------------------------------------------------- figures


@dataclass(frozen=True)
class _Plan:
    """A figure that is still without points, and what has to be measured for them."""

    figure: Figure
    cases: tuple[_Case, ...]


def _plans(people: People, settings: StudySettings) -> list[_Plan]:
    bins = Figure(1, "bins", "The mean after rounding to d levels", "d", "mean", level=people.mean)
    return [_Plan(bins, _bins(people)), *_of_estimates(people, settings), *_of_gains(people, settings)]


def _of_estimates(people: People, settings: StudySettings) -> Iterator[_Plan]:
    """Estimates over ε and over d, and those under attack."""
    y, level = "estimated mean", people.mean
    by_epsilon = (
        case
        for size in settings.levels
        for epsilon in settings.epsilons
        for case in _estimates(people, size, epsilon, epsilon, f"d = {size}")
    )
    likely_by_epsilon = (
        _likely(people, size, epsilon, epsilon, f"d = {size}")
        for size in settings.levels
        for epsilon in settings.epsilons
    )
    figure = Figure(4, "estimates-by-epsilon", "Estimates over ε", "ε", y, log_x=True, level=level)
    yield _Plan(figure, (*by_epsilon, *likely_by_epsilon))
    by_size = (
        case
        for epsilon in settings.few_epsilons
        for size in settings.sizes
        for case in _estimates(people, size, epsilon, size, f"ε = {epsilon:g}")
    )
    likely_by_size = (
        _likely(people, size, epsilon, size, f"ε = {epsilon:g}")
        for epsilon in settings.few_epsilons
        for size in settings.sizes
    )
    figure = Figure(5, "estimates-by-d", "Estimates over d", "d", y, level=level)
    yield _Plan(figure, (*by_size, *likely_by_size))
    theta = people.thetas[min(1, len(people.thetas) - 1)]
    title = f"GRR under attack, β = {ATTACKED_BETA:g}, θ = {theta:g}"
    attacked = Figure(3, "attacked-by-epsilon", title, "ε", y, log_x=True, level=level)
    yield _Plan(attacked, tuple(_attacked(people, settings, theta)))


def _of_gains(people: People, settings: StudySettings) -> Iterator[_Plan]:
    """Gains of attacks over ε, over β and over θ, the other two held fast."""
    epsilon, beta, theta = settings.attack_epsilon, settings.beta, people.thetas[0]

    def cases(varied: Callable[[int], Iterator[Iterator[_Case]]]) -> tuple[_Case, ...]:
        return tuple(case for size in settings.levels for some in varied(size) for case in some)

    yield _Plan(
        Figure(6, "gains-by-epsilon", f"Gains over ε, β = {beta:g}, θ = {theta:g}", "ε", "gain", log_x=True),
        cases(lambda size: (_gains(people, size, each, beta, theta, each) for each in settings.epsilons)),
    )
    yield _Plan(
        Figure(7, "gains-by-beta", f"Gains over β, ε = {epsilon:g}, θ = {theta:g}", "β", "gain"),
        cases(lambda size: (_gains(people, size, epsilon, each, theta, each) for each in settings.betas)),
    )
    yield _Plan(
        Figure(8, "gains-by-theta", f"Gains over θ, ε = {epsilon:g}, β = {beta:g}", "θ", "gain"),
        cases(lambda size: (_gains(people, size, epsilon, beta, each, each) for each in people.thetas)),
    )


def _rounded(people: People, size: int) -> Floats:
    """The values, each moved to the nearest of d levels."""
    binned = BinnedGRR(people.low, people.high, size, 1.0, "nearest")
    return binned.levels[binned.rounded(people.values)]


def _bins(people: People) -> tuple[_Case, ...]:
    """No noise: what rounding alone does to the mean."""
    means = {size: float(_rounded(people, size).mean()) for size in range(2, 101)}
    return tuple(_Case("rounded", "", size, _constant(mean)) for size, mean in means.items())


def _constant(value: float) -> Callable[[Generator], float]:
    return lambda rng: value


def _collector(kind: str, people: People, size: int, epsilon: float) -> Collector:
    if kind == "GRR":
        return BinnedGRR(people.low, people.high, size, epsilon, "nearest")
    return (SR if kind == "SR" else PM)(people.low, people.high, epsilon)


def _deviation(oracle: Collector, values: Floats) -> float:
    if isinstance(oracle, BinnedGRR):
        return math.sqrt(oracle.mean_variance(len(values), values))
    return math.sqrt(oracle.variance(len(values), values))


def _estimates(people: People, size: int, epsilon: float, x: float, panel: str) -> Iterator[_Case]:
    """The mean by each oracle from values rounded to d levels, as in the source study."""
    values = _rounded(people, size)
    for kind in KINDS:
        oracle = _collector(kind, people, size, epsilon)

        def estimate(rng: Generator, oracle: Collector = oracle) -> float:
            return oracle.mean(oracle.collect(values, rng)).value

        yield _Case(kind, panel, x, estimate, float(values.mean()), _deviation(oracle, values))
    yield _Case(CLIPPED, panel, x, _clipped_mean(_collector("GRR", people, size, epsilon), values))


def _likely(people: People, size: int, epsilon: float, x: float, panel: str) -> _Case:
    """The mean of the frequencies under which the reports of GRR are most likely."""
    values, oracle = _rounded(people, size), BinnedGRR(people.low, people.high, size, epsilon, "nearest")

    def estimate(rng: Generator) -> float:
        counts = oracle.collect(values, rng)
        likely = postprocess.most_likely_counts(oracle.grr, Counts(str(oracle.grr), counts.users, counts.sums))
        return mean_of(likely, oracle.levels, math.nan).value

    return _Case(LIKELY, panel, x, estimate)


def _clipped_mean(oracle: Collector, values: Floats, attack: MeanAttack | None = None) -> Callable[[Generator], float]:
    """The mean of a histogram that was clipped at 0 and normalised; its expectation has no closed form."""

    def estimate(rng: Generator) -> float:
        assert isinstance(oracle, BinnedGRR)  # noqa: S101  made as such above
        counts = oracle.collect(values, rng) if attack is None else attack.collect(values, rng).after
        histogram = postprocess.apply(oracle.estimate(counts), ("clip", "normalise"))
        return mean_of(histogram, oracle.levels, math.nan).value

    return estimate


def _attacked(people: People, settings: StudySettings, theta: float) -> Iterator[_Case]:
    """GRR on the finest levels: nobody malicious, OPA, and IPA; unbiased, and clipped as in the source study."""
    size = settings.finest
    values = _rounded(people, size)
    for epsilon in settings.epsilons:
        oracle = BinnedGRR(people.low, people.high, size, epsilon, "nearest")
        attacks: dict[str, MeanAttack] = {
            "nobody": IPA(0.0, oracle),
            "OPA": OPA(ATTACKED_BETA, oracle),
            "IPA": IPA(ATTACKED_BETA, oracle, theta),
        }
        for name, attack in attacks.items():

            def estimate(rng: Generator, oracle: BinnedGRR = oracle, attack: MeanAttack = attack) -> float:
                return oracle.mean(attack.collect(values, rng).after).value

            yield _Case(name, "unbiased", epsilon, estimate, attack.expected_mean(values))
            yield _Case(name, "clipped and normalised", epsilon, _clipped_mean(oracle, values, attack))


def _gains(people: People, size: int, epsilon: float, beta: float, theta: float, x: float) -> Iterator[_Case]:
    """How much OPA and IPA move the mean by each oracle."""
    values = _rounded(people, size)
    for kind in KINDS:
        oracle = _collector(kind, people, size, epsilon)
        attacks: Sequence[MeanAttack] = (OPA(beta, oracle), IPA(beta, oracle, theta))
        for attack in attacks:

            def gain(rng: Generator, attack: MeanAttack = attack) -> float:
                return attack.gain(attack.collect(values, rng))

            name = f"{attack.name.upper()}, d = {size}"
            yield _Case(kind, name, x, gain, attack.expected_gain(values))


def as_rows(figure: Figure) -> Iterator[dict[str, Any]]:
    """The points of a figure as rows of a table."""
    for point in figure.points:
        yield {
            "series": point.series,
            "panel": point.panel,
            figure.x: point.x,
            "mean": point.mean,
            "lower": point.lower,
            "upper": point.upper,
            "deviation": point.deviation,
            "analytic": "" if math.isnan(point.analytic) else point.analytic,
            "analytic deviation": "" if math.isnan(point.analytic_deviation) else point.analytic_deviation,
        }
