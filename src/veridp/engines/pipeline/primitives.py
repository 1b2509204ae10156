"""Releases of libraries that are known as a whole: of diffprivlib, OpenDP, pydp, Opacus and JAX Privacy.

While a program runs, each call of one is recorded with its argument and settings. What it costs between two arguments
is what the library's own privacy map says for their distance.
"""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from veridp.accounting.pairs import DominatingPair, Finite, GaussianPair, LaplacePair, pair_of_claim
from veridp.claim import Claim
from veridp.kernel.site import Site
from veridp.mechanism.adapters.opendp_measurements import opendp_claim, opendp_metric
from veridp.mechanism.adapters.worst_pairs import largest_difference, opendp_distance

TOLERANCE = 1e-9  # relative, by which a distance may exceed a sensitivity that was computed in floats
FLOAT32_TOLERANCE = 1e-5  # the same for sums of gradients in half as many bits
Price = Callable[[float], DominatingPair | None]
Metric = Callable[[Any, Any], float]
Describe = Callable[[Any, Site], "Primitive"]
Recorded = Callable[[Callable[[], Any], Describe], Any]
Around = Callable[[Any, Recorded], Any]  # what takes the place of a function, given it and how to record its release
DATA = ("utility", "candidates", "measure")  # settings of diffprivlib's mechanisms that hold what is asked, not how


@dataclass(frozen=True, eq=False)
class Primitive:
    """One release by a library, with the metric of its arguments and the price that its own map has for a distance."""

    site: Site
    name: str
    settings: tuple[tuple[str, str], ...]
    argument: Any
    output: Any
    price: Price
    metric: Metric = largest_difference
    declared: float = math.inf  # the distance that it was made for; inf where it names none

    @property
    def signature(self) -> tuple[object, ...]:
        return "primitive", self.site, self.name

    def distance(self, other: Primitive) -> float:
        """How far apart the two arguments are, in the metric of the library; inf or NaN where that is not known."""
        return self.metric(self.argument, other.argument)

    def cost(self, distance: float) -> DominatingPair | None:
        """What the library's map says for arguments at this distance; None where it says nothing."""
        if not distance:
            return Finite.claimed(0.0, 0.0)
        return self.price(distance) if math.isfinite(distance) else None


def _in_steps(epsilon: float, delta: float, declared: float) -> Price:
    """The price by group privacy: (ε, δ) for each step of the declared distance, where δ also grows with e^ε."""

    def price(distance: float) -> DominatingPair:
        steps = 1 if math.isinf(declared) else math.ceil(distance / declared * (1 - TOLERANCE))
        grown = delta * math.fsum(math.exp(step * epsilon) for step in range(steps)) if delta else 0.0
        return Finite.claimed(steps * epsilon, min(grown, 1.0))

    return price


def _settings(**values: Any) -> tuple[tuple[str, str], ...]:
    return tuple((name, repr(value)) for name, value in values.items())


# ------------------------------------------------------------------------------------------------------------ watching


@contextmanager
def watched(record: Recorded) -> Iterator[None]:
    """While the body runs, every outermost call of a known primitive goes through `record`."""
    inside = False

    def outermost(call: Callable[[], Any], describe: Describe) -> Any:
        nonlocal inside
        if inside:
            return call()
        inside = True
        try:
            return record(call, describe)
        finally:
            inside = False

    done: list[tuple[Any, str, Any]] = []
    try:
        for owner, name, around in _known():
            original = vars(owner)[name]
            done.append((owner, name, original))
            setattr(owner, name, around(original, outermost))
        yield
    finally:
        for owner, name, original in reversed(done):
            setattr(owner, name, original)


def _known() -> Iterator[tuple[Any, str, Around]]:
    """The functions of loaded libraries that release something, each with what takes its place."""
    loaded = sys.modules
    if "diffprivlib.mechanisms" in loaded:
        todo = [loaded["diffprivlib.mechanisms.base"].DPMechanism]
        while todo:
            kind = todo.pop()
            todo += kind.__subclasses__()
            if "randomise" in vars(kind) and not inspect.isabstract(kind):
                yield kind, "randomise", _calling(_of_diffprivlib)
    if "opendp.mod" in loaded:
        for kind in ("Measurement", "Queryable", "OdometerQueryable"):
            owner = vars(loaded["opendp.mod"]).get(kind, object)
            around = _around_measurement if kind == "Measurement" else _around_queryable
            for name in {"__call__", "invoke"} & vars(owner).keys() - vars(object).keys():
                yield owner, name, around
    if "pydp.algorithms.numerical_mechanisms" in loaded:
        yield loaded["pydp.algorithms.numerical_mechanisms"].NumericalMechanism, "add_noise", _calling(_of_pydp_noise)
    if "pydp.algorithms._algorithm" in loaded:
        yield loaded["pydp.algorithms._algorithm"].MetaAlgorithm, "quick_result", _calling(_of_pydp)
    if "opacus.optimizers.optimizer" in loaded:
        yield loaded["opacus.optimizers.optimizer"].DPOptimizer, "add_noise", _around_opacus
    if "jax_privacy.noise_addition" in loaded:
        yield loaded["jax_privacy.noise_addition"], "_streaming_matrix_factorization_privatizer", _around_jax_privacy


