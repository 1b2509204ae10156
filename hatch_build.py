"""The links of a release: `VERIDP_HOME=https://… python -m build` makes those of the README absolute, and names the
pages of the project. Without an address they stay relative to the repository."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"\]\((?!https?://|#)([^)\s]+)\)")
PICTURES = (".svg", ".png")


def absolute(text: str, home: str) -> str:
    """The Markdown text with links to files of the repository as addresses on its web page."""

    def address(match: re.Match[str]) -> str:
        kind = "raw" if match[1].endswith(PICTURES) else "blob"
        return f"]({home}/{kind}/main/{match[1]})"

    return LINK.sub(address, text)


class ReleaseLinks(MetadataHookInterface):
    """Fills in what `pyproject.toml` calls dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        home = os.environ.get("VERIDP_HOME", "").rstrip("/")
        metadata["readme"] = {"content-type": "text/markdown", "text": absolute(text, home) if home else text}
        pages = {"Source": "", "Documentation": "/tree/main/docs", "Changelog": "/blob/main/CHANGELOG.md"}
        metadata["urls"] = {name: home + page for name, page in pages.items()} if home else {}
