"""Building blocks: noise and selection from a sensitivity and an ε, each a plain mechanism with its theorem.

The data of a block are the answers of queries, and its adjacency says how these may move: by `sensitivity`, in L1 for
Laplace and geometric noise, in L2 for normal noise, each score by as much for selection. `private` puts a block behind
a query on records.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from veridp.accounting.pairs import gaussian_scale
from veridp.accounting.sensitivity import Norm, Sensitivity
from veridp.adjacency import Adjacency, Domain, Scaled, adjacency
from veridp.errors import BadInput
from veridp.mechanism import Function, Mechanism, mechanism


@mechanism(adjacency="l1", cost=lambda epsilon: epsilon, size=1)
def laplace(rng: Any, answers: Any, *, epsilon: float = 0.1, sensitivity: float = 1.0) -> Any:
    """The answers, each with Laplace noise of scale sensitivity/ε: ε-private for this L1-sensitivity.

    Dwork, McSherry, Nissim and Smith, "Calibrating Noise to Sensitivity in Private Data Analysis" (TCC 2006).
    """
    scale = sensitivity / epsilon
    return _each(answers, lambda answer: answer + rng.laplace(scale=scale))


@mechanism(adjacency="l1", cost=lambda epsilon: epsilon, size=1, domain=range(-10, 11))
def geometric(rng: Any, answers: Any, *, epsilon: float = 0.1, sensitivity: int = 1) -> Any:
    """Whole answers, each with two-sided geometric noise, P[k] proportional to e^(-ε|k|/sensitivity): ε-private.

    Ghosh, Roughgarden and Sundararajan, "Universally Utility-maximizing Privacy Mechanisms" (STOC 2009). It is free of
    the rounding that gives floating-point Laplace noise away. The difference of two geometric draws has this law.
    """
    success = 1 - math.exp(-epsilon / sensitivity)
    return _each(answers, lambda answer: answer + rng.geometric(success) - rng.geometric(success))


@mechanism(adjacency="l1", size=1)
def gaussian(rng: Any, answers: Any, *, epsilon: float = 0.1, delta: float = 1e-5, sensitivity: float = 1.0) -> Any:
    """The answers, each with the least normal noise that is (ε, δ)-private for this L2-sensitivity.

    Balle and Wang, "Improving the Gaussian Mechanism for Differential Privacy" (ICML 2018): the standard deviation
    solves their equation for δ, and holds for every ε, not only below 1.
    """
    scale = gaussian_scale(float(epsilon), float(delta), float(sensitivity))
    return _each(answers, lambda answer: answer + rng.normal(scale=scale))


@mechanism(adjacency="linf", cost=lambda size, epsilon: epsilon if size > 1 else 0.0)
def exponential(rng: Any, scores: Sequence[float], *, epsilon: float = 0.1, sensitivity: float = 1.0) -> int:
    """The index i with probability proportional to e^(ε score_i / (2 sensitivity)): ε-private.

    McSherry and Talwar, "Mechanism Design via Differential Privacy" (FOCS 2007). The true cost ε is approached as one
    score lies ever further from the others.
    """
    exponents = np.asarray(scores, dtype=float) * (float(epsilon) / (2 * float(sensitivity)))
    weights = np.exp(exponents - exponents.max())
    return int(rng.choice(len(weights), p=weights / weights.sum()))


@mechanism(adjacency="linf", cost=lambda size, epsilon: epsilon if size > 1 else 0.0)
def report_noisy_max(rng: Any, scores: Sequence[float], *, epsilon: float = 0.1, sensitivity: float = 1.0) -> Any:
    """The index of the largest score after exponential noise of scale 2 sensitivity/ε: ε-private.

    Dwork and Roth, "The Algorithmic Foundations of Differential Privacy" (2014), section 3.3, with one-sided noise; the
    same law as permute-and-flip (Ding, Kifer, Sayed, Steinke, Wang, Xiao and Zhang 2021).
    """
    scale = 2 * sensitivity / epsilon
    return np.argmax(np.asarray(scores) + rng.exponential(scale=scale, size=len(scores)))


@mechanism(adjacency="linf")
def sparse_vector(
    rng: Any,
    queries: Sequence[float],
    *,
    epsilon: float = 0.1,
    threshold: float = 0.0,
    cutoff: int = 1,
    sensitivity: float = 1.0,
) -> list[bool]:
    """Which queries are above the threshold, until `cutoff` of them were: ε-private for any number of queries.

    Lyu, Su and Li, "Understanding the Sparse Vector Technique for Differential Privacy" (VLDB 2017), Algorithm 1: half
    of ε for the threshold, half for the queries that pass.
    """
    noisy_threshold = threshold + rng.laplace(scale=2 * sensitivity / epsilon)
    answers: list[bool] = []
    passed = 0
    for query in queries:
        above = bool(query + rng.laplace(scale=4 * cutoff * sensitivity / epsilon) >= noisy_threshold)
        answers.append(above)
        passed += above
        if passed == cutoff:
            break
    return answers


BLOCKS: dict[str, Mechanism] = {
    block.name: block for block in (laplace, geometric, gaussian, exponential, report_noisy_max, sparse_vector)
}
NORMS: dict[str, Norm] = {"laplace": 1, "geometric": 1, "gaussian": 2} | dict.fromkeys(
    ("exponential", "report_noisy_max", "sparse_vector"), math.inf
)


def _each(answers: Any, noisy: Callable[[Any], Any]) -> Any:
    """The answers one by one; a single number stays one."""
    return [noisy(answer) for answer in answers] if isinstance(answers, list | tuple | np.ndarray) else noisy(answers)


def calibrated(block: Mechanism, sensitivity: float = 1.0, **arguments: Any) -> Mechanism:
    """The block for answers of this sensitivity, with its adjacency scaled to it."""
    if not 0 < sensitivity < math.inf:
        raise BadInput(f"sensitivity must be finite and > 0, got {sensitivity!r}")
    relation = block.adjacency if sensitivity == 1 else Scaled(block.adjacency, sensitivity)
    return replace(block, adjacency=relation).bind(sensitivity=sensitivity, **arguments)


def private(
    query: Function,
    block: Mechanism,
    *,
    sensitivity: Sensitivity | float,
    epsilon: float,
    relation: str | Adjacency = "add-remove",
    domain: Domain = (0.0, 1.0),
    size: int = 3,
    **arguments: Any,
) -> Mechanism:
    """The mechanism on records that answers the query through the block, with noise for this sensitivity.

    A `Sensitivity` that is only a lower bound, or that was measured in another norm than the block needs or under
    another relation, is refused. A number is taken as it is: `veridp.audit` finds out if it is wrong.
    """
    needed, own = NORMS.get(block.name), adjacency(relation)
    if isinstance(sensitivity, Sensitivity):
        if not sensitivity.exact:
            raise BadInput(
                f"{sensitivity.value:g} is only a lower bound on the sensitivity ({sensitivity.reason}), and noise for "
                f"it may be too little; give a number that you can prove"
            )
        if sensitivity.norm != needed or sensitivity.relation != own.name:
            raise BadInput(
                f"{block.name} under {own.name} takes the L{needed}-sensitivity under {own.name}, not the "
                f"L{sensitivity.norm} one under {sensitivity.relation}; measure it again with these"
            )
        size, domain, sensitivity = sensitivity.size, sensitivity.domain, sensitivity.value
    bound = block.bind(epsilon=epsilon, sensitivity=sensitivity, **arguments)

    def answered(rng: Any, data: Any) -> Any:
        return bound(rng, query(data))

    answered.__name__ = f"{getattr(query, '__name__', 'query')}_by_{block.name}"
    answered.__doc__ = f"The answer of the query through {block.name}."
    claim = bound.claim
    return Mechanism(
        answered,
        epsilon=epsilon,
        delta=claim.delta if claim is not None else 0.0,
        adjacency=own,
        domain=domain,
        size=size,
    )
