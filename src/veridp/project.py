"""A project: which mechanisms its files and packages hold, and what its pyproject.toml says of audits."""

from __future__ import annotations

import ast
import importlib.machinery
import importlib.util
import math
import os
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from veridp.budget import Deadline
from veridp.catalogue import catalogue
from veridp.errors import BadInput, BadTarget
from veridp.kernel.site import is_users_code
from veridp.kernel.symbols import count_text
from veridp.mechanism import Mechanism
from veridp.target import LOADING, from_file, from_package, look_in, own_functions, with_mark

MENTIONS = (b"veridp", b"mark.dp")  # a file without any of these words states no claim, and is not run
NOT_SOURCES = frozenset({"__pycache__", "node_modules", "site-packages", "build", "dist"})
TABLE = "tool.veridp"


# ----------------------------------------------------------------------------------------------------------- discovery


@dataclass(frozen=True)
class Discovery:
    """The targets that a file, a folder or a package holds; what was passed over, in words; and what failed to load."""

    targets: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    failed: tuple[tuple[str, BadTarget], ...] = ()


def discover(target: str, deadline: Deadline | None = None) -> Discovery:
    """What the target stands for: itself, or all that is decorated or marked in a file, a folder or a package.

    A function is taken if `@veridp.mechanism` or `pytest.mark.dp` is on it. Of a folder, only files that mention
    one of these are loaded, which runs their top level. BadTarget where a file, a folder or a package has nothing.
    """
    if target in catalogue or ":" in target:
        return Discovery((target,))
    path = Path(target)
    if path.is_dir():
        found = _of_files(sorted(_sources(path)), deadline)
    elif path.suffix == ".py" and path.is_file():
        found = _of_module(target, from_file(path, _seconds(deadline)))
    elif all(part.isidentifier() for part in target.split(".")) and (files := _package_files(target)):
        found = _of_files(files, deadline)
    else:
        return Discovery((target,))  # whose name says what is wrong when it is loaded
    if not found.targets and not found.failed:
        listed = "".join(f"; {what}" for what in found.skipped)
        raise BadTarget(
            f"{target}: nothing in it states a claim{listed}; decorate a function with @veridp.mechanism(epsilon=…), "
            f"or name it with its claim: {target if target.endswith('.py') else 'file.py'}:function --epsilon 1"
        )
    return found


def sources_of_target(target: str) -> list[Path]:
    """The files whose change may change what the target stands for, as far as its name tells."""
    place = target.rpartition(":")[0] or target
    path = Path(place)
    if path.is_dir():
        return list(_sources(path))
    return [path] if path.suffix == ".py" else []


def loaded_sources() -> list[Path]:
    """The files of all modules that are loaded now, and are of no library."""
    modules = [module for name, module in list(sys.modules.items()) if not name.startswith("veridp_check")]
    files = [getattr(module, "__file__", None) for module in modules]
    return sorted({Path(file).resolve() for file in files if isinstance(file, str) and is_users_code(file)})


def _seconds(deadline: Deadline | None) -> float:
    return max(min(LOADING, math.inf if deadline is None else deadline.left), 1e-3)


