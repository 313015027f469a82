"""What a kernel is: one frozen record, filled in by the small `.py` file beside its `.cu`.

This is data. What makes it a function on arrays is in `cudalab.call.kernel`.
"""

# ruff: noqa: RUF009 -- optional() makes a dataclass field
from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar

import numpy as np

from cudalab.base.errors import InputError, SpecError, short, unknown
from cudalab.spec import cub as cub_form
from cudalab.spec import cuda_source, dimensions, entry_names, launch_check, rival, shape_relations, validate
from cudalab.spec.array import In, Out, Scalar, Work
from cudalab.spec.dtype import DTYPES, DType
from cudalab.spec.inputs import CHARACTERS, Arrays, draw, unfit
from cudalab.spec.launch import (  # some names are for modules that import them from here
    MAX_GRID_Y,
    Launch,
    Shape,
    blocks,
    counted,
    deep_grid,
)
from cudalab.spec.validate import about, by_name, function, optional, or_none, strict, tuple_of

__all__ = [
    "MAX_GRID_Y",
    "Arrays",
    "Budget",
    "In",
    "Kernel",
    "Launch",
    "Out",
    "Scalar",
    "Shape",
    "Work",
    "assigned",
    "blocks",
    "counted",
    "deep_grid",
    "draw",
    "labelled",
]

_MACRO = re.compile("[A-Z][A-Z0-9_]*")
_USUAL = In()
K = TypeVar("K", bound="Kernel")


def labelled(entry: str, parameters: Mapping[str, int] | None) -> str:
    """An entry and its launch parameters as a table names them: gelu_vec[VEC_THREADS=64 VEC_PACKS=2]."""
    return f"{entry}[{assigned(parameters)}]" if parameters else entry


def assigned(parameters: Mapping[str, int]) -> str:
    """Launch parameters as text: VEC_THREADS=64 VEC_PACKS=2."""
    return " ".join(f"{name}={value}" for name, value in parameters.items())


def _listed(shapes: Mapping[str, Shape]) -> str:
    return ", ".join(f"{name} {shape}" for name, shape in shapes.items())


@strict
@dataclass(frozen=True)
class Budget:
    """How far an output element may be from the float64 reference: |error| <= ulp * ULP(reference) + atol.

    ULP is that of the output dtype. `why` is the reason for the numbers. `atol` needs a good reason, since an absolute
    tolerance lets wrong kernels pass.
    """

    ulp: float
    atol: float = 0.0
    why: str = ""


# What to give in the place of a value that a field cannot hold.
_DTYPES = "a tuple of names, such as ('float32',)"
_SIZES = "names and shapes, such as {'small': (1000,)}"
_INPUTS = (
    or_none(lambda v: callable(v) or (isinstance(v, Mapping) and all(isinstance(one, In) for one in v.values()))),
    "an In by name, such as {'index': In('int64', 0, 'rows')}, or a function of shape, dtype and generator",
)
_EDGES = "a tuple of shapes, such as ((1,), (31,))"
_JUDGE = "a NumPy function, whose parameters name the inputs"
_ENTRIES = "a launch function by __global__ function, such as {'softmax': launch}"
_TUNABLES = "values by macro name, the default first, such as {'BLOCK_THREADS': (256, 128)}"
_BUDGETS = validate.budgets, "a Budget, or one by dtype, such as {'float32': Budget(4, why='...')}"
_OPTIONS = (
    "a tuple of -DNAME=VALUE, --use_fast_math, --fmad=, --ftz=, --prec-div=, --prec-sqrt= (true or false), "
    "--maxrregcount=N, --restrict and --extra-device-vectorization, such as ('--use_fast_math',)"
)
_FORM = validate.function("the inputs")


def _constant(value: Any) -> bool:
    return callable(value) or isinstance(value, np.ndarray | np.generic)


_RECORDS = "records by name, such as {{'{}': {}}}"
_EXPRESSION = or_none(lambda value: isinstance(value, str)), "a C++ expression as text, or None"
_TRITON = (
    or_none(lambda value: isinstance(value, str) or callable(value)),
    "an expression in tl, the name of a .py file beside the spec, or a function of the inputs and the output, or None",
)
_NUMBA = (
    or_none(lambda value: isinstance(value, str) or callable(value)),
    "an expression in math and np, the name of a .py file beside the spec, or a function of the inputs, the output and "
    "the stream, or None",
)
_GRADIENTS = "[gradient of each input](pytorch.md#a-gradient-for-a-kernel-of-your-own)"


