"""What the documentation shows is what happens: its Python, its terminal sessions, and the doctests of the package.

In the pages, a Python block with prompts is a doctest and one without is run; a console block is a session in which
`...` stands for lines left out. The blocks of a page share their names. Links between pages must lead somewhere.
"""

from __future__ import annotations

import doctest
import importlib
import linecache
import pkgutil
import re
import runpy
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import veridp
from veridp.cli import main

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
MODULES = sorted(
    module.name for module in pkgutil.walk_packages(veridp.__path__, "veridp.") if not module.name.endswith("__main__")
)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page: its language, its text, and the line on which the text starts."""

    language: str
    text: str
    line: int


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for fence in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield Block(fence[1], fence[2], text.count("\n", 0, fence.start(2)) + 1)


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_the_python_of_a_page_does_what_it_shows(page: Path) -> None:
    names: dict[str, Any] = {"__name__": page.stem}
    for block in blocks(page):
        if block.language == "python":
            if ">>>" in block.text:
                _check_doctest(block, page, names)
            else:
                _run(block, page, names)


def _check_doctest(block: Block, page: Path, names: dict[str, Any]) -> None:
    example = doctest.DocTestParser().get_doctest(
        block.text, names, f"{page.name}:{block.line}", str(page), block.line - 1
    )
    for number, part in enumerate(example.examples):  # later blocks may need the text of a function of this one
        _keep_text(f"<doctest {example.name}[{number}]>", part.source)
    report: list[str] = []
    failed, _ = doctest.DocTestRunner(optionflags=FLAGS).run(example, out=report.append, clear_globs=False)
    names.update(example.globs)
    assert not failed, "".join(report)


def _run(block: Block, page: Path, names: dict[str, Any]) -> None:
    """Run the block; its lines can be shown, and its functions be recompiled, as those of a file."""
    file = f"<{page.name}:{block.line}>"
    _keep_text(file, block.text)
    exec(compile(block.text, file, "exec"), names)  # noqa: S102


def _keep_text(file: str, text: str) -> None:
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_the_terminal_sessions_of_a_page_are_true(
    page: Path, own_folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    files = [block for block in blocks(page) if block.language in ("python", "yaml") and block.text.startswith("# ")]
    for block in files:  # a block that starts with a comment `# name.py` or `# name.yaml` is that file
        name = block.text.split("\n", 1)[0].removeprefix("# ")
        if name.endswith((".py", ".yaml")):
            (own_folder / name).write_text(block.text)
    for block in blocks(page):
        if block.language == "console":
            for command, expected in _session(block):
                monkeypatch.setattr(sys, "argv", shlex.split(command))
                with pytest.raises(SystemExit):
                    main()
                printed = capfd.readouterr()
                shown = printed.out + printed.err
                assert doctest.OutputChecker().check_output(expected, shown, doctest.ELLIPSIS), f"$ {command}\n{shown}"


def _session(block: Block) -> Iterator[tuple[str, str]]:
    """The veridp commands of a session, each with what it prints."""
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _, expected = part.partition("\n")
        if command.startswith("veridp "):
            yield command, expected


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=named)
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("module", MODULES)
def test_the_doctests_of_a_module_pass(module: str) -> None:
    failed, _ = doctest.testmod(importlib.import_module(module), optionflags=FLAGS)
    assert not failed


def test_the_picture_of_a_terminal_can_be_drawn() -> None:
    script = runpy.run_path(str(ROOT / "docs" / "draw_audit.py"))
    assert "randomized_response" in script["picture"](["randomized_response"], "randomized_response")
    assert all(name in (ROOT / "docs" / "audit.svg").read_text(encoding="utf-8") for name in script["TARGETS"])


def test_pictures_can_be_drawn_and_are_shown() -> None:
    """A picture has its numbers from veridp; every one is a file, and stands in a page."""
    script = runpy.run_path(str(ROOT / "docs" / "draw.py"))
    files = {file.stem: file.read_text(encoding="utf-8") for file in (ROOT / "docs" / "pictures").glob("*.svg")}
    assert set(files) == set(script["PICTURES"])
    pages = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md"))
    assert [name for name in files if f"](pictures/{name}.svg)" not in pages] == []
    for name, text in {"noise": "1.40 times as likely", "domain": "ε = 2", "exact": "ε = 0.4242"}.items():
        assert text in files[name]
        assert text in script["svg"](name).decode()


def test_the_walk_through_the_kernel_names_all_of_its_files() -> None:
    walk = (
        (ROOT / "docs" / "idea.md").read_text(encoding="utf-8").split("## A walk through the kernel")[1].split("## ")[0]
    )
    files = [file for file in (ROOT / "src" / "veridp" / "kernel").rglob("*.py") if file.parent.name != "noise"]
    assert set(re.findall(r"`(\w+\.py)`", walk)) == {file.name for file in files} - {"__init__.py"}
