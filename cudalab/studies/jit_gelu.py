"""How many launches and how many bytes does each form of GELU need, and does its time follow from them?

Written as an expression, GELU is five kernels, each of which reads its operands from memory and writes a result there.
A fused form launches one kernel that reads the input once and writes the output once. So the speed-up should be the
ratio of launches for a small GELU, and the ratio of bytes for a large one: both are counted here, beside the times.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from cudalab.backends import torch_compile
from cudalab.backends.torch_script import PROFILING_RUNS
from cudalab.base.errors import Unavailable
from cudalab.call import kernel as kernels
from cudalab.results.record import Results
from cudalab.study import Study, Variant, Work, says
from cudalab.study.lab import NO_KERNEL, Lab

Form = Callable[[Any], Any]
GELU = kernels.by_name("gelu")


def eager(lab: Lab) -> Form:
    assert GELU.torch is not None
    return GELU.torch


def scripted(lab: Lab) -> Form:
    """torch.jit.script of a new function: TorchScript keeps one graph per function, for the first shapes."""
    torch, form = lab.torch(), eager(lab)
    assert isinstance(form, FunctionType)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # TorchScript is deprecated, and still asked about
        made: Form = torch.jit.script(FunctionType(form.__code__, form.__globals__, form.__name__))
        for _ in range(PROFILING_RUNS):
            made(make_inputs(lab))
    return made


def compiled(lab: Lab) -> Form:
    if reason := torch_compile.missing(lab.device.kind):
        raise Unavailable(reason)
    torch = lab.torch()
    torch._dynamo.reset()  # else later sizes use the tuning of the first
    torch_compile.keep_code()
    made: Form = torch.compile(eager(lab), dynamic=False)
    return made


def native(lab: Lab) -> Form:
    form: Form = lab.torch().nn.functional.gelu
    return form


def ours(lab: Lab) -> Form:
    return GELU


def make_inputs(lab: Lab) -> Any:
    """Return the input, float32, normally distributed."""
    torch = lab.torch()
    return lab.once("x", lambda: torch.randn(lab["shape"], device=lab.where))


def called(form: Callable[[Lab], Form]) -> Callable[[Lab], Work]:
    def make(lab: Lab) -> Work:
        x, function, last = make_inputs(lab), form(lab), [None]

        def run() -> None:
            last[0] = function(x)

        return Work(run, lambda: last[0], afterwards=lambda: counted(lab, run, 2 * x.nbytes))

    return make


def counted(lab: Lab, run: Callable[[], object], least: int) -> Mapping[str, float]:
    """Launches of a run (operators on a CPU), and the bytes that they read and write: at least `least`."""
    from cudalab.study import launches

    found = launches.launches(lab, run)
    steps = found["kernels" if lab.cuda else "operators"]
    if steps == 1:
        return found | {"moved_bytes": least}
    several = launches.traffic(run)
    return found | (
        {"moved_bytes": several.nbytes} if several.operators == steps else {}
    )  # otherwise some operators were fused


def finding(run: Results) -> str:
    size = says.sizes(run)[0]
    name = "kernels" if run.machine.device == "cuda" else "operators"
    many, few = (says.counted(run, size, label, name) for label in ("eager", "F.gelu"))
    moved = says.share(run, size, "F.gelu", "moved_bytes")
    known = many is not None and few is not None
    counts = f" takes {few:.0f} instead of {many:.0f} {name}, moves {moved} of the bytes, and" if known else ""
    said = f"compared with eager GELU, F.gelu{counts} is {says.gains(run, 'F.gelu')}"
    ours = [size for size in says.sizes(run) if says.ran(run, size, "ours")]
    if not ours:
        return said
    said += f"; the lab's kernel, called from Python, is {says.gains(run, 'ours')}"
    for kind, words in {"wall": "", "hot": ", by the GPU's work alone"}.items():
        against = {f"at {size}": says.ratio(run, size, "ours", "F.gelu", kind) for size in ours}
        said += f"; compared with F.gelu{words} it is {says.listed(against)}"
    return said


study = Study(
    file=__file__,
    summary="launches and bytes of each way to compute GELU, counted, and its time",
    sizes={
        "small": {"shape": (1, 3, 224, 224)},
        "large": {"shape": (32, 3, 224, 224)},
        "xlarge": {"shape": (1024, 3, 224, 224)},
        "tiny": {"shape": (1, 3, 8, 8)},
    },
    defaults={"cuda": ("small", "large", "xlarge"), "cpu": ("small", "large")},
    variants=(
        Variant("eager", called(eager)),
        Variant("jit.script", called(scripted)),
        Variant("compile", called(compiled)),
        Variant("F.gelu", called(native)),
        Variant("ours", called(ours), ("cuda",), NO_KERNEL),
    ),
    baseline="eager",
    kinds=("wall", "hot"),
    tolerance=1e-5,
    finding=finding,
    kernels=("gelu",),
    about="ours: the lab's kernel as a user calls it from Python, with the allocation of its result.\n"
    "kernels, launches: of one call, counted by torch.profiler. operators (on a CPU): those that the call "
    "dispatches.\n"
    "torch.compile's code counts as one operator. TorchScript fuses only on a GPU, so it dispatches all five "
    "on a CPU.\n"
    "moved: the bytes of the kernels' operands. Traffic that the L2 cache saves is not subtracted.",
)
