"""Ray and Dask, the real ones, with two workers of which one is killed: the results are those of this process, and no
process is left behind."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import time
import types
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.conftest import Run
from tests.sampling.test_checkpoint import plain

import veridp
from veridp.errors import BadInput, MissingExtra
from veridp.sampling import cluster
from veridp.sampling.worker_pool import WorkerPool


def ray_processes() -> list[psutil.Process]:
    """The servers and workers of Ray that this process started; not servers of Python's, which know Ray's path."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # it may have ended
            command = " ".join(process.cmdline())
            found += [process] if "ray" in command and "multiprocessing" not in command else []
    return found


def check_all_end(processes: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(processes, timeout=120)
    assert alive == []


def wait_until_served(port: int) -> None:
    for _ in range(600):
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.2)


@pytest.fixture(scope="module")
def ray_address() -> Iterator[str]:
    """A Ray of its own, with two workers and a server for clients from elsewhere."""
    pytest.importorskip("ray", reason="ray is not installed; pip install 'veridp[ray]'")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    import ray

    os.environ.setdefault("RAY_worker_niceness", "0")  # else its workers give way to whatever the machine does
    node: Any = ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    server = None
    try:
        words = [sys.executable, "-m", "ray.util.client.server", "--address", node.address_info["address"]]
        server = subprocess.Popen([*words, "--mode", "legacy", "--host", "127.0.0.1", "--port", str(port)])  # noqa: S603
        wait_until_served(port)
        yield f"ray://127.0.0.1:{port}"
    finally:
        if server is not None:
            server.kill()
            server.wait()
        started = ray_processes()
        ray.shutdown()
    assert len(started) >= 3  # its servers and two workers
    check_all_end(started)


@pytest.fixture(scope="module")
def dask_address() -> Iterator[str]:
    distributed = pytest.importorskip("distributed", reason="Dask is not installed; pip install 'veridp[dask]'")
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "host": "127.0.0.1"}
    with distributed.LocalCluster(**options, silence_logs=50) as local:
        yield local.scheduler_address.replace("tcp", "dask")
        started = [psutil.Process(nanny.pid) for nanny in local.workers.values()]
    assert len(started) == 2
    check_all_end(started)


@pytest.fixture(scope="module", params=["ray", "dask"])
def name(request: pytest.FixtureRequest) -> str:
    address: str = request.getfixturevalue(f"{request.param}_address")
    return "ray" if request.param == "ray" else address


@pytest.fixture
def workers(name: str) -> Iterator[Executor]:
    with veridp.executor(name) as chosen:
        assert chosen is not None
        yield chosen


def above(rng, data):
    return bool(data[0] + rng.laplace(scale=2.0) > 0.5)


def halved(rng, data):
    return data[0] + rng.laplace(scale=0.5)


def dies_once(rng, data, *, folder):
    """Ends the process that runs it, once, in the middle of the work."""
    output = data[0] + rng.laplace()
    if output > 4.0 and not (folder / "died").exists():
        (folder / "died").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return output > 0


def test_counts_are_the_same_though_a_worker_is_killed(workers: Executor, tmp_path: Path) -> None:
    options: dict[str, Any] = {"count": 8192, "seed": 1, "reading": "one-by-one", "folder": tmp_path}
    counts = veridp.tally(dies_once, [0.0], executor=workers, **options).counts
    assert (tmp_path / "died").exists()  # and not this process, nor its executor, which is still at work:
    assert counts == veridp.tally(dies_once, [0.0], workers=1, **options).counts
    assert veridp.tally(above, [0.0], 10_000, executor=workers).counts == veridp.tally(above, [0.0], 10_000).counts


def test_engines_find_the_same(workers: Executor) -> None:
    for search in (
        lambda **where: veridp.statdp.detect(halved, 1.0, 1, selection_samples=1000, samples=2000, **where),
        lambda **where: veridp.sniper.search(
            halved, 1, samples=300, final_samples=2000, models=["one entry"], pairs=["patterns"], seconds=600, **where
        ),
        lambda **where: veridp.finder.search(above, 1, (0.0, 1.0), restarts=4, samples=2**12, seconds=600, **where),
        lambda **where: next(veridp.audit_all([halved], size=1, epsilon=1.0, seconds=300, **where)),
    ):
        assert plain(search(executor=workers)) == plain(search())


