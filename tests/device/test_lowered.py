"""nvcc's names of functions and variables with names of C++."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from cudalab.base.errors import CompileError
from cudalab.device import cuda
from cudalab.device.constants import _symbol
from cudalab.device.lowered import among, of_names
from cudalab.spec import entry_names

DATA = Path(__file__).parents[1] / "data" / "launch"
EXPECTED = {
    "scale<2, float>": "_Z5scaleILi2EfEvPT0_PKS0_i",
    "scale<(1 < 2) + 1, double>": "_Z5scaleILi2EdEvPT0_PKS0_i",
    "ns::inner::twice": "_ZN2ns5inner5twiceEPfPKfi",
    "ns::times<>": "_ZN2ns5timesILi2EEEvPfPKfi",
    "add(float*, const float*, float, int)": "_Z3addPfPKffi",
    "scale_4": "scale_4",
    "times_2": "_Z7times_2PfPKfi",
}
needs_nvcc = pytest.mark.skipif(not shutil.which("nvcc"), reason="nvcc is not on PATH")


def compiled(tmp_path: Path, text: str) -> bytes:
    (tmp_path / "a.cu").write_text(text)
    command = ["nvcc", "--cubin", "-w", "-arch", "sm_90", *cuda.FLAGS, "a.cu", "-o", "a.cubin"]
    subprocess.run(command, cwd=tmp_path, check=True)
    return (tmp_path / "a.cubin").read_bytes()


@needs_nvcc
def test_names_of_nvcc(tmp_path):
    names = tuple(EXPECTED)
    code = compiled(tmp_path, entry_names.source((DATA / "names.cu").read_text(), "names.cu", names))
    assert of_names(code, names) == EXPECTED


@needs_nvcc
def test_constants_of_nvcc(tmp_path):
    code = compiled(tmp_path, (DATA / "constants.cu").read_text())
    names = ("weights", "shift", "params::scale")
    assert [_symbol(code, name) for name in names] == ["weights", "shift", "_ZN6params5scaleE"]


def test_parts_that_a_name_repeats_are_counted_from_the_marker_on():
    symbols = {"_Z1fP1AP1BS0_", "_Z1fP1AP1BS2_", "_Z13cudalab_entryIXadL_Z1fP1AP1BS3_EELi0EEvv"}
    assert among(symbols, ("f(A*, B*, B*)",)) == {"f(A*, B*, B*)": "_Z1fP1AP1BS2_"}
    with pytest.raises(CompileError, match="generated no code for g<1>; does an #if exclude it"):
        among(symbols, ("f(A*, B*, B*)", "g<1>"))
