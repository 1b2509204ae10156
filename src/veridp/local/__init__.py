"""Local differential privacy: oracles and their estimates, attacks on collections, and defences.

`oracle` says what every oracle can do, `oracles/` has them by family, `poisoning/` the attacks, `defences/` what
helps against them, `study/` the evaluation. Only the command line and the reports import this folder.
"""

from __future__ import annotations

from veridp.local import defences, poisoning, postprocess
from veridp.local.estimate import Counts, Estimate
from veridp.local.oracle import FrequencyOracle, Labelled, Oracle, PureOracle
from veridp.local.oracles.attributes import SMP, SPL, KeyValue
from veridp.local.oracles.binned import BinnedGRR
from veridp.local.oracles.bloom import RAPPOR, RapporDevice
from veridp.local.oracles.frequency import GRR, OUE, SUE, SubsetSelection
from veridp.local.oracles.hadamard import Hadamard
from veridp.local.oracles.hashing import OLH
from veridp.local.oracles.means import HM, PM, SR, LaplaceMean, MeanOracle, Moments
from veridp.local.plan import choose

__all__ = [
    "GRR",
    "HM",
    "OLH",
    "OUE",
    "PM",
    "RAPPOR",
    "SMP",
    "SPL",
    "SR",
    "SUE",
    "BinnedGRR",
    "Counts",
    "Estimate",
    "FrequencyOracle",
    "Hadamard",
    "KeyValue",
    "Labelled",
    "LaplaceMean",
    "MeanOracle",
    "Moments",
    "Oracle",
    "PureOracle",
    "RapporDevice",
    "SubsetSelection",
    "choose",
    "defences",
    "poisoning",
    "postprocess",
]
