"""Gradients that are clipped by their norm: what is proved, that two inputs reach it, and what is not proved."""

from __future__ import annotations

import copy
import linecache
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from veridp.accounting import Leaf, Repeated, Subsampled, account
from veridp.engines.exact import compare
from veridp.engines.prove import prove
from veridp.errors import NotExplorable
from veridp.kernel.piecewise import Piece, is_never_negative, times
from veridp_check.checker import check

RECORDS = {"adjacency": "add-remove", "domain": (-2, 2), "size": 1, "delta": 1e-5}


def gradient(w, x):
    features = np.array([1.0, x])
    return 2 * (w @ features - x**2) * features


# ------------------------------------------------------------------------------------------ as people write it


def divided(rng, data, clip=1.5):
    total = np.zeros(2)
    for x in data:
        g = gradient(np.array([0.5, -0.25]), x)
        total += g / max(1.0, np.linalg.norm(g) / clip)
    return total + rng.normal(0, 2 * clip, size=2)


def scaled_down(rng, data, clip=1.5):
    total = np.zeros(2)
    for x in data:
        g = gradient(np.array([0.5, -0.25]), x)
        total += g * min(1.0, clip / np.linalg.norm(g))
    return total + rng.normal(0, 2 * clip, size=2)


def row_by_row(rng, data, clip=1.5):
    x = np.asarray(data, dtype=float)
    features = np.stack([np.ones_like(x), x, x**2], axis=1)
    gradients = (features @ np.array([0.1, 0.2, 0.3]) - x)[:, None] * features
    norms = np.linalg.norm(gradients, axis=1, keepdims=True)
    clipped = gradients * np.minimum(1.0, clip / np.maximum(norms, 1e-12))
    return np.array([0.1, 0.2, 0.3]) - 0.1 * (clipped.sum(axis=0) + rng.normal(0, 2 * clip, size=3))


def by_hand(rng, data):
    a = b = 0.0
    for x in data:
        u, v = x - 1, (x - 1) * x
        factor = 3 / max(3.0, 2 * math.sqrt(u * u + v * v))
        a, b = a + u * factor, b + v * factor
    return a + rng.normal(0, 3), b + rng.normal(0, 3)


def root_of_squares(rng, data):
    total = np.zeros(2)
    for x in data:
        g = np.array([x - 0.5, x * x])
        total = total + g * np.minimum(1, 1.5 / (np.sqrt(np.sum(g**2)) + 1e-6))
    return (total + rng.normal(0, 3, size=2)).tolist()


def where_it_is_too_long(rng, data, clip=1.5):
    total = np.zeros(2)
    for x in data:
        g = gradient(np.array([0.5, -0.25]), x)
        norm = np.sqrt((g**2).sum())
        if norm > clip:
            g *= clip / norm
        total += g
    return total + rng.normal(0, 2 * clip, size=2)


def shortened(g, bound):
    size = np.linalg.norm(g)
    if size > bound:
        return g * bound / size
    return g


def by_a_helper(rng, data, clip=1.5):
    clipped = [shortened(gradient(np.array([0.5, -0.25]), x), clip) for x in data]
    return sum(clipped, start=np.zeros(2)) + rng.normal(0, 2 * clip, size=2)


def by_a_factor(rng, data):
    a = b = 0.0
    for x in data:
        u, v = x - 1, (x - 1) * x
        length, factor = math.hypot(u, v), 1.0
        if length >= 1.5:
            factor = 1.5 / length
        a, b = a + u * factor, b + v * factor
    return a + rng.normal(0, 3), b + rng.normal(0, 3)


PHRASINGS = [divided, scaled_down, row_by_row, by_hand, root_of_squares, where_it_is_too_long, by_a_helper, by_a_factor]


@pytest.mark.parametrize("mechanism", PHRASINGS)
def test_a_clipped_gradient_costs_its_norm_however_it_is_written(mechanism):
    proof = prove(mechanism, **RECORDS)
    assert proof.mu == pytest.approx(0.5, rel=1e-12)
    assert proof.epsilon == pytest.approx(account(Leaf.gaussian(scale=2.0), 1e-5).epsilon, rel=1e-6)
    replaced = prove(mechanism, **RECORDS | {"adjacency": "replace"})
    assert replaced.mu == pytest.approx(1.0, rel=1e-12)


