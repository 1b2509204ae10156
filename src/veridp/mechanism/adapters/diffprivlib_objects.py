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
from veridp.mechanism.adapters.worst_pairs import extreme_pairs, farthest_pairs
from veridp.mechanism.declared import Mechanism


def is_diffprivlib(found: Any) -> bool:
    """Whether this is a mechanism or a model of diffprivlib; asks its class alone, so that nothing is imported."""
    modules = {kind.__module__ for kind in type(found).__mro__}
    return "diffprivlib.mechanisms.base" in modules or _is_model(found)


def _is_model(found: Any) -> bool:
    return any(kind.__module__.startswith("diffprivlib.models.") for kind in type(found).__mro__)


def _is_tool(found: Any) -> bool:
    return inspect.isfunction(found) and found.__module__.startswith("diffprivlib.tools.")


def diffprivlib(machine: Any, **options: Any) -> Mechanism:
    """The object of diffprivlib as a mechanism: a mechanism with its (ε, δ) and sensitivity, a tool, or a model.

    A tool is given with its arguments, as in `diffprivlib(tools.mean, epsilon=1.0, bounds=(0, 10))`; the data are its
    array. A model is fitted to the data, rows that end with the target where it has one, and releases the numbers that
    it learnt, or those of the attributes that `released` names.

    The object is copied, and its copy draws from `rng`: results follow from the seed, and an object that is affine in
    its draws can be explored like any function. The input of one that chooses among candidates is their utilities;
    if it is `monotonic`, all of them move the same way.
    """
    if _is_tool(machine):
        return _tool(machine, options)
    if not is_diffprivlib(machine):
        raise BadInput(f"{machine!r} is not of diffprivlib; give one of its mechanisms, tools or models")
    if _is_model(machine):
        return _model(machine, options)
    known = {"worst": farthest_pairs, **_diffprivlib_input(machine, options)}
    declared = Mechanism(_Randomise(machine), **resolved(known | options))
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
    if kind == "Vector":  # noise for the gradient of an average of n losses, of which one is replaced
        step = 2 * float(machine.data_sensitivity) / machine.n
        relation = adjacency("l1") if step == 1 else Scaled(adjacency("l1"), step)
        inputs = {"domain": (-10 * step, 10 * step), "assumed": frozenset({"domain"})}
        return known | {"size": machine.dimension, "adjacency": relation} | inputs
    if not hasattr(machine, "sensitivity"):
        if "adjacency" in options:
            return known
        raise BadInput(f"{kind} has no sensitivity, so its neighbours are unknown; give adjacency=… and domain=…")
    sensitivity = float(machine.sensitivity)
    if not sensitivity > 0:
        raise BadInput(f"{kind}: sensitivity must be > 0 for data to have neighbours, got {sensitivity:g}")
    relation = adjacency("monotone" if getattr(machine, "monotonic", False) else "l1" if kind == "Bingham" else "linf")
    known["adjacency"] = relation if sensitivity == 1 else Scaled(relation, sensitivity)
    usual = (-10 * sensitivity, 10 * sensitivity)
    if kind == "Bingham":
        return known | {"size": 2, "domain": (0.0, usual[1]), "assumed": frozenset({"domain", "size"})}
    if hasattr(machine, "utility"):
        return known | {"size": len(machine.utility), "domain": usual, "assumed": frozenset({"domain"})}
    ends = getattr(machine, "lower", -math.inf), getattr(machine, "upper", math.inf)
    low, high = (end if math.isfinite(end) else default for end, default in zip(ends, usual, strict=True))
    known["assumed"] = frozenset() if all(map(math.isfinite, ends)) else frozenset({"domain"})
    whole = any("Geometric" in base.__name__ or "Discrete" in base.__name__ for base in type(machine).__mro__)
    return known | {"domain": range(math.ceil(low), math.floor(high) + 1) if whole else (low, high)}


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
        if self.__name__ == "Vector":  # randomises a function: here a linear one, of which it releases the gradient
            gradient = np.array(data, dtype=float)
            start = np.zeros(len(gradient))
            return machine.randomise(lambda point: (float(gradient @ point), gradient.copy()))(start)[1]
        if self.__name__ == "Bingham":  # randomises the first eigenvector of a matrix: here of a diagonal one
            return machine.randomise(np.diag(np.array(data, dtype=float)))
        return machine.randomise(None if chooses else single(data))

    def _with_utility(self, utility: list[float]) -> Any:
        names = inspect.getfullargspec(type(self.machine)).kwonlyargs
        return type(self.machine)(**{name: getattr(self.machine, name) for name in names} | {"utility": utility})


