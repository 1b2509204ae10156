"""Aggregations of Google's pydp, PipelineDP and SmartNoise, and clients of pure-ldp, as mechanisms."""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from veridp.adjacency import GivenPairs, Rows, Scaled, adjacency, is_frame
from veridp.errors import BadInput
from veridp.mechanism.adapters.foreign import Unseeded, foreign, resolved
from veridp.mechanism.adapters.worst_pairs import extreme_pairs, farthest_pairs
from veridp.mechanism.declared import Mechanism

PREFETCHED_DRAWS = 16_384  # of 8 bytes or more each: pydp fetches 64 KB of random bytes ahead

# ------------------------------------------------------------------------------------------------------- Google's pydp


def pydp(algorithm: Any, **options: Any) -> Mechanism:
    """The algorithm or numerical mechanism of pydp as a mechanism, with its ε and δ.

    A numerical mechanism adds noise to a number; neighbours are its sensitivity apart. An algorithm takes records that
    come and go, and needs `domain`, since it does not tell its bounds. Neither can be seeded.
    """
    kind = type(algorithm)
    if kind.__module__.partition(".")[0] != "pydp":
        raise BadInput(
            f"{algorithm!r} is not of pydp; give a pydp.algorithms.laplacian object, or a numerical mechanism"
        )
    known: dict[str, Any] = {"epsilon": float(algorithm.epsilon), "delta": float(getattr(algorithm, "delta", 0.0) or 0)}
    if hasattr(algorithm, "add_noise"):
        step = float(algorithm.l2_sensitivity if hasattr(algorithm, "l2_sensitivity") else algorithm.sensitivity)
        relation = adjacency("linf") if step == 1 else Scaled(adjacency("linf"), step)
        known |= {"adjacency": relation, "size": 1, "domain": (-10 * step, 10 * step), "assumed": frozenset({"domain"})}
        noise = _own_noise(lambda value: algorithm.add_noise(value), kind.__name__)
        return foreign(Unseeded(noise, scalar=True, library="pydp"), **{"worst": farthest_pairs} | known | options)
    if "domain" not in options:
        raise BadInput(f"pydp's {kind.__name__} does not tell its bounds; give domain=(low, high), or domain=range(…)")
    run = _own_noise(lambda data: algorithm.quick_result(list(data)), kind.__name__)
    named = Unseeded(run, scalar=False, library="pydp")
    return foreign(named, **known | {"adjacency": "add-remove-unordered", "worst": extreme_pairs} | options)


def _own_noise(function: Any, name: str) -> Any:
    """The function with noise of its own in each process: forked ones would all use the bytes that pydp fetched ahead.

    They are used up first, after which pydp fetches others.
    """
    numerical = importlib.import_module("pydp.algorithms.numerical_mechanisms")
    drained = os.getpid()

    def run(data: Any) -> Any:
        nonlocal drained
        if drained != os.getpid():
            drained, noise = os.getpid(), numerical.LaplaceMechanism(1.0, 1.0)
            for _ in range(PREFETCHED_DRAWS):
                noise.add_noise(0.0)
        return function(data)

    run.__name__ = run.__qualname__ = name
    return run


# ---------------------------------------------------------------------------------------------------------- PipelineDP


def pipelinedp(
    params: Any, *, epsilon: float, delta: float = 0.0, partitions: Sequence[Any], **options: Any
) -> Mechanism:
    """The aggregation of PipelineDP with these `AggregateParams`, over public partitions, on its local backend.

    A record is a (partition, value), and each is of a person of its own, who comes or goes. Its noise is that of pydp.
    """
    pipeline_dp = importlib.import_module("pipeline_dp")
    extractors = pipeline_dp.DataExtractors(
        privacy_id_extractor=lambda row: row[0],
        partition_extractor=lambda row: row[1][0],
        value_extractor=lambda row: row[1][1],
    )

    def aggregate(rows: Any) -> list[Any]:
        budget = pipeline_dp.NaiveBudgetAccountant(total_epsilon=epsilon, total_delta=delta)
        engine = pipeline_dp.DPEngine(budget, pipeline_dp.LocalBackend())
        found = engine.aggregate(list(enumerate(rows)), params, extractors, public_partitions=list(partitions))
        budget.compute_budgets()
        return [list(metrics) for _, metrics in sorted(found)]

    ends = (params.min_value, params.max_value)
    values = [0.0, 1.0] if None in ends else [float(end) for end in ends]
    domain = [(partition, value) for partition in partitions for value in values]
    known = {"epsilon": epsilon, "delta": delta, "adjacency": "add-remove-unordered", "domain": domain}
    source = Unseeded(_own_noise(aggregate, "pipelinedp"), scalar=False, library="pipelinedp")
    return foreign(source, **{"worst": extreme_pairs} | known | options)


