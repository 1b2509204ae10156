# ruff: noqa: NPY002
"""Vectors of query answers handled by NumPy: filling, casting, masks, products, prefix sums, tables."""

import math

import numpy as np

from .entry import world


@world(claim=1.5, adjacency="linf", domain=None, size=3)
def filled_in_a_loop(rng, data):
    """Releases three counts, written one by one into an array of zeros.

    All three may move by 1, each against noise of scale 3/1.5: 0.5 each, 1.5 together where all results exceed the
    counts.
    """
    n = len(data)
    out = np.zeros(n)
    for i in range(n):
        out[i] = data[i] + rng.laplace(0.0, n / 1.5)
    return out


@world(claim=1.5, adjacency="linf", domain=None, size=3, phrasing_of="filled_in_a_loop")
def filled_at_once(rng, data):
    """Releases three counts, copied into an empty array that is then made noisy in place.

    Three moves by 1 against noise of scale 2: 1.5.
    """
    out = np.empty(len(data), dtype=np.float64)
    out[:] = data
    out += rng.laplace(scale=out.size / 1.5, size=out.shape)
    return out


@world(claim=1.5, adjacency="linf", domain=None, size=3, phrasing_of="filled_in_a_loop")
def filled_by_comprehension(rng, data):
    """Releases three counts as an array of Python floats, each with the next number of a generator of noise.

    Three moves by 1 against noise of scale 2: 1.5.
    """
    noise = (rng.laplace(scale=2.0) for _ in range(3))
    return np.array([float(x) + float(z) for x, z in zip(data, noise, strict=True)], dtype=float)


@world(claim=0.5, truth=2.0, adjacency="linf", domain=None, size=4)
def histogram_noise_for_four_answers(rng, data):
    """Releases four query answers with the noise of a histogram, as if only one of them could move.

    All four may move by 1, each against noise of scale 1/0.5: 4 * 0.5 = 2.
    """
    answers = np.asarray(data, dtype=np.float64)
    return answers + np.random.laplace(0, 1 / 0.5, answers.shape)


@world(claim=1.0, adjacency="l1", domain=None, size=3)
def whole_counts(rng, data):
    """Releases counts that are cast to integers, with noise of scale 1.

    The cast cuts towards zero, so numbers at most 1 apart become integers at most 1 apart (1 and 2, say): 1.
    """
    counts = np.array(data).astype(int)
    return counts + rng.laplace(0, 1, size=len(counts))


@world(claim=1.0, truth=math.inf, adjacency="l1", domain=(0.0, 30.0), size=3)
def broadcast_noise(rng, data):
    """Releases counts with noise that was drawn without a size.

    One number is added to all three entries, so their differences are exact: no ε holds.
    """
    return np.array(data, dtype=float) + rng.laplace(0, 1.0)


@world(claim=1.0, adjacency="l1", domain=None, size=4)
def positive_answers(rng, data):
    """Releases those noisy answers that are positive.

    At most 1 by the noise of scale 1. Where all four are positive and larger than the answers, a move by 1 costs 1.
    """
    noisy = np.asarray(data) + rng.laplace(0, 1.0, 4)
    return noisy[noisy > 0]


@world(claim=1.0, truth=math.inf, adjacency="l1", domain=None, size=4)
def answers_of_positive_counts(rng, data):
    """Releases the noisy versions of those answers that are positive before the noise.

    The length of the result is the exact number of positive answers: no ε holds.
    """
    counts = np.asarray(data)
    mask = counts > 0
    return counts[mask] + rng.laplace(0, 1.0, mask.sum())


@world(claim=0.8, adjacency="linf", domain=(0.0, 50.0), size=2)
def suppressed(rng, data):
    """Releases two noisy counts, with those below 10 set to 0.

    At most 0.8, as both move by 1 against noise of scale 2/0.8. Both are suppressed with probability e^(-0.4 (a - 10))
    / 2 times e^(-0.4 (b - 10)) / 2 for counts a and b of 10 and more: (10, 10) against (11, 11) costs 0.8.
    """
    noisy = np.add(data, rng.laplace(0.0, 2 / 0.8, size=2))
    return np.where(noisy < 10, 0.0, noisy)


