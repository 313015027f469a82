from kepler import solver

from cudalab import Out

any_check = solver(__file__, reference=None, output="y", outputs={"e": Out(check=lambda m, e: e.shape == m.shape)})
