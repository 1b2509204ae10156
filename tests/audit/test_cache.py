"""The cache of verdicts: an unchanged mechanism costs nothing, and nothing else comes from it."""

from __future__ import annotations

import hashlib
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import veridp
from veridp.audit import cache as caching
from veridp.audit.cache import VerdictCache, cached_audit, verdict_key
from veridp.verdict import Verdict

Run = Callable[..., Any]
MECHANISMS = """
import veridp

SCALE = 1.0

@veridp.mechanism(epsilon=1.0, adjacency="l1", domain=(0, 10), size=1)
def first(rng, data):
    return data[0] + rng.laplace(scale=SCALE)

@veridp.mechanism(epsilon=1.0, adjacency="l1", domain=(0, 10), size=1)
def second(rng, data):
    return data[0] + rng.laplace(scale=2.0)
"""


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache of the test's own."""
    place = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("VERIDP_CACHE", str(place))
    return place


def audited(run: Run, *words: str) -> dict[str, dict[str, Any]]:
    return {one["mechanism"]: one for one in run("audit", "mech.py", "--time", "60", "--json", *words).results}


def test_only_what_changed_is_audited_again(run: Run, folder: Path) -> None:
    file = Path("mech.py")
    file.write_text(MECHANISMS)
    made = audited(run)
    assert not any("cached" in one for one in made.values())
    kept = audited(run)
    assert all(one.pop("cached") for one in kept.values())
    assert kept == made
    file.write_text(MECHANISMS.replace("SCALE = 1.0", "SCALE = 0.5"))
    changed = audited(run)
    assert ("cached" in changed["first"], changed["first"]["standing"]) == (False, "refuted")
    assert changed["second"]["cached"]
    assert not any("cached" in one for one in audited(run, "--no-cache").values())
    assert "cached" not in audited(run, "--alpha", "0.01")["second"]


def test_people_are_told(run: Run, folder: Path) -> None:
    Path("mech.py").write_text(MECHANISMS)
    words = ["audit", "mech.py:second", "--time", "60"]
    assert "cache" not in run(*words).out
    assert "from the cache, made on 2" in run(*words, "--html", "page.html").out
    assert "made on 2" in Path("page.html").read_text()
    assert "from the cache, made on 2" in run("audit", "mech.py", "--time", "60").out
    listed = run("cache")
    assert "second: 1-DP is PROVED, ε = 0.5" in listed.out
    assert f"2 verdicts, {sum(one.stat().st_size for one in folder.rglob('*.verdict')) / 1000:.0f} kB" in listed.out
    assert "removed 2 verdicts" in run("cache", "--clear").out
    assert run("cache", "--json").results[0]["entries"] == []
    assert "cache" not in run(*words).out


def test_what_cannot_be_fingerprinted_is_audited_every_time(run: Run, folder: Path) -> None:
    reading = MECHANISMS.replace("import veridp", "import os\nimport veridp").replace(
        "SCALE)", "float(os.getenv('S', 1)))"
    )
    Path("mech.py").write_text(reading)
    for _ in range(2):
        result = run("audit", "mech.py:first", "--time", "60", "--json")
        assert "cached" not in result.results[0]
        assert "first is not cached: the global os is of os" in result.err
    assert list(folder.rglob("*.verdict")) == []


def cost(*arguments: Any, **named: Any) -> Verdict:
    notes: list[str] = []
    verdict = cached_audit(*arguments, seconds=60.0, tell=notes.append, **named)
    object.__setattr__(verdict, "notes", notes)
    return verdict


def test_a_verdict_that_was_cut_short_is_not_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caching, "audit", lambda *a, **k: replace(veridp.audit(*a, **k), finished=False))
    assert not cost(veridp.catalogue["laplace"]).finished
    assert list(folder.rglob("*.verdict")) == []


def test_the_results_of_engines_are_kept_for_charts(folder: Path) -> None:
    svt5 = veridp.catalogue["svt5"].stating(size=2)
    detection = veridp.statdp.detect(svt5, samples=500, selection_samples=200)
    verdict = replace(veridp.audit(svt5, seconds=60.0), results={"statdp": detection}, subject=svt5)
    cache = VerdictCache(folder, pytest.fail)
    cache.put("aa", replace(verdict, finished=True))
    again = cache.get("aa", svt5)
    assert again is not None
    assert again.to_dict() | {"cached": ""} == replace(verdict, finished=True).to_dict() | {"cached": ""}
    kept: Any = again.results["statdp"]
    assert (kept.to_dict(), kept.mechanism, again.subject) == (detection.to_dict(), svt5, svt5)


