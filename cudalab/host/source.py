"""Scan a `.cu` before g++ compiles it, and rewrite its dynamic shared arrays."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from cudalab.base.errors import CompileError, NotOnCpu, SpecError
from cudalab.host import system_calls
from cudalab.spec import entry_names, host_libraries
from cudalab.spec.cuda_source import blank_comments, entries_of, split_parameters

# With any of these the threads of a block depend on each other, and each gets a stack of its own. The lab's headers
# have cudalab::running or cudalab::looked where they need that.
_COOPERATION = re.compile(
    r"\b(?:__shared__|__activemask|__sync\w+|__shfl\w*|__ballot\w*|__(?:any|all)_sync"
    r"|__match_\w+|__reduce_\w+|__cluster\w+|__threadfence\w*|__nanosleep|atomic(?:CAS|Exch)\w*"
    r"|cudalab::(?:running|looked))\b"
    r"|\bwhile\s*\([^;{}]*\b(?:atomic[A-Z]\w+|__ldc[gv])\s*\("
)
_CONTENDING = re.compile(r"\batomic[A-Z]\w+|\bcudalab::exchange_with\b")
_WAITING = re.compile(r"\b(?:atomic[A-Z]\w+|__ldc[gv]|__threadfence\w*|__nanosleep|cudalab::looked|phase_barrier)\b")
# What would fail with an unclear message, or compile and be wrong: a pattern for its names in the source.
_NOT_HERE = {
    "textures": r"cudaTextureObject_t|texture\s*<|tex[123]D(?:Lod|Grad|fetch|Layered)?\s*<|tex1Dfetch|__ldg_tex",
    "surfaces": r"cudaSurfaceObject_t|surf[123]D(?:read|write)",
    "kernel launches from a .cu (dynamic parallelism, host code)": r"<<<",
    "tensor cores' built-in functions": r"\b__(?:h|b|i|d|tf32)?mma_\w+",
    "4-bit and 1-bit matrices": r"\b(?:wmma::)?experimental::(?:precision|bmma)\w*|\bbmma_sync\b",
    "the pipeline of CUDA 11.0": r"\bnvcuda::experimental\b",
    "bulk copies (TMA)": r"\bcp_async_bulk\w*|\bCUtensorMap\b",
    "PTX": r"\bcuda::ptx\b|\bptx::\w+",
    "barriers across GPUs": r"\bthis_multi_grid\b|\bmulti_grid_group\b",
    "shuffles and votes without a mask": r"\b__shfl(?:_up|_down|_xor)?\s*\(|\b__(?:any|all|ballot)\s*\(",
    "named barriers": r"\b__barrier_sync\w*|\b__named_barrier\w*",
    "CUB's device-wide algorithms": r"\bcub::Device\w+",
    "this part of CUB": r"\bcub::(?:Block(?:MergeSort|RadixRank\w*|Shuffle|RunLengthDecode|RakingLayout)"
    r"|Warp(?:MergeSort|Load|Store)|Agent\w+|Grid\w+|StableOddEvenSort|TilePrefixCallbackOp|\w+Iterator)\b",
    "Thrust's algorithms and containers": r"\bthrust::(?:device\w*|host\w*|system|cuda|seq|reduce|sort\w*|transform\w*"
    r"|inclusive_scan\w*|exclusive_scan\w*|for_each\w*|copy\w*|fill\w*)\b",
    "cuRAND generators other than Philox and XORWOW": r"\bcurandState(?:MRG|Mtgp|Sobol|Scrambled)\w*"
    r"|\bcurand_mtgp32\w*",
    "cuRAND's Poisson and discrete distributions": r"\bcurand_(?:poisson|discrete)\w*",
    "cuRAND's host API": r"\bcurand(?:Create|Generate|Destroy|Set)\w*\s*\(",
    "the CUDA runtime's API": r"\bcuda(?:Malloc|Mem|Free|DeviceSynchronize|LaunchKernel|Stream|Event)\w*\s*\(",
    "address space conversions and queries": r"\b__cvta_\w+|\b__is(?:Shared|Global|Local|Constant)\b",
}
_REMEDY = {
    "shuffles and votes without a mask": "no GPU since Volta has them; use those that end in _sync",
    "CUB's device-wide algorithms": "the host launches them; measure them as a rival (rivals= of the spec)",
    "Thrust's algorithms and containers": "the host launches them; measure them as a rival (rivals= of the spec)",
    "the CUDA runtime's API": f"the lab allocates, copies and launches; {host_libraries.REMEDY}",
    "kernel launches from a .cu (dynamic parallelism, host code)": "the spec says how entries are launched; where this "
    f"is host code, {host_libraries.REMEDY}",
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
# Types that the lab's own headers have before the first line of a `.cu`, and the header that CUDA has them in.
_TYPES = {
    "cuda_fp16.h": re.compile(r"\b__half2?\b"),
    "cuda_bf16.h": re.compile(r"\b__nv_bfloat162?\b"),
    "cuda_fp8.h": re.compile(r"\b__nv_fp8\w+\b"),
    "cuComplex.h": re.compile(r"\bcu(?:Float|Double)?Complex\b"),
}
_WITH_ALL = re.compile(r"^(?:cooperative_groups|cub|cuda|thrust)[/.]")  # headers that include those of the narrow types
_ATTRIBUTE = re.compile(
    r"(?:declared with (?:attribute error|'error' attribute)|static assertion failed[^:\n]*): "
    r"(?P<what>.* cannot run on the CPU)"
)
# What the lab's headers lack of a library of CUDA: a name in a namespace, a member of a class, a function's prefix.
_UNKNOWN = re.compile(
    r"^(?P<place>[^\s:]+:\d+):\d+: error: (?:"
    r"'(?P<name>\w+)' is not a member of '(?P<space>cub|thrust|cuda(?:::std)?)'"
    r"|.*'(?:class|struct) (?P<of>cub::\w+)\b.*has no member named '(?P<member>\w+)'"
    r"|'(?P<function>(?:curand|__nv_|cuC)\w+)' (?:was not declared|does not name a type|has not been declared))",
    re.MULTILINE,
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
_ALIGNED = re.compile(r"\b(?:__align__|__builtin_align__|alignas)\s*\((?:[^()]|\([^()]*\))*\)")
_DYNAMIC_SHARED = re.compile(
    rf"(?:{_ALIGNED.pattern}\s*)?"
    rf"\b(?:extern\s+(?:\"C\"\s+)?(?:{_ALIGNED.pattern}\s*)?__shared__|__shared__\s+extern)\b(?P<rest>[^;{{}}=#]*\])"
)
_ARRAY = re.compile(r"(?P<base>[\w:<>,\s]*?)(?P<stars>[*\s]*)\b(?P<name>\w+)\s*\[\s*\](?P<inner>(?:\s*\[[^\[\]]*\])*)")
_NOT_HERE_PATTERNS = [(what, re.compile(names)) for what, names in _NOT_HERE.items()]
_OURS = f"{Path(__file__).parent / 'include'}{os.sep}"
_LAB = f"{Path(__file__).parent}{os.sep}"
_ALIGNED_SHARED = re.compile(r"\b__shared__(\s+)(alignas\s*\([^()]*(?:\([^()]*\)[^()]*)*\))")
_ERROR = re.compile(r"^(?P<file>\S[^:\n]*):\d+:\d+: (?:fatal )?error: (?P<what>.*)$", re.MULTILINE)
_STATIC_ARRAY = re.compile(r"(?<!extern )\b__shared__\b(?!\s+extern\b)")
_STATIC_SHARED = re.compile(r"\bstatic\s+__shared__\b|\b__shared__\s+static\b")


class Scan:
    """The entries of a `.cu`, and how its threads must run, from its preprocessed text.

    Attributes:
        entries: names of the `__global__` functions that are not templates, in order.
        functions: all `__global__` functions, templates among them.
        static_shared: whether it has static shared arrays.
        constants: names of the `__constant__` variables.
        fibers: whether threads of a block depend on each other.
        contends: whether several threads may change the same memory by atomic operations, and others between them.
        waits: whether a thread may wait for another one by an atomic or a load.
        volatile: whether a thread may look at memory again and again, until another one changes it.
    """

    def __init__(self, preprocessed: str, name: str) -> None:
        """Take the output of `g++ -E` for the file `name`; raises NotOnCpu for what cannot run on the CPU.

        The preprocessor has removed comments, resolved every `#if` and expanded macros, but it does not know CUDA's own
        names, so `__global__` and the like are still there.
        """
        self.name = name
        self._lines = lines = list(_own_lines(preprocessed))
        code = "\n".join(text for _, _, text, _ in lines)
        self.volatile = any(_VOLATILE.search(text) for file, _, text, _ in lines if not file.startswith(_OURS))
        self.fibers = self.volatile or bool(_COOPERATION.search(code))
        self.entries = entries_of(code)
        self.contends = bool(_CONTENDING.search(code))
        self.waits = self.fibers and bool(_WAITING.search(code))
        self.functions = entry_names.functions(code)
        self.static_shared = bool(_STATIC_ARRAY.search(code))
        self.constants = tuple(entry_names.constants(code))
        _refuse(lines, name)
        if lacking := _without_its_header(lines, preprocessed):
            raise CompileError(lacking)

    def cluster(self, name: str) -> str:
        """What __cluster_dims__ of an entry holds; "" for none. Raises NotOnCpu for what cannot be read alone."""
        one = entry_names.resolved_among(self.functions, name)
        found = {f.cluster for f in self.functions if (f.path, f.name) == (one.path, one.base) and f.cluster}
        if len(found) > 1 or (found and one.arguments is not None and re.search("[A-Za-z_]", next(iter(found)))):
            raise NotOnCpu(
                f"{self.name}: __cluster_dims__({found.pop()}) of a template cannot run on the CPU; write numbers, or "
                "Launch(..., cluster=(2,))"
            )
        return found.pop() if found else ""

    def exports(self, asked: Sequence[str]) -> dict[str, tuple[str, str]]:
        """By the name of an entry: the end of its functions' names, and an expression with its address.

        The plain ones are exported under their names, and what is `asked` for beside them under at_0, at_1, ...
        Raises SpecError for a name that the source cannot have.
        """
        several = entry_names.overloaded(self.functions)
        plain = {f.name: (f.name, f"&{f.full}") for f in self.functions if f.template is None and f.name not in several}
        for i, name in enumerate(dict.fromkeys(name for name in asked if name not in plain)):
            if wrong := entry_names.wrong_among(self.functions, name):
                raise SpecError(f"{self.name}: {wrong}")
            plain[name] = f"at_{i}", entry_names.resolved_among(self.functions, name).expression
        return plain

    def system_call(self, message: str) -> str:
        """What to say of a linker's message about a function that starts processes; "" for any other error."""
        if not (called := system_calls.function_in(message)):
            return ""
        name = re.compile(rf"\b{called}\b")
        own = (f"{file}:{number}: " for file, number, text, _ in self._lines if name.search(text))
        return f"{next(own, f'{self.name}: ')}{system_calls.REFUSAL % called}"

    def unfit(self, message: str, exported: Mapping[str, tuple[str, str]]) -> str:
        """What to say of a compiler's message about the line of an entry that is asked for; "" for any other error."""
        first = _ERROR.search(message)
        if not first or not (first["file"] == "(exports)" or first["file"].startswith(_LAB)):
            return ""
        for name, (end, _) in exported.items():
            if end.startswith("at_") and re.search(rf"cudalab_(?:run|parameters)_{end}\b|EXPORT\({end},", message):
                known = [f for f in self.functions if f.name == entry_names.asked(name).base]
                said = (f.with_types if f.template is None else f.written for f in known)
                return f"entry {name!r} does not fit {' or '.join(said) or 'any function'}: {first['what']}"
        return ""


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
    """Return a clearer message where the preprocessor lacks one of CUDA's headers; None for any other error."""
    lacking = _LACKING.search(message)
    if not lacking or not _HEADERS.match(lacking["header"]):
        return None
    said = f"{lacking['file']}:{lacking['line']}: <{lacking['header']}> cannot run on the CPU"
    advice = host_libraries.advice(lacking["header"])
    return f"{said}; {advice}" if advice else said


