"""Which lengths dims= leaves to a dimension: the grammar, what breaks it, what may be chosen."""

from __future__ import annotations

import re

import pytest

from cudalab.spec import allowed

AT = {"rows": (6,), "cols": (64,), "k": (12,)}
TUNABLES = {"TILE": (64, 96), "PACK": (4,)}


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("multiple of 8, at most 4096", (("multiple of", ("8",)), ("at most", ("4096",)))),
        ("at least 1 and at most 2*cols-1", (("at least", ("1",)), ("at most", ("2*cols-1",)))),
        ("one of 64, 128 or 256, at most cols", (("one of", ("64", "128", "256")), ("at most", ("cols",)))),
        ("power of 2", (("power of", ("2",)),)),
        (" divisor of cols ", (("divisor of", ("cols",)),)),
    ],
)
def test_a_text_is_rules_with_commas_between(text, want):
    assert allowed.rules(text) == want and allowed.fits(text)


@pytest.mark.parametrize(
    "text",
    ["", "8", "multple of 8", "multiple of", "at most 4 096", "power of 3", "at most 1.5", "one of", "at most ...",
     "at most f(x)", "multiple of 8; at most 2", "at most 4, ", None, 8],
)  # fmt: skip
def test_other_texts_are_refused(text):
    assert not allowed.fits(text)


@pytest.mark.parametrize(
    ("text", "right", "wrong", "said"),
    [
        ("multiple of 8", (0, 8, 64), (1, 12), "12, but dims says 'multiple of 8'; give 8 or 16"),
        ("multiple of k", (12, 24), (13,), "13, but dims says 'multiple of k', where k is 12; give 12 or 24"),
        ("divisor of cols", (1, 32, 64), (0, 3, 128), "3, but dims says 'divisor of cols', where cols is 64; give 2 o"),
        ("at least 2, at most cols", (2, 64), (1, 65), "65, but dims says 'at least 2, at most cols', where .*give 64"),
        ("one of 32, 64", (32, 64), (0, 48), "48, but dims says 'one of 32, 64'; give 32 or 64"),
        ("power of 2", (1, 2, 64), (0, 3), "3, but dims says 'power of 2'; give 2 or 4"),
        ("at least 3, at most 1", (), (2,), r"2, but dims says 'at least 3, at most 1'$"),
        ("multiple of TILE", (0, 192), (64, 96), "96, but .* 'multiple of TILE', where TILE is 64 or 96; give 192"),
        ("at most PACK*TILE", (256,), (257, 384), "384, .*, where PACK is 4, where TILE is 64 or 96; give 256"),
    ],
)
def test_a_length_that_a_rule_breaks_is_named_with_lengths_that_fit(text, right, wrong, said):
    for n in right:
        assert allowed.unfit({"rows": text}, AT | {"rows": (n,)}, TUNABLES) == ""
    found = [allowed.unfit({"rows": text}, AT | {"rows": (n,)}, TUNABLES) for n in wrong]
    assert all(one.startswith(f"rows is {n}, ") for n, one in zip(wrong, found, strict=True))
    assert re.search(said, found[-1] if text != "divisor of cols" else found[1])


@pytest.mark.parametrize(
    ("dims", "name", "first", "last"),
    [
        ({"rows": "multiple of 8, at most 30"}, "rows", [0, 8, 16], 24),
        ({"rows": "multiple of 8, multiple of 12, at least 25, at most 100"}, "rows", [48, 72, 96], 96),
        ({"rows": "power of 2, at least 3"}, "rows", [4, 8, 16], allowed.MOST),
        ({"rows": "divisor of k, at most 6"}, "rows", [1, 2, 3], 6),
        ({"rows": "one of 128, 64, 100, multiple of 32"}, "rows", [64, 128], 128),
        ({"k": "at most cols"}, "cols", [12, 13, 14], allowed.MOST),  # what the rules of others are about it
        ({"k": "divisor of cols"}, "cols", [0, 12, 24], allowed.MOST // 12 * 12),
        ({"cols": "multiple of k, at least rows"}, "k", [1, 2, 4], 64),
        ({"rows": "multiple of TILE, at most 9*TILE"}, "rows", [0, 192, 384], 576),
    ],
)
def test_the_lengths_to_choose_from(dims, name, first, last):
    found = allowed.choices(dims, name, AT, TUNABLES)
    assert list(found[:3]) == first and found[-1] == last
    if last < allowed.MOST // 100:
        assert all(allowed.unfit(dims, AT | {name: (n,)}, TUNABLES) == "" for n in found)


def test_a_dimension_without_rules_may_have_any_length():
    assert allowed.choices({"rows": "at most 8"}, "cols", AT) is None
