"""Studies: the engine's rows for variants that are right, wrong, slow or crash, and the command `cudalab study`."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
import specs
from commands import invoke, ran, refused
from findings import told

import cudalab
from cudalab.base import load
from cudalab.base.errors import InputError, NotFound, SpecError, Unavailable
from cudalab.base.stats import Ratio
from cudalab.base.text import visible
from cudalab.device.open import open_device
from cudalab.engine import early, session
from cudalab.engine.job import Job
from cudalab.engine.selection import Selection
from cudalab.report import render, study_text, table
from cudalab.report import study as report
from cudalab.report.html import study as html_study
from cudalab.report.results import Results
from cudalab.results import compare, record
from cudalab.results.record import Case, Machine, Parity
from cudalab.study import Published, Study, Variant, Work, engine, fields, found, says
from cudalab.study import run as runner
from cudalab.study.found import Workload
from cudalab.tools.pytest.cases import need_gpu

HERE = """
import os, sys, time
import numpy as np
from cudalab import Unavailable
from cudalab.study import Published, Study, Variant, Work, says
"""
SUMS = """

def made(function, **more):
    def make(lab):
        x = lab.once("x", lambda: np.random.default_rng(lab.seed).standard_normal(lab["shape"]) * lab["scale"])
        last = [None]

        def run():
            last[0] = function(x)

        return Work(run, lambda: last[0], quantities=lambda: {"rows": len(x), "held_bytes": x.nbytes}, items=len(x))

    return make


def finding(run):
    return f"numpy is {says.factor(run, 'tiny', 'numpy')} as fast"


study = Study(
    file=__file__,
    summary="the sums of rows",
    sizes={"tiny": {"shape": (20, 30)}, "large": {"shape": (200, 300)}},
    defaults={"cpu": ("tiny",)},
    settings={"scale": 1.0, "steps": 3, "exact": False},
    variants=(
        Variant("numpy", made(lambda x: x.sum(1))),
        Variant("loop", made(lambda x: np.array([row.sum() for row in x]))),
        Variant("gpu", made(len), ("cuda",), "warps are a GPU's"),
    ),
    baseline="loop",
    finding=finding,
    published=(Published("An article", "a card", {("tiny", "loop"): 2e-3, ("tiny", "numpy"): 1e-3}, "nothing"),),
    about="Rows are summed.",
)
"""
DEADLY = """

def does(run):
    return lambda lab: Work(run, lambda: 1.0)


study = Study(
    file=__file__,
    summary="what can go wrong",
    sizes={"only": {}},
    defaults={"cpu": ("only",)},
    variants=(
        Variant("fine", does(int)), Variant("crash", does(lambda: os._exit(3))),
        Variant("hang", does(lambda: time.sleep(100))), Variant("also-fine", does(int)),
    ),
    baseline="fine",
    finding=lambda run: "it goes on",
)
"""


def study(*variants: Variant, sizes=None, **more) -> Study:
    """A study in this process; the first variant is the baseline."""
    given = {"file": "/none/trial.py", "summary": "a trial", "sizes": sizes or {"tiny": {}}, "finding": lambda run: "",
             "defaults": {"cpu": tuple(sizes or ("tiny",))}, "baseline": variants[0].label, **more}  # fmt: skip
    return Study(variants=variants, **given)


def measured(one: Study, modes=("launch",), settings=None, size="tiny", steps=None) -> dict[str, Case]:
    """The rows of a study's engine, by label, on the CPU of this process."""
    device, _ = open_device("cpu")
    job = Job(device, Selection(), modes, 0, 0.005, [].append if steps is None else steps.append)
    return {case.label: case for case in engine.cases(job, Workload(one, size, settings or one.settings))}


RIGHT = np.array([1.0, 2.0])


def works(value: object = RIGHT, seconds: float = 0.0, **more):
    """A variant's `make`: each run takes so long, and computes `value`."""
    return lambda lab: Work(lambda: time.sleep(seconds) if seconds else None, lambda: value, **more)


def raises(error: BaseException):
    def make(lab):
        raise error

    return make


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "row_sums.py"
    path.write_text(HERE + SUMS)
    return str(path)


@pytest.fixture(scope="module")
def sums(tmp_path_factory):
    """A run of SUMS in a worker, and the file it was written to."""
    folder = tmp_path_factory.mktemp("sums")
    (folder / "row_sums.py").write_text(HERE + SUMS)
    out = folder / "out.json"
    run = cudalab.run_study(folder / "row_sums.py", sizes="tiny", device="cpu", budget=0.01, output=out,
                            settings={"scale": 2})  # fmt: skip
    return run, out


