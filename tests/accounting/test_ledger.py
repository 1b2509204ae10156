"""The ledger: exact sums, refusals before noise is drawn, and many processes that spend at once and are killed."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from veridp.accounting import Leaf, Ledger, Parallel, Repeated, Sequential, mechanisms
from veridp.claim import Claim
from veridp.conversions import epsilon_of_zcdp, zcdp_within
from veridp.errors import BadInput, BudgetSpent
from veridp.mechanism import Mechanism, mechanism

SPENDER = """
import sys
from veridp.accounting import Ledger
from veridp.claim import Claim
from veridp.errors import BudgetSpent

ledger = Ledger(sys.argv[1])
print("ready", flush=True)
while True:
    try:
        entry = ledger.spend(Claim(0.01), sys.argv[2])
    except BudgetSpent:
        break
    print(entry.number, flush=True)
"""


class Untouched:
    """A generator that must not be drawn from."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"noise was drawn: {name}")


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.create(tmp_path / "budget.db", Claim(1.0))


def test_ten_tenths_are_one(ledger: Ledger) -> None:
    for _ in range(10):
        ledger.spend(Claim(0.1))
    assert ledger.statement().spent.epsilon == 1
    assert ledger.statement().left.epsilon == 0
    with pytest.raises(BudgetSpent, match="costs ε = 1e-09, and nothing is left"):
        ledger.spend(Claim(1e-9))


def test_what_is_refused_is_not_entered(ledger: Ledger) -> None:
    ledger.spend(Claim(0.8), "first")
    with pytest.raises(BudgetSpent, match=r"too much costs ε = 0.3, and ε = 0.2 is left"):
        ledger.spend(Claim(0.3), "too much")
    ledger.spend(Claim(0.2), "the rest")
    assert [entry.what for entry in ledger.statement().entries] == ["first", "the rest"]


def test_delta_is_counted_too(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "budget.db", Claim(10.0, 1e-6))
    ledger.spend(Leaf.gaussian(0.5, 6e-7))
    with pytest.raises(BudgetSpent):
        ledger.spend(Leaf.gaussian(0.5, 6e-7))
    assert ledger.statement().left.delta == Fraction(4, 10**7)


def test_a_tree_is_charged_as_a_whole(ledger: Ledger) -> None:
    release = Sequential([Repeated(3, Leaf.laplace(0.1)), Parallel({"a": Leaf.laplace(0.2), "b": Leaf.claimed(0.3)})])
    assert ledger.spend(release).cost.epsilon == Fraction(6, 10)


def test_zcdp_makes_more_of_many_small_costs(tmp_path: Path) -> None:
    budget = Claim(1.0, 1e-6)
    rho = zcdp_within(1.0, 1e-6)
    assert epsilon_of_zcdp(rho, 1e-6) <= 1.0 < epsilon_of_zcdp(rho * 1.0001, 1e-6)
    ledger = Ledger.create(tmp_path / "z.db", budget, "zcdp")
    spent = 0
    with contextlib.suppress(BudgetSpent):
        while True:
            ledger.spend(Leaf.laplace(0.02))
            spent += 1
    assert spent == int(rho / 0.0002)  # ε²/2 each: more than the 50 of basic sums
    assert spent > 50
    assert ledger.statement().epsilon_spent <= 1.0
    with pytest.raises(BadInput, match="has no ρ"):
        ledger.spend(Claim(0.001, 1e-9))


def test_a_zcdp_ledger_takes_claims_at_their_rho(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "z.db", Claim(3.0, 1e-6), "zcdp")
    assert ledger.spend(Claim.stated(rho=0.01)).cost.rho == Fraction("0.01")
    assert ledger.spend(Claim.stated(mu=0.2)).cost.rho == pytest.approx(0.02)
    guarded = ledger.guard(mechanism(rho=0.03)(lambda rng, data: 0.0))
    assert guarded.claim == Claim.stated(rho=0.03)
    guarded(None, [0.0])
    assert ledger.statement().spent.rho == pytest.approx(0.06)
    with pytest.raises(BadInput, match="has no ρ"):
        ledger.spend(Claim.stated(rdp=(4, 0.1)))
    basic = Ledger.create(tmp_path / "b.db", Claim(3.0, 1e-6))
    with pytest.raises(BadInput, match="use a zcdp ledger"):
        basic.spend(Claim.stated(rho=0.01))


