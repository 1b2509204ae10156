"""Mechanisms made of mechanisms: with the claim of a theorem, or as a function with its ledger, exact cost and
attack; and the notions that the theorems rest on."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from veridp.accounting.account import DELTA, account
from veridp.accounting.release import releases_of
from veridp.accounting.tree import Bound, basic_charge
from veridp.adjacency import Adjacency, Domain
from veridp.budget import Deadline
from veridp.budget.child_process import contained
from veridp.claim import LOSS_ERROR, Claim
from veridp.errors import BadInput, CutShort, NotExact, NotExplorable
from veridp.mechanism import Function, Mechanism, as_mechanism

# ------------------------------------------------------------------------------------------------ indistinguishability
# How well two distributions can be distinguished: the notion on which differential privacy rests.


@dataclass(frozen=True)
class Indistinguishability:
    """Two distributions on the same finite set, and what tells them apart.

    They are ε-indistinguishable if P(S) <= e^ε Q(S) and Q(S) <= e^ε P(S) for every event S. It is enough to look at
    single outcomes: if the inequality holds for each, it holds for their sum.
    """

    left: Mapping[Hashable, float]
    right: Mapping[Hashable, float]

    def __post_init__(self) -> None:
        for name, law in (("left", self.left), ("right", self.right)):
            if min(law.values(), default=-1.0) < 0 or not math.isclose(math.fsum(law.values()), 1.0, abs_tol=1e-9):
                raise BadInput(f"{name} is not a distribution; give outcomes with probabilities >= 0 that sum to 1")

    @property
    def outcomes(self) -> list[Hashable]:
        return list(dict.fromkeys([*self.left, *self.right]))

    def loss(self, outcome: Hashable) -> float:
        """ln P/Q of an outcome: what seeing it says for left against right."""
        p, q = self.left.get(outcome, 0.0), self.right.get(outcome, 0.0)
        if p == 0:
            return -math.inf if q else 0.0
        return math.log(p) - math.log(q) if q else math.inf

    @property
    def epsilon(self) -> float:
        """The least ε for which they are ε-indistinguishable.

        >>> round(Indistinguishability({"yes": 0.75, "no": 0.25}, {"yes": 0.25, "no": 0.75}).epsilon, 6)
        1.098612
        """
        return max(abs(self.loss(outcome)) for outcome in self.outcomes)

    def delta(self, epsilon: float) -> float:
        """The least δ such that P(S) <= e^ε Q(S) + δ and Q(S) <= e^ε P(S) + δ for every event S."""
        return max(
            math.fsum(
                max(0.0, law.get(outcome, 0.0) - math.exp(epsilon) * other.get(outcome, 0.0))
                for outcome in self.outcomes
            )
            for law, other in ((self.left, self.right), (self.right, self.left))
        )

    def event(self, epsilon: float) -> list[Hashable]:
        """The event S that makes P(S) - e^ε Q(S) largest: all outcomes with a loss above ε."""
        return [outcome for outcome in self.outcomes if self.loss(outcome) > epsilon]


# ----------------------------------------------------------------------------------------------------------- partition
# A data space in parts, and what a neighbouring relation has to satisfy there.


@dataclass(frozen=True, eq=False)
class Partition:
    """The parts that records belong to, each record to one, by what it holds."""

    names: Sequence[Hashable]
    of: Callable[[Any], Hashable]

    def split(self, data: Iterable[Any]) -> dict[Hashable, list[Any]]:
        """The records of each part, in their order.

        >>> Partition(("even", "odd"), lambda n: "odd" if n % 2 else "even").split([1, 2, 3])
        {'even': [2], 'odd': [1, 3]}
        """
        parts: dict[Hashable, list[Any]] = {name: [] for name in self.names}
        for record in data:
            name = self.of(record)
            if name not in parts:
                raise BadInput(
                    f"record {record!r} belongs to {name!r}, which is not a part; the parts are {[*self.names]}"
                )
            parts[name].append(record)
        return parts


@dataclass(frozen=True)
class RelationGap:
    """Two inputs that show what a relation lacks."""

    lacks: str  # "reflexive", "symmetric" or "local"
    left: object
    right: object

    def __str__(self) -> str:
        return f"not {self.lacks}: {self.left} and {self.right}"


def flaw(relation: Adjacency, inputs: Sequence[Any], partition: Partition | None = None) -> RelationGap | None:
    """A pair of the inputs by which the relation is not reflexive, not symmetric, or not local to one part; else None.

    Sequential composition and post-processing hold for any relation. Parallel composition needs neighbours to differ
    within one part: adding or removing a record does, replacing one does not, for the new record may belong elsewhere.
    """
    for left, right in itertools.product(inputs, repeat=2):
        neighbours = relation.adjacent(left, right)
        if left is right and not neighbours:
            return RelationGap("reflexive", left, right)
        if neighbours and not relation.adjacent(right, left):
            return RelationGap("symmetric", left, right)
        if neighbours and partition is not None and _parts_that_differ(partition, left, right) > 1:
            return RelationGap("local", left, right)
    return None


def _parts_that_differ(partition: Partition, left: Any, right: Any) -> int:
    mine, theirs = partition.split(left), partition.split(right)
    return sum(list(mine[name]) != list(theirs[name]) for name in partition.names)


# ----------------------------------------------------------------------------------------------------------- composing
# Mechanisms made of mechanisms, with the claim that a theorem gives them.


def sequential(*mechanisms: Mechanism | Function) -> Mechanism:
    """All of them on the same data; it claims the sums of their ε and of their δ, under the relation they share."""
    parts = [as_mechanism(mechanism) for mechanism in mechanisms]
    if not parts:
        raise BadInput("nothing to compose; give at least one mechanism")
    if other := [part for part in parts if part.adjacency.name != parts[0].adjacency.name]:
        raise BadInput(
            f"{parts[0].name} is stated under {parts[0].adjacency}, {other[0].name} under {other[0].adjacency}; state "
            f"both under one relation"
        )
    claims = [_claim(part) for part in parts]

    def composed(rng: Any, data: Any) -> list[Any]:
        return [part(rng, data) for part in parts]

    return _made(
        composed,
        "_then_".join(part.name for part in parts),
        Claim(sum(c.epsilon for c in claims), min(1.0, sum(c.delta for c in claims))),
        parts[0].adjacency,
        parts[0].domain,
        parts[0].size,
    )


def parallel(partition: Partition, mechanisms: Mapping[Hashable, Mechanism | Function]) -> Mechanism:
    """Each on the records of its part; it claims the largest of their ε and of their δ.

    The claim is right where neighbours differ within one part, as under add-remove. It is not made under replace, where
    a record may leave one part for another, nor where records may change their order, which may show in every part.
    """
    parts = {name: as_mechanism(mechanism) for name, mechanism in mechanisms.items()}
    if missing := [name for name in partition.names if name not in parts]:
        raise BadInput(f"no mechanism for {missing[0]!r}; give one for each part")
    if unknown := [name for name in parts if name not in partition.names]:
        raise BadInput(f"{unknown[0]!r} is not a part; the parts are {[*partition.names]}")
    if not parts:
        raise BadInput("the partition has no parts; give at least one")
    first = next(iter(parts.values()))
    if any(not part.adjacency.within_one_part for part in parts.values()):
        raise BadInput(
            f"{first.name} is stated under {first.adjacency}: a neighbour may differ in several parts; state all under "
            f"add-remove"
        )
    claims = [_claim(part) for part in parts.values()]

    def composed(rng: Any, data: Any) -> list[Any]:
        split = partition.split(data)
        return [parts[name](rng, split[name]) for name in partition.names]

    return _made(
        composed,
        "_beside_".join(dict.fromkeys(part.name for part in parts.values())),
        Claim(max(c.epsilon for c in claims), max(c.delta for c in claims)),
        first.adjacency,
        first.domain,
        first.size,
    )


def post_processed(mechanism: Mechanism | Function, function: Callable[[Any], Any]) -> Mechanism:
    """The function of the mechanism's output; it claims what the mechanism claims."""
    inner = as_mechanism(mechanism)

    def composed(rng: Any, data: Any) -> Any:
        return function(inner(rng, data))

    name = f"{getattr(function, '__name__', 'function')}_of_{inner.name}"
    return _made(composed, name, _claim(inner), inner.adjacency, inner.domain, inner.size)


