"""As much of NVBench's Python interface (cuda-bench 0.3) as the lab uses, by the host's clock: for calls, not speed."""

from __future__ import annotations

import json
from time import perf_counter

_REGISTERED = []


class NVBenchRuntimeError(RuntimeError):
    pass


class Benchmark:
    def __init__(self, function):
        self.function, self.name, self.timeout = function, function.__name__, 15.0

    def set_name(self, name):
        self.name = name
        return self

    def set_timeout(self, seconds):
        self.timeout = float(seconds)
        return self


class Launch:
    pass


class State:
    def __init__(self):
        self.stream, self.summaries, self.skip_reason = None, [], ""

    def set_stream(self, provider):
        version, self.stream = provider.__cuda_stream__()
        assert version == 0

    def exec(self, function, /, *, batched=None, sync=False, timer=False):
        assert self.stream, "it would time a stream of its own"
        assert not timer
        tags = ["nv/cold/time/gpu/mean", "nv/cold/time/gpu/median"]
        tags += ["nv/batch/time/gpu/mean"] if batched is not False else []
        for tag in tags:
            start = perf_counter()
            for _ in range(10):
                function(Launch())
            self._add(tag, "float64", str((perf_counter() - start) / 10))
        self._add("test/sync", "int64", str(int(sync)))
        self._add("test/stream", "int64", str(self.stream))

    def _add(self, tag, kind, value):
        self.summaries.append({"tag": tag, "name": tag, "data": [{"name": "value", "type": kind, "value": value}]})


def register(function):
    _REGISTERED.append(Benchmark(function))
    return _REGISTERED[-1]


def run_all_benchmarks(argv):
    assert isinstance(argv, list)
    options = dict(zip(argv[1:-1:2], argv[2::2], strict=True))
    assert (argv[-1], set(options)) == ("--quiet", {"--devices", "--json"}), argv
    found = []
    for benchmark in _REGISTERED:
        state = State()
        try:
            benchmark.function(state)
        except Exception as error:  # as NVBench does: the state is skipped, and the rest goes on
            state.skip_reason = str(error)
        found.append(
            {
                "name": benchmark.name,
                "timeout": benchmark.timeout,
                "states": [
                    {
                        "name": f"Device={options['--devices']}",
                        "is_skipped": bool(state.skip_reason),
                        "skip_reason": state.skip_reason or None,
                        "summaries": state.summaries or None,
                    }
                ],
            }
        )
    with open(options["--json"], "w") as file:
        json.dump({"meta": {}, "devices": [], "benchmarks": found}, file)