def _calling(describe: Callable[[Any, Any], Describe]) -> Around:
    """Records a method of one argument, whose release is what it returns."""

    def around(original: Any, record: Recorded) -> Any:
        def call(self: Any, argument: Any = None) -> Any:
            return record(lambda: original(self, argument), describe(self, argument))

        return call

    return around


# ----------------------------------------------------------------------------------------------------------- libraries


def _of_diffprivlib(machine: Any, argument: Any) -> Describe:
    asked = {name: getattr(machine, name) for name in DATA if getattr(machine, name, None) is not None}
    names = [name for name in inspect.getfullargspec(type(machine)).kwonlyargs if name != "random_state"]
    settings = _settings(**{name: getattr(machine, name, None) for name in names if name not in DATA})
    value, kind = asked.get("utility", argument), type(machine).__name__
    metric: Metric = _utility_distance if getattr(machine, "monotonic", False) else largest_difference
    if "measure" in asked:  # of intervals that data end: the index that is kept names others on the other side
        value, metric = (value, asked["measure"]), _measured_distance(metric)
    declared = float(getattr(machine, "sensitivity", math.inf))
    price = _diffprivlib_price(machine, declared)
    name = f"diffprivlib's {kind}"
    return lambda output, site: Primitive(site, name, settings, value, output, price, metric, declared)


def _utility_distance(mine: Any, theirs: Any) -> float:
    """How far utilities move up plus how far others move down: where all move one way, half the noise is enough."""
    if len(mine) != len(theirs):
        return math.inf
    moves = [0.0, *(float(one) - float(other) for one, other in zip(mine, theirs, strict=True))]
    return max(moves) - min(moves)


def _measured_distance(metric: Metric) -> Metric:
    """The distance of utilities of intervals; NaN where the intervals are not of the same lengths."""
    return lambda mine, theirs: metric(mine[0], theirs[0]) if repr(mine[1]) == repr(theirs[1]) else math.nan


def _diffprivlib_price(machine: Any, declared: float) -> Price:
    kind, epsilon, delta = type(machine).__name__, float(machine.epsilon), float(machine.delta)
    if kind == "Laplace":  # its scale is sensitivity / (ε - ln(1 - δ))
        return lambda distance: LaplacePair(distance * (epsilon - math.log1p(-delta)) / declared)
    if kind in ("Gaussian", "GaussianAnalytic"):
        return lambda distance: GaussianPair(distance / float(machine._scale))
    return _in_steps(epsilon, delta, declared)


def _of_opendp(measurement: Any, argument: Any) -> Describe:
    metric = opendp_metric(measurement)
    settings = (("measure", str(measurement.output_measure)), ("metric", str(measurement.input_metric)))

    def price(distance: float) -> DominatingPair | None:
        try:
            return pair_of_claim(Claim.stated(**opendp_claim(measurement, distance, None)))
        except Exception:  # BadInput, or an error of opendp's own: the map says nothing for this distance
            return None

    def distance(mine: Any, theirs: Any) -> float:
        return opendp_distance(metric, mine, theirs)

    return lambda output, site: Primitive(site, "opendp's measurement", settings, argument, output, price, distance)


def _around_measurement(original: Any, record: Recorded) -> Any:
    """Records a measurement; a compositor releases nothing itself: it is each of its answers that is recorded."""

    def call(measurement: Any, argument: Any = None) -> Any:
        if _answers_queries(measurement):
            queryable = original(measurement, argument)
            queryable.data_of_compositor = argument
            return queryable
        return _released(record, lambda: original(measurement, argument), measurement, argument)

    return call


def _around_queryable(original: Any, record: Recorded) -> Any:
    """Records the answer to a query, which is a measurement on the data of its compositor."""

    def call(queryable: Any, query: Any) -> Any:
        if not hasattr(queryable, "data_of_compositor") or not hasattr(query, "input_metric"):
            return original(queryable, query)
        data = queryable.data_of_compositor
        if _answers_queries(query):
            within = original(queryable, query)
            within.data_of_compositor = data
            return within
        return _released(record, lambda: original(queryable, query), query, data)

    return call


