"""What certificates of all kinds share: from JSON to values, with the place of whatever is wrong.

Part of the checker: it knows the format, and nothing of the search that wrote it. Every word comes from a closed list,
every number from a closed grammar with bounded size, and every field must be there: nothing has a default.
"""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import NoReturn

from veridp_check.noise import OPAQUE, NoiseDraw, parameters_of

FORMAT = "veridp-certificate"
VERSION = 3
RATIONAL = re.compile(r"-?[0-9]{1,4000}(/[0-9]{1,4000})?")
NO_RATIONAL = 'a rational such as "-3/40" is needed, not {}'
LARGEST = int(sys.float_info.max)  # of a number: arguments and data are floats
WHOLE = re.compile(r"0|[1-9][0-9]{0,8}")
MAX_WHOLE = 10**6  # of a size, an index or a count
MAX_FILE_BYTES = 2**29
MAX_BITS_SHOWN = 1000  # of an integer that a message shows in full
RELATIONS = (">=", ">", "==")
NUMERIC = "#"  # stands for a numeric entry in the text of an output
LISTED = "listed"  # neighbours are what the certificate's polytopes say, and nothing else
PAIRS = "pairs"  # neighbours are the pairs of values that the certificate lists, and no others
MOVES = {"linf": (-1, 1), "l1": (-1, 1), "monotone": (0, 1)}  # by how much an entry may move, one way
# Relations on data, each with a meaning that the checker knows; docs/certificates.md defines them.
RECORDS = ("add-remove", "add-remove-unordered", "replace", "replace-unordered")
ADJACENCIES = ("linf", "l1", "monotone", "any", *RECORDS, LISTED, PAIRS)


class NotACertificate(ValueError):
    """What was given to check cannot be read as a certificate at all."""


