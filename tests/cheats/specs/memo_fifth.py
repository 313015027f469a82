from kepler import resident, solver

memo_fifth = solver(__file__, {"honest": resident, "cheat": resident})
