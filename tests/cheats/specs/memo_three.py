from kepler import solver

memo_three = solver(__file__)