class CertificateFlaw(Exception):
    """What is wrong with a certificate, and where; ends the check."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(f"{place or '/'}: {reason}")
        self.place = place or "/"
        self.reason = reason


@dataclass(frozen=True)
class FunctionValue:
    """A function of numbers of its event: its place among the event's functions, its name, and which numbers.

    Nothing is known of the function but that equal arguments give equal values. Equal texts mean the same function of
    the same expressions.
    """

    place: int
    name: str
    of: tuple[int, ...]
    text: str


@dataclass(frozen=True)
class LinearForm:
    """constant + Σ coefficient · noise, data and functions; noise by its row, data by its entry."""

    noise: Mapping[int, Fraction]
    data: Mapping[int, Fraction]
    constant: Fraction
    functions: Mapping[FunctionValue, Fraction] = dataclasses.field(default_factory=dict)

    @property
    def text(self) -> str:
        """The same for equal expressions, and different for different ones."""
        noise, data = (sorted(terms.items()) for terms in (self.noise, self.data))
        functions = sorted((function.text, c) for function, c in self.functions.items())
        return f"{noise} {data} {functions} {self.constant}"


@dataclass(frozen=True)
class LinearCondition:
    """How an expression stands to 0: `>=`, `>` or `==`."""

    slack: LinearForm
    relation: str


@dataclass(frozen=True)
class Stated:
    """What a certificate says that it proves; nothing of it is believed yet."""

    mechanism: str
    arguments: Mapping[str, str]
    adjacency: str
    size: int | None  # None: every size
    domain: tuple[Fraction, Fraction] | None  # the data are one number of it, or records that are
    epsilon: Fraction
    delta: Fraction = dataclasses.field(default=Fraction(0), kw_only=True)
    rho: Fraction | None = dataclasses.field(default=None, kw_only=True)  # zCDP, where that is said too
    mu: Fraction | None = dataclasses.field(default=None, kw_only=True)  # Gaussian DP
    rdp: tuple[tuple[Fraction, Fraction], ...] = dataclasses.field(default=(), kw_only=True)  # orders, and Rényi DP
    profile: tuple[tuple[Fraction, Fraction], ...] = dataclasses.field(default=(), kw_only=True)  # other ε, and δ there

    @property
    def privacy(self) -> str:
        """What is said to be proved: `ε = 1/2`, or with a δ too, and in other notions."""
        delta = f", δ = {text_of(self.delta)}" if self.delta else ""
        notions = {"ρ": self.rho, "μ": self.mu}
        others = "".join(f"; {name} = {text_of(value)}" for name, value in notions.items() if value is not None)
        others += "".join(f"; ({text_of(order)}, {decimal_of(bound, 6)})-RDP" for order, bound in self.rdp[:1])
        others += f" and at {len(self.rdp) - 1} other orders" if len(self.rdp) > 1 else ""
        others += f"; δ at {len(self.profile)} other ε" if self.profile else ""
        return f"ε = {text_of(self.epsilon)}{delta}{others}"

    @property
    def scope(self) -> str:
        """For which data it is said to hold."""
        sizes = "every size" if self.size is None else f"size {self.size}"
        if self.domain is not None:
            ends = f"from {float(self.domain[0]):g} to {float(self.domain[1]):g}"
            if self.adjacency == "any":
                return f"numbers {ends}"
            return f"{sizes}, {'records' if self.adjacency in RECORDS else 'numbers'} {ends}"
        return sizes


# ------------------------------------------------------------------------------------------------------- the file


def load_document(file: str | Path) -> object:
    """The JSON of a file; raises NotACertificate where it cannot be read, or is not JSON."""
    try:
        if Path(file).stat().st_size > MAX_FILE_BYTES:
            raise NotACertificate(f"{file}: larger than {MAX_FILE_BYTES >> 20} MiB; give the file of a certificate")
        text = Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise NotACertificate(f"{file}: {error.strerror}; give the file of a certificate") from None
    except UnicodeDecodeError:
        raise NotACertificate(f"{file}: not UTF-8 text; give the file of a certificate") from None
    try:
        return json.loads(text, object_pairs_hook=_no_name_twice, parse_constant=_no_constant)
    except RecursionError:
        raise NotACertificate(f"{file}: not a certificate: too deeply nested; give one that veridp wrote") from None
    except ValueError as error:
        raise NotACertificate(f"{file}: not a certificate: {error}; give one that veridp wrote") from None


def _no_name_twice(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    """Two values under one name: which of them is meant would be up to the reader."""
    found: dict[str, object] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"the name {name!r} is given twice in one object")
        found[name] = value
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


# ------------------------------------------------------------------------------------------------------ its parts


class DocumentNode:
    """A value of the document; it knows the node above it, and its name or index there."""

    __slots__ = ("_above", "_name", "value")

    def __init__(self, value: object, above: DocumentNode | None = None, name: str | int = "") -> None:
        self.value, self._above, self._name = value, above, name

    @property
    def place(self) -> str:
        """Where it stands, as a JSON pointer."""
        return "" if self._above is None else f"{self._above.place}/{_escaped(str(self._name))}"

    def flaw(self, reason: str) -> CertificateFlaw:
        return CertificateFlaw(self.place, reason)

    def fields(self, *names: str, optional: Sequence[str] = ()) -> dict[str, DocumentNode]:
        """The fields of an object that has exactly these, and perhaps optional ones."""
        found = self.mapping()
        for name in names:
            if name not in found:
                raise self.flaw(f"the field {name!r} is missing")
        for name, node in found.items():
            if name not in names and name not in optional:
                raise node.flaw("there is no such field")
        return found

    def mapping(self) -> dict[str, DocumentNode]:
        if not isinstance(self.value, dict):
            raise self.flaw(f"an object is needed, not {_shown(self.value)}")
        return {name: DocumentNode(value, self, name) for name, value in self.value.items()}

    def entries(self) -> list[DocumentNode]:
        if not isinstance(self.value, list):
            raise self.flaw(f"a list is needed, not {_shown(self.value)}")
        return [DocumentNode(value, self, index) for index, value in enumerate(self.value)]

    def text(self) -> str:
        if not isinstance(self.value, str):
            raise self.flaw(f"a text is needed, not {_shown(self.value)}")
        return self.value

    def one_of(self, words: Sequence[str]) -> str:
        word = self.text()
        if word not in words:
            raise self.flaw(f"one of {', '.join(words)} is needed, not {_shown(word)}")
        return word

    def whole(self, least: int = 0, most: int = MAX_WHOLE) -> int:
        if type(self.value) is not int or not least <= self.value <= most:
            raise self.flaw(f"a whole number from {least} to {most} is needed, not {_shown(self.value)}")
        return self.value

    def rational(self) -> Fraction:
        """A number written as "p" or "p/q": JSON's own numbers are read with rounding by many programs."""
        if type(self.value) is not str:
            raise self.flaw(NO_RATIONAL.format(_shown(self.value)))
        found = _rational(self.value)
        if isinstance(found, str):
            raise self.flaw(found)
        return found


