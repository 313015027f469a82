"""Kill runs with SIGKILL at random moments, and count what is left and what is lost.

    python bench/kill.py --moments 200

Each moment starts a command in folders of its own, kills its process, waits GRACE seconds at most, and looks for
processes of the run, for temporary files, at the results file, and for finished groups that it lacks. The moments of
a command are spread over the time that it takes; half of them are counted from its first finished group on. Every
tenth killed run is resumed to its end.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep

import cudalab
from cudalab.base import cache
from cudalab.base.errors import CudalabError

EXAMPLE = Path(__file__).with_name("examples") / "softmax.py"
GRACE = 2.0  # seconds between the kill and the look, at most
LATE = 0.5  # seconds after a finished group, at most
RESUMED = 10  # every so many moments the run is finished
MARK = "CUDALAB_KILL_MARK"  # in the environment of every process of a moment
ON_CPU = ("--device", "cpu", "--only", "host,numpy")
BENCH = ("bench", *ON_CPU, "--sizes", "8x33,4x5,7x65,3x9", "--budget", "0.05")
COMMANDS = {
    "bench": BENCH,
    "check": ("check", *ON_CPU, "--dtypes", "float32"),
    "sanitize": ("check", *ON_CPU, "--dtypes", "float32", "--sizes", "8x33,4x5", "--sanitize"),
    "resume": BENCH,
}
COMPILE = {"compile": ("bench", "--device", "cpu", "--only", "numpy,torch_compile", "--sizes", "8x33,4x5")}


@dataclass
class Moment:
    """What one killed run has left. `ended`: it was over before its moment came."""

    command: str
    after: float  # seconds
    ended: bool = False
    processes: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    invalid: str = ""
    lost: int = 0  # finished groups
    finished: int = 0


class Place:
    """The folders of one moment. `warm` is a cache that has the compiled code."""

    def __init__(self, folder: Path, warm: Path | None) -> None:
        self.folder, self.out, self.tmp = folder, folder / "out" / "r.json", folder / "tmp"
        for made in (self.out.parent, self.tmp):
            made.mkdir(parents=True)
        self.cache = warm or folder / "cache"
        self.mark = uuid.uuid4().hex

    def start(self, words: tuple[str, ...]) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ, "TMPDIR": str(self.tmp), "CUDALAB_CACHE": str(self.cache), MARK: self.mark,
        }  # fmt: skip
        for name in ("CUDALAB_SCRATCH", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
            environment.pop(name, None)
        given = ("--resume", str(self.out)) if self.out.exists() else ("-o", str(self.out))
        command = [sys.executable, "-m", "cudalab", words[0], str(EXAMPLE), *words[1:], *given]
        with (self.folder / "said").open("wb") as said:
            return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said, env=environment)

    def processes(self) -> dict[int, str]:
        """Processes of this moment that are alive, with their commands."""
        found, mark = {}, f"{MARK}={self.mark}".encode()
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (path / "environ").read_bytes().split(b"\0"):
                    words = (path / "cmdline").read_bytes().split(b"\0")
                    found[int(path.name)] = " ".join(w.decode(errors="replace")[:60] for w in words[:6])
            except OSError:
                continue
        return found

    def files(self) -> list[str]:
        """Files that should not be there."""
        beside = [path for path in self.out.parent.iterdir() if path != self.out]
        temporary = list(self.tmp.iterdir())
        half = [
            path for path in self.cache.rglob("*") if path.name.endswith((".half", ".tmp")) or ".build" in path.name
        ]
        damaged = [path for path in self.cache.glob("host/*") if path not in half and cache.get(path) is None]
        return [str(path) for path in (*beside, *temporary, *half, *damaged)]

    def done(self) -> int:
        """Groups that the run has said are finished."""
        said = re.findall(r"^\[(\d+)/\d+\]", (self.folder / "said").read_text(errors="replace"), re.MULTILINE)
        return int(said[-1]) if said else 0


def seconds(words: tuple[str, ...], folder: Path, warm: Path | None) -> float:
    """How long a command takes that is not killed."""
    place = Place(folder, warm)
    start = monotonic()
    code = place.start(words).wait()
    if code:
        raise SystemExit(f"{' '.join(words)} ended with {code}: {(place.folder / 'said').read_text()}")
    if left := [*place.processes().values(), *place.files()]:
        raise SystemExit(f"{' '.join(words)} left, though it was not killed: {left}")
    return monotonic() - start


def killed(
    command: str, after: float, place: Place, before: Path | None, resumed: bool, begun: bool = False,
    grace: float = GRACE,
) -> Moment:  # fmt: skip
    """Do one moment. `before` is an unfinished run that the command resumes; `resumed`: finish the run afterwards.

    `begun`: the seconds `after` begin when a group is finished.
    """
    words = {**COMMANDS, **COMPILE}[command]
    old = cudalab.load(before).cases if before else []
    if before:
        shutil.copy(before, place.out)
    process = place.start(words)
    while begun and process.poll() is None and not place.done():
        sleep(0.01)
    try:
        process.wait(after)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
    found = Moment(command, after, ended=process.returncode != -signal.SIGKILL)
    until = monotonic() + grace
    while (place.processes() or place.files()) and monotonic() < until:
        sleep(0.02)
    found.processes, found.files = list(place.processes().values()), place.files()
    for pid in place.processes():
        os.kill(pid, signal.SIGKILL)
    found.finished = place.done()
    kept = _cases(place.out, found)
    groups = len({case.group for case in kept})
    found.lost = max(found.finished - groups, 0) + sum(case not in kept for case in old)
    if resumed and not found.invalid:
        code = place.start(words).wait()
        whole = _cases(place.out, found)
        if code or not cudalab.load(place.out).complete or any(case not in whole for case in kept):
            found.invalid = f"resumed, it ended with {code} and has {len(whole)} of {len(kept)} rows"
    return found


def _cases(path: Path, found: Moment) -> list:
    try:
        return list(cudalab.load(path).cases) if path.exists() else []
    except CudalabError as error:
        found.invalid = str(error)
        return []


def moments(
    count: int, seed: int, folder: Path, compile: bool = False, log=lambda found: None, grace: float = GRACE
) -> list[Moment]:  # fmt: skip
    """Kill `count` runs. A third of them begin with an empty cache. `compile`: some are runs with torch.compile."""
    chance = random.Random(seed)
    words = {**COMMANDS, **(COMPILE if compile else {})}
    taken, warm = {}, {}
    for name, given in words.items():
        taken[name, True] = seconds(given, folder / f"{name}-cold", None)
        warm[name] = folder / f"{name}-cold" / "cache"
        taken[name, False] = seconds(given, folder / f"{name}-warm", warm[name])
    before = folder / "begun.json"
    run = cudalab.load(folder / "bench-warm" / "out" / "r.json")
    run.cases, run.complete = [case for case in run.cases if case.size in ("8x33", "4x5")], False
    run.save(before)
    names = [name for name in words for _ in range(1 if name in COMPILE else 4)]
    found = []
    for i in range(count):
        name, cold = names[i % len(names)], chance.random() < 1 / 3
        share = (i // len(names) + chance.random()) / -(-count // len(names))  # each round of `names` has its part
        place = Place(folder / f"moment-{i}", None if cold else warm[name])
        earlier = before if name == "resume" else None
        late = chance.random() < 1 / 2
        after = chance.random() * LATE if late else taken[name, cold] * share
        one = killed(name, after, place, earlier, i % RESUMED == 0 and name not in COMPILE, late, grace)
        log(one)
        found.append(one)
        shutil.rmtree(place.folder)
    return found


def counts(found: list[Moment]) -> dict[str, int]:
    """The sums over all moments."""
    return {
        "moments": len(found),
        "ended before": sum(one.ended for one in found),
        "with finished groups": sum(bool(one.finished) for one in found),
        "processes left": sum(len(one.processes) for one in found),
        "temporary files left": sum(len(one.files) for one in found),
        "results files invalid": sum(bool(one.invalid) for one in found),
        "finished groups or rows lost": sum(one.lost for one in found),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moments", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compile", action="store_true", help="also kill runs with torch.compile")
    given = parser.parse_args()
    number = Counter[str]()

    def log(one: Moment) -> None:
        number[one.command] += 1
        left = "; ".join([*one.processes, *one.files, one.invalid, f"{one.lost} lost" if one.lost else ""]).strip("; ")
        print(f"{sum(number.values()):4} {one.command:9} {one.after:5.2f} s  {left or 'nothing left'}", flush=True)

    with tempfile.TemporaryDirectory(prefix="kill-") as folder:
        found = moments(given.moments, given.seed, Path(folder), given.compile, log)
    for name, count in counts(found).items():
        print(f"{count:5} {name}")
    bad = [one for one in found if one.processes or one.files or one.invalid or one.lost]
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