def test_two_inputs_reach_the_bound():
    shown = compare(by_hand, [0.5], [0.5, 2.0])
    assert shown.mu == pytest.approx(0.5, rel=1e-12)
    assert shown.rho == pytest.approx(prove(by_hand, **RECORDS).rho, rel=1e-12)


def descent(rng, data, steps=6, clip=1.5):
    w = np.zeros(2)
    for _ in range(steps):
        total = np.zeros(2)
        for x in data:
            g = gradient(w, x)
            total += g / max(1.0, np.linalg.norm(g) / clip)
        w = w - 0.1 * (total + rng.normal(0, 4 * clip, size=2))
    return w


def sampled_descent(rng, data, steps=3, clip=1.0):
    x, w = np.asarray(data, dtype=float), np.zeros(2)
    for _ in range(steps):
        batch = x[rng.random(len(x)) < 0.25]
        features = np.stack([np.ones_like(batch), batch], axis=1)
        g = (features @ w - batch**2)[:, None] * features
        g = g / np.maximum(1.0, np.linalg.norm(g, axis=1, keepdims=True) / clip)
        w = w - 0.1 * (g.sum(axis=0) + rng.normal(0, 2 * clip, size=2))
    return w


def test_steps_cost_what_the_accountant_says():
    proof = prove(descent, **RECORDS)
    assert proof.rho == pytest.approx(6 / 32, rel=1e-12)
    assert [step["count"] for step in proof.certificate["steps"]] == [6]
    sampled = prove(sampled_descent, **RECORDS)
    expected = account(Repeated(3, Subsampled(0.25, Leaf.gaussian(scale=2.0))), 1e-5, second_opinion=False).epsilon
    assert expected <= sampled.epsilon <= expected * 1.0005
    assert [each["count"] for each in sampled.certificate["rounds"]] == [3]


def test_numbers_that_share_a_clipped_vector_add_up():
    def twice(rng, data):
        total = np.zeros(2)
        for x in data:
            g = gradient(np.zeros(2), x)
            total += g / max(1.0, np.linalg.norm(g))
        return [*(total + rng.normal(0, 2, size=2)), *(2 * total + rng.normal(0, 2, size=2))]

    assert prove(twice, **RECORDS).mu == pytest.approx(math.sqrt(5) / 2, rel=1e-12)


# ----------------------------------------------------------------------------------------------- what is not protected


def the_whole_batch(rng, data):
    total = sum(gradient(np.zeros(2), x) for x in data)
    return total / max(1.0, np.linalg.norm(total)) + rng.normal(0, 2, size=2)


def clipping(factor: Callable[[Any], Any]):
    def mechanism(rng, data):
        total = np.zeros(2)
        for x in data:
            g = gradient(np.zeros(2), x)
            total = total + g * factor(g)
        return total + rng.normal(0, 2, size=2)

    return mechanism


def one_noise(rng, data):
    total = np.zeros(2)
    for x in data:
        g = gradient(np.zeros(2), x)
        total += g / max(1.0, np.linalg.norm(g))
    return total + rng.normal(0, 2)


def python_division(rng, data):
    a = b = 0.0
    for x in data:
        u, v = x - 1, (x - 1) * x
        factor = min(1.0, 1.0 / math.hypot(u, v))  # raises where both are 0
        a, b = a + u * factor, b + v * factor
    return a + rng.normal(0, 2), b + rng.normal(0, 2)


def the_whole_batch_where_it_is_too_long(rng, data):
    total = sum(gradient(np.zeros(2), x) for x in data)
    norm = np.linalg.norm(total)
    if norm > 1:
        total = total * 1 / norm
    return total + rng.normal(0, 2, size=2)


def branching(body):
    """A mechanism whose branch is this text."""
    lines = ["def mechanism(rng, data, clip=1.0):", "    total = np.zeros(3)", "    for x in data:"]
    lines += ["        g, factor = gradient(np.zeros(2), x), 1.0", *(f"        {line}" for line in body.splitlines())]
    lines += ["        total += [*(g * factor), length]", "    return total + rng.normal(0, 2, size=3)", ""]
    source = "\n".join(lines).replace("length]", "norm / 1000]" if "norm later" in body else "0.0]")
    file = f"<branch {len(linecache.cache)}>"
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
    names = {"np": np, "gradient": gradient, "__name__": "branching"}
    exec(compile(source, file, "exec"), names)  # noqa: S102 - the text of this test
    return names["mechanism"]


