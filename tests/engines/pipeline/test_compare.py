"""Two aligned runs: distances, costs against closed forms, and the faults that they show; right twins show none."""
# ruff: noqa: N803, N806, NPY002, RUF046 - programs as they are written

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from veridp import mechanism, pipeline
from veridp.conversions import gaussian_delta
from veridp.engines.pipeline import Fault, PipelineResult
from veridp.errors import MechanismFailed

SECONDS = 600.0


def compared(program: Callable[..., Any], left: Any, right: Any, **options: Any) -> PipelineResult:
    return pipeline.compare(program, left, right, seconds=SECONDS, **options)


def faults(result: PipelineResult) -> set[str]:
    return {candidate.fault.value for candidate in result.candidates}


def line_of(program: Callable[..., Any], text: str) -> int:
    """The line of this file that holds the text, within the program."""
    first = program.__code__.co_firstlineno
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(number for number in range(first, len(lines)) if text in lines[number - 1])


# ---------------------------------------------------------------------------------------------- programs of strangers


def clipped_sum(data):
    total = sum(min(max(x, 0), 10) for x in data)
    return total + np.random.laplace(0, 20.0)


def histogram(frame):
    counts = frame["city"].value_counts().reindex(["ams", "ber", "cph"], fill_value=0)
    return (counts + np.random.laplace(0, 1.0, size=3)).to_dict()


class NoisyRidge:
    """In the manner of scikit-learn."""

    def __init__(self, scale=4.0):
        self.scale = scale

    def fit(self, X, y):
        X, y = np.clip(X, -1, 1), np.clip(y, -1, 1)
        gram = X.T @ X + np.random.normal(0, self.scale, size=(2, 2))
        moments = X.T @ y + np.random.normal(0, self.scale, size=2)
        self.coef_ = np.linalg.solve(gram + 50 * np.eye(2), moments)
        return self


def fitted(frame):
    return NoisyRidge().fit(frame[["a", "b"]].to_numpy(), frame["y"].to_numpy()).coef_


def by_inversion(data):
    u = random.random() - 0.5
    return sum(data) - 2.0 * math.copysign(1, u) * math.log(1 - 2 * abs(u))


def adaptive(rng, data):
    """The second release looks at the data above the first one, which is released."""
    middle = round(float(np.mean([min(max(x, 0), 10) for x in data])) + rng.laplace(scale=5.0), 6)
    above = sum(x > middle for x in data)
    return middle, above + rng.laplace(scale=2.0)


def noisy_max(rng, scores):
    return int(np.argmax(np.asarray(scores) + rng.laplace(scale=2.0, size=len(scores))))


def above_threshold(rng, queries):
    threshold = 2 + rng.laplace(scale=2.0)
    for place, query in enumerate(queries):
        if query + rng.laplace(scale=4.0) >= threshold:
            return place
    return None


def coin(rng, bit):
    return bool(rng.random() < (0.75 if bit else 0.25))


def chosen(rng, scores):
    weights = np.exp(np.asarray(scores) / 2)
    return int(rng.choice(len(scores), p=weights / weights.sum()))


def counted(data):
    return int(round(len(data) + np.random.laplace(0, 1.0)))


def descent(rng, data):
    """Four steps of gradient descent with clipped gradients and normal noise."""
    rows = np.array([[x, 1.0] for x in data])
    weights = np.zeros(2)
    for _ in range(4):
        gradients = (rows @ weights - 2 * rows[:, 0])[:, None] * rows
        gradients = gradients / np.maximum(1, np.linalg.norm(gradients, axis=1, keepdims=True))
        weights = weights - 0.01 * (gradients.sum(axis=0) + rng.normal(0, 2.0, size=2))
    return weights


def subsampled(rng, data):
    kept = [x for x in rng.permutation(np.array(data)) if rng.random() < 0.5]
    return sum(min(max(x, 0), 1) for x in kept) + rng.laplace(scale=1.0)


def box_muller(data):
    first, second = random.random(), random.random()
    return min(sum(data), 5) + 5 * math.sqrt(-2 * math.log(1 - first)) * math.cos(2 * math.pi * second)


def written(rng, data):
    return f"about {sum(min(max(x, 0), 1) for x in data) + rng.laplace(scale=1.0):.1f}"


