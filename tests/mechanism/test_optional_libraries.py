"""Adapters of libraries that need environments of their own: `make libraries` and `make lake` run what is installed."""

from __future__ import annotations

import importlib.util
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import veridp
from veridp.errors import BadInput, MechanismFailed

ROWS = [(1.0, 0.0, 3.0), (0.0, 1.0, -3.0), (1.0, 1.0, 5.0)]
SIGMA, NORM = 2.0, 1.5


def near(found: Any, expected: Any, spread: float, count: int) -> bool:
    """Five standard errors: a false alarm in fewer than two of a million runs for each number."""
    return bool(np.all(np.abs(np.mean(found, axis=0) - expected) <= 5 * spread / math.sqrt(count)))


def printed(program: str, tmp_path: Path) -> list[str]:
    """What the program prints, in a process of its own: some libraries have threads, after which nothing is forked."""
    file = tmp_path / "program.py"
    file.write_text(program)
    run = subprocess.run([sys.executable, file], capture_output=True, text=True, check=False)  # noqa: S603
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


# -------------------------------------------------------------------------------------------------- OpenDP with Polars

POLARS = """
import warnings
import numpy as np
import opendp.prelude as dp
import polars as pl
import veridp
import veridp.errors

warnings.simplefilter("ignore")
dp.enable_features("contrib")
PEOPLE = pl.DataFrame({"age": [20, 35, 64], "city": ["Bern", "Basel", "Basel"]})

def context(frame, **margin):
    return dp.Context.compositor(
        data=frame.lazy(), privacy_unit=dp.unit_of(contributions=1), privacy_loss=dp.loss_of(epsilon=1.0),
        split_evenly_over=1, margins=[dp.polars.Margin(**margin)],
    )

def total(frame):
    return context(frame, max_length=9).query().select(pl.col("age").fill_null(0).dp.sum(bounds=(0, 50)))

query = veridp.adapters.opendp(total(PEOPLE), domain=PEOPLE, size=2)
print(query.claim, query.adjacency, query.worst_pairs(2, query.domain)[0].right)
outputs = veridp.sample(query, PEOPLE, 400).matrix().ravel()
print(abs(outputs.mean() - 105) < 5 * 50 * 2**0.5 / 20, outputs.std() > 30)
aligned = veridp.pipeline.compare(lambda frame: total(frame).release().collect(), PEOPLE.head(2), PEOPLE)
print(round(aligned.epsilon, 6), len(aligned.candidates))
verdict = veridp.audit(query, seconds=4, alpha=1e-6)
print(verdict.standing.name, verdict.caveats[0])
counts = context(PEOPLE, by=["city"], invariant="keys").query().group_by("city").agg(dp.len())
for options in ({"domain": PEOPLE}, {}, {"domain": PEOPLE, "pairs": [(PEOPLE, PEOPLE.tail(2))], "epsilon": 1.0}):
    try:
        print(veridp.adapters.opendp(counts, **options).adjacency)
    except veridp.errors.BadInput as error:
        print(error)
"""


def test_a_query_on_a_polars_frame_brings_its_claim(tmp_path: Path) -> None:
    for library in ("polars", "opendp"):
        if importlib.util.find_spec(library) is None:
            pytest.skip(f"{library} is not installed")
    claim, sampled, aligned, verdict, public, without, pairs = printed(POLARS, tmp_path)
    assert claim == "1-DP add-remove-unordered (records in any order) [(64, 'Basel'), (20, 'Bern'), (20, 'Bern')]"
    assert (sampled, aligned) == ("True True", "1.0 0")
    assert verdict.startswith("NOT_REFUTED polars is loaded, whose threads a fork does not survive")
    assert "what is public of a frame" in public  # neighbours that differ in it would refute a claim that nobody makes
    assert "give a frame of some rows" in without
    assert pairs == "1 given pair"


# ---------------------------------------------------------------------------------------------------------- SmartNoise


