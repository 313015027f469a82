"""What a kernel is: one frozen record, filled in by the small `.py` file beside its `.cu`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from cudalab import fields, source
from cudalab.dtypes import DTYPES, DType, dtype_of
from cudalab.errors import InputError, SpecError, short
from cudalab.parallel import normal

Shape = tuple[int, ...]
Arrays = dict[str, np.ndarray]

C_DTYPES = {d.ctype: d for d in DTYPES.values()}


def blocks(n: int, per_block: int) -> int:
    """Blocks of `per_block` threads that cover `n` elements (ceiling division)."""
    return -(-n // per_block)


def _type_of(value: Any) -> str:
    """A number's type as a spec writes it: np.int64, int."""
    return f"np.{value.dtype.name}" if isinstance(value, np.generic) else type(value).__name__


def _fits(value: np.generic, declared: DType) -> bool:
    """Whether a parameter of the `declared` type reads the number that these bytes stand for."""
    return value.dtype.itemsize == declared.itemsize and (value.dtype.kind in "iub") != declared.floating


@dataclass(frozen=True)
class Launch:
    """Geometry and arguments of one launch.

    `args` follow the order of the `__global__` function's parameters: the arrays that the launch function was
    given stand for their device pointers; every other argument is a NumPy scalar of the parameter's own size,
    such as `np.int64(n)`. `shared` is dynamic shared memory in bytes.
    """

    grid: tuple[int, ...]
    block: tuple[int, ...]
    args: tuple[Any, ...]
    shared: int = 0

    @property
    def dims(self) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
        """(grid, block), each padded to three dimensions."""
        grid, block = ((*d, 1, 1)[:3] for d in (self.grid, self.block))
        return grid, block  # type: ignore[return-value]

    @property
    def empty(self) -> bool:
        """A grid with no block: there is nothing to launch, and CUDA would refuse it."""
        return 0 in self.grid


@dataclass(frozen=True)
class Budget:
    """How far an output element may be from the float64 reference: |error| <= ulp * ULP(reference) + atol.

    ULP is that of the output dtype. `why` is the reason for the numbers; `atol` needs a good one, since an
    absolute tolerance is what lets wrong kernels pass.
    """

    ulp: float
    atol: float = 0.0
    why: str = ""


