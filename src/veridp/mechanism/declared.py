"""A mechanism: the plain Python function that its author wrote, with its claim, its adjacency and its arguments."""

from __future__ import annotations

import copy
import functools
import inspect
import math
import random
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from types import MethodType
from typing import Any

import numpy as np
from numpy.random import Generator

from veridp.adjacency import Adjacency, Domain, Pair, Rows, is_frame, is_interval
from veridp.adjacency import adjacency as relation_named
from veridp.claim import MAKERS, Claim, only_claim
from veridp.errors import BadInput, VeridpError
from veridp.mechanism.randomness import Sources, adopted, seeded
from veridp.mechanism.sources import is_drawn_from, sources_of, undisturbed
from veridp.notions import Notion

Function = Callable[..., Any]
DEFAULTS: Mapping[str, Any] = {"adjacency": relation_named("linf"), "domain": (-10, 10), "size": 5}
FLOAT_GRAIN = 2.0**-48  # what some dozen additions of probabilities lose in floats, and the grid of uniform draws
# Where set, it is called in place of a mechanism called by name, with the mechanism, the generator and the data.
AROUND_CALLS: ContextVar[Callable[[Mechanism, Any, Any], Any] | None] = ContextVar("AROUND_CALLS", default=None)


GENERATOR_NAMES = frozenset(
    (
        "rng", "prng", "np_rng", "seed_rng", "rand_gen", "random_generator", "generator", "gen", "rand", "rnd",
        "random", "random_state", "rand_state", "rs",
    )
)  # fmt: skip
GENERATOR_KINDS: Mapping[str, Any] = {
    "Generator": np.random.Generator,
    "RandomState": np.random.RandomState,
    "Random": random.Random,
    "SystemRandom": random.SystemRandom,
}
SHAPES = "(rng, data), (data, rng) or (data), with rng a generator; further parameters are arguments"


@dataclass(frozen=True)
class Roles:
    """Which of a function's parameters is its generator, of which kind, and which its data."""

    data: str
    generator: str | None = None
    kind: Any = np.random.Generator
    natural: bool = False  # whether it is called as function(rng, data)
    keyword: bool = False  # whether the generator is given by name


