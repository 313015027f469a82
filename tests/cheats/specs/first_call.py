from kepler import solver

first_call = solver(__file__)