def draw(shape: Shape, dtype: np.dtype, rng: np.random.Generator) -> np.ndarray:
    """Standard normal values in `dtype`; integers of 30 bits, so that a sum of two cannot overflow int32."""
    if dtype.kind in "iu":
        high = min(np.iinfo(dtype).max // 2, 2**30)
        return rng.integers(0 if dtype.kind == "u" else -high, high, shape, dtype, endpoint=True)
    return normal(shape, dtype, rng)


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """One operation on the bench. The names of the inputs are the names of `reference`'s parameters.

    Forms that are None are simply not offered to the backend that would use them.
    """

    file: str  # __file__ of the spec: gives the name and the .cu beside it
    summary: str
    dtypes: tuple[str, ...]  # the first is the default
    sizes: Mapping[str, Shape]  # what the command line calls small, large, ...
    edges: tuple[Shape, ...]  # awkward shapes for the checks
    reference: Callable[..., np.ndarray]  # NumPy, called on float64 inputs (integers as they are)
    entries: Mapping[str, Callable[..., Launch]]  # __global__ name -> launch(**arrays), from plain to fast
    budgets: Mapping[str, Budget]  # by dtype, for everything that computes in one pass
    composed: Mapping[str, Budget] = field(default_factory=dict)  # by dtype, for forms that round at each step
    inputs: Callable[[Shape, np.dtype, np.random.Generator], Arrays] | None = None  # default: `draw` for each
    output: str = "y"
    output_shape: Callable[..., Shape] | None = None  # of the inputs' shapes; default: the first input's
    pointwise: bool = False  # an output element depends on the input elements at its own index alone
    rank: int | None = None  # dimensions that a size must have; None: any

    # The same operation in other words. Torch forms use tensor methods only, so that TorchScript can read them.
    torch: Callable[..., Any] | None = None  # what people write: eager, TorchScript and torch.compile share it
    torch_native: Callable[..., Any] | None = None  # the best idiomatic PyTorch, if that is another call
    cupy: Callable[..., Any] | None = None  # array expression, also for cupy.fuse
    elementwise: str | None = None  # C++ expression of one output element in the inputs' names
    triton: str | None = None  # the same for Triton, in `tl`; float16 and bfloat16 arrive as float32

    def __post_init__(self) -> None:
        self._require(not (wrong := fields.wrong(self)), wrong)
        self._require(bool(self.dtypes), "dtypes is empty; give at least ('float32',)")
        for name in self.dtypes:
            self._require(name in DTYPES, f"unknown dtype {name!r}; known: {', '.join(DTYPES)}")
            self._require(name in self.budgets, f"budgets has no entry for dtype {name!r}")
        self._require(bool(self.sizes), "sizes is empty; give at least {'small': (1000,)}")
        self._require(bool(self.entries), "entries is empty; name at least one __global__ function")
        self._require(bool(self.input_names), "reference takes no arrays; its parameters name the inputs")
        self._require(self.output not in self.input_names, f"output {self.output!r} is also an input's name")
        self._check_parameters()
        for what, shape in (
            *((f"size {n!r}", s) for n, s in self.sizes.items()),
            *(("an edge", s) for s in self.edges),
        ):
            fits = self.rank is None or len(shape) == self.rank
            self._require(fits, f"{what} is {shape}, but rank is {self.rank}")

    def _check_parameters(self) -> None:
        """The functions that are called with arrays or shapes by name must take those names."""
        called: list[tuple[str, Callable[..., Any], tuple[str, ...]]] = []
        for name, launch in self.entries.items():
            called.append((f"entries[{name!r}]", launch, (*self.input_names, self.output)))
        if self.output_shape:
            called.append(("output_shape", self.output_shape, self.input_names))
        for what, function, names in called:
            try:
                taken = inspect.signature(function)
            except (TypeError, ValueError):  # a built-in, which has none
                continue
            try:
                taken.bind(**dict.fromkeys(names))
            except TypeError:
                self._require(False, f"{what} takes {taken}, but it is called by name with {', '.join(names)}")

    def _require(self, condition: bool, message: str) -> None:
        if not condition:
            raise SpecError(f"{self.file}: {message}")

    @property
    def name(self) -> str:
        return Path(self.file).stem

    @property
    def cu(self) -> Path:
        """The `.cu` beside the spec."""
        return Path(self.file).with_suffix(".cu")

    @cached_property
    def input_names(self) -> tuple[str, ...]:
        return tuple(inspect.signature(self.reference).parameters)

    def budget(self, dtype: DType, composed: bool = False) -> Budget:
        """The tolerance for `dtype`; `composed`: for a form that rounds to the dtype at each step."""
        return self.composed.get(dtype.name, self.budgets[dtype.name]) if composed else self.budgets[dtype.name]

    def accepts(self, shape: Shape) -> None:
        """Raise InputError if a size of this shape makes no sense for the kernel."""
        if self.rank is not None and len(shape) != self.rank:
            sizes = ", ".join(f"{n} = {'x'.join(map(str, s))}" for n, s in self.sizes.items())
            raise InputError(f"{self.name} takes sizes of {self.rank} dimensions, got {shape}; its own: {sizes}")

    def make(self, shape: Shape, dtype: DType, seed: int = 0) -> Arrays:
        """Inputs of one case, by name; the same for the same seed."""
        self.accepts(shape)
        rng = np.random.default_rng(seed)
        if self.inputs is not None:
            given = self.inputs(shape, dtype.numpy, rng)
            names = ", ".join(given) if isinstance(given, dict) else f"of type {type(given).__name__}"
            right = isinstance(given, dict) and set(given) == set(self.input_names)
            self._require(right, f"inputs gives {names}; give a dict of {', '.join(self.input_names)}")
            return {name: given[name] for name in self.input_names}
        return {name: draw(shape, dtype.numpy, rng) for name in self.input_names}

    def result_shape(self, shapes: Mapping[str, Shape]) -> Shape:
        """Shape of the output for inputs of these shapes."""
        if not self.output_shape:
            return next(iter(shapes.values()))
        shape = self.output_shape(**shapes)
        whole = isinstance(shape, (tuple, list)) and all(isinstance(n, (int, np.integer)) and n >= 0 for n in shape)
        self._require(whole, f"output_shape gives {short(shape)}; give a tuple of whole numbers, such as (256,)")
        return tuple(map(int, shape))

    def launch(self, entry: str, arrays: Mapping[str, Any]) -> Launch:
        """How to launch `entry` on these arrays (inputs and output, by name).

        Raises SpecError where arguments and the `.cu`'s parameters do not fit one another: their number, an
        array for a value, or the output for a `const` pointer, as happens when two are swapped.
        """
        launch = self.entries[entry](**arrays)
        if not isinstance(launch, Launch):
            raise SpecError(f"{self.file}: {entry}: its launch gives {short(launch)}; give a Launch(grid, block, args)")
        self._check_geometry(entry, launch)
        declared = source.parameters(source.read(self.cu), entry)
        where = f"{self.file}: {entry}"
        if len(launch.args) != len(declared):
            raise SpecError(f"{where} takes {len(declared)} arguments, its launch gives {len(launch.args)}")
        for given, parameter in zip(launch.args, declared, strict=True):
            name = next((n for n, a in arrays.items() if a is given), "")
            if bool(name) != parameter.pointer:
                got = f"the array {name!r}" if name else f"a number ({_type_of(given)})"
                raise SpecError(f"{where} wants {parameter.text!r}, its launch gives {got}")
            declared_dtype = C_DTYPES.get(parameter.ctype)
            if parameter.ctype == "scalar_t" and self.output in arrays:
                declared_dtype = dtype_of(arrays[self.output])
            if name and declared_dtype and dtype_of(given) != declared_dtype:
                raise SpecError(f"{where} wants {parameter.text!r}, but {name!r} has {dtype_of(given).name} elements")
            fitting = declared_dtype.numpy.name if declared_dtype else "int64"
            if not name and not isinstance(given, np.generic):
                raise SpecError(f"{where}: give {parameter.text!r} as a NumPy scalar: np.{fitting}(...)")
            if not name and declared_dtype and not _fits(given, declared_dtype):
                raise SpecError(f"{where} wants {parameter.text!r}, not {_type_of(given)}; give np.{fitting}")
            if name == self.output and parameter.constant:
                raise SpecError(f"{where}: the output {name!r} is given for the read-only {parameter.text!r}; swapped?")
        return launch

    def _check_geometry(self, entry: str, launch: Launch) -> None:
        for what, dims in (("grid", launch.grid), ("block", launch.block)):
            self._require(isinstance(dims, (tuple, list)), f"{entry}: {what} is {dims!r}; write ({dims!r},)")
            whole = all(isinstance(d, (int, np.integer)) and d >= 0 for d in dims)
            self._require(1 <= len(dims) <= 3 and whole, f"{entry}: {what} is {dims}; give one to three whole numbers")
        whole = isinstance(launch.shared, (int, np.integer)) and launch.shared >= 0
        self._require(bool(whole), f"{entry}: shared is {launch.shared!r}; give a whole number of bytes")

    def __call__(self, *arrays: Any, out: Any = None) -> Any:
        """Run the fastest entry on arrays of one library; see `cudalab.call.call`."""
        from cudalab.call import call  # here, so that a spec can be read without any backend

        return call(self, arrays, out)
