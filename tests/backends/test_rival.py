"""Rivals beside the entries: judged like them, timed on the same terms."""

from __future__ import annotations

import sys
import textwrap
from importlib.metadata import EntryPoint

import pytest

import cudalab
from cudalab import backends
from cudalab.base.errors import InputError
from cudalab.results import record

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


@pytest.fixture
def mine(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(RIVALS)
    return path


def rows(found):
    return {case.label: case for case in found.cases}


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
    assert "returns the memory of its input" in found["rival:same"].reason
    assert "RuntimeError: out of luck" in found["rival:raises"].reason
    assert [found[f"rival:{name}"].allocates for name in ("returns", "writes", "plain")] == [True, False, True]


@pytest.mark.slow
def test_rivals_of_a_spec_are_checked_on_every_edge(tmp_path):
    pytest.importorskip("torch")
    spec = tmp_path / "inc.py"
    spec.with_suffix(".cu").write_text(
        'extern "C" __global__ void inc(const int* x, int* y, int n) {\n'
        "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    if (i < n) y[i] = x[i] + 1;\n}\n"
    )
    spec.write_text(
        textwrap.dedent("""
            import numpy as np
            from cudalab import Budget, Kernel, Launch, blocks

            inc = Kernel(
                file=__file__, summary="adds one", dtypes=("int32",), sizes={"small": (100,)}, edges=((1,), (33,)),
                reference=lambda x: x + 1, budgets={"int32": Budget(0)},
                entries={"inc": lambda x, y: Launch(blocks(x.size, 32), (32,), (x, y, np.int32(x.size)))},
                rivals={"good": lambda x: x + 1, "even": (lambda x: x + (1 if x.numel() % 2 == 0 else 2), "cpu")},
            )
        """)
    )
    cases = [case for case in cudalab.check(spec, device="cpu", only="rival").cases if case.backend == "rival"]
    by_size = {(case.size, case.variant): case.status for case in cases}
    assert {status for (_, variant), status in by_size.items() if variant == "good"} == {record.OK}
    assert by_size["small", "even"] == record.OK
    assert by_size["33", "even"] == record.WRONG


@pytest.mark.slow
def test_a_run_with_rivals_is_resumed_only_by_who_names_them(mine, tmp_path):
    pytest.importorskip("torch")
    from cudalab.engine import resume

    out = tmp_path / "r.json"
    given = f"{mine}:returns"
    run = cudalab.bench("plus_one", sizes="10", only="rival", rivals=[given], device="cpu", budget=0.02, output=out)
    assert run.options["rivals"] == given
    assert "plus_one.rival.returns.py" in run.sources
    options = {"rivals": "", "sizes": ""}
    with pytest.raises(InputError, match=r"name them yourself: --rival .*mine.py:returns"):
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
    assert list(found)[:2] == ["host", "numpy"] or list(found)[:2] == ["numpy", "host"]


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


def test_a_package_cannot_replace_a_backend_of_the_lab(installed):
    assert installed(numpy=BACKEND)["numpy"].__name__ == "cudalab.backends.numpy"
