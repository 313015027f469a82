"""The studies of timing, launches and graphs, and `cudalab profile`: what each claims, tiny, on the CPU."""

from __future__ import annotations

import json
import sys
from math import inf
from time import perf_counter, sleep
from types import SimpleNamespace

import msgspec
import pytest
import studying
from studying import measured, module

from cudalab.base import child as children
from cudalab.base.errors import CudalabError, InputError, Unavailable
from cudalab.report import profiling as report
from cudalab.results import record as results
from cudalab.study import run as runner
from cudalab.tools.profile import child, events, found, kernel, ncu
from cudalab.tools.profile.events import COPY, KERNEL, LABEL, LAUNCH, OPERATOR, OTHER, Event, Recording
from cudalab.tools.profile.found import Counters, Profile, Row, brief

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.usefixtures("quick_studies")

SIZE = (3, 8, 8)


def rows(studied, name):
    return studying.rows(studied.run(name))


# --- the studies


def test_fused_forms_of_gelu_and_labels_of_a_step_are_counted(studied):
    found = {label: case.quantities for label, case in rows(studied, "jit-gelu").items()}
    one, x = {"operators": 1, "moved_bytes": 2 * 4 * 192}, 4 * 192
    assert found["eager"] == found["jit.script"] == {"operators": 5, "moved_bytes": 11 * x}
    assert found["compile"] == found["F.gelu"] == one
    case = rows(studied, "profile")["profiler"]
    shares = [case.quantities[f"{name}_share"] for name in module("profile").LABELS]
    assert sum(shares) == pytest.approx(1)
    assert all(share > 0 for share in shares)
    assert case.quantities["operators"] > 20  # of three convolutions, forward and backward, and an update
    assert any("convolution" in note for note in case.notes)
    names = {event.get("name") for event in json.loads(studied.trace.read_text())["traceEvents"]}
    assert {"inference", "backward", "step"} <= names


def test_a_trace_that_cannot_be_written_or_would_replace_another_file_is_said(tmp_path):
    cases = {case.label: case for case in measured("profile", trace=str(tmp_path / "none" / "trace.json")).cases}
    assert cases["profiler"].status == results.ERROR
    assert "no folder" in cases["profiler"].reason
    assert cases["plain"].status == results.OK
    path = tmp_path / "t.json"
    assert events.free(str(path)) == path
    path.write_text('{ "schemaVersion": 1, "traceEvents": [] }')
    assert events.free(str(path)) == path
    path.write_text("source = 1")
    with pytest.raises(InputError, match=r"will not replace .*t.json, which is not a Chrome trace"):
        kernel.profile("gelu", size="64", only="torch_native", output=str(path))
    row = next(c for c in measured("profile", trace=str(path)).cases if c.label == "profiler")
    assert "will not replace" in row.reason
    assert path.read_text() == "source = 1"


@pytest.mark.wall
def test_a_naive_clock_leaves_out_what_is_still_queued_and_the_others_do_not():
    study, queue = module("timing"), []

    def drain():
        sleep(0.1 * len(queue))
        queue.clear()

    fake, run = SimpleNamespace(synchronize=drain), lambda: queue.append("work")
    naive, waiting = study.naive(fake, run), study.synchronized(fake, run)
    assert study.claim(fake, naive)()[0] < 0.1 <= study.claim(fake, waiting)()[0]
    start = perf_counter()
    assert study.loop(fake, naive, 3)()[0] >= 0.1  # the real time includes the waiting
    assert perf_counter() - start >= 3 * 0.1


def test_a_claim_has_an_empty_queue_at_each_step_and_events_are_read_when_all_is_done():
    study, seconds = module("timing"), iter((3.0, 1.0, 2.0))
    waits = []
    step = lambda: lambda: next(seconds)  # noqa: E731
    assert study.claim(SimpleNamespace(synchronize=lambda: waits.append(1)), step, 3)() == [3.0, 1.0, 2.0]
    assert len(waits) == 6
    done = []

    class Event:
        def __init__(self, enable_timing):
            assert enable_timing

        def record(self):
            done.append("record")

        def elapsed_time(self, other):
            assert done[-1] == "waited"
            return 3.0  # ms

    cuda = SimpleNamespace(Event=Event)
    fake = SimpleNamespace(synchronize=lambda: done.append("waited"), torch=lambda: SimpleNamespace(cuda=cuda))
    step = module("timing").by_events(fake, lambda: done.append("work"))
    assert module("timing").claim(fake, step)() == [0.003]
    assert done == ["waited", "record", "work", "record", "waited"]


