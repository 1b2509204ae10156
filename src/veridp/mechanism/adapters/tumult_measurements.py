"""Measurements of Tumult Core as mechanisms, run by an interpreter of their own: Tumult needs an older NumPy."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from veridp.claim import MAKERS
from veridp.errors import BadInput, MechanismFailed
from veridp.mechanism.adapters.foreign import TAIL, Command, foreign
from veridp.mechanism.adapters.worst_pairs import extreme_pairs, farthest_pairs
from veridp.mechanism.declared import Mechanism

PROGRAM = Path(__file__).with_name("tumult_program.py")
# For each input metric of Tumult, neighbours at distance 1 in it. Of vectors, only those that differ in one entry.
NEIGHBOURS = {
    "AbsoluteDifference": "linf",
    "SumOf": "l1",
    "RootSumOfSquared": "l1",
    "SymmetricDifference": "add-remove-unordered",
    "HammingDistance": "replace-unordered",
}
VALUES: dict[str, Any] = {"NumpyIntegerDomain": range(-10, 11), "NumpyFloatDomain": (-10.0, 10.0)}


def tumult(target: str, *, python: str, seconds: float = 60.0, **options: Any) -> Mechanism:
    """The measurement `file.py:name` of Tumult Core as a mechanism, with the claim of its own privacy function.

    `python` is the interpreter of an environment with `tmlt.core`; it is started once in each process, which may take
    `seconds`. Neighbours are at distance 1 in the input metric. Inputs are numbers, Series or Spark frames; these last
    are made of the rows that `domain` lists.
    """
    file, _, name = target.rpartition(":")
    if not file or not Path(file).is_file():
        raise BadInput(
            f"{target!r} is not a measurement; give a file and the name of one in it, as in 'counts.py:total'"
        )
    words = (python, str(PROGRAM), file, name)
    said = _described(words, seconds)
    stated = any(claim in options for claim in ("epsilon", *MAKERS))
    known: dict[str, Any] = {} if stated else dict(said["claim"])
    if not known and not stated:
        raise BadInput(f"Tumult's {said['measure']} has no counterpart here; give the claim, with epsilon=…")
    if said["metric"] in NEIGHBOURS:
        known["adjacency"] = NEIGHBOURS[said["metric"]]
    elif "adjacency" not in options:
        raise BadInput(
            f"Tumult's {said['metric']} is not supported; state neighbours and claim: adjacency=…, epsilon=…"
        )
    if said["element"] in VALUES:
        known |= {"domain": VALUES[said["element"]], "assumed": frozenset({"domain"} - options.keys())}
    elif "domain" not in options:
        raise BadInput(
            f"Tumult's {said['domain']} has no values that can be listed here; give some rows with domain=[…]"
        )
    numbers = said["metric"] in ("AbsoluteDifference", "SumOf", "RootSumOfSquared")
    known |= {"worst": farthest_pairs if numbers else extreme_pairs}
    known |= {"size": 1} if said["domain"] == said["element"] and numbers else {}
    return foreign(Command(words, seconds, keep=True, title=f"tumult_{name}"), **known | options)


def _described(words: tuple[str, ...], seconds: float) -> dict[str, Any]:
    """What the measurement says of itself."""
    try:
        run = subprocess.run(  # noqa: S603 - the user's own interpreter, without a shell
            (*words, "--describe"), capture_output=True, text=True, timeout=seconds, check=False
        )
    except OSError as error:
        raise BadInput(f"{words[0]}: {error.strerror}; give python=… of an environment with tmlt.core") from None
    except subprocess.TimeoutExpired:
        raise BadInput(f"{words[2]} was not loaded within {seconds:g} s; give it longer with seconds=…") from None
    if run.returncode:
        raise MechanismFailed(f"{words[2]} cannot be loaded by {words[0]}: {run.stderr.strip()[-TAIL:]}")
    return dict(json.loads(run.stdout.splitlines()[-1]))