def forbidden(message: str) -> str | None:
    """What a call of a function with CUDALAB_NOT_ON_CPU (qualifiers.h) is, and its line; None for any other error.

    A static_assert of a header says it in the same words.
    """
    if not (what := _ATTRIBUTE.search(message)):
        return None
    places = [m["place"] for m in _FORBIDDEN.finditer(message) if not m["place"].startswith(_LAB)]
    return f"{places[-1]}: {what['what']}" if places else what["what"]


def unknown_name(message: str) -> str | None:
    """Return what of a library of CUDA the lab's headers lack, and its line; None for any other error."""
    if not (found := _UNKNOWN.search(message)) or found["place"].startswith(_LAB):
        return None
    scope = found["space"] or found["of"]
    name = found["name"] or found["member"] or found["function"]
    return f"{found['place']}: {f'{scope}::' if scope else ''}{name} cannot run on the CPU"


def _without_its_header(lines: list[tuple[str, int, str, str]], preprocessed: str) -> str | None:
    """The first use of a type whose header is not included; nvcc does not know it."""
    files = (marker[2] for text in preprocessed.splitlines() if (marker := _LINE_MARKER.match(text)))
    included = {file.removeprefix(_OURS) for file in files if file.startswith(_OURS)}
    if any(_WITH_ALL.match(file) for file in included):
        return None
    for header, types in _TYPES.items():
        for file, number, text, _ in lines if header not in included else ():
            if not file.startswith(_OURS) and (found := types.search(text)):
                return f"{file}:{number}: {found[0]} needs #include <{header}>"
    return None


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
    bare, known = blank_comments(text), set[tuple[str, int]]()
    parts, last = list[str](), 0
    for found in _DYNAMIC_SHARED.finditer(bare):
        declared = list(_declared(found["rest"]))
        if not declared:
            continue
        line = bare[bare.rfind("\n", 0, found.start()) + 1 : found.start()]
        if _inside_function(bare[: found.start()]) or line.lstrip().startswith("#"):  # a macro for use in kernels
            made = "; ".join(f"{before}* const {name}{after} = {value}" for before, name, after, value in declared)
        else:
            scope = _open_brace(bare[: found.start()])  # in one scope an array may be declared twice
            made = " ".join(_at_file_level(*one) for one in declared if (one[1], scope) not in known).removesuffix(";")
            known |= {(name, scope) for _, name, _, _ in declared}
        parts += [text[last : found.start()], made, "\n" * found[0].count("\n")]
        last = found.end()
    static = _STATIC_SHARED.sub("__shared__", "".join([*parts, text[last:]]))
    return _ALIGNED_SHARED.sub(r"\2\1__shared__", static)  # C++ wants alignas() first


def _declared(rest: str) -> Iterator[tuple[str, str, str, str]]:
    """For each array of a declaration: C++ before and after its name as a pointer, and the value of the pointer."""
    items, _ = split_parameters(_ALIGNED.sub(" ", rest).strip() + ")", 0)
    base = ""
    for item in items:
        if not (found := _ARRAY.fullmatch(item)):
            return
        base = found["base"].strip() or base
        kind, inner = f"{base}{found['stars']}", found["inner"].strip()
        before, after = (f"{kind} (", f"){inner}") if inner else (kind, "")
        yield before, found["name"], after, f"static_cast<{kind} (*){inner}>(cudalab::dynamic_shared())"


def _at_file_level(before: str, name: str, after: str, value: str) -> str:
    setter = f"cudalab::at_block_start([]() CUDALAB_UNWATCHED {{ {name} = {value}; }})"
    return f"static thread_local {before}* {name}{after}; static const bool cudalab_sets_{name} = {setter};"


def _open_brace(before: str) -> int:
    """The place of the last brace that is open; -1 for none."""
    places: list[int] = []
    for found in re.finditer(r"[{}]", before):
        if found[0] == "{":
            places.append(found.start())
        elif places:
            places.pop()
    return places[-1] if places else -1


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
