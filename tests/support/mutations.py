"""Wild inputs by a seeded generator: values, texts, results files; and what their output may hold."""

from __future__ import annotations

import json
import os
import random
import re
import resource
import time
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html.parser import HTMLParser

from fuzzing import ODD, of_study, whole

from cudalab.base.text import UNSAFE
from cudalab.results import formats

SEED = int(os.environ.get("CUDALAB_FUZZ_SEED", "0"))
MANY = float(os.environ.get("CUDALAB_FUZZ_TIMES", "0.1"))  # the share of the inputs that is tried
SECONDS = 20.0  # of this process's own time that one input may take; the first ones import libraries
GROWTH = 5 << 29  # bytes by which the peak of this process's memory may grow in one file: `inspect` draws 1 GiB


STRINGS = [
    *ODD, "\x1b]0;title\x07", "\r", "\t", "\u202eRTL", "\u2066x", "\u2028", "\ufeff", "\U000e0041", "e\u0301" * 9,
    "<script>hacked()</script>", "</style><img src=x onerror=hacked()>", "']]>\"--><svg/onload=hacked()>", "{{7*7}}",
    "{% x %}", "&lt;b&gt;", "a|b|c", "**b** _i_ `c`", "[x](javascript:alert(1))", "![x](http://x/y)", "# h", "---",
    "\\", "~~s~~", "=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(A1)", "\t=1", "'=1", "''", "a,b;c", "../../etc/passwd",
    "x" * 300, "y " * 2000, "a" * 20_000, "None",
]  # fmt: skip
NUMBERS = [
    0, -1, 1, 2, 255, 2**31, 2**53 + 1, 2**62, 2**63, 2**64, -(2**63), 10**30, 10**400, 0.0, -0.0, 0.5, 1e-15, 1e-12,
    1e12, 5e-324, 1e-300, 1e300, 1e308, float("nan"), float("inf"), float("-inf"), True, False, None,
]  # fmt: skip
RUNS = [whole(), whole("cpu"), whole("cpu", timed=False), of_study(), of_study("another")]
TEXTS = [run.to_json().decode() for run in RUNS]
OTHERS = [formats.encoded(run, form) for run in RUNS for form in ("jsonl", "csv")]
FREE = {  # fields whose text may be anything
    "kernel", "size", "dtype", "backend", "variant", "reason", "name", "no_gpu", "created", "commit", "worst",
    "message",
}  # fmt: skip


def attempt(group: str, count: int, one: Callable[[random.Random, int], object], part: int = 0, parts: int = 1) -> None:
    """Call `one` for `count` inputs of a group, each with a generator of its own, a number and a limit of time.

    Of several parts only that one is tried: every `parts`-th input, from number `part` on.
    """
    for i in range(part, max(int(count * MANY), parts), parts):
        start = time.process_time()
        try:
            one(random.Random(f"{group} {i} {SEED}"), i)
        except Exception as error:
            raise AssertionError(f"input {i} of {group}, seed {SEED}: {type(error).__name__}: {error}") from error
        taken = time.process_time() - start
        assert taken < SECONDS, f"input {i} of {group} took {taken:.1f} s"


@contextmanager
def bounded() -> Iterator[None]:
    """Fail if the process's memory grows by more than GROWTH in the block."""
    before = _peak()
    yield
    assert _peak() - before < GROWTH, f"memory grew from {before:,} to {_peak():,} bytes"


def _peak() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def text(rng: random.Random) -> str:
    if rng.random() < 0.8:
        return rng.choice(STRINGS)
    return "".join(chr(rng.choice([rng.randrange(1, 256), rng.randrange(0x110000)])) for _ in range(rng.randrange(12)))


def anything(rng: random.Random, depth: int = 0) -> object:
    kind = rng.randrange(8 if depth < 4 else 4)
    if kind < 2:
        return text(rng)
    if kind < 4:
        return rng.choice(NUMBERS)
    if kind == 4:
        return [anything(rng, depth + 1) for _ in range(rng.randrange(4))]
    if kind == 5:
        return {text(rng): anything(rng, depth + 1) for _ in range(rng.randrange(4))}
    if kind == 6:
        deep: object = []
        for _ in range(rng.choice([3, 50, 300])):
            deep = [deep]
        return deep
    return [rng.choice(NUMBERS)] * rng.choice([0, 1, 1000])


def _places(tree, path=()):
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from _places(value, (*path, key))


PLACES = [list(_places(json.loads(held))) for held in TEXTS]
WORDS = [
    [path for path in places if path[-1] in FREE or (path[0] in ("options", "sources") and len(path) > 1)]
    for places in PLACES
]
TIMES = [[path for path in places if "times" in path and isinstance(path[-1], int)] for places in PLACES]


def mutated(rng: random.Random) -> bytes:
    """The JSON of a run with a few values replaced, missing, added or of another version."""
    which = rng.randrange(len(TEXTS))
    tree = json.loads(TEXTS[which])
    for _ in range(rng.choice([1, 1, 2, 3, 8])):
        path = rng.choice(PLACES[which])
        at, how = _at(tree, path), rng.randrange(6)
        if at is None:
            continue
        key = path[-1]
        if how == 0:
            del at[key]
        elif how == 1:
            at.insert(key, anything(rng)) if isinstance(at, list) else at.update({text(rng): anything(rng)})
        elif how == 2 and isinstance(at[key], (int, float)):
            at[key] = rng.choice(NUMBERS)
        elif how == 3:
            at[key] = text(rng)
        else:
            at[key] = anything(rng)
    if rng.random() < 0.1:
        tree["version"] = rng.choice([1, 2, 3, 4, 5, 6, 7, 0, -1, 10**9, "6", None, 6.0])
    return json.dumps(tree).encode("utf-8", "surrogatepass")