def _sources(folder: Path) -> Iterator[Path]:
    """The Python files below a folder, but for hidden folders, virtual environments and what was built."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".") and name not in NOT_SOURCES and not (Path(place) / name / "pyvenv.cfg").exists()
        )
        yield from (Path(place) / name for name in sorted(names) if name.endswith(".py"))


def _package_files(name: str) -> list[Path]:
    """The files of a package or module; none where there is no such one."""
    look_in("")
    try:
        specification = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return []
    if specification is None or specification.origin is None:
        return [] if specification is None else _of_namespace(specification)
    places = specification.submodule_search_locations
    if places is None:
        return [Path(specification.origin)] if specification.origin.endswith(".py") else []
    return sorted(file for place in places for file in _sources(Path(place)))


def _of_namespace(specification: importlib.machinery.ModuleSpec) -> list[Path]:
    return sorted(file for place in specification.submodule_search_locations or () for file in _sources(Path(place)))


def _of_files(files: list[Path], deadline: Deadline | None) -> Discovery:
    """What the files hold together; a file that does not load has no targets, and is reported."""
    targets: list[str] = []
    skipped: list[str] = []
    failed: list[tuple[str, BadTarget]] = []
    silent = 0
    for file in files:
        if not any(word in file.read_bytes() for word in MENTIONS):
            silent += 1
            continue
        name = _module_name(file)
        try:
            module = from_package(name, _seconds(deadline)) if name else from_file(file, _seconds(deadline))
        except BadTarget as error:
            failed.append((str(file), error))
            continue
        found = _of_module(name or str(file), module)
        targets += found.targets
        skipped += found.skipped
    if silent:
        skipped.append(f"{count_text(silent, 'file')} without a word of veridp")
    return Discovery(tuple(targets), tuple(skipped), tuple(failed))


def _module_name(file: Path) -> str:
    """The dotted name of a file of a package, whose root can then be imported from; empty for a file by itself."""
    parts, folder = [file.stem], file.resolve().parent
    if not (folder / "__init__.py").exists():
        return ""
    while (folder / "__init__.py").exists():
        parts.insert(0, folder.name)
        folder = folder.parent
    look_in(str(folder))
    return ".".join(parts if parts[-1] != "__init__" else parts[:-1])


def _of_module(name: str, module: ModuleType) -> Discovery:
    """The decorated and marked functions that the module itself defines, and the names of the others."""
    targets, others = [], []
    for own, value in own_functions(module):
        plain = isinstance(value, type) or not (hasattr(value, "pytestmark") or isinstance(value, Mechanism))
        marked = type(value).__name__ == "MarkDecorator" or not plain
        found, stated = with_mark(value) if marked else (value, {})
        if isinstance(found, Mechanism) or stated:
            targets.append(f"{name}:{own}")
        elif not own.startswith("_"):
            others.append(own)
    skipped = [f"{name}: {', '.join(others)} without @veridp.mechanism or pytest.mark.dp"] if others else []
    return Discovery(tuple(targets), tuple(skipped))


# ------------------------------------------------------------------------------------------------------- configuration


@dataclass(frozen=True)
class ProjectSettings:
    """What `[tool.veridp]` says: targets and options of an audit, and settings for mechanisms that state none."""

    file: Path | None = None
    targets: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)  # time, alpha, seed, baseline
    stated: dict[str, Any] = field(default_factory=dict)  # adjacency, domain, size

    def completed(self, mechanism: Mechanism) -> Mechanism:
        """The mechanism with the project's settings in place of those that nobody stated for it."""
        stated = {name: value for name, value in self.stated.items() if name in mechanism.assumed}
        if not stated or mechanism.adjacency.lists_inputs:
            return mechanism
        return mechanism.stating(**stated)


OPTIONS: dict[str, tuple[type, ...]] = {
    "time": (int, float, str),
    "alpha": (float,),
    "seed": (int,),
    "baseline": (str,),
}
SETTINGS: dict[str, tuple[type, ...]] = {"adjacency": (str,), "domain": (list, str), "size": (int,)}


def project_settings(folder: Path) -> ProjectSettings:
    """`[tool.veridp]` of the nearest pyproject.toml, in this folder or above it; empty where there is none.

    Paths are those from the folder of the file. BadInput where it has a key or a value that means nothing.
    """
    for place in (folder, *folder.parents):
        file = place / "pyproject.toml"
        if file.is_file():
            return _read(file)
    return ProjectSettings()


def _read(file: Path) -> ProjectSettings:
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return ProjectSettings()  # not ours to complain of
    table = document.get("tool", {}).get("veridp", {})
    known = {"targets": (list,), **OPTIONS, **SETTINGS}
    for name, value in table.items():
        if name not in known:
            raise BadInput(f"{file}: [{TABLE}] has no key {name!r}; it has {', '.join(known)}")
        if isinstance(value, bool) or not isinstance(value, known[name]):
            kinds = " or ".join(kind.__name__ for kind in known[name])
            raise BadInput(f"{file}: {name} in [{TABLE}] must be {kinds}, got {value!r}")
    options = {name: table[name] for name in OPTIONS if name in table}
    if "time" in options:
        options["time"] = str(options["time"])  # as it is typed on a command line
    if "baseline" in options:
        options["baseline"] = os.path.relpath(file.parent / options["baseline"])
    stated = {name: table[name] for name in SETTINGS if name in table}
    if isinstance(stated.get("domain"), str):
        stated["domain"] = _interval(file, stated["domain"])
    return ProjectSettings(file, tuple(_target(file, one) for one in table.get("targets", ())), options, stated)


def _interval(file: Path, text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        raise BadInput(f"{file}: domain in [{TABLE}] is no Python literal; write '(0, 100)', or [0, 1]") from None


def _target(file: Path, target: object) -> str:
    """A target of the file, seen from here: paths are those from its folder."""
    if not isinstance(target, str):
        raise BadInput(f"{file}: targets in [{TABLE}] must be strings, got {target!r}")
    place, colon, name = target.rpartition(":") if ":" in target else (target, "", "")
    if place.endswith(".py") or (not colon and (file.parent / place).is_dir()):
        return f"{os.path.relpath(file.parent / place)}{colon}{name}"
    return target
