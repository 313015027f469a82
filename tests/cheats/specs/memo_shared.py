from kepler import in_shared_memory, resident, solver

memo_shared = solver(__file__, {"honest": resident, "cheat": in_shared_memory})
