"""Attacks as sentences about the output, as plain as the classifier allows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veridp.engines.sniper.attack import ThresholdAttack
from veridp.engines.sniper.classifier import LinearModel, Model, Network, SingleFeature
from veridp.kernel.identity import Raised, leaf_text, tree_text
from veridp.sampling.outputs import Outputs

MAX_LISTED_OUTPUTS = 64  # different outputs that can be listed
SHOWN = 6
TERMS = 4
SPANS = 3
SLIGHT = 0.02  # weights below this share of the largest are not worth a word


def described(attack: ThresholdAttack, outputs: Outputs) -> str:
    """A sentence about which outputs belong to the attack; the outputs are some that occur on either side.

    It tells them for certain only where it is a comparison: rare outputs that are not among these are not listed, small
    weights are left out, and a classifier of many columns is only named.
    """
    sign = attack.scorer.sign
    model, names = attack.scorer.model, attack.scorer.columns.names
    listed = _listed(attack, outputs)
    if listed is not None:
        return listed + _coin(attack)
    if isinstance(model, SingleFeature):
        direction = sign * model.sign
        bound = direction * attack.level
        if names[0].startswith("[") and 0 < bound <= 1:  # a flag, which is 0 or 1
            return f"{'' if direction > 0 else 'not '}{names[0]}{_coin(attack)}"
        return f"{names[0]} {'>=' if direction > 0 else '<='} {bound:.6g}{_coin(attack)}"
    weights = _weights(model)
    if weights is not None:
        return _weighted(weights[0], weights[1], names, sign, attack.level) + _coin(attack)
    spans = _spans(attack, outputs) if len(names) == 1 and attack.tie in (0.0, 1.0) else None
    if spans is not None:
        return spans
    shown = ", ".join(names[:TERMS]) + (f" and {len(names) - TERMS} more columns" if len(names) > TERMS else "")
    return f"score by {model.family} of {shown} {'>=' if sign > 0 else '<='} {sign * attack.level:.6g}{_coin(attack)}"


def _coin(attack: ThresholdAttack) -> str:
    return "" if attack.tie in (0.0, 1.0) else f", with probability {attack.tie:.6g} where equal"


def _listed(attack: ThresholdAttack, outputs: Outputs) -> str | None:
    """The outputs of the attack one by one, or those that are not of it, where there are few in all."""
    first = np.nan_to_num(outputs.matrix()[:500])
    if any(template.slots for template in outputs.templates) and len(np.unique(first, axis=0)) > MAX_LISTED_OUTPUTS:
        return None
    counts = outputs.distinct()
    if len(counts) > MAX_LISTED_OUTPUTS or attack.tie not in (0.0, 1.0):
        return None
    by_count = sorted(counts, key=lambda output: -counts[output])
    taken = [output for output in by_count if attack.holds(output)]
    left_out = [output for output in by_count if not attack.holds(output)]
    if len(left_out) < len(taken):
        return _choice(left_out, "not ", "none of ") if left_out else "any output"
    return _choice(taken, "", "one of ") if taken else "none of the outputs that were seen"


def _choice(outputs: Sequence[Any], one: str, several: str) -> str:
    if len(outputs) == 1:
        only = outputs[0]
        return str(only) if isinstance(only, Raised) and not one else f"output is {one}{_shown(only)}"
    more = f" or {len(outputs) - SHOWN} more" if len(outputs) > SHOWN else ""
    return f"output is {several}{', '.join(map(_shown, outputs[:SHOWN]))}{more}"


def _shown(output: Any) -> str:
    def text(leaf: Any) -> str:
        return (
            f"{leaf:.6g}" if isinstance(leaf, float) else f"({leaf})" if isinstance(leaf, Raised) else leaf_text(leaf)
        )

    return tree_text(output, text)


def _weights(model: Model) -> tuple[NDArray[np.float64], float] | None:
    """Weights on the columns as they are, and the constant, where the score is a weighted sum."""
    if isinstance(model, LinearModel):
        scaled, bias = model.weights, 0.0
    elif isinstance(model, Network) and len(model.layers) == 1:
        scaled, bias = model.layers[0][0][:, 0].astype(np.float64), float(model.layers[0][1][0])
    else:
        return None
    weights = scaled / model.scale.deviations
    return weights, bias - float(weights @ model.scale.means)


def _weighted(weights: NDArray[np.float64], constant: float, names: Sequence[str], sign: int, level: float) -> str:
    """The weighted sum against its level, scaled so that the largest weight is 1."""
    weights, level = sign * weights, level - sign * constant
    size = float(np.max(np.abs(weights))) or 1.0
    order = [place for place in np.argsort(-np.abs(weights)).tolist() if abs(weights[place]) >= SLIGHT * size]
    if len(order) == 1 and weights[order[0]] < 0:
        return f"{names[order[0]]} <= {-level / size:.6g}"
    text = ""
    for place in order[:TERMS]:
        factor = weights[place] / size
        size_text = "" if abs(factor) == 1 else f"{abs(factor):.3g}·"
        joint = ("-" if factor < 0 else "") if not text else (" - " if factor < 0 else " + ")
        text += f"{joint}{size_text}{names[place]}"
    more = f" + {len(order) - TERMS} more terms" if len(order) > TERMS else ""
    return f"{text}{more} >= {level / size:.6g}"


def _spans(attack: ThresholdAttack, outputs: Outputs) -> str | None:
    """The intervals of the one column in which outputs belong to the attack, as far as these outputs tell."""
    column = attack.scorer.columns.matrix(outputs)[:, 0]
    order = np.argsort(column)
    column, inside = column[order], attack(outputs)[order]
    edges = np.flatnonzero(np.diff(np.concatenate([[0], inside.astype(np.int8), [0]])))
    spans = list(zip(edges[::2].tolist(), (edges[1::2] - 1).tolist(), strict=True))
    if not 1 <= len(spans) <= SPANS or np.isnan(column).any():
        return None
    name = attack.scorer.columns.names[0]
    return " or ".join(_span(name, column, first, last) for first, last in spans)


def _span(name: str, column: NDArray[np.float64], first: int, last: int) -> str:
    if first == 0:
        return f"{name} <= {column[last]:.6g}"
    if last == len(column) - 1:
        return f"{name} >= {column[first]:.6g}"
    return f"{name} in [{column[first]:.6g}, {column[last]:.6g}]"
