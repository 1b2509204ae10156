"""Estimates: against closed forms and coverage, with aborts bounded and too many of them refused."""

from __future__ import annotations

import itertools
import math
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import binom

from veridp.collect import PMHO, Rates, Reason, Refused, Task, rates
from veridp.collect.attacks import play_vector
from veridp.collect.estimate import (
    SOME_SESSION,
    Attendance,
    PoisoningStanding,
    estimate,
    estimate_from,
    robustness,
    scores,
    session_draws,
    session_worth,
    variance,
)
from veridp.collect.harmless import Counts, Layout, Outputs
from veridp.errors import BadInput

ALL_WENT_WELL = Attendance(0, 0, 0, 0, 0, 0)


def reports(task: Task, inputs: list[int], rng: np.random.Generator) -> tuple[Outputs, list[bytes]]:
    """Reports of honest clients with these inputs, drawn from the exact laws."""
    sessions = [rng.bytes(16) for _ in inputs]
    rows = [
        [rng.choice(len(law), p=[float(p) for p in law]) for law in task.protocol.law(chosen, session)]
        for chosen, session in zip(inputs, sessions, strict=True)
    ]
    return np.array(rows, dtype=np.int64), sessions


def went(accepted: int, **others: int) -> Attendance:
    return replace(ALL_WENT_WELL, accepted=accepted, **others)


def test_the_estimate_is_the_published_formula(small_task: Callable[..., Task]) -> None:
    """(c/n - q)/(p - q) with p = 2/6, q = 1/6 for five items at ε = ln 2."""
    task = small_task("vgrr", minimum_batch=1)
    outputs = np.array([[0]] * 30 + [[1]] * 20 + [[2]] * 10, dtype=np.int64)
    found = estimate(task, outputs, [b""] * 60, went(60))
    for column, count in zip(found.columns, (30, 20, 10, 0, 0), strict=True):
        assert column.value == pytest.approx((count / 60 - 1 / 6) / (1 / 6))
    assert found["ant"].value == pytest.approx(2.0)
    assert found.epsilon == math.log(2)


@pytest.mark.parametrize("mechanism", ["vgrr", "voue", "volh", "grr-ho", "sr-ho", "pm-ho"])
def test_intervals_hold_the_truth(mechanism: str, small_task: Callable[..., Task]) -> None:
    """200 collections of 150 clients; 90 % intervals for all columns at once.

    They miss in at most 10 % of collections; 36 misses or more of 200 would happen once in 2000 seeds at most.
    """
    task = small_task(mechanism, minimum_batch=1)
    rng = np.random.default_rng(5)
    clients = rng.integers(task.protocol.inputs, size=150).tolist()
    if task.items:
        truth = [clients.count(item) / 150 for item in range(len(task.items))]
    else:
        truth = [math.fsum(float(task.protocol.number(c)) for c in clients) / 150]  # type: ignore[attr-defined]
    laws = [[np.cumsum([float(p) for p in law]) for law in task.protocol.law(c, SOME_SESSION)] for c in clients]
    missed, values = 0, []
    for _ in range(200):
        if mechanism == "volh":
            outputs, sessions = reports(task, clients, rng)
        else:
            draws = rng.random((150, task.protocol.layout.blocks))
            rows = [
                [int(np.searchsorted(ends, u, side="right")) for ends, u in zip(law, row, strict=True)]
                for law, row in zip(laws, draws, strict=True)
            ]
            outputs, sessions = np.array(rows, dtype=np.int64), [b""] * 150
        columns = estimate(task, outputs, sessions, went(150), 0.9).columns
        missed += any(not c.lower <= t <= c.upper for c, t in zip(columns, truth, strict=True))
        values.append([c.value for c in columns])
    assert missed < 36
    spread = np.std(values, axis=0)[0]
    if mechanism != "volh":
        exact = math.sqrt(sum(float(variance(task.protocol, c)) for c in clients)) / 150
        assert spread == pytest.approx(exact, rel=0.2)  # 4 standard errors of a standard deviation of 200
        assert abs(np.mean(values, axis=0)[0] - truth[0]) < 4.5 * exact / math.sqrt(200)