CITIES = pd.DataFrame({"city": ["ams", "ber", "ams"]})
MORE = pd.DataFrame({"city": ["ams", "ber", "ams", "cph"]})
POINTS = pd.DataFrame({"a": [0.1, 0.5], "b": [0.3, -0.2], "y": [0.5, 0.6]})
FARTHER = pd.DataFrame({"a": [0.1, 0.5, 1.0], "b": [0.3, -0.2, -1.0], "y": [0.5, 0.6, 1.0]})


@pytest.mark.parametrize(
    ("program", "left", "right", "epsilon"),
    [
        (clipped_sum, [3, 4], [3, 4, 25], 10 / 20),
        (histogram, CITIES, MORE, 1.0),
        (by_inversion, [1.0], [2.0], 1 / 2),
        (adaptive, [4.0, 6.0], [4.0, 7.0], 0.5 / 5 + 1 / 2),  # in this run, the released middle is between 6 and 7
        (noisy_max, [0, 1, 2], [1, 1, 2], 1 / 2),
        (above_threshold, [1, 1, 1], [2, 2, 2], 3 / 4),  # every noisy query is kept; to move the threshold is cheaper
        (coin, 0, 1, math.log(3)),
        (chosen, [0.0, 1.0], [1.0, 0.0], None),
        (counted, [1, 2], [1, 2, 3], 1.0),
    ],
)
def test_right_programs_are_aligned_and_cost_what_theory_says(
    program: Callable[..., Any], left: Any, right: Any, epsilon: float | None
) -> None:
    result = compared(program, left, right)
    assert result.aligned, result
    assert result.candidates == ()
    if epsilon is None:  # the largest ratio of two probabilities of the exponential mechanism
        p = 1 / (1 + math.exp(-0.5))
        epsilon = math.log(p / (1 - p))
    if program is above_threshold or program is noisy_max:
        assert not result.tight  # an upper bound: decisions may be kept for less
    assert result.epsilon == pytest.approx(epsilon, rel=1e-4)


def test_normal_noise_is_composed_as_the_closed_form_says() -> None:
    result = compared(fitted, POINTS, FARTHER)
    assert result.aligned
    assert result.candidates == ()
    # the added point (1, -1) with y = 1 moves four entries of the Gram matrix and two moments, each by one
    mu = math.sqrt(6) / 4
    assert [release.l2 for release in result.releases] == pytest.approx([2.0, math.sqrt(2)], rel=1e-6)
    assert result.rho == pytest.approx(mu**2 / 2, rel=1e-6)
    for delta in (1e-3, 1e-6):
        assert gaussian_delta(result.epsilon_at(delta), mu) == pytest.approx(delta, rel=1e-3)


def test_steps_that_depend_on_released_values_are_followed() -> None:
    result = compared(descent, [3.0, 4.0, 5.0], [3.0, 4.0, 5.0, 6.0])
    assert result.aligned
    assert result.candidates == ()
    # the added record has a clipped gradient of norm 1 in each of four steps: μ² = 4 · (1/2)²
    assert result.rho == pytest.approx(0.5, rel=1e-6)


@pytest.mark.parametrize("program", [subsampled, box_muller, written])
def test_right_programs_have_no_candidate_even_where_their_cost_is_not_known(program: Callable[..., Any]) -> None:
    for left, right in (([1.0, 0.0, 1.0], [1.0, 0.0, 1.0, 1.0]), ([1.0, 1.0], [1.0, 0.0])):
        for seed in range(3):
            result = compared(program, left, right, seed=seed)
            assert result.candidates == ()
            assert result.aligned or result.lost
            assert math.isfinite(result.epsilon) or result.lost


def test_many_draws_are_told_apart_by_two_runs() -> None:
    def released(rng, data):
        return np.arange(300) * 0.01 * data[0] + rng.normal(0, 3.0, size=300)

    result = compared(released, [1.0], [2.0])
    assert result.aligned
    assert result.rho == pytest.approx(((np.arange(300) * 0.01) ** 2).sum() / 9 / 2, rel=1e-6)
    assert result.runs < 16


# ------------------------------------------------------------------------------------------------------------- faults


def data_dependent_bounds(data):
    low, high = min(data), max(data)
    return sum(data) / 4 + np.random.laplace(0, (high - low) / 4)


def wrong_sensitivity(data, epsilon=1.0):
    return sum(min(max(x, 0), 10) for x in data) + np.random.laplace(0, 1 / epsilon)


