"""The ten commands of the README, in an environment of their own and in a terminal.

The environment has veridp as a wheel installs it, not the checkout; what veridp needs comes from the environment of the
tests, in place of a download.
"""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
import sys
import sysconfig
import threading
import tomllib
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PREPARED = ["python3 -m venv ../first", ". ../first/bin/activate", "pip install '.[page]' pytest", "cd ../first"]
DEADLINE = 500.0  # seconds for a command, on any machine


def commands() -> list[str]:
    section = re.search(r"^## Ten commands$.*?^```sh\n(.*?)^```$", (ROOT / "README.md").read_text("utf-8"), re.M | re.S)
    assert section is not None
    return section[1].splitlines()


def prepare(folder: Path) -> None:
    """What the first commands do, without a network."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    about = project["project"]
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    for name in project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]:
        source = ROOT / name
        copy = shutil.copytree if source.is_dir() else shutil.copy
        copy(source, packages / source.name)
    facts = packages / f"veridp-{about['version']}.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: veridp\nVersion: {about['version']}\n")
    plugins = "".join(f"{name} = {place}\n" for name, place in about["entry-points"]["pytest11"].items())
    (facts / "entry_points.txt").write_text(f"[pytest11]\n{plugins}")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    module, function = about["scripts"]["veridp"].split(":")
    scripts = {
        "veridp": f"from {module} import {function}\n{function}()",
        "pytest": "import pytest\npytest.console_main()",
    }
    for name, text in scripts.items():
        script = folder / "bin" / name
        script.write_text(f"#!{folder}/bin/python\n{text}\n")
        script.chmod(0o755)


def typed(folder: Path, line: str) -> tuple[int, str]:
    """The exit status of a line that is typed into a terminal after the activation, and what the terminal shows."""
    ours, theirs = pty.openpty()
    shown = bytearray()

    def read() -> None:
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the other end is closed
                return
            if not part:
                return
            shown.extend(part)

    reader = threading.Thread(target=read)
    kept = ("PATH", "HOME", "LANG")
    variables = {name: os.environ[name] for name in kept if name in os.environ}
    variables |= {"TERM": "xterm", "COLUMNS": "120", "VERIDP_CACHE": str(folder / "cache")}
    words = ["/bin/bash", "-c", f"{PREPARED[1]} && {line}"]
    process = subprocess.Popen(words, cwd=folder, env=variables, stdin=theirs, stdout=theirs, stderr=theirs)  # noqa: S603
    os.close(theirs)
    reader.start()
    try:
        status = process.wait(DEADLINE)
    finally:
        process.kill()
        reader.join()
        os.close(ours)
    return status, shown.decode("utf-8", "replace")


@pytest.mark.skipif(sys.platform == "win32" or not Path("/bin/bash").exists(), reason="the commands are for a shell")
def test_a_new_users_path_works(tmp_path: Path) -> None:
    pytest.importorskip("plotly")
    lines = commands()
    assert len(lines) == 10
    assert lines[:4] == PREPARED
    folder = tmp_path / "first"
    prepare(folder)
    said = {}
    for line in lines[4:]:
        status, said[line] = typed(folder, line)
        assert status == 0, f"$ {line}\n{said[line]}"
        assert "Traceback" not in said[line]
        assert "veridp: " not in said[line]
    texts = list(said.values())
    assert texts[1].count("PROVED") == 2
    assert "1 passed" in texts[2]
    assert texts[3].count("cache") >= 2  # folded to the width of the terminal
    assert texts[4].count("ok   ") >= 3
    assert "WRONG" not in texts[4]
    assert (folder / "report.html").stat().st_size > 1_000_000
    where = subprocess.run(  # noqa: S603
        [folder / "bin/python", "-c", "import veridp; print(veridp.__file__)"],
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
    )
    assert str(folder) in where.stdout  # and not the checkout
