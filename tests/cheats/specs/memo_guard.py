from kepler import solver

memo_guard = solver(__file__)
