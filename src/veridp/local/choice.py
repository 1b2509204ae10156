"""Which oracle to use for d values at ε: the one of least variance."""

from __future__ import annotations

import math

from veridp.errors import BadInput
from veridp.local.oracle import FrequencyOracle
from veridp.local.oracles.direct import GRR
from veridp.local.oracles.hadamard import Hadamard
from veridp.local.oracles.hashing import OLH
from veridp.local.oracles.subset import SubsetSelection
from veridp.local.oracles.unary import OUE, SUE

CANDIDATES: tuple[type[FrequencyOracle], ...] = (GRR, Hadamard, OLH, OUE, SubsetSelection, SUE)
VARIANCE_TOLERANCE = 1e-6  # relative: variances closer than this are equal


def choose(d: int, epsilon: float, *, report_bits: float = math.inf) -> FrequencyOracle:
    """The frequency oracle of least variance for d values, among those whose reports have at most so many bits.

    The variance is that of the estimate of a rare value; where it is the same, the smaller report decides.

    >>> choose(4, 1.0).name, choose(1000, 1.0, report_bits=70).name
    ('grr', 'olh')
    """
    fitting = [oracle for kind in CANDIDATES if (oracle := kind(d, epsilon)).report_bits <= report_bits]  # type: ignore[call-arg]
    if not fitting:
        raise BadInput(
            f"no oracle for {d} values has reports of {report_bits:g} bits; GRR needs {GRR(d, epsilon).report_bits}"
        )
    least = min(float(oracle.variance(1)) for oracle in fitting)
    best = [oracle for oracle in fitting if float(oracle.variance(1)) <= least * (1 + VARIANCE_TOLERANCE)]
    return min(best, key=lambda oracle: oracle.report_bits)
