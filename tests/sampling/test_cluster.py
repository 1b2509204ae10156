"""Ray and Dask, the real ones, with two workers of which one is killed: the results are those of this process, and no
process is left behind."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.sampling import on_cluster

import veridp
from veridp.errors import BadInput, MissingExtra
from veridp.sampling import cluster


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "library"), [("ray", "ray"), ("dask", "distributed")])
def test_results_on_a_cluster_are_those_of_this_process(kind: str, library: str, tmp_path: Path) -> None:
    if find_spec(library) is None:
        pytest.skip(f"{library} is not installed; pip install 'veridp[{kind}]'")
    words = [sys.executable, on_cluster.__file__, kind, str(tmp_path / "found")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "found").read_text())
    assert [*found] == [check.__name__ for check in (*on_cluster.CHECKS[kind], on_cluster.no_process_is_left)]
    assert "\n".join(trace for trace in found.values() if trace) == ""


def test_what_a_stranger_unpickles_needs_no_veridp() -> None:
    import cloudpickle

    content = cloudpickle.dumps(cluster.ON_WORKER)
    script = "import pickle, sys; sys.modules['veridp'] = None; print(pickle.load(sys.stdin.buffer).__name__)"
    done = subprocess.run([sys.executable, "-c", script], input=content, capture_output=True, check=True)  # noqa: S603
    assert done.stdout.strip() == b"_on_worker"


def test_a_cluster_without_its_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for library, extra in (("ray", "ray"), ("distributed", "dask")):
        monkeypatch.setitem(sys.modules, library, None)
        missing = pytest.raises(MissingExtra, match=rf"needs {library}; .* pip install 'veridp\[{extra}\]'")
        with missing, veridp.executor(f"{extra}://127.0.0.1:1"):
            pass


def test_an_executor_of_another_name_is_an_error() -> None:
    with pytest.raises(BadInput, match="is unknown; use one of processes, ray, ray://"), veridp.executor("slurm"):
        pass
