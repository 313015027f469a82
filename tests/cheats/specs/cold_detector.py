from kepler import solver

cold_detector = solver(__file__)
