"""The words in which an audit answers: Standing, Evidence, Remark, FloatCost, Detectable, Verdict."""

from __future__ import annotations

import enum
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

from veridp.claim import Claim, Interval, Witness, number
from veridp.errors import BadInput
from veridp.notions import Notion
from veridp.presentation import Presentable


class Standing(enum.Enum):
    """How a claim stands."""

    PROVED = "proved"
    REFUTED = "refuted"
    NOT_REFUTED = "not refuted"


@dataclass(frozen=True)
class Evidence:
    """What one engine found: its name, a sentence, and the seconds it took."""

    engine: str
    finding: str
    seconds: float = 0.0


@dataclass(frozen=True)
class Remark:
    """Something to look at in the mechanism's code, and where it is, as far as that is known."""

    sentence: str
    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        if not self.file:
            return self.sentence
        nearby = os.path.relpath(self.file)
        return f"{self.file if nearby.startswith(os.pardir) else nearby}:{self.line}: {self.sentence}"


@dataclass(frozen=True)
class FloatCost:
    """What released doubles give away besides the real numbers that they stand for.

    It comes from runs on a few pairs: a `witness` by low bits, where one was found, and `faults` in words.
    """

    witness: Witness | None
    searched: str
    faults: tuple[str, ...] = ()

    def epsilon(self, delta: float = 0.0) -> float:
        """The ε at this δ that low bits show, at the confidence of the witness; 0 where they show nothing."""
        return 0.0 if self.witness is None else max(self.witness.epsilon(delta).lower, 0.0)

    def refutes(self, claim: Claim) -> bool:
        """Whether the mechanism, as its floats are, does not keep the claim."""
        return self.witness is not None and self.witness.refutes(claim)

    def to_dict(self, claim: Claim) -> dict[str, Any]:
        """The cost as plain data, beside what is claimed."""
        return {
            "epsilon": self.epsilon(claim.tolerated.delta),
            "refuted": self.refutes(claim),
            "witness": self.witness and {**self.witness.to_dict(), "confidence": self.witness.confidence},
            "searched": self.searched,
            "faults": list(self.faults),
        }

    def __str__(self) -> str:
        known = "nothing found"
        if self.witness is not None:
            known = f"ε >= {number(self.epsilon())} at confidence {self.witness.confidence:g}"
        return f"{known} by {self.searched}"


@dataclass(frozen=True)
class Detectable:
    """The smallest violations that a test would have found with this probability, by an event as probable as this.

    Nothing is said about violations that show on other pairs, or in events that are much rarer, alone.
    """

    epsilon: float  # at the claimed δ
    delta: float  # at the claimed ε
    event_probability: float  # on the right
    probability: float = 0.9

    def __str__(self) -> str:
        return (
            f"ε >= {self.epsilon:.4g} or δ >= {self.delta:.4g} would have been refuted with probability "
            f"{self.probability:g}, if an event of probability {self.event_probability:.2g} shows it"
        )


