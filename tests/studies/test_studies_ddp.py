"""Studies on two processes: their results and counts, and no process outlives the lab's, for every way it may end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep
from types import SimpleNamespace

import numpy as np
import pytest
from findings import run_of
from studying import a_lab, measured, rows

from cudalab.base import child
from cudalab.base.errors import CudalabError, InputError, Unavailable
from cudalab.device.arrays import torch_missing
from cudalab.device.cpu import Cpu
from cudalab.engine.job import Job
from cudalab.engine.selection import Selection
from cudalab.studies import ddp, load_balance
from cudalab.study import Study, Variant, Work, engine, found, ranks, sharded
from cudalab.study.lab import Lab
from cudalab.study.rank import Array, Make
from cudalab.study.run import study

pytestmark = [pytest.mark.process, pytest.mark.wall]

STUDIES = ("ddp", "load-balance")
SOON = 10.0  # seconds in which a process must have ended
HERE = str(Path(__file__).resolve())

# A worker that has started its ranks, one of which is at work for ever.
WORKER = """
import sys, time
sys.path.insert(0, {tests!r})
import test_studies_ddp as tests
from cudalab.study import ranks
crew = ranks.Ranks(2)
crew.start()
crew.order(ranks.Make(tests.HERE, "sleeping", {{}}))
for child in crew._children:
    child.send(ranks.Ask(0, "run"))
print(*crew.pids, flush=True)
time.sleep(1000)
"""


# Parts of ranks that misbehave, called in their processes.
class Sleeping:
    def run(self):
        sleep(1000)


def sleeping(rank):
    return Sleeping()


def failing(rank):
    if rank.number == 1:
        raise ValueError("not this one")
    sleep(1000)  # as inside a collective


def dying(rank, words):
    if rank.number == 1:
        sys.stderr.write(words)
        sys.stderr.flush()
        os._exit(3)
    sleep(1000)


def silent(rank):
    sleep(1000 * rank.number)


def lazy(rank):
    """Rank 1 has more to do than rank 0."""
    import torch

    def loss(model, batch):
        sleep(0.1 * rank.number)
        return model(batch).sum()

    return sharded.Shared(rank, torch.nn.Linear(2, 1), loss, [torch.ones(1, 2)])


@pytest.fixture(scope="module")
def crew():
    """Two ranks, for all tests that do not end them."""
    if missing := torch_missing("cpu"):
        pytest.skip(missing)
    two = ranks.Ranks(2)
    yield two
    two.end()


@pytest.fixture(scope="module")
def runs(crew):
    """The rows of both studies at their tiny size, by study and label."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranks, "together", lambda lab: crew)
        return {name: rows(measured(name)) for name in STUDIES}


def test_two_ranks_train_the_same_model_as_one_device_and_what_is_exchanged_is_counted(runs):
    rows = runs["ddp"]
    assert {label: (case.status, case.reason) for label, case in rows.items()} == dict.fromkeys(rows, ("ok", ""))
    assert all(case.times["wall"] for case in rows.values())
    for label in ("ddp", "ddp+one_bucket"):
        assert rows[label].parity.ok
        assert rows[label].parity.n == rows["one"].parity.n > 1000
    assert rows["ddp+no_exchange"].parity is rows["ddp+weak"].parity is None
    assert "computes something else: a batch of 16" in rows["ddp+weak"].notes
    rows = {label: case.quantities for label, case in runs["ddp"].items()}
    assert [rows[f"ddp{what}"]["buckets"] for what in ("", "+one_bucket", "+no_exchange")] == [2, 1, 0]
    weights = 8 * (256 * 256 + 256) + 10 * 256 + 10
    for label in ("ddp", "ddp+one_bucket"):
        assert rows[label]["allreduce_bytes"] == rows[label]["gradient_bytes"] == 4 * weights
        assert all(0 < rows[label][f"rank{number}_wait_share"] < 1 for number in (0, 1))
    assert rows["ddp+no_exchange"]["allreduce_bytes"] == 0
    assert rows["one"] == {"gradient_bytes": 4 * weights, "items": 8}
    assert rows["ddp+weak"]["items"] == 16


def test_sharing_out_by_tokens_makes_the_same_step_with_less_for_the_busiest(runs):
    rows = runs["load-balance"]
    assert {label: (case.status, case.reason) for label, case in rows.items()} == dict.fromkeys(rows, ("ok", ""))
    assert rows["by_tokens"].parity.ok
    busiest = {label: case.quantities["busiest_rank_tokens"] for label, case in rows.items()}
    assert busiest["even"] <= busiest["by_tokens"] < busiest["by_count"]
    assert len({case.quantities["items"] for case in rows.values()}) == 1


