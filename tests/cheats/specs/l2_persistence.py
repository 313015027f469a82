from kepler import adder

l2_persistence = adder(__file__)
