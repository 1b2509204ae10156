"""Steps of private training as mechanisms: of Opacus, with its sampler and its accountants, and of JAX Privacy."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from veridp.claim import MAKERS
from veridp.errors import BadInput
from veridp.mechanism.adapters.foreign import resolved, stands_in, torch_seeded, unseeded
from veridp.mechanism.adapters.opendp_measurements import DELTA
from veridp.mechanism.declared import Mechanism

COMPILED_OUTPUTS = 1024  # of one call of a function that JAX compiles, which it does anew for each number
CLAIMS = ("epsilon", *MAKERS)
Loss = Callable[[Any], Any]


def _as_batch(rows: Any, domain: Any) -> Any:
    """The rows as an array of single precision, of the right width also where there are none."""
    width = np.shape(np.asarray(domain[0], dtype=np.float32))
    return np.asarray(list(rows), dtype=np.float32).reshape((len(rows), *width))


def _rows_of_domain(options: dict[str, Any], library: str) -> list[Any]:
    if "domain" not in options:
        raise BadInput(f"{library} trains on rows; give some as domain=[(1.0, 2.0, 0.0), …], of numbers")
    return list(options["domain"])


# -------------------------------------------------------------------------------------------------------------- Opacus


def opacus(
    made: Any,
    loss: Loss | None = None,
    *,
    sample_rate: float | None = None,
    delta: float = DELTA,
    accountant: str = "prv",
    **options: Any,
) -> Mechanism:
    """One step of this optimizer of Opacus as a mechanism; or, of an accountant, the steps that it has recorded.

    `loss(batch)` is the loss of the wrapped model on a tensor of rows; `domain` has some rows. What is released are the
    noisy gradients, as they stand before the optimizer uses them, and a row comes or goes. The claim is 1/σ-GDP for a
    noise multiplier of σ; with a `sample_rate`, rows are drawn by Opacus's sampler, and the claim is the (ε, δ) of its
    accountant for one such step. Neither parameters nor the budget of the optimizer's own accountant change.

    The mechanism of an accountant releases the privacy loss of all its steps, summed up, for a record that is there or
    not and whose clipped gradient is as long as it can be: no record costs more. The claim is its (ε, δ).
    """
    if hasattr(made, "get_epsilon") and hasattr(made, "history"):
        return _recorded_steps(made, {"epsilon": float(made.get_epsilon(delta)), "delta": delta, **options})
    if not hasattr(made, "clip_and_accumulate"):
        raise BadInput(f"{made!r} is not of Opacus; give an optimizer of make_private, or an accountant")
    if loss is None:
        raise BadInput("a step needs the loss of a batch: loss=lambda batch: criterion(model(batch[:, :-1]), …)")
    step = _OpacusStep(made, loss, _rows_of_domain(options, "Opacus"), sample_rate)
    plain = f"{type(made).__module__}.{type(made).__name__}" == "opacus.optimizers.optimizer.DPOptimizer"
    if not any(name in options for name in CLAIMS):
        if not plain:
            raise BadInput(
                f"{type(made).__name__} calibrates its noise in a way of its own; give the claim, as in mu=…"
            )
        options |= step.claim(delta, accountant)

    def opacus_step(data: Any) -> Any:
        return step.run(data)

    mechanism = unseeded(opacus_step, **{"adjacency": "add-remove-unordered", "size": 2, **options})
    return replace(mechanism, vectorised=step.many) if plain else mechanism


class _OpacusStep:
    """A step of an optimizer, up to the noisy gradients."""

    def __init__(self, optimizer: Any, loss: Loss, rows: list[Any], sample_rate: float | None) -> None:
        self.optimizer, self.loss, self.rows, self.sample_rate = optimizer, loss, rows, sample_rate
        self.torch = importlib.import_module("torch")

    def __reduce__(self) -> Any:
        raise TypeError("an optimizer of Opacus does not survive pickling")  # so that it is sampled in this process

    def claim(self, delta: float, accountant: str) -> dict[str, float]:
        sigma = float(self.optimizer.noise_multiplier)
        if not sigma > 0:
            raise BadInput(
                f"noise_multiplier = {sigma:g} adds no noise, so nothing is claimed; give the claim, as in mu=…"
            )
        if self.sample_rate is None:
            return {"mu": 1 / sigma}
        made = importlib.import_module("opacus.accountants").create_accountant(accountant)
        made.history = [(sigma, self.sample_rate, 1)]
        return {"epsilon": float(made.get_epsilon(delta)), "delta": delta}

    def run(self, rows: Any) -> Any:
        """The noisy gradients of one step, all by the library."""
        with self._without_hook():
            self._backward(self._drawn(rows))
            self.optimizer.pre_step()
            return self._gradients()

    def many(self, rng: Any, rows: Any, count: int) -> Any:
        """The same many times: clipped gradients are summed once for each batch, with fresh noise each time."""
        sums: dict[tuple[int, ...], list[Any]] = {}
        outputs = []
        with self._without_hook(), torch_seeded(int(rng.integers(2**62))):
            for _ in range(count):
                chosen = self._chosen(rows)
                if chosen not in sums:
                    self._backward([rows[place] for place in chosen])
                    self.optimizer.clip_and_accumulate()
                    sums[chosen] = [parameter.summed_grad.clone() for parameter in self.optimizer.params]
                for parameter, total in zip(self.optimizer.params, sums[chosen], strict=True):
                    parameter.summed_grad = total.clone()  # it must not have been used
                self.optimizer.add_noise()
                self.optimizer.scale_grad()
                outputs.append(self._gradients())
        return np.array(outputs)

    def _chosen(self, rows: Any) -> tuple[int, ...]:
        """The places of the rows that a step uses."""
        if self.sample_rate is None:
            return tuple(range(len(rows)))
        sampler = importlib.import_module("opacus.utils.uniform_sampler").UniformWithReplacementSampler
        return tuple(next(iter(sampler(num_samples=len(rows), sample_rate=self.sample_rate, steps=1))))

    def _drawn(self, rows: Any) -> list[Any]:
        return [rows[place] for place in self._chosen(rows)]

    def _backward(self, rows: Any) -> None:
        self.optimizer.zero_grad()
        self.loss(self.torch.from_numpy(_as_batch(rows, self.rows))).backward()

    def _gradients(self) -> Any:
        parts = [parameter.grad.detach().numpy().ravel() for parameter in self.optimizer.params]
        return np.concatenate(parts).astype(float)

    @contextmanager
    def _without_hook(self) -> Iterator[None]:
        """While the body runs, steps are not counted by an accountant; afterwards no gradients are left."""
        hook, self.optimizer.step_hook = self.optimizer.step_hook, None
        try:
            yield
        finally:
            self.optimizer.step_hook = hook
            self.optimizer.zero_grad()


def _recorded_steps(accountant: Any, options: dict[str, Any]) -> Mechanism:
    """The privacy loss of all steps of the accountant's history, on a bit: whether the record is there."""
    history = [(float(sigma), float(rate), int(steps)) for sigma, rate, steps in accountant.history]
    if not history:
        raise BadInput("the accountant has recorded no step; train first, or set its history = [(noise, rate, steps)]")

    def many(rng: Any, data: Any, count: int) -> Any:
        present = float(data if np.ndim(data) == 0 else data[0])
        total = np.zeros(count)
        for sigma, rate, steps in history:
            for _ in range(steps):
                seen = present * (rng.random(count) < rate) + rng.normal(scale=sigma, size=count)
                total += np.log1p(rate * np.expm1((2 * seen - 1) / (2 * sigma**2)))
        return total

    def steps_of_accountant(rng: Any, data: Any) -> Any:
        return many(rng, data, 1)[0]

    known = {"adjacency": "any", "domain": [0, 1], "size": 1}
    return Mechanism(steps_of_accountant, **resolved(known | options), vectorised=many)


