"""Launch parameters: what a spec declares, how they reach both sides, the file of choices, and `cudalab tune`."""

from __future__ import annotations

import json
import re
import warnings
from ast import literal_eval
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from pathlib import Path

import kept_sass
import msgspec
import numpy as np
import pytest
from commands import invoke
from standing_in import StandIn
from tables import table

from cudalab.backends import host
from cudalab.base.errors import CudalabError, InputError, SpecError
from cudalab.base.stats import Ratio
from cudalab.device import cuda
from cudalab.device.open import open_device
from cudalab.engine import early, plan, runs, session
from cudalab.engine.check_plan import checks
from cudalab.engine.groups import Work
from cudalab.engine.job import Job
from cudalab.engine.kernel_round import cases as cases_of
from cudalab.engine.messages import named
from cudalab.engine.rows import row
from cudalab.engine.selection import Selection
from cudalab.kernels.gelu import gelu
from cudalab.report import tuning as report
from cudalab.results import comparable, record
from cudalab.results.record import Machine
from cudalab.spec import find
from cudalab.spec import tuned as stored
from cudalab.spec.card import Card
from cudalab.spec.dtype import dtype
from cudalab.spec.kernel import Launch
from cudalab.spec.tuned import Choice
from cudalab.tools.inspect import traced_launch
from cudalab.tools.tune import tune
from cudalab.tools.tune import verdict as found_
from cudalab.tools.tune.kernel_tuner import SECONDS, Batch, Tried

DATA = Path(__file__).parents[2] / "data" / "tune"
HERE = Card("9.0", "NVIDIA H200")
FLOAT32 = dtype("float32")


@pytest.fixture
def scale(tmp_path):
    """A copy of a kernel, beside which a choice may be kept."""
    return find.kernel(str(copied("scale", tmp_path)))


def copied(name, folder):
    for suffix in (".cu", ".py"):
        (folder / f"{name}{suffix}").write_bytes((DATA / f"{name}{suffix}").read_bytes())
    return folder / f"{name}.py"


# ---- the spec ----------------------------------------------------------------------------------------------------


def test_parameters_are_macros_and_arguments_of_a_launch_that_may_leave_them_out():
    """Plain entries of a kernel have nothing to tune, and some parameters are used only in the .cu."""
    given = find.kernel(str(DATA / "scale.py"))
    kernel = given.with_parameters({"THREADS": 256})
    assert given.parameters == {"THREADS": 32, "PER_THREAD": 1}
    assert kernel.macros(FLOAT32) == {"CUDALAB": "1", "scalar_t": "float", "THREADS": "256", "PER_THREAD": "1"}
    x = np.zeros(1000, np.float32)
    launches = [k.launch("scale", {"x": x, "y": x.copy()}) for k in (given, kernel)]
    assert [(launch.grid, launch.block) for launch in launches] == [((32,), (32,)), ((4,), (256,))]
    kernel = replace(
        find.kernel("plus_one"), tunables={"THREADS": (64, 128), "UNROLL": (1, 2)},
        entries={"plus_one_scalar": lambda x, y: _launch(x, y, 32),
                 "plus_one_vec": lambda x, y, THREADS: _launch(x, y, THREADS)},
    )  # fmt: skip
    x = np.zeros(1000, np.float32)
    blocks = {entry: kernel.launch(entry, {"x": x, "y": x.copy()}).block for entry in kernel.entries}
    assert blocks == {"plus_one_scalar": (32,), "plus_one_vec": (64,)}


