"""The live page of a task: accepted so far, the estimate with its interval, the abort rate."""

from __future__ import annotations

import base64
import html
from functools import cache
from hashlib import sha256
from importlib.resources import files

from veridp.collect.task import Task


@cache
def _part(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")


def _source(name: str) -> str:
    return "'sha256-" + base64.b64encode(sha256(_part(name).encode()).digest()).decode() + "'"


CONTENT_POLICY = (
    f"default-src 'none'; connect-src 'self'; script-src {_source('live.js')}; style-src {_source('live.css')}; "
    "base-uri 'none'; form-action 'none'"
)


def page(task: Task) -> str:
    """The page, whose script asks for the numbers with the admin token that the reader types in."""
    name = html.escape(task.name, quote=True)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{name}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_part('live.css')}</style></head>"
        f'<body data-task="{name}"><h1>{name}</h1>'
        f"<p>{html.escape(task.mechanism)}, ε = {task.protocol.epsilon:.6g}</p>{_part('live.html')}"
        f"<script>{_part('live.js')}</script></body></html>"
    )