def _claim(mechanism: Mechanism) -> Claim:
    if mechanism.claim is None:
        raise BadInput(f"{mechanism} has no claim, so the composition has none; give it an epsilon")
    return mechanism.claim


def _made(function: Function, name: str, claim: Claim, adjacency: Adjacency, domain: Domain, size: int) -> Mechanism:
    function.__name__ = name
    made = Mechanism(function, adjacency=adjacency, domain=domain, size=size)
    return replace(made, **claim.keywords)


# --------------------------------------------------------------------------------------------------- composed function
# A composed function on one line: what the ledger says, what is exact, what an attack shows.


INPUTS = 8  # on which the function is run to see what it calls


class AttackBound(Protocol):
    """What an attack has to tell: `veridp.sniper.search` returns one."""

    @property
    def epsilon_lower(self) -> float: ...

    @property
    def confidence(self) -> float: ...


@dataclass(frozen=True)
class ComposedBounds:
    """The ledger's bound, the exact ε of the worst pair found, and a lower bound by an attack; None where not known."""

    name: str
    ledger: Bound
    every: bool  # whether all ways through the function were seen
    exact: float | None
    attack: float | None = None
    confidence: float | None = None

    @property
    def exceeded(self) -> bool:
        """Whether what is exact, or what the attack shows, is above what the ledger says."""
        known = max((self.exact or 0.0) - LOSS_ERROR, self.attack or 0.0)
        return Claim(self.ledger.epsilon, self.ledger.delta).excludes(known)

    def __str__(self) -> str:
        seen = "" if self.every else " on the runs seen"
        exact = "not known" if self.exact is None else f"{self.exact:.6g}"
        attack = "not tried"
        if self.attack is not None and self.confidence is not None:
            attack = f">= {max(self.attack, 0.0):.6g} ({self.confidence:.0%} confidence)"
        at = f" at δ = {self.ledger.delta:g}" if self.ledger.delta else ""
        wrong = (
            "; the ledger is wrong: a part costs more than it claims, parts overlap, or data are used outside of them"
            if self.exceeded
            else ""
        )
        return (
            f"{self.name}: ledger {self.ledger.epsilon:.6g}{at} ({self.ledger.method}{seen}), exact {exact}, "
            f"attack {attack}{wrong}"
        )


