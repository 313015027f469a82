"""What only the host part of a `.cu` uses: libraries by their headers and names, and CUDA's runtime."""

from __future__ import annotations

import re
from collections.abc import Container

MACRO = "CUDALAB"  # defined wherever the lab compiles a `.cu`
REMEDY = f"put #ifndef {MACRO} before it and #endif after it: the lab defines {MACRO}"
TORCH = (
    "the kernels use names of PyTorch's headers, such as at::Half or PackedTensorAccessor32; take pointers and sizes, "
    f"and write the types of CUDA (__half); where that is host code, {REMEDY}"
)
# Libraries that only a host calls, or whose headers the host alone may need: a header, and names that come from it.
LIBRARIES = tuple((re.compile(header), re.compile(rf"\b(?:{names})\b")) for header, names in (
    (
        r"(?:torch|ATen|c10|caffe2|THC|TH)/.*",
        r"(?:torch|at|c10|caffe2)(?=\s*::)|AT_[A-Z]\w*|C10_\w+|TORCH_\w+|THC[A-Z]\w*",
    ),
    (r"pybind11/.*|Python\.h", r"(?:pybind11|py)(?=\s*::)|Py[A-Z_]\w*|PYBIND11_\w+"),
    (r"cub/.*", "cub"), (r"thrust/.*", "thrust"), (r"cublas\w*\.h", r"cublas\w+|CUBLAS\w+"),
    (r"cudnn\w*\.h", r"cudnn\w+|CUDNN\w+"), (r"cufft\w*\.h", r"cufft\w+|CUFFT\w+"),
    (r"cusparse\w*\.h", r"cusparse\w+|CUSPARSE\w+"), (r"cusolver\w*\.h", r"cusolver\w+|CUSOLVER\w+"),
    (r"curand\.h", r"curandGenerator\w*|curand(?:Create|Generate|Destroy|Set)\w*"), (r"nccl\.h", r"nccl\w+"),
    (r"nvml\.h", r"nvml\w+"), (r"nvToolsExt\w*\.h|nvtx3/.*", r"nvtx\w+"), (r"cuda_profiler_api\.h", "cudaProfiler\\w+"),
    (r"cuda\.h|cudaProfiler\.h", r"CU[a-z]\w+|cu[A-Z]\w+"), (r"(?:xla|jax)/.*", r"xla(?=\s*::)"),
    (r"opencv2/.*", r"cv(?=\s*::)"),
    (r"mpi\.h", r"MPI\w*"), (r"omp\.h", r"omp_\w+"), (r"(?:Eigen|unsupported)/.*", "Eigen"),
    (r"gtest/.*", r"testing(?=\s*::)"),
    (r"helper_(?:cuda|functions|string|timer|image)\w*\.h", r"checkCudaErrors|sdk[A-Z]\w+"),
    (r"windows\.h", r"[A-Z]+_PTR"),
))  # fmt: skip
_RUNTIME = re.compile(
    r"<<<|\b(?:cuda(?!TextureObject|SurfaceObject|RoundMode|_)[A-Z]\w*|cu(?:blas|dnn|fft|sparse|solver)\w+|nccl\w+"
    r"|curandGenerator\w*|CU(?:device|context|module|function|stream|event|deviceptr|result))\b"
)
_TORCH = LIBRARIES[0][1]
# What the headers of the host bring along: names, and the header that a kernel then needs in their place.
BROUGHT = (
    (re.compile(r"\b__half\w*|\bhalf2\b"), "cuda_fp16.h"), (re.compile(r"\b(?:__)?nv_bfloat16\w*"), "cuda_bf16.h"),
    (re.compile(r"\b(?:FLT|DBL|LDBL)_\w+"), "cfloat"), (re.compile(r"\bnumeric_limits\b"), "limits"),
    (re.compile(r"\bu?int(?:8|16|32|64)_t\b"), "cstdint"),
    (re.compile(r"\b(?:U?(?:INT|LONG|LLONG|CHAR|SHRT))_M\w+"), "climits"),
    (re.compile(r"\bstd\s*::\s*(?:is_\w+|conditional|enable_if)\w*"), "type_traits"),
    (re.compile(r"\bassert\s*\("), "cassert"),
    (re.compile(r"\bprintf\s*\("), "cstdio"), (re.compile(r"\bstd\s*::\s*(?:min|max|swap)\b"), "algorithm"),
)  # fmt: skip


def advice(header: str) -> str:
    """What to do where a header is not there that a host needs; "" for one of CUDA's own for kernels."""
    if of_torch(header):
        return TORCH
    of_host = any(library.fullmatch(header) for library, _ in LIBRARIES)
    return f"if only host code needs it, {REMEDY}" if of_host else ""


def of_torch(header: str) -> bool:
    """Whether a header is PyTorch's, which no CUDA toolkit has."""
    return bool(LIBRARIES[0][0].fullmatch(header))


def named_in(code: str) -> bool:
    """Whether code names what the host alone has."""
    return bool(_RUNTIME.search(code) or _TORCH.search(code) or LIBRARIES[1][1].search(code))


def unused(header: str, rest: str, beside: Container[str], launches: bool) -> bool:
    """Whether a header is of a library that the code of the kernels does not use.

    `launches`: whether there is host code; else only what no CUDA toolkit has may go.
    """
    return any(
        library.fullmatch(header) and not names.search(rest) and header not in beside
        for library, names in (LIBRARIES if launches else LIBRARIES[:2])
    )
