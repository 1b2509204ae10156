"""A release as a tree: mechanisms at its leaves, how they are put together above them; basic and advanced
composition."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from veridp.accounting.pairs import DominatingPair, Finite, GaussianPair, LaplacePair, gaussian_scale, pair_of_claim
from veridp.adjacency import BY_NAME, Adjacency
from veridp.claim import Claim
from veridp.errors import BadInput
from veridp.mechanism import Function, Mechanism, as_mechanism
from veridp.notions import Notion
from veridp.verdict import Standing, Verdict

if TYPE_CHECKING:
    from veridp.engines.exact import Comparison


# ---------------------------------------------------------------------------------------------------------------- tree
# A release as a tree: mechanisms at its leaves, and above them how they are put together.


class GuaranteeBasis(enum.Enum):
    """What a leaf's guarantee rests on, the firmest first."""

    PROVED = "proved"
    EXACT = "exact between one pair of inputs"
    CLAIMED = "claimed"
    NOT_REFUTED = "not refuted"

    def weaker(self, other: GuaranteeBasis) -> GuaranteeBasis:
        order = list(GuaranteeBasis)
        return max(self, other, key=order.index)


@dataclass(frozen=True)
class DominatingPairs:
    """What dominates a mechanism where a record goes (`removed`) and where one comes (`added`)."""

    removed: DominatingPair
    added: DominatingPair

    @classmethod
    def both(cls, pair: DominatingPair) -> DominatingPairs:
        """The same pair for both: of noise that is as likely to be k as to be -k, or of a claim."""
        return cls(pair, pair)

    @property
    def directions(self) -> tuple[DominatingPair, ...]:
        return (self.removed,) if self.removed is self.added else (self.removed, self.added)

    @property
    def supremum(self) -> float:
        return max(0.0, *(pair.supremum for pair in self.directions)) if self.directions else 0.0

    def epsilon(self, delta: float) -> float:
        return max(pair.epsilon(delta) for pair in self.directions)


class Proved(Protocol):
    """What a proof has to tell: `veridp.prove` returns one."""

    @property
    def epsilon(self) -> float: ...

    @property
    def mechanism(self) -> Mechanism: ...


class ReleaseNode:
    """A part of a release."""

    @property
    def children(self) -> tuple[ReleaseNode, ...]:
        return ()

    def leaves(self) -> Iterator[Leaf]:
        """The mechanisms in it, each once for every place where it stands."""
        for child in self.children:
            yield from child.leaves()


