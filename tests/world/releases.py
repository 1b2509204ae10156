"""What people do to a noisy number before they publish it: quotients, powers, rounding, text, consistency."""

import math
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

from .entry import world


@world(claim=1.0, adjacency="l1", domain=None, size=2)
def conversion_rate(rng, data):
    """Releases the quotient of two noisy counts, with noise of scale 1 on each.

    One of the counts moves by at most 1, so the pair costs 1 and the quotient no more. With visits v large, the
    quotient exceeds t/v with a probability that tends to that of clicks + noise > t, so for t beyond both values of
    clicks the ratio tends to e^1 as v grows without bound: the least ε is 1, not attained.
    """
    clicks, visits = data
    return (clicks + rng.laplace(0, 1.0)) / (visits + rng.laplace(0, 1.0))


@world(claim=1.0, truth=math.inf, adjacency="l1", domain=(1.0, 100.0), size=2)
def rate_with_exact_denominator(rng, data):
    """Releases a noisy count divided by the exact number of visits.

    The result is Laplace distributed with scale 1/visits. If the visits change, the scale does, and the ratio of the
    two densities grows without bound in the tails.
    """
    clicks, visits = data
    noisy_clicks = clicks + rng.laplace(0, 1.0)
    return noisy_clicks / visits


@world(claim=0.6, adjacency="l1", domain=(0.0, 50.0), size=1)
def squared_release(rng, data):
    """Releases the square of a noisy number.

    At most 0.6 as a function of the noisy number. For x >= 0 and a result y² with y <= x, the density is proportional
    to e^(-0.6 x) (e^(0.6 y) + e^(-0.6 y)), so x = 1 against x = 2 attains 0.6 at every y < 1.
    """
    (x,) = data
    return (x + rng.laplace(scale=1 / 0.6)) ** 2


@world(claim=0.6, truth=0.6 * (50**2 - 49**2), adjacency="l1", domain=(0.0, 50.0), size=1)
def noisy_square(rng, data):
    """Releases a square with noise for a sensitivity of 1.

    Changing 49 to 50 changes the square by 99, against noise of scale 1/0.6: cost 59.4. Squares of numbers in [0, 50]
    that are at most 1 apart do not differ by more.
    """
    x = data[0]
    return x**2 + rng.laplace(scale=1 / 0.6)


@world(claim=0.5, adjacency="l1", domain=(0.0, 1000.0), size=1)
def log_scale(rng, data):
    """Releases the logarithm of a noisy count, which is raised to 1 if it is smaller.

    The result is 0 if count + noise <= 1, which has probability e^(-0.5 (count - 1))/2 for counts of 1 and more: 1
    against 2 costs 0.5, and the noise (scale 2) allows no more.
    """
    noisy = data[0] + rng.laplace(0.0, 2.0)
    return math.log(max(noisy, 1.0))


@world(claim=0.5, adjacency="l1", domain=(0.0, 1000.0), size=1, phrasing_of="log_scale")
def log_scale_if_else(rng, data):
    """Releases the logarithm of a noisy count, or 0 where it is below 1; the noise is an inverse distribution function.

    u is uniform, so -2 sign(u - 1/2) log(1 - 2 |u - 1/2|) is a Laplace variable of scale 2. As above, 0.5.
    """
    u = rng.random() - 0.5
    noise = -2.0 * math.copysign(1.0, u) * math.log(1 - 2 * abs(u))
    value = data[0] + noise
    if value < 1:
        return 0.0
    return math.log(value)


@world(claim=1.0, adjacency="l1", domain=None, size=2)
def whole_numbers(rng, data):
    """Releases two noisy counts, rounded to whole numbers that are not negative.

    Rounding happens after the noise, so at most 1. For k above both values, the probability of k is the integral of
    e^(-(y - x))/2 over an interval of length 1, so moving x by 1 changes it by exactly e^1.
    """
    return [max(0, round(x + rng.laplace(0, 1))) for x in data]


