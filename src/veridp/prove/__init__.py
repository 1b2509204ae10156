"""Alignments, certificates, their independent checker. Imports program, and no other engine."""

import sys
from types import ModuleType
from typing import Any

from veridp.prove.proof import Proof, ProofUpTo, prove, prove_up_to

__all__ = ["Proof", "ProofUpTo", "prove", "prove_up_to"]


class _Callable(ModuleType):
    """`veridp.prove` is this package, and can be called as the function of that name."""

    def __call__(self, *arguments: Any, **named: Any) -> Proof:
        return prove(*arguments, **named)


sys.modules[__name__].__class__ = _Callable