@world(claim=0.8, adjacency="linf", domain=(0.0, 50.0), size=2, phrasing_of="suppressed")
def suppressed_by_product(rng, data):
    """Releases two noisy counts, multiplied by whether they reach 10.

    The same outcomes with the same probabilities as with a mask: 0.8.
    """
    noisy = [x + rng.exponential(2.5) - rng.exponential(2.5) for x in data]
    return np.array([x * (x >= 10) for x in noisy])


@world(claim=0.8, truth=math.inf, adjacency="linf", domain=(0.0, 50.0), size=2)
def suppressed_by_exact_count(rng, data):
    """Releases two noisy counts; those whose exact count is below 10 are 0.

    A count of 9 gives 0 for certain and one of 10 gives 0 with probability 0: no ε holds.
    """
    counts = np.asarray(data, dtype=float)
    noisy = counts + rng.laplace(0.0, 2.5, size=2)
    return np.where(counts < 10, 0.0, noisy)


@world(claim=1.0, adjacency="l1", domain=None, size=4)
def prefix_sums(rng, data):
    """Releases the prefix sums of noisy counts.

    Differences of the prefix sums give back the noisy counts, which cost 1 (one moves by 1 against noise of scale 1).
    """
    return np.cumsum(np.asarray(data) + rng.laplace(scale=1.0, size=len(data)))


@world(claim=1.0, adjacency="l1", domain=None, size=4, phrasing_of="prefix_sums")
def prefix_sums_in_a_loop(rng, data):
    """Releases the prefix sums of noisy counts, added up in a loop.

    One to one with the noisy counts: 1.
    """
    prefix = np.zeros(5)
    for k, count in enumerate(data, start=1):
        prefix[k] = prefix[k - 1] + (count + rng.laplace(0.0, 1.0))
    return prefix[1:]


@world(claim=1.0, adjacency="l1", domain=None, size=4, phrasing_of="prefix_sums")
def prefix_sums_by_matrix(rng, data):
    """Releases the prefix sums of noisy counts, by a lower triangular matrix.

    The matrix is invertible, so the prefix sums tell what the noisy counts tell: 1.
    """
    lower = np.tril(np.ones((4, 4)))
    return lower @ (np.array(data, dtype=float) + rng.laplace(0.0, 1.0, size=4))


@world(claim=1.0, truth=4.0, adjacency="l1", domain=None, size=4)
def noisy_prefix_sums(rng, data):
    """Releases prefix sums with noise of scale 1 on each of them.

    The first count is part of all four sums, so a move by 1 costs 1 four times.
    """
    return np.cumsum(data) + rng.laplace(scale=1.0, size=len(data))


HAAR = np.array([[1, 1, 1, 1], [1, 1, -1, -1], [1, -1, 0, 0], [0, 0, 1, -1]], dtype=float)
RANGES = np.array([[1, 1, 0, 0], [0, 1, 1, 0], [0, 1, 1, 1]], dtype=float)


@world(claim=0.6, adjacency="l1", domain=None, size=4)
def wavelet_counts(rng, data):
    """Releases four counts that are reconstructed from noisy Haar coefficients.

    Every count is part of three coefficients with a weight of 1 or -1, and the noise has scale 3/0.6: 3 * 0.2. The
    transform is invertible, so nothing is lost.
    """
    coefficients = HAAR @ np.asarray(data, dtype=float)
    sensitivity = np.abs(HAAR).sum(axis=0).max()
    noisy = coefficients + rng.laplace(0, sensitivity / 0.6, size=4)
    return np.linalg.solve(HAAR, noisy)


