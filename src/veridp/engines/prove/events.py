"""What a proof has to keep on the neighbours: events, from the paths of a mechanism, without noise that decides
nothing."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from veridp.engines.prove.convex import union_if_convex
from veridp.errors import MechanismFailed, NotExplorable
from veridp.kernel.decimals import Written
from veridp.kernel.distributions import Number
from veridp.kernel.explore import MAX_PATHS, walk
from veridp.kernel.expressions import Affine, Condition, affine
from veridp.kernel.flow.retries import probability, without_retries
from veridp.kernel.handmade.coin_gaussian import with_coin_gaussian
from veridp.kernel.handmade.coins import Toss
from veridp.kernel.handmade.discrete_laplace import with_discrete_laplace
from veridp.kernel.handmade.rejection import with_discrete_gaussians
from veridp.kernel.handmade.staircases import with_staircases
from veridp.kernel.handmade.transforms import recognised
from veridp.kernel.handmade.truncation import with_truncated_noise
from veridp.kernel.output import Kind, Raised, Slot, Template
from veridp.kernel.path import Again, OutputForm, Path, Step, map_leaves
from veridp.kernel.replay.agreement import RUNS, Listing, Replayed
from veridp.kernel.site import Site
from veridp.kernel.stand_ins.text import NoisyText
from veridp.kernel.symbols import Derived, Noise, Relation, Symbol, Unknown, drawn_in, is_constant
from veridp.kernel.weights import Weight
from veridp.mechanism import Mechanism
from veridp_check.noise import parameters_of

# --------------------------------------------------------------------------------------------------------------- paths
# A mechanism's paths for proofs, with its decimal arguments taken for the rationals that they write down.


MANY_REPLAYED = 64  # values past which those that are like others are replayed once
MOST_SHOWN = 3  # exceptions that a message names


def explored(
    mechanism: Mechanism, data: Any, *, defer: bool = False, choosing: bool = False, max_paths: int = MAX_PATHS
) -> Sequence[Path]:
    """Its paths on the data, which may be open. Nothing may rest on them before they are replayed.

    Loops are followed until they come back: what is proved is proved of these paths as they are `ended`. With
    `choosing`, branches that only choose an entry of the output leave it undecided.
    """
    return tuple(walk(rational_arguments(mechanism), data, max_paths, defer, True, True, choosing=choosing))


def ended(paths: Sequence[Path]) -> Sequence[Path]:
    """The paths that end, with loops summed up and noise made by hand as what it is.

    Retries are counted by the steps of the code itself, so they go first. What is left are paths with weights, and
    noise is recognised on each of them by itself, whatever its weight is.
    """
    if any(map(_tosses, paths)):
        check_sampler([paths])
        sampled = with_discrete_laplace(paths) or with_coin_gaussian(paths)
        if sampled is not None:
            return sampled
    accepted = with_truncated_noise(paths) or with_discrete_gaussians(paths)
    return with_staircases(recognised(without_retries(paths) if accepted is None else accepted))


def _tosses(path: Path) -> bool:
    return any(isinstance(fork, Toss) for fork in path.forks)


def check_sampler(inputs: Iterable[Sequence[Path]]) -> None:
    """Raises NotExplorable where paths toss coins, and these are not the same whatever the data are.

    In very rare cases, which are not followed, a coin may raise or not end: so it must on all inputs alike.
    """
    seen: set[object] = set()
    for paths in inputs:
        asked = [fork.option for path in paths for fork in path.forks]
        open_values = any(isinstance(s, Unknown) for o in asked for c in o.conditions for s in drawn_in(c.slack.terms))
        seen.add(tuple((tuple(map(_step_key, path.steps)), isinstance(path.output, Again)) for path in paths))
        weighted = any(isinstance(option.weight, Weight) for option in asked)
        if any(map(_tosses, paths)) and (open_values or weighted or len(seen) > 1):
            raise NotExplorable("the data decide how a loop without a bound tosses its coins; compare inputs exactly")


def _step_key(step: Step) -> object:
    if isinstance(step, Noise):
        return step.index, step.distribution
    coin = step.coin.key if isinstance(step, Toss) else None
    return coin, step.taken, tuple((o.weight, tuple(map(_condition_key, o.conditions))) for o in step.options)


def _condition_key(condition: Condition) -> object:
    """What tells it from conditions of other runs, to the last digit; its text rounds."""
    slack = condition.slack
    return condition.relation, slack.constant, frozenset((symbol.name, c) for symbol, c in slack.terms.items())


def check_noise(paths: Sequence[Path]) -> None:
    """Raises NotExplorable where the paths draw noise that the certificate checker does not know."""
    drawn = (noise for path in paths for noise in path.noises)
    unknown = next((noise for noise in drawn if parameters_of(noise.distribution.kind) is None), None)
    if unknown is not None:
        raise NotExplorable(
            f"{unknown.site.prefix}the certificate checker does not know {unknown.distribution.kind} noise, so nothing "
            f"can be proved of what draws it; use another engine"
        )


def explored_values(
    mechanism: Mechanism, values: Sequence[Any], *, defer: bool = False, choosing: bool = False
) -> list[Sequence[Path]]:
    """Its paths on each of the values, after plain runs agreed with them; the more values, the fewer runs on each.

    Of very many values, those where it does the same as on others, as on the same records in another order, have one
    run down a path.
    """
    found: list[Sequence[Path]] = []
    known: set[tuple[str, ...]] = set()
    first: Sequence[Path] = ()
    for place, value in enumerate(values):
        paths = explored(mechanism, value, defer=defer, choosing=choosing)
        first = first or paths
        check_sampler([first, paths])
        found.append(ended(paths))
        check_noise(found[-1])
        text = tuple(map(str, paths))
        runs = 0 if text in known and len(values) > MANY_REPLAYED else max(RUNS // len(values), 1) if place else RUNS
        seed = 0 if runs else place
        replayed(mechanism, value, paths, defer=defer, choosing=choosing, runs=runs, seed=seed)
        known.add(text)
    if all(isinstance(path.output, Raised) for paths in found for path in paths):
        raised = " or ".join(sorted({str(path.output) for paths in found for path in paths})[:MOST_SHOWN])
        raise MechanismFailed(f"{mechanism.name} {raised} on every input of its domain; return an output")
    return found


def replayed(
    mechanism: Mechanism,
    data: Any,
    paths: Sequence[Path],
    at: Sequence[Any] = (),
    *,
    defer: bool = False,
    choosing: bool = False,
    runs: int = RUNS,
    seed: int = 0,
) -> Replayed:
    """What plain runs, also at these data, say of the paths; ExplorationDisagrees where one contradicts them."""
    return Listing.of(rational_arguments(mechanism), data, paths, defer, choosing).replay(at, runs, seed)


def rational_arguments(mechanism: Mechanism) -> Mechanism:
    """The mechanism with decimal arguments that remember the rationals they write down: 0.1 is also 1/10.

    The code sees the floats themselves: `epsilon < 0.1` is False for 0.1, as in a plain run.
    """
    floats = {name: v for name, v in mechanism.values.items() if isinstance(v, float) and math.isfinite(v)}
    return mechanism.bind(**{name: Written.of(value) for name, value in floats.items()})


# -------------------------------------------------------------------------------------------------------------- events
# What a proof has to carry over from one input to its neighbours: events, each a polyhedron of noise for every data.
#
# An event is a set of runs with one output. Paths with the same output are merged into one event where their union is
# convex; where it is not they stay apart, each an event of its own (a run is then carried to a run down the same path,
# so that the map is one-to-one for certain).


ENTRY = re.compile(r"(?:data|sum)\[(\d+)\]")


@dataclass(frozen=True, eq=False)
class NoiseEvent:
    """Runs with one output: the noise that they draw, what it satisfies, and the entries that must not change."""

    output: Template  # a slot for each number that is no constant
    noises: tuple[Noise, ...]
    conditions: tuple[Condition, ...]
    numbers: tuple[Affine, ...]
    weight: Any  # a number, or a DataWeight where it depends on the data
    paths: int  # how many paths it was merged from
    sites: tuple[Site, ...]  # where each of the conditions was asked
    functions: tuple[Derived, ...] = ()  # in conditions and numbers; their arguments are among the numbers
    sources: frozenset[Noise] = frozenset()  # what functions are of that stand as variables in conditions and numbers

    def arguments_of(self, place: int) -> range:
        """Which of its numbers are the arguments of a function: those of all functions come last, in their order."""
        counts = [len(function.expressions) for function in self.functions]
        first = len(self.numbers) - sum(counts[place:])
        return range(first, first + counts[place])


def events_of(paths: Sequence[Path]) -> list[NoiseEvent]:
    """The events of a mechanism's paths."""
    groups: dict[tuple[Template, tuple[Any, ...]], list[Any]] = {}
    for path in paths:
        form = OutputForm.of(path.output)
        functions = functions_in([*form.numbers, *(condition.slack for condition in path.conditions)])
        if functions:
            event = _with_arguments(path, form, functions)
            groups.setdefault((event.output, (event,)), []).append(event)  # never merged
        else:
            groups.setdefault((form.template, _structure(path)), []).append((path, form))
    return [event for members in groups.values() for event in _merged(members)]