@dataclass(frozen=True, eq=False)
class Leaf(ReleaseNode):
    """A mechanism, known by what dominates it; and what this rests on.

    Make one with `Leaf.laplace`, `gaussian`, `randomised_response`, `claimed`, `stated`, `of`, `proved`, `judged` or
    `exact`.
    """

    name: str
    pairs: DominatingPairs
    basis: GuaranteeBasis = GuaranteeBasis.CLAIMED
    relation: str | None = None  # the adjacency, where it is stated
    claim: Claim | None = None  # the (ε, δ) that basic and advanced composition count it at, where there is one
    notion: Notion | None = None  # another notion in which it is known

    def leaves(self) -> Iterator[Leaf]:
        yield self

    @classmethod
    def claimed(
        cls,
        epsilon: float,
        delta: float = 0.0,
        *,
        name: str | None = None,
        basis: GuaranteeBasis = GuaranteeBasis.CLAIMED,
        relation: str | None = None,
    ) -> Leaf:
        """A mechanism of which (ε, δ) is claimed and nothing else is known."""
        return cls.stated(Claim(epsilon, delta), name=name, basis=basis, relation=relation)

    @classmethod
    def stated(
        cls,
        claim: Claim,
        *,
        name: str | None = None,
        basis: GuaranteeBasis = GuaranteeBasis.CLAIMED,
        relation: str | None = None,
    ) -> Leaf:
        """A mechanism of which a claim, in whatever notion, is made and nothing else is known."""
        pairs = DominatingPairs.both(pair_of_claim(claim))
        counted = claim if claim.notion is None else None
        return cls(name or str(claim), pairs, basis, relation, counted, claim.notion)

    @classmethod
    def laplace(
        cls,
        epsilon: float | None = None,
        *,
        scale: float | None = None,
        sensitivity: float = 1.0,
        name: str | None = None,
        relation: str | None = None,
    ) -> Leaf:
        """One number with Laplace noise of this scale, or of the scale for this ε. Several numbers: `claimed`."""
        if (epsilon is None) == (scale is None):
            raise BadInput("a Laplace leaf needs either epsilon or scale")
        ratio = _positive("sensitivity", sensitivity) / _positive("scale", scale) if scale is not None else epsilon
        pair = LaplacePair(float(ratio))  # type: ignore[arg-type]
        return cls(name or f"Laplace ({pair.ratio:g})", DominatingPairs.both(pair), GuaranteeBasis.PROVED, relation)

    @classmethod
    def gaussian(
        cls,
        epsilon: float | None = None,
        delta: float | None = None,
        *,
        scale: float | None = None,
        sensitivity: float = 1.0,
        name: str | None = None,
        relation: str | None = None,
    ) -> Leaf:
        """Answers with normal noise of this standard deviation, or of the least one for (ε, δ); L2-sensitivity."""
        if (epsilon is None or delta is None) == (scale is None) or (epsilon is None) != (delta is None):
            raise BadInput("a Gaussian leaf needs either scale, or epsilon and delta")
        claim = None
        if epsilon is not None and delta is not None:
            claim, scale = Claim(epsilon, delta), gaussian_scale(epsilon, delta, sensitivity)
        pair = GaussianPair(_positive("sensitivity", sensitivity) / _positive("scale", scale or 0.0))
        return cls(
            name or f"Gaussian (σ = {scale:g})", DominatingPairs.both(pair), GuaranteeBasis.PROVED, relation, claim
        )

    @classmethod
    def randomised_response(
        cls, epsilon: float, values: int = 2, *, name: str | None = None, relation: str | None = None
    ) -> Leaf:
        """The true one of some values with probability e^ε / (e^ε + values - 1), else any other."""
        if values < 2:
            raise BadInput(f"values must be >= 2, got {values!r}")
        rest = 1 / (math.exp(epsilon) + values - 1)
        true = 1 - (values - 1) * rest
        pair = Finite.of([true, rest] + [rest] * (values - 2), [rest, true] + [rest] * (values - 2))
        return cls(
            name or f"randomised response ({epsilon:g})", DominatingPairs.both(pair), GuaranteeBasis.PROVED, relation
        )

    @classmethod
    def of(
        cls, mechanism: Mechanism | Function, *, basis: GuaranteeBasis = GuaranteeBasis.CLAIMED, **arguments: Any
    ) -> Leaf:
        """A mechanism with its own claim."""
        mechanism = as_mechanism(mechanism, **arguments)
        if mechanism.claim is None:
            raise BadInput(f"{mechanism} has no claim, so its cost is unknown; give it an epsilon")
        return cls.stated(mechanism.claim, name=str(mechanism), basis=basis, relation=mechanism.adjacency.name)

    @classmethod
    def proved(cls, proof: Proved) -> Leaf:
        """A mechanism with the ε that was proved of it, for the size that the proof is for."""
        if not math.isfinite(proof.epsilon):
            raise BadInput(f"{proof.mechanism}: nothing is proved, so it cannot be accounted for; give its claim")
        relation = proof.mechanism.adjacency.name
        return cls.claimed(proof.epsilon, name=str(proof.mechanism), basis=GuaranteeBasis.PROVED, relation=relation)

    @classmethod
    def judged(cls, verdict: Verdict, name: str) -> Leaf:
        """A mechanism with the claim that an audit judged; BadInput where it was refuted."""
        if verdict.standing is Standing.REFUTED:
            raise BadInput(f"{name}: {verdict.claim} is refuted, so it cannot be accounted for; repair the mechanism")
        basis = GuaranteeBasis.PROVED if verdict.standing is Standing.PROVED else GuaranteeBasis.NOT_REFUTED
        return cls.stated(verdict.claim, name=name, basis=basis)

    @classmethod
    def exact(cls, comparison: Comparison, *, dominating: bool = False) -> Leaf:
        """A mechanism by its exact losses between two inputs, as `veridp.exact.compare` gives them.

        What is accounted is then a guarantee only if no neighbours are easier to distinguish than these two; who knows
        that they are not says so with `dominating`, and it counts as a claim.
        """
        from veridp.accounting.domination import pairs_of

        mechanism = comparison.mechanism
        basis = GuaranteeBasis.CLAIMED if dominating else GuaranteeBasis.EXACT
        return cls(str(mechanism), pairs_of(comparison), basis, mechanism.adjacency.name)


