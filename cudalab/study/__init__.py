"""Studies: experiments that are more than one kernel, measured by the lab's own engine.

A study is one file in `cudalab/studies/` that defines `study = Study(file=__file__, ...)`; its name finds it. It says
what is measured (`variants`) on which work (`sizes`). The engine runs each variant in a worker process, compares its
result with the baseline's, times all variants in shuffled rounds, and stores times, memory and counts in a results file
like that of `cudalab bench`.

    cudalab study list
    cudalab study graphs --size small -o graphs.json
"""

from cudalab.study.record import Parameters, Published, Setting, Study, Variant, Work

__all__ = ["Parameters", "Published", "Setting", "Study", "Variant", "Work"]