# --------------------------------------------------------------------------------------------------- tools and models


def _tool(function: Any, options: dict[str, Any]) -> Mechanism:
    """The tool on an array, of a length that all know; a histogram counts records that come and go."""
    settings = {name: options.pop(name) for name in ("adjacency", "domain", "size") if name in options}
    arguments = {"epsilon": 1.0, **options}
    is_histogram = function.__name__.startswith("histogram")
    known: dict[str, Any] = {"adjacency": "add-remove" if is_histogram else "replace", "worst": extreme_pairs}
    bounds = [0, 1] if function.__name__ == "count_nonzero" else arguments.get("range" if is_histogram else "bounds")
    if bounds is None and "domain" not in settings:
        raise BadInput(f"diffprivlib's {function.__name__} needs {'range' if is_histogram else 'bounds'}=(low, high)")
    if "domain" not in settings:
        known["domain"] = bounds if isinstance(bounds, list) else _widened(bounds)

    def tool(data: Any, random_state: np.random.RandomState) -> Any:
        found = function(np.asarray(data), random_state=random_state, **arguments)
        return found[0] if is_histogram else found

    tool.__name__ = tool.__qualname__ = function.__name__
    tool.library = _Randomise.library  # type: ignore[attr-defined]  # which rounds probabilities
    return Mechanism(tool, float(arguments["epsilon"]), **resolved(known | settings))


def _widened(bounds: Any) -> tuple[float, float]:
    """An interval of twice the width around the bounds: records are clipped to these, and an audit has to see it."""
    try:
        low, high = (float(end) for end in bounds)
    except (TypeError, ValueError):
        raise BadInput(f"bounds = {bounds!r} are not those of one column; give domain=[…] with some records") from None
    return low - (high - low) / 2, high + (high - low) / 2


def _model(model: Any, options: dict[str, Any]) -> Mechanism:
    """What the model learns from rows, of a number that all know."""
    name, released = type(model).__name__, options.pop("released", None)
    if "domain" not in options:
        raise BadInput(f"{name} is fitted to rows; give some as domain=[(1.0, 2.0, 0), …], the target last")
    target = inspect.signature(model.fit).parameters.get("y")
    has_target = target is not None and target.default is target.empty
    parameters = model.get_params()

    def fitted(data: Any, random_state: np.random.RandomState) -> Any:
        rows = np.asarray(data, dtype=float)
        fresh = type(model)(**{**parameters, "random_state": random_state, "accountant": None})
        fresh.fit(rows[:, :-1], rows[:, -1]) if has_target else fresh.fit(rows)
        names = released or sorted(key for key in vars(fresh) if key.endswith("_") and key not in PUBLIC)
        return {key: np.asarray(getattr(fresh, key), dtype=float).tolist() for key in names}

    fitted.__name__ = fitted.__qualname__ = name
    fitted.library = _Randomise.library  # type: ignore[attr-defined]  # which rounds probabilities
    return Mechanism(
        fitted, float(model.epsilon), **resolved({"adjacency": "replace", "worst": extreme_pairs, **options})
    )


PUBLIC = ("n_features_in_", "n_samples_", "n_iter_", "feature_names_in_", "n_samples_seen_")  # not learnt from records
