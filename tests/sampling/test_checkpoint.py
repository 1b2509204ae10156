"""Checkpoints: an interrupted run, however often, ends as an uninterrupted one; another's checkpoint is refused."""

from __future__ import annotations

import functools
import os
import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from tests.conftest import Run
from tests.sampling.on_cluster import plain

import veridp
from veridp.errors import BadInput
from veridp.sampling.checkpoint import Journal, digest_of
from veridp.sampling.worker_pool import WorkerPool


class CountingExecutor(Executor):
    """Runs tasks at once, and is interrupted after so many: by Ctrl-C, or by a signal that nothing survives."""

    def __init__(self, tasks: float, how: int = signal.SIGINT) -> None:
        self.left, self.how, self.done = tasks, how, 0

    def submit(self, function: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
        if self.left <= 0:
            if self.how == signal.SIGINT:
                raise KeyboardInterrupt
            os.kill(os.getpid(), self.how)
        self.left, self.done = self.left - 1, self.done + 1
        future: Future[Any] = Future()
        future.set_result(function(*arguments, **named))
        return future


def leaky(rng, data):
    return [value + rng.laplace(scale=0.7) for value in data]


def above(rng, data):
    return bool(data[0] + rng.laplace(scale=2.0) > 0.5)


SEARCHES: dict[str, Any] = {
    "statdp": lambda **where: veridp.statdp.detect(above, 0.4, 1, selection_samples=2000, samples=2000, **where),
    "sniper": lambda **where: veridp.sniper.search(
        leaky, 2, samples=400, final_samples=3000, models=["one entry"], pairs=["patterns"], seconds=600, **where
    ),
    "finder": lambda **where: veridp.finder.search(
        above, 1, (0.0, 1.0), restarts=6, samples=2**12, seconds=600, **where
    ),
}


@pytest.mark.parametrize("engine", SEARCHES)
def test_a_search_that_is_interrupted_ten_times_ends_as_one_that_is_not(engine: str, tmp_path: Path) -> None:
    search, file = SEARCHES[engine], tmp_path / "search"
    whole = CountingExecutor(np.inf)
    expected = plain(search(executor=whole))
    cuts = np.random.default_rng(1).multinomial(whole.done, [1 / 11] * 11)  # eleven parts of all tasks, at random
    ran = 0
    for number, part in enumerate([*cuts[:10], np.inf]):
        executor = CountingExecutor(part)
        try:
            last = search(executor=executor, checkpoint=file, resume=number > 0)
        except KeyboardInterrupt:
            last = None
        ran += executor.done
    assert plain(last) == expected
    assert ran <= whole.done + 10  # a task is repeated only where the interruption came before its result was kept
    again = CountingExecutor(0)
    assert plain(search(executor=again, checkpoint=file, resume=True)) == expected
    assert again.done == 0
    if engine != "finder":  # whose clock decides what is sent to workers
        assert plain(search(checkpoint=file, resume=True)) == expected  # here, in a child process


def test_what_was_kept_survives_the_end_of_the_process(tmp_path: Path) -> None:
    child = os.fork()
    if not child:
        SEARCHES["sniper"](executor=CountingExecutor(5, signal.SIGKILL), checkpoint=tmp_path / "search")
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    executor = CountingExecutor(np.inf)
    resumed = SEARCHES["sniper"](executor=executor, checkpoint=tmp_path / "search", resume=True)
    whole = CountingExecutor(np.inf)
    assert plain(resumed) == plain(SEARCHES["sniper"](executor=whole))
    assert whole.done - 5 <= executor.done < whole.done


def test_results_that_are_missing_are_computed_and_all_come_in_order(tmp_path: Path) -> None:
    computed: list[int] = []

    def doubled(shared: int, number: int) -> int:
        computed.append(number)
        return 2 * number

    for resume in (False, True):
        journal = Journal.at(tmp_path / "file", resume, "test", "doubled", ())
        with WorkerPool(0, workers=1, journal=journal) as pool:
            results = pool.remembered(doubled, range(9), keep=lambda result: result % 6 == 0)
            assert list(results) == [2 * number for number in range(9)]
    assert computed == [*range(9), *(number for number in range(9) if number % 3)]


def test_audits_that_were_finished_are_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where: dict[str, Any] = {"checkpoint": tmp_path / "audits", "size": 1, "epsilon": 0.5, "seconds": 120}
    first = veridp.audit_all([above, leaky], **where)
    assert str(next(first)).startswith("above: 0.5-DP is PROVED")
    first.close()
    ran: list[str] = []

    def counted(mechanism: Any, **options: Any) -> Any:
        ran.append(mechanism.name)
        return veridp.audit(mechanism, **options)

    monkeypatch.setattr("veridp.audit.many.audit", counted)
    verdicts: list[Any] = list(veridp.audit_all([above, leaky], resume=True, **where))
    assert ran == ["leaky"]
    assert [verdict.standing.name for verdict in verdicts] == ["PROVED", "REFUTED"]
    assert [verdict.subject.name for verdict in verdicts] == ["above", "leaky"]


# --------------------------------------------------------------------------------------------------------- refusals


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    assert not SEARCHES["statdp"](executor=CountingExecutor(3), checkpoint=tmp_path / "kept").finished
    return tmp_path / "kept"


def changed(file: Path, command: str, *values: object) -> None:
    connection = sqlite3.connect(file)
    with connection:
        connection.execute(command, values)
    connection.close()


def twice(rng, data):
    return bool(data[0] + rng.laplace(scale=2.5) > 0.5)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"mechanism": twice}, "is the checkpoint of other work: its mechanism differ"),
        ({"seed": 1}, "is the checkpoint of other work: its settings differ"),
        ({"resume": False}, "exists already; give --resume"),
    ],
)
def test_a_checkpoint_of_other_work_is_refused(kept: Path, options: dict[str, Any], complaint: str) -> None:
    given = {"mechanism": above, "selection_samples": 2000, "samples": 2000, "resume": True, **options}
    with pytest.raises(BadInput, match=complaint):
        veridp.statdp.detect(given.pop("mechanism"), 0.4, 1, checkpoint=kept, **given)
    with pytest.raises(BadInput, match="its engine and mechanism and settings differ"):
        SEARCHES["sniper"](checkpoint=kept, resume=True)


