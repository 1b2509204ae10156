"""A budget that is kept in a file: what was spent on one data set over months, by several people and processes.

The file is an SQLite database. Who spends takes its write lock first, looks at what is left, and enters the cost, all
in one transaction that is on disk before any noise is drawn. So two spenders never overspend, and one that dies in
between has either paid or not begun. A cost that was paid counts even if its answer never came.

What is asked next may depend on earlier answers, and so may what it costs. Sums of ε and δ, and sums of ρ, still hold
then (Rogers, Roth, Ullman and Vadhan, "Privacy Odometers and Filters", NeurIPS 2016; Whitehouse, Ramdas, Rogers and Wu,
"Fully-Adaptive Composition in Differential Privacy", ICML 2023): the ledger keeps to these two, and leaves privacy loss
distributions to releases that are planned as a whole.
"""

from __future__ import annotations

import getpass
import math
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

from veridp.accounting.account import concentrated, conversion_note
from veridp.accounting.domination import Domination
from veridp.accounting.release import leaf_of_call
from veridp.accounting.tree import Leaf, ReleaseNode, basic_charge, exactly
from veridp.claim import Claim
from veridp.conversions import epsilon_of_zcdp, zcdp_within
from veridp.errors import BadInput, BudgetSpent
from veridp.mechanism import Function, Mechanism, as_mechanism
from veridp.mechanism.declared import AROUND_CALLS

METHODS = ("basic", "zcdp")
PATIENCE = 30.0  # seconds to wait for the lock
VERSION = 1
TABLES = """
CREATE TABLE budget (version INTEGER, epsilon TEXT, delta TEXT, rho TEXT, method TEXT, made TEXT);
CREATE TABLE spent (
    number INTEGER PRIMARY KEY, at TEXT NOT NULL, who TEXT NOT NULL, what TEXT NOT NULL,
    epsilon TEXT NOT NULL, delta TEXT NOT NULL, rho TEXT NOT NULL
);
"""


@dataclass(frozen=True)
class Cost:
    """What is spent or left, in exact decimals: ε and δ, or ρ where the ledger counts zCDP."""

    epsilon: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)
    rho: Fraction = Fraction(0)

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.epsilon + other.epsilon, self.delta + other.delta, self.rho + other.rho)

    def __sub__(self, other: Cost) -> Cost:
        return Cost(self.epsilon - other.epsilon, self.delta - other.delta, self.rho - other.rho)

    @property
    def within_nothing(self) -> bool:
        """Whether a rest is not overdrawn."""
        return min(self.epsilon, self.delta, self.rho) >= 0


@dataclass(frozen=True)
class LedgerEntry:
    """One cost: when (UTC), by whom, for what."""

    number: int
    at: str
    who: str
    what: str
    cost: Cost


@dataclass(frozen=True)
class Statement:
    """The budget, what was spent of it, and on what."""

    budget: Claim
    method: str
    total: Cost
    entries: tuple[LedgerEntry, ...]

    @property
    def spent(self) -> Cost:
        return sum((entry.cost for entry in self.entries), Cost())

    @property
    def left(self) -> Cost:
        return self.total - self.spent

    @property
    def epsilon_spent(self) -> float:
        """What was spent as ε, at the δ of the budget."""
        if self.method == "basic":
            return float(self.spent.epsilon)
        return epsilon_of_zcdp(float(self.spent.rho), self.budget.delta)


