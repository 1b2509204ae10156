"""What tests of several folders share."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, settings

from veridp.budget.child_process import THREADED

# No test depends on how busy the machine is: generated inputs may take as long as they do.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

# A shell that puts a command into the background has it ignore Ctrl-C, and so would the processes that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

os.environ["VERIDP_CACHE"] = "off"  # no test takes a verdict from another run; those of the cache name a folder

Run = Callable[..., "Result"]


@pytest.fixture(autouse=True)
def _no_threads_that_a_fork_waits_for() -> Iterator[None]:
    """Fail a test that loads a library whose threads forked processes wait for: later tests would not fork.

    Such tests run in a Python process of their own.
    """
    yield
    assert sys.modules.keys().isdisjoint(THREADED), "run this in a Python process of its own"


@pytest.fixture
def own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """An empty working directory; what is imported from it is forgotten afterwards."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


class Result(NamedTuple):
    """What a command printed, and its exit status."""

    status: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """What was printed: JSON in the strict sense, as `veridp schema` describes it."""
        assert self.out, self.err
        document = json.loads(self.out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
        assert violations(document) == []
        return document

    @property
    def results(self) -> list[dict[str, Any]]:
        """The results of that document."""
        found: list[dict[str, Any]] = self.document["results"]
        return found


@cache
def _validator() -> Any:
    from jsonschema import Draft202012Validator

    return Draft202012Validator(json.loads((files("veridp.report") / "output.schema.json").read_text("utf-8")))


def violations(document: object) -> list[str]:
    """Where a document is not what the shipped schema says."""
    return [f"{list(error.absolute_path)}: {error.message}" for error in _validator().iter_errors(document)]


@pytest.fixture
def run(own_folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs `veridp` with these words, and this text on its standard input, in a folder of its own."""
    from veridp.cli import main

    monkeypatch.setenv("COLUMNS", "200")

    def command(*words: str, stdin: str | bytes | None = None) -> Result:
        if stdin is not None:
            stream = io.BytesIO(stdin if isinstance(stdin, bytes) else stdin.encode())
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stream))
        monkeypatch.setattr(sys, "argv", ["veridp", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capfd.readouterr()
        result = Result(int(ended.value.code or 0), printed.out, printed.err)
        if "--json" in words and result.out:
            assert result.document  # whatever the test looks at, what was printed is what the schema says
        return result

    return command


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser without a screen, which keeps what pages log."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    driver, chromium = shutil.which("chromedriver"), shutil.which("chromium") or shutil.which("chromium-browser")
    if driver is None or chromium is None:
        pytest.skip("there is no chromium here; apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    found = webdriver.Chrome(options, Service(driver))
    yield found
    found.quit()
