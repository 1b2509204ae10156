"""The wire protocol: test vectors that clients in any language compare with, and the JavaScript client against them.

VERIDP_WRITE_GOLDEN=1 writes the vectors anew, which is right only with a new version of the messages.
"""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import subprocess
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import veridp.collect
from veridp.collect import Client, MemoryVault, Task
from veridp.collect.attacks import new_session
from veridp.collect.harmless import log_ratio, rates
from veridp.collect.merkle import inclusion_path, joined, leaf_hash, root_of
from veridp.collect.messages import digest, encode, selected
from veridp.collect.protocols import VOLH
from veridp.collect.receipts import Receipt, StepCounts, TreeHead, entry_of
from veridp.collect.task import packed_values

PACKAGE = Path(veridp.collect.__file__).parent / "javascript"
VECTORS = PACKAGE / "test" / "vectors.json"
ITEMS = tuple(f"item {number}" for number in range(7))
ATTRIBUTES = ("age=17..90", "hours=1..99", "balance=-5..5.0")
TASKS = [
    Task("items", "vgrr", 1.0, items=ITEMS),
    Task("bits", "voue", math.log(2), items=ITEMS[:3]),
    Task("odd-bits", "voue", math.log(3), items=ITEMS[:4]),
    Task("hashed", "volh", 1.5, items=ITEMS),
    Task("ages", "grr-ho", 0.7, low=17, high=90, resolution=300),  # values of two bytes
    Task("ends", "sr-ho", math.log(2), low=-1, high=1, resolution=5),
    Task("bins", "pm-ho", 2.0, low=0, high=100, resolution=20),
    Task("n.1", "vgrr", 0.5, items=("é", "日本", 'quo"te')),
    Task("split", "sr-spl", 3 * math.log(2), items=ATTRIBUTES),
    Task("drawn", "sr-smp", 1.0, items=ATTRIBUTES),
]
VALUES = {"split": "age=90,hours=1,balance=5", "drawn": "age=90,hours=99,balance=-5"}  # at ends: rounded in one way


def vectors() -> dict[str, Any]:
    """Everything that a client computes, for fixed randomness."""
    return {
        "blake2b": [
            {"data": data.hex(), "bytes": size, "person": person, "digest": _blake2b(data, size, person)}
            for data, size, person in ((b"", 32, ""), (b"abc", 64, ""), (bytes(range(256)), 32, "veridp task"))
        ],
        "digest": [
            {"purpose": "veridp task", "parts": ["", "ab"], "digest": digest(b"veridp task", b"", b"\xab").hex()}
        ],
        "rates": [
            [epsilon, 0.95, *_rates(epsilon)] for epsilon in (0.01, 0.1, 0.5, math.log(2), 1.0, math.log(3), 3, 8)
        ]
        + [
            [epsilon, 0.95, *_rates(epsilon, parts), parts]
            for epsilon, parts in ((1.0, 2), (3 * math.log(2), 3), (8, 7))
        ],
        "logarithms": [[*pair, log_ratio(*pair)] for pair in ((3, 1), (8, 3), (11, 10), (2981, 1), (10000, 9999))],
        "sessions": [_session(task, number) for number, task in enumerate(TASKS)],
        "receipt": _receipt(TASKS[0], StepCounts(8, 6)),
        "receipt_of_an_older_server": _receipt(TASKS[0], None),
    }


def _blake2b(data: bytes, size: int, person: str) -> str:
    return blake2b(data, digest_size=size, person=person.encode()).hexdigest()


def _rates(epsilon: float, parts: int = 1) -> tuple[int, int]:
    found = rates(epsilon, parts=parts)
    return found.held, found.other


def _session(task: Task, seed: int) -> dict[str, Any]:
    rng = random.Random(seed)
    protocol, vault = task.protocol, MemoryVault()
    layout = protocol.layout
    session = new_session(task, rng)
    value = VALUES.get(task.name, task.items[-1] if task.items else task.high)
    client = Client(protocol, task.verifier, vault, rng)
    session = session.committed(client.commit(session.invitation, value), 0, task.verifier)
    opening = client.open(session.challenge)
    record = client.record
    chosen = protocol.choose(value, rng)
    decided = session.opened(opening, 0, task.verifier)
    assert decided.verdict is not None
    assert decided.verdict.accepted
    assert session.commit is not None
    found: dict[str, Any] = {
        "task": task.to_json(),
        "definition": task.digest.hex(),
        "layout": {"blocks": layout.blocks, "length": layout.length, "floors": layout.floors, "width": layout.width},
        "epsilon": protocol.epsilon,
        "inputs": protocol.inputs,
        "value": value,
        "chosen": chosen,
        "counts": protocol.counts(chosen, session.context.session),
        "session": session.context.session.hex(),
        "invitation": encode(session.invitation).hex(),
        "secret": record.secret.hex(),
        "vector": record.vector,
        "commitment": record.commitment.hex(),
        "commit": encode(session.commit).hex(),
        "nonce": record.nonce.hex(),
        "challenge": encode(session.challenge).hex(),
        "selected": selected(session.context, record.nonce, record.commitment, layout),
        "closed": record.closed,
        "values": packed_values(layout, [record.vector[i] for i in layout.opened(record.closed)]).hex(),
        "proof": opening.proof.hex(),
        "opening": encode(opening).hex(),
        "verdict": encode(decided.verdict).hex(),
    }
    if isinstance(protocol, VOLH):
        found["buckets"] = [protocol.bucket(item, session.context.session) for item in range(protocol.inputs)]
    return found


def _receipt(task: Task, counts: StepCounts | None) -> dict[str, Any]:
    """The receipt of the fourth of five sessions."""
    decided, records = [], []
    for number in range(5):
        rng = random.Random(100 + number)
        client, session = Client(task.protocol, task.verifier, MemoryVault(), rng), new_session(task, rng)
        session = session.committed(client.commit(session.invitation, task.items[0]), 0, task.verifier)
        session = session.opened(client.open(session.challenge), 0, task.verifier)
        assert session.verdict is not None
        client.finish(session.verdict)
        decided.append(session)
        records.append(client.record)

    def node(level: int, place: int) -> bytes:
        if level == 0:
            return leaf_hash(entry_of(decided[place]))
        return joined(node(level - 1, 2 * place), node(level - 1, 2 * place + 1))

    key = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    public = key.public_key().public_bytes_raw()
    head = TreeHead(task.digest, 5, 1_700_000_000, root_of(5, node), public, counts=counts)
    receipt = Receipt(3, tuple(inclusion_path(3, 5, node)), replace(head, signature=key.sign(head.content)))
    assert receipt.shows(records[3])
    kept = ("invitation", "nonce", "commitment", "opening", "verdict")
    return {
        "definition": task.digest.hex(),
        "record": {name: getattr(records[3], name).hex() for name in kept},
        "receipt": receipt.to_document(),
    }


def test_the_vectors_are_what_this_client_and_server_compute() -> None:
    found = json.loads(json.dumps(vectors()))
    if os.environ.get("VERIDP_WRITE_GOLDEN"):
        VECTORS.write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    assert json.loads(VECTORS.read_text(encoding="utf-8")) == found


def test_the_javascript_client_computes_the_same() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed here; the browser's test covers the client")
    ran = subprocess.run([node, "--test", "test/"], cwd=PACKAGE, capture_output=True, text=True, check=False)  # noqa: S603
    assert ran.returncode == 0, ran.stdout + ran.stderr
