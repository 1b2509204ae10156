"""The float, int, math and numpy that explored code sees."""

import math
import statistics
from math import atan, sqrt

import numpy as np
import pytest
from numpy import zeros

from veridp.errors import Nondeterministic, NotAffine, NotExplorable
from veridp.kernel.explore import explore
from veridp.kernel.expressions import unknowns
from veridp.kernel.path import leaves
from veridp.kernel.replay.agreement import Listing
from veridp.kernel.stand_ins.modules import FLOAT, INT, NUMPY, seeing_stand_ins
from veridp.mechanism import as_mechanism

SCALE = 2.0


def helper(values):
    total = np.zeros(len(values))
    for place, value in enumerate(values):
        total[place] = float(value)
    return total


class Release:
    def __init__(self, scale):
        self.scale = scale

    def __call__(self, rng, data):
        return float(data[0]) + float(rng.laplace(scale=self.scale))


def local_import(rng, data):
    import numpy as xp

    noisy = xp.empty(2)
    noisy[:] = data
    noisy += rng.laplace(0.0, SCALE, 2)
    return noisy


def doubled(x):
    return 2 * x


CASES = [
    (lambda rng, data: np.fromiter((x + rng.laplace() for x in data), float), ["data[0] + n0", "data[1] + n1"]),
    (lambda rng, data: np.vectorize(doubled)(np.asarray(data)), ["2·data[0]", "2·data[1]"]),
    (lambda rng, data: np.frompyfunc(doubled, 1, 1)(np.asarray(data)), ["2·data[0]", "2·data[1]"]),
    (lambda rng, data: np.einsum("i,ij->j", data, np.array([[1, 0], [3, 2]])), ["data[0] + 3·data[1]", "2·data[1]"]),
    (lambda rng, data: np.bincount([1, 1], weights=data), [0.0, "data[0] + data[1]"]),
    (lambda rng, data: np.pad(data, (1, 0), constant_values=7), [7.0, "data[0]", "data[1]"]),
    (lambda rng, data: np.nanmean([data[0], np.nan, data[1]]), ["0.5·data[0] + 0.5·data[1]"]),
    (lambda rng, data: np.insert(np.asarray(data), 1, rng.laplace()), ["data[0]", "n0", "data[1]"]),
    (lambda rng, data: np.float64(statistics.fmean(data)) + np.int_(2), ["0.5·data[0] + 0.5·data[1] + 2"]),
    (lambda rng, data: np.full(2, data[0]), ["data[0]", "data[0]"]),
    (lambda rng, data: np.polyval(data, 3.0), ["3·data[0] + data[1]"]),
    (lambda rng, data: np.sum(data, where=[True, False]) + np.sum(data, dtype=float), ["2·data[0] + data[1]"]),
    (lambda rng, data: helper(data) + rng.laplace(size=2), ["data[0] + n0", "data[1] + n1"]),
    (Release(3.0), ["data[0] + n0"]),
    (local_import, ["data[0] + n0", "data[1] + n1"]),
    (lambda rng, data: np.asarray(data, dtype=float).tolist(), ["data[0]", "data[1]"]),
    (lambda rng, data: np.array(data)[::-1] + zeros(2), ["data[1]", "data[0]"]),
    (lambda rng, data: int(data[0] + rng.laplace()), ["trunc(data[0] + n0)"]),
    (lambda rng, data: atan(rng.laplace()) + math.fsum(data), ["data[0] + data[1] + arctan(n0)"]),
    (lambda rng, data: statistics.mean(data), ["0.5·data[0] + 0.5·data[1]"]),
    (lambda rng, data: np.float64(data[0]) + np.full(2, 1.0)[0], ["data[0] + 1"]),
    (lambda rng, data: np.eye(2) @ np.array(data), ["data[0]", "data[1]"]),
    (lambda rng, data: np.linalg.solve(np.array([[2.0, 0.0], [0.0, 4.0]]), data), ["0.5·data[0]", "0.25·data[1]"]),
]


@pytest.mark.parametrize(("mechanism", "texts"), CASES)
def test_casts_and_arrays_hold_stand_ins(mechanism, texts):
    data = unknowns("data", 2)
    (path,) = explore(mechanism, data)
    assert [leaf if isinstance(leaf, float) else leaf.text() for leaf in leaves(path.output)] == texts
    Listing.of(as_mechanism(mechanism), data, [path]).replay()


