"""veridp's pytest plugin: functions marked with `dp` are tests of the privacy that they claim.

A module of its own beside the package, so that pytest can load it without importing veridp: that happens when the first
mechanism is tested.
"""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

SECONDS, ALPHA = 20.0, 0.01
MARK = (
    "dp(epsilon=None, delta=None, *, rho=None, mu=None, rdp=None, tradeoff=None, proved=False, seconds=None, ...): "
    "test that the function is private"
)
PROPERTY, CACHE_PROPERTY = "veridp", "veridp-cache"


class SessionShare:
    """What one test may spend: seconds for each check, and its part of the session's false-alarm rate.

    `notes` are what the cache of verdicts has to say; None where it is not to be used.
    """

    def __init__(self, seconds: float, alpha: float, cache: bool = False) -> None:
        self.seconds = seconds
        self._alpha = alpha
        self._checks = 0
        self.spent: list[float] = []
        self.kept = 0  # verdicts that came from the cache
        self.notes: list[str] | None = [] if cache else None

    def next_alpha(self) -> float:
        """The part of the next check: 6 / (π k)² of the whole for the k-th, which sums to the whole however many."""
        self._checks += 1
        return self._alpha * 6 / (math.pi * self._checks) ** 2

    def record(self, alpha: float, cached: bool) -> None:
        """Keep what a check has spent: 0 where it was decided by proof or exactly."""
        self.spent.append(alpha)
        self.kept += cached


CURRENT_SHARE: ContextVar[SessionShare | None] = ContextVar("SHARE", default=None)
_PARTS = pytest.StashKey[dict[bool, int]]()
_SPENT = pytest.StashKey[list[float]]()
_CACHE = pytest.StashKey[list[int | str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("veridp", "differential privacy")
    group.addoption("--dp-time", type=float, metavar="SECONDS", help="seconds for each mechanism (20)")
    group.addoption("--dp-alpha", type=float, metavar="ALPHA", help="false-alarm rate of the whole session (0.01)")
    group.addoption("--dp-no-cache", action="store_true", help="audit what is unchanged too, and keep nothing")
    parser.addini("dp_time", "what --dp-time is where it is not given", default=str(SECONDS))
    parser.addini("dp_alpha", "what --dp-alpha is where it is not given", default=str(ALPHA))


def pytest_configure(config: pytest.Config) -> None:
    for name in ("dp_time", "dp_alpha"):
        if getattr(config.option, name) is None:
            try:
                setattr(config.option, name, float(config.getini(name)))
            except ValueError:
                raise pytest.UsageError(f"{name} must be a number, got {config.getini(name)!r}") from None
    if not config.getoption("--dp-time") > 0:
        raise pytest.UsageError(f"--dp-time must be > 0 seconds, got {config.getoption('--dp-time'):g}")
    if not 0 < config.getoption("--dp-alpha") < 1:
        raise pytest.UsageError(f"--dp-alpha must be in (0, 1), got {config.getoption('--dp-alpha'):g}")
    config.addinivalue_line("markers", MARK)
    config.stash[_SPENT], config.stash[_CACHE] = [], []


# ---------------------------------------------------------------------------------------------------- collecting


def _marks_of(obj: object) -> list[pytest.Mark]:
    """Its marks; none of an object that has any attribute, such as SQLAlchemy's `func`."""
    marks = getattr(obj, "pytestmark", ())
    return [mark for mark in marks if isinstance(mark, pytest.Mark)] if isinstance(marks, list) else []


def pytest_pycollect_makeitem(
    collector: pytest.Module | pytest.Class, name: str, obj: object
) -> list[pytest.Item | pytest.Collector] | None:
    """Tests for a function, method or mechanism that is marked with `dp`: one for each set of parameters."""
    mechanism, marks = obj, _marks_of(getattr(obj, "__func__", obj))
    if isinstance(obj, pytest.MarkDecorator) and obj.args:  # a mark above @mechanism holds it as an argument
        mechanism, marks = obj.args[-1], [obj.mark]
    elif hasattr(obj, "function"):
        marks += _marks_of(obj.function)
    if not any(mark.name == "dp" for mark in marks) or not callable(getattr(mechanism, "__func__", mechanism)):
        return None
    items: list[pytest.Item | pytest.Collector] = []
    for case in _cases([mark for mark in marks if mark.name == "parametrize"]):
        full_name = f"{name}[{case.name}]" if case.name else name
        item = DPItem.from_parent(collector, name=full_name, mechanism=mechanism, case=case)
        item.own_markers += [_without(mark, mechanism) for mark in marks if mark.name != "parametrize"]
        item.own_markers += case.marks
        items.append(item)
    return items


@dataclass(frozen=True)
class ParameterSet:
    """The values that one set of `pytest.mark.parametrize` gives to arguments and settings."""

    name: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    marks: tuple[pytest.Mark, ...] = ()


def _cases(marks: Sequence[pytest.Mark]) -> Iterator[ParameterSet]:
    """Every combination of the sets of these marks, named as pytest does: the mark nearest to the function first."""
    for chosen in itertools.product(*(list(_sets(*mark.args, **mark.kwargs)) for mark in marks)):
        values = {name: value for case in chosen for name, value in case.values.items()}
        yield ParameterSet(
            "-".join(case.name for case in chosen), values, tuple(mark for case in chosen for mark in case.marks)
        )


def _sets(
    argnames: str | Sequence[str], argvalues: Iterable[Any], ids: Any = None, **other: Any
) -> Iterator[ParameterSet]:
    if any(other.values()):
        raise pytest.Collector.CollectError(f"parametrize: {', '.join(other)} cannot be combined with the mark dp")
    names = [name.strip() for name in argnames.split(",")] if isinstance(argnames, str) else list(argnames)
    for number, given in enumerate(argvalues):
        parameters = given if hasattr(given, "values") and hasattr(given, "marks") else None
        values = parameters.values if parameters is not None else (given,) if len(names) == 1 else tuple(given)
        if len(values) != len(names):
            raise pytest.Collector.CollectError(f"parametrize: {len(names)} names {names}, but the values {values!r}")
        label = getattr(parameters, "id", None)
        if label is None:
            texts = [ids(value) if callable(ids) else None for value in values]
            plain = [_id(name, value, number) for name, value in zip(names, values, strict=True)]
            label = "-".join(str(text or fallback) for text, fallback in zip(texts, plain, strict=True))
            label = label if ids is None or callable(ids) else str(list(ids)[number])
        marks = tuple(getattr(mark, "mark", mark) for mark in getattr(parameters, "marks", ()))
        yield ParameterSet(label, dict(zip(names, values, strict=True)), marks)


def _id(name: str, value: object, number: int) -> str:
    return str(value) if isinstance(value, str | int | float | bool | None) else f"{name}{number}"


def _without(mark: pytest.Mark, mechanism: object) -> pytest.Mark:
    arguments = tuple(argument for argument in mark.args if argument is not mechanism)
    return getattr(pytest.mark, mark.name).with_args(*arguments, **mark.kwargs).mark  # type: ignore[no-any-return]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    marked = sum(isinstance(item, DPItem) for item in items)
    config.stash[_PARTS] = {True: marked, False: len(items) - marked}


class DPItem(pytest.Item):
    """A test that a mechanism keeps what its mark says."""

    def __init__(self, *, mechanism: Any, case: ParameterSet, **named: Any) -> None:
        super().__init__(**named)
        self.mechanism, self.case = mechanism, case

    def runtest(self) -> None:
        from veridp.audit import check

        mark = self.get_closest_marker("dp")
        if mark is not None:
            stated = dict(zip(("epsilon", "delta"), mark.args, strict=False))
            check(self._bound(), **{**stated, **mark.kwargs, **self.case.values})

    def _bound(self) -> Any:
        """The mechanism; a method is bound to a new instance of its class."""
        if not isinstance(self.parent, pytest.Class):
            return self.mechanism
        owner = self.parent.obj
        if not hasattr(self.mechanism, "function"):
            return self.mechanism.__get__(owner(), owner)
        first = next(iter(inspect.signature(self.mechanism.function).parameters), "")
        if first != "self":
            return self.mechanism
        return replace(self.mechanism, function=self.mechanism.function.__get__(owner()))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, AssertionError):
            return str(excinfo.value)
        if type(excinfo.value).__module__ == "veridp.errors":
            return f"{type(excinfo.value).__name__}: {excinfo.value}"
        return super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Any, int | None, str]:
        function = getattr(self.mechanism, "function", getattr(self.mechanism, "__func__", self.mechanism))
        line = getattr(getattr(function, "__code__", None), "co_firstlineno", 1)
        return self.path, line - 1, self.name