@strict
@dataclass(frozen=True, kw_only=True)
class Kernel:
    """One operation on the bench: the record that a spec defines.

    The parameters of `reference` name the inputs; other functions of the inputs take them by these names. A form that
    is None gives no row of the backend that would use it.
    """

    GONE: ClassVar = {
        "rank": "name the dimensions instead: shapes={'x': 'rows cols'}",
        "agree": "name the dimensions instead: shapes={'x': 'rows cols', 'gamma': 'cols'}",
        "output_shape": "give the output's shape by named dimensions, or by a function of the inputs' shapes: "
        "shapes={'x': 'rows cols', 'y': 'cols rows'}",
    }
    file: str = field(metadata=about("`__file__` of the spec: gives the name and the `.cu`"))
    summary: str = field(metadata=about("one line", validate.text, "a line of text"))
    dtypes: tuple[str, ...] = field(
        metadata=about(f"any of {', '.join(DTYPES)}; the first is what `bench` takes", tuple_of(validate.text), _DTYPES)
    )
    sizes: Mapping[str, Shape] = field(metadata=about("name to shape", by_name(validate.shape), _SIZES))
    edges: tuple[Shape, ...] = field(metadata=about("awkward shapes for the check", tuple_of(validate.shape), _EDGES))
    # Called on float64 copies of floating-point inputs, and on integers as they are.
    reference: Callable[..., Any] | None = optional(
        "NumPy function that decides what is right; its parameters name the inputs; with `outputs`, it returns one "
        "item for each output that has no `reference` of its own, in their order",
        or_none(callable), _JUDGE, without="each of `outputs` has one",
    )  # fmt: skip
    entries: Mapping[str, Callable[..., Launch]] = field(
        metadata=about("`__global__` name to launch function, from plain to fast", by_name(callable), _ENTRIES)
    )
    called: Callable[..., str] | None = optional(
        "from the inputs, the entry that a call from Python runs", *function("the inputs that names an entry"),
        without="the last entry",
    )  # fmt: skip
    budgets: Mapping[str, Budget] = field(metadata=about("`Budget`, or one by dtype", *_BUDGETS))
    peers: Mapping[str, Budget] = optional(
        "`Budget`, or one by dtype, for libraries' forms in one pass", *_BUDGETS, default=dict, without="`budgets`"
    )
    composed: Mapping[str, Budget] = optional(
        "`Budget`, or one by dtype, for forms that round at each step", *_BUDGETS, default=dict, without="`peers`"
    )
    inputs: Callable[[Shape, np.dtype, np.random.Generator], Arrays] | Mapping[str, In] | None = optional(
        "the inputs that are not as usual, by name, such as `{'index': In('int64', 0, 'rows')}`; "
        "or `(shape, dtype, rng)` to all inputs by name; see [sizes and inputs](#sizes-and-inputs)", *_INPUTS,
        without="normal values; integers of the whole range of their dtype",
    )  # fmt: skip
    shapes: Mapping[str, dimensions.Given] = optional(
        "shape of each array by named dimensions, such as `{'x': 'rows cols', 'gamma': 'cols'}`; "
        "see [shapes](#shapes)", by_name(dimensions.fits), dimensions.WORDS, default=dict,
        without="every array has the shape of the size; a call from Python is held to what the sizes have in common",
    )  # fmt: skip
    output: str = optional(
        "the output's name; an input's name: it is updated in place", validate.identifier,
        "the name of the output, such as 'y'", default="y", without="`y`",
    )  # fmt: skip
    outputs: Mapping[str, Out] = optional(
        "several outputs, an `Out` each, see [several arrays](#several-arrays)",
        by_name(lambda value: isinstance(value, Out)), _RECORDS.format("y", "Out(dtype='int64')"), default=dict,
        without="one, `output`",
    )  # fmt: skip
    scalars: Mapping[str, Scalar] = optional(
        "numbers by value, see [scalars](#scalars)", by_name(lambda value: isinstance(value, Scalar)),
        _RECORDS.format("eps", "Scalar(1e-6)"), default=dict, without="none",
    )  # fmt: skip
    workspace: Mapping[str, Work] = optional(
        "arrays that the kernel uses for itself, see [workspaces](#workspaces)",
        by_name(lambda value: isinstance(value, Work)), _RECORDS.format("partial", "Work('float32')"), default=dict,
        without="none",
    )  # fmt: skip
    constants: Mapping[str, Any] = optional(
        "values of `__constant__` variables: an array, or a function of inputs, of which only shapes and dtypes may be "
        "used, and scalars", by_name(_constant),
        "arrays or functions by name, such as {'weights': np.ones(9, np.float32)}", default=dict,
        without="as the source has them",
    )  # fmt: skip
    # For the least time that physics allows; both take the inputs, of which only shapes and dtypes may be used.
    bytes: Callable[..., int] | None = optional(
        "from the inputs, the bytes that must be moved: read once and written once",
        *function("the inputs that gives a number of bytes"),
        without="all of every input and of the output",
    )
    flops: Callable[..., int] | None = optional(
        "from the inputs, the floating-point operations that the task needs",
        *function("the inputs that gives a number of operations"),
        without="not counted",
    )
    pointwise: bool = optional(
        "whether an element depends only on its own index", lambda value: isinstance(value, bool), "True or False",
        default=False, without="no",
    )  # fmt: skip
    aligned: int | Mapping[str, int] = optional(
        "bytes of which the address of each array is a multiple, or bytes by array; "
        "see [sizes and inputs](#sizes-and-inputs)",
        validate.alignment, "a power of two up to 256, such as 16, or one by array name, such as {'x': 16}",
        default=1, without="the bytes of an element",
    )  # fmt: skip
    characters: bool | tuple[str, ...] = optional(
        "inputs of one character that a check tries: True, False, or some of "
        f"{', '.join(CHARACTERS)}; see [sizes and inputs](#sizes-and-inputs)",
        lambda value: isinstance(value, bool) or (isinstance(value, tuple) and all(v in CHARACTERS for v in value)),
        f"True, False, or a tuple of {', '.join(CHARACTERS)}", default=True, without="all",
    )  # fmt: skip
    # The first value is the default. Each is a macro of the .cu, and an argument of the launch functions that name it.
    tunables: Mapping[str, tuple[int, ...]] = optional(
        "launch parameters and the values to try, see [tuning](tuning.md)", by_name(validate.choices), _TUNABLES,
        default=dict, without="none",
    )  # fmt: skip
    restrictions: Callable[..., bool] | None = optional(
        "from all tunables by name, whether these values fit together",
        *function("the tunables that says which go together"), without="all do",
    )  # fmt: skip
    options: tuple[str, ...] = optional(
        "options of the CUDA compiler, such as `--use_fast_math`; see [how it is compiled](#how-it-is-compiled)",
        tuple_of(validate.compile_option), _OPTIONS, default=(), without="none",
    )  # fmt: skip
    # Its arguments are contiguous torch tensors; its result is one gradient, or a tuple with one, or None, per input.
    backward: Callable[..., Any] | None = optional(
        f"from the output's gradient and the inputs, the {_GRADIENTS}",
        *function("the output's gradient and the inputs"), without="no gradient",
    )  # fmt: skip
    torch: Callable[..., Any] | None = optional("the formula, in methods of torch tensors", *_FORM)
    torch_native: Callable[..., Any] | None = optional("the best single call of PyTorch", *_FORM)
    cupy: Callable[..., Any] | None = optional("an expression of CuPy arrays", *_FORM)
    elementwise: str | None = optional("one output element in C++, in the inputs' names", *_EXPRESSION)
    triton: str | Callable[..., Any] | None = optional(
        "if pointwise, one output element in Triton's `tl`; else a file beside the spec that launches a Triton kernel, "
        "or a function that does; see [forms](#forms-for-other-backends)",
        *_TRITON,
    )
    numba: str | Callable[..., Any] | None = optional(
        "if pointwise, one output element in Python's `math` and `np`; else a file beside the spec that launches a "
        "Numba kernel, or a function that does; see [forms](#forms-for-other-backends)",
        *_NUMBA,
    )
    cub: tuple[Any, ...] | None = optional(
        "the algorithm of CUB that does it, such as `('reduce', 'sum')`; see [forms](#forms-for-other-backends)",
        or_none(cub_form.fits), cub_form.ADVICE,
    )  # fmt: skip
    rivals: Mapping[str, Any] = optional(
        "callables to measure beside the entries, by name; see [rivals](#rivals)", rival.fit_by_name, rival.ADVICE,
        default=dict,
    )  # fmt: skip

    def __post_init__(self) -> None:
        for name in ("budgets", "peers", "composed"):
            if isinstance(budget := getattr(self, name), Budget):  # one for all dtypes
                object.__setattr__(self, name, dict.fromkeys(self.dtypes, budget))
        if mistake := next(self._mistakes(), ""):
            raise SpecError(f"{self.file}: {mistake}" if isinstance(self.file, str) else mistake)

    def _mistakes(self) -> Iterator[str]:
        """What is wrong with the fields. A later check relies on the earlier ones, so only the first mistake counts."""
        if wrong := validate.first_wrong(self, validate.checks(Kernel)):
            yield wrong
        if not self.dtypes:
            yield "dtypes is empty; give at least ('float32',)"
        for name in self.dtypes:
            if name not in DTYPES:
                yield f"unknown dtype {name!r}; known: {', '.join(DTYPES)}"
            if name not in self.budgets:
                yield f"budgets has no entry for dtype {name!r}"
        if not self.sizes:
            yield "sizes is empty; give at least {'small': (1000,)}"
        if not self.entries:
            yield "entries is empty; name at least one __global__ function"
        yield from self._array_mistakes()
        for form, file in self.form_files.items():
            if not file.is_file():
                yield f"{form} names {getattr(self, form)!r}, and there is no {file}; give its path from the spec"
        for name in self.aligned if isinstance(self.aligned, Mapping) else ():
            if name not in self.array_names:
                yield f"aligned: {unknown('array', name, self.array_names)}"
        for name, values in self.tunables.items():
            if not _MACRO.fullmatch(name):
                yield f"tunables: {name!r} is not a macro's name; give capitals, such as BLOCK_THREADS"
            if name in (*self.array_names, *self.scalars):
                yield f"tunable {name!r} is also an array's name"
            if any(option.partition("=")[0] == f"-D{name}" for option in self.options):
                yield f"options: {name} is a tunable; leave out -D{name}"
            if len(set(values)) < len(values):
                yield f"tunables: {name} has a value twice: {values}"
        yield from self._signature_mistakes()
        if not self.allows(self.parameters):
            yield f"restrictions exclude the default, {self.parameters}"
        for what, shape in [*((f"size {name!r}", shape) for name, shape in self.sizes.items()),
                            *(("an edge", shape) for shape in self.edges)]:  # fmt: skip
            try:
                self.dimensions(shape)
            except InputError as error:
                yield f"{what}: shapes asks for {error}"

    def _array_mistakes(self) -> Iterator[str]:
        """What is wrong with the names and shapes of the arrays."""
        lacking = [name for name, out in self.outs.items() if not (out.reference or out.check)]
        if lacking and self.reference is None:
            yield f"nothing says what {lacking[0]} is; give reference, {_JUDGE}"
        if self.reference is not None and not lacking:
            yield "reference decides no output: each of outputs has its own; leave out one of them"
        if not self.input_names:
            yield "reference takes no arrays; its parameters name the inputs"
        if self.outputs and self.output != "y":
            yield f"output is {self.output!r}, and outputs names {', '.join(self.outputs)}; give one of both"
        taken = [*dict.fromkeys((*self.input_names, *self.outs)), *self.scalars, *self.workspace]
        for name in taken:
            if not name.isidentifier():
                yield f"{name!r} is not a name; give one such as 'y'"
            if taken.count(name) > 1:
                yield f"{name!r} is the name of two of these: arrays, scalars, workspace"
        for form, expression in (("elementwise", self.elementwise), ("triton", self.triton), ("numba", self.numba)):
            if isinstance(expression, str) and not expression.endswith(".py") and not self.simple:
                yield f"{form} is an expression of one element, for one output and no scalars; leave it out"
        for name, given in self.shapes.items():
            if name not in self.array_names:
                yield f"shapes: {unknown('array', name, self.array_names)}"
            if name in self.input_names and not isinstance(given, str):
                yield f"shapes: {name} is an input; give words such as 'rows cols'"
        for name in self.inputs if isinstance(self.inputs, Mapping) else ():
            if name not in self.input_names:
                yield f"inputs: {unknown('input', name, self.input_names)}"
        if self.shapes and not callable(self.inputs):
            for name in self.input_names:
                if name not in self.shapes:
                    yield f"shapes has no input {name!r}; give its dimensions, such as 'rows cols'"
        for name in self.workspace:
            if name not in self.shapes:
                yield f"shapes has no {name!r}, which workspace names; give {dimensions.WORDS}"
        for name, out in self.outs.items():
            for dtype in out.budgets if isinstance(out.budgets, Mapping) else ():
                if dtype not in self.dtypes:
                    yield f"outputs[{name!r}]: budgets has {dtype!r}, which is not among dtypes"

    def _signature_mistakes(self) -> Iterator[str]:
        """Functions that do not take the arguments with which they are called."""
        inputs = self.input_names
        for name, launch in self.entries.items():
            if wrong := validate.refused(launch, by_name=(*self.array_names, *self._taken(name))):
                yield f"entries[{name!r}] {wrong}"
        for what, names in (
            ("called", inputs), ("restrictions", tuple(self.tunables)), ("bytes", inputs), ("flops", inputs),
        ):  # fmt: skip
            form = getattr(self, what)
            if form and (wrong := validate.refused(form, by_name=names)):
                yield f"{what} {wrong}"
        if callable(self.triton) and (wrong := validate.refused(self.triton, (*inputs, *self.outs))):
            yield f"triton {wrong}"
        of_numba = tuple(dict.fromkeys((*inputs, *self.outs)))
        if callable(self.numba) and (wrong := validate.refused(self.numba, of_numba, ("stream", *self.scalars))):
            yield f"numba {wrong}"
        if self.cub and (wrong := cub_form.unfit(inputs, tuple(self.outs), self.in_place)):
            yield f"cub {wrong}"
        for name, one in self.rivals.items():
            given = tuple(dict.fromkeys((*inputs, *self.outs))) if (called := rival.of(one)).out else inputs
            wrong = "" if isinstance(one, rival.Rival) else validate.refused(called.load(), given, tuple(self.scalars))
            if wrong:
                yield f"rivals[{name!r}] {wrong}"
        if self.backward and (wrong := validate.refused(self.backward, (f"the gradient of {self.output}", *inputs))):
            yield f"backward {wrong}"

    def _taken(self, entry: str) -> tuple[str, ...]:
        """The tunables and scalars that the launch function of an entry has parameters for."""
        try:
            names = inspect.signature(self.entries[entry]).parameters
        except (TypeError, ValueError):  # a built-in function without a signature
            return ()
        return tuple(name for name in (*self.tunables, *self.scalars) if name in names)

    @property
    def name(self) -> str:
        return Path(self.file).stem

    @property
    def cu(self) -> Path:
        """The `.cu` beside the spec."""
        return Path(self.file).with_suffix(".cu")

    @property
    def triton_file(self) -> Path | None:
        """The file with the Triton form, if `triton` names one."""
        return self._file_of(self.triton)

    @property
    def numba_file(self) -> Path | None:
        """The file with the Numba form, if `numba` names one."""
        return self._file_of(self.numba)

    @property
    def form_files(self) -> dict[str, Path]:
        """The files that forms are in, by the field that names them."""
        return {name: file for name in ("triton", "numba") if (file := self._file_of(getattr(self, name)))}

    def _file_of(self, form: Any) -> Path | None:
        return Path(self.file).parent / form if isinstance(form, str) and form.endswith(".py") else None

    @cached_property
    def outs(self) -> dict[str, Out]:
        """The outputs by name: those of `outputs`, or the one of `output`."""
        return dict(self.outputs) if self.outputs else {self.output: Out()}

    @cached_property
    def input_names(self) -> tuple[str, ...]:
        """The inputs in the order in which the references name them; what is updated in place is one."""
        of_kernel = self.named_by(self.reference)
        by_output = {name: self.named_by(out.reference) or of_kernel for name, out in self.outs.items()}
        found = [*of_kernel, *(n for out in self.outs.values() for n in self.named_by(out.reference))]
        found += [n for out in self.outs.values() for n in self.named_by(out.check)]
        inside = {name for name, taken in by_output.items() if name in taken}
        return tuple(n for n in dict.fromkeys(found) if n not in self.scalars and (n not in self.outs or n in inside))

    def named_by(self, function: Callable[..., Any] | None) -> tuple[str, ...]:
        """The names of a function's parameters; none of None."""
        try:
            return tuple(inspect.signature(function).parameters) if function else ()
        except (TypeError, ValueError) as error:  # a built-in, such as int
            raise SpecError(f"{self.file}: reference: {error}; give {_JUDGE}, such as lambda x: np.exp(x)") from None

    @cached_property
    def array_names(self) -> tuple[str, ...]:
        """Every array of a launch: inputs, outputs, workspace."""
        return tuple(dict.fromkeys((*self.input_names, *self.outs, *self.workspace)))

    @cached_property
    def in_place(self) -> tuple[str, ...]:
        """The inputs that the kernel updates: their contents are new before each run."""
        return tuple(name for name in self.outs if name in self.input_names)

    @property
    def simple(self) -> bool:
        """Whether a launch writes one array, which is no input, of the kernel's dtype, and takes arrays alone."""
        computed = any(callable(value) for value in self.constants.values())
        return not (self.outputs or self.scalars or self.workspace or self.in_place or computed)

    def kind_of(self, name: str, dtype: DType) -> DType:
        """The dtype of an output or of an array of the workspace, where the kernel's is `dtype`."""
        own = self.outs.get(name) or self.workspace.get(name)
        return DTYPES[own.dtype] if own and own.dtype else dtype

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

    def scalars_of(self, arrays: Mapping[str, Any], given: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
        """The scalars for these inputs, rounded to their dtypes; `given`: values of a call, by name."""
        try:
            return {
                name: scalar.rounded(given[name], name) if name in given else scalar.of(arrays, name)
                for name, scalar in self.scalars.items()
            }
        except SpecError as error:
            raise SpecError(f"{self.file}: {error}") from None

    def constants_of(self, values: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """The values of `__constant__` variables for these arrays and scalars, by name."""
        found = {
            name: validate.called_with(given, values) if callable(given) else given
            for name, given in self.constants.items()
        }
        for name, value in found.items():
            if not isinstance(value, np.ndarray | np.generic):
                raise SpecError(f"{self.file}: constants[{name!r}] gives {short(value)}; give a NumPy array")
        return {name: np.asarray(value) for name, value in found.items()}

    @property
    def rank(self) -> int | None:
        """The number of dimensions of a size; None: any."""
        known = dimensions.names(self._input_shapes) if self._sized else ()
        return len(known) if known and dimensions.REST not in known else None

    @property
    def _input_shapes(self) -> list[dimensions.Given]:
        return [self.shapes[name] for name in self.input_names if name in self.shapes]

    def dimensions(self, size: Shape) -> dimensions.Dimensions:
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

    def alignment(self, array: str) -> int:
        """Bytes of which the address of this input, or of the output, is a multiple; 1: none are asked for."""
        return self.aligned if isinstance(self.aligned, int) else self.aligned.get(array, 1)

    @cached_property
    def _relations(self) -> shape_relations.Relations:
        def shapes(size: Shape) -> dict[str, Shape]:
            return {name: array.shape for name, array in self.make(size, DTYPES[self.dtypes[0]]).items()}

        return shape_relations.relations((*self.sizes.values(), *self.edges), shapes) if self.input_names[1:] else {}

    @property
    def parameters(self) -> dict[str, int]:
        """The values with which this kernel is compiled and launched: the first of each tunable."""
        return {name: values[0] for name, values in self.tunables.items()}

    def with_parameters(self: K, parameters: Mapping[str, int]) -> K:
        """The kernel with one value of each tunable: the given one, or else the default.

        Raises SpecError for a tunable or a value that the spec does not declare, and for what its restrictions exclude.
        """
        for name, value in parameters.items():
            if name not in self.tunables:
                raise SpecError(f"{self.file}: {unknown('tunable', name, self.tunables)}")
            if value not in self.tunables[name]:
                known = ", ".join(map(str, self.tunables[name]))
                raise SpecError(f"{self.file}: {name} is {short(value)}; the spec declares {known}")
        chosen = {**self.parameters, **parameters}
        if not self.allows(chosen):
            raise SpecError(f"{self.file}: restrictions exclude {chosen}")
        return replace(self, tunables={name: (value,) for name, value in chosen.items()})

    def configurations(self) -> list[dict[str, int]]:
        """Every combination of the tunables' values that the restrictions allow, the default first."""
        every = (dict(zip(self.tunables, values, strict=True)) for values in product(*self.tunables.values()))
        return [parameters for parameters in every if self.allows(parameters)]

    def allows(self, parameters: Mapping[str, int]) -> bool:
        """Whether values of all tunables go together."""
        return self.restrictions is None or bool(self.restrictions(**parameters))

    def macros(self, dtype: DType) -> dict[str, str]:
        """All macros with which every backend compiles the `.cu` for one element type."""
        own = (option.removeprefix("-D").partition("=") for option in self.options if option.startswith("-D"))
        values = {name: str(value) for name, value in self.parameters.items()}
        return {"scalar_t": dtype.macro, **{name: value if given else "1" for name, given, value in own}, **values}

    @property
    def flags(self) -> tuple[str, ...]:
        """The options that are no macros. The host's compiler has no such options."""
        return tuple(option for option in self.options if not option.startswith("-D"))

    def budget(self, dtype: DType, whose: str = "budgets", output: str = "") -> Budget:
        """The tolerance for `dtype` in "budgets", "peers" or "composed". Where one has none, the one before applies.

        `output`: its name, where an output may have budgets of its own, which apply to all.
        """
        own = self.outs[output].budgets if output else None
        if isinstance(own, Budget):
            return own
        if own and dtype.name in own:
            found: Budget = own[dtype.name]
            return found
        kind = self.kind_of(output, dtype) if output else dtype
        if kind != dtype and not kind.floating and kind.name not in self.budgets:
            return Budget(0, why="integers are exact")
        if kind.name in self.budgets:
            dtype = kind
        chosen = self.budgets[dtype.name]
        if whose != "budgets":
            chosen = self.peers.get(dtype.name, chosen)
        return self.composed.get(dtype.name, chosen) if whose == "composed" else chosen

    def accepts(self, shape: Shape) -> None:
        """Raise InputError if a size of this shape makes no sense for the kernel."""
        try:
            self.dimensions(shape)
        except InputError as error:
            sizes = ", ".join(f"{n} = {'x'.join(map(str, s))}" for n, s in self.sizes.items())
            raise InputError(f"{self.name} takes {error}; its own: {sizes}") from None

    def accepts_call(self, shapes: Mapping[str, Shape]) -> None:
        """Raise InputError if the kernel cannot be called with inputs of these shapes.

        By `shapes`; without it by how the inputs that the spec makes fit together at its sizes and edges.
        """
        if self._input_shapes:
            try:
                dimensions.of_arrays(self.shapes, {name: shapes[name] for name in self.input_names})
            except InputError as error:
                raise InputError(f"{self.name} is called with {_listed(shapes)}: {error}") from None
        elif wrong := shape_relations.broken(self._relations, shapes):
            raise InputError(
                f"{self.name} is called with {_listed(shapes)}: {wrong}, at all sizes of the spec; if the kernel "
                "takes other shapes, let shapes= of the spec say which"
            )

    def make(self, shape: Shape, dtype: DType, seed: int = 0) -> Arrays:
        """Inputs of one case, by name; equal seeds give equal inputs."""
        self.accepts(shape)
        rng = np.random.default_rng(seed)
        if callable(self.inputs):
            given = self.inputs(shape, dtype.numpy, rng)
            names = ", ".join(given) if isinstance(given, dict) else f"of type {type(given).__name__}"
            right = isinstance(given, dict) and set(given) == set(self.input_names)
            if not right:
                due = ", ".join(self.input_names)
                raise SpecError(f"{self.file}: inputs gives {names}; give a dict of {due}")
            for name in self.input_names:
                if wrong := unfit(given[name]):
                    raise SpecError(f"{self.file}: inputs gives {name} {wrong}")
            shapes = {name: np.shape(given[name]) for name in self.input_names}
            try:
                dimensions.of_arrays(self.shapes, shapes)
            except InputError as error:
                raise SpecError(f"{self.file}: inputs gives {_listed(shapes)}: {error}") from None
            return {name: np.asarray(given[name]) for name in self.input_names}
        lengths = self.dimensions(shape)
        return {
            name: (self.inputs or {}).get(name, _USUAL).drawn(own, dtype.numpy, rng, lengths)
            for name, own in self._input_shapes_at(shape).items()
        }

    def unfilled(self, shape: Shape, dtype: DType) -> Arrays:
        """Inputs of one case without values, where the spec draws the usual ones."""
        self.accepts(shape)
        return {name: np.empty(own, dtype.numpy) for name, own in self._input_shapes_at(shape).items()}

    def _input_shapes_at(self, shape: Shape) -> dict[str, Shape]:
        lengths = self.dimensions(shape)
        return {
            name: dimensions.shape_of(str(self.shapes[name]), lengths) if name in self.shapes else shape
            for name in self.input_names
        }

    def result_shape(self, shapes: Mapping[str, Shape]) -> Shape:
        """Shape of the first output for inputs of these shapes."""
        return self.shape_of(next(iter(self.outs)), shapes)

    def shape_of(self, name: str, shapes: Mapping[str, Shape]) -> Shape:
        """Shape of an output, or of an array of the workspace, for inputs of these shapes (by name)."""
        if name in self.in_place:
            return shapes[name]
        given = self.shapes.get(name)
        if isinstance(given, str):
            lengths = dimensions.of_arrays(self.shapes, {n: shapes[n] for n in self.input_names})
            try:
                return dimensions.shape_of(given, lengths)
            except SpecError as error:
                raise SpecError(f"{self.file}: {error}") from None
        if given is None:
            return next(iter(shapes.values()))
        shape = validate.called_with(given, shapes)
        whole = isinstance(shape, (tuple, list)) and all(isinstance(n, (int, np.integer)) and n >= 0 for n in shape)
        if not whole:
            wanted = "give a tuple of whole numbers, such as (256,)"
            raise SpecError(f"{self.file}: shapes[{name!r}] gives {short(shape)}; {wanted}")
        return tuple(map(int, shape))

    def taken(self, entry: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """Those tunables and scalars that the launch function of an entry has parameters for."""
        return {name: values[name] for name in self._taken(entry)}

    def launches(self, entry: str, arrays: Mapping[str, Any]) -> tuple[Launch, ...]:
        """The launches of `entry`, in order, on these arrays (inputs, outputs, workspace) and scalars, by name.

        Each says which `__global__` function it launches. Raises SpecError if the arguments do not fit the parameters
        in the `.cu`: their number, an array for a value, or an output for a `const` pointer, as happens when two are
        swapped.
        """
        given = {name: value for name, value in arrays.items() if name in self.scalars}
        values = {**self.scalars_of(arrays, given), **self.parameters}
        taken = {name: arrays[name] for name in self.array_names if name in arrays}
        result = self.entries[entry](**taken, **self.taken(entry, values))
        every: tuple[Any, ...] = (result,)
        if isinstance(result, tuple) and any(isinstance(one, Launch) for one in result):
            every = result
        return tuple(self._checked(entry, launch, taken, alone=len(every) == 1) for launch in every)

    def launch(self, entry: str, arrays: Mapping[str, Any]) -> Launch:
        """The only launch of `entry`; see `launches`. Raises SpecError where it has several."""
        (first, *more) = self.launches(entry, arrays)
        if more:
            raise SpecError(f"{self.file}: {entry} has {1 + len(more)} launches, and this takes entries with one")
        return first

    def _checked(self, entry: str, launch: Any, arrays: Mapping[str, Any], alone: bool) -> Launch:
        if not isinstance(launch, Launch):
            raise SpecError(f"{self.file}: {entry}: its launch gives {short(launch)}; give a Launch(grid, block, args)")
        launch = replace(launch, entry=launch.entry or entry)
        where = entry if launch.entry == entry else f"{entry}: {launch.entry}"
        if wrong := launch_check.wrong_geometry(launch):
            raise SpecError(f"{self.file}: {where}: {wrong}")
        text = cuda_source.read(self.cu)
        if wrong := entry_names.wrong(text, launch.entry):
            raise SpecError(f"{self.file}: {where}: {wrong}")
        declared = entry_names.parameters(text, launch.entry)
        written = tuple(self.outs) if alone else ()  # a later launch may read what an earlier one wrote
        of_kernel = next((name for name, out in self.outs.items() if not out.dtype and name in arrays), "")
        if declared is not None and (wrong := launch_check.wrong(launch, declared, arrays, written, of_kernel)):
            raise SpecError(f"{self.file}: {where}{wrong}")
        return launch

    def entry_of_call(self, inputs: Mapping[str, Any]) -> str:
        """The entry that a call from Python runs on these inputs (by name). SpecError if `called` names no entry."""
        if not self.called:
            return list(self.entries)[-1]
        if (entry := self.called(**inputs)) not in self.entries:
            raise SpecError(f"{self.file}: called: {unknown('entry', str(entry), self.entries)}")
        return entry
