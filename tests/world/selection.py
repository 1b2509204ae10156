"""Selection by scores: exponential mechanism, noisy maxima, permute-and-flip, sparse vectors, votes."""

import bisect
import itertools
import math
import random
from collections import Counter

import numpy as np

from .entry import world


@world(claim=1.0, adjacency="linf", domain=None, size=3)
def best_option(rng, data):
    """Releases an option, drawn with probabilities proportional to exp(score/2).

    If the chosen score falls by 1 and all others rise by 1, its weight falls by e^(1/2) and the others' weights rise
    by e^(1/2). The more likely the others are, the closer the total comes to e^1, which is never exceeded: 1, not
    attained.
    """
    scores = np.asarray(data, dtype=float)
    weights = np.exp((scores - scores.max()) / 2)
    return int(rng.choice(len(scores), p=weights / weights.sum()))


@world(claim=1.0, adjacency="linf", domain=None, size=3, phrasing_of="best_option")
def best_option_by_choices(rng, data):
    """Releases an option by random.choices with weights exp(score/2), relative to the best score.

    The same probabilities as a softmax of half of the scores: 1.
    """
    top = max(data)
    weights = [math.exp(0.5 * (score - top)) for score in data]
    return random.choices(range(len(data)), weights=weights)[0]


@world(claim=1.0, adjacency="linf", domain=None, size=3, phrasing_of="best_option")
def best_option_by_gumbel(rng, data):
    """Releases the option whose half score plus Gumbel noise is largest.

    The maximum of scores with Gumbel noise is distributed like the softmax of the scores: 1.
    """
    return np.argmax(np.asarray(data) / 2 + rng.gumbel(size=len(data)))


@world(claim=1.0, adjacency="linf", domain=None, size=3, phrasing_of="best_option")
def best_option_by_cumulative_weights(rng, data):
    """Releases an option by a search for a uniform number among the cumulative weights exp(score/2).

    The same probabilities as a softmax of half of the scores: 1.
    """
    top = max(data)
    cumulative = list(itertools.accumulate(math.exp((score - top) / 2) for score in data))
    return bisect.bisect_right(cumulative, rng.random() * cumulative[-1])


@world(claim=1.0, truth=2.0, adjacency="linf", domain=None, size=3)
def best_option_without_the_half(rng, data):
    """Releases an option, drawn with probabilities proportional to exp(score).

    The chosen score may fall while the others rise: e^1 from the weight and up to e^1 from the normaliser, so 2.
    """
    scores = np.array(data, dtype=float)
    p = np.exp(scores - np.max(scores))
    p /= p.sum()
    return rng.choice(np.arange(scores.size), p=p)


class ExponentialMechanism:
    """Selection with weights exp(ε score / (2 Δ)), or exp(ε score / Δ) for scores that only move together."""

    def __init__(self, epsilon, sensitivity=1.0, monotonic=False):
        self.factor = epsilon / sensitivity if monotonic else epsilon / (2 * sensitivity)

    def probabilities(self, scores):
        """The normalised weights."""
        shifted = self.factor * (np.asarray(scores, dtype=float) - max(scores))
        weights = np.exp(shifted)
        return weights / weights.sum()

    def select(self, rng, scores):
        """An index, at random."""
        return rng.choice(len(scores), p=self.probabilities(scores))


@world(claim=0.8, adjacency="monotone", domain=None, size=4)
def monotonic_selection(rng, data):
    """Releases an option by the exponential mechanism for monotonic scores, with weights exp(0.8 score).

    If all scores rise by between 0 and 1, the chosen weight and the normaliser both grow by between 1 and e^0.8, so the
    quotient changes by at most e^0.8. The chosen score rises alone and its probability tends to 0: approached.
    """
    return ExponentialMechanism(epsilon=0.8, monotonic=True).select(rng, data)