@dataclass(frozen=True, eq=False)
class Sequential(ReleaseNode):
    """All of them on the same data, each perhaps chosen after the answers of those before."""

    parts: Sequence[ReleaseNode]

    @property
    def children(self) -> tuple[ReleaseNode, ...]:
        return tuple(self.parts)


@dataclass(frozen=True, eq=False)
class Parallel(ReleaseNode):
    """Each on a part of the data of its own; no record is in two parts.

    Neighbours must differ within one part. Where a record is replaced, it may leave one part for another: so under
    `replace` it has to be said that parts are `fixed`, that is, do not depend on what the records hold.
    """

    parts: Mapping[str, ReleaseNode]
    fixed: bool = False

    @property
    def children(self) -> tuple[ReleaseNode, ...]:
        return tuple(self.parts.values())


@dataclass(frozen=True, eq=False)
class PostProcessed(ReleaseNode):
    """What comes of its output without another look at the data: it costs what the output costs."""

    of: ReleaseNode
    by: str = ""

    @property
    def children(self) -> tuple[ReleaseNode, ...]:
        return (self.of,)


@dataclass(frozen=True, eq=False)
class Subsampled(ReleaseNode):
    """On a secret random sample of the data.

    Each record is in it with probability `rate`, independently (under add-remove); under `replace`, the sample is a
    fixed share `rate` of the records.
    """

    rate: float
    of: ReleaseNode = field()

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 1:
            raise BadInput(f"rate must be in (0, 1], got {self.rate!r}")

    @property
    def children(self) -> tuple[ReleaseNode, ...]:
        return (self.of,)


@dataclass(frozen=True, eq=False)
class Repeated(ReleaseNode):
    """The same `times` times over."""

    times: int
    of: ReleaseNode = field()

    def __post_init__(self) -> None:
        if self.times < 0 or int(self.times) != self.times:
            raise BadInput(f"times must be an integer >= 0, got {self.times!r}")

    @property
    def children(self) -> tuple[ReleaseNode, ...]:
        return (self.of,)


KINDS: dict[type[ReleaseNode], str] = {PostProcessed: "post_processed", Subsampled: "subsampled", Repeated: "repeated"}


def places(node: ReleaseNode, place: str = "release") -> Iterator[tuple[str, ReleaseNode]]:
    """The node and all below it, each with where it stands, as release files would name it."""
    yield place, node
    if isinstance(node, Sequential):
        for number, part in enumerate(node.parts):
            yield from places(part, f"{place}.sequential[{number}]")
    elif isinstance(node, Parallel):
        for name, part in node.parts.items():
            yield from places(part, f"{place}.parallel.parts.{name}")
    else:
        for child in node.children:
            yield from places(child, f"{place}.{KINDS[type(node)]}.of")


def on_records(name: str | None) -> Adjacency | None:
    """The relation of this name where it is one on data sets, which a release cannot mix; else None."""
    known = None if name is None else BY_NAME.get(name)
    return known if known is not None and known.on_records else None


