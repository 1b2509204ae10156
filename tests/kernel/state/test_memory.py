"""State that passes from run to run is found wherever it hides; ordinary helpers are not mistaken for it.

Each hiding place below releases its data only after thousands of runs, more than exploration and replay make.
"""

from __future__ import annotations

import _abc  # type: ignore[import-not-found]
import abc
import array
import builtins
import collections
import contextlib
import contextvars
import ctypes
import dataclasses
import decimal
import enum
import functools
import importlib
import io
import itertools
import logging
import math
import queue
import random
import re
import sys
import threading
import traceback
import types
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats

import veridp
from veridp.budget import Deadline
from veridp.budget.child_process import contained
from veridp.errors import Nondeterministic, NotExplorable
from veridp.kernel.explore import explore
from veridp.kernel.state.fingerprint import MAX_OBJECTS, fingerprint
from veridp.kernel.state.memory import Watch, changed, from_first_run

MANY = 3_000
LEAKS: dict[str, Callable[..., Any]] = {}
ORDINARY: dict[str, Callable[..., Any]] = {}


def leaks(count: Callable[..., int]) -> Callable[..., int]:
    """Registers a mechanism that counts its runs in this way, and releases its data when they are many."""

    def leaking(rng, d):
        return d[0] if count(rng) > MANY else d[0] + rng.laplace()

    LEAKS[count.__name__] = leaking
    return count


def ordinary(function: Callable[..., Any]) -> Callable[..., Any]:
    ORDINARY[function.__name__] = function
    return function


# ------------------------------------------------------------------------------------------------- hiding places


@functools.lru_cache(None)
def cached_list(key):
    return []


@leaks
def list_in_an_unbounded_cache(rng):
    cached_list(0).append(1)
    return len(cached_list(0))


@functools.lru_cache(maxsize=8)
def cached_dict(key):
    return {"runs": 0}


@leaks
def dict_in_a_bounded_cache(rng):
    cached_dict("a")["runs"] += 1
    return cached_dict("a")["runs"]


@functools.cache
def squared(number):
    return number * number


@leaks
def hits_of_a_cache(rng):
    squared(3)
    return squared.cache_info().hits


@functools.cache
def one_more(key):
    return squared_cell.__setitem__(0, squared_cell[0] + 1) or 0


squared_cell = [0]


@leaks
def misses_of_a_cache(rng):
    one_more(object())
    return squared_cell[0]


class Tallied:
    @functools.cached_property
    def log(self):
        return []


TALLIED = Tallied()


@leaks
def list_in_a_cached_property(rng):
    TALLIED.log.append(1)
    return len(TALLIED.log)


class Sorts(abc.ABC):  # noqa: B024
    pass


@leaks
def classes_that_an_abstract_class_takes_for_its_own(rng):
    Sorts.register(types.new_class("New"))
    return len(_abc._get_dump(Sorts)[0])


@leaks
def attribute_of_the_thread(rng):
    thread: Any = threading.current_thread()
    thread.runs = getattr(thread, "runs", 0) + 1
    return thread.runs


@leaks
def name_of_the_thread(rng):
    threading.current_thread().name += "'"
    return threading.current_thread().name.count("'")


TICKS = itertools.count()
next_tick = itertools.count().__next__


@leaks
def iterator(rng):
    return next(TICKS)


@leaks
def method_of_an_iterator(rng):
    return next_tick()


CYCLE = itertools.cycle(range(10_000))


@leaks
def cycle(rng):
    return next(CYCLE)


def counting():
    number = 0
    while True:
        number += 1
        yield number


COUNTING = counting()


@leaks
def generator(rng):
    return next(COUNTING)


WINDOW: collections.deque[object] = collections.deque(maxlen=5_000)


@leaks
def deque(rng):
    WINDOW.append(1)
    return len(WINDOW)


DICE = (random.Random(1),)


@leaks
def own_random(rng):
    return 10_000 * (DICE[0].random() > 1 - 1e-9)


OLD_STYLE = (np.random.RandomState(3),)  # out of reach: it is not adopted


