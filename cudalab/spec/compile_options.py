"""The options of the CUDA compiler that a spec may give, and what to do in place of others."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

_SWITCHES = ("use_fast_math", "extra-device-vectorization", "restrict", "expt-relaxed-constexpr", "extended-lambda")
_CHOICES = ("ftz", "fmad", "prec-div", "prec-sqrt")  # true or false
STANDARD = "-std=c++17"  # without another one in the options
_STANDARD = r"--?std=c\+\+(17|20)"
_MACRO = r"-D[A-Za-z_]\w*(=[\w.+-]*)?"
_ALLOWED = re.compile(
    rf"{_MACRO}|{_STANDARD}|--?({'|'.join(_SWITCHES)}|maxrregcount=\d+|({'|'.join(_CHOICES)})=(true|false))"
)
ADVICE = (
    "a tuple of -DNAME=VALUE, --use_fast_math, --fmad=, --ftz=, --prec-div=, --prec-sqrt= (true or false), "
    "--maxrregcount=N, --restrict, --extra-device-vectorization, --extended-lambda, --expt-relaxed-constexpr and "
    "-std=c++20, "
    "such as ('--use_fast_math',)"
)
# Options by how they begin, and what cudalab has in their place.
_INSTEAD = (
    (r"-?-std\b", "every path compiles C++17, on the CPU too; leave it out, or give -std=c++20"),
    (
        r"-?-(rdc|relocatable-device-code|dc|device-c|dlink|device-link|dlto)\b",
        "a kernel is one .cu that is compiled alone, without linking: #include the other file (a .cuh or a .cu beside "
        "it), and launch what a kernel would launch from the spec, by a tuple of launches",
    ),
    (
        r"-?-(I|include-path|isystem|include|pre-include)",
        "headers are looked for in the folder of the .cu; put them there, or set NVCC_APPEND_FLAGS=-I/path for nvcc",
    ),
    (
        r"-?-(O\d?|optimize|dopt|g|G|debug|device-debug|lineinfo|generate-line-info)\b",
        "device code is compiled with -O3, and inspect adds -lineinfo; leave it out",
    ),
    (r"-?-(l|L|library|library-path)", "a kernel is device code alone and links no library; time one as a rival"),
    (
        r"-?-(arch|gpu-architecture|code|gpu-code|gencode|generate-code)\b",
        "each path compiles for the GPU that it runs on; leave it out",
    ),
    (r"-?-default-stream\b", "the lab launches on a stream of its own; leave it out"),
    (r"-?-(Xptxas|ptxas-options|Xcompiler|compiler-options|Xlinker|linker-options|ccbin|compiler-bindir)\b",
     "options of other programs are not passed on; leave it out (--maxrregcount=N limits registers, and inspect "
     "shows what ptxas says)"),
)  # fmt: skip


def fits(value: Any) -> bool:
    """Whether nvcc and NVRTC both have an option, and it changes nothing but the code of the kernels."""
    return isinstance(value, str) and bool(_ALLOWED.fullmatch(value))


# Options that a `.cu` needs, by what a compiler's message or the code says.
_NEEDED = (
    ("--expt-relaxed-constexpr", r"--expt-relaxed-constexpr", ""),
    ("--extended-lambda", r"-extended-lambda\b", ""),
    ("-std=c++20", r"-std=(c|gnu)\+\+20", r"\b(concept|requires|consteval|constinit|co_yield|co_await)\b|<=>"),
)
# What to do in place of what a compiler's message refuses.
_DO = (
    (r"[Uu]nresolved extern function", "A .cu is compiled alone: #include the file that defines the function."),
    (r"requires separate compilation", "A kernel launches no kernel here: let the entry return a tuple of launches."),
    (r"\btexture is not a template", "CUDA 12 has no texture references: let the kernel read an array."),
)


def advice(message: str, code: str, flags: Iterable[str]) -> str:
    """What to do where a compiler refuses code (without comments): the `options` that it lacks; "" if none shows."""
    given = {option.lstrip("-") for option in flags}
    needed = [
        option
        for option, said, written in _NEEDED
        if option.lstrip("-") not in given and (re.search(said, message) or (written and re.search(written, code)))
    ]
    lines = [f"Add to the options of the spec: options=({', '.join(map(repr, needed))},)"] if needed else []
    return "".join(f"\n{line}" for line in (*lines, *(do for said, do in _DO if re.search(said, message))))


def standard(options: Iterable[str]) -> str:
    """Return the C++ standard among the options, the last one, or STANDARD."""
    given = [f"-{option.lstrip('-')}" for option in options if re.fullmatch(_STANDARD, option)]
    return given[-1] if given else STANDARD


def of_nvcc_alone(options: Iterable[str]) -> tuple[str, ...]:
    """The options of nvcc and NVRTC that are neither macros nor the C++ standard, which g++ takes too."""
    return tuple(option for option in options if not (option.startswith("-D") or re.fullmatch(_STANDARD, option)))


def refused(options: Iterable[Any]) -> str:
    """The first option that is refused for a reason of its own, with what to do; "" for none."""
    for option in options:
        if not isinstance(option, str) or fits(option):
            continue
        for begins, instead in _INSTEAD:
            if re.match(begins, option):
                return f"options has {option!r}: {instead}"
        name = re.split(r"[= ]", option.lstrip("-"))[0].replace("-", "_")
        known = {one.replace("-", "_"): one for one in (*_SWITCHES, *_CHOICES, "maxrregcount")}
        if close := get_close_matches(name, known, n=1, cutoff=0.8):
            value = {"maxrregcount": "=32"}.get(close[0], "=true" if known[close[0]] in _CHOICES else "")
            return f"options has {option!r}; write it as --{known[close[0]]}{value}"
    return ""
