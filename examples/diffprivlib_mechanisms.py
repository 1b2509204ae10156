"""Mechanism objects of diffprivlib, as they are: `veridp audit examples/diffprivlib_mechanisms.py:laplace`.

Each is audited against its own ε and δ. The last two are used wrongly: a sensitivity that is too small, and a claim
that the object was not built for.
"""

from __future__ import annotations

from diffprivlib import mechanisms

import veridp

laplace = mechanisms.Laplace(epsilon=1, sensitivity=1)
geometric = mechanisms.Geometric(epsilon=1, sensitivity=1)
gaussian = mechanisms.GaussianAnalytic(epsilon=0.5, delta=1e-3, sensitivity=1)
exponential = mechanisms.Exponential(epsilon=1, sensitivity=1, utility=[0.0, 0.0, 0.0])
binary = mechanisms.Binary(epsilon=1, value0="no", value1="yes")
truncated = mechanisms.LaplaceTruncated(epsilon=1, sensitivity=1, lower=0, upper=5)


@veridp.mechanism(epsilon=1.0, adjacency="replace", domain=(0, 10), size=3)
def clamped_sum(rng, values):  # type: ignore[no-untyped-def]
    """A sum of values clamped to [0, 2], with noise for one of them."""
    noise = veridp.adapters.diffprivlib(mechanisms.Laplace(epsilon=1, sensitivity=2))
    return noise(rng, sum(min(max(value, 0.0), 2.0) for value in values))


@veridp.mechanism(epsilon=1.0, adjacency="replace", domain=(0, 10), size=3)
def unclamped_sum(rng, values):  # type: ignore[no-untyped-def]
    """The same without the clamp: one value moves the sum by up to 10."""
    noise = veridp.adapters.diffprivlib(mechanisms.Laplace(epsilon=1, sensitivity=2))
    return noise(rng, sum(values))


overclaimed = veridp.adapters.diffprivlib(mechanisms.Binary(epsilon=2, value0="no", value1="yes"), epsilon=1.0)
