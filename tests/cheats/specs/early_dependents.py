from kepler import solver

early_dependents = solver(__file__)
