"""Work in a child process: its result, what remains if it is ended, and that it is ended whatever it does.

Nothing here depends on how fast the machine is: what has to be ended would run for ever.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from veridp import budget
from veridp.budget import Deadline
from veridp.budget import child_process as module
from veridp.budget.child_process import NOTHING, Reporter, attempt, contained, inside, listening
from veridp.budget.worker import one_thread_for_good
from veridp.errors import BadOutput, CutShort, MechanismFailed, WorkerLost

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="work is contained where there is a safe fork")
AMPLE, SHORT = 600.0, 0.3


def swallow_everything(*_: object) -> None:
    while True:
        try:
            while True:
                pass
        except BaseException:  # noqa: S110 - that is what is tested
            pass


def never_return_to_python(*_: object) -> None:
    pow(3, 3**26)  # one call, for hours, without a look at signals


def sleep_for_good(*_: object) -> None:
    threading.Event().wait()


def test_the_result_comes_back_with_the_objects_that_both_know() -> None:
    thing, lock = object(), threading.Lock()  # neither can be pickled by value

    class Holder:
        def __init__(self) -> None:
            self.lock = lock

    holder = Holder()
    found = contained(lambda _: (thing, holder, lock, [1.5]), Deadline(AMPLE), known=(thing, holder))
    assert found[0] is thing
    assert found[1] is holder
    assert found[2] is lock
    assert found[3] == [1.5]


def test_the_work_runs_elsewhere_and_changes_nothing_here() -> None:
    seen: list[int] = []

    def work(_: Reporter) -> tuple[int, bool]:
        seen.append(1)
        return os.getpid(), inside()

    pid, contained_there = contained(work, Deadline(AMPLE))
    assert pid != os.getpid()
    assert contained_there
    assert not inside()
    assert seen == []
    assert contained(lambda _: os.getpid(), Deadline()) == os.getpid()  # without a limit there is nothing to hold


def test_work_within_work_stays_in_the_same_child() -> None:
    def work(_: Reporter) -> bool:
        return contained(lambda _: os.getpid(), Deadline(AMPLE)) == os.getpid()

    assert contained(work, Deadline(AMPLE))


@pytest.mark.parametrize("work", [swallow_everything, never_return_to_python, sleep_for_good])
def test_what_never_ends_is_ended(work: Any) -> None:
    with pytest.raises(CutShort, match=r"cut short: 0\.3 s were not enough"):
        contained(work, Deadline(SHORT))


def test_the_best_until_then_remains() -> None:
    def work(reporter: Reporter) -> Any:
        reporter.best(1)
        reporter.best(2)
        return swallow_everything()

    ended = attempt(work, Deadline(SHORT))
    assert ended.value == 2
    assert isinstance(ended.reason, CutShort)
    assert contained(work, Deadline(SHORT)) == 2


def test_a_step_that_overruns_is_ended_though_the_whole_has_time() -> None:
    def work(reporter: Reporter) -> Any:
        reporter.best("before the step")
        reporter.until(Deadline(SHORT))
        return swallow_everything()

    ended = attempt(work, Deadline(AMPLE))
    assert ended.value == "before the step"
    assert isinstance(ended.reason, CutShort)


def test_all_processes_that_the_work_started_are_ended() -> None:
    def work(reporter: Reporter) -> None:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(10000)"])
        reporter.best(child.pid)
        swallow_everything()

    pid = contained(work, Deadline(SHORT))
    while Path(f"/proc/{pid}").exists() and Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z":
        time.sleep(0.01)  # it was sent SIGKILL: the system may take a moment, and a test runner's limit is the bound


def test_errors_come_back_as_they_are() -> None:
    def fail(_: Reporter) -> None:
        raise MechanismFailed("line 3: it failed") from ValueError("a cause")

    with pytest.raises(MechanismFailed, match="line 3: it failed") as caught:
        contained(fail, Deadline(AMPLE))
    assert isinstance(caught.value.__cause__, ValueError)
    assert any("raise MechanismFailed" in note for note in caught.value.__notes__)


def test_an_error_that_cannot_be_pickled_comes_back_as_text() -> None:
    class Odd(Exception):
        def __init__(self, first: str, second: object) -> None:
            super().__init__(first)

    def fail(_: Reporter) -> None:
        raise Odd("strange", threading.Lock())

    with pytest.raises(RuntimeError, match="Odd: strange"):
        contained(fail, Deadline(AMPLE))


@pytest.mark.parametrize(
    ("end", "how"), [(lambda _: os._exit(3), "status 3"), (lambda _: os.kill(os.getpid(), signal.SIGKILL), "signal 9")]
)
def test_work_that_ends_its_process_is_told_as_lost(end: Any, how: str) -> None:
    with pytest.raises(WorkerLost, match=how):
        contained(end, Deadline(AMPLE))


def test_memory_past_the_limit_cuts_the_work_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "_machine_memory", lambda: 2.0**29)
    monkeypatch.setenv(budget.MEMORY_VARIABLE, "0.25")

    def grab(_: Reporter) -> int:
        return len([1.0] * 2**31)

    with pytest.raises(CutShort, match=r"more than 0\.125 GiB of memory, 0\.25 of what the machine has"):
        contained(grab, Deadline(AMPLE))


def test_the_parent_watches_the_memory_of_all_processes_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "_machine_memory", lambda: 2.0**27)
    monkeypatch.setattr(module, "_limit_memory", lambda: None)  # so that no process notices it by itself

    def grab(reporter: Reporter) -> None:
        reporter.best("begun")
        kept = bytearray(b"x") * 2**27
        sleep_for_good(kept)

    ended = attempt(grab, Deadline(AMPLE))
    assert ended.value == "begun"
    assert "of memory" in str(ended.reason)


def test_a_warning_that_code_gives_again_and_again_is_shown_once(tmp_path: Path) -> None:
    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        with (tmp_path / "shown").open("a") as file:
            file.write(f"{message}\n")

    def overflows() -> float:
        with warnings.catch_warnings():  # Python forgets what it has shown
            pass
        warnings.warn("some overflow", RuntimeWarning, stacklevel=1)
        return 1.0

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = show
        assert contained(lambda reporter: sum(overflows() for _ in range(5)), Deadline(60)) == 5
    assert (tmp_path / "shown").read_text() == "some overflow\n"


def test_progress_is_called_here_and_can_interrupt() -> None:
    told: list[tuple[str, float, float]] = []

    def listen(stage: str, share: float, best: float) -> None:
        told.append((stage, share, best))
        if stage == "second":
            raise KeyboardInterrupt

    def work(reporter: Reporter) -> str:
        try:
            for stage in ("first", "second", "third"):
                reporter.progress(stage, 0.5, 1.0)
        except KeyboardInterrupt:
            return f"interrupted in process {os.getpid() != here}"
        return "not interrupted"

    here = os.getpid()
    assert contained(work, Deadline(AMPLE), progress=listen) == "interrupted in process True"
    assert told == [("first", 0.5, 1.0), ("second", 0.5, 1.0)]


def test_an_error_of_the_progress_function_ends_the_work() -> None:
    def listen(stage: str, share: float, best: float) -> None:
        raise BadOutput("of the listener")

    def work(reporter: Reporter) -> None:
        reporter.progress("first", 0.0, 0.0)
        swallow_everything()

    with pytest.raises(BadOutput, match="of the listener"):
        contained(work, Deadline(AMPLE), progress=listen)


@pytest.mark.parametrize("stubborn", [False, True])
def test_an_interrupt_here_gives_what_the_work_makes_of_it(stubborn: bool) -> None:
    """Ctrl-C, sent to this process as soon as the child is known to be at work."""

    def work(reporter: Reporter) -> str:
        reporter.best("so far")
        try:
            os.kill(os.getppid(), signal.SIGINT)
            sleep_for_good()
        except KeyboardInterrupt:
            if stubborn:
                swallow_everything()
            return "rounded off"
        return ""

    ended = attempt(work, Deadline(AMPLE))
    assert ended.value == ("so far" if stubborn else "rounded off")
    assert isinstance(ended.reason, KeyboardInterrupt) is stubborn


def test_an_interrupt_between_reading_a_message_and_acting_on_it_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    here, read = os.getpid(), Connection.recv_bytes

    def read_and_interrupt(line: Connection) -> bytes:
        content = read(line)
        if os.getpid() == here:
            os.kill(here, signal.SIGINT)
        return content

    def work(reporter: Reporter) -> None:
        reporter.best("so far")
        swallow_everything()

    monkeypatch.setattr(Connection, "recv_bytes", read_and_interrupt)
    assert attempt(work, Deadline(AMPLE)).value == "so far"
    assert contained(lambda _: "done", Deadline(AMPLE)) == "done"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_reaches_a_progress_function_that_does_not_return() -> None:
    def listen(stage: str, share: float, best: float) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        sleep_for_good()

    def work(reporter: Reporter) -> str:
        try:
            reporter.progress("first", 0.0, 0.0)
        except KeyboardInterrupt:
            return "rounded off"
        return "not interrupted"

    assert contained(work, Deadline(AMPLE), progress=listen) == "rounded off"


def test_an_interrupt_without_anything_found_is_raised() -> None:
    def work(_: Reporter) -> None:
        os.kill(os.getppid(), signal.SIGINT)
        sleep_for_good()

    with pytest.raises(KeyboardInterrupt):
        contained(work, Deadline(AMPLE))


def test_a_listener_hears_of_the_best_of_work_within_its_own_process() -> None:
    heard: list[int] = []

    def work(reporter: Reporter) -> str:
        reporter.best(1)
        reporter.best(2)
        return "done"

    with listening(heard.append):
        assert contained(work, Deadline()) == "done"
    contained(work, Deadline())
    assert heard == [1, 2]


def test_a_listener_does_not_hear_what_it_reports_itself() -> None:
    heard: list[int] = []
    own = Reporter(None)

    def listener(value: int) -> None:
        heard.append(value)
        own.best(-value)

    with listening(listener):
        contained(lambda reporter: list(map(reporter.best, (1, 2))), Deadline())
    assert heard == [1, 2]
    assert own.kept == -2


def test_without_fork_a_signal_ends_python_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "forks", lambda: False)

    def work(reporter: Reporter) -> None:
        reporter.best(os.getpid())
        sleep_for_good()

    ended = attempt(work, Deadline(SHORT))
    assert ended.value == os.getpid()
    assert isinstance(ended.reason, CutShort)
    with pytest.raises(CutShort):
        contained(sleep_for_good, Deadline(SHORT))


def test_it_works_from_another_thread_too() -> None:
    found: list[object] = []

    def call() -> None:
        found.append(contained(lambda _: 7, Deadline(AMPLE)))
        found.append(attempt(swallow_everything, Deadline(SHORT)).value is NOTHING)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert found == [7, True]


def test_modules_that_a_child_loads_are_loaded_here_before_the_next() -> None:
    code = (
        "import sys\n"
        "from veridp.budget import Deadline\n"
        "from veridp.budget.child_process import contained\n"
        "def work(_):\n"
        "    import veridp.engines.exact\n"
        "contained(work, Deadline(600)); first = 'veridp.engines.exact' in sys.modules\n"
        "contained(lambda _: None, Deadline(600)); print(first, 'veridp.engines.exact' in sys.modules)\n"
    )
    done = subprocess.run(  # noqa: S603 - this interpreter
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False True\n"


def test_openmp_code_runs_in_a_child_of_a_process_whose_openmp_has_threads() -> None:
    """Its threads do not survive a fork; OpenMP would wait for them until the deadline."""
    learners = pytest.importorskip("sklearn.ensemble")
    rng = np.random.default_rng(0)
    matrix, side = rng.random((20_000, 2)), rng.integers(2, size=20_000)

    def scores() -> float:
        learner = learners.HistGradientBoostingClassifier(max_iter=3, random_state=0).fit(matrix, side)
        return float(learner.decision_function(matrix).sum())

    with threadpool_limits(2):
        expected = scores()
        threading.Thread(target=one_thread_for_good).start()  # another thread's limits are not the child's
        assert attempt(lambda _: scores(), Deadline(60.0)).value == expected
