"""Strategies of whole sessions: leave at any step, return with another token. Enumerated, and played."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from veridp.collect import MECHANISMS, VOLH, Rates, Reason, Refused, Task
from veridp.collect.attacks import new_session
from veridp.collect.estimate import Attendance, PoisoningStanding, corners, estimate_from, robustness, session_draws
from veridp.collect.estimate import session_worth as worth_of
from veridp.collect.harmless import Counts, Harmless, InvitationDraw
from veridp.collect.strategies import strategies
from veridp.errors import BadInput

ATTRIBUTES = ("age=17..90", "hours=1..99", "balance=-5..5")
Report = tuple[int, ...]
FEW: dict[str, dict[str, Any]] = {
    "vgrr": {"items": ("a", "b", "c")},
    "volh": {"items": ("a", "b")},
    "grr-ho": {"resolution": 3},
    "sr-smp": {"items": ATTRIBUTES},
    "sr-spl": {"items": ATTRIBUTES[:2], "epsilon": math.log(4)},
}
TARGETS = {"volh": (0, 1), "sr-smp": (0,)}  # for others, those of the default


def of(mechanism: str, small_task: Callable[..., Task]) -> Harmless:
    return small_task(mechanism, **FEW.get(mechanism, {})).protocol


# ----------------------------------------------------------------------------------------------------- hash shopping


def shop(task: Task, clients: int, share: float, rng: random.Random) -> tuple[list[int], Attendance]:
    """A collection in which a share of the clients hold the first item, and commit only where the second shares its
    bucket; they return with other tokens until it does. Nobody holds the second item."""
    bucket, rows, sessions, left = task.protocol.bucket, [], [], 0  # type: ignore[attr-defined]
    for number in range(clients):
        patient = number < share * clients
        held = 0 if patient else rng.randrange(2, len(task.items))
        session = new_session(task, rng).context.session
        while patient and bucket(0, session) != bucket(1, session):
            left += 1
            session = new_session(task, rng).context.session
        (law,) = task.protocol.law(held, session)
        rows.append(rng.choices(range(len(law)), weights=[float(p) for p in law]))
        sessions.append(session)
    support = task.protocol.support(np.array(rows, dtype=np.int64), sessions)
    return support, Attendance(clients, 0, 0, left, 0, 0)


def test_shopping_for_a_hash_is_bounded_and_not_published() -> None:
    """A tenth of the accepted clients want an item to rise that nobody holds: leaving costs them two tokens each.

    The attack moves the estimate by 5 standard errors, out of an interval that trusts those who stayed.
    """
    task = Task("shop", "volh", math.log(2), items=tuple("abcdef"), maximum_abort_rate=1.0)
    support, attendance = shop(task, 20_000, 0.1, random.Random(8))
    found = estimate_from(task, support, attendance)["b"]
    assert found.value == pytest.approx(0.1, abs=0.04)  # standard error 0.02
    assert found.lower > 0  # those who stayed are not a sample
    assert found.worst_lower <= 0 <= found.worst_upper
    assert attendance.abort_rate(task.protocol) == pytest.approx(1 / 6, abs=0.01)
    strict = Task("shop", "volh", math.log(2), items=tuple("abcdef"))
    with pytest.raises(Refused, match="after seeing their hash") as refused:
        estimate_from(strict, support, attendance)
    assert refused.value.reason == Reason.TOO_MANY_ABORTS


def test_clients_under_way_that_know_their_hash_may_still_leave(small_task: Callable[..., Task]) -> None:
    hashed, plain = small_task("volh", minimum_batch=1), small_task("vgrr", minimum_batch=1)
    pending = Attendance(100, 0, 0, 0, 0, 9)
    assert (pending.missing(hashed.protocol), pending.missing(plain.protocol)) == (9, 0)
    column = estimate_from(hashed, [50] * 5, pending).columns[0]
    assert column.worst_upper > column.upper


def test_only_hashed_protocols_show_what_bears_on_the_report(task: Task) -> None:
    """For all others, honest vectors and supports are the same whatever the invitation shows."""
    protocol, rng = task.protocol, random.Random(3)
    shown = set()
    for session in (rng.randbytes(16) for _ in range(20)):
        honest = tuple(protocol.counts(chosen, session) for chosen in range(protocol.inputs))
        layout = protocol.layout
        places = itertools.product(range(layout.blocks), range(layout.values), range(len(protocol.columns)))
        shown.add((honest, tuple(protocol.raw(*place, session) for place in places)))
    assert (len(shown) > 1) == protocol.hashed


# -------------------------------------------------------------------------------------------------------- enumeration


def played(
    protocol: Harmless, draws: list[InvitationDraw], free_invitation: bool, free_challenge: bool
) -> Iterator[Fraction]:
    """The mean score of a session that counts, of every strategy: for each draw leave, or commit to a corner in each
    block and stay for some of the reports. A departure that counts is completed as it would have gone on."""
    layout = protocol.layout
    reports = list(itertools.product(range(layout.values), repeat=layout.blocks))
    stays = [set(stay) for n in range(1, len(reports) + 1) for stay in itertools.combinations(reports, n)]
    vectors = list(itertools.product(corners(layout), repeat=layout.blocks))
    acts = [None, *itertools.product(vectors, stays)]

    def outcomes(vector: tuple[Counts, ...], draw: InvitationDraw) -> Iterator[tuple[Report, Fraction, int]]:
        for report in reports:
            chosen = list(zip(vector, draw.supports, report, strict=True))
            likely = math.prod(
                (Fraction(counts[value], layout.length) for counts, _, value in chosen), start=Fraction(1)
            )
            yield report, likely, sum(row[value] for _, row, value in chosen)

    known = [{vector: list(outcomes(vector, draw)) for vector in vectors} for draw in draws]
    for strategy in itertools.product(acts, repeat=len(draws)):
        score = number = Fraction(0)
        for act, draw, found in zip(strategy, draws, known, strict=True):
            if act is None:
                if not free_invitation:  # completed in the best way there is
                    best = max(sum((p * raw for _, p, raw in some), Fraction(0)) for some in found.values())
                    score += draw.probability * best
                    number += draw.probability
                continue
            vector, stay = act
            for report, likely, raw in found[vector]:
                if report in stay or not free_challenge:
                    score += draw.probability * likely * raw
                    number += draw.probability * likely
        if number:
            yield score / number


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_no_strategy_does_better_than_the_table_says(mechanism: str, small_task: Callable[..., Task]) -> None:
    """All strategies of a small protocol, each with its exact score."""
    protocol, targets = of(mechanism, small_task), TARGETS.get(mechanism)
    draws, worth = list(session_draws(protocol, targets)), worth_of(protocol, targets)
    assert sum(draw.probability for draw in draws) == 1
    found = strategies(protocol, targets)
    best = [worth(max(played(protocol, draws, *free))) for free in ((False, False), (True, False), (True, True))]
    assert [found.counted, found.free_after_invitation, found.free] == best


def test_what_each_protocol_stands_for_over_whole_sessions(task: Task) -> None:
    """Robust means that no strategy gains over an honest input; only a hash is worth shopping for."""
    found = strategies(task.protocol)
    expected = {"voue": PoisoningStanding.SEMI_ROBUST, "volh": PoisoningStanding.SEMI_ROBUST}
    assert found.standing == expected.get(task.mechanism, found.standing)
    assert (found.standing == PoisoningStanding.ROBUST) == (found.counted == found.best_input)
    assert found.best_input <= found.counted <= found.free_after_invitation < found.free
    assert found.shopping_gains == task.protocol.hashed
    assert found.tokens > 1


def test_known_scores_of_a_hash() -> None:
    """ε = ln 2, three buckets: one target's bucket holds a second target in 1 of 3 hashes, and can be waited for.

    Three targets: the fullest bucket holds 17/9 of them on average, and that of a fixed target 5/3.
    """
    protocol = VOLH(Rates(2, 1), tuple("abcdefgh"))
    two, three = strategies(protocol, [0, 1]), strategies(protocol, [0, 1, 2])
    assert (two.best_input, two.counted, two.free_after_invitation) == (1, 1, 2)
    assert (three.best_input, three.counted, three.free_after_invitation) == (1, Fraction(4, 3), 3)
    assert two.tokens == 6  # one hash in three, and then one report in two
    assert (two.free, three.free) == (8, 12)  # 2r + 2r/(e^ε - 1)
    assert robustness(protocol, [0, 1]).standing == PoisoningStanding.ROBUST
    with pytest.raises(BadInput, match="at most 8"):
        robustness(VOLH(Rates(2, 1), tuple(map(str, range(20)))), range(9))
    with pytest.raises(BadInput, match="different columns"):
        robustness(protocol, [1, 1])


def test_the_hash_family_collides_as_an_ideal_one() -> None:
    """The fullest bucket of three items over 4000 sessions; a mean of 17/9 within 5 standard errors."""
    protocol, rng = VOLH(Rates(2, 1), tuple("abcdefgh")), random.Random(1)
    sizes = []
    for _ in range(4000):
        session = rng.randbytes(16)
        placed = [protocol.bucket(item, session) for item in range(3)]
        sizes.append(max(map(placed.count, placed)))
    assert np.mean(sizes) == pytest.approx(17 / 9, abs=5 * float(np.std(sizes)) / math.sqrt(4000))