@lru_cache(maxsize=4096)
def _rational(text: str) -> Fraction | str:
    """The number, or why it is none; a certificate writes the same few over and over."""
    if RATIONAL.fullmatch(text) is None:
        return NO_RATIONAL.format(_shown(text))
    numerator, _, denominator = text.partition("/")
    if denominator and not int(denominator):
        return "the denominator is 0"
    value = Fraction(int(numerator), int(denominator or 1))
    return value if abs(value) <= LARGEST else f"a number that a float can hold is needed, not {_shown(text)}"


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _shown(value: object) -> str:
    """The value in ASCII, so that a look-alike letter is seen."""
    if isinstance(value, int) and value.bit_length() > MAX_BITS_SHOWN:
        return "a number of too many digits"
    text = ascii(value)
    return text if len(text) <= 40 else f"{text[:37]}…"


def text_of(number: Fraction) -> str:
    """The number in full, or as a decimal where it is long: Python refuses to write integers of many digits."""
    if max(number.numerator.bit_length(), number.denominator.bit_length()) <= MAX_BITS_SHOWN:
        return str(number)
    return decimal_of(number)


def decimal_of(number: Fraction, digits: int = 15) -> str:
    """The number as a decimal of so many digits."""
    if abs(number) > LARGEST:
        return f"{'-' * (number < 0)}10^308 or more"
    return f"{float(number):.{digits}g}"


# --------------------------------------------------------------------------------------------- what all kinds share

HEADER = ("format", "version", "kind", "mechanism", "arguments", "adjacency", "size", "domain", "epsilon")


