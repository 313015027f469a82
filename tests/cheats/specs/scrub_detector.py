from kepler import solver

scrub_detector = solver(__file__)
