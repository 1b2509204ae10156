"""The tree of RFC 6962: against its definition, and against the reference values of Certificate Transparency."""

from __future__ import annotations

from hashlib import sha256

import pytest

from veridp.collect.merkle import (
    consistency_path,
    inclusion_path,
    is_consistent,
    joined,
    leaf_hash,
    root_by_inclusion,
    root_of,
    tree_hash,
)

INPUTS = [bytes.fromhex(text) for text in ("", "00", "10", "2021", "3031", "40414243", "5051525354555657")]
INPUTS.append(bytes.fromhex("606162636465666768696a6b6c6d6e6f"))


def defined(leaves: list[bytes]) -> bytes:
    """As the RFC defines it: split at the largest power of two below the length."""
    if not leaves:
        return sha256().digest()
    if len(leaves) == 1:
        return sha256(b"\x00" + leaves[0]).digest()
    split = 1 << ((len(leaves) - 1).bit_length() - 1)
    return sha256(b"\x01" + defined(leaves[:split]) + defined(leaves[split:])).digest()


@pytest.mark.parametrize("length", range(40))
def test_it_is_the_definition(length: int) -> None:
    leaves = [bytes([number, length]) for number in range(length)]
    assert tree_hash(iter(leaves)) == defined(leaves)


def test_reference_values() -> None:
    roots = {
        1: "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
        2: "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
        8: "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
    }
    for length, root in roots.items():
        assert tree_hash(INPUTS[:length]).hex() == root


def node(level: int, place: int) -> bytes:
    """Of the tree whose entries are the reference inputs, over and over."""
    if level == 0:
        return leaf_hash(INPUTS[place % len(INPUTS)])
    return joined(node(level - 1, 2 * place), node(level - 1, 2 * place + 1))


def entries(size: int) -> list[bytes]:
    return [INPUTS[place % len(INPUTS)] for place in range(size)]


@pytest.mark.parametrize("size", range(1, 35))
def test_a_path_shows_each_entry_and_no_other(size: int) -> None:
    root = root_of(size, node)
    assert root == defined(entries(size))
    for place in range(size):
        path = inclusion_path(place, size, node)
        assert root_by_inclusion(node(0, place), place, size, path) == root
        assert root_by_inclusion(leaf_hash(b"another"), place, size, path) != root
        if path:
            broken = [path[0][:-1] + bytes([path[0][-1] ^ 1]), *path[1:]]
            assert root_by_inclusion(node(0, place), place, size, broken) != root
        for wrong in ([*path, root], path[:-1] if path else [root]):
            with pytest.raises(ValueError, match="path"):
                root_by_inclusion(node(0, place), place, size, wrong)
    with pytest.raises(ValueError, match="place"):
        root_by_inclusion(node(0, 0), size, size, [])


@pytest.mark.parametrize("second", range(1, 35))
def test_a_path_shows_that_a_list_begins_with_another(second: int) -> None:
    later = root_of(second, node)
    for first in range(1, second + 1):
        earlier, path = root_of(first, node), consistency_path(first, second, node)
        assert is_consistent(first, earlier, second, later, path)
        rewritten = defined([b"another", *entries(first)[1:]])
        assert not is_consistent(first, rewritten, second, later, path)
        assert not is_consistent(first, earlier, second, rewritten, path) or first == second == 1
        assert not is_consistent(first, earlier, second, later, [*path, later])
        if path:
            assert not is_consistent(first, earlier, second, later, path[:-1])
    assert is_consistent(0, sha256().digest(), second, later, [])
    assert not is_consistent(second + 1, later, second, later, [])


def test_reference_paths() -> None:
    """Of the first of eight entries, and from six of them to eight: the test values of Certificate Transparency."""
    assert [step.hex()[:16] for step in inclusion_path(0, 8, node)] == [
        "96a296d224f285c6",
        "5f083f0a1a33ca07",
        "6b47aaf29ee3c2af",
    ]
    assert [step.hex()[:16] for step in consistency_path(6, 8, node)] == [
        "0ebc5d3437fbe2db",
        "ca854ea128ed050b",
        "d37ee418976dd957",
    ]
