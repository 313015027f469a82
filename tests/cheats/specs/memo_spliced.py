from kepler import solver

memo_spliced = solver(__file__)
