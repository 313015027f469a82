from kepler import solver

count_launches = solver(__file__)
