"""How the cost of exact comparisons and of proofs grows with the size. `python benchmarks/growth.py [--plot FILE.svg]`

Processor seconds, children included, of `exact.compare` (two inputs that differ in one entry) and of `prove`, for
families of the catalogue, at sizes that grow until one takes longer than the limit. The law is that of the last step: a
power of the size, or an exponential where the power still rises; a description of these sizes, not a theorem. Where it
passes a minute is measured, or else extrapolated by that law, and then stands in brackets.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import veridp
from veridp.errors import VeridpError

FAMILIES = ("svt1", "svt6", "noisy_max1", "gap_svt", "numerical_svt", "prefix_sum")
SIZES = (5, 7, 10, 14, 20, 28, 40)
RISING = 1.4  # times the power of the step before, as in an exponential at sizes that grow by √2
LEAST_BASE = 1.2  # of an exponential: one that grows more slowly is not told from a power at such sizes
NOTED = 0.1  # seconds: of less, starting takes the most
MINUTE = 60.0


def exact(name: str, size: int, seconds: float) -> object:
    left, right = [0.0] * size, [1.0] + [0.0] * (size - 1)
    return veridp.exact.compare(veridp.catalogue[name], left, right, seconds=seconds).epsilon


def prove(name: str, size: int, seconds: float) -> object:
    return veridp.prove(veridp.catalogue[name], size=size, seconds=seconds).epsilon


ENGINES: dict[str, Callable[[str, int, float], object]] = {"exact": exact, "prove": prove}


def processor_seconds() -> float:
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


@dataclass(frozen=True)
class Growth:
    """The seconds at each size that was tried, and why larger ones were not."""

    name: str
    engine: str
    seconds: dict[int, float]
    ended: str

    @property
    def law(self) -> tuple[str, Callable[[float], float]] | None:
        """In words, and as a function of the size; None of too few points."""
        noted = [(size, seconds) for size, seconds in self.seconds.items() if seconds >= NOTED]
        if len(noted) < 3:
            return None
        (_, before), (last, now) = (_powers(*step) for step in itertools.pairwise(noted[-3:]))
        (size, seconds), (end, most) = noted[-2:]
        base = (most / seconds) ** (1 / (end - size))
        if now > RISING * before and base > LEAST_BASE:
            return f"{base:.2f}^n", lambda n: most * base ** (n - end)
        return f"n^{now:.1f}", lambda n: most * (n / last) ** now

    @property
    def passes_a_minute(self) -> str:
        slow = [size for size, seconds in self.seconds.items() if seconds > MINUTE]
        if slow:
            return str(min(slow))
        if self.law is None:
            return f"(over {max(self.seconds)})" if self.seconds else ""
        sizes = range(max(self.seconds), 100_000)
        return f"({next((size for size in sizes if self.law[1](size) > MINUTE), 'far off')})"


def _powers(one: tuple[int, float], next_one: tuple[int, float]) -> tuple[int, float]:
    """The larger size, and the power of the size by which the seconds grow from one to the next."""
    return next_one[0], math.log(next_one[1] / one[1]) / math.log(next_one[0] / one[0])


def measured(name: str, engine: str, limit: float) -> Growth:
    found: dict[int, float] = {}
    for size in SIZES:
        start = processor_seconds()
        try:
            ENGINES[engine](name, size, 10 * limit)  # of the clock: others may use the machine too
        except VeridpError as error:
            return Growth(name, engine, found, f"{type(error).__name__} at {size}")
        found[size] = processor_seconds() - start
        if found[size] > limit:
            return Growth(name, engine, found, f"over {limit:g} s")
    return Growth(name, engine, found, "")


def draw(grown: list[Growth], file: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.6), layout="constrained")
    for place, (engine, axes) in enumerate(zip(ENGINES, figure.subplots(1, 2, sharey=True), strict=True)):
        for one in grown:
            if one.engine == engine:
                axes.plot(list(one.seconds), list(one.seconds.values()), marker="o", markersize=3, label=one.name)
        axes.set(title=engine, xlabel="size", xscale="log", yscale="log", xticks=SIZES)
        axes.set_xticks(SIZES, [str(size) for size in SIZES])
        axes.minorticks_off()
        axes.set_ylabel("processor seconds" if place == 0 else "")
    axes.legend(fontsize=8)
    figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--limit", type=float, default=MINUTE, help="seconds past which no larger size is tried")
    parser.add_argument("--plot", type=Path, help="draw the curves to this file")
    parser.add_argument("names", nargs="*", default=FAMILIES)
    given: Any = parser.parse_args()
    for engine in ENGINES:
        getattr(veridp, engine)  # loads it
    print(f"| family | engine | {' | '.join(map(str, SIZES))} | law | passes 60 s at |")
    print("|---" * (len(SIZES) + 4) + "|")
    grown, started = [], time.monotonic()
    for name in given.names:
        for engine in ENGINES:
            one = measured(name, engine, given.limit)
            grown.append(one)
            cells = [f"{one.seconds[size]:.2g}" if size in one.seconds else "" for size in SIZES]
            law = "" if one.law is None else one.law[0]
            note = f" ({one.ended})" if one.ended else ""
            print(f"| {name} | {engine} | {' | '.join(cells)} | {law}{note} | {one.passes_a_minute} |", flush=True)
    if given.plot is not None:
        draw(grown, given.plot)
    print(f"\n{time.monotonic() - started:.0f} s in all")


if __name__ == "__main__":
    main()