def _valid(rng: random.Random) -> str:
    """A text that UTF-8 can hold."""
    return text(rng).encode("utf-8", "replace").decode()


def wild(rng: random.Random, fewer: bool = False, timed: bool = True) -> bytes:
    """The JSON of a run that is valid and as odd as it can be; `fewer`: of two cases."""
    which = rng.randrange(len(TEXTS))
    tree = json.loads(TEXTS[which])
    for path in rng.sample(WORDS[which], min(len(WORDS[which]), rng.choice([1, 3, 10, 30]))):
        if (at := _at(tree, path)) is not None:
            at[path[-1]] = _valid(rng)
    for path in rng.sample(TIMES[which], min(len(TIMES[which]), rng.choice([0, 1, 10]))):
        if (at := _at(tree, path)) is not None:
            number = rng.choice([1e-15, 1e-12, 1e-9, 1e-6, 1.0, 1e12])
            at[path[-1]] = number if isinstance(at[path[-1]], float) else [number] * rng.choice([1, 2, 30])
    for case in tree["cases"]:
        if rng.random() < 0.3:
            case["status"] = rng.choice(["ok", "WRONG", "error", "skipped", "IMPOSSIBLE", "ceiling"])
        if rng.random() < 0.2:
            case["notes"] = [_valid(rng) for _ in range(rng.randrange(3))]
        if rng.random() < 0.2:
            name = _valid(rng)
            field = rng.choice(["cross", "costs", "quantities", "condition", "times", "parameters"])
            number = rng.choice([-1e30, 1e-30, 0.5, 1e30])
            case.setdefault(field, {})[name] = {"times": [[1e-6]], "parameters": 2**62}.get(field, number)
        if rng.random() < 0.1:
            case["shape"] = rng.choice([[], [0], [2**62], [1] * 40, [2**62, 2**62]])
        if rng.random() < 0.2:
            case["nbytes"] = rng.choice([0, 1, 2**62])
        if not timed:
            case["times"] = {}
    if fewer:
        rng.shuffle(tree["cases"])
        del tree["cases"][2:]
    tree["machine"]["details"] |= {_valid(rng): rng.choice([0, 2**62, -1.5, "x", _valid(rng)])}
    return json.dumps(tree).encode()


def _at(tree, path):
    """The list or dict that holds the end of the path, or None if an earlier change has taken it away."""
    try:
        for key in path[:-1]:
            tree = tree[key]
        tree[path[-1]]
    except (KeyError, IndexError, TypeError):
        return None
    return tree if isinstance(tree, (dict, list)) else None


TOKENS = [b"[", b"{", b'"', b"\n", b",", b"[" * 3000, b"]", b"null", b"NaN", b"-", b"9" * 400]


def bytewise(rng: random.Random) -> bytes:
    """The bytes of a run in any format, with a few replaced, removed, inserted or doubled."""
    data = bytearray(rng.choice(OTHERS) if rng.random() < 0.5 else rng.choice(TEXTS).encode())
    for _ in range(rng.choice([1, 1, 3, 20])):
        at, how = rng.randrange(len(data) + 1), rng.randrange(6)
        if how == 0:
            data[at : at + 1] = bytes([rng.randrange(256)])
        elif how == 1:
            del data[at : at + rng.choice([1, 10, 10_000])]
        elif how == 2:
            data[at:at] = text(rng).encode("utf-8", "surrogatepass")
        elif how == 3:
            data[at:at] = rng.choice(TOKENS)
        elif how == 4:
            data[at:at] = data[at : at + rng.randrange(200)]
        elif rng.random() < 0.2:
            del data[at:]
    return bytes(data)


def clean(shown: str, keep: str = "\n", said: str = "") -> None:
    """Fail if a text has a character that a terminal obeys."""
    if shown.isascii() and shown.replace("\n", "").isprintable():
        return
    bad = {c for c in shown if c not in keep and unicodedata.category(c) in UNSAFE}
    assert not bad, (bad, said)


SAFE = {
    "html", "head", "meta", "title", "link", "style", "body", "a", "header", "div", "p", "button", "h1", "h2", "h3",
    "h4", "main", "section", "ul", "li", "strong", "small", "details", "summary", "b", "span", "form", "label",
    "select", "svg", "g", "path", "circle", "text", "code", "table", "caption", "thead", "tbody", "tr", "th", "td",
    "figure", "figcaption", "input", "textarea", "dl", "dt", "dd", "script", "i", "em", "option",
}  # fmt: skip


class Page(HTMLParser):
    """Fails on an element, attribute or script that is not the page's own."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.scripts, self.texts = 0, []

    def handle_starttag(self, tag, attrs):
        assert tag in SAFE, tag
        self.scripts += tag in ("script", "style")
        if tag == "path":
            assert re.fullmatch(r"[-MLHVhvZ\d.,e+]+", dict(attrs)["d"]), attrs
        for name, value in attrs:
            assert not name.startswith("on"), (tag, attrs)
            assert re.fullmatch(r"[a-z][a-z0-9-]*", name), (tag, attrs)
            assert name not in ("src", "srcset", "action", "formaction"), (tag, attrs)
            if name == "href":
                assert value.startswith("#") or value == "data:,", value

    def handle_comment(self, data):
        raise AssertionError(f"a comment: {data[:100]}")

    def handle_data(self, data):
        clean(data, keep="\n\t")


def checked_page(page: str) -> None:
    parser = Page()
    parser.feed(page)
    parser.close()
    assert parser.scripts == 2
