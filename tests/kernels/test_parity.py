"""Every kernel on every backend against float64. New kernels and backends are picked up by themselves."""

from __future__ import annotations

import math
import os

import numpy as np
import pytest

from cudalab import backends
from cudalab.checks.expected import Expected
from cudalab.checks.parity import compare
from cudalab.device import cuda
from cudalab.device.arrays import DeviceArray
from cudalab.device.operands import Operands
from cudalab.spec import find
from cudalab.spec.dtype import dtype
from cudalab.tools.pytest.cases import cases

# Errors of other libraries, found by this check: `cudalab check gelu` shows them to users.
# Without a GPU only one kernel's tests are collected and skipped: those of all would be thousands of skips.
ON_A_GPU = () if os.environ.get("CUDALAB_REQUIRE") == "cuda" or not cuda.missing() else ("plus_one",)
COUSINS = (  # built as others are
    "gelu_tanh", "gelu_backward", "bias_gelu", "layernorm", "rmsnorm", "fused_add_rmsnorm", "matmul", "sum",
    "transpose", "cross_entropy", "cross_entropy_backward", "softmax_backward", "swiglu",
    "layernorm_backward", "rmsnorm_backward", "quantize_fp8", "quantize_int8", "rope",
    "rope_interleaved",
)  # fmt: skip
SAMPLE = 2**16  # values of float32, no exponent missing; `cudalab check` takes 2^24
FAR = "where an infinite dy meets a gradient that float32 has as 0 and float64 has not, they give NaN"
LOST = "silu(gate) is subnormal or 0 to them where a large `up` brings the product back"
LARGE = "they are right to a share of 1, not of the gradient: a dy of any size multiplies what is lost in the tail"
OVERFLOW = ("gelu", "torch_native", "every exponent")
KNOWN = {
    (name, backend, size): why
    for name, size, why in (
        ("gelu_backward", "special pairs", FAR),
        ("gelu_backward", "every exponent of each", LARGE),
        ("swiglu", "special pairs", LOST),
    )
    for backend in ("numpy", "torch_eager", "torch_native", "torch_script")
    if (name, backend) != ("swiglu", "numpy")
}


def known(case):
    """Whether a variant is known to be wrong there."""
    what = (case.group.name, case.variant.label, case.group.size)
    if what == OVERFLOW:  # on some CPUs F.gelu does so from 1.7e38 on
        import torch

        return bool(torch.nn.functional.gelu(torch.full((64,), 2e38)).isinf().any())
    return what in KNOWN


def outputs(group):
    """How many elements the kernel is to give, in all its outputs."""
    if group.kernel.pointwise:
        return math.prod(group.shape)
    shapes = {name: a.shape for name, a in group.arrays(0).items()}
    return sum(math.prod(group.kernel.shape_of(name, shapes)) for name in group.kernel.outs)


def on_the_host(case):
    if case.group.size in case.group.kernel.sizes:
        pytest.skip("a benchmark's size: on the CPU seconds for each, and no other code than the awkward shapes run")
    assert case.check().parity.n == outputs(case.group)


def on_the_cpu(case):
    if known(case):
        with pytest.raises(pytest.fail.Exception, match="values differ"):
            case.check()
    else:
        assert case.check().parity.n == outputs(case.group)


def on_the_gpu(case):
    known = case.group.name in ("gelu", "add2d", "plus_one") or case.variant.backend.budget == "budgets"
    if case.group.values and not known:
        pytest.skip("what libraries do with hard values is theirs; `cudalab check` says it")
    assert case.check().parity.n == outputs(case.group)


@cases(*[name for name in find.kernels() if name not in COUSINS], device="cpu", only="host",
       dtypes="float32,int32", sample=SAMPLE)  # fmt: skip
def test_on_the_host(case):
    on_the_host(case)


@pytest.mark.sweep
@cases(*COUSINS, device="cpu", only="host", dtypes="float32", sample=SAMPLE)
def test_cousins_on_the_host(case):
    on_the_host(case)


@pytest.mark.sweep
@cases("gelu", "gelu_backward", "softmax", "transpose", device="cpu", only="host", dtypes="bfloat16")
def test_in_16_bits_on_the_host(case):
    """One kernel of each kind; more of them, and float16, are in test_kernels.py, and all are on a GPU."""
    on_the_host(case)


