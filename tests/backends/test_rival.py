"""Rivals beside the entries: judged like them, timed on the same terms."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint

import pytest
import several
import twice
from cpu_rows import cpu_rows

import cudalab
from cudalab import backends
from cudalab.backends import _jax, rival
from cudalab.base.errors import InputError, Unavailable
from cudalab.device.operands import Operands
from cudalab.engine.check_plan import checks
from cudalab.engine.groups import Group, beside
from cudalab.results import record
from cudalab.spec import find
from cudalab.spec.dtype import dtype

RIVALS = """
import numpy as np
import torch


def returns(x):
    return x + 1


def writes(x, y):
    torch.add(x, 1, out=y)


def wrong(x):
    return x + 2


def lazy(x, y):
    pass


def keeps(x, kept={}):
    return kept.setdefault(x.data_ptr(), x + 1)


def same(x):
    return x


def changes(x):
    return x.add_(1)


def plain(x):
    return x + np.float32(1)


def raises(x):
    raise RuntimeError("out of luck")
"""
NO_RESULTS = {  # a function's text, and what its row says
    "def none(x):\n    pass": "returns None; return the result, or, if it writes into its last argument",
    "async def later(x):\n    return x + 1": "it is an async function, and a rival is called without await",
    "def stream(x):\n    yield x + 1": "returns a generator; return an array, or a tuple of arrays for several outputs",
    "def number(x):\n    return 3.0": "returns a float; return an array",
    "def named(x):\n    return {'y': x + 1}": "returns a dict; return an array",
    "def mixed(x):\n    return (None,)": "returns a tuple with a NoneType; return an array",
    "def strided(x):\n    return torch.stack([x + 1, x], 1)[:, 0]": "returns an array that is not C-contiguous",
    "def view(x):\n    return x[:]": "its result shares memory with its input 'x'; return a copy, such as x.clone()",
    "def pair(x):\n    return x + 1, x": "its result shares memory with its input 'x'",
    "def twice(x):\n    return x + 1, x + 1": "the result is 2 arrays, expected 1: y",
    "def empty(x):\n    return ()": "the result is 0 arrays, expected 1: y",
    "def double(x):\n    return (x + 1).double()": "the output's dtype is float64, expected float32; convert it: "
    ".to(torch.float32), or .astype('float32') of other arrays",
    "def column(x):\n    return (x + 1)[:, None]": "the output's shape is (100, 1), expected (100,)",
}


@pytest.fixture
def mine(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(RIVALS)
    return path


def rows(found):
    return {case.label: case for case in found.cases}


@pytest.mark.process
def test_right_rivals_are_timed_and_wrong_ones_are_not(mine):
    pytest.importorskip("torch")
    given = [f"{mine}:{f}" for f in ("returns", "wrong", "same", "changes", "raises")]
    given += [f"{mine}:writes:out", f"{mine}:lazy:out", f"{mine}:plain:numpy", f"{mine}:keeps:cpu"]
    found = rows(cudalab.bench("plus_one", sizes="1000", only="rival", rivals=given, device="cpu", budget=0.05, seed=0))
    status = {label.removeprefix("rival:"): case.status for label, case in found.items()}
    right = {"returns", "writes", "plain"}
    assert {name for name, one in status.items() if one == record.OK} == right
    assert all(bool(found[f"rival:{name}"].times) == (name in right) for name in status)
    assert {status[name] for name in ("wrong", "lazy")} == {record.WRONG}
    assert status["keeps"] in (record.WRONG, record.ERROR)  # it finds its first answer again
    assert "its result shares memory with its input" in found["rival:same"].reason
    assert "RuntimeError: out of luck" in found["rival:raises"].reason
    assert [found[f"rival:{name}"].allocates for name in ("returns", "writes", "plain")] == [True, False, True]


@pytest.mark.process
@pytest.mark.sweep
def test_what_is_no_result_is_said(tmp_path):
    pytest.importorskip("torch")
    mine = tmp_path / "mine.py"
    mine.write_text("\n\n".join(["import torch", *NO_RESULTS]))
    names = {text.partition("(")[0].split()[-1]: said for text, said in NO_RESULTS.items()}
    given = [f"{mine}:{name}" for name in names]
    found = rows(cudalab.bench("plus_one", sizes="100", only="rival", rivals=given, device="cpu", budget=0.02, seed=0))
    for name, said in names.items():
        case = found[f"rival:{name}"]
        assert case.status in (record.ERROR, record.WRONG) and not case.times
        assert said in case.reason


def in_place(p, m, v, g, lr, b1, b2):
    m.mul_(b1).add_(g, alpha=1 - b1)
    v.mul_(b2).addcmul_(g, g, value=1 - b2)
    p.sub_(lr * m / (v.sqrt() + 1e-8))


def new(p, m, v, g, lr, b1, b2):
    m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
    return p - lr * m / (v.sqrt() + 1e-8), m, v


def test_rivals_of_a_kernel_in_place_get_new_contents_and_its_scalars(tmp_path):
    pytest.importorskip("torch")
    rivals = {
        "in_place": (in_place, "out"),
        "new": new,
        "two": lambda *arrays, **scalars: new(*arrays, **scalars)[:2],
        "swapped": lambda *arrays, **scalars: tuple(reversed(new(*arrays, **scalars))),
        "rate": lambda *arrays, lr, **scalars: new(*arrays, lr=2 * lr, **scalars),
        "unsaid": lambda p, m, v, g, **scalars: (in_place(p, m, v, g, **scalars), (p, m, v))[1],
    }
    kernel = several.adam(tmp_path, dtypes=("float32",), edges=((1,),), rivals=rivals)
    cases = cpu_rows(Group(kernel, "small", (300,), dtype("float32")), "rival")
    found = {case.variant: (case.status, case.reason) for case in cases}
    assert {name for name, (status, _) in found.items() if status == record.OK} == {"in_place", "new"}
    assert found["two"][1].startswith("the result is 2 arrays, expected 3: p, m, v")
    assert "updates its input 'p' in place; add :out" in found["unsaid"][1]


@pytest.mark.process
def test_jax_gets_the_arrays_by_dlpack(tmp_path):
    pytest.importorskip("jax")
    pytest.importorskip("torch")
    mine = tmp_path / "mine.py"
    mine.write_text("def inc(x):\n    return x + 1\n\n\ndef same(x):\n    return x\n")
    given = [f"{mine}:inc:jax", f"{mine}:same:jax"]
    found = rows(cudalab.bench("plus_one", sizes="100", only="rival", rivals=given, device="cpu", budget=0.02, seed=0))
    assert found["rival:inc"].status == record.OK and found["rival:inc"].times
    assert "its result shares memory with its input 'x'" in found["rival:same"].reason


def test_jax_that_is_absent_is_said(mine, monkeypatch):
    monkeypatch.setattr(_jax, "installed", lambda module: False)
    _jax.missing.cache_clear()
    kernel = beside(find.kernel("plus_one"), (f"{mine}:returns:jax",))
    try:
        with pytest.raises(Unavailable, match=r"JAX is not installed; .*jax"):
            rival.bind(kernel, "returns", dtype("float32"), Operands({}, None))
    finally:
        _jax.missing.cache_clear()


def test_rivals_of_a_spec_are_checked_on_every_edge(tmp_path):
    pytest.importorskip("torch")
    rivals = '{"good": lambda x: 2 * x, "even": (lambda x: x * (2 if x.numel() % 2 == 0 else 3), "cpu")}'
    path = twice.written(tmp_path / "own", twice.SPEC.replace("pointwise=True", f"pointwise=True, rivals={rivals}"))
    groups = [group for group in checks([str(path)], "", sample=1 << 12) if not group.values]
    found = {(group.size, case.variant): case.status for group in groups for case in cpu_rows(group, "rival")}
    assert {status for (_, variant), status in found.items() if variant == "good"} == {record.OK}
    assert (found["small", "even"], found["1", "even"], found["129", "even"]) == (record.OK, record.WRONG, record.WRONG)


@pytest.mark.process
@pytest.mark.sweep
def test_a_run_with_rivals_is_resumed_only_by_who_names_them(mine, tmp_path):
    pytest.importorskip("torch")
    from cudalab.engine import resume

    out = tmp_path / "r.json"
    given = f"{mine}:returns"
    run = cudalab.bench("plus_one", sizes="10", only="rival", rivals=[given], device="cpu", budget=0.02, output=out)
    assert run.options["rivals"] == given
    assert "plus_one.rival.returns.py" in run.sources
    options = {"rivals": "", "sizes": ""}
    with pytest.raises(InputError, match=r"name it yourself: --rival .*mine.py:returns"):
        resume.adopted(str(out), (), options, ())
    _, kept = resume.adopted(str(out), (), options | {"rivals": given}, ("rivals",))
    assert kept["rivals"] == given


# ---- backends of other packages ----------------------------------------------------------------------------------

BACKEND = """
from cudalab.device.operands import returning

