from kepler import solver

neighbour_gaps = solver(__file__)
