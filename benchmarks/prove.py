"""How long proofs take: how the time grows with the size, and what certificates weigh.

The first table has the seconds of a proof by size, with the number of events and of corners of the neighbourhood: the
time should follow the events, not the corners. The second has the seconds of proving and of checking a certificate, and
its size. What is proved of the literature's mechanisms is in `make reproduce`.

python benchmarks/prove.py [--quick]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from rich.console import Console
from rich.table import Table

from veridp import catalogue
from veridp.engines.prove import AlignmentProof, Proof, prove, prove_for_every_size
from veridp.engines.prove.certificate import Certified, certificate_text
from veridp.errors import VeridpError
from veridp.mechanism import Mechanism
from veridp_check.checker import check

GROWING = ["svt1", "noisy_max1", "svt6", "prefix_sum", "gap_svt", "noisy_max3"]
EVERY_SIZE = ["svt1", "svt2", "svt4", "gap_svt", "numerical_svt", "adaptive_svt", "monotone_svt", "smart_sum"]


@dataclass(frozen=True)
class Timed:
    """A proof, or why there is none, and how long that took."""

    proof: Proof | None
    reason: str
    seconds: float


def timed(mechanism: Mechanism, size: int) -> Timed:
    start = time.perf_counter()
    try:
        proof = prove(mechanism, size)
    except VeridpError as error:
        return Timed(None, str(error), time.perf_counter() - start)
    return Timed(proof, "", time.perf_counter() - start)


def show_growth(console: Console, most: int) -> None:
    sizes = range(2, most + 1)
    table = Table("mechanism", *map(str, sizes), title="seconds by size (events, corners)")
    for name in GROWING:
        cells = []
        for size in sizes:
            found = timed(catalogue[name], size)
            proof = found.proof
            counts = f" ({len(proof.events)}, {proof.corners})" if isinstance(proof, AlignmentProof) else ""
            cells.append(f"{found.seconds:.2f}{counts}")
        table.add_row(name, *cells)
    console.print(table)


def add_certificate(table: Table, what: str, find: Callable[[], Certified]) -> None:
    start = time.perf_counter()
    text = certificate_text(find().certificate)
    proving = time.perf_counter() - start
    start = time.perf_counter()
    check(json.loads(text))
    table.add_row(what, f"{proving:.2f}", f"{time.perf_counter() - start:.2f}", f"{len(text):,}")


def show_certificates(console: Console) -> None:
    table = Table("certificate", "proving", "checking", "bytes", title="certificates: seconds and size")
    for name in ("svt1", "noisy_max1", "prefix_sum", "svt6", "rappor", "truncated_geometric"):
        size = catalogue[name].size if catalogue[name].size == 1 else 5
        add_certificate(table, f"{name}, size {size}", partial(prove, catalogue[name], size))
    for name in EVERY_SIZE:
        add_certificate(table, f"{name}, every size", partial(prove_for_every_size, catalogue[name]))
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="sizes up to 6 only")
    quick = parser.parse_args().quick
    console = Console()
    timed(catalogue["laplace"], 1)  # imports the solvers
    show_growth(console, 6 if quick else 12)
    show_certificates(console)


if __name__ == "__main__":
    main()