@dataclass(frozen=True)
class Verdict(Presentable):
    """How a claim stands, the interval for the true ε (at the claimed δ), and what this rests on.

    The upper end holds for all neighbours of `scope`; it is inf where nothing is proved. The lower end is that of the
    best witness found: certain where its confidence is 1, and 0 where there is none. Where the claim has a notion,
    `proved` is the best bound in it.
    """

    standing: Standing
    claim: Claim
    epsilon: Interval
    witness: Witness | None = None
    evidence: tuple[Evidence, ...] = ()
    mechanism: str = ""
    scope: str = ""
    alignment: str = ""  # the costliest step of the proof, in words
    searched: tuple[str, ...] = ()
    smallest_mass: float | None = None  # the least probable event that could have been noticed
    alpha: float = 0.0  # the probability of a false alarm that was spent
    look_at: tuple[Remark, ...] = ()  # the first thing to look at comes first
    snippet: str = ""  # Python that shows the witness again
    seed: int = 0
    versions: Mapping[str, str] = field(default_factory=dict)
    finished: bool = True  # False if time ran out or somebody interrupted
    assumed: Mapping[str, object] = field(default_factory=dict)  # settings that nobody stated, with their defaults
    caveats: tuple[str, ...] = ()  # what else the verdict depends on
    proved: Notion | None = None  # the upper bound in the notion of the claim, where it has one
    subject: object = field(default=None, repr=False, compare=False)  # the mechanism itself, to draw what it does
    results: Mapping[str, object] = field(default_factory=dict, repr=False, compare=False)  # of engines that sampled
    detectable: Detectable | None = None  # the power of the samples, where they did not refute the claim
    as_floats: FloatCost | None = None  # beside the cost as meant; None where no doubles are released
    outputs_per_second: float | None = field(default=None, compare=False)  # of one process, where it was sampled
    cached: str = field(default="", compare=False)  # when it was made, where it comes from the cache

    def __post_init__(self) -> None:
        if self.standing is Standing.REFUTED and (self.witness is None or not self.witness.refutes(self.claim)):
            raise BadInput(f"a verdict of REFUTED needs a witness that refutes {self.claim}")
        if self.standing is Standing.REFUTED and self._within_claim:
            raise BadInput(
                f"a verdict of REFUTED needs an interval above {self.claim}, not {self.proved or self.epsilon}"
            )
        if self.standing is not Standing.REFUTED and self.claim.excludes(self.epsilon.lower):
            raise BadInput(f"ε in {self.epsilon} excludes {self.claim}, so the verdict must be REFUTED")
        if self.standing is Standing.PROVED and not self._within_claim:
            upper = f"{self.epsilon.upper:g}" if self.claim.notion is None else self.proved
            raise BadInput(f"a verdict of PROVED needs an upper bound within {self.claim}, not {upper}")

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: all but the mechanism and what holds it, which may be a function that cannot be."""
        return {**vars(self), "subject": None, "results": {}}

    @property
    def _within_claim(self) -> bool:
        """Whether the upper bound is within the claim: that on ε, or that in the notion of the claim."""
        if self.claim.notion is None:
            return self.claim.covers(self.epsilon.upper)
        return self.claim.covers_bound(self.proved)

    @property
    def bounds(self) -> Interval:
        """The interval for ε, under the name that all results have for it."""
        return self.epsilon

    @property
    def seconds(self) -> float:
        """The seconds that all engines took together."""
        return sum(piece.seconds for piece in self.evidence)

    @property
    def how(self) -> str:
        """In a few words, what the verdict rests on."""
        witness = self.witness
        if self.standing is Standing.PROVED:
            return f"proof {self.scope}"
        if self.standing is Standing.REFUTED and witness is not None:
            return "exact witness" if witness.confidence == 1 else f"witness at confidence {witness.confidence:g}"
        return "nothing above the claim was found" + ("" if self.finished else " before it was cut short")

    def to_dict(self) -> dict[str, Any]:
        """The verdict as plain data, in the words of `veridp schema`."""
        witness = self.witness
        return {
            "mechanism": self.mechanism,
            "standing": self.standing.value,
            "claim": self.claim.to_dict(),
            "epsilon": {"lower": self.epsilon.lower, "upper": self.epsilon.upper},
            "how": self.how,
            "scope": self.scope,
            "witness": witness
            and {
                **witness.to_dict(),
                "epsilon": witness.epsilon(self.claim.tolerated.delta).lower,
                "confidence": witness.confidence,
                "as_floats": witness.as_floats,
                "arguments": dict(witness.arguments),
            },
            "alignment": self.alignment,
            "look_at": [{"sentence": one.sentence, "file": one.file, "line": one.line} for one in self.look_at],
            "searched": list(self.searched),
            "smallest_mass": self.smallest_mass,
            "alpha": self.alpha,
            "evidence": [vars(one) for one in self.evidence],
            "snippet": self.snippet,
            "seed": self.seed,
            "versions": dict(self.versions),
            "seconds": self.seconds,
            "finished": self.finished,
            "assumed": dict(self.assumed),
            "caveats": list(self.caveats),
            **({} if self.claim.notion is None else {"proved": self.proved and self.proved.to_dict()}),
            **({} if self.detectable is None else {"detectable": dict(vars(self.detectable))}),
            **({} if self.as_floats is None else {"as_floats": self.as_floats.to_dict(self.claim)}),
            **({} if self.outputs_per_second is None else {"outputs_per_second": self.outputs_per_second}),
            **({"cached": self.cached} if self.cached else {}),
        }

    @property
    def rate_text(self) -> str:
        """How fast it was sampled, to two digits; empty where no samples were needed."""
        rate = self.outputs_per_second
        return "" if rate is None else f"one process draws about {float(f'{rate:.2g}'):,g} outputs per second"

    @property
    def source(self) -> str:
        """Where it comes from, if not from an audit now: `from the cache, made on …`; empty otherwise."""
        return f"from the cache, made on {self.cached}" if self.cached else ""

    @property
    def bounds_text(self) -> str:
        """What is known: the interval for ε; where the claim has a notion, at which δ, and the bound in the notion."""
        known = self.epsilon.statement("ε")
        if self.claim.notion is None:
            return known
        known = f"{known} at δ = {self.claim.delta:g}"
        says_more = self.proved is not None and str(self.proved) != str(self.claim)
        return f"{self.proved} is proved, {known}" if says_more else known

    @property
    def assumption(self) -> str:
        """The settings that nobody stated: `assumed: adjacency linf, size 5`; empty where all are stated."""
        return assumed_text(self.assumed)

    def __str__(self) -> str:
        subject = f"{self.mechanism}: " if self.mechanism else ""
        known = f"{subject}{self.claim} is {self.standing.value.upper()}, {self.bounds_text}"
        return f"{known}; {self.assumption}" if self.assumed else known


def assumed_text(assumed: Mapping[str, object]) -> str:
    """The settings in a line.

    >>> assumed_text({"adjacency": "linf", "domain": (-10, 10)})
    'assumed: adjacency linf, domain [-10, 10]'
    """
    settings = ", ".join(f"{name} {setting_text(value)}" for name, value in assumed.items())
    return f"assumed: {settings}" if settings else ""


def with_assumptions(sentence: str, assumed: Mapping[str, object]) -> str:
    """The sentence, the settings that it assumes, and the options of the command line that state them."""
    options = ", ".join(f"--{name}" for name in assumed)
    return f"{sentence}; {assumed_text(assumed)}; set {options}" if assumed else sentence


def setting_text(value: object) -> str:
    """A setting in words: an interval as [low, high], anything else as it prints."""
    if isinstance(value, tuple) and len(value) == 2 and all(isinstance(end, Real) for end in value):
        return f"[{value[0]:g}, {value[1]:g}]"
    return str(value)
