"""Releases of libraries that are known as a whole: mechanisms of diffprivlib and measurements of OpenDP.

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

from veridp.accounting.pairs import DominatingPair, Finite, GaussianPair, LaplacePair, pair_of_claim
from veridp.claim import Claim
from veridp.kernel.site import Site
from veridp.mechanism.adapters.opendp_measurements import opendp_claim, opendp_metric
from veridp.mechanism.adapters.worst_pairs import largest_difference, opendp_distance

TOLERANCE = 1e-9  # relative, by which a distance may exceed a sensitivity that was computed in floats
Recorded = Callable[[Callable[[], Any], Callable[[Any, Site], "Primitive"]], Any]
DATA = ("utility", "candidates")  # settings of diffprivlib's mechanisms that hold what is asked, not how


@dataclass(frozen=True, eq=False)
class Primitive:
    """One release by a library."""

    site: Site
    name: str
    settings: tuple[tuple[str, str], ...]
    argument: Any
    output: Any
    machine: Any

    @property
    def signature(self) -> tuple[object, ...]:
        return "primitive", self.site, self.name

    def distance(self, other: Primitive) -> float:
        """How far apart the two arguments are, in the metric of the library; inf where that is not known."""
        if self.name.startswith("opendp"):
            return opendp_distance(opendp_metric(self.machine), self.argument, other.argument)
        return largest_difference(self.argument, other.argument)

    @property
    def declared(self) -> float:
        """The distance that the mechanism was made for; inf where it names none."""
        return float(getattr(self.machine, "sensitivity", math.inf))

    def cost(self, distance: float) -> DominatingPair | None:
        """What the library's map says for arguments at this distance; None where it says nothing."""
        if not distance:
            return Finite.claimed(0.0, 0.0)
        if math.isinf(distance):
            return None
        if self.name.startswith("opendp"):
            try:
                return pair_of_claim(Claim.stated(**opendp_claim(self.machine, distance, None)))
            except Exception:  # BadInput, or an error of opendp's own: the map says nothing for this distance
                return None
        return self._diffprivlib_cost(distance)

    def _diffprivlib_cost(self, distance: float) -> DominatingPair | None:
        machine, kind = self.machine, type(self.machine).__name__
        epsilon, delta = float(machine.epsilon), float(machine.delta)
        if kind == "Laplace":  # its scale is sensitivity / (ε - ln(1 - δ))
            return LaplacePair(distance * (epsilon - math.log1p(-delta)) / self.declared)
        if kind in ("Gaussian", "GaussianAnalytic"):
            return GaussianPair(distance / float(machine._scale))
        steps = 1 if math.isinf(self.declared) else math.ceil(distance / self.declared * (1 - TOLERANCE))
        if steps > 1 and delta:  # group privacy: δ grows with e^ε for each step
            delta *= math.fsum(math.exp(step * epsilon) for step in range(steps))
        return Finite.claimed(steps * epsilon, min(delta, 1.0))


# ------------------------------------------------------------------------------------------------------------ watching


@contextmanager
def watched(record: Recorded) -> Iterator[None]:
    """While the body runs, every outermost call of a known primitive goes through `record`."""
    inside = False

    def around(original: Any, describe: Callable[[Any, Any], Callable[[Any, Site], Primitive]]) -> Any:
        def call(self: Any, argument: Any = None) -> Any:
            nonlocal inside
            if inside:
                return original(self, argument)
            inside = True
            try:
                return record(lambda: original(self, argument), describe(self, argument))
            finally:
                inside = False

        return call

    done: list[tuple[type, str, Any]] = []
    try:
        for kind, name, describe in _known():
            original = vars(kind)[name]
            done.append((kind, name, original))
            setattr(kind, name, around(original, describe))
        yield
    finally:
        for kind, name, original in reversed(done):
            setattr(kind, name, original)


def _known() -> Iterator[tuple[type, str, Callable[[Any, Any], Callable[[Any, Site], Primitive]]]]:
    """The methods of loaded libraries that release something."""
    if "diffprivlib.mechanisms" in sys.modules:
        todo = [sys.modules["diffprivlib.mechanisms.base"].DPMechanism]
        while todo:
            kind = todo.pop()
            todo += kind.__subclasses__()
            if "randomise" in vars(kind) and not inspect.isabstract(kind):
                yield kind, "randomise", _of_diffprivlib
    if "opendp.mod" in sys.modules:
        measurement = sys.modules["opendp.mod"].Measurement
        yield measurement, "__call__", _of_opendp
        yield measurement, "invoke", _of_opendp


def _of_diffprivlib(machine: Any, argument: Any) -> Callable[[Any, Site], Primitive]:
    asked = {name: getattr(machine, name) for name in DATA if getattr(machine, name, None) is not None}
    names = [name for name in inspect.getfullargspec(type(machine)).kwonlyargs if name != "random_state"]
    settings = tuple((name, repr(getattr(machine, name, None))) for name in names if name not in DATA)
    value = asked.get("utility", argument)
    name = f"diffprivlib's {type(machine).__name__}"
    return lambda output, site: Primitive(site, name, settings, value, output, machine)


def _of_opendp(measurement: Any, argument: Any) -> Callable[[Any, Site], Primitive]:
    settings = (("measure", str(measurement.output_measure)), ("metric", str(measurement.input_metric)))
    return lambda output, site: Primitive(site, "opendp's measurement", settings, argument, output, measurement)
