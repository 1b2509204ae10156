"""Mechanisms with records and outputs of many types: mappings, classes, sets, strings, nothing at all."""

import math
import random
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .entry import world

CITIES = ("Bern", "Basel", "Chur")

PEOPLE = [
    {"age": 20, "city": "Bern"},
    {"age": 35, "city": "Basel"},
    {"age": 64, "city": "Basel"},
    {"age": 41, "city": "Chur"},
]


@world(claim=1.0, adjacency="replace", domain=PEOPLE, size=3)
def people_by_city(rng, data):
    """Releases the noisy number of people of every city.

    Replacing a person may change two counts by 1 each, at scale 2: truth 1.
    """
    counts = dict.fromkeys(CITIES, 0)
    for person in data:
        counts[person["city"]] += 1
    return {city: count + rng.laplace(scale=2.0) for city, count in counts.items()}


@world(claim=1.0, adjacency="replace", domain=PEOPLE, size=3, phrasing_of="people_by_city")
def people_by_city_array(rng, data):
    """Releases the same counts as an array in the order of the cities.

    Two counts change by 1, at scale 2: truth 1.
    """
    counter = Counter(person["city"] for person in data)
    exact = np.fromiter((counter[city] for city in CITIES), dtype=float)
    return exact + rng.laplace(0.0, 2.0, size=exact.shape)


@world(claim=1.0, truth=math.inf, adjacency="replace", domain=PEOPLE, size=3)
def people_by_seen_city(rng, data):
    """Releases the noisy number of people of the cities that occur.

    A city with a single person disappears from the output with this person: no ε holds.
    """
    counter = Counter(person["city"] for person in data)
    return {city: count + rng.laplace(scale=2.0) for city, count in sorted(counter.items())}


@world(claim=0.5, truth=46 / 164, adjacency="add-remove", domain=PEOPLE, size=2)
def years_as_adults(rng, data):
    """Releases the noisy sum of years since people were 18, for ages of up to 100.

    One of these people adds at most 64 - 18 = 46 years, while the scale of 82 / ε = 164 allows for 82: truth 46 /
    164.
    """
    years = (min(max(person["age"], 18), 100) - 18 for person in data)
    return sum(years) + rng.laplace(scale=(100 - 18) / 0.5)


@dataclass(frozen=True)
class Purchase:
    """What one customer bought."""

    category: str
    amount: float


@dataclass
class Summary:
    """What is published about the customers."""

    food_customers: float
    turnover: float


PURCHASES = [Purchase("food", 5.0), Purchase("food", 10.0), Purchase("books", 20.0), Purchase("books", 0.0)]


@world(claim=1.0, truth=7 / 8, adjacency="replace", domain=PURCHASES, size=3)
def shop_summary(rng, data: list[Purchase]) -> Summary:
    """Releases the noisy number of food customers and the noisy turnover, with amounts of up to 20.

    A number changes by 1 at scale 2, a turnover by d at scale 40. The worst change is from 5.0 for food to 20.0 for
    books: 1/2 + 15/40, as no customer can change the number and the turnover by 20 at once: truth 7/8.
    """
    food = sum(1 for purchase in data if purchase.category == "food")
    turnover = sum(min(purchase.amount, 20.0) for purchase in data)
    return Summary(food_customers=food + rng.laplace(scale=2.0), turnover=turnover + rng.laplace(scale=40.0))


class Visit(NamedTuple):
    """A stay in hospital."""

    ward: str
    nights: int


@world(
    claim=1 + math.log(3),
    truth=5 / 7 + math.log(3),
    adjacency="any",
    domain=[Visit("A", 0), Visit("A", 7), Visit("B", 2)],
)
def visit_report(rng, visit):
    """Reports a visit: the ward by randomised response, the nights (up to 7) with Laplace noise.

    A ward costs log 3, nights cost their difference over 7. From (A, 7) to (B, 2) both change: truth log 3 + 5/7.
    """
    ward = visit.ward
    if rng.random() < 1 / 4:
        ward = "B" if ward == "A" else "A"
    return Visit(ward, visit.nights + rng.laplace(0, 7 / 1.0))


@world(claim=1.0, adjacency="add-remove", domain=[0, 1], size=3)
def count_or_nothing(rng, data):
    """Releases the noisy number of ones if it is at least 3, and nothing otherwise.

    Large outputs are released as they are, and their densities differ by e for counts that differ by 1: truth 1.
    """
    noisy = sum(data) + rng.laplace(scale=1.0)
    if noisy < 3:
        return None
    return noisy


@world(claim=1.0, adjacency="add-remove", domain=[0, 1], size=3, phrasing_of="count_or_nothing")
def count_or_nothing_stdlib(data):
    """Releases the same with the standard library and a conditional expression.

    Laplace(1) noise as a difference of exponentials; outputs above 3 keep the full cost: truth 1.
    """
    result = len([x for x in data if x]) + random.expovariate(1) - random.expovariate(1)
    return result if result >= 3 else None


@world(claim=1.0, truth=math.inf, adjacency="add-remove", domain=[0, 1], size=3)
def small_cell(rng, data):
    """Releases a noisy count as a string, and hides small counts.

    Whether the exact count is below 3 decides between a fixed phrase and a number, without noise: no ε holds.
    """
    count = sum(data)
    if count < 3:
        return "fewer than 3"
    return f"{count + rng.laplace(scale=1.0):.1f}"


