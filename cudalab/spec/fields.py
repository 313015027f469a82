"""The fields of a spec: what each holds, in words and as a check, and what to write where it does not."""

# ruff: noqa: RUF009 -- optional() makes a dataclass field
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from cudalab.spec import allowed, compile_options, dimensions, rival, validate
from cudalab.spec import cub as cub_form
from cudalab.spec.array import In, Out, Scalar, Work
from cudalab.spec.budget import Budget
from cudalab.spec.dtype import DTYPES
from cudalab.spec.inputs import CHARACTERS, Arrays
from cudalab.spec.launch import Launch, Shape
from cudalab.spec.validate import about, by_name, function, optional, or_none, tuple_of

# What to give in the place of a value that a field cannot hold.
_DTYPES = "a tuple of names, such as ('float32',)"
_SIZES = "names and shapes, such as {'small': (1000,)}"
_INPUTS = (
    or_none(lambda v: callable(v) or (isinstance(v, Mapping) and all(isinstance(one, In) for one in v.values()))),
    "an In by name, such as {'index': In('int64', 0, 'rows')}, or a function of shape, dtype and generator",
)
_EDGES = "a tuple of shapes, such as ((1,), (31,))"
JUDGE = "a NumPy function, whose parameters name the inputs"
_ENTRIES = "a launch function by __global__ function, such as {'softmax': launch}"
_TUNABLES = "values by macro name, the default first, such as {'BLOCK_THREADS': (256, 128)}"
_BUDGETS = validate.budgets, "a Budget, or one by dtype, such as {'float32': Budget(4, why='...')}"
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


