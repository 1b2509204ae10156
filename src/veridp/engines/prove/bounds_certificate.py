"""A proof by bounds written down: cases with their events, and between what the density of each output lies.

docs/certificates.md tells the format field by field.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from veridp.engines.prove.cases import DataCase
from veridp.engines.prove.certificate import EventWriter, Json, decimal_above, header
from veridp.engines.prove.densities import DensitySlab
from veridp.errors import BadInput

if TYPE_CHECKING:
    from veridp.engines.prove.bounds import BoundedProof


def bounds_certificate_of(proof: BoundedProof) -> dict[str, Json]:
    """The certificate of the proof, its ε rounded up; raises BadInput where it proves nothing.

    Nothing is checked here: this is left to `veridp_check.checker`, which believes nothing of what is written.
    """
    if math.isinf(proof.epsilon):
        raise BadInput(f"{proof}: there is nothing to certify; prove another mechanism or domain")
    writer = EventWriter()
    cases: list[Json] = [_case(writer, case, proof.ends is None) for case in proof.cases]
    epsilon = decimal_above(proof.epsilon) if proof.epsilon else Fraction(0)
    return {
        **header("bounds", proof.mechanism, proof.size, proof.ends, epsilon),
        "noises": writer.noises(),
        "cases": cases,
        "bounds": [
            {"output": str(each.output), "slabs": [_slab(slab) for slab in each.slabs]} for each in proof.densities
        ],
    }


def _case(writer: EventWriter, case: DataCase, by_value: bool) -> Json:
    events: list[Json] = [
        {"output": str(event.output), **writer.event(event)} for part in case.parts for event in part.events
    ]
    return {"value": repr(case.value) if by_value else None, "events": events}


def _slab(slab: DensitySlab) -> Json:
    return {"to": None if slab.stop is None else str(slab.stop), "least": str(slab.least), "most": str(slab.most)}
