"""The decorator of mechanisms, and what passes for a mechanism wherever one is asked for."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, overload

from veridp.adjacency import Adjacency, Domain, GivenPairs
from veridp.adjacency import adjacency as relation_named
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
    if adapters.is_pure_ldp(mechanism):
        return adapters.pure_ldp(mechanism)
    if inspect.isfunction(getattr(mechanism, "py_func", None)):  # compiled by numba: the function that was compiled
        return Mechanism(mechanism.py_func)
    if not callable(mechanism) or isinstance(mechanism, type):
        raise BadInput(f"{mechanism!r} is not a mechanism; give a function of {SHAPES}")
    return Mechanism(mechanism)


@overload
def mechanism(function: Function, /) -> Mechanism: ...


@overload
def mechanism(
    *,
    epsilon: float | Function | None = None,
    delta: float | Function | None = None,
    adjacency: str | Adjacency | None = None,
    domain: Domain | None = None,
    cost: Function | None = None,
    vectorised: Function | None = None,
    size: int | None = None,
    rho: float | Function | None = None,
    mu: float | Function | None = None,
    rdp: Any = None,
    tradeoff: Any = None,
) -> Callable[[Function], Mechanism]: ...


def mechanism(
    function: Function | None = None,
    /,
    *,
    epsilon: float | Function | None = None,
    delta: float | Function | None = None,
    adjacency: str | Adjacency | None = None,
    domain: Domain | None = None,
    cost: Function | None = None,
    vectorised: Function | None = None,
    size: int | None = None,
    rho: float | Function | None = None,
    mu: float | Function | None = None,
    rdp: Any = None,
    tradeoff: Any = None,
) -> Mechanism | Callable[[Function], Mechanism]:
    """A decorator, with or without parentheses, that adds a claim and settings to a function, itself unchanged.

    The claim is `epsilon` (and `delta`), or one of `rho`, `mu`, `rdp` and `tradeoff`. What is not stated is assumed:
    adjacency "linf", domain (-10, 10), size 5. Verdicts say so.
    """
    if function is not None and not callable(function):
        raise BadInput(f"veridp.mechanism takes named settings only, got {function!r}; write epsilon=…, adjacency=…")
    relation = None if adjacency is None else relation_named(adjacency)

    def decorate(function: Function) -> Mechanism:
        made = Mechanism(
            function, epsilon, delta, cost=cost, vectorised=vectorised, rho=rho, mu=mu, rdp=rdp, tradeoff=tradeoff
        )
        return made.stating(adjacency=relation, domain=domain, size=size)

    return decorate if function is None else decorate(function)
