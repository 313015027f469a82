"""The gate must bite: mutants of a kernel's own source are rejected; `make mutants` does it for all of them.

Here: how mutants are made, what becomes of a few chosen by hand and of a seeded sample of the others.
"""

from __future__ import annotations

import importlib
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner

from cudalab import registry, source
from cudalab.errors import SpecError

sys.path.insert(0, str(Path(__file__).parent.parent / "bench"))  # as for a script in that folder
script = importlib.import_module("mutants")
equivalent, gate, rules = (importlib.import_module(f"mutation.{name}") for name in ("equivalent", "gate", "rules"))

SECONDS = 20.0  # of processor time: many times what any of these takes
SAMPLE = 4  # automatic mutants of each kernel
SCORED = list(equivalent.EQUIVALENT)  # the kernels whose survivors have been looked at, one by one

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

ALL = "return gelu(x, static_cast<const scalar_t*>(nullptr));"
PASS_TAIL = ("i < n && i < first + Pack::width", "i < n - 1 && i < first + Pack::width")
BY_HAND = {
    ("gelu", "zeros"): (ALL, "return 0.0f * x;", "wrong"),
    ("gelu", "a copy"): (ALL, "return x;", "wrong"),
    ("gelu", "tanh for erf"): (
        ALL,
        "return 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));",
        "wrong",
    ),
    ("gelu", "a skipped tail"): (*PASS_TAIL, "wrong"),
    ("gelu", "in place"): ("y[p * stride] = packs[p]", "((Pack*)x)[p * stride] = packs[p]", "overrun"),
    ("gelu", "no look at the alignment"): ("const bool aligned = ", "const bool aligned = true || ", "failed"),
    ("plus_one", "packs that overlap"): ("threadIdx.x) * Pack::width", "threadIdx.x) * (Pack::width - 1)", "failed"),
    ("plus_one", "no bound"): ("if (i < n) y[i]", "y[i]", "overrun"),
    ("plus_one", "beyond a pack"): ("k < Pack::width; ++k", "k <= Pack::width; ++k", "sanitizer"),
    ("plus_one", "no end"): ("if (i < n)", "while (i < n)", "timed out"),
    ("plus_one", "a null pointer"): ("if (i < n) y[i]", "if (i < n) *(volatile int*)0 = 0, y[i]", "crashed"),
    ("plus_one", "no C++"): ("if (i < n)", "if (i < m)", "invalid"),
    ("add2d", "transposed"): ("y[row * cols + col] =", "y[col * rows + row] =", "wrong"),
}


def mutated(kernel, old, new):
    text = source.read(registry.kernel(kernel).cu)
    assert old in text
    return text.replace(old, new)


def sample(kernel):
    found = rules.mutants(source.read(registry.kernel(kernel).cu))
    return random.Random(kernel).sample(found, SAMPLE)


@pytest.fixture(scope="module")
def verdicts():
    """Verdicts of all mutants of this file, a few of them at work at once.

    A documented survivor goes without the sanitizer, which takes longer than all the rest: `make mutants` has it.
    """
    with ThreadPoolExecutor(script.CORES) as pool:
        found = {}
        for (kernel, what), change in BY_HAND.items():
            seconds = 1.0 if what == "no end" else SECONDS
            text = mutated(kernel, *change[:2])
            found[kernel, what] = pool.submit(gate.judge, registry.kernel(kernel), text, seconds)
        for kernel in SCORED:
            for m in sample(kernel):
                sanitize = script.why(kernel, m) is None
                found[kernel, m] = pool.submit(gate.judge, registry.kernel(kernel), m.text, SECONDS, sanitize)
        yield found


def test_the_mutants_of_a_tiny_source():
    assert [(m.line, m.column, m.rule, m.old, m.new) for m in rules.mutants(TINY)] == OF_TINY


def test_comments_strings_and_attributes_are_left_alone():
    text = '// a + 1\n#include "b+1.h"\n/* c < 2 */ const char* s = "d * 2";\n__launch_bounds__(2 * 64) void f() {}\n'
    assert rules.mutants(text) == []


