"""For test files of your own: `from cudalab.testing import parity`; and the types that `cudalab_time` deals in."""

from cudalab.tools.pytest.cases import Case, cases, need_gpu, parity
from cudalab.tools.pytest.fixture import TimeFixture
from cudalab.tools.pytest.timed import Row, Speedup, Timed

__all__ = ["Case", "Row", "Speedup", "TimeFixture", "Timed", "cases", "need_gpu", "parity"]
