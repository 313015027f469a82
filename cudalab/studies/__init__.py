"""One file a study: see `cudalab.study.Study` for what it defines."""
