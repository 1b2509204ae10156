"""Small certificates written by hand, one idea each: the ground on which forgeries are made."""

from __future__ import annotations

import copy
from typing import Any

Document = dict[str, Any]


def linear(noise: dict[str, str], data: dict[str, str], constant: str = "0") -> Document:
    return {"noise": noise, "data": data, "constant": constant}


def where(noise: dict[str, str], data: dict[str, str], constant: str, relation: str) -> Document:
    return linear(noise, data, constant) | {"relation": relation}


def header(kind: str, adjacency: str, size: int | None, epsilon: str, domain: list[str] | None = None) -> Document:
    return {
        "format": "veridp-certificate",
        "version": 3,
        "kind": kind,
        "mechanism": "m",
        "arguments": {"scale": "1.0"},
        "adjacency": adjacency,
        "size": size,
        "domain": domain,
        "epsilon": epsilon,
    }


def event(output: Any, conditions: list[Document], numbers: list[Document] | None = None, **more: Any) -> Document:
    return {"output": output, "weight": "1", "draws": [0], "conditions": conditions, "numbers": numbers or []} | more


def table(*moves: str, cost: str) -> Document:
    return {"entries": [], "at": "corners", "table": [{"moves": list(moves), "cost": cost}]}


LAPLACE = {"draw": 0, "kind": "laplace", "scale": "1"}
UNIFORM = {"draw": 0, "kind": "uniform", "scale": "1"}

# data[0] + Laplace(1), released
RELEASED = header("alignment", "linf", 1, "1") | {
    "data": "real",
    "polytopes": [{"low": ["-1"], "high": ["1"]}],
    "outputs": ["#"],
    "noises": [LAPLACE],
    "events": [
        event(0, [], [linear({"0": "1"}, {"0": "1"})], paths=1)
        | {"shifts": [{"rule": [{"constant": "0", "data": {"0": "-1"}}], "cost": "1"}]}
    ],
}

# whether data[0] + Laplace(1) >= 0, with all data of one sign of change
ABOVE = header("alignment", "monotone", 1, "1") | {
    "data": "real",
    "polytopes": [{"low": ["0"], "high": ["1"]}, {"low": ["-1"], "high": ["0"]}],
    "outputs": ["True", "False"],
    "noises": [LAPLACE],
    "events": [
        event(0, [where({"0": "1"}, {"0": "1"}, "0", ">=")], paths=1)
        | {"shifts": [table("0", cost="0"), table("1", cost="1")]},
        event(1, [where({"0": "-1"}, {"0": "-1"}, "0", ">")], paths=1)
        | {"shifts": [table("-1", cost="1"), table("0", cost="0")]},
    ],
}

# one of two options, drawn with weights e^data[0] and e^data[1]


def term(data: dict[str, str], factor: str = "1") -> Document:
    return {"factor": factor, "data": data, "constant": "0"}


def chosen(output: int, costs: list[str], *pieces: Document) -> Document:
    still = {"entries": [], "at": "corners", "table": [{"moves": [], "cost": "0"}]}
    weight = {"pieces": list(pieces), "costs": costs}
    return event(output, [], draws=[], paths=1, weight=weight) | {"shifts": [still]}


CHOICE = header("alignment", "linf", 2, "2") | {
    "data": "real",
    "polytopes": [{"low": ["-1", "-1"], "high": ["1", "1"]}],
    "outputs": ["0", "1"],
    "noises": [],
    "events": [
        chosen(
            k,
            ["2"],
            {
                "conditions": [],
                "numerator": [term({str(k): "1"})],
                "divisors": [[term({"0": "1"}), term({"1": "1"})]],
                "by": [],
            },
        )
        for k in (0, 1)
    ],
}


