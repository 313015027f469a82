"""`cudalab check` catches planted bugs (tests/data/*/*.bugs), and finds nothing in the right kernels."""

from __future__ import annotations

import planted
import pytest

import cudalab
from cudalab import host
from cudalab.tools.sanitize import Sanitizer

pytestmark = pytest.mark.skipif(host.compiler_missing() is not None, reason="no C++ compiler")
BUGS = {kernel: planted.bugs(kernel) for kernel in planted.FILES}
EVERY = [bug for some in BUGS.values() for bug in some]
LEAST = 0.95
# Constants; two launches over a workspace; two entries, and macros; arrays in place.
QUICK = ("kernels/constants", "kernels/two_pass_sum", "outside/tiled_transpose", "kernels/adamw")


def test_there_are_enough():
    assert len(BUGS) >= 65 and len(EVERY) >= 360
    assert sum(bool(bug.missed) for bug in EVERY) <= (1 - LEAST) * len(EVERY)
    assert {bug.only for bug in EVERY} == {"", "--huge", "--sanitize"}
    for bug in EVERY:
        assert bug.cu != planted.FILES[bug.kernel].with_suffix(".cu").read_text(), bug


@pytest.mark.parametrize("kernel", QUICK)
def test_a_few_bugs_are_caught(kernel, tmp_path):
    found = planted.check(planted.write(kernel, tmp_path, BUGS[kernel][:2], right=False))
    assert len(found) == 2 and all(found.values()), found


@pytest.mark.sweep
@pytest.mark.skipif("not planted.finds_races()", reason="no g++ that finds races")
@pytest.mark.parametrize("kernel", BUGS)
def test_bugs_are_caught_and_the_right_kernel_is_not(kernel, tmp_path):
    missed, alarms = planted.look(kernel, tmp_path, BUGS[kernel])
    assert not alarms
    assert not [str(bug) for bug in missed if not bug.missed and bug.only != "--sanitize"]


@pytest.mark.process
@pytest.mark.sweep
@pytest.mark.parametrize("bug", [bug for bug in EVERY if bug.only == "--sanitize"], ids=str)
def test_the_sanitizers_find_more(bug, tmp_path):
    spec = planted.write(bug.kernel, tmp_path, [bug])
    run = cudalab.check(str(spec), only="host", device="cpu", sizes="small", sanitizer=Sanitizer)
    found = {case.variant.partition("::")[0]: case.status for case in run.cases}
    assert found == {planted.RIGHT: "ok", bug.space: "WRONG"}