@world(claim=0.8, truth=0.4, adjacency="monotone", domain=None, size=4)
def general_selection_of_monotonic_scores(rng, data):
    """Releases an option by the general exponential mechanism, although the scores only move together.

    The weights are exp(0.4 score). Scores move in one direction, so the weight and the normaliser never move against
    each other and the truth is 0.4, half of the claim.
    """
    return ExponentialMechanism(epsilon=0.8).select(rng, data)


@world(claim=0.8, adjacency="l1", domain=None, size=4)
def selection_with_one_moving_score(rng, data):
    """Releases an option with weights exp(0.8 score), where only one score moves.

    If it is the chosen one, its weight changes by e^0.8 and the normaliser in the same direction; if not, the
    normaliser changes by at most e^0.8. Both limits are approached as probabilities tend to 0 or 1.
    """
    mechanism = ExponentialMechanism(epsilon=0.8, monotonic=True)
    p = mechanism.probabilities(data)
    return int(np.searchsorted(np.cumsum(p)[:-1], rng.random(), side="right"))


@world(claim=1.0, adjacency="linf", domain=None, size=3)
def permute_and_flip(rng, data):
    """Releases an option by flipping a coin for each in random order, which shows heads with exp((score - best)/2).

    This has the distribution of the maximum of scores with exponential noise of scale 2. An option that is t behind
    all others, which have equal scores, wins with probability e^(-t/2) times a constant; t moves by 2 at most: e^1,
    attained. No move costs more, as the noise of the winner can make up for a move by 2 at a cost of 2/2.
    """
    best = max(data)
    for i in rng.permutation(len(data)):
        if rng.random() < math.exp((data[i] - best) / 2):
            return int(i)
    return None


@world(claim=1.0, adjacency="linf", domain=None, size=3, phrasing_of="permute_and_flip")
def noisy_max_exponential(rng, data):
    """Releases the option whose score with exponential noise of scale 2 is largest.

    The winner's noise must exceed a bound; raising the bound by 2 costs e^(2/2), no more, and exactly that if the
    option is behind: 1.
    """
    noisy = [score + rng.exponential(2.0) for score in data]
    return noisy.index(max(noisy))


@world(claim=1.0, adjacency="linf", domain=None, size=4)
def noisy_max(rng, data):
    """Releases the option whose score with Laplace noise of scale 2 is largest.

    Given the others' noise, the winner's noise must exceed a bound that moves by 2 at most: e^(2/2). An option that is
    far behind wins because of its own noise, so its probability decays like e^(-t/2) with the distance t, up to a
    polynomial: approached as t grows.
    """
    noisy = np.asarray(data) + rng.laplace(0, 2.0, size=len(data))
    return int(noisy.argmax())


@world(claim=1.0, adjacency="linf", domain=None, size=4, phrasing_of="noisy_max")
def noisy_max_in_a_loop(rng, data):
    """Releases the option whose score with Laplace noise of scale 2 is largest, found in a loop.

    The same as with argmax: 1.
    """
    best, winner = -math.inf, -1
    for i, score in enumerate(data):
        value = score + rng.laplace(0, 2.0)
        if value > best:
            best, winner = value, i
    return winner


@world(claim=1.0, truth=2.0, adjacency="linf", domain=None, size=4)
def noisy_max_with_half_the_noise(rng, data):
    """Releases the option whose score with Laplace noise of scale 1 is largest.

    The distance between the winner and the others moves by up to 2: 2/1, approached for an option far behind. (Noise of
    scale 1 is enough for counts that only grow.)
    """
    _, winner = max((score + rng.laplace(0, 1.0), i) for i, score in enumerate(data))
    return winner


@world(claim=1.0, adjacency="monotone", domain=None, size=4)
def most_common_by_noisy_counts(rng, data):
    """Releases which of four counts is largest after noise of scale 1; one person may add 1 to any of them.

    All counts move in one direction by at most 1, so the distance between two of them does too: 1/1, approached for an
    option far behind.
    """
    return np.argmax([count + rng.laplace(0, 1.0) for count in data])


