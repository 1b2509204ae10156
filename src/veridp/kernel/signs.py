"""Noise with a sign by chance: paths that are mirror images of each other, as one that draws noise on both sides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from veridp.kernel.distributions import exact
from veridp.kernel.expressions import Affine
from veridp.kernel.noise import Exponential, Laplace
from veridp.kernel.path import Fork, Option, Path, Step, map_leaves
from veridp.kernel.substitution import expressions_in, formula_of, leaf_key, substituted, within
from veridp.kernel.symbols import Noise, Symbol, drawn_in


def with_signs(paths: Sequence[Path]) -> list[Path]:
    """The paths, with pairs that differ in the sign of an exponential draw alone as one that draws Laplace noise.

    Let a path hold with weight w where C(n), n exponential of scale b, and another where C(-n), with the same weight.
    Together they have the probability ∫ w [C(n)] e^(-n/b)/b dn over n >= 0, and as much over n < 0 with |n|: that of
    weight 2w where C(m), m being Laplace noise of scale b, whose density is e^(-|m|/b)/2b. Their outputs agree
    likewise.
    """
    found = list(paths)
    for place in sorted({n.index for path in found for n in path.noises if isinstance(n.distribution, Exponential)}):
        waiting: dict[object, tuple[int, bool]] = {}
        joined: list[Path | None] = list(found)
        for number, path in enumerate(found):
            noise = next((n for n in path.noises if n.index == place), None)
            if noise is None or not isinstance(noise.distribution, Exponential):
                continue
            key, positive = _sign_key(path, noise)
            if key is None:
                continue
            if key in waiting and waiting[key][1] != positive:
                other, _ = waiting.pop(key)
                joined[other], joined[number] = _joined(found[other], noise), None
            else:
                waiting.setdefault(key, (number, positive))
        kept = [path for path in joined if path is not None]
        if len({noise.distribution for path in kept for noise in asked_of(path) if noise.index == place}) <= 1:
            found = kept  # else the conditions of all paths would no longer part the noise
    return found


def asked_of(path: Path) -> set[Noise]:
    return {s for c in path.conditions for s in drawn_in(c.slack.terms) if isinstance(s, Noise)}


def _sign_key(path: Path, noise: Noise) -> tuple[object, bool]:
    """What the path says but for the sign of a draw, and that sign; None where it does not name the draw."""
    parts = (part for e in expressions_in(path.output, path.conditions) for part in within(e))
    factor = next((part.terms[noise] for part in parts if noise in part.terms), None)
    if factor is None:
        return None, True
    turned = path if factor > 0 else _turned(path, noise)
    conditions = frozenset((c.relation, c.slack.key) for c in turned.conditions)
    shown: list[object] = []
    structure = map_leaves(lambda leaf: shown.append(leaf_key(leaf)), turned.output)
    return (repr(structure), tuple(shown), conditions, path.weight, path.noises), factor > 0


def _turned(path: Path, noise: Noise) -> Path:
    """The path with the sign of a draw turned; its draws are those of the path all the same."""
    return _replaced(path, {noise: Affine(0, {noise: -1})}, path.noises, 1)


def _joined(first: Path, noise: Noise) -> Path:
    """The path as one with that which has the other sign."""
    laplace = Noise(noise.index, Laplace(noise.distribution.scale), noise.site, formula=signed_text(noise))  # type: ignore[attr-defined]
    noises = tuple(laplace if n.index == noise.index else n for n in first.noises)
    return _replaced(first, {noise: Affine(0, {laplace: 1})}, noises, 2)


def _replaced(path: Path, made: Mapping[Symbol, Affine], noises: Sequence[Noise], factor: int) -> Path:
    """The path with expressions in place of symbols, and its weight times a factor."""
    steps: list[Step] = list(noises)
    for fork in path.forks:
        if not fork.implied and fork.option.conditions:
            told = Option(tuple(substituted(c, made) for c in fork.option.conditions), 1, fork.option.label)
            steps.append(Fork((told,), 0, fork.site))
    if (weight := exact(Fraction(path.weight) * factor)) != 1:
        rounded = any(fork.option.rounded for fork in path.forks)
        steps.append(Fork((Option((), weight, "chance", rounded),), 0, path.forks[0].site))
    return Path(tuple(steps), map_leaves(lambda leaf: substituted(leaf, made), path.output))


def signed_text(noise: Noise) -> str:
    return f"a random sign times {formula_of(noise)}"
