"""The digest of a mechanism: whatever decides how it behaves changes it, or there is none."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from veridp.audit import code_digest
from veridp.audit.code_digest import NoDigest, mechanism_digest
from veridp.target import load

Files = Mapping[str, str]
BODY = "def mech(rng, data):\n    return data[0] + rng.laplace(scale={0})\n"


def using(expression: str, top: str = "") -> str:
    return f"{top}\n{BODY.format(expression)}"


def digest_of(files: Files, folder: Path, settings: Mapping[str, object] | None = None) -> str:
    """The digest of `mech` of mech.py, loaded anew."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    importlib.invalidate_caches()
    try:
        return mechanism_digest(load("mech.py:mech").function, settings or {})
    finally:
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", None) or "").startswith(str(folder)):
                del sys.modules[name]


@pytest.fixture
def no_bytecode(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files change within a second, which the bytecode of Python does not notice."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)


NOISE = "class Noise:\n    S = {0}\n    def add(self):\n        return self.S{1}\n"
META = "class M(type):\n    @property\n    def a(cls): return {0}\nclass K(metaclass=M): pass\n"
DISPATCH = """
from functools import singledispatch
@singledispatch
def c(x): return 1
@c.register
def _(x: int): return {0}
"""
WRAPPED = """
import functools
def dec(f):
    @functools.wraps(f)
    def w(rng, data): return {0} * f(rng, data)
    return w
"""
ARRAY = "import numpy as np\nclass V(np.ndarray):\n    def sum(self): return {0}\nW = np.ones(3).view(V)\n"
HOOK = "from base import B\nclass D(B):\n    def s(): return {0}\n"
BASE = "class B:\n    known = []\n    def __init_subclass__(cls): B.known.append(cls.s)\n"
SEEN: dict[str, tuple[Files, Files]] = {
    "the code": ({"mech.py": using("1")}, {"mech.py": using("2")}),
    "a helper of a helper": (
        {
            "mech.py": using("h.s()", "import h"),
            "h.py": "from g import t\ndef s(): return t()",
            "g.py": "def t(): return 1",
        },
        {"g.py": "def t(): return 2"},
    ),
    "a default": (
        {"mech.py": "def mech(rng, data, *, s=1.0):\n    return rng.laplace(scale=s)"},
        {"mech.py": "def mech(rng, data, *, s=2.0):\n    return rng.laplace(scale=s)"},
    ),
    "a global": ({"mech.py": using("S", "S = 1")}, {"mech.py": using("S", "S = 2")}),
    "a part of a table": (
        {"mech.py": using("T['a'][0]", "T = {'a': [1, {'b': 1}]}")},
        {"mech.py": using("T['a'][0]", "T = {'a': [1, {'b': 2}]}")},
    ),
    "an attribute of a module": ({"mech.py": using("h.S", "import h"), "h.py": "S = 1"}, {"h.py": "S = 2"}),
    "one of a package": (
        {"mech.py": using("p.q.r.S", "import p.q.r"), "p/__init__.py": "", "p/q/__init__.py": "", "p/q/r.py": "S = 1"},
        {"p/q/r.py": "S = 2"},
    ),
    "a class attribute": (
        {"mech.py": using("N.add()", "from h import Noise\nN = Noise()"), "h.py": NOISE.format(1, "")},
        {"h.py": NOISE.format(2, "")},
    ),
    "a method": (
        {"mech.py": using("N.add()", "from h import Noise\nN = Noise()"), "h.py": NOISE.format(1, "")},
        {"h.py": NOISE.format(1, "/2")},
    ),
    "a base class": (
        {"mech.py": using("D().add()", "from h import Noise\nclass D(Noise): pass"), "h.py": NOISE.format(1, "")},
        {"h.py": NOISE.format(2, "")},
    ),
    "a metaclass": ({"mech.py": using("K.a", "from h import K"), "h.py": META.format(1)}, {"h.py": META.format(2)}),
    "an enumeration": (
        {"mech.py": using("K.A.value", "from h import K"), "h.py": "from enum import Enum\nclass K(Enum): A = 1"},
        {"h.py": "from enum import Enum\nclass K(Enum): A = 2"},
    ),
    "a slot": (
        {"mech.py": using("k.s", "from h import k"), "h.py": "class K: __slots__ = ('s',)\nk = K(); k.s = 1"},
        {"h.py": "class K: __slots__ = ('s',)\nk = K(); k.s = 2"},
    ),
    "a subclass elsewhere": (
        {"mech.py": using("B.known[0]()", "from base import B\nimport h"), "base.py": BASE, "h.py": HOOK.format(1)},
        {"h.py": HOOK.format(2)},
    ),
    "a closure": (
        {"mech.py": "def make(s):\n    return lambda rng, data: rng.laplace(scale=s)\nmech = make(1)"},
        {"mech.py": "def make(s):\n    return lambda rng, data: rng.laplace(scale=s)\nmech = make(2)"},
    ),
    "a decorator": (
        {"mech.py": f"from h import dec\n@dec\n{BODY.format(1)}", "h.py": WRAPPED.format(1)},
        {"h.py": WRAPPED.format(2)},
    ),
    "a cached function": (
        {"mech.py": using("g()", "from h import g"), "h.py": "import functools\n@functools.cache\ndef g(): return 1"},
        {"h.py": "import functools\n@functools.cache\ndef g(): return 2"},
    ),
    "a generic function": (
        {"mech.py": using("c(1)", "from h import c"), "h.py": DISPATCH.format(1)},
        {"h.py": DISPATCH.format(2)},
    ),
    "a vectorized function": (
        {"mech.py": using("u(1)", "import numpy as np, h\nu = np.vectorize(h.g)"), "h.py": "def g(x): return x"},
        {"h.py": "def g(x): return 2 * x"},
    ),
    "the class of an array": (
        {"mech.py": using("W.sum()", "from h import W"), "h.py": ARRAY.format(1)},
        {"h.py": ARRAY.format(2)},
    ),
    "the end of a long pattern": (
        {"mech.py": using("len(P.pattern)", "import re\nP = re.compile('a' * 300 + '1')")},
        {"mech.py": using("len(P.pattern)", "import re\nP = re.compile('a' * 300 + '2')")},
    ),
    "a data file that is read when the module is": (
        {"mech.py": using("S", "from pathlib import Path\nS = float(Path('s.txt').read_text())"), "s.txt": "1"},
        {"s.txt": "2"},
    ),
    "a replaced function of a library": (
        {"mech.py": using("json.dumps(1)", "import json, h"), "h.py": ""},
        {"h.py": "import json\njson.dumps = lambda x: 2"},
    ),
    "the line, which verdicts name": ({"mech.py": using("1")}, {"mech.py": "\n" + using("1")}),
}


@pytest.mark.parametrize("change", SEEN)
def test_what_changes_the_behaviour_changes_the_digest(
    own_folder: Path, no_bytecode: None, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    import json

    monkeypatch.setattr(json, "dumps", json.dumps)  # put back what one of the cases replaces
    before, after = SEEN[change]
    first = digest_of(before, own_folder)
    assert digest_of(before, own_folder) == first
    assert digest_of(after, own_folder) != first


UNSEEN: dict[str, Files] = {
    "uses open": {"mech.py": using("float(open('s.txt').read())")},
    "pathlib": {"mech.py": using("F.stat().st_size", "from pathlib import Path\nF = Path('s.txt')")},
    "loadtxt": {"mech.py": using("np.loadtxt('s.txt')", "import numpy as np")},
    "of os": {"mech.py": using("os.getenv('S')", "import os")},
    "_Environ": {"mech.py": using("environ['S']", "from os import environ")},
    "of time": {"mech.py": using("time.time()", "import time")},
    "of datetime": {"mech.py": using("date.today().day", "from datetime import date")},
    "of subprocess": {"mech.py": using("run(['ls']).returncode", "from subprocess import run")},
    "uses eval": {"mech.py": using("eval('S')", "S = 1")},
    "uses hash": {"mech.py": using("hash('a')")},
    "imports h when it runs": {
        "mech.py": "def mech(rng, data):\n    from h import S\n    return rng.laplace(scale=S)",
        "h.py": "S = 1",
    },
    "getattr may look into the module h": {"mech.py": using("getattr(h, 'xS'[1:])", "import h"), "h.py": "S = 1"},
    "attrgetter may look into the module h": {
        "mech.py": using("g(h)", "import h, operator\ng = operator.attrgetter('S')"),
        "h.py": "S = 1",
    },
    "format may look into the module h": {"mech.py": using("'{0.S}'.format(h)", "import h"), "h.py": "S = 1"},
    "the module h has a __getattr__": {
        "mech.py": using("h.S", "import h"),
        "h.py": "def __getattr__(name): return 1",
    },
    "compiled code": {"mech.py": using("u(1)", "import numpy as np\nu = np.frompyfunc(lambda x: x, 1, 1)")},
    "of sys": {"mech.py": using("sys.modules['h'].S", "import sys, h"), "h.py": "S = 1"},
    "query and eval of pandas": {
        "mech.py": using("F.query('a > @S').size", "import pandas as pd\nS = 1\nF = pd.DataFrame()")
    },
}


@pytest.mark.parametrize("reason", UNSEEN)
def test_what_could_change_unseen_has_no_digest(own_folder: Path, no_bytecode: None, reason: str) -> None:
    with pytest.raises(NoDigest, match=reason):
        digest_of(UNSEEN[reason], own_folder)


def test_a_program_has_no_digest() -> None:
    with pytest.raises(NoDigest, match="Command"):
        mechanism_digest(load("command:cat").function, {})


def test_settings_and_versions_count(own_folder: Path, no_bytecode: None, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"mech.py": using("1")}
    found = [digest_of(files, own_folder, {"alpha": alpha}) for alpha in (0.05, 0.05, 0.01)]
    with monkeypatch.context() as patched:
        patched.setattr(code_digest, "_installed", lambda: ("numpy-9.9.dist-info",))
        found.append(digest_of(files, own_folder, {"alpha": 0.05}))
    monkeypatch.setattr(code_digest, "_source_of_veridp", lambda: b"another veridp")
    found.append(digest_of(files, own_folder, {"alpha": 0.05}))
    assert found[0] == found[1]
    assert len(set(found)) == 4


def test_processes_agree(own_folder: Path) -> None:
    files = {"mech.py": using("T['a'] + len(S)", "import numpy as np\nT = {'a': 1}\nS = {'x', 'y', 'z', 1.5}")}
    here = digest_of(files, own_folder)
    program = (
        "from veridp.audit.code_digest import mechanism_digest as d\nfrom veridp.target import load\n"
        "print(d(load('mech.py:mech').function, {}))"
    )
    there = subprocess.run(  # noqa: S603
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        timeout=500,
        check=True,
    )
    assert there.stdout.strip() == here