# permute-and-flip: of two options in random order, one is taken with probability e^((data - largest)/2)
def _flipped(best: int, output: int) -> Document:
    other, halves = 1 - best, {str(best): "-1/2", str(1 - best): "1/2"}
    relation = ">=" if best == 0 else ">"
    certain = [term({}), term(halves, "-1/2")]
    return {
        "conditions": [where({}, {str(best): "1", str(other): "-1"}, "0", relation)],
        "numerator": certain if output == best else [term(halves, "1/2")],
        "divisors": [],
        "by": [0],
    }


FLIP = copy.deepcopy(CHOICE) | {"epsilon": "1"}
FLIP["events"] = [chosen(k, ["1"], _flipped(0, k), _flipped(1, k)) for k in (0, 1)]

# randomised response between two values: the truth with probability 3/4
COIN = header("coupling", "any", 1, "10986123/10000000") | {
    "polytopes": [],
    "noises": [UNIFORM],
    "shape": None,
    "parts": [
        {
            "entries": None,
            "events": [
                event("True", [where({"0": "-1"}, {}, chance, ">")]),
                event("False", [where({"0": "1"}, {}, f"-{chance}", ">=")]),
            ],
        }
        for chance in ("1/4", "3/4")
    ],
    "cases": [{"value": value, "conditions": [], "parts": [k]} for k, value in enumerate(("False", "True"))],
    "couplings": [{"left": a, "right": 1 - a, "cost": "0", "ratio": "3", "transports": []} for a in (0, 1)],
    "pairs": [{"left": a, "right": 1 - a, "polytope": None, "couplings": [a]} for a in (0, 1)],
}

# the sign of data[0] told with probability 3/4, by regions
SIGN = copy.deepcopy(COIN) | header("coupling", "linf", 1, "10986123/10000000")
SIGN["polytopes"] = [{"low": ["-1"], "high": ["1"]}]
SIGN["cases"] = [
    {"value": None, "conditions": [where({}, {"0": "-1"}, "0", ">=")], "parts": [0]},
    {"value": None, "conditions": [where({}, {"0": "1"}, "0", ">")], "parts": [1]},
]
SIGN["couplings"] += [{"left": a, "right": a, "cost": "0", "ratio": "1", "transports": []} for a in (0, 1)]
SIGN["pairs"] = [
    {"left": a, "right": b, "polytope": 0, "couplings": [number]}
    for number, (a, b) in enumerate(((0, 1), (1, 0), (0, 0), (1, 1)))
]


# value + Laplace(2) of a value that is 0 or 1, and a coin that tells nothing, as two parts
def _noisy(value: int) -> Document:
    return {
        "entries": [0],
        "events": [event("[#]", [], [linear({"0": "1"}, {}, str(value))])],
    }


def _to(move: str) -> Document:
    return {"from": 0, "to": 0, "share": "1", "shifts": table(move, cost="1/2")}


PARTS = header("coupling", "l1", 1, "1/2") | {
    "polytopes": [],
    "noises": [{"draw": 0, "kind": "laplace", "scale": "2"}, {"draw": 1, "kind": "uniform", "scale": "1"}],
    "shape": "[#, #]",
    "parts": [
        _noisy(0),
        _noisy(1),
        {
            "entries": [1],
            "events": [
                event("[True]", [where({"1": "1"}, {}, "-1/2", ">=")], draws=[1]),
                event("[False]", [where({"1": "-1"}, {}, "1/2", ">")], draws=[1]),
            ],
        },
    ],
    "cases": [{"value": f"[{k}]", "conditions": [], "parts": [k, 2]} for k in (0, 1)],
    "couplings": [
        {"left": 0, "right": 1, "cost": "1/2", "ratio": "1", "transports": [_to("-1")]},
        {"left": 1, "right": 0, "cost": "1/2", "ratio": "1", "transports": [_to("1")]},
        {"left": 2, "right": 2, "cost": "0", "ratio": "1", "transports": []},
    ],
    "pairs": [{"left": a, "right": 1 - a, "polytope": None, "couplings": [a, 2]} for a in (0, 1)],
}