@world(claim=1.0, adjacency="add-remove", domain=[0, 1], size=3)
def count_sentence(rng, data):
    """Releases a noisy count, rounded, in a sentence.

    Far from the counts, the probabilities of a rounded number differ by e, as do the densities: truth 1.
    """
    noisy = np.count_nonzero(np.asarray(data)) + rng.laplace()
    return "about {:.0f} of our users agree".format(noisy)  # noqa: UP032


@world(claim=1.0, adjacency="add-remove", domain=(0.0, 1.0), size=3)
def count_and_mean(rng, data):
    """Releases a noisy count and the mean that follows from it and a noisy sum, or NaN if the count is below 1.

    Count and sum change by 1 with a record of 1, each at scale 2. Where the count is at least 1, the sum follows from
    the output: truth 1/2 + 1/2 = 1.
    """
    count = len(data) + rng.laplace(scale=2.0)
    total = float(np.sum(data)) + rng.laplace(scale=2.0)
    return count, total / count if count >= 1 else float("nan")


@world(claim=1.0, truth=math.inf, adjacency="add-remove", domain=(0.0, 1.0), size=3)
def mean_or_nan(rng, data):
    """Releases the mean of an unknown number of records, with the noise that this number needs.

    The scale is 1/3 for 3 records and 1/4 for 4, so that the ratio of densities grows without bound: no ε holds.
    """
    if len(data) == 0:
        return math.nan
    n = len(data)
    return sum(data) / n + rng.laplace(scale=1 / n)


@world(claim=1.0, adjacency="replace", domain=["a", "b", "c"], size=3)
def popular_items(rng, data):
    """Releases the set of items whose noisy count is above 1.

    An item's count c has Laplace(2) noise. With counts a: 2, b: 0, c: 1 and a replaced by b, "b in" gains a factor of
    exp(1/2) (from P[noise > 1] to P[noise > 0]) and "a out" as well (from P[noise < -1] to P[noise < 0]): truth 1.
    """
    counts = Counter(data)
    return {item for item in ("a", "b", "c") if counts[item] + rng.laplace(scale=2.0) > 1}


@world(claim=1.0, adjacency="replace", domain=["a", "b", "c"], size=3, phrasing_of="popular_items")
def popular_items_frozen(rng, data):
    """Releases the same set, frozen, with arrays.

    Two items change at scale 2, and the worst events survive the threshold: truth 1.
    """
    items = np.array(["a", "b", "c"])
    counts = (np.asarray(data)[:, None] == items).sum(axis=0)
    keep = counts + rng.laplace(0, 2.0, size=3) > 1
    return frozenset(items[keep].tolist())


BASKETS = [frozenset(), frozenset({"milk"}), frozenset({"milk", "bread"})]


@world(claim=1.0, adjacency="add-remove", domain=BASKETS, size=3)
def basket_counts(rng, data):
    """Releases how many baskets contain milk and how many contain bread.

    A basket with both changes two counts by 1, at scale 2: truth 1.
    """
    counts = defaultdict(int)
    for basket in data:
        for item in basket:
            counts[item] += 1
    return {"milk": counts["milk"] + rng.laplace(scale=2), "bread": counts["bread"] + rng.laplace(scale=2)}


@world(claim=1.0, truth=2.0, adjacency="add-remove", domain=BASKETS, size=3)
def basket_counts_per_item(rng, data):
    """Releases the same counts, with noise for one item per basket.

    A basket with milk and bread changes both counts by 1, at scale 1: truth 2.
    """
    return [sum(item in basket for basket in data) + rng.laplace(scale=1) for item in ("milk", "bread")]


PATIENTS = [("f", True), ("f", False), ("m", True), ("m", False)]


@world(claim=1.0, adjacency="add-remove", domain=PATIENTS, size=3)
def smoking_table(rng, data):
    """Releases a 2 x 2 table of sex and smoking as nested lists.

    A patient belongs to one cell, at scale 1: truth 1.
    """
    table = [[0, 0], [0, 0]]
    for sex, smokes in data:
        table["fm".index(sex)][int(smokes)] += 1
    return [[cell + rng.laplace(scale=1.0) for cell in row] for row in table]


@world(claim=1.0, truth=math.inf, adjacency="add-remove", domain=PATIENTS, size=3)
def smoking_shares(rng, data):
    """Releases the shares of a noisy total of the four kinds of patients.

    A kind without patients has the share 0 for certain, whatever the noise of the total: no ε holds.
    """
    total = len(data) + rng.laplace(scale=1.0)
    return {(sex, smokes): list(data).count((sex, smokes)) / total for sex, smokes in PATIENTS}


@world(claim=math.log(3), adjacency="any", domain=["yes", "no"])
def maybe_answer(rng, answer):
    """Reports nothing half of the time, and else the answer, truthful with probability 3/4.

    Silence says nothing; 3/8 against 1/8 for an answer: truth log 3.
    """
    if rng.random() < 0.5:
        return None
    if rng.random() < 0.75:
        return answer
    return "no" if answer == "yes" else "yes"
