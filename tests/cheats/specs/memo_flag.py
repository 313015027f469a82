from kepler import solver

memo_flag = solver(__file__)
