"""Releases: written down in YAML or JSON, or recorded from a composed function as it runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from veridp.accounting.mechanisms import BLOCKS
from veridp.accounting.pairs import DominatingPair, Finite, GaussianPair, LaplacePair, gaussian_scale
from veridp.accounting.tree import (
    DominatingPairs,
    GuaranteeBasis,
    Leaf,
    Parallel,
    PostProcessed,
    ReleaseNode,
    Repeated,
    Sequential,
    Subsampled,
)
from veridp.claim import Claim
from veridp.errors import BadInput, NotExplorable, VeridpError
from veridp.kernel.explore import explore
from veridp.kernel.output import output_of
from veridp.mechanism import Function, Mechanism, as_mechanism
from veridp.mechanism.declared import AROUND_CALLS

# ----------------------------------------------------------------------------------------------------------- recording
# Which mechanisms a function calls: a composed function's release, as it runs.
#
# A function that calls mechanisms is a mechanism itself. Each call of a `Mechanism` that claims something, made while
# it runs, is a leaf; `part` tells which calls look at a part of the data of their own.


RUNS = 100  # of a function whose paths cannot be listed


def leaf_of_call(mechanism: Mechanism, data: Any) -> Leaf | None:
    """The leaf that a call amounts to; None where the mechanism claims nothing.

    Building blocks of `veridp.accounting.mechanisms` are known better than by their claim: one number with Laplace
    noise, and any with normal noise, by their losses.
    """
    claim = mechanism.claim
    if claim is None:
        return None
    block = BLOCKS.get(mechanism.name)
    if block is None or block.function is not mechanism.function or claim.notion is not None:
        return Leaf.of(mechanism)
    pair: DominatingPair = Finite.claimed(claim.epsilon, claim.delta)
    if block.name == "laplace" and _single(data):
        pair = LaplacePair(claim.epsilon)
    elif block.name == "gaussian":
        pair = GaussianPair(1 / gaussian_scale(claim.epsilon, claim.delta))
    return Leaf(str(mechanism), DominatingPairs.both(pair), GuaranteeBasis.PROVED, claim=claim)


def _single(data: Any) -> bool:
    try:
        return len(data) == 1
    except TypeError:
        return True


@dataclass
class Recorder:
    """What was called so far: the node being written down, innermost last."""

    frames: list[list[ReleaseNode | dict[str, list[ReleaseNode]]]] = field(default_factory=lambda: [[]])
    signature: list[str] = field(default_factory=list)

    def called(self, mechanism: Mechanism, rng: Any, data: Any) -> Any:
        """Write the call down, then run it; what it calls in turn is its own affair."""
        leaf = leaf_of_call(mechanism, data)
        if leaf is None:
            return mechanism.bound()(rng, data)
        self.frames[-1].append(leaf)
        self.signature.append(leaf.name)
        return _unheard(mechanism, rng, data)

    @property
    def release(self) -> Sequential:
        return Sequential([_node(entry) for entry in self.frames[0]])


def _unheard(mechanism: Mechanism, rng: Any, data: Any) -> Any:
    token = AROUND_CALLS.set(None)
    try:
        return mechanism.bound()(rng, data)
    finally:
        AROUND_CALLS.reset(token)


def _node(entry: ReleaseNode | dict[str, list[ReleaseNode]]) -> ReleaseNode:
    if isinstance(entry, dict):
        return Parallel({name: Sequential(nodes) for name, nodes in entry.items()})
    return entry


RECORDER: ContextVar[Recorder | None] = ContextVar("RECORDER", default=None)
# By signature. A function that is explored must not change what it can reach: so they are kept here, not in a closure.
RELEASES: ContextVar[dict[tuple[str, ...], Sequential]] = ContextVar("RELEASES")


@contextmanager
def recording() -> Iterator[Recorder]:
    """A recorder of the mechanisms that are called inside the block."""
    recorder = Recorder()
    heard, current = AROUND_CALLS.set(recorder.called), RECORDER.set(recorder)
    try:
        yield recorder
    finally:
        AROUND_CALLS.reset(heard)
        RECORDER.reset(current)


@contextmanager
def part(name: str) -> Iterator[None]:
    """What is called inside the block looks at this part of the data alone, and no record is in two parts.

    It is taken at its word: `veridp.audit` finds out where parts overlap.
    """
    recorder = RECORDER.get()
    if recorder is None:
        yield
        return
    recorder.signature.append(f"part {name}(")
    recorder.frames.append([])
    try:
        yield
    finally:
        inside = Sequential([_node(entry) for entry in recorder.frames.pop()])
        recorder.signature.append(")")
        here = recorder.frames[-1]
        if not here or not isinstance(here[-1], dict):
            here.append({})
        parts = here[-1]
        assert isinstance(parts, dict)  # noqa: S101 - for the type checker
        parts.setdefault(name, []).append(inside)


@dataclass(frozen=True, eq=False)
class Recorded:
    """The releases that a function makes on its ways through it, each once; `every` tells whether these are all."""

    releases: tuple[Sequential, ...]
    every: bool


def releases_of(mechanism: Mechanism | Function, *data: Any, seed: int = 0, **arguments: Any) -> Recorded:
    """The releases of a composed function on these inputs: on all its paths, or on as many random runs as is usual.

    Nothing is said of inputs that were not given, nor of noise that the function draws, or data that it shows, past the
    mechanisms that it calls: what it costs in truth is for `veridp.exact` and `veridp.audit` to find out.
    """
    import numpy as np

    mechanism = as_mechanism(mechanism, **arguments)

    def recorded(rng: Any, given: Any) -> Any:
        with recording() as recorder:
            output = output_of(mechanism.bound(), rng, given)  # what was released before it raised counts too
        RELEASES.get()[tuple(recorder.signature)] = recorder.release
        return output

    every, found = True, dict[tuple[str, ...], Sequential]()
    outer = RELEASES.set(found)
    try:
        for number, given in enumerate(data):
            try:
                explore(Mechanism(recorded), given, functions=False)
            except NotExplorable:
                every = False
                rng = np.random.default_rng([seed, number])
                for _ in range(RUNS):
                    recorded(rng, given)
    finally:
        RELEASES.reset(outer)
    if not found:
        raise BadInput(f"{mechanism}: no input to run it on; give at least one")
    return Recorded(tuple(found.values()), every)


# ------------------------------------------------------------------------------------------------------------- release
# Releases written down in YAML or JSON: read, checked against the schema, made into trees. Errors name the node.


Load = Callable[[str], Mechanism]  # the mechanism that a target names


@dataclass(frozen=True, eq=False)
class ReleaseFile:
    """A release, the δ that it is to be accounted at and the budget that it has to keep to, where these are given."""

    release: ReleaseNode
    delta: float | None = None
    budget: Claim | None = None


@cache
def schema() -> dict[str, Any]:
    """The JSON schema of release files."""
    found: dict[str, Any] = json.loads((files("veridp.accounting") / "release.schema.json").read_text(encoding="utf-8"))
    return found


def read_release(path: Path, load: Load) -> ReleaseFile:
    """The release that a YAML or JSON file writes down."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: cannot be read ({error}); give a YAML or JSON file") from None
    try:
        return parse_release(_parsed(text), load)
    except VeridpError as error:
        raise type(error)(f"{path}: {error}") from None
    except RecursionError:
        raise BadInput(f"{path}: a node contains itself, or too many others; write it out flat") from None


