"""Several numbers of a client: privacy, bias, variance and robustness by enumeration; and a whole collection."""

from __future__ import annotations

import itertools
import math
import random
import secrets
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from veridp.collect import SRSMP, SRSPL, Client, MemoryVault, Rates, Refused, Task, rates
from veridp.collect.attacks import VerifiedCollection, play_honest
from veridp.collect.attributes import NumericAttribute, OfAttributes
from veridp.collect.estimate import Attendance, corners, estimate, estimate_from, leak, robustness
from veridp.collect.harmless import log_ratio
from veridp.collect.strategies import strategies
from veridp.errors import BadInput
from veridp.local.poisoning import Freedom

THREE = ("age=17..90", "hours=1..99", "balance=-5..5")
PROTOCOLS: list[OfAttributes] = [SRSPL(Rates(3, 2), THREE), SRSMP(Rates(3, 2), THREE), SRSMP(Rates(2, 1), THREE[:1])]


def sessions_of(protocol: OfAttributes) -> list[bytes]:
    """A session for each thing that an invitation may show, all of them equally likely."""
    if isinstance(protocol, SRSPL):
        return [bytes(16)]
    found: dict[int, bytes] = {}
    for number in itertools.count():
        session = number.to_bytes(16, "big")
        found.setdefault(protocol.attribute(session), session)  # type: ignore[attr-defined]
        if len(found) == len(protocol.attributes):
            return list(found.values())
    raise AssertionError


def runs(protocol: OfAttributes, chosen: int) -> Iterator[tuple[Fraction, bytes, tuple[int, ...]]]:
    """All that may happen to an honest input: its probability, the session, and the report."""
    sessions = sessions_of(protocol)
    for session in sessions:
        law = protocol.law(chosen, session)
        for report in itertools.product(range(2), repeat=protocol.layout.blocks):
            yield (
                math.prod((row[v] for row, v in zip(law, report, strict=True)), start=Fraction(1, len(sessions))),
                (session),
                report,
            )


def estimated(protocol: OfAttributes, session: bytes, report: tuple[int, ...], column: int) -> Fraction:
    """What a single report says of a column."""
    support = protocol.support(np.array([report]), [session])[column]
    raws = sum(protocol.raw(block, value, column, session) for block, value in enumerate(report))
    assert support == raws <= protocol.highest
    return protocol.scaled_column(column)(Fraction(support))


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda p: f"{p.name}-{len(p.attributes)}")
def test_reports_cost_what_they_say_and_are_unbiased(protocol: OfAttributes) -> None:
    laws = []
    for chosen in range(protocol.inputs):
        found = list(runs(protocol, chosen))
        assert sum(p for p, *_ in found) == 1
        laws.append([p for p, *_ in found])
        for column, attribute in enumerate(protocol.ranges):
            mean = sum(p * estimated(protocol, session, report, column) for p, session, report in found)
            assert mean == (attribute.high if chosen >> column & 1 else attribute.low)
    ratio = max(max(map(Fraction.__truediv__, left, right)) for left, right in itertools.permutations(laws, 2))
    assert log_ratio(ratio.numerator, ratio.denominator) == protocol.epsilon
    assert leak(protocol).none


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda p: f"{p.name}-{len(p.attributes)}")
def test_the_variance_is_the_closed_form(protocol: OfAttributes) -> None:
    """By enumeration of the rounding, the draw of the attribute, and the report."""
    for column, attribute in enumerate(protocol.ranges):
        for share in (Fraction(0), Fraction(1, 4), Fraction(1, 2), Fraction(1)):
            value = attribute.low + share * Fraction(attribute.high - attribute.low)
            mean = square = Fraction(0)
            for bit, weight in ((0, 1 - share), (1, share)):
                for p, session, report in runs(protocol, bit << column):
                    found = estimated(protocol, session, report, column)
                    mean += weight * p * found
                    square += weight * p * found**2
            assert mean == value
            assert protocol.report_variance(column, float(value)) == pytest.approx(float(square - mean**2), rel=1e-12)
    if isinstance(protocol, SRSMP):
        middle = [Fraction(protocol.raw(0, v, 0, session)) for session in sessions_of(protocol) for v in (0, 1)]
        spread = sum((raw - 1) ** 2 for raw in middle) / len(middle)  # a number in the middle: both ends alike
        assert spread == protocol.largest_variance


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda p: f"{p.name}-{len(p.attributes)}")
def test_no_accepted_vector_beats_an_honest_input(protocol: OfAttributes) -> None:
    """S_in over all inputs and S_max over all corners of accepted vectors, for every set of targets, up and down."""
    k, sessions = len(protocol.attributes), sessions_of(protocol)
    for targets in itertools.chain.from_iterable(itertools.combinations(range(k), n) for n in range(1, k + 1)):
        for down in (False, True):
            known = robustness(protocol, targets, down=down)

            def score(session: bytes, counts: Any, targets: Any = targets, down: bool = down) -> Fraction:
                law = [[Fraction(count, protocol.layout.length) for count in block] for block in counts]
                mean = sum(
                    p * protocol.raw(block, value, target, session)
                    for target in targets
                    for block, row in enumerate(law)
                    for value, p in enumerate(row)
                )
                return (protocol.scaled.shift * len(targets) + protocol.scaled.scale * mean) * (-1 if down else 1)

            honest = max(
                sum(score(s, protocol.counts(chosen, s)) for s in sessions) / len(sessions)
                for chosen in range(protocol.inputs)
            )
            vectors = list(itertools.product(corners(protocol.layout), repeat=protocol.layout.blocks))
            most = sum(max(score(s, vector) for vector in vectors) for s in sessions) / len(sessions)
            assert known.best_input == honest == (0 if down else len(targets))
            assert known.best_accepted == most == honest
            assert str(known.standing) == "robust"


