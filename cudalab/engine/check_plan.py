"""The groups of a check: the first size, hard values, awkward shapes, arrays off alignment, many blocks, characters."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from cudalab.base.globs import split
from cudalab.checks import characters, counters, hard_inputs, inputs, many_blocks, misaligned, other_scalars, subnormals
from cudalab.engine.groups import HUGE, MANY, SAME, Group
from cudalab.engine.plan import with_dtypes
from cudalab.spec.dtype import DType
from cudalab.spec.inputs import PEAK, SUBNORMAL
from cudalab.spec.kernel import Kernel, Shape

QUICK = 1 << 16  # values of 32 bits that a bench tries


def checks(
    names: Collection[str],
    dtype_text: str,
    exhaustive: bool = False,
    sample: int = hard_inputs.SAMPLE_SIZE,
    rivals: str = "",
    huge: bool = False,
) -> list[Group]:
    """The groups of a check without sizes: hard values, the first size, awkward shapes, arrays off their alignment, ...

    A function of one array gets every value of 16 bits; of 32 bits `sample` values, or every value if `exhaustive`,
    which takes minutes on a GPU. A function of two arrays gets pairs of special values, and special values in each
    array beside normal values in the other. At awkward shapes pointwise kernels also run in place.
    """
    found: list[Group] = []
    for name, kernel, dtypes in with_dtypes(names, dtype_text, rivals):
        for kind in dtypes:
            hard = _hard_values(name, kernel, kind, exhaustive, sample) if kernel.pointwise else []
            found += hard
            label, shape = next(iter(kernel.sizes.items()))
            found.append(Group(kernel, label, shape, kind, alias=name))
            edges = {"x".join(map(str, edge)): edge for edge in kernel.edges}
            found += [Group(kernel, text, edge, kind, awkward=True, alias=name) for text, edge in edges.items()]
            if kind is dtypes[0]:
                found += _many_blocks(name, kernel, kind, [group.shape for group in found if group.kernel is kernel])
                found += _counted(name, kernel, kind, huge)
            found += _other_lengths(name, kernel, kind)
            found += _misaligned(name, kernel, kind)
            found += [] if hard else _characters(name, kernel, kind)  # last: a message begins with usual values
        if huge:
            found.append(Group(kernel, "beyond 2^31", (), dtypes[0], values=HUGE, awkward=True, alias=name))
    return [replace(group, rivals=split(rivals)) for group in found]


def hard(group: Group) -> list[Group]:
    """The groups of a bench that try the hard inputs of a group's kernel in its dtype: values, or characters."""
    kernel, kind, name = group.kernel, group.dtype, group.name
    values = _hard_values(name, kernel, kind, False, QUICK) if kernel.pointwise else []
    return [
        replace(one, forms=group.forms, old=group.old, scalars=group.scalars)
        for one in values or _characters(name, kernel, kind)
    ]


def _hard_values(name: str, kernel: Kernel, kind: DType, exhaustive: bool, sample: int) -> list[Group]:
    def groups(*cases: tuple[str, int, str]) -> list[Group]:
        """Those at a shape that the kernel takes."""
        shapes = [hard_inputs.shape(kernel, n, exact=which != hard_inputs.SAMPLE) for _, n, which in cases]
        return [
            Group(kernel, label, shape, kind, values=which, alias=name)
            for (label, _, which), shape in zip(cases, shapes, strict=True)
            if shape is not None
        ]

    kinds = inputs.floating(kernel, kind)
    if not kinds or len(kinds) > 2:
        return []
    bits = 8 * kinds[0].itemsize
    if len(kinds) == 2 and kinds[0] != kinds[1]:
        return groups(("hard values of each", 2 << 16, hard_inputs.EACH))
    if len(kinds) == 2:
        label, n = ("all values", 1 << bits) if bits <= 16 else ("every exponent", min(sample, hard_inputs.EACH_SIZE))
        pairs = "special pairs", hard_inputs.pairs_size(kinds[0]), hard_inputs.PAIRS
        return groups(pairs, (f"{label} of each", 2 * n, hard_inputs.EACH))
    if bits <= 16 or (exhaustive and bits == 32):
        return groups(("all values", 1 << bits, hard_inputs.EVERY))
    return groups(("every exponent", sample, hard_inputs.SAMPLE))


