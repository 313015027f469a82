"""What is called its own is the library's best call: it is timed as that."""

from kepler import ONE, composite, solver

form_library = solver(__file__, ONE, torch=composite, native=composite)