def test_a_query_of_smartnoise_brings_its_cost() -> None:
    snsql = pytest.importorskip("snsql", reason="smartnoise-sql is not installed")
    columns = {"age": {"type": "int", "lower": 0, "upper": 100}, "city": {"type": "string"}}
    people = {"censor_dims": False, "rows": 9, "id": {"private_id": True, "type": "int"}, **columns}
    frame = pd.DataFrame({"id": [1, 2, 3], "age": [20, 35, 64], "city": ["Bern", "Basel", "Basel"]})
    privacy = snsql.Privacy(epsilon=0.5, delta=1e-4)
    reader = snsql.from_connection(frame, privacy=privacy, metadata={"": {"db": {"people": people}}})
    total = veridp.adapters.smartnoise(reader, "SELECT SUM(age) AS total FROM db.people", domain=frame)
    assert total.claim.epsilon == pytest.approx(0.5)  # type: ignore[union-attr]
    worst = total.worst_pairs(2, total.domain)[0]
    assert 100 in worst.right[0]  # type: ignore[index]
    outputs = veridp.sample(total, frame, 400, workers=1).matrix()
    assert near(outputs, 119, 200 * math.sqrt(2), 400)  # Laplace noise of scale 100 / 0.5
    assert veridp.pipeline.compare(total, frame.head(2), frame).rho == pytest.approx((64 / 200) ** 2 / 2, rel=0.01)
    by_city = "SELECT city, COUNT(*) AS n FROM db.people GROUP BY city"
    with pytest.raises(BadInput, match="which groups there are counts as public"):
        veridp.adapters.smartnoise(reader, by_city, domain=frame)
    counts = veridp.adapters.smartnoise(reader, by_city, domain=frame, pairs=[(frame, frame.head(2))])
    assert [[city for city, _ in output] for output in veridp.sample(counts, frame, 2, workers=1)] == [
        ["Basel", "Bern"]
    ] * 2
    assert reader.odometer.spent == (0.0, 0.0)
    with pytest.raises(BadInput, match="domain=frame"):
        veridp.adapters.smartnoise(reader, "SELECT COUNT(*) FROM db.people")


# -------------------------------------------------------------------------------------------------------------- Opacus


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
def test_a_step_of_opacus_its_sampler_and_its_accountant() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    opacus = pytest.importorskip("opacus", reason="opacus is not installed")
    modules, criterion = pytest.importorskip("opacus.grad_sample"), torch.nn.MSELoss(reduction="sum")
    model = modules.GradSampleModule(torch.nn.Linear(2, 1), loss_reduction="sum")
    optimizer = opacus.optimizers.DPOptimizer(
        torch.optim.SGD(model.parameters(), lr=1.0),
        noise_multiplier=SIGMA,
        max_grad_norm=NORM,
        expected_batch_size=1,
        loss_reduction="sum",
    )
    accountant = opacus.accountants.RDPAccountant()
    optimizer.attach_step_hook(accountant.get_optimizer_hook_fn(sample_rate=0.5))

    def loss(batch: Any) -> Any:
        return criterion(model(batch[:, :-1]), batch[:, -1:])

    before = [parameter.detach().clone() for parameter in model.parameters()]
    step = veridp.adapters.opacus(optimizer, loss, domain=ROWS)
    assert str(step.claim) == f"{1 / SIGMA:g}-GDP"
    outputs = veridp.sample(step, ROWS, 400, seed=1, workers=1).matrix()
    plain = np.array([step(np.random.default_rng(seed), ROWS) for seed in range(100)])
    assert near(plain, outputs.mean(axis=0), SIGMA * NORM * math.sqrt(1 + 100 / 400), 100)
    assert outputs.std(axis=0) == pytest.approx([SIGMA * NORM] * 3, rel=0.2)
    assert veridp.pipeline.compare(step, ROWS[:2], ROWS).rho == pytest.approx(1 / (2 * SIGMA**2), rel=1e-3)
    assert all(torch.equal(mine, now) for mine, now in zip(before, model.parameters(), strict=True))
    assert accountant.history == []

    sampled = veridp.adapters.opacus(optimizer, loss, domain=ROWS, sample_rate=0.25, delta=1e-5, accountant="rdp")
    accountant.history = [(SIGMA, 0.25, 1)]
    assert sampled.claim.epsilon == pytest.approx(accountant.get_epsilon(1e-5))  # type: ignore[union-attr]
    empty = veridp.sample(sampled, ROWS[:1], 400, seed=1, workers=1).matrix()
    whole = veridp.sample(step, ROWS[:1], 400, seed=2, workers=1).matrix()
    assert near(empty, whole.mean(axis=0) / 4, math.hypot(SIGMA * NORM * 1.1, NORM), 400)

    accountant.history = [(SIGMA, 1.0, 8)]
    steps = veridp.adapters.opacus(accountant, delta=1e-5)
    losses = veridp.sample(steps, 1, 2000, seed=1, workers=1).matrix()  # normal: mean μ²/2, variance μ² = 8/σ²
    assert near(losses, 8 / SIGMA**2 / 2, math.sqrt(8) / SIGMA, 2000)
    found = veridp.sniper.search(steps, samples=500, final_samples=20_000, confidence=1 - 1e-6, seconds=600.0)
    assert 0.3 * steps.claim.epsilon < found.epsilon_lower < steps.claim.epsilon  # type: ignore[union-attr]
    for wrong in (model, opacus.accountants.RDPAccountant()):
        with pytest.raises(BadInput, match=r"not of Opacus|recorded no step"):
            veridp.adapters.opacus(wrong)


# --------------------------------------------------------------------------------------------------------- JAX Privacy