def kind_of(document: object) -> str:
    """The kind of certificate that the document says it is; raises NotACertificate where it is none at all."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise NotACertificate(
            f'this is not a certificate: it has no "format": "{FORMAT}"; give a file that veridp wrote'
        )
    version = document.get("version")
    if type(version) is not int or version != VERSION:
        raise NotACertificate(
            f"a certificate of version {_shown(version)} cannot be checked, only of version {VERSION}; "
            f"write it again with `veridp prove --certificate`, or use the veridp that wrote it"
        )
    return DocumentNode(document).mapping()["kind"].text() if "kind" in document else ""


def arguments_in(node: DocumentNode) -> dict[str, str]:
    return {name: entry.text() for name, entry in node.mapping().items()}


def stated_in(field: Mapping[str, DocumentNode]) -> Stated:
    """What the header says is proved; an ε below 0 is refused, as is a word that is not known.

    Kinds whose certificates have a `delta` prove (ε, δ), others ε alone.
    """
    epsilon = field["epsilon"].rational()
    if epsilon < 0:
        raise field["epsilon"].flaw(f"ε is at least 0, not {epsilon}")
    delta = field["delta"].rational() if "delta" in field else Fraction(0)
    if not 0 <= delta < 1:
        raise field["delta"].flaw(f"δ is at least 0 and below 1, not {text_of(delta)}")
    return Stated(
        mechanism=field["mechanism"].text(),
        arguments=arguments_in(field["arguments"]),
        adjacency=field["adjacency"].one_of(ADJACENCIES),
        size=None if field["size"].value is None else field["size"].whole(least=1),
        domain=_domain(field["domain"]),
        epsilon=epsilon,
        delta=delta,
        rho=_notion(field, "rho"),
        mu=_notion(field, "mu"),
        rdp=tuple(_order(node) for node in field["rdp"].entries()) if "rdp" in field else (),
        profile=tuple(_point(node) for node in field["profile"].entries()) if "profile" in field else (),
    )


def _point(node: DocumentNode) -> tuple[Fraction, Fraction]:
    """An ε, and the δ that is said to hold at it."""
    epsilon, delta = _two(node)
    if epsilon < 0 or not 0 <= delta <= 1:
        raise node.flaw("an ε of at least 0 is needed, and a δ between 0 and 1")
    return epsilon, delta


def _two(node: DocumentNode) -> list[Fraction]:
    entries = node.entries()
    if len(entries) != 2:
        raise node.flaw(f"2 numbers are needed, not {len(entries)}")
    return [entry.rational() for entry in entries]


def _order(node: DocumentNode) -> tuple[Fraction, Fraction]:
    """An order above 1, and the Rényi divergence that is said to be no more than this."""
    order, bound = _two(node)
    if order <= 1 or bound < 0:
        raise node.flaw("an order above 1 is needed, and a divergence of at least 0")
    return order, bound


def _notion(field: Mapping[str, DocumentNode], name: str) -> Fraction | None:
    """What is said of another notion of privacy; None where nothing is."""
    if name not in field or field[name].value is None:
        return None
    value = field[name].rational()
    if value < 0:
        raise field[name].flaw(f"a number of at least 0 is needed, not {text_of(value)}")
    return value


def size_in(field: Mapping[str, DocumentNode]) -> int:
    """The number of entries of the data, for a certificate that is for one size."""
    return field["size"].whole(least=1)


def _domain(node: DocumentNode) -> tuple[Fraction, Fraction] | None:
    """The two ends of an interval, or None."""
    if node.value is None:
        return None
    ends = [entry.rational() for entry in node.entries()]
    if len(ends) != 2 or not ends[0] < ends[1]:
        raise node.flaw("the two ends of an interval are needed, the lower one first")
    return ends[0], ends[1]


def noise_in(node: DocumentNode, opaque: bool = False) -> NoiseDraw:
    """The noise of one draw; or, where such may be, the value of a function of noise."""
    found = node.mapping()
    for name in ("draw", "kind"):
        if name not in found:
            raise node.flaw(f"the field {name!r} is missing")
    kind = found["kind"].text()
    names = () if opaque and kind == OPAQUE else parameters_of(kind)
    if names is None:
        raise found["kind"].flaw(f"the kind of noise {_shown(kind)} is not known")
    field = node.fields("draw", "kind", *names, *(("of",) if kind == OPAQUE else ()), optional=("made",))
    made = field["made"].text() if "made" in field else ""
    of = tuple(entry.whole() for entry in field["of"].entries()) if kind == OPAQUE else ()
    noise = NoiseDraw(field["draw"].whole(), kind, tuple(field[name].rational() for name in names), made, of)
    for name, value in zip(names, noise.parameters, strict=True):
        if (wrong := noise.wrong(name, value)) is not None:
            raise field[name].flaw(wrong)
    return noise


def draws_in(node: DocumentNode, noises: Sequence[NoiseDraw], of: str) -> tuple[int, ...]:
    """The rows of the noise that a run, or a step, draws: the first draw, the second, and so on, none left out."""
    rows = []
    for place, entry in enumerate(node.entries()):
        row = entry.whole()
        if row >= len(noises):
            raise entry.flaw(f"there is no noise {row}")
        if noises[row].draw != place:
            raise entry.flaw(f"noise {row} is draw {noises[row].draw} of a {of}, not draw {place}")
        rows.append(row)
    return tuple(rows)


def condition_in(
    node: DocumentNode, draws: Sequence[int], size: int, functions: Sequence[FunctionValue] = ()
) -> LinearCondition:
    field = node.fields("noise", "data", "constant", "relation", optional=("functions",))
    return LinearCondition(linear_in(field, draws, size, functions), field["relation"].one_of(RELATIONS))


def number_in(
    node: DocumentNode, draws: Sequence[int], size: int, functions: Sequence[FunctionValue] = ()
) -> LinearForm:
    return linear_in(node.fields("noise", "data", "constant", optional=("functions",)), draws, size, functions)


def linear_in(
    field: Mapping[str, DocumentNode], draws: Sequence[int], size: int, functions: Sequence[FunctionValue] = ()
) -> LinearForm:
    noise = coefficients_in(field["noise"], draws, "noise that this event draws")
    data = coefficients_in(field["data"], range(size), "entry of the data")
    computed = {}
    if "functions" in field:
        computed = coefficients_in(field["functions"], range(len(functions)), "function of this event before here")
    return LinearForm(noise, data, field["constant"].rational(), {functions[k]: c for k, c in computed.items()})


def functions_in(field: Mapping[str, DocumentNode], draws: Sequence[int], size: int) -> list[FunctionValue]:
    """The functions of an event, each of some of its numbers, which may have functions in them that come before it."""
    numbers, found = field["numbers"].entries(), list[FunctionValue]()
    for node in field["functions"].entries() if "functions" in field else ():
        own = node.fields("name", "of")
        places = [entry.whole(most=len(numbers) - 1) for entry in own["of"].entries()]
        arguments = [number_in(numbers[place], draws, size, found).text for place in places]
        name = own["name"].text()
        found.append(FunctionValue(len(found), name, tuple(places), f"{name!r} of {arguments}"))
    return found


def coefficients_in(node: DocumentNode, known: Sequence[int], what: str) -> dict[int, Fraction]:
    """The coefficients that are not 0."""
    found = {}
    for name, entry in node.mapping().items():
        if WHOLE.fullmatch(name) is None or int(name) not in known:
            raise entry.flaw(f"{_shown(name)} is no {what}")
        if value := entry.rational():
            found[int(name)] = value
    return found


def vector_in(node: DocumentNode, size: int, what: str) -> tuple[Fraction, ...]:
    entries = node.entries()
    if len(entries) != size:
        raise node.flaw(f"{what} has {size} entries, as the data have, not {len(entries)}")
    return tuple(entry.rational() for entry in entries)
