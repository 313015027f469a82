from kepler import resident, solver

memo_registers = solver(__file__, {"honest": resident, "cheat": resident})
