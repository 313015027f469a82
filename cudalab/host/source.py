"""Scan a `.cu` before g++ compiles it, and rewrite its dynamic shared arrays."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from cudalab.base.errors import NotOnCpu
from cudalab.spec.cuda_source import entries_of

# With any of these the threads of a block depend on each other, and each gets a stack of its own. The lab's headers
# have cudalab::running or cudalab::looked where they need that.
_COOPERATION = re.compile(
    r"\b(?:__shared__|__activemask|__sync\w+|__shfl\w*|__ballot\w*|__(?:any|all)_sync"
    r"|__match_\w+|__reduce_\w+|__threadfence\w*|__nanosleep|cudalab::(?:running|looked))\b"
    r"|\bwhile\s*\([^;{}]*\b(?:atomic[A-Z]\w+|__ldc[gv])\s*\("
)
_WAITING = re.compile(r"\b(?:atomic[A-Z]\w+|__ldc[gv]|__threadfence\w*|__nanosleep|cudalab::looked|phase_barrier)\b")
# What would fail with an unclear message, or compile and be wrong: a pattern for its names in the source.
_NOT_HERE = {
    "textures": r"cudaTextureObject_t|texture\s*<|tex[123]D(?:Lod|Grad|fetch|Layered)?\s*<|tex1Dfetch|__ldg_tex",
    "surfaces": r"cudaSurfaceObject_t|surf[123]D(?:read|write)",
    "kernel launches from a .cu (dynamic parallelism, host code)": r"<<<",
    "tensor cores' built-in functions": r"\b__(?:h|b|i|d|tf32)?mma_\w+",
    "matrices of 4 or 1 bits": r"\b(?:wmma::)?experimental::(?:precision|bmma)\w*|\bbmma_sync\b",
    "the pipeline of CUDA 11.0": r"\bnvcuda::experimental\b",
    "bulk copies (TMA)": r"\bcp_async_bulk\w*|\bCUtensorMap\b",
    "PTX": r"\bcuda::ptx\b|\bptx::\w+",
    "grid-wide barriers": r"this_grid\s*\(\s*\)\s*\.\s*(?:sync|barrier_\w+)|\bthis_multi_grid\b",
    "clusters": r"this_cluster\b|\bcluster_group\b|__cluster_(?!dims)\w+",
    "coalesced groups": r"\bcoalesced_threads\b|\bcoalesced_group\b|\blabeled_partition\b|\bbinary_partition\b",
    "shuffles and votes without a mask": r"\b__shfl(?:_up|_down|_xor)?\s*\(|\b__(?:any|all|ballot)\s*\(",
    "named barriers": r"\b__barrier_sync\w*|\b__named_barrier\w*",
    "the CUDA runtime's API": r"\bcuda(?:Malloc|Mem|Free|DeviceSynchronize|LaunchKernel|Stream|Event)\w*\s*\(",
    "addresses as shared or global ones": r"\b__cvta_\w+|\b__is(?:Shared|Global|Local|Constant)\b",
}
_REMEDY = {
    "shuffles and votes without a mask": "no GPU since Volta has them; use those that end in _sync",
    "the CUDA runtime's API": "the lab allocates, copies and launches; leave device code alone in the file",
    "kernel launches from a .cu (dynamic parallelism, host code)": "the spec says how entries are launched",
}
# CUDA's and its libraries' headers that are not in include/. nvcc knows whether there is one of another name.
_HEADERS = re.compile(
    r"^(?:cub|cuda|thrust|cutlass|cute|nv|nvtx3|crt|cooperative_groups|cccl|raft|torch|ATen|c10|kittens|flashinfer)/"
    r"|^(?:cu\w*|mma|curand\w*|nv\w*|cooperative_groups\w*|device_\w+|sm_\d\w*|math_functions|host_defines"
    r"|builtin_types|texture_\w+|surface_\w+|common_functions|kittens)\.(?:h|hpp|cuh)$"
)
_LACKING = re.compile(
    r"^(?P<file>.*?):(?P<line>\d+):\d+: fatal error: '?(?P<header>[^:'\n]+)'?(?:: No such| file not found)",
    re.MULTILINE,
)
_FORBIDDEN = re.compile(r"(?:^|\bat )(?P<place>[^\s:]+:\d+):\d+(?::|,|\.)", re.MULTILINE)
_ATTRIBUTE = re.compile(
    r"(?:declared with (?:attribute error|'error' attribute)|static assertion failed[^:\n]*): "
    r"(?P<what>.* cannot run on the CPU)"
)
_ASM = re.compile(r"\b(?:asm|__asm|__asm__)\b")
_VOLATILE = re.compile(r"\bvolatile\b")
_LOCKSTEP = (  # volatile.h says the same of an access
    "volatile shared memory cannot run on the CPU: %s; such code expects the lanes of a warp to move in lockstep, "
    "which no GPU since Volta promises either; use __syncwarp() or __shfl_*_sync()"
)
_LINE_MARKER = re.compile(r'^# (\d+) "((?:[^"\\]|\\.)*)"((?: \d)*)$')
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_COMMENT_OR_STRING = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"', re.DOTALL)
_DYNAMIC_SHARED = re.compile(
    r"\bextern\s+__shared__\s+"
    r"(?P<align>(?:__align__|alignas)\s*\([^()]*(?:\([^()]*\))?[^()]*\)\s*)?"
    r"(?P<type>[\w:<>,\s]+?)\s*\b(?P<name>\w+)\s*\[\s*\]\s*;"
)
_NOT_HERE_PATTERNS = [(what, re.compile(names)) for what, names in _NOT_HERE.items()]
_OURS = f"{Path(__file__).parent / 'include'}{os.sep}"
_LAB = f"{Path(__file__).parent}{os.sep}"
_ALIGNED_SHARED = re.compile(r"\b__shared__(\s+)(alignas\s*\([^()]*(?:\([^()]*\)[^()]*)*\))")
_STATIC_SHARED = re.compile(r"\bstatic\s+__shared__\b|\b__shared__\s+static\b")


class Scan:
    """The entries of a `.cu`, and how its threads must run, from its preprocessed text.

    Attributes:
        entries: names of the `__global__` functions that are not templates, in order.
        fibers: whether threads of a block depend on each other.
        waits: whether a thread may wait for another one by an atomic or a load.
        volatile: whether a thread may look at memory again and again, until another one changes it.
    """

    def __init__(self, preprocessed: str, name: str) -> None:
        """Take the output of `g++ -E` for the file `name`; raises NotOnCpu for what cannot run on the CPU.

        The preprocessor has removed comments, resolved every `#if` and expanded macros, but it does not know CUDA's own
        names, so `__global__` and the like are still there.
        """
        lines = list(_own_lines(preprocessed))
        code = "\n".join(text for _, _, text, _ in lines)
        self.volatile = any(_VOLATILE.search(text) for file, _, text, _ in lines if not file.startswith(_OURS))
        self.fibers = self.volatile or bool(_COOPERATION.search(code))
        self.entries = entries_of(code)
        self.waits = self.fibers and bool(_WAITING.search(code))
        _refuse(lines, name)


def _own_lines(preprocessed: str) -> Iterator[tuple[str, int, str, str]]:
    """File, line number, text without strings, and text of each line that is not from a system header."""
    file, number, system = "", 0, False
    for text in preprocessed.splitlines():
        marker = _LINE_MARKER.match(text)
        if marker:
            file, number = marker[2], int(marker[1]) - 1
            system = "3" in marker[3].split() or file in ("<built-in>", "<command-line>")
            continue
        number += 1
        if not system:
            yield file, number, _STRING.sub('""', text), text


def without_header(message: str) -> str | None:
    """A clearer message where the preprocessor lacks one of CUDA's headers; None for any other error."""
    lacking = _LACKING.search(message)
    if not lacking or not _HEADERS.match(lacking["header"]):
        return None
    return f"{lacking['file']}:{lacking['line']}: <{lacking['header']}> cannot run on the CPU"


