"""A check runs a kernel with other values of its scalars: one with the spec's value written into it is WRONG."""

from __future__ import annotations

import re

import numpy as np
import pytest
from cpu_rows import cpu_rows
from several import FIRST_OF_4, first
from specs import spec

from cudalab import Budget, In, Launch, Out, Scalar
from cudalab.checks import other_scalars
from cudalab.engine import check_plan
from cudalab.engine.groups import Group, Work
from cudalab.spec.dtype import dtype

NORMED = """__global__ void {name}(const scalar_t* x, scalar_t* y, float alpha, float eps, int times, int n) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = float(x[i]);
    for (int k = 0; k < {times}; k++) v *= {alpha};
    y[i] = scalar_t(v * rsqrtf(v * v + {eps}));
}}
"""
WRITTEN = {  # by entry: what stands in the place of scalars
    "right": {}, "alpha": {"alpha": "1.5f"}, "eps": {"eps": "1e-5f"}, "times": {"times": "3"},
    "all": {"alpha": "1.5f", "eps": "1e-5f", "times": "3"}, "for_3": {"times": "(times == 3 ? 3 : 100)"},
    "constant": {"alpha": "doubled[0] / 2"},
}  # fmt: skip
SCALARS = {
    "alpha": Scalar(1.5), "eps": Scalar(1e-5), "times": Scalar(3, "int32"), "n": Scalar(lambda x: x.size, "int32")
}  # fmt: skip


def reference(x, alpha, eps, times):
    v = x * alpha**times
    return v / np.sqrt(v * v + eps)