@leaks
def random_state(rng):
    return 10_000 * (OLD_STYLE[0].rand() > 1 - 1e-9)


PARENT = np.random.default_rng(3)


@leaks
def spawned_generators(rng):
    PARENT.spawn(1)
    return PARENT.bit_generator.seed_seq.n_children_spawned


LINES, BYTES = io.StringIO(), io.BytesIO()


@leaks
def text_buffer(rng):
    return LINES.write(".") and LINES.tell()


@leaks
def byte_buffer(rng):
    BYTES.write(b".")
    return len(BYTES.getvalue())


LOCAL = threading.local()


@leaks
def thread_local(rng):
    LOCAL.runs = getattr(LOCAL, "runs", 0) + 1
    return LOCAL.runs


RUNS = contextvars.ContextVar("RUNS", default=0)


@leaks
def context_variable(rng):
    RUNS.set(RUNS.get() + 1)
    return RUNS.get()


CELLS = array.array("l", [0])
VIEW = memoryview(bytearray(8)).cast("q")
NUMBER = ctypes.c_long(0)


@leaks
def typed_array(rng):
    CELLS[0] += 1
    return CELLS[0]


@leaks
def memory(rng):
    VIEW[0] += 1
    return VIEW[0]


@leaks
def c_number(rng):
    NUMBER.value += 1
    return NUMBER.value


class Node:
    __slots__ = ("__weakref__", "runs")

    def __init__(self):
        self.runs = 0


KEPT = Node()
WEAK = weakref.WeakValueDictionary({"node": KEPT})
REF = weakref.ref(KEPT)
FIFO: queue.Queue[object] = queue.Queue()
SIMPLE: queue.SimpleQueue[object] = queue.SimpleQueue()


@leaks
def weak_container(rng):
    WEAK["node"].runs += 1
    return WEAK["node"].runs


@leaks
def weak_reference(rng):
    REF().runs += 1
    return REF().runs


@leaks
def fifo(rng):
    FIFO.put(1)
    return FIFO.qsize()


@leaks
def simple_queue(rng):
    SIMPLE.put(1)
    return SIMPLE.qsize()


TALLY: collections.Counter[object] = collections.Counter()
GROUPS: collections.defaultdict[object, list[object]] = collections.defaultdict(list)
ORDER = collections.OrderedDict((key, None) for key in range(5_000))


@leaks
def counter(rng):
    TALLY["runs"] += 1
    return TALLY.total()


@leaks
def default_dict(rng):
    GROUPS["runs"].append(1)
    return len(GROUPS["runs"])


@leaks
def order_of_keys(rng):
    ORDER.move_to_end(next(iter(ORDER)))
    return next(iter(ORDER))


@leaks
def attribute_of_a_library(rng):
    math.steps = getattr(math, "steps", 0) + 1
    return math.steps


@leaks
def new_builtin(rng):
    builtins.steps_taken = getattr(builtins, "steps_taken", 0) + 1
    return builtins.steps_taken


@leaks
def module_of_its_own(rng):
    module = sys.modules.setdefault("a_quiet_place", types.ModuleType("a_quiet_place"))
    module.runs = getattr(module, "runs", 0) + 1
    return module.runs


sys.modules["counters_of_mine"] = types.ModuleType("counters_of_mine")
vars(sys.modules["counters_of_mine"])["runs"] = 0


@leaks
def imported_within(rng):
    import counters_of_mine  # type: ignore[import-not-found]

    counters_of_mine.runs += 1
    return counters_of_mine.runs


COMPUTED = """
def computed_global(rng):
    name = "_".join(["runs", "so", "far"])
    globals()[name] = globals().get(name, 0) + 1
    return globals()[name]
"""
place: dict[str, Any] = {}
exec(COMPUTED, place)  # noqa: S102
leaks(place["computed_global"])


class Counting(type):
    runs = 0


class Base(metaclass=Counting):
    runs = 0
    __quiet__ = 0

    @property
    def more(self, log=[]):  # noqa: B006
        log.append(1)
        return len(log)


class Derived(Base):
    pass


DERIVED = Derived()


