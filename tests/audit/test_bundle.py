"""Bundles of evidence: what was written is accepted, and what was changed is not."""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from veridp.audit.bundle import check_bundle, digest
from veridp.errors import BadInput

MECHANISMS = """
import math
import veridp

@veridp.mechanism(epsilon=1.0, adjacency="l1", domain=(0, 9), size=1)
def halved(rng, data):
    return data[0] + rng.laplace(scale=0.5)

@veridp.mechanism(epsilon=1.0, adjacency="replace", domain=[0, 1], size=1)
def coin(rng, data):
    honest = rng.random() < math.e / (1 + math.e)
    return data[0] if honest else 1 - data[0]

@veridp.mechanism(epsilon=1.0, adjacency="l1", size=2)
def noisy(rng, data):
    noisy = []
    for value in data:
        noisy.append(value + rng.laplace())
    return noisy

def unstated(rng, data):
    return data
"""
Change = Callable[[dict[str, Any]], None]


@pytest.fixture
def bundle(own_folder: Path, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setitem(sys.modules, "plotly.offline", None)  # the page is tested elsewhere
    (own_folder / "mech.py").write_text(MECHANISMS)
    done = run("audit", "mech.py", "mech.py:unstated", "--time", "300", "--bundle", "out/evidence.zip")
    assert done.status == 1
    assert "is without the page" in done.err
    return own_folder / "out" / "evidence.zip"


def rewritten(bundle: Path, changes: dict[str, Change | None]) -> Path:
    """A copy with these documents changed, or left out, and with a manifest that fits."""
    with zipfile.ZipFile(bundle) as old:
        contents = {name: old.read(name) for name in old.namelist()}
    for name, change in changes.items():
        if change is None:
            del contents[name]
        else:
            document = json.loads(contents[name])
            change(document)
            contents[name] = json.dumps(document).encode()
    manifest = json.loads(contents["manifest.json"])
    manifest["files"] = {name: digest(data) for name, data in contents.items() if name != "manifest.json"}
    contents["manifest.json"] = json.dumps(manifest).encode()
    forged = bundle.with_name("forged.zip")
    with zipfile.ZipFile(forged, "w") as new:
        for name, data in contents.items():
            new.writestr(name, data)
    return forged


def wrong(file: Path) -> list[str]:
    return [f"{one.about}: {one.finding}" for one in check_bundle(file) if not one.holds]


def test_what_was_written_is_accepted_and_what_was_changed_is_not(
    bundle: Path, own_folder: Path, run: Callable[..., Any]
) -> None:
    checks = {one.about: one for one in check_bundle(bundle)}
    assert all(one.holds for one in checks.values())
    assert checks["mech.py:halved"].finding.startswith("refuted exactly: the probabilities 0.5 and 0.0676676 against")
    assert "the certificate is accepted" in checks["mech.py:coin"].finding
    assert "every size" in checks["mech.py:noisy"].finding
    assert "unjudged" in checks["mech.py:unstated"].finding
    again = run("verify", str(bundle), "--code")
    assert again.status == 0
    assert "computed anew between the two inputs, ε = 2" in again.out

    def result(place: int, **changes: Any) -> dict[str, Change | None]:
        return {"results.json": lambda document: document["results"][place].update(changes)}

    assert "which is not 0.5-DP" in wrong(rewritten(bundle, result(1, claim={"epsilon": 0.5, "delta": 0.0})))[0]
    assert "no certificate" in wrong(rewritten(bundle, result(0, standing="proved")))[0]
    assert "do not break 2.5-DP" in wrong(rewritten(bundle, result(0, claim={"epsilon": 2.5, "delta": 0.0})))[0]
    assert "speaks of coin" in wrong(rewritten(bundle, result(1, mechanism="other")))[0]
    assert "of every size" in wrong(rewritten(bundle, result(1, scope="of every size")))[0]
    assert "under linf" in wrong(rewritten(bundle, result(1, scope="for all neighbours under linf, size 1")))[0]
    assert "no certificate" in wrong(rewritten(bundle, {"1/certificate.json": None}))[0]

    def cheaper(certificate: dict[str, Any]) -> None:
        certificate["epsilon"] = "1/2"

    assert "the certificate is rejected" in wrong(rewritten(bundle, {"1/certificate.json": cheaper}))[0]
    (own_folder / "mech.py").write_text(MECHANISMS.replace("scale=0.5", "scale=0.4"))
    changed = run("verify", str(bundle), "--code")
    assert changed.status == 1
    assert "WRONG mech.py:halved (code): it is not the code that was audited" in changed.out


def test_other_files_are_refused(tmp_path: Path) -> None:
    plain = tmp_path / "plain.zip"
    with pytest.raises(BadInput, match="No such file"):
        check_bundle(plain)
    plain.write_text("no zip")
    with pytest.raises(BadInput, match="is not a bundle"):
        check_bundle(plain)
    for manifest in ("", "[]", '{"format": "veridp-bundle", "version": 99}'):
        with zipfile.ZipFile(plain, "w") as archive:
            archive.writestr("manifest.json", manifest)
        with pytest.raises(BadInput, match="is not a bundle"):
            check_bundle(plain)
    with zipfile.ZipFile(plain, "w") as archive:
        archive.writestr("manifest.json", '{"format": "veridp-bundle", "version": 1, "files": {"results.json": "0"}}')
        archive.writestr("results.json", "{}")
    assert wrong(plain) == ["files: not those of the manifest: results.json"]
