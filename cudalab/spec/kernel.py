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
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from cudalab.base.errors import InputError, SpecError, short, unknown
from cudalab.spec import cuda_source, launch_check, rival, shape_relations, validate
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
    "Kernel",
    "Launch",
    "Shape",
    "assigned",
    "blocks",
    "counted",
    "deep_grid",
    "draw",
    "labelled",
]

_MACRO = re.compile("[A-Z][A-Z0-9_]*")
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
_EDGES = "a tuple of shapes, such as ((1,), (31,))"
_JUDGE = "a NumPy function, whose parameters name the inputs"
_ENTRIES = "a launch function by __global__ function, such as {'softmax': launch}"
_TUNABLES = "values by macro name, the default first, such as {'BLOCK_THREADS': (256, 128)}"
_BUDGETS = by_name(validate.budget), "a Budget by dtype, such as {'float32': Budget(4, why='...')}"
_OPTIONS = (
    "a tuple of -DNAME=VALUE, --use_fast_math, --fmad=, --ftz=, --prec-div=, --prec-sqrt= (true or false), "
    "--maxrregcount=N, --restrict and --extra-device-vectorization, such as ('--use_fast_math',)"
)
_FORM = validate.function("the inputs")
_EXPRESSION = or_none(lambda value: isinstance(value, str)), "a C++ expression as text, or None"
_TRITON = (
    or_none(lambda value: isinstance(value, str) or callable(value)),
    "an expression in tl, the name of a .py file beside the spec, or a function of the inputs and the output, or None",
)
_GRADIENTS = "[gradient of each input](pytorch.md#a-gradient-for-a-kernel-of-your-own)"


