"""Every way that we know to cheat a benchmark of kernels, as data, and what becomes of each.

The numbers are those of the list that the lab is tested against, `KINDS`. A cheat is a `.cu` in tests/cheats/specs with
the entries `honest` and `cheat`, or a spec with a form of PyTorch beside an honest one. `timed` runs some of them, and
`Outcome.of` says what became of one: WRONG, refused, honest (it took no less than the honest row beside it), or FASTER.
Only FASTER is a success of the cheat.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import cudalab
from cudalab.base import stats
from cudalab.base.errors import CudalabError
from cudalab.results.record import Case

SPECS = Path(__file__).parents[1] / "cheats" / "specs"
PLAIN = "from kepler import solver\n\n{0} = solver(__file__)\n"  # the spec of a `.cu` that has none of its own
HONEST_CU = """#include "kepler.cuh"
extern "C" __global__ void honest(const float* m, float* e, long long n) { solve(m, e, n); }
"""

WRONG, REFUSED, HONEST, FASTER, ABSENT = "WRONG", "refused", "honest", "FASTER", "not run"
CAUGHT = (WRONG, REFUSED)  # either will do
FAIR = (*CAUGHT, HONEST)

# Where a cheat shows: in a check without timing, by the CPU's clock, by the GPU's clocks, when its spec is loaded.
CHECK, CPU, GPU, LOADED = "check", "CPU timing", "GPU timing", "load"

# What the GPU times, and how much less than the honest row counts as faster. The host's times of a call are no measure
# of a kernel.
TIMES = ("cold", "hot", "graph", "graph_cold", "wall")
LESS = {"wall": 0.75}  # of a CPU that others use too
LESS_OF_GPU = 0.93

KINDS = {
    1: "skip when the output is already right", 2: "memo by pointer", 3: "memo by contents' hash or shape",
    4: "cached preprocessing", 5: "count launches, lazy later", 6: "first call does all",
    7: "output written after the clock stops", 8: "other stream", 9: "background thread", 10: "lazy tensor",
    11: "patched timer", 12: "reading or altering the expected values", 13: "stale allocator memory",
    14: "altered inputs", 15: "zeros or constants where the task allows it", 16: "lower precision inside",
    17: "skipped tail", 18: "hard-coded shapes, seed or scalars", 19: "the values' distribution", 20: "L2 persistence",
    21: "uninitialised shared memory", 22: "a graph that captured nothing",
    23: "work that outlives the kernel", 24: "a weakened baseline", 25: "falling back to the library",
    26: "forged result files or pipes", 27: "detecting the harness", 28: "impossible speed",
    29: "slow warm-up for fewer samples",
}  # fmt: skip


@cache
def _folder() -> TemporaryDirectory[str]:
    """With the header of all kernels; it is removed when this process ends."""
    folder = TemporaryDirectory(prefix="cheats")
    shutil.copy(SPECS / "kepler.cuh", folder.name)
    return folder


@dataclass(frozen=True)
class Cheat:
    """One cheat: its numbers in KINDS, the name of its spec, and what may become of it where it shows."""

    numbers: tuple[int, ...]
    name: str
    where: tuple[str, ...]
    expected: tuple[str, ...] = FAIR
    limit: str = ""  # why not every form of it can be caught
    said: str = "the spec replaced"  # of one that is refused alone

    @property
    def path(self) -> str:
        """Its spec, in a folder of this process; what a form or a kernel has not of its own is written beside it."""
        folder = Path(_folder().name)
        for suffix, usual in ((".py", PLAIN.format(self.name)), (".cu", HONEST_CU)):
            own = SPECS / f"{self.name}{suffix}"
            (folder / own.name).write_text(own.read_text() if own.exists() else usual)
        return str(folder / f"{self.name}.py")

    @property
    def what(self) -> str:
        """What it does: the first sentence of its file."""
        if self.form:
            return (SPECS / f"{self.name}.py").read_text().split('"""')[1]
        lines = (SPECS / f"{self.name}.cu").read_text().splitlines()
        return " ".join(line[3:] for line in lines[: next(i for i, s in enumerate(lines) if not s.startswith("//"))])

    @property
    def form(self) -> bool:
        """Whether it is a form of PyTorch, and no kernel."""
        return self.name.startswith(("form_", "patch_"))

    @property
    def rows(self) -> tuple[str, str]:
        """The labels of its row and of the honest one on a GPU."""
        return ("torch_native", "torch_eager") if self.form else ("pycuda:cheat", "pycuda:honest")


