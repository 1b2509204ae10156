"""What auditors do: compare heads of a log, bind its tokens, verify it; and how a collection stands, as they see it."""

from __future__ import annotations

import contextlib
import multiprocessing
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veridp.budget import Deadline
from veridp.cli.options import AsJson, Confidence
from veridp.cli.output import FAILS, HOLDS, show, show_json
from veridp.errors import BadInput, extra

if TYPE_CHECKING:
    from veridp.collect.receipts import TreeHead

ServerUrl = Annotated[str, typer.Option("--server", help="the address of the server, http(s)://…")]
Authorities = Annotated[Path | None, typer.Option("--ca", help="certificates to trust, in PEM")]
TaskName = Annotated[str, typer.Argument(help="the name of the task")]


def show_head(
    name: TaskName,
    server: ServerUrl,
    since: Annotated[
        Path | None, typer.Option(help="a head that this command printed before: the log must continue it")
    ] = None,
    authorities: Authorities = None,
) -> int:
    """Print the newest signed head of a task's log, for others to compare; exit 1 if the log was rewritten."""
    need_extra()
    import json

    from veridp.collect.messages import Reason, Refused
    from veridp.collect.service.http_client import Server, newest_head, task_at

    earlier = None if since is None else _head(since)
    with Server(server, "", Deadline(60.0), authorities) as asked:
        try:
            head = newest_head(asked, task_at(asked, name), earlier)
        except Refused as refusal:
            if refusal.reason != Reason.BROKEN_PROMISE:
                raise
            show(str(refusal))
            return FAILS
    show(json.dumps(head.to_document(), sort_keys=True))
    return HOLDS


def show_tokens_root(
    file: Annotated[Path, typer.Argument(help="all tokens of a task, one a line")],
) -> int:
    """Print what binds a list of tokens. Publish it before the collection; verify-log compares."""
    need_extra()
    from veridp.cli.tables import text_of
    from veridp.collect.service.store import token_hash
    from veridp.collect.transcript import tokens_root

    show(tokens_root(token_hash(token) for token in text_of(file).split()))
    return 0


def verify_log(
    file: Annotated[Path, typer.Argument(help="a log that veridp collect export wrote")],
    state: Annotated[
        list[Path] | None, typer.Option(help="your state file: your session must be in the log; may be repeated")
    ] = None,
    published_root: Annotated[
        str | None, typer.Option("--tokens-root", help="what veridp collect tokens-root printed before the collection")
    ] = None,
    heads: Annotated[
        list[Path] | None,
        typer.Option("--head", help="a head of this log that was signed before (veridp collect head); may be repeated"),
    ] = None,
    log_key: Annotated[str | None, typer.Option(help="the public key that must have signed the log, in hex")] = None,
    processes: Annotated[int, typer.Option(min=1, help="that verify sessions side by side")] = 1,
    confidence: Confidence = 0.95,
    as_json: AsJson = False,
) -> int:
    """Verify every session of a log again, offline, and estimate from it; exit 1 if anything is wrong."""
    need_extra()
    from veridp.collect.client import Record
    from veridp.collect.service.operations import status
    from veridp.collect.transcript import audit

    own = [Record.unpacked(_content(path)) for path in state or []]
    try:
        with file.open("rb") as log, _side_by_side(processes) as executor:
            others = [_head(path) for path in heads or []]
            found = audit(log, own, published_root, others, _public_key(log_key), executor)
    except OSError as error:
        raise BadInput(f"{file}: {error.strerror}; give a log of veridp collect export") from None
    document = status(found.task, found.support, found.attendance, found.rejected, confidence)
    if as_json:
        signed = None if found.head is None else found.head.to_document()
        faults = {"faults": found.fault_count, "first_faults": found.faults, "tokens_root": found.tokens_root}
        faults |= {"head": signed}
        show_json("collect verify-log", {"target": str(file), **document, **faults})
    else:
        show_status(document, False)
        if found.head is not None:
            decided = f"{found.head.size} decided sessions, with the key {found.head.key.hex()}"
            show(f"signed at {utc(found.head.time)} for {decided}")
            uncounted = "of an older server: it does not count sessions that clients left"
            show(f"its head counts {found.head.counts}" if found.head.counts else f"its head is {uncounted}")
        show("\n".join(found.faults) if found.faults else "every session is as it should be")
        if found.fault_count > len(found.faults):
            show(f"… {found.fault_count} faults in all")
    return HOLDS if found.good else FAILS


def utc(seconds: int) -> str:
    """The time so many seconds after the beginning of 1970."""
    from datetime import UTC, datetime

    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return "a time after the year 9999"


def show_status(status: dict[str, Any], as_json: bool) -> None:
    """Print how a collection stands, with its estimate or why there is none."""
    if as_json:
        show_json("collect estimate", {"target": status["task"], **status})
        return
    from rich.table import Table

    show(
        f"{status['task']}: {status['mechanism']}, ε = {status['epsilon']:.6g}; {status['accepted']} accepted, "
        f"{status['rejected']} rejected, {status['expired_challenged']} left after the challenge, "
        f"{status['pending_challenged'] + status['pending_invited']} under way; abort rate {status['abort_rate']:.3g}"
    )
    if status["estimate"] is None:
        show(f"no estimate: {status['withheld']['message']}")
        return
    sure = f"({status['confidence']:g} for all)"
    if status["missing"]:
        show(f"clients that knew something of their report and did not send it: {status['missing']}")
        table = Table("", f"between, whatever they had {sure}", "estimate if they left by chance", "its interval")
    else:
        table = Table("", "estimate", f"interval {sure}")
    for column in status["estimate"]:
        at_worst, by_chance = (
            f"{column[f'{kind}lower']:.5g} to {column[f'{kind}upper']:.5g}" for kind in ("worst_", "")
        )
        cells = [f"{column['value']:.5g}", by_chance]
        table.add_row(column["name"], *([at_worst, *cells] if status["missing"] else cells))
    show(table)


@contextlib.contextmanager
def _side_by_side(processes: int) -> Iterator[Executor | None]:
    """So many processes; None where this one is enough."""
    if processes == 1:
        yield None
        return
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


def _content(file: Path, kind: str = "the state file of veridp collect join") -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise BadInput(f"{file}: {error.strerror}; give {kind}") from None


def _head(file: Path) -> TreeHead:
    from veridp.collect.receipts import TreeHead

    return TreeHead.from_json(_content(file, "a head that veridp collect head printed"))


def _public_key(text: str | None) -> bytes | None:
    from veridp.collect.receipts import KEY_BYTES

    if text is None:
        return None
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise BadInput(f"--log-key {text!r} is not a public key; give the {2 * KEY_BYTES} digits that a head has")
    return key


def need_extra() -> None:
    """Refuse where what a collection needs is not installed."""
    with extra("collect", "veridp collect needs"):
        import alembic
        import httpx
        import msgpack
        import sqlalchemy
        import starlette
        import uvicorn  # noqa: F401
    del alembic, httpx, msgpack, sqlalchemy, starlette