@strict
@dataclass(frozen=True, kw_only=True)
class Kernel:
    """One operation on the bench: the record that a spec defines.

    The parameters of `reference` name the inputs; other functions of the inputs take them by these names. A form that
    is None gives no row of the backend that would use it.
    """

    file: str = field(metadata=about("`__file__` of the spec: gives the name and the `.cu`"))
    summary: str = field(metadata=about("one line", validate.text, "a line of text"))
    dtypes: tuple[str, ...] = field(
        metadata=about(f"any of {', '.join(DTYPES)}; the first is what `bench` takes", tuple_of(validate.text), _DTYPES)
    )
    sizes: Mapping[str, Shape] = field(metadata=about("name to shape", by_name(validate.shape), _SIZES))
    edges: tuple[Shape, ...] = field(metadata=about("awkward shapes for the check", tuple_of(validate.shape), _EDGES))
    # Called on float64 copies of floating-point inputs, and on integers as they are.
    reference: Callable[..., np.ndarray] = field(
        metadata=about("NumPy function that decides what is right; its parameters name the inputs", callable, _JUDGE)
    )
    entries: Mapping[str, Callable[..., Launch]] = field(
        metadata=about("`__global__` name to launch function, from plain to fast", by_name(callable), _ENTRIES)
    )
    called: Callable[..., str] | None = optional(
        "from the inputs, the entry that a call from Python runs", *function("the inputs that names an entry"),
        without="the last entry",
    )  # fmt: skip
    budgets: Mapping[str, Budget] = field(metadata=about("dtype to `Budget`", *_BUDGETS))
    peers: Mapping[str, Budget] = optional(
        "dtype to `Budget`, for libraries' forms in one pass", *_BUDGETS, default=dict, without="`budgets`"
    )
    composed: Mapping[str, Budget] = optional(
        "dtype to `Budget`, for forms that round at each step", *_BUDGETS, default=dict, without="`peers`"
    )
    inputs: Callable[[Shape, np.dtype, np.random.Generator], Arrays] | None = optional(
        "`(shape, dtype, rng)` to arrays by name", *function("shape, dtype and generator"),
        without="normal values; integers of the whole range of their dtype",
    )  # fmt: skip
    agree: Callable[..., bool] | None = optional(
        "from the inputs' shapes, whether they fit together in a call",
        *function("the inputs' shapes that says whether they go together"),
        without="dimensions that are equal at all sizes and edges of the spec; pointwise: all shapes are equal",
    )
    output: str = optional(
        "the output's name", validate.identifier, "the name of the output, such as 'y'", default="y", without="`y`"
    )
    output_shape: Callable[..., Shape] | None = optional(
        "the output's shape, from the inputs' shapes",
        *function("the inputs' shapes"),
        without="that of the first input",
    )
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
    rank: int | None = optional(
        "number of dimensions of a size", or_none(lambda value: type(value) is int and value >= 0),
        "a number of dimensions, or None", without="any",
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
    rivals: Mapping[str, Any] = optional(
        "callables to measure beside the entries, by name; see [rivals](#rivals)", rival.fit_by_name, rival.ADVICE,
        default=dict,
    )  # fmt: skip

    def __post_init__(self) -> None:
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
        if not self.input_names:
            yield "reference takes no arrays; its parameters name the inputs"
        if self.output in self.input_names:
            yield f"output {self.output!r} is also an input's name"
        if self.triton_file and not self.triton_file.is_file():
            yield f"triton names {self.triton!r}, and there is no {self.triton_file}; give its path from the spec"
        for name in self.aligned if isinstance(self.aligned, Mapping) else ():
            if name not in (*self.input_names, self.output):
                yield f"aligned: {unknown('array', name, (*self.input_names, self.output))}"
        for name, values in self.tunables.items():
            if not _MACRO.fullmatch(name):
                yield f"tunables: {name!r} is not a macro's name; give capitals, such as BLOCK_THREADS"
            if name in (*self.input_names, self.output):
                yield f"tunable {name!r} is also an array's name"
            if any(option.partition("=")[0] == f"-D{name}" for option in self.options):
                yield f"options: {name} is a tunable; leave out -D{name}"
            if len(set(values)) < len(values):
                yield f"tunables: {name} has a value twice: {values}"
        yield from self._signature_mistakes()
        if not self.allows(self.parameters):
            yield f"restrictions exclude the default, {self.parameters}"
        shapes = [
            *((f"size {name!r}", shape) for name, shape in self.sizes.items()),
            *(("an edge", s) for s in self.edges),
        ]
        for what, shape in shapes:
            if self.rank is not None and len(shape) != self.rank:
                yield f"{what} is {shape}, but rank is {self.rank}"

    def _signature_mistakes(self) -> Iterator[str]:
        """Functions that do not take the arguments with which they are called."""
        inputs = self.input_names
        for name, launch in self.entries.items():
            if wrong := validate.refused(launch, by_name=(*inputs, self.output, *self._taken(name))):
                yield f"entries[{name!r}] {wrong}"
        for what, names in (
            ("called", inputs), ("restrictions", tuple(self.tunables)), ("agree", inputs), ("output_shape", inputs),
            ("bytes", inputs), ("flops", inputs),
        ):  # fmt: skip
            form = getattr(self, what)
            if form and (wrong := validate.refused(form, by_name=names)):
                yield f"{what} {wrong}"
        if callable(self.triton) and (wrong := validate.refused(self.triton, (*inputs, self.output))):
            yield f"triton {wrong}"
        for name, one in self.rivals.items():
            given = (*inputs, self.output) if (called := rival.of(one)).out else inputs
            if not isinstance(one, rival.Rival) and (wrong := validate.refused(called.load(), given)):
                yield f"rivals[{name!r}] {wrong}"
        if self.backward and (wrong := validate.refused(self.backward, (f"the gradient of {self.output}", *inputs))):
            yield f"backward {wrong}"

    def _taken(self, entry: str) -> tuple[str, ...]:
        """The tunables that the launch function of an entry has parameters for."""
        try:
            names = inspect.signature(self.entries[entry]).parameters
        except (TypeError, ValueError):  # a built-in function without a signature
            return ()
        return tuple(name for name in self.tunables if name in names)

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
        named = isinstance(self.triton, str) and self.triton.endswith(".py")
        return Path(self.file).parent / str(self.triton) if named else None

    @cached_property
    def input_names(self) -> tuple[str, ...]:
        try:
            return tuple(inspect.signature(self.reference).parameters)
        except ValueError as error:  # a built-in, such as int
            raise SpecError(f"{self.file}: reference: {error}; give {_JUDGE}, such as lambda x: np.exp(x)") from None

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
        return {"scalar_t": dtype.ctype, **{name: value if given else "1" for name, given, value in own}, **values}

    @property
    def flags(self) -> tuple[str, ...]:
        """The options that are no macros. The host's compiler has no such options."""
        return tuple(option for option in self.options if not option.startswith("-D"))

    def budget(self, dtype: DType, whose: str = "budgets") -> Budget:
        """The tolerance for `dtype` in "budgets", "peers" or "composed". Where one has none, the one before applies."""
        chosen = self.budgets[dtype.name]
        if whose != "budgets":
            chosen = self.peers.get(dtype.name, chosen)
        return self.composed.get(dtype.name, chosen) if whose == "composed" else chosen

    def accepts(self, shape: Shape) -> None:
        """Raise InputError if a size of this shape makes no sense for the kernel."""
        if self.rank is not None and len(shape) != self.rank:
            sizes = ", ".join(f"{n} = {'x'.join(map(str, s))}" for n, s in self.sizes.items())
            raise InputError(f"{self.name} takes sizes of {self.rank} dimensions, got {shape}; its own: {sizes}")

    def agrees(self, shapes: Mapping[str, Shape]) -> bool:
        """Whether inputs of these shapes fit together: what `agree` says, else True."""
        try:
            return self.agree is None or bool(self.agree(**shapes))
        except (IndexError, ValueError):  # from shapes with fewer dimensions than it reads
            return False

    def accepts_call(self, shapes: Mapping[str, Shape]) -> None:
        """Raise InputError if the kernel cannot be called with inputs of these shapes.

        By `agree`; without it by `rank`, and by how the inputs that the spec makes fit together at its sizes and edges.
        """
        if self.agree is None:
            name, shape = next(iter(shapes.items()))
            if self.rank is not None and len(shape) != self.rank:
                raise InputError(f"{self.name} takes {self.rank} dimensions, and {name} has the shape {shape}")
            if wrong := shape_relations.broken(self._relations, shapes):
                raise InputError(
                    f"{self.name} is called with {_listed(shapes)}: {wrong}, at all sizes of the spec; if the kernel "
                    "takes other shapes, let agree= of the spec say which"
                )
        elif not self.agrees(shapes):
            label, shape = next(iter(self.sizes.items()))
            own = {name: a.shape for name, a in self.make(shape, DTYPES[self.dtypes[0]]).items()}
            raise InputError(
                f"{self.name} is called with {_listed(shapes)}, which do not go together; at {label}: {_listed(own)}"
            )

    def make(self, shape: Shape, dtype: DType, seed: int = 0) -> Arrays:
        """Inputs of one case, by name; equal seeds give equal inputs."""
        self.accepts(shape)
        rng = np.random.default_rng(seed)
        if self.inputs is not None:
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
            if not self.agrees(shapes):
                raise SpecError(f"{self.file}: inputs gives {_listed(shapes)}, which agree refuses")
            return {name: np.asarray(given[name]) for name in self.input_names}
        return {name: draw(shape, dtype.numpy, rng) for name in self.input_names}

    def result_shape(self, shapes: Mapping[str, Shape]) -> Shape:
        """Shape of the output for inputs of these shapes."""
        if not self.output_shape:
            return next(iter(shapes.values()))
        shape = self.output_shape(**shapes)
        whole = isinstance(shape, (tuple, list)) and all(isinstance(n, (int, np.integer)) and n >= 0 for n in shape)
        if not whole:
            wanted = "give a tuple of whole numbers, such as (256,)"
            raise SpecError(f"{self.file}: output_shape gives {short(shape)}; {wanted}")
        return tuple(map(int, shape))

    def launch(self, entry: str, arrays: Mapping[str, Any]) -> Launch:
        """How to launch `entry` on these arrays (inputs and output, by name).

        Raises SpecError if the arguments do not fit the parameters in the `.cu`: their number, an array for a value, or
        the output for a `const` pointer, as happens when two are swapped.
        """
        launch = self.entries[entry](**arrays, **{name: self.parameters[name] for name in self._taken(entry)})
        if not isinstance(launch, Launch):
            raise SpecError(f"{self.file}: {entry}: its launch gives {short(launch)}; give a Launch(grid, block, args)")
        if wrong := launch_check.wrong_geometry(launch):
            raise SpecError(f"{self.file}: {entry}: {wrong}")
        declared = cuda_source.parameters(cuda_source.read(self.cu), entry)
        if wrong := launch_check.wrong(launch, declared, arrays, self.output):
            raise SpecError(f"{self.file}: {entry}{wrong}")
        return launch

    def entry_of_call(self, inputs: Mapping[str, Any]) -> str:
        """The entry that a call from Python runs on these inputs (by name). SpecError if `called` names no entry."""
        if not self.called:
            return list(self.entries)[-1]
        if (entry := self.called(**inputs)) not in self.entries:
            raise SpecError(f"{self.file}: called: {unknown('entry', str(entry), self.entries)}")
        return entry
