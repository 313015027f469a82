"""Results of a run: the records, their file formats, and how two runs compare."""
