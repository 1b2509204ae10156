"""Checks on a real cluster with two workers, in a process of its own: `python on_cluster.py ray|dask FILE`.

Ray and Dask have threads that a forked process would wait for, so no process of the test suite loads them. Writes what
went wrong in each check to the file, as JSON: null where nothing did.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
import types
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psutil
import pytest

import veridp
from veridp.errors import BadInput
from veridp.sampling import cluster
from veridp.sampling.worker_pool import WorkerPool

Check = Callable[[Executor, str], None]


def plain(result: Any) -> Any:
    """All that the result says, except how long it took."""
    if isinstance(result, dict):
        return {name: plain(value) for name, value in result.items() if "seconds" not in name}
    if isinstance(result, list | tuple):
        return [plain(value) for value in result]
    return plain(result.to_dict()) if hasattr(result, "to_dict") else result


def above(rng, data):
    return bool(data[0] + rng.laplace(scale=2.0) > 0.5)


def halved(rng, data):
    return data[0] + rng.laplace(scale=0.5)


def kills_once(rng, data, *, folder):
    """In the middle of the work, ends the process that runs it, and later the worker of the cluster that started it."""
    output = data[0] + rng.laplace()
    for level, victim in ((4.0, os.getpid()), (6.0, os.getppid())):
        if output > level and not (folder / str(level)).exists():
            (folder / str(level)).touch()
            os.kill(victim, signal.SIGKILL)
            time.sleep(60)  # a process whose worker has ended ends too
    return output > 0


# -------------------------------------------------------------------------------------------------------------- checks


SEARCHES: dict[str, Callable[..., Any]] = {
    "tally": lambda **where: veridp.tally(above, [0.0], 10_000, **where).counts,
    "statdp": lambda **where: veridp.statdp.detect(halved, 1.0, 1, selection_samples=1000, samples=2000, **where),
    "sniper": lambda **where: veridp.sniper.search(
        halved, 1, samples=300, final_samples=2000, models=["one entry"], pairs=["patterns"], seconds=600, **where
    ),
    "finder": lambda **where: veridp.finder.search(
        above, 1, (0.0, 1.0), restarts=4, samples=2**12, seconds=600, **where
    ),
    "audit": lambda **where: list(veridp.audit_all([halved], size=1, epsilon=1.0, seconds=300, **where)),
}
expected: dict[str, Any] = {}  # what they give in this process, before a cluster is loaded


def engines_find_the_same(workers: Executor, address: str) -> None:
    for name, search in SEARCHES.items():
        found = plain(search(executor=workers))
        assert found == expected[name], f"{name}: {found} is not {expected[name]}"


def counts_are_the_same_though_a_worker_is_killed(workers: Executor, address: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        options: dict[str, Any] = {"count": 8192, "seed": 1, "reading": "one-by-one", "folder": Path(folder)}
        counts = veridp.tally(kills_once, [0.0], executor=workers, **options).counts
        assert len(list(Path(folder).iterdir())) == 2  # both were killed, but not the executor, which is still at work:
        assert counts == veridp.tally(kills_once, [0.0], workers=1, **options).counts
    assert veridp.tally(above, [0.0], 10_000, executor=workers).counts == expected["tally"]


def code_of_scripts_travels_and_tasks_grow_until_they_are_worth_sending(workers: Executor, address: str) -> None:
    script = types.ModuleType("__main__")
    exec("FACTOR = 3\ndef times(shared, number): return shared * number * FACTOR", vars(script))  # noqa: S102
    sizes = []

    def counted(function: Any, payload: bytes, task: bytes) -> Any:
        sizes.append(len(task))
        return type(workers).submit(workers, function, payload, task)

    with patch.object(workers, "submit", counted), WorkerPool(7, workers) as pool:
        assert list(pool.results(script.times, range(500))) == [21 * number for number in range(500)]
    assert len(sizes) < 100  # of 500 arguments


def a_worker_of_another_version_is_told(workers: Executor, address: str) -> None:
    message = rf"has veridp {cluster.needed_version()}, but veridp 99.9 is needed.*pip install veridp==99.9"
    with patch.object(cluster, "needed_version", lambda: "99.9"), pytest.raises(BadInput, match=message):
        veridp.tally(above, [0.0], 10_000, executor=workers)


def a_worker_without_veridp_is_told(workers: Executor, address: str) -> None:
    code = cluster._on_worker.__code__
    constants = tuple("no-such-package" if one == "veridp" else one for one in code.co_consts)
    stranger = types.FunctionType(code.replace(co_consts=constants), {"__builtins__": __builtins__}, "_on_worker")
    stranger.__module__ = "__main__"
    remote = workers.ray.remote(stranger) if isinstance(workers, cluster.RayExecutor) else None
    missing = pytest.raises(BadInput, match=f"has no veridp, but veridp {cluster.needed_version()} is needed")
    with patch.object(cluster, "ON_WORKER", stranger), patch.object(workers, "remote", remote, create=True), missing:
        veridp.tally(above, [0.0], 10_000, executor=workers)


def a_client_from_elsewhere_finds_the_same(workers: Executor, address: str) -> None:
    script = f"""
