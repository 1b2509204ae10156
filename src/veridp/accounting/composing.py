"""Mechanisms made of mechanisms, with the claim that a theorem gives them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from typing import Any

from veridp.accounting.partition import Partition
from veridp.adjacency import Adjacency, Domain
from veridp.claim import Claim
from veridp.errors import BadInput
from veridp.mechanism import Function, Mechanism, as_mechanism


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
    return replace(made, epsilon=claim.epsilon, delta=claim.delta)
