from kepler import solver

skip_unless_poison = solver(__file__)