def _parsed(text: str) -> Any:
    """The document that a YAML (or JSON, which is YAML) text stands for; BadInput where a key is there twice.

    YAML's own way is to keep the last of them, and a mechanism would go uncounted.
    """
    import yaml

    class Loader(yaml.SafeLoader):
        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            seen = set()
            for key, _ in node.value:
                if key.value in seen:
                    line = key.start_mark.line + 1
                    raise BadInput(f"line {line}: {key.value!r} occurs twice; use different names")
                seen.add(key.value)
            return super().construct_mapping(node, deep)

    try:
        return yaml.load(text, Loader)  # noqa: S506 - a safe loader
    except yaml.YAMLError as error:
        raise BadInput(f"not YAML: {' '.join(str(error).split())}; correct it") from None


def parse_release(document: Any, load: Load) -> ReleaseFile:
    """The release that a document of plain dictionaries, lists and numbers stands for."""
    document = _with_numbers(document)
    _validate(document)
    with _placed("budget"):
        budget = Claim(**document["budget"]) if "budget" in document else None
    return ReleaseFile(_parsed_node(document["release"], "release", load), document.get("delta"), budget)


@contextmanager
def _placed(place: str) -> Iterator[None]:
    """Errors of the block with the place that they are about."""
    try:
        yield
    except VeridpError as error:
        raise type(error)(f"{place}: {error}") from None


