"""Verifiable local DP: a client proves that it perturbed honestly, without revealing its value.

Harmless opening (Song, Xu and Zhu 2023): the client commits to a vector whose composition is its perturbation, an
entry is selected that neither side can choose, and the client opens as much as shows that the composition was due.
`Task` says what is collected; `Client` and `Session` are the two sides; `service/` runs them over HTTP.
"""

from __future__ import annotations

from veridp.collect.attributes import SRSMP, SRSPL
from veridp.collect.client import Client, FileVault, MemoryVault
from veridp.collect.commitments import SCHEMES, scheme
from veridp.collect.harmless import Harmless, Rates, rates
from veridp.collect.messages import Reason, Refused
from veridp.collect.protocols import GRRHO, PMHO, SRHO, VGRR, VOLH, VOUE
from veridp.collect.task import MECHANISMS, Session, SessionStage, Task, Verifier

__all__ = [
    "GRRHO",
    "MECHANISMS",
    "PMHO",
    "SCHEMES",
    "SRHO",
    "SRSMP",
    "SRSPL",
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
    "SessionStage",
    "Task",
    "Verifier",
    "rates",
    "scheme",
]