def _answers_queries(measurement: Any) -> bool:
    """Whether it is a compositor or a filter of OpenDP, by the function that made it."""
    made_by = getattr(measurement, "__opendp_dict__", {}).get("__function__", "")
    return "composition" in made_by or "filter" in made_by


def _released(record: Recorded, call: Callable[[], Any], measurement: Any, argument: Any) -> Any:
    """The recorded release; a frame that may be collected once is collected now, and is kept as it was collected."""
    of_frames = hasattr(argument, "collect_schema")
    describe = _of_opendp(measurement, argument.collect().rows() if of_frames else argument)
    if not of_frames:
        return record(call, describe)
    return _CollectedFrame(record(lambda: call().collect(), describe))


@dataclass(frozen=True)
class _CollectedFrame:
    """What stands for OpenDP's OnceFrame."""

    frame: Any

    def collect(self) -> Any:
        return self.frame

    def lazy(self) -> Any:
        return self.frame.lazy()


def _of_pydp_noise(machine: Any, argument: Any) -> Describe:
    """Laplace or Gaussian noise on a number: the scale is known."""
    gaussian = hasattr(machine, "std")
    scale = float(machine.std if gaussian else machine.diversity)
    declared = float(machine.l2_sensitivity if gaussian else machine.sensitivity)
    name = f"pydp's {type(machine).__name__}"

    def price(distance: float) -> DominatingPair:
        return GaussianPair(distance / scale) if gaussian else LaplacePair(distance / scale)

    settings = _settings(scale=scale)
    return lambda output, site: Primitive(site, name, settings, argument, output, price, declared=declared)


def _of_pydp(algorithm: Any, argument: Any) -> Describe:
    """An algorithm on records that come and go: (ε, δ) for each."""
    epsilon, delta, records = float(algorithm.epsilon), float(algorithm.delta or 0.0), list(argument)
    name, price = f"pydp's {type(algorithm).__name__}", _in_steps(epsilon, delta, 1.0)
    settings = _settings(epsilon=epsilon, delta=delta)

    def distance(mine: Any, theirs: Any) -> float:
        return opendp_distance("SymmetricDistance", mine, theirs)

    return lambda output, site: Primitive(site, name, settings, records, output, price, distance)


def _around_opacus(original: Any, record: Recorded) -> Any:
    """Records the sum of clipped gradients that noise is added to; the release is put into the parameters' `grad`."""

    def add_noise(optimizer: Any) -> None:
        gradients = _flat([parameter.summed_grad for parameter in optimizer.params])
        deviation, norm = float(optimizer.noise_multiplier * optimizer.max_grad_norm), float(optimizer.max_grad_norm)

        def call() -> list[Any]:
            original(optimizer)
            return [parameter.grad.detach().clone() for parameter in optimizer.params]

        released = record(call, _gaussian("opacus's DPOptimizer", gradients, deviation, norm * (1 + FLOAT32_TOLERANCE)))
        for parameter, gradient in zip(optimizer.params, released, strict=True):
            parameter.grad = gradient

    return add_noise


def _around_jax_privacy(original: Any, record: Recorded) -> Any:
    """Records what a Gaussian privatizer that is made now adds noise to, where its update is not compiled."""
    jax, library = sys.modules["jax"], sys.modules["jax_privacy.noise_addition"]

    def privatizer(noising_matrix: Any, *, stddev: float, **options: Any) -> Any:
        made = original(noising_matrix, stddev=stddev, **options)
        if noising_matrix is not library.gaussian_privatizer.args[0]:  # noise of several steps is correlated
            return made

        def update(gradients: Any, state: Any, params: Any = None) -> Any:
            leaves = jax.tree.leaves(gradients)
            if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
                return made.update(gradients, state, params)
            describe = _gaussian("jax-privacy's privatizer", _flat(leaves), float(stddev), math.inf)
            return record(lambda: made.update(gradients, state, params), describe)

        return type(made)(made.init, update)

    return privatizer


def _flat(arrays: list[Any]) -> Any:
    """All numbers of these arrays of NumPy, PyTorch or JAX."""
    detached = [array.detach() if hasattr(array, "detach") else array for array in arrays]
    return np.concatenate([np.asarray(array, dtype=float).ravel() for array in detached])


def _gaussian(name: str, argument: Any, deviation: float, declared: float) -> Describe:
    """A vector with normal noise of this deviation: the distance is Euclidean."""

    def price(distance: float) -> DominatingPair | None:
        return GaussianPair(distance / deviation) if deviation else None

    def distance(mine: Any, theirs: Any) -> float:
        return float(np.linalg.norm(mine - theirs)) if mine.shape == theirs.shape else math.inf

    settings = _settings(deviation=deviation)
    return lambda output, site: Primitive(site, name, settings, argument, output, price, distance, declared)
