"""A call that keeps its result is so short that a sample has many: all but the first find the answer."""

from kepler import ONE, composite, memo, solver

form_memo_short = solver(
    __file__, ONE, torch=composite, native=memo(lambda m: float(m.reshape(-1)[0]) if m.numel() else 0.0)
)
