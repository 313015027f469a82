"""A first spec for a `.cu`: what its signatures and bodies say, and TODO where only its author knows."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from cudalab.base.errors import InputError
from cudalab.spec import cuda_source, entry_names, host_dispatch, host_launch, launch_check, signatures
from cudalab.spec.dtype_macro import NAME as SCALAR
from cudalab.spec.guessed import Form
from cudalab.spec.host_launch import HostLaunch
from cudalab.spec.kernel import Kernel
from cudalab.spec.scaffold_fields import Told
from cudalab.spec.scaffold_plan import planned
from cudalab.spec.scaffold_text import spec
from cudalab.spec.signatures import Signature
from cudalab.spec.unfilled import MARK as HOLE

__all__ = ["HOLE", "like", "of_file"]


def of_file(path: Path) -> str:
    """The text of a spec for the `.cu` at `path`. Raises SpecError if it cannot be read, InputError without entries."""
    text = cuda_source.read(path)
    numbers = signatures.constants(text)
    whole = cuda_source.whole(path)
    launches = host_launch.by_kernel(whole, {**signatures.constants(whole), **numbers})
    dispatched = host_dispatch.by_kernel(whole)
    forms = [_form(signature, numbers, launches, text, dispatched) for signature in signatures.signatures(text)]
    if not forms:
        raise InputError(f"{path} has no __global__ function; add one: a spec needs a function to launch")
    writing = [form for form in forms if any(not p.constant for p in form.pointers)]
    if not writing:
        raise InputError(
            f"{path}: no __global__ function writes to an array: pointers to const are inputs, such as const float* x, "
            "other pointers are outputs, such as float* y"
        )
    usable = [form for form in writing if not any(p.to_pointers for p in form.pointers)]
    if not usable:
        deep = next(p for p in writing[0].pointers if p.to_pointers)
        raise InputError(f"{path}: {writing[0].signature.entry} takes {deep.text!r}; {launch_check.POINTERS}")
    included = b" ".join([text.encode(), *cuda_source.local_headers(text, path).values()]).decode(errors="replace")
    plan = planned(path.stem, sorted(usable, key=lambda form: bool(form.signature.template)))
    code = cuda_source.blank_comments(text)
    return spec(plan, Told(included, code, _summary(path.stem, text), entry_names.constants(code), dispatched))


def _form(
    signature: Signature, numbers: Mapping[str, int], launches: Mapping[str, list[HostLaunch]], text: str,
    dispatched: Collection[str],
) -> Form:  # fmt: skip
    name = signature.path.rpartition("::")[2]
    own = launches.get(name, [])
    if signature.template and not signature.instances:
        deduced = name in dispatched and len(signature.template) == 1 and not any(one.template for one in own)
        instances = ((SCALAR,),) if deduced else host_launch.instances(signature.template, own, text)
        signature = replace(signature, instances=instances)
    return Form(signature, numbers, tuple(own))


def _summary(name: str, text: str) -> str:
    """Return the first line of the comment at the top of the file, or of that above the first `__global__` function."""
    before = text[: match.start()] if (match := re.search(r"\b__global__\b", text)) else ""
    above = re.search(
        r"(?:^|\n)((?:[ \t]*//[^\n]*\n)+)\s*(?:template\s*<[^{};]*>\s*|extern\s+\S+\s*|static\s+)*$", before
    )
    top = re.match(r"\s*(?://+|/\*+)\s*([^\n]*)", text)
    said = top[1] if top and "opyright" not in top[1] else ""
    said = said or (re.sub(r"^\s*//+\s*", "", above[1].split("\n")[0]) if above else "")
    said = " ".join(re.sub(r"\*/.*", "", said).replace('"', "'").replace("\\", "/").split()).strip("=-*/ ")
    fit = any(map(str.isalpha, said)) and said.isprintable() and not re.search(r"[{}]|__|;$", said)
    whole = said if len(said) <= 90 else re.split(r"(?<=[.;:]) ", said)[0]
    return textwrap.shorten(whole.rstrip(".:;,"), 90, placeholder=" ...") if fit else name.replace("_", " ")


def like(kernel: Kernel, path: Path) -> dict[Path, str]:
    """Copy one of the lab's kernels as `path`, a `.cu`: return path and text of the pair and of its parts."""
    text = cuda_source.read(kernel.cu)
    files = {path: kernel.cu.read_text(encoding="utf-8")}
    own = Path(kernel.file)
    spec = re.sub(rf"(?m)^{kernel.name} = Kernel\(", f"{path.stem} = Kernel(", own.read_text(encoding="utf-8"))
    files[path.with_suffix(".py")] = spec
    parts = [*cuda_source.local_headers(text, kernel.cu), *kernel.form_files.values()]
    for part in parts:
        files[path.parent / part.relative_to(own.parent)] = part.read_text(encoding="utf-8")
    return files
