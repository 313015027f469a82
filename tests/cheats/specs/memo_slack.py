from kepler import solver

memo_slack = solver(__file__)