@world(claim=0.6, adjacency="l1", domain=None, size=4, phrasing_of="wavelet_counts")
def wavelet_counts_by_hand(rng, data):
    """Releases four counts from noisy Haar coefficients, without matrices.

    The same invertible transform, with three coefficients per count and noise of scale 5: 0.6.
    """
    a, b, c, d = data
    total, half, left, right = (value + rng.laplace(0, 5.0) for value in (a + b + c + d, a + b - c - d, a - b, c - d))
    first, last = (total + half) / 2, (total - half) / 2
    return np.array([(first + left) / 2, (first - left) / 2, (last + right) / 2, (last - right) / 2])


@world(claim=1.0, truth=0.4, adjacency="l1", domain=None, size=4)
def wavelet_total_of_a_range(rng, data):
    """Releases the sum of the first two counts, from noisy Haar coefficients of scale 5.

    It is (total + half)/2, so its noise is half of a sum of two Laplace variables of scale 5: two of scale 2.5. A sum
    of such variables has a log-concave density with tails of e^(-|y|/2.5), up to a polynomial, so a move by 1 costs at
    most 1/2.5 = 0.4, which is approached in the tail. The third and fourth coefficient do not matter.
    """
    noisy = HAAR.dot(np.asarray(data)) + rng.laplace(0, 5.0, size=4)
    counts = np.linalg.inv(HAAR) @ noisy
    return float(RANGES[0] @ counts)


@world(claim=1.0, truth=1.5, adjacency="l1", domain=None, size=4)
def range_queries(rng, data):
    """Releases three overlapping range queries with noise for two overlaps.

    The second count is part of all three ranges, so it moves them all by 1 against noise of scale 2: 3/2.
    """
    return RANGES @ np.asarray(data, dtype=float) + rng.laplace(0, 2 / 1.0, size=RANGES.shape[0])


WEIGHTS = np.array([0.5, 2.0, -3.0])


@world(claim=0.7, adjacency="l1", domain=None, size=3)
def weighted_sum(rng, data):
    """Releases a weighted sum with noise for its largest weight.

    The third answer moves the sum by 3, against noise of scale 3/0.7: 0.7.
    """
    return np.dot(WEIGHTS, data) + rng.laplace(0, np.max(np.abs(WEIGHTS)) / 0.7)


@world(claim=0.7, truth=0.7 * 5.5 / 3, adjacency="linf", domain=None, size=3)
def weighted_sum_of_answers(rng, data):
    """Releases a weighted sum of answers that may all move, with noise for the largest weight only.

    Moves in the direction of the signs of the weights add up to 0.5 + 2 + 3 = 5.5, against noise of scale 3/0.7.
    """
    scale = max(abs(w) for w in WEIGHTS) / 0.7
    return sum(w * x for w, x in zip(WEIGHTS, data, strict=True)) + rng.laplace(scale=scale)


@world(claim=1.0, adjacency="l1", domain=None, size=3)
def sorted_release(rng, data):
    """Releases noisy counts in increasing order.

    At most 1 by the noise of scale 1. With counts far apart the order tells which is which: orders other than the
    likely one vanish as the distances grow, so the move of one count by 1 approaches a cost of 1.
    """
    noisy = np.array(data, dtype=float) + rng.laplace(0, 1, 3)
    return np.sort(noisy)


@world(claim=1.0, adjacency="l1", domain=None, size=3)
def sorted_first(rng, data):
    """Releases the sorted counts with noise of scale 1.

    Sorting moves no two vectors further apart in the l1 norm, so a move by 1 costs 1 (the largest count grows, say).
    """
    return np.sort(data)[::-1] + rng.laplace(0, 1, len(data))


PUBLIC_INCOMES = np.array([12.0, 19.0, 23.0, 31.0, 38.0, 44.0, 52.0, 61.0, 80.0, 120.0])


