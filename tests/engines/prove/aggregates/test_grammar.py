"""Proofs for every number of records: what is proved agrees with closed forms, and code that sees more is refused."""

import copy
import math

import numpy as np
import pytest

import veridp
from veridp.engines.prove.aggregates.proof import AggregateProof
from veridp.engines.prove.replay import spot_check
from veridp.errors import NotInductive
from veridp_check.checker import check

CUTS = (0.2, 0.4, 0.6)


def for_every_size(function, adjacency="replace", domain=(0.0, 1.0), **claim):
    return veridp.prove.prove_for_every_size(
        veridp.mechanism(adjacency=adjacency, domain=domain, size=3, **claim)(function)
    )


# The same sum in the ways that people write it; in the range from 0 to 1 it moves by 1, at scale 2.
def clipped_array(rng, data):
    return np.clip(data, 0, 1).sum() + rng.laplace(scale=2.0)


def added_up(data, rng, *, upper=1.0, epsilon=0.5):
    total = 0.0
    for x in data:
        value = min(max(x, 0.0), upper)
        if value > 0.25:
            total += value
    return f"{total + rng.laplace(0, upper / epsilon):.3f}"


def generated(records):
    total = sum(x for x in records if x > 0.5)
    return max(total + np.random.laplace(scale=2.0), 0.0)  # noqa: NPY002


def masked(rng, data):
    x = np.asarray(data, dtype=float)
    x = np.where(x > 0.9, 0.9, x) + 0.1
    return {"total": x[(x > 0.3) & ~(x > 2.0)].sum() + rng.laplace(scale=2)}


def with_a_spike(rng, data):
    return sum(1.0 if x == 0.25 else 0.0 for x in data) + rng.laplace(scale=2.0)


def counted(rng, data):
    return np.count_nonzero(np.asarray(data) > 0.5) + rng.laplace(scale=2)


# Means of n records, where the scale is a share of 1/n.
def averaged(ages, rng):
    ages = np.clip(np.asarray(ages, dtype=float), 0, 1)
    sensitivity = 1 / len(ages)
    return ages.mean() + rng.laplace(0, sensitivity / 0.5)


def divided(rng, data):
    n = len(data)
    total = 0.0
    for x in data:
        total += x
    return bool(total / n + rng.laplace(scale=2.0 / n) > 0.5)


@pytest.mark.parametrize(
    "function", [clipped_array, added_up, generated, masked, with_a_spike, counted, averaged, divided]
)
def test_one_statistic_is_proved_however_it_is_written(function):
    proof = for_every_size(function)
    assert proof.epsilon == pytest.approx(0.5, abs=1e-12)
    assert check(proof.certificate).verified
    assert proof.certificate["size"] is None


def test_what_is_proved_for_every_size_is_reached_at_small_ones():
    for function, adjacency in ((clipped_array, "add-remove"), (averaged, "replace")):
        mechanism = veridp.mechanism(adjacency=adjacency, domain=(0.0, 1.0), size=2)(function)
        found = veridp.exact.worst(mechanism, max_pairs=6).epsilon
        assert found == pytest.approx(veridp.prove.prove_for_every_size(mechanism).epsilon, abs=1e-9)


def histogram(rng, data):
    counts, _ = np.histogram(data, bins=[0, 0.25, 0.5, 1])
    return counts + rng.laplace(scale=2, size=3)


def histogram_by_hand(rng, data):
    counts = [0, 0, 0]
    for x in data:
        counts[0 if x < 0.25 else 1 if x < 0.5 else 2] += 1
    return [count + rng.laplace(scale=2) for count in counts]


def above_each_cut(rng, data):
    answers = []
    for cut in CUTS:
        answers.append(np.sum(np.asarray(data) > cut) + rng.laplace(scale=2))
    return answers


def first_above(rng, data):
    threshold = 5 + rng.laplace(scale=2)
    for cut in CUTS:
        if sum(x > cut for x in data) + rng.laplace(scale=4) >= threshold:
            return cut
    return None


def two_moments(rng, data):
    n = len(data)
    mean = sum(data) / n + rng.laplace(scale=2 / n)
    square = sum(x * x for x in data) / n + rng.laplace(scale=2 / n)
    return {"mean": mean, "variance": square - mean * mean}