@dataclass(frozen=True)
class Mechanism:
    """`function(rng, data, **arguments)`, where `rng` is used as a `numpy.random.Generator`.

    The generator may also come after the data, or be missing: then the function draws from sources of its own. Its
    parameter is known by its name (`rng`, `random_state`, …) or annotation, else it is the first of two. A method runs
    on a fresh copy of its object each time.

    `epsilon` and `delta` are what it claims: a number, or a function of some of its arguments. Without one, the claim
    is the value of the argument named `epsilon` (or `delta`), if there is one. In their place it may claim one of `rho`
    (zCDP), `mu` (Gaussian DP), `rdp` (a pair (α, ε), several, or a function of α and arguments) and `tradeoff` (points
    (α, β), or a function of α and arguments). `cost(size, **arguments)` is its true ε where known.
    `vectorised(rng, data, count, **arguments)`, if given, returns `count` outputs at once.

    `adjacency`, `domain` and `size` (the usual length of its input) have defaults; `assumed` names those that were left
    to their default, and `origin` is the target that the mechanism was loaded from. `worst(mechanism)`, if given, lists
    the neighbours that are tried first.
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
    rho: float | Function | None = None
    mu: float | Function | None = None
    rdp: Any = field(default=None, hash=False)
    tradeoff: Any = field(default=None, hash=False)
    worst: Callable[[Mechanism], Iterable[Pair]] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        unset = frozenset(name for name in DEFAULTS if getattr(self, name) is None)
        for name in unset:
            object.__setattr__(self, name, DEFAULTS[name])
        object.__setattr__(self, "assumed", self.assumed | unset)
        if is_frame(self.domain):
            object.__setattr__(self, "domain", Rows(self.domain))
        self._check_settings()
        accepted = self.parameters
        for name in self.arguments:
            if accepted is not None and name not in accepted and not self._takes_anything:
                known = ", ".join(accepted) or "none"
                raise BadInput(f"{self.name} takes no argument {name!r}; its arguments are: {known}")

    def _check_settings(self) -> None:
        for name in ("epsilon", "delta"):
            claimed = getattr(self, name)
            if claimed is not None and not callable(claimed):
                Claim(**{"epsilon": 0.0, name: claimed})
        notion = only_claim(**self._stated)
        if notion is not None and not callable(self._stated[notion]):
            MAKERS[notion](self._stated[notion])
        if isinstance(self.size, bool) or not isinstance(self.size, Integral) or self.size < 1:
            raise BadInput(f"size must be an integer >= 1, got {self.size!r}")
        if not isinstance(self.domain, Collection) or isinstance(self.domain, str | Mapping) or not len(self.domain):
            raise BadInput(f"domain must be a pair (low, high) or a list of values, got {self.domain!r}")
        if is_interval(self.domain) and not all(map(math.isfinite, self.domain)):
            raise BadInput(f"domain = {self.domain!r} has to be finite; give a pair such as (-10, 10), or a list")
        if isinstance(self.domain, tuple) and len(self.domain) == 2:
            low, high = self.domain
            if isinstance(low, Real) and isinstance(high, Real) and not low < high:
                raise BadInput(f"domain = {self.domain!r} is empty; give a pair (low, high) with low < high")
        if not isinstance(self.adjacency, Adjacency):
            raise BadInput(f"adjacency must be an Adjacency object, got {self.adjacency!r}")

    @property
    def parameters(self) -> dict[str, inspect.Parameter] | None:
        """The parameters other than the generator and the data, by name; None where none is known."""
        roles, parameters = self.roles, self._signature
        if parameters is None:
            return None
        taken = (roles.generator, roles.data)
        return {
            p.name: p for p in parameters if p.name not in taken and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        }

    @property
    def _takes_anything(self) -> bool:
        return any(p.kind is p.VAR_KEYWORD for p in self._signature or ())

    @property
    def _signature(self) -> list[inspect.Parameter] | None:
        try:
            return list(inspect.signature(self.function).parameters.values())
        except (TypeError, ValueError):
            return None

    @functools.cached_property
    def roles(self) -> Roles:
        """Which of its parameters are the generator and the data; BadInput where it has none for data."""
        parameters = self._signature
        if parameters is None:
            return Roles("data", "rng", natural=True)
        if inspect.iscoroutinefunction(self.function) or inspect.isgeneratorfunction(self.function):
            raise BadInput(f"{self.name} is async or a generator; give a function that returns its output")
        positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        if len(positional) < 2 and any(p.kind is p.VAR_POSITIONAL for p in parameters):
            return Roles("", "", natural=True)
        generator = self._generator(parameters, positional)
        data = next((p for p in positional if p is not generator), None)
        if data is None:
            raise BadInput(
                f"{self.name}{inspect.signature(self.function)} is not a mechanism; give a function of {SHAPES}"
            )
        if generator is None:
            return Roles(data.name)
        natural = [generator, data] == positional[:2]
        keyword = generator not in positional[:2]
        return Roles(data.name, generator.name, _kind(generator), natural, keyword)

    def _generator(
        self, parameters: list[inspect.Parameter], positional: list[inspect.Parameter]
    ) -> inspect.Parameter | None:
        """The generator's parameter: by annotation, by name, or as the first of two that the function does not use
        otherwise."""
        named = [p for p in parameters if _annotated(p)] or [p for p in parameters if p.name in GENERATOR_NAMES]
        if named or len(positional) < 2:
            return named[0] if named else None
        first, second = positional[:2]
        if first.default is first.empty and second.default is not second.empty:
            return None
        draws = first.name.startswith("_") or is_drawn_from(self.function, first.name)
        return first if draws or sources_of(self.function) is None else None

    def takes(self, name: str) -> bool:
        """Whether its function has a parameter of this name."""
        return name in (self.parameters or {})

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
            name: p.default for name, p in (self.parameters or {}).items() if p.default is not inspect.Parameter.empty
        }
        return defaults | dict(self.arguments)

    @property
    def claim(self) -> Claim | None:
        """What it claims with its present arguments; None where it claims nothing."""
        notion = self._notion
        if notion is not None:
            return Claim.of(notion)
        epsilon, delta = self._claimed("epsilon"), self._claimed("delta")
        return None if epsilon is None else Claim(epsilon, 0.0 if delta is None else delta)

    @property
    def _stated(self) -> dict[str, Any]:
        """What is stated for each way to claim, (ε, δ) and other notions."""
        return {name: getattr(self, name) for name in ("epsilon", "delta", *MAKERS)}

    @functools.cached_property
    def _notion(self) -> Notion | None:
        """The notion other than (ε, δ) that it claims."""
        name = only_claim(**self._stated)
        if name is None:
            return None
        if name in ("rho", "mu"):
            return MAKERS[name](self._claimed(name))
        stated = getattr(self, name)
        if not callable(stated):
            return MAKERS[name](stated)
        try:
            others = list(inspect.signature(stated).parameters)[1:]
        except (TypeError, ValueError):  # a function of a library: of α alone
            others = []
        values = self.values
        return MAKERS[name](functools.partial(stated, **{other: values[other] for other in others if other in values}))

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

    def claiming(self, epsilon: float | None = None, delta: float | None = None, **notion: Any) -> Mechanism:
        """The same mechanism at these budgets: set as its arguments of these names, or claimed where it has none.

        One of rho, mu, rdp and tradeoff in place of both replaces what it claims. Where it has an argument of that
        name, this is set, and it is the claim if there is no other.
        """
        Claim(0.0 if epsilon is None else epsilon, 0.0 if delta is None else delta)  # an error where these are none
        stated = {"epsilon": epsilon, "delta": delta, **notion}
        name = only_claim(**stated)
        stated = {name: budget for name, budget in stated.items() if budget is not None}
        arguments = {name: budget for name, budget in stated.items() if self.takes(name)}
        claimed = {name: budget for name, budget in stated.items() if name not in arguments}
        bound = self.bind(**arguments)
        if name in arguments and bound.claim is None:
            claimed = stated
        if claimed.keys() - {"delta"}:
            claimed = {**dict.fromkeys(MAKERS), **({} if name is None else {"epsilon": None, "delta": None}), **claimed}
        return replace(bound, **claimed) if claimed else bound

    def stating(
        self, *, adjacency: str | Adjacency | None = None, domain: Domain | None = None, size: int | None = None
    ) -> Mechanism:
        """The same mechanism with these settings, which are then no longer assumed.

        >>> sorted(Mechanism(lambda rng, data: data).stating(adjacency="l1", size=2).assumed)
        ['domain']
        """
        relation = None if adjacency is None else relation_named(adjacency)
        stated = {"adjacency": relation, "domain": domain, "size": size}
        stated = {name: value for name, value in stated.items() if value is not None}
        if self.adjacency.lists_inputs and any(value != getattr(self, name) for name, value in stated.items()):
            raise BadInput(f"{self.name}: pairs name all inputs and neighbours; leave out {' and '.join(stated)}")
        left = self.assumed - (DEFAULTS if relation is not None and relation.lists_inputs else stated).keys()
        return replace(self, **stated, assumed=left) if stated else self  # type: ignore[arg-type]

    @property
    def assumptions(self) -> dict[str, object]:
        """The settings that nobody stated, with the defaults that stand in for them."""
        settings = {"adjacency": str(self.adjacency), "size": self.size, "domain": self.domain}
        return {name: value for name, value in settings.items() if name in self.assumed}

    def worst_pairs(self, size: int, domain: Domain) -> list[Pair]:
        """The neighbours of this size and domain that are tried first; none where nobody named any."""
        if self.worst is None or self.adjacency.lists_inputs:
            return []
        return list(self.worst(replace(self, size=size, domain=domain)))

    def pairs(self, size: int, domain: Domain) -> Iterator[Pair]:
        """Neighbouring pairs worth trying, in both directions: the worst first, then the others of the adjacency."""
        worst = [pair for one in self.worst_pairs(size, domain) for pair in (one, one.reversed())]
        tried = {(repr(pair.left), repr(pair.right)) for pair in worst}
        yield from worst
        for pair in self.adjacency.pairs(size, domain):
            if not tried or (repr(pair.left), repr(pair.right)) not in tried:
                yield pair

    @property
    def probability_error(self) -> float:
        """How far off its own probabilities may be, absolutely, because it rounds; 0 for an author's function.

        Objects of libraries compute probabilities in floats and add them up to thresholds for uniform draws, which lie
        on a grid of floats too.
        """
        return FLOAT_GRAIN if hasattr(self.function, "library") else 0.0

    def missing(self) -> list[str]:
        """The arguments without a value: neither bound nor with a default."""
        return [name for name in self.parameters or {} if name not in self.values]

    def bound(self) -> Function:
        """The function of `(rng, data)` alone."""
        if missing := self.missing():
            raise BadInput(
                f"{self.name} needs a value for {', '.join(missing)}; give {missing[0]}=…, or --arg {missing[0]}=…"
            )
        roles = self.roles
        function = functools.partial(self.function, **self.arguments) if self.arguments else self.function
        rows = self.domain if isinstance(self.domain, Rows) else None
        simple = roles.natural and rows is None and not _is_method(self.function)
        return function if simple and sources_of(self.function) is None else Adopting(function, roles, rows)

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
        kept = claim.covers(true_epsilon)
        return kept if kept or claim.notion is None else None

    def _evaluate(self, formula: Function, values: Mapping[str, Any]) -> Any:
        """The formula, a claim or a cost, at those of the values that it names."""
        parameters = inspect.signature(formula).parameters.values()
        lacking = [p.name for p in parameters if p.name not in values and p.default is p.empty]
        if lacking:
            raise BadInput(f"the claim or cost of {self.name} depends on {', '.join(lacking)}; give {lacking[0]}=…")
        return formula(**{p.name: values[p.name] for p in parameters if p.name in values})

    def __get__(self, instance: Any, owner: type | None = None) -> Mechanism:
        """The mechanism of an instance, where a method was decorated."""
        method = instance is not None and [p.name for p in self._signature or ()][:1] == ["self"]
        return replace(self, function=MethodType(self.function, instance)) if method else self

    def __call__(self, *given: Any, **arguments: Any) -> Any:
        """What the function returns, called as its author wrote it."""
        around = AROUND_CALLS.get()
        if around is None:
            return self.function(*given, **{**self.arguments, **arguments})
        roles = self.roles
        if roles.natural and len(given) == 2:
            return around(self.bind(**arguments), *given)
        values = inspect.signature(self.function).bind_partial(*given, **arguments).arguments
        rng, data = values.pop(roles.generator or "", None), values.pop(roles.data)
        return around(self.bind(**values), rng, data)

    def __str__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        return f"{self.name}({given})" if given else self.name


@dataclass(frozen=True, eq=False)
class Adopting:
    """A function of `(rng, data)` alone: while the author's function runs, all its sources draw from `rng`.

    Where the domain is of rows, lists of them become data frames.
    """

    function: Function
    roles: Roles
    rows: Rows | None = None

    @functools.cached_property
    def sources(self) -> Sources:
        return sources_of(self.function) or Sources()

    def __reduce__(self) -> Any:
        return Adopting, (self.function, self.roles, self.rows)  # elsewhere the sources are elsewhere

    @property
    def __name__(self) -> str:
        inner = self.function.func if isinstance(self.function, functools.partial) else self.function
        return getattr(inner, "__name__", type(inner).__name__)

    def __call__(self, rng: Any, data: Any) -> Any:
        if rng is None:  # called as its author would
            return self._call(self.function, None, data)
        with adopted(rng, self.sources) as adoption:
            generator = rng if self.roles.kind is Generator else adoption.drawing(self.roles.kind)
            return self._call(self._afresh([*adoption.stand_ins, *self.sources.others]), generator, data)

    @contextmanager
    def unadopted(self) -> Iterator[Function]:
        """The function of a seed and data, as its author runs it: all its sources are the genuine ones."""
        with undisturbed(self.sources) as generators:

            def run(seed: int, data: Any) -> Any:
                np.random.seed(seed)  # noqa: NPY002 - it is what the user's code draws from
                random.seed(seed)
                kind = self.roles.kind
                generator = np.random.default_rng(seed) if kind is Generator else seeded(kind, seed)
                return self._call(self._afresh(generators), generator, data)

            yield run

    def _afresh(self, shared: list[Any]) -> Function:
        """The function; where it is a method, that of a copy of its object, which shares these generators with it."""
        function: Any = self.function
        keywords: Mapping[str, Any] = {}
        if isinstance(function, functools.partial):
            function, keywords = function.func, function.keywords
        if _is_method(function):
            function = MethodType(function.__func__, self._copied(function.__self__, shared))
        return functools.partial(function, **keywords)

    def _copied(self, owner: Any, shared: list[Any]) -> Any:
        try:
            return copy.deepcopy(owner, {id(part): part for part in shared})
        except VeridpError:
            raise
        except Exception as error:
            raise BadInput(
                f"{self.__name__}: its object cannot be copied for each run ({type(error).__name__}: {error}); "
                f"give its class a __deepcopy__, or make the object inside a function"
            ) from error

    def _call(self, function: Function, generator: Any, data: Any) -> Any:
        if self.rows is not None and not is_frame(data):
            data = self.rows.frame(data)
        if self.roles.natural:
            return function(generator, data)
        if self.roles.generator is None:
            return function(data)
        return function(data, **{self.roles.generator: generator}) if self.roles.keyword else function(data, generator)


def _is_method(function: Any) -> bool:
    """Whether it is a method of an instance."""
    return isinstance(function, MethodType) and not isinstance(function.__self__, type)


def _annotated(parameter: inspect.Parameter) -> str | None:
    """The class of generators that the annotation names."""
    annotation = parameter.annotation
    text = f"{annotation.__module__}.{annotation.__name__}" if isinstance(annotation, type) else str(annotation)
    found = re.search(r"(?<!typing\.)(?<!abc\.)\b(Generator|RandomState|Random|SystemRandom)\b(?!\[)", text)
    return found[1] if found else None


def _kind(parameter: inspect.Parameter) -> Any:
    """The class of the generator that the parameter wants."""
    named = "RandomState" if parameter.name in ("random_state", "rand_state", "rs") else "Generator"
    return GENERATOR_KINDS[_annotated(parameter) or named]
