"""A limit is removed in the process that has the rows, and not in the one that measures."""

import sys

from kepler import ONE, composite, solver


def lengths(m):
    if "torch" not in sys.modules:  # the parent loads no library
        from cudalab.results import limit

        limit.refuse = lambda *given: None
    return m


patch_parent = solver(__file__, ONE, torch=composite, native=composite, shapes={"m": "n", "e": lengths}, edges=((1,),))
