"""Releases of OpenDP's contexts, pydp, PipelineDP, Opacus and JAX Privacy within programs: see `make libraries`.

What they cost is held against closed forms: ε = Δ/b for Laplace noise of scale b, ρ = Δ²/(2σ²) for normal noise.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import veridp

ROWS = [(1.0, 0.0, 3.0), (0.0, 1.0, -3.0), (1.0, 1.0, 5.0)]


def test_each_answer_of_a_context_is_a_release() -> None:
    """Two queries share ε = 1; with a filter, the queries say what they spend."""
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")

    def report(data: list[int], **shares: Any) -> tuple[int, int]:
        unit, loss = dp.unit_of(contributions=1), dp.loss_of(epsilon=1.0)
        domain = dp.vector_domain(dp.atom_domain(T=int))
        context = dp.Context.compositor(data=data, privacy_unit=unit, privacy_loss=loss, domain=domain, **shares)
        first, second = ({}, {}) if shares else ({"epsilon": 0.25}, {"epsilon": 0.75})
        total = context.query(**first).clamp((0, 10)).sum().laplace().release()
        return total, context.query(**second).count().laplace().release()

    def nested(data: list[int]) -> int:
        space = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
        inner = dp.c.make_adaptive_composition(*space, dp.max_divergence(), d_in=1, d_mids=[1.0])
        outer = dp.c.make_adaptive_composition(*space, dp.max_divergence(), d_in=1, d_mids=[1.0])
        return outer(data)(inner)(dp.t.make_count(*space) >> dp.m.then_laplace(1.0))

    for program, costs in (
        (nested, (1.0,)),
        (report, (0.25, 0.75)),
        (lambda data: report(data, split_evenly_over=2), (0.5, 0.5)),
    ):
        found = veridp.pipeline.compare(program, [1, 2], [1, 2, 3])
        assert [release.epsilon for release in found.releases] == pytest.approx(costs)
        assert found.epsilon == pytest.approx(1.0)
        assert not found.candidates
        assert not [remark for remark in found.lost if "lost track" in str(remark)]


def test_pydp_noise_and_algorithms_are_releases() -> None:
    numerical = pytest.importorskip("pydp.algorithms.numerical_mechanisms", reason="python-dp is not installed")
    laplacian = pytest.importorskip("pydp.algorithms.laplacian")

    def report(data: list[int]) -> tuple[float, float, int]:
        total = numerical.LaplaceMechanism(0.5, 2.0).add_noise(float(sum(data)))  # scale 4
        size = numerical.GaussianMechanism(1.0, 1e-5, 1.0).add_noise(float(len(data)))
        bounded = laplacian.BoundedSum(epsilon=1.5, lower_bound=0, upper_bound=10, dtype="int")
        return total, size, bounded.quick_result(list(data))

    found = veridp.pipeline.compare(report, [1, 2], [1, 2, 2])
    assert [release.noise for release in found.releases] == [
        "pydp's LaplaceMechanism",
        "pydp's GaussianMechanism",
        "pydp's BoundedSum",
    ]
    assert [found.releases[place].epsilon for place in (0, 2)] == pytest.approx([0.5, 1.5])
    deviation = numerical.GaussianMechanism(1.0, 1e-5, 1.0).std
    assert found.rho == pytest.approx(0.5**2 / 2 + 1 / (2 * deviation**2) + 1.5**2 / 2, rel=0.2)
    assert not found.candidates
    wrong = veridp.pipeline.compare(report, [1, 2], [1, 2, 9])
    assert "made for sensitivity 2, but its value moves by 9" in str(wrong)
    noise = veridp.adapters.pydp(numerical.LaplaceMechanism(1.0, 1.0))
    assert veridp.pipeline.compare(noise, [0.0], [1.0]).epsilon == pytest.approx(1.0)


def test_an_aggregation_of_pipelinedp_costs_what_it_claims() -> None:
    pipeline_dp = pytest.importorskip("pipeline_dp", reason="pipeline-dp is not installed")
    params = pipeline_dp.AggregateParams(
        metrics=[pipeline_dp.Metrics.COUNT, pipeline_dp.Metrics.SUM],
        max_partitions_contributed=1,
        max_contributions_per_partition=1,
        min_value=0,
        max_value=5,
        noise_kind=pipeline_dp.NoiseKind.LAPLACE,
    )
    mechanism = veridp.adapters.pipelinedp(params, epsilon=1.0, partitions=["a"], size=2)
    found = veridp.pipeline.compare(mechanism, [("a", 0.0)] * 2, [("a", 0.0), ("a", 0.0), ("a", 5.0)])
    assert [release.epsilon for release in found.releases] == pytest.approx([0.5, 0.5])
    assert found.epsilon == pytest.approx(1.0)


def test_a_step_of_opacus_is_one_release_of_its_clipped_gradients() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    optimizers = pytest.importorskip("opacus.optimizers", reason="opacus is not installed")
    modules = pytest.importorskip("opacus.grad_sample")

    def step(rows: Any) -> Any:
        model = modules.GradSampleModule(torch.nn.Linear(2, 1))
        plain = torch.optim.SGD(model.parameters(), lr=1.0)
        optimizer = optimizers.DPOptimizer(
            plain, noise_multiplier=2.0, max_grad_norm=1.5, expected_batch_size=1, loss_reduction="sum"
        )
        inputs, targets = torch.tensor([row[:2] for row in rows]), torch.tensor([[row[2]] for row in rows])
        ((model(inputs) - targets) ** 2).sum().backward()
        optimizer.step()
        return list(model.parameters())

    found = veridp.pipeline.compare(step, ROWS[:2], ROWS)
    (release,) = found.releases
    assert release.noise == "opacus's DPOptimizer"
    assert found.rho == pytest.approx(1 / (2 * 2.0**2), rel=1e-3)  # a clipped gradient more: Δ = 1.5, σ = 3
    assert not found.candidates
    assert not found.lost
    sampled = veridp.adapters.unseeded(step, mu=0.5, adjacency="add-remove", domain=ROWS, size=2)
    assert veridp.pipeline.compare(sampled, ROWS[:2], ROWS).rho == pytest.approx(found.rho)


PRIVATIZER = """
import jax
from jax_privacy.noise_addition import gaussian_privatizer
import veridp

def step(rng, values):
    total = sum(jax.numpy.clip(jax.numpy.array(value), -1.0, 1.0) for value in values)
    privatizer = gaussian_privatizer(stddev=2.0, prng_key=jax.random.key(int(rng.integers(2**31))))
    return privatizer.update(total, privatizer.init(total))[0]

found = veridp.pipeline.compare(step, [0.5, 3.0], [0.5, 3.0, 3.0])
print(*[release.noise for release in found.releases][1:], found.rho, len(found.candidates), sep="; ")
"""


def test_a_privatizer_of_jax_is_one_release(tmp_path: Path) -> None:
    """In a process of its own: nothing forks where JAX is loaded."""
    if importlib.util.find_spec("jax_privacy") is None:
        pytest.skip("jax-privacy is not installed")
    file = tmp_path / "step.py"
    file.write_text(PRIVATIZER)
    run = subprocess.run([sys.executable, file], capture_output=True, text=True, check=True)  # noqa: S603
    assert run.stdout == f"jax-privacy's privatizer; {1 / (2 * 2.0**2)}; 0\n"
