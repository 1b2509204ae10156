"""What a release says of itself agrees in every file that says it."""

from __future__ import annotations

import re
import runpy
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
import yaml

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
NOT_IN_ALL = {
    "all",
    "dev",
    "site",
    "ray",
    "dask",
    "beam",
    "lake",
}  # for veridp itself, and for clusters, which have their own


def test_citation_and_changelog_name_the_version_and_its_day() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    versions = re.findall(r"^## \[(\d[^]]*)\] - (\S+)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert versions[0] == (PROJECT["version"], str(citation["date-released"]))
    assert citation["version"] == PROJECT["version"]


def test_the_matrix_runs_every_python_that_is_promised() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text("utf-8"))
    tested = workflow["jobs"]["matrix"]["strategy"]["matrix"]["python"]
    promised = [word.removeprefix("Programming Language :: Python :: ") for word in PROJECT["classifiers"]]
    assert tested == [version for version in promised if re.fullmatch(r"3\.\d+", version)]
    assert PROJECT["requires-python"] == f">={tested[0]}"


@pytest.mark.parametrize("extra", sorted(set(PROJECT["optional-dependencies"]) - NOT_IN_ALL))
def test_all_has_every_extra(extra: str) -> None:
    (everything,) = PROJECT["optional-dependencies"]["all"]
    assert extra in re.split(r"[\[\],]", everything)


def test_the_contributors_guide_names_files_that_exist() -> None:
    guide = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    named = set(re.findall(r"`([\w./]+\.(?:py|json|toml|md))`", guide))
    known = [path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.*") if ".venv" not in path.parts]
    assert len(named) > 20
    assert [name for name in sorted(named) if not any(f"/{path}".endswith(f"/{name}") for path in known)] == []


def test_a_release_with_an_address_has_absolute_links_to_files_that_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    interface = ModuleType("hatchling.metadata.plugin.interface")  # what builds the project need not be installed here
    interface.MetadataHookInterface = object  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, interface.__name__, interface)
    for package in ("hatchling", "hatchling.metadata", "hatchling.metadata.plugin"):
        monkeypatch.setitem(sys.modules, package, ModuleType(package))
    hook = runpy.run_path(str(ROOT / "hatch_build.py"))["ReleaseLinks"]()
    hook.root = str(ROOT)
    found: dict[str, dict[str, str]] = {}
    monkeypatch.setenv("VERIDP_HOME", "https://code.example/veridp/")
    hook.update(found)
    links = re.findall(r"\]\(([^)]*)\)", found["readme"]["text"])
    assert [link for link in links if not link.startswith(("https://", "#"))] == []
    ours = [re.sub(r"^https://code\.example/veridp/(raw|blob)/main/", "", link) for link in links if "code.ex" in link]
    assert len(ours) > 20
    assert [name for name in ours if not (ROOT / name.partition("#")[0]).exists()] == []
    assert found["urls"]["Source"] == "https://code.example/veridp"
    monkeypatch.delenv("VERIDP_HOME")
    hook.update(found)
    assert found["readme"]["text"] == (ROOT / "README.md").read_text(encoding="utf-8")
    assert found["urls"] == {}
