"""For a test file of your own: `from cudalab.testing import parity`."""

from cudalab.tools.pytest.cases import Case, cases, need_gpu, parity

__all__ = ["Case", "cases", "need_gpu", "parity"]
