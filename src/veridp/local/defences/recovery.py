"""Honest frequencies from poisoned ones, given how many users may be malicious. In the manner of LDPRecover.

With η = m/n, the poisoned estimate is a mixture, f_poisoned = (f_honest + η f_fake)/(1 + η). The frequencies of fake
reports are not known, but their sum is: a report that supports k values adds (k - d q)/(p - q) to the sum of all
estimates. Spread over the values that an attacker can have promoted, this is subtracted, and the rest is brought back
to frequencies (norm-sub).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from veridp.errors import BadInput
from veridp.local.estimate import Estimate
from veridp.local.oracle import PureOracle
from veridp.local.postprocess import norm_sub


def recover(
    oracle: PureOracle,
    poisoned: Estimate,
    *,
    eta: float = 0.2,
    targets: Sequence[int] | None = None,
    supported: float | None = None,
) -> Estimate:
    """The frequencies of honest users, if there are η malicious users to one honest.

    With `targets` they are taken to promote these alone, else all values of positive estimate alike. `supported` is
    how many values a fake report supports; one for GRR, else as many as an honest report on average, if not given.
    The result is not unbiased, and as good as the assumptions on the attack.
    """
    if not 0 <= eta < 1:
        raise BadInput(f"eta must be in [0, 1), got {eta!r}")
    p, q, size = oracle.p, oracle.q, oracle.size
    weight = p + (size - 1) * q if supported is None else supported
    total = (weight - size * q) / (p - q)  # Σ f_fake
    fake = np.zeros(size)
    if targets is None:
        promoted = poisoned.values > 0
        fake[promoted] = total / max(int(promoted.sum()), 1)
    else:
        chosen = list(targets)
        if not chosen or not all(0 <= target < size for target in chosen):
            raise BadInput(f"targets = {chosen} are not values from 0 to {size - 1}; name them, or leave them out")
        held = min(float(len(chosen)), weight)  # what a report supports among the targets, the rest spread over others
        fake[:] = ((weight - held) / max(size - len(chosen), 1) - q) / (p - q)
        fake[chosen] = (held / len(chosen) - q) / (p - q)
    honest = (1 + eta) * poisoned.values - eta * fake
    return norm_sub(poisoned.after("recover", honest))
