"""Does a transformer learn the same with cudalab.nn as with PyTorch's modules, and is a step faster?

A decoder is trained on random tokens, twice from the same weights: with torch.nn's norms, activation and loss, and with
those of cudalab.nn. Attention, linear layers and AdamW are PyTorch's in both.

No two orders of summation give the same loss curve: each step of training enlarges differences of rounding. So the
tolerance is measured. PyTorch is trained again with the hidden units of each layer in other orders, which is the same
model, and once in a higher precision: float64, or float32 where autocast takes bfloat16. How far its own curve is from
the farthest of these is its spread; cudalab.nn may be MARGIN times as far from it.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from cudalab.base import numbers
from cudalab.base.errors import CudalabError
from cudalab.results.record import Results
from cudalab.study import Study, Variant, Work, says
from cudalab.study.lab import Lab
from cudalab.study.training import Training

RATE = 1e-3
BATCHES = 8  # of data, in turns
ORDERS = 2  # other orders of the hidden units
MARGIN = 4  # times the spread that cudalab.nn may be off: the spread is the largest of three differences, no bound
MODEL = ("form", "layers", "width", "heads", "hidden", "vocabulary", "tokens")  # parameters of a size


def torchs(lab: Lab) -> Any:
    """PyTorch's modules."""
    nn = lab.torch().nn
    from cudalab.study.decoder import SwiGLU

    return SimpleNamespace(
        RMSNorm=nn.RMSNorm, LayerNorm=nn.LayerNorm, GELU=nn.GELU, SwiGLU=SwiGLU, CrossEntropyLoss=nn.CrossEntropyLoss
    )


def ours(lab: Lab) -> Any:
    """The lab's modules."""
    lab.torch()
    import cudalab.nn

    return cudalab.nn


def one_thread(lab: Lab) -> None:
    """On a CPU: the models there are so small that more threads only wait for each other."""
    if not lab.cuda:
        torch = lab.torch()
        lab.at_end.callback(torch.set_num_threads, torch.get_num_threads())
        torch.set_num_threads(1)


def batches(lab: Lab) -> list[tuple[Any, Any]]:
    """Random tokens, and the next ones as targets."""
    torch = lab.torch()

    def make() -> list[tuple[Any, Any]]:
        shape = BATCHES, lab["batch"], lab["tokens"] + 1
        drawn = torch.randint(lab["vocabulary"], shape, device=lab.where)
        return [(text[:, :-1].contiguous(), text[:, 1:].flatten()) for text in drawn]

    found: list[tuple[Any, Any]] = lab.once("batches", make)
    return found


def training(lab: Lab, modules: Any) -> Training:
    """A training that begins with the weights that all variants share."""
    torch = lab.torch()
    from cudalab.study.decoder import Decoder

    model = Decoder(modules, *(lab[name] for name in MODEL)).to(lab.where)
    start = lab.once("weights", lambda: {name: value.clone() for name, value in model.state_dict().items()})
    model.load_state_dict(start)
    autocast = torch.bfloat16 if lab["autocast"] else None
    return Training(model, *batches(lab)[0], modules.CrossEntropyLoss(), adamw, autocast=autocast)


def adamw(parameters: Any) -> Any:
    import torch

    return torch.optim.AdamW(parameters, lr=RATE)


def curve(lab: Lab, of: Training, what: str) -> Any:
    """The losses of the first steps of a new training, in float64 on the CPU."""
    import torch

    lab.tick(f"training {what}")
    new, losses = of.anew(), []
    for done in range(lab["steps"]):
        new.x, new.y = batches(lab)[done % BATCHES]
        losses.append(new.step())
        lab.alive()
    return torch.stack(losses).double().cpu()


def baseline(lab: Lab) -> Any:
    """PyTorch's curve."""
    return lab.once("curve", lambda: curve(lab, training(lab, torchs(lab)), "with PyTorch's modules"))


def spread(lab: Lab) -> float:
    """How far PyTorch's curve is from what it learns in other orders and in a higher precision; see `apart`."""

    def largest() -> float:
        others = []
        for order in range(ORDERS):
            other = training(lab, torchs(lab))
            other.given.reorder()
            others.append(curve(lab, other, f"with hidden units in another order ({order + 1} of {ORDERS})"))
        exact = training(lab, torchs(lab))
        if exact.autocast is None:
            exact.given.double()
        exact.autocast = None
        others.append(curve(lab, exact, "in a higher precision"))
        return max(apart(other, baseline(lab)) for other in others)

    found: float = lab.once("spread", largest)
    return found


def apart(one: Any, base: Any) -> float:
    """The largest difference of two curves, as a share of the largest loss of `base`."""
    return float((one - base).abs().max() / base.abs().max())