@leaks
def inherited_attribute(rng):
    Base.runs += 1
    return DERIVED.runs


@leaks
def dunder_attribute(rng):
    Base.__quiet__ += 1
    return DERIVED.__quiet__


@leaks
def metaclass(rng):
    Counting.runs += 1
    return type(Derived).runs


@leaks
def default_of_a_property(rng):
    return DERIVED.more


@leaks
def slot(rng):
    KEPT.runs += 1
    return KEPT.runs


def helper():
    helper.runs = getattr(helper, "runs", 0) + 1
    return helper.runs


@leaks
def attribute_of_a_helper(rng):
    return helper()


def counted(function):
    runs = 0

    @functools.wraps(function)
    def wrapper():
        nonlocal runs
        runs += 1
        return runs

    return wrapper


@counted
def wrapped():
    return 0


@leaks
def wrapper(rng):
    return wrapped()


@leaks
def docstring(rng):
    helper.__doc__ = (helper.__doc__ or "") + "."
    return len(helper.__doc__)


class Number(int):
    runs = 0


FIVE = Number(5)


@leaks
def attribute_of_a_number(rng):
    FIVE.runs += 1
    return FIVE.runs


FIRST: list[object] = []
SECOND: list[object] = []
CURRENT = FIRST
SWITCHES = (lambda n: lambda: n)(0), (lambda n: lambda: n)(1)


@leaks
def which_of_two_equals(rng):
    global CURRENT
    CURRENT = SECOND
    return 0


LAST = None


@leaks
def noise_of_the_run_before(rng):
    global LAST
    LAST, before = rng.laplace(), LAST
    return int(before is None)


TYPES = [0]


@leaks
def count_of_plain_numbers(rng):
    TYPES[0] += type(rng) is not None and type(rng.laplace()) is float
    return TYPES[0]


MATRIX = np.array([[0, "a"]], dtype=object)


@leaks
def array_of_objects(rng):
    MATRIX[0, 0] += 1
    return MATRIX[0, 0]


OBJECTS = [[], *([object()] for _ in range(2_000)), []]


TABLE = [[k, {"seen": 0}] for k in range(2_000)]


@leaks
def far_down_a_long_list(rng):
    OBJECTS[-1].append(1)
    return len(OBJECTS[-1])


@leaks
def far_down_a_table(rng):
    TABLE[-1][1]["seen"] += 1
    return TABLE[-1][1]["seen"]


inner_runs = [0]


@veridp.mechanism(epsilon=1.0)
def inner(rng, d):
    inner_runs[0] += 1
    return inner_runs[0]


@leaks
def within_another_mechanism(rng):
    return inner(rng, [0.0])


class Handler(logging.Handler):
    runs = 0

    def emit(self, record):
        Handler.runs += 1


COUNTED_LOG = logging.getLogger("veridp.tests.counted")
COUNTED_LOG.addHandler(Handler())
COUNTED_LOG.propagate = False


@leaks
def handler_of_a_logger(rng):
    COUNTED_LOG.warning("run")
    return COUNTED_LOG.handlers[0].runs


@leaks
def code_of_a_helper(rng):
    helper.__code__ = (lambda: 0).__code__
    return 0


FAULT = ValueError("kept")


@leaks
def exception_that_is_kept(rng):
    try:
        raise FAULT
    except ValueError as fault:
        return len(list(traceback.walk_tb(fault.__traceback__)))


@leaks
def module_by_a_computed_name(rng):
    module = importlib.import_module("_".join(["counters", "of", "mine"]))
    module.runs += 1
    return module.runs


class Secretive:
    def __init__(self):
        object.__setattr__(self, "runs", 0)

    @property
    def __dict__(self):
        return {}


SECRETIVE = Secretive()


@leaks
def hidden_attributes(rng):
    SECRETIVE.runs += 1
    return SECRETIVE.runs


@leaks
def setting_of_the_interpreter(rng):
    sys.setrecursionlimit(sys.getrecursionlimit() + 1)
    return sys.getrecursionlimit() - 1_000