def relation_of(node: ReleaseNode) -> Adjacency | None:
    """The relation on data sets under which leaves are stated, None where none is.

    BadInput where two differ, or where it lets a record leave one parallel part for another.
    """
    found: dict[str, str] = {}
    for place, each in places(node):
        if isinstance(each, Leaf) and (own := on_records(each.relation)) is not None:
            found.setdefault(own.name, f"{place} ({each.name})")
    if len(found) > 1:
        (first, here), (second, there) = found.items()
        raise BadInput(f"{here} is stated under {first}, {there} under {second}; state both under one relation")
    relation = on_records(next(iter(found), None))
    if relation is None:
        return None
    for place, each in places(node):
        if relation.any_order and isinstance(each, Parallel | Subsampled):
            kind = "parallel" if isinstance(each, Parallel) else "subsampled"
            raise BadInput(
                f"{place}.{kind}: under {relation.name} all records may change their order, so neighbours differ in "
                f"every part and sample; state the leaves under {relation.ordered_name}"
            )
        if isinstance(each, Parallel) and not (relation.within_one_part or each.fixed):
            raise BadInput(
                f"{place}.parallel: replacing a record may move it to another part, which changes both; state "
                f"the leaves under add-remove, or declare the parts fixed"
            )
    return relation


def flattened(node: ReleaseNode, times: int = 1) -> Iterable[tuple[ReleaseNode, int]]:
    """The node taken apart as far as it is sequential, and how often each part occurs."""
    if isinstance(node, Sequential):
        for part in node.parts:
            yield from flattened(part, times)
    elif isinstance(node, Repeated):
        yield from flattened(node.of, times * int(node.times))
    elif isinstance(node, PostProcessed):
        yield from flattened(node.of, times)
    elif times:
        yield node, times


def _positive(name: str, value: float) -> float:
    if not 0 < value < math.inf:
        raise BadInput(f"{name} must be finite and > 0, got {value!r}")
    return value


# -------------------------------------------------------------------------------------------------------------- simple
# The two composition theorems that need nothing but (ε, δ): basic and advanced.


@dataclass(frozen=True)
class Bound:
    """(ε, δ) by one method; ε is inf where the method says nothing, and then the note says why."""

    method: str
    epsilon: float
    delta: float
    note: str = ""


@dataclass(frozen=True)
class Charge:
    """(ε, δ) in exact decimals."""

    epsilon: Fraction
    delta: Fraction

    @classmethod
    def of(cls, claim: Claim) -> Charge:
        return cls(exactly(claim.epsilon), exactly(claim.delta))


def exactly(number: float) -> Fraction:
    """The decimal that a number is written as: 0.1 is 1/10, so that ten of them are 1."""
    return Fraction(repr(float(number)))


def basic(release: ReleaseNode, delta: float) -> Bound:
    """Sums of ε and of δ; leaves without an (ε, δ) of their own each take an equal share of δ."""
    charge = _summed(release, _share(release, delta))
    if charge is None:
        return Bound("basic", math.inf, delta, "some leaf has no ε at its share of δ; give a larger delta")
    if not Claim(math.inf, delta).covers(0.0, float(charge.delta)):
        return Bound(
            "basic", math.inf, delta, f"the claims add up to δ = {float(charge.delta):g}; give a delta as large"
        )
    return Bound("basic", float(charge.epsilon), float(charge.delta))


def basic_charge(release: ReleaseNode, delta: float = 0.0) -> Charge | None:
    """(ε, δ) by basic composition; leaves with neither a claim nor a largest loss share this δ. None where one of them
    has no ε at its share."""
    needs = _needs(release)
    return _summed(release, delta / needs.shares if needs.shares else 0.0)


@dataclass(frozen=True)
class _Needs:
    """How many shares of δ a node needs, and how much of it claims have taken already."""

    shares: int
    taken: float


def _share(release: ReleaseNode, delta: float) -> float:
    """What each leaf that needs one gets of δ, once the δ of claims is paid."""
    needs = _needs(release)
    return max(0.0, delta - needs.taken) / needs.shares if needs.shares else 0.0


