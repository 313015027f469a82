"""Generated tables equal those made from the committed results; the README's example equals its files, and runs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tarfile
from pathlib import Path

import pytest
import readme_tables
from click.testing import CliRunner
from pages import card, committed, method

import cudalab
from cudalab.base.memo import unchanged
from cudalab.cli import main
from cudalab.results import record
from cudalab.spec import find
from cudalab.study.found import studies

ROOT = Path(__file__).parents[2]
DOCUMENTS = (
    "README.md", "bench/METHOD.md", "docs/commands.md", "docs/inspect.md", "docs/pytorch.md", "docs/studies.md",
    "docs/table.md",
)  # fmt: skip
STUDIES = sorted((ROOT / "bench" / "results" / "h200" / "studies").glob("*.json"))
README = (ROOT / "README.md").read_text()
H200 = sorted((ROOT / "bench" / "results" / "h200").glob("*.json"))


def test_every_document_with_tables_is_known():
    assert sorted(readme_tables.TABLES) == sorted(DOCUMENTS)


# Its tables take 20 compilations: 30 s on an idle machine, minutes on a busy one.
COMPILED = pytest.param("docs/inspect.md", marks=pytest.mark.sweep)


@pytest.mark.sweep
@pytest.mark.parametrize("document", [COMPILED if d == "docs/inspect.md" else d for d in DOCUMENTS])
def test_the_tables_are_those_of_the_results(document):
    text = (ROOT / document).read_text()
    module = readme_tables
    if document == module.COMPILED and module.compiler() != module.NVCC:
        pytest.skip(f"needs nvcc {module.NVCC} and nvdisasm")
    assert module.filled(document, text) == text, "run: make tables"


@pytest.mark.sweep
def test_the_pages_of_the_cards_are_those_of_the_results():
    with unchanged():
        assert [path for path, make in card.pages().items() if make() != path.read_text()] == [], "run: make tables"


def test_no_page_of_a_card_is_missing_or_left_over():
    assert [path for path in card.pages() if not path.exists()] + card.stale() == [], "run: make tables"


@pytest.mark.parametrize("path", H200, ids=lambda p: p.stem)
def test_the_results_are_complete(path):
    run = cudalab.load(path)
    kernel = find.kernel(path.stem)
    assert run.machine.name == "NVIDIA H200"
    assert {(c.size, c.dtype) for c in run.cases} == {(s, d) for s in kernel.sizes for d in kernel.dtypes}
    measured = {c.variant for c in run.cases if c.backend == "pycuda"}
    assert measured == set(kernel.entries) or committed.changed(run)  # then the table says so
    assert run.complete
    bad = [c for c in run.cases if c.status in record.BROKEN]
    assert not [f"{c.label} {c.group} {c.reason}" for c in bad]


@pytest.mark.parametrize("path", STUDIES, ids=lambda p: p.stem)
def test_the_results_of_a_study_are_right_and_complete(path):
    run = cudalab.load(path)
    assert run.complete and run.machine.name == "NVIDIA H200"
    assert run.options["study"] == path.stem and path.stem in studies()
    assert not [f"{c.label} {c.size} {c.reason}" for c in run.cases if c.status in record.BROKEN]
    assert all(c.times for c in run.cases if c.status == record.OK)


def test_the_engine_does_what_its_proof_says():
    """The claims of METHOD.md that have a number to meet."""
    engine = json.loads((ROOT / "bench/results/h200/engine/engine.json").read_text())
    for size in ("small", "large"):
        found = engine[f"A/A {size}"]
        assert found["verdicts"].get("SAME", 0) >= 95
        assert not {"FASTER", "SLOWER"} & set(found["verdicts"])
    changes = [float(line.split("|")[-2].split()[0]) for line in method.two_runs().splitlines()[2:]]
    assert len(changes) > 20
    assert max(map(abs, changes)) < 2


def test_no_h200_results_are_of_a_kernel_that_is_gone():
    gone = [p for p in H200 if p.stem not in find.kernels()]
    assert not gone, f"no such kernel any more: git rm {' '.join(str(p.relative_to(ROOT)) for p in gone)}"


@pytest.mark.process
def test_the_script_that_takes_them_knows_all_kernels_sizes_and_studies(tmp_path):
    """With `echo` in place of Python, the text of each file is the command that would make it."""
    env = {**os.environ, "PYTHON": "echo", "GPUS": "0 1"}
    done = subprocess.run([ROOT / "bench" / "card.sh", tmp_path, "kernels", "studies", "pair"],
                          env=env, capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    for name, kernel in find.kernels().items():
        log = tmp_path / f"{name}.txt"
        assert log.exists(), f"bench/card.sh: add {name} to kernels=(...)"
        words = log.read_text().split()
        sizes = set(words[words.index("--sizes") + 1].split(","))
        assert sizes == set(kernel.sizes), f"bench/card.sh, kernel(): add `{name}) sizes={','.join(kernel.sizes)} ;;`"
    assert {path.stem for path in (tmp_path / "studies").glob("*.txt")} == set(studies())
    asked = subprocess.run([ROOT / "bench" / "card.sh", tmp_path, "gleu"], capture_output=True, text=True)
    assert asked.returncode == 2 and "no gleu here" in asked.stderr


@pytest.mark.process
def test_the_script_goes_on_with_what_is_incomplete_and_ends_in_time(tmp_path):
    """A stand-in for Python writes complete files and refuses to resume."""
    python, out = tmp_path / "python", tmp_path / "out"
    python.write_text(
        "#!/bin/sh\necho $*\n"
        'case "$*" in *--resume*) echo cannot resume; exit 2 ;; esac\n'
        'while [ "$1" != -o ]; do shift; done; echo \'{"complete":true}\' >"$2"\n'
    )
    python.chmod(0o755)
    out.mkdir()
    for name, complete in {"sum": "true", "matmul": "false"}.items():
        (out / f"{name}.json").write_text(f'{{"complete":{complete},"name":"{name}"}}')
    env = {**os.environ, "PYTHON": str(python), "LIMIT": "161", "PACK": str(tmp_path / "all.tgz")}
    done = subprocess.run([ROOT / "bench" / "card.sh", out, "sum", "plus_one", "checks matmul wall"],
                          env=env, capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "left to do: checks wall"
    assert f"sum is left as it is: {out}/sum.json is complete" in done.stdout
    assert '"name":"sum"' in (out / "sum.json").read_text()
    assert done.stdout.index("matmul, resumed, exit code 2") < done.stdout.index("plus_one, exit code 0")
    assert "matmul" in (out / "matmul.old.json").read_text() and "true" in (out / "matmul.json").read_text()
    with tarfile.open(tmp_path / "all.tgz") as packed:
        assert {"./plus_one.txt", "./matmul.txt"} <= set(packed.getnames())


@pytest.mark.process
def test_the_script_of_the_studies_estimates_each_and_those_of_one_gpu_fit_twelve_minutes(tmp_path):
    script, env = ROOT / "bench" / "studies.sh", {**os.environ, "PYTHON": "echo"}
    listed = subprocess.run([script], capture_output=True, text=True)
    assert listed.returncode == 64
    seconds = {name: int(n) for n, name in re.findall(r"(\d+) s  ([\w-]+)(?:,|$)", listed.stdout, re.M)}
    assert seconds.keys() == studies().keys(), "bench/studies.sh: add the study and its seconds"
    assert int(re.search(r"(\d+) s  all of these", listed.stdout)[1]) <= 720
    done = subprocess.run([script, tmp_path, "graphs", "pair"], env=env, capture_output=True, text=True)
    assert done.returncode == 0
    assert {path.stem for path in tmp_path.glob("*.txt")} == {"graphs", "ddp", "load-balance"}
    assert "study graphs --device cuda" in (tmp_path / "graphs.txt").read_text()
    fails = {**env, "PYTHON": "false"}
    failed = subprocess.run([script, tmp_path, "graphs"], env=fails, capture_output=True, text=True)
    assert failed.returncode == 1 and "exit code 1" in failed.stdout
    asked = subprocess.run([script, tmp_path, "gleu"], env=env, capture_output=True, text=True)
    assert asked.returncode == 64 and "no study gleu" in asked.stderr


def test_the_readme_is_short():
    assert len(README.split()) <= 900
    tables = re.findall(r"(?:^\|.*\n)+", README, re.MULTILINE)
    assert len(tables) <= 2 and all(len(one.splitlines()) <= 2 + 6 for one in tables)


def test_the_example_is_the_file_and_is_short():
    files = [ROOT / "bench" / "examples" / name for name in ("softmax.cu", "softmax.py")]
    assert sum(len(f.read_text().splitlines()) for f in files) < 40
    for file in files:
        assert file.read_text().strip() in README


@pytest.mark.sweep
def test_the_example_is_right():
    options = ("--device", "cpu", "--skip", "torch_compile")
    run = CliRunner().invoke(main, ["check", str(ROOT / "bench/examples/softmax.py"), *options])
    assert run.exit_code == 0, run.output
    assert re.search(r"host:softmax( \*)? +right", run.output)