def test_what_an_audit_computes_lazily_changes_no_key() -> None:
    def noisy(rng: Any, data: Any) -> Any:
        return data[0] + rng.laplace()

    inner = veridp.mechanism(epsilon=1.0, adjacency="l1", size=1)(noisy)
    outer = veridp.mechanism(epsilon=1.0, adjacency="l1", size=1)(lambda rng, data: inner.function(rng, data))
    before = verdict_key(outer, {})
    assert inner.claim is not None
    assert verdict_key(outer, {}) == before


class Planted:
    """What somebody puts into a cache to run code."""

    def __reduce__(self) -> Any:
        return os.system, ("touch planted",)


@pytest.mark.parametrize("damage", ["cut", "flipped", "of another key", "planted", "of another version", "empty"])
def test_a_corrupt_or_foreign_entry_is_ignored_with_a_word(own_folder: Path, folder: Path, damage: str) -> None:
    laplace = veridp.catalogue["laplace"]
    made = cost(laplace)
    (file,) = folder.rglob("*.verdict")
    content = file.read_bytes()
    if damage == "planted":
        body = pickle.dumps((Planted(), {}, 1))
        content = content[: content.index(b'"sha256"')] + _sealed(body)
    elif damage == "of another key":
        cost(laplace, 0.5)
        content = next(one for one in folder.rglob("*.verdict") if one != file).read_bytes()
    else:
        content = {
            "cut": content[:-20],
            "flipped": content[:-20] + bytes([content[-20] ^ 1]) + content[-19:],
            "of another version": content.replace(b"cache 1", b"cache 0", 1),
            "empty": b"",
        }[damage]
    file.write_bytes(content)
    again: Any = cost(laplace)
    assert (again.cached, again.standing) == ("", made.standing)
    assert [f"{file} is ignored: it " in note for note in again.notes] == [True]
    assert not Path("planted").exists()
    assert cost(laplace).cached  # it was replaced


def _sealed(body: bytes) -> bytes:
    return f'"sha256": "{hashlib.sha256(body).hexdigest()}"}}\n'.encode() + body


def test_processes_share_a_folder(folder: Path) -> None:
    laplace = veridp.catalogue["laplace"]
    verdict = veridp.audit(laplace, seconds=60.0)
    key = verdict_key(laplace, {})
    notes: list[str] = []
    cache = VerdictCache(folder, notes.append)

    def work(number: int) -> bool:
        cache.put(key, verdict)
        found = cache.get(key, laplace)
        return found is not None and found.standing is verdict.standing

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(200)))
    assert notes == []
    assert [one.name for one in folder.rglob("*") if one.is_file()] == [f"{key}.verdict"]


def test_a_folder_that_cannot_be_written_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("VERIDP_CACHE", str(tmp_path / "file"))
    verdict: Any = cost(veridp.catalogue["laplace"])
    assert verdict.standing.name == "PROVED"
    assert "nothing is cached" in verdict.notes[0]


def test_the_oldest_entries_go(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caching, "MAX_ENTRIES", 2)
    verdict = veridp.audit(veridp.catalogue["laplace"], seconds=60.0)
    cache = VerdictCache(folder, lambda _: None)
    for number, key in enumerate(("aa1", "bb2", "cc3")):
        cache.put(key, verdict)
        os.utime(cache._file(key), (number, number)) if key != "cc3" else None
    assert sorted(one.stem for one in folder.rglob("*.verdict")) == ["bb2", "cc3"]


SUITE = """
import pytest

@pytest.mark.dp(epsilon=1.0, adjacency="l1", size=1)
def noisy(rng, data):
    return data[0] + rng.laplace()
"""


def test_pytest_takes_what_is_unchanged_from_the_cache(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(SUITE)
    words = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--dp-time", "60"]
    program = f"import pytest\nfor more in ([], [], ['--dp-no-cache']):\n    pytest.main([*{words!r}, *more])"
    command = [sys.executable, "-W", "ignore", "-c", program]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=500)  # noqa: S603
    said = [line for line in ran.stdout.splitlines() if "passed" in line or "from the cache" in line]
    assert ["from the cache" in line for line in said] == [False, True, False, False], ran.stdout + ran.stderr
