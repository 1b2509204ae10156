"""What passes for a mechanism wherever one is asked for."""

from __future__ import annotations

from typing import Any

from veridp.errors import BadInput
from veridp.mechanism import adapters
from veridp.mechanism.declared import Function, Mechanism


def as_mechanism(mechanism: Mechanism | Function | object, **arguments: Any) -> Mechanism:
    """A mechanism from a mechanism, a plain function, or an object of a library, with these arguments set."""
    return _accepted(mechanism).bind(**arguments)


def _accepted(mechanism: Any) -> Mechanism:
    if isinstance(mechanism, Mechanism):
        return mechanism
    if adapters.is_opendp(mechanism):
        return adapters.opendp(mechanism)
    if adapters.is_diffprivlib(mechanism):
        return adapters.diffprivlib(mechanism)
    if not callable(mechanism) or isinstance(mechanism, type):
        raise BadInput(f"{mechanism!r} is not a mechanism; give a function of (rng, data, **arguments)")
    return Mechanism(mechanism)
