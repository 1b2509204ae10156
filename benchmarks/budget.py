"""How well budgets hold: wall time and peak memory of audits and proofs of targets that do not end by themselves.

    python benchmarks/budget.py [SECONDS ...]

Each case runs in a process of its own, in which the engines were loaded before by a small audit. The time is that of
the call, from outside; the memory is the most that the call's processes had together, beyond what they began with.
"""

from __future__ import annotations

import contextlib
import importlib
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import veridp
from veridp.budget import child_process as contained
from veridp.budget import memory_used
from veridp.errors import VeridpError

BUDGETS = (1.0, 3.0, 10.0)


def endless(rng: Any, data: Any) -> float:
    """Ends on plain numbers, and never on symbols."""
    x = data[0] + rng.laplace()
    while type(x) is not float:
        pass
    return x


def runs_forever_at_times(rng: Any, data: Any) -> float:
    while rng.random() < 1e-3:
        while True:
            pass
    return float(data[0] + rng.laplace())


def swallows(rng: Any, data: Any) -> float:
    """Catches everything, and goes on for ever, once symbols arrive."""
    x = data[0] + rng.laplace()
    if type(x) is not float:
        while True:
            with contextlib.suppress(BaseException):
                time.sleep(10)
    return float(x)


def deaf(rng: Any, data: Any) -> float:
    """Calls compiled code that does not come back for minutes, once symbols arrive."""
    x = data[0] + rng.laplace()
    if type(x) is not float:
        pow(3, 3**23)  # one call without a look at signals
    return float(x)


def many_values(rng: Any, data: Any) -> int:
    return int(data[0]) + int(rng.integers(2**31))


def many_paths(rng: Any, data: Any) -> int:
    return sum(bool(x + rng.laplace() > 0) << i for i, x in enumerate(data))


def eats_memory(rng: Any, data: Any) -> float:
    x = data[0] + rng.laplace()
    if type(x) is not float:
        kept = []
        while True:
            kept.append(bytearray(2**24))
    return float(x)


def tangled(rng: Any, data: Any) -> int:
    """Integer noise in conditions that take branch and bound to untangle."""
    a, b, c = rng.geometric(0.1), rng.geometric(0.2), rng.geometric(0.3)
    total = 0
    for i in range(12):
        if (7 + i) * a - (11 + 2 * i) * b + (5 - i) * c > i + data[0]:
            total += 1 << i
    return total


def compiles_long(rng: Any, data: Any) -> float:
    total = float(data[0])
    for i in range(60):
        total += rng.laplace() if i % 3 else rng.normal()
        if total > 100:
            total = total - rng.exponential()
    return total


def opendp_object(seconds: float) -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    return veridp.audit(dp.m.make_laplace(*space, scale=1.0), epsilon=1.0, adjacency="any", seconds=seconds)


def audited(function: Callable[..., Any], **options: Any) -> Callable[[float], Any]:
    return lambda seconds: veridp.audit(function, epsilon=1.0, adjacency="l1", seconds=seconds, **options)


CASES: dict[str, Callable[[float], Any]] = {
    "audit: OpenDP object": opendp_object,
    "audit: endless loop on symbols": audited(endless, size=1),
    "audit: endless loop, one run in 1000": audited(runs_forever_at_times, size=1),
    "audit: loop that catches BaseException": audited(swallows, size=1),
    "audit: compiled call that does not return": audited(deaf, size=1),
    "audit: rng.integers(2**31)": audited(many_values, size=1),
    "audit: 2^20 paths": audited(many_paths, size=20),
    "audit: eats memory": audited(eats_memory, size=1),
    "audit: tangled integer conditions": audited(tangled, size=1),
    "audit: black box that compiles long": audited(compiles_long, size=1, black_box=True),
    "audit: svt6, size 16": lambda seconds: veridp.audit(veridp.catalogue["svt6"], size=16, seconds=seconds),
    "prove: svt6, size 16": lambda seconds: veridp.prove(veridp.catalogue["svt6"], 16, seconds=seconds),
    "exact.worst: svt6, size 16": lambda seconds: veridp.exact.worst(veridp.catalogue["svt6"], 16, seconds=seconds),
    "explore: 2^20 paths": lambda seconds: veridp.explore(many_paths, [0.0] * 20, seconds=seconds, max_paths=10**7),
    "finder: svt6, size 16": lambda seconds: veridp.finder.search(veridp.catalogue["svt6"], 16, seconds=seconds),
    "sniper: svt6": lambda seconds: veridp.sniper.search(veridp.catalogue["svt6"], seconds=seconds),
    "statdp: svt6": lambda seconds: veridp.statdp.detect(veridp.catalogue["svt6"], seconds=seconds),
}


class Peak(threading.Thread):
    """Watches how much memory the children of this process have together."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.base, self.most, self.ended = memory_used(), 0.0, threading.Event()
        self.group = 0

    def run(self) -> None:
        while not self.ended.wait(0.05):
            watched = contained.watched
            if watched:
                used = [max(0.0, memory_used(pid) - self.base) for pid in contained.family(watched[-1])]
                self.most = max(self.most, sum(used))


def measure(name: str, seconds: float) -> str:
    veridp.audit(veridp.catalogue["laplace"], seconds=60.0)
    for module in ("veridp.engines.finder", "veridp.engines.sniper", "veridp.engines.statdp", "opendp.prelude"):
        importlib.import_module(module)
    peak = Peak()
    peak.start()
    started = time.monotonic()
    try:
        result = CASES[name](seconds)
        finished = getattr(result, "finished", True)
        what = f"{str(result)[:60]}{'' if finished else ' (cut short)'}"
    except VeridpError as error:
        what = f"{type(error).__name__}: {str(error)[:50]}"
    took = time.monotonic() - started
    peak.ended.set()
    kept = "kept" if took <= seconds + max(0.1 * seconds, 2.0) else "EXCEEDED"
    return f"{name:<42} {seconds:>4g} s {took:>6.2f} s {kept:<9} {peak.most / 2**20:>6.0f} MB  {what}"


def main() -> None:
    if len(sys.argv) == 3 and sys.argv[1] in CASES:
        sys.stdout.write(measure(sys.argv[1], float(sys.argv[2])) + "\n")
        return
    for seconds in [float(text) for text in sys.argv[1:]] or BUDGETS:
        for name in CASES:
            done = subprocess.run(  # noqa: S603 - this file
                [sys.executable, __file__, name, str(seconds)], capture_output=True, text=True, check=False
            )
            ignored = " [Exception ignored]" if "Exception ignored" in done.stderr else ""
            sys.stdout.write((done.stdout.strip() or f"{name}: FAILED {done.stderr[-300:]}") + ignored + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
