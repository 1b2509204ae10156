"""Noise with a sign by chance: paths that are mirror images of each other, as one that draws noise on both sides."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from veridp.kernel import functions as f
from veridp.kernel.distributions import Distribution, Number, exact
from veridp.kernel.expressions import Affine
from veridp.kernel.noise import Exponential, Geometric, Laplace, TruncatedLaplace, Uniform
from veridp.kernel.path import Fork, Option, Path, Step, map_leaves
from veridp.kernel.substitution import expressions_in, formula_of, functions_in, leaf_key, substituted, within
from veridp.kernel.symbols import Derived, Noise, Symbol, drawn_in

CUT_ROUNDING = Fraction(1, 1 << 50)  # relative: far more than that of a logarithm
ROUNDING = 1e-15  # relative: how far a float may be from the number that it stands for


@dataclass(frozen=True)
class CutOff(TruncatedLaplace):
    """Exponential noise of scale 1 that is cut off at `high`, where it has `least` = e^-high of its largest density.

    It is one side of truncated Laplace noise, and is always made part of such noise.
    """

    least: Fraction

    @classmethod
    def at(cls, least: Fraction) -> CutOff:
        return cls(1, 0, Fraction(-math.log(least)) * (1 - CUT_ROUNDING), least)


def with_signs(paths: Sequence[Path]) -> list[Path]:
    """The paths, with pairs that differ in the sign of an exponential draw alone as one that draws Laplace noise.

    Let a path hold with weight w where C(n), n exponential of scale b, and another where C(-n), with the same weight.
    Together they have the probability ∫ w [C(n)] e^(-n/b)/b dn over n >= 0, and as much over n < 0 with |n|: that of
    weight 2w where C(m), m being Laplace noise of scale b, whose density is e^(-|m|/b)/2b. Their outputs agree
    likewise. Noise that is cut off, where it has c of its largest density, has the density e^-n/(1 - c): there the
    weights by 1 - c must agree, and together the paths draw truncated noise.
    """
    found = list(paths)
    for place in sorted({n.index for path in found for n in path.noises if _is_one_sided(n)}):
        waiting: dict[object, tuple[int, bool]] = {}
        joined: list[Path | None] = list(found)
        for number, path in enumerate(found):
            noise = next((n for n in path.noises if n.index == place), None)
            if noise is None or not _is_one_sided(noise):
                continue
            key, positive = _sign_key(path, noise)
            if key is None:
                continue
            if key in waiting and waiting[key][1] != positive:
                other, _ = waiting.pop(key)
                joined[other], joined[number] = _joined(found[other], path, noise.index), None
            else:
                waiting.setdefault(key, (number, positive))
        kept = [path for path in joined if path is not None]
        if len({noise.distribution for path in kept for noise in asked_of(path) if noise.index == place}) <= 1:
            found = kept  # else the conditions of all paths would no longer part the noise
    return found


def with_two_sided_geometrics(paths: Sequence[Path]) -> list[Path]:
    """The paths, with pairs that differ in the sign of a rounded logarithm alone as one with two-sided geometric noise.

    Let X = ⌊log(W) / log(a)⌋, W uniform between 0 and (1 + a)/2, and a < 1. It is k where W is in (a^(k + 1), a^k]: for
    k = 0 with the probability ((1 + a)/2 - a) · 2/(1 + a) = (1 - a)/(1 + a), and for k > 0 with twice that times a^k.
    So with a random sign, which the 0 does not have, it is k with probability a^|k| (1 - a)/(1 + a), as the difference
    of two geometric draws is.
    """
    found = list(paths)
    fresh = max((noise.index for path in found for noise in path.noises), default=0)
    for place in sorted({n.index for path in found for n in path.noises if isinstance(n.distribution, Uniform)}):
        read = [_rounded_logarithm(path, place) for path in found]
        named = [(number, *each) for number, each in enumerate(read) if isinstance(each, tuple)]
        if not named or any(each is False for each in read):
            continue
        waiting: dict[object, tuple[int, bool]] = {}
        joined: list[Path | None] = list(found)
        fresh += 1
        for number, path, rounded in named:
            key, positive = _sign_key(path, rounded)
            if key in waiting and waiting[key][1] != positive:
                other, _ = waiting.pop(key)
                joined[other], joined[number] = _with_difference(path, rounded, fresh), None
            else:
                waiting.setdefault(key, (number, positive))
        if not waiting and sum(path is None for path in joined) * 2 == len(named):
            found = [path for path in joined if path is not None]
    return found


def _rounded_logarithm(path: Path, place: int) -> tuple[Path, Noise] | bool | None:
    """The path with one draw in place of X above, and this draw; it stands for X until there is a sign.

    None where the path does not name the uniform draw, False where it does so in another way.
    """
    noise = next((n for n in path.noises if n.index == place), None)
    expressions = expressions_in(path.output, path.conditions)
    if noise is None or not any(noise in drawn_in(e.terms) for e in expressions):
        return None
    for whole in dict.fromkeys(symbol for e in expressions for symbol in functions_in(e)):
        chance = _chance_to_end(whole, noise)
        if chance is not None:
            formula = f"a random sign times {formula_of(whole)}"
            rounded = Noise(place, Geometric(exact(chance)), noise.site, formula=formula)
            noises = [rounded if each is noise else each for each in path.noises]
            told = replaced(path, {whole: Affine(0, {rounded: 1})}, noises, 1)
            left = expressions_in(told.output, told.conditions)
            return False if any(noise in drawn_in(e.terms) for e in left) else (told, rounded)
    return False


def _chance_to_end(whole: Derived, noise: Noise) -> float | None:
    """1 - a, where this is ⌊log(W) / log(a)⌋ with W uniform between 0 and (1 + a)/2, up to rounding; else None."""
    argument = whole.arguments[0] if whole.function in (f.FLOOR, f.TRUNC) else None
    if not isinstance(argument, Affine) or argument.constant or len(argument.terms) != 1:
        return None
    ((log, factor),) = argument.terms.items()
    if not isinstance(log, Derived) or log.function is not f.LOG or not factor < 0:
        return None
    inner = log.arguments[0]
    if not isinstance(inner, Affine) or set(inner.terms) != {noise} or not isinstance(noise.distribution, Uniform):
        return None
    ends = [Fraction(inner.constant) + Fraction(inner.terms[noise]) * exact(end) for end in noise.distribution.support]
    top = (1 + math.exp(1 / float(factor))) / 2
    if min(ends) or not math.isclose(float(max(ends)), top, rel_tol=ROUNDING):
        return None
    return -math.expm1(1 / float(factor))


def _with_difference(path: Path, rounded: Noise, fresh: int) -> Path:
    """The path as one with that which has the other sign: a difference of geometric draws in place of the draw."""
    other = Noise(fresh, rounded.distribution, rounded.site, formula=rounded.formula)
    return replaced(path, {rounded: Affine(0, {rounded: 1, other: -1})}, (*path.noises, other), 2)


def _is_one_sided(noise: Noise) -> bool:
    return isinstance(noise.distribution, Exponential | CutOff)


def asked_of(path: Path) -> set[Noise]:
    return {s for c in path.conditions for s in drawn_in(c.slack.terms) if isinstance(s, Noise)}


def _sign_key(path: Path, noise: Noise) -> tuple[object, bool]:
    """What the path says but for the sign of a draw, and that sign; None where it does not name the draw."""
    parts = (part for e in expressions_in(path.output, path.conditions) for part in within(e))
    factor = next((part.terms[noise] for part in parts if noise in part.terms), None)
    if factor is None:
        return None, True
    turned = path if factor > 0 else _turned(path, noise)
    if isinstance(noise.distribution, CutOff):  # at whatever end
        turned = replaced(turned, {noise: Affine(0, {replace(noise, distribution=Laplace(1)): 1})}, (), 1)
    if not isinstance(noise.distribution, CutOff):
        return (said_by(turned), path.weight, path.noises), factor > 0
    weight = Fraction(path.weight) / (1 - noise.distribution.least)
    others = tuple(each for each in path.noises if each != noise)
    return (said_by(turned), weight, others), factor > 0


def said_by(path: Path) -> object:
    """What tells the output and the conditions of a path from those of others."""
    shown: list[object] = []
    structure = map_leaves(lambda leaf: shown.append(leaf_key(leaf)), path.output)
    return repr(structure), tuple(shown), frozenset((c.relation, c.slack.key) for c in path.conditions)


def _turned(path: Path, noise: Noise) -> Path:
    """The path with the sign of a draw turned; its draws are those of the path all the same."""
    return replaced(path, {noise: Affine(0, {noise: -1})}, path.noises, 1)


def _joined(first: Path, second: Path, place: int) -> Path:
    """The path as one with that which has the other sign."""
    noise, other = (next(n for n in path.noises if n.index == place) for path in (first, second))
    both: Distribution = Laplace(noise.distribution.scale)  # type: ignore[attr-defined]
    if isinstance(noise.distribution, CutOff) and isinstance(other.distribution, CutOff):
        both = TruncatedLaplace(1, exact(-Fraction(other.distribution.high)), noise.distribution.high)
    drawn = Noise(place, both, other.site, formula=signed_text(other))
    noises = tuple(drawn if n.index == noise.index else n for n in first.noises)
    whole = 1 + Fraction(second.weight) / Fraction(first.weight)
    return replaced(first, {noise: Affine(0, {drawn: 1})}, noises, whole)


def replaced(path: Path, made: Mapping[Symbol, Affine], noises: Sequence[Noise], factor: Number) -> Path:
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
