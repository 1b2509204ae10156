"""Attacks by users who lie, each with its analytic gain, and what a protocol may forbid them."""

from __future__ import annotations

from veridp.local.poisoning.attack import (
    MGA,
    RIA,
    RPA,
    AdaptiveMGA,
    Attack,
    Attacked,
    CheckedProtocol,
    Freedom,
    FrequencyAttack,
    Unchecked,
)
from veridp.local.poisoning.numeric import (
    IPA,
    OPA,
    FineGrained,
    FineGrainedInput,
    KeyValueAttack,
    LargestInput,
    MeanAttack,
)

__all__ = [
    "IPA",
    "MGA",
    "OPA",
    "RIA",
    "RPA",
    "AdaptiveMGA",
    "Attack",
    "Attacked",
    "CheckedProtocol",
    "FineGrained",
    "FineGrainedInput",
    "Freedom",
    "FrequencyAttack",
    "KeyValueAttack",
    "LargestInput",
    "MeanAttack",
    "Unchecked",
]