def test_leaving_for_another_attribute_would_pay_and_so_counts() -> None:
    """With one target of three, a client that may wait for it at no cost always reports on it, which counts thrice."""
    best = strategies(SRSMP(Rates(3, 2), THREE), [0])
    assert (best.counted, best.free_after_invitation) == (1, Fraction(1, 2) + 3 * Fraction(1, 2))
    assert best.tokens == 3 * Fraction(5, 3)  # one session in three is about it, and three entries in five are right
    assert best.shopping_gains
    split = strategies(SRSPL(Rates(3, 2), THREE), [0])
    assert (split.counted, split.free_after_invitation) == (1, 1)
    task = Task("several", "sr-smp", 1.0, items=THREE, minimum_batch=1)
    left = Attendance(100, 0, 0, 20, 0, 0)
    with pytest.raises(Refused, match="20 clients aborted after seeing their attribute"):
        estimate_from(task, [100, 100, 100], left)
    checked = VerifiedCollection(task)
    assert {one for one in Freedom if checked.permits(one)} == {Freedom.INPUT, Freedom.ABSENCE, Freedom.WITHDRAWAL}


def test_splitting_never_costs_more_than_was_asked() -> None:
    for epsilon, parts in ((math.log(8), 3), (3 * math.log(2), 3), (1.0, 2), (4.0, 7), (0.5, 5)):
        found = rates(epsilon, parts=parts)
        assert 0.95 * epsilon <= log_ratio(found.held**parts, found.other**parts) <= epsilon
    assert rates(2 * math.log(3), parts=2) == Rates(3, 1)
    task = Task("several", "sr-spl", math.log(8), items=THREE)
    assert task.protocol.rates == Rates(2, 1)
    assert task.protocol.epsilon == math.log(8)