class Ledger:
    """A budget in a file. Many processes may hold one for the same file at the same time."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        if not self.path.is_file():
            raise BadInput(f"{self.path}: no such ledger; make one with `veridp budget init`")
        self.statement()  # it is one, or we learn it now

    @classmethod
    def create(cls, path: Path | str, budget: Claim, method: str = "basic") -> Ledger:
        """A new ledger with this budget; BadInput where the file is there already.

        `basic` adds up ε and δ; `zcdp` adds up ρ, which is worth more after many small costs, but takes mechanisms with
        a pure ε or normal noise only, and a δ > 0.
        """
        path = Path(path)
        if method not in METHODS:
            raise BadInput(f"method = {method!r} is unknown; use one of {', '.join(METHODS)}")
        if not math.isfinite(budget.epsilon) or (method == "zcdp" and not 0 < budget.delta < 1):
            raise BadInput(f"method {method!r} cannot keep a budget of {budget}; give a finite ε, and for zcdp a δ > 0")
        rho = zcdp_within(budget.epsilon, budget.delta) if method == "zcdp" else 0.0
        row = (VERSION, repr(budget.epsilon), repr(budget.delta), repr(rho), method, _now())
        taken = BadInput(f"{path}: there is a file already; spend from it, or give another name")
        try:
            path.touch()  # an empty file is what one that was killed here may have left
            if path.stat().st_size:
                raise taken
        except OSError as error:
            raise BadInput(f"{path}: {error.strerror}; give a file that can be written") from None
        with _transaction(path) as database:
            if database.execute("SELECT 1 FROM sqlite_master").fetchone() is not None:
                raise taken  # somebody else was quicker
            for statement in TABLES.split(";"):
                database.execute(statement)
            database.execute("INSERT INTO budget VALUES (?, ?, ?, ?, ?, ?)", row)
        return cls(path)

    def statement(self) -> Statement:
        """What was spent so far."""
        with _transaction(self.path, writing=False) as database:
            return _statement(database, self.path)

    def spend(
        self, release: ReleaseNode | Mechanism | Claim, what: str = "", at_delta: float | None = None
    ) -> LedgerEntry:
        """Enter a cost, or raise BudgetSpent and enter nothing where not enough is left.

        A basic ledger charges normal noise and claims in other notions with the least ε that follows `at_delta`; the
        entry names the conversion.
        """
        if at_delta is not None and not 0 < at_delta < 1:
            raise BadInput(f"at_delta must be in (0, 1), got {at_delta!r}")
        node = _node(release)
        with _transaction(self.path) as database:
            statement = _statement(database, self.path)
            named = what or ", ".join(dict.fromkeys(leaf.name for leaf in node.leaves()))
            if notes := _conversions(node, statement.method):
                named = f"{named} [{notes}]"
            cost = _cost(node, statement, at_delta)
            if not (statement.left - cost).within_nothing:
                raise BudgetSpent(
                    f"{self.path}: {named} costs {_cost_text(cost)}, and {_cost_text(statement.left)} is left"
                )
            number = len(statement.entries) + 1
            at, who = _now(), f"{_user()} ({os.getpid()})"
            row = (number, at, who, named, *(str(part) for part in (cost.epsilon, cost.delta, cost.rho)))
            database.execute("INSERT INTO spent VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        return LedgerEntry(number, at, who, named, cost)

    def guard(self, mechanism: Mechanism | Function, **arguments: Any) -> Mechanism:
        """The mechanism, which pays from the ledger before it draws any noise; BudgetSpent where it cannot."""
        mechanism = as_mechanism(mechanism, **arguments)
        inner = mechanism.bound()

        def guarded(rng: Any, data: Any) -> Any:
            self.spend(_leaf(mechanism, data))
            return inner(rng, data)

        guarded.__name__ = mechanism.name
        claim = mechanism.claim
        if claim is None:
            raise BadInput(f"{mechanism} has no claim, so its cost is unknown; give it an epsilon")
        return replace(mechanism, function=guarded, arguments={}, vectorised=None, cost=None, **claim.keywords)

    @contextmanager
    def guarding(self) -> Iterator[None]:
        """Every mechanism with a claim that is called inside the block pays first."""

        def around(mechanism: Mechanism, rng: Any, data: Any) -> Any:
            leaf = leaf_of_call(mechanism, data)
            if leaf is None:
                return mechanism.bound()(rng, data)
            self.spend(leaf)
            inner = AROUND_CALLS.set(None)
            try:
                return mechanism.bound()(rng, data)
            finally:
                AROUND_CALLS.reset(inner)

        token = AROUND_CALLS.set(around)
        try:
            yield
        finally:
            AROUND_CALLS.reset(token)


def _node(release: ReleaseNode | Mechanism | Claim) -> ReleaseNode:
    if isinstance(release, Claim):
        return Leaf.stated(release)
    return Leaf.of(release) if isinstance(release, Mechanism) else release


def _leaf(mechanism: Mechanism, data: Any) -> Leaf:
    leaf = leaf_of_call(mechanism, data)
    return Leaf.of(mechanism) if leaf is None else leaf


def _conversions(node: ReleaseNode, method: str) -> str:
    notes = (conversion_note("zCDP" if method == "zcdp" else method, leaf) for leaf in node.leaves())
    return "; ".join(dict.fromkeys(filter(None, notes)))


def _cost(node: ReleaseNode, statement: Statement, at_delta: float | None) -> Cost:
    domination = Domination(node)  # refuses a release whose leaves do not go together
    if statement.method == "zcdp":
        found = concentrated(node, domination)
        if found.leak or not math.isfinite(found.rho):
            raise BadInput("a mechanism that claims neither ε, ρ nor μ has no ρ; give its noise, or use a basic ledger")
        return Cost(rho=exactly(found.rho))
    charge = basic_charge(node, at_delta or 0.0)
    if charge is None:
        raise BadInput(
            "normal noise, ρ, μ or RDP has no pure ε; give the δ at which it has one (at_delta), or use a zcdp ledger"
            if at_delta is None
            else f"no ε follows at δ = {at_delta:g}; give a larger at_delta"
        )
    return Cost(charge.epsilon, charge.delta)


def _cost_text(cost: Cost) -> str:
    if cost.rho or not (cost.epsilon or cost.delta):
        return f"ρ = {float(cost.rho):.6g}" if cost.rho else "nothing"
    return f"ε = {float(cost.epsilon):.6g}" + (f", δ = {float(cost.delta):.6g}" if cost.delta else "")


def _statement(database: sqlite3.Connection, path: Path) -> Statement:
    row = database.execute("SELECT version, epsilon, delta, rho, method FROM budget").fetchone()
    if row is None or row[0] != VERSION:
        raise BadInput(f"{path}: not a ledger of this version; make one with `veridp budget init`")
    _, epsilon, delta, rho, method = row
    entries = database.execute("SELECT number, at, who, what, epsilon, delta, rho FROM spent ORDER BY number")
    return Statement(
        Claim(float(epsilon), float(delta)),
        method,
        Cost(rho=Fraction(rho)) if method == "zcdp" else Cost(Fraction(epsilon), Fraction(delta)),
        tuple(_entry(*entry) for entry in entries),
    )


def _entry(number: int, at: str, who: str, what: str, epsilon: str, delta: str, rho: str) -> LedgerEntry:
    return LedgerEntry(number, at, who, what, Cost(Fraction(epsilon), Fraction(delta), Fraction(rho)))


@contextmanager
def _transaction(path: Path, writing: bool = True) -> Iterator[sqlite3.Connection]:
    """A transaction that holds the write lock from its beginning, and is on disk at its end."""
    try:
        database = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None)
        try:
            database.execute("PRAGMA synchronous = FULL")
            database.execute("BEGIN IMMEDIATE" if writing else "BEGIN")
            try:
                yield database
            except BaseException:
                database.execute("ROLLBACK")
                raise
            database.execute("COMMIT")
        finally:
            database.close()
    except sqlite3.OperationalError as error:
        if "locked" in str(error) or "busy" in str(error):
            raise BadInput(f"{path}: locked by another process for {PATIENCE:g} seconds; try again") from None
        raise BadInput(f"{path}: not a ledger ({error}); make one with `veridp budget init`") from None
    except sqlite3.DatabaseError as error:
        raise BadInput(f"{path}: not a ledger ({error}); make one with `veridp budget init`") from None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
