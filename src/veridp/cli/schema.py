"""`veridp schema`: the JSON schema of what commands print with `--json`."""

from __future__ import annotations

import json
from importlib.resources import files

from veridp.cli.output import print_json

FILE = "output.schema.json"


def show_schema() -> None:
    """Print the JSON schema of the documents that --json prints."""
    print_json(json.loads((files("veridp.report") / FILE).read_text(encoding="utf-8")))