@cases(*[name for name in find.kernels() if name not in COUSINS], device="cpu", dtypes="float32,int32", sample=SAMPLE,
       skip="host,torch_compile")  # fmt: skip
def test_on_the_cpu(case):
    on_the_cpu(case)


@pytest.mark.sweep
@cases(*COUSINS, device="cpu", dtypes="float32", sample=SAMPLE, skip="host,torch_compile")
def test_cousins_on_the_cpu(case):
    on_the_cpu(case)


@pytest.mark.torch_compile
@cases("gelu", "softmax", device="cpu", only="torch_compile", dtypes="float32", sample=SAMPLE)
def test_compiled_by_pytorch_on_the_cpu(case):
    """One kernel of each kind, since Inductor takes seconds for each; on a GPU all of them."""
    case.check()


@cases(*(ON_A_GPU or ("gelu", "softmax", "matmul")), device="cuda", only="torch_compile:max_autotune", dtypes="float32")
def test_compiled_with_max_autotune_on_the_gpu(case):
    """One kernel of each kind, since tuning takes long; `cudalab check` runs all of them."""
    case.check()


@cases(*(ON_A_GPU and ("plus_one", "gelu")), device="cuda", only="triton", dtypes="float32,bfloat16,int32")
def test_triton_on_the_gpu(case):
    """Without float16: every case compiles several configurations, and its code is that of bfloat16."""
    on_the_gpu(case)


@cases(*ON_A_GPU, device="cuda", skip="torch_compile:max_autotune,triton")
def test_on_the_gpu(case):
    on_the_gpu(case)


@pytest.mark.parametrize("kernel", find.kernels().values(), ids=find.kernels())
def test_the_reference_is_not_trivial(kernel):
    """An output of zeros, or a copy of an input, must fail."""
    first = next(iter(kernel.outs))
    for name in kernel.dtypes:
        kind = dtype(name)
        arrays = kernel.make(next(iter(kernel.sizes.values())), kind)
        expected = Expected(kernel, arrays)
        want = expected.compute(first, {})
        for whose in ("budgets", "peers", "composed"):
            budget = kernel.budget(kind, whose)
            for array in (np.zeros_like(want, kind.numpy), *arrays.values()):
                assert not compare(array, want, kind, budget, atol=expected.atol(first, budget)).ok


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["gelu", "add2d", "plus_one"])
def test_more_than_2_to_the_31_elements(gpu, name):
    """Indices of 64 bits: the last elements are right, in every entry and in every generated kernel."""
    torch = pytest.importorskip("torch")
    kernel = find.kernel(name)
    kind = dtype(kernel.dtypes[0])
    shape = (2**16, 2**15 + 1) if kernel.rank == 2 else (2**31 + 2**16,)
    window = 2**20
    tensors = {n: torch.empty(shape, device="cuda").normal_() for n in kernel.input_names}
    out = torch.full(shape, float("nan"), device="cuda")
    torch.cuda.synchronize()

    def device_array(tensor):
        return DeviceArray(tuple(tensor.shape), kind.numpy, tensor.data_ptr(), tensor)

    operands = Operands({n: device_array(t) for n, t in tensors.items()}, device_array(out), gpu.stream)
    tail = {n: t.reshape(-1)[-window:].cpu().numpy() for n, t in tensors.items()}
    around = {n: t.reshape(-1)[2**31 - window : 2**31 + 64].cpu().numpy() for n, t in tensors.items()}
    for backend in ("pycuda", "pycuda_elementwise", "cupy_raw", "cupy_elementwise", "triton"):
        module = backends.by_name()[backend]
        if module.missing("cuda"):
            continue
        for variant in module.variants(kernel):
            out.fill_(float("nan"))
            torch.cuda.synchronize()
            module.bind(kernel, variant, kind, operands).run()
            gpu.stream.synchronize()
            flat = out.reshape(-1)
            for arrays, got in ((tail, flat[-window:]), (around, flat[2**31 - window : 2**31 + 64])):
                want = np.asarray(kernel.reference(**{n: a.astype(np.float64) for n, a in arrays.items()}))
                parity = compare(got.cpu().numpy(), want, kind, kernel.budget(kind, module.budget))
                assert parity.ok, f"{backend}:{variant} {parity.message}"
            assert not torch.isnan(out).any(), f"{backend}:{variant} left elements unwritten"