@dataclass(frozen=True)
class ComposedCost:
    """What the mechanisms that a function calls cost together; `every` tells whether all ways through it were seen."""

    bound: Bound
    every: bool


def ledger_of(mechanism: Mechanism, size: int, delta: float | None = None) -> ComposedCost:
    """The ledger's bound on a function that calls mechanisms, from what it calls on a few inputs of this size."""
    pairs = mechanism.adjacency.pairs(size, mechanism.domain)
    inputs = [side for pair in itertools.islice(pairs, INPUTS // 2) for side in (pair.left, pair.right)]
    recorded = releases_of(mechanism, *inputs)
    bounds = [_bound(release, delta) for release in recorded.releases]
    return ComposedCost(max(bounds, key=lambda bound: bound.epsilon), recorded.every)


def line(
    mechanism: Mechanism | Function,
    size: int | None = None,
    *,
    delta: float | None = None,
    seconds: float = 60.0,
    attack: Callable[[Mechanism, int, float], AttackBound] | None = None,
    **arguments: Any,
) -> ComposedBounds:
    """The three numbers of a function that calls mechanisms, for inputs of one size, with `seconds` for each of the
    first two.

    The exact ε is that of the worst pair that a search finds, at the δ of the ledger; None where its losses are out of
    reach. The attack is given, so that any engine may make it: it gets the mechanism, the size, and the δ of the
    ledger, at which its bound has to hold.
    """
    mechanism = as_mechanism(mechanism, **arguments)
    size = mechanism.size if size is None else size
    bound, length = mechanism, size
    ledger = contained(lambda _: ledger_of(bound, length, delta), Deadline(seconds), known=(mechanism,))
    attacked = None if attack is None else attack(mechanism, size, ledger.bound.delta)
    return ComposedBounds(
        str(mechanism),
        ledger.bound,
        ledger.every,
        _exact(mechanism, size, ledger.bound.delta, seconds),
        None if attacked is None else attacked.epsilon_lower,
        None if attacked is None else attacked.confidence,
    )


def _bound(release: Any, delta: float | None) -> Bound:
    """Pure ε where the leaves have one and no δ was asked for, else the tightest at a δ."""
    charge = basic_charge(release)
    if delta is None and charge is not None and not charge.delta:
        return Bound("basic", float(charge.epsilon), 0.0)
    return account(release, DELTA if delta is None else delta).tightest


def _exact(mechanism: Mechanism, size: int, delta: float, seconds: float) -> float | None:
    from veridp.engines.exact import worst

    try:
        return worst(mechanism, size, seconds=seconds, at=delta).epsilon
    except (CutShort, NotExact, NotExplorable):
        return None