def command(*words: str, width: int = 140):
    return invoke("study", *words, COLUMNS=str(width), NO_COLOR="1")


# The engine


def test_rows_are_compared_with_the_baseline_and_timed():
    rows = measured(study(Variant("one", works([1.0, 2.0])), Variant("same", works((1.0, 2.0)))))
    assert [c.status for c in rows.values()] == ["ok", "ok"]
    assert all(c.parity.ok and c.parity.n == 2 for c in rows.values())
    assert len(rows["one"].times["wall"]) == len(rows["same"].times["wall"]) >= 10
    assert rows["one"].costs.keys() >= {"bind", "first run", "check", "clocks", "timing"}


def test_the_baseline_comes_first_and_a_variant_may_be_of_some_sizes_alone():
    order = []
    one = study(Variant("b", lambda lab: order.append("b") or Work(int)), Variant("a", lambda lab: order.append("a")
                or Work(int)), baseline="a")  # fmt: skip
    assert list(measured(one, ())) == order == ["a", "b"]
    one = study(Variant("a", works()), Variant("b", works(), sizes=("large",)), sizes={"tiny": {}, "large": {}})
    assert list(measured(one, ())) == ["a"]
    assert list(measured(one, (), size="large")) == ["a", "b"]


OUTCOMES = [
    (works(np.array([1.0, 2.1])), record.WRONG, "1 of 2 values differ"),
    (works(np.array([1.0, np.nan])), record.WRONG, "1 of 2 values differ"),
    (works(np.array([1.0])), record.WRONG, "sizes differ|shape"),
    (works({"a": RIGHT, "b": np.array(3.0)}), record.WRONG, "its result has 2 arrays, and the baseline's has 1"),
    (raises(RuntimeError("it did not work")), record.ERROR, "it did not work"),
    (raises(Unavailable("pip install it")), record.SKIPPED, "^pip install it$"),
    (lambda lab: Work(lambda: 1 / 0), record.ERROR, "division by zero"),
    (lambda lab: None, record.ERROR, "its make returned None; give a Work"),
    (lambda lab: Work(None), record.ERROR, "its Work: run is None; give a function"),
]
ODD_WORK = [
    (works(notes="one"), "notes is 'one'; give a list of texts"),
    (works(items=float("nan")), "items is nan; give a number"),
    (works(clocks={}), "clocks is {}; give functions by kind"),
    (works(quantities=lambda: None), "its quantities are None; give numbers by name"),
    (works(quantities=lambda: {"a": float("inf")}), "its quantity 'a' is inf; give a number"),
    (works(quantities=lambda: {"a": "1"}), "its quantity 'a' is '1'; give a number"),
    (works(quantities=lambda: {"a": 10**400}), "its quantity 'a' is 1000"),
    (works(quantities=lambda: {3: 1.0}), "a quantity is named 3; give a name"),
    (works(afterwards=lambda: {"a": float("nan")}), "its quantity 'a' is nan"),
    (raises(SystemExit(3)), "it raised SystemExit, which ends Python"),
    (lambda lab: Work(lambda: lab["none"]), "no parameter or setting of trial tiny named 'none'; known: n"),
    (lambda lab: Work(list, lambda: None), "a result holds NoneType; give tensors, arrays and numbers"),
    *((works(clocks={"wall": lambda taken=taken: taken}), f"its clock 'wall' gave {taken!r}; give a list of seconds")
      for taken in ([], [0.0], [-1.0], [1e300], ["1"], [[1.0]], 1.0, None)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("make", "status", "reason"),
    [*OUTCOMES, *(pytest.param(make, record.ERROR, re.escape(reason), marks=pytest.mark.sweep)
                  for make, reason in ODD_WORK)],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_what_is_wrong_fails_or_cannot_be_had_costs_its_row_alone_and_says_why(make, status, reason):
    rows = measured(study(Variant("base", works()), Variant("odd", make), sizes={"tiny": {"n": 1}}, rounds=1))
    assert rows["odd"].status == status
    assert re.search(reason, rows["odd"].reason)
    assert not rows["odd"].times
    assert rows["base"].status == "ok" and rows["base"].times
    assert status != record.WRONG or not rows["odd"].quantities
    msgspec.json.decode(msgspec.json.encode(list(rows.values())), type=list[Case])  # as the parent reads it


def test_what_cannot_be_closed_or_timed_says_so_and_no_more():
    rows = measured(study(Variant("base", works()), Variant("odd", works(close=lambda: 1 / 0, items=np.int64(2)))))
    assert rows["odd"].times and rows["odd"].quantities["items"] == 2.0
    assert rows["odd"].notes == ["failed while it was closed: ZeroDivisionError: division by zero"]
    assert rows["base"].notes == []
    row = measured(study(Variant("base", works()), kinds=("hot",)))["base"]
    assert (row.status, row.times) == ("ok", {})
    assert "no hot time: a CPU has only wall" in row.notes[0]


def test_where_the_baseline_fails_the_others_are_timed_and_say_so():
    rows = measured(study(Variant("base", lambda lab: Work(lambda: 1 / 0, lambda: 1)), Variant("other", works())))
    assert rows["base"].status == "error"
    assert rows["other"].times
    assert rows["other"].parity is None
    assert "not compared: the baseline, base," in rows["other"].notes[0]


def test_clocks_quantities_items_and_notes_of_a_work_are_kept():
    clocks = {"epoch": lambda: [0.25, 0.25], "load": lambda: [0.125]}
    make = works(clocks=clocks, quantities=lambda: {"launches": 5}, items=7.0, notes=["a note"])
    row = measured(study(Variant("base", make)))["base"]
    assert row.times.keys() == {"epoch", "load"}
    assert row.median("epoch") == 0.25
    assert row.quantities == {"launches": 5.0, "items": 7.0}
    assert row.notes == ["a note"]


def test_settings_are_parameters_and_what_is_shared_is_made_once():
    seen = []
    one = study(Variant("a", lambda lab: seen.append((lab["n"], lab["m"])) or Work(int)), settings={"n": 1, "m": 2},
                sizes={"tiny": {"n": 9}})  # fmt: skip
    measured(one, (), found.chosen(one, {"m": "5"}))
    assert seen == [(9, 5)]
    made, closed = [], []

    def make(lab):
        lab.once("x", lambda: made.append(1))
        return Work(int, close=lambda: closed.append(lab["n"]))

    measured(study(Variant("a", make), Variant("b", make), sizes={"tiny": {"n": 4}}))
    assert (made, closed) == ([1], [4, 4])


def test_rounds_interleave_all_variants():
    order = []

    def clocked(label):
        return works(clocks={"wall": lambda: order.append(label) or [1e-3]})

    measured(study(*(Variant(label, clocked(label)) for label in "abc")))
    rounds = [order[i : i + 3] for i in range(0, len(order), 3)]
    assert len(rounds) >= 10
    assert sum(sorted(one) == ["a", "b", "c"] for one in rounds) >= len(rounds) - 2
    assert len({tuple(one) for one in rounds}) > 1  # shuffled


def test_every_phase_is_a_sign_of_life():
    steps = []
    measured(study(Variant("a", lambda lab: lab.tick("downloading nothing") or Work(int))), steps=steps)
    assert {"prepare", "downloading nothing", "first run", "counting", "timing, wall"} <= {s.phase for s in steps}
    assert all(s.label == "a" for s in steps if s.phase == "downloading nothing")


def test_less_memory_is_a_lower_peak():
    torch = pytest.importorskip("torch")
    n = 1 << 16

    def make(pieces):
        return lambda lab: Work(lambda: [torch.ones(n // pieces).add_(1).sum() for _ in range(pieces)])

    rows = measured(study(Variant("whole", make(1)), Variant("pieces", make(8)), memory=True), ())
    whole, pieces = (rows[label].quantities["peak_bytes"] for label in ("whole", "pieces"))
    assert whole == pytest.approx(4 * n, rel=0.1)
    assert pieces < whole / 4


def test_results_hold_arrays_tensors_numbers_and_what_they_are_nested_in():
    torch = pytest.importorskip("torch")
    nested = {"a": torch.ones(2, requires_grad=True), "b": (np.arange(3), [4, True]), "c": torch.arange(2)}
    assert [a.tolist() for a in engine.arrays(nested)] == [[1, 1], [0, 1, 2], 4, 1, [0, 1]]
    with pytest.raises(InputError, match="a result holds"):
        engine.arrays("text")


# Names, sizes, settings


ARTICLE = Published("a", "b", {("tiny", "x"): 1.0}, "c")


@pytest.mark.parametrize(("given", "said"), [line[1:] for line in specs.refusals("studies.txt")])
def test_a_study_that_cannot_be_used_says_which_field_and_what_to_give(given, said):
    good = study(Variant("x", works()), published=(ARTICLE,))
    assert fields.checked(good) is good
    with pytest.raises(SpecError, match=f"trial.py: .*{specs.dotted(said)}"):
        fields.checked(replace(good, **eval(f"dict({given})")))


def test_settings_are_read_as_what_they_are():
    one = study(Variant("a", works()), settings={"n": 1, "share": 0.5, "on": True, "name": "x"})
    assert found.chosen(one, {"n": "3", "share": "1e-2", "on": "no", "name": "7"}) == {
        "n": 3, "share": 0.01, "on": False, "name": "7",
    }  # fmt: skip
    wrong = [("n", "1.5", "a whole number"), ("n", "1" * 30, "a whole number"), ("on", "maybe", "yes or no")]
    wrong += [("share", text, "a number") for text in ("x", "nan", "-inf", "1e400")]  # JSON has none of these
    for key, text, message in wrong:
        with pytest.raises(InputError, match=message):
            found.chosen(one, {key: text})
    with pytest.raises(NotFound, match="did you mean 'share'"):
        found.chosen(one, {"shares": "1"})


def test_a_study_says_why_it_does_not_run_here():
    one = study(Variant("a", works()), defaults={"cuda": ("tiny",)}, why="its kernels are a GPU's")
    with pytest.raises(InputError, match="does not run on a CPU: its kernels are a GPU's"):
        found.workloads(one, "", {}, "cpu")
    assert [w.size for w in found.workloads(one, "tiny", {}, "cpu")] == ["tiny"]  # asked for by name
    assert [w.size for w in found.workloads(one, "all", {}, "cpu")] == ["tiny"]


@pytest.mark.parametrize("name", found.studies())
def test_every_study_is_whole(name):
    one = found.study(name)  # which checks its fields
    assert one.name == name
    assert set(one.defaults) == {"cuda", "cpu"} or one.why
    assert any(size.startswith("tiny") for size in one.sizes)
    assert all(v.why for v in one.variants if len(v.devices) == 1)
    assert all(article.differs for article in one.published)
    assert study_text.described(one, 80, False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "must define one `study = Study"),
        ("1 / 0", "ZeroDivisionError"),
        ("(", "SyntaxError"),
        ((HERE + SUMS).replace("summary=", "rounds='3', summary="), "mine.py: rounds is '3'; give a number of rounds"),
    ],
    ids=["none", "error", "syntax", "field"],
)
def test_a_file_without_a_study_that_can_be_used_is_refused(text, message, tmp_path):
    (tmp_path / "mine.py").write_text(text)
    with pytest.raises(SpecError, match=message):
        cudalab.run_study(tmp_path / "mine.py")


def test_the_list_and_one_study_are_shown():
    short = command("list", width=80)
    assert short.exit_code == 0
    assert all(re.search(rf"^{name} ", short.output, re.MULTILINE) for name in found.studies())
    assert max(map(len, short.output.splitlines())) <= 80
    long = command("list", "graphs")
    assert "jit.script+graph  only on a GPU: CUDA Graphs need a GPU" in long.output
    assert "small  shape 1x3x224x224" in long.output


# Runs in a worker


def test_a_file_of_ones_own_is_a_study(sums):
    run, _ = sums
    rows = {case.label: case for case in run.cases}
    assert {label: c.status for label, c in rows.items()} == {"loop": "ok", "numpy": "ok", "gpu": "skipped"}
    assert rows["gpu"].reason == "warps are a GPU's"
    assert rows["numpy"].quantities == {"rows": 20, "held_bytes": 4800, "items": 20}
    assert run.options["settings"] == {"scale": 2.0, "steps": 3, "exact": False}
    assert run.reference == "loop"
    assert run.main_kind == "wall"
    assert "row_sums.py" in run.sources
    assert run.speedup(rows["numpy"], "wall").value == pytest.approx(says.speedup(run, rows["numpy"]).value)


def test_a_run_is_saved_converted_and_shown_with_what_is_spent_once_when_asked_for(sums, tmp_path):
    run, out = sums
    assert cudalab.load(out) == run
    for name in ("run.jsonl", "run.csv", "run.json"):
        ran("convert", out, tmp_path / name)
        assert [c.quantities for c in cudalab.load(tmp_path / name).cases] == [c.quantities for c in run.cases]
    flat = {row["backend"]: row for row in run.to_dicts()}
    assert flat["numpy"]["held_bytes"] == 4800
    assert flat["numpy"]["speedup_over_baseline"] == pytest.approx(run.speedup(run.cases[1], "wall").value)
    assert "speedup_over_eager" not in flat["numpy"]
    shown = invoke("show", out, "--format", "markdown").output
    assert "| variant | wall \u00b5s | x loop | 95 % interval | verdict | rows | held kB | items/s |" in shown
    assert "published: An article (a card); nothing." in shown
    for other in ("csv", "json"):
        ran("show", out, "--format", other)
    _, out = sums
    with_costs, without = (invoke("show", out, *more, NO_COLOR="1").output for more in (["--costs"], []))
    assert "bind ms" in with_costs
    assert "first run" in with_costs
    assert "bind ms" not in without


def test_a_results_file_is_no_reason_to_run_the_file_that_it_names(sums, tmp_path):
    _, out = sums
    (tmp_path / "evil.py").write_text("raise SystemExit('it was run')")
    tree = json.loads(out.read_text())
    tree["options"]["study"] = str(tmp_path / "evil.py")
    (tmp_path / "x.json").write_text(json.dumps(tree))
    shown = ran("show", tmp_path / "x.json")
    assert "evil: a study that this cudalab does not have" in shown.output
    assert "x loop" in shown.output


@pytest.mark.wall
@pytest.mark.sweep
def test_death_costs_a_row(tmp_path):
    (tmp_path / "deadly.py").write_text(HERE + DEADLY)
    out = tmp_path / "out.json"
    run = command(str(tmp_path / "deadly.py"), "--device", "cpu", "--budget", "0.01", "--timeout", "1.5", "-q",
                  "-o", str(out))  # fmt: skip
    rows = {case.label: case for case in cudalab.load(out).cases}
    assert run.exit_code == 2
    assert {label: bool(c.times) for label, c in rows.items() if c.status == "ok"} == {"fine": True, "also-fine": True}
    assert "exit" in rows["crash"].reason
    assert "did not end within 1.5 s" in rows["hang"].reason
    assert "Finding: it goes on" in run.output


@pytest.mark.sweep
def test_exit_codes_and_selection(file):
    assert command(file, "--only", "n*", "--device", "cpu", "--budget", "0.01", "-q").exit_code == 0
    text = Path(file).read_text()
    Path(file).write_text(text.replace("lambda x: x.sum(1)", "lambda x: x.sum(1) + 1"))
    run = command(file, "--device", "cpu", "--budget", "0.01", "-q", "--skip", "gpu")
    assert run.exit_code == 1
    assert "WRONG numpy: 20 of 20 values differ" in run.output


@pytest.mark.sweep
def test_what_was_interrupted_is_finished(file, tmp_path):
    out = tmp_path / "out.json"

    def stop(event):
        if event.finished:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cudalab.run_study(file, sizes=["tiny", "large"], device="cpu", budget=0.01, output=out, progress=stop,
                          settings={"steps": 4, "exact": True})  # fmt: skip
    half = cudalab.load(out)
    assert not half.complete
    assert {c.size for c in half.cases} == {"tiny"}
    other = command(file, "--resume", str(out), "--set", "steps=5", "-q")
    assert other.exit_code == 2
    assert "cannot resume" in other.output
    done = command(file, "--resume", str(out), "-q")
    assert done.exit_code == 0, done.output
    whole = cudalab.load(out)
    assert whole.complete
    assert whole.options["settings"] == {"scale": 1.0, "steps": 4, "exact": True}
    assert [c.size for c in whole.cases] == ["tiny"] * 3 + ["large"] * 3
    assert whole.cases[:3] == half.cases


def test_after_ctrl_c_it_says_how_to_go_on(sums, tmp_path, monkeypatch):
    run, _ = sums
    out = tmp_path / "out it is.json"
    half = msgspec.structs.replace(run, complete=False)

    def stopped(*args, **options):
        half.save(out)
        raise early.Stopped("stopped after 1 of 2 groups")

    monkeypatch.setattr(session.Session, "measure", stopped)
    done = command("graphs", "-q", "-o", str(out))
    assert done.exit_code == 130
    said = " ".join(done.output.split())  # wrapped to the terminal's columns
    assert f"stopped after 1 of 2 groups; continue with: cudalab study graphs --resume '{out}'" in said


def test_two_runs_are_compared_by_their_rows(sums):
    run, out = sums
    again = compare.compare(run, cudalab.load(out))
    assert {pair.verdict for pair in again.pairs} <= {"SAME", "UNCLEAR"}  # a busy machine times nothing well
    assert [pair.new.label for pair in again.pairs] == ["loop", "numpy"]
    other = cudalab.load(out)
    other.options["settings"]["scale"] = 9.0
    assert "settings" in str(compare.compare(run, other).differences[0])
    assert "is a study's run" in refused("bench", "gelu", "--baseline", out)


# What is shown


def run_of(cases: list[Case], **options) -> Results:
    machine = Machine("cuda", "Test GPU", {}, {"torch": "2.0"})
    given = {"study": "graphs", "modes": "launch", "baseline": "default", "kinds": "wall", "settings": {}, **options}
    return Results(record.FORMAT, record.VERSION, "2026-01-01T00:00:00+00:00", given, machine, cases=cases)


def rows(seconds: dict[str, float], quantities: dict[str, float], kinds=("wall",)) -> list[Case]:
    return [
        Case("graphs", "small", (1, 3, 224, 224), "float32", label, parity=Parity(True), quantities=dict(quantities),
             times={kind: [[s * (1 + 0.001 * i)] for i in range(10)] for kind in kinds})
        for label, s in seconds.items()
    ]  # fmt: skip


MANY = {"peak_bytes": 1.5e9, "launches": 12.0, "kernels_per_s": 4e5, "compile_s": 0.25, "graph_breaks": 0.0,
        "a_quantity_with_a_long_name": 1e-9, "items": 64.0}  # fmt: skip


@pytest.mark.parametrize("width", [60, 80, 100, 140, 200])
def test_nothing_of_a_table_is_lost_whatever_the_width(width):
    times = {"default": 70e-6, "graph": 65e-6, "jit.script+graph": 35e-6}
    run = run_of(rows(times, MANY, ("wall", "cold", "call")))
    text = render(run, "table", width)
    assert max(map(len, text.splitlines())) <= width
    assert "\u2026" not in text
    columns = report.table(run, run.cases)
    assert [c.name for c in columns] == [
        "variant", "wall \u00b5s", "cold \u00b5s", "call \u00b5s", "x default", "95 % interval", "verdict", "peak GB",
        "launches", "kernels/s", "compile ms", "graph breaks", "a quantity with a long name", "items/s",
        "published \u00b5s", "published x",
    ]  # fmt: skip
    printed = text.split("\n\n", 1)[1].split("wall: time of a run")[0]
    for column in columns:
        assert all(word in printed for word in column.name.split()), column.name
        assert all(printed.count(cell) >= 1 for cell in column.cells), column.name
    parts = table.parts(columns, width, study_text._head)
    assert [c.name for part in parts for c in part[1:]] == [c.name for c in columns[1:]]
    assert len(parts) == 1 or width < 200
    assert all(part[0].name == "variant" for part in parts)
    assert any([c.name for c in part[-2:]] == ["published \u00b5s", "published x"] for part in parts)


def test_units_follow_what_is_shown():
    slow = rows({"default": 2.0, "graph": 0.02}, {})
    cells = {c.name: c.cells for c in report.table(run_of(slow), slow)}
    assert cells["wall ms"][0].startswith("2,0")
    assert [report.quantity(*given) for given in ((1.5e9, 1e6), (1234.5,), (12.0,), (None,))] == [
        "1,500", "1,230", "12", "-",
    ]  # fmt: skip
    for name, values, shown in (
        ("images_per_s", [5e9], ("images/s", 1.0)), ("peak_bytes", [0.0, 3e6, None], ("peak MB", 1e6)),
        ("peak_bytes", [0.0], ("peak B", 1.0)), ("compile_s", [0.25], ("compile ms", 1e-3)),
        ("graph_breaks", [2.0], ("graph breaks", 1.0)),
    ):  # fmt: skip
        assert report.quantity_name(name, values) == shown


def test_published_numbers_stand_beside_ours_and_a_file_cannot_act_in_a_terminal():
    run = run_of(rows({"default": 70e-6, "graph": 35e-6}, {}))
    cells = {c.name: c.cells for c in report.table(run, run.cases)}
    assert cells["x default"][0] == "1" and float(cells["x default"][1]) == 2
    assert cells["verdict"] == ["-", "FASTER"]
    assert cells["published \u00b5s"] == ["70.9", "64.9"]
    assert cells["published x"] == ["1.00", "1.09"]
    assert any(line.startswith("published: Accelerating PyTorch") for line in report.footer(run))
    assert told(run) == "compared with a call as five kernels, GELU is 2 FASTER as fast in a CUDA Graph at small"
    run = run_of(rows({"default": 1e-3, "\x1b[31mred[bold]": 1e-3}, {"\x1b[2J_bytes": 1.0}))
    run.options["study"] = "\x1b[2Jx"
    run.cases[0].size = run.cases[1].size = "\x1b[31m"
    for form in ("table", "markdown"):
        text = render(run, form, 80)
        assert visible(text, keep="\n") == text


def test_a_report_has_studies_and_kernels(sums):
    pytest.importorskip("jinja2")
    from cudalab.report.html import page

    _, out = sums
    committed = Path(__file__).parents[2] / "bench" / "results" / "h200" / "matmul.json"
    lab = run_of(rows({"default": 70e-6, "graph": 35e-6}, MANY))
    text = page.render([("lab.json", lab), (str(out), cudalab.load(out)), (str(committed), cudalab.load(committed))])
    assert report.finding(lab) in text
    assert 'data-chart="published"' in text
    assert 'data-chart="peak_bytes"' in text
    assert text.count('<table class="study">') == 2
    assert 'id="study-graphs"' in text
    assert "<h2" in text
    assert "matmul" in text
    assert len(text) < 3_000_000


@pytest.mark.parametrize("options", [{"baseline": 5, "kinds": None}, {"settings": [1]}, {"study": 7}, {"study": None}])
def test_odd_options_do_not_stop_what_is_shown(options):
    run = run_of(rows({"default": 1e-3}, {}), **options)
    for form in ("table", "markdown", "csv"):
        assert render(run, form, 80)


def test_a_ratio_is_said_with_its_interval_and_its_verdict():
    for ratio, words in {
        Ratio(1.823, 1.8, 1.85): ("1.82", "FASTER"), Ratio(4.71, 3.9, 5.6): ("4.7", "FASTER"),
        Ratio(0.9996, 0.99, 1.0): ("1.00", "SAME"), Ratio(0.5, 0.4, 0.6): ("0.5", "SLOWER"),
    }.items():  # fmt: skip
        said = says.in_words(ratio)
        assert said.startswith(words[0]) and said.endswith(f", {words[1]})"), said
    assert says.in_words(None) == "?"
    disturbed = Ratio(430, 400, 460, disturbed=True)
    assert says.in_words(disturbed) == "an unknown number of times (the machine was busy, UNCLEAR)"
    assert says.longer(Ratio(0.25, 0.2, 0.3)).startswith("4")
    assert says.longer(Ratio(0.25, 0.2, 0.3)).endswith(", SLOWER)")  # what takes longer is slower
    run = run_of(rows({"default": 70e-6, "graph": 35e-6}, {"peak_bytes": 2e6, "items": 70.0}))
    factor = says.factor(run, "small", "graph")
    assert factor.startswith("2.0") and factor.endswith(", FASTER)")
    assert says.gains(run, "graph") == f"{factor} as fast at small"
    assert says.parameter(run, "small", "shape") == (1, 3, 224, 224)
    assert says.parameter(run, "small", "absent") is None
    assert says.factor(run, "small", "absent") == says.rate(run, "small", "absent") == "?"
    assert says.ratio(run, "small", "default", to="graph").startswith("0.5")
    assert says.between(run, "small", "default", to="absent") is None
    assert says.baseline(run) == "default"
    assert says.share(run, "small", "graph", "peak_bytes") == "100 %"
    assert says.took(run, "small", "graph") in ("35 \u00b5s", "35.2 \u00b5s")


@pytest.mark.parametrize(
    "text", ["lambda run: 1 / 0", "lambda run: 'two\\n  lines'", "lambda run: exit(3)", "lambda run: 5"]
)
def test_a_finding_that_fails_does_not_cost_the_tables(text):
    one = study(Variant("a", works()), finding=eval(text))
    run = run_of(rows({"a": 1e-3}, {}), baseline="a", study="./trial.py")
    found._users["./trial.py"] = one
    said = render(run, "table")
    failed = (
        r"(the finding fails on this run: (ZeroDivisionError: division by zero|SystemExit: 3)|"
        r"the finding returns 5, not a text)$"
    )
    assert "two lines" in said or re.search(failed, said, re.MULTILINE)
    assert "wall ms" in said
    del found._users["./trial.py"]


@pytest.fixture(scope="module", params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def graphs(request):
    """The lab's first study at its smallest size."""
    if request.param == "cuda":
        need_gpu()
    pytest.importorskip("torch")
    return cudalab.run_study("graphs", sizes="tiny", device=request.param, budget=0.02)


def test_graphs_computes_the_same_in_every_way(graphs):
    here = {c.label: c for c in graphs.cases if c.status != "skipped"}
    labels = {"default", "jit.script"}
    if graphs.machine.device == "cuda":
        labels |= {"graph", "jit.script+graph", "ours", "ours+graph"}
    assert set(here) == labels
    assert not [f"{c.label}: {c.reason}" for c in here.values() if c.status != "ok" or not c.times]
    assert all(c.parity.ok and c.parity.n == 192 for c in here.values())
    assert ": compared with a call as five kernels, GELU is " in render(graphs, "table")


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("", ""),
        ("1.2 times (1.1 to 1.3, FASTER) as fast", "Finding: 1.2"),
        ("1.2 times (1.1 to 1.3, FASTER) at small, 1.0 times (0.9 to 1.3, UNCLEAR) at large", "Finding: 1.2"),
        ("it goes on", "Finding: it goes on"),
        ("1.0 times (0.9 to 1.3, UNCLEAR) as fast", "No finding: no difference is shown (UNCLEAR): 1.0"),
        ("an unknown number of times (the machine was busy, UNCLEAR)", "No finding: the machine was busy (load 8 of "
         "other programs on 2 cores), so the times are imprecise; run it again when it is idle. This run says: an "),
    ],
)  # fmt: skip
def test_a_finding_all_of_whose_verdicts_are_unclear_is_called_none(monkeypatch, said, shown):
    monkeypatch.setattr(report, "finding", lambda run: said)
    run = cudalab.load(Path(__file__).parents[2] / "bench" / "results" / "h200" / "studies" / "graphs.json")
    run.wall |= {"total": 1.0, load.OTHERS: 8.0 * ("busy" in said), load.CORES: 2.0}
    text = report.conclusion(run)
    assert text.startswith(shown) and text.endswith(said)
    on_page = html_study.answer(run).sentence
    assert on_page == (text.removeprefix("Finding: ") or "No finding")
    if not said:
        run.cases = []
        assert html_study.answer(run).sentence == "No finding: nothing was timed"


# ---- whether results agree -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("got", "want", "tolerance", "ok"),
    [
        (1.0, 1.0, 0, True), (1.0, 1.01, 0, False), (np.float32(1), np.float32(1) + np.float32(1e-7), 0, True),
        (2**24 + 1, 2**24, 0, False), (2**60 + 1, 2**60, 0, False), ([3, 4], [3, 4], 0, True),
        (np.bool_(1), np.bool_(0), 0, False), (np.nan, np.nan, 0, False), (np.inf, np.inf, 0, False),
        ([1.0, np.inf], [1.0, np.inf], 0, True), ([1.0, np.nan], [1.0, 2.0], 0, False), ([], [], 0, True),
        (3, 3.0, 0, True), ([1.0, np.inf, np.nan], [1.0, np.inf, np.nan], 1e-3, True),
        ([2.0, np.inf, np.nan], [1.0, np.inf, np.nan], 1e-3, False),
        ([1000.0, 0.05], [1000.0, 0.0], 1e-4, True), ([1000.0, 0.05], [1000.0, 0.0], 1e-5, False),
    ],
)  # fmt: skip
def test_agreement_of_results(got, want, tolerance, ok):
    """The tolerance is relative to the largest value. Whole numbers are the same or are not; and where all is NaN, as
    after a training that diverged, nothing is."""
    arrays = engine.arrays(np.array(got)), engine.arrays(np.array(want))
    assert engine.agreement(*arrays, tolerance).ok is ok


def test_a_tolerance_that_is_measured_goes_before_those_of_the_variant_and_the_study():
    wrong = 1.01 * RIGHT
    off = works(wrong, tolerance=0.02), works(wrong), works(wrong, tolerance=0.005)
    named = {"measured": (off[0], 1e-3), "not": (off[1], 0.02), "too small": (off[2], 0.02)}
    variants = [Variant(label, make, tolerance=own) for label, (make, own) in named.items()]
    rows = measured(study(Variant("base", works()), *variants, sizes={"tiny": {"n": 1}}, rounds=1))
    assert [rows[label].status for label in named] == [record.OK, record.OK, record.WRONG]


# Several processes


@pytest.mark.sweep
def test_the_variants_of_a_study_are_timed_in_several_processes(file):
    run = cudalab.run_study(file, sizes="tiny", device="cpu", budget=0.01, processes=3)
    rows = {case.label: case for case in run.cases}
    for label in ("numpy", "loop"):
        assert len(rows[label].processes["wall"]) == 3
        assert sum(rows[label].processes["wall"]) == len(rows[label].times["wall"])
        assert rows[label].quantities == {"rows": 20, "held_bytes": 20 * 30 * 8, "items": 20}
    assert rows["gpu"].status == record.SKIPPED
    assert run.options["processes"] == 3


@pytest.mark.parametrize(
    ("rounds", "asked", "count"), [(10, {}, 0), (9, {}, 1), (9, {"processes": 2}, 2), (10, {"quick": True}, 1)]
)
def test_a_slow_study_is_one_process_by_default(file, monkeypatch, rounds, asked, count):
    text = Path(file).read_text()
    Path(file).write_text(text.replace('    baseline="loop"', f'    rounds={rounds}, baseline="loop"'))
    setups = []
    monkeypatch.setattr(session.Session, "measure", lambda self, *_: setups.append(self.setup))
    runner.study(file, device="cpu", **asked)
    assert [setup.processes for setup in setups] == [count]
    assert setups[0].count("cuda") == (count or 3)
