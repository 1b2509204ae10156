"""How many values an honest report supports: its weight, and the distribution of that."""

from __future__ import annotations

from functools import singledispatch

import numpy as np

from veridp.errors import BadInput
from veridp.local.estimate import Floats
from veridp.local.oracle import PureOracle
from veridp.local.oracles.frequency import GRR, OUE, SUE, SubsetSelection
from veridp.local.oracles.hashing import OLH


@singledispatch
def weight_law(oracle: PureOracle) -> Floats:
    """P[an honest report supports k values], for k = 0..d. It does not depend on the user's value."""
    raise BadInput(f"the weights of {oracle} are not available; use GRR, SUE, OUE, OLH or subset selection")


@weight_law.register
def _one(oracle: GRR) -> Floats:
    return _always(1, oracle.size)


@weight_law.register
def _fixed(oracle: SubsetSelection) -> Floats:
    return _always(oracle.count, oracle.size)


@weight_law.register(SUE)
@weight_law.register(OUE)
@weight_law.register(OLH)
def _independent(oracle: PureOracle) -> Floats:
    """The own value with rate p, each of d - 1 others with rate q, independently (for OLH: over the hash functions)."""
    from scipy.stats import binom

    others = binom.pmf(np.arange(oracle.size), oracle.size - 1, oracle.q)
    law = np.zeros(oracle.size + 1)
    law[:-1] += (1 - oracle.p) * others
    law[1:] += oracle.p * others
    return law


def _always(weight: int, size: int) -> Floats:
    law = np.zeros(size + 1)
    law[weight] = 1.0
    return law