def largest_group(rng, data):
    counts = [sum(1 for x in data if low <= x < low + 0.5) for low in (0, 0.5)]
    return int(np.argmax(np.array(counts) + rng.laplace(scale=2, size=2)))


def cells_of_each_record(rng, data):
    counts = [0, 0, 0]
    for x in data:
        for k in range(3):
            if x < (k + 1) / 3:
                counts[k] += 1
                break
    return [count + rng.laplace(scale=2) for count in counts]


def records_of_each_cell(rng, data):
    released = []
    for k in range(3):
        count = 0
        for x in data:
            if k <= 3 * x < k + 1:
                count += 1
        released.append(count + rng.laplace(scale=2))
    return released


def clipped_at_each_limit(rng, data):
    released = []
    for limit in (0.25, 0.5):
        half = limit / 2
        counts = [0.0, 0.0]
        limit_twice = half * 4
        half = 0.0
        for x in data:
            counts[1 if x > limit else 0] += min(max(x, half), limit_twice)
        released.append(counts[1] + rng.laplace(scale=4))
    return released


@pytest.mark.parametrize(
    ("function", "adjacency", "cost"),
    [
        (histogram, "replace", 1.0),
        (histogram, "add-remove", 0.5),
        (histogram_by_hand, "replace", 1.0),
        (above_each_cut, "add-remove", 1.5),
        (first_above, "add-remove", 1 / 2),  # counts that grow: the threshold follows them, and the answers stay
        (two_moments, "replace", 1.0),
        (largest_group, "replace", 1.0),
        (cells_of_each_record, "replace", 1.0),  # one count less, and another more
        (cells_of_each_record, "add-remove", 0.5),
        (records_of_each_cell, "replace", 1.0),
        (clipped_at_each_limit, "add-remove", 1.5 / 4),  # min(x, 1/2) and min(x, 1)
    ],
)
def test_several_sums_are_proved_together(function, adjacency, cost):
    assert for_every_size(function, adjacency).epsilon == pytest.approx(cost, abs=1e-12)


def variance_at_least_zero(rng, data):
    x = np.asarray(data)
    n = len(x)
    mean = x.mean() + rng.laplace(scale=2 / n)
    square = (x**2).mean() + rng.laplace(scale=2 / n)
    return max(square - mean**2, 0.0)


def test_one_size_is_proved_by_its_sums_where_its_paths_do_not_help():
    """A function of noisy numbers decides, or what sixty records decide are 2^60 paths; 1/2 for each of two means."""
    for size in (2, 60):
        proof = veridp.prove(variance_at_least_zero, size, adjacency="replace", domain=(0.0, 1.0))
        assert proof.epsilon == pytest.approx(1.0, abs=1e-12)
        assert proof.certificate["size"] == size
        assert check(proof.certificate).verified
    many = veridp.prove(generated, 60, adjacency="add-remove", domain=(0.0, 1.0))
    assert many.epsilon == pytest.approx(0.5, abs=1e-12)


def gaussian_mean(rng, data):
    return np.mean(np.clip(data, 0, 1)) + rng.normal(scale=4.0 / len(data))


def test_normal_noise_is_proved_at_the_claimed_delta():
    proof = for_every_size(gaussian_mean, epsilon=1.0, delta=1e-5)
    assert proof.epsilon == pytest.approx(0.926342, abs=1e-6)  # μ = 1/4 by Balle and Wang's formula


def test_an_audit_says_that_its_proof_is_for_every_size():
    verdict = veridp.audit(clipped_array, epsilon=0.5, adjacency="replace", domain=(0, 1), size=2, seconds=120)
    assert (
        verdict.scope
        == "for all neighbours under replace (position by position), of every size, for records from 0 to 1"
    )


# What sees more of the records than sums, or does more with them.
def last_record(rng, data):
    last, total = rng.laplace(), 0.0
    for x in data:
        last = x
        total += x
    return total + last + rng.laplace()


def differences(rng, data, before=0.0):
    total = 0.0
    for x in data:
        total += abs(x - before)
        before = x
    return total + rng.laplace()


def stale_branch(rng, data):
    total = 0.0
    for x in data:
        if x > 0.5:
            kept = x
        total += kept
    return total + rng.laplace()


def aliased(rng, data):
    sums = [0.0]
    other = sums
    for x in data:
        sums[0] += x
    return other[0] + sums[0] + rng.laplace()


