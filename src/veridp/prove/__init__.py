"""Alignments, certificates, their independent checker. Imports program, and no other engine."""

import sys
from types import ModuleType
from typing import Any

from veridp.prove.bounded import BoundedProof
from veridp.prove.coupled import CouplingProof
from veridp.prove.induction import Induction, prove_for_every_size
from veridp.prove.proof import AlignmentProof, Proof
from veridp.prove.search import prove
from veridp.prove.sizes import ProofForSizes, prove_sizes

__all__ = [
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
