"""Progress in a notebook: a line that is updated in place."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import veridp
from veridp.budget.notebook_progress import shows_progress


class Page:
    """What a notebook shows below a cell."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kernel: bool) -> None:
        self.shown: list[list[str]] = []
        shell, display = ModuleType("IPython"), ModuleType("IPython.display")
        vars(shell)["get_ipython"] = lambda: SimpleNamespace(**({"kernel": object()} if kernel else {}))
        vars(display).update(HTML=str, display=self.display)
        monkeypatch.setitem(sys.modules, "IPython", shell)
        monkeypatch.setitem(sys.modules, "IPython.display", display)

    def display(self, text: str, display_id: bool) -> Any:
        line = [text]
        self.shown.append(line)
        return SimpleNamespace(update=line.append)


def test_an_audit_shows_one_line_and_takes_it_away(monkeypatch: pytest.MonkeyPatch) -> None:
    page = Page(monkeypatch, kernel=True)
    assert veridp.audit(veridp.catalogue["laplace"], seconds=60).standing.name == "PROVED"
    (line,) = page.shown  # engines within the audit have none of their own
    assert (line[0], line[-1]) == ("", "")
    assert any("<progress" in text and "ε in [" in text for text in line)


def test_nothing_is_shown_elsewhere_or_beside_a_progress_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    @shows_progress
    def engine(name: str, *, progress: Any = None) -> Any:
        if progress is not None:
            progress("looking <hard>", 0.5, 0.25)
        return progress

    page = Page(monkeypatch, kernel=False)  # IPython in a terminal
    assert engine("a") is None
    own: list[Any] = []
    page = Page(monkeypatch, kernel=True)
    engine("b", progress=lambda *told: own.append(told))
    assert (own, page.shown) == ([("looking <hard>", 0.5, 0.25)], [])
    engine("c")
    assert page.shown[0][1].endswith("looking &lt;hard&gt;, ε ≥ 0.25")
    with pytest.raises(TypeError):
        engine(progress=None, nothing=1)  # type: ignore[call-arg]
    assert page.shown[1] == ["", ""]
