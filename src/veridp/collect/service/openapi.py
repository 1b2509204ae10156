"""The OpenAPI document of the service."""

from __future__ import annotations

from dataclasses import MISSING, fields
from functools import cache
from typing import Any

from veridp.collect.commitments import SCHEMES
from veridp.collect.messages import Reason
from veridp.collect.task import MECHANISMS, NAME, Task

ADMIN, CLIENT = "admin", "client"
JSON, MESSAGE, TEXT = "application/json", "application/msgpack", "text/plain"
Schema = dict[str, Any]
DIGEST: Schema = {"type": "string", "pattern": "^[0-9a-f]{64}$"}


@cache
def document() -> Schema:
    """The description of every address, for people and for tools that test against it."""
    refused = {"description": "Refused, with a named reason", "content": {JSON: {"schema": _ref("Refusal")}}}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "veridp collect",
            "version": "1",
            "description": "Collects locally private reports whose honest perturbation is proved. Messages are "
            "MessagePack arrays [version, kind, field, …]; see docs/collect.md.",
        },
        "paths": _paths(),
        "components": {
            "securitySchemes": {who: {"type": "http", "scheme": "bearer"} for who in (ADMIN, CLIENT)},
            "responses": {"Refused": refused},
            "schemas": _schemas(),
        },
    }


def _paths() -> dict[str, Schema]:
    client = _operation("A file of the JavaScript client", "text/javascript", named=False)
    client["parameters"] = [{"name": "file", "in": "path", "required": True, "schema": {"type": "string"}}]
    listed = {"type": "object", "required": ["tasks"]}
    return {
        "/healthz": {"get": _operation("Whether the server and its database answer", TEXT, named=False)},
        "/tasks": {"get": _operation("All tasks", JSON, listed, ADMIN, named=False)},
        "/openapi.json": {"get": _operation("This document", JSON, {"type": "object"}, named=False)},
        "/client/{file}": {"get": client},
        "/metrics": {"get": _operation("Metrics for Prometheus", TEXT, who=ADMIN, named=False)},
        **{f"/tasks/{{name}}{rest}": operations for rest, operations in _paths_of_task().items()},
    }


def _paths_of_task() -> dict[str, Schema]:
    """What follows the name of a task in an address."""
    stored = {"type": "object", "required": ["tokens"], "properties": {"tokens": {"type": "integer"}}}
    confidence = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}
    status = _operation(
        "How the collection stands, with the estimate if it may be published", JSON, _ref("Status"), who=ADMIN
    )
    status["parameters"].insert(0, {"name": "confidence", "in": "query", "schema": confidence})
    path = {"type": "object", "required": ["path"], "properties": {"path": {"type": "array", "items": DIGEST}}}
    consistency = _operation("What shows that the log of one size begins with that of another", JSON, path)
    sizes = {"type": "integer", "minimum": 1}
    consistency["parameters"] += [
        {"name": name, "in": "query", "required": True, "schema": sizes} for name in ("first", "second")
    ]
    closing = {
        "type": "object",
        "properties": {"closes": {"type": "integer", "minimum": 0, "exclusiveMaximum": 1 << 53}},
    }
    closed, deleted = ({"type": "object", "required": ["task", name]} for name in ("closes", "deleted"))
    new_task, tokens = (_body(JSON, _ref(name)) for name in ("NewTask", "Tokens"))
    message = _body(MESSAGE, {"type": "string", "format": "binary"})
    return {
        "": {
            "get": _operation("The definition of a task", JSON, _ref("Task")),
            "put": _operation(
                "Create a task; the same task again changes nothing", JSON, _ref("Task"), ADMIN, new_task
            ),
            "delete": _operation("Delete what clients sent to a task that is closed", JSON, deleted, ADMIN),
        },
        "/close": {
            "post": _operation(
                "Begin no sessions from now on, or another time", JSON, closed, ADMIN, _body(JSON, closing)
            )
        },
        "/tokens": {
            "put": _operation(
                "Let clients with tokens of these hashes take part, once each", JSON, stored, ADMIN, tokens
            )
        },
        "/session": {"post": _operation("The invitation of the token's one session", MESSAGE, who=CLIENT)},
        "/commit": {"post": _operation("The challenge that answers a commitment", MESSAGE, None, CLIENT, message)},
        "/open": {"post": _operation("The verdict on an opening", MESSAGE, None, CLIENT, message)},
        "/receipt": {
            "get": _operation("The place of the decided session in the signed log", JSON, _ref("Receipt"), CLIENT)
        },
        "/head": {"get": _operation("The newest signed head of the log", JSON, _ref("TreeHead"))},
        "/consistency": {"get": consistency},
        "/status": {"get": status},
        "/log": {"get": _operation("The whole transcript, for auditors", "application/octet-stream", who=ADMIN)},
        "/live": {"get": _operation("The live page", "text/html")},
        "/join": {"get": _operation("The page on which a person takes part", "text/html")},
    }


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _body(media: str, schema: Schema) -> Schema:
    return {"required": True, "content": {media: {"schema": schema}}}


