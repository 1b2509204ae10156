"""The HTTP service: which address is answered by what, and how refusals are reported."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from sqlalchemy.exc import SQLAlchemyError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from veridp.collect.messages import Reason, Refused
from veridp.collect.service import store
from veridp.collect.service.background import CommitQueue, SessionCache, SessionSteps, VerifierPool
from veridp.collect.service.database import Database
from veridp.collect.service.handlers import Service
from veridp.collect.service.keys import NonceKeys, SigningKey
from veridp.collect.service.operations import Limiter, Metrics, ServiceSettings, limit_of_guesses
from veridp.collect.service.tally import TaskCounts, standings
from veridp.errors import BadInput

STATUS = {
    Reason.UNKNOWN_TOKEN: 401,
    Reason.UNKNOWN_TASK: 404,
    Reason.NOT_FOUND: 404,
    Reason.WRONG_TASK: 409,
    Reason.WRONG_SESSION: 409,
    Reason.OUT_OF_ORDER: 409,
    Reason.SECOND_COMMITMENT: 409,
    Reason.REPLAYED: 409,
    Reason.CONFLICT: 409,
    Reason.TOO_SLOW: 408,
    Reason.EXPIRED: 410,
    Reason.TASK_CLOSED: 410,
    Reason.OVERSIZED: 413,
    Reason.WRONG_CONTENT_TYPE: 415,
    Reason.TOO_FAST: 429,
    Reason.UNAVAILABLE: 503,
}

HONEST = {  # refusals that clients may meet who do nothing wrong; all others count as guesses of their address
    Reason.OUT_OF_ORDER,
    Reason.SECOND_COMMITMENT,
    Reason.REPLAYED,
    Reason.CONFLICT,
    Reason.EXPIRED,
    Reason.TASK_CLOSED,
    Reason.TOO_SLOW,
    Reason.TOO_FAST,
    Reason.UNAVAILABLE,
}

Handler = Callable[[Request], Awaitable[Response]]
log = logging.getLogger("veridp.collect")


class CollectApplication(Starlette):
    """Starlette with a shortcut past middleware and routes for the steps of clients, which are most requests."""

    steps: Mapping[str, Handler] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        parts = scope.get("path", "").split("/")
        if scope.get("method") != "POST" or len(parts) != 4 or parts[1] != "tasks" or parts[3] not in self.steps:
            return await super().__call__(scope, receive, send)
        scope["app"], scope["path_params"] = self, {"name": parts[2]}
        response = await self.steps[parts[3]](Request(scope, receive, send))
        return await response(scope, receive, send)


def application(settings: ServiceSettings) -> CollectApplication:
    """The ASGI application of one process."""

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        service = _started(settings)
        app.state.service = service
        try:
            await service.verifiers.ready()
            background = [asyncio.create_task(service.keep_log()), service.drop()]
            yield
            for each in (*background, *service.dropping):
                each.cancel()
        finally:
            service.queue.stop()
            service.verifiers.stop()
            service.database.close()

    routes = [
        _route("/tasks/{name}/session", "session", Service.session, "POST"),
        _route("/tasks/{name}/commit", "commit", Service.commit, "POST"),
        _route("/tasks/{name}/open", "open", Service.open, "POST"),
        _route("/tasks/{name}/receipt", "receipt", Service.receipt),
        _route("/tasks/{name}/head", "head", Service.head),
        _route("/tasks/{name}/consistency", "consistency", Service.consistency),
        _route("/healthz", "health", Service.health),
        _route("/openapi.json", "openapi", Service.openapi),
        _route("/metrics", "metrics", Service.metrics_page),
        _route("/tasks/{name}", "task", Service.get_task),
        _route("/tasks/{name}", "put-task", Service.put_task, "PUT"),
        _route("/tasks/{name}", "delete", Service.delete, "DELETE"),
        _route("/tasks", "tasks", Service.list_tasks),
        _route("/tasks/{name}/close", "close", Service.close, "POST"),
        _route("/tasks/{name}/tokens", "put-tokens", Service.put_tokens, "PUT"),
        _route("/tasks/{name}/status", "status", Service.status),
        _route("/tasks/{name}/log", "log", Service.log),
        _route("/tasks/{name}/live", "live", Service.live),
        _route("/tasks/{name}/join", "join", Service.join),
        _route("/client/{file}", "client", Service.client_script),
    ]
    found = CollectApplication(
        routes=routes,
        lifespan=lifespan,
        exception_handlers={HTTPException: _not_found},
        middleware=[Middleware(CORSMiddleware, **_sharing(settings.origins))] if settings.origins else [],
    )
    if not settings.origins:  # pages elsewhere need the headers of the middleware
        found.steps = {route.name: route.endpoint for route in routes[:3]}
    return found


def _sharing(origins: tuple[str, ...]) -> dict[str, Any]:
    """What scripts of pages elsewhere may do: take part, and nothing that needs the admin token's methods."""
    allowed = ["Authorization", "Content-Type"]
    return {"allow_origins": list(origins), "allow_methods": ["GET", "POST"], "allow_headers": allowed}


def from_environment() -> Starlette:
    """The application with the settings that `veridp collect serve` left."""
    return application(ServiceSettings.from_environment())


def _started(settings: ServiceSettings) -> Service:
    keys, database = NonceKeys.open(settings.key_file, settings.database), Database.open(settings.database)
    signing_key = SigningKey.open(settings.signing_key_file, settings.database)
    queue, verifiers = CommitQueue(database), VerifierPool(settings.judges)

    def counts() -> dict[str, TaskCounts]:
        with database.reading() as connection:
            return standings(connection, [task for task, _ in store.all_tasks(connection)], time.time())

    queue.start()
    verifiers.start()
    limiter, metrics = Limiter(settings.rate, settings.burst), Metrics(counts)
    parts = database, queue, verifiers, limiter, metrics
    return Service(settings, SessionSteps(keys), signing_key, *parts, {}, SessionCache(), {}, {}, set(), set())


def _route(path: str, step: str, method: Callable[[Service, Request], Awaitable[Response]], verb: str = "GET") -> Route:
    """An address whose refusals carry their reason, and whose answers are timed."""

    async def answer(request: Request) -> Response:
        service: Service = request.app.state.service
        start = time.perf_counter()
        try:
            return await method(service, request)
        except Refused as refusal:
            found = refusal
            if refusal.reason not in HONEST:
                with contextlib.suppress(Refused):
                    service.limiter.check(limit_of_guesses(request))
        except BadInput as error:
            found = Refused(Reason.MALFORMED, str(error))
        except (SQLAlchemyError, BrokenProcessPool) as error:
            log.error("the database or a verifier failed: %s", error)
            found = Refused(Reason.UNAVAILABLE, "the database or a verifier does not answer; try again")
        finally:
            service.metrics.latency.labels(step).observe(time.perf_counter() - start)
        service.metrics.refusals.labels(str(found.reason)).inc()
        return _refusal(found)

    return Route(path, answer, methods=[verb], name=step)


def _refusal(refused: Refused, status: int | None = None) -> Response:
    status = STATUS.get(refused.reason, 400) if status is None else status
    headers = {401: {"WWW-Authenticate": "Bearer"}, 429: {"Retry-After": "1"}}.get(status)
    return JSONResponse({"reason": str(refused.reason), "message": refused.found}, status_code=status, headers=headers)


async def _not_found(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 404
    headers = error.headers if isinstance(error, HTTPException) else None
    answer = _refusal(Refused(Reason.NOT_FOUND, "there is nothing at this address; see /openapi.json"), status)
    answer.headers.update(headers or {})
    return answer