def test_a_mutant_says_where_and_what():
    mutant = next(m for m in rules.mutants(TINY) if m.rule == "bound")
    assert str(mutant) == ("6:14 bound: if (i < n) y[i] = 2.0f * x[i];  ->  if (i < n - 1) y[i] = 2.0f * x[i];")
    assert mutant.text == TINY.replace("i < n)", "i < n - 1)")


@pytest.mark.parametrize("name", list(registry.kernels()))
def test_a_kernel_has_at_least_40_mutants_no_two_the_same(name):
    text = source.read(registry.kernel(name).cu)
    found = rules.mutants(text)
    assert len(found) >= 40
    assert len({m.text for m in found} | {text}) == len(found) + 1
    assert found == rules.mutants(text)


@pytest.mark.parametrize("name", SCORED)
def test_every_documented_equivalent_is_a_mutant_and_has_a_reason(name):
    made = {(m.before, m.after) for m in rules.mutants(source.read(registry.kernel(name).cu))}
    documented = equivalent.EQUIVALENT[name]
    assert set(documented) <= made
    assert all(len(reason) > 20 for reason in documented.values())


@pytest.mark.parametrize(("kernel", "what"), list(BY_HAND))
def test_a_mutant_made_by_hand_is_found_out(verdicts, kernel, what):
    verdict = verdicts[kernel, what].result()
    assert verdict.outcome == BY_HAND[kernel, what][2], verdict


@pytest.mark.parametrize(("kernel", "index"), [(k, i) for k in SCORED for i in range(SAMPLE)])
def test_a_mutant_made_by_rule_is_killed_or_documented(verdicts, kernel, index):
    mutant = sample(kernel)[index]
    verdict = verdicts[kernel, mutant].result()
    documented = script.why(kernel, mutant)
    assert verdict.outcome == "survived" if documented else verdict.outcome in gate.KILLS, f"{mutant}: {verdict}"


def score(monkeypatch, outcomes, documented=()):
    """What `make mutants` prints and its exit code, if the first mutants of plus_one end so."""
    made = rules.mutants(source.read(registry.kernel("plus_one").cu))[: len(outcomes)]
    lines = {(made[i].before, made[i].after): "the same answers, for some reason" for i in documented}
    monkeypatch.setattr(script, "EQUIVALENT", {"plus_one": lines})
    monkeypatch.setattr(script, "judged", lambda name, kernel, jobs: zip(made, map(gate.Verdict, outcomes)))
    return CliRunner().invoke(script.main, ["plus_one"])


def test_a_documented_survivor_is_no_fault(monkeypatch):
    done = score(monkeypatch, ["wrong", "survived", "invalid", "crashed"], documented=[1])
    assert done.exit_code == 0, done.output
    numbers = dict(zip(script.HEAD[1:], map(int, done.output.split("\n")[1].split()[1:])))
    assert {k: n for k, n in numbers.items() if n} == {
        "mutants": 4, "killed": 2, "wrong": 1, "crashed": 1, "invalid": 1, "equivalent": 1,
    }  # fmt: skip


def test_an_unexplained_survivor_is_shown(monkeypatch):
    done = score(monkeypatch, ["wrong", "survived"])
    assert done.exit_code == 1
    assert "UNEXPLAINED" in done.output


def test_a_reason_for_what_is_killed_is_out_of_date(monkeypatch):
    done = score(monkeypatch, ["wrong", "overrun"], documented=[1])
    assert done.exit_code == 1
    assert "is killed (overrun)" in done.output


def test_a_kernel_that_is_wrong_itself_has_no_score(tmp_path):
    spec = tmp_path / "plus_one.py"
    spec.write_text(Path(registry.kernel("plus_one").file).read_text())
    spec.with_suffix(".cu").write_text(mutated("plus_one", "x[i] + 1", "x[i] + 2"))
    with pytest.raises(SpecError, match=r"does not pass itself \(wrong"):
        next(gate.judge_all(registry.kernel(str(spec)), [], 1))


def test_an_unknown_kernel_is_bad_input():
    done = CliRunner().invoke(script.main, ["plus_on"])
    assert done.exit_code == 2
    assert "did you mean 'plus_one'" in done.output