def nan_evades(data):
    x = np.asarray(data, dtype=float)
    x[x > 10] = 10
    x[x < 0] = 0
    return float(x.sum() + np.random.laplace(0, 20.0))


def data_decide(rng, data):
    if sum(data) > 3:
        return sum(data) + rng.laplace(scale=1.0)
    return rng.normal(0, 1.0)


def noise_per_group(frame):
    counts = frame.groupby("city").size()
    return counts + np.random.default_rng().laplace(0, 1.0, size=len(counts))


def size_in_the_clear(rng, data):
    return {"n": len(data), "total": min(sum(data), 9) + rng.laplace(scale=9.0)}


def each_flipped(rng, data):
    return [bool(x) if rng.random() < 0.75 else not x for x in data]


def one_noise_for_two(rng, data):
    noise = rng.laplace(scale=30.0)
    return [sum(data) + noise, len(data) + noise]


def always_seeded(data):
    rng = np.random.default_rng(42)
    return sum(data) + rng.laplace(scale=1.0)


def seeded_by_a_sequence(data):
    rng = np.random.default_rng(np.random.SeedSequence(5))
    return sum(data) + rng.laplace(scale=1.0)


def one_sided(rng, data):
    return sum(data) + rng.exponential(scale=5.0)


def fails_on_some(rng, data):
    if 7 in data:
        raise ValueError("seven")
    return sum(data) + rng.laplace(scale=5.0)


@pytest.mark.parametrize(
    ("program", "left", "right", "fault", "line"),
    [
        (data_dependent_bounds, [1, 2, 3, 4], [1, 2, 3, 9], Fault.PARAMETERS, "np.random"),
        (wrong_sensitivity, [3, 4], [3, 4, 25], Fault.COST, "np.random"),
        (nan_evades, [3, 4], [3, math.nan], Fault.UNNOISED, "return"),
        (data_decide, [1, 1], [1, 1, 4], Fault.CONTROL, "if sum"),
        (data_decide, [1, 1], [1, 1, 4], Fault.DRAWS, "rng.normal"),
        (noise_per_group, CITIES, MORE, Fault.DRAWS, "laplace"),
        (size_in_the_clear, [1], [1, 2], Fault.UNNOISED, "return"),
        (each_flipped, [1, 0], [1, 0, 1], Fault.UNNOISED, "return"),
        (one_noise_for_two, [1], [1, 3], Fault.REUSED, "rng.laplace"),
        (always_seeded, [1], [2], Fault.SEED, "default_rng"),
        (seeded_by_a_sequence, [1], [2], Fault.SEED, "default_rng"),
        (one_sided, [1], [2], Fault.SUPPORT, "rng.exponential"),
        (fails_on_some, [1, 2], [1, 7], Fault.CONTROL, "raise"),
    ],
)
def test_faults_are_found_on_their_line(
    program: Callable[..., Any], left: Any, right: Any, fault: Fault, line: str
) -> None:
    result = compared(program, left, right)
    found = [candidate for candidate in result.candidates if candidate.fault is fault]
    assert found, result
    assert (found[0].file, found[0].line) == (__file__, line_of(program, line))


def test_a_claim_is_what_the_cost_is_compared_with() -> None:
    for epsilon, expected in ((1.0, {"cost"}), (10.0, set())):
        program = mechanism(epsilon=epsilon)(lambda rng, data: sum(data) + rng.laplace(scale=1.0))
        assert faults(compared(program, [0], [10])) == expected  # the cost is 10: equal to the claim, or above it


def test_normal_noise_keeps_no_claim_without_delta() -> None:
    for delta, expected in ((None, {"cost"}), (1e-5, set())):
        program = mechanism(epsilon=1.0, delta=delta)(lambda rng, data: sum(data) + rng.normal(scale=5.0))
        assert faults(compared(program, [0], [1])) == expected


def test_a_program_that_only_raises_is_an_error() -> None:
    with pytest.raises(MechanismFailed, match=r"test_compare.py:\d+: .* raises TypeError"):
        compared(lambda rng, data: data + rng.laplace(), [1], [2])