def test_on_a_cpu_the_truth_is_the_wall_time_of_steps_without_a_clock(studied):
    found_rows = rows(studied, "timing")
    assert set(found_rows["engine"].times) == {"wall"}
    assert set(found_rows["naive"].times) == {"wall", "timed"}
    assert all(len(samples) == 2 for samples in found_rows["naive"].times["wall"])  # one a step


# --- the networks


def test_resnet50_is_the_known_one():
    from cudalab.study import models

    with torch.device("meta"):
        whole = models.ResNet50()
    assert sum(p.numel() for p in whole.parameters()) == 25_557_032  # as torchvision's
    assert len(whole.state_dict()) == 320
    assert "layer4.0.downsample.1.running_var" in whole.state_dict()
    narrow = models.resnet50(10, width=4).eval()
    assert narrow(torch.randn(2, 3, 32, 32)).shape == (2, 10)


@pytest.mark.parametrize(("norm", "bias"), [(True, True), (True, False), (False, True)])
def test_the_small_network_takes_any_size(norm, bias):
    from cudalab.study import models

    network = models.SmallCNN(classes=7, width=4, norm=norm, bias=bias)
    assert network(torch.randn(2, 3, 8, 8)).shape == network(torch.randn(2, 3, 33, 20)).shape == (2, 7)
    assert sum(isinstance(m, torch.nn.BatchNorm2d) for m in network.modules()) == 3 * norm
    assert [m.bias is not None for m in network.modules() if isinstance(m, torch.nn.Conv2d)] == [bias] * 3


# --- what is counted


def test_operators_are_counted_once_and_a_gpus_busy_time_by_recordings(monkeypatch):
    x = torch.randn(SIZE)
    recorded = events.record(lambda: (x * 0.5).transpose(0, 1), lambda: None, False, runs=3)
    assert recorded.counts() == {"operators": 1}
    found = {used.name: used.count for used in recorded.top(9)}  # sorted by time: an interrupted one may come first
    assert found["aten::mul"] == 1
    from cudalab.study import launches

    ran = []
    monkeypatch.setattr(launches, "recorded", lambda lab, run: run() or gpu_recording())
    sample = launches.busy(None, lambda: ran.append(1))
    assert sample() == sample() == [pytest.approx((100 + 200 + 50) * 1e-9)]
    assert len(ran) == 2


def gpu_recording():
    """Two launches, the second of a graph with two kernels that overlap; a copy; a label of each half."""
    return Recording(
        [
            Event("forward", LABEL, 0, 100),
            Event("backward", LABEL, 100, 300),
            Event("cudaLaunchKernel", LAUNCH, 10, 12, thread=1, correlation=7),
            Event("cudaGraphLaunch", LAUNCH, 150, 160, thread=2, correlation=8),  # autograd has a thread of its own
            Event("cudaMemcpyAsync", LAUNCH, 290, 291, thread=1, correlation=9),
            Event("first", KERNEL, 200, 300, correlation=7),
            Event("second", KERNEL, 400, 500, correlation=8),
            Event("first", KERNEL, 450, 600, correlation=8),
            Event("Memcpy DtoD", COPY, 700, 750, correlation=9),
            Event("forward", OTHER, 200, 600),
            Event("aten::mm", OPERATOR, 5, 20),
        ],
        cuda=True,
    )


def test_kernels_launches_busy_time_and_labels_of_a_gpu():
    assert gpu_recording().counts() == {
        "operators": 1, "kernels": 3, "launches": 3, "gpu_busy_s": pytest.approx((100 + 200 + 50) * 1e-9)
    }  # fmt: skip
    twice = gpu_recording()
    twice.runs = 2
    assert twice.counts()["kernels"] == 1.5
    shares = gpu_recording().shares(("forward", "backward", "update"))
    assert shares == {"forward": 0.25, "backward": 0.75, "update": 0}
    assert Recording([], cuda=True).shares(("forward",)) == {}
    rows = gpu_recording().top(2)
    assert [(row.name, row.count, row.seconds) for row in rows] == [
        ("first", 2, pytest.approx(250e-9)), ("second", 1, pytest.approx(100e-9))
    ]  # fmt: skip