@leaks
def settings_of_numpy(rng):
    np.set_printoptions(precision=np.get_printoptions()["precision"] + 1)
    return np.get_printoptions()["precision"]


@leaks
def arithmetic_context(rng):
    decimal.getcontext().prec += 1
    return decimal.getcontext().prec


@leaks
def logger_by_name(rng):
    log = logging.getLogger("veridp.tests.by_name")
    log.setLevel(log.level + 1)
    return log.level


@leaks
def number_of_subclasses(rng):
    KEPT_CLASSES.append(type("Child", (Base,), {}))
    return len(Base.__subclasses__())


KEPT_CLASSES: collections.deque[type] = collections.deque(maxlen=1)


@functools.cache
def cached_late(key):
    return [0]


def only_on_a_rare_path(rng, d):
    noisy = d[0] + rng.laplace()
    if noisy > 3:
        cached_late(0)[0] += 1
        return d[0] if cached_late(0)[0] > MANY else noisy
    return noisy


LEAKS["only_on_a_rare_path"] = only_on_a_rare_path


@pytest.mark.parametrize("name", LEAKS)
def test_state_that_passes_from_run_to_run_is_found(name):
    with pytest.raises((NotExplorable, Nondeterministic)), np.printoptions():
        veridp.prove(LEAKS[name], 1)


# ------------------------------------------------------------------------------------------------- ordinary code


@functools.cache
def harmonic(count):
    return sum(1 / k for k in range(1, count + 1))


@functools.lru_cache(maxsize=2)
def weights(count):
    return np.ones(count)


@ordinary
def memoised_helpers(rng, d):
    scale = harmonic(1) * weights(1)[0]
    return d[0] + rng.laplace(scale=float(scale))


@functools.cache
def table(key):
    return {"scale": [1.0]}


@ordinary
def memoised_on_a_late_path(rng, d):
    noisy = d[0] + rng.laplace()
    return noisy * table("a")["scale"][0] if noisy > 3 else noisy


LOG = logging.getLogger("veridp.tests.state")


@ordinary
def logger(rng, d):
    LOG.debug("releasing %d records", len(d))
    logging.getLogger("veridp.tests.fresh").warning("noisy")
    return d[0] + rng.laplace()


WORD = re.compile(r"(\w+)=(\d+)")


@ordinary
def compiled_pattern(rng, d):
    match = WORD.fullmatch("scale=1")
    return d[0] + rng.laplace(scale=int(match[2]))


LOCK = threading.RLock()


@ordinary
def lock(rng, d):
    with LOCK:
        return d[0] + rng.laplace()


@ordinary
def ufuncs(rng, d):
    scale = float(np.clip(1.0, 0.0, 2.0))
    return np.add(d[0], rng.laplace(scale=scale)) + float(np.sqrt(0.0)) + special.expit(-math.inf)


@dataclasses.dataclass(frozen=True)
class Settings:
    scale: float = 1.0
    bounds: tuple[float, float] = (-20.0, 20.0)

    @functools.cached_property
    def width(self):
        return self.bounds[1] - self.bounds[0]


SETTINGS = Settings()


@ordinary
def data_class(rng, d):
    return d[0] + rng.laplace(scale=SETTINGS.scale) + SETTINGS.width - 40


class Bounds:
    def __init__(self, low, high):
        self.low, self.high = low, high

    @functools.cached_property
    def ends(self):
        return np.array([self.low, self.high])

    @functools.lru_cache  # noqa: B019
    def width(self, factor):
        return [factor * (self.high - self.low)]


BOUNDS = Bounds(-20.0, 20.0)


@ordinary
def computed_once_on_a_late_path(rng, d):
    noisy = d[0] + rng.laplace()
    if noisy > 3:
        return noisy + BOUNDS.ends[0] + BOUNDS.width(0.5)[0]
    return noisy


class Noise(enum.Enum):
    LAPLACE = "laplace"
    NONE = "none"


class Level(enum.IntEnum):
    ONE = 1


@ordinary
def enumeration(rng, d):
    kind = Noise("laplace")
    return d[0] + (rng.laplace(scale=Level.ONE.value) if kind is Noise.LAPLACE else 0)