@world(claim=1.0, truth=1.5, adjacency="linf", domain=None, size=3)
def noisy_max_with_its_value(rng, data):
    """Releases the winner of a noisy maximum together with the noisy score that won; noise of scale 2.

    If all scores are equal and the result y is below them, the density is e^(-(x - y)/2) for the winner, times as much
    for each of the two others, which must be below y: e^(-3 (x - y)/2). All scores may move by 1: 3/2, and no function
    of three noisy scores costs more.
    """
    noisy = np.asarray(data) + rng.laplace(0, 2.0, size=3)
    winner = np.argmax(noisy)
    return winner, noisy[winner]


@world(claim=1.0, adjacency="linf", domain=None, size=3)
def noisy_max_then_its_value(rng, data):
    """Releases the winner of a noisy maximum, and its score with fresh noise; half of the budget for each.

    The maximum with exponential noise of scale 4 costs 2/4, the score with Laplace noise of scale 2 costs 1/2. An
    option behind two equal ones falls by 1 while these rise by 1, and the released score is larger than both: 1/2 +
    1/2.
    """
    winner = int(np.argmax(data + rng.exponential(4.0, size=3)))
    return winner, data[winner] + rng.laplace(0, 2.0)


@world(claim=1.0, truth=math.inf, adjacency="linf", domain=None, size=3)
def noisy_max_with_bounded_noise(rng, data):
    """Releases the option whose score with uniform noise in [-2, 2] is largest.

    An option that is 4 or more behind never wins, and one that is 3 behind may: no ε holds.
    """
    noisy = [score + rng.uniform(-2.0, 2.0) for score in data]
    return noisy.index(max(noisy))


@world(claim=1.0, truth=math.inf, adjacency="linf", domain=None, size=3)
def clear_winner_first(rng, data):
    """Releases the best option as it is if it leads by more than 5, and a softmax sample otherwise.

    With a lead of 5 every option has a positive probability; with more only one has: no ε holds.
    """
    scores = np.asarray(data, dtype=float)
    second, first = np.sort(scores)[-2:]
    if first - second > 5:
        return int(np.argmax(scores))
    p = np.exp((scores - first) / 2)
    return int(rng.choice(3, p=p / p.sum()))


@world(claim=1.0, adjacency="linf", domain=None, size=4)
def top_two(rng, data):
    """Releases the two options with the largest scores after Gumbel noise, in their order.

    A quarter of the scores with Gumbel noise: like two draws without replacement with weights exp(score/4), each of
    which costs at most 2/4. Both chosen scores fall by 1 and the two others, far ahead, rise by 1: both limits are
    approached.
    """
    noisy = np.asarray(data) / 4 + rng.gumbel(size=len(data))
    return np.argsort(-noisy)[:2].tolist()


@world(claim=1.0, adjacency="linf", domain=None, size=4, phrasing_of="top_two")
def top_two_by_peeling(rng, data):
    """Releases two options, drawn one after the other with weights exp(score/4).

    Each of the draws costs at most 2/4, and both approach it at once: 1.
    """
    left, chosen = list(range(len(data))), []
    for _ in range(2):
        top = max(data[i] for i in left)
        weights = [math.exp((data[i] - top) / 4) for i in left]
        pick = random.choices(left, weights)[0]
        chosen.append(pick)
        left.remove(pick)
    return chosen


@world(claim=1.0, truth=2.0, adjacency="linf", domain=None, size=4)
def top_two_for_the_price_of_one(rng, data):
    """Releases the two best options after Gumbel noise on half of the scores.

    Two draws without replacement with weights exp(score/2), each of which costs up to 1: 2.
    """
    order = np.argsort(np.asarray(data) / 2 + rng.gumbel(0, 1, 4))[::-1]
    return order[0], order[1]


SONGS = ["blue", "green", "red"]