def _with_numbers(value: Any) -> Any:
    """The document with numbers such as 1e-5, which YAML 1.1 takes for text, as numbers."""
    if isinstance(value, Mapping):
        return {
            key: (entry if key in ("name", "by", "target") else _with_numbers(entry)) for key, entry in value.items()
        }
    if isinstance(value, list):
        return [_with_numbers(entry) for entry in value]
    if isinstance(value, str) and "e" in value.lower() and value[:1] in "+-.0123456789":
        try:
            return float(value)
        except ValueError:
            return value
    return value


def _validate(document: Any) -> None:
    """BadInput with the place of the innermost thing that is wrong, and what is expected there."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match

    error = best_match(Draft202012Validator(schema()).iter_errors(document))
    if error is None:
        return
    place = "".join(_steps(error.absolute_path)).lstrip(".") or "the file"
    raise BadInput(f"{place}: {error.message}; {_expected(error)}")


def _steps(path: Any) -> Iterator[str]:
    for step in path:
        yield f"[{step}]" if isinstance(step, int) else f".{step}"


def _expected(error: Any) -> str:
    """What the schema would have there."""
    expected = error.schema
    if error.validator in ("additionalProperties", "required", "minProperties", "maxProperties"):
        known = ", ".join(expected.get("properties", {}))
        one = "one of " if expected.get("maxProperties") == 1 else ""
        return f"give {one}{known}" if known else "give at least one entry"
    if error.validator == "enum":
        return f"give one of {', '.join(map(str, expected['enum']))}"
    if error.validator == "type":
        return f"give {'an' if expected['type'][0] in 'aio' else 'a'} {expected['type']}"
    return "give a value in range"


def _parsed_node(document: Mapping[str, Any], place: str, load: Load) -> ReleaseNode:
    """The node of a validated document; an impossible value is an error that names its place."""
    ((kind, content),) = document.items()
    here = f"{place}.{kind}"
    if kind == "sequential":
        return Sequential([_parsed_node(part, f"{here}[{number}]", load) for number, part in enumerate(content)])
    if kind == "parallel":
        parts = {name: _parsed_node(part, f"{here}.parts.{name}", load) for name, part in content["parts"].items()}
        return Parallel(parts, fixed=content.get("fixed", False))
    if "of" not in content:
        with _placed(here):
            return _leaf(kind, dict(content), load)
    inner = _parsed_node(content["of"], f"{here}.of", load)
    with _placed(here):
        if kind == "post_processed":
            return PostProcessed(inner, content.get("by", ""))
        return Subsampled(content["rate"], inner) if kind == "subsampled" else Repeated(content["times"], inner)


def _leaf(kind: str, content: dict[str, Any], load: Load) -> Leaf:
    if kind == "laplace":
        return Leaf.laplace(**content)
    if kind == "gaussian":
        return Leaf.gaussian(**content)
    if kind == "randomised_response":
        return Leaf.randomised_response(**content)
    basis = GuaranteeBasis(content.pop("basis", GuaranteeBasis.CLAIMED.value))
    if kind == "claim":
        named = {key: content.pop(key) for key in ("name", "relation") if key in content}
        return Leaf.stated(Claim.stated(**content), **named, basis=basis)
    mechanism = load(content["target"]).bind(**content.get("arguments", {}))
    if "left" not in content:
        return Leaf.of(mechanism, basis=basis)
    from veridp.engines.exact import compare

    comparison = compare(mechanism, content["left"], content["right"])
    return Leaf.exact(comparison, dominating=content.get("dominating", False))