@world(claim=1.0, truth=2.0, adjacency="l1", domain=None, size=2)
def rounds_first(rng, data):
    """Releases two counts that are rounded before the noise is added.

    Python rounds halves to even numbers: 0.5 becomes 0 but 1.5 becomes 2. So a change by 1 can become a change by 2,
    against noise of scale 1: cost 2. It cannot become 3, as rounding moves a number by at most 1/2 and keeps the
    order.
    """
    return [round(x) + rng.laplace(0, 1) for x in data]


@world(claim=1.0, adjacency="l1", domain=None, size=2)
def floors_first(rng, data):
    """Releases two counts that are rounded down before the noise is added.

    Numbers at most 1 apart have floors at most 1 apart (0 and 1, for instance): noise of scale 1 costs 1.
    """
    return tuple(math.floor(x) + rng.laplace() for x in data)


@world(claim=0.8, adjacency="l1", domain=None, size=1)
def decade(rng, data):
    """Releases the decade of a noisy age: 0, 10, 20 and so on.

    At most 0.8 by the noise of scale 1/0.8. A decade that lies above both ages has probability proportional to e^(0.8
    age), so one year costs exactly 0.8.
    """
    noisy_age = data[0] + rng.laplace(scale=1.25)
    return int(noisy_age // 10) * 10


@world(claim=0.8, adjacency="l1", domain=None, size=1, phrasing_of="decade")
def decade_floor(rng, data):
    """Releases the decade of a noisy age by np.floor.

    The same decades and the same noise as by integer division: 0.8.
    """
    age = np.array(data, dtype=float)
    age += rng.laplace(0.0, 1 / 0.8, size=1)
    return (10 * np.floor(age / 10)).item()


@world(
    claim=0.5,
    truth=math.log(math.cosh(12 * 0.5) / math.cosh(11 * 0.5)),
    adjacency="l1",
    domain=None,
    size=1,
)
def hour_of_day(rng, data):
    """Releases a noisy time modulo 24 hours.

    The wrapped Laplace density at distance t in [0, 24] behind its centre is the sum of e^(-|t + 24 j|/2) over whole
    j, that is proportional to cosh((t - 12)/2). Its logarithm is convex between two copies of the centre, so an hour
    changes it most next to the centre: log(cosh(6)/cosh(5.5)), a little less than the claim of 0.5.
    """
    return (data[0] + rng.laplace(0, 2.0)) % 24


@world(claim=1.0, truth=math.log(math.cosh(0.5)), adjacency="l1", domain=None, size=1)
def fraction_only(rng, data):
    """Releases the fractional part of a noisy number.

    With t in [0, 1] behind the centre, the density is proportional to cosh(t - 1/2): between 1 and cosh(1/2). A change
    by 1/2 moves the centre to the place of least density, so the truth is log cosh(1/2).
    """
    noisy = data[0] + rng.laplace(0, 1.0)
    return noisy - math.floor(noisy)


@world(claim=0.3, adjacency="l1", domain=(0.0, 5000.0), size=2)
def report_line(rng, data):
    """Releases a sentence with two noisy amounts.

    Text with two decimals stands for intervals of width 0.01. An interval above both values has probability
    proportional to e^(0.3 x), so a change by 1 costs exactly 0.3.
    """
    income, spending = (x + rng.laplace(0, 1 / 0.3) for x in data)
    return f"income {income:.2f}, spending {spending:.2f}"


@world(claim=0.3, adjacency="l1", domain=(0.0, 5000.0), size=2, phrasing_of="report_line")
def report_record(rng, data):
    """Releases two noisy amounts, rounded to cents, under their names.

    The same intervals of width 0.01 as in the text: 0.3.
    """
    noisy = np.round(np.asarray(data) + rng.laplace(0, 1 / 0.3, size=2), 2)
    return SimpleNamespace(income=float(noisy[0]), spending=float(noisy[1])).__dict__


@world(claim=1.0, adjacency="l1", domain=(0.0, 100.0), size=3)
def shares(rng, data):
    """Releases shares of noisy counts that are clipped at 0, or equal shares if nothing is left.

    At most 1 by the noise of scale 1. The shares (1, 0, 0) require a positive first count and two that are clipped; a
    count c is clipped with probability e^(-c)/2. Let the third one change from 0 to 1: the ratio is exactly e^1.
    """
    noisy = np.maximum(np.asarray(data) + rng.laplace(0.0, 1.0, len(data)), 0)
    total = noisy.sum()
    if total == 0:
        return np.full(len(data), 1 / len(data))
    return noisy / total


@world(claim=1.0, adjacency="l1", domain=(0.0, 100.0), size=3, phrasing_of="shares")
def shares_in_plain_python(rng, data):
    """Releases shares of noisy counts that are clipped at 0.

    As with NumPy: the outcome (1, 0, 0) tells 0 from 1 in the third count by a factor e^1.
    """
    noisy = [max(count + rng.laplace(0.0, 1.0), 0.0) for count in data]
    total = sum(noisy)
    return [value / total if total > 0 else 1 / 3 for value in noisy]


@world(claim=1.0, truth=math.inf, adjacency="l1", domain=(0.0, 100.0), size=3)
def shares_with_one_noise(rng, data):
    """Releases shares of counts that all got the same noise.

    With noise z the shares are (a + z, b + z, c + z)/(a + b + c + 3 z): a point of the line through (1/3, 1/3, 1/3) in
    the direction of (a, b, c) less its mean. (0, 1, 3) and (0, 2, 3) have different directions, so their lines only
    share a point that is not reached: no ε holds.
    """
    noise = rng.laplace(0.0, 1.0)
    noisy = [count + noise for count in data]
    return [value / sum(noisy) for value in noisy]


@world(claim=1.0, adjacency="l1", domain=(0.0, 20.0), size=1)
def clipped_count(rng, data):
    """Releases a noisy count within its known range.

    The result is 0 with probability e^(-x)/2: x = 0 against x = 1 costs 1, the most that noise of scale 1 allows.
    """
    return float(np.clip(data[0] + rng.laplace(0, 1), 0, 20))


@world(claim=1.0, truth=math.log(2 * math.e - 1), adjacency="l1", domain=(0.0, 20.0), size=1)
def redrawn_count(rng, data):
    """Releases a noisy count that is drawn again until it is not negative.

    The density at y >= 0 is e^(-|y - x|)/(2 Z(x)) with Z(x) = 1 - e^(-x)/2, as the noise is cut where the result would
    be negative. At y = 0, x = 0 against x = 1 gives e Z(1)/Z(0) = e (2 - 1/e) = 2 e - 1. For x against x + d, the
    ratio e^d Z(x + d)/Z(x) is largest at x = 0 and d = 1, and in the other direction Z lowers it.
    """
    while True:
        noisy = data[0] + rng.laplace(0, 1)
        if noisy >= 0:
            return noisy


@world(claim=1.0, truth=math.inf, adjacency="l1", domain=(0.0, 20.0), size=1)
def never_below_the_truth(rng, data):
    """Releases a noisy count, but at least the exact one ("we must not under-report").

    The result equals the exact count with probability 1/2, and any other given number with probability 0: no ε holds.
    """
    exact = data[0]
    return max(exact, exact + rng.laplace(0, 1.0))


TREE = np.array(
    [
        [1, 1, 1, 1],
        [1, 1, 0, 0],
        [0, 0, 1, 1],
        [1, 0, 0, 0],
        [0, 1, 0, 0],
        [0, 0, 1, 0],
        [0, 0, 0, 1],
    ]
)


@world(claim=0.9, adjacency="l1", domain=None, size=4)
def consistent_tree(rng, data):
    """Releases four counts, fitted by least squares to noisy counts of the nodes of a binary tree.

    A leaf is part of three nodes, which have noise of scale 3/0.9: at most 0.9. The fit loses nothing: if the noise n
    has the fit t e for a leaf e, then A'n = t A'A e, hence (A e)·n = t |A e|² = 3 t. The entries of A e are 0 and 1,
    so the noise has an l1 norm of at least 3 t, and the density of the fit decays like e^(-0.3 * 3 t). As its
    logarithm is concave, the steps from t to t + 1 approach a cost of 0.9 (which is not attained).
    """
    nodes = TREE @ np.asarray(data, dtype=float)
    noisy = nodes + rng.laplace(0, 3 / 0.9, size=nodes.shape)
    leaves, *_ = np.linalg.lstsq(TREE, noisy, rcond=None)
    return leaves


@world(claim=0.9, adjacency="l1", domain=None, size=4, phrasing_of="consistent_tree")
def consistent_tree_by_pinv(rng, data):
    """Releases four counts from noisy nodes of a tree, by the pseudo-inverse of its matrix.

    The least squares fit as a product with a constant matrix; the same truth, 0.9.
    """
    scale = TREE.sum(axis=0).max() / 0.9
    noisy = TREE.dot(data) + rng.laplace(scale=scale, size=7)
    return np.linalg.pinv(TREE) @ noisy


@world(claim=0.5, truth=1.5, adjacency="l1", domain=None, size=4)
def tree_of_counts(rng, data):
    """Releases all nodes of a binary tree over four counts, each with the whole budget.

    A leaf moves three nodes by 1, each against noise of scale 1/0.5: 1.5.
    """
    level, nodes = list(data), []
    while level:
        nodes.append([count + rng.laplace(0, 1 / 0.5) for count in level])
        level = [a + b for a, b in zip(level[::2], level[1::2], strict=False)]
    return nodes


@world(claim=1.0, adjacency="linf", domain=None, size=3)
def large_groups(rng, data):
    """Releases the noisy counts of groups that exceed 5, with their names.

    All three counts move by at most 1 against noise of scale 3: at most 1. Where all three results are larger than 5
    and than the counts, the ratio is e^(3/3).
    """
    names = ["young", "middle", "old"]
    noisy = {name: count + rng.laplace(0, 3.0) for name, count in zip(names, data, strict=True)}
    return {name: round(count, 1) for name, count in noisy.items() if count > 5}


@world(claim=1.0, truth=math.inf, adjacency="linf", domain=None, size=3)
def large_groups_by_exact_count(rng, data):
    """Releases the noisy counts of groups whose exact count exceeds 5.

    Whether a name appears is decided without noise: a count of 5 never appears, one of 6 always. No ε holds.
    """
    names = ["young", "middle", "old"]
    return {name: count + rng.laplace(0, 3.0) for name, count in zip(names, data, strict=True) if count > 5}


@dataclass(frozen=True)
class Summary:
    """A published pair of a total and the share of its first part."""

    total: float
    first: float


@world(claim=1.0, adjacency="l1", domain=None, size=2)
def summary(rng, data):
    """Releases a noisy total and a noisy first part.

    The first part moves both by 1, each against noise of scale 2: 1/2 + 1/2.
    """
    total = sum(data) + rng.laplace(0, 2)
    first = data[0] + rng.laplace(0, 2)
    return Summary(total=total, first=first)


@world(claim=1.0, truth=math.inf, adjacency="l1", domain=None, size=2)
def summary_with_reused_noise(rng, data):
    """Releases a total and its first part, both with the same noise.

    Total less first part is the exact second part: no ε holds.
    """
    noise = rng.laplace(0, 2)
    return Summary(total=sum(data) + noise, first=data[0] + noise)


@world(claim=0.5, truth=2.0, adjacency="l1", domain=None, size=1)
def growth_factor(rng, data):
    """Releases e to the power of a noisy logarithm, with the noise scale 0.5 for ε = 0.5.

    The exponential is one to one. A change by 1 against noise of scale 0.5 (the inverse of the right scale) costs 2.
    """
    epsilon = 0.5
    return math.exp((data[0] + rng.laplace(0, epsilon)) / 100)