RENYI = "(8, 0.5)-RDP as (ε, δ) by Canonne, Kamath and Steinke"
HALF = 1 / (1 + math.e)  # where the curve of 1-DP has its corner


@pytest.mark.parametrize(
    ("stated", "epsilon", "conversion"),
    [  # 0.5 - ln(8e-5)/7 + ln(7/8); the root of Balle and Wang's δ; 1-DP has a curve of two lines
        ({"rdp": (8, 0.5)}, 0.5 - math.log(8e-5) / 7 + math.log(7 / 8), RENYI),
        ({"mu": 1.0}, 4.37717809568, "Balle and Wang"),
        ({"tradeoff": [(0, 1), (HALF, HALF), (1, 0)]}, 1 + math.log1p(-1e-5 * (1 + 1 / math.e)), "convex conjugate"),
    ],
)
def test_a_basic_ledger_converts_at_a_delta(
    tmp_path: Path, stated: dict[str, Any], epsilon: float, conversion: str
) -> None:
    basic = Ledger.create(tmp_path / "b.db", Claim(90.0, 1e-4))
    entry = basic.spend(Claim.stated(**stated), "counts", at_delta=1e-5)
    assert float(entry.cost.epsilon) == pytest.approx(epsilon, abs=1e-7)
    assert entry.cost.delta == Fraction(1, 10**5)
    assert entry.what.startswith("counts [")
    assert conversion in entry.what
    whole = basic.spend(Repeated(2, Leaf.stated(Claim.stated(**stated))), at_delta=2e-5)
    assert whole.cost.delta == Fraction(2, 10**5)
    assert float(whole.cost.epsilon) == pytest.approx(2 * epsilon, abs=1e-6)
    with pytest.raises(BadInput, match="at_delta must be in"):
        basic.spend(Claim.stated(**stated), at_delta=0.0)


def test_a_spent_budget_raises_before_noise_is_drawn(ledger: Ledger) -> None:
    guarded = ledger.guard(mechanisms.laplace, epsilon=0.6)
    import numpy as np

    assert len(guarded(np.random.default_rng(0), [1.0])) == 1
    with pytest.raises(BudgetSpent):
        guarded(Untouched(), [1.0])
    assert ledger.statement().spent.epsilon == Fraction(6, 10)


def test_everything_called_inside_a_block_pays_first(ledger: Ledger) -> None:
    import numpy as np

    rng = np.random.default_rng(0)
    with ledger.guarding():
        mechanisms.laplace(rng, 3.0, epsilon=0.5)
        mechanisms.report_noisy_max(rng, [1.0, 2.0], epsilon=0.4)
        with pytest.raises(BudgetSpent):
            mechanisms.laplace(Untouched(), 3.0, epsilon=0.2)
    mechanisms.laplace(rng, 3.0, epsilon=5.0)  # outside, nobody pays
    assert ledger.statement().spent.epsilon == Fraction(9, 10)


def test_a_mechanism_that_calls_others_pays_once(ledger: Ledger) -> None:
    import numpy as np

    @mechanism(epsilon=0.3)
    def twice(rng: Any, data: Any) -> list[float]:
        return [mechanisms.laplace(rng, data[0], epsilon=0.15) for _ in range(2)]

    with ledger.guarding():
        twice(np.random.default_rng(0), [1.0])
    assert [entry.what for entry in ledger.statement().entries] == ["twice"]


def test_nobody_pays_for_what_claims_nothing(ledger: Ledger) -> None:
    with pytest.raises(BadInput, match="has no claim"):
        ledger.guard(Mechanism(lambda rng, data: data))


@pytest.mark.parametrize("content", [b"", b"not a database at all" * 100])
def test_what_is_no_ledger_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "other.db").write_bytes(content)
    with pytest.raises(BadInput, match="not a ledger"):
        Ledger(tmp_path / "other.db")
    with pytest.raises(BadInput, match="no such ledger"):
        Ledger(tmp_path / "none.db")