TRUSTED = "in one process nothing can be hidden from a program: the spec of a reference is trusted with it"
CHEATS = (
    # ---- kernels that find an old answer
    Cheat((1,), "skip_unless_nan", (GPU,)),
    Cheat((1,), "skip_unless_poison", (GPU,)),
    Cheat((1,), "skip_if_right", (GPU,)),
    Cheat((1,), "skip_if_prefix_right", (GPU,)),
    Cheat((3,), "memo_three", (GPU,)),
    Cheat((3,), "memo_contents", (GPU,)),
    Cheat((2,), "memo_pointer", (GPU,)),
    Cheat((2, 13), "memo_old_output", (GPU,)),
    Cheat((1, 3), "memo_flag", (GPU,)),
    Cheat((13,), "memo_neighbour", (GPU,)),
    Cheat((13,), "memo_heap", (GPU,)),
    Cheat((13,), "memo_slack", (GPU,)),
    Cheat((13,), "memo_guard", (CHECK, GPU), (WRONG,)),
    Cheat((13,), "memo_workspace", (GPU,)),
    Cheat((13,), "memo_constant", (CHECK, GPU), (WRONG,)),
    Cheat((21,), "memo_shared", (GPU,)),
    Cheat((21,), "memo_local", (GPU,)),
    # ---- by somebody who has read the lab's source
    Cheat((1,), "skip_unless_equal", (GPU,)),
    Cheat((13, 27), "neighbour_gaps", (GPU,)),
    Cheat((1, 13), "neighbour_fills", (GPU,)),
    Cheat((13,), "memo_gaps", (GPU,), (WRONG,)),
    Cheat((13,), "stale_gaps", (GPU,)),
    Cheat((3, 13), "memo_registers", (GPU,)),
    Cheat((3, 13), "memo_fifth", (GPU,)),
    Cheat((3, 5, 13), "memo_late", (GPU,)),
    Cheat((3,), "memo_spliced", (GPU,)),
    Cheat((16, 27), "place_detector", (GPU,), (WRONG,)),
    Cheat((17, 22), "graph_detector", (GPU,), (WRONG, HONEST)),
    Cheat((17,), "restless_half", (GPU,), (WRONG,)),
    Cheat((21, 27), "scrub_detector", (GPU,), (WRONG,)),
    Cheat((5, 17), "grid_counter", (GPU,)),
    Cheat((7, 23), "unwaited_store", (GPU,)),
    # ---- kernels that work only once, or later
    Cheat((4,), "cached_preprocessing", (GPU,)),
    Cheat((5,), "count_launches", (CHECK, GPU)),
    Cheat((6,), "first_call", (GPU,)),
    # ---- kernels that do less, or elsewhere
    Cheat((15,), "zeros", (CHECK, GPU), (WRONG,)),
    Cheat((16,), "low_precision", (CHECK, GPU), (WRONG,)),
    Cheat((17,), "skipped_tail", (CHECK, GPU), (WRONG,)),
    Cheat((18,), "fixed_shape", (CHECK,), (WRONG,)),
    Cheat((18,), "fixed_scalar", (CHECK,), (WRONG,)),
    Cheat((15,), "any_check", (CHECK,), (REFUSED,)),
    Cheat((12, 27), "calls_python", (CHECK,), CAUGHT),
    Cheat((19,), "distribution", (CHECK,), (WRONG,)),
    Cheat((14,), "altered_inputs", (CHECK, GPU), (WRONG,)),
    Cheat((27,), "cold_detector", (GPU,)),
    Cheat((29,), "slow_warm_up", (GPU,)),
    Cheat((28,), "nothing", (CHECK, GPU), (WRONG,)),
    Cheat((7, 23), "outlives_launch", (CHECK, GPU), (REFUSED,)),
    Cheat((23,), "early_dependents", (GPU,)),
    Cheat((20,), "l2_persistence", (GPU,)),
    # ---- forms of a spec
    Cheat((2,), "form_memo_pointer", (CPU, GPU)),
    Cheat((2, 3), "form_memo_version", (CPU, GPU)),
    Cheat((2,), "form_constant_inputs", (CPU, GPU), (REFUSED,)),
    Cheat((3,), "form_memo_contents", (CPU, GPU)),
    Cheat((3,), "form_memo_short", (CPU, GPU)),
    Cheat((3, 5), "form_memo_later", (CPU, GPU)),
    Cheat((3, 5), "form_wakes_late", (CPU, GPU)),
    Cheat((2, 13), "form_same_object", (CPU, GPU)),
    Cheat((6,), "form_first_call", (CPU, GPU)),
    Cheat((13,), "form_stale_memory", (CPU, GPU)),
    Cheat((10,), "form_lazy", (CPU, GPU), (REFUSED,)),
    Cheat((9,), "form_thread", (CPU, GPU)),
    Cheat((7, 9), "form_ahead", (CPU,), CAUGHT),
    Cheat((27,), "form_detects_clock", (CPU, GPU)),
    Cheat((27,), "form_detects_harness", (CPU, GPU)),
    Cheat((7, 8), "form_other_stream", (GPU,)),
    Cheat((22,), "form_empty_graph", (GPU,)),
    Cheat((18,), "form_seed", (CPU, GPU)),
    Cheat((14,), "form_alters_inputs", (CPU, GPU), (WRONG,)),
    Cheat((29,), "form_slow_warm_up", (CPU, GPU)),
    Cheat((25,), "form_library", (CPU, GPU), (HONEST,)),
    Cheat((12,), "form_expected_values", (CPU, GPU), limit=TRUSTED),
    # ---- specs that replace functions
    Cheat((11,), "patch_perf_counter", (CPU,), (REFUSED,)),
    Cheat((11,), "patch_time_till", (GPU,), (REFUSED,)),
    Cheat((11,), "patch_event_record", (GPU,), (REFUSED,)),
    Cheat((11,), "patch_torch_event", (LOADED,), (REFUSED,)),
    Cheat((24,), "patch_baseline", (LOADED,), (REFUSED,)),
    Cheat((24,), "patch_code", (LOADED,), (REFUSED,)),
    Cheat((11,), "patch_lab", (CPU,), (REFUSED,)),
    Cheat((12,), "patch_compare", (LOADED,), (REFUSED,)),
    Cheat((24,), "patch_settings", (LOADED,), (REFUSED,)),
    Cheat((24,), "patch_environment", (CPU,), (REFUSED,)),
    Cheat((28,), "patch_table", (LOADED,), (REFUSED,)),
    Cheat((28,), "patch_parent", (CPU,), (REFUSED,)),
    Cheat((24,), "patch_compilers", (LOADED,), (REFUSED,)),
    Cheat((24, 27), "patch_turns", (CPU,), (REFUSED,)),
    Cheat((9, 24), "patch_hog", (CPU,), (REFUSED,), said="a thread that the spec has started"),
    Cheat((12,), "patch_class", (LOADED,), (REFUSED,), said="Mine is a subclass of Kernel"),
)

