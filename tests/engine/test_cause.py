"""What is said of a wrong result beside the values that differ."""

from __future__ import annotations

import numpy as np
import pytest
import specs
from cpu_rows import cpu_rows

from cudalab import Budget, Launch, Out, Work
from cudalab.backends import host
from cudalab.base.errors import OverrunError, RaceError
from cudalab.device.cpu import Cpu
from cudalab.device.guard import fills
from cudalab.device.operands import writing
from cudalab.engine.cause import Causes
from cudalab.engine.groups import Group
from cudalab.engine.job import Job
from cudalab.engine.kernel_round import cases
from cudalab.engine.selection import Selection
from cudalab.spec.dtype import dtype

F32 = dtype("float32")
ARGUMENTS = "(const float* x, float* y, float* z, float* work)"
CU = f"""
#define T const int t = threadIdx.x
__global__ void races{ARGUMENTS} {{
    __shared__ float s[64]; T;
    s[t] = x[t];
    y[t] = 2 * s[63 - t], z[t] = 0, work[t] = 0;
}}
__global__ void workspace{ARGUMENTS} {{ T; y[t] = 2 * x[63 - t] + work[t], z[t] = 0, work[t] = 0; }}
"""


def kernel(tmp_path, *entries):
    """y is twice x in reverse; z is 0 in its first elements."""
    return specs.spec(
        tmp_path, None, CU, sizes={"small": (64,)}, edges=(), budgets=Budget(0),
        outputs={"y": Out(lambda x: 2 * x[::-1]), "z": Out(check=lambda z: bool((z[:9] == 0).all()))},
        workspace={"work": Work("float32")}, shapes={"x": "n", "y": "n", "z": "n", "work": "n"},
        entries=dict.fromkeys(entries, lambda x, y, z, work: Launch((1,), (64,), (x, y, z, work))),
    )  # fmt: skip


def cause(tmp_path, does, raced=None, ways=(), said="y: 64 of 64 values differ"):
    """What is found of a variant that runs `does(x, y, z, work)`."""
    k, device = kernel(tmp_path, "k"), Cpu()
    operands = device.place(k, F32, k.make((64,), F32, 1))

    def bound(function):
        return writing(lambda on: lambda: function(*on.by_name(k).values()), operands)

    def right(work):
        work.run()
        x, y, z, _ = operands.by_name(k).values()
        return bool(np.array_equal(y, 2 * x[::-1]) and (z[:9] == 0).all())

    causes = Causes(
        device, k, fills(F32, 0), lambda work, content: device.poison(work.output(), content), right, lambda: None,
        {} if raced is None else raced,
    )  # fmt: skip
    return causes.find("host:k", bound(does), said, {how: bound(way) for how, way in ways})


def early(name):
    """Reads an array before it is set."""

    def run(x, y, z, work):
        y[:] = 2 * x[::-1] + {"y": y, "z": z, "work": work}[name]
        z[:], work[:] = 0, 0

    return run


def test_the_array_is_named_that_is_read_too_early(tmp_path):
    def adds(x, y, z, work):
        """Is wrong whatever the workspace holds."""
        y[:] = x + work
        z[:], work[:] = 0, 0

    said, certain = cause(tmp_path, early("y"))
    assert said.startswith('y is read before it is written: zero it in the kernel, or give outputs={"y": Out(fill=0)}')
    assert not certain and cause(tmp_path, early("z"))[0].startswith("z is read before it is written: zero it")
    fence = "work is read before it is written: is a barrier or a fence missing before the read? If not"
    said, _ = cause(tmp_path, early("work"))
    assert said.startswith(fence) and said.endswith('zero it in the kernel, or give workspace={"work": Work(fill=0)}')
    assert cause(tmp_path, adds)[0].startswith(fence)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda x, y, z, work: np.copyto(y, x), ""),  # z is not written, and not blamed
        (lambda x, y, z, work: np.copyto(y[:9], x[:9]), "never written: 55 of 64 elements of y, first [9]"),
        (lambda x, y, z, work: np.copyto(y, np.random.default_rng().random(64)), ""),  # differs in each run
    ],
)
def test_what_a_wrong_output_lacks_is_said_of_that_one_alone(tmp_path, function, said):
    assert cause(tmp_path, function) == (said, False)


def test_a_race_goes_before_what_memory_held_and_is_looked_for_until_it_is_found(tmp_path):
    def race(x, y, z, work):
        raise RaceError("k: race on 4 bytes")

    def nothing(x, y, z, work):
        raise AssertionError

    raced = {}
    for ways in ([("in reverse order", nothing), ("under the race detector", race)], [("under the race", nothing)]):
        assert cause(tmp_path, early("work"), raced, ways) == ("k: race on 4 bytes", True)
        assert cause(tmp_path, early("work"), raced, ways, said="") == ("", False)


def test_an_access_outside_is_the_cause_of_a_wrong_result_and_the_first_of_the_writes_beside_a_right_one(tmp_path):
    def outside(x, y, z, work):
        raise OverrunError("k: writes 4 bytes outside")

    ways = [("under the race detector", outside)]
    assert cause(tmp_path, early("work"), ways=ways) == ("k: writes 4 bytes outside", True)
    assert cause(tmp_path, early("work"), ways=ways, said="") == (
        "first access outside: k: writes 4 bytes outside", True
    )  # fmt: skip


@pytest.mark.sweep
@pytest.mark.parametrize("limit", [host.RACED, 0])  # 0: as for large arrays
def test_a_row_says_the_race_or_the_workspace_beside_the_values(tmp_path, monkeypatch, limit):
    monkeypatch.setattr(host, "RACED", limit)
    k, job = kernel(tmp_path, "races", "workspace"), Job(Cpu(), Selection(only=("host",)), (), 0, 0.01, lambda s: None)
    races, workspace = (row.reason for row in cases(job, Group(k, "small", (64,), F32)))
    assert races.startswith("y: ") and " values differ" in races
    assert "; races: race on 4 bytes of shared memory in block (0,0,0): thread (" in races
    assert [*job.raced[k.file]] == ["host:races"]
    assert workspace.startswith("y: ") and "; work is read before it is written: is a barrier" in workspace


@pytest.mark.sweep
def test_a_maximum_that_starts_at_a_local_variable_without_a_value_shows_at_negative_inputs(tmp_path):
    begins = {"right": " = {-INFINITY, -INFINITY}", "wrong": "", "least": " = {-1e30f, -1e30f}"}
    text = "".join(
        f"__global__ void {name}(const float* x, float* y) {{ float top[2]{first};\n"
        "    for (int k = 0; k < 8; ++k) top[k % 2] = fmaxf(top[k % 2], x[8 * threadIdx.x + k]);\n"
        "    y[threadIdx.x] = fmaxf(top[0], top[1]); }\n"
        for name, first in begins.items()
    )
    k = specs.kernel(
        tmp_path, text=text, sizes={"small": (32,)}, reference=lambda x: x.max(axis=1),
        shapes={"x": "rows 8", "y": "rows"}, entries=dict.fromkeys(begins, lambda x, y: Launch((1,), (32,), (x, y))),
    )  # fmt: skip
    right, wrong, _ = cpu_rows(Group(k, "32, negative", (32,), F32, values="negative"), "host")
    assert right.status == "ok" and wrong.status == "WRONG" and "[0] got 0, want -1" in wrong.reason
    assert "(under the race detector, where a local variable without a value is 0, and" in wrong.reason
    right, _, least = cpu_rows(Group(k, "32, neginf", (32,), F32, values="neginf"), "host")
    assert right.status == "ok" and least.reason.endswith("begin at a finite number instead of -INFINITY?)")