def raw(name, device, annotation=False, **more):
    kind = SimpleNamespace(name=device)
    methods = {"name": name, "is_user_annotation": annotation, "device_type": kind, "start_ns": 1, "end_ns": 3,
               "start_thread_id": 4, "correlation_id": 5, **more}  # fmt: skip
    return SimpleNamespace(**{key: lambda value=value: value for key, value in methods.items()})


@pytest.mark.parametrize(
    ("one", "kind"),
    [
        (raw("gelu_vec", "CUDA", activity_type="kernel"), KERNEL),
        (raw("Memset (Device)", "CUDA", activity_type="gpu_memset"), COPY),
        (raw("forward", "CUDA", annotation=True, activity_type="gpu_user_annotation"), OTHER),
        (raw("gelu_vec", "CUDA"), KERNEL),  # older releases of torch do not say the type
        (raw("Memcpy HtoD (Pinned -> Device)", "CUDA"), COPY),
        (raw("forward", "CUDA", annotation=True), OTHER),
        (raw("forward", "CPU", annotation=True), LABEL),
        (raw("cudaLaunchKernel", "CPU"), LAUNCH),
        (raw("cuLaunchKernelEx", "CPU"), LAUNCH),
        (raw("cudaGraphLaunch", "CPU"), LAUNCH),
        (raw("cudaDeviceSynchronize", "CPU"), OTHER),
        (raw("aten::add_", "CPU"), OPERATOR),
        (raw("cudalab::gelu", "CPU"), OPERATOR),
        (raw("autograd::engine::evaluate_function: MulBackward0", "CPU"), OTHER),
        (raw("torch::autograd::AccumulateGrad", "CPU"), OTHER),
    ],
    ids=lambda value: value if isinstance(value, str) else value.name(),
)
def test_what_a_record_of_the_profiler_is(one, kind):
    assert events.event(one) == Event(one.name(), kind, 1, 3, 4, 5)


# --- cudalab profile


@pytest.fixture(scope="module")
def profiled(tmp_path_factory):
    trace = tmp_path_factory.mktemp("profile") / "trace.json"
    only = "torch_eager,torch_native,numpy"
    return kernel.profile("gelu", size="1000", only=only, device="cpu", runs=2, output=str(trace)), trace


def test_profile_counts_the_operators_of_each_variant_as_text_and_as_json(profiled):
    rows = {row.label: row for row in profiled[0].rows}
    assert list(rows) == ["numpy", "torch_eager", "torch_native"]
    assert rows["torch_eager"].counts == {"operators": 5}
    assert rows["torch_native"].counts == {"operators": 1}
    assert "aten::gelu" in [used.name for used in rows["torch_native"].longest]
    assert rows["numpy"].status == found.SKIPPED
    names = {event.get("name") for event in json.loads(profiled[1].read_text())["traceEvents"]}
    assert {"torch_eager", "torch_native", "aten::erf"} <= names
    text = report.render(profiled[0])
    assert text.startswith("gelu 1000 (1000), float32: one call of each variant on the CPU (")
    assert "no GPU: no kernels" in text
    assert ["torch_eager", "5"] in [line.split() for line in text.splitlines()]
    assert "skipped numpy: no operators" in text
    assert msgspec.json.decode(report.as_json([profiled[0]]), type=Profile) == profiled[0]


def answers(*parts):
    return [child.Answer(device="cpu", name="a CPU"), *parts]


def test_what_ends_the_process_costs_one_variant(monkeypatch):
    attempts = iter([
        (answers(child.Answer(begun="a"), child.Answer(row=Row("a")), child.Answer(begun="b")), "it ended"),
        (answers(child.Answer(row=Row("c"))), ""),
    ])  # fmt: skip
    asked = []

    def watched(prefix, request, *_):
        asked.append(request.work.omit)
        return next(attempts)

    monkeypatch.setattr(kernel, "_watched", watched)
    made = Profile("k", "small", (1,), "float32")
    kernel._record(made, SimpleNamespace(work=SimpleNamespace(omit=())), 1.0)
    assert [(row.label, row.status, row.reason) for row in made.rows] == [
        ("a", "ok", ""), ("b", "error", "it ended"), ("c", "ok", "")
    ]  # fmt: skip
    assert asked == [(), ("a", "b")]


@pytest.mark.parametrize(
    ("got", "error", "said"),
    [
        ([child.Answer(device="cpu", name="a CPU")], CudalabError, "no variant was profiled: it ended"),
        ([child.Answer(error="no GPU", kind="Unavailable")], Unavailable, "no GPU"),
    ],
)
def test_a_process_that_never_begins_is_an_error_and_one_of_the_child_stays_what_it_was(monkeypatch, got, error, said):
    monkeypatch.setattr(kernel, "_watched", lambda *_: (got, "it ended"))
    with pytest.raises(error, match=said):
        kernel._record(Profile("k", "small", (1,), "float32"), SimpleNamespace(work=None), 1.0)


