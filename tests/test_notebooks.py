"""The tutorial notebooks run, in a kernel, and show progress while they do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[1] / "examples" / "notebooks").glob("*.ipynb"))


class Counting(NotebookClient):
    """A client that counts updates of what is displayed already."""

    updates = 0

    def process_message(self, message: Any, *rest: Any) -> Any:
        self.updates += message["msg_type"] == "update_display_data"
        return super().process_message(message, *rest)


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
@pytest.mark.filterwarnings("default")  # of the kernel's own sockets and event loop
def test_a_notebook_runs(file: Path, tmp_path: Path) -> None:
    notebook = nbformat.read(file, 4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "clear the outputs before you commit"
    client = Counting(notebook, timeout=500, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    shown = [kind for cell in notebook.cells for one in cell.get("outputs", ()) for kind in one.get("data", ())]
    if file.stem != "engineer":  # which runs commands
        assert "text/html" in shown
        assert client.updates > 2  # the end of each audit is one
    if file.stem == "student":
        assert "image/svg+xml" in shown


def test_there_is_one_for_each_kind_of_user() -> None:
    assert [file.stem for file in NOTEBOOKS] == ["analyst", "engineer", "student"]
