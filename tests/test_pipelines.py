"""The hook, the action and the snippet for GitLab run commands that exist, and these fail where a claim is refuted."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

ROOT = Path(__file__).parents[1]
MECHANISMS = """
import veridp

@veridp.mechanism(epsilon=1.0, adjacency="l1", domain=(0, 9), size=1)
def halved(rng, data):
    return data[0] + rng.laplace(scale=0.5)
"""


def action_step(name: str) -> dict[str, Any]:
    action = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
    return next(step for step in action["runs"]["steps"] if step.get("name") == name)


def gitlab_script() -> list[str]:
    snippet = re.search(
        r"\*\*GitLab\*\*:\n\n```\n(.*?)```", (ROOT / "docs" / "projects.md").read_text("utf-8"), re.DOTALL
    )
    assert snippet is not None
    return list(yaml.safe_load(snippet[1])["veridp"]["script"])


def carried_out(folder: Path, script: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """The script with `veridp` as it is here, and without the page, whose library may be missing."""
    command = shlex.join([sys.executable, "-m", "veridp"])
    shell = f'veridp() {{ {command} "$@"; }}\n{script.replace("--html veridp.html", "")}'
    environment = {**os.environ, **variables}
    return subprocess.run(  # noqa: S603
        ["/bin/bash", "-e", "-c", shell], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.skipif(not Path("/bin/bash").exists(), reason="the scripts are for bash")
def test_pipelines_fail_where_a_claim_is_refuted(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "mech.py").write_text(MECHANISMS)
    (tmp_path / "pyproject.toml").write_text('[tool.veridp]\ntargets = ["src"]\ntime = 300\n')
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    assert not hook["pass_filenames"]
    audit = action_step("audit")
    assert set(audit["env"]) == {"TARGETS", "OPTIONS"}  # so that inputs are words of a command, never code
    assert "${{" not in audit["run"] + action_step("install")["run"]
    done = carried_out(tmp_path, audit["run"], TARGETS="", OPTIONS="--seed 1")
    assert done.returncode == 1, done.stderr
    assert '"ruleId": "VDP001"' in (tmp_path / "veridp.sarif").read_text("utf-8")
    install, run = gitlab_script()
    assert install.startswith("pip install 'veridp[")
    assert carried_out(tmp_path, hook["entry"]).returncode == 1
    assert carried_out(tmp_path, run).returncode == 1
    (case,) = ElementTree.parse(tmp_path / "veridp.xml").getroot()  # noqa: S314
    assert case.find("failure") is not None
