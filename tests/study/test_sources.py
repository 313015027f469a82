"""What a study's results depend on: the files whose digests are kept, and whether they have changed since."""

from __future__ import annotations

from pathlib import Path

import pytest
from findings import run_of, timed

from cudalab.report import study as report
from cudalab.spec import cuda_source, find
from cudalab.study import found, sources
from cudalab.study.found import Workload

OWN = """
from cudalab.study import Study, Variant, Work, says
import cudalab.study.truth

def made(lab):
    from cudalab.study.training import sgd
    return Work(lambda: None)

study = Study(file=__file__, summary="a trial", sizes={"tiny": {}}, defaults={"cpu": ("tiny",)},
              variants=(Variant("a", made),), baseline="a", finding=lambda run: "it is made")
"""


def measured_now(name, **options):
    """A run of a study of the lab whose sources are those of now."""
    run = run_of(name, [], **options)
    run.sources = {file: cuda_source.digest(path) for file, path in Workload(found.study(name), "").files.items()}
    return run


def test_a_study_depends_on_its_file_the_modules_that_it_imports_and_its_kernels():
    files = sources.files(found.study("jit-gelu"))
    assert {"jit_gelu.py", "study/lab.py", "study/launches.py", "kernels/gelu.cu", "kernels/gelu.py"} == set(files)
    assert files["kernels/gelu.cu"] == find.kernel("gelu").cu
    assert {"study/training.py", "study/models.py", "study/memory.py"} <= set(sources.files(found.study("batch-size")))
    for study in found.studies().values():
        named = sources.files(study)
        assert not {f"study/{name}.py" for name in sources.APART} & set(named)  # words do not change times
        assert all(path.is_file() for path in named.values())


@pytest.mark.parametrize("name", sorted(found.studies()))
def test_a_study_that_calls_a_kernel_names_it(name):
    study = found.study(name)
    text = Path(study.file).read_text()
    called = {kernel for kernel in find.kernels() if f'kernels.by_name("{kernel}")' in text}
    if "cudalab.nn" in text:  # whose modules call kernels
        assert called < set(study.kernels)
    else:
        assert called == set(study.kernels)


def test_a_changed_source_is_named():
    study, run = found.study("graphs"), measured_now("graphs")
    assert sources.changed(study, run) == []
    run.sources["kernels/gelu.cu"] = "0" * 64
    del run.sources["study/graph.py"]
    assert sources.changed(study, run) == ["study/graph.py", "kernels/gelu.cu"]


def test_a_users_study_depends_on_what_it_imports_too(tmp_path):
    file = tmp_path / "own.py"
    file.write_text(OWN)
    study = found.study(str(file))
    assert {"own.py", "study/truth.py", "study/training.py", "study/lab.py", "study/memory.py"} == set(
        sources.files(study)
    )
    run = run_of("graphs", [])
    run.sources = {name: cuda_source.digest(path) for name, path in sources.files(study).items()}
    assert sources.changed(study, run) == []
    file.unlink()
    assert sources.changed(study, run)[0] == "own.py"


@pytest.mark.parametrize(
    ("options", "ratios"),
    [
        ({"baseline": "unfused"}, "wall times with those of unfused"),
        ({"kinds": "says,wall"}, "says times with those of d"),
    ],
)
def test_a_file_with_other_ratios_is_older_than_the_study(options, ratios):
    study, run = found.study("fused-modules"), run_of("fused-modules", [], **options)
    said = sources.outdated(study, run)
    assert said.startswith(f"this file is older than the study: its ratios compare {ratios}")
    assert ", but those of the study compare wall times with those of default; measure it again with `cudalab s" in said
    assert sources.outdated(study, run_of("fused-modules", [])) == ""


def test_a_finding_of_an_older_file_says_so_and_of_an_unknown_study_nothing():
    cases = [timed("timing", "engine", "batch1", says=1e-3, wall=5e-3)]
    said = report.finding(run_of("timing", cases, kinds="says,wall"))
    assert said.startswith("this file is older than the study")
    run = run_of("clocks", [timed("theirs", "a", "tiny", busy=1.0)], study="./theirs.py")
    stand_in = found.study_of(run)
    assert stand_in.name == "theirs"
    assert sources.changed(stand_in, run) == []
    assert sources.outdated(stand_in, run) == report.finding(run) == ""
