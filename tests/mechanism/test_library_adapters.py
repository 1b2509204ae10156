"""Adapters of tools, models, queries, compiled functions and kept programs; of other libraries where installed."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import opendp.prelude as dp
import pytest
from diffprivlib import mechanisms as ibm
from diffprivlib import models, tools

import veridp
from veridp.audit.case import AuditCase
from veridp.audit.caveats import check_forks
from veridp.claim import Claim
from veridp.errors import BadInput, MechanismFailed, MechanismHung
from veridp.mechanism import as_mechanism
from veridp.verdict import Standing

dp.enable_features("contrib")
ROWS = [(x, y) for x in (0.0, 1.0) for y in (0.0, 1.0)]


def near(found: Any, expected: float, spread: float, count: int) -> bool:
    """Five standard errors: a false alarm in fewer than two of a million runs."""
    return abs(float(np.mean(found)) - expected) <= 5 * spread / math.sqrt(count)


# ------------------------------------------------------------------------------------------------------- diffprivlib


def test_vector_is_the_noisy_gradient_of_a_linear_function() -> None:
    machine = ibm.Vector(epsilon=1, function_sensitivity=1, dimension=2, alpha=100)
    mechanism = as_mechanism(machine)
    assert (str(mechanism.claim), str(mechanism.adjacency), mechanism.size) == ("1-DP", "l1, 2 apart", 2)
    outputs = veridp.sample(mechanism, [3.0, -1.0], 1000, seed=1).matrix()
    norms = np.linalg.norm(outputs - [3.0, -1.0], axis=1)
    scale = 2 / (1 - 2 * math.log1p(1 / 100))  # its norm has a gamma distribution, of shape 2 in two dimensions
    assert near(norms, 2 * scale, math.sqrt(2) * scale, 1000)


def test_bingham_draws_the_direction_by_its_density() -> None:
    mechanism = as_mechanism(ibm.Bingham(epsilon=4))
    outputs = veridp.sample(mechanism, [1.0, 0.0], 400, seed=1).matrix()
    assert np.allclose(np.linalg.norm(outputs, axis=1), 1)
    # Eigenvalues 0 and 1 of ε (max - value) / 4; 1/b + 1/(b + 2) = 1 at b = √2, and the envelope is (uᵀΩu)^-1. The
    # library divides by the envelope's inverse where the published sampler multiplies: its density has (uᵀΩu)^-2.
    across = np.sin(np.linspace(0, math.pi, 20_001)[:-1]) ** 2
    weights = np.exp(-across) / (1 + 2 / math.sqrt(2) * across) ** 2
    assert near(outputs[:, 1] ** 2 < 0.5, weights[across < 0.5].sum() / weights.sum(), 0.5, 400)


def test_a_tool_brings_its_claim_and_records_beyond_its_bounds() -> None:
    mean = veridp.adapters.diffprivlib(tools.mean, epsilon=2.0, bounds=(0, 10), size=4)
    assert (str(mean.claim), mean.adjacency.name, mean.domain, mean.size) == ("2-DP", "replace", (-5.0, 15.0), 4)
    outputs = veridp.sample(mean, [15.0, 5.0, 5.0, -5.0], 1000, seed=1).matrix()
    assert near(outputs, 5.0, math.sqrt(2) * 10 / 4 / 2.0, 1000)  # 15 and -5 are clipped
    median = veridp.adapters.diffprivlib(tools.median, bounds=(0, 10), size=3)
    comparison = veridp.exact.compare(median, [15.0, 5.0, 4.9], [-5.0, 5.0, 4.9])  # 10 comes out with probability 2^-53
    assert not comparison.refutes(Claim(1.0))
    counts = veridp.adapters.diffprivlib(tools.histogram, bins=2, range=(0, 2))
    assert (counts.adjacency.name, len(veridp.sample(counts, [0.5], 1, seed=1)[0])) == ("add-remove", 2)
    with pytest.raises(BadInput, match=r"needs bounds=\(low, high\)"):
        veridp.adapters.diffprivlib(tools.sum)


@pytest.mark.filterwarnings("ignore")
def test_a_model_releases_what_it_learnt() -> None:
    scaler = veridp.adapters.diffprivlib(models.StandardScaler(epsilon=1.0, bounds=(0, 1)), domain=[(0.0,), (1.0,)])
    assert (str(scaler.claim), scaler.adjacency.name) == ("1-DP", "replace")
    first, again = (veridp.sample(scaler, [(0.0,), (1.0,)], 2, seed=1) for _ in range(2))
    assert first == again
    regression = models.LinearRegression(epsilon=1.0, bounds_X=(0, 1), bounds_y=(0, 1))
    released = veridp.adapters.diffprivlib(regression, domain=ROWS, released=("coef_", "intercept_"))
    (output,) = veridp.sample(released, ROWS, 1, seed=1)
    assert [key for key, _ in output] == ["coef_", "intercept_"]
    with pytest.raises(BadInput, match="the target last"):
        as_mechanism(regression)


# ------------------------------------------------------------------------------------------------------------- opendp


def context(loss: Any) -> Any:
    return dp.Context.compositor(
        data=[1, 2, 3],
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=loss,
        split_evenly_over=2,
        domain=dp.vector_domain(dp.atom_domain(T=int)),
    )


def test_a_query_is_the_measurement_that_its_context_would_release() -> None:
    asked = context(dp.loss_of(epsilon=1.0))
    mechanism = as_mechanism(asked.query().clamp((0, 10)).sum().laplace())
    assert mechanism.adjacency.name == "add-remove-unordered"
    assert mechanism.claim.epsilon == pytest.approx(0.5)  # type: ignore[union-attr]
    assert near(veridp.sample(mechanism, [3, 20], 500).matrix(), 13, math.sqrt(2) * 20, 500)
    assert isinstance(asked.query().count().laplace().release(), int)  # the budget is untouched
    private = veridp.adapters.opendp(context(dp.loss_of(rho=0.5)).query().count().gaussian())
    assert private.claim.keywords == {"rho": pytest.approx(0.25)}  # type: ignore[union-attr]
    with pytest.raises(BadInput, match=r"End it with noise, as in \.laplace\(\)"):
        as_mechanism(asked.query().clamp((0, 10)).sum())


# ---------------------------------------------------------------------------------------------------- other functions


def test_what_numba_compiles_is_explored_as_the_function_that_it_compiles() -> None:
    numba = pytest.importorskip("numba")

    @numba.njit
    def answer(bit: int) -> int:
        return bit if np.random.random() < 0.75 else 1 - bit  # noqa: NPY002

    assert veridp.exact.compare(answer, 0, 1).epsilon == pytest.approx(math.log(3))


KEPT = "import os, sys\nfor line in sys.stdin: print(os.getpid(), flush=True)"
ENDING = "input(); print(1, flush=True)"


def test_a_kept_program_is_started_once_and_its_end_is_an_error() -> None:
    kept = veridp.adapters.command([sys.executable, "-c", KEPT], keep=True)
    blocks = [veridp.sample(kept, [0], 100, workers=1) for _ in range(2)]
    assert len({output for block in blocks for output in block}) == 1
    anew = veridp.adapters.command([sys.executable, "-c", KEPT])
    assert veridp.sample(anew, [0], 1, workers=1) != veridp.sample(anew, [0], 1, workers=1)
    with pytest.raises(MechanismHung, match="flush each line"):
        veridp.sample(veridp.adapters.command([sys.executable, "-c", ENDING], keep=True), [0], 3, workers=1)


def test_noise_that_repeats_in_forked_processes_is_an_error() -> None:
    """As that of a library which fetches random bytes ahead: samples of several processes would be the same ones."""
    own = np.random.default_rng(0)

    def fetched_ahead(data: Any, count: int) -> Any:
        return data[0] + own.laplace(size=count)

    mechanism = veridp.adapters.batched(fetched_ahead, epsilon=1.0, adjacency="l1", size=1)
    with pytest.raises(MechanismFailed, match="the same noise in every forked process"):
        veridp.audit(mechanism, seconds=120.0)


# ------------------------------------------------------------------------ libraries that are not among the dependencies


def test_pydp_brings_its_claim_and_fresh_noise_in_each_process() -> None:
    numerical = pytest.importorskip("pydp.algorithms.numerical_mechanisms", reason="python-dp is not installed")
    laplacian = pytest.importorskip("pydp.algorithms.laplacian")
    noise = veridp.adapters.pydp(numerical.LaplaceMechanism(0.5, 2.0))
    assert (str(noise.claim), str(noise.adjacency)) == ("0.5-DP", "linf, 2 apart")
    total = laplacian.BoundedSum(epsilon=1, lower_bound=0, upper_bound=10, dtype="int")
    with pytest.raises(BadInput, match="does not tell its bounds"):
        veridp.adapters.pydp(total)
    mechanism = veridp.adapters.pydp(total, domain=range(-5, 16), size=2)
    check_forks(AuditCase.of(mechanism, None, 1e-6, 0))  # an error where processes draw the same noise
    attack = veridp.sniper.search(mechanism, samples=500, final_samples=5_000, confidence=1 - 1e-6, seconds=600.0)
    assert 0 < attack.epsilon_lower <= 1


def test_pipelinedp_counts_people_who_come_and_go() -> None:
    pipeline_dp = pytest.importorskip("pipeline_dp", reason="pipeline-dp is not installed")
    params = pipeline_dp.AggregateParams(
        metrics=[pipeline_dp.Metrics.COUNT], max_partitions_contributed=1, max_contributions_per_partition=1
    )
    mechanism = veridp.adapters.pipelinedp(params, epsilon=1.0, partitions=["a"], size=2)
    outputs = veridp.sample(mechanism, [("a", 0.0)] * 3, 1000, workers=1).matrix()
    assert near(outputs, 3.0, 1.5, 1000)


def test_clients_of_local_libraries_are_proved() -> None:
    oracles = pytest.importorskip("pure_ldp.frequency_oracles", reason="pure-ldp is not installed")
    for client in (oracles.DEClient(epsilon=1.0, d=4), oracles.UEClient(epsilon=1.0, d=4, use_oue=True)):
        assert veridp.audit(client, seconds=120.0).standing is Standing.PROVED


def test_clients_of_multi_freq_ldpy_are_proved() -> None:
    responses = pytest.importorskip(
        "multi_freq_ldpy.pure_frequency_oracles.GRR", reason="multi-freq-ldpy is not installed"
    )
    settings: dict[str, Any] = {"adjacency": "any", "domain": range(4), "size": 1}
    assert veridp.audit(responses.GRR_Client, epsilon=1.0, k=4, seconds=120.0, **settings).standing is Standing.PROVED
