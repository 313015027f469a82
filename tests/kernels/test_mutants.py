"""The gate rejects mutants of a kernel's own source; `make mutants` tests all of them.

Here: the rules for mutants, and verdicts on a few chosen by hand and on a seeded sample of the others.
"""

from __future__ import annotations

import importlib
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner

from cudalab.base.errors import SpecError
from cudalab.spec import cuda_source, find

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))  # as for a script in that folder
script = importlib.import_module("mutants")
equivalent, gate, rules, sampling = (
    importlib.import_module(f"mutation.{name}") for name in ("equivalent", "gate", "rules", "sample")
)

SECONDS = (20.0,)  # of processor time: many times what any of these takes
KERNELS = list(find.kernels())
DRAWN = ["gelu_tanh", "matmul", "transpose"]  # a few seconds each; others have mutants by hand

TINY = """\
// if (a < b) return a + 1;
#include <x<1>.h>
__global__ void __launch_bounds__(128) f(const float* x, float* y, int n) { /* n - 1 */
    int i = threadIdx.x;
    printf("%d + 1 < 2", i);
    if (i < n) y[i] = 2.0f * x[i];
    __syncthreads();
}
"""
OF_TINY = [
    (4, 13, "index", "threadIdx", "blockIdx"),
    (4, 23, "index", "x", "y"),
    (5, 5, "statement", 'printf("%d + 1 < 2", i);', ";"),
    (5, 26, "name", "i", "n"),
    (6, 9, "name", "i", "n"),
    (6, 9, "guard", "i < n", "false"),
    (6, 9, "guard", "i < n", "true"),
    (6, 11, "relation", "<", "<="),
    (6, 13, "name", "n", "i"),
    (6, 14, "bound", "", " - 1"),
    (6, 16, "statement", "y[i] = 2.0f * x[i];", ";"),
    (6, 18, "name", "i", "n"),
    (6, 23, "constant", "2.0f", "(-2.0f)"),
    (6, 23, "constant", "2.0f", "2.002f"),
    (6, 28, "arithmetic", "*", "/"),
    (6, 32, "name", "i", "n"),
    (7, 5, "statement", "__syncthreads();", ";"),
]

# For each outcome that a kernel can bring about, one or two. tests/checks/test_planted.py says that edits are WRONG.
BY_HAND = {
    ("plus_one", "another sum"): ("x[i] + 1", "x[i] + 2", "wrong"),
    ("plus_one", "no bound"): ("if (i < n) y[i]", "y[i]", "overrun"),
    ("plus_one", "packs that overlap"): ("threadIdx.x) * Pack::width", "threadIdx.x) * (Pack::width - 1)", "failed"),
    ("plus_one", "beyond a pack"): ("k < Pack::width; ++k", "k <= Pack::width; ++k", "sanitizer"),
    ("plus_one", "no end"): ("if (i < n)", "while (i < n)", "timed out"),
    ("plus_one", "a null pointer"): ("if (i < n) y[i]", "if (i < n) *(volatile int*)0 = 0, y[i]", "failed"),
    ("plus_one", "no C++"): ("if (i < n)", "if (i < m)", "invalid"),
    ("gelu", "in place"): ("y[p * stride] = packs[p]", "((Pack*)x)[p * stride] = packs[p]", "overrun"),  # in a header
}


def mutated(kernel, old, new):
    """The text with the change, the original, and the file that it is in, as `gate.judge` takes them."""
    cu = find.kernel(kernel).cu
    for path in (cu, *cuda_source.local_headers(cu.read_text(), cu)):
        if old in (text := path.read_text()):
            return text.replace(old, new), text, "" if path == cu else str(path.relative_to(cu.parent))
    raise AssertionError(f"no file of {kernel} has {old!r}")


@cache
def made(kernel):
    return rules.mutants_of(find.kernel(kernel).cu)


def drawn(kernel):
    return random.Random(kernel).choice(made(kernel))