def test_entries_that_are_chosen_by_a_mask_are_chosen_by_the_noise():
    def clipped(rng, data):
        noisy = np.array(data) + rng.laplace(size=1)
        noisy[noisy < 0] = 0.0
        return noisy

    paths = explore(clipped, unknowns("data", 1))
    assert sorted((str(path.output[0]), path.conditions[0].text()) for path in paths) == [
        ("0.0", "0 > data[0] + n0"),
        ("data[0] + n0", "data[0] + n0 >= 0"),
    ]


def test_a_mask_is_not_decided_before_it_has_to_be():
    def clipped(rng, data):
        noisy = np.array(data, dtype=float) + rng.laplace(size=2)
        low = noisy < 0
        noisy[low] = 5
        noisy[~low] += 1
        return noisy

    def once(rng, data):
        noisy = np.array(data, dtype=float) + rng.laplace(size=2)
        noisy[noisy < 0] = 5
        return noisy

    (path,) = explore(once, [0, 3], defer=True)
    assert [leaf.text() for leaf in leaves(path.output)] == [
        "(5.0 if 0 > n0 else n0)",
        "(5.0 if 0 > n1 + 3 else n1 + 3)",
    ]
    Listing.of(as_mechanism(once), [0, 3], [path], defer=True).replay()
    paths = explore(clipped, [0, 3])
    assert sorted(str(path.output) for path in paths) == sorted(
        ["[5.0, 5.0]", "[5.0, n1 + 4]", "[n0 + 1, 5.0]", "[n0 + 1, n1 + 4]"]
    )
    Listing.of(as_mechanism(clipped), [0, 3], paths).replay()


CITIES = np.array(["rome", "oslo"])
SEEN = np.zeros(2)


def by_names_inside(rng, data):
    return np.array(["rome", "oslo"])[np.array(data) + rng.laplace(size=2) > 1].tolist()


def by_a_global_array(rng, data):
    return CITIES[np.array(data) + rng.laplace(size=2) > 1].tolist()


def by_what_numpy_made(rng, data):
    names, counts = np.unique(["rome", "oslo", "rome"], return_counts=True)
    return names[counts.max() + np.array(data) + rng.laplace(size=2) > 3][::-1].tolist()


@pytest.mark.parametrize("mechanism", [by_names_inside, by_a_global_array, by_what_numpy_made])
def test_texts_are_chosen_by_a_mask_of_noise(mechanism):
    data = unknowns("data", 2)
    paths = explore(mechanism, data)
    assert sorted(path.output for path in paths) == [[], ["oslo"], ["rome"], ["rome", "oslo"]]
    Listing.of(as_mechanism(mechanism), data, paths).replay()


def test_arrays_of_texts_do_what_arrays_do():
    def plain(rng, data):
        words = np.array(["a", "b", "a"])
        same = words == "a"
        words[2:] = "c"
        return [same.sum(), type(same.mean()).__name__, (words[:, None] == words).sum(axis=0).tolist(), words.tolist()]

    (path,) = explore(plain, None)
    assert path.output == plain(None, None) == [2, "float64", [1, 1, 1], ["a", "b", "c"]]


def test_a_global_array_that_is_replaced_is_state():
    def replacing(rng, data):
        global SEEN
        SEEN = SEEN + 1
        return data[0] + rng.laplace()

    with pytest.raises(Nondeterministic, match="the global SEEN changed"):
        explore(replacing, [0.0])


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("edges", [[0.0, 1.0, 1.0, 3.0], [3.0, 1.0, 0.0], []])
def test_bins_are_those_of_numpy(edges, right):
    def binned(rng, data):
        return np.digitize(np.round(rng.normal(size=2)) + data, edges, right)

    paths = explore(binned, [1.0, 2.0])
    Listing.of(as_mechanism(binned), [1.0, 2.0], paths).replay()
    bins = set(range(len(edges) + 1)) - ({2} if len(edges) == 4 else set())  # between two equal edges
    assert {tuple(path.output) for path in paths} == {(i, j) for i in bins for j in bins}


@pytest.mark.parametrize("bins", [{"bins": [0.0, 1.0, 3.0]}, {"bins": 3, "range": (-1, 2)}])
def test_a_histogram_is_that_of_numpy(bins):
    def counted(rng, data):
        counts, edges = np.histogram(np.round(rng.normal(size=2)) + data, **bins)
        return counts, edges

    paths = explore(counted, [1.0, 2.0])
    Listing.of(as_mechanism(counted), [1.0, 2.0], paths).replay()
    totals = {sum(path.output[0]) for path in paths}
    assert totals == {0, 1, 2}


def test_a_histogram_whose_edges_depend_on_the_data_is_refused():
    with pytest.raises(NotExplorable, match=r"np\.histogram is modelled with edges"):
        explore(lambda rng, data: np.histogram(data + rng.normal(size=2), bins=3)[0].tolist(), [1.0, 2.0])


