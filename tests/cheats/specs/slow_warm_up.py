from kepler import solver

slow_warm_up = solver(__file__)
