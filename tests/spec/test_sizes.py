"""The grammar of --sizes: what it takes, and that it refuses the rest with a message."""

from __future__ import annotations

import pytest
import specs

from cudalab.base import errors
from cudalab.base.errors import InputError
from cudalab.spec.sizes import parse, words

NAMED = {"small": (1, 3, 224, 224), "xlarge": (1024, 3, 224, 224)}


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("small", {"small": (1, 3, 224, 224)}),
        ("small,xlarge", NAMED),
        ("1000", {"1000": (1000,)}),
        ("64K, 1M", {"64k": (64_000,), "1m": (10**6,)}),
        ("4Mi", {"4mi": (4 * 2**20,)}),
        ("2^20", {"2^20": (2**20,)}),
        ("4096x4096", {"4096x4096": (4096, 4096)}),
        ("2^3x5", {"2^3x5": (8, 5)}),
        ("2^[10:14:2]", {"2^10": (1024,), "2^12": (4096,), "2^14": (16384,)}),
        ("2^[3:5]", {"2^3": (8,), "2^4": (16,), "2^5": (32,)}),
        ("[256:768:256]", {"256": (256,), "512": (512,), "768": (768,)}),
        ("2^[1:2]x[3:4]", {"2^1x3": (2, 3), "2^1x4": (2, 4), "2^2x3": (4, 3), "2^2x4": (4, 4)}),
        ("7,7,small", {"7": (7,), "small": (1, 3, 224, 224)}),
    ],
)
def test_what_it_takes(text, shapes):
    found = parse(text, NAMED)
    assert {label: size.shape for label, size in found.items()} == shapes
    assert list(found) == list(shapes)
    assert not any(size.lengths for size in found.values())


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("7x9,k=8", {"7x9,k=8": ((7, 9), {"k": 8})}),
        ("7, 9, k = 8, small", {"7,k=8": ((7,), {"k": 8}), "9,k=8": ((9,), {"k": 8}), "small": (NAMED["small"], {})}),
        ("7,k=2^[0:1],k=9", {f"7,k={n}": ((7,), {"k": k}) for n, k in (("2^0", 1), ("2^1", 2), ("9", 9))}),
        ("7,oh=[2:4:2],ow=3", {f"7,oh={n},ow=3": ((7,), {"oh": n, "ow": 3}) for n in (2, 4)}),
        ("k=1Ki", {"small,k=1ki": (NAMED["small"], {"k": 1024})}),
    ],
)
def test_lengths_belong_to_the_sizes_before_them(text, want):
    assert {label: (size.shape, dict(size.lengths)) for label, size in parse(text, NAMED).items()} == want
    assert words(text.replace(" ", ""))[-1] in (list(want)[-1], "*,k=1ki")


@pytest.mark.parametrize(("text", "said"), [line[1:] for line in specs.refusals("sizes.txt")])
def test_what_it_refuses(text, said):
    error, _, message = said.partition(": ")
    with pytest.raises(getattr(errors, error), match=specs.dotted(message)):
        parse(text, NAMED)


def test_lengths_that_make_too_many_names_are_refused():
    with pytest.raises(InputError, match="asks for more than"):
        words("a=[1:300],b=[1:300]")