def test_code_of_scripts_travels_and_tasks_grow_until_they_are_worth_sending(workers: Executor) -> None:
    script = types.ModuleType("__main__")
    exec("FACTOR = 3\ndef times(shared, number): return shared * number * FACTOR", vars(script))  # noqa: S102
    sizes = []
    real = workers.submit

    def counted(function: Any, payload: bytes, task: bytes) -> Any:
        sizes.append(len(task))
        return real(function, payload, task)

    workers.submit = counted  # type: ignore[method-assign, assignment]
    with WorkerPool(7, workers) as pool:
        assert list(pool.results(script.times, range(500))) == [21 * number for number in range(500)]
    assert len(sizes) < 100  # of 500 arguments


def test_a_worker_of_another_version_is_told(workers: Executor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "needed_version", lambda: "99.9")
    with pytest.raises(BadInput, match=r"has veridp [\d.]+, but veridp 99.9 is needed.*pip install veridp==99.9"):
        veridp.tally(above, [0.0], 10_000, executor=workers)


def test_a_worker_without_veridp_is_told(workers: Executor, monkeypatch: pytest.MonkeyPatch) -> None:
    code = cluster._on_worker.__code__
    constants = tuple("no-such-package" if one == "veridp" else one for one in code.co_consts)
    stranger = types.FunctionType(code.replace(co_consts=constants), {"__builtins__": __builtins__}, "_on_worker")
    stranger.__module__ = "__main__"
    monkeypatch.setattr(cluster, "ON_WORKER", stranger)
    remote = workers.ray.remote(stranger) if isinstance(workers, cluster.RayExecutor) else None
    monkeypatch.setattr(workers, "remote", remote, raising=False)
    with pytest.raises(BadInput, match=r"has no veridp, but veridp .* is needed"):
        veridp.tally(above, [0.0], 10_000, executor=workers)


def test_what_a_stranger_unpickles_needs_no_veridp() -> None:
    import cloudpickle

    content = cloudpickle.dumps(cluster.ON_WORKER)
    script = "import pickle, sys; sys.modules['veridp'] = None; print(pickle.load(sys.stdin.buffer).__name__)"
    done = subprocess.run([sys.executable, "-c", script], input=content, capture_output=True, check=True)  # noqa: S603
    assert done.stdout.strip() == b"_on_worker"


def test_a_client_from_elsewhere_finds_the_same(ray_address: str) -> None:
    script = f"""
import veridp
def coin(rng, data): return bool(rng.laplace() > data)
with veridp.executor({ray_address!r}) as workers:
    print(veridp.tally(coin, 0.3, 9000, 1, executor=workers).counts == veridp.tally(coin, 0.3, 9000, 1).counts)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)  # noqa: S603
    assert done.stdout == "True\n", done.stderr


def test_the_command_line_audits_many_targets_on_a_cluster(dask_address: str, run: Run, own_folder: Path) -> None:
    (own_folder / "mech.py").write_text(
        "import veridp\n"
        "@veridp.mechanism(epsilon=1.0, size=1)\n"
        "def good(rng, data): return data[0] + rng.laplace(scale=1)\n"
        "@veridp.mechanism(epsilon=1.0, size=1)\n"
        "def bad(rng, data): return data[0] + rng.laplace(scale=0.5)\n"
    )
    words = ("audit", "mech.py", "mech.py:missing", "--time", "120", "--json")
    far, here = run(*words, "--executor", dask_address), run(*words)
    assert (far.status, here.status) == (1, 1)
    assert [one.get("standing") for one in far.results] == [one.get("standing") for one in here.results]


def test_a_cluster_without_its_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for library, extra in (("ray", "ray"), ("distributed", "dask")):
        monkeypatch.setitem(sys.modules, library, None)
        missing = pytest.raises(MissingExtra, match=rf"needs {library}; .* pip install 'veridp\[{extra}\]'")
        with missing, veridp.executor(f"{extra}://127.0.0.1:1"):
            pass


@pytest.mark.parametrize(
    ("name", "complaint"),
    [("slurm", "is unknown; use one of processes, ray, ray://"), ("dask://127.0.0.1:1", "no Dask scheduler there")],
)
def test_an_executor_that_is_not_there_is_an_error(name: str, complaint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 0.2)
    if name.startswith("dask"):
        pytest.importorskip("distributed", reason="Dask is not installed; pip install 'veridp[dask]'")
    with pytest.raises(BadInput, match=complaint), veridp.executor(name):
        pass


def test_a_cluster_that_is_gone_is_replaced_by_processes_here(dask_address: str) -> None:
    with veridp.executor(dask_address) as workers:
        pass
    expected = veridp.tally(above, [0.0], 20_000, reading="one-by-one").counts
    assert veridp.tally(above, [0.0], 20_000, reading="one-by-one", executor=workers).counts == expected