def test_a_file_is_never_made_into_a_ledger_twice(tmp_path: Path, ledger: Ledger) -> None:
    (tmp_path / "text.db").write_text("no ledger")
    for path in (tmp_path / "text.db", ledger.path):
        with pytest.raises(BadInput, match="file already"):
            Ledger.create(path, Claim(2.0))
    assert ledger.statement().budget == Claim(1.0)
    (tmp_path / "empty.db").touch()  # as one leaves it who is killed while making a ledger
    assert Ledger.create(tmp_path / "empty.db", Claim(2.0)).statement().budget == Claim(2.0)


@pytest.mark.parametrize("method", ["basic", "zcdp"])
def test_parts_that_a_replaced_record_may_leave_are_not_counted_in_parallel(tmp_path: Path, method: str) -> None:
    ledger = Ledger.create(tmp_path / "budget.db", Claim(1.0, 1e-6), method)
    parts = {name: Leaf.laplace(0.1, relation="replace") for name in "ab"}
    with pytest.raises(BadInput, match=r"release.sequential\[0\].parallel: replacing a record"):
        ledger.spend(Sequential([Parallel(parts)]))
    assert ledger.statement().entries == ()
    ledger.spend(Parallel(parts, fixed=True))


# ---------------------------------------------------------------------------------------------- many processes


@contextlib.contextmanager
def spenders(path: Path, count: int) -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that spend 0.01 at a time, as fast as they can, until nothing is left."""
    running = [
        subprocess.Popen([sys.executable, "-c", SPENDER, str(path), f"spender {n}"], stdout=subprocess.PIPE, text=True)  # noqa: S603
        for n in range(count)
    ]
    try:
        for process in running:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        yield running
    finally:
        for process in running:
            process.kill()  # does nothing to one that has ended
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


def paid(path: Path) -> list[tuple[int, str]]:
    database = sqlite3.connect(path)
    try:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return database.execute("SELECT number, who FROM spent ORDER BY number").fetchall()
    finally:
        database.close()


@pytest.mark.slow
def test_processes_never_overspend(tmp_path: Path) -> None:
    """Three processes share a budget of a hundred costs: they pay for a hundred, each entered once."""
    ledger = Ledger.create(tmp_path / "budget.db", Claim(1.0))
    with spenders(ledger.path, 3) as running:
        told = [process.stdout.read().split() for process in running if process.stdout is not None]
    assert sum(map(len, told)) == 100
    assert sorted(int(number) for numbers in told for number in numbers) == list(range(1, 101))
    assert [number for number, _ in paid(ledger.path)] == list(range(1, 101))
    assert ledger.statement().left.epsilon == 0


@pytest.mark.slow
def test_processes_that_are_killed_leave_a_ledger_that_adds_up(tmp_path: Path) -> None:
    """kill -9 in the midst of spending: whoever was told of a cost has paid it, and the rest can still be spent."""
    ledger = Ledger.create(tmp_path / "budget.db", Claim(3.0))
    told: list[int] = []
    for round_ in range(3):
        with spenders(ledger.path, 2) as running:
            for process in running:
                assert process.stdout is not None
                told += map(int, itertools.islice(process.stdout, 1 + 4 * round_))  # fewer where nothing is left
            for process in running:
                os.kill(process.pid, signal.SIGKILL)
            for process in running:
                assert process.stdout is not None
                output = process.stdout.read()
                told += [int(line) for line in output.split("\n")[:-1]]  # a line that was cut off tells nothing
        numbers = [number for number, _ in paid(ledger.path)]
        assert numbers == list(range(1, len(numbers) + 1))
        assert set(told) <= set(numbers)
    assert len(told) == len(set(told))
    before = len(paid(ledger.path))
    assert before > 0
    with contextlib.suppress(BudgetSpent):
        while True:
            ledger.spend(Claim(0.01))
    assert len(paid(ledger.path)) == 300
    assert ledger.statement().left.epsilon == 0