@pytest.mark.parametrize("name", STUDIES)
def test_findings(runs, name):
    cases = list(runs[name].values())
    run = run_of(name, cases, "cpu")
    said = found.study(name).finding(run)
    assert " times" in said and "?" not in said
    assert "DataParallel" not in said  # which did not run
    run.cases = cases[:1]
    assert found.study(name).finding(run)


def test_ranks_are_compared_and_the_one_with_less_to_do_waits(crew, runs):
    part = crew.make(ddp.part, {"parameters": ddp.study.sizes["tiny"], "exchange": False})
    with pytest.raises(CudalabError, match="rank 1 has different gradients than rank 0"):
        ranks.agreed(part.ask("result"))
    shares = ranks.by_rank(crew.make(lazy, {}).ask("counted"))
    assert shares["rank0_wait_share"] > 0.5 > shares["rank1_wait_share"]
    import torch

    small = {"batch": 4, "length": 8, "width": 128, "depth": 1}
    assert small.keys() == ddp.study.sizes["large"].keys() == ddp.study.sizes["heavy"].keys()
    there = ranks.agreed(crew.make(ddp.part, {"parameters": small}).ask("result"))
    torch.manual_seed(0)
    model, x, y = ddp.problem("cpu", **small)
    here = sharded.Passes(model, ddp.loss, [(x, y)]).result()
    assert engine.agreement(engine.arrays(there), engine.arrays(here), ddp.study.tolerance).ok
    assert here["losses"][0] > 1.001 * here["losses"][-1]  # that it learns is more than the tolerance


def test_the_gpus_work_is_recorded_without_the_exchange(monkeypatch):
    pytest.importorskip("torch")
    from cudalab.tools.profile import events

    part, seen = sharded.Shared.__new__(sharded.Shared), []
    part.exchange, part.rank = True, SimpleNamespace(where="cpu", synchronize=lambda: None)
    assert part.afterwards() == {}

    def record(run, synchronize, cuda):
        seen.append((run, part.exchange, cuda))
        return events.Recording([events.Event("k", events.KERNEL, 0, 500_000_000)], cuda=True)

    monkeypatch.setattr(events, "record", record)
    part.rank.where = "cuda:0"
    assert part.afterwards() == {"gpu_busy_s": 0.5}
    assert seen == [(part.run, False, True)]
    assert part.exchange


def test_both_ways_to_share_out_give_every_sequence_to_one_rank():
    lengths = load_balance.drawn(1, 3, 10, 50)
    for each in lengths:
        for way in load_balance.WAYS.values():
            assert sorted(i for mine in way(each, 3) for i in mine) == list(range(10))
    assert load_balance.by_tokens([5, 1, 1, 9, 2], 2) == [[3], [0, 4, 1, 2]]
    even = load_balance.drawn(1, 3, 10, 50, even=True)
    assert [sum(e) for e in even] == [sum(e) for e in lengths]
    assert all(max(e) - min(e) <= 1 for e in even)


def test_variants_of_a_workload_share_their_ranks(monkeypatch):
    pytest.importorskip("torch")
    ended = []
    monkeypatch.setattr(ranks.Ranks, "end", lambda self: ended.append(self))
    lab = a_lab("ddp")
    two = ranks.together(lab)
    assert ranks.together(lab) is two
    assert (two.devices, two.pids) == ([], [])
    lab.at_end.close()
    assert ended == [two]


def test_the_error_of_a_rank_is_in_its_row_and_the_workload_ends_them(monkeypatch):
    pytest.importorskip("torch")
    ended, end = [], ranks.Ranks.end
    monkeypatch.setattr(ranks.Ranks, "_begin", lambda self: None)  # they need not find each other
    monkeypatch.setattr(ranks.Ranks, "end", lambda self: (ended.append(self), end(self)))
    own = Study(
        file=HERE, summary="", sizes={"only": {}}, defaults={"cpu": ("only",)}, baseline="well", finding=str,
        variants=(
            Variant("well", lambda lab: Work(lambda: None, lambda: 1.0)),
            Variant("bad", lambda lab: ranks.work(lab, failing)),
        ),
    )  # fmt: skip
    job = Job(Cpu(), Selection(), (), 0, 0.01, lambda step: None)
    well, bad = engine.cases(job, found.Workload(own, "only"))
    assert well.status == "ok"
    assert (bad.status, bad.reason) == ("error", "rank 1: ValueError: not this one")
    assert len(ended) == 2  # by the error, and at the end


