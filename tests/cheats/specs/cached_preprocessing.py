from kepler import solver

cached_preprocessing = solver(__file__)