def functions_in(expressions: Sequence[Affine]) -> tuple[Derived, ...]:
    """The functions that the expressions are made of, those within others first."""
    found: dict[Derived, None] = {}
    for expression in expressions:
        for function in expression.functions:
            found.update(dict.fromkeys((*functions_in(function.expressions), function)))
    return tuple(found)


def _with_arguments(path: Path, form: OutputForm, functions: tuple[Derived, ...]) -> NoiseEvent:
    """The event of a path that releases the arguments of its functions too.

    What it proves holds for the path as well: from these arguments, and from nothing else, follow the values of the
    functions, and so what is decided and released by them.
    """
    numbers = list(form.numbers)
    told: list[Any] = []
    for function in functions:
        slots = [Slot(Kind.FLOAT, len(numbers) + k) for k in range(len(function.expressions))]
        numbers += function.expressions
        told.append((name_of(function), *slots))
    output = Template((form.template.tree, tuple(told)))
    return NoiseEvent(output, path.noises, path.conditions, tuple(numbers), path.weight, 1, sites_of(path), functions)


def releasing_arguments(path: Path) -> Path:
    """The path, which releases the numbers that its functions and texts are made of in place of these.

    What is proved of it holds for the path too, as post-processing. NotExplorable where a function decides something.
    """
    asked = next((condition for condition in path.conditions if condition.slack.functions), None)
    if asked is not None:
        raise NotExplorable(f"there is no proof where a function of noisy numbers decides: {asked.text()}")
    return replace(path, output=map_leaves(_opened, path.output))


