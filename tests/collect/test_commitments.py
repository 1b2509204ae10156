"""Commitments of both kinds: their definitions, their vectors, and that nothing but what was committed to opens."""

from __future__ import annotations

import random
from hashlib import blake2b, sha512

import pytest
import rbcl
from hypothesis import given, settings
from hypothesis import strategies as st

from veridp.collect.commitments import (
    BLAKE2B,
    ORDER,
    SCHEMES,
    Scheme,
    cover,
    multiples,
    recomputed_seeds,
    scheme,
    second_generator,
    seed_leaves,
    seed_levels,
    tree_height,
)
from veridp.collect.evaluation import ModularPedersen, pedersen
from veridp.collect.harmless import Layout
from veridp.collect.messages import Context, Reason, Refused, digest
from veridp.errors import BadInput

LAYOUT = Layout(1, 8, (2, 1, 2))
VECTOR = [0, 2, 1, 0, 2, 1, 0, 0]
CLOSED = [0, 2, 6]
CONTEXT = Context(bytes(range(32)), bytes(range(16)))
SECRET = bytes(range(32, 64))


SCHEMES_TESTED = [*(scheme(name) for name in SCHEMES), ModularPedersen.of_bits(256)]


@pytest.fixture(params=SCHEMES_TESTED, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> Scheme:
    found: Scheme = request.param
    return found


def opened_values() -> list[int]:
    return [VECTOR[i] for i in LAYOUT.opened(CLOSED)]


def test_what_was_committed_to_opens(kind: Scheme) -> None:
    commitment = kind.commit(CONTEXT, LAYOUT, VECTOR, SECRET)
    proof = kind.open(CONTEXT, LAYOUT, VECTOR, SECRET, CLOSED)
    kind.check(LAYOUT, commitment)
    kind.verify(CONTEXT, LAYOUT, commitment, CLOSED, opened_values(), proof)
    assert len(commitment) == kind.commitment_bytes(LAYOUT)
    assert len(proof) <= kind.proof_bytes(LAYOUT)


@pytest.mark.parametrize("place", range(5))
def test_no_other_value_opens(kind: Scheme, place: int) -> None:
    commitment = kind.commit(CONTEXT, LAYOUT, VECTOR, SECRET)
    proof = kind.open(CONTEXT, LAYOUT, VECTOR, SECRET, CLOSED)
    values = opened_values()
    values[place] = (values[place] + 1) % 3
    with pytest.raises(Refused) as refused:
        kind.verify(CONTEXT, LAYOUT, commitment, CLOSED, values, proof)
    assert refused.value.reason == Reason.WRONG_OPENING


def test_no_other_proof_opens(kind: Scheme) -> None:
    commitment = kind.commit(CONTEXT, LAYOUT, VECTOR, SECRET)
    proof = kind.open(CONTEXT, LAYOUT, VECTOR, SECRET, CLOSED)
    for place in range(len(proof)):
        changed = proof[:place] + bytes([proof[place] ^ 1]) + proof[place + 1 :]
        with pytest.raises(Refused):
            kind.verify(CONTEXT, LAYOUT, commitment, CLOSED, opened_values(), changed)


@pytest.mark.parametrize("name", ["blake2b", "blake2b-plain", "blake3"])
@pytest.mark.parametrize("other", [Context(bytes(32), CONTEXT.session), Context(CONTEXT.task, bytes(16))])
def test_hash_commitments_are_bound_to_task_and_session(name: str, other: Context) -> None:
    kind = scheme(name)
    commitment = kind.commit(CONTEXT, LAYOUT, VECTOR, SECRET)
    proof = kind.open(CONTEXT, LAYOUT, VECTOR, SECRET, CLOSED)
    with pytest.raises(Refused, match="wrong-opening"):
        kind.verify(other, LAYOUT, commitment, CLOSED, opened_values(), proof)


@pytest.mark.parametrize("name", SCHEMES)
def test_entries_cannot_change_places(name: str) -> None:
    """Two entries of one value: their proofs are not exchangeable, as each is bound to its index."""
    kind = scheme(name)
    layout = Layout(1, 4, (2, 2))
    commitment = kind.commit(CONTEXT, layout, [0, 0, 1, 1], SECRET)
    proof = kind.open(CONTEXT, layout, [0, 0, 1, 1], SECRET, [])
    if len(proof) > 32:  # where each entry has its own proof
        width = len(proof) // 4
        swapped = proof[width : 2 * width] + proof[:width] + proof[2 * width :]
        with pytest.raises(Refused):
            kind.verify(CONTEXT, layout, commitment, [], [0, 0, 1, 1], swapped)
    with pytest.raises(Refused):
        kind.verify(CONTEXT, layout, commitment, [], [0, 1, 0, 1], proof)


@pytest.mark.parametrize("change", [b"", b"\0"])
def test_lengths_are_checked(kind: Scheme, change: bytes) -> None:
    commitment = kind.commit(CONTEXT, LAYOUT, VECTOR, SECRET)
    with pytest.raises(Refused) as refused:
        kind.check(LAYOUT, commitment[:-1] + change * 2)
    assert refused.value.reason == Reason.WRONG_LENGTH


# ---------------------------------------------------------------------------------------------------------- hashes


def test_the_compact_commitment_is_what_its_description_says() -> None:
    """The digest, by a direct recursion over the tree."""

    def h(data: bytes) -> bytes:
        return blake2b(data, digest_size=32).digest()

    base = digest(b"veridp salts", CONTEXT.task, CONTEXT.session, b"blake2b")

    def leaf(index: int) -> bytes:
        seed = digest(b"veridp seeds", CONTEXT.task, CONTEXT.session, SECRET)[:16]
        for bit in (2, 1, 0):
            pair = h(b"N" + base + seed)
            seed = pair[16:] if index >> bit & 1 else pair[:16]
        return seed

    entries = b"".join(
        h(b"E" + base + i.to_bytes(4, "big") + VECTOR[i].to_bytes(4, "big") + leaf(i)) for i in range(LAYOUT.size)
    )
    assert scheme("blake2b").commit(CONTEXT, LAYOUT, VECTOR, SECRET) == h(b"W" + base + entries)


@given(st.integers(1, 70), st.data())
@settings(max_examples=60, deadline=None)
def test_the_cover_tells_all_but_the_closed_leaves_with_the_fewest_nodes(size: int, data: st.DataObject) -> None:
    closed = sorted(data.draw(st.sets(st.integers(0, size - 1), max_size=size)))
    nodes = cover(size, closed)
    below = [i for node in nodes for i in range(node.place << node.level, (node.place + 1) << node.level) if i < size]
    assert below == [i for i in range(size) if i not in closed]

    def needed(level: int, place: int) -> int:
        """The fewest nodes for the leaves below one, by recursion."""
        span = range(place << level, min((place + 1) << level, size))
        if not len(span):
            return 0
        if not any(i in span for i in closed):
            return 1
        return 0 if level == 0 else needed(level - 1, 2 * place) + needed(level - 1, 2 * place + 1)

    assert len(nodes) == needed(tree_height(size), 0)
    seeds = seed_leaves(b"r" * 16, b"salt", size, BLAKE2B)
    rows = seed_levels(b"r" * 16, b"salt", size, BLAKE2B)
    told = [rows[node.level][node.place] for node in nodes]
    assert recomputed_seeds(told, nodes, b"salt", size, BLAKE2B) == [seeds[i] for i in below]


def test_closed_seeds_are_not_told() -> None:
    seeds = seed_leaves(b"r" * 16, b"salt", 50, BLAKE2B)
    rows = seed_levels(b"r" * 16, b"salt", 50, BLAKE2B)
    proof = b"".join(rows[node.level][node.place] for node in cover(50, [7, 30]))
    assert seeds[7] not in proof
    assert seeds[30] not in proof


def test_compact_openings_are_short() -> None:
    """d = 73 at ε = ln 2: a commitment of 32 bytes, and seven nodes and a digest to open 73 of 74 entries."""
    layout = Layout(1, 74, (1,) * 73)
    rng = random.Random(1)
    vector = layout.draw_vector([(2, *(1,) * 72)], rng)
    closed = layout.draw_closed(vector, (3,), rng)
    compact, plain = scheme("blake2b"), scheme("blake2b-plain")
    assert len(compact.commit(CONTEXT, layout, vector, SECRET)) == 32
    assert len(compact.open(CONTEXT, layout, vector, SECRET, closed)) <= 32 + 7 * 16
    assert len(plain.commit(CONTEXT, layout, vector, SECRET)) == 74 * 32
    assert len(plain.open(CONTEXT, layout, vector, SECRET, closed)) == 73 * 16


# ------------------------------------------------------------------------------------------------------- ristretto


def test_the_binding_hashes_to_the_group_as_rfc_9496_says() -> None:
    label = b"Ristretto is traditionally a short shot of espresso coffee"
    point = rbcl.crypto_core_ristretto255_from_hash(sha512(label).digest())
    assert point.hex() == "3066f82a1a747d45120d1740f14358531a8f04bbffe6a819f86dfe50f44a0a46"


def test_vectors_of_the_pedersen_commitment() -> None:
    assert second_generator().hex() == "e8ddb98b30a70e8e309d422fca14645f1106966a3caf725410774f5b2855773d"
    assert multiples(3)[2].hex() == "38029384a51bf57bb9ff9752d69717eb3a9342db8f69f0500098f4de9f7bd20e"
    commitment = scheme("ristretto255").commit(CONTEXT, Layout(1, 2, (1, 1)), [0, 1], SECRET)
    assert commitment[:32].hex() == "c0cb955a06a8b1d82bc35c5496035e4e630d57e277350299363f005d56e03a00"
    assert commitment[32:].hex() == "8af6516a059118c19c722e4ac662f87d95238e459522ef8c183c738eed2d966a"


def test_the_table_has_the_multiples_of_the_second_generator() -> None:
    table = multiples(300)
    for m in (1, 2, 73, 300):
        scalar = m.to_bytes(32, "little")
        assert table[m - 1] == rbcl.crypto_scalarmult_ristretto255(scalar, second_generator())


def test_commitments_add_up() -> None:
    """τ·B + (m+1)·H is homomorphic: the sum of two commitments is one to the sums, computed by another way."""
    kind, layout = scheme("ristretto255"), Layout(1, 2, (1, 1))
    both = kind.commit(CONTEXT, layout, [0, 1], SECRET)
    proof = kind.open(CONTEXT, layout, [0, 1], SECRET, [])
    total = (int.from_bytes(proof[:32], "little") + int.from_bytes(proof[32:], "little")) % ORDER
    expected = rbcl.crypto_core_ristretto255_add(
        rbcl.crypto_scalarmult_ristretto255_base(total.to_bytes(32, "little")),
        rbcl.crypto_scalarmult_ristretto255((3).to_bytes(32, "little"), second_generator()),
    )
    assert rbcl.crypto_core_ristretto255_add(both[:32], both[32:]) == expected


@pytest.mark.parametrize(
    "point",
    [
        b"\xff" * 32,  # not below the field's prime
        bytes.fromhex("00ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
        bytes.fromhex("0100000000000000000000000000000000000000000000000000000000000000"),  # a negative field element
        bytes.fromhex("26948d35ca62e643e26a83177332e6b6afeb9d08e4268b650f1f5bbd8d81d371"),  # no square root
    ],
)
def test_bad_encodings_of_points_are_refused(point: bytes) -> None:
    """From the list of bad encodings of RFC 9496 (A.2)."""
    kind = scheme("ristretto255")
    commitment = kind.commit(CONTEXT, LAYOUT, VECTOR, SECRET)
    with pytest.raises(Refused) as refused:
        kind.check(LAYOUT, commitment[:32] + point + commitment[64:])
    assert refused.value.reason == Reason.WRONG_POINT


def test_scalars_that_are_not_reduced_are_refused() -> None:
    kind = scheme("ristretto255")
    commitment = kind.commit(CONTEXT, LAYOUT, VECTOR, SECRET)
    proof = kind.open(CONTEXT, LAYOUT, VECTOR, SECRET, CLOSED)
    wide = (int.from_bytes(proof[:32], "little") + ORDER).to_bytes(32, "little")  # the same scalar modulo the order
    for scalar in (wide, bytes(32)):
        with pytest.raises(Refused) as refused:
            kind.verify(CONTEXT, LAYOUT, commitment, CLOSED, opened_values(), scalar + proof[32:])
        assert refused.value.reason == Reason.NON_CANONICAL_SCALAR


def test_the_published_toy_example_modulo_17() -> None:
    """g = 2, h = 3: the values, scalars and commitments of the paper's table."""
    published = [
        (0, 14, 2),
        (1, 8, 15),
        (1, 2, 1),
        (2, 12, 16),
        (1, 1, 6),
        (0, 8, 16),
        (2, 0, 4),
        (1, 5, 10),
        (1, 15, 12),
    ]
    assert [pedersen(value, scalar, 17, 2, 3) for value, scalar, _ in published] == [
        commitment for *_, commitment in published
    ]


def test_an_unknown_scheme_is_named() -> None:
    with pytest.raises(BadInput, match="blake2b, "):
        scheme("md5")
