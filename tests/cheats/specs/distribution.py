from kepler import far, solver

distribution = solver(__file__, inputs=far)
