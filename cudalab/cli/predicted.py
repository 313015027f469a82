"""`bench` on a CPU with what `cudalab inspect` predicts, in a process beside the run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cudalab.engine.progress import Progress, Report
    from cudalab.engine.session import Told
    from cudalab.results.record import Machine, Results

OTHER = "--set gives other launch parameters; `cudalab inspect` predicts for those of the spec"


def bench_with_predictions(
    *kernels: str, progress: Report, accept: Told = lambda machine: None, gpus: str = "", ray: str = "",
    every_gpu: bool = False, **options: Any
) -> Results:  # fmt: skip
    """`cudalab.engine.runs.bench`; on a CPU each entry gets a prediction for a card, or why there is none.

    `accept` is told the machine before anything is measured. The next three are those of `cudalab.tools.gpus.asked`.
    """
    from cudalab.engine import runs
    from cudalab.tools.inspect.ahead import Ahead, Request

    session: dict[str, Any] = {}
    if gpus or ray or every_gpu:
        from cudalab.tools.gpus import asked

        session = dict(asked(gpus, ray, every_gpu))
    request = Request(kernels, str(options["sizes"]), str(options["dtypes"]), float(options["timeout"]))
    with Ahead(request) as ahead:

        def ready(machine: Machine) -> None:
            accept(machine)
            if machine.device == "cpu":
                ahead.start(OTHER if options["parameters"] else "")

        def told(event: Progress) -> None:
            ahead.look()
            progress(event)

        run = runs.bench(*kernels, **options, ready=ready, progress=told, while_timed=ahead.paused, **session)
        if run.machine.device == "cpu":
            ahead.add_to(run.cases)
    return run
