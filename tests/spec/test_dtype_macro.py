import numpy as np
import pytest
import specs

from cudalab import host
from cudalab.backends import host as backend
from cudalab.device.operands import Operands
from cudalab.spec import dtype_macro, entry_names
from cudalab.spec.dtype import DTYPES

PLAIN = """__global__ void twice(const scalar_t* x, scalar_t* y, int n) {
    int i = threadIdx.x;
    if (i < n) y[i] = x[i] + x[i];
}"""


@pytest.mark.parametrize(
    ("text", "own"),
    [
        (PLAIN, False),
        (f"template <typename scalar_t>\n{PLAIN}", True),
        (f"template <int n_, class scalar_t>\n{PLAIN}", True),
        (f"template <typename ... scalar_t>\n{PLAIN}", True),
        (f"using scalar_t = float;\n{PLAIN}", True),
        (f"typedef float scalar_t;\n{PLAIN}", True),
        (f"// using scalar_t = float;\n{PLAIN}", False),
        (f"using pair = scalar_t[2];\n{PLAIN}", False),
        (f"#ifndef scalar_t\nusing scalar_t = float;\n#endif\n{PLAIN}", False),
        (f"#if !defined(scalar_t)\ntypedef float scalar_t;\n#endif\n{PLAIN}", False),
    ],
)
def test_a_cu_that_declares_scalar_t_gets_no_macro_of_this_name(tmp_path, text, own):
    for cu in (tmp_path / "own.cu", tmp_path / "by_header.cu"):
        cu.write_text(text)
    (tmp_path / "own.cuh").write_text(text)
    (tmp_path / "by_header.cu").write_text('#include "own.cuh"\n')
    for name in ("own.cu", "by_header.cu"):
        assert dtype_macro.name_for(tmp_path / name) == (dtype_macro.APART if own else dtype_macro.NAME)


def test_the_compiler_gets_the_type_for_the_names_of_entries():
    text = f"template <typename scalar_t> {PLAIN}"
    given = entry_names.source(text, "own.cu", ["twice<scalar_t>"])
    assert given.index(text) < given.index(dtype_macro.ALIAS) < given.index("(entries)")
    assert dtype_macro.ALIAS not in entry_names.source(text, "own.cu", ["twice<float>"])


@pytest.mark.sweep
@pytest.mark.skipif(host.compiler_missing() is not None, reason="no C++ compiler")
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_a_template_as_in_a_pytorch_extension_runs_for_each_dtype(tmp_path, dtype):
    text, entries = f"template <typename scalar_t>\n{PLAIN}", {"twice<scalar_t>": specs.flat}
    kernel = specs.kernel(tmp_path, text=text, dtypes=("float32", "int32"), entries=entries)
    x = np.arange(64).astype(dtype)
    work = backend.bind(kernel, "twice<scalar_t>", DTYPES[dtype], Operands({"x": x}, y := np.zeros_like(x)))
    work.run()
    np.testing.assert_array_equal(y, 2 * x)
