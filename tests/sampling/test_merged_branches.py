"""Short branches that do not part a batch: every row has what the function would return for it alone."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest
from scipy.stats import chi2_contingency

from veridp import catalogue
from veridp.mechanism import mechanism
from veridp.sampling.batch import EVERY_RUN, RowsCompared, batch_outputs, batch_trial
from veridp.sampling.blocks import generator
from veridp.sampling.merged_branches import merged_function
from veridp.sampling.sample import sample

ALL_ROWS = RowsCompared(first=10**6)
QUERIES = [0.0, 1.0, -1.0, 0.5, 2.0, -0.5, 0.3]


def above(rng, queries):
    answers = []
    for query in queries:
        if query + rng.laplace() >= 1:
            answers.append(True)
        else:
            answers.append(False)
    return answers


def counts(rng, queries):
    high, low, last = 0, 0, -1
    for place, query in enumerate(queries):
        if query + rng.laplace() > 0:
            high += 1
            last = place
        else:
            low -= 1
    return [high, low, last]


def halves(rng, queries):
    """An arm alone, numbers of the batch in both arms, and an inline one."""
    total, least = 0.0, 0.0
    for query in queries:
        noisy = query + rng.laplace()
        if noisy < least:
            least = noisy
        total = total + (noisy if noisy > 0 else -0.5 * noisy)
    return total, least


def leaves_early(rng, queries):
    found, answers = 0, []
    for query in queries:
        if query + rng.laplace() >= 0:
            answers.append(1)
            found += 1
            if found == 4:
                break
        else:
            answers.append(0)
    return answers, found


def reads_what_it_wrote(rng, queries):
    x, y = 0.0, 0.0
    for query in queries:
        if query + rng.laplace() > 0:
            x = y + 1
            y = x
        else:
            y = 2
    return x, y


def swaps(rng, queries):
    x, y = 0, 1
    for query in queries:
        if query + rng.laplace() > 0:
            x = y
            y += 1
        else:
            y = x
    return x, y


def one_list_of_two_names(rng, queries):
    first = second = []
    for query in queries:
        if query + rng.laplace() > 0:
            first.append(1)
            second.append(2)
        else:
            second.append(3)
            first.append(4)
    return first


def other_kinds(rng, queries):
    """Values that a row alone tells apart: an integer and a float, a number and None, Python's and NumPy's."""
    answers = []
    for query in queries[:4]:
        noisy = query + rng.laplace()
        if noisy > 0:
            answers.append(1)
        else:
            answers.append(1.0)
        if noisy > 1:
            answers.append(noisy)
        else:
            answers.append(None)
    return answers


def unbound_in_one_arm(rng, queries):
    for query in queries[:3]:
        if query + rng.laplace() > 0:  # noqa: SIM108
            seen = 1
        else:
            seen = seen + 1
    return seen


def grows_a_list(rng, queries):
    answers, same = [], None
    same = answers
    for query in queries[:4]:
        if query + rng.laplace() > 0:
            answers += [True]
    return [same is answers, len(same)]


CUT = 0.5


@mechanism(epsilon=1.0)
def helper(rng, queries, *, scale=1.0):
    return [1 if query + rng.laplace(scale=scale) > CUT else 0 for query in queries]


def calls_helpers(rng, queries):
    return helper(rng, queries), helper(rng, queries, scale=2.0)


MERGING = (above, counts, halves, leaves_early, swaps, calls_helpers)
PARTING = (reads_what_it_wrote, one_list_of_two_names, other_kinds, unbound_in_one_arm, grows_a_list)


@pytest.mark.parametrize("function", [*MERGING, *PARTING], ids=lambda f: f.__name__)
def test_every_row_is_what_the_plain_function_returns_on_its_draws(function) -> None:
    """A batch compares its rows with the plain function; here all of them."""
    merged = merged_function(function) or function
    assert len(batch_outputs(function, QUERIES, generator(1), 400, ALL_ROWS, merged)) == 400


@pytest.mark.parametrize("function", MERGING, ids=lambda f: f.__name__)
def test_branches_that_merge_do_not_part_a_batch(function) -> None:
    plain, merged = (
        batch_trial(function, QUERIES, generator(2), 2000, 500, f).runs for f in (None, merged_function(function))
    )
    assert merged <= 5 < 16 < plain


def test_the_outputs_are_distributed_as_before() -> None:
    """A test of homogeneity of 2^7 outputs, which would fail once in a thousand seeds."""
    found = [
        batch_outputs(above, QUERIES, generator(seed), 100_000, EVERY_RUN, f).distinct()
        for seed, f in ((3, None), (4, merged_function(above)))
    ]
    table = [[counts.get(list(key), 0) for key in itertools.product((True, False), repeat=7)] for counts in found]
    common = np.array(table)[:, np.sum(table, axis=0) >= 10]
    assert chi2_contingency(common).pvalue > 1e-3


def test_they_are_used_where_a_batch_parts_into_many_runs() -> None:
    outputs = sample(catalogue["svt6"], [0.0] * 10, 10_000)
    assert outputs.reading == "batch"  # a thousand runs would take longer than one by one
    assert len(outputs.templates) == 1


def test_a_function_that_differs_from_its_source_is_left_alone() -> None:
    def changed(rng, data):
        return 1 if rng.random() < data else 0

    assert merged_function(changed) is not None
    changed.__code__ = changed.__code__.replace(co_consts=(None, 2, 0))
    assert merged_function(changed) is None
    assert merged_function(len) is None
    assert merged_function(functools.partial(above)) is not None
    assert merged_function(lambda rng, data: 1 if rng.random() < data else 0) is None


def test_a_mistake_in_what_runs_on_the_batch_is_found() -> None:
    """The batch is compared with the function itself, not with the one that runs on it."""
    from veridp.sampling.tape import Unfit

    with pytest.raises(Unfit, match="on draws for which that of a batch is"):
        batch_outputs(above, [0.0], generator(1), 100, EVERY_RUN, lambda rng, data: [rng.laplace() + data[0] > 1.5])
