"""The true cost of mechanisms that compare noisy queries with a noisy threshold: the cheapest shift of their noise."""

from __future__ import annotations


def cheapest_shift(
    threshold_scale: float, below: float, above: float, *, rise: float = 1.0, fall: float = 1.0
) -> float:
    """The least ε at which a shift of the Laplace noise carries a run over to the worst neighbour.

    On the neighbour, queries that stayed below the threshold are larger by `rise`, those that passed it are smaller by
    `fall`. Let the noise of the threshold, of this scale, move by t. Then the noise of a query that stayed below must
    move by rise - t, that of one that passed by fall + t, for the run to give the same answers; `below` and `above`
    are the sums of 1/scale over these two kinds of noise. The cost |t|/scale + below (rise - t) + above (fall + t) is
    piecewise linear in t, so its least value is at one of its corners.

    The shift proves this ε (Lyu, Su, Li 2017, Theorem 2, is the case t = 1). No smaller ε holds on an unbounded
    domain: with queries L times as far from the threshold as the moves above, the log-probability of the run is
    -L times this cost up to o(L), so that the average of the first L unit steps tends to the cost.
    """
    return min(abs(t) / threshold_scale + below * (rise - t) + above * (fall + t) for t in (-fall, 0.0, rise))


def sparse_vector_cost(
    size: int, threshold_scale: float, query_scale: float, cutoff: int, *, rise: float = 1.0, fall: float = 1.0
) -> float:
    """The true ε of a sparse vector that answers True or False and stops after `cutoff` answers True.

    A run may have any number of hits up to the cut-off; one that does not reach it answers all the queries.
    """
    return max(
        cheapest_shift(threshold_scale, (size - hits) / query_scale, hits / query_scale, rise=rise, fall=fall)
        for hits in range(min(cutoff, size) + 1)
    )
