from kepler import solver

altered_inputs = solver(__file__)
