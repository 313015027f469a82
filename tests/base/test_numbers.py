"""One rule for digits: a number has as many as its interval supports."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tables import table

from cudalab.base import numbers
from cudalab.base.stats import Ratio


@pytest.mark.parametrize(("value", "width", "text"), table("numbers", "medians", float, float, str))
def test_a_median_has_the_digits_that_its_interval_supports(value, width, text):
    assert numbers.supported(value, width) == text
    printed = float(text.replace(",", ""))
    assert abs(printed - value) <= value * min(width, 1) / 2 + 1e-12


def test_what_is_derived_has_at_most_three():
    assert numbers.supported(4326.4, 1e-5, numbers.DERIVED) == "4,330"
    assert numbers.percent(Ratio(0.9962, 0.9960, 0.9964)) == "99.6"
    assert numbers.percent(Ratio(0.9962, 0.95, 1.04)) == "100"
    assert numbers.percent(Ratio(0.5, 0.1, 2)) == "?"


@pytest.mark.parametrize(("interval", "value", "ends"), table("numbers", "ratios"))
def test_a_ratio_and_the_ends_of_its_interval(interval, value, ends):
    ratio = Ratio(*map(float, interval.split()))
    assert numbers.ratio(ratio) == value
    assert numbers.ends(ratio.low, ratio.high) == ends
    assert numbers.with_ends(ratio) == (f"{value} ({ends})" if ends != "?" else "?")
    assert numbers.with_ends(replace(ratio, disturbed=True)) == "?"


@pytest.mark.parametrize("width", [0.001, 0.003, 0.01, 0.07, 0.3])
def test_two_ends_that_differ_are_not_printed_alike(width):
    low, high = numbers.ends(1.3, 1.3 + width).split(" to ")
    assert low != high


def test_all_results_are_all_of_them():
    assert [numbers.of_all(share) for share in (1.0, 0.999999, 0.95942)] == ["100 %", "99.99 %", "95.94 %"]


def test_a_number_above_a_limit_has_the_digits_that_say_so():
    assert [numbers.above(v, 4) for v in (4.5, 4.03, 4.0000001, 4.0, 3.0)] == ["4.5", "4.03", "4.0000001", "4", "3"]
    assert numbers.above(4.0 + 1e-15, 4) == "4+"


def test_more_than_half_a_ulp_is_told_from_half_of_one():
    assert [numbers.ulp(e, 4) for e in (3.0, 4.0, 4.003, 4.2, 1e9)] == ["3", "4", "4.003", "4.2", "1e+09"]
    errors = (0.25, 0.5, 0.5000001, 0.5003, 0.5049, 0.51, 9.96, 1e9)
    assert [numbers.ulp(e) for e in errors] == ["0.25", "0.5", "0.5000001", "0.5003", "0.505", "0.51", "10", "1e+09"]