def trained(modules_of: Callable[[Lab], Any]) -> Callable[[Lab], Work]:
    def make(lab: Lab) -> Work:
        lab.once("one thread", lambda: one_thread(lab))
        torch, wanted = lab.torch(), baseline(lab)
        if not torch.isfinite(wanted).all() or not wanted[-1] < wanted[0]:
            raise CudalabError(f"PyTorch's loss goes from {wanted[0]:.4g} to {wanted[-1]:.4g}: it learns nothing")
        timed, done = training(lab, modules_of(lab)), [0]
        losses = wanted if modules_of is torchs else curve(lab, timed, "with cudalab.nn")

        def run() -> None:
            timed.x, timed.y = batches(lab)[done[0] % BATCHES]
            timed.step()
            done[0] += 1

        def counted() -> dict[str, float]:
            off = {} if modules_of is torchs else {"off_ppm": 1e6 * apart(losses, wanted)}
            return {
                "first_loss": float(losses[0]),
                "last_loss": float(losses[-1]),
                "spread_ppm": 1e6 * spread(lab),
            } | off

        return Work(
            run, lambda: losses, quantities=counted, items=lab["batch"] * lab["tokens"],
            tolerance=MARGIN * spread(lab),
        )  # fmt: skip

    return make


def finding(run: Results) -> str:
    def learned(size: str) -> str:
        names = "first_loss", "last_loss", "off_ppm", "spread_ppm"
        counts = [says.counted(run, size, "cudalab.nn", name) for name in names]
        if None in counts:
            return "cudalab.nn was not measured"
        first, last, off, own = (numbers.three(count or 0.0) for count in counts)
        steps, layers = (says.parameter(run, size, name) for name in ("steps", "layers"))
        work = says.factor(run, size, "cudalab.nn", "hot")
        return (
            f"{steps} steps of {layers} layers with cudalab.nn learn the same, a loss of {last} after {first} and at "
            f"most {off} ppm off ({MARGIN} times PyTorch's own spread of {own} ppm are allowed), and a step is "
            f"{says.factor(run, size, 'cudalab.nn')} as fast"
        ) + ("" if work == "?" else f", the GPU's own work {work}")

    said = f"compared with PyTorch's modules, {says.at_sizes(run, learned)}"
    return (
        said if run.machine.device == "cuda" else f"{said}; on a CPU cudalab.nn runs PyTorch's functions, for no gain"
    )


def decoder(
    form: str, width: int, hidden: int, vocabulary: int, batch: int, tokens: int, **more: Any
) -> dict[str, Any]:
    """The parameters of a size: heads of 64 elements where the width has several, four layers, 200 steps."""
    heads = max(width // 64, 2)
    found = {"form": form, "layers": 4, "width": width, "heads": heads, "hidden": hidden, "vocabulary": vocabulary}
    return found | {"batch": batch, "tokens": tokens, "autocast": False, "steps": 200} | more


study = Study(
    file=__file__,
    summary="a transformer trained with cudalab.nn and with PyTorch's modules: the loss curves, and the time of a step",
    sizes={
        "gpt": decoder("gpt", 512, 2048, 8192, 8, 256),
        "llama": decoder("llama", 768, 2048, 16384, 16, 512, autocast=True),
        "cpu-gpt": decoder("gpt", 32, 64, 64, 2, 16),
        "cpu-llama": decoder("llama", 32, 64, 64, 2, 16),
        "tiny": decoder("gpt", 16, 32, 32, 2, 8, steps=16),
        "tiny-llama": decoder("llama", 16, 32, 32, 2, 8, steps=16, autocast=True),
    },
    defaults={"cuda": ("gpt", "llama"), "cpu": ("cpu-llama",)},
    variants=(Variant("torch.nn", trained(torchs)), Variant("cudalab.nn", trained(ours))),
    baseline="torch.nn",
    kinds=("wall", "hot"),
    finding=finding,
    kernels=(
        "gelu", "gelu_backward", "layernorm", "layernorm_backward", "rmsnorm", "rmsnorm_backward", "swiglu",
        "cross_entropy", "cross_entropy_backward",
    ),
    about="gpt: LayerNorm and GELU in float32. llama: RMSNorm and SwiGLU, on a GPU under autocast in bfloat16.\n"
    "Compared: the losses of all steps, from the same weights. off: the largest difference, in ppm of a loss.\n"
    "spread: the same of PyTorch against itself, with sums in other orders and in a higher precision.\n"
    "wall: a step, with the time that the host needs to launch. hot: the GPU's time alone.",
)  # fmt: skip
