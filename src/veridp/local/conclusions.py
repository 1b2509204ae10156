"""What the figures of the study say in words, beside what the source study reads from its own.

The source is H. Kikuchi, T. Murakami: Evaluation on Partial Opening of Committed Values to prevent poisoning attack of
Local Differential Privacy. It is in Japanese, so conclusions are too. They are computed: each states a number only if
this run has it, and says that the source is confirmed, or corrected, only if this run does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from veridp.local.means import SR
from veridp.local.poisoning.numeric import IPA
from veridp.local.study import ADULT_THETAS, CITATION, CLIPPED, LIKELY, Figure, People, StudyPoint, StudySettings

PUBLISHED_OPA = 48.9  # the mean under OPA at ε = 10, β = 0.2
PUBLISHED_IPA = 1.03  # the gain of IPA there, θ = 50
AGREEING = 0.9  # the share of points near theory from which on a figure as a whole agrees with it


@dataclass(frozen=True)
class Bilingual:
    """The same in English and in Japanese."""

    en: str
    ja: str

    def __add__(self, other: Bilingual) -> Bilingual:
        return Bilingual(f"{self.en} {other.en}", f"{self.ja}{other.ja}")


class Agreement(StrEnum):
    """How what was published compares with this run."""

    AGREES = "agrees"
    DIFFERS = "differs"
    CORRECTED = "corrected"  # the published reading is wrong, and the conclusion says why
    NOT_COMPARED = "not compared"  # nothing was published to compare with


@dataclass(frozen=True)
class Conclusion:
    """One sentence on a figure or a table."""

    standing: Agreement
    text: Bilingual


def judged(good: bool, agrees: Bilingual, differs: Bilingual) -> Conclusion:
    """A conclusion by a rule: whether it holds decides which sentence is said."""
    return Conclusion(Agreement.AGREES, agrees) if good else Conclusion(Agreement.DIFFERS, differs)


def corrected(confirmed: bool, text: Bilingual) -> Conclusion:
    """A correction of the source; where this run does not confirm it, that is said instead."""
    if confirmed:
        return Conclusion(Agreement.CORRECTED, text)
    return Conclusion(Agreement.DIFFERS, Bilingual("This run does not confirm:", "この実行では確認できない：") + text)


PUBLISHED = {
    1: Bilingual("at the true mean from d = 10 on.", "d = 10 で真の平均に収束。"),
    2: Bilingual("moves away from 38.58 as d grows, over 20 runs.", "d とともに 38.58 から外れる（20 回試行）。"),
    3: Bilingual(
        "β = 0.2: OPA falls to 48.9 at ε = 10, IPA gains 1.03.", "β = 0.2：ε = 10 で OPA は 48.9、IPA の利得は 1.03。"
    ),
    4: Bilingual("GRR falls with ε; SR and PM are stable.", "GRR は ε とともに減少、SR と PM は安定。"),
    5: Bilingual("GRR's error grows with d; SR and PM are stable.", "GRR の誤差は d とともに増え、SR と PM は安定。"),
    6: Bilingual(
        "β = 0.1, θ = 40: GRR falls, SR and PM rise, one value from ε = 5.",
        "β = 0.1、θ = 40：GRR は減少、SR と PM は増加し、ε = 5 で一致。",
    ),
    7: Bilingual("linear in β.", "β に線形。"),
    8: Bilingual("falls with θ, irregularly at θ = 50.", "θ とともに減少、θ = 50 で不規則。"),
}


def conclusions(figure: Figure, people: People, settings: StudySettings) -> tuple[Conclusion, ...]:
    """What a figure says. The published readings are of the Adult ages, so on other values theory alone is compared."""
    found = tuple(_OF_FIGURE[figure.number](figure, people, settings)) if people.source == CITATION else ()
    return (*found, *_theory(figure.points))


def _theory(points: Sequence[StudyPoint]) -> Iterator[Conclusion]:
    """Whether what was measured is what theory says, where it says something."""
    known = [point.agrees for point in points if point.agrees is not None]
    if known:
        yield judged(
            sum(known) >= AGREEING * len(known),
            Bilingual(
                f"{sum(known)} of {len(known)} measured points are within twice their 95 % interval of the closed form.",
                f"計測点 {len(known)} 個中 {sum(known)} 個が、95 % 区間の二倍以内で理論値に一致する。",
            ),
            Bilingual(
                f"Only {sum(known)} of {len(known)} measured points are near the closed form.",
                f"理論値に近い計測点は {len(known)} 個中 {sum(known)} 個のみ。",
            ),
        )


def _series(figure: Figure, series: str, panel: str | None = None) -> list[StudyPoint]:
    """The points of a series (in a panel, or in all), by x."""
    found = [point for point in figure.points if point.series == series and panel in (None, point.panel)]
    return sorted(found, key=lambda point: point.x)


def _rounding(figure: Figure, people: People, settings: StudySettings) -> Iterator[Conclusion]:
    far = max(abs(point.mean - people.mean) for point in figure.points if point.x >= 10)
    yield judged(
        far < 0.5,
        Bilingual(
            f"From d = 10 on the rounded mean is within {far:.2f} years of {people.mean:.3f}, as published.",
            f"d = 10 以降、丸めた平均は {people.mean:.3f} から {far:.2f} 以内にあり、公表どおり。",
        ),
        Bilingual(f"Beyond d = 10 it is still {far:.2f} off.", f"d = 10 以降も {far:.2f} ずれる。"),
    )


def _by_levels(figure: Figure, people: People, settings: StudySettings) -> Iterator[Conclusion]:
    noisiest = figure.points[0].panel
    clipped, unbiased = _series(figure, CLIPPED, noisiest), _series(figure, "GRR", noisiest)
    last, mean, middle = clipped[-1], people.mean, (people.low + people.high) / 2
    yield judged(
        last.mean - mean > 5,
        Bilingual(
            f"At {noisiest} the estimate drifts from {mean:.2f} to {last.mean:.1f} at d = {last.x:g}, as published, if "
            "estimated frequencies are clipped at 0 and normalised.",
            f"{noisiest} では、推定頻度を 0 で切り正規化すると、推定平均は {mean:.2f} から d = {last.x:g} で {last.mean:.1f} へずれる。公表どおり。",
        ),
        Bilingual(
            f"No drift: {last.mean:.1f} at d = {last.x:g}.", f"ずれは見られない：d = {last.x:g} で {last.mean:.1f}。"
        ),
    )
    yield corrected(
        all(point.agrees for point in unbiased) and _proportional(unbiased),
        Bilingual(
            f"The drift comes from clipping, not from GRR: clipping pulls a mean towards the middle of the range, {middle:g}. "
            "The unbiased estimate stays right. Its error grows in proportion to d, not to √d as the source has "
            "it: the error of each frequency grows with √d, and the mean is a sum of d of them.",
            f"このずれは GRR ではなく切り捨てによる。切り捨ては平均を範囲の中央 {middle:g} へ引き寄せる。不偏推定はずれない。その誤差は出典の √d ではなく d に比例する（√d に比例するのは各頻度の誤差で、平均はその d 個の和である）。",
        ),
    )
    yield from _likelihood(figure, people, noisiest, -1)


def _likelihood(figure: Figure, people: People, noisiest: str, place: int) -> Iterator[Conclusion]:
    """What the most likely frequencies give, beside the others, where noise matters most."""
    if not _series(figure, LIKELY):  # files of an earlier run have none
        return
    likely, clipped, unbiased = (_series(figure, name, noisiest)[place] for name in (LIKELY, CLIPPED, "GRR"))
    at, off = f"{noisiest}, {figure.x} = {likely.x:g}", abs(likely.mean - people.mean)
    text = Bilingual(
        f"The most likely frequencies (iterative Bayesian update; not in the source) give at {at} a mean that is off by "
        f"{off:.1f} on average, with standard deviation {likely.deviation:.1f}; clipped ones are off by "
        f"{abs(clipped.mean - people.mean):.1f}, with {clipped.deviation:.1f}; unbiased ones have standard deviation "
        f"{unbiased.deviation:.1f}.",
        f"報告を最も尤もらしくする頻度（反復ベイズ更新、出典にはない）の平均は、{at} で平均 {off:.1f} ずれ、標準偏差は {likely.deviation:.1f}。切り捨てでは {abs(clipped.mean - people.mean):.1f} ずれ、{clipped.deviation:.1f}。不偏推定の標準偏差は {unbiased.deviation:.1f}。",
    )
    yield Conclusion(Agreement.NOT_COMPARED, text)


def _proportional(points: Sequence[StudyPoint]) -> bool:
    """Whether the known deviations grow as x does, to within a fifth."""
    known = [(point.x, point.analytic_deviation) for point in points if not math.isnan(point.analytic_deviation)]
    if len(known) < 2:
        return True
    (first, least), (last, most) = known[0], known[-1]
    return 0.8 < most / least / (last / first) < 1.25


def _attacked(figure: Figure, people: People, settings: StudySettings) -> Iterator[Conclusion]:
    nobody, opa, ipa = (_series(figure, name, "unbiased") for name in ("nobody", "OPA", "IPA"))
    gain = ipa[-1].analytic - nobody[-1].analytic
    if opa[-1].x == 10:
        moved = opa[-1].analytic
        yield judged(
            abs(moved - PUBLISHED_OPA) < 0.1 and abs(gain - PUBLISHED_IPA) < 0.01,
            Bilingual(
                f"At ε = 10, OPA moves the mean to {moved:.2f} and IPA by {gain:.3f}; published {PUBLISHED_OPA} and "
                f"{PUBLISHED_IPA}.",
                f"ε = 10 で OPA は平均を {moved:.2f} へ、IPA は {gain:.3f} だけ動かす。公表値は {PUBLISHED_OPA} と {PUBLISHED_IPA}。",
            ),
            Bilingual(f"OPA {moved:.2f}, IPA {gain:.3f}.", f"OPA {moved:.2f}、IPA {gain:.3f}。"),
        )
    yield Conclusion(
        Agreement.NOT_COMPARED,
        Bilingual(
            f"For small ε the unbiased estimate under OPA leaves the range ({opa[0].analytic:.0f} at ε = {opa[0].x:g}); only "
            f"a clipped one stays below {people.high:g}. The text of the source gives no values there.",
            f"小さい ε では OPA 下の不偏推定は範囲を超え（ε = {opa[0].x:g} で {opa[0].analytic:.0f}）、{people.high:g} 未満に留まるのは切り捨てた推定だけ。出典の本文に値はない。",
        ),
    )


def _by_epsilon(figure: Figure, people: People, settings: StudySettings) -> Iterator[Conclusion]:
    stable = [point for name in ("SR", "PM") for point in _series(figure, name) if point.x >= 0.5]
    if not stable:
        return
    far = max(abs(point.mean - people.mean) for point in stable)
    finest = figure.points[-1].panel
    curve = _series(figure, CLIPPED, finest)
    yield judged(
        far < 3 and curve[0].mean > curve[-1].mean + 5,
        Bilingual(
            f"SR and PM stay within {far:.2f} of the mean from ε = 0.5 on, and clipped GRR falls with ε ({finest}: from "
            f"{curve[0].mean:.1f} to {curve[-1].mean:.1f}), as published.",
            f"SR と PM は ε = 0.5 以上で真の平均から {far:.2f} 以内。切り捨てた GRR は ε とともに減少（{finest}：{curve[0].mean:.1f} → {curve[-1].mean:.1f}）。公表どおり。",
        ),
        Bilingual(f"SR or PM is {far:.2f} off.", f"SR または PM が {far:.2f} ずれる。"),
    )
    yield from _likelihood(figure, people, finest, 0)


def ipa_gain(people: People, beta: float, theta: float) -> float:
    """The expected gain of IPA: the same for every unbiased estimate, whatever ε."""
    return IPA(beta, SR(people.low, people.high, 1.0), theta).expected_gain(people.values)


def _closed_form(x: str, gains: dict[float, float]) -> Conclusion:
    if len(set(gains.values())) == 1:
        shown, places = f"{next(iter(gains.values())):.3f}", Bilingual(f"at every {x}", f"どの {x} でも")
    else:
        shown = ", ".join(f"{place:g}: {gain:.3f}" for place, gain in gains.items())
        places = Bilingual(f"by {x}", f"{x} ごと")
    return Conclusion(
        Agreement.NOT_COMPARED,
        Bilingual(
            f"Expected gain of IPA on the ages themselves, {places.en}: {shown}.",
            f"年齢そのものに対する IPA の期待利得（{places.ja}）：{shown}。",
        ),
    )


def _places(figure: Figure) -> list[float]:
    return sorted({point.x for point in figure.points})


def _gains_by_epsilon(figure: Figure, people: People, settings: StudySettings) -> Iterator[Conclusion]:
    analytic = [point.analytic for point in figure.points if point.panel.startswith("IPA")]
    gain = ipa_gain(people, settings.beta, people.thetas[0])
    yield corrected(
        max(analytic) - min(analytic) < 0.15,
        Bilingual(
            "The published trends (GRR falls, SR and PM rise towards one value at ε = 5) can only be noise and clipping: "
            "unbiased estimates have the same expected gain at every ε; rounding to d levels changes it by little.",
            "公表の傾向（GRR は減少、SR と PM は増加し ε = 5 で一致）は雑音と切り捨てによる。不偏推定の期待利得は ε によらず、d 値への丸めの影響も小さい。",
        ),
    )
    yield _closed_form("ε", dict.fromkeys(_places(figure), gain))


def _gains_by_beta(figure: Figure, people: People, settings: StudySettings) -> Iterator[Conclusion]:
    gains = {beta: ipa_gain(people, beta, people.thetas[0]) for beta in _places(figure)}
    yield _closed_form("β", gains)
    if len(gains) < 2:
        return
    (first, least), *_, (last, most) = gains.items()
    ratio = most / least
    yield judged(
        0.8 < ratio / (last / first) < 1.6,
        Bilingual(
            f"The gain grows with β nearly in proportion, as published: {ratio:.2f} times from β = {first:g} to {last:g}. "
            "Exactly it is convex, since fewer take part.",
            f"利得は公表どおり β にほぼ比例する（β = {first:g} から {last:g} で {ratio:.2f} 倍）。正確には参加者が減るため下に凸である。",
        ),
        Bilingual(
            f"The gain grows {ratio:.2f} times from β = {first:g} to {last:g}.",
            f"β = {first:g} から {last:g} で {ratio:.2f} 倍になる。",
        ),
    )


def _gains_by_theta(figure: Figure, people: People, settings: StudySettings) -> Iterator[Conclusion]:
    gains = {theta: ipa_gain(people, settings.beta, theta) for theta in ADULT_THETAS}
    in_order = list(gains.values())
    yield corrected(
        in_order == sorted(in_order, reverse=True),
        Bilingual(
            "The gain falls with θ, as published, but its expectation has no irregular drop at θ = 50, for which the source "
            "blames the distribution of ages: such a dip is noise.",
            "利得は公表どおり θ とともに減るが、その期待値は θ = 50 で不規則に下がらない。出典は年齢分布のためとするが、そのような窪みは雑音である。",
        ),
    )
    yield _closed_form("θ", gains)


_OF_FIGURE: dict[int, Callable[[Figure, People, StudySettings], Iterator[Conclusion]]] = {
    1: _rounding,
    2: _by_levels,
    3: _attacked,
    4: _by_epsilon,
    5: _by_levels,
    6: _gains_by_epsilon,
    7: _gains_by_beta,
    8: _gains_by_theta,
}
