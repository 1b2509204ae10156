"""Mistakes of libraries for private learning, each beside its repair: `veridp audit examples/gallery/learning.py:step`.

Small ports in our own words, in NumPy: a gradient is a number or a short list.
"""

from __future__ import annotations

import numpy as np

import veridp


def clipped(gradient, norm):
    return gradient * min(1.0, norm / abs(gradient)) if gradient else gradient


# ---------------------------------------------------------------------------------- the number of records is private


class PrivateOptimizer:
    """One step of DP-SGD on the full batch."""

    def __init__(self, noise_multiplier, max_grad_norm, expected_batch_size):
        self.noise_multiplier = noise_multiplier
        self.max_grad_norm = max_grad_norm
        self.expected_batch_size = expected_batch_size

    def step(self, gradients):
        total = sum(clipped(gradient, self.max_grad_norm) for gradient in gradients)
        noise = np.random.normal(0, self.noise_multiplier * self.max_grad_norm)
        return (total + noise) / self.expected_batch_size


@veridp.mechanism(mu=0.5, adjacency="add-remove", domain=(-3, 3))
def step(gradients):
    """A noisy gradient divided by the expected batch size, which is computed from the private data set.

    Source: https://github.com/meta-pytorch/opacus/issues/571
    """
    expected = max(1, int(len(gradients) * 1.0))
    return PrivateOptimizer(2.0, 1.0, expected).step(gradients)


@veridp.mechanism(mu=0.5, adjacency="add-remove", domain=(-3, 3))
def step_fixed(gradients):
    """The expected batch size is a setting."""
    return PrivateOptimizer(2.0, 1.0, 8).step(gradients)


# --------------------------------------------------------------------------------------------- a norm that is not used


def ghost_step(gradients, noise_multiplier, max_grad_norm, clip_at=1.0):
    total = sum(clipped(gradient, clip_at) for gradient in gradients)
    return total + np.random.normal(0, noise_multiplier * max_grad_norm)


@veridp.mechanism(mu=0.5, adjacency="add-remove", domain=(-3, 3))
def ghost_clipping(gradients):
    """Fast gradient clipping at its default norm of 1; the noise is for the norm that the user asked for.

    Source: https://github.com/meta-pytorch/opacus/pull/664
    """
    return ghost_step(gradients, noise_multiplier=2.0, max_grad_norm=0.4)


@veridp.mechanism(mu=0.5, adjacency="add-remove", domain=(-3, 3))
def ghost_clipping_fixed(gradients):
    """Both use the same norm."""
    return ghost_step(gradients, noise_multiplier=2.0, max_grad_norm=0.4, clip_at=0.4)


# ------------------------------------------------------------------------------------------ the batch is clipped


@veridp.mechanism(epsilon=1.0, adjacency="replace", domain=(-3, 3))
def batch_clipping(gradients, *, epsilon=1.0):
    """The average gradient is clipped, not each gradient, with noise for the average of clipped ones.

    Source: https://github.com/APPFL/APPFL/issues/349
    """
    average = clipped(float(np.mean(gradients)), 1.0)
    return average + np.random.laplace(scale=2 * 1.0 / len(gradients) / epsilon)


@veridp.mechanism(epsilon=1.0, adjacency="replace", domain=(-3, 3))
def batch_clipping_fixed(gradients, *, epsilon=1.0):
    """Each gradient is clipped."""
    average = float(np.mean([clipped(gradient, 1.0) for gradient in gradients]))
    return average + np.random.laplace(scale=2 * 1.0 / len(gradients) / epsilon)


# ---------------------------------------------------------------------------------------- each parameter is clipped


UPDATES = [(a, b, c, d) for a in (-2.0, 2.0) for b in (-2.0, 2.0) for c in (-2.0, 0.5) for d in (0.0, 2.0)]


def noisy_update(update, norm, whole):
    values = np.array(update, dtype=float)
    if whole:
        values = values * min(1.0, norm / np.linalg.norm(values))
    else:
        values = np.array([clipped(value, norm) for value in values])
    return values + np.random.normal(0, 2 * norm / 1.0, size=values.shape)


@veridp.mechanism(mu=1.0, adjacency="any", domain=UPDATES, size=1)
def parameter_clipping(update):
    """A client's update: the norm is applied to each parameter in turn, the noise is for the update as a whole.

    Source: https://github.com/fedbiomed/fedbiomed/issues/1443
    """
    return noisy_update(update, norm=1.0, whole=False)


@veridp.mechanism(mu=1.0, adjacency="any", domain=UPDATES, size=1)
def parameter_clipping_fixed(update):
    """The norm of the whole update is bounded."""
    return noisy_update(update, norm=1.0, whole=True)


# ---------------------------------------------------------------------------------------- the inverse of a scale


def vote(labels, scale):
    counts = np.zeros(2)
    for label in labels:
        counts[label] += 1
    return int(np.argmax(counts + np.random.laplace(0, scale, size=2)))


@veridp.mechanism(epsilon=1.0, adjacency="replace", domain=[0, 1])
def teacher_vote(labels, *, lamda=0.5):
    """The noisy vote of the teachers of PATE-GAN costs 2λ, with noise of scale 1/λ; the code has λ.

    Source: https://github.com/vanderschaarlab/mlforhealthlabpub/issues/36
    """
    return vote(labels, scale=lamda)


@veridp.mechanism(epsilon=1.0, adjacency="replace", domain=[0, 1])
def teacher_vote_fixed(labels, *, lamda=0.5):
    """The scale is 1/λ."""
    return vote(labels, scale=1 / lamda)


# ----------------------------------------------------------------------------- the values that were not chosen again


def sparse_weights(weights, rng, start_from_zero):
    """About half of the weights by the sparse vector technique, with noise; all others should be zero."""
    gamma, epsilon, upload = 1.0, 1.0, max(1, len(weights) // 2)
    weights = np.clip(np.array(weights, dtype=float), -gamma, gamma)
    threshold = 0.2 + rng.laplace(scale=2 * gamma * 2 / epsilon)
    accepted, waiting = [], list(range(len(weights)))
    rounds = 0
    while len(accepted) < upload and rounds < 3:
        passing = [i for i in waiting if abs(weights[i]) + rng.laplace(scale=8 * gamma * upload / epsilon) >= threshold]
        accepted += passing
        waiting = [i for i in waiting if i not in passing]
        rounds += 1
    if len(accepted) == 0:
        return [0.0] * len(weights)
    chosen = rng.choice(accepted, size=min(upload, len(accepted)))
    released = np.zeros(len(weights)) if start_from_zero else weights.copy()
    for i in chosen:
        released[i] = np.clip(weights[i] + rng.laplace(scale=8 * gamma * upload / epsilon), -gamma, gamma)
    for i in waiting:
        released[i] = 0.0
    return [float(value) for value in released]


@veridp.mechanism(epsilon=1.0, adjacency="replace", domain=(-1, 1))
def sparse_update(rng, weights):
    """Weights above a noisy threshold are drawn with replacement for noise; one that is not drawn is sent as it is.

    Source: https://github.com/NVIDIA/NVFlare/issues/343
    """
    return sparse_weights(weights, rng, start_from_zero=False)


@veridp.mechanism(epsilon=1.0, adjacency="replace", domain=(-1, 1))
def sparse_update_fixed(rng, weights):
    """All but the noisy weights are zero."""
    return sparse_weights(weights, rng, start_from_zero=True)
