"""How much normal noise (ε, δ) takes: the analytic calibration."""

from __future__ import annotations

import math

from veridp.errors import BadInput


def gaussian_delta(epsilon: float, ratio: float) -> float:
    """The least δ at which normal noise is (ε, δ)-private; `ratio` is L2-sensitivity over standard deviation.

    Balle and Wang, "Improving the Gaussian Mechanism for Differential Privacy" (ICML 2018), Theorem 8:
    δ = Φ(r/2 - ε/r) - e^ε Φ(-r/2 - ε/r). Both terms are taken as logarithms, so that a tiny δ keeps its digits.
    """
    from scipy.special import log_ndtr

    if not ratio:
        return 0.0
    gain, loss = log_ndtr(ratio / 2 - epsilon / ratio), epsilon + log_ndtr(-ratio / 2 - epsilon / ratio)
    return float(math.exp(gain) * -math.expm1(min(0.0, loss - gain)))


def gaussian_scale(epsilon: float, delta: float, sensitivity: float = 1.0) -> float:
    """The least standard deviation of normal noise that is (ε, δ)-private for answers of this L2-sensitivity.

    >>> gaussian_delta(1.0, 1 / gaussian_scale(1.0, 1e-5)) <= 1e-5
    True
    """
    if not epsilon >= 0 or not 0 < delta < 1:
        raise BadInput(f"normal noise is never ({epsilon:g}, {delta:g})-private; give epsilon >= 0 and delta in (0, 1)")
    low, high = 0.0, 1.0
    while gaussian_delta(epsilon, high) <= delta:
        low, high = high, 2 * high
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if gaussian_delta(epsilon, middle) <= delta else (low, middle)
    return sensitivity / low