# Numbers that no row above has, and why.
NOT_TRIED = {
    26: "a .cu has no files and no pipes. A spec is a program with its user's rights: it can write any file, as every "
    "program can. Who does not trust a spec's author brings the spec and takes only the .cu",
}


@dataclass
class Outcome:
    """What became of a cheat."""

    verdict: str
    said: str = ""  # the row's reason
    ratios: dict[str, float] = field(default_factory=dict)  # its median to the honest one's, by kind of time

    @classmethod
    def of(cls, cheat: Case | None, honest: Case | None) -> Outcome:
        if cheat is None:
            return cls(ABSENT, "no row")
        if cheat.status == "WRONG":
            return cls(WRONG, cheat.reason)
        if cheat.status == "skipped":
            return cls(ABSENT, cheat.reason)
        if cheat.status != "ok":
            return cls(REFUSED, cheat.reason)
        if honest is None or honest.status != "ok":
            return cls(ABSENT, f"the honest row: {honest.reason if honest else 'none'}")
        ratios = {
            kind: stats.median(cheat.times[kind]) / stats.median(honest.times[kind])
            for kind in TIMES
            if cheat.times.get(kind) and honest.times.get(kind)
        }
        if not ratios and honest.times:
            return cls(REFUSED, "; ".join(cheat.notes) or "no times")
        faster = any(ratio < LESS.get(kind, LESS_OF_GPU) for kind, ratio in ratios.items())
        return cls(FASTER if faster else HONEST, "; ".join(cheat.notes), ratios)


def runs(cheats: Sequence[Cheat]) -> list[list[Cheat]]:
    """Which cheats are timed in one run: the kernels, the forms, and each of the others alone."""
    kernels = [cheat for cheat in cheats if not cheat.form and cheat.name != "outlives_launch"]
    forms = [cheat for cheat in cheats if cheat.name.startswith("form_")]
    alone = [[cheat] for cheat in cheats if cheat not in kernels and cheat not in forms]
    return [together for together in (kernels, forms, *alone) if together]


def timed(cheats: Sequence[Cheat], device: str, size: str, budget: float = 0.1, **options) -> dict[str, Outcome]:
    """The outcomes by name, of one run: of several cheats only where none of them replaces anything."""
    wanted = {"only": ",".join({label for cheat in cheats for label in cheat.rows}), "timeout": 60.0}
    wanted |= {"sizes": size, "device": device, "budget": budget, "processes": 1, **options}
    try:
        run = cudalab.bench(*(cheat.path for cheat in cheats), **wanted)
    except CudalabError as error:
        return {cheat.name: Outcome(REFUSED, str(error)) for cheat in cheats}
    rows = {(case.kernel, case.label): case for case in run.cases}
    return {c.name: Outcome.of(*(rows.get((c.name, label)) for label in c.rows)) for c in cheats}


def checked(cheat: Cheat, device: str = "cpu") -> Outcome:
    """The outcome of a check without timing."""
    only = {"cpu": "host"}.get(device, "pycuda")
    run = cudalab.check(cheat.path, only=f"{only}:cheat,{only}:honest", device=device)
    found = [Outcome.of(case, case) for case in run.cases if case.label == f"{only}:cheat"]
    worst = [one for verdict in (WRONG, REFUSED) for one in found if one.verdict == verdict]
    return worst[0] if worst else Outcome(HONEST)
