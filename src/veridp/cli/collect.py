"""`veridp collect …`: run a verifiable collection, take part in one, estimate from it, audit it."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import secrets
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veridp.budget import Deadline
from veridp.cli.options import AsJson, Confidence, Time
from veridp.cli.output import FAILS, HOLDS, show, show_json, write_report
from veridp.cli.tables import chosen_labels
from veridp.errors import BadInput, extra

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from veridp.collect.receipts import TreeHead
    from veridp.collect.service.http_client import Server

TOKENS_AT_ONCE = 20_000
ADMIN_VARIABLE, CLIENT_VARIABLE = "VERIDP_ADMIN_TOKEN", "VERIDP_TOKEN"

ServerUrl = Annotated[str, typer.Option("--server", help="the address of the server, http(s)://…")]
TokenFile = Annotated[Path | None, typer.Option(help="a file with the token; else the environment variable is used")]
Authorities = Annotated[Path | None, typer.Option("--ca", help="certificates to trust, in PEM")]
TaskName = Annotated[str, typer.Argument(help="the name of the task")]
DatabaseUrl = Annotated[str, typer.Option("--database", help="sqlite:///FILE or postgresql://USER@HOST/NAME")]

app = typer.Typer(help="Collect locally private reports whose honest perturbation is proved.", rich_markup_mode=None)


@app.command("serve")
def serve(
    database: DatabaseUrl = "sqlite:///collect.db",
    host: Annotated[str, typer.Option(help="the address to listen at")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="the port to listen at; 0: any")] = 8460,
    processes: Annotated[int, typer.Option(min=1, help="server processes behind the port")] = 1,
    judges: Annotated[int, typer.Option(min=1, help="processes that verify, for each server process")] = 1,
    rate: Annotated[float, typer.Option(min=0.0, help="requests a second for each client; 0: any number")] = 50.0,
    burst: Annotated[int, typer.Option(min=1, help="requests that a client may send at once")] = 100,
    request_seconds: Annotated[
        float, typer.Option(help="close connections whose requests take longer to arrive")
    ] = 20.0,
    database_seconds: Annotated[float, typer.Option(help="answer 503 if the database takes longer")] = 10.0,
    tls_cert: Annotated[Path | None, typer.Option(help="the server's certificate, in PEM")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="its private key")] = None,
    proxy: Annotated[str | None, typer.Option(help="proxies whose X-Forwarded-For is believed, e.g. 10.0.0.1")] = None,
    key_file: Annotated[
        Path | None, typer.Option(help="the keys that nonces are derived from; default for SQLite: DATABASE.key")
    ] = None,
    signing_key_file: Annotated[
        Path | None,
        typer.Option(help="the key that signs the heads of logs; default for SQLite: DATABASE.signing-key"),
    ] = None,
    allow_origin: Annotated[
        list[str] | None, typer.Option(help="pages of this origin may take part (CORS), e.g. https://example.org")
    ] = None,
    token_file: TokenFile = None,
    access_log: Annotated[bool, typer.Option(help="log every request")] = False,
) -> int:
    """Serve tasks until stopped. The admin token is in --token-file, or in VERIDP_ADMIN_TOKEN.

    VERIDP_METRICS_TOKEN, if it is set, shows the metrics as well, and nothing else.
    """
    _need_extra()
    from veridp.collect.service.operations import ServiceSettings, run

    if (tls_cert is None) != (tls_key is None):
        raise BadInput("--tls-cert and --tls-key belong together; give both, or neither behind a TLS proxy")
    admin = _token(token_file, ADMIN_VARIABLE)
    keys, signing_key = ("" if file is None else str(file) for file in (key_file, signing_key_file))
    settings = ServiceSettings(
        database,
        admin,
        judges,
        rate,
        burst,
        metrics_token=os.environ.get("VERIDP_METRICS_TOKEN", "").strip(),
        request_seconds=request_seconds,
        database_seconds=database_seconds,
        key_file=keys,
        signing_key_file=signing_key,
        origins=tuple(allow_origin or ()),
        several=processes > 1,
    )
    kind = "http" if tls_cert is None else "https"
    typer.echo(f"veridp collect: serving at {kind}://{host}:{port}, from {_without_password(database)}", err=True)
    run(settings, host, port, processes, tls_cert=tls_cert, tls_key=tls_key, proxy=proxy, access_log=access_log)
    return 0


@app.command("task")
def create_task(
    name: TaskName,
    server: ServerUrl,
    mechanism: Annotated[str, typer.Option(help="vgrr, voue, volh, grr-ho, sr-ho, pm-ho, sr-smp or sr-spl")],
    epsilon: Annotated[float, typer.Option(help="the ε that a report may cost at most")],
    items: Annotated[
        str | None,
        typer.Option(help="a,b,c or 0..99 or @file with one a line; of sr-smp and sr-spl: age=17..90,hours=1..99"),
    ] = None,
    low: Annotated[float, typer.Option(help="the lowest number")] = 0.0,
    high: Annotated[float, typer.Option(help="the highest number")] = 0.0,
    resolution: Annotated[int, typer.Option(help="points of grr-ho, copies of sr-ho, bins of pm-ho")] = 0,
    scheme: Annotated[str, typer.Option(help="blake2b, blake3 or ristretto255")] = "blake2b",
    minimum_batch: Annotated[int, typer.Option(help="publish from so many reports on")] = 100,
    maximum_abort_rate: Annotated[float, typer.Option(help="publish up to this share of aborts")] = 0.05,
    session_seconds: Annotated[int, typer.Option(help="how long a session stays open")] = 600,
    expires: Annotated[int | None, typer.Option(help="when the task ends, in seconds since 1970")] = None,
    tokens: Annotated[int, typer.Option(min=0, help="so many new client tokens are printed, one a line")] = 0,
    token_file: TokenFile = None,
    authorities: Authorities = None,
) -> int:
    """Create a task (the same again changes nothing), and print new client tokens for it."""
    _need_extra()
    import json

    from veridp.collect import Task
    from veridp.collect.service.store import token_hash

    domain: dict[str, Any] = {"low": low, "high": high, "resolution": resolution}
    if expires is not None:
        domain["expires"] = expires
    if items is not None:
        domain |= {"items": chosen_labels(items)}
    task = Task(
        name,
        mechanism,
        epsilon,
        scheme=scheme,
        minimum_batch=minimum_batch,
        maximum_abort_rate=maximum_abort_rate,
        session_seconds=session_seconds,
        **domain,
    )
    fresh = [secrets.token_urlsafe(24) for _ in range(tokens)]
    with _server(server, token_file, ADMIN_VARIABLE, authorities) as asked:
        asked.ask("PUT", f"/tasks/{name}", task.to_json().encode(), "application/json")
        for start in range(0, len(fresh), TOKENS_AT_ONCE):
            hashes = [token_hash(token).hex() for token in fresh[start : start + TOKENS_AT_ONCE]]
            asked.ask("PUT", f"/tasks/{name}/tokens", json.dumps({"hashes": hashes}).encode(), "application/json")
    if fresh:
        show("\n".join(fresh))
    return 0


@app.command("tasks")
def list_tasks(
    server: ServerUrl, token_file: TokenFile = None, authorities: Authorities = None, as_json: AsJson = False
) -> int:
    """List all tasks of a server: until when they are open, and how many reports they have."""
    _need_extra()
    from datetime import UTC, datetime

    from rich.table import Table

    with _server(server, token_file, ADMIN_VARIABLE, authorities) as asked:
        found = asked.ask("GET", "/tasks").json()["tasks"]
    if as_json:
        show_json("collect tasks", *({"target": each["task"], **each} for each in found))
        return 0
    table = Table("task", "mechanism", "ε", "accepted", "open until")
    for each in found:
        until = datetime.fromtimestamp(each["closes"], UTC).isoformat(" ", "seconds").removesuffix("+00:00")
        cells = f"{each['epsilon']:.6g}", str(each["accepted"]), f"{until} UTC"
        table.add_row(each["task"], each["mechanism"], *cells)
    show(table)
    return 0


@app.command("close")
def close_task(
    name: TaskName,
    server: ServerUrl,
    at: Annotated[int | None, typer.Option(help="when, in seconds since 1970; default: now")] = None,
    token_file: TokenFile = None,
    authorities: Authorities = None,
) -> int:
    """Begin no sessions from now on, or from another time; a later time than before opens the task again.

    Sessions that have begun may be completed. No task is open for longer than its definition says.
    """
    _need_extra()
    import json

    given = {} if at is None else {"closes": at}
    with _server(server, token_file, ADMIN_VARIABLE, authorities) as asked:
        asked.ask("POST", f"/tasks/{name}/close", json.dumps(given).encode(), "application/json")
    return 0


@app.command("delete")
def delete_task(
    name: TaskName,
    server: ServerUrl,
    yes: Annotated[bool, typer.Option("--yes", help="delete without asking")] = False,
    token_file: TokenFile = None,
    authorities: Authorities = None,
) -> int:
    """Delete all that clients sent to a closed task, for good; export its log first. Its name stays taken."""
    _need_extra()
    if not yes and not typer.confirm(f"Delete all sessions of {name}? They cannot be brought back.", err=True):
        raise BadInput("nothing was deleted; give --yes to delete without being asked")
    with _server(server, token_file, ADMIN_VARIABLE, authorities) as asked:
        asked.ask("DELETE", f"/tasks/{name}")
    return 0


@app.command("join")
def take_part(
    name: TaskName,
    value: Annotated[str, typer.Argument(help="the value to report on: an item, a number, or age=39,hours=40")],
    server: ServerUrl,
    state: Annotated[Path, typer.Option(help="the file that remembers the session; keep it")],
    epsilon: Annotated[float, typer.Option(help="do not take part if a report costs more")] = 1.0,
    ledger: Annotated[
        Path | None, typer.Option(help="a ledger of veridp budget that pays; default: one of your own, with ε = 3")
    ] = None,
    token_file: TokenFile = None,
    authorities: Authorities = None,
    seconds: Time = 60.0,
    as_json: AsJson = False,
) -> int:
    """Take part in a task once; exit 1 if the report was not accepted. The token is in --token-file or VERIDP_TOKEN."""
    _need_extra()
    from veridp.accounting.ledger import Ledger
    from veridp.collect.messages import Refused
    from veridp.collect.service.http_client import client_ledger, join

    pays = client_ledger() if ledger is None else Ledger(ledger)
    try:
        with _server(server, token_file, CLIENT_VARIABLE, authorities, seconds) as asked:
            verdict = join(asked, name, value, state, pays, epsilon)
        accepted, reason = verdict.accepted, verdict.reason
    except Refused as refusal:
        accepted, reason = False, str(refusal)
    if as_json:
        show_json("collect join", {"target": name, "task": name, "accepted": accepted, "reason": reason})
    else:
        show(f"accepted; the receipt is in {state}" if accepted else f"not accepted: {reason}")
    return HOLDS if accepted else FAILS


@app.command("estimate")
def show_estimate(
    name: TaskName,
    server: Annotated[str | None, typer.Option(help="the address of the server, http(s)://…")] = None,
    database: Annotated[str | None, typer.Option(help="or the URL of its database")] = None,
    confidence: Confidence = 0.95,
    token_file: TokenFile = None,
    authorities: Authorities = None,
    as_json: AsJson = False,
) -> int:
    """Print the estimate with its bounds; exit 1 where the task's rules forbid to publish it."""
    _need_extra()
    if (server is None) == (database is None):
        raise BadInput("give either --server or --database")
    if server is None:
        status = _status_at(str(database), name, confidence)
    else:
        with _server(server, token_file, ADMIN_VARIABLE, authorities) as asked:
            status = asked.ask("GET", f"/tasks/{name}/status?confidence={confidence}").json()
    _show_status(status, as_json)
    return HOLDS if status["estimate"] is not None else FAILS


