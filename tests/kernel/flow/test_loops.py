"""Which loops of a mechanism come back to a state that they were in, and which do not."""

import random
from types import SimpleNamespace

import pytest

from veridp.errors import ExplorationDisagrees, TooManyPaths
from veridp.kernel import run as module
from veridp.kernel.explore import explore
from veridp.kernel.expressions import unknowns
from veridp.kernel.flow.loops import loop_heads
from veridp.kernel.path import Again
from veridp.kernel.replay.agreement import Listing
from veridp.mechanism import as_mechanism

TALLY = [0]


@pytest.fixture(autouse=True)
def few_forks(monkeypatch):
    monkeypatch.setattr(module, "MAX_FORKS", 30)


def until_positive(rng, data):
    while True:
        noisy = data[0] + rng.laplace()
        if noisy > 0:
            return noisy


def before_the_loop(rng, data):
    noise = rng.laplace()
    while abs(noise) > 2:
        noise = rng.laplace()
    return sum(data) + noise


def sample(rng, low):
    while (x := rng.laplace()) < low:
        continue
    return x


def in_a_helper(rng, data):
    return [entry + sample(rng, -1.0) for entry in data]


def within_a_for(rng, data):
    total = 0.0
    for entry in data:
        while True:
            x = rng.exponential()
            if x < 1:
                break
        total += entry + x
    return total


def with_a_flag(rng, data):
    accepted, tries = False, []
    while not accepted:
        tries = [rng.laplace()]
        accepted = tries[0] > 0
    return data[0] + tries[0]


def caught(rng, data):
    while True:
        x = rng.laplace()
        try:
            if x < 0:
                raise ValueError
        except ValueError:
            continue
        return x + data[0]


def in_an_object(rng, data):
    box = SimpleNamespace(x=0.0)
    while True:
        x = rng.laplace()
        if x > 0:
            return x + box.x + data[0]


@pytest.mark.parametrize(
    ("mechanism", "ending", "back"),
    [
        (until_positive, 1, 1),
        (before_the_loop, 6, 4),
        (in_a_helper, 1, 2),
        (within_a_for, 1, 2),
        (with_a_flag, 1, 1),
        (caught, 1, 1),
        (in_an_object, 1, 1),
    ],
)
def test_a_loop_that_comes_back_is_cut_there_and_replayed(mechanism, ending, back):
    data = [0.25, 0.5]
    paths = explore(mechanism, data, retries=True)
    assert sum(isinstance(path.output, Again) for path in paths) == back
    assert len(paths) == ending + back
    assert Listing.of(as_mechanism(mechanism), data, paths).replay().reached == len(paths)
    with pytest.raises(TooManyPaths):
        explore(mechanism, data)


def test_open_data_may_decide_whether_to_retry():
    paths = explore(until_positive, unknowns("data", 1), retries=True)
    assert [str(path) for path in paths] == [
        "data[0] + n0 where data[0] + n0 > 0",
        "Again(place=0) where 0 >= data[0] + n0",
    ]


def gives_up(rng, data):
    tries = 0
    while rng.laplace() < 0:
        tries += 1
        if tries > 40:
            return None
    return data[0]


def remembers_in_a_list(rng, data):
    seen = []
    while True:
        seen.append(1)
        if rng.laplace() > len(seen):
            return data[0]


def remembers_in_an_attribute(rng, data):
    box = SimpleNamespace(tries=0)
    while True:
        box.tries += 1
        if rng.laplace() > box.tries:
            return data[0]


def remembers_in_a_closure(rng, data):
    tries = 0

    def draw():
        nonlocal tries
        tries += 1
        return rng.laplace() - tries

    while draw() < 0:
        pass
    return data[0]


def remembers_in_a_global(rng, data):
    TALLY[0] = 0
    try:
        while True:
            TALLY[0] += 1
            if rng.laplace() > TALLY[0]:
                return data[0]
    finally:
        TALLY[0] = 0


def remembers_the_last_draw(rng, data):
    last = 0.0
    while True:
        x = rng.laplace()
        if x > last:
            return data[0] + x
        last = x


def depends_on_an_earlier_draw(rng, data):
    threshold = rng.laplace()
    while rng.laplace() < threshold:
        pass
    return data[0] + threshold


def reads_its_variables(rng, data):
    while True:
        x = rng.laplace()
        if x > 0:
            return len(locals()) + x


def moves_an_iterator(rng, data):
    entries = iter(range(100))
    while True:
        bound = next(entries)
        if rng.laplace() > bound:
            return data[0]


def draws_in_turns(rng, data):
    def tries():
        while True:
            yield rng.laplace()

    return next(x for x in tries() if x > 0) + data[0]


@pytest.mark.parametrize(
    "mechanism",
    [
        gives_up,
        remembers_in_a_list,
        remembers_in_an_attribute,
        remembers_in_a_closure,
        remembers_in_a_global,
        remembers_the_last_draw,
        depends_on_an_earlier_draw,
        reads_its_variables,
        moves_an_iterator,
        draws_in_turns,
    ],
)
def test_a_loop_that_remembers_its_rounds_is_not_taken_to_come_back(mechanism):
    with pytest.raises(TooManyPaths):
        explore(mechanism, [0.25], retries=True)


