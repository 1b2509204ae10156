"""Loops over users and bits, as machine code, with probabilities rounded towards privacy."""

from __future__ import annotations

import math
from fractions import Fraction
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from veridp.errors import BadInput, extra

# --------------------------------------------------------------------------------------------------------------- rates
# Probabilities that a computer can keep: multiples of 2^-53, rounded towards privacy.
#
# NumPy's `random()` is one of 2^53 equally likely numbers, so an event `random() < rate` has exactly the probability
# `rate` where that is a multiple of 2^-53, and only there. All rates of the oracles are such multiples, and each is
# rounded to the side on which the loss is smaller: what runs is ε-LDP, not only what was meant.


GRAIN = 2**53
# Losses are kept this much below ε (relative to e^ε): more than an engine that computes with floats can be off by.
MARGIN = Fraction(1, 2**36)
MAX_EPSILON = 500.0


def checked_epsilon(epsilon: float) -> float:
    """The budget itself, if it is one that an oracle can keep."""
    if not isinstance(epsilon, Real) or not 0 < epsilon <= MAX_EPSILON:
        raise BadInput(f"epsilon must be in (0, {MAX_EPSILON:g}], got {epsilon!r}")
    return float(epsilon)


def exp_below(epsilon: float) -> Fraction:
    """A rational number just below e^ε: by one part in 2^36, which covers the rounding of `math.exp`.

    >>> float(exp_below(1.0)) < math.e
    True
    """
    return Fraction(math.exp(checked_epsilon(epsilon))) * (1 - MARGIN)


def lying_rate(epsilon: float, favoured: Fraction | int, others: Fraction | int) -> float:
    """How often to report something uniform among `others` rather than uniform among `favoured`; a multiple of 2^-53.

    It is the smallest such rate for which ((1 - rate)/favoured) / (rate/others) <= e^ε: others/(others + e^ε favoured),
    rounded up. `favoured` and `others` count outputs, or measure where outputs are continuous.

    >>> lying_rate(math.log(3), 1, 1)
    0.250000000002...
    """
    exact = Fraction(others) / (others + exp_below(epsilon) * favoured)
    return math.ceil(exact * GRAIN) / GRAIN


def rounded_rate(rate: float) -> float:
    """The multiple of 2^-53 nearest to the rate, for rates that users choose themselves."""
    if not 0 <= rate <= 1:
        raise BadInput(f"a probability must be in [0, 1], got {rate!r}")
    return round(Fraction(rate) * GRAIN) / GRAIN


def log_above(ratio: Fraction) -> float:
    """A number just above ln(ratio), by a part in 2^36 at least: a claim that rounding does not exceed."""
    return math.log(ratio.numerator) - math.log(ratio.denominator) + float(MARGIN)


# ------------------------------------------------------------------------------------------------------------- kernels
# Loops over users and bits, as machine code. Random words come from xoshiro256++, seeded by the caller's generator.
#
# Bits are packed 64 to a word: value v is bit v mod 64 of word v div 64.


Words = NDArray[np.uint64]
WORD = 64
RATE_BITS = 53  # rates are multiples of 2^-53

if TYPE_CHECKING:

    def compiled(function: Any) -> Any: ...
else:
    with extra("fast", "this oracle needs"):
        from numba import njit

    compiled = njit(cache=True, nogil=True)


