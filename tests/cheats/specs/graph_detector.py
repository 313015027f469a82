from kepler import solver

graph_detector = solver(__file__)
