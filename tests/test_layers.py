"""Imports point downward only, and every folder says what lives in it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "veridp"

ENGINES = ("exact", "prove", "statdp", "sniper", "finder", "pipeline")  # folders of `engines`, each a unit of its own
JUDGE = "exact"  # what it says of a pair is computed, so the searchers may ask it; it asks nobody
PRICED = "pipeline"  # what it finds has a price, for which it asks accounting; it knows no other engine
# From the bottom to the top. A unit (a module or a folder of veridp, or an engine) may import units of lower layers,
# never one of its own layer: so engines do not know each other (but for the judge), and the catalogue knows none.
LAYERS = (
    ("errors", "presentation"),
    ("conversions",),
    ("notions",),
    ("tradeoff",),
    ("claim", "adjacency", "budget", "confidence"),
    ("verdict",),
    ("mechanism", "tidy", "numerics"),
    ("kernel", "catalogue", "result"),
    ("sampling",),
    (JUDGE,),
    (*(engine for engine in ENGINES if engine not in (JUDGE, PRICED)), "accounting", "local"),
    (PRICED,),
    ("collect",),
    ("report",),
    ("target",),
    ("project",),
    ("audit",),
    ("cli", "pytest_plugin"),
    ("__main__",),
)
HEIGHT = {unit: height for height, layer in enumerate(LAYERS) for unit in layer}
# Lower layers that a unit has no business with.
NOT_FOR = {
    **dict.fromkeys(
        ("kernel", "sampling"), ("claim", "verdict", "notions", "adjacency")
    ),  # a mechanism as data: they know nothing of privacy
    **dict.fromkeys((*ENGINES, "accounting", "local"), ("catalogue",)),  # no engine may know the answers
    "numerics": ("adjacency",),  # nothing of mechanisms, their paths or proofs
    "prove": ("catalogue", JUDGE),  # proofs rest on nothing but the paths
    PRICED: ("catalogue", *(engine for engine in ENGINES if engine != PRICED)),
}


def violations(package: Path) -> list[str]:
    """A line for each import of the package that does not point downward."""
    found = []
    for file in sorted(package.rglob("*.py")):
        importer = _unit(file.relative_to(package).parts)
        for line, imported in _imported_units(file, package):
            if (wrong := _wrong(importer, imported)) is not None:
                found.append(f"{file.relative_to(package.parent)}:{line}: {importer} imports {imported}: {wrong}")
    return found


def _unit(parts: tuple[str, ...]) -> str:
    """The unit that a file belongs to; the `__init__` of the package, and that of the engines, belong to `veridp`."""
    parts = parts[1:] if parts[0] == "engines" else parts
    return "veridp" if parts == ("__init__.py",) else parts[0].removesuffix(".py")


def _wrong(importer: str, imported: str) -> str | None:
    for unit in (importer, imported):
        if unit != "veridp" and unit not in HEIGHT:
            return f"{unit} has no layer; give it one"
    if importer == imported:
        return None
    if imported == "veridp":
        return "the public names are for users"
    if importer == "veridp":
        return None if HEIGHT[imported] < HEIGHT["cli"] else "nothing imports it"
    if HEIGHT[imported] >= HEIGHT[importer]:
        return "this does not point downward"
    return "it has no business with it" if imported in NOT_FOR.get(importer, ()) else None


def _imported_units(file: Path, package: Path) -> Iterator[tuple[int, str]]:
    """The units that a file imports, anywhere in it, with the lines where it does."""
    here = ("veridp", *file.relative_to(package).parts[:-1])
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _units_of(alias.name.split("."), None, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            base = list(here[: len(here) - node.level + 1]) if node.level else []
            module = base + (node.module.split(".") if node.module else [])
            for alias in node.names:
                yield from _units_of(module, alias.name, node.lineno)


def _units_of(module: list[str], name: str | None, line: int) -> Iterator[tuple[int, str]]:
    if module[0] != "veridp":
        return
    if module[1:2] == ["engines"]:
        module = ["veridp", *module[2:]]
    if len(module) > 1:
        yield line, module[1]
    else:
        yield line, name if name in HEIGHT else "veridp"


def test_imports_point_downward() -> None:
    assert violations(PACKAGE) == []


def test_the_catalogue_knows_the_words_for_mechanisms_alone() -> None:
    known = {unit for file in (PACKAGE / "catalogue").glob("*.py") for _, unit in _imported_units(file, PACKAGE)}
    assert known <= {"catalogue", "mechanism", "adjacency", "errors"}


@pytest.mark.parametrize(
    ("importer", "source", "complaint"),
    [
        (
            "exact/compare.py",
            "from veridp.engines.prove import search",
            "exact imports prove: this does not point downward",
        ),
        (
            "exact/compare.py",
            "import veridp.engines.sniper.search",
            "exact imports sniper: this does not point downward",
        ),
        (
            "engines/prove/alignment/proof.py",
            "from veridp.engines.exact import compare",
            "prove imports exact: it has no business",
        ),
        (
            "engines/finder/restart.py",
            "from veridp import sniper",
            "finder imports sniper: this does not point downward",
        ),
        (
            "engines/exact/compare.py",
            "from veridp.catalogue import catalogue",
            "exact imports catalogue: it has no business",
        ),
        ("engines/exact/compare.py", "from veridp import catalogue", "exact imports catalogue: it has no business"),
        ("engines/exact/compare.py", "from .. import prove", "exact imports prove: this does not point downward"),
        ("engines/exact/compare.py", "from ..prove import search", "exact imports prove: this does not point downward"),
        (
            "engines/exact/compare.py",
            "from veridp import explore",
            "exact imports veridp: the public names are for users",
        ),
        (
            "engines/exact/compare.py",
            "def f():\n    import veridp",
            "exact imports veridp: the public names are for users",
        ),
        ("kernel/path.py", "from veridp.claim import Claim", "kernel imports claim: it has no business"),
        ("kernel/path.py", "from veridp.adjacency import Pair", "kernel imports adjacency: it has no business"),
        (
            "kernel/path.py",
            "def f():\n    from veridp.engines.exact import compare",
            "kernel imports exact: this does not",
        ),
        ("catalogue/svt.py", "from veridp.kernel.explore import explore", "catalogue imports kernel: this does not"),
        ("errors.py", "from veridp.claim import Claim", "errors imports claim: this does not point downward"),
        ("claim.py", "from veridp.adjacency import Pair", "claim imports adjacency: this does not point downward"),
        ("report/page.py", "from veridp.target import load", "report imports target: this does not point downward"),
        ("audit.py", "from veridp.cli import main", "audit imports cli: this does not point downward"),
        ("__init__.py", "from veridp.cli import main", "veridp imports cli: nothing imports it"),
        ("pytest_plugin.py", "from veridp.cli import main", "pytest_plugin imports cli: this does not point downward"),
        ("helpers.py", "from veridp.claim import Claim", "helpers imports claim: helpers has no layer"),
        ("cli/exact.py", "from veridp.helpers import help", "cli imports helpers: helpers has no layer"),
    ],
)
def test_a_violation_is_found(tmp_path: Path, importer: str, source: str, complaint: str) -> None:
    file = tmp_path / "veridp" / importer
    file.parent.mkdir(parents=True)
    file.write_text(source)
    (found,) = violations(tmp_path / "veridp")
    assert found.startswith(f"veridp/{importer}:{1 + source.count(chr(10))}: {complaint}")


@pytest.mark.parametrize(
    ("importer", "source"),
    [
        (
            "engines/exact/compare.py",
            "from veridp.engines.exact.noise import law\nfrom . import loss\nfrom .loss import loss",
        ),
        ("engines/finder/restart.py", "from veridp.engines.exact import compare"),
        ("engines/exact/compare.py", "from veridp.claim import Claim\nfrom veridp.kernel import path\nimport numpy"),
        (
            "cli/exact.py",
            "from veridp.engines.exact import compare\nfrom veridp.cli.options import Target\nfrom veridp import audit",
        ),
        ("__init__.py", "from veridp.engines.exact import compare\nfrom veridp.catalogue import catalogue"),
        ("target.py", "from veridp.catalogue import catalogue\nfrom veridp.kernel.site import here"),
    ],
)
def test_what_points_downward_is_allowed(tmp_path: Path, importer: str, source: str) -> None:
    file = tmp_path / "veridp" / importer
    file.parent.mkdir(parents=True)
    file.write_text(source)
    assert violations(tmp_path / "veridp") == []


def test_every_folder_and_module_says_what_lives_there() -> None:
    silent = [
        str(file.relative_to(PACKAGE))
        for file in PACKAGE.rglob("*.py")
        if not ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))
    ]
    assert silent == []


def test_no_module_is_a_place_for_anything() -> None:
    vague = {"utils", "util", "helpers", "helper", "common", "misc"}
    assert [str(file) for file in PACKAGE.rglob("*.py") if file.stem in vague or file.parent.name in vague] == []


def test_no_public_class_name_is_used_twice() -> None:
    """In the checker neither: who reads a name in a message must know which class is meant."""
    places: dict[str, list[str]] = {}
    for file in sorted(PACKAGE.parent.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(f"{file.relative_to(PACKAGE.parent)}:{node.lineno}")
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