def word_count(bits: int) -> int:
    """How many words hold so many bits."""
    return -(-bits // WORD)


def stream(rng: Generator) -> Words:
    """The state of a generator of random words, itself drawn from `rng`."""
    state = rng.integers(0, 2**64, size=4, dtype=np.uint64)
    state[0] |= np.uint64(1)  # all zeros would stay all zeros
    return state


@compiled
def _next(state):  # type: ignore[no-untyped-def]
    """The next random word of xoshiro256++ (Blackman and Vigna 2021)."""
    a, b, c, d = state[0], state[1], state[2], state[3]
    total = a + d
    word = ((total << np.uint64(23)) | (total >> np.uint64(41))) + a
    shifted = b << np.uint64(17)
    c ^= a
    d ^= b
    b ^= c
    a ^= d
    c ^= shifted
    d = (d << np.uint64(45)) | (d >> np.uint64(19))
    state[0], state[1], state[2], state[3] = a, b, c, d
    return word


@compiled
def _below(bound, state):  # type: ignore[no-untyped-def]
    """A uniform number below the bound (< 2^32), exactly: products that would favour some numbers are drawn again."""
    limit = np.uint64(bound)
    floor = (np.uint64(1) << np.uint64(32)) % limit
    while True:
        product = (_next(state) >> np.uint64(32)) * limit
        if (product & np.uint64(0xFFFFFFFF)) >= floor:
            return product >> np.uint64(32)


@compiled
def _coins(lanes, rate, state):  # type: ignore[no-untyped-def]
    """Those of the lanes (set bits) whose coin shows heads, each with probability rate/2^53, independently.

    A uniform number is compared with the rate bit by bit from the top, for all lanes at once; half of those undecided
    fall at each bit, so that 64 coins take about eight random words.
    """
    heads = np.uint64(0)
    undecided = lanes
    rest = np.uint64(rate)
    if rest >= np.uint64(1) << np.uint64(RATE_BITS):
        return lanes
    rest <<= np.uint64(WORD - RATE_BITS)
    while undecided and rest:
        word = _next(state)
        one = np.uint64(0) - (rest >> np.uint64(63))  # all bits, or none: the rate's bit without a branch
        heads |= undecided & ~word & one
        undecided &= ~(word ^ one)
        rest <<= np.uint64(1)
    return heads


@compiled
def respond_all(values, size, rate, state):  # type: ignore[no-untyped-def]
    """Turn each value, with probability rate/2^53, into another below `size` (at most 2^32), each equally likely."""
    for user in range(len(values)):
        if _next(state) >> np.uint64(WORD - RATE_BITS) < np.uint64(rate):
            other = np.int64(_below(size - 1, state))
            values[user] = other + (other >= values[user])


@compiled
def _decays(part, whole, state):  # type: ignore[no-untyped-def]
    """True with probability e^(-part/whole), exactly: how long a run of ever rarer coins is, odd or even."""
    run = 1
    while _below(whole, state) < np.uint64(part) and _below(run, state) == np.uint64(0):
        run += 1
    return run % 2 == 1


@compiled
def add_discrete_laplace(scale, state, out):  # type: ignore[no-untyped-def]
    """Add discrete Laplace noise of a whole scale (< 2^32) to each number: P[k] is proportional to e^(-|k|/scale).

    Canonne, Kamath, Steinke (2020), Algorithm 2: whole numbers and fair coins alone, so that no probability is rounded.
    """
    for user in range(len(out)):
        while True:
            inside = _below(scale, state)
            if not _decays(inside, scale, state):
                continue
            size = np.int64(inside)
            while _decays(np.uint64(1), np.uint64(1), state):
                size += np.int64(scale)
            negative = _next(state) >> np.uint64(63)
            if negative and size == 0:
                continue
            out[user] += -size if negative else size
            break


@compiled
def noisy_one_hot(values, width, set_rate, clear_rate, state, out):  # type: ignore[no-untyped-def]
    """Fill rows of words: the bit of the user's value is set with one rate, others of the `width` with the other."""
    words = out.shape[1]
    full = ~np.uint64(0)
    last = full >> np.uint64(words * WORD - width)
    for user in range(len(values)):
        place = values[user] // WORD
        bit = np.uint64(1) << np.uint64(values[user] % WORD)
        for word in range(words):
            lanes = last if word == words - 1 else full
            if word == place:
                own = _coins(bit, set_rate, state)
                out[user, word] = own | _coins(lanes & ~bit, clear_rate, state)
            else:
                out[user, word] = _coins(lanes, clear_rate, state)


@compiled
def noisy_words(true, width, set_rate, clear_rate, state, out):  # type: ignore[no-untyped-def]
    """Fill rows of words: a bit that is set in `true` is set with one rate, a clear one with the other."""
    words = out.shape[1]
    full = ~np.uint64(0)
    last = full >> np.uint64(words * WORD - width)
    for user in range(len(true)):
        for word in range(words):
            lanes = last if word == words - 1 else full
            bits = true[user, word]
            out[user, word] = _coins(bits, set_rate, state) | _coins(lanes & ~bits, clear_rate, state)


@compiled
def add_bits(words, counts):  # type: ignore[no-untyped-def]
    """Add to each count how many rows have its bit set."""
    block = np.zeros(WORD, dtype=np.uint32)
    for column in range(words.shape[1]):
        block[:] = 0
        for row in range(len(words)):
            bits = words[row, column]
            for bit in range(WORD):
                block[bit] += np.uint32((bits >> np.uint64(bit)) & np.uint64(1))
        first = column * WORD
        for bit in range(min(WORD, len(counts) - first)):
            counts[first + bit] += block[bit]


@compiled
def _bucket(seed, value, buckets):  # type: ignore[no-untyped-def]
    """The bucket of a value: output number `value` of SplitMix64 started at the seed, scaled to the buckets.

    For every value it is a bijection of the seed before scaling, so that over random seeds each bucket has probability
    1/buckets up to 2^-48. At most 2^16 buckets.
    """
    word = seed + (np.uint64(value) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    word ^= word >> np.uint64(31)
    return ((word >> np.uint64(16)) * np.uint64(buckets)) >> np.uint64(48)


@compiled
def respond_hashed_all(values, buckets, rate, state, seeds, reported):  # type: ignore[no-untyped-def]
    """Fill in a random seed for each user, and the bucket of the user's value under it, another with rate/2^53."""
    for user in range(len(values)):
        seed = _next(state)
        own = np.int64(_bucket(seed, values[user], buckets))
        if _next(state) >> np.uint64(WORD - RATE_BITS) < np.uint64(rate):
            other = np.int64(_below(buckets - 1, state))
            own = other + (other >= own)
        seeds[user] = seed
        reported[user] = own


@compiled
def hash_all(seeds, size, buckets, out):  # type: ignore[no-untyped-def]
    """Fill in, for each seed, the buckets of all values of the domain."""
    for user in range(len(seeds)):
        for value in range(size):
            out[user, value] = _bucket(seeds[user], value, buckets)


@compiled
def add_support(seeds, reported, buckets, counts):  # type: ignore[no-untyped-def]
    """Add to each value's count how many users reported the bucket that it falls into under their seed."""
    size = len(counts)
    for start in range(0, len(seeds), 256):  # users of a block stay in cache while the values pass
        stop = min(start + 256, len(seeds))
        for value in range(size):
            found = 0
            for user in range(start, stop):
                found += _bucket(seeds[user], value, buckets) == np.uint64(reported[user])
            counts[value] += found


@compiled
def random_subsets(values, size, count, holds, state, out):  # type: ignore[no-untyped-def]
    """Fill rows of words with subsets of `count` values of the domain, uniform among those that hold the user's own
    value (where `holds`), or that do not."""
    others = np.empty(size - 1, dtype=np.int64)
    for user in range(len(values)):
        own = values[user]
        for place in range(size - 1):
            others[place] = place + (place >= own)
        for word in range(out.shape[1]):
            out[user, word] = 0
        wanted = count
        if holds[user]:
            out[user, own // WORD] |= np.uint64(1) << np.uint64(own % WORD)
            wanted -= 1
        for place in range(wanted):  # the first steps of a Fisher-Yates shuffle
            drawn = place + np.int64(_below(size - 1 - place, state))
            others[place], others[drawn] = others[drawn], others[place]
            chosen = others[place]
            out[user, chosen // WORD] |= np.uint64(1) << np.uint64(chosen % WORD)


def unpacked(words: Words, bits: int) -> NDArray[np.bool_]:
    """The bits of each row as truth values."""
    as_bytes = np.ascontiguousarray(words).astype("<u8", copy=False).view(np.uint8)
    return np.unpackbits(as_bytes, axis=1, bitorder="little", count=bits).view(np.bool_)


def packed(bits: NDArray[np.bool_]) -> Words:
    """Rows of truth values, packed into words."""
    padded = np.zeros((len(bits), word_count(bits.shape[1]) * WORD), dtype=np.bool_)
    padded[:, : bits.shape[1]] = bits
    return np.packbits(padded, axis=1, bitorder="little").view("<u8").astype(np.uint64, copy=False)


@compiled
def best_buckets(seeds, targets, buckets, support, bucket):  # type: ignore[no-untyped-def]
    """Fill in, for each seed, the bucket that most targets fall into, and how many these are."""
    counts = np.zeros(buckets, dtype=np.int64)
    for user in range(len(seeds)):
        most, where = np.int64(0), np.int64(0)
        for target in targets:
            hit = np.int64(_bucket(seeds[user], target, buckets))
            counts[hit] += 1
            if counts[hit] > most:
                most, where = counts[hit], hit
        for target in targets:
            counts[np.int64(_bucket(seeds[user], target, buckets))] = 0
        support[user], bucket[user] = most, where
