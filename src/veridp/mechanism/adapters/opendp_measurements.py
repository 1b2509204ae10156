"""Measurements of OpenDP as mechanisms, and queries of its context, which are measurements in the making."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from veridp.adjacency import Adjacency, GivenPairs, Pair, Rows, Scaled, adjacency, is_frame
from veridp.claim import MAKERS, Claim
from veridp.errors import BadInput
from veridp.mechanism.adapters.foreign import Unseeded, foreign
from veridp.mechanism.adapters.worst_pairs import opendp_distance, worst_pairs
from veridp.mechanism.declared import DEFAULTS, Mechanism
from veridp.notions import Notion, RenyiDP, ZeroConcentrated

DELTA = 1e-6  # where a library claims what no notion here says, the δ at which its ε is taken


def is_opendp(found: Any) -> bool:
    """Whether this is a Measurement, or a query, of OpenDP; asks its class alone, so that nothing is imported."""
    return _is_named(found, "opendp.mod.Measurement") or _is_query(found)


def _is_query(found: Any) -> bool:
    return _is_named(found, "opendp.context.Query") or _is_named(found, "opendp.extras.polars.LazyFrameQuery")


def _is_named(found: Any, name: str) -> bool:
    return any(f"{kind.__module__}.{kind.__name__}" == name for kind in type(found).__mro__)


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
    their neighbours have one replaced. A query of a context is the measurement that it would release, on any data; one
    on a Polars frame needs `domain`, a frame of some rows, and its output is the rows of the released frame, sorted.
    """
    if not is_opendp(measurement):
        raise BadInput(f"{measurement!r} is not an opendp Measurement; build one with opendp.measurements.make_…")
    if _is_query(measurement):
        measurement = _resolved_query(measurement)
    if "pairs" in options:
        options |= {"adjacency": GivenPairs(options.pop("pairs")), "size": 1}
    source: Any = Unseeded(measurement, scalar=_is_scalar(measurement.input_domain), library="opendp")
    if str(measurement.input_domain).startswith("FrameDomain"):
        options |= _frames(measurement.input_domain, options)
        source = _OnFrames(measurement, options["domain"])
    known = _opendp_input(measurement, options)
    relation = adjacency(known["adjacency"])
    stated = any(name in options for name in ("epsilon", *MAKERS))
    claimed = {} if stated else opendp_claim(measurement, _opendp_distance(measurement, relation), delta)
    priced = functools.cache(lambda distance: Claim.stated(**opendp_claim(measurement, distance, None)).epsilon)

    def worst(mechanism: Mechanism) -> list[Pair]:
        metric = opendp_metric(measurement)
        return worst_pairs(mechanism, lambda left, right: priced(opendp_distance(metric, left, right)))

    return foreign(source, **{"worst": worst, **claimed, **known, "adjacency": relation})


def _resolved_query(query: Any) -> Any:
    """The measurement of a query, with the noise that its context calibrates; nothing of its budget is spent."""
    try:
        found = query.resolve()
    except ValueError as error:
        raise BadInput(f"the query cannot be released yet: {error} End it with noise, as in .laplace()") from None
    if not _is_named(found, "opendp.mod.Measurement"):
        raise BadInput(f"the query is an {type(found).__name__.lower()} that answers others; give one of these")
    return found


def _frames(domain: Any, options: dict[str, Any]) -> dict[str, Any]:
    """The rows that frames are made of, and a size that the margins of this domain of frames allow.

    Neighbours that differ in what a margin makes public are none to the library: who compares frames has to list them.
    """
    frame: Any = options.get("domain")
    frame = frame.collect() if hasattr(frame, "collect") else frame
    rows = frame if isinstance(frame, Rows) else Rows(frame) if is_frame(frame) else None
    if rows is None:
        raise BadInput("a query does not hold its data; give a frame of some rows, with domain=pl.DataFrame({…})")
    if isinstance(options.get("adjacency"), GivenPairs):
        return {"domain": rows}
    grouped = re.findall(r"\{(.*?)\}", str(domain).partition("margins=")[2])
    margins = [domain.get_margin(re.findall(r'col\("(.*?)"\)', by)) for by in grouped]
    most = min((margin.max_length for margin in margins if margin.max_length is not None), default=math.inf)
    size = options.get("size") or min(DEFAULTS["size"], max(most - 1, 1))
    groups = min((margin.max_groups for margin in margins if margin.by and margin.max_groups), default=math.inf)
    if any(margin.invariant for margin in margins) or size + 1 > min(most, groups):
        raise BadInput(
            "the margins of this query say what is public of a frame: an invariant, or few rows or groups; give "
            "pairs=[(left, right), …] of frames for which that holds, with epsilon=…, or a smaller size=…"
        )
    return {"domain": rows, "size": size}


@dataclass(frozen=True, eq=False)
class _OnFrames:
    """The measurement on frames of rows: the rows that it releases, in an order that does not depend on the data's."""

    measurement: Any
    rows: Rows
    library = "opendp"
    __name__ = "opendp_query"

    def outputs(self, data: Any, count: int) -> list[Any]:
        frame = (data if is_frame(data) else self.rows.frame(data)).lazy()
        released = (self.measurement(frame).collect() for _ in range(count))
        return [table.sort(table.columns).rows() for table in released]


def _is_scalar(domain: Any) -> bool:
    return str(domain).startswith("AtomDomain")


def opendp_metric(measurement: Any) -> str:
    """The input metric, by its name in DISTANCES."""
    name, _, details = str(measurement.input_metric).partition("(")
    return f"{name}, monotonic" if details.startswith("monotonic") else name


def _opendp_input(measurement: Any, options: dict[str, Any]) -> dict[str, Any]:
    """The options, with the adjacency, domain and size that the metric and domain of the inputs stand for."""
    domain, metric = measurement.input_domain, opendp_metric(measurement)
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
    distance = DISTANCES.get(opendp_metric(measurement), {}).get(name)
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


def opendp_claim(measurement: Any, distance: float, delta: float | None) -> dict[str, Any]:
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
