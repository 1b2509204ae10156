"""From "each of these mechanisms is private" to "this release is private": concepts, building blocks, trees, budgets.

Imports `exact`, which gives the losses between two inputs, and no other engine.
"""

from veridp.accounting import mechanisms
from veridp.accounting.account import Account, account
from veridp.accounting.composition import (
    ComposedBounds,
    Indistinguishability,
    Partition,
    flaw,
    line,
    parallel,
    post_processed,
    sequential,
)
from veridp.accounting.lattice import Composition, Part
from veridp.accounting.ledger import Ledger
from veridp.accounting.mechanisms import calibrated, private
from veridp.accounting.release import parse_release, part, read_release, recording, releases_of
from veridp.accounting.sensitivity import Sensitivity, sensitivity
from veridp.accounting.tree import (
    Bound,
    GuaranteeBasis,
    Leaf,
    Parallel,
    PostProcessed,
    Repeated,
    Sequential,
    Subsampled,
)

__all__ = [
    "Account",
    "Bound",
    "ComposedBounds",
    "Composition",
    "GuaranteeBasis",
    "Indistinguishability",
    "Leaf",
    "Ledger",
    "Parallel",
    "Part",
    "Partition",
    "PostProcessed",
    "Repeated",
    "Sensitivity",
    "Sequential",
    "Subsampled",
    "account",
    "calibrated",
    "flaw",
    "line",
    "mechanisms",
    "parallel",
    "parse_release",
    "part",
    "post_processed",
    "private",
    "read_release",
    "recording",
    "releases_of",
    "sensitivity",
    "sequential",
]
