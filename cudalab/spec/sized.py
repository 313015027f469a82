"""Sizes of a spec: which lengths they give to dimensions, which are allowed, and the inputs made from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from cudalab.base.errors import InputError, SpecError, short, unknown
from cudalab.spec import allowed, dimensions, shape_relations, validate
from cudalab.spec.array import In
from cudalab.spec.array_info import ArrayInfo
from cudalab.spec.declared import NONE, Declared
from cudalab.spec.dimensions import Dimensions
from cudalab.spec.dtype import DTYPES, DType
from cudalab.spec.inputs import Arrays, unfit
from cudalab.spec.launch import Shape

_USUAL = In()
FEW = 1 << 12  # elements of sizes that are all looked at
AFFORDABLE = 1 << 20  # elements of arrays that are made to find out about a size


def _listed(shapes: Mapping[str, Shape]) -> str:
    return ", ".join(f"{name} {shape}" for name, shape in shapes.items())


class Sized(Declared):
    """What sizes and calls make of the arrays."""

    @property
    def rank(self) -> int | None:
        """The number of dimensions of a size; None: any."""
        known = self.dimension_names if self._sized else ()
        return len(known) if known and dimensions.REST not in known else None

    @property
    def _input_shapes(self) -> list[dimensions.Given]:
        return [self.shapes[name] for name in self.input_names if name in self.shapes]

    @cached_property
    def dimension_names(self) -> tuple[str, ...]:
        """The names that the inputs' shapes define, in the order of a size; `...` is one of them."""
        return dimensions.names(self._input_shapes)

    @cached_property
    def length_scalars(self) -> tuple[str, ...]:
        """The scalars that are lengths: those that `shapes`, `dims` or the ends of `inputs` name, and no input defines.

        Such as the `k` of `shapes={"x": "rows cols", "values": "rows k"}`.
        """
        given: list[Any] = [*self.shapes.values(), *self.dims]
        ins = self.inputs.values() if isinstance(self.inputs, Mapping) else ()
        given += [end for one in ins for end in (one.low, one.high)]
        words = [one for one in given if isinstance(one, str)]
        named = {*dimensions.names(words), *(n for text in self.dims.values() for n in allowed.names(text))}
        named |= {name for one in given if callable(one) for name in self.named_by(one)}
        return tuple(name for name in self.scalars if name in named and name not in self.dimension_names)

    def in_parts(self, name: str) -> bool:
        """Whether the first dimension of an input or output is the one that is `independent`."""
        given = self.shapes.get(name, self.shapes.get(self.input_names[0]) if name in self.outs else None)
        return isinstance(given, str) and given.split()[:1] == [self.independent]

    def scalar_lengths(self, shapes: Mapping[str, Shape], given: Mapping[str, Any] = NONE) -> Dimensions:
        """The lengths that are scalars, for inputs of these shapes; `given`: values of a call, by name."""
        stand_ins = {n: ArrayInfo(n, shape, None) for n, shape in shapes.items()}  # type: ignore[arg-type]
        found = Dimensions()
        for name in self.length_scalars:
            scalar = self.scalars[name]
            try:
                found[name] = (
                    int(scalar.rounded(given[name], name) if name in given else scalar.evaluate(stand_ins, name)),
                )
            except Exception as error:  # the spec's own
                raise SpecError(
                    f"{self.file}: the scalar {name} is a length, and must be a number or a function of the inputs' "
                    f"shapes: {error}"
                ) from None
        return found

    def dimensions(self, size: Shape) -> Dimensions:
        """The lengths that a size gives to the dimensions which `shapes` names. Raises InputError."""
        return dimensions.of_size(self._input_shapes, size) if self._sized else {}

    @cached_property
    def _sized(self) -> bool:
        """Whether a size gives the dimensions of `shapes` their lengths. `inputs` may take a size in its own way."""
        if not callable(self.inputs) or not self._input_shapes:
            return bool(self._input_shapes)
        try:
            return all(dimensions.of_size(self._input_shapes, size) for size in (*self.sizes.values(), *self.edges))
        except InputError:
            return False

    @cached_property
    def _size_tells(self) -> bool:
        """Whether the arrays have the lengths that a size gives to the names, as far as small sizes show it."""
        if not callable(self.inputs) or not self._sized:
            return self._sized
        known = sorted((size for size in {*self.edges, *self.sizes.values()} if prod(size)), key=prod)
        try:
            for size in [size for size in known if prod(size) <= FEW] or known[:1]:
                made = validate.called(self.inputs, size, DTYPES[self.dtypes[0]].numpy, np.random.default_rng(0))
                shapes = {name: np.shape(made[name]) for name in self.input_names}
                if dimensions.of_arrays(self.shapes, shapes) != self.dimensions(size):
                    return False
        except Exception:  # the spec's own; the rows of the group say it
            return False
        return True

    @cached_property
    def _relations(self) -> shape_relations.Relations:
        def shapes(size: Shape) -> dict[str, Shape]:
            return {name: array.shape for name, array in self.make(size, DTYPES[self.dtypes[0]]).items()}

        return shape_relations.relations((*self.sizes.values(), *self.edges), shapes) if self.input_names[1:] else {}

    def accepts(self, shape: Shape, given: Mapping[str, int] = NONE) -> None:
        """Raise InputError if a size of this shape makes no sense for the kernel.

        `given`: values of scalars that are lengths, in place of the spec's.
        """
        for name in given:
            if name not in self.length_scalars:
                raise InputError(f"{self.name} takes no size with {name}={given[name]}: {self._no_length(name)}")
        sizes = ", ".join(f"{n} = {'x'.join(map(str, s))}" for n, s in self.sizes.items())
        try:
            wrong = self.unfit_at(shape, given)
        except InputError as error:
            raise InputError(f"{self.name} takes {error}; the spec's sizes: {sizes}") from None
        if wrong:
            raise InputError(f"{self.name} takes no size {shape}: {wrong}; the spec's sizes: {sizes}")

    def _no_length(self, name: str) -> str:
        """Why a size gives no length of its own to a name, and what to type."""
        if name in self.dimension_names:
            names = " x ".join(self.dimension_names)
            return f"{name} is a dimension of the inputs; write it in the shape, {names}"
        if self.length_scalars:
            return str(unknown("scalar that is a length", name, self.length_scalars))
        return (
            f"no scalar of it is a length; let shapes= name one, as in shapes={{'x': 'rows cols', 'y': 'rows {name}'}} "
            f"and scalars={{{name!r}: Scalar(8, 'int32')}}"
        )

    def lengths_at(self, size: Shape, given: Mapping[str, int] = NONE) -> Dimensions:
        """The lengths of dimensions and of scalars at a size. Raises InputError as `dimensions` does."""
        lengths = self.dimensions(size)
        return lengths | self.scalar_lengths(self._input_shapes_at(size), given) if self.length_scalars else lengths

    def unfit_at(self, size: Shape, given: Mapping[str, int] = NONE) -> str:
        """Why the dimensions cannot have the lengths that a size gives; "" if they can, or if only `inputs` knows them.

        `given` is that of `accepts`. Raises InputError for a size of another number of dimensions.
        """
        wrong = self.unfit(self.dimensions(size))  # before the arrays are asked for their shapes
        try:
            wrong = wrong or self.unfit(self.lengths_at(size, given))
        except SpecError as error:
            wrong = str(error).removeprefix(f"{self.file}: ")
        return wrong if wrong and self._size_tells else ""

    def unfit(self, lengths: Dimensions) -> str:
        """Why the dimensions cannot have these lengths; "" if they can, as far as lengths are known."""
        try:
            for given, names in self._may_be_negative:
                if all(name in lengths for name in names):
                    dimensions.shape_of(given, lengths)
        except InputError as error:
            return str(error)
        return allowed.unfit(self.dims, lengths, self.tunables) if self.dims else ""

    @cached_property
    def _may_be_negative(self) -> list[tuple[str, tuple[str, ...]]]:
        """The shapes in which a length may be below 0, with the names in each."""
        words = [(given, dimensions.names([given])) for given in self.shapes.values() if isinstance(given, str)]
        return [(given, names) for given, names in words if "-" in given or set(names) & set(self.length_scalars)]

    def allowed(self, size: Shape, axis: int) -> Sequence[int] | None:
        """The lengths, in ascending order, that `dims` leaves to one dimension of a size; None: any."""
        name = self.dimension_of(size, axis) if self.dims and self._size_tells else ""
        return allowed.choices(self.dims, name, self.lengths_at(size), self.tunables) if name else None

    def dimension_of(self, size: Shape, axis: int) -> str:
        """The name of a dimension of a size; "" if `shapes` gives it none."""
        names = [name for name, lengths in self.dimensions(size).items() for _ in lengths]
        return names[axis] if axis < len(names) else ""

    def accepts_call(self, shapes: Mapping[str, Shape], scalars: Mapping[str, Any] = NONE) -> None:
        """Raise InputError if the kernel cannot be called with inputs of these shapes, and with these scalars, by name.

        By `shapes` and `dims`; without `shapes` by how the inputs that the spec makes fit together at its sizes and
        edges.
        """
        if self._input_shapes:
            try:
                lengths = dimensions.of_arrays(self.shapes, {name: shapes[name] for name in self.input_names})
            except InputError as error:
                raise InputError(f"{self.name} is called with {_listed(shapes)}: {error}") from None
            lengths |= {name: (int(scalars[name]),) for name in self.length_scalars if name in scalars}
            if wrong := self.unfit(lengths):
                raise InputError(f"{self.name} is called with {_listed(shapes)}: {wrong}")
        elif wrong := shape_relations.broken(self._relations, shapes):
            raise InputError(
                f"{self.name} is called with {_listed(shapes)}: {wrong}. All sizes of the spec agree in this. "
                "If the kernel takes other shapes, name its dimensions in shapes="
            )

    def input_kinds(self, dtype: DType) -> dict[str, np.dtype]:
        """The dtype of each input by name, from inputs of the smallest shape that is not empty."""
        if dtype.name not in self._input_kinds:
            self._input_kinds[dtype.name] = self._made_kinds(dtype)
        return self._input_kinds[dtype.name]

    @cached_property
    def _input_kinds(self) -> dict[str, dict[str, np.dtype]]:
        return {}

    def _made_kinds(self, dtype: DType) -> dict[str, np.dtype]:
        usual = dict.fromkeys(self.input_names, dtype.numpy)
        shapes = [shape for shape in (*self.edges, *self.sizes.values()) if prod(shape)]
        if isinstance(self.inputs, Mapping):
            return usual | {name: DTYPES[one.dtype].numpy for name, one in self.inputs.items() if one.dtype}
        if self.inputs is None or not shapes:
            return usual
        try:
            made = self.make(min(shapes, key=prod), dtype)
        except Exception:  # the spec's own; the rows of the group say it
            return usual
        return {name: array.dtype for name, array in made.items()}

    def make(self, shape: Shape, dtype: DType, seed: int = 0) -> Arrays:
        """Inputs of one case, by name; equal seeds give equal inputs."""
        self.accepts(shape)
        rng = np.random.default_rng(seed)
        if callable(self.inputs):
            given = validate.called(self.inputs, shape, dtype.numpy, rng)
            names = ", ".join(given) if isinstance(given, dict) else f"a {type(given).__name__}"
            right = isinstance(given, dict) and set(given) == set(self.input_names)
            if not right:
                due = ", ".join(self.input_names)
                raise SpecError(f"{self.file}: inputs returns {names}; return a dict of {due}")
            for name in self.input_names:
                if wrong := unfit(given[name]):
                    raise SpecError(f"{self.file}: inputs: {name} is {wrong}")
            shapes = {name: np.shape(given[name]) for name in self.input_names}
            try:
                wrong = self.unfit(dimensions.of_arrays(self.shapes, shapes) | self.scalar_lengths(shapes))
            except InputError as error:
                wrong = str(error)
            if wrong:
                raise SpecError(
                    f"{self.file}: inputs returns arrays of shapes that do not fit, {_listed(shapes)}: {wrong}"
                )
            return {name: np.asarray(given[name]) for name in self.input_names}
        shapes, lengths = self._input_shapes_at(shape), self.lengths_at(shape)
        return {
            name: (self.inputs or {}).get(name, _USUAL).drawn(own, dtype.numpy, rng, lengths)
            for name, own in shapes.items()
        }

    def unfilled(self, shape: Shape, dtype: DType) -> Arrays:
        """Inputs of one case without values, where the spec leaves it to the lab to draw them."""
        self.accepts(shape)
        kinds = self.input_kinds(dtype)
        return {name: np.empty(own, kinds[name]) for name, own in self._input_shapes_at(shape).items()}

    def shapes_at(self, size: Shape) -> dict[str, Shape]:
        """The inputs' shapes at a size, whether `dims` allows it or not; none where only `inputs` knows them."""
        if callable(self.inputs) and not (self._size_tells and all(name in self.shapes for name in self.input_names)):
            return {}
        return self._input_shapes_at(size)

    def _input_shapes_at(self, shape: Shape) -> dict[str, Shape]:
        lengths = self.dimensions(shape)
        return {
            name: dimensions.shape_of(str(self.shapes[name]), lengths) if name in self.shapes else shape
            for name in self.input_names
        }

    def elements(self, size: Shape) -> int:
        """Elements of the largest input or output at a size.

        Where only the function `inputs` knows the arrays, it is called once for a size whose lengths have a product of
        at most AFFORDABLE. The product stands for what is not known.
        """
        if size not in self._elements:
            self._elements[size] = self._counted(size)
        return self._elements[size]

    @cached_property
    def _elements(self) -> dict[Shape, int]:
        return {}

    def _counted(self, size: Shape) -> int:
        known = prod(size)
        try:
            if self._sized or not callable(self.inputs):
                shapes = self._input_shapes_at(size)
            elif known <= AFFORDABLE:
                shapes = {name: array.shape for name, array in self.make(size, DTYPES[self.dtypes[0]]).items()}
            else:
                return known
            inputs = [prod(shape) for shape in shapes.values()]
            return max(*inputs, *(prod(self.shape_of(name, shapes)) for name in self.outs))
        except Exception:  # the spec's own; the rows of the group say it
            return known

    def small(self, sizes: Iterable[Shape], most: int) -> list[Shape]:
        """Those with at most `most` elements, the largest last; where none has so few, the smallest, if affordable."""
        known = sorted((size for size in dict.fromkeys(sizes) if prod(size)), key=self.elements)
        return [size for size in known if self.elements(size) <= most] or [
            size for size in known[:1] if self.elements(size) <= AFFORDABLE
        ]

    def result_shape(self, shapes: Mapping[str, Shape]) -> Shape:
        """Return the shape of the first output for inputs of these shapes."""
        return self.shape_of(next(iter(self.outs)), shapes)

    def shape_of(self, name: str, shapes: Mapping[str, Shape], scalars: Mapping[str, Any] = NONE) -> Shape:
        """Shape of an output, or of an array of the workspace, for inputs of these shapes (by name).

        `scalars`: values of a call, by name; those of the spec count for the others.
        """
        if name in self.in_place:
            return shapes[name]
        given = self.shapes.get(name)
        if isinstance(given, str):
            lengths = dimensions.of_arrays(self.shapes, {n: shapes[n] for n in self.input_names})
            if self.length_scalars:
                lengths |= self.scalar_lengths(shapes, scalars)
            try:
                return dimensions.shape_of(given, lengths)
            except SpecError as error:
                raise SpecError(f"{self.file}: {error}") from None
        if given is None:
            return next(iter(shapes.values()))
        numbers = {n: length for n, (length,) in self.scalar_lengths(shapes, scalars).items()}
        shape = validate.called_with(given, {**shapes, **numbers})
        whole = isinstance(shape, (tuple, list)) and all(isinstance(n, (int, np.integer)) and n >= 0 for n in shape)
        if not whole:
            wanted = "return a tuple of whole numbers, such as (256,)"
            raise SpecError(f"{self.file}: shapes[{name!r}] returns {short(shape)}; {wanted}")
        return tuple(map(int, shape))
