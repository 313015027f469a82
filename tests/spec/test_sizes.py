"""The grammar of --sizes: what it takes, and that it refuses the rest with a message."""

from __future__ import annotations

import random

import pytest

from cudalab.base.errors import CudalabError, InputError, NotFound
from cudalab.spec.sizes import MAX_SIZES, parse, words

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


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("smal", NotFound, "did you mean 'small'"),
        ("medium", NotFound, "known: small, xlarge"),
        ("", InputError, "cannot read size ''"),
        ("small,,xlarge", InputError, "cannot read size ''"),
        ("-5", InputError, "cannot read size '-5'"),
        ("1.5M", InputError, r"use a name, a number \(1000, 64K, 1Mi\)"),
        ("0", InputError, "has 0 elements"),
        ("4096x0", InputError, "has 0 elements"),
        ("2^240", InputError, r"between 1 and 2\^40"),
        ("1000000x1000000x1000000", InputError, r"between 1 and 2\^40"),
        ("2^[5:3]", InputError, "first <= last"),
        ("2^[1:9:0]", InputError, "step >= 1"),
        ("[1:100000]", InputError, f"more than {MAX_SIZES} sizes"),
        ("[1:100]x[1:100]", InputError, f"more than {MAX_SIZES} sizes"),
        ("2^[1:9", InputError, "cannot read size"),
        ("7,k=0", InputError, "'k=0' is a length of 0; give one between"),
        ("7,k=x", InputError, r"cannot read 'k=x'; give a number, a power or a range: k=8"),
        ("7,k=[1:30],h=[1:30]", InputError, f"more than {MAX_SIZES} sizes"),
    ],
)
def test_what_it_refuses(text, error, message):
    with pytest.raises(error, match=message):
        parse(text, NAMED)


def test_lengths_that_make_too_many_names_are_refused():
    with pytest.raises(InputError, match="asks for more than"):
        words("a=[1:300],b=[1:300]")


def test_thousands_of_random_texts_give_sizes_or_a_clear_error():
    rng = random.Random(0)
    alphabet = "0123456789^x[]:,KMGi smalxrge-.*()="
    for _ in range(5000):
        text = "".join(rng.choice(alphabet) for _ in range(rng.randrange(12)))
        try:
            shapes = parse(text, NAMED)
        except CudalabError as error:
            assert str(error)
        else:
            assert shapes
            assert all(n >= 1 for size in shapes.values() for n in size.shape)