@pytest.mark.parametrize("mechanism", ["sr-smp", "sr-spl"])
def test_a_collection_from_start_to_end(mechanism: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through the client, the messages, the verifier and the database: 400 clients, within 5 standard errors."""
    from veridp.collect.service.database import Database
    from veridp.collect.service.keys import NonceKeys
    from veridp.collect.service.operations import status_of
    from veridp.collect.service.store import invite, put_commit, put_opening, put_task, put_tokens, token_hash

    task = Task("several", mechanism, 3.0, items=THREE)
    assert Task.from_json(task.to_json()).digest == task.digest
    rng, keys, protocol = random.Random(4), NonceKeys((bytes(32),)), task.protocol
    monkeypatch.setattr(secrets, "token_bytes", rng.randbytes)  # else an interval misses the truth one time in 20
    assert isinstance(protocol, OfAttributes)
    people = [{"age": rng.uniform(17, 60), "hours": 40.0, "balance": rng.choice([-5, 4])} for _ in range(400)]
    database = Database.open(f"sqlite:///{tmp_path / 'several.db'}")
    with database.writing() as connection:
        put_task(connection, task)
        tokens = [token_hash(str(number)) for number in range(len(people))]
        put_tokens(connection, task, tokens)
        for token, person in zip(tokens, people, strict=True):
            client = Client(protocol, task.verifier, MemoryVault(), rng)
            session = invite(connection, task, token, 0, keys)
            session = put_commit(
                connection, task, token, client.commit(session.invitation, person), 0, task.verifier, keys
            )
            session = put_opening(connection, task, token, client.open(session.challenge), 0, task.verifier)
            assert session.verdict is not None
            assert session.verdict.accepted
    with database.reading() as connection:
        found: Any = status_of(connection, task, 0)["estimate"]
    database.close()
    for column, estimate_ in enumerate(found):
        name = protocol.columns[column]
        truth = np.mean([person[name] for person in people])
        error = math.sqrt(sum(protocol.report_variance(column, person[name]) for person in people)) / len(people)
        assert estimate_["name"] == name
        assert abs(estimate_["value"] - truth) < 5 * error
        assert estimate_["lower"] <= truth <= estimate_["upper"]


def test_the_error_of_many_simulated_collections_is_the_closed_form() -> None:
    """2,000 collections of 50 clients: a variance with a relative standard error of 3.2 %, within 5 of them."""
    rng = np.random.default_rng(6)
    values = rng.uniform(-1, 1, size=(50, 3))
    for protocol in (SRSMP(Rates(3, 1), ("a=-1..1", "b=-1..1", "c=-1..1")), SRSPL(Rates(3, 1), ("a=-1..1",) * 1)):
        k, (q, p) = len(protocol.attributes), map(float, protocol.both_rates)
        ones = rng.random((2000, 50)) < q + (p - q) * (values[:, 0] + 1) / 2
        drawn = rng.integers(k, size=ones.shape) == 0
        supports = np.where(drawn, 2 * ones, 1) if isinstance(protocol, SRSMP) else ones
        scaled = protocol.scaled_column(0)
        found = float(scaled.shift) + float(scaled.scale) * supports.mean(axis=1)
        exact = sum(protocol.report_variance(0, value) for value in values[:, 0]) / 50**2
        assert found.mean() == pytest.approx(values[:, 0].mean(), abs=5 * math.sqrt(exact / 2000))
        assert found.var() == pytest.approx(exact, rel=5 * math.sqrt(2 / 2000))


def test_values_come_by_name_in_order_or_as_text() -> None:
    task, rng = Task("several", "sr-spl", 3.0, items=THREE), random.Random(1)
    ends = [{"age": 90, "hours": 1, "balance": 5}, (90, 1, 5), "age=90,hours=1, balance=5", "90,1,5"]
    assert {task.protocol.choose(value, rng) for value in ends} == {0b101}
    assert play_honest(task, "90,1,5", rng).stage == "accepted"
    for wrong in ("90,1", {"age": 90}, 90, "age=90,hours=1,height=5", None):
        with pytest.raises(BadInput, match="write for instance age=17,hours=1,balance=-5"):
            task.protocol.choose(wrong, rng)
    with pytest.raises(BadInput, match="hours = '100' is not a number from 1 to 99"):
        task.protocol.choose("90,100,5", rng)


@pytest.mark.parametrize(
    ("items", "message"),
    [
        (("age",), "'age' is not an attribute with its range; write for instance age=17..90"),
        ((" =0..1",), "is not an attribute with its range"),
        (("age=1...5",), "is not an attribute with its range"),
        (("age=90..17",), "from a lower to a higher finite number"),
        (("age=0..1e999",), "from a lower to a higher finite number"),
        (("age=0..inf",), "is not an attribute with its range"),
        (("age=17..90", "age=0..1"), "attributes of different names"),
        (tuple(f"a{n}=0..1" for n in range(33)), "1 to 32 attributes"),
        ((), "give 1 to"),
    ],
)
def test_definitions_that_make_no_sense_are_refused(items: tuple[str, ...], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        Task("several", "sr-smp", 1.0, items=items)
    assert NumericAttribute.parsed("x=-1e3..2.5") == NumericAttribute("x", -1000.0, 2.5)


def test_an_estimate_without_the_service() -> None:
    task = Task("several", "sr-smp", 1.0, items=THREE, minimum_batch=1)
    session = bytes(16)
    place = task.protocol.attribute(session)  # type: ignore[attr-defined]
    found = estimate(task, np.array([[1]]), [session], Attendance(1, 0, 0, 0, 0, 0))
    low, high = (float(p) for p in task.protocol.both_rates)  # type: ignore[attr-defined]
    for column, attribute in enumerate(task.protocol.ranges):  # type: ignore[attr-defined]
        middle, half = (attribute.low + attribute.high) / 2, (attribute.high - attribute.low) / 2
        assert found.columns[column].value == pytest.approx(middle + (half * 3 / (high - low)) * (column == place))
