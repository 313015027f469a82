"""Right or wrong: hard inputs, and the comparison of an output with the float64 reference."""
