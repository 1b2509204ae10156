"""Verifiable local DP: a client proves that it perturbed honestly, without telling its value.

Harmless opening (Song, Xu and Zhu 2023): the client commits to a vector whose composition is its perturbation, an
entry is selected that neither side can choose, and the client opens as much as shows that the composition was due.
`Task` says what is collected; `Client` and `Session` are the two sides; `service/` runs them over HTTP.
"""

from __future__ import annotations

from veridp.local.verifiable.client import Client
from veridp.local.verifiable.commitments import SCHEMES, scheme
from veridp.local.verifiable.frequency import VGRR, VOLH, VOUE
from veridp.local.verifiable.harmless import Harmless
from veridp.local.verifiable.numeric import GRRHO, PMHO, SRHO
from veridp.local.verifiable.rates import Rates, rates
from veridp.local.verifiable.reasons import Reason, Refused
from veridp.local.verifiable.session import Session, Stage
from veridp.local.verifiable.task import MECHANISMS, Task
from veridp.local.verifiable.vault import FileVault, MemoryVault
from veridp.local.verifiable.verify import Verifier

__all__ = [
    "GRRHO",
    "MECHANISMS",
    "PMHO",
    "SCHEMES",
    "SRHO",
    "VGRR",
    "VOLH",
    "VOUE",
    "Client",
    "FileVault",
    "Harmless",
    "MemoryVault",
    "Rates",
    "Reason",
    "Refused",
    "Session",
    "Stage",
    "Task",
    "Verifier",
    "rates",
    "scheme",
]