def normed(folder, entry="right", scalars=(), **fields):
    """x alpha^times / sqrt((x alpha^times)^2 + eps), by an entry of WRITTEN; one text has all of them."""
    texts = [
        NORMED.format(name=name, **{"alpha": "alpha", "eps": "eps", "times": "times"} | written)
        for name, written in WRITTEN.items()
        if (name == "constant") == ("constants" in fields)
    ]
    head = "#include <cuda_bf16.h>\n" + "__constant__ float doubled[1];\n" * ("constants" in fields)
    (folder / "normed.cu").write_text("".join([head, *texts]))

    def launch(x, y, alpha, eps, times, n):
        return Launch((-(-x.size // 128),), (128,), (x, y, alpha, eps, times, n))

    return spec(folder, reference, name="normed", **{
        "dtypes": ("float32", "bfloat16"), "sizes": {"small": (1000,)}, "edges": ((33,),),
        "budgets": {"float32": Budget(16), "bfloat16": Budget(1)}, "scalars": SCALARS | dict(scalars),
        "entries": {entry: launch}} | fields)  # fmt: skip


def checked(kernel, label="host", name="float32", modes=(), seed=0):
    return cpu_rows(Group(kernel, "small", (1000,), dtype(name)), label, modes=modes, seed=seed)[0]


IS_IT = r"this is the result for {}; is that value written into the code\?\)$"
ONE_OTHER = {"times": Scalar(3, "int32", others=(2,))}


@pytest.mark.parametrize(
    ("entry", "name", "modes", "scalars", "said"),
    [
        ("right", "float32", (), {}, ""),
        ("right", "float32", ("launch",), {}, ""),
        pytest.param("right", "bfloat16", (), {}, "", marks=pytest.mark.sweep),
        ("alpha", "float32", (), {}, " instead of 1.5.*" + IS_IT.format("alpha=1.5")),
        ("alpha", "float32", ("launch",), {}, " instead of 1.5.*" + IS_IT.format("alpha=1.5")),
        ("eps", "bfloat16", (), {}, "instead of 1e-05.*" + IS_IT.format("eps=1e-05")),
        ("times", "bfloat16", (), {}, "instead of 3.*" + IS_IT.format("times=3")),
        ("all", "float32", (), {}, IS_IT.format("alpha=1.5, eps=1e-05, times=3")),
        ("for_3", "float32", (), ONE_OTHER,
         r"times=2 instead of 3.*if it takes no other value, say others=\(\) in its Scalar\)$"),
        ("alpha", "float32", (), {"alpha": Scalar(1.5, others=())}, ""),
        ("times", "float32", (), {"times": Scalar(3, "int32", others=(1, 2))}, IS_IT.format("times=3")),
    ],
)  # fmt: skip
def test_a_value_that_is_written_into_the_kernel_is_found(tmp_path, entry, name, modes, scalars, said):
    for seed in (0, 1) if not said and not modes else (0,):
        case = checked(normed(tmp_path, entry, scalars), name=name, modes=modes, seed=seed)
        assert case.status == ("WRONG" if said else "ok") and not (said and case.times)
        assert re.search(said, case.reason), case.reason
        assert said or case.notes == ["the scalar alpha has one value in every check: others=() asks for it"] * (
            "alpha" in scalars
        )


def test_a_spec_names_the_other_values_or_none(tmp_path):
    kernel = normed(tmp_path, scalars={
        "alpha": Scalar(1.5, others=()), "eps": Scalar(1e-5, others=(2e-5, 1e-5)),
        "times": Scalar(3, "int32", others=lambda x: (x.size // 500, 3))})  # fmt: skip
    found = other_scalars.chosen(kernel, dtype("float32"), kernel.make((1000,), dtype("float32")), 0)
    assert found.values == {"eps": np.float32(2e-5), "times": 2}
    assert found.notes == ("the scalar alpha has one value in every check: others=() asks for it",)


def test_a_function_that_returns_no_tuple_is_named(tmp_path):
    case = checked(normed(tmp_path, scalars={"times": Scalar(3, "int32", others=lambda x: 5)}))
    assert case.status == "error" and "the scalar times: others returns 5; return a tuple of numbers" in case.reason


def root(x, eps):
    return x / np.sqrt((x**2).mean(1, keepdims=True) + eps)


def power_of_two(before):
    """Else a kernel that rounds x / scale to an integer would be off by one where the float64 reference is not."""

    def holds(scale):
        return scale != before and np.frexp(abs(scale))[0] == 0.5 and (abs(scale) < 1 or abs(before) >= 1)

    return (lambda x, scale: x * scale, {"scale": Scalar(before)}, holds, "", {})


def whole(before, kind, *fitting):
    def holds(k):
        return k in fitting and isinstance(k, dtype(kind).numpy.type)

    return (lambda x, k: x * k, {"k": Scalar(before, kind)}, holds, "", {})


def nothing():
    return True


SHAPE = Scalar(lambda x: x.shape[0], "int32")
MASK = {
    "mask": Out(check=lambda mask, p: abs(mask.mean() - p) < 0.2, dtype="bool"),
    "y": Out(lambda x, mask, p: x * mask / (1 - p)),
}
NARROW = {"dtypes": ("float32", "bfloat16"), "inputs": {"x": In(low=1.0, high=2.0)}}
MOVED = {  # a reference, its scalars, what holds of those that a check moves, a note, fields of the spec
    "signs and probabilities": (
        lambda x, p, a, b, zero: x * a / (1 - p) + b + zero,
        {"p": Scalar(0.1), "a": Scalar(-2.5), "b": Scalar(1e4), "zero": Scalar(0)},
        lambda p, a, b, zero: 0 < p < 1 and a < 0 < b and 0 < zero < 1 and (p, a, b) != (np.float32(0.1), -2.5, 1e4),
        "", {}),
    **{f"a power of two, {value}": power_of_two(value) for value in (0.125, 1.0, -4.0, 0.5, 0.0)},
    "above -1": (lambda x, a: x * a, {"a": Scalar(-0.3)}, lambda a: -1 < a < 0 and a != np.float32(-0.3), "", {}),
    "few bits": (lambda x, scale: x * scale, {"scale": Scalar(1.25)}, lambda scale: scale * 2**6 % 1 == 0, "", {}),
    "8": whole(8, "int32", 4, 7), "5": whole(5, "int64", 3, 4), "2": whole(2, "uint8", 1),
    "-6": whole(-6, "int32", -3, -5), "True": whole(True, "bool", False),
    "the reference fails": (
        lambda x, k: np.repeat(x[:, : 50 // k], k, axis=1), {"k": Scalar(2, "int32")}, lambda k: k == 1, "", {}),
    "the shape changes": (
        lambda x, k: x.reshape(40, k, -1)[..., :10].sum(2), {"k": Scalar(5, "int32")}, nothing,
        "the scalar k has one value in every check: no value that was tried changes what the reference gives by more "
        "than the budgets; k.py can name others, as in Scalar(..., others=(1, 2))",
        {"shapes": {"x": "rows cols", "y": "rows 5"}}),
    "not finite": (
        lambda x, k: x if k == 2 else x * np.inf, {"k": Scalar(2.0)}, nothing, "the scalar k has one value", {}),
    "what no reference takes": (
        lambda x, rows: x / rows, {"rows": SHAPE, "seed": Scalar(7)}, nothing,
        "it is a whole number that is computed from the inputs;", {}),
    "computed, no count": (
        lambda x, scale: x * scale, {"scale": Scalar(lambda x: x.shape[1] ** -0.5)},
        lambda scale: 0 < scale < 1 and scale != np.float32(50**-0.5), "", {}),
    "a random output": (
        None, {"p": Scalar(0.25)}, lambda p: 0 < p < 1 and p != 0.25, "",
        {"outputs": MASK, "shapes": dict.fromkeys(("x", "mask", "y"), "rows cols")}),
    "a small change": (root, {"eps": Scalar(1e-6)}, lambda eps: abs(eps - 1e-6) < 1e-4, "", NARROW),
    "a change that bfloat16 shows": (
        root, {"eps": Scalar(1e-6)}, lambda eps: eps > 0.01, "", NARROW | {"dtypes": ("bfloat16", "float32")}),
}  # fmt: skip


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("reference", "scalars", "holds", "said", "fields"), MOVED.values(), ids=MOVED)
def test_other_values_are_like_the_first_and_change_the_result(tmp_path, reference, scalars, holds, said, fields, seed):
    given = {"sizes": {"small": (40, 50)}, "edges": (), "shapes": {"x": "rows cols", "y": "rows cols"}, **fields}
    kernel = spec(tmp_path, reference, "__global__ void k() {}", budgets=Budget(4), scalars=scalars, **given)
    kind = dtype(kernel.dtypes[0])
    found = other_scalars.chosen(kernel, kind, kernel.make((40, 50), kind, seed), seed)
    assert holds(**found.values), found.values
    assert len(found.notes) == bool(said) and all(said in note for note in found.notes)


def test_numpy_torch_and_rivals_meet_the_other_values_too(tmp_path):
    pytest.importorskip("torch")

    def form(x, alpha, eps, times, n):
        v = x * alpha**times
        return v / (v * v + eps) ** 0.5

    def ignores(x, alpha, eps, times, n):
        v = x * 1.5**times
        return v / (v * v + eps).sqrt()

    right = normed(tmp_path, torch=form, rivals={"mine": form})
    wrong = normed(tmp_path, torch=ignores, rivals={"mine": ignores})
    assert checked(right, "numpy").status == "ok"
    for label in ("torch_eager", "rival:mine"):
        assert checked(right, label).status == "ok"
        case = checked(wrong, label)
        assert case.status == "WRONG" and "this is the result for alpha=1.5;" in case.reason


@pytest.mark.parametrize(
    ("constant", "said"),
    [(lambda alpha: np.array([2 * alpha], np.float32), ""), (np.array([3], np.float32), "result for alpha=1.5")],
)
def test_constants_that_follow_from_scalars_are_set_for_each_value(tmp_path, constant, said):
    case = checked(normed(tmp_path, "constant", constants={"doubled": constant}))
    assert case.status == ("WRONG" if said else "ok") and said in case.reason


@pytest.mark.parametrize(
    ("scalar", "want"),
    [
        (Scalar(4, "int32"), {"k": [2, 3, 20]}),  # dims says that k may be as long as the rows
        (Scalar(4, "int32", others=(1, 4)), {"k": [1]}),
        (Scalar(4, "int32", others=(5, 21)), {"k": [5]}),  # 21 is beyond the columns
        (Scalar(4, "int32", others=()), {}),
        (Scalar(lambda x: x.shape[1] // 2, "int32"), {}),  # each size has another one
    ],
)
def test_a_scalar_that_is_a_length_gets_other_values(tmp_path, scalar, want):
    assert other_scalars.lengths(first(tmp_path, scalars={"k": scalar})) == ((9, 20), want)


@pytest.mark.parametrize(
    ("rule", "want"), [("multiple of 2", [2]), ("one of 1, 4, 16", [1, 16]), ("at least 1", [2, 3]), ("one of 4", [])]
)
def test_other_lengths_obey_dims(tmp_path, rule, want):
    kernel = first(tmp_path, scalars={"k": Scalar(4, "int32")}, dims={"k": rule})
    assert other_scalars.lengths(kernel)[1].get("k", []) == want


@pytest.mark.parametrize(("others", "said"), [((21,), "dims= and the sizes allow"), ((), "others=() asks for it")])
def test_that_a_length_has_one_value_is_said(tmp_path, others, said):
    kernel = first(tmp_path, scalars={"k": Scalar(4, "int32", others=others)})
    found = other_scalars.chosen(kernel, dtype("float32"), kernel.make((9, 20), dtype("float32")), 0)
    assert not found.values and found.notes[0].startswith(f"the scalar k has one value in every check: {said}")


def test_a_length_that_is_written_into_the_kernel_is_found(tmp_path, monkeypatch):
    kernel = first(tmp_path, cu=FIRST_OF_4)
    groups = {group.size: group for group in check_plan._other_lengths("first", kernel, dtype("float32"))}
    assert list(groups) == ["9x20, k=2", "9x20, k=3", "9x20, k=20"]
    monkeypatch.setattr("cudalab.spec.find.kernel", lambda path: kernel)
    again = {size: Work.on(group).group() for size, group in groups.items()}
    assert [group.kernel.scalars["k"].value for group in again.values()] == [2, 3, 20]
    usual = Group(kernel, "9x20", (9, 20), dtype("float32"), awkward=True)
    (right,), (wrong,) = cpu_rows(usual, "host:first"), cpu_rows(again["9x20, k=3"], "host:first")
    assert (right.status, wrong.status) == ("ok", "WRONG")
    assert "(the check chose k=3: is the spec's value written into the code? If the kernel takes no oth" in wrong.reason
