"""A machine with a driver and no CUDA toolkit: what is found, what pip is asked for, what is said where that fails."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
from tables import table

from cudalab.base import errors, scratch
from cudalab.base.errors import Unavailable
from cudalab.device import cuda, nvcc, toolkit
from cudalab.tools import toolkit as tool


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """Sets what is there: the driver's version of CUDA (0: none), nvcc in `places` under the folder that it returns."""

    def have(driver, *places, says="release 12.8"):
        def answer(version):
            version._obj.value = driver
            return 0

        def library(name):
            if not driver:
                raise OSError(name)
            return SimpleNamespace(cuDriverGetVersion=answer, cuInit=lambda flags: 0)

        monkeypatch.setattr(ctypes, "CDLL", library)
        for place in places:
            program = tmp_path / place / "bin" / "nvcc"
            program.parent.mkdir(parents=True)
            program.write_text(f"#!/bin/sh\necho {says}\n")
            program.chmod(0o755)
        return tmp_path

    for name, place in (("CUDA_ROOT", "root"), ("CUDA_HOME", "home")):
        monkeypatch.setenv(name, str(tmp_path / place))
    monkeypatch.setenv("PATH", str(tmp_path / "path" / "bin"))
    monkeypatch.setattr(toolkit, "FOLDER", tmp_path / "filled")
    packages = SimpleNamespace(submodule_search_locations=[str(tmp_path / "nvidia")])
    monkeypatch.setattr(toolkit, "find_spec", lambda name: packages)
    return have


def test_nvcc_is_looked_for_in_this_order(machine):
    places = ["path", "root", "home", "filled/nvidia/cu13", "nvidia/cu13"]
    folder = machine(0, *places)
    for place in places:
        program = folder / place / "bin" / "nvcc"
        assert toolkit.nvcc() == str(program)
        assert toolkit.from_wheels(str(program)) == ("nvidia" in place)
        program.unlink()
    assert toolkit.nvcc() is None


def test_an_nvcc_in_the_current_folder_has_a_whole_path(machine, monkeypatch):
    place = machine(0, "path") / "path" / "bin"
    monkeypatch.chdir(place)
    monkeypatch.setenv("PATH", ".")
    assert toolkit.nvcc() == str(place / "nvcc") and not toolkit.from_wheels(toolkit.nvcc())


@pytest.mark.parametrize(("driver", "places", "installs"), table("toolkit", "make", int, str.split, str))
def test_what_make_installs(machine, driver, places, installs):
    machine(driver, *places)
    assert toolkit.for_make() == installs


@pytest.mark.parametrize(
    ("says", "installs"), [("release 14.1", "13"), ("release 11.8", ""), ("hello", ""), (None, "")]
)
def test_make_heeds_what_nvcc_says(machine, says, installs):
    """One of a version that the extras do not know, or that does not start."""
    program = machine(13000, "path", says=says) / "path" / "bin" / "nvcc"
    if says is None:
        program.write_text("of another machine")
    assert toolkit.for_make() == installs


@pytest.mark.parametrize(
    ("version", "wanted"),
    [((13, 0), ">=13,<13.1"), ((13, 5), ">=13,<13.6"), ((13, 99), ">=13,<13.100"), ((14, 1), ">=13,<14")],
)
def test_the_wheels_are_never_newer_than_the_driver(version, wanted):
    assert tool.requirements(version)[0] == f"nvidia-cuda-nvcc{wanted}"


@pytest.mark.parametrize(("driver", "places", "said"), table("toolkit", "PyCUDA", int, str.split, str))
def test_without_pycuda_the_lab_says_what_to_type(machine, monkeypatch, driver, places, said):
    machine(driver, *places)
    monkeypatch.setattr(cuda.driver, "missing", lambda: None)
    monkeypatch.setattr(cuda, "installed", lambda name: False)
    assert said in cuda.missing.__wrapped__()
    if not places and driver < 13000:  # nothing that `cudalab toolkit` could install
        assert said in cuda._pycuda_advice(again=True)


