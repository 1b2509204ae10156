"""What harmless opening costs a client and a server. `python benchmarks/verifiable.py [--quick] [--page FILE]`

The table has the processor time to commit and to verify for one client with 73 items at ε = ln 2, by scheme, all
measured in turns in one run, and the bytes that the client sends. A ratio above the required one says "ok". With
--page, the comparison of the protocols (privacy, robustness, length, bytes, error, gain) is written to a page, whose
numbers are computed, not measured.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Sequence
from pathlib import Path

from veridp.collect import Task, scheme
from veridp.collect.attacks import Compared, compared_frequencies, compared_means
from veridp.collect.commitments import Scheme
from veridp.collect.evaluation import ModularPedersen, commitment_costs
from veridp.collect.session_attacks import SESSION_ATTACKS
from veridp.collect.strategies import strategies
from veridp.local.study import adult_ages

REQUIRED = 10.0
SCHEMES = ("blake2b", "blake2b-plain", "ristretto255")
BETA = 0.05
PLAYED = 200
PUBLISHED = {"grr-ho": "robust", "sr-ho": "semi-robust", "pm-ho": "robust"}  # in the table that this one recomputes


def show_schemes(repeats: int) -> bool:
    """Print the table; whether the ratios are as required."""
    layout = Task("ages", "vgrr", math.log(2), items=tuple(map(str, range(73)))).protocol.layout
    schemes: list[Scheme] = [
        ModularPedersen.of_bits(256),
        ModularPedersen.of_bits(512),
        scheme("ristretto255"),
        scheme("blake2b-plain"),
        scheme("blake2b"),
        scheme("blake3"),
    ]
    costs = {cost.scheme: cost for cost in commitment_costs(schemes, layout, repeats)}
    print(f"one client, 73 items, ε = ln 2, {layout.size} entries of which {layout.size - layout.closed} are opened")
    print(f"{'scheme':<16}{'commit':>12}{'verify':>12}{'bytes':>9}")
    for name, cost in costs.items():
        print(f"{name:<16}{cost.commit * 1e3:>9.3f} ms{cost.verify * 1e3:>9.3f} ms{cost.sent:>9}")
    good = True
    for slow, quick in (("modular-512", "ristretto255"), ("ristretto255", "blake2b")):
        for what in ("commit", "verify"):
            ratio = getattr(costs[slow], what) / getattr(costs[quick], what)
            good &= ratio >= REQUIRED
            mark = "ok" if ratio >= REQUIRED else "TOO LOW"
            print(f"{what}: {quick} is {ratio:.1f}x as fast as {slow} (required: {REQUIRED:g})  {mark}")
    share = costs["blake2b"].sent / costs["blake2b-plain"].sent
    print(f"the compact transcript has {costs['blake2b'].sent} bytes, {share:.1%} of sending every entry")
    return good


def page() -> str:
    """The comparison of the protocols, as a page."""
    people, two = adult_ages(), math.log(2)

    def of_means(mechanism: str, resolution: int) -> Task:
        return Task("means", mechanism, two, low=people.low, high=people.high, resolution=resolution)

    kinds = (("grr-ho", 74), ("sr-ho", 1), ("sr-ho", 16), ("pm-ho", 24), ("pm-ho", 240))
    means = [of_means(mechanism, resolution) for mechanism, resolution in kinds]
    items = tuple(str(age) for age in range(17, 90))
    frequencies = [Task(name, name, two, items=items) for name in ("vgrr", "voue", "volh")]
    lines = [
        "# The protocols compared",
        "",
        "Written by `python benchmarks/verifiable.py --page docs/verifiable-table.md`; numbers are computed from the",
        "protocol's exact distribution; only the last table has some that are played. [verifiable.md](verifiable.md)",
        "explains the columns.",
        "A note marks protocols whose published robustness differs from the computed one.",
        "",
        f"Mean age of {len(people.values):,} people from {people.low:g} to {people.high:g} (true mean "
        f"{people.mean:.3f}), ε = ln 2, {BETA:.0%} of the clients malicious. Scores and gains in years.",
        "",
        *table(
            [compared_means(task, people, BETA, SCHEMES) for task in means],
            "standard error of the mean",
            [f"{t.mechanism}, {t.protocol.inputs} inputs" for t in means],
        ),
        "",
        f"Frequencies of {len(items)} ages among as many people, three of them targets (true share 5 %).",
        "",
        *table(
            [compared_frequencies(task, len(people.values), (3, 20, 40), 0.05, BETA, SCHEMES) for task in frequencies],
            "standard error of a frequency",
            [task.mechanism for task in frequencies],
        ),
        "",
        *strategy_table([*means, *frequencies, *several_tasks(two)]),
        "",
        *played_table(two),
        "",
        f"Source of the ages: {people.source}.",
        "",
    ]
    return "\n".join(lines)


def table(rows: Sequence[Compared], error: str, names: Sequence[str]) -> list[str]:
    """The rows as a table of Markdown."""
    sent = [f"bytes, {name}" for name in SCHEMES]
    head = ["protocol", "ε", "robustness", "S_in", "S_max", "S_out", "ℓ", *sent, error]
    head += ["gain, chosen input", "gain, best accepted", "gain, unprotected"]
    found = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for name, row in zip(names, rows, strict=True):
        known = row.robustness
        said = PUBLISHED.get(row.task.mechanism, known.standing)
        cells = [name, f"{row.epsilon:.4f}", f"{known.standing}" + f" (published: {said})" * (said != known.standing)]
        cells += [f"{float(score):.4g}" for score in (known.best_input, known.best_accepted, known.unprotected)]
        cells += [str(row.length), *(str(row.sent[scheme]) for scheme in SCHEMES), f"{row.error:.3g}"]
        cells += [f"{gain:.3g}" for gain in (row.input_gain, row.accepted_gain, row.unprotected_gain)]
        found.append("| " + " | ".join(cells) + " |")
    return found


def strategy_table(tasks: Sequence[Task]) -> list[str]:
    """What clients reach over whole sessions, as a table of Markdown."""
    head = ["protocol", "S_in", "all departures count", "free after the invitation", "all free", "tokens per report"]
    found = [
        "Whole sessions: a client may leave at any step and return with another token. The score of a session that",
        "counts, for the best strategy, by which departures count (three targets; the service uses the column *all",
        "departures count*), and how many tokens a report costs that reaches the column *all free*. Of several",
        "numbers (sr-smp, sr-spl) the first of three is the target, in shares of its range.",
        "",
        "| " + " | ".join(head) + " |",
        "|" + "---|" * len(head),
    ]
    for task in tasks:
        targets = (0,) if task.protocol.numeric else (3, 20, 40)
        best = strategies(task.protocol, targets if task.items else None)
        scores = (best.best_input, best.counted, best.free_after_invitation, best.free, best.tokens)
        name = task.mechanism if task.items else f"{task.mechanism}, {task.protocol.inputs} inputs"
        found.append("| " + " | ".join([name, *(f"{float(score):.4g}" for score in scores)]) + " |")
    return found


def several_tasks(epsilon: float) -> list[Task]:
    """Three attributes: one that the session draws, with all of ε, or each with as much."""
    ranges = ("a=0..1", "b=0..1", "c=0..1")
    return [Task("sr-smp", "sr-smp", epsilon, items=ranges), Task("sr-spl", "sr-spl", 3 * epsilon, items=ranges)]


def played_table(epsilon: float) -> list[str]:
    """Attacks by whole sessions, played against the verifier, as a table of Markdown."""
    head = ["protocol", "attack", "score, played", "exact", "sessions per report, played", "exact", "abort rate"]
    found = [
        f"The same, played: {PLAYED} accepted sessions of malicious clients against the real verifier, at ε = ln 2",
        "(sr-spl: for each attribute), on 6 items of which two are targets, numbers from 17 to 90 (grr-ho: 8 points,",
        "pm-ho: 24 bins), or the first of three attributes, in shares of its range. The abort rate is that of a",
        "collection with 5 % of such clients.",
        "",
        "| " + " | ".join(head) + " |",
        "|" + "---|" * len(head),
    ]
    numbers = {"low": 17.0, "high": 90.0}
    tasks = [Task(name, name, epsilon, items=tuple("abcdef")) for name in ("vgrr", "voue", "volh")]
    tasks += [
        Task(name, name, epsilon, resolution=resolution, **numbers)  # type: ignore[arg-type]
        for name, resolution in (("grr-ho", 8), ("sr-ho", 1), ("pm-ho", 24))
    ]
    for task in (*tasks, *several_tasks(epsilon)):
        for kind in SESSION_ATTACKS.values():
            attack = kind(task, BETA, (0,) if task.protocol.numeric else (0, 1))
            honest = [task.protocol.examples[0]] * round(PLAYED * (1 - BETA) / BETA)
            played = attack.collect(honest, random.Random(task.mechanism + attack.name))  # noqa: S311
            score = f"{played.score:.3g}" + f" ± {played.error:.2g}" * (played.error > 1e-9)
            cells = [task.mechanism, attack.name, score, f"{attack.expected_score:.4g}", f"{played.tokens:.3g}"]
            rate = played.attendance.abort_rate(task.protocol)
            found.append("| " + " | ".join([*cells, f"{attack.expected_tokens:.3g}", f"{rate:.3g}"]) + " |")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="fewer repeats")
    parser.add_argument("--page", type=Path, help="write the comparison of the protocols to this file")
    given = parser.parse_args()
    if given.page is not None:
        given.page.write_text(page(), encoding="utf-8")
        return 0
    repeats = 8 if given.quick else 40
    good = show_schemes(repeats)
    print("\n" + page())
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
