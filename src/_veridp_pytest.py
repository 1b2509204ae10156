"""veridp's pytest plugin: functions marked with `dp` are tests of the privacy that they claim.

A module of its own beside the package, so that pytest can load it without importing veridp: that happens when the first
mechanism is tested.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from typing import Any

import pytest

SECONDS, ALPHA = 20.0, 0.01
MARK = "dp(epsilon=None, delta=None, *, proved=False, seconds=None, ...): test that the function is private"
PROPERTY = "veridp"


class Share:
    """What one test may spend: seconds for each check, and its part of the session's false-alarm rate."""

    def __init__(self, seconds: float, alpha: float) -> None:
        self.seconds = seconds
        self._alpha = alpha
        self._checks = 0
        self.spent: list[float] = []

    def next_alpha(self) -> float:
        """The part of the next check: 6 / (π k)² of the whole for the k-th, which sums to the whole however many."""
        self._checks += 1
        return self._alpha * 6 / (math.pi * self._checks) ** 2

    def record(self, alpha: float) -> None:
        """Keep what a check has spent: 0 where it was decided by proof or exactly."""
        self.spent.append(alpha)


SHARE: ContextVar[Share | None] = ContextVar("SHARE", default=None)
_PARTS = pytest.StashKey[dict[bool, int]]()
_SPENT = pytest.StashKey[list[float]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("veridp", "differential privacy")
    group.addoption("--dp-time", type=float, default=SECONDS, metavar="SECONDS", help="seconds for each mechanism (20)")
    group.addoption(
        "--dp-alpha", type=float, default=ALPHA, metavar="ALPHA", help="false-alarm rate of the whole session (0.01)"
    )


def pytest_configure(config: pytest.Config) -> None:
    if not config.getoption("--dp-time") > 0:
        raise pytest.UsageError(f"--dp-time {config.getoption('--dp-time'):g} leaves no time; give seconds > 0")
    if not 0 < config.getoption("--dp-alpha") < 1:
        raise pytest.UsageError(f"--dp-alpha {config.getoption('--dp-alpha'):g} is no rate; give one between 0 and 1")
    config.addinivalue_line("markers", MARK)
    config.stash[_SPENT] = []


# ---------------------------------------------------------------------------------------------------- collecting


def pytest_pycollect_makeitem(collector: pytest.Module | pytest.Class, name: str, obj: object) -> DPItem | None:
    """A test for a function, or mechanism, that is marked with `dp`, whatever its name."""
    mechanism, marks = obj, list(getattr(obj, "pytestmark", ()))
    if isinstance(obj, pytest.MarkDecorator) and obj.args:  # a mark above @mechanism holds it as an argument
        mechanism, marks = obj.args[-1], [obj.mark]
    elif hasattr(obj, "function"):
        marks += getattr(obj.function, "pytestmark", ())
    if not any(mark.name == "dp" for mark in marks) or not callable(mechanism):
        return None
    item = DPItem.from_parent(collector, name=name, mechanism=mechanism)
    item.own_markers += [_without(mark, mechanism) for mark in marks]
    return item


def _without(mark: pytest.Mark, mechanism: object) -> pytest.Mark:
    arguments = tuple(argument for argument in mark.args if argument is not mechanism)
    return getattr(pytest.mark, mark.name).with_args(*arguments, **mark.kwargs).mark  # type: ignore[no-any-return]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    marked = sum(isinstance(item, DPItem) for item in items)
    config.stash[_PARTS] = {True: marked, False: len(items) - marked}


class DPItem(pytest.Item):
    """A test that a mechanism keeps what its mark says."""

    def __init__(self, *, mechanism: Any, **named: Any) -> None:
        super().__init__(**named)
        self.mechanism = mechanism

    def runtest(self) -> None:
        from veridp.audit import check

        mark = self.get_closest_marker("dp")
        if mark is not None:
            check(self.mechanism, *mark.args, **mark.kwargs)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, AssertionError):
            return str(excinfo.value)
        if type(excinfo.value).__module__ == "veridp.errors":
            return f"{type(excinfo.value).__name__}: {excinfo.value}"
        return super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Any, int | None, str]:
        function = getattr(self.mechanism, "function", self.mechanism)
        line = getattr(getattr(function, "__code__", None), "co_firstlineno", 1)
        return self.path, line - 1, self.name


# ------------------------------------------------------------------------------------------------------- running


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Give each test its share: half of the rate to marked tests, half to all others, which may call `check`."""
    parts = item.config.stash[_PARTS]
    alpha = item.config.getoption("--dp-alpha") / parts[isinstance(item, DPItem)]
    share = Share(item.config.getoption("--dp-time"), alpha / (2 if all(parts.values()) else 1))
    token = SHARE.set(share)
    try:
        yield
    finally:
        SHARE.reset(token)
        if share.spent:
            item.user_properties.append((PROPERTY, share.spent))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Collect, in the process that writes the summary, what every test has spent."""
    if report.when == "call" and _config is not None:
        for name, spent in report.user_properties:
            if name == PROPERTY and isinstance(spent, Iterable):
                _config.stash[_SPENT] += spent


_config: pytest.Config | None = None


def pytest_sessionstart(session: pytest.Session) -> None:
    global _config
    _config = session.config


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    spent = config.stash[_SPENT]
    if not spent:
        return
    sampled = sum(alpha > 0 for alpha in spent)
    terminalreporter.section("differential privacy")
    terminalreporter.line(
        f"{len(spent)} checks, {len(spent) - sampled} by proof or exactly, {sampled} by sampling; "
        f"the probability of a false alarm in this session is at most {sum(spent):.3g} "
        f"(--dp-alpha {config.getoption('--dp-alpha'):g})"
    )
