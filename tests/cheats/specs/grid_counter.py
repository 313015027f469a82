from kepler import solver

grid_counter = solver(__file__)