CLIPS = "norm = np.linalg.norm(g)\nif norm > clip:\n    g = g * clip / norm"
BRANCHES = [
    CLIPS.replace("norm > clip", "norm < clip"),
    CLIPS.replace("norm > clip", "norm > clip + 1"),
    CLIPS.replace("norm > clip", "norm > 2"),
    CLIPS.replace("g * clip / norm", "g * clip / norm / norm"),
    CLIPS.replace("g * clip / norm", "g * norm / clip"),
    CLIPS.replace("g * clip / norm", "g - clip / norm"),
    CLIPS.replace("norm(g)", "norm(g[1:])"),
    CLIPS.replace("norm(g)", "norm(g, 1) / 2"),
    CLIPS + "  # norm later",
    CLIPS + "\nelse:\n    g = 2 * g",
    CLIPS.replace("    g =", "    factor = 2.0\n    g ="),
    "factor = 1.5\n" + CLIPS.replace("g = g * clip", "factor = clip"),
]


def test_a_branch_that_clips_is_one_and_those_that_almost_do_are_not():
    assert prove(branching(CLIPS), **RECORDS).mu == pytest.approx(0.5, rel=1e-12)
    for body in BRANCHES:
        with pytest.raises(NotExplorable):
            prove(branching(body), **RECORDS)


FALSE = [
    the_whole_batch,
    the_whole_batch_where_it_is_too_long,
    one_noise,
    python_division,
    clipping(lambda g: 1 / max(1.0, np.linalg.norm(g[:1]))),  # type: ignore[operator]
    clipping(lambda g: 1 / max(1.0, np.linalg.norm(g, np.inf))),  # type: ignore[operator]
    clipping(lambda g: 1 / max(1.0, np.linalg.norm(g, 3))),  # type: ignore[operator]
    clipping(lambda g: 1 / np.linalg.norm(g)),
    clipping(lambda g: max(1.0, 1 / (np.linalg.norm(g) + 1))),
    clipping(lambda g: min(1.0, 1 / np.linalg.norm(g - 1))),
    clipping(lambda g: np.sin(min(1.0, 1 / np.linalg.norm(g)))),  # type: ignore[call-overload]
    clipping(lambda g: 1 / max(1.0, np.linalg.norm(g)) + 0.1),  # type: ignore[operator]
]


@pytest.mark.parametrize("mechanism", FALSE)
def test_what_is_not_clipped_by_its_own_norm_is_not_proved(mechanism):
    try:
        proof = prove(mechanism, **RECORDS | {"size": 2})
    except NotExplorable:
        return
    assert math.isinf(proof.epsilon)


@pytest.mark.parametrize(
    ("field", "value"),
    [("squared_norm", "4"), ("squared_norm", "-1"), ("numbers", 0), ("count", 2), ("noise", 1), ("low", "0")],
)
def test_a_changed_certificate_is_rejected(field, value):
    certificate = prove(by_hand, **RECORDS).certificate
    assert certificate["steps"] == [{"noise": 0, "squared_norm": "9/4", "numbers": 2, "count": 1}]
    changed = copy.deepcopy(certificate)
    changed["steps"][0][field] = value
    assert check(certificate).verified
    assert not check(changed).verified


def test_laplace_noise_does_not_hide_a_norm():
    certificate = prove(by_hand, **RECORDS).certificate
    certificate["noises"][0]["kind"] = "laplace"
    assert not check(certificate).verified


def test_signs_of_polynomials_are_exact():
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(300):
        terms = {0: Fraction(int(rng.choice([-1, 1, 1])))}
        for root in rng.integers(-6, 7, size=rng.integers(1, 4)):
            factor = {0: -Fraction(int(root), 2), 1: Fraction(1)}
            for _ in range(rng.integers(1, 3)):
                terms = times(terms, factor)
        low = Fraction(int(rng.integers(-8, 3)), 2)
        piece = Piece(low, low + Fraction(int(rng.integers(0, 9)), 3), "[]", terms)
        grid = [low + (piece.high - low) * Fraction(k, 48) for k in range(49)]  # roots are multiples of 1/2
        expected = min(piece.at(x) for x in grid) >= 0
        assert is_never_negative([piece]) == expected
        seen.add(expected)
    assert seen == {True, False}
