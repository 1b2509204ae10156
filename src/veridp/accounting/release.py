"""Releases written down in YAML or JSON: read, checked against the schema, made into trees. Errors name the node."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from veridp.accounting.tree import (
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
from veridp.errors import BadInput, VeridpError
from veridp.mechanism import Mechanism

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
    return ReleaseFile(_node(document["release"], "release", load), document.get("delta"), budget)


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


def _node(document: Mapping[str, Any], place: str, load: Load) -> ReleaseNode:
    """The node of a validated document; what its values make impossible is told with its place."""
    ((kind, content),) = document.items()
    here = f"{place}.{kind}"
    if kind == "sequential":
        return Sequential([_node(part, f"{here}[{number}]", load) for number, part in enumerate(content)])
    if kind == "parallel":
        parts = {name: _node(part, f"{here}.parts.{name}", load) for name, part in content["parts"].items()}
        return Parallel(parts, fixed=content.get("fixed", False))
    if "of" not in content:
        with _placed(here):
            return _leaf(kind, dict(content), load)
    inner = _node(content["of"], f"{here}.of", load)
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
        return Leaf.claimed(**content, basis=basis)
    mechanism = load(content["target"]).bind(**content.get("arguments", {}))
    if "left" not in content:
        return Leaf.of(mechanism, basis=basis)
    from veridp.engines.exact import compare

    comparison = compare(mechanism, content["left"], content["right"])
    return Leaf.exact(comparison, dominating=content.get("dominating", False))