@pytest.fixture(scope="module")
def verdicts(request):
    """Verdicts of all mutants that a test asks for, a few of them at work at once."""
    using = [item for item in request.session.items if item.path == request.path and "verdicts" in item.fixturenames]
    asked = {item.name.partition("[")[2] for item in using}
    with ThreadPoolExecutor(script.CORES) as pool:
        found = {}
        for (kernel, what), change in BY_HAND.items():
            if f"{kernel}-{what}]" not in asked:
                continue
            limits = (1.0,) if what == "no end" else SECONDS
            text, twin, file = mutated(kernel, *change[:2])
            found[kernel, what] = pool.submit(gate.judge, find.kernel(kernel), text, limits, twin, file)
        for kernel in [name for name in DRAWN if f"{name}]" in asked]:
            m = drawn(kernel)
            twin = m.twin if script.why(kernel, m) is None else None
            found[kernel, "drawn"] = pool.submit(gate.judge, find.kernel(kernel), m.text, SECONDS, twin, m.file)
        yield found


def test_the_mutants_of_a_tiny_source():
    found = rules.mutants(TINY)
    assert [(m.line, m.column, m.rule, m.old, m.new) for m in found] == OF_TINY
    bound = next(m for m in found if m.rule == "bound")
    assert str(bound) == "6:14 bound: if (i < n) y[i] = 2.0f * x[i];  ->  if (i < n - 1) y[i] = 2.0f * x[i];"
    assert bound.text == TINY.replace("i < n)", "i < n - 1)")
    text = '// a + 1\n#include "b+1.h"\n/* c < 2 */ const char* s = "d * 2";\n__launch_bounds__(2 * 64) void f() {}\n'
    assert rules.mutants(text) == []


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_has_at_least_40_mutants_no_two_the_same_and_twins_with_all_else_at_its_place(name):
    found, folder = made(name), find.kernel(name).cu.parent
    assert len({m.text for m in found}) == len({m.key for m in found}) == len(found) >= 40
    assert found == rules.mutants_of(find.kernel(name).cu)
    for m in found:
        text = (folder / (m.file or f"{name}.cu")).read_text()
        assert "".join(m.twin.split()) == "".join(text.split()) != "".join(m.text.split())
        assert [len(line) for line in m.twin.split("\n")] == [len(line) for line in m.text.split("\n")], m


@pytest.mark.parametrize("name", list(equivalent.EQUIVALENT))
def test_every_documented_equivalent_is_a_mutant_and_has_a_reason(name):
    documented = equivalent.EQUIVALENT[name]
    assert set(documented) <= {m.key for m in made(name)}
    assert all(len(reason) > 20 for reason in documented.values())


@pytest.mark.sweep
@pytest.mark.parametrize(("kernel", "what"), BY_HAND)
def test_a_mutant_made_by_hand_is_found_out(verdicts, kernel, what):
    verdict = verdicts[kernel, what].result()
    assert verdict.outcome == BY_HAND[kernel, what][2], verdict


@pytest.mark.sweep
def test_the_same_machine_code_is_known(tmp_path):
    spec = gate._copy(find.kernel("plus_one"), tmp_path)
    kernel = find.kernel(str(spec))
    for old, new, same in (("WIDE = 16 /", "WIDE = 17 /", True), ("<= n", "<  n", False)):
        text, _, file = mutated("plus_one", old, new)
        place = tmp_path / (file or "plus_one.cu")
        before = place.read_text()
        assert gate.same_code(kernel, place, text) == same
        assert place.read_text() == before


@pytest.mark.sweep
@pytest.mark.parametrize("kernel", DRAWN)
def test_a_mutant_made_by_rule_is_killed_or_explained(verdicts, kernel):
    mutant, verdict = drawn(kernel), verdicts[kernel, "drawn"].result()
    assert verdict.outcome != "survived" or script.explained(kernel, mutant, verdict), f"{mutant}: {verdict}"


