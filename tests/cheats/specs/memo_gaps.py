from kepler import solver

memo_gaps = solver(__file__)
