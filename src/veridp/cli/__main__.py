"""`python -m veridp.cli` is `veridp`."""

from __future__ import annotations

from veridp.cli import main

main()
