from kepler import solver

memo_constant = solver(__file__)
