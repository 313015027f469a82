from kepler import solver

unwaited_store = solver(__file__)
