"""What passes for a mechanism wherever one is asked for."""

from __future__ import annotations

from typing import Any

from veridp.adjacency import GivenPairs
from veridp.errors import BadInput
from veridp.mechanism import adapters
from veridp.mechanism.declared import DEFAULTS, SHAPES, Function, Mechanism


def as_mechanism(mechanism: Mechanism | Function | object, **arguments: Any) -> Mechanism:
    """A mechanism from a mechanism, a plain function, or an object of a library, with these arguments set.

    All functions that take `**arguments` pass them here, so all take `adjacency=`, `domain=` and `size=`: these are
    arguments of a mechanism whose function has parameters of these names, and settings of any other. A function that
    names one of them in its own signature means the setting. `pairs=[(left, right), …]` in place of them names all
    neighbours that count.
    """
    accepted = _accepted(mechanism)
    if "pairs" in arguments and not accepted.takes("pairs"):
        accepted = accepted.stating(adjacency=GivenPairs(arguments.pop("pairs")), size=1)
    settings = {name: arguments.pop(name) for name in DEFAULTS if name in arguments and not accepted.takes(name)}
    return accepted.bind(**arguments).stating(**settings)


def _accepted(mechanism: Any) -> Mechanism:
    if isinstance(mechanism, Mechanism):
        return mechanism
    if adapters.is_opendp(mechanism):
        return adapters.opendp(mechanism)
    if adapters.is_diffprivlib(mechanism):
        return adapters.diffprivlib(mechanism)
    if not callable(mechanism) or isinstance(mechanism, type):
        raise BadInput(f"{mechanism!r} is not a mechanism; give a function of {SHAPES}")
    return Mechanism(mechanism)
