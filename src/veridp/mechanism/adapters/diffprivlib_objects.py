"""Objects of diffprivlib as mechanisms: its mechanisms, tools and models."""

from __future__ import annotations

import copy
import inspect
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from veridp.adjacency import Scaled, adjacency
from veridp.errors import BadInput
from veridp.mechanism.adapters.foreign import resolved, single, stands_in
from veridp.mechanism.declared import Mechanism


def is_diffprivlib(found: Any) -> bool:
    """Whether this is a mechanism of diffprivlib; asks its class alone, so that nothing is imported."""
    return any(kind.__module__ == "diffprivlib.mechanisms.base" for kind in type(found).__mro__)


def diffprivlib(machine: Any, **options: Any) -> Mechanism:
    """The mechanism object of diffprivlib as a mechanism: its `randomise`, its (ε, δ), inputs its sensitivity apart.

    The object is copied, and its copy draws from `rng`: results follow from the seed, and an object that is affine in
    its draws can be explored like any function. The input of one that chooses among candidates is their utilities;
    if it is `monotonic`, all of them move the same way.
    """
    if not is_diffprivlib(machine):
        raise BadInput(f"{machine!r} is not a diffprivlib mechanism; build one with diffprivlib.mechanisms")
    declared = Mechanism(_Randomise(machine), **resolved(_diffprivlib_input(machine, options) | options))
    example = declared.adjacency.example(declared.size, declared.domain)
    return replace(declared, function=_Randomise(machine, _takes_any_generator(machine, example)))


def _takes_any_generator(machine: Any, example: Any) -> bool:
    """Whether the object is content with NumPy's newer interface, which stand-ins have, on this input."""
    try:
        _Randomise(machine)._drawing_from(np.random.default_rng(0), example)
    except (AttributeError, ValueError, TypeError):
        return False
    return True


def _diffprivlib_input(machine: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Claim, neighbours and domain that the attributes of the object stand for."""
    kind = type(machine).__name__
    if not hasattr(machine, "epsilon"):
        raise BadInput(f"diffprivlib's {kind} wraps a mechanism; give that one, its parent")
    known: dict[str, Any] = {"epsilon": float(machine.epsilon), "delta": float(machine.delta), "size": 1}
    if hasattr(machine, "value0"):
        return known | {"adjacency": "any", "domain": [machine.value0, machine.value1]}
    if hasattr(machine, "_domain_values"):  # categories, among which every two are neighbours
        return known | {"adjacency": "any", "domain": list(machine._domain_values)}
    if kind in NOT_OF_NUMBERS:
        raise BadInput(
            f"diffprivlib's {kind} randomises {NOT_OF_NUMBERS[kind]}; write f(data, n) that makes it from the data and "
            f"returns n outputs as numbers, and use veridp.adapters.batched(f, epsilon=…)"
        )
    if not hasattr(machine, "sensitivity"):
        if "adjacency" in options:
            return known
        raise BadInput(f"{kind} has no sensitivity, so its neighbours are unknown; give adjacency=… and domain=…")
    sensitivity = float(machine.sensitivity)
    if not sensitivity > 0:
        raise BadInput(f"{kind}: sensitivity must be > 0 for data to have neighbours, got {sensitivity:g}")
    relation = adjacency("monotone" if getattr(machine, "monotonic", False) else "linf")
    known["adjacency"] = relation if sensitivity == 1 else Scaled(relation, sensitivity)
    usual = (-10 * sensitivity, 10 * sensitivity)
    if hasattr(machine, "utility"):
        return known | {"size": len(machine.utility), "domain": usual, "assumed": frozenset({"domain"})}
    ends = getattr(machine, "lower", -math.inf), getattr(machine, "upper", math.inf)
    low, high = (end if math.isfinite(end) else default for end, default in zip(ends, usual, strict=True))
    known["assumed"] = frozenset() if all(map(math.isfinite, ends)) else frozenset({"domain"})
    whole = any("Geometric" in base.__name__ or "Discrete" in base.__name__ for base in type(machine).__mro__)
    return known | {"domain": range(math.ceil(low), math.floor(high) + 1) if whole else (low, high)}


NOT_OF_NUMBERS = {"Bingham": "a matrix", "Vector": "a function"}


@dataclass(frozen=True, eq=False)
class _Randomise:
    """`randomise` of a copy of the object that draws from `rng`."""

    machine: Any
    any_generator: bool = True
    library = "diffprivlib"

    @property
    def __name__(self) -> str:
        return type(self.machine).__name__

    def __call__(self, rng: Any, data: Any) -> Any:
        if not stands_in(rng):
            # The same stream of bits behind the older interface, the one that diffprivlib is written for.
            return self._drawing_from(np.random.RandomState(rng.bit_generator), data)
        if not self.any_generator:
            rng.refuse(f"diffprivlib's {self.__name__} wants a RandomState")
        return self._drawing_from(rng, data)

    def _drawing_from(self, source: Any, data: Any) -> Any:
        chooses = hasattr(self.machine, "utility")
        machine = self._with_utility(list(data)) if chooses else copy.copy(self.machine)
        machine._rng = source
        return machine.randomise(None if chooses else single(data))

    def _with_utility(self, utility: list[float]) -> Any:
        names = inspect.getfullargspec(type(self.machine)).kwonlyargs
        return type(self.machine)(**{name: getattr(self.machine, name) for name in names} | {"utility": utility})
