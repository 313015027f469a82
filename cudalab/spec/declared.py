"""The arrays and scalars of a spec: their names, dtypes and values."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from cudalab.base.errors import SpecError, short
from cudalab.spec import validate
from cudalab.spec.array import Out
from cudalab.spec.array_info import infos
from cudalab.spec.dtype import DTYPES, DType
from cudalab.spec.fields import JUDGE, Fields

NONE: Mapping[str, Any] = MappingProxyType({})


class Declared(Fields):
    """What the fields say of the arrays."""

    @property
    def name(self) -> str:
        return Path(self.file).stem

    @property
    def cu(self) -> Path:
        """Return the `.cu` beside the spec."""
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
            raise SpecError(f"{self.file}: reference: {error}; give {JUDGE}, such as lambda x: np.exp(x)") from None

    @cached_property
    def array_names(self) -> tuple[str, ...]:
        """Return every array of a launch: inputs, outputs, workspace."""
        return tuple(dict.fromkeys((*self.input_names, *self.outs, *self.workspace)))

    @cached_property
    def in_place(self) -> tuple[str, ...]:
        """The inputs that the kernel updates: their contents are new before each run."""
        return tuple(name for name in self.outs if name in self.input_names)

    @cached_property
    def backward_names(self) -> tuple[str, ...]:
        """What `backward` takes by name."""
        return self.named_by(self.backward)

    @cached_property
    def gradient_names(self) -> tuple[str, ...]:
        """What `backward` calls the gradient of each output."""
        return tuple(f"d{name}" for name in self.outs)

    @property
    def simple(self) -> bool:
        """Whether a launch writes one array, which is no input, of the kernel's dtype, and takes arrays alone."""
        computed = any(callable(value) for value in self.constants.values())
        return not (self.outputs or self.scalars or self.workspace or self.in_place or computed)

    def kind_of(self, name: str, dtype: DType) -> DType:
        """The dtype of an output or of an array of the workspace, where the kernel's is `dtype`."""
        own = self.outs.get(name) or self.workspace.get(name)
        return DTYPES[own.dtype] if own and own.dtype else dtype

    def scalars_of(self, arrays: Mapping[str, Any], given: Mapping[str, Any] = NONE) -> dict[str, Any]:
        """The scalars for these inputs, rounded to their dtypes; `given`: values of a call, by name."""
        try:
            return {
                name: scalar.rounded(given[name], name) if name in given else scalar.evaluate(arrays, name)
                for name, scalar in self.scalars.items()
            }
        except SpecError as error:
            raise SpecError(f"{self.file}: {error}") from None

    def constants_of(self, values: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """The values of `__constant__` variables for these arrays and scalars, by name."""
        known = {**values, **infos({name: values[name] for name in self.array_names if name in values})}
        found = {
            name: validate.called_with(given, known) if callable(given) else given
            for name, given in self.constants.items()
        }
        for name, value in found.items():
            if not isinstance(value, np.ndarray | np.generic):
                raise SpecError(f"{self.file}: constants[{name!r}] is {short(value)}; give a NumPy array")
        return {name: np.asarray(value) for name, value in found.items()}

    def alignment(self, array: str) -> int:
        """Bytes of which the address of this input, or of the output, is a multiple; 1: none are asked for."""
        return self.aligned if isinstance(self.aligned, int) else self.aligned.get(array, 1)