def test_ranks_are_of_the_machines_gpus_and_leave_the_users_environment(monkeypatch):
    torch = pytest.importorskip("torch")
    lab = a_lab("ddp")
    monkeypatch.setattr(Lab, "cuda", True)
    monkeypatch.setattr(Lab, "torch", lambda self: torch)
    monkeypatch.setattr(lab.device, "index", 1, raising=False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(Unavailable, match="needs two GPUs, and PyTorch sees 1"):
        ranks.together(lab)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    assert ranks.gpus(lab) == [1, 0]
    monkeypatch.delenv("NCCL_NVLS_ENABLE", raising=False)
    assert ranks.environment(2)["NCCL_NVLS_ENABLE"] == "0"
    monkeypatch.setenv("NCCL_NVLS_ENABLE", "1")
    assert ranks.environment(2)["NCCL_NVLS_ENABLE"] == "1"


def test_arrays_arrive_from_a_rank_as_they_were():
    torch = pytest.importorskip("torch")
    for value in (np.float32([[1.5, np.nan], [-0.0, np.inf]]), np.arange(3), np.zeros((0, 2))):
        got = Array.of(value).value()
        assert (got.dtype, got.shape, got.tobytes()) == (value.dtype, value.shape, value.tobytes())
    assert [Array.of(value).value() for value in (3, 0.1, float("-inf"), True)] == [3, 0.1, float("-inf"), True]
    assert Array.of(torch.ones(2, dtype=torch.bfloat16)).value().tolist() == [1.0, 1.0]
    with pytest.raises(InputError, match="a rank's part returned str; return numbers, arrays and tensors"):
        Array.of("x")


@pytest.mark.parametrize(
    ("order", "said"),
    [
        (Make(HERE, "failing", {}), "rank 1: ValueError: not this one"),
        (Make(HERE, "dying", {"words": "one\nlast words\n"}), r"rank 1 ended: one \| last words"),
        (Make(HERE, "dying", {"words": ""}), "rank 1 ended with exit code 3$"),
        (Make(HERE, "silent", {}), r"rank 1 did not answer within 1 s \(make\)"),
    ],
)
def test_a_rank_that_fails_ends_all_with_its_words(order, said):
    two = ranks.Ranks(2)
    two.start()
    two.order(Make(HERE, "sleeping", {}))  # this file is slow to load
    pids, two.answer = two.pids, 30.0 if order.function != "silent" else 1.0
    old = ranks.Parts(two, 0, two.generation)
    with pytest.raises(CudalabError, match=said):
        two.order(order)
    _ended(*pids)
    with pytest.raises(CudalabError, match="the processes that it ran in are gone: rank 1"):
        old.runs(1)


def test_processes_that_do_not_start_are_an_error(monkeypatch):
    script = "import sys; sys.exit('no such module')"
    monkeypatch.setattr(child, "command", lambda *given: [sys.executable, "-c", script])
    two = ranks.Ranks(2)
    with pytest.raises(CudalabError, match=r"rank [01] ended: no such module"):
        two.make(failing, {})
    assert two.pids == []


@pytest.mark.parametrize("group", [True, False])
def test_no_process_outlives_the_worker(group):
    """No rank survives a crash of the worker, a kill of the worker alone, or a kill of its process group."""
    script = WORKER.format(tests=str(Path(__file__).parent))
    worker = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, start_new_session=True)
    with worker:
        pids = list(map(int, worker.stdout.readline().decode().split()))
        assert len(pids) == 2 and all(map(_alive, pids))
        (os.killpg if group else os.kill)(worker.pid, signal.SIGKILL)
        _ended(*pids)


def _ended(*pids):
    deadline = monotonic() + SOON
    while alive := [pid for pid in pids if _alive(pid)]:
        assert monotonic() < deadline, f"still there: {alive}"
        sleep(0.02)


def _alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.gpu
@pytest.mark.parametrize("name", STUDIES)
def test_on_gpus(name):
    """On two; on one all but the baseline of ddp are skipped, and say why."""
    torch = pytest.importorskip("torch")
    run = study(name, sizes="tiny", device="cuda", budget=0.05)
    enough = torch.cuda.device_count() >= 2
    for case in run.cases:
        if enough or case.label == "one":
            assert (case.status, case.reason) == ("ok", "")
        else:
            assert (case.status, case.reason) == ("skipped", "needs two GPUs, and PyTorch sees 1")