@ordinary
def iterators_of_one_run(rng, d):
    numbers = itertools.count(1)
    total = sum(value for value, _ in zip(d, numbers, strict=False))
    return total + next(numbers) - 2 + rng.laplace()


class Shape(abc.ABC):
    @abc.abstractmethod
    def noise(self, rng): ...


class LaplaceShape(Shape):
    def __init__(self, scale):
        self.scale = scale

    def noise(self, rng):
        return rng.laplace(scale=self.scale)


SHAPE = LaplaceShape(1.0)


@ordinary
def abstract_class(rng, d):
    assert isinstance(SHAPE, Shape)
    return d[0] + SHAPE.noise(rng)


@functools.singledispatch
def number_of(value):
    return value


@number_of.register
def _(value: list):
    return value[0]


@ordinary
def single_dispatch(rng, d):
    return number_of(d) + number_of(rng.laplace())


@contextlib.contextmanager
def scaled(scale):
    yield scale


@ordinary
def context_manager(rng, d):
    with scaled(1.0) as scale:
        return d[0] + rng.laplace(scale=scale)


@ordinary
def imports_within(rng, d):
    import colorsys
    import statistics

    assert colorsys.rgb_to_hsv(0, 0, 0)[2] == 0
    return d[0] + rng.laplace(scale=statistics.fmean([1.0, 1.0]))


@ordinary
def library_objects(rng, d):
    return d[0] + rng.laplace(scale=2 * stats.norm.cdf(0.0)) + float(decimal.Decimal("0"))


half = functools.partial(pow, 2)
at_least_zero = np.vectorize(lambda value: max(value, 0.0))
RECORDS = [{"age": k, "tags": ["a"]} for k in range(300)]


@ordinary
def partial_and_tables(rng, d):
    return d[0] + rng.laplace(scale=half(0)) + float(at_least_zero([-1.0])[0]) + RECORDS[0]["age"]


class Release:
    """A mechanism as an object."""

    __name__ = "Release"

    def __init__(self, scale):
        self.scale, self.lock = scale, threading.Lock()

    def __call__(self, rng, d):
        with self.lock:
            return d[0] + rng.laplace(scale=self.scale)


ORDINARY["object"] = Release(1.0)


@ordinary
def standard_streams(rng, d):
    sys.stderr.write("releasing\n")
    sys.stdout.write("")
    return d[0] + rng.laplace()


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_helpers_are_no_state(name):
    assert veridp.prove(ORDINARY[name], 1).epsilon == 1


# ------------------------------------------------------------------------------------------------- words


def test_the_error_names_the_place():
    def tallying(rng, d):
        TALLY["runs"] += 1
        return d[0] + rng.laplace()

    with pytest.raises(Nondeterministic, match=r"tallying keeps state between runs: the global TALLY"):
        explore(tallying, [1.0])
    with pytest.raises(Nondeterministic, match="the cache of cached_list changed"):
        explore(LEAKS["list_in_an_unbounded_cache"], [1.0])


def test_what_cannot_be_read_is_refused():
    def by_c(rng, d):
        return d[0] + rng.laplace() + 0 * libc.abs(1)

    libc = ctypes.CDLL(None)
    libc.abs(1)
    with pytest.raises(NotExplorable, match=r"the variable libc around by_c.* state cannot be read"):
        explore(by_c, [1.0])


def test_too_much_to_read_is_refused(monkeypatch):
    monkeypatch.setattr("veridp.kernel.state.fingerprint.MAX_OBJECTS", 100)
    assert MAX_OBJECTS > 2_000

    def reads(rng, d):
        return d[0] + rng.laplace() + len(OBJECTS[0])

    with pytest.raises(NotExplorable, match="more than 100 objects"):
        explore(reads, [1.0])