def forbidden(message: str) -> str | None:
    """What a call of a function with CUDALAB_NOT_ON_CPU (qualifiers.h) is, and its line; None for any other error.

    A static_assert of a header says it in the same words.
    """
    if not (what := _ATTRIBUTE.search(message)):
        return None
    places = [m["place"] for m in _FORBIDDEN.finditer(message) if not m["place"].startswith(_LAB)]
    return f"{places[-1]}: {what['what']}" if places else what["what"]


def _refuse(lines: list[tuple[str, int, str, str]], name: str) -> None:
    """Raise NotOnCpu for code that would compile and then be wrong, or fail with an unclear message."""
    for file, number, text, written in lines:
        if file.startswith(_OURS):
            continue
        if file != name and (found := _DYNAMIC_SHARED.search(text)):
            raise NotOnCpu(
                f"{file}:{number}: a dynamic shared array in a header cannot run on the CPU: {found[0].strip()}; "
                f"declare it in {name} and pass a pointer to it"
            )
        for what, names in _NOT_HERE_PATTERNS:
            if found := names.search(text):
                remedy = f"; {_REMEDY[what]}" if what in _REMEDY else ""
                raise NotOnCpu(f"{file}:{number}: {what} cannot run on the CPU: {found[0].strip()}{remedy}")
        if found := _ASM.search(text):
            raise NotOnCpu(f"{file}:{number}: inline asm cannot run on the CPU: {_excerpt(written, text, found)}")
        if any(_VOLATILE.search(part) and "__shared__" in part for part in re.split("[;{}(),]", text)):
            raise NotOnCpu(f"{file}:{number}: {_LOCKSTEP % _short(written)}")


