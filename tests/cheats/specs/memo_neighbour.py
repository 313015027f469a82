from kepler import solver

memo_neighbour = solver(__file__)