@app.command("export")
def export(
    name: TaskName,
    file: Annotated[Path, typer.Argument(help="where the log goes")],
    server: Annotated[str | None, typer.Option(help="the address of the server, http(s)://…")] = None,
    database: Annotated[str | None, typer.Option(help="or the URL of its database")] = None,
    token_file: TokenFile = None,
    authorities: Authorities = None,
) -> int:
    """Write the transcript of a task to a file, for auditors."""
    _need_extra()
    if (server is None) == (database is None):
        raise BadInput("give either --server or --database")
    if server is None:
        write_report(file, _log_at(str(database), name))
    else:
        with _server(server, token_file, ADMIN_VARIABLE, authorities) as asked:
            write_report(file, asked.pieces(f"/tasks/{name}/log"))
    return 0


@app.command("head")
def show_head(
    name: TaskName,
    server: ServerUrl,
    since: Annotated[
        Path | None, typer.Option(help="a head that this command printed before: the log must continue it")
    ] = None,
    authorities: Authorities = None,
) -> int:
    """Print the newest signed head of a task's log, for others to compare; exit 1 if the log was rewritten."""
    _need_extra()
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


@app.command("tokens-root")
def show_tokens_root(
    file: Annotated[Path, typer.Argument(help="all tokens of a task, one a line")],
) -> int:
    """Print what binds a list of tokens. Publish it before the collection; verify-log compares."""
    _need_extra()
    from veridp.cli.tables import text_of
    from veridp.collect.service.store import token_hash
    from veridp.collect.transcript import tokens_root

    show(tokens_root(token_hash(token) for token in text_of(file).split()))
    return 0


