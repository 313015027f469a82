from kepler import solver

place_detector = solver(__file__)