def test_a_fingerprint_is_of_contents():
    box: dict[str, Any] = {"number": math.nan, "large": 10**5_000, "list": [0.0, 1]}

    def reads(rng, d):
        return box

    before = fingerprint(reads)
    assert changed(before, fingerprint(reads)) is None
    for key, value in (("list", [-0.0, 1]), ("list", [0.0, True]), ("number", 1.0), ("large", 10**5_000 + 1)):
        kept, box[key] = box[key], value
        assert changed(before, fingerprint(reads)) is not None, value
        box[key] = kept
    assert changed(before, fingerprint(reads)) is None


@pytest.mark.parametrize(
    "values",
    [
        np.array(["2020-01-01", "2021-01-01"], dtype="M8[D]"),
        np.array(["a", "bc"]),
        np.array([(1, 2.0)], dtype=[("n", int), ("x", float)]),
        np.array(3.0),
        np.arange(12.0).reshape(3, 4)[:, ::2],
        np.array([True, False]),
        np.ma.array([1.0, 2.0], mask=[True, False]),
        memoryview(bytearray(b"abc")),
        array.array("d", [1.0, 2.0]),
        bytearray(b"abc"),
    ],
    ids=lambda values: f"{type(values).__name__} {getattr(values, 'dtype', '')}",
)
def test_arrays_of_every_kind_are_read(values):
    def reads(rng, d):
        return values

    before = fingerprint(reads)
    assert changed(before, fingerprint(reads)) is None
    if isinstance(values, np.ndarray):
        values[...] = values.ravel()[-1]
    else:
        values[0] = values[1]
    assert (changed(before, fingerprint(reads)) is None) == (np.ndim(values) == 0 or len(values) == 1)


LOOKUP = pd.DataFrame({"key": ["a", "b"], "weight": [1.0, 2.0]})
WEIGHTS = pd.Series([1.0, 2.0], index=["a", "b"])
MARKED = pd.Series([1.0, 2.0])


def test_tables_of_pandas_are_read_and_may_not_change():
    def by_frame(rng, data):
        weights = dict(zip(LOOKUP["key"], LOOKUP["weight"], strict=True))
        return sum(weights[x] for x in data) + rng.laplace(scale=2.0)

    def by_series(rng, data):
        return sum(WEIGHTS[x] for x in data) + rng.laplace(scale=2.0)

    for mechanism in (by_frame, by_series):
        proof = veridp.prove(veridp.mechanism(adjacency="add-remove", domain=["a", "b"], size=1)(mechanism))
        assert proof.epsilon == 1.0

    def counting(rng, data):
        LOOKUP.loc[0, "weight"] += 1.0
        return rng.laplace() + 0 * LOOKUP.loc[0, "weight"]

    def marking(rng, data):
        object.__setattr__(MARKED, "seen", getattr(MARKED, "seen", 0) + 1)
        return rng.laplace()

    for mechanism in (counting, marking):
        with pytest.raises((Nondeterministic, NotExplorable)):
            explore(mechanism, None)
    assert WEIGHTS.tolist() == [1.0, 2.0]


def test_draws_of_other_threads_are_not_taken_for_those_of_the_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Dask has them; what the function draws itself is still seen."""
    state = {"others": 2, "own": 0}

    def once() -> None:
        if state["others"]:
            state["others"] -= 1
            random.random()  # of another thread
        if state["own"]:
            random.random()

    monkeypatch.setitem(sys.modules, "distributed", types.ModuleType("distributed"))
    watch = Watch("f", lambda rng, data: data)
    once()
    watch.settle(once)
    state["own"] = 1
    once()
    with pytest.raises(Nondeterministic, match="draws from global randomness"):
        watch.settle(once)
    monkeypatch.delitem(sys.modules, "distributed")
    state.update(others=1, own=0)
    once()
    with pytest.raises(Nondeterministic, match="draws from global randomness"):
        watch.settle(once)


def test_a_forked_process_whose_generator_is_seeded_anew_has_no_other_state() -> None:
    def noisy(rng: Any, data: list[float]) -> Any:
        return data[0] + rng.laplace()

    with from_first_run("noisy", noisy):
        paths = contained(lambda _: (random.getstate(), explore(noisy, [0.0])), Deadline(60.0))
    assert paths[0] != random.getstate()
    assert len(paths[1]) == 1