@world(claim=1.0, adjacency="replace", domain=(0.0, 200.0), size=4)
def quartile_bins(rng, data):
    """Releases how many incomes fall into the quartiles of an older, public survey.

    Replacing an income moves two counts by 1, each against noise of scale 2: 1.
    """
    edges = np.percentile(PUBLIC_INCOMES, [25, 50, 75])
    bins = np.digitize(data, edges)
    counts = np.bincount(bins, minlength=4)
    return counts + rng.laplace(0, 2.0, size=4)


@world(claim=1.0, adjacency="replace", domain=(0.0, 200.0), size=4, phrasing_of="quartile_bins")
def quartile_bins_by_comparison(rng, data):
    """Releases how many incomes fall into the quartiles of a public survey, by broadcast comparisons.

    The same bins: two counts move by 1 against noise of scale 2: 1.
    """
    q1, q2, q3 = np.percentile(PUBLIC_INCOMES, (25, 50, 75))
    low, high = np.array([-np.inf, q1, q2, q3]), np.array([q1, q2, q3, np.inf])
    income = np.asarray(data, dtype=float).reshape(-1, 1)
    inside = (income >= low) & (income < high)
    return inside.sum(axis=0) + rng.laplace(scale=2.0, size=(4,))


@world(claim=1.0, truth=math.inf, adjacency="replace", domain=(0.0, 200.0), size=4)
def bins_of_the_data(rng, data):
    """Releases the median of the incomes as an edge, and a noisy count of incomes below it.

    The edge is exact and depends on the incomes: no ε holds.
    """
    edge = np.percentile(data, 50)
    return edge, np.sum(np.asarray(data) < edge) + rng.laplace(0, 1.0)


@world(claim=1.0, adjacency="l1", domain=None, size=4)
def marginals(rng, data):
    """Releases the row and column sums of a table of two rows and two columns.

    An entry is part of one row and one column; each sum has noise of scale 2, so a move by 1 costs 1/2 + 1/2.
    """
    table = np.reshape(data, (2, 2))
    rows = table.sum(axis=1) + rng.laplace(0, 2.0, 2)
    columns = table.sum(axis=0) + rng.laplace(0, 2.0, 2)
    return np.concatenate([rows, columns])


@world(claim=1.0, truth=2.0, adjacency="l1", domain=None, size=4)
def marginals_full_budget(rng, data):
    """Releases the row and column sums of a table, both with noise of scale 1.

    An entry is part of one row and one column: 1 + 1.
    """
    table = np.array(data, dtype=float).reshape(2, 2)
    return {
        "rows": table.sum(axis=1) + rng.laplace(0, 1.0, 2),
        "columns": table.sum(axis=0) + rng.laplace(0, 1.0, 2),
    }


@world(claim=1.0, truth=3.0, adjacency="l1", domain=None, size=2)
def mean_of_repeats(rng, data):
    """Releases the mean of three noisy copies of two counts, each with noise of scale 1.

    The noise of a mean is a sum of three Laplace variables of scale 1/3. Its density is log-concave with tails of
    e^(-3|y|), up to a polynomial: a move by 1 costs at most 3, which is approached in the tail.
    """
    copies = np.asarray(data, dtype=float)[:, None] + rng.laplace(0, 1.0, size=(2, 3))
    return copies.mean(axis=1)


@world(claim=1.0, adjacency="l1", domain=None, size=4)
def steps(rng, data):
    """Releases the steps from one count to the next, with noise of scale 2.

    A count in the middle moves one step up and the next one down by 1: 1/2 + 1/2.
    """
    return np.diff(data) + rng.laplace(0, 2.0, size=len(data) - 1)


@world(claim=1.0, truth=2.0, adjacency="l1", domain=None, size=4)
def steps_full_budget(rng, data):
    """Releases the steps from one count to the next, with noise of scale 1.

    A count in the middle moves two steps by 1, each of which costs 1.
    """
    x = np.asarray(data, dtype=float)
    return x[1:] - x[:-1] + np.random.laplace(loc=0.0, scale=1.0, size=3)