def test_variables_that_are_set_before_they_are_read_are_not_live():
    def loop(rng, data, limit):
        count = total = 0
        while True:
            total = rng.laplace()
            other = total + count
            if other > limit:
                return other

    (head,) = loop_heads(loop.__code__).values()
    assert head.live == {"rng", "count", "limit"}


def test_variables_of_a_handler_are_live_where_it_may_be_entered():
    def loop(rng, fallback):
        while True:
            x = 0.0
            try:
                x = rng.laplace()
            except ValueError:
                return x + fallback

    (head,) = loop_heads(loop.__code__).values()
    assert head.live == {"rng", "fallback"}


def test_what_the_paths_leave_out_is_caught_on_replay():
    """A path that comes back, though the mechanism stops after three rounds, does not survive plain runs."""

    def stops(rng, data):
        tries = 0
        while rng.random() < 0.75:
            tries += 1
            if tries == 3:
                return -1.0
        return data[0]

    def forever(rng, data):
        while rng.random() < 0.75:
            pass
        return data[0]

    paths = explore(forever, [0.5], retries=True)
    with pytest.raises(ExplorationDisagrees):
        Listing.of(as_mechanism(stops), [0.5], paths).replay()


# ---------------------------------------------------------------------------------------------------- loops that count


def failures(rng, p):
    count = 0
    while rng.random() < p:
        count += 1
    return count


def two_sided(rng, data):
    return data[0] + failures(rng, 0.25) - 2 * failures(rng, 0.5)


def of_another_source(data):
    count = 0
    while random.random() < 0.25:
        count += 1
    return data[0] + count


def twice_as_fast(rng, data):
    up = down = 0
    while True:
        if rng.integers(3) == 0:
            return data[0] + up + down
        up += 2
        down -= 1


def counted_within_a_loop(rng, data):
    while True:
        sign = rng.integers(2)
        size = failures(rng, 0.25)
        if sign or size:
            return data[0] + (size if sign else -size)


def retried_within_a_count(rng, data):
    count = 0
    while True:
        count += 1
        while True:
            face = rng.integers(4)
            if face < 3:
                break
        if face == 0:
            return data[0] + count


def switched(rng, data):
    """Comes back after two rounds, not after one."""
    even = True
    while rng.random() < 0.6:
        even = not even
    return data[0] if even else -data[0]


@pytest.mark.parametrize("mechanism", [retried_within_a_count, switched])
def test_long_runs_are_found_among_the_paths(mechanism):
    paths = explore(mechanism, [1], retries=True)
    assert Listing.of(as_mechanism(mechanism), [1], paths).replay(runs=40).runs > 80


@pytest.mark.parametrize(
    ("mechanism", "ending"),
    [
        (two_sided, {"n0 - 2·n2 + 2": ["0.75", "0.5"]}),
        (twice_as_fast, {"n0": ["0.333333"]}),
        (of_another_source, {"n0": ["0.75"]}),
        (counted_within_a_loop, {"n0": ["0.75"], "-n0 + 2": ["0.75"]}),
    ],
)
def test_the_rounds_of_a_loop_that_counts_are_geometric(mechanism, ending):
    paths = explore(mechanism, [1], retries=True)
    found = {
        str(path).partition(" where")[0]: [f"{float(n.distribution.p):.6g}" for n in path.noises if hasattr(n, "head")]
        for path in paths
        if not isinstance(path.output, Again)
    }
    assert found == ending
    assert Listing.of(as_mechanism(mechanism), [1], paths).replay().reached == len(paths)


def depends_on_its_count(rng, data):
    count = 0
    while rng.random() * (count + 1) < 0.5:
        count += 1
    return data[0] + count


def draws_by_its_count(rng, data):
    count = 1
    while rng.integers(2 * count) < 1:
        count += 1
    return data[0] + count


def looks_up_its_count(rng, data):
    count = 0
    while rng.random() < (0.5, 0.25)[count % 2]:
        count += 1
    return data[0] + count


@pytest.mark.parametrize("mechanism", [depends_on_its_count, draws_by_its_count, looks_up_its_count])
def test_a_loop_whose_rounds_depend_on_their_number_does_not_count(mechanism):
    with pytest.raises(TooManyPaths):
        explore(mechanism, [1], retries=True)


def test_a_loop_that_goes_on_ever_less_likely_is_given_up_early(monkeypatch):
    monkeypatch.setattr(module, "MAX_FORKS", 2000)

    def factorial(rng, data):
        count = 1
        while rng.integers(count) < 1:
            count += 1
        return count % 2

    with pytest.raises(TooManyPaths, match="below 1e-300"):
        explore(factorial, [1])


def test_a_loop_that_ends_by_its_count_is_followed_to_its_end():
    def at_most_three(rng, data):
        count = 0
        while count < 3 and rng.random() < 0.25:
            count += 1
        return data[0] + count

    paths = explore(at_most_three, [0], retries=True)
    assert sorted(path.output for path in paths) == [0, 1, 2, 3]


def test_a_loop_that_calls_nothing_is_not_watched():
    def root(parents, node):
        while parents[node] != node:
            node = parents[node]
        return node

    def drawn(rng, parents, node):
        while rng.random() < root(parents, node):
            for parent in parents:
                node = parent
        return node

    assert loop_heads(root.__code__) == {}
    assert loop_heads(drawn.__code__) != {}