import veridp
def coin(rng, data): return bool(rng.laplace() > data)
with veridp.executor({address!r}) as workers:
    print(veridp.tally(coin, 0.3, 9000, 1, executor=workers).counts == veridp.tally(coin, 0.3, 9000, 1).counts)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)  # noqa: S603
    assert done.stdout == "True\n", done.stderr


def the_command_line_audits_many_targets(workers: Executor, address: str) -> None:
    code = (
        "import veridp\n"
        "@veridp.mechanism(epsilon=1.0, size=1)\n"
        "def good(rng, data): return data[0] + rng.laplace(scale=1)\n"
        "@veridp.mechanism(epsilon=1.0, size=1)\n"
        "def bad(rng, data): return data[0] + rng.laplace(scale=0.5)\n"
    )
    words = [sys.executable, "-m", "veridp", "audit", "mech.py", "mech.py:missing", "--time", "120", "--json"]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "mech.py").write_text(code)
        command = [*words, "--executor", address]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)  # noqa: S603
    assert done.returncode == 1, done.stderr
    standings = [one.get("standing") for one in json.loads(done.stdout)["results"]]
    assert standings == ["proved", "refuted", "unjudged"], done.stdout


def a_cluster_that_is_gone_is_replaced_by_processes_here(workers: Executor, address: str) -> None:
    with veridp.executor(address) as closed:
        pass
    expected = veridp.tally(above, [0.0], 20_000, reading="one-by-one").counts
    assert veridp.tally(above, [0.0], 20_000, reading="one-by-one", executor=closed).counts == expected


def no_scheduler_is_an_error(workers: Executor, address: str) -> None:
    missing = pytest.raises(BadInput, match="no Dask scheduler there")
    with patch.object(cluster, "CONNECT_SECONDS", 0.2), missing, veridp.executor("dask://127.0.0.1:1"):
        pass


SHARED: tuple[Check, ...] = (
    engines_find_the_same,
    counts_are_the_same_though_a_worker_is_killed,
    code_of_scripts_travels_and_tasks_grow_until_they_are_worth_sending,
    a_worker_of_another_version_is_told,
    a_worker_without_veridp_is_told,
)
CHECKS: dict[str, tuple[Check, ...]] = {
    "ray": (*SHARED, a_client_from_elsewhere_finds_the_same),
    "dask": (
        *SHARED,
        the_command_line_audits_many_targets,
        a_cluster_that_is_gone_is_replaced_by_processes_here,
        no_scheduler_is_an_error,
    ),
}


# ------------------------------------------------------------------------------------------------------------ clusters


@contextmanager
def ray() -> Iterator[tuple[str, str]]:
    """The name and the address of a Ray of its own, with two workers and a server for clients from elsewhere."""
    import ray

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    os.environ.setdefault("RAY_worker_niceness", "0")  # else its workers give way to whatever the machine does
    node: Any = ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    words = [sys.executable, "-m", "ray.util.client.server", "--address", node.address_info["address"]]
    server = subprocess.Popen([*words, "--mode", "legacy", "--host", "127.0.0.1", "--port", str(port)])  # noqa: S603
    try:
        for _ in range(600):
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.2)
        yield "ray", f"ray://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()
        ray.shutdown()


@contextmanager
def dask() -> Iterator[tuple[str, str]]:
    """The same of a Dask of its own, with two workers."""
    import distributed

    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "host": "127.0.0.1"}
    start: Any = distributed.LocalCluster
    with start(**options, silence_logs=50) as local:
        address = local.scheduler_address.replace("tcp", "dask")
        yield address, address


def started_processes() -> list[psutil.Process]:
    """Those of the cluster, without servers that Python keeps for this process."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # it may have ended
            command = " ".join(process.cmdline())
            found += [] if "forkserver" in command or "resource_tracker" in command else [process]
    return found


def no_process_is_left(started: list[psutil.Process]) -> None:
    """Nor a zombie of this process; one that its parent, which has ended, did not wait for is the machine's."""
    assert len(started) >= 2  # its workers
    _, left = psutil.wait_procs(started, timeout=60)
    others = [process for process in left if process.status() == psutil.STATUS_ZOMBIE and process.ppid() != os.getpid()]
    assert left == others


def outcome(check: Callable[[], None]) -> str | None:
    try:
        check()
    except Exception:
        return traceback.format_exc()
    return None


def main(kind: str, file: Path) -> None:
    found: dict[str, str | None] = {}
    expected.update({name: plain(search()) for name, search in SEARCHES.items()})
    with {"ray": ray, "dask": dask}[kind]() as (name, address):
        with veridp.executor(name) as workers:
            assert workers is not None
            for check in CHECKS[kind]:
                found[check.__name__] = outcome(lambda: check(workers, address))  # noqa: B023 - called at once
        started = started_processes()
    found[no_process_is_left.__name__] = outcome(lambda: no_process_is_left(started))
    file.write_text(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