def test_aborts_widen_the_bounds_as_far_as_they_could_matter(small_task: Callable[..., Task]) -> None:
    task = small_task("sr-ho", minimum_batch=1, maximum_abort_rate=1.0)
    alone = estimate_from(task, [60], went(100)).columns[0]
    with_aborts = estimate_from(task, [60], went(100, expired_challenged=15, rejected=5)).columns[0]
    assert (with_aborts.value, with_aborts.lower, with_aborts.upper) == (alone.value, alone.lower, alone.upper)
    assert alone.worst_lower == pytest.approx(alone.lower)
    none_of_20 = estimate_from(task, [60], went(120)).columns[0]
    all_of_20 = estimate_from(task, [80], went(120)).columns[0]
    assert with_aborts.worst_lower == pytest.approx(none_of_20.lower)
    assert with_aborts.worst_upper == pytest.approx(all_of_20.upper)


@pytest.mark.parametrize("leaving", [0, 1])
def test_worst_bounds_hold_where_clients_leave_because_of_their_report(
    leaving: int, small_task: Callable[..., Task]
) -> None:
    """All clients with one of the two reports leave; the probability that the bounds miss is summed up exactly.

    Those that stay all say the same, so an interval from them alone would be far too narrow.
    """
    task = small_task("sr-ho", resolution=1, minimum_batch=1, maximum_abort_rate=1.0)
    n, truth = 120, 0.5  # half of the clients have the highest number: a report is 1 with probability 1/2
    mean = float(task.protocol.scaled(Fraction(1, 2)))
    missed = 0.0
    for stay in range(1, n + 1):
        support = 0 if leaving else stay
        column = estimate_from(task, [support], went(stay, expired_challenged=n - stay), 0.9).columns[0]
        if not column.worst_lower <= mean <= column.worst_upper:
            missed += float(binom.pmf(stay, n, truth))
    assert mean == pytest.approx(2.0)
    assert 0.01 < missed <= 0.05  # one side alone can miss


def test_clients_that_left_before_the_challenge_knew_nothing(small_task: Callable[..., Task]) -> None:
    task = small_task("sr-ho", minimum_batch=1, maximum_abort_rate=0.0)
    attendance = went(100, expired_invited=50, pending_invited=9)
    assert attendance.abort_rate(task.protocol) == 0.0
    column = estimate_from(task, [60], attendance).columns[0]
    assert column.worst_upper == pytest.approx(column.upper)
    pending = estimate_from(task, [60], went(100, pending_challenged=9)).columns[0]
    assert pending.worst_upper > pending.upper  # those under way may still decide


def test_too_many_aborts_and_too_few_reports_are_not_published(small_task: Callable[..., Task]) -> None:
    task = small_task("vgrr", minimum_batch=50, maximum_abort_rate=0.1)
    with pytest.raises(Refused) as few:
        estimate_from(task, [10] * 5, went(49))
    assert few.value.reason == Reason.TOO_FEW_REPORTS
    estimate_from(task, [10] * 5, went(90, expired_challenged=10))
    with pytest.raises(Refused) as many:
        estimate_from(task, [10] * 5, went(89, expired_challenged=6, rejected=5))
    assert many.value.reason == Reason.TOO_MANY_ABORTS
    with pytest.raises(BadInput, match="confidence"):
        estimate_from(task, [10] * 5, went(90), 1.0)


def test_drop_out_moves_the_estimate_within_the_bounds_or_is_not_published() -> None:
    """5 % of clients claim the highest number and leave when the report is low: the attack of the literature.

    At ε = ln 2 the published estimate would be 42.8 where 38.6 is true. With the default limit on aborts it is
    published (1.7 % abort), and the bounds over the aborts hold what honest completion would have given.
    """
    task = Task("ages", "sr-ho", math.log(2), low=17.0, high=90.0, minimum_batch=100)
    rng = random.Random(4)
    n, share = 40_000, (38.58165 - 17) / 73
    ones = stayed = aborted = completed_ones = 0
    for i in range(n):
        malicious = i % 20 == 0
        end = malicious or rng.random() < share
        report = rng.random() < (2 / 3 if end else 1 / 3)
        completed_ones += report
        if malicious and not report:
            aborted += 1
        else:
            stayed += 1
            ones += report
    found = estimate_from(task, [ones], went(stayed, expired_challenged=aborted)).columns[0]
    assert found.value == pytest.approx(42.8, abs=0.9)  # standard error 0.55
    honest = 17 + 73 * 3 * (completed_ones / n - 1 / 3)
    assert found.worst_lower < honest < found.worst_upper
    assert honest == pytest.approx(41.15, abs=0.9)
    strict = replace(task, maximum_abort_rate=0.01)
    with pytest.raises(Refused, match="too-many-aborts"):
        estimate_from(strict, [ones], went(stayed, expired_challenged=aborted))
    assert float(robustness(task.protocol).best_accepted) == 90.0


