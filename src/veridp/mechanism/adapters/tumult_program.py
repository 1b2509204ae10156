"""A measurement of Tumult Core as a program: one line of JSON out for each line in.

It is run by an interpreter that has Tumult, whose NumPy is older than that of veridp: it imports neither veridp nor
anything else outside the standard library itself.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
from typing import Any


def described(measurement: Any) -> dict[str, Any]:
    """What the measurement says of itself: the claim of its privacy function at distance 1, and its inputs."""
    measure, cost = type(measurement.output_measure).__name__, measurement.privacy_function(1)
    costs = [part.to_float(round_up=True) for part in (cost if isinstance(cost, tuple) else (cost,))]
    names = {"PureDP": ("epsilon",), "ApproxDP": ("epsilon", "delta"), "RhoZCDP": ("rho",)}.get(measure, ())
    domain = measurement.input_domain
    element = getattr(domain, "element_domain", domain)
    return {
        "measure": measure,
        "claim": dict(zip(names, costs, strict=False)),
        "metric": str(measurement.input_metric).split("(")[0],
        "domain": type(domain).__name__,
        "element": type(element).__name__,
    }


def as_input(domain: Any, data: Any) -> Any:
    """The data as the measurement wants them."""
    kind = type(domain).__name__
    if kind == "SparkDataFrameDomain":
        session = importlib.import_module("pyspark.sql").SparkSession.builder.getOrCreate()
        return session.createDataFrame([tuple(row) for row in data], schema=domain.spark_schema)
    if kind == "PandasSeriesDomain":
        return importlib.import_module("pandas").Series(data, dtype=domain.element_domain.carrier_type)
    return domain.carrier_type(data[0] if isinstance(data, list) else data)


def as_json(output: Any) -> Any:
    """The output in the words of JSON; the rows of a frame in an order of their own."""
    if hasattr(output, "collect"):
        return sorted(([as_json(value) for value in row] for row in output.collect()), key=repr)
    return output.tolist() if hasattr(output, "tolist") else output


def main(file: str, name: str, *flags: str) -> None:
    """Describe the measurement of this name in the file, or answer lines until there are no more."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # of Spark's workers
    spec = importlib.util.spec_from_file_location("measured", file)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules["measured"] = module
    spec.loader.exec_module(module)
    measurement, stream = getattr(module, name), sys.stdout
    if "--describe" in flags:
        stream.write(json.dumps(described(measurement)) + "\n")
        return
    for line in sys.stdin:
        stream.write(json.dumps(as_json(measurement(as_input(measurement.input_domain, json.loads(line))))) + "\n")
        stream.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
