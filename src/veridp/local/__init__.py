"""Local differential privacy: oracles and their estimates, attacks on collections, and defences.

`oracle` says what every oracle can do, `oracles/` has them by family, `poisoning/` the attacks, `defences/` what
helps against them, `study/` the evaluation. Only the command line and the reports import this folder.
"""

from __future__ import annotations

from veridp.local import defences, poisoning, postprocess
from veridp.local.attributes import SMP, SPL, KeyValue
from veridp.local.combiner import Combiner, CountedReports, beam_combiner, count_parquet, from_rows, spark_counts
from veridp.local.frequency import GRR, OUE, SUE, Hadamard, SubsetSelection
from veridp.local.hashing import OLH, RAPPOR, RapporDevice
from veridp.local.means import SR, BinnedGRR, LaplaceMean, MeanOracle
from veridp.local.oracle import Counts, Estimate, FrequencyOracle, Labelled, Oracle, PureOracle
from veridp.local.piecewise import HM, PM, Moments
from veridp.local.plan import choose
from veridp.local.postprocess import maximum_likelihood

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
    "Combiner",
    "CountedReports",
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
    "beam_combiner",
    "choose",
    "count_parquet",
    "defences",
    "from_rows",
    "maximum_likelihood",
    "poisoning",
    "postprocess",
    "spark_counts",
]
