"""For a test file of your own: `from cudalab.testing import parity`."""

from cudalab.tools.pytest.cases import parity

__all__ = ["parity"]