def test_a_program_of_several_files_is_followed_to_the_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "noise_of_ours.py").write_text(
        "import numpy as np\n\nsource = np.random.default_rng()\n\n\ndef noisy(value, scale):\n"
        "    return value + source.laplace(0, scale)\n"
    )
    (tmp_path / "report_of_ours.py").write_text(
        "from noise_of_ours import noisy\n\n\nclass Report:\n    def __init__(self, data):\n"
        "        self.data = data\n\n"
        "    def totals(self):\n        wide = max(self.data) - min(self.data)\n"
        "        return [noisy(sum(self.data), wide), noisy(len(self.data), 1.0)]\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    import report_of_ours  # type: ignore[import-not-found]

    try:
        result = compared(lambda data: report_of_ours.Report(data).totals(), [1, 2], [1, 2, 9])
    finally:
        for name in ("report_of_ours", "noise_of_ours"):
            sys.modules.pop(name)
    (candidate,) = result.candidates
    assert candidate.fault is Fault.PARAMETERS
    assert (Path(candidate.file).name, candidate.line) == ("noise_of_ours.py", 7)


# ------------------------------------------------------------------------------------------------------- out of sight


def test_noise_that_is_lost_is_said_and_is_no_fault() -> None:
    def decides_out_of_sight(rng, data):
        noisy = float(sum(data) + rng.laplace(scale=3.0))  # a plain number again
        return "many" if math.floor(noisy) > 5 else "few"

    for seed in range(6):
        result = compared(decides_out_of_sight, [5.0], [6.0], seed=seed)
        assert result.candidates == ()
        assert result.aligned or result.lost

    def not_modelled(rng, data):
        return sum(data) + rng.noncentral_chisquare(2.0, 1.0)

    result = compared(not_modelled, [1], [2])
    assert result.candidates == ()
    assert "noncentral_chisquare" in str(result.lost[0])


def test_randomness_that_cannot_be_adopted_is_said() -> None:
    import os

    def own(data):
        with open("/dev/urandom", "rb") as source:
            return sum(data) + source.read(1)[0]

    if not os.path.exists("/dev/urandom"):
        pytest.skip("no /dev/urandom")
    result = compared(own, [1], [2])
    assert result.candidates == ()
    assert any("out of sight" in str(remark) for remark in result.lost)


def test_the_program_runs_on_genuine_numbers_in_the_end() -> None:
    """A program that treats marked numbers in another way is run without marks, and says so."""

    def suspicious(rng, data):
        noisy = sum(data) + rng.laplace(scale=2.0)
        return noisy if type(noisy) is float else -1.0

    result = compared(suspicious, [1], [2])
    assert result.aligned
    assert result.epsilon == pytest.approx(0.5)
    assert "marked numbers" in str(result.lost[0])


def test_the_inputs_and_the_generators_of_the_user_are_left_alone() -> None:
    np.random.seed(7)
    before = np.random.get_state()[1].copy()  # type: ignore[index]
    data = [3, 1]

    def sorts(data):
        data.sort()
        return sum(data) + np.random.laplace(0, 1.0)

    compared(sorts, data, [3, 2])
    assert data == [3, 1]
    assert (np.random.get_state()[1] == before).all()  # type: ignore[index]


# ----------------------------------------------------------------------------------------- noise that is easy to miss


def inverted(data, scale):
    """Laplace noise by inversion, as many write it."""
    u = random.random() - 0.5
    return sum(data) - scale * math.copysign(1, u) * math.log(1 - 2 * abs(u))


def test_a_scale_inside_home_made_noise_is_seen() -> None:
    result = compared(lambda data: inverted(data, 6 / len(data)), [1, 1], [1, 1, 1])
    assert faults(result) == {"parameters"}
    assert result.candidates[0].line == line_of(inverted, "random.random")
    for after in (lambda value: value, math.exp):  # what becomes of the value afterwards is no matter
        right = compared(lambda data, after=after: after(inverted(data, 3) / 10), [1, 1], [1, 1, 1])
        assert faults(right) == set()
        assert right.epsilon == pytest.approx(1 / 3, rel=1e-4)


def test_noise_that_the_data_multiply_is_a_candidate() -> None:
    def stretched(rng, data):
        return sum(data) + float(len(data)) * rng.laplace()

    def averaged(rng, data):
        return (sum(data) + rng.normal(scale=2.0)) / len(data)

    for program in (stretched, averaged):
        result = compared(program, [1, 2], [1, 2, 0])
        assert faults(result) == {"parameters"}
        assert not result.priced
        assert result.candidates[0].line == line_of(program, "rng.")
    sentence = compared(stretched, [1, 2], [1, 2, 0]).candidates[0].sentence
    assert sentence == "the noise depends on the data: it is multiplied by 2 on the left, by 3 on the right"
    assert compared(stretched, [1, 2], [1, 3]).epsilon == pytest.approx(1 / 2)
    assert compared(averaged, [1, 2], [1, 3]).rho == pytest.approx(1 / 8)


def test_noise_is_not_multiplied_where_what_is_released_is_or_where_other_noise_hides_it() -> None:
    def ratio(rng, data):
        count = max(len(data) + rng.laplace(), 1.0)
        return (sum(data) + rng.laplace(scale=5.0)) / count

    def hidden(rng, data):
        return len(data) * rng.laplace() + rng.laplace(scale=5.0)

    def mirrored(rng, data):
        return (-1) ** len(data) * rng.laplace()

    def bent(rng, data):
        noisy = len(data) + rng.laplace()
        return noisy**3, noisy if noisy > 2 else 2 * noisy

    def lognormal(rng, data):  # not private at all, but not by being multiplied
        return len(data) + math.exp(rng.normal())

    sides: tuple[list[int], list[int]] = [], [1]
    for program in (ratio, hidden, mirrored, bent, lognormal):
        for left, right in (sides, sides[::-1]):
            assert faults(compared(program, left, right)) == set()


def test_uniform_noise_that_leaves_its_support_has_no_known_cost() -> None:
    def blurred(rng, data):
        return sum(data) + rng.uniform(-2, 2)

    for left, right in (([1], [2]), ([2], [1]), ([1], [1.001])):
        result = compared(blurred, left, right)
        assert not result.priced
        assert result.lost[0].line == line_of(blurred, "rng.uniform")


def test_noise_that_decides_out_of_sight_has_no_known_cost() -> None:
    def chosen(rng, data):
        return int(np.searchsorted([sum(data) / 10], float(rng.random())))

    def unused(rng, data):
        rng.gumbel()
        return sum(data) + rng.laplace(scale=2.0)

    assert not compared(chosen, [1], [2]).priced
    assert compared(unused, [1], [2]).epsilon == pytest.approx(0.5)


def test_other_ways_through_the_program_are_compared_too() -> None:
    def first_above(rng, data):
        for place, value in enumerate(data):
            if value + rng.laplace(scale=4.0) >= 2:
                return place, value
        return -1, 0

    for seed in range(3):
        assert faults(compared(first_above, [2, 0], [3, 0], seed=seed)) == {"unnoised"}


def test_a_claim_may_be_given_with_the_call() -> None:
    assert faults(compared(lambda rng, data: sum(data) + rng.laplace(), [0], [10], epsilon=1.0)) == {"cost"}


def test_a_uniform_draw_stays_off_the_ends_of_its_interval() -> None:
    def symmetric(data):
        u = random.uniform(-0.5, 0.5)
        return sum(data) - 0.5 * np.sign(u) * math.log(1 - 2 * abs(u))

    for seed in range(4):
        result = compared(symmetric, [1], [], seed=seed)
        assert result.aligned
        assert result.epsilon == pytest.approx(2.0, rel=1e-4)


# ---------------------------------------------------------------------------------------------- decisions about noise


def below_threshold(rng, data):
    return bool(len(data) >= 2 + rng.laplace(scale=2.0))


def below_released_threshold(rng, data):
    threshold = 2 + rng.laplace(scale=2.0)
    return bool(len(data) >= threshold), threshold


def test_a_decision_about_a_noisy_threshold_is_paid_for() -> None:
    for seed in range(4):
        result = compared(below_threshold, [1], [1, 1], seed=seed)
        assert faults(result) == set()
        assert result.epsilon == pytest.approx(0.5)


def test_a_threshold_that_is_released_as_well_hides_nothing() -> None:
    for seed in range(4):
        result = compared(below_released_threshold, [1], [1, 1], seed=seed)
        assert faults(result) == {"control flow"}
        assert {one.line for one in result.candidates} == {line_of(below_released_threshold, "return")}
    assert faults(compared(below_released_threshold, [1, 1], [1, 1])) == set()


def test_coins_that_fall_alike_in_a_few_runs_are_no_fault() -> None:
    def responses(data):
        return [bit if random.random() < 0.9 else 1 - bit for bit in data]

    for seed in range(6):
        assert faults(compared(responses, [0, 1], [0, 0], seed=seed)) == set()