def test_what_is_certain_comes_first_where_clients_left() -> None:
    """At ε = 0.1 drop-out by 5 % moves a mean of 38.6 to 58.6: no interval without the truth may be the first one.

    All of 20,000 clients report as expected: 950 in 1000 by their age, 50 claim 90 and leave unless they report it.
    """
    task = Task("ages", "sr-ho", 0.1, low=17.0, high=90.0, closeness=0.999, maximum_abort_rate=0.1)
    (low_law,), (high_law,) = (task.protocol.law(chosen, b"") for chosen in (0, task.protocol.inputs - 1))
    share = Fraction(3858165 - 1700000, 7300000)
    honest = 19_000 * (share * high_law[1] + (1 - share) * low_law[1])
    stayed = round(1000 * high_law[1])
    found = estimate_from(task, [round(honest) + stayed], went(19_000 + stayed, expired_challenged=1000 - stayed))
    column = found["mean"]
    assert column.value == pytest.approx(58.6, abs=0.5)
    assert column.lower > 38.6  # the interval of those who stayed is far off
    first, second = (float(number) for number in re.findall(r"-?\d+\.?\d*", str(found))[:2])
    assert first < 38.6 < second
    nobody_left = estimate_from(task, [10_000], went(20_000))
    assert str(nobody_left).startswith("mean: 53.5 in [")


# ----------------------------------------------------------------------------------------------------------- guarantee
# Robustness as computed: against brute force through the real verifier, a linear program, and closed forms.


STANDINGS = {
    "vgrr": PoisoningStanding.ROBUST,
    "voue": PoisoningStanding.SEMI_ROBUST,
    "volh": PoisoningStanding.SEMI_ROBUST,
    "grr-ho": PoisoningStanding.ROBUST,
    "sr-ho": PoisoningStanding.ROBUST,
    "pm-ho": PoisoningStanding.NOT_ROBUST,
}


def targets_of(task: Task) -> list[int] | None:
    return [0, 1, 2] if task.items else None


@pytest.mark.parametrize("epsilon", [0.3, math.log(2), 1.0, 3.0])
@pytest.mark.parametrize("mechanism", STANDINGS)
def test_how_each_protocol_stands(mechanism: str, epsilon: float, small_task: Callable[..., Task]) -> None:
    task = small_task(mechanism, epsilon=epsilon, **({"resolution": 16} if mechanism == "pm-ho" else {}))
    found = robustness(task.protocol, targets_of(task))
    assert found.standing == STANDINGS[mechanism]
    assert (found.best_accepted == found.best_input) == (found.standing == PoisoningStanding.ROBUST)
    assert found.best_input <= found.best_accepted < found.unprotected
    assert robustness(task.protocol).standing == STANDINGS[mechanism]  # three targets, if none are named


def test_a_window_of_one_bin_is_robust_as_it_is_randomised_response(small_task: Callable[..., Task]) -> None:
    assert robustness(small_task("pm-ho", epsilon=3.0, resolution=5).protocol).standing == PoisoningStanding.ROBUST


def compositions(layout: Layout) -> list[Counts]:
    """All counts of a block."""
    return [
        counts
        for counts in itertools.product(range(layout.length + 1), repeat=layout.values)
        if sum(counts) == layout.length
    ]


@pytest.mark.parametrize("mechanism", ["vgrr", "volh", "grr-ho", "sr-ho", "pm-ho"])
def test_no_vector_that_the_verifier_accepts_does_better(mechanism: str, small_task: Callable[..., Task]) -> None:
    """Every composition of a short vector is played; whatever is accepted in all plays bounds S_max from below.

    A composition below a floor is rejected whatever is selected, so one play decides.
    """
    domain = {"items": ("a", "b", "c")} if mechanism in ("vgrr", "volh") else {}
    resolution = {"grr-ho": 3, "sr-ho": 2, "pm-ho": 4}.get(mechanism, 0)
    task = small_task(mechanism, **domain, resolution=resolution)
    layout, rng = task.protocol.layout, random.Random(2)
    targets = [0] if task.items else None
    (weights,) = scores(task.protocol, targets, SOME_SESSION)
    best = None
    for counts in compositions(layout):
        verdict = play_vector(task, [counts], rng).verdict
        assert verdict is not None
        assert verdict.accepted == all(c >= f for c, f in zip(counts, layout.floors, strict=True)), counts
        if verdict.accepted:
            score = sum((c * w for c, w in zip(counts, weights, strict=True)), Fraction(0)) / layout.length
            best = score if best is None else max(best, score)
    assert best == robustness(task.protocol, targets).best_accepted


