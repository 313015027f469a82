from kepler import solver

neighbour_fills = solver(__file__)