# True with probability 1/4 + x/2, for x from 0 to 1
LIKELY = header("bounds", "any", 1, "10986123/10000000", ["0", "1"]) | {
    "noises": [UNIFORM],
    "cases": [
        {
            "value": None,
            "events": [
                event("True", [where({"0": "-1"}, {"0": "1/2"}, "1/4", ">")]),
                event("False", [where({"0": "1"}, {"0": "-1/2"}, "-1/4", ">=")]),
            ],
        }
    ],
    "bounds": [
        {"output": output, "slabs": [{"to": None, "least": "1/4", "most": "3/4"}]} for output in ("True", "False")
    ],
}

# a number from [0, 2], of the half where the value is with probability 3/4
HALVES = header("bounds", "any", 1, "10986123/10000000") | {
    "noises": [{"draw": 0, "kind": "uniform", "scale": "1"}],
    "cases": [
        {
            "value": str(value),
            "events": [
                event("#", [], [linear({"0": "1"}, {}, "0")], weight=weights[0]),
                event("#", [], [linear({"0": "1"}, {}, "1")], weight=weights[1]),
            ],
        }
        for value, weights in enumerate((("3/4", "1/4"), ("1/4", "3/4")))
    ],
    "bounds": [
        {
            "output": "#",
            "slabs": [
                {"to": "0", "least": "0", "most": "0"},
                {"to": "2", "least": "1/4", "most": "3/4"},
                {"to": None, "least": "0", "most": "0"},
            ],
        }
    ],
}


def _expression(noise: dict[str, str], query: str, **more: Any) -> Document:
    return {"noise": noise, "query": query, "state": {}, "constant": "0"} | more


def _step(when: str, source: int | None, target: int | None, **more: Any) -> Document:
    empty: Document = {"draws": [], "conditions": [], "output": [], "numbers": [], "updates": {}}
    return {"when": when, "from": source, "to": target} | empty | more


def _moves() -> list[Document]:
    """A query that moves by 1 costs 1, whichever the answer; one that stays costs nothing."""
    found = [{"step": 0, "phase": None, "query": "0", "moves": [], "cost": "0"}]
    for phase in ("before", "up 1", "up 2", "down 1", "down 2"):
        for by in ("0", "1", "-1") if phase == "before" else ("0",):
            for step, move in ((1, {"0": "0", "1": "0", "-1": "1"}), (2, {"0": "0", "1": "-1", "-1": "0"})):
                cost = str(abs(int(move[by])))
                found.append({"step": step, "phase": phase, "query": by, "moves": [move[by]], "cost": cost})
        found.append({"step": 3, "phase": phase, "query": "0", "moves": [], "cost": "0"})
    return found


# whether each query + Laplace(1) is above 0, for as many as there are, where one of them moves
LOOP = header("induction", "l1", None, "1") | {
    "period": 1,
    "noises": [LAPLACE],
    "states": [{"constants": {}, "symbols": []}],
    "steps": [
        _step("start", None, 0),
        _step("step", 0, 0, draws=[0], output=["True"], conditions=[_expression({"0": "1"}, "1", relation=">=")]),
        _step("step", 0, 0, draws=[0], output=["False"], conditions=[_expression({"0": "-1"}, "-1", relation=">")]),
        _step("end", 0, None),
    ],
    "alignments": [
        {
            "places": [
                {"state": 0, "phase": phase, "differences": {}, "left": "1" if phase == "before" else "0"}
                for phase in ("before", "up 1", "up 2", "down 1", "down 2")
            ],
            "moves": _moves(),
        }
    ],
}

SMALL = {
    "released": RELEASED,
    "above": ABOVE,
    "choice": CHOICE,
    "flip": FLIP,
    "coin": COIN,
    "pair": COIN | {"adjacency": "pairs"},
    "sign": SIGN,
    "parts": PARTS,
    "likely": LIKELY,
    "halves": HALVES,
    "loop": LOOP,
}


def small(name: str) -> Document:
    return copy.deepcopy(SMALL[name])
