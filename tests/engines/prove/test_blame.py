"""What is to blame for a cost above the claim, and where it stands in the author's code."""

from __future__ import annotations

import inspect
import linecache
import math
import re

import pytest

from veridp import catalogue, mechanism
from veridp.engines.prove import prove


def code(blame):
    """The line of the code that is to blame."""
    return linecache.getline(blame.file, blame.line)


@pytest.mark.parametrize(
    ("name", "kind", "cost", "text"),
    [
        ("svt3", "output", 0.1, "rng.laplace(scale=2 * cutoff / epsilon)"),  # the noise of the query it releases
        ("svt4", "condition", 0.175, "rng.laplace(scale=4 / (3 * epsilon)) >= noisy_threshold"),
        ("svt5", "condition", math.inf, ">= noisy_threshold"),
        ("svt6", "condition", 0.25, "rng.laplace(scale=2 / epsilon) >= noisy_threshold"),
        ("noisy_max3", "output", 0.15, "np.max("),
        ("noisy_max4", "output", math.inf, "np.max("),
        ("bad_gap_svt", "output", 0.025, "rng.laplace("),
        ("bad_smart_sum", "output", math.inf, "return"),
        ("noisy_hist2", "output", 10.0, "rng.laplace(scale=epsilon)"),
        ("bad_partial_sum", "output", 0.2, "rng.laplace("),
        ("gaussian", "output", 0.0607037816, "rng.normal("),
    ],
)
def test_the_line_at_fault_in_mechanisms_of_the_literature(name, kind, cost, text):
    chosen = catalogue[name]
    blame = prove(chosen, 1 if name == "gaussian" else 5).blame
    assert blame.kind == kind
    assert blame.cost == pytest.approx(cost, rel=1e-8)
    assert text in code(blame)
    lines, first = inspect.getsourcelines(chosen.function)
    assert blame.file == inspect.getsourcefile(chosen.function)
    assert first <= blame.line < first + len(lines)


def test_sentences():
    assert prove(catalogue["svt5"], 2).blame.sentence == (
        "data[0] >= n0 + 1 and n0 + 1 > data[1] cannot both stay true when the data move by (-1, +1), "
        "whatever the shift of the noise"
    )
    assert prove(catalogue["bad_smart_sum"], 2).blame.sentence == (
        "the released number data[0] + data[1] has no noise to hide a change of the data"
    )
    assert prove(lambda rng, data: data[0] + rng.normal(), 1).blame.sentence.endswith(
        "(normal noise has no pure-ε price: under any shift the ratio of its densities is unbounded)"
    )
    assert re.fullmatch(
        r"n0 \(drawn at additive.py:\d+\) must be 1 lower when the data move by \(\+1\): "
        r"normal noise shifted by 0\.0206407 standard deviations",
        prove(catalogue["gaussian"], 1).blame.sentence,
    )
    assert prove(catalogue["noisy_hist2"], 2).blame.sentence == (
        "the released number data[0] + n0 shifts by 1 when the data move by (+1, +0): it costs 10 of ε = 10"
    )


def test_of_two_comparisons_the_one_that_costs():
    def two(rng, queries):
        answer = 0
        if queries[0] + rng.laplace(scale=10) > 0:
            answer += 1
        if queries[0] + rng.laplace(scale=1) > 0:
            answer += 2
        return answer

    blame = prove(mechanism(adjacency="l1")(two), 1).blame
    assert (blame.kind, blame.cost) == ("condition", pytest.approx(1.0))
    assert "scale=1)" in code(blame)


def test_a_comparison_without_noise():
    def leaking(rng, queries):
        if queries[0] > 3:
            return "big"
        return "small"

    blame = prove(mechanism(adjacency="l1")(leaking), 1).blame
    assert "if queries[0] > 3" in code(blame)
    assert blame.sentence == (
        "data[0] > 3 cannot stay true when the data move by (-1), whatever the shift of the noise"
    )


def test_noise_that_cannot_go_that_way_is_told():
    def only_up(rng, queries):
        return bool(queries[0] + rng.exponential(scale=10) > 3)

    blame = prove(mechanism(adjacency="l1")(only_up), 1).blame
    assert math.isinf(blame.cost)
    assert "exponential noise cannot be shifted downwards" in blame.sentence


def test_nothing_is_to_blame_where_nothing_costs():
    assert prove(lambda rng, queries: rng.normal(), 2).blame is None


def test_the_cost_is_never_more_than_the_whole():
    for name in ("svt1", "svt2", "gap_svt", "numerical_svt", "adaptive_svt", "monotone_svt", "noisy_max1", "smart_sum"):
        proof = prove(catalogue[name], 4)
        assert 0 < proof.blame.cost <= proof.epsilon * (1 + 1e-9)
