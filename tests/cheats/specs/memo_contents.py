from kepler import solver

memo_contents = solver(__file__)
