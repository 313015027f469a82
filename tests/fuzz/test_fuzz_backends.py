"""Hard values and odd shapes through every backend of the CPU."""

from __future__ import annotations

import dataclasses

import numpy as np
from fuzzing import hard, more, shapes
from hypothesis import given
from hypothesis import strategies as st

from cudalab import backends
from cudalab.device.cpu import Cpu
from cudalab.engine.groups import Group
from cudalab.engine.job import Job
from cudalab.engine.kernel_round import cases as cases_of
from cudalab.engine.selection import Selection
from cudalab.results import record
from cudalab.spec import find
from cudalab.spec.dtype import dtype


@st.composite
def groups(draw):
    """A kernel of the lab at any shape and dtype, whose inputs are hard values."""
    kernel = draw(st.sampled_from(list(find.kernels().values())).filter(lambda k: k.pointwise))
    shape = draw(shapes.filter(lambda shape: len(shape) < 9))
    shape = (*shape, 3, 5)[: kernel.rank] if kernel.rank else shape
    kind = dtype(draw(st.sampled_from(kernel.dtypes)))
    seed = draw(st.integers(0, 2**32))
    made = {name: hard(shape, kind, seed + i) for i, name in enumerate(kernel.input_names)}
    return Group(dataclasses.replace(kernel, inputs=lambda *_: made), "fuzz", shape, kind)


@more(0.4)
@given(groups())
def test_every_backend_of_the_cpu(group):
    job = Job(device=Cpu(), selection=Selection(skip=("torch_compile",)), modes=(), seed=0, budget=0.01,
              progress=lambda step: None)  # fmt: skip
    rows = cases_of(job, group)
    here = {
        name for name, backend in backends.by_name().items()
        if "cpu" in backend.devices and name != "torch_compile" and backend.variants(group.kernel)
    }  # fmt: skip
    assert {row.backend for row in rows} == here
    with np.errstate(invalid="ignore"):
        huge = any(not (np.abs(a.astype(np.float64)) < 1e38).all() for a in group.kernel.inputs().values())
    for row in rows:
        if row.backend == "torch_native" and group.kernel.name == "gelu" and huge:
            continue  # PyTorch 2.13 with oneDNN: gelu(2.8e38) is inf, gelu(inf) is nan
        assert row.status in (record.OK, record.SKIPPED), f"{row.label}: {row.reason}"
        assert row.status != record.SKIPPED or backends.by_name()[row.backend].missing("cpu")