@pytest.mark.parametrize(
    ("harm", "complaint"),
    [
        (lambda file: file.write_bytes(b"no checkpoint at all" * 99), "is not a checkpoint, or is damaged"),
        (lambda file: file.write_bytes(file.read_bytes()[:5000]), "is not a checkpoint, or is damaged"),
        (lambda file: file.unlink(), "there is no checkpoint"),
        (lambda file: changed(file, "UPDATE identity SET value = '0.1.9' WHERE name = 'veridp'"), "veridp 0.1.9, now"),
        (lambda file: changed(file, "UPDATE identity SET value = 'old' WHERE name = 'format'"), "format old, now"),
        (lambda file: changed(file, "UPDATE results SET content = ?", b"another"), "is not what was written"),
        (lambda file: changed(file, "UPDATE results SET task = 'another'"), "it has another where finalists"),
    ],
)
def test_a_damaged_or_older_checkpoint_is_refused(kept: Path, harm: Any, complaint: str) -> None:
    harm(kept)
    with pytest.raises(BadInput, match=complaint):
        SEARCHES["statdp"](checkpoint=kept, resume=True)


def test_a_resumption_needs_a_file_and_a_folder() -> None:
    with pytest.raises(BadInput, match="give --checkpoint FILE"):
        SEARCHES["statdp"](resume=True)
    with pytest.raises(BadInput, match="cannot be written"):
        SEARCHES["statdp"](checkpoint="no/such/folder/file")


CODE = """
LIMIT = 3
NAMES = {"a", "b", "c"}
def helper(value): return value + 1 if value in NAMES else LIMIT
def mechanism(rng, data, scale=2.0):
    return helper(data) + rng.laplace(scale=scale)
"""


PRINTED = "from veridp.sampling.checkpoint import digest_of; exec(CODE); print(digest_of(mechanism))"


def code_digest(code: str) -> str:
    exec(code, names := {"__name__": "__main__"})  # noqa: S102 - it is written here
    return digest_of(names["mechanism"])


def test_the_digest_of_code_is_the_same_in_every_process_and_follows_what_the_code_uses() -> None:
    words = [sys.executable, "-c", f"CODE = {CODE!r}; {PRINTED}"]
    for seed in ("1", "2"):
        other = subprocess.run(words, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True)  # noqa: S603
        assert other.stdout.strip() == code_digest(CODE), other.stderr
    assert code_digest(CODE.replace(", scale=2.0):", ", scale=2.0):  # a comment")) == code_digest(CODE)
    changes = [("LIMIT = 3", "LIMIT = 4"), ("value + 1", "value + 2"), ("=2.0", "=2.5"), ('"c"', '"d"')]
    assert len({code_digest(CODE), *(code_digest(CODE.replace(*change)) for change in changes)}) == 5
    assert digest_of([1, True, 1.0]) != digest_of([1, 1, 1])


class Table:
    """What a mechanism may hold: an object with a class of the user's, which computes and remembers."""

    def __init__(self, scale: float, rows: Any) -> None:
        self.scale, self.rows, self.seed = scale, rows, np.random.default_rng(1)

    @functools.cached_property
    def width(self) -> int:
        return len(self.rows)

    def __call__(self, rng: Any, data: Any) -> Any:
        return data[0] + rng.laplace(scale=self.scale) * self.width


def test_the_digest_sees_the_state_of_objects_but_not_what_they_remember() -> None:
    table, frame = Table(1.0, [1, 2]), pandas.DataFrame({"a": [1, 2]})
    digest = digest_of(table)
    assert table.width == 2
    assert digest_of(table) == digest == digest_of(Table(1.0, [1, 2]))
    others = [Table(1.0, [1, 3]), Table(2.0, [1, 2]), Table(1.0, frame), Table(1.0, frame + 1), Table(1.0, {1, 2})]
    assert len({digest, *map(digest_of, others)}) == 6
    table.seed.random()
    assert digest_of(table) != digest


def test_the_command_line_resumes(run: Run, tmp_path: Path) -> None:
    samples = ("--samples", "500", "--selection-samples", "500", "--size", "1", "--test-epsilons", "0.5")
    words = ("statdp", "noisy_hist2", "--epsilon", "0.5", *samples, "--json")
    first = run(*words, "--checkpoint", str(tmp_path / "file"))
    assert run(*words, "--checkpoint", str(tmp_path / "file")).status == 2
    again = run(*words, "--checkpoint", str(tmp_path / "file"), "--resume")
    assert again.results[0]["curve"] == first.results[0]["curve"]
    assert first.status == again.status