def _operation(
    summary: str,
    media: str,
    schema: Schema | None = None,
    who: str | None = None,
    body: Schema | None = None,
    *,
    named: bool = True,
) -> Schema:
    """What an address does: for the task that it names, asked by `who`, with this body, if any."""
    name = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
    done = {"description": "Done", "content": {media: {} if schema is None else {"schema": schema}}}
    return {
        "summary": summary,
        "parameters": [name] if named else [],
        "responses": {"200": done, "4XX": {"$ref": "#/components/responses/Refused"}},
        **({} if who is None else {"security": [{who: []}]}),
        **({} if body is None else {"requestBody": body}),
    }


def _schemas() -> dict[str, Schema]:
    number, whole, text = {"type": "number"}, {"type": "integer"}, {"type": "string"}
    column = ("name", "value", "lower", "upper", "worst_lower", "worst_upper")
    counts = (
        "accepted",
        "rejected",
        "expired_challenged",
        "expired_invited",
        "pending_challenged",
        "pending_invited",
        "missing",
        "minimum_batch",
    )
    refusal = {
        "type": "object",
        "required": ["reason", "message"],
        "properties": {"reason": {"type": "string", "enum": [str(reason) for reason in Reason]}, "message": text},
    }
    estimate = {
        "type": "object",
        "required": list(column),
        "properties": {name: text if name == "name" else number for name in column},
    }
    status = {
        "type": "object",
        "required": ["task", "abort_rate", "estimate", "withheld", *counts],
        "properties": {
            "task": text,
            "mechanism": text,
            "epsilon": number,
            **dict.fromkeys(counts, whole),
            "rejected_by_reason": {"type": "object", "additionalProperties": whole},
            "abort_rate": number,
            "maximum_abort_rate": number,
            "confidence": number,
            "estimate": {"oneOf": [{"type": "null"}, {"type": "array", "items": estimate}]},
            "withheld": {"oneOf": [{"type": "null"}, refusal]},
        },
    }
    counted = {"begun": whole, "challenged": whole}
    head = {"size": whole, "time": whole, **counted, "task": DIGEST, "root": DIGEST, "key": DIGEST, "signature": text}
    receipt = {"place": whole, "path": {"type": "array", "items": DIGEST}, "head": _ref("TreeHead")}
    return {
        "Task": _task([field.name for field in fields(Task)]),
        "NewTask": _task(["mechanism", "epsilon"]),
        "Tokens": {
            "type": "object",
            "required": ["hashes"],
            "additionalProperties": False,
            "properties": {"hashes": {"type": "array", "items": DIGEST}},
        },
        "Status": status,
        "TreeHead": {"type": "object", "required": sorted(head.keys() - counted.keys()), "properties": head},
        "Receipt": {"type": "object", "required": list(receipt), "properties": receipt},
        "Refusal": refusal,
    }


def _task(required: list[str]) -> Schema:
    kinds: dict[str, Schema] = {
        "str": {"type": "string"},
        "int": {"type": "integer"},
        "float": {"type": "number"},
        "tuple[str, ...]": {"type": "array", "items": {"type": "string"}},
    }
    properties: dict[str, Any] = {}
    for field in fields(Task):
        properties[field.name] = dict(kinds[str(field.type)])
        if field.default is not MISSING:
            properties[field.name]["default"] = list(field.default) if field.default == () else field.default
    properties["name"]["pattern"] = f"^{NAME.pattern}$"
    properties["mechanism"]["enum"] = list(MECHANISMS)
    properties["scheme"]["enum"] = list(SCHEMES)
    properties["epsilon"] |= {"exclusiveMinimum": 0, "exclusiveMaximum": 20}
    return {"type": "object", "required": required, "additionalProperties": False, "properties": properties}
