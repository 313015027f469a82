from kepler import solver

calls_python = solver(__file__)
