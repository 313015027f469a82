"""A bench over several GPUs: which group goes where, what is lost with an actor, and one file of all rows."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from math import inf
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from crashing import altered

import cudalab
from cudalab.base import advice
from cudalab.base.errors import InputError, Unavailable
from cudalab.cli import main
from cudalab.engine import cross_check, fit, plan, runs
from cudalab.engine.messages import Ready, Sent, named
from cudalab.engine.rows import row
from cudalab.report import gpus as report
from cudalab.report import markdown, study, without_gpu
from cudalab.report.html import plot
from cudalab.results import file, record
from cudalab.results.record import Machine
from cudalab.study import run as runner
from cudalab.tools.gpus import over, several
from cudalab.tools.gpus.chosen import Chosen
from cudalab.tools.gpus.messages import Answer, Gone, Opened, Order
from cudalab.tools.gpus.queue import STRIKES, TRIES, Queue

DEADLY = Path(__file__).parents[2] / "data" / "gpus"
H200, H100 = (Machine("cuda", name, {"driver": "580", "card": "ab"}, {"torch": "2"}) for name in ("H200", "H100"))


class Fleet:
    """Actors without processes. `cards`: the machine of each; `dies(number, group)`: whether an actor is lost then."""

    device, note = "cuda", ""

    def __init__(self, cards, dies=lambda number, group: False):
        self.cards, self.dies, self.count = cards, dies, len(cards)
        self.at_work, self.said, self.ended = {}, [], False
        self.slow = {}  # how much slower a GPU is; else 0.1 % for each number
        self.uuids = {}  # of GPUs; else GPU-NUMBER
        self.free = {}  # bytes of a GPU, and of its host
        self.bad = {}  # status and reason of the entry, by size
        self.hired, self.done = [], []

    def __call__(self, chosen, address, device):
        return self

    def hire(self, number, order):
        assert msgspec.json.decode(order, type=Order).setup.device == "cuda"
        self.hired.append(number)
        machine = self.cards[number]
        free, memory = self.free.get(number, (0, 0))
        ready = Ready(machine, "", {}, {}, free) if isinstance(machine, Machine) else None
        opened = (
            Opened(ready, self.uuids.get(number, f"GPU-{number}"), f"host{number}", "", 3, 8, memory)
            if ready
            else Gone(machine)
        )
        self.said.append((number, opened))

    def give(self, number, work):
        sent = msgspec.json.decode(work, type=Sent)
        group = named(sent.maker)(sent.payload)
        assert number not in self.at_work, "one group at a time"
        self.at_work[number] = group
        if self.dies(number, group):
            self.said.append((number, Gone("it has died")))
            return
        case = row(group, "pycuda:fine")
        case.status, case.reason = self.bad.get(group.size, (case.status, ""))
        case.times = {"cold": [[1e-5 * self.slow.get(number, 1 + number / 1000)]]}
        copy = row(group, "copy")
        copy.status, copy.condition = "ceiling", {"sm_hz": 1.98e9, "temperature_c": 41}
        self.done.append((number, group.size))
        spent = {"timing": 2.0, "total": 4.0, "load of others": 8.0, "cores": 16.0}
        self.said.append((number, Answer([case, copy], 2.0, spent)))

    def dismiss(self, number):
        self.at_work.pop(number, None)
        self.said = [(other, report) for other, report in self.said if other != number]

    def reports(self, seconds):
        """The last first: groups are finished in another order than they are begun."""
        if not self.said:
            return []
        number, report = self.said.pop()
        self.at_work.pop(number, None)
        return [(number, report)]

    def end(self):
        self.ended = True


def bench(fleet, tmp_path, gpus="all", sizes="small,medium,large", every=False, **more):
    spec = tmp_path / "crash.py" if (tmp_path / "crash.py").exists() else altered(tmp_path)
    session = over(gpus, every=every, fleets=fleet)
    return cudalab.bench(str(spec), sizes=sizes, only="pycuda:fine", session=session, **more)


def places(run):
    return {place.size: place.gpu for place in run.places}


@pytest.fixture
def groups(tmp_path):
    return plan.groups([str(altered(tmp_path))], "small,medium,large", "")


def test_rows_of_all_gpus_are_one_run_in_its_order(tmp_path):
    fleet, out = Fleet([H200, H200]), tmp_path / "r.json"
    run = bench(fleet, tmp_path, output=out)
    assert [case.size for case in run.cases if case.backend == "pycuda"] == ["small", "medium", "large"]
    assert {number for number, _ in fleet.done} == {0, 1} and fleet.ended
    assert run.complete and run.machine.details == {"driver": "580"}  # the card is not that of all rows
    assert (run.options["gpus"], run.options["processes"], run.options["up_to"]) == ("all", 3, 8)
    assert [place.size for place in run.places] == ["small", "medium", "large"]
    first = run.places[0]
    assert (first.gpu, first.name, first.host) in [(f"GPU-{n}", "H200", f"host{n}") for n in (0, 1)]
    assert first.condition == {"sm_hz": 1.98e9, "temperature_c": 41} and first.seconds == 2.0
    assert file.load(out).places == run.places
    assert run.wall["timing"] == 4.0  # of both
    assert run.others == pytest.approx((2.0, 4.0))  # load, cores: the mean of what the actors saw
    text = "\n".join(report.lines(run))
    assert "2 GPUs; each kernel, size and dtype is from one: 6 s of work" in text
    assert "1,980 MHz, 41 °C" in text and "lost" not in text


def test_a_lost_actor_costs_its_group_alone_which_another_gpu_does(tmp_path):
    fleet = Fleet([H200, H200], dies=lambda number, group: number == 1)
    with pytest.warns(UserWarning, match="GPU-1 on host1 is left out: it loses every group; the last: it has died"):
        run = bench(fleet, tmp_path, sizes="small,medium,large,500,700")
    assert run.complete and not run.broken and len(run.places) == 5
    assert set(places(run).values()) == {"GPU-0"}
    assert fleet.hired.count(1) == STRIKES
    assert any(place.lost == ["GPU-1 on host1: it has died"] for place in run.places)
    assert "lost: crash " in "\n".join(report.lines(run))


def test_a_group_that_ends_every_actor_is_recorded_and_not_tried_for_ever(tmp_path):
    fleet = Fleet([H200, H200], dies=lambda number, group: group.size == "medium")
    run = bench(fleet, tmp_path)
    (bad,) = run.broken
    assert (bad.size, bad.label, bad.status) == ("medium", "pycuda:fine", "error")
    assert "it ended 3 actors (GPU-" in bad.reason and bad.reason.endswith("the last: it has died")
    assert run.complete and len(fleet.hired) == 2 + TRIES
    assert sorted(size for _, size in fleet.done) == ["large", "small"]


@pytest.mark.filterwarnings("ignore:GPU . is left out")
def test_a_run_whose_last_gpu_is_gone_says_how_to_go_on_and_resumes_on_others(tmp_path):
    out = tmp_path / "r.json"

    class Lost(Fleet):
        def hire(self, number, order):
            if number in self.hired:
                self.cards[number] = "no such node"
            super().hire(number, order)

    fleet = Lost([H200, H200], dies=lambda number, group: bool(fleet.done))
    with pytest.raises(Unavailable, match=f"no GPU can be used: no such node; .*--resume {out}"):
        bench(fleet, tmp_path, output=out)
    assert len(places(file.load(out))) == 1
    other = Fleet([H200])
    run = bench(other, tmp_path, gpus="H200", resume=out, seed=file.load(out).options["seed"])
    assert run.complete and len(run.places) == 3 and len(other.done) == 2
    run.complete = False
    del run.cases[2:]
    file.save(run, out)
    with pytest.raises(InputError, match="it was begun on H200"):
        bench(Fleet([H100]), tmp_path, resume=out, seed=run.options["seed"])


def test_cards_of_two_kinds_are_refused_and_a_word_chooses_one(tmp_path):
    fleet = Fleet([H200, H100, H200])
    said = r"got 2 x H200 \(host0, host2\) and 1 x H100 \(host1\).*--gpus 'H200' or --gpus 'H100'"
    with pytest.raises(InputError, match=said):
        bench(fleet, tmp_path)
    assert fleet.ended and not fleet.done
    assert set(places(bench(Fleet([H200, H100, H200]), tmp_path, "h200")).values()) == {"GPU-0", "GPU-2"}
    assert set(places(bench(Fleet([H200, H100]), tmp_path, "host1")).values()) == {"GPU-1"}
    older = msgspec.structs.replace(H200, details={"driver": "570"})
    with pytest.raises(InputError, match="driver is 580 on host0 and 570 on host1; choose hosts that are alike"):
        bench(Fleet([H200, older]), tmp_path)
    with pytest.raises(Unavailable, match="no GPU can be used: --gpus A100 does not name it"):
        bench(Fleet([H200]), tmp_path, "A100")


def test_a_gpu_that_does_not_open_is_left_out(tmp_path):
    with pytest.warns(UserWarning, match="GPU 0 is left out: it has fallen off the bus"):
        run = bench(Fleet(["it has fallen off the bus", H200]), tmp_path)
    assert run.complete and set(places(run).values()) == {"GPU-1"}


def test_two_actors_on_one_gpu_are_refused(tmp_path):
    fleet = Fleet([H200, H200])
    fleet.uuids = {1: "GPU-0"}
    with pytest.raises(Unavailable, match=r"have both got GPU-0 on .*type `unset RAY_\w+` where Ray"):
        bench(fleet, tmp_path)
    assert fleet.ended and not fleet.done


def test_every_gpu_measures_everything_and_one_that_stands_apart_is_named(tmp_path):
    fleet, out = Fleet([H200] * 5), tmp_path / "r.json"
    fleet.slow = {3: 1.2}
    run = bench(fleet, tmp_path, every=True, output=out)
    assert len(fleet.done) == len(run.places) == 15
    assert run.complete and len([case for case in run.cases if case.backend == "pycuda"]) == 3
    text = "\n".join(report.lines(file.load(out)))
    assert "outlier: GPU-3 on host3: +19.8 % at crash small float32 pycuda:fine" in text
    assert text.count("outlier") == 3
    assert "5 GPUs; each kernel, size and dtype is from all that could: " in text
    row = ["crash small float32", "pycuda:fine", "5", "10.02", "-0.2 %", "+19.8 %", "1"]
    assert report.table(run)[1][0] == row
    assert " ".join(row) in " ".join(str(cudalab.load(out)).split())
    assert f"| {' | '.join(row)} |" in markdown.render(run)
    figure, about = plot.chosen([run], "gpus")
    assert (figure.title, about) == ("How 5 GPUs differ", "H200") and "1 is marked as an outlier" in figure.says
    assert figure.svg.count("<circle") == 12 and figure.svg.count("GPU-3 on host3: +19.8 %") == 3
    run.cases = [case for case in run.cases if case.size == "small"]
    assert report.table(run)[1] == [row]
    run.machine.device = "cpu"
    assert plot.chosen([run], "gpus")[0].title == "How 5 actors on CPUs differ"
    screen = " ".join(without_gpu.render(run, 120, False).split())
    assert " ".join(row) in screen and "5 actors on CPUs; each kernel" in screen and "outlier: GPU-3" in screen
    run.places = [place for place in run.places if place.gpu in ("GPU-0", "GPU-1", "GPU-2")]
    assert plot.chosen([run], "gpus")[0].says.endswith("slower, and outliers are told of 4 or more.")
    run.places = []
    with pytest.raises(InputError, match="nothing to draw for gpus: it needs a file of"):
        plot.chosen([run], "gpus")
    assert report.outliers({"a": 1.0, "b": 1.0, "c": 9.0}) == (1.0, [])  # of three none is told


def test_a_gpu_that_is_lost_where_all_measure_everything_costs_its_own_numbers(tmp_path):
    fleet = Fleet([H200, H200], dies=lambda number, group: number == 1 or group.size == "large")
    with pytest.warns(UserWarning, match="GPU-1 on host1 is left out"):
        run = bench(fleet, tmp_path, every=True)
    assert [(case.size, case.status) for case in run.cases if case.backend == "pycuda"] == [
        ("small", "ok"), ("medium", "ok"), ("large", "error")
    ]  # fmt: skip
    assert run.complete and sorted(size for _, size in fleet.done) == ["medium", "small"]


def test_an_interrupted_run_in_which_all_measure_everything_goes_on_where_each_gpu_stopped(tmp_path):
    out = tmp_path / "r.json"
    bench(Fleet([H200, H200]), tmp_path, every=True, output=out)
    run = file.load(out)
    run.complete = False
    run.places = [place for place in run.places if place.gpu == "GPU-0" or place.size == "small"]
    file.save(run, out)  # all groups have rows
    fleet = Fleet([H200, H200])
    run = bench(fleet, tmp_path, every=True, resume=out, seed=run.options["seed"])
    assert sorted(fleet.done) == [(1, "large"), (1, "medium")]
    assert run.complete and len(run.places) == 6 and len([c for c in run.cases if c.backend == "pycuda"]) == 3
    assert bench(Fleet([]), tmp_path, every=True, resume=out, seed=run.options["seed"]).complete  # none is opened


@pytest.mark.parametrize("every", [False, True])
def test_a_gpu_that_has_not_opened_is_told_and_one_that_opens_late_gets_its_share(tmp_path, monkeypatch, every):
    monkeypatch.setattr(several, "OPENING", 0.0)

    class Late(Fleet):
        def reports(self, seconds):
            late = [one for one in self.said if one[0] == 1 and isinstance(one[1], Opened)]
            self.said = [one for one in self.said if one not in late]
            if self.done:  # GPU 0 has worked
                return late or super().reports(seconds)
            found = super().reports(seconds)
            self.said += late
            return found

    fleet = Late([H200, H200])
    with pytest.warns(UserWarning, match="1 of 2 GPUs has not opened within .* another job of Ray has it, or no proc"):
        run = bench(fleet, tmp_path, every=every, timeout=inf)
    done = [number for number, _ in fleet.done]
    assert run.complete and 1 in done
    assert len(done) == (6 if every else 3)


def test_a_gpu_keeps_its_kernel_and_takes_long_groups_first(groups):
    small, medium, large = groups
    other = replace(small, alias="other", dtype=plan.dtype("float64"))
    queue = Queue([small, medium, large, other], [1.0, 2.0, 3.0, 0.5])
    assert queue.next(0, [1]) is large
    assert queue.next(1, [0]) is other  # which no GPU has compiled
    queue.done(0)
    assert queue.next(0, [1]) is medium
    queue.done(1)
    assert queue.next(1, [0]) is small and queue.next(1, [0]) is None
    assert queue.lost(1, "why") is None and not queue.struck_out(1)
    assert queue.next(1, [0]) is None  # another GPU is to try it
    assert queue.next(1, []) is small  # unless there is none
    queue.done(0)
    assert queue.done(1) is small and not queue


def test_a_check_ends_with_what_does_not_compile_or_with_the_first_wrong_entry(tmp_path):
    spec, fleet, out = str(altered(tmp_path)), Fleet([H200]), tmp_path / "r.json"
    asked = {"dtypes": "", "only": "pycuda:fine", "session": over("all", fleets=fleet)}
    run = cudalab.check(spec, **asked)
    assert run.kind == "check" and run.complete and len(run.places) == len(fleet.done) > 3
    assert "1 GPU; each kernel, size and dtype is from one" in "\n".join(report.lines(run))
    first = fleet.done[0][1]
    fleet.bad, fleet.done = {first: ("error", "does not compile: no")}, []
    run = cudalab.check(spec, **asked)
    assert run.complete and [size for _, size in fleet.done] == [first]
    fleet.bad, fleet.done = {first: (record.WRONG, "no")}, []
    run = cudalab.check(spec, exit_first=True, output=out, **asked)
    assert not run.complete and len(fleet.done) == 1
    fleet.bad = {}
    run = cudalab.check(spec, resume=out, seed=run.options["seed"], **asked)
    assert run.complete and len({size for _, size in fleet.done}) == len(fleet.done) == len(run.places)
    with pytest.raises(InputError, match="--sanitize is for one GPU"):
        cudalab.check(spec, sanitize=True, **asked)


def test_each_size_of_a_study_goes_to_one_gpu(monkeypatch):
    fleet = Fleet([H200, H200])
    monkeypatch.setattr(runner, "asked", lambda gpus, ray: {"session": over(gpus, fleets=fleet)})
    run = cudalab.run_study("graphs", sizes="all", gpus="0,1")
    assert run.kind == "study" and run.complete and len(fleet.done) == len(run.places) > 1
    assert {number for number, _ in fleet.done} == {0, 1}
    assert "2 GPUs; each size is from one" in "\n".join(study.footer(run))


@pytest.mark.parametrize(
    ("text", "said"),
    [("0,H200", "mixes numbers and names"), ("1,01", "names GPU 1 twice"), (" ,", "names no GPU; give all")],
)
def test_words_that_choose_no_gpus_are_refused(text, said):
    with pytest.raises(InputError, match=said):
        Chosen.of(text)


def test_what_is_for_one_gpu_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(cross_check, "chosen", lambda name: None)  # as where the tool is installed
    with pytest.raises(InputError, match="--device cuda:1 names one GPU; leave it out beside --gpus"):
        bench(Fleet([H200]), tmp_path, device="cuda:1")
    with pytest.raises(InputError, match="--cross-check is for one GPU"):
        bench(Fleet([H200]), tmp_path, cross_check="cupti")


def test_a_size_that_fits_is_found_once_for_all_by_the_gpu_with_the_least_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(fit, "in_fork", lambda call, seconds: call())
    monkeypatch.setattr(fit, "reference_cost", lambda kernel, dtype, shape, *more: (1e-9, 1.0))

    def fitted(*free, **more):
        fleet = Fleet([H200] * len(free))
        fleet.free = dict(enumerate(free))
        run = bench(fleet, tmp_path, sizes="fit:0.5,small", **more)
        case = next(case for case in run.cases if case.size == "fit:0.5")
        assert not any("fit:" in note for case in run.cases if case.size == "small" for note in case.notes)
        return tuple(case.shape), " ".join(case.notes)

    gib = 1 << 30
    alone, said = fitted((20 * gib, 0))
    assert "for all" not in said
    shape, said = fitted((40 * gib, 0), (20 * gib, 0), (30 * gib, 0), every=True)
    assert shape == alone and "the same for all 3 GPUs; none has less free memory than GPU-1 on host1" in said
    shape, said = fitted((40 * gib, 64 * gib), (40 * gib, gib // 16))
    assert shape < alone and "of the machine's memory" in said  # that of host1 bounds it


def test_without_ray_the_error_says_what_to_install_and_no_variable_stays(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    before = dict(os.environ)
    found = CliRunner().invoke(main, ["bench", "gelu", "--gpus", "all"])
    assert os.environ == before
    assert found.exit_code == 2
    assert found.output.startswith(f"Error: --gpus needs Ray, which is not installed; {advice.extra('ray')}")


def test_a_run_of_several_gpus_goes_on_without_ray_on_one(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    out, spec = tmp_path / "r.json", str(tmp_path / "crash.py")
    run = bench(Fleet([H200]), tmp_path, output=out)
    del run.cases[2:], run.places[1:]
    run.complete = False
    file.save(run, out)
    found = CliRunner().invoke(main, ["bench", spec, "--resume", str(out)])
    assert found.exit_code == 2 and "without Ray, --gpus none takes one GPU, also where --resume" in found.output
    taken = {}
    monkeypatch.setattr(runs, "bench", lambda *kernels, **options: taken.update(options) or run)
    CliRunner().invoke(main, ["bench", spec, "--resume", str(out), "--gpus", "none"])
    assert "session" not in taken and taken["resume"] == str(out)
    run.cases.append(msgspec.structs.replace(run.cases[0], size="large"))
    assert "1 more is from a continuation with --gpus none" in report.lines(run)
    with pytest.raises(InputError, match="--gpus none is for one GPU without Ray, and --every-gpu for several"):
        cudalab.bench("gelu", gpus="none", every_gpu=True)


# ---- with Ray ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def ray():
    """Ray on this machine, with room for two actors."""
    ray = pytest.importorskip("ray")
    ray.init("local", num_cpus=2, num_gpus=0, include_dashboard=False, object_store_memory=100 << 20,
             log_to_driver=False)  # fmt: skip
    yield ray
    ray.shutdown()


@pytest.mark.process
@pytest.mark.filterwarnings("ignore:no GPU is used")
def test_actors_of_ray_measure_and_one_that_is_killed_costs_its_group(ray, tmp_path, monkeypatch):
    """A reference kills the actor that it runs under: at one size always, at another once."""
    monkeypatch.setattr(several, "OPENING", 60.0)
    for name in ("deadly.cu", "deadly.py"):
        shutil.copy(DEADLY / name, tmp_path)
    session = over("0,1")
    run = cudalab.bench(str(tmp_path / "deadly.py"), sizes="all", only="numpy", device="cpu", budget=0.01,
                        session=session)  # fmt: skip
    by_size = {case.size: case for case in run.cases if case.backend == "numpy"}
    assert [(size, case.status) for size, case in by_size.items()] == [
        ("fine", "ok"), ("once", "ok"), ("always", "error"), ("last", "ok")
    ]  # fmt: skip
    assert "it ended 3 actors (CPU actor " in by_size["always"].reason
    assert "its worker process has died" in by_size["always"].reason
    lost = {place.size: len(place.lost) for place in run.places}
    assert lost["always"] == TRIES and lost["once"] == 1 and not lost["fine"] + lost["last"]
    assert {place.gpu for place in run.places} <= {"cpu 0", "cpu 1"}
    assert run.complete and run.cases[0].times["wall"]
    assert ray.is_initialized()  # which this process began, and the run did not end
