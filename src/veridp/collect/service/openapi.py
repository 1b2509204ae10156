"""The OpenAPI document of the service."""

from __future__ import annotations

from dataclasses import MISSING, fields
from functools import cache
from typing import Any

from veridp.collect.commitments import SCHEMES
from veridp.collect.reasons import Reason
from veridp.collect.task import MECHANISMS, NAME, Task

ADMIN, CLIENT = "admin", "client"
REFUSED = {"$ref": "#/components/responses/Refused"}


@cache
def document() -> dict[str, Any]:
    """The description of every address, for people and for tools that test against it."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "veridp collect",
            "version": "1",
            "description": "Collects locally private reports whose honest perturbation is proved. Messages are "
            "MessagePack arrays [version, kind, field, …]; see docs/collect.md.",
        },
        "paths": {
            "/healthz": {"get": _operation("Whether the server and its database answer", "text/plain", None)},
            "/openapi.json": {"get": _operation("This document", "application/json", {"type": "object"})},
            "/metrics": {"get": _operation("Metrics for Prometheus", "text/plain", None)},
            "/tasks/{name}": {
                "get": _operation("The definition of a task", "application/json", _ref("Task"), named=True),
                "put": _operation(
                    "Create a task; the same task again changes nothing",
                    "application/json",
                    _ref("Task"),
                    named=True,
                    who=ADMIN,
                    body={"application/json": {"schema": _ref("NewTask")}},
                ),
            },
            "/tasks/{name}/tokens": {
                "put": _operation(
                    "Let clients with tokens of these hashes take part, once each",
                    "application/json",
                    {"type": "object", "required": ["tokens"], "properties": {"tokens": {"type": "integer"}}},
                    named=True,
                    who=ADMIN,
                    body={"application/json": {"schema": _ref("Tokens")}},
                )
            },
            "/tasks/{name}/session": {
                "post": _step("The invitation of the token's one session", None),
            },
            "/tasks/{name}/commit": {"post": _step("The challenge that answers a commitment", "Commit")},
            "/tasks/{name}/open": {"post": _step("The verdict on an opening", "Opening")},
            "/tasks/{name}/status": {
                "get": _operation(
                    "How the collection stands, with the estimate if it may be published",
                    "application/json",
                    _ref("Status"),
                    named=True,
                    who=ADMIN,
                    query=[
                        {
                            "name": "confidence",
                            "in": "query",
                            "schema": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
                        }
                    ],
                )
            },
            "/tasks/{name}/log": {
                "get": _operation(
                    "The whole transcript, for auditors", "application/octet-stream", None, named=True, who=ADMIN
                )
            },
            "/tasks/{name}/live": {"get": _operation("The live page", "text/html", None, named=True)},
        },
        "components": {
            "securitySchemes": {
                ADMIN: {"type": "http", "scheme": "bearer"},
                CLIENT: {"type": "http", "scheme": "bearer"},
            },
            "responses": {
                "Refused": {
                    "description": "Refused, with a named reason",
                    "content": {"application/json": {"schema": _ref("Refusal")}},
                }
            },
            "schemas": _schemas(),
        },
    }


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _operation(
    summary: str,
    media: str,
    schema: dict[str, Any] | None,
    *,
    named: bool = False,
    who: str | None = None,
    body: dict[str, Any] | None = None,
    query: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    parameters = list(query or [])
    if named:
        parameters.append({"name": "name", "in": "path", "required": True, "schema": {"type": "string"}})
    found: dict[str, Any] = {
        "summary": summary,
        "parameters": parameters,
        "responses": {
            "200": {"description": "Done", "content": {media: {} if schema is None else {"schema": schema}}},
            "4XX": REFUSED,
        },
    }
    if who is not None:
        found["security"] = [{who: []}]
    if body is not None:
        found["requestBody"] = {"required": True, "content": body}
    return found


def _step(summary: str, message: str | None) -> dict[str, Any]:
    """A step of a session."""
    body = None if message is None else {"application/msgpack": {"schema": {"type": "string", "format": "binary"}}}
    return _operation(summary, "application/msgpack", None, named=True, who=CLIENT, body=body)


def _schemas() -> dict[str, Any]:
    number, whole, text = {"type": "number"}, {"type": "integer"}, {"type": "string"}
    column = ("name", "value", "lower", "upper", "worst_lower", "worst_upper")
    counts = (
        "accepted",
        "rejected",
        "expired_challenged",
        "expired_invited",
        "pending_challenged",
        "pending_invited",
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
    return {
        "Task": _task([field.name for field in fields(Task)]),
        "NewTask": _task(["mechanism", "epsilon"]),
        "Tokens": {
            "type": "object",
            "required": ["hashes"],
            "additionalProperties": False,
            "properties": {"hashes": {"type": "array", "items": {"type": "string", "pattern": "^[0-9a-f]{64}$"}}},
        },
        "Status": status,
        "Refusal": refusal,
    }


def _task(required: list[str]) -> dict[str, Any]:
    kinds: dict[str, dict[str, Any]] = {
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
