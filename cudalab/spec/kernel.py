"""What a kernel is: one frozen record, filled in by the small `.py` file beside its `.cu`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cudalab.base.errors import InputError, SpecError, short, unknown
from cudalab.base.threads import normal
from cudalab.spec import cuda_source, launch_check, validate
from cudalab.spec.dtype import DTYPES, DType

if TYPE_CHECKING:
    from cudalab.call.fast_path import Calls

Shape = tuple[int, ...]
Arrays = dict[str, np.ndarray]

_MACRO = re.compile("[A-Z][A-Z0-9_]*")
MAX_GRID_Y = 65535  # blocks in y, and in z: CUDA's limit, the same on every architecture
BEYOND = 2**18  # rows or columns that the last blocks of a deep grid may count beyond a matrix of 2^32


def blocks(n: int, per_block: int) -> int:
    """Blocks of `per_block` threads that cover `n` elements (ceiling division)."""
    return -(-n // per_block)


def deep_grid(across: int, down: int) -> tuple[int, int, int]:
    """A grid with `across` blocks in x, and `down` blocks in y and z together, since y alone has 65,535 at most.

    The kernel numbers them blockIdx.z * gridDim.y + blockIdx.y. If y alone cannot hold them, the grid has up to
    gridDim.z - 1 blocks more than `down`, which have nothing to do.
    """
    deep = max(blocks(down, MAX_GRID_Y), 1)
    return across, blocks(down, deep), deep


def counted(n: int, kind: type[np.integer], beyond: int = 0) -> np.integer:
    """`n` as an argument of an integer type, for a kernel that counts up to `beyond` further in it.

    Raises InputError if the type cannot hold that number: NumPy 1 would wrap around silently.
    """
    if n + beyond > np.iinfo(kind).max:
        raise InputError(f"a length of {n:,}: the kernel counts in {kind.__name__}; give the array in parts")
    return kind(n)


def counted_sides(shape: Shape) -> tuple[np.integer, ...]:
    """The sides of a matrix as `unsigned` arguments, for a kernel on a `deep_grid`, whose last blocks count beyond."""
    return tuple(counted(n, np.uint32, BEYOND) for n in shape)


def labelled(entry: str, parameters: Mapping[str, int] | None) -> str:
    """An entry and its launch parameters as a table names them: gelu_vec[VEC_THREADS=64 VEC_PACKS=2]."""
    return f"{entry}[{assigned(parameters)}]" if parameters else entry


def _listed(shapes: Mapping[str, Shape]) -> str:
    return ", ".join(f"{name} {shape}" for name, shape in shapes.items())


def assigned(parameters: Mapping[str, int]) -> str:
    """Launch parameters as text: VEC_THREADS=64 VEC_PACKS=2."""
    return " ".join(f"{name}={value}" for name, value in parameters.items())


def _compiled_by_torch(arrays: tuple[Any, ...]) -> bool:
    """Whether torch.compile reads the program, which is to see an operator: no, where this very function runs."""
    return False


def _read_by_torch(arrays: tuple[Any, ...]) -> bool:
    import torch

    return len(arrays) > 0 and isinstance(arrays[0], torch.Tensor)


# What torch.compile reads in place of the function, so that a call asks nothing of torch, which may not be imported.
_compiled_by_torch._torchdynamo_inline = _read_by_torch  # type: ignore[attr-defined]


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
    called: Callable[..., str] | None = None  # called(**inputs) names the entry that kernel(x) runs; default: the last
    budgets: Mapping[str, Budget]  # by dtype, for the entries, which compute in one pass
    peers: Mapping[str, Budget] = field(default_factory=dict)  # for libraries' one-pass forms; default: `budgets`
    composed: Mapping[str, Budget] = field(default_factory=dict)  # for forms that round at each step; default: `peers`
    inputs: Callable[[Shape, np.dtype, np.random.Generator], Arrays] | None = None  # default: `draw` for each
    agree: Callable[..., bool] | None = None  # of the inputs' shapes, by name: whether they go together in a call
    output: str = "y"
    output_shape: Callable[..., Shape] | None = None  # of the inputs' shapes; default: the first input's
    pointwise: bool = False  # an output element depends on the input elements at its own index alone
    rank: int | None = None  # dimensions that a size must have; None: any
    # Launch parameters that `cudalab tune` may choose, by name, the default first: macros of the .cu, and arguments of
    # the launch functions that name them. `restrictions` is called with all of them by name and says which go together.
    tunables: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    restrictions: Callable[..., bool] | None = None

    # The same operation in other words. Torch forms use tensor methods only, so that TorchScript can read them.
    torch: Callable[..., Any] | None = None  # what people write: eager, TorchScript and torch.compile share it
    torch_native: Callable[..., Any] | None = None  # the best idiomatic PyTorch, if that is another call
    # backward(gradient of the output, *inputs) gives the gradient of the input, or a tuple with that of each (None: it
    # has none). All are contiguous torch tensors; it is written with other kernels that are called as functions.
    backward: Callable[..., Any] | None = None
    cupy: Callable[..., Any] | None = None  # array expression, also for cupy.fuse
    elementwise: str | None = None  # C++ expression of one output element in the inputs' names
    triton: str | None = None  # the same for Triton, in `tl`; float16 and bfloat16 arrive as float32

    def __post_init__(self) -> None:
        self._require(not (wrong := validate.wrong(self)), wrong)
        self._require(bool(self.dtypes), "dtypes is empty; give at least ('float32',)")
        for name in self.dtypes:
            self._require(name in DTYPES, f"unknown dtype {name!r}; known: {', '.join(DTYPES)}")
            self._require(name in self.budgets, f"budgets has no entry for dtype {name!r}")
        self._require(bool(self.sizes), "sizes is empty; give at least {'small': (1000,)}")
        self._require(bool(self.entries), "entries is empty; name at least one __global__ function")
        self._require(bool(self.input_names), "reference takes no arrays; its parameters name the inputs")
        self._require(self.output not in self.input_names, f"output {self.output!r} is also an input's name")
        self._check_tunables()
        self._check_parameters()
        self._require(self.allows(self.parameters), f"restrictions exclude the default, {self.parameters}")
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
            called.append((f"entries[{name!r}]", launch, (*self.input_names, self.output, *self._taken(name))))
        if self.called:
            called.append(("called", self.called, self.input_names))
        if self.restrictions:
            called.append(("restrictions", self.restrictions, tuple(self.tunables)))
        if self.agree:
            called.append(("agree", self.agree, self.input_names))
        if self.output_shape:
            called.append(("output_shape", self.output_shape, self.input_names))
        for what, function, names in called:
            self._check_signature(what, function, **dict.fromkeys(names))
        if self.backward:
            self._check_signature("backward", self.backward, f"the gradient of {self.output}", *self.input_names)

    def _check_signature(self, what: str, function: Callable[..., Any], /, *given: str, **by_name: None) -> None:
        try:
            taken = inspect.signature(function)
        except (TypeError, ValueError):  # a built-in, which has none
            return
        try:
            taken.bind(*given, **by_name)
        except TypeError:
            how = f"with {', '.join(given)}, in this order" if given else f"by name with {', '.join(by_name)}"
            self._require(False, f"{what} takes {taken}, but it is called {how}")

    def _check_tunables(self) -> None:
        for name, values in self.tunables.items():
            capitals = bool(_MACRO.fullmatch(name))
            self._require(capitals, f"tunables: {name!r} is to be a macro; give capitals, such as BLOCK_THREADS")
            self._require(name not in (*self.input_names, self.output), f"tunable {name!r} is also an array's name")
            self._require(len(set(values)) == len(values), f"tunables: {name} has a value twice: {values}")

    def _taken(self, entry: str) -> tuple[str, ...]:
        """The tunables that the launch function of an entry has parameters for."""
        try:
            names = inspect.signature(self.entries[entry]).parameters
        except (TypeError, ValueError):  # a built-in, which has none
            return ()
        return tuple(name for name in self.tunables if name in names)

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

    @property
    def parameters(self) -> dict[str, int]:
        """The tunables' values with which this kernel is compiled and launched: of each the first."""
        return {name: values[0] for name, values in self.tunables.items()}

    def with_parameters(self, parameters: Mapping[str, int]) -> Kernel:
        """The same kernel with one value of each tunable: these, and of those that are not named the default.

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
        return {"scalar_t": dtype.ctype, **{name: str(value) for name, value in self.parameters.items()}}

    def budget(self, dtype: DType, whose: str = "budgets") -> Budget:
        """The tolerance for `dtype` of "budgets", "peers" or "composed"; of the one before where that has none."""
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
        """Whether inputs of these shapes go together; where the spec does not say, they do."""
        try:
            return self.agree is None or bool(self.agree(**shapes))
        except (IndexError, ValueError):  # of fewer dimensions than it looks at
            return False

    def accepts_call(self, shapes: Mapping[str, Shape]) -> None:
        """Raise InputError if a call on inputs of these shapes makes no sense: by `agree`, else as for a size."""
        if self.agree is None:
            name, shape = next(iter(shapes.items()))
            if self.rank is not None and len(shape) != self.rank:
                raise InputError(f"{self.name} takes {self.rank} dimensions, and {name} has the shape {shape}")
        elif not self.agrees(shapes):
            label, shape = next(iter(self.sizes.items()))
            own = {name: a.shape for name, a in self.make(shape, DTYPES[self.dtypes[0]]).items()}
            raise InputError(
                f"{self.name} is called with {_listed(shapes)}, which do not go together; at {label}: {_listed(own)}"
            )

    def make(self, shape: Shape, dtype: DType, seed: int = 0) -> Arrays:
        """Inputs of one case, by name; the same for the same seed."""
        self.accepts(shape)
        rng = np.random.default_rng(seed)
        if self.inputs is not None:
            given = self.inputs(shape, dtype.numpy, rng)
            names = ", ".join(given) if isinstance(given, dict) else f"of type {type(given).__name__}"
            right = isinstance(given, dict) and set(given) == set(self.input_names)
            self._require(right, f"inputs gives {names}; give a dict of {', '.join(self.input_names)}")
            shapes = {name: np.shape(given[name]) for name in self.input_names}
            self._require(self.agrees(shapes), f"inputs gives {_listed(shapes)}, of which agree says no")
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
        launch = self.entries[entry](**arrays, **{name: self.parameters[name] for name in self._taken(entry)})
        if not isinstance(launch, Launch):
            raise SpecError(f"{self.file}: {entry}: its launch gives {short(launch)}; give a Launch(grid, block, args)")
        wrong = launch_check.wrong_geometry(launch)
        self._require(not wrong, f"{entry}: {wrong}")
        declared = cuda_source.parameters(cuda_source.read(self.cu, headers=False), entry)
        self._require(not (wrong := launch_check.wrong(launch, declared, arrays, self.output)), f"{entry}{wrong}")
        return launch

    def entry_of_call(self, inputs: Mapping[str, Any]) -> str:
        """The entry that a call runs on these inputs, by name. Raises SpecError where `called` names none."""
        if not self.called:
            return list(self.entries)[-1]
        if (entry := self.called(**inputs)) not in self.entries:
            raise SpecError(f"{self.file}: called: {unknown('entry', str(entry), self.entries)}")
        return entry

    def __call__(self, *arrays: Any, out: Any = None) -> Any:
        """Run the fastest entry, or that which `called` names, on arrays of one library; see `call.dispatch`."""
        if _compiled_by_torch(arrays):
            import torch

            result = getattr(torch.ops.cudalab, self._operator())(*arrays)
            return result if out is None else out.copy_(result)
        return self._calls[type(arrays[0]) if arrays else type(None)](arrays, out)

    @cached_property
    def _calls(self) -> Calls:
        from cudalab.call.fast_path import Calls  # here, so that a spec can be read without any backend

        return Calls(self)

    def _operator(self) -> str:
        """The name in `torch.ops.cudalab` under which torch.compile sees this kernel."""
        return self._calls.operator

    # What torch.compiler.assume_constant_result sets: torch.compile calls it, once, and does not look inside.
    _operator._dynamo_marked_constant = True  # type: ignore[attr-defined]

    def __deepcopy__(self, memo: dict[int, Any]) -> Kernel:
        return self  # it does not change; a model that is copied may hold it
