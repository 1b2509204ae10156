"""Proofs beyond one size: for every size up to one, and for every size at all where an induction goes through."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from veridp.budget import Deadline
from veridp.budget.child_process import Reporter, contained
from veridp.claim import Claim, Interval
from veridp.engines.prove.alignment import Proof
from veridp.engines.prove.induction import Induction, prove_for_every_size
from veridp.engines.prove.search import prove
from veridp.errors import BadInput, NotInductive
from veridp.mechanism import Function, Mechanism, as_mechanism


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