@pytest.mark.parametrize(
    ("driver", "said"), [(0, "toolkit --cuda 13, which"), (13000, "toolkit, which"), (12080, "no wheel")]
)
def test_without_nvcc_the_lab_says_what_to_type(machine, driver, said):
    machine(driver)
    assert said in toolkit.no_nvcc()


def test_an_nvcc_off_path_is_put_onto_it_for_pycuda(machine, monkeypatch):
    folder = machine(13000, "home")
    monkeypatch.setattr(cuda.driver, "missing", lambda: None)
    monkeypatch.setattr(cuda, "installed", lambda name: True)
    for name in ("pycuda", "pycuda.driver"):
        monkeypatch.setitem(sys.modules, name, SimpleNamespace())
    assert cuda.missing.__wrapped__() is None
    assert os.environ["PATH"].split(os.pathsep) == [str(folder / "path" / "bin"), str(folder / "home" / "bin")]


@pytest.fixture
def pip(monkeypatch, tmp_path):
    """What pip was asked for; it makes a compiler, as the wheels do, and PyCUDA is missing until it was asked."""
    asked = []

    def install(*words, **environment):
        asked.append((words, environment))
        if "--target" in words:
            root = Path(words[words.index("--target") + 1], "nvidia", "cu13")
            for file in ("bin/nvcc", "lib/libcudart.so.13", "include/cuda.h"):
                (root / file).parent.mkdir(parents=True)
                (root / file).write_text("#!/bin/sh\n")
                (root / file).chmod(0o755)
        else:
            asked.append((Path(environment["HOME"]) / ".aksetup-defaults.py").read_text())

    monkeypatch.setattr(tool, "_pip", install)
    monkeypatch.setattr(tool, "_libcuda", lambda: "/usr/lib/libcuda.so.1")
    monkeypatch.setattr(tool, "_pycuda_fails", lambda: "" if len(asked) > 1 else "No module named 'pycuda'")
    (tmp_path / "Python.h").touch()
    monkeypatch.setattr(tool.sysconfig, "get_paths", lambda: {"include": str(tmp_path)})
    monkeypatch.setattr(tool.host, "compiler_missing", lambda: None)
    broken = lambda compiler: "no libdevice" if Path(compiler).read_text().endswith("echo broken\n") else ""  # noqa: E731
    monkeypatch.setattr(nvcc, "broken", cache(broken))
    return asked


def test_wheels_are_linked_as_a_toolkit_and_pycuda_is_built_with_them(machine, pip):
    root = machine(13000) / "filled" / "nvidia" / "cu13"
    said = []
    tool.install(said.append)
    wheels, (build, environment), settings = pip[0][0], pip[1], pip[2]
    assert "nvidia-nvvm>=13,<13.1" in wheels and "pycuda>=2025.1.2" in build
    assert environment["PATH"].startswith(f"{root / 'bin'}:")
    assert (
        f"CUDA_ROOT = {str(root)!r}\nCUDA_INC_DIR = {[str(root / 'include')]!r}\n" in settings
        and "CUDA_ENABLE_CURAND = False" in settings
    )
    assert (root / "lib64" / "libcudart.so").resolve() == root / "lib" / "libcudart.so.13"
    assert toolkit.nvcc() == str(root / "bin" / "nvcc")
    del pip[2:]
    tool.install(said.append)
    assert len(pip) == 2 and said[-2:] == [f"nvcc is there: {root / 'bin' / 'nvcc'}", "PyCUDA is there"]


@pytest.mark.parametrize("place", ["nvidia/cu13", "filled/nvidia/cu13"])
def test_wheels_whose_nvcc_is_broken_are_replaced(machine, pip, place):
    folder = machine(13000, place, says="broken")
    tool.install(str)
    assert "--target" in pip[0][0] and toolkit.nvcc() == str(folder / "filled/nvidia/cu13/bin/nvcc")


