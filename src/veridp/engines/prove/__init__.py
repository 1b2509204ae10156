"""Alignments, certificates, their independent checker. Imports no other engine."""

import sys
from types import ModuleType
from typing import Any

from veridp.engines.prove.aggregates.proof import AggregateProof
from veridp.engines.prove.alignment.proof import AlignmentProof, Proof
from veridp.engines.prove.bounds.proof import BoundedProof
from veridp.engines.prove.coupling.proof import CouplingProof
from veridp.engines.prove.induction.proof import Induction, prove_for_every_size
from veridp.engines.prove.search import ProofForSizes, prove, prove_sizes

__all__ = [
    "AggregateProof",
    "AlignmentProof",
    "BoundedProof",
    "CouplingProof",
    "Induction",
    "Proof",
    "ProofForSizes",
    "prove",
    "prove_for_every_size",
    "prove_sizes",
]


class _Callable(ModuleType):
    """`veridp.prove` is this package, and can be called as the function of that name."""

    def __call__(self, *arguments: Any, **named: Any) -> Proof:
        return prove(*arguments, **named)


sys.modules[__name__].__class__ = _Callable