@pytest.mark.parametrize(
    ("program", "timeout", "end"),
    [
        ("import sys; print('words', file=sys.stderr); sys.exit(3)", inf,
         "the process ended with exit code 3; its last output: words"),
        ("import os; os.kill(os.getpid(), 11)", inf, "the process was killed by SIGSEGV"),
        ("import time; time.sleep(60)", 0.3, "it did not end within 0.3 s"),
        ("""import os, sys; os.write(int(sys.argv[4]), b'seal\\nseal{"begun": "x", "done": true}\\n')""", 60.0, ""),
        ("""import os, sys; os.write(int(sys.argv[4]), b'seal\\nseal{"begun": "x"}\\n')""", 60.0,
         "the process ended with exit code 0"),
    ],
)  # fmt: skip
def test_how_a_process_ends(monkeypatch, program, timeout, end):
    monkeypatch.setattr(children, "command", lambda *given: [sys.executable, "-c", program, *given])
    got, how = kernel._watched((), {}, timeout, {})
    assert how == end
    assert [answer.begun for answer in got] == (["x"] if "begun" in program else [])


# --- ncu


def log(*rows):
    """As ncu writes it: what it did, then a header, the units, and a row for each kernel."""
    names = ("ID", "Process ID", "Kernel Name", *ncu.METRICS)
    units = ("", "", "", "ns", "byte", "byte", "%", "%", "%", "register/thread")
    table = [names, units, *((str(i), "17", *map(str, row)) for i, row in enumerate(rows))]
    lines = [",".join(f'"{cell}"' for cell in line) for line in table]
    return "\n".join(["==PROF== Connected to process 17", '==PROF== Profiling "empty": 0%....100%', *lines])


GELU = ("void at::native::vectorized_elementwise_kernel<4, at::native::GeluFunctor>(int, T2)", "1,600", *[602112] * 2)


def test_counters_are_read_and_belong_to_the_variant_before_which_the_mark_stands():
    mark = ("empty", 900, 0, 0, 0, 0, 0, 16)
    text = log(mark, (*GELU, 12.5, 3, 80, 24), (*GELU, 13, 3, 80, "n/a"), mark, ("gelu_vec", 1500, 1, 2, 3, 4, 5, 20))
    by = ncu.by_variant(ncu.read(text), ["torch_native", "pycuda:gelu_vec"])
    assert [len(part) for part in by.values()] == [2, 1]
    assert by["torch_native"][0].metrics[ncu.DURATION] == 1600
    assert by["torch_native"][0].metrics[ncu.MEMORY] == 12.5
    assert ncu.REGISTERS not in by["torch_native"][1].metrics
    with pytest.raises(Unavailable, match="ncu saw 2 variants, expected 1"):
        ncu.by_variant(ncu.read(text), ["torch_native"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("==PROF== Connected\n==ERROR== ERR_NVGPUCTRPERM - The user does not have permission", "CAP_SYS_ADMIN"),
        ("==ERROR== Failed to connect", "ncu measured nothing: Failed to connect"),
        ("==WARNING== No kernels were profiled.", "ncu measured nothing: ==WARNING== No kernels were profiled."),
        ("", "ncu measured nothing: it printed nothing"),
    ],
)
def test_where_ncu_measures_nothing_it_is_said_why(text, said):
    with pytest.raises(Unavailable) as caught:
        ncu.read(text)
    assert said in str(caught.value)


def test_without_ncu_the_rest_goes_on(monkeypatch):
    monkeypatch.setattr(ncu, "program", lambda: None)
    monkeypatch.setattr(kernel, "_watched", lambda *_: (answers(child.Answer(row=Row("torch_native"))), ""))
    made = kernel.profile("gelu", size="64", only="torch_native")
    assert made.notes == []  # on a CPU there is nothing to miss
    gpu = [child.Answer(device="cuda", name="a GPU"), child.Answer(row=Row("torch_native"))]
    monkeypatch.setattr(kernel, "_watched", lambda *_: (gpu, ""))
    assert kernel.profile("gelu", size="64", only="torch_native").notes == [ncu.missing()]
    assert kernel.profile("gelu", size="64", only="torch_native", counters=False).notes == []