def _opened(leaf: Any) -> Any:
    """The numbers that the leaf is made of, and what is made of them."""
    if isinstance(leaf, NoisyText):
        return [part if isinstance(part, str) else [part.form, _opened(part.number)] for part in leaf.parts]
    if not isinstance(leaf, Affine) or not leaf.functions:
        return leaf
    rest: dict[Symbol, Number] = {s: c for s, c in leaf.terms.items() if not isinstance(s, Derived)}
    made = [
        [name_of(function), str(leaf.terms[function]), *(_opened(argument) for argument in function.expressions)]
        for function in leaf.functions
    ]
    return [affine(leaf.constant, rest), *made]


def name_of(function: Derived) -> str:
    """The function with its constant arguments: equal for the same function of numbers."""
    texts = [str(a) if is_constant(a) else "·" for a in function.arguments]
    return function.function.text(texts)


def _merged(members: Sequence[Any]) -> list[NoiseEvent]:
    if isinstance(members[0], NoiseEvent):
        return list(members)
    paths, (first, form) = [path for path, _ in members], members[0]
    mergeable = len(paths) > 1 and not form.numbers and all(path.weight == 1 for path in paths)
    mergeable = mergeable and any(_can_move(symbol) for c in first.conditions for symbol in c.slack.terms)
    if mergeable:
        union = union_if_convex([path.conditions for path in paths])
        if union is not None:
            asked = {id(c): site for path in paths for c, site in zip(path.conditions, sites_of(path), strict=True)}
            sites = tuple(asked[id(c)] for c in union)
            return [NoiseEvent(form.template, first.noises, union, (), 1, len(paths), sites)]
    return [NoiseEvent(f.template, p.noises, p.conditions, f.numbers, p.weight, 1, sites_of(p)) for p, f in members]


def _can_move(symbol: Symbol) -> bool:
    """Whether it is noise that can be shifted: events without any gain nothing from being merged."""
    return isinstance(symbol, Noise) and symbol.distribution.price.up is not None


def sites_of(path: Path) -> tuple[Site, ...]:
    """Where each condition of the path was asked."""
    return tuple(fork.site for fork in path.forks if not fork.implied for _ in fork.option.conditions)


def _structure(path: Path) -> tuple[Any, ...]:
    """What paths must share to be merged: the noise they draw, in order."""
    return tuple((noise.index, noise.distribution) for noise in path.noises)


def entry_of(symbol: Unknown) -> int:
    """Which entry of the data, or of sums over them, an open value is; raises NotExplorable where it is none."""
    found = ENTRY.fullmatch(symbol.name)
    if found is None:
        raise NotExplorable(f"{symbol.name} is open, but is not an entry of the data; give it a value")
    return int(found[1])


def is_equality(condition: Condition) -> bool:
    return condition.relation is Relation.EQUAL


# -------------------------------------------------------------------------------------------------------------- pieces
# Events without the noise that decides nothing but how likely they are.
#
# Noise that is compared with constants alone makes a finite choice: it has a probability, which is exact where the
# noise
# is uniform, geometric or binomial. What is left of the event is a polyhedron of noise that can be shifted.


@dataclass(frozen=True, eq=False)
class WeightedEvent:
    """An event, with the probability of its finite choices and what else its noise satisfies."""

    event: NoiseEvent
    weight: Fraction
    noises: tuple[Noise, ...]
    conditions: tuple[Condition, ...]

    @property
    def numbers(self) -> tuple[Affine, ...]:
        return self.event.numbers


def piece_of(event: NoiseEvent) -> WeightedEvent:
    """The event without its finite choices; conditions on data alone are left out, as its case has them."""
    weight = Fraction(event.weight)
    kept: list[Noise] = []
    for noise in event.noises:
        asked = [condition for condition in event.conditions if noise in condition.slack.terms]
        released = noise in event.sources or any(noise in number.terms for number in event.numbers)
        alone = all(len(condition.slack.terms) == 1 for condition in asked)
        chance = None if released or not alone else probability(noise, asked)
        if chance is None:
            kept.append(noise)
        else:
            weight *= chance
    conditions = [c for c in event.conditions if not set(kept).isdisjoint(drawn_in(c.slack.terms))]
    return WeightedEvent(event, weight, tuple(kept), tuple(conditions))