@app.command("verify-log")
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
    _need_extra()
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
        _show_status(document, False)
        if found.head is not None:
            show(f"signed for {found.head.size} decided sessions with the key {found.head.key.hex()}")
        show("\n".join(found.faults) if found.faults else "every session is as it should be")
        if found.fault_count > len(found.faults):
            show(f"… {found.fault_count} faults in all")
    return HOLDS if found.good else FAILS


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


def _show_status(status: dict[str, Any], as_json: bool) -> None:
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


def _status_at(url: str, name: str, confidence: float) -> dict[str, Any]:
    import time

    from veridp.collect.service import store
    from veridp.collect.service.operations import status_of

    with _reading(url) as connection:
        return status_of(connection, store.get_task(connection, name), time.time(), confidence)


def _log_at(url: str, name: str) -> Iterator[bytes]:
    import time

    from veridp.collect.service import store
    from veridp.collect.service.tree import head_of
    from veridp.collect.transcript import written

    with _reading(url) as connection:
        task = store.get_task(connection, name)
        parts = store.all_sessions(connection, task), store.all_tokens(connection, task)
        yield from written(task, int(time.time()), *parts, head=head_of(connection, task))


@contextlib.contextmanager
def _reading(url: str) -> Iterator[Connection]:
    """A connection to the database of a server, which must be there."""
    from veridp.collect.service.store import Database

    database = Database.open(url, create=False)
    try:
        with database.reading() as connection:
            yield connection
    finally:
        database.close()


def _server(
    url: str, token_file: Path | None, variable: str, authorities: Path | None, seconds: float = 60.0
) -> Server:
    from veridp.collect.service.http_client import Server

    return Server(url, _token(token_file, variable), Deadline(seconds), authorities)


def _token(file: Path | None, variable: str) -> str:
    """The token; never from the command line, which others on the machine can see."""
    if file is not None:
        try:
            return file.read_text(encoding="utf-8").strip()
        except OSError as error:
            raise BadInput(f"{file}: {error.strerror}; give a file with a token") from None
    if variable not in os.environ:
        raise BadInput(f"no token; give --token-file, or set {variable}")
    return os.environ[variable].strip()


def _without_password(url: str) -> str:
    """The URL of a database, fit to be shown."""
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        return make_url(url).render_as_string(hide_password=True)
    except ArgumentError:
        return url


def _need_extra() -> None:
    with extra("collect", "veridp collect needs"):
        import alembic
        import httpx
        import msgpack
        import sqlalchemy
        import starlette
        import uvicorn  # noqa: F401
    del alembic, httpx, msgpack, sqlalchemy, starlette