def _launch(x, y, threads):
    return Launch((-(-x.size // threads),), (threads,), (x, y, np.int64(x.size)))


def test_every_combination_the_default_first():
    faulty, scale = (find.kernel(str(DATA / f"{name}.py")) for name in ("faulty", "scale"))
    assert faulty.configurations() == [{"HOW": n} for n in range(4)]
    assert [tuple(p.values()) for p in scale.configurations()] == [(32, 1), (32, 3), (256, 1), (256, 3)]
    assert scale.with_parameters({"PER_THREAD": 3}).configurations() == [{"THREADS": 32, "PER_THREAD": 3}]
    assert find.kernel("add2d").configurations() == [{}]
    assert gelu.configurations()[0] == gelu.parameters


@pytest.mark.parametrize(
    ("name", "given", "message"), table("tune", "parameters that are refused", str, literal_eval, str)
)
def test_other_parameters_are_refused(name, given, message):
    with pytest.raises(SpecError, match=message):
        find.kernel(str(DATA / f"{name}.py")).with_parameters(given)


@pytest.mark.parametrize(("fields", "message"), table("tune", "fields of tests/data/tune/scale.py that are refused"))
def test_a_wrong_declaration_is_refused(fields, message):
    with pytest.raises(SpecError, match=message):
        replace(find.kernel(str(DATA / "scale.py")), **eval(f"dict({fields})"))


# ---- how they are checked and recorded ---------------------------------------------------------------------------


def rows(group, device=None):
    device = device or open_device("cpu")[0]
    return cases_of(Job(device, Selection(only=("host",)), (), 0, 0.0, lambda step: None), group)


@pytest.mark.sweep
def test_configurations_are_variants_of_one_group_and_a_check_on_the_host_looks_at_the_last_too():
    """Configurations for a GPU are checked without one too."""
    (group,) = plan.groups([str(DATA / "scale.py")], "1000", "")
    (case,) = rows(group)
    assert case.status == record.WRONG
    assert case.reason.endswith("(as scale[THREADS=256 PER_THREAD=3])")
    assert case.parameters == {"THREADS": 32, "PER_THREAD": 1}
    (group,) = plan.groups(["add2d"], "3x5", "")
    assert not any("as " in how for how in _also(group))
    (group,) = plan.groups([str(DATA / "scale.py")], "1000", "")
    group = replace(group, forms=tuple(("scale", p) for p in group.kernel.configurations()))
    assert Work.on(group, (), False).group().forms == group.forms
    assert msgspec.json.decode(msgspec.json.encode(Work.on(group, (), False)), type=Work).group().forms == group.forms
    found = {case.label: case for case in rows(group)}
    assert [(label, case.status) for label, case in found.items()] == [
        ("host:scale[THREADS=32 PER_THREAD=1]", record.OK),
        ("host:scale[THREADS=32 PER_THREAD=3]", record.WRONG),
        ("host:scale[THREADS=256 PER_THREAD=1]", record.OK),
        ("host:scale[THREADS=256 PER_THREAD=3]", record.WRONG),
    ]
    assert found["host:scale[THREADS=256 PER_THREAD=1]"].parameters == {"THREADS": 256, "PER_THREAD": 1}


def _also(group):
    device, _ = open_device("cpu")
    operands = device.place(group.kernel, group.dtype, group.arrays(0))
    return host.bind(group.kernel, next(iter(group.kernel.entries)), group.dtype, operands).also


# ---- the file ----------------------------------------------------------------------------------------------------


def choice(kernel, card=HERE, **fields):
    given = {
        "architecture": card.architecture, "entry": "scale", "dtype": "float32", "card": card.name,
        "parameters": {"THREADS": 256, "PER_THREAD": 1}, "sources": stored.sources(kernel, "scale"),
    }  # fmt: skip
    return Choice(**{**given, **fields})


def test_a_choice_is_used_on_its_architecture_alone_and_without_one_nothing_is_said(scale):
    assert stored.chosen(scale, "scale", FLOAT32, HERE) == (scale, [])
    plain = find.kernel("add2d")
    assert stored.chosen(plain, "add2d_vec", FLOAT32, HERE) == (plain, [])
    stored.save(stored.place(scale), [choice(scale)])
    tuned, notes = stored.chosen(scale, "scale", FLOAT32, HERE)
    assert (tuned.parameters, notes) == ({"THREADS": 256, "PER_THREAD": 1}, [])
    tuned, notes = stored.chosen(scale, "scale", FLOAT32, Card("9.0", "NVIDIA H100"))
    assert tuned.parameters["THREADS"] == 256
    assert notes == ["its launch parameters were tuned on an NVIDIA H200"]
    tuned, (note,) = stored.chosen(scale, "scale", FLOAT32, Card("8.0", "NVIDIA A100"))
    assert tuned is scale
    assert note == "scale.tuned.json is for compute capability 9.0, not for 8.0: run `cudalab tune` on this GPU"
    assert stored.chosen(scale, "other", FLOAT32, HERE) == (scale, [])
    assert stored.chosen(scale, "scale", dtype("float16"), HERE) == (scale, [])


def test_a_choice_for_other_code_is_stale(scale, tmp_path):
    stored.save(stored.place(scale), [choice(scale)])
    scale.cu.write_text(scale.cu.read_text().replace("3 * x[i]", "x[i] * 3"))
    tuned, (note,) = stored.chosen(scale, "scale", FLOAT32, HERE)
    assert tuned is scale
    assert "scale.tuned.json is ignored: scale has changed since it was tuned" in note
    copied("scale", tmp_path)
    assert stored.chosen(scale, "scale", FLOAT32, HERE)[1] == []
    spec = Path(scale.file)
    spec.write_text(spec.read_text().replace('summary="y = 3 x"', 'summary="three times x"'))
    assert stored.chosen(find.kernel(str(spec)), "scale", FLOAT32, HERE)[1] == []
    spec.write_text(spec.read_text().replace("(THREADS,), (x", "(THREADS, 1), (x"))
    assert "has changed" in stored.chosen(find.kernel(str(spec)), "scale", FLOAT32, HERE)[1][0]
    copied("scale", tmp_path)
    spec.write_text(f"HELD = 4  # what a launch may use\n{spec.read_text()}")
    loaded = find.kernel(str(spec))
    assert "has changed" in stored.chosen(loaded, "scale", FLOAT32, HERE)[1][0]
    spec.write_text("half of an edit (")  # while the kernel that was loaded is still called
    assert "has changed" in stored.chosen(loaded, "scale", FLOAT32, HERE)[1][0]


def test_parameters_that_are_not_declared_are_ignored(scale):
    stored.save(stored.place(scale), [choice(scale, parameters={"THREADS": 100})])
    tuned, (note,) = stored.chosen(scale, "scale", FLOAT32, HERE)
    assert tuned is scale
    assert note.startswith("tuned parameters are ignored: ") and "THREADS is 100; the spec declares 32, 256" in note


@pytest.mark.parametrize(
    ("text", "message"), [*table("tune", "files that are malformed"), ("\ufffd\x00", "is not a file of `cudalab tune`")]
)
def test_a_malformed_file_is_ignored_and_never_replaced(scale, text, message):
    path = stored.place(scale)
    path.write_text(text)
    tuned, (note,) = stored.chosen(scale, "scale", FLOAT32, HERE)
    assert tuned is scale
    assert message in note
    with pytest.raises(InputError, match="will not replace"):
        stored.writable(path)
    assert path.read_text() == text


def test_choices_for_others_stay_and_an_edited_file_is_read_anew(scale):
    path, other = stored.place(scale), Card("8.0", "NVIDIA A100")
    stored.save(path, [choice(scale), choice(scale, other, parameters={"THREADS": 32, "PER_THREAD": 1})])
    stored.save(path, [choice(scale, parameters={"THREADS": 32, "PER_THREAD": 1})])
    assert [(c.architecture, c.parameters["THREADS"]) for c in stored.load(path).choices] == [("8.0", 32), ("9.0", 32)]
    assert json.loads(path.read_text())["format"] == stored.FORMAT
    path = stored.place(scale)
    stored.save(path, [choice(scale)])
    assert stored.chosen(scale, "scale", FLOAT32, HERE)[0].parameters["THREADS"] == 256
    path.write_text(path.read_text().replace('"THREADS": 256', '"THREADS": 32'))
    assert stored.chosen(scale, "scale", FLOAT32, HERE)[0].parameters["THREADS"] == 32
    path.unlink()
    assert stored.chosen(scale, "scale", FLOAT32, HERE) == (scale, [])


@pytest.mark.sweep
def test_a_row_says_what_it_was_measured_with_and_what_was_ignored(scale, monkeypatch):
    """The device has a number, as a GPU has; its kernels run on the host."""
    device, _ = open_device("cpu")
    device.index = 0
    monkeypatch.setattr(cuda, "card", lambda index: HERE)
    (group,) = plan.groups([scale.file], "1000", "")
    stored.save(stored.place(scale), [choice(scale)])
    (case,) = rows(group, device)
    assert (case.status, case.parameters, case.notes) == (record.OK, {"THREADS": 256, "PER_THREAD": 1}, [])
    monkeypatch.setattr(cuda, "card", lambda index: Card("8.0", "NVIDIA A100"))
    (case,) = rows(replace(group, forms=(("scale", {"THREADS": 256, "PER_THREAD": 1}),)), device)
    assert (case.parameters["THREADS"], case.notes) == (256, [])
    (case,) = rows(group, device)
    assert case.parameters == {"THREADS": 32, "PER_THREAD": 1}
    assert "not for 8.0" in case.notes[0]


def test_a_call_warns_once(scale):
    stored.save(stored.place(scale), [choice(scale)])
    assert stored.for_call(scale, "scale", FLOAT32, HERE).parameters["THREADS"] == 256
    with pytest.warns(UserWarning, match="not for 7.5"):
        assert stored.for_call(scale, "scale", FLOAT32, Card("7.5", "T4")) is scale
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stored.for_call(scale, "scale", FLOAT32, Card("7.5", "T4"))


def test_inspect_compiles_what_was_tuned_or_measured(scale, tmp_path):
    assert traced_launch.parameterized(scale, "scale", FLOAT32, "sm_90") == (scale, "")
    stored.save(stored.place(scale), [choice(scale)])
    tuned, remark = traced_launch.parameterized(scale, "scale", FLOAT32, "sm_90a")
    assert (tuned.parameters["THREADS"], remark) == (
        256, "compiled and launched with THREADS=256 PER_THREAD=1, as tuned for sm_90a",
    )  # fmt: skip
    assert kept_sass.place(tmp_path, tuned, FLOAT32, "sm_90").name == "scale_float32_sm_90_THREADS=256_PER_THREAD=1.txt"
    assert kept_sass.place(tmp_path, scale, FLOAT32, "sm_90").name == "scale_float32_sm_90.txt"
    assert "not for 8.0" in traced_launch.parameterized(scale, "scale", FLOAT32, "sm_80")[1]
    (group,) = plan.groups([scale.file], "1000", "")
    measured = row(group, "pycuda:scale")
    measured.parameters = {"THREADS": 32, "PER_THREAD": 3}
    tuned, remark = traced_launch.parameterized(scale, "scale", FLOAT32, "sm_90", measured)
    assert tuned.parameters["PER_THREAD"] == 3
    assert remark.endswith("as in the results")
    measured.parameters = {"THREADS": 96}
    assert "THREADS is 96" in traced_launch.parameterized(scale, "scale", FLOAT32, "sm_90", measured)[1]


def test_a_comparison_says_that_launch_parameters_changed():
    (group,) = plan.groups([str(DATA / "scale.py")], "1000", "")
    runs = []
    for threads in (32, 256):
        case = row(group, "pycuda:scale")
        case.parameters = {"THREADS": threads, "PER_THREAD": 1}
        runs.append(record.Results(record.FORMAT, record.VERSION, "", {}, Machine("cuda", "x"), cases=[case]))
    said = "launch parameters of scale pycuda:scale float32: THREADS=32 PER_THREAD=1 -> THREADS=256 PER_THREAD=1"
    assert comparable.remarks(*runs, ("cold",)) == [said]
    assert comparable.remarks(runs[0], runs[0], ("cold",)) == []


# ---- the search, as its parent sees it ---------------------------------------------------------------------------


class Worker(StandIn):
    """`seconds` of each configuration at a size, or a status in place of a time."""

    name, details = HERE.name, {"compute_capability": "9.0", "driver": "1.2"}
    seconds: Mapping[tuple[int, int], float | str]
    fatal: Sequence[tuple[int, int]]  # configurations that cost the process of the search
    noise = 0.001

    def __init__(self, *given):
        super().__init__(*given)
        self.searches, self.checked = [], []

    def cases(self, group, timed=True):
        search = isinstance(group, Batch)
        found = [row(group, label) for label in self.labels(group)]
        found = [c for c, (_, p) in zip(found, group.forms) if tuple(p.values()) in self.seconds or not search]
        for case, (_, parameters) in zip(found, [f for f in group.forms if tuple(f[1].values()) in self.seconds]):
            parameters = tuple(parameters.values())
            said = self.seconds[parameters]
            if search and (isinstance(said, str) or parameters in self.fatal):
                why = "killed by SIGSEGV" if parameters in self.fatal else "WRONG at 1: 1 of 1 values; [0] got 1"
                case.status, case.reason = record.ERROR, why
            elif search:
                slower = 3 if "/" in group.size else 1  # another GPU
                case.costs[SECONDS] = abs(said) * prod(group.shape) / 1000 * slower
            elif not timed and said < 0:  # passes the search's check, and not the whole check
                case.status, case.reason = record.WRONG, "at some value"
            elif timed:
                times = abs(said) * prod(group.shape) / 1000 * self.rng.normal(1, self.noise, 20)
                case.times = {"cold": [[float(t)] for t in times]}
        if search:
            self.searches.append(group)
            return found
        if not timed:
            self.checked.append((group.size, len(found)))
        return found


@pytest.fixture
def lab(monkeypatch, scale):
    """`tune` with workers of known times; in a folder of its own."""

    def run(seconds, fatal=(), **options):
        worker = type("Worker", (Worker,), {"seconds": seconds, "fatal": fatal})
        monkeypatch.setattr(session, "Team", worker)
        monkeypatch.setattr(tune, "need_gpu", lambda *_, **more: None)
        monkeypatch.setattr(tune, "version", lambda name: "1.5")
        (found,) = tune.tune(scale.file, **{"sizes": "1000,2000", **options})
        return found, worker.last

    return run


def test_the_surely_fastest_is_kept(lab, scale):
    found, worker = lab({(32, 1): 10e-6, (32, 3): "WRONG", (256, 1): 5e-6, (256, 3): 8e-6})
    assert [f.parameters for f in found.finalists] == [
        {"THREADS": 32, "PER_THREAD": 1}, {"THREADS": 256, "PER_THREAD": 1}, {"THREADS": 256, "PER_THREAD": 3},
    ]  # fmt: skip
    assert found.winner.parameters == {"THREADS": 256, "PER_THREAD": 1}
    assert found.run.complete
    (kept_,) = stored.load(stored.place(scale)).choices
    assert kept_.parameters == found.winner.parameters
    assert kept_.key == ("9.0", "scale", "float32")
    assert (kept_.card, kept_.driver, kept_.kind) == (HERE.name, "1.2", "cold")
    assert kept_.versions == {"python": "3", "kernel_tuner": "1.5"}
    assert [t.size for t in kept_.times] == ["1000", "2000"]
    assert [round(t.default / t.chosen, 1) for t in kept_.times] == [2.0, 2.0]
    assert kept_.speedup == pytest.approx((2, 2, 2), rel=0.03)
    assert stored.chosen(scale, "scale", FLOAT32, HERE)[0].parameters == kept_.parameters
    text = report.render([found])
    assert "scale, scale, float32: 4 of 4 configurations tried" in text
    assert "THREADS=32 PER_THREAD=3: WRONG at 1: 1 of 1 values\n" in text
    assert re.search(r"THREADS=256 PER_THREAD=1 is (2\.0\d*|1\.9\d*|2) times as fast as the default", text)
    # The search is at the largest size; at the other one, what it has timed is timed again, and not checked again.
    first, second = worker.searches
    assert (first.shape, first.search.checked, len(first.forms)) == ((2000,), False, 4)
    assert (second.shape, second.search.checked, len(second.forms)) == ((1000,), True, 3)


def test_gpus_share_a_search_and_their_times_are_not_compared(lab, monkeypatch):
    """One of them takes three times as long for all that it does, and the ranking is the same."""

    class Two(session.Session):
        width = 2

    monkeypatch.setattr(tune, "LEAST", 1)
    found, worker = lab({(32, 1): 10e-6, (32, 3): 9e-6, (256, 1): 5e-6, (256, 3): 8e-6}, session=Two)
    assert [tuple(t.parameters.values()) for t in found.ranking] == [(256, 1), (256, 3), (32, 3), (32, 1)]
    assert [one.seconds for one in found.ranking] == pytest.approx([c * 2**0.5 for c in (5e-6, 8e-6, 9e-6, 10e-6)])
    assert [(one.size, len(one.forms)) for one in worker.searches] == [
        ("2000", 3), ("2000 2/2", 2), ("1000", 3), ("1000 2/2", 2),
    ]  # fmt: skip
    sent = worker.searches[1].sent()
    assert named(sent.maker)(sent.payload).task() == worker.searches[1].task()  # as another process gets it
    with pytest.raises(CudalabError, match=r"the default is WRONG .* so that GPUs cannot share the search"):
        lab({(32, 1): "WRONG", (32, 3): 9e-6, (256, 1): 5e-6}, session=Two)


def test_the_default_stays_where_nothing_is_surely_faster(lab, scale):
    found, _ = lab({(32, 1): 10e-6, (32, 3): 10.1e-6, (256, 1): 9.9e-6, (256, 3): 12e-6})
    assert found.winner is found.finalists[0]
    (kept_,) = stored.load(stored.place(scale)).choices
    assert kept_.parameters == {"THREADS": 32, "PER_THREAD": 1}
    assert "no configuration is faster beyond doubt; the default (THREADS=32 PER_THREAD=1) stays" in report.render(
        [found]
    )
    found, _ = lab({(32, 1): 10e-6, (256, 1): 9.2e-6})
    assert found.winner.parameters["THREADS"] == 256
    found, _ = lab({(32, 1): 10e-6, (256, 1): 9.2e-6}, min_effect=0.1)
    assert found.winner.parameters["THREADS"] == 32


def test_what_is_wrong_or_costs_the_process_is_left_out_and_a_default_is_an_error(lab):
    """Kernel Tuner's fastest fails the whole check and is not a finalist."""
    seconds = {(32, 1): 10e-6, (256, 3): -1e-6, (32, 3): 8e-6, (256, 1): 9e-6}
    found, worker = lab(seconds, fatal=[(32, 3)], finalists=1)
    assert [tuple(t.parameters.values()) for t in found.ranking] == [(256, 3), (256, 1), (32, 1)]
    assert [tuple(f.parameters.values()) for f in found.finalists] == [(32, 1), (256, 1)]
    assert [(*t.parameters.values(), t.reason.partition(" at ")[0]) for t in found.excluded] == [
        (32, 3, "killed by SIGSEGV"), (256, 3, "WRONG"),
    ]  # fmt: skip
    assert len(worker.checked) == 2 * len(checks([str(DATA / "scale.py")], "float32"))
    with pytest.raises(CudalabError, match="the search has timed no configuration of scale: killed by SIGSEGV"):
        lab(seconds, fatal=seconds)
    with pytest.raises(CudalabError, match=r"the default of scale is WRONG at .*: at some value; see: cudalab check"):
        lab({(32, 1): -10e-6, (256, 1): 8e-6})


def test_ctrl_c_keeps_nothing_of_an_unfinished_search(lab, monkeypatch):
    monkeypatch.setattr(Worker, "cases", lambda self, *_, **more: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(early.Stopped, match="stopped; nothing is kept"):
        lab({(32, 1): 1e-6})


def test_the_ranking_and_the_total_give_each_size_the_same_weight():
    def tried(**seconds):
        return [Tried({"A": int(name[1:])}, s) for name, s in seconds.items()]

    good, bad = found_.ranked([tried(a1=1.0, a2=4.0, a3=9.0), [*tried(a1=1.0, a2=0.1), Tried({"A": 3}, 0.0, "why")]])
    assert [(t.parameters["A"], round(t.seconds, 3)) for t in good] == [(2, 0.632), (1, 1.0)]
    assert [(t.parameters["A"], t.reason) for t in bad] == [(3, "why")]
    assert found_.ranked([tried(a1=1.0), []]) == ([], [Tried({"A": 1}, 1.0, "has not been timed")])
    one = Ratio(2.0, 1.8, 2.2)
    total = found_.over_all([one] * 4)
    assert total.value == pytest.approx(2.0)
    assert total.low == pytest.approx(2 * (1.8 / 2) ** 0.5)
    assert total.high == pytest.approx(2 * (2.2 / 2) ** 0.5)
    assert found_.over_all([Ratio(4, 4, 4), Ratio(1, 1, 1)]).value == pytest.approx(2)


# ---- the command -------------------------------------------------------------------------------------------------


said = partial(invoke, "tune")


def test_a_dry_run_says_what_would_be_tried_by_the_strategy_that_is_given():
    done = said("gelu", "--dry-run", "--dtypes", "all")
    assert done.exit_code == 0
    first, *lines = done.output.splitlines()
    count = len(gelu.configurations())
    assert first == f"gelu: {count} configurations, at large, xlarge, in float32, float16, bfloat16"
    assert lines[0].strip().startswith("gelu_vec[VEC_THREADS=")
    assert [line.endswith(" (default)") for line in lines] == [True] + [False] * (count - 1)
    done = said("gelu", "--dry-run", "--strategy", "random_sample", "--most", "3")
    first, *lines = done.output.splitlines()
    assert first.startswith(
        f"gelu: random_sample tries 3 of these {count} configurations, at large, xlarge, in float32;"
    )
    assert len(lines) == count
    assert "decides how many it tries" in said("gelu", "--dry-run", "--strategy", "pso").output
    assert said("gelu", "--dry-run", "--strategy", "pso", "--most", "99").output.startswith(f"gelu: {count} config")


def test_without_a_gpu_or_kernel_tuner_it_says_what_to_type(monkeypatch):
    monkeypatch.setattr(cuda, "missing", lambda: "no NVIDIA driver")
    done = said("gelu")
    assert done.exit_code == 2
    assert "cannot tune here: no NVIDIA driver, and how long a launch takes on a CPU says nothing" in done.output
    assert "`cudalab tune gelu --dry-run`" in done.output
    monkeypatch.setattr(cuda, "missing", lambda: None)
    monkeypatch.setattr(tune, "find_spec", lambda name: None)
    assert "pip install -e '.[tune]'" in said("gelu").output


def test_a_place_that_cannot_be_written_is_said_before_measuring(monkeypatch, tmp_path):
    monkeypatch.setattr(tune, "need_gpu", lambda *_, **more: None)
    done = said("gelu", "-o", tmp_path / "none" / "gelu.tuned.json")
    assert done.exit_code == 2
    assert "no folder" in done.output
    (tmp_path / "mine.json").write_text("[]")
    assert "will not replace" in said("gelu", "-o", tmp_path / "mine.json").output


def test_the_command_prints_what_was_found(lab, scale, monkeypatch):
    found, _ = lab({(32, 1): 10e-6, (256, 1): 5e-6})
    monkeypatch.setattr(tune, "tune", lambda *args, **options: [found])
    done = said(scale.file)
    assert done.exit_code == 0
    assert done.stdout == report.render([found]) + "\n"
    assert done.stderr == f"wrote {found.kept}\n"


# ---- on a GPU ----------------------------------------------------------------------------------------------------


@pytest.mark.wall
@pytest.mark.gpu
def test_tune_on_a_gpu(scale):
    """Of four configurations two are wrong, and the faster of the others is far faster than the default."""
    pytest.importorskip("kernel_tuner")
    torch = pytest.importorskip("torch")
    done = said(scale.file, "--sizes", "large", "--budget", "0.1", "--finalists", "1", "-q")
    assert done.exit_code == 0, done.output
    for threads in (32, 256):
        assert f"THREADS={threads} PER_THREAD=3: WRONG" in done.output
    assert "THREADS=256 PER_THREAD=1 is" in done.output
    (kept_,) = stored.load(stored.place(scale)).choices
    assert kept_.parameters == {"THREADS": 256, "PER_THREAD": 1}
    assert kept_.architecture == cuda.card(0).architecture
    assert kept_.speedup[1] > 1.02
    run = runs.bench(scale.file, sizes="small", only="pycuda", budget=0.05, modes="launch")
    (measured,) = (case for case in run.cases if case.label == "pycuda:scale")
    assert (measured.status, measured.parameters) == (record.OK, kept_.parameters)
    x = torch.arange(5000, device="cuda", dtype=torch.float32)
    assert torch.equal(scale(x), 3 * x)
