from kepler import solver

memo_old_output = solver(__file__)
