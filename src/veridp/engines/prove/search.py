"""The search for a proof, for one size or beyond one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from veridp.budget import Deadline
from veridp.budget.child_process import Reporter, contained
from veridp.claim import Claim, Interval
from veridp.engines.prove.alignment import AlignmentProof, Proof, prove_by_alignment
from veridp.engines.prove.bounds import prove_by_bounds, prove_values_by_bounds
from veridp.engines.prove.cases import certified_word, has_finite_domain, interval_of
from veridp.engines.prove.coupling import CouplingProof, prove_on_regions, prove_on_values
from veridp.engines.prove.events import check_noise, explored, piece_of, replayed
from veridp.engines.prove.induction import Induction, prove_for_every_size
from veridp.engines.prove.regions import is_on_data
from veridp.errors import BadInput, EnginesDisagree, MechanismFailed, NotExplorable, NotInductive, NotSolved
from veridp.kernel.expressions import unknowns
from veridp.kernel.output import Raised
from veridp.kernel.path import Path
from veridp.mechanism import Function, Mechanism, as_mechanism
from veridp_check.checker import check
from veridp_check.document import LISTED

# -------------------------------------------------------------------------------------------------------------- search
# The search for a proof: by alignment of open data, by couplings where data or chance decide, by bounds of densities
# where any two data are neighbours, or value by value.


CLEARLY = 1 - 1e-9  # a coupling must be cheaper than the alignment by more than rounding


def prove(
    mechanism: Mechanism | Function, size: int | None = None, *, seconds: float = math.inf, **arguments: Any
) -> Proof:
    """The smallest ε that alignment, couplings or bounds prove for all neighbours of this size; inf if none do.

    An answer, also that there is none, is given only after plain runs of the function agreed with the paths that it
    rests on (else ExplorationDisagrees), and a proof only after the independent checker accepted its certificate (else
    EnginesDisagree).

    Data are left open where the adjacency has a polytope of differences, as any two numbers of an interval have. Else,
    and where the mechanism cannot be explored or proved with open data, the data over its domain are gone through one
    by one, if that is a list of values; the proof then says that it holds for these alone.

    Raises CutShort where the `seconds` or the memory do not suffice: half a proof proves nothing.
    """
    bound = as_mechanism(mechanism, **arguments).stating(size=size)
    deadline = Deadline(seconds)
    return contained(lambda _: replace(_checked_proof(bound, size), seconds=deadline.spent), deadline, known=(bound,))


def _checked_proof(mechanism: Mechanism, size: int | None) -> Proof:
    proof = _search(mechanism, size)
    if math.isfinite(proof.epsilon):
        checked = check(proof.certificate)
        if checked.rejection is not None:
            raise EnginesDisagree(
                f"{proof}, but the checker rejects the certificate at {checked.rejection.place}: "
                f"{checked.rejection.reason}; this is a fault in veridp, please report it"
            )
    return proof


def _search(mechanism: Mechanism, size: int | None) -> Proof:
    size = 1 if interval_of(mechanism) is not None else mechanism.size if size is None else size
    polytopes = mechanism.adjacency.polytopes(size, mechanism.domain)
    listed = has_finite_domain(mechanism) and certified_word(mechanism.adjacency) != LISTED
    if polytopes is None:
        if not listed:
            raise BadInput(
                f"{mechanism.name}: no proof method for '{mechanism.adjacency}' over a range yet; give a short list of "
                f'values, e.g. domain=[0, 1] or --domain "[0, 1]", '
                f"or use linf, l1 or monotone, or an adjacency with vertices"
            )
        return _value_by_value(mechanism, size)
    data = _open_data(mechanism, size)
    try:
        paths = explored(mechanism, data)
    except NotExplorable as error:
        if listed:
            return prove_on_values(mechanism, size)
        raise type(error)(f"{error}; or give it a list of values as its domain, which a proof can enumerate") from error
    check_noise(paths)
    if all(isinstance(path.output, Raised) for path in paths):
        replayed(mechanism, data, paths)
        raise MechanismFailed(f"{mechanism.name} {paths[0].output} on all data of size {size}; return an output")
    bounded = prove_by_bounds(mechanism, size, paths)
    if bounded is not None and math.isfinite(bounded.epsilon):
        return _replayed(bounded, data, paths)  # no shift of uniform noise has a price: nothing else would prove less
    proof = _coupled_if_cheaper(prove_by_alignment(mechanism, size, paths, polytopes), paths)
    if listed and not math.isfinite(proof.epsilon):
        on_values = _on_values(proof)
        if on_values is not None:
            return on_values
    return _replayed(proof, data, paths)


def _replayed(proof: Proof, data: Any, paths: Sequence[Path]) -> Proof:
    """The proof, once plain runs agree with the paths, also at an ordinary input and at its costliest neighbours."""
    at: list[Any] = [[float(step) for step in move] for move in proof.moves]  # beside 0, where any data may lie
    if interval_of(proof.mechanism) is None:
        at.append([0.0] * proof.size)
    return replace(proof, replayed=replayed(proof.mechanism, data, paths, at))


def _open_data(mechanism: Mechanism, size: int) -> Any:
    """A list of open numbers; where the data are one number, that."""
    numbers = unknowns("data", size)
    return numbers if interval_of(mechanism) is None else numbers[0]


def _coupled_if_cheaper(proof: AlignmentProof, paths: Sequence[Path]) -> Proof:
    """A proof by couplings, where chance or data alone decide something, and that is cheaper than to keep it."""
    on_data = any(is_on_data(condition) for path in paths for condition in path.conditions)
    if not on_data and all(piece_of(event).weight == 1 for event in proof.events):
        return proof
    try:
        coupled = prove_on_regions(proof.mechanism, proof.size, paths)
    except (NotExplorable, NotSolved):  # too many regions, or too large a program for the shares
        return proof
    return coupled if coupled.epsilon < proof.epsilon * CLEARLY else proof


def _value_by_value(mechanism: Mechanism, size: int) -> Proof:
    """A proof by couplings, or by bounds of densities where there is none."""
    proof = prove_on_values(mechanism, size)
    if math.isfinite(proof.epsilon):
        return proof
    bounded = prove_values_by_bounds(mechanism, size)
    return bounded if bounded is not None and math.isfinite(bounded.epsilon) else proof


def _on_values(proof: Proof) -> Proof | None:
    """A proof for the values of the domain alone, where there is one."""
    try:
        on_values: CouplingProof = prove_on_values(proof.mechanism, proof.size)
    except BadInput:  # too many values
        return None
    return on_values if math.isfinite(on_values.epsilon) else None


# --------------------------------------------------------------------------------------------------------------- sizes
# Proofs beyond one size: for every size up to one, and for every size at all where an induction goes through.


@dataclass(frozen=True, eq=False)
class ProofForSizes:
    """Proofs for the sizes from 1 on, and the induction that covers all sizes, or why there is none."""

    proofs: tuple[Proof, ...]
    induction: Induction | None
    why_not: str = ""
    finished: bool = True  # whether all sizes that were asked for were tried

    @property
    def epsilon(self) -> float:
        """The ε that holds for all the sizes of `scope`; inf if it is not proved for one of them."""
        return max(proof.epsilon for proof in self.proofs) if self.induction is None else self.induction.epsilon

    @property
    def claim(self) -> Claim | None:
        return self.proofs[-1].claim

    @property
    def bounds(self) -> Interval:
        """For the sizes of `scope`: proofs bound ε from above."""
        return Interval(0.0, self.epsilon)

    @property
    def witness(self) -> None:
        """Proofs have none."""
        return None

    @property
    def searched(self) -> tuple[str, ...]:
        return tuple(f"size {proof.size}: {proof.extent}" for proof in self.proofs)

    @property
    def seconds(self) -> float:
        """The seconds that the proofs of the sizes took together."""
        return sum(proof.seconds for proof in self.proofs)

    def to_dict(self) -> dict[str, Any]:
        """The proof for the last size as plain data, and what holds for all."""
        sizes = {"epsilon": self.epsilon, "scope": self.scope, "why_not": self.why_not}
        return {**self.proofs[-1].to_dict(), "sizes": sizes, "finished": self.finished}

    @property
    def scope(self) -> str:
        return f"for sizes 1..{self.proofs[-1].size}" if self.induction is None else "for every size"

    @property
    def certificate(self) -> dict[str, Any]:
        """The certificate of the induction; BadInput where there is none: each of the proofs has its own."""
        if self.induction is None:
            raise BadInput(
                f"{self}: there is no single certificate for several sizes ({self.why_not}); use that of one size"
            )
        return self.induction.certificate

    def __str__(self) -> str:
        who = f"{self.proofs[-1].mechanism} under {self.proofs[-1].mechanism.adjacency}"
        proved = f"{self.epsilon:.6g}-DP is proved" if math.isfinite(self.epsilon) else "no alignment found"
        return f"{who}: {proved} {self.scope}"


def prove_sizes(
    mechanism: Mechanism | Function, size: int | None = None, *, seconds: float = math.inf, **arguments: Any
) -> ProofForSizes:
    """Proofs for all sizes from 1 to this one, and for every size if an induction over the queries goes through.

    Cut short, the proofs of the sizes until then; CutShort where there is none.
    """
    bound = as_mechanism(mechanism, **arguments).stating(size=size)
    return contained(lambda reporter: _proofs(bound, reporter), Deadline(seconds), known=(bound,))


def _proofs(mechanism: Mechanism, reporter: Reporter) -> ProofForSizes:
    proofs: list[Proof] = []
    for size in range(1, mechanism.size + 1):
        proofs.append(prove(mechanism, size))
        reporter.best(ProofForSizes(tuple(proofs), None, "cut short", finished=False))
    try:
        return ProofForSizes(tuple(proofs), prove_for_every_size(mechanism))
    except NotInductive as reason:
        return ProofForSizes(tuple(proofs), None, str(reason))
