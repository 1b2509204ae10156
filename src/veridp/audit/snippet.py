"""Python to paste that shows a witness again."""

from __future__ import annotations

import ast
import base64
import inspect
import itertools
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from veridp.adjacency import is_registered
from veridp.audit.case import AuditCase
from veridp.catalogue import catalogue
from veridp.claim import MOST_ENTRIES, MOST_RUNS, Witness
from veridp.mechanism import Mechanism

MOST_NAMES = 40  # that a function's source may depend on
MOST_PICKLED = 20_000  # characters


def snippet(case: AuditCase, witness: Witness) -> str:
    """Lines that compute the witness again, or sample it again where it was sampled."""
    arguments = [f"{name}={value!r}" for name, value in case.mechanism.arguments.items()]
    lines = ["import veridp", *_mechanism(case.mechanism, sampled=witness.confidence < 1)]
    if witness.confidence == 1:
        given = ", ".join(["mechanism", "left", "right", *arguments])
        inputs = f"left, right = {_data(witness.left)}, {_data(witness.right)}"
        lines += [*(["import numpy as np"] if "np." in inputs else []), inputs]
        lines += [f"print(veridp.exact.compare({given}).witness)"]
    else:
        stated = {name: value for name, value in case.claim.keywords.items() if value or name != "delta"}
        claimed = [f"{name}={value!r}" for name, value in stated.items() if not callable(value)]
        rest = [text for text in arguments if text.partition("=")[0] not in ("epsilon", "delta", *stated)]
        how = [f"size={case.size}", f"alpha={case.alpha!r}", f"seed={case.seed}", "black_box=True"]
        lines += [f"print(veridp.audit({', '.join(['mechanism', *claimed, *rest, *how])}).witness)"]
    return "\n".join(lines)


def _data(data: Any) -> str:
    """An input as Python; runs of a long list as products."""
    if isinstance(data, np.ndarray):
        return f"np.array({data.tolist()!r})"
    if not isinstance(data, list):
        return repr(data.item() if isinstance(data, np.generic) else data)
    texts = [_data(entry) for entry in data]
    runs = [(text, sum(1 for _ in run)) for text, run in itertools.groupby(texts)] if len(texts) > MOST_ENTRIES else []
    if 0 < len(runs) <= MOST_RUNS:
        return " + ".join(f"[{text}]" if count == 1 else f"[{text}] * {count}" for text, count in runs)
    return f"[{', '.join(texts)}]"


# ------------------------------------------------------------------------------------------------- the mechanism


def _mechanism(mechanism: Mechanism, sampled: bool) -> list[str]:
    """Lines that bring the mechanism in under that name, with the settings that the witness depends on."""
    *lines, last = _brought_in(mechanism)
    relation = mechanism.adjacency
    stated = {}
    if not is_registered(relation):
        if not _keeps_settings(mechanism):
            stated["adjacency"] = "'any'"  # under which any two inputs may be compared
    elif "adjacency" not in mechanism.assumed:
        stated["adjacency"] = repr(relation.name)
    if sampled and "domain" not in mechanism.assumed:
        stated["domain"] = repr(mechanism.domain)
    if not stated:
        return [*lines, last]
    return [*lines, f"{last}.stating({', '.join(f'{name}={value}' for name, value in stated.items())})"]


def _keeps_settings(mechanism: Mechanism) -> bool:
    """Whether the mechanism is brought in as the object that it is, with its own adjacency."""
    return bool(mechanism.origin) or any(catalogue[name].function is mechanism.function for name in catalogue)


def _brought_in(mechanism: Mechanism) -> list[str]:
    known = next((name for name in catalogue if catalogue[name].function is mechanism.function), None)
    if known is not None:
        return [f'mechanism = veridp.catalogue["{known}"]']
    if mechanism.origin:
        return _loaded(mechanism.origin)
    function = inspect.unwrap(mechanism.function)
    return (
        _imported(function)
        or _written_out(function)
        or _pickled(mechanism)
        or _named_in_session(mechanism)
        or ["audited = ...  # put here the object that was audited", "mechanism = veridp.mechanism(audited)"]
    )


def _loaded(target: str) -> list[str]:
    return ["from veridp.target import load", f"mechanism = load({target!r})"]


def _imported(function: Any) -> list[str]:
    """Lines that load the author's function from its file or package; none where it has no name there."""
    function = getattr(function, "__func__", function)
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    path, file = getattr(function, "__qualname__", ""), getattr(module, "__file__", None)
    if module is None or file is None or module.__name__ == "__main__" or not _leads_to(module, path):
        return []
    if Path(file).stem == module.__name__.rstrip("_") or "." in path:  # a file, not a package
        return _loaded(f"{file}:{path}")
    return _loaded(f"{module.__name__}:{path}")