# ------------------------------------------------------------------------------------------------------- running


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Give each test its share: half of the rate to marked tests, half to all others, which may call `check`."""
    parts = item.config.stash[_PARTS]
    alpha = item.config.getoption("--dp-alpha") / parts[isinstance(item, DPItem)]
    part = alpha / (2 if all(parts.values()) else 1)
    share = SessionShare(item.config.getoption("--dp-time"), part, not item.config.getoption("--dp-no-cache"))
    token = CURRENT_SHARE.set(share)
    try:
        yield
    finally:
        CURRENT_SHARE.reset(token)
        if share.spent:
            item.user_properties.append((PROPERTY, share.spent))
        if share.kept or share.notes:
            item.user_properties.append((CACHE_PROPERTY, [share.kept, *(share.notes or ())]))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Collect, in the process that writes the summary, what every test has spent."""
    if report.when == "call" and _config is not None:
        for name, spent in report.user_properties:
            if name == PROPERTY and isinstance(spent, Iterable):
                _config.stash[_SPENT] += spent
            if name == CACHE_PROPERTY and isinstance(spent, Iterable):
                _config.stash[_CACHE] += spent


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
    count = "1 check" if len(spent) == 1 else f"{len(spent)} checks"
    terminalreporter.line(
        f"{count}, {len(spent) - sampled} by proof or exactly, {sampled} by sampling; "
        f"the probability of a false alarm in this session is at most {sum(spent):.3g} "
        f"(--dp-alpha {config.getoption('--dp-alpha'):g})"
    )
    kept = sum(one for one in config.stash[_CACHE] if isinstance(one, int))
    if kept:
        terminalreporter.line(f"{kept} of them from the cache, unchanged; --dp-no-cache audits all")
    for note in dict.fromkeys(one for one in config.stash[_CACHE] if isinstance(one, str)):
        terminalreporter.line(note)
