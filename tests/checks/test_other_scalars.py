"""A check runs a kernel with other values of its scalars: one with the spec's value written into it is WRONG."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np
import pytest
from cpu_rows import cpu_rows
from several import FIRST_OF_4, first
from specs import spec

from cudalab import Budget, In, Kernel, Launch, Out, Scalar
from cudalab.base.errors import SpecError
from cudalab.checks import other_scalars
from cudalab.engine import check_plan
from cudalab.engine.groups import Group, Work
from cudalab.spec.dtype import dtype

SOURCE = """#include <cuda_bf16.h>
__global__ void normed(const scalar_t* x, scalar_t* y, float alpha, float eps, int times, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = float(x[i]);
    for (int k = 0; k < times; k++) v *= alpha;
    y[i] = scalar_t(v * rsqrtf(v * v + eps));
}
"""


def reference(x, alpha, eps, times):
    v = x * alpha**times
    return v / np.sqrt(v * v + eps)


USES = {"alpha": "v *= alpha", "eps": "v + eps", "times": "k < times"}  # where each scalar stands


def normed(folder, written_in=MappingProxyType({}), **fields):
    """x alpha^times / sqrt((x alpha^times)^2 + eps); `written_in`: C++ in the place of a scalar, by its name."""
    text = SOURCE
    for name, value in written_in.items():
        text = text.replace(USES[name], USES[name].replace(name, value))
    (folder / "normed.cu").write_text(text)
    return Kernel(**{
        "file": str(folder / "normed.py"), "summary": "", "dtypes": ("float32", "bfloat16"),
        "sizes": {"small": (1000,)}, "edges": ((33,),),
        "reference": reference, "budgets": {"float32": Budget(16), "bfloat16": Budget(1)},
        "scalars": {
            "alpha": Scalar(1.5), "eps": Scalar(1e-5), "times": Scalar(3, "int32"),
            "n": Scalar(lambda x: x.size, "int32"),
        },
        "entries": {"normed": lambda x, y, alpha, eps, times, n: Launch(
            (-(-x.size // 128),), (128,), (x, y, alpha, eps, times, n))}, **fields})  # fmt: skip


def checked(kernel, label="host:normed", name="float32", modes=(), shape=None, seed=0):
    group = Group(kernel, "small", shape or kernel.sizes["small"], dtype(name))
    return cpu_rows(group, label, modes=modes, seed=seed)[0]


@pytest.mark.parametrize("name", ["float32", pytest.param("bfloat16", marks=pytest.mark.sweep)])
def test_a_kernel_that_takes_its_scalars_is_right(tmp_path, name):
    for seed, modes in enumerate(((), (), ("launch",))):
        case = checked(normed(tmp_path), name=name, modes=modes, seed=seed)
        assert case.status == "ok", case.reason
        assert case.notes == []


@pytest.mark.parametrize(
    ("name", "modes", "written_in", "used"),
    [
        ("float32", (), {"alpha": "1.5f"}, "alpha=1.5"),
        ("float32", ("launch",), {"alpha": "1.5f"}, "alpha=1.5"),
        ("bfloat16", (), {"eps": "1e-5f"}, "eps=1e-05"),
        ("bfloat16", (), {"times": "3"}, "times=3"),
    ],
)
def test_a_value_that_is_written_into_the_kernel_is_found(tmp_path, written_in, used, name, modes):
    case = checked(normed(tmp_path, written_in), name=name, modes=modes)
    assert case.status == "WRONG"
    assert case.reason.endswith(f"this is the result for {used}; is that value written into the code?)")
    assert f"instead of {used.partition('=')[2]}" in case.reason and not case.times


def test_all_values_that_are_written_into_the_kernel_are_named(tmp_path):
    case = checked(normed(tmp_path, {"alpha": "1.5f", "eps": "1e-5f", "times": "3"}))
    assert case.reason.endswith(
        "this is the result for alpha=1.5, eps=1e-05, times=3; is that value written into the code?)"
    )


def test_a_kernel_for_one_value_is_told_what_its_spec_may_say(tmp_path):
    case = checked(normed(tmp_path, {"times": "(times == 3 ? 3 : 100)"}, scalars={
        "alpha": Scalar(1.5), "eps": Scalar(1e-5), "times": Scalar(3, "int32", others=(2,)),
        "n": Scalar(lambda x: x.size, "int32")}))  # fmt: skip
    assert case.status == "WRONG" and "times=2 instead of 3" in case.reason
    assert case.reason.endswith("if it takes no other value, say others=() in its Scalar)")


def test_a_spec_names_the_other_values_or_none(tmp_path):
    def scalars(others):
        return {
            "alpha": Scalar(1.5, others=()), "eps": Scalar(1e-5, others=(2e-5, 1e-5)),
            "times": Scalar(3, "int32", others=others), "n": Scalar(lambda x: x.size, "int32"),
        }  # fmt: skip

    kernel = normed(tmp_path, scalars=scalars(lambda x: (x.size // 500, 3)))
    found = other_scalars.chosen(kernel, dtype("float32"), kernel.make((1000,), dtype("float32")), 0)
    assert found.values == {"eps": np.float32(2e-5), "times": 2}
    assert found.notes == ("the scalar alpha has one value in every check: others=() asks for it",)
    assert checked(normed(tmp_path, {"alpha": "1.5f"}, scalars=scalars(()))).status == "ok"
    assert checked(normed(tmp_path, {"times": "3"}, scalars=scalars((1, 2)))).status == "WRONG"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"others": 1}, "Scalar: others is 1; give a tuple of numbers, such as (1, 8), a function of inputs, or None"),
        ({"others": ("1",)}, "Scalar: others is ('1',); give a tuple of numbers"),
        ({"others": (0.5,), "dtype": "int32"}, "the scalar among others is 0.5; give a number that fits int32"),
    ],
)
def test_other_values_that_are_none_are_refused(fields, message):
    with pytest.raises(SpecError) as raised:
        Scalar(1, **fields)
    assert message in str(raised.value)


def test_a_function_that_returns_no_tuple_is_named(tmp_path):
    scalars = normed(tmp_path).scalars | {"times": Scalar(3, "int32", others=lambda x: 5)}
    case = checked(normed(tmp_path, scalars=scalars))
    assert case.status == "error" and "the scalar times: others returns 5; return a tuple of numbers" in case.reason


def moved(folder, reference, scalars, seed=0, name="float32", **fields):
    """The other values that a check takes of these scalars, and its notes; the `.cu` is never compiled."""
    given = {"sizes": {"small": (40, 50)}, "edges": (), "shapes": {"x": "rows cols", "y": "rows cols"}, **fields}
    kernel = spec(folder, reference, "__global__ void k() {}", budgets=Budget(4), scalars=scalars, **given)
    found = other_scalars.chosen(kernel, dtype(name), kernel.make((40, 50), dtype(name), seed), seed)
    return dict(found.values), found.notes


@pytest.mark.parametrize("seed", range(5))
def test_a_value_keeps_its_sign_and_a_probability_stays_one(tmp_path, seed):
    given = {"p": 0.1, "a": -2.5, "b": 1e4, "zero": 0}
    scalars = {name: Scalar(value) for name, value in given.items()}
    found, notes = moved(tmp_path, lambda x, p, a, b, zero: x * a / (1 - p) + b + zero, scalars, seed)
    assert 0 < found["p"] < 1 and found["a"] < 0 and found["b"] > 0 and 0 < found["zero"] < 1
    assert not notes and all(found[name] != value for name, value in given.items())


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("value", [0.125, 1.0, -4.0, 0.5, 0.0])
def test_a_power_of_two_becomes_another_one(tmp_path, value, seed):
    """Else a kernel that rounds x / scale to an integer would be off by one where the float64 reference is not."""
    found = float(moved(tmp_path, lambda x, scale: x * scale, {"scale": Scalar(value)}, seed)[0]["scale"])
    assert found != value and np.frexp(abs(found))[0] == 0.5 and (abs(found) < 1 or abs(value) >= 1)


@pytest.mark.parametrize("seed", range(5))
def test_a_value_of_few_bits_has_no_more(tmp_path, seed):
    found, _ = moved(tmp_path, lambda x, scale: x * scale, {"scale": Scalar(1.25)}, seed)
    assert float(found["scale"]) * 2**6 % 1 == 0


@pytest.mark.parametrize(
    ("value", "name", "fitting"),
    [(8, "int32", (4, 7)), (5, "int64", (3, 4)), (2, "uint8", (1,)), (-6, "int32", (-3, -5)), (True, "bool", (False,))],
)
def test_a_whole_number_becomes_smaller(tmp_path, value, name, fitting):
    found, _ = moved(tmp_path, lambda x, k: x * k, {"k": Scalar(value, name)})
    assert found["k"] in fitting and isinstance(found["k"], dtype(name).numpy.type)


def test_a_value_at_which_the_reference_fails_or_changes_its_shape_is_not_taken(tmp_path):
    found, _ = moved(tmp_path, lambda x, k: np.repeat(x[:, : 50 // k], k, axis=1), {"k": Scalar(2, "int32")})
    assert found == {"k": 1}
    shapes = {"x": "rows cols", "y": "rows 5"}
    found, (note,) = moved(
        tmp_path, lambda x, k: x.reshape(40, k, -1)[..., :10].sum(2), {"k": Scalar(5, "int32")}, shapes=shapes
    )
    assert not found and note == (
        "the scalar k has one value in every check: no value that was tried changes what the reference gives by more "
        "than the budgets; k.py can name others, as in Scalar(..., others=(1, 2))"
    )


def test_a_value_at_which_results_are_not_finite_is_not_taken(tmp_path):
    found, notes = moved(tmp_path, lambda x, k: x if k == 2 else x * np.inf, {"k": Scalar(2.0)})
    assert not found and len(notes) == 1


def test_what_no_reference_takes_and_what_follows_from_shapes_stays(tmp_path):
    rows, cols = (Scalar(lambda x, i=i: x.shape[i], "int32") for i in (0, 1))
    found, (note,) = moved(tmp_path, lambda x, cols: x / cols, {"cols": cols, "rows": rows, "seed": Scalar(7)})
    assert not found and "it is a whole number that is computed from the inputs;" in note


def test_a_number_that_is_computed_from_shapes_and_no_count_is_moved(tmp_path):
    found, _ = moved(tmp_path, lambda x, scale: x * scale, {"scale": Scalar(lambda x: x.shape[1] ** -0.5)})
    assert 0 < found["scale"] < 1 and found["scale"] != np.float32(50**-0.5)


def test_a_scalar_of_a_random_output_is_moved_beside_its_check(tmp_path):
    outputs = {
        "mask": Out(check=lambda mask, p: abs(mask.mean() - p) < 0.2, dtype="bool"),
        "y": Out(lambda x, mask, p: x * mask / (1 - p)),
    }
    shapes = dict.fromkeys(("x", "mask", "y"), "rows cols")
    found, _ = moved(tmp_path, None, {"p": Scalar(0.25)}, outputs=outputs, shapes=shapes)
    assert 0 < found["p"] < 1 and found["p"] != 0.25


def test_a_narrow_dtype_asks_for_a_larger_change(tmp_path):
    def near(name):
        found, _ = moved(
            tmp_path, lambda x, eps: x / np.sqrt((x**2).mean(1, keepdims=True) + eps), {"eps": Scalar(1e-6)}, name=name,
            dtypes=("float32", "bfloat16"), inputs={"x": In(low=1.0, high=2.0)},
        )  # fmt: skip
        return float(found["eps"])

    assert abs(near("float32") - 1e-6) < 1e-4 < 0.01 < near("bfloat16")


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


def test_constants_that_follow_from_scalars_are_set_for_each_value(tmp_path):
    source = SOURCE.replace("__global__", "__constant__ float doubled[1];\n__global__").replace(
        "*= alpha", "*= doubled[0] / 2"
    )

    def kernel(constant):
        made = normed(tmp_path, constants={"doubled": constant})
        made.cu.write_text(source)
        return made

    assert checked(kernel(lambda alpha: np.array([2 * alpha], np.float32))).status == "ok"
    assert "result for alpha=1.5" in checked(kernel(np.array([3], np.float32))).reason


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
