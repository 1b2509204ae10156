"""`veridp collect …`: run a verifiable collection, take part in one, estimate from it, audit it."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veridp.budget import Deadline
from veridp.cli.collect_audit import (
    Authorities,
    ServerUrl,
    TaskName,
    need_extra,
    show_head,
    show_status,
    show_tokens_root,
    utc,
    verify_log,
)
from veridp.cli.options import AsJson, Confidence, Time
from veridp.cli.output import FAILS, HOLDS, show, show_json, write_report
from veridp.cli.tables import chosen_labels
from veridp.errors import BadInput

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from veridp.collect.service.http_client import Server

TOKENS_AT_ONCE = 20_000
ADMIN_VARIABLE, CLIENT_VARIABLE = "VERIDP_ADMIN_TOKEN", "VERIDP_TOKEN"

TokenFile = Annotated[Path | None, typer.Option(help="a file with the token; else the environment variable is used")]
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
    need_extra()
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
    need_extra()
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
    need_extra()
    from rich.table import Table

    with _server(server, token_file, ADMIN_VARIABLE, authorities) as asked:
        found = asked.document("/tasks")["tasks"]
    if as_json:
        show_json("collect tasks", *({"target": each["task"], **each} for each in found))
        return 0
    table = Table("task", "mechanism", "ε", "accepted", "open until")
    for each in found:
        cells = f"{each['epsilon']:.6g}", str(each["accepted"]), utc(each["closes"])
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
    """Begin no sessions from now on, or from another time. Sessions that have begun may be completed."""
    need_extra()
    with _server(server, token_file, ADMIN_VARIABLE, authorities) as asked:
        _set_end(asked, name, {} if at is None else {"closes": at})
    return 0


@app.command("extend")
def extend_task(
    name: TaskName,
    server: ServerUrl,
    until: Annotated[int, typer.Option(help="when it closes instead, in seconds since 1970")],
    token_file: TokenFile = None,
    authorities: Authorities = None,
) -> int:
    """Begin sessions until a later time than now; a task that was closed is open again.

    No task is open for longer than its definition says: clients took part under that. Make a new one for what follows.
    """
    need_extra()
    with _server(server, token_file, ADMIN_VARIABLE, authorities) as asked:
        known = {each["task"]: each["closes"] for each in asked.document("/tasks")["tasks"]}
        if name in known and until <= known[name]:
            raise BadInput(
                f"the task {name!r} is open until {known[name]} already; give a later time, or close it --at"
            )
        _set_end(asked, name, {"closes": until})
    return 0


def _set_end(server: Server, name: str, given: dict[str, int]) -> None:
    import json

    server.ask("POST", f"/tasks/{name}/close", json.dumps(given).encode(), "application/json")


@app.command("delete")
def delete_task(
    name: TaskName,
    server: ServerUrl,
    yes: Annotated[bool, typer.Option("--yes", help="delete without asking")] = False,
    token_file: TokenFile = None,
    authorities: Authorities = None,
) -> int:
    """Delete all that clients sent to a closed task, for good; export its log first. Its name stays taken."""
    need_extra()
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
    need_extra()
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
    need_extra()
    if (server is None) == (database is None):
        raise BadInput("give either --server or --database")
    if server is None:
        status = _status_at(str(database), name, confidence)
    else:
        with _server(server, token_file, ADMIN_VARIABLE, authorities) as asked:
            status = asked.document(f"/tasks/{name}/status?confidence={confidence}")
    show_status(status, as_json)
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
    need_extra()
    if (server is None) == (database is None):
        raise BadInput("give either --server or --database")
    if server is None:
        write_report(file, _log_at(str(database), name))
    else:
        with _server(server, token_file, ADMIN_VARIABLE, authorities) as asked:
            write_report(file, asked.pieces(f"/tasks/{name}/log"))
    return 0


app.command("head")(show_head)
app.command("tokens-root")(show_tokens_root)
app.command("verify-log")(verify_log)


def _status_at(url: str, name: str, confidence: float) -> dict[str, Any]:
    import time

    from veridp.collect.service import store
    from veridp.collect.service.operations import status_of

    with _reading(url) as connection:
        return status_of(connection, store.get_task(connection, name), time.time(), confidence)


def _log_at(url: str, name: str) -> Iterator[bytes]:
    from veridp.collect.service.tree import log_of

    with _reading(url) as connection:
        yield from log_of(connection, name)


@contextlib.contextmanager
def _reading(url: str) -> Iterator[Connection]:
    """A connection to the database of a server, which must be there."""
    from veridp.collect.service.database import Database

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