def after_the_first_five(rng, data):
    total = 0.0
    late = 0.0
    for x in data:
        if total > 5:
            late += x
        total += x
    return late + rng.laplace()


def joined(rng, data):
    text = ""
    for x in data:
        text += "a" if x > 0.5 else "b"
    return len(text) + rng.laplace()


def exact_when_large(rng, data):
    total = sum(data)
    return total if total > 100 else total + rng.laplace()


def bins_of_the_data(rng, data):
    return np.histogram(data, bins=3)[0] + rng.laplace(scale=2, size=3)


def repeated_list(rng, data):
    return sum(data * 2) + rng.laplace()


def clipped_by_a_record(rng, data):
    return np.clip(data, 0, data[0]).sum() + rng.laplace()


def product_of_records(rng, data):
    return math.prod(data) + rng.laplace()


def exponentials(rng, data):
    return sum(math.exp(x) for x in data) + rng.laplace(scale=2)


def looked_up(rng, data):
    return sum(eval("data")) + rng.laplace()  # noqa: S307


def softmax_of_counts(rng, data):
    counts, _ = np.histogram(data, bins=[0, 0.5, 1])
    weights = np.exp(counts / 2)
    return rng.choice(2, p=weights / weights.sum())


def noise_of_fixed_scale(rng, data):
    return np.mean(data) + rng.laplace(scale=0.2)


def seeded(rng, data):
    rng = np.random.default_rng(0)
    return sum(data) + rng.laplace()


# Arrays whose entries hold no exact sums, which may show past 257 records alone.
def cut_off_towards_zero(rng, data):
    total = np.array([500.0], "i8")
    for x in data:
        total[0] -= x
    return total[0] + rng.laplace()


def starts_anew_after_65536(rng, data):
    count = np.zeros(1, "u2")
    for _ in data:
        count[0] += 1
    return int(count[0]) + rng.laplace()


def even_past_2048(rng, data):
    return np.fabs(np.asarray(data) > 0.5).sum() + rng.laplace()


@pytest.mark.parametrize(
    "function",
    [
        *(last_record, differences, stale_branch, aliased, after_the_first_five, joined, exact_when_large),
        *(bins_of_the_data, repeated_list, exponentials),
        *(cut_off_towards_zero, starts_anew_after_65536, even_past_2048),
        *(clipped_by_a_record, product_of_records, looked_up, softmax_of_counts, noise_of_fixed_scale, seeded),
    ],
)
def test_code_that_sees_more_than_sums_is_refused(function):
    with pytest.raises(NotInductive):
        for_every_size(function, "replace")


# Loops over records within others, of which one step sees what another left.
def added_in_every_step(rng, data):
    released, total = [], 0.0
    for limit in (0.5, 1.0):
        for x in data:
            total += min(x, limit)
        released.append(total + rng.laplace(scale=9))
    return released


def list_of_all_steps(rng, data):
    counts = [0, 0]
    for limit in (0.5, 1.0):
        for x in data:
            counts[0 if x < limit else 1] += 1
    return counts[0] + rng.laplace(scale=9)


def record_of_the_step_before(rng, data):
    released, x = [], 0.0
    for limit in (0.5, 1.0):
        released.append(x)
        total = 0.0
        for x in data:
            total += min(x, limit)
        released.append(total + rng.laplace(scale=9))
    return released


def record_of_the_last_step(rng, data):
    for limit in (0.5, 1.0):
        total = 0.0
        for x in data:
            total += min(x, limit)
    return total + rng.laplace(scale=9), x


def limit_from_the_step_before(rng, data):
    released, limit = [], 1.0
    for _ in (1, 2):
        total = 0.0
        for x in data:
            total += min(x, limit)
        limit = total + rng.laplace(scale=9)
        released.append(limit)
    return released


def limit_of_noise(rng, data):
    released = []
    for limit in (0.5, 1.0):
        most = limit
        if rng.laplace() > 0:
            most = 0.25
        total = 0.0
        for x in data:
            total += min(x, most)
        released.append(total + rng.laplace(scale=9))
    return released


def limits_that_a_step_changes(rng, data):
    released, first = [], 0.1
    for limit in (first, 0.2):
        first = 1.0
        total = 0.0
        for x in data:
            total += min(x, limit)
        released.append(total + rng.laplace(scale=9))
    return released


