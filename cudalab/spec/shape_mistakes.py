"""Mistakes in the shapes of a spec: names that nothing defines, lengths that tell no name, sizes that make no sense."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cudalab.base.errors import InputError, unknown
from cudalab.spec import allowed, dimensions
from cudalab.spec.dtype import DTYPES
from cudalab.spec.sized import Sized


def of_arrays(spec: Sized) -> Iterator[str]:
    """What is wrong with `shapes`, and with the ends of `inputs`, as far as no size is concerned."""
    for name, given in spec.shapes.items():
        if name not in spec.array_names:
            yield f"shapes: {unknown('array', name, spec.array_names)}"
        if name in spec.input_names and not isinstance(given, str):
            yield f"shapes: {name} is an input; give words such as 'rows cols'"
    for name in spec.input_names if spec.shapes and not callable(spec.inputs) else ():
        if name not in spec.shapes:
            yield f"shapes has no input {name!r}; give its dimensions, such as 'rows cols'"
    for name in spec.workspace:
        if name not in spec.shapes:
            yield f"shapes has no {name!r}, which workspace names; give {dimensions.WORDS}"
    if wrong := dimensions.untold(spec.shapes, spec.input_names):
        yield f"shapes: {wrong}"
    ends = spec.inputs.items() if isinstance(spec.inputs, Mapping) else ()
    words = [(f"shapes: {name}", given) for name, given in spec.shapes.items() if isinstance(given, str)]
    words += [(f"inputs: {name}", end) for name, one in ends for end in (one.low, one.high) if isinstance(end, str)]
    for where, given in words:
        for odd in dimensions.names([given]):
            if odd not in spec.dimension_names and odd not in spec.length_scalars:
                yield f"{where}: {dimensions.undefined(given, odd)}"
    if spec.dims and not spec.shapes:
        yield "dims needs shapes=, which names the dimensions, such as {'x': 'rows cols'}"
    for name in (*spec.input_names, *spec.outs) if spec.independent else ():
        given, first = str(spec.shapes.get(name, "")), spec.in_parts(name)
        if not first and (name == spec.input_names[0] or name in spec.outs):
            yield f"independent: {spec.independent!r} is not the first dimension of {name}; name one that is"
        elif spec.independent in dimensions.names(given.split()[first:]):
            where = f"{spec.independent!r} stands in {name}, {given!r}, elsewhere than first"
            yield f"independent: {where}; leave out independent="
    for name in spec.length_scalars:
        if DTYPES[spec.scalars[name].dtype].numpy.kind not in "iu":
            yield f"the scalar {name} is a length; give it a dtype of whole numbers, such as Scalar(8, 'int32')"
    known = [name for name in (*spec.dimension_names, *spec.length_scalars) if name != dimensions.REST]
    for name, text in spec.dims.items():
        if name not in known:
            yield f"dims: {unknown('dimension in the shapes of the inputs', name, known)}"
        for other in allowed.names(text):
            if (other not in known and other not in spec.tunables) or other == name:
                others = [one for one in (*known, *spec.tunables) if one != name]
                yield f"dims: {name} is {text!r}: {unknown('other dimension', other, others)}"


def of_sizes(spec: Sized) -> Iterator[str]:
    """What is wrong with `sizes` and `edges`."""
    named = [(f"size {name!r}", shape) for name, shape in spec.sizes.items()]
    for what, shape in (*named, *(("an edge", shape) for shape in spec.edges)):
        try:
            if wrong := spec.unfit_at(shape):
                yield f"{what}, {shape}: {wrong}"
        except InputError as error:
            yield f"{what}: shapes asks for {error}"
