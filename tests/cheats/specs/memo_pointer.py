from kepler import solver

memo_pointer = solver(__file__)
