"""Mechanisms from other things than plain functions: objects of other libraries, batched functions, other programs."""

from __future__ import annotations

import copy
import functools
import inspect
import json
import math
import random
import shlex
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.random import Generator

from veridp.adjacency import Adjacency, Scaled, adjacency
from veridp.errors import BadInput, BadOutput, MechanismFailed, MechanismHung
from veridp.mechanism.declared import Mechanism
from veridp.notions import MAKERS, Notion, RenyiDP, ZeroConcentrated

# ------------------------------------------------------------------------------------------------------------- command
# A mechanism that is another program: JSON lines in, JSON lines out.


TAIL = 300  # characters of its last words that an error repeats


@dataclass(frozen=True)
class Command:
    """A program to be started; it answers each line of JSON, the data, with one line of JSON, an output."""

    words: tuple[str, ...]
    seconds: float

    @classmethod
    def from_line(cls, line: str | Sequence[str], seconds: float) -> Command:
        """The command that a line, split as a shell would, or a sequence of words gives."""
        words = tuple(shlex.split(line) if isinstance(line, str) else line)
        if not words or not all(isinstance(word, str) for word in words):
            raise BadInput(f"{line!r} is not a command; give for instance ['python3', 'mechanism.py']")
        return cls(words, seconds)

    @property
    def __name__(self) -> str:
        return shlex.join(self.words)

    def outputs(self, data: Any, count: int) -> list[Any]:
        """`count` outputs on the data, from one run of the program."""
        line = json.dumps(data, default=_plain) + "\n"
        lines = self._answer(line * count).splitlines()
        if len(lines) != count:
            raise BadOutput(
                f"{self.__name__} wrote {len(lines)} lines for {count} of input; "
                f"it has to write one line of JSON for each line that it reads"
            )
        return [self._read(number, text) for number, text in enumerate(lines, start=1)]

    def _answer(self, text: str) -> str:
        try:
            run = subprocess.run(  # noqa: S603 - the user's own command, without a shell
                self.words, input=text, capture_output=True, text=True, timeout=self.seconds, check=False
            )
        except OSError as error:
            raise BadInput(f"{self.__name__}: {error.strerror}; give a program that can be started") from None
        except subprocess.TimeoutExpired:
            raise MechanismHung(
                f"{self.__name__} did not answer within {self.seconds:g} s; give it longer with seconds=…, "
                f"or let it end when its input does"
            ) from None
        if run.returncode:
            raise MechanismFailed(f"{self.__name__} ended with status {run.returncode}: {run.stderr.strip()[-TAIL:]}")
        return run.stdout

    def _read(self, number: int, text: str) -> Any:
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            raise BadOutput(
                f"{self.__name__}, line {number} of its output: {text[:TAIL]!r} is not JSON ({error.msg})"
            ) from None


