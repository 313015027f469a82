"""The function that makes the inputs of a first spec, where one of them says at which places parts of others begin."""

from __future__ import annotations

from cudalab.spec.scaffold_fields import Subject, high_of, offsets

OFFSETS = """\
    # {name}: where parts begin, and {total} at the end.
    {name} = np.sort(rng.integers(0, {total}, {length}, endpoint=True)).astype("{kind}")
    {name}[0], {name}[-1] = 0, {total}"""


def inputs_function(subject: Subject) -> list[str]:
    """The function `inputs`, where the spec needs one."""
    if not (found := offsets(subject)):
        return []
    names, dimensions = subject.inputs, subject.dimensions
    taken = f"    {', '.join(dimensions)}{',' * (len(dimensions) == 1)} = shape"
    cuts = [
        OFFSETS.format(name=names[name], total=total, length=subject.shapes[name], kind=_dtype(subject, name))
        for name, total in found.items()
    ]
    made = [f'        "{mine}": {mine if name in found else _made(subject, name)},' for name, mine in names.items()]
    return ["\n".join(["def inputs(shape, dtype, rng):", taken, *cuts, "    return {", *made, "    }"])]


def _made(subject: Subject, name: str) -> str:
    """The values of an input, as an expression."""
    words = subject.shapes[name].split()
    shape = f"({', '.join(words)}{',' * (len(words) == 1)})"
    if high := high_of(subject, name):
        return f'rng.integers(0, {high}, {shape}).astype("{_dtype(subject, name)}")'
    of = f'np.dtype("{kind}")' if (kind := subject.dtype_of(name)) else "dtype"
    return f"draw({shape}, {of}, rng)"


def _dtype(subject: Subject, name: str) -> str:
    return subject.dtype_of(name) or subject.dtypes[0]
