"""The tree hash of RFC 6962: against its definition, and against the reference values of Certificate Transparency."""

from __future__ import annotations

from hashlib import sha256

import pytest

from veridp.collect.merkle import tree_hash

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