def _needs(node: ReleaseNode) -> _Needs:
    if isinstance(node, Leaf):
        known = _known(node)
        return _Needs(1, 0.0) if known is None else _Needs(0, known.delta)
    needs = [_needs(child) for child in node.children]
    if isinstance(node, Parallel):
        return _Needs(max((n.shares for n in needs), default=0), max((n.taken for n in needs), default=0.0))
    times = node.times if isinstance(node, Repeated) else 1
    return _Needs(times * sum(n.shares for n in needs), times * math.fsum(n.taken for n in needs))


def _known(leaf: Leaf) -> Claim | None:
    """The (ε, δ) of a leaf that has one by itself: its claim, its largest loss, or the largest of finitely many."""
    if leaf.claim is not None or leaf.notion is not None:
        return leaf.claim
    if math.isfinite(leaf.pairs.supremum):
        return Claim(leaf.pairs.supremum)
    if all(pair.atoms for pair in leaf.pairs.directions):
        finite = max(0.0, *(pair.span.high for pair in leaf.pairs.directions))
        return Claim(finite, max(pair.infinite for pair in leaf.pairs.directions))
    return None


def _summed(node: ReleaseNode, share: float) -> Charge | None:
    """(ε, δ) by basic composition, each leaf without one of its own at this share of δ; None where one has no ε."""
    if isinstance(node, Leaf):
        known = _known(node) or Claim(node.pairs.epsilon(share), share)
        return Charge.of(known) if math.isfinite(known.epsilon) else None
    within = min(share / node.rate, 0.5) if isinstance(node, Subsampled) else share
    charges = [charge for charge in (_summed(child, within) for child in node.children) if charge is not None]
    if len(charges) < len(node.children):
        return None
    none = Fraction(0)
    if isinstance(node, Parallel):
        return Charge(max((c.epsilon for c in charges), default=none), max((c.delta for c in charges), default=none))
    if isinstance(node, Subsampled):
        return Charge(exactly(amplified(float(charges[0].epsilon), node.rate)), exactly(node.rate) * charges[0].delta)
    times = node.times if isinstance(node, Repeated) else 1
    return Charge(times * sum((c.epsilon for c in charges), none), times * sum((c.delta for c in charges), none))


def amplified(epsilon: float, rate: float) -> float:
    """ln(1 + γ(e^ε - 1)): ε on a secret sample of this rate (Balle, Barthe and Gaboardi, NeurIPS 2018)."""
    return epsilon if rate == 1 else float(np.logaddexp(math.log1p(-rate), math.log(rate) + epsilon))


def advanced(release: ReleaseNode, delta: float) -> Bound:
    """Kairouz, Oh and Viswanath 2015, Theorem 3.5, for parts that differ; half of δ is kept for the theorem."""
    share = _share(release, delta / 2)
    charges = [(_summed(node, share), count) for node, count in flattened(release)]
    costs = [(float(charge.epsilon), float(charge.delta), count) for charge, count in charges if charge is not None]
    if len(costs) < len(charges):
        return Bound("advanced", math.inf, delta, "some leaf has no ε at its share of δ")
    kept = math.prod((1 - each) ** count for _, each, count in costs)
    spare = 1 - (1 - delta) / kept if kept > 0 else 0.0
    if spare <= 0:
        return Bound("advanced", math.inf, delta, "no δ is left over for it; give a larger delta")
    plain = math.fsum(count * epsilon for epsilon, _, count in costs)
    mean = math.fsum(count * epsilon * math.tanh(epsilon / 2) for epsilon, _, count in costs)
    squares = math.fsum(count * epsilon**2 for epsilon, _, count in costs)
    logs = min(math.log(1 / spare), math.log(math.e + math.sqrt(squares) / spare))
    return Bound("advanced", min(plain, mean + math.sqrt(2 * squares * logs)), delta)