def test_several_numbers_are_looked_up_in_a_table():
    def looked_up(rng, data):
        return np.searchsorted([0.0, 1.0], data, side="right")

    data = unknowns("data", 2)
    paths = explore(looked_up, data)
    Listing.of(as_mechanism(looked_up), data, paths).replay()
    assert sorted(path.output for path in paths) == [[i, j] for i in range(3) for j in range(3)]


@pytest.mark.parametrize(
    "use",
    [
        lambda bits: bits[2:], lambda bits: bits == "0b0", lambda bits: bits.count("0"), lambda bits: f"{bits}", str,
        lambda bits: bits.zfill(9), len, list, hash, bool, lambda bits: "1" in bits, lambda bits: bits + "1", int,
    ],
)  # fmt: skip
def test_of_the_bits_of_noise_only_ones_are_counted(use):
    (path,) = explore(lambda rng, data: bin(rng.integers(2**20) & 5).count("1"), None)
    assert path.output.text() == "bit_count((n0) & (5))"
    with pytest.raises(NotAffine, match="has no plain value"):
        explore(lambda rng, data: use(bin(rng.integers(2**20))), None)


def test_an_array_of_integers_rounds_what_is_written_into_it():
    def truncated(rng, data):
        counts = np.zeros(1, dtype=int)
        counts[0] = data[0] + rng.laplace()
        return counts

    (path,) = explore(truncated, unknowns("data", 1))
    assert path.output[0].text() == "trunc(data[0] + n0)"


def test_names_mean_what_they_did_before_and_after_a_run():
    def looks(rng, data):
        return [
            float is FLOAT,
            np is NUMPY,
            isinstance(1.5, float),
            isinstance(True, int),
            np.dtype(float) == np.float64,
        ]

    def raises(rng, data):
        raise RuntimeError(float.__name__, np.__name__)

    assert explore(looks, None)[0].output == [True, True, True, True, True]
    assert looks(None, None) == [False, False, True, True, True]
    seen = seeing_stand_ins(raises)
    for _ in range(2):
        with pytest.raises(RuntimeError):
            seen(None, None)
        assert "float" not in globals()
        assert globals()["np"] is np
        assert np is not NUMPY
        assert globals()["sqrt"] is math.sqrt


def test_the_types_pass_for_the_genuine_ones():
    assert [FLOAT(3), INT("7"), FLOAT.fromhex("0x1p0")] == [3.0, 7, 1.0]
    assert [kind == FLOAT for kind in (float, int)] == [True, False]
    assert {float: 1}[FLOAT] == 1
    assert issubclass(bool, INT)
    assert not isinstance(1, FLOAT)
    assert sqrt(4) == 2


def test_plain_arrays_that_could_hold_stand_ins_do_what_arrays_do():
    def plain(rng, data):
        counts = np.array([3.0, 1.0, 2.0])
        order = np.argsort(counts)
        inverse = np.linalg.inv(np.eye(3) * 2)
        return [counts.sum(), counts.max(), order.tolist(), inverse.diagonal().tolist(), np.cumsum(counts).tolist()]

    (path,) = explore(plain, None)
    assert path.output == plain(None, None)


def spread(rng, data):
    return statistics.stdev(data) + rng.laplace(), statistics.pvariance(data) + rng.laplace()


def spread_of_array(rng, data):
    values = np.asarray(data)
    return values.std(ddof=1) + rng.laplace(), values.var() + rng.laplace()


def middle(rng, data):
    return statistics.median(data) + rng.laplace(), np.percentile(data, 30) + rng.laplace()


def by_copysign(rng, data):
    u = rng.random() - 0.5
    return data[0] - np.copysign(np.log(1 - 2 * abs(u)), u) * -1.0, math.isclose(u, 2.0)


@pytest.mark.parametrize("mechanism", [spread, spread_of_array, middle, by_copysign])
def test_functions_of_libraries_do_what_they_do_to_numbers(mechanism):
    listed = Listing.of(as_mechanism(mechanism), unknowns("data", 3), explore(mechanism, unknowns("data", 3)))
    assert listed.replay().runs > 0


def test_quantiles_of_data_are_known_by_their_order():
    def quantile(rng, data):
        return np.quantile(data, [0.25, 1.0])

    paths = explore(quantile, unknowns("data", 3))
    assert len(paths) == 6  # orders
    for path in paths:  # 0.25 lies halfway between the smallest and the middle one
        first, last = path.output
        assert sorted(first.terms.values()) == [0.5, 0.5]
        assert list(last.terms.values()) == [1]