devices = ("cpu",)
timed = True
budget = "peers"
own_indexing = False


def missing(device):
    return None


def variants(kernel):
    return ("",) if kernel.name == "plus_one" else ()


def bind(kernel, variant, dtype, operands):
    return returning(lambda x: x + 1, lambda on: list(on.inputs.values()), operands)
"""


@pytest.fixture
def installed(monkeypatch, tmp_path):
    """Pretends that a package gives these entry points, and makes its modules importable."""

    def install(**modules):
        monkeypatch.syspath_prepend(tmp_path)
        for name, text in modules.items():
            (tmp_path / f"their_{name}.py").write_text(text)
            monkeypatch.delitem(sys.modules, f"their_{name}", raising=False)
        points = [EntryPoint(name, f"their_{name}", backends.GROUP) for name in modules]
        monkeypatch.setattr(backends, "entry_points", lambda group: points)
        backends.by_name.cache_clear()
        return backends.by_name()

    yield install
    backends.by_name.cache_clear()


def test_an_installed_package_adds_a_backend(installed):
    found = installed(theirs=BACKEND)
    assert found["theirs"].devices == ("cpu",)
    assert {*list(found)[:2]} == {"host", "numpy"}
    assert installed(numpy=BACKEND)["numpy"].__name__ == "cudalab.backends.numpy"  # which no package replaces


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import no_such_library", "does not load (their_theirs): ModuleNotFoundError"),
        ("devices = ('cpu',)", "(their_theirs) has no timed, budget"),
    ],
)
def test_a_broken_backend_of_a_package_costs_its_row_only(installed, text, said):
    found = installed(theirs=text)["theirs"]
    assert said in found.missing("cpu")
    assert "update or uninstall it" in found.missing("cuda")


def test_a_package_that_replaces_what_times_rely_on_is_refused(installed, monkeypatch):
    from cudalab.timing import cpu

    monkeypatch.setattr(cpu, "SAMPLES", cpu.SAMPLES)  # is put back
    found = installed(theirs=f"from cudalab.timing import cpu\ncpu.SAMPLES = 1\n{BACKEND}")["theirs"]
    said = "(their_theirs) replaced cudalab.timing.cpu.SAMPLES, which times and verdicts rely on; do not replace it"
    assert said in found.missing("cpu")


@pytest.mark.parametrize("name", ["copy", "a:b", "a b", ""])
def test_a_backend_cannot_be_named_like_the_ceiling_or_a_variant(installed, name):
    found = installed(**{name: BACKEND})
    assert name not in found
    (why,) = [one.missing("cpu") for one in found.values() if isinstance(one, backends.Broken)]
    assert f"(their_{name}): a backend cannot be named {name!r}; give a name in letters" in why
