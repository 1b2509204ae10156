"""From "each of these mechanisms is private" to "this release is private": concepts, building blocks, trees, budgets.

Imports `exact`, which gives the losses between two inputs, and no other engine.
"""

from veridp.accounting import mechanisms
from veridp.accounting.account import Account, account
from veridp.accounting.composed_function import ComposedBounds, line
from veridp.accounting.composing import parallel, post_processed, sequential
from veridp.accounting.composition import Composition
from veridp.accounting.indistinguishability import Indistinguishability
from veridp.accounting.lattice import Part
from veridp.accounting.ledger import Ledger
from veridp.accounting.mechanisms import calibrated, private
from veridp.accounting.partition import Partition, flaw
from veridp.accounting.recording import part, recording, releases_of
from veridp.accounting.release import parse_release, read_release
from veridp.accounting.sensitivity import Sensitivity, sensitivity
from veridp.accounting.simple import Bound
from veridp.accounting.tree import GuaranteeBasis, Leaf, Parallel, PostProcessed, Repeated, Sequential, Subsampled

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
