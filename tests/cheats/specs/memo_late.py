from kepler import resident, solver

memo_late = solver(__file__, {"honest": resident, "cheat": resident})
