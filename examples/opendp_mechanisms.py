"""Measurements of OpenDP, as they are: `veridp audit examples/opendp_mechanisms.py:laplace`.

Each is audited against what its own privacy map claims. The last one is used wrongly: its author forgot that the noise
is calibrated to the bounds of one record.
"""

from __future__ import annotations

import opendp.prelude as dp

import veridp

dp.enable_features("contrib")

number = dp.atom_domain(T=float, nan=False)
bounded = dp.vector_domain(dp.atom_domain(bounds=(0.0, 10.0)), size=5)

laplace = dp.m.make_laplace(number, dp.absolute_distance(T=float), 1.0)
geometric = dp.m.make_geometric(dp.atom_domain(T=int), dp.absolute_distance(T=int), 1.0)
gaussian = dp.m.make_gaussian(number, dp.absolute_distance(T=float), 2.0)
randomized_response = dp.m.make_randomized_response_bool(0.75)
noisy_max = dp.m.make_noisy_max(dp.vector_domain(number), dp.linf_distance(T=float), dp.max_divergence(), 2.0)
clamped_sum = dp.t.make_sum(bounded, dp.symmetric_distance()) >> dp.m.then_laplace(10.0)

# Claims ε = 1 for a sum whose records reach up to 10, with noise of scale 3.
wrong_sum = veridp.adapters.opendp(
    dp.t.make_sum(bounded, dp.symmetric_distance()) >> dp.m.then_laplace(3.0), epsilon=1.0
)
