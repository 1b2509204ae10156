"""A generator of rare draws, to compare two readings of a function where typical draws do not lead.

It is a genuine `numpy.random.Generator` whose random bits are not uniform. Many of its words begin with zeros or ones
only: uniform draws are then near 0 or 1 at all magnitudes, and noise comes from its tails. Some words repeat the one
before: draws are then tied. Nothing can be estimated from it.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

WORD = 2**64 - 1
AT_ONCE = 64  # words made at a time
_uint64 = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p)
_uint32 = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_void_p)
_double = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_void_p)
_new_capsule: Callable[..., Any] = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
)(("PyCapsule_New", ctypes.pythonapi))
_NAME = b"BitGenerator"


class _Functions(ctypes.Structure):
    """NumPy's bitgen_t."""

    _fields_ = [
        ("state", ctypes.c_void_p),
        ("next_uint64", _uint64),
        ("next_uint32", _uint32),
        ("next_double", _double),
        ("next_raw", _uint64),
    ]


class _Interface(NamedTuple):
    """The functions as numba finds them."""

    state_address: int
    state: ctypes.c_void_p
    next_uint64: Any
    next_uint32: Any
    next_double: Any
    bit_generator: ctypes.c_void_p


class RareBits:
    """A bit generator in NumPy's sense."""

    def __init__(self, seed: int) -> None:
        self.lock = threading.RLock()
        self._rng = np.random.Generator(np.random.SFC64(seed))
        self._word = word = self._words().__next__
        words, halves = _uint64(lambda _: word()), _uint32(lambda _: word() >> 32)
        doubles = _double(lambda _: (word() >> 11) * 2.0**-53)
        self._functions = _Functions(None, words, halves, doubles, words)
        address = ctypes.addressof(self._functions)
        self.capsule = _new_capsule(address, _NAME, None)
        place = ctypes.c_void_p(address)  # numba asks for the address of a state, which the functions do not use
        self.ctypes = _Interface(address, place, words, halves, doubles, place)

    def _words(self) -> Iterator[int]:
        last = 0
        while True:
            for word, chance in self._rng.integers(WORD, size=(AT_ONCE, 2), dtype=np.uint64).tolist():
                kind, bits = chance % 8, 1 + chance // 8 % 60
                if kind == 0:
                    last = word >> bits
                elif kind == 1:
                    last = word | (WORD ^ (WORD >> bits))
                elif kind == 2:
                    # Its last bits lead NumPy's normal and exponential draws to their tails.
                    last = WORD ^ (WORD >> bits)
                elif kind != 3:
                    last = word
                yield last

    def random_raw(self, size: int) -> list[int]:
        return [self._word() for _ in range(size)]


class RareGenerator(np.random.Generator):
    """A generator of rare draws: the same ones from the same seed."""

    def __init__(self, seed: int) -> None:
        super().__init__(RareBits(seed))  # type: ignore[arg-type]
        self._seed = seed

    def __deepcopy__(self, memo: object) -> RareGenerator:
        """A generator that starts anew, since it is copied before its first draw."""
        return RareGenerator(self._seed)