@dataclass(frozen=True, kw_only=True)
class Fields:
    """What a spec says of one operation."""

    GONE: ClassVar = {
        "rank": "name the dimensions instead: shapes={'x': 'rows cols'}",
        "agree": "name the dimensions instead: shapes={'x': 'rows cols', 'gamma': 'cols'}",
        "output_shape": "give the output's shape by named dimensions, or by a function of the inputs' shapes: "
        "shapes={'x': 'rows cols', 'y': 'cols rows'}",
    }
    file: str = field(metadata=about("`__file__` of the spec: names the kernel and the `.cu`", advice="file=__file__"))
    summary: str = field(metadata=about("what the kernel computes, in one line", validate.text, "a line of text"))
    dtypes: tuple[str, ...] = field(
        metadata=about(f"any of {', '.join(DTYPES)}; the first is what `bench` takes", tuple_of(validate.text), _DTYPES)
    )
    sizes: Mapping[str, Shape] = field(
        metadata=about("the shape by the name that `--size` takes", by_name(validate.shape), _SIZES)
    )
    edges: tuple[Shape, ...] = field(metadata=about("awkward shapes for the check", tuple_of(validate.shape), _EDGES))
    # Called on float64 copies of floating-point inputs, and on integers as they are.
    reference: Callable[..., Any] | None = optional(
        "NumPy function that decides what is right; its parameters name the inputs; with `outputs`, it returns one "
        "item for each output that has no `reference` of its own, in their order",
        or_none(callable), JUDGE, without="each of `outputs` has one",
    )  # fmt: skip
    entries: Mapping[str, Callable[..., Launch]] = field(
        metadata=about("launch function by `__global__` function, from plain to fast", by_name(callable), _ENTRIES)
    )
    called: Callable[..., str] | None = optional(
        "a function of the inputs that returns the name of the entry that a call from Python runs",
        *function("the inputs that returns the name of an entry"),
        without="the last entry",
    )  # fmt: skip
    budgets: Mapping[str, Budget] = field(
        metadata=about(
            "`Budget`, or one by dtype: how far an element may be from the reference, in ULP of the output; "
            "see [how large a budget](#how-large-a-budget)", *_BUDGETS,
        )
    )  # fmt: skip
    peers: Mapping[str, Budget] = optional(
        "`Budget`, or one by dtype, for NumPy, rivals and library calls in one pass",
        *_BUDGETS,
        default=dict,
        without="`budgets`",
    )
    composed: Mapping[str, Budget] = optional(
        "`Budget`, or one by dtype, for variants that round to the dtype at each step",
        *_BUDGETS,
        default=dict,
        without="`peers`",
    )
    inputs: Callable[[Shape, np.dtype, np.random.Generator], Arrays] | Mapping[str, In] | None = optional(
        "the inputs that differ from the default, by name, such as `{'index': In('int64', 0, 'rows')}`; "
        "or a function of `(shape, dtype, rng)` that returns all; see [sizes and inputs](#sizes-and-inputs)", *_INPUTS,
        without="normal values; integers of the whole range of their dtype",
    )  # fmt: skip
    shapes: Mapping[str, dimensions.Given] = optional(
        "shape of each array by named dimensions, such as `{'x': 'rows cols', 'gamma': 'cols'}`; "
        "see [shapes](#shapes)", by_name(dimensions.fits), dimensions.WORDS, default=dict,
        without="every array has the shape of the size; in a call from Python, lengths that are equal at all sizes "
        "must be equal",
    )  # fmt: skip
    dims: Mapping[str, str] = optional(
        "which lengths the dimensions of `shapes` may have, such as `{'cols': 'multiple of 8, at most 4096'}`; "
        "see [shapes](#shapes)", by_name(allowed.fits), allowed.ADVICE, default=dict, without="any length",
    )  # fmt: skip
    output: str = optional(
        "the output's name; give an input's name if the kernel updates that input in place", validate.identifier,
        "the name of the output, such as 'y'", default="y", without="`y`",
    )  # fmt: skip
    outputs: Mapping[str, Out] = optional(
        "several outputs, an `Out` each, see [several arrays](#several-arrays)",
        by_name(lambda value: isinstance(value, Out)), _RECORDS.format("y", "Out(dtype='int64')"), default=dict,
        without="one, `output`",
    )  # fmt: skip
    scalars: Mapping[str, Scalar] = optional(
        "numbers that the kernel takes by value, see [scalars](#scalars)",
        by_name(lambda value: isinstance(value, Scalar)), _RECORDS.format("eps", "Scalar(1e-6)"), default=dict,
        without="none",
    )  # fmt: skip
    workspace: Mapping[str, Work] = optional(
        "arrays that the kernel uses for itself, see [workspaces](#workspaces)",
        by_name(lambda value: isinstance(value, Work)), _RECORDS.format("partial", "Work('float32')"), default=dict,
        without="none",
    )  # fmt: skip
    constants: Mapping[str, Any] = optional(
        "values of `__constant__` variables: an array, or a function of scalars and inputs that uses only the inputs' "
        "shapes and dtypes", by_name(_constant),
        "arrays or functions by name, such as {'weights': np.ones(9, np.float32)}", default=dict,
        without="the values in the source",
    )  # fmt: skip
    # For the least time that physics allows; both take the inputs, of which only shapes and dtypes may be used.
    bytes: Callable[..., int] | None = optional(
        "a function of the inputs that returns the bytes that must be moved: each read once and written once",
        *function("the inputs that returns a number of bytes"),
        without="all bytes of the inputs and the output",
    )
    flops: Callable[..., int] | None = optional(
        "a function of the inputs that returns the number of floating-point operations that the task needs",
        *function("the inputs that returns a number of operations"),
        without="not counted",
    )
    pointwise: bool = optional(
        "whether each output element depends only on the input elements at its index",
        lambda value: isinstance(value, bool), "True or False",
        default=False, without="no",
    )  # fmt: skip
    independent: str = optional(
        "the dimension of `shapes`, first in every output, such as `rows`, whose elements do not depend on each other "
        "nor on their index, as in a softmax of each row; the reference of large arrays is then computed in parts, on "
        "all processors",
        lambda value: isinstance(value, str), "the name of a dimension, such as 'rows'",
        default="", without="none",
    )  # fmt: skip
    aligned: int | Mapping[str, int] = optional(
        "alignment in bytes that each array's address must have, one for all or by array; "
        "see [sizes and inputs](#sizes-and-inputs)",
        validate.alignment, "a power of two up to 256, such as 16, or one by array name, such as {'x': 16}",
        default=1, without="the size of an element",
    )  # fmt: skip
    characters: bool | tuple[str, ...] = optional(
        "which kinds of special input a check tries: True (all), False (none), or some of "
        f"{', '.join(CHARACTERS)}; see [sizes and inputs](#sizes-and-inputs)",
        lambda value: isinstance(value, bool) or (isinstance(value, tuple) and all(v in CHARACTERS for v in value)),
        f"True, False, or a tuple of {', '.join(CHARACTERS)}", default=True, without="all",
    )  # fmt: skip
    nans: str = optional(
        "what becomes of NaN in an input of a kernel that is not pointwise: `propagated` (a result that depends on it "
        "is NaN where the reference says so) or `ignored` (a check does not try it)",
        lambda value: value in ("propagated", "ignored"), "'propagated' or 'ignored'",
        default="propagated", without="propagated",
    )  # fmt: skip
    # The first value is the default. Each is a macro of the .cu, and an argument of the launch functions that name it.
    tunables: Mapping[str, tuple[int, ...]] = optional(
        "launch parameters and the values that `tune` may try, see [tuning](tuning.md)",
        by_name(validate.choices), _TUNABLES, default=dict, without="none",
    )  # fmt: skip
    restrictions: Callable[..., bool] | None = optional(
        "a function of all tunables by name that says whether these values may be combined",
        *function("the tunables that says which may be combined"), without="all may be",
    )  # fmt: skip
    options: tuple[str, ...] = optional(
        "options of the CUDA compiler, such as `--use_fast_math`; see [how it is compiled](#how-it-is-compiled)",
        tuple_of(compile_options.fits), compile_options.ADVICE, default=(), without="none",
    )  # fmt: skip
    # Its arrays are contiguous torch tensors; its result is one gradient, or a tuple with one, or None, per input.
    backward: Callable[..., Any] | None = optional(
        f"a function that takes gradients of outputs (`dy` of `y`), inputs, outputs and scalars by name, and "
        f"returns the {_GRADIENTS}",
        *function("dy, the gradient of the output y, and inputs, outputs and scalars by name"), without="no gradient",
    )  # fmt: skip
    torch: Callable[..., Any] | None = optional("the formula, in methods of torch tensors", *_FORM)
    torch_native: Callable[..., Any] | None = optional("the best single call of PyTorch", *_FORM)
    cupy: Callable[..., Any] | None = optional("an expression of CuPy arrays", *_FORM)
    elementwise: str | None = optional("one output element in C++, in the inputs' names", *_EXPRESSION)
    triton: str | Callable[..., Any] | None = optional(
        "if pointwise, one output element in Triton's `tl`; else a file beside the spec that launches a Triton kernel, "
        "or a function that does; see [other backends](#code-for-other-backends)",
        *_TRITON,
    )
    numba: str | Callable[..., Any] | None = optional(
        "if pointwise, one output element in Python's `math` and `np`; else a file beside the spec that launches a "
        "Numba kernel, or a function that does; see [other backends](#code-for-other-backends)",
        *_NUMBA,
    )
    cub: tuple[Any, ...] | None = optional(
        "the algorithm of CUB that does the same, such as `('reduce', 'sum')`; "
        "see [other backends](#code-for-other-backends)",
        or_none(cub_form.fits), cub_form.ADVICE,
    )  # fmt: skip
    rivals: Mapping[str, Any] = optional(
        "callables to measure beside the entries, by name; see [rivals](#rivals)", rival.fit_by_name, rival.ADVICE,
        default=dict,
    )  # fmt: skip