def _characters(name: str, kernel: Kernel, kind: DType) -> list[Group]:
    """Groups with inputs of one character each, where some input is free, at one of the small shapes.

    Peaks are tried at the longest rows, where one value is the least part of a sum.
    """
    shape, chosen = characters.at(kernel), characters.chosen(kernel)
    if not shape or not chosen or not characters.apply(kernel, shape, kind):
        return []
    at = [
        (characters.longest(kernel) if which == PEAK else shape, which)
        for which in chosen
        if which != SUBNORMAL or kind.name in subnormals.KINDS
    ]
    return [
        Group(kernel, f"{'x'.join(map(str, one))}, {which}", one, kind, values=which, awkward=True, alias=name)
        for one, which in at
    ]


def _many_blocks(name: str, kernel: Kernel, kind: DType, tried: list[Shape]) -> list[Group]:
    """Groups at sizes whose grid has many blocks, and one that says why there is none."""
    shapes, lacking = many_blocks.shapes(kernel, kind, tried)
    found = [
        Group(kernel, f"{'x'.join(map(str, shape))}, {n} blocks", shape, kind, values=MANY, awkward=True, alias=name)
        for shape, n in shapes.items()
    ]
    if lacking:
        found.append(Group(kernel, MANY, (), kind, values=MANY, awkward=True, alias=name, why=tuple(lacking.items())))
    return found


def _counted(name: str, kernel: Kernel, kind: DType, huge: bool) -> list[Group]:
    """Groups with inputs of one value throughout, which an output counts beyond what its counters may hold."""
    shapes = [counters.shape(kernel, kind, limit) for limit in (counters.BITS_16, counters.FLOAT32)[: 1 + huge]]
    return [
        Group(kernel, f"{'x'.join(map(str, shape))}, one value", shape, kind, values=SAME, awkward=True, alias=name)
        for shape in shapes
        if shape
    ]


def _other_lengths(name: str, kernel: Kernel, kind: DType) -> list[Group]:
    """Groups with other values of scalars that are lengths of outputs, at the largest of the small shapes."""
    shape, others = other_scalars.lengths(kernel)
    text = "x".join(map(str, shape))
    return [
        Group(
            kernel.at_lengths({scalar: n}, text, shape), f"{text}, {scalar}={n}", shape, kind, awkward=True, alias=name,
            scalars=((scalar, n),),
        )
        for scalar, values in others.items()
        for n in values
    ]  # fmt: skip


def _misaligned(name: str, kernel: Kernel, kind: DType) -> list[Group]:
    """Groups with arrays off their alignment: all arrays, and each array alone, at the largest of the small shapes.

    Also all arrays at the smallest shape, which may end before the first aligned address, and at the first size, whose
    launch may be another one. A workspace stays as it is: the lab allocates it, also for a call from Python.
    """
    shapes = kernel.small(kernel.edges, 1 << 16)
    if not shapes:
        return []
    kinds = kernel.input_kinds(kind)
    given = [name for name in kernel.array_names if name not in kernel.workspace]
    sizes = {name: (kinds[name] if name in kinds else kernel.kind_of(name, kind)).itemsize for name in given}
    still = (0,) * len(kernel.workspace)  # the last ones of array_names
    least = {name: max(size, kernel.alignment(name)) for name, size in sizes.items()}
    cases = {what: (*moved, *still) for what, moved in misaligned.offsets(least).items()}
    chosen = [(shapes[0], next(iter(cases)))] if len(shapes) > 1 else []
    first = next(iter(kernel.sizes.values()))
    chosen += [(first, next(iter(cases)))] if 0 < kernel.elements(first) <= 1 << 20 and first not in shapes else []
    chosen += [(shapes[-1], what) for what in cases]
    return [
        Group(
            kernel, f"{'x'.join(map(str, shape))}, {what}", shape, kind, awkward=True, offsets=cases[what], alias=name
        )
        for shape, what in chosen
    ]
