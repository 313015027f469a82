from kepler import resident, solver

memo_local = solver(__file__, {"honest": resident, "cheat": resident})