def test_for_another_nvcc_that_is_broken_it_is_said_what_to_do(machine, pip):
    machine(13000, "home", says="broken")
    with pytest.raises(Unavailable, match=r"no libdevice; mend it, or take it off PATH, .* type cudalab toolkit again"):
        tool.install(str)
    assert not pip
    said = []
    tool.install(said.append, cuda="13.0")
    assert f"the lab uses {toolkit.nvcc()} all the same, until it is taken off" in said[2]


def test_the_toolkit_is_that_of_the_nvcc_that_a_script_on_path_calls(machine, pip, monkeypatch):
    """And a HOME that is not there is no reason to stop."""
    folder = machine(13000, "path")
    monkeypatch.setenv("HOME", str(folder / "nowhere"))
    top, include = folder / "cuda" / "bin" / "..", folder / "cuda" / "targets" / "x86_64-linux" / "include"
    script = folder / "path" / "bin" / "nvcc"
    said = f'#$ TOP={top}\n#$ INCLUDES="-I{top}/targets/x86_64-linux/include"  \n'
    script.write_text(f"#!/bin/sh\nprintf '%s' '{said}' >&2\n")
    pip.append("missing")
    with pytest.raises(Unavailable, match=r"cuda\.h, which is not in .*: install the headers"):
        tool._pycuda(str(script), str)
    include.mkdir(parents=True)
    (include / "cuda.h").touch()
    tool._pycuda(str(script), str)
    assert f"CUDA_ROOT = {str(folder / 'cuda')!r}\nCUDA_INC_DIR = {[str(include)]!r}\n" in pip[-1]


def test_a_place_that_cannot_be_written_is_met_before_the_download(machine, pip, monkeypatch):
    monkeypatch.setattr(toolkit, "FOLDER", machine(13000) / "Python.h" / "cudalab-cuda")
    with pytest.raises(Unavailable, match=r"Not a directory.*; use a virtual environment"):
        tool.install(str)
    assert not pip


def test_without_a_driver_a_version_installs_nvcc_alone(machine, pip):
    machine(0)
    tool.install(str, cuda="13.0")
    assert len(pip) == 1 and "nvidia-cuda-nvcc>=13,<13.1" in pip[0][0]


@pytest.mark.parametrize(("driver", "version", "error", "said"), table("toolkit", "refused"))
def test_what_cannot_be_installed_is_said_before_a_download(machine, pip, driver, version, error, said):
    machine(int(driver))
    with pytest.raises(getattr(errors, error), match=said):
        tool.install(str, cuda=version)
    assert not pip


def test_an_environment_without_pip_and_uv_is_told_before_a_download(machine, pip, monkeypatch):
    machine(13000)
    monkeypatch.setattr(tool.advice, "installer", lambda: ["uv"])
    monkeypatch.setenv("PATH", "")
    with pytest.raises(
        Unavailable, match=r"no pip, and uv is not on PATH; type: .* -m ensurepip, then cudalab toolkit"
    ):
        tool.install(str)
    assert not pip


def test_headers_of_python_are_asked_for_before_a_download(machine, pip):
    (machine(13000) / "Python.h").unlink()
    with pytest.raises(Unavailable, match=r"Python.h is not there; install python3\.\d+-dev"):
        tool.install(str)
    assert not pip


def test_a_failed_download_leaves_what_was_there(machine, monkeypatch):
    kept = machine(13000, "filled/nvidia/cu13") / "filled"
    monkeypatch.setattr(tool.host, "compiler_missing", lambda: None)

    def run(*words, env, **options):
        assert Path(env[scratch.VARIABLE]).is_dir()  # so it ends with this process
        retries = "WARNING: Retrying (Retry(total=4)) after connection broken\n"
        return SimpleNamespace(returncode=1, stdout="", stderr=f"{retries}ERROR: No matching distribution")

    monkeypatch.setattr(tool.program, "run", run)
    said = r"(?s)this failed: [^\n]*nvidia-cuda-nvcc>=13,<13.1[^\n]*\nERROR: No matching.*reachable.*Without a network"
    with pytest.raises(Unavailable, match=said):
        tool.install(str, cuda="13.0")
    assert (kept / "nvidia" / "cu13" / "bin" / "nvcc").exists() and not kept.with_name("filled.new").exists()