def _leads_to(module: ModuleType, path: str) -> bool:
    found: Any = module
    for name in path.split("."):
        found = getattr(found, name, None)
    return found is not None


# --------------------------------------------------------------------- functions of notebooks, scripts and prompts


def _written_out(function: Any) -> list[str]:
    """The source of a function with all that it depends on; none where a part of it cannot be written out."""
    if not isinstance(function, FunctionType):
        return []
    try:
        lines, expression = _definition(function, set())
    except (OSError, TypeError, SyntaxError, ValueError):
        return []
    return [*lines, f"mechanism = veridp.mechanism({expression})"]


def _definition(function: FunctionType, seen: set[str]) -> tuple[list[str], str]:
    """Lines that define the function and what it uses, and the expression that names it; ValueError if it cannot."""
    lines: list[str] = []
    for name, value in _used(function):
        if name not in seen:
            seen.add(name)
            lines += _bound(name, value, seen)
    if len(seen) > MOST_NAMES:
        raise ValueError(f"{function.__name__} depends on too much")
    source = textwrap.dedent(inspect.getsource(function))
    if function.__name__ == "<lambda>":
        return lines, _lambda_text(source, function.__code__)
    (definition,) = ast.parse(source).body
    if not isinstance(definition, ast.FunctionDef):
        raise ValueError(f"{function.__name__} is not defined by def")
    return [*lines, *source.splitlines()[definition.lineno - 1 :]], function.__name__


def _used(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """The names that the function's code, and code within it, finds outside of it, with their values."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    yield from ((name, cell.cell_contents) for name, cell in cells)
    for name in sorted(_names(function.__code__)):
        if name in function.__globals__ and name != function.__name__:
            yield name, function.__globals__[name]


def _names(code: CodeType) -> set[str]:
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*map(_names, inner))


def _bound(name: str, value: Any, seen: set[str]) -> list[str]:
    """Lines that give the name this value."""
    if isinstance(value, ModuleType):
        return [f"import {value.__name__}" if value.__name__ == name else f"import {value.__name__} as {name}"]
    if isinstance(value, bool | int | float | str | tuple | list | dict | None):
        if ast.literal_eval(repr(value)) != value:
            raise ValueError(f"{name} has no literal")
        return [f"{name} = {value!r}"]
    module, path = getattr(value, "__module__", None) or "", getattr(value, "__qualname__", "")
    if module not in ("", "__main__") and path.isidentifier() and hasattr(sys.modules.get(module), path):
        return [f"from {module} import {path} as {name}" if path != name else f"from {module} import {path}"]
    if isinstance(value, FunctionType):
        lines, expression = _definition(value, seen)
        return lines if expression == name else [*lines, f"{name} = {expression}"]
    raise ValueError(f"{name} cannot be written out")


def _lambda_text(source: str, code: CodeType) -> str:
    """The lambda expression in the source that compiles to this code."""
    starts = [place for place in range(len(source)) if source.startswith("lambda", place)]
    for start in starts:
        for end in range(len(source), start, -1):
            text = source[start:end].strip()
            try:
                expression = ast.parse(text, mode="eval")
            except SyntaxError:
                continue
            if not isinstance(expression.body, ast.Lambda):
                continue
            inner = compile(expression, "<lambda>", "eval").co_consts[0]
            if (inner.co_code, inner.co_names) == (code.co_code, code.co_names):
                return text
    raise ValueError("the lambda is not in its source")


def _named_in_session(mechanism: Mechanism) -> list[str]:
    """The name that the function, or a mechanism of it, has in the session: the snippet can be pasted there."""
    for name, value in vars(sys.modules["__main__"]).items():
        if name.startswith("_"):
            continue
        where = f"# {name} is that of the session; elsewhere, paste its definition first"
        if value is mechanism.function:
            return [where, f"mechanism = veridp.mechanism({name})"]
        if isinstance(value, Mechanism) and value.function is mechanism.function:
            return [where, f"mechanism = {name}"]
    return []


def _pickled(mechanism: Mechanism) -> list[str]:
    """The function itself as text, for the same version of Python."""
    import cloudpickle

    try:
        text = base64.b64encode(cloudpickle.dumps(mechanism.function))
    except Exception:  # whatever the object's own reduction raises
        return []
    if len(text) > MOST_PICKLED:
        return []
    return [
        "import base64, cloudpickle",
        f"mechanism = veridp.mechanism(cloudpickle.loads(base64.b64decode({text.decode()!r})))",
    ]