def test_ncu_is_put_before_the_child_and_its_counters_are_added(monkeypatch):
    monkeypatch.setattr(ncu, "program", lambda: "/bin/ncu")
    mark, text = ("empty", 900, 0, 0, 0, 0, 0, 16), {}

    def watched(prefix, request, timeout, environment):
        if request.counters:
            text.update(prefix=prefix, environment=environment, omit=request.work.omit)
            log_file = prefix[prefix.index("--log-file") + 1]
            with open(log_file, "w") as out:
                out.write(log(mark, (*GELU, 12.5, 3, 80, 24)))
            return [child.Answer(device="cuda"), child.Answer(row=Row("torch_native"))], ""
        rows = [Row("torch_native", counts={"kernels": 1, "launches": 1, "gpu_busy_s": 2e-6})]
        rows.append(Row("torch_eager", found.ERROR, "broken"))
        return [child.Answer(device="cuda", name="a GPU"), *(child.Answer(row=row) for row in rows)], ""

    monkeypatch.setattr(kernel, "_watched", watched)
    made = kernel.profile("gelu", size="64", only="torch_native,torch_eager", device="cuda")
    assert text["prefix"][0] == "/bin/ncu"
    assert text["environment"] == {"CUDALAB_BLOCKING": "0"}
    assert text["omit"] == ("torch_eager",)
    native = next(row for row in made.rows if row.label == "torch_native")
    assert [counters.metrics[ncu.READ] for counters in native.counters] == [602112]
    shown = report.render(made)
    assert "one call of each variant on a GPU" in shown
    assert "vectorized_elementwise_kernel<4, GeluFunctor>"[:36] in shown
    assert "1.60" in shown
    assert "error torch_eager: broken" in shown


def test_names_of_kernels_in_brief_and_counters_without_a_number():
    assert brief("## Call CompiledFxGraph fabc ##") == "torch.compile's code"
    assert brief("aten::mul") == "aten::mul"
    assert brief(GELU[0]) == "vectorized_elementwise_kernel<4, GeluFunctor>"
    assert brief("gelu_vec(float const*, float*, long)") == "gelu_vec"
    assert brief("void (anonymous namespace)::softmax<float>(float*)") == "softmax<float>"
    assert len(brief("x" * 500)) == 80
    assert report.counted("a", Counters("k", {ncu.READ: 2e6}))[2:5] == ["-", "2.00", "-"]


# --- on a GPU


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["jit-gelu", "profile", "training-graph"])
def test_on_a_gpu(name):
    run = runner.study(name, sizes="tiny", device="cuda", budget=0.05)
    assert not [(c.label, c.reason) for c in run.cases if c.status not in (results.OK, results.SKIPPED)]
    counts = {case.label: case.quantities for case in run.cases}
    if name == "jit-gelu":
        assert counts["eager"]["kernels"] == counts["eager"]["launches"] == 5
        assert all(counts[label]["kernels"] == 1 for label in ("compile", "F.gelu", "ours"))
        assert counts["eager"]["moved_bytes"] > counts["F.gelu"]["moved_bytes"]
    if name == "training-graph":
        assert 3 <= counts["graph"]["launches"] <= 5  # two copies, the graph, and where dropout's random numbers begin
        assert counts["graph"]["launches"] < counts["callables"]["launches"] < counts["eager"]["launches"]
        assert counts["graph"]["kernels"] > 5
    if name == "profile":
        assert 0 < counts["profiler"]["idle_share"] < 1
        shares = sum(counts["profiler"][f"{n}_share"] for n in ("inference", "backward", "step"))
        assert shares == pytest.approx(1, abs=0.01)  # each is the median of several processes
        assert counts["profiler"]["backward_share"] > 0.1  # its kernels come from another thread


@pytest.mark.gpu
def test_profile_on_a_gpu(tmp_path):
    trace = tmp_path / "trace.json"
    made = kernel.profile("gelu", only="torch_eager,torch_native,pycuda", device="cuda", output=str(trace))
    counts = {row.label: row.counts for row in made.rows}
    assert counts["torch_eager"]["kernels"] == 5
    assert counts["torch_native"]["kernels"] == counts["pycuda:gelu_vec"]["kernels"] == 1
    assert made.notes or all(row.counters for row in made.rows)  # counters, or why there are none
    assert "gelu_vec" in trace.read_text()
    assert "kernels" in report.render(made)