def test_bits_of_unary_encoding_are_proved_one_by_one(small_task: Callable[..., Task]) -> None:
    """Every client that sets all bits is accepted: the scores of all targets add up."""
    task = small_task("voue")
    layout = task.protocol.layout
    zeros, _ = layout.floors
    everything = [(zeros, layout.length - zeros)] * layout.blocks
    for seed in range(20):
        verdict = play_vector(task, everything, random.Random(seed)).verdict
        assert verdict is not None
        assert verdict.accepted
    found = robustness(task.protocol, [0, 1, 2])
    assert (found.best_input, found.best_accepted) == (1, 3)
    more = play_vector(task, [(zeros - 1, layout.length - zeros + 1)] * layout.blocks, random.Random(0)).verdict
    assert more is not None
    assert not more.accepted


def maximum_by_linear_program(layout: Layout, weights: Sequence[int]) -> float:
    found = linprog(
        -np.array([float(w) for w in weights]),
        A_eq=np.ones((1, layout.values)),
        b_eq=[layout.length],
        bounds=[(floor, None) for floor in layout.floors],
    )
    return float(-found.fun) / layout.length


def test_corners_are_the_optimum_of_the_linear_program(task: Task) -> None:
    by_program = sum(
        float(draw.probability) * maximum_by_linear_program(task.protocol.layout, row)
        for draw in session_draws(task.protocol, targets_of(task))
        for row in draw.supports
    )
    by_program = float(session_worth(task.protocol, targets_of(task))(Fraction(by_program)))
    assert float(robustness(task.protocol, targets_of(task)).best_accepted) == pytest.approx(by_program, abs=1e-9)


@pytest.mark.parametrize("epsilon", [math.log(2), math.log(3), math.log(9)])
def test_the_piecewise_mechanism_lets_means_past_the_range(epsilon: float) -> None:
    """The worst accepted mean tends to 1 + e^(-ε/2), and at any number of bins is (K-1)/(K-w)."""
    limit = 1 + math.exp(-epsilon / 2)
    protocol = PMHO(rates(epsilon), -1.0, 1.0, 1000)
    found = robustness(protocol)
    assert found.best_accepted == Fraction(protocol.bins - 1, protocol.bins - protocol.window)
    assert float(found.best_accepted) == pytest.approx(limit, abs=3e-3)
    assert found.best_input == 1
    half = math.exp(epsilon / 2)
    assert float(found.unprotected) == pytest.approx((half + 1) / (half - 1), rel=2e-3)
    assert robustness(protocol, down=True).best_accepted == found.best_accepted


def test_scores_of_the_literature() -> None:
    """Gains per malicious client: GRR's MGA is 1 + (d-r)/(e^ε-1), OUE's 2r + 2r/(e^ε-1)."""
    for name, expected in [("vgrr", 1 + (6 - 2) / 1), ("voue", 4 + 4 / 1)]:
        task = Task(name="six", mechanism=name, epsilon=math.log(2), items=tuple("abcdef"))
        assert float(robustness(task.protocol, [1, 4]).unprotected) == pytest.approx(expected)


def test_stochastic_rounding_on_ages() -> None:
    """β = 5 % at mean 38.58 of 17…90: honest input of 90 gives 41.15, drop-out 42.8 and no protection 44.8 at ln 2."""
    mean, beta = 38.58165, 0.05
    for epsilon, dropped, unprotected in [(math.log(2), 42.8, 44.8), (0.1, 58.6, 75.9)]:
        task = Task(name="ages", mechanism="sr-ho", epsilon=epsilon, low=17.0, high=90.0, resolution=1, closeness=0.999)
        found = robustness(task.protocol)
        assert (1 - beta) * mean + beta * float(found.best_accepted) == pytest.approx(41.15, abs=0.005)
        assert (1 - beta) * mean + beta * float(found.unprotected) == pytest.approx(unprotected, rel=2e-3)
        stay = float(task.protocol.law(task.protocol.inputs - 1, SOME_SESSION)[0][1])
        with_drop_out = ((1 - beta) * mean + beta * stay * float(found.unprotected)) / (1 - beta + beta * stay)
        assert with_drop_out == pytest.approx(dropped, rel=2e-3)


def test_targets_are_checked(small_task: Callable[..., Task]) -> None:
    with pytest.raises(BadInput, match="0 to 4"):
        robustness(small_task("vgrr").protocol, [5])
    with pytest.raises(BadInput, match="down"):
        robustness(small_task("vgrr").protocol, [1], down=True)
    assert "semi-robust" in str(robustness(small_task("voue").protocol, [0, 1]))
    assert Rates(2, 1).ratio == 2