def _plain(value: Any) -> Any:
    """NumPy's numbers and arrays in the words of JSON."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise BadInput(f"{value!r} cannot be written as JSON; give data made of numbers, strings, lists and dictionaries")


# ------------------------------------------------------------------------------------------------------------ adapters
# Mechanisms from what is not a plain function: objects of other libraries, batched functions, and commands.
#
# Each adapter returns a Mechanism. What the library itself says (its claim, its neighbours, its domain) is taken over
# where it can be known; every adapter lets you say it yourself by the options of `veridp.mechanism`. Randomness that
# does
# not come from `rng` cannot be seeded, and such a mechanism can be sampled but not explored.


DELTA = 1e-6  # where a library claims what no notion here says, the δ at which its ε is taken


# ---------------------------------------------------------------------------------------------------- opendp


def is_opendp(found: Any) -> bool:
    """Whether this is a Measurement of OpenDP; asks its class alone, so that nothing is imported."""
    return any(f"{kind.__module__}.{kind.__name__}" == "opendp.mod.Measurement" for kind in type(found).__mro__)


# For each input metric of OpenDP, the relations whose neighbours have a distance in it, and that distance; the first is
# the one that is meant by the metric. Under L1 and L2 one entry moves, which is a part of their neighbours.
ORDERED_RECORDS = {"add-remove": 1, "replace": 2}
DISTANCES: dict[str, dict[str, int]] = {
    "SymmetricDistance": {"add-remove-unordered": 1, "replace-unordered": 2, **ORDERED_RECORDS},
    "InsertDeleteDistance": ORDERED_RECORDS,
    "ChangeOneDistance": {"replace-unordered": 1, "replace": 1},
    "HammingDistance": {"replace": 1},
    "DiscreteDistance": {"any": 1},
    "AbsoluteDistance": {"linf": 1, "l1": 1, "monotone": 1},
    "L1Distance": {"l1": 1},
    "L2Distance": {"l1": 1},
    "LInfDistance": {"linf": 1, "l1": 1, "monotone": 1},
    "LInfDistance, monotonic": {"monotone": 1, "l1": 1},
}


def opendp(measurement: Any, *, delta: float | None = None, **options: Any) -> Mechanism:
    """The measurement of OpenDP as a mechanism, with the claim that its own privacy map makes.

    The output measure is the notion of the claim: ε for MaxDivergence, (ε, δ) for its approximate variant, ρ for
    ZeroConcentratedDivergence, and a bound at each of many orders for RenyiDivergence. With `delta` it is (ε, δ) at
    this δ; so are SmoothedMaxDivergence and approximate zCDP, at a δ of 1e-6 where none is given.

    Neighbours, domain and size come from its input metric and domain: SymmetricDistance counts added and removed
    records, ChangeOneDistance and HammingDistance replaced ones; data of a known size cannot lose a record, so that
    their neighbours have one replaced.
    """
    if not is_opendp(measurement):
        raise BadInput(f"{measurement!r} is not an opendp Measurement; build one with opendp.measurements.make_…")
    known = _opendp_input(measurement, options)
    relation = adjacency(known["adjacency"])
    stated = any(name in options for name in ("epsilon", *MAKERS))
    claimed = {} if stated else _opendp_claim(measurement, _opendp_distance(measurement, relation), delta)
    function = _Unseeded(measurement, scalar=_is_scalar(measurement.input_domain), library="opendp")
    return _foreign(function, **{**claimed, **known, "adjacency": relation})


def _is_scalar(domain: Any) -> bool:
    return str(domain).startswith("AtomDomain")


def _opendp_metric(measurement: Any) -> str:
    """The input metric, by its name in DISTANCES."""
    name, _, details = str(measurement.input_metric).partition("(")
    return f"{name}, monotonic" if details.startswith("monotonic") else name


def _opendp_input(measurement: Any, options: dict[str, Any]) -> dict[str, Any]:
    """The options, with the adjacency, domain and size that the metric and domain of the inputs stand for."""
    domain, metric = measurement.input_domain, _opendp_metric(measurement)
    atoms = domain if _is_scalar(domain) else getattr(domain, "element_domain", domain)
    size = 1 if _is_scalar(domain) else getattr(domain, "size", None)
    if metric not in DISTANCES and "adjacency" not in options:
        raise BadInput(
            f"opendp's {measurement.input_metric} is not supported; state neighbours and claim with "
            f"adjacency=… and epsilon=…"
        )
    meant = [name for name in DISTANCES.get(metric, ()) if size is None or not adjacency(name).extra]
    known: dict[str, Any] = {"size": size}  # without a size, the usual one is assumed
    known |= {"adjacency": meant[0]} if meant else {}
    if "domain" not in options:
        known |= _opendp_values(atoms)
    return known | options


def _opendp_distance(measurement: Any, relation: Adjacency) -> float:
    """The largest distance between neighbours under the relation, in the input metric."""
    scaled = isinstance(relation, Scaled)
    name, factor = (relation.relation.name, relation.factor) if scaled else (relation.name, 1)  # type: ignore[attr-defined]
    distance = DISTANCES.get(_opendp_metric(measurement), {}).get(name)
    if distance is None:
        raise BadInput(
            f"opendp's {measurement.input_metric} does not bound the distance of neighbours under {relation}, so its "
            f"map makes no claim about them; give the claim too, with epsilon=…"
        )
    return distance * factor


def _opendp_values(atoms: Any) -> dict[str, Any]:
    """The domain, and that it is assumed where the numbers have no bounds."""
    kind = str(getattr(atoms, "carrier_type", ""))
    if kind == "bool":
        return {"domain": [False, True]}
    bounds = kind.startswith(("i", "u", "f")) and getattr(atoms, "bounds", None)
    low, high = bounds or (-10, 10)
    assumed = frozenset() if bounds else frozenset({"domain"})
    if kind.startswith(("i", "u")):
        least = max(int(low), 0) if kind.startswith("u") else int(low)
        return {"domain": range(least, int(high) + 1), "assumed": assumed}
    if kind.startswith("f"):
        return {"domain": (float(low), float(high)), "assumed": assumed}
    raise BadInput(f"opendp's {atoms} has no values that can be listed here; give some with domain=[…]")


def _opendp_claim(measurement: Any, distance: float, delta: float | None) -> dict[str, Any]:
    """The claim of the measurement's own map at this distance of inputs, as keywords."""
    kind = str(measurement.input_metric.distance_type)
    loss = measurement.map(float(distance) if kind.startswith("f") else math.ceil(distance))
    measure, failure = str(measurement.output_measure), 0.0
    if measure.startswith("Approximate("):
        measure, (loss, failure) = measure.removeprefix("Approximate(").removesuffix(")"), loss
    if measure == "MaxDivergence":
        return {"epsilon": float(loss), **({"delta": float(failure)} if failure else {})}
    if measure == "SmoothedMaxDivergence":
        return _at_delta(loss.epsilon, delta, failure)
    if measure not in OPENDP_NOTIONS:
        raise BadInput(
            f"opendp's {measurement.output_measure} has no counterpart here; cast the measurement, or state its claim "
            f"with epsilon=… and delta=…, rho=… or rdp=…"
        )
    notion = OPENDP_NOTIONS[measure](loss)
    if delta is None and not failure:
        return {notion.keyword: notion.stated}
    return _at_delta(notion.epsilon, delta, failure)


