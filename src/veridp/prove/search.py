"""The search for a proof: by alignment of open data, by couplings where data or chance decide, or value by value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from veridp.errors import BadInput, NotExplorable
from veridp.mechanism import Function, Mechanism, as_mechanism
from veridp.program.affine import unknowns
from veridp.program.path import Path
from veridp.prove.cases import has_finite_domain, knows_all_neighbours
from veridp.prove.coupled import CouplingProof, prove_on_regions, prove_on_values
from veridp.prove.events import events_of
from veridp.prove.exploring import explored
from veridp.prove.neighbours import polytopes_of
from veridp.prove.pieces import piece_of
from veridp.prove.proof import Proof, prove_by_alignment
from veridp.prove.regions import is_on_data

CLEARLY = 1 - 1e-9  # a coupling must be cheaper than the alignment by more than rounding


def prove(mechanism: Mechanism | Function, size: int | None = None, **arguments: Any) -> Proof:
    """The smallest ε that an alignment or a coupling can prove for all neighbours of this size; inf if none can.

    Data are left open where the adjacency has a polytope of differences. Otherwise, and where the mechanism cannot be
    explored or proved with open data, the data over its domain are gone through one by one, if that is a list of
    values; the proof then says that it holds for these alone.
    """
    mechanism = as_mechanism(mechanism, **arguments)
    size = mechanism.size if size is None else size
    polytopes = polytopes_of(mechanism.adjacency, size)
    listed = has_finite_domain(mechanism) and knows_all_neighbours(mechanism.adjacency)
    if polytopes is None:
        if not listed:
            raise BadInput(
                f"{mechanism.name}: neighbours under {mechanism.adjacency} have no polytope of differences to prove "
                f"over, and the domain {mechanism.domain!r} is no list of values to go through; give one (domain=[…]), "
                f"or use linf, l1 or monotone, or an adjacency with vertices"
            )
        return prove_on_values(mechanism, size)
    try:
        paths = explored(mechanism, unknowns("data", size))
    except NotExplorable as error:
        if listed:
            return prove_on_values(mechanism, size)
        raise type(error)(
            f"{error}; or give it a domain that is a list of values, which a proof can go through"
        ) from error
    proof: Proof = prove_by_alignment(mechanism, size, paths, polytopes)
    if _has_choices(paths):
        coupled = prove_on_regions(mechanism, size, paths)
        proof = coupled if coupled.epsilon < proof.epsilon * CLEARLY else proof
    return _on_values_if_better(proof) if math.isinf(proof.epsilon) and listed else proof


def _has_choices(paths: Sequence[Path]) -> bool:
    """Whether chance or data alone decide anything: then a coupling may be cheaper than to keep all choices."""
    if any(path.weight != 1 or any(map(is_on_data, path.conditions)) for path in paths):
        return True
    return any(piece_of(event).weight != 1 for event in events_of(paths))


def _on_values_if_better(proof: Proof) -> Proof:
    """A proof for the values of the domain alone, where there is one."""
    try:
        on_values: CouplingProof = prove_on_values(proof.mechanism, proof.size)
    except BadInput:  # too many values
        return proof
    return on_values if math.isfinite(on_values.epsilon) else proof