# ---------------------------------------------------------------------------------------------------------- SmartNoise


def smartnoise(reader: Any, query: str, **options: Any) -> Mechanism:
    """The SQL query to this private reader of SmartNoise as a mechanism, with the cost that the reader states for it.

    Data sets are frames of the rows of `domain`, a frame of pandas, also with values at the bounds of the metadata; a
    row comes or goes. Where the metadata name a column of persons, each row is of a person of its own. The reader
    itself is not asked, so none of its budget is spent. SmartNoise parses a query and calibrates its noise anew each
    time it is run; here it does so once, and computes what noise is added to once for each data set.
    """
    if not hasattr(reader, "get_privacy_cost"):
        raise BadInput(f"{reader!r} is not a private reader of SmartNoise; make one with snsql.from_connection(…)")
    frame = options.pop("domain", None)
    if not isinstance(frame, Rows) and not is_frame(frame):
        raise BadInput("data sets are frames of pandas; give one of some rows, with domain=frame")
    columns = [column for table in reader.metadata.tables() for column in table.columns()]
    persons = tuple(column.name for column in columns if column.is_key)
    rows = frame if isinstance(frame, Rows) else Rows(frame, **_column_bounds(columns, frame))
    epsilon, delta = map(float, reader.get_privacy_cost(query))
    known = {"epsilon": epsilon, "delta": delta, "adjacency": "add-remove-unordered", "size": 2, "domain": rows}
    parsed = reader.parse_query_string(query)
    if "pairs" in options:
        options |= {"adjacency": GivenPairs(options.pop("pairs")), "size": 1}
    elif parsed.agg is not None and not parsed.censor_dims:
        raise BadInput(
            "with censor_dims off, which groups there are counts as public; give pairs=[(left, right), …] of frames "
            "with the same groups, or leave it on"
        )
    source = _SmartNoiseQuery(type(reader), reader.privacy, reader.metadata, query, rows, persons)
    return foreign(source, **{"worst": extreme_pairs} | known | options)


def _column_bounds(columns: Sequence[Any], frame: Any) -> dict[str, Any]:
    """The ends of each column that has bounds in the metadata, which are what the noise is made for."""
    ends = {column.name: (getattr(column, "lower", None), getattr(column, "upper", None)) for column in columns}
    keys = {column.name for column in columns if column.is_key} | {"seed"}  # a name that Rows has for something else
    return {name: pair for name, pair in ends.items() if None not in pair and name in {*frame.columns} - keys}


@dataclass(frozen=True, eq=False)
class _SmartNoiseQuery:
    """The rows that a query returns, from readers of other data."""

    kind: Any
    privacy: Any
    metadata: Any
    query: str
    rows: Rows
    persons: tuple[str, ...]
    library = "smartnoise"
    __name__ = "smartnoise"

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "rewritten"}

    @functools.cached_property
    def rewritten(self) -> tuple[Any, Any]:
        """The query as parsed, and as rewritten with noise that is calibrated for it: neither depends on data."""
        asked = self._reader_of(self.rows.frame(self.rows[:1]))
        parsed = asked.parse_query_string(self.query)
        asked._execute_ast(parsed)  # which sets the options that rewriting depends on
        return parsed, asked._rewrite_ast(parsed)

    def outputs(self, data: Any, count: int) -> list[Any]:
        parsed, rewritten = self.rewritten
        asked = self._reader_of(data if is_frame(data) else self.rows.frame(data))
        asked._rewrite_ast = lambda query: rewritten
        exact = asked.reader._execute_ast(rewritten[0])
        asked.reader._execute_ast = lambda query: exact
        return [[list(row) for row in asked._execute_ast(parsed)[1:]] for _ in range(count)]

    def _reader_of(self, frame: Any) -> Any:
        own = frame.assign(**{name: range(len(frame)) for name in self.persons})
        return self.kind.from_connection(own, privacy=self.privacy, metadata=self.metadata)


# ------------------------------------------------------------------------------------------------------------ pure-ldp


def is_pure_ldp(found: Any) -> bool:
    """Whether this is a client of pure-ldp; asks its class alone, so that nothing is imported."""
    return type(found).__module__.startswith("pure_ldp.") and hasattr(found, "privatise")


def pure_ldp(client: Any, **options: Any) -> Mechanism:
    """The client of pure-ldp as a mechanism: its `privatise`, its ε, and every two values of 1, …, d as neighbours."""
    if not is_pure_ldp(client):
        raise BadInput(f"{client!r} is not a client of pure-ldp; build one of pure_ldp.frequency_oracles")
    known = {"adjacency": "any", "domain": range(1, int(client.d) + 1), "size": 1}
    return Mechanism(client.privatise, float(client.epsilon), **resolved(known | options))
