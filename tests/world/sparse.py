"""Sparse vectors: the first query above a noisy threshold, and what goes wrong with it.

All scores are unbounded. The probability of an outcome is then a log-concave function of the scores, so its logarithm
changes most, in a given direction h, far out along h: there the change is the least cost (noise divided by its scale,
summed up) of noise that makes the outcome possible for the scores h and the threshold 0.
"""

import math

import numpy as np

from .entry import world

THRESHOLD = 10.0


@world(claim=1.0, adjacency="linf", domain=None, size=5)
def first_above_threshold(rng, data):
    """Releases the index of the first query above a threshold, with noise of scale 2 on it and of scale 4 on queries.

    The standard proof gives 1/2 for the threshold and 2/4 for the query that stops. Let the last query stop, h = 1 for
    the four queries before it and -1 for it. A threshold noise of z in [0, 1] costs z/2 + 4 (1 - z)/4 + (1 + z)/4,
    least at z = 1: 1/2 + 2/4. So 1 is approached.
    """
    threshold = THRESHOLD + rng.laplace(0, 2.0)
    for i, answer in enumerate(data):
        if answer + rng.laplace(0, 4.0) >= threshold:
            return i
    return None


@world(claim=1.0, adjacency="linf", domain=None, size=5, phrasing_of="first_above_threshold")
def first_above_threshold_vectorised(rng, data):
    """Releases the index of the first query above a noisy threshold, or -1; all noise is drawn at once.

    The same comparisons as in the loop: 1.
    """
    above = np.asarray(data) + rng.laplace(0, 4.0, size=len(data)) >= THRESHOLD + rng.laplace(0, 2.0)
    return int(np.argmax(above)) if above.any() else -1


@world(claim=1.0, truth=0.75, adjacency="linf", domain=None, size=3)
def first_of_three_above_threshold(rng, data):
    """Releases the index of the first of three queries above a threshold, noise of scale 2 and 4.

    With h = (1, 1, -1), a threshold noise of z in [0, 1] costs z/2 + 2 (1 - z)/4 + (1 + z)/4, least at z = 0: 3/4.
    With so few queries before, it is cheaper to lower them one by one than to raise the threshold, so the claim of 1
    is loose. If the second or none stops, the same calculation gives at most 2/4.
    """
    noisy_threshold = THRESHOLD + rng.laplace(scale=2 / 1.0)
    for index in range(3):
        if data[index] + rng.laplace(scale=4 / 1.0) >= noisy_threshold:
            return index
    return 3


@world(claim=1.0, adjacency="monotone", domain=None, size=4)
def first_count_above_threshold(rng, data):
    """Releases the index of the first count above a threshold, with noise of scale 2 on both.

    Counts move in one direction, so the query that stops moves by at most 1 against the threshold: 1/2 + 1/2. With h =
    1 for three counts and 0 for the last, z in [0, 1] costs z/2 + 3 (1 - z)/2 + z/2, least at z = 1: 1.
    """
    threshold = THRESHOLD + rng.laplace(0, 2.0)
    noisy = (count + rng.laplace(0, 2.0) for count in data)
    return next((i for i, count in enumerate(noisy) if count > threshold), None)


@world(claim=1.0, adjacency="monotone", domain=None, size=4, phrasing_of="first_count_above_threshold")
def first_count_above_threshold_by_while(rng, data):
    """Releases how many counts came before the first one above a noisy threshold.

    The number of counts before the first one above is its index (or 4): the same truth, 1.
    """
    limit = rng.laplace(THRESHOLD, 2.0)
    i = 0
    while i < len(data) and rng.laplace(data[i], 2.0) <= limit:
        i += 1
    return i


@world(claim=1.0, truth=math.inf, adjacency="linf", domain=None, size=3)
def noise_on_the_threshold_only(rng, data):
    """Releases the index of the first exact query above a noisy threshold.

    With equal queries the second one is never the first above; if it rises by 1 it may be: no ε holds.
    """
    threshold = THRESHOLD + rng.laplace(0, 1.0)
    for i, answer in enumerate(data):
        if answer >= threshold:
            return i
    return None


@world(claim=1.0, truth=1.5, adjacency="linf", domain=None, size=6)
def first_above_with_its_noisy_answer(rng, data):
    """Releases the first query above a noisy threshold, and the very noisy answer that was compared.

    If the last one stops with the answer 0, the threshold is at most 0: it cannot make up for queries that rise. With
    h = 1 for five queries and for the last one, the cost is 5/4 + 1/4, as much as all six noisy answers would cost. So
    1.5.
    """
    threshold = THRESHOLD + rng.laplace(0, 2.0)
    for i, answer in enumerate(data):
        noisy = answer + rng.laplace(0, 4.0)
        if noisy >= threshold:
            return i, noisy
    return None


@world(claim=1.0, truth=2.0, adjacency="linf", domain=None, size=4)
def all_above_threshold(rng, data):
    """Releases for each of four queries whether it is above a noisy threshold, noise of scale 2 on everything.

    Let two be above and two below, h = -1 for the first and 1 for the others. A threshold noise of z costs |z|/2 +
    2 (1 + z)/2 + 2 (1 - z)/2, least at z = 0: 4/2. All four noisy answers would not cost more.
    """
    threshold = THRESHOLD + rng.laplace(0, 2.0)
    return [bool(answer + rng.laplace(0, 2.0) >= threshold) for answer in data]


@world(claim=1.0, truth=1.25, adjacency="linf", domain=None, size=5)
def threshold_drawn_for_every_query(rng, data):
    """Releases the first query above a threshold whose noise is drawn anew for every query.

    Each comparison has noise of scale 2 and 4 of its own, whose sum has tails of e^(-|y|/4), so it costs at most 1/4.
    If the last one stops, all five comparisons were made: 5/4, approached where the first four are far above the
    threshold and the last is far below.
    """
    for i, answer in enumerate(data):
        threshold = THRESHOLD + rng.laplace(0, 2.0)
        if answer + rng.laplace(0, 4.0) >= threshold:
            return i
    return None