# --------------------------------------------------------------------------------------------------------- JAX Privacy


def jax_privacy(gradient: Any, privatizer: Any, params: Any, **options: Any) -> Mechanism:
    """A step of JAX Privacy as a mechanism: clipped gradients at these parameters, with noise of this privatizer.

    `gradient` is what `clipped_grad` returns, called as `gradient(params, batch)` with an array of rows; `domain` has
    some rows, and a row comes or goes. The claim is (sensitivity/deviation)-GDP, as the two objects say. The key of
    the privatizer is replaced by fresh ones, so that outputs follow from the seed.
    """
    if not hasattr(gradient, "sensitivity") or not hasattr(privatizer, "update"):
        raise BadInput(
            "give what jax_privacy's clipped_grad returns, and a privatizer, as gaussian_privatizer(stddev=…)"
        )
    jax = importlib.import_module("jax")
    rows, state = _rows_of_domain(options, "JAX Privacy"), privatizer.init(params)
    if not any(name in options for name in CLAIMS):
        options["mu"] = _sensitivity(gradient) / _deviation(privatizer)
    if not any(map(_is_key(jax), jax.tree.leaves(state))):
        raise BadInput(
            "this privatizer has its key built in, so its noise is always the same; give gaussian_privatizer"
        )

    compiled = jax.jit(lambda batch: gradient(params, batch))

    def summed(data: Any) -> Any:
        found = compiled(_as_batch(data, rows))
        return found[0] if gradient.has_aux else found

    def noisy(total: Any, key: Any) -> Any:
        keyed = jax.tree.map(lambda leaf: key if _is_key(jax)(leaf) else leaf, state)
        released, _ = privatizer.update(total, keyed)
        return jax.numpy.concatenate([jax.numpy.ravel(leaf) for leaf in jax.tree.leaves(released)])

    batch = jax.jit(jax.vmap(noisy, in_axes=(None, 0)))

    def many(rng: Any, data: Any, count: int) -> Any:
        total, blocks = summed(data), []
        for _ in range(0, count, COMPILED_OUTPUTS):
            keys = jax.random.split(jax.random.key(int(rng.integers(2**31))), COMPILED_OUTPUTS)
            blocks.append(np.asarray(batch(total, keys), dtype=float))
        return np.concatenate(blocks)[:count]

    def jax_privacy_step(rng: Any, data: Any) -> Any:
        if stands_in(rng):
            rng.refuse("JAX draws its noise out of sight, not from rng")
        return np.asarray(noisy(summed(data), jax.random.key(int(rng.integers(2**31)))), dtype=float)

    settings = resolved({"adjacency": "add-remove-unordered", "size": 2, **options})
    return Mechanism(jax_privacy_step, **settings, vectorised=many)


def _is_key(jax: Any) -> Callable[[Any], bool]:
    return lambda leaf: hasattr(leaf, "dtype") and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _sensitivity(gradient: Any) -> float:
    relations = importlib.import_module("dp_accounting").NeighboringRelation
    return float(gradient.sensitivity(relations.ADD_OR_REMOVE_ONE))


def _deviation(privatizer: Any) -> float:
    """The standard deviation of a Gaussian privatizer; it has no attribute of it."""
    library = importlib.import_module("jax_privacy.noise_addition")
    known = inspect.getclosurevars(privatizer.update).nonlocals
    if known.get("noising_matrix") is not library.gaussian_privatizer.args[0] or not known.get("stddev"):
        raise BadInput("only gaussian_privatizer tells its deviation here; give the claim of one step, as in mu=…")
    return float(known["stddev"])
