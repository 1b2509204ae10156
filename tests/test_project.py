"""A project: what is found in its files, folders and packages, what pyproject.toml says, and what is known of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from veridp.claim import Claim, Interval, Witness
from veridp.errors import BadInput, BadTarget
from veridp.mechanism import Mechanism
from veridp.project import ProjectSettings, discover, project_settings
from veridp.report.audit import Audited
from veridp.report.baseline import KnownResult, baseline_text, new_failures, read_baseline
from veridp.verdict import Standing, Verdict

RIGHT = """
import veridp

@veridp.mechanism(epsilon=1.0, adjacency="l1", domain=(0, 9), size=1)
def noisy(rng, data):
    return data[0] + rng.laplace()

@veridp.mechanism(epsilon=1.0, adjacency="l1", size=1)
def _hidden(rng, data):
    return data[0] + rng.laplace()

def helper(rng, data):
    return data
"""
MARKED = """
import pytest
from ..right import noisy as imported

@pytest.mark.dp(epsilon=1.0)
def halved(rng, data):
    return data[0] + rng.laplace(scale=0.5)
"""


@pytest.fixture
def project(own_folder: Path) -> Path:
    inner = own_folder / "src" / "shop" / "inner"
    inner.mkdir(parents=True)
    for folder in (inner, inner.parent):
        (folder / "__init__.py").touch()
    (inner.parent / "right.py").write_text(RIGHT)
    (inner / "marked.py").write_text(MARKED)
    (inner / "script.py").write_text("raise SystemExit('scripts are not to be run')")
    (inner / "lost.py").write_text("import veridp, no_such_library")
    for ignored in (".hidden", "venv", "build"):
        (own_folder / "src" / ignored).mkdir()
        (own_folder / "src" / ignored / "other.py").write_text("import veridp; raise SystemExit('not to be run')")
    (own_folder / "src" / "venv" / "pyvenv.cfg").touch()
    (own_folder / "alone.py").write_text(RIGHT)
    return own_folder


def test_what_is_decorated_or_marked_is_found(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = discover("src")
    assert found.targets == ("shop.inner.marked:halved", "shop.right:noisy", "shop.right:_hidden")
    assert found.skipped == (
        "shop.right: helper without @veridp.mechanism or pytest.mark.dp",
        "3 files without a word of veridp",
    )
    ((file, error),) = found.failed
    assert file == str(Path("src/shop/inner/lost.py"))
    assert "install no_such_library" in str(error)
    assert discover("alone.py").targets == ("alone.py:noisy", "alone.py:_hidden")
    assert discover("alone.py:helper").targets == ("alone.py:helper",)
    assert discover("svt1").targets == ("svt1",)
    monkeypatch.chdir(project / "src")
    assert discover("shop.inner").targets == ("shop.inner.marked:halved",)
    assert discover("shop.right").targets == ("shop.right:noisy", "shop.right:_hidden")


def test_nothing_to_judge_is_an_error(own_folder: Path) -> None:
    (own_folder / "plain.py").write_text("def f(rng, data): return 1")
    with pytest.raises(BadTarget, match=r"plain\.py: nothing in it states a claim; plain\.py: f without @veridp\.mech"):
        discover("plain.py")
    (own_folder / "empty").mkdir()
    with pytest.raises(BadTarget, match="empty: nothing in it states a claim"):
        discover("empty")


def test_settings_are_those_of_the_nearest_file(own_folder: Path) -> None:
    inner = own_folder / "a" / "b"
    inner.mkdir(parents=True)
    (own_folder / "mech.py").touch()
    text = 'targets = ["mech.py:f", "a", "svt1"]\nbaseline = "known.json"\nsize = 3\ndomain = "(0, 7)"\ntime = "2m"'
    (own_folder / "pyproject.toml").write_text(f"[tool.veridp]\n{text}\n")
    found = project_settings(inner)
    assert found.targets == ("mech.py:f", "a", "svt1")
    assert found.options == {"time": "2m", "baseline": "known.json"}
    assert found.stated == {"size": 3, "domain": (0, 7)}
    completed = found.completed(Mechanism(lambda rng, data: data[0], epsilon=1.0, domain=(0, 9)))
    assert (completed.domain, completed.size, completed.assumed) == ((0, 9), 3, {"adjacency"})  # its own domain stays
    (inner / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert project_settings(inner) == ProjectSettings(inner / "pyproject.toml")


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("sizes = 3", r"\[tool.veridp\] has no key 'sizes'; it has targets, time"),
        ("size = '3'", "size in .* must be int, got '3'"),
        ("size = true", "size in .* must be int, got True"),
        ("targets = [1]", "targets in .* must be strings, got 1"),
        ("domain = '(0,'", "domain in .* is no Python literal"),
    ],
)
def test_settings_that_mean_nothing_are_errors(own_folder: Path, line: str, complaint: str) -> None:
    (own_folder / "pyproject.toml").write_text(f"[tool.veridp]\n{line}\n")
    with pytest.raises(BadInput, match=complaint):
        project_settings(own_folder)


def test_an_audit_of_a_project(project: Path, run: Callable[..., Any]) -> None:
    """Settings stand in for what nobody stated, options win over them, and the baseline decides the exit status."""
    (project / "src" / "shop" / "inner" / "lost.py").unlink()
    settings = 'targets = ["src"]\nadjacency = "l1"\nsize = 1\ndomain = "(0, 5)"\ntime = 300\nbaseline = "known.json"\n'
    (project / "pyproject.toml").write_text(f"[tool.veridp]\n{settings}")
    assert "no such baseline; write it first" in run("audit").err
    written = run("audit", "--update-baseline", "--json")
    assert written.status == 0
    results = {one["target"]: one for one in written.results}
    assert {name: one["standing"] for name, one in results.items()} == {
        "shop.inner.marked:halved": "refuted",
        "shop.right:noisy": "proved",
        "shop.right:_hidden": "proved",
    }
    assert all(one["assumed"] == {} for one in results.values())
    assert "skipped 3 files without a word of veridp" in written.err
    again = run("audit", "shop.inner.marked:halved", "--size", "2")
    assert again.status == 0
    assert "1 known from the baseline" in again.err
    worse = run("audit", "shop.inner.marked:halved", "--epsilon", "0.9")
    assert worse.status == 1
    assert "new: shop.inner.marked:halved is refuted" in worse.err


def refuted(lower: float, claim: float = 1.0) -> Audited:
    witness = Witness([0], [1], "output is 1", Interval.exactly(1.0), Interval.exactly(math.exp(-lower)))
    return Audited("f", Verdict(Standing.REFUTED, Claim(claim), Interval(lower, math.inf), witness))


def test_a_baseline_covers_what_is_no_worse(tmp_path: Path) -> None:
    file = tmp_path / "known.json"
    for known, now, covered in [
        (refuted(2.0), refuted(2.0), True),
        (refuted(2.0), refuted(1.9), True),
        (refuted(2.0), refuted(2.1), False),
        (refuted(math.inf), refuted(5.0), True),
        (refuted(2.0), refuted(2.0, claim=1.5), False),
        (refuted(2.0), Audited("f", None, "broken"), False),
        (Audited("f", None, "broken"), Audited("f", None, "broken"), True),
        (Audited("f", None, "broken"), refuted(2.0), False),
        (Audited("g", None, "other"), refuted(2.0), False),
    ]:
        file.write_text(baseline_text([known]))
        assert (new_failures([now], read_baseline(file)) == []) is covered
    assert KnownResult.of(refuted(2.0)) == KnownResult("refuted", "1-DP", 2.0)
    for text in (
        "",
        "[]",
        '{"version": 2}',
        '{"version": 1, "results": {"f": {"standing": 1, "epsilon_lower": "nan"}}}',
    ):
        file.write_text(text)
        with pytest.raises(BadInput, match="is no baseline"):
            read_baseline(file)