@pytest.mark.parametrize("name", KERNELS)
def test_a_sample_is_spread_over_rules_and_lines(name):
    found = made(name)
    some, more = (sampling.sample(found, n, "seed") for n in (60, 80))
    assert some == sampling.sample(found, 60, "seed") != sampling.sample(found, 60, "other")
    assert len(some) == 60 and [m for m in more if m in some] == some
    for rule in {m.rule for m in found}:
        lines = [(m.file, m.line) for m in found if m.rule == rule]
        share = [(m.file, m.line) for m in some if m.rule == rule]
        due = 60 * len(lines) / len(found)
        assert due - 2 < len(share) < due + 2
        middle = sorted(lines)[len(lines) // 2]
        assert abs(sum(line < middle for line in share) - 60 * sum(line < middle for line in lines) / len(found)) < 2
    assert sampling.sample(found, 10_000, "seed") == found


GONE = {("", "if (n < i)", "if (n <= i)", 0): "the same answers, for some reason"}


@pytest.mark.parametrize(
    ("outcomes", "documented", "also", "code", "said"),
    [
        (["wrong", "survived", "invalid", "crashed", gate.Verdict("survived", gate.SAME)], [1], {}, 0, ""),
        (["wrong", "survived"], [], {}, 1, "UNEXPLAINED"),
        (["wrong", "overrun"], [1], {}, 1, "is killed (overrun)"),  # its reason is out of date
        (["wrong"], [], GONE, 1, "if (n < i)  ->  if (n <= i)  is no mutant any more"),
        (["wrong"], [1], {}, 0, ""),  # a reason for what is not tried
    ],
    ids=["documented", "unexplained", "killed", "no mutant", "not tried"],
)
def test_the_score_and_what_is_out_of_date(monkeypatch, outcomes, documented, also, code, said):
    """What `make mutants` prints and its exit code, if the first mutants of plus_one get these verdicts."""
    found = made("plus_one")
    lines = {found[i].key: "the same answers, for some reason" for i in documented}
    monkeypatch.setattr(script, "EQUIVALENT", {"plus_one": {**lines, **also}})
    verdicts = [o if isinstance(o, gate.Verdict) else gate.Verdict(o) for o in outcomes]
    monkeypatch.setattr(script, "judged", lambda name, kernel, found, jobs: zip(found, verdicts))
    done = CliRunner().invoke(script.main, ["plus_one", "--all"])
    assert done.exit_code == code and said in done.output, done.output
    if len(outcomes) == 5:
        numbers = dict(zip(script.HEAD[1:], map(int, done.output.split("\n")[1].split()[1:])))
        assert {k: n for k, n in numbers.items() if n} == {
            "mutants": len(found), "tried": 5, "killed": 2, "wrong": 1, "crashed": 1, "invalid": 1, "same code": 1,
            "equivalent": 1,
        }  # fmt: skip


def test_so_many_mutants_as_are_asked_for_are_tried(monkeypatch):
    def judged(name, kernel, found, jobs):
        return ((m, gate.Verdict("wrong")) for m in found)

    monkeypatch.setattr(script, "judged", judged)
    monkeypatch.setattr(script, "EQUIVALENT", {})
    for arguments, tried in (([], script.SAMPLE), (["--sample", "50"], 50), (["--all"], len(made("matmul")))):
        done = CliRunner().invoke(script.main, ["matmul", *arguments])
        assert done.exit_code == 0, done.output
        assert done.output.split("\n")[1].split()[:3] == ["matmul", str(len(made("matmul"))), str(tried)]


def test_a_kernel_that_is_wrong_itself_has_no_score(tmp_path):
    spec = gate._copy(find.kernel("plus_one"), tmp_path)
    spec.with_suffix(".cu").write_text(mutated("plus_one", "x[i] + 1", "x[i] + 2")[0])
    with pytest.raises(SpecError, match=r"does not pass itself \(wrong"):
        next(gate.judge_all(find.kernel(str(spec)), [], 1))


def test_an_unknown_kernel_is_bad_input():
    done = CliRunner().invoke(script.main, ["plus_on"])
    assert done.exit_code == 2
    assert "did you mean 'plus_one'" in done.output
