"""One file per study. `cudalab.study.Study` describes what a file defines."""