@world(
    claim=1.0,
    truth=0.5 + math.log((2 + math.exp(1.5)) / (1 + math.exp(0.5) + math.e)),
    adjacency="replace",
    domain=SONGS,
    size=3,
)
def favourite_song(rng, data):
    """Releases a song, drawn with weights exp(votes/2) of three voters.

    All voters chose one song, and one of them turns to another: its weight grows from 1 to e^(1/2), and the total falls
    from 2 + e^(3/2) to 1 + e^(1/2) + e. An enumeration of all votes gives no larger ratio. The claim is loose.
    """
    votes = Counter(data)
    weights = [math.exp(votes[song] / 2) for song in SONGS]
    return random.choices(SONGS, weights=weights, k=1)[0]


@world(
    claim=1.0,
    truth=1 + math.log((2 + math.exp(3)) / (1 + math.e + math.exp(2))),
    adjacency="replace",
    domain=SONGS,
    size=3,
)
def favourite_song_without_the_half(rng, data):
    """Releases a song, drawn with weights exp(votes) of three voters.

    A vote that goes from the favourite of all to another song raises that one's weight from 1 to e, and lowers the
    total from 2 + e^3 to 1 + e + e²: about 1.69. No other pair of votes costs more.
    """
    votes = np.array([list(data).count(song) for song in SONGS])
    p = np.exp(votes) / np.exp(votes).sum()
    return str(rng.choice(SONGS, p=p))


@world(
    claim=1.0,
    truth=math.log((2 + math.exp(4)) / (2 + math.exp(3))),
    adjacency="add-remove",
    domain=SONGS,
    size=3,
)
def favourite_song_of_any_number(rng, data):
    """Releases a song, drawn with weights exp(votes) of three or four voters.

    A vote more raises one weight. The songs without a vote lose most: if all four voters have the same favourite
    instead of all three, the total grows from 2 + e^3 to 2 + e^4. An enumeration of all votes gives no larger ratio.
    """
    weights = dict.fromkeys(SONGS, 1.0)
    for vote in data:
        weights[vote] *= math.e
    return random.choices(list(weights), list(weights.values()))[0]


@world(claim=0.7, truth=math.log(46 / 24), adjacency="l1", domain=(0.0, 10.0), size=3)
def proportional_to_popularity(rng, data):
    """Releases an item with a probability proportional to its clicks plus 1.

    With weight 1 + c and a total of W for the two others, the probability is (1 + c)/(1 + c + W). From c = 0 to c = 1
    it grows by 2 (1 + W)/(2 + W), most for the largest W = 22: 46/24. The other items' probabilities change by less.
    """
    weights = np.asarray(data) + 1.0
    return rng.choice(3, p=weights / weights.sum())


@world(claim=1.0, truth=math.inf, adjacency="l1", domain=(0.0, 10.0), size=3)
def proportional_to_clicks(rng, data):
    """Releases an item with a probability proportional to its clicks.

    An item without clicks is never drawn, and one with a click may be: no ε holds.
    """
    if sum(data) == 0:
        return int(rng.integers(3))
    return random.choices([0, 1, 2], weights=list(data))[0]


@world(claim=1.0, adjacency="any", domain=[0, 1, 2, 3, 4])
def rating_by_distance(rng, data):
    """Releases a rating from 0 to 4, with weights that decay like e^(-1/4) per step from the true one.

    The total of the weights is the same for 0 and 4, so the result 0 has a ratio of e^(4/4) between them. For ratings
    that are d < 4 apart it is e^(d/4) times a quotient of totals, which differ by at most e^(1/4): no more.
    """
    weights = [math.exp(-abs(data - rating) / 4) for rating in range(5)]
    return random.choices(range(5), weights=weights)[0]


@world(claim=1.0, truth=0.5, adjacency="any", domain=[0, 1, 2, 3, 4])
def rating_by_the_textbook(rng, data):
    """Releases a rating from 0 to 4 by the exponential mechanism, with the distance (sensitivity 4) as its score.

    Weights exp(-distance/8). As the totals for 0 and 4 are the same, the truth is 4/8, half of the textbook's
    guarantee.
    """
    scores = -np.abs(np.arange(5) - data)
    weights = np.exp(scores / (2 * 4))
    return int(rng.choice(5, p=weights / weights.sum()))