def _excerpt(written: str, text: str, found: re.Match[str]) -> str:
    """The asm statement as it is written, with its strings, from its keyword on."""
    place = text[: found.start()].count(found[0])
    at = [m.start() for m in re.finditer(rf"\b{found[0]}\b", written)]
    return _short(written[at[min(place, len(at) - 1)] :])


def _short(text: str, longest: int = 100) -> str:
    text = " ".join(text.split())
    return text if len(text) <= longest else f"{text[: longest - 4]} ..."


def rewrite_shared(text: str) -> str:
    """Turn `extern __shared__ T s[];` into a pointer to the block's dynamic shared memory.

    C++ has no array whose address is chosen at launch. `static` beside `__shared__` is dropped, since `__shared__` may
    itself expand to it (qualifiers.h). Lines keep their numbers.
    """
    skip = [found.span() for found in _COMMENT_OR_STRING.finditer(text)]

    def pointer(found: re.Match[str]) -> str:
        if any(start <= found.start() < end for start, end in skip):
            return found[0]
        kind, name = found["type"].strip(), found["name"]
        if _inside_function(text[: found.start()]):
            made = f"{kind}* const {name} = static_cast<{kind}*>(cudalab::dynamic_shared());"
        else:
            made = f"static cudalab::dynamic_array<{kind}> {name};"
        return made + "\n" * found[0].count("\n")

    static = _STATIC_SHARED.sub("__shared__", _DYNAMIC_SHARED.sub(pointer, text))
    return _ALIGNED_SHARED.sub(r"\2\1__shared__", static)  # C++ wants alignas() first


def _inside_function(before: str) -> bool:
    """Whether a brace is open that neither `extern "C"` nor a namespace opened."""
    before = _COMMENT_OR_STRING.sub(lambda m: '"C"' if m[0] == '"C"' else " ", before)
    open_braces: list[bool] = []
    for found in re.finditer(r"[{}]", before):
        if found[0] == "{":
            transparent = re.search(r'(?:extern\s*"C"|namespace(?:\s+[\w:]+)?)\s*$', before[: found.start()])
            open_braces.append(transparent is None)
        elif open_braces:
            open_braces.pop()
    return any(open_braces)
