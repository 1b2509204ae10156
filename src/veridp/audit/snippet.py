"""Python to paste that shows a witness again."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any

from veridp.adjacency import BY_NAME
from veridp.audit.case import Case
from veridp.catalogue import catalogue
from veridp.claim import Witness
from veridp.mechanism import Mechanism, as_mechanism


def snippet(case: Case, witness: Witness) -> str:
    """Lines that compute the witness again, or sample it again where it was sampled."""
    arguments = [f"{name}={value!r}" for name, value in case.mechanism.arguments.items()]
    lines = ["import veridp", *_mechanism(case.mechanism)]
    if witness.confidence == 1:
        given = ", ".join(["mechanism", "left", "right", *arguments])
        lines += [f"left, right = {witness.left!r}, {witness.right!r}", f"print(veridp.exact.compare({given}).witness)"]
    else:
        claimed = [f"epsilon={case.claim.epsilon!r}"] + ([f"delta={case.claim.delta!r}"] if case.claim.delta else [])
        rest = [text for text in arguments if text.partition("=")[0] not in ("epsilon", "delta")]
        how = [f"size={case.size}", f"alpha={case.alpha!r}", f"seed={case.seed}", "black_box=True"]
        lines += [f"print(veridp.audit({', '.join(['mechanism', *claimed, *rest, *how])}).witness)"]
    return "\n".join(lines)


def _mechanism(mechanism: Mechanism) -> list[str]:
    """Lines that bring the mechanism in under that name, with its neighbours."""
    known = next((name for name in catalogue if catalogue[name].function is mechanism.function), None)
    if known is not None:
        lines, base = [f'mechanism = veridp.catalogue["{known}"]'], catalogue[known]
    else:
        lines, base = _imported(mechanism)
    relation = mechanism.adjacency
    if base.adjacency == relation or BY_NAME.get(relation.name) != relation:
        return lines
    return [
        *lines,
        "from dataclasses import replace",
        "from veridp.adjacency import adjacency",
        f'mechanism = replace(mechanism, adjacency=adjacency("{relation.name}"))',
    ]


def _imported(mechanism: Mechanism) -> tuple[list[str], Mechanism]:
    """Lines that load the author's function, and the mechanism that they give."""
    function = inspect.unwrap(mechanism.function)
    module = sys.modules.get(getattr(function, "__module__", ""))
    path = getattr(function, "__qualname__", "")
    file = getattr(module, "__file__", None)
    found: Any = getattr(module, path, None) if path.isidentifier() else None
    if module is None or file is None or found is None:
        return ["mechanism = ...  # as it was given to the audit"], mechanism
    base = as_mechanism(found)
    if module.__name__ == "__main__" or Path(file).stem == module.__name__.rstrip("_"):  # a file, not a package
        return ["from veridp.target import load", f"mechanism = load({f'{file}:{path}'!r})"], base
    imported = [f"from {module.__name__} import {path}"]
    wrapped = path if isinstance(found, Mechanism) else f"veridp.mechanism()({path})"
    return [*imported, f"mechanism = {wrapped}"], base
