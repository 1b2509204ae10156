"""A mechanism: the plain Python function that its author wrote, with its claim, its adjacency and its arguments."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Collection, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import Any, overload

from veridp.adjacency import Adjacency, Domain, adjacency
from veridp.claim import Claim
from veridp.errors import BadInput

Function = Callable[..., Any]
DEFAULTS: Mapping[str, Any] = {"adjacency": adjacency("linf"), "domain": (-10, 10), "size": 5}
FLOAT_GRAIN = 2.0**-48  # what some dozen additions of probabilities lose in floats, and the grid of uniform draws
# Where set, it is called in place of a mechanism called by name, with the mechanism, the generator and the data.
AROUND_CALLS: ContextVar[Callable[[Mechanism, Any, Any], Any] | None] = ContextVar("AROUND_CALLS", default=None)


@dataclass(frozen=True)
class Mechanism:
    """`function(rng, data, **arguments)`, where `rng` is used as a `numpy.random.Generator`.

    `epsilon` and `delta` are what it claims: a number, or a function of some of its arguments. Without one, the claim
    is the value of the argument named `epsilon` (or `delta`), if there is one. `cost(size, **arguments)` is its true ε
    where known. `vectorised(rng, data, count, **arguments)`, if given, returns `count` outputs at once.

    `adjacency`, `domain` and `size` (the usual length of its input) have defaults; `assumed` names those that were left
    to their default, and `origin` is the target that the mechanism was loaded from.
    """

    function: Function
    epsilon: float | Function | None = None
    delta: float | Function | None = None
    adjacency: Adjacency = None  # type: ignore[assignment]  # None stands for the default
    domain: Domain = field(default=None, hash=False)  # type: ignore[assignment]
    arguments: Mapping[str, Any] = field(default_factory=dict, hash=False)
    cost: Function | None = None
    vectorised: Function | None = None
    size: int = None  # type: ignore[assignment]
    assumed: frozenset[str] = field(default=frozenset(), compare=False)
    origin: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        unset = frozenset(name for name in DEFAULTS if getattr(self, name) is None)
        for name in unset:
            object.__setattr__(self, name, DEFAULTS[name])
        object.__setattr__(self, "assumed", self.assumed | unset)
        self._check_settings()
        accepted = self._parameters()
        for name in self.arguments:
            if accepted is not None and name not in accepted:
                known = ", ".join(accepted) or "none"
                raise BadInput(f"{self.name} takes no argument {name!r}; its arguments are: {known}")

    def _check_settings(self) -> None:
        for name in ("epsilon", "delta"):
            claimed = getattr(self, name)
            if claimed is not None and not callable(claimed):
                Claim(**{"epsilon": 0.0, name: claimed})
        if isinstance(self.size, bool) or not isinstance(self.size, Integral) or self.size < 1:
            raise BadInput(f"size must be an integer >= 1, got {self.size!r}")
        if not isinstance(self.domain, Collection) or isinstance(self.domain, str | Mapping) or not len(self.domain):
            raise BadInput(f"domain must be a pair (low, high) or a list of values, got {self.domain!r}")
        if any(isinstance(value, float) and not math.isfinite(value) for value in self.domain):
            raise BadInput(f"domain = {self.domain!r} has to be finite; give a pair such as (-10, 10), or a list")
        if isinstance(self.domain, tuple) and len(self.domain) == 2:
            low, high = self.domain
            if isinstance(low, Real) and isinstance(high, Real) and not low < high:
                raise BadInput(f"domain = {self.domain!r} is empty; give a pair (low, high) with low < high")
        if not isinstance(self.adjacency, Adjacency):
            raise BadInput(f"adjacency must be an Adjacency object, got {self.adjacency!r}")

    def _parameters(self) -> dict[str, inspect.Parameter] | None:
        """The parameters after `rng` and `data`, by name; None where anything goes or nothing can be known."""
        try:
            parameters = list(inspect.signature(self.function).parameters.values())
        except (TypeError, ValueError):
            return None
        positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        if len(positional) < 2 and not any(p.kind is p.VAR_POSITIONAL for p in parameters):
            raise BadInput(
                f"{self.name}{inspect.signature(self.function)} is not a mechanism; "
                f"its first two parameters must be rng (a numpy Generator) and the data"
            )
        if inspect.iscoroutinefunction(self.function) or inspect.isgeneratorfunction(self.function):
            raise BadInput(f"{self.name} is async or a generator; give a function that returns its output")
        if any(p.kind is p.VAR_KEYWORD for p in parameters):
            return None
        named = positional[2:] + [p for p in parameters if p.kind is p.KEYWORD_ONLY]
        return {p.name: p for p in named}

    def takes(self, name: str) -> bool:
        """Whether its function has a parameter of this name."""
        return name in (self._parameters() or {})

    @property
    def name(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__)

    @property
    def summary(self) -> str:
        """The first line of the function's docstring."""
        return (inspect.getdoc(self.function) or "").partition("\n")[0]

    @property
    def values(self) -> dict[str, Any]:
        """All its arguments: the bound ones, and the defaults of the rest."""
        defaults = {
            name: p.default
            for name, p in (self._parameters() or {}).items()
            if p.default is not inspect.Parameter.empty
        }
        return defaults | dict(self.arguments)

    @property
    def claim(self) -> Claim | None:
        """What it claims with its present arguments; None where it claims nothing."""
        epsilon, delta = self._claimed("epsilon"), self._claimed("delta")
        return None if epsilon is None else Claim(epsilon, 0.0 if delta is None else delta)

    def _claimed(self, name: str) -> float | None:
        claimed = getattr(self, name)
        if callable(claimed):
            claimed = self._evaluate(claimed, self.values)
        elif claimed is None:
            claimed = self.values.get(name)
        if claimed is not None and not isinstance(claimed, Real):
            raise BadInput(f"{self.name} claims {name} = {claimed!r}, which is not a number; set {name}=…")
        return None if claimed is None else float(claimed)

    def bind(self, **arguments: Any) -> Mechanism:
        """The same mechanism with these arguments set.

        >>> def coin(rng, data, *, p=0.5): return rng.random() < p
        >>> Mechanism(coin).bind(p=0.25).values
        {'p': 0.25}
        """
        return replace(self, arguments={**self.arguments, **arguments}) if arguments else self

    def claiming(self, epsilon: float | None = None, delta: float | None = None) -> Mechanism:
        """The same mechanism at these budgets: set as its arguments of these names, or claimed where it has none."""
        Claim(0.0 if epsilon is None else epsilon, 0.0 if delta is None else delta)  # an error where these are none
        claimed: dict[str, Any] = {}
        arguments: dict[str, Any] = {}
        for name, budget in (("epsilon", epsilon), ("delta", delta)):
            if budget is not None:
                (arguments if self.takes(name) else claimed)[name] = budget
        return replace(self, **claimed).bind(**arguments)

    def stating(
        self, *, adjacency: str | Adjacency | None = None, domain: Domain | None = None, size: int | None = None
    ) -> Mechanism:
        """The same mechanism with these settings, which are then no longer assumed.

        >>> sorted(Mechanism(lambda rng, data: data).stating(adjacency="l1", size=2).assumed)
        ['domain']
        """
        relation = None if adjacency is None else _adjacency(adjacency)
        stated = {"adjacency": relation, "domain": domain, "size": size}
        stated = {name: value for name, value in stated.items() if value is not None}
        return replace(self, **stated, assumed=self.assumed - stated.keys()) if stated else self  # type: ignore[arg-type]

    @property
    def assumptions(self) -> dict[str, object]:
        """The settings that nobody stated, with the defaults that stand in for them."""
        settings = {"adjacency": str(self.adjacency), "size": self.size, "domain": self.domain}
        return {name: value for name, value in settings.items() if name in self.assumed}

    @property
    def probability_error(self) -> float:
        """How far off its own probabilities may be, absolutely, because it rounds; 0 for an author's function.

        Objects of libraries compute probabilities in floats and add them up to thresholds for uniform draws, which lie
        on a grid of floats too.
        """
        return FLOAT_GRAIN if hasattr(self.function, "library") else 0.0

    def missing(self) -> list[str]:
        """The arguments without a value: neither bound nor with a default."""
        return [name for name in self._parameters() or {} if name not in self.values]

    def bound(self) -> Function:
        """The function of `(rng, data)` alone."""
        if missing := self.missing():
            raise BadInput(
                f"{self.name} needs a value for {', '.join(missing)}; give {missing[0]}=…, or --arg {missing[0]}=…"
            )
        return functools.partial(self.function, **self.arguments) if self.arguments else self.function

    def true_epsilon(self, size: int, **arguments: Any) -> float | None:
        """Its true privacy cost for inputs of this size, from the literature or by hand; None where not known."""
        if self.cost is None:
            return None
        return float(self._evaluate(self.cost, {**self.bind(**arguments).values, "size": size}))

    def keeps_claim(self, size: int | None = None, **arguments: Any) -> bool | None:
        """Whether its true cost is within its claim, up to rounding; None where either is not known.

        >>> Mechanism(lambda rng, data, epsilon=1.0: data, cost=lambda size, epsilon: size * epsilon).keeps_claim(2)
        False
        """
        claim = self.bind(**arguments).claim
        true_epsilon = self.true_epsilon(self.size if size is None else size, **arguments)
        if claim is None or true_epsilon is None:
            return None
        return claim.covers(true_epsilon)

    def _evaluate(self, formula: Function, values: Mapping[str, Any]) -> Any:
        """The formula, a claim or a cost, at those of the values that it names."""
        parameters = inspect.signature(formula).parameters.values()
        lacking = [p.name for p in parameters if p.name not in values and p.default is p.empty]
        if lacking:
            raise BadInput(f"the claim or cost of {self.name} depends on {', '.join(lacking)}; give {lacking[0]}=…")
        return formula(**{p.name: values[p.name] for p in parameters if p.name in values})

    def __call__(self, rng: Any, data: Any, **arguments: Any) -> Any:
        around = AROUND_CALLS.get()
        if around is not None:
            return around(self.bind(**arguments), rng, data)
        return self.function(rng, data, **{**self.arguments, **arguments})

    def __str__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        return f"{self.name}({given})" if given else self.name


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
) -> Mechanism | Callable[[Function], Mechanism]:
    """A decorator, with or without parentheses, that adds a claim and settings to a function, which stays as it is.

    What is not stated is assumed: adjacency "linf", domain (-10, 10), size 5. Verdicts say so.
    """
    if function is not None and not callable(function):
        raise BadInput(f"veridp.mechanism takes named settings only, got {function!r}; write epsilon=…, adjacency=…")
    relation = None if adjacency is None else _adjacency(adjacency)

    def decorate(function: Function) -> Mechanism:
        made = Mechanism(function, epsilon=epsilon, delta=delta, cost=cost, vectorised=vectorised)
        return made.stating(adjacency=relation, domain=domain, size=size)

    return decorate if function is None else decorate(function)


_adjacency = adjacency  # parameters of the same name hide it