def value_of_the_record_before(rng, data):
    total, kept = 0.0, 0.0
    for x in data:
        for k in range(2):
            if k == 1:
                total += kept
            kept = x
    return total + rng.laplace(scale=9)


@pytest.mark.parametrize(
    "function",
    [
        *(added_in_every_step, list_of_all_steps, record_of_the_step_before, record_of_the_last_step),
        *(limit_from_the_step_before, limit_of_noise, limits_that_a_step_changes, value_of_the_record_before),
    ],
)
def test_loops_whose_steps_see_each_other_are_refused_by_their_text(function):
    with pytest.raises(NotInductive, match="does not support"):
        for_every_size(function, "add-remove")


def whole_counts_of_two_steps(rng, data):
    counts = np.zeros(2, dtype=int)
    for x in data:
        for k in (0, 1):
            counts[k] += 1 if x > k / 2 else 0
    return counts + rng.laplace(size=2)


def rounded_whichever_way_zero_is(rng, data):
    counts = np.array([0])
    for x in data:
        if x < 1 / 8:
            counts[0] += -1
        else:
            counts[0] += 1 + x / 8
    return counts[0] + rng.laplace()


def test_arrays_of_whole_numbers_add_up_whole_numbers_alone():
    """They cut off towards 0 what is added: 1.1 is 1 more than 0, and 2 more than -2. No two records show that."""
    assert rounded_whichever_way_zero_is(np.random.default_rng(0), [0.0, 0.0, 0.8]) == pytest.approx(
        2 + rounded_whichever_way_zero_is(np.random.default_rng(0), [0.0, 0.0])
    )
    assert for_every_size(whole_counts_of_two_steps, "add-remove").epsilon == pytest.approx(2, abs=1e-12)
    with pytest.raises(NotInductive, match="does not support 'counts"):
        for_every_size(rounded_whichever_way_zero_is, "add-remove")


def test_a_comprehension_may_not_name_its_records_as_a_variable_around_the_function():
    """Constants take the places of variables around it, and took those of the records: this was PROVED at 0."""
    x = 0.0

    def rarely_leaks(rng, data):
        return sum(x for x in data if 0.37 < x < 0.37000001) + x + rng.laplace(scale=1 / 8)

    with pytest.raises(NotInductive, match="a name for two things, x"):
        for_every_size(rarely_leaks)


def short_mean(rng, data):
    return np.mean(data) + rng.laplace(scale=1 / len(data))


def test_constants_around_a_function_are_read():
    upper, scale = 1.0, np.float64(2.0)

    def within(rng, data):
        return np.clip(data, 0, upper).sum() + rng.laplace(scale=2.0)

    def scaled(rng, data):
        return np.clip(data, 0, upper).sum() + rng.laplace(scale=scale)

    assert for_every_size(within).epsilon == pytest.approx(0.5, abs=1e-12)
    with pytest.raises(NotInductive):
        for_every_size(scaled)


def test_a_mean_of_a_private_number_of_records_is_not_proved():
    with pytest.raises(NotInductive):
        for_every_size(short_mean, "add-remove")


def test_certificates_for_every_size_are_told_from_false_ones():
    proof = for_every_size(averaged)
    assert isinstance(proof, AggregateProof)
    assert proof.means
    assert spot_check(check(proof.certificate), proof.mechanism.bound(), 60, seed=1).verified
    assert spot_check(check(proof.certificate), clipped_array, 60, seed=1).rejection is not None  # another program
    sums = for_every_size(clipped_array, "add-remove").certificate
    changes = [
        ("/data", lambda document: document.update(data="means")),  # their number may differ between neighbours
        ("/records", lambda document: document["records"][0].update(constants=["1"])),
        ("/polytopes", lambda document: document["polytopes"][0].update(low=["0"])),
        ("/epsilon", lambda document: document.update(epsilon="1/3")),
    ]
    for place, change in changes:
        document = copy.deepcopy(sums)
        change(document)
        assert not check(document).verified, place
    with_another_noise = copy.deepcopy(proof.certificate)
    with_another_noise["noises"][0] = {"draw": 0, "kind": "geometric", "p": "1/2"}
    assert not check(with_another_noise).verified
    for_all_numbers = {**copy.deepcopy(sums), "domain": None}
    assert not check(for_all_numbers).verified