OPENDP_NOTIONS: dict[str, Callable[[Any], Notion]] = {
    "ZeroConcentratedDivergence": ZeroConcentrated,
    "RenyiDivergence": RenyiDP.of,
}


def _at_delta(epsilon_at: Callable[[float], float], delta: float | None, failure: float) -> dict[str, Any]:
    """(ε, δ) of a guarantee that holds but for an event of probability `failure`, which is a part of this δ.

    δ = failure + (1 - failure) δ' for (ε, δ') of the guarantee itself: Bun and Steinke (TCC 2016), Lemma 8.8.
    """
    total = failure + (1 - failure) * DELTA if delta is None else delta
    if not total > failure:
        raise BadInput(f"the measurement alone has δ = {failure:g}; give a larger delta than {total:g}")
    return {"epsilon": float(epsilon_at((total - failure) / (1 - failure))), "delta": total}


# ----------------------------------------------------------------------------------------------- diffprivlib


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
    declared = Mechanism(_Randomise(machine), **_resolved(_diffprivlib_input(machine, options) | options))
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
        if not _stands_in(rng):
            # The same stream of bits behind the older interface, the one that diffprivlib is written for.
            return self._drawing_from(np.random.RandomState(rng.bit_generator), data)
        if not self.any_generator:
            rng.refuse(f"diffprivlib's {self.__name__} wants a RandomState")
        return self._drawing_from(rng, data)

    def _drawing_from(self, source: Any, data: Any) -> Any:
        chooses = hasattr(self.machine, "utility")
        machine = self._with_utility(list(data)) if chooses else copy.copy(self.machine)
        machine._rng = source
        return machine.randomise(None if chooses else _single(data))

    def _with_utility(self, utility: list[float]) -> Any:
        names = inspect.getfullargspec(type(self.machine)).kwonlyargs
        return type(self.machine)(**{name: getattr(self.machine, name) for name in names} | {"utility": utility})


# ---------------------------------------------------------------------------------- batched functions, commands


def batched(function: Callable[[Any, int], Any], **options: Any) -> Mechanism:
    """The mechanism of a function `f(data, n)` that returns n outputs at once, with randomness of its own."""
    if not callable(function):
        raise BadInput(f"{function!r} is not a function of (data, n)")
    return _foreign(_Batched(function), **options)


