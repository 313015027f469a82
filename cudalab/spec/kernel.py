"""What a kernel is: one frozen record, filled in by the small `.py` file beside its `.cu`.

This is data. What makes it a function on arrays is in `cudalab.call.kernel`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from cudalab.base.errors import SpecError, short, unknown
from cudalab.spec import (
    compile_options,
    cuda_source,
    dtype_macro,
    entry_names,
    host_libraries,
    launch_check,
    rival,
    shape_mistakes,
    validate,
)
from cudalab.spec import cub as cub_form
from cudalab.spec.array import In, Out, Scalar, Work
from cudalab.spec.array_info import ArrayInfo, infos
from cudalab.spec.budget import Budget
from cudalab.spec.dtype import DTYPES, DType, unknown_dtype
from cudalab.spec.fields import JUDGE
from cudalab.spec.inputs import Arrays, draw
from cudalab.spec.launch import (  # some names are for modules that import them from here
    MAX_GRID_Y,
    Launch,
    Shape,
    blocks,
    counted,
    deep_grid,
)
from cudalab.spec.sized import Sized
from cudalab.spec.validate import strict

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
K = TypeVar("K", bound="Kernel")


def labelled(entry: str, parameters: Mapping[str, int] | None) -> str:
    """An entry and its launch parameters as a table names them: gelu_vec[VEC_THREADS=64 VEC_PACKS=2]."""
    return f"{entry}[{assigned(parameters)}]" if parameters else entry


def assigned(parameters: Mapping[str, int]) -> str:
    """Launch parameters as text: VEC_THREADS=64 VEC_PACKS=2."""
    return " ".join(f"{name}={value}" for name, value in parameters.items())


@strict
@dataclass(frozen=True, kw_only=True)
class Kernel(Sized):
    """One operation on the bench: the record that a spec defines.

    The parameters of `reference` name the inputs; other functions of the inputs take them by these names. A form that
    is None gives no row of the backend that would use it.
    """

    def __post_init__(self) -> None:
        for name in ("budgets", "peers", "composed"):
            if isinstance(budget := getattr(self, name), Budget):  # one for all dtypes
                object.__setattr__(self, name, dict.fromkeys(self.dtypes, budget))
            elif isinstance(budget, Mapping):
                object.__setattr__(self, name, dict(budget))
        if mistake := next(self._mistakes(), ""):
            raise SpecError(f"{self.file}: {mistake}" if isinstance(self.file, str) else mistake)

    def _mistakes(self) -> Iterator[str]:
        """What is wrong with the fields. A later check relies on the earlier ones, so only the first mistake counts."""
        if isinstance(self.options, tuple) and (wrong := compile_options.refused(self.options)):
            yield wrong
        if wrong := validate.first_wrong(self, validate.checks(Kernel)):
            yield wrong
        if not self.dtypes:
            yield "dtypes is empty; give at least ('float32',)"
        for name in self.dtypes:
            if name not in DTYPES:
                yield f"dtypes: {unknown_dtype(name)}"
            if name not in self.budgets:
                yield f"budgets has no entry for dtype {name!r}"
        if not self.sizes:
            yield "sizes is empty; give at least {'small': (1000,)}"
        if not self.entries:
            yield "entries is empty; name at least one __global__ function"
        yield from self._array_mistakes()
        for form, file in self.form_files.items():
            if not file.is_file():
                yield f"{form} names {getattr(self, form)!r}, but there is no {file}; give a path relative to the spec"
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
        yield from shape_mistakes.of_sizes(self)

    def _array_mistakes(self) -> Iterator[str]:
        """What is wrong with the names and shapes of the arrays."""
        lacking = [name for name, out in self.outs.items() if not (out.reference or out.check)]
        if lacking and self.reference is None:
            yield f"nothing says what {lacking[0]} should be; give reference=, {JUDGE}"
        if self.reference is not None and not lacking:
            yield "reference judges no output: each of outputs has its own reference= or check=; leave out reference="
        if not self.input_names:
            output = next(iter(self.outs))
            yield (
                "reference takes no arrays; its parameters name the inputs. For a kernel without inputs, let it "
                f"take the output, reference=lambda {', '.join((output, *self.scalars))}: ..., and use only its shape"
            )
        if self.outputs and self.output != "y":
            yield f"output is {self.output!r}, and outputs names {', '.join(self.outputs)}; give one of the two"
        taken = [*dict.fromkeys((*self.input_names, *self.outs)), *self.scalars, *self.workspace]
        for name in taken:
            if not name.isidentifier():
                yield f"{name!r} is not a name; give one such as 'y'"
            if taken.count(name) > 1:
                yield f"{name!r} is the name of two of these: arrays, scalars, workspace"
        for form, expression in (("elementwise", self.elementwise), ("triton", self.triton), ("numba", self.numba)):
            if isinstance(expression, str) and not expression.endswith(".py") and not self.simple:
                yield f"{form} is an expression of one element, which needs one output and no scalars; leave it out"
        for name in self.inputs if isinstance(self.inputs, Mapping) else ():
            if name not in self.input_names:
                yield f"inputs: {unknown('input', name, self.input_names)}"
        yield from shape_mistakes.of_arrays(self)
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
            given = tuple(dict.fromkeys((*inputs, *self.outs))) if (called := rival.rival_of(one)).out else inputs
            wrong = "" if isinstance(one, rival.Rival) else validate.refused(called.load(), given, tuple(self.scalars))
            if wrong:
                yield f"rivals[{name!r}] {wrong}"
        for budget in self._every_budget():
            names = (*inputs, *self.scalars)
            if callable(budget.atol) and (wrong := validate.unnamed(budget.atol, names)):
                yield f"atol of a budget {wrong}"
        yield from self._backward_mistakes()

    def _every_budget(self) -> Iterator[Budget]:
        """The budgets of the kernel and of its outputs."""
        own = [found for out in self.outs.values() for found in (out.budgets, out.peers) if found is not None]
        for found in (self.budgets, self.peers, self.composed, *own):
            yield from found.values() if isinstance(found, Mapping) else (found,)

    def _backward_mistakes(self) -> Iterator[str]:
        if self.backward is None:
            return
        if self.in_place:
            yield f"backward: {self.in_place[0]} is updated in place and has no gradient; leave backward out"
        taken, due = self.named_by(self.backward), self.gradient_names
        if clash := set(due) & {*self.array_names, *self.scalars}:
            yield f"backward: {min(clash)} would be an array and the gradient of an output; rename the array"
        known = (*due, *self.input_names, *self.outs, *self.scalars)
        if (odd := [name for name in taken if name not in known]) or not set(due) & set(taken):
            what = f"names {odd[0]!r}" if odd else "names no gradient of an output"
            yield (
                f"backward {what}; it takes by name {', '.join(due)} (the gradient of {', '.join(self.outs)}), and "
                f"what it needs of {', '.join(known[len(due) :])}"
            )

    def _taken(self, entry: str) -> tuple[str, ...]:
        """The tunables and scalars that the launch function of an entry has parameters for."""
        if entry not in self._taken_by:
            try:
                names = inspect.signature(self.entries[entry]).parameters
            except (TypeError, ValueError):  # a built-in function without a signature
                names = MappingProxyType({})
            self._taken_by[entry] = tuple(name for name in (*self.tunables, *self.scalars) if name in names)
        return self._taken_by[entry]

    @cached_property
    def _taken_by(self) -> dict[str, tuple[str, ...]]:
        return {}

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

    def with_scalars(self: K, values: Mapping[str, Any]) -> K:
        """The kernel with these values of scalars (by name), and the spec's values of the others."""
        return replace(
            self, scalars={n: replace(one, value=values.get(n, one.value)) for n, one in self.scalars.items()}
        )

    def at_lengths(self: K, lengths: Mapping[str, int], size: str, shape: Shape) -> K:
        """The kernel with these values of scalars that are lengths, and the sizes and edges that go with them.

        `size` and `shape` are its only size where no other goes with them. Raises SpecError where it does not either.
        """
        sizes = {name: one for name, one in self.sizes.items() if not self.unfit_at(one, lengths)} or {size: shape}
        edges = tuple(edge for edge in self.edges if not self.unfit_at(edge, lengths))
        scalars = {n: replace(one, value=lengths.get(n, one.value)) for n, one in self.scalars.items()}
        return replace(self, scalars=scalars, sizes=sizes, edges=edges)

    def with_cu(self: K, cu: str) -> K:
        """Return the kernel with another `.cu`, without the forms in files beside the spec."""
        return replace(self, file=str(Path(cu).with_suffix(".py")), triton=None, numba=None)

    def configurations(self) -> list[dict[str, int]]:
        """Return every combination of the tunables' values that the restrictions allow, the default first."""
        every = (dict(zip(self.tunables, values, strict=True)) for values in product(*self.tunables.values()))
        return [parameters for parameters in every if self.allows(parameters)]

    def allows(self, parameters: Mapping[str, int]) -> bool:
        """Whether values of all tunables go together."""
        return self.restrictions is None or bool(validate.called(self.restrictions, **parameters))

    def macros(self, dtype: DType) -> dict[str, str]:
        """All macros with which every backend compiles the `.cu` for one element type."""
        own = (option.removeprefix("-D").partition("=") for option in self.options if option.startswith("-D"))
        values = {name: str(value) for name, value in self.parameters.items()}
        return {
            host_libraries.MACRO: "1",
            dtype_macro.name_for(self.cu): dtype.macro,
            **{name: value if given else "1" for name, given, value in own},
            **values,
        }

    @property
    def flags(self) -> tuple[str, ...]:
        """The options of nvcc that are no macros, the C++ standard first."""
        return (self.standard, *self.further_flags)

    @property
    def standard(self) -> str:
        """The C++ standard of the `.cu` as an option, such as -std=c++17. The host's compiler takes it too."""
        return compile_options.standard(self.options)

    @property
    def further_flags(self) -> tuple[str, ...]:
        """Options that nvcc has and the host's compiler has not."""
        return compile_options.of_nvcc_alone(self.options)

    def budget(self, dtype: DType, whose: str = "budgets", output: str = "") -> Budget:
        """The tolerance for `dtype` in "budgets", "peers" or "composed". Where one has none, the one before applies.

        `output`: its name, where an output may have budgets of its own, which apply to all.
        """
        out = self.outs[output] if output else None
        for own in (out.peers if whose != "budgets" else None, out.budgets) if out else ():
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

    def all_budgets(self, dtype: DType, whose: str = "budgets") -> dict[str, Budget]:
        """The tolerances of all outputs, by name, as `budget` gives them."""
        return {name: self.budget(dtype, whose, name) for name in self.outs}

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
        values = self.scalars_of(arrays, given)
        taken = {name: arrays[name] for name in self.array_names if name in arrays}
        every = tuple(_on(taken, launch) for launch in self.unchecked_launches(entry, infos(taken), values))
        return tuple(self._checked(entry, launch, taken, alone=len(every) == 1) for launch in every)

    def unchecked_launches(
        self, entry: str, known: Mapping[str, ArrayInfo], values: Mapping[str, Any]
    ) -> tuple[Any, ...]:  # fmt: skip
        """What the launch function of `entry` gives for these arrays and scalars, as a tuple."""
        result = validate.called(self.entries[entry], **known, **self.taken(entry, {**values, **self.parameters}))
        several = isinstance(result, tuple) and any(isinstance(one, Launch) for one in result)
        return result if several else (result,)

    def launch(self, entry: str, arrays: Mapping[str, Any]) -> Launch:
        """The only launch of `entry`; see `launches`. Raises SpecError where it has several."""
        (first, *more) = self.launches(entry, arrays)
        if more:
            raise SpecError(
                f"{self.file}: {entry} makes {1 + len(more)} launches; only entries with one launch can be used here"
            )
        return first

    def _checked(self, entry: str, launch: Any, arrays: Mapping[str, Any], alone: bool) -> Launch:
        if not isinstance(launch, Launch):
            raise SpecError(
                f"{self.file}: {entry}: its launch returns {short(launch)}; return a Launch(grid, block, args)"
            )
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
        if (entry := validate.called(self.called, **infos(inputs))) not in self.entries:
            raise SpecError(f"{self.file}: called: {unknown('entry', str(entry), self.entries)}")
        return entry


def _on(arrays: Mapping[str, Any], launch: Any) -> Any:
    """The launch with the arrays that its arguments stand for."""
    if not isinstance(launch, Launch):
        return launch
    return replace(launch, args=tuple(arrays[a.name] if isinstance(a, ArrayInfo) else a for a in launch.args))