JAX = """
import jax
import jax.numpy as jnp
import numpy as np
from jax_privacy.clipping import clipped_grad
from jax_privacy.noise_addition import gaussian_privatizer
import veridp

ROWS = [(1.0, 0.0, 3.0), (0.0, 1.0, -3.0), (1.0, 1.0, 5.0)]
params = {"weights": jnp.zeros(2), "bias": jnp.zeros(())}

def loss(params, batch):
    return jnp.sum((batch[:, :-1] @ params["weights"] + params["bias"] - batch[:, -1]) ** 2)

gradient = clipped_grad(loss, l2_clip_norm=1.5)
step = veridp.adapters.jax_privacy(gradient, gaussian_privatizer(stddev=3.0), params, domain=ROWS)
print(step.claim, step.adjacency)
outputs = veridp.sample(step, ROWS, 4000, seed=1).matrix()
total = gradient(params, jnp.array(ROWS))
exact = np.concatenate([np.ravel(total["bias"]), np.ravel(total["weights"])])
print(bool(np.all(abs(outputs.mean(axis=0) - exact) < 5 * 3 / 4000**0.5)))
print(bool(np.allclose(outputs.std(axis=0), 3, rtol=0.1)))
print(veridp.sample(step, ROWS, 3, seed=1) == veridp.sample(step, ROWS, 3, seed=1))
print(veridp.sniper.search(step, samples=500, final_samples=5000, confidence=1 - 1e-6, seconds=600.0).epsilon_lower > 0)
"""


def test_a_step_of_jax_privacy(tmp_path: Path) -> None:
    if importlib.util.find_spec("jax_privacy") is None:
        pytest.skip("jax-privacy is not installed")
    assert printed(JAX, tmp_path) == [
        "0.5-GDP add-remove-unordered (records in any order)",
        *["True"] * 4,
    ]


# -------------------------------------------------------------------------------------------------------------- Tumult

LIKE_TUMULT = """
import random

class Number:
    def __init__(self, value): self.value = value
    def to_float(self, round_up): return self.value

class NumpyIntegerDomain:
    carrier_type = int

class AbsoluteDifference:
    def __str__(self): return "AbsoluteDifference()"

class PureDP: pass
class Odd: pass

class Noise:
    input_domain, input_metric, output_measure = NumpyIntegerDomain(), AbsoluteDifference(), PureDP()
    def privacy_function(self, distance): return Number(2 * distance)
    def __call__(self, value): return value + random.choice([-1, 0, 1])

noise, odd = Noise(), Noise()
odd.output_measure = Odd()
"""


def test_a_measurement_is_asked_by_an_interpreter_of_its_own(tmp_path: Path) -> None:
    """What an object with the attributes of Tumult's measurements says of itself, through the pipe."""
    file = tmp_path / "measured.py"
    file.write_text(LIKE_TUMULT)
    noise = veridp.adapters.tumult(f"{file}:noise", python=sys.executable)
    assert (noise.name, str(noise.claim), str(noise.adjacency), noise.size) == ("tumult_noise", "2-DP", "linf", 1)
    assert noise.assumptions == {"domain": range(-10, 11)}
    assert set(veridp.sample(noise, [5], 50, workers=1)) <= {4, 5, 6}
    with pytest.raises(BadInput, match="has no counterpart here; give the claim"):
        veridp.adapters.tumult(f"{file}:odd", python=sys.executable)
    with pytest.raises(MechanismFailed, match="no attribute 'absent'"):
        veridp.adapters.tumult(f"{file}:absent", python=sys.executable)
    with pytest.raises(BadInput, match="of an environment with tmlt"):
        veridp.adapters.tumult(f"{file}:noise", python=str(tmp_path / "python"))


TUMULT = """
from tmlt.core.measurements.noise_mechanisms import AddDiscreteGaussianNoise, AddGeometricNoise
from tmlt.core.measurements.pandas_measurements.series import AddNoiseToSeries

geometric, gaussian = AddGeometricNoise(alpha=1), AddDiscreteGaussianNoise(sigma_squared=4)
series = AddNoiseToSeries(geometric)
"""


def test_measurements_of_tumult_bring_their_claims(tmp_path: Path) -> None:
    python = os.environ.get("TUMULT_PYTHON")
    if python is None:
        pytest.skip("no TUMULT_PYTHON, the interpreter of an environment with tmlt.core")
    file = tmp_path / "measured.py"
    file.write_text(TUMULT)
    made = {
        name: veridp.adapters.tumult(f"{file}:{name}", python=python) for name in ("geometric", "gaussian", "series")
    }
    assert [str(one.claim) for one in made.values()] == ["1-DP", "0.125-zCDP", "1-DP"]
    outputs = veridp.sample(made["geometric"], [7], 400, workers=1).matrix()
    ratio = math.exp(-1)
    assert near(outputs, 7, math.sqrt(2 * ratio) / (1 - ratio), 400)
    assert veridp.sample(made["series"], [1, 2, 3], 2, workers=1).matrix().shape == (2, 3)