def unseeded(function: Mechanism | Callable[..., Any], **options: Any) -> Mechanism:
    """The mechanism of a function whose sources of randomness cannot be adopted: sampled, never explored.

    It is run once for each output. NumPy's and Python's global generators are seeded from `rng` for each block of
    outputs, so that what is drawn from these follows from the seed; draws from anywhere else do not.
    """
    given = function if isinstance(function, Mechanism) else Mechanism(function, **_resolved(options))

    @functools.wraps(given.function)
    def once(rng: Any, data: Any, **arguments: Any) -> Any:
        if _stands_in(rng):
            rng.refuse(f"{given.name} draws its noise out of sight, not from rng")
        return given.bind(**arguments).bound()(rng, data)

    def many(rng: Any, data: Any, count: int, **arguments: Any) -> list[Any]:
        run = given.bind(**arguments).bound()
        with _global_randomness_from(rng):
            return [run(rng, data) for _ in range(count)]

    if not given.roles.natural:
        others = [p.replace(kind=p.KEYWORD_ONLY) for p in (given.parameters or {}).values()]
        first = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY) for name in ("rng", given.roles.data)]
        once.__signature__ = inspect.Signature([*first, *others])  # type: ignore[attr-defined]

    return replace(given, function=once, vectorised=many)


@contextmanager
def _global_randomness_from(rng: Any) -> Iterator[None]:
    """Seeds the global generators of NumPy and Python from `rng` for the body, and restores their states."""
    states = np.random.get_state(), random.getstate()  # noqa: NPY002 - they are what the user's code draws from
    np.random.seed(int(rng.integers(2**32)))  # noqa: NPY002
    random.seed(int(rng.integers(2**62)))
    try:
        yield
    finally:
        np.random.set_state(states[0])  # noqa: NPY002
        random.setstate(states[1])


def command(line: str | Sequence[str], *, seconds: float = 60.0, **options: Any) -> Mechanism:
    """The mechanism of a command: for each line of JSON that it reads, the data, it writes one, an output.

    The command is started anew for each block of samples and given that many lines; it may take `seconds` for a block.
    A string is split as a shell would; no shell runs it.
    """
    return _foreign(Command.from_line(line, seconds), **options)


@dataclass(frozen=True, eq=False)
class _Batched:
    function: Callable[[Any, int], Any]

    @property
    def __name__(self) -> str:
        return str(getattr(self.function, "__name__", type(self.function).__name__))

    def outputs(self, data: Any, count: int) -> Any:
        return self.function(data, count)


@dataclass(frozen=True, eq=False)
class _Unseeded:
    """A callable of another library with randomness of its own, run once for each output."""

    function: Callable[[Any], Any]
    scalar: bool
    library: str

    @property
    def __name__(self) -> str:
        return str(getattr(self.function, "__name__", f"{self.library}_{type(self.function).__name__.lower()}"))

    def outputs(self, data: Any, count: int) -> list[Any]:
        given = _single(data) if self.scalar else data
        return [self.function(given) for _ in range(count)]


def _single(data: Any) -> Any:
    """The number itself, where data is a list or array of one."""
    return data[0] if isinstance(data, list | tuple | np.ndarray) and len(data) == 1 else data


@dataclass(frozen=True, eq=False)
class _Once:
    """One output as a function of `(rng, data)`, from a source of many."""

    source: Any

    @property
    def __name__(self) -> str:
        return str(self.source.__name__)

    def __call__(self, rng: Any, data: Any) -> Any:
        if _stands_in(rng):
            rng.refuse(f"{self.__name__} draws its noise out of sight, not from rng")
        return self.source.outputs(data, 1)[0]


@dataclass(frozen=True, eq=False)
class _Many:
    """Many outputs as a function of `(rng, data, count)`, from a source of them."""

    source: Any

    def __call__(self, rng: Any, data: Any, count: int) -> Any:
        return self.source.outputs(data, count)


def _stands_in(rng: Any) -> bool:
    """Whether this is a stand-in for a generator; one may pass for a real one by its class."""
    return type(rng) is not Generator


def _foreign(source: Any, **options: Any) -> Mechanism:
    return Mechanism(_Once(source), **{"vectorised": _Many(source), **_resolved(options)})


def _resolved(options: dict[str, Any]) -> dict[str, Any]:
    """The options of a mechanism, where an adjacency may be a name."""
    if "adjacency" in options:
        options = {**options, "adjacency": adjacency(options["adjacency"])}
    return options
