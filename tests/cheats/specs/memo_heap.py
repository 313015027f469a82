from kepler import solver

memo_heap = solver(__file__)
